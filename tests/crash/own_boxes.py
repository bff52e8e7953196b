"""Two machines of one's own for the crash matrix: real ssh servers behind `gate.sh`. Owns holding a
call there, and the counting of what is really lent, runs and lies there.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.plugin.boxes import Box

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

GATE = Path(__file__).with_name("gate.sh")
JOB = 'echo "$GPUS_LEASE $$" >>"$(dirname "$GPUS_AGENT_ROOT")/began"; exec sleep 3600'
"""What is declared to run: it says whose it is."""
SETTLES_S = 20.0
"""How long what was released may take to end."""


class Job(NamedTuple):
    """What a lease started, by its process."""

    box: str
    token: str
    pid: int

    @property
    def lives(self) -> bool:
        try:
            words = Path(f"/proc/{self.pid}/environ").read_text(errors="replace")
        except OSError:
            return False
        return f"GPUS_LEASE={self.token}" in words


class Boxes:
    """The machines in this folder."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.2", 0))
            port = probe.getsockname()[1]
        self.all = [
            Box(
                folder,
                f"box-{number}",
                f"127.0.0.{number + 1}",
                port,
                folder / "bucket",
                shell=f"sh {GATE} {folder}/box-{number}",
            )
            for number in (1, 2)
        ]
        self.inventory = folder / "inventory.yaml"
        self.inventory.write_text(json.dumps({"machines": [box.entry() for box in self.all]}))

    def end(self) -> None:
        self.let_go()
        for box in self.all:
            box.power_off()

    # Holding a call

    def hold(self, verb: str, when: str, *, last: bool = False) -> None:
        """The first call of this verb waits, `before` it is carried out or `after`; at the `last`
        machine only, or at each.
        """
        for box in self.all[-1:] if last else self.all:
            (box.folder / f"hold-{verb}-{when}").touch()

    def holding(self) -> list[Box]:
        """The machines at which such a call has come."""
        return [box for box in self.all if any(box.folder.glob("came-*"))]

    def let_go(self) -> None:
        """What waits goes on, and nothing is held any more."""
        for box in self.all:
            for file in (*box.folder.glob("hold-*"), *box.folder.glob("came-*")):
                file.unlink(missing_ok=True)

    # Counting

    def leases(self, *, staying: bool = False) -> dict[str, list[str]]:
        """Cluster -> `BOX/TOKEN` of each lease that stands; `staying`: that nobody has released."""
        found: dict[str, list[str]] = {}
        for box in self.all:
            for file in box.root.glob("leases/*/lease"):
                with suppress(OSError):
                    fields = dict(
                        line.split("=", 1) for line in file.read_text().splitlines() if "=" in line
                    )
                    if staying and fields.get("ending"):
                        continue
                    found.setdefault(fields.get("cluster", ""), []).append(
                        f"{box.name}/{file.parent.name}"
                    )
        return found

    def jobs(self) -> list[Job]:
        """Everything that was started by leases, in order."""
        found = []
        for box in self.all:
            with suppress(OSError):
                for line in (box.folder / "began").read_text().splitlines():
                    token, pid = line.split()
                    found.append(Job(box.name, token, int(pid)))
        return found

    def settled(self, declared: Mapping[str, int], within_s: float = SETTLES_S) -> list[str]:
        """What is beyond the declaration (cluster -> machines) or missing from it once everything
        had the time to end or begin; a line each.
        """
        until = time.monotonic() + within_s
        while (found := list(self._wrong(declared))) and time.monotonic() < until:
            time.sleep(0.2)
        return found

    def _wrong(self, declared: Mapping[str, int]) -> Iterator[str]:
        leases = self.leases()
        living = [job for job in self.jobs() if job.lives]
        for cluster in sorted({*leases, *declared}):
            mine, wanted = leases.get(cluster, []), declared.get(cluster, 0)
            if len(mine) != wanted:
                yield f"{_kind(len(mine), wanted)}: {cluster}: wanted {wanted} leases, found {mine}"
            running = [job for job in living if f"{job.box}/{job.token}" in mine]
            if len(running) != wanted:
                yield (
                    f"{_kind(len(running), wanted)}: {cluster}: wanted {wanted} jobs, found"
                    f" {running}"
                )
        standing = {lease for several in leases.values() for lease in several}
        for job in living:
            if f"{job.box}/{job.token}" not in standing:
                yield f"orphans: a job without a lease: {job}"
        if not leases:
            for box in self.all:
                if files := box.files:
                    yield f"orphans: left on {box.name}: {files}"
                if processes := box.processes():
                    yield f"orphans: still running on {box.name}: {[*map(_shown, processes)]}"

    def overlaps(self, most: Mapping[str, int]) -> str:
        """Where more leases of a cluster stood at once than `most`, after any call: the first case;
        empty for none.
        """
        told: list[tuple[float, str, list[str]]] = []
        for box in self.all:
            with suppress(OSError):
                for line in (box.folder / "seen").read_text().splitlines():
                    at, verb, *leases = line.split()
                    told.append((float(at), f"{box.name} {verb}", leases))
        now: dict[str, list[str]] = {}
        for _, where, leases in sorted(told):
            now[where.split()[0]] = leases
            for cluster, limit in most.items():
                mine = [
                    f"{box}: {lease}"
                    for box, several in now.items()
                    for lease in several
                    if lease.startswith(f"{cluster}/")
                ]
                if len(mine) > limit:
                    return f"after {where}: at most {limit} leases of {cluster}, found {mine}"
        return ""

    def begun_twice(self) -> list[str]:
        """The leases whose job was started more than once."""
        names = [f"{job.box}/{job.token}" for job in self.jobs()]
        return sorted({name for name in names if names.count(name) > 1})

    def calls(self) -> list[str]:
        """What came to each machine, in order, and what was lent after it."""
        found = []
        for box in self.all:
            with suppress(OSError):
                lines = (box.folder / "seen").read_text().splitlines()
                found += [
                    f"{line.split()[0]} {box.name} {line.partition(' ')[2]}" for line in lines
                ]
        return sorted(found)


def _kind(found: int, wanted: int) -> str:
    if found < wanted:
        return "stuck"
    return "duplicates" if wanted else "orphans"


def _shown(pid: int) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        return f"{pid} {os.fsdecode(words).strip()[:60]}"
    return str(pid)
