"""The state of the rehearsal world, as plain types and as lines on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.cli.rehearse_words import clouds, console, unplaced
from providers.model.duration import text as duration_text
from providers.rehearsal.nodes import mode

if TYPE_CHECKING:
    from providers.rehearsal.store import Store


def state(store: Store) -> dict[str, Any]:
    """Everything that the command shows, in plain JSON types."""
    return {
        "world": "rehearsal",
        "now": store.now(),
        "ahead_s": store.offset(),
        "stock": [{**line._asdict(), "machines": line.machines} for line in store.stock_lines()],
        "unplaced": [
            {
                "provider": cloud,
                "place": place,
                "gpu": gpu,
                "machine_types": sorted(name for name, card in kinds if card == gpu),
            }
            for cloud in clouds()
            for place, kinds in sorted(unplaced(cloud).items())
            for gpu in sorted({card for _, card in kinds})
        ],
        "latencies_s": [
            {"provider": provider, "step": step, "seconds": took}
            for provider, step, took in store.latencies()
        ],
        "quotas": [
            {"provider": provider, "place": place, "metric": metric, "limit": limit}
            for provider, place, metric, limit in store.quotas()
        ],
        "faults": [fault._asdict() for fault in store.faults()],
        "machines": [
            machine._asdict() for cloud in clouds() for machine in console(cloud).running(store)
        ],
        "nodes": {"kind": mode.of(store), "refused": mode.refused(store)},
        "requests": len(store.requests()),
        "mutations": len(store.mutations()),
    }


def clock_text(store: Store) -> str:
    """The world's time, and how far it is ahead of the real one."""
    from datetime import UTC, datetime

    ahead = store.offset()
    shown_at = datetime.fromtimestamp(store.now(), tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{shown_at} ({duration_text(ahead)} ahead)" if ahead else f"{shown_at} (real time)"


def shown(found: dict[str, Any]) -> list[str]:
    """The lines that a user reads, at most 96 columns where names allow. Pure."""
    from datetime import UTC, datetime

    ahead = (
        f"{duration_text(found['ahead_s'])} ahead of real time" if found["ahead_s"] else "real time"
    )
    out = [
        "clock    "
        f" {datetime.fromtimestamp(found['now'], tz=UTC).strftime('%Y-%m-%d %H:%M:%S UTC')},"
        f" {ahead}"
    ]
    rows = [*map(_stock_line, found["stock"]), *map(_unplaced_line, found["unplaced"])]
    out += _block(
        "stock", [*rows, "everything else: unlimited"] if rows else [], "unlimited everywhere"
    )
    if found["latencies_s"]:
        out += _block(
            "latency",
            [
                f"{line['provider']} {line['step']}: {line['seconds']:g}s"
                for line in found["latencies_s"]
            ],
            "",
        )
    if found["quotas"]:
        rows = [
            f"{line['provider']} {line['place'] or 'everywhere'} {line['metric']}:"
            f" {line['limit']:g}"
            for line in found["quotas"]
        ]
        out += _block("quota", rows, "")
    out += _block("failures", [_fault_line(line) for line in found["faults"]], "none planned")
    if found["nodes"]["kind"] != mode.PLAYED:
        refused = found["nodes"]["refused"]
        out.append(f"nodes     {found['nodes']['kind']}{f': {refused}' if refused else ''}")
    return out + _block("machines", [_machine_line(line) for line in found["machines"]], "none")


def _block(title: str, rows: list[str], nothing: str) -> list[str]:
    return [
        f"{title if index == 0 else '':<10}{row}" for index, row in enumerate(rows or [nothing])
    ]


def _stock_line(line: dict[str, Any]) -> str:
    what = line["machine_type"] or line["gpu"] or "everything"
    much = (
        "unlimited"
        if line["machines"] is None
        else "sold out"
        if line["machines"] == 0
        else f"{line['machines']}"
    )
    return (
        f"{line['provider']} {line['place'] or 'everywhere'} {what}"
        f" {line['capacity'] or 'any capacity'}: {much}"
    )


def _unplaced_line(line: dict[str, Any]) -> str:
    """`gcp australia-southeast2 H100 (a3-highgpu-8g and 5 more): none, ...`: what is for sale
    there, and never had here.
    """
    first, *more = reversed(line["machine_types"])
    return (
        f"{line['provider']} {line['place']} {line['gpu']}"
        f" ({first}{f' and {len(more)} more' if more else ''}): {NEVER}"
    )


def _fault_line(line: dict[str, Any]) -> str:
    often = "always" if line["times"] is None else f"{line['times']}x"
    where = " ".join(part for part in (line["place"], line["machine_type"]) if part)
    extra = " ".join(f"{key}={value}" for key, value in line["settings"].items())
    return " ".join(
        part
        for part in (line["provider"], line["method"], f"{line['kind']}, {often}", where, extra)
        if part
    )


def _machine_line(line: dict[str, Any]) -> str:
    gpus = f"{line['gpu']}:{line['gpu_count']:g} " if line["gpu"] else ""
    return (
        f"{line['name']} {line['status']} {line['provider']} {line['zone']} {line['machine_type']}"
        f" {gpus}{line['capacity']}"
    )


NEVER = "none, zone unknown"
"""Why a walk finds none at a place that is for sale and stands in no line of the stock."""
