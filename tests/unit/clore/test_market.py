"""The market's listing read: models, counts, prices, filters. Pure. Payloads are made up in
documented or recorded shapes.
"""

import time
from decimal import Decimal
from typing import Any

import pytest

from providers.adapters.clore import figures, market, names
from providers.adapters.clore.options import Options, problems, read
from providers.catalog import names as catalog
from providers.errors import SpecError
from providers.rehearsal.clouds.clore import inventory

OPEN = Options(reliability=0, cuda=0, down_mbps=0, up_mbps=0, disk_gb=0)


def server(
    number=1, gpu="2x NVIDIA GeForce RTX 4090", array=("RTX 4090", "RTX 4090"), ram=24, **more
):
    return {
        "id": number,
        "rented": False,
        "allowed_coins": ["bitcoin", "CLORE-Blockchain", "USD-Blockchain"],
        "gpu_array": None if array is None else list(array),
        "price": {"on_demand": {"USD-Blockchain": 12.0}, "spot": {"USD-Blockchain": 6.0}},
        "specs": {"gpu": gpu, "gpuram": ram, "net": {"cc": "nl"}},
        **more,
    }


def listing(*servers, options=OPEN, rates=None):
    return market.read(list(servers), options, "2026-11-27", "test", rates)


def offered(found, gpu, count):
    return {
        figures.ordered_server(o.machine_type)
        for o in found.offers
        if o.gpu_type == gpu and o.gpu_count == count and not o.restriction
    }


B06 = (
    server(1, "2x NVIDIA L40S", [["L40S", "L40S"]], 45),
    server(2, "1x NVIDIA GeForce RTX 4090 D", ["RTX 4090 D"]),
    server(3, "8x NVIDIA H100 80GB HBM3", [" H100 80GB HBM3"] * 8, 79),
    server(4, "2x NVIDIA GeForce RTX 5090", ["RTX 5090"], 31),
    server(5, "1x NVIDIA GeForce RTX 3090", None),
)


def test_b06_a_model_matches_whole_or_not_at_all() -> None:
    """An ask for L40, RTX-4090 or A10 finds no L40S, 4090 D or A100, and H100 x 8 finds the 79 GB
    report.
    """
    found = listing(*B06)
    assert {"L40S", "RTX-4090-D", "H100", "RTX-3090"} == {offer.gpu_type for offer in found.offers}
    assert {3} == offered(found, "H100", 8)
    assert {1} == offered(found, "L40S", 2)


def test_b06_counts_that_disagree_are_never_rented() -> None:
    """Prefix and array must agree; one alone is enough."""
    found = listing(*B06)
    assert {5} == offered(found, "RTX-3090", 1)
    assert [r.reason for r in found.refused if r.server == "4"] == [
        "counts disagree: '2x NVIDIA GeForce RTX 5090' and 1 in the array"
    ]


def test_every_name_is_the_catalog_s() -> None:
    """Each name of this market's table is a canonical name of the catalog, with its nominal memory."""
    for models in names.spellings().values():
        for model in models:
            assert model.name == catalog.canonical(model.name)
            assert model.memory_gb == catalog.nominal_memory_gib(model.name)


def test_every_spelling_means_to_the_catalog_what_it_means_here() -> None:
    """Where the catalog knows a text of this market, it names one of the same models."""
    for spelling, models in names.spellings().items():
        known = catalog.canonical(spelling)
        assert known is None or {model.name for model in models} & {
            known,
            *catalog.accepts(known),
        }, spelling


@pytest.mark.parametrize(
    ("text", "ram", "name"),
    [
        ("NVIDIA H100 PCIe", 79, "H100-PCIe"),
        ("2x NVIDIA H100 NVL", 93, "H100-NVL"),
        ("1x NVIDIA A100 SXM4 80GB", 80, "A100-80GB"),
        ("4x NVIDIA A100 SXM4", 40, "A100"),
        ("4x NVIDIA A100 SXM4", 80, "A100-80GB"),
        ("1x GeForce GTX 1080 Ti", 11, "GTX-1080-TI"),
        ("1x NVIDIA RTX 6000 Ada Generation", 47, "RTX-6000-ADA"),
        ("1x NVIDIA RTX A6000", 48, "RTX-A6000"),
        ("1x Quadro RTX 6000", 23, "QUADRO-RTX-6000"),
        ("2x NVIDIA GeForce RTX 3080", 9, "RTX-3080"),
        ("2x NVIDIA GeForce RTX 3080", 11, "RTX-3080-12GB"),
        ("2x NVIDIA GeForce RTX 3080 12GB", 12, None),
        ("1x NVIDIA GeForce RTX 4090 Laptop GPU", 16, None),
        ("1x NVIDIA A100 SXM4 80GB", 40, None),
        ("1x NVIDIA H100", 80, None),
        ("Mixed", 24, None),
        ("", 24, None),
    ],
)
def test_b04_texts_of_the_market(text, ram, name) -> None:
    """Form factor, generation and memory decide; what is not a known whole is unknown."""
    found = figures.gpus(server(gpu=text, array=None, ram=ram))
    assert name == (None if isinstance(found, str) else found.model.name)


def test_b08_a_report_a_little_under_the_nominal_size_fits() -> None:
    """79 GB is an 80 GB card, 40 GB is not."""
    assert {1} == offered(
        listing(
            server(1, "1x NVIDIA A100 SXM4 80GB", [" A100 SXM4"], 79),
            server(2, "1x NVIDIA A100 SXM4 80GB", None, 40),
        ),
        "A100-80GB",
        1,
    )


def test_a_mixed_rig_matches_no_model() -> None:
    """Cards of several models make a host that is refused, with the models named."""
    found = listing(server(array=["RTX 4090", "RTX 3090"]))
    assert found.offers == ()
    assert found.refused[0].reason == "a mixed rig: RTX 3090, RTX 4090"


def test_text_and_array_of_different_models_are_refused() -> None:
    """Where text and array name unlike models, neither is believed."""
    assert "says" in listing(server(array=["RTX 3090", "RTX 3090"])).refused[0].reason


@pytest.mark.parametrize("partial", [True, {"total_gpus": 2, "available_gpus": 1}])
def test_a_server_rented_by_parts_is_refused(partial) -> None:
    """Fewer GPUs are free than are listed, or nobody says how many."""
    assert "rented by parts" in listing(server(partial_gpu_rental=partial)).refused[0].reason
    assert {1} == offered(
        listing(server(partial_gpu_rental={"total_gpus": 2, "available_gpus": 2})), "RTX-4090", 2
    )


def test_b14_prices_are_per_day_and_the_fee_stands_apart() -> None:
    """$12 a day is $0.50 an hour, and the renter's 5 % come on top."""
    price = {
        "on_demand": {"bitcoin": 0.00029, "CLORE-Blockchain": 60, "USD-Blockchain": 12.0},
        "usd": {"on_demand_usd": 12.0},
    }
    (offer,) = listing(server(price=price)).offers
    assert offer.node_micro_usd == 525_000
    assert offer.parts == "listed 12 USD-Blockchain/day = $0.5000/h + renter's fee 5 % $0.0250/h"


def test_b14_a_coin_without_a_rate_has_no_price() -> None:
    """Bitcoin alone, with no quote, is unknown: neither dollars nor cheap."""
    price = {
        "on_demand": {"bitcoin": 0.00029, "CLORE-Blockchain": 60},
        "usd": {"on_demand_usd": 12.0},
    }
    (offer,) = listing(server(price=price)).offers
    assert offer.node_micro_usd is None
    assert "no rate for this coin" in offer.parts
    (known,) = listing(
        server(price=price),
        rates={"bitcoin": Decimal(95_000)},
        options=OPEN._replace(pay_with=("bitcoin",)),
    ).offers
    assert known.node_micro_usd == 1_205_313


def test_a_quote_far_from_the_dollar_price_is_no_rate() -> None:
    """A listing whose own quotes disagree by more than a third has no price in that coin."""
    price = {
        "on_demand": {"bitcoin": 0.0001, "USD-Blockchain": 12.0},
        "usd": {"on_demand_btc": 30.0},
    }
    (offer,) = listing(server(price=price), options=OPEN._replace(pay_with=("bitcoin",))).offers
    assert offer.node_micro_usd is None
    price["usd"]["on_demand_btc"] = 11.0
    (offer,) = listing(server(price=price), options=OPEN._replace(pay_with=("bitcoin",))).offers
    assert offer.node_micro_usd == 481_250


def test_only_coins_that_a_server_takes_can_pay() -> None:
    """An amount in a coin that is not allowed is no price."""
    found = listing(server(allowed_coins=["CLORE-Blockchain"]))
    assert {"no price in a coin that it takes"} == {offer.restriction for offer in found.offers}
    odd = listing(server(), options=OPEN._replace(pay_with=("bitcoin",)))
    assert {"takes USD-Blockchain only"} == {offer.restriction for offer in odd.offers}


@pytest.mark.parametrize(
    "price",
    [
        {"spot": {"bitcoin": 0}},
        {"spot": {}},
        {},
        {"spot": {"USD-Blockchain": 3.0}, "usd": {"spot": 0}},
    ],
)
def test_b13_a_spot_price_of_zero_or_none_is_no_spot(price) -> None:
    """Such a server is offered on demand alone."""
    found = listing(server(price={"on_demand": {"USD-Blockchain": 12.0}, **price}))
    assert [offer.capacity for offer in found.offers] == ["on-demand"]


def test_b13_both_prices_are_shown_where_there_are_both() -> None:
    """On demand and spot are two offers, with the fee of each."""
    found = listing(server())
    assert {offer.capacity: offer.node_micro_usd for offer in found.offers} == {
        "on-demand": 525_000,
        "spot": 253_125,
    }


def test_rented_hosts_and_those_that_do_not_say_are_refused() -> None:
    """Free is only what says that it is."""
    found = listing(server(1, rented=True), server(2, rented=None))
    assert {"rented", "does not say that it is free"} == {
        offer.restriction for offer in found.offers
    }


def test_each_refused_host_has_its_reason() -> None:
    """A filter names the figure found and the one wanted; a figure not stated does not pass."""
    options = read({"reliability": 0.98, "cuda": "12.4", "down_mbps": 500}, OPEN)
    good = {"reliability": 0.99, "cuda_version": "12.8"}
    fast = {"gpu": "2x NVIDIA GeForce RTX 4090", "gpuram": 24, "net": {"cc": "NL", "down": 900}}
    found = listing(
        server(1, **good | {"specs": fast}),
        server(2, **good | {"reliability": 0.5, "specs": fast}),
        server(3, **good | {"cuda_version": "11.8", "specs": fast}),
        server(4, **good),
        options=options,
    )
    assert {1} == offered(found, "RTX-4090", 2)
    assert [refusal.reason for refusal in found.refused] == [
        "reliability 0.5, wanted at least 0.98",
        "CUDA 11.8, wanted at least 12.4",
        "states no download, wanted at least 500 Mbps",
    ]


def test_servers_can_be_included_and_excluded() -> None:
    """include_servers is all that is considered; exclude_servers never is."""
    both = (server(1), server(2))
    assert {1} == offered(
        listing(*both, options=OPEN._replace(include_servers=(1,))), "RTX-4090", 2
    )
    assert {2} == offered(
        listing(*both, options=OPEN._replace(exclude_servers=(1,))), "RTX-4090", 2
    )


@pytest.mark.parametrize(
    "odd",
    [
        None,
        7,
        "x",
        [],
        {},
        {"id": "12a"},
        {"id": 1, "specs": "n/a"},
        {"id": 1.5, "specs": {"gpu": "1x NVIDIA L4"}},
    ],
)
def test_one_odd_listing_is_one_refused_host(odd) -> None:
    """Whatever stands in the list, the others are read."""
    found = listing(odd, server(9))
    assert {9} == offered(found, "RTX-4090", 2)
    assert len(found.refused) == 1


def test_listed_for_a_gpu_other_hosts_are_left_out_and_unreadable_ones_are_still_told() -> None:
    """A plan of one GPU reads no other: what cannot be read at all may be that one."""
    hosts = [server(1), server(2, "1x NVIDIA GeForce RTX 3090", ["RTX 3090"]), server(3, "?", None)]
    found = market.read(hosts, OPEN, "2026-11-27", "test", gpu_types={"RTX-4090"})
    assert {offer.machine_type for offer in found.offers} == {"server-1"}
    assert {refusal.server for refusal in found.refused} == {"3"}
    every = market.read(hosts, OPEN, "2026-11-27", "test")
    assert {offer.machine_type for offer in every.offers} == {"server-1", "server-2"}


def test_odd_figures_do_not_break_a_listing() -> None:
    """Ram as text, half an hour of mrl, a PCIe revision with a fraction: the figures are lost or
    kept, the host is read.
    """
    specs = {
        "gpu": "2x NVIDIA GeForce RTX 4090",
        "ram": "n/a",
        "pcie_rev": 3.5,
        "cpus": None,
        "disk": " SAMSUNG MZQL21T9 97.5735GB",
        "net": None,
    }
    offer, _ = listing(server(mrl=72.5, specs=specs)).offers
    assert (offer.memory_gib, offer.region) == (0.0, "XX")
    assert "at most 72.5 h" in offer.left_out
    assert Decimal("97.5735") == figures.disk_gb(specs["disk"])


def test_offers_of_the_rehearsal_market_are_unique_and_priced() -> None:
    """The made-up market gives offers with unique ids; every one that is not restricted has a
    price, spot under on demand.
    """
    found = listing(*inventory.servers(), options=Options())
    ids = [offer.id for offer in found.offers]
    assert len(ids) == len(set(ids))
    price = {offer.id: offer.node_micro_usd for offer in found.offers if not offer.restriction}
    assert all(price.values())
    for name, micro in price.items():
        if name.endswith("/spot"):
            assert micro < price[name.removesuffix("spot") + "on-demand"]


def test_options_name_every_fault() -> None:
    """All problems at once, each with its path; nothing is guessed."""
    found = problems(
        {
            "reliability": 2,
            "pay_with": "dollars",
            "include_servers": "abc",
            "jupyter": "maybe",
            "speed": 1,
            "start_deadline": "1s",
        }
    )
    assert {"reliability", "pay_with", "include_servers", "jupyter", "speed", "start_deadline"} == {
        problem.path for problem in found
    }


def test_options_are_read_from_text_as_from_types() -> None:
    """A stack's configuration knows only text."""
    text = read(
        {
            "reliability": "0.98",
            "pay_with": "clore,usd",
            "exclude_servers": "1 2",
            "jupyter": "true",
            "start_deadline": "5m",
        }
    )
    typed = read(
        {
            "reliability": 0.98,
            "pay_with": ["clore", "usd"],
            "exclude_servers": [1, 2.0],
            "jupyter": True,
            "start_deadline": "5m",
        }
    )
    assert text == typed
    assert text.pay_with == ("CLORE-Blockchain", "USD-Blockchain")


def test_env_needs_trust_in_the_marketplace() -> None:
    """No value goes to a stranger's machine unless the spec says that its owner may read it; the
    value is never named.
    """
    with pytest.raises(SpecError) as caught:
        read({"env": {"HF_TOKEN": "hf_secret"}})
    assert "hf_secret" not in str(caught.value)
    assert read({"env": {"A": "1"}, "trust_marketplace": True}).env == (("A", "1"),)
    with pytest.raises(SpecError):
        read({"env": {"A": "x&y"}, "trust_marketplace": True})


def put(row, path, value):
    """The row with one figure changed."""
    *steps, last = path.split("/")
    holder = row
    for step in steps:
        holder = holder.setdefault(step, {})
    holder[last] = value
    return row


FIGURES = (
    *(
        "id",
        "mrl",
        "reliability",
        "cuda_version",
        "price/on_demand/USD-Blockchain",
        "price/on_demand/bitcoin",
        "price/spot/USD-Blockchain",
    ),
    *(
        "price/usd/on_demand_usd",
        "price/usd/spot",
        "specs/cpus",
        "specs/ram",
        "specs/gpuram",
        "specs/pcie_rev",
        "specs/pcie_width",
    ),
    *(
        "specs/net/down",
        "specs/net/up",
        "rating/avg",
        "rating/cnt",
        "partial_gpu_rental/available_gpus",
    ),
)


@pytest.mark.parametrize(
    "huge",
    ["1e5000", "1e99999", "9" * 400, 1e300, float("inf"), "nan"],
    ids=lambda value: str(value)[:8],
)
@pytest.mark.parametrize("path", FIGURES)
def test_a_host_whose_figure_cannot_be_is_one_refused_row(path, huge) -> None:
    """Counted and named in a line, in no time; every other host is offered as before."""
    value = f"16/{huge}" if path == "specs/cpus" else huge
    begun = time.process_time()
    found = listing(server(1), put(server(2), path, value), server(3))
    assert time.process_time() - begun < 0.5
    assert {1, 3} == offered(found, "RTX-4090", 2)
    assert all(offer.machine_type != "server-2" for offer in found.offers)
    (refused,) = found.refused
    assert refused.unreadable
    assert found.unreadable.startswith("1 listing left out that cannot be read: server ")
    assert path.replace("/", ".") in found.unreadable
    assert len(found.unreadable) < 250


@pytest.mark.parametrize(
    "odd", [None, True, "", "x16", {}, [], [[]], {"a": 1}, "unknown"], ids=repr
)
@pytest.mark.parametrize("path", FIGURES)
def test_a_figure_that_is_none_is_unknown(path, odd) -> None:
    """A host that does not state a figure is refused where it is asked for, and by no other rule;
    nothing raises.
    """
    found = listing(put(server(2), path, odd))
    assert not found.unreadable
    assert (
        path == "id"
        or "partial" in path
        or "USD-Blockchain" in path
        or {2} == offered(found, "RTX-4090", 2)
    )


def test_whatever_a_host_says_the_others_are_offered() -> None:
    """Nests, long texts and control characters in any place cost that host its row, in no time, and
    reach no line raw.
    """
    nest: list[Any] = []
    for _ in range(5_000):
        nest = [nest]
    rows = [
        put(server(10 + at), path, value)
        for at, (path, value) in enumerate(
            (path, value)
            for path in (
                *FIGURES,
                "gpu_array",
                "specs/gpu",
                "specs/disk",
                "specs/net/cc",
                "allowed_coins",
                "price",
                "specs",
                "rating",
            )
            for value in (nest, "9" * 300_000, "NVIDIA " * 50_000, "\x1b[31m\u202e\n")
        )
    ]
    begun = time.process_time()
    found = listing(server(1), *rows, None, 7, nest, server(3))
    assert time.process_time() - begun < 5
    assert {1, 3} <= offered(found, "RTX-4090", 2)
    for text in (
        found.unreadable,
        *(refusal.server + refusal.reason for refusal in found.refused),
        *(o.region + o.restriction + o.parts for o in found.offers),
    ):
        assert text.isprintable()
        assert len(text) < 4_000
