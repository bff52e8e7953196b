"""`provision`, `aprovision`, `find`, `release`: the public functions. Owns their arguments, the
opening of worlds, and the lines that a user sees.
"""

from __future__ import annotations

import sys
import uuid
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, overload

from providers.adapters.registry import is_real
from providers.adhoc import access, patience, rentals
from providers.adhoc.machine import described
from providers.adhoc.sync import Machine, portal
from providers.engine.messages import moment
from providers.engine.runtime.deadlines import together
from providers.engine.runtime.world import open_world
from providers.errors import GpusError, Problem, SpecError
from providers.home import home
from providers.model.screen import told
from providers.model.wording import near
from providers.model.worlds import LIVE, REHEARSAL, WORLDS

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from providers.adhoc.machine import AsyncMachine
    from providers.adhoc.patience import Patience
    from providers.engine.runtime.world import World
    from providers.model.spec import Cluster, Fallback, Gpu
    from providers.model.spec_fields import Rank, Spot
    from providers.model.worlds import WorldName

    Settings = Mapping[str, Mapping[str, str]]
    Report = Callable[[str, str], None]

DEFAULT_TTL = "4h"


def provision(
    gpu: str | Gpu | Cluster | Sequence[str | Gpu | Fallback],
    *,
    name: str | None = None,
    fallback: Sequence[str | Fallback] | None = None,
    nodes: int | None = None,
    spot: Spot | None = None,
    capacity: Sequence[str] | None = None,
    providers: Sequence[str] | None = None,
    regions: Sequence[str] | None = None,
    marketplaces: bool | None = None,
    rank: Rank | None = None,
    max_price_per_hour: float | None = None,
    accept_suspect_prices: bool | None = None,
    wait: str | None = None,
    hedge: int | None = None,
    ttl: str | None = None,
    disk_gib: int | None = None,
    labels: Mapping[str, str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    ssh_key: str | os.PathLike[str] | None = None,
    keep: bool = False,
    within: str | None = None,
    notify: Sequence[str] = (),
    world: WorldName = REHEARSAL,
    settings: Settings | None = None,
    report: Report | None = None,
) -> AbstractContextManager[Machine]:
    """GPUs for the length of a `with`: acquired by the plan, ready to be worked on, released and
    confirmed however the block ends.

    `gpu` and the keywords up to `options` are the fields of a Cluster, or `gpu` is one. Without
    `ttl` the cloud itself ends the machine after four hours, whatever becomes of this process. The
    world is `rehearsal` unless `world="live"` says to buy. `ssh_key` is the file of your own
    private key; without it one is made for this cluster. `keep` leaves the machine running at the
    end. `within` looks for capacity that long where all is sold out, and `notify` says whom to tell
    how it ended (`env:NAME`, `file:PATH` or a webhook). `settings` is provider -> its configuration
    (`{"gcp": {"project": "my-project"}}`).
    `report(severity, text)` gets the lines that otherwise go to stderr.

    Raises SpecError, AllFailed, Busy, NotConfigured and other GpusErrors when nothing was acquired;
    HalfMade when the release could not be confirmed.
    """
    fields = {
        "name": name,
        "fallback": fallback,
        "nodes": nodes,
        "spot": spot,
        "capacity": capacity,
        "providers": providers,
        "regions": regions,
        "marketplaces": marketplaces,
        "rank": rank,
        "max_price_per_hour": max_price_per_hour,
        "accept_suspect_prices": accept_suspect_prices,
        "wait": wait,
        "hedge": hedge,
        "ttl": ttl,
        "disk_gib": disk_gib,
        "labels": labels,
        "options": options,
    }
    return launched(
        declared(gpu, fields),
        ssh_key=ssh_key,
        keep=keep,
        world=world,
        settings=settings,
        report=report,
        waits=None if within is None else patience.read(within, tuple(notify)),
    )


@contextmanager
def launched(
    spec: Cluster,
    *,
    ssh_key: str | os.PathLike[str] | None = None,
    keep: bool = False,
    world: str = REHEARSAL,
    settings: Settings | None = None,
    report: Report | None = None,
    by_login: bool = False,
    waits: Patience | None = None,
) -> Iterator[Machine]:
    """What `provision` does of a whole spec. `by_login`: its workload is not started at boot, but
    left to the caller. `waits`: it is looked for so long.
    """
    opened = _opened(world, settings, report)
    interrupted = f"{spec.name}: interrupted; what was asked for is being released"

    def renting() -> Awaitable[AsyncMachine]:
        return rent(opened, spec, ssh_key, by_login=by_login, waits=waits is not None)

    # An interrupt can come when it is acquired and nobody was told yet: it is then released all
    # the same.
    machines: list[Machine] = []

    async def rented() -> None:
        found = renting() if waits is None else patience.patiently(opened, spec, waits, renting)
        machines.append(Machine(await found))

    given = False
    try:
        try:
            portal().run(rented(), interrupted=interrupted)
            given = True
            yield machines[0]
        finally:
            if machines and given and keep:
                kept(machines[0].inner)
            elif machines:
                machines[0].release()
    finally:
        opened.close()


@asynccontextmanager
async def aprovision(
    gpu: str | Gpu | Cluster | Sequence[str | Gpu | Fallback],
    *,
    ssh_key: str | os.PathLike[str] | None = None,
    keep: bool = False,
    world: WorldName = REHEARSAL,
    settings: Settings | None = None,
    report: Report | None = None,
    **fields: Any,
) -> AsyncIterator[AsyncMachine]:
    """`provision` for async code: the same arguments, and the machine's methods are awaited. A
    cancelled task releases before it ends.
    """
    spec = declared(gpu, fields)
    opened = _opened(world, settings, report)
    try:
        machine = await rent(opened, spec, ssh_key)
        try:
            yield machine
        finally:
            if keep:
                kept(machine)
            else:
                await machine.release()
    finally:
        opened.close()


@overload
def find(
    name: None = None, *, world: str | None = None, settings: Settings | None = None
) -> tuple[Machine, ...]: ...
@overload
def find(name: str, *, world: str | None = None, settings: Settings | None = None) -> Machine: ...
def find(
    name: str | None = None, *, world: str | None = None, settings: Settings | None = None
) -> Machine | tuple[Machine, ...]:
    """What this user holds ad hoc, from any process: everything, or the one of that name.

    Asks the clouds. Without `world`, the worlds and settings that things were bought with from this
    machine; with it, that one in any case. Raises GpusError when there is none of that name, or one
    in each world.
    """
    found: list[Machine] = []
    worlds = list(_worlds(world, settings, name))

    async def looked() -> list[tuple[AsyncMachine, ...]]:
        return await together(*(rentals.look(opened, name or "") for opened in worlds))

    for opened, machines in zip(worlds, portal().run(looked()) if worlds else (), strict=True):
        # A machine keeps its world; an empty-handed one is closed.
        found += [Machine(machine) for machine in machines]
        if not machines:
            opened.close()
    if name is None:
        return tuple(found)
    if len(found) != 1:
        if found:
            raise GpusError(
                f"{name}: wanted one, found it in"
                f" {' and '.join(machine.world for machine in found)}; say which world"
            )
        raise GpusError(
            f"wanted a cluster named {name!r}, found nothing of that name that runs; {_known(name)}"
        )
    return found[0]


def bought(name: str, world: str | None = None) -> bool:
    """True when something of that name was bought ad hoc from this machine and is not known to be
    released. Reads the state folder.
    """
    return any(
        access.settings(each, name) is not None for each in (WORLDS if world is None else (world,))
    )


def release(name: str, *, world: str | None = None, settings: Settings | None = None) -> None:
    """Releases, confirmed, whatever bears this name, from any process. Raises GpusError when
    nothing does, HalfMade when that failed.
    """
    known = [each for each in WORLDS if access.settings(each, name) is not None]
    if world is None and len(known) > 1:
        raise GpusError(f"{name}: wanted one, found it in {' and '.join(known)}; say which world")
    some = False
    for opened in _worlds(world, settings, name):
        try:
            work = rentals.let_go(opened, name)
            there = portal().run(
                work,
                persists=(
                    f"{name}: still releasing it; Ctrl-C once more leaves it, then run it again"
                ),
            )
            opened.report(
                "info",
                f"{name}: {'released, confirmed' if there else 'nothing of that name was left'}"
                f" ({opened.name})",
            )
            some = True
        finally:
            opened.close()
    if not some:
        other = (
            "" if world is not None else "; bought from another machine? Name its world: --world"
        )
        raise GpusError(
            f"wanted a cluster named {name!r}, found none that was bought from this machine;"
            f" {_known(name)}{other}"
        )


def _known(name: str) -> str:
    """What there is instead of a name that is unknown, and how to see or get one."""
    home()  # one that cannot be used knows of nothing, and says so
    names = [each for each_world in WORLDS for each in access.names(each_world)]
    return (
        f"there are: {', '.join(names)}{near(name, names)} (`gpus ps` shows them)"
        if names
        else "there are none yet: `gpus run GPU --name NAME --keep` gets one"
    )


def declared(gpu: Any, fields: Mapping[str, Any]) -> Cluster:
    """The spec that these words mean: four hours unless they say otherwise, and a name of its own.
    Raises SpecError with every problem.
    """
    from providers.model.spec import Cluster, read_cluster

    given = {field: _tuples(value) for field, value in fields.items() if value is not None}
    if isinstance(gpu, Cluster):
        if given:
            problems = [
                Problem(
                    field,
                    "the cluster to say this itself",
                    "a keyword",
                    f"set it in Cluster({field}=...)",
                )
                for field in given
            ]
            raise SpecError(problems)
        return gpu if gpu.ttl is not None else gpu.model_copy(update={"ttl": DEFAULT_TTL})
    name = str(given.pop("name", None) or f"adhoc-{uuid.uuid4().hex[:6]}")
    given.setdefault("ttl", DEFAULT_TTL)
    return read_cluster(name, {"gpu": _tuples(gpu), **given})


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


async def rent(
    world: World,
    spec: Cluster,
    ssh_key: str | os.PathLike[str] | None,
    *,
    by_login: bool = False,
    waits: bool = False,
) -> AsyncMachine:
    """The machine, bought and verified; a rehearsal says that it is none. `waits`: the caller goes
    on after `rentals.Booked`, and where it is sold out.
    """
    if spec.block is not None and not waits:
        todo = "within= waits until the block begins, which is hours or days from now"
        raise SpecError([Problem("block", "what is there at once", "a block", todo)])
    if world.name == REHEARSAL:
        from providers.rehearsal.nodes import mode
        from providers.rehearsal.store import open_store

        where = "a container" if mode.of(open_store()) == mode.DOCKER else "a local shell"
        own = any(
            any(settings.values()) and is_real(name, world.name, settings)
            for name, settings in world.settings.items()
        )
        but = "your own machines are real; elsewhere " if own else ""
        world.report(
            "info",
            f"{spec.name}: rehearsal: {but}nothing is bought and no GPU is there; commands run in"
            f' {where}; world="{LIVE}" buys',
        )
    machine = await rentals.rent(world, spec, ssh_key, by_login=by_login, searches=waits)
    try:
        ends = (
            f"; it ends by itself at {moment(machine.record.ends_at)}"
            if machine.ends_itself
            else ""
        )
        world.report("info", f"{described(machine)}: ready{ends}; {machine.ssh}")
        if not machine.ends_itself:
            by_hand = f"if this process is killed, only `gpus release {spec.name}` ends it"
            world.report(
                "warning",
                f"{spec.name}: {machine.record.provider} ends nothing at a ttl: {by_hand}",
            )
    except BaseException:
        # Nobody has it in hand yet.
        await machine.release()
        raise
    return machine


def kept(machine: AsyncMachine) -> None:
    """Leaves it running, and says how it is used and released, and what else may cost money."""
    machine.keep()
    price = (
        "" if machine.price_usd_per_hour is None else f" at ${machine.price_usd_per_hour:,.2f}/h"
    )
    text = (
        f"{machine.name}: kept running{price}; gpus ssh {machine.name}; to release it: gpus release"
        f" {machine.name} --world {machine.world}"
    )
    machine.report("info", text)
    for reason in machine.record.reasons:
        todo = (
            "`gpus ps` shows whether it is there; what you ran looks for it again under this name"
        )
        both = f"`gpus release {machine.name}` releases both"
        machine.report("warning", f"{machine.name}: {reason}; {todo}, {both}")


def _opened(world: str, settings: Settings | None, report: Report | None = None) -> World:
    return open_world(world, settings, report or _print)


def _print(severity: str, text: str) -> None:
    label = "" if severity in {"info", "progress"} else f"{severity}: "
    print(told(text, sys.stderr, label), file=sys.stderr, flush=True)


def _worlds(world: str | None, settings: Settings | None, name: str | None) -> Iterator[World]:
    """The worlds to look in, each opened once for each set of settings that something was bought
    with. Raises SpecError for an unknown one.
    """
    if world is not None and world not in WORLDS:
        raise SpecError([Problem("world", " or ".join(WORLDS), repr(world))])
    for each in WORLDS if world is None else (world,):
        ways: list[Settings] = [] if settings is None else [settings]
        if settings is None:
            known = (
                access.settings(each, one) for one in ((name,) if name else access.names(each))
            )
            for way in known:
                if way is not None and way not in ways:
                    ways.append(way)
        if world is not None and not ways:
            ways.append({})
        for way in ways:
            yield _opened(each, way)
