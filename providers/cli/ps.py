"""`gpus ps`: what runs, ad hoc and by stacks: where, for whom, at what price."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from providers.adhoc import past, provision, stack_clusters
from providers.cli import stackfile
from providers.cli.adhoc import OK
from providers.cli.colour import show
from providers.cli.options import settings_of
from providers.cli.output import table, wrapped
from providers.engine import budget
from providers.engine.messages import moment
from providers.engine.record import GAVE_UP, ON_DONE
from providers.errors import Problem, SpecError
from providers.model import duration
from providers.model.money import dollars, per_hour, usd
from providers.model.wording import near
from providers.model.workload import KEEP

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from providers.adhoc.sync import Machine
    from providers.engine.record import ClusterRecord


def ps(options: argparse.Namespace) -> int:
    """Lists what runs ad hoc, in every world that something was bought in, and what the journal
    knows of stacks; 0. SpecError for no stack.
    """
    found = (
        () if options.stack else provision.find(world=options.world, settings=settings_of(options))
    )
    where = (options.world, options.stack or "")
    which = past.ever if options.all else stack_clusters.known
    stacks = (*which(*where), *stack_clusters.waiting(*where))
    if options.stack and not stacks:
        require_stack(options.stack)
    if options.json:
        import json

        print(
            json.dumps(
                [
                    *(_record(machine) for machine in found),
                    *(
                        {**each.as_json(), "cost_usd": _cost_usd(each.charge, each.now)}
                        for each in stacks
                    ),
                ]
            )
        )
        return OK
    if stacks:
        show_rows([OF_STACKS, *map(_declared_row, stacks)], STACKS_GIVE)
        what = "what ran and what stacks have" if options.all else "stacks' clusters"
        _say(f"{what}, from this machine's journal; `pulumi refresh` asks the clouds")
        if found:
            print()
    if not found:
        if not options.stack:
            nothing = "nothing runs ad hoc" if stacks else "nothing runs, ad hoc or of a stack"
            _say(f"{nothing}; `gpus run GPU --name NAME --keep` gets something")
        elif not stacks:
            did = "ran" if options.all else "runs"
            more = "" if options.all else "; --all shows what has ended"
            _say(
                f"nothing of stack {options.stack} {did}, as far as this machine's journal"
                f" knows{more}"
            )
        return OK
    show_rows([AD_HOC, *map(_ad_hoc_row, found)], AD_HOC_GIVES)
    if any(machine.process is None for machine in found):
        _say(
            "no process: used by nobody, kept or left by one that was killed; gpus release NAME"
            " ends it"
        )
    return OK


def _say(text: str) -> None:
    print("\n".join(wrapped("", text)))


_MONEY = ("GPU", "$/h", "age", "cost")
OF_STACKS = ("name", "stack", "world", "status", "where", *_MONEY, "ends")
AD_HOC = ("name", "world", "status", "where", *_MONEY, "process", "ends")

STACKS_GIVE = ("ends", "GPU", "where", "stack", "name")
AD_HOC_GIVES = ("ends", "GPU", "where", "process", "name")
"""The columns that give way where a terminal is narrow, the first of them first."""


def show_rows(rows: Sequence[tuple[str, ...]], gives: Iterable[str]) -> None:
    """Shows the rows, the first of them the names of the columns. A terminal gets a table of each
    world; so does a pipe where there is only one, and else one line a row.
    """
    at, on_terminal = rows[0].index("world"), sys.stdout.isatty()
    worlds = list(dict.fromkeys(row[at] for row in rows[1:]))
    if len(worlds) > 1 and not on_terminal:
        show("\n".join(table(rows)), head=0)
        return
    for world in worlds:
        own = [(*row[:at], *row[at + 1 :]) for row in rows if row is rows[0] or row[at] == world]
        narrow = [own[0].index(name) for name in gives if on_terminal]
        show("\n".join(table(own, gives=narrow)), head=0)
        print(f"world: {world}")


def _declared_row(each: stack_clusters.Declared) -> tuple[str, ...]:
    record, place = each.record, each.record.placement
    return (
        record.cluster,
        each.stack or "ad hoc",
        record.world,
        record.status,
        f"{place.provider} {place.where}".strip(),
        *_money(record, each.per_hour(), each.charge, each.now),
        _ends(each),
    )


def _ad_hoc_row(machine: Machine) -> tuple[str, ...]:
    record = machine.record
    # One without an end is of a purchase that was cut short: what ends it is not known here.
    ends = (
        moment(record.ends_at)
        if machine.inner.ends_itself
        else "by release only"
        if record.ends_at
        else "not known"
    )
    now = machine.inner.opened.clock.now()
    return (
        machine.name,
        machine.world,
        machine.status,
        machine.where,
        *_money(record, record.price.micro_usd, budget.spell_of(record), now),
        str(machine.process or "none"),
        ends,
    )


def _money(
    record: ClusterRecord, micro_usd: int | None, charge: budget.Charge, now: float
) -> tuple[str, ...]:
    """The columns of `_MONEY`; what is not known is empty."""
    place = record.placement
    price = "" if micro_usd is None else per_hour(micro_usd).removeprefix("$").removesuffix("/h")
    gpu = f"{place.times}{place.gpu} {place.capacity}".strip() if place.gpu_type else ""
    return gpu, price, *_so_far(charge, now)


def _so_far(charge: budget.Charge, now: float) -> tuple[str, str]:
    """How long it has run, in hours and minutes, and what that cost; each empty where it is not
    known.
    """
    if not charge.launched_at:
        return "", ""
    seconds = max(0.0, (charge.ended_at or now) - charge.launched_at)
    age = duration.text(seconds // 60 * 60) if seconds >= 60 else f"{seconds:.0f}s"
    return age, "" if charge.micro_usd is None else dollars(charge.cost(0, now))


def require_stack(text: str) -> None:
    """Raises SpecError for a stack that neither a file here nor this machine's journal knows."""
    project = stackfile.nearest_project()
    every = sorted(
        {*(stackfile.names(project) if project is not None else ()), *stack_clusters.stacks()}
    )
    if text.rpartition("/")[2] not in every:
        wanted = "a stack with a file here, or one that this machine's journal knows"
        raise SpecError(
            [
                Problem(
                    "--stack",
                    wanted,
                    repr(text) + near(text.rpartition("/")[2], every),
                    f"there are: {', '.join(every) or 'none'}",
                )
            ]
        )


def _ends(one: stack_clusters.Declared) -> str:
    """When it ends, at the latest where that is all that is known; of what has ended when that was
    seen, or what ends what is left of it.
    """
    if (search := one.record.search) is not None:
        gave_up = "gave up" if one.record.status == GAVE_UP else "gives up"
        return f"{gave_up} {moment(search.until)}"
    if one.runs_on:
        return (
            "its job is over: by destroy only"
            if dict(one.record.applied).get(ON_DONE) == KEEP
            else "its job is over: by the next `up`"
        )
    if one.is_over:
        return f"ended before {moment(one.ended_at)}" if one.ended_at else "ended"
    if one.record.ends_at:
        return moment(one.record.ends_at)
    return f"{moment(one.latest_at)} at the latest" if one.latest_at else "by destroy only"


def _cost_usd(charge: budget.Charge, now: float) -> float | None:
    """What it has cost so far; None where that is not known."""
    known = charge.launched_at and charge.micro_usd is not None
    return usd(charge.cost(0, now)) if known else None


def _record(machine: Machine) -> dict[str, Any]:
    record = machine.record
    where = record.placement._asdict()
    del where["reservation"]
    return {
        "name": machine.name,
        "stack": None,
        "world": machine.world,
        "status": machine.status,
        **where,
        "price_usd_per_hour": machine.price_usd_per_hour,
        "cost_usd": _cost_usd(budget.spell_of(record), machine.inner.opened.clock.now()),
        "launched_at": record.launched_at or None,
        "ends_at": record.ends_at or None,
        "process": machine.process,
        "reasons": list(record.reasons),
    }
