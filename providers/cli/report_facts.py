"""What a report shows, gathered: the market, the plans of a stack, and what the journal knows.

Owns the figures; `report_charts` and `report_page` own their looks. Buys nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.errors import printable, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from providers.catalog.table import OfferTable
    from providers.engine.journal.orders import OrderRow
    from providers.engine.journal.placements import PlacementRow
    from providers.engine.runtime.world import World
    from providers.engine.spending import MonthSpend
    from providers.model.capability import Capabilities
    from providers.model.offer import Offer
    from providers.planner.plan import Plan

MONTHS = 3
"""How many months back spending goes, this one included."""
UPS, ATTEMPTS = 5, 60
"""How many of the last ups are shown, and how many attempts of each."""
_DETAIL = 200


class Kind(NamedTuple):
    """One kind of machine as one provider sells it: at its cheapest place, one of `places`. The
    price is for one machine an hour, in micro-dollars. `tflops` is what all its GPUs achieve.
    `best` where nothing cheaper is as fast.
    """

    provider: str
    gpu: str
    capacity: str
    where: str
    places: int
    micro_usd: int
    tflops: float
    best: bool = False


class Chosen(NamedTuple):
    """What a cluster of the stack would take: all nodes. No price where no place serves it."""

    cluster: str
    gpu_type: str
    what: str
    micro_usd: int | None
    tflops: float


class RegionPrice(NamedTuple):
    """The cheapest of a GPU in a region, for one GPU an hour."""

    gpu: str
    region: str
    provider: str
    capacity: str
    micro_usd: int


class Tried(NamedTuple):
    """One order of an up: when it was sent and settled, in seconds since the up's first one.
    `state` is launched, failed or unsettled.
    """

    up: str
    number: int
    where: str
    what: str
    state: str
    begin_s: float
    end_s: float
    detail: str


class Facts(NamedTuple):
    """All that a report shows."""

    stack: str
    world: str
    made_at: float
    kinds: Sequence[Kind]
    chosen: Sequence[Chosen]
    gpus: Sequence[str]
    """The GPUs whose prices are shown by region."""
    regions: Sequence[RegionPrice]
    months: Sequence[MonthSpend]
    tried: Sequence[Tried]
    warnings: Sequence[str] = ()


def kinds(table: OfferTable, able: Mapping[str, Capabilities]) -> list[Kind]:
    """Every kind of machine that can be bought at a known price, cheapest first. Pure."""
    from providers.planner import rank

    groups: dict[tuple[str, str, float, str], list[Offer]] = {}
    for offer in _sold(table, able):
        key = (offer.provider, offer.gpu_type, offer.gpu_count, offer.capacity)
        groups.setdefault(key, []).append(offer)
    speeds = rank.speeds({gpu for _, gpu, _, _ in groups})
    found = []
    for (provider, gpu, count, capacity), offers in groups.items():
        cheapest = min(offers, key=lambda offer: (offer.node_micro_usd or 0, offer.id))
        place = cheapest.zone or cheapest.region
        found.append(
            Kind(
                provider,
                f"{gpu}:{count:g}",
                capacity,
                place,
                len(offers),
                cheapest.node_micro_usd or 0,
                speeds[gpu] * count,
            )
        )
    found.sort(key=lambda kind: (kind.micro_usd, -kind.tflops))
    fastest, out = 0.0, []
    for kind in found:
        out.append(kind._replace(best=kind.tflops > fastest))
        fastest = max(fastest, kind.tflops)
    return out


def regions(
    table: OfferTable, able: Mapping[str, Capabilities], gpus: Sequence[str]
) -> list[RegionPrice]:
    """The cheapest price of each of these GPUs by region, provider and kind of capacity; cheapest
    first. Pure.
    """
    best: dict[tuple[str, str, str, str], int] = {}
    for offer in _sold(table, able):
        if offer.gpu_type in gpus and offer.node_micro_usd is not None:
            key = (offer.gpu_type, offer.region, offer.provider, offer.capacity)
            each = int(offer.node_micro_usd / offer.gpu_count)
            best[key] = min(each, best.get(key, each))
    found = [RegionPrice(*key, micro) for key, micro in best.items()]
    return sorted(found, key=lambda row: (gpus.index(row.gpu), row.micro_usd, row.region))


def _sold(table: OfferTable, able: Mapping[str, Capabilities]) -> Iterable[Offer]:
    """The offers that can be bought, at a price that is known and not zero."""
    from providers.model.ask import RESERVATION
    from providers.planner.rules import known

    for row in range(len(table)):
        offer = table.offer(row)
        skills = able.get(offer.provider)
        if (
            skills is not None
            and not offer.restriction
            and offer.capacity in skills.capacities
            and offer.capacity != RESERVATION  # which only its owner can use
            and known(offer.node_micro_usd, skills)
        ):
            yield offer


def chosen(plans: Mapping[str, Plan]) -> list[Chosen]:
    """What each cluster would take, by its plan. Pure."""
    from providers.planner import rank

    found = []
    for cluster, plan in plans.items():
        best = plan.best
        if best is None:
            found.append(Chosen(cluster, "", "no place serves it now", None, 0.0))
            continue
        place = best.placement
        what = f"{place.provider} {place.where} {place.times}{place.gpu} {place.capacity}"
        tflops = rank.speeds({place.gpu_type})[place.gpu_type] * place.gpu_count * place.nodes
        found.append(Chosen(cluster, place.gpu_type, what, best.micro_usd, tflops))
    return found


def months(world: World, stack: str) -> list[MonthSpend]:
    """The last months, this one last, as the world's journal knows them."""
    from providers.engine import budget, spending

    name, found = "", []
    for _ in range(MONTHS):
        month = spending.of_month(world, name, stack)
        found.append(month)
        name = budget.month(budget.bounds(month.month)[0] - 1)
    return found[::-1]


def tried(world: World, stack: str) -> list[Tried]:
    """The orders of the last ups, oldest first, as the world's journal knows them."""
    from providers.engine.journal.orders import EVERY

    if not world.has_journal:
        return []
    ups: list[tuple[str, list[OrderRow], list[PlacementRow]]] = []
    for owner in world.journal.owners(world.name):
        if stack and owner.stack != stack:
            continue
        of_generation: dict[tuple[str, str], list[OrderRow]] = {}
        for row in world.journal.orders(world.name, owner.owner, states=EVERY):
            label = row.order.label
            of_generation.setdefault((label.cluster, label.generation), []).append(row)
        for (cluster, generation), rows in of_generation.items():
            launches = [
                launch
                for launch in world.journal.launches(world.name, owner.owner, cluster)
                if launch.generation == generation
            ]
            ups.append((f"{owner.stack or 'ad hoc'} / {cluster}", rows, launches))
    ups.sort(key=lambda up: up[1][0].created_at)
    return [each for up in ups[-UPS:] for each in _up(*up)]


def _up(name: str, rows: Sequence[OrderRow], launches: Sequence[PlacementRow]) -> list[Tried]:
    from providers.engine.journal import orders
    from providers.engine.messages import moment

    first = rows[0].created_at
    found = []
    for number, row in enumerate(rows[-ATTEMPTS:], max(0, len(rows) - ATTEMPTS) + 1):
        bought = row.state in {orders.MADE, orders.RELEASED}
        candidate = row.ticket.placed if row.ticket else None
        place = (candidate or row.order.candidates[0]).placement
        more = 0 if candidate else len({each.placement for each in row.order.candidates}) - 1
        end = _launched(row, launches) if bought else row.updated_at
        found.append(
            Tried(
                f"{name}, {moment(first)}",
                number,
                f"{place.provider} {place.where}{f' and {more} more' if more else ''}",
                f"{place.times}{place.gpu} {place.capacity}",
                "launched" if bought else "failed" if row.state == orders.FAILED else "unsettled",
                row.created_at - first,
                max(end, row.created_at) - first,
                shortened(printable(row.detail), _DETAIL),
            )
        )
    return found


def _launched(row: OrderRow, launches: Sequence[PlacementRow]) -> float:
    """When the machines of an order began; when it was sent, where the journal does not say."""
    ids = {handle.native_id for handle in row.handles}
    times = [each.launched_at for each in launches if ids & set(each.native_ids)]
    return min(times, default=row.created_at)
