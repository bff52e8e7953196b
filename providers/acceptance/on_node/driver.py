"""What a machine's driver says of its GPUs and of the links between them.

Owns the reading of nvidia-smi, which prints NVML's answers: `-q -x` (nvidia-smi(1), "XML output"),
`topo -m` and `nvlink -s`. A field that a driver does not have stays out.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

TIMEOUT_S = 20.0


def ask(*words: str) -> str:
    """What nvidia-smi prints for these words. Raises OSError where it is not there or fails."""
    try:
        done = subprocess.run(
            ["nvidia-smi", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError("nvidia-smi did not answer in time") from None
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        said = (done.stderr.decode("utf-8", "replace") + text).strip().splitlines()
        raise OSError(f"nvidia-smi ended with {done.returncode}: {said[-1] if said else ''}")
    return text


def lent(visible: str) -> tuple[str, ...]:
    """The cards that a CUDA_VISIBLE_DEVICES names by their UUIDs, as the lease of some cards of a
    machine does; empty where it names none so: then all are meant. nvidia-smi itself goes by no
    such variable. Pure.
    """
    named = tuple(visible.split(","))
    return named if all(each.startswith("GPU-") for each in named) else ()


def inventory(xml: str, only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The GPUs of an answer to `nvidia-smi -q -x`, each as plain fields: all, or `only` those of
    these UUIDs, in their order, which is CUDA's. Pure.
    """
    log = ET.fromstring(xml)
    shared = {"driver": _text(log, "driver_version"), "cuda": _text(log, "cuda_version")}
    gpus = log.findall("gpu")
    return [
        {
            "index": index,
            **_gpu(gpus[place]),
            **{name: text for name, text in shared.items() if text},
        }
        for index, place in enumerate(places(xml, only))
    ]


def places(xml: str, only: Sequence[str] = ()) -> list[int]:
    """Where those GPUs stand among all that nvidia-smi numbers. Pure."""
    there = [_text(gpu, "uuid") for gpu in ET.fromstring(xml).findall("gpu")]
    return [there.index(each) for each in only if each in there] if only else [*range(len(there))]


def _gpu(gpu: ET.Element) -> dict[str, Any]:
    power = next(
        (
            found
            for found in map(gpu.find, ("gpu_power_readings", "power_readings"))
            if found is not None
        ),
        gpu,
    )
    reasons = gpu.find("clocks_event_reasons")
    reasons = gpu.find("clocks_throttle_reasons") if reasons is None else reasons
    fields: dict[str, Any | None] = {
        "name": _text(gpu, "product_name"),
        "uuid": _text(gpu, "uuid"),
        "vbios": _text(gpu, "vbios_version"),
        "memory_mib": _number(gpu, "fb_memory_usage/total"),
        "used_mib": _number(gpu, "fb_memory_usage/used"),
        "busy_percent": _number(gpu, "utilization/gpu_util"),
        "mig": _text(gpu, "mig_mode/current_mig"),
        "virtualization": _text(gpu, "gpu_virtualization_mode/virtualization_mode"),
        "ecc": _text(gpu, "ecc_mode/current_ecc"),
        "ecc_uncorrected": _errors(gpu),
        "rows_remapped": _number(gpu, "remapped_rows/remapped_row_unc"),
        "remap_pending": _text(gpu, "remapped_rows/remapped_row_pending"),
        "remap_failed": _text(gpu, "remapped_rows/remapped_row_failure"),
        "pcie_gen": _number(gpu, "pci/pci_gpu_link_info/pcie_gen/current_link_gen"),
        "pcie_gen_max": _number(gpu, "pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
        "pcie_width": _number(gpu, "pci/pci_gpu_link_info/link_widths/current_link_width"),
        "pcie_width_max": _number(gpu, "pci/pci_gpu_link_info/link_widths/max_link_width"),
        "power_limit_w": _number(power, "current_power_limit") or _number(power, "power_limit"),
        "power_default_w": _number(power, "default_power_limit"),
        "power_w": _number(power, "instant_power_draw") or _number(power, "power_draw"),
        "temperature_c": _number(gpu, "temperature/gpu_temp"),
        "clock_mhz": _number(gpu, "clocks/sm_clock"),
        "clock_max_mhz": _number(gpu, "max_clocks/sm_clock"),
    }
    known = {name: value for name, value in fields.items() if value is not None}
    known["slowed"] = [
        re.sub(r"^clocks_(event|throttle)_reason_", "", each.tag)
        for each in (reasons if reasons is not None else ())
        if (each.text or "").strip() == "Active"
    ]
    known["processes"] = [
        {
            "pid": int(_number(each, "pid") or 0),
            "name": _text(each, "process_name") or "",
            "mib": _number(each, "used_memory") or 0,
        }
        for each in gpu.findall("processes/process_info")
    ]
    return known


def _text(where: ET.Element, path: str) -> str | None:
    text = (where.findtext(path) or "").strip()
    return text if text and text not in {"N/A", "[N/A]", "Unknown Error"} else None


def _number(where: ET.Element, path: str) -> float | None:
    """The number at the start of a field such as `700.00 W` or `16x`."""
    found = re.match(r"-?\d+(\.\d+)?", _text(where, path) or "")
    return float(found.group()) if found is not None else None


def _errors(gpu: ET.Element) -> float | None:
    """Uncorrectable ECC errors since the machine or the driver started, of all memories."""
    counts = gpu.find("ecc_errors/volatile")
    found = (
        [_number(counts, each.tag) for each in counts if "uncorrectable" in each.tag]
        if counts is not None
        else []
    )
    known = [count for count in found if count is not None]
    return sum(known) if known else None


def links(topology: str, speeds: str, among: Collection[int]) -> dict[str, Any]:
    """How the GPUs at these places reach each other: `matrix`, by the answer to `topo -m` a row a
    GPU, and `nvlink_gb_s`, each GPU's working links together in one direction. Pure.
    """
    plain = re.sub(r"\x1b\[[0-9;]*m", "", topology)
    rows = [line.split() for line in plain.splitlines() if re.match(r"GPU\d+\s", line)]
    lanes: list[float] = []
    for line in speeds.splitlines():
        if re.match(r"GPU \d+:", line):
            lanes.append(0.0)
        speed = re.match(r"\s+Link \d+: (\d+(\.\d+)?) GB/s", line)
        if speed is not None and lanes:
            lanes[-1] += float(speed.group(1))
    cells = [row[1 : 1 + len(rows)] for row in rows]
    return {
        "matrix": [
            [cells[row][column] for column in among if column < len(cells[row])]
            for row in among
            if row < len(cells)
        ],
        "nvlink_gb_s": [lanes[place] for place in among if place < len(lanes)],
    }
