"""Writes the rehearsal's committed `zones.json`. Run by hand when the source changes.

    python -m providers.rehearsal.clouds.aws.generate providers/catalog/sources  # from
    aws_gpu_offers.csv

Owns the file's form: the regions' zone ids, the zone ids that have a type, and each type's
[GPU, count, vCPUs, EFA interfaces]. Imports nothing of the package: the adapter's own table must
not be right only because it is read on both sides.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

NAMES = {
    ("RTX PRO 4500", "32"): "RTX-PRO-4500",
    ("RTX PRO Server 6000", "96"): "RTX-PRO-6000",
    ("A100", "80"): "A100-80GB",
    ("V100", "32"): "V100-32GB",
}
"""(GPU, GiB of each) as EC2 describes it -> the catalog's name, where it is another one."""


def zones(rows: list[dict[str, str]]) -> dict[str, dict[str, Any]]:
    """What the file holds. Pure."""
    regions: dict[str, set[str]] = {}
    types: dict[str, set[str]] = {}
    machines: dict[str, list[str | int]] = {}
    for row in rows:
        # A part of a GPU is nothing that the product orders.
        if row["gpu_count"] == "0":
            continue
        regions.setdefault(row["region"], set()).add(row["zone"])
        types.setdefault(row["instance_type"], set()).add(row["zone"])
        gpu = row["gpu_name"], row["gpu_memory_gb"].removesuffix(".0")
        figures = (int(row[key]) for key in ("gpu_count", "vcpus", "efa_max_interfaces"))
        machines[row["instance_type"]] = [NAMES.get(gpu, gpu[0]), *figures]
    return {
        "regions": {region: sorted(found) for region, found in sorted(regions.items())},
        "types": {kind: sorted(found) for kind, found in sorted(types.items())},
        "machines": dict(sorted(machines.items())),
    }


def rows(folder: Path) -> list[dict[str, str]]:
    """The rows of the catalog's source, below the remark at its top."""
    text = (folder / "aws_gpu_offers.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()[1:]))


def main(folder: str) -> None:
    """Reads the source and writes the file beside this module."""
    made = zones(rows(Path(folder)))
    (Path(__file__).parent / "zones.json").write_text(
        json.dumps(made, separators=(",", ":")) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main(sys.argv[1])
