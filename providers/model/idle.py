"""What idle means, and the machine's own timer for it: a script that powers the machine off once its GPUs had nothing to do for long enough. Pure.

A shutdown from inside is all that such a timer can do. What becomes of the machine then is its cloud's: EC2 terminates it where it was made so;
Google stops it, and whoever looks next deletes the rest.
"""

from __future__ import annotations

BUSY_PERCENT = 5
"""A GPU that was busy for less of the time than this, as its driver says, is idle."""
LINE = "gpus_idle_s="
"""How the script's limit is written: on a line of its own, so that it can be found in what a machine was given."""
QUERY = "nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits"
_EVERY_S = 10


def script(idle_s: int) -> str:
    """Shell for a machine's first boot, or every one: a service that looks every ten seconds. A driver that does not answer is never idleness."""
    return f"""{LINE}{idle_s}
cat > /usr/local/sbin/gpus-idle <<'GPUS'
#!/bin/bash
quiet=$(cut -d. -f1 /proc/uptime)
while sleep {_EVERY_S}; do
  now=$(cut -d. -f1 /proc/uptime)
  most=$({QUERY} 2>/dev/null | sort -n | tail -n 1)
  case "$most" in ''|*[!0-9]*) quiet=$now; continue ;; esac
  if [ "$most" -ge {BUSY_PERCENT} ]; then quiet=$now; fi
  if [ $((now - quiet)) -ge "$1" ]; then exec systemctl poweroff; fi
done
GPUS
chmod 755 /usr/local/sbin/gpus-idle
unit='[Unit]\\nDescription=End of an idle machine\\n[Service]\\nExecStart=/usr/local/sbin/gpus-idle %s\\nRestart=always\\n'
printf "$unit"'[Install]\\nWantedBy=multi-user.target\\n' "$gpus_idle_s" > /etc/systemd/system/gpus-idle.service
systemctl daemon-reload
systemctl enable --now gpus-idle.service"""


def limit_s(text: str) -> int:
    """The limit that a script was given; 0 for none."""
    line = next((line for line in text.splitlines() if line.startswith(LINE)), "")
    number = line.removeprefix(LINE)
    return int(number) if number.isdigit() else 0


def busiest(output: str) -> int | None:
    """The highest of the utilisations that QUERY printed, in percent; None where it printed none, or anything else."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return max(map(int, lines)) if lines and all(line.isdigit() for line in lines) else None
