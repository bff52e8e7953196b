"""The one error table: EC2's codes, HTTP statuses, reasons of state and boto's exceptions, each
with the class it means and what it blocks.

Owns the reading of refused calls, of a fleet's list of errors and of exceptions of the client.
Decides by code, never by the words of a message. Pure; boto's classes are known by name, so that
nothing of Amazon's is imported here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.aws import machines, optin
from providers.adapters.base import Row, scrubbed
from providers.errors import (
    BadCredentials,
    CloudError,
    NoCapacity,
    NotConfigured,
    NotEnabled,
    OutcomeUnknown,
    PriceRose,
    QuotaExceeded,
    RateLimited,
    Transient,
    Unclassified,
    Unsupported,
)
from providers.model import foreign
from providers.model.ask import SPOT
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.offer import Candidate

PROVIDER = "aws"

PLACE, ZONE, SUBNET, TYPE, REGION, BUCKET, MARKET, ALL, POOL, NOTHING = (
    *(
        "place",
        "zone",
        "subnet",
        "type",
        "region",
        "bucket",
        "market",
        "provider",
        "pool",
        "nothing",
    ),
)
"""What a row blocks. place: type and capacity kind in the zone. zone: the type in the zone, however
bought. subnet: the zone. type: the type in the region. region: the region. bucket: every GPU of the
quota's families in the region, bought that way. market: that capacity kind everywhere. provider:
AWS. pool: the reservation that was named, which no scope can name: nothing else. nothing: ask
again.
"""

TABLES = "Karpenter pkg/errors/errors.go@1d927085, ParallelCluster and SkyPilot tables"
PEERS = "public failure reports and provisioners' tables"
DOCS = "EC2 API reference, error codes"


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


_STOCKOUT = "EC2 has none there now"
_RIGHTS = (
    "run `gpus check aws`; docs/providers/aws.md names the rights needed; where only some regions"
    " are allowed, set `regions`"
)
_CLOCK = "look at this machine's clock too: with a wrong one EC2 refuses good keys"
_SIGN_IN = f"sign in again (aws sso login, or new keys); {_CLOCK}"
_QUOTA = "ask for more in Service Quotas"
_AGAIN = "it is asked again"
_SETTLE = "it is looked up before anything else is bought"
_ELSEWHERE = "another place is tried"
_SPEC = "look at options.aws"
_HERE = "it exists in one region only: look at options.aws, and set `regions`"
_POOL = "look at the reservation: its state, what is free in it, its region and instance type"

CODES: dict[str, Row] = {
    # None right now.
    "InsufficientInstanceCapacity": Row(NoCapacity, PLACE, _STOCKOUT, TABLES, "2026-11-27"),
    "InsufficientHostCapacity": Row(NoCapacity, PLACE, _STOCKOUT, TABLES, "2026-11-27"),
    "UnfulfillableCapacity": Row(NoCapacity, PLACE, _STOCKOUT, TABLES, "2026-11-27"),
    "InsufficientFreeAddressesInSubnet": Row(
        NoCapacity, SUBNET, "the subnet has no free address", TABLES, "2026-11-27"
    ),
    "InsufficientReservedInstanceCapacity": Row(NoCapacity, POOL, _POOL, TABLES, "2026-11-27"),
    "ReservationCapacityExceeded": Row(NoCapacity, POOL, _POOL, TABLES, "2026-11-27"),
    "InvalidCapacityReservationState": Row(NoCapacity, POOL, _POOL, DOCS, "2026-11-27"),
    "InvalidCapacityReservationId.NotFound": Row(Unsupported, POOL, _POOL, DOCS, "2026-11-27"),
    "InvalidCapacityReservationId.Malformed": Row(Unsupported, POOL, _POOL, DOCS, "2026-11-27"),
    "IdempotentInstanceTerminated": Row(
        NoCapacity, PLACE, "what the order had made was ended", DOCS, "2026-11-27", block_s=180.0
    ),
    "SpotMaxPriceTooLow": Row(
        PriceRose, PLACE, "the spot price rose above the bid", TABLES, "2026-11-27"
    ),
    # The account's limits, in vCPUs of a family group in a region.
    "VcpuLimitExceeded": Row(
        QuotaExceeded, BUCKET, _QUOTA, f"{TABLES}; skypilot#975", "2026-11-27"
    ),
    "InstanceLimitExceeded": Row(QuotaExceeded, BUCKET, _QUOTA, TABLES, "2026-11-27"),
    "MaxSpotInstanceCountExceeded": Row(QuotaExceeded, BUCKET, _QUOTA, TABLES, "2026-11-27"),
    "VolumeLimitExceeded": Row(QuotaExceeded, REGION, _QUOTA, DOCS, "2026-11-27"),
    "MaxIOPSLimitExceeded": Row(QuotaExceeded, REGION, _QUOTA, DOCS, "2026-11-27"),
    "SecurityGroupLimitExceeded": Row(
        QuotaExceeded,
        REGION,
        f"{_QUOTA}, or name one in options.aws.security_group",
        DOCS,
        "2026-11-27",
    ),
    "SecurityGroupsPerInterfaceLimitExceeded": Row(
        QuotaExceeded, REGION, _QUOTA, DOCS, "2026-11-27"
    ),
    # Never there.
    "Unsupported": Row(Unsupported, ZONE, _ELSEWHERE, f"{TABLES}; skypilot#975", "2026-11-27"),
    "UnsupportedOperation": Row(Unsupported, TYPE, _SPEC, DOCS, "2026-11-27", block_s=0.0),
    "InvalidInstanceType": Row(Unsupported, TYPE, _ELSEWHERE, DOCS, "2026-11-27"),
    "OptInRequired": Row(NotEnabled, REGION, "enable the region", PEERS, "2026-11-27"),
    "PendingVerification": Row(
        Unsupported,
        REGION,
        "AWS is still checking the account there",
        PEERS,
        "2026-11-27",
        block_s=3_600.0,
    ),
    "VPCIdNotSpecified": Row(
        Unsupported,
        REGION,
        "make a default VPC (aws ec2 create-default-vpc), or set options.aws.subnets",
        DOCS,
        "2026-11-27",
    ),
    # What the spec names and the region has not. Not remembered: another spec may well fit there.
    "InvalidParameterValue": Row(Unsupported, TYPE, _SPEC, PEERS, "2026-11-27", block_s=0.0),
    "InvalidParameterCombination": Row(Unsupported, TYPE, _SPEC, PEERS, "2026-11-27", block_s=0.0),
    "InvalidParameter": Row(Unsupported, TYPE, _SPEC, DOCS, "2026-11-27", block_s=0.0),
    "InvalidFleetConfiguration": Row(Unsupported, TYPE, _SPEC, DOCS, "2026-11-27", block_s=0.0),
    "InvalidAMIID.NotFound": Row(Unsupported, REGION, _HERE, PEERS, "2026-11-27", block_s=0.0),
    "InvalidAMIID.Malformed": Row(Unsupported, REGION, _SPEC, PEERS, "2026-11-27", block_s=0.0),
    "InvalidAMIID.Unavailable": Row(Unsupported, REGION, _SPEC, PEERS, "2026-11-27", block_s=0.0),
    "InvalidSubnetID.NotFound": Row(Unsupported, REGION, _HERE, DOCS, "2026-11-27", block_s=0.0),
    "InvalidSubnet.Conflict": Row(Unsupported, REGION, _SPEC, DOCS, "2026-11-27", block_s=0.0),
    "InvalidGroup.NotFound": Row(Unsupported, REGION, _HERE, DOCS, "2026-11-27", block_s=0.0),
    "InvalidGroupId.Malformed": Row(Unsupported, REGION, _SPEC, DOCS, "2026-11-27", block_s=0.0),
    "InvalidKeyPair.NotFound": Row(Unsupported, REGION, _HERE, DOCS, "2026-11-27", block_s=0.0),
    "InvalidPlacementGroup.Unknown": Row(
        Unsupported, REGION, _HERE, DOCS, "2026-11-27", block_s=0.0
    ),
    "InvalidLaunchTemplateName.NotFoundException": Row(
        Unsupported, REGION, _SPEC, DOCS, "2026-11-27", block_s=0.0
    ),
    "InvalidLaunchTemplateId.NotFound": Row(
        Unsupported, REGION, _SPEC, PEERS, "2026-11-27", block_s=0.0
    ),
    "InvalidLaunchTemplateId.Malformed": Row(
        Unsupported, REGION, _SPEC, DOCS, "2026-11-27", block_s=0.0
    ),
    "InvalidLaunchTemplateId.VersionNotFound": Row(
        Unsupported, REGION, _SPEC, DOCS, "2026-11-27", block_s=0.0
    ),
    "InvalidLaunchTemplateName.MalformedException": Row(
        Unsupported, REGION, _SPEC, DOCS, "2026-11-27", block_s=0.0
    ),
    "InvalidBlockDeviceMapping": Row(
        Unsupported,
        REGION,
        "look at disk_gib and options.aws.volume_type",
        DOCS,
        "2026-11-27",
        block_s=0.0,
    ),
    "InvalidUserData.Malformed": Row(
        Unsupported, ALL, "please report it", DOCS, "2026-11-27", block_s=0.0
    ),
    "ParameterNotFound": Row(
        Unsupported,
        REGION,
        "name an image: options.aws.ami or ami_ssm_parameter",
        "SSM GetParameter",
        "2026-11-27",
        block_s=0.0,
    ),
    "ParameterVersionNotFound": Row(
        Unsupported, REGION, _SPEC, "SSM GetParameter", "2026-11-27", block_s=0.0
    ),
    "OperationNotPermitted": Row(
        Unsupported,
        NOTHING,
        "take its stop or termination protection off",
        DOCS,
        "2026-11-27",
        block_s=0.0,
    ),
    "InvalidInstanceID.Malformed": Row(
        Unsupported,
        NOTHING,
        "an instance id looks like i-0123456789abcdef0",
        DOCS,
        "2026-11-27",
        block_s=0.0,
    ),
    # Who asks.
    "UnauthorizedOperation": Row(BadCredentials, ALL, _RIGHTS, PEERS, "2026-11-27"),
    "AccessDenied": Row(BadCredentials, ALL, _RIGHTS, PEERS, "2026-11-27"),
    "AccessDeniedException": Row(BadCredentials, ALL, _RIGHTS, "SSM, Service Quotas", "2026-11-27"),
    "AuthFailure": Row(BadCredentials, ALL, _SIGN_IN, PEERS, "2026-11-27"),
    "InvalidClientTokenId": Row(BadCredentials, ALL, _SIGN_IN, "STS", "2026-11-27"),
    "UnrecognizedClientException": Row(
        BadCredentials, ALL, _SIGN_IN, "SSM, Service Quotas", "2026-11-27"
    ),
    "SignatureDoesNotMatch": Row(BadCredentials, ALL, _SIGN_IN, DOCS, "2026-11-27"),
    "RequestExpired": Row(BadCredentials, ALL, _SIGN_IN, DOCS, "2026-11-27"),
    "RequestTimeTooSkewed": Row(BadCredentials, ALL, _SIGN_IN, "AWS common errors", "2026-11-28"),
    "InvalidSignatureException": Row(
        BadCredentials, ALL, _SIGN_IN, "AWS common errors (SSM, Service Quotas)", "2026-11-28"
    ),
    "ExpiredToken": Row(BadCredentials, ALL, _SIGN_IN, "STS", "2026-11-27"),
    "ExpiredTokenException": Row(BadCredentials, ALL, _SIGN_IN, "STS", "2026-11-27"),
    "MissingAuthenticationToken": Row(BadCredentials, ALL, _SIGN_IN, DOCS, "2026-11-27"),
    "Blocked": Row(
        BadCredentials, ALL, "the account is blocked: ask AWS support", PEERS, "2026-11-27"
    ),
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": Row(
        BadCredentials,
        MARKET,
        "make the role once: aws iam create-service-linked-role --aws-service-name"
        " spot.amazonaws.com",
        PEERS,
        "2026-11-27",
    ),
    # Too fast, or too early.
    "RequestLimitExceeded": Row(RateLimited, NOTHING, _AGAIN, TABLES, "2026-11-27"),
    "MaxFleetCountExceeded": Row(RateLimited, NOTHING, _AGAIN, TABLES, "2026-11-27"),
    "Throttling": Row(RateLimited, NOTHING, _AGAIN, "botocore 1.44.8 retries", "2026-11-27"),
    "ThrottlingException": Row(
        RateLimited, NOTHING, _AGAIN, "botocore 1.44.8 retries", "2026-11-27"
    ),
    "ThrottledException": Row(
        RateLimited, NOTHING, _AGAIN, "botocore 1.44.8 retries", "2026-11-27"
    ),
    "RequestThrottled": Row(RateLimited, NOTHING, _AGAIN, "botocore 1.44.8 retries", "2026-11-27"),
    "RequestThrottledException": Row(
        RateLimited, NOTHING, _AGAIN, "botocore 1.44.8 retries", "2026-11-27"
    ),
    "EC2ThrottledException": Row(
        RateLimited, NOTHING, _AGAIN, "botocore 1.44.8 retries", "2026-11-27"
    ),
    "TooManyRequestsException": Row(
        RateLimited, NOTHING, _AGAIN, "botocore 1.44.8 retries", "2026-11-27"
    ),
    "BandwidthLimitExceeded": Row(
        RateLimited, NOTHING, _AGAIN, "botocore 1.44.8 retries", "2026-11-27"
    ),
    "ResourceCountExceeded": Row(RateLimited, NOTHING, _AGAIN, DOCS, "2026-11-27"),
    "ConcurrentTagAccess": Row(Transient, NOTHING, "somebody edits its tags", DOCS, "2026-11-27"),
    "DependencyViolation": Row(Transient, NOTHING, "it is still in use", DOCS, "2026-11-27"),
    "IncorrectInstanceState": Row(
        Transient, NOTHING, "it is still being changed", DOCS, "2026-11-27"
    ),
    "IncorrectState": Row(Transient, NOTHING, "it is still being changed", DOCS, "2026-11-27"),
    "InvalidState": Row(Transient, NOTHING, "it is still being changed", DOCS, "2026-11-27"),
    "InvalidGroup.Duplicate": Row(
        Transient, NOTHING, "somebody made it meanwhile", DOCS, "2026-11-27"
    ),
    "InvalidGroup.InUse": Row(Transient, NOTHING, "it is still in use", DOCS, "2026-11-27"),
    "InvalidPermission.Duplicate": Row(
        Transient, NOTHING, "somebody made it meanwhile", DOCS, "2026-11-27"
    ),
    "InvalidPlacementGroup.Duplicate": Row(
        Transient, NOTHING, "somebody made it meanwhile", DOCS, "2026-11-27"
    ),
    "InvalidPlacementGroup.InUse": Row(
        Transient, NOTHING, "it is still in use", DOCS, "2026-11-27"
    ),
    "InvalidLaunchTemplateName.AlreadyExistsException": Row(
        Transient, NOTHING, "an earlier try made it", DOCS, "2026-11-27"
    ),
    "InvalidInstanceID.NotFound": Row(
        Transient, NOTHING, "EC2 does not know it yet, or no longer", DOCS, "2026-11-27"
    ),
    "InvalidSpotInstanceRequestID.NotFound": Row(
        Transient, NOTHING, "EC2 does not know it yet, or no longer", DOCS, "2026-11-27"
    ),
    "InvalidNextToken": Row(Transient, NOTHING, _AGAIN, DOCS, "2026-11-27"),
    # It may be there already, or may yet come.
    "IdempotentParameterMismatch": Row(
        OutcomeUnknown, NOTHING, _SETTLE, DOCS, "2026-11-27", reading=Transient
    ),
    "InternalError": Row(OutcomeUnknown, NOTHING, _SETTLE, TABLES, "2026-11-27", reading=Transient),
    "InternalFailure": Row(
        OutcomeUnknown, NOTHING, _SETTLE, TABLES, "2026-11-27", reading=Transient
    ),
    "InternalServerError": Row(
        OutcomeUnknown, NOTHING, _SETTLE, "SSM", "2026-11-27", reading=Transient
    ),
    "ServerInternal": Row(
        OutcomeUnknown, NOTHING, _SETTLE, TABLES, "2026-11-27", reading=Transient
    ),
    "ServiceUnavailable": Row(
        OutcomeUnknown, NOTHING, _SETTLE, TABLES, "2026-11-27", reading=Transient
    ),
    "Unavailable": Row(OutcomeUnknown, NOTHING, _SETTLE, TABLES, "2026-11-27", reading=Transient),
    "RequestTimeout": Row(
        OutcomeUnknown, NOTHING, _SETTLE, "botocore 1.44.8 retries", "2026-11-27", reading=Transient
    ),
}
"""By `Error.Code` of a refused call, or by `ErrorCode` in a fleet's list."""

STATE_REASONS: dict[str, Row] = {
    "Server.InsufficientInstanceCapacity": Row(
        NoCapacity, PLACE, _STOCKOUT, "StateReason reference; ParallelCluster PR 673", "2026-11-27"
    ),
    "Server.SpotInstanceTermination": Row(
        NoCapacity,
        PLACE,
        "taken back while it started",
        "StateReason reference",
        "2026-11-27",
        block_s=180.0,
    ),
    "Server.SpotInstanceShutdown": Row(
        NoCapacity,
        PLACE,
        "taken back while it started",
        "skypilot#656",
        "2026-11-27",
        block_s=180.0,
    ),
    "Server.ScheduledStop": Row(
        NoCapacity,
        PLACE,
        "AWS retires the host",
        "StateReason reference",
        "2026-11-27",
        block_s=180.0,
    ),
    "Server.InternalError": Row(
        NoCapacity,
        PLACE,
        "it failed while it started",
        "StateReason reference",
        "2026-11-27",
        block_s=180.0,
    ),
    "Client.InternalError": Row(
        NotConfigured,
        ALL,
        "its volume could not be made: is the key of the EBS encryption allowed?",
        "StateReason reference",
        "2026-11-27",
    ),
    "Client.VolumeLimitExceeded": Row(
        QuotaExceeded, REGION, _QUOTA, "StateReason reference", "2026-11-27"
    ),
    "Client.InvalidSnapshot.NotFound": Row(
        Unsupported,
        REGION,
        "the image's snapshot is gone",
        "StateReason reference",
        "2026-11-27",
        block_s=0.0,
    ),
    "Client.UserInitiatedShutdown": Row(
        NoCapacity,
        NOTHING,
        "somebody ended it while it started",
        "StateReason reference",
        "2026-11-27",
        block_s=0.0,
    ),
    "Client.InstanceInitiatedShutdown": Row(
        NoCapacity,
        NOTHING,
        "it shut itself down while it started",
        "StateReason reference",
        "2026-11-27",
        block_s=0.0,
    ),
}
"""By `StateReason.Code` of a machine that ended before it ran."""

_BY_STATUS = "botocore 1.44.8: an answer without a code"
STATUSES: dict[int, Row] = {
    401: Row(BadCredentials, ALL, _SIGN_IN, _BY_STATUS, "2026-11-27"),
    403: Row(BadCredentials, ALL, _RIGHTS, _BY_STATUS, "2026-11-27"),
    408: Row(OutcomeUnknown, NOTHING, _SETTLE, _BY_STATUS, "2026-11-27", reading=Transient),
    429: Row(RateLimited, NOTHING, _AGAIN, _BY_STATUS, "2026-11-27"),
    500: Row(OutcomeUnknown, NOTHING, _SETTLE, _BY_STATUS, "2026-11-27", reading=Transient),
    502: Row(OutcomeUnknown, NOTHING, _SETTLE, _BY_STATUS, "2026-11-27", reading=Transient),
    503: Row(OutcomeUnknown, NOTHING, _SETTLE, _BY_STATUS, "2026-11-27", reading=Transient),
    504: Row(OutcomeUnknown, NOTHING, _SETTLE, _BY_STATUS, "2026-11-27", reading=Transient),
}
"""By HTTP status, where the answer names no code of the table."""

_CLIENT = "boto3 1.44.8, botocore 1.44.8"
_NO_KEYS = Row(
    NotConfigured,
    ALL,
    "set up credentials: aws configure sso, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    _CLIENT,
    "2026-11-27",
)
_KEYS = Row(BadCredentials, ALL, _SIGN_IN, _CLIENT, "2026-11-27")
_BEFORE = Row(
    Transient,
    NOTHING,
    "look at the network: AWS cannot be reached from here",
    _CLIENT,
    "2026-11-27",
)
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

EXCEPTIONS: dict[str, Row] = {
    # Nothing was sent.
    "botocore.exceptions.EndpointConnectionError": _BEFORE,
    "botocore.exceptions.ConnectTimeoutError": _BEFORE,
    "botocore.exceptions.ProxyConnectionError": _BEFORE._replace(
        todo="look at the proxy (HTTPS_PROXY): AWS cannot be reached through it"
    ),
    "botocore.exceptions.SSLError": Row(
        Transient,
        NOTHING,
        "AWS's certificate was not accepted: look at the proxy and the clock",
        _CLIENT,
        "2026-11-27",
    ),
    "botocore.exceptions.ParamValidationError": Row(
        Unsupported, TYPE, _SPEC, _CLIENT, "2026-11-27", block_s=0.0
    ),
    "botocore.exceptions.InvalidRegionError": Row(
        Unsupported, REGION, _SPEC, _CLIENT, "2026-11-27", block_s=0.0
    ),
    "botocore.exceptions.UnknownServiceError": Row(
        NotConfigured, ALL, "install a newer boto3", _CLIENT, "2026-11-27"
    ),
    "botocore.exceptions.DataNotFoundError": Row(
        NotConfigured, ALL, "install boto3 again", _CLIENT, "2026-11-27"
    ),
    # Keys.
    "botocore.exceptions.NoCredentialsError": _NO_KEYS,
    "botocore.exceptions.PartialCredentialsError": _NO_KEYS,
    "botocore.exceptions.ProfileNotFound": Row(
        NotConfigured, ALL, "look at AWS_PROFILE and ~/.aws/config", _CLIENT, "2026-11-27"
    ),
    "botocore.exceptions.ConfigNotFound": _NO_KEYS,
    "botocore.exceptions.ConfigParseError": Row(
        NotConfigured, ALL, "look at ~/.aws/config", _CLIENT, "2026-11-27"
    ),
    "botocore.exceptions.InvalidConfigError": Row(
        NotConfigured, ALL, "look at ~/.aws/config", _CLIENT, "2026-11-27"
    ),
    "botocore.exceptions.MissingDependencyException": Row(
        NotConfigured, ALL, "pip install 'botocore[crt]'", _CLIENT, "2026-11-27"
    ),
    "botocore.exceptions.CredentialRetrievalError": _KEYS,
    "botocore.exceptions.TokenRetrievalError": _KEYS,
    "botocore.exceptions.SSOError": _KEYS,
    "botocore.exceptions.RefreshWithMFAUnsupportedError": _KEYS,
    # Sent, and no good answer.
    "botocore.exceptions.HTTPClientError": _LOST,
    "botocore.exceptions.ConnectionError": _LOST,
    "builtins.OSError": _LOST,
    "botocore.parsers.ResponseParserError": _GARBLED,
    "builtins.ValueError": _GARBLED,
    "botocore.exceptions.BotoCoreError": _LOST,
}
"""By the name of an exception's class or of its nearest base in this table. ClientError is read by
its code and status before.
"""

OWN = frozenset(
    {
        "InvalidGroup.NotFound",
        "InvalidPlacementGroup.Unknown",
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound",
    }
)
"""Codes that mean, where the helper is of this adapter's own making, that another run tidied it
away in between: it is made again.
"""


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
    kind = row.kind if context.creating else row.reading or row.kind
    return _error(kind, row, code or f"HTTP {status}", message, context, context.candidates)


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
    for base in type(error).__mro__:
        row = EXCEPTIONS.get(f"{base.__module__}.{base.__qualname__}")
        if row is not None:
            kind = row.kind if context.creating else row.reading or row.kind
            # Of an answer that it cannot read, botocore repeats all that was sent.
            said = str(error).partition(" Further retries may succeed:")[0]
            return _error(kind, row, type(error).__name__, said, context, context.candidates)
    return _unknown(type(error).__name__, str(error), context)


def known_exception(kind: type[BaseException]) -> bool:
    """True when the table has a row for this class or a base of it."""
    return any(f"{base.__module__}.{base.__qualname__}" in EXCEPTIONS for base in kind.__mro__)


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
    if todo == _ELSEWHERE and not context.candidates:
        todo = "this is not a matter of place"
    if kind is Transient and row.kind is OutcomeUnknown:
        todo = row.todo.replace(_SETTLE, _AGAIN)
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
            metric = bucket.spot if spot else bucket.on_demand
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
