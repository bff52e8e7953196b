"""EC2's price lists as offers: types by zone id, then what only the price lists have, by region.

Owns what a source's row means. Never read at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.catalog import names
from providers.catalog.offers import NOT_LISTED
from providers.catalog.price_list import (
    MachineType,
    Made,
    Place,
    Price,
    Row,
    gpu_of,
    memory_of,
    read,
)

if TYPE_CHECKING:
    from pathlib import Path

_AWS_LEFT_OUT = "EBS volumes; egress; public IPv4"
_AWS_ARM = ("g5g", "p6e")
_AWS_GONE = "only in price lists: EC2's own list of types and zones of 2026-10 has it nowhere"
_L4_DRIVER_GIB = 22.35
"""What EC2 reports for a whole L4; a slice's report divided by it is the fraction."""


def aws_gpu(instance_type: str, text: str, memory_gb: float) -> str:
    """The model of an EC2 type. EC2 says `A100` and `V100` for both sizes: the type decides. A
    price list has `L40` for g6f: EC2's L4 wins.
    """
    family = instance_type.split(".")[0]
    if family in {"g6f", "gr6f"}:
        return "L4"
    if family == "p4de" or (gpu_of(text) == "A100" and memory_gb >= 80):
        return "A100-80GB"
    if family == "p3dn" or (gpu_of(text) == "V100" and memory_gb >= 32):
        return "V100-32GB"
    return gpu_of(text)


def aws_parts(instance_type: str, count: float, gpu: str) -> str:
    """What the price of an EC2 type holds."""
    host = "vCPU (Arm)" if instance_type.split(".")[0] in _AWS_ARM else "vCPU"
    return f"{host} + RAM + {count:g} x {gpu} + instance store if the type has one"


def aws(made: Made, folder: Path) -> None:
    """EC2 types by zone id, then what only the price lists know, by region.

    On-demand: the us-east-1 list of 2026-07-20 wins over the catalog with zone ids, that over the
    price page of 2026-01-21; where they overlap they agree to 0.001 dollars. Spot is known for few
    places; elsewhere there is no price. A spot price rounded to a hair above on-demand, noted as
    equal to it, is equal to it.
    """
    described: dict[str, MachineType] = {}
    listed: set[tuple[str, str]] = set()
    for row in read(folder, "aws_gpu_offers"):
        kind = row["instance_type"]
        reported = float(row["gpu_memory_gb"])
        gpu = aws_gpu(kind, row["gpu_name"], reported)
        count = float(row["gpu_count"])
        if count == 0:
            count = round(reported / _L4_DRIVER_GIB * 8) / 8
        elif not names.nominal_memory_matches(gpu, reported * 1024):
            raise ValueError(f"{kind}: {gpu} with {reported} GiB")
        machine = described[kind] = MachineType(
            "aws",
            kind,
            kind,
            gpu,
            count,
            memory_of(gpu, count),
            float(row["vcpus"]),
            float(row["memory_gb"]),
            0,
            "",
            aws_parts(kind, count, gpu),
            _AWS_LEFT_OUT,
            ("", "", NOT_LISTED, ""),
        )
        on_demand = made.price(row["ondemand_usd_h"], row["ondemand_source"], row["ondemand_as_of"])
        spot = made.price(row["spot_usd_h"], row["spot_source"], row["spot_as_of"])
        if "spot equals on-demand" in row["notes"] and on_demand.micro is not None:
            spot = spot._replace(micro=on_demand.micro)
        listed.add((row["region"], kind))
        made.add(machine, Place("aws", kind, row["region"], row["zone"], on_demand, spot))
    aws_by_region(made, folder, described, listed)


def aws_by_region(
    made: Made, folder: Path, described: dict[str, MachineType], listed: set[tuple[str, str]]
) -> None:
    """Types and regions that only the price lists have. The list of 2026-07-20 names no GPU: its
    rows take the type's description from the other. Raises ValueError for a price that stands in
    both tables: an edit of one of them would change nothing.
    """
    rows = list(read(folder, "aws_gpu_ondemand_by_region"))
    for row in rows:
        kind = row["instance_type"]
        if (row["region"], kind) in listed:
            raise ValueError(
                f"aws_gpu_ondemand_by_region.csv: {kind} in {row['region']} stands in"
                " aws_gpu_offers.csv, which has its price: edit it there, and remove this row"
            )
        if row["gpu_name"] and kind not in described:
            gpu = aws_gpu(kind, row["gpu_name"], 0)
            count = float(row["gpu_count"])
            described[kind] = MachineType(
                "aws",
                kind,
                kind,
                gpu,
                count,
                memory_of(gpu, count),
                float(row["vcpus"]),
                float(row["memory"].split()[0]),
                0,
                "",
                aws_parts(kind, count, gpu),
                _AWS_LEFT_OUT,
                (_AWS_GONE, NOT_LISTED, NOT_LISTED, NOT_LISTED),
            )
    newest: dict[tuple[str, str], Row] = {}
    for row in rows:
        place = (row["region"], row["instance_type"])
        if row["region"].startswith("us-gov-"):
            made.skip("AWS GovCloud: a partition of its own that an ordinary account cannot use")
        elif row["instance_type"] not in described:
            made.skip("AWS type without a description")
        elif place not in newest or row["as_of"] > newest[place]["as_of"]:
            newest[place] = row
    for (region, kind), row in newest.items():
        price = made.price(row["ondemand_usd_h"], row["source"], row["as_of"])
        made.add(described[kind], Place("aws", kind, region, "", price, Price()))
