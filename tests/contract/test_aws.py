"""EC2, with boto3, keeps the adapter contract against its stand-in."""

import pytest

from providers.adapters.aws import MANIFEST, error_codes, errors
from providers.model.volume import VolumeSpec
from providers.rehearsal.clouds.aws import blocks, capacity_calls, console
from providers.rehearsal.clouds.aws.state import SCHEMA, Rows
from providers.testing.contract import Harness, cases

CONTEXT = errors.Context("a test", creating=True)


def provoke(code):
    if code in error_codes.STATE_REASONS:
        return errors.from_state({"Code": code}, CONTEXT, ())
    return errors.from_response({"Error": {"Code": code}}, CONTEXT)


def reserve(store, place) -> str:
    store.tables(SCHEMA)  # the user's account is there before anything was ordered in it
    with store.transaction() as db:
        capacity_calls.own_reservation(
            Rows(store, db, store.now()), place.zone, place.machine_type, 1, {"Name": "mine"}
        )
    return "mine"


def paid(store) -> list[str]:
    with store.transaction() as db:
        return [name for name, _ in blocks.paid(Rows(store, db, store.now()))]


HARNESS = Harness(
    MANIFEST,
    console,
    gpu="A10G:1",
    create=("ec2.CreateFleet", "ec2.RunInstances"),
    delete="ec2.TerminateInstances",
    provoke=provoke,
    edited={"machine_type": "g4dn.xlarge", "gpu_type": "T4"},
    page=500,
    regions=("us-east-1", "us-east-2"),
    settings={"regions": "us-east-1,us-east-2"},
    reserve=reserve,
    offline={"AWS_EC2_METADATA_DISABLED": "true"},
    volume=VolumeSpec("data", "aws", "use1-az4", 200, "gp3", "us-east-1"),
    volume_create=("ec2.CreateVolume",),
    block="H100:8",
    block_create=("ec2.PurchaseCapacityBlock",),
    blocks_paid=paid,
)


@pytest.mark.parametrize("case", cases(HARNESS), ids=str)
def test_contract(case, contract_home) -> None:
    """Every case of the contract holds."""
    case.run(HARNESS, contract_home)
