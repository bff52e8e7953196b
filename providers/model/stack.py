"""The words of a stack's configuration that are not a cluster's. Owns them; pure, and imports
nothing: every preview reads it.
"""

from __future__ import annotations

KEYS = ("world", "clusters", "max_spend")
"""What a stack's configuration may say under `gpus:`."""
RESERVED = frozenset(
    {
        "max_spend",
        "world",
        "owner",
        "cluster",
        "settings",
        "ownership",
        "managed_network",
        "network_links",
        "opts",
        "name",
    }
)
"""What no cluster says of itself."""
