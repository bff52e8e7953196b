"""What of a round is news to somebody who is not watching. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.watch.rounds import BOUGHT, BUSY, CAPPED, FAILED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from providers.watch.rounds import Round

NEAR = 0.9
"""Of `max_spend`: what is spent, and what runs will come to."""
_RUNNING = "running"


class News(NamedTuple):
    """A notice: a few words, and a line."""

    title: str
    text: str


def news(found: Round, before: Round | None) -> tuple[News, ...]:
    """What a round brought, against the one before it: machines acquired or lost, jobs ended, a
    failure that begins or ends, and a budget that is nearly spent. The same trouble is told once.
    """
    return (*_result(found, before), *_clusters(found, before), *_budget(found, before))


def _result(found: Round, before: Round | None) -> Iterator[News]:
    previous = before.result if before is not None else ""
    if found.result == BOUGHT:
        yield News("acquired", found.text)
    elif found.result in {FAILED, BUSY, CAPPED} and found.result != previous:
        yield News(found.result, found.text)
    elif previous in {FAILED, BUSY} and found.result not in {FAILED, BUSY, CAPPED}:
        yield News("works again", found.text)


def _clusters(found: Round, before: Round | None) -> Iterator[News]:
    known = {each["name"]: each["status"] for each in before.clusters} if before else {}
    for each in found.clusters:
        name, status = each["name"], each["status"]
        if known.get(name, _RUNNING) != status and status != _RUNNING:
            yield News(f"{name} {status}", each.get("detail") or str(each.get("where", "")))


def _budget(found: Round, before: Round | None) -> Iterator[News]:
    if _near(found.spending) and not (before is not None and _near(before.spending)):
        spending = found.spending or {}
        sums = [f"${spending[key]:,.2f}" for key in ("spent_usd", "to_come_usd", "max_spend_usd")]
        text = f"{sums[0]} spent this month, {sums[1]} to come of what runs, {sums[2]} at most"
        yield News("budget nearly spent", text)


def _near(spending: dict[str, Any] | None) -> bool:
    if spending is None:
        return False
    due = float(spending["spent_usd"]) + float(spending["to_come_usd"])
    return due >= NEAR * float(spending["max_spend_usd"])
