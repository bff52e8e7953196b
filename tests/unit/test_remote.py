"""What a driver's answer means, where a port answers, what ssh is told, and what is taken from a
stranger's tar stream.
"""

import asyncio
import io
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from providers.adapters.base import keep_status
from providers.catalog.names import nominal_memory_gib
from providers.remote.probe import NO_DRIVER, WRONG_GPUS
from providers.remote import driver, files
from providers.remote.unpack import Limits, unpacked
from providers.model import regular
from providers.remote.line import LocalCommand, endpoint, user
from providers.remote.ssh import Ssh
from providers.errors import GpusError
from providers.model.machine import Handle, Node
from providers.model.offer import Candidate, Offer


def ordered(gpu="H100", count=8):
    return Candidate(1, 0, Offer("gcp", "r", "r-a", "m", gpu, count, "spot", 1), 1)


def cards(count, name="NVIDIA H100 80GB HBM3", memory="81559 MiB"):
    return f"{name}, {memory}\n" * count


@pytest.mark.parametrize(
    ("wanted", "answer", "stage", "words"),
    [
        (ordered(), (0, cards(8), ""), "", ""),
        (ordered("H100-MEGA"), (0, cards(8), ""), "", ""),
        (ordered("T4", 1), (0, cards(1, "Tesla T4", "15360 MiB"), ""), "", ""),
        (ordered("A100", 1), (0, cards(1, "NVIDIA A100-SXM4-40GB", "40960 MiB"), ""), "", ""),
        (ordered("RTX-4090", 2), (0, cards(2, "NVIDIA GeForce RTX 4090", "24564 MiB"), ""), "", ""),
        (ordered("L4", 1), (0, cards(1, "Some new name", "23034 MiB"), ""), "", ""),
        (ordered("GB200", 1), (0, cards(1, "NVIDIA GB200", "[N/A]"), ""), "", ""),
        (
            ordered(),
            (0, cards(7), ""),
            WRONG_GPUS,
            "7 of 8 GPUs answer (7 x NVIDIA H100 80GB HBM3)",
        ),
        (ordered(count=1), (0, cards(2), ""), WRONG_GPUS, "2 of 1"),
        (
            ordered("A100-80GB", 1),
            (0, cards(1, "NVIDIA A100-SXM4-40GB", "40960 MiB"), ""),
            WRONG_GPUS,
            "40960 MiB where A100-80GB:1",
        ),
        (
            ordered("RTX-4090", 1),
            (0, cards(1, "NVIDIA GeForce RTX 3090", "24576 MiB"), ""),
            WRONG_GPUS,
            "RTX 3090",
        ),
        (ordered(count=1), (0, cards(1, "NVIDIA H100 PCIe"), ""), WRONG_GPUS, "H100 PCIe"),
        (ordered(), (127, "", "sh: 1: nvidia-smi: not found\n"), NO_DRIVER, "not found"),
        (
            ordered(),
            (9, "NVIDIA-SMI has failed\n", ""),
            NO_DRIVER,
            "ended with 9, NVIDIA-SMI has failed",
        ),
        (ordered(), (0, "No devices were found\n", ""), NO_DRIVER, "lists no GPU"),
        (ordered(), (0, "", ""), NO_DRIVER, "lists no GPU"),
    ],
)
def test_b32_what_the_driver_says_is_compared_with_the_order(wanted, answer, stage, words):
    """Count, memory and model are as ordered, or the reason says what was found; a driver that is
    silent may still come, other GPUs never.
    """
    found = driver.look(*answer, wanted)
    assert (found.stage, found.final) == (stage, stage == WRONG_GPUS) and words in found.detail


def test_b32_what_a_start_up_script_ended_with_is_told_and_is_no_reason_for_another_machine():
    """A failed script is a note on a ready machine, and part of the reason where the driver is
    missing; 0, or anything but a status, is nothing.
    """
    told = driver.look(0, cards(8) + "gpus-start-up 3\n", "", ordered())
    assert (told.stage, told.note) == (
        "",
        "its start-up script ended with 3; `gpus logs` shows what it wrote",
    )
    missing = driver.look(127, "gpus-start-up 3\n", "sh: 1: nvidia-smi: not found\n", ordered())
    assert (
        missing.stage == NO_DRIVER
        and missing.detail.endswith("not found; its start-up script ended with 3")
        and not missing.final
    )
    for text in ("0", "", "; rm"):
        assert driver.look(0, cards(8) + f"gpus-start-up {text}\n", "", ordered()).note == ""


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("true", "0"),
        ("exit 7", "7"),
        ("set -e\nfalse\ntrue", "1"),
        ("trap 'gpus_failed=$?' ERR\n(exit 5)\ntrue", "5"),
    ],
)
def test_b32_a_start_up_script_leaves_its_exit_status(tmp_path, body, status):
    """What the head of a script keeps is what it ended with, also where it went on after a failure;
    while it runs there is none.
    """
    file = tmp_path / "gpus" / "start-up"
    head = f"{keep_status(str(file))}keep_status"
    for _ in range(2):
        subprocess.run(["bash", "-c", f"{head}\n[ ! -e {file} ] || exit 99\n{body}"], check=False)
        assert file.read_text().strip() == status
    environ = {"PATH": "/usr/bin:/bin", "GPUS_START_UP": str(file)}
    for shell in (["sh"], ["bash"], *([["busybox", "sh"]] if shutil.which("busybox") else [])):
        found = subprocess.run(
            [*shell, "-c", driver.QUERY], env=environ, capture_output=True, text=True
        )
        assert found.returncode == 127 and f"gpus-start-up {status}" in found.stdout


def test_cards_the_catalog_knows_are_named():
    """The table of cards that the driver cannot tell apart names models that exist, of one memory."""
    for model, card in driver._SAME_CARD.items():
        assert nominal_memory_gib(model) == nominal_memory_gib(card) is not None


def node(**more):
    return Node(Handle("clore", "1"), "n", "running", **more)


@pytest.mark.parametrize(
    ("found", "maps_ports", "port", "answer"),
    [
        (node(external_ip="192.0.2.1"), False, 22, ("192.0.2.1", 22)),
        (node(internal_ip="10.0.0.1"), False, 8000, ("10.0.0.1", 8000)),
        (node(external_ip="n1.x", ports=((22, 10000), (8000, 10001))), True, 22, ("n1.x", 10000)),
        (node(external_ip="n1.x", ports=((22, 10000), (8000, 10001))), True, 8000, ("n1.x", 10001)),
        (node(external_ip="n1.x", ports=((22, 10000),)), False, 8000, None),
        (node(external_ip="n1.x"), True, 22, None),
        (node(), False, 22, None),
    ],
)
def test_b31_where_a_port_answers(found, maps_ports, port, answer):
    """A mapped port is the one outside; without an entry there is none yet, and it is never taken
    for itself.
    """
    assert endpoint(found, port, maps_ports=maps_ports) == answer


@pytest.mark.parametrize("host", ["-oProxyCommand=id", "a b", "x;id", "$(id)", "a\nb", "[::1"])
def test_an_address_that_is_none_never_reaches_a_command(host):
    """What a cloud tells as an address is checked before it is used; so are user names."""
    with pytest.raises(GpusError, match="wanted an address"):
        endpoint(node(external_ip=host), 22, maps_ports=False)
    with pytest.raises(GpusError, match="wanted a user name"):
        user(node(ssh_user=host), "gpus")


def test_ssh_is_told_to_trust_nothing_else(tmp_path):
    """No configuration file, no agent, no forwarding, only this key, only this host key; strict
    once pinned.
    """
    line = Ssh("192.0.2.1", 2222, "root", tmp_path / "key", tmp_path / "known hosts", "gpus-x")
    argv = line.command("nvidia-smi").argv
    settings = [argv[at + 1] for at, word in enumerate(argv) if word == "-o"]
    assert argv[1:3] == ("-F", "none") and argv[-3:] == ("--", "root@192.0.2.1", "nvidia-smi")
    assert {
        "ForwardAgent=no",
        "IdentityAgent=none",
        "IdentitiesOnly=yes",
        "StrictHostKeyChecking=yes",
        "BatchMode=yes",
        "ForwardX11=no",
    } <= set(settings)
    assert "StrictHostKeyChecking=accept-new" in line._replace(pinned=False).command("x").argv
    assert not {"-A", "-X", "-Y"} & set(argv)
    assert (
        "-L" in line.tunnel(9999, 8888).argv
        and "127.0.0.1:9999:localhost:8888" in line.tunnel(9999, 8888).argv
    )


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
def test_a_stranger_writes_nothing_beside_what_was_asked_for(tmp_path, name, kind):
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


def test_nothing_that_came_is_an_error(tmp_path):
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
def test_a_hostile_stream_is_one_printable_line_and_what_came_before_it_is_said(tmp_path, name):
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
def test_what_tar_sends_arrives_as_it_was(tmp_path, format):
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


def test_a_stream_over_its_limits_is_cut_and_says_how_to_raise_them(tmp_path):
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
def test_nothing_is_written_through_a_link_of_this_machine(tmp_path, where):
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
def test_a_size_as_people_write_it(text, size):
    """Units of 1,024 with an i or a bare letter, of 1,000 with a B; 0 for what is none."""
    assert regular.bytes_of(text) == size


class Sends:
    """A line to a machine that answers any command with this."""

    def __init__(self, script):
        self.script = script

    def command(self, _asked):
        return LocalCommand(("sh", "-c", self.script))


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
def test_a_copy_that_fails_is_one_line_with_what_stands_here(tmp_path, then, words):
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


def test_a_link_at_the_target_of_a_copy_is_refused_before_anything_is_asked(tmp_path):
    """It is named; a slash at the end goes into the folder that a link names, for that was asked
    for.
    """
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "sent").write_bytes(GOOD + END)
    sends = Sends(f"cat {tmp_path}/sent")
    with pytest.raises(
        GpusError, match="found a link at .*link; remove it, or write .*link/ to go into"
    ):
        asyncio.run(files.get(sends, "out", tmp_path / "link"))
    assert asyncio.run(files.get(sends, "out", f"{tmp_path}/link/")) == tmp_path / "link" / "out"
    assert (tmp_path / "elsewhere" / "out" / "good").exists()
