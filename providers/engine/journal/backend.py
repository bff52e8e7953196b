"""Which Pulumi backend this process works with: where the states are that claim machines. Owns the
order of the places that may say so.

Reads the environment and at most two small files, in Pulumi's own order: PULUMI_BACKEND_URL, the
project file's `backend.url`, what `pulumi login` wrote (Pulumi, "Managing state and backend
options", 2026-11).
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from urllib.parse import unquote

from providers.model import regular, yaml_file


def current() -> str:
    """The backend's URL without any user or password in it, in one spelling; empty where nothing
    says. A relative `file://` is looked for here, then in each folder above.
    """
    url = spelled(os.environ.get("PULUMI_BACKEND_URL") or _of_project(Path.cwd()) or _logged_in())
    place, here = Path(url.removeprefix("file://")), Path.cwd()
    if not url.startswith("file://") or place.is_absolute():
        return url
    bases = (base for base in (here, *here.parents) if (base / place / ".pulumi").is_dir())
    return next((f"file://{os.path.normpath(base / place)}" for base in bases), url)


def folder() -> Path | None:
    """Where a `file://` backend keeps the states; None for any other backend, or where it has none
    yet.
    """
    url = current()
    place = Path(url.removeprefix("file://"))
    return place if url.startswith("file://") and (place / ".pulumi").is_dir() else None


def spelled(url: str) -> str:
    """A backend's URL in one spelling: no credentials, no trailing slash, no settings of a
    `file://`, the home as it is. Pure, but for the home's name.
    """
    text = re.sub(r"//[^/@]*@", "//", url.strip()).rstrip("/")
    if text.startswith("file://"):
        place = unquote(text.removeprefix("file://").partition("?")[0])
        return f"file://{Path(place).expanduser() if place.startswith('~') else place}".rstrip("/")
    return text


def _of_project(here: Path) -> str:
    for folder in (here, *here.parents):
        file = folder / "Pulumi.yaml"
        try:
            text = regular.content(file, yaml_file.SIZE_MAX).decode()
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError):
            return ""
        if "backend" not in text:
            return ""
        try:
            content = yaml_file.loads(text)
        except ValueError:
            return ""
        backend = content.get("backend") if isinstance(content, dict) else None
        return str(backend.get("url") or "") if isinstance(backend, dict) else ""
    return ""


def _logged_in() -> str:
    folder = (
        os.environ.get("PULUMI_CREDENTIALS_PATH") or os.environ.get("PULUMI_HOME") or "~/.pulumi"
    )
    try:
        found = json.loads(
            regular.content(Path(folder).expanduser() / "credentials.json", regular.SMALL_MAX)
        )
    except (OSError, ValueError, RuntimeError):
        return ""
    return str(found.get("current") or "") if isinstance(found, dict) else ""
