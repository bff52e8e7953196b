"""Compute Engine's codes and HTTP statuses, each with the class it means and what it blocks. Owns
these rows of the error table; `errors` reads answers by them.
"""

from __future__ import annotations

from providers.adapters.error_table import Row
from providers.errors import (
    BadCredentials,
    InsufficientFunds,
    NoCapacity,
    NotConfigured,
    OutcomeUnknown,
    QuotaExceeded,
    RateLimited,
    Transient,
    Unsupported,
)

PLACE, ZONE, REGION, QUOTA, ALL, NOTHING = "place", "zone", "region", "quota", "provider", "nothing"
"""What a row blocks. place: machine type and capacity kind in the zone. zone: the machine type in
the zone, however bought. region: the region. quota: what the limit counts, in its region, or the
provider for a limit without one. provider: Google. nothing: ask again.
"""
PEERS = "public failure reports and provisioners' tables"
STOCKOUT = "Google has none there now"
_USER = "iam.serviceAccounts.actAs (roles/iam.serviceAccountUser)"
_ACT_AS = (
    f"grant {_USER} on the machine's service account, or name another in"
    " options.gcp.service_account"
)
RIGHTS = (
    f"run `gpus check gcp`; grant roles/compute.instanceAdmin.v1, and {_USER} on a service account"
)
SIGN_IN = (
    "sign in again: gcloud auth application-default login; look at this machine's clock too: with a"
    " wrong one Google refuses good tokens"
)
ASK_FOR_MORE = "ask for more"
AGAIN = "it is asked again"
SETTLE = "it is looked up before anything else is bought"
ELSEWHERE = "another place is tried"
_API = "https://docs.cloud.google.com/compute/docs/troubleshooting"
_DISCOVERY = "Compute Engine error bodies, discovery v1 revision 20261106"
CODES: dict[str, Row] = {
    # None right now. Karpenter's three minutes to our ten: GPU stockouts last hours
    # (packer-plugin-googlecompute#354).
    "ZONE_RESOURCE_POOL_EXHAUSTED": Row(
        NoCapacity, PLACE, STOCKOUT, "doitintl/gpu-finder#1", "2026-11-27"
    ),
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": Row(
        NoCapacity, PLACE, STOCKOUT, "kubernetes/k8s.io#9834, skypilot#831", "2026-08"
    ),
    "STOCKOUT": Row(NoCapacity, PLACE, STOCKOUT, "skypilot#831", "2026-11-27"),
    "resource_availability": Row(
        NoCapacity, PLACE, STOCKOUT, "errorInfo.reason in kubernetes/k8s.io#9834", "2026-08"
    ),
    "insufficientCapacity": Row(
        NoCapacity, PLACE, STOCKOUT, "SkyPilot 0.14.1 (HTTP 503 of the bulk call)", "2026-10-19"
    ),
    "VM_MIN_COUNT_NOT_REACHED": Row(
        NoCapacity,
        PLACE,
        "capacity for only some of the nodes, so none was kept",
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
        QuotaExceeded,
        QUOTA,
        ASK_FOR_MORE,
        "discovery: QuotaExceededInfo; ai-on-gke#849",
        "2026-11-06",
    ),
    "quotaExceeded": Row(QuotaExceeded, QUOTA, ASK_FOR_MORE, "HTTP 403 usageLimits", "2026-11-27"),
    # Too fast, or too early.
    "RESOURCE_OPERATION_RATE_EXCEEDED": Row(RateLimited, NOTHING, AGAIN, PEERS, "2026-10-19"),
    "OPERATION_RATE_EXCEEDED": Row(RateLimited, NOTHING, AGAIN, PEERS, "2026-10-19"),
    "RATE_LIMIT_EXCEEDED": Row(RateLimited, NOTHING, AGAIN, "HTTP 403 errorInfo", "2026-11-27"),
    "rateLimitExceeded": Row(RateLimited, NOTHING, AGAIN, "HTTP 403 usageLimits", "2026-11-27"),
    "userRateLimitExceeded": Row(RateLimited, NOTHING, AGAIN, "HTTP 403 usageLimits", "2026-11-27"),
    "RESOURCE_NOT_READY": Row(
        Transient, NOTHING, "the name is still being stopped", "SkyPilot 0.14.1", "2026-10-19"
    ),
    "resourceNotReady": Row(
        Transient, NOTHING, "it is still being changed", "HTTP 400", "2026-11-27"
    ),
    "conditionNotMet": Row(
        Transient, NOTHING, "somebody changed it meanwhile", "HTTP 412, fingerprints", "2026-11-27"
    ),
    "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": Row(
        Unsupported, NOTHING, "another machine has the disk", PEERS, "2026-11-27", block_s=0.0
    ),
    "resourceInUseByAnotherResource": Row(
        Transient, NOTHING, "it is still in use", "HTTP 400", "2026-11-27"
    ),
    # Who asks.
    "authError": Row(BadCredentials, ALL, SIGN_IN, "HTTP 401", "2026-11-27"),
    "required": Row(BadCredentials, ALL, SIGN_IN, "HTTP 401", "2026-11-27"),
    "ACCESS_TOKEN_EXPIRED": Row(BadCredentials, ALL, SIGN_IN, "HTTP 401 errorInfo", "2026-11-27"),
    "forbidden": Row(BadCredentials, ALL, RIGHTS, "HTTP 403", "2026-11-27"),
    "insufficientPermissions": Row(BadCredentials, ALL, RIGHTS, "HTTP 403", "2026-11-27"),
    "IAM_PERMISSION_DENIED": Row(BadCredentials, ALL, RIGHTS, PEERS, "2026-10-19"),
    "PERMISSIONS_ERROR": Row(BadCredentials, ALL, RIGHTS, PEERS, "2026-10-19"),
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
        ELSEWHERE,
        "HTTP 400: a machine type or count that the zone does not offer",
        "2026-11-27",
    ),
    "invalidParameter": Row(
        Unsupported,
        ZONE,
        ELSEWHERE,
        "HTTP 400: a value in the path, the query or the body",
        "2026-11-27",
    ),
    "badRequest": Row(Unsupported, ZONE, ELSEWHERE, "HTTP 400", "2026-11-27"),
    "notFound": Row(
        Unsupported,
        ZONE,
        ELSEWHERE,
        "HTTP 404: an accelerator type that the zone has not",
        "2026-11-27",
    ),
    "INVALID_FIELD_VALUE": Row(Unsupported, ZONE, ELSEWHERE, _API, "2026-11-27"),
    # It may be there already, or may yet come.
    "alreadyExists": Row(
        OutcomeUnknown, NOTHING, SETTLE, "HTTP 409", "2026-11-27", reading=Transient
    ),
    "RESOURCE_ALREADY_EXISTS": Row(
        OutcomeUnknown, NOTHING, SETTLE, PEERS, "2026-10-19", reading=Transient
    ),
    "backendError": Row(
        OutcomeUnknown, NOTHING, SETTLE, "HTTP 503", "2026-11-27", reading=Transient
    ),
    "internalError": Row(
        OutcomeUnknown, NOTHING, SETTLE, "HTTP 500", "2026-11-27", reading=Transient
    ),
    "INTERNAL_ERROR": Row(OutcomeUnknown, NOTHING, SETTLE, _API, "2026-11-27", reading=Transient),
}
"""By the code of an operation's error, by `errorInfo.reason`, or by the `reason` of a refused HTTP
call.
"""
STATUSES: dict[int, Row] = {
    401: Row(BadCredentials, ALL, SIGN_IN, _DISCOVERY, "2026-11-06"),
    403: Row(BadCredentials, ALL, RIGHTS, _DISCOVERY, "2026-11-06"),
    408: Row(OutcomeUnknown, NOTHING, SETTLE, _DISCOVERY, "2026-11-06", reading=Transient),
    409: Row(OutcomeUnknown, NOTHING, SETTLE, _DISCOVERY, "2026-11-06", reading=Transient),
    412: Row(Transient, NOTHING, "somebody changed it meanwhile", _DISCOVERY, "2026-11-06"),
    429: Row(RateLimited, NOTHING, AGAIN, _DISCOVERY, "2026-11-06"),
    500: Row(OutcomeUnknown, NOTHING, SETTLE, _DISCOVERY, "2026-11-06", reading=Transient),
    502: Row(OutcomeUnknown, NOTHING, SETTLE, _DISCOVERY, "2026-11-06", reading=Transient),
    503: Row(OutcomeUnknown, NOTHING, SETTLE, _DISCOVERY, "2026-11-06", reading=Transient),
    504: Row(OutcomeUnknown, NOTHING, SETTLE, _DISCOVERY, "2026-11-06", reading=Transient),
}
"""By HTTP status, where the body names no code of the table."""
