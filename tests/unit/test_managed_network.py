"""A managed network: what cannot be reached through it is refused in the plan too, before it is
made.
"""

from typing import Any

import pytest

from providers import api
from providers.engine.market import planning
from providers.model.machine import MANAGED
from providers.model.spec import read_cluster
from providers.plugin import inputs

SPEC: dict[str, Any] = {
    "gpu": "L4:1",
    "kind": "job",
    "providers": ["gcp"],
    "regions": ["us-central1"],
    "network": "managed",
    "workload": {"command": "python3 train.py"},
}
LINKS = {"network": "projects/p/global/networks/n", "subnetwork.us-central1": "s"}


@pytest.mark.parametrize(
    "more", [{"nodes": 2}, {"accept": "quick"}], ids=lambda more: next(iter(more))
)
def test_what_a_managed_network_keeps_out_is_refused_by_the_rule_reach_in_every_plan(more) -> None:
    """In `gpus plan` as in `up`, which knows the network's wiring."""
    cluster = read_cluster("t", {**SPEC, **more})
    wired = inputs.setup(cluster, {"network_links": LINKS})
    for setup in (cluster.setup(), wired):
        plan = planning.walked(cluster.ask(), setup=setup)
        assert not plan.candidates and set(plan.rejected_by_rule) >= {"reach"}
    assert api.plan(cluster).best is None


def test_a_managed_network_keeps_no_place_from_a_job_that_needs_no_login() -> None:
    assert api.plan(read_cluster("t", {**SPEC, "accept": "off"})).best is not None


def test_the_wiring_takes_the_place_of_the_network_that_is_not_made_yet() -> None:
    cluster = read_cluster("t", SPEC)
    assert cluster.setup().network == inputs.setup(cluster, {}).network == MANAGED
    assert dict(inputs.setup(cluster, {"network_links": LINKS}).network) == LINKS
    assert read_cluster("t", {**SPEC, "network": "default"}).setup().network == ()
