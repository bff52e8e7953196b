"""The one program that is sent to a machine to be measured, and its answer as JSON.

Owns how the modules of `on_node` travel: as texts inside one program, which needs nothing there but
a shell and Python. Pure.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from providers.acceptance.on_node.main import LIMIT_S, PREFIX
from providers.errors import GpusError, shortened
from providers.model import foreign, shell

if TYPE_CHECKING:
    from collections.abc import Mapping

QUICK, FULL = "quick", "full"
MODES = (QUICK, FULL)
MARGIN_S = 60.0
"""Seconds that reaching the machine and starting Python there may take besides."""
ANSWER_MAX = 1 << 20
_START = """import sys, types
for name, text in {texts!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    exec(compile(text, name, "exec"), module.__dict__)
sys.modules[{main!r}].main(sys.argv[1])
"""


def timeout_s(mode: str) -> float:
    """Seconds after which no answer is to be expected any more."""
    return LIMIT_S[mode] + MARGIN_S


def script(mode: str) -> str:
    """What a shell on the machine runs, in sh. Raises ValueError for an unknown mode."""
    if mode not in MODES:
        raise ValueError(f"wanted {' or '.join(MODES)}, found {mode!r}")
    return shell.program(__file__, "start", program=text(), mode=mode)


@cache
def text() -> str:
    """The program, in Python. Reads the files of `on_node`, once a process."""
    folder = Path(__file__).with_name("on_node")
    inner = f"{__package__}.{folder.name}"
    # A package before what is in it, and `main`, which imports the others, last.
    names = ["driver", "host", "cuda", "tensor", "main"]
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
