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
from providers.cli.adhoc_parser import add_adhoc, run_adhoc
from providers.cli.arguments import Parser, as_options
from providers.cli.check import add_check
from providers.cli.hardware import add_hardware
from providers.cli.offers import add_offers
from providers.cli.options import add_world
from providers.cli.output import CUT, INTERRUPTED, NOTHING, OK, WRONG, complain
from providers.cli.plan import add_plan
from providers.errors import AllFailed, GpusError, Problem, SpecError
from providers.home import keep_own_rights
from providers.model.screen import on_screen
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping, Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code. Messages go to stderr, answers to stdout."""
    # An answer is short work that makes no garbage: looking for some, also when the process ends,
    # costs a fifth of it.
    gc.disable()
    keep_own_rights()
    try:
        with on_screen():
            return _main(list(sys.argv[1:] if argv is None else argv))
    finally:
        gc.freeze()
        gc.enable()


def _main(arguments: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        beneath = getattr(stream, "beneath", stream)
        if isinstance(beneath, io.TextIOWrapper):
            beneath.reconfigure(
                errors="replace"
            )  # a terminal that cannot show a character still gets the rest
    try:
        if arguments[:1] not in (["cp"], *_WITH_WORDS):
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
            code = (
                options.run(options, command) if options.run is run_adhoc else options.run(options)
            )
        sys.stdout.flush()
    except SpecError as error:
        return complain(str(as_options(error, arguments)), WRONG)
    except GpusError as error:
        return complain(str(error), NOTHING if isinstance(error, AllFailed) else WRONG)
    except KeyboardInterrupt as interrupt:
        return complain("interrupted", 128 + interrupt.args[0] if interrupt.args else INTERRUPTED)
    except BrokenPipeError:
        # Whoever read the answer has seen enough. The interpreter flushes stdout once more at its
        # end: let that find somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return (
            CUT if arguments[:1] in _WITH_WORDS else OK
        )  # a command that was cut short has not succeeded
    except OSError as error:
        from providers.engine.own_machine import of_machine

        return complain(of_machine(error), WRONG)
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
        if arguments[:1] in _WITH_WORDS and "--" in arguments
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


def _parser(word: str = "") -> Parser:
    """The parser of every command, or of the one that `word` names: the others would cost a plan
    some milliseconds.
    """
    parser = _Overview(prog="gpus")
    parser.add_argument("--version", action="store_true", help="say which version this is")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for fill in [_COMMANDS[word]] if word in _COMMANDS else dict.fromkeys(_COMMANDS.values()):
        fill(commands)
    return parser


class _Overview(Parser):
    """The parser of all commands, whose help names each in one line, by what it is for."""

    def format_help(self) -> str:
        texts = {
            each.dest: each.help
            for action in self.actions
            if isinstance(action.choices, dict)
            for each in action._get_subactions()  # type: ignore[attr-defined]  # noqa: SLF001
        }
        lines = ["The GPUs you want, wherever they are for sale.", "", "usage: gpus COMMAND ..."]
        for title, names in _GROUPS.items():
            lines += ["", title, *(f"  {name:<12}{texts[name]}" for name in names)]
        return "\n".join([*lines, "", _MORE, ""])


def _sweep_parser(commands: Any) -> None:
    sweep = commands.add_parser(
        "sweep",
        help="find orphans (in no stack), and delete them once you agree",
        description=(
            "Lists resources labelled as ours that no stack claims, with age and price. Asks,"
            " deletes them, and confirms each deletion."
        ),
    )
    sweep.add_argument("-s", "--stack", help="with the world and settings of this stack")
    add_world(sweep)
    sweep.add_argument(
        "--yes", action="store_true", help="delete unclaimed resources without asking"
    )
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


def _sweep(options: argparse.Namespace) -> int:
    from providers.cli import sweep

    gc.enable()  # deletions may take minutes
    stack = (
        stackfile.read(options.stack) if options.stack else stackfile.Stack("", REHEARSAL, {}, {})
    )
    return sweep.run(options, options.world or stack.world, stack.settings)


def _completion_parser(commands: Any) -> None:
    from providers.cli import completion

    completion.add_completion(commands, _completion)


def _cost_parser(commands: Any) -> None:
    from providers.cli import cost

    cost.add_cost(commands)


def _explain_parser(commands: Any) -> None:
    from providers.cli import explain

    explain.add_explain(commands)


def _prices_parser(commands: Any) -> None:
    from providers.cli import prices

    prices.add_prices(commands)


def _report_parser(commands: Any) -> None:
    from providers.cli import report

    report.add_report(commands)


def _review_parser(commands: Any) -> None:
    from providers.cli import review

    review.add_review(commands)


def _spend_parser(commands: Any) -> None:
    from providers.cli import spend

    spend.add_spend(commands)


def _memory_parser(commands: Any) -> None:
    from providers.cli import memory

    memory.add_memory(commands)


def _rerun_parser(commands: Any) -> None:
    from providers.cli import triggers

    triggers.add_rerun(commands)


def _reclaim_parser(commands: Any) -> None:
    from providers.cli import triggers

    triggers.add_reclaim(commands)


def every() -> Parser:
    """The parser of every command, also of those that read their own arguments."""
    from providers.cli import rehearse, size, watch

    parser = _parser()
    for name, module in (("rehearse", rehearse), ("size", size), ("watch", watch)):
        parser.commands[name] = module.parser()
    return parser


def _completion(options: argparse.Namespace) -> int:
    from providers.cli import completion

    return completion.run_completion(options, every)


_GROUPS = {
    "Look, and buy nothing": (
        *("offers", "plan", "cost", "explain", "hardware", "size", "check", "ps", "spend"),
        *("memory", "report", "prices"),
    ),
    "Use machines": (
        *("run", "get", "ssh", "ssh-config", "cp", "logs", "wait", "doctor", "top", "accept"),
        "release",
    ),
    "Look after stacks": ("watch", "rerun", "reclaim", "sweep", "review"),
    "Rehearse, and set up": ("rehearse", "completion"),
}
"""What each command is for: the order of the help."""
_WITH_WORDS = (["run"], ["get"], ["ssh"])
"""Commands with another program's words behind `--`."""
_MORE = "gpus COMMAND --help says more; gpus --version says which version this is."
_COMMANDS: Mapping[str, Callable[[Any], None]] = {
    "offers": add_offers,
    "plan": add_plan,
    "hardware": add_hardware,
    "check": add_check,
    "sweep": _sweep_parser,
    **dict.fromkeys(("run", "get", "cp", "ssh", "ssh-config", "logs", "wait"), add_adhoc),
    **dict.fromkeys(("doctor", "accept", "top", "ps", "release"), add_adhoc),
    "watch": _watch_parser,
    "rehearse": _rehearse_parser,
    "size": _size_parser,
    "completion": _completion_parser,
    "cost": _cost_parser,
    "explain": _explain_parser,
    "spend": _spend_parser,
    "prices": _prices_parser,
    "report": _report_parser,
    "review": _review_parser,
    "memory": _memory_parser,
    "rerun": _rerun_parser,
    "reclaim": _reclaim_parser,
}
