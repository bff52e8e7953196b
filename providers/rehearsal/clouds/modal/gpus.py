"""What the rehearsed Modal sells: GPUs, sizes of containers, regions. Owns this table, which is the
server's and not the adapter's: a wrong name or count is refused as Modal would. Pure.

Source: modal.com/docs/guide/gpu, copy of 2026-09, and docs/guide/region-selection, 2026-07-29.
"""

from __future__ import annotations

from typing import NamedTuple

PROVIDER = "modal"
MAX_COUNT = 8
ANYWHERE = "any"
"""The place of a container that may run where Modal likes, in a scenario."""


class Gpu(NamedTuple):
    """One GPU model. `text` is its name on the wire; `upgrade` what may be delivered instead at the
    same price, unless `exact_text` is asked for.
    """

    text: str
    max_count: int = MAX_COUNT
    upgrade: str = ""
    exact_text: str = ""


GPUS = {
    "T4": Gpu("T4"),
    "L4": Gpu("L4"),
    "A10": Gpu("A10", max_count=4),
    "A10G": Gpu("A10", max_count=4),
    "L40S": Gpu("L40S"),
    "A100": Gpu("A100-40GB"),
    "A100-80GB": Gpu("A100-80GB"),
    "RTX-PRO-6000": Gpu("RTX-PRO-6000"),
    "H100": Gpu("H100", upgrade="H200", exact_text="H100!"),
    "H200": Gpu("H200"),
    "B200": Gpu("B200"),
    "B300": Gpu("B300"),
}
"""By the catalog's name."""

BY_TEXT = {
    **{gpu.text: name for name, gpu in GPUS.items() if name != "A10G"},
    "H100!": "H100",
    "A100": "A100",
}
"""Catalog name by the name on the wire; a bare `A100` is the one of 40 GB."""

REGIONS = frozenset(
    (
        *("us", "us-east", "us-central", "us-south", "us-west", "ca", "mx", "sa"),
        *("eu", "eu-west", "eu-north", "eu-south", "uk", "me", "af"),
        *("ap", "ap-northeast", "ap-southeast", "ap-south", "ap-melbourne", "jp", "au"),
    )
)


def machine_type(count: int) -> str:
    """A container with so many GPUs, as a scenario and the catalog call it."""
    return f"container-{count}"


def text_of(name: str) -> str:
    """What the API calls a GPU that was delivered."""
    return GPUS[name].text if name in GPUS else name


def upgrade_of(name: str, *, exact: bool) -> str:
    """What may be delivered instead; empty for nothing."""
    return GPUS[name].upgrade if name in GPUS and not exact else ""
