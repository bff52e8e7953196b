"""The fixtures of all machine families: an adapter with its own home."""

from tests.unit.gcp.families.rig import own_home, rig

__all__ = ["own_home", "rig"]
