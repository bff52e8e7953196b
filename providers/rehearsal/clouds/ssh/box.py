"""The made-up boxes: what each has, where its files are, what is lent of it. Owns their folder
beside the store.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from providers.model.workload import BOOT_SCRIPT, ROOT
from providers.rehearsal import script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from providers.rehearsal.store import Store

PROVIDER, REGION, ON_DEMAND = "ssh", "own", "on-demand"


class Box(NamedTuple):
    """One box: `product` is its cards' name as NVIDIA's driver writes it (nvidia-smi(1), read
    2026-11-29), `mib` the memory of each.
    """

    name: str
    product: str
    mib: int
    size: int
    usd_per_gpu_hour: float

    @property
    def cards(self) -> tuple[str, ...]:
        """Their serial names."""
        return tuple(f"GPU-{self.name}-{index}" for index in range(self.size))


BOXES = (
    Box("box-1", "NVIDIA GeForce RTX 4090", 24_564, 2, 0.25),
    Box("box-2", "NVIDIA GeForce RTX 4090", 24_564, 2, 0.30),
)


class Lent(NamedTuple):
    """A lease as its file on a box has it."""

    box: Box
    folder: Path
    fields: dict[str, str]
    begun: float

    @property
    def is_lost(self) -> bool:
        """Whether its box was restarted since."""
        return self.fields["boot"] != f"boot-{int_of(self.folder.parents[2] / 'boots')}"

    @property
    def machine(self) -> str:
        """Its native id."""
        return f"{self.box.name}/{self.folder.name}"


def root(store: Store) -> Path:
    """The folder of all boxes: another one after each reset of the store."""
    row = store.connection().execute("SELECT value FROM meta WHERE key = 'begun'").fetchone()
    return store.path.parent / "own-machines" / str(row[0] if row else "0")


def folder(store: Store, box: Box) -> Path:
    """The folder of one, made when it is first asked for."""
    made = root(store) / box.name
    if not (made / "bin").exists():
        (made / "bin").mkdir(parents=True, exist_ok=True)
        smi = made / "bin" / "nvidia-smi"
        smi.write_bytes(Path(__file__).with_name("nvidia_smi.sh").read_bytes())
        smi.chmod(0o755)
    return made


def boots(store: Store, box: Box) -> int:
    """How often it was restarted."""
    return int_of(root(store) / box.name / "boots")


def int_of(file: Path) -> int:
    """The number in a file; 0 where there is none."""
    return int(file.read_text()) if file.exists() else 0


def reboot(store: Store, box: Box) -> None:
    """Restarts it: what ran there is lost."""
    (folder(store, box) / "boots").write_text(str(boots(store, box) + 1))


def lent(store: Store) -> Iterator[Lent]:
    """Every lease that stands on any box."""
    now = int(store.now())
    for box in BOXES:
        for file in sorted((root(store) / box.name / "agent" / "leases").glob("*/lease")):
            fields = dict(line.split("=", 1) for line in file.read_text().splitlines())
            if not 0 < int(fields["end"]) <= now:
                begun = float((file.parent / "begun").read_text())
                yield Lent(box, file.parent, fields, begun)


def play(store: Store, each: Lent) -> bool:
    """Writes the log that what runs there would have written by now; whether it has ended the
    lease.
    """
    own = each.folder / "own"
    given = (own / BOOT_SCRIPT.lstrip("/")).read_text()
    code = store.exit_code(PROVIDER, each.box.name, each.box.name)
    job_s, now = store.latency(PROVIDER, "job"), store.now()
    lines = script.told(store, each.machine, given, each.begun, now, job_s, code)
    if each.is_lost or not lines:
        return False
    (own / ROOT.lstrip("/") / "log").write_text("".join(f"{line}\n" for _, line in lines))
    over = script.over(store, PROVIDER, (store.work(each.machine) or (0.0, given))[1], each.begun)
    return over is not None and over <= now


def is_sold_out(store: Store, box: Box) -> bool:
    """Whether somebody else is said to use all cards that are not lent: the scenario's stock is of
    leases, on this box or on all together.
    """
    line = store.stock(PROVIDER, REGION, box.name, box.name, (), ON_DEMAND)
    if line.machines is None:
        return False
    standing = [each for each in lent(store) if line.place in {"", REGION, each.box.name}]
    return len(standing) >= line.machines


def reprice(store: Store, box: Box, usd_per_gpu_hour: float) -> None:
    """Writes another price into the inventory."""
    (folder(store, box) / "price").write_text(str(usd_per_gpu_hour))


def _price(store: Store, box: Box) -> float:
    file = root(store) / box.name / "price"
    return float(file.read_text()) if file.exists() else box.usd_per_gpu_hour


def inventory(store: Store, port: int) -> str:
    """The inventory by which the boxes are reached, as JSON: the way there is a program that speaks
    to the server on this port.
    """
    import sys

    program = str(Path(__file__).with_name("client.py"))
    machines = [
        {
            "name": box.name,
            "host": "127.0.0.1",
            "port": port,
            "user": box.name,
            "usd_per_gpu_hour": _price(store, box),
        }
        for box in BOXES
    ]
    transport = [sys.executable, "-I", "-S", program]
    return json.dumps({"transport": transport, "machines": machines})
