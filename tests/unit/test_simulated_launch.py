"""Our side of the comparison: the real engine on a few of its markets."""

import pytest

from tests.benchmarks import acquire_page
from tests.benchmarks.acquire_ours import launch, offers_of, rows_of
from tests.benchmarks.acquire_sides import WISHES, wish_of
from tests.benchmarks.bench_acquire import quantile
from tests.benchmarks.market import BASE, Market

ROWS = rows_of(WISHES)
EVERYWHERE = BASE._replace(no_quota=0.0)


def offers(wish):
    return offers_of([row for row in ROWS if wish.served_by(row.gpu_type, row.gpu_count)])


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    def another(name):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("GPUS_HOME", str(tmp_path / name))

    another("first")
    return another


@pytest.mark.parametrize(("number", "share"), [(5, 0.3), (4, 0.0)])
def test_launch_is_the_same_by_the_same_seed_and_leaves_nothing(home, number, share):
    wish = wish_of(number)
    market = Market(number, share, EVERYWHERE)
    ran = launch(wish, market, offers(wish))
    home("second")
    assert launch(wish, Market(number, share, EVERYWHERE), offers(wish)) == ran
    assert (bool(ran.place), ran.left) == (share > 0, 0)
    assert market.alive(ran.running_s + 3_600.0) == []
    assert ran.tries == ran.creates <= ran.mutations


def test_earlier_run_spares_the_next_one_the_places_that_were_sold_out():
    wish = wish_of(5)
    market = Market(5, 0.3, EVERYWHERE)
    first = launch(wish, market, offers(wish))
    again = launch(wish, market, offers(wish), at=first.running_s + 60.0)
    assert first.tries > 1
    assert (again.tries, again.place) == (1, first.place)


def test_every_wish_has_rows_of_the_bundled_catalog():
    assert all(
        any(
            wish.served_by(row.gpu_type, row.gpu_count) and row.capacity == wish.capacity
            for row in ROWS
        )
        for wish in WISHES
    )


def test_percentile_is_by_nearest_rank():
    assert (quantile([1.0, 2.0, 3.0, 4.0], 0.5), quantile(list(range(1, 101)), 0.95)) == (2.5, 95)


def test_page_has_the_assumptions_of_the_model():
    page = acquire_page.PAGE.read_text("utf-8")
    assert acquire_page.with_part(page, "assumed", acquire_page.assumptions()) == page
