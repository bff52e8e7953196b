"""How much hostile input is tried: a sample always, all of it with HOSTILE=full (`make hostile`);
the same input every time, by HOSTILE_SEED.
"""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings

FULL = os.environ.get("HOSTILE") == "full"
SEED = int(os.environ.get("HOSTILE_SEED", "20261128"))


def many(full: int, sample: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: so many examples, drawn from the one seed."""

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        checked = settings(
            max_examples=full if FULL else sample,
            deadline=None,
            phases=(Phase.explicit, Phase.generate),
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )(test)
        return seed(SEED)(checked)

    return decorate
