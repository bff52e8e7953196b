"""Links on either side of a copy: several names of one file there, and what stands here."""

import asyncio
import io
import os
import shutil
import stat
import subprocess

import pytest

from providers.errors import GpusError
from providers.remote import files
from providers.remote.unpack import Limits, unpacked
from tests.unit.test_copies import END, GOOD, Sends, header, padded

TARS = [["tar"], *([["busybox", "tar"]] if shutil.which("busybox") else [])]


def link(name, to):
    """A hard link's header."""
    return header(name, 0, b"1", at={157: to})


def long_link(name, to):
    """The same with GNU's headers for long names."""
    return b"".join(
        header(b"././@LongLink", len(each) + 1, kind) + padded(each + b"\0")
        for kind, each in ((b"K", to), (b"L", name))
    ) + link(b"short", b"cut off")


def read(target, *parts, limits=None):
    return unpacked(io.BytesIO(b"".join(parts) + END), "out", target, limits)


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("tar", TARS, ids=" ".join)
def test_a_file_with_several_names_arrives_under_each(tmp_path, tar):
    """`tar -h` sends what its links lead to once, and then hard links: `latest` beside a
    checkpoint, a model cache's snapshots. Long names too; again over itself.
    """
    there = tmp_path / "there" / "out"
    deep = "d" * 90
    (there / "blobs" / deep).mkdir(parents=True)
    (there / "step-9").write_text("nine")
    (there / "latest").symlink_to("step-9")
    (there / "blobs" / deep / "b").write_text("blob")
    os.link(there / "blobs" / deep / "b", there / "hard")
    (there / "snapshot").symlink_to(there / "blobs" / deep / "b")
    (there / "folder").symlink_to("blobs")
    sends = Sends(f"cd {there.parent} && exec {' '.join(tar)} -chf - -- out")
    (tmp_path / "here").mkdir()
    for _ in range(2):
        asyncio.run(files.get(sends, "out", tmp_path / "here"))
        assert contents(tmp_path / "here" / "out") == {
            "step-9": "nine",
            "latest": "nine",
            "hard": "blob",
            "snapshot": "blob",
            f"blobs/{deep}/b": "blob",
            f"folder/{deep}/b": "blob",
        }
    assert not any(path.is_symlink() for path in (tmp_path / "here").rglob("*"))
    assert {path.stat().st_nlink for path in (tmp_path / "here").rglob("*") if path.is_file()} == {
        1
    }


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([link(b"out/l", b"/etc/passwd")], "a link to '/etc/passwd', not under 'out'"),
        ([link(b"out/l", b"out/../../secret")], "a link to 'out/../../secret', not under"),
        ([link(b"out/l", b"other/x")], "a link to 'other/x', not under 'out'"),
        ([link(b"../l", b"out/good")], "not under 'out'"),
        ([link(b"out/l", b"")], "a link to '', not under 'out'"),
        ([link(b"out/l", b"out/none")], "'out/none' has not come"),
        ([link(b"out/l", b"out")], "not written through"),
        ([link(b"out/l", b"out/away/secret")], "not written through"),
        ([link(b"out/l", b"out/link")], "not written through"),
        ([link(b"out/l", b"out/good/x")], "not written through"),
        ([link(b"out/away/l", b"out/good")], "not written through"),
        ([link(b"out/link", b"out/good")], "not written through"),
        ([link(b"out/pipe", b"out/good")], "not written through"),
        ([link(b"out/l", b"out/pipe")], "not written through"),
        ([long_link(b"out/l", b"/" + b"x" * 300)], "a link to '/xxx"),
        ([long_link(b"out/l", b"x" * 5_000)], "says what cannot be"),
    ],
)
def test_a_link_reads_and_writes_nothing_but_what_came(tmp_path, parts, words):
    """What it names is outside, missing, a folder, or behind a link or a pipe of this machine."""
    outside, target = tmp_path / "outside", tmp_path / "in" / "out"
    outside.mkdir()
    target.mkdir(parents=True)
    (outside / "secret").write_text("kept")
    (tmp_path / "secret").write_text("kept")
    (target / "away").symlink_to(outside)
    (target / "link").symlink_to(outside / "secret")
    os.mkfifo(target / "pipe")
    said = read(target, GOOD, *parts)
    assert words in said.wrong and said.wrong.isprintable(), said
    assert contents(outside) == {"secret": "kept"} and (tmp_path / "secret").read_text() == "kept"
    assert {"good"} <= {path.name for path in target.iterdir()} <= {"good", "away", "link", "pipe"}


def test_another_name_of_a_file_counts_in_full_and_its_own_name_changes_nothing(tmp_path):
    """A small stream cannot fill the disk: what is written counts, not what was sent."""
    big = header(b"out/big", 400) + padded(b"x" * 400)
    said = read(tmp_path / "a", big, link(b"out/big", b"out/./big"), limits=Limits(1_000, 100))
    assert (said.wrong, said.size) == ("", 400)
    assert contents(tmp_path / "a") == {"big": "x" * 400}
    many = b"".join(link(b"out/%d" % at, b"out/big") for at in range(50))
    said = read(tmp_path / "b", big, many, limits=Limits(1_000, 100))
    assert said.cut and "--max-size" in said.wrong and (said.files, said.size) == (2, 800)
    assert sum(len(text) for text in contents(tmp_path / "b").values()) == 800


def test_another_name_of_what_stands_at_the_target_keeps_its_content(tmp_path):
    """The target is a hard link to a file elsewhere: that one is not written through."""
    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / "out").mkdir()
    os.link(tmp_path / "elsewhere", tmp_path / "out" / "good")
    assert read(tmp_path / "out", GOOD).wrong == ""
    assert (tmp_path / "elsewhere").read_text() == "kept"
    assert (tmp_path / "out" / "good").read_text() == "x"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077, 0o777])
def test_what_arrives_is_as_open_as_the_umask_allows(tmp_path, umask):
    """A private umask keeps a copy private; its owner can use it under any. A file that is there
    stays as open to others as it was.
    """
    target = tmp_path / "out"
    target.mkdir()
    (target / "old").write_text("old")
    (target / "old").chmod(0o640)
    file = header(b"out/new", 1, at={100: b"0000755\0"}) + padded(b"x")
    old = header(b"out/old", 1, at={100: b"0000755\0"}) + padded(b"x")
    before = os.umask(umask)
    try:
        said = read(target, file, old, link(b"out/twin", b"out/new"))
    finally:
        os.umask(before)
    assert said.wrong == ""
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in target.iterdir()}
    new = 0o755 & ~umask | 0o600
    assert modes == {"new": new, "twin": new & ~umask | 0o600, "old": 0o740}
    assert contents(target) == dict.fromkeys(modes, "x")


def test_a_stream_without_end_is_one_line_in_words(tmp_path):
    """What goes on after the end is not taken for the sender's failure."""
    said = subprocess.run(["head", "-c", "3000000", "/dev/zero"], capture_output=True, check=True)
    (tmp_path / "sent").write_bytes(GOOD + said.stdout)
    with pytest.raises(GpusError, match="goes on after it; what came before, 1 bytes"):
        asyncio.run(files.get(Sends(f"exec cat {tmp_path}/sent"), "out", tmp_path / "out"))


@pytest.mark.parametrize("stands", ["a loop", "a link to nothing", "a file"])
def test_what_stands_where_a_folder_was_named_is_said(tmp_path, stands):
    """A slash at the end names a folder: one message that says what to do, and nothing is made."""
    place = tmp_path / "named"
    if stands == "a file":
        place.write_text("kept")
    else:
        place.symlink_to("named" if stands == "a loop" else "nowhere")
    (tmp_path / "sent").write_bytes(GOOD + END)
    with pytest.raises(GpusError, match=r"another kind of file stands there.*move it away"):
        asyncio.run(files.get(Sends(f"exec cat {tmp_path}/sent"), "out", f"{place}/"))
    assert {path.name for path in tmp_path.iterdir()} == {"named", "sent"}
