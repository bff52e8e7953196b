"""How the Compute Engine stand-in starts, what it serves, and what it stores."""

import json
import subprocess
import sys
import uuid

import pytest

from providers.rehearsal.clouds.gcp import console, generate, start
from tests.unit.gcp.standin_rig import client, instance

# The document and the start


def test_the_committed_discovery_extract_equals_what_is_installed() -> None:
    """discovery.json is what the generator makes of the installed client's document; of a later
    revision it is a part.
    """
    committed = json.loads((generate.HERE / "discovery.json").read_text())
    installed = generate.compute()
    if installed["revision"] == committed["revision"]:
        assert installed == committed
    for name, method in committed["methods"].items():
        later = installed["methods"][name]
        assert (method["verb"], method["path"], method["request"], method["response"]) == (
            later["verb"],
            later["path"],
            later["request"],
            later["response"],
        )
        assert method["parameters"].keys() <= later["parameters"].keys()
    for name in (
        "Instance",
        "InstanceProperties",
        "BulkInsertInstanceResource",
        "Scheduling",
        "Operation",
    ):
        assert (
            committed["schemas"][name]["properties"].keys()
            <= installed["schemas"][name]["properties"].keys()
        )


def test_the_committed_machine_table_equals_what_the_sources_say() -> None:
    """machines.json is what the generator makes of the catalog's committed sources."""
    committed = json.loads((generate.HERE / "machines.json").read_text())
    assert generate.machines(generate.HERE.parents[2] / "catalog" / "sources") == committed


def test_starting_imports_no_client_of_google() -> None:
    """The stand-in starts inside every plugin process: it needs neither Google's client nor its
    document.
    """
    code = (
        "import sys, tempfile, pathlib; from providers.rehearsal.store import Store; from"
        " providers.rehearsal.clouds.gcp import start;s ="
        " start(Store(pathlib.Path(tempfile.mkdtemp()) / 'r.db')); s.close();print([m for m in"
        " ('googleapiclient', 'google.auth', 'pydantic', 'grpc') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_every_served_method_has_a_handler() -> None:
    """No route of the committed document is without an answer."""
    from providers.rehearsal.clouds.gcp.calls import HANDLERS

    assert set(HANDLERS) == console.methods()


# What is kept


def test_nothing_stored_holds_a_port_or_a_secret(cloud) -> None:
    """Links in rows name Google's host, and the request log keeps neither bodies nor queries."""
    cloud.done(
        cloud.insert(
            instance(metadata={"items": [{"key": "k", "value": "hush"}]}),
            requestId=str(uuid.uuid4()),
        )
    )
    dump = "\n".join(cloud.store.connection().iterdump())
    assert (
        cloud.server.url.rsplit(":", 1)[1] not in dump.replace("1800000", "")
        and "127.0.0.1" not in dump
    )
    log = str(cloud.store.requests())
    assert "hush" not in log and "requestId" not in log


def test_another_server_goes_on_where_the_first_was(cloud) -> None:
    """Operations and machines outlive the server that was asked for them."""
    op = cloud.insert(instance())
    cloud.server.close()
    with pytest.raises(ConnectionError):
        cloud.get()
    cloud.server = start(cloud.store)
    cloud.api = client(cloud.server.url)
    assert "error" not in cloud.done(op) and cloud.get()["status"] == "RUNNING"
