"""Whether a machine is what was sold: its own measurements against what the catalog expects.

Owns the rules. Pure. The answer is a stranger's: a field that is missing or absurd is unknown, and
unknown is neither good nor bad.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from providers.acceptance import links, speeds
from providers.acceptance.expected import POWER_LEAST, expected
from providers.acceptance.reading import Gpu, gpus, named, spread, text, whole
from providers.acceptance.verdict import POOR, UNKNOWN, WRONG, Check, Verdict
from providers.catalog import names
from providers.catalog.hardware import hardware
from providers.remote.driver import SAME_CARD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from providers.acceptance.expected import Expected

BUSY_PERCENT = 10.0
USED_MIB = 2048.0
"""Memory that nobody's program takes: the driver's own, and a display's."""
CARD_XIDS = {48, 61, 62, 63, 64, 69, 74, 79, 92, 94, 95, 110, 119, 120, 121, 140, 143, 149, 154}
"""Reports of the card itself and its links, not of a program (NVIDIA, "Xid Errors", read
2026-11-28).
"""
SLOWED = {
    "hw_slowdown": "heat or power",
    "hw_thermal_slowdown": "heat",
    "hw_power_brake_slowdown": "the machine's power supply",
    "sw_thermal_slowdown": "heat",
}
"""What slows a card and is no fault of its load. `sw_power_cap` is a card at its own limit."""


def judge(answer: Mapping[str, Any], gpu_type: str = "", count: int = 0) -> Verdict:
    """The verdict on what a machine printed. `gpu_type` and `count` are what was ordered; without
    them its own name for its GPUs says what to expect.
    """
    found = gpus(answer)
    if not found:
        return Verdict((_nothing(answer, gpu_type),))
    model = gpu_type or names.gpu_type(found[0].name, found[0].memory_mib) or ""
    due = expected(model)
    state = [
        *_identity(found, gpu_type, count),
        *_power(found, due),
        *_neighbours(found),
        *_health(answer, found),
    ]
    explained = any(check.state == POOR and check.explains for check in state)
    return Verdict(
        (
            *state,
            *links.pcie(found, due),
            *speeds.checks(answer, found, due, explained=explained),
            *links.checks(answer, found, due),
            *_steps(answer),
        )
    )


def _nothing(answer: Mapping[str, Any], gpu_type: str) -> Check:
    """No GPU in the answer: of another maker's, of a driver that fails, or really none."""
    sold = hardware(gpu_type)
    if sold is not None and sold.vendor != "NVIDIA":
        why = f"cards of {sold.vendor} are not measured"
        return Check("GPUs", "", gpu_type, UNKNOWN, why)
    if failed := text(answer.get("errors"), "driver"):
        return Check("GPUs", "", gpu_type, POOR, f"its driver does not answer: {failed}")
    return Check("GPUs", "none", gpu_type, WRONG, "its driver lists no GPU")


def _identity(found: Sequence[Gpu], gpu_type: str, count: int) -> Iterator[Check]:
    shown = ", ".join(f"{n} x {name}" for name, n in Counter(gpu.name for gpu in found).items())
    wanted = f"{count or ''}{' x ' if count else ''}{gpu_type}"
    models = {
        # A name that fits no such memory is that name's model all the same.
        gpu.number: names.gpu_type(gpu.name, gpu.memory_mib) or names.gpu_type(gpu.name)
        for gpu in found
    }
    other = [
        gpu
        for gpu in found
        if gpu_type
        and models[gpu.number] is not None
        and models[gpu.number] != SAME_CARD.get(gpu_type, gpu_type)
    ]
    if count and len(found) != count:
        yield Check("GPUs", shown, wanted, WRONG, f"{len(found)} GPUs where {count} were sold")
    elif other:
        yield Check("GPUs", shown, wanted, WRONG, f"{shown} where {gpu_type} was sold")
    elif gpu_type and None in models.values():
        yield Check("GPUs", shown, wanted, UNKNOWN, "a name that the catalog does not have")
    else:
        yield Check("GPUs", shown, wanted)
    sold = gpu_type or next(filter(None, models.values()), "")
    sizes = {gpu.number: gpu.memory_mib for gpu in found}
    less = {
        index: mib
        for index, mib in sizes.items()
        if mib is not None and sold and not names.nominal_memory_matches(sold, mib)
    }
    nominal = names.nominal_memory_gib(sold) if sold else None
    memory = f"{spread([mib / 1024 for mib in sizes.values() if mib is not None], 1)} GiB"
    if less and nominal is not None:
        why = f"{named(less)} {spread([mib / 1024 for mib in less.values()], 1)} GiB of memory"
        yield Check("memory", memory, f"{nominal:g} GB", WRONG, f"{why} where {sold} was sold")
    else:
        yield Check("memory", memory, f"{nominal:g} GB" if nominal is not None else "")
    if sliced := [gpu for gpu in found if gpu.mig.lower() == "enabled"]:
        why = f"{named(sliced)} a part of a card (MIG)"
        yield Check("MIG", "enabled", "disabled", WRONG, why)


def _power(found: Sequence[Gpu], due: Expected | None) -> Iterator[Check]:
    capped, shown = [], []
    most = due.power_w if due is not None else None
    for gpu in found:
        if gpu.power_limit_w is None:
            continue
        shown.append(gpu.power_limit_w)
        usual = max(filter(None, (gpu.power_default_w, most)), default=None)
        if usual is not None and gpu.power_limit_w < POWER_LEAST * usual:
            capped.append(gpu)
    expects = f"{most:g} W" if most is not None else ""
    if capped:
        why = (
            f"{named(capped)} limited to"
            f" {spread([gpu.power_limit_w or 0.0 for gpu in capped], 0)} W of"
            f" {max(filter(None, (capped[0].power_default_w, most))):g} W"
        )
        yield Check("power limit", f"{spread(shown, 0)} W", expects, POOR, why, explains=True)
    elif shown:
        yield Check("power limit", f"{spread(shown, 0)} W", expects)
    slow = {
        gpu.number: sorted({SLOWED[each] for each in gpu.slowed if each in SLOWED}) for gpu in found
    }
    slow = {index: reasons for index, reasons in slow.items() if reasons}
    hottest = [gpu.temperature_c for gpu in found if gpu.temperature_c is not None]
    heat = f"up to {max(hottest):g} C under load" if hottest else "not known"
    if slow:
        reasons = " and ".join(sorted({each for kinds in slow.values() for each in kinds}))
        why = f"{named(slow)} slowed down by {reasons}"
        yield Check("slowed by", reasons, "nothing", POOR, why, explains=True)
    elif hottest:
        yield Check("slowed by", f"nothing; {heat}", "nothing")


def _neighbours(found: Sequence[Gpu]) -> Iterator[Check]:
    busy = {}
    for gpu in found:
        what = []
        if gpu.processes:
            what.append(f"{len(gpu.processes)} other process{'es' if gpu.processes[1:] else ''}")
        if (gpu.busy_percent or 0.0) >= BUSY_PERCENT:
            what.append(f"{gpu.busy_percent:g} % busy")
        if (gpu.used_mib or 0.0) >= USED_MIB:
            what.append(f"{gpu.used_mib:g} MiB in use")
        if what:
            busy[gpu.number] = ", ".join(what)
    if busy:
        shown = "; ".join(dict.fromkeys(busy.values()))
        why = f"{named(busy)} in use by somebody else: {shown}"
        yield Check("others on it", shown, "nobody", POOR, why, explains=True)
    else:
        yield Check("others on it", "nobody", "nobody")


def _health(answer: Mapping[str, Any], found: Sequence[Gpu]) -> Iterator[Check]:
    bad = {
        gpu.number: said
        for gpu in found
        if (
            said := ", ".join(
                word
                for word, true in (
                    (f"{gpu.ecc_uncorrected or 0:g} uncorrected errors", gpu.ecc_uncorrected),
                    ("a row remap failed", gpu.remap_failed.lower() == "yes"),
                    ("a row remap waits for a reset", gpu.remap_pending.lower() == "yes"),
                )
                if true
            )
        )
    }
    ecc = ", ".join(sorted({f"ECC {gpu.ecc.lower()}" for gpu in found if gpu.ecc}))
    if bad:
        said = "; ".join(dict.fromkeys(bad.values()))
        yield Check("memory errors", said, "none", POOR, f"{named(bad)} memory errors: {said}")
    else:
        yield Check("memory errors", f"none{f'; {ecc}' if ecc else ''}", "none")
    if not isinstance(reports := answer.get("xids"), list):
        yield Check("Xid", "", "none", UNKNOWN, "the kernel's log cannot be read")
        return
    numbers = Counter(whole(each, "xid") for each in reports if isinstance(each, dict))
    said = ", ".join(f"{xid} ({n}x)" for xid, n in numbers.items() if xid is not None)
    if grave := sorted(CARD_XIDS & {xid for xid in numbers if xid is not None}):
        why = f"the kernel reports Xid {', '.join(map(str, grave))} of a card"
        yield Check("Xid", said, "none", POOR, why)
    else:
        yield Check("Xid", said or "none", "none")


def _steps(answer: Mapping[str, Any]) -> Iterator[Check]:
    """What did not work while it was measured. A step that hangs is a fault; one that failed is
    unknown.
    """
    errors = answer.get("errors")
    for step in errors if isinstance(errors, dict) else ():
        said = text(errors, step)
        state = POOR if "did not finish" in said else UNKNOWN
        yield Check(text({"": step}, ""), "", "", state, f"{step}: {said}"[:200])
    if not answer.get("torch"):
        why = "no PyTorch that sees a GPU is there: measured through the driver only"
        yield Check("matrix products", "", "", UNKNOWN, why)
