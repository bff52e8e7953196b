"""One look at a machine: how far it got. Owns the stages and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from providers.model.machine import Node
    from providers.model.placement import Placement

READY = ""
NOT_RUNNING, NO_ADDRESS, CLOSED, NO_LOGIN, NO_DRIVER, WRONG_GPUS = (
    "not-running",
    "no-address",
    "port-closed",
    "no-login",
    "no-driver",
    "wrong-gpus",
)
STAGES = {
    NOT_RUNNING: "not running yet",
    NO_ADDRESS: "no address",
    CLOSED: "port closed",
    NO_LOGIN: "login refused",
    NO_DRIVER: "no driver",
    WRONG_GPUS: "wrong GPUs",
}
"""How far a machine got, in words."""
REACH = (NO_ADDRESS, CLOSED, NO_LOGIN)
"""The stages that say more of the way to a machine than of the machine."""


class ProbeResult(NamedTuple):
    """What one look at a machine found: how far it got, and what is in the way. `final`: waiting
    does not help. `note` is what the user should know besides: of a machine though it is ready, or
    of what to do if it never is.
    """

    stage: str = READY
    detail: str = ""
    final: bool = False
    note: str = ""

    def __str__(self) -> str:
        return ": ".join(text for text in (STAGES.get(self.stage, self.stage), self.detail) if text)


class Ordered(Protocol):
    """What was ordered at a place: a candidate, or a cluster's record."""

    @property
    def provider(self) -> str: ...
    @property
    def placement(self) -> Placement: ...
    @property
    def kind(self) -> str: ...


class Probe(Protocol):
    """Looks once at a running machine, whose node has just been observed. Never raises for what a
    machine or a network can do.
    """

    async def __call__(self, node: Node, placed: Ordered) -> ProbeResult: ...
