"""Machines to log in to, and a home of its own."""

from tests.adhoc.provision_rig import own_home
from tests.adhoc.servers import bench, ssh_server

__all__ = ["bench", "own_home", "ssh_server"]
