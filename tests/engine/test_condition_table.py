"""The condition table: every condition has its row, every observation its condition."""

from itertools import combinations_with_replacement, product

import pytest

from providers.engine.reconcile.condition import (
    NOTHING_YET,
    Condition,
    classify,
    condition_of,
)
from providers.engine.reconcile.observe import Observation
from providers.engine.reconcile.on_preview import DiffCase, PreviewCase, kept
from providers.engine.reconcile.status import REPLACE_ALL, REPLACE_NODE, REPORT
from providers.engine.reconcile.steps import STEPS
from providers.engine.record import DEGRADED, GAVE_UP, UNSETTLED, WAITING, ClusterRecord
from providers.model.machine import (
    DRIFTED,
    ENDED,
    FAILED,
    GONE,
    PENDING,
    PREEMPTED,
    QUEUED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    Handle,
    Label,
    Node,
)
from providers.model.placement import Placement, Price

STATUSES = (
    *(PENDING, QUEUED, STARTING, RUNNING, STOPPING, STOPPED, ENDED, FAILED, PREEMPTED, GONE),
    DRIFTED,
)
KINDS = ("machine", "job", "service")
POLICIES = (REPLACE_ALL, REPLACE_NODE, REPORT)
HELD_STOPPED = (("state", "digest"),)
C = Condition


def record(nodes=1, kind="machine", status=RUNNING, **more):
    handles = tuple(Handle("alpha", f"r/{index}") for index in range(nodes))
    where = Placement("alpha", "r", "r-a", "m", "H100", 8, nodes, "spot")
    made = ClusterRecord(
        *("rehearsal", "o", "train", "g", "f", status, where, Price(10_000_000), handles), kind=kind
    )
    return made._replace(**more)


def node(status, index=0, kind="machine", **more):
    return Node(
        Handle("alpha", f"r/{index}"),
        name=f"train-{index}",
        status=status,
        label=Label("o", "train", "g", "f"),
        region="r",
        zone="r-a",
        machine_type="m",
        gpu_type="H100",
        gpu_count=8,
        capacity="spot",
        kind=kind,
        **more,
    )


def observed(*statuses, kind="machine", **more):
    nodes = tuple(node(status, index, kind) for index, status in enumerate(statuses))
    return Observation(nodes=nodes, **more)


def test_every_condition_has_exactly_one_row() -> None:
    assert list(STEPS) == list(Condition)


@pytest.mark.parametrize(
    ("status", "condition"),
    [
        (PENDING, C.HEALTHY),
        (STARTING, C.HEALTHY),
        (RUNNING, C.HEALTHY),
        (QUEUED, C.QUEUED),
        (STOPPING, C.STOPPING),
        (STOPPED, C.HALTED),
        (ENDED, C.ENDED),
        (FAILED, C.FAILED),
        (PREEMPTED, C.PREEMPTED),
        (GONE, C.GONE),
    ],
)
def test_one_machine_gives_its_cluster_the_condition(status, condition) -> None:
    assert classify(record(), observed(status), 0.0).condition is condition


@pytest.mark.parametrize("status", [STOPPED, STOPPING, PREEMPTED, ENDED, FAILED])
def test_machine_stopped_by_declaration_is_stopped_whatever_its_cloud_calls_it(status) -> None:
    after = classify(record(applied=HELD_STOPPED), observed(status), 0.0)
    assert after.condition is C.STOPPED


@pytest.mark.parametrize(
    ("statuses", "kind", "condition"),
    [
        ((RUNNING, RUNNING), "machine", C.HEALTHY),
        ((RUNNING, PENDING), "machine", C.HEALTHY),
        ((RUNNING, QUEUED), "machine", C.QUEUED),
        ((RUNNING, PREEMPTED), "machine", C.DEGRADED),
        ((RUNNING, GONE), "machine", C.DEGRADED),
        ((RUNNING, ENDED), "machine", C.DEGRADED),
        ((RUNNING, ENDED), "job", C.HEALTHY),
        ((ENDED, ENDED), "job", C.DONE),
        ((ENDED, FAILED), "job", C.DONE),
        ((ENDED, FAILED), "machine", C.ENDED),
        ((PREEMPTED, ENDED), "machine", C.PREEMPTED),
        ((GONE, GONE), "machine", C.GONE),
        ((GONE, STOPPED), "machine", C.HALTED),
    ],
)
def test_several_machines_give_one_condition(statuses, kind, condition) -> None:
    given = record(len(statuses), kind)
    assert classify(given, observed(*statuses, kind=kind), 0.0).condition is condition


def test_what_was_bought_and_changed_is_drift_and_a_changed_service_is_outdated() -> None:
    smaller = Observation(nodes=(node(RUNNING)._replace(gpu_count=4),))
    assert classify(record(), smaller, 0.0).condition is C.DRIFTED
    other = Observation(nodes=(node(RUNNING, kind="service", drift="region is any"),))
    assert classify(record(kind="service"), other, 0.0).condition is C.OUTDATED


@pytest.mark.parametrize("status", [PREEMPTED, FAILED, STOPPING, GONE])
def test_lost_cluster_that_an_interrupted_run_placed_anew_has_moved(status) -> None:
    """Its record stands at the new machine; what remains of the previous one must go."""
    there = node(RUNNING, 7)._replace(zone="r-b")
    after = classify(record(), observed(status, extra=(there,)), 0.0)
    assert (after.condition, after.record.placement.zone) == (C.MOVED, "r-b")
    remains = [] if status == GONE else [Handle("alpha", "r/0")]
    assert [left.handle for left in after.orphans] == remains


@pytest.mark.parametrize("status", [RUNNING, QUEUED, STOPPED, ENDED])
def test_cluster_that_is_not_lost_stays_and_the_other_machine_is_an_orphan(status) -> None:
    there = node(RUNNING, 7)._replace(zone="r-b")
    after = classify(record(), observed(status, extra=(there,)), 0.0)
    assert after.condition is not C.MOVED and after.record.placement.zone == "r-a"
    assert after.orphans == (there,)


def test_record_that_names_nothing_keeps_its_condition_until_an_update_settles_it() -> None:
    empty = Observation(complete=False)
    found = [
        classify(record(handles=(), status=status), empty, 0.0).condition
        for status in (QUEUED, UNSETTLED, GONE)
    ]
    assert found == [C.QUEUED, C.UNSETTLED, C.GONE]


def _observations():
    """Every combination of up to two machines, kind, policy, power, previous status, and what is
    left besides.
    """
    shapes = [
        statuses for size in (0, 1, 2) for statuses in combinations_with_replacement(STATUSES, size)
    ]
    previous = (RUNNING, ENDED, FAILED, DEGRADED, UNSETTLED, WAITING, GAVE_UP)
    left = ((), (Handle("alpha", "r/9"),))
    beside = ((), (node(RUNNING, 7),), (node(PREEMPTED, 8),))
    for statuses, kind, policy, applied, status, leftovers, extra in product(
        shapes, KINDS, POLICIES, ((), HELD_STOPPED), previous, left, beside
    ):
        given = record(max(1, len(statuses)), kind, status, applied=applied, leftovers=leftovers)
        given = given._replace(reasons=("half-made: it could not be deleted",) if leftovers else ())
        yield (
            given,
            observed(*statuses, kind=kind, leftovers=leftovers, extra=extra),
            policy,
        )


def test_every_observation_has_a_condition_and_its_record_shows_it() -> None:
    """Whatever is observed, one row follows; the record of it shows the same condition later, to a
    preview. Nothing of what must go is forgotten.
    """
    found = set()
    for given, observation, policy in _observations():
        after = classify(given, observation, 0.0, policy)
        found.add(after.condition)
        assert after.condition in STEPS
        if after.condition is not C.MOVED:
            assert condition_of(after.record) is after.condition, (given, observation)
            assert set(observation.extra) <= {*after.orphans}
        if after.condition is C.DEGRADED:
            assert bool(after.record.reasons) is (policy != REPORT or bool(given.leftovers))
        if after.condition in (C.GONE, C.UNSETTLED):
            assert all(one.status == GONE for one in observation.nodes)
    assert found == set(Condition) - {C.DRIFTED, C.OUTDATED}


def test_preview_has_words_for_each_condition_that_a_record_shows() -> None:
    """Also where a price is not known, of each kind and policy."""
    for condition, step in STEPS.items():
        for kind, policy, new, now in product(
            KINDS, POLICIES, (None, 5_000_000), (None, 7_000_000)
        ):
            status = {C.DONE: ENDED, C.HALTED: STOPPED, C.MOVED: RUNNING}.get(condition, condition)
            given = record(
                2, kind, str(status), price=Price(now), detail="1 of 2 machines are left"
            )
            case = PreviewCase(given, new, policy)
            for text in (step.preview(case), step.replaced(case)):
                assert (
                    (text and "alpha" in text)
                    or "`gpus rerun" in text
                    or "beside the rest" in text
                    or condition in NOTHING_YET
                )


@pytest.mark.parametrize(
    "condition", [C.OUTDATED, C.GONE, C.UNSETTLED, C.DEGRADED, C.PREEMPTED, C.FAILED, C.HALTED]
)
def test_a_preview_of_what_an_up_acts_on_is_no_no_change(condition) -> None:
    """Where the refresh has left something to be done, what is done stands there, and why."""
    status = {C.HALTED: STOPPED, C.OUTDATED: RUNNING}.get(condition, condition)
    given = record(2, status=str(status), reasons=("one of them is left",), detail="lost one")
    said = STEPS[condition].preview(PreviewCase(given, 5_000_000))
    assert not kept(said) and "alpha" in said
    if condition in (C.OUTDATED, C.GONE, C.UNSETTLED):
        assert "one of them is left" in said
    if condition in (C.GONE, C.UNSETTLED):
        assert "RELEASES" in said and "$5.00/h" in said
        stopped = STEPS[condition].preview(PreviewCase(given, 5_000_000, stops=True))
        assert stopped.startswith("fails: ")


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
def test_diff_replaces_only_what_was_taken_back_or_no_longer_serves(policy, stops) -> None:
    changed = record(bought=(("gpu_count", 8),), detail="gpu_count: 8 -> 4").with_terms(
        {"gpu_count": 4}
    )

    def replaces(condition, given, serves):
        return STEPS[condition].replaces(DiffCase(given, policy, stops, lambda: serves)).replaces

    assert replaces(C.PREEMPTED, record(), True)
    assert replaces(C.DRIFTED, changed, False) is (policy != REPORT and not stops)
    assert not replaces(C.DRIFTED, changed, True)
    rest = set(Condition) - {C.PREEMPTED, C.DRIFTED}
    assert not [condition for condition in rest if replaces(condition, record(), False)]
