"""The one error table: Compute Engine's codes, HTTP statuses and the client's exceptions, each with
the class it means and what it blocks.

Owns the reading of failed operations, refused HTTP calls and exceptions of the client. Decides by
code, never by the words of a message. Pure; the client's classes are known by name, so that nothing
of Google's is imported here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.base import Row, scrubbed
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
    Unclassified,
    Unsupported,
)
from providers.model import foreign
from providers.model.ask import FLEX_START, SPOT
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.offer import Candidate

PROVIDER = "gcp"

PLACE, ZONE, REGION, QUOTA, ALL, NOTHING = "place", "zone", "region", "quota", "provider", "nothing"
"""What a row blocks. place: machine type and capacity kind in the zone. zone: the machine type in
the zone, however bought. region: the region. quota: what the limit counts, in its region, or the
provider for a limit without one. provider: Google. nothing: ask again.
"""

FACTS = "apis.md A3"
PEERS = "public failure reports and provisioners' tables"


class Context(NamedTuple):
    """What was being done. `creating`: a lost answer may mean a machine. `candidates` and `token`
    are the order's, if there is one.
    """

    what: str
    project: str = ""
    creating: bool = False
    token: str = ""
    candidates: tuple[Candidate, ...] = ()


_STOCKOUT = "Google has none there now"
_USER = "iam.serviceAccounts.actAs (roles/iam.serviceAccountUser)"
_ACT_AS = (
    f"grant {_USER} on the machine's service account, or name another in"
    " options.gcp.service_account"
)
_RIGHTS = (
    f"run `gpus check gcp`; grant roles/compute.instanceAdmin.v1, and {_USER} on a service account"
)
SIGN_IN = (
    "sign in again: gcloud auth application-default login; look at this machine's clock too: with a"
    " wrong one Google refuses good tokens"
)
_QUOTA = "ask for more"
_AGAIN = "it is asked again"
_SETTLE = "it is looked up before anything else is bought"
_ELSEWHERE = "another place is tried"
_API = "https://docs.cloud.google.com/compute/docs/troubleshooting"
_DISCOVERY = "Compute Engine error bodies, discovery v1 revision 20261106"

CODES: dict[str, Row] = {
    # None right now. Karpenter's three minutes to our ten: GPU stockouts last hours
    # (packer-plugin-googlecompute#354).
    "ZONE_RESOURCE_POOL_EXHAUSTED": Row(
        NoCapacity, PLACE, _STOCKOUT, "doitintl/gpu-finder#1", "2026-11-27"
    ),
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": Row(
        NoCapacity, PLACE, _STOCKOUT, "kubernetes/k8s.io#9834, skypilot#831", "2026-08"
    ),
    "STOCKOUT": Row(NoCapacity, PLACE, _STOCKOUT, "skypilot#831", "2026-11-27"),
    "resource_availability": Row(
        NoCapacity, PLACE, _STOCKOUT, "errorInfo.reason in kubernetes/k8s.io#9834", "2026-08"
    ),
    "insufficientCapacity": Row(
        NoCapacity, PLACE, _STOCKOUT, "SkyPilot 0.14.1 (HTTP 503 of the bulk call)", "2026-10-19"
    ),
    "VM_MIN_COUNT_NOT_REACHED": Row(
        NoCapacity,
        PLACE,
        "not all nodes could be had, so none was kept",
        "discovery: bulkInsert",
        "2026-11-06",
    ),
    "UNSUPPORTED_OPERATION": Row(
        NoCapacity,
        PLACE,
        "seen when a Spot machine is taken while being made",
        "SkyPilot 0.14.1",
        "2026-10-19",
        block_s=180.0,
    ),
    "RESOURCE_NOT_FOUND": Row(
        NoCapacity, PLACE, "the machine vanished while being made", "skypilot#1797", "2026-10-19"
    ),
    # The account's limits.
    "QUOTA_EXCEEDED": Row(
        QuotaExceeded, QUOTA, _QUOTA, "discovery: QuotaExceededInfo; ai-on-gke#849", "2026-11-06"
    ),
    "quotaExceeded": Row(QuotaExceeded, QUOTA, _QUOTA, "HTTP 403 usageLimits", "2026-11-27"),
    # Too fast, or too early.
    "RESOURCE_OPERATION_RATE_EXCEEDED": Row(RateLimited, NOTHING, _AGAIN, PEERS, "2026-10-19"),
    "OPERATION_RATE_EXCEEDED": Row(RateLimited, NOTHING, _AGAIN, PEERS, "2026-10-19"),
    "RATE_LIMIT_EXCEEDED": Row(RateLimited, NOTHING, _AGAIN, "HTTP 403 errorInfo", "2026-11-27"),
    "rateLimitExceeded": Row(RateLimited, NOTHING, _AGAIN, "HTTP 403 usageLimits", "2026-11-27"),
    "userRateLimitExceeded": Row(
        RateLimited, NOTHING, _AGAIN, "HTTP 403 usageLimits", "2026-11-27"
    ),
    "RESOURCE_NOT_READY": Row(
        Transient, NOTHING, "the name is still being stopped", "SkyPilot 0.14.1", "2026-10-19"
    ),
    "resourceNotReady": Row(
        Transient, NOTHING, "it is still being changed", "HTTP 400", "2026-11-27"
    ),
    "conditionNotMet": Row(
        Transient, NOTHING, "somebody changed it meanwhile", "HTTP 412, fingerprints", "2026-11-27"
    ),
    "resourceInUseByAnotherResource": Row(
        Transient, NOTHING, "it is still in use", "HTTP 400", "2026-11-27"
    ),
    # Who asks.
    "authError": Row(BadCredentials, ALL, SIGN_IN, "HTTP 401", "2026-11-27"),
    "required": Row(BadCredentials, ALL, SIGN_IN, "HTTP 401", "2026-11-27"),
    "ACCESS_TOKEN_EXPIRED": Row(BadCredentials, ALL, SIGN_IN, "HTTP 401 errorInfo", "2026-11-27"),
    "forbidden": Row(BadCredentials, ALL, _RIGHTS, "HTTP 403", "2026-11-27"),
    "insufficientPermissions": Row(BadCredentials, ALL, _RIGHTS, "HTTP 403", "2026-11-27"),
    "IAM_PERMISSION_DENIED": Row(BadCredentials, ALL, _RIGHTS, PEERS, "2026-10-19"),
    "PERMISSIONS_ERROR": Row(BadCredentials, ALL, _RIGHTS, PEERS, "2026-10-19"),
    "SERVICE_ACCOUNT_ACCESS_DENIED": Row(
        BadCredentials, ALL, _ACT_AS, "kubicorn#475, google-cloud-java#10061", "2026-11-28"
    ),
    "accessNotConfigured": Row(
        NotConfigured,
        ALL,
        "enable it: gcloud services enable compute.googleapis.com",
        "HTTP 403",
        "2026-11-27",
    ),
    "SERVICE_DISABLED": Row(
        NotConfigured,
        ALL,
        "enable it: gcloud services enable compute.googleapis.com",
        "HTTP 403 errorInfo",
        "2026-11-27",
    ),
    "BILLING_DISABLED": Row(
        InsufficientFunds,
        ALL,
        "link a billing account to the project",
        "HTTP 403 errorInfo",
        "2026-11-27",
    ),
    "billingNotEnabled": Row(
        InsufficientFunds, ALL, "link a billing account to the project", "HTTP 403", "2026-11-27"
    ),
    # What does not exist, or not there.
    "VPC_NOT_FOUND": Row(
        NotConfigured, ALL, "make the network, or set options.gcp.network", PEERS, "2026-10-19"
    ),
    "SUBNET_NOT_FOUND_FOR_VPC": Row(
        Unsupported,
        REGION,
        "make a subnetwork in that region, or set options.gcp.subnetwork",
        PEERS,
        "2026-10-19",
    ),
    "invalid": Row(
        Unsupported,
        ZONE,
        _ELSEWHERE,
        "HTTP 400: a machine type or count that the zone has not",
        "2026-11-27",
    ),
    "invalidParameter": Row(
        Unsupported,
        ZONE,
        _ELSEWHERE,
        "HTTP 400: a value in the path, the query or the body",
        "2026-11-27",
    ),
    "badRequest": Row(Unsupported, ZONE, _ELSEWHERE, "HTTP 400", "2026-11-27"),
    "notFound": Row(
        Unsupported,
        ZONE,
        _ELSEWHERE,
        "HTTP 404: an accelerator type that the zone has not",
        "2026-11-27",
    ),
    "INVALID_FIELD_VALUE": Row(Unsupported, ZONE, _ELSEWHERE, _API, "2026-11-27"),
    # It may be there already, or may yet come.
    "alreadyExists": Row(
        OutcomeUnknown, NOTHING, _SETTLE, "HTTP 409", "2026-11-27", reading=Transient
    ),
    "RESOURCE_ALREADY_EXISTS": Row(
        OutcomeUnknown, NOTHING, _SETTLE, PEERS, "2026-10-19", reading=Transient
    ),
    "backendError": Row(
        OutcomeUnknown, NOTHING, _SETTLE, "HTTP 503", "2026-11-27", reading=Transient
    ),
    "internalError": Row(
        OutcomeUnknown, NOTHING, _SETTLE, "HTTP 500", "2026-11-27", reading=Transient
    ),
    "INTERNAL_ERROR": Row(OutcomeUnknown, NOTHING, _SETTLE, _API, "2026-11-27", reading=Transient),
}
"""By the code of an operation's error, by `errorInfo.reason`, or by the `reason` of a refused HTTP
call.
"""

STATUSES: dict[int, Row] = {
    401: Row(BadCredentials, ALL, SIGN_IN, _DISCOVERY, "2026-11-06"),
    403: Row(BadCredentials, ALL, _RIGHTS, _DISCOVERY, "2026-11-06"),
    408: Row(OutcomeUnknown, NOTHING, _SETTLE, _DISCOVERY, "2026-11-06", reading=Transient),
    409: Row(OutcomeUnknown, NOTHING, _SETTLE, _DISCOVERY, "2026-11-06", reading=Transient),
    412: Row(Transient, NOTHING, "somebody changed it meanwhile", _DISCOVERY, "2026-11-06"),
    429: Row(RateLimited, NOTHING, _AGAIN, _DISCOVERY, "2026-11-06"),
    500: Row(OutcomeUnknown, NOTHING, _SETTLE, _DISCOVERY, "2026-11-06", reading=Transient),
    502: Row(OutcomeUnknown, NOTHING, _SETTLE, _DISCOVERY, "2026-11-06", reading=Transient),
    503: Row(OutcomeUnknown, NOTHING, _SETTLE, _DISCOVERY, "2026-11-06", reading=Transient),
    504: Row(OutcomeUnknown, NOTHING, _SETTLE, _DISCOVERY, "2026-11-06", reading=Transient),
}
"""By HTTP status, where the body names no code of the table."""

_CLIENT = "google-api-python-client 2.202.0, httplib2 0.32.1, google-auth 2.63.0"
_OFFLINE = "look at the network: Google cannot be reached from here"
_BEFORE = Row(Transient, NOTHING, _OFFLINE, _CLIENT, "2026-11-27")
_LOST = Row(
    OutcomeUnknown,
    NOTHING,
    "the answer was lost; " + _SETTLE,
    _CLIENT,
    "2026-11-27",
    reading=Transient,
)
_GARBLED = Row(
    OutcomeUnknown,
    NOTHING,
    "the answer could not be read; " + _SETTLE,
    _CLIENT,
    "2026-11-27",
    reading=Transient,
)
_KEYS = Row(BadCredentials, ALL, SIGN_IN, _CLIENT, "2026-11-27")
_NO_KEYS = Row(
    NotConfigured,
    ALL,
    "set up credentials: gcloud auth application-default login",
    _CLIENT,
    "2026-11-27",
)

EXCEPTIONS: dict[str, Row] = {
    # Nothing was sent.
    "httplib2.error.ServerNotFoundError": _BEFORE,
    "httplib2.error.ProxiesUnavailableError": _BEFORE,
    "socket.gaierror": _BEFORE,
    "builtins.ConnectionRefusedError": _BEFORE,
    "providers.adapters.gcp.client.NotSent": _BEFORE,
    "ssl.SSLCertVerificationError": Row(
        Transient,
        NOTHING,
        "Google's certificate was not accepted: look at the proxy and the clock",
        _CLIENT,
        "2026-11-27",
    ),
    "google.auth.exceptions.TransportError": Row(
        Transient,
        NOTHING,
        "a token could not be fetched: look at the network",
        _CLIENT,
        "2026-11-27",
    ),
    "google.auth.exceptions.TimeoutError": Row(
        Transient,
        NOTHING,
        "a token could not be fetched: look at the network",
        _CLIENT,
        "2026-11-27",
    ),
    "google.auth.exceptions.ResponseError": Row(
        Transient, NOTHING, "a token could not be fetched", _CLIENT, "2026-11-27"
    ),
    # Keys.
    "google.auth.exceptions.DefaultCredentialsError": _NO_KEYS,
    "google.auth.exceptions.MutualTLSChannelError": _NO_KEYS,
    # `invalid_grant` is Google's word both for a sign-in that has ended and for a token signed by a
    # clock that is wrong.
    "google.auth.exceptions.RefreshError": _KEYS,
    "google.auth.exceptions.GoogleAuthError": _KEYS,
    # Sent, and no good answer.
    "httplib2.error.HttpLib2Error": _LOST,
    "http.client.HTTPException": _LOST,
    "builtins.OSError": _LOST,
    "googleapiclient.errors.Error": _GARBLED,
    "builtins.ValueError": _GARBLED,
    "builtins.EOFError": _GARBLED,
}
"""By the name of an exception's class or of its nearest base in this table. HttpError is read by
its status and body before.
"""


def from_operation(operation: Mapping[str, Any], context: Context) -> CloudError:
    """The refusal in a finished operation: the widest of its errors, with the zones that Google
    names as worth trying.
    """
    entries: list[Mapping[str, Any]] = (operation.get("error") or {}).get("errors") or []
    if not entries:
        code = str(operation.get("httpErrorStatusCode") or "no code")
        return _unknown(code, str(operation.get("httpErrorMessage") or ""), context)
    known: list[tuple[int, Row, Mapping[str, Any]]] = []
    for entry in entries:
        row = CODES.get(str(entry.get("code"))) or CODES.get(_info(entry).get("reason", ""))
        if row is None:
            known.append((_WIDTH_UNKNOWN, _UNKNOWN, entry))
        else:
            known.append((_width(row, entry), row, entry))
    _, row, entry = max(known, key=lambda item: item[0])
    if row is _UNKNOWN:
        return _unknown(
            str(entry.get("code") or "no code"), str(entry.get("message") or ""), context
        )
    failed_zones = {zone for item in entries if (zone := _metadatas(item).get("zone"))}
    named = [
        zone.strip()
        for item in entries
        for zone in _metadatas(item).get("zonesAvailable", "").split(",")
    ]
    hints = tuple(dict.fromkeys(zone for zone in named if zone and zone not in failed_zones))
    return _error(
        row.kind,
        row,
        str(entry.get("code") or ""),
        str(entry.get("message") or ""),
        context,
        hints=hints,
        quota=_quota(entry),
    )


def from_http(
    status: int, content: bytes | str, context: Context, retry_after: str = ""
) -> CloudError:
    """The refusal in an HTTP answer: by its reason, else by its status. A page that is no JSON is
    read by its status alone.
    """
    code, message, quota = _body(content)
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
        return _unknown(shown, message, context)
    kind = row.kind if context.creating else row.reading or row.kind
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
    for base in type(error).__mro__:
        name = f"{base.__module__}.{base.__qualname__}"
        row = EXCEPTIONS.get(name)
        if row is not None:
            kind = row.kind if context.creating else row.reading or row.kind
            return _error(kind, row, type(error).__name__, str(error), context)
    return _unknown(type(error).__name__, str(error), context)


def known_exception(kind: type[BaseException]) -> bool:
    """True when the table has a row for this class or a base of it."""
    return any(f"{base.__module__}.{base.__qualname__}" in EXCEPTIONS for base in kind.__mro__)


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


class Quota(NamedTuple):
    """`quotaInfo` of an error. `region` is empty for a limit that counts everywhere; None when the
    error does not say.
    """

    metric: str
    limit_name: str
    limit: str
    region: str | None


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
    if row.scope == QUOTA and (quota := _quota(entry)) is not None and quota.region == "":
        return 80
    return _WIDTHS[row.scope]


def _details(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    for detail in entry.get("errorDetails") or ():
        if isinstance(detail, dict) and isinstance(detail.get(key), dict):
            found: Mapping[str, Any] = detail[key]
            return found
    return {}


def _info(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return _details(entry, "errorInfo")


def _metadatas(entry: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in (_info(entry).get("metadatas") or {}).items()}


def _quota(entry: Mapping[str, Any]) -> Quota | None:
    info = _details(entry, "quotaInfo")
    if not info:
        return None
    metric = str(info.get("metricName") or "")
    region = str((info.get("dimensions") or {}).get("region") or "")
    limit = info.get("limit")
    shown = "" if limit is None else f"{limit:g}" if isinstance(limit, (int, float)) else str(limit)
    return Quota(metric, str(info.get("limitName") or ""), shown, region)


def _body(content: bytes | str) -> tuple[list[str], str, Quota | None]:
    """(codes, most telling first; message; quota) of an HTTP error's body."""
    try:
        parsed = json.loads(content)
    except (ValueError, UnicodeDecodeError):
        return [], "an answer that is no JSON", None
    error = parsed.get("error") if isinstance(parsed, dict) else None
    if not isinstance(error, dict):
        return [str(error)] if isinstance(error, str) else [], "", None
    codes: list[str] = []
    quota: Quota | None = None
    for detail in error.get("details") or ():
        if isinstance(detail, dict):
            codes.append(str(detail.get("reason") or ""))
            entry = (
                detail
                if "quotaInfo" in detail
                else {"quotaInfo": detail}
                if "metricName" in detail
                else {}
            )
            quota = quota or (_quota({"errorDetails": [entry]}) if entry else None)
    codes.extend(
        str(item.get("reason") or "")
        for item in error.get("errors") or ()
        if isinstance(item, dict)
    )
    return [code for code in codes if code], str(error.get("message") or ""), quota


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
    if row.todo == _RIGHTS and (right := _RIGHT.search(message)):
        todo = f"grant {right[1]} ({_role(right[1])}); `gpus check gcp` shows what else is missing"
    if todo == _ELSEWHERE and not context.candidates:
        todo = "this is not a matter of place"
    if kind is Transient and row.kind is OutcomeUnknown:
        todo = _AGAIN
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
        and todo == _STOCKOUT
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
