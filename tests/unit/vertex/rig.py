"""Candidates, orders and jobs of Vertex AI for the tests of its adapter."""

from typing import Any

from providers.adapters.gcp.vertex import MANIFEST
from providers.adapters.gcp.vertex.options import Options, read
from providers.engine.setup import start
from providers.model.machine import Label, Order, Setup
from providers.model.offer import Candidate, Offer
from providers.model.spec import read_cluster
from tests.present import present

TOKEN = "0e7d2c1a-1111-4222-8333-444455556666"


def candidate(
    machine: str = "a3-highgpu-8g",
    gpu: str = "H100",
    count: int = 8,
    capacity: str = "on-demand",
    nodes: int = 1,
    kind: str = "job",
    region: str = "us-central1",
) -> Candidate:
    return Candidate(
        1,
        0,
        Offer("vertex", region, "", machine, gpu, count, capacity, 1_000_000),
        nodes,
        kind=kind,
    )


def order(
    chosen: Candidate | None = None, setup: Setup | None = None, wait_s: int = 600, **fields: Any
) -> Order:
    chosen = chosen or candidate()
    names = tuple(f"train-0e7d2c1a-{index}" for index in range(chosen.nodes))
    given = {"image": "a/b:1", "command": ["python", "train.py"], **fields}
    setup = setup or Setup(
        ttl_s=3_600, labels=(("team", "blue"),), options=tuple(sorted(given.items()))
    )
    return Order(Label("o1", "train", "g1", "f1"), TOKEN, (chosen,), names, setup, wait_s)


def started(
    workload: dict[str, Any], nodes: int = 1, gpu: str = "L4:1", **options_of: Any
) -> Options:
    spec = read_cluster(
        "t",
        {"kind": "job", "gpu": gpu, "nodes": nodes, "providers": ["vertex"], "workload": workload},
    )
    ask = spec.ask()
    begun = present(start(ask, ask.entries[0], "L4", 1, "private", MANIFEST, options_of))
    assert begun.script == "" and not begun.watched
    return read(begun.section)
