"""Clore's refusals as errors of the one tree. Owns the table of codes; pure, no I/O.

A row says what a code means, for a call that reads (or repeats harmlessly) and for `create_order`,
where a lost or muddled answer may stand for a machine that runs. Codes decide; words in messages
are never matched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers import errors
from providers.errors import printable, shortened
from providers.model import foreign
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

PROVIDER = "clore"
EVERYTHING, SERVER, KIND = "provider", "server", "server and capacity"
_API = "docs.clore.ai for-hosts/api and dev/reference/api-reference"
_SEEN = "recorded by public clients"
_READ_ON = "2026-11-27"
_WORD_MAX = 80
"""Characters of the service's own words in a message."""


class Row(NamedTuple):
    """One code. `reading` is the class for a call that changes nothing or may be repeated,
    `creating` that for create_order; `scope` is what the refusal is about and `block_s` for how
    long (None: as its class says).
    """

    code: str
    reading: type[errors.CloudError]
    creating: type[errors.CloudError]
    scope: str
    meaning: str
    todo: str = ""
    block_s: float | None = None
    source: str = _API
    date: str = _READ_ON


TABLE: tuple[Row, ...] = (
    # A catch-all in practice (low balance, server just taken, required_price missed, `&` in env):
    # the order may exist all the same.
    Row(
        "1",
        errors.Transient,
        errors.OutcomeUnknown,
        SERVER,
        "database error; the order may exist all the same",
        source=f"{_API}; {_SEEN}",
    ),
    Row(
        "2",
        errors.Unsupported,
        errors.Unsupported,
        EVERYTHING,
        "the request was refused as bad input",
        "this is a fault of the adapter: report it",
        600.0,
    ),
    Row(
        "3",
        errors.BadCredentials,
        errors.BadCredentials,
        EVERYTHING,
        "the key was refused",
        "make a new one at clore.ai (Account, API) and set CLORE_API_KEY",
    ),
    Row(
        "4",
        errors.Unsupported,
        errors.Unsupported,
        EVERYTHING,
        "no such endpoint",
        "the API has changed: report it",
        600.0,
    ),
    Row(
        "5",
        errors.RateLimited,
        errors.RateLimited,
        EVERYTHING,
        "more than one call a second, or more than one order in five",
    ),
    Row(
        "6:not_enough_balance",
        errors.InsufficientFunds,
        errors.InsufficientFunds,
        EVERYTHING,
        "the wallet cannot pay",
        "deposit at clore.ai (Account, Deposit), or pay with another coin: pay_with",
    ),
    # Refused on demand, it may still take a bid.
    Row(
        "6:server-already-rented",
        errors.OfferGone,
        errors.OfferGone,
        KIND,
        "the server was rented meanwhile",
    ),
    Row(
        "6:server-offline",
        errors.OfferGone,
        errors.OfferGone,
        SERVER,
        "the server is offline",
        block_s=7_200.0,
    ),
    Row(
        "6:currency-not-allowed",
        errors.OfferGone,
        errors.OfferGone,
        SERVER,
        "the server no longer takes this coin",
    ),
    Row(
        "6:too_low_price",
        errors.PriceRose,
        errors.PriceRose,
        KIND,
        "the bid is under what the server takes",
        block_s=600.0,
    ),
    Row(
        "6:exceeded_max_step",
        errors.Unsupported,
        errors.Unsupported,
        KIND,
        "the bid was lowered by more than one step",
        block_s=0.0,
    ),
    Row(
        "6:can_lower_every_600_seconds",
        errors.RateLimited,
        errors.RateLimited,
        KIND,
        "a bid can be lowered once in ten minutes",
    ),
    Row(
        "http:401",
        errors.BadCredentials,
        errors.BadCredentials,
        EVERYTHING,
        "the key was refused",
        "set CLORE_API_KEY again",
        source=_SEEN,
    ),
    # Seen as text "error code: 1010" from the front: before any work.
    Row(
        "http:403",
        errors.BadCredentials,
        errors.BadCredentials,
        EVERYTHING,
        "refused at the front of the service: this address or this client",
        "try from another network",
        source=_SEEN,
    ),
    Row(
        "http:429",
        errors.RateLimited,
        errors.RateLimited,
        EVERYTHING,
        "too many calls",
        source=_SEEN,
    ),
    Row(
        "http:5xx",
        errors.Transient,
        errors.OutcomeUnknown,
        SERVER,
        "the service failed",
        source=_SEEN,
    ),
    Row(
        "html",
        errors.Transient,
        errors.OutcomeUnknown,
        SERVER,
        "a web page or half an answer instead of JSON",
        source=_SEEN,
    ),
    Row(
        "timeout",
        errors.Transient,
        errors.OutcomeUnknown,
        SERVER,
        "no answer in time",
        source=_SEEN,
    ),
    Row(
        "lost",
        errors.Transient,
        errors.OutcomeUnknown,
        SERVER,
        "the connection ended without an answer",
        source=_SEEN,
    ),
    Row(
        "unreachable",
        errors.Transient,
        errors.Transient,
        EVERYTHING,
        "no connection to the service: nothing was sent",
        "look at the network, and at HTTPS_PROXY where it is set",
        source=_SEEN,
    ),
)
_BY_CODE = {row.code: row for row in TABLE}


def row_for(code: str) -> Row:
    """The row of a code; of one that no table knows, a row that takes it for an unknown outcome."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    if code.startswith("http:5"):
        return _BY_CODE["http:5xx"]
    return Row(
        code,
        errors.Unclassified,
        errors.Unclassified,
        SERVER,
        "a code that no table knows; please report it",
        source="none",
        date="",
    )


def code_of(status: int, reply: object) -> str:
    """The code of an answer: empty when it is a good one, else as the table writes it. A non-zero
    code can come with HTTP 200.
    """
    from collections.abc import Mapping as AnyMapping

    if isinstance(reply, AnyMapping):
        code = reply.get("code")
        if isinstance(code, (int, str)) and not isinstance(code, bool):
            word = shortened(printable(str(code).strip()), _WORD_MAX)
            if word == "0":
                return "" if status < 400 else f"http:{status}"
            # Code 1 comes with HTTP 500 too, and says no less then.
            return (
                f"6:{shortened(printable(str(reply.get('error'))), _WORD_MAX)}"
                if word == "6"
                else word
            )
    if status in {401, 403, 429} or status >= 500:
        return f"http:{status}"
    return "html" if status < 400 else f"http:{status}"


def error(
    code: str,
    *,
    creating: bool = False,
    token: str = "",
    server: int = 0,
    capacity: str = "",
    reply: Mapping[str, object] | None = None,
    doing: str = "",
) -> errors.CloudError:
    """The error of a code. `doing` names the call for the message; nothing of a request is in it,
    since requests hold keys.
    """
    row = row_for(code)
    kind = row.creating if creating else row.reading
    machine = f"server-{server}" if server else ""
    scopes: tuple[Scope, ...] = (Scope(PROVIDER),)
    if row.scope != EVERYTHING:
        scopes = (
            (Scope(PROVIDER, machine_type=machine, capacity=capacity if row.scope == KIND else ""),)
            if server
            else ()
        )
    told = "".join(
        f", {key} {shortened(printable(str((reply or {})[key])), _WORD_MAX)}"
        for key in ("min_price", "max_step", "time_to_lowering")
        if key in (reply or {})
    )
    text = (
        f"clore{' ' + doing if doing else ''}{' for ' + machine if machine else ''}: {row.meaning}"
        f" (code {code}{told})"
    )
    if row.todo:
        text += f"; {row.todo}"
    rest: dict[str, object] = {
        "provider": PROVIDER,
        "code": code,
        "scopes": scopes,
        "block_s": row.block_s,
    }
    if issubclass(kind, errors.RateLimited):
        wait = foreign.real((reply or {}).get("time_to_lowering"), foreign.SECONDS)
        return kind(
            text, retry_after_s=wait if wait is not None else 5.0 if creating else 1.0, **rest
        )
    if issubclass(kind, errors.OutcomeUnknown):
        return kind(text, token=token, **rest)
    return kind(text, **rest)  # type: ignore[arg-type]
