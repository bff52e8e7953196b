"""What carries a stack's labels and is in no state: named at each look, and released by the next
`up` where it is certainly what a run left behind.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from providers.engine import operations
from providers.engine.journal.owners import ClaimRow
from providers.model.machine import Label
from providers.plugin import orphans
from tests.engine.cases import run, wanted

CLAIMS = (ClaimRow("train", "g1", ()),)


@pytest.mark.parametrize(
    ("label", "declared", "orphan"),
    [
        (("train", "g0"), ("train",), True),  # the state has the cluster elsewhere
        (("train", "g1"), ("train",), False),  # the cluster's own look deals with it
        (("eval", "g2"), ("train", "eval"), False),  # its create adopts it
        (("eval", "g2"), ("train",), True),  # made here, declared no more
        (("other", "g3"), ("train",), False),  # nobody here knows who made it
        (("eval", ""), ("train",), False),  # nothing says of which run it is
    ],
)
def test_only_what_a_run_of_this_stack_left_is_an_orphan(label, declared, orphan) -> None:
    """A machine that another copy of the state, or somebody unknown, has made is named and never
    deleted by an `up`.
    """
    cluster, generation = label
    node: Any = SimpleNamespace(label=Label("own", cluster, generation, "f1"))
    assert orphans.is_orphan(node, CLAIMS, declared, {"train", "eval"}) is orphan


def test_an_orphan_at_another_cloud_is_released_and_what_is_claimed_stays(lab) -> None:
    """The cluster is at one cloud, and a run that was overwritten had bought for it at another: the
    Ownership's update releases that one alone.
    """
    record = run(operations.create(lab.world(), wanted(), "g1"))
    world = lab.world()
    world.journal.owned("rehearsal", "own", "gpus", "dev", new=True)
    world.journal.claim("rehearsal", "own", "train", "g1", record.handles)
    left = next(iter(lab.alpha.machines.values()))
    for cloud, generation, name in ((lab.beta, "g0", "train"), (lab.beta, "g9", "unknown")):
        handle = left.handle._replace(provider="beta", native_id=f"of-{generation}")
        cloud.machines[handle] = left._replace(
            handle=handle, label=left.label._replace(generation=generation, cluster=name)
        )
    run(orphans.release(world, "own", {}, (), ()))
    assert len(lab.alive) == 3, "nothing is released while the program is not known"
    run(orphans.release(world, "own", {}, ("train",), ()))
    assert {node.handle.native_id for node in lab.alive} == {record.handles[0].native_id, "of-g9"}
    assert lab.said("of-g0, which a run left behind")
