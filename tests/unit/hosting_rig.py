"""The rehearsal's market, and the plan of a declared program in it."""

from collections.abc import Iterator
from typing import Any

import pytest

from providers.engine.market import collect
from providers.engine.market.snapshot import Market
from providers.engine.runtime.world import open_world
from providers.model.spec import read_cluster
from providers.planner.plan import Plan

LLAMA_70B = {"launcher": "vllm", "model": "meta-llama/Llama-3.1-70B", "dtype": "bf16"}


@pytest.fixture(scope="module")
def market_now(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Market]:
    """The rehearsal's market, looked at once."""
    patch = pytest.MonkeyPatch()
    patch.setenv("GPUS_HOME", str(tmp_path_factory.mktemp("home")))
    world = open_world("rehearsal")
    yield collect.market(world)
    world.close()
    patch.undo()


def planned(market_now: Market, **declared: Any) -> Plan:
    cluster = read_cluster("t", {"kind": "service", "providers": ["gcp", "aws"], **declared})
    return market_now.plan(cluster.ask(), setup=cluster.setup())


def refused(plan: Plan, rule: str) -> set[str]:
    return {found.found for found in plan.rejections if found.rule == rule}
