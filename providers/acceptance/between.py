"""Whether what is between the machines of a cluster is what their plan promised. Owns the rules on
it. Pure.

The line in which NCCL names its network decides what carried the data: "Using network" and "via
NET/" are written by NCCL itself (NVIDIA/nccl, src/init.cc and src/transport/net.cc; recorded logs
of 2.4 to 2.30). The names are the plugins' own: `AWS Libfabric` and `Libfabric` (aws-ofi-nccl),
`gIB` (Google, "Run NCCL on Compute Engine instances", 2026-04-06), `FasTrak` and `GPUDirectTCPX_v7`
(GPUDirect-TCPXO and -TCPX), `IB` (NCCL's own for InfiniBand and RoCE), `Socket` (NCCL's own TCP).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from providers.acceptance.on_node.between import ALL_REDUCE
from providers.acceptance.reading import items, mapping, real, text, texts, whole
from providers.acceptance.verdict import OK, POOR, UNKNOWN, WRONG, Check, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.fabric import Fabric

FABRIC_LEAST = 0.40
"""Of a node's rate, on the bus: with a working fabric two nodes reach 0.8 to 1.6 of it (83 GB/s of
TCPX's 100, 318 of TCPXO's 200 and 370 of A4's 400, in public reports of 2026), over TCP 0.06 to
0.24.
"""
TCP = ("Socket", "FastSocket")
"""NCCL's own sockets, and Google's plugin for many of them at once (NCCL Fast Socket)."""
OVER_TCP = ("tcp", "sockets")
"""Libfabric's providers (fi_provider(7)) that are TCP again."""
NAME = "between nodes"


def judge(answers: Sequence[Mapping[str, Any]], fabric: Fabric | None) -> Verdict:
    """The verdict on what is between machines that answered so. `fabric` is what their plan
    promised; None: TCP.
    """
    found = [mapping(answer, "between") for answer in answers]
    network = _network(found)
    return Verdict((*_network_check(found, network, fabric), *_rates(answers, found, fabric)))


def _network(found: Sequence[Mapping[str, Any]]) -> str:
    """The network that carried the data, the worst of several; empty where NCCL does not say."""
    names: list[str] = []
    for each in found:
        own = list(texts(each, "went")) or [text(each, "chose")]
        if text(each, "provider").split(";")[0] in OVER_TCP:
            own = [TCP[0]]
        names += [re.sub(r"[^\w .:-]", "", name) for name in own if name]
    return next((name for name in names if name in TCP), next(iter(names), ""))


def _network_check(
    found: Sequence[Mapping[str, Any]], network: str, fabric: Fabric | None
) -> tuple[Check, ...]:
    shown = f"TCP (NCCL: {network})" if network in TCP else network
    wants = str(fabric) if fabric is not None else "TCP"
    if not network:
        return (Check(NAME, "", wants, UNKNOWN, "NCCL did not say over which network it goes"),)
    if network in TCP and fabric is not None and fabric.promised:
        warnings = [text(each, "warning") for each in found if text(each, "warning")]
        why = f"the all-reduce between nodes goes over TCP where {fabric} was paid for"
        why += f"; NCCL says: {warnings[0]}" if warnings else ""
        return (Check(NAME, shown, wants, WRONG, why),)
    return (Check(NAME, shown, wants),)


def _rates(
    answers: Sequence[Mapping[str, Any]],
    found: Sequence[Mapping[str, Any]],
    fabric: Fabric | None,
) -> tuple[Check, ...]:
    rates: dict[int, float] = {}
    for each in found:
        for one in items(each, "all_reduce"):
            size, rate = whole(one, "bytes"), real(one, "bus_gb_s")
            if size is not None and rate is not None:
                rates[size] = min(rate, rates.get(size, rate))
    promised = fabric is not None and fabric.promised
    checks = [
        _rate(size, rate, fabric if promised and size == max(rates) else None)
        for size, rate in sorted(rates.items())
    ]
    for number, answer in enumerate(answers):
        for step, said in mapping(answer, "errors").items():
            hangs = "did not finish" in str(said)
            state = POOR if hangs or (promised and step == ALL_REDUCE) else UNKNOWN
            why = f"node {number}: {text({'': step}, '')}: {text({'': said}, '')}"
            checks.append(Check(f"{NAME}, {number}", "", "", state, why))
    if not checks:
        checks.append(Check(ALL_REDUCE, "", "", UNKNOWN, "not measured"))
    return tuple(checks)


def _rate(size: int, rate: float, fabric: Fabric | None) -> Check:
    name, shown = f"{ALL_REDUCE} {size >> 20} MiB", f"{rate:.1f} GB/s on the bus"
    if fabric is None or not fabric.gbit_s:
        return Check(name, shown)
    full = fabric.gbit_s / 8
    wants = f"{FABRIC_LEAST * full:.0f} or more; {fabric} is {full:.0f}"
    if rate < FABRIC_LEAST * full:
        why = f"all-reduce between nodes at {rate:.1f} GB/s on the bus, of {full:.0f} for {fabric}"
        return Check(name, shown, wants, POOR, why)
    return Check(name, shown, wants, OK)
