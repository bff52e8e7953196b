"""What the sides of the comparison share: what is wished for, and what came of it.

Imports the standard library alone, since other programs read it in environments of their own.
"""

from __future__ import annotations

from typing import NamedTuple


class Wish(NamedTuple):
    """What is asked for; `machine_types` are the beginnings of those that all sides know."""

    gpu: str
    gpu_count: int
    capacity: str
    machine_types: tuple[str, ...]

    def served_by(self, gpu_type: str, gpu_count: float) -> bool:
        """Whether a row of the catalog is of these GPUs. How it is bought is told to all sides."""
        return (gpu_type, gpu_count) == (self.gpu, self.gpu_count)


class Ran(NamedTuple):
    """What one launch came to. `place` is empty where there was no machine; then the times are
    those of giving up. `tries` as that side counts them; `creates` are the calls that asked for
    machines, `mutations` all that changed something, those among them. `left` are machines that run
    afterwards though nobody wants them.
    """

    place: str
    capacity_s: float
    running_s: float
    tries: int
    creates: int
    mutations: int
    usd_per_hour: float
    left: int
    extra: float = 0.0
    """What other machines cost that were made and released, of the first hour of the one kept."""


_TYPES = {
    ("H100", 8): ("a3-highgpu-8g", "p5.48xlarge"),
    ("A100", 8): ("a2-highgpu-8g", "p4d.24xlarge"),
    ("A100-80GB", 8): ("a2-ultragpu-8g", "p4de.24xlarge"),
    ("H200", 8): ("a3-ultragpu-8g", "p5en.48xlarge"),
    ("L4", 1): ("g2-standard-", "g6."),
    ("L4", 4): ("g2-standard-", "g6."),
}
WISHES = tuple(
    Wish(gpu, count, capacity, types)
    for (gpu, count), types in _TYPES.items()
    for capacity in ("on-demand", "spot")
)


def wish_of(number: int) -> Wish:
    """What is asked for in the market of that number."""
    return WISHES[number % len(WISHES)]
