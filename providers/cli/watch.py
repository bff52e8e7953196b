"""`gpus watch`: its arguments, the loop of rounds, the log, and an orderly end at SIGTERM and
SIGINT.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from providers.cli import stackfile
from providers.cli.arguments import Parser
from providers.errors import Problem, SpecError
from providers.home import private
from providers.model import duration
from providers.remote import notice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.remote.notice import Target
    from providers.watch.news import News
    from providers.watch.rounds import Round

_DESCRIPTION = (
    "Refresh-and-up of one stack, again and again: what was taken back is bought again by the plan,"
    " within a cap."
)
_LEAST_S = 30
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}(/[A-Za-z0-9_.-]{1,100}){0,2}")
"""A stack's name as Pulumi takes it, an organisation and a project before it or not."""


def parser() -> Parser:
    """Its arguments."""
    made = Parser(prog="gpus watch", description=_DESCRIPTION)
    made.add_argument("-s", "--stack", required=True, help="the stack")
    made.add_argument(
        "--interval",
        default="5m",
        metavar="DURATION",
        help="from the beginning of one round to that of the next, at most: what waits for"
        " capacity is looked for on time (default 5m)",
    )
    made.add_argument(
        "--max-buys",
        default="3/h",
        metavar="N/h",
        help="at most this many purchases within an hour (default 3/h)",
    )
    made.add_argument("--once", action="store_true", help="one round, for a scheduled pipeline")
    made.add_argument("--log", metavar="FILE", help="append one JSON line a round")
    made.add_argument(
        "--notify",
        action="append",
        default=[],
        metavar="WHERE",
        help="tell what is acquired, lost or failed: env:NAME or file:PATH with an address of"
        " Apprise, or a webhook's URL; may be repeated",
    )
    return made


def run(argv: Sequence[str]) -> int:
    """Watches until it is told to stop; 0, or 1 where the last round failed. Raises SpecError for
    bad arguments and a stack that is not there.
    """
    options = parser().parse_args(list(argv))
    if not _NAME.fullmatch(options.stack):
        # Pulumi refuses it at each round: that would be watched for ever.
        raise SpecError(
            [
                Problem(
                    "--stack",
                    "a stack's name of letters, digits, -, _ and .",
                    repr(options.stack)[:80],
                )
            ]
        )
    project = stackfile.project_folder()
    interval_s, most = _interval(options.interval), _most(options.max_buys)
    to = notice.targets(options.notify)
    log = RoundLog(options.log)
    from providers.watch.news import news
    from providers.watch.rounds import BUSY, FAILED, Watch
    from providers.watch.stack import Stack

    end = threading.Event()
    watch = Watch(
        Stack(project, options.stack),
        most,
        interval_s,
        time.time,
        lambda seconds: not end.wait(seconds),
    )

    def stop(_signal: int, _frame: object) -> None:
        end.set()
        watch.stop()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    result, written = "", True
    before: Round | None = None
    try:
        while not end.is_set():
            began = time.monotonic()
            found = watch.round()
            result = found.result
            written = log.write(options.stack, found)
            for each in news(found, before) if to else ():
                _tell(to, options.stack, each)
            before = found
            spent_s = time.monotonic() - began
            if options.once or end.wait(pause_s(found, interval_s, spent_s, time.time())):
                break
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 1 if result in (FAILED, BUSY) or not written else 0


def pause_s(found: Round, interval_s: float, spent_s: float, now: float) -> float:
    """How long to wait after a round that took `spent_s`: until the next place is to be asked,
    within the interval and not sooner than the shortest one.
    """
    next_s = interval_s - spent_s
    if found.next_look:
        least_s = min(_LEAST_S, interval_s) - spent_s
        next_s = min(next_s, max(least_s, found.next_look - now + 1.0))
    return max(1.0, next_s)


def _tell(to: Sequence[Target], stack: str, found: News) -> None:
    """Sends a notice; who does not take it is a line."""
    for shown in notice.send(to, f"gpus: {stack}: {found.title}", found.text):
        print(f"gpus: {shown} did not take the notice: {found.title}", file=sys.stderr, flush=True)


class RoundLog:
    """One line on the screen and, where a file is named, one of JSON there, for each round."""

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path is not None else None
        if self._path is not None:
            if not self._path.exists():
                private(self._path)
            self._path.open(
                "a", encoding="utf-8"
            ).close()  # a file that cannot be written is told before anything is done

    def write(self, stack: str, found: Round) -> bool:
        """Shows the round and appends it; False where it could not be appended, which ends no
        watch.
        """
        record: dict[str, Any] = {"stack": stack, **found.as_json()}
        print(f"{record['at']} {stack}: {found.result}: {found.text}", flush=True)
        for line in found.lines if found.text not in found.lines or len(found.lines) > 1 else ():
            print(f"  {line}", flush=True)
        if self._path is None:
            return True
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            todo = "make room there, or name another file with --log"
            print(
                f"gpus: {self._path}: the round is not in the log: {error.strerror}; {todo}",
                file=sys.stderr,
                flush=True,
            )
            return False
        return True


def _interval(text: str) -> float:
    try:
        found = float(duration.seconds(text))
    except (ValueError, OverflowError):
        raise SpecError(
            [Problem("--interval", 'a duration such as "5m"', repr(text), duration.remedy(text))]
        ) from None
    if found < _LEAST_S:
        raise SpecError([Problem("--interval", f"at least {duration.text(_LEAST_S)}", text)])
    return found


def _most(text: str) -> int:
    number = text.strip().removesuffix("/h")
    if not (number.isascii() and number.isdigit() and len(number) <= 6):
        raise SpecError([Problem("--max-buys", 'a whole number an hour, as in "3/h"', repr(text))])
    return int(number)
