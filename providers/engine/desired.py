"""What is asked for: one cluster of one stack, as declared. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from providers.engine.budget import Budget
    from providers.model.ask import Ask
    from providers.model.machine import Setup
    from providers.model.offer import Candidate
    from providers.remote.probe import Probe


def limit_of(spec: ClusterSpec, candidate: Candidate) -> int | None:
    """How long what is bought may live by the declaration, in seconds; None for no limit."""
    return ttl(spec, candidate.entry)


def ttl(spec: ClusterSpec, entry: int) -> int | None:
    """The time limit of that entry, in seconds; None for none."""
    own = spec.ask.entries[entry].ttl_s if 0 <= entry < len(spec.ask.entries) else None
    return spec.setup.ttl_s if own is None else own


class Acquire(NamedTuple):
    """How long a search for capacity goes on, in seconds. `asked` tells one declaration from
    another.
    """

    within_s: float
    asked: str


class ClusterSpec(NamedTuple):
    """One cluster of one stack, as declared. `owner` is the stack's random id; `fingerprint` says
    what the machine is, policy left out.

    `probe` looks at each machine until it is ready (see `providers.engine.readiness.wait`); without
    one, the cloud's own report is enough. `ready` asks the engine for a key of the cluster's own
    and, where it is `checked`, for a probe with it (see `providers.engine.readiness.access`).
    `accept` is `off`, or how the machines are measured before they count as launched (see
    `providers.engine.readiness.acceptance`). `budget` is what the stack may still spend this month;
    None for no limit. `acquire`: where every place is sold out, it waits for capacity. `hedge`: how
    many providers are asked at once, 1 or 2. `patient`: its caller tries it again by itself.
    """

    owner: str
    cluster: str
    ask: Ask
    setup: Setup
    fingerprint: str
    probe: Probe | None = None
    ready: str = ""
    budget: Budget | None = None
    accept: str = "off"
    acquire: Acquire | None = None
    hedge: int = 1
    patient: bool = False

    @property
    def is_search(self) -> bool:
        """Whether it is tried again and again until there is room."""
        return self.patient or self.acquire is not None
