"""What a listing says of one server: its id, GPUs, disk, place, longest rental. Owns the reading of
these fields; a host's own words, so whatever can't be read is unknown. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from providers.adapters.clore import names
from providers.model import foreign

TEXT_MAX = 1_000
"""Characters of a host's words that are read."""
_DISK = re.compile(r"(?<![\d.])(\d{1,12}(?:\.\d{1,9})?)\s{0,9}([GT])B", re.IGNORECASE)


class Gpus(NamedTuple):
    """What a server holds."""

    model: names.Model
    gpu_count: int
    reported_gb: float | None


def section(value: object, key: str) -> Mapping[str, object]:
    """The mapping under a key of a mapping; empty where there is none."""
    inner = value.get(key) if isinstance(value, (dict, Mapping)) else None
    return inner if isinstance(inner, (dict, Mapping)) else {}


def server_id(server: object) -> int | None:
    """A server's id as a whole number; None for one that cannot be ordered."""
    return foreign.whole(server.get("id"), foreign.ID) if isinstance(server, Mapping) else None


def machine_type(server: int) -> str:
    """How an offer names a server. The reverse is `ordered_server`."""
    return f"server-{server}"


def ordered_server(machine: str) -> int:
    """The server's id of a machine type. Raises ValueError for another provider's."""
    return int(machine.removeprefix("server-"))


def region(server: Mapping[str, object]) -> str:
    """The country as the listing codes it, in capitals; `XX` where it names none."""
    code = section(section(server, "specs"), "net").get("cc")
    code = code.strip().upper() if isinstance(code, str) else ""
    return code if re.fullmatch(r"[A-Z]{2,3}", code) else "XX"


class Contradiction(str):
    """Why what a row says of its GPUs cannot all be true. Of an order that is not what was sold;
    what a row leaves out is only unknown.
    """

    __slots__ = ()


def gpus(server: Mapping[str, object]) -> Gpus | str:
    """The model and count of a server, or why it has none that could be rented.

    Text and array must agree wherever both speak: a count or a model on which they differ is never
    rented on a guess.
    """
    specs = section(server, "specs")
    text = specs.get("gpu")
    text = text[:TEXT_MAX].strip() if isinstance(text, str) else ""
    listed = flat(server.get("gpu_array"))
    memory = foreign.real(specs.get("gpuram"))
    reported = memory if memory is not None and memory > 0 else None
    if len({entry.casefold() for entry in listed}) > 1:
        return Contradiction(f"a mixed rig: {', '.join(sorted(set(listed)))}")
    spoken = [word for word in (text, *listed[:1]) if word]
    if not spoken:
        return "names no GPU"
    choices = [set(names.models_of(word, reported)) for word in spoken]
    if not all(choices):
        size = "" if reported is None else f" with {reported:g} GB"
        return f"no known model: {spoken[choices.index(set())]!r}{size}"
    models = set.intersection(*choices)
    if not models:
        return Contradiction(f"says {text!r} and {listed[0]!r}")
    if len(models) > 1:
        return (
            f"{spoken[0]!r} without its memory: one of"
            f" {', '.join(sorted(model.name for model in models))}"
        )
    counts = {count for count in (names.count_of(text), len(listed) or None) if count is not None}
    if len(counts) > 1:
        return Contradiction(f"counts disagree: {text!r} and {len(listed)} in the array")
    partial = server.get("partial_gpu_rental")
    count = counts.pop() if counts else 1
    if isinstance(partial, Mapping):
        free, total = (
            foreign.number(partial.get("available_gpus")),
            foreign.number(partial.get("total_gpus")),
        )
        if free is None or free != total or free != count:
            return (
                "rented by parts; not all of its GPUs are free"
                if free is not None
                else "rented by parts; how many GPUs are free is not said"
            )
    elif partial:
        return "rented by parts; how many GPUs are free is not said"
    return Gpus(models.pop(), count, reported) if count >= 1 else "names no GPU"


def flat(value: object) -> list[str]:
    """The texts in a field that holds one or a list of them."""
    if isinstance(value, str):
        return [value[:TEXT_MAX].strip()] if value.strip() else []
    if isinstance(value, (list, tuple)):
        return [word for item in value for word in flat(item)]
    return []


def disk_gb(text: object) -> Decimal | None:
    """The size in a disk's free text, the last one named: `NVMe 512.0GB`."""
    sizes = _DISK.findall(text[:TEXT_MAX]) if isinstance(text, str) else []
    return Decimal(sizes[-1][0]) * (1_000 if sizes[-1][1] in "tT" else 1) if sizes else None


def longest_hours(server: Mapping[str, object]) -> float | None:
    """`mrl`: how long one order can last, in hours."""
    return foreign.real(server.get("mrl"))
