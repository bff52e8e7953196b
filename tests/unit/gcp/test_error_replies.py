"""What a refused, lost or unreadable answer of Compute Engine means. No network."""

import inspect
import json
import socket
import ssl
from collections.abc import Iterator

import pytest

from providers.adapters.gcp import error_codes
from providers.adapters.gcp.client_errors import EXCEPTIONS
from providers.adapters.gcp.error_codes import CODES, STATUSES
from providers.adapters.gcp.errors import clean, from_exception, from_http
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
from tests.unit.gcp.errors_rig import CREATE, READ, TOKEN, body


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (403, "rateLimitExceeded", RateLimited),
        (403, "userRateLimitExceeded", RateLimited),
        (403, "quotaExceeded", QuotaExceeded),
        (403, "forbidden", BadCredentials),
        (403, "accessNotConfigured", NotConfigured),
        (401, "authError", BadCredentials),
        (403, "neverHeard", BadCredentials),
        (503, "insufficientCapacity", NoCapacity),
        (503, "backendError", OutcomeUnknown),
        (500, "internalError", OutcomeUnknown),
        (599, "neverHeard", OutcomeUnknown),
        (409, "alreadyExists", OutcomeUnknown),
        (418, "neverHeard", Unclassified),
    ],
)
def test_a_refused_create_is_read_by_its_reason_then_its_status(status, reason, kind) -> None:
    """The reason of the body decides; the status where the reason is unknown."""
    error = from_http(status, body(reason, status), CREATE)
    assert kind is type(error)
    if isinstance(error, OutcomeUnknown):
        assert error.token == TOKEN


def test_error_info_of_the_newer_bodies_wins() -> None:
    """`details[].reason` (google.rpc.ErrorInfo) is more telling than the old reason."""
    details = [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "RATE_LIMIT_EXCEEDED",
            "domain": "googleapis.com",
        }
    ]
    assert RateLimited is type(from_http(403, body("forbidden", details=details), CREATE))
    billing = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "BILLING_DISABLED"}]
    assert InsufficientFunds is type(from_http(403, body("forbidden", details=billing), CREATE))


def test_a_server_s_patience_is_passed_on() -> None:
    """Retry-After reaches the engine."""
    error = from_http(429, "{}", CREATE, "7")
    assert isinstance(error, RateLimited) and error.retry_after_s == 7.0


def test_reads_that_fail_are_passing_faults() -> None:
    """A 5xx or a lost answer of a call that creates nothing is Transient."""
    for status in (500, 502, 503, 504):
        assert Transient is type(from_http(status, "<html>", READ))
    assert Transient is type(from_exception(ConnectionResetError("x"), READ))
    assert Transient is type(from_exception(TimeoutError("x"), READ))


def test_nothing_was_sent_when_no_connection_was_made() -> None:
    """A refused connection and a name that does not resolve are passing faults, with a clear line,
    also for a create.
    """
    from providers.adapters.gcp.client import NotSent

    for error in (
        ConnectionRefusedError(111, "refused"),
        socket.gaierror(-2, "unknown"),
        NotSent("refused"),
    ):
        found = from_exception(error, CREATE)
        assert Transient is type(found)
        assert "look at the network" in str(found)


def test_a_lost_or_unreadable_answer_of_a_create_is_an_unknown_outcome() -> None:
    """Timeouts, resets, half answers and web pages leave open whether a machine was made."""
    import http.client

    for error in (
        TimeoutError(),
        ConnectionResetError(),
        BrokenPipeError(),
        ssl.SSLError(),
        http.client.IncompleteRead(b""),
        json.JSONDecodeError("x", "", 0),
    ):
        found = from_exception(error, CREATE)
        assert OutcomeUnknown is type(found), error
        assert found.token == TOKEN


def dotted(kind: type[BaseException]) -> tuple[str, str]:
    return kind.__module__, kind.__name__


def client_exceptions() -> Iterator[type[BaseException]]:
    import google.auth.exceptions
    import googleapiclient.errors
    import httplib2.error

    for module in (googleapiclient.errors, httplib2.error, google.auth.exceptions):
        for kind in vars(module).values():
            if inspect.isclass(kind) and issubclass(kind, Exception):
                yield kind
    yield from (
        OSError,
        TimeoutError,
        ConnectionError,
        ConnectionResetError,
        ConnectionRefusedError,
        BrokenPipeError,
        socket.gaierror,
        ssl.SSLError,
        ssl.SSLCertVerificationError,
    )
    yield from (json.JSONDecodeError, UnicodeDecodeError, EOFError)


KINDS = sorted(set(client_exceptions()), key=dotted)


@pytest.mark.parametrize("kind", KINDS)
def test_every_exception_of_the_client_is_in_the_table(kind) -> None:
    """A new class in Google's packages that no row covers fails here."""
    assert any(f"{base.__module__}.{base.__qualname__}" in EXCEPTIONS for base in kind.__mro__)


@pytest.mark.parametrize("name", sorted(EXCEPTIONS))
def test_every_exception_row_names_a_class_that_exists(name) -> None:
    """A row whose class is gone from the client fails here."""
    import importlib

    module, _, kind = name.rpartition(".")
    assert issubclass(getattr(importlib.import_module(module), kind), BaseException)


def test_an_exception_of_our_own_making_is_unclassified() -> None:
    """What no row covers is reported loudly, not taken for a passing fault."""
    assert Unclassified is type(from_exception(KeyError("x"), CREATE))


@pytest.mark.parametrize(
    "secret",
    [
        "Authorization: Bearer abc.def-123",
        "ya29.A0ARrdaM-xyz",
        '{"access_token": "s3cr3t-value"}',
        "client_secret=s3cr3t-value&x=1",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----",
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln",
    ],
)
def test_secrets_never_reach_a_message(secret) -> None:
    """Tokens and keys are taken out of whatever the client says."""
    shown = str(from_exception(ValueError(f"bad answer: {secret} end"), CREATE))
    for part in ("abc.def", "A0ARrdaM", "s3cr3t", "MIIEvQ", "c2ln"):
        assert part not in shown
    assert "\n" not in clean(f"a\n{secret}\nb")


def test_every_class_is_one_of_the_tree() -> None:
    """The table maps to the product's own classes only, and leaves nothing to a bare CloudError."""
    for row in [*CODES.values(), *STATUSES.values(), *EXCEPTIONS.values()]:
        assert issubclass(row.kind, CloudError) and row.kind is not CloudError
        assert row.scope in (
            error_codes.PLACE,
            error_codes.ZONE,
            error_codes.REGION,
            error_codes.QUOTA,
            error_codes.ALL,
            error_codes.NOTHING,
        )


def test_a_missing_field_is_not_a_missing_login() -> None:
    """The reason `required` is a sign-in at 401 and a bad request at 400."""
    body = json.dumps(
        {
            "error": {
                "code": 400,
                "message": "Required field 'x' not specified",
                "errors": [{"reason": "required", "domain": "global"}],
            }
        }
    )
    assert isinstance(from_http(401, body, CREATE), BadCredentials)
    assert isinstance(from_http(400, body, CREATE), Unsupported)
