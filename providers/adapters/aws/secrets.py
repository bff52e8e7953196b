"""Secrets by reference on an EC2 machine: what a reference is, and the script that fetches them
there. Pure.

The machine asks SSM or Secrets Manager through the aws command line with the keys of its own
instance profile (AWS CLI reference, `ssm get-parameter` and `secretsmanager get-secret-value`,
2026-11). Only references are in the user data; a value is first seen on the machine, in a file that
root alone can read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from providers.model import shell

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE, SCRIPT = "/run/gpus/env", "/usr/local/lib/gpus/secrets"
"""The file is gone with each boot, and written again by it: /run is memory, and user data runs only
at the first boot.
"""
_UNIT = f"""[Unit]
Description=Secrets of the workload
Wants=network-online.target
After=network-online.target
[Service]
Type=oneshot
EnvironmentFile=-/etc/environment
Restart=on-failure
RestartSec=10
ExecStart={SCRIPT}
[Install]
WantedBy=multi-user.target
"""
_PARAMETER = re.compile(r"^ssm:(?P<name>/?[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*)\Z")
_SECRET = re.compile(
    r"^arn:aws[a-z-]*:secretsmanager:(?P<region>[a-z]{2,4}(-[a-z]+)+-[0-9]):[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]{1,512}\Z"
)


def reference(text: str) -> str:
    """What a reference must be; empty for one."""
    good = len(text) < 1_024 and (_PARAMETER.match(text) or _SECRET.match(text))
    return (
        ""
        if good
        else 'an SSM parameter as in "ssm:/ml/hf-token", or the ARN of a Secrets Manager secret'
    )


def fetching(secrets: Sequence[tuple[str, str]], region: str) -> str:
    """The part of the user data that puts a script in place and runs it at every boot: it writes
    `/run/gpus/env`, `NAME='value'` lines for a shell to source. Nothing of a value is ever a word
    of a command line.
    """
    program = shell.program(
        __file__,
        "secrets",
        file=FILE,
        region=region,
        secrets=[f"{name}={text}" for name, text in secrets],
    )
    return shell.service("gpus-secrets", _UNIT, SCRIPT, program, mode=0o700)
