"""What a rehearsal server knows of its cloud is its own; here it is held against the adapter's.

A difference is not always the adapter's mistake, but somebody has to look at the source.
"""

from providers.adapters.aws import machines as aws
from providers.adapters.clore import worlds
from providers.adapters.gcp.vertex import job, offers
from providers.adapters.gcp.vertex import regions as vertex_regions
from providers.adapters.modal import gpu as modal
from providers.adapters.modal import regions as modal_regions
from providers.adapters.modal import request
from providers.rehearsal import start
from providers.rehearsal.clouds.aws import machines
from providers.rehearsal.clouds.clore.access import KEY
from providers.rehearsal.clouds.modal import gpus
from providers.rehearsal.clouds.vertex import accelerators
from tests.present import present


def test_ec2_describes_its_types_as_the_adapter_has_them() -> None:
    """GPU, count, vCPUs, EFA interfaces and processor of each type; the limits' codes."""
    known = {name: (kind.gpu, kind.gpus, kind.vcpus, kind.efa) for name, kind in aws.TYPES.items()}
    assert known == {name: tuple(kind) for name, kind in machines.types().items()}
    for name in known:
        assert aws.architecture(name) == machines.architecture(name)
        assert tuple(aws.bucket(name)) == tuple(machines.limit_of(name))


def test_modal_sells_what_the_adapter_orders() -> None:
    """Names on the wire, largest counts, upgrades, regions, sizes of containers."""
    for name, sold in modal.SOLD.items():
        assert sold[:4] == tuple(gpus.GPUS[name])
        assert modal.read(sold.text)[0] == gpus.BY_TEXT[sold.text]
    assert set(modal.SOLD) == set(gpus.GPUS)
    assert set(modal_regions.REGIONS) == gpus.REGIONS
    assert (request.ANYWHERE, request.machine_type(8)) == (gpus.ANYWHERE, gpus.machine_type(8))


def test_vertex_takes_what_the_adapter_asks_for() -> None:
    """Accelerator types, regions, scheduling strategies."""
    assert offers.GPU_OF == accelerators.GPU_OF
    assert vertex_regions.LOCATIONS == accelerators.LOCATIONS
    assert {value: key for key, value in job.STRATEGIES.items()} == accelerators.CAPACITY_OF


def test_clore_takes_the_key_that_the_adapter_sends_in_a_rehearsal() -> None:
    """One word on both sides, and nobody's key."""
    assert worlds.REHEARSAL_KEY == KEY


def test_one_server_is_started_for_a_provider_and_a_store(tmp_path, monkeypatch) -> None:
    """Whoever asks in this process gets the same address until the servers are stopped."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    first, second = start.rehearsed("gcp"), start.rehearsed("gcp")
    try:
        assert present(first).endpoint() == present(second).endpoint()
        assert present(first).endpoint().endswith("/compute/v1/")
    finally:
        start.stop(tmp_path / "rehearsal.db")


def test_a_market_is_listed_without_a_store(tmp_path, monkeypatch) -> None:
    """A plan of a market in which nothing happened opens no file; its time is the real one."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    cloud = present(start.rehearsed("clore"))
    assert cloud.market() and cloud.untouched() and cloud.now() > 1_700_000_000
    assert not (tmp_path / "rehearsal.db").exists()


def test_a_provider_without_a_folder_is_not_rehearsed() -> None:
    """An outside adapter gets no server; it is connected as before."""
    assert start.rehearsed("somebody") is None
    assert start.clouds() == ("aws", "clore", "gcp", "modal", "ssh", "vertex")
