"""The real engine, CLI and plugin over the rehearsal clouds: what a user does."""

import json
import shutil
import subprocess

import pytest

from tests.plugin.conftest import BIN, REPOSITORY


@pytest.mark.core
def test_up_refresh_preview_preempt_up_destroy(project) -> None:
    """The whole life: a fallback place is acquired, nothing changes, a preempted machine is replaced in
    one up, destroy leaves zero machines.
    """
    made = project()
    shown = made.preview()
    assert shown.count("buys  ") == 1 and "best per provider" not in shown
    assert "nothing runs now" in shown
    assert 'status: "planned"' in shown and "unknown" not in shown.partition("Outputs:")[2]
    assert made.machines() == []
    assert made.seen()["mutations"] == 0
    said = made.up()
    assert ": sold out" in said and ": acquired" in said
    first = made.cluster()
    assert len(made.machines()) == 1
    assert len(json.dumps(first["outputs"])) < 2048
    assert len(first["outputs"]["attempts"]) > 1
    assert first["outputs"]["status"] == "running"
    made.run("refresh", "-s", made.stack, "--yes", "--skip-preview")
    unchanged = made.preview("--expect-no-changes")
    assert "buys  " not in unchanged and "at worst" not in unchanged
    assert "no change: " in unchanged
    assert f"running     {first['outputs']['provider']} " in made.plan(made.stack)
    made.rehearse("preempt", made.machines()[0]["name"])
    made.rehearse("advance", "2m")
    again = made.up()
    assert ": acquired" in again
    second = made.cluster()
    assert second["id"] != first["id"]
    assert second["outputs"]["zone"] != first["outputs"]["zone"]
    assert len(made.machines()) == 1
    made.destroy()
    assert made.machines() == []


def test_b35_b41_stop_and_start(project) -> None:
    """state: stopped stops and keeps the machine; a start without room leaves it stopped and in the
    state; with room the same machine runs again.
    """
    made = project()
    made.edit(
        "providers: [gcp, aws, modal]", "rank: preference\n      providers: [gcp, aws, modal]"
    )
    made.edit("gpu: H100:8", "gpu: H100:8\n      state: stopped")
    assert "none is bought to be stopped" in made.preview(fails=True)
    made.edit("state: stopped", "state: running")
    made.up()
    machine = made.machines()[0]
    made.edit("state: running", "state: stopped")
    assert "is stopped and kept: only its disks are billed" in " ".join(made.preview().split())
    made.up()
    assert made.cluster()["outputs"]["status"] == "stopped"
    assert [(found["name"], found["status"]) for found in made.machines()] == [
        (machine["name"], "TERMINATED")
    ]
    made.up()
    made.rehearse("stock", "gcp", machine["zone"], "*", "*", "0")
    made.edit("state: stopped", "state: running")
    said = " ".join(made.up(fails=True).split())
    assert f"could not be started again in {machine['zone']}, so it stays stopped" in said
    assert made.cluster()["outputs"]["status"] == "stopped"
    made.rehearse("stock", "gcp", machine["zone"], "*", "*", "1")
    made.up()
    assert made.cluster()["outputs"]["status"] == "running"
    assert [(found["name"], found["status"]) for found in made.machines()] == [
        (machine["name"], "RUNNING")
    ]
    made.destroy()
    assert made.machines() == []


def test_sold_out_on_one_cloud_lands_on_the_next(project) -> None:
    """Google Cloud has none: the same `up` goes on at EC2, shows each attempt, and destroy leaves
    nothing.
    """
    made = project()
    made.rehearse("stock", "gcp", "*", "*", "*", "0")
    made.rehearse("latency", "gcp", "stockout", "0s")
    said = made.up()
    assert "#1 gcp" in said and "aws" in said and "acquired" in said
    assert {"aws"} == {machine["provider"] for machine in made.machines()}
    assert "unchanged" in made.preview()
    made.destroy()
    assert made.machines() == []


def test_managed_network(project) -> None:
    """Two nodes in a network of their own; after a kill the machines go before the network, which
    they use.
    """
    made = project("train-h100x8x2")
    made.up()
    assert len(made.machines()) == 2
    found = made.resources()
    assert {
        "gcp:compute/network:Network",
        "gcp:compute/subnetwork:Subnetwork",
        "gcp:compute/firewall:Firewall",
    } <= set(found)
    made.preview("--expect-no-changes")
    assert "warning" not in made.destroy()
    assert made.machines() == []
    made.rehearse("latency", "gcp", "create", "2s")
    made.killed_up("#1", also_plugin=True)
    made.destroy()
    assert made.machines() == []


@pytest.mark.core
def test_a_program_of_ones_own(project) -> None:
    """`GpuCluster` in any Pulumi program, with an Output that is unknown at preview among its
    inputs; the ownership comes by itself.
    """
    made = project()
    program = (
        "import pulumi\nfrom providers import GpuCluster\nfirst = GpuCluster('one', gpu='T4:1',"
        " providers=['gcp'])\nsecond = GpuCluster('two', gpu='T4:1', providers=['gcp'],"
        " labels={'after': first.generation})\npulumi.export('plan',"
        " first.plan['candidates'])\npulumi.export('second', second.status)\n"
    )
    (made.folder / "stacks" / "__main__.py").write_text(program)
    assert made.preview().count("buys  ") == 2
    made.up()
    assert len(made.machines()) == 2
    made.destroy()
    assert made.machines() == []


def test_import_of_a_lost_machine(project) -> None:
    """`pulumi import` of a native id takes a machine into the state again, once a refresh has shown
    that no state names it; never before.
    """
    made = project("serve-l4")
    made.up()
    state = made.cluster()
    native = state["outputs"]["handles"][0]
    words = (
        "import",
        "gpu:index:Cluster",
        "serve",
        native,
        "-s",
        made.stack,
        "--yes",
        "--protect=false",
        "--generate-code=false",
    )
    assert "wanted a machine that no stack holds" in made.run(
        *words[:2], "other", *words[3:], fails=True
    )
    made.run("state", "delete", state["urn"], "-s", made.stack, "--yes")
    assert "yet no cluster claims it" in made.run("refresh", "-s", made.stack, "--yes")
    said = made.run(*words)
    assert "1 imported" in said or "imported" in said
    assert made.cluster()["id"] == state["id"]
    made.up()
    assert len(made.machines()) == 1
    made.destroy()
    assert made.machines() == []


@pytest.mark.core
def test_the_schema_is_accepted(tmp_path) -> None:
    """`pulumi package get-schema` takes the plugin's schema whole."""
    if shutil.which("pulumi", path=f"{BIN}") is None and shutil.which("pulumi") is None:
        pytest.fail("wanted pulumi on PATH, found none; run `make setup`")
    done = subprocess.run(
        ["pulumi", "package", "get-schema", str(BIN / "pulumi-resource-gpu")],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": "/tmp", "PULUMI_SKIP_UPDATE_CHECK": "true"},
    )
    assert done.returncode == 0, done.stderr
    schema = json.loads(done.stdout)
    assert set(schema["resources"]) == {
        "gpu:index:Cluster",
        "gpu:index:Ownership",
        "gpu:index:Volume",
    }
    assert (
        schema["resources"]["gpu:index:Cluster"]["properties"]["price_usd_per_hour"]["type"]
        == "number"
    )


@pytest.mark.core
def test_stack_files_are_left_as_they_are(project) -> None:
    """Making a stack and setting a value that it has leave the committed file as it is, byte for
    byte.
    """
    made = project()
    made.run("config", "set", "-s", made.stack, "gpus:world", "rehearsal")
    for path in (REPOSITORY / "stacks").glob("Pulumi.*.yaml"):
        assert (made.folder / "stacks" / path.name).read_bytes() == path.read_bytes()


def test_what_ended_costs_nothing_on_the_screen(project) -> None:
    """After the ttl: when it ended and how to get a new one; no price and no ssh line of a machine
    that is gone.
    """
    made = project()
    made.up()
    made.rehearse("advance", "21h")
    assert "no change: it ended at " in " ".join(made.preview().split())
    made.up()
    outputs = json.loads(made.run("stack", "output", "--json", "-s", made.stack))["train"]
    assert outputs["status"] == "ended"
    assert not {"ssh", "endpoints", "detail", "price_usd_per_hour"}.intersection(outputs), (
        "what there is nothing of is no row"
    )
    assert made.cluster()["outputs"]["price_usd_per_hour"] > 0
    made.destroy()


def test_a_job_runs_once_and_a_rerun_makes_another(project) -> None:
    """A job is planned with its worst case, ends, and changes nothing on the next `up`; `gpus
    rerun` and `up` start a new one; destroy leaves nothing.
    """
    made = project("job-l4")
    shown = " ".join(made.preview().split())
    assert "at worst 3 attempts of 1h, $2.42" in shown
    made.up()
    first = made.cluster()["outputs"]
    assert (first["status"], first["provider"]) == ("running", "modal") and first["ssh"].startswith(
        "modal app logs ap-"
    )
    made.rehearse("advance", "2m")
    assert "the job is done" in made.up()
    done = made.cluster()["outputs"]
    assert ("ended", first["handles"]) == (done["status"], done["handles"])
    made.preview("--expect-no-changes")
    assert "next: pulumi up -s job-l4" in made.gpus("rerun", "embed", "-s", "job-l4")
    assert "triggers:\n        rerun: 1" in made.file.read_text()
    assert "a new run is asked for" in " ".join(made.preview().split())
    made.up()
    assert made.cluster()["outputs"]["handles"] != first["handles"] and len(made.machines()) == 1
    made.destroy()
    assert made.machines() == []


def test_b46_a_service_is_deployed_priced_changed_in_place_and_stopped(project) -> None:
    """Preview prices the floor and the busy hour; the URL is an output; other bounds are deployed
    in place; destroy waits for the containers.
    """
    made = project("serve-modal")
    shown = " ".join(made.preview().split())
    assert (
        "at least 1 container at any time: $0.8061/h" in shown
        and "when busy: $0.8061/h a container, at most 3" in shown
    )
    said = made.up()
    first = made.cluster()["outputs"]
    assert (
        first["endpoints"][0].startswith("https://rehearsal--gpus-serve-")
        and first["endpoints"][0] in said
    )
    made.preview("--expect-no-changes")
    made.edit("max_containers: 3", "max_containers: 4")
    assert "+$0.8061/h" in " ".join(made.preview().split())
    made.up()
    after = made.cluster()["outputs"]
    assert (first["handles"], first["endpoints"]) == (after["handles"], after["endpoints"])
    assert after["price_usd_per_hour"] > first["price_usd_per_hour"]
    made.rehearse("latency", "modal", "delete", "5s")
    made.destroy()
    assert made.machines() == []
