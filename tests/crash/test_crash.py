"""The crash matrix in short: a sample of both parts, and what holds for its own machinery."""

import asyncio
import json
from importlib.util import find_spec

import pytest

from tests.crash.matrix import PARTS, SEED, points, report, results, sample
from tests.crash.point import Point, Result, count, overlaps

SIZES = {"a": 15, "b": 100}


@pytest.mark.parametrize("part", sorted(part for part, module in PARTS.items() if find_spec(module)))
def test_b26_a_sample_of_the_matrix_leaves_no_orphan_no_duplicate_and_nothing_stuck(part):
    """After any crash or broken reply the documented recovery ends at exactly what is declared, and destroy at nothing."""
    chosen = sample(points([part], SEED), SIZES[part], SEED)
    assert len(chosen) == SIZES[part]
    said: list[str] = []
    assert report(list(results(chosen)), said.append), "\n".join(said)
    assert said[-1].endswith(f"points {SIZES[part]}, orphans 0, duplicates 0, stuck 0")
