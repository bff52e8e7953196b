"""How fast a machine's GPUs are beside what they should reach. Owns the rules on speed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.acceptance.expected import BANDWIDTH_LEAST, DTYPES, LINK_LEAST
from providers.acceptance.reading import items, mapping, named, real, spread, text, whole
from providers.acceptance.verdict import OK, POOR, UNKNOWN, WRONG, Check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from providers.acceptance.expected import Expected
    from providers.acceptance.reading import Gpu

ANOTHER_CARD = 0.85
"""Below this part of the least speed, in 16-bit products and with nothing that explains it, the
card is another one than it says (a 3090 that calls itself a 4090 reaches 0.75 of it).
"""
TELLING = ("bf16", "fp16")
SOAK_LEAST = 0.6
"""Of its own burst: a sound H200 keeps 0.80 of it at its power limit."""


def checks(
    answer: Mapping[str, Any], found: Sequence[Gpu], due: Expected | None, *, explained: bool
) -> Iterator[Check]:
    """The checks of every rate. `explained`: something else already makes these cards slow."""
    yield from _taken(found)
    for dtype in DTYPES:
        yield from _product(found, due, dtype, explained=explained)
    rate = due.bandwidth_tb_s if due is not None else None
    yield from _rate(found, "memory_tb_s", "memory copy", "TB/s", rate, BANDWIDTH_LEAST, 2)
    rate = due.pcie_gb_s if due is not None else None
    for key, name in (
        ("to_device_gb_s", "host to device"),
        ("from_device_gb_s", "device to host"),
    ):
        yield from _rate(found, key, name, "GB/s", rate, LINK_LEAST, 1)
    yield from _checked(found)
    yield from _soak(answer, found)


def _taken(found: Sequence[Gpu]) -> Iterator[Check]:
    """Which GPUs took work at all."""
    idle = [gpu for gpu in found if not gpu.measured]
    if idle and len(idle) < len(found):
        why = f"{named(idle)} took no work"
        yield Check("measured", f"{len(found) - len(idle)}", f"{len(found)}", POOR, why)


def _product(
    found: Sequence[Gpu], due: Expected | None, dtype: str, *, explained: bool
) -> Iterator[Check]:
    rates = {gpu.number: rate for gpu in found if (rate := _tflops(gpu, dtype)) is not None}
    if not rates:
        return
    shown = f"{spread(list(rates.values()), 1)} TFLOP/s"
    reaches = due.reaches_tflops.get(dtype) if due is not None else None
    if due is None or reaches is None:
        yield Check(dtype, shown)
        return
    least = due.compute_least * reaches
    wants = f"{least:.0f} or more; about {reaches:.0f}, sheet {due.peak_tflops[dtype]:.0f}"
    slow = {index: rate for index, rate in rates.items() if rate < least}
    if not slow:
        yield Check(dtype, shown, wants)
        return
    why = (
        f"{named(slow)} {spread(list(slow.values()), 1)} TFLOP/s in {dtype}, where {due.gpu_type}"
        f" reaches about {reaches:.0f}"
    )
    other = not explained and dtype in TELLING and min(slow.values()) < ANOTHER_CARD * least
    yield Check(dtype, shown, wants, WRONG if other else POOR, why)


def _rate(
    found: Sequence[Gpu],
    key: str,
    name: str,
    unit: str,
    full: float | None,
    share: float,
    digits: int,
) -> Iterator[Check]:
    rates = {gpu.number: rate for gpu in found if (rate := real(gpu.measured, key)) is not None}
    if not rates:
        yield Check(name, "", "", UNKNOWN, "not measured")
        return
    shown = f"{spread(list(rates.values()), digits)} {unit}"
    if full is None:
        yield Check(name, shown)
        return
    wants = f"{share * full:.{digits}f} or more; sheet {full:.{digits}f}"
    slow = {index: rate for index, rate in rates.items() if rate < share * full}
    why = (
        f"{named(slow)} {spread(list(slow.values()), digits)} {unit} in {name}, of"
        f" {full:.{digits}f} {unit}"
    )
    yield Check(name, shown, wants, POOR if slow else OK, why if slow else "")


def _checked(found: Sequence[Gpu]) -> Iterator[Check]:
    sizes = {
        gpu.number: size
        for gpu in found
        if (size := whole(gpu.measured, "memory_checked_gib")) is not None
    }
    wrong = {gpu.number: size for gpu in found if (size := whole(gpu.measured, "memory_wrong_gib"))}
    if wrong:
        why = f"{named(wrong)} {sum(wrong.values())} GiB of memory do not hold what is written"
        yield Check("memory check", f"{sum(wrong.values())} GiB wrong", "0", WRONG, why)
    elif sizes:
        yield Check("memory check", f"{spread(list(sizes.values()), 0)} GiB hold what is written")


def _soak(answer: Mapping[str, Any], found: Sequence[Gpu]) -> Iterator[Check]:
    for gpu, each in zip(found, items(answer, "soak"), strict=False):
        dtype, wrong = text(each, "dtype"), whole(each, "wrong_results")
        kept, burst = real(each, "sustained_tflops"), _tflops(gpu, dtype)
        name = f"soak {gpu.number}"
        if kept is None or burst is None:
            yield Check(name, "", "", UNKNOWN, "not measured")
            continue
        shown = f"{kept:.1f} of {burst:.1f} TFLOP/s in {dtype}"
        wants = f"{SOAK_LEAST:.0%} of its burst or more"
        if wrong:
            why = f"GPU {gpu.number}: {wrong} results of the same product differed"
            yield Check(name, f"{wrong} wrong results", "0", POOR, why)
        elif kept < SOAK_LEAST * burst:
            yield Check(name, shown, wants, POOR, f"GPU {gpu.number}: keeps up {shown}")
        else:
            yield Check(name, shown, wants)


def _tflops(gpu: Gpu, dtype: str) -> float | None:
    return real(mapping(mapping(gpu.measured, "matmul"), dtype), "tflops")
