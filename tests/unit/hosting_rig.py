"""The rehearsal's market, and the plan of a declared program in it."""

import pytest

from providers.engine.market import collect
from providers.engine.runtime.world import open_world
from providers.model.spec import read_cluster

LLAMA_70B = {"launcher": "vllm", "model": "meta-llama/Llama-3.1-70B", "dtype": "bf16"}


@pytest.fixture(scope="module")
def market_now(tmp_path_factory):
    """The rehearsal's market, looked at once."""
    patch = pytest.MonkeyPatch()
    patch.setenv("GPUS_HOME", str(tmp_path_factory.mktemp("home")))
    world = open_world("rehearsal")
    yield collect.market(world)
    world.close()
    patch.undo()


def planned(market_now, **declared):
    cluster = read_cluster("t", {"kind": "service", "providers": ["gcp", "aws"], **declared})
    return market_now.plan(cluster.ask(), setup=cluster.setup())


def refused(plan, rule):
    return {found.found for found in plan.rejections if found.rule == rule}
