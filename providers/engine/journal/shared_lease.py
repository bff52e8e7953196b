"""Which run has a cluster, for all homes that share a Pulumi backend: fencing tokens in files
beside the states.

The journal's lease keeps the processes of one home apart, and Pulumi's lock the runs of one stack.
Once somebody cancels that lock, the run that had it may still be there: asleep with its laptop,
with a creating call on its way. Here the later run always takes over, without waiting for anybody.
The earlier one sees that before it creates, and before it answers.

A run that takes a cluster makes the next file of `.gpus/WORLD/OWNER/CLUSTER/N.json`, which nobody
else can make as well; the highest N has the cluster. No lock is held, so a process that sleeps or
dies is in nobody's way. The file also names the machines that its run has: all that another home
can know of them where a cloud has no labels.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.engine.journal import backend
from providers.engine.journal import process as leases
from providers.errors import GpusError, TakenOver, printable
from providers.model.machine import Handle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FOLDER = ".gpus"
KEPT = 20
"""How many previous holders are remembered, for a run that wakes up."""
_SUFFIX = ".json"


class Run(NamedTuple):
    """One run of the CLI: every plugin process of it is a child of that one."""

    host: str
    pid: int
    started: str
    boot: str

    def __str__(self) -> str:
        return printable(f"a run on {self.host} (process {self.pid})")


class Taken(NamedTuple):
    """One file: who took the cluster as the `number`th, when (seconds since the epoch), and the
    machines that it has; until it knows, those of the one before.
    """

    number: int
    run: Run | None
    at: float = 0.0
    generation: str = ""
    fingerprint: str = ""
    handles: tuple[Handle, ...] = ()

    @property
    def by(self) -> str:
        """For messages."""
        since = (
            f" since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(self.at))}"
            if self.at
            else ""
        )
        return f"{self.run or 'another run'}{since}"


class SharedLeases:
    """The leases of one backend, as one run of the CLI takes them."""

    def __init__(self, folder: Path, run: Run) -> None:
        self._folder, self._run = folder, run

    def take(self, world: str, owner: str, cluster: str, generation: str) -> SharedLease:
        """Makes this run the holder. Raises TakenOver if another run took the cluster since this
        one had it, GpusError if it can't be written.
        """
        lease = self._of(world, owner, cluster)
        lease.take(generation)
        return lease

    def check(self, world: str, owner: str) -> None:
        """Raises TakenOver if another run has taken any cluster of the owner since
        this one had it.
        """
        for cluster in self.clusters(world, owner):
            self._of(world, owner, cluster).check()

    def last(self, world: str, owner: str, cluster: str) -> Taken | None:
        """The last holder, which may have ended long ago; None if there was none."""
        return self._of(world, owner, cluster).last()

    def is_at_work(self, world: str, owner: str, cluster: str) -> bool:
        """Whether the last holder is another run of this machine that still lives. Of a run
        elsewhere nothing is known.
        """
        last = self.last(world, owner, cluster)
        run = last.run if last is not None else None
        return (
            run is not None
            and run != self._run
            and run.host == self._run.host
            and leases.alive(leases.Process(*run[1:]))
        )

    def clusters(self, world: str, owner: str) -> tuple[str, ...]:
        """The clusters of the owner that any run of this backend has ever had."""
        with suppress(OSError):
            return tuple(sorted(place.name for place in (self._folder / world / owner).iterdir()))
        return ()

    def forget(self, world: str, owner: str) -> None:
        """Everything of the owner is gone, confirmed. A run that had a cluster of it and wakes has
        lost it.
        """
        shutil.rmtree(self._folder / world / owner, ignore_errors=True)

    def _of(self, world: str, owner: str, cluster: str) -> SharedLease:
        return SharedLease(self._folder, (world, owner, cluster), self._run)


class SharedLease:
    """One cluster's lease."""

    def __init__(self, root: Path, whose: tuple[str, str, str], run: Run) -> None:
        self._root, self._whose, self._run = root, whose, run
        self._folder, self._name = root.joinpath(*whose), whose[-1]
        self._mine, self._generation = 0, ""

    def take(self, generation: str) -> None:
        """See `SharedLeases.take`."""
        self._generation = generation
        try:
            for depth in range(len(self._whose) + 1):
                self._root.joinpath(*self._whose[:depth]).mkdir(mode=0o700, exist_ok=True)
            while True:
                self.check()
                last = self.last() or Taken(0, None)
                number = last.number + 1
                try:
                    self._write(self._file(number), last.handles, last.fingerprint)
                except FileExistsError:
                    continue
                break
            self._mine = number
            _synced(self._folder)
            for old in self._numbers():
                if old <= number - KEPT:
                    self._file(old).unlink(missing_ok=True)
        except OSError as error:
            raise GpusError(
                f"{self._name}: wanted to write down in the backend that this run has it, found"
                f" {error}; make {self._folder} writable"
            ) from error

    def check(self) -> None:
        """Raises TakenOver if another run took it after this one did."""
        every = [self._read(number) for number in sorted(self._numbers())]
        mine = [taken.number for taken in every if taken.run == self._run]
        if mine and every[-1].number > mine[-1]:
            raise TakenOver(
                f"{self._name}: taken over elsewhere: {every[-1].by} has it; nothing is done; run"
                " `pulumi up` again"
            )

    @property
    def lost(self) -> bool:
        """True once another run has it, or has destroyed all there was. A folder that cannot be
        read says nothing.
        """
        try:
            return max(self._numbers(), default=0) != self._mine
        except OSError:
            return False

    def last(self) -> Taken | None:
        """Who has it now."""
        with suppress(OSError):
            number = max(self._numbers(), default=0)
            return self._read(number) if number else None
        return None

    def note(self, handles: Sequence[Handle], fingerprint: str) -> None:
        """Records which machines the cluster has, to help the next run. Never fails: the machines
        exist already.
        """
        if self.lost:
            return
        with suppress(OSError):
            draft = self._folder / f"{self._mine}.new"
            draft.unlink(missing_ok=True)
            self._write(draft, handles, fingerprint)
            draft.replace(self._file(self._mine))
            _synced(self._folder)

    def _file(self, number: int) -> Path:
        return self._folder / f"{number}{_SUFFIX}"

    def _numbers(self) -> list[int]:
        try:
            names = [file.name for file in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        return [
            int(stem)
            for name in names
            if name.endswith(_SUFFIX) and (stem := name.removesuffix(_SUFFIX)).isdigit()
        ]

    def _read(self, number: int) -> Taken:
        """What a file says; one that was cut short still says that somebody took it."""
        try:
            fields: dict[str, Any] = json.loads(self._file(number).read_text(encoding="utf-8"))
            handles = tuple(
                Handle(str(provider), str(native)) for provider, native in fields["handles"]
            )
            return Taken(
                number,
                Run(*fields["run"]),
                float(fields["at"]),
                str(fields["generation"]),
                str(fields["fingerprint"]),
                handles,
            )
        except (OSError, ValueError, KeyError, TypeError):
            return Taken(number, None)

    def _write(self, file: Path, handles: Sequence[Handle], fingerprint: str) -> None:
        """Makes the file. Raises FileExistsError where it is there."""
        fields = {
            "run": self._run,
            "at": round(time.time(), 3),
            "generation": self._generation,
            "fingerprint": fingerprint,
            "handles": [list(handle) for handle in handles],
        }
        with os.fdopen(
            os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8"
        ) as out:
            json.dump(fields, out)
            out.flush()
            os.fsync(out.fileno())


def of_backend() -> SharedLeases | None:
    """The leases of the `file://` backend that this plugin's CLI works with; None for any other,
    where nothing can be written beside the states.
    """
    folder = backend.folder()
    parent = leases.of(os.getppid())
    return (
        None
        if folder is None
        else SharedLeases(folder / FOLDER, Run(socket.gethostname(), *parent))
    )


def _synced(folder: Path) -> None:
    """The folder's own entries are on the disk."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
