"""What a machine of one's own, or the way to it, answers as errors of the one tree. Owns the table
of codes; pure.

Codes are those of agent.sh, and how far a call came: nothing is done on a machine before it has
greeted, so what failed before that did nothing.
"""

from __future__ import annotations

from providers import errors
from providers.adapters.error_table import Row
from providers.model.place import Scope

PROVIDER = "ssh"
MACHINE, CALL = "machine", "call"
_SSH = "ssh(1), EXIT STATUS"
_AGENT = "agent.sh of this folder"
_SEEN = "2026-11-29"

UNREACHABLE, REFUSED, NO_SHELL, NO_ANSWER = "unreachable", "login-refused", "no-shell", "no-answer"
BAD_KEY = "bad-key"

TABLE: dict[str, Row] = {
    UNREACHABLE: Row(
        errors.NoCapacity,
        MACHINE,
        "does not answer; see whether it is on, or say `retired: true` of it in the inventory",
        _SSH,
        _SEEN,
        errors.Transient,
        60.0,
    ),
    REFUSED: Row(
        errors.BadCredentials,
        CALL,
        "answers and lets nobody in; see user, key and host_key in the inventory (a key with a"
        " passphrase has to be in your agent)",
        _SSH,
        _SEEN,
    ),
    BAD_KEY: Row(
        errors.BadCredentials,
        CALL,
        "lets nobody in with the inventory's key: ssh wants a file that is there, and that only"
        " you may read (chmod 600)",
        _SSH,
        _SEEN,
    ),
    NO_SHELL: Row(
        errors.Unsupported,
        MACHINE,
        "lets us in and starts no shell; the user needs a login shell like sh or bash",
        _SSH,
        _SEEN,
        errors.Transient,
        600.0,
    ),
    NO_ANSWER: Row(
        errors.OutcomeUnknown,
        CALL,
        "was asked, and its answer was lost",
        _SSH,
        _SEEN,
        errors.Transient,
    ),
    "busy": Row(
        errors.RateLimited,
        CALL,
        "is at work for somebody else; it is asked again",
        _AGENT,
        _SEEN,
    ),
    "taken": Row(
        errors.NoCapacity,
        MACHINE,
        "has too few cards that nobody uses",
        _AGENT,
        _SEEN,
        block_s=60.0,
    ),
    "over": Row(
        errors.OfferGone, CALL, "has ended this lease already", _AGENT, _SEEN, errors.Transient
    ),
    "no-smi": Row(
        errors.Unsupported, MACHINE, "has no nvidia-smi; install NVIDIA's driver", _AGENT, _SEEN
    ),
    "no-driver": Row(
        errors.Unsupported,
        MACHINE,
        "has a driver that does not answer; run nvidia-smi there",
        _AGENT,
        _SEEN,
        errors.Transient,
        600.0,
    ),
    "no-tool": Row(
        errors.Unsupported,
        MACHINE,
        "lacks flock, setsid, timeout or bash; install util-linux, coreutils and bash",
        _AGENT,
        _SEEN,
    ),
    "no-right": Row(
        errors.BadCredentials,
        CALL,
        "does not let the user write below /var/tmp/gpus",
        _AGENT,
        _SEEN,
    ),
    "no-space": Row(errors.QuotaExceeded, CALL, "has no room left below /var/tmp", _AGENT, _SEEN),
    "changed": Row(
        errors.PriceRose, MACHINE, "costs more in the inventory than when listed", _AGENT, _SEEN
    ),
}


def error(
    code: str, machine: str = "", *, creating: bool = False, token: str = "", words: str = ""
) -> errors.CloudError:
    """The error of a code on a call that takes cards, or on another. What no table knows is
    Unclassified, and then nothing is concluded from it.
    """
    row = TABLE.get(code)
    where = machine or "the machine"
    if row is None:
        return errors.Unclassified(
            f"{where} answered with a code that is not known: {errors.printable(code)[:40]}",
            provider=PROVIDER,
            code=code,
            token=token,
        )
    kind = row.means(creating=creating)
    scopes = (Scope(PROVIDER, zone=machine),) if row.scope == MACHINE and machine else ()
    rest = {"token": token} if issubclass(kind, errors.OutcomeUnknown) else {}
    return kind(
        f"{where} {row.todo}",
        provider=PROVIDER,
        code=code,
        scopes=scopes,
        block_s=row.block_s if kind is row.kind else None,
        words=words,
        **rest,
    )
