"""The calls that each step of part B makes when all goes well, as they were recorded. Owns
`calls.json`.

How often a step polls, and what it asks again, depends on the machine's load; the points of a seed
must not. So the list of points is made of a record: what each of two runs made, in the order of the
first. `python -m tests.crash.calls` writes it anew after the product's calls have changed.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE = Path(__file__).parent / "calls.json"
Calls = list[tuple[str, str]]
"""(verb, name) of each call; the verb is GET for what only looks."""


def recorded() -> dict[tuple[str, str], Calls]:
    """(cloud, step) -> its calls."""
    return {
        (cloud, step): [(verb, method) for verb, method in calls]
        for cloud, steps in json.loads(FILE.read_text()).items()
        for step, calls in steps.items()
    }


def common(first: Calls, other: Calls) -> Calls:
    """The calls of the first run that the other made as well, each as often as both did."""
    left, out = Counter(other), []
    for call in first:
        if left[call]:
            left[call] -= 1
            out.append(call)
    return out


def record(steps: Sequence[tuple[str, str]]) -> None:
    """Runs each step twice and writes down what both runs made."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from tests.crash.replies import AT_ONCE, calls_of

    found: dict[str, dict[str, Calls]] = {}
    with ProcessPoolExecutor(AT_ONCE, mp_context=get_context("spawn")) as pool:
        runs = [list(pool.map(calls_of, *zip(*steps, strict=True))) for _ in range(2)]
    for (cloud, step), first, other in zip(steps, *runs, strict=True):
        found.setdefault(cloud, {})[step] = common(first, other)
    # One line a step.
    clouds = [
        f'"{cloud}": {{\n'
        + ",\n".join(f'  "{step}": {json.dumps(calls)}' for step, calls in steps.items())
        + "\n }"
        for cloud, steps in found.items()
    ]
    FILE.write_text("{" + ",\n ".join(clouds) + "}\n")


if __name__ == "__main__":
    from tests.crash.point import CLOUDS
    from tests.crash.replies import STEPS

    record(
        [(cloud, name) for cloud in CLOUDS for name, step in STEPS.items() if cloud in step.clouds]
    )
