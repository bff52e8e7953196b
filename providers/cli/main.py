"""`gpus`: the command line. Owns arguments, exit codes and how answers look on a terminal; asks the
public functions for everything else.

Exit codes: 0 answered; 1 nothing acceptable, or a provider is not usable; 2 the question is wrong;
130 interrupted (143 by SIGTERM, 129 by SIGHUP); 141 where nobody read on while a command ran. What
a user can cause never ends in a traceback. Must not import pydantic, asyncio or a cloud's SDK on
the way to a plan.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import TYPE_CHECKING, Any

from providers.cli import stackfile
from providers.cli.arguments import Parser
from providers.errors import AllFailed, CloudError, GpusError, NotConfigured, Problem, SpecError
from providers.model.ask import RANKS
from providers.model.screen import on_screen
from providers.model.worlds import REHEARSAL, WORLDS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from providers.engine.runtime.world import World
    from providers.model.ask import Ask
    from providers.model.capability import Capabilities
    from providers.model.machine import CheckLine
    from providers.model.offer import Offer
    from providers.model.spec import Cluster

OK, NOTHING, WRONG, INTERRUPTED, CUT = 0, 1, 2, 130, 141
SHOWN = 20
"""How many lines of offers are shown unless all are asked for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code. Messages go to stderr, answers to stdout."""
    # An answer is short work that makes no garbage: looking for some costs a tenth of it.
    gc.disable()
    try:
        with on_screen():
            return _main(list(sys.argv[1:] if argv is None else argv))
    finally:
        gc.enable()


def _main(arguments: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        beneath = getattr(stream, "beneath", stream)
        if isinstance(beneath, io.TextIOWrapper):
            beneath.reconfigure(
                errors="replace"
            )  # a terminal that cannot show a character still gets the rest
    try:
        if arguments[:1] not in (["cp"], ["run"], ["ssh"]):
            _readable(arguments)
        if not arguments:
            _parser().print_help()
            code: int = OK
        elif arguments == ["--version"]:
            from importlib.metadata import version

            print(f"gpus {version('gpus')}")
            code = OK
        elif arguments[:1] == ["rehearse"]:
            from providers.cli import rehearse

            code = rehearse.run(arguments[1:])
        elif arguments[:1] == ["size"]:
            from providers.cli import size as sizing

            code = sizing.run(arguments[1:])
        elif arguments[:1] == ["watch"]:
            from providers.cli import watch as watching

            gc.enable()  # it runs until it is stopped
            code = watching.run(arguments[1:])
        else:
            options, command = _read(arguments)
            if getattr(options, "stack", None):
                _warn_of_proxy()
            code = options.run(options, command) if options.run is _adhoc else options.run(options)
        sys.stdout.flush()
    except GpusError as error:
        return _complain(str(error), NOTHING if isinstance(error, AllFailed) else WRONG)
    except KeyboardInterrupt as interrupt:
        return _complain("interrupted", 128 + interrupt.args[0] if interrupt.args else INTERRUPTED)
    except BrokenPipeError:
        # Whoever read the answer has seen enough. The interpreter flushes stdout once more at its
        # end: let that find somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return (
            CUT if arguments[:1] in (["run"], ["ssh"]) else OK
        )  # a command that was cut short has not succeeded
    except OSError as error:
        from providers.engine.own_machine import of_machine

        return _complain(of_machine(error), WRONG)
    return code


def _warn_of_proxy() -> None:
    """A line where `pulumi` on this stack would fail for a proxy before loopback."""
    from providers.cli.loopback import proxied

    if line := proxied(os.environ):
        print(f"gpus: {line}", file=sys.stderr)


_COPIED = frozenset({"put", "get", "source", "target"})
"""Arguments that name files, whose names need not be text."""


def _readable(words: Iterable[str]) -> None:
    """Raises SpecError for a word that is no text."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise SpecError([Problem("arguments", "text in UTF-8", repr(word))]) from None


def _read(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The arguments, read; and the words after `--`, which are another program's, for the commands
    that run one.
    """
    cut = (
        arguments.index("--")
        if arguments[:1] in (["run"], ["ssh"]) and "--" in arguments
        else len(arguments)
    )
    options = _parser(arguments[0] if arguments else "").parse_args(arguments[:cut])
    given = [
        value if isinstance(value, list) else [value]
        for name, value in vars(options).items()
        if name not in _COPIED
    ]
    _readable(word for words in given for word in words if isinstance(word, str))
    return options, arguments[cut + 1 :]


def _complain(text: str, code: int) -> int:
    try:
        for line in text.splitlines() or [text]:
            print(f"gpus: {line}", file=sys.stderr)
    except BrokenPipeError:
        pass
    return code


def _parser(word: str = "") -> argparse.ArgumentParser:
    """The parser of every command, or of the one that `word` names: the others would cost a plan
    some milliseconds.
    """
    parser = Parser(
        prog="gpus",
        description="Who sells the GPUs you want, where, for how much, and which would be taken.",
    )
    parser.add_argument("--version", action="store_true", help="say which version this is")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for fill in [_COMMANDS[word]] if word in _COMMANDS else dict.fromkeys(_COMMANDS.values()):
        fill(commands)
    return parser


def _offers_parser(commands: Any) -> None:
    offers = commands.add_parser(
        "offers",
        help="who sells it, where, for how much, as of when",
        description="Who sells a GPU. Buys nothing.",
    )
    offers.add_argument("gpu", help='"H100:8", or "H100" for any count in a machine')
    offers.add_argument("--spot", action="store_true", help="spot capacity only")
    offers.add_argument(
        "--where",
        metavar="CONDITIONS",
        help="hosts of a marketplace, as in 'reliability>=0.98,cuda>=12.4,down>=500'",
    )
    offers.add_argument(
        "--sort",
        choices=("price", "provider"),
        default="price",
        help="what comes first (default: price)",
    )
    _places(offers)
    _world(offers)
    offers.add_argument(
        "--all", action="store_true", help=f"all of them, not only the {SHOWN} cheapest"
    )
    offers.add_argument(
        "--json", action="store_true", help="a JSON list of all, instead of a table"
    )
    offers.set_defaults(run=_offers)


def _plan_parser(commands: Any) -> None:
    plan = commands.add_parser(
        "plan",
        help="every place that could serve it, ranked",
        description="What an up would try, in order. Buys nothing.",
    )
    _spec(plan)
    plan.add_argument("-s", "--stack", help="plan what this stack's file declares")
    plan.add_argument("--cluster", metavar="NAME", help="one cluster of the stack")
    _world(plan)
    form = plan.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="candidates and rejections as one JSON object"
    )
    form.add_argument("--markdown", action="store_true", help="for a pull request")
    plan.set_defaults(run=_plan)


def _hardware_parser(commands: Any) -> None:
    hardware = commands.add_parser(
        "hardware",
        help="what a GPU is",
        description="Hardware facts, each set with its source and date.",
    )
    hardware.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="H100 MI300X ...; all that are known, if none is named",
    )
    hardware.add_argument("--dtype", default="bf16", help="for the speed column (default: bf16)")
    hardware.add_argument("--json", action="store_true", help="a JSON list instead of a table")
    hardware.set_defaults(run=_hardware)


def _check_parser(commands: Any) -> None:
    check = commands.add_parser(
        "check",
        help="what is there and what is missing to use a provider",
        description="Credentials, APIs, rights and quota.",
    )
    check.add_argument(
        "provider", nargs="?", help="one provider; all that can be ordered from, if none is named"
    )
    check.add_argument("-s", "--stack", help="with the world and settings of this stack")
    _world(check)
    check.add_argument("--json", action="store_true", help="a JSON list instead of lines")
    check.set_defaults(run=_check)


def _sweep_parser(commands: Any) -> None:
    sweep = commands.add_parser(
        "sweep",
        help="what bears our mark and no stack claims",
        description="Lists it with age and price, asks, and deletes it, confirmed.",
    )
    sweep.add_argument("-s", "--stack", help="with the world and settings of this stack")
    _world(sweep)
    sweep.add_argument("--yes", action="store_true", help="delete what is unclaimed without asking")
    sweep.add_argument(
        "--json", action="store_true", help="one JSON object; deletes only with --yes"
    )
    sweep.set_defaults(run=_sweep)


def _rehearse_parser(commands: Any) -> None:
    commands.add_parser("rehearse", help="show and edit the rehearsal clouds", add_help=False)


def _size_parser(commands: Any) -> None:
    commands.add_parser(
        "size", help="which GPUs hold a model, how many, what that costs", add_help=False
    )


def _watch_parser(commands: Any) -> None:
    commands.add_parser(
        "watch",
        help="keep a stack as it is declared: refresh-and-up at an interval",
        add_help=False,
    )


def _taken(parser: argparse.ArgumentParser) -> None:
    """How much is taken from a machine, which may be a stranger's."""
    parser.add_argument(
        "--max-size", metavar="SIZE", help="copy back at most so much (default 10GiB)"
    )
    parser.add_argument(
        "--max-files", metavar="N", help="in at most so many files and folders (default 100000)"
    )


def _adhoc_parsers(commands: Any) -> None:
    """`run`, `cp`, `ssh`, `logs`, `ps` and `release`: see `providers.cli.adhoc`."""

    def command(name: str, text: str, usage: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.", usage=f"gpus {usage}"
        )
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="P:KEY=VALUE",
            help="a provider's setting, as in gcp:project=my-project",
        )
        _world(parser)
        parser.set_defaults(run=_adhoc, command=name)
        return parser

    run = command(
        "run",
        "get GPUs, run a command there, give them back",
        "run GPU [options] -- COMMAND ... | gpus run -s STACK [CLUSTER] --on GPU [options]",
    )
    _spec(run)
    run.add_argument(
        "-s",
        "--stack",
        metavar="STACK",
        help="run the workload that this stack declares (of CLUSTER, where it has several)",
    )
    run.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="GPU",
        help="with -s: on this GPU instead of the declared ones; may be repeated",
    )
    run.add_argument("--name", help="what the other commands call it (default: a made one)")
    run.add_argument("--ttl", help="the cloud itself ends it after this long (default 4h)")
    run.add_argument(
        "--wait", help="how long one place may keep you waiting until it is ready (default 15m)"
    )
    run.add_argument("--disk-gib", type=int, metavar="GIB", help="boot disk")
    run.add_argument(
        "--ssh-key", metavar="FILE", help="your own private key (default: one is made)"
    )
    run.add_argument(
        "--put",
        action="append",
        default=[],
        metavar="HERE[:THERE]",
        help="copy this there first; may be repeated",
    )
    run.add_argument(
        "--get",
        action="append",
        default=[],
        metavar="THERE[:HERE]",
        help="copy this back afterwards; may be repeated",
    )
    _taken(run)
    run.add_argument("--yes", action="store_true", help="buy in the live world without asking")
    run.add_argument(
        "--keep",
        action="store_true",
        help="leave it running afterwards, until `gpus release` or its ttl",
    )

    copy = command(
        "cp",
        "copy a file or folder to or from a machine",
        "cp HERE NAME:THERE | gpus cp NAME:THERE HERE [-s STACK]",
    )
    copy.add_argument("source")
    copy.add_argument("target")
    _taken(copy)
    login = command(
        "ssh",
        "log in to a machine, or run a command there",
        "ssh NAME [-s STACK] [-L PORT] [-- COMMAND ...]",
    )
    login.add_argument("name")
    login.add_argument(
        "-L",
        dest="forward",
        action="append",
        default=[],
        metavar="[LOCAL:]PORT",
        help="carry this port of it here; may be repeated",
    )
    logs = command(
        "logs", "what a machine wrote while it started", "logs NAME [-s STACK] [--lines N]"
    )
    logs.add_argument("name")
    logs.add_argument(
        "--lines",
        type=int,
        default=200,
        metavar="N",
        help="the last so many (default 200; 0 for all)",
    )
    wait = command(
        "wait", "wait until a job has ended; its exit code", "wait [NAME] [-s STACK] [--timeout 2h]"
    )
    wait.add_argument("name", nargs="?", help="which (default: the one job there is)")
    wait.add_argument("--timeout", help="give up after this long (default: never)")
    doctor = command(
        "doctor", "what is wrong with a GPU machine, and what to do", "doctor [NAME [-s STACK]]"
    )
    doctor.add_argument("name", nargs="?", help="a machine that is held (default: this one)")
    for parser in (copy, login, logs, doctor):
        parser.add_argument(
            "--node", type=int, default=0, help="which machine of a cluster (default 0)"
        )
    listed = command(
        "ps", "what is held, ad hoc and by stacks, by whom, at what price", "ps [-s STACK]"
    )
    listed.add_argument("--json", action="store_true", help="a JSON list instead of a table")
    for parser in (copy, login, logs, wait, doctor, listed):
        parser.add_argument(
            "-s",
            "--stack",
            metavar="STACK",
            help="what this stack declares, instead of what is ad hoc",
        )
    command("release", "give back, confirmed, what bears a name", "release NAME ...").add_argument(
        "names", nargs="+", metavar="NAME"
    )


def _adhoc(options: argparse.Namespace, command: Sequence[str]) -> int:
    from providers.cli import adhoc as commands

    gc.enable()  # these may take hours
    if options.command == "run" and options.stack:
        options.declared = stackfile.read(options.stack)
    if options.command in {"run", "ssh"}:
        return {"run": commands.run, "ssh": commands.ssh}[options.command](options, command)
    does = {
        "cp": commands.cp,
        "logs": commands.logs,
        "ps": commands.ps,
        "release": commands.release,
        "wait": commands.wait,
    }
    does["doctor"] = commands.doctor
    return does[options.command](options)


def _spec(parser: argparse.ArgumentParser) -> None:
    """The arguments that say what is wanted."""
    parser.add_argument(
        "gpu", nargs="?", help='"H100:8"; "H100!:8" for exactly this, no free upgrade'
    )
    parser.add_argument(
        "--fallback",
        action="append",
        default=[],
        metavar="GPU",
        help="another acceptable choice; may be repeated",
    )
    parser.add_argument("--nodes", type=int, help="machines in the cluster (default 1)")
    parser.add_argument(
        "--spot", choices=("never", "prefer", "only"), help="whether spot capacity will do"
    )
    parser.add_argument(
        "--capacity",
        action="append",
        metavar="KIND",
        help="on-demand, spot, flex-start or reservation(NAME), in order; may be repeated",
    )
    parser.add_argument(
        "--max-price", type=float, metavar="USD", help="dollars per hour for all nodes together"
    )
    parser.add_argument(
        "--rank", choices=RANKS[:-1], help=f"what comes first (default: {RANKS[0]})"
    )
    parser.add_argument(
        "--marketplaces",
        action="store_true",
        help="strangers' hosts will do, though no --provider names their marketplace",
    )
    parser.add_argument(
        "--accept-suspect-prices",
        action="store_true",
        help="buy also at a price that can hardly be true",
    )
    _places(parser)


def _places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--provider",
        action="append",
        default=[],
        metavar="P",
        help="allowed provider, in this order; may be repeated",
    )
    parser.add_argument(
        "--region", action="append", default=[], metavar="R", help="allowed region; may be repeated"
    )


def _world(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--world", choices=WORLDS, help="rehearsal (default) or live")


def _offers(options: argparse.Namespace) -> int:
    from providers import api

    where = _where(options.where, options.provider) if options.where else {}
    table = api.market(
        options.world or REHEARSAL, where, options.provider, options.gpu, options.region
    )
    found = api.among(
        table, options.gpu, spot=options.spot, providers=options.provider, regions=options.region
    )
    by_provider = options.sort == "provider"
    if options.json:
        _print_json(
            [
                _offer(offer)
                for offer in (
                    sorted(found, key=lambda offer: offer.provider) if by_provider else found
                )
            ]
        )
    else:
        print(
            "\n".join(_offer_lines(found, None if options.all else SHOWN, by_provider=by_provider))
        )
    for warning in table.warnings:
        print(f"gpus: warning: {warning}", file=sys.stderr)
    return OK


def _where(text: str, providers: Sequence[str]) -> dict[str, dict[str, str]]:
    """Conditions on hosts as settings of every allowed provider that knows them. A name may be
    short for the only setting that begins with it.
    """
    from providers.adapters.registry import manifests

    known = {
        name: found.credentials.settings
        for name, found in manifests().items()
        if found.credentials.settings and (not providers or name in providers)
    }
    settings: dict[str, dict[str, str]] = {}
    problems: list[Problem] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, compared, value = (word.strip() for word in part.partition(">="))
        meant = {
            name: (
                [word for word in words if word == key]
                or [word for word in words if word.startswith(key)]
            )
            for name, words in known.items()
        }
        found = {name: words[0] for name, words in meant.items() if len(words) == 1}
        if not compared or not key or not value:
            problems.append(
                Problem("--where", "NAME>=VALUE, several with commas between", repr(part))
            )
        elif not found:
            listed = (
                ", ".join(sorted({word for words in known.values() for word in words}))
                or "none at these providers"
            )
            problems.append(
                Problem(
                    "--where",
                    "a condition that a provider knows",
                    repr(key),
                    f"there are: {listed}",
                )
            )
        for name, word in found.items():
            settings.setdefault(name, {})[word] = value
    for name, section in settings.items():
        problems.extend(
            Problem(f"--where {problem.path}", *problem[1:])
            for problem in manifests()[name].options(section)
        )
    if problems:
        raise SpecError(problems)
    return settings


def _offer(offer: Offer) -> dict[str, Any]:
    from providers.model.money import usd
    from providers.planner.rules import known

    price = known(offer.node_micro_usd)
    fields = offer._asdict()
    del fields["node_micro_usd"]
    return {**fields, "price_usd_per_hour": None if price is None else usd(price)}


def _offer_lines(offers: Sequence[Offer], most: int | None, *, by_provider: bool) -> Iterable[str]:
    """A table of the first lines, at most so many; zones of a region that sell the same at the same
    price share one. What is never bought says by which rule.
    """
    from providers.adapters.registry import capabilities
    from providers.model.money import per_hour
    from providers.planner.rules import known

    groups: dict[tuple[object, ...], tuple[Offer, list[str]]] = {}
    for offer in offers:
        key = offer._replace(zone="", parts="")
        groups.setdefault(key, (offer, []))[1].append(offer.zone)
    rows = [("provider", "place", "machine", "GPU", "capacity", "$/h", "per GPU", "")]
    notes: dict[str, int] = {}
    dates: dict[str, set[str]] = {}
    able = capabilities()
    shown = list(groups.values())[:most]
    for offer, zones in (
        sorted(shown, key=lambda group: group[0].provider) if by_provider else shown
    ):
        price = known(offer.node_micro_usd)
        rows.append(
            (
                offer.provider,
                _zones(offer.region, [zone for zone in zones if zone]),
                offer.machine_type,
                f"{offer.gpu_type}:{offer.gpu_count:g}",
                offer.capacity,
                "no price" if price is None else f"{price / 1e6:,.4f}",
                "" if price is None else per_hour(int(price / offer.gpu_count)).removesuffix("/h"),
                (
                    f"[{notes.setdefault(never, len(notes) + 1)}]"
                    if (never := _never(offer, able))
                    else ""
                ),
            )
        )
        dates.setdefault(offer.provider, set()).update({offer.price_as_of} - {""})
    yield from _table(rows, right={5, 6}, gives=(2, 1))
    for note, number in notes.items():
        yield from _wrapped(f"[{number}] ", f"not bought, by the rule {note}")
    spans = [
        f"{name} {min(found)}{f' to {max(found)}' if len(found) > 1 else ''}"
        for name, found in dates.items()
        if found
    ]
    yield from _wrapped("", f"prices as of: {'; '.join(spans) or 'no date'}")
    if len(groups) > len(shown):
        yield f"and {len(groups) - len(shown):,} more, none cheaper: --all lists them"
    left_out = {
        offer.provider: offer.left_out.replace("; ", ", ") for offer, _ in shown if offer.left_out
    }
    named = "; ".join(f"{name}: {text}" for name, text in left_out.items()) or "nothing named"
    yield from _wrapped("", f"all-in for one node per hour; not in it: {named}")


def _never(offer: Offer, able: Mapping[str, Capabilities]) -> str:
    """The rule by which no plan buys this offer, whatever is asked, and why; empty for what can be
    bought.
    """
    from providers.planner import rules

    skills = able.get(offer.provider)
    if offer.restriction:
        return f"{rules.NAMES[rules.SOLD]}: {offer.restriction}"
    if skills is None:
        return f"{rules.NAMES[rules.ADAPTER]}: no adapter for {offer.provider} yet"
    if offer.capacity not in skills.capacities or not skills.orders(offer.machine_type):
        what = offer.capacity if skills.orders(offer.machine_type) else "this machine type"
        return f"{rules.NAMES[rules.ORDERABLE]}: {what} cannot be ordered at {offer.provider} yet"
    return (
        f"{rules.NAMES[rules.PRICE]}: an unknown price is never bought, unless you give one"
        if rules.known(offer.node_micro_usd) is None
        else ""
    )


def _zones(region: str, zones: list[str]) -> str:
    """`us-central1-a,b,c` for zones that are the region and a letter; else the zones, or the region
    alone.
    """
    letters = [zone.removeprefix(f"{region}-") for zone in zones]
    if zones and all(
        letter != zone and len(letter) <= 3 for letter, zone in zip(letters, zones, strict=True)
    ):
        return f"{region}-{','.join(sorted(letters))}"
    return f"{region} {','.join(zones)}" if zones else region


def _plan(options: argparse.Namespace) -> int:
    from providers import api
    from providers.planner import render

    worst = OK
    for title, ask, world, settings in _asked(options):
        made = api.plan(ask, world=world, settings=settings)
        if options.json:
            _print_json(
                render.as_json(made)
                if options.cluster or not options.stack
                else {"cluster": title, **render.as_json(made)}
            )
        elif options.markdown:
            print(render.as_markdown(made, title=title), end="\n\n")
        else:
            print(render.as_text(made, title=title), end="\n\n" if options.stack else "\n")
        if made.best is None:
            from providers.planner.suggest import hints

            refusals = ", ".join(
                f"{count:,} by {rule}" for rule, count in made.rejected_by_rule.items()
            )
            head = f"{title}: " if title else ""
            lines = [
                f"nothing acceptable{f'; refused: {refusals}' if refusals else ''}",
                *hints(made),
            ]
            worst = _complain("\n".join(head + text for text in lines), NOTHING)
    return worst


def _asked(
    options: argparse.Namespace,
) -> list[tuple[str, Ask | Cluster, str, Mapping[str, Mapping[str, str]]]]:
    """(title, what is wanted, world, settings) of each plan to make: the one of the arguments, or
    those of a stack's file.
    """
    from providers import api

    if not options.stack:
        if options.cluster:
            raise SpecError([Problem("--cluster", "a stack that has it", "none", "add -s STACK")])
        if not options.gpu:
            raise SpecError([Problem("", 'a GPU such as "H100:8", or -s STACK', "neither")])
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
    from providers.engine import validate

    stack = stackfile.read(options.stack)
    if options.cluster and options.cluster not in stack.clusters:
        raise SpecError(
            [
                Problem(
                    "--cluster",
                    f"a cluster of {stack.name}",
                    repr(options.cluster),
                    f"there are: {', '.join(stack.clusters)}",
                )
            ]
        )
    asks: list[tuple[str, Ask | Cluster, str, Mapping[str, Mapping[str, str]]]] = []
    problems: list[Problem] = []
    for name, raw in stack.clusters.items():
        if options.cluster in (None, name):
            try:
                asks.append(
                    (
                        name,
                        validate.cluster(name, raw),
                        options.world or stack.world,
                        stack.settings,
                    )
                )
            except SpecError as error:
                problems.extend(
                    problem._replace(path=f"{name}.{problem.path}" if problem.path else name)
                    for problem in error.problems
                )
    if problems:
        raise SpecError(problems)
    return asks


def _hardware(options: argparse.Namespace) -> int:
    from providers import api
    from providers.catalog import hardware as facts

    dtype = options.dtype
    if dtype not in facts.DTYPES:
        raise SpecError([Problem("--dtype", f"one of {', '.join(facts.DTYPES)}", repr(dtype))])
    found = api.hardware(*options.names)
    if options.json:
        _print_json(
            [
                {
                    **item._asdict(),
                    "dtype": dtype,
                    "expected_tflops": facts.achieved_tflops(item.name, dtype),
                }
                for item in found
            ]
        )
        return OK
    unit = "TOPS" if dtype == "int8" else "TFLOPS"
    rows = [
        (
            "model",
            "GiB",
            "memory",
            "TB/s",
            unit,
            "expected",
            "link GB/s",
            "W",
            "cc",
            "form",
            "source",
        )
    ]
    sources: dict[str, int] = {}
    notes: list[str] = []
    for item in found:
        reading = "" if item.source_read else ", as remembered"
        source = sources.setdefault(
            f"{item.source}, {item.source_as_of}{reading}", len(sources) + 1
        )
        measured = item.achieved_bf16_tflops is not None and dtype == "bf16"
        rows.append(
            (
                item.name,
                _figure(item.memory_gib),
                item.memory_kind,
                _figure(item.bandwidth_tb_s),
                _figure(item.dense_tflops(dtype)),
                _figure(facts.achieved_tflops(item.name, dtype)) + ("*" if measured else " "),
                _figure(item.interconnect_gb_s),
                _figure(item.tdp_w),
                item.compute_capability or "-",
                item.form_factor,
                f"[{source}]",
            )
        )
        notes += [f"{item.name}: {item.note}"] if item.note and options.names else []
    print("\n".join(_table(rows, right={1, 3, 4, 5, 6, 7})))
    legend = (
        "expected: what a large matmul reaches, * measured, else estimated from measured models; -"
        " not known or not there"
    )
    print("\n".join(_wrapped("", f"{unit}: dense {dtype} peak of one GPU; {legend}")))
    for text in [*notes, *(f"[{number}] {source}" for source, number in sources.items())]:
        print("\n".join(_wrapped("", text, "    ")))
    return OK


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if value < 10_000 else f"{value:.0f}"


def _table(
    rows: Sequence[Sequence[str]], right: Container[int], gives: Sequence[int] = ()
) -> Iterable[str]:
    """Rows as columns; those numbered in `right` flush right. Where they are too wide the gaps
    narrow, then the columns in `gives` give way.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    most = _width()
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= most else " "
    for column in gives:
        over = sum(widths) + len(gap) * (len(widths) - 1) - most
        widths[column] = max(min(17, widths[column]), widths[column] - max(over, 0))
    for row in rows:
        texts = [
            cell if len(cell) <= width else f"{cell[: width - 1]}…"
            for cell, width in zip(row, widths, strict=True)
        ]
        cells = (
            f"{cell:>{width}}" if column in right else f"{cell:<{width}}"
            for column, (cell, width) in enumerate(zip(texts, widths, strict=True))
        )
        yield gap.join(cells).rstrip()


def _width() -> int:
    """Columns for an answer: 96, or what the terminal has if that is more."""
    import shutil

    return max(96, shutil.get_terminal_size((96, 24)).columns)


def _wrapped(head: str, text: str, further: str | None = None) -> list[str]:
    """The text behind its head, broken at spaces; further lines are indented as far as the head
    reaches, or as said.
    """
    import textwrap

    indent = " " * len(head) if further is None else further
    return textwrap.wrap(
        text,
        _width(),
        initial_indent=head,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [head.rstrip()]


def _usable(world: World, provider: str) -> list[CheckLine]:
    """Which places that begin closed the account can use now; what was remembered against it is
    forgotten, since it may have been changed.
    """
    from providers.catalog.offers import load
    from providers.engine.market import closed_places
    from providers.model.machine import CheckLine

    try:
        places = closed_places.look_again(world, provider, world.offers or load())
    except GpusError as error:
        return [CheckLine(provider, "places", "unknown", str(error))]
    return (
        [
            CheckLine(
                provider,
                "places",
                "ok",
                f"enabled: {', '.join(zone or region for region, zone in places)}",
            )
        ]
        if places
        else []
    )


def _check(options: argparse.Namespace) -> int:
    from providers.adapters import registry
    from providers.engine.runtime.world import open_world
    from providers.model.machine import CheckLine

    manifests = registry.manifests()
    if options.provider and options.provider not in manifests:
        raise SpecError(
            [
                Problem(
                    "provider",
                    f"one of {', '.join(manifests) or 'none yet'}",
                    repr(options.provider),
                )
            ]
        )
    stack = (
        stackfile.read(options.stack) if options.stack else stackfile.Stack("", REHEARSAL, {}, {})
    )
    world = open_world(options.world or stack.world, stack.settings)
    lines: list[CheckLine] = []
    usable: dict[str, bool] = {}
    try:
        for name in [options.provider] if options.provider else manifests:
            try:
                found = list(world.adapter(name).check())
                found += _usable(world, name)
            except NotConfigured as error:
                found = [CheckLine(name, "credentials", "missing", str(error))]
            except GpusError as error:
                found = [
                    CheckLine(
                        name,
                        "answer",
                        "unknown",
                        (
                            f"{type(error).__name__}: {error}"
                            if isinstance(error, CloudError)
                            else str(error)
                        ),
                    )
                ]
            usable[name] = all(
                line.state == "ok" for line in found if line.state in {"ok", "missing", "refused"}
            ) and any(line.state == "ok" for line in found)
            lines += found
    finally:
        world.close()
    if options.json:
        _print_json([line._asdict() for line in lines])
    else:
        for line in lines:
            head = f"{line.provider:<8} {line.state:<8} {line.topic:<16} "
            found_text = line.found.removeprefix(f"{line.provider}: ")
            print("\n".join(_wrapped(head, found_text)))
            if line.todo:
                print("\n".join(_wrapped(" " * len(head), line.todo)))
        lines or print("there is no provider to check: no adapter is installed")
    return (
        OK if (usable[options.provider] if options.provider else any(usable.values())) else NOTHING
    )


def _sweep(options: argparse.Namespace) -> int:
    from providers.cli import sweep

    gc.enable()  # deletions may take minutes
    stack = (
        stackfile.read(options.stack) if options.stack else stackfile.Stack("", REHEARSAL, {}, {})
    )
    return sweep.run(options, options.world or stack.world, stack.settings)


def _print_json(value: object) -> None:
    import json

    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")


_COMMANDS: Mapping[str, Callable[[Any], None]] = {
    "offers": _offers_parser,
    "plan": _plan_parser,
    "hardware": _hardware_parser,
    "check": _check_parser,
    "sweep": _sweep_parser,
    **dict.fromkeys(
        ("run", "cp", "ssh", "logs", "wait", "doctor", "ps", "release"), _adhoc_parsers
    ),
    "watch": _watch_parser,
    "rehearse": _rehearse_parser,
    "size": _size_parser,
}
