"""Orders of EC2 machines, the surroundings they compile in, and botocore's own check of a call."""

from typing import Any

from providers.adapters.aws import machines, region_facts
from providers.model.machine import Label, Order, Setup
from providers.model.offer import Candidate, Offer

A, B, C = "use1-az1", "use1-az2", "use1-az4"
IMAGE = region_facts.Image("ami-0123456789abcdef0", "/dev/sda1", 75)
AROUND = region_facts.Around(
    IMAGE,
    ("sg-0123456789abcdef0",),
    (A, B, C),
    tuple((zone, f"subnet-{index}") for index, zone in enumerate((A, B, C))),
)
TOKEN = "11111111-2222-3333-4444-555555555555"


def candidate(
    zone: str = A,
    machine_type: str = "p5.48xlarge",
    capacity: str = "on-demand",
    micro_usd: int = 55_040_000,
    region: str = "us-east-1",
    nodes: int = 1,
    reservation: str = "",
    entry: int = 0,
) -> Candidate:
    gpu, count = machines.gpus_of(machine_type)
    return Candidate(
        1,
        entry,
        Offer("aws", region, zone, machine_type, gpu, count, capacity, micro_usd),
        nodes,
        reservation,
        micro_usd * nodes,
    )


def order(*candidates: Candidate, nodes: int = 1, **setup: Any) -> Order:
    names = tuple(f"train-{index}" for index in range(nodes))
    return Order(
        Label("own1", "train", "gen1", "0123456789abcdef"),
        TOKEN,
        candidates or (candidate(),),
        names,
        Setup(**setup),
        900,
    )
