"""The folder of a declaration's `workdir`, onto its machines. Owns which it is by its digest, where
it lands, and that all machines get it at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from providers.errors import GpusError
from providers.model.regular import size
from providers.model.workload import WORKDIR
from providers.remote.rsync import NotSendable, There, sent
from providers.remote.tree import known

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.model.machine import Node
    from providers.remote.line import Line

_INSTALL_S = 300
"""How long a start-up script may take to install rsync."""
_LOOK_S = 0.5


def beside(script: str) -> There:
    """Where a start-up script looks for it. One that runs at boot installs rsync; without one,
    inside a container, the sender does.
    """
    return There(WORKDIR, as_root=True, wait_s=_INSTALL_S if script else 0)


async def send(
    world: World,
    cluster: str,
    digest: str,
    nodes: Sequence[Node],
    line_to: Callable[[Node], Line | None],
    there: There,
    stop: StopSignal | None = None,
) -> bool:
    """Makes the folder on each machine what it is here; False where it was stopped meanwhile.

    Raises NotSendable where it is this machine that cannot send it, GpusError where one of the
    others cannot be reached; the next call goes on with what has arrived.
    """
    tree = known(digest)
    if tree is None or not tree.root.is_dir():
        found = "this machine does not know it" if tree is None else f"no folder at {tree.root}"
        raise NotSendable(f"wanted the folder of workdir, found that {found}; run it again")
    told = f"{len(tree.files):,} files, {size(tree.size)}, to {_machines(len(nodes))}"
    world.report("info", f"{cluster}: sends what differs of {tree.root} ({told})")

    async def one(node: Node) -> None:
        line = line_to(node)
        if line is None:
            raise GpusError("no address")
        await sent(line, tree, there)

    sending = asyncio.gather(*(one(node) for node in nodes), return_exceptions=True)
    try:
        while not sending.done():
            await asyncio.wait({sending}, timeout=_LOOK_S)
            if stop is not None and stop.on:
                return False
    finally:
        sending.cancel()
        await asyncio.wait({sending})
    failed = [
        (node, error)
        for node, error in zip(nodes, sending.result(), strict=True)
        if error is not None
    ]
    for node, error in sorted(failed, key=lambda each: not isinstance(each[1], NotSendable)):
        if not isinstance(error, GpusError):
            raise error
        kind = NotSendable if isinstance(error, NotSendable) else GpusError
        raise kind(f"wanted to send {tree.root} to {node.name}, found {error}") from None
    return True


def _machines(count: int) -> str:
    return f"{count} machines" if count > 1 else "1 machine"
