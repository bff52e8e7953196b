"""`python -m tests.benchmarks [NAME...]`: runs the benchmarks named (start, plan, ...), or all; exit code 1 when a limit is missed."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main(names: list[str]) -> int:
    known = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"wanted some of {', '.join(known)}, found {', '.join(unknown)}", file=sys.stderr)
        return 2
    missed = False
    for name in names or known:
        for line in import_module(f"tests.benchmarks.bench_{name}").lines():
            print(line, flush=True)
            missed = missed or not line.reached
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
