"""What a GPU of a model should show and reach: the catalog's figures, as acceptance needs them.

Owns which part of a sheet's figure a sound card reaches in a short measurement. Pure but for the
catalog's files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from providers.catalog import names
from providers.catalog.hardware import achieved_tflops, hardware

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.catalog.hardware import Hardware

DTYPES = ("bf16", "fp16", "fp8", "tf32", "fp32")
"""What is measured, the most telling first."""

COMPUTE_LEAST = 0.70
"""Of what large products reach at the model's peers: a burst on a sound H200 reaches 0.91 to 1.02
of it, in every dtype (`docs/how-to/accept-a-machine.md`, 2026-11-29).
"""
COMPUTE_LEAST_SMALL, SMALL_W = 0.40, 150.0
"""The same of cards up to so many watts: they leave their top clock within a window."""
BANDWIDTH_LEAST = 0.75
"""Of the sheet's memory bandwidth: a copy on a sound H200 reaches 0.89."""
LINK_LEAST = 0.65
"""Of PCIe's rate: pinned copies on a sound H200 reach 0.84 to 0.88."""
REDUCE_LEAST = 0.60
"""Of NVLink's rate in one direction: two H200 reached 0.73 (331 of 450 GB/s at 1 GiB, with NVLS
off, in a sweep of 2026-11).
"""
POWER_LEAST = 0.95

PCIE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s of one lane in one direction, by generation (PCI-SIG, base specifications)."""
_PCIE_OF = {
    "Kepler": 3,
    "Maxwell": 3,
    "Pascal": 3,
    "Volta": 3,
    "Turing": 3,
    "Ampere": 4,
    "Ada": 4,
    "Hopper": 5,
    "Blackwell": 5,
}
"""PCIe's generation of the cards whose row names NVLink instead, by architecture, each with 16
lanes (NVIDIA data sheets of V100, A100, H100, H200 and B200: "system interface").
"""


class Expected(NamedTuple):
    """One GPU of a model. Rates are as sheets give them, `reaches` what sound cards do; None where
    no figure is known.
    """

    gpu_type: str
    memory_gib: float | None
    peak_tflops: Mapping[str, float]
    reaches_tflops: Mapping[str, float]
    compute_least: float
    bandwidth_tb_s: float | None
    pcie: tuple[int, int] | None
    """(generation, lanes)"""
    nvlink_gb_s: float | None
    """Both directions, where every GPU of a machine is joined; None for bridges and for none."""
    power_w: float | None
    source: str

    @property
    def pcie_gb_s(self) -> float | None:
        """PCIe's rate in one direction."""
        return PCIE_GB_S[self.pcie[0]] * self.pcie[1] if self.pcie is not None else None


def expected(gpu_type: str) -> Expected | None:
    """What a GPU of this model should show; None for a model that the catalog does not have."""
    found = hardware(gpu_type)
    if found is None:
        return None
    peaks = {dtype: found.dense_tflops(dtype) for dtype in DTYPES}
    reached = {dtype: achieved_tflops(gpu_type, dtype) for dtype in DTYPES}
    joined = found.interconnect.startswith("NVLink") and found.form_factor.startswith("SXM")
    small = found.tdp_w is not None and found.tdp_w <= SMALL_W
    return Expected(
        gpu_type,
        names.nominal_memory_gib(gpu_type),
        {dtype: peak for dtype, peak in peaks.items() if peak is not None},
        {dtype: rate for dtype, rate in reached.items() if rate is not None},
        COMPUTE_LEAST_SMALL if small else COMPUTE_LEAST,
        found.bandwidth_tb_s,
        _pcie(found),
        found.interconnect_gb_s if joined else None,
        # A superchip's figure is that of the module with its CPU.
        None if found.form_factor == "superchip" else found.tdp_w,
        f"{found.source} ({found.source_as_of})",
    )


def _pcie(found: Hardware) -> tuple[int, int] | None:
    named = re.match(r"PCIe (\d)\.0 x(\d+)", found.interconnect)
    if named is not None:
        return int(named[1]), int(named[2])
    if found.form_factor == "superchip" or found.architecture not in _PCIE_OF:
        return None
    return _PCIE_OF[found.architecture], 16
