"""The Docker daemon of the container tests."""

from tests.launchers.docker import daemon

__all__ = ["daemon"]
