"""`gpus spend`: what was spent in a month, by stack, cluster and day, and what is to come."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from providers.cli.colour import show
from providers.cli.options import add_world
from providers.cli.output import OK, print_json, table
from providers.errors import Problem, SpecError
from providers.model.money import usd
from providers.model.worlds import WORLDS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from providers.engine.spending import MonthSpend

_MONTH = re.compile(r"20\d\d-(0[1-9]|1[0-2])")


def run_spend(options: argparse.Namespace) -> int:
    """Prints each world's month, by this machine's journal; OK."""
    from providers.cli.ps import require_stack
    from providers.engine import spending
    from providers.engine.runtime.world import open_world

    if options.month is not None and not _MONTH.fullmatch(options.month):
        raise SpecError([Problem("--month", "a month such as 2026-11", repr(options.month))])
    if options.stack:
        require_stack(options.stack)
    months = []
    for name in WORLDS if options.world is None else (options.world,):
        world = open_world(name)
        try:
            months.append(spending.of_month(world, options.month or "", options.stack or ""))
        finally:
            world.close()
    if options.json:
        print_json([_record(each) for each in months])
        return OK
    shown = [each for each in months if each.clusters]
    if not shown:
        print(f"nothing was spent in {months[0].month}, as far as this machine's journal knows")
        return OK
    for month in shown:
        show("\n".join((*_lines(month), "")), head=1)
    print("by this machine's journal: price at launch, times time; volumes and traffic not in it")
    return OK


def _lines(month: MonthSpend) -> Iterable[str]:
    least = "at least " if month.unknown else ""
    played = ", a rehearsal: nothing was paid" if month.world != "live" else ""
    yield f"{month.month} (UTC), {month.world}{played}"
    rows = [("stack", "cluster", "hours", "spent", "to come")]
    for each in month.clusters:
        spent = "no price" if each.unknown and not each.spent else _usd(each.spent)
        rows.append(
            (each.stack or "ad hoc", each.cluster, f"{each.hours:,.1f}", spent, _usd(each.to_come))
        )
    to_come = month.forecast - month.spent
    rows.append(("total", "", "", f"{least}{_usd(month.spent)}", _usd(to_come)))
    yield from table(rows, right={2, 3, 4})
    if month.unknown:
        yield f"the price of {', '.join(month.unknown)} is not known"
    yield (
        f"forecast for {month.month}: {least}{_usd(month.forecast)}, if what runs stays until its"
        " limit or the month's end"
    )
    yield "by day"
    yield from table([(day, _usd(spent)) for day, spent in month.days] or [("", "")], right={1})


def _record(month: MonthSpend) -> dict[str, Any]:
    return {
        "world": month.world,
        "month": month.month,
        "spent_usd": usd(month.spent),
        "forecast_usd": usd(month.forecast),
        "unknown": list(month.unknown),
        "clusters": [
            {
                "project": each.project or None,
                "stack": each.stack or None,
                "cluster": each.cluster,
                "hours": round(each.hours, 3),
                "spent_usd": None if each.unknown else usd(each.spent),
                "to_come_usd": None if each.unknown else usd(each.to_come),
            }
            for each in month.clusters
        ],
        "days": [{"day": day, "spent_usd": usd(spent)} for day, spent in month.days],
    }


def _usd(micro: int) -> str:
    return f"${micro / 1e6:,.2f}"


def add_spend(commands: Any) -> None:
    """Adds `spend` to the commands."""
    spend = commands.add_parser(
        "spend",
        help="what was spent by stack, cluster and day, and the forecast",
        description="What was spent, by this machine's journal. Asks no cloud.",
    )
    spend.add_argument("-s", "--stack", help="what this stack spent")
    spend.add_argument("--month", help="another month (UTC), as in 2026-10")
    add_world(spend)
    spend.add_argument("--json", action="store_true", help="a JSON list of a month for each world")
    spend.set_defaults(run=run_spend)
