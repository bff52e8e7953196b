"""`gpus offers`: who sells a GPU, where, for how much."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from providers.cli.colour import show
from providers.cli.options import add_places, add_world
from providers.cli.output import OK, print_json, table, wrapped
from providers.errors import Problem, SpecError
from providers.model.offer import Unsuited
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

    from providers.model.capability import Capabilities
    from providers.model.offer import Offer
SHOWN = 20
"""How many lines of offers are shown unless all are asked for."""


def run_offers(options: argparse.Namespace) -> int:
    """Prints who sells a GPU, cheapest for one GPU first."""
    from providers import api

    where = _where(options.where, options.provider) if options.where else {}
    table = api.market(
        options.world or REHEARSAL, where, options.provider, options.gpu, options.region
    )
    found = api.among(
        table, options.gpu, spot=options.spot, providers=options.provider, regions=options.region
    )
    if options.sort != "price":
        found = tuple(sorted(found, key=_per_gpu))
    by_provider = options.sort == "provider"
    if options.json:
        print_json(
            [
                api.listed(offer)._asdict()
                for offer in (
                    sorted(found, key=lambda offer: offer.provider) if by_provider else found
                )
            ]
        )
    else:
        lines = _offer_lines(found, None if options.all else SHOWN, by_provider=by_provider)
        show("\n".join(lines), head=0)
    for warning in table.warnings:
        print(f"gpus: warning: {warning}", file=sys.stderr)
    return OK


def _per_gpu(offer: Offer) -> tuple[bool, bool, float]:
    """Known prices first, of them the cheapest for one GPU."""
    from providers.adapters.registry import capabilities
    from providers.planner.rules import known

    price = known(offer.node_micro_usd, capabilities().get(offer.provider))
    return price is None, bool(offer.restriction), (price or 0) / offer.gpu_count


def _where(text: str, providers: Sequence[str]) -> dict[str, dict[str, str]]:
    """Conditions on hosts as settings of every allowed provider that knows them. A name may be
    short for the only setting that begins with it.
    """
    from providers.adapters.registry import manifests

    known = {
        name: found.credentials.settings
        for name, found in manifests().items()
        if found.credentials.settings and (not providers or name in providers)
    }
    settings: dict[str, dict[str, str]] = {}
    problems: list[Problem] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, compared, value = (word.strip() for word in part.partition(">="))
        meant = {
            name: (
                [word for word in words if word == key]
                or [word for word in words if word.startswith(key)]
            )
            for name, words in known.items()
        }
        found = {name: words[0] for name, words in meant.items() if len(words) == 1}
        if not compared or not key or not value:
            problems.append(
                Problem("--where", "NAME>=VALUE, several with commas between", repr(part))
            )
        elif not found:
            listed = (
                ", ".join(sorted({word for words in known.values() for word in words}))
                or "none at these providers"
            )
            problems.append(
                Problem(
                    "--where",
                    "a condition that a provider knows",
                    repr(key),
                    f"there are: {listed}",
                )
            )
        for name, word in found.items():
            settings.setdefault(name, {})[word] = value
    for name, section in settings.items():
        problems.extend(
            Problem(f"--where {problem.path}", *problem[1:])
            for problem in manifests()[name].check_options(section)
        )
    if problems:
        raise SpecError(problems)
    return settings


def _offer_lines(offers: Sequence[Offer], most: int | None, *, by_provider: bool) -> Iterable[str]:
    """A table of the first lines, at most so many; zones of a region that sell the same at the same
    price share one. What is never bought says by which rule.
    """
    from providers.adapters.registry import capabilities
    from providers.model.money import per_hour
    from providers.model.offer import dated
    from providers.planner.rules import BOOT_DISKS, known

    groups: dict[tuple[object, ...], tuple[Offer, list[str]]] = {}
    for offer in offers:
        key = offer._replace(zone="", parts="")
        groups.setdefault(key, (offer, []))[1].append(offer.zone)
    rows = [("provider", "place", "machine", "GPU", "capacity", "$/h", "per GPU", "")]
    notes: dict[str, int] = {}
    dates: dict[str, set[str]] = {}
    able = capabilities()
    shown = list(groups.values())[:most]
    for offer, zones in (
        sorted(shown, key=lambda group: group[0].provider) if by_provider else shown
    ):
        price = known(offer.node_micro_usd, able.get(offer.provider))
        rows.append(
            (
                offer.provider,
                _zones(offer.region, [zone for zone in zones if zone]),
                offer.machine_type,
                f"{offer.gpu_type}:{offer.gpu_count:g}",
                offer.capacity,
                "no price" if price is None else per_hour(price).strip("$/h"),
                "" if price is None else per_hour(int(price / offer.gpu_count)).removesuffix("/h"),
                (
                    f"[{notes.setdefault(never, len(notes) + 1)}]"
                    if (never := _never(offer, able))
                    else ""
                ),
            )
        )
        dates.setdefault(offer.provider, set()).update({offer.price_as_of} - {""})
    yield from table(rows, right={5, 6}, gives=(2, 1))
    for note, number in notes.items():
        yield from wrapped(f"[{number}] ", f"not bought, by the rule {note}")
    spans = [
        f"{name} {dated(min(found))}{f' to {dated(max(found))}' if len(found) > 1 else ''}"
        for name, found in dates.items()
        if found
    ]
    yield from wrapped("", f"prices as of: {'; '.join(spans) or 'no date'}")
    if len(groups) > len(shown):
        yield f"and {len(groups) - len(shown):,} more, none cheaper: --all lists them"
    parts = {offer.provider: offer.left_out.split("; ") for offer, _ in shown if offer.left_out}
    left_out = {
        name: ", ".join(part for part in found if part not in BOOT_DISKS)
        for name, found in parts.items()
    }
    named = "; ".join(f"{name}: {text}" for name, text in left_out.items() if text)
    disked = ", ".join(name for name, found in parts.items() if BOOT_DISKS.intersection(found))
    disk = f"; `gpus plan` adds the boot disk ({disked})" if disked else ""
    yield from wrapped("", f"$/h is for one machine{disk}; not in it: {named or 'nothing named'}")


def _never(offer: Offer, able: Mapping[str, Capabilities]) -> str:
    """The rule by which no plan buys this offer, whatever is asked, and why; empty for what can be
    bought.
    """
    from providers.planner import rules

    skills = able.get(offer.provider)
    if why := offer.restriction:
        return f"{why.rule if isinstance(why, Unsuited) else rules.NAMES[rules.SOLD]}: {why}"
    if skills is None:
        return f"{rules.NAMES[rules.ADAPTER]}: no adapter for {offer.provider} yet"
    if offer.capacity not in skills.capacities or not skills.orders(offer.machine_type):
        what = offer.capacity if skills.orders(offer.machine_type) else "this machine type"
        return f"{rules.NAMES[rules.ORDERABLE]}: {what} cannot be ordered at {offer.provider} yet"
    return (
        f"{rules.NAMES[rules.PRICE_KNOWN]}: an unknown price is never bought, unless you give one"
        if rules.known(offer.node_micro_usd, skills) is None
        else ""
    )


def _zones(region: str, zones: list[str]) -> str:
    """`us-central1-a,b,c` for zones that are the region and a letter; else the zones, or only the
    region.
    """
    letters = [zone.removeprefix(f"{region}-") for zone in zones]
    if zones and all(
        letter != zone and len(letter) <= 3 for letter, zone in zip(letters, zones, strict=True)
    ):
        return f"{region}-{','.join(sorted(letters))}"
    return f"{region} {','.join(zones)}" if zones else region


def add_offers(commands: Any) -> None:
    """Adds `offers` to the commands."""
    offers = commands.add_parser(
        "offers",
        help="who sells a GPU, where, for how much, as of when",
        description="Who sells a GPU. Buys nothing.",
    )
    offers.add_argument("gpu", help='"H100:8", or "H100" for any count in a machine')
    offers.add_argument("--spot", action="store_true", help="spot capacity only")
    offers.add_argument(
        "--where",
        metavar="CONDITIONS",
        help="hosts of a marketplace, as in 'reliability>=0.98,cuda>=12.4,down>=500'",
    )
    offers.add_argument(
        "--sort",
        choices=("per-gpu", "price", "provider"),
        default="per-gpu",
        help="by the price of one GPU (default), by that of the whole machine, or by provider",
    )
    add_places(offers)
    add_world(offers)
    offers.add_argument(
        "--all", action="store_true", help=f"all of them, not only the {SHOWN} cheapest"
    )
    offers.add_argument(
        "--json", action="store_true", help="a JSON list of all, instead of a table"
    )
    offers.set_defaults(run=run_offers)
