"""What holds for part A's own machinery: its points, and the calls that it holds."""

import threading
import time

import pytest

from providers.adapters.rehearsal import open_store
from providers.engine.world import open_world
from providers.model.machine import Handle
from tests.crash.kills import BESIDES, STEPS, TWISTS, WHO, points
from tests.crash.kills_moments import MOMENTS
from tests.crash.point import CLOUDS


def test_every_step_is_cut_at_every_cloud_in_every_way():
    """Part A has over 60 points, none twice; each cloud sees everyone die, and every moment that is described is one of some step."""
    found = points(1)
    assert len(found) == len(set(found)) > 60
    for cloud in CLOUDS:
        names = [point.name.split("/") for point in found if point.cloud == cloud]
        assert set(WHO) <= {who for _, _, who, *_ in names}
        assert {"up", "update", "replace", "refresh", "destroy", "destroy-unrecorded"} <= {step for step, *_ in names}
    assert {moment for step in STEPS.values() for moment in step.moments} == set(MOMENTS)
    assert set(TWISTS) <= {name for *_, name in BESIDES}


HANDLES = {
    "gcp": "projects/rehearsal/zones/us-central1-a/instances/nobody",
    "aws": "us-east-1/i-0123456789abcdef0",
    "modal": "sandboxes/sb-nobody",
    "clore": "orders/1",
}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_late_call_is_carried_out_after_its_time(cloud, tmp_path, monkeypatch):
    """The fault `late`: the call has reached the stand-in, is not carried out before its seconds have passed, and is answered then."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    store = open_store()
    world = open_world("rehearsal", {"aws": {"regions": "us-east-1"}})
    adapter = world.adapter(cloud)
    store.add_fault(cloud, "*", "late", seconds=0.6)
    began = time.monotonic()
    look = threading.Thread(target=lambda: adapter.observe((Handle(cloud, HANDLES[cloud]),)))
    look.start()
    while store.faults() and look.is_alive():
        time.sleep(0.01)
    assert look.is_alive() and not any(found.fault for found in store.requests())
    look.join(30)
    assert time.monotonic() - began >= 0.6
    assert [found.fault for found in store.requests() if found.fault] == ["late"]
    world.close()
