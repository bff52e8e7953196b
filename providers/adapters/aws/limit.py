"""The end of a machine's run at EC2: a timer inside it, which counts from each start. Owns the script that sets it, and the line that a start writes.

EC2 has no run limit of its own. User data can be written anew while a machine is stopped, and the metadata service then shows the new one (EC2 user
guide, "Work with instance user data", read 2026-11-28): so a start by this product is another one
to the machine, and a mere reboot is not. Pure.
"""

from __future__ import annotations

from providers.model import foreign

TTL_LINE = "gpus_ttl_s="
"""The line of the user data that says after how many seconds the machine shuts itself down."""
START_LINE = "gpus_start="
"""The line of the user data that names the start from which they count; another value is another start."""
FOLDER = "/var/lib/gpus"
METADATA = "http://169.254.169.254/latest"

_UNIT = "[Unit]\\nDescription=The end of the run, set at each boot\\nWants=network-online.target\\nAfter=network-online.target\\n"
_UNIT += "[Service]\\nType=oneshot\\nRemainAfterExit=yes\\nExecStart=/bin/bash {folder}/limit.sh\\n[Install]\\nWantedBy=multi-user.target\\n"


def script(ttl_s: int, on_ttl: str) -> str:
    """Lines for the first boot, which leave a unit for every boot. The end is a moment that is written down: a reboot does not prolong the run.

    A machine whose end has passed without another start (somebody started it by hand) ends at once, unless it is to be kept. Where the metadata
    service gives no answer, an end to come stays as it is, and one that has passed is set anew: a disk is not lost for that.
    """
    over = "exit 0" if on_ttl == "keep" else "left=1"
    return f"""{TTL_LINE}{ttl_s}
{START_LINE}0
mkdir -p {FOLDER}
cat > {FOLDER}/limit.sh <<'GPUS'
get() {{ curl -sf -m 5 --retry 10 --retry-delay 3 --retry-connrefused "$@"; }}
token=$(get -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' {METADATA}/api/token)
start=$(get -H "X-aws-ec2-metadata-token: $token" {METADATA}/user-data | sed -n '/^{START_LINE}/{{s///p;q}}')
read -r was end < {FOLDER}/limit
now=$(date +%s)
if [ -z "$end" ] || [ -n "$start" -a "$start" != "$was" ] || [ -z "$start" -a "$end" -le "$now" ]; then
  end=$((now + {ttl_s}))
  echo "${{start:-none}} $end" > {FOLDER}/limit
fi
left=$((end - now))
[ "$left" -gt 0 ] || {over}
systemd-run --unit=gpus-ttl --on-active="$left" --timer-property=AccuracySec=1s /bin/systemctl poweroff || shutdown -P "+$((left / 60))"
GPUS
touch {FOLDER}/limit
printf '{_UNIT.format(folder=FOLDER)}' > /etc/systemd/system/gpus-limit.service
systemctl daemon-reload
systemctl enable --now gpus-limit.service"""


def limit_s(user_data: str) -> float:
    """The seconds after which a machine with this user data ends itself; 0 for none."""
    return foreign.real(_value(user_data, TTL_LINE), foreign.SECONDS) or 0.0


def start(user_data: str) -> str:
    """The start that this user data names; empty where it sets no end."""
    return _value(user_data, START_LINE)


def started(user_data: str, name: str) -> str:
    """The user data of the next start; empty where there is nothing to set. `name` is any word that no earlier start bore."""
    lines = user_data.split("\n")
    at = next((number for number, line in enumerate(lines) if line.startswith(START_LINE)), None)
    return "" if at is None else "\n".join([*lines[:at], f"{START_LINE}{name}", *lines[at + 1 :]])


def _value(user_data: str, name: str) -> str:
    return next((line.removeprefix(name) for line in user_data.splitlines() if line.startswith(name)), "")
