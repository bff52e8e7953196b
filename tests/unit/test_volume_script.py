"""The start-up script's part for volumes, run for real on loop devices: a disk that stays when its
machine goes.
"""

import os
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from providers.model.volume_mount import VolumeMount
from providers.workloads.launch.start_script import script
from tests.launchers.machines import Machine, job

MIB = 1 << 20


class Disk:
    """A file that stands for a disk, attached as Google attaches one."""

    def __init__(self, folder: Path) -> None:
        self.name = f"t{uuid.uuid4().hex[:10]}"
        self.file, self.path = folder / "disk", str(folder / "mnt")
        self.size(32)
        self.link = Path(f"/dev/disk/by-id/google-gpus-{self.name}")
        self.device = ""

    def size(self, mib: int) -> None:
        os.truncate(self.file, mib * MIB) if self.file.exists() else self.file.write_bytes(
            b"\0" * mib * MIB
        )

    def attach(self) -> None:
        done = subprocess.run(
            ["losetup", "-f", "--show", self.file], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"no loop device here: {done.stderr}")
        self.device = done.stdout.strip()
        self.link.parent.mkdir(parents=True, exist_ok=True)
        self.link.symlink_to(self.device)

    def detach(self) -> None:
        subprocess.run(["umount", self.path], check=False, capture_output=True)
        self.link.unlink(missing_ok=True)
        subprocess.run(["losetup", "-d", self.device], check=False, capture_output=True)


@pytest.fixture
def disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    made = Disk(tmp_path)
    made.attach()
    yield made
    made.detach()


def using(disk: Disk, line: str, *, mode: str = "rw") -> str:
    mount = VolumeMount(disk.name, disk.path, mode == "rw", "gcp", "us-central1-a", "pd-balanced")
    return script(job(line)._replace(volumes=(mount,)))


@pytest.mark.long
def test_a_blank_disk_is_formatted_once_and_keeps_its_data(disk, tmp_path) -> None:
    """A second machine finds what the first one wrote; the same machine's second start mounts it
    once.
    """
    first = Machine(tmp_path / "first")
    assert first.run(using(disk, f"echo 7 >{disk.path}/step")) == 0, first.log
    assert first.run(using(disk, f"echo 8 >{disk.path}/more")) == 0, first.log
    mounted = Path("/proc/self/mounts").read_text()
    assert mounted.count(f" {disk.path} ext4 ") == 1
    disk.detach()
    disk.attach()
    second = Machine(tmp_path / "second")
    assert second.run(using(disk, f"test $(cat {disk.path}/step) = 7")) == 0, second.log
    disk.detach()
    disk.attach()
    third = Machine(tmp_path / "third")
    line = f"cat {disk.path}/step && ! touch {disk.path}/no"
    assert third.run(using(disk, line, mode="ro")) == 0, third.log


@pytest.mark.long
def test_a_disk_that_is_not_blank_is_never_formatted(disk, tmp_path) -> None:
    """Bytes that no file system begins with are somebody's data all the same."""
    disk.detach()
    content = os.urandom(4096) + b"\0" * (32 * MIB - 4096)
    disk.file.write_bytes(content)
    disk.attach()
    machine = Machine(tmp_path / "machine")
    assert machine.run(using(disk, "true")) != 0
    assert any(word.startswith("setup-wrong") for word in machine.words), machine.log
    assert disk.file.read_bytes() == content


@pytest.mark.long
def test_the_file_system_follows_a_disk_that_grows_while_it_is_mounted(disk, tmp_path) -> None:
    """resize2fs is recorded: to grow a mounted file system takes a right that containers lack."""
    machine, calls = Machine(tmp_path / "machine"), tmp_path / "calls"
    machine.tool("sleep", 'exec /bin/sleep "$(awk -v s="$1" \'BEGIN { print s / 20 }\')"')
    machine.tool("resize2fs", f'echo "$* $(blockdev --getsize64 "$1")" >>{calls}')
    process = machine.begin(using(disk, "/bin/sleep 60"))
    machine.until("running")
    machine.end()
    # Mounted by an earlier start.
    (machine.folder / "console").write_text("")
    process = machine.begin(using(disk, "/bin/sleep 61"))
    machine.until("running")
    time.sleep(1.5)
    assert not calls.exists()
    disk.size(64)
    subprocess.run(["losetup", "-c", disk.device], check=True)
    until = time.monotonic() + 20
    while not calls.exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert calls.read_text() == f"{disk.device} {64 * MIB}\n", machine.log
    machine.end()
    process.wait(30)


@pytest.mark.long
def test_an_ebs_volume_is_found_by_its_serial_number(disk, tmp_path) -> None:
    """The machine was told the id; `lsblk` shows it without the hyphen."""
    disk.link.unlink()
    machine = Machine(tmp_path / "machine")
    machine.tool("lsblk", f'echo "nvme0n1 vol0ff"; echo "{Path(disk.device).name} vol0ab12"')
    (tmp_path / "ids").write_text(f"other vol-0ff\n{disk.name} vol-0ab12\n")
    text = using(disk, f"echo 1 >{disk.path}/step")
    text = text.replace("volume_ids=/var/lib/gpus/volumes", f"volume_ids={tmp_path}/ids")
    assert machine.run(text) == 0, machine.log
    assert Path(disk.path, "step").read_text() == "1\n"


@pytest.mark.long
def test_a_volume_that_never_comes_ends_the_start(tmp_path) -> None:
    machine = Machine(tmp_path / "machine")
    mount = VolumeMount("absent", str(tmp_path / "mnt"), provider="gcp")
    text = script(job("true")._replace(volumes=(mount,)))
    assert machine.run(text.replace("volume_wait=600", "volume_wait=1")) != 0
    assert any("the volume absent did not come" in word for word in machine.words)
