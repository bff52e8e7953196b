"""How a failed call reads: its status code, and one clean line. Owns that no traceback reaches a
user.
"""

from __future__ import annotations

import grpc

from providers.errors import AllFailed, Busy, GpusError, OutcomeUnknown, SpecError
from providers.model.screen import screened

_CODES = (
    (SpecError, grpc.StatusCode.INVALID_ARGUMENT),
    (AllFailed, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Busy, grpc.StatusCode.UNAVAILABLE),
    (OutcomeUnknown, grpc.StatusCode.UNKNOWN),
    (GpusError, grpc.StatusCode.FAILED_PRECONDITION),
)


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
