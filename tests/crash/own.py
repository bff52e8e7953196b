"""Part C: the real command line and the real plugin, killed or interrupted at every step on machines
of one's own. Owns the steps, the points, and what counts as recovered.

A point brings a stack to where its step begins, runs the step's command, and ends the CLI, the
plugin or both with -9, or interrupts the CLI, at one moment: while a machine holds a call before it
is carried out or before it is answered, or at a row of the journal or the state. Or the machine
itself is unplugged then. Then comes what docs/how-to/when-something-dies.md says. Real ssh servers,
real processes; only the cards are played.
"""

from __future__ import annotations

import random
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.crash.kills_cli import POLL_S, STACK, Clone, Run, kill
from tests.crash.kills_experiment import Stuck
from tests.crash.kills_moments import Watch
from tests.crash.kills_steps import BAD, DESTROY, EXIT_S, LEFT_NOTHING, REFRESH, STOPPED, UP
from tests.crash.own_boxes import JOB, Boxes
from tests.crash.point import OWN, Point, Result
from tests.plugin.boxes import SSHD

if TYPE_CHECKING:
    from collections.abc import Mapping

AT_ONCE = 2
NAME = "train"
WHO = ("cli", "plugin", "both", "int", "term")
"""Who dies: killed with -9, or the CLI's group gets SIGINT, or the CLI SIGTERM."""
UNPLUGGED = "unplugged"
"""The machine that the call came to loses its power, and is started again."""
ROWS = ("owned", "reply", "saved")
"""Moments of the journal and of the state: the stack has its owner id; the purchase is written down;
the state names it. Every other moment is `VERB-before` or `VERB-after`.
"""
OTHER = "RTX-4090:2"


class Step(NamedTuple):
    """`moments` are those at which it is cut short. `first`: a cluster runs before it. `words` is
    the command, `nodes` how many machines are declared, `edit` what is declared besides.
    `unrecorded`: a run that was killed has left a lease that no state names.
    """

    moments: tuple[str, ...]
    first: bool = True
    words: tuple[str, ...] = UP
    nodes: int = 1
    edit: Mapping[str, Any] = {}
    code: str = ""
    unrecorded: bool = False


STEPS = {
    "up": Step(
        (
            "owned",
            "take-before",
            "take-after",
            "rsync-before",
            "rsync-after",
            "command-before",
            "command-after",
            "reply",
            "saved",
        ),
        first=False,
    ),
    "up-nodes": Step(
        ("take-before", "take-after", "start-before", "start-after", "command-after"),
        first=False,
        nodes=2,
    ),
    "refresh": Step(("look-before",), words=REFRESH),
    "update": Step(("edit-before", "edit-after"), edit={"labels": {"team": "vision"}}),
    "code": Step(("rsync-before", "rsync-after", "command-after"), code="echo changed\n"),
    "replace": Step(
        ("release-before", "release-after", "take-before", "take-after"), edit={"gpu": OTHER}
    ),
    "destroy": Step(("release-before", "release-after"), words=DESTROY),
    "destroy-nodes": Step(("release-before", "release-after"), words=DESTROY, nodes=2),
    "adopt": Step(("edit-before", "edit-after"), first=False, unrecorded=True),
    "destroy-unrecorded": Step(
        ("release-before", "release-after"), first=False, words=DESTROY, unrecorded=True
    ),
}
BESIDES = (
    f"up/take-before/{UNPLUGGED}",
    f"up/take-after/{UNPLUGGED}",
    f"up-nodes/take-after/{UNPLUGGED}",
    f"up-nodes/start-after/{UNPLUGGED}",
    f"destroy/release-after/{UNPLUGGED}",
)


def points(seed: int) -> list[Point]:
    """Every point: each moment of each step, who dies going round, and some besides."""
    names = [
        f"{name}/{moment}/{who}"
        for turn, (name, step) in enumerate(STEPS.items())
        for number, moment in enumerate(step.moments)
        for who in {WHO[(number + turn) % len(WHO)], *(("both",) if "take" in moment else ())}
    ]
    return [Point("c", name, OWN, seed) for name in sorted({*names, *BESIDES})]


def is_point(name: str, cloud: str) -> bool:
    """Whether a point of that name can be run, listed or not."""
    step, moment, who, *rest = (*name.split("/"), "", "")
    verb, _, when = moment.partition("-")
    known = moment in ROWS or (verb.isalpha() and when in ("before", "after"))
    return step in STEPS and known and who in (*WHO, UNPLUGGED) and cloud == OWN and not any(rest)


def run(point: Point, folder: Path) -> Result:
    """A point's result. The folder of one that failed is kept, and named."""
    if SSHD is None:
        return Result(point, stuck=1, detail="needs OpenSSH's server: openssh-server")
    folder.mkdir(parents=True, exist_ok=True)
    boxes = Boxes(folder)
    experiment = _Experiment(point, folder, boxes)
    try:
        experiment.run()
    except Stuck as stuck:
        experiment.wrong(f"stuck: {stuck}")
    finally:
        kill(experiment.clone.plugins())
        boxes.end()
    count = experiment.count
    found = Result(point, count["orphans"], count["duplicates"], count["stuck"])
    if found.good:
        return found
    kept = Path(tempfile.mkdtemp(prefix="gpus-crash-kept-")) / "point"
    folder.rename(kept)
    lines = [*experiment.words, *boxes.calls()[-60:], f"its logs, state and machines: {kept}"]
    return found._replace(detail="\n  ".join(lines))


class _Experiment:
    def __init__(self, point: Point, folder: Path, boxes: Boxes) -> None:
        if not is_point(point.name, point.cloud):
            raise ValueError(f"wanted STEP/MOMENT/WHO, found {point.name!r} at {point.cloud}")
        name, self.moment, self.who = point.name.split("/")
        self.step, self.boxes = STEPS[name], boxes
        self.chance = random.Random(f"{point.seed} {point.name}")
        self.clone = Clone(folder / "clone", folder / "home")
        self.count = {"orphans": 0, "duplicates": 0, "stuck": 0}
        self.words: list[str] = []

    def wrong(self, line: str) -> None:
        """One thing that is not as it should be: `KIND: what`."""
        self.count[line.partition(":")[0]] += 1
        self.words.append(line)

    def run(self) -> None:
        self.clone.init()
        (self.clone.folder / "code").mkdir()
        self.say("echo as first\n")
        self.declare({})
        if self.step.first:
            self.must(*UP)
            self.counted("before")
        if self.step.unrecorded:
            self.cut(UP, "take-after", "both")
            self.unlocked()
        self.declare(self.step.edit)
        if self.step.code:
            self.say(self.step.code)
        self.cut(self.step.words, self.moment, self.who)
        self.recover()
        self.must(*DESTROY)
        self.counted("after destroy", nothing=True)
        if left := self.clone.resources():
            self.wrong(f"stuck: left in the state: {', '.join(left)}")
        if not self.clone.quiet(EXIT_S):
            self.wrong("stuck: a plugin process lives on")
        if worst := self.boxes.overlaps({NAME: self.step.nodes}):
            self.wrong(f"duplicates: {worst}")
        if not self.step.code and (twice := self.boxes.begun_twice()):
            self.wrong(f"duplicates: a job begun twice: {twice}")

    def say(self, code: str) -> None:
        (self.clone.folder / "code" / "say.sh").write_text(code)

    def declare(self, edit: Mapping[str, Any]) -> None:
        spec = {
            "kind": "job",
            "gpu": "RTX-4090:1",
            "providers": [OWN],
            "nodes": self.step.nodes,
            "ttl": "20h",
            "workdir": "code",
            "workload": {"command": JOB},
            **edit,
        }
        self.clone.declare({NAME: spec}, {"ssh:inventory": str(self.boxes.inventory)})

    def cut(self, words: tuple[str, ...], moment: str, who: str) -> None:
        """Runs the command and cuts it short at the moment; checks what must hold right after."""
        watch = Watch(self.clone, OWN, "take")
        verb, _, when = moment.partition("-")
        if when:
            self.boxes.hold(verb, when, last=self.step.nodes > 1)
        run = self.clone.start(*words)
        while not self.came(watch, moment):
            if run.over:
                raise Stuck(
                    f"the moment {moment} never came; it ended with {run.ended()}\n{run.said}"
                )
            time.sleep(POLL_S)
        self.die(run, who)
        # What was sent before is carried out though whoever sent it is gone.
        self.boxes.let_go()
        status = run.ended()
        self.words.append(f"{' '.join(words)}: {who} at {moment}, exit {status}")
        if status is None:
            self.wrong(f"stuck: it did not end\n{run.said}")
        self.clean(run.said)
        if who in ("plugin", "both"):
            kill(self.clone.plugins())
        elif who in ("int", "term") or self.chance.random() < 0.5:
            # In the others the recovery meets the old plugin, still at work.
            self.settled(run, moment, who)

    def came(self, watch: Watch, moment: str) -> bool:
        if moment == "owned":
            return watch.owned()
        if moment == "reply":
            return watch.written("made")
        if moment == "saved":
            return watch.generation not in ("", watch.state)
        return bool(self.boxes.holding())

    def die(self, run: Run, who: str) -> None:
        plugins = self.clone.plugins()
        if who in ("cli", "both"):
            run.signal(signal.SIGKILL)
        if who in ("plugin", "both"):
            kill(plugins)
        if who == "int":
            run.signal(signal.SIGINT, group=True)
        if who == "term":
            run.signal(signal.SIGTERM)
        if who == UNPLUGGED:
            for box in self.boxes.holding():
                box.power_off()
                self.boxes.let_go()
                box.start()

    def settled(self, run: Run, moment: str, who: str) -> None:
        """The engine is gone: the plugin settles, releases and exits."""
        if not self.clone.quiet(EXIT_S):
            raise Stuck(f"a plugin process lives {EXIT_S:.0f}s after its engine's end\n{run.said}")
        walking = moment.partition("-")[0] in ("take", "start") and self.step.words == UP
        if walking and who in ("int", "term"):
            said = " ".join(run.said.split())
            if STOPPED not in said or LEFT_NOTHING not in said:
                self.wrong(f"stuck: wanted {STOPPED!r} and {LEFT_NOTHING!r} said\n{run.said}")
            for line in self.boxes.settled({}):
                self.wrong(f"{line} (once the plugin had ended)")

    def recover(self) -> None:
        self.unlocked()
        ways = ("up", "up", "refresh", "preview", "destroy", "sweep")
        way = "destroy" if self.step.words == DESTROY else self.chance.choice(ways)
        self.words.append(f"recovery: {way}")
        if way == "refresh":
            self.must(*REFRESH)
        if way == "preview":
            self.must("preview")
        if way == "sweep":
            self.swept()
        if way != "destroy":
            self.must(*UP)
            self.counted("after up")
            if len(named := self.clone.named()) != self.step.nodes:
                self.wrong(f"stuck: wanted {self.step.nodes} machines in the state, found {named}")
            if self.chance.random() < 0.25:
                self.must("preview", "--expect-no-changes")

    def swept(self) -> None:
        """What no state names is deleted, or named with what takes it over; the rest stays."""
        words = ["sh", "-c", 'cd "$0" && exec gpus sweep -s "$1" --yes']
        folder = self.clone.folder
        staying = self.boxes.leases(staying=True)
        before = [each for several in staying.values() for each in several]
        run = Run([*words, str(folder), STACK], self.clone.env, folder / "sweep.log")
        if (status := run.ended()) != 0:
            raise Stuck(f"gpus sweep: exit {status}\n{run.said}")
        self.clean(run.said)
        named = self.clone.named()
        standing = [each for several in self.boxes.leases().values() for each in several]
        for each in standing:
            if each not in named and each not in run.said:
                self.wrong(f"orphans: {each} stands, and gpus sweep does not say so\n{run.said}")
        if lost := [each for each in named if each in before and each not in standing]:
            self.wrong(f"stuck: gpus sweep deleted what a state names: {lost}\n{run.said}")

    def unlocked(self) -> None:
        self.clone.mend()
        if self.clone.locked:
            self.must("cancel", "--yes")

    def must(self, *words: str) -> str:
        """A command that has to succeed in time. Raises Stuck."""
        status, said = self.clone.run(*words)
        self.clean(said)
        if status != 0:
            how = "hung" if status is None else f"exit {status}"
            raise Stuck(f"pulumi {' '.join(words)}: {how}\n{said}")
        return said

    def counted(self, when: str, *, nothing: bool = False) -> None:
        for line in self.boxes.settled({} if nothing else {NAME: self.step.nodes}):
            self.wrong(f"{line} ({when})")

    def clean(self, said: str) -> None:
        if any(word in said for word in BAD):
            self.wrong(f"stuck: a traceback reached the user\n{said}")
