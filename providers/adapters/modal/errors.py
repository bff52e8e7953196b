"""Modal's failures as classes of the one error tree. Owns the table; must not import the client
(statuses are matched by name).

By code alone: the gRPC status that the client keeps on its exceptions, and the kind of detail that
the server attaches. The words of a message are shown, never matched.
"""

from __future__ import annotations

from typing import NamedTuple

from providers.adapters.modal.gpu import PROVIDER
from providers.errors import (
    BadCredentials,
    CloudError,
    GpusError,
    NoCapacity,
    OutcomeUnknown,
    QuotaExceeded,
    RateLimited,
    Transient,
    Unclassified,
    Unsupported,
)
from providers.model.place import Scope


class Row(NamedTuple):
    """`reading` is the class for a call that changes nothing or may be repeated, `creating` for the
    one creating call.
    """

    reading: type[CloudError]
    creating: type[CloudError]
    todo: str
    whole_provider: bool = False
    source: str = "modal/_grpc_client.py and exception.py of client 1.6.4, read 2026-11-27"


_SPEC = "look at options.modal"
_SETTLE = "it is looked up before anything else is bought"
_AGAIN = "it is asked again"

TABLE = {
    # Refused before any work.
    "INVALID_ARGUMENT": Row(Unsupported, Unsupported, _SPEC),
    "OUT_OF_RANGE": Row(Unsupported, Unsupported, _SPEC),
    "UNIMPLEMENTED": Row(
        Unsupported,
        Unsupported,
        "install a newer client: pip install -U modal",
        whole_provider=True,
    ),
    "UNAUTHENTICATED": Row(
        BadCredentials,
        BadCredentials,
        "make a new token: modal token new, or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET",
        whole_provider=True,
    ),
    "PERMISSION_DENIED": Row(
        BadCredentials,
        BadCredentials,
        "ask the workspace's owner for the right, or use another's token (modal token new)",
        whole_provider=True,
    ),
    # Without a retry policy attached: an account's limit. With one: RateLimited (see `classify`).
    "RESOURCE_EXHAUSTED": Row(
        QuotaExceeded,
        QuotaExceeded,
        "see the workspace's limits at https://modal.com/settings, or ask Modal for more",
    ),
    # The app was stopped or replaced meanwhile, or another call was first: nothing was made.
    "NOT_FOUND": Row(Transient, Transient, _AGAIN),
    "ALREADY_EXISTS": Row(Transient, Transient, _AGAIN),
    "FAILED_PRECONDITION": Row(Transient, Transient, _AGAIN),
    "ABORTED": Row(Transient, Transient, _AGAIN),
    # No answer, or one that does not say what was done.
    "UNAVAILABLE": Row(Transient, OutcomeUnknown, _SETTLE),
    "DEADLINE_EXCEEDED": Row(Transient, OutcomeUnknown, _SETTLE),
    "CANCELLED": Row(Transient, OutcomeUnknown, _SETTLE),
    "INTERNAL": Row(Transient, OutcomeUnknown, _SETTLE),
    "UNKNOWN": Row(Transient, OutcomeUnknown, _SETTLE),
    "DATA_LOSS": Row(Transient, OutcomeUnknown, _SETTLE),
}
"""gRPC status → class. The statuses are the complete set of the protocol, less OK."""

BY_NAME = {
    "AuthError": "UNAUTHENTICATED",
    "PermissionDeniedError": "PERMISSION_DENIED",
    "InvalidError": "INVALID_ARGUMENT",
    "RequestSizeError": "INVALID_ARGUMENT",
    "SerializationError": "INVALID_ARGUMENT",
    "NotFoundError": "NOT_FOUND",
    "AlreadyExistsError": "ALREADY_EXISTS",
    "ConflictError": "FAILED_PRECONDITION",
    "ResourceExhaustedError": "RESOURCE_EXHAUSTED",
    "UnimplementedError": "UNIMPLEMENTED",
    "VersionError": "UNIMPLEMENTED",
    "DataLossError": "DATA_LOSS",
    "InternalError": "INTERNAL",
    "InternalFailure": "INTERNAL",
    "ServiceError": "UNAVAILABLE",
    "RemoteError": "UNKNOWN",
    "WrappedGRPCError": "UNKNOWN",
}
"""The client's exceptions that it also raises by itself, without a status → the status that means
the same.
"""

NO_ANSWER = frozenset(
    {
        "ConnectionError",
        "TimeoutError",
        "RetryTimeoutError",
        "StreamTerminatedError",
        "OSError",
        "ClientClosed",
        "ProtocolError",
    }
)
"""Exceptions of the client and of the transport that mean: no answer came."""

RETRY_POLICY = "RPCRetryPolicy"
"""The detail with which the server asks for patience."""


def classify(error: BaseException, *, creating: bool = False, token: str = "") -> GpusError:
    """The error of the tree for whatever a call raised. `token` is the order's, for a creating
    call.
    """
    if isinstance(error, GpusError):
        return error
    code = status(error)
    details = [type(item).__name__ for item in getattr(error, "_grpc_details", None) or ()]
    message = str(error) or type(error).__name__
    if code == "RESOURCE_EXHAUSTED" and RETRY_POLICY in details:
        policy = next(item for item in error._grpc_details if type(item).__name__ == RETRY_POLICY)  # type: ignore[attr-defined]  # noqa: SLF001
        return RateLimited(
            "Modal asks for patience",
            words=message,
            retry_after_s=float(policy.retry_after_secs),
            provider=PROVIDER,
            code=code,
        )
    row = TABLE.get(code)
    if row is None and (code in NO_ANSWER or isinstance(error, (OSError, TimeoutError))):
        row = TABLE["UNAVAILABLE"]
    if row is None:
        kind: type[CloudError] = Unclassified if creating else Transient
        return _make(
            kind,
            f"Modal: {code}: a code that no table knows; please report it",
            message,
            code,
            token,
        )
    scopes = (Scope(PROVIDER),) if row.whole_provider else ()
    kind = row.creating if creating else row.reading
    todo = row.todo if creating or row.todo != _SETTLE else _AGAIN
    return _make(kind, f"Modal: {code}; {todo}", message, code, token, scopes)


def _make(
    kind: type[CloudError],
    text: str,
    words: str,
    code: str,
    token: str,
    scopes: tuple[Scope, ...] = (),
) -> CloudError:
    if issubclass(kind, OutcomeUnknown):
        return kind(text, words=words, token=token, provider=PROVIDER, code=code)
    return kind(text, words=words, provider=PROVIDER, code=code, scopes=scopes)


def status(error: BaseException) -> str:
    """The gRPC status's name where the exception has one, else the exception's own."""
    # Reading `error.status` on the client's exceptions warns; the value itself stands in
    # `_grpc_status`.
    found = getattr(error, "_grpc_status", None)
    if found is None and type(error).__name__ == "GRPCError":
        found = getattr(error, "status", None)
    name = type(error).__name__
    return str(getattr(found, "name", "")) or BY_NAME.get(name, name)


def is_missing(error: BaseException) -> bool:
    """True for Modal's own word that something does not exist."""
    return status(error) == "NOT_FOUND"


def not_started(gpu_text: str, wait_s: float) -> NoCapacity:
    """The refusal that Modal never gives: it queues, so capacity is a container that started within
    the wait.
    """
    return NoCapacity(
        f"Modal started no container with {gpu_text} within {wait_s:g} s",
        provider=PROVIDER,
        code="not-started",
    )


RESULTS = {
    "SUCCESS": "ended",
    "FAILURE": "failed",
    "TERMINATED": "gone",
    "TIMEOUT": "ended",
    "IDLE_TIMEOUT": "ended",
    "INIT_FAILURE": "failed",
    "INTERNAL_FAILURE": "preempted",
    "MEMORY_MANAGER_EVICTION": "preempted",
    "MEMORY_THRASHING_EVICTION": "failed",
    "KERNEL_OOM_KILL": "failed",
}
"""GenericResult.GenericStatus of a finished sandbox → a machine's status. Source:
modal_proto/api_pb2.pyi of 1.6.4, read 2026-11-27.
"""

JOB_RESULTS = {
    "SUCCESS": "ended",
    "FAILURE": "failed",
    "TERMINATED": "failed",
    "TIMEOUT": "failed",
    "IDLE_TIMEOUT": "failed",
    "INIT_FAILURE": "failed",
    "INTERNAL_FAILURE": "failed",
    "MEMORY_MANAGER_EVICTION": "failed",
    "MEMORY_THRASHING_EVICTION": "failed",
    "KERNEL_OOM_KILL": "failed",
}
"""The same of a job's call, after Modal's own new attempts: it is done, well or not. Source: as
above.
"""
