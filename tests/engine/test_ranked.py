"""The ranked sequence of a walk: its position, what is left out of it, and what a failure costs."""

from __future__ import annotations

import random

from providers.engine.launch.ranked import LeftOut, Ranked
from providers.model.offer import Candidate
from providers.model.place import Scope
from tests.engine.cases import offer


def candidate(rank: int, region: str = "north", zone: str = "", **more: str) -> Candidate:
    reservation = more.pop("reservation", "")
    return Candidate(
        rank, 0, offer("alpha", region, zone or f"{region}-{rank}", **more), 1, reservation, 10
    )


def test_a_place_is_left_out_by_the_first_scope_that_covers_it() -> None:
    """Looked up by key it is what comparing it with every scope gives."""
    chance = random.Random(7)
    fields = (("alpha",), ("", "n", "s"), ("", "n-a", "s-a"), ("", "m"), ("", "H100"), ("", "spot"))
    scopes = [Scope(*map(chance.choice, fields)) for _ in range(60)]
    left_out, known = LeftOut(), []
    places = [
        candidate(1, region, zone, machine=machine, gpu=gpu, reservation=name)
        for region, zone in (("n", "n-a"), ("n", "n-b"), ("s", "s-a"), ("e", "e-a"))
        for machine in ("m", "o")
        for gpu in ("H100", "A100")
        for name in ("", "mine")
    ]
    for number, scope in enumerate(scopes):
        name = chance.choice(("", "", "mine", "other"))
        left_out.add(scope, name, str(number))
        known.append((scope, name, str(number)))
        for place in places:
            slow = (w for s, n, w in known if s.covers(place) and n in ("", place.reservation))
            assert left_out.why(place) == next(slow, "")


def test_a_failed_candidate_costs_no_pass_over_the_others() -> None:
    """A walk that fails everywhere looks at each candidate a few times, however many there are."""
    size, looks = 2_000, 0
    left_out = LeftOut()

    def why(place: Candidate) -> str:
        nonlocal looks
        looks += 1
        return left_out.why(place)

    pending = Ranked([candidate(rank) for rank in range(size)], why)
    passed = 0
    while True:
        passed += len([*pending.pass_over()])
        if not pending:
            break
        head = pending[0]
        pending.take([head])
        left_out.add(Scope("alpha", head.region, head.zone), "", "sold out")
        pending.put_ahead({head.region}, ())
    assert passed == 0  # each was taken, none had to be passed over
    assert looks < 6 * size


def test_what_is_taken_from_behind_does_not_come_again() -> None:
    """The others stay, in their order; equal ones of the zone that the cloud named go first."""
    first, second, third, fourth = (candidate(rank) for rank in range(1, 5))
    pending = Ranked([first, second, third, fourth], lambda _: "")
    pending.take([second])
    assert [*pending] == [first, third, fourth] == pending[:3]
    pending.put_ahead({"north"}, {fourth.zone})
    assert [*pending] == [fourth, first, third]
    pending.take([fourth])
    assert [*pending.pass_over()] == []
    assert (len(pending), pending[0]) == (2, first)
