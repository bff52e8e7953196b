"""The market's listing read: servers to offers, each refused host with its reason. Owns no field,
filter or price (`figures`, `filters`, `pricing`); pure, no I/O.

A listing's figures are the host's own words:
whatever cannot be read makes that host refused, never the call. Shapes: docs.clore.ai for-hosts/api
and recorded replies of public clients, read 2026-11-27.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.clore.figures import (
    TEXT_MAX,
    Gpus,
    gpus,
    longest_hours,
    machine_type,
    region,
    section,
    server_id,
)
from providers.adapters.clore.filters import short, undriven, unfit
from providers.adapters.clore.pricing import RENTER_FEE, Terms, hourly_micro_usd, terms
from providers.errors import printable, shortened
from providers.model import foreign
from providers.model.ask import ON_DEMAND, SPOT
from providers.model.money import micro_usd
from providers.model.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from decimal import Decimal

    from providers.adapters.clore.options import Options

PROVIDER = "clore"
CAPACITIES = (ON_DEMAND, SPOT)


LEFT_OUT = (
    "creation fee (about $0.10, on demand only, none if cancelled within 10 min); a minimum of 6 h"
    " by its FAQ"
)
"""docs.clore.ai order-management and FAQ, read 2026-11-27; the pages contradict each other on the
minimum.
"""


_LABEL_MAX = 40
"""Characters of an id or a figure that a line shows."""
_NAMED = 3
"""How many unreadable listings a line names."""


class Refusal(NamedTuple):
    """A host that is not offered, and why. `server` is its id as listed. `unreadable`: its listing
    says what cannot be.
    """

    server: str
    gpu: str
    reason: str
    unreadable: bool = False


class Listing(NamedTuple):
    """What a reply held. A refused host whose model is known is also an offer, with the reason as
    its restriction, so that a plan can show it.
    """

    offers: tuple[Offer, ...]
    refused: tuple[Refusal, ...]

    @property
    def unreadable(self) -> str:
        """One line that counts and names the listings that say what cannot be;
        empty without any.
        """
        found = [refusal for refusal in self.refused if refusal.unreadable]
        if not found:
            return ""
        named = "; ".join(
            f"server {refusal.server}: {refusal.reason}" for refusal in found[:_NAMED]
        )
        more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        return (
            f"{len(found)} listing{'s' if len(found) > 1 else ''} left out that cannot be read:"
            f" {named}{more}"
        )


def read(
    servers: object,
    options: Options,
    as_of: str,
    source: str,
    rates: Mapping[str, Decimal] | None = None,
    *,
    ttl_s: int | None = None,
    disk_gib: int | None = None,
    image: str = "",
    gpu_types: Collection[str] = (),
) -> Listing:
    """Every server as offers, on demand and spot, in the order listed. Prices are whole servers per
    hour with the renter's fee.

    A host is refused by the options, by a time or a disk that it has not, and by a driver that does
    not run the image. With `gpu_types`, hosts whose GPU is another are left out unread.
    """
    offers: list[Offer] = []
    refused: list[Refusal] = []
    for server in servers if isinstance(servers, (list, tuple)) else ():
        try:
            if gpu_types and _holds_another(server, gpu_types):
                continue
            found, against = _read_one(
                server, options, as_of, source, rates, ttl_s, disk_gib, image
            )
        except Exception as error:  # One host's words never cost another's offer.
            found, against = (
                (),
                (
                    Refusal(
                        _label(server),
                        "",
                        f"a listing that cannot be read ({type(error).__name__})",
                        unreadable=True,
                    ),
                ),
            )
        offers.extend(found)
        refused.extend(against)
    return Listing(tuple(offers), tuple(refused))


def _holds_another(server: object, gpu_types: Collection[str]) -> bool:
    """Whether a host's GPU is known, and none of these."""
    parsed = gpus(server) if isinstance(server, Mapping) else ""
    return isinstance(parsed, Gpus) and parsed.model.name not in gpu_types


def _read_one(
    server: object,
    options: Options,
    as_of: str,
    source: str,
    rates: Mapping[str, Decimal] | None,
    ttl_s: int | None,
    disk_gib: int | None,
    image: str,
) -> tuple[Sequence[Offer], Sequence[Refusal]]:
    """One host's offers, and why it is refused if it is."""
    if not isinstance(server, Mapping):
        return (), (Refusal("?", "", "no listing", unreadable=True),)
    text = section(server, "specs").get("gpu")
    label, gpu = _label(server), text if isinstance(text, str) else ""
    if absurd := _absurd(server):
        return (), (Refusal(label, gpu, absurd, unreadable=True),)
    number_id, parsed = server_id(server), gpus(server)
    if number_id is None or isinstance(parsed, str):
        return (), (
            Refusal(label, gpu, "no usable id" if number_id is None else _shown(str(parsed))),
        )
    why = (
        "rented"
        if server.get("rented") is True
        else ""
        if server.get("rented") is False
        else "does not say that it is free"
    )
    why = why or unfit(server, options) or short(server, ttl_s, disk_gib) or undriven(server, image)
    offers: list[Offer] = []
    refused = [Refusal(label, gpu, why)] if why else []
    for capacity in CAPACITIES:
        found = terms(server, capacity, options.pay_with, rates)
        if found == "no spot":
            continue
        against = why or (found if isinstance(found, str) else _over_bid(found, capacity, options))
        if against and not why:
            refused.append(Refusal(label, gpu, against))
        offers.append(_offer(server, number_id, parsed, capacity, found, against, as_of, source))
    return offers, refused


def _label(server: object) -> str:
    """The id of a listing as it can be shown."""
    stated = server.get("id") if isinstance(server, Mapping) else None
    return _shown(str(stated), _LABEL_MAX) if isinstance(stated, (str, int, float)) else "?"


def _shown(text: str, most: int = TEXT_MAX) -> str:
    return printable(shortened(text, most))


def _absurd(server: Mapping[str, object]) -> str:
    """What figure of a listing cannot be; empty when each can. A host that states one is not
    believed in the others.
    """
    specs, rating, price = (
        section(server, "specs"),
        section(server, "rating"),
        section(server, "price"),
    )
    net, partial = section(specs, "net"), section(server, "partial_gpu_rental")
    figures = [
        ("id", server.get("id"), foreign.ID),
        *(
            (f"price.{kind}.{coin}", value, foreign.MONEY)
            for kind in ("on_demand", "spot", "usd")
            for coin, value in section(price, kind).items()
        ),
        *((name, server.get(name), foreign.ANY) for name in ("reliability", "cuda_version", "mrl")),
        *(
            (f"specs.{name}", specs.get(name), foreign.ANY)
            for name in ("ram", "gpuram", "pcie_rev", "pcie_width")
        ),
        ("specs.cpus", _threads(specs), foreign.ANY),
        *((f"specs.net.{name}", net.get(name), foreign.ANY) for name in ("down", "up")),
        *((f"rating.{name}", rating.get(name), foreign.ANY) for name in ("avg", "cnt")),
        *(
            (f"partial_gpu_rental.{name}", value, foreign.COUNT)
            for name, value in partial.items()
            if name.endswith("_gpus")
        ),
    ]
    bad = next(
        ((name, value) for name, value, bounds in figures if foreign.impossible(value, bounds)),
        None,
    )
    return (
        ""
        if bad is None
        else f"its {_shown(bad[0], _LABEL_MAX)} cannot be {_shown(str(bad[1]), _LABEL_MAX)}"
    )


def _threads(specs: Mapping[str, object]) -> str:
    """The threads of `16/32`: what stands last."""
    return str(specs.get("cpus") or "")[:TEXT_MAX].rpartition("/")[2]


def _over_bid(found: Terms, capacity: str, options: Options) -> str:
    """Why the lowest bid that a host takes is more than may be bid; empty when it is not, or nobody
    knows.
    """
    most = options.max_bid_usd_per_hour
    if capacity != SPOT or not most or found.usd_per_day is None:
        return ""
    lowest = hourly_micro_usd(found.usd_per_day, SPOT)
    return (
        f"takes ${lowest / 1_000_000:.4f}/h at least, wanted at most ${most:g}/h"
        " (max_bid_usd_per_hour)"
        if lowest > micro_usd(most)
        else ""
    )


def _offer(
    server: Mapping[str, object],
    number_id: int,
    parsed: Gpus,
    capacity: str,
    found: Terms | str,
    why: str,
    as_of: str,
    source: str,
) -> Offer:
    specs = section(server, "specs")
    hours = longest_hours(server)
    micro = (
        None
        if isinstance(found, str) or found.usd_per_day is None
        else hourly_micro_usd(found.usd_per_day, capacity)
    )
    return Offer(
        provider=PROVIDER,
        region=region(server),
        zone="",
        machine_type=machine_type(number_id),
        gpu_type=parsed.model.name,
        gpu_count=parsed.gpu_count,
        capacity=capacity,
        node_micro_usd=micro,
        price_as_of=as_of,
        price_source=source,
        gpu_memory_gib=parsed.reported_gb or parsed.model.memory_gb,
        vcpus=foreign.real(_threads(specs)) or 0.0,
        memory_gib=foreign.real(specs.get("ram")) or 0.0,
        parts="" if isinstance(found, str) else _parts(found, capacity),
        left_out=LEFT_OUT + ("" if hours is None else f"; at most {hours:g} h"),
        restriction=why,
    )


def _parts(found: Terms, capacity: str) -> str:
    """The price as the market lists it and what it comes to, the fee apart."""
    day = f"{found.per_day.normalize():f} {found.coin}/day"
    if found.usd_per_day is None:
        return f"{day}; no rate for this coin"
    hour = found.usd_per_day / 24
    word = "listed" if capacity == ON_DEMAND else "lowest bid"
    return (
        f"{word} {day} = ${hour:.4f}/h + renter's fee {float(RENTER_FEE[capacity] * 100):g} %"
        f" ${hour * RENTER_FEE[capacity]:.4f}/h"
    )
