"""The user's token for Modal, and where it was found. Owns the reading of the environment and of
`~/.modal.toml`.
"""

from __future__ import annotations

from typing import NamedTuple

from providers.adapters.modal.gpu import PROVIDER
from providers.errors import NotConfigured

TOKEN_ID, TOKEN_SECRET = "MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"


class Credentials(NamedTuple):
    """A token, and where it was found."""

    token_id: str
    token_secret: str
    source: str
    environment: str = ""
    profile: str = ""
    """The profile of `~/.modal.toml` that it is of; empty for a token of the environment."""


def credentials(profile: str = "") -> Credentials:
    """The user's token: that of `profile` in `~/.modal.toml`; without one the environment's, else
    that of the profile that is active.

    Reads one file at most. Raises NotConfigured.
    """
    import os
    from pathlib import Path

    environment = os.environ.get("MODAL_ENVIRONMENT", "")
    token_id, secret = os.environ.get(TOKEN_ID, ""), os.environ.get(TOKEN_SECRET, "")
    if token_id and secret and not profile:
        return Credentials(token_id, secret, f"{TOKEN_ID} and {TOKEN_SECRET}", environment)
    path = Path(os.environ.get("MODAL_CONFIG_PATH") or "~/.modal.toml").expanduser()
    todo = f"set {TOKEN_ID} and {TOKEN_SECRET}, or run `modal token new`"
    if profile:
        todo = f"run `modal token new --profile {profile}`"
    if not path.is_file():
        raise NotConfigured(
            f"Modal: wanted a token, found neither {TOKEN_ID} nor {path}; {todo}", provider=PROVIDER
        )
    import tomllib

    try:
        profiles = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise NotConfigured(
            f"Modal: wanted a token in {path}, found that it can't be read ({error}); {todo}",
            provider=PROVIDER,
        ) from None
    sections = {name: section for name, section in profiles.items() if isinstance(section, dict)}
    wanted = profile or os.environ.get("MODAL_PROFILE", "")
    active = [name for name, section in sections.items() if section.get("active")]
    name = wanted or (active[0] if active else next(iter(sections)) if len(sections) == 1 else "")
    section = sections.get(name, {})
    if not section.get("token_id") or not section.get("token_secret"):
        found = f"no token in profile {name!r}" if name else "no active profile"
        raise NotConfigured(
            f"Modal: wanted a token in {path}, found {found}; {todo}", provider=PROVIDER
        )
    where = environment or str(section.get("environment", ""))
    return Credentials(
        str(section["token_id"]),
        str(section["token_secret"]),
        f"profile {name} of {path}",
        where,
        name,
    )
