"""Machines are ordered before their security group is there, and put into it: whatever happens in
between, they end up in it, or are given up.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from providers.errors import HalfMade, NoCapacity, QuotaExceeded, RateLimited, Transient
from providers.model.place import Scope
from providers.rehearsal.clouds.aws import console, places
from tests.unit.aws.rig import REGION, A, B, candidate, order

MODIFY = "ModifyNetworkInterfaceAttribute"


def made(rig) -> Mapping[str, Any]:
    """The one machine there, as EC2 describes it."""
    found: Mapping[str, Any] = rig.boto("describe_instances")["Reservations"][0]["Instances"][0]
    return found


def groups(instance) -> set[str]:
    return {
        group["GroupName"] for each in instance["NetworkInterfaces"] for group in each["Groups"]
    }


def closed_off(rig, ticket) -> list[bool]:
    return [bool(rig.store.closed_off(handle.native_id)) for handle in ticket.handles]


def test_a_refused_order_of_one_pool_is_the_only_call_that_changes_anything(rig) -> None:
    rig.store.set_stock("aws", "", "p5.48xlarge", "", 0)
    for each in (candidate(A), candidate(B), candidate(A, capacity="spot")):
        with pytest.raises(NoCapacity):
            rig.ec2.submit(order(each))
    rig.ec2.launch_ended("own1", "train", [REGION])
    assert [each.method for each in rig.store.mutations()] == ["ec2.RunInstances"] * 3


@pytest.mark.parametrize("pools", [(candidate(A),), (candidate(A), candidate(B))])
def test_a_machine_is_moved_from_the_vpcs_own_group_into_its_owners(rig, pools) -> None:
    """By the first look at it, so before its system is up; ssh reaches it then, and not before."""
    ticket = rig.ec2.submit(order(*pools))
    assert groups(made(rig)) == {"default"}
    assert rig.store.closed_off(f"{REGION}/{made(rig)['InstanceId']}")
    (node,) = rig.ec2.find("own1")
    assert "not in its security group" in node.detail or node.status != "running"
    ticket = rig.ec2.poll(ticket)
    assert groups(made(rig)) == {"gpus-own1"}
    assert closed_off(rig, rig.finish(ticket)) == [False] and rig.count(MODIFY) == 1


def test_every_interface_of_machines_with_efa_is_moved(rig) -> None:
    ticket = rig.launched(candidate(A, nodes=2), nodes=2)
    found = rig.boto("describe_instances")["Reservations"]
    assert [groups(each["Instances"][0]) for each in found] == [{"gpus-own1"}] * 2
    assert closed_off(rig, ticket) == [False, False]
    assert rig.count(MODIFY) == sum(
        len(each["Instances"][0]["NetworkInterfaces"]) for each in found
    )


def test_a_group_that_is_there_is_named_in_the_order(rig) -> None:
    rig.launched(candidate(A))
    later = rig.adapter()
    rig.done(later, later.submit(order(candidate(B), generation="gen2")))
    assert (rig.count(MODIFY), rig.count("CreateSecurityGroup")) == (1, 1)


def test_an_order_that_is_sent_again_says_the_same(rig) -> None:
    """Another cluster's launch made the group in between, and its end has what is kept looked up
    again: EC2 takes one token for one request.
    """
    wanted = order(candidate(A))
    first = rig.ec2.submit(wanted)
    other = rig.launched(candidate(B), cluster="other").handles
    assert dict(rig.ec2.submit(wanted).native) == dict(first.native)
    rig.ec2.delete(other[0])
    rig.moment += 60
    rig.ec2.observe(other)
    assert dict(rig.ec2.submit(wanted).native) == dict(first.native)


@pytest.mark.parametrize("by", ["token", "tags"])
def test_a_machine_that_a_killed_run_left_outside_is_put_into_its_group(rig, by) -> None:
    """The next run finds it by its order's token, or without a journal by its tags, and takes it
    over.
    """
    wanted = order(candidate(A))
    ticket = rig.ec2.submit(wanted)
    rig.moment += 60
    later = rig.adapter()
    (node,) = later.find("own1", "train")
    assert "not in its security group" in node.detail
    if by == "token":
        assert rig.done(later, later.resume(wanted)).handles == (node.handle,)
    else:
        later.relabel(node.handle, "gen2")
    (node,) = later.find("own1", "train")
    assert groups(made(rig)) == {"gpus-own1"} and node.detail == "running"
    assert rig.count("RunInstances") == 1
    assert ticket.state == "waiting"


def test_a_machine_outside_is_deleted_like_any_other(rig) -> None:
    rig.ec2.submit(order(candidate(A)))
    rig.moment += 60
    (node,) = rig.ec2.find("own1")
    rig.ec2.delete(node.handle)
    rig.moment += 60
    rig.ec2.observe([node.handle])
    rig.ec2.launch_ended("own1", "train", [REGION])
    assert rig.left() == ([], [], [], [])


@pytest.mark.parametrize("kind", ["unavailable", "rate-limit", "reply-lost"])
@pytest.mark.parametrize("call", [MODIFY, "CreateSecurityGroup", "AuthorizeSecurityGroupIngress"])
def test_a_passing_fault_is_tried_again_with_the_next_look(rig, call, kind) -> None:
    ticket = rig.ec2.submit(order(candidate(A)))
    rig.store.add_fault("aws", f"ec2.{call}", kind)
    with pytest.raises((Transient, RateLimited)):
        rig.ec2.poll(ticket)
    ticket = rig.finish(ticket)
    assert groups(made(rig)) == {"gpus-own1"} and closed_off(rig, ticket) == [False]


def test_a_group_that_was_tidied_away_before_a_machine_was_in_it_is_made_again(rig) -> None:
    ticket = rig.ec2.submit(order(candidate(A)))
    rig.store.add_fault("aws", f"ec2.{MODIFY}", "unavailable")
    with pytest.raises(Transient):
        rig.ec2.poll(ticket)
    (group,) = rig.left()[3]
    rig.boto("delete_security_group", GroupId=group["GroupId"])
    with pytest.raises(Transient, match="made again"):
        rig.ec2.poll(ticket)
    assert closed_off(rig, rig.finish(ticket)) == [False]


def test_without_the_right_to_move_it_a_machine_is_given_up_and_ec2_with_it(rig) -> None:
    """Each further place would cost a minute of a machine, for the same answer."""
    ticket = rig.ec2.submit(order(candidate(A)))
    rig.store.add_fault("aws", f"ec2.{MODIFY}", "forbidden", times=None)
    with pytest.raises(HalfMade, match=r"allow ec2:.*ModifyNetworkInterfaceAttribute") as caught:
        rig.ec2.poll(ticket)
    (handle,) = caught.value.handles
    assert handle.native_id == f"{REGION}/{made(rig)['InstanceId']}"
    assert caught.value.scopes == (Scope("aws"),)


def test_an_account_without_room_for_a_group_is_told_so(rig) -> None:
    ticket = rig.ec2.submit(order(candidate(A)))
    code = "SecurityGroupLimitExceeded"
    rig.store.add_fault("aws", "ec2.CreateSecurityGroup", "http", status=400, reason=code)
    with pytest.raises(QuotaExceeded, match=r"options\.aws\.security_group") as caught:
        rig.ec2.poll(ticket)
    assert caught.value.scopes == (Scope("aws", REGION),)


def test_what_goes_into_a_subnet_of_the_users_is_ordered_into_its_group(rig) -> None:
    """The VPC may be another account's, which shares it: its default group is nobody else's."""
    subnets = {A: places.default_subnet(A)}
    rig.ec2.submit(order(candidate(A), options=(("subnets", subnets),)))
    assert groups(made(rig)) == {"gpus-own1"}


def test_a_machine_that_was_put_into_another_group_since_stays_there(rig) -> None:
    """Whoever did that lets in whom he wants."""
    (handle,) = rig.launched(candidate(A)).handles
    (interface,) = made(rig)["NetworkInterfaces"]
    mine = rig.boto("create_security_group", GroupName="mine", Description="-")["GroupId"]
    rig.boto(
        "modify_network_interface_attribute",
        NetworkInterfaceId=interface["NetworkInterfaceId"],
        Groups=[mine],
    )
    (node,) = rig.ec2.observe([handle])
    assert (node.closed, node.detail) == ("", "running")
    rig.ec2.relabel(handle, "gen2")
    assert groups(made(rig)) == {"mine"}


def test_a_group_of_ones_own_is_left_as_it_is(rig) -> None:
    ticket = rig.launched(candidate(A), options=(("security_group", places.made_up("sg", REGION)),))
    rig.ec2.relabel(ticket.handles[0], "gen2")
    assert groups(made(rig)) == {"default"} and rig.count(MODIFY) == 0
    assert len(console.running(rig.store)) == 1
