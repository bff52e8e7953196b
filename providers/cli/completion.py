"""`gpus completion`: a script by which a shell completes commands, options and names.

shtab writes the script from the parsers themselves; it is imported only here. The script asks
`gpus completion stacks` for the names of stacks, since those differ from folder to folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.cli import stackfile
from providers.cli.output import OK

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from providers.cli.arguments import Parser

SHELLS = ("bash", "zsh", "fish")
_STACKS = "stacks"


def run_completion(options: argparse.Namespace, every: Callable[[], Parser]) -> int:
    """Prints the script for a shell, or the names of the stacks here. `every` makes the parser of
    all commands.
    """
    if options.what == _STACKS:
        project = stackfile.nearest_project()
        print("\n".join(stackfile.names(project) if project is not None else ()))
        return OK
    import shtab

    parser = every()
    _complete(parser)
    print(shtab.complete(parser, shell=options.what))
    return OK


def _complete(parser: Parser) -> None:
    """Says of each argument, here and below, what its values are."""
    import shtab

    from providers.adapters import registry
    from providers.catalog import names

    values = {
        **dict.fromkeys(("gpu", "fallback", "on"), names.models()),
        "provider": tuple(registry.manifests()),
    }
    for action in parser.actions:
        if action.dest == "stack":
            vars(action)["complete"] = shtab.cmd("gpus completion stacks 2>/dev/null")
        elif action.choices is None and action.dest in values:
            action.choices = values[action.dest]
    for below in parser.commands.values():
        _complete(below)


def add_completion(commands: Any, run: Callable[[argparse.Namespace], int]) -> None:
    """Adds `completion` to the commands."""
    completion = commands.add_parser(
        "completion",
        help="a script that completes commands, options and names in your shell",
        description=(
            'Prints a script for your shell: eval "$(gpus completion bash)". With "stacks", the'
            " names of the stacks here."
        ),
    )
    completion.add_argument("what", choices=(*SHELLS, _STACKS), help="the shell")
    completion.set_defaults(run=run)
