"""One volume by the engine on the rehearsal clouds: made once whatever is cut short, kept, taken over
by its own stack only, and deleted for good.
"""

import asyncio
from contextlib import suppress
from importlib import import_module

import pytest

from providers.adapters.aws.volumes import Ebs
from providers.adapters.guard import Volumes
from providers.engine import operations, volume_spec, volumes
from providers.engine.journal.journal import Journal
from providers.engine.runtime.world import open_world
from providers.engine.termination import inventory, kept
from providers.engine.termination.verdicts import Claims
from providers.errors import GpusError, HalfMade, OutcomeUnknown, QuotaExceeded, Unsupported
from providers.home import JOURNAL_FILE
from providers.model.machine import Handle
from providers.model.volume import READY, Volume, VolumeSpec, stack_id
from providers.plugin import inputs
from providers.rehearsal.store import open_store

OWNER, LATER = "aabbccddeeff", "001122334455"
STACK = stack_id("project", "stack")
SPECS = {
    "gcp": VolumeSpec("data", "gcp", "us-central1-a", 200, "pd-balanced", "us-central1"),
    "aws": VolumeSpec("data", "aws", "use1-az4", 200, "gp3", "us-east-1"),
    "modal": VolumeSpec("data", "modal"),
}
CREATES = {"gcp": "disks.insert", "aws": "ec2.CreateVolume", "modal": "VolumeGetOrCreate"}
QUOTA = {"gcp": "SSD_TOTAL_GB", "aws": "VolumeLimitExceeded"}


class Rig:
    """One cloud's volumes; every verb is another process's."""

    def __init__(self, provider: str) -> None:
        self.provider, self.spec = provider, SPECS[provider]
        self.store = open_store()
        self.lines: list[str] = []

    def do(self, work):
        world = open_world("rehearsal", {}, lambda _severity, text: self.lines.append(text))
        try:
            return asyncio.run(work(world))
        finally:
            world.close()

    def create(self, owner=OWNER, former=(), **changes):
        spec = self.spec._replace(**changes)
        return self.do(lambda world: volumes.create(world, spec, owner, STACK, former, "a title"))

    def all(self):
        return self.do(_listed(self.provider))


def _listed(provider):
    async def listed(world):
        return await world.call(provider, world.adapter(provider).volumes.find)

    return listed


@pytest.fixture(params=sorted(SPECS))
def rig(request, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    return Rig(request.param)


DISKS = pytest.mark.parametrize("rig", ["aws", "gcp"], indirect=True)
"""What has a size, a place and one machine at a time."""


def test_a_volume_is_made_once_and_is_deleted_for_good(rig) -> None:
    made = rig.create()
    assert made.spec == rig.spec and (made.owner, made.users) == (OWNER, ())
    assert STACK.startswith(made.stack)
    assert rig.create().handle == made.handle
    assert len(rig.all()) == 1
    rig.do(lambda world: volumes.delete(world, "data", made.handle))
    assert rig.do(lambda world: volumes.read(world, made.handle)) is None
    rig.do(lambda world: volumes.delete(world, "data", made.handle))
    assert rig.all() == []


@DISKS
def test_a_volume_grows_in_place(rig) -> None:
    made = rig.create()
    grown = rig.create(size_gib=300)
    assert (grown.handle, grown.spec.size_gib) == (made.handle, 300)


@pytest.mark.parametrize("fault", ["reply-lost", "error-after", "malformed", "twice"])
def test_a_lost_answer_makes_no_second_volume(rig, fault) -> None:
    rig.store.add_fault(rig.provider, CREATES[rig.provider], fault)
    assert rig.create().status == READY
    assert len(rig.all()) == 1


class Killed(BaseException):
    """The process ends here."""


def test_a_run_killed_before_it_recorded_the_volume_leaves_the_next_one_the_same(
    rig, monkeypatch
) -> None:
    """The call was answered; nothing was written down of that."""
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "settled_volume", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            rig.create()
    (there,) = rig.all()
    assert rig.create().handle == there.handle
    assert len(rig.all()) == 1


def test_what_the_stack_left_is_taken_over_by_it_and_by_nobody_else(rig) -> None:
    made = rig.create()
    with pytest.raises(GpusError) as caught:
        rig.create(owner=LATER)
    assert "pulumi import gpu:index:Volume data rehearsal/" in str(caught.value)
    again = rig.create(owner=LATER, former=(OWNER,))
    assert again.handle == made.handle and again.owner == LATER
    assert any("taking over" in line for line in rig.lines)
    other = stack_id("project", "another")
    beside = rig.do(lambda world: volumes.create(world, rig.spec, "f" * 12, other))
    assert beside.handle != made.handle and len(rig.all()) == 2


@DISKS
def test_a_quota_that_is_too_small_is_told_and_nothing_is_left_to_settle(rig) -> None:
    rig.store.add_fault(rig.provider, CREATES[rig.provider], "quota", metric=QUOTA[rig.provider])
    with pytest.raises(QuotaExceeded):
        rig.create()
    assert rig.all() == []
    assert rig.create(size_gib=250).spec.size_gib == 250


@DISKS
def test_a_volume_of_another_place_or_type_is_not_taken_for_the_declared_one(rig) -> None:
    rig.create()
    with pytest.raises(GpusError, match="copy the data"):
        rig.create(type="pd-ssd")


def cluster(rig, name="train", **more):
    workload = {"command": "python3 t.py", "volumes": {"data": "/mnt/data"}}
    entry = {"gpu": "L4", "kind": "job", "workload": workload, **more}
    names = ("provider", "place", "size_gib", "type")
    place = {key: value for key in names if (value := getattr(rig.spec, key))}
    fields = volume_spec.mounted(entry, {"data": place})
    return inputs.cluster_spec_of({"world": "rehearsal", "owner": OWNER, "cluster": name, **fields})


@DISKS
def test_a_machine_has_its_volume_while_it_is_there_and_the_data_stays(rig) -> None:
    """A second machine is not made meanwhile; once the first one is gone, it is."""
    for step in ("create", "delete"):
        rig.store.set_latency(rig.provider, step, 0.1)
    made = rig.create()
    first = rig.do(lambda world: operations.create(world, cluster(rig), "a" * 12))
    assert first.placement.zone == rig.spec.place
    (machine,) = rig.do(lambda world: volumes.read(world, made.handle)).users
    assert first.handles[0].native_id.endswith(machine)
    with pytest.raises(GpusError) as caught:
        rig.do(lambda world: operations.create(world, cluster(rig, "other"), "b" * 12))
    said = " ".join(str(caught.value).split())
    assert "release that machine first" in said and "1 try " in said, said
    rig.do(lambda world: operations.delete(world, first))
    assert rig.do(lambda world: volumes.read(world, made.handle)).users == ()
    second = rig.do(lambda world: operations.create(world, cluster(rig, "other"), "c" * 12))
    assert len(rig.do(lambda world: volumes.read(world, made.handle)).users) == 1
    rig.do(lambda world: operations.delete(world, second))
    assert [each.handle for each in rig.all()] == [made.handle]


@pytest.mark.parametrize("fault", ["reply-lost", "twice", "error-after"])
@pytest.mark.parametrize("rig", ["gcp"], indirect=True)
def test_a_lost_answer_makes_no_second_machine_and_no_orphan_with_the_disk(rig, fault) -> None:
    """That an order's own machine has the disk already does not refuse the order."""
    made = rig.create()
    rig.store.add_fault("gcp", "instances.insert", fault)
    first = rig.do(lambda world: operations.create(world, cluster(rig), "a" * 12))
    (machine,) = rig.do(lambda world: volumes.read(world, made.handle)).users
    assert [each.native_id.rpartition("/")[2] for each in first.handles] == [machine]


@pytest.mark.parametrize("rig", ["gcp"], indirect=True)
def test_several_machines_read_one_disk(rig) -> None:
    """All of them have it attached, and none can write."""
    made = rig.create()
    use = {"path": "/mnt/data", "mode": "ro"}
    workload = {"launcher": "torchrun", "command": "t.py", "volumes": {"data": use}}
    spec = cluster(rig, nodes=2, workload=workload)
    first = rig.do(lambda world: operations.create(world, spec, "a" * 12))
    assert len(rig.do(lambda world: volumes.read(world, made.handle)).users) == 2
    with pytest.raises(GpusError, match="VOLUME"):
        rig.do(lambda world: operations.create(world, cluster(rig, "other"), "b" * 12))
    rig.do(lambda world: operations.delete(world, first))


@DISKS
def test_a_machine_that_is_found_by_its_label_alone_has_the_volume_or_is_made_anew(
    rig, tmp_path, monkeypatch
) -> None:
    """EC2 attaches a volume after the launch: a run that was killed in between, and whose journal
    is not here, leaves a machine without it.
    """
    rig.store.set_latency(rig.provider, "job", 36_000)
    made = rig.create()
    with monkeypatch.context() as patch:
        patch.setattr(Ebs, "attach", lambda *_: (_ for _ in ()).throw(Killed))
        with suppress(Killed):
            rig.do(lambda world: operations.create(world, cluster(rig), "a" * 12))
    console = import_module(f"providers.rehearsal.clouds.{rig.provider}.console")
    assert len(console.running(rig.store)) == 1
    for file in tmp_path.glob(f"{JOURNAL_FILE}*"):
        file.unlink()
    after = rig.do(lambda world: operations.create(world, cluster(rig), "b" * 12))
    (machine,) = rig.do(lambda world: volumes.read(world, made.handle)).users
    assert [each.native_id.rpartition("/")[2] for each in after.handles] == [machine]
    rig.store.advance(300)
    assert len(console.running(rig.store)) == 1


@DISKS
def test_a_preempted_machine_gives_its_volume_to_the_one_that_replaces_it(rig) -> None:
    """Also where the cloud keeps it, stopped, with its disks."""
    for step in ("create", "delete", "preempt"):
        rig.store.set_latency(rig.provider, step, 0.1)
    rig.store.set_latency(rig.provider, "job", 36_000)
    own = {"overrides": [{"provider": rig.provider, "price_usd_per_hour": 0.3}]}
    made, spec = rig.create(), cluster(rig, spot="only", prices=own)
    first = rig.do(lambda world: operations.create(world, spec, "a" * 12))
    console = import_module(f"providers.rehearsal.clouds.{rig.provider}.console")
    (name,) = (each.name for each in console.running(rig.store))
    assert console.preempt(rig.store, name) == 1
    rig.store.advance(120)
    seen = rig.do(lambda world: operations.read(world, first))
    again = rig.do(
        lambda world: (
            operations.update(world, seen, spec)
            if seen is not None
            else operations.create(world, spec, "b" * 12)
        )
    )
    assert again.status == "running" and again.handles != first.handles
    (machine,) = rig.do(lambda world: volumes.read(world, made.handle)).users
    assert again.handles[0].native_id.endswith(machine)


def test_a_machine_whose_volume_is_not_there_is_not_made(rig) -> None:
    with pytest.raises(GpusError) as caught:
        rig.do(lambda world: operations.create(world, cluster(rig), "a" * 12))
    assert "wanted the volume data, found none" in " ".join(str(caught.value).split())


@pytest.mark.parametrize("rig", ["modal"], indirect=True)
@pytest.mark.parametrize("kind", ["job", "machine"])
def test_modal_mounts_a_volume_in_a_function_and_in_a_sandbox(rig, kind) -> None:
    """Its own name at Modal says whose it is; another owner is another name."""
    made = rig.create()
    spec = cluster(rig, kind=kind)
    first = rig.do(lambda world: operations.create(world, spec, "a" * 12))
    assert first.provider == "modal"
    sent = b"".join(
        bytes(value)
        for table in ("modal_sandbox", "modal_function")
        for row in rig.store.connection().execute(f"SELECT * FROM {table}")  # noqa: S608
        for value in row
        if isinstance(value, bytes)
    )
    assert made.handle.native_id.encode() in sent and b"/mnt/data" in sent
    rig.do(lambda world: operations.delete(world, first))
    assert [each.handle for each in rig.all()] == [made.handle]


class Lagging:
    """A store whose lists show nothing, and whose answers are lost; it does one token's work
    once.
    """

    def __init__(self) -> None:
        self.made: dict[str, Volume] = {}
        self.answers = 0

    def create(self, order):
        handle = Handle("gcp", f"projects/p/zones/z/disks/d{len(self.made)}")
        made = self.made.setdefault(
            order.token, Volume(handle, order.spec, READY, order.owner, order.stack)
        )
        if not self.answers:
            raise OutcomeUnknown("lost", provider="gcp")
        return made

    def find(self, *, owner="", stack="", name=""):
        return []

    def look(self, handle):
        return next((each for each in self.made.values() if each.handle == handle), None)

    def _never(self, *_):
        raise AssertionError("nothing of a volume is to be changed")

    grow = claim = delete = _never


def test_while_nothing_is_certain_every_run_sends_the_same_token(tmp_path, monkeypatch) -> None:
    """Two runs end without an answer; the third one learns of the volume that the first one made."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    rig, cloud = Rig("gcp"), Lagging()
    monkeypatch.setattr(
        "providers.adapters.guard.Cloud.volumes",
        property(lambda self: Volumes(cloud, self._readable)),
    )
    for _ in range(2):
        with pytest.raises(OutcomeUnknown, match="the same token"):
            rig.create()
    cloud.answers = 1
    assert rig.create().status == READY
    assert len(cloud.made) == 1


def test_a_volume_in_use_is_not_deleted(rig, monkeypatch) -> None:
    made = rig.create()
    monkeypatch.setattr(volumes, "WAIT_S", 0.0)
    monkeypatch.setattr(Volumes, "look", lambda _self, _handle: made._replace(users=("train-1",)))
    with pytest.raises(HalfMade, match="attached to train-1; it is still billed"):
        rig.do(lambda world: volumes.delete(world, "data", made.handle))
    monkeypatch.undo()


def test_a_sweep_lists_a_volume_and_whose_it_is_and_deletes_none(rig) -> None:
    made = rig.create()
    claims = Claims(volumes={made.handle: "project/stack"})
    ((claimed,), ()) = rig.do(lambda world: kept.survey(world, claims))
    assert (claimed.volume.handle, claimed.stack) == (made.handle, "project/stack")
    ((left,), ()) = rig.do(lambda world: kept.survey(world, Claims()))
    assert left.stack == "" and "a sweep deletes no volume" in left.why
    found = rig.do(lambda world: inventory.survey(world, Claims()))
    assert found.found == ()
    assert [each.handle for each in rig.all()] == [made.handle]


def test_a_provider_without_volumes_says_so(rig) -> None:
    with pytest.raises(Unsupported, match="clore has no volumes"):
        rig.do(_listed("clore"))
