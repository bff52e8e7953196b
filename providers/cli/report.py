"""`gpus report`: the market, a stack's choices, what was spent and what was tried, on one page."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from providers.cli import report_charts, stackfile
from providers.cli.options import add_world
from providers.cli.output import OK
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from providers.cli.report_facts import Facts
    from providers.planner.plan import Plan

_GPU = "H100"
"""Whose prices are shown by region where neither a stack nor an argument names a GPU."""


def run_report(options: argparse.Namespace) -> int:
    """Writes the page; OK, also where a cluster has no place: the page says so."""
    from providers.cli import report_page

    report_charts.need_library()
    text = report_page.page(_facts(options))
    path = Path(options.output)
    _write(path, text)
    print(f"{path}: {len(text.encode()) / 1024:,.0f} KiB; open it in a browser")
    return OK


def _facts(options: argparse.Namespace) -> Facts:
    from providers import api
    from providers.adapters import registry
    from providers.cli import report_facts
    from providers.engine.runtime.world import open_world
    from providers.model.ask import gpu_text

    named = [gpu_text(name, "--gpu").type for name in options.gpu]
    stack = stackfile.read(options.stack) if options.stack else None
    settings: Mapping[str, Mapping[str, str]] = stack.settings if stack else {}
    name = options.world or (stack.world if stack else REHEARSAL)
    plans: dict[str, Plan] = {}
    for cluster, spec in stackfile.specs(stack).items() if stack else ():
        plans[cluster] = api.plan(spec, world=name, settings=settings)
    table = api.market(name, settings)
    able = registry.capabilities()
    chosen = report_facts.chosen(plans)
    gpus = named or [each.gpu_type for each in chosen if each.gpu_type] or [_GPU]
    gpus = list(dict.fromkeys(gpus))
    world = open_world(name)
    try:
        return report_facts.Facts(
            stack.name if stack else "",
            name,
            world.clock.now(),
            report_facts.kinds(table, able),
            chosen,
            gpus,
            report_facts.regions(table, able, gpus),
            report_facts.months(world, stack.name if stack else ""),
            report_facts.tried(world, stack.name if stack else ""),
            tuple(dict.fromkeys(table.warnings)),
        )
    finally:
        world.close()


def _write(path: Path, text: str) -> None:
    """Writes the file in one step: whoever has it open never sees half of it. Raises OSError."""
    part, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(part, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def add_report(commands: Any) -> None:
    """Adds `report` to the commands."""
    report = commands.add_parser(
        "report",
        help="prices, spending and attempts as one page with charts",
        description=(
            "Writes one HTML page: price against performance, price by region, spending, and the"
            " attempts of the last ups. It needs no network to open. Buys nothing."
        ),
    )
    report.add_argument(
        "-o", "--output", metavar="FILE", default="report.html", help="default: report.html"
    )
    report.add_argument("-s", "--stack", help="show this stack's choices, spending and ups")
    report.add_argument(
        "--gpu",
        action="append",
        default=[],
        metavar="GPU",
        help="show its prices by region; may be repeated (default: what the stack would take)",
    )
    add_world(report)
    report.set_defaults(run=run_report)
