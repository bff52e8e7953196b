"""The crash matrix in short: a sample of both parts, and that it notices what it is there for."""

import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.crash import matrix
from tests.crash.calls import recorded
from tests.crash.matrix import PARTS, SEED, points, report, results, sample
from tests.crash.point import CLOUDS, Point, Result, count, overlaps
from tests.crash.replies import calls_of
from tests.plugin.boxes import SSHD

pytestmark = pytest.mark.long

SIZES = {"a": 15, "b": 100, "c": 3}
SHARES = [*(("a", share) for share in range(5)), *(("b", share) for share in range(4)), ("c", 0)]
"""The part, and which of its shares: workers take them side by side, and none has the last one long
for itself.
"""
REPOSITORY = Path(__file__).parents[2]

BROKEN = {
    # An answer that was lost is taken for "nothing was made", and the next order has a token of its
    # own.
    ("gcp", "up/dropped@regionInstances.bulkInsert#0"): (
        "async def nothing(*_): return None\norder.certain = nothing\ngcp.MANIFEST ="
        " gcp.MANIFEST._replace(capabilities=gcp.CAPABILITIES._replace(deduplicates=False))"
    ),
    # A deletion whose answer was lost is taken for done, and so is every other.
    (
        "gcp",
        "destroy/5xx-before@instances.delete#0",
    ): "async def done(*_, **__): return Remainder()\nend.release = done",
    # The engine is gone, and what it had ordered is kept.
    ("gcp", "up/engine-gone@regionInstances.bulkInsert#0"): (
        "async def kept(world, work, undo): return await shielded(world, work,"
        " None)\noperations.shielded = kept\nStopSignal.on = False"
    ),
    # A market says that the server is taken, and the next one is rented.
    ("clore", "up/twice@create_order#0"): "CloreAdapter.resume = lambda *_: None",
}


def test_every_part_of_the_matrix_has_its_shares() -> None:
    assert {part for part, _ in SHARES} == set(PARTS) == set(SIZES)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("part", "share"), SHARES)
def test_b26_a_sample_of_the_matrix_leaves_no_orphan_no_duplicate_and_nothing_stuck(
    part: str, share: int
) -> None:
    """After any crash or broken reply the documented recovery ends at exactly what is declared, and
    destroy at nothing.
    """
    if part == "c" and SSHD is None:
        pytest.skip("needs OpenSSH's server: openssh-server")
    whole = sample(points([part], SEED), SIZES[part], SEED)
    assert len(whole) == SIZES[part]
    chosen = whole[share :: sum(each == part for each, _ in SHARES)]
    said: list[str] = []
    assert report(list(results(chosen)), said.append), "\n".join(said)
    assert said[-1].endswith(f"points {len(chosen)}, orphans 0, duplicates 0, stuck 0")


@pytest.mark.parametrize(("cloud", "name"), sorted(BROKEN), ids=lambda value: value)
def test_the_matrix_notices_a_broken_rule(cloud: str, name: str, tmp_path: Path) -> None:
    """With a rule of the engine broken on purpose, the point that is about it fails."""
    code = f"""
from pathlib import Path
from providers.adapters import gcp
from providers.adapters.clore.adapter import CloreAdapter
from providers.engine import operations
from providers.engine.launch import order
from providers.engine.runtime.tasks import StopSignal, shielded
from providers.engine.termination import end
from providers.engine.termination.settle import Remainder
from tests.crash import replies
from tests.crash.point import Point
{BROKEN[cloud, name]}
found = replies.run(Point("b", {name!r}, {cloud!r}, 1), Path({str(tmp_path)!r}))
print(found.orphans, found.duplicates, found.stuck)
print(found.detail)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] != "0 0 0", done.stdout


def test_a_sample_is_even_and_the_same_for_the_same_seed() -> None:
    """Each cloud and step has its share of a sample, and a seed chooses the same one again."""
    all_points = [
        Point("b", f"{step}/{number}", cloud, 1)
        for cloud in ("gcp", "aws")
        for step in ("up", "destroy")
        for number in range(30)
    ]
    chosen = sample(all_points, 40, 7)
    assert chosen == sample(all_points, 40, 7) != sample(all_points, 40, 8)
    shares = [
        sum((point.cloud, point.step) == kind for point in chosen)
        for kind in (("gcp", "up"), ("gcp", "destroy"), ("aws", "up"), ("aws", "destroy"))
    ]
    assert shares == [10, 10, 10, 10]


def test_the_points_of_a_seed_are_the_same_on_every_run_and_any_of_them_can_be_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No list depends on the machine's load; what was printed once can be run again, listed or not."""
    first = points(PARTS, 7771)
    assert first == points(PARTS, 7771) != points(PARTS, 7772)
    assert all(
        import_module(PARTS[point.part]).is_point(point.name, point.cloud) for point in first
    )
    assert not any(import_module(PARTS[part]).is_point("up/no-such/thing", "aws") for part in PARTS)
    words = ["--part", "b", "--cloud", "aws", "--seed", "7771", "--list", "--only"]
    assert matrix.main([*words, "up/outage@ec2.DeleteLaunchTemplate#1"]) == 0
    assert capsys.readouterr().out == "b aws    up/outage@ec2.DeleteLaunchTemplate#1\n"
    assert matrix.main([*words, "up/outage@nothing"]) == 2


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_recorded_calls_are_those_that_are_made(cloud: str) -> None:
    """The calls of an `up` that change something come as recorded; otherwise `python -m
    tests.crash.calls` is to be run again.
    """
    wanted = Counter(call for call in recorded()[cloud, "up"] if call[0] != "GET")
    found = Counter(one_in_a_process(cloud, "up"))
    assert wanted and wanted <= found


def one_in_a_process(cloud: str, step: str) -> list[tuple[str, str]]:
    """The calls of a step, made in a process that does nothing else."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(calls_of, cloud, step).result()


DYING = """
import os, signal, time
from tests.crash.point import Result

def one(point):
    if point.name == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if point.name == "waits":
        time.sleep(600)
    return Result(point)
"""


def test_a_point_that_dies_or_waits_for_ever_is_stuck_and_the_others_are_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process that is killed and one that never answers cost one point each, never the run."""
    (tmp_path / "dying.py").write_text(DYING, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(matrix, "one", import_module("dying").one)
    monkeypatch.setattr(matrix, "LONGEST_S", 5.0)
    found = {
        result.point.name: result.stuck
        for result in results(
            [Point("b", name, "gcp", 1) for name in ("dies", "waits", "good", "too")], 2
        )
    }
    assert found == {"dies": 1, "waits": 1, "good": 0, "too": 0}


def test_the_report_ends_with_the_sum_and_says_how_to_see_a_failure_again() -> None:
    """The last line is the sum; a failure is told with its words and its command."""
    bad = Point("b", "up/dropped@create_order#0", "clore", 3)
    said: list[str] = []
    assert not report(
        [Result(Point("b", "up/good", "clore", 3)), Result(bad, orphans=2, detail="two are left")],
        said.append,
    )
    assert said[-1].strip() == "points 2, orphans 2, duplicates 0, stuck 0"
    assert any(
        "two are left" in line
        and "--part b --cloud clore --seed 3 --only 'up/dropped@create_order#0'" in line
        for line in said
    )


def test_what_runs_is_counted_from_the_cloud_s_own_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More machines than declared are duplicates, undeclared ones orphans, and two at once in the
    past are seen afterwards.
    """
    from providers.rehearsal.clouds.modal.state import Sandbox, State
    from providers.rehearsal.store import open_store

    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    store = open_store()
    state, now = State(store), store.now()
    tags = '{"gpus-owner": "o1", "gpus-cluster": "train", "gpus-generation": "g1"}'

    def add(number: int, begins: float, ended: float | None) -> None:
        state.add(
            Sandbox(
                f"sb-{number}",
                "ap",
                "",
                "",
                "any",
                "A10",
                0,
                1,
                3600.0,
                begins,
                begins,
                "",
                f"ta-{number}",
                begins,
                "A10",
                ended,
                "",
                tags,
                b"",
            )
        )

    add(1, now - 90, now - 50)
    add(2, now - 60, None)
    assert count(tmp_path, "o1", {"train": 1})[:3] == (0, 0, 0)
    assert count(tmp_path, "o1", {})[:3] == (1, 0, 0)
    assert count(tmp_path, "another", {})[:3] == (0, 0, 0)
    assert count(tmp_path, "o1", {"train": 2})[:3] == (0, 0, 1)
    assert overlaps(tmp_path, "o1", {"train": 1})[0] == 1
    assert overlaps(tmp_path, "o1", {"train": 2})[0] == 0
    add(3, now - 5, None)
    assert count(tmp_path, "o1", {"train": 1})[:3] == (0, 1, 0)
