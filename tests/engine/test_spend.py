"""What a month came to, by the journal."""

from types import SimpleNamespace
from typing import Any, cast

from providers.engine import spending
from providers.engine.budget import bounds
from providers.engine.journal.orders import Prepaid
from providers.engine.journal.owners import OwnerRow
from providers.engine.journal.placements import PlacementRow
from providers.engine.journal.volumes import VolumeSpell
from providers.engine.runtime.world import World
from providers.model.volume import VolumeSpec

USD = 1_000_000
BEGIN, END = bounds("2026-11")
HOUR, DAY = 3600.0, 86_400.0


def launch(
    cluster: str,
    launched: float,
    ended: float | None = None,
    *,
    usd: int | None = 10,
    owner: str = "of-dev",
    generation: str = "g1",
    ends_at: float = 0.0,
) -> PlacementRow:
    micro = None if usd is None else usd * USD
    record: dict[str, Any] = {"ends_at": ends_at}
    return PlacementRow(
        *(owner, cluster, generation, "gcp", (), micro, "", "", launched, ended, record)
    )


def month(
    *launches: PlacementRow,
    now: float,
    paid: tuple[Prepaid, ...] = (),
    volumes: tuple[VolumeSpell, ...] = (),
    **asked: str,
) -> spending.MonthSpend:
    """The month of a world whose journal has these placements."""
    journal = SimpleNamespace(
        owners=lambda _: (OwnerRow("of-dev", "project", "dev", ""),),
        launches=lambda _, owner="": [each for each in launches if owner in {"", each.owner}],
        volume_spells=lambda _, owner="": volumes,
        prepaid=lambda _, owner: [each for each in paid if owner == "of-dev"],
        payers=lambda _: ("of-dev",) if paid else (),
        beaten=lambda _world, _owner: (),
        racers=lambda _: (),
        orders=lambda *_, **__: (),
    )
    world = SimpleNamespace(
        name="live", has_journal=True, journal=journal, clock=SimpleNamespace(now=lambda: now)
    )
    return spending.of_month(cast("World", world), **asked)


def test_a_month_has_what_was_spent_by_cluster_and_day_and_what_is_to_come() -> None:
    """Only its time in the month counts; what runs is forecast to its limit or the month's end."""
    now = BEGIN + 3 * DAY
    found = month(
        launch("old", BEGIN - 5 * HOUR, BEGIN + 2 * HOUR),
        launch("long", BEGIN + 2 * DAY + 23 * HOUR, usd=1),
        launch("short", now - HOUR, owner="ad-hoc", ends_at=now + 4 * HOUR),
        now=now,
    )
    by = {each.cluster: each for each in found.clusters}
    assert {name: (each.stack, each.hours) for name, each in by.items()} == {
        "old": ("dev", 2.0),
        "long": ("dev", 1.0),
        "short": ("", 1.0),
    }
    assert (by["old"].spent, by["old"].to_come) == (20 * USD, 0)
    assert by["long"].to_come == 27 * 24 * USD and by["short"].to_come == 40 * USD
    assert found.days == (("2026-11-01", 20 * USD), ("2026-11-03", 11 * USD))
    assert (found.spent, found.forecast) == (31 * USD, (31 + 27 * 24 + 40) * USD)


def test_a_cluster_that_was_launched_again_is_at_one_place_at_a_time() -> None:
    """The end that nobody saw is the next launch."""
    found = month(
        launch("a", BEGIN), launch("a", BEGIN + HOUR, generation="g2"), now=BEGIN + 2 * HOUR
    )
    assert [(each.cluster, each.hours) for each in found.clusters] == [("a", 2.0)]
    assert found.spent == 20 * USD


def test_what_has_no_price_is_named_and_not_free() -> None:
    """It is unknown, with its hours."""
    found = month(launch("a", BEGIN, usd=None), launch("b", BEGIN), now=BEGIN + HOUR)
    assert found.unknown == ("a",) and found.spent == 10 * USD


def test_one_stack_and_a_past_month_can_be_asked_for() -> None:
    """Nothing is to come of a month that is over."""
    launches = (launch("a", BEGIN), launch("b", BEGIN, owner="ad-hoc"))
    found = month(*launches, now=END + DAY, month="2026-11", stack="organization/project/dev")
    assert [(each.cluster, each.to_come) for each in found.clusters] == [("a", 0)]
    assert found.spent == 10 * USD * 30 * 24


def test_what_began_this_very_moment_is_named_and_what_never_ran_is_not() -> None:
    """A cluster and a volume, before they cost anything that could be counted."""
    now = BEGIN + DAY
    disk = VolumeSpell(
        "of-dev", VolumeSpec("disk", "gcp"), "", None, 20 * USD, "", began_at=now - 0.0004
    )
    for began in (now, now - 0.0004):
        found = month(launch("a", began), now=now, volumes=(disk._replace(began_at=began),))
        assert [each.cluster for each in found.clusters] == ["a"] and found.spent < 10
        assert [each.volume for each in found.volumes] == ["disk"]
    ended = disk._replace(ended_at=disk.began_at)
    over = launch("a", BEGIN - HOUR, ends_at=BEGIN)
    assert month(over, now=now, volumes=(ended,)) == month(now=now)


def test_a_block_counts_whole_on_the_day_it_was_paid() -> None:
    """Whenever it begins, and whatever its machines did; they cost nothing by the hour."""
    paid = Prepaid("train", "token", "aws", BEGIN + DAY, BEGIN + 9 * DAY, 755 * USD)
    ran = launch("train", BEGIN + 8 * DAY)
    ran.record["capacity"] = "block"
    found = month(ran, now=BEGIN + 8 * DAY + HOUR, paid=(paid,))
    (cluster,) = found.clusters
    assert (cluster.spent, cluster.to_come, cluster.unknown) == (755 * USD, 0, False)
    assert found.days == (("2026-11-02", 755 * USD),)


def test_a_block_at_a_price_that_is_not_known_makes_its_month_a_least_one() -> None:
    """Before its machines run as well as after."""
    paid = Prepaid("train", "token", "aws", BEGIN + DAY, BEGIN + 9 * DAY, None)
    other = launch("other", BEGIN)
    found = month(other, now=BEGIN + 2 * DAY, paid=(paid,))
    assert found.unknown == ("train",)
