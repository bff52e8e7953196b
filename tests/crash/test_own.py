"""What holds for part C's own machinery: its points, and that its counting notices what it is there
for.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.own import STEPS, UNPLUGGED, WHO, is_point, points
from tests.crash.own_boxes import Boxes
from tests.plugin.boxes import SSHD


def test_every_step_on_own_machines_is_cut_and_everyone_dies() -> None:
    """No point is listed twice, and each can be named."""
    found = points(1)
    names = [point.name.split("/") for point in found]
    assert len(found) == len(set(found)) > 30
    assert {step for step, *_ in names} == {*STEPS}
    assert {who for *_, who in names} == {*WHO, UNPLUGGED}
    assert all(is_point(point.name, point.cloud) for point in found)
    assert not is_point("up/take-before/cli", "gcp") and not is_point("up/never/cli", "ssh")


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Boxes]:
    if SSHD is None:
        pytest.skip("needs OpenSSH's server: openssh-server")
    made = Boxes(tmp_path)
    yield made
    made.end()


@pytest.mark.long
def test_what_is_left_on_a_machine_is_counted(rack: Boxes) -> None:
    """A lease, a job without one, a file, and a second lease at the same time."""
    box = rack.all[0]
    assert rack.settled({}, 0) == []
    lease = box.root / "leases" / "token"
    lease.mkdir(parents=True)
    (lease / "lease").write_text("cluster=train\n")
    env = {**os.environ, "GPUS_LEASE": "token", "GPUS_LEASE_FOLDER": f"{lease}/own"}
    with subprocess.Popen(["sleep", "60"], env=env) as job:
        try:
            (box.folder / "began").write_text(f"token {job.pid}\n" * 2)
            assert rack.settled({"train": 1}, 0)[0].startswith("duplicates: train: wanted 1 jobs")
            assert rack.begun_twice() == ["box-1/token"]
            (lease / "lease").unlink()
            (line, *_) = rack.settled({}, 0)
            assert line.startswith("orphans: a job without a lease")
        finally:
            job.kill()
    (box.root / "left").touch()
    assert rack.settled({}, 0) == [f"orphans: left on box-1: ['{box.root}/left']"]
    (box.folder / "seen").write_text("1 take train/a\n3 release\n")
    (rack.all[1].folder / "seen").write_text("2 take train/b\n")
    assert "at most 1 leases of train" in rack.overlaps({"train": 1})
    assert rack.overlaps({"train": 2}) == ""
