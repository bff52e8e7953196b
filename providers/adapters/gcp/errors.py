"""Which error of the tree a failed operation or call means, and what it blocks: by the rows of
`error_codes` and `client_errors`.

Owns the reading of failed operations, refused HTTP calls and exceptions of the client. Decides by
code, never by the words of a message. Pure; the client's classes are known by name, so that nothing
of Google's is imported here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.error_table import Row, exception_row, scrubbed
from providers.adapters.gcp.client_errors import EXCEPTIONS
from providers.adapters.gcp.error_bodies import Quota, body_of, info_of, metadatas_of, quota_of
from providers.adapters.gcp.error_codes import (
    AGAIN,
    ALL,
    CODES,
    ELSEWHERE,
    NOTHING,
    PLACE,
    QUOTA,
    REGION,
    RIGHTS,
    STATUSES,
    STOCKOUT,
    ZONE,
)
from providers.errors import (
    CloudError,
    NoCapacity,
    OutcomeUnknown,
    QuotaExceeded,
    RateLimited,
    Transient,
    Unclassified,
)
from providers.model import foreign
from providers.model.ask import FLEX_START, SPOT
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.offer import Candidate

PROVIDER = "gcp"


class Context(NamedTuple):
    """What was being done. `creating`: a lost answer may mean a machine. `candidates` and `token`
    are the order's, if there is one.
    """

    what: str
    project: str = ""
    creating: bool = False
    token: str = ""
    candidates: tuple[Candidate, ...] = ()


def from_operation(operation: Mapping[str, Any], context: Context) -> CloudError:
    """The refusal in a finished operation: the widest of its errors, with the zones that Google
    names as worth trying.
    """
    entries: list[Mapping[str, Any]] = (operation.get("error") or {}).get("errors") or []
    if not entries:
        code = str(operation.get("httpErrorStatusCode") or "no code")
        return unknown(code, str(operation.get("httpErrorMessage") or ""), context)
    known: list[tuple[int, Row, Mapping[str, Any]]] = []
    for entry in entries:
        row = CODES.get(str(entry.get("code"))) or CODES.get(info_of(entry).get("reason", ""))
        if row is None:
            known.append((_WIDTH_UNKNOWN, _UNKNOWN, entry))
        else:
            known.append((_width(row, entry), row, entry))
    _, row, entry = max(known, key=lambda item: item[0])
    if row is _UNKNOWN:
        return unknown(
            str(entry.get("code") or "no code"), str(entry.get("message") or ""), context
        )
    failed_zones = {zone for item in entries if (zone := metadatas_of(item).get("zone"))}
    named = [
        zone.strip()
        for item in entries
        for zone in metadatas_of(item).get("zonesAvailable", "").split(",")
    ]
    hints = tuple(dict.fromkeys(zone for zone in named if zone and zone not in failed_zones))
    return _error(
        row.kind,
        row,
        str(entry.get("code") or ""),
        str(entry.get("message") or ""),
        context,
        hints=hints,
        quota=quota_of(entry),
    )


def from_http(
    status: int, content: bytes | str, context: Context, retry_after: str = ""
) -> CloudError:
    """The refusal in an HTTP answer: by its reason, else by its status. A page that is no JSON is
    read only by its status.
    """
    code, message, quota = body_of(content)
    if status == 400:
        # `required` says "sign in" at 401, but "a field is missing" at 400.
        code = ["invalid" if item == "required" else item for item in code]
    row = (
        next((CODES[item] for item in code if item in CODES), None)
        or STATUSES.get(status)
        or (STATUSES[500] if status >= 500 else None)
    )
    shown = next((item for item in code if item in CODES), code[0] if code else f"HTTP {status}")
    if row is None:
        return unknown(shown, message, context)
    kind = row.means(creating=context.creating)
    return _error(kind, row, shown, message, context, quota=quota, retry_after=retry_after)


def quota_exceeded(
    code: str, metric: str, limit: float, region: str, context: Context
) -> CloudError:
    """A refusal for quota whose limit was found by reading the quotas. `region` is empty for a
    limit that counts everywhere.
    """
    return _error(
        QuotaExceeded,
        CODES["quotaExceeded"],
        code,
        "",
        context,
        quota=Quota(metric, "", f"{limit:g}", region),
    )


def from_exception(error: BaseException, context: Context) -> CloudError:
    """What an exception of the client means."""
    row = exception_row(error, EXCEPTIONS)
    if row is None:
        return unknown(type(error).__name__, str(error), context)
    kind = row.means(creating=context.creating)
    return _error(kind, row, type(error).__name__, str(error), context)


_SECRETS = (
    re.compile(r"-----BEGIN [^-]*-----.*?(-----END [^-]*-----|$)", re.DOTALL),
    re.compile(r"\b[Bb]earer\s+\S+"),
    re.compile(r"\bya29\.\S+"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\S*"),
    re.compile(
        r"[\"']?\b(access_token|refresh_token|id_token|client_secret|private_key|assertion|api_?key|key|password|token)[\"']?\s*[=:]\s*[\"']?[^\s\"'&,}]+",
        re.IGNORECASE,
    ),
)


def clean(text: str, most: int = 300) -> str:
    """One line without anything that looks like a secret."""
    return scrubbed(text, _SECRETS, most)


def quota_page(project: str) -> str:
    """Where a quota is asked for."""
    return f"https://console.cloud.google.com/iam-admin/quotas?project={project}"


_RIGHT = re.compile(r"\b((?:compute|iam|resourcemanager|serviceusage)\.[a-zA-Z]+\.[a-zA-Z]+)\b")
"""The name of a right in Google's words (`Required 'compute.instances.create' permission for ...`):
only shown, nothing is decided by it.
"""


def _role(right: str) -> str:
    """The least role of Google's own that has the right."""
    if right.startswith("iam.serviceAccounts."):
        return "roles/iam.serviceAccountUser on the service account"
    return (
        "roles/compute.instanceAdmin.v1"
        if right.startswith("compute.")
        else "ask who owns the project"
    )


_UNKNOWN = Row(Unclassified, NOTHING, "", "", "")
_WIDTH_UNKNOWN = 45
_WIDTHS = {ALL: 90, QUOTA: 70, REGION: 60, ZONE: 40, PLACE: 30, NOTHING: 20}


def _width(row: Row, entry: Mapping[str, Any]) -> int:
    if entry.get("code") == "VM_MIN_COUNT_NOT_REACHED":
        return 0  # the wrapper: whatever stands beside it is the cause
    if row.scope == QUOTA and (quota := quota_of(entry)) is not None and quota.region == "":
        return 80
    return _WIDTHS[row.scope]


def unknown(code: str, message: str, context: Context, provider: str = PROVIDER) -> CloudError:
    """The error of a code that is in no table."""
    text = f"{context.what}: {code}: a code that no table knows; please report it"
    return Unclassified(
        text, token=context.token, provider=provider, code=code, words=clean(message)
    )


def _error(
    kind: type[CloudError],
    row: Row,
    code: str,
    message: str,
    context: Context,
    *,
    hints: Sequence[str] = (),
    quota: Quota | None = None,
    retry_after: str = "",
) -> CloudError:
    base: dict[str, Any] = {
        "provider": PROVIDER,
        "code": code,
        "scopes": _scopes(row, context, hints, quota),
        "hints": hints,
        "block_s": row.block_s,
    }
    base["words"] = clean(message)
    todo = row.todo
    if row.todo == RIGHTS and (right := _RIGHT.search(message)):
        todo = f"grant {right[1]} ({_role(right[1])}); `gpus check gcp` shows what else is missing"
    if todo == ELSEWHERE and not context.candidates:
        todo = "this is not a matter of place"
    if kind is Transient and row.kind is OutcomeUnknown:
        todo = AGAIN
    if kind is QuotaExceeded:
        metric = _metric(quota.metric) if quota else ""
        limit = quota.limit if quota else ""
        where = (
            ""
            if quota is None or quota.region is None
            else f" in {quota.region}"
            if quota.region
            else " over all regions"
        )
        limit_name = (
            f" ({quota.limit_name})" if quota and quota.limit_name not in {"", metric} else ""
        )
        named = (
            f"{metric}{limit_name} is {limit or 'reached'}{where}"
            if quota
            else "which limit, only Google's words say"
        )
        text = f"{context.what}: {code}: {named}; {todo} at {quota_page(context.project)}"
        return QuotaExceeded(
            text, metric=metric, limit=limit, **base | ({} if quota is None else {"words": ""})
        )
    if (
        (first := next(iter(context.candidates), None)) is not None
        and first.reservation
        and todo == STOCKOUT
    ):
        todo = _used_up(first)
        # It is the user's own, who may free it any time; and what is remembered for the place would
        # close other reservations there.
        base["block_s"] = 0.0
    text = f"{context.what}: {code}; {todo}"
    if kind is NoCapacity and hints:
        text += f"; it names {', '.join(hints)} as worth trying"
    if kind is RateLimited:
        return RateLimited(
            text, retry_after_s=foreign.real(retry_after, foreign.SECONDS) or 0.0, **base
        )
    if issubclass(kind, OutcomeUnknown):
        return kind(text, token=context.token, **base)
    return kind(text, **base)


def _used_up(candidate: Candidate) -> str:
    name = candidate.reservation
    zone = f" --zone={candidate.zone}" if candidate.zone else ""
    look = (
        f"`gcloud compute reservations describe {name.rsplit('/', 1)[-1]}{zone}` shows how much is"
        " in use"
    )
    return (
        f"reservation {name} has too little free: end what uses it, enlarge it, or list another"
        f" capacity after it; {look}"
    )


def _metric(name: str) -> str:
    """`NVIDIA_H100_GPUS` of `compute.googleapis.com/nvidia_h100_gpus`."""
    return name.rsplit("/", 1)[-1].upper()


def _scopes(
    row: Row, context: Context, hints: Sequence[str], quota: Quota | None
) -> tuple[Scope, ...]:
    if row.scope == NOTHING:
        return ()
    if row.scope == ALL or (row.scope == QUOTA and quota is not None and quota.region == ""):
        return (Scope(PROVIDER),)
    found: list[Scope] = []
    for candidate in context.candidates:
        if row.scope == REGION:
            found.append(Scope(PROVIDER, candidate.region))
        elif row.scope == QUOTA:
            found.extend(_quota_scopes(candidate, quota))
        elif row.scope == ZONE:
            found.append(_machine(candidate))
        elif candidate.zone not in hints:
            found.append(_machine(candidate)._replace(capacity=candidate.capacity))
    if row.scope == PLACE and not found:
        found = [
            _machine(candidate)._replace(capacity=candidate.capacity)
            for candidate in context.candidates
        ]
    return tuple(dict.fromkeys(found))


def _machine(candidate: Candidate) -> Scope:
    """What ran out: the machine type; on N1 the attached GPU, whatever host it hangs on."""
    if candidate.offer.accelerator:
        return Scope(PROVIDER, candidate.region, candidate.zone, gpu_type=candidate.gpu_type)
    return Scope(PROVIDER, candidate.region, candidate.zone, candidate.machine_type)


def _quota_scopes(candidate: Candidate, quota: Quota | None) -> list[Scope]:
    """Limits are regional. One that counts GPUs stops that GPU, bought that way (Spot and
    Flex-start draw on their own limit); another the region.
    """
    region = Scope(PROVIDER, (quota.region if quota else None) or candidate.region)
    if quota is not None and "GPU" not in _metric(quota.metric):
        return [region]
    kinds = (
        (SPOT, FLEX_START) if candidate.capacity in (SPOT, FLEX_START) else (candidate.capacity,)
    )
    return [region._replace(gpu_type=candidate.gpu_type, capacity=kind) for kind in kinds]
