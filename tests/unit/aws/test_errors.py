"""EC2's error table: every code is classified, by code alone, with what it blocks; every exception
of boto's has a row.
"""

import botocore.exceptions
import botocore.parsers
import pytest

from providers import errors as tree
from providers.adapters.aws import client_errors, error_codes, errors, machines
from providers.adapters.aws.errors import (
    Context,
    from_exception,
    from_fleet,
    from_response,
    from_state,
)
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
from providers.model.offer import Candidate, Offer
from providers.model.place import Scope

A, B, E = "use1-az6", "use1-az1", "use1-az3"


def candidate(zone=A, machine_type="p5.48xlarge", capacity="on-demand", reservation=""):
    gpu, count = machines.gpus_of(machine_type)
    return Candidate(
        1,
        0,
        Offer("aws", "us-east-1", zone, machine_type, gpu, count, capacity, 1),
        1,
        reservation,
        1,
    )


def context(*candidates, creating=True, own=False):
    return Context(
        "aws try",
        "us-east-1",
        creating,
        "token",
        candidates or (candidate(),),
        (("us-east-1a", A), ("us-east-1b", B), ("us-east-1e", E)),
        own,
    )


def response(code, message="words", status=400):
    """`ClientError.response`, as botocore 1.44.8 makes it from an EC2 error document."""
    return {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "RetryAttempts": 0},
    }


def pool(code, zone_name="", machine_type="p5.48xlarge", zone_id=""):
    """One entry of a fleet's Errors, as documented for CreateFleet."""
    override = {
        "InstanceType": machine_type,
        **({"AvailabilityZone": zone_name} if zone_name else {}),
        **({"AvailabilityZoneId": zone_id} if zone_id else {}),
    }
    return {
        "LaunchTemplateAndOverrides": {"Overrides": override},
        "Lifecycle": "on-demand",
        "ErrorCode": code,
        "ErrorMessage": "words",
    }


@pytest.mark.parametrize("code", sorted(error_codes.CODES))
def test_every_code_is_classified_from_a_payload(code) -> None:
    """Each row's class comes out, with the code, the provider and something to do; the same code in
    other words means the same.
    """
    row = error_codes.CODES[code]
    for message in ("first words", "other words, VcpuLimitExceeded"):
        got = from_response(response(code, message), context())
        assert type(got) is row.kind and (code, "aws") == (got.code, got.provider)
        assert row.todo.split("`")[0] in str(got) or row.kind is QuotaExceeded
    reading = from_response(response(code), context(creating=False))
    assert type(reading) is (row.reading or row.kind) and not isinstance(reading, OutcomeUnknown)


def test_every_row_says_where_it_is_from() -> None:
    """A source and a date stand at each code, status, state reason and exception."""
    rows = [
        *error_codes.CODES.values(),
        *error_codes.STATUSES.values(),
        *error_codes.STATE_REASONS.values(),
        *client_errors.EXCEPTIONS.values(),
    ]
    assert all(row.source and row.seen and row.todo for row in rows)


def test_every_class_that_ec2_can_mean_is_reachable() -> None:
    """The table reaches each class of the tree but those that EC2 has no code for: no wallet, no
    market that sells offers away.
    """
    rows = [
        *error_codes.CODES.values(),
        *error_codes.STATUSES.values(),
        *error_codes.STATE_REASONS.values(),
        *client_errors.EXCEPTIONS.values(),
    ]
    reached = {row.kind for row in rows} | {row.reading for row in rows if row.reading}
    leaves = {
        kind
        for kind in vars(tree).values()
        if isinstance(kind, type) and issubclass(kind, CloudError)
    } - {CloudError}
    # HalfMade and its kinds are findings of our own; Unclassified is what no row is.
    ours = {kind for kind in leaves if issubclass(kind, tree.HalfMade)}
    assert {tree.InsufficientFunds, tree.OfferGone, tree.Unclassified} == leaves - reached - ours


@pytest.mark.parametrize(
    ("code", "kind", "scope"),
    [
        (
            "InsufficientInstanceCapacity",
            NoCapacity,
            Scope("aws", "us-east-1", A, "p5.48xlarge", capacity="on-demand"),
        ),
        ("Unsupported", Unsupported, Scope("aws", "us-east-1", A, "p5.48xlarge")),
        ("InsufficientFreeAddressesInSubnet", NoCapacity, Scope("aws", "us-east-1", A)),
        (
            "SpotMaxPriceTooLow",
            PriceRose,
            Scope("aws", "us-east-1", A, "p5.48xlarge", capacity="on-demand"),
        ),
        ("OptInRequired", NotEnabled, Scope("aws", "us-east-1")),
        ("InvalidParameterValue", Unsupported, Scope("aws", "us-east-1", "", "p5.48xlarge")),
        ("UnauthorizedOperation", BadCredentials, Scope("aws")),
        (
            "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
            BadCredentials,
            Scope("aws", capacity="on-demand"),
        ),
    ],
)
def test_what_a_code_blocks(code, kind, scope) -> None:
    """Capacity: the type in that zone, bought that way. Not offered: the type in that zone. Subnet,
    region, provider: as wide as they are.
    """
    got = from_response(response(code), context())
    assert type(got) is kind and (scope,) == got.scopes


@pytest.mark.parametrize(
    ("code", "capacity", "quota"),
    [
        ("VcpuLimitExceeded", "on-demand", "L-417A185B"),
        ("MaxSpotInstanceCountExceeded", "spot", "L-7212CCBC"),
    ],
)
def test_b21_a_vcpu_limit_is_the_regions_bucket(code, capacity, quota) -> None:
    """The whole family group in that region, bought that way, is blocked; the other way of buying
    and the other group stay open.
    """
    got = from_response(response(code), context(candidate(capacity=capacity)))

    def covered(**rest):
        return any(scope.covers(candidate(**rest)) for scope in got.scopes)

    assert isinstance(got, QuotaExceeded) and quota == got.metric and quota in str(got)
    assert covered(zone=B, machine_type="p4d.24xlarge", capacity=capacity)
    assert not covered(machine_type="g5.xlarge", capacity=capacity)
    assert not covered(capacity="spot" if capacity == "on-demand" else "on-demand")


def test_b21_a_mixed_fleet_blocks_each_pool_by_its_own_error() -> None:
    """VCPU limit in 1a, Unsupported in 1e, no capacity in 1b: the widest class, and every error's
    own scopes; the shortest time.
    """
    tried = context(candidate(A), candidate(E), candidate(B))
    got = from_fleet(
        [
            pool("VcpuLimitExceeded", "us-east-1a"),
            pool("Unsupported", zone_id=E),
            pool("InsufficientInstanceCapacity", "us-east-1b"),
        ],
        tried,
    )
    assert isinstance(got, QuotaExceeded) and got.block_s == 600.0
    assert Scope("aws", "us-east-1", E, "p5.48xlarge") in got.scopes
    assert Scope("aws", "us-east-1", B, "p5.48xlarge", capacity="on-demand") in got.scopes
    assert Scope("aws", "us-east-1", gpu_type="A100", capacity="on-demand") in got.scopes


def test_a_fleet_without_capacity_blocks_the_pools_that_it_tried() -> None:
    """Each pool's own error names its type and zone; an error that names none speaks of all; no
    error at all is no capacity.
    """
    tried = context(candidate(A), candidate(B, "p4d.24xlarge"))
    got = from_fleet([pool("InsufficientInstanceCapacity", "us-east-1b", "p4d.24xlarge")], tried)
    assert (Scope("aws", "us-east-1", B, "p4d.24xlarge", capacity="on-demand"),) == got.scopes
    assert len(from_fleet([{"ErrorCode": "UnfulfillableCapacity"}], tried).scopes) == 2
    assert len(from_fleet([], tried).scopes) == 2 and isinstance(from_fleet([], tried), NoCapacity)


def test_a_fault_inside_an_ended_fleet_is_a_passing_one() -> None:
    """The fleet's answer says that it made nothing, so InternalError there is Transient; a code
    that no table knows is told loudly.
    """
    assert type(from_fleet([pool("InternalError", "us-east-1a")], context())) is Transient
    unknown = from_fleet(
        [pool("BrandNewCode", "us-east-1a"), pool("InsufficientInstanceCapacity", "us-east-1b")],
        context(candidate(A), candidate(B)),
    )
    assert (
        isinstance(unknown, Unclassified)
        and unknown.code == "BrandNewCode"
        and unknown.token == "token"
    )


def test_a_reservation_blocks_no_place() -> None:
    """A full or missing reservation says nothing about the place that others could be bought at."""
    for code in (
        "ReservationCapacityExceeded",
        "InvalidCapacityReservationId.NotFound",
        "InsufficientInstanceCapacity",
    ):
        assert (
            from_response(
                response(code), context(candidate(capacity="reservation", reservation="cr-1"))
            ).scopes
            == ()
        )


def test_own_helpers_that_vanished_are_made_again() -> None:
    """A group, template or placement group of the adapter's own that another run tidied away is a
    passing fault; a user's own is not there.
    """
    for code in error_codes.OWN:
        assert type(from_response(response(code), context(own=True))) is Transient
        assert type(from_response(response(code), context(own=False))) is Unsupported
        assert type(from_fleet([pool(code)], context(own=True))) is Transient


def test_an_unknown_code_is_unclassified_and_a_bare_status_is_read() -> None:
    """A code in no table is Unclassified with the token; a page without a code is read by its HTTP
    status.
    """
    unknown = from_response(response("SomethingNew"), context())
    assert isinstance(unknown, Unclassified) and unknown.token == "token"
    assert type(from_response(response("502", "Bad Gateway", 502), context())) is OutcomeUnknown
    assert (
        type(from_response(response("502", "Bad Gateway", 502), context(creating=False)))
        is Transient
    )
    assert type(from_response(response("", "", 403), context())) is BadCredentials
    assert type(from_response(response("599", "", 599), context())) is OutcomeUnknown


@pytest.mark.parametrize("code", sorted(error_codes.STATE_REASONS))
def test_every_state_reason_is_classified(code) -> None:
    """A machine that ended before it ran says why; an unlisted reason counts as no capacity there
    for a short while.
    """
    got = from_state({"Code": code, "Message": "words"}, context(), (candidate(),))
    assert type(got) is error_codes.STATE_REASONS[code].kind and code == got.code
    assert isinstance(from_state({"Code": "Server.New"}, context(), (candidate(),)), NoCapacity)
    assert isinstance(
        from_state({"Code": "Server.VcpuLimitExceeded"}, context(), (candidate(),)), QuotaExceeded
    )


def every(kind):
    yield kind
    for below in kind.__subclasses__():
        yield from every(below)


def test_no_exception_of_botos_is_unmapped() -> None:
    """Every exception class of the installed botocore has a row, itself or by a base; ClientError
    is read by its answer.
    """
    kinds = [
        *every(botocore.exceptions.BotoCoreError),
        *every(botocore.parsers.ResponseParserError),
    ]
    assert len(kinds) > 60
    for kind in kinds:
        bases = {f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__}
        assert bases & client_errors.EXCEPTIONS.keys(), kind


@pytest.mark.parametrize(
    ("error", "creating", "reading"),
    [
        (
            botocore.exceptions.EndpointConnectionError(endpoint_url="https://x"),
            Transient,
            Transient,
        ),
        (botocore.exceptions.ConnectTimeoutError(endpoint_url="https://x"), Transient, Transient),
        (botocore.exceptions.ReadTimeoutError(endpoint_url="https://x"), OutcomeUnknown, Transient),
        (
            botocore.exceptions.ConnectionClosedError(endpoint_url="https://x"),
            OutcomeUnknown,
            Transient,
        ),
        (botocore.parsers.ResponseParserError("<html>"), OutcomeUnknown, Transient),
        (botocore.exceptions.NoCredentialsError(), NotConfigured, NotConfigured),
        (botocore.exceptions.UnauthorizedSSOTokenError(), BadCredentials, BadCredentials),
        (botocore.exceptions.ParamValidationError(report="x"), Unsupported, Unsupported),
        (RuntimeError("x"), Unclassified, Unclassified),
    ],
)
def test_what_an_exception_means_for_a_machine(error, creating, reading) -> None:
    """What never left is passing; an answer that was lost or garbled may have made a machine, if
    the call creates.
    """
    assert type(from_exception(error, context())) is creating
    assert type(from_exception(error, context(creating=False))) is reading


def test_messages_hold_no_secret() -> None:
    """Keys, signatures and the encoded authorization message (which may hold the request) are taken
    out.
    """
    text = errors.clean(
        "AKIAIOSFODNN7EXAMPLE aws_secret_access_key=wJalr Signature=abc123, Encoded authorization"
        " failure message: 8h3kd9_x\nsecond line"
    )
    assert (
        not any(word in text for word in ("AKIA", "wJalr", "abc123", "8h3kd9"))
        and "\n" not in text
        and len(errors.clean("x" * 999)) <= 300
    )


def test_rate_limits_wait_in_the_same_place() -> None:
    """Throttling blocks nothing: the same place is asked again."""
    got = from_response(response("RequestLimitExceeded", status=503), context())
    assert isinstance(got, RateLimited) and got.scopes == () and got.block_s == 0
