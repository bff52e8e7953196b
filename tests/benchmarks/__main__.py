"""`python -m tests.benchmarks [NAME...]`: runs the benchmarks named (start, plan, ...), or all;
exit code 1 when a p50 misses its limit. `workdir:FILESxBYTESxMACHINES` runs that one with other
sizes than its own, as in `workdir:1000x100000x4`.
"""

from __future__ import annotations

import compileall
import signal
import sys
from importlib import import_module
from pathlib import Path

from tests.benchmarks.bench_plan import WARM_RUNS
from tests.benchmarks.timing import RUNS, busy

INTERRUPTED = 128 + signal.SIGINT


def main(names: list[str]) -> int:
    known = sorted(
        path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py")
    )
    asked = [_asked(name) for name in names]
    unknown = [name for name, _ in asked if name not in known]
    if unknown:
        print(f"wanted some of {', '.join(known)}, found {', '.join(unknown)}", file=sys.stderr)
        return 2
    # Servers are ended, and gigabytes removed, also where a limit of the caller's ends this.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    # As an installer does, so that no side compiles its source in each run, whatever
    # PYTHONDONTWRITEBYTECODE says.
    compileall.compile_dir(str(Path(__file__).parents[2] / "providers"), quiet=2)
    print(
        f"Limits are held against p50 of {RUNS} cold runs (warm: {WARM_RUNS} calls), each side run"
        f" in turn; p95 is the slowest of the {RUNS}."
    )
    print(f"{busy()}\n" if busy() else "")
    missed = False
    for name, sizes in asked or [(name, ()) for name in known]:
        for line in import_module(f"tests.benchmarks.bench_{name}").lines(*sizes):
            print(line, flush=True)
            missed = missed or not line.reached
    return int(missed)


def _asked(text: str) -> tuple[str, tuple[int, ...]]:
    """The name of a benchmark, and the sizes that it is to have."""
    name, _, sizes = text.partition(":")
    return name, tuple(int(each) for each in sizes.split("x") if each)


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)
