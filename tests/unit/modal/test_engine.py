"""The engine's walk over Google Cloud and Modal in a rehearsal, with a clock that does not wait."""

import asyncio

import pytest

from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.runtime.world import open_world
from providers.errors import AllFailed
from providers.model.machine import Setup
from providers.model.spec import read_cluster
from providers.rehearsal.store import open_store
from tests.present import present


class Jumping:
    """The rehearsal's clock; a sleep moves the world instead of waiting."""

    def __init__(self, store) -> None:
        self.store = store

    def now(self):
        return self.store.now()

    async def sleep(self, seconds) -> None:
        self.store.advance(seconds)
        await asyncio.sleep(0)


class Rig:
    def __init__(self) -> None:
        self.store = open_store()
        self.said: list[str] = []
        self.world = open_world(
            "rehearsal",
            {},
            lambda _severity, text: self.said.append(text),
            clock=Jumping(self.store),
        )

    def wanted(self, **spec):
        spec = {"gpu": "H100:8", "wait": "2m", "ttl": "20h", **spec}
        made = read_cluster("train", spec)
        options = tuple((name, dict(section)) for name, section in made.options.items())
        return ClusterSpec(
            "owner1", "train", made.ask(), Setup(ttl_s=72_000, options=options), made.fingerprint()
        )

    def create(self, wanted, generation="g1"):
        return asyncio.run(operations.create(self.world, wanted, generation))

    def sandboxes(self):
        return (
            self.store.connection()
            .execute("SELECT status FROM modal_sandbox WHERE ended IS NULL")
            .fetchall()
        )


@pytest.fixture
def rig(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    made = Rig()
    yield made
    made.world.close()


def test_what_google_has_not_modal_has(rig) -> None:
    """With Google sold out everywhere the walk ends on Modal, at the price of what is reserved
    there; read, delete and settle leave nothing.
    """
    rig.store.set_stock("gcp", "", "", "", 0)
    wanted = rig.wanted(providers=["gcp", "modal"], options={"modal": {"cpu": 8, "memory_gib": 64}})
    record = rig.create(wanted)
    assert (
        record.status,
        record.provider,
        record.placement.region,
        record.placement.gpu_type,
        record.placement.gpu_count,
    ) == ("running", "modal", "any", "H100", 8)
    assert 34_000_000 < record.price.micro_usd < 35_000_000
    assert record.machines[0].login == f"modal shell {record.handles[0].native_id}"
    assert present(asyncio.run(operations.read(rig.world, record))).status == "running"
    asyncio.run(operations.delete(rig.world, record))
    assert (
        rig.sandboxes() == [] and tuple(asyncio.run(operations.settle(rig.world, "owner1"))) == ()
    )


def test_a_modal_queue_that_never_moves_ends_on_the_next_provider(rig) -> None:
    """Modal refuses nothing and starts nothing: after the wait its sandbox is ended and Google has
    the machine.
    """
    rig.store.set_stock("modal", "", "", "", 0)
    record = rig.create(rig.wanted(providers=["modal", "gcp"]))
    assert [attempt.outcome for attempt in record.attempts] == ["NoCapacity", "acquired"]
    assert record.provider == "gcp" and rig.sandboxes() == []
    assert 120 <= record.attempts[0].seconds < 140


def test_a_queue_blocks_its_own_count_alone(rig) -> None:
    """Eight GPUs that did not come say nothing about one: the fallback of the same model is tried."""
    rig.store.set_stock("modal", "", "container-8", "", 0)
    record = rig.create(rig.wanted(providers=["modal"], fallback=["H100:1"]))
    assert (record.provider, record.placement.gpu_count) == ("modal", 1)


def test_nothing_anywhere_is_one_line_for_each_try(rig) -> None:
    """When no provider has any, the end names every try and nothing is left."""
    rig.store.set_stock("modal", "", "", "", 0)
    with pytest.raises(AllFailed, match="modal any region container H100:8"):
        rig.create(rig.wanted(providers=["modal"]))
    assert rig.sandboxes() == []


@pytest.mark.parametrize("kind", ["reply-lost", "error-after"])
def test_a_lost_reply_buys_once(rig, kind) -> None:
    """Modal did the work and the answer was lost: the engine adopts that one sandbox and buys no
    other.
    """
    rig.store.add_fault("modal", "SandboxCreate", kind)
    record = rig.create(rig.wanted(providers=["modal", "gcp"]))
    assert record.provider == "modal" and len(rig.sandboxes()) == 1
    assert len(rig.store.requests("SandboxCreate")) == 1


def test_a_refused_token_goes_on_and_is_told(rig) -> None:
    """A token that Modal refuses ends nothing: the next provider is tried."""
    rig.store.add_fault("modal", "SandboxCreate", "unauthorized", None)
    record = rig.create(rig.wanted(providers=["modal", "gcp"]))
    assert [attempt.outcome for attempt in record.attempts] == ["BadCredentials", "acquired"]


def test_b46_destroy_waits_for_the_container_list(rig) -> None:
    """A deletion that Modal accepted is confirmed only when the container is off the list."""
    rig.store.set_latency("modal", "delete", 90)
    record = rig.create(rig.wanted(providers=["modal"]))
    begun = rig.store.now()
    asyncio.run(operations.delete(rig.world, record))
    assert rig.store.now() - begun >= 90


def test_an_upgrade_at_the_same_price_is_accepted(rig) -> None:
    """An H100 that Modal made an H200 is what was ordered; an exact ask never gets one."""
    rig.store.set_stock("modal", "", "", "", 0, gpu="H100")
    rig.store.set_stock("modal", "", "", "", None, gpu="H200")
    record = rig.create(rig.wanted(providers=["modal"]))
    assert record.placement.gpu_type == "H100" and "upgraded to H200" in record.machines[0].detail
    asyncio.run(operations.delete(rig.world, record))
    with pytest.raises(AllFailed):
        rig.create(rig.wanted(gpu="H100!:8", providers=["modal"]), "g2")
