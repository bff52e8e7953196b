"""The EC2 adapter launches machines: as ordered, once, and found again after a lost answer."""

import uuid

import pytest

from providers.adapters.aws import machines
from providers.errors import (
    HalfMade,
    NoCapacity,
    NotConfigured,
    OutcomeUnknown,
    QuotaExceeded,
    Unsupported,
)
from providers.model.machine import Label
from providers.rehearsal.clouds.aws import capacity_calls, console, places
from tests.unit.aws.rig import REGION, A, B, E, candidate, order

# Getting machines


@pytest.mark.parametrize(
    ("machine_type", "zone", "capacity"),
    [
        ("p5.48xlarge", A, "on-demand"),
        ("p5.48xlarge", B, "spot"),
        ("g6.xlarge", A, "on-demand"),
        ("g5g.xlarge", A, "spot"),
        ("p4d.24xlarge", A, "on-demand"),
    ],
)
def test_a_machine_is_had_as_ordered(rig, machine_type, zone, capacity) -> None:
    """Made by one call, running, and seen as what was ordered: type, GPUs, zone id, way of buying,
    label.
    """
    ticket = rig.launched(candidate(zone, machine_type, capacity), labels=(("team", "x"),))
    (node,) = rig.ec2.observe(ticket.handles)
    gpu, count = machines.gpus_of(machine_type)
    assert (machine_type, gpu, count, capacity, "running", zone, REGION) == (
        *(
            node.machine_type,
            node.gpu_type,
            node.gpu_count,
            node.capacity,
            node.status,
            node.zone,
            node.region,
        ),
    )
    assert (Label("own1", "train", "gen1", "0123456789abcdef"), "train-gen1-0") == (
        node.label,
        node.name,
    )
    assert (
        node.internal_ip
        and node.external_ip
        and node.created_at == pytest.approx(1_800_000_000, abs=2)
    )
    assert (
        candidate(zone, machine_type, capacity) == ticket.placed
        and rig.count("CreateFleet") == 0
        and rig.count("RunInstances") == 1
    )


def test_one_fleet_serves_a_regions_run_in_the_plans_order(rig) -> None:
    """The first pool that has it is taken, in one creating call; the one that was acquired is told, not
    the first one.
    """
    rig.store.set_stock("aws", A, "p5.48xlarge", "on-demand", 0)
    wanted = order(candidate(A), candidate(B), candidate(A, "p4d.24xlarge"))
    assert rig.ec2.group(wanted.candidates) == 3
    ticket = rig.finish(rig.ec2.submit(wanted))
    assert (
        ticket.placed.zone,
        ticket.placed.machine_type,
    ) == (B, "p5.48xlarge") and rig.count("CreateFleet") == 1


def test_one_type_in_every_zone_of_a_region_is_one_run_without_a_zone(rig) -> None:
    """EC2 takes the zone that has one; refused, it speaks of all of them. Nothing stands beside it.
    The zone that was acquired is told. Without a zone of the region, or where EC2 does not tell in
    which ones the type is, it is a fleet.
    """
    zones = [zone for zone in places.names(REGION).values() if places.has(zone, "p5.48xlarge")]
    wanted = [candidate(zone) for zone in zones]
    rig.store.set_stock("aws", "", "p5.48xlarge", "on-demand", 0)
    with pytest.raises(NoCapacity) as caught:
        rig.ec2.submit(order(*wanted))
    assert {scope.zone for scope in caught.value.scopes} == set(zones)
    assert [each.method for each in rig.store.mutations()] == ["ec2.RunInstances"]
    rig.store.set_stock("aws", zones[1], "p5.48xlarge", "on-demand", 1)
    assert rig.launched(*wanted).placed.zone == zones[1] and rig.count("CreateFleet") == 0
    rig.store.set_stock("aws", "", "p5.48xlarge", "on-demand", 9)
    rig.launched(*wanted[1:], generation="gen2")
    rig.store.add_fault("aws", "ec2.DescribeInstanceTypeOfferings", "forbidden", times=None)
    later = rig.adapter()
    rig.done(later, later.submit(order(*wanted, generation="gen3")))
    assert (rig.count("RunInstances"), rig.count("CreateFleet")) == (2, 2)


def test_what_is_around_an_order_is_made_once_a_launch(rig) -> None:
    """The launch template is kept from one order to the next, refused or lost, and from one pool to
    several, and goes when the launch has ended. The group is made when there is a machine.
    """
    both = (candidate(A), candidate(B))
    rig.store.set_stock("aws", "", "p5.48xlarge", "on-demand", 0)
    for wanted in (order(*both), order(*both), order(candidate(A)), order(candidate(B))):
        with pytest.raises(NoCapacity):
            rig.ec2.submit(wanted._replace(token=str(uuid.uuid4())))
    rig.store.add_fault("aws", "ec2.CreateFleet", "reply-lost")
    with pytest.raises(OutcomeUnknown):
        rig.ec2.submit(order(*both))
    made = [
        rig.count(method)
        for method in (
            "CreateSecurityGroup",
            "AuthorizeSecurityGroupIngress",
            "AuthorizeSecurityGroupEgress",
            "CreateLaunchTemplate",
            "DescribeVpcs",
            "DescribeSecurityGroups",
        )
    ]
    assert made == [0, 0, 0, 1, 1, 1]
    assert len(rig.store.requests("service-quotas.GetServiceQuota")) == 1
    assert (len(rig.left()[1]), len(rig.left()[3])) == (1, 0)
    rig.ec2.launch_ended("own1", "train", [REGION])
    assert rig.left() == ([], [], [], [])
    rig.store.set_stock("aws", B, "p5.48xlarge", "on-demand", 1)
    rig.finish(rig.ec2.submit(order(*both, generation="gen2")))
    rig.ec2.launch_ended("own1", "train", [])
    assert [len(each) for each in rig.left()] == [1, 0, 0, 1]


def test_what_a_killed_launch_left_is_removed_by_the_next(rig) -> None:
    """By tag, in the regions where the journal knows of orders: the template of the same cluster,
    and the group. Not while another cluster's launch uses the group, nor a machine of the owner.
    """
    rig.store.set_stock("aws", "", "p5.48xlarge", "on-demand", 0)
    with pytest.raises(NoCapacity):
        rig.ec2.submit(order(candidate(A), candidate(B)))
    later = rig.adapter()
    later.launch_ended("own1", "other", [REGION, "us-east-2"])
    assert [len(each) for each in rig.left()] == [0, 1, 0, 0]
    other = later.submit(order(candidate(A, "g6.xlarge"), cluster="other"))
    (handle,) = rig.done(later, other).handles
    later.delete(handle)
    rig.moment += 60
    later.launch_ended("own1", "train", [REGION])
    assert [len(each) for each in rig.left()] == [0, 0, 0, 1], "the other launch uses the group"
    machine = rig.done(later, later.submit(order(candidate(A, "g6.xlarge"))))
    later.launch_ended("own1", "other", [REGION])
    later.launch_ended("own1", "train", [REGION])
    looks = rig.count("DescribeLaunchTemplates")
    later.launch_ended("own1", "train", [REGION])
    assert looks == rig.count("DescribeLaunchTemplates"), "what is known to be bare is not asked"
    assert machine and [len(each) for each in rig.left()] == [1, 0, 0, 1]


def test_several_nodes_are_all_or_nothing(rig) -> None:
    """Four nodes by one RunInstances in one zone and placement group, named one by one; three free
    places make none of them.
    """
    ticket = rig.launched(candidate(nodes=4), nodes=4)
    nodes = rig.ec2.observe(ticket.handles)
    assert [f"train-gen1-{index}" for index in range(4)] == [node.name for node in nodes] and {
        A
    } == {node.zone for node in nodes}
    assert {""} == {node.external_ip for node in nodes}, (
        "a machine with several cards has no public address"
    )
    assert rig.count("RunInstances") == 1 and len(rig.left()[2]) == 1
    rig.store.set_stock("aws", B, "p5.48xlarge", "on-demand", 3)
    with pytest.raises(NoCapacity):
        rig.ec2.submit(order(candidate(B, nodes=4), nodes=4))
    assert len(rig.left()[0]) == 4 and len(rig.left()[2]) == 1, (
        "the refused order's own placement group is gone"
    )


def test_several_spot_nodes(rig) -> None:
    """A Spot cluster is one RunInstances with one-time requests."""
    ticket = rig.launched(candidate(capacity="spot", nodes=2), nodes=2)
    assert {"spot"} == {node.capacity for node in rig.ec2.observe(ticket.handles)}
    assert {"one-time"} == {
        item["Type"] for item in rig.boto("describe_spot_instance_requests")["SpotInstanceRequests"]
    }


# Certainty


@pytest.mark.parametrize("kind", ["reply-lost", "error-after", "malformed"])
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_b25_a_lost_answer_is_found_by_the_token(rig, kind, nodes) -> None:
    """The work was done and the answer lost: the order's own machines are found and taken, exactly
    one creating call.
    """
    for method in ("ec2.CreateFleet", "ec2.RunInstances"):
        rig.store.add_fault("aws", method, kind)
    wanted = order(candidate(nodes=nodes), nodes=nodes)
    with pytest.raises(OutcomeUnknown) as caught:
        rig.ec2.submit(wanted)
    assert wanted.token == caught.value.token
    ticket = rig.finish(rig.ec2.resume(wanted))
    assert (
        nodes == len(ticket.handles) == len(rig.left()[0])
        and rig.count("CreateFleet") + rig.count("RunInstances") == 1
    )
    assert list(wanted.node_names) == [node.name for node in rig.ec2.observe(ticket.handles)]


@pytest.mark.parametrize("refused", [0, 1])
def test_each_node_has_a_name_of_its_own_whoever_looks_first(rig, refused) -> None:
    """The names are given at a look, so a refused one is given at the next, by another process too;
    each machine is renamed once.
    """
    for _ in range(refused):
        rig.store.add_fault("aws", "ec2.CreateTags", "unavailable")
    wanted = order(candidate(nodes=3), nodes=3)
    ticket = rig.ec2.submit(wanted)
    rig.ec2 = rig.adapter()
    ticket = rig.finish(ticket)
    assert list(wanted.node_names) == [node.name for node in rig.ec2.observe(ticket.handles)]
    assert 2 + refused == rig.count("CreateTags")


def test_nothing_made_is_believed_after_several_looks(rig) -> None:
    """A call that never arrived: resume looks more than once, a moment apart, then says that
    nothing was made; helpers are tidied.
    """
    rig.store.add_fault("aws", "ec2.RunInstances", "unavailable")
    wanted = order(candidate(nodes=2), nodes=2)
    with pytest.raises(OutcomeUnknown):
        rig.ec2.submit(wanted)
    looks, before = rig.count("DescribeInstances"), rig.moment
    assert rig.ec2.resume(wanted) is None
    assert rig.count("DescribeInstances") - looks == 2 and rig.moment - before >= 1.0
    assert [] == rig.left()[1] == rig.left()[2]


def test_the_same_order_sent_twice_makes_one_machine(rig) -> None:
    """The token is EC2's client token: a repeated call gets the first one's machines; another
    order's parameters are refused.
    """
    wanted = order()
    first, again = rig.finish(rig.ec2.submit(wanted)), rig.finish(rig.ec2.submit(wanted))
    assert first.handles == again.handles and len(rig.left()[0]) == 1
    with pytest.raises(OutcomeUnknown, match="IdempotentParameterMismatch"):
        rig.ec2.submit(wanted._replace(candidates=(candidate(B),)))


def test_half_a_cluster_is_told_with_its_handles(rig) -> None:
    """Nodes that vanish while the cluster starts: what is left is named, to be deleted first."""
    ticket = rig.ec2.submit(order(candidate(nodes=3), nodes=3))
    with rig.rows() as rows:
        rows.end(rows.instances()[0], "Server.InsufficientInstanceCapacity")
    rig.moment += 2
    with pytest.raises(HalfMade, match="InsufficientInstanceCapacity") as caught:
        rig.ec2.poll(ticket)
    assert len(caught.value.handles) == 2 and caught.value.scopes
    with pytest.raises(HalfMade, match="2 of 3"):
        rig.ec2.resume(ticket.order)


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("Server.InsufficientInstanceCapacity", NoCapacity),
        ("Client.VolumeLimitExceeded", QuotaExceeded),
        ("Client.InternalError", NotConfigured),
    ],
)
def test_a_machine_that_ends_while_it_starts_says_why(rig, reason, error) -> None:
    """Its state reason is the refusal; nothing is left."""
    ticket = rig.ec2.submit(order())
    with rig.rows() as rows:
        rows.end(rows.instances()[0], reason)
    rig.moment += 5
    with pytest.raises(error) as caught:
        rig.ec2.poll(ticket)
    assert reason == caught.value.code and rig.left()[0] == []


def test_another_machine_than_ordered_is_half_made(rig) -> None:
    """A machine of another type than any candidate's is not accepted, whatever the answer of the
    call was.
    """
    ticket = rig.ec2.submit(order(candidate("use1-az1", "p4d.24xlarge")))
    with pytest.raises(HalfMade, match=r"p4d\.24xlarge with 8 x A100") as caught:
        rig.ec2.poll(ticket._replace(order=ticket.order._replace(candidates=(candidate(A),))))
    assert len(caught.value.handles) == 1


def test_a_machine_that_no_list_shows_yet_is_waited_for(rig) -> None:
    """EC2's lists lag behind its answers: a machine that the answer named is not given up."""
    ticket = rig.ec2.submit(order())
    later = ticket._replace(native=(("region", REGION), ("instances", "i-0123456789abcdef0")))
    assert rig.ec2.poll(later).state == "waiting"


# Reservations


@pytest.mark.parametrize("block", [False, True])
def test_an_own_reservation_is_used(rig, block) -> None:
    """By id or by Name tag, a reservation or a Capacity Block: the candidate at its place is
    bought, in one call; a full one is no capacity.
    """
    with rig.rows() as rows:
        record = capacity_calls.own_reservation(
            rows, B, "p5.48xlarge", 1, {"Name": "mine"}, block=block
        )["CapacityReservationId"]
    both = [candidate(zone, capacity="reservation", reservation=record) for zone in (A, B)]
    assert rig.ec2.group(both) == 2
    ticket = rig.launched(*both)
    assert (ticket.placed.zone, ticket.placed.capacity) == (B, "reservation") and rig.count(
        "RunInstances"
    ) == 1
    (node,) = rig.ec2.observe(ticket.handles)
    assert node.capacity == "reservation"
    named = [candidate(zone, capacity="reservation", reservation="mine") for zone in (A, B)]
    with pytest.raises(NoCapacity, match="0 of its machines are free") as caught:
        rig.ec2.submit(order(*named, generation="gen2"))
    assert caught.value.scopes == ()


def test_of_several_reservations_under_one_tag_the_one_with_room_is_used(rig) -> None:
    """Full, not begun, of another type, in a zone that is not asked for: passed over."""
    with rig.rows() as rows:
        for zone, kind, count, state in (
            (A, "p4d.24xlarge", 9, "active"),
            (A, "p5.48xlarge", 1, "scheduled"),
            (A, "p5.48xlarge", 0, "active"),
            (E, "p5.48xlarge", 9, "active"),
            (B, "p5.48xlarge", 1, "active"),
        ):
            capacity_calls.own_reservation(rows, zone, kind, count, {"Name": "team"}, state=state)
    asked = [candidate(zone, capacity="reservation", reservation="team") for zone in (A, B)]
    assert rig.launched(*asked).placed.zone == B
    with pytest.raises(NoCapacity, match="0 of its machines are free in any of 2, 1 are wanted"):
        rig.ec2.submit(order(*asked, generation="gen2"))


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("cr-0123456789abcdef0", Unsupported, "InvalidCapacityReservationId"),
        ("nobodys", Unsupported, "none of that name"),
        ("other", Unsupported, "p4d"),
        ("later", NoCapacity, "scheduled"),
    ],
)
def test_a_reservation_that_cannot_serve_is_refused_before_any_call(rig, name, error, said) -> None:
    """Unknown, for another type, not begun: refused with the reason, and no place is blocked."""
    with rig.rows() as rows:
        capacity_calls.own_reservation(rows, A, "p4d.24xlarge", 1, {"Name": "other"})
        capacity_calls.own_reservation(
            rows, A, "p5.48xlarge", 1, {"Name": "later"}, block=True, state="scheduled"
        )
    with pytest.raises(error, match=said) as caught:
        rig.ec2.submit(order(candidate(A, capacity="reservation", reservation=name)))
    assert caught.value.scopes == () and rig.count("RunInstances") == 0


def test_relabel_and_labels(rig) -> None:
    """A new generation is written on the machine; labels replace the earlier ones and leave others'
    tags alone.
    """
    (handle,) = rig.launched(labels=(("team", "x"), ("old", "1"))).handles
    instance_id = handle.native_id.split("/")[1]
    rig.boto("create_tags", Resources=[instance_id], Tags=[{"Key": "CostCenter", "Value": "7"}])
    rig.ec2.relabel(handle, "gen9")
    rig.ec2.update(handle, {"labels": {"team": "y", "new": "2"}})
    (machine,) = console.running(rig.store)
    assert {
        "team": "y",
        "new": "2",
        "CostCenter": "7",
        "gpus-generation": "gen9",
        "gpus-labels": "team new",
    }.items() <= machine.labels.items()
    assert "old" not in machine.labels and rig.ec2.find("own1")[0].label.generation == "gen9"
    rig.ec2.update(handle, {"labels": {}})
    (machine,) = console.running(rig.store)
    assert (
        not {"team", "new", "gpus-labels"} & set(machine.labels)
        and machine.labels["CostCenter"] == "7"
    )


# The security group


def test_the_owners_group_lets_ssh_in_and_its_machines_at_each_other(rig) -> None:
    """One group for each owner, region and VPC: tcp 22 from anywhere, everything from itself, and
    to itself what EFA sends; made once.
    """
    rig.launched()
    rig.launched(candidate(B, nodes=2), nodes=2, generation="gen2")
    (group,) = rig.left()[3]
    assert group["GroupName"] == "gpus-own1"
    ssh = next(rule for rule in group["IpPermissions"] if rule["IpProtocol"] == "tcp")
    assert (ssh["FromPort"], ssh["ToPort"], ssh["IpRanges"][0]["CidrIp"]) == (22, 22, "0.0.0.0/0")
    for side in ("IpPermissions", "IpPermissionsEgress"):
        assert any(
            rule.get("UserIdGroupPairs")
            and rule["UserIdGroupPairs"][0]["GroupId"] == group["GroupId"]
            for rule in group[side]
        )
    rig.launched(
        candidate(B), generation="gen3", options=(("security_group", places.made_up("sg", REGION)),)
    )
    assert rig.count("CreateSecurityGroup") == 1
