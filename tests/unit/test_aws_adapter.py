"""The EC2 adapter over boto3, against the EC2 stand-in on loopback; its clock is the test's."""

import contextlib
import subprocess
import sys
import uuid

import pytest

from providers.adapters.aws import MANIFEST, machines
from providers.rehearsal.clouds import aws
from providers.adapters.aws.adapter import Ec2
from providers.adapters.aws.client import Client, sealed_session
from providers.rehearsal.clouds.aws import calls, console, places, things, wire
from providers.rehearsal.clouds.aws.state import Rows
from providers.engine.runtime.world import connected
from providers.rehearsal.store import Store
from providers.errors import (
    BadCredentials,
    HalfMade,
    NoCapacity,
    NotConfigured,
    OutcomeUnknown,
    PriceRose,
    QuotaExceeded,
    RateLimited,
    Transient,
    Unclassified,
    Unsupported,
)
from providers.model.machine import Handle, Mark, Order, Setup
from providers.model.offer import Candidate, Offer
from providers.model.place import Scope

A, B, E = "use1-az1", "use1-az2", "use1-az3"
REGION = "us-east-1"
SESSION = sealed_session()


def candidate(
    zone=A,
    machine_type="p5.48xlarge",
    capacity="on-demand",
    micro_usd=55_040_000,
    region="",
    nodes=1,
    reservation="",
):
    gpu, count = machines.gpus_of(machine_type)
    offer = Offer(
        "aws", region or places.region_of(zone), zone, machine_type, gpu, count, capacity, micro_usd
    )
    return Candidate(1, 0, offer, nodes, reservation, micro_usd * nodes)


def order(
    *candidates, nodes=1, generation="gen1", cluster="train", owner="own1", wait_s=900, **setup
):
    names = tuple(f"{cluster}-{generation}-{index}" for index in range(nodes))
    return Order(
        Mark(owner, cluster, generation, "0123456789abcdef"),
        str(uuid.uuid4()),
        candidates or (candidate(),),
        names,
        Setup(**setup),
        wait_s,
    )


class Rig:
    """A stand-in with its store, the test's clock, and an adapter on it."""

    def __init__(self, path):
        self.moment = 1_800_000_000.0
        self.store = Store(path / "rehearsal.db", clock=lambda: self.moment)
        self.server = aws.start(self.store)
        self.client = Client(SESSION, self.server.url, read_s=5.0)
        self.ec2 = self.adapter()

    def adapter(self, regions=(REGION, "us-east-2"), client=None):
        return Ec2(
            "rehearsal",
            lambda: client or self.client,
            regions=regions,
            now=self.store.now,
            sleep=self.sleep,
            looks_s=(0.0, 1.0),
        )

    def sleep(self, seconds):
        self.moment += seconds

    def had(self, ticket, polls=30):
        """The ticket once it is done."""
        for _ in range(polls):
            if ticket.state == "done":
                return ticket
            self.moment += 0.5
            ticket = self.ec2.poll(ticket)
        raise AssertionError(f"still {ticket.state}")

    def got(self, *candidates, **rest):
        return self.had(self.ec2.submit(order(*candidates, **rest)))

    def boto(self, operation, region=REGION, **parameters):
        return getattr(self.client.service("ec2", region), operation)(**parameters)

    def count(self, method):
        return len(self.store.requests(f"ec2.{method}"))

    def left(self):
        """Everything that the cloud still holds of us: machines, templates, groups."""
        return (
            [machine.name for machine in console.running(self.store)],
            *(
                [
                    item
                    for region in (REGION, "us-east-2")
                    for item in self.boto(operation, region)[key]
                    if item.get("GroupName") != "default"
                ]
                for operation, key in (
                    ("describe_launch_templates", "LaunchTemplates"),
                    ("describe_placement_groups", "PlacementGroups"),
                    ("describe_security_groups", "SecurityGroups"),
                )
            ),
        )

    @contextlib.contextmanager
    def rows(self):
        with self.store.transaction() as db:
            yield Rows(self.store, db, self.store.now())


NOTHING = ([], [], [], [])


@pytest.fixture
def rig(tmp_path):
    made = Rig(tmp_path)
    yield made
    made.server.close()
    made.store.close()
    assert [] == made.server.faulty


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
def test_a_machine_is_had_as_ordered(rig, machine_type, zone, capacity):
    """Made by one fleet, running, and seen as what was ordered: type, GPUs, zone id, way of buying,
    mark.
    """
    ticket = rig.got(candidate(zone, machine_type, capacity), labels=(("team", "x"),))
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
    assert (Mark("own1", "train", "gen1", "0123456789abcdef"), "train-gen1-0") == (
        node.mark,
        node.name,
    )
    assert (
        node.internal_ip
        and node.external_ip
        and node.created_at == pytest.approx(1_800_000_000, abs=2)
    )
    assert (
        candidate(zone, machine_type, capacity) == ticket.placed
        and 1 == rig.count("CreateFleet")
        and 0 == rig.count("RunInstances")
    )


def test_one_fleet_serves_a_regions_run_in_the_plans_order(rig):
    """The first pool that has it is taken, in one creating call; the one that was had is told, not
    the first one.
    """
    rig.store.set_stock("aws", A, "p5.48xlarge", "on-demand", 0)
    wanted = order(candidate(A), candidate(B), candidate(A, "p4d.24xlarge"))
    assert 3 == rig.ec2.group(wanted.candidates)
    ticket = rig.had(rig.ec2.submit(wanted))
    assert (B, "p5.48xlarge") == (
        ticket.placed.zone,
        ticket.placed.machine_type,
    ) and 1 == rig.count("CreateFleet")


def test_a_fleets_template_is_gone_after_the_call(rig):
    """The launch template is a helper for one call: deleted after a success, a refusal and a lost
    answer.
    """
    rig.got()
    rig.store.set_stock("aws", A, "p5.48xlarge", "on-demand", 0)
    with pytest.raises(NoCapacity):
        rig.ec2.submit(order())
    rig.store.add_fault("aws", "ec2.CreateFleet", "reply-lost")
    with pytest.raises(OutcomeUnknown):
        rig.ec2.submit(order(candidate(B)))
    assert 3 == rig.count("CreateLaunchTemplate") and [] == rig.left()[1]


def test_several_nodes_are_all_or_nothing(rig):
    """Four nodes by one RunInstances in one zone and placement group, named one by one; three free
    places make none of them.
    """
    ticket = rig.got(candidate(nodes=4), nodes=4)
    nodes = rig.ec2.observe(ticket.handles)
    assert [f"train-gen1-{index}" for index in range(4)] == [node.name for node in nodes] and {
        A
    } == {node.zone for node in nodes}
    assert {""} == {node.external_ip for node in nodes}, (
        "a machine with several cards has no public address"
    )
    assert 1 == rig.count("RunInstances") and 1 == len(rig.left()[2])
    rig.store.set_stock("aws", B, "p5.48xlarge", "on-demand", 3)
    with pytest.raises(NoCapacity):
        rig.ec2.submit(order(candidate(B, nodes=4), nodes=4))
    assert 4 == len(rig.left()[0]) and 1 == len(rig.left()[2]), (
        "the refused order's own placement group is gone"
    )


def test_several_spot_nodes(rig):
    """A Spot cluster is one RunInstances with one-time requests."""
    ticket = rig.got(candidate(capacity="spot", nodes=2), nodes=2)
    assert {"spot"} == {node.capacity for node in rig.ec2.observe(ticket.handles)}
    assert {"one-time"} == {
        item["Type"] for item in rig.boto("describe_spot_instance_requests")["SpotInstanceRequests"]
    }


# Refusals


def test_b21_calls_and_scopes_of_a_mixed_region(rig):
    """No capacity in one zone and a type that another never had: one call, and each zone is blocked
    for its own reason.
    """
    rig.store.set_stock("aws", A, "p5.48xlarge", "on-demand", 0)
    with pytest.raises(Unsupported) as caught:
        rig.ec2.submit(
            order(
                candidate(A),
                (
                    candidate("use1-az3", "p5.48xlarge")
                    if not places.has("use1-az3", "p5.48xlarge")
                    else candidate("use1-az3", "p5e.48xlarge")
                ),
            )
        )
    assert 1 == rig.count("CreateFleet")
    assert Scope("aws", REGION, A, "p5.48xlarge", capacity="on-demand") in caught.value.scopes
    assert any(scope.zone == "use1-az3" and not scope.capacity for scope in caught.value.scopes)


def test_b21_a_vcpu_limit_is_one_call_for_the_region(rig):
    """The limit counts vCPUs of running machines; reached, it blocks the family group in the
    region, Spot stays open.
    """
    rig.store.set_quota("aws", REGION, "L-417A185B", 192)
    rig.got()
    with pytest.raises(QuotaExceeded, match="VcpuLimitExceeded") as caught:
        rig.ec2.submit(order(candidate(A), candidate(B), generation="gen2"))
    assert "L-417A185B" == caught.value.metric and 2 == rig.count("CreateFleet")
    assert any(scope.covers(candidate(B, "p4d.24xlarge")) for scope in caught.value.scopes)
    assert not any(scope.covers(candidate(A, capacity="spot")) for scope in caught.value.scopes)
    assert rig.got(candidate(capacity="spot"), generation="gen3")


EVIL = "no \x1b[31mroom\x00\x08 \ufffe\udcff <&>"


def test_text_that_xml_cannot_hold_is_replaced_in_an_answer(rig):
    """ESC, NUL and the like have no form in XML: EC2's own client could not read the answer. What
    it can hold arrives as it is.
    """
    rig.store.add_fault(
        "aws",
        "ec2.CreateFleet",
        "http",
        times=1,
        status=400,
        reason="InsufficientInstanceCapacity",
        message=EVIL,
    )
    with pytest.raises(NoCapacity) as caught:
        rig.ec2.submit(order(candidate()))
    assert "InsufficientInstanceCapacity" in str(
        caught.value
    ) and "no \ufffd[31mroom\ufffd\ufffd \ufffd\ufffd <&>" in str(caught.value)
    answer = wire.refused("sts", wire.Refusal(400, "A\x1bB", EVIL))[0].decode()
    assert "<Code>A\ufffdB</Code>" in answer and "&lt;&amp;&gt;" in answer


@pytest.mark.parametrize("creating", [True, False])
def test_answer_that_is_no_xml_is_one_clear_message(rig, monkeypatch, creating):
    """Should EC2 itself, or a proxy, send such a text: one line says so, without the answer's own
    text, and nothing is sent twice.
    """
    monkeypatch.setattr(wire, "_written", lambda text: text)
    method = "CreateFleet" if creating else "DescribeInstances"
    rig.store.add_fault(
        "aws",
        f"ec2.{method}",
        "http",
        times=1,
        status=400,
        reason="InsufficientInstanceCapacity",
        message="no \x1b[31mroom",
    )
    with pytest.raises(OutcomeUnknown if creating else Transient) as caught:
        rig.ec2.submit(order(candidate())) if creating else rig.ec2.find("own1")
    told = str(caught.value)
    assert (
        "the answer could not be read" in told
        and "not well-formed" in told
        and "room" not in told
        and "\n" not in told
    )
    assert rig.count(method) >= 1 and told.isprintable()


@pytest.mark.parametrize(
    ("kind", "settings", "error"),
    [
        ("rate-limit", {}, RateLimited),
        ("too-many", {}, RateLimited),
        ("unauthorized", {}, BadCredentials),
        ("forbidden", {}, BadCredentials),
        ("quota", {}, QuotaExceeded),
        ("unavailable", {}, OutcomeUnknown),
        ("html", {}, OutcomeUnknown),
        ("malformed", {}, OutcomeUnknown),
        ("reply-lost", {}, OutcomeUnknown),
        ("error-after", {}, OutcomeUnknown),
        ("http", {"status": 400, "reason": "SpotMaxPriceTooLow"}, PriceRose),
        ("http", {"status": 400, "reason": "BrandNew"}, Unclassified),
        ("op-error", {"code": "InsufficientInstanceCapacity"}, NoCapacity),
        ("op-error", {"code": "VcpuLimitExceeded"}, QuotaExceeded),
    ],
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_each_fault_of_the_creating_call_is_one_call(rig, kind, settings, error, nodes):
    """A fleet's and a plain run's failures are classified, and never sent twice by the client."""
    for method in ("ec2.CreateFleet", "ec2.RunInstances"):
        rig.store.add_fault("aws", method, kind, times=None, **settings)
    with pytest.raises(error) as caught:
        rig.ec2.submit(order(candidate(nodes=nodes), nodes=nodes))
    assert type(caught.value) is error
    assert 1 == rig.count("CreateFleet") + rig.count("RunInstances")
    assert "hushhush" not in str(caught.value)


def test_faults_before_the_creating_call_made_nothing(rig):
    """A failing read, or a helper that could not be made, is passing: no creating call was sent."""
    for method, kind in (
        ("ssm.GetParameter", "unavailable"),
        ("ec2.DescribeVpcs", "reply-lost"),
        ("ec2.CreateLaunchTemplate", "unavailable"),
    ):
        rig.store.add_fault("aws", method, kind)
        with pytest.raises(Transient):
            rig.ec2.submit(order())
    assert 0 == rig.count("CreateFleet")
    assert rig.got()


def test_a_zone_or_region_that_the_account_has_not_is_refused_without_a_call(rig):
    """A Local Zone that was not opted into, an unknown region, a region that is not configured:
    refused there, with what to do.
    """
    for wanted, scope in (
        (candidate("use1-atl2-az1"), Scope("aws", REGION, "use1-atl2-az1")),
        (candidate("x", region="xx-north-1"), Scope("aws", "xx-north-1")),
        (candidate("usw2-az1"), Scope("aws", "us-west-2")),
    ):
        adapter = rig.adapter(regions=()) if wanted.region == "xx-north-1" else rig.ec2
        with pytest.raises(Unsupported) as caught:
            adapter.submit(order(wanted))
        assert (scope,) == caught.value.scopes
    assert 0 == rig.count("CreateFleet")


def test_an_image_of_another_region_is_refused_there(rig):
    """Images are regional: an id that the region has not blocks the region for this run only."""
    with pytest.raises(Unsupported, match="ami-0123456789abcdef0") as caught:
        rig.ec2.submit(order(options=(("ami", "ami-0123456789abcdef0"),)))
    assert ((Scope("aws", REGION),), 0.0) == (caught.value.scopes, caught.value.block_s)
    with pytest.raises(Unsupported, match="ParameterNotFound"):
        rig.ec2.submit(order(options=(("ami_ssm_parameter", "/no/such"),)))


# Certainty


@pytest.mark.parametrize("kind", ["reply-lost", "error-after", "malformed"])
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_b25_a_lost_answer_is_found_by_the_token(rig, kind, nodes):
    """The work was done and the answer lost: the order's own machines are found and taken, exactly
    one creating call.
    """
    for method in ("ec2.CreateFleet", "ec2.RunInstances"):
        rig.store.add_fault("aws", method, kind)
    wanted = order(candidate(nodes=nodes), nodes=nodes)
    with pytest.raises(OutcomeUnknown) as caught:
        rig.ec2.submit(wanted)
    assert wanted.token == caught.value.token
    ticket = rig.had(rig.ec2.resume(wanted))
    assert nodes == len(ticket.handles) == len(rig.left()[0]) and 1 == rig.count(
        "CreateFleet"
    ) + rig.count("RunInstances")
    assert list(wanted.node_names) == [node.name for node in rig.ec2.observe(ticket.handles)]


@pytest.mark.parametrize("refused", [0, 1])
def test_each_node_has_a_name_of_its_own_whoever_looks_first(rig, refused):
    """The names are given at a look, so a refused one is given at the next, by another process too;
    each machine is renamed once.
    """
    for _ in range(refused):
        rig.store.add_fault("aws", "ec2.CreateTags", "unavailable")
    wanted = order(candidate(nodes=3), nodes=3)
    ticket = rig.ec2.submit(wanted)
    rig.ec2 = rig.adapter()
    ticket = rig.had(ticket)
    assert list(wanted.node_names) == [node.name for node in rig.ec2.observe(ticket.handles)]
    assert 2 + refused == rig.count("CreateTags")


def test_nothing_made_is_believed_after_several_looks(rig):
    """A call that never arrived: resume looks more than once, a moment apart, then says that
    nothing was made; helpers are tidied.
    """
    rig.store.add_fault("aws", "ec2.RunInstances", "unavailable")
    wanted = order(candidate(nodes=2), nodes=2)
    with pytest.raises(OutcomeUnknown):
        rig.ec2.submit(wanted)
    looks, before = rig.count("DescribeInstances"), rig.moment
    assert rig.ec2.resume(wanted) is None
    assert 2 == rig.count("DescribeInstances") - looks and 1.0 <= rig.moment - before
    assert [] == rig.left()[1] == rig.left()[2]


def test_the_same_order_sent_twice_makes_one_machine(rig):
    """The token is EC2's client token: a repeated call gets the first one's machines; another
    order's parameters are refused.
    """
    wanted = order()
    first, again = rig.had(rig.ec2.submit(wanted)), rig.had(rig.ec2.submit(wanted))
    assert first.handles == again.handles and 1 == len(rig.left()[0])
    with pytest.raises(OutcomeUnknown, match="IdempotentParameterMismatch"):
        rig.ec2.submit(wanted._replace(candidates=(candidate(B),)))


def test_half_a_cluster_is_told_with_its_handles(rig):
    """Nodes that vanish while the cluster starts: what is left is named, to be deleted first."""
    ticket = rig.ec2.submit(order(candidate(nodes=3), nodes=3))
    with rig.rows() as rows:
        rows.end(rows.instances()[0], "Server.InsufficientInstanceCapacity")
    rig.moment += 2
    with pytest.raises(HalfMade, match="InsufficientInstanceCapacity") as caught:
        rig.ec2.poll(ticket)
    assert 2 == len(caught.value.handles) and caught.value.scopes
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
def test_a_machine_that_ends_while_it_starts_says_why(rig, reason, error):
    """Its state reason is the refusal; nothing is left."""
    ticket = rig.ec2.submit(order())
    with rig.rows() as rows:
        rows.end(rows.instances()[0], reason)
    rig.moment += 5
    with pytest.raises(error) as caught:
        rig.ec2.poll(ticket)
    assert reason == caught.value.code and [] == rig.left()[0]


def test_another_machine_than_ordered_is_half_made(rig):
    """A machine of another type than any candidate's is not accepted, whatever the answer of the
    call was.
    """
    ticket = rig.ec2.submit(order(candidate("use1-az1", "p4d.24xlarge")))
    with pytest.raises(HalfMade, match=r"p4d\.24xlarge with 8 x A100") as caught:
        rig.ec2.poll(ticket._replace(order=ticket.order._replace(candidates=(candidate(A),))))
    assert 1 == len(caught.value.handles)


def test_a_machine_that_no_list_shows_yet_is_waited_for(rig):
    """EC2's lists lag behind its answers: a machine that the answer named is not given up."""
    ticket = rig.ec2.submit(order())
    later = ticket._replace(native=(("region", REGION), ("instances", "i-0123456789abcdef0")))
    assert "waiting" == rig.ec2.poll(later).state


# Reservations


@pytest.mark.parametrize("block", [False, True])
def test_an_own_reservation_is_used(rig, block):
    """By id or by Name tag, a reservation or a Capacity Block: the candidate at its place is
    bought, in one call; a full one is no capacity.
    """
    with rig.rows() as rows:
        held = things.own_reservation(rows, B, "p5.48xlarge", 1, {"Name": "mine"}, block=block)[
            "CapacityReservationId"
        ]
    both = [candidate(zone, capacity="reservation", reservation=held) for zone in (A, B)]
    assert 2 == rig.ec2.group(both)
    ticket = rig.got(*both)
    assert (B, "reservation") == (ticket.placed.zone, ticket.placed.capacity) and 1 == rig.count(
        "RunInstances"
    )
    (node,) = rig.ec2.observe(ticket.handles)
    assert "reservation" == node.capacity
    named = [candidate(zone, capacity="reservation", reservation="mine") for zone in (A, B)]
    with pytest.raises(NoCapacity, match="0 of its machines are free") as caught:
        rig.ec2.submit(order(*named, generation="gen2"))
    assert () == caught.value.scopes


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("cr-0123456789abcdef0", Unsupported, "InvalidCapacityReservationId"),
        ("nobodys", Unsupported, "none of that name"),
        ("other", Unsupported, "p4d"),
        ("later", NoCapacity, "scheduled"),
    ],
)
def test_a_reservation_that_cannot_serve_is_refused_before_any_call(rig, name, error, said):
    """Unknown, for another type, not begun: refused with the reason, and no place is blocked."""
    with rig.rows() as rows:
        things.own_reservation(rows, A, "p4d.24xlarge", 1, {"Name": "other"})
        things.own_reservation(
            rows, A, "p5.48xlarge", 1, {"Name": "later"}, block=True, state="scheduled"
        )
    with pytest.raises(error, match=said) as caught:
        rig.ec2.submit(order(candidate(A, capacity="reservation", reservation=name)))
    assert () == caught.value.scopes and 0 == rig.count("RunInstances")


# Seeing


def test_b29_a_preempted_machine_is_gone_and_says_so(rig):
    """EC2's Server.SpotInstanceTermination: preempted while it goes, gone (by name: preempted) once
    it is terminated, then unknown and still gone.
    """
    ticket = rig.got(candidate(capacity="spot"))
    assert 1 == console.preempt(rig.store, "train-gen1-0")
    assert "preempted" == rig.ec2.observe(ticket.handles)[0].status
    rig.moment += 2
    node = rig.ec2.observe(ticket.handles)[0]
    assert ("gone", "preempted and deleted (Server.SpotInstanceTermination)") == (
        node.status,
        node.detail,
    )
    rig.moment += 4000
    assert "gone" == rig.ec2.observe(ticket.handles)[0].status and [] == rig.ec2.find("own1")


def test_b29_a_region_that_cannot_be_reached_is_never_gone(rig):
    """403, 5xx and a dead connection are errors, never absence, for one machine and for a search."""
    ticket = rig.got()
    for kind, error in (
        ("forbidden", BadCredentials),
        ("unavailable", Transient),
        ("reply-lost", Transient),
        ("html", Transient),
    ):
        for call in (lambda: rig.ec2.observe(ticket.handles), lambda: rig.ec2.find("own1")):
            rig.store.add_fault("aws", "ec2.DescribeInstances", kind, place=REGION)
            with pytest.raises(error):
                call()


@pytest.mark.parametrize(
    "page",
    [{}, {"Reservations": [{}]}, {"Reservations": [{"Instances": []}]}],
    ids=["no list", "no machines", "none"],
)
def test_b29_a_list_that_is_not_whole_is_an_error_and_never_gone(rig, monkeypatch, page):
    """EC2 names a reservation for the machines in it: an answer without them is not read as a
    machine that is gone.
    """
    handles = rig.got().handles
    monkeypatch.setattr(Client, "pages", lambda *_, **__: iter([page]))
    for look in (lambda: rig.ec2.observe(handles), lambda: rig.ec2.find("own1")):
        with pytest.raises(Transient):
            look()


def test_b29_a_machine_that_is_not_listed_is_asked_for_by_its_id(rig, monkeypatch):
    """Gone is what EC2 says by name not to know: a list without it is not enough, and an answer
    that says neither is an error.
    """
    handles = rig.got().handles
    monkeypatch.setattr(Client, "pages", lambda *_, **__: iter([{"Reservations": []}]))
    assert "running" == rig.ec2.observe(handles)[0].status
    monkeypatch.setattr(Client, "call", lambda *_, **__: {"Reservations": []})
    with pytest.raises(Transient):
        rig.ec2.observe(handles)


def test_a_stopped_machine_is_seen_as_stopped(rig):
    """A machine that somebody stopped exists and is told as stopped, with the code."""
    ticket = rig.got()
    rig.boto("stop_instances", InstanceIds=[ticket.handles[0].native_id.split("/")[1]])
    assert "stopping" == rig.ec2.observe(ticket.handles)[0].status
    rig.moment += 2
    node = rig.ec2.observe(ticket.handles)[0]
    assert ("stopped", "") == (
        node.status,
        node.external_ip,
    ) and "Client.UserInitiatedShutdown" in node.detail


@pytest.mark.parametrize(("on_ttl", "status"), [("release", "gone"), ("keep", "ended")])
def test_the_end_of_the_run(rig, on_ttl, status):
    """The timer of the user data ends the machine: terminated, or stopped and told as ended where
    it is kept.
    """
    ticket = rig.got(ttl_s=3600, on_ttl=on_ttl)
    rig.moment += 3590
    assert "running" == rig.ec2.observe(ticket.handles)[0].status
    rig.moment += 30
    node = rig.ec2.observe(ticket.handles)[0]
    assert status == node.status and "Client.InstanceInitiatedShutdown" in node.detail


def test_find_pages_through_every_region(rig, monkeypatch):
    """Machines of an owner are found over all regions and pages, narrowed by cluster and
    generation; others' are not.
    """
    for generation in ("gen1", "gen2"):
        rig.got(
            candidate(machine_type="g6.xlarge", nodes=4),
            nodes=4,
            generation=generation,
            options=(("efa", False),),
        )
    rig.got(candidate("use2-az1", "g6.xlarge"), cluster="other")
    rig.got(candidate(machine_type="g6.xlarge"), owner="own2")
    monkeypatch.setattr("providers.adapters.aws.adapter.PAGE", 5)
    before = rig.count("DescribeInstances")
    assert 9 == len(rig.ec2.find("own1")) and 3 == rig.count("DescribeInstances") - before
    assert (8, 4, 1) == tuple(
        map(
            len,
            (
                rig.ec2.find("own1", "train"),
                rig.ec2.find("own1", "train", "gen2"),
                rig.ec2.find("own1", "other"),
            ),
        )
    )
    assert 10 == len(rig.adapter(regions=()).find("own1")) + len(
        rig.adapter(regions=("us-east-1",)).find("own2")
    )


def test_a_machine_of_nobody_is_seen_without_a_mark(rig):
    """An instance that bears no mark (for import) is a node without one, its GPUs known by its
    type.
    """
    image = next(iter(places.images(REGION)))
    made = rig.boto(
        "run_instances", MinCount=1, MaxCount=1, InstanceType="g6.xlarge", ImageId=image
    )["Instances"][0]["InstanceId"]
    rig.moment += 2
    node = rig.ec2.observe([Handle("aws", f"{REGION}/{made}")])[0]
    assert (None, made, "L4", 1) == (node.mark, node.name, node.gpu_type, node.gpu_count)
    with pytest.raises(Unsupported, match="us-east-1/i-0123456789abcdef0"):
        rig.ec2.observe([Handle("aws", "projects/p/zones/z/instances/n")])


# Ending


def test_delete_leaves_nothing(rig):
    """After the last machine is seen gone, template, placement group and security group are gone
    too; deleting again is success.
    """
    first = rig.got(candidate(nodes=2), nodes=2)
    second = rig.got(candidate(B), generation="gen2")
    for handle in first.handles:
        rig.ec2.delete(handle)
    assert {"stopping"} == {node.status for node in rig.ec2.observe(first.handles)}
    rig.moment += 2
    assert {"gone"} == {node.status for node in rig.ec2.observe(first.handles)}
    assert [] == rig.left()[2] and 1 == len(rig.left()[3]), (
        "the owner's other machine still uses the security group"
    )
    rig.ec2.delete(second.handles[0])
    rig.moment += 2
    assert "gone" == rig.ec2.observe(second.handles)[0].status and NOTHING == rig.left()
    calls_before = rig.count("TerminateInstances")
    rig.ec2.delete(second.handles[0])
    rig.ec2.delete(Handle("aws", f"{REGION}/i-0123456789abcdef0"))
    assert calls_before == rig.count("TerminateInstances")


def test_b36_a_persistent_request_is_cancelled_first(rig):
    """A Spot machine under a persistent request: the request is cancelled before the machine ends,
    and none is left under it.
    """
    ticket = rig.got(candidate(capacity="spot"))
    with rig.rows() as rows:
        (request,) = rows.things(REGION, "spot-request")
        rows.write_thing({**request, "type": "persistent"})
    rig.ec2.delete(ticket.handles[0])
    methods = [
        request.method
        for request in rig.store.requests("ec2.*")
        if request.method.startswith(("ec2.Cancel", "ec2.Terminate"))
    ]
    assert ["ec2.CancelSpotInstanceRequests", "ec2.TerminateInstances"] == methods
    rig.moment += 2
    assert "gone" == rig.ec2.observe(ticket.handles)[0].status and NOTHING == rig.left()


def test_b36_a_machine_that_a_request_started_by_itself_is_ended_too(rig):
    """Ended behind our back, a persistent request starts a new, unmarked machine: deleting ends
    that one before the first counts as gone.
    """
    ticket = rig.got(candidate(capacity="spot"))
    with rig.rows() as rows:
        (request,) = rows.things(REGION, "spot-request")
        rows.write_thing({**request, "type": "persistent"})
        (machine,) = rows.instances()
        calls.launch.again(rows, machine)
    assert 2 == len(rig.left()[0])
    rig.ec2.delete(ticket.handles[0])
    rig.moment += 2
    assert "gone" == rig.ec2.observe(ticket.handles)[0].status and NOTHING == rig.left()


def test_b36_a_stopped_machine_under_a_persistent_request_leaves_none(rig):
    """Stopped, its request is disabled: that is cancelled first all the same, then the machine
    ends, and none is left under it.
    """
    ticket = rig.got(candidate(capacity="spot"))
    with rig.rows() as rows:
        (request,) = rows.things(REGION, "spot-request")
        rows.write_thing({**request, "type": "persistent"})
    rig.ec2.update(ticket.handles[0], {"state": "stopped"})
    assert ["disabled"] == [
        item["State"]
        for item in rig.boto("describe_spot_instance_requests")["SpotInstanceRequests"]
    ]
    rig.ec2.delete(ticket.handles[0])
    methods = [
        request.method
        for request in rig.store.requests("ec2.*")
        if request.method.startswith(("ec2.Cancel", "ec2.Terminate"))
    ]
    assert ["ec2.CancelSpotInstanceRequests", "ec2.TerminateInstances"] == methods
    rig.moment += 2
    assert "gone" == rig.ec2.observe(ticket.handles)[0].status and NOTHING == rig.left()
    assert ["cancelled"] == [
        item["State"]
        for item in rig.boto("describe_spot_instance_requests")["SpotInstanceRequests"]
    ]


def test_b36_a_machine_that_ended_by_itself_leaves_none_either(rig):
    """Taken back under a persistent request, which started another, unmarked one: deleting the one
    that is gone ends the other.
    """
    ticket = rig.got(candidate(capacity="spot"))
    with rig.rows() as rows:
        (request,) = rows.things(REGION, "spot-request")
        rows.write_thing({**request, "type": "persistent"})
        calls.preempt(rows, rows.instances()[0])
    rig.moment += 2
    assert "gone" == rig.ec2.observe(ticket.handles)[0].status and 1 == len(rig.left()[0])
    rig.ec2.delete(ticket.handles[0])
    assert "stopping" == rig.ec2.observe(ticket.handles)[0].status
    rig.moment += 2
    assert "gone" == rig.ec2.observe(ticket.handles)[0].status and NOTHING == rig.left()


def test_the_stand_in_starts_another_machine_if_nobody_cancels(rig):
    """B36 as reported: terminating alone leaves a new, untagged machine behind."""
    ticket = rig.got(candidate(capacity="spot"))
    with rig.rows() as rows:
        (request,) = rows.things(REGION, "spot-request")
        rows.write_thing({**request, "type": "persistent"})
    rig.boto("terminate_instances", InstanceIds=[ticket.handles[0].native_id.split("/")[1]])
    rig.moment += 2
    assert [{}] == [machine.labels for machine in console.running(rig.store)]


def test_what_a_dead_run_left_is_tidied_by_a_search_for_its_owner(rig):
    """A group and an old template without any machine go when everything of the owner is looked
    for; a young template may be in use.
    """
    rig.store.set_stock("aws", "", "p5.48xlarge", "", 0)
    with pytest.raises(NoCapacity):
        rig.ec2.submit(order())
    assert NOTHING == rig.left(), "a refused order takes back what was made for it"
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
    rig.moment += 700
    assert [] == rig.ec2.find("own1") and NOTHING == rig.left()


def test_a_group_that_was_tidied_away_in_between_is_a_passing_fault(rig, monkeypatch):
    """Another run of the same owner deletes the group between its making and the launch: Transient,
    and the next try makes it again.
    """
    from providers.adapters.aws.surroundings import Surroundings

    make = Surroundings.around

    def gone_again(self, *given):
        found = make(self, *given)
        rig.boto("delete_security_group", GroupId=found.groups[0])
        monkeypatch.setattr(Surroundings, "around", make)
        return found

    monkeypatch.setattr(Surroundings, "around", gone_again)
    wanted = order()
    with pytest.raises(Transient, match="made again"):
        rig.ec2.submit(wanted)
    assert rig.ec2.resume(wanted) is None and rig.had(rig.ec2.submit(wanted))


def test_relabel_and_labels(rig):
    """A new generation is written on the machine; labels replace the earlier ones and leave others'
    tags alone.
    """
    (handle,) = rig.got(labels=(("team", "x"), ("old", "1"))).handles
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
    assert "old" not in machine.labels and "gen9" == rig.ec2.find("own1")[0].mark.generation
    rig.ec2.update(handle, {"labels": {}})
    (machine,) = console.running(rig.store)
    assert (
        not {"team", "new", "gpus-labels"} & set(machine.labels)
        and "7" == machine.labels["CostCenter"]
    )


# The security group


def test_the_owners_group_lets_ssh_in_and_its_machines_at_each_other(rig):
    """One group for each owner, region and VPC: tcp 22 from anywhere, everything from and to
    itself; made once.
    """
    rig.got()
    rig.got(candidate(B), generation="gen2")
    (group,) = rig.left()[3]
    assert "gpus-own1" == group["GroupName"]
    ssh = next(rule for rule in group["IpPermissions"] if rule["IpProtocol"] == "tcp")
    assert (22, 22, "0.0.0.0/0") == (ssh["FromPort"], ssh["ToPort"], ssh["IpRanges"][0]["CidrIp"])
    for side in ("IpPermissions", "IpPermissionsEgress"):
        assert any(
            rule.get("UserIdGroupPairs")
            and rule["UserIdGroupPairs"][0]["GroupId"] == group["GroupId"]
            for rule in group[side]
        )
    rig.got(
        candidate(B), generation="gen3", options=(("security_group", places.made_up("sg", REGION)),)
    )
    assert 1 == rig.count("CreateSecurityGroup")


# gpus check


def test_check_tells_what_is_there(rig):
    """Credentials, account, regions, rights by DryRun and the four vCPU quotas; 0 is missing, not
    told is unknown.
    """
    rig.store.set_quota("aws", "", "L-417A185B", 0)
    rig.store.set_quota("aws", "us-east-2", "L-7212CCBC", 0)
    rig.store.add_fault(
        "aws", "service-quotas.GetServiceQuota", "forbidden", times=None, place="us-east-2"
    )
    found = {line.topic: line for line in rig.ec2.check()}
    assert {"ok"} == {
        found[topic].state
        for topic in (
            "credentials",
            "account",
            "regions",
            "rights to read",
            "rights to create",
            "quota P spot",
        )
    }
    assert (
        "unknown" == found["quota P on-demand"].state
        and "do not tell" in found["quota P on-demand"].found
    )
    rig.store.clear_faults()
    found = {line.topic: line for line in rig.ec2.check()}
    assert (
        "missing" == found["quota P on-demand"].state
        and "L-417A185B" in found["quota P on-demand"].todo
    )
    assert ("ok", True) == (
        found["quota P spot"].state,
        "0 in 1 regions" in found["quota P spot"].found,
    )
    assert [] == rig.left()[0], "DryRun makes nothing"


def test_check_tells_what_is_refused(rig):
    """Refused keys end the check with one line; a refused right names what to allow; an unreachable
    cloud is unknown.
    """
    rig.store.add_fault("aws", "sts.GetCallerIdentity", "unauthorized")
    (line,) = rig.ec2.check()
    assert ("credentials", "refused") == (line.topic, line.state)
    rig.store.add_fault("aws", "ec2.RunInstances", "forbidden")
    found = {line.topic: line for line in rig.ec2.check()}
    assert "refused" == found["rights to create"].state and "ec2:" in found["rights to create"].todo
    dead = Ec2("live", lambda: Client(SESSION, "http://127.0.0.1:9"))
    assert ["unknown"] == [line.state for line in dead.check()]


# Connecting


def test_a_rehearsal_needs_no_account_and_reads_none(tmp_path, monkeypatch):
    """Whatever AWS settings this machine has, a rehearsal reaches its own stand-in and no proxy;
    nothing is imported before the first call.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    adapter = connected(MANIFEST, "rehearsal", {"regions": "us-east-1, us-east-2"})
    assert ("aws", "rehearsal", None) == (adapter.name, adapter.world, adapter.offers())
    assert [] == adapter.find("own1") and adapter._open is None, "an untouched cloud is not asked"
    assert adapter.submit(order(candidate(machine_type="g6.xlarge")))
    assert 1 == len(connected(MANIFEST, "rehearsal", {}).find("own1"))


def test_live_without_credentials_is_not_configured(tmp_path, monkeypatch):
    """No keys, or a profile that is not there: NotConfigured with how to get them; never a
    rehearsal.
    """
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(NotConfigured, match="aws configure sso"):
        MANIFEST.connect("live", {})
    with pytest.raises(NotConfigured, match="no-such"):
        MANIFEST.connect("live", {"profile": "no-such"})
    with pytest.raises(NotConfigured, match="on this machine"):
        MANIFEST.connect("rehearsal", {"endpoint": "https://ec2.us-east-1.amazonaws.com"})


def test_without_boto3_it_is_one_clear_line(monkeypatch):
    """boto3 is an optional dependency: its absence says how to install it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NotConfigured, match=r"gpus\[aws\]"):
        MANIFEST.connect("live", {})


def test_boto3_lives_beside_the_plugins_protocol():
    """boto3 and pulumi's protocol buffers import together in one process, in either order, and the
    manifest imports neither.
    """
    for first, second in (("boto3", "pulumi.runtime.proto"), ("pulumi.runtime.proto", "boto3")):
        code = (
            "import sys, providers.adapters.aws as aws; assert not {'boto3', 'botocore',"
            f" 'sqlite3'}} & set(sys.modules)\nimport {first}, {second}\nfrom pulumi.runtime.proto"
            " import provider_pb2\nboto3.client('ec2', region_name='us-east-1',"
            " aws_access_key_id='x', aws_secret_access_key='x')\nassert"
            " provider_pb2.CreateRequest(urn='x').urn == 'x'"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


# The stand-in itself


def test_unknown_calls_parameters_and_values_are_refused(rig):
    """What botocore's own description has not, and what the stand-in does not serve, is refused
    with EC2's kind of error.
    """
    import urllib.error
    import urllib.request

    def sent(
        body,
        authorization="AWS4-HMAC-SHA256 Credential=x/20270115/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=x",
    ):
        request = urllib.request.Request(
            rig.server.url, body.encode(), {"Authorization": authorization}
        )
        try:
            return urllib.request.urlopen(request).read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()

    version = "Version=2016-11-15"
    for body, code in (
        (f"Action=RunAway&{version}", "InvalidAction"),
        (f"Action=PurchaseCapacityBlock&{version}", "InvalidAction"),
        (f"Action=RunInstances&{version}&MinCount=1&MaxCount=1&Colour=blue", "UnknownParameter"),
        (f"Action=RunInstances&{version}&MinCount=1", "MissingParameter"),
        (f"Action=RunInstances&{version}&MinCount=one&MaxCount=1", "InvalidParameterValue"),
        (
            f"Action=DescribeInstances&{version}&Filter.1.Name=colour&Filter.1.Value.1=x",
            "InvalidParameterValue",
        ),
        (f"Action=DescribeInstances&{version}&MaxResults=2", "InvalidParameterValue"),
        ("Action=DescribeRegions&Version=2000-01-01", "InvalidParameterValue"),
    ):
        assert f"<Code>{code}</Code>" in sent(body), body
    assert "AuthFailure" in sent(f"Action=DescribeRegions&{version}", "Basic x")
    assert "us-east-1a" in sent(f"Action=DescribeAvailabilityZones&{version}")
    assert "unknown" in {request.method for request in rig.store.requests()} or rig.store.requests(
        "ec2.RunInstances"
    )


def test_every_served_call_is_one_of_botocores():
    """The stand-in serves only operations that the installed botocore describes."""
    for service, found in calls.HANDLERS.items():
        assert set(found) <= set(wire.model(service).operation_names)


def test_reads_are_no_mutations_in_the_log(rig):
    """The log tells calls that only read from those that change something, though the protocol
    posts both; bodies are not kept.
    """
    ticket = rig.got(ssh_public_key="ssh-ed25519 AAAASECRET me")
    rig.ec2.observe(ticket.handles)
    changed = {request.method for request in rig.store.mutations()}
    assert {
        "ec2.CreateFleet",
        "ec2.CreateLaunchTemplate",
        "ec2.DeleteLaunchTemplate",
    } <= changed and not any("Describe" in name or "Get" in name for name in changed)
    assert not any("SECRET" in str(request) for request in rig.store.requests())


def test_latency_and_slowness_are_the_scenarios(rig):
    """A start takes what the scenario says; a slow one is waited for, not taken for a failure."""
    rig.store.set_latency("aws", "create", 100)
    ticket = rig.ec2.submit(order())
    rig.moment += 99
    assert "waiting" == rig.ec2.poll(ticket).state
    rig.moment += 2
    assert "done" == rig.ec2.poll(ticket).state
    rig.store.add_fault("aws", "ec2.CreateFleet", "slow", seconds=500)
    slow = rig.ec2.submit(order(candidate(B), generation="gen2"))
    rig.moment += 500
    assert "waiting" == rig.ec2.poll(slow).state
    rig.moment += 101
    assert "done" == rig.ec2.poll(slow).state


def test_two_servers_answer_as_one_cloud(rig):
    """Everything is in the store: another process's stand-in sees the machine and its refusals."""
    ticket = rig.got()
    other = aws.start(rig.store)
    try:
        second = rig.adapter(client=Client(SESSION, other.url))
        assert "running" == second.observe(ticket.handles)[0].status
        second.delete(ticket.handles[0])
    finally:
        other.close()
    assert "stopping" == rig.ec2.observe(ticket.handles)[0].status


def test_gpus_rehearse_knows_the_cloud(tmp_path, monkeypatch, capsys):
    """`gpus rehearse stock aws ...`, quota, fault and preempt work as for any cloud; a wrong place
    is told.
    """
    from providers.errors import SpecError
    from providers.cli.rehearse import run

    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    run(["stock", "aws", A, "p5.48xlarge", "spot", "0"])
    run(["quota", "aws", REGION, "L-417A185B", "384"])
    run(["fault", "aws", "ec2.CreateFleet", "op-error", "--set", "code=VcpuLimitExceeded"])
    said = capsys.readouterr().out
    assert "aws use1-az1 p5.48xlarge spot: sold out" in said and "L-417A185B: 384" in said
    with pytest.raises(SpecError, match="us-east-1"):
        run(["stock", "aws", "us-east-9", "H100", "spot", "0"])
    adapter = connected(MANIFEST, "rehearsal", {"regions": REGION})
    with pytest.raises(QuotaExceeded):
        adapter.submit(order())
    adapter.submit(order(candidate(B, "g6.xlarge", "spot")))
    run(["advance", "5s"])
    run(["preempt", "train-gen1-0"])
    assert "preempted: train-gen1-0" in capsys.readouterr().out
