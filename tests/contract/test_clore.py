"""Clore, with its own HTTP client, keeps the adapter contract against its stand-in."""

import pytest

from providers.adapters.clore import MANIFEST, errors
from providers.errors import InsufficientFunds
from providers.rehearsal.clouds.clore import console, server
from providers.rehearsal.clouds.clore.state import State
from providers.testing.contract import Harness, cases


def raise_price(store, candidate) -> None:
    prices = dict.fromkeys(("bitcoin", "CLORE-Blockchain", "USD-Blockchain"), 1000000000.0)
    State(store).change(
        int(candidate.machine_type.removeprefix("server-")), price={"on_demand": prices}
    )


HARNESS = Harness(
    MANIFEST,
    console,
    gpu="RTX-4090:2",
    create=("create_order",),
    delete="cancel_order",
    provoke=lambda code: errors.error(code, creating=True),
    limit=InsufficientFunds,
    raise_price=raise_price,
    edited={"gpu_count": 1},
)


@pytest.mark.parametrize("case", cases(HARNESS), ids=str)
def test_contract(case, contract_home, monkeypatch) -> None:
    """Every case of the contract holds."""
    # The pace has tests of its own, with its own clock: a busy machine's jitter must not be refused
    # here.
    monkeypatch.setattr(server, "TOLERANCE", 0.0)
    case.run(HARNESS, contract_home)
