"""NVIDIA's product names: which model a card means that a driver reports. Owns the table of names;
pure, imports nothing of the package.

A name as `nvidia-smi --query-gpu=name` prints it, compared without case, blanks, dashes and brand
(NVIDIA's driver README, appendix "Supported NVIDIA GPU Products", read 2026-11-29). Whole names
only: nothing is taken for a model because it looks like one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BRAND = re.compile(r"^(NVIDIA|GEFORCE|TESLA) ")
_BLANKS = re.compile(r"[\s_-]+")
_LEAST, _MOST = 0.85, 1.05
"""What a driver reports of a card's nominal memory, at least and at most: ECC takes some."""


class Model(NamedTuple):
    """A model, and the nominal memory of a card in GiB."""

    name: str
    memory_gib: float


_AS_WRITTEN = (
    (6, ("GTX-1660-SUPER",)),
    (
        8,
        (
            "M60",
            "P4",
            "QUADRO-RTX-4000",
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
    (
        12,
        ("K80", "TITAN-V", "RTX-3080-TI", "RTX-4070", "RTX-4070-SUPER", "RTX-4070-TI", "RTX-5070"),
    ),
    (
        16,
        (
            "T4",
            "A2",
            "A16",
            "QUADRO-RTX-5000",
            "RTX-A4000",
            "RTX-4070-TI-SUPER",
            "RTX-4080",
            "RTX-4080-SUPER",
            "RTX-5070-TI",
            "RTX-5080",
        ),
    ),
    (20, ("RTX-A4500",)),
    (
        24,
        (
            "P40",
            "A10",
            "A10G",
            "A30",
            "L4",
            "QUADRO-RTX-6000",
            "RTX-A5000",
            "TITAN-RTX",
            "RTX-3090",
            "RTX-3090-TI",
            "RTX-4090",
        ),
    ),
    (32, ("RTX-5090",)),
    (48, ("A40", "L40", "L40S", "QUADRO-RTX-8000", "RTX-A6000")),
    (94, ("H100-NVL",)),
    (141, ("H200", "H200-NVL")),
    (180, ("B200",)),
    (186, ("GB200",)),
    (279, ("GB300",)),
)
"""Models whose name is the product's."""
_OTHERWISE: dict[str, tuple[tuple[str, float], ...]] = {
    "P100-PCIE-16GB": (("P100", 16),),
    "P100-SXM2-16GB": (("P100", 16),),
    "V100-PCIE-16GB": (("V100", 16),),
    "V100-SXM2-16GB": (("V100", 16),),
    "V100-PCIE-32GB": (("V100-32GB", 32),),
    "V100-SXM2-32GB": (("V100-32GB", 32),),
    "V100-SXM3-32GB": (("V100-32GB", 32),),
    "A100-SXM4-40GB": (("A100", 40),),
    "A100-PCIE-40GB": (("A100-PCIe", 40),),
    "A100-SXM4-80GB": (("A100-80GB", 80),),
    "A100-80GB-PCIE": (("A100-80GB-PCIe", 80),),
    "H100-80GB-HBM3": (("H100", 80),),
    "H100-PCIE": (("H100-PCIe", 80),),
    "GH200-480GB": (("GH200", 96),),
    "GH200-144G-HBM3E": (("GH200-144GB", 144),),
    "B300-SXM6-AC": (("B300", 270),),
    "RTX-PRO-6000-BLACKWELL-SERVER-EDITION": (("RTX-PRO-6000", 96),),
    "RTX-PRO-6000-BLACKWELL-WORKSTATION-EDITION": (("RTX-PRO-6000-WS", 96),),
    "RTX-PRO-6000-BLACKWELL-MAX-Q-WORKSTATION-EDITION": (("RTX-PRO-6000-MAX-Q", 96),),
    "RTX-PRO-4500-BLACKWELL": (("RTX-PRO-4500", 32),),
    "RTX-4000-ADA-GENERATION": (("RTX-4000-ADA", 20),),
    "RTX-5000-ADA-GENERATION": (("RTX-5000-ADA", 32),),
    "RTX-6000-ADA-GENERATION": (("RTX-6000-ADA", 48),),
    "RTX-4090-D": (("RTX-4090-D", 24),),
    "RTX-5090-D": (("RTX-5090-D", 32),),
    "RTX-3060": (("RTX-3060", 12), ("RTX-3060-8GB", 8)),
    "RTX-3080": (("RTX-3080", 10), ("RTX-3080-12GB", 12)),
    "RTX-4060-TI": (("RTX-4060-TI", 8), ("RTX-4060-TI-16GB", 16)),
    "RTX-5060-TI": (("RTX-5060-TI", 8), ("RTX-5060-TI-16GB", 16)),
}
"""Products with another name than the model's, or of several sizes."""


def _spelling(text: str) -> str:
    text = text.upper().strip()
    while (shorter := _BRAND.sub("", text)) != text:
        text = shorter
    return _BLANKS.sub("", text)


_TABLE: dict[str, tuple[Model, ...]] = {
    **{_spelling(name): (Model(name, gib),) for gib, names in _AS_WRITTEN for name in names},
    **{
        _spelling(product): tuple(Model(*each) for each in models)
        for product, models in _OTHERWISE.items()
    },
}


def model(product: str, mib: float) -> str:
    """The model of a card by its product name and memory; empty where none is known by both."""
    for each in _TABLE.get(_spelling(product), ()):
        if _LEAST <= mib / 1024 / each.memory_gib <= _MOST:
            return each.name
    return ""


def spellings() -> dict[str, tuple[str, ...]]:
    """The table: a product's name and the models that it may mean."""
    return {product: tuple(each.name for each in models) for product, models in _TABLE.items()}
