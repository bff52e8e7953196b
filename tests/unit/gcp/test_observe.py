"""What the Google Cloud adapter observes: running, stopped, preempted, gone by Google's word only."""

import pytest

from providers.errors import BadCredentials, Transient
from providers.model.machine import Handle
from tests.unit.gcp.rig import A, B, candidate


def test_b29_gone_only_on_google_s_own_word(rig) -> None:
    """404 is gone; 403 and a lost connection raise and never read as gone."""
    ticket = rig.launched()
    assert rig.status(Handle("gcp", f"projects/rehearsal/zones/{A}/instances/nothing")) == "gone"
    rig.store.add_fault("gcp", "instances.get", "forbidden", times=1)
    with pytest.raises(BadCredentials):
        rig.gcp.observe(ticket.handles)
    rig.store.add_fault("gcp", "instances.get", "reply-lost", times=1)
    with pytest.raises(Transient):
        rig.gcp.observe(ticket.handles)
    assert rig.status(ticket.handles[0]) == "running"


def test_b29_a_preempted_machine_is_told(rig) -> None:
    """Taken back and stopped: preempted. Taken back and deleted: gone, and the detail says why."""
    from providers.rehearsal.clouds.gcp import console

    kept = rig.launched(
        candidate(A, "g2-standard-4", capacity="spot"), on_ttl="keep", generation="kept"
    ).handles[0]
    released = rig.launched(
        candidate(A, "g2-standard-4", capacity="spot"), generation="released"
    ).handles[0]
    for handle in (kept, released):
        assert console.preempt(rig.store, handle.native_id.rsplit("/", 1)[-1]) == 1
    assert [node.status for node in rig.gcp.observe([kept, released])] == ["preempted", "preempted"]
    rig.moment += 120
    nodes = rig.gcp.observe([kept, released])
    assert [(node.status, node.detail) for node in nodes] == [
        ("preempted", "TERMINATED"),
        ("gone", "preempted and deleted"),
    ]


def test_b34_the_end_of_the_run_limit_is_told_from_a_stop(rig) -> None:
    """Stopped by its run limit: ended. Deleted by it: gone, and the detail says why."""
    kept = rig.launched(candidate(A, "g2-standard-4"), ttl_s=3600, on_ttl="keep", generation="kept")
    released = rig.launched(candidate(A, "g2-standard-4"), ttl_s=3600, generation="released")
    rig.moment += 4000
    assert rig.status(kept.handles[0]) == "ended"
    node = rig.gcp.observe(released.handles)[0]
    assert (node.status, node.detail) == ("gone", "ended by its run limit and deleted")


def test_a_stop_by_somebody_is_stopped(rig) -> None:
    """A Spot machine that a user stopped is not called preempted."""
    ticket = rig.launched(candidate(A, "g2-standard-4", capacity="spot"))
    project, zone, name = ticket.handles[0].native_id.split("/")[1::2]
    rig.gcp.client.call(
        lambda s: s.instances().stop(project=project, zone=zone, instance=name),
        rig.gcp.context(ticket.order),
    )
    rig.moment += 30
    assert rig.status(ticket.handles[0]) == "stopped"


def test_find_pages_through_everything_and_narrows(rig) -> None:
    """All machines of an owner, over zones and pages, and only those; narrowed by cluster and
    generation.
    """
    rig.launched(candidate(A, "g2-standard-4"), nodes=3, generation="g1")
    rig.launched(candidate("us-east1-c", "g2-standard-4"), generation="g2", cluster="serve")
    rig.launched(candidate(A, "g2-standard-4"), generation="g3", owner="own2")
    assert len(rig.gcp.find("own1")) == 4
    assert len(rig.gcp.find("own1", "serve")) == 1
    assert len(rig.gcp.find("own1", "train", "g1")) == 3
    assert list(rig.gcp.find("own1", "train", "g2")) == []


def test_find_follows_every_page(rig) -> None:
    """Pages are followed by their token to the end."""
    page = {"items": {f"zones/{A}": {"instances": [instance("m1")]}}, "nextPageToken": "more"}
    last = {
        "items": {
            f"zones/{A}": {"warning": {"code": "NO_RESULTS_ON_PAGE"}},
            f"zones/{B}": {"instances": [instance("m2")]},
        }
    }
    rig.gcp.client = Scripted([page, last])
    assert [node.name for node in rig.gcp.find("own1")] == ["m1", "m2"]


def test_a_zone_that_google_cannot_reach_is_no_absence(rig) -> None:
    """A partial answer raises: what is not seen is not taken for gone."""
    rig.gcp.client = Scripted([{"items": {f"zones/{A}": {"warning": {"code": "UNREACHABLE"}}}}])
    with pytest.raises(Transient, match=A):
        rig.gcp.find("own1")


def instance(name, **rest):
    link = f"https://www.googleapis.com/compute/v1/projects/rehearsal/zones/{A}/instances/{name}"
    return {
        "name": name,
        "selfLink": link,
        "zone": f"projects/rehearsal/zones/{A}",
        "status": "RUNNING",
        "machineType": "g2-standard-4",
        **rest,
    }


class Scripted:
    """A client that answers from a list of pages."""

    project = "rehearsal"

    def __init__(self, answers) -> None:
        self.answers = list(answers)

    def pages(self, make, context):
        while self.answers:
            yield self.answers.pop(0)


def test_many_machines_are_seen_by_list(rig) -> None:
    """Ten nodes of one zone are seen in one list, in the handles' order; one that is not in it is
    asked for.
    """
    ticket = rig.launched(candidate(A, "g2-standard-4"), nodes=10)
    missing = Handle("gcp", f"projects/rehearsal/zones/{A}/instances/none")
    before = rig.calls("instances.get")
    nodes = rig.gcp.observe([*ticket.handles, missing])
    assert [*["running"] * 10, "gone"] == [node.status for node in nodes]
    assert rig.calls("instances.get") - before == 1


@pytest.mark.parametrize(
    ("status", "operations", "expected"),
    [
        ("PENDING", [], "queued"),
        ("PROVISIONING", [], "pending"),
        ("STAGING", [], "starting"),
        ("RUNNING", [], "running"),
        ("REPAIRING", [], "starting"),
        ("STOPPING", ["compute.instances.preempted"], "preempted"),
        ("TERMINATED", ["compute.instances.preempted"], "preempted"),
        ("TERMINATED", ["compute.instances.deferredStop"], "ended"),
        ("TERMINATED", ["stop"], "stopped"),
        ("TERMINATED", ["compute.instances.guestTerminate"], "stopped"),
        ("STOPPING", ["delete"], "stopping"),
        ("TERMINATED", [], "preempted"),
        ("STOPPING", [], "preempted"),
        ("SUSPENDED", [], "stopped"),
    ],
)
def test_b29_what_a_spot_machine_s_status_means(status, operations, expected) -> None:
    """Preempted, ended, stopped and stopping are told apart by the operation; Spot without one was
    preempted.
    """
    from providers.adapters.gcp import nodes

    seen = instance("m", status=status, id="7", scheduling={"provisioningModel": "SPOT"})
    listed = [
        {"operationType": kind, "targetLink": seen["selfLink"], "targetId": "7"}
        for kind in operations
    ]
    told = nodes.why(listed, "m", seen) if status in nodes.LEAVING else ""
    assert expected == nodes.node(nodes.handle(seen), seen, told).status


def test_a_run_limit_is_seen_without_operations() -> None:
    """A machine that stopped when its run limit was over ended by it, even when the operations are
    forgotten.
    """
    from providers.adapters.gcp import nodes

    times = {
        "lastStartTimestamp": "2026-11-27T10:00:00.000-08:00",
        "lastStopTimestamp": "2026-11-27T11:00:05.000-08:00",
    }
    on_demand = instance(
        "m", status="TERMINATED", scheduling={"maxRunDuration": {"seconds": "3600"}}, **times
    )
    assert nodes.why([], "m", on_demand) == "ended"
    assert nodes.why([], "m", {**on_demand, "scheduling": {}}) == "stopped"
