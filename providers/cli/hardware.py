"""`gpus hardware`: facts about a GPU model, with sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.cli.output import OK, print_json, table, wrapped
from providers.errors import Problem, SpecError

if TYPE_CHECKING:
    import argparse


def run_hardware(options: argparse.Namespace) -> int:
    """Prints the facts of the named GPU models, or of all."""
    from providers import api
    from providers.catalog import hardware as facts

    dtype = options.dtype
    if dtype not in facts.DTYPES:
        raise SpecError([Problem("--dtype", f"one of {', '.join(facts.DTYPES)}", repr(dtype))])
    found = api.hardware(*options.names)
    if options.json:
        print_json(
            [
                {
                    **item._asdict(),
                    "dtype": dtype,
                    "expected_tflops": facts.achieved_tflops(item.name, dtype),
                }
                for item in found
            ]
        )
        return OK
    unit = "TOPS" if dtype == "int8" else "TFLOPS"
    rows = [
        (
            "model",
            "GiB",
            "memory",
            "TB/s",
            unit,
            "expected",
            "link GB/s",
            "W",
            "cc",
            "form",
            "source",
        )
    ]
    sources: dict[str, int] = {}
    notes: list[str] = []
    for item in found:
        reading = "" if item.source_read else ", as remembered"
        source = sources.setdefault(
            f"{item.source}, {item.source_as_of}{reading}", len(sources) + 1
        )
        measured = item.achieved_bf16_tflops is not None and dtype == "bf16"
        rows.append(
            (
                item.name,
                _figure(item.memory_gib),
                item.memory_kind,
                _figure(item.bandwidth_tb_s),
                _figure(item.dense_tflops(dtype)),
                _figure(facts.achieved_tflops(item.name, dtype)) + ("*" if measured else " "),
                _figure(item.interconnect_gb_s),
                _figure(item.tdp_w),
                item.compute_capability or "-",
                item.form_factor,
                f"[{source}]",
            )
        )
        notes += [f"{item.name}: {item.note}"] if item.note and options.names else []
    print("\n".join(table(rows, right={1, 3, 4, 5, 6, 7})))
    legend = (
        "expected: what a large matmul reaches, * measured, else estimated from measured models; -"
        " not known or not there"
    )
    print("\n".join(wrapped("", f"{unit}: dense {dtype} peak of one GPU; {legend}")))
    for text in [*notes, *(f"[{number}] {source}" for source, number in sources.items())]:
        print("\n".join(wrapped("", text, "    ")))
    return OK


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if value < 10_000 else f"{value:.0f}"


def add_hardware(commands: Any) -> None:
    """Adds `hardware` to the commands."""
    hardware = commands.add_parser(
        "hardware",
        help="what a GPU is",
        description="What a GPU is: memory, speed and links, with sources and dates.",
    )
    hardware.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="H100 MI300X ...; all known models, if none is named",
    )
    hardware.add_argument("--dtype", default="bf16", help="for the speed column (default: bf16)")
    hardware.add_argument("--json", action="store_true", help="a JSON list instead of a table")
    hardware.set_defaults(run=run_hardware)
