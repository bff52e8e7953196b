"""Modal may deliver an H200 for an H100 at the same price: said at the purchase; exactly an H100 is
asked for as such.
"""

import pytest

pytest.importorskip("modal")

from providers.adapters.modal import request
from providers.engine import operations
from providers.errors import AllFailed
from providers.plugin import outputs
from providers.rehearsal.store import open_store
from providers.testing.bench import Bench
from tests.contract.test_modal import HARNESS


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    """Opens a bench for a GPU at a Modal that has H200s, and no H100."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    store = open_store()
    made = []

    def ordering(gpu):
        made.append(Bench(HARNESS._replace(gpu=gpu), store))
        store.set_stock("modal", "", "", "on-demand", 0, "H100")
        store.set_stock("modal", "", "", "on-demand", 3, "H200")
        return made[-1]

    yield ordering
    for bench in made:
        bench.close()
    store.close()


@pytest.mark.parametrize("gpu", ["H100:2", "H100:1"])
def test_an_upgrade_is_said_at_the_purchase(cloud, gpu) -> None:
    """The outputs and a line say what was delivered at once; a later look finds no difference."""
    bench = cloud(gpu)
    record = bench.run(operations.create(bench.world, bench.spec(), "g1"))
    assert record.detail == "upgraded to H200 at the price of H100"
    assert outputs.write(record)["detail"] == record.detail
    assert f"info: train: {record.detail}" in bench.said
    seen = bench.run(operations.read(bench.another_world(), record))
    assert (seen.detail, seen.bought, seen.reasons) == (record.detail, (), ())
    bench.run(operations.delete(bench.world, record))


@pytest.mark.parametrize("gpu", ["H100-SXM:2", "H100!:2", "h100 sxm5:1"])
def test_exactly_an_h100_is_asked_for_as_such(cloud, gpu) -> None:
    """It is sent as `H100!`: no other card is taken for it."""
    bench = cloud(gpu)
    (candidate,) = bench.candidates()
    assert (
        candidate.exact
        and request.compile_order(bench.order(candidate)).gpu == f"H100!:{candidate.gpu_count}"
    )
    with pytest.raises(AllFailed):
        bench.run(operations.create(bench.world, bench.spec(), "g1"))
    bench.exist(0, "none is exactly that")
