"""Writes the committed data files of the stand-ins. Run by hand when a source changes; tests
compare both with their sources.

    python -m providers.rehearsal.clouds.gcp.generate discovery            # from the installed
    google-api-python-client
    python -m providers.rehearsal.clouds.gcp.generate vertex
    python -m providers.rehearsal.clouds.gcp.generate machines SOURCE_DIR  #
    providers/catalog/sources

Owns which methods are served. Imports nothing of the package.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

SERVED = {
    "instances": (
        "insert bulkInsert get list aggregatedList delete setLabels setMetadata stop start"
        " getSerialPortOutput"
    ),
    "regionInstances": "bulkInsert",
    "zoneOperations": "get list wait",
    "regionOperations": "get list wait",
    "globalOperations": "get",
    "machineTypes": "get",
    "regions": "get list",
    "projects": "get",
    "reservations": "insert aggregatedList",
    "futureReservations": "insert aggregatedList",
    "images": "get getFromFamily",
    "networks": "insert get delete",
    "subnetworks": "insert get delete",
    "firewalls": "insert get delete",
    "disks": "insert get aggregatedList delete resize setLabels",
}
"""Resource -> the methods that the stand-in answers: those that the product calls, and the inserts
of what it finds (reservations).
"""
BETA_SERVED = {"advice": "capacity"}
"""The same of the beta API, which alone tells of Spot capacity."""
BETA = "/compute/beta/"
UNREAD = frozenset({"fields", "orderBy"})
"""Query parameters that the stand-in does not serve: it refuses them rather than pass them over."""
VERTEX_SERVED = {"projects.locations.customJobs": "create get list cancel delete"}
"""The same of Vertex AI."""
VERTEX = HERE.parent / "vertex" / "discovery.json"

_KEPT = (
    "type",
    "format",
    "$ref",
    "enum",
    "items",
    "properties",
    "additionalProperties",
    "pattern",
    "location",
    "required",
    "repeated",
    "minimum",
    "maximum",
)


def discovery(document: dict[str, Any], served: dict[str, str] = SERVED) -> dict[str, Any]:
    """The served methods and every schema they reach, without prose. Pure."""
    methods, wanted = {}, []
    for where, names in served.items():
        *above, resource = where.split(".")
        holder = document
        for each in above:
            holder = holder["resources"][each]
        for name in names.split():
            found = holder["resources"][resource]["methods"][name]
            methods[f"{resource}.{name}"] = {
                "verb": found["httpMethod"],
                "path": found["flatPath"],
                "parameters": {
                    key: _bare(value)
                    for key, value in sorted(found.get("parameters", {}).items())
                    if key not in UNREAD
                },
                "request": found.get("request", {}).get("$ref", ""),
                "response": found.get("response", {}).get("$ref", ""),
            }
            wanted += [
                methods[f"{resource}.{name}"]["request"],
                methods[f"{resource}.{name}"]["response"],
            ]
    schemas: dict[str, Any] = {}
    while wanted:
        name = wanted.pop()
        if name and name not in schemas:
            schemas[name] = _bare(document["schemas"][name])
            wanted += _references(schemas[name])
    return {
        "revision": document["revision"],
        "parameters": {
            key: _bare(value)
            for key, value in sorted(document["parameters"].items())
            if key not in UNREAD
        },
        "methods": dict(sorted(methods.items())),
        "schemas": dict(sorted(schemas.items())),
    }


def compute() -> dict[str, Any]:
    """What is served of Compute Engine, the beta API's methods under a prefix of their own."""
    content, beta = discovery(installed()), discovery(installed("compute.beta"), BETA_SERVED)
    added = {name: {**row, "prefix": BETA} for name, row in beta["methods"].items()}
    return content | {
        "methods": dict(sorted((content["methods"] | added).items())),
        "schemas": dict(sorted((beta["schemas"] | content["schemas"]).items())),
    }


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key in _KEPT:
        if key not in schema:
            continue
        value = schema[key]
        if key == "properties":
            out[key] = {name: _bare(field) for name, field in value.items()}
        elif key in {"items", "additionalProperties"}:
            out[key] = _bare(value)
        else:
            out[key] = value
    return out


def _references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
        return own + [name for value in schema.values() for name in _references(value)]
    return []


def installed(api: str = "compute.v1") -> dict[str, Any]:
    """The discovery document that ships inside google-api-python-client."""
    import googleapiclient

    path = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents" / f"{api}.json"
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def machines(source: Path) -> dict[str, Any]:
    """Machine types with their size, GPU and zones; GPUs that attach to N1 with their zones and
    counts. Reads three CSV files.

    A row without a zone is a type that its region has, in a zone no source names: kept under
    `regions`, never given a made-up zone.
    """
    types: dict[str, dict[str, Any]] = {}

    def note(row: dict[str, str], accelerator: str, gpu: str, count: float, ssd_gib: int) -> None:
        found = types.setdefault(
            row["instance_type"],
            {
                "vcpus": int(float(row["vcpus"])),
                "memory_mib": round(float(row["memory_gb"]) * 1024),
                "accelerator": accelerator,
                "gpu": gpu,
            }
            | {"gpu_count": count, "bundled_ssd_gib": ssd_gib, "zones": set(), "regions": set()},
        )
        found["zones" if row["zone"] else "regions"].add(row["zone"] or row["region"])

    for row in _rows(source / "gcp_gpu_offers.csv"):
        note(
            row,
            row["gcp_accelerator_type"],
            row["gpu_name"],
            float(row["gpu_count"]),
            int(float(row["bundled_local_ssd_gib"] or 0)),
        )
    for row in _rows(source / "gcp_n1_hosts.csv"):
        note(row, "", "", 0, 0)
    attachable: dict[str, dict[str, Any]] = {}
    for row in _rows(source / "gcp_n1_attachable_gpus.csv"):
        found = attachable.setdefault(
            row["gcp_accelerator_type"], {"gpu": row["gpu_name"], "counts": set(), "zones": set()}
        )
        found["counts"].add(int(float(row["gpu_count"])))
        found["zones"].add(row["zone"])
    return {"types": _plain(types), "attachable": _plain(attachable)}


def _rows(path: Path) -> list[dict[str, str]]:
    """The rows of one of the catalog's sources, below the remark at its top."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()[1:]))


def _plain(table: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        name: {
            key: sorted(value) if isinstance(value, set) else value for key, value in row.items()
        }
        for name, row in sorted(table.items())
    }


def main(argv: list[str]) -> int:
    """Writes what `argv` names; 0 when done, 2 for a wrong call."""
    if argv[:1] == ["discovery"] and len(argv) == 1:
        content, path = compute(), HERE / "discovery.json"
    elif argv == ["vertex"]:
        content, path = discovery(installed("aiplatform.v1"), VERTEX_SERVED), VERTEX
    elif argv[:1] == ["machines"] and len(argv) == 2:
        content, path = machines(Path(argv[1])), HERE / "machines.json"
    else:
        print(__doc__, file=sys.stderr)
        return 2
    # One entry a line: a diff of a new revision can be read, and the file stays small.
    lines = []
    for key, value in content.items():
        if isinstance(value, dict):
            rows = ",\n".join(
                f"  {json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}"
                for name, row in value.items()
            )
            lines.append(f" {json.dumps(key)}: {{\n{rows}\n }}")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"wrote {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
