"""What the adapter must know of an instance type to order it and to recognise it. Owns types,
families and their quota buckets; pure.

Figures: EC2's own description of its types as of 2026-10 (moto 5.2.5's copy). EC2's answer about an
instance names its type alone, so the GPUs come from here.
"""

from __future__ import annotations

from typing import NamedTuple

from providers.model.ask import SPOT


class Type(NamedTuple):
    """One instance type. `gpu` is the catalog's name; `efa` is how many EFA interfaces it takes (0:
    none).
    """

    gpu: str
    gpus: int
    vcpus: int
    memory_gib: int
    efa: int


TYPES: dict[str, Type] = {
    "g4dn.xlarge": Type("T4", 1, 4, 16, 0),
    "g4dn.2xlarge": Type("T4", 1, 8, 32, 0),
    "g4dn.4xlarge": Type("T4", 1, 16, 64, 0),
    "g4dn.8xlarge": Type("T4", 1, 32, 128, 1),
    "g4dn.12xlarge": Type("T4", 4, 48, 192, 1),
    "g4dn.16xlarge": Type("T4", 1, 64, 256, 1),
    "g4dn.metal": Type("T4", 8, 96, 384, 1),
    "g5.xlarge": Type("A10G", 1, 4, 16, 0),
    "g5.2xlarge": Type("A10G", 1, 8, 32, 0),
    "g5.4xlarge": Type("A10G", 1, 16, 64, 0),
    "g5.8xlarge": Type("A10G", 1, 32, 128, 1),
    "g5.12xlarge": Type("A10G", 4, 48, 192, 1),
    "g5.16xlarge": Type("A10G", 1, 64, 256, 1),
    "g5.24xlarge": Type("A10G", 4, 96, 384, 1),
    "g5.48xlarge": Type("A10G", 8, 192, 768, 1),
    "g5g.xlarge": Type("T4g", 1, 4, 8, 0),
    "g5g.2xlarge": Type("T4g", 1, 8, 16, 0),
    "g5g.4xlarge": Type("T4g", 1, 16, 32, 0),
    "g5g.8xlarge": Type("T4g", 1, 32, 64, 0),
    "g5g.16xlarge": Type("T4g", 2, 64, 128, 0),
    "g5g.metal": Type("T4g", 2, 64, 128, 0),
    "g6.xlarge": Type("L4", 1, 4, 16, 0),
    "g6.2xlarge": Type("L4", 1, 8, 32, 0),
    "g6.4xlarge": Type("L4", 1, 16, 64, 0),
    "g6.8xlarge": Type("L4", 1, 32, 128, 1),
    "g6.12xlarge": Type("L4", 4, 48, 192, 1),
    "g6.16xlarge": Type("L4", 1, 64, 256, 1),
    "g6.24xlarge": Type("L4", 4, 96, 384, 1),
    "g6.48xlarge": Type("L4", 8, 192, 768, 1),
    "g6e.xlarge": Type("L40S", 1, 4, 32, 0),
    "g6e.2xlarge": Type("L40S", 1, 8, 64, 0),
    "g6e.4xlarge": Type("L40S", 1, 16, 128, 0),
    "g6e.8xlarge": Type("L40S", 1, 32, 256, 1),
    "g6e.12xlarge": Type("L40S", 4, 48, 384, 1),
    "g6e.16xlarge": Type("L40S", 1, 64, 512, 1),
    "g6e.24xlarge": Type("L40S", 4, 96, 768, 2),
    "g6e.48xlarge": Type("L40S", 8, 192, 1536, 4),
    "g7.2xlarge": Type("RTX-PRO-4500", 1, 8, 32, 0),
    "g7.4xlarge": Type("RTX-PRO-4500", 1, 16, 64, 0),
    "g7.8xlarge": Type("RTX-PRO-4500", 1, 32, 128, 1),
    "g7.12xlarge": Type("RTX-PRO-4500", 2, 48, 192, 1),
    "g7.24xlarge": Type("RTX-PRO-4500", 4, 96, 384, 1),
    "g7.48xlarge": Type("RTX-PRO-4500", 8, 192, 768, 2),
    "g7e.2xlarge": Type("RTX-PRO-6000", 1, 8, 64, 0),
    "g7e.4xlarge": Type("RTX-PRO-6000", 1, 16, 128, 0),
    "g7e.8xlarge": Type("RTX-PRO-6000", 1, 32, 256, 1),
    "g7e.12xlarge": Type("RTX-PRO-6000", 2, 48, 512, 1),
    "g7e.24xlarge": Type("RTX-PRO-6000", 4, 96, 1024, 2),
    "g7e.48xlarge": Type("RTX-PRO-6000", 8, 192, 2048, 4),
    "gr6.4xlarge": Type("L4", 1, 16, 128, 0),
    "gr6.8xlarge": Type("L4", 1, 32, 256, 1),
    "p3dn.24xlarge": Type("V100-32GB", 8, 96, 768, 1),
    "p4d.24xlarge": Type("A100", 8, 96, 1152, 4),
    "p4de.24xlarge": Type("A100-80GB", 8, 96, 1152, 4),
    "p5.4xlarge": Type("H100", 1, 16, 256, 1),
    "p5.48xlarge": Type("H100", 8, 192, 2048, 32),
    "p5e.48xlarge": Type("H200", 8, 192, 2048, 32),
    "p5en.48xlarge": Type("H200", 8, 192, 2048, 16),
    "p6-b200.48xlarge": Type("B200", 8, 192, 2048, 8),
    "p6-b300.48xlarge": Type("B300", 8, 192, 4096, 16),
}

EFA_GBIT_S = {
    "p3dn.24xlarge": 100,
    "p4d.24xlarge": 400,
    "p4de.24xlarge": 400,
    "p5.4xlarge": 100,
    "p5.48xlarge": 3_200,
    "p5e.48xlarge": 3_200,
    "p5en.48xlarge": 3_200,
    "p6-b200.48xlarge": 3_200,
    "p6-b300.48xlarge": 6_400,
}
"""What all EFA interfaces of a type reach together in one direction (EC2's description of types and
Amazon's page on accelerated computing instances, 2026-10). Others share the type's ordinary rate.
"""
ARM_FAMILIES = frozenset({"g5g"})
PROPRIETARY_DRIVER = frozenset({"p3dn"})
"""Volta has no open kernel module: the default image's driver does not run it (NVIDIA; the Deep
Learning AMI's release notes, 2026-01).
"""
NO_INSTANCE_STORE = frozenset({"g5g"})
"""Families with EBS disks alone (EC2's description of types, 2026-10)."""
BARE_CARD_0 = frozenset({"p6-b300"})
"""Families whose network card 0 carries no EFA: 17 cards, EFA on the other 16 (EC2 description of
types, 2026-10).
"""


class Bucket(NamedTuple):
    """One account limit of a region, in vCPUs: its Service Quotas codes and the families that draw
    on it.
    """

    name: str
    on_demand: str
    spot: str
    families: str


BUCKETS = (
    Bucket("P", "L-417A185B", "L-7212CCBC", "p"),
    Bucket("G and VT", "L-DB2E81BA", "L-3819A6DF", "g"),
)
"""Codes as several public code bases of 2026 agree on them."""


def family(instance_type: str) -> str:
    """`p5` of `p5.48xlarge`."""
    return instance_type.partition(".")[0]


def gpus_of(instance_type: str) -> tuple[str, int]:
    """(GPU, count) of an instance type, or ("", 0) for one that the table does not know."""
    found = TYPES.get(instance_type)
    return (found.gpu, found.gpus) if found else ("", 0)


def architecture(instance_type: str) -> str:
    """The processor, as EC2 names it."""
    return "arm64" if family(instance_type) in ARM_FAMILIES else "x86_64"


def bucket(instance_type: str) -> Bucket:
    """The account limit that a type draws on."""
    return next(row for row in BUCKETS if instance_type.startswith(row.families))


def quota_code(instance_type: str, capacity: str) -> str:
    """The Service Quotas code of the limit that a type draws on, bought this way."""
    row = bucket(instance_type)
    return row.spot if capacity == SPOT else row.on_demand


def bucket_gpus(row: Bucket) -> tuple[str, ...]:
    """Every GPU sold in a bucket; no GPU is in two."""
    return tuple(
        dict.fromkeys(kind.gpu for name, kind in TYPES.items() if name.startswith(row.families))
    )


def efa_cards(instance_type: str) -> tuple[tuple[int, int, str], ...]:
    """(network card, device on it, kind of interface), the primary first; empty where the type
    takes no EFA.

    One interface a card: the primary carries the address, the others EFA alone (`efa-only`), so
    that a subnet's addresses are not used up.
    """
    count = TYPES[instance_type].efa if instance_type in TYPES else 0
    if not count:
        return ()
    if family(instance_type) in BARE_CARD_0:
        return ((0, 0, "interface"), *((card, 0, "efa-only") for card in range(1, count + 1)))
    return ((0, 0, "efa"), *((card, 1, "efa-only") for card in range(1, count)))
