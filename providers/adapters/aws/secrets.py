"""Secrets by reference on an EC2 machine: what a reference is, and the script that fetches them there. Pure.

The machine asks SSM or Secrets Manager through the aws command line with the keys of its own instance profile (AWS CLI reference, `ssm get-parameter`
and `secretsmanager get-secret-value`, 2026-11). Only references are in the user data; a value is first seen on the machine, in a file that root alone
can read.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER, FILE, SCRIPT = "/run/gpus", "/run/gpus/env", "/usr/local/lib/gpus/secrets"
"""The file is gone with each boot, and written anew by it: /run is memory, and user data runs at the first boot alone."""
_PARAMETER = re.compile(r"^ssm:(?P<name>/?[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*)\Z")
_SECRET = re.compile(r"^arn:aws[a-z-]*:secretsmanager:(?P<region>[a-z]{2,4}(-[a-z]+)+-[0-9]):[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]{1,512}\Z")


def reference(text: str) -> str:
    """What a reference must be; empty for one."""
    good = len(text) < 1_024 and (_PARAMETER.match(text) or _SECRET.match(text))
    return "" if good else 'an SSM parameter as in "ssm:/ml/hf-token", or the ARN of a Secrets Manager secret'


def fetching(secrets: Sequence[tuple[str, str]], region: str) -> str:
    """The part of the user data that puts a script in place and runs it at every boot: it writes `/run/gpus/env`, `NAME='value'` lines for a shell to
    source. Nothing of a value is ever a word of a command line.
    """
    lines = []
    for name, text in secrets:
        if parameter := _PARAMETER.match(text):
            words = f"--region {region} --with-decryption --query Parameter.Value --output text --name {shlex.quote(parameter['name'])}"
            ask = f"aws ssm get-parameter {words}"
        else:
            found = _SECRET.match(text)
            there = found["region"] if found else region
            ask = f"aws secretsmanager get-secret-value --region {there} --query SecretString --output text --secret-id {shlex.quote(text)}"
        lines.append(f'value=$({ask}) || {{ echo "gpus: the secret {name} could not be fetched" >&2; exit 1; }}\nprintf \'%s=%q\\n\' {name} "$value"')
    fetch = "\n".join(lines)
    return f"""install -d -m 755 {SCRIPT.rpartition("/")[0]}
cat > {SCRIPT} <<'GPUS_SECRETS'
#!/bin/bash
set -euo pipefail
umask 077
install -d -m 700 {FOLDER}
{{
{fetch}
}} > {FILE}.new
mv {FILE}.new {FILE}
GPUS_SECRETS
chmod 700 {SCRIPT}
printf '%s\\n' '[Unit]' 'Description=Secrets of the workload' 'Wants=network-online.target' 'After=network-online.target' '[Service]' \\
  'Type=oneshot' 'Restart=on-failure' 'RestartSec=10' 'ExecStart={SCRIPT}' '[Install]' 'WantedBy=multi-user.target' \\
  > /etc/systemd/system/gpus-secrets.service
systemctl daemon-reload
systemctl enable --now gpus-secrets.service"""
