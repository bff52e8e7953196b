"""`gpus explain`: how the price of one offer is made, and the rows that it is read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.cli.colour import show
from providers.cli.options import add_world
from providers.cli.output import OK, print_json, wrapped
from providers.errors import Problem, SpecError
from providers.model.money import HOURS_PER_MONTH, per_hour, usd
from providers.model.offer import dated
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from providers.model.offer import Offer

_WANTED = "PROVIDER/PLACE/MACHINE, then /GPU:COUNT and /CAPACITY if you like"


def run_explain(options: argparse.Namespace) -> int:
    """Prints the arithmetic and the source rows of each offer of that name; OK."""
    from providers import api

    words = options.candidate.split("/")
    if not 3 <= len(words) <= 5 or not all(words):
        raise SpecError([Problem("candidate", _WANTED, repr(options.candidate))])
    from providers.adapters import registry
    from providers.model.wording import near

    known = registry.manifests()
    if words[0] not in known:
        found = repr(words[0]) + near(words[0], known)
        raise SpecError([Problem("candidate", f"a provider: {', '.join(known)}", found)])
    gpu = words[3].partition(":")[0] if len(words) > 3 else ""
    market = api.market(options.world or REHEARSAL, {}, words[:1], gpu)
    ids = market.ids()
    matches = [row for row, each in enumerate(ids) if each.split("/")[: len(words)] == words]
    if not matches:
        near_ids = near(options.candidate, (each for each in ids if each.startswith(words[0])))
        raise SpecError(
            [
                Problem(
                    "candidate",
                    f"an offer, as {_WANTED}",
                    f"none of {options.candidate!r}{near_ids}",
                    "`gpus offers GPU` lists them",
                )
            ]
        )
    offers = [_all_in(market.offer(row)) for row in matches]
    if options.json:
        print_json(
            [
                {
                    "id": offer.id,
                    "price_usd_per_hour": _dollars(offer.node_micro_usd),
                    "price_as_of": offer.price_as_of or None,
                    "price_source": offer.price_source or None,
                    "parts": offer.parts or None,
                    "left_out": offer.left_out or None,
                    "restriction": offer.restriction or None,
                    "rows": [{"file": file, "line": line} for file, line in rows],
                }
                for offer, rows in offers
            ]
        )
        return OK
    show("\n\n".join("\n".join(_lines(*each)) for each in offers))
    return OK


def _all_in(offer: Offer) -> tuple[Offer, Sequence[tuple[str, str]]]:
    """The offer with the disk that is ordered where nothing asks for another, and its rows."""
    from providers.adapters import registry
    from providers.catalog import volumes
    from providers.catalog.offers import rows_of
    from providers.engine.market.host_fit import hosting
    from providers.model.ask import Ask, Choice
    from providers.planner.rules import with_disk

    rows, price = rows_of(offer), offer.node_micro_usd
    choice = Choice(offer.gpu_type, int(offer.gpu_count))
    host = hosting(Ask((choice,)), registry.manifests())(choice, offer.provider, offer.machine_type)
    if price is None or host is None or host.bought is None:
        return offer, rows
    micro_usd, disk = host.bought.cost(offer.region)
    row = volumes.row(offer.provider, host.bought.kind, offer.region)
    more = (("volumes.csv", row),) if row else ()
    return with_disk(offer, int(price) + micro_usd, disk), (*rows, *more)


def _lines(offer: Offer, rows: Iterable[tuple[str, str]]) -> Iterable[str]:
    yield offer.id
    price = offer.node_micro_usd
    if price is None:
        yield from wrapped("  price      ", "no source has one, so it is not bought")
    else:
        month = price * HOURS_PER_MONTH / 1e6
        each = per_hour(int(price / offer.gpu_count))
        yield f"  price      {per_hour(price)} for one machine, all-in"
        yield f"             / {offer.gpu_count:g} GPU = {each} for each GPU"
        yield f"             x {HOURS_PER_MONTH} h = ${month:,.2f} a month"
    for name, text in (
        ("made of", offer.parts),
        ("not in it", offer.left_out),
        ("not sold", offer.restriction),
        ("source", offer.price_source),
        ("as of", dated(offer.price_as_of)),
    ):
        if text:
            yield from wrapped(f"  {name:<11}", text)
    for file, line in rows:
        yield from wrapped(f"  {'row':<11}", f"{file}: {line}")


def _dollars(micro: int | None) -> float | None:
    return None if micro is None else usd(micro)


def add_explain(commands: Any) -> None:
    """Adds `explain` to the commands."""
    explain = commands.add_parser(
        "explain",
        help="how one offer's price is computed, with its source rows",
        description="The arithmetic and the source rows of a price. Buys nothing.",
    )
    explain.add_argument("candidate", help=_WANTED)
    add_world(explain)
    explain.add_argument("--json", action="store_true", help="a JSON list of offers")
    explain.set_defaults(run=run_explain)
