"""The rounds of a watch over a stand-in of the stack: what counts against the cap, what a failure
and a lock come to, what the log says.
"""

import errno
import json
import os
from pathlib import Path
from typing import cast

import pytest
from pulumi.automation import CommandResult
from pulumi.automation.errors import create_command_error

from providers.cli.watch import RoundLog, pause_s
from providers.watch.rounds import HOUR_S, Round, Watch
from providers.watch.stack import Failed, Locked, Run, Stack, failure, read_state

NOW = 1_800_000_000.0


def state(*clusters, owner="own1", next_at=0.0):
    """(name, status, handle, launched_at) each; `next_at` of those that wait."""
    resources = (
        [
            {
                "type": "gpu:index:Ownership",
                "id": f"live/{owner}",
                "urn": "u::ownership",
                "inputs": {},
                "outputs": {},
            }
        ]
        if owner
        else []
    )
    for name, status, handle, launched in clusters:
        outputs = {
            "status": status,
            "handles": [handle],
            "launched_at": launched,
            "provider": "gcp",
            "zone": "z",
            "price_usd_per_hour": 2.5,
            "record": {"search": {"next_at": next_at}} if status == "waiting" else {},
        }
        resources.append(
            {
                "type": "gpu:index:Cluster",
                "urn": f"u::{name}",
                "id": f"live/{owner}/{name}/g",
                "inputs": {},
                "outputs": outputs,
            }
        )
    return read_state({"resources": resources})


class Played:
    """A stack whose state goes from one to the other at the `up` that does these operations."""

    def __init__(self, before, after=None, operations=None, history=0, fails=()) -> None:
        self.states, self.operations, self.history = (
            [before, after or before],
            operations or {},
            history,
        )
        self.fails, self.ups, self.stopped = list(fails), 0, False
        self.without: list[str] = []

    def stop(self) -> None:
        self.stopped = True

    def state(self):
        return self.states[min(self.ups, 1)]

    def _run(self):
        if self.fails:
            raise self.fails.pop(0)
        waits = {each.name for each in self.state().clusters if each.status == "waiting"}
        makes = {name for name, operation in self.operations.items() if operation != "update"}
        buys = tuple(name for name in self.operations if name in makes | waits)
        return Run(self.operations, buys, ("train: a warning",))

    def preview(self):
        return self._run()

    def up(self, without=()):
        found = self._run()
        self.without = [urn.rpartition("::")[2] for urn in without]
        self.ups += 1
        return found

    def updates(self, since):
        assert since == NOW - HOUR_S
        return self.history


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))


def played(stack, most=3, pause=lambda _seconds: True, patience_s=300.0):
    return Watch(stack, most, patience_s, lambda: NOW, pause).round()


NO_FOLDER = "No usable temporary directory found in ['/tmp', '/var/tmp']"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
            (
                "No space left on device; make room there, or set GPUS_HOME to a folder that can be"
                " written"
            ),
        ),
        (
            FileNotFoundError(errno.ENOENT, NO_FOLDER),
            (
                "wanted a folder that takes temporary files, found none among ['/tmp', '/var/tmp'];"
                " make room on the disk, or set TMPDIR to a folder that can be written"
            ),
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/opt/pulumi"),
            "Permission denied: /opt/pulumi",
        ),
    ],
)
def test_failure_of_this_machine_is_a_failed_round(error, text) -> None:
    """A full disk ends no watch: the round says what to do, and the next one tries again."""
    stack = Played(state(("train", "running", "a", "2026-01-01T00:00:00Z")), fails=[error])
    watch = Watch(cast("Stack", stack), 3, 300.0, lambda: NOW, lambda _seconds: True)
    found = watch.round()
    assert (found.result, found.text) == ("failed", text)
    assert watch.round().result == "unchanged"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_log_that_cannot_be_written_is_told_and_ends_no_watch(capsys) -> None:
    """The round stands on the screen; `gpus watch --once` then fails."""
    found = played(Played(state(("train", "running", "a", "2026-01-01T00:00:00Z"))))
    assert not RoundLog("/dev/full").write("dev", found)
    out, err = capsys.readouterr()
    assert "dev: unchanged: nothing to do" in out
    assert (
        err
        == "gpus: /dev/full: the round is not in the log: No space left on device; make room there,"
        " or name another file with --log\n"
    )


def test_nothing_to_do_is_still_written_down() -> None:
    """A round without a change says so, with every cluster as it is."""
    found = played(Played(state(("train", "running", "a", "2026-01-01T00:00:00Z"))))
    assert (found.result, found.text, found.bought) == ("unchanged", "nothing to do", ())
    assert json.loads(json.dumps(found.as_json()))["clusters"][0]["status"] == "running"
    assert found.as_json()["at"] == "2027-01-15T08:00:00Z"


@pytest.mark.parametrize(
    ("history", "most", "result"),
    [(0, 3, "bought"), (2, 3, "bought"), (3, 3, "capped"), (0, 0, "capped"), (1, 1, "capped")],
)
def test_the_cap_is_counted_from_the_backend_where_nothing_else_remembers(
    history, most, result
) -> None:
    """On an empty machine the backend's own history counts."""
    stack = Played(state(), state(("train", "running", "a", "")), {"train": "create"}, history)
    found = played(stack, most)
    assert (found.result, found.bought, stack.ups) == (result, ("train",), int(result == "bought"))
    assert result != "capped" or f"at most {most} may be: train waits" in found.text


def test_launches_in_the_state_count() -> None:
    """What the state says was launched within the hour counts, whoever did it; what was launched
    before does not.
    """
    just, before = "2027-01-15T07:30:00Z", "2027-01-15T06:30:00Z"
    record = state(
        ("a", "running", "1", just), ("b", "running", "2", just), ("c", "running", "3", before)
    )
    assert played(Played(record, operations={"d": "create"}), 2).result == "capped"
    assert played(Played(record, operations={"d": "create"}), 3).bought_last_hour == 2


def test_more_lost_at_once_than_the_cap_is_bought_in_one_round() -> None:
    """With nothing bought for an hour a round buys all that is missing, so that a large loss does
    not wait for ever.
    """
    names = ("a", "b", "c", "d")
    stack = Played(
        state(),
        state(*((name, "running", name, "") for name in names)),
        dict.fromkeys(names, "create"),
    )
    assert played(stack, 2).bought == names


def test_a_lock_is_waited_for_and_then_everything_is_looked_at_anew() -> None:
    """Two locked commands, then the round as ever; a lock that outlasts the interval is `busy`, and
    nothing was cancelled.
    """
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return True

    stack = Played(state(), fails=[Locked("locked by me"), Locked("locked by me")])
    assert played(stack, pause=pause).result == "unchanged"
    assert len(pauses) == 2
    busy = played(Played(state(), fails=[Locked("locked by me")]), patience_s=0.0)
    assert busy.result == "busy" and "locked by me" in busy.text


def test_a_failure_is_a_line_and_the_next_round_comes() -> None:
    """What Pulumi or the plugin said is the round's text and lines."""
    there = state(("train", "gave-up", "", ""))
    found = played(Played(there, fails=[Failed(("train: none was acquired", "allow more"))]))
    assert (found.result, found.text, found.lines) == (
        "failed",
        "train: none was acquired",
        ("train: none was acquired", "allow more"),
    )
    assert [each["status"] for each in found.clusters] == ["gave-up"]


def test_cluster_that_waits_is_looked_for_and_no_change() -> None:
    """Until it is acquired, which is a purchase."""
    waits = state(("train", "waiting", "", ""))
    found = played(Played(waits, operations={"train": "update"}))
    assert (found.result, found.text) == ("unchanged", "still looking for train")


@pytest.mark.parametrize(
    ("history", "most", "without"),
    [(0, 3, []), (1, 3, ["c"]), (2, 3, ["b", "c"]), (0, 1, ["b", "c"])],
)
def test_what_waits_counts_only_as_far_as_it_could_buy(history, most, without) -> None:
    """As many look as may buy, and what is lost beside them is bought again."""
    waits = state(*((name, "waiting", "", "") for name in "abc"), next_at=NOW + 90)
    stack = Played(waits, operations=dict.fromkeys("abc", "update"), history=history)
    found = played(stack, most)
    assert (found.result, stack.without) == ("unchanged", without)
    assert bool(without) == any("bought in the last hour" in line for line in found.lines)
    lost = Played(
        waits, operations={"train": "create", **dict.fromkeys("abc", "update")}, history=2
    )
    assert played(lost, 3).result == "changed" and lost.without == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("next_look", "spent_s", "wanted"),
    [(0, 20, 280), (NOW + 99, 20, 100), (NOW + 999, 20, 280), (NOW - 9, 20, 10), (NOW, 99, 1)],
)
def test_next_round_is_at_the_next_look_within_the_interval(next_look, spent_s, wanted) -> None:
    """Never sooner than the shortest interval, never later than the one that was asked for."""
    found = Round(NOW, "unchanged", "", next_look=next_look)
    assert pause_s(found, 300.0, spent_s, NOW) == wanted
    waits = state(("train", "waiting", "", ""), next_at=NOW + 90)
    assert played(Played(waits)).next_look == NOW + 90
    assert played(Played(state(("train", "running", "", "")))).next_look == 0.0


def test_a_failure_before_pulumi_began_is_told_in_its_words() -> None:
    """Where the CLI fails without an event (a wrong passphrase), its own error line is the text,
    not the exit code or a stream's name.
    """
    for stdout, stderr in (
        ("", "error: get stack secrets manager: incorrect passphrase"),
        ("Updating (s):", "warning: old\nerror: no such thing"),
    ):
        failed = failure(
            create_command_error(CommandResult(stdout=stdout, stderr=stderr, code=255)), []
        )
        assert str(failed) == stderr.rpartition("error: ")[2]
    assert (
        str(failure(create_command_error(CommandResult(stdout="", stderr="", code=255)), []))
        == "the Pulumi CLI failed and did not say why"
    )


def test_what_another_run_bought_meanwhile_is_not_this_rounds(monkeypatch) -> None:
    """Machines that came while the round waited are not counted as bought by it."""
    stack = Played(state(), state(("train", "running", "a", "")))
    monkeypatch.setattr(stack, "preview", lambda: Run({"train": "create"}, ("train",), ()))
    found = played(stack)
    assert (found.result, found.bought) == ("unchanged", ())
