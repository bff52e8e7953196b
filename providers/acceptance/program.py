"""The one program that is sent to a machine to be measured, and its answer as JSON.

Owns how the modules of `on_node` travel: as texts inside one program, which needs nothing there but
a shell and Python. Pure.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from providers.acceptance.on_node.main import BETWEEN_S, LIMIT_S, PREFIX, TOLD
from providers.errors import GpusError, shortened
from providers.model import foreign, shell
from providers.workloads.launch.fabric import functions

if TYPE_CHECKING:
    from collections.abc import Mapping

QUICK, FULL = "quick", "full"
MODES = (QUICK, FULL)
MARGIN_S = 60.0
"""Seconds that reaching the machine and starting Python there may take besides."""
ANSWER_MAX = 1 << 20
_WORD = re.compile(r"[A-Za-z0-9.:_-]+")
_KEY = re.compile(r"[0-9a-f]{256}")
_START = """import sys, types
for name, text in {texts!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    exec(compile(text, name, "exec"), module.__dict__)
sys.modules[{main!r}].main(*sys.argv[1:])
"""


def timeout_s(mode: str, *, between: bool = False) -> float:
    """Seconds after which no answer is to be expected any more."""
    return (BETWEEN_S if between else LIMIT_S)[mode] + MARGIN_S


def script(mode: str, *words: str) -> str:
    """What a shell on the machine runs, in sh: the look at it, or with `words` at what is between
    it and others. Raises ValueError for an unknown mode or what is no plain word.
    """
    if mode not in MODES:
        raise ValueError(f"wanted {' or '.join(MODES)}, found {mode!r}")
    if other := [word for word in words if not _WORD.fullmatch(word)]:
        raise ValueError(f"wanted a rank, a number, an address and an id, found {other[0]!r}")
    return shell.program(
        __file__, "start", program=text(), words=" ".join((mode, *words)), fabric=functions()
    )


def told(line: str) -> str:
    """What the first of several machines tells the others, in a line that it printed; empty for
    another line. Raises GpusError for what is none.
    """
    if not line.startswith(TOLD):
        return ""
    key = line.removeprefix(TOLD).strip()
    if not _KEY.fullmatch(key):
        raise GpusError("wanted NCCL's id from the first machine, found something else")
    return key


@cache
def text() -> str:
    """The program, in Python. Reads the files of `on_node`, once a process."""
    folder = Path(__file__).with_name("on_node")
    inner = f"{__package__}.{folder.name}"
    # A package before what is in it, and `main`, which imports the others, last.
    names = ["driver", "host", "cuda", "tensor", "between", "main"]
    parts = inner.split(".")
    texts = {".".join(parts[: end + 1]): "" for end in range(len(parts))}
    for name in names:
        texts[f"{inner}.{name}"] = (folder / f"{name}.py").read_text(encoding="utf-8")
    return _START.format(texts=texts, main=f"{inner}.main")


def answer(output: str, code: int, errors: str) -> Mapping[str, Any]:
    """The JSON in what the machine printed. Raises GpusError where there is none.

    The machine may be a stranger's: what it says is bounded here, and judged field by field.
    """
    lines = [line for line in output.splitlines() if line.startswith(PREFIX)]
    found: Any = None
    if lines and len(lines[-1]) <= ANSWER_MAX:
        try:
            found = foreign.loads(lines[-1].removeprefix(PREFIX))
        except ValueError:
            found = None
    if not isinstance(found, dict) or foreign.too_deep(found):
        said = next((line for line in reversed(errors.splitlines()) if line.strip()), "")
        raise GpusError(
            f"wanted the machine's measurements, found none: it ended with {code}"
            f"{f': {shortened(said.strip(), 160)}' if said else ''}; `gpus doctor` needs only a"
            " shell there"
        )
    return found
