"""What the engine is asked for and what it holds: plain records, and their lossless form as plain JSON types. Pure.

Owns Wanted and Held, and the writing and reading of orders and tickets for the journal. Must not import the planner or an adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.model.machine import Attempt, Handle, Mark, Node, Order, Setup, Ticket
from providers.model.offer import Candidate, Offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from providers.engine.budget import Budget
    from providers.engine.readiness.wait import Probe
    from providers.model.ask import Ask

Account = tuple[tuple[str, str], ...]
"""Whose cloud account something is in, as the provider's settings say it (project, profile, environment ...): sorted pairs, nothing secret."""

DEGRADED, UNSETTLED = "degraded", "unsettled"
"""Besides the statuses of one machine. degraded: some machines of the cluster are gone. unsettled: something may exist that is not known yet."""


class Wanted(NamedTuple):
    """One cluster of one stack, as declared. `owner` is the stack's random id; `fingerprint` says what the machine is, policy left out.

    `probe` looks at each machine until it is ready (see `providers.engine.readiness.wait`); without one, the cloud's own
    report is enough. `ready` asks the engine for a key of the cluster's own and, where it is `checked`, for a probe with
    it (see `providers.engine.readiness.access`). `budget` is what the stack may still spend this month; None for no limit.
    """

    owner: str
    cluster: str
    ask: Ask
    setup: Setup
    fingerprint: str
    probe: Probe | None = None
    ready: str = ""
    budget: Budget | None = None


class Held(NamedTuple):
    """What a cluster has, as its state keeps it.

    `status` is one of the machine statuses, or degraded, or unsettled. `micro_usd` is all nodes per hour at launch, None when no source had a
    price. `ends_at` is when its own limit ends it, in seconds since the epoch (0: never). `entry` is the index of the ask's entry that it
    serves. `reasons` is non-empty while something is still to be done: half-made, degraded, queued, unsettled. `leftovers` are machines that
    must be deleted and could not be yet. `applied` holds what was last written on the machines of what can be edited in place (digests),
    and the size of the disk.
    `account` is where it was bought; None for a record that does not say.
    """

    world: str
    owner: str
    cluster: str
    generation: str
    fingerprint: str
    status: str
    provider: str = ""
    region: str = ""
    zone: str = ""
    machine_type: str = ""
    gpu_type: str = ""
    gpu_count: int = 0
    nodes: int = 0
    capacity: str = ""
    reservation: str = ""
    micro_usd: int | None = None
    price_as_of: str = ""
    price_source: str = ""
    handles: tuple[Handle, ...] = ()
    machines: tuple[Node, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    launched_at: float = 0.0
    ends_at: float = 0.0
    entry: int = 0
    reasons: tuple[str, ...] = ()
    leftovers: tuple[Handle, ...] = ()
    applied: tuple[tuple[str, str], ...] = ()
    account: Account | None = None
    kind: str = "machine"
    """What it is: machine, job or service."""
    detail: str = ""
    """What the last look found out about the status: what its cloud says, or that the cloud could not be asked."""
    bought: tuple[tuple[str, Any], ...] = ()
    """What was bought, where the machines are something else now: property and former value, sorted, and the former price. See `engine.drift`."""
    to_release: bool = False
    """Done or ended, and what is left of its machines is for the next update to delete. A look says so; nothing else does."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, for state and journal; `from_dict` gives back an equal record."""
        out: dict[str, Any] = dict(self._asdict())
        out["handles"] = [list(handle) for handle in self.handles]
        out["leftovers"] = [list(handle) for handle in self.leftovers]
        out["machines"] = [_node_out(node) for node in self.machines]
        out["attempts"] = [
            {**attempt._asdict(), "zones": list(attempt.zones), "machine_types": list(attempt.machine_types)} for attempt in self.attempts
        ]
        out["reasons"] = list(self.reasons)
        out["applied"] = [list(pair) for pair in self.applied]
        out["account"] = account_out(self.account)
        out["bought"] = [list(pair) for pair in self.bought]
        return out

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Held:
        """Reads `to_dict`'s form; unknown keys are ignored and missing ones take their defaults, so that older and newer records can be read.

        Whole floats are read as integers where a field is one: Pulumi's wire knows only floats.
        """
        known = {name: raw[name] for name in cls._fields if name in raw}
        for name in ("gpu_count", "nodes", "entry"):
            if name in known:
                known[name] = int(known[name])
        for name in ("launched_at", "ends_at"):
            if name in known:
                known[name] = float(known[name])
        if known.get("micro_usd") is not None:
            known["micro_usd"] = int(known["micro_usd"])
        known["handles"] = tuple(Handle(*pair) for pair in raw.get("handles") or ())
        known["leftovers"] = tuple(Handle(*pair) for pair in raw.get("leftovers") or ())
        known["machines"] = tuple(_node_in(item) for item in raw.get("machines") or ())
        known["attempts"] = tuple(_attempt_in(item) for item in raw.get("attempts") or ())
        known["reasons"] = tuple(raw.get("reasons") or ())
        known["applied"] = tuple((str(key), str(value)) for key, value in raw.get("applied") or ())
        known["account"] = account_in(raw.get("account"))
        known["bought"] = bought_in(raw.get("bought") or ())
        return cls(**known)


def account_out(account: Account | None) -> dict[str, str] | None:
    """An account as plain JSON."""
    return None if account is None else dict(account)


def account_in(raw: Mapping[str, Any] | None) -> Account | None:
    """Reads `account_out`'s form."""
    return None if raw is None else tuple(sorted((str(key), str(value)) for key, value in raw.items()))


def bought_in(pairs: Iterable[Iterable[Any]]) -> tuple[tuple[str, Any], ...]:
    """Reads `Held.bought` from plain JSON, where whole numbers may be floats."""
    return tuple(sorted((str(name), int(value) if isinstance(value, float) else value) for name, value in pairs))


def _node_out(node: Node) -> dict[str, Any]:
    mark = None if node.mark is None else list(node.mark)
    return {**node._asdict(), "handle": list(node.handle), "mark": mark, "ports": [list(pair) for pair in node.ports]}


def _node_in(raw: Mapping[str, Any]) -> Node:
    fields = {name: raw[name] for name in Node._fields if name in raw}
    mark = fields.get("mark")
    fields["handle"] = Handle(*fields["handle"])
    fields["mark"] = None if mark is None else Mark(*mark)
    fields["gpu_count"] = int(fields.get("gpu_count", 0))
    fields["created_at"] = float(fields.get("created_at", 0.0))
    fields["ports"] = tuple((int(inside), int(outside)) for inside, outside in fields.get("ports") or ())
    return Node(**fields)


def _attempt_in(raw: Mapping[str, Any]) -> Attempt:
    fields = {name: raw[name] for name in Attempt._fields if name in raw}
    fields["number"] = int(fields["number"])
    fields["zones"] = tuple(fields["zones"])
    fields["machine_types"] = tuple(fields["machine_types"])
    fields["micro_usd"] = None if fields["micro_usd"] is None else int(fields["micro_usd"])
    return Attempt(**fields)


def order_out(order: Order) -> dict[str, Any]:
    """An order as plain JSON types: what `Adapter.resume` needs, from any later process."""
    return {
        "mark": list(order.mark),
        "token": order.token,
        "candidates": [_candidate_out(candidate) for candidate in order.candidates],
        "node_names": list(order.node_names),
        "setup": order.setup._asdict(),
        "wait_s": order.wait_s,
        "max_micro_usd": order.max_micro_usd,
        "joins": [list(handle) for handle in order.joins],
    }


def order_in(raw: Mapping[str, Any]) -> Order:
    """Reads `order_out`'s form. Lists become tuples: an order is a frozen record through and through."""
    setup = {name: _tuples(value) for name, value in raw["setup"].items() if name in Setup._fields}
    return Order(
        Mark(*raw["mark"]),
        raw["token"],
        tuple(_candidate_in(item) for item in raw["candidates"]),
        tuple(raw["node_names"]),
        Setup(**setup),
        int(raw["wait_s"]),
        raw.get("max_micro_usd"),
        tuple(Handle(*pair) for pair in raw.get("joins") or ()),
    )


def ticket_out(ticket: Ticket) -> dict[str, Any]:
    """A ticket without its order, which stands beside it in the journal."""
    return {
        "state": ticket.state,
        "native": [list(pair) for pair in ticket.native],
        "placed": None if ticket.placed is None else _candidate_out(ticket.placed),
        "handles": [list(handle) for handle in ticket.handles],
        "detail": ticket.detail,
    }


def ticket_in(raw: Mapping[str, Any], order: Order) -> Ticket:
    """Reads `ticket_out`'s form."""
    return Ticket(
        order,
        raw["state"],
        tuple((str(key), str(value)) for key, value in raw["native"]),
        None if raw["placed"] is None else _candidate_in(raw["placed"]),
        tuple(Handle(*pair) for pair in raw["handles"]),
        raw["detail"],
    )


def _candidate_out(candidate: Candidate) -> dict[str, Any]:
    return {**candidate._asdict(), "offer": list(candidate.offer)}


def _candidate_in(raw: Mapping[str, Any]) -> Candidate:
    return Candidate(**{**raw, "offer": Offer(*raw["offer"])})


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value
