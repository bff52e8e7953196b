"""What in Docker belongs to a store: the label and the names of its containers, its network and its
volume. Owns them; pure.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from providers.rehearsal.store import Store

STORE_LABEL, KEY_LABEL = "gpus.rehearsal.store", "gpus.rehearsal.machine"


def digest(store: Store) -> str:
    """Which file a store is, by its place."""
    return hashlib.sha256(str(store.path.resolve()).encode()).hexdigest()[:12]


def label(store: Store) -> str:
    """The label of everything of a store."""
    return f"{STORE_LABEL}={digest(store)}"


def named(store: Store, what: str) -> str:
    """The name of something of a store's: of the container of a machine, its key."""
    return f"gpus-{digest(store)}-{what}"
