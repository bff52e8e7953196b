"""One run of the user's program: what it has made once for all clusters, and how it ends when it is
interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn, cast

import pulumi

_SHOWN = 32
"""The exit code by which Pulumi's Python runner says that what there is to say has been said."""


def end_quietly() -> None:
    """Ends the program without a traceback when the engine interrupts it: it does so in the middle
    of a call, as soon as a resource has failed, and after Ctrl-C. The engine has the reason on the
    screen by then. A handler of the program's own stays.
    """
    import contextlib
    import signal

    def end(_signal: int, _frame: object) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(_SHOWN)

    if not _in_runner():
        return  # a program inside another one (a test, the Automation API): its host decides
    found = signal.getsignal(signal.SIGINT)
    if found is signal.default_int_handler or getattr(found, "__module__", "").startswith(
        "asyncio"
    ):
        with contextlib.suppress(
            ValueError
        ):  # not the main thread: a host of its own, with its own ways
            signal.signal(signal.SIGINT, end)


def end_with(text: str) -> NoReturn:
    """Ends the program with these lines, each an error on Pulumi's screen. Pulumi's own runner
    would add that the program failed; a host of another kind gets a RunError.
    """
    if not _in_runner():
        raise pulumi.RunError(text)
    for line in text.splitlines():
        pulumi.log.error(line)
    sys.exit(_SHOWN)


def _in_runner() -> bool:
    """Whether Pulumi's own runner executes this program."""
    return any(word.endswith("pulumi-language-python-exec") for word in sys.orig_argv)


def made_once() -> dict[str, Any]:
    """What this run of the program has made once for all clusters; kept on the stack, since one
    process may run several programs.
    """
    root = pulumi.runtime.settings.get_root_resource()
    if root is None:
        return {}
    return cast("dict[str, Any]", root.__dict__.setdefault("_gpus_made", {}))
