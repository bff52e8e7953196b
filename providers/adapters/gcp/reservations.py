"""Where a named reservation is, and what delivered it. Owns the look-up before a reserved machine
is ordered; reads only.

A reservation that a future reservation delivered is used by machines bound to it (provisioning
model RESERVATION_BOUND; A3 with 8 GPUs and later), any other by ordinary ones. A reservation does
not say which it is: the future reservation lists what it delivered
(`status.autoCreatedReservations`, discovery v1, revision 20261106), and densely deployed capacity
comes from future reservations alone (AI Hypercomputer's pages, 2026).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.gcp import machines
from providers.adapters.gcp.errors import PROVIDER, Context
from providers.errors import CloudError, NoCapacity, RateLimited, Transient, Unsupported
from providers.model import foreign
from providers.model.ask import RESERVATION
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from providers.adapters.gcp.client import Client
    from providers.model.offer import Candidate


class Reserved(NamedTuple):
    """`zone` is empty where it could not be learnt.
    `bound`: machines that use it are bound to it. `name` is what machines name it by.
    """

    zone: str
    bound: bool
    name: str


def parse(text: str, project: str) -> tuple[str, str]:
    """(project, name) of `NAME` or of `projects/P/reservations/NAME`, with or without a block
    behind it.
    """
    parts = text.split("/")
    if len(parts) >= 4 and (parts[0], parts[2]) == ("projects", "reservations"):
        return parts[1], parts[3]
    return project, text


def look(client: Client, candidate: Candidate) -> Reserved:
    """The candidate's reservation, in its zone, or anywhere in its region where it names no zone.

    The name may be a future reservation's, in calendar mode or not: once it has delivered, what it
    delivered is used. Raises NoCapacity before that.

    One list of reservations, and one of future ones for families that can be bound. Another
    project's may be closed to the caller: then its zone is the candidate's, and only what the
    family itself says is known. Raises Unsupported where Google says that it is not there.
    """
    project, name = parse(candidate.reservation, client.project)
    context = Context(
        f"gcp {candidate.zone or candidate.region} reservation {name}",
        client.project,
        candidates=(candidate,),
    )
    family = machines.family(candidate.machine_type)
    always = "on-demand" in family.never and "spot" in family.never
    try:
        found = _named(client, "reservations", project, name, context)
    except (RateLimited, Transient):
        raise
    except CloudError:
        return Reserved(candidate.zone, always, candidate.reservation)
    found = found or _of_future(client, project, name, candidate, context)
    zones = [_zone(body) for body in found]
    here = [
        body
        for body in found
        if _zone(body) == candidate.zone
        or (not candidate.zone and _region(_zone(body)) == candidate.region)
    ]
    if not here:
        where = (
            f"it is in {', '.join(zones)}" if zones else f"project {project} has none of that name"
        )
        raise Unsupported(
            f"gcp {candidate.zone or candidate.region} {candidate.machine_type}: wanted reservation"
            f" {name} there, but {where}",
            provider=PROVIDER,
            code="NO_RESERVATION",
            # Not remembered: it may be made any time.
            block_s=0.0,
            # One that is nowhere is looked for once; one that is elsewhere may still be in a place
            # that comes later.
            scopes=(
                [
                    Scope(
                        PROVIDER,
                        candidate.region,
                        candidate.zone,
                        candidate.machine_type,
                        capacity=RESERVATION,
                    )
                ]
                if zones
                else [Scope(PROVIDER, capacity=RESERVATION)]
            ),
        )
    body = _roomiest(here, candidate)
    fits(body, name, candidate)
    bound = always or (
        family.bound
        and (body.get("deploymentType") == "DENSE" or _delivered(client, project, body, context))
    )
    shared = candidate.reservation.removesuffix(name)
    return Reserved(_zone(body), bound, f"{shared}{body.get('name', name)}")


def _named(
    client: Client, collection: str, project: str, name: str, context: Context
) -> list[dict[str, Any]]:
    """Those of a collection that have exactly this name."""
    found = _all(client, collection, project, f'name="{name}"', context)
    return [each for each in found if each.get("name") == name]


def _of_future(
    client: Client, project: str, name: str, candidate: Candidate, context: Context
) -> list[dict[str, Any]]:
    """What the future reservation of this name delivered; nothing where there is none."""
    try:
        futures = _named(client, "futureReservations", project, name, context)
    except (RateLimited, Transient):
        raise
    except CloudError:
        return []
    links: set[str] = set()
    for future in futures:
        status = future.get("status") or {}
        made = status.get("autoCreatedReservations") or ()
        links.update(map(_path, made))
        if not made and len(futures) == 1:
            begins = (future.get("timeWindow") or {}).get("startTime", "")
            raise NoCapacity(
                f"{context.what}: the future reservation is {status.get('procurementStatus', '')}"
                f" and has delivered nothing yet{f'; it begins {begins}' if begins else ''}",
                provider=PROVIDER,
                code="NOT_DELIVERED",
                block_s=0.0,
                scopes=[Scope(PROVIDER, candidate.region, candidate.zone, capacity=RESERVATION)],
            )
    if not links:
        return []
    every = _all(client, "reservations", project, "", context)
    return [body for body in every if _path(str(body.get("selfLink", ""))) in links]


def _roomiest(here: list[dict[str, Any]], candidate: Candidate) -> dict[str, Any]:
    """Of reservations of one name in several zones the one for this machine type with the most
    room.
    """

    def rank(body: dict[str, Any]) -> tuple[bool, int]:
        held = body.get("specificReservation") or {}
        count = foreign.whole(held.get("count"), foreign.COUNT) or 0
        used = foreign.whole(held.get("inUseCount"), foreign.COUNT) or 0
        return _machine_type(body) in ("", candidate.machine_type), count - used

    return max(here, key=rank)


def _machine_type(body: dict[str, Any]) -> str:
    properties = (body.get("specificReservation") or {}).get("instanceProperties") or {}
    return str(properties.get("machineType") or "").rsplit("/", 1)[-1]


def fits(body: dict[str, Any], name: str, candidate: Candidate) -> None:
    """Raises Unsupported for a reservation that machines cannot name (skypilot#3327), or that is
    for another machine type.
    """
    at = f"gcp {_zone(body)} {candidate.machine_type}"
    scopes = [
        Scope(
            PROVIDER, candidate.region, candidate.zone, candidate.machine_type, capacity=RESERVATION
        )
    ]
    if body.get("specificReservationRequired") is False:
        text = (
            f"{at}: {name} is consumed automatically: leave `reservation({name})` out, on-demand"
            " uses it"
        )
        raise Unsupported(
            text,
            provider=PROVIDER,
            code="CONSUMED_AUTOMATICALLY",
            block_s=0.0,
            scopes=[Scope(PROVIDER, capacity=RESERVATION)],
        )
    found = _machine_type(body)
    if found and found != candidate.machine_type:
        text = (
            f"{at}: wanted reservation {name} for it, found it is for {found}; declare the GPU of"
            " that machine type, or another reservation"
        )
        raise Unsupported(
            text, provider=PROVIDER, code="OTHER_MACHINE_TYPE", block_s=0.0, scopes=scopes
        )


def _delivered(client: Client, project: str, body: dict[str, Any], context: Context) -> bool:
    """True when a future reservation lists this one as its own. Best effort: without the right to
    read them, none is known.
    """
    link = _path(str(body.get("selfLink", "")))
    try:
        for future in _all(client, "futureReservations", project, "", context):
            if link in map(
                _path, (future.get("status") or {}).get("autoCreatedReservations") or ()
            ):
                return True
    except (RateLimited, Transient):
        raise
    except CloudError:
        return False
    return False


def _all(
    client: Client, kind: str, project: str, wanted: str, context: Context
) -> Iterator[dict[str, Any]]:
    for page in client.pages(
        lambda service, token: getattr(service, kind)().aggregatedList(
            project=project, filter=wanted or None, pageToken=token
        ),
        context,
    ):
        for items in (page.get("items") or {}).values():
            yield from items.get(kind, ())


def _zone(body: dict[str, Any]) -> str:
    return str(body.get("zone", "")).rsplit("/", 1)[-1]


def _region(zone: str) -> str:
    return zone.rsplit("-", 1)[0]


def _path(link: str) -> str:
    return link[link.index("projects/") :] if "projects/" in link else link
