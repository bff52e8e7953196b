"""`gpus rerun` and `gpus reclaim`: ask for a new run of a declared cluster, or for its preferred
choice while a fallback runs. They write the stack's configuration by Pulumi's own program, which
keeps comments and order; `pulumi up` acts on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.cli import stackfile
from providers.cli.output import OK
from providers.errors import Problem, SpecError
from providers.model.wording import near

if TYPE_CHECKING:
    import argparse


def run_trigger(options: argparse.Namespace) -> int:
    """Raises the trigger of the command by one, and says which `up` follows, or runs it: then its
    exit code. SpecError for a cluster that is not declared, GpusError where Pulumi refuses.
    """
    from providers.cli import pulumi_program

    stack = stackfile.read(options.stack)
    _declared(stack, options.name)
    triggers = stackfile.specs(stack, options.name)[options.name].triggers
    count = getattr(triggers, options.command) + 1
    project = stackfile.project_folder()
    path = f'gpus:clusters["{options.name}"].triggers.{options.command}'
    words = ("config", "set", "--path", path, str(count), "-s", stack.name)
    pulumi_program.answer(project, *words)
    print(f"Pulumi.{stack.name}.yaml: {options.name}.triggers.{options.command} is {count} now")
    if not options.up:
        print(f"next: pulumi up -s {stack.name}   (the preview says what it does; nothing ran yet)")
        return OK
    return pulumi_program.act(project, "up", "-s", stack.name, *(["--yes"] * options.yes))


def _declared(stack: stackfile.Stack, name: str) -> None:
    if name not in stack.clusters:
        found = repr(name) + near(name, stack.clusters)
        known = f"there are: {', '.join(stack.clusters)}"
        raise SpecError([Problem("NAME", f"a cluster of stack {stack.name}", found, known)])
    if not isinstance(stack.clusters[name], dict):
        raise SpecError(
            [
                Problem(
                    f"gpus:clusters.{name}",
                    "a mapping, which has room for what this command writes",
                    repr(stack.clusters[name])[:80],
                    f"write {name}: {{gpu: {stack.clusters[name]!r}}}",
                )
            ]
        )


def add_rerun(commands: Any) -> None:
    """Adds `rerun` to the commands."""
    _add(
        commands,
        "rerun",
        "ask for a new run of a stack's cluster",
        "Asks for a new run: a new machine, or a job once more. It raises `triggers.rerun` of the"
        " cluster in the stack's configuration; the next `pulumi up` releases what is left of the"
        " present run and starts the new one.",
    )


def add_reclaim(commands: Any) -> None:
    """Adds `reclaim` to the commands."""
    _add(
        commands,
        "reclaim",
        "ask for a cluster's preferred choice while a fallback runs",
        "Asks for the preferred choice. It raises `triggers.reclaim` of the cluster in the stack's"
        " configuration; the next `pulumi up` gets the preferred one first, then releases the"
        " fallback. Where there is no room, the fallback stays.",
    )


def _add(commands: Any, name: str, what: str, description: str) -> None:
    parser = commands.add_parser(name, help=what, description=description)
    parser.add_argument("name", metavar="NAME", help="a cluster of the stack")
    parser.add_argument("-s", "--stack", required=True, help="the stack that declares it")
    parser.add_argument("--up", action="store_true", help="also run `pulumi up` on the stack")
    parser.add_argument("--yes", action="store_true", help="with --up: without its question")
    parser.set_defaults(run=run_trigger, command=name)
