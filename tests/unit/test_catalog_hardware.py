"""The hardware table: whole, sourced, and plausible."""

import pytest

from providers.catalog import hardware as table
from providers.catalog.hardware import DTYPES, achieved_tflops, all_hardware, hardware


def test_every_model_is_there_once() -> None:
    """No model has two rows."""
    found = [model.name for model in all_hardware()]
    assert len(found) == len(set(found)) >= 100


@pytest.mark.parametrize("model", all_hardware(), ids=lambda model: model.name)
def test_every_row_is_whole(model) -> None:
    """Each row has a maker, memory, form, software, a source with a date, and no figure that is
    zero or below.
    """
    for text in (
        model.vendor,
        model.kind,
        model.architecture,
        model.form_factor,
        model.memory_kind,
        model.interconnect,
        model.software,
        model.source,
        model.source_as_of,
    ):
        assert text
    assert 2010 <= int(model.source_as_of[:4]) <= 2026
    figures = [value for value in model if isinstance(value, float)]
    assert all(value > 0 for value in figures)
    assert bool(model.achieved_source) == (model.achieved_bf16_tflops is not None)
    assert bool(model.relative_speed_note) == (model.relative_speed is not None)
    assert model.software == {
        "NVIDIA": "CUDA",
        "AMD": "ROCm",
        "Intel": "SynapseAI",
        "Google": "XLA",
    }.get(model.vendor, model.software)


@pytest.mark.parametrize(
    "model",
    [model for model in all_hardware() if model.vendor == "NVIDIA"],
    ids=lambda model: model.name,
)
def test_every_nvidia_row_can_be_sized(model) -> None:
    """An NVIDIA row has bandwidth, fp32, power, link speed and compute capability, and never more
    speed at a wider type.
    """
    assert None not in (
        model.bandwidth_tb_s,
        model.fp32_tflops,
        model.tdp_w,
        model.interconnect_gb_s,
    )
    assert float(model.compute_capability) >= 3
    ladder = [
        value
        for value in (model.tf32_tflops, model.bf16_tflops, model.fp8_tflops, model.fp4_tflops)
        if value is not None
    ]
    assert ladder == sorted(ladder)
    assert model.bf16_tflops is None or model.bf16_tflops == model.fp16_tflops
    assert (model.bf16_tflops is None) or float(model.compute_capability) >= 8


def test_achieved_never_exceeds_the_dense_peak() -> None:
    """What a matmul reaches lies under the peak, for every model and dtype, and is unknown where
    the peak is.
    """
    for model in all_hardware():
        for dtype in DTYPES:
            peak, reached = model.dense_tflops(dtype), achieved_tflops(model.name, dtype)
            assert (peak is None) == (reached is None)
            assert peak is None or 0.5 * peak < reached < peak


def test_achieved_is_the_measurement_where_there_is_one() -> None:
    """Measured models answer the measurement; others of the same maker a stated share of their
    peak; a missing dtype or model answers nothing.
    """
    assert achieved_tflops("H100") == pytest.approx(792.1)
    assert achieved_tflops("h100-sxm") == pytest.approx(792.1)
    assert achieved_tflops("MI300X") == pytest.approx(781.9)
    assert achieved_tflops("L40S") == pytest.approx(0.82 * 362)
    assert achieved_tflops("GAUDI2") == pytest.approx(0.60 * 432)
    assert achieved_tflops("T4") is None
    assert achieved_tflops("T4", "fp16") == pytest.approx(0.82 * 65)
    assert achieved_tflops("A100-8") is None


def test_an_unknown_dtype_is_refused_with_the_known_ones() -> None:
    """Asking for a dtype that does not exist names those that do."""
    with pytest.raises(ValueError, match=r"bf16.*found 'bf61'"):
        achieved_tflops("H100", "bf61")


def test_hardware_is_found_by_any_exact_spelling_and_no_other() -> None:
    """Look-up takes the spellings that names take, and nothing that merely resembles them."""
    assert hardware("NVIDIA H100 80GB HBM3") is hardware("H100")
    assert hardware("gaudi 3").name == "GAUDI3"
    assert hardware("H10") is None


def test_siblings_differ_where_their_makers_say() -> None:
    """The A10G has less tensor speed than the A10 and the same memory; the NVL card more memory
    than the PCIe card.
    """
    assert hardware("A10G").bf16_tflops < hardware("A10").bf16_tflops
    assert hardware("A10G").bandwidth_tb_s == hardware("A10").bandwidth_tb_s
    assert (hardware("H100-NVL").memory_gib, hardware("H100-PCIe").memory_gib) == (94, 80)


def test_shares_follow_from_the_measurements() -> None:
    """The share for unmeasured cards lies within what was measured on the maker's others."""
    for vendor, share in table.ACHIEVABLE.items():
        measured = [
            m.achieved_bf16_tflops / m.bf16_tflops
            for m in all_hardware()
            if m.vendor == vendor and m.achieved_bf16_tflops
        ]
        assert min(measured) - 0.005 <= share <= max(measured)
