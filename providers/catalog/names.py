"""GPU names: which text means which model. Owns the list of models, their nominal memory and the
alias table.

Nothing is ever chosen by resemblance: a text is a known spelling of exactly one model, or it is
unknown. `near` only suggests. Pure; imports nothing of the package, and difflib only when something
is suggested.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class _Model(NamedTuple):
    memory_gib: float
    spellings: tuple[str, ...] = ()
    is_gpu: bool = True


def _models() -> dict[str, _Model]:
    """Every model: nominal memory as its maker names it (GB on the sheet, read as GiB), and further
    spellings than the name itself.

    Spellings are those of cloud APIs (`nvidia-h100-80gb`), of drivers (`NVIDIA H100 80GB HBM3`) and
    of marketplaces. A leading vendor name may always be left out or put in. B200, B300, GB200 and
    GB300 stand at what a program can use: NVIDIA's HGX and NVL72 sheets (180, 270, 186 and 279 GB),
    not at the chips' raw 192 and 288.
    """
    m = _Model
    return {
        # data centre, oldest first
        "K520": m(4, ("GRID K520",)),
        "K80": m(12, ("Tesla K80",)),
        "M60": m(8, ("Tesla M60",)),
        "P4": m(8, ("Tesla P4",)),
        "P40": m(24, ("Tesla P40",)),
        "P100": m(16, ("Tesla P100", "P100-16GB", "Tesla P100-PCIE-16GB", "Tesla P100-SXM2-16GB")),
        "V100": m(
            16,
            (
                "V100-16GB",
                "Tesla V100",
                "V100 SXM2",
                "V100 PCIe",
                "Tesla V100-SXM2-16GB",
                "Tesla V100-PCIE-16GB",
                "V100-SXM2-16GB",
                "V100-PCIE-16GB",
            ),
        ),
        "V100-32GB": m(
            32,
            (
                "Tesla V100-SXM2-32GB",
                "Tesla V100-PCIE-32GB",
                "Tesla V100-SXM3-32GB",
                "V100-SXM2-32GB",
                "V100-PCIE-32GB",
                "Tesla V100-32GB",
            ),
        ),
        "T4": m(16, ("Tesla T4", "T4-16GB")),
        "T4g": m(16, ("T4g Tensor Core",)),
        "A2": m(16),
        "A10": m(24, ("A10-24GB",)),
        "A10G": m(24, ("A10G-24GB",)),
        "A16": m(16),
        "A30": m(24),
        "A40": m(48, ("A40-48GB",)),
        "A100": m(
            40,
            (
                "A100-40GB",
                "Tesla A100",
                "A100 SXM4",
                "A100-SXM4-40GB",
                "A100 SXM 40GB",
                "A100 SXM4 40GB",
            ),
        ),
        "A100-PCIe": m(40, ("A100-PCIE-40GB", "A100 40GB PCIe")),
        "A100-80GB": m(80, ("A100-SXM4-80GB",)),
        "A100-80GB-PCIe": m(80, ("A100 PCIe 80GB",)),
        "L4": m(24, ("L4-24GB",)),
        "L40": m(48, ("L40-48GB",)),
        "L40S": m(48, ("L40S-48GB",)),
        "H100": m(80, ("H100-80GB", "H100 80GB HBM3")),
        "H100-PCIe": m(80, ("H100-PCIE-80GB", "H100 80GB PCIe")),
        "H100-MEGA": m(80, ("H100-MEGA-80GB",)),
        "H100-NVL": m(94, ("H100 NVL 94GB", "H100-94GB")),
        "H200": m(141, ("H200-141GB", "H200 SXM", "H200 SXM 141GB")),
        "H200-NVL": m(141),
        "GH200": m(96, ("GH200 480GB", "GH200-96GB", "GH200 96GB HBM3")),
        "GH200-144GB": m(144, ("GH200 144GB HBM3e",)),
        "B100": m(192, ("B100 SXM",)),
        "B200": m(180, ("B200-180GB", "B200 SXM", "B200 Blackwell")),
        "B300": m(270, ("B300 SXM", "B300 SXM6 AC", "B300 Blackwell")),
        "GB200": m(186, ("GB200 NVL72",)),
        "GB300": m(279, ("GB300 NVL72",)),
        "RTX-PRO-6000": m(
            96,
            (
                "RTX PRO 6000 Blackwell Server Edition",
                "RTX PRO Server 6000",
                "RTX PRO 6000 Blackwell",
            ),
        ),
        "RTX-PRO-4500": m(
            32,
            (
                "RTX PRO 4500 Blackwell",
                "RTX PRO 4500 Blackwell Server Edition",
                "RTX PRO Server 4500",
            ),
        ),
        # workstation
        "RTX-PRO-6000-WS": m(96, ("RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 WS")),
        "RTX-PRO-6000-MAX-Q": m(96, ("RTX PRO 6000 Blackwell Max-Q Workstation Edition",)),
        "QUADRO-RTX-4000": m(8),
        "QUADRO-RTX-5000": m(16),
        "QUADRO-RTX-6000": m(24),
        "QUADRO-RTX-8000": m(48),
        "RTX-A4000": m(16, ("A4000",)),
        "RTX-A4500": m(20, ("A4500",)),
        "RTX-A5000": m(24, ("A5000",)),
        "RTX-A6000": m(48, ("A6000",)),
        "RTX-4000-ADA": m(20, ("RTX 4000 Ada Generation",)),
        "RTX-5000-ADA": m(32, ("RTX 5000 Ada Generation",)),
        "RTX-6000-ADA": m(48, ("RTX 6000 Ada Generation",)),
        # consumer; TITAN cards stand among them
        "GTX-1070": m(8, ("GeForce GTX 1070",)),
        "GTX-1080": m(8, ("GeForce GTX 1080",)),
        "GTX-1080-TI": m(11, ("GeForce GTX 1080 Ti",)),
        "GTX-1660-SUPER": m(6, ("GeForce GTX 1660 SUPER",)),
        "TITAN-V": m(12),
        "TITAN-RTX": m(24),
        "RTX-2060-SUPER": m(8, ("GeForce RTX 2060 SUPER",)),
        "RTX-2070": m(8, ("GeForce RTX 2070",)),
        "RTX-2070-SUPER": m(8, ("GeForce RTX 2070 SUPER",)),
        "RTX-2080": m(8, ("GeForce RTX 2080",)),
        "RTX-2080-TI": m(11, ("GeForce RTX 2080 Ti",)),
        "RTX-3060": m(12, ("GeForce RTX 3060", "RTX 3060 12GB")),
        "RTX-3060-8GB": m(8),
        "RTX-3060-TI": m(8, ("GeForce RTX 3060 Ti",)),
        "RTX-3070": m(8, ("GeForce RTX 3070",)),
        "RTX-3070-TI": m(8, ("GeForce RTX 3070 Ti",)),
        "RTX-3080": m(10, ("GeForce RTX 3080", "RTX 3080 10GB", "GeForce RTX 3080 10GB")),
        "RTX-3080-12GB": m(12, ("GeForce RTX 3080 12GB",)),
        "RTX-3080-TI": m(12, ("GeForce RTX 3080 Ti",)),
        "RTX-3090": m(24, ("GeForce RTX 3090",)),
        "RTX-3090-TI": m(24, ("GeForce RTX 3090 Ti",)),
        "RTX-4060": m(8, ("GeForce RTX 4060",)),
        "RTX-4060-TI": m(8, ("GeForce RTX 4060 Ti", "RTX 4060 Ti 8GB")),
        "RTX-4060-TI-16GB": m(16, ("GeForce RTX 4060 Ti 16GB",)),
        "RTX-4070": m(12, ("GeForce RTX 4070",)),
        "RTX-4070-SUPER": m(12, ("GeForce RTX 4070 SUPER",)),
        "RTX-4070-TI": m(12, ("GeForce RTX 4070 Ti",)),
        "RTX-4070-TI-SUPER": m(16, ("GeForce RTX 4070 Ti SUPER",)),
        "RTX-4080": m(16, ("GeForce RTX 4080",)),
        "RTX-4080-SUPER": m(16, ("GeForce RTX 4080 SUPER",)),
        "RTX-4090": m(24, ("GeForce RTX 4090",)),
        "RTX-4090-D": m(24, ("GeForce RTX 4090 D",)),
        "RTX-5060-TI": m(8, ("GeForce RTX 5060 Ti", "RTX 5060 Ti 8GB")),
        "RTX-5060-TI-16GB": m(16, ("GeForce RTX 5060 Ti 16GB",)),
        "RTX-5070": m(12, ("GeForce RTX 5070",)),
        "RTX-5070-TI": m(16, ("GeForce RTX 5070 Ti",)),
        "RTX-5080": m(16, ("GeForce RTX 5080",)),
        "RTX-5090": m(32, ("GeForce RTX 5090",)),
        "RTX-5090-D": m(32, ("GeForce RTX 5090 D",)),
        # AMD
        "MI250": m(128, ("Instinct MI250",)),
        "MI250X": m(128, ("Instinct MI250X",)),
        "MI300X": m(192, ("Instinct MI300X",)),
        # no GPUs; known for comparison
        "GAUDI1": m(32, ("Habana Gaudi1",), is_gpu=False),
        "GAUDI2": m(96, ("Habana Gaudi2",), is_gpu=False),
        "GAUDI3": m(128, ("Habana Gaudi3",), is_gpu=False),
        "TPU-V4": m(32, ("TPU v4",), is_gpu=False),
        "TPU-V5E": m(16, ("TPU v5e", "TPU v5 lite"), is_gpu=False),
        "TPU-V5P": m(95, ("TPU v5p",), is_gpu=False),
        "IPU-MK2": m(0.9, ("IPU C600", "Graphcore C600", "Graphcore IPU MK2"), is_gpu=False),
        "WSE-2": m(40, ("Cerebras WSE-2", "CS-2"), is_gpu=False),
        "SN30": m(1024, ("DataScale SN30", "SambaNova SN30"), is_gpu=False),
    }


_MODELS = _models()

ASKS = {
    # An ask that is no model's own name: what it accepts, and its spellings.
    "H100-SXM": (("H100",), ("H100 SXM5", "H100 80GB SXM", "H100 SXM 80GB", "H100 SXM5 80GB")),
    "A100-SXM": (("A100",), ()),
    "A100-80GB-SXM": (("A100-80GB",), ("A100 SXM 80GB", "A100-80GB-SXM4")),
}

ACCEPTS: dict[str, tuple[str, ...]] = {
    "H100": ("H100", "H100-PCIe"),
    "A100": ("A100", "A100-PCIe"),
    "A100-80GB": ("A100-80GB", "A100-80GB-PCIe"),
}
"""Bare names that more than one card answers; all others accept themselves alone."""

MEANINGS = {
    "H100": (
        "H100 80 GB, SXM or PCIe (H100! or H100-SXM: only the SXM card); not H100-MEGA, H100-NVL"
        " or H200"
    ),
    "H100-SXM": "H100 80 GB as SXM card only",
    "H100-MEGA": (
        "the H100 80 GB of Google's a3-megagpu-8g, which has twice the network of a3-highgpu-8g"
    ),
    "A100": "A100 40 GB, SXM or PCIe; A100-80GB is asked for by that name",
    "A100-SXM": "A100 40 GB as SXM card only",
    "A100-80GB": "A100 80 GB, SXM or PCIe",
    "A100-80GB-SXM": "A100 80 GB as SXM card only",
    "V100": "V100 16 GB; V100-32GB is asked for by that name",
    "A10": "A10, not its AWS sibling A10G",
    "A10G": "A10G, the AWS sibling of the A10",
    "RTX-3060": "RTX 3060 12 GB",
    "RTX-3080": "RTX 3080 10 GB",
    "RTX-4060-TI": "RTX 4060 Ti 8 GB",
    "RTX-5060-TI": "RTX 5060 Ti 8 GB",
    "RTX-PRO-6000": "RTX PRO 6000 Blackwell Server Edition",
    "GH200": "GH200 with 96 GB of HBM3",
}

SIBLINGS: dict[str, tuple[str, ...]] = {
    "A10": ("A10G",),
    "A10G": ("A10",),
    "A100": ("A100-80GB",),
    "A100-80GB": ("A100", "H100"),
    "A100-80GB-PCIe": ("A100-80GB", "A100-PCIe"),
    "A100-PCIe": ("A100", "A100-80GB-PCIe"),
    "B100": ("B200",),
    "B200": ("B300", "GB200", "H200"),
    "B300": ("B200", "GB300"),
    "GB200": ("B200", "GB300"),
    "GB300": ("B300", "GB200"),
    "H100": ("H100-MEGA", "H100-NVL", "H200", "A100-80GB"),
    "H100-MEGA": ("H100", "H200"),
    "H100-NVL": ("H100", "H200"),
    "H100-PCIe": ("H100", "H100-NVL"),
    "H200": ("H200-NVL", "H100", "B200"),
    "H200-NVL": ("H200", "H100-NVL"),
    "L4": ("A10G", "A10", "T4"),
    "L40": ("L40S",),
    "L40S": ("L40", "RTX-6000-ADA"),
    "P4": ("T4",),
    "RTX-4090": ("RTX-4090-D", "RTX-5090", "RTX-3090"),
    "RTX-4090-D": ("RTX-4090",),
    "RTX-5090": ("RTX-5090-D", "RTX-4090"),
    "RTX-PRO-6000": ("RTX-PRO-6000-WS", "RTX-PRO-6000-MAX-Q", "L40S"),
    "T4": ("T4g", "L4"),
    "T4g": ("T4",),
    "V100": ("V100-32GB",),
    "V100-32GB": ("V100",),
}

SHARED = {
    # Texts that several models share: unknown on purpose, with what they may mean.
    "rtx6000": ("QUADRO-RTX-6000", "RTX-A6000", "RTX-6000-ADA", "RTX-PRO-6000"),
    "rtx5000": ("QUADRO-RTX-5000", "RTX-A5000", "RTX-5000-ADA"),
    "rtx4000": ("QUADRO-RTX-4000", "RTX-A4000", "RTX-4000-ADA"),
    "gaudi": ("GAUDI1", "GAUDI2", "GAUDI3"),
    "tpu": ("TPU-V4", "TPU-V5E", "TPU-V5P"),
    "tpuv5": ("TPU-V5E", "TPU-V5P"),
}

BY_MEMORY = {
    # The same driver name for cards of two sizes: the reported memory says which.
    "A100": ("A100", "A100-80GB"),
    "A100-SXM": ("A100", "A100-80GB"),
    "A100-PCIe": ("A100-PCIe", "A100-80GB-PCIe"),
    "V100": ("V100", "V100-32GB"),
    "RTX-3060": ("RTX-3060", "RTX-3060-8GB"),
    "RTX-3080": ("RTX-3080", "RTX-3080-12GB"),
    "RTX-4060-TI": ("RTX-4060-TI", "RTX-4060-TI-16GB"),
    "RTX-5060-TI": ("RTX-5060-TI", "RTX-5060-TI-16GB"),
    "GH200": ("GH200", "GH200-144GB"),
}

_VENDORS = ("nvidia", "amd", "intel", "google")
_SEPARATORS = str.maketrans("", "", " \t-_")
_NEAR_MAX = 5

MEMORY_UNDER = 0.10
"""How far a report may lie under the nominal size. ECC and the driver take up to 8 % (an A10G of 24
GB reports 22.1 GiB).
"""

MEMORY_OVER = 0.03
"""How far a report may lie above the nominal size: only rounding."""


def _key(text: str) -> str:
    key = text.translate(_SEPARATORS).casefold()
    for vendor in _VENDORS:
        if key.startswith(vendor) and key != vendor:
            return key[len(vendor) :]
    return key


def _aliases() -> dict[str, str]:
    table: dict[str, str] = {}
    for name, spellings in (
        *((name, model.spellings) for name, model in _MODELS.items()),
        *((name, ask[1]) for name, ask in ASKS.items()),
    ):
        for spelling in (name, *spellings):
            if table.setdefault(_key(spelling), name) != name:
                raise ValueError(
                    f"{spelling!r} is a spelling of {table[_key(spelling)]} and of {name}"
                )
    return table


_ALIASES = _aliases()


def canonical(text: str) -> str | None:
    """The name that a text is a spelling of: a model, or an ask such as `H100-SXM`. None when
    unknown.

    Case, spaces, `_`, `-` and a leading vendor name do not matter; everything else does.
    """
    return _ALIASES.get(_key(text))


def gpu_type(text: str, reported_mib: float | None = None) -> str | None:
    """The model that a cloud's or a driver's text names, for use in an offer. None when unknown, or
    when the report fits no such model.

    `reported_mib` is the memory of one GPU as reported, if it was; it settles which of two sizes a
    shared name means.
    """
    name = canonical(text)
    if name is None:
        return None
    if reported_mib is None:
        return accepts(name, exact=True)[0]
    for model in BY_MEMORY.get(name, accepts(name, exact=True)):
        if nominal_memory_matches(model, reported_mib):
            return model
    return None


def accepts(name: str, exact: bool = False) -> tuple[str, ...]:
    """The models that an ask of this canonical name accepts; with `exact` (`H100!`) the first of
    them alone. Empty when unknown.
    """
    models: tuple[str, ...] = (
        ASKS[name][0] if name in ASKS else ACCEPTS.get(name, (name,) if name in _MODELS else ())
    )
    return models[:1] if exact else models


def is_narrow(name: str) -> bool:
    """True for an ask that names one form of a card (`H100-SXM`): like `H100!` it is served by
    exactly that.
    """
    return canonical(name) in ASKS


def models() -> tuple[str, ...]:
    """Every model, in the table's order."""
    return tuple(_MODELS)


def is_gpu(gpu_type: str) -> bool:
    """False for a TPU and the like, which are known for comparison, and for an unknown model."""
    return gpu_type in _MODELS and _MODELS[gpu_type].is_gpu


def nominal_memory_gib(gpu_type: str) -> float | None:
    """The memory of one GPU as its maker names it; None for an unknown model."""
    model = _MODELS.get(gpu_type)
    return None if model is None else model.memory_gib


def nominal_memory_matches(gpu_type: str, reported_mib: float) -> bool:
    """True when a report is what a GPU of this model says of itself: from 10 % under its nominal
    size to 3 % over. False for an unknown model.
    """
    nominal = nominal_memory_gib(gpu_type)
    return (
        nominal is not None
        and (1 - MEMORY_UNDER) * nominal <= reported_mib / 1024 <= (1 + MEMORY_OVER) * nominal
    )


def by_memory(min_gib: float) -> tuple[str, ...]:
    """GPU models of at least that nominal memory, smallest first."""
    fit = (
        (model.memory_gib, name)
        for name, model in _MODELS.items()
        if model.is_gpu and model.memory_gib >= min_gib
    )
    return tuple(name for _, name in sorted(fit))


def meaning(name: str) -> str:
    """What a name stands for where that needs saying, in one line; empty where it does not."""
    return MEANINGS.get(name, "")


def told_apart(gpu_type: str) -> str:
    """`40 GB` for a model whose name does not say which of two sizes it has; else empty."""
    is_shared = any(len(sizes) > 1 and gpu_type in sizes for sizes in BY_MEMORY.values())
    return f"{_MODELS[gpu_type].memory_gib:g} GB" if is_shared and "GB" not in gpu_type else ""


def with_count(text: str) -> str:
    """`H100:8` for a text that says a known type and a count in another way (`8xH100`, `H100*8`,
    `H100-8`); empty for any other text. Pure.
    """
    for pattern in _COUNTED:
        found = re.match(pattern, text.strip(), re.IGNORECASE)
        if (
            found is not None
            and int(found["count"])
            and (name := canonical(found["type"])) is not None
        ):
            return f"{name}:{int(found['count'])}"
    return ""


def meant(text: str) -> str:
    """The one name that a shortened text means: `RTX-4090` for `4090`, `A100-80GB` for `a100-80`,
    `L4` for `L4 24 GB`; empty for any other text. To suggest by, never to buy by. Pure.
    """
    key = re.sub(r"(?<=\d\d)g(i?b)?$", "", _key(text))
    # Without its family, without the `GB` of its memory, or with a memory that goes without saying.
    for end in ("", "gb"):
        for begun in ("", *_FAMILIES):
            if (name := _ALIASES.get(f"{begun}{key}{end}")) is not None:
                return name
    for digits in (3, 2, 1):
        card, gib = key[:-digits], key[-digits:]
        for begun in ("", *_FAMILIES):
            name = _ALIASES.get(begun + card, "")
            if gib.isdecimal() and name and nominal_memory_gib(name) == int(gib):
                return name
    return ""


def only_memory(text: str) -> int:
    """The GiB of a text that says nothing but how much memory a GPU has, as `24GB`; else 0."""
    found = re.fullmatch(r"(\d{1,4}) ?gi?b", text.strip().casefold())
    return int(found[1]) if found else 0


_FAMILIES = ("rtx", "gtx", "instinct")

_COUNTED = (
    r"(?P<count>\d{1,5})\s*[x×*]\s*(?P<type>\D.*)$",
    r"(?P<type>.*\S)\s*[x×*]\s*(?P<count>\d{1,5})$",
    r"[x×*]\s*(?P<count>\d{1,5})\s+(?P<type>\D.*)$",
    r"(?P<count>1|2|4|8|16)\s*(?P<type>[A-Za-z].*)$",
    # A dash or a space before another number is part of a name: A100-80 means 80 GB.
    r"(?P<type>.*\S)[\s_-]+(?P<count>1|2|4|8)$",
)


def near(text: str) -> tuple[str, ...]:
    """Names to suggest, at most five: for an unknown text those that resemble it, for a known model
    the hardware next to it. Never to buy by.
    """
    key = _key(text)
    if key in _ALIASES:
        name = _ALIASES[key]
        return SIBLINGS.get(name, tuple(other for other in accepts(name) if other != name))
    if key in SHARED:
        return SHARED[key]
    if not key:
        return ()
    import difflib

    # What the text begins, or what begins the text, says more than likeness of letters: `A100-8` is
    # the start of `A100-80GB`.
    begun = sorted((known for known in _ALIASES if known.startswith(key)), key=len)
    begins = sorted(
        (known for known in _ALIASES if len(known) > 1 and key.startswith(known)),
        key=len,
        reverse=True,
    )
    like = difflib.get_close_matches(key, _ALIASES, n=_NEAR_MAX, cutoff=0.6)
    return tuple(dict.fromkeys(_ALIASES[known] for known in (*begun, *begins, *like)))[:_NEAR_MAX]
