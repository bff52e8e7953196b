"""What can never be acquired as it is declared, and what a running placement still satisfies. Pure.

Owns the refusals that are the user's to fix: unknown names, counts nobody sells, spot where none
exists, too many nodes. Of several choices the impossible ones are only named, as long as one is
possible. Nothing is rounded and nothing is bought on a near name: near ones are only said. Must not
import the engine or an adapter.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from providers.catalog import names
from providers.errors import Problem
from providers.model import duration
from providers.model.ask import BLOCK, RESERVATION
from providers.planner import rules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from providers.catalog.table import OfferTable
    from providers.model.ask import Ask, Choice
    from providers.model.capability import Capabilities
    from providers.model.placement import Placement


def satisfied(ask: Ask, place: Placement) -> int | None:
    """The index of the first entry that a running placement still satisfies, or None. What it costs
    does not matter: it is held.
    """
    if (ask.providers and place.provider not in ask.providers) or (
        ask.regions and place.region not in ask.regions
    ):
        return None
    for index, entry in enumerate(ask.entries):
        bought = any(
            way.kind == place.capacity and way.reservation == (place.reservation or "")
            for way in entry.capacity
        )
        if (
            bought
            and place.gpu_count == entry.gpu_count
            # How many replicas there are changes beside those that serve.
            and (place.nodes == entry.nodes or entry.replicas)
            and place.gpu_type in rules.types(entry)
        ):
            return index
    return None


def problems(
    ask: Ask, offers: OfferTable, capabilities: Mapping[str, Capabilities]
) -> list[Problem]:
    """Everything of the ask that no place in the table could ever serve, each with its property
    path; empty when all is well.

    Where an allowed provider's market moves by the hour (`live_offers`), what is merely not on
    offer now is no problem. Of several choices what is impossible is a problem only if all are:
    until then see `alternatives`.
    """
    providers = {*offers.places, *capabilities}
    found = places(ask, offers, capabilities)
    if found:
        # Which of the other refusals follow from an unknown provider or region is anybody's guess:
        # names first.
        ask = ask._replace(
            providers=tuple(name for name in ask.providers if name in providers), regions=()
        )
    refused = _impossible(ask, offers, capabilities)
    for index, entry in enumerate(ask.entries):
        if entry.gpu and names.canonical(entry.gpu) is None:
            found.append(unknown_gpu(entry.path, entry.gpu, entry.gpu_count))
        elif not rules.types(entry):
            found.append(
                Problem(
                    entry.path, rules.title(entry), "no GPU model that large", "see `gpus hardware`"
                )
            )
        elif all(refused.values()):
            found.extend(problem for problem in refused[index] if problem not in found)
    if ask.block is None and ask.block_choices:
        todo = "declare block: {lasts: 1d, max_price: 900} in a stack"
        found.append(
            Problem("capacity", "a block's own terms, its price cap among them", "none", todo)
        )
    if unreached := _reach(ask, capabilities):
        found.append(unreached)
    for index, override in enumerate(ask.price_overrides):
        path = f"prices.overrides[{index}]"
        if override.provider not in providers:
            found.append(
                Problem(
                    f"{path}.provider",
                    "a known provider",
                    repr(override.provider),
                    _near(override.provider, providers),
                )
            )
        if override.gpu and names.canonical(override.gpu) is None:
            found.append(unknown_gpu(f"{path}.gpu", override.gpu))
    return found


def alternatives(
    ask: Ask, offers: OfferTable, capabilities: Mapping[str, Capabilities]
) -> list[Problem]:
    """Why some of several choices are never sold, where others are: those are planned, and these
    are named. Pure.
    """
    refused = _impossible(ask, offers, capabilities)
    return (
        [] if all(refused.values()) else list(dict.fromkeys(chain.from_iterable(refused.values())))
    )


def _impossible(
    ask: Ask, offers: OfferTable, capabilities: Mapping[str, Capabilities]
) -> dict[int, list[Problem]]:
    """What is wrong with each known choice, by its index: nobody sells it so, or no provider makes
    so many nodes or lets them live so long.
    """
    able = _allowed(ask, capabilities)
    listed = offers.places
    # Boxes of one's own move where there are any, or where they are named.
    moving = any(
        skills.live_offers and (not skills.owned or name in listed or name in ask.providers)
        for name, skills in able.items()
    )
    out: dict[int, list[Problem]] = {}
    for index, entry in enumerate(ask.entries):
        if rules.types(entry):
            found = [] if moving else list(_sold(entry, ask, offers, capabilities))
            found.extend(
                problem
                for problem in (_nodes(entry, ask, able), _ttl(entry, ask, able))
                if problem is not None
            )
            out[index] = found
    return out


def _allowed(ask: Ask, capabilities: Mapping[str, Capabilities]) -> dict[str, Capabilities]:
    return {
        name: skills
        for name, skills in capabilities.items()
        if ask.allows(name, marketplace=skills.marketplace)
    }


def unknown_gpu(path: str, text: str, count: int = 1) -> Problem:
    """What to say of a text that names no GPU: how a type and a count are written, or the names
    near it. `count` is what stood after it. Pure.
    """
    close = names.near(text)
    if (written := names.with_count(text)) and count > 1:
        name, _, nodes = written.partition(":")
        return Problem(
            path,
            'a GPU such as "H100:8"',
            repr(f"{text}:{count}"),
            f'write "{name}:{count}", and nodes: {nodes} for that many machines',
        )
    if written:
        # `A100-8` may also be the beginning of a card's name.
        other = next(
            (name for name in close if name.casefold().startswith(text.strip().casefold())), ""
        )
        return Problem(
            path,
            'a GPU such as "H100:8"',
            repr(text),
            f'write "{written}"' + (f", or {other} for that card" if other else ""),
        )
    if meant := names.meant(text):
        todo = f'write "{meant}:{count}"' if count > 1 else f'write "{meant}"'
        todo += f" ({names.meaning(meant)})" * bool(names.meaning(meant))
        return Problem(path, "a known GPU", repr(text), todo)
    if memory := names.only_memory(text):
        todo = f"write {{min_memory_gib: {memory}, count: {count}}} for any of that much memory"
        return Problem(path, "a known GPU", repr(text), todo)
    todo = f"near: {', '.join(close)}; all: `gpus hardware`" if close else "see `gpus hardware`"
    return Problem(path, "a known GPU", repr(text), todo)


def places(ask: Ask, offers: OfferTable, capabilities: Mapping[str, Capabilities]) -> list[Problem]:
    """Unknown providers and regions; nothing else of the ask is read."""
    providers = {*offers.places, *capabilities}
    found = [
        Problem(f"providers[{index}]", "a known provider", repr(name), _provider(name, providers))
        for index, name in enumerate(ask.providers)
        if name not in providers
    ]
    if not ask.regions:
        return found
    column = cast("Any", offers.column)
    pairs = set(zip(column("provider"), column("region"), strict=True))
    rows = set(zip(column("provider"), column("zone"), column("region"), strict=True))
    zones = {
        zone: region
        for provider, zone, region in rows
        if zone and (not ask.providers or provider in ask.providers)
    }
    zones_elsewhere = {zone: provider for provider, zone, _ in rows if zone and zone not in zones}
    regions = {
        region
        for provider, region in pairs
        if region and (not ask.providers or provider in ask.providers)
    }
    on_request = {name: can.regions for name, can in capabilities.items()}
    regions |= {
        region
        for provider, known in on_request.items()
        if not ask.providers or provider in ask.providers
        for region in known
    }
    for index, name in enumerate(ask.regions):
        if name in regions:
            continue
        elsewhere = sorted({provider for provider, region in pairs if region == name})
        if elsewhere:
            todo = f"that is a region of {', '.join(elsewhere)}"
        elif name in zones or (
            name[-2:-1].isdigit() and name[-1:].isalpha() and name[:-1] in regions
        ):
            # EC2's zones bear another name in each account: us-east-1a stands in no list.
            todo = f"that is a zone; its region is {zones.get(name) or name[:-1]}"
        elif name in zones_elsewhere:
            todo = (
                f"that is a zone of {zones_elsewhere[name]}; name a region of a provider that is"
                " allowed"
            )
        else:
            todo = _near(name, regions)
        found.append(
            Problem(f"regions[{index}]", "a region of an allowed provider", repr(name), todo)
        )
    return found


def _sold(
    entry: Choice, ask: Ask, offers: OfferTable, capabilities: Mapping[str, Capabilities]
) -> Iterable[Problem]:
    """At most one problem: the first thing that no offer has, of GPU, count, kind of capacity and
    region.
    """
    column = cast("Any", offers.column)
    providers, regions, counts = column("provider"), column("region"), column("gpu_count")
    capacities, restrictions = column("capacity"), column("restriction")
    machines = column("machine_type")
    title, allowed = rules.title(entry), ask.providers
    sellers = f"at {' or '.join(allowed)}" if allowed else "anywhere"
    everywhere = [row for gpu in rules.types(entry) for row in offers.by_gpu.get(gpu, ())]
    markets = _markets(capabilities)
    rows = [
        row
        for row in everywhere
        if ask.allows(providers[row], marketplace=providers[row] in markets)
    ]
    if not rows:
        return [
            Problem(
                entry.path,
                f"{title} {sellers}",
                *_nobody(entry, ask, offers, {providers[row] for row in everywhere}, capabilities),
            )
        ]
    right = [row for row in rows if counts[row] == entry.gpu_count]
    if not right:
        on_offer: dict[str, set[float]] = {}
        for row in rows:
            on_offer.setdefault(providers[row], set()).add(counts[row])
        lists = "; ".join(
            f"{provider} {_counts(found)}" for provider, found in sorted(on_offer.items())
        )
        consent = "ask for one of these: nothing is rounded, since that changes the bill"
        return [
            Problem(
                entry.path,
                f"{title}:{entry.gpu_count} in one machine",
                f"counts on offer: {lists}",
                consent,
            )
        ]
    kinds = {capacities[row] for row in right if not restrictions[row]}
    if any(_in_blocks(capabilities.get(providers[row]), machines[row]) for row in right):
        kinds.add(BLOCK)
    shut = next(
        (
            restrictions[row]
            for row in right
            if restrictions[row] and any(way.kind == capacities[row] for way in entry.capacity)
        ),
        "",
    )
    if shut and not kinds:
        return [Problem(entry.path, f"{title}:{entry.gpu_count} {sellers}", f"not sold so: {shut}")]
    if not any(way.kind in kinds for way in entry.capacity):
        ways = " or ".join(dict.fromkeys(way.kind for way in entry.capacity))
        path = f"{entry.path}.capacity" if entry.path.startswith("fallback") else "capacity"
        sold = ", ".join(sorted(kinds - {RESERVATION})) or "nothing but reservations"
        return [
            Problem(
                path, f"{ways} capacity for {title}:{entry.gpu_count} {sellers}", f"sold as {sold}"
            )
        ]
    on_request = {
        region
        for name in {providers[row] for row in right}
        if name in capabilities
        for region in capabilities[name].regions
    }
    if (
        ask.regions
        and not any(regions[row] in ask.regions for row in right)
        and on_request.isdisjoint(ask.regions)
    ):
        where = sorted({regions[row] for row in right if regions[row]} | on_request)
        more = f" and {len(where) - 6} more" if len(where) > 6 else ""
        return [
            Problem(
                entry.path,
                f"{title}:{entry.gpu_count} in {' or '.join(ask.regions)}",
                "not offered there",
                f"sold in {', '.join(where[:6])}{more}",
            )
        ]
    return []


def _in_blocks(able: Capabilities | None, machine_type: str) -> bool:
    """Whether a machine type may be sold in blocks; which there are now, only a look says."""
    return able is not None and machine_type.startswith(tuple(able.blocks))


def _reach(ask: Ask, capabilities: Mapping[str, Capabilities]) -> Problem | None:
    able = _allowed(ask, capabilities)
    if not able or any(rules.reached(ask, skills) for skills in able.values()):
        return None
    if ask.ports and not any(skills.opens_ports for skills in able.values()):
        others = sorted(name for name, skills in capabilities.items() if skills.opens_ports)
        todo = f"leave ports out, or allow {' or '.join(others)}" if others else "leave ports out"
        return Problem(
            "ports", "a provider that opens ports of a machine", ", ".join(sorted(able)), todo
        )
    others = sorted(name for name, skills in capabilities.items() if rules.reached(ask, skills))
    what = "answer ssh" if ask.ssh else "take commands from here"
    return Problem(
        "providers",
        f"one whose machines {what}: {', '.join(others) or 'there is none'}",
        ", ".join(ask.providers or sorted(able)),
    )


def _nodes(entry: Choice, ask: Ask, allowed: Mapping[str, Capabilities]) -> Problem | None:
    able = {name: skills.max_nodes for name, skills in allowed.items()}
    if not able or entry.nodes <= max(able.values()):
        return None
    own = entry.path.startswith("fallback") and entry.nodes != ask.entries[0].nodes
    most = ", ".join(f"{name} {count}" for name, count in sorted(able.items()))
    return Problem(
        f"{entry.path}.nodes" if own else "replicas" if entry.replicas else "nodes",
        f"{entry.nodes} nodes as one cluster",
        f"at most: {most}",
    )


def _ttl(entry: Choice, ask: Ask, allowed: Mapping[str, Capabilities]) -> Problem | None:
    limits = {name: skills.max_ttl_s for name, skills in allowed.items()}
    longest = max((limit or 0 for limit in limits.values()), default=0)
    if not limits or None in limits.values() or (entry.ttl_s or 0) <= longest:
        return None
    own = entry.path.startswith("fallback") and entry.ttl_s != ask.entries[0].ttl_s
    most = ", ".join(
        f"{name} {duration.text(limit or 0)}" for name, limit in sorted(limits.items())
    )
    return Problem(
        f"{entry.path}.ttl" if own else "ttl",
        f"a life of {duration.text(entry.ttl_s or 0)}",
        f"at most: {most}",
    )


def _nobody(
    entry: Choice,
    ask: Ask,
    offers: OfferTable,
    sellers: set[str],
    capabilities: Mapping[str, Capabilities],
) -> tuple[str, str]:
    """(found, what to do) where none of the allowed providers sells a GPU; `sellers` are those who
    do.
    """
    hint, markets = sellers_hint(entry, ask, sellers, capabilities), _markets(capabilities)
    todo = [hint] if hint else []
    asked = {gpu for each in ask.entries for gpu in rules.types(each)}
    if near := [gpu for gpu in near_hardware(entry, ask, offers, markets) if gpu not in asked]:
        more = f" (also near: {', '.join(near[1:])})" if near[1:] else ""
        todo.append(f"list {near[0]} as a fallback: nothing is swapped by itself{more}")
    return "not offered" if sellers or ask.providers else "nobody here sells it", "; or ".join(todo)


def sellers_hint(
    entry: Choice,
    ask: Ask,
    sellers: Collection[str],
    capabilities: Mapping[str, Capabilities],
) -> str:
    """Who sells a GPU that none of the allowed providers has, and the lines to write; empty where
    nobody does.
    """
    title, markets = rules.title(entry), _markets(capabilities)
    others = sorted({*sellers}.difference(markets, ask.providers))
    if others:
        line = f"providers: [{', '.join([*ask.providers, *others])}]"
        return f"{title} is sold at {', '.join(others)}: write {line}"
    hosts = sorted({*(sellers or markets)}.difference(ask.providers))
    if not hosts or not all(names.is_gpu(gpu) for gpu in rules.types(entry)):
        return ""
    have = "have it" if sellers else "may have it"
    line = (
        f"providers: [{', '.join([*ask.providers, *hosts])}]"
        if ask.providers
        else f"marketplaces: true, or add {' or '.join(hosts)} to providers"
    )
    return f"strangers' hosts {have}: write {line}{rules.entrusting(ask, hosts, capabilities)}"


def _markets(capabilities: Mapping[str, Capabilities]) -> set[str]:
    return {name for name, able in capabilities.items() if able.marketplace}


def near_hardware(
    entry: Choice, ask: Ask, offers: OfferTable, markets: Collection[str] = ()
) -> list[str]:
    """Up to three GPU types that the allowed providers do sell and that come near: siblings of the
    name first, then those of like memory.

    What is less than half as fast is not near; where no source tells the speeds, only siblings are.
    """
    from providers.catalog.hardware import achieved_tflops

    def speed(gpu: str) -> float:
        return next(
            filter(None, (achieved_tflops(gpu, dtype) for dtype in ("bf16", "fp16", "fp32"))), 0.0
        )

    name = names.canonical(entry.gpu) or entry.gpu
    first = next(iter(rules.types(entry)), name)
    providers = cast("Any", offers.column("provider"))
    sold = [
        gpu
        for gpu, rows in offers.by_gpu.items()
        if any(ask.allows(providers[row], marketplace=providers[row] in markets) for row in rows)
    ]
    siblings = [gpu for gpu in names.near(name) if gpu in sold]
    size, fast = (
        names.nominal_memory_gib(first) or 0.0,
        (speed(first) if names.is_gpu(first) else 0.0),
    )
    apart = {
        gpu: abs((names.nominal_memory_gib(gpu) or 0.0) - size)
        for gpu in sold
        if gpu not in siblings and gpu not in rules.types(entry)
    }
    like = [
        gpu for gpu, gib in apart.items() if fast and gib <= size * _LIKE and speed(gpu) >= fast / 2
    ]
    return (siblings + sorted(like, key=lambda gpu: (apart[gpu], gpu)))[:3]


_LIKE = 0.25
"""Memory within a quarter is like memory."""


def _counts(found: Iterable[float]) -> str:
    return ", ".join(f"{count:g}" for count in sorted(found))


def _provider(word: str, known: Iterable[str]) -> str:
    """What to write for an unknown provider."""
    from providers.model import mistaken

    return mistaken.provider(word) or _near(word, known)


def _near(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    choices = sorted(known)
    close = get_close_matches(word.casefold(), choices, n=3, cutoff=0.6)
    if close:
        return f"near: {', '.join(close)}"
    return (
        f"known: {', '.join(choices)}"
        if len(choices) <= 12
        else f"known: {', '.join(choices[:6])} and {len(choices) - 6} more"
    )
