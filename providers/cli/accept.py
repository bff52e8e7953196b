"""`gpus accept`: measures a machine's GPUs, and prints what was found beside what is expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.cli.output import NOTHING, OK, cell, console, print_json
from providers.errors import GpusError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from providers.acceptance.verdict import Verdict
    from providers.adhoc.machine import AsyncMachine

_STYLES = {"ok": "green", "poor": "yellow", "wrong": "red", "unknown": "dim"}


def accept(options: argparse.Namespace) -> int:
    """Measures every machine of a cluster and what is between them, or this one where no name is
    given; 0, or 1 where something does not pass.
    """
    from providers.acceptance.program import FULL, QUICK

    mode = FULL if options.full else QUICK
    found = _here(options, mode) if options.name is None else _there(options, mode)
    if options.json:
        print_json([_as_json(*each) for each in found])
    else:
        for title, answer, verdict in found:
            _print(title, answer, verdict)
    return OK if all(verdict.word == "pass" for _, _, verdict in found) else NOTHING


def _here(options: argparse.Namespace, mode: str) -> list[tuple[str, Mapping[str, Any], Verdict]]:
    from providers.acceptance.judge import judge
    from providers.acceptance.run import measured_here
    from providers.adhoc.sync import portal

    answer = portal().run(measured_here(mode))
    return [("this machine", answer, judge(answer, *_ordered(options.gpu)))]


def _ordered(gpu: str | None) -> tuple[str, int]:
    """(model, count) of `--gpu H200:1`; nothing of none. Raises SpecError."""
    from providers.catalog import names
    from providers.errors import Problem, SpecError

    if gpu is None:
        return "", 0
    name, _, count = gpu.partition(":")
    model = names.gpu_type(name)
    if model is None or not (count.isdigit() or not count):
        near = ", ".join(names.near(name))
        raise SpecError(
            [Problem("--gpu", "a GPU such as H100:8", repr(gpu), f"near: {near}" if near else "")]
        )
    return model, int(count or 0)


def _there(options: argparse.Namespace, mode: str) -> list[tuple[str, Mapping[str, Any], Verdict]]:
    from providers.acceptance.judge import judge
    from providers.adhoc.sync import portal
    from providers.cli.adhoc import one

    if options.gpu is not None:
        raise GpusError(f"--gpu says what this machine is; what {options.name} is, its record says")
    machine = one(options.name, options)
    record, sold = machine.inner.record, machine.inner.record.placement
    which = range(len(record.machines)) if options.node is None else (options.node,)
    found = []
    for number in which:
        answer = portal().run(machine.inner.measured(mode, number))
        title = f"{options.name}-{number}" if len(record.machines) > 1 else options.name
        found.append((title, answer, judge(answer, sold.gpu_type, sold.gpu_count)))
    if len(which) > 1:
        found.append((f"{options.name}, between its machines", *_between(machine.inner, mode)))
    return found


def _between(machine: AsyncMachine, mode: str) -> tuple[Mapping[str, Any], Verdict]:
    """(answers as one, verdict) of what is between its machines; unknown where none answers."""
    from providers.acceptance.between import NAME, judge
    from providers.acceptance.verdict import UNKNOWN, Check, Verdict
    from providers.adhoc.sync import portal

    try:
        answers, fabric = portal().run(machine.measured_between(mode))
    except GpusError as error:
        return {}, Verdict((Check(NAME, "", "", UNKNOWN, str(error)),))
    joined = {**answers[0], "between": [answer.get("between") for answer in answers]}
    return joined, judge(answers, fabric)


def _as_json(title: str, answer: Mapping[str, Any], verdict: Verdict) -> dict[str, Any]:
    return {
        "machine": title,
        "verdict": verdict.word,
        "reasons": list(verdict.reasons),
        "unknown": list(verdict.unknown),
        "checks": [check._asdict() for check in verdict.checks],
        "measured": dict(answer),
    }


def _print(title: str, answer: Mapping[str, Any], verdict: Verdict) -> None:
    """The table of one machine, and the verdict below it."""
    from rich import box
    from rich.table import Table

    from providers.acceptance.reading import real, text

    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("", "found", "expected", ""):
        table.add_column(heading, overflow="fold")
    for check in verdict.checks:
        found = check.found or (check.why if check.state == "unknown" else "")
        table.add_row(
            cell(check.name),
            cell(found),
            cell(check.expected),
            cell(check.state, _STYLES[check.state]),
        )
    screen, seconds, stand_in = console(), real(answer, "seconds"), text(answer, "stand_in")
    took = f" ({seconds:.0f} s)" if seconds is not None else ""
    screen.print(cell(f"{title}{took}{f': a {stand_in}' if stand_in else ''}"))
    screen.print(table)
    screen.print(cell(f"{title}: {verdict}"), soft_wrap=True)
