"""`gpus top`: what the GPUs of all machines do, live, and for Prometheus."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import ExitStack, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from providers.adhoc.sync import portal
from providers.cli.machines import running, say
from providers.cli.metrics import Endpoint, Sample, address
from providers.cli.output import NOTHING, OK, cell, console, print_json
from providers.errors import GpusError, Problem, SpecError
from providers.model import duration
from providers.rehearsal.node import StandInProbe
from providers.remote import gauges
from providers.remote.run import finished

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rich.table import Table

    from providers.adhoc.machine import AsyncMachine
    from providers.adhoc.sync import Machine
    from providers.model.machine import Node
    from providers.remote.gauges import Gauge, Reading

LIMIT_S = 20.0
"""Seconds that one look at one machine may take."""
LIST_S = 60.0
"""How often the clouds are asked which machines there are."""
_HOT_C, _BUSY = 85.0, 50.0


def top(options: argparse.Namespace) -> int:
    """Shows every GPU until Ctrl-C, or once; 0, or 1 where no machine is there to look at."""
    interval_s = _interval(options.interval)
    # Nobody watches a pipe: there it is one look, unless Prometheus asks for more.
    once = options.once or options.json or not (sys.stdout.isatty() or options.serve)
    with ExitStack() as open_things:
        endpoint = None
        if options.serve is not None:
            endpoint = Endpoint(*address(options.serve))
            open_things.callback(endpoint.close)
            say(f"Prometheus finds it at {endpoint.url}")
        if once:
            return _once(options)
        with suppress(KeyboardInterrupt):
            _watch(options, interval_s, endpoint)
    return OK


def _interval(text: str) -> int:
    try:
        found = duration.seconds(text)
    except ValueError:
        found = 0
    if found < 1:
        raise SpecError([Problem("--interval", 'a duration of 1s or more, as in "5s"', repr(text))])
    return found


def _once(options: argparse.Namespace) -> int:
    machines = running(options)
    try:
        samples = portal().run(sampled(machines))
    finally:
        _closed(machines)
    if options.json:
        print_json([_as_json(each) for each in samples])
    elif samples:
        console().print(_table(samples))
    else:
        say("nothing runs that could be looked at; `gpus ps` lists what is known")
    return OK if samples else NOTHING


def _watch(options: argparse.Namespace, interval_s: int, endpoint: Endpoint | None) -> None:
    """Looks every so often, for ever."""
    from rich.live import Live

    machines: Sequence[Machine] = ()
    listed = float("-inf")
    shows = sys.stdout.isatty()
    # Its own redirection would take stderr from the screen that makes others' words harmless.
    drawn = (
        Live(console=console(), auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        if shows
        else nullcontext()
    )
    with drawn as live:
        try:
            while True:
                if time.monotonic() - listed >= LIST_S:
                    _closed(machines)
                    machines, listed = (), time.monotonic()
                    machines = running(options)
                samples = portal().run(sampled(machines))
                if endpoint is not None:
                    endpoint.publish(samples)
                if live is not None:
                    live.update(_table(samples), refresh=True)
                time.sleep(interval_s)
        finally:
            _closed(machines)


def _closed(machines: Sequence[Machine]) -> None:
    for machine in machines:
        machine.close()


async def sampled(machines: Sequence[Machine]) -> list[Sample]:
    """One look at every machine of these clusters, all at once."""
    parts = [
        (machine.inner, number, node)
        for machine in machines
        for number, node in enumerate(machine.record.machines)
    ]
    readings = await asyncio.gather(*(_reading(*part) for part in parts))
    return [
        Sample(machine.name, machine.stack, number, reading)
        for (machine, number, _), reading in zip(parts, readings, strict=True)
    ]


async def _reading(machine: AsyncMachine, number: int, node: Node) -> Reading:
    try:
        line = machine.line(number)
        if isinstance(machine.probe, StandInProbe):
            machine.probe.play(node)
        look = finished(line.command(gauges.query(stand_in=line.stand_in)))
        return gauges.read(*await asyncio.wait_for(look, LIMIT_S))
    except TimeoutError:
        return gauges.Reading(why=f"no answer within {LIMIT_S:.0f} s")
    except GpusError as error:
        return gauges.Reading(why=str(error))


def _table(samples: Sequence[Sample]) -> Table:
    """A row a GPU; a row with the reason for a machine that does not answer."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("machine", "GPU", "busy", "memory", "power", "heat", "errors"):
        right = heading in {"busy", "memory", "power", "heat"}
        table.add_column(heading, overflow="fold", justify="right" if right else "left")
    for each in samples:
        name = f"{each.cluster}-{each.number}" if each.number else each.cluster
        if each.reading.why:
            table.add_row(cell(name), cell(each.reading.why, "yellow"))
        for card in each.reading.gauges:
            table.add_row(cell(name), *(cell(*part) for part in _cells(card, each.reading.xids)))
    return table


def _cells(card: Gauge, xids: int | None) -> list[tuple[str, str]]:
    """(text, style) of each column of a card. A dash is what its driver does not say."""
    busy, heat = card.busy_percent, card.temperature_c
    faults = [
        text
        for text, count in (
            (f"{card.uncorrected or 0:g} ECC", card.uncorrected),
            (f"{xids} Xid", xids),
        )
        if count
    ]
    return [
        (f"{card.number} {card.name}", ""),
        (_unit(busy, "%"), "green" if busy is not None and busy >= _BUSY else ""),
        (_of(card.used_mib, card.total_mib, "GiB", 1024, 1), ""),
        (_of(card.power_w, card.power_limit_w, "W", 1, 0), ""),
        (_unit(heat, "C"), "red" if heat is not None and heat >= _HOT_C else ""),
        (", ".join(faults) or "none", "red" if faults else ""),
    ]


def _unit(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f} {unit}"


def _of(value: float | None, most: float | None, unit: str, factor: float, digits: int) -> str:
    if value is None:
        return "-"
    text = f"{value / factor:.{digits}f}"
    return f"{text} of {most / factor:.{digits}f} {unit}" if most is not None else f"{text} {unit}"


def _as_json(sample: Sample) -> dict[str, Any]:
    return {
        "cluster": sample.cluster,
        "stack": sample.stack or None,
        "node": sample.number,
        "error": sample.reading.why or None,
        "xids": sample.reading.xids,
        "gpus": [card._asdict() for card in sample.reading.gauges],
    }
