"""What `pulumi up` on machines of one's own costs beside the bare start of what runs there, and ten
machines beside one: real ssh servers on loopback, the real engine, in one run.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from providers.adapters.ssh import inventory, transport
from tests.benchmarks.bench_preview import BARE
from tests.benchmarks.timing import Figures, Line, both, fresh_home

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.crash.kills_cli import Clone
    from tests.plugin.boxes import Box

RUNS = 3
MORE_S = 3.0
"""What an `up` may take beyond the bare start of what runs."""
NODES, RATIO = 10, 1.5
SETUP_S = 10
"""How long a machine's own set-up takes where ten are compared with one: packages, an image."""
LONGEST_S = 300.0
UP = ("up", "--yes", "--skip-preview")
DESTROY = ("destroy", "--yes", "--skip-preview")
BEGAN = 'touch "$(dirname "$GPUS_AGENT_ROOT")/began"'


def lines() -> list[Line]:
    """An `up` of one process on one machine over its bare start, and of ten machines over one."""
    from tests.plugin.boxes import SSHD

    name = "pulumi up on an own machine, beyond what runs there"
    if SSHD is None or shutil.which("pulumi") is None:
        return [Line(name, None, None, "", "needs pulumi, and OpenSSH's server: openssh-server")]
    bare: list[float] = []
    ups: list[float] = []
    again: list[float] = []
    pulumis: list[float] = []
    with fresh_home(), _rack(NODES) as (boxes, clone):
        program = _program(clone.folder.with_name("bare"))
        _run(program, *UP)
        for _ in range(RUNS):
            pulumis.append(_run(program, *UP))
            bare.append(_started(boxes[0], clone))
            _declare(clone, 1, BEGAN)
            ups.append(_run(clone, *UP))
            again.append(_run(clone, *UP))
            _run(clone, *DESTROY)
        one: list[float] = []
        ten: list[float] = []
        for _ in range(RUNS):
            for figures, nodes in ((one, 1), (ten, NODES)):
                _declare(clone, nodes, BEGAN, setup=[f"sleep {SETUP_S}"])
                figures.append(_set_up(boxes[:nodes], clone))
                _run(clone, *DESTROY)
    start, up, unchanged, pulumi = (Figures(tuple(each)) for each in (bare, ups, again, pulumis))
    single, several = Figures(tuple(one)), Figures(tuple(ten))
    return [
        Line(
            name,
            up.p50 - start.p50,
            MORE_S,
            " s",
            f"bare start {both(start)}; up {both(up)}",
        ),
        Line(
            "  the same over an up that changes nothing",
            up.p50 / unchanged.p50,
            None,
            " x",
            f"unchanged {both(unchanged)}",
        ),
        Line(
            "  an up that changes nothing over a bare program's",
            unchanged.p50 / pulumi.p50,
            None,
            " x",
            f"bare program {both(pulumi)}",
        ),
        Line(
            "  an up, beyond what runs there and a bare program's up",
            up.p50 - start.p50 - pulumi.p50,
            None,
            " s",
            "what this product adds",
        ),
        Line(
            f"pulumi up of {NODES} own machines over one, set-up {SETUP_S} s",
            several.p50 / single.p50,
            RATIO,
            " x",
            f"one {both(single)}; {NODES}: {both(several)}",
        ),
    ]


def _program(folder: Path) -> Clone:
    """A bare Pulumi program, with a stack of its own."""
    from tests.crash.kills_cli import Clone

    clone = Clone(folder, folder / "home")
    (folder / "stacks" / "__main__.py").write_text(BARE, encoding="utf-8")
    clone.init()
    return clone


def _started(box: Box, clone: Clone) -> float:
    """Seconds until the same process runs on the machine by a login alone."""
    known = inventory.load(str(clone.folder / "inventory.yaml"))
    words = transport.words(known, known.machines[0], "-T", shared="never")
    began = time.perf_counter()
    subprocess.run([*words, BEGAN], check=True, capture_output=True)
    taken = time.perf_counter() - began
    (box.folder / "began").unlink()
    return taken


def _run(clone: Clone, *words: str) -> float:
    began = time.perf_counter()
    status, said = clone.run(*words)
    assert status == 0, said
    return time.perf_counter() - began


def _set_up(boxes: Sequence[Box], clone: Clone) -> float:
    """Seconds of an `up` until what it declares runs on all of these."""
    files = [box.folder / "began" for box in boxes]
    for file in files:
        file.unlink(missing_ok=True)
    began = time.perf_counter()
    _run(clone, *UP)
    while not all(file.exists() for file in files):
        assert time.perf_counter() - began < LONGEST_S, [*map(str, files)]
        time.sleep(0.05)
    return time.perf_counter() - began


def _declare(clone: Clone, nodes: int, command: str, **more: list[str]) -> None:
    spec = {
        "kind": "job",
        "gpu": "RTX-4090:2",
        "providers": ["ssh"],
        "nodes": nodes,
        "ttl": "1h",
        "workload": {"command": command, **more},
    }
    clone.declare({"train": spec}, {"ssh:inventory": str(clone.folder / "inventory.yaml")})


@contextmanager
def _rack(size: int) -> Iterator[tuple[Sequence[Box], Clone]]:
    """So many machines, and a stack that has them in its inventory."""
    from tests.crash.kills_cli import Clone, kill
    from tests.plugin.boxes import Box

    folder = Path(tempfile.mkdtemp(prefix="gpus-boxes-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        port = probe.getsockname()[1]
    made: list[Box] = []
    clone = Clone(folder / "clone", folder / "home")
    try:
        for number in range(1, size + 1):
            address = f"127.0.0.{number + 1}"
            made.append(Box(folder, f"box-{number}", address, port, folder / "bucket"))
        clone.init()
        entries = [box.entry() for box in made]
        (clone.folder / "inventory.yaml").write_text(json.dumps({"machines": entries}))
        yield made, clone
    finally:
        kill(clone.plugins())
        for box in made:
            box.power_off()
        shutil.rmtree(folder, ignore_errors=True)
