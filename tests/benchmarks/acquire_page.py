"""Writes what `docs/research/acquire.md` has from the comparison: `python -m
tests.benchmarks.acquire_page`.

Measures anew. The figures stand between `<!-- measured -->` and `<!-- end -->`, the assumptions
between `<!-- assumed -->` and `<!-- end -->`.
"""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks import bench_acquire
from tests.benchmarks.market import BASE, SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.benchmarks.timing import Line

PAGE = Path(__file__).parents[2] / "docs" / "research" / "acquire.md"
COMMAND = "python -m tests.benchmarks acquire"


def with_part(page: str, name: str, text: str) -> str:
    """The page with this between the marks of that name. Pure."""
    part = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    return part.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page)


def assumptions() -> str:
    """Every assumption of the model, its value, and where it comes from. Pure."""
    rows = (
        f"| `{name}` | {getattr(BASE, name):g} | {what} | {source} |"
        for name, (what, source) in SOURCES.items()
    )
    return "\n".join(("| name | value | what it is | source |", "|---|---|---|---|", *rows))


def figures(lines: Iterable[Line], date: datetime.date) -> str:
    """The lines of the comparison as a table, with their date. Pure."""
    rows = (
        f"| {line.what.strip()} | {'' if line.value is None else f'{line.value:.2f}{line.unit}'} |"
        f" {_verdict(line)} | {line.detail} |"
        for line in lines
    )
    head = ("| what | ours | target | of what |", "|---|---|---|---|")
    return "\n".join((f"Measured on {date.isoformat()} by `{COMMAND}`.", "", *head, *rows))


def _verdict(line: Line) -> str:
    if line.limit is None:
        return ""
    return f"{'reached' if line.reached else '**missed**'}: at most {line.limit:.2g}{line.unit}"


def main() -> None:
    """Measures, and writes the page."""
    today = datetime.datetime.now(tz=datetime.UTC).date()
    page = with_part(PAGE.read_text("utf-8"), "assumed", assumptions())
    PAGE.write_text(with_part(page, "measured", figures(bench_acquire.lines(), today)), "utf-8")


if __name__ == "__main__":
    main()
