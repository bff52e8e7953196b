"""How a failed call ends: its status code and one clean line, the problems of a check, or that a
resource exists but is not yet as declared. Owns that no traceback reaches a user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import grpc
from pulumi.runtime.proto import provider_pb2, status_pb2

from providers.errors import (
    AllFailed,
    Busy,
    GpusError,
    OutcomeUnknown,
    Problem,
    SpecError,
    printable,
)
from providers.model.screen import screened
from providers.plugin import properties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class UnknownToken(GpusError):
    """A resource type or a function that this provider does not have."""


class InitFailed(Exception):
    """A resource exists, and something is still to be done: the call fails with its id, its outputs
    and the reasons. `status` is what goes with the failed call, ready to be sent.
    """

    def __init__(
        self, resource: str, struct: Any, reasons: Sequence[str], values: Mapping[str, Any]
    ) -> None:
        super().__init__(screened(reasons[0]))
        status = status_pb2.Status(
            code=grpc.StatusCode.FAILED_PRECONDITION.value[0], message=str(self)
        )
        detail = provider_pb2.ErrorResourceInitFailed(
            id=resource,
            properties=struct,
            reasons=[screened(reason) for reason in reasons],
            inputs=properties.encode(values),
        )
        status.details.add().Pack(detail)
        self.status = bytes(status.SerializeToString())


_CODES = (
    (UnknownToken, grpc.StatusCode.INVALID_ARGUMENT),
    (SpecError, grpc.StatusCode.INVALID_ARGUMENT),
    (AllFailed, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Busy, grpc.StatusCode.UNAVAILABLE),
    (OutcomeUnknown, grpc.StatusCode.UNKNOWN),
    (GpusError, grpc.StatusCode.FAILED_PRECONDITION),
)


async def abort(context: Any, error: Exception) -> NoReturn:
    """Ends the call (a grpc.aio.ServicerContext: the library has no types) with the error."""
    if isinstance(error, InitFailed):
        await context.abort(
            grpc.StatusCode.FAILED_PRECONDITION,
            str(error),
            trailing_metadata=(("grpc-status-details-bin", error.status),),
        )
    await context.abort(code(error), line(error))
    raise AssertionError


def failures(problems: Iterable[Problem]) -> list[provider_pb2.CheckFailure]:
    """Problems as the protocol states them: the property, and the rest of the sentence."""
    return [
        provider_pb2.CheckFailure(
            property=printable(problem.path), reason=str(problem._replace(path=""))
        )
        for problem in problems
    ]


def code(error: Exception) -> grpc.StatusCode:
    """UNKNOWN tells the engine that something may have happened (it keeps a pending operation); all
    others that it is sure nothing did.
    """
    return next(
        (found for kind, found in _CODES if isinstance(error, kind)), grpc.StatusCode.UNKNOWN
    )


def line(error: Exception) -> str:
    """The error for the user, screened. What nobody foresaw goes to `plugin.log` with its
    traceback, and here with its type only.
    """
    return screened(_line(error))


def kept(
    log: Callable[[str, str, str], None], request: provider_pb2.ReadRequest, error: Exception
) -> provider_pb2.ReadResponse:
    """The answer to a Read that could not look: the resource as it was, with a warning."""
    told = f"could not be looked at and is kept as it was: {line(error)}"
    log("warning", request.urn, told)
    return provider_pb2.ReadResponse(
        id=request.id, properties=request.properties, inputs=request.inputs
    )


def _line(error: Exception) -> str:
    if isinstance(error, (GpusError, ValueError)):
        return str(error)
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}; the state folder is where GPUS_HOME says"
    if isinstance(error, OSError) and error.errno is not None:
        from providers.engine.own_machine import of_machine

        return of_machine(error)
    return f"unexpected {type(error).__name__}: {error}{_kept_traceback(error)}"


def _kept_traceback(error: Exception) -> str:
    import traceback

    from providers.home import home, private

    try:
        path = private(home() / "plugin.log")
        with path.open("a", encoding="utf-8") as file:
            file.write(screened("".join(traceback.format_exception(error))) + "\n")
    except OSError:
        return ""
    return f" (details in {path})"
