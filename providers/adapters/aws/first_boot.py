"""What a machine runs at its first boot, as user data.
Owns the script and its limit of size; pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.aws import limit
from providers.adapters.aws import secrets as secret
from providers.adapters.base import keep_status
from providers.errors import too_large
from providers.model import idle, shell
from providers.model.secret import referred
from providers.model.volume import VOLUME_IDS
from providers.model.workload import BOOT_SCRIPT, packed

if TYPE_CHECKING:
    from providers.errors import Problem
    from providers.model.machine import Setup
USER_DATA_MAX = 16_384
"""Bytes, before they are encoded (EC2 user guide, "Work with instance user data", read 2026-11-28).
"""
_WORK_UNIT = f"""[Unit]
Description=What this machine is for
Wants=network-online.target
After=network-online.target
[Service]
ExecStart=/bin/bash {BOOT_SCRIPT}
KillMode=mixed
[Install]
WantedBy=multi-user.target
"""


def first_boot(setup: Setup, region: str = "", *, alone: bool = True) -> str:
    """What a machine runs at its first boot: it makes the user with the keys, and what runs at
    every boot, such as the timer that ends the machine.

    EC2 has no run limit of its own: the limit is a timer inside the machine (see `limit`), and the
    machine's own shutdown then terminates it (or stops it, where the spec says to keep it). A
    machine that hangs does not end itself.
    """
    keys = [key.strip() for key in (setup.ssh_public_key, setup.own_public_key) if key.strip()]
    secrets = referred(setup.secrets)
    programs = (
        limit.script(setup.ttl_s, setup.on_ttl) if setup.ttl_s else "",
        idle.script(setup.idle_s) if setup.idle_s and alone else "",
        secret.fetching(secrets, region) if secrets else "",
        (
            shell.program(
                __file__,
                "volumes",
                volume_ids=VOLUME_IDS,
                volume_lines=[f"{each.name} {each.id}" for each in setup.volumes],
            )
            if setup.volumes
            else ""
        ),
        (
            shell.service(
                "gpus-work", _WORK_UNIT, BOOT_SCRIPT, setup.script, mode=0o644, at_once=False
            )
            if setup.script
            else ""
        ),
    )
    if not keys and not any(programs):
        return ""
    return "".join(
        (keep_status(), shell.program(__file__, "login", user=setup.ssh_user, keys=keys), *programs)
    )


def user_data(setup: Setup, region: str = "", *, alone: bool = True) -> str:
    """The script for cloud-init: `first_boot`, packed, after the lines that are read back. Empty
    where there is nothing to do.
    """
    program = first_boot(setup, region, alone=alone)
    if not program:
        return ""
    return shell.program(
        __file__,
        "user_data",
        gpus_ttl_s=setup.ttl_s or "",
        gpus_start=0 if setup.ttl_s else "",
        gpus_idle_s=(setup.idle_s or "") if alone else "",
        packed=packed(program.encode()),
    )


def fits(setup: Setup) -> list[Problem]:
    """What a machine is told at its start that is more than EC2 takes. Pure."""
    found = too_large(
        "",
        "user data",
        len(user_data(setup).encode()),
        USER_DATA_MAX,
        "fetch the rest from a bucket",
    )
    return [found] if found is not None else []
