"""What the rehearsed Vertex AI runs custom jobs on, and where. Owns this table, which is the
server's and not the adapter's. Pure, imports nothing.

Source: Google's discovery document aiplatform v1, revision 20261106: its accelerator types and
locational endpoints, those where Compute Engine has GPUs. me-central2 is left out: it is open to
only chosen customers.
"""

from __future__ import annotations

GPU_OF = {
    "NVIDIA_TESLA_T4": "T4",
    "NVIDIA_TESLA_P4": "P4",
    "NVIDIA_TESLA_P100": "P100",
    "NVIDIA_TESLA_V100": "V100",
    "NVIDIA_TESLA_A100": "A100",
    "NVIDIA_A100_80GB": "A100-80GB",
    "NVIDIA_L4": "L4",
    "NVIDIA_H100_80GB": "H100",
    "NVIDIA_H100_MEGA_80GB": "H100-MEGA",
    "NVIDIA_H200_141GB": "H200",
    "NVIDIA_B200": "B200",
    "NVIDIA_GB200": "GB200",
    "NVIDIA_RTX_PRO_6000": "RTX-PRO-6000",
}
"""The catalog's GPU by accelerator type."""

LOCATIONS = frozenset(
    (
        *("asia-east1", "asia-east2", "asia-northeast1", "asia-northeast3"),
        *("asia-south1", "asia-south2", "asia-southeast1", "asia-southeast2"),
        *("australia-southeast1", "australia-southeast2"),
        *("europe-central2", "europe-north1", "europe-west1", "europe-west10"),
        *("europe-west2", "europe-west3", "europe-west4", "europe-west6"),
        *("europe-west8", "europe-west9"),
        *("me-west1",),
        *("northamerica-northeast1", "northamerica-northeast2"),
        *("southamerica-east1",),
        *("us-central1", "us-east1", "us-east4", "us-east5"),
        *("us-south1", "us-west1", "us-west2", "us-west3"),
        *("us-west4",),
    )
)
CAPACITY_OF = {"STANDARD": "on-demand", "SPOT": "spot", "FLEX_START": "flex-start"}
"""Kind of capacity by scheduling strategy."""
