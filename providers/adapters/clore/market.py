"""The market's listing read: servers to offers, each refused host with its reason. Owns filters and
prices; pure, no I/O.

Money is Decimal until it is whole micro-dollars. A listing's figures are the host's own words:
whatever cannot be read makes that host refused, never the call. Shapes: docs.clore.ai for-hosts/api
and recorded replies of public clients, read 2026-11-27.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.clore import names
from providers.errors import printable, shortened
from providers.model import foreign, images
from providers.model.ask import ON_DEMAND, SPOT
from providers.model.duration import text as duration_text
from providers.model.money import micro_usd
from providers.model.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adapters.clore.options import Options

PROVIDER = "clore"
USD = "USD-Blockchain"
CAPACITIES = (ON_DEMAND, SPOT)

RENTER_FEE = {ON_DEMAND: Decimal("0.05"), SPOT: Decimal("0.0125")}
"""The renter's half of the fee, on top of the listed price: 10 % and 2.5 % in all (docs.clore.ai
fee-structure, read 2026-11-27). Holders of 2 million CLORE pay less; that is not reckoned with.
"""

LEFT_OUT = (
    "creation fee (about $0.10, on demand only, none if cancelled within 10 min); 6 h minimum per"
    " the FAQ, unsettled"
)
"""docs.clore.ai order-management and FAQ, read 2026-11-27; the pages contradict each other on the
minimum.
"""

_QUOTES = {"bitcoin": "on_demand_btc", "CLORE-Blockchain": "on_demand_clore", USD: "on_demand_usd"}
_APART = Decimal("1.30")
"""A coin's dollar quote further than this from the same server's dollar price is no price: the
quotes of a listing are known to disagree.
"""

_DISK = re.compile(r"(?<![\d.])(\d{1,12}(?:\.\d{1,9})?)\s{0,9}([GT])B", re.IGNORECASE)
_TEXT_MAX = 1_000
"""Characters of a host's words that are read."""
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
        """One line that counts and names the listings that say what cannot be; empty without any."""
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


class Terms(NamedTuple):
    """What a server costs in one coin: the listed price for the whole server and day, and the same
    in dollars (None: no rate is known).
    """

    coin: str
    per_day: Decimal
    usd_per_day: Decimal | None


class Gpus(NamedTuple):
    """What a server holds."""

    model: names.Model
    gpu_count: int
    reported_gb: float | None


def section(value: object, key: str) -> Mapping[str, object]:
    """The mapping under a key of a mapping; empty where there is none."""
    inner = value.get(key) if isinstance(value, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def server_id(server: object) -> int | None:
    """A server's id as a whole number; None for one that cannot be ordered."""
    return foreign.whole(server.get("id"), foreign.ID) if isinstance(server, Mapping) else None


def machine_type(server: int) -> str:
    """How an offer names a server. The reverse is `ordered_server`."""
    return f"server-{server}"


def ordered_server(machine: str) -> int:
    """The server's id of a machine type. Raises ValueError for another provider's."""
    return int(machine.removeprefix("server-"))


def region(server: Mapping[str, object]) -> str:
    """The country as the listing codes it, in capitals; `XX` where it names none."""
    code = section(section(server, "specs"), "net").get("cc")
    code = code.strip().upper() if isinstance(code, str) else ""
    return code if re.fullmatch(r"[A-Z]{2,3}", code) else "XX"


class Contradiction(str):
    """Why what a row says of its GPUs cannot all be true. Of an order that is not what was sold;
    what a row leaves out is only unknown.
    """

    __slots__ = ()


def gpus(server: Mapping[str, object]) -> Gpus | str:
    """The model and count of a server, or why it has none that could be rented.

    Text and array must agree wherever both speak: a count or a model on which they differ is never
    rented on a guess.
    """
    specs = section(server, "specs")
    text = specs.get("gpu")
    text = text[:_TEXT_MAX].strip() if isinstance(text, str) else ""
    listed = _flat(server.get("gpu_array"))
    memory = foreign.real(specs.get("gpuram"))
    reported = memory if memory is not None and memory > 0 else None
    if len({entry.casefold() for entry in listed}) > 1:
        return Contradiction(f"a mixed rig: {', '.join(sorted(set(listed)))}")
    spoken = [word for word in (text, *listed[:1]) if word]
    if not spoken:
        return "names no GPU"
    choices = [set(names.models_of(word, reported)) for word in spoken]
    if not all(choices):
        size = "" if reported is None else f" with {reported:g} GB"
        return f"no known model: {spoken[choices.index(set())]!r}{size}"
    models = set.intersection(*choices)
    if not models:
        return Contradiction(f"says {text!r} and {listed[0]!r}")
    if len(models) > 1:
        return (
            f"{spoken[0]!r} without its memory: one of"
            f" {', '.join(sorted(model.name for model in models))}"
        )
    counts = {count for count in (names.count_of(text), len(listed) or None) if count is not None}
    if len(counts) > 1:
        return Contradiction(f"counts disagree: {text!r} and {len(listed)} in the array")
    partial = server.get("partial_gpu_rental")
    count = counts.pop() if counts else 1
    if isinstance(partial, Mapping):
        free, total = (
            foreign.number(partial.get("available_gpus")),
            foreign.number(partial.get("total_gpus")),
        )
        if free is None or free != total or free != count:
            return (
                "rented by parts; not all of its GPUs are free"
                if free is not None
                else "rented by parts; how many GPUs are free is not said"
            )
    elif partial:
        return "rented by parts; how many GPUs are free is not said"
    return Gpus(models.pop(), count, reported) if count >= 1 else "names no GPU"


def _flat(value: object) -> list[str]:
    if isinstance(value, str):
        return [value[:_TEXT_MAX].strip()] if value.strip() else []
    if isinstance(value, (list, tuple)):
        return [word for item in value for word in _flat(item)]
    return []


def terms(
    server: Mapping[str, object],
    capacity: str,
    pay_with: Sequence[str],
    rates: Mapping[str, Decimal] | None = None,
) -> Terms | str:
    """What a server costs in the first coin of `pay_with` that it takes, the first with a known
    dollar value if there is one; or why none.

    `rates` are dollars per coin from elsewhere; without one a coin is worth what this listing's own
    quote says, else its dollar price is unknown.
    """
    price = section(server, "price")
    listed = section(price, "on_demand" if capacity == ON_DEMAND else "spot")
    quotes = section(price, "usd")
    if capacity == SPOT and foreign.number(quotes.get("spot")) == 0:
        return "no spot"
    allowed = server.get("allowed_coins")
    coins = [coin for coin in _flat(allowed) if coin in _QUOTES]
    amounts = {
        coin: amount
        for coin in coins
        if (amount := foreign.number(listed.get(coin), foreign.MONEY)) is not None and amount > 0
    }
    if not amounts:
        return "no spot" if capacity == SPOT else "no price in a coin that it takes"
    payable = [coin for coin in pay_with if coin in amounts]
    if not payable:
        return f"takes {', '.join(sorted(amounts))} only"
    found = [
        Terms(
            coin,
            amounts[coin],
            None if (rate := _rate(coin, price, rates or {})) is None else amounts[coin] * rate,
        )
        for coin in payable
    ]
    return next((one for one in found if one.usd_per_day is not None), found[0])


def _rate(coin: str, price: Mapping[str, object], rates: Mapping[str, Decimal]) -> Decimal | None:
    if coin == USD:
        return Decimal(1)
    if coin in rates:
        return rates[coin]
    listed, quotes = section(price, "on_demand"), section(price, "usd")
    amount, quote, dollars = (
        foreign.number(value, foreign.MONEY)
        for value in (listed.get(coin), quotes.get(_QUOTES[coin]), listed.get(USD))
    )
    if amount is None or quote is None or amount <= 0 or quote <= 0:
        return None
    if dollars is not None and dollars > 0 and not dollars / _APART <= quote <= dollars * _APART:
        return None
    return quote / amount


def hourly_micro_usd(usd_per_day: Decimal, capacity: str) -> int:
    """Whole micro-dollars per hour for the whole server, the renter's fee included, from dollars
    per day.
    """
    return micro_usd(usd_per_day / 24 * (1 + RENTER_FEE[capacity]))


def daily_usd(micro_usd_per_hour: int, capacity: str) -> Decimal:
    """The reverse: the listed dollars per day that cost at most this much per hour."""
    return Decimal(micro_usd_per_hour) / 1_000_000 * 24 / (1 + RENTER_FEE[capacity])


def unfit(server: Mapping[str, object], options: Options) -> str:
    """Why a host does not pass the filters; empty when it does."""
    number_id = server_id(server)
    if number_id in options.exclude_servers:
        return "excluded by exclude_servers"
    if options.include_servers and number_id not in options.include_servers:
        return "not among include_servers"
    specs, rating = section(server, "specs"), section(server, "rating")
    net = section(specs, "net")
    figures = (
        ("reliability", options.reliability, foreign.number(server.get("reliability")), ""),
        ("CUDA", options.cuda, foreign.number(server.get("cuda_version")), ""),
        ("download", options.down_mbps, foreign.number(net.get("down")), " Mbps"),
        ("upload", options.up_mbps, foreign.number(net.get("up")), " Mbps"),
        ("disk", options.disk_gb, disk_gb(specs.get("disk")), " GB"),
        ("RAM", options.ram_gb, foreign.number(specs.get("ram")), " GB"),
        ("PCIe revision", options.pcie_rev, foreign.number(specs.get("pcie_rev")), ""),
        ("PCIe width", options.pcie_width, foreign.number(specs.get("pcie_width")), ""),
        (
            "rating",
            options.rating,
            foreign.number(rating.get("avg")) if foreign.number(rating.get("cnt")) else None,
            "",
        ),
        ("longest rental", options.min_hours, foreign.number(server.get("mrl")), " h"),
    )
    for what, least, found, unit in figures:
        if least and found is None:
            return f"states no {what}, wanted at least {least:g}{unit}"
        if least and found is not None and found < Decimal(str(least)):
            return f"{what} {found:f}{unit}, wanted at least {least:g}{unit}"
    return ""


def short(server: Mapping[str, object], ttl_s: int | None, disk_gib: int | None) -> str:
    """Why a host does not last as long, or hold as much, as is asked for; empty when it does."""
    hours = longest_hours(server)
    if ttl_s is not None and hours is not None and hours * 3_600 < ttl_s:
        return f"it can be rented for {hours:g} h at most, wanted {duration_text(ttl_s)}"
    disk = disk_gb(section(server, "specs").get("disk"))
    if disk_gib is not None and (
        disk is None or disk * 1_000_000_000 < disk_gib * Decimal(1 << 30)
    ):
        return (
            f"it has {'an unknown' if disk is None else f'{disk:g} GB of'} disk, wanted"
            f" {disk_gib} GiB"
        )
    return ""


def undriven(server: Mapping[str, object], image: str) -> str:
    """Why a host's driver can't start a container image; empty where it can, or where the image's
    name does not say its CUDA.

    `cuda_version` is the newest CUDA that the driver runs; within a major all do
    (`images.LEAST_DRIVER`).
    """
    wanted, found = images.cuda(image), foreign.number(server.get("cuda_version"))
    if wanted is None:
        return ""
    if found is None:
        return f"states no CUDA, wanted {wanted} for {image}"
    return (
        f"its driver runs CUDA {found:f} at most, wanted {wanted} for {image}"
        if found < wanted.major
        else ""
    )


def disk_gb(text: object) -> Decimal | None:
    """The size in a disk's free text, the last one named: `NVMe 512.0GB`."""
    sizes = _DISK.findall(text[:_TEXT_MAX]) if isinstance(text, str) else []
    return Decimal(sizes[-1][0]) * (1_000 if sizes[-1][1] in "tT" else 1) if sizes else None


def longest_hours(server: Mapping[str, object]) -> float | None:
    """`mrl`: how long one order can last, in hours."""
    return foreign.real(server.get("mrl"))


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
) -> Listing:
    """Every server as offers, on demand and spot, in the order listed. Prices are whole servers per
    hour with the renter's fee.

    A host is refused by the options, by a time or a disk that it has not, and by a driver that does
    not run the image.
    """
    offers: list[Offer] = []
    refused: list[Refusal] = []
    for server in servers if isinstance(servers, (list, tuple)) else ():
        try:
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
    number_id, held = server_id(server), gpus(server)
    if number_id is None or isinstance(held, str):
        return (), (
            Refusal(label, gpu, "no usable id" if number_id is None else _shown(str(held))),
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
        offers.append(_offer(server, number_id, held, capacity, found, against, as_of, source))
    return offers, refused


def _label(server: object) -> str:
    """The id of a listing as it can be shown."""
    stated = server.get("id") if isinstance(server, Mapping) else None
    return _shown(str(stated), _LABEL_MAX) if isinstance(stated, (str, int, float)) else "?"


def _shown(text: str, most: int = _TEXT_MAX) -> str:
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
    return str(specs.get("cpus") or "")[:_TEXT_MAX].rpartition("/")[2]


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
    held: Gpus,
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
        gpu_type=held.model.name,
        gpu_count=held.gpu_count,
        capacity=capacity,
        node_micro_usd=micro,
        price_as_of=as_of,
        price_source=source,
        gpu_memory_gib=held.reported_gb or held.model.memory_gb,
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
