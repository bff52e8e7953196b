from tests.adhoc.servers import bench, ssh_server  # noqa: F401
