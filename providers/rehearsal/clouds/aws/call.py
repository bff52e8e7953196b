"""One call within its transaction, as its handler gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.rehearsal.clouds.aws.wire import Json, Refusal

if TYPE_CHECKING:
    from providers.rehearsal.clouds.aws.state import Rows
    from providers.rehearsal.scenario import Fault


class Call(NamedTuple):
    """One call within its transaction."""

    rows: Rows
    service: str
    operation: str
    region: str
    given: Json
    fault: Fault | None

    @property
    def slower_s(self) -> float:
        """How much longer the scenario makes the work take, in world seconds."""
        return (
            float(str(self.fault.settings.get("seconds", 60)))
            if self.fault and self.fault.kind == "slow"
            else 0.0
        )

    @property
    def planned(self) -> Refusal | None:
        """The failure that the scenario plans for the work itself."""
        if self.fault is None or self.fault.kind != "op-error":
            return None
        return Refusal(
            400,
            str(self.fault.settings.get("code", "InsufficientInstanceCapacity")),
            str(self.fault.settings.get("message", "planned")),
        )
