"""`gpus rehearse edit`: what of a machine can be changed at each cloud, and what is told of the
rest.
"""

import pytest

from providers.cli.rehearse import run
from providers.engine import operations
from providers.errors import SpecError
from providers.rehearsal.store import open_store
from providers.testing.bench import Bench
from tests.contract import test_aws, test_gcp, test_vertex


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Makes one machine at a cloud; its name."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    store = open_store()
    benches = []

    def make(harness):
        bench = Bench(harness, store)
        benches.append(bench)
        bench.run(operations.create(bench.world, bench.spec(), "g1"))
        return bench.knobs.running()[0].name

    yield make
    for bench in benches:
        bench.close()
    store.close()


def test_a_machine_type_or_gpus_are_changed(machine, capsys) -> None:
    """Google's machines by either; the listing shows what it is from then on."""
    name = machine(test_gcp.HARNESS)
    assert run(["edit", name, "g2-standard-24"]) == 0
    assert run(["edit", name, "l4:1"]) == 0
    run([])
    assert (
        f"{name}: L4:1 from now on" in (said := capsys.readouterr().out)
        and "g2-standard-24" in said
    )


@pytest.mark.parametrize(
    ("harness", "what", "said"),
    [
        (test_aws.HARNESS, "T4:4", "a machine type: its GPUs come with it"),
        (test_aws.HARNESS, "T4:", "what"),
        (test_vertex.HARNESS, "T4:1", "vertex lets nobody edit one"),
    ],
)
def test_what_a_cloud_cannot_change_is_told(machine, harness, what, said) -> None:
    """EC2's GPUs come with the machine type, and a job of Vertex AI takes no edits."""
    with pytest.raises(SpecError, match=said):
        run(["edit", machine(harness), what])


def test_an_unknown_machine_is_told_with_those_that_there_are(machine) -> None:
    """The name is not there."""
    name = machine(test_gcp.HARNESS)
    with pytest.raises(SpecError, match=f"there are: {name}"):
        run(["edit", "nobody", "T4:1"])
