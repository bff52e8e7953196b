"""Waiting for capacity: what an `up` leaves where every place is sold out, and what becomes of it."""

import pytest

from providers.engine import operations
from providers.engine.desired import Acquire
from providers.engine.reconcile.condition import Condition, condition_of
from providers.engine.record import ClusterRecord
from providers.errors import (
    AllFailed,
    BadCredentials,
    GpusError,
    NotEnabled,
    OutcomeUnknown,
    QuotaExceeded,
    Transient,
)
from providers.model.machine import STOPPED
from providers.plugin import outputs
from tests.engine.cases import PLAIN, ask, run, wanted

HOUR_S = 3_600.0
ZONES = ("north-a", "north-b", "south-a")


def waits(an_ask=None, within_s=12 * HOUR_S, asked="d1", **more):
    return wanted(an_ask, **more)._replace(acquire=Acquire(within_s, asked))


def sold_out(lab, count=0) -> None:
    for zone in ZONES:
        lab.alpha.stock[(zone, "spot")] = count
    lab.beta.stock[("east-a", "spot")] = count


def created(lab, want=None):
    """(its world, a cluster that waits)."""
    sold_out(lab)
    world = lab.world()
    return world, run(operations.create(world, want or waits(), "g1"))


def kept(record) -> ClusterRecord:
    """The record as the state gives it back."""
    return outputs.read(outputs.resource_id(record), outputs.write(record))


def updated(lab, record, want=None):
    """As a later process does it."""
    return run(operations.update(lab.world(), kept(record), want or waits()))


def at(lab, seconds) -> None:
    lab.clock.advance(seconds - lab.clock.now())


def test_cluster_waits_where_every_place_is_sold_out(lab) -> None:
    """Nothing exists and nothing is billed; the state says until when, and who goes on looking; it
    is no unhealthy resource.
    """
    began = lab.clock.now()
    world, record = created(lab)
    assert (record.status, record.reasons, record.handles) == ("waiting", (), ())
    assert record.price.micro_usd == 0 and lab.alive == [] and lab.creates == 3
    assert record.search is not None and record.search.until - began >= 12 * HOUR_S
    assert lab.said("warning: train: still looking: all 4 places") and record.detail.endswith(
        "UTC, by `gpus watch -s STACK`"
    )
    shown = outputs.write(record)
    assert outputs.size(shown) <= outputs.MAX_BYTES and not shown["detail"].endswith("…")
    assert (shown["endpoints"], shown["ssh"], shown["handles"]) == ([], "", [])
    assert kept(record).search == record.search
    assert [row.cluster for row in world.journal.waiting("rehearsal")] == ["train"]


def test_up_before_its_time_asks_nobody_and_at_its_time_buys_once(lab) -> None:
    """The places' memory says when; nothing is waited for any more then."""
    world, record = created(lab)
    tried = lab.creates
    still = updated(lab, record)
    assert lab.creates == tried and still.search == record.search
    assert 0 < record.search.next_at - lab.clock.now() <= 300
    at(lab, record.search.next_at + 1)
    again = updated(lab, still)
    assert again.status == "waiting" and again.search.rounds == 2
    assert again.search.until == record.search.until and lab.creates > tried
    tried = lab.creates
    sold_out(lab, 1)
    at(lab, again.search.next_at + 1)
    bought = updated(lab, again)
    assert (bought.status, bought.generation, bought.search) == ("running", "g1", None)
    assert len(lab.alive) == 1 and lab.creates == tried + 1
    assert world.journal.waiting("rehearsal") == ()
    assert updated(lab, bought).handles == bought.handles and len(lab.alive) == 1


def test_refresh_keeps_it_and_destroy_leaves_nothing(lab) -> None:
    """A look asks no cloud; what is deleted is not listed any more."""
    world, record = created(lab)
    calls = lab.alpha.calls.copy()
    assert run(operations.read(world, kept(record))) == kept(record)
    assert lab.alpha.calls == calls and lab.said("info: train: waiting: until")
    run(operations.delete(world, kept(record)))
    assert lab.alive == [] and world.journal.waiting("rehearsal") == ()


def test_search_of_a_run_that_no_state_has_goes_on(lab) -> None:
    """An `up` that was killed before its state was written began it; another declaration, and a
    time that is over, begin anew.
    """
    _, first = created(lab)
    at(lab, first.search.since + HOUR_S)
    again = run(operations.create(lab.world(), waits(), "g2"))
    assert (again.search.since, again.search.until) == (first.search.since, first.search.until)
    assert again.search.rounds == 2 and again.search.tries == 6
    other = run(operations.create(lab.world(), waits(asked="d2"), "g3"))
    assert other.search.since > first.search.since and other.search.rounds == 1
    at(lab, other.search.until + 1)
    late = run(operations.create(lab.world(), waits(asked="d2"), "g4"))
    assert late.search.since > other.search.until - 1 and late.search.rounds == 1


@pytest.mark.parametrize(
    "error",
    [
        NotEnabled("not enabled", provider="alpha"),
        QuotaExceeded("no quota", provider="alpha"),
        BadCredentials("refused", provider="alpha"),
        Transient("failed", provider="alpha"),
    ],
)
def test_what_no_capacity_would_change_is_not_waited_for(lab, error) -> None:
    """A declaration, an account and an outage fail as without `acquire`."""
    for cloud in (lab.alpha, lab.beta):
        cloud.fail("submit", type(error)(str(error), provider=cloud.name), times=99)
    with pytest.raises(GpusError):
        run(operations.create(lab.world(), waits(), "g1"))
    assert lab.alive == []


def test_without_acquire_it_fails(lab) -> None:
    """So does what no place could ever serve."""
    sold_out(lab)
    with pytest.raises(AllFailed):
        run(operations.create(lab.world(), wanted(), "g1"))
    with pytest.raises(AllFailed):
        run(operations.create(lab.world(), waits(ask(max_price_micro_usd=1)), "g1"))


def test_search_is_given_up_at_its_end_and_an_edit_looks_anew(lab) -> None:
    """Ten minutes before it everything is asked a last time; afterwards nothing is."""
    _, record = created(lab)
    while record.search.next_at < record.search.until:
        at(lab, record.search.next_at)
        record = updated(lab, record)
    assert record.search.tried_at >= record.search.until - 600
    sold_out(lab, 1)
    at(lab, record.search.until)
    over = updated(lab, record)
    assert condition_of(over) is Condition.GAVE_UP and over.reasons[0].startswith("gave up: looked")
    tried = lab.creates
    assert updated(lab, over).reasons == over.reasons and lab.creates == tried
    assert run(operations.read(lab.world(), kept(over))).status == "gave-up"
    anew = updated(lab, over, waits(asked="d2"))
    assert anew.status == "running" and len(lab.alive) == 1


def test_edit_changes_what_is_looked_for_at_once(lab) -> None:
    """And begins a search of its own."""
    _, record = created(lab)
    sold_out(lab, 1)
    other = updated(lab, record, waits(ask("A100-80GB"), asked="d2"))
    assert (other.status, other.search, other.placement.gpu_type) == ("running", None, "A100-80GB")


def test_lost_answer_while_it_waits_is_settled_first_and_keeps_its_deadline(lab) -> None:
    """Nothing else is bought until it is known; the machine that it made is the cluster's."""
    _, record = created(lab)
    sold_out(lab, 9)
    at(lab, record.search.next_at + 1)
    lab.alpha.fail("submit", OutcomeUnknown("lost", provider="alpha"), after=True)
    for method in ("find", "poll", "observe"):
        lab.alpha.fail(method, Transient("down", provider="alpha"), times=99)
    unsure = updated(lab, record)
    assert (unsure.status, unsure.search) == ("unsettled", record.search) and unsure.reasons
    lab.alpha.heal()
    bought = updated(lab, unsure)
    assert bought.status == "running" and len(lab.alive) == 1
    assert list(bought.handles) == [node.handle for node in lab.alive]


@pytest.mark.parametrize("nodes", [1, 2])
def test_cluster_lost_where_nothing_has_room_waits_too(lab, nodes) -> None:
    """Of several machines the rest goes first, as `on_loss: replace-all` says."""
    world = lab.world()
    want = waits(ask(nodes=nodes))
    record = run(operations.create(world, want, "g1"))
    lab.alpha.preempt(record.handles[-1], remains=True)
    sold_out(lab)
    seen = run(operations.read(world, record))
    after = updated(lab, seen, want)
    assert (after.status, after.reasons, lab.alive) == ("waiting", (), [])
    at(lab, after.search.next_at + 1)
    sold_out(lab, nodes)
    assert updated(lab, after, want).status == "running" and len(lab.alive) == nodes


def test_machine_of_an_earlier_run_is_kept(lab) -> None:
    """A run that was killed while it bought: its machine is the cluster's, and no other is made."""
    _, record = created(lab)
    sold_out(lab, 1)
    at(lab, record.search.next_at + 1)
    bought = updated(lab, record)
    again = updated(lab, record)
    assert again.handles == bought.handles and len(lab.alive) == 1


def test_machine_that_waits_cannot_be_stopped(lab) -> None:
    """The message says that there is none."""
    _, record = created(lab)
    with pytest.raises(GpusError, match="wanted it stopped, found it never acquired"):
        updated(lab, record, waits(setup=PLAIN._replace(state=STOPPED)))
