"""What a cluster's state holds, and that it is small."""

import pytest

from providers.engine.record import ClusterRecord
from providers.model.machine import Attempt, Handle, Node, Setup
from providers.model.placement import Placement, Price
from providers.plugin import outputs
from providers.plugin.schema import CLUSTER_OUTPUTS
from providers.resources.cluster import GpuCluster


def a_record(nodes=1, attempts=2, **more):
    handles = tuple(
        Handle(
            "gcp",
            f"projects/my-project-123456/zones/us-central1-a/instances/train-0a1b2c3d-{index}",
        )
        for index in range(nodes)
    )
    return ClusterRecord(
        world="rehearsal",
        owner="0123456789ab",
        cluster="train",
        generation="ba9876543210",
        fingerprint="0123456789abcdef",
        status="running",
        placement=Placement(
            *("gcp", "us-central1", "us-central1-a", "a3-highgpu-8g", "H100", 8, nodes, "spot")
        ),
        price=Price(
            10_210_001,
            "2026-07-30",
            "a source with a rather long name, as they are:"
            " owner/repository@0123456789abcdef0123456789abcdef01234567:file.yml",
        ),
        handles=handles,
        machines=tuple(
            Node(
                handle,
                handle.native_id[-10:],
                "running",
                internal_ip=f"10.0.0.{i}",
                external_ip=f"192.0.2.{i}",
            )
            for i, handle in enumerate(handles, 1)
        ),
        attempts=tuple(
            Attempt(
                n,
                "gcp",
                f"europe-north{n}",
                (f"europe-north{n}-a", f"europe-north{n}-b"),
                ("a3-highgpu-8g",),
                "H100:8",
                "spot",
                1,
                "NoCapacity",
                "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
            )
            for n in range(1, attempts + 1)
        ),
        launched_at=1_800_000_000.0,
        ends_at=1_800_072_000.0,
        entry=1,
        applied=(("labels", "x"), ("ttl", "y")),
        **more,
    )


def test_outputs_have_the_documented_names() -> None:
    """Exactly the schema's names, and `schema: 1`."""
    written = outputs.write(a_record())
    assert set(written) == set(CLUSTER_OUTPUTS)
    assert written["schema"] == 1
    assert set(GpuCluster.__annotations__) | {"record"} == set(CLUSTER_OUTPUTS)


@pytest.mark.parametrize(("nodes", "attempts"), [(1, 0), (2, 5), (8, 60), (64, 200)])
def test_outputs_stay_small(nodes, attempts) -> None:
    """Under 2 KB, however many nodes and attempts; no machine's name is lost."""
    written = outputs.write(a_record(nodes, attempts), Setup(ports=(80, 8000)))
    assert outputs.size(written) < outputs.MAX_BYTES
    assert (
        outputs.read("rehearsal/0123456789ab/train/ba9876543210", written).handles
        == a_record(nodes).handles
    )


def test_what_is_held_is_read_back() -> None:
    """Everything that the engine needs to go on comes back from outputs and id; attempts and
    machines are in the journal.
    """
    for record in (
        a_record(3),
        a_record(
            1,
            0,
            reasons=("degraded: 1 of 2",),
            leftovers=(Handle("gcp", "x/y"),),
        ).with_terms({"reservation": "mine"}),
    ):
        back = outputs.read(outputs.resource_id(record), outputs.write(record))
        assert back == record._replace(attempts=(), machines=())


def test_unknown_prices_are_left_out() -> None:
    """An unknown price is absent, never zero."""
    written = outputs.write(a_record().with_terms({"micro_usd": None}))
    assert "price_usd_per_hour" not in written
    assert outputs.read("rehearsal/o/c/g", written).price.micro_usd is None


def test_the_ssh_line_needs_an_address() -> None:
    """No address, or not running: no line."""
    assert outputs.write(a_record()._replace(world="live"))["ssh"] == "ssh gpus@192.0.2.1"
    assert outputs.write(a_record()._replace(machines=()))["ssh"] == ""
    assert outputs.write(a_record()._replace(status="ended"))["ssh"] == ""
    assert outputs.write(a_record()._replace(status="queued"))["ssh"] == ""


def test_a_degraded_cluster_is_logged_into_at_a_machine_that_runs() -> None:
    """Some of several machines are lost: the line names one that is left, never the lost one."""
    three = a_record(3)
    lost, *left = three.machines
    degraded = three._replace(
        status="degraded", machines=(lost._replace(status="preempted"), *left)
    )
    assert "192.0.2.2" in outputs.write(degraded, Setup(ssh_public_key="ssh-ed25519 x"))["ssh"]
    assert (
        outputs.write(
            degraded._replace(machines=(degraded.machines[0],)),
            Setup(ssh_public_key="ssh-ed25519 x"),
        )["ssh"]
        == ""
    )


def test_the_ssh_line_is_one_that_works() -> None:
    """Without a key of yours Google's own command is shown, through its proxy where there is no
    address outside; what it is good for stands behind.
    """
    key = Setup(ssh_public_key="ssh-ed25519 AAAA")
    live = a_record()._replace(world="live")
    google = "gcloud compute ssh train-0a1b2c3d-0 --zone us-central1-a --project my-project-123456"
    assert outputs.write(live, key)["ssh"] == "ssh gpus@192.0.2.1"
    assert outputs.write(live, Setup())["ssh"] == google
    assert (
        outputs.write(live, key._replace(network=(("network", "n"),)))["ssh"]
        == f"{google} --tunnel-through-iap"
    )
    inside = live._replace(machines=tuple(node._replace(external_ip="") for node in live.machines))
    assert outputs.write(inside, key)["ssh"] == f"{google} --tunnel-through-iap"
    assert (
        outputs.write(a_record(2), key)["ssh"]
        == "ssh gpus@192.0.2.1 # the first of 2, see handles; a rehearsal: nothing listens there"
    )
    other = live.with_terms({"provider": "aws"})
    assert outputs.write(other, Setup())["ssh"] == "ssh gpus@192.0.2.1"


def test_a_server_over_several_nodes_is_asked_at_the_first() -> None:
    """The others answer nobody."""
    ports = Setup(ports=(8000,))
    assert outputs.write(a_record(2), ports, public=True, led=True)["endpoints"] == [
        "192.0.2.1:8000"
    ]


def test_ports_become_endpoints() -> None:
    """Public: each node's address with each port. Private: the line that carries each port of the
    first one here, at one that you may open. Mapped: the port outside.
    """
    ports = Setup(ports=(80,), ssh_public_key="ssh-ed25519 AAAA")
    assert outputs.write(a_record(2), ports, public=True)["endpoints"] == [
        "192.0.2.1:80",
        "192.0.2.2:80",
    ]
    assert outputs.write(a_record(2), ports)["endpoints"] == [
        "ssh gpus@192.0.2.1 -L 8080:localhost:80"
    ]
    (through,) = outputs.write(a_record(), ports._replace(ssh_public_key=""))["endpoints"]
    assert (
        through
        == "gcloud compute ssh train-0a1b2c3d-0 --zone us-central1-a --project my-project-123456 --"
        " -L 8080:localhost:80"
    )
    mapped = a_record()._replace(
        machines=tuple(node._replace(ports=((80, 5080),)) for node in a_record().machines)
    )
    assert outputs.write(mapped, ports)["endpoints"] == ["192.0.2.1:5080"]


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "rehearsal",
        "rehearsal/o/c",
        "rehearsal/o//g",
        "a/b/c/d/e",
        "projects/p/zones/z/instances/n",
    ],
)
def test_other_ids_are_refused(bad) -> None:
    """An id that is none of ours is named."""
    with pytest.raises(ValueError, match="WORLD/OWNER/CLUSTER/GENERATION"):
        outputs.parse_id(bad)
