"""How a machine's GPUs are connected: PCIe to the host, NVLink and NCCL among each other. Owns the
rules on links. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from providers.acceptance.expected import REDUCE_LEAST
from providers.acceptance.reading import items, mapping, named, real, spread, whole
from providers.acceptance.verdict import OK, POOR, UNKNOWN, Check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from providers.acceptance.expected import Expected
    from providers.acceptance.reading import Gpu

LINKS_LEAST = 0.95
"""Of the sheet's NVLink rate, by what the working links report."""
FEWER = 0.99
LARGE = 1 << 30
"""Bytes of the all-reduce that is judged: smaller ones measure latency."""


def pcie(found: Sequence[Gpu], due: Expected | None) -> Iterator[Check]:
    """Generation and lanes of each card's link to the host."""
    known = {
        gpu.number: (gpu.pcie_gen, gpu.pcie_width)
        for gpu in found
        if gpu.pcie_gen is not None and gpu.pcie_width is not None
    }
    if not known:
        yield Check("PCIe", "", "", UNKNOWN, "the driver does not say how it is linked")
        return
    shown = ", ".join(dict.fromkeys(f"{gen}.0 x{width}" for gen, width in known.values()))
    if due is None or due.pcie is None:
        yield Check("PCIe", shown)
        return
    generation, lanes = due.pcie
    wants = f"{generation}.0 x{lanes}"
    narrow = {index: at for index, at in known.items() if at[1] < lanes}
    slow = {index: at for index, at in known.items() if at[0] < generation}
    whys = []
    if narrow:
        widths = spread([float(width) for _, width in narrow.values()], 0)
        whys.append(f"{named(narrow)} {widths} of {lanes} PCIe lanes")
    if slow:
        generations = spread([float(gen) for gen, _ in slow.values()], 0)
        whys.append(f"{named(slow)} PCIe generation {generations} of {generation}")
    yield Check("PCIe", shown, wants, POOR if whys else OK, "; ".join(whys))


def checks(
    answer: Mapping[str, Any], found: Sequence[Gpu], due: Expected | None
) -> Iterator[Check]:
    """The checks of what joins the GPUs; nothing for one alone."""
    if len(found) < 2:
        return
    yield from _nvlink(answer, found, due)
    pairs = [rate for each in items(answer, "peers") if (rate := real(each, "gb_s")) is not None]
    if pairs:
        yield Check("GPU to GPU", f"{spread(pairs, 1)} GB/s")
    yield from _all_reduce(answer, due)


def _nvlink(
    answer: Mapping[str, Any], found: Sequence[Gpu], due: Expected | None
) -> Iterator[Check]:
    joined = due is not None and due.nvlink_gb_s is not None
    rows = mapping(answer, "links").get("matrix")
    kinds = [
        kind
        for at, row in enumerate(rows if isinstance(rows, list) else ())
        if isinstance(row, list)
        for kind in row[at + 1 :]
        if isinstance(kind, str)
    ]
    wants = "NVLink" if joined else ""
    if len(kinds) != len(found) * (len(found) - 1) // 2:
        yield Check("links", "", wants, UNKNOWN, "the driver shows no topology")
        return
    fast = sum(re.fullmatch(r"NV\d{1,3}", kind) is not None for kind in kinds)
    shown = f"NVLink between {fast} of {len(kinds)} pairs"
    if joined and fast < len(kinds):
        yield Check("links", shown, wants, POOR, f"{shown} of GPUs")
    else:
        yield Check("links", shown, wants)
    speeds = mapping(answer, "links").get("nvlink_gb_s")
    rates = [
        rate
        for each in (speeds if isinstance(speeds, list) else ())
        if (rate := real({"": each}, "")) is not None
    ]
    if not fast or len(rates) != len(found):
        return
    least = FEWER * max(rates)
    if due is not None and due.nvlink_gb_s is not None:
        least = max(least, LINKS_LEAST * due.nvlink_gb_s / 2)
    dead = {index: rate for index, rate in enumerate(rates) if rate < least}
    why = f"{named(dead)} NVLinks that work add up to {spread(list(dead.values()), 0)} GB/s of"
    why += f" {max([*rates, least]):.0f}"
    yield Check(
        "NVLink",
        f"{spread(rates, 0)} GB/s each way",
        f"{least:.0f} or more",
        POOR if dead else OK,
        why if dead else "",
    )


def _all_reduce(answer: Mapping[str, Any], due: Expected | None) -> Iterator[Check]:
    rates = {
        size: rate
        for each in items(answer, "all_reduce")
        if (size := whole(each, "bytes")) is not None
        and (rate := real(each, "bus_gb_s")) is not None
    }
    if not rates:
        yield Check("all-reduce", "", "", UNKNOWN, "not measured")
        return
    for size, rate in rates.items():
        name, shown = f"all-reduce {size >> 20} MiB", f"{rate:.1f} GB/s on the bus"
        if due is None or due.nvlink_gb_s is None or size < LARGE:
            yield Check(name, shown)
            continue
        way = due.nvlink_gb_s / 2
        wants = f"{REDUCE_LEAST * way:.0f} or more; NVLink {way:.0f} each way"
        if rate < REDUCE_LEAST * way:
            why = f"all-reduce at {rate:.1f} GB/s on the bus, of NVLink's {way:.0f}"
            yield Check(name, shown, wants, POOR, why)
        else:
            yield Check(name, shown, wants)
