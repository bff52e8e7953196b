"""The `options.clore` section of a spec and the host filters of the settings: names, defaults, and
every fault with its path.

Owns Options and how they are read from a stack file (typed) or from settings (text). Pure; imports
only errors and money.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.sections import unknown
from providers.errors import Problem, SpecError
from providers.model import duration
from providers.model.workload import CONTAINER_SCRIPT, packed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.workload import Program

COINS = ("USD-Blockchain", "CLORE-Blockchain", "bitcoin")
"""The currencies as the API spells them (docs.clore.ai for-hosts/api, read 2026-11-27)."""

_COIN_WORDS = {
    "usd": COINS[0],
    "usd-blockchain": COINS[0],
    "clore": COINS[1],
    "clore-blockchain": COINS[1],
    "btc": COINS[2],
    "bitcoin": COINS[2],
}

OWN_IMAGES = "cloreai/"
IMAGE = "cloreai/ubuntu22.04-cuda12"
"""Clore's own image with sshd (facts read 2026-11-27)."""

COMMAND_MAX, ENV_MAX, ENV_KEY_MAX, ENV_VALUE_MAX = 4_096, 12_288, 128, 1_536
"""Characters. The env limits are the API's own; the one for `command` is ours."""


class Options(NamedTuple):
    """What hosts are good enough, how to pay, and what runs there. A filter of 0 asks nothing; a
    host that does not state a figure that is asked for is refused.

    The defaults refuse the worst hosts and no more: a host below 95 % reliability loses a day-long
    run more often than not within three weeks, CUDA 12 is what the default image needs, and 100
    Mbps pull a 16 GB image in half an hour.
    """

    reliability: float = 0.95
    cuda: float = 12.0
    down_mbps: float = 100.0
    up_mbps: float = 20.0
    disk_gb: float = 40.0
    ram_gb: float = 0.0
    pcie_rev: float = 0.0
    pcie_width: float = 0.0
    rating: float = 0.0
    min_hours: float = 0.0
    include_servers: tuple[int, ...] = ()
    exclude_servers: tuple[int, ...] = ()
    pay_with: tuple[str, ...] = COINS
    image: str = IMAGE
    command: str = ""
    env: tuple[tuple[str, str], ...] = ()
    jupyter: bool = False
    max_bid_usd_per_hour: float = 0.0
    start_deadline_s: float = 540.0
    trust_marketplace: bool = False
    claimed_orders: tuple[int, ...] = ()


_RANGES = {
    "reliability": (0.0, 1.0),
    "cuda": (0.0, 100.0),
    "down_mbps": (0.0, 1e6),
    "up_mbps": (0.0, 1e6),
    "disk_gb": (0.0, 1e6),
    "ram_gb": (0.0, 1e5),
    "pcie_rev": (0.0, 10.0),
    "pcie_width": (0.0, 64.0),
    "rating": (0.0, 5.0),
    "min_hours": (0.0, 1e5),
    "max_bid_usd_per_hour": (0.0, 1e6),
}


def running(program: Program, script: str, section: Mapping[str, object]) -> dict[str, object]:
    """The section with what is to run: the image and the command. The
    script is packed: a command has little room.
    """
    path = CONTAINER_SCRIPT
    command = (
        f"mkdir -p {path.rpartition('/')[0]}; echo {packed(script.encode())} | base64 -d | gunzip >"
        f" {path}; (bash {path} > /dev/null 2>&1 &)"
    )
    return {**({"image": program.image} if program.image else {}), "command": command, **section}


def read(section: Mapping[str, object], base: Options | None = None) -> Options:
    """The options of a section over `base`. Raises SpecError with every problem, each path relative
    to the section.
    """
    options, found = _read(section, base or Options())
    if found:
        raise SpecError(found)
    return options


def problems(section: Mapping[str, object]) -> Sequence[Problem]:
    """Everything that is wrong with a section."""
    return _read(section, Options())[1]


def _read(section: Mapping[str, object], base: Options) -> tuple[Options, list[Problem]]:
    values: dict[str, object] = {}
    found: list[Problem] = []
    for key, raw in section.items():
        if key == "start_deadline":
            _deadline(raw, values, found)
        elif key in _RANGES:
            _number(key, raw, values, found)
        elif key in {"include_servers", "exclude_servers", "claimed_orders"}:
            _ids(key, raw, values, found)
        elif key in {"jupyter", "trust_marketplace"}:
            word = str(raw).strip().lower()
            if word in {"true", "false"}:
                values[key] = word == "true"
            else:
                found.append(Problem(key, "true or false", repr(raw)))
        elif key == "pay_with":
            _coins(raw, values, found)
        elif key in {"image", "command"}:
            _text(key, raw, values, found)
        elif key == "env":
            _env(raw, values, found)
        else:
            known = (
                *_RANGES,
                "start_deadline",
                *(
                    name
                    for name in Options._fields
                    if name not in _RANGES and name != "start_deadline_s"
                ),
            )
            found.append(unknown(key, known))
    options = base._replace(**values)  # type: ignore[arg-type]
    if options.env and not options.trust_marketplace:
        # Everything in env can be read by the owner of the host: secrets go there only when the
        # user says so.
        wanted = "no values for a stranger's machine"
        found.append(
            Problem(
                "env",
                wanted,
                f"{len(options.env)} of them",
                "set trust_marketplace: true if the host's owner may read them",
            )
        )
    return options, found


def _number(key: str, raw: object, values: dict[str, object], found: list[Problem]) -> None:
    low, high = _RANGES[key]
    try:
        number = (
            float(raw)
            if isinstance(raw, (int, float, str)) and not isinstance(raw, bool)
            else float("nan")
        )
    except ValueError:
        number = float("nan")
    if low <= number <= high:
        values[key] = number
    else:
        found.append(Problem(key, f"a number from {low:g} to {high:g}", repr(raw)))


def _deadline(raw: object, values: dict[str, object], found: list[Problem]) -> None:
    try:
        total = duration.declared(raw) if isinstance(raw, (int, float, str)) else -1
    except ValueError:
        total = -1
    if 60 <= total <= 3_600:
        values["start_deadline_s"] = float(total)
    else:
        wanted = "a duration from 1m to 1h; a cancel within 10m is free of the creation fee"
        found.append(Problem("start_deadline", wanted, repr(raw), duration.remedy(raw)))


def _ids(key: str, raw: object, values: dict[str, object], found: list[Problem]) -> None:
    items = (
        raw.replace(",", " ").split()
        if isinstance(raw, str)
        else raw
        if isinstance(raw, (list, tuple))
        else (raw,)
    )
    words = [
        str(int(item)) if isinstance(item, float) and item.is_integer() else str(item)
        for item in items
    ]
    ids = [int(word) if word.isascii() and word.isdigit() else -1 for word in words]
    if all(number >= 0 for number in ids):
        values[key] = tuple(ids)
    else:
        found.append(Problem(key, "whole numbers, as in [1234, 5678]", repr(raw)))


def _coins(raw: object, values: dict[str, object], found: list[Problem]) -> None:
    items = (
        raw.replace(",", " ").split()
        if isinstance(raw, str)
        else raw
        if isinstance(raw, (list, tuple))
        else (raw,)
    )
    coins = [_COIN_WORDS.get(str(item).casefold(), "") for item in items]
    if coins and all(coins):
        values["pay_with"] = tuple(dict.fromkeys(coins))
    else:
        found.append(
            Problem(
                "pay_with", "one or more of usd, clore, bitcoin, in order of preference", repr(raw)
            )
        )


def _text(key: str, raw: object, values: dict[str, object], found: list[Problem]) -> None:
    if isinstance(raw, str) and raw.strip() and len(raw) <= COMMAND_MAX:
        values[key] = raw.strip()
    else:
        found.append(
            Problem(
                key,
                f"a text of at most {COMMAND_MAX} characters",
                "an empty one" if raw == "" else type(raw).__name__,
            )
        )


def _env(raw: object, values: dict[str, object], found: list[Problem]) -> None:
    from collections.abc import Mapping as AnyMapping

    if not isinstance(raw, AnyMapping):
        found.append(Problem("env", "a mapping of names to values", type(raw).__name__))
        return
    pairs = tuple((str(key), str(value)) for key, value in raw.items())
    for key, value in pairs:
        # `&` is answered with code 1 (recorded practice); the other limits are the API's. Values
        # may be secrets: only lengths are named.
        if (
            not key
            or not key.replace("_", "a").isalnum()
            or not key.isascii()
            or key[0].isdigit()
            or len(key) > ENV_KEY_MAX
        ):
            found.append(
                Problem(
                    f"env.{key}",
                    f"a name of letters, digits and _, at most {ENV_KEY_MAX}",
                    f"{len(key)} characters",
                )
            )
        if len(value) > ENV_VALUE_MAX or "&" in value:
            found.append(
                Problem(
                    f"env.{key}",
                    f"a value of at most {ENV_VALUE_MAX} characters without &",
                    f"{len(value)} characters",
                )
            )
    if sum(len(key) + len(value) for key, value in pairs) > ENV_MAX:
        found.append(Problem("env", f"at most {ENV_MAX} characters in all", "more"))
    values["env"] = pairs
