"""The Modal tests' fixtures: the real client against the rehearsal server."""

from tests.unit.modal.functions_rig import cloud

__all__ = ["cloud"]
