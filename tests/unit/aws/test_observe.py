"""What the EC2 adapter observes: running, stopped, preempted, gone, and never gone by mistake."""

import pytest

from providers.adapters.aws.client import Client
from providers.errors import BadCredentials, NoCapacity, Transient, Unsupported
from providers.model.machine import Handle
from providers.rehearsal.clouds.aws import console, places
from tests.unit.aws.rig import REGION, candidate, order


def test_b29_a_preempted_machine_is_gone_and_says_so(rig) -> None:
    """EC2's Server.SpotInstanceTermination: preempted while it goes, gone (by name: preempted) once
    it is terminated, then unknown and still gone.
    """
    ticket = rig.launched(candidate(capacity="spot"))
    assert console.preempt(rig.store, "train-gen1-0") == 1
    assert rig.ec2.observe(ticket.handles)[0].status == "preempted"
    rig.moment += 2
    node = rig.ec2.observe(ticket.handles)[0]
    assert (
        node.status,
        node.detail,
    ) == ("gone", "preempted and deleted (Server.SpotInstanceTermination)")
    rig.moment += 4000
    assert rig.ec2.observe(ticket.handles)[0].status == "gone" and rig.ec2.find("own1") == []


def test_b29_a_region_that_cannot_be_reached_is_never_gone(rig) -> None:
    """403, 5xx and a dead connection are errors, never absence, for one machine and for a search."""
    ticket = rig.launched()
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
def test_b29_a_list_that_is_not_whole_is_an_error_and_never_gone(rig, monkeypatch, page) -> None:
    """EC2 names a reservation for the machines in it: an answer without them is not read as a
    machine that is gone.
    """
    handles = rig.launched().handles
    monkeypatch.setattr(Client, "pages", lambda *_, **__: iter([page]))
    for look in (lambda: rig.ec2.observe(handles), lambda: rig.ec2.find("own1")):
        with pytest.raises(Transient):
            look()


def test_b29_a_machine_that_is_not_listed_is_asked_for_by_its_id(rig, monkeypatch) -> None:
    """Gone is what EC2 says by name not to know: a list without it is not enough, and an answer
    that says neither is an error.
    """
    handles = rig.launched().handles
    monkeypatch.setattr(Client, "pages", lambda *_, **__: iter([{"Reservations": []}]))
    assert rig.ec2.observe(handles)[0].status == "running"
    monkeypatch.setattr(Client, "call", lambda *_, **__: {"Reservations": []})
    with pytest.raises(Transient):
        rig.ec2.observe(handles)


def test_a_stopped_machine_is_seen_as_stopped(rig) -> None:
    """A machine that somebody stopped exists and is told as stopped, with the code."""
    ticket = rig.launched()
    rig.boto("stop_instances", InstanceIds=[ticket.handles[0].native_id.split("/")[1]])
    assert rig.ec2.observe(ticket.handles)[0].status == "stopping"
    rig.moment += 2
    node = rig.ec2.observe(ticket.handles)[0]
    assert (
        node.status,
        node.external_ip,
    ) == ("stopped", "") and "Client.UserInitiatedShutdown" in node.detail


@pytest.mark.parametrize(("on_ttl", "status"), [("release", "gone"), ("keep", "ended")])
def test_the_end_of_the_run(rig, on_ttl, status) -> None:
    """The timer of the user data ends the machine: terminated, or stopped and told as ended where
    it is kept.
    """
    ticket = rig.launched(ttl_s=3600, on_ttl=on_ttl)
    rig.moment += 3590
    assert rig.ec2.observe(ticket.handles)[0].status == "running"
    rig.moment += 30
    node = rig.ec2.observe(ticket.handles)[0]
    assert status == node.status and "Client.InstanceInitiatedShutdown" in node.detail


def test_find_pages_through_every_region(rig, monkeypatch) -> None:
    """Machines of an owner are found over all regions and pages, narrowed by cluster and
    generation; others' are not.
    """
    for generation in ("gen1", "gen2"):
        rig.launched(
            candidate(machine_type="g6.xlarge", nodes=4),
            nodes=4,
            generation=generation,
            options=(("efa", False),),
        )
    rig.launched(candidate("use2-az1", "g6.xlarge"), cluster="other")
    rig.launched(candidate(machine_type="g6.xlarge"), owner="own2")
    monkeypatch.setattr("providers.adapters.aws.lookup.PAGE", 5)
    before = rig.count("DescribeInstances")
    assert len(rig.ec2.find("own1")) == 9 and rig.count("DescribeInstances") - before == 3
    assert tuple(
        map(
            len,
            (
                rig.ec2.find("own1", "train"),
                rig.ec2.find("own1", "train", "gen2"),
                rig.ec2.find("own1", "other"),
            ),
        )
    ) == (8, 4, 1)
    assert (
        len(rig.adapter(regions=()).find("own1"))
        + len(rig.adapter(regions=("us-east-1",)).find("own2"))
        == 10
    )


def test_a_machine_of_nobody_is_seen_without_a_label(rig) -> None:
    """An instance that carries no label (for import) is a node without one, its GPUs known by its
    type.
    """
    image = next(iter(places.images(REGION)))
    made = rig.boto(
        "run_instances", MinCount=1, MaxCount=1, InstanceType="g6.xlarge", ImageId=image
    )["Instances"][0]["InstanceId"]
    rig.moment += 2
    node = rig.ec2.observe([Handle("aws", f"{REGION}/{made}")])[0]
    assert (None, made, "L4", 1) == (node.label, node.name, node.gpu_type, node.gpu_count)
    with pytest.raises(Unsupported, match="us-east-1/i-0123456789abcdef0"):
        rig.ec2.observe([Handle("aws", "projects/p/zones/z/instances/n")])


def test_order_whose_machine_is_long_forgotten_has_ended(rig) -> None:
    """EC2 shows an ended machine for an hour. An order of the journal that is looked at later has
    ended: it is waited for no more, and nothing of it stands in the way of a destroy.
    """
    intended = order(candidate())._replace(intended_at=rig.store.now())
    ticket = rig.ec2.submit(intended)
    rig.boto("terminate_instances", InstanceIds=[dict(ticket.native)["instances"]])
    rig.sleep(7_200)
    with pytest.raises(NoCapacity):
        rig.ec2.poll(ticket)
    for age in (60, rig.store.now()):
        new = ticket._replace(order=intended._replace(intended_at=rig.store.now() - age))
        assert rig.ec2.poll(new).state == "waiting"
