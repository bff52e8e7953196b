"""What idle means, and the machine's own timer for it: a script that powers the machine off once
its GPUs had nothing to do for long enough. Pure.

A shutdown from inside is all that such a timer can do. What becomes of the machine then is its
cloud's: EC2 terminates it where it was made so; Google stops it, and whoever looks next deletes the
rest.
"""

from __future__ import annotations

from providers.model import shell

BUSY_PERCENT = 5
"""A GPU that was busy for less of the time than this, as its driver says, is idle."""
LINE = "gpus_idle_s="
"""How the timer's limit is written: on a line of its own, so that it can be found in what a machine
was given.
"""
QUERY = "nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits"
_EVERY_S = 10
_PATH = "/usr/local/sbin/gpus-idle"
_UNIT = f"""[Unit]
Description=End of an idle machine
[Service]
ExecStart={_PATH}
Restart=always
[Install]
WantedBy=multi-user.target
"""


def timer(idle_s: int) -> str:
    """The program that looks every ten seconds. A driver that does not answer is never idleness."""
    return shell.program(
        __file__, "idle", gpus_idle_s=idle_s, busy_percent=BUSY_PERCENT, every_s=_EVERY_S
    )


def script(idle_s: int) -> str:
    """Shell for a machine's first boot, or every one: it puts the timer in place as a service."""
    return shell.service("gpus-idle", _UNIT, _PATH, timer(idle_s))


def limit_s(text: str) -> int:
    """The limit that a script was given; 0 for none."""
    line = next((line for line in text.splitlines() if line.startswith(LINE)), "")
    number = line.removeprefix(LINE)
    return int(number) if number.isdigit() else 0


def busiest(output: str) -> int | None:
    """The highest of the utilisations that QUERY printed, in percent; None where it printed none,
    or anything else.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return max(map(int, lines)) if lines and all(line.isdigit() for line in lines) else None
