"""What a preview says of what runs, against its plan: a stranger's host of before the rule, and
what a reclaim would move to.
"""

from providers.catalog.table import table
from providers.engine.record import ClusterRecord
from providers.model.ask import Ask, Choice
from providers.model.capability import Capabilities
from providers.model.offer import Offer
from providers.model.placement import Placement, Price
from providers.planner.plan import make
from providers.plugin import preview

ABLE = {
    "gcp": Capabilities("gcp"),
    "bazaar": Capabilities("bazaar", live_offers=True, marketplace=True),
}


def offer(provider, usd, gpu="H100"):
    return Offer(
        provider, "z", "z-1", "m", gpu, 8.0, "on-demand", round(usd * 1e6), "2026-11-28", "list"
    )


OFFERS = table([offer("gcp", 88.0), offer("gcp", 20.0, "A100"), offer("bazaar", 9.0)])


def a_record(provider, usd, gpu="H100", entry=0):
    return ClusterRecord(
        "rehearsal",
        "o",
        "train",
        "g",
        "f",
        "running",
        Placement(provider, "z", "z-1", "m", gpu, 8, 1, "on-demand"),
        Price(round(usd * 1e6)),
        entry=entry,
    )


def said(ask, runs, action=preview.KEEP):
    return preview.change(
        make(ask, OFFERS, ABLE), preview.PreviewContext(ask=ask, record=runs, action=action), ""
    )


def test_a_strangers_host_that_the_declaration_would_not_buy_is_warned_of_and_stays() -> None:
    """Nothing is deleted for the rule; the line says how to have one again. A declaration that
    allows one, or names another, has no such line.
    """
    ask = Ask((Choice("H100", 8),))
    running = said(ask, a_record("bazaar", 9.0))
    (warning,) = (text for topic, text in running.facts if topic == "warning")
    assert (
        "stays until it is replaced: add bazaar to providers, or set marketplaces: true" in warning
        and running.change.startswith("no change: ")
    )
    for more in ({"marketplaces": True}, {"providers": ("gcp", "bazaar")}):
        assert not [
            topic
            for topic, _ in said(ask._replace(**more), a_record("bazaar", 9.0)).facts
            if topic == "warning"
        ]
    assert not [topic for topic, _ in said(ask, a_record("gcp", 88.0)).facts if topic == "warning"]


def test_a_reclaim_line_goes_by_the_rank() -> None:
    """By choice an earlier choice at any price, and nothing where the first one runs; by price only
    what is cheaper.
    """
    two = Ask((Choice("H100", 8), Choice("A100", 8, "fallback[0]")))
    assert (
        "gcp z-1 H100:8 on-demand first"
        in said(two, a_record("gcp", 20.0, "A100", 1), preview.RECLAIM).change
    )
    assert "nothing preferred" in said(two, a_record("gcp", 99.0), preview.RECLAIM).change, (
        "a cheaper place of the same choice"
    )
    price = two._replace(rank="price")
    assert (
        "nothing preferred" in said(price, a_record("gcp", 20.0, "A100", 1), preview.RECLAIM).change
    ), "the first choice is dearer"
    assert (
        "gcp z-1 A100:8 on-demand first"
        in said(price, a_record("gcp", 88.0), preview.RECLAIM).change
    )
