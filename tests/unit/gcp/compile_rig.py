"""Orders of Google machines, and the creating call that they compile to."""

from typing import Any

from providers.adapters.gcp import compile as native
from providers.model.machine import Label, Order, Setup
from providers.model.offer import Candidate, Offer

LABEL = Label("own1", "train", "gen1", "0123456789abcdef")
TYPES = {
    "a3-highgpu-8g": ("H100", 8, ""),
    "a3-megagpu-8g": ("H100-MEGA", 8, ""),
    "a2-highgpu-8g": ("A100", 8, ""),
    "a2-megagpu-16g": ("A100", 16, ""),
    "a2-ultragpu-8g": ("A100-80GB", 8, ""),
    "g2-standard-4": ("L4", 1, ""),
    "g2-standard-8": ("L4", 1, ""),
    "n1-standard-8": ("T4", 1, "nvidia-tesla-t4"),
}


def candidate(
    zone: str = "us-central1-a",
    machine_type: str = "a3-highgpu-8g",
    capacity: str = "on-demand",
    micro_usd: int | None = 88_490_000,
    entry: int = 0,
    nodes: int = 1,
    region: str = "",
    reservation: str = "",
) -> Candidate:
    gpu, count, accelerator = TYPES[machine_type]
    region = region or zone.rsplit("-", 1)[0]
    offer = Offer(
        "gcp", region, zone, machine_type, gpu, count, capacity, micro_usd, accelerator=accelerator
    )
    return Candidate(1, entry, offer, nodes, reservation=reservation, micro_usd=micro_usd)


def order(*candidates: Candidate, wait_s: int = 900, nodes: int = 1, **setup: Any) -> Order:
    names = tuple(f"train-{index}" for index in range(nodes))
    return Order(
        LABEL,
        "11111111-2222-4333-8444-555555555555",
        candidates or (candidate(),),
        names,
        Setup(**setup),
        wait_s,
    )


def properties(*candidates: Candidate, **rest: Any) -> Any:
    return native.creating_call(order(*candidates, **rest)).body["instanceProperties"]
