"""Places closed to an account until somebody changes the account: a zone or region that is not
enabled, a quota of zero.

Owns what is remembered of them (in the journal, by account), and which places begin closed. A
shortage is no closure: that is a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.errors import CloudError, GpusError
from providers.model.place import Block, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from providers.adapters.guard import Cloud
    from providers.catalog.table import OfferTable
    from providers.engine.record import Account
    from providers.engine.runtime.world import World
    from providers.model.place import Placed

PROBE_S = 30 * 86_400.0
"""A refusal that names the account is believed this long; then the place is tried once more."""
FOREVER = float("inf")
Place = tuple[str, str]
"""(region, zone)"""


def begin_closed(
    world: World, table: OfferTable, providers: Iterable[str]
) -> dict[str, dict[Place, str]]:
    """By provider, the places on offer that an account begins without, each with how it is enabled.
    Pure.
    """
    asked = {
        name: how for name in providers if (how := world.manifests[name].limits.closed) is not None
    }
    found = {
        name: {place: why for place in table.places.get(name, ()) if (why := how(*place))}
        for name, how in asked.items()
    }
    return {name: places for name, places in found.items() if places}


def usable(adapter: Cloud, places: Iterable[Place]) -> frozenset[Place]:
    """Those of the places that the account can use now, by its cloud's own word; none where it does
    not say.
    """
    try:
        return frozenset(adapter.usable(tuple(places)))
    except CloudError:
        return frozenset()


def closed(
    world: World,
    begin: Mapping[str, Mapping[Place, str]],
    open_now: Mapping[str, frozenset[Place]],
    providers: Iterable[str],
) -> tuple[Block, ...]:
    """What the accounts that the settings lead to cannot use: what was refused to them, and what
    begins closed and was not seen to be open.

    `open_now` are the places that a cloud itself has just said to be open.
    """
    out: list[Block] = []
    records = world.journal.closures(world.name) if world.has_journal else ()
    for provider in providers:
        known = [record for record in records if record.scope.provider == provider]
        whose = _account(world, provider) if known else None
        mine = [record for record in known if whose is None or record.account == whose]
        opened = {
            (record.scope.region, record.scope.zone) for record in mine if record.opened
        } | open_now.get(provider, frozenset())
        refused = [
            (record.scope, record.until, record.reason) for record in mine if not record.opened
        ]
        begun = [
            (Scope(provider, *place), FOREVER, why)
            for place, why in begin.get(provider, {}).items()
        ]
        out += [
            Block(scope, until, f"{reason}; then {forgets(world.name, provider)}", closed=True)
            for scope, until, reason in (*refused, *begun)
            if not any(_holds(scope, place) for place in opened)
        ]
    return tuple(out)


def _holds(scope: Scope, place: Place) -> bool:
    """Whether a scope is this place or its region, and nothing narrower, such as one GPU's quota
    there.
    """
    return scope[3:] == ("", "", "") and scope.region == place[0] and scope.zone in ("", place[1])


def forgets(world: str, provider: str) -> str:
    """The command after which a place is asked again."""
    return f"`gpus check {provider} --world {world}`"


def close(world: World, account: Account, scope: Scope, error: CloudError) -> None:
    """Remembers a refusal that stands until the account is changed."""
    reason = " ".join(str(error).split())
    world.journal.close_to(world.name, account, scope, reason, world.clock.now() + PROBE_S)


def opened(world: World, account: Account, place: Placed) -> None:
    """A machine was launched there: what was remembered against the place no longer holds, and a
    place that begins closed is open.
    """
    manifest = world.manifests.get(place.provider)
    begins = (
        manifest is not None
        and manifest.limits.closed is not None
        and bool(manifest.limits.closed(place.region, place.zone))
    )
    world.journal.open_to(world.name, account, place, remember=begins)


def look_again(world: World, provider: str, table: OfferTable) -> Sequence[Place]:
    """Forgets what was remembered of this provider, and notes which of the places that begin closed
    its account can use now. Returns these.
    """
    begin = begin_closed(world, table, [provider]).get(provider, {})
    found = sorted(usable(world.adapter(provider), begin)) if begin else []
    if world.has_journal or found:
        world.journal.forget_closures(world.name, provider)
        for region, zone in found:
            world.journal.open_to(
                world.name, world.account(provider), Scope(provider, region, zone), remember=True
            )
    return found


def _account(world: World, provider: str) -> Account | None:
    """Whose account it is; None where that cannot be told, so that what any account was refused
    counts.
    """
    try:
        return world.account(provider)
    except GpusError:
        return None
