"""A second opinion on the happy path: the same adapter against moto's EC2, which others wrote. moto
refuses nothing and knows no client tokens.
"""

import uuid

import pytest

from providers.adapters.aws.adapter import Ec2
from providers.adapters.aws.client import Client, sealed_session
from providers.model.machine import Label, Order, Setup
from providers.model.offer import Candidate, Offer
from tests.present import present

REGION = "us-east-1"


@pytest.fixture(scope="module")
def url():
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def image(url):
    """An x86 image of moto's; its list of all takes it a second."""
    images = Client(sealed_session(), url).service("ec2", REGION).describe_images()["Images"]
    return next(item["ImageId"] for item in images if item["Architecture"] == "x86_64")


@pytest.mark.parametrize(
    ("capacity", "nodes"), [("on-demand", 1), ("spot", 1), ("on-demand", 2), ("spot", 2)]
)
def test_the_happy_path_against_moto(url, image, capacity, nodes) -> None:
    """Made by a fleet or a run, seen as ordered with its label, found by tags, relabelled,
    labelled, deleted, and nothing left behind.
    """
    client = Client(sealed_session(), url)
    ec2 = client.service("ec2", REGION)
    zones = {
        zone["ZoneName"]: zone["ZoneId"]
        for zone in ec2.describe_availability_zones()["AvailabilityZones"]
    }
    adapter = Ec2("rehearsal", lambda: client, regions=(REGION,), looks_s=(0.0,))
    first = zones["us-east-1a"]
    offer = Offer("aws", REGION, first, "g6.xlarge", "L4", 1, capacity, 804_800)
    label = Label(uuid.uuid4().hex[:8], "train", "gen1", "0123456789abcdef")
    setup = Setup(
        ssh_public_key="ssh-ed25519 AAAA me",
        ttl_s=3600,
        labels=(("team", "x"),),
        options=(("ami", image), ("placement_group", "none")),
    )
    order = Order(
        label,
        str(uuid.uuid4()),
        (Candidate(1, 0, offer, nodes, micro_usd=804_800),),
        tuple(f"n{i}" for i in range(nodes)),
        setup,
        900,
    )
    assert adapter.resume(order) is None

    ticket = adapter.poll(adapter.submit(order))
    assert ("done", nodes, first) == (
        ticket.state,
        len(ticket.handles),
        present(ticket.placed).zone,
    )
    assert {handle.native_id for handle in present(adapter.resume(order) and ticket.handles)} == {
        node.handle.native_id for node in adapter.find(label.owner)
    }
    for node in adapter.observe(ticket.handles):
        assert (label, "g6.xlarge", "L4", 1, capacity, "running") == (
            node.label,
            node.machine_type,
            node.gpu_type,
            node.gpu_count,
            node.capacity,
            node.status,
        )
    adapter.relabel(ticket.handles[0], "gen2")
    adapter.update(ticket.handles[0], {"labels": {"new": "1"}})
    (found,) = adapter.find(label.owner, "train", "gen2")
    assert found.handle == ticket.handles[0]
    for handle in ticket.handles:
        adapter.delete(handle)
    assert {"gone"} == {node.status for node in adapter.observe(ticket.handles)} and list(
        adapter.find(label.owner)
    ) == []
    assert ec2.describe_launch_templates()["LaunchTemplates"] == []
    assert not [
        group
        for group in ec2.describe_security_groups()["SecurityGroups"]
        if group["GroupName"] == f"gpus-{label.owner}"
    ]
