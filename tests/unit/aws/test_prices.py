"""Today's prices of EC2, over boto3 against the stand-in: what is told replaces the catalog's, what
is not stays as it was.
"""

import json
import time
from typing import Any

import pytest

from providers.adapters.aws import prices
from providers.adapters.aws.adapter import Ec2
from providers.adapters.aws.client import Client, sealed_session
from providers.adapters.base import Manifest
from providers.catalog.table import table
from providers.engine.market import collect
from providers.engine.runtime.world import open_world
from providers.model.ask import Ask, Capacity, Choice
from providers.model.capability import Capabilities
from providers.model.offer import Offer
from providers.rehearsal.clouds import aws
from providers.rehearsal.clouds.aws.prices import set_price
from providers.rehearsal.store import Store

SESSION = sealed_session()
NOW = 1_800_000_000.0
DAY = "2027-01-15"


def offer(
    capacity="on-demand",
    zone="use1-az1",
    machine_type="p5.48xlarge",
    micro=55_040_000,
    region="us-east-1",
    gpu="H100",
):
    return Offer("aws", region, zone, machine_type, gpu, 8, capacity, micro, "2026-07-20", "list")


class Rig:
    def __init__(self, path) -> None:
        self.store = Store(path / "rehearsal.db", clock=lambda: NOW)
        self.server = aws.start(self.store)
        self.client = Client(SESSION, self.server.url, read_s=5.0)
        self.ec2 = self.adapter()

    def adapter(self, regions=("us-east-1", "us-east-2")):
        return Ec2("live", lambda: self.client, regions=regions, now=self.store.now)

    def prices(self, *offers):
        return [found.node_micro_usd for found in self.ec2.repriced(offers).offers]

    def calls(self, method):
        return len(self.store.requests(method))


@pytest.fixture
def rig(tmp_path):
    made = Rig(tmp_path)
    yield made
    made.server.close()
    assert made.server.faulty == []


def test_prices_are_todays_with_their_day_and_source(rig) -> None:
    """On-demand from the Price List, Spot from the history of the zone, each dated today."""
    set_price(rig.store, "on-demand", "p5.48xlarge", "us-east-1", "44.5000000000")
    set_price(rig.store, "spot", "p5.48xlarge", "use1-az1", "9.876500")
    listed, bid = rig.ec2.repriced([offer(), offer("spot", micro=20_000_000)]).offers
    assert (
        listed.node_micro_usd,
        listed.price_as_of,
        listed.price_source,
    ) == (44_500_000, DAY, prices.PRICE_LIST)
    assert (
        bid.node_micro_usd,
        bid.price_as_of,
        bid.price_source,
    ) == (9_876_500, DAY, prices.HISTORY)
    assert 1 == rig.calls("pricing.GetProducts") == rig.calls("ec2.DescribeSpotPriceHistory")


def test_what_is_not_told_stays_as_it_was(rig) -> None:
    """Another zone, region, type or a Local Zone keeps its dated price; what had none still has
    none, and no price is ever zero.
    """
    set_price(rig.store, "on-demand", "p5.48xlarge", "us-east-1", "44.5")
    set_price(rig.store, "spot", "p5.48xlarge", "use1-az1", "0.000000")
    kept = [
        offer("spot", micro=20_000_000),
        offer("spot", zone="use1-az2", micro=None),
        offer(region="us-east-2", zone="use2-az1"),
        offer(zone="use1-atl2-az1"),
        offer("reservation", micro=None),
        offer(machine_type="p4d.24xlarge", gpu="A100"),
    ]
    assert kept == list(rig.ec2.repriced(kept).offers)
    assert rig.prices(offer("reservation")) == [44_500_000]


def test_a_price_the_catalog_never_had_is_learnt(rig) -> None:
    """A place without a price in the catalog gets today's."""
    set_price(rig.store, "spot", "p5.48xlarge", "use1-az2", "11")
    assert rig.prices(offer("spot", zone="use1-az2", micro=None)) == [11_000_000]


def test_a_region_that_is_not_configured_is_not_asked(rig) -> None:
    """Only the configured regions are asked for spot prices; without any, those that the account
    has enabled.
    """
    set_price(rig.store, "spot", "p5.48xlarge", "euw2-az1", "11")
    abroad = offer("spot", region="eu-west-2", zone="euw2-az1", micro=20_000_000)
    assert rig.prices(abroad) == [20_000_000]
    rig.ec2 = rig.adapter(regions=())
    assert rig.prices(abroad) == [11_000_000]
    assert rig.calls("ec2.DescribeRegions") == 1


def test_a_missing_right_is_one_line_and_the_rest_is_todays(rig) -> None:
    """Without the right to read the Price List on-demand stays as bundled, one line names the
    right, and Spot is today's all the same.
    """
    rig.store.add_fault("aws", "pricing.GetProducts", "forbidden", None)
    set_price(rig.store, "spot", "p5.48xlarge", "use1-az1", "9")
    found = rig.ec2.repriced([offer(), offer("spot"), offer(machine_type="p4d.24xlarge")])
    assert [item.node_micro_usd for item in found.offers] == [55_040_000, 9_000_000, 55_040_000]
    (line,) = found.lines
    assert (
        "UnauthorizedOperation" in line
        and "allow pricing:GetProducts" in line
        and "hushhush" not in line
    )


@pytest.mark.parametrize("kind", ["html", "malformed", "unavailable", "reply-lost", "rate-limit"])
def test_a_price_service_that_fails_fails_no_plan(rig, kind) -> None:
    """Whatever comes instead of prices, the offers come back whole, with a line."""
    rig.store.add_fault("aws", "pricing.GetProducts", kind, None)
    rig.store.add_fault("aws", "ec2.DescribeSpotPriceHistory", kind, None)
    asked = [offer(), offer("spot")]
    found = rig.ec2.repriced(asked)
    assert asked == list(found.offers) and 1 <= len(found.lines) <= 2


def test_a_service_that_hangs_ends_at_the_limit(rig) -> None:
    """What does not answer is left behind at the limit; what did answer is used."""
    set_price(rig.store, "spot", "p5.48xlarge", "use1-az1", "9")
    rig.store.add_fault("aws", "pricing.GetProducts", "delay", None, seconds="45")
    began = time.monotonic()
    found = prices.repriced(
        rig.client, rig.ec2.surroundings, ("us-east-1",), [offer(), offer("spot")], NOW, limit_s=3.0
    )
    assert time.monotonic() - began < 40, "it waited for the answer that hangs"
    assert [item.node_micro_usd for item in found.offers] == [55_040_000, 9_000_000]
    assert "had no answer within 3s" in found.lines[0]


def test_a_product_of_another_kind_or_shape_is_no_price() -> None:
    """Capacity Blocks, Local Zones, other currencies, two prices for one thing, and rubbish are
    passed over.
    """
    from providers.rehearsal.clouds.aws.prices import product_json

    good = product_json("p5.48xlarge", "us-east-1", "44.5")
    assert list(prices.product_prices(json.dumps(good), "p5.48xlarge")) == [
        ("us-east-1", 44_500_000)
    ]

    def changed(**attributes):
        product = json.loads(json.dumps(good))
        product["product"]["attributes"] |= attributes
        return json.dumps(product)

    yuan = json.dumps(good).replace('"USD"', '"CNY"')
    odd = [
        changed(marketoption="CapacityBlock"),
        changed(locationType="AWS Local Zone"),
        changed(regionCode=""),
        yuan,
        "{}",
        "[]",
        "no json",
        "3",
    ]
    for text in odd:
        assert list(prices.product_prices(text, "p5.48xlarge")) == [], text

    class Twice:
        def pages(self, *_arguments, **_words):
            return [{"PriceList": [json.dumps(good), json.dumps(good).replace("44.5", "45.5")]}]

    told: dict[Any, Any] = {}
    twice: Any = Twice()
    prices.listed_prices(told, twice, "p5.48xlarge")
    assert told == {}


def test_a_live_plan_asks_for_todays_prices_of_its_own_gpus_and_a_rehearsal_asks_nothing(
    rig,
) -> None:
    """In the live world a plan ranks by today's prices, having asked about the types that it could
    take; a rehearsal's market is the catalog.
    """
    set_price(rig.store, "spot", "p5.48xlarge", "use1-az2", "9")
    rows = [
        offer("spot", micro=10_000_000),
        offer("spot", zone="use1-az2", micro=20_000_000),
        offer("spot", machine_type="p4d.24xlarge", gpu="A100", micro=8_000_000),
    ]
    manifest = Manifest(
        "aws",
        Capabilities("aws", capacities=frozenset({"spot"})),
        lambda world, config: rig.ec2,
        lambda section: (),
    )
    ask = Ask((Choice("H100", 8, capacity=(Capacity("spot"),)),))

    def planned(name):
        world = open_world(name, manifests={"aws": manifest}, offers=table(rows))
        try:
            return collect.market(world, ask)
        finally:
            world.close()

    assert [found.micro_usd for found in planned("rehearsal").plan(ask).candidates] == [
        10_000_000,
        20_000_000,
    ]
    assert rig.calls("*") == 0
    live = planned("live")
    assert [(found.zone, found.micro_usd) for found in live.plan(ask).candidates] == [
        ("use1-az2", 9_000_000),
        ("use1-az1", 10_000_000),
    ]
    assert len(live.table) == 3 and rig.calls("pricing.GetProducts") == 1
