"""Spellings of earlier releases: a declaration with one is refused with the present one, and a
state with one is read as that, so that nothing is replaced for a spelling.
"""

import pytest
from pulumi.runtime.proto import provider_pb2

from tests.plugin.servicer_rig import ID, INPUTS, call, state, struct


@pytest.mark.parametrize(
    ("old", "path", "words"),
    [
        ({"run": "2"}, "run", "remove it, and run: gpus rerun train -s s"),
        ({"reclaim": "now"}, "reclaim", "remove it, and run: gpus reclaim train -s s"),
        (
            {"kind": "job", "providers": ["modal"], "options": {"modal": {"command": "true"}}},
            "options.modal.command",
            "move it there: workload: {command: ...}",
        ),
        ({"rank": "job_cost"}, "rank", "write performance_per_dollar, which goes by workload"),
    ],
)
def test_an_old_spelling_is_refused_with_the_present_one(servicer, old, path, words) -> None:
    """One problem, at its path."""
    response = call(servicer, "Check", news=struct({**INPUTS, **old}))
    (failure,) = response.failures
    assert failure.property == path and words in failure.reason


@pytest.mark.parametrize(
    ("old", "present"),
    [
        ({"run": "2"}, {}),
        ({"reclaim": "now"}, {}),
        ({"run": 7}, {}),
        (
            {"kind": "job", "options": {"modal": {"command": ["a", "b c"], "retries": 1}}},
            {
                "kind": "job",
                "workload": {"command": "a 'b c'"},
                "options": {"modal": {"retries": 1}},
            },
        ),
        (
            {"kind": "service", "options": {"modal": {"command": "true", "port": 80}}},
            {"kind": "service", "workload": {"command": "true", "port": 80}},
        ),
        (
            {"kind": "job", "options": {"vertex": {"image": "a/b:1", "command": "true"}}},
            {"kind": "job", "workload": {"image": "a/b:1", "command": "true"}},
        ),
        ({"rank": "job_cost"}, {"rank": "performance_per_dollar"}),
    ],
)
def test_a_state_with_an_old_spelling_is_no_edit(servicer, old, present) -> None:
    """The machine stays, and nothing is updated."""
    call(servicer, "Check", news=struct({**INPUTS, **present}))
    response = call(
        servicer,
        "Diff",
        id=ID,
        olds=state(),
        old_inputs=struct({**INPUTS, **old}),
        news=struct({**INPUTS, **present}),
    )
    assert response.changes == provider_pb2.DiffResponse.DIFF_NONE and not response.replaces
