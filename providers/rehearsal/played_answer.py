"""What a stand-in node answers when it is measured: nothing is measured, and the answer says so.

Owns the played answer. It is a sound machine with the cards that the stand-in's `nvidia-smi` shows,
unless the scenario says otherwise (`gpus rehearse fault clore node.accept relabelled --set
name=RTX-3090`; `tcp-links`, `tcp-between`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from providers.catalog import names
from providers.catalog.hardware import DTYPES, hardware
from providers.errors import GpusError
from providers.home import private, private_folder
from providers.rehearsal.node import LABEL
from providers.rehearsal.scenario import NODE_ACCEPT, RELABELLED, TCP_BETWEEN, TCP_LINKS
from providers.remote.run import finished

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from providers.model.fabric import Fabric
    from providers.model.machine import Node
    from providers.rehearsal.node import StandInProbe

_KEPT = "measured-as.json"
_TCP_GB_S = 1.2
_REACHED = 0.8
"""Of its sheet: what a sound card is played to reach."""
_PLAYED: dict[str, tuple[str, str, str | float]] = {
    RELABELLED: ("name", "name", "T4"),
    TCP_LINKS: ("gb_s", "gb_s", _TCP_GB_S),
    TCP_BETWEEN: ("between_gb_s", "gb_s", _TCP_GB_S),
}
"""Fault → (what is not as it seems, the fault's setting that says how, its default)."""
_CARDS = "nvidia-smi --query-gpu=name,memory.total --format=csv,noheader"


async def answer(probe: StandInProbe, node: Node, mode: str) -> Mapping[str, Any]:
    """What a machine would print, as `acceptance` reads it. Asks the store; runs a program here."""
    line = probe.line(node)
    if line is None:
        raise GpusError(f"{node.name}: wanted a way to log in and measure it, found none")
    _, output, _ = await finished(line.command(_CARDS))
    cards = [card.rpartition(",") for card in output.splitlines() if "," in card]
    shown = [
        (name.removesuffix(f" ({LABEL})"), float(mib.strip().removesuffix(" MiB")))
        for name, _, mib in cards
    ]
    truth = _truth(probe, node)
    speeds = [_speeds(str(truth.get("name", name))) for name, _ in shown]
    return {
        "schema": 1,
        "mode": mode,
        "stand_in": f"{LABEL}: nothing is measured, the figures are played",
        "torch": {"version": "played"},
        "xids": [],
        "errors": {},
        "gpus": [
            {"index": index, "name": name, "memory_mib": mib}
            for index, (name, mib) in enumerate(shown)
        ],
        "measured": [{"index": index, **each} for index, each in enumerate(speeds)],
        **_links([name for name, _ in shown], truth.get("gb_s")),
    }


def between(
    probe: StandInProbe, nodes: Sequence[Node], mode: str, fabric: Fabric | None
) -> Sequence[Mapping[str, Any]]:
    """What several machines would print of the network between them: that which was promised,
    unless one of them is slower than it seems. `answer` was asked before.
    """
    slow = next((rate for node in nodes if (rate := _known(probe, node).get("between_gb_s"))), None)
    promised = fabric is not None and fabric.promised and slow is None
    rate = slow or (_REACHED * (fabric.gbit_s if promised and fabric else 0) / 8) or _TCP_GB_S
    return [
        {
            "schema": 1,
            "mode": mode,
            "stand_in": f"{LABEL}: nothing is measured, the figures are played",
            "errors": {},
            "between": {
                "nodes": len(nodes),
                "rank": rank,
                "went": [fabric.name if promised and fabric else "Socket"],
                "all_reduce": [{"bytes": 256 << 20, "bus_gb_s": rate}],
            },
        }
        for rank in range(len(nodes))
    ]


def _truth(probe: StandInProbe, node: Node) -> Mapping[str, Any]:
    """What is not as it seems, where the scenario says so: from then on, a machine does not change
    by being measured.
    """
    kept, known = _file(probe, node), _known(probe, node)
    fault = probe.store.take_fault(
        node.handle.provider, NODE_ACCEPT, (node.region, node.zone), (node.machine_type,)
    )
    if fault is not None:
        what, setting, usual = _PLAYED[fault.kind]
        known[what] = fault.settings.get(setting, usual)
        private_folder(kept.parent)
        private(kept).write_text(json.dumps(known), encoding="utf-8")
    return known


def _file(probe: StandInProbe, node: Node) -> Path:
    return probe.stand_in(node).folder / "bin" / _KEPT


def _known(probe: StandInProbe, node: Node) -> dict[str, Any]:
    kept = _file(probe, node)
    return json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}


def _speeds(name: str) -> dict[str, Any]:
    """One card of that model."""
    found = hardware(names.gpu_type(name) or name)
    if found is None:
        return {"matmul": {}}
    rates = {dtype: found.dense_tflops(dtype) for dtype in DTYPES}
    return {
        "matmul": {
            dtype: {"tflops": round(_REACHED * rate, 1)}
            for dtype, rate in rates.items()
            if rate is not None
        },
        **(
            {"memory_tb_s": round(_REACHED * found.bandwidth_tb_s, 3)}
            if found.bandwidth_tb_s is not None
            else {}
        ),
    }


def _links(cards: list[str], slow_gb_s: object) -> dict[str, Any]:
    """What joins several cards of a model with NVLink."""
    found = hardware(names.gpu_type(cards[0]) or cards[0]) if cards else None
    if found is None or len(cards) < 2 or not found.interconnect.startswith("NVLink"):
        return {}
    way = (found.interconnect_gb_s or 0.0) / 2
    rate = round(_REACHED * way, 1) if slow_gb_s is None else slow_gb_s
    return {
        "links": {
            "matrix": [
                ["X" if row == column else "NV18" for column in range(len(cards))]
                for row in range(len(cards))
            ],
            "nvlink_gb_s": [way] * len(cards),
        },
        "all_reduce": [{"bytes": 1 << 30, "gpus": len(cards), "bus_gb_s": rate}],
    }
