"""`gpus plan`: every place that could serve a declaration, ranked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from providers.cli import stackfile
from providers.cli.colour import show
from providers.cli.options import BLOCK_WORDS, add_block, add_disk, add_spec, add_world, block_of
from providers.cli.output import NOTHING, OK, complain, print_json, width, wrapped
from providers.errors import GpusError, Problem, SpecError
from providers.model.ask import RANKS
from providers.model.money import per_hour
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from providers.cli.plan_limit import Limit
    from providers.model.ask import Ask
    from providers.model.spec import Cluster
    from providers.model.worlds import WorldName
    from providers.planner.plan import Plan
    from providers.planner.summary import CurrentCost


def run_plan(options: argparse.Namespace) -> int:
    """Prints the plan of each declaration; NOTHING where one has no acceptable place, or none that
    the stack's `max_spend` has room for.
    """
    from providers import api
    from providers.planner import render

    worst = OK
    answers: list[dict[str, Any]] = []
    asked = _asked(options)
    limit = _limit(options.stack, asked[0][2]) if asked else None
    for text in limit.refused if limit is not None else ():
        worst = complain(text, NOTHING)
    for title, ask, world, settings in asked:
        made: Plan = api.plan(ask, world=world, settings=settings)
        current, room, refused = _running(options.stack, title, world), "", ""
        if limit is not None and current is None:
            made, room, refused = limit.within(title, cast("Cluster", ask), made)
        if options.json:
            answers.append(({"cluster": title} if title else {}) | render.as_json(made))
        elif not refused:
            _show(options, title, made, current, room)
        if made.best is None:
            worst = complain(refused or _nothing(title, made), NOTHING)
    if options.stack and not (options.json or options.cluster):
        for line in stackfile.volume_lines(stackfile.read(options.stack)):
            print(f"- {line}" if options.markdown else "\n".join(wrapped("", line, "  ")))
    if options.json:
        # A stack may declare several; a list is one whatever their number.
        print_json(answers if options.stack and not options.cluster else answers[0])
    return worst


def _show(
    options: argparse.Namespace, title: str, made: Plan, current: CurrentCost | None, room: str
) -> None:
    """Prints one plan for a person; `room` is what it comes to under the stack's `max_spend`."""
    from providers.planner import brief, render

    if options.markdown:
        text = render.as_markdown(made, title=title, current=current)
        print(f"{text}\n- max_spend: {room}" if room else text, end="\n\n")
        return
    text = (
        render.as_text(made, width(), title=title, current=current)
        if options.explain
        else brief.as_text(
            made, width(), title=title, current=current, details="the same with --explain"
        )
    )
    if room:
        text = "\n".join([text, *render.wrapped("max_spend   ", room, width())])
    show(f"{text}\n" if options.stack else text)


def _nothing(title: str, made: Plan) -> str:
    """Why no place is acceptable, and what would help."""
    from providers.planner import refusals
    from providers.planner.suggest import hints

    refused = refusals.in_words(made)
    head = f"{title}: " if title else ""
    lines = [f"nothing acceptable{f'; refused: {refused}' if refused else ''}", *hints(made)]
    return "\n".join(head + text for text in lines)


def _limit(stack: str | None, world: str) -> Limit | None:
    """What a stack may spend; None where it declares no limit."""
    declared = stackfile.read(stack) if stack else None
    if declared is None or declared.max_spend is None:
        return None
    from providers.cli.plan_limit import Limit

    volumes = declared.volumes
    return Limit(declared.max_spend, world, _project(), declared.name, volumes)


def _project() -> str:
    from providers.model import yaml_file

    return str(yaml_file.mapping(stackfile.project_folder() / "Pulumi.yaml").get("name"))


def _running(stack: str | None, cluster: str, world: str) -> CurrentCost | None:
    """What this machine's journal knows to run of a stack's cluster, or else to have ended; None
    where it knows nothing. What an `up` makes of it only a preview says: the state may know more.
    """
    if not stack:
        return None
    from providers.adhoc import stack_clusters
    from providers.engine.reconcile.on_preview import what
    from providers.planner.brief import WOULD_BUY
    from providers.planner.summary import CurrentCost

    project = _project()
    try:
        every = (
            *stack_clusters.known(world, stack, cluster),
            *stack_clusters.journaled(
                world, stack, cluster, lambda journal, of: journal.conclusions(of, cluster)
            ),
        )
    except (GpusError, OSError):
        return None  # a journal that cannot be read is told where it matters
    known = [each for each in every if each.project == project]
    if not known:
        return None
    says = f"`pulumi preview -s {stack}` says what an `up` changes"
    found = [each.record for each in known if not (each.is_over or each.is_past)]
    if not found:
        return CurrentCost(0, kept=("ended", f"{known[-1].told()}: {says}"), bought_if=WOULD_BUY)
    texts = [f"{what(record)}, {per_hour(record.price.micro_usd)}" for record in found]
    told = f"{'; '.join(texts)}: {says}"
    return CurrentCost(found[-1].price.micro_usd, kept=("running", told), bought_if=WOULD_BUY)


def _asked(
    options: argparse.Namespace,
) -> list[tuple[str, Ask | Cluster, WorldName, Mapping[str, Mapping[str, str]]]]:
    """(title, what is wanted, world, settings) of each plan to make: the one of the arguments, or
    those of a stack's file.
    """
    from providers import api

    if not options.stack:
        if options.cluster:
            raise SpecError([Problem("--cluster", "a stack that has it", "none", "add -s STACK")])
        if not options.gpu:
            raise SpecError([Problem("", 'a GPU such as "H100:8", or -s STACK', "neither")])
        if (block := block_of(options)) is not None:
            return [("", _with_block(options, block), options.world or REHEARSAL, {})]
        ask = api.compiled(
            options.gpu,
            fallback=options.fallback,
            nodes=1 if options.nodes is None else options.nodes,
            spot=options.spot,
            capacity=options.capacity,
            providers=options.provider,
            regions=options.region,
            marketplaces=options.marketplaces,
            rank=options.rank or RANKS[0],
            max_price_per_hour=options.max_price,
            accept_suspect_prices=options.accept_suspect_prices,
            ttl=options.ttl,
            disk_gib=options.disk_gib,
        )
        return [("", ask, options.world or REHEARSAL, {})]
    words = (
        "gpu",
        "fallback",
        "nodes",
        "spot",
        "capacity",
        "max_price",
        "rank",
        "provider",
        "region",
        "marketplaces",
        "accept_suspect_prices",
        "ttl",
        "disk_gib",
        *BLOCK_WORDS,
    )
    given = [name for name in words if getattr(options, name)]
    if given:
        raise SpecError(
            [
                Problem(
                    name,
                    "the stack's file to say it",
                    "an argument too",
                    "leave it out, or leave out -s",
                )
                for name in given
            ]
        )
    from providers.model.wording import near

    stack = stackfile.read(options.stack)
    if options.cluster and options.cluster not in stack.clusters:
        raise SpecError(
            [
                Problem(
                    "--cluster",
                    f"a cluster of {stack.name}",
                    repr(options.cluster) + near(options.cluster, stack.clusters),
                    f"there are: {', '.join(stack.clusters)}",
                )
            ]
        )
    return [
        (name, spec, options.world or stack.world, stack.settings)
        for name, spec in stackfile.specs(stack, options.cluster).items()
    ]


def _with_block(options: argparse.Namespace, block: Mapping[str, Any]) -> Cluster:
    """What the arguments ask for, a window in the calendar among it. Raises SpecError."""
    from providers.model.spec import read_cluster

    fields = {
        "gpu": options.gpu,
        "fallback": options.fallback,
        "nodes": options.nodes,
        "spot": options.spot,
        "capacity": options.capacity,
        "block": block,
        "providers": options.provider,
        "regions": options.region,
        "marketplaces": options.marketplaces,
        "rank": options.rank,
        "max_price_per_hour": options.max_price,
        "accept_suspect_prices": options.accept_suspect_prices,
        "ttl": options.ttl,
        "disk_gib": options.disk_gib,
    }
    return read_cluster("plan", {name: value for name, value in fields.items() if value})


def add_plan(commands: Any) -> None:
    """Adds `plan` to the commands."""
    plan = commands.add_parser(
        "plan",
        help="every place that could serve a request, ranked",
        description="The places that `pulumi up` would try, in order. Buys nothing.",
    )
    add_spec(plan)
    add_block(plan)
    add_disk(plan)
    plan.add_argument("--ttl", help="show what it costs until it ends, after this long: 20h")
    plan.add_argument("-s", "--stack", help="plan what this stack's file declares")
    plan.add_argument("--cluster", metavar="NAME", help="one cluster of the stack")
    add_world(plan)
    form = plan.add_mutually_exclusive_group()
    form.add_argument(
        "--json",
        action="store_true",
        help="candidates and rejections as one JSON object; of a stack a list of them",
    )
    form.add_argument(
        "--explain",
        action="store_true",
        help="also each next place, the parts of every price, and what was refused and why",
    )
    form.add_argument("--markdown", action="store_true", help="for a pull request")
    plan.set_defaults(run=run_plan)
