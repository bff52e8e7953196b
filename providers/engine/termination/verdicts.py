"""What a machine with our label is to the states that could be read: claimed, unclaimed, in use,
or unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from providers.engine.journal import owners as owner_table
    from providers.engine.record import Account
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle, Label
CLAIMED, UNCLAIMED, IN_USE, PENDING, ELSEWHERE, UNKNOWN, NOT_OURS = (
    "claimed",
    "unclaimed",
    "in use",
    "pending",
    "elsewhere",
    "unknown",
    "not ours",
)
"""claimed: a state names it. unclaimed: ours, and no state names it. in use: a live process works
on it or with it. pending: a stack's run that was cut short was making it. elsewhere: of a stack
that was last seen in another backend. unknown: ours, but some state could not be read. not ours: of
an owner that neither the states nor this machine know.
"""
VERDICTS = (UNCLAIMED, UNKNOWN, IN_USE, PENDING, ELSEWHERE, NOT_OURS, CLAIMED)


class Claims(NamedTuple):
    """What the states of one backend say of one world; each value is the stack that says so.

    `generations` by (owner, cluster, generation); `pending` by (owner, cluster): creates that were
    cut short. `settings` are all that the stacks have ever had. `unread` names the states that
    could not be read.
    """

    backend: str = ""
    owners: Mapping[str, str] = {}
    generations: Mapping[tuple[str, str, str], str] = {}
    handles: Mapping[Handle, str] = {}
    pending: Mapping[tuple[str, str], str] = {}
    settings: tuple[Mapping[str, Mapping[str, str]], ...] = ()
    unread: tuple[str, ...] = ()
    volumes: Mapping[Handle, str] = {}


class SweptMachine(NamedTuple):
    """One machine, or one order whose outcome is not known (`status` is `unsettled`, `native_id`
    its token).

    `micro_usd` is for this one, per hour; None where no source knows. `stack` is `project/stack`,
    or empty. `why` says how the verdict came about.
    """

    handle: Handle
    verdict: str
    why: str
    status: str
    label: Label
    stack: str = ""
    gpu: str = ""
    where: str = ""
    created_at: float = 0.0
    micro_usd: int | None = None
    price_source: str = ""
    account: Account | None = None


def stack_of(owner: str, claims: Claims, known: Mapping[str, owner_table.OwnerRow]) -> str:
    """`project/stack` of an owner, or nothing."""
    if owner in claims.owners:
        return claims.owners[owner]
    met = known.get(owner)
    return f"{met.project}/{met.stack}" if met is not None and met.stack else ""


def verdict_of(
    world: World,
    handle: Handle,
    label: Label,
    claims: Claims,
    known: Mapping[str, owner_table.OwnerRow],
    adhoc: str,
    ours: Collection[str],
) -> tuple[str, str]:
    """The verdict on a machine, and why."""
    if handle in claims.handles or label[:3] in claims.generations:
        return CLAIMED, f"claimed by {claims.handles.get(handle) or claims.generations[label[:3]]}"
    if not label.owner or label.owner not in ours:
        return (
            NOT_OURS,
            (
                f"owner {label.owner or 'not told'}: neither a state of this backend nor this"
                " machine's journal knows it"
            ),
        )
    if world.has_journal:
        for owner in (label.owner, f"{label.owner}/use"):
            process = world.journal.holder(world.name, owner, label.cluster)
            if process is not None:
                return (
                    IN_USE,
                    f"process {process} is at work {'on' if owner == label.owner else 'with'} it",
                )
    if label.owner == adhoc and world.has_journal and not world.journal.whole:
        return (
            UNKNOWN,
            (
                "whether a process uses it is not known, since the journal cannot be read: `gpus"
                f" release {label.cluster}` ends it"
            ),
        )
    if label.owner == adhoc:
        return UNCLAIMED, f"ad hoc {label.cluster or 'cluster'}, used by no process"
    if label[:2] in claims.pending:
        stack = claims.pending[label[:2]]
        return (
            PENDING,
            (
                f"a run of {stack} was cut short while it made this: `pulumi cancel`, then up takes"
                " it over and destroy removes it"
            ),
        )
    if claims.unread:
        return (
            UNKNOWN,
            f"whether a state claims it is not known: {', '.join(claims.unread)} could not be read",
        )
    met = known.get(label.owner)
    if met is not None and met.backend and met.backend != claims.backend:
        # Also where a state here names its owner: it was copied or moved, and has not run here yet.
        return ELSEWHERE, f"of {met.project}/{met.stack} in {met.backend}: sweep with that backend"
    if label.owner in claims.owners:
        return UNCLAIMED, f"of {claims.owners[label.owner]}, of which no cluster claims it"
    return UNCLAIMED, "no stack has its owner any more" + (
        f" (it was {met.project}/{met.stack})" if met is not None and met.stack else ""
    )
