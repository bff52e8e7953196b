"""The prices of the cookbook: what the plan of each recipe says today."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[2] / "docs" / "cookbook" / "README.md"
_SHOWN = re.compile(r"(?<=^\$ gpus plan -s )(\S+)\n(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^(?:would buy|price) .*\n(?: .*\n)*", re.MULTILINE)


def stacks() -> list[str]:
    """The stack of every recipe, as the page has them."""
    return [found[1] for found in _SHOWN.finditer(PAGE.read_text())]


def priced(text: str, plan: Callable[[str], str]) -> str:
    """The page with what each stack's plan says it buys, and for how much. The date is today's
    where a line is new.
    """
    new = _SHOWN.sub(lambda found: f"{found[1]}\n{_prices(plan(found[1]))}", text)
    if new == text:
        return text
    return re.sub(r"(?<=showed on )[\d-]{10}", f"{datetime.now(UTC):%Y-%m-%d}", new)


def _prices(plan: str) -> str:
    """The rows of what is bought and its price; behind its name, where there are several clusters."""
    parts = plan.strip().split("\n\n")
    rows = ["".join(_ROW.findall(f"{part}\n")) for part in parts]
    names = [f"{part.partition(';')[0]}\n" if len(parts) > 1 else "" for part in parts]
    return "".join(name + row for name, row in zip(names, rows, strict=True))
