"""Clore's GPU texts: which model a listing means. Owns the alias table of this market; pure,
imports nothing of the package.

Whole models only: what is left of a text after the count, the vendor and blanks must be a known
spelling, or the model is unknown. Texts as they occur in `specs.gpu` and `gpu_array` (recorded by
independent public clients, read 2026-11-27).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_COUNT = re.compile(r"^\s*(\d{1,3})\s*[xX]\s+")
_VENDOR = re.compile(r"^(NVIDIA|GEFORCE|TESLA|AMD|RADEON)\s+")
_BLANKS = re.compile(r"[\s_-]+")


class Model(NamedTuple):
    """A model of this market. `memory_gb` is nominal, per GPU."""

    name: str
    memory_gb: float


def _table() -> dict[str, tuple[Model, ...]]:
    """Spelling to the models it may mean; more than one only where the same text stands for two
    sizes, told apart by the memory that is reported.
    """
    table: dict[str, tuple[Model, ...]] = {}

    def plain(memory_gb: float, name: str, *spellings: str) -> None:
        for spelling in (name, *spellings):
            table[_spelling(spelling)] = (Model(name, memory_gb),)

    def sized(spellings: tuple[str, ...], *models: tuple[str, float]) -> None:
        for spelling in spellings:
            table[_spelling(spelling)] = tuple(Model(*model) for model in models)

    for memory_gb, gpus in (
        (6, ("GTX-1660-SUPER",)),
        (
            8,
            (
                "GTX-1070",
                "GTX-1080",
                "RTX-2060-SUPER",
                "RTX-2070",
                "RTX-2070-SUPER",
                "RTX-2080",
                "RTX-3060-TI",
                "RTX-3070",
                "RTX-3070-TI",
                "RTX-4060",
            ),
        ),
        (11, ("GTX-1080-TI", "RTX-2080-TI")),
        (12, ("RTX-3080-TI", "RTX-4070", "RTX-4070-SUPER", "RTX-4070-TI", "RTX-5070", "TITAN-V")),
        (16, ("RTX-4070-TI-SUPER", "RTX-4080", "RTX-4080-SUPER", "RTX-5070-TI", "RTX-5080")),
        (24, ("RTX-3090", "RTX-3090-TI", "RTX-4090", "RTX-4090-D", "TITAN-RTX")),
        (32, ("RTX-5090", "RTX-5090-D")),
    ):
        for gpu in gpus:
            plain(memory_gb, gpu)
    sized(("RTX 3060",), ("RTX-3060", 12), ("RTX-3060-8GB", 8))
    sized(("RTX 3080",), ("RTX-3080", 10), ("RTX-3080-12GB", 12))
    sized(("RTX 4060 Ti",), ("RTX-4060-TI", 8), ("RTX-4060-TI-16GB", 16))
    sized(("RTX 5060 Ti",), ("RTX-5060-TI", 8), ("RTX-5060-TI-16GB", 16))
    plain(16, "RTX-A4000")
    plain(20, "RTX-A4500")
    plain(24, "RTX-A5000")
    plain(48, "RTX-A6000")
    plain(24, "QUADRO-RTX-6000")
    plain(48, "QUADRO-RTX-8000")
    plain(20, "RTX-4000-ADA", "RTX 4000 Ada Generation", "RTX 4000 SFF Ada Generation")
    plain(32, "RTX-5000-ADA", "RTX 5000 Ada Generation")
    plain(48, "RTX-6000-ADA", "RTX 6000 Ada Generation")
    plain(96, "RTX-PRO-6000", "RTX PRO 6000 Blackwell Server Edition")
    plain(96, "RTX-PRO-6000-WS", "RTX PRO 6000 Blackwell Workstation Edition")
    plain(96, "RTX-PRO-6000-MAX-Q", "RTX PRO 6000 Blackwell Max-Q Workstation Edition")
    plain(24, "P40")
    sized(("P100 PCIE 16GB", "P100 SXM2 16GB"), ("P100", 16))
    sized(("V100", "V100 SXM2", "V100 PCIe"), ("V100", 16), ("V100-32GB", 32))
    sized(("V100 SXM2 16GB", "V100 PCIE 16GB"), ("V100", 16))
    sized(("V100 SXM2 32GB", "V100 SXM3 32GB", "V100 PCIE 32GB"), ("V100-32GB", 32))
    plain(16, "T4")
    plain(24, "A10")
    plain(24, "A30")
    plain(48, "A40")
    plain(24, "L4")
    plain(48, "L40")
    plain(48, "L40S")
    sized(("A100", "A100 SXM", "A100 SXM4"), ("A100", 40), ("A100-80GB", 80))
    sized(("A100 SXM4 40GB",), ("A100", 40))
    sized(("A100 SXM4 80GB",), ("A100-80GB", 80))
    sized(("A100 PCIe",), ("A100-PCIe", 40), ("A100-80GB-PCIe", 80))
    sized(("A100 PCIe 40GB", "A100 40GB PCIe"), ("A100-PCIe", 40))
    sized(("A100 80GB PCIe", "A100 PCIe 80GB"), ("A100-80GB-PCIe", 80))
    # A bare "H100" is no spelling: three cards of unlike speed bear it.
    sized(("H100 80GB HBM3", "H100 SXM", "H100 SXM5"), ("H100", 80))
    plain(80, "H100-PCIe")
    plain(94, "H100-NVL")
    plain(141, "H200", "H200 SXM")
    plain(141, "H200-NVL")
    plain(180, "B200")
    plain(270, "B300", "B300 SXM6 AC")
    return table


def _spelling(text: str) -> str:
    key = _BLANKS.sub(" ", text).strip().upper()
    while (shorter := _VENDOR.sub("", key)) != key:
        key = shorter
    return key


_TABLE = _table()


def count_of(text: str) -> int | None:
    """The count that a text such as `2x NVIDIA GeForce RTX 3090` begins with; None where it names
    none.
    """
    match = _COUNT.match(text)
    return int(match[1]) if match else None


def memory_fits(model: Model, reported_gb: float) -> bool:
    """True when `gpuram` is what a card of this model reports: whole GB, sometimes one too few, and
    up to 8 % under the sheet for ECC and driver.
    """
    return 0.90 * model.memory_gb - 0.5 <= reported_gb <= 1.03 * model.memory_gb + 0.5


def models_of(text: str, reported_gb: float | None = None) -> tuple[Model, ...]:
    """The models that a text may mean, its count left aside: none when unknown or when the report
    fits none, two when only the memory could tell.
    """
    found = _TABLE.get(_spelling(_COUNT.sub("", text)), ())
    return (
        found
        if reported_gb is None
        else tuple(model for model in found if memory_fits(model, reported_gb))
    )


def spellings() -> dict[str, tuple[Model, ...]]:
    """The whole table, for checks."""
    return dict(_TABLE)
