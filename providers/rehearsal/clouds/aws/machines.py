"""The instance types of the rehearsed EC2, and the account limits that they draw on.

The types are EC2's own description of 2026-10, committed in `zones.json` (see `generate`); nothing
here is the adapter's, so that a wrong figure of its table is refused as EC2 would.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from providers.rehearsal.clouds.aws import places


class Type(NamedTuple):
    """One instance type. `gpu` is the catalog's name; `efa`: how many EFA interfaces it takes."""

    gpu: str
    gpus: int
    vcpus: int
    efa: int


class Limit(NamedTuple):
    """One limit of an account and region, in vCPUs: its Service Quotas codes, and how the names of
    the families begin that draw on it.
    """

    name: str
    on_demand: str
    spot: str
    families: str


LIMITS = (
    Limit("P", "L-417A185B", "L-7212CCBC", "p"),
    Limit("G and VT", "L-DB2E81BA", "L-3819A6DF", "g"),
)
"""Service Quotas' own list of EC2 (AWS documentation, read 2026-11)."""


@cache
def types() -> dict[str, Type]:
    """Every instance type with whole GPUs, by name."""
    return {name: Type(*figures) for name, figures in places.table()["machines"].items()}


def gpus_of(instance_type: str) -> tuple[str, int]:
    """(GPU, count) of an instance type, or ("", 0) for an unknown one."""
    found = types().get(instance_type)
    return (found.gpu, found.gpus) if found else ("", 0)


def architecture(instance_type: str) -> str:
    """The processor, as EC2 names it: types with a T4g have Graviton's."""
    return "arm64" if gpus_of(instance_type)[0] == "T4g" else "x86_64"


def limit_of(instance_type: str) -> Limit:
    """The account limit that a type draws on."""
    return next(row for row in LIMITS if instance_type.startswith(row.families))
