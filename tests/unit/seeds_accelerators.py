"""What the project's document on accelerators claims, cell by cell, each with a verdict. Owns these
tables and the page made of them; `test_catalog_seeds.py` holds them against the hardware table.

right: ours says the same. wrong: the maker's sheet says otherwise. stale: was so once. does not
fit: true of something else than what is compared. A figure counts as the same within half a per
cent.
"""

from pathlib import Path

from providers.catalog import offers
from providers.catalog.hardware import hardware

PAGE = Path(__file__).parents[2] / "docs" / "research" / "accelerators.md"
SAME = 0.005
VERDICTS = {"right", "wrong", "stale", "does not fit"}

SPEEDS = """
GB200          ??    1250.0 2500 2500 5000 5000 5000 10000
B200           ??    1125.0 2250 2250 4500 4500 4500 9000
B100           ??    875.0  1750 1750 3500 3500 3500 7000
MI300X         163.4 653.7  1300 1300 2600 2600 X    X
H200           67.0  494.5  989  989  1979 1979 X    X
H100           67.0  494.5  989  989  1979 1979 X    X
GH200          67.0  494.5  989  989  1979 1979 X    X
GAUDI3         229   459    459  1835 1835 V    X    X
H100-PCIe      51.0  378.0  756  756  1513 1513 X    X
GAUDI2         V     V      V    432  865  V    X    X
TPU-V5P        X     X      X    459  X    918  X    X
MI250X         47.9  X      383  383  X    383  X    X
L40S           91.6  183.0  362  362  733  733  X    X
MI250          45.3  X      362  362  X    362  X    X
A100-80GB      19.5  156.0  312  312  X    624  X    X
A100-80GB-PCIe 19.5  156.0  312  312  X    624  X    X
TPU-V4         X     X      X    275  X    275  X    X
TPU-V5E        X     X      X    197  X    394  X    X
"""
SPEED_FIELDS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp6", "fp4")
SPEED_VERDICTS = {
    # (model, dtype): verdict and reason; every other cell is right. `??` and `V` (has it, no
    # figure) claim no figure.
    ("MI300X", "fp16"): ("wrong", "AMD's sheet: 1307.4; the document rounds down"),
    ("MI300X", "bf16"): ("wrong", "AMD's sheet: 1307.4; the document rounds down"),
    ("MI300X", "fp8"): ("wrong", "AMD's sheet: 2614.9; the document rounds down"),
    ("MI300X", "int8"): ("wrong", "AMD's sheet: 2614.9; the document rounds down"),
}

MEMORY = """
B200           192 HBM3e 8.00
B100           192 HBM3e 8.00
MI300X         192 HBM3  5.30
GH200-144GB    141 HBM3e 4.80
H200           141 HBM3e 4.80
GAUDI3         128 HBM2e 3.70
MI250          128 HBM2e 3.28
MI250X         128 HBM2e 3.28
GH200          96  HBM3  4.00
GAUDI2         96  HBM2e 2.46
TPU-V5P        95  HBM2e 4.80
H100           80  HBM3  3.35
A100-80GB      80  HBM2e 2.00
H100-PCIe      80  HBM3  2.00
L40S           48  GDDR6 0.86
TPU-V4         32  HBM2  1.20
TPU-V5E        16  HBM2  1.60
"""
MEMORY_FIELDS = ("memory_gib", "memory_kind", "bandwidth_tb_s")
MEMORY_VERDICTS = {
    ("B200", "memory_gib"): ("does not fit", "192 is on the chip; 180 is sold and usable"),
    ("GH200-144GB", "memory_gib"): ("wrong", "the GH200 with HBM3e has 144 GB; 141 is the H200"),
    ("GH200-144GB", "bandwidth_tb_s"): ("wrong", "4.9; 4.8 is the H200"),
    ("GAUDI3", "bandwidth_tb_s"): ("wrong", "Intel: 3.67; the document rounds up"),
    ("TPU-V5P", "bandwidth_tb_s"): (
        "wrong",
        "Google: 2.765 TB/s; 4800 Gbit/s is the link between chips",
    ),
    ("A100-80GB", "bandwidth_tb_s"): ("wrong", "NVIDIA: 2.039; the document rounds down"),
    ("H100-PCIe", "memory_kind"): ("wrong", "the PCIe card has HBM2e"),
    ("TPU-V5E", "bandwidth_tb_s"): (
        "wrong",
        "Google: 0.819 TB/s; 1600 Gbit/s was the link between chips",
    ),
}

ACHIEVED = [
    # (model, TFLOPS of a bf16 matmul on a die, claimed peak, per cent, dies, verdict, reason)
    ("A100-80GB", 267.9, 312, 85.9, 1, "right", ""),
    ("GH200", 821.0, 989, 83.0, 1, "right", ""),
    ("A100-80GB-PCIe", 256.4, 312, 82.2, 1, "right", ""),
    ("H100", 792.1, 989, 80.1, 1, "right", ""),
    ("MI250X", 147.0, 191.5, 76.7, 2, "right", "measured on one of its two dies"),
    (
        *("MI300X", 781.9, 1300, 60.1, 1, "wrong"),
        "59.8 per cent of the sheet's 1307.4; the measurement itself stands",
    ),
]


def same(claimed, ours):
    """True when two figures differ by no more than half a per cent."""
    return ours is not None and abs(claimed - ours) <= SAME * ours


def rows(text):
    """The cells of a table."""
    return [line.split() for line in text.strip().splitlines()]


def cells(text, fields):
    """(model, field, claim) of a table."""
    return [
        (row[0], field, claim)
        for row in rows(text)
        for field, claim in zip(fields, row[1:], strict=True)
    ]


def gcp(gpu):
    """Google's offers of a model."""
    table = offers.load()
    return [o for o in map(table.offer, table.by_gpu[gpu]) if o.provider == "gcp"]


CLAIMS = [
    # (claim, verdict, reason, does ours say so)
    (
        "an A100 reaches 624 TFLOPS in fp8",
        "wrong",
        "Ampere has no fp8; the same document's table says so",
        lambda: hardware("A100").fp8_tflops is not None,
    ),
    (
        "H100 NVL: 94 GB a card, 14 more than the H100",
        "right",
        "94 and 80",
        lambda: hardware("H100-NVL").memory_gib - hardware("H100").memory_gib == 14,
    ),
    (
        "H100 NVL: 3.9 TB/s a card",
        "right",
        "as on the sheet",
        lambda: hardware("H100-NVL").bandwidth_tb_s == 3.9,
    ),
    (
        "H100 NVL has the FLOPS of the H100",
        "wrong",
        "835.5 against 989.4 TFLOPS in bf16",
        lambda: same(hardware("H100-NVL").bf16_tflops, hardware("H100").bf16_tflops),
    ),
    (
        "H100 NVL is two GPUs",
        "does not fit",
        "sold in pairs, listed by the card",
        lambda: hardware("H100-NVL").memory_gib == 188,
    ),
    (
        "GH200: 96 GB HBM3 or 144 GB HBM3e",
        "right",
        "as in the hardware table",
        lambda: (hardware("GH200").memory_gib, hardware("GH200-144GB").memory_gib) == (96, 144),
    ),
    (
        "A100-SXM has HBM2 at 1.6 TB/s",
        "does not fit",
        "true of the 40 GB card, which has 1.555",
        lambda: same(1.6, hardware("A100").bandwidth_tb_s),
    ),
    (
        "H200 differs from H100 in memory alone",
        "right",
        "141 GB at 4.8 TB/s against 80 GB at 3.35, the same arithmetic",
        lambda: hardware("H200").bf16_tflops == hardware("H100").bf16_tflops,
    ),
    (
        "H100 is 2-3 times an A100 in half precision, 6 times in fp8",
        "right",
        "3.2 times in bf16; fp8 against fp16: 6.3 times",
        lambda: 2 <= hardware("H100").bf16_tflops / hardware("A100").bf16_tflops < 3.3
        and 6 <= hardware("H100").fp8_tflops / hardware("A100").fp16_tflops < 7,
    ),
    (
        "the L40S is more powerful than the A100",
        "does not fit",
        "in arithmetic, not in bandwidth",
        lambda: hardware("L40S").bf16_tflops > hardware("A100").bf16_tflops
        and hardware("L40S").bandwidth_tb_s > hardware("A100").bandwidth_tb_s,
    ),
    (
        "Gaudi3 lies between B100 and B200",
        "right",
        "bf16: 1,750, 1,835 and 2,250 TFLOPS",
        lambda: hardware("B100").bf16_tflops
        < hardware("GAUDI3").bf16_tflops
        < hardware("B200").bf16_tflops,
    ),
    (
        "Gaudi2 lies between A100 and H100",
        "right",
        "bf16: 312, 432 and 989 TFLOPS",
        lambda: hardware("A100").bf16_tflops
        < hardware("GAUDI2").bf16_tflops
        < hardware("H100").bf16_tflops,
    ),
    (
        "no TFLOPS of Gaudi2 are published",
        "stale",
        "Intel published them since: 432 in bf16",
        lambda: hardware("GAUDI2").bf16_tflops is None,
    ),
    (
        "Gaudi2: 262.5 GB/s a card inside the node, one way over 21 of 24 ports",
        "right",
        "600 GB/s in both directions over 24 ports",
        lambda: hardware("GAUDI2").interconnect_gb_s / 2 * 21 / 24 == 262.5,
    ),
    (
        "Gaudi2: 2.45 TB/s",
        "right",
        "2.46 on the sheet",
        lambda: same(2.45, hardware("GAUDI2").bandwidth_tb_s),
    ),
    (
        "the IPU C600 has 0.9 GB a card",
        "right",
        "as in the hardware table",
        lambda: hardware("IPU C600").memory_gib == 0.9,
    ),
    (
        "a GB200 node has 4 GPUs",
        "right",
        "in Google's offers",
        lambda: {o.gpu_count for o in gcp("GB200")} == {4},
    ),
    (
        "B200 and H200 are still to come",
        "stale",
        "both are sold",
        lambda: not gcp("B200") and not gcp("H200"),
    ),
    (
        "CUDA, ROCm and SynapseAI are the three stacks",
        "right",
        "as each maker names it",
        lambda: [hardware(g).software for g in ("H100", "MI300X", "GAUDI2")]
        == ["CUDA", "ROCm", "SynapseAI"],
    ),
]

HEAD = """# Claims about accelerators, checked

This page lets you look up whether a figure that is copied from page to page is the maker's.

One long document on accelerators, which compares the speed and memory of 18 of them, is checked
here cell by cell, in our words. The verdicts are made by `python -m tests.unit.seeds_accelerators`
and checked by `tests/unit/test_catalog_seeds.py` against the table that `gpus hardware` shows: the
makers' sheets.

- **right**: ours says the same, within half a per cent.
- **wrong**: the maker's sheet says otherwise.
- **stale**: it was so once.
- **does not fit**: it is true of something else.
"""
SHOWN = {"memory_gib": "GB", "memory_kind": "memory", "bandwidth_tb_s": "TB/s"}


def page():
    """The whole page."""
    judged = [
        *(SPEED_VERDICTS.get(cell[:2], ("right",))[0] for cell in claimed(SPEEDS, SPEED_FIELDS)),
        *(MEMORY_VERDICTS.get(cell[:2], ("right",))[0] for cell in cells(MEMORY, MEMORY_FIELDS)),
        *(row[5] for row in ACHIEVED),
        *(row[1] for row in CLAIMS),
    ]
    total = [f"{judged.count(each)} {each}" for each in ("right", "wrong", "stale", "does not fit")]
    return "\n".join(
        [
            HEAD,
            f"{len(judged)} claims: {', '.join(total)}.",
            "\n## Dense peaks, in TFLOPS\n",
            "A dash claims that there is none; `?` gives no figure.\n",
            *table(SPEEDS, SPEED_FIELDS, SPEED_VERDICTS),
            "\n## Memory\n",
            *table(MEMORY, MEMORY_FIELDS, MEMORY_VERDICTS),
            "\n## What a matmul reaches in bf16\n",
            "| accelerator | TFLOPS on a die | of the peak | verdict | reason |",
            "|---|---|---|---|---|",
            *(
                f"| {model} | {reached} | {part} % of {peak} | {verdict} | {reason} |"
                for model, reached, peak, part, _, verdict, reason in ACHIEVED
            ),
            "\n## In prose\n",
            "| claim | verdict | reason |",
            "|---|---|---|",
            *(f"| {claim} | {verdict} | {reason} |" for claim, verdict, reason, _ in CLAIMS),
            "",
        ]
    )


def claimed(text, fields):
    """The cells of a table that claim something."""
    return [cell for cell in cells(text, fields) if cell[2] not in {"??", "V"}]


def table(text, fields, verdicts):
    """The document's table, and below it the cells that are not right, with the reason."""
    yield f"| accelerator | {' | '.join(SHOWN.get(each, each) for each in fields)} |"
    yield "|---" * (len(fields) + 1) + "|"
    for model, *claims in rows(text):
        shown = [
            f"**{said}**" if (model, field) in verdicts else SIGNS.get(said, said)
            for field, said in zip(fields, claims, strict=True)
        ]
        yield f"| {model} | {' | '.join(shown)} |"
    yield "\n| not right | verdict | reason |"
    yield "|---|---|---|"
    for (model, field), (verdict, reason) in verdicts.items():
        yield f"| {model}, {SHOWN.get(field, field)} | {verdict} | {reason} |"


SIGNS = {"X": "-", "V": "?", "??": "?"}

if __name__ == "__main__":
    PAGE.write_text(page())
