"""Orders of Google machines, and the creating call that they compile to."""

from providers.adapters.gcp import compile as native
from providers.model.machine import Mark, Order, Setup
from providers.model.offer import Candidate, Offer

MARK = Mark("own1", "train", "gen1", "0123456789abcdef")
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
    zone="us-central1-a",
    machine_type="a3-highgpu-8g",
    capacity="on-demand",
    micro_usd=88_490_000,
    entry=0,
    nodes=1,
    region="",
    reservation="",
):
    gpu, count, accelerator = TYPES[machine_type]
    region = region or zone.rsplit("-", 1)[0]
    offer = Offer(
        "gcp", region, zone, machine_type, gpu, count, capacity, micro_usd, accelerator=accelerator
    )
    return Candidate(1, entry, offer, nodes, reservation=reservation, micro_usd=micro_usd)


def order(*candidates, wait_s=900, nodes=1, **setup):
    names = tuple(f"train-{index}" for index in range(nodes))
    return Order(
        MARK,
        "11111111-2222-4333-8444-555555555555",
        candidates or (candidate(),),
        names,
        Setup(**setup),
        wait_s,
    )


def properties(*candidates, **rest):
    return native.creating_call(order(*candidates, **rest)).body["instanceProperties"]
