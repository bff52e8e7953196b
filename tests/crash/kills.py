"""Part A: the real command line and the real plugin, killed or interrupted at every step. Owns the
steps, the points, and what counts as recovered.

A point brings a stack to where its step begins, runs the step's command, and at one moment
(`kills_moments`) ends the CLI, the plugin or both with -9, or sends the CLI a signal. Then comes
what docs/how-to/when-something-dies.md says: `pulumi cancel` if a lock is left, the same command or
`up` again, at times `refresh` before; at the end `destroy`. After each of them it counts what
really runs, and over the whole life that there was never one too many.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.crash.kills_cli import kill
from tests.crash.kills_experiment import Experiment, Stuck
from tests.crash.kills_steps import (
    ASLEEP,
    BESIDES,
    CREATING,
    STEPS,
    WHO,
    Step,
    is_point,  # noqa: F401
)
from tests.crash.point import Point, Result

AT_ONCE = 2


def points(seed: int) -> list[Point]:
    """Every point: each moment of each step at each cloud, who dies going round, and some besides."""
    out = []
    for turn, (name, step) in enumerate(STEPS.items()):
        for number, moment in enumerate(step.moments):
            for where, cloud in enumerate(step.clouds):
                out.append(
                    Point(
                        "a",
                        f"{name}/{moment}/{_who(step, number, where + turn)}",
                        cloud,
                        seed,
                    )
                )
    sleeping = [
        Point("a", f"{name}/{moment}/{ASLEEP}", cloud, seed)
        for name, step in STEPS.items()
        for moment in CREATING
        if {"intent", "made"} & {*step.moments} and step.words[0] == "up" and not step.block
        for cloud in step.clouds
    ]
    return out + sleeping + [Point("a", "/".join(rest), cloud, seed) for cloud, *rest in BESIDES]


def _who(step: Step, number: int, turn: int) -> str:
    return step.who[number] if step.who else WHO[(number + turn) % len(WHO)]


def run(point: Point, folder: Path) -> Result:
    """A point's result. The folder of one that failed is kept, and named."""
    experiment = Experiment(point, folder)
    try:
        experiment.run()
    except Stuck as stuck:
        experiment.wrong("stuck", 1, str(stuck))
    finally:
        for clone in experiment.clones:
            kill(clone.plugins())
    found = Result(point, experiment.orphans, experiment.duplicates, experiment.stuck, "")
    if found.good:
        return found
    kept = Path(tempfile.mkdtemp(prefix="gpus-crash-kept-")) / "point"
    folder.rename(kept)
    return found._replace(
        detail="\n  ".join([*experiment.words, f"its logs, state and rehearsal: {kept}"])
    )
