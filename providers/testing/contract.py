"""The contract that every adapter keeps, as cases that run against its stand-in: of this package or
of another one.

Owns the list of cases and the running of one. An adapter's test is a harness and a few lines:

    HARNESS = Harness(MANIFEST, console, "L4:1", ("*nstances.*nsert",), "instances.delete", provoke)

    @pytest.mark.parametrize("case", cases(HARNESS), ids=str)
    def test_contract(case, tmp_path):
        case.run(HARNESS, tmp_path)

Declared capabilities are tested; for an undeclared one the case is its refusal at plan time. After
every case nothing may be left that costs money, asked of the stand-in's own state. Needs no pytest,
no network beyond loopback, no credentials, no real time. Must not import a cloud's folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.testing import (
    block_cases,
    drift_cases,
    fault_cases,
    life_cases,
    money_cases,
    volume_cases,
)
from providers.testing.bench import Bench, environment
from providers.testing.harness import Harness, Knobs, StandIn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Case", "Harness", "Knobs", "StandIn", "cases"]


class Case(NamedTuple):
    """One rule. `str(case)` is its name, `rule` its sentence."""

    body: Callable[[Bench], None]

    @property
    def rule(self) -> str:
        """What is demanded."""
        return " ".join((self.body.__doc__ or "").partition("\n\n")[0].split())

    def __str__(self) -> str:
        return self.body.__name__

    def run(self, harness: Harness, folder: Path) -> None:
        """Runs the case with all state in `folder` (which cases may share: each begins anew there).
        Raises AssertionError, worth reading.
        """
        from providers.home import JOURNAL_FILE
        from providers.rehearsal.store import open_store

        with environment({"GPUS_HOME": str(folder)}):
            for file in folder.glob(f"{JOURNAL_FILE}*"):
                file.unlink()
            store = open_store()
            store.reset()
            bench = Bench(harness, store)
            try:
                self.body(bench)
                bench.clean()
            finally:
                bench.close()
                store.close()


def cases(harness: Harness) -> list[Case]:
    """The cases that concern this adapter, in a stable order."""
    return [
        Case(body)
        for module in (
            life_cases,
            fault_cases,
            money_cases,
            drift_cases,
            volume_cases,
            block_cases,
        )
        for body in module.cases(harness)
    ]
