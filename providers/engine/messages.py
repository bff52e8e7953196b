"""How attempts read: one line each, in the field's words, built to fit the screen: place, GPU,
price and outcome always stand there, and the cloud's code is the first to go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.record import ENDS_SLACK_S
from providers.errors import AllFailed, CloudError, NoCapacity, OfferGone, QuotaExceeded, with_words
from providers.model import duration
from providers.model.ask import BLOCK, RESERVATION
from providers.model.money import per_hour
from providers.model.placement import Placement
from providers.model.screen import log_width
from providers.model.stack import argument
from providers.planner.rules import GPU, NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from providers.engine.record import ClusterRecord
    from providers.model.ask import Ask
    from providers.model.machine import Attempt, Ticket
    from providers.model.offer import Candidate

_OURS_MAX = 2_000
"""Nothing of ours is that long; what is has foreign text in it, and both its ends are kept."""
WAITED = "waited"
"""The engine's own code for a call that was given up when its wait ran out."""


def rerun_command(cluster: str) -> str:
    """The command that asks for a new run of a cluster."""
    return f"`gpus rerun {cluster} {argument()}`"


CODES_SAID = {"GONE_AFTER_CREATE": "made, and gone again"}
"""Codes of the adapters' own that say more than their class does."""

SAID = {
    "NoCapacity": "sold out",
    "QuotaExceeded": "over the account's quota",
    "Unsupported": "not possible there",
    "NotEnabled": "not enabled for this account",
    "NotConfigured": "not configured",
    "BadCredentials": "credentials refused",
    "InsufficientFunds": "not enough funds",
    "OfferGone": "the offer is gone",
    "PriceRose": "the price rose",
    "RateLimited": "asked too often",
    "Transient": "failed for now",
    "OutcomeUnknown": "answer lost; nothing was made",
    "HalfMade": "not as ordered; released",
    "NotWhatWasSold": "delivered another machine than was ordered; released",
    "Degraded": "slower or less sound than was sold; released",
    "NotReady": "started, not ready in time; released",
    "Unclassified": "failed with an unknown code; nothing was made",
}

OF_ACCOUNT = {"NotConfigured", "BadCredentials", "InsufficientFunds"}
"""Ends of attempts that no wait changes."""

NO_ROOM = {"NoCapacity", "OfferGone"}
"""Ends of attempts that a wait may change."""

LIMIT = "its machines were ended by their own limit before it said how it ended"
"""Of a job, in place of an exit code."""


def said(error: CloudError) -> str:
    """What happened, in a few words, without the code."""
    if error.code == WAITED:
        return trimmed(error)
    text = CODES_SAID.get(error.code) or SAID.get(type(error).__name__, type(error).__name__)
    if isinstance(error, QuotaExceeded) and (error.metric or error.limit):
        text += f" {' '.join(part for part in (error.metric, error.limit) if part)}"
    return text


def line(number: int, candidates: Sequence[Candidate], *, machine: bool = False) -> str:
    """`#1 gcp europe-north1 (3 zones) H100:8 spot $10.21/h`: what is asked for, where, and the
    first one's price for all nodes; with its `machine` type where others are alike but for that.
    """
    first, placed = candidates[0], candidates[0].placement
    zones = list(dict.fromkeys(candidate.zone for candidate in candidates if candidate.zone))
    regions = list(dict.fromkeys(each.placement._replace(zone="").where for each in candidates))
    machines = list(dict.fromkeys(each.placement.machine for each in candidates)) if machine else []
    kind = machines[0] if len(machines) == 1 else f"{len(machines)} types" * bool(machines)
    what = f"{placed.times}{placed.gpu} {_bought_as(first.capacity, first.micro_usd)}"
    return _heading(f"#{number} {first.provider}", zones, regions, kind, what)


def _heading(
    begins: str, zones: Sequence[str], regions: Sequence[str], kind: str, what: str
) -> str:
    """The machine's type goes where there is no room for it and the end, then the regions."""
    where = zones[0] if len(zones) == 1 else ", ".join(regions)
    counted = f" ({len(zones)} zones)" if len(zones) > 1 else ""
    texts = [
        " ".join(part for part in (begins, f"{where}{counted}", kind, what) if part),
        f"{begins} {where}{counted} {what}",
    ]
    if len(regions) > 1 and len(zones) != 1:
        texts.append(f"{begins} {len(regions)} regions{counted} {what}")
    return next((text for text in texts if len(text) + _END <= log_width()), texts[-1])


def _bought_as(capacity: str, micro_usd: int | None) -> str:
    return f"{capacity} {per_hour(micro_usd)}" if micro_usd is not None else capacity


_END = len(": cancelled")


def ended_line(heading: str, how: str, detail: str = "") -> str:
    """An attempt and how it ended: on one line, with the detail where that has room for it."""
    text = f"{heading}: {how}"
    return f"{text}{detail}" if len(text) + len(detail) <= log_width() else folded(text, "")


def refusal_lines(heading: str, capacity: str, error: CloudError, *, told: bool = False) -> str:
    """An attempt that came to nothing: one line, and below it what to do, unless it was `told`
    before or nothing is to be done but go on. `heading` is its `line`.
    """
    code = f" ({error.code})" if error.code and error.code != WAITED else ""
    text = ended_line(heading, said(error), code)
    goes_on = isinstance(error, (NoCapacity, OfferGone)) and capacity != RESERVATION
    if told or goes_on:
        return text
    return f"{text}\n{folded(trimmed(error) + ('' if text.endswith(code) else code))}"


def _attempt(attempt: Attempt) -> str:
    """The line of an attempt that ended, without what to do."""
    how = CODES_SAID.get(attempt.code) or SAID.get(attempt.outcome, attempt.outcome)
    code = f" ({attempt.code})" if attempt.code and attempt.outcome != "acquired" else ""
    placed = Placement(machine_type="".join(attempt.machine_types[:1]), region=attempt.region)
    heading = _heading(
        f"#{attempt.number} {attempt.provider}",
        attempt.zones,
        [placed.where],
        placed.machine if len(attempt.machine_types) == 1 else "",
        f"{attempt.gpu} {_bought_as(attempt.capacity, attempt.micro_usd)}",
    )
    return ended_line(heading, how, code)


def moment(at: float) -> str:
    """`2026-11-27 18:04 UTC`, of seconds since the epoch."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def waits(deadline: float, now: float) -> str:
    """`waits until 22:10 UTC`, with the date where that is not within twelve hours."""
    when = moment(deadline)
    return f"waits until {when.partition(' ')[2] if deadline - now < _HALF_DAY_S else when}"


_HALF_DAY_S = 12 * 3600


def clipped(text: str, most: int) -> str:
    """One line of at most so many columns; what is too much is left out of the middle, since both
    ends matter.
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def folded(text: str, first: str = "   ") -> str:
    """The text on lines of its own, within the columns; `first` stands before the first of them,
    three spaces before the others.
    """
    import textwrap

    return textwrap.fill(
        text,
        log_width(),
        initial_indent=first,
        subsequent_indent="   ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def trimmed(error: Exception) -> str:
    """The message on one line, our part of it whole, since the remedy stands there."""
    if not isinstance(error, CloudError):
        return clipped(" ".join(str(error).split()), _OURS_MAX)
    return with_words(clipped(" ".join(error.message.split()), _OURS_MAX), error.words)


def named(provider: str, text: object) -> str:
    """`gcp: wanted a project ...`: the text under the provider's name, once: many of an adapter's
    messages bear it already.
    """
    return f"{provider}: {bare(provider, text)}"


def bare(provider: str, text: object) -> str:
    """The text without the provider's name before it, however that is written, for a line that
    names it already.
    """
    said, prefix = str(text), f"{provider}: "
    return said[len(prefix) :] if said.lower().startswith(prefix.lower()) else said


def too_slow(cluster: str, attempts: Sequence[Attempt], wait_s: float) -> AllFailed:
    """The end of a walk at a service that started and did not answer in time: it would load as long
    at the next place, for the same money again.
    """
    last = attempts[-1]
    return AllFailed(
        "\n".join(
            (
                f"{cluster}: {last.message}",
                *map(_attempt, attempts),
                (
                    f"set a longer `wait` than {duration.text(wait_s)}: a large model takes that"
                    f" long to download and load; while it starts, `gpus logs {cluster}` shows what"
                    " it writes"
                ),
                "it was released, and no other place is tried, where it would take as long",
            )
        ),
        attempts,
        final=True,
    )


def wrong_anywhere(cluster: str, attempts: Sequence[Attempt]) -> AllFailed:
    """The end of a walk at a service whose own set-up lines or image ended it: the next place would
    be paid for the same end.
    """
    return AllFailed(
        "\n".join(
            (
                f"{cluster}: {attempts[-1].message}",
                *map(_attempt, attempts),
                (
                    "correct `workload.setup` or `workload.image`;"
                    f" `gpus run {argument()} --on GPU` tries it on one machine and shows what it"
                    " writes"
                ),
                "it was released, and no other place is tried, where it would end alike",
            )
        ),
        attempts,
        final=True,
    )


def all_failed(
    cluster: str,
    ask: Ask,
    attempts: Sequence[Attempt],
    refusals: Iterable[tuple[str, int]],
    hints: Sequence[str] = (),
    too_dear: str = "",
) -> AllFailed:
    """The end of a walk: one line per attempt, how many places were not tried by which rule, what
    `max_spend` left out (`too_dear`), and what would help.
    """
    refusals = list(refusals)
    asked = ", else ".join(
        f"{entry.gpu or f'{entry.min_memory_gib:g} GiB'}:{entry.gpu_count}" for entry in ask.entries
    )
    tried = (
        f"{len(attempts)} {'try' if len(attempts) == 1 else 'tries'}"
        if attempts
        else "no place is left to try"
        if not hints
        else "no place is acceptable"
    )
    lines = [folded(f"{cluster}: wanted {asked}, none was acquired: {tried}", "")]
    for attempt in attempts:
        lines.append(_attempt(attempt))
        if attempt.message:
            lines.append(folded(attempt.message))
    # Offers of other GPUs were never meant: only the near misses help.
    near = [f"{rule} {count}" for rule, count in refusals if rule != NAMES[GPU]]
    if near:
        lines.append(folded(f"not tried: {', '.join(near)}", ""))
    if too_dear:
        lines.append(folded(f"not tried: {too_dear}", ""))
    lines.extend(hints)
    more = "allow more (fallback, regions, providers, spot: prefer, a higher cap), or try later"
    if too_dear:
        more = f"raise gpus:max_spend, destroy what runs, or wait for next month; or {more}"
    of_account = [attempt.outcome in OF_ACCOUNT for attempt in attempts]
    if any(of_account):
        more = f"put right what is said above, or {more}"
    lines.append(folded(more, ""))
    return AllFailed(
        "\n".join(lines), attempts, refusals, final=bool(of_account) and all(of_account)
    )


def waits_for_window(ticket: Ticket) -> str:
    """Of an order that is paid for and has not begun: until when it waits, and what to do then."""
    begins = moment(ticket.begins_at)
    return (
        f"queued: waits for its block until {begins} ({ticket.detail}); run `up` again then, or"
        " leave `gpus watch` running; it is paid for, and `destroy` gets nothing back"
    )


def block_begins(begins_at: float) -> str:
    """The same where a process waits by itself."""
    return f"its block is paid for, and begins {moment(begins_at)}"


def kept_paid(block: str) -> str:
    """What is left of a block once what was to run in it is given up."""
    return (
        f"{block}: it is paid for and cannot be cancelled; the same cluster uses it if it is"
        " declared again before it ends. Once the whole stack is destroyed,"
        ' `capacity: ["reservation(ID)"]` uses it, with its own id'
    )


def why_ended(record: ClusterRecord, detail: str, now: float, idle: str = "") -> str:
    """`at 2026-11-29 08:29 UTC by its ttl`, or what the cloud said, with the moment it was seen.
    `idle`: it was ended on purpose, for that.
    """
    if record.ends_at and now >= record.ends_at - ENDS_SLACK_S and not idle:
        what = "the end of its block" if record.placement.capacity == BLOCK else "its ttl"
        return f"at {moment(min(record.ends_at, now))} by {what}"
    return f"({idle or detail or 'by its own limit'}), seen at {moment(now)}"
