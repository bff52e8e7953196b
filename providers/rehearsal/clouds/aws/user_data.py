"""What a rehearsed EC2 machine reads of its user data: the text, and when it shuts itself down.

The lines are those of the script that a real machine would run; here they are read as its timer
would read them. Pure.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from providers.model import foreign
from providers.rehearsal.clouds.aws.wire import Refusal

if TYPE_CHECKING:
    from providers.rehearsal.clouds.aws.wire import Json

_TTL = re.compile(r"^gpus_ttl_s=(.*)$", re.MULTILINE)
_START = re.compile(r"^gpus_start=(.*)$", re.MULTILINE)


def text(spec: Json) -> str:
    """The text of a launch's user data. Raises Refusal for what is no Base64."""
    given = str(spec.get("UserData") or "")
    try:
        return base64.b64decode(given, validate=True).decode() if given else ""
    except (binascii.Error, UnicodeDecodeError):
        raise Refusal(
            400, "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data"
        ) from None


def ttl_s(given: str) -> float:
    """The seconds after which a machine with this user data ends itself; 0 for none."""
    found = _TTL.search(given)
    return (foreign.real(found[1], foreign.SECONDS) if found else None) or 0.0


def start_of(given: str) -> str:
    """The start from which they count; empty where it sets no end."""
    found = _START.search(given)
    return found[1] if found else ""
