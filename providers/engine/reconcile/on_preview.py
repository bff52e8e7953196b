"""The preview columns of `steps.STEPS`: what an `up` comes to in each condition, in words, and
whether it replaces what runs. Pure: works from the state's record alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine.messages import moment, rerun_command
from providers.engine.reconcile import drift
from providers.engine.reconcile.status import REPLACE_ALL, REPLACE_NODE, REPORT
from providers.model import duration
from providers.model.machine import ENDED, STOPPED
from providers.model.money import per_hour

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.engine.record import ClusterRecord

NOTHING = "no change"
"""What a change begins with that changes nothing."""
_STAYS = " stays, at "


class PreviewCase(NamedTuple):
    """`new_micro_usd` is what the plan's first place costs per hour; None where that is unknown or
    there is none. `on_loss` and `on_ttl` are the declaration's.
    """

    record: ClusterRecord
    new_micro_usd: int | None = None
    on_loss: str = REPLACE_ALL
    on_ttl: str = "release"
    replicas: int = 0
    """How many are declared; 0 for what is no service of several."""
    edited: bool = False
    """Whether the declaration was edited."""
    stops: bool = False
    """Whether the declaration has the machines stopped."""

    @property
    def acts(self) -> bool:
        """Whether an `up` does what the row's update says, and has it running."""
        return not self.stops and (self.edited or bool(self.record.reasons))


class DiffCase(NamedTuple):
    """`stops`: the declaration has it stopped. `satisfied` says whether what runs, as it is now,
    serves the declaration; it is asked only if that decides.
    """

    record: ClusterRecord
    on_loss: str
    stops: bool
    satisfied: Callable[[], bool]


class Difference(NamedTuple):
    """What a diff shows of a condition where no edit does: outputs that change, whether that
    replaces the cluster, and because of what.
    """

    outputs: tuple[str, ...] = ()
    replaces: bool = False
    because: str = ""


def what(record: ClusterRecord) -> str:
    """`gcp us-central1-a a3-highgpu-8g H100:8 spot`."""
    place = record.placement
    machine = f"{place.times}{place.machine}"
    parts = (place.provider, place.where, machine, place.gpu, place.capacity)
    return " ".join(part for part in parts if part)


def kept(text: str) -> str:
    """What a change that changes nothing keeps, in words; empty for any other change."""
    stays = text.removeprefix(f"{NOTHING}: ").replace(_STAYS, ", at ", 1)
    return stays if text.startswith(NOTHING) else ""


# What an `up` comes to that does not replace it


def stays(case: PreviewCase) -> str:
    """What stays, and what that costs; where something is still to be done, what that is."""
    record = case.record
    if record.reasons:
        return _still(record)
    if case.replicas not in (0, record.placement.nodes):
        return _resized(case)
    return f"{NOTHING}: {what(record)}{_STAYS}{_cost(record)}"


def redeployed(case: PreviewCase) -> str:
    """What is deployed again where it runs; its reason says what differs."""
    record = case.record
    if not record.reasons:
        return stays(case)
    return f"REDEPLOYS {what(record)} in place: {record.reasons[0]}; {_cost(record)} as before"


def bought_again(case: PreviewCase) -> str:
    """What is released first, and what the new one costs; where it is to be stopped, that it can't
    be.
    """
    record = case.record
    if case.stops:
        return f"fails: {what(record)} is {record.status}, and can't be stopped"
    why = f" ({record.reasons[0]})" if record.reasons else ""
    new = per_hour(case.new_micro_usd)
    return f"RELEASES what is left of {what(record)}{why}, then buys by the plan: {new}"


def _resized(case: PreviewCase) -> str:
    """How many replicas come beside those that serve, or go."""
    record, wanted = case.record, case.replicas
    nodes, now = record.placement.nodes, record.price.micro_usd
    then = per_hour(None if now is None else now * wanted // nodes)
    what_changes = (
        f"ADDS {wanted - nodes} in {record.placement.region}, beside the {nodes} that"
        if wanted > nodes
        else f"RELEASES {nodes - wanted} of the {nodes} replicas that"
    )
    return f"{what_changes} serve; then about {then}"


def stays_drifted(case: PreviewCase) -> str:
    """What changed at the provider, and what it costs now."""
    record = case.record
    if record.reasons:
        return _still(record)
    now = _cost(record)
    return f"{NOTHING}: {what(record)}{_STAYS}{now} now: {drift.text(record)}"


def repaired(case: PreviewCase) -> str:
    """What `on_loss` does about machines that are lost, and what that comes to."""
    record, now = case.record, _cost(case.record)
    if not record.reasons:
        return f"{NOTHING}: {what(record)} is degraded, and `on_loss: report` leaves it so"
    if case.on_loss == REPLACE_NODE:
        return (
            f"{record.detail}: gets as many again in {record.placement.where}, beside the"
            f" rest; {now} for all of it"
        )
    return (
        f"REPLACES {what(record)} ({now}), of which {record.detail}:"
        " the rest is deleted first; then"
        f" {per_hour(case.new_micro_usd)}"
    )


def stays_stopped(case: PreviewCase) -> str:
    """What a stopped machine costs."""
    if case.record.status != STOPPED:
        return stays(case)
    return f"{NOTHING}: {what(case.record)} is stopped, only its disks are billed"


def stays_halted(case: PreviewCase) -> str:
    """What it costs, stopped and not by the declaration; what an edit of it takes away."""
    return replaced(case) if case.acts else stays_stopped(case)


def stays_failed(case: PreviewCase) -> str:
    """That nothing is done about it; what an edit of it takes away."""
    if case.acts:
        return replaced(case)
    if case.record.reasons:
        return _still(case.record)
    cost = _cost(case.record)
    failed = f"{what(case.record)} has failed and stays"
    return f"{NOTHING}: {failed}, at {cost}; {rerun_command(case.record.cluster)} gets a new one"


def stays_ended(case: PreviewCase) -> str:
    """When its limit ended it, and how to get a new one."""
    disk = "; its disk is kept, and billed, until then or destroy" if case.on_ttl == "keep" else ""
    at, again = _ended_at(case.record), rerun_command(case.record.cluster)
    return f"{NOTHING}: it ended{at} by its ttl; {again} gets a new one{disk}"


def stays_done(case: PreviewCase) -> str:
    """How the job ended."""
    how = "has succeeded" if case.record.status == ENDED else "has failed"
    again = rerun_command(case.record.cluster)
    return f"{NOTHING}: the job {how}, nothing runs; {again} starts another"


def looks_again(case: PreviewCase) -> str:
    """When the next place is asked, and until when."""
    search = case.record.search
    when = (
        f": next look {moment(search.next_at)}, gives up {moment(search.until)}" if search else ""
    )
    return f"still looking{when}; nothing runs, nothing is billed"


def given_up(case: PreviewCase) -> str:
    """That nothing is asked, and what looks again."""
    why = f" ({case.record.detail})" if case.record.detail else ""
    return f"{NOTHING}: gave up{why}; an edit, or {rerun_command(case.record.cluster)}, looks again"


# What a replacement takes away


def replaced(case: PreviewCase) -> str:
    """What goes first, and what the new one changes per hour."""
    record, now, new = case.record, case.record.price.micro_usd, case.new_micro_usd
    if record.kind != "machine":
        return (
            f"REPLACES the {record.kind} {what(record)} ({per_hour(now)}): it is"
            f" stopped first; then {per_hour(new)}"
        )
    if now is None or new is None:
        net = f"then {per_hour(new)}"
    else:
        step = new - now
        net = (
            f"net {'-' if step < 0 else '+'}{per_hour(abs(step))}" if step else "at the same price"
        )
    return (
        f"REPLACES {what(record)} ({per_hour(now)}):"
        " it and its disk are deleted first,"
        f" and may not come back; {net}"
    )


def replaced_preempted(case: PreviewCase) -> str:
    """What is left of it goes first."""
    record = case.record
    return (
        f"REPLACES {what(record)}, which was taken back: what is left of it is deleted first; then"
        f" {per_hour(case.new_micro_usd)} (was {_cost(record)})"
    )


def replaced_ended(case: PreviewCase) -> str:
    """Nothing that runs goes for it."""
    record = case.record
    if record.kind != "machine":
        return replaced(case)
    at = _ended_at(record)
    return f"REPLACES {what(record)}, which ended{at} by its ttl; +{per_hour(case.new_micro_usd)}"


def looks_anew(case: PreviewCase) -> str:
    """Nothing goes for it."""
    return f"looks for {case.record.cluster} again, of which nothing runs"


def replaced_done(case: PreviewCase) -> str:
    """Nothing that runs goes for it."""
    new = per_hour(case.new_micro_usd)
    return f"another job after {what(case.record)}, which is done; +{new} while it runs"


# Whether a diff replaces it where no edit does


def not_replaced(case: DiffCase) -> Difference:  # noqa: ARG001 (a column's functions are alike)
    """No edit, no difference."""
    return Difference()


def taken_back(case: DiffCase) -> Difference:
    """Always replaced."""
    from providers.adapters.registry import manifests

    manifest = manifests().get(case.record.provider)
    owned = manifest is not None and manifest.capabilities.owned
    why = (case.record.detail or "it was lost") if owned else "the cloud took it back"
    return Difference(("status",), replaces=True, because=why)


def asked_again(case: DiffCase) -> Difference:  # noqa: ARG001 (a column's functions are alike)
    """Updated by each `up`, which decides whether it is time."""
    return Difference(("status",))


def unless_it_serves(case: DiffCase) -> Difference:
    """Replaced where it no longer serves the declaration as it is now, by `on_loss`. What serves it
    stays, and its record follows.
    """
    if case.stops:
        return Difference()
    changed = tuple(sorted({name for name, _ in case.record.bought} - set(drift.PRICE)))
    if case.satisfied():
        return Difference(changed)
    if case.on_loss == REPORT:
        return Difference()
    return Difference(changed, replaces=True, because=case.record.detail)


def _still(record: ClusterRecord) -> str:
    return f"{NOTHING}: {what(record)}{_STAYS}{_cost(record)}, {record.status}: {record.reasons[0]}"


def _cost(record: ClusterRecord) -> str:
    return per_hour(record.price.micro_usd)


def _ended_at(record: ClusterRecord) -> str:
    return f" at {duration.timestamp(record.ends_at)}" if record.ends_at else ""
