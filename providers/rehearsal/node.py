"""The rehearsal's stand-in for a machine: a local shell in a folder of its own, with an
`nvidia-smi` that reports what was ordered.

Owns that folder and what it pretends, which it always says: there is no GPU and nobody was paid.
The scenario can make it misbehave (`gpus rehearse fault gcp node.look wrong-gpus`). Asks the
rehearsal store; runs local programs, and ends what they left when the machine is gone.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from providers.catalog import names
from providers.home import private, private_folder
from providers.model import shell
from providers.model.workload import ROOT
from providers.rehearsal.nodes import mode
from providers.rehearsal.scenario import NODE_LOOK
from providers.remote import driver
from providers.remote.line import LocalCommand
from providers.remote.probe import CLOSED, REACH, ProbeResult
from providers.remote.run import finished

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from providers.model.machine import Node
    from providers.model.placement import Placement
    from providers.rehearsal.store import Store
    from providers.remote.line import Line
    from providers.remote.probe import Ordered
    from providers.remote.ssh import SshProbe

LABEL = "rehearsal stand-in"
BUSY_FILE = ".gpus-busy"
"""What a stand-in's GPUs are busy with, in percent."""
BUSY, IDLE = 97, 0
_NO_DRIVER = 9
"""What nvidia-smi ends with when the driver is not loaded (nvidia-smi(1), RETURN VALUE)."""
PROC = Path("/proc")
_ROUNDS = 5
"""Looks at what still runs: what is being ended may have started another one meanwhile."""
_WRONG = "wrong-gpus.json"
_OTHERS = (("Tesla T4", 15_360), ("Tesla P4", 7_680))
"""(name, MiB) as nvidia-smi lists them: another card than the one that was ordered."""


def nvidia_smi(name: str, mib: int, count: int, busy_file: str, *, answers: bool = True) -> str:
    """An `nvidia-smi` of `count` GPUs of that name with `mib` MiB each; how busy they are stands in
    a file.
    """
    return shell.program(
        __file__,
        "nvidia_smi",
        label=LABEL,
        name=name,
        mib=mib,
        count=count,
        busy_file=busy_file,
        answers="yes" if answers else "",
        no_driver=_NO_DRIVER,
    )


def shown(gpu: str) -> tuple[str, int]:
    """(name, MiB) of a GPU of this type as a rehearsal's driver reports it."""
    return f"{gpu} ({LABEL})", round((names.nominal_memory_gib(gpu) or 0) * 1024)


class StandIn(NamedTuple):
    """The line to a stand-in node: a shell here, with `folder` as its home and little else of this
    process's environment.
    """

    folder: Path
    name: str
    cluster: str

    @property
    def shown(self) -> str:
        return f"gpus ssh {self.cluster}  # a {LABEL}: a local shell in {self.folder}"

    @property
    def stand_in(self) -> bool:
        return True

    def path(self, path: str) -> str:
        return f"{self.folder}{path}"

    def command(self, text: str) -> LocalCommand:
        return LocalCommand(("/bin/sh", "-c", text), self._environment(), str(self.folder))

    def login(self) -> LocalCommand:
        return LocalCommand(
            ("/bin/sh", "-i"),
            {**self._environment(), "PS1": f"({LABEL}) {self.name}$ "},
            str(self.folder),
        )

    def tunnel(self, local: int, remote: int) -> LocalCommand | None:  # noqa: ARG002 - its ports are this machine's
        return None

    def _environment(self) -> dict[str, str]:
        kept = {
            name: os.environ[name]
            for name in ("LANG", "LC_ALL", "TERM", "TZ")
            if name in os.environ
        }
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {
            **kept,
            "PATH": path,
            "HOME": str(self.folder),
            "USER": "gpus",
            "GPUS_STAND_IN": self.name,
            "GPUS_START_UP": str(self.folder / "start-up"),
            "GPUS_ROOT": self.path(ROOT),
            "GPUS_CONSOLE": str(self.folder / "console"),
        }

    def furnish(
        self,
        name: str,
        mib: int,
        count: int,
        *,
        driver_answers: bool = True,
        addresses: tuple[str, ...] = (),
    ) -> None:
        """Writes the folder and what is in it: an nvidia-smi with `count` GPUs of that name and
        `mib` MiB each, a hostname that tells the addresses, and a sudo that stays who it is.
        """
        tools = self.folder / "bin"
        private_folder(tools)
        busy = str(self.folder / BUSY_FILE)
        self._tool(tools / "nvidia-smi", nvidia_smi(name, mib, count, busy, answers=driver_answers))
        self._tool(tools / "sudo", shell.program(__file__, "sudo"))
        self._tool(
            tools / "hostname",
            f"#!/bin/sh\necho {shlex.quote(' '.join((self.name, *addresses)))}\n",
        )

    def _tool(self, path: Path, text: str) -> None:
        partial = path.with_name(f"{path.name}.new")
        private(partial).write_text(text, encoding="utf-8")
        partial.chmod(0o700)
        partial.replace(path)

    def remembered(self, wrong: Mapping[str, object] | None) -> Mapping[str, object] | None:
        """What this node shows instead of what was ordered, `wrong` from now on if there is
        something: a card does not change by being looked at.
        """
        import json

        kept = self.folder / "bin" / _WRONG
        if wrong is not None:
            private_folder(kept.parent)
            private(kept).write_text(json.dumps(dict(wrong)), encoding="utf-8")
            return wrong
        found: Mapping[str, object] | None = (
            json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else None
        )
        return found


class StandInProbe(NamedTuple):
    """Looks at the stand-in of a machine as a probe looks at a real one: through its line, at what
    its nvidia-smi says. Where the rehearsal's machines are containers, `ssh` does it.
    """

    folder: Path
    store: Store
    ssh: SshProbe | None = None

    def line(self, node: Node) -> Line | None:
        """The line to a machine's stand-in; None for a container that has no address yet."""
        ssh = self._ssh(node)
        return self.stand_in(node) if ssh is None else ssh.line(node)

    def furnished(self, node: Node) -> bool:
        """Whether its line leads anywhere: somebody has looked at it, or it really runs."""
        return self._ssh(node) is not None or (self.stand_in(node).folder / "bin").is_dir()

    def is_real(self, node: Node) -> bool:
        """Whether it is the user's own machine, which a rehearsal does not play."""
        return self.ssh is not None and node.handle.provider in self.ssh.own

    def _ssh(self, node: Node) -> SshProbe | None:
        runs = self.is_real(node) or mode.runs(self.store, node.handle.provider)
        return self.ssh if runs else None

    def stand_in(self, node: Node) -> StandIn:
        """The line to the stand-in of a played machine."""
        return StandIn(
            self.folder / node.name,
            node.name,
            node.label.cluster if node.label is not None else node.name,
        )

    def play(self, node: Node) -> None:
        """Writes down how busy the machine's GPUs are now, by the rehearsal's scenario."""
        if self._ssh(node) is not None:
            return
        folder = self.stand_in(node).folder
        private_folder(folder)
        private(folder / BUSY_FILE).write_text(
            f"{IDLE if self.store.is_idle(node.name) else BUSY}\n", encoding="utf-8"
        )

    async def __call__(self, node: Node, placed: Ordered) -> ProbeResult:
        if why := self.store.closed_off(node.handle.native_id):
            return ProbeResult(CLOSED, why)
        if (ssh := self._ssh(node)) is not None:
            found = await ssh(node, placed)
            refused = "" if self.is_real(node) else mode.refused(self.store)
            return ProbeResult(CLOSED, refused) if refused and found.stage in REACH else found
        fault = self.store.take_fault(
            node.handle.provider, NODE_LOOK, (node.region, node.zone), (node.machine_type,)
        )
        if fault is not None and fault.kind == "port-closed":
            return ProbeResult(CLOSED, f"planned by the rehearsal's scenario, on {node.name}")
        line = self.stand_in(node)
        status = line.folder / "start-up"
        status.unlink(missing_ok=True)
        if fault is not None and fault.kind == "start-up-failed":
            private_folder(status.parent)
            private(status).write_text(f"{fault.settings.get('code', 1)}\n", encoding="ascii")
        wrong = line.remembered(
            fault.settings if fault is not None and fault.kind == "wrong-gpus" else None
        )
        known = tuple(each for each in (node.internal_ip, node.external_ip) if each)
        line.furnish(
            *_shown(wrong, placed.placement),
            driver_answers=fault is None or fault.kind != "no-driver",
            addresses=known,
        )
        return driver.look(
            *await finished(line.command(f"exec sh -c {shlex.quote(driver.QUERY)}")),
            placed.placement,
        )


def end(folder: Path) -> None:
    """Ends every process that was started in a stand-in below this folder, one that was left in the
    background too: its machine is gone.

    They are known by their home, which they have from `StandIn`. Reads /proc, or asks `ps`; sends
    signals.
    """
    for _ in range(_ROUNDS):
        found = _at_home_below(folder)
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _at_home_below(folder: Path) -> list[int]:
    """The processes of this user whose HOME is a folder below this one, without this process."""
    if not folder.is_dir():
        return []
    mark = b"HOME=" + os.fsencode(folder) + b"/"
    found = []
    for pid, words in _environments():
        if pid != os.getpid() and any(word.startswith(mark) for word in words):
            found.append(pid)
    return found


def _environments() -> Iterator[tuple[int, Iterable[bytes]]]:
    """(id, its environment's words) of every process that this user may look into."""
    if (PROC / "self" / "environ").exists():
        for place in PROC.iterdir():
            if place.name.isdigit():
                with suppress(OSError):
                    yield int(place.name), (place / "environ").read_bytes().split(b"\0")
        return
    listed = subprocess.run(
        ["ps", "axeww", "-o", "pid=,command="],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    for line in listed.stdout.splitlines():
        number, _, rest = line.strip().partition(b" ")
        # Blanks in a value look like the next word: the beginning of HOME is compared, as far as it
        # goes.
        yield int(number), [b"HOME=" + rest.partition(b" HOME=")[2]]


def _shown(wrong: Mapping[str, object] | None, placed: Placement) -> tuple[str, int, int]:
    """(name, MiB, count) that the stand-in's driver reports: what was ordered, or what is planned
    instead (one fewer, where nothing else is said).
    """
    name, mib, count = (*shown(placed.gpu_type), placed.gpu_count)
    if wrong is not None and not wrong:
        if count > 1:
            count -= 1
        else:
            # One fewer would be none, which reads as a driver that is still to come.
            name, mib = next(card for card in _OTHERS if card[0].split()[-1] != placed.gpu_type)
    planned = wrong or {}
    return (
        str(planned.get("name", name)),
        int(str(planned.get("mib", mib))),
        int(str(planned.get("count", count))),
    )
