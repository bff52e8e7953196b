"""Candidates, orders and jobs of Vertex AI for the tests of its adapter."""

from providers.adapters.gcp.vertex import MANIFEST
from providers.adapters.gcp.vertex.options import read
from providers.engine.setup import start
from providers.model.machine import Mark, Order, Setup
from providers.model.offer import Candidate, Offer
from providers.model.spec import read_cluster
from tests.present import present

TOKEN = "0e7d2c1a-1111-4222-8333-444455556666"


def candidate(
    machine="a3-highgpu-8g",
    gpu="H100",
    count=8,
    capacity="on-demand",
    nodes=1,
    kind="job",
    region="us-central1",
):
    return Candidate(
        1,
        0,
        Offer("vertex", region, "", machine, gpu, count, capacity, 1_000_000),
        nodes,
        kind=kind,
    )


def order(chosen=None, setup=None, wait_s=600, **fields):
    chosen = chosen or candidate()
    names = tuple(f"train-0e7d2c1a-{index}" for index in range(chosen.nodes))
    given = {"image": "a/b:1", "command": ["python", "train.py"], **fields}
    setup = setup or Setup(
        ttl_s=3_600, labels=(("team", "blue"),), options=tuple(sorted(given.items()))
    )
    return Order(Mark("o1", "train", "g1", "f1"), TOKEN, (chosen,), names, setup, wait_s)


def started(workload, nodes=1, gpu="L4:1", **options_of):
    spec = read_cluster(
        "t",
        {"kind": "job", "gpu": gpu, "nodes": nodes, "providers": ["vertex"], "workload": workload},
    )
    ask = spec.ask()
    begun = present(start(ask, ask.entries[0], "L4", 1, "private", MANIFEST, options_of))
    assert begun.script == "" and not begun.watched
    return read(begun.section)
