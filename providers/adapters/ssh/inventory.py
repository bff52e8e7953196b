"""The inventory: which machines are the user's own, how each is reached, and what a card of it
costs. Owns the file's form; reads one file, makes no calls.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from providers.errors import Problem, SpecError
from providers.model.money import micro_usd

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LOCAL = "local"
"""The host that is this machine itself: no ssh."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]{0,253}[A-Za-z0-9])?")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_KEY = re.compile(r"[^\x00-\x1f]+")
_HOST_KEY = re.compile(r"[a-z0-9@.-]+ [A-Za-z0-9+/=]+")


class Machine(NamedTuple):
    """One machine. `gpus` are the cards that may be used, by nvidia-smi's index; none: all.
    `micro_usd` is the price of one card per hour; None while nobody said it. `retired`: it is no
    more, and neither is what ran there.
    """

    name: str
    host: str
    port: int = 22
    user: str = ""
    key: str = ""
    gpus: tuple[int, ...] = ()
    micro_usd: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    host_key: str = ""
    address: str = ""
    retired: bool = False


class Inventory(NamedTuple):
    """All machines in the order of the file, and the program that carries commands there."""

    machines: tuple[Machine, ...]
    transport: tuple[str, ...] = ("ssh",)

    def named(self, name: str) -> Machine | None:
        """The machine of this name."""
        return next((each for each in self.machines if each.name == name), None)


def load(path: str) -> Inventory:
    """The inventory of a file. Raises SpecError with every problem."""
    from providers.model import yaml_file

    return read(yaml_file.mapping(Path(path).expanduser()), path)


def loads(text: str) -> Inventory:
    """The inventory of a JSON text, as a rehearsal gives it. Raises SpecError."""
    return read(json.loads(text), "inventory")


def read(raw: Mapping[str, object], where: str) -> Inventory:
    """The inventory of a mapping. Raises SpecError with every problem. Pure."""
    found = [
        Problem(f"{where}: {key}", "machines, transport", repr(key))
        for key in sorted(raw.keys() - {"machines", "transport"})
    ]
    listed = raw.get("machines")
    if not isinstance(listed, list) or not listed:
        wanted = "a list of at least one machine, each with a host"
        shown = "none" if not listed else type(listed).__name__
        raise SpecError([*found, Problem(f"{where}: machines", wanted, shown)])
    machines = [
        _machine(each, f"{where}: machines[{index}]", found) for index, each in enumerate(listed)
    ]
    words = raw.get("transport", ["ssh"])
    found.extend(_twice(machines, where, direct=words == ["ssh"]))
    if not isinstance(words, list) or not words or not all(isinstance(each, str) for each in words):
        found.append(Problem(f"{where}: transport", 'words, as in ["ssh"]', repr(words)))
        words = ["ssh"]
    if found:
        raise SpecError(found)
    return Inventory(tuple(machines), tuple(str(each) for each in words))


def _twice(machines: Sequence[Machine], where: str, *, direct: bool) -> Iterator[Problem]:
    """Two machines of one name, or one machine twice: it would lend the same lease as two. Another
    program than ssh (not `direct`) may reach several at one address.
    """
    names = Counter(each.name for each in machines if each.name)
    doors = Counter(
        (each.host, each.port) for each in machines if direct and not each.retired and each.host
    )
    for name, times in sorted(names.items()):
        if times > 1:
            yield Problem(f"{where}: machines", "a name of its own for each", f"two {name}")
    for (host, port), times in sorted(doors.items()):
        if times > 1:
            yield Problem(
                f"{where}: machines",
                "each machine once",
                f"{host}, port {port}, {times} times",
                "keep one of them, with all its cards",
            )


_TEXTS = {
    "name": (_NAME, "a text of small letters, digits and -, at most 40"),
    "host": (_HOST, "a name or an address, or `local`"),
    "user": (_USER, "a user name"),
    "host_key": (_HOST_KEY, "the key's type and its text, as ssh-keyscan prints them"),
    "address": (_HOST, "a name or an address"),
    "key": (_KEY, "the path of a private key, in one line"),
}


def _machine(raw: object, where: str, found: list[Problem]) -> Machine:
    if not isinstance(raw, dict):
        found.append(Problem(where, "a mapping with a host", type(raw).__name__))
        return Machine("", "")
    known = {*_TEXTS, "port", "gpus", "usd_per_gpu_hour", "labels", "retired"}
    found.extend(
        Problem(f"{where}.{key}", f"one of {', '.join(sorted(known))}", repr(key))
        for key in sorted(raw.keys() - known)
    )
    raw = {"name": _name_of(raw.get("host")), **raw}
    texts = {"name": "", "host": ""}
    for key, (pattern, wanted) in _TEXTS.items():
        given = raw.get(key)
        if isinstance(given, str) and pattern.fullmatch(given):
            texts[key] = given
        elif key in raw or key == "host":
            found.append(Problem(f"{where}.{key}", wanted, _shown(given)))
    port = raw.get("port", 22)
    if type(port) is not int or not 1 <= port <= 65_535:
        found.append(Problem(f"{where}.port", "a number from 1 to 65535", _shown(port)))
        port = 22
    gpus = raw.get("gpus", [])
    if not isinstance(gpus, list) or any(type(each) is not int or each < 0 for each in gpus):
        found.append(Problem(f"{where}.gpus", "whole numbers, as in [0, 1]", _shown(gpus)))
        gpus = []
    elif len(set(gpus)) < len(gpus):
        found.append(Problem(f"{where}.gpus", "each card once", _shown(gpus)))
    labels = raw.get("labels", {})
    if not isinstance(labels, dict) or any(
        not isinstance(word, (str, int, float)) for word in labels.values()
    ):
        found.append(Problem(f"{where}.labels", "a mapping of names to words", _shown(labels)))
        labels = {}
    if type(raw.get("retired", False)) is not bool:
        found.append(Problem(f"{where}.retired", "true or false", _shown(raw["retired"])))
    return Machine(
        **texts,
        port=port,
        gpus=tuple(gpus),
        micro_usd=_price(raw.get("usd_per_gpu_hour"), f"{where}.usd_per_gpu_hour", found),
        labels=tuple(sorted((str(name), str(word)) for name, word in labels.items())),
        retired=raw.get("retired") is True,
    )


def _name_of(host: object) -> str:
    """How a machine without a name is called: its host, in the letters of a name."""
    return re.sub(r"[^a-z0-9]+", "-", str(host).lower())[:40].strip("-") or "-"


def _shown(given: object) -> str:
    return "nothing" if given is None else repr(given)


def _price(raw: object, where: str, found: list[Problem]) -> int | None:
    if raw is None:
        return None
    if isinstance(raw, (int, float)) and not isinstance(raw, bool) and 0 <= raw < 1e6:
        return micro_usd(raw)
    found.append(Problem(where, "dollars, 0 or more", repr(raw), "leave it out if it is unknown"))
    return None
