"""A home of its own for each run of the command line."""

from tests.unit.cli.rig import own_home

__all__ = ["own_home"]
