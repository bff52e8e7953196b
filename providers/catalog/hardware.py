"""What a GPU is: memory, speed, links and power of every model that `names` knows, and of other
accelerators for comparison.

Owns the reading of `data/hardware.csv`, which is edited by hand; imports `names`. Vendor sheets win
over other sources; each row names its sheet, its date and whether a copy of it was read when the
row was written (the rest is as the sheet is remembered). Speeds are dense peaks, never with
sparsity.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from providers.catalog import names
from providers.catalog.offers import lines

if TYPE_CHECKING:
    from collections.abc import Mapping

DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp6", "fp4")

ACHIEVABLE = {"NVIDIA": 0.82, "AMD": 0.60}
"""What part of the dense peak a large matmul reaches where nobody measured the model: the middle of
the four measured NVIDIA rows (0.80 to 0.86), and the measured MI300X. Source: ml-engineering,
maximum achievable matmul FLOPS, 2024-Q3. Others: no measurement, so the lower of the two.
"""


class Hardware(NamedTuple):
    """One model, one GPU of it. None where the maker gives no figure, or has none (T4 knows no
    bf16).

    `interconnect_gb_s` is the sum of both directions, as makers give it. `achieved_bf16_tflops` is
    a measured large matmul. `relative_speed` is a claim of one training note (T4 = 1);
    `relative_speed_note` says how far the sheets bear it out.
    """

    name: str
    vendor: str
    kind: str
    architecture: str
    form_factor: str
    memory_gib: float
    memory_kind: str
    bandwidth_tb_s: float | None
    fp32_tflops: float | None
    tf32_tflops: float | None
    fp16_tflops: float | None
    bf16_tflops: float | None
    fp8_tflops: float | None
    int8_tops: float | None
    fp6_tflops: float | None
    fp4_tflops: float | None
    achieved_bf16_tflops: float | None
    achieved_source: str
    interconnect: str
    interconnect_gb_s: float | None
    tdp_w: float | None
    compute_capability: str
    software: str
    relative_speed: float | None
    relative_speed_note: str
    source: str
    source_as_of: str
    source_read: bool
    note: str

    def dense_tflops(self, dtype: str) -> float | None:
        """The dense peak for a dtype of DTYPES (for int8: tera-operations). Raises ValueError for
        an unknown dtype.
        """
        if dtype not in DTYPES:
            raise ValueError(f"wanted one of {', '.join(DTYPES)}, found {dtype!r}")
        value: float | None = getattr(self, "int8_tops" if dtype == "int8" else f"{dtype}_tflops")
        return value


_FIRST_FIGURE, _TEXTS = (
    5,
    {
        "memory_kind",
        "achieved_source",
        "interconnect",
        "compute_capability",
        "software",
        "relative_speed_note",
    },
)


@cache
def _table() -> Mapping[str, Hardware]:
    """All models by name. Reads two files, once per process."""
    sources = {
        source: (as_of, read == "yes", text)
        for source, as_of, read, text in lines("hardware_sources.csv")
    }
    table: dict[str, Hardware] = {}
    for *figures, source, note in lines("hardware.csv"):
        fields = Hardware._fields[: len(figures)]
        values = [
            value if number < _FIRST_FIGURE or field in _TEXTS else float(value) if value else None
            for number, (field, value) in enumerate(zip(fields, figures, strict=True))
        ]
        as_of, read, text = sources[source]
        made = Hardware._make([*values, text, as_of, read, note])
        table[made.name] = made
    return table


def hardware(name: str) -> Hardware | None:
    """The model that a name or a known spelling of it means (`H100-SXM`: the H100); None when
    unknown.
    """
    return _table().get(names.gpu_type(name) or "")


def all_hardware() -> tuple[Hardware, ...]:
    """Every model, in the table's order: data centre, workstation, consumer, other makers."""
    return tuple(_table().values())


def achieved_tflops(name: str, dtype: str = "bf16") -> float | None:
    """What one GPU can be expected to reach in a large matmul, in TFLOPS. None for an unknown model
    and for a dtype that the model lacks.

    Measured for bf16 where somebody did; else the dense peak times the model's measured share of
    its bf16 peak, or its vendor's in ACHIEVABLE. Raises ValueError for an unknown dtype.
    """
    found = hardware(name)
    if found is None:
        return None
    peak = found.dense_tflops(dtype)
    if peak is None:
        return None
    if found.achieved_bf16_tflops is not None and found.bf16_tflops:
        return peak * found.achieved_bf16_tflops / found.bf16_tflops
    return peak * ACHIEVABLE.get(found.vendor, min(ACHIEVABLE.values()))
