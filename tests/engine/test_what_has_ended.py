"""What the command line tells of what has ended, and of a rehearsal's machines: the real engine
over the rehearsal clouds, with a clock that does not wait.
"""

import asyncio
import json
from typing import Any

import pytest

from providers.cli import main
from providers.engine import keys, operations
from providers.engine.desired import ClusterSpec
from providers.engine.record import ClusterRecord
from providers.engine.runtime.world import open_world
from providers.model.spec import read_cluster
from providers.plugin import diff
from providers.rehearsal.store import open_store
from providers.testing.harness import StoreClock

MACHINE = {"gpu": "H100:8", "spot": "only", "ttl": "20h", "providers": ["gcp"]}
JOB: dict[str, Any] = {
    "kind": "job",
    "gpu": "L4:1",
    "providers": ["gcp"],
    "workload": {"command": "python3 train.py"},
}
MODAL = {
    "kind": "job",
    "gpu": "L4:1",
    "providers": ["modal"],
    "options": {"modal": {"command": "python train.py", "timeout": "1h", "retries": 2}},
}
VERTEX = {
    "kind": "job",
    "gpu": "L4:1",
    "providers": ["vertex"],
    "workload": {"image": "some/image:1", "command": "python train.py"},
}


class Rig:
    def __init__(self, capsys) -> None:
        self.capsys = capsys
        self.store = open_store()
        self.said: list[str] = []
        self.world = open_world(
            "rehearsal",
            {},
            lambda _severity, text: self.said.append(text),
            clock=StoreClock(self.store),
        )
        self.world.journal.owned("rehearsal", "owner1", "gpus", "dev")

    def wanted(self, spec):
        made = read_cluster("t", spec)
        return ClusterSpec(
            "owner1", "t", made.ask(), made.setup(), made.fingerprint(), ready="checked"
        )

    def create(self, spec):
        return asyncio.run(operations.create(self.world, self.wanted(spec), "g1"))

    def read(self, record):
        return asyncio.run(
            operations.read(
                self.world, ClusterRecord.from_dict(record.to_dict())._replace(machines=())
            )
        )

    def update(self, record, spec):
        return asyncio.run(operations.update(self.world, record, self.wanted(spec)))

    def gpus(self, *words):
        """(exit code, stdout, stderr in one line)."""
        code = main.main(list(words))
        out, err = self.capsys.readouterr()
        return code, out, " ".join(err.split())


@pytest.fixture
def rig(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made = Rig(capsys)
    yield made
    made.world.close()


def test_doctor_of_a_stand_in_reports_what_was_ordered_and_nothing_of_this_computer(rig) -> None:
    """A healthy rehearsal machine has nothing wrong, is called a stand-in, and no check speaks of
    the computer that it runs on.
    """
    rig.create(MACHINE)
    code, out, _ = rig.gpus("doctor", "t")
    first, *rest = out.splitlines()
    assert code == 0 and first.startswith("t: a rehearsal stand-in: no GPU is there")
    assert [line.split()[:3] for line in rest] == [["driver", "ok", "8"]] and "8 x H100" in rest[0]


def test_doctor_of_a_stand_in_whose_driver_is_rehearsed_to_be_gone_says_so(rig) -> None:
    """What the stand-in's own nvidia-smi does not answer is wrong there, as on a real machine."""
    record = rig.create(MACHINE)
    place = (
        keys.folder("rehearsal", "owner1", "t")
        / "nodes"
        / record.machines[0].name
        / "bin"
        / "nvidia-smi"
    )
    place.write_text("#!/bin/sh\nexit 9\n")
    code, out, _ = rig.gpus("doctor", "t")
    assert code == 1 and "it does not answer" in out


@pytest.mark.parametrize("looked", [False, True])
def test_a_machine_that_its_ttl_ended_is_told_as_ended_with_the_moment_and_what_to_do(
    rig, looked
) -> None:
    """Before and after the look that notices it: when, by which limit, and what gets a new one;
    never that none was placed, nor that `up` places it.
    """
    record = rig.create(MACHINE)
    rig.store.advance(21 * 3_600)
    if looked:
        assert rig.read(record).status == "ended"
    for words in (["logs", "t", "-s", "dev"], ["doctor", "t"], ["ssh", "t"]):
        code, out, err = rig.gpus(*words)
        assert code != 0 and not out
        assert "it ended at 20" in err and "UTC by its ttl" in err
        assert "`gpus rerun t -s dev --up` starts a new one" in err
        assert "none that was placed" not in err and "replaces it" not in err


def test_what_was_kept_of_an_ended_machine_is_shown(rig) -> None:
    """The end of what it wrote, where it was kept here, comes out after its machine has gone."""
    record = rig.create(MACHINE)
    rig.store.advance(21 * 3_600)
    rig.read(record)
    place = keys.folder("rehearsal", "owner1", "t") / "output"
    place.mkdir(parents=True)
    (place / "0").write_text("the last line\n")
    assert rig.gpus("logs", "t") == (0, "the last line\n", "")


def test_a_machine_that_its_ttl_stopped_and_keeps_is_listed_as_ended(rig) -> None:
    """With `on_ttl: keep` it stands in `gpus ps` as ended, with no price by the hour and no end to
    come.
    """
    record = rig.create({**MACHINE, "on_ttl": "keep"})
    rig.store.advance(21 * 3_600)
    assert rig.read(record).status == "ended"
    row = rig.gpus("ps")[1].splitlines()[1]
    assert "ended before 20" in row and "18." not in row
    assert "by its ttl and its machine is ended" in rig.gpus("ssh", "t")[2]


def test_ps_shows_when_a_modal_job_ends_at_the_latest_and_then_that_it_has(rig) -> None:
    """Every attempt at its timeout while it runs; once over, no price, no end to come, in the table
    and as JSON.
    """
    known_record = rig.create(MODAL)
    (record,) = json.loads(rig.gpus("ps", "--json")[1])
    assert (
        record["latest_at"] == known_record.launched_at + 3 * 3_600
        and record["price_usd_per_hour"]
        and record["ended_at"] is None
    )
    assert "UTC at the latest" in rig.gpus("ps")[1]
    rig.store.advance(3_600)
    assert rig.read(known_record).status == "ended"
    (record,) = json.loads(rig.gpus("ps", "--json")[1])
    assert (
        record["status"],
        record["price_usd_per_hour"],
        record["ends_at"],
        record["latest_at"],
    ) == ("ended", None, None, None)
    row = rig.gpus("ps")[1].splitlines()[1]
    assert "ended before 20" in row and "at the latest" not in row and " 0.8" not in row


def test_a_job_that_succeeded_reads_as_done_until_the_next_update_releases_its_machine(rig) -> None:
    """No reason (Pulumi would call it unhealthy), the exit code at every look, and an edit of the
    state alone that makes `up` release the rest.
    """
    record = rig.create(JOB)
    rig.store.advance(3_600)
    for _ in range(2):
        record = rig.read(record)
        assert (record.status, record.reasons, record.detail, record.to_release) == (
            "ended",
            (),
            "exit code 0",
            True,
        )
    assert [line for line in rig.said if "released by the next `up`" in line]
    verdict = diff.cluster({"kind": "job"}, {"kind": "job"}, record, lambda: True, ())
    assert verdict.changes and not verdict.replaces
    record = rig.update(record, JOB)
    assert (record.status, record.machines, record.to_release) == ("ended", (), False)
    assert diff.cluster({"kind": "job"}, {"kind": "job"}, record, lambda: True, ()).changes == ()
    assert not rig.read(record).to_release


CLORE_JOB = {
    "kind": "job",
    "gpu": "RTX-4090:2",
    "providers": ["clore"],
    "options": {"clore": {"trust_marketplace": True}},
}


@pytest.mark.parametrize(
    ("spec", "ends"),
    [
        ({**JOB, "workload": {**JOB["workload"], "on_done": "keep"}}, "by destroy only"),
        ({**CLORE_JOB, "workload": JOB["workload"]}, "by the next `up`"),
    ],
    ids=["kept", "clore"],
)
def test_what_runs_on_after_its_job_is_listed_with_its_price_and_what_ends_it(
    rig, spec, ends
) -> None:
    """Kept machines, and those of a market where none ends itself, cost what they did until they
    are released; the budget goes on counting them.
    """
    known_record = rig.create(spec)
    rig.store.advance(3_600)
    known_record = rig.read(known_record)
    assert (known_record.status, known_record.detail) == ("ended", "exit code 0")
    (record,) = json.loads(rig.gpus("ps", "--json")[1])
    assert record["price_usd_per_hour"] and record["status"] == "ended"
    assert f"its job is over: {ends}" in rig.gpus("ps")[1]
    assert [line for line in rig.said if "its machine runs on, at $" in line]
    assert [launch.ended_at for launch in rig.world.journal.launches("rehearsal")] == [None]


def test_all_shows_what_every_placement_that_has_ended_cost(rig) -> None:
    """A finished job whose machine is gone, and one that was destroyed, with how long each ran;
    without `--all` neither that is destroyed is shown.
    """
    record = rig.create(JOB)
    rig.store.advance(3_600)
    record = rig.read(record)
    rig.update(record, JOB)
    (done,) = json.loads(rig.gpus("ps", "--all", "--json")[1])
    assert (done["status"], done["stack"], done["price_usd_per_hour"]) == ("ended", "dev", None)
    assert done["cost_usd"] > 0 and done["ended_at"] > done["launched_at"]
    machine = rig.create(MACHINE)
    rig.store.advance(7_200)
    asyncio.run(operations.delete(rig.world, machine))
    first, second = json.loads(rig.gpus("ps", "--all", "--json")[1])
    assert first["cost_usd"] == done["cost_usd"] and second["status"] == "released"
    assert 7_200 <= second["ended_at"] - second["launched_at"] < 7_500 and second["cost_usd"] > 0
    assert json.loads(rig.gpus("ps", "--json")[1]) == []
    assert "--all shows what has ended" in " ".join(rig.gpus("ps", "-s", "dev")[1].split())
    assert rig.gpus("ps", "-s", "dev", "--all")[1].count("ended before 20") == 2


def test_a_job_that_its_ttl_ended_before_it_said_how_is_over_and_not_well(rig) -> None:
    """Its machine was deleted by the cloud: that is told, and `gpus wait` ends with 1."""
    rig.store.set_latency("gcp", "job", 4 * 3_600)
    record = rig.create({**JOB, "ttl": "1h"})
    rig.store.advance(2 * 3_600)
    assert rig.read(record).status == "ended"
    code, _, err = rig.gpus("wait", "t")
    assert code == 1 and "ended by their own limit before it said how it ended" in err


def test_a_rehearsed_custom_job_has_no_log_and_says_so(rig) -> None:
    """One line: it was played, and what shows a live one's."""
    rig.create(VERTEX)
    code, out, err = rig.gpus("logs", "t")
    assert code != 0 and not out
    assert (
        "a rehearsed job is played and wrote no log; live, vertex keeps it, and this shows it:"
        " gcloud ai custom-jobs stream-logs JOB" in err
    )
