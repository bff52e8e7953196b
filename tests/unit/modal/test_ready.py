"""A declared Modal machine is looked into as every other one: through the client's own exec, with
the real client against the stand-in.
"""

import asyncio

import pytest

from providers.adapters import modal
from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.readiness import access
from providers.engine.runtime.world import open_world
from providers.errors import AllFailed
from providers.model.machine import Setup
from providers.model.spec import read_cluster
from providers.rehearsal.clouds import modal as standin
from providers.remote.provider_exec import Own
from providers.remote.ssh import SshProbe
from tests.unit.modal.cloud import Cloud

H100, H200, T4 = (
    "NVIDIA H100 80GB HBM3, 81559 MiB",
    "NVIDIA H200, 143771 MiB",
    "Tesla T4, 15360 MiB",
)


class Moving:
    """The live world's clock: the stand-in's, which a sleep moves."""

    def __init__(self, cloud) -> None:
        self.cloud = cloud

    def now(self):
        return self.cloud.time

    async def sleep(self, seconds) -> None:
        self.cloud.wait(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    cloud = Cloud(tmp_path)
    cloud.server.close()
    cloud.server = standin.start(cloud.store, tcp=True)
    (tmp_path / "tools").mkdir()
    for name, value in {
        "GPUS_HOME": str(tmp_path / "home"),
        "MODAL_SERVER_URL": cloud.server.tcp_url,
        "MODAL_TOKEN_ID": "ak-test",
        "MODAL_TOKEN_SECRET": "as-test-secret",
        "MODAL_CONFIG_PATH": str(tmp_path / "none.toml"),
        "PATH": f"{tmp_path / 'tools'}:/usr/bin:/bin",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("time.time", lambda: cloud.time)
    yield Bench(cloud, tmp_path)
    cloud.close()


class Bench:
    def __init__(self, cloud, folder) -> None:
        self.cloud, self.folder = cloud, folder
        self.lines: list[str] = []

    def drivers(self, *cards) -> None:
        """What the driver shows in the first sandbox that is asked, in the second, and so on."""
        asked = self.folder / "asked"
        cases = "\n".join(
            f"  {number}) printf '{card}\\n' ;;" for number, card in enumerate(cards, 1)
        )
        script = (
            f'grep -qx "$GPUS_STAND_IN" {asked} 2>/dev/null || echo "$GPUS_STAND_IN" >>{asked}\n'
            f'case $(grep -nx "$GPUS_STAND_IN" {asked} | cut -d: -f1) in\n{cases}\nesac\n'
        )
        tool = self.folder / "tools" / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\n{script}")
        tool.chmod(0o700)

    def declared(self, ready="checked", do=operations.create, **spec):
        made = read_cluster(
            "train", {"gpu": "H100:1", "wait": "2m", "ttl": "2h", "providers": ["modal"], **spec}
        )
        cluster_spec = ClusterSpec(
            "own", "train", made.ask(), Setup(ttl_s=7_200), made.fingerprint(), ready=ready
        )
        self.world = open_world(
            "live",
            {},
            lambda _severity, text: self.lines.append(text),
            manifests={"modal": modal.MANIFEST},
            clock=Moving(self.cloud),
        )
        try:
            return asyncio.run(do(self.world, cluster_spec, "g1"))
        finally:
            self.world.close()

    def running(self):
        return (
            self.cloud.store.connection()
            .execute("SELECT gpu FROM modal_sandbox WHERE ended IS NULL")
            .fetchall()
        )


def test_b32_a_declared_sandbox_with_another_gpu_is_ended_and_the_next_place_is_tried(
    bench,
) -> None:
    """Modal says that it runs, its driver shows another card: that sandbox is ended, the attempt
    says so, and the next choice is launched.
    """
    bench.drivers(T4, H200)
    record = bench.declared(fallback=["H200:1"])
    first, last = record.attempts
    assert (first.outcome, first.code) == ("HalfMade", "wrong-gpus") and "Tesla T4" in first.message
    assert (
        last.outcome == "acquired"
        and record.placement.gpu_type == "H200"
        and len(bench.running()) == 1
    )
    assert not any("not looked at" in line for line in bench.lines)


def test_a_declared_sandbox_is_had_once_its_driver_shows_what_was_ordered(bench) -> None:
    """The GPU that was ordered, or Modal's own upgrade of it at its price; what was bought
    elsewhere is looked at too, and logged into.
    """
    bench.drivers(H200)
    record = bench.declared()
    assert (record.status, len(record.attempts), record.reasons) == ("running", 1, ())
    way = access.connection(bench.world, record)
    assert isinstance(way, SshProbe)
    line = way.line(record.machines[0])
    assert isinstance(line, Own)
    assert line.shown == f"modal shell {record.handles[0].native_id}" and line.program[-1] == "run"


def test_b30_a_sandbox_without_a_driver_is_not_ready(bench) -> None:
    """Where no driver answers within the wait, the sandbox is ended and nothing is left; `ready:
    running` takes Modal's word.
    """
    bench.drivers()
    with pytest.raises(AllFailed, match="no driver"):
        bench.declared(wait="5s")
    assert bench.running() == []
    record = bench.declared(ready="running")
    assert record.status == "running" and len(bench.running()) == 1
