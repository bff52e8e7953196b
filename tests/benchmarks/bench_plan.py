"""A plan: cold as a process of its own against gpuhunt over the same rows, and warm as a call.

gpuhunt is dstack's catalog of GPU offers (MIT, on PyPI): what a Python program would use today to
ask who sells a GPU. It is given our own rows.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks import peer_environment
from tests.benchmarks.failed_tries import failed
from tests.benchmarks.timing import Figures, Line, both, further, side_by_side
from tests.present import present

COLD_LIMIT = 1.0
WARM_LIMIT_MS = 2.0
PUBLIC_LIMIT_MS = 5.0
MILLION_LIMIT_MS = 60.0
FAILED_LIMIT = 2.0
SIZES = (1_000, 10_000, 100_000, 1_000_000)
WARM_RUNS = 300
LARGEST = "warm plan of one GPU of at least 24 GiB"
"""Over a thousand candidates, all ranked: shown, and held against nothing."""


def lines() -> list[Line]:
    """Cold against gpuhunt (and SkyPilot, where that is installed), then warm."""
    with tempfile.TemporaryDirectory(prefix="gpus-bench-") as folder:
        return [*_cold(Path(folder)), *_warm(), *_public(Path(folder)), *_large(), *_skypilot()]


def write_rows(path: Path) -> int:
    """Our catalog as gpuhunt can hold it: every whole-GPU offer with a price (it knows no unknown
    price and no part of a GPU). The count.
    """
    from providers.catalog.offers import load

    offers = load()
    rows = [
        offer
        for offer in map(offers.offer, range(len(offers)))
        if offer.node_micro_usd and offer.gpu_count == int(offer.gpu_count)
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        for o in rows:
            writer.writerow(
                (
                    o.provider,
                    o.machine_type,
                    o.zone or o.region,
                    present(o.node_micro_usd) / 1e6,
                    int(o.vcpus),
                    o.memory_gib,
                    int(o.gpu_count),
                    o.gpu_type,
                    o.gpu_memory_gib,
                    int(o.capacity == "spot"),
                )
            )
    return len(rows)


def _cold(folder: Path) -> list[Line]:
    what = "cold `gpus plan H100:8 --json` over gpuhunt, same rows"
    try:
        theirs = peer_environment.made(folder / "gpuhunt", "gpuhunt")
    except (OSError, subprocess.CalledProcessError) as error:
        reason = str(getattr(error, "stderr", "") or error).strip().splitlines()
        return [
            Line(
                what,
                None,
                None,
                "",
                f"not measured: gpuhunt cannot be installed ({reason[-1] if reason else error})",
            )
        ]
    rows = write_rows(folder / "rows.csv")
    ours = Path(sys.executable).with_name("gpus")
    command = [str(ours)] if ours.exists() else [sys.executable, "-m", "providers.cli"]
    query = str(Path(__file__).with_name("gpuhunt_query.py"))
    plan, other, bare, its_bare = side_by_side(
        [*command, "plan", "H100:8", "--json"],
        [theirs, query, str(folder / "rows.csv"), "H100", "8"],
        [sys.executable, "-c", "pass"],
        [theirs, "-c", "pass"],
        env={"GPUS_HOME": str(folder / "home")},
    )
    answered = json.loads(
        subprocess.run(
            [theirs, query, str(folder / "rows.csv"), "H100", "8"],
            check=True,
            capture_output=True,
        ).stdout
    )
    assert answered["rows"] == rows
    from providers.catalog.offers import load

    every, unlike = len(load()), len(load()) - rows
    same = (
        f"the bundled catalog, less {unlike:,} of its {every:,} rows that gpuhunt cannot hold (no"
        " price, part of a GPU); ours reads them all"
    )
    return [
        Line(
            "gpuhunt",
            None,
            None,
            "",
            "dstack's catalog of GPU offers, from PyPI: what a Python program would ask today; in"
            " an environment of its own",
        ),
        Line("same rows", None, None, "", f"{same}, and the rehearsal market's"),
        Line(
            what,
            plan.p50 / other.p50,
            COLD_LIMIT,
            " x",
            f"ours {both(plan)}; gpuhunt {both(other)}",
        ),
        *further(plan, other),
        Line(
            "  bare Python, here and in gpuhunt's environment",
            None,
            None,
            "",
            f"{both(bare)}; {both(its_bare)}",
        ),
    ]


def _warm() -> list[Line]:
    from providers.catalog.offers import load
    from providers.model.ask import ON_DEMAND, SPOT, Ask, Capacity, Choice
    from providers.model.capability import Capabilities
    from providers.planner.plan import make

    offers = load()
    able = {
        name: Capabilities(name, capacities=frozenset({ON_DEMAND, SPOT}), max_nodes=8)
        for name in ("gcp", "aws", "modal")
    }
    ways = (Capacity(SPOT), Capacity(ON_DEMAND))
    asks = {
        "warm plan H100:8": Ask((Choice("H100", 8),)),
        "warm plan H100:8, else H200:8, else A100-80GB:8, capped": Ask(
            tuple(Choice(gpu, 8, capacity=ways) for gpu in ("H100", "H200", "A100-80GB")),
            max_price_micro_usd=60_000_000,
        ),
        "warm plan T4:1, the GPU with the most offers": Ask((Choice("T4", 1, capacity=ways),)),
        "warm plan of 8 GPUs of at least 80 GiB": Ask(
            (Choice("", 8, min_memory_gib=80.0, capacity=ways),)
        ),
        LARGEST: Ask((Choice("", 1, min_memory_gib=24.0, capacity=ways),)),
    }
    out = []
    for what, ask in asks.items():
        taken = []
        for _ in range(WARM_RUNS):
            # The processor's time: it makes no call and waits for nothing, so that this is the wall
            # time of a quiet machine.
            start = time.thread_time()
            plan = make(ask, offers, able)
            refused = sum(plan.rejected_by_rule.values())
            taken.append(time.thread_time() - start)
        figures = Figures(tuple(taken))
        detail = (
            f"p95 {figures.p95 * 1e3:.2f} ms; {len(plan.candidates):,} candidates, {refused:,}"
            " refused"
        )
        out.append(
            Line(what, figures.p50 * 1e3, None if what == LARGEST else WARM_LIMIT_MS, " ms", detail)
        )
    return out


def _public(folder: Path) -> list[Line]:
    """`providers.plan` as a program calls it: with the rehearsal's live market, and the journal."""
    import providers

    previous = os.environ.get("GPUS_HOME")
    os.environ["GPUS_HOME"] = str(folder / "public")
    try:
        providers.plan("H100:8")
        taken = []
        for _ in range(WARM_RUNS // 5):
            start = time.process_time()
            providers.plan("H100:8")
            taken.append(time.process_time() - start)
    finally:
        if previous is None:
            del os.environ["GPUS_HOME"]
        else:
            os.environ["GPUS_HOME"] = previous
    figures = Figures(tuple(taken))
    what = 'warm `providers.plan("H100:8")`, its threads included'
    detail = f"p95 {figures.p95 * 1e3:.2f} ms of the processor's time"
    return [Line(what, figures.p50 * 1e3, PUBLIC_LIMIT_MS, " ms", detail)]


def _large() -> list[Line]:
    """Warm plans of H100:8 over the bundled offers, repeated in as many made-up regions as it takes
    to come to each size; then what a try that fails costs in the walk of each.
    """
    from providers.catalog.offers import load
    from providers.catalog.table import COLUMNS, OfferTable
    from providers.model.ask import ON_DEMAND, Ask, Choice
    from providers.model.capability import Capabilities
    from providers.planner.plan import make

    base = load()
    able = {name: Capabilities(name, capacities=frozenset({ON_DEMAND})) for name in ("gcp", "aws")}
    ask = Ask((Choice("H100", 8),))
    out, tries = [], []
    for size in SIZES:
        rows = [base.offer(row) for row in range(0, len(base), max(len(base) // size, 1))][:size]
        times = -(-size // len(rows))
        columns = [(list(column) * times)[:size] for column in zip(*rows, strict=True)]
        for at in (COLUMNS.index("region"), COLUMNS.index("zone")):
            columns[at] = [
                f"{name}-{row // len(rows)}" if name else "" for row, name in enumerate(columns[at])
            ]
        by_gpu: dict[str, list[int]] = {}
        for row, gpu in enumerate(columns[COLUMNS.index("gpu_type")]):
            by_gpu.setdefault(gpu, []).append(row)
        table = OfferTable(tuple(columns), by_gpu)
        make(ask, table, able)
        taken = []
        for _ in range(11):
            start = time.thread_time()
            plan = make(ask, table, able)
            taken.append(time.thread_time() - start)
        figures = Figures(tuple(taken))
        out.append(
            Line(
                f"warm plan H100:8 over {len(table):,} made-up offers",
                figures.p50 * 1e3,
                MILLION_LIMIT_MS if size == SIZES[-1] else None,
                " ms",
                f"{len(plan.candidates):,} candidates",
            )
        )
        tries.append((size, failed(plan)))
    return [*out, *_failed_tries(tries)]


def _failed_tries(tries: list[tuple[int, Figures]]) -> list[Line]:
    """What a refused place costs the walk, however many there are."""
    least = tries[0][1].p50
    return [
        Line(
            f"a failed try over {size:,} made-up offers to one over {tries[0][0]:,}",
            figures.p50 / least,
            FAILED_LIMIT,
            " x",
            f"{figures.p50 * 1e3:.2f} ms of the processor's time, p95 {figures.p95 * 1e3:.2f} ms",
        )
        for size, figures in tries[1:]
    ]


def _skypilot() -> list[Line]:
    """SkyPilot's own listing of the same GPU, for comparison, if `GPUS_BENCH_SKYPILOT` names a
    Python that can import it.
    """
    python = os.environ.get("GPUS_BENCH_SKYPILOT", sys.executable)
    if subprocess.run(
        [
            python,
            "-c",
            "import importlib.util, sys; sys.exit(importlib.util.find_spec('sky') is None)",
        ],
        check=False,
    ).returncode:
        return [
            Line(
                "SkyPilot",
                None,
                None,
                "",
                "not installed here; GPUS_BENCH_SKYPILOT=PYTHON names an environment that has it",
            )
        ]
    code = (
        "import time; s = time.perf_counter(); import sky; from sky import catalog; i ="
        " time.perf_counter();f = lambda: catalog.list_accelerators(name_filter='^H100$',"
        " quantity_filter=8, clouds=['gcp', 'aws']);f(); a = time.perf_counter(); f(); b ="
        " time.perf_counter(); print(i - s, a - i, b - a)"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        return [
            Line(
                "SkyPilot",
                None,
                None,
                "",
                f"did not answer: {done.stderr.strip().splitlines()[-1:]}",
            )
        ]
    imported, first, warm = (float(part) for part in done.stdout.split()[-3:])
    return [
        Line(
            "SkyPilot, the same question",
            imported + first,
            None,
            " s",
            f"import {imported:.2f} s, first {first:.2f} s, warm {warm:.3f} s",
        )
    ]
