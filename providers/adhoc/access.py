"""What is kept of an ad hoc cluster on this machine: its key, its pinned host keys, its stand-in
nodes, and how its cloud is reached.

One folder for each, `home()/adhoc/<world>/<name>`, for its user alone: there before anything is
bought, gone once the release is confirmed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from typing import TYPE_CHECKING

from providers.engine.keys import ClusterKeys
from providers.errors import GpusError, Problem, SpecError
from providers.home import home, private, private_folder
from providers.model.worlds import REHEARSAL
from providers.rehearsal import node
from providers.remote.ssh import given_key, made_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from providers.remote.ssh import Key

_NAME = re.compile(r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$")
_ABOUT = "about.json"


def owner() -> str:
    """The owner id of this user's ad hoc clusters: random, made once, the same for every process.
    Reads or writes `home()/owner`.
    """
    file = home(writable=False) / "owner"
    if not file.exists():
        own = private(home() / f"owner.{uuid.uuid4().hex}")
        own.write_text(uuid.uuid4().hex[:12], encoding="ascii")
        try:
            # Only one of several processes makes it; never half written.
            os.link(own, file)
        except FileExistsError:
            pass
        finally:
            own.unlink()
    found = file.read_text(encoding="ascii").strip()
    if not re.fullmatch(r"[0-9a-f]{12}", found):
        raise GpusError(
            f"{file}: wanted an owner id of 12 hexadecimal digits, found {found[:40]!r}; restore"
            " it: machines carry it in their label"
        )
    return found


def folder(world: str, name: str) -> Path:
    """Where a cluster's folder is or would be. Raises SpecError for what is no name. Pure."""
    if not _NAME.match(name):
        raise SpecError(
            [
                Problem(
                    "name",
                    "lowercase letters, digits and -, at most 40, starting with a letter",
                    repr(name),
                )
            ]
        )
    return home(writable=False) / "adhoc" / world / name


def names(world: str) -> tuple[str, ...]:
    """The clusters of a world that this machine has a folder of."""
    base = home(writable=False) / "adhoc" / world
    return (
        tuple(sorted(path.name for path in base.iterdir() if (path / _ABOUT).is_file()))
        if base.is_dir()
        else ()
    )


def make(
    world: str,
    name: str,
    settings: Mapping[str, Mapping[str, str]],
    ssh_key: str | os.PathLike[str] | None,
    *,
    keyless: bool = False,
) -> ClusterKeys:
    """The folder of a cluster that is about to be bought; an earlier one's key and pins are used
    again. Runs ssh-keygen, unless no machine would take a key.
    """
    home()
    place = private_folder(folder(world, name))
    key: Key | None
    if ssh_key is not None:
        key = given_key(ssh_key)
    else:
        key = _made(place, name) if keyless else made_key(place, f"gpus-{name}")
    plain = {provider: dict(section) for provider, section in settings.items()}
    about = {"settings": plain, "ssh_key": None if key is None or key.own else str(key.private)}
    partial = private(place / f"{_ABOUT}.new")
    partial.write_text(json.dumps(about), encoding="utf-8")
    partial.replace(place / _ABOUT)
    return ClusterKeys(place, key)


def opened(world: str, name: str) -> ClusterKeys | None:
    """The keys of a cluster that was bought from this machine; None without one. Raises GpusError
    for a broken one.
    """
    place = folder(world, name)
    try:
        about = json.loads((place / _ABOUT).read_text(encoding="utf-8"))
        given = about["ssh_key"]
        return ClusterKeys(place, _made(place, name) if given is None else given_key(given))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GpusError(
            f"{place / _ABOUT}: wanted what is known of {name}, found {error}; remove the file once"
            f" {name} is released"
        ) from None


def _made(place: Path, name: str) -> Key | None:
    """The key pair that was made in this folder; None where none was."""
    return made_key(place, f"gpus-{name}") if (place / "id_ed25519").exists() else None


def settings(world: str, name: str) -> Mapping[str, Mapping[str, str]] | None:
    """The settings that a cluster was bought with, None when this machine has no folder of it."""
    try:
        found: Mapping[str, Mapping[str, str]] = json.loads(
            (folder(world, name) / _ABOUT).read_text(encoding="utf-8")
        )["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


def forget(world: str, name: str) -> None:
    """Removes the folder of a cluster that is gone, its made key and its stand-in nodes with it:
    their files, and what they still run. A given key stays where it is.
    """
    if world == REHEARSAL:
        node.end(folder(world, name))
    shutil.rmtree(folder(world, name), ignore_errors=True)
