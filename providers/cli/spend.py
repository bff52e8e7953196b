"""`gpus spend`: what was spent in a month, by stack, cluster, volume and day, and the forecast."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from providers.cli.colour import show
from providers.cli.options import add_world
from providers.cli.output import OK, print_json, table, wrapped
from providers.errors import Problem, SpecError
from providers.model.money import dollars, usd
from providers.model.worlds import WORLDS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from providers.engine.spending import MonthSpend, VolumeSpend

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
    shown = [each for each in months if each.clusters or each.volumes]
    if not shown:
        print(f"nothing was spent in {months[0].month}, as far as this machine's journal knows")
        return OK
    for month in shown:
        show("\n".join((*_lines(month), "")), head=1)
    print("by this machine's journal: price at launch, times time; traffic not in it")
    return OK


def _lines(month: MonthSpend) -> Iterable[str]:
    least = "at least " if month.unknown else ""
    played = ", a rehearsal: nothing was paid" if month.world != "live" else ""
    yield f"{month.month} (UTC), {month.world}{played}"
    rows = [("stack", "cluster or volume", "hours", "spent", "to come")]
    for each in month.clusters:
        spent = "no price" if each.unknown and not each.spent else dollars(each.spent)
        rows.append(
            (
                each.stack or "ad hoc",
                each.cluster,
                f"{each.hours:,.1f}",
                spent,
                dollars(each.to_come),
            )
        )
    for volume in month.volumes:
        cost = "not known" if volume.unknown and not volume.spent else dollars(volume.spent)
        to_come_of = "not known" if volume.unknown else dollars(volume.to_come)
        named = f"volume {volume.volume}"
        rows.append((volume.stack, named, f"{volume.hours:,.1f}", cost, to_come_of))
    to_come = month.forecast - month.spent
    rows.append(("total", "", "", f"{least}{dollars(month.spent)}", dollars(to_come)))
    yield from table(rows, right={2, 3, 4})
    yield from _untold(month)
    yield from wrapped(
        f"forecast for {month.month}: ",
        f"{least}{dollars(month.forecast)}, if what runs stays until its limit or the month's end",
    )
    yield from (line for each in month.volumes for line in _unused(each))
    yield "by day"
    yield from table([(day, dollars(spent)) for day, spent in month.days] or [("", "")], right={1})


def _untold(month: MonthSpend) -> Iterable[str]:
    """What no sum has, and at what rate it costs where that is known."""
    names = [each.cluster for each in month.clusters if each.unknown]
    if names:
        yield f"the price of {', '.join(names)} is not known"
    for each in month.volumes:
        if each.unknown:
            yield f"volume {each.volume}: {_price(each)}; its cost is in no sum"


def _unused(volume: VolumeSpend) -> Iterable[str]:
    """That a volume costs money and nothing uses it, and what to do; nothing of others."""
    if not volume.why_unused:
        return
    last, where = volume.last, volume.last.native_id
    yield f"unused: volume {volume.volume}, {last.spec}: {_price(volume)}"
    at = f" ({where})" if where else ""
    yield f"  {volume.why_unused}{at}; {_REMEDY[bool(where), last.is_kept]}"


_REMEDY = {
    (True, True): "declare it with delete_data: true, run `pulumi up`, then remove it to delete it",
    (True, False): "keep it for the next one, or delete it: delete_data: true, `up`, remove it",
    (False, False): "`pulumi refresh`, or the next `pulumi up` that declares it, finds out",
}
"""By whether it was certainly made, and whether no stack declares it."""


def _price(volume: VolumeSpend) -> str:
    """`$20.00 a month`; without a known size the rate, else that no price is known."""
    from providers.catalog import volumes

    last = volume.last
    if last.micro_usd is not None:
        return f"{dollars(last.micro_usd)} a month"
    return volumes.words(last.spec)


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
        "volumes": [_volume_record(each) for each in month.volumes],
        "days": [{"day": day, "spent_usd": usd(spent)} for day, spent in month.days],
    }


def _volume_record(volume: VolumeSpend) -> dict[str, Any]:
    last, unknown = volume.last, volume.unknown
    return {
        "project": volume.project or None,
        "stack": volume.stack or None,
        "volume": volume.volume,
        "provider": last.spec.provider,
        "native_id": last.native_id or None,
        "place": last.spec.place or None,
        "type": last.spec.type or None,
        "size_gib": last.spec.size_gib or None,
        "price_usd_per_month": None if last.micro_usd is None else usd(last.micro_usd),
        "price_as_of": last.price_as_of or None,
        "hours": round(volume.hours, 3),
        "spent_usd": None if unknown else usd(volume.spent),
        "to_come_usd": None if unknown else usd(volume.to_come),
        "deleted": last.ended_at is not None,
        "users": None if volume.users is None else list(volume.users),
        "unused": volume.why_unused or None,
    }


def add_spend(commands: Any) -> None:
    """Adds `spend` to the commands."""
    spend = commands.add_parser(
        "spend",
        help="what was spent by stack, cluster, volume and day, and the forecast",
        description="What was spent, by this machine's journal. Asks no cloud.",
    )
    spend.add_argument("-s", "--stack", help="what this stack spent")
    spend.add_argument("--month", help="another month (UTC), as in 2026-10")
    add_world(spend)
    spend.add_argument("--json", action="store_true", help="a JSON list of a month for each world")
    spend.set_defaults(run=run_spend)
