"""Writes the stand-in's committed `zones.json`. Run by hand when the source changes.

    python -m providers.rehearsal.clouds.aws.generate providers/catalog/sources  # from
    aws_gpu_offers.csv

Owns the file's form: the regions' zone ids, and the zone ids that have a type. Imports nothing of
the package.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path


def zones(rows: list[dict[str, str]]) -> dict[str, dict[str, list[str]]]:
    """What the file holds. Pure."""
    regions: dict[str, set[str]] = {}
    types: dict[str, set[str]] = {}
    for row in rows:
        regions.setdefault(row["region"], set()).add(row["zone"])
        types.setdefault(row["instance_type"], set()).add(row["zone"])
    return {
        "regions": {region: sorted(found) for region, found in sorted(regions.items())},
        "types": {kind: sorted(found) for kind, found in sorted(types.items())},
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
