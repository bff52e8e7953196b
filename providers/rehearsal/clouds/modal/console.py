"""What `gpus rehearse` can see and do here: machines, names, preemption. Owns no rows of its own;
imports no client for that.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from providers.rehearsal.clouds.modal.deployed import Deployed
from providers.rehearsal.clouds.modal.gpus import (
    ANYWHERE,
    GPUS,
    MAX_COUNT,
    PROVIDER,
    REGIONS,
    machine_type,
)
from providers.rehearsal.clouds.modal.state import INTERNAL_FAILURE, State
from providers.rehearsal.scenario import RehearsedMachine

if TYPE_CHECKING:
    from providers.rehearsal.store import Store

STATUSES = (
    *(
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
    ),
    *(
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ),
)
"""The statuses that a planned failure may answer with, by their names in gRPC."""


def places() -> frozenset[str]:
    """Modal places containers where it likes, or in a region that was asked for."""
    return frozenset({ANYWHERE, *REGIONS})


def machine_types() -> frozenset[str]:
    """Containers by their count of GPUs."""
    return frozenset(machine_type(count) for count in range(1, MAX_COUNT + 1))


def gpus() -> frozenset[str]:
    """Every GPU that Modal sells, by the catalog's name."""
    return frozenset(GPUS)


def methods() -> frozenset[str]:
    """Every call that the stand-in answers. Imports the client's protocol."""
    from providers.rehearsal.clouds.modal.functions import FunctionService
    from providers.rehearsal.clouds.modal.service import Service

    return frozenset(name for name in (*vars(Service), *vars(FunctionService)) if name[0].isupper())


def preemptible() -> frozenset[str]:
    """The kinds of capacity that can be taken back: at Modal every container."""
    return frozenset({"on-demand"})


def running(store: Store) -> tuple[RehearsedMachine, ...]:
    """Every sandbox that has not ended and every container of an app, whoever made it; one that
    queues is `QUEUED`.
    """
    deployed = Deployed(State(store))
    tags = {app.id: app for app in (*deployed.apps("main"),)}
    containers = [
        row
        for app in tags
        for row in (*deployed.containers(app), *deployed.waiting(app))
        if row.ended is None
    ]
    return tuple(
        RehearsedMachine(
            PROVIDER,
            tags[row.app].name,
            "QUEUED" if row.started is None else "RUNNING",
            row.region,
            machine_type(row.gpu_count or int(json.loads(row.choices)[0][2])),
            row.delivered or str(json.loads(row.choices)[0][0]),
            row.gpu_count or int(json.loads(row.choices)[0][2]),
            "on-demand",
            json.loads(tags[row.app].tags),
            row.created,
        )
        for row in containers
    ) + tuple(
        RehearsedMachine(
            PROVIDER,
            row.name or row.id,
            "QUEUED" if row.started is None else "RUNNING",
            row.region,
            machine_type(row.gpu_count),
            row.delivered or row.gpu,
            row.gpu_count,
            "on-demand",
            row.tag_map(),
            row.created,
        )
        for row in State(store).unfinished()
    )


def edit(store: Store, name: str, kind: str, gpu_type: str, count: int) -> int:
    """Gives the running sandboxes of this name another GPU, as its server reports it; how many that
    were.
    """
    del kind
    state = State(store)
    chosen = (
        [
            row
            for row in state.unfinished()
            if (row.name or row.id) == name and row.started is not None
        ]
        if gpu_type
        else []
    )
    for row in chosen:
        state.deliver(row.id, gpu_type, count)
    return len(chosen)


def preempt(store: Store, name: str) -> int:
    """Takes back the containers of this name that run, of a sandbox or of an app; how many that
    were.
    """
    state = State(store)
    deployed = Deployed(state)
    taken = sum(deployed.take_back(app.id) for app in deployed.apps("main") if app.name == name)
    chosen = [
        row
        for row in state.unfinished()
        if (row.name or row.id) == name and row.started is not None
    ]
    for row in chosen:
        state.end(row.id, INTERNAL_FAILURE)
    return len(chosen) + taken
