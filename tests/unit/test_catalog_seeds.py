"""What the project's document on accelerators claims, held against the hardware table: ours agrees
with exactly those claims that are called right.
"""

import pytest

from providers.catalog.hardware import hardware
from tests.unit.seeds_accelerators import (
    ACHIEVED,
    CLAIMS,
    MEMORY,
    MEMORY_FIELDS,
    MEMORY_VERDICTS,
    PAGE,
    SPEED_FIELDS,
    SPEED_VERDICTS,
    SPEEDS,
    VERDICTS,
    cells,
    page,
    same,
)


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


@pytest.mark.parametrize(("model", "field", "claim"), cells(MEMORY, MEMORY_FIELDS))
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
    ("model", "reached", "peak", "per_cent", "dies", "verdict", "reason"), ACHIEVED
)
def test_achievable_speeds_of_the_third_document(
    model, reached, peak, per_cent, dies, verdict, reason
) -> None:
    """Each measured matmul is ours; its share of the peak is right where the peak is the sheet's.
    The MI250X was measured on one of its two dies.
    """
    ours = hardware(model)
    assert ours.achieved_bf16_tflops == reached * dies
    assert same(peak * dies, ours.bf16_tflops) == (verdict == "right")
    assert (abs(100 * reached * dies / ours.bf16_tflops - per_cent) < 0.15) == (verdict == "right")


@pytest.mark.parametrize(
    ("claim", "verdict", "reason", "holds"), CLAIMS, ids=[claim for claim, *_ in CLAIMS]
)
def test_claims_in_prose(claim, verdict, reason, holds) -> None:
    """Each claim has its verdict, and ours says the same of exactly those called right."""
    assert verdict in VERDICTS and reason
    assert holds() == (verdict == "right")


def test_the_page_on_accelerators_is_current() -> None:
    """`python -m tests.unit.seeds_accelerators` writes it anew."""
    assert PAGE.read_text() == page()


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
