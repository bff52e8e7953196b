"""`gpus memory`: the places that were refused recently, or that the accounts cannot use, and until
when they are left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.cli.options import add_world
from providers.cli.output import OK, print_json, table, wrapped
from providers.errors import Problem, SpecError
from providers.model.place import Scope
from providers.model.wording import near
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from providers.engine.runtime.world import World


def run_memory(options: argparse.Namespace) -> int:
    """Prints what is remembered, or forgets it; OK. Raises SpecError for an unknown provider."""
    from providers.adapters import registry
    from providers.engine.runtime.world import open_world

    known = registry.manifests()
    if options.provider and options.provider not in known:
        found = repr(options.provider) + near(options.provider, known)
        raise SpecError([Problem("provider", f"one of {', '.join(known)}", found)])
    world = open_world(options.world or REHEARSAL)
    try:
        rows = _remembered(world, options.provider or "")
        if options.forget:
            world.journal.unblock(world.name, options.provider or "")
            world.journal.forget_closures(world.name, options.provider or "")
            world.journal.forget_tries(world.name, options.provider or "")
            count = f"{len(rows)} {'place' if len(rows) == 1 else 'places'}"
            print(f"forgot {count}; the next `up` asks them again")
        elif options.json:
            print_json(rows)
        else:
            _show(rows)
    finally:
        world.close()
    return OK


def _remembered(world: World, provider: str) -> list[dict[str, Any]]:
    """What holds now: sold out or refused for a while, and closed to an account."""
    now = world.clock.now()
    if not world.has_journal:
        return []
    told = [
        (each.scope, each.until, each.reason, False) for each in world.journal.blocks(world.name)
    ]
    told += [
        (each.scope, each.until, each.reason, True)
        for each in world.journal.closures(world.name)
        if not each.opened
    ]
    return [
        {**scope._asdict(), "until": until, "reason": reason, "account": closed}
        for scope, until, reason, closed in sorted(told, key=lambda each: (each[3], each[1]))
        if until > now and provider in {"", scope.provider}
    ]


def _show(rows: list[dict[str, Any]]) -> None:
    from providers.engine.messages import moment

    if not rows:
        print("nothing is remembered against any place")
        return
    lately: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if not row["account"]:
            why = str(row["reason"]).partition(" (")[0]
            place = (*(str(row[name]) for name in ("provider", "region")), _what(row), why)
            lately.setdefault(place, []).append(row)
    if lately:
        shown = [
            (
                _where(list(map(_scope, found))),
                what,
                why,
                moment(min(row["until"] for row in found)),
            )
            for (_, _, what, why), found in lately.items()
        ]
        head = ("refused lately", "what", "why", "asked again")
        print("\n".join(table([head, *shown], gives=(2, 1, 0))))
    for row in rows:
        if row["account"]:
            print("\n".join(wrapped(f"{_scope(row)}: closed to the account: ", row["reason"])))
    print("`gpus memory --forget` asks them all again at the next `up`")


def _scope(row: dict[str, Any]) -> Scope:
    return Scope(*(str(row[name]) for name in Scope._fields))


def _what(row: dict[str, Any]) -> str:
    kind = row["machine_type"] or row["gpu_type"] or "everything"
    return " ".join(part for part in (kind, row["capacity"]) if part)


def _where(scopes: Sequence[Scope]) -> str:
    first, zones = scopes[0], [each.zone for each in scopes if each.zone]
    if len(zones) < 2:
        return f"{first.provider} {first.zone or first.region or 'everywhere'}"
    return f"{first.provider} {first.region} ({len(zones)} zones)"


def add_memory(commands: Any) -> None:
    """Adds `memory` to the commands."""
    memory = commands.add_parser(
        "memory",
        help="which places were refused lately, and when they are asked again",
        description="What every stack of this user remembers of places: sold out, or closed to the"
        " account.",
    )
    memory.add_argument("provider", nargs="?", help="one provider (default: all)")
    memory.add_argument("--forget", action="store_true", help="ask them again at the next `up`")
    add_world(memory)
    memory.add_argument("--json", action="store_true", help="a JSON list instead of lines")
    memory.set_defaults(run=run_memory)
