"""`gpus plan`: every place that could serve a declaration, ranked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

    from providers.model.ask import Ask
    from providers.model.spec import Cluster
    from providers.model.worlds import WorldName
    from providers.planner.summary import CurrentCost


def run_plan(options: argparse.Namespace) -> int:
    """Prints the plan of each declaration; NOTHING where one has no acceptable place."""
    from providers import api
    from providers.planner import brief, render

    worst = OK
    answers: list[dict[str, Any]] = []
    for title, ask, world, settings in _asked(options):
        made = api.plan(ask, world=world, settings=settings)
        current = None if options.json else _running(options.stack, title, world)
        if options.json:
            answers.append(({"cluster": title} if title else {}) | render.as_json(made))
        elif options.markdown:
            print(render.as_markdown(made, title=title, current=current), end="\n\n")
        else:
            details = "the same with --explain"
            text = (
                render.as_text(made, width(), title=title, current=current)
                if options.explain
                else brief.as_text(made, width(), title=title, current=current, details=details)
            )
            show(f"{text}\n" if options.stack else text)
        if made.best is None:
            from providers.planner import refusals
            from providers.planner.suggest import hints

            refused = refusals.in_words(made)
            head = f"{title}: " if title else ""
            lines = [
                f"nothing acceptable{f'; refused: {refused}' if refused else ''}",
                *hints(made),
            ]
            worst = complain("\n".join(head + text for text in lines), NOTHING)
    if options.stack and not (options.json or options.cluster):
        for line in stackfile.volume_lines(stackfile.read(options.stack)):
            print(f"- {line}" if options.markdown else "\n".join(wrapped("", line, "  ")))
    if options.json:
        # A stack may declare several; a list is one whatever their number.
        print_json(answers if options.stack and not options.cluster else answers[0])
    return worst


def _running(stack: str | None, cluster: str, world: str) -> CurrentCost | None:
    """What this machine's journal knows to run of a stack's cluster; None where it knows nothing.
    What an `up` makes of it only a preview says: the state may know more.
    """
    if not stack:
        return None
    from providers.adhoc import stack_clusters
    from providers.engine.reconcile.on_preview import what
    from providers.model import yaml_file
    from providers.planner.brief import WOULD_BUY
    from providers.planner.summary import CurrentCost

    project = yaml_file.mapping(stackfile.project_folder() / "Pulumi.yaml").get("name")
    try:
        known = stack_clusters.known(world, stack, cluster)
    except (GpusError, OSError):
        return None  # a journal that cannot be read is told where it matters
    found = [each.record for each in known if each.project == project and not each.is_over]
    if not found:
        return None
    texts = [f"{what(record)}, {per_hour(record.price.micro_usd)}" for record in found]
    told = f"{'; '.join(texts)}: `pulumi preview -s {stack}` says what an `up` changes"
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
