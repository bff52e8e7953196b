"""The Clore tests' fixtures: the adapter against the rehearsal server."""

from tests.unit.clore.rig import bench

__all__ = ["bench"]
