"""Declared jobs and services at Modal, deployed with the real client to the stand-in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.adapters.modal import deployment
from providers.engine.market.planning import plan
from providers.model.machine import Handle, Label, Order, Ticket
from providers.model.spec import Cluster, read_cluster
from providers.rehearsal.clouds.modal.deployed import Deployed
from tests.unit.modal.cloud import Cloud

JOB = {"command": "python train.py"}
SERVICE = {"command": "python serve.py", "port": 8000}


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    made = Cloud(tmp_path)
    yield made
    made.close()


def declared(
    kind: str, gpu: str | list[str] = "L4", section: dict[str, Any] | None = None, **fields: Any
) -> Cluster:
    base = JOB if kind == "job" else SERVICE
    return read_cluster(
        "x",
        {
            "kind": kind,
            "gpu": gpu,
            "providers": ["modal"],
            "options": {"modal": {**base, **(section or {})}},
            **fields,
        },
    )


def order(
    spec: Cluster, token: str = "12345678-0000", adapter: Any = None, wait_s: int = 120
) -> Order:
    candidates = plan(spec.ask(), setup=spec.setup(), use_journal=False).candidates
    size = deployment.group(candidates) if adapter is None else adapter.group(candidates)
    setup = spec.setup()._replace(
        options=tuple(sorted(spec.options["modal"].items())), ttl_s=spec.ask().entries[0].ttl_s
    )
    return Order(
        Label("own", "x", "g1", "f1"),
        token,
        candidates[:size],
        (f"x-{token[:8]}-0",),
        setup,
        wait_s,
    )


def running(
    cloud: Cloud, spec: Cluster, token: str = "12345678-0000"
) -> tuple[Any, Ticket, Handle]:
    """(adapter, ticket, handle) of an order that was launched."""
    adapter = cloud.adapter()
    ticket = adapter.submit(order(spec, token))
    cloud.wait(5)
    ticket = adapter.poll(ticket)
    assert ticket.state == "done"
    return adapter, ticket, ticket.handles[0]


def function(cloud: Cloud) -> tuple[Any, Any]:
    """The definition that the real client sent, and the stand-in's row of it."""
    from modal_proto import api_pb2

    deployed = Deployed(cloud.server_state())
    app = next(app for app in deployed.apps("main") if app.state == "DEPLOYED")
    row = deployed.functions(app.id)[0]
    return api_pb2.FunctionData.FromString(row.definition), row
