"""A folder over a real ssh server: what arrives, what a second sync does, and what an interrupted
one leaves.
"""

import asyncio
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from providers.adhoc.sync import portal
from providers.errors import GpusError
from providers.remote import rsync, run
from providers.remote.line import LocalCommand
from providers.remote.rsync import NotSendable, There, sent
from providers.remote.tree import scanned

if TYPE_CHECKING:
    from providers.remote.line import Line

pytestmark = pytest.mark.skipif(shutil.which("rsync") is None, reason="rsync is not installed")
THERE = There("workdir")
LIMIT = 1 << 30
ODD = "with blank, 'quote' and\nline"
OPTION = "-n: *"


@pytest.fixture
def project(tmp_path):
    """A folder with what a project has: a program, a link, an ignored file."""
    folder = tmp_path / "project"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "train.py").write_text("print('v1')\n")
    (folder / "run.sh").write_text("#!/bin/sh\nexec cat train.py\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "deep" / "er" / ODD).write_text("odd")
    (folder / OPTION).write_text("no option, no machine, no pattern")
    (folder / "latest").symlink_to("deep/er")
    (folder / ".gitignore").write_text("secret\n")
    (folder / "secret").write_text("s3cret")
    return folder


def names(folder):
    """Every file and link below it, as paths."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    )


@pytest.mark.core
def test_a_folder_arrives_with_links_and_permissions_and_what_a_job_wrote_stays(
    bench, project, monkeypatch
) -> None:
    """A second sync brings what changed and removes what was deleted here, and nothing else; also
    where there are too many names for arguments.
    """
    machine = bench.rent()
    there = bench.host.home / "workdir"
    machine.send(scanned(project, LIMIT).digest, THERE)
    assert names(there) == [OPTION, ".gitignore", f"deep/er/{ODD}", "latest", "run.sh", "train.py"]
    assert (there / "latest").readlink() == Path("deep/er")
    assert stat.S_IMODE((there / "run.sh").stat().st_mode) == 0o755
    (there / "deep" / "er" / "checkpoint").write_text("written by the job")
    (there / "out").write_text("likewise")
    (project / "train.py").write_text("print('v2')\n")
    (project / "deep" / "er" / ODD).unlink()
    (project / "latest").unlink()
    (project / "latest").write_text("no link any more")
    again = scanned(project, LIMIT)
    monkeypatch.setattr(rsync, "ARGUMENTS_MOST", 0)
    machine.send(again.digest, THERE)
    assert names(there) == [
        OPTION,
        ".gitignore",
        "deep/er/checkpoint",
        "latest",
        "out",
        "run.sh",
        "train.py",
    ]
    assert (there / "train.py").read_text() == "print('v2')\n"
    assert (there / "latest").read_text() == "no link any more"
    assert (bench.host.home / "workdir.digest").read_text().strip() == again.digest
    machine.release()


class Cut:
    """A line that loses its first transfers in their midst."""

    def __init__(self, line, times) -> None:
        self.line, self.left = line, times
        self.stand_in = False

    def path(self, path):
        return path

    def command(self, text):
        launch = self.line.command(text)
        if text or not self.left:
            return launch
        self.left -= 1
        # Each read is passed on as it comes; at most 786 kB of them.
        cut = 'dd bs=65536 count=12 2>/dev/null | "$@"; exit 255'
        return LocalCommand(("sh", "-c", cut, "cut", *launch.argv), launch.env)


def cut(line, times):
    """The same, for the type checker: what is not asked of it here is not there."""
    return cast("Line", Cut(line, times))


def test_a_transfer_that_was_cut_short_is_gone_on_with(bench, project, monkeypatch) -> None:
    """A lost connection is tried again by itself. Until all has arrived nothing says that it has,
    and what is deleted here meanwhile is removed there.
    """
    monkeypatch.setattr(rsync, "PAUSES_S", (0.0,))
    (project / "large").write_bytes(os.urandom(2_000_000))
    machine = bench.rent()
    there, label = bench.host.home / "workdir", bench.host.home / "workdir.digest"
    line = machine.inner.line()
    with pytest.raises(GpusError):
        portal().run(sent(cut(line, 2), scanned(project, LIMIT), THERE))
    assert not label.exists()
    assert not (there / "large").exists() or (there / "large").stat().st_size < 2_000_000
    (project / "run.sh").unlink()
    tree = scanned(project, LIMIT)
    portal().run(sent(cut(line, 1), tree, THERE))
    assert label.read_text().strip() == tree.digest
    assert (there / "large").read_bytes() == (project / "large").read_bytes()
    assert not (there / "run.sh").exists()
    machine.release()


def test_a_folder_that_changes_meanwhile_is_sent_as_it_is(bench, project) -> None:
    """What was deleted since the look is no fault; a folder that has gone is one, told as such."""
    machine = bench.rent()
    tree = scanned(project, LIMIT)
    (project / "run.sh").unlink()
    machine.send(tree.digest, THERE)
    assert "run.sh" not in names(bench.host.home / "workdir")
    project.rename(project.with_name("moved"))
    with pytest.raises(NotSendable, match=f"no folder at {project}"):
        machine.send(tree.digest, THERE)
    with pytest.raises(NotSendable, match="does not know it"):
        machine.send("0" * 16, THERE)
    machine.release()


def test_a_folder_that_cannot_be_written_there_says_so(bench, project) -> None:
    """The first line of what the other side says, with the machine's name."""
    (bench.host.home / "workdir").write_text("a file is in the way")
    machine = bench.rent()
    with pytest.raises(GpusError, match=r"wanted to send .*project to .*mkdir.*workdir"):
        machine.send(scanned(project, LIMIT).digest, THERE)
    machine.release()


def test_several_machines_get_it_side_by_side(bench, project) -> None:
    """All of them at once; the marker of each is written once it has all."""
    machine = bench.rent()
    line, tree = machine.inner.line(), scanned(project, LIMIT)
    folders = [There(f"node{each}/workdir") for each in range(3)]

    async def all_of_them():
        await asyncio.gather(*(sent(line, tree, each) for each in folders))

    portal().run(all_of_them())
    for each in folders:
        assert names(bench.host.home / each.folder) == sorted(tree.files)
        label = bench.host.home / f"{each.folder}.digest"
        assert label.read_text().strip() == tree.digest
    machine.release()


def test_an_edit_goes_by_one_connection_in_three_steps(bench, project, monkeypatch) -> None:
    """What was sent is asked for, what differs is sent, and that all has arrived is said."""
    machine = bench.rent()
    machine.send(scanned(project, LIMIT).digest, THERE)
    begun, real = [], run.started

    def counted(launch, **more):
        begun.append(launch.argv)
        return real(launch, **more)

    monkeypatch.setattr(rsync, "started", counted)
    (project / "train.py").write_text("print('v2')\n")
    machine.send(scanned(project, LIMIT).digest, THERE)
    assert [Path(argv[0]).name for argv in begun] == ["ssh", "ssh", "rsync", "ssh"]
    sockets = [{word for word in argv if word.startswith("ControlPath=")} for argv in begun]
    assert sockets[0] == sockets[1] == sockets[3] != {"ControlPath=none"}
    assert ["-N" in argv for argv in begun] == [True, False, False, False]
    machine.release()
