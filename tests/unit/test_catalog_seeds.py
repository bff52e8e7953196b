"""What the project's first documents claim about GPUs, row by row, each with a verdict.

right: ours says the same. wrong: the maker's sheet says otherwise. stale: was so once. does not
fit: true of something else than what is compared. A figure counts as the same within half a per
cent.
"""

import pytest

from providers.catalog import offers
from providers.catalog.hardware import hardware

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


@pytest.mark.parametrize(("model", "dtype", "claim"), cells(SPEEDS, SPEED_FIELDS))
def test_dense_speeds_of_the_third_document(model, dtype, claim) -> None:
    """Each claimed dense peak has its verdict, and ours agrees with exactly those called right."""
    ours = hardware(model).dense_tflops(dtype)
    if claim in {"??", "V"}:
        assert (model, dtype) not in SPEED_VERDICTS
    elif claim == "X":
        assert ours is None
    else:
        verdict, _ = SPEED_VERDICTS.get((model, dtype), ("right", ""))
        assert verdict in VERDICTS
        assert same(float(claim), ours) == (verdict == "right")


@pytest.mark.parametrize(
    ("model", "field", "claim"), cells(MEMORY, ("memory_gib", "memory_kind", "bandwidth_tb_s"))
)
def test_memory_of_the_third_document(model, field, claim) -> None:
    """Each claimed size, kind and bandwidth has its verdict, and ours agrees with exactly those
    called right.
    """
    ours = getattr(hardware(model), field)
    verdict, _ = MEMORY_VERDICTS.get((model, field), ("right", ""))
    assert verdict in VERDICTS
    assert (ours == claim if field == "memory_kind" else same(float(claim), ours)) == (
        verdict == "right"
    )


@pytest.mark.parametrize(
    ("model", "reached", "peak", "per_cent", "dies", "verdict"),
    [
        ("A100-80GB", 267.9, 312, 85.9, 1, "right"),
        ("GH200", 821.0, 989, 83.0, 1, "right"),
        ("A100-80GB-PCIe", 256.4, 312, 82.2, 1, "right"),
        ("H100", 792.1, 989, 80.1, 1, "right"),
        ("MI250X", 147.0, 191.5, 76.7, 2, "right"),
        (
            "MI300X",
            781.9,
            1300,
            60.1,
            1,
            "wrong",
        ),  # of the sheet's 1307.4 it is 59.8 per cent; the measurement itself stands
    ],
)
def test_achievable_speeds_of_the_third_document(
    model, reached, peak, per_cent, dies, verdict
) -> None:
    """Each measured matmul is ours; its share of the peak is right where the peak is the sheet's.
    The MI250X was measured on one of its two dies.
    """
    ours = hardware(model)
    assert ours.achieved_bf16_tflops == reached * dies
    assert same(peak * dies, ours.bf16_tflops) == (verdict == "right")
    assert (abs(100 * reached * dies / ours.bf16_tflops - per_cent) < 0.15) == (verdict == "right")


def gcp(gpu):
    """Google's offers of a model."""
    table = offers.load()
    return [o for o in map(table.offer, table.by_gpu[gpu]) if o.provider == "gcp"]


CLAIMS = [
    # (document, claim, verdict, does ours say so)
    (
        "002",
        "an A100 reaches 624 TFLOPS in fp8",
        "wrong",
        lambda: hardware("A100").fp8_tflops is not None,
    ),  # Ampere has no fp8; the same document's table says so
    (
        "002",
        "H100 NVL: 94 GB a card, 14 more than the H100",
        "right",
        lambda: hardware("H100-NVL").memory_gib - hardware("H100").memory_gib == 14,
    ),
    (
        "002",
        "H100 NVL: 3.9 TB/s a card",
        "right",
        lambda: hardware("H100-NVL").bandwidth_tb_s == 3.9,
    ),
    (
        "002",
        "H100 NVL has the FLOPS of the H100",
        "wrong",
        lambda: same(hardware("H100-NVL").bf16_tflops, hardware("H100").bf16_tflops),
    ),  # 835.5 against 989.4
    (
        "002",
        "H100 NVL is two GPUs",
        "does not fit",
        lambda: hardware("H100-NVL").memory_gib == 188,
    ),  # sold in pairs, listed by the card
    (
        "002",
        "GH200: 96 GB HBM3 or 144 GB HBM3e",
        "right",
        lambda: (hardware("GH200").memory_gib, hardware("GH200-144GB").memory_gib) == (96, 144),
    ),
    (
        "002",
        "A100-SXM has HBM2 at 1.6 TB/s",
        "does not fit",
        lambda: same(1.6, hardware("A100").bandwidth_tb_s),
    ),  # the 40 GB card: 1.555
    (
        "002",
        "H200 differs from H100 in memory alone",
        "right",
        lambda: hardware("H200").bf16_tflops == hardware("H100").bf16_tflops,
    ),
    (
        "002",
        "H100 is 2-3 times an A100 in half precision, 6 times in fp8",
        "right",
        lambda: 2 <= hardware("H100").bf16_tflops / hardware("A100").bf16_tflops < 3.3
        and 6 <= hardware("H100").fp8_tflops / hardware("A100").fp16_tflops < 7,
    ),
    (
        "002",
        "the L40S is more powerful than the A100",
        "does not fit",
        lambda: hardware("L40S").bf16_tflops > hardware("A100").bf16_tflops
        and hardware("L40S").bandwidth_tb_s > hardware("A100").bandwidth_tb_s,
    ),  # not in bandwidth
    (
        "002",
        "Gaudi3 lies between B100 and B200",
        "right",
        lambda: hardware("B100").bf16_tflops
        < hardware("GAUDI3").bf16_tflops
        < hardware("B200").bf16_tflops,
    ),
    (
        "002",
        "Gaudi2 lies between A100 and H100",
        "right",
        lambda: hardware("A100").bf16_tflops
        < hardware("GAUDI2").bf16_tflops
        < hardware("H100").bf16_tflops,
    ),
    (
        "002",
        "no TFLOPS of Gaudi2 are published",
        "stale",
        lambda: hardware("GAUDI2").bf16_tflops is None,
    ),
    (
        "002",
        "Gaudi2: 262.5 GB/s a card inside the node, one way over 21 of 24 ports",
        "right",
        lambda: hardware("GAUDI2").interconnect_gb_s / 2 * 21 / 24 == 262.5,
    ),
    ("002", "Gaudi2: 2.45 TB/s", "right", lambda: same(2.45, hardware("GAUDI2").bandwidth_tb_s)),
    (
        "002",
        "the IPU C600 has 0.9 GB a card",
        "right",
        lambda: hardware("IPU C600").memory_gib == 0.9,
    ),
    ("002", "a GB200 node has 4 GPUs", "right", lambda: {o.gpu_count for o in gcp("GB200")} == {4}),
    (
        "002",
        "B200 and H200 are still to come",
        "stale",
        lambda: not gcp("B200") and not gcp("H200"),
    ),
    (
        "002",
        "CUDA, ROCm and SynapseAI are the three stacks",
        "right",
        lambda: [hardware(g).software for g in ("H100", "MI300X", "GAUDI2")]
        == ["CUDA", "ROCm", "SynapseAI"],
    ),
]


@pytest.mark.parametrize(
    ("document", "claim", "verdict", "holds"),
    CLAIMS,
    ids=[f"{document}: {claim}" for document, claim, _, _ in CLAIMS],
)
def test_claims_in_prose(document, claim, verdict, holds) -> None:
    """Each claim has its verdict, and ours says the same of exactly those called right."""
    assert verdict in VERDICTS
    assert holds() == (verdict == "right")


def test_every_accelerator_of_the_documents_has_a_row() -> None:
    """Whatever the documents name as hardware can be looked up."""
    named = (
        "T4 L4 A10 A10G A100 A100-40GB A100-80GB L40S H100 H200 B200 B100 GB200 GH200 MI250 MI250X"
        " MI300X Gaudi1 Gaudi2 Gaudi3 P4 P100 V100".split()
    )
    named += [
        "TPU v4",
        "TPU v5e",
        "TPU v5p",
        "IPU C600",
        "Cerebras WSE-2",
        "SambaNova SN30",
        "RTX 3090",
        "RTX 4090",
        "H100 Mega 80GB",
        "H100 NVL",
        "H100 PCIe",
        "A100 PCIe",
    ]
    assert [name for name in named if hardware(name) is None] == []
