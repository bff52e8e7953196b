"""What a rehearsal's machine makes of a start-up script: nothing is run, its course is played as a
function of the script and the moment.

Owns how a script of `providers.workloads.launch.start_script` is recognised in what a cloud was
given, and the lines that it would have written to the console. Shared by the stand-ins.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import re
import zlib
from typing import TYPE_CHECKING, NamedTuple

from providers.model.workload import CONSOLE as WORD
from providers.model.workload import FAILED, READY, SUCCEEDED
from providers.rehearsal.nodes import mode

if TYPE_CHECKING:
    from providers.rehearsal.store import Store

BOOT_S, SETUP_S, LOAD_S = 1.0, 2.0, 3.0
"""World seconds from running to the script's first word, for its setup lines, and until a service
answers.
"""

_SENT = re.compile(r"^digest=([0-9a-f]{12})\nkind=(\w+)\nrelease=(.*)$", re.MULTILINE)
_SETUP = re.compile(r"^setup=(.*)$", re.MULTILINE)
_PACKED = re.compile(r"(?:^packed=|echo )([A-Za-z0-9+/=]{64,})", re.MULTILINE)


class Work(NamedTuple):
    """What a script is for. `releases`: the machine ends itself once its job is done."""

    digest: str
    job: bool
    setup: bool
    releases: bool


def unpacked(given: str) -> str:
    """The program that stands packed in user data or a command; what is given, where none does."""
    match = _PACKED.search(given)
    if match is None or _SENT.search(given) is not None:
        return given
    try:
        return gzip.decompress(base64.b64decode(match[1])).decode()
    except (binascii.Error, OSError, EOFError, zlib.error, UnicodeDecodeError):
        return given


def find(given: str) -> Work | None:
    """The work in a start-up script, in user data or in a command that holds one packed; None where
    there is none.
    """
    text = unpacked(given)
    found, setup = _SENT.search(text), _SETUP.search(text)
    if found is None:
        return None
    job = found[2] == "job"
    return Work(found[1], job, setup is not None and bool(setup[1]), job and bool(found[3]))


def words(work: Work, up: float, now: float, job_s: float, code: int) -> list[tuple[float, str]]:
    """(moment, line) of all that was written until now by a machine that runs since `up`; a job
    takes `job_s` and ends with `code`.
    """
    running = up + BOOT_S + (SETUP_S if work.setup else 0.0)
    course = [(up + BOOT_S, "starting"), (running, "running")]
    course.append(
        (running + job_s, f"{FAILED} {code}" if code else f"{SUCCEEDED} 0")
        if work.job
        else (running + LOAD_S, READY)
    )
    return [(moment, f"{WORD} {work.digest} {state}") for moment, state in course if moment <= now]


def told(
    store: Store, machine: str, given: str, up: float, until: float, job_s: float, code: int
) -> list[tuple[float, str]]:
    """The same of a machine, by its native id, that runs since `up`: of what was written there by
    login, else of the script that it was given.
    """
    since, script = store.work(machine) or (0.0, given)
    work = find(script)
    return [] if work is None else words(work, max(up, since), until, job_s, code)


def over(store: Store, provider: str, given: str, up: float | None) -> float | None:
    """When a machine of this provider that was given this and is up since then ends itself once its
    job is done; None if it does not, or if machines really run: then it says so itself.
    """
    work = find(given)
    if work is None or up is None or not (work.job and work.releases):
        return None
    if mode.runs(store, provider):
        return None
    job_s = store.latency(provider, "job")
    return up + BOOT_S + (SETUP_S if work.setup else 0.0) + job_s + 1.0
