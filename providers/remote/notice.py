"""Notices to people, by Apprise: a webhook, Slack, mail, a desktop and a hundred others.

Owns where a notice goes. An address may hold a token, so it is named by reference
(`env:GPUS_NOTIFY`, `file:/etc/gpus/notify`) and never shown. A notice that cannot be sent is told
to the caller, and stops nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from providers.errors import GpusError, Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apprise

_FORMS = "env:NAME, file:PATH, or the http(s) URL of a webhook"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Target(NamedTuple):
    """One place that notices go to. `shown` names it without its token."""

    shown: str
    address: str


def targets(references: Sequence[str], path: str = "--notify") -> tuple[Target, ...]:
    """Where these references lead. Raises SpecError for what is none, and for an address that
    Apprise does not know; GpusError where Apprise is missing.
    """
    found = tuple(_target(each, path) for each in references)
    if found:
        _apprise(found, path)
    return found


def send(to: Sequence[Target], title: str, text: str) -> tuple[str, ...]:
    """Sends a notice, and returns the places that did not take it. Blocking: some seconds each."""
    failed = []
    for target in to:
        try:
            taken = bool(_apprise((target,)).notify(title=title, body=text))
        except Exception:  # another's code: nothing may end for a notice
            taken = False
        if not taken:
            failed.append(target.shown)
    return tuple(failed)


async def tell(to: Sequence[Target], title: str, text: str) -> tuple[str, ...]:
    """`send`, beside whatever else is under way."""
    return await asyncio.to_thread(send, to, title, text) if to else ()


def _target(reference: str, path: str) -> Target:
    kind, _, rest = reference.partition(":")
    if kind == "env" and _NAME.fullmatch(rest):
        return Target(reference, _filled(os.environ.get(rest, ""), reference, path))
    if kind == "file" and rest:
        try:
            text = Path(rest).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError([Problem(path, "a file with an address", str(error))]) from None
        return Target(reference, _filled(text, reference, path))
    url = urlsplit(reference)
    if url.scheme in {"http", "https"} and url.hostname and not (url.username or url.password):
        return Target(f"{url.scheme}://{url.hostname}", reference)
    todo = "an address with a token would be seen in the list of processes"
    raise SpecError([Problem(path, _FORMS, f"{kind}:..." if rest else repr(reference[:40]), todo)])


def _filled(text: str, reference: str, path: str) -> str:
    address = text.strip()
    if not address or len(address.split()) > 1:
        raise SpecError(
            [
                Problem(
                    path,
                    f"one address in {reference}",
                    "none" if not address else "several words",
                    "as in https://hooks.example.com/abc",
                )
            ]
        )
    return address


def _apprise(to: Sequence[Target], path: str = "") -> apprise.Apprise:
    """Raises SpecError for an address that it does not know."""
    try:
        import apprise
    except ImportError:
        raise GpusError(
            "wanted Apprise, which sends notices, found none; pip install 'gpus[notify]'"
        ) from None
    # What it logs may show an address.
    logging.getLogger("apprise").disabled = True
    made = apprise.Apprise()
    for target in to:
        # A service's own URL first; any other http one is a webhook that takes JSON.
        plain = re.sub(r"^http(s?)://", r"json\1://", target.address)
        if not (made.add(target.address) or made.add(plain)):
            todo = "its forms: https://github.com/caronc/apprise/wiki"
            raise SpecError([Problem(path, "an address that Apprise knows", target.shown, todo)])
    return made
