"""The plain twin of what is async: one background loop for the process, and Machine. Owns what an
interrupt at the keyboard means.

The first Ctrl-C ends what is under way in order, and what was half bought is released; nothing is
left running unseen.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from providers.errors import GpusError

if TYPE_CHECKING:
    import os
    from collections.abc import Coroutine, Iterator, Sequence
    from pathlib import Path

    from providers.adhoc.machine import AsyncMachine
    from providers.engine.record import ClusterRecord
    from providers.remote.rsync import There

T = TypeVar("T")


class Portal:
    """A loop in a thread of its own, so that it works inside notebooks, where another loop already
    runs.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="gpus-adhoc", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T], *, interrupted: str = "", persists: str = "") -> T:
        """The result of the work. Ctrl-C cancels it and waits until it has ended in order; then
        KeyboardInterrupt goes on.

        `interrupted` is said at that moment. With `persists` the first Ctrl-C only says that, and
        the work goes on to its end; the second leaves it.
        """
        done: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def finish(task: asyncio.Task[T]) -> None:
            if task.cancelled():
                done.cancel()
            elif (error := task.exception()) is not None:
                done.set_exception(error)
            else:
                done.set_result(task.result())

        def start() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(finish)

        self._loop.call_soon_threadsafe(start)
        presses = heeded = 0
        why: tuple[Any, ...] = ()
        while True:
            try:
                # In here, not below: a second Ctrl-C on the heels of the first must not fall
                # between it and what it means.
                if presses > heeded:
                    heeded = presses
                    if not persists and presses == 1:
                        self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())
                    text = (
                        persists
                        if persists
                        else (
                            interrupted
                            if presses == 1
                            else "still ending it in order; once more leaves it as it is"
                        )
                    )
                    if text:
                        say(text)
                return _outcome(done, why, interrupted=presses > 0)
            except KeyboardInterrupt as interrupt:
                if not presses:
                    why = interrupt.args  # the signal's number, where it was not Ctrl-C
                presses += 1
                if done.done() or presses > (1 if persists else 2):
                    raise


def _outcome(done: Future[T], why: tuple[Any, ...], *, interrupted: bool) -> T:
    """What the work came to. An interrupt goes on once the work has ended in order; what failed in
    that end matters more.
    """
    try:
        result = done.result()
    except CancelledError:
        if interrupted:
            raise KeyboardInterrupt(*why) from None
        raise
    except GpusError as error:
        # Its message says everything; the dozen frames of the loop's thread would only push what
        # the user wrote off the screen.
        raise error.with_traceback(None)  # noqa: B904 - what caused it stays with it
    if interrupted:
        raise KeyboardInterrupt(*why)
    return result


def say(text: str) -> None:
    """Prints a line to stderr, if anybody reads it."""
    import contextlib
    import sys

    from providers.model.screen import told

    # What is under way goes on to its end, whether or not anybody reads.
    with contextlib.suppress(OSError, ValueError):
        print(told(text, sys.stderr), file=sys.stderr, flush=True)


_portals: list[Portal] = []
_lock = threading.Lock()


def portal() -> Portal:
    """The process's one loop."""
    with _lock:
        if not _portals:
            _portals.append(Portal())
        return _portals[0]


class Machine:
    """What was provisioned, for plain code. Methods are those of AsyncMachine, and block.

    `node` is the number of the machine, where a cluster has several.
    """

    def __init__(self, inner: AsyncMachine) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return repr(self.inner)

    def _repr_html_(self) -> str:
        from providers.model.html import table

        price = self.price_usd_per_hour
        fields = {
            "where": self.where,
            "GPU": f"{self.record.placement.times}{self.gpu}",
            "price": "no price" if price is None else f"${price:,.4f}/h",
            "status": f"{self.status} ({self.world})",
            "ssh": self.ssh,
        }
        return table(("field", "value"), fields.items(), title=f"cluster {self.name}", note="")

    @property
    def record(self) -> ClusterRecord:
        """The full record: place, price, attempts, machines."""
        return self.inner.record

    @property
    def name(self) -> str:
        """The name that `find` and `release` know it by."""
        return self.inner.name

    @property
    def world(self) -> str:
        """`rehearsal` or `live`."""
        return self.inner.world

    @property
    def status(self) -> str:
        """As last seen: `running`, or one of the other statuses of a cluster."""
        return self.inner.status

    @property
    def process(self) -> int | None:
        """The id of the process that uses it, None if nobody does. Of what `find` found."""
        return self.inner.process

    @property
    def where(self) -> str:
        """`gcp us-central1-a`."""
        return self.inner.where

    @property
    def gpu(self) -> str:
        """`H100:8`, per machine."""
        return self.inner.gpu

    @property
    def price_usd_per_hour(self) -> float | None:
        """All machines together, at launch; None when no source had a price."""
        return self.inner.price_usd_per_hour

    @property
    def ssh(self) -> str:
        """The line that logs you in to the first machine."""
        return self.inner.ssh

    def run(self, command: str | Sequence[str], *, check: bool = False, node: int = 0) -> int:
        """The command's exit code; what it writes appears as it comes. A string is a line for the
        shell there, a list is taken word by word.

        Raises GpusError when the machine is taken back or cannot be reached meanwhile, and with
        `check` when the code is not 0.
        """
        return portal().run(self.inner.run(command, check=check, node=node))

    def put(
        self, local: str | os.PathLike[str], remote: str | None = None, *, node: int = 0
    ) -> str:
        """Copies a file or folder there; its path there. Without `remote` it keeps its name, in the
        home folder. Raises GpusError.
        """
        return portal().run(self.inner.put(local, remote, node=node))

    def send(self, digest: str, there: There) -> None:
        """Makes a folder on every machine what the one of that digest is here. Raises GpusError."""
        portal().run(self.inner.send(digest, there))

    def get(
        self,
        remote: str,
        local: str | os.PathLike[str] | None = None,
        *,
        node: int = 0,
        max_size: int | None = None,
        max_files: int | None = None,
    ) -> Path:
        """Copies a file or folder from there; its path here. Without `local` it keeps its name, in
        this folder. Raises GpusError.
        """
        return portal().run(
            self.inner.get(remote, local, node=node, max_size=max_size, max_files=max_files)
        )

    @contextmanager
    def forward(self, port: int, local: int | None = None, *, node: int = 0) -> Iterator[int]:
        """A port of the machine's loopback, here: the port on 127.0.0.1 that reaches it, for as
        long as the block runs.
        """
        opened = self.inner.forward(port, local, node=node)
        here = portal().run(_entered(opened))
        try:
            yield here
        finally:
            portal().run(_left(opened))

    def release(self) -> None:
        """Gives it back and confirms it; again is fine. Raises HalfMade naming what may still cost
        money and how to try again.
        """
        portal().run(self.inner.release(), persists=_persists(self.name, self.world))

    def keep(self) -> None:
        """Leaves it running: the name can be used by another process from now on. Its ttl still
        ends it.
        """
        self.inner.keep()

    def close(self) -> None:
        """Lets go of this process's files and threads; the machine stays as it is."""
        self.inner.close()


def _persists(name: str, world: str) -> str:
    return (
        f"{name}: still releasing it; Ctrl-C once more leaves it, then: gpus release {name} --world"
        f" {world}"
    )


async def _entered(context: Any) -> Any:
    return await context.__aenter__()


async def _left(context: Any) -> None:
    # What went wrong in the block is the caller's to see: an interrupt raised inside the loop would
    # end the loop.
    await context.__aexit__(None, None, None)
