"""Machines of one's own, with the program that runs on them, keep the adapter contract."""

import pytest

from providers.adapters.ssh import MANIFEST, errors
from providers.rehearsal.clouds.ssh import box, console
from providers.testing.contract import Harness, cases


def raise_price(store, candidate) -> None:
    for each in box.BOXES:
        if candidate.zone in {"", each.name}:
            box.reprice(store, each, 1_000.0)


HARNESS = Harness(
    MANIFEST,
    console,
    gpu="RTX-4090:1",
    create=("take",),
    delete="release",
    provoke=lambda code: errors.error(code, creating=True),
    raise_price=raise_price,
    settings={"inventory": "rehearsal"},
)


@pytest.mark.parametrize("case", cases(HARNESS), ids=str)
def test_contract(case, contract_home) -> None:
    """Every case of the contract holds."""
    case.run(HARNESS, contract_home)
