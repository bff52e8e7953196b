"""Secrets by reference on a Compute Engine machine: what a reference is, and the script that
fetches them there. Pure.

The machine asks Secret Manager with its own service account (Google, "Access a secret version", and
the metadata server's token, 2026-11). Only references are in the script; a value is first seen on
the machine, in a file that root alone can read.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE = "/run/gpus/env"
"""Gone with each boot, and written again by it: /run is memory."""
_REFERENCE = re.compile(
    r"^projects/(?P<project>[a-z0-9:.-]{1,64})/secrets/(?P<secret>[A-Za-z0-9_-]{1,255})(/versions/(?P<version>latest|[0-9]{1,12}))?\Z"
)


def reference(text: str) -> str:
    """What a reference must be; empty for one."""
    return (
        ""
        if _REFERENCE.match(text)
        else (
            'a secret of Secret Manager, as in "projects/my-project/secrets/hf-token" or'
            ' ".../versions/3"'
        )
    )


def wanted(secrets: Sequence[tuple[str, str]]) -> str:
    """What start_up.sh fetches, as JSON: the version of each name's secret. Empty for none."""
    versions = {
        name: text if "/versions/" in text else f"{text}/versions/latest" for name, text in secrets
    }
    return json.dumps(versions) if versions else ""
