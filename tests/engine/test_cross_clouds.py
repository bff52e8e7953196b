"""A declaration that names several clouds, walked by the engine over their rehearsal clouds: Google
Cloud first, then EC2.
"""

import asyncio
from unittest.mock import Mock

import pytest

from providers.adapters.aws.adapter import Ec2
from providers.adapters.guard import Cloud
from providers.catalog.table import table
from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.runtime.world import open_world
from providers.errors import AllFailed
from providers.model.machine import Setup
from providers.model.offer import Offer
from providers.model.spec import Cluster
from providers.rehearsal.store import open_store
from tests.engine.cases import Killed

GCP = [
    Offer(
        "gcp",
        "us-central1",
        f"us-central1-{zone}",
        "a3-highgpu-8g",
        "H100",
        8,
        "on-demand",
        88_490_000,
        "2026-07-30",
        "list",
    )
    for zone in "abc"
]
AWS = [
    Offer("aws", region, zone, "p5.48xlarge", "H100", 8, capacity, price, "2026-07-20", "list")
    for region, zone in (
        ("us-east-1", "use1-az1"),
        ("us-east-1", "use1-az2"),
        ("us-east-2", "use2-az1"),
    )
    for capacity, price in (("on-demand", 55_040_000), ("spot", 20_000_000))
]


class Walk:
    """One world of both rehearsal clouds, with everything it reported."""

    def __init__(self, **spec) -> None:
        self.store = open_store()
        for provider in ("gcp", "aws"):
            for step in ("create", "stockout", "delete", "preempt"):
                self.store.set_latency(provider, step, 0.0)
        self.lines: list[tuple[str, str]] = []
        settings = {"aws": {"regions": "us-east-1,us-east-2"}}
        self.world = open_world(
            "rehearsal",
            settings,
            lambda severity, text: self.lines.append((severity, text)),
            offers=table([*GCP, *AWS]),
        )
        self.spec = Cluster(
            name="train", gpu="H100:8", providers=("gcp", "aws"), rank="preference", **spec
        )
        self.wanted = ClusterSpec(
            "own1",
            "train",
            self.spec.ask(),
            Setup(ssh_public_key="ssh-ed25519 AAAA me"),
            self.spec.fingerprint(),
        )

    def run(self, coroutine):
        return asyncio.run(coroutine)

    def create(self, generation="gen1"):
        return self.run(operations.create(self.world, self.wanted, generation))

    def calls(self, method):
        return len(self.store.requests(method))


@pytest.fixture
def walk(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made = []

    def begin(**spec):
        made.append(Walk(**spec))
        return made[-1]

    yield begin
    for item in made:
        item.world.close()


def machines():
    from providers.cli.rehearse_state import state

    return state(open_store())["machines"]


def test_sold_out_on_one_cloud_lands_on_the_next(walk) -> None:
    """Google has none: one call tells so, and the next attempt is EC2, within the same run; delete
    leaves neither machine nor helper.
    """
    w = walk()
    w.store.set_stock("gcp", "", "a3-highgpu-8g", "", 0)
    record = w.create()
    assert (
        *(
            record.provider,
            record.placement.zone,
            record.placement.machine_type,
            record.placement.gpu_type,
            record.placement.gpu_count,
            record.status,
            record.reasons,
        ),
    ) == ("aws", "use1-az1", "p5.48xlarge", "H100", 8, "running", ())
    assert record.price.micro_usd == 55_050_959 and [
        attempt.provider for attempt in record.attempts
    ] == [
        "gcp",
        "aws",
    ]
    assert 1 == w.calls("ec2.CreateFleet") == w.calls("regionInstances.bulkInsert")
    assert w.run(operations.read(w.world, record)).status == "running"
    w.run(operations.delete(w.world, record))
    assert machines() == [] and w.run(operations.settle(w.world, "own1")) == ()
    assert w.calls("ec2.DeleteSecurityGroup") and w.calls("ec2.CreateLaunchTemplate") == w.calls(
        "ec2.DeleteLaunchTemplate"
    )


def test_b21_a_vcpu_limit_of_zero_costs_a_read_a_region(walk) -> None:
    """No vCPUs in us-east-1, as Service Quotas says: nothing is made there, then the next region;
    the limit is named.
    """
    w = walk(regions=("us-east-1", "us-east-2"))
    w.store.set_quota("aws", "us-east-1", "L-417A185B", 0)
    record = w.create()
    bought = w.calls("ec2.CreateFleet") + w.calls("ec2.RunInstances")
    assert (record.placement.region, bought) == ("us-east-2", 1)
    assert w.calls("ec2.CreateSecurityGroup") == 1
    assert (
        record.attempts[0].outcome,
        record.attempts[0].code,
    ) == ("QuotaExceeded", "VcpuLimitExceeded")


def test_what_a_refused_region_needed_goes_when_the_launch_ends(walk) -> None:
    """Orders of one region share a template, which goes when the launch ends; a group is made where
    a machine is. What a run left that was killed before it came to that, the next launch removes.
    """
    w = walk(regions=("us-east-1", "us-east-2"), spot="prefer")
    w.store.set_stock("aws", "", "p5.48xlarge", "", 0)
    ended = Cloud.launch_ended
    Cloud.launch_ended = lambda *_: None  # type: ignore[method-assign]
    try:
        with pytest.raises(AllFailed):
            w.create()
    finally:
        Cloud.launch_ended = ended  # type: ignore[method-assign]
    assert (w.calls("ec2.CreateLaunchTemplate"), w.calls("ec2.DeleteLaunchTemplate")) == (1, 0)
    later = walk(regions=("us-east-1", "us-east-2"), spot="prefer")
    later.store.advance(7_200)
    later.store.set_stock("aws", "use2-az1", "p5.48xlarge", "on-demand", 1)
    record = later.create("gen2")
    assert record.placement.region == "us-east-2"
    assert (w.calls("ec2.CreateSecurityGroup"), w.calls("ec2.DeleteSecurityGroup")) == (1, 0)
    made = (w.calls("ec2.CreateLaunchTemplate"), w.calls("ec2.DeleteLaunchTemplate"))
    assert made == (2, 1), "the second is told that the first is there already"


def test_machines_that_may_not_be_put_into_their_group_are_released(walk) -> None:
    """One is bought, and no second one elsewhere at EC2: the right is missing there too. The message
    says where the rights stand.
    """
    w = walk(regions=("us-east-1", "us-east-2"))
    w.store.set_stock("gcp", "", "a3-highgpu-8g", "", 0)
    w.store.add_fault("aws", "ec2.ModifyNetworkInterfaceAttribute", "forbidden", times=None)
    with pytest.raises(AllFailed, match="security group"):
        w.create()
    assert machines() == [] and w.calls("ec2.CreateFleet") + w.calls("ec2.RunInstances") == 1


def test_what_a_killed_run_left_and_may_not_be_let_in_is_released(walk, monkeypatch) -> None:
    """No other machine is bought at EC2 either; without a journal of it, too."""
    w = walk(regions=("us-east-1",))
    w.store.set_stock("gcp", "", "a3-highgpu-8g", "", 0)
    with monkeypatch.context() as patch:
        patch.setattr(Ec2, "poll", Mock(side_effect=Killed))
        with pytest.raises(Killed):
            w.create()
    forget(w)
    w.store.add_fault("aws", "ec2.ModifyNetworkInterfaceAttribute", "forbidden", times=None)
    with pytest.raises(AllFailed, match="security group"):
        w.create("gen2")
    assert machines() == [] and w.calls("ec2.CreateFleet") + w.calls("ec2.RunInstances") == 2


def forget(w) -> None:
    """Another home goes on, two minutes later."""
    with w.world.journal.change() as db:
        db.execute("DELETE FROM leases")
        db.execute("DELETE FROM orders")
    w.store.advance(120)


def test_what_a_killed_run_left_outside_its_group_is_let_in_by_another_homes_up(
    walk, monkeypatch
) -> None:
    """A run that places the cluster again is killed before its machine is in the security group.
    Another home has no journal of it: the refresh takes it over and says that nobody can log in.
    """
    w = walk(regions=("us-east-1",))
    w.store.set_stock("gcp", "", "a3-highgpu-8g", "", 0)
    record = w.create()
    w.world.adapter("aws").delete(record.handles[0])
    w.store.advance(120)
    with monkeypatch.context() as patch:
        patch.setattr(Ec2, "poll", Mock(side_effect=Killed))
        with pytest.raises(Killed):
            w.run(operations.update(w.world, record, w.wanted))
    forget(w)
    found = w.run(operations.read(w.world, record))
    assert found.handles != record.handles and "nobody can log in" in found.reasons[0]
    after = w.run(operations.update(w.world, found, w.wanted))
    assert (after.handles, after.reasons) == (found.handles, ())
    assert w.store.closed_off(after.handles[0].native_id) == ""
    assert w.run(operations.read(w.world, after)).reasons == ()
    assert w.calls("ec2.CreateFleet") + w.calls("ec2.RunInstances") == 2


def test_a_lost_answer_on_the_second_cloud_is_found_not_bought_again(walk) -> None:
    """The fleet's answer is lost after the work: found by its token; one creating call, one
    machine.
    """
    w = walk(regions=("us-east-1",))
    w.store.add_fault("aws", "ec2.CreateFleet", "reply-lost")
    record = w.create()
    assert (record.status, w.calls("ec2.CreateFleet"), len(machines())) == ("running", 1, 1)


def test_b29_a_preempted_machine_is_placed_anew(walk) -> None:
    """Taken back by EC2: the next read says that it is gone, its place is left alone, and the next
    create takes the next one.
    """
    from providers.rehearsal.clouds.aws import console

    w = walk(spot="only", regions=("us-east-1",))
    record = w.create()
    assert (record.placement.capacity, record.placement.zone) == ("spot", "use1-az1")
    assert console.preempt(w.store, record.machines[0].name) == 1
    assert w.run(operations.read(w.world, record)) is None
    again = w.create("gen2")
    assert again.placement.zone == "use1-az2" and len(machines()) == 1


@pytest.mark.parametrize("provider", ["gcp", "aws"])
def test_b45_a_lost_node_is_got_again_beside_the_rest(walk, provider) -> None:
    """One of two Spot machines is taken back: another one in the same zone, at EC2 in the placement
    group of the rest; delete leaves nothing.
    """
    from importlib import import_module

    w = walk(nodes=2, on_loss="replace-node", spot="only", ttl="20h")
    w.world.offers = table(
        [*(offer._replace(capacity="spot", node_micro_usd=10_000_000) for offer in GCP), *AWS]
    )
    w.wanted = w.wanted._replace(
        ask=w.wanted.ask._replace(providers=(provider,)), setup=w.spec.setup()
    )
    record = w.create()
    console = import_module(f"providers.rehearsal.clouds.{provider}.console")
    assert console.preempt(w.store, record.machines[1].name) == 1
    seen = w.run(operations.read(w.world, record, "replace-node"))
    assert seen.status == "degraded" and "preempted" in seen.reasons[0]
    after = w.run(operations.update(w.world, seen, w.wanted))
    assert ("running", record.placement.zone, 2, ()) == (
        after.status,
        after.placement.zone,
        len(after.handles),
        after.reasons,
    )
    assert (
        record.handles[0] in after.handles
        and record.handles[1] not in after.handles
        and len(machines()) == 2
    )
    assert record.price.micro_usd == after.price.micro_usd
    if provider == "aws":
        ec2 = w.world.adapter("aws").real.client.service("ec2", after.placement.region)
        ids = [handle.native_id.partition("/")[2] for handle in after.handles]
        found = [
            item["Placement"]["GroupName"]
            for one in ec2.describe_instances(InstanceIds=ids)["Reservations"]
            for item in one["Instances"]
        ]
        assert len(found) == 2 and found[0] == found[1] != ""
    w.run(operations.delete(w.world, after))
    assert machines() == []


def test_labels_are_edited_in_place(walk) -> None:
    """A change of labels is tags on the same machine."""
    w = walk(regions=("us-east-1",))
    record = w.create()
    changed = w.wanted._replace(setup=w.wanted.setup._replace(labels=(("team", "x"),)))
    after = w.run(operations.update(w.world, record, changed))
    assert record.handles == after.handles and machines()[0]["labels"]["team"] == "x"


def test_all_clouds_sold_out_is_one_line_per_attempt(walk) -> None:
    """Nothing anywhere: every attempt is listed with its cloud and code, and nothing is left."""
    w = walk()
    w.store.set_stock("gcp", "", "a3-highgpu-8g", "", 0)
    w.store.set_stock("aws", "", "p5.48xlarge", "", 0)
    with pytest.raises(AllFailed) as caught:
        w.create()
    assert [attempt.provider for attempt in caught.value.attempts] == ["gcp", "aws", "aws"]
    assert "InsufficientInstanceCapacity" in str(caught.value) and machines() == []
