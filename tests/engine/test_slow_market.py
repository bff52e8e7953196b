"""A market that answers late is not sold out: an `up` that can buy there waits for it, or says that
it does not know what is for sale.
"""

import threading

import pytest

from providers import errors
from providers.catalog.table import table
from providers.engine import operations
from providers.engine.market import collect, planning
from tests.engine.cases import MARKET, run, wanted


@pytest.fixture
def slow(lab, monkeypatch):
    """Offers come from alpha's own listing alone, and it answers at the given look only; earlier
    ones end with their process.
    """
    monkeypatch.setattr(collect, "LOOK_LIMIT_S", 0.05)
    lab.alpha.capabilities = lab.alpha.capabilities._replace(live_offers=True)
    lab.offers = table([])
    looks, never, real = [], threading.Event(), lab.alpha.offers

    def answers_at(number, error=None):
        def offers():
            looks.append(1)
            if len(looks) < number:
                if error is not None:
                    raise error
                never.wait(30)
            lab.alpha.listed = [each for each in MARKET if each.provider == "alpha"]
            return real()

        monkeypatch.setattr(lab.alpha, "offers", offers)
        return looks

    yield answers_at
    never.set()


@pytest.mark.parametrize(
    "error", [None, errors.Transient("asked too much", provider="alpha")], ids=["silent", "failing"]
)
def test_a_market_that_answers_at_the_second_look_is_bought_in(lab, slow, error) -> None:
    """The first look came to nothing, and nobody else sells it: it is looked at again, and longer,
    before anything is said.
    """
    looks = slow(2, error)
    record = run(operations.create(lab.world(), wanted(), "g1"))
    assert (record.provider, len(lab.alive), len(looks)) == ("alpha", 1, 2)
    assert lab.said("no answer from alpha; asking again")


def test_a_market_that_never_answers_is_not_sold_out(lab, slow, monkeypatch) -> None:
    """What is for sale is not known: that is said, and no place is called tried or refused."""
    monkeypatch.setattr(planning, "LONGER_S", (0.05, 0.05))
    looks = slow(99)
    with pytest.raises(
        errors.Transient,
        match=r"train: wanted the market, found alpha: no answer within .*; run it again",
    ) as raised:
        run(operations.create(lab.world(), wanted(), "g1"))
    assert "no place" not in str(raised.value) and lab.alive == [] and len(looks) == 3


def test_a_market_that_answers_late_keeps_nobody_else_from_selling(lab, slow) -> None:
    """Where another provider has it, the walk goes there at once."""
    lab.offers = table([each for each in MARKET if each.provider == "beta"])
    looks = slow(99)
    assert run(operations.create(lab.world(), wanted(), "g1")).provider == "beta"
    assert len(looks) == 1
