"""One point of the crash matrix, its result, and the counting of what really runs. Owns Point,
Result, Running and the reading of the stand-ins' tables.

The counting reads the rehearsal's SQLite file and nothing else: never an adapter, a stand-in's own
code or the journal, since those are what is tested. A machine's row tells its whole life, so that
what ran side by side at any moment can be counted afterwards. Must not import the package's engine,
plugin or adapters; the exceptions are two pure things of Clore: whose an order's ports say it is,
since that cloud keeps no labels, and its coins' worth.
"""

from __future__ import annotations

import json
import shlex
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CLOUDS = ("gcp", "aws", "modal", "clore")
OWN = "ssh"
"""Machines of one's own, of part c."""
FOREVER = 1e15
OWNER, CLUSTER, GENERATION = "gpus-owner", "gpus-cluster", "gpus-generation"


class Point(NamedTuple):
    """One experiment. `part` is a, b or c; `name` is unique within part and cloud, and begins with the
    step (`up/...`, `replace/...`).

    Everything that is left to chance in it comes from `seed`.
    """

    part: str
    name: str
    cloud: str
    seed: int

    @property
    def step(self) -> str:
        return self.name.partition("/")[0]

    @property
    def command(self) -> str:
        """What to type to see exactly this one again."""
        return (
            f"python -m tests.crash --part {self.part} --cloud {self.cloud} --seed {self.seed}"
            f" --only {shlex.quote(self.name)}"
        )


class Result(NamedTuple):
    """What a point came to. `orphans` are machines (and disks) that nothing declares, `duplicates`
    are machines beyond the declared count at any moment, `stuck` is 1 where the documented recovery
    did not end at the declaration. `detail` says it in words; empty where all is well.
    """

    point: Point
    orphans: int = 0
    duplicates: int = 0
    stuck: int = 0
    detail: str = ""
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return not (self.orphans or self.duplicates or self.stuck)


class Running(NamedTuple):
    """Something that exists at a cloud from `begins` until `ends` (world moments) and may cost
    money. `kind` is machine, disk or app.
    """

    cloud: str
    id: str
    kind: str
    status: str
    owner: str
    cluster: str
    generation: str
    machine_type: str
    begins: float
    ends: float

    def at(self, moment: float) -> bool:
        return self.begins <= moment < self.ends

    def __str__(self) -> str:
        return (
            f"{self.cloud} {self.kind} {self.id} {self.status} ({self.cluster or 'no cluster'},"
            f" generation {self.generation or 'none'})"
        )


# What is there


def moment(home: Path) -> float:
    """The rehearsal world's time."""
    with _reading(home) as db:
        row = (
            db.execute("SELECT value FROM meta WHERE key = 'clock_offset_s'").fetchone()
            if _has(db, "meta")
            else None
        )
    return time.time() + (float(row[0]) if row else 0.0)


def lives(home: Path, owner: str = "") -> list[Running]:
    """Everything that ever existed at the four clouds of this home; of one owner (and what bears no
    owner at all) where one is named.
    """
    now = moment(home)
    with _reading(home) as db:
        found = [*_gcp(db, now), *_aws(db, now), *_modal(db, now), *_clore(db, now, owner)]
    return [one for one in found if not owner or one.owner in ("", owner)]


def running(home: Path, owner: str = "") -> list[Running]:
    """What of that exists now."""
    now = moment(home)
    return [one for one in lives(home, owner) if one.at(now)]


def paid(home: Path) -> dict[str, tuple[str, float]]:
    """Every Capacity Block that was bought: id -> (the cluster on it, dollars)."""
    found: dict[str, tuple[str, float]] = {}
    with _reading(home) as db:
        rows = (
            db.execute("SELECT name, body FROM aws_thing WHERE kind = 'reservation'").fetchall()
            if _has(db, "aws_thing")
            else []
        )
    for name, text in rows:
        body = json.loads(text)
        if body.get("fee"):
            found[name] = _label(body.get("tags") or {})[1], float(body["fee"])
    return found


def requests(home: Path) -> list[tuple[str, str, str, int, str]]:
    """(cloud, verb, call, status, fault) of everything that was asked of the stand-ins so far."""
    with _reading(home) as db:
        return (
            list(
                db.execute("SELECT provider, verb, method, status, fault FROM request ORDER BY id")
            )
            if _has(db, "request")
            else []
        )


# What is wrong


class Count(NamedTuple):
    """What is beyond the declaration, and what is missing from it. `words` has one line for each."""

    orphans: int
    duplicates: int
    missing: int
    words: tuple[str, ...]


def count(home: Path, owner: str, declared: Mapping[str, int]) -> Count:
    """What runs now against what is declared: cluster name -> count of machines (an empty mapping:
    nothing may exist).
    """
    orphans, duplicates, missing, words = 0, 0, 0, []
    here = running(home, owner)
    machines = [one for one in here if one.kind == "machine"]
    for cluster in sorted({one.cluster for one in machines} | set(declared)):
        mine, wanted = [one for one in machines if one.cluster == cluster], declared.get(cluster, 0)
        over = len(mine) - wanted
        if over > 0 and wanted:
            duplicates += over
        elif over > 0:
            orphans += over
        else:
            missing -= over
        if over:
            words.append(
                f"{cluster or 'no cluster'}: wanted {wanted} machines, found {len(mine)}:"
                f" {'; '.join(map(str, mine)) or 'none'}"
            )
    for one in here:
        if one.kind != "machine" and one.cluster not in declared:
            orphans += 1
            words.append(f"left: {one}")
    return Count(orphans, duplicates, missing, tuple(words))


def overlaps(home: Path, owner: str, most: Mapping[str, int]) -> tuple[int, str]:
    """How many machines of one cluster, at the worst moment so far, were beyond `most` (cluster ->
    count), and what they were; 0 if never.
    """
    worst, words = 0, ""
    machines = [one for one in lives(home, owner) if one.kind == "machine"]
    for at in sorted({one.begins for one in machines}):
        for cluster in {one.cluster for one in machines}:
            mine = [one for one in machines if one.cluster == cluster and one.at(at)]
            if (over := len(mine) - most.get(cluster, 0)) > worst:
                worst = over
                words = (
                    f"{cluster or 'no cluster'}: at most {most.get(cluster, 0)} machines at once,"
                    f" found {len(mine)}: {'; '.join(map(str, mine))}"
                )
    return worst, words


# The stand-ins' tables


def _gcp(db: sqlite3.Connection, now: float) -> Iterable[Running]:
    if not _has(db, "gcp_vm"):
        return
    machines: dict[int, tuple[tuple[str, str, str], float]] = {}
    for number, name, zone, kind, created, gone, body, timeline in db.execute(
        "SELECT id, name, zone, machine_type, created, gone, body, timeline FROM gcp_vm ORDER BY id"
    ):
        labels = json.loads(body).get("labels") or {}
        status = next((word for at, word in reversed(json.loads(timeline)) if at <= now), "")
        label = _label(labels)
        machines[number] = label, float(gone)
        yield Running(
            "gcp", f"{zone}/{name}", "machine", status, *label, kind, float(created), float(gone)
        )
    for zone, name, vm, automatic, created in db.execute(
        "SELECT zone, name, vm, auto_delete, created FROM gcp_disk"
    ):
        label, machine_gone = machines.get(vm, (("", "", ""), FOREVER))
        # A disk ends with its machine, or not at all: nothing else deletes one.
        ends = machine_gone if automatic else FOREVER
        yield Running("gcp", f"{zone}/{name}", "disk", "", *label, "", float(created), ends)


def _aws(db: sqlite3.Connection, now: float) -> Iterable[Running]:
    if not _has(db, "aws_instance"):
        return
    for number, region, zone, kind, created, body, timeline in db.execute(
        "SELECT id, region, zone, machine_type, created, body, timeline FROM aws_instance ORDER"
        " BY id"
    ):
        steps = json.loads(timeline)
        ends = next((float(at) for at, word, _ in steps if word in ("terminated", "")), FOREVER)
        status = next((word for at, word, _ in reversed(steps) if at <= now), "")
        yield Running(
            "aws",
            f"{region}/{number} in {zone}",
            "machine",
            status,
            *_label(json.loads(body).get("tags") or {}),
            kind,
            float(created),
            ends,
        )


def _modal(db: sqlite3.Connection, now: float) -> Iterable[Running]:
    if _has(db, "modal_sandbox"):
        for number, gpus, limit, created, started, ended, tags in db.execute(
            "SELECT id, gpu_count, timeout_s, created, started, ended, tags FROM modal_sandbox"
            " ORDER BY created"
        ):
            ends = min(
                FOREVER if ended is None else float(ended),
                FOREVER if started is None else float(started) + float(limit),
            )
            status = "queued" if started is None else "running"
            yield Running(
                "modal",
                number,
                "machine",
                status if now < ends else "ended",
                *_label(json.loads(tags)),
                f"{gpus} GPUs",
                float(created),
                ends,
            )
    if not _has(db, "modal_deployed"):
        return
    labels = {}
    for number, state, created, stopped, tags in db.execute(
        "SELECT id, state, created, stopped, tags FROM modal_deployed"
    ):
        labels[number] = _label(json.loads(tags))
        # Only a published app can start a container; one that was begun and never published ends
        # with its client.
        if state != "INITIALIZING":
            yield Running(
                "modal",
                number,
                "app",
                state.lower(),
                *labels[number],
                "",
                float(created),
                FOREVER if stopped is None else float(stopped),
            )
    for number, app, gpus, created, started, ended in db.execute(
        "SELECT id, app, gpu_count, created, started, ended FROM modal_container"
    ):
        label, status = labels.get(app, ("", "", "")), "queued" if started is None else "running"
        yield Running(
            "modal",
            number,
            "machine",
            status,
            *label,
            f"{gpus} GPUs",
            float(created),
            FOREVER if ended is None else float(ended),
        )


def _clore(db: sqlite3.Connection, now: float, owner: str) -> Iterable[Running]:
    if not _has(db, "clore_order"):
        return
    from providers.adapters.clore.label import belongs
    from providers.rehearsal.clouds.clore.inventory import USD_PER_COIN

    known: dict[int, list[str]] = {}
    if _has(db, "clore_rental"):
        known = {
            number: label
            for number, *label in db.execute(
                "SELECT order_id, owner, cluster, generation FROM clore_rental"
            )
        }
    bids = (
        list(db.execute("SELECT si, coin, per_day, at FROM clore_bid"))
        if _has(db, "clore_bid")
        else []
    )
    for number, server, spot, coin, per_day, ports, since, up_at, longest_h, ended in db.execute(
        "SELECT id, si, spot, coin, per_day, ports, ct, up_at, mrl, ended_at FROM clore_order ORDER"
        " BY id"
    ):
        labelled, cluster, generation = known.get(number, ["", "", ""])
        if not labelled and owner and belongs(map(int, json.loads(ports)), owner):
            labelled = owner
        ends = min(
            FOREVER if ended is None else float(ended), float(since) + float(longest_h) * 3_600
        )
        higher = [
            at
            for si, its, offered, at in bids
            if spot and si == server and offered * USD_PER_COIN[its] > per_day * USD_PER_COIN[coin]
        ]
        if higher:
            # Somebody bid more: paused, and over a minute later.
            ends = min(ends, max(min(higher), float(since)) + 60.0)
        yield Running(
            "clore",
            str(number),
            "machine",
            "running" if up_at <= now else "starting",
            labelled,
            cluster,
            generation,
            f"server-{server}",
            float(since),
            ends,
        )


def _label(labels: Mapping[str, str]) -> tuple[str, str, str]:
    return labels.get(OWNER, ""), labels.get(CLUSTER, ""), labels.get(GENERATION, "")


def _reading(home: Path) -> closing[sqlite3.Connection]:
    """The rehearsal's file, read only; an empty one where nothing was rehearsed yet."""
    file = home / "rehearsal.db"
    return closing(
        sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30.0)
        if file.exists()
        else sqlite3.connect(":memory:")
    )


def _has(db: sqlite3.Connection, table: str) -> bool:
    return (
        db.execute(
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
        ).fetchone()
        is not None
    )


if __name__ == "__main__":
    for one in running(Path(sys.argv[1])):
        print(one)
