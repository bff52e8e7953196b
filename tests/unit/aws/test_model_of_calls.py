"""The comparison with other tools counts our calls by a model of them: it is the adapter's."""

import contextlib

import pytest

from providers.errors import NoCapacity
from tests.benchmarks.market import BASE, Market
from tests.benchmarks.simulated_cloud import AWS, START, SimulatedCloud, sold_in
from tests.unit.aws.rig import REGION, A, B, candidate, order
from tests.virtual_time import VirtualClock


@pytest.mark.parametrize("zones", [(A,), (A, B), sold_in(REGION, "p5.48xlarge")])
@pytest.mark.parametrize("share", [0.01, 0.99])
def test_model_counts_the_calls_that_the_adapter_makes(rig, zones, share) -> None:
    """A launch in a region, and its end: of two orders that are refused, or one that is granted."""
    has_room = share > 0.5
    market = Market(1, share, BASE._replace(no_quota=0.0, by_all=1.0, by_region=0.0))
    model = SimulatedCloud(AWS, market, VirtualClock(START), bare=False)
    if not has_room:
        rig.store.set_stock("aws", "", "p5.48xlarge", "", 0)
    for _ in range(1 if has_room else 2):
        wanted = order(*(candidate(zone) for zone in zones))
        with contextlib.nullcontext() if has_room else pytest.raises(NoCapacity):
            rig.finish(rig.ec2.submit(wanted))
        with contextlib.nullcontext() if has_room else pytest.raises(NoCapacity):
            model.poll(model.submit(wanted))
    for cloud in (rig.ec2, model):
        cloud.launch_ended("own1", "train", [] if has_room else [REGION])
    changed = [request.method for request in rig.store.mutations()]
    creates = [method for method in changed if method in ("ec2.RunInstances", "ec2.CreateFleet")]
    assert (market.mutations, market.creates) == (len(changed), len(creates)), changed
