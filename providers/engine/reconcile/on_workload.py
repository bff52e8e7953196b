"""The workload column of `steps.STEPS`: what becomes of another workload in each condition. Pure:
works only from the state's record.

A diff, a preview and an update go by the same answer: nothing is noted as applied that did not run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine.messages import rerun_command
from providers.engine.record import works

if TYPE_CHECKING:
    from providers.engine.record import ClusterRecord


class WorkloadCase(NamedTuple):
    """`wanted`: a workload is declared. `stops`: the declaration has the machines stopped."""

    record: ClusterRecord
    wanted: bool
    stops: bool


class WorkloadEdit(NamedTuple):
    """`replaces`: why another workload needs other machines. `later`: when it starts, if not now.
    Both are empty if it restarts on the present machines, or on their replacements.
    """

    replaces: str = ""
    later: str = ""


def restarts(case: WorkloadCase) -> WorkloadEdit:
    """Restarts it on the present machines, if they were made for a workload."""
    record = case.record
    if record.kind != "machine" or case.wanted == works(record):
        return WorkloadEdit()
    again = rerun_command(record.cluster)
    if not record.applied:
        later = f"what the imported machine runs goes on; {again} starts one with the workload"
        return WorkloadEdit(later=later if case.wanted else "")
    if case.wanted:
        return WorkloadEdit(replaces="a machine that was made without one starts none")
    return WorkloadEdit(later=f"what runs there goes on, until {again} gets a machine without it")


def once_it_runs(case: WorkloadCase) -> WorkloadEdit:
    """Nobody logs in to a stopped machine: it waits until the machine is started again."""
    found = restarts(case)
    if found.replaces or found.later or not case.stops or not works(case.record):
        return found
    return WorkloadEdit(later="the new workload is started once `state: running` starts it again")


def where_it_stays(case: WorkloadCase) -> WorkloadEdit:
    """Of a machine that was stopped, but not by the declaration: any edit replaces it, unless it
    should stay stopped from now on.
    """
    return once_it_runs(case) if case.stops else with_the_next(case)


def with_the_next(case: WorkloadCase) -> WorkloadEdit:  # noqa: ARG001 (a column's functions are alike)
    """It is over, or is replaced anyway: the new machines get it."""
    return WorkloadEdit()
