"""`gpus check`: what is there, and what is missing to use a provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.cli import stackfile
from providers.cli.options import add_world
from providers.cli.output import NOTHING, OK, print_json, wrapped
from providers.errors import CloudError, GpusError, NotConfigured, Problem, SpecError
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    import argparse

    from providers.engine.runtime.world import World
    from providers.model.machine import CheckLine


def run_check(options: argparse.Namespace) -> int:
    """Prints what each provider has and lacks; NOTHING where none is usable."""
    from providers.adapters import registry
    from providers.engine.runtime.world import open_world
    from providers.model import mistaken
    from providers.model.machine import CheckLine
    from providers.model.wording import near

    manifests = registry.manifests()
    if options.provider and options.provider not in manifests:
        raise SpecError(
            [
                Problem(
                    "provider",
                    f"one of {', '.join(manifests) or 'none yet'}",
                    repr(options.provider) + near(options.provider, manifests),
                    mistaken.provider(options.provider),
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
        print_json([line._asdict() for line in lines])
    else:
        for line in lines:
            head = f"{line.provider:<8} {line.state:<8} {line.topic:<16} "
            found_text = line.found.removeprefix(f"{line.provider}: ")
            print("\n".join(wrapped(head, found_text)))
            if line.todo:
                print("\n".join(wrapped(" " * len(head), line.todo)))
        lines or print("there is no provider to check: no adapter is installed")
    return (
        OK if (usable[options.provider] if options.provider else any(usable.values())) else NOTHING
    )


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


def add_check(commands: Any) -> None:
    """Adds `check` to the commands."""
    check = commands.add_parser(
        "check",
        help="whether a provider is usable: credentials, rights, quota",
        description="Credentials, APIs, rights and quota.",
    )
    check.add_argument("provider", nargs="?", help="one provider (default: all)")
    check.add_argument("-s", "--stack", help="with the world and settings of this stack")
    add_world(check)
    check.add_argument("--json", action="store_true", help="a JSON list instead of lines")
    check.set_defaults(run=run_check)
