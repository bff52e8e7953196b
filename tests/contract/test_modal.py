"""Modal, with its own client, keeps the adapter contract against its stand-in."""

import pytest
from grpclib import GRPCError, Status

from providers.adapters.modal import MANIFEST, errors
from providers.errors import CloudError
from providers.model.volume import VolumeSpec
from providers.rehearsal.clouds.modal import console
from providers.testing.contract import Harness, cases


def provoked(code: str) -> CloudError:
    found = errors.classify(GRPCError(Status[code], "any words"), creating=True)
    assert isinstance(found, CloudError)
    return found


HARNESS = Harness(
    MANIFEST,
    console,
    gpu="A10:1",
    edited={"gpu_type": "T4"},
    create=("SandboxCreate",),
    delete="SandboxTerminate",
    provoke=provoked,
    page=50,
    volume=VolumeSpec("data", "modal"),
    volume_create=("VolumeGetOrCreate",),
)


@pytest.mark.parametrize("case", cases(HARNESS), ids=str)
def test_contract(case, contract_home) -> None:
    """Every case of the contract holds."""
    case.run(HARNESS, contract_home)
