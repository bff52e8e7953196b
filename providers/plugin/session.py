"""What one plugin process keeps for all its resources: open worlds, work under way, claimed
machines, budgets, and the log lines to the Pulumi engine.

Owns that work which changes a cloud outlives its cancelled call, and which machines a state was
observed to name. Knows no request of the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from providers.errors import GpusError
from providers.model.stack import argument
from providers.plugin import budget
from providers.plugin.siblings import Siblings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from providers.engine.journal.shared_lease import SharedLeases
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle

READ_LIMIT_S = 18.0
"""How long a refresh waits for one resource, whatever the call hangs on: its clouds have
`engine.runtime.deadlines`. All resources are read side by side.
"""
_LOG_LIMIT_S = 5.0
_urn: ContextVar[str] = ContextVar("urn", default="")
"""The resource that the present task works for."""

T = TypeVar("T")


class Session:
    """One plugin process. `engine` is the address of the Pulumi engine, for log lines; empty for
    none. `share` finds the leases of its backend.
    """

    def __init__(
        self, engine: str = "", share: Callable[[], SharedLeases | None] = lambda: None
    ) -> None:
        self.engine = engine
        self.program: dict[str, Any] = {}
        """The whole program's clusters by name, where it sent them before it registered any."""
        self.declared: set[str] = set()
        """The names of the program's clusters, as far as they are known."""
        self.budgets = budget.Budgets()
        self.begun, self.shown = Siblings(), Siblings()
        """The clusters whose last step is under way, and those whose plan was shown."""
        self.claims_lock = asyncio.Lock()
        self._share = share
        self._stub: Any = None
        self._worlds: dict[tuple[str, str], World] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._claimed: dict[tuple[str, str, str], tuple[Handle, ...]] = {}
        """(world, owner, generation) -> the machines that a state was observed to name in this
        process.
        """

    def stop(self) -> None:
        """Requests the stop of all work under way. Also called at each normal end: then nothing is
        under way and this changes nothing.
        """
        for world in self._worlds.values():
            world.stop.set()

    async def settled(self) -> None:
        """Returns once nothing is under way any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        for world in self._worlds.values():
            world.close()

    async def in_world(
        self, urn: str, name: str, values: Mapping[str, Any], work: Callable[[World], Awaitable[T]]
    ) -> T:
        """The work's result, in a world whose log lines go to the resource.

        A world stays open for the process's life and serves all its resources: connecting to a
        cloud costs half a second.
        """
        from providers.engine.runtime.world import open_world
        from providers.plugin.inputs import settings_of

        settings = settings_of(values)
        key = (name, repr(sorted(settings.items())))
        if key not in self._worlds:
            self._worlds[key] = open_world(
                name,
                settings,
                lambda severity, text: self.log(severity, _urn.get(), text),
                share=self._share,
            )
        token = _urn.set(urn)
        try:
            return await work(self._worlds[key])
        finally:
            _urn.reset(token)

    async def under_way(
        self,
        urn: str,
        values: Mapping[str, Any],
        work: Callable[[World], Awaitable[T]],
        *,
        world: str = "",
    ) -> T:
        """The result of work that changes a cloud: in its own task, which goes on until it is
        settled when the call is cancelled.
        """
        task = self._keep(self.in_world(urn, world or str(values["world"]), values, work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The engine of this product then starts no further attempt, and releases what was
            # created meanwhile: no state will ever name it.
            task.cancel()
            raise
        except Exception:
            await self.begun.others(str(values.get("cluster")), self.declared)
            raise

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # After a cancelled call nobody waits for the result: an error there is in the journal, not
        # on the screen.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def claim(self, record: ClusterRecord, values: Mapping[str, Any]) -> None:
        """Writes down, once a process, that a state names this generation and these machines:
        whatever else has the stack's labels is an orphan. Where money is counted, what it costs
        too: another machine may have bought it.
        """
        handles = (*record.handles, *record.leftovers)
        key = (record.world, record.owner, record.generation)
        if record.cluster and self._claimed.get(key) == handles:
            return

        async def work(world: World) -> None:
            if world.has_journal:
                async with self.claims_lock:
                    await asyncio.to_thread(
                        world.journal.claim,
                        record.world,
                        record.owner,
                        record.cluster,
                        record.generation,
                        handles,
                    )
                    if record.cluster:
                        self._claimed[key] = handles
            if record.cluster and budget.limit(values) is not None:
                await budget.remembered(world, record)

        # A journal that can't be written stops what buys; a refresh goes on without it.
        with contextlib.suppress(GpusError):
            opened = next(
                (world for (name, _), world in self._worlds.items() if name == record.world), None
            )
            await (
                work(opened)
                if opened is not None
                else self.in_world(_urn.get(), record.world, {}, work)
            )
            if record.cluster:
                self._claimed[key] = handles

    def claims_of(self, world: str, owner: str) -> dict[str, tuple[Handle, ...]]:
        """Generation -> the machines that a state was observed to name in this process."""
        return {
            generation: handles
            for (name, whose, generation), handles in self._claimed.items()
            if (name, whose) == (world, owner)
        }

    def log(self, severity: str, urn: str, text: str) -> None:
        """A line under the resource. Lost when the engine is gone; never in the way."""
        if not self.engine:
            return
        import grpc
        from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

        from providers.model.screen import screened
        from providers.plugin.preview import fitted

        if self._stub is None:
            self._stub = engine_pb2_grpc.EngineStub(grpc.insecure_channel(self.engine))
        levels = {"warning": engine_pb2.WARNING, "error": engine_pb2.ERROR}
        with contextlib.suppress(grpc.RpcError):
            # What is only under way shows beside the resource while it lasts, and is not kept among
            # the diagnostics.
            self._stub.Log(
                engine_pb2.LogRequest(
                    severity=levels.get(severity, engine_pb2.INFO),
                    message=fitted(screened(text)),
                    urn=urn,
                    ephemeral=severity == "progress",
                ),
                timeout=_LOG_LIMIT_S,
            )


async def in_time(read: Awaitable[T], world: str) -> T:
    """The result of a read in a world. Raises GpusError where no answer came in time: what is not
    known stays as it was.
    """
    from providers.engine.runtime import deadlines

    limit_s = READ_LIMIT_S * deadlines.patience(world)
    try:
        return await asyncio.wait_for(read, limit_s)
    except TimeoutError as error:
        todo = f"run it again: `gpus check {argument()}` says which provider does not answer"
        raise GpusError(f"no answer within {limit_s:.0f}s; {todo}") from error


def new_token() -> str:
    """Twelve random hex digits: short enough for a label, too many to meet twice."""
    import secrets

    return secrets.token_hex(6)
