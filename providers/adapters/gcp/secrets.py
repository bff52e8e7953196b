"""Secrets by reference on a Compute Engine machine: what a reference is, and the script that fetches them there. Pure.

The machine asks Secret Manager with its own service account (Google, "Access a secret version", and the metadata server's token, 2026-11). Only
references are in the script; a value is first seen on the machine, in a file that root alone can read.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER, FILE = "/run/gpus", "/run/gpus/env"
"""Gone with each boot, and written anew by it: /run is memory."""
_REFERENCE = re.compile(
    r"^projects/(?P<project>[a-z0-9:.-]{1,64})/secrets/(?P<secret>[A-Za-z0-9_-]{1,255})(/versions/(?P<version>latest|[0-9]{1,12}))?\Z"
)


def reference(text: str) -> str:
    """What a reference must be; empty for one."""
    return "" if _REFERENCE.match(text) else 'a secret of Secret Manager, as in "projects/my-project/secrets/hf-token" or ".../versions/3"'


def fetching(secrets: Sequence[tuple[str, str]]) -> str:
    """The part of a start-up script that writes `/run/gpus/env`: `NAME='value'` lines for a shell to source. It ends the script when one cannot be
    had. Nothing of a value, nor the token, is ever a word of a command line.
    """
    wanted = {name: f"{text}" if "/versions/" in text else f"{text}/versions/latest" for name, text in secrets}
    return f"""install -d -m 700 {FOLDER}
python3 - <<'GPUS_SECRETS'
import base64, json, os, shlex, urllib.request
wanted = json.loads({json.dumps(json.dumps(wanted))})
metadata = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
def ask(url, headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        return json.load(answer)
token = ask(metadata, {{"Metadata-Flavor": "Google"}})["access_token"]
lines = []
for name, version in wanted.items():
    try:
        found = ask("https://secretmanager.googleapis.com/v1/" + version + ":access", {{"Authorization": "Bearer " + token}})
    except OSError as error:
        raise SystemExit("gpus: the secret " + name + " (" + version + ") could not be fetched: " + str(error))
    lines.append(name + "=" + shlex.quote(base64.b64decode(found["payload"]["data"]).decode()) + "\\n")
file = os.open("{FILE}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
os.fchmod(file, 0o600)
os.write(file, "".join(lines).encode())
os.close(file)
os.replace("{FILE}.new", "{FILE}")
GPUS_SECRETS
"""
