"""What of a watch's rounds is told to people: each trouble once, each loss, each purchase."""

import pytest

from providers.watch.news import news
from providers.watch.rounds import BOUGHT, BUSY, CAPPED, CHANGED, FAILED, UNCHANGED, Round


def round_(result=UNCHANGED, text="", spent=None, **clusters):
    money = spent and {"spent_usd": spent, "to_come_usd": 5.0, "max_spend_usd": 100.0}
    named = tuple(
        {"name": name, "status": each, "detail": "why"} for name, each in clusters.items()
    )
    return Round(0.0, result, text, clusters=named, spending=money)


def titles(found, before=None):
    return [each.title for each in news(found, before)]


def test_purchase_is_told_each_time() -> None:
    """Two in a row are two."""
    found = round_(BOUGHT, "bought a (gcp z)")
    assert news(found, found)[0] == ("acquired", "bought a (gcp z)")


@pytest.mark.parametrize("trouble", [FAILED, BUSY, CAPPED])
def test_trouble_is_told_when_it_begins_and_not_again(trouble) -> None:
    """And its end, where it was no cap."""
    found = round_(trouble, "why")
    assert titles(found) == titles(found, round_()) == [trouble] and titles(found, found) == []
    ended = titles(round_(CHANGED), found)
    assert ended == ([] if trouble == CAPPED else ["works again"])


def test_search_that_begins_and_one_that_is_given_up_are_told_once() -> None:
    """Also by a round that fails for it."""
    waits, over = round_(a="waiting"), round_(FAILED, "gave up", a="gave-up")
    assert titles(waits, round_(a="running")) == ["a waiting"] and titles(waits, waits) == []
    assert titles(over, waits) == ["failed", "a gave-up"] and titles(over, over) == []


def test_cluster_that_is_lost_or_has_ended_is_told_once() -> None:
    """What runs again is no news: its purchase was."""
    lost = round_(a="preempted", b="running")
    assert news(lost, round_(a="running", b="running")) == (("a preempted", "why"),)
    assert titles(lost) == ["a preempted"] and titles(lost, lost) == []
    assert titles(round_(a="running"), lost) == []


def test_budget_is_told_when_most_of_it_is_spent_or_to_come() -> None:
    """Once, at nine tenths."""
    assert titles(round_(spent=80.0)) == []
    assert titles(round_(spent=85.0), round_(spent=80.0)) == ["budget nearly spent"]
    assert titles(round_(spent=95.0), round_(spent=85.0)) == []


def test_quiet_round_is_no_news() -> None:
    """Nothing to do, nothing to tell."""
    assert titles(round_(a="running")) == []
