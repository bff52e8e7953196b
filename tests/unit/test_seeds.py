"""Every command and table row of the project's first documents, with its verdict, checked by the
product's own code.
"""

import pytest

from providers.catalog.hardware import hardware
from tests.present import present
from tests.unit import seeds_clore, seeds_google, seeds_modal
from tests.unit.seeds_judge import VERDICTS
from tests.unit.seeds_table import PAGE, ROWS, page


def agrees(row) -> None:
    """The check says what the table says, with a reason."""
    found = row.check()
    assert row.verdict in VERDICTS
    assert (found.verdict, bool(found.reason)) == (row.verdict, True), found


def ids(rows):
    return [row.claim for row in rows]


@pytest.mark.parametrize("row", seeds_modal.FIRST, ids=ids(seeds_modal.FIRST))
def test_gpus_on_modal(row) -> None:
    """Each row of document 000 has the verdict that the adapter, the catalog or the sizing gives."""
    agrees(row)


@pytest.mark.parametrize("row", seeds_modal.SECOND, ids=ids(seeds_modal.SECOND))
def test_which_gpu_for_a_small_model(row) -> None:
    """Each row of document 001 has the verdict that prices and sheets of today give."""
    agrees(row)


@pytest.mark.parametrize("row", seeds_clore.ROWS, ids=ids(seeds_clore.ROWS))
def test_several_gpus_on_a_marketplace(row) -> None:
    """Each row of document 003 has the verdict that the sizing, the launchers or the catalog give."""
    agrees(row)


@pytest.mark.parametrize("row", seeds_google.ROWS, ids=ids(seeds_google.ROWS))
def test_training_on_google_cloud(row) -> None:
    """Each row of document 004 has the verdict that the catalog, Google's schema or the image rule
    give.
    """
    agrees(row)


@pytest.mark.parametrize(
    ("card", "times", "fits"),
    [
        ("T4", 1, True),
        ("A10G", 3, False),
        ("A100", 6, True),
        ("A100-80GB", 6, True),
        ("H100", 10, True),
    ],
)
def test_claimed_speeds_stand_in_the_hardware_table_with_a_note(card, times, fits) -> None:
    """The claim is kept beside the sheet's figures, and its note says whether they bear it out."""
    assert present(hardware(card)).relative_speed == times
    assert present(hardware(card)).relative_speed_note.startswith("does not fit") != fits
    assert seeds_modal.own_table(card, times)[0] == fits


def test_no_row_stands_twice() -> None:
    """A claim has one verdict."""
    assert len({(row.seed, row.claim) for row in ROWS}) == len(ROWS)


def test_the_page_is_current() -> None:
    """docs/research/seeds.md is what the rows say today; `python -m tests.unit.seeds_table` writes
    it anew.
    """
    assert PAGE.read_text() == page()
