"""What is kept between runs is its owner's alone, whatever the umask: folders 0700, files 0600."""

import os
import stat
import subprocess
import sys

import pytest

from providers.cli.main import main
from providers.cli.watch import RoundLog
from providers.home import home, private, private_folder


def open_to_others(root):
    return sorted(
        f"{oct(path.stat().st_mode)} {path}"
        for path in (root, *root.rglob("*"))
        if path.stat().st_mode & 0o077 and not path.is_symlink()
    )


def closed_to_owner(root):
    return sorted(
        f"{oct(path.stat().st_mode)} {path}"
        for path in (root, *root.rglob("*"))
        if path.stat().st_mode & 0o600 != 0o600
    )


@pytest.mark.parametrize("umask", ["0", "0o022", "0o002", "0o077", "0o777"])
def test_a_rehearsal_life_leaves_nothing_open_to_others(tmp_path, umask) -> None:
    """A machine acquired and kept, and a look at it from the command line: every file and folder of
    the home.
    """
    place = tmp_path / "state" / "gpus"
    env = {**os.environ, "GPUS_HOME": str(place)}
    code = (
        f"import os; os.umask({umask}); import providers as gpus\nwith gpus.provision('L4:1',"
        " name='mine', keep=True): pass"
    )
    for words in (
        ["-c", code],
        [
            "-c",
            (
                f"import os, sys; os.umask({umask}); from providers.cli.main import main;"
                " sys.exit(main(['ps']))"
            ),
        ],
    ):
        done = subprocess.run(
            [sys.executable, *words],
            check=False,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert (place / "rehearsal.db").exists() and (place / "journal.db").exists()
    assert open_to_others(place) == []
    assert closed_to_owner(place) == []


def test_an_open_home_is_closed_with_a_line(tmp_path, monkeypatch, capsys) -> None:
    """One that was made under a lax umask is mended at its next use, and said; only once."""
    place = tmp_path / "home"
    place.mkdir()
    place.chmod(0o777)
    monkeypatch.setenv("GPUS_HOME", str(place))
    assert home() == place
    assert place.stat().st_mode & 0o777 == 0o700
    said = capsys.readouterr().err
    assert str(place) in said and "0777" in said and said.count("\n") == 1
    home()
    assert capsys.readouterr().err == ""


def test_files_and_folders_are_private_whatever_the_umask(tmp_path) -> None:
    """New ones are made so, existing files are mended."""
    before = os.umask(0)
    try:
        folder = private_folder(tmp_path / "a" / "b")
        made = private(folder / "new")
        (folder / "old").write_text("kept")
        (folder / "old").chmod(0o666)
        old = private(folder / "old")
    finally:
        os.umask(before)
    assert open_to_others(tmp_path / "a") == closed_to_owner(tmp_path / "a") == []
    assert made.read_text() == "" and old.read_text() == "kept"


def test_a_command_keeps_its_owners_rights_and_hides_what_the_umask_hides(tmp_path, monkeypatch):
    """A umask that takes rights from the user himself leaves no folder that nobody can use; the
    log of a watch is the user's alone.
    """
    log, place = tmp_path / "watch.jsonl", tmp_path / "gpus"
    monkeypatch.setenv("GPUS_HOME", str(place))
    before = os.umask(0o777)
    try:
        found = main(["ps"])
        inherited = os.umask(0o777)
        os.umask(0o000)
        RoundLog(str(log))
    finally:
        os.umask(before)
    assert (found, inherited) == (0, 0o077)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    log.chmod(0o640)
    RoundLog(str(log))
    assert stat.S_IMODE(log.stat().st_mode) == 0o640
    assert not place.exists() or closed_to_owner(place) == []
