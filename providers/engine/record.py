"""The record of a cluster, as the state keeps it, and what can be said from it alone. Pure.

Owns ClusterRecord, its lossless form as plain JSON types, and the predicates on it. Must not import
the planner or an adapter.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.model.machine import (
    ENDED,
    FAILED,
    PENDING,
    QUEUED,
    RUNNING,
    STARTING,
    Attempt,
    Handle,
    Label,
    Node,
    Setup,
)
from providers.model.placement import Placement, Price
from providers.model.workload import RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from providers.model.machine import Setup
    from providers.model.offer import Term

Account = tuple[tuple[str, str], ...]
"""Whose cloud account something is in, as the provider's settings say it (project, profile,
environment ...): sorted pairs, nothing secret.
"""

DEGRADED, UNSETTLED = "degraded", "unsettled"
"""Besides the statuses of one machine. degraded: some machines of the cluster are gone. unsettled:
something may exist that is not known yet.
"""

WAITING, GAVE_UP = "waiting", "gave-up"
"""Nothing runs. waiting: every place is sold out, and they are asked again. gave-up: the time for
that is over.
"""
SEARCHING = (WAITING, GAVE_UP)

DONE = (ENDED, FAILED)
"""How a job ends. It is done then, well or not: nothing is bought for it again."""
HEALTHY = (PENDING, QUEUED, STARTING, RUNNING)
BILLED = (PENDING, STARTING, RUNNING, DEGRADED, UNSETTLED)
"""The statuses in which machines are billed at their price. What is stopped or ended costs its
disks at most, and that is unknown.
"""
WORK, ON_DONE = "work", "on_done"
"""In `ClusterRecord.applied`: the digest of what runs there, and what becomes of the machine once
it is done.
"""
DISK = "disk_gib"
"""In `ClusterRecord.applied`: the size of the disk that was bought; not there for the default one.
"""
ENDS_SLACK_S = 180.0
"""A machine that is gone this shortly before its limit counts as ended by it: clouds count from the
start of the creation, and round.
"""
UNTOLD = "untold"
"""In `ClusterRecord.applied`: there where a replica does not know all others yet, or a machine has
not the workload that is declared.
"""
_PRICE = {"micro_usd": "micro_usd", "as_of": "price_as_of", "source": "price_source"}
"""The fields of a price, and their names in states and journals."""
_LABEL = "mark"
"""The stored name of a machine's label, which earlier versions wrote and read too."""
_NATIVE = frozenset({"terminated", "stopped", "stopping", "shutting-down", "running", "deleted"})
"""Statuses as clouds name them, which say no more than the product's own words for them."""


class Search(NamedTuple):
    """A search for capacity, of a cluster that waits for it. Times are in seconds since the epoch.

    `until`: when it is given up. `tries`: how many places refused, in how many `rounds`, the last
    of which was at `tried_at`. `next_at`: when the first place is asked again, and `where` that is.
    `asked` tells the declaration.
    """

    since: float
    until: float
    asked: str
    tries: int = 0
    rounds: int = 0
    tried_at: float = 0.0
    next_at: float = 0.0
    where: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, in whole seconds; `from_dict` reads it."""
        return {
            name: round(value) if isinstance(value, float) else value
            for name, value in self._asdict().items()
            if value
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any] | None) -> Search | None:
        """Reads `to_dict`'s form, of which Pulumi's wire makes floats; None for none."""
        if not raw:
            return None
        found = {
            name: type(default)(raw.get(name) or default)
            for name, default in cls(0.0, 0.0, "")._asdict().items()
        }
        return cls(**found)


class ClusterRecord(NamedTuple):
    """What a cluster has, as its state keeps it.

    `status` is one of the machine statuses, or degraded, or unsettled. `price` is that at launch.
    `ends_at` is when its own limit ends it, in seconds since the epoch (0: never). `entry` is the
    index of the ask's entry that it serves.
    `reasons` is non-empty while something is still to be done: half-made, degraded, queued,
    unsettled. `leftovers` are machines that must be deleted and could not be yet. `applied` holds
    what was last written on the machines of what can be edited in place (digests), and the size of
    the disk. `account` is where it was bought; None for a record that does not say.
    """

    world: str
    owner: str
    cluster: str
    generation: str
    fingerprint: str
    status: str
    placement: Placement = Placement()
    price: Price = Price()
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
    """What the last look found out about the status: what its cloud says, or that the cloud could
    not be asked.
    """
    bought: tuple[tuple[str, Any], ...] = ()
    """What was bought, where the machines are something else now: property and previous value,
    sorted, and the previous price, by the names of `terms`. See `reconcile.drift`.
    """
    to_release: bool = False
    """Done or ended, and what is left of its machines is for the next update to delete. A look says
    so; nothing else does.
    """
    search: Search | None = None
    """Of a cluster that waits for capacity, or has given up."""

    @property
    def provider(self) -> str:
        """Whose machines they are."""
        return self.placement.provider

    def terms(self) -> dict[str, Any]:
        """Placement and price in one, by the names that states and journals have for them."""
        price = {_PRICE[name]: value for name, value in self.price._asdict().items()}
        return self.placement._asdict() | price

    def with_terms(self, values: Mapping[str, Any]) -> ClusterRecord:
        """The record with these of its `terms` changed; other names are ignored."""
        placement = {name: values[name] for name in Placement._fields if name in values}
        price = {name: values[key] for name, key in _PRICE.items() if key in values}
        return self._replace(
            placement=self.placement._replace(**placement), price=self.price._replace(**price)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, for state and journal; `from_dict` gives back an equal record."""
        out: dict[str, Any] = self._asdict() | self.terms()
        del out["placement"], out["price"]
        out["handles"] = [list(handle) for handle in self.handles]
        out["leftovers"] = [list(handle) for handle in self.leftovers]
        out["machines"] = [_node_out(node) for node in self.machines]
        out["attempts"] = [
            {
                **attempt._asdict(),
                "zones": list(attempt.zones),
                "machine_types": list(attempt.machine_types),
            }
            for attempt in self.attempts
        ]
        out["reasons"] = list(self.reasons)
        out["applied"] = [list(pair) for pair in self.applied]
        out["account"] = account_out(self.account)
        out["bought"] = [list(pair) for pair in self.bought]
        if self.search is None:
            del out["search"]
        else:
            out["search"] = self.search.to_dict()
        return out

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> ClusterRecord:
        """Reads `to_dict`'s form; unknown keys are ignored and missing ones take their defaults, so
        that older and newer records can be read.

        Whole floats are read as integers where a field is one: Pulumi's wire knows only floats.
        """
        known = dict(raw)
        for name in ("gpu_count", "nodes", "entry", "micro_usd"):
            if known.get(name) is not None:
                known[name] = int(known[name])
        for name in ("launched_at", "ends_at"):
            if name in known:
                known[name] = float(known[name])
        known["handles"] = tuple(Handle(*pair) for pair in raw.get("handles") or ())
        known["leftovers"] = tuple(Handle(*pair) for pair in raw.get("leftovers") or ())
        known["machines"] = tuple(_node_in(item) for item in raw.get("machines") or ())
        known["attempts"] = tuple(_attempt_in(item) for item in raw.get("attempts") or ())
        known["reasons"] = tuple(raw.get("reasons") or ())
        known["applied"] = tuple((str(key), str(value)) for key, value in raw.get("applied") or ())
        known["account"] = account_in(raw.get("account"))
        known["bought"] = bought_in(raw.get("bought") or ())
        known["search"] = Search.from_dict(raw.get("search"))
        own = {name: known[name] for name in cls._fields if name in known}
        return cls(**own).with_terms(known)


def account_out(account: Account | None) -> dict[str, str] | None:
    """An account as plain JSON."""
    return None if account is None else dict(account)


def account_in(raw: Mapping[str, Any] | None) -> Account | None:
    """Reads `account_out`'s form."""
    return (
        None if raw is None else tuple(sorted((str(key), str(value)) for key, value in raw.items()))
    )


def bought_in(pairs: Iterable[Iterable[Any]]) -> tuple[tuple[str, Any], ...]:
    """Reads `ClusterRecord.bought` from plain JSON, where whole numbers may be floats."""
    return tuple(
        sorted(
            (str(name), int(value) if isinstance(value, float) else value) for name, value in pairs
        )
    )


def _node_out(node: Node) -> dict[str, Any]:
    fields = node._asdict()
    label = fields.pop("label")
    if not node.closed:
        del fields["closed"]
    return {
        **fields,
        "handle": list(node.handle),
        _LABEL: None if label is None else list(label),
        "ports": [list(pair) for pair in node.ports],
    }


def _node_in(raw: Mapping[str, Any]) -> Node:
    fields = {name: raw[name] for name in Node._fields if name in raw}
    label = raw.get(_LABEL)
    fields["label"] = None if label is None else Label(*label)
    fields["handle"] = Handle(*fields["handle"])
    fields["gpu_count"] = int(fields.get("gpu_count", 0))
    fields["created_at"] = float(fields.get("created_at", 0.0))
    fields["ports"] = tuple(
        (int(inside), int(outside)) for inside, outside in fields.get("ports") or ()
    )
    return Node(**fields)


def _attempt_in(raw: Mapping[str, Any]) -> Attempt:
    fields = {name: raw[name] for name in Attempt._fields if name in raw}
    fields["number"] = int(fields["number"])
    fields["zones"] = tuple(fields["zones"])
    fields["machine_types"] = tuple(fields["machine_types"])
    fields["micro_usd"] = None if fields["micro_usd"] is None else int(fields["micro_usd"])
    return Attempt(**fields)


def healthy(kind: str) -> tuple[str, ...]:
    """The statuses in which nothing is wrong with one of this kind."""
    return (*HEALTHY, *DONE) if kind == "job" else HEALTHY


def ended_itself(node: Node, kind: str) -> bool:
    """Whether it is a job's and is gone because that is done."""
    return kind == "job" and node.ended


def works(record: ClusterRecord) -> bool:
    """True where a start-up script of ours runs what it is for."""
    return bool(dict(record.applied).get(WORK))


def finished(record: ClusterRecord) -> bool:
    """True for a job that has ended, well or not."""
    return record.kind == "job" and record.status in DONE


def kept_stopped(record: ClusterRecord) -> bool:
    """True when its machines were stopped because the declaration said so."""
    return bool(dict(record.applied).get("state"))


def to_release(record: ClusterRecord) -> bool:
    """True for a job's machines that are still there though it is done, and need not stay."""
    return (
        finished(record)
        and works(record)
        and bool(record.machines)
        and dict(record.applied).get(ON_DONE) == RELEASE
    )


def runs_on(record: ClusterRecord, ends_itself: str) -> bool:
    """True for a job that is over while its machines cost what they did: they are kept, their cloud
    has no way to end itself from inside (`Programs.ends_itself`), or what the job saved last did
    not arrive.
    """
    from providers.workloads.launch.start_script import UNSAVED

    if not (finished(record) and works(record)):
        return False
    return (
        dict(record.applied).get(ON_DONE) != RELEASE
        or not ends_itself
        or record.detail == f"exit code {UNSAVED}"
    )


def applied(setup: Setup, kind: str = "machine") -> tuple[tuple[str, str], ...]:
    """Digests of what can be edited in place, as it stands on the machines; an empty one where
    nothing is set. And the disk, which no edit changes.

    `setup.options` holds the section of the provider it runs at alone.
    """
    values: dict[str, object] = {
        "labels": dict(setup.labels),
        "ssh_key": [setup.ssh_user, setup.ssh_public_key] if setup.ssh_public_key else "",
        "ttl": [setup.ttl_s, setup.on_ttl] if setup.ttl_s else "",
        "state": setup.state if setup.state != RUNNING else "",
    }
    if kind == "service" and not setup.script_digest:
        values["service"] = [
            [list(pair) for pair in setup.options],
            setup.expose,
            *([list(setup.secrets)] if setup.secrets else []),
        ]
    import hashlib

    texts = {
        name: json.dumps(value, sort_keys=True, default=str) if value else ""
        for name, value in values.items()
    }
    found = {
        name: hashlib.sha256(text.encode()).hexdigest()[:12] if text else ""
        for name, text in texts.items()
    }
    # As they are: they are read again.
    if setup.disk_gib is not None:
        found[DISK] = str(setup.disk_gib)
    if setup.script_digest:
        found |= {WORK: setup.script_digest, ON_DONE: setup.on_done}
    return tuple(sorted(found.items()))


def limit_at(launched: float, ttl_s: int | None, term: Term | None) -> float:
    """When what was launched then is ended by its own limit: its ttl, or the end of the window that
    it was bought for; 0 for never.
    """
    ends = [launched + ttl_s] if ttl_s else []
    return min([*ends, term.ends_at] if term is not None else ends, default=0.0)


def began(nodes: Iterable[Node], now: float, otherwise: float) -> float:
    """When the first of the machines was made, as their cloud says. A moment that cannot be, such
    as one still to come, is none: what they cost is counted from it.
    """
    return min(
        (node.created_at for node in nodes if 0 < node.created_at <= now + ENDS_SLACK_S),
        default=otherwise,
    )


def status_of(nodes: Sequence[Node]) -> str:
    """The status of machines that all exist and are well: the least far one's."""
    return next(
        (
            status
            for status in (QUEUED, PENDING, STARTING)
            if any(node.status == status for node in nodes)
        ),
        RUNNING,
    )


def says_more(node: Node) -> bool:
    """True where the cloud's words say more than its own name of the status does."""
    return (
        bool(node.detail)
        and node.detail.casefold() not in {node.status, *_NATIVE}
        and "://" not in node.detail
    )


def became(node: Node) -> str:
    """What became of a machine that is not well: its status, and what its cloud says of it where
    that is more.
    """
    return f"{node.status} ({node.detail})" if says_more(node) else node.status
