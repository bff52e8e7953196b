"""EC2's codes, HTTP statuses and reasons of state, each with the class it means and what it blocks.
Owns these rows of the error table; `errors` reads answers by them.
"""

from __future__ import annotations

from providers.adapters.error_table import Row
from providers.errors import (
    BadCredentials,
    NoCapacity,
    NotConfigured,
    NotEnabled,
    OutcomeUnknown,
    PriceRose,
    QuotaExceeded,
    RateLimited,
    Transient,
    Unsupported,
)

PLACE, ZONE, SUBNET, TYPE, REGION, BUCKET, MARKET, ALL, POOL, NOTHING = (
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
_STOCKOUT = "EC2 has none there now"
_RIGHTS = (
    "run `gpus check aws`; docs/providers/aws.md names the rights needed; where only some regions"
    " are allowed, set `regions`"
)
_CLOCK = "look at this machine's clock too: with a wrong one EC2 refuses good keys"
SIGN_IN = f"sign in again (aws sso login, or new keys); {_CLOCK}"
_QUOTA = "ask for more in Service Quotas"
AGAIN = "it is asked again"
SETTLE = "it is looked up before anything else is bought"
ELSEWHERE = "another place is tried"
SPEC = "look at options.aws"
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
    "Unsupported": Row(Unsupported, ZONE, ELSEWHERE, f"{TABLES}; skypilot#975", "2026-11-27"),
    "UnsupportedOperation": Row(Unsupported, TYPE, SPEC, DOCS, "2026-11-27", block_s=0.0),
    "InvalidInstanceType": Row(Unsupported, TYPE, ELSEWHERE, DOCS, "2026-11-27"),
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
    "InvalidParameterValue": Row(Unsupported, TYPE, SPEC, PEERS, "2026-11-27", block_s=0.0),
    "InvalidParameterCombination": Row(Unsupported, TYPE, SPEC, PEERS, "2026-11-27", block_s=0.0),
    "InvalidParameter": Row(Unsupported, TYPE, SPEC, DOCS, "2026-11-27", block_s=0.0),
    "InvalidFleetConfiguration": Row(Unsupported, TYPE, SPEC, DOCS, "2026-11-27", block_s=0.0),
    "InvalidAMIID.NotFound": Row(Unsupported, REGION, _HERE, PEERS, "2026-11-27", block_s=0.0),
    "InvalidAMIID.Malformed": Row(Unsupported, REGION, SPEC, PEERS, "2026-11-27", block_s=0.0),
    "InvalidAMIID.Unavailable": Row(Unsupported, REGION, SPEC, PEERS, "2026-11-27", block_s=0.0),
    "InvalidSubnetID.NotFound": Row(Unsupported, REGION, _HERE, DOCS, "2026-11-27", block_s=0.0),
    "InvalidSubnet.Conflict": Row(Unsupported, REGION, SPEC, DOCS, "2026-11-27", block_s=0.0),
    "InvalidGroup.NotFound": Row(Unsupported, REGION, _HERE, DOCS, "2026-11-27", block_s=0.0),
    "InvalidGroupId.Malformed": Row(Unsupported, REGION, SPEC, DOCS, "2026-11-27", block_s=0.0),
    "InvalidKeyPair.NotFound": Row(Unsupported, REGION, _HERE, DOCS, "2026-11-27", block_s=0.0),
    "InvalidPlacementGroup.Unknown": Row(
        Unsupported, REGION, _HERE, DOCS, "2026-11-27", block_s=0.0
    ),
    "InvalidLaunchTemplateName.NotFoundException": Row(
        Unsupported, REGION, SPEC, DOCS, "2026-11-27", block_s=0.0
    ),
    "InvalidLaunchTemplateId.NotFound": Row(
        Unsupported, REGION, SPEC, PEERS, "2026-11-27", block_s=0.0
    ),
    "InvalidLaunchTemplateId.Malformed": Row(
        Unsupported, REGION, SPEC, DOCS, "2026-11-27", block_s=0.0
    ),
    "InvalidLaunchTemplateId.VersionNotFound": Row(
        Unsupported, REGION, SPEC, DOCS, "2026-11-27", block_s=0.0
    ),
    "InvalidLaunchTemplateName.MalformedException": Row(
        Unsupported, REGION, SPEC, DOCS, "2026-11-27", block_s=0.0
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
        Unsupported, REGION, SPEC, "SSM GetParameter", "2026-11-27", block_s=0.0
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
    "AuthFailure": Row(BadCredentials, ALL, SIGN_IN, PEERS, "2026-11-27"),
    "InvalidClientTokenId": Row(BadCredentials, ALL, SIGN_IN, "STS", "2026-11-27"),
    "UnrecognizedClientException": Row(
        BadCredentials, ALL, SIGN_IN, "SSM, Service Quotas", "2026-11-27"
    ),
    "SignatureDoesNotMatch": Row(BadCredentials, ALL, SIGN_IN, DOCS, "2026-11-27"),
    "RequestExpired": Row(BadCredentials, ALL, SIGN_IN, DOCS, "2026-11-27"),
    "RequestTimeTooSkewed": Row(BadCredentials, ALL, SIGN_IN, "AWS common errors", "2026-11-28"),
    "InvalidSignatureException": Row(
        BadCredentials, ALL, SIGN_IN, "AWS common errors (SSM, Service Quotas)", "2026-11-28"
    ),
    "ExpiredToken": Row(BadCredentials, ALL, SIGN_IN, "STS", "2026-11-27"),
    "ExpiredTokenException": Row(BadCredentials, ALL, SIGN_IN, "STS", "2026-11-27"),
    "MissingAuthenticationToken": Row(BadCredentials, ALL, SIGN_IN, DOCS, "2026-11-27"),
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
    "RequestLimitExceeded": Row(RateLimited, NOTHING, AGAIN, TABLES, "2026-11-27"),
    "MaxFleetCountExceeded": Row(RateLimited, NOTHING, AGAIN, TABLES, "2026-11-27"),
    "Throttling": Row(RateLimited, NOTHING, AGAIN, "botocore 1.44.8 retries", "2026-11-27"),
    "ThrottlingException": Row(
        RateLimited, NOTHING, AGAIN, "botocore 1.44.8 retries", "2026-11-27"
    ),
    "ThrottledException": Row(RateLimited, NOTHING, AGAIN, "botocore 1.44.8 retries", "2026-11-27"),
    "RequestThrottled": Row(RateLimited, NOTHING, AGAIN, "botocore 1.44.8 retries", "2026-11-27"),
    "RequestThrottledException": Row(
        RateLimited, NOTHING, AGAIN, "botocore 1.44.8 retries", "2026-11-27"
    ),
    "EC2ThrottledException": Row(
        RateLimited, NOTHING, AGAIN, "botocore 1.44.8 retries", "2026-11-27"
    ),
    "TooManyRequestsException": Row(
        RateLimited, NOTHING, AGAIN, "botocore 1.44.8 retries", "2026-11-27"
    ),
    "BandwidthLimitExceeded": Row(
        RateLimited, NOTHING, AGAIN, "botocore 1.44.8 retries", "2026-11-27"
    ),
    "ResourceCountExceeded": Row(RateLimited, NOTHING, AGAIN, DOCS, "2026-11-27"),
    "ConcurrentTagAccess": Row(Transient, NOTHING, "somebody edits its tags", DOCS, "2026-11-27"),
    "DependencyViolation": Row(Transient, NOTHING, "it is still in use", DOCS, "2026-11-27"),
    "IncorrectInstanceState": Row(
        Transient, NOTHING, "it is still being changed", DOCS, "2026-11-27"
    ),
    "IncorrectState": Row(Transient, NOTHING, "it is still being changed", DOCS, "2026-11-27"),
    "InvalidState": Row(Transient, NOTHING, "it is still being changed", DOCS, "2026-11-27"),
    "InvalidNetworkInterfaceID.NotFound": Row(
        Transient, NOTHING, "it is not in every list yet", DOCS, "2026-11-29"
    ),
    "InvalidGroup.Duplicate": Row(
        Transient, NOTHING, "somebody made it meanwhile", DOCS, "2026-11-27"
    ),
    "VolumeInUse": Row(Transient, NOTHING, "a machine has it still", DOCS, "2026-11-27"),
    "InvalidVolume.NotFound": Row(
        Unsupported, NOTHING, "the volume is gone", DOCS, "2026-11-27", block_s=0.0
    ),
    "InvalidVolume.ZoneMismatch": Row(
        Unsupported, NOTHING, "the volume is in another zone", DOCS, "2026-11-27", block_s=0.0
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
    "InvalidNextToken": Row(Transient, NOTHING, AGAIN, DOCS, "2026-11-27"),
    # It may be there already, or may yet come.
    "IdempotentParameterMismatch": Row(
        OutcomeUnknown, NOTHING, SETTLE, DOCS, "2026-11-27", reading=Transient
    ),
    "InternalError": Row(OutcomeUnknown, NOTHING, SETTLE, TABLES, "2026-11-27", reading=Transient),
    "InternalFailure": Row(
        OutcomeUnknown, NOTHING, SETTLE, TABLES, "2026-11-27", reading=Transient
    ),
    "InternalServerError": Row(
        OutcomeUnknown, NOTHING, SETTLE, "SSM", "2026-11-27", reading=Transient
    ),
    "ServerInternal": Row(OutcomeUnknown, NOTHING, SETTLE, TABLES, "2026-11-27", reading=Transient),
    "ServiceUnavailable": Row(
        OutcomeUnknown, NOTHING, SETTLE, TABLES, "2026-11-27", reading=Transient
    ),
    "Unavailable": Row(OutcomeUnknown, NOTHING, SETTLE, TABLES, "2026-11-27", reading=Transient),
    "RequestTimeout": Row(
        OutcomeUnknown, NOTHING, SETTLE, "botocore 1.44.8 retries", "2026-11-27", reading=Transient
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
    401: Row(BadCredentials, ALL, SIGN_IN, _BY_STATUS, "2026-11-27"),
    403: Row(BadCredentials, ALL, _RIGHTS, _BY_STATUS, "2026-11-27"),
    408: Row(OutcomeUnknown, NOTHING, SETTLE, _BY_STATUS, "2026-11-27", reading=Transient),
    429: Row(RateLimited, NOTHING, AGAIN, _BY_STATUS, "2026-11-27"),
    500: Row(OutcomeUnknown, NOTHING, SETTLE, _BY_STATUS, "2026-11-27", reading=Transient),
    502: Row(OutcomeUnknown, NOTHING, SETTLE, _BY_STATUS, "2026-11-27", reading=Transient),
    503: Row(OutcomeUnknown, NOTHING, SETTLE, _BY_STATUS, "2026-11-27", reading=Transient),
    504: Row(OutcomeUnknown, NOTHING, SETTLE, _BY_STATUS, "2026-11-27", reading=Transient),
}
"""By HTTP status, where the answer names no code of the table."""
NO_RIGHT = frozenset({"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"})
"""Codes of keys that are good, and may not do what was asked."""
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
