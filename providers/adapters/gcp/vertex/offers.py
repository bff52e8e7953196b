"""What Vertex AI runs custom jobs on: made from Compute Engine's offers, since its jobs run on the
same machine types. Pure.

Owns which of those Vertex AI has, and what it costs there. Machine types and regions: accelerator
types and locational endpoints of the discovery document (aiplatform v1, revision 20261106);
Flex-start's GPUs: Google, "Schedule training jobs based on resource availability", 2026. Vertex AI
chooses the zone itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.gcp.vertex.errors import PROVIDER
from providers.adapters.gcp.vertex.options import NO_IMAGE, read
from providers.adapters.gcp.vertex.regions import LOCATIONS
from providers.model.ask import FLEX_START, ON_DEMAND, SPOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from providers.model.ask import Ask
    from providers.model.offer import Offer

ACCELERATORS = {
    "T4": "NVIDIA_TESLA_T4",
    "P4": "NVIDIA_TESLA_P4",
    "P100": "NVIDIA_TESLA_P100",
    "V100": "NVIDIA_TESLA_V100",
    "A100": "NVIDIA_TESLA_A100",
    "A100-80GB": "NVIDIA_A100_80GB",
    "L4": "NVIDIA_L4",
    "H100": "NVIDIA_H100_80GB",
    "H100-MEGA": "NVIDIA_H100_MEGA_80GB",
    "H200": "NVIDIA_H200_141GB",
    "B200": "NVIDIA_B200",
    "GB200": "NVIDIA_GB200",
    "RTX-PRO-6000": "NVIDIA_RTX_PRO_6000",
}
"""Vertex AI's accelerator type by canonical GPU name."""
GPU_OF = {kind: gpu for gpu, kind in ACCELERATORS.items()}

FLEX_START_GPUS = frozenset({"L4", "A100", "A100-80GB", "H100", "H100-MEGA", "H200", "B200"})
"""What Dynamic Workload Scheduler queues for."""

UNNAMED = ("a3-edgegpu-", "a4x-maxgpu-")
"""Machine types of Compute Engine that nothing of Vertex AI's names; and those without their local
SSD (`-nolssd`).
"""

PREMIUM = 0.15
PREMIUM_SOURCE = (
    "+ 15%, as Vertex AI's list of 2026-10-07 adds to n1-standard-4 ($0.21849885/h, on Compute"
    " Engine $0.189999/h)"
)
"""Of Vertex AI's own rates for GPU machines no whole dated list was at hand: what its one known
machine rate adds stands for all of them. Only on demand: what Spot and Flex-start cost there is not
known.
"""


def sold(ask: Ask, offers: Iterable[Offer]) -> Sequence[Offer]:
    """Vertex AI's offers for this ask, from Compute Engine's: one for each region, machine type and
    kind of capacity, zones left out.
    """
    why = "" if ask.kind != "job" or _has_image(ask) else f"a custom job wants {NO_IMAGE}"
    made: dict[tuple[str, str, float, str], Offer] = {}
    for offer in offers:
        if offer.region not in LOCATIONS or offer.capacity not in (ON_DEMAND, SPOT, FLEX_START):
            continue
        if offer.machine_type.startswith(UNNAMED) or offer.machine_type.endswith("-nolssd"):
            continue
        key = (
            offer.region,
            f"{offer.machine_type}/{offer.gpu_type}",
            offer.gpu_count,
            offer.capacity,
        )
        if key not in made:
            made[key] = _priced(
                offer._replace(provider=PROVIDER, zone="", restriction=_refused(offer) or why)
            )
    return tuple(made.values())


def _has_image(ask: Ask) -> bool:
    return bool(
        read(ask.options.get(PROVIDER) or {}).image
        or (ask.workload is not None and ask.workload.image)
    )


def _refused(offer: Offer) -> str:
    """Why Vertex AI does not run a job on this; nothing where it does."""
    if offer.gpu_type not in ACCELERATORS:
        return f"Vertex AI has no accelerator type for {offer.gpu_type}"
    if offer.gpu_count != int(offer.gpu_count):
        return "Vertex AI takes whole GPUs"
    if offer.capacity == FLEX_START and offer.gpu_type not in FLEX_START_GPUS:
        return "Vertex AI queues (Flex-start) only for L4, A100, H100, H200 and B200"
    return offer.restriction


def _priced(offer: Offer) -> Offer:
    """The offer at what is known of its price there: an estimate on demand, nothing otherwise."""
    base = offer.node_micro_usd
    if base is None or offer.capacity != ON_DEMAND:
        return offer._replace(node_micro_usd=None, price_as_of="", price_source="", parts="")
    return offer._replace(
        node_micro_usd=round(base * (1 + PREMIUM)),
        price_source=f"estimate: {offer.price_source} {PREMIUM_SOURCE}",
        parts=f"estimate: Compute Engine's rate + 15% ({offer.parts})",
        left_out="boot disk; Cloud Storage; egress",
    )
