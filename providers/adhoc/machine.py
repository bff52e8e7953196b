"""A handle to a running machine, or to a cluster of several: commands, files, ports, release. Owns
AsyncMachine; `sync` has its blocking version.
"""

from __future__ import annotations

import asyncio
import shlex
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from providers.adapters.registry import is_real
from providers.engine.readiness.acceptance import fabric_of, measured, measured_between
from providers.engine.record import HEALTHY
from providers.engine.runtime.accounts import home_of
from providers.engine.runtime.tasks import pause
from providers.errors import CloudError, GpusError
from providers.model.machine import GONE, PREEMPTED, RUNNING, Setup
from providers.model.money import per_hour, usd
from providers.rehearsal.node import LABEL, StandInProbe
from providers.remote import files
from providers.remote.run import started, streamed
from providers.remote.ssh import CONNECT_S, FAILED, SshProbe
from providers.remote.unpack import Limits

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from providers.adapters.guard import Cloud
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.fabric import Fabric
    from providers.model.machine import Node
    from providers.remote.line import Line
    from providers.remote.probe import Probe
    from providers.remote.rsync import There

T = TypeVar("T")

WATCH_S = 10.0
"""How often the cloud is asked, while a command runs, whether the machine is still there."""
_OPEN_S = 0.1


class AsyncMachine:
    """What was provisioned. Methods take `node`, the number of the machine, where a cluster has
    several.

    `record` is the full record: place, price, attempts. `process` is the id of the process that
    uses it, None if nobody does. `stack` is the one that declares it, empty for what is ad hoc;
    `barred` says why it cannot be logged into from here.
    """

    def __init__(
        self,
        world: World,
        record: ClusterRecord,
        probe: Probe | None,
        let_go: Callable[[], Awaitable[bool]],
        *,
        holder: tuple[str, str] | None = None,
        process: int | None = None,
        stack: str = "",
        barred: str = "",
    ) -> None:
        self._world, self.record, self._probe, self._let_go, self._holder = (
            world,
            record,
            probe,
            let_go,
            holder,
        )
        self.process, self.stack, self._barred = process, stack, barred
        self.released = False

    def __repr__(self) -> str:
        return (
            f"<{self.name}: {self.where} {self.gpu} {self.record.placement.capacity} {self.status}"
            f" ({self.world})>"
        )

    @property
    def name(self) -> str:
        """The name that `find` and `release` know it by."""
        return self.record.cluster

    @property
    def barred(self) -> str:
        """Why it cannot be logged into from here; empty where it can."""
        return self._barred

    @property
    def probe(self) -> Probe | None:
        """What leads into its machines from here; None where nothing does."""
        return self._probe

    @property
    def world(self) -> str:
        """`rehearsal` or `live`."""
        return self.record.world

    @property
    def opened(self) -> World:
        """The world that it is in, open."""
        return self._world

    @property
    def status(self) -> str:
        """As last seen: `running`, or one of the other statuses of a cluster."""
        return self.record.status

    @property
    def where(self) -> str:
        """`gcp us-central1-a`."""
        return f"{self.record.provider} {self.record.placement.where}".strip()

    @property
    def gpu(self) -> str:
        """`H100:8`, per machine."""
        return self.record.placement.gpu if self.record.placement.gpu_type else ""

    @property
    def price_usd_per_hour(self) -> float | None:
        """All machines together, at launch; None when no source had a price."""
        micro_usd = self.record.price.micro_usd
        return None if micro_usd is None else usd(micro_usd)

    @property
    def ssh(self) -> str:
        """The line that logs you in to the first machine."""
        return self._line(0).shown

    @property
    def ends_itself(self) -> bool:
        """True when it ends at its ttl, by its cloud or by a timer of its own; else only a release
        ends it.
        """
        manifest = self._world.manifests.get(self.record.provider)
        return bool(self.record.ends_at) and (manifest is None or manifest.capabilities.ends_at_ttl)

    async def adapter(self) -> Cloud:
        """The adapter of the account that it was bought in. Raises NotConfigured."""
        return await home_of(self._world, self.record)

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a blocking call of its cloud, made in the world's own threads."""
        return await self._world.call(self.record.provider, function, *arguments)

    def line(self, node: int = 0) -> Line:
        """The line to a machine. Raises GpusError when there is none from here."""
        return self._line(node)

    async def run(self, command: str | Sequence[str], *, check: bool = False, node: int = 0) -> int:
        """The command's exit code; what it writes appears as it comes. A string is a line for the
        shell there, a list is taken word by word.

        Raises GpusError when the machine is taken back or cannot be reached meanwhile, and with
        `check` when the code is not 0.
        """
        text = command if isinstance(command, str) else shlex.join(command)
        line = self._line(node)
        work = asyncio.ensure_future(streamed(line.command(text)))
        watch = asyncio.ensure_future(self._taken(node))
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise GpusError(f"{self.name}: {watch.result()} while the command ran: {text}")
            code = work.result()
        finally:
            for task in (work, watch):
                task.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)
        if code == FAILED and not line.stand_in:
            await self._reachable(node, text)
        if check and code != 0:
            raise GpusError(f"{self.name}: the command ended with {code}: {text}")
        return code

    async def measured(self, mode: str, node: int = 0) -> Mapping[str, Any]:
        """What a machine measures of its GPUs, for `acceptance.judge`; they must be idle. Raises
        GpusError where no answer comes.
        """
        self._line(node)  # says why there is no way in
        return await measured(self._probe, self._node(node), mode)

    async def measured_between(
        self, mode: str
    ) -> tuple[Sequence[Mapping[str, Any]], Fabric | None]:
        """What all of its machines measure together of what is between them, and what their plan
        promised there, for `acceptance.between.judge`. Raises GpusError where no answer comes.
        """
        nodes = [self._node(number) for number in range(len(self.record.machines))]
        self._line(0)  # says why there is no way in
        fabric = fabric_of(self._world, self.record.placement, self._setup())
        return await measured_between([self._probe] * len(nodes), nodes, mode, fabric), fabric

    def _setup(self) -> Setup:
        """The setup that it was ordered with; the usual one where this machine did not order it."""
        entries = self._world.journal.orders(
            self._world.name, self.record.owner, self.record.cluster
        )
        known = {*self.record.handles}
        return next((each.order.setup for each in entries if known & {*each.handles}), Setup())

    async def put(
        self, local: str | os.PathLike[str], remote: str | None = None, *, node: int = 0
    ) -> str:
        """Copies a file or folder there; its path there. Without `remote` it keeps its name, in the
        home folder. Raises GpusError.
        """
        return await files.put(self._line(node), local, remote)

    async def send(self, digest: str, there: There) -> None:
        """Makes a folder on every machine what the one of that digest is here. Raises GpusError."""
        from providers.engine.readiness import folder

        numbers = {node.name: index for index, node in enumerate(self.record.machines)}
        await folder.send(
            self._world,
            self.name,
            digest,
            self.record.machines,
            lambda node: self._line(numbers[node.name]),
            there=there,
        )

    async def get(
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

        At most `max_size` bytes (10 GiB) in `max_files` files and folders (100,000) are taken: the
        machine may be a stranger's.
        """
        limits = Limits()
        return await files.get(
            self._line(node),
            remote,
            local,
            Limits(max_size or limits.size, max_files or limits.files),
        )

    @asynccontextmanager
    async def forward(
        self, port: int, local: int | None = None, *, node: int = 0
    ) -> AsyncIterator[int]:
        """A port of the machine's loopback, here: the port on 127.0.0.1 that reaches it, for as
        long as the block runs.

        Without `local` it is the same number if that is free here, else any. In a rehearsal the
        stand-in's ports are this machine's own.
        """
        line = self._line(node)
        if line.stand_in:
            if local in {None, port}:
                yield port
                return
            relay = await asyncio.start_server(
                lambda reader, writer: _relay(reader, writer, port), "127.0.0.1", local
            )
            async with relay:
                yield int(relay.sockets[0].getsockname()[1])
            return
        here = free_port(port, 0) if local is None else free_port(local)
        launch = line.tunnel(here, port)
        assert launch is not None
        async with started(launch) as tunnel:
            assert tunnel.stderr is not None
            until = asyncio.get_running_loop().time() + CONNECT_S + 5
            while tunnel.returncode is None and not await _answers(here):
                if asyncio.get_running_loop().time() > until:
                    raise GpusError(
                        f"{self.name}: wanted port {port} of it at 127.0.0.1:{here}, found that the"
                        " tunnel did not open in time"
                    )
                await asyncio.sleep(_OPEN_S)
            if tunnel.returncode is not None:
                why = (await tunnel.stderr.read()).decode(errors="replace").strip()
                raise GpusError(
                    f"{self.name}: wanted port {port} of it at 127.0.0.1:{here}, found"
                    f" {why or tunnel.returncode}"
                )
            yield here

    async def release(self) -> None:
        """Gives it back and confirms it; again is fine. Raises HalfMade naming what may still cost
        money and how to try again.
        """
        if self.released:
            return
        try:
            await self._let_go()
        finally:
            self._unused()
        self.released = True
        self._world.report("info", f"{self.name}: released, confirmed{self._cost()}")

    def keep(self) -> None:
        """Leaves it running: the name can be used by another process from now on. Its ttl still
        ends it.
        """
        self._unused()

    def report(self, severity: str, text: str) -> None:
        """Reports a line to its world."""
        self._world.report(severity, text)

    def close(self) -> None:
        """Lets go of this process's files and threads; the machine stays as it is."""
        self._world.close()

    def _unused(self) -> None:
        if self._holder is not None:
            owner, holder = self._holder
            # The lease ends with this process anyway.
            with suppress(GpusError):
                self._world.journal.drop(self.world, owner, self.name, holder)
            self._holder = None

    def _cost(self) -> str:
        seconds = self._world.clock.now() - self.record.launched_at
        if not self.record.launched_at or seconds < 0:
            return ""
        hours = seconds / 3_600
        said = f"; it ran {seconds / 60:.0f} min"
        record = self.record
        if not is_real(record.provider, record.world, dict(record.account or ())):
            return f"{said}, a rehearsal costs nothing"
        price = record.price
        if price.micro_usd is None:
            return f"{said}, at a price that is not known"
        return (
            f"{said}, about ${price.micro_usd / 1e6 * hours:,.2f} at"
            f" {per_hour(price.micro_usd)} ({price.as_of or 'no date'})"
        )

    def _node(self, number: int) -> Node:
        machines = self.record.machines
        if self.released:
            raise GpusError(f"{self.name}: it was released")
        if not 0 <= number < len(machines):
            raise GpusError(
                f"{self.name}: wanted the number of one of its {len(machines)} machines, from 0,"
                f" found {number}"
            )
        return machines[number]

    def _line(self, number: int) -> Line:
        node = self._node(number)
        if not isinstance(self._probe, SshProbe | StandInProbe):
            if self._barred:
                raise GpusError(
                    f"{self.name}: wanted to log in from here, found that"
                    f" {self._barred}{self._other_way(node)}"
                )
            raise GpusError(
                f"{self.name}: wanted its ssh key on this machine, found none; it was bought from"
                " another one, or by another user"
            )
        line = self._probe.line(node)
        if line is None:
            raise GpusError(
                f"{self.name}: wanted an address of {node.name}, found none yet; its cloud says"
                f" {node.status}"
            )
        return line

    def _other_way(self, node: Node) -> str:
        """How else it may be logged into, as far as is known."""
        if node.status not in HEALTHY:
            return ""
        if node.login:
            return f"; its cloud's own way is: {node.login}"
        return (
            f"; `pulumi stack output -s {self.stack}` shows the line that logs in"
            if self.stack
            else ""
        )

    async def _taken(self, number: int) -> str:
        """Says so once the cloud says that the machine runs no more, or its ttl has passed."""
        handle = self._node(number).handle
        while True:
            await pause(self._world, WATCH_S)
            if (
                self.record.ends_at
                and not self.ends_itself
                and self._world.clock.now() >= self.record.ends_at
            ):
                # Where no cloud keeps the ttl, this process does.
                return "has reached its ttl"
            try:
                adapter = await self.adapter()
                node = (await self._world.call(handle.provider, adapter.observe, (handle,)))[0]
            except CloudError:
                continue
            if node.status not in HEALTHY:
                what = (
                    "was taken back"
                    if node.status == PREEMPTED
                    else "is gone"
                    if node.status == GONE
                    else f"is {node.status}"
                )
                return f"{node.name or handle.native_id} {what}"

    async def _reachable(self, number: int, text: str) -> None:
        """255 is ssh's own failure, or the command's: a look at the machine tells. Raises GpusError
        when it cannot be reached.
        """
        node = self._node(number)
        if self._probe is not None:
            found = await self._probe(node._replace(status=RUNNING), self.record)
            if found.stage in {"port-closed", "no-login", "no-address"}:
                raise GpusError(
                    f"{self.name}: the connection to {node.name} was lost ({found}); the command"
                    f" may still run there: {text}"
                )


def described(machine: AsyncMachine) -> str:
    """What was launched, in a line:
    `bench: gcp us-central1-a H100:1 spot $3.10/h, ends by itself ...`.
    """
    place, micro_usd = machine.record.placement, machine.record.price.micro_usd
    probe = machine._probe  # noqa: SLF001 - the same module
    played = isinstance(probe, StandInProbe) and not any(
        map(probe.is_real, machine.record.machines)
    )
    label = f" [{LABEL}: no GPU, no cost]" if played else ""
    price = per_hour(micro_usd) if micro_usd is not None else "at an unknown price"
    gpus = f"{place.times}{machine.gpu}"
    return f"{machine.name}: {machine.where} {gpus} {place.capacity} {price}{label}"


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def free_port(*wanted: int) -> int:
    """The first of these ports that is free on 127.0.0.1; 0 is any.
    Raises GpusError when none is.
    """
    for port in wanted:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise GpusError(f"wanted 127.0.0.1:{wanted[0]} to be free, found that something listens there")


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await source.read(65_536):
                target.write(chunk)
                await target.drain()
            target.write_eof()

    try:
        there, back = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(copy(reader, back), copy(there, writer))
    for end in (writer, back):
        end.close()
