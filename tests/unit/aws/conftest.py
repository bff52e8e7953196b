"""The AWS tests' fixtures: the adapter against the rehearsal server."""

from tests.unit.aws.rig import rig

__all__ = ["rig"]
