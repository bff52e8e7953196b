"""A project folder that is sent to machines: which of its files, how much they are, and a digest of
them all. Owns what is left out, and what this machine remembers of folders by their digest.

In a git checkout git says which files are ignored; elsewhere rsync's own reading of `.gitignore`
does. Left out besides: `.git`, and what Pulumi keeps beside a program (`Pulumi.yaml`,
`Pulumi.STACK.yaml`, `.pulumi`), since an edit of a stack is no edit of the code. Links are kept as
links, wherever they lead, and never followed; folders without files, pipes and devices are not
sent. The digest is over names, kinds, the owner's permissions and content: a checkout made again,
or under another umask, is the same folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.errors import GpusError, NoHome, Problem, SpecError, printable, shortened
from providers.home import home, private, private_folder
from providers.model import regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LIMIT = "2GiB"
"""How much a folder may hold, unless it is declared otherwise."""
_PATH = "workdir"
_REMEMBERED = 32
"""Folders that this machine remembers the files of."""
_SETTLED_NS = 2_000_000_000
"""A file that changed within this of a look may change again without a newer timestamp."""
_OWNER = 0o700
_LEFT_OUT = re.compile(r"(^|/)(\.git|\.pulumi)(/|$)|(^|/)Pulumi(\.[^/]+)?\.ya?ml$")
_ESCAPED = re.compile(rb"\\#([0-3][0-7]{2})")
_SHOWN = 3


class Entry(NamedTuple):
    """One file or link: `mode` as lstat has it, `content` a digest of a file's, or where a link
    leads.
    """

    mode: int
    size: int
    modified_ns: int
    changed_ns: int
    content: str


class Tree(NamedTuple):
    """A folder's files by name, as they are sent; `size` is bytes in all."""

    root: Path
    files: Mapping[str, Entry]
    digest: str
    size: int


def field(given: object, project: Path) -> object:
    """`workdir` as a spec holds it, {path, digest, files, size}, of the text or {path, limit} that
    a declaration has; what is neither stays, for the spec to refuse.

    A relative path begins at the project's folder. Raises SpecError as `scanned` does.
    """
    section = {"path": given} if isinstance(given, str) else given
    if not isinstance(section, dict) or "digest" in section:
        return given
    path, limit = section.get("path"), section.get("limit", LIMIT)
    if not isinstance(path, str):
        return given
    most = regular.bytes_of(limit) if isinstance(limit, str) else 0
    if not most:
        raise SpecError([Problem(f"{_PATH}.limit", "a size such as 10GiB", repr(limit)[:80])])
    try:
        root = project / Path(path).expanduser()
        found = scanned(root, most)
    except (ValueError, RuntimeError) as error:  # a name with a NUL; a home of nobody
        raise _problem("a folder", f"{path!r}: {error}", "") from None
    rest = {name: value for name, value in section.items() if name != "limit"}
    return {**rest, "digest": found.digest, "files": len(found.files), "size": found.size}


def scanned(root: Path, limit: int) -> Tree:
    """The folder as it is now, remembered by its digest. Reads what changed since the last look.

    Raises SpecError for what is no folder, holds no file or more bytes than `limit`, or cannot be
    read; and where rsync, which sends it, is not installed.
    """
    if shutil.which("rsync") is None:
        raise _problem(
            "rsync on PATH, which sends it", "none", "install the package rsync on this machine"
        )
    root = Path(os.path.realpath(root))
    if not root.is_dir():
        raise _problem("a folder", f"none at {root}", "")
    if Path(os.path.realpath(Path.home())).is_relative_to(root):
        raise _problem("a project's folder", f"{root}, which holds your home folder", "")
    names, by = _listed(str(root))
    try:
        looks = _looks(root, names)
    except OSError as error:
        raise _unreadable(error) from None
    size = sum(about.st_size for about in looks.values() if stat.S_ISREG(about.st_mode))
    if not looks:
        raise _problem("a folder with files that are not ignored", f"none in {root}, by {by}", "")
    if size > limit:
        raise _too_large(looks, size, limit)
    try:
        files = _entries(root, looks)
    except OSError as error:
        raise _unreadable(error) from None
    tree = Tree(root, files, _digest(files), size)
    _remember(tree)
    return tree


def known(digest: str) -> Tree | None:
    """The folder of that digest as this machine saw it last; None where it remembers none."""
    return _read(_memory() / f"{digest}.json")


def _problem(wanted: str, found: str, todo: str) -> SpecError:
    return SpecError([Problem(_PATH, wanted, found, todo)])


def _unreadable(error: OSError) -> GpusError:
    if isinstance(error, NoHome):
        return error
    return _problem("files that can be read", f"{error.strerror}: {error.filename}", "")


def _too_large(looks: Mapping[str, os.stat_result], size: int, limit: int) -> SpecError:
    largest = sorted(looks, key=lambda name: -looks[name].st_size)[:_SHOWN]
    told = ", ".join(f"{_shown(name)} {regular.size(looks[name].st_size)}" for name in largest)
    return _problem(
        f"at most {regular.size(limit)}",
        f"{regular.size(size)} in {len(looks):,} files, the largest: {told}",
        "name what is not code in .gitignore, keep data in a bucket, or raise it, as in workdir:"
        " {path: ., limit: 10GiB}",
    )


def _shown(name: str) -> str:
    return shortened(printable(name), 80)


def _looks(root: Path, names: Iterable[str]) -> dict[str, os.stat_result]:
    """What is there of these names, in the order of the digest: files and links."""
    found = {}
    for name in sorted(set(names), key=os.fsencode):
        if _LEFT_OUT.search(name):
            continue
        try:
            about = (root / name).lstat()
        except FileNotFoundError:
            continue  # git still lists what was only deleted here
        if stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode):
            found[name] = about
    return found


def _entries(root: Path, looks: Mapping[str, os.stat_result]) -> dict[str, Entry]:
    """The files with their content's digest, which is taken from the last look where a file has not
    changed since.
    """
    before, now = _latest(root), time.time_ns()
    found = {}
    for name, about in looks.items():
        stamps = (about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        old = before.get(name)
        if stat.S_ISLNK(about.st_mode):
            content = str((root / name).readlink())
        elif old is not None and old[:4] == stamps:
            content = old.content
        else:
            content = _content(root / name)
        settled = max(about.st_mtime_ns, about.st_ctime_ns) < now - _SETTLED_NS
        found[name] = Entry(*stamps[:3], stamps[3] if settled else 0, content)
    return found


def _content(path: Path) -> str:
    summed = hashlib.blake2b(digest_size=16)
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(1 << 20):
            summed.update(chunk)
    return summed.hexdigest()


def _identity(entry: Entry) -> tuple[int, int, str]:
    """What makes two files the same. A link has no permissions of its own."""
    link = stat.S_ISLNK(entry.mode)
    return stat.S_IFMT(entry.mode), 0 if link else entry.mode & _OWNER, entry.content


def _digest(files: Mapping[str, Entry]) -> str:
    summed = hashlib.sha256()
    for name, entry in files.items():
        about = [os.fsencode(part) for part in (name, *map(str, _identity(entry)))]
        summed.update(b"\0".join(about) + b"\0\0")
    return summed.hexdigest()[:16]


# Which files


def _listed(root: str) -> tuple[list[str], str]:
    """(names, who said what is ignored)."""
    at = Path(root)
    if shutil.which("git") is not None and any(
        (each / ".git").exists() for each in (at, *at.parents)
    ):
        return _by_git(root), "git"
    return _by_rsync(root), "rsync's reading of .gitignore"


def _by_git(root: str, below: str = "") -> list[str]:
    """What git tracks, and what it would: submodules and other checkouts inside by their own rules.
    Runs git.
    """
    # A hook's environment names another repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-C", os.path.join(root, below), "ls-files", "-coz", "--exclude-standard"],  # noqa: PTH118
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env=env,
    )
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().splitlines() or ["no word"]
        raise _problem("git to list its files", shortened(printable(why[0]), 200), "")
    found: list[str] = []
    for name in os.fsdecode(done.stdout).split("\0"):
        inner = os.path.join(below, name.rstrip("/"))  # noqa: PTH118
        path = Path(root, inner)
        if not name or path.is_symlink() or not path.is_dir():
            found += [inner] if name else []
        elif (path / ".git").exists():
            found += _by_git(root, inner)
    return found


def _by_rsync(root: str) -> list[str]:
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            [
                *("rsync", "-8rln", "--out-format=%n", "--filter=:- .gitignore", "--exclude=.git"),
                *(f"{root}/", f"{empty}/"),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().splitlines() or ["no word"]
        raise _problem("rsync to list its files", shortened(printable(why[0]), 200), "")
    lines = done.stdout.split(b"\n")
    names = (_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), line) for line in lines)
    return [os.fsdecode(name) for name in names if name and not name.endswith(b"/")]


# What is remembered


def _memory() -> Path:
    return home() / "workdirs"


def _remember(tree: Tree) -> None:
    folder = _memory()
    raw: dict[str, Any] = {
        "root": str(tree.root),
        "size": tree.size,
        "files": tree.files,
    }
    try:
        private_folder(folder)
        path = folder / f"{tree.digest}.json"
        partial = private(folder / f"{tree.digest}.{os.getpid()}.new")
        partial.write_text(json.dumps(raw), encoding="ascii")
        partial.replace(path)
        for old in _newest()[_REMEMBERED:]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise GpusError(
            f"wanted to remember what is in {tree.root}, found {error.strerror or error} at"
            f" {folder}; make room there, or set GPUS_HOME"
        ) from None


def _newest() -> list[Path]:
    """What is remembered, the latest first."""
    found = []
    for path in _memory().glob("*.json"):
        try:
            found.append((path.stat().st_mtime_ns, path))
        except FileNotFoundError:
            continue
    return [path for _, path in sorted(found, reverse=True)]


def _read(path: Path) -> Tree | None:
    try:
        raw = json.loads(path.read_text(encoding="ascii"))
        files = {name: Entry(*each) for name, each in raw["files"].items()}
        return Tree(Path(raw["root"]), files, path.stem, int(raw["size"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _latest(root: Path) -> Mapping[str, Entry]:
    """The files of that folder at the last look."""
    begins = json.dumps({"root": str(root)})[:-1].encode()
    for path in _newest():
        try:
            with path.open("rb") as file:
                same = file.read(len(begins)) == begins
        except FileNotFoundError:
            continue
        tree = _read(path) if same else None
        if tree is not None:
            return tree.files
    return {}
