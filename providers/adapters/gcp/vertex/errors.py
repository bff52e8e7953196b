"""What a refusal of Vertex AI means: its own table of Google's canonical codes, and of how a job
can end that never ran.

Owns the reading of refused HTTP calls, of the client's exceptions and of a job's `error`. Decides
by code. The one exception is told at `_METRIC`: a limit and a stockout end a job with the same
code, and only the name of a quota metric tells them apart. Pure.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from providers.adapters.error_table import Row, exception_row
from providers.adapters.gcp import client_errors
from providers.adapters.gcp.error_codes import (
    AGAIN,
    ALL,
    ASK_FOR_MORE,
    ELSEWHERE,
    NOTHING,
    PLACE,
    QUOTA,
    REGION,
    SETTLE,
    SIGN_IN,
)
from providers.adapters.gcp.errors import clean, quota_page, unknown
from providers.errors import (
    BadCredentials,
    CloudError,
    InsufficientFunds,
    NoCapacity,
    NotConfigured,
    OutcomeUnknown,
    QuotaExceeded,
    RateLimited,
    Transient,
    Unsupported,
)
from providers.model import foreign
from providers.model.ask import FLEX_START, SPOT
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.adapters.gcp.errors import Context

PROVIDER = "vertex"

_RPC = "google.rpc.Code, aiplatform discovery v1 revision 20261106"
_RIGHTS = (
    "run `gpus check vertex`; grant roles/aiplatform.user (and roles/iam.serviceAccountUser for a"
    " service account)"
)
_ENABLE = "enable it: gcloud services enable aiplatform.googleapis.com"
_ISSUE = "GoogleCloudPlatform/stable-diffusion-on-gcp#12"

CODES: dict[str, Row] = {
    # `errorInfo.reason` first: it says more than the status beside it.
    "RATE_LIMIT_EXCEEDED": Row(
        RateLimited, NOTHING, AGAIN, "errorInfo.reason of Google's APIs", "2026-11-27"
    ),
    "SERVICE_DISABLED": Row(
        NotConfigured, ALL, _ENABLE, "errorInfo.reason of Google's APIs", "2026-11-27"
    ),
    "BILLING_DISABLED": Row(
        InsufficientFunds,
        ALL,
        "link a billing account to the project",
        "errorInfo.reason of Google's APIs",
        "2026-11-27",
    ),
    "IAM_PERMISSION_DENIED": Row(
        BadCredentials, ALL, _RIGHTS, "errorInfo.reason of Google's APIs", "2026-11-27"
    ),
    "ACCESS_TOKEN_EXPIRED": Row(
        BadCredentials, ALL, SIGN_IN, "errorInfo.reason of Google's APIs", "2026-11-27"
    ),
    # A create is refused with it for a limit; that there is no room is only known later, and ends
    # the job.
    "RESOURCE_EXHAUSTED": Row(
        QuotaExceeded, QUOTA, ASK_FOR_MORE, _ISSUE, "2023-12-14", reading=RateLimited
    ),
    "UNAUTHENTICATED": Row(BadCredentials, ALL, SIGN_IN, _RPC, "2026-11-06"),
    "PERMISSION_DENIED": Row(BadCredentials, ALL, _RIGHTS, _RPC, "2026-11-06"),
    "INVALID_ARGUMENT": Row(Unsupported, PLACE, ELSEWHERE, _RPC, "2026-11-06", block_s=0.0),
    "FAILED_PRECONDITION": Row(Unsupported, PLACE, ELSEWHERE, _RPC, "2026-11-06", block_s=0.0),
    "OUT_OF_RANGE": Row(Unsupported, PLACE, ELSEWHERE, _RPC, "2026-11-06", block_s=0.0),
    "NOT_FOUND": Row(Unsupported, REGION, ELSEWHERE, _RPC, "2026-11-06", block_s=0.0),
    "UNIMPLEMENTED": Row(Unsupported, REGION, ELSEWHERE, _RPC, "2026-11-06", block_s=0.0),
    "ALREADY_EXISTS": Row(OutcomeUnknown, NOTHING, SETTLE, _RPC, "2026-11-06", reading=Transient),
    "ABORTED": Row(OutcomeUnknown, NOTHING, SETTLE, _RPC, "2026-11-06", reading=Transient),
    "CANCELLED": Row(OutcomeUnknown, NOTHING, SETTLE, _RPC, "2026-11-06", reading=Transient),
    "UNKNOWN": Row(OutcomeUnknown, NOTHING, SETTLE, _RPC, "2026-11-06", reading=Transient),
    "DEADLINE_EXCEEDED": Row(
        OutcomeUnknown, NOTHING, SETTLE, _RPC, "2026-11-06", reading=Transient
    ),
    "INTERNAL": Row(OutcomeUnknown, NOTHING, SETTLE, _RPC, "2026-11-06", reading=Transient),
    "UNAVAILABLE": Row(OutcomeUnknown, NOTHING, SETTLE, _RPC, "2026-11-06", reading=Transient),
    "DATA_LOSS": Row(OutcomeUnknown, NOTHING, SETTLE, _RPC, "2026-11-06", reading=Transient),
}
"""By `errorInfo.reason`, else by the `status` of a refused HTTP call."""

STATUSES: dict[int, Row] = {
    400: CODES["INVALID_ARGUMENT"],
    401: CODES["UNAUTHENTICATED"],
    403: CODES["PERMISSION_DENIED"],
    404: CODES["NOT_FOUND"],
    408: CODES["DEADLINE_EXCEEDED"],
    409: CODES["ALREADY_EXISTS"],
    429: CODES["RATE_LIMIT_EXCEEDED"],
    500: CODES["INTERNAL"],
}
"""By HTTP status, where the body names no code of the table; 500 stands for all above it."""

_NO_ROOM = "Vertex AI has none there now"
ENDS: dict[int, Row] = {
    3: Row(
        Unsupported,
        PLACE,
        "look at the image, the machine type and options.vertex",
        _RPC,
        "2026-11-06",
        block_s=0.0,
    ),
    5: Row(
        Unsupported, ALL, "look at the image and at options.vertex", _RPC, "2026-11-06", block_s=0.0
    ),
    7: Row(
        Unsupported,
        ALL,
        "may the job's service account read the image?",
        _RPC,
        "2026-11-06",
        block_s=0.0,
    ),
    8: Row(
        NoCapacity,
        PLACE,
        _NO_ROOM,
        "openreview/openreview-expertise#401; vertex-ai-samples#700 for a limit",
        "2026-08-19",
    ),
    9: Row(Unsupported, PLACE, "look at options.vertex", _RPC, "2026-11-06", block_s=0.0),
}
"""By `error.code` of a job that ended before it ran. Whatever else it is: there is no room there
now.
"""

_METRIC = re.compile(r"aiplatform\.googleapis\.com/([a-z0-9_]+)")
"""The name of a limit. Vertex AI gives it nowhere but in the message (the issues named above)."""


def from_http(
    status: int, content: bytes | str, context: Context, retry_after: str = ""
) -> CloudError:
    """The refusal in an HTTP answer: by its reason, else by its status word, else by its number."""
    codes, message = _body(content)
    row = next((CODES[code] for code in codes if code in CODES), None)
    shown = next((code for code in codes if code in CODES), codes[0] if codes else f"HTTP {status}")
    if row is None and (not codes or status >= 500):
        row = STATUSES.get(status) or (STATUSES[500] if status >= 500 else None)
    if row is None:
        return unknown(shown, message, context, PROVIDER)
    kind = row.means(creating=context.creating)
    return _error(kind, row, shown, message, context, retry_after)


def from_exception(error: BaseException, context: Context) -> CloudError:
    """What an exception of the client means: Google's client is the same for all its APIs."""
    row = exception_row(error, client_errors.EXCEPTIONS)
    if row is None:
        return unknown(type(error).__name__, str(error), context, PROVIDER)
    kind = row.means(creating=context.creating)
    return _error(kind, row, type(error).__name__, str(error), context)


def never_ran(job: Mapping[str, Any], context: Context) -> CloudError:
    """Why a job ended that never ran, as a refusal of its place."""
    error = job.get("error") or {}
    code, message = (
        foreign.whole(error.get("code"), foreign.COUNT) or 0,
        str(error.get("message") or ""),
    )
    row = ENDS.get(code, ENDS[8])
    shown = str(code) if code else str(job.get("state", ""))
    if code == 8 and _METRIC.search(message):
        row = CODES["RESOURCE_EXHAUSTED"]
    return _error(row.kind, row, shown, message, context)


def _body(content: bytes | str) -> tuple[list[str], str]:
    """(codes, most telling first; message) of an HTTP error's body."""
    try:
        parsed = json.loads(content)
    except (ValueError, UnicodeDecodeError):
        return [], "an answer that is no JSON"
    error = parsed.get("error") if isinstance(parsed, dict) else None
    if not isinstance(error, dict):
        return [], ""
    details = [detail for detail in error.get("details") or () if isinstance(detail, dict)]
    codes = [
        *(str(detail.get("reason") or "") for detail in details),
        str(error.get("status") or ""),
    ]
    return [code for code in codes if code], str(error.get("message") or "")


def _error(
    kind: type[CloudError],
    row: Row,
    code: str,
    message: str,
    context: Context,
    retry_after: str = "",
) -> CloudError:
    base: dict[str, Any] = {
        "provider": PROVIDER,
        "code": code,
        "scopes": _scopes(row, context),
        "block_s": row.block_s,
    }
    base["words"] = clean(message)
    todo = AGAIN if row.kind is OutcomeUnknown and kind is Transient else row.todo
    todo = "this is not a matter of place" if todo == ELSEWHERE and not context.candidates else todo
    text = f"{context.what}: {code}; {todo}"
    if kind is QuotaExceeded:
        found = _METRIC.search(message)
        named = f": {found[1]} is reached" if found else ""
        text = f"{context.what}: {code}{named}; {row.todo} at {quota_page(context.project)}"
        return QuotaExceeded(text, metric=found[1] if found else "", limit="", **base)
    if kind is RateLimited:
        return RateLimited(
            text,
            retry_after_s=foreign.real(retry_after, foreign.SECONDS) or 0.0,
            **(base | {"scopes": ()}),
        )
    if issubclass(kind, OutcomeUnknown):
        return kind(text, token=context.token, **base)
    return kind(text, **base)


def _scopes(row: Row, context: Context) -> tuple[Scope, ...]:
    """Limits are of a region and a GPU; Spot and Flex-start draw on one of their own."""
    if row.scope == NOTHING:
        return ()
    if row.scope == ALL:
        return (Scope(PROVIDER),)
    found: list[Scope] = []
    for candidate in context.candidates:
        region = Scope(PROVIDER, candidate.region)
        if row.scope == REGION:
            found.append(region)
        elif row.scope == QUOTA:
            kinds = (
                (SPOT, FLEX_START)
                if candidate.capacity in (SPOT, FLEX_START)
                else (candidate.capacity,)
            )
            found.extend(
                region._replace(gpu_type=candidate.gpu_type, capacity=kind) for kind in kinds
            )
        else:
            found.append(
                region._replace(
                    machine_type=candidate.machine_type,
                    gpu_type=candidate.gpu_type,
                    capacity=candidate.capacity,
                )
            )
    return tuple(dict.fromkeys(found))
