"""A launcher's line, and the flags on it."""

import shlex
from typing import Any

from providers.model.workload import Override, Task, Workload
from providers.workloads.launch.compile import program
from providers.workloads.launch.flags import RUNNERS, spelled

LLAMA = "meta-llama/Llama-3.1-8B"


def words(
    launcher: str,
    gpu: str = "H100",
    count: int = 8,
    nodes: int = 1,
    expose: str = "private",
    override: Override | None = None,
    **task: Any,
) -> list[str]:
    """The line's own words, without variables that are set before it."""
    given_task = {"command": "train.py --epochs 3"} if launcher in RUNNERS else {"model": LLAMA}
    kind = "job" if launcher in RUNNERS else "service"
    work = Workload((Task(launcher=launcher, **{**given_task, **task}),))
    return shlex.split(
        program(work, kind, gpu, count, nodes, expose=expose, override=override).processes[0].line
    )


def said(line: list[str]) -> dict[str, str | bool]:
    """{flag: value} of a line, as far as its script; a flag that stands there twice is an error."""
    line = line[: line.index("train.py")] if "train.py" in line else line
    flags = [
        word.partition("=")[0]
        for word in line
        if word.startswith("-") and word.lstrip("-")[:1].isalpha()
    ]
    plain = [flag.lstrip("-").replace("_", "-") for flag in flags]
    assert len(set(plain)) == len(plain), line
    return spelled(line)
