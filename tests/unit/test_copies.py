"""What is taken from a stranger's tar stream, and how a copy fails."""

import asyncio
import io
import os
import tarfile
import time
from pathlib import Path

import pytest

from providers.errors import GpusError
from providers.model import regular
from providers.remote import files
from providers.remote.line import LocalCommand
from providers.remote.unpack import Limits, unpacked


def stream(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w|") as archive:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.mode = kind, len(content), 0o7777
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                member.linkname = "/etc/passwd"
            archive.addfile(member, io.BytesIO(content))
    return io.BytesIO(out.getvalue())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../evil", tarfile.REGTYPE),
        ("/abs/evil", tarfile.REGTYPE),
        ("out/../../evil", tarfile.REGTYPE),
        ("other", tarfile.REGTYPE),
        ("out/link", tarfile.SYMTYPE),
        ("out/link", tarfile.LNKTYPE),
        ("out/pipe", tarfile.FIFOTYPE),
        ("out/device", tarfile.CHRTYPE),
    ],
)
def test_a_stranger_writes_nothing_beside_what_was_asked_for(tmp_path, name, kind) -> None:
    """Only plain files and folders under the name asked for are taken; the rest is refused by name,
    and nothing of it is written.
    """
    target = tmp_path / "in" / "out"
    said = unpacked(stream(("out/good", tarfile.REGTYPE, b"x"), (name, kind, b"")), "out", target)
    assert said.wrong.startswith(f"refused {name!r}, which is ") and said.files == 1
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()) == [
        Path("in/out/good")
    ]
    assert (target / "good").stat().st_mode & 0o7777 == 0o755


def test_nothing_that_came_is_an_error(tmp_path) -> None:
    """An empty stream is said, not taken for an empty file."""
    assert unpacked(stream(), "out", tmp_path / "out").wrong == "nothing came"


def header(name, size=0, kind=b"0", **fields):
    """One header, with its right sum."""
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108], block[124:136], block[156:157] = b"0000644\0", b"%011o\0" % size, kind
    block[257:265] = fields.get("magic", b"ustar  \0")
    for at, value in fields.get("at", {}).items():
        block[at : at + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def padded(content):
    return content + b"\0" * (-len(content) % 512)


def pax(*records):
    """A pax header of these records."""
    body = b""
    for record in records:
        length = len(record) + 3
        while len(b"%d %s\n" % (length, record)) != length:
            length += 1
        body += b"%d %s\n" % (length, record)
    return header(b"pax", len(body), b"x") + padded(body)


END = b"\0" * 1024
GOOD = header(b"out/good", 1) + padded(b"x")
BAD = {
    "2,000 long names": (header(b"././@LongLink", 5, b"L") + padded(b"out/a")) * 2_000,
    "a long name without end": header(b"././@LongLink", 1 << 32, b"L") + b"a" * 100_000,
    "NUL in a pax path": pax(b"path=out/a\0b") + header(b"out/x", 1) + padded(b"x"),
    "NUL in a long name": (
        header(b"././@LongLink", 7, b"L") + padded(b"out/a\0b") + header(b"out/x") + END
    ),
    "a pax size that is none": pax(b"size=-5") + header(b"out/x") + END,
    "a huge pax size": pax(b"size=" + b"9" * 400) + header(b"out/x") + END,
    "a huge pax length": header(b"pax", 30, b"x") + padded(b"9" * 28 + b" a") + header(b"out/x"),
    "a pax header without lengths": (
        header(b"pax", 9, b"x") + padded(b"path=out\n") + header(b"out/x")
    ),
    "a sparse file by pax": (
        pax(b"GNU.sparse.major=1", b"GNU.sparse.realsize=99999999999")
        + header(b"out/x", 512)
        + b"1\n0\n"
        + b"\0" * 508
        + END
    ),
    "a sparse file": (
        header(
            b"out/x",
            512,
            b"S",
            at={386: b"%011o\0%011o\0" % (1 << 30, 512), 483: b"%011o\0" % (1 << 31)},
        )
        + b"x" * 512
        + END
    ),
    "a bad sparse map": pax(b"GNU.sparse.map=a,b,c", b"GNU.sparse.size=7") + header(b"out/x") + END,
    "a negative size": header(b"out/x", at={124: b"\xff" * 12}) + END,
    "an endless size": header(b"out/x", at={124: b"\x80" + b"\xff" * 11}) + b"x" * 5_000,
    "a size in no base": header(b"out/x", at={124: b"zzz"}) + END,
    "a wrong sum": header(b"out/x")[:-1] + b"x" + END,
    "no tar": b"Last login: Mon\n" * 100,
    "half a file": header(b"out/x", 5_000) + b"x" * 100,
    "half a header": header(b"out/x")[:100],
    "a name too long": (
        header(b"././@LongLink", 9_000, b"L")
        + padded(b"out/" + b"a" * 8_996)
        + header(b"out/x")
        + END
    ),
    "a part too long": (
        header(b"././@LongLink", 1_004, b"L")
        + padded(b"out/" + b"a" * 1_000)
        + header(b"out/x")
        + END
    ),
    "too deep": (
        header(b"././@LongLink", 1_004, b"L")
        + padded(b"out/" + b"a/" * 500)
        + header(b"out/x")
        + END
    ),
    "an unknown kind": header(b"out/x", 0, b"V") + END,
    "control signs in a name": header(b"other\x1b[2J\xe2\x80\xae\xff\n") + END,
}


@pytest.mark.parametrize("name", BAD)
def test_a_hostile_stream_is_one_printable_line_and_what_came_before_it_is_said(
    tmp_path, name
) -> None:
    """Whatever a header says: no exception, no memory, nothing beside the target, and what was
    written is counted.
    """
    begun = time.process_time()
    said = unpacked(io.BytesIO(GOOD + BAD[name]), "out", tmp_path / "in" / "out")
    assert time.process_time() - begun < 1
    assert said.wrong and said.wrong.isprintable() and len(said.wrong) < 400
    assert said.files >= 1
    assert {Path("in"), Path("in/out"), Path("in/out/good")} <= {
        path.relative_to(tmp_path) for path in tmp_path.rglob("*")
    }
    assert (
        sum(path.stat().st_blocks for path in tmp_path.rglob("*") if path.is_file()) * 512 < 1 << 20
    )


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_what_tar_sends_arrives_as_it_was(tmp_path, format) -> None:
    """Long names, other scripts, empty files and folders, bytes that are no text; modes without the
    dangerous bits. Again over itself.
    """
    names = [
        "out/a",
        "out/" + "d" * 60 + "/" + "n" * 90,
        "out/ü 🦄",
        "out/empty",
        "out/sub/" + "x" * 30,
        "out/quote'\"",
    ]
    names += (
        []
        if format == tarfile.USTAR_FORMAT
        else ["out/" + "/".join("y" * 100 for _ in range(5)), "out/\udcff"]
    )
    for _ in range(2):
        sent = io.BytesIO()
        with tarfile.open(fileobj=sent, mode="w|", format=format) as archive:
            for at, name in enumerate(names):
                member = tarfile.TarInfo(name)
                content = bytes([at]) * (700 * at)
                member.size, member.mode = len(content), 0o4750
                archive.addfile(member, io.BytesIO(content))
            folder = tarfile.TarInfo("out/folder")
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
        said = unpacked(io.BytesIO(sent.getvalue()), "out", tmp_path / "there")
        assert (said.wrong, said.files) == ("", len(names) + 1)
    for at, name in enumerate(names):
        place = tmp_path / "there" / name.removeprefix("out/")
        assert place.read_bytes() == bytes([at]) * (700 * at)
        assert place.stat().st_mode & 0o7777 == 0o750
    assert (tmp_path / "there" / "folder").is_dir()


def test_a_stream_over_its_limits_is_cut_and_says_how_to_raise_them(tmp_path) -> None:
    """Bytes and files have limits, refused members count; what arrived before stands, and is
    counted.
    """
    many = b"".join(header(b"out/%d" % at, 300) + padded(b"x" * 300) for at in range(10)) + END
    said = unpacked(io.BytesIO(many), "out", tmp_path / "out", Limits(1_000, 100))
    assert said == (
        3,
        900,
        "wanted at most 1000 bytes, found 1.17 KiB or more; raise it with --max-size",
        True,
    )
    said = unpacked(io.BytesIO(many), "out", tmp_path / "out", Limits(10_000, 4))
    assert (
        said.files == 4
        and said.cut
        and "at most 4 files and folders" in said.wrong
        and "--max-files" in said.wrong
    )
    refused = b"".join(header(b"other/%d" % at, 300) + padded(b"x" * 300) for at in range(10)) + END
    assert unpacked(io.BytesIO(refused), "out", tmp_path / "out", Limits(1_000, 100)).cut


@pytest.mark.parametrize("where", ["target", "folder", "file", "pipe", "dangling"])
def test_nothing_is_written_through_a_link_of_this_machine(tmp_path, where) -> None:
    """A link or a pipe at the target, or below it, is refused; what it names stays as it was."""
    outside, target = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    (outside / "kept").write_text("as it was")
    if where != "target":
        (target / "sub").mkdir(parents=True)
    if where == "target":
        target.symlink_to(outside)
    elif where == "folder":
        (target / "sub").rmdir()
        (target / "sub").symlink_to(outside)
    elif where == "pipe":
        os.mkfifo(target / "sub" / "kept")
    else:
        (target / "sub" / "kept").symlink_to(outside / ("kept" if where == "file" else "new"))
    name = b"out/kept" if where == "target" else b"out/sub/kept"
    said = unpacked(io.BytesIO(header(name, 4) + padded(b"evil") + END), "out", target)
    assert "not written through" in said.wrong and said.files == 0
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("kept", "as it was")]
    single = tmp_path / "single"
    single.symlink_to(outside / "kept")
    assert (
        "not written through"
        in unpacked(
            io.BytesIO(header(b"single", 4) + padded(b"evil") + END), "single", single
        ).wrong
    )
    assert (outside / "kept").read_text() == "as it was"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10GiB", 10 << 30),
        ("1.5 TB", 1_500_000_000_000),
        ("800M", 800 << 20),
        ("1000", 1_000),
        ("5b", 5),
        ("0", 0),
        ("", 0),
        ("GiB", 0),
        ("1e5", 0),
        ("-1", 0),
        ("9" * 400, 0),
        ("1i", 0),
    ],
)
def test_a_size_as_people_write_it(text, size) -> None:
    """Units of 1,024 with an i or a bare letter, of 1,000 with a B; 0 for what is none."""
    assert regular.bytes_of(text) == size


class Sends:
    """A line to a machine that answers any command with this."""

    shown, stand_in = "", True

    def __init__(self, script: str) -> None:
        self.script = script

    def path(self, path: str) -> str:
        return path

    def command(self, _asked: str | None) -> LocalCommand:
        return LocalCommand(("sh", "-c", self.script))

    def login(self) -> LocalCommand:
        raise NotImplementedError

    def tunnel(self, _here: int, _there: int) -> LocalCommand | None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("then", "words"),
    [
        (
            "yes x | head -c 30000000 >&2; exit 1",
            "x; what came before, 1 bytes in 1 files and folders, stands at ",
        ),
        ("printf '\\033[2Jtar: broken\\n' >&2; exit 2", "\\x1b[2Jtar: broken; what came before"),
        ("cat /dev/zero", ""),
        ("yes", "no tar stream came: a number that is none; what came before"),
    ],
)
def test_a_copy_that_fails_is_one_line_with_what_stands_here(tmp_path, then, words) -> None:
    """However much the machine says, and however it ends: the reason once, printable, and what was
    written before it.
    """
    (tmp_path / "sent").write_bytes(GOOD)
    copy = files.get(Sends(f"cat {tmp_path}/sent; {then}"), "out", tmp_path / "out")
    if not words:
        assert asyncio.run(asyncio.wait_for(_ended(copy), 120)) is not None
        return
    with pytest.raises(GpusError) as caught:
        asyncio.run(asyncio.wait_for(copy, 120))
    assert words in str(caught.value)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 600
    assert (tmp_path / "out" / "good").read_bytes() == b"x"


async def _ended(copy):
    """What a copy comes to: its path, or its error."""
    try:
        return await copy
    except GpusError as error:
        return error


def test_a_link_at_the_target_of_a_copy_is_refused_before_anything_is_asked(tmp_path) -> None:
    """It is named; a slash at the end goes into the folder that a link names, for that was asked
    for.
    """
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "sent").write_bytes(GOOD + END)
    sends = Sends(f"cat {tmp_path}/sent")
    with pytest.raises(
        GpusError, match=r"found a link at .*link; remove it, or write .*link/ to go into"
    ):
        asyncio.run(files.get(sends, "out", tmp_path / "link"))
    assert asyncio.run(files.get(sends, "out", f"{tmp_path}/link/")) == tmp_path / "link" / "out"
    assert (tmp_path / "elsewhere" / "out" / "good").exists()
