"""The codes that public sources name, each from a payload in its cloud's own shape: its class, and
what is left alone because of it.

The lists are facts, written down by hand from failure tables of other provisioners, the APIs'
descriptions and the market's own pages; the adapters' tables must hold every one of them, with a
source and a date.
"""

import json
from collections.abc import Callable

import httpx
import pytest

from providers import errors
from providers.adapters.aws import error_codes
from providers.adapters.aws import errors as aws
from providers.adapters.clore import client as clore_client
from providers.adapters.clore import errors as clore
from providers.adapters.gcp import errors as gcp
from providers.adapters.modal import errors as modal
from providers.errors import CloudError
from providers.model.offer import Candidate, Offer
from providers.model.place import Scope

HERE, ZONE, REGION, TYPE, QUOTA, MARKET, PROVIDER, SERVER, BID, NOTHING = (
    *(
        "place",
        "zone and type",
        "region",
        "type in the region",
        "quota",
        "kind of capacity",
        "provider",
        "server",
        "server, bought that way",
        "nothing",
    ),
)


def candidate(provider, region, zone, machine_type):
    return Candidate(
        1, 0, Offer(provider, region, zone, machine_type, "H100", 8, "spot", 1), 1, micro_usd=1
    )


def scope_name(found):
    """What a set of scopes leaves alone, in the words above."""
    if not found:
        return NOTHING
    (fields,) = {
        tuple(name for name in Scope._fields[1:] if getattr(scope, name)) for scope in found
    }
    return {
        (): PROVIDER,
        ("region",): REGION,
        ("region", "zone", "machine_type"): ZONE,
        ("region", "zone"): "subnet",
        ("region", "machine_type"): TYPE,
        ("region", "gpu_type", "capacity"): QUOTA,
        ("region", "zone", "machine_type", "capacity"): HERE,
        ("capacity",): MARKET,
        ("machine_type",): SERVER,
        ("machine_type", "capacity"): BID,
    }[fields]


# Google Cloud


GCP = gcp.Context(
    "gcp",
    "my-project",
    True,
    "11111111-2222-4333-8444-555555555555",
    (candidate("gcp", "us-central1", "us-central1-a", "a3-highgpu-8g"),),
)


def operation(code, *, reason="", quota=None, also=()):
    """A finished operation with its error; the shape of Operation.error."""
    details = (
        [
            {
                "errorInfo": {
                    "reason": reason,
                    "domain": "compute.googleapis.com",
                    "metadatas": {"zone": "us-central1-a"},
                }
            }
        ]
        if reason
        else []
    )
    details += [{"quotaInfo": quota}] if quota else []
    entries = [
        *({"code": other, "message": "words"} for other in also),
        {"code": code, "message": "words", "errorDetails": details},
    ]
    return gcp.from_operation(
        {"status": "DONE", "httpErrorStatusCode": 503, "error": {"errors": entries}}, GCP
    )


def refused(status, reason):
    body = {
        "error": {
            "code": status,
            "message": "words",
            "errors": [{"message": "words", "domain": "global", "reason": reason}],
        }
    }
    return gcp.from_http(status, json.dumps(body), GCP)


REGIONAL = {
    "metricName": "compute.googleapis.com/nvidia_h100_gpus",
    "limitName": "L",
    "dimensions": {"region": "us-central1"},
    "limit": 0,
}
DISKS = {**REGIONAL, "metricName": "compute.googleapis.com/ssd_total_gb"}
CPUS = {**REGIONAL, "metricName": "compute.googleapis.com/cpus"}
GLOBAL = {"metricName": "compute.googleapis.com/gpus_all_regions", "limitName": "L", "limit": 0}

GOOGLE: dict[str, tuple[Callable[[], CloudError], type[CloudError], str | None]] = {
    "ZONE_RESOURCE_POOL_EXHAUSTED": (
        lambda: operation("ZONE_RESOURCE_POOL_EXHAUSTED"),
        errors.NoCapacity,
        HERE,
    ),
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": (
        lambda: operation(
            "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", reason="resource_availability"
        ),
        errors.NoCapacity,
        HERE,
    ),
    "insufficientCapacity": (lambda: refused(503, "insufficientCapacity"), errors.NoCapacity, HERE),
    "VM_MIN_COUNT_NOT_REACHED": (
        lambda: operation("VM_MIN_COUNT_NOT_REACHED"),
        errors.NoCapacity,
        HERE,
    ),
    "VM_MIN_COUNT_NOT_REACHED beside its cause": (
        lambda: operation("QUOTA_EXCEEDED", quota=GLOBAL, also=["VM_MIN_COUNT_NOT_REACHED"]),
        errors.QuotaExceeded,
        PROVIDER,
    ),
    "QUOTA_EXCEEDED GPUS_ALL_REGIONS": (
        lambda: operation("QUOTA_EXCEEDED", quota=GLOBAL),
        errors.QuotaExceeded,
        PROVIDER,
    ),
    "QUOTA_EXCEEDED in a region": (
        lambda: operation("QUOTA_EXCEEDED", quota=REGIONAL),
        errors.QuotaExceeded,
        QUOTA,
    ),
    "QUOTA_EXCEEDED SSD_TOTAL_GB": (
        lambda: operation("QUOTA_EXCEEDED", quota=DISKS),
        errors.QuotaExceeded,
        REGION,
    ),
    "QUOTA_EXCEEDED CPUS": (
        lambda: operation("QUOTA_EXCEEDED", quota=CPUS),
        errors.QuotaExceeded,
        REGION,
    ),
    "quotaExceeded": (lambda: refused(403, "quotaExceeded"), errors.QuotaExceeded, None),
    "RESOURCE_OPERATION_RATE_EXCEEDED": (
        lambda: operation("RESOURCE_OPERATION_RATE_EXCEEDED"),
        errors.RateLimited,
        NOTHING,
    ),
    "rateLimitExceeded": (lambda: refused(403, "rateLimitExceeded"), errors.RateLimited, NOTHING),
    "UNSUPPORTED_OPERATION": (lambda: operation("UNSUPPORTED_OPERATION"), errors.NoCapacity, HERE),
    "RESOURCE_NOT_READY": (lambda: operation("RESOURCE_NOT_READY"), errors.Transient, NOTHING),
    "RESOURCE_NOT_FOUND": (lambda: operation("RESOURCE_NOT_FOUND"), errors.NoCapacity, HERE),
    "VPC_NOT_FOUND": (lambda: operation("VPC_NOT_FOUND"), errors.NotConfigured, PROVIDER),
    "IAM_PERMISSION_DENIED": (
        lambda: operation("IAM_PERMISSION_DENIED"),
        errors.BadCredentials,
        PROVIDER,
    ),
    "a policy that may not be changed": (
        lambda: refused(403, "forbidden"),
        errors.BadCredentials,
        PROVIDER,
    ),
    "a disk smaller than its image": (lambda: refused(400, "invalid"), errors.Unsupported, ZONE),
    "SUBNET_NOT_FOUND_FOR_VPC": (
        lambda: operation("SUBNET_NOT_FOUND_FOR_VPC"),
        errors.Unsupported,
        REGION,
    ),
    "a zone that is not found": (lambda: refused(404, "notFound"), errors.Unsupported, ZONE),
    "a network profile of another zone": (
        lambda: refused(400, "invalid"),
        errors.Unsupported,
        ZONE,
    ),
    "401": (lambda: refused(401, "authError"), errors.BadCredentials, PROVIDER),
    "a name that exists": (lambda: refused(409, "alreadyExists"), errors.OutcomeUnknown, NOTHING),
    "an operation without any error": (
        lambda: gcp.from_operation({"status": "DONE", "httpErrorStatusCode": 503}, GCP),
        errors.Unclassified,
        NOTHING,
    ),
}


@pytest.mark.parametrize("code", GOOGLE)
def test_what_google_answers(code) -> None:
    """Each failure that is told of Google Cloud has its class, and leaves alone what it is about;
    an empty list of errors is never success.
    """
    made, kind, scope = GOOGLE[code]
    found = made()
    assert kind is type(found)
    assert scope in (None, scope_name(found.scopes))


# EC2


EC2 = aws.Context(
    "aws", "us-east-1", True, "token", (candidate("aws", "us-east-1", "use1-az1", "p5.48xlarge"),)
)


def answer(code, status=400):
    return aws.from_response(
        {
            "Error": {"Code": code, "Message": "words"},
            "ResponseMetadata": {"HTTPStatusCode": status},
        },
        EC2,
    )


def fleet(code):
    pool = {"Overrides": {"InstanceType": "p5.48xlarge", "AvailabilityZoneId": "use1-az1"}}
    return aws.from_fleet(
        [
            {
                "ErrorCode": code,
                "ErrorMessage": "words",
                "Lifecycle": "spot",
                "LaunchTemplateAndOverrides": pool,
            }
        ],
        EC2,
    )


AMAZON = {
    "InsufficientInstanceCapacity": (errors.NoCapacity, HERE),
    "InsufficientHostCapacity": (errors.NoCapacity, HERE),
    "InsufficientReservedInstanceCapacity": (errors.NoCapacity, NOTHING),
    "ReservationCapacityExceeded": (errors.NoCapacity, NOTHING),
    "UnfulfillableCapacity": (errors.NoCapacity, HERE),
    "MaxSpotInstanceCountExceeded": (errors.QuotaExceeded, QUOTA),
    "VcpuLimitExceeded": (errors.QuotaExceeded, QUOTA),
    "InstanceLimitExceeded": (errors.QuotaExceeded, QUOTA),
    "SpotMaxPriceTooLow": (errors.PriceRose, HERE),
    "Unsupported": (errors.Unsupported, ZONE),
    "InsufficientFreeAddressesInSubnet": (errors.NoCapacity, "subnet"),
    "MaxFleetCountExceeded": (errors.RateLimited, NOTHING),
    "RequestLimitExceeded": (errors.RateLimited, NOTHING),
    "InternalError": (errors.OutcomeUnknown, NOTHING),
    "ServiceUnavailable": (errors.OutcomeUnknown, NOTHING),
    "Unavailable": (errors.OutcomeUnknown, NOTHING),
    "ServerInternal": (errors.OutcomeUnknown, NOTHING),
    "UnauthorizedOperation": (errors.BadCredentials, PROVIDER),
    "AuthFailure": (errors.BadCredentials, PROVIDER),
    "AccessDenied": (errors.BadCredentials, PROVIDER),
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": (errors.BadCredentials, MARKET),
    "InvalidParameterValue": (errors.Unsupported, TYPE),
    "InvalidAMIID.NotFound": (errors.Unsupported, REGION),
    "InvalidLaunchTemplateId.NotFound": (errors.Unsupported, REGION),
    "InvalidLaunchTemplateId.Malformed": (errors.Unsupported, REGION),
    "InvalidLaunchTemplateId.VersionNotFound": (errors.Unsupported, REGION),
    "InvalidLaunchTemplateName.NotFoundException": (errors.Unsupported, REGION),
    "InvalidLaunchTemplateName.MalformedException": (errors.Unsupported, REGION),
    "OptInRequired": (errors.NotEnabled, REGION),
    "PendingVerification": (errors.Unsupported, REGION),
    "Blocked": (errors.BadCredentials, PROVIDER),
    "IdempotentParameterMismatch": (errors.OutcomeUnknown, NOTHING),
    "OperationNotPermitted": (errors.Unsupported, NOTHING),
    "ExpiredToken": (errors.BadCredentials, PROVIDER),
    "RequestExpired": (errors.BadCredentials, PROVIDER),
    "SignatureDoesNotMatch": (errors.BadCredentials, PROVIDER),
    "UnsupportedOperation": (errors.Unsupported, TYPE),
    "IncorrectInstanceState": (errors.Transient, NOTHING),
}


@pytest.mark.parametrize("code", AMAZON)
def test_what_ec2_answers(code) -> None:
    """Each code that is told of EC2 has its class and scope, as a refused call and in an instant
    fleet's list, where a fault is a passing one.
    """
    kind, scope = AMAZON[code]
    found = answer(code)
    assert (kind, scope) == (type(found), scope_name(found.scopes))
    inside = fleet(code)
    assert (errors.Transient if kind is errors.OutcomeUnknown else kind) is type(inside)
    assert error_codes.CODES[code].source and error_codes.CODES[code].seen


LOST = {
    "Server.SpotInstanceTermination": (errors.NoCapacity, HERE),
    "Server.SpotInstanceShutdown": (errors.NoCapacity, HERE),
    "Server.InsufficientInstanceCapacity": (errors.NoCapacity, HERE),
    "Server.InternalError": (errors.NoCapacity, HERE),
    "Client.InternalError": (errors.NotConfigured, PROVIDER),
    "Client.VolumeLimitExceeded": (errors.QuotaExceeded, REGION),
}


@pytest.mark.parametrize("code", LOST)
def test_what_ec2_says_of_a_machine_that_ended_as_it_started(code) -> None:
    """A state reason (StateReason.Code) has its class and scope too, since a fleet that answered
    well may still lose its machine.
    """
    kind, scope = LOST[code]
    found = aws.from_state({"Code": code, "Message": "words"}, EC2, EC2.candidates)
    assert (kind, scope) == (type(found), scope_name(found.scopes))
    assert error_codes.STATE_REASONS[code].source and error_codes.STATE_REASONS[code].seen


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, errors.BadCredentials), (429, errors.RateLimited), (502, errors.OutcomeUnknown)],
)
def test_an_answer_of_ec2_without_a_code_is_read_by_its_status(status, kind) -> None:
    """A web page, or a proxy's answer, names no code: botocore then gives the HTTP status in its
    place.
    """
    assert kind is type(answer(str(status), status))


# Clore


MARKETPLACE = {
    (200, '{"code": 1}'): (errors.OutcomeUnknown, SERVER),
    (500, '{"code": 1}'): (errors.OutcomeUnknown, SERVER),
    (200, '{"code": 2}'): (errors.Unsupported, PROVIDER),
    (200, '{"code": 3}'): (errors.BadCredentials, PROVIDER),
    (401, '{"code": 3}'): (errors.BadCredentials, PROVIDER),
    (200, '{"code": 4}'): (errors.Unsupported, PROVIDER),
    (200, '{"code": 5}'): (errors.RateLimited, PROVIDER),
    (429, ""): (errors.RateLimited, PROVIDER),
    (200, '{"code": 6, "error": "not_enough_balance"}'): (errors.InsufficientFunds, PROVIDER),
    (200, '{"code": 6, "error": "server-already-rented"}'): (errors.OfferGone, BID),
    (200, '{"code": 6, "error": "server-offline"}'): (errors.OfferGone, SERVER),
    (200, '{"code": 6, "error": "currency-not-allowed"}'): (errors.OfferGone, SERVER),
    (200, '{"code": 6, "error": "too_low_price", "min_price": 3.2}'): (errors.PriceRose, BID),
    (200, '{"code": 6, "error": "exceeded_max_step", "max_step": 0.1}'): (errors.Unsupported, BID),
    (200, '{"code": 6, "error": "can_lower_every_600_seconds", "time_to_lowering": 120}'): (
        errors.RateLimited,
        BID,
    ),
    (403, "error code: 1010"): (errors.BadCredentials, PROVIDER),
    (200, "<html>checking your browser</html>"): (errors.OutcomeUnknown, SERVER),
    (502, "<html>bad gateway</html>"): (errors.OutcomeUnknown, SERVER),
    (200, '{"code": 6, "error": "moon-phase"}'): (errors.Unclassified, SERVER),
    (200, '{"code": 6}'): (errors.Unclassified, SERVER),
    (200, '{"code": 777}'): (errors.Unclassified, SERVER),
    (200, '{"code": "3"}'): (errors.BadCredentials, PROVIDER),
    (401, ""): (errors.BadCredentials, PROVIDER),
    (500, '{"code": 0}'): (errors.OutcomeUnknown, SERVER),
    (504, "<html>gateway time-out</html>"): (errors.OutcomeUnknown, SERVER),
}


@pytest.mark.parametrize("payload", MARKETPLACE, ids=lambda payload: f"{payload[0]} {payload[1]}")
def test_what_clore_answers(payload) -> None:
    """Each code of Clore, whatever HTTP status it comes with, has its class and scope on the one
    call that buys; a good answer has none.
    """
    status, text = payload
    kind, scope = MARKETPLACE[payload]
    reply = json.loads(text) if text.startswith("{") else None
    code = clore.code_of(status, reply)
    found = clore.error(
        code, creating=True, token="token", server=71001, capacity="spot", reply=reply
    )
    assert (kind, scope) == (type(found), scope_name(found.scopes))
    if isinstance(found, errors.RateLimited) and reply and "time_to_lowering" in reply:
        assert found.retry_after_s == 120
    assert clore.code_of(200, {"code": 0}) == ""


def test_every_code_of_clores_table_comes_from_a_payload() -> None:
    """No row stands in the table that no answer of the market, and no failure of the HTTP client,
    leads to.
    """
    read = {
        clore.row_for(
            clore.code_of(status, json.loads(text) if text.startswith("{") else None)
        ).code
        for status, text in MARKETPLACE
    }
    assert {row.code for row in clore.TABLE} <= read | {"timeout", "lost", "unreachable"}


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (httpx.ReadTimeout("x"), errors.OutcomeUnknown),
        (httpx.WriteTimeout("x"), errors.OutcomeUnknown),
        (httpx.RemoteProtocolError("x"), errors.OutcomeUnknown),
        (httpx.ReadError("x"), errors.OutcomeUnknown),
        (httpx.ConnectError("x"), errors.Transient),
        (httpx.ConnectTimeout("x"), errors.Transient),
        (httpx.ProxyError("x"), errors.Transient),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_what_a_lost_order_means(raised, kind) -> None:
    """An order whose answer never came may stand; one that never left the machine does not."""
    assert kind is type(
        clore.error(clore_client.code_of(raised), creating=True, token="token", server=1)
    )


# Modal


SANDBOX = {
    "INVALID_ARGUMENT": (errors.Unsupported, errors.Unsupported, NOTHING),
    "UNAUTHENTICATED": (errors.BadCredentials, errors.BadCredentials, PROVIDER),
    "PERMISSION_DENIED": (errors.BadCredentials, errors.BadCredentials, PROVIDER),
    "RESOURCE_EXHAUSTED": (errors.QuotaExceeded, errors.QuotaExceeded, NOTHING),
    "UNAVAILABLE": (errors.OutcomeUnknown, errors.Transient, NOTHING),
    "DEADLINE_EXCEEDED": (errors.OutcomeUnknown, errors.Transient, NOTHING),
    "INTERNAL": (errors.OutcomeUnknown, errors.Transient, NOTHING),
    "CANCELLED": (errors.OutcomeUnknown, errors.Transient, NOTHING),
    "UNKNOWN": (errors.OutcomeUnknown, errors.Transient, NOTHING),
    "DATA_LOSS": (errors.OutcomeUnknown, errors.Transient, NOTHING),
    "OUT_OF_RANGE": (errors.Unsupported, errors.Unsupported, NOTHING),
    "UNIMPLEMENTED": (errors.Unsupported, errors.Unsupported, PROVIDER),
    "NOT_FOUND": (errors.Transient, errors.Transient, NOTHING),
    "ALREADY_EXISTS": (errors.Transient, errors.Transient, NOTHING),
    "FAILED_PRECONDITION": (errors.Transient, errors.Transient, NOTHING),
    "ABORTED": (errors.Transient, errors.Transient, NOTHING),
}


@pytest.mark.parametrize("name", SANDBOX)
def test_what_modal_answers(name) -> None:
    """Each gRPC status is read by its name, and a failure on the creating call is settled before
    anything else is bought.
    """
    from grpclib import GRPCError, Status

    creating, reading, scope = SANDBOX[name]
    found = modal.classify(GRPCError(Status[name], "words"), creating=True, token="token")
    assert isinstance(found, CloudError)
    assert (creating, scope) == (type(found), scope_name(found.scopes))
    assert reading is type(modal.classify(GRPCError(Status[name], "words")))


def test_every_status_of_modals_table_is_here() -> None:
    """The table holds the protocol's statuses and no other, and each has its payload above."""
    from grpclib import Status

    assert set(SANDBOX) == set(modal.TABLE) == {status.name for status in Status} - {"OK"}


def test_a_queue_that_never_moves_is_no_capacity() -> None:
    """Modal refuses nothing for want of GPUs, so the deadline of the start is its refusal."""
    assert errors.NoCapacity is type(modal.not_started("H100:8", 60))
