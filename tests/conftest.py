"""What holds for every test: its tier, generated examples that are never judged by the clock, and a Ctrl-C that is heard.

Two tiers: `make test` runs every rule of the product and a few runs of the real Pulumi engine; `make test-full` runs the marker `long`. A test that
starts the real engine (the fixture `project` of tests/plugin) is long unless it is marked `core`.
"""

import signal

import pytest

from hypothesis import HealthCheck, settings

settings.register_profile("gpus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpus")
# A shell without job control starts what runs in the background deaf to SIGINT, and so would be every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "plugin" and "project" in item.fixturenames and item.get_closest_marker("core") is None:
            item.add_marker(pytest.mark.long)
