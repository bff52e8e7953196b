"""What a stand-in node answers when it is measured: nothing is measured, and the answer says so.

Owns the played answer. It is a sound machine with the cards that the stand-in's `nvidia-smi` shows,
unless the scenario lets them be others than they say (`gpus rehearse fault clore node.accept
relabelled --set name=RTX-3090`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from providers.catalog import names
from providers.catalog.hardware import DTYPES, hardware
from providers.home import private, private_folder
from providers.rehearsal.node import LABEL
from providers.rehearsal.scenario import NODE_ACCEPT, RELABELLED
from providers.remote.run import finished

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.model.machine import Node
    from providers.rehearsal.node import StandIn, StandInProbe

_KEPT = "measured-as.json"
_REACHED = 0.8
"""Of its sheet: what a sound card is played to reach."""
_CARDS = "nvidia-smi --query-gpu=name,memory.total --format=csv,noheader"


async def answer(probe: StandInProbe, node: Node, mode: str) -> Mapping[str, Any]:
    """What a machine would print, as `acceptance` reads it. Asks the store; runs a program here."""
    line = probe.line(node)
    _, output, _ = await finished(line.command(_CARDS))
    cards = [card.rpartition(",") for card in output.splitlines() if "," in card]
    shown = [
        (name.removesuffix(f" ({LABEL})"), float(mib.strip().removesuffix(" MiB")))
        for name, _, mib in cards
    ]
    truth = _truth(probe, node, line)
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
        "measured": [
            {"index": index, **_speeds(truth or name)} for index, (name, _) in enumerate(shown)
        ],
    }


def _truth(probe: StandInProbe, node: Node, line: StandIn) -> str:
    """What the cards really are, where the scenario says so: from then on, a card does not change
    by being measured. Empty: what they say.
    """
    kept = line.folder / "bin" / _KEPT
    fault = probe.store.take_fault(
        node.handle.provider, NODE_ACCEPT, (node.region, node.zone), (node.machine_type,)
    )
    if fault is not None and fault.kind == RELABELLED:
        private_folder(kept.parent)
        private(kept).write_text(json.dumps(fault.settings.get("name", "T4")), encoding="utf-8")
    return str(json.loads(kept.read_text(encoding="utf-8"))) if kept.exists() else ""


def _speeds(name: str) -> dict[str, Any]:
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
