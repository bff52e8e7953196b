"""`gpus cost`: what stacks would cost, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.cli import stackfile
from providers.cli.colour import show
from providers.cli.options import add_world
from providers.cli.output import NOTHING, OK, print_json, table, wrapped
from providers.model import duration
from providers.model.money import HOURS_PER_MONTH, dollars, per_hour, usd

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from providers.model.spec import Cluster
    from providers.model.worlds import WorldName
    from providers.planner.plan import Plan


class Cost(NamedTuple):
    """What one cluster of a stack would cost now, in micro-dollars: None where no place serves it.
    `ttl_s` is how long it runs at most, None without a limit.
    """

    stack: str
    cluster: str
    choice: str
    micro_usd: int | None
    ttl_s: int | None

    @property
    def run(self) -> int | None:
        """One run until its limit; None without one, and without a price."""
        if self.micro_usd is None or self.ttl_s is None:
            return None
        return int(self.micro_usd * self.ttl_s / 3_600)

    @property
    def month(self) -> int | None:
        return None if self.micro_usd is None else self.micro_usd * HOURS_PER_MONTH


def run_cost(options: argparse.Namespace) -> int:
    """Prints what each cluster of each stack would cost; NOTHING where one has no place."""
    costs = [cost for name in options.stack for cost in _costs(name, options.world)]
    if options.json:
        print_json([_record(cost) for cost in costs])
    else:
        show("\n".join(_lines(costs)), head=0)
        for name in dict.fromkeys(options.stack):
            for line in stackfile.volume_lines(stackfile.read(name)):
                print("\n".join(wrapped("", f"{name}: {line}, used or not", "  ")))
    return NOTHING if any(cost.micro_usd is None for cost in costs) else OK


def _costs(name: str, world: WorldName | None) -> list[Cost]:
    from providers import api

    stack = stackfile.read(name)
    return [
        cost_of(
            stack.name,
            cluster,
            spec,
            api.plan(spec, world=world or stack.world, settings=stack.settings),
        )
        for cluster, spec in stackfile.specs(stack).items()
    ]


def cost_of(stack: str, cluster: str, spec: Cluster, plan: Plan) -> Cost:
    """What one cluster would cost by its plan. Pure."""
    best = plan.best
    if best is None:
        return Cost(stack, cluster, "no place", None, spec.setup().ttl_s)
    place = best.placement
    choice = f"{place.provider} {place.where} {place.times}{place.gpu} {place.capacity}"
    return Cost(stack, cluster, choice, best.micro_usd, plan.ask.entries[best.entry].ttl_s)


def _lines(costs: Sequence[Cost]) -> Iterable[str]:
    stacks = list(dict.fromkeys(cost.stack for cost in costs))
    rows = [("stack", "cluster", "would take", "$/h", "run", "$/month")]
    for stack in stacks:
        own = [cost for cost in costs if cost.stack == stack]
        rows += [
            (
                stack,
                cost.cluster,
                cost.choice,
                _hourly(cost.micro_usd),
                _run(cost),
                # What ends by itself is paid for a run, not for a month.
                _monthly(cost.month) if cost.ttl_s is None else "",
            )
            for cost in own
        ]
        endless = all(cost.ttl_s is None for cost in own)
        if len(own) > 1:
            rows.append(
                (
                    stack,
                    "all",
                    "",
                    _hourly(total(own)),
                    "",
                    _monthly(_months(own)) if endless else "",
                )
            )
    yield from table(rows, right={3, 5}, gives=(2,))
    first, *others = stacks
    base = total([cost for cost in costs if cost.stack == first])
    for stack in others:
        each = total([cost for cost in costs if cost.stack == stack])
        if base is None or each is None:
            yield f"{stack} against {first}: not known, since one has no price"
        elif each == base:
            yield f"{stack} costs as much as {first}"
        else:
            than = "more" if each > base else "less"
            yield f"{stack} costs {per_hour(abs(each - base))} {than} than {first}"


def total(costs: Sequence[Cost]) -> int | None:
    """What they cost together an hour; None where one is not known."""
    known = [cost.micro_usd for cost in costs if cost.micro_usd is not None]
    return sum(known) if len(known) == len(costs) else None


def _months(costs: Sequence[Cost]) -> int | None:
    hourly = total(costs)
    return None if hourly is None else hourly * HOURS_PER_MONTH


def _hourly(micro: int | None) -> str:
    return "-" if micro is None else per_hour(micro).removeprefix("$").removesuffix("/h")


def _run(cost: Cost) -> str:
    if cost.run is None or cost.ttl_s is None:
        return "no limit" if cost.micro_usd is not None else "-"
    return f"{dollars(cost.run)} in {duration.text(cost.ttl_s)}"


def _monthly(micro: int | None) -> str:
    return "-" if micro is None else f"{micro / 1e6:,.2f}"


def _record(cost: Cost) -> dict[str, Any]:
    return {
        "stack": cost.stack,
        "cluster": cost.cluster,
        "choice": cost.choice if cost.micro_usd is not None else None,
        "price_usd_per_hour": None if cost.micro_usd is None else usd(cost.micro_usd),
        "run_s": cost.ttl_s,
        "run_usd": None if cost.run is None else usd(cost.run),
        "price_usd_per_month": None if cost.month is None else usd(cost.month),
    }


def add_cost(commands: Any) -> None:
    """Adds `cost` to the commands."""
    cost = commands.add_parser(
        "cost",
        help="what stacks would cost, side by side",
        description="What each cluster of these stacks would cost now. Buys nothing.",
    )
    cost.add_argument(
        "-s", "--stack", action="append", required=True, help="a stack; may be repeated"
    )
    add_world(cost)
    cost.add_argument("--json", action="store_true", help="a JSON list of clusters")
    cost.set_defaults(run=run_cost)
