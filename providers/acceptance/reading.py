"""A machine's answer, field by field. Owns what of a stranger's JSON is believed to be a number or
a text. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.errors import printable, shortened
from providers.model import foreign

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

GPUS_MAX = 64
TEXT_MAX = 120
RATE = foreign.Bounds(0, 1e7)


class Gpu(NamedTuple):
    """One GPU as its driver describes it, and how fast it is. None and empty: not known.

    `slowed`, `pcie` and `temperature_c` are those under load where it was loaded.
    """

    number: int
    name: str
    memory_mib: float | None
    used_mib: float | None
    busy_percent: float | None
    processes: tuple[str, ...]
    mig: str
    ecc: str
    ecc_uncorrected: float | None
    remap_pending: str
    remap_failed: str
    power_limit_w: float | None
    power_default_w: float | None
    slowed: tuple[str, ...]
    temperature_c: float | None
    pcie_gen: int | None
    pcie_width: int | None
    measured: Mapping[str, Any]


def gpus(answer: Mapping[str, Any]) -> tuple[Gpu, ...]:
    """The GPUs of an answer, at most so many."""
    measured = {
        index: each
        for each in items(answer, "measured")
        if (index := whole(each, "index")) is not None
    }
    return tuple(
        _gpu(number, each, measured.get(number, {}))
        for number, each in enumerate(items(answer, "gpus"))
    )


def _gpu(number: int, each: Mapping[str, Any], measured: Mapping[str, Any]) -> Gpu:
    loaded = mapping(each, "loaded")
    # At rest a card lets its link slow down: without a load its best possible one counts.
    gen = whole(loaded, "pcie_gen") if loaded else whole(each, "pcie_gen_max")
    return Gpu(
        number=number,
        name=text(each, "name"),
        memory_mib=real(each, "memory_mib"),
        used_mib=real(each, "used_mib"),
        busy_percent=real(each, "busy_percent"),
        processes=tuple(text(one, "name") for one in items(each, "processes")),
        mig=text(each, "mig"),
        ecc=text(each, "ecc"),
        ecc_uncorrected=real(each, "ecc_uncorrected"),
        remap_pending=text(each, "remap_pending"),
        remap_failed=text(each, "remap_failed"),
        power_limit_w=real(each, "power_limit_w"),
        power_default_w=real(each, "power_default_w"),
        slowed=texts(loaded or each, "slowed"),
        temperature_c=real(loaded or each, "temperature_c"),
        pcie_gen=gen,
        pcie_width=whole(loaded or each, "pcie_width"),
        measured=measured,
    )


def mapping(where: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The mapping of that name; an empty one for anything else."""
    found = where.get(name)
    return found if isinstance(found, dict) else {}


def items(where: Mapping[str, Any], name: str) -> tuple[Mapping[str, Any], ...]:
    """The mappings in a list of that name, at most `GPUS_MAX` squared of them."""
    found = where.get(name)
    if not isinstance(found, list):
        return ()
    return tuple(each for each in found[: GPUS_MAX**2] if isinstance(each, dict))


def text(where: Any, name: str) -> str:
    """The text of that name, harmless and short; empty for anything else."""
    found = where.get(name) if isinstance(where, dict) else None
    return shortened(printable(found), TEXT_MAX) if isinstance(found, str) else ""


def texts(where: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The texts in a list of that name."""
    found = where.get(name)
    if not isinstance(found, list):
        return ()
    return tuple(each for each in found[:GPUS_MAX] if isinstance(each, str))


def real(where: Mapping[str, Any], name: str) -> float | None:
    """The number of that name; None for anything else and for one that no machine has."""
    return foreign.real(where.get(name), RATE)


def whole(where: Mapping[str, Any], name: str) -> int | None:
    """The whole number of that name; None for anything else."""
    return foreign.whole(where.get(name))


def spread(values: Sequence[float], digits: int) -> str:
    """The values of several GPUs as one text: `824.8` or `790.1 to 824.8`."""
    if not values:
        return "not known"
    least, most = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return most if least == most else f"{least} to {most}"


def named(which: Iterable[int | Gpu]) -> str:
    """`GPU 0 and 3 of it` as the beginning of a reason: `GPU 0, 3:`."""
    numbers = sorted(each.number if isinstance(each, Gpu) else each for each in which)
    return f"GPU {', '.join(map(str, numbers))}:"
