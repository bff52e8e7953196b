"""Part B: the plugin under the engine's recorded sequences, while one reply of the cloud after the
other is broken. Owns the steps and the points.

A point runs a step (an `up`, an update, a replacement, ...) with its faults, then recovers as
documented: `up` again, a few times at most, without any fault; then `destroy`. After each of these
it counts what really runs. A call is named by its cloud's own name and its number within the step,
as found by running the step once without a fault.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.crash import wire
from tests.crash.calls import recorded
from tests.crash.point import CLOUDS, Point, Result, count, overlaps, requests, running

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

AT_ONCE = max(2, os.cpu_count() or 1)
ARRIVED_S = 3.5
"""Real seconds after which what was late has arrived, at any cloud (see `wire.LATE_S`)."""
RECOVERIES = 3
"""So many times is the same command run again before something counts as stuck."""
PAIRS = 15
"""Points of two faults, for each cloud."""
EDITS, EDITED = 15, "edited"
"""Points, for each cloud, after whose fault another GPU is declared before the recovery."""
CREATES = {
    "gcp": ("instances.insert", "instances.bulkInsert", "regionInstances.bulkInsert"),
    "aws": ("ec2.CreateFleet", "ec2.RunInstances"),
    "modal": ("SandboxCreate", "FunctionMap", "AppPublish"),
    "clore": ("create_order",),
}
"""The calls that make what costs money."""
DELETES = {
    "gcp": ("instances.delete",),
    "aws": ("ec2.TerminateInstances",),
    "modal": ("SandboxTerminate", "AppStop"),
    "clore": ("cancel_order",),
}
"""The calls that end it."""
CHANGES = 2
"""Of the calls of one name that change something, so many in a step are broken."""
LOOKS = 6
"""Of the calls that only look, so many breaks in a step, chosen by the seed: after a broken look
the same look is made again, whatever the step.
"""
ONCE = frozenset({"EnvironmentGetOrCreate", "AppHeartbeat"})
"""Calls that Modal's client makes once a process, or by its own clock: there is no telling whether
they come.
"""
NAME = "train"
ROOM_AGAIN, HOUR_S = "room again", 3_600.0
"""Happens between: what was sold out has room, and a search asks again within the hour."""


class Cloud(NamedTuple):
    """What is declared at one cloud. `base` is bought, `edited` is edited in place, `other`
    replaces it, `spot` can be taken back, `sold_out` is a first choice that nobody has any more
    before `base`.
    """

    base: Mapping[str, Any]
    edited: Mapping[str, Any]
    other: Mapping[str, Any]
    spot: Mapping[str, Any]
    sold_out: Mapping[str, Any]
    sold_out_gpu: str
    settings: Mapping[str, Mapping[str, str]] = {}


def _cloud(
    name: str,
    gpu: str,
    other: str,
    missing: str,
    gone: str,
    *,
    spot: Mapping[str, Any],
    settings: Mapping[str, str] | None = None,
    **more: Any,
) -> Cloud:
    # Amazon's catalog has no spot prices; what has no price is never bought.
    prices = {"overrides": [{"provider": name, "capacity": "spot", "price_usd_per_hour": 0.5}]}
    base = {"gpu": gpu, "providers": [name], "ttl": "20h", **more}
    return Cloud(
        base,
        {**base, "labels": {"team": "vision"}, "max_price_per_hour": 500},
        {**base, "gpu": other},
        {**base, **spot, **({"prices": prices} if name == "aws" else {})},
        {**base, "gpu": missing, "fallback": [gpu]},
        gone,
        {name: dict(settings)} if settings else {},
    )


TABLE = {
    "gcp": _cloud(
        "gcp", "L4:1", "L4:2", "T4:1", "T4", spot={"spot": "only"}, regions=["us-central1"]
    ),
    "aws": _cloud(
        "aws",
        "A10G:1",
        "A10G:4",
        "T4:1",
        "T4",
        spot={"spot": "only"},
        settings={"regions": "us-east-1"},
    ),
    "modal": _cloud("modal", "A10:1", "L4:1", "T4:1", "T4", spot={}),
    "clore": _cloud(
        "clore", "RTX-4090:2", "RTX-4090:1", "RTX-3090:1", "RTX-3090", spot={"capacity": ["spot"]}
    ),
}
SERVICE: dict[str, Any] = {
    "kind": "service",
    "gpu": "L4:1",
    "providers": ["modal"],
    "workload": {"command": "python -m http.server 8000", "port": 8000},
    "options": {"modal": {"min_containers": 1, "max_containers": 1}},
}
JOB = {
    "kind": "job",
    "gpu": "L4:1",
    "providers": ["modal"],
    "triggers": {"rerun": 1},
    "workload": {"command": "sleep 9"},
    "options": {"modal": {"timeout": "24h"}},
}
JOB_S = 80_000.0
"""A job runs longer than any recovery takes: one that is done would run no more, and rightly so."""


class Step(NamedTuple):
    """`before` is declared and had first (None: nothing is there), `after` is declared when the
    step runs (None: it is a destroy).

    `clouds` have it. `replace` asks for a replacement. `between` happens to the world before the
    step.
    """

    before: Callable[[Cloud], Mapping[str, Any]] | None
    after: Callable[[Cloud], Mapping[str, Any]] | None
    clouds: tuple[str, ...] = CLOUDS
    replace: bool = False
    between: str = ""
    nodes: int = 1


def _base(cloud: Cloud) -> Mapping[str, Any]:
    return cloud.base


def _pair_of_nodes(cloud: Cloud) -> Mapping[str, Any]:
    return {**cloud.base, "nodes": 2}


def _waits(cloud: Cloud) -> Mapping[str, Any]:
    """What nobody has before the step, and waits for it."""
    return {**cloud.base, "gpu": cloud.sold_out["gpu"], "acquire": {"within": "48h"}}


STEPS = {
    "up": Step(None, _base),
    "up-sold-out": Step(None, lambda cloud: cloud.sold_out, between="sold out"),
    "up-nodes": Step(None, _pair_of_nodes, ("gcp", "aws"), nodes=2),
    "up-service": Step(None, lambda cloud: SERVICE, ("modal",)),
    "up-job": Step(None, lambda cloud: JOB, ("modal",)),
    "unchanged": Step(_base, _base),
    "update": Step(_base, lambda cloud: cloud.edited),
    "update-service": Step(
        lambda cloud: SERVICE,
        lambda cloud: {
            **SERVICE,
            "options": {"modal": {**SERVICE["options"]["modal"], "max_containers": 2}},
        },
        ("modal",),
    ),
    "replace": Step(_base, lambda cloud: cloud.other),
    "replace-asked": Step(_base, _base, replace=True),
    "replace-nodes": Step(_pair_of_nodes, _base, ("gcp", "aws"), nodes=2),
    "preempted": Step(lambda cloud: cloud.spot, lambda cloud: cloud.spot, between="preempted"),
    "degraded": Step(
        lambda cloud: {**cloud.spot, "nodes": 2},
        lambda cloud: {**cloud.spot, "nodes": 2},
        ("gcp", "aws"),
        between="one preempted",
        nodes=2,
    ),
    "destroy": Step(_base, None),
    "destroy-nodes": Step(_pair_of_nodes, None, ("gcp", "aws"), nodes=2),
    "destroy-service": Step(lambda cloud: SERVICE, None, ("modal",)),
    "up-waiting": Step(_waits, _waits, ("gcp", "aws"), between=ROOM_AGAIN),
}


# The points


def points(seed: int) -> list[Point]:
    """Every point: each step of each cloud without a fault, with one on each recorded call, and
    with two by chance. The same for a seed, always.
    """
    found = recorded()
    from tests.crash.wire import KINDS, REPLIES, Hit

    out: list[Point] = []
    for cloud in CLOUDS:
        chance = random.Random(f"{seed} {cloud}")
        singles: dict[str, list[Hit]] = {}
        for name in STEPS:
            if (cloud, name) not in found:
                continue
            out.append(Point("b", f"{name}/good", cloud, seed))
            looks: list[Hit] = []
            seen: Counter[str] = Counter()
            for verb, method in found[cloud, name]:
                if method in ONCE:
                    continue
                nth = seen[method]
                seen[method] += 1
                if verb != "GET" and nth < CHANGES:
                    # What makes and ends machines is broken in every way; what is around them in
                    # some.
                    kinds = (
                        KINDS
                        if method in (*CREATES[cloud], *DELETES[cloud])
                        else chance.sample(KINDS, 3)
                    )
                    singles.setdefault(name, []).extend(Hit(kind, method, nth) for kind in kinds)
                elif verb == "GET" and nth < 3:
                    looks += [Hit(kind, method, nth) for kind in KINDS if kind != "twice"]
            singles.setdefault(name, []).extend(chance.sample(looks, min(LOOKS, len(looks))))
            out += [Point("b", f"{name}/{one}", cloud, seed) for one in singles[name]]
        names = [name for name in singles if sum(one.kind in REPLIES for one in singles[name]) > 1]
        for _ in range(PAIRS):
            name = chance.choice(names)
            first, second = chance.sample([one for one in singles[name] if one.kind in REPLIES], 2)
            out.append(Point("b", f"{name}/{first}+{second}", cloud, seed))
        for _ in range(EDITS):
            # The declaration is edited before the recovery.
            name = chance.choice([name for name in names if STEPS[name].after is not None])
            out.append(Point("b", f"{name}/{chance.choice(singles[name])}+{EDITED}", cloud, seed))
    return list(dict.fromkeys(out))


def is_point(name: str, cloud: str) -> bool:
    """Whether a point of that name can be run at that cloud, listed or not."""
    step, _, what = name.partition("/")
    try:
        hits = [wire.hit(word) for word in what.split("+") if word not in ("good", EDITED)]
    except ValueError:
        return False
    return step in STEPS and cloud in STEPS[step].clouds and (bool(hits) or what == "good")


def calls_of(cloud: str, name: str) -> list[tuple[str, str]]:
    """The calls that a step makes when all goes well: (verb, name), GET for what only looks."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="gpus-crash-", ignore_cleanup_errors=True) as folder:
        experiment = _Experiment(Point("b", f"{name}/good", cloud, 0), Path(folder))
        try:
            went = asyncio.run(experiment.step())
            assert not went, f"{cloud} {name}: nothing was broken, and it failed: {went}"
            verbs = {
                method: "GET" if method.endswith(".wait") else verb
                for found, verb, method, *_ in requests(experiment.home)
                if found == cloud
            }
            return [(verbs.get(method, "POST"), method) for method in experiment.wire.calls]
        finally:
            experiment.close()


def run(point: Point, folder: Path) -> Result:
    """A point's result."""
    experiment = _Experiment(point, folder)
    try:
        asyncio.run(experiment.run())
        return Result(
            point,
            experiment.orphans,
            experiment.duplicates,
            experiment.stuck,
            "\n  ".join(experiment.words),
        )
    finally:
        experiment.close()


class _Experiment:
    def __init__(self, point: Point, folder: Path) -> None:
        self.point, self.home = point, folder / "home"
        self.home.mkdir(mode=0o700)
        os.environ["GPUS_HOME"] = str(self.home)
        for name in [
            name for name in os.environ if name.startswith(("MODAL_", "AWS_", "GOOGLE_", "CLORE_"))
        ]:
            del os.environ[name]
        from providers.rehearsal.store import open_store
        from tests.crash import wire
        from tests.crash.engine import Engine

        name, _, what = point.name.partition("/")
        if name not in STEPS or point.cloud not in STEPS[name].clouds:
            raise ValueError(
                f"wanted a step of {', '.join(STEPS)} at a cloud that has it, found {name!r} at"
                f" {point.cloud}"
            )
        self.name, self.plan, self.cloud = name, STEPS[name], TABLE[point.cloud]
        words = what.split("+")
        self.edited = EDITED in words
        self.hits = tuple(wire.hit(word) for word in words if word not in ("good", EDITED))
        self.wire = wire.Wire(point.cloud)
        wire.attach(self.wire)
        self.store = open_store()
        self.store.hold_at_most(0.0)
        self.store.set_latency("modal", "job", JOB_S)
        self.engine = Engine(self.cloud.settings)
        self.orphans = self.duplicates = self.stuck = 0
        self.words: list[str] = []

    def close(self) -> None:
        """Ends the stand-ins of this home."""
        from providers.rehearsal import start

        start.stop()
        self.store.close()

    def wrong(self, kind: str, number: int, words: str) -> None:
        setattr(self, kind, getattr(self, kind) + number)
        self.words.append(words)

    async def run(self) -> None:
        went = await self.step()
        self.words.append(f"the step: {went or 'went well'}")
        if [str(one) for one in self.hits] != [str(one) for one in self.wire.reached] and len(
            self.hits
        ) == 1:
            self.wrong("stuck", 1, f"the call never came; there were {self.wire.calls}")
        wanted = self.plan.after if not self.edited else lambda cloud: cloud.other
        if any(one.kind == "engine-gone" for one in self.hits):
            self.released(went)
        for _ in range(RECOVERIES):
            self.passes()
            if not (went := await self.command(wanted)) and not any(
                kept.reasons for kept in self.engine.state.values()
            ):
                break
        else:
            self.wrong(
                "stuck",
                1,
                f"after {RECOVERIES} more:"
                f" {went or [kept.reasons for kept in self.engine.state.values()]}",
            )
        if wanted is not None:
            if any(one.kind == "overtaken" for one in self.hits):
                # What was overtaken arrives by now: it is the request of before, and no new one.
                await asyncio.sleep(ARRIVED_S)
            self.counted({NAME: self.nodes(wanted)}, "recovered")
            made = self.creates()
            if (went := await self.command(wanted)) or self.creates() != made:
                self.wrong("stuck", 1, f"not stable: {went or 'an unchanged stack bought again'}")
            for _ in range(RECOVERIES):
                if not (went := await self.command(None)):
                    break
            else:
                self.wrong("stuck", 1, f"destroy, {RECOVERIES} times: {went}")
        self.counted({}, "destroyed")
        if self.engine.state:
            self.wrong("stuck", 1, f"left in the state: {', '.join(self.engine.state)}")
        over, words = overlaps(self.home, "", {NAME: self.plan.nodes})
        if over:
            self.wrong("duplicates", over, f"side by side: {words}")
        if self.orphans or self.duplicates or self.stuck:
            self.words += [
                f"    {method} {status}{' ' + fault if fault else ''}"
                for cloud, _, method, status, fault in requests(self.home)
                if cloud == self.point.cloud
            ][-150:]
            self.words += self.engine.said[-60:]
        else:
            self.words.clear()

    def passes(self) -> None:
        """Lets a search ask again."""
        if self.plan.between == ROOM_AGAIN:
            self.store.advance(HOUR_S)

    async def step(self) -> str:
        """Runs the step with its faults. Returns how it failed, if it did."""
        if self.plan.between in ("sold out", ROOM_AGAIN):
            self.store.set_stock(self.point.cloud, "", "", "", 0, self.cloud.sold_out_gpu)
        if self.plan.before is not None and (went := await self.command(self.plan.before)):
            raise AssertionError(f"nothing was broken yet, and it failed: {went}")
        if self.plan.between == ROOM_AGAIN:
            self.store.set_stock(self.point.cloud, "", "", "", None, self.cloud.sold_out_gpu)
            self.passes()
        if self.plan.between in ("preempted", "one preempted"):
            self.preempt(1 if self.plan.between == "one preempted" else self.plan.nodes)
        loop = asyncio.get_running_loop()

        def happens(kind: str) -> None:
            plugin = self.engine.plugin
            if plugin is not None and kind == "stopped":
                asyncio.run_coroutine_threadsafe(plugin.stop(), loop)
            elif plugin is not None:
                loop.call_soon_threadsafe(plugin.kill)

        self.wire.arm(self.hits, happens)
        went = await self.command(self.plan.after, replace=self.plan.replace)
        self.wire.disarm()
        return went

    async def command(
        self, wanted: Callable[[Cloud], Mapping[str, Any]] | None, *, replace: bool = False
    ) -> str:
        """`up` of a declaration, or `destroy`. Returns how it failed, if it did."""
        from tests.crash.engine import Failed, Gone

        try:
            if wanted is None:
                await self.engine.destroy()
            else:
                await self.engine.up({NAME: wanted(self.cloud)}, replace=replace)
        except (Failed, Gone) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def nodes(self, wanted: Callable[[Cloud], Mapping[str, Any]]) -> int:
        return int(wanted(self.cloud).get("nodes", 1))

    def creates(self) -> int:
        return sum(
            cloud == self.point.cloud and method in CREATES[cloud]
            for cloud, _, method, *_ in requests(self.home)
        )

    def preempt(self, how_many: int) -> None:
        from importlib import import_module

        console = import_module(f"providers.rehearsal.clouds.{self.point.cloud}.console")
        for machine in console.running(self.store)[:how_many]:
            assert console.preempt(self.store, machine.name) == 1
        self.store.advance(120)

    def released(self, went: str) -> None:
        """The engine is gone and the plugin has ended: what no state names is not there."""
        named = sum(
            len(kept.outputs["handles"])
            for name, kept in self.engine.state.items()
            if name == NAME and "handles" in kept.outputs
        )
        here = [one for one in running(self.home) if one.kind == "machine"]
        if len(here) > named:
            self.wrong(
                "orphans",
                len(here) - named,
                f"the engine was gone ({went}), the state names {named} machines, found"
                f" {'; '.join(map(str, here))}",
            )

    def counted(self, declared: Mapping[str, int], when: str) -> None:
        found = count(self.home, "", declared)
        self.orphans += found.orphans
        self.duplicates += found.duplicates
        self.stuck += min(found.missing, 1)
        self.words += [f"{when}: {words}" for words in found.words]
