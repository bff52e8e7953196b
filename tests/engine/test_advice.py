"""What clouds say of room orders places that are equal otherwise, and nothing depends on it."""

import threading
import time

import pytest

from providers.adapters.base import Advises, Credentials
from providers.catalog.table import table
from providers.engine.market import advice, collect
from providers.errors import BadCredentials
from providers.model.advice import Advice, kind
from providers.planner import advised, brief, render
from providers.testing.fake_adapter import FakeCloud
from tests.engine.cases import Lab, ask, offer

NORTH, SOUTH = (
    offer("alpha", "north", "north-a", usd=10),
    offer("alpha", "south", "south-a", usd=10),
)
CLOSE = "alpha south before alpha north at the same price: score 9 against score 2"


class AdvisingCloud(FakeCloud, Advises):
    """Says of each region what `scores` has, or raises `refuses`; each question is counted."""

    def __init__(self, *words) -> None:
        super().__init__(*words)
        self.scores = {"north": 2, "south": 9}
        self.refuses: Exception | None = None
        self.answers = threading.Event()
        self.answers.set()

    def manifest(self):
        return super().manifest()._replace(credentials=Credentials(settings=("advice",)))

    def advice(self, offers, nodes):
        def asked():
            self.calls["advice"] += 1
            self.answers.wait(20)
            if self.refuses is not None:
                raise self.refuses
            return {
                kind(each): Advice(score / 10, f"score {score}")
                for each in offers
                if (score := self.scores.get(each.region))
            }

        return [asked]


class Advised:
    """A world in which alpha advises; `plan` is made anew, as another command of this process."""

    def __init__(self, mark: str, *offers) -> None:
        self.lab = Lab()
        self.alpha = self.lab.alpha = AdvisingCloud("alpha", self.lab.clock)
        self.lab.offers = table(offers)
        self.settings = {"alpha": {"advice": "yes", "project": mark}}

    def plan(self):
        world = self.lab.world()
        world.settings = self.settings
        return collect.market(world, ask()).plan(ask())

    def lines(self, plan):
        return [line for line in plan.warnings if "alpha" in line]


@pytest.fixture
def advising(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made: list[Advised] = []

    def make(*offers):
        made.append(Advised(str(tmp_path), *(offers or (NORTH, SOUTH))))
        return made[-1]

    yield make
    for each in made:
        each.alpha.answers.set()
        for world in each.lab.worlds:
            world.close()


def test_equal_places_are_ordered_by_advice_and_the_plan_says_so(advising) -> None:
    """In the preview by a line, and in whole by `--explain` and JSON."""
    case = advising()
    plan = case.plan()
    assert [each.region for each in plan.candidates] == ["south", "north"]
    assert [each.region for each in plan.unadvised.candidates] == ["north", "south"]
    assert CLOSE in " ".join(brief.as_text(plan).split())
    assert "alpha north a3-highgpu-8g spot: score 2" in render.as_text(plan)
    told = render.as_json(plan)["summary"]["advice"]
    assert [(each["region"], each["chance"]) for each in told] == [("south", 0.9), ("north", 0.2)]
    assert [each.region for each in plan.ranked("price").candidates] == ["south", "north"]


def test_advice_that_changes_nothing_is_no_line(advising) -> None:
    """Only the whole plan has it then."""
    case = advising()
    case.alpha.scores = {"north": 9, "south": 2}
    plan = case.plan()
    assert advised.changed(plan) == "" and len(list(advised.lines(plan))) == 2


def test_a_cheaper_place_stays_first_and_nobody_is_asked(advising) -> None:
    """Advice never costs money."""
    case = advising(NORTH, SOUTH._replace(node_micro_usd=10_010_000))
    assert [each.region for each in case.plan().candidates] == ["north", "south"]
    assert case.alpha.calls["advice"] == 0


def test_a_place_of_which_nothing_is_said_counts_as_even(advising) -> None:
    """Unknown is neither good nor bad."""
    case = advising()
    case.alpha.scores = {"north": 2}
    assert [each.region for each in case.plan().candidates] == ["south", "north"]
    case = advising(NORTH, SOUTH, offer("alpha", "east", "east-a", usd=10))
    case.alpha.scores = {"south": 9}
    case.settings = {"alpha": {"advice": "yes", "project": "another"}}
    assert [each.region for each in case.plan().candidates] == ["south", "east", "north"]


def test_an_answer_is_believed_for_a_while(advising) -> None:
    """A search that looks every minute does not ask every minute."""
    case = advising()
    first, again = case.plan(), case.plan()
    assert first.candidates == again.candidates
    assert case.alpha.calls["advice"] == 1


def test_a_refusal_is_one_line_and_the_order_stays(advising) -> None:
    """Told once, and not asked again for a while."""
    case = advising()
    case.alpha.refuses = BadCredentials("alpha: no right", provider="alpha")
    plan = case.plan()
    assert [each.region for each in plan.candidates] == ["north", "south"]
    assert "no right" in case.lines(plan)[0] and "alpha:advice: no" in case.lines(plan)[0]
    assert case.lines(case.plan()) == []
    assert case.alpha.calls["advice"] == 1


def test_a_late_answer_is_not_waited_for(advising, monkeypatch) -> None:
    """A plan is made within its time whoever does not answer."""
    monkeypatch.setattr(advice, "LIMIT_S", 0.1)
    case = advising()
    case.alpha.answers.clear()
    began = time.monotonic()
    plan = case.plan()
    assert time.monotonic() - began < 10
    assert [each.region for each in plan.candidates] == ["north", "south"]
    assert "no answer within 0.1s" in case.lines(plan)[0]


@pytest.mark.parametrize("setting", ["", "no", "maybe"])
def test_a_rehearsal_asks_only_where_it_is_told_to(advising, setting) -> None:
    """And a mistaken word is told, not guessed."""
    case = advising()
    case.settings = {"alpha": {"advice": setting}}
    plan = case.plan()
    assert case.alpha.calls["advice"] == 0
    assert bool(case.lines(plan)) == (setting == "maybe")
