"""Deleting at EC2 leaves nothing: spot requests, groups, and what a dead run left."""

from typing import Any

import pytest

from providers.errors import NoCapacity, Transient
from providers.model.machine import Handle
from providers.rehearsal.clouds.aws import console, instances
from providers.rehearsal.clouds.aws.launch import again
from tests.unit.aws.rig import REGION, B, candidate, order

NOTHING: tuple[list[Any], ...] = ([], [], [], [])


def test_delete_leaves_nothing(rig) -> None:
    """After the last machine is seen gone, template, placement group and security group are gone
    too; deleting again is success.
    """
    first = rig.launched(candidate(nodes=2), nodes=2)
    second = rig.launched(candidate(B), generation="gen2")
    for handle in first.handles:
        rig.ec2.delete(handle)
    assert {"stopping"} == {node.status for node in rig.ec2.observe(first.handles)}
    rig.moment += 2
    assert {"gone"} == {node.status for node in rig.ec2.observe(first.handles)}
    assert rig.left()[2] == [] and len(rig.left()[3]) == 1, (
        "the owner's other machine still uses the security group"
    )
    rig.ec2.delete(second.handles[0])
    rig.moment += 2
    assert rig.ec2.observe(second.handles)[0].status == "gone" and rig.left() == NOTHING
    calls_before = rig.count("TerminateInstances")
    rig.ec2.delete(second.handles[0])
    rig.ec2.delete(Handle("aws", f"{REGION}/i-0123456789abcdef0"))
    assert calls_before == rig.count("TerminateInstances")


def test_b36_a_persistent_request_is_cancelled_first(rig) -> None:
    """A Spot machine under a persistent request: the request is cancelled before the machine ends,
    and none is left under it.
    """
    ticket = rig.launched(candidate(capacity="spot"))
    with rig.rows() as rows:
        (request,) = rows.things(REGION, "spot-request")
        rows.write_thing({**request, "type": "persistent"})
    rig.ec2.delete(ticket.handles[0])
    methods = [
        request.method
        for request in rig.store.requests("ec2.*")
        if request.method.startswith(("ec2.Cancel", "ec2.Terminate"))
    ]
    assert methods == ["ec2.CancelSpotInstanceRequests", "ec2.TerminateInstances"]
    rig.moment += 2
    assert rig.ec2.observe(ticket.handles)[0].status == "gone" and rig.left() == NOTHING


def test_b36_a_machine_that_a_request_started_by_itself_is_ended_too(rig) -> None:
    """Ended behind our back, a persistent request starts a new, unlabelled machine: deleting ends
    that one before the first counts as gone.
    """
    ticket = rig.launched(candidate(capacity="spot"))
    with rig.rows() as rows:
        (request,) = rows.things(REGION, "spot-request")
        rows.write_thing({**request, "type": "persistent"})
        (machine,) = rows.instances()
        again(rows, machine)
    assert len(rig.left()[0]) == 2
    rig.ec2.delete(ticket.handles[0])
    rig.moment += 2
    assert rig.ec2.observe(ticket.handles)[0].status == "gone" and rig.left() == NOTHING


def test_b36_a_stopped_machine_under_a_persistent_request_leaves_none(rig) -> None:
    """Stopped, its request is disabled: that is cancelled first all the same, then the machine
    ends, and none is left under it.
    """
    ticket = rig.launched(candidate(capacity="spot"))
    with rig.rows() as rows:
        (request,) = rows.things(REGION, "spot-request")
        rows.write_thing({**request, "type": "persistent"})
    rig.ec2.update(ticket.handles[0], {"state": "stopped"})
    assert [
        item["State"]
        for item in rig.boto("describe_spot_instance_requests")["SpotInstanceRequests"]
    ] == ["disabled"]
    rig.ec2.delete(ticket.handles[0])
    methods = [
        request.method
        for request in rig.store.requests("ec2.*")
        if request.method.startswith(("ec2.Cancel", "ec2.Terminate"))
    ]
    assert methods == ["ec2.CancelSpotInstanceRequests", "ec2.TerminateInstances"]
    rig.moment += 2
    assert rig.ec2.observe(ticket.handles)[0].status == "gone" and rig.left() == NOTHING
    assert [
        item["State"]
        for item in rig.boto("describe_spot_instance_requests")["SpotInstanceRequests"]
    ] == ["cancelled"]


def test_b36_a_machine_that_ended_by_itself_leaves_none_either(rig) -> None:
    """Taken back under a persistent request, which started another, unlabelled one: deleting the
    one that is gone ends the other.
    """
    ticket = rig.launched(candidate(capacity="spot"))
    with rig.rows() as rows:
        (request,) = rows.things(REGION, "spot-request")
        rows.write_thing({**request, "type": "persistent"})
        instances.preempt(rows, rows.instances()[0])
    rig.moment += 2
    assert rig.ec2.observe(ticket.handles)[0].status == "gone" and len(rig.left()[0]) == 1
    rig.ec2.delete(ticket.handles[0])
    assert rig.ec2.observe(ticket.handles)[0].status == "stopping"
    rig.moment += 2
    assert rig.ec2.observe(ticket.handles)[0].status == "gone" and rig.left() == NOTHING


def test_the_stand_in_starts_another_machine_if_nobody_cancels(rig) -> None:
    """B36 as reported: terminating alone leaves a new, untagged machine behind."""
    ticket = rig.launched(candidate(capacity="spot"))
    with rig.rows() as rows:
        (request,) = rows.things(REGION, "spot-request")
        rows.write_thing({**request, "type": "persistent"})
    rig.boto("terminate_instances", InstanceIds=[ticket.handles[0].native_id.split("/")[1]])
    rig.moment += 2
    assert [machine.labels for machine in console.running(rig.store)] == [{}]


def test_what_a_dead_run_left_is_tidied_by_a_search_for_its_owner(rig) -> None:
    """A template, or a group, without any machine goes when everything of the owner is looked for,
    but not what a launch of this process still uses.
    """
    rig.store.set_stock("aws", "", "p5.48xlarge", "", 0)
    with pytest.raises(NoCapacity):
        rig.ec2.submit(order(candidate(), candidate(B)))
    assert rig.ec2.find("own1") == [] and [len(each) for each in rig.left()] == [0, 1, 0, 0]
    assert rig.adapter().find("own1") == [] and rig.left() == NOTHING
    with pytest.raises(NoCapacity):
        rig.ec2.submit(order(candidate(), candidate(B), disk_gib=300))
    rig.ec2.launch_ended("own1", "train", [REGION])
    assert rig.left() == NOTHING
    owner = [{"Key": "gpus-owner", "Value": "own1"}]
    rig.boto(
        "create_security_group",
        GroupName="gpus-own1",
        Description="left by a run that was killed",
        TagSpecifications=[{"ResourceType": "security-group", "Tags": owner}],
    )
    rig.boto(
        "create_launch_template",
        LaunchTemplateName="left",
        LaunchTemplateData={"InstanceType": "g6.xlarge"},
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": owner}],
    )
    rig.ec2.find("own2")
    rig.ec2.find("own1", "train")
    assert 1 == len(rig.left()[1]) == len(rig.left()[3])
    assert rig.ec2.find("own1") == [] and rig.left() == NOTHING


def test_a_group_that_was_tidied_away_in_between_is_a_passing_fault(rig, monkeypatch) -> None:
    """Another run of the same owner deletes the group between the look at it and the launch:
    Transient, and the next try does without.
    """
    (last,) = rig.launched(candidate(B), cluster="other").handles
    rig.boto("terminate_instances", InstanceIds=[last.native_id.partition("/")[2]])
    rig.moment += 60
    from providers.adapters.aws.surroundings import Surroundings

    make = Surroundings.around

    def gone_again(self, *given):
        found = make(self, *given)
        rig.boto("delete_security_group", GroupId=found.groups[0])
        monkeypatch.setattr(Surroundings, "around", make)
        return found

    monkeypatch.setattr(Surroundings, "around", gone_again)
    wanted = order(candidate(), candidate(B))
    with pytest.raises(Transient, match="made again"):
        rig.ec2.submit(wanted)
    assert rig.ec2.resume(wanted) is None and rig.finish(rig.ec2.submit(wanted))
