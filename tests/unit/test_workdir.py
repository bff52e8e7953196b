"""Which files of a folder are sent, what makes two folders the same, and what is refused."""

import os
import subprocess
import time
from typing import Any

import pytest

from providers.errors import SpecError
from providers.model.spec import read_cluster
from providers.model.workload import Task, Workload
from providers.remote import tree
from providers.workloads.launch.compile import program
from providers.workloads.launch.start_script import script

LIMIT = 1 << 20
HELD = {"path": ".", "digest": "0" * 16, "files": 1, "size": 1}
JOB: dict[str, Any] = {"gpu": "L4", "kind": "job", "workload": {"command": "python train.py"}}


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "gpus"))


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    for name in ("train.py", "sub/code.py", "sub/data.bin", "deep/er/x.bin", ".env", "Pulumi.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "stacks").mkdir()
    (folder / "stacks" / "Pulumi.dev.yaml").write_text("secrets")
    (folder / ".pulumi").mkdir()
    (folder / ".pulumi" / "state").write_text("state")
    (folder / ".gitignore").write_text(".env\n*.bin\n!sub/data.bin\n")
    (folder / "out").symlink_to("/somewhere/else")
    os.mkfifo(folder / "pipe")
    return folder


def git(folder, *words) -> None:
    subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *words],
        check=True,
        capture_output=True,
    )


SENT = [".gitignore", "out", "sub/code.py", "train.py"]


def test_what_gitignore_names_and_what_pulumi_keeps_is_left_out(project) -> None:
    """With git and without; links are kept as links, and a pipe is nothing that is sent."""
    plain = tree.scanned(project, LIMIT)
    assert [name for name in plain.files if name != "sub/data.bin"] == SENT
    git(project, "init")
    checkout = tree.scanned(project, LIMIT)
    assert list(checkout.files) == [".gitignore", "out", "sub/code.py", "sub/data.bin", "train.py"]
    git(project, "add", "-A")
    git(project, "commit", "-m", "x")
    (project / "sub" / "code.py").unlink()
    (project / "new.py").write_text("untracked")
    later = tree.scanned(project, LIMIT)
    assert list(later.files) == [".gitignore", "new.py", "out", "sub/data.bin", "train.py"]


def test_a_repository_inside_is_read_by_its_own_rules(project) -> None:
    """A submodule's or another checkout's files are sent too, without its `.git`."""
    inner = project / "lib"
    inner.mkdir()
    (inner / "lib.py").write_text("x")
    (inner / "skip.me").write_text("x")
    (inner / ".gitignore").write_text("skip.me\n")
    git(project, "init")
    git(inner, "init")
    found = tree.scanned(project, LIMIT).files
    assert {"lib/lib.py", "lib/.gitignore"} <= found.keys()
    assert not any("skip.me" in name or ".git/" in name for name in found)


def test_a_digest_follows_content_names_and_permissions_and_nothing_else(project) -> None:
    """A touched file and another umask are no edit; an executable bit is one."""
    first = tree.scanned(project, LIMIT).digest
    os.utime(project / "train.py", (1, 1))
    (project / "train.py").chmod(0o640)
    assert tree.scanned(project, LIMIT).digest == first
    seen = {first}
    for change in (
        lambda: (project / "train.py").write_text("TRAIN.py"),
        lambda: (project / "train.py").chmod(0o755),
        lambda: (project / "train.py").rename(project / "other.py"),
        lambda: (project / "out").unlink() or (project / "out").symlink_to("elsewhere"),
    ):
        change()
        digest = tree.scanned(project, LIMIT).digest
        assert digest not in seen
        seen.add(digest)


def test_a_file_that_changes_within_a_timestamp_is_read_again(project) -> None:
    """Same size, same modification time: the digest still follows."""
    path = project / "train.py"
    before = path.stat()
    first = tree.scanned(project, LIMIT).digest
    path.write_text("train.PY")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert tree.scanned(project, LIMIT).digest != first


def test_what_did_not_change_is_not_read_again(project) -> None:
    """A second look at many files that have settled takes their digests from the first."""
    big = project / "big"
    with big.open("wb") as file:
        file.truncate(300 << 20)
    old = time.time() - 60
    os.utime(big, (old, old))
    time.sleep(2.1)  # a change within two seconds of a look counts as unsettled
    first = tree.scanned(project, 1 << 30)
    begun = time.process_time()
    assert tree.scanned(project, 1 << 30).digest == first.digest
    assert time.process_time() - begun < 0.2


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("missing", "wanted a folder, found none at"),
        ("train.py", "wanted a folder, found none at"),
        ("deep", "wanted a folder with files that are not ignored, found none in"),
        ("a\0b", "wanted a folder, found"),
        ("~", "which holds your home folder"),
        ("/", "which holds your home folder"),
        ({"path": ".", "limit": "20"}, "wanted at most 20 bytes, found"),
        ({"path": ".", "limit": "much"}, "workdir.limit: wanted a size such as 10GiB"),
        ({"path": ".", "limit": 5}, "workdir.limit: wanted a size such as 10GiB"),
    ],
)
def test_a_folder_that_cannot_be_sent_is_refused_with_what_is_wrong(project, given, found) -> None:
    """At plan time, before anything is bought; the largest files are named where it is too much."""
    (project / "deep" / ".gitignore").write_text("*\n")
    with pytest.raises(SpecError, match=found):
        tree.field(given, project)


@pytest.mark.parametrize("given", [5, ["."], {"limit": "1GiB"}, {"path": 5}, {"path": "."}, "."])
def test_what_is_no_folder_is_left_for_the_spec_to_refuse(given) -> None:
    """A list, a number, no path: with the field's own name. A folder nobody looked at likewise."""
    with pytest.raises(SpecError, match="workdir"):
        read_cluster("t", {**JOB, "workdir": given})


def test_a_folder_is_looked_at_once_and_shows_as_what_it_holds(project) -> None:
    """Relative to the project's folder; what was looked at stays as it is."""
    found = tree.field({"path": "sub", "limit": "1MiB"}, project)
    assert isinstance(found, dict)
    assert found == {"path": "sub", "digest": found["digest"], "files": 2, "size": 23}
    assert tree.field(found, project) == found
    spec = read_cluster("t", {**JOB, "workdir": found})
    assert spec.setup().workdir == found["digest"]


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"gpu": "L4", "workdir": HELD}, "workdir: wanted a workload that runs in it"),
        ({**JOB, "workdir": HELD, "ready": "running"}, "ready: wanted checked: a folder is sent"),
    ],
)
def test_a_folder_needs_a_workload_and_a_login(fields, wrong) -> None:
    """Nobody would run in it, and nobody could bring it."""
    with pytest.raises(SpecError, match=wrong):
        read_cluster("t", fields)


def test_a_strangers_host_gets_a_folder_only_where_it_is_trusted() -> None:
    """As with secrets: its owner could read it."""
    from providers.engine import validate

    spec = {**JOB, "gpu": "RTX-4090", "workdir": HELD, "providers": ["clore"]}
    with pytest.raises(SpecError, match=r"trust_marketplace: wanted no folder \(workdir\)"):
        validate.cluster("t", spec)
    validate.cluster("t", {**spec, "options": {"clore": {"trust_marketplace": True}}})


def waits(command, digest, **more):
    """The script of a job that runs in a folder."""
    tasks = (Task(command=command),)
    return script(program(Workload(tasks, workdir=digest, **more), "job", "H100", 1))


def test_a_command_waits_for_its_folder_and_runs_in_it(machine) -> None:
    """Setup lines too. What is there of another folder is not taken for it."""
    folder = machine.folder / "root" / "workdir"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text("print('trained')")
    machine.hand("workdir.digest", "0" * 16 + "\n")
    machine.begin(waits("python3 train.py", "1" * 16, setup=("cat train.py >copy",)))
    machine.until("starting")
    time.sleep(1.5)
    assert machine.words == ["starting"]
    machine.hand("workdir.digest", "1" * 16 + "\n")
    machine.until("succeeded 0", 30)
    assert "trained" in machine.log
    assert (folder / "copy").read_text() == "print('trained')"


def test_a_container_runs_in_the_folder_which_it_can_write(machine) -> None:
    """It is mounted where it lies, and is the working directory also beside sent files."""
    machine.tool(
        "docker",
        f'printf "%s\\n" "$*" >>{machine.folder}/calls\n'
        'case "$*" in info*) echo \'{"nvidia":{}}\' ;; esac',
    )
    machine.tool("nvidia-smi", "exit 0")
    (machine.folder / "root" / "workdir").mkdir(parents=True)
    machine.hand("workdir.digest", "1" * 16)
    files = (("x.txt", "H4sIAAAAAAACAwMAAAAAAAAAAAA="),)
    assert machine.run(waits("true", "1" * 16, image="own:1", files=files)) == 0, machine.log
    (run,) = [
        line for line in (machine.folder / "calls").read_text().splitlines() if " --init " in line
    ]
    root = machine.folder / "root"
    assert f"-v {root}:{root} " in run
    assert f"-w {root}/workdir " in run
    assert f"-w {machine.folder} " not in run


def test_rsync_is_installed_before_anything_else_is(machine) -> None:
    """Where the machine has none: the folder comes while the image is pulled."""
    tools = machine.folder / "tools"
    tools.mkdir()
    for name in (
        "bash",
        "cat",
        "mkdir",
        "mv",
        "tee",
        "flock",
        "kill",
        "seq",
        "sleep",
        "rm",
        "grep",
        "tail",
    ):
        (tools / name).symlink_to(f"/bin/{name}")
    calls = machine.folder / "calls"
    (tools / "apt-get").write_text(
        f'#!/bin/sh\necho "$*" >>{calls}\n[ "$1" = update ] || {{ echo E: none; exit 100; }}\n'
    )
    (tools / "dpkg").write_text("#!/bin/sh\n")
    for name in ("apt-get", "dpkg"):
        (tools / name).chmod(0o755)
    assert machine.run(waits("true", "1" * 16, image="own:1"), PATH=str(tools)) == 1
    assert machine.words[-1] == "setup-failed 1 rsync could not be installed: E: none"
    assert calls.read_text().endswith(" rsync\n") and "docker" not in calls.read_text()


def test_what_runs_changes_with_its_folder_and_not_without_one() -> None:
    """Otherwise an edit would not start it anew; clusters without a folder go on as they are."""
    plain = program(Workload((Task(command="a"),)), "job", "H100", 1)
    one, other = (
        program(Workload((Task(command="a"),), workdir=each), "job", "H100", 1) for each in "ab"
    )
    assert len({plain.digest, one.digest, other.digest}) == 3
