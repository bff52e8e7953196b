"""Handles to the clusters that stacks declare: found by this machine's journal, observed at their
cloud, logged into with the key that was made for them.

Owns which one a name means, how a job ended, and the log of a machine's start.
Buys and deletes nothing: that is Pulumi's, so a release says which command ends it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adhoc.machine import AsyncMachine
from providers.engine import budget
from providers.engine.journal.orders import EVERY
from providers.engine.messages import LIMIT, why_ended
from providers.engine.readiness import access
from providers.engine.readiness.workload import ITSELF
from providers.engine.reconcile.status import with_status
from providers.engine.record import DEGRADED, HEALTHY, ClusterRecord, runs_on, works
from providers.engine.runtime.accounts import home_of
from providers.engine.runtime.tasks import repeated
from providers.engine.runtime.world import open_world
from providers.errors import GpusError
from providers.home import JOURNAL_FILE, home
from providers.model.machine import ENDED, FAILED
from providers.model.money import usd
from providers.model.wording import near
from providers.model.workload import ROOT
from providers.model.worlds import REHEARSAL, WORLDS
from providers.rehearsal.node import LABEL, StandInProbe
from providers.remote.run import finished

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from providers.engine.journal.journal import Journal
    from providers.engine.journal.placements import PlacementRow
    from providers.engine.runtime.world import World

LOOK_EVERY_S = 10.0
"""World seconds between two looks at a job that is waited for."""
_START_UP = (
    "journalctl --no-pager -o cat -u cloud-final 2>/dev/null || cat /var/log/cloud-init-output.log"
)


class Declared(NamedTuple):
    """One placement of a stack's cluster, as the journal has it. `stack` is empty for an owner that
    the journal knows no stack of.

    `concluded`: of one that is over, its status, and what its job ended with, or when and by what
    its machines ended. `ended_at`: when that was seen (0: it runs). `latest_at`: when a job without
    a ttl ends by its provider's own limit, if every attempt takes its longest (0: not known, or
    nothing ends it). `runs_on`: its job is over, and its machines cost what they did. `now`: when
    this was read.
    """

    project: str
    stack: str
    record: ClusterRecord
    concluded: tuple[str, str] = ("", "")
    ended_at: float = 0.0
    latest_at: float = 0.0
    runs_on: bool = False
    now: float = 0.0

    @property
    def charge(self) -> budget.Charge:
        """What it costs, until it ended. Where that is not known, of what is over nothing is."""
        charge = budget.spell_of(self.record)
        if self.is_over and not self.runs_on and not self.ended_at:
            return charge._replace(launched_at=0.0)
        return charge._replace(ended_at=self.ended_at)

    @property
    def is_over(self) -> bool:
        """Ended, well or not: nothing of it costs money by the hour any more,
        unless it `runs_on`.
        """
        return bool(self.concluded[0])

    @property
    def is_past(self) -> bool:
        """Past its limit, as far as the clock tells: nobody has looked since."""
        return 0 < self.record.ends_at <= self.now

    def per_hour(self) -> int | None:
        """Micro US dollars an hour while it runs; None for what has ended, and where no source had
        a price.
        """
        return None if self.is_over and not self.runs_on else self.record.price.micro_usd

    def told(self) -> str:
        """`its job is over (exit code 0)`, or `it ended at 2026-11-29 08:29 UTC by its ttl`."""
        status, why = self.concluded
        if self.is_past and not self.is_over:
            return f"it ended {why_ended(self.record, '', self.now)}"
        return (
            f"its job is over ({why or status})"
            if self.record.kind == "job"
            else f"it ended {why}".rstrip()
        )

    def again(self) -> str:
        """What brings a new one."""
        return f"`gpus rerun {self.record.cluster} -s {self.stack} --up` starts a new one"

    def as_json(self) -> dict[str, Any]:
        """Plain JSON types, for `gpus ps --json`: the same fields as of what is ad hoc."""
        record = self.record
        where = record.placement._asdict()
        del where["reservation"]
        price = None if (micro_usd := self.per_hour()) is None else usd(micro_usd)
        moments = {
            "launched_at": record.launched_at or None,
            "ends_at": None if self.is_over else record.ends_at or None,
            "latest_at": None if self.is_over else self.latest_at or None,
            "ended_at": self.ended_at or None,
        }
        return {
            "name": record.cluster,
            "stack": self.stack or None,
            "project": self.project or None,
            "world": record.world,
            "status": record.status,
            **where,
            "price_usd_per_hour": price,
            "process": None,
            "reasons": list(record.reasons),
            **moments,
        }


def known(world: str | None = None, stack: str = "", cluster: str = "") -> tuple[Declared, ...]:
    """What stacks have that has not ended, as far as this machine's journal knows; narrowed by
    world, stack and cluster. Asks no cloud.
    """
    return journaled(world, stack, cluster, lambda journal, name: journal.standing(name, cluster))


def waiting(world: str | None = None, stack: str = "") -> tuple[Declared, ...]:
    """What stacks wait for, or have given up, as far as this machine's journal knows."""
    return journaled(world, stack, "", lambda journal, name: journal.waiting(name))


def stacks(world: str | None = None) -> frozenset[str]:
    """The names of the stacks that this machine's journal has met."""
    if not (home() / JOURNAL_FILE).exists():
        return frozenset()
    found: set[str] = set()
    for name in WORLDS if world is None else (world,):
        opened_world = open_world(name)
        try:
            found.update(met.stack for met in opened_world.journal.owners(name) if met.stack)
        finally:
            opened_world.close()
    return frozenset(found)


def over(name: str, world: str | None = None, stack: str = "") -> Declared | None:
    """What of that name is over, with its machines gone; None where there is none, or something of
    the name still has machines.

    Raises GpusError for several. Asks no cloud.
    """
    if known(world, stack, name):
        return None
    found = journaled(world, stack, name, lambda journal, of: journal.conclusions(of, name))
    return _only(found, name, world, stack) if found else None


def concluded(name: str, world: str | None = None, stack: str = "") -> Declared | None:
    """What of that name is over while its machines are still there; None for all else. Asks no
    cloud.
    """
    return next((each for each in known(world, stack, name) if each.is_over), None)


def journaled(
    world: str | None,
    stack: str,
    cluster: str,
    which: Callable[[Journal, str], Sequence[PlacementRow]],
    *,
    ad_hoc: bool = False,
) -> tuple[Declared, ...]:
    """The placements that `which` takes from the journal of each world; with `ad_hoc` also those of
    no stack. Asks no cloud.
    """
    if not (home() / JOURNAL_FILE).exists():
        return ()
    found: list[Declared] = []
    for name in WORLDS if world is None else (world,):
        opened_world = open_world(name)
        try:
            owners = {
                known.owner: (known.project, known.stack)
                for known in opened_world.journal.owners(name)
                if known.stack
            }
            for launch in which(opened_world.journal, name):
                project, of = owners.get(launch.owner, ("", ""))
                if (
                    (ad_hoc or launch.owner in owners)
                    and cluster in {"", launch.cluster}
                    and stack.rpartition("/")[2] in {"", of}
                ):
                    status, why = launch.record.get("concluded") or ("", "")
                    record = ClusterRecord.from_dict(launch.record)
                    latest = _latest(opened_world, record)
                    record = record._replace(status=status, detail=why) if status else record
                    manifest = opened_world.manifests.get(record.provider)
                    left = launch.ended_at is None and runs_on(
                        record, "" if manifest is None else manifest.programs.ends_itself
                    )
                    found.append(
                        Declared(
                            project,
                            of,
                            record,
                            (status, why),
                            launch.ended_at or 0.0,
                            latest,
                            left,
                            opened_world.clock.now(),
                        )
                    )
        finally:
            opened_world.close()
    return tuple(found)


def _latest(world: World, record: ClusterRecord) -> float:
    """When a job of a provider's own ends at the latest, by what it was ordered with; 0 where its
    ttl says it, and otherwise. Reads the journal.
    """
    manifest = world.manifests.get(record.provider)
    if (
        record.kind != "job"
        or record.ends_at
        or not record.launched_at
        or manifest is None
        or manifest.limits.lasts_s is None
    ):
        return 0.0
    entries = world.journal.orders(
        record.world, record.owner, record.cluster, record.generation, EVERY
    )
    setup = next(
        (
            entry.order.setup
            for entry in reversed(entries)
            if set(entry.handles) & set(record.handles)
        ),
        None,
    )
    return (
        0.0
        if setup is None
        else record.launched_at + manifest.limits.lasts_s(dict(setup.options), setup.ttl_s)
    )


async def opened(name: str, world: str | None = None, stack: str = "") -> AsyncMachine:
    """The declared cluster of that name, as its cloud sees it now.

    Raises GpusError when the journal knows none, or several, of that name, and when what it knows
    is gone.
    """
    return await reached(_only(known(world, stack, name), name, world, stack))


async def reached(one: Declared, *, look: bool = True) -> AsyncMachine:
    """A declared cluster as its cloud sees it now; without `look`, as the journal has it.

    Raises CloudError where the cloud cannot be asked, GpusError when what the journal knows is
    gone.
    """
    # Its account stands in its record; other settings are not needed to reach it.
    there_is = open_world(one.record.world)
    try:
        if look:
            return await _looked_at(there_is, one)
        return _in_hand(there_is, one, one.record)
    except BaseException:
        there_is.close()
        raise


def _only(found: Sequence[Declared], name: str, world: str | None, stack: str) -> Declared:
    """The one of that name. Raises GpusError for none and for several."""
    there = " ".join(
        filter(
            None, (f"of stack {stack}" if stack else "", f"in the {world} world" if world else "")
        )
    )
    if not found:
        every = [(each.record.cluster, each.stack) for each in known(world)]
        listed = ", ".join(f"{each} ({of})" for each, of in every) or "none"
        raise GpusError(
            f"wanted a cluster named {name!r} {there}".rstrip()
            + ", found none that was placed from this machine"
            f"{near(name, dict(every))}; there are: {listed}"
        )
    if len(found) > 1:
        places = ", ".join(
            f"-s {each.stack} --world {each.record.world} (project {each.project})"
            for each in found
        )
        raise GpusError(
            f"{name}: wanted one, found {len(found)}: {places}; say which, with -s STACK and"
            " --world WORLD"
        )
    return found[0]


async def _looked_at(world: World, one: Declared) -> AsyncMachine:
    adapter = await home_of(world, one.record)
    record = with_status(
        one.record,
        await repeated(world, adapter.name, adapter.observe, one.record.handles),
        world.clock.now(),
    )
    if (
        record is not None
        and record.status == ENDED
        and not record.machines
        and record.kind != "job"
    ):
        now = world.clock.now()
        one = one._replace(
            concluded=(
                ENDED,
                why_ended(record, record.detail, now, world.journal.ended_why(record)),
            )
        )
        raise GpusError(
            f"{record.cluster}: wanted its machines, found none: {one.told()}; {one.again()}"
        )
    if record is None or not record.machines:
        raise GpusError(
            f"{one.record.cluster}: wanted its machines, found that they are gone; pulumi up -s"
            f" {one.stack} replaces it"
        )
    machine = _in_hand(world, one, record)
    way = machine.probe
    if isinstance(way, StandInProbe) and not all(map(way.furnished, record.machines)):
        # Nobody has looked into it before: a look furnishes its stand-ins.
        for node in record.machines:
            await way(node, record)
    return machine


def _in_hand(world: World, one: Declared, record: ClusterRecord) -> AsyncMachine:
    told = (
        f"{one.told()} and its machine is {record.status}"
        if one.is_over
        else f"it is {record.status}"
    )
    way = told if record.status not in {*HEALTHY, DEGRADED} else access.connection(world, record)

    async def ends() -> bool:
        raise GpusError(f"{record.cluster}: it is declared: pulumi destroy -s {one.stack} ends it")

    if isinstance(way, str):
        return AsyncMachine(world, record, None, ends, stack=one.stack, barred=way)
    return AsyncMachine(world, record, way, ends, stack=one.stack)


def only_job(world: str | None = None, stack: str = "") -> str:
    """The name of the one job that is known here, running or over. Raises GpusError for none and
    for several.
    """
    found = (
        *known(world, stack),
        *waiting(world, stack),
        *journaled(world, stack, "", lambda journal, of: journal.conclusions(of)),
    )
    jobs = list(dict.fromkeys(each.record.cluster for each in found if each.record.kind == "job"))
    if len(jobs) != 1:
        raise GpusError(
            "wanted one job to wait for, found"
            f" {', '.join(jobs) or 'none that was placed from this machine'}; say which: gpus wait"
            " NAME"
        )
    return jobs[0]


async def finished_job(
    name: str, world: str | None = None, stack: str = "", timeout_s: float | None = None
) -> tuple[int, str]:
    """(exit code, what its cloud or its own script says of its end) of a declared job, once it has
    ended. Looks every `LOOK_EVERY_S`.

    The code is 0 for one that ended well, its own where it is known, else 1. Raises GpusError for
    what is no job, is gone, or takes longer.
    """
    from providers.engine.readiness import workload

    one = over(name, world, stack) or _only(known(world, stack, name), name, world, stack)
    if one.record.kind != "job":
        raise GpusError(
            f"{name}: wanted a job, found a {one.record.kind}: nothing of it ends by itself"
        )
    if one.concluded[0]:
        return exit_code(*one.concluded)
    there = open_world(one.record.world)
    try:
        adapter = await home_of(there, one.record)
        began = there.clock.now()
        while True:
            record = with_status(
                one.record, await workload.observed(there, adapter, one.record), there.clock.now()
            )
            if record is None:
                raise GpusError(
                    f"{name}: wanted its end, found that its machines are gone; pulumi up -s"
                    f" {one.stack} replaces it"
                )
            if record.status in {ENDED, FAILED}:
                worst = next(
                    (node for node in record.machines if node.status == record.status), None
                )
                return exit_code(record.status, worst.detail if worst is not None else LIMIT)
            if timeout_s is not None and there.clock.now() - began >= timeout_s:
                raise GpusError(
                    f"{name}: wanted its end within {timeout_s:.0f}s, found it {record.status}"
                )
            await there.clock.sleep(LOOK_EVERY_S)
    finally:
        there.close()


def exit_code(status: str, why: str) -> tuple[int, str]:
    """(exit code, why) of a job that is over: 0 only where it is known to have ended well."""
    if status == ENDED:
        return (1 if why in {ITSELF, LIMIT} else 0), why or status
    code = why.rpartition(" ")[2]
    # What is no exit code stays out: of a larger number a shell would see the rest by 256, which
    # can be 0.
    return (
        int(code) if re.fullmatch(r"[0-9]{1,3}", code) and 0 < int(code) < 256 else 1
    ), why or status


async def log(machine: AsyncMachine, number: int = 0) -> str:
    """What a machine wrote: its workload's own output over ssh where there is both; else what it
    wrote while it started, as its cloud keeps it, or from its own journal. Raises GpusError.
    """
    record = machine.record
    if not 0 <= number < len(record.machines):
        raise GpusError(
            f"{machine.name}: wanted the number of one of its {len(record.machines)} machines, from"
            f" 0, found {number}"
        )
    node = record.machines[number]
    adapter = await machine.adapter()
    if adapter.logs:
        if works(record):
            with suppress(GpusError):
                if not machine.line(number).stand_in:
                    return await _own_log(machine, number)
        return await machine.call(adapter.log, node.handle)
    if node.login and record.world == REHEARSAL:
        live = node.login.replace(node.handle.native_id, "JOB")
        raise GpusError(
            f"{machine.name}: a rehearsed job is played and wrote no log; live, {record.provider}"
            f" keeps it, and this shows it: {live}"
        )
    if node.login:
        raise GpusError(
            f"{machine.name}: {record.provider} keeps the log itself; to see it: {node.login}"
        )
    if machine.line(number).stand_in:
        return f"{LABEL} {node.name}: nothing boots here"
    return await _own_log(machine, number)


async def _own_log(machine: AsyncMachine, number: int) -> str:
    """What its workload wrote, without one its start-up, from the machine itself."""
    record, line = machine.record, machine.line(number)
    code, output, errors = await finished(
        line.command(f"cat {ROOT}/log" if works(record) else _START_UP)
    )
    if code != 0:
        why = next(
            (text.strip() for text in reversed(errors.splitlines()) if text.strip()),
            f"ended with {code}",
        )
        raise GpusError(
            f"{machine.name}: wanted the log of its start, found none:"
            f" {record.provider} keeps none, and on the machine: {why[:160]}"
        )
    return output
