"""What holds for every test: its tier, generated examples that are never judged by the clock, and a
Ctrl-C that is heard.

Two tiers: `make test` runs every rule of the product and a few runs of the real Pulumi engine;
`make test-full` runs the marker `long`. Long unless marked `core`: a test that starts the real
engine (the fixture `project` of tests/plugin), and one that has run against asyncssh's server and
runs against OpenSSH's too (the fixture `ssh_server` of tests/adhoc).
"""

import gc
import signal
from typing import Any

import pytest
from botocore.client import ClientCreator
from hypothesis import HealthCheck, settings

settings.register_profile("gpus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpus")
# A shell without job control starts what runs in the background deaf to SIGINT, and so would be
# every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

_create_client_class = ClientCreator._create_client_class  # noqa: SLF001 - boto has no public way
_client_classes = {}


def _client_class_once(self: Any, service_name: str, service_model: Any) -> Any:
    """EC2's client class has 700 methods, which boto makes anew for every region of every test:
    here once a process.
    """
    if service_name not in _client_classes:
        _client_classes[service_name] = _create_client_class(self, service_name, service_model)
    return _client_classes[service_name]


ClientCreator._create_client_class = _client_class_once  # noqa: SLF001 - likewise


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    for item in items:
        engine = item.path.parent.name == "plugin" and "project" in item.fixturenames
        second = "callspec" in vars(item) and item.callspec.params.get("ssh_server") == "sshd"
        if (engine or second) and item.get_closest_marker("core") is None:
            item.add_marker(pytest.mark.long)


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the garbage collector need not look at it again, which
    takes a quarter of the processor time of tests that make many objects.
    """
    gc.collect()
    gc.freeze()
