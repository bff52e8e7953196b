"""A workload that waits for something by login is placed only where a login is possible."""

import pytest

from providers.engine.market.planning import plan
from providers.model.spec import read_cluster
from providers.planner import render

DDP = {
    "kind": "job",
    "gpu": "H100:8",
    "nodes": 2,
    "workload": {"launcher": "torchrun", "command": "x.py"},
}
TOKEN = {
    "kind": "service",
    "gpu": "L4:1",
    "expose": "token",
    "workload": {"launcher": "vllm", "model": "1b"},
}


def seen(declared):
    spec = read_cluster("a", declared)
    return plan(spec.ask(), setup=spec.setup(), use_journal=False)


@pytest.mark.parametrize("kind", ["job", "machine"])
def test_several_nodes_are_not_bought_where_nobody_could_tell_them_of_each_other(kind) -> None:
    """EC2 gives p5 machines no public address, so that a workload on two of them would wait for its
    peers until it fails: refused before it costs.
    """
    made = seen({**DDP, "kind": kind, "providers": ["aws"]})
    assert made.candidates == () or not list(made.candidates)
    assert "reach" in made.rejected_by_rule and "no public address" in render.as_text(made)
    assert list(
        seen(
            {**DDP, "kind": kind, "providers": ["aws"], "options": {"aws": {"efa": False}}}
        ).candidates
    )


def test_a_token_needs_a_way_in_too() -> None:
    """Without an address outside no token gets there; Modal's door has its own, and one node
    without a token waits for nothing.
    """
    closed = {"providers": ["gcp", "modal"], "options": {"gcp": {"external_ip": False}}}
    assert {each.provider for each in seen({**TOKEN, **closed}).candidates} == {"modal"}
    assert {
        each.provider for each in seen({**TOKEN, **closed, "expose": "private"}).candidates
    } == {"gcp", "modal"}
