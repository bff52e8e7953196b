"""Which adapters there are. Owns the scan of the adapters' folders and of outside packages; keeps
no list of names.

Importing a folder must not import its cloud's SDK, and neither does anything here. Outside adapters
are found by the entry point group `gpus.adapters`; one that cannot be loaded is a line in
`problems()`, never the end of everything.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.base import Manifest
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from providers.model.capability import Capabilities

GROUP = "gpus.adapters"


class LoadedAdapters(NamedTuple):
    """Every adapter by provider name, and one line for each that could not be loaded."""

    manifests: Mapping[str, Manifest]
    problems: tuple[str, ...]


def manifests() -> Mapping[str, Manifest]:
    """Every adapter's manifest by provider name, in the order of names. The first call looks at
    folders; no network.
    """
    return found_adapters().manifests


def capabilities() -> Mapping[str, Capabilities]:
    """What each provider's adapter says it can do."""
    return {name: manifest.capabilities for name, manifest in manifests().items()}


def is_real(provider: str, world: str, settings: Mapping[str, str]) -> bool:
    """Whether this provider's machines exist outside of a rehearsal: in the live world all, in a
    rehearsal the user's own, unless the settings have made-up ones.
    """
    if world != REHEARSAL:
        return True
    manifest = manifests().get(provider)
    return (
        manifest is not None and manifest.capabilities.owned and REHEARSAL not in settings.values()
    )


def networked() -> tuple[str, ...]:
    """The providers that can make a managed network."""
    return tuple(
        name for name, manifest in manifests().items() if manifest.declare_network is not None
    )


def problems() -> tuple[str, ...]:
    """One line for each adapter that could not be loaded."""
    return found_adapters().problems


@cache
def found_adapters() -> LoadedAdapters:
    """What is installed, looked for once a process."""
    import providers.adapters

    return scan(providers.adapters.__path__, outside())


def scan(folders: Iterable[str], entries: Iterable[tuple[str, str]]) -> LoadedAdapters:
    """Loads `providers.adapters.<folder>` for each package below `folders`, then the outside ones,
    given as (name, `module:attribute`).

    A folder of this package wins over an outside adapter of the same name. A cloud that is several
    providers lists the others in its folder's `ALSO`.
    """
    from pathlib import Path

    found: dict[str, Manifest] = {}
    lines: list[str] = []
    names = sorted(
        {item.parent.name for folder in folders for item in Path(folder).glob("*/__init__.py")}
    )
    for name, target in [
        *((name, f"providers.adapters.{name}:MANIFEST") for name in names),
        *entries,
    ]:
        try:
            first, *others = _load(target)
        except Exception as error:
            lines.append(
                f"the adapter {name} ({target}) could not be loaded and is left out:"
                f" {type(error).__name__}: {error}"
            )
            continue
        for manifest in (first, *others):
            if not isinstance(manifest, Manifest):
                lines.append(
                    f"the adapter {name} is left out: wanted a Manifest at {target}, found"
                    f" {type(manifest).__name__}"
                )
            elif manifest.name in found:
                lines.append(
                    f"the adapter {name} ({target}) is left out: there is another one for"
                    f" {manifest.name}"
                )
            else:
                found[manifest.name] = manifest
    return LoadedAdapters(dict(sorted(found.items())), tuple(lines))


def outside() -> list[tuple[str, str]]:
    """(name, target) of the entry points of outside packages.

    importlib.metadata costs some 20 ms to import and reads every package's files. Nearly always
    there is no such entry point, which a search for the group's name in the few `entry_points.txt`
    files tells at a tenth of that.
    """
    if not any(_mentions(folder) for folder in sys.path):
        return []
    from importlib.metadata import entry_points

    return sorted((entry.name, entry.value) for entry in entry_points(group=GROUP))


def _mentions(folder: str) -> bool:
    wanted = f"[{GROUP}]".encode()
    try:
        found = [
            name
            for name in os.listdir(folder or ".")  # noqa: PTH208
            if name.endswith((".dist-info", ".egg-info"))
        ]
    except OSError:
        return False
    for name in found:
        try:
            with open(f"{folder or '.'}/{name}/entry_points.txt", "rb") as file:  # noqa: PTH123 - as above
                if wanted in file.read().replace(b" ", b""):
                    return True
        except OSError:
            continue
    return False


def _load(target: str) -> tuple[object, ...]:
    from importlib import import_module

    name, _, attribute = target.partition(":")
    module = import_module(name)
    return (getattr(module, attribute or "MANIFEST"), *getattr(module, "ALSO", ()))
