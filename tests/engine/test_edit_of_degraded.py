"""Another workload is declared for a cluster of which a machine is lost, with `on_loss: report`."""

import pytest

from providers import errors
from tests.engine.test_workloads import SERVICE

NEW = {"command": "python3 other.py"}
JOB_OF_TWO = {
    "kind": "job",
    "nodes": 2,
    "spot": "only",
    "on_loss": "report",
    "workload": {"command": "python3 train.py"},
}
TWO_REPLICAS = {**SERVICE, "replicas": 2, "spot": "only", "on_loss": "report"}


def degraded(lab, spec):
    """The record of two machines of which the second is lost."""
    record = lab.create(lab.wanted(spec))
    from providers.rehearsal.clouds.gcp import console

    assert console.preempt(lab.store, record.machines[1].name) == 1
    seen = lab.read(record, "report")
    assert seen.status == "degraded" and seen.reasons == ()
    return seen


def test_a_workload_over_machines_of_which_one_is_lost_is_not_noted_as_started(rig) -> None:
    """The edit is refused with what to do, so the next `up` has it again; labels alone pass."""
    lab = rig("gcp")
    seen = degraded(lab, JOB_OF_TWO)
    edited = lab.wanted({**JOB_OF_TWO, "workload": NEW})
    with pytest.raises(errors.GpusError, match=r"1 of 2 machines are left.*no edit was applied"):
        lab.update(seen, edited)
    assert not any("restarted" in text for text in lab.said)
    labelled = lab.update(seen, lab.wanted({**JOB_OF_TWO, "labels": {"team": "x"}}))
    assert dict(labelled.applied)["work"] == dict(seen.applied)["work"]


def test_the_replicas_that_are_left_get_another_workload(rig) -> None:
    """Each serves by itself: what was lost is no reason to leave the others as they are."""
    lab = rig("gcp")
    seen = degraded(lab, TWO_REPLICAS)
    workload = {**TWO_REPLICAS["workload"], "dtype": "fp16"}
    after = lab.update(seen, lab.wanted({**TWO_REPLICAS, "workload": workload}))
    assert (after.status, after.reasons) == ("degraded", ())
    assert dict(after.applied)["work"] != dict(seen.applied)["work"]
    assert any("1 of 1 replicas are restarted" in text for text in lab.said)
