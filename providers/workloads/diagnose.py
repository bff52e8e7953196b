"""What is wrong with a GPU machine, and what to do: one shell script that looks, and the judgement
of what it prints.

Owns the looks and the advice. The script changes nothing and needs no more than a shell; what is
not installed is said to be unknown. Pure: who runs the script is elsewhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from providers.model import shell

if TYPE_CHECKING:
    from collections.abc import Mapping

OK, BAD, UNKNOWN = "ok", "wrong", "unknown"
PREFIX = "gpus-doctor"

LEFT_OUT = (
    "what would tell of this computer instead (PyTorch, memory, links, kernel log, disk, CPU) is"
    " left out"
)
"""Of a rehearsal's stand-in node."""

SHM_LEAST_MIB = 1024
FULL_PERCENT = 95
MEMORY_FULL = 0.95

_SLOWED = {
    "NCCL_P2P_DISABLE": "GPUs of one machine exchange through its memory, not over NVLink or PCIe",
    "NCCL_SHM_DISABLE": "GPUs of one machine exchange over the network",
    "NCCL_IB_DISABLE": "machines exchange over TCP, not over InfiniBand or RoCE",
}
"""Settings that, when not 0, take a fast way from NCCL (NCCL user guide, "Environment Variables",
read 2026-11-28), and what is left then.
"""


class Finding(NamedTuple):
    """One line of the answer: what was looked at, how it is, what was found and what to do."""

    name: str
    state: str
    found: str
    todo: str = ""

    def __str__(self) -> str:
        return f"{self.name:<11} {self.state:<8} {self.found}" + (
            f"\n{'':21}{self.todo}" if self.todo else ""
        )


def script(*, stand_in: bool = False) -> str:
    """The shell script: each look's name, exit code and output, one after the other; on a
    rehearsal's stand-in only of its nvidia-smi.
    """
    return shell.program(__file__, "diagnose", prefix=PREFIX, stand_in="yes" if stand_in else "")


def read(output: str) -> dict[str, tuple[int, list[str]]]:
    """(exit code, lines) by look, of what the script printed."""
    found: dict[str, tuple[int, list[str]]] = {}
    name = ""
    for line in output.splitlines():
        head = re.match(rf"^{PREFIX} (\w+) (\d+)$", line)
        if head is not None:
            name = head[1]
            found[name] = (int(head[2]), [])
        elif name and line.strip():
            found[name][1].append(line.strip())
    return found


def judge(output: str, wanted: int = 0, *, stand_in: bool = False) -> list[Finding]:
    """The findings of what the script printed; `wanted` is how many GPUs were ordered (0: not
    known). Of a stand-in the driver's alone.
    """
    looks = read(output)
    gpus = _rows(looks, "gpus")
    if stand_in:
        return [_driver(looks, gpus, wanted)]
    return [
        _driver(looks, gpus, wanted),
        *_torch(looks, len(gpus)),
        *_memory(looks, gpus),
        *_links(looks, len(gpus)),
        *_machine(looks),
    ]


def _rows(looks: Mapping[str, tuple[int, list[str]]], name: str) -> list[list[str]]:
    code, lines = looks.get(name, (1, []))
    return (
        [[field.strip() for field in line.split(",")] for line in lines if "," in line]
        if code == 0
        else []
    )


def _text(looks: Mapping[str, tuple[int, list[str]]], name: str) -> str:
    return "; ".join(looks.get(name, (1, []))[1])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _driver(
    looks: Mapping[str, tuple[int, list[str]]], gpus: list[list[str]], wanted: int
) -> Finding:
    if not gpus:
        lost = (
            "`nvidia-smi` shows why; after an update of the kernel or driver reboot, else install"
            " the driver that the card needs"
        )
        return Finding("driver", BAD, "it does not answer, or shows no GPU", lost)
    names = ", ".join(dict.fromkeys(row[1] for row in gpus))
    if wanted and len(gpus) != wanted:
        xid = _text(looks, "xid")
        return Finding(
            "driver",
            BAD,
            f"{len(gpus)} of {wanted} GPUs answer ({names}){f'; {xid}' if xid else ''}",
            "one has fallen off the bus: reboot, else another machine",
        )
    if xid := _text(looks, "xid"):
        return Finding(
            "driver",
            BAD,
            f"{len(gpus)} x {names}, with errors: {xid}",
            "NVIDIA's Xid table says whether it is the program, the driver or the card (48, 63, 79:"
            " the card)",
        )
    return Finding("driver", OK, f"{len(gpus)} x {names}")


def _torch(looks: Mapping[str, tuple[int, list[str]]], count: int) -> list[Finding]:
    code, lines = looks.get("torch", (1, []))
    if code or not lines:
        return [Finding("torch", UNKNOWN, "PyTorch is not in this python3")]
    version, _, rest = lines[-1].partition(" ")
    cuda, _, seen = rest.partition(" ")
    visible = _text(looks, "visible")
    if seen.isdigit() and int(seen) == count:
        return [Finding("torch", OK, f"{version}, CUDA {cuda}, sees {seen} GPUs")]
    if cuda == "None":
        return [
            Finding(
                "torch",
                BAD,
                f"{version} was built without CUDA",
                "install the CUDA build of the same version",
            )
        ]
    if visible not in {"unset", ""}:
        return [
            Finding(
                "torch",
                BAD,
                f"sees {seen} of {count}: CUDA_VISIBLE_DEVICES is {visible}",
                "unset it, or name those that you mean",
            )
        ]
    return [
        Finding(
            "torch",
            BAD,
            f"{version}, CUDA {cuda}, sees {seen} of {count}",
            "its CUDA is newer than the driver: an older build, or a newer driver",
        )
    ]


def _memory(looks: Mapping[str, tuple[int, list[str]]], gpus: list[list[str]]) -> list[Finding]:
    found = []
    full = [
        row[0]
        for row in gpus
        if len(row) > 3
        and (used := _number(row[2])) is not None
        and (total := _number(row[3]))
        and used / total > MEMORY_FULL
    ]
    apps = _rows(looks, "apps")
    who = ", ".join(
        f"pid {row[0]} {row[1]} MiB {row[2].rpartition('/')[2]}" for row in apps[:4] if len(row) > 2
    )
    if full:
        todo = (
            "a smaller batch or context, recompute activations (gradient checkpointing), or more"
            " GPUs: `gpus size` says how many"
        )
        found.append(
            Finding(
                "memory", BAD, f"GPU {', '.join(full)} is full{f': {who}' if who else ''}", todo
            )
        )
    elif gpus:
        found.append(Finding("memory", OK, who or "nothing is loaded"))
    if oom := _text(looks, "oom"):
        found.append(
            Finding(
                "host memory",
                BAD,
                oom[:160],
                "the kernel ended a process: fewer data workers, or a machine with more memory",
            )
        )
    return found


def _links(looks: Mapping[str, tuple[int, list[str]]], count: int) -> list[Finding]:
    found = []
    rows = [row for row in _rows(looks, "pcie") if len(row) > 2]
    narrow = [
        row
        for row in rows
        if (now := _number(row[1])) is not None and (most := _number(row[2])) and now < most / 2
    ]
    if narrow:
        told = ", ".join(f"GPU {row[0]} x{row[1]} of x{row[2]}" for row in narrow)
        found.append(
            Finding(
                "PCIe",
                BAD,
                told,
                "half the lanes or fewer: data comes in slowly; on a marketplace take another host",
            )
        )
    if count > 1:
        found.append(_between(looks, count))
        size = _number(_text(looks, "shm"))
        if size is not None and size < SHM_LEAST_MIB:
            found.append(
                Finding(
                    "NCCL",
                    BAD,
                    f"shared memory has {size:.0f} MiB",
                    "start the container with --ipc host or --shm-size 8g",
                )
            )
        found.append(_nccl(looks))
    hot = [row for row in _rows(looks, "throttle") if len(row) > 3 and "Active" in {row[1], row[2]}]
    if hot:
        told = ", ".join(f"GPU {row[0]} at {row[3]} C" for row in hot)
        found.append(
            Finding(
                "clocks",
                BAD,
                f"slowed down by the hardware: {told}",
                "heat or power: nothing that a program can do; take another host",
            )
        )
    return found


def _between(looks: Mapping[str, tuple[int, list[str]]], count: int) -> Finding:
    """How the GPUs reach each other, by the matrix of `nvidia-smi topo -m`: a row a GPU, whose
    first columns are the GPUs, then the network cards.
    """
    rows = [
        re.split(r"\s+", line)[1 : 1 + count]
        for line in looks.get("topology", (1, []))[1]
        if re.match(r"GPU\d+\s+(X|NV\d+|[A-Z]{3,4})\s", line)
    ]
    pairs = [kind for at, row in enumerate(rows) for kind in row[at + 1 :]]
    if len(rows) != count or len(pairs) != count * (count - 1) // 2:
        return Finding("links", UNKNOWN, "no topology")
    fast = sum(kind.startswith("NV") for kind in pairs)
    if fast == len(pairs):
        return Finding("links", OK, "NVLink")
    todo = (
        "exchange over PCIe: a smaller tensor-parallel group and pipeline stages, or data"
        " parallelism"
    )
    if not fast:
        return Finding("links", BAD, "no NVLink between the GPUs", todo)
    return Finding(
        "links",
        BAD,
        f"NVLink between {fast} of {len(pairs)} pairs of GPUs",
        "a tensor-parallel group no larger than those it joins",
    )


def _nccl(looks: Mapping[str, tuple[int, list[str]]]) -> Finding:
    """What the environment tells NCCL, and which of it makes exchange slow."""
    settings = looks.get("nccl", (1, []))[1]
    off = [
        line
        for line in settings
        if line.partition("=")[0] in _SLOWED and line.partition("=")[2].strip() not in {"", "0"}
    ]
    if off:
        slow = "; ".join(dict.fromkeys(_SLOWED[line.partition("=")[0]] for line in off))
        return Finding(
            "NCCL", BAD, ", ".join(off), f"{slow}; unset it, unless another fault made it necessary"
        )
    return Finding(
        "NCCL",
        OK,
        "; ".join(settings) or "no settings",
        "" if settings else "NCCL_DEBUG=INFO shows which links it takes",
    )


def _machine(looks: Mapping[str, tuple[int, list[str]]]) -> list[Finding]:
    found = []
    disk = _number(_text(looks, "disk").rstrip("%"))
    if disk is not None:
        todo = "clear it, or set disk_gib" if disk >= FULL_PERCENT else ""
        found.append(Finding("disk", BAD if todo else OK, f"{disk:.0f} % full", todo))
    load, _, cores = _text(looks, "load").partition(" ")
    if (busy := _number(load)) is not None and (has := _number(cores)):
        idle = [
            row for row in _rows(looks, "pcie") if len(row) > 3 and (_number(row[3]) or 0.0) < 50
        ]
        starved = busy > has and bool(idle)
        todo = (
            "the GPUs wait for the CPU: more data workers will not help, a machine with more cores"
            " or prepared data will"
            if starved
            else ""
        )
        found.append(
            Finding("CPU", BAD if starved else OK, f"load {busy:.1f} on {has:.0f} cores", todo)
        )
    return found


def text(findings: list[Finding]) -> str:
    """All findings, what is wrong first."""
    order = {BAD: 0, UNKNOWN: 1, OK: 2}
    return "\n".join(map(str, sorted(findings, key=lambda each: order[each.state])))
