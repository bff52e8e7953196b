"""A stranger's tar stream, unpacked by our own rules: plain files and folders under one name,
within limits, never through a link of this machine. Each name of a file becomes a file of its own.

Owns the reading of headers, so that nothing a header says is believed before it is checked: a name,
a length, a map of holes. `tarfile` calls itself for each long name, holds headers of any size in
memory, and writes out a sparse file's holes. Format: POSIX.1-2017 pax and GNU tar's "Basic Tar
Format" (read 2026-11-28); what comes is what GNU tar, busybox and bsdtar send for `tar -ch`.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from providers.errors import printable, shortened
from providers.model.regular import size as size_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_BLOCK = 512
_CHUNK = 1 << 18
_NAME_MAX, _DEPTH_MAX, _HEADER_MAX = 4_096, 128, 1 << 20
"""Bytes of a name, folders in it, and bytes of what describes the next member."""
_ABOUT_MAX = 8
"""Headers in a row that describe the next member: a name, a link's name and a pax header are what
there is.
"""
_PADDING_MAX = 1 << 20
_MODE = 0o755
_FILE, _FOLDER, _LONG_NAME, _LONG_LINK, _PAX, _PAX_ALL = b"0\x007", b"5", b"L", b"K", b"x", b"g"
_SAME = b"1"
"""A hard link: one of several names of a file, also where it was a link that `tar -h` followed."""
_KINDS = {
    b"2": "a link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"S": "a sparse file",
}


class Limits(NamedTuple):
    """How much is taken: bytes in all, and files with folders."""

    size: int = 10 << 30
    files: int = 100_000


class Unpacked(NamedTuple):
    """What was written, and what is wrong with the stream: empty for nothing. `cut`: it was not
    read to its end, so the sender could not finish.
    """

    files: int = 0
    size: int = 0
    wrong: str = ""
    cut: bool = False


class _Wrong(Exception):
    """What is wrong with a stream, in words."""


class _Ended(_Wrong):
    """It ended before its end: why, its sender may have said."""


class _Member(NamedTuple):
    name: str
    kind: bytes
    size: int
    mode: int
    is_sparse: bool
    same_as: str = ""
    """Of a hard link: the name under which the content came before."""


def unpacked(pipe: BinaryIO, base: str, target: Path, limits: Limits | None = None) -> Unpacked:
    """Writes what the stream holds under `base` to `target`, over what is there. Never raises for
    what a stream says, nor for a full disk.
    """
    limits = limits or Limits()
    count = size = seen = 0
    refused, named = "", ""
    try:
        for member in _members(pipe):
            seen += 1
            if seen > limits.files:
                raise _Wrong(
                    f"wanted at most {limits.files:,} files and folders, found more; raise it with"
                    " --max-files, or pack them there first"
                )
            _within(size + member.size, limits.size)
            named = member.name
            parts, twin = _parts(member.name), _parts(member.same_as)
            why = _refusal(member, parts, twin, base)
            if why:
                refused = refused or f"refused {_shown(member.name)}, {why}"
                _copied(pipe, member.size, -1)
            elif member.kind == _SAME:
                if parts != twin:
                    size += _duplicate(target, twin[1:], member, parts[1:], limits.size - size)
                count += 1
            elif member.kind == _FOLDER:
                os.close(_folder(target, parts[1:]))
                count += 1
            else:
                _write(pipe, member, target, parts[1:])
                count += 1
            size += member.size
    except _Wrong as wrong:
        return Unpacked(count, size, str(wrong), cut=not isinstance(wrong, _Ended))
    except (OSError, ValueError) as error:  # ValueError: a name that this system has not
        return Unpacked(
            count,
            size,
            f"{_told(error, target)}{f' (at {_shown(named)})' if named else ''}",
            cut=True,
        )
    return Unpacked(count, size, refused or ("" if count else "nothing came"))


def _within(size: int, limit: int) -> None:
    if size > limit:
        raise _Wrong(
            f"wanted at most {size_text(limit)}, found {size_text(size)} or more; raise it with"
            " --max-size"
        )


def _parts(name: str) -> list[str]:
    return posixpath.normpath(name).split("/")


def _refusal(member: _Member, parts: Sequence[str], twin: Sequence[str], base: str) -> str:
    """Why a member is not written; empty where it is."""
    if member.is_sparse or member.kind in _KINDS:
        return f"which is {'a sparse file' if member.is_sparse else _KINDS[member.kind]}"
    if member.kind not in _FILE and member.kind not in (_FOLDER, _SAME):
        return "which is no plain file or folder"
    if member.kind == _SAME and (twin[0] != base or ".." in twin or "\0" in member.same_as):
        return f"which is a link to {_shown(member.same_as)}, not under {_shown(base)}"
    if parts[0] != base or ".." in parts or "\0" in member.name:
        return f"which is not under {_shown(base)}"
    return "which is nested too deep" if len(parts) > _DEPTH_MAX else ""


def _members(pipe: BinaryIO) -> Iterator[_Member]:
    """Each member's header; whoever takes one reads its content, padding included.
    Raises _Wrong.
    """
    long_name, long_link, pax, about = "", "", dict[str, str](), 0
    while True:
        block = _read(pipe, _BLOCK)
        if block.count(0) == _BLOCK:
            # The rest is padding, and the sender must not be cut off in it; a stranger's has no
            # end.
            for _ in range(_PADDING_MAX // _CHUNK):
                if not pipe.read(_CHUNK):
                    return
            raise _Wrong("wanted the end of a tar stream, found that it goes on after it")
        if _octal(block[148:156]) != sum(block) - sum(block[148:156]) + 32 * 8:
            raise _Wrong("no tar stream came: a header's sum is not right")
        kind, size = block[156:157], _octal(block[124:136])
        if kind in (_LONG_NAME, _LONG_LINK, _PAX, _PAX_ALL):
            about += 1
            if size > _HEADER_MAX or about > _ABOUT_MAX:
                raise _Wrong("no tar stream came: a header that has no end")
            content = _read(pipe, size + -size % _BLOCK)[:size]
            if kind == _LONG_NAME:
                long_name = os.fsdecode(content.rstrip(b"\0"))
            elif kind == _LONG_LINK:
                long_link = os.fsdecode(content.rstrip(b"\0"))
            elif kind == _PAX:
                pax = _records(content)
            continue
        name = pax.get("path") or long_name or os.fsdecode(_name(block))
        if "size" in pax:
            size = (
                int(pax["size"])
                if pax["size"].isascii() and pax["size"].isdigit() and len(pax["size"]) < 20
                else -1
            )
        link = block[157:257].partition(b"\0")[0] if kind == _SAME else b""
        same_as = (pax.get("linkpath") or long_link or os.fsdecode(link)) if kind == _SAME else ""
        if size < 0 or max(len(os.fsencode(each)) for each in (name, same_as)) > _NAME_MAX:
            raise _Wrong("no tar stream came: a header that says what cannot be")
        is_folder = kind == _FOLDER or (kind in _FILE and name.endswith("/"))
        has_content = kind in _FILE or kind == b"S"
        yield _Member(
            name,
            _FOLDER if is_folder else kind,
            size if has_content else 0,
            _octal(block[100:108]),
            any("sparse" in key for key in pax),
            same_as,
        )
        long_name, long_link, pax, about = "", "", {}, 0


def _name(block: bytes) -> bytes:
    name, prefix = block[:100].partition(b"\0")[0], block[345:500].partition(b"\0")[0]
    return prefix + b"/" + name if prefix and block[257:263] == b"ustar\0" else name


def _octal(field: bytes) -> int:
    """A header's number: octal, or GNU's binary form for large ones."""
    if field[0] & 0x80:
        return (
            int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
            if not field[0] & 0x40
            else -1
        )
    word = field.partition(b"\0")[0].strip()
    if not word:
        return 0
    if word.strip(b"01234567"):
        raise _Wrong("no tar stream came: a number that is none")
    return int(word, 8)


def _records(content: bytes) -> dict[str, str]:
    """A pax header's records: `LENGTH KEY=VALUE` and a line's end."""
    found: dict[str, str] = {}
    at = 0
    while at < len(content):
        word, space, _ = content[at : at + 20].partition(b" ")
        length = int(word) if space and word.isdigit() else 0
        record = content[at + len(word) + 1 : at + length]
        key, equals, value = record[:-1].partition(b"=")
        if not equals or record[-1:] != b"\n":
            raise _Wrong("no tar stream came: a pax header that is none")
        found[os.fsdecode(key)] = os.fsdecode(value)
        at += length
    return found


def _folder(target: Path, below: Sequence[str]) -> int:
    """An open folder: `target` and the names below it, made where they are not there. A link on the
    way is an OSError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    here = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    for name in (target.name, *below):
        try:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=here)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
        finally:
            os.close(here)
        here = inner
    return here


def _write(pipe: BinaryIO, member: _Member, target: Path, below: Sequence[str]) -> None:
    """One file's content. What stands there under its name is written over if it
    is a plain file.
    """
    file = _opened(target, below, member.mode)
    try:
        _copied(pipe, member.size, file)
    finally:
        os.close(file)


def _duplicate(
    target: Path, twin: Sequence[str], member: _Member, below: Sequence[str], room: int
) -> int:
    """Writes the content of the file at `twin` under another name; its size. Each is a file of its
    own: the other side followed its links, and so counts in full. Raises _Wrong beyond `room`.
    """
    with _place(target, twin) as (folder, name):
        try:
            source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        except FileNotFoundError:
            raise _Wrong(
                f"wanted the file that {_shown(member.name)} is another name of, found that"
                f" {_shown(member.same_as)} has not come"
            ) from None
    with os.fdopen(source, "rb") as content:
        about = os.fstat(source)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EISDIR, "there is something that is no plain file", name)
        if about.st_size > room:
            raise _Wrong(
                f"wanted at most {size_text(room)} more, found {size_text(about.st_size)} under"
                f" another name, {_shown(member.name)}; raise --max-size"
            )
        file = _opened(target, below, about.st_mode)
        try:
            while chunk := content.read(_CHUNK):
                _all(file, chunk)
        finally:
            os.close(file)
    return about.st_size


@contextmanager
def _place(target: Path, below: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The open folder that a name is in, and the name."""
    if below:
        folder, name = _folder(target, below[:-1]), below[-1]
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder, name = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY), target.name
    try:
        yield folder, name
    finally:
        os.close(folder)


def _opened(target: Path, below: Sequence[str], mode: int) -> int:
    """An empty file to write to: a new one, as far as the umask allows others what `mode` does, or
    the plain file that is there. Other names of that one keep what they have.
    """
    mode = 0o600 | mode & _MODE
    with _place(target, below) as (folder, name):

        def new() -> int:
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder)
            os.fchmod(file, 0o600 | stat.S_IMODE(os.fstat(file).st_mode))
            return file

        with suppress(FileExistsError):
            return new()
        file = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode):
                raise OSError(errno.EEXIST, "there is something that is no plain file", name)
            if about.st_nlink == 1:
                os.ftruncate(file, 0)
                os.fchmod(file, mode & 0o700 | stat.S_IMODE(about.st_mode) & 0o077)
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        os.unlink(name, dir_fd=folder)
        return new()


def _copied(pipe: BinaryIO, size: int, file: int) -> None:
    """Reads a member's content and its padding; writes the content unless `file` is -1."""
    left = size
    while left:
        chunk = pipe.read(min(left, _CHUNK))
        if not chunk:
            raise _Ended("the stream ended in the middle of a file")
        left -= len(chunk)
        if file >= 0:
            _all(file, chunk)
    _read(pipe, -size % _BLOCK)


def _all(file: int, chunk: bytes) -> None:
    while chunk:
        chunk = chunk[os.write(file, chunk) :]


def _read(pipe: BinaryIO, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = pipe.read(size - len(found))
        if not more:
            raise _Ended("the stream ended early")
        found += more
    return found


def _told(error: Exception, target: Path) -> str:
    if isinstance(error, OSError) and error.errno in (
        errno.EEXIST,
        errno.ELOOP,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ENXIO,
    ):
        return (
            f"{target}: a link or another kind of file stands there, which is not written through;"
            " move it away, or name another target"
        )
    return (
        f"{error.strerror}: {target}"
        if isinstance(error, OSError) and error.strerror
        else str(error)
    )


def _shown(name: str) -> str:
    return repr(printable(shortened(name, 200)))
