"""Which error of the tree a refused call means, and what it blocks: by the rows of `error_codes`
and `client_errors`.

Owns the reading of refused calls, of a fleet's list of errors and of exceptions of the client.
Decides by code, never by the words of a message. Pure; boto's classes are known by name, so that
nothing of Amazon's is imported here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.aws import machines, optin
from providers.adapters.aws.client_errors import EXCEPTIONS
from providers.adapters.aws.error_codes import (
    AGAIN,
    ALL,
    BUCKET,
    CODES,
    DOCS,
    ELSEWHERE,
    MARKET,
    NOTHING,
    OWN,
    PLACE,
    POOL,
    REGION,
    SETTLE,
    STATE_REASONS,
    STATUSES,
    SUBNET,
    TYPE,
    ZONE,
)
from providers.adapters.error_table import Row, exception_row, scrubbed
from providers.errors import (
    CloudError,
    NoCapacity,
    NotEnabled,
    OutcomeUnknown,
    QuotaExceeded,
    Transient,
    Unclassified,
)
from providers.model import foreign
from providers.model.ask import SPOT
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.offer import Candidate

PROVIDER = "aws"


class Context(NamedTuple):
    """What was being done. `creating`: a lost answer may mean a machine. `candidates` and `token`
    are the order's, if there is one.

    `zone_ids` maps this account's zone names to ids, for answers that name a zone so. `own` is true
    while helpers of this adapter's own making (security group, template, placement group) are used:
    one that vanished is made again.
    """

    what: str
    region: str = ""
    creating: bool = False
    token: str = ""
    candidates: tuple[Candidate, ...] = ()
    zone_ids: tuple[tuple[str, str], ...] = ()
    own: bool = False


def from_response(response: Mapping[str, Any], context: Context) -> CloudError:
    """The refusal in an answer (`ClientError.response`): by its code, else by its HTTP status."""
    error = response.get("Error") or {}
    code, message = str(error.get("Code") or ""), str(error.get("Message") or "")
    status = (
        foreign.whole((response.get("ResponseMetadata") or {}).get("HTTPStatusCode"), foreign.COUNT)
        or 0
    )
    if code in OWN and context.own:
        return _error(
            Transient,
            CODES[code]._replace(scope=NOTHING, todo="it is made again"),
            code,
            message,
            context,
            context.candidates,
        )
    row = CODES.get(code) or STATUSES.get(status) or (STATUSES[500] if status >= 500 else None)
    if row is None:
        return _unknown(code or f"HTTP {status}", message, context)
    kind = row.means(creating=context.creating)
    return _error(kind, row, code or f"HTTP {status}", message, context, context.candidates)


def beyond_quota(limit: float, context: Context) -> QuotaExceeded:
    """The refusal of an order that was not sent, since it needs more than the account's limit.

    A limit of nothing speaks of everything that draws on it, another one of these machines alone.
    """
    spot = context.candidates[0].capacity == SPOT
    code = "MaxSpotInstanceCountExceeded" if spot else "VcpuLimitExceeded"
    context = context._replace(what=f"{context.what}: not asked for, the quota is {limit:g}")
    error = _error(QuotaExceeded, CODES[code], code, "", context, context.candidates)
    assert isinstance(error, QuotaExceeded)
    error.limit = f"{limit:g}"
    if limit > 0:
        places = (
            Scope(PROVIDER, each.region, machine_type=each.machine_type, capacity=each.capacity)
            for each in context.candidates
        )
        error.scopes = tuple(dict.fromkeys(places))
    return error


def from_fleet(errors: Sequence[Mapping[str, Any]], context: Context) -> CloudError:
    """What an instant fleet without machines means: the widest of its errors, with the scopes of
    every one of them.

    EC2 answers HTTP 200 with one error for each pool it tried. An answer that names no pool speaks
    of all candidates. What is blocked is blocked for the shortest time that any of the errors asks
    for.
    """
    if not errors:
        return _error(
            NoCapacity,
            CODES["UnfulfillableCapacity"],
            "UnfulfillableCapacity",
            "no machine, and no reason",
            context,
            context.candidates,
        )
    found: list[tuple[int, CloudError]] = []
    for item in errors:
        code, message = str(item.get("ErrorCode") or ""), str(item.get("ErrorMessage") or "")
        row = CODES.get(code)
        if row is None:
            found.append((_WIDTH_UNKNOWN, _unknown(code or "no code", message, context)))
            continue
        # The fleet has ended and made nothing: a fault inside is a passing one.
        kind = Transient if row.kind is OutcomeUnknown else row.kind
        if code in OWN and context.own:
            kind, row = Transient, row._replace(scope=NOTHING, todo="it is made again")
        found.append(
            (_WIDTHS[row.scope], _error(kind, row, code, message, context, _named(item, context)))
        )
    _, error = max(found, key=lambda pair: pair[0])
    scopes = tuple(dict.fromkeys(scope for _, each in found for scope in each.scopes))
    if scopes and not isinstance(error, Unclassified):
        error.scopes = scopes
        error.block_s = min(
            (each.block_s for _, each in found if each.scopes), default=error.block_s
        )
    return error


def from_state(
    reason: Mapping[str, Any], context: Context, candidates: Sequence[Candidate]
) -> CloudError:
    """Why a machine ended before it ran, by its `StateReason`."""
    code, message = str(reason.get("Code") or ""), str(reason.get("Message") or "")
    row = STATE_REASONS.get(code) or CODES.get(code.partition(".")[2])
    if row is None:
        row = Row(NoCapacity, PLACE, "it ended while it started", DOCS, "2026-11-27", block_s=180.0)
    return _error(row.kind, row, code or "TERMINATED", message, context, candidates)


def from_exception(error: BaseException, context: Context) -> CloudError:
    """What an exception of the client means."""
    row = exception_row(error, EXCEPTIONS)
    if row is None:
        return _unknown(type(error).__name__, str(error), context)
    # Of an answer that it cannot read, botocore repeats all that was sent.
    said = str(error).partition(" Further retries may succeed:")[0]
    kind = row.means(creating=context.creating)
    return _error(kind, row, type(error).__name__, said, context, context.candidates)


_SECRETS = (
    re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{12,}\b"),
    re.compile(r"Encoded authorization failure message:\s*\S+"),
    re.compile(r"\b(Signature|Credential|X-Amz-[A-Za-z-]+)=[^\s&,]+"),
    re.compile(
        r"[\"']?\b(aws_secret_access_key|secret\w*|session_?token|password)[\"']?\s*[=:]\s*[\"']?[^\s\"'&,}]+",
        re.IGNORECASE,
    ),
)


def clean(text: str, most: int = 300) -> str:
    """One line without anything that looks like a secret."""
    return scrubbed(text, _SECRETS, most)


def quota_page(region: str, code: str = "") -> str:
    """Where a quota is asked for."""
    where = region or "us-east-1"
    return f"https://{where}.console.aws.amazon.com/servicequotas/home/services/ec2/quotas" + (
        f"/{code}" if code else ""
    )


_WIDTH_UNKNOWN = 45
_WIDTHS = {
    ALL: 90,
    MARKET: 80,
    REGION: 70,
    BUCKET: 60,
    TYPE: 50,
    ZONE: 40,
    SUBNET: 38,
    PLACE: 30,
    POOL: 25,
    NOTHING: 20,
}


def _named(item: Mapping[str, Any], context: Context) -> tuple[Candidate, ...]:
    """The candidates that one error of a fleet speaks of."""
    pool = (item.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    name = str(pool.get("AvailabilityZone") or "")
    zone = str(pool.get("AvailabilityZoneId") or "") or dict(context.zone_ids).get(name, "")
    kind = str(pool.get("InstanceType") or "")
    found = tuple(
        candidate
        for candidate in context.candidates
        if (not zone or candidate.zone == zone) and (not kind or candidate.machine_type == kind)
    )
    return found or context.candidates


def _unknown(code: str, message: str, context: Context) -> CloudError:
    text = f"{context.what}: {code}: a code that no table knows; please report it"
    return Unclassified(
        text, token=context.token, provider=PROVIDER, code=code, words=clean(message)
    )


def _error(
    kind: type[CloudError],
    row: Row,
    code: str,
    message: str,
    context: Context,
    candidates: Sequence[Candidate],
) -> CloudError:
    todo = row.todo
    if todo == ELSEWHERE and not context.candidates:
        todo = "this is not a matter of place"
    if kind is Transient and row.kind is OutcomeUnknown:
        todo = row.todo.replace(SETTLE, AGAIN)
    if kind is NotEnabled and context.region:
        todo = f"{row.todo}: {optin.region_command(context.region)}"
    base: dict[str, Any] = {
        "provider": PROVIDER,
        "code": code,
        "scopes": _scopes(row, context, candidates),
        "block_s": row.block_s,
    }
    base["words"] = clean(message)
    if kind is Transient:
        base["block_s"] = None
    if kind is QuotaExceeded:
        metric, page, limit = "", quota_page(context.region), ""
        if row.scope == BUCKET and candidates:
            bucket = machines.bucket(candidates[0].machine_type)
            spot = candidates[0].capacity == SPOT
            metric = machines.quota_code(candidates[0].machine_type, candidates[0].capacity)
            page = quota_page(context.region, metric)
            limit = (
                f": vCPUs of {'Spot' if spot else 'On-Demand'} {bucket.name} instances in"
                f" {context.region}"
            )
        return QuotaExceeded(
            f"{context.what}: {code}{limit}; {todo}: {page}", metric=metric, **base
        )
    text = f"{context.what}: {code}; {todo}"
    if issubclass(kind, OutcomeUnknown):
        return kind(text, token=context.token, **base)
    return kind(text, **base)


def _scopes(row: Row, context: Context, candidates: Sequence[Candidate]) -> tuple[Scope, ...]:
    if row.scope in (NOTHING, POOL):
        return ()
    if row.scope == ALL:
        return (Scope(PROVIDER),)
    if row.scope == MARKET:
        return tuple(
            dict.fromkeys(Scope(PROVIDER, capacity=candidate.capacity) for candidate in candidates)
        )
    if row.scope == REGION and not candidates and context.region:
        return (Scope(PROVIDER, context.region),)
    found: list[Scope] = []
    for candidate in candidates:
        region = Scope(PROVIDER, candidate.region)
        if row.scope == REGION:
            found.append(region)
        elif row.scope == BUCKET:
            bucket = machines.bucket(candidate.machine_type)
            found.extend(
                region._replace(gpu_type=gpu, capacity=candidate.capacity)
                for gpu in machines.bucket_gpus(bucket)
            )
        elif row.scope == TYPE:
            found.append(region._replace(machine_type=candidate.machine_type))
        elif row.scope == SUBNET:
            found.append(region._replace(zone=candidate.zone))
        elif row.scope == ZONE:
            found.append(region._replace(zone=candidate.zone, machine_type=candidate.machine_type))
        elif not candidate.reservation:
            # A reservation is one pool among several at its place: the place itself is not refused.
            found.append(
                region._replace(
                    zone=candidate.zone,
                    machine_type=candidate.machine_type,
                    capacity=candidate.capacity,
                )
            )
    return tuple(dict.fromkeys(found))
