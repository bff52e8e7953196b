"""What a machine's cards do right now: how busy, how full, how hot, and their errors. Owns the
question and the reading of the answer. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

from providers.errors import printable, shortened
from providers.model import foreign, shell

_FIELDS = (
    "index",
    "utilization.gpu",
    "memory.used",
    "memory.total",
    "power.draw",
    "power.limit",
    "temperature.gpu",
    "ecc.errors.uncorrected.volatile.total",
    "name",
)
_WORD = "gpus-xids"
_CARDS_MAX = 64
_NAME_MAX = 60
_WHY_MAX = 120


class Gauge(NamedTuple):
    """One card now. None: its driver does not say."""

    number: int
    busy_percent: float | None
    used_mib: float | None
    total_mib: float | None
    power_w: float | None
    power_limit_w: float | None
    temperature_c: float | None
    uncorrected: float | None
    """ECC errors that were not corrected, since the driver started."""
    name: str


class Reading(NamedTuple):
    """A machine now. `xids` are the driver's reports in the kernel's log, None where that cannot be
    read. `why` says why there is nothing, where there is nothing.
    """

    gauges: tuple[Gauge, ...] = ()
    xids: int | None = None
    why: str = ""


def query(*, stand_in: bool = False) -> str:
    """What is asked of a machine, in sh."""
    return shell.program(
        __file__,
        "gauges",
        fields=",".join(_FIELDS),
        word=_WORD,
        stand_in="yes" if stand_in else "",
    )


def read(code: int, output: str, errors: str) -> Reading:
    """What the answer says. A line that is none of a card is left out."""
    lines = output.splitlines()
    cards = [card for line in lines if (card := _gauge(line)) is not None][:_CARDS_MAX]
    if code != 0 or not cards:
        said = [line.strip() for line in (*lines, *errors.splitlines()) if line.strip()]
        why = shortened(printable(said[-1]), _WHY_MAX) if said else "its driver lists no GPU"
        return Reading(why=why)
    reports = [
        foreign.whole(line.removeprefix(_WORD), foreign.COUNT)
        for line in lines
        if line.startswith(_WORD)
    ]
    return Reading(tuple(cards), reports[-1] if reports else None)


def _gauge(line: str) -> Gauge | None:
    """One card, from a line such as `0, 97, 61440, 143771, 650.11, 700.00, 57, 0, NVIDIA H200`."""
    fields = [field.strip() for field in line.split(",", len(_FIELDS) - 1)]
    number = foreign.whole(fields[0], foreign.COUNT)
    if len(fields) != len(_FIELDS) or number is None:
        return None
    busy, used, total, power, limit, heat, uncorrected = (
        foreign.real(field, foreign.Bounds(0, 1e9)) for field in fields[1:-1]
    )
    name = shortened(printable(fields[-1]), _NAME_MAX)
    return Gauge(number, busy, used, total, power, limit, heat, uncorrected, name)
