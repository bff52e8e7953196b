"""The questions that can be asked without Pulumi: plan, offers, hardware. Owns the reading of their
arguments; the planner and engine answer.

A GPU given as a string never imports pydantic, so that the command line starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from providers.errors import Problem, SpecError
from providers.model import ask as asks
from providers.model import duration, retired
from providers.model.ask import Ask, Choice
from providers.model.listed import Offers, row
from providers.model.money import micro_usd
from providers.planner.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from providers.catalog.hardware import Hardware
    from providers.catalog.table import OfferTable
    from providers.model.listed import OfferRow
    from providers.model.offer import Offer
    from providers.model.spec import Cluster, Gpu
    from providers.model.spec_fields import Rank, Spot
    from providers.model.worlds import WorldName
    from providers.workloads.sizing.rows import SizeRow


class PrintedPlan(Plan):
    """A plan that `print` shows as its table."""

    def __str__(self) -> str:
        from providers.planner import render

        return render.as_text(self)


def plan(
    wanted: str | Gpu | Cluster | Ask,
    *,
    fallback: Sequence[str] = (),
    nodes: int = 1,
    spot: Spot | None = None,
    capacity: Sequence[str] | None = None,
    providers: Sequence[str] = (),
    regions: Sequence[str] = (),
    marketplaces: bool = False,
    rank: Rank = "price_by_choice",
    max_price_per_hour: float | None = None,
    accept_suspect_prices: bool = False,
    ttl: str | None = None,
    disk_gib: int | None = None,
    world: WorldName = "rehearsal",
    settings: Mapping[str, Mapping[str, str]] | None = None,
) -> PrintedPlan:
    """Every place that could serve what is wanted, ranked; nothing is bought. `print` it, or read
    `candidates` and `rejections`.

    `wanted` is a Cluster, a Gpu or a string such as "H100:8"; what a Cluster says itself is not
    said again by keyword. Prices in dollars per hour, always all nodes. Reads the bundled catalog
    and the journal, and asks providers that list live offers. Raises SpecError with every problem:
    unknown names, counts nobody sells, spot where none exists.
    """
    if isinstance(wanted, str):
        ask = compiled(
            wanted,
            fallback=fallback,
            nodes=nodes,
            spot=spot,
            capacity=capacity,
            providers=providers,
            regions=regions,
            marketplaces=marketplaces,
            rank=rank,
            max_price_per_hour=max_price_per_hour,
            accept_suspect_prices=accept_suspect_prices,
            ttl=ttl,
            disk_gib=disk_gib,
        )
    elif isinstance(wanted, Ask):
        ask = wanted
    else:
        ask = _of_model(
            wanted,
            {
                "fallback": tuple(fallback),
                "nodes": nodes,
                "spot": spot,
                "capacity": None if capacity is None else tuple(capacity),
                "providers": tuple(providers) or None,
                "regions": tuple(regions) or None,
                "marketplaces": marketplaces,
                "rank": rank,
                "max_price_per_hour": max_price_per_hour,
                "accept_suspect_prices": accept_suspect_prices,
                "ttl": ttl,
                "disk_gib": disk_gib,
            },
        )
    from providers.engine.market import planning

    setup = None
    if not isinstance(wanted, (str, Ask)):
        from providers.model.spec import Cluster

        if isinstance(wanted, Cluster):
            from providers.adapters import registry
            from providers.engine import validate

            setup = wanted.setup()
            if misfits := validate.problems(wanted, registry.manifests()):
                raise SpecError(misfits)
    made = planning.walked(ask, world=world, settings=settings or {}, setup=setup)
    if made.problems:
        raise SpecError(made.problems)
    return PrintedPlan(
        made.terms, made.candidates, made.kept, made.refused, made.warnings, made.noted
    )


def compiled(
    gpu: str,
    *,
    fallback: Sequence[str] = (),
    nodes: int = 1,
    spot: Spot | None = None,
    capacity: Sequence[str] | None = None,
    providers: Sequence[str] = (),
    regions: Sequence[str] = (),
    marketplaces: bool = False,
    rank: str = asks.BY_CHOICE,
    max_price_per_hour: float | None = None,
    accept_suspect_prices: bool = False,
    ttl: str | None = None,
    disk_gib: int | None = None,
) -> Ask:
    """The ask that these words mean. Raises SpecError with every problem. Pure."""
    problems: list[Problem] = []
    ways: tuple[asks.Capacity, ...] = ()
    try:
        ways = asks.capacities(spot, None if capacity is None else list(capacity))
    except SpecError as error:
        problems.extend(error.problems)
    if nodes < 1:
        problems.append(Problem("nodes", "a whole number from 1", str(nodes)))
    if rank not in asks.RANKS:
        problems.append(
            Problem("rank", "one of " + ", ".join(asks.RANKS), repr(rank), retired.rank(rank))
        )
    cap = None
    if max_price_per_hour is not None:
        try:
            cap = micro_usd(max_price_per_hour)
        except ValueError:
            cap = 0
        if cap <= 0:
            problems.append(
                Problem("max_price_per_hour", "dollars per hour above 0", repr(max_price_per_hour))
            )
    ttl_s = duration.seconds_of(ttl, "ttl", problems, asks.TTL_LEAST_S)
    least, most = asks.DISK_GIB
    if disk_gib is not None and not least <= disk_gib <= most:
        wanted = f"a whole number from {least} to {most:,}"
        problems.append(Problem("disk_gib", wanted, f"{disk_gib:,}"))
    entries = []
    for path, text in [
        ("gpu", gpu),
        *((f"fallback[{index}]", text) for index, text in enumerate(fallback)),
    ]:
        try:
            read = asks.gpu_text(text, path)
        except SpecError as error:
            problems.extend(error.problems)
        else:
            choice = Choice(read.type, read.gpu_count or 1, path, read.exact, nodes=nodes)
            entries.append(choice._replace(capacity=ways, ttl_s=ttl_s))
    if problems:
        raise SpecError(problems)
    return Ask(
        tuple(entries),
        providers=tuple(providers),
        regions=tuple(regions),
        rank=rank,
        marketplaces=marketplaces,
        max_price_micro_usd=cap,
        accept_suspect_prices=accept_suspect_prices,
        disk_gib=disk_gib,
    )


_DEFAULTS: dict[str, object] = {
    "fallback": (),
    "nodes": 1,
    "spot": None,
    "capacity": None,
    "providers": None,
    "regions": None,
    "marketplaces": False,
    "rank": asks.BY_CHOICE,
    "max_price_per_hour": None,
    "accept_suspect_prices": False,
    "ttl": None,
    "disk_gib": None,
}


def _of_model(wanted: Gpu | Cluster, keywords: Mapping[str, object]) -> Ask:
    from providers.model.spec import Cluster, Gpu

    given: dict[str, Any] = {
        name: value for name, value in keywords.items() if value != _DEFAULTS[name]
    }
    if isinstance(wanted, Gpu):
        return Cluster(name="plan", gpu=wanted, **given).ask()
    if not isinstance(wanted, Cluster):
        raise SpecError(
            [Problem("", 'a Cluster, a Gpu, or a string such as "H100:8"', type(wanted).__name__)]
        )
    if given:
        raise SpecError(
            [
                Problem(
                    name,
                    "the cluster to say this itself",
                    "a keyword",
                    f"set it in Cluster({name}=...)",
                )
                for name in given
            ]
        )
    return wanted.ask()


def offers(
    gpu: str,
    *,
    spot: bool = False,
    providers: Sequence[str] = (),
    regions: Sequence[str] = (),
    world: WorldName = "rehearsal",
    settings: Mapping[str, Mapping[str, str]] | None = None,
) -> Offers:
    """Who sells this GPU, for one node: cheapest first, then what is not for sale now, unknown
    prices last. Prices in dollars per hour; `pandas.DataFrame` takes it as it is.

    "H100" means any count in a machine, "H100:8" exactly eight. Also shows providers that cannot be
    ordered from yet, and what is sold by reservation only. `spot` narrows to spot capacity. Reads
    the bundled catalog, and asks providers that list live offers. Raises SpecError for an unknown
    name, a count nobody sells, and the like.
    """
    found = among(
        market(world, settings or {}, providers, gpu, regions),
        gpu,
        spot=spot,
        providers=providers,
        regions=regions,
    )
    return Offers(map(listed, found))


def listed(offer: Offer) -> OfferRow:
    """The offer as `offers` lists it. Pure."""
    from providers.adapters.registry import capabilities
    from providers.planner.rules import known

    return row(offer, known(offer.node_micro_usd, capabilities().get(offer.provider)))


def market(
    world: str,
    settings: Mapping[str, Mapping[str, str]],
    providers: Sequence[str] = (),
    gpu: str = "",
    regions: Sequence[str] = (),
) -> OfferTable:
    """Everything on offer in a world now, as far as these providers go (all, if none is named); its
    `warnings` say what could not be asked.

    Where providers tell today's prices, they are asked about the GPU alone, if one is named.
    """
    from providers.engine.market import collect
    from providers.engine.runtime.world import open_world

    lines: list[str] = []
    opened = open_world(world, settings, lambda _severity, text: lines.append(text))
    try:
        entries = (Choice(asks.gpu_text(gpu).type, 1),) if gpu else ()
        ask = Ask(entries, providers=tuple(providers), regions=tuple(regions), marketplaces=True)
        return collect.market(opened, ask, warnings=lines).table
    finally:
        opened.close()


def among(
    table: OfferTable,
    gpu: str,
    *,
    spot: bool = False,
    providers: Sequence[str] = (),
    regions: Sequence[str] = (),
) -> tuple[Offer, ...]:
    """What `offers` answers, of this table. Pure."""
    from providers.adapters import registry
    from providers.planner import check, rules

    read = asks.gpu_text(gpu)
    ways = (asks.SPOT,) if spot else asks.CAPACITIES
    capacity = tuple(
        asks.Capacity(kind, "any" if kind == asks.RESERVATION else "") for kind in ways
    )
    entry = Choice(read.type, read.gpu_count or 1, exact=read.exact, capacity=capacity)
    ask = Ask((entry,), providers=tuple(providers), regions=tuple(regions), marketplaces=True)
    rows = [row for kind in rules.types(entry) for row in table.by_gpu.get(kind, ())]
    found = [
        offer
        for offer in map(table.offer, rows)
        if (read.gpu_count is None or offer.gpu_count == read.gpu_count)
        and (not providers or offer.provider in providers)
        and (not regions or offer.region in regions)
        and offer.capacity in ways
    ]
    if not found:
        problems = check.places(ask, table, registry.capabilities()) or check.problems(
            ask, table, {}
        )
        raise SpecError(problems or [Problem("gpu", f"{gpu} as asked for", "no such offer")])
    return tuple(sorted(found, key=_price_then_name))


def _price_then_name(offer: Offer) -> tuple[object, ...]:
    from providers.adapters.registry import capabilities
    from providers.planner.rules import known

    price = known(offer.node_micro_usd, capabilities().get(offer.provider))
    return (price is None, bool(offer.restriction), price or 0, offer.id)


def size(
    model: str,
    *,
    train: Literal["full", "lora", "qlora"] | None = None,
    dtype: str | None = None,
    context: int | None = None,
    concurrency: int = 1,
    tokens: float = 0.0,
    nodes: int = 1,
    spot: bool = False,
    providers: Sequence[str] = (),
    hub: bool = True,
) -> tuple[SizeRow, ...]:
    """Which GPUs hold a model, how many, and for how much: what fits first, cheapest first.

    `model` is a published name, a size such as "7b", or the path of a config.json; without `hub`
    only bundled ones are known. For serving, unless `train` names a method; `context` and `tokens`
    are numbers of tokens. Reads the bundled prices. Raises SpecError.
    """
    from providers.workloads.sizing import architecture, gpus, rows

    found = architecture.find(model, hub=hub)
    work = (
        rows.serving(found, dtype, context, concurrency)
        if train is None
        else rows.training(train, dtype, tokens)
    )
    sold = gpus.sold(asks.SPOT if spot else asks.ON_DEMAND, providers)
    return tuple(map(rows.row, gpus.sizes(found, work, sold, nodes)))


def hardware(*names: str) -> tuple[Hardware, ...]:
    """What these GPUs are, in the order asked; all that are known without names. Raises SpecError
    for unknown names, with near ones. Pure.
    """
    from providers.catalog import hardware as facts
    from providers.catalog import names as spellings

    if not names:
        return tuple(facts.all_hardware())
    found: list[Hardware] = []
    problems: list[Problem] = []
    for name in names:
        kinds: Iterable[str] = (
            spellings.accepts(known, exact=True) if (known := spellings.canonical(name)) else ()
        )
        about = next((facts.hardware(kind) for kind in kinds), None)
        if about is not None:
            found.append(about)
            continue
        close = spellings.near(name)
        problems.append(
            Problem(
                "",
                "hardware that is known",
                repr(name),
                f"near: {', '.join(close)}" if close else "see `gpus hardware`",
            )
        )
    if problems:
        raise SpecError(problems)
    return tuple(found)
