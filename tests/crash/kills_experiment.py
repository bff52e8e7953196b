"""One kill experiment: a run of the Pulumi CLI that is killed, and its recovery."""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING, Any

from tests.crash.kills_cli import POLL_S, Clone, Run, asleep, awake, kill
from tests.crash.kills_moments import (
    CREATE,
    HELD_S,
    LONG_S,
    MOMENTS,
    Watch,
    make_room,
)
from tests.crash.kills_steps import (
    ASLEEP,
    BAD,
    BEGUN,
    BLOCK_WAITS,
    BOUGHT,
    CLOUDS,
    DAY_S,
    DESTROY,
    EXIT_S,
    HANG_UP,
    LEFT_NOTHING,
    NAME,
    NO_ROOM,
    ORDERLY,
    OTHER,
    QUIET_S,
    RACING,
    REFRESH,
    SLOW_S,
    STEPS,
    STOPPED,
    TAKEN_OVER,
    UP,
    URN,
    WALKING,
    is_point,
)
from tests.crash.point import Point, count, overlaps, paid, requests, running

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Stuck(Exception):
    """The recovery cannot go on."""


class Experiment:
    def __init__(self, point: Point, folder: Path) -> None:
        if not is_point(point.name, point.cloud):
            raise ValueError(
                f"wanted STEP/MOMENT/WHO[/TWIST], found {point.name!r} at {point.cloud}"
            )
        name, moment, who, *twist = point.name.split("/")
        self.point, self.folder, self.who, self.twist = (
            point,
            folder,
            who,
            twist[0] if twist else "",
        )
        self.name, self.step, self.moment, self.cloud = (
            name,
            STEPS[name],
            moment,
            CLOUDS[point.cloud],
        )
        self.chance = random.Random(f"{point.seed} {point.cloud} {point.name}")
        self.home = folder / "home"
        self.clone = Clone(folder / "clone", self.home)
        self.clones = [self.clone]
        self.orphans = self.duplicates = self.stuck = 0
        self.words: list[str] = []
        self.declared: dict[str, Any] = {}
        self.cluster = NAME

    def wrong(self, kind: str, number: int, words: str) -> None:
        setattr(self, kind, getattr(self, kind) + number)
        self.words.append(words)

    # The experiment

    def run(self) -> None:
        self.clone.init()
        watch = Watch(self.clone, self.point.cloud)
        watch.store.begin()
        first = {
            **(self.cloud.spot if self.step.world == "preempted" else self.cloud.base),
            **({"nodes": self.step.nodes} if self.step.nodes > 1 else {}),
        }
        self.declare(first)
        if self.step.first:
            self.must(*UP)
        edit = {
            key: self.cloud.other if value == OTHER else value
            for key, value in self.step.edit.items()
        }
        self.prepare(watch)
        self.declare({key: value for key, value in {**first, **edit}.items() if value is not None})
        self.cut(self.step.words, self.moment, self.who)
        self.twisted()
        self.recover()
        self.destroyed()
        self.paid_once()
        # The cloud carries out what was sent before the run fell asleep: until that is released,
        # both are there.
        hedged = 2 if "hedge" in self.step.edit else 1
        most = {
            "instead": hedged,
            NAME: self.step.nodes * hedged * (2 if self.who == ASLEEP else 1),
            "beside": 1,
        }
        over, words = overlaps(self.home, "", most)
        if over:
            self.wrong("duplicates", over, f"side by side: {words}")
        if self.stuck or self.orphans or self.duplicates:
            self.words += [" ".join(map(str, row)) for row in requests(self.home)[-80:]]

    def prepare(self, watch: Watch) -> None:
        """What happens to the world before the step."""
        if self.step.world == "sold out at gcp":
            watch.store.set_stock("gcp", "", "", "", 0)
            watch.store.set_latency("gcp", "stockout", 0.0)
        elif self.step.world == NO_ROOM:
            watch.store.set_stock("gcp", "", "", "flex-start", 0)
        elif self.step.world == "slow at gcp":
            watch.store.set_latency("gcp", "create", SLOW_S)
        elif self.step.world == "preempted":
            from importlib import import_module

            console = import_module(f"providers.rehearsal.clouds.{self.point.cloud}.console")
            for machine in console.running(watch.store):
                assert console.preempt(watch.store, machine.name) == 1, machine
            watch.store.advance(120)
        elif self.step.world == "tainted":
            self.must("state", "taint", "--yes", URN)
        elif self.step.world in (BOUGHT, BEGUN):
            self.declare({**self.cloud.base, **self.step.edit})
            self.waits_for_block(begins=self.step.world == BEGUN)
        elif self.step.world == "unrecorded":
            # A machine that no state names: the CLI and the plugin die together once it is made.
            self.cut(UP, "made", "both")
            self.unlocked()

    def cut(self, words: tuple[str, ...], moment: str, who: str) -> None:
        """Runs the command and cuts it short at the moment; checks what must hold right after,
        before any recovery.
        """
        create = self.step.create or CREATE[self.point.cloud]
        watch, what = Watch(self.clone, self.point.cloud, create), MOMENTS[moment]
        what.arm(watch)
        if who in ORDERLY and moment in WALKING:
            # Otherwise it is made before the held answer comes: what is whole then is kept, and the
            # state names it.
            watch.store.set_latency(self.point.cloud, "create", HELD_S + LONG_S)
        run = self.clone.start(*words)
        while not what.came(watch):
            if run.over:
                raise Stuck(
                    f"the moment never came ({what.text}); the command ended with"
                    f" {run.ended()}\n{run.said}"
                )
            time.sleep(POLL_S)
        plugins = self.clone.plugins()
        if who == ASLEEP:
            self.slept(run, plugins)
        elif who == "cli":
            run.signal(signal.SIGKILL)
        elif who == "plugin":
            kill(plugins)
        elif who == "both":
            run.signal(signal.SIGKILL)
            kill(plugins)
        elif who == "term":
            run.signal(signal.SIGTERM)
        elif who == HANG_UP:
            run.signal(signal.SIGHUP, group=True)
        else:
            run.signal(signal.SIGINT, group=True)
            if who == "int2":
                time.sleep(self.chance.choice((0.2, 1.0)))
                run.signal(signal.SIGINT, group=True)
        status = run.ended()
        watch.store.clear_faults()
        self.words.append(f"{' '.join(words)}: {who} at {moment}, exit {status}")
        if status is None:
            self.wrong("stuck", 1, f"it did not end\n{run.said}")
        self.clean(run.said)
        if who == ASLEEP and (status == 0 or TAKEN_OVER not in run.said):
            self.wrong(
                "stuck", 1, f"it woke, and ended with {status} without {TAKEN_OVER!r}\n{run.said}"
            )
        if who in ("plugin", "both"):
            kill(self.clone.plugins())
        elif (
            who in (*ORDERLY, ASLEEP)
            or (self.name == "up" and not self.twist)
            or self.chance.random() < 0.5
        ):
            # In the others the recovery meets the old plugin, still at work.
            self.settled(run, moment, who)

    def slept(self, run: Run, plugins: list[int]) -> None:
        """The run sleeps while the same stack goes on from another home; then it wakes."""
        asleep(run, plugins, self.home / "rehearsal.db")
        if self.step.world == NO_ROOM:
            make_room(Watch(self.clone, self.point.cloud).store)
        try:
            first, self.clone = self.clone, self.elsewhere(self.clone.state)
            self.clone.declare({self.cluster: self.declared}, self.cloud.settings)
            self.unlocked()
            self.must(*UP)
            self.counted({self.cluster: self.step.nodes}, "after up elsewhere")
        finally:
            awake(run, plugins)
        run.ended()
        self.clone = first

    def settled(self, run: Run, moment: str, who: str) -> None:
        """The engine is gone: the plugin settles, releases and exits, and only what a state names
        goes on.
        """
        if not self.clone.quiet(EXIT_S):
            raise Stuck(f"a plugin process lives {EXIT_S:.0f}s after its engine's end\n{run.said}")
        if who == ASLEEP:
            self.counted({self.cluster: self.step.nodes}, "awake again")
            return
        named, here = (
            self.clone.named(),
            [one for one in running(self.home) if one.kind == "machine"],
        )
        # After a second interrupt the engine gives its plugins 5 seconds and kills them (CLI
        # 3.276): as after -9, the next command settles it.
        if (
            who != "int2"
            and moment in (*WALKING, *RACING, "running", "turned", "edit-sent", "edited", "look")
            and len(here) > len(named)
        ):
            found = "; ".join(map(str, here))
            self.wrong(
                "orphans",
                len(here) - len(named),
                f"the engine was gone and the plugin has ended, the state names {named}, found"
                f" {found}",
            )
        if moment in WALKING and who in ("int", "term"):
            said = " ".join(run.said.split())
            if STOPPED not in said or LEFT_NOTHING not in said:
                self.wrong(
                    "stuck",
                    1,
                    f"wanted {STOPPED!r} and {LEFT_NOTHING!r} said after one {who}\n{run.said}",
                )

    def twisted(self) -> None:
        """What happens between the crash and the recovery."""
        if self.step.world == NO_ROOM:
            make_room(Watch(self.clone, self.point.cloud).store)
        if self.twist == "edited":
            self.declare(
                {
                    **self.declared,
                    "gpu": (
                        self.cloud.other
                        if self.declared["gpu"] != self.cloud.other
                        else self.cloud.base["gpu"]
                    ),
                }
            )
        elif self.twist == "renamed":
            self.cluster = "instead"
            self.declare(self.declared)
        elif self.twist == "clone":
            other = Clone(self.folder / "another", self.home)
            self.clones.append(other)
            other.init()
            other.declare({"beside": self.cloud.base}, self.cloud.settings)
            self.must(*UP, clone=other)
            self.must(*DESTROY, clone=other)
        elif self.twist == "moved":
            self.moved()

    def moved(self) -> None:
        """The state is exported and imported, as documented by Pulumi; the rehearsal stays the same
        account, the journal does not come along.
        """
        self.unlocked()
        other = self.elsewhere()
        other.init()
        other.declare({self.cluster: self.declared}, self.cloud.settings)
        file = self.folder / "exported.json"
        self.must("stack", "export", "--file", str(file))
        self.must("stack", "import", "--file", str(file), clone=other)
        self.clone = other

    def elsewhere(self, state: Path | None = None) -> Clone:
        """A clone on another machine: the same account, a journal of its own."""
        home = self.folder / "elsewhere"
        home.mkdir(mode=0o700)
        (home / "rehearsal.db").symlink_to(self.home / "rehearsal.db")
        self.clones.append(Clone(self.folder / "another", home, state))
        return self.clones[-1]

    # The recovery, as documented

    def recover(self) -> None:
        self.unlocked()
        destroys = self.step.words == DESTROY
        way = (
            self.chance.choice(("again", "again", "up"))
            if destroys
            else (
                "up"
                if self.twist or self.who == ASLEEP
                else self.chance.choice(("up", "up", "refresh", "preview", "destroy"))
            )
        )
        self.words.append(f"recovery: {way}")
        if self.who == ASLEEP:
            self.clone = self.chance.choice(self.clones)
        if self.step.block:
            Watch(self.clone, self.point.cloud).store.advance(QUIET_S)
        if way != "destroy" and self.step.block:
            self.waits_for_block(begins=True)
        if way == "refresh":
            self.must(*REFRESH)
        if way == "preview":
            self.must("preview")
        if way in ("up", "refresh", "preview"):
            self.must(*UP)
            self.counted({self.cluster: self.step.nodes}, "after up")
            if len(named := self.clone.named()) != self.step.nodes:
                self.wrong(
                    "stuck",
                    1,
                    f"wanted the state to name {self.step.nodes} machines, found {named}",
                )
            if self.chance.random() < 0.25:
                self.must("preview", "--expect-no-changes")

    def waits_for_block(self, *, begins: bool) -> None:
        """An `up` that fails, as long as the block has not begun, and says so; then its beginning."""
        status, said = self.clone.run(*UP)
        self.clean(said)
        if status and BLOCK_WAITS not in " ".join(said.split()):
            raise Stuck(f"wanted an up, or {BLOCK_WAITS!r}, found exit {status}\n{said}")
        if status and begins:
            Watch(self.clone, self.point.cloud).store.advance(DAY_S)

    def paid_once(self) -> None:
        """A block was bought at most once, whose it is stands on it, and `gpus spend` counts it."""
        found = paid(self.home)
        if len(found) > 1 or any(cluster != self.cluster for cluster, _ in found.values()):
            self.wrong("duplicates", len(found), f"wanted one block of the cluster, found {found}")
        if self.step.block:
            fees = sum(dollars for _, dollars in found.values())
            if (spent := self.clone.spent()) < fees:
                self.wrong(
                    "stuck", 1, f"wanted ${fees:,.2f} for {found} spent, found ${spent:,.2f}"
                )

    def destroyed(self) -> None:
        self.must(*DESTROY)
        self.counted({}, "after destroy")
        if left := self.clone.resources():
            self.wrong("stuck", 1, f"left in the state: {', '.join(left)}")
        for clone in self.clones:
            if not clone.quiet(EXIT_S):
                self.wrong("stuck", 1, "a plugin process lives on")

    def unlocked(self) -> None:
        self.clone.mend()
        if self.clone.locked:
            status, said = self.clone.run("cancel", "--yes")
            if status != 0:
                raise Stuck(f"pulumi cancel: exit {status}\n{said}")

    def must(self, *words: str, clone: Clone | None = None) -> str:
        """A command that has to succeed in time. Raises _Stuck."""
        status, said = (clone or self.clone).run(*words)
        self.clean(said)
        if status != 0:
            raise Stuck(
                f"pulumi {' '.join(words)}:"
                f" {'hung' if status is None else f'exit {status}'}\n{said}"
            )
        return said

    def declare(self, spec: Mapping[str, Any]) -> None:
        self.declared = dict(spec)
        self.clone.declare({self.cluster: spec}, self.cloud.settings)

    def counted(self, declared: Mapping[str, int], when: str) -> None:
        found = count(self.home, "", declared)
        self.orphans += found.orphans
        self.duplicates += found.duplicates
        self.stuck += min(found.missing, 1)
        self.words += [f"{when}: {words}" for words in found.words]

    def clean(self, said: str) -> None:
        if any(word in said for word in BAD):
            self.wrong("stuck", 1, f"a traceback reached the user\n{said}")
