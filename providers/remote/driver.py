"""What a machine's driver says of its GPUs, and whether that is what was ordered. Pure.

What its start-up script ended with is asked in the same breath.

The driver is asked with `nvidia-smi --query-gpu` (its CSV form is documented in `nvidia-smi
--help-query-gpu`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from providers.adapters.base import START_UP_STATUS
from providers.catalog import names
from providers.model import shell
from providers.remote.probe import NO_DRIVER, WRONG_GPUS, ProbeResult

if TYPE_CHECKING:
    from providers.model.placement import Placement

_STATUS = "gpus-start-up "
QUERY = shell.program(__file__, "driver", status=START_UP_STATUS, word=_STATUS.strip())
"""What is asked of a machine, in sh: its cards, and what its start-up script ended with, if it has
ended and left that.
"""
SAME_CARD = {"H100-MEGA": "H100"}
"""Models that differ by the machine around the card: the driver cannot tell them apart."""


def look(
    exit_code: int, output: str, errors: str, placed: Placement, upgrade: str = ""
) -> ProbeResult:
    """What the answer to QUERY means for what was ordered.

    A missing or silent driver may still come. Fewer, more or other GPUs than ordered are final:
    seven of eight is a failure. A start-up script that failed is told of, whether or not the GPUs
    are there: what it was to do is the user's to judge, and another machine would not do it better.
    `upgrade` is another GPU that will do as well.
    """
    found = _cards(exit_code, output, errors, placed.gpu_type, placed.gpu_count)
    if (
        upgrade
        and found.stage == WRONG_GPUS
        and not _cards(exit_code, output, errors, upgrade, placed.gpu_count).stage
    ):
        found = ProbeResult()
    ended = next(
        (
            line.removeprefix(_STATUS).strip()
            for line in output.splitlines()
            if line.startswith(_STATUS)
        ),
        "0",
    )
    if not ended.isdigit() or int(ended) == 0:
        return found
    failed = f"its start-up script ended with {ended}"
    if found.stage:
        return found._replace(detail=f"{found.detail}; {failed}")
    return found._replace(note=f"{failed}; `gpus logs` shows what it wrote")


def _cards(exit_code: int, output: str, errors: str, gpu_type: str, gpu_count: int) -> ProbeResult:
    output = "\n".join(line for line in output.splitlines() if not line.startswith(_STATUS))
    if exit_code != 0:
        why = next(
            (
                line.strip()
                for line in reversed((errors + "\n" + output).splitlines())
                if line.strip()
            ),
            "",
        )
        return ProbeResult(
            NO_DRIVER, f"nvidia-smi ended with {exit_code}{f', {why[:160]}' if why else ''}"
        )
    cards = [read for line in output.splitlines() if (read := _card(line)) is not None]
    if not cards:
        return ProbeResult(NO_DRIVER, "nvidia-smi lists no GPU")
    wanted = f"{gpu_type}:{gpu_count}"
    shown = ", ".join(
        f"{count} x {name}" for name, count in Counter(name for name, _ in cards).items()
    )
    if len(cards) != gpu_count:
        return ProbeResult(
            WRONG_GPUS, f"{len(cards)} of {gpu_count} GPUs answer ({shown})", final=True
        )
    for name, mib in cards:
        if (
            mib is not None
            and names.nominal_memory_gib(gpu_type) is not None
            and not names.nominal_memory_matches(gpu_type, mib)
        ):
            return ProbeResult(
                WRONG_GPUS, f"{name} with {mib} MiB where {wanted} was ordered", final=True
            )
        model = names.gpu_type(name, mib)
        if model is not None and model != SAME_CARD.get(gpu_type, gpu_type):
            return ProbeResult(WRONG_GPUS, f"{shown} where {wanted} was ordered", final=True)
    return ProbeResult()


def _card(line: str) -> tuple[str, int | None] | None:
    """(name, MiB) of one line such as `NVIDIA L4, 23034 MiB`; MiB is None where the driver does not
    say. None for any other line.
    """
    name, comma, memory = line.rpartition(",")
    if not comma or not name.strip():
        return None
    number = memory.strip().removesuffix("MiB").strip()
    return name.strip(), int(number) if number.isdigit() else None
