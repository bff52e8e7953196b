"""The Google Cloud tests' fixtures: the adapter against the rehearsal server, and that server."""

from tests.unit.gcp.rig import rig
from tests.unit.gcp.standin_rig import cloud

__all__ = ["cloud", "rig"]
