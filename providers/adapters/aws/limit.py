"""The end of a machine's run at EC2: a timer inside it, which counts from each start. Owns the
script that sets it, and the line that a start writes.

EC2 has no run limit of its own. User data can be written again while a machine is stopped, and the
metadata service then shows the new one (EC2 user guide, "Work with instance user data", read
2026-11-28): so a start by this product is another one to the machine, and a mere reboot is not.
Pure.
"""

from __future__ import annotations

from providers.model import foreign, shell

TTL_LINE = "gpus_ttl_s="
"""The line of the user data that says after how many seconds the machine shuts itself down."""
START_LINE = "gpus_start="
"""The line of the user data that names the start from which they count; another value is another
start.
"""
FOLDER = "/var/lib/gpus"
METADATA = "http://169.254.169.254/latest"

_SCRIPT, _FILE = f"{FOLDER}/limit.sh", f"{FOLDER}/limit"
_UNIT = f"""[Unit]
Description=The end of the run, set at each boot
Wants=network-online.target
After=network-online.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/bash {_SCRIPT}
[Install]
WantedBy=multi-user.target
"""


def timer(ttl_s: int, on_ttl: str, file: str = _FILE) -> str:
    """The program that sets the end at each boot, and keeps it in this file: a reboot does not
    prolong the run.

    A machine whose end has passed without another start (somebody started it by hand) ends at once,
    unless it is to be kept. Where the metadata service gives no answer, an end to come stays as it
    is, and one that has passed is set again: a disk is not lost for that.
    """
    return shell.program(
        __file__,
        "limit",
        ttl_s=ttl_s,
        on_ttl=on_ttl,
        limit=file,
        metadata=METADATA,
        start_line=START_LINE,
    )


def script(ttl_s: int, on_ttl: str) -> str:
    """Lines for the first boot, which leave a unit for every boot."""
    return shell.service("gpus-limit", _UNIT, _SCRIPT, timer(ttl_s, on_ttl), mode=0o644)


def limit_s(user_data: str) -> float:
    """The seconds after which a machine with this user data ends itself; 0 for none."""
    return foreign.real(_value(user_data, TTL_LINE), foreign.SECONDS) or 0.0


def start(user_data: str) -> str:
    """The start that this user data names; empty where it sets no end."""
    return _value(user_data, START_LINE)


def started(user_data: str, name: str) -> str:
    """The user data of the next start; empty where there is nothing to set. `name` is any word that
    no earlier start bore.
    """
    lines = user_data.split("\n")
    at = next(
        (
            number
            for number, line in enumerate(lines)
            if line.startswith(START_LINE) and line != START_LINE
        ),
        None,
    )
    return "" if at is None else "\n".join([*lines[:at], f"{START_LINE}{name}", *lines[at + 1 :]])


def _value(user_data: str, name: str) -> str:
    return next(
        (line.removeprefix(name) for line in user_data.splitlines() if line.startswith(name)), ""
    )
