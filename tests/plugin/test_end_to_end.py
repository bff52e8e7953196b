"""The real engine, CLI and plugin over the rehearsal clouds: what a user does, and what goes wrong."""

import json
import shutil
import subprocess

import pytest

from tests.plugin.conftest import BIN, REPOSITORY, wait_until


@pytest.mark.core
def test_up_refresh_preview_preempt_up_destroy(project):
    """The whole life: a fallback place is had, nothing changes, a preempted machine is replaced in
    one up, destroy leaves zero machines.
    """
    made = project()
    shown = made.preview()
    assert shown.count("best per provider") == 1
    assert "nothing runs now" in shown
    assert made.machines() == []
    assert made.seen()["mutations"] == 0
    said = made.up()
    assert "sold out (ZONE_RESOURCE_POOL_EXHAUSTED" in said and ": acquired" in said
    first = made.cluster()
    assert len(made.machines()) == 1
    assert len(json.dumps(first["outputs"])) < 2048
    assert len(first["outputs"]["attempts"]) > 1
    assert first["outputs"]["status"] == "running"
    made.run("refresh", "-s", made.stack, "--yes", "--skip-preview")
    unchanged = made.preview("--expect-no-changes")
    assert unchanged.count("best per provider") == 1
    assert "since its launch" in " ".join(unchanged.split())
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


@pytest.mark.parametrize("also_plugin", [False, True], ids=["cli", "cli-and-plugin"])
def test_up_killed_then_destroy(project, also_plugin):
    """`up` killed with -9, then cancel and destroy: zero machines, whether or not the plugin lived
    to clean up.
    """
    made = project()
    made.edit(
        "providers: [gcp, aws, modal]", "rank: preference\n      providers: [gcp, aws, modal]"
    )
    made.rehearse("latency", "gcp", "create", "3s")
    made.killed_up("#4", also_plugin=also_plugin)
    made.destroy()
    assert made.machines() == []


@pytest.mark.core
def test_up_killed_then_up(project):
    """The next `up` adopts or clears what the killed one left: one machine, never two."""
    made = project()
    made.edit(
        "providers: [gcp, aws, modal]", "rank: preference\n      providers: [gcp, aws, modal]"
    )
    made.rehearse("latency", "gcp", "create", "2s")
    made.killed_up("#4", also_plugin=True)
    made.up()
    wait_until(lambda: len(made.machines()) == 1)
    assert made.cluster()["outputs"]["status"] == "running"
    made.destroy()
    assert made.machines() == []


@pytest.mark.parametrize("then", ["up", "destroy"])
def test_b26_up_killed_then_another_project(project, then):
    """A machine that a killed run made in one project is found and deleted though the stack names
    another project by now.
    """
    made = project()
    made.edit(
        "providers: [gcp, aws, modal]", "rank: preference\n      providers: [gcp, aws, modal]"
    )
    made.rehearse("latency", "gcp", "create", "3s")
    made.killed_up("#4", also_plugin=True)
    made.edit("gpus:world: rehearsal", "gpus:world: rehearsal\n  gcp:project: other-project")
    if then == "up":
        made.up()
        assert len(made.machines()) == 1
        assert "projects/other-project/" in made.cluster()["outputs"]["handles"][0]
    made.destroy()
    assert made.machines() == []


def test_b42_edits(project):
    """An edit that is still satisfied touches no machine; one that is not replaces it, the old one
    first.
    """
    made = project("serve-l4")
    made.up()
    name = made.machines()[0]["name"]
    before = made.seen()["mutations"]
    made.edit("max_price_per_hour: 1.5", "max_price_per_hour: 1.4")
    made.edit("gpu: L4:1", "gpu: [T4:1, L4:1]")
    assert "update" in made.preview()
    made.up()
    assert [machine["name"] for machine in made.machines()] == [name]
    assert made.seen()["mutations"] == before
    made.edit("gpu: [T4:1, L4:1]", "gpu: T4:1")
    shown = " ".join(made.preview().split())
    assert (
        "replace" in shown and "it and its disk are deleted first, and may not come back" in shown
    )
    assert "gpu: what runs no longer satisfies the declaration" in shown
    said = made.up()
    assert said.index("deleted original") < said.index(": acquired")
    assert [machine["name"] for machine in made.machines()] != [name]
    assert made.cluster()["outputs"]["gpu_type"] == "T4"
    made.edit("gpu: T4:1", "gpu: T4:1\n      run: second")
    made.up("--replace", made.cluster()["urn"])
    assert len(made.machines()) == 1
    made.destroy()
    assert made.machines() == []


def test_b35_b41_stop_and_start(project):
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


def test_nothing_to_be_had(project):
    """Everything is sold out: one line per attempt, no traceback, nothing left."""
    made = project()
    made.edit("providers: [gcp, aws, modal]", "providers: [gcp, aws]")
    for cloud in ("gcp", "aws"):
        made.rehearse("stock", cloud, "*", "*", "*", "0")
        made.rehearse("latency", cloud, "stockout", "0s")
    said = made.up(fails=True)
    assert "#1 gcp" in said and "allow more" in said
    assert made.machines() == []
    made.destroy()


def test_sold_out_on_one_cloud_lands_on_the_next(project):
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


def test_bad_input_is_told_whole(project):
    """Every problem with its path, at preview; unknown keys of the configuration too."""
    made = project()
    made.edit("gpu: H100:8", "gpu: H1000:8\n      nodez: 2")
    made.edit("max_price_per_hour: 60", "max_price_per_hour: -60")
    said = made.preview(fails=True)
    for path in ("train.gpu", "train.nodez", "train.max_price_per_hour"):
        assert f"gpus:clusters.{path}: wanted" in said
    for old, new, wanted in (
        (
            "gpus:world: rehearsal",
            "gpus:world: dream",
            "gpus:world: wanted rehearsal or live, found 'dream'",
        ),
        ("gpus:world: dream", "gpus:wurld: rehearsal", "found 'gpus:wurld'; near: gpus:world"),
        (
            "gpus:wurld: rehearsal",
            "gpus:world: rehearsal\n  gpus:clusters: [train]\n  other:clusters: {}",
            "",
        ),
    ):
        made.edit(old, new)
        if wanted:
            assert wanted in made.preview(fails=True)
    made.file.write_text("config:\n  gpus:world: rehearsal\n  gpus:clusters: [train]\n")
    assert "gpus:clusters: wanted a map of clusters by name" in made.preview(fails=True)
    made.file.write_text("config:\n  gpus:world: rehearsal\n")
    assert "found nothing" in made.preview(fails=True)
    made.file.write_text("config: {}\n")
    assert "gpus:world: wanted rehearsal or live, found nothing" in made.preview(fails=True)


def test_live_without_credentials_is_not_a_rehearsal(project):
    """World live and no credentials: it says so, and nothing is rehearsed."""
    made = project("serve-l4")
    made.edit("gpus:world: rehearsal", "gpus:world: live")
    made.env["HOME"] = str(made.folder)
    made.env["CLOUDSDK_CONFIG"] = str(made.folder)
    made.env["NO_GCE_CHECK"] = "true"
    said = made.up(fails=True)
    assert "configured" in said
    assert made.machines() == []
    made.destroy()


def test_managed_network(project):
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
def test_a_program_of_ones_own(project):
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
    assert made.preview().count("best per provider") == 2
    made.up()
    assert len(made.machines()) == 2
    made.destroy()
    assert made.machines() == []


def test_import_of_a_lost_machine(project):
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
def test_the_schema_is_accepted(tmp_path):
    """`pulumi package get-schema` takes the plugin's schema whole."""
    if shutil.which("pulumi", path=f"{BIN}") is None and shutil.which("pulumi") is None:
        pytest.fail("wanted pulumi on PATH, found none; run `make setup`")
    done = subprocess.run(
        ["pulumi", "package", "get-schema", str(BIN / "pulumi-resource-gpu")],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": "/tmp", "PULUMI_SKIP_UPDATE_CHECK": "true"},
    )
    assert done.returncode == 0, done.stderr
    schema = json.loads(done.stdout)
    assert set(schema["resources"]) == {"gpu:index:Cluster", "gpu:index:Ownership"}
    assert (
        schema["resources"]["gpu:index:Cluster"]["properties"]["price_usd_per_hour"]["type"]
        == "number"
    )


@pytest.mark.core
def test_stack_files_are_left_as_they_are(project):
    """Making a stack and setting a value that it has leave the committed file as it is, byte for
    byte.
    """
    made = project()
    made.run("config", "set", "-s", made.stack, "gpus:world", "rehearsal")
    for path in (REPOSITORY / "stacks").glob("Pulumi.*.yaml"):
        assert (made.folder / "stacks" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.core
def test_ctrl_c_once(project):
    """One Ctrl-C while it buys: no further attempt, what was asked for is released, the state is
    whole; then destroy as ever.
    """
    made = project()
    made.edit(
        "providers: [gcp, aws, modal]", "rank: preference\n      providers: [gcp, aws, modal]"
    )
    made.rehearse("latency", "gcp", "create", "3s")
    said = made.interrupted_up("#4")
    assert "Traceback" not in said
    assert "stopped by the user" in said
    wait_until(lambda: made.machines() == [])
    made.destroy()
    assert made.machines() == []


@pytest.mark.parametrize("own_program", [False, True], ids=["stack", "own-program"])
def test_another_world_that_cannot_serve_is_refused_before_anything_is_lost(project, own_program):
    """A stack that goes live without credentials is refused, with or without a preview: its
    rehearsal machine stays, and so does its state.
    """
    made = project("serve-l4")
    program = made.folder / "stacks" / "__main__.py"
    if own_program:
        program.write_text(
            "from providers import GpuCluster\nGpuCluster('serve', gpu='L4:1', providers=['gcp'])\n"
        )
    made.up()
    (machine,) = made.machines()
    before = made.resources()
    if own_program:
        program.write_text(
            "from providers import GpuCluster\nGpuCluster('serve', gpu='L4:1', providers=['gcp'],"
            " world='live')\n"
        )
    else:
        made.edit("gpus:world: rehearsal", "gpus:world: live")
    made.env |= nobody(made.folder)
    for said in (
        made.preview(fails=True),
        made.up(fails=True),
        made.up("--replace", made.cluster()["urn"], fails=True),
    ):
        assert (
            "from rehearsal to live: refused; what the stack has in the rehearsal world stays as"
            " it is" in " ".join(said.split())
        )
        assert "not configured: gcp: wanted application default credentials" in " ".join(
            said.split()
        )
    assert [machine["name"]] == [found["name"] for found in made.machines()]
    assert {kind: item["id"] for kind, item in before.items() if "id" in item} == {
        kind: item["id"] for kind, item in made.resources().items() if "id" in item
    }
    if not own_program:
        made.edit("gpus:world: live", "gpus:world: rehearsal")
        assert "unchanged" in made.preview("--expect-no-changes")
    made.destroy()
    assert made.machines() == []


def test_a_home_that_cannot_be_used_is_a_line_at_preview_and_stops_an_up(project):
    """GPUS_HOME is a file: the preview shows the plan with one line about it; `up` refuses with
    that line before any call.
    """
    made = project("serve-l4")
    (made.folder / "no-folder").write_text("")
    home, made.env["GPUS_HOME"] = made.env["GPUS_HOME"], str(made.folder / "no-folder")
    shown = made.preview()
    assert "best per provider" in shown and "Errno" not in shown
    said = " ".join(made.up(fails=True).split())
    assert (
        "wanted a folder for what is kept between runs" in said
        and "set GPUS_HOME to one that can be written" in said
    )
    assert "asking" not in said and "Errno" not in said
    made.env["GPUS_HOME"] = home
    assert made.machines() == []
    made.destroy()


def nobody(folder):
    """An environment in which no provider's credentials can be found, without a network."""
    return {
        "HOME": str(folder),
        "CLOUDSDK_CONFIG": str(folder),
        "NO_GCE_CHECK": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def test_all_that_is_wrong_with_all_clusters_is_told_at_once(project):
    """Before anything is registered, without a traceback: each problem of each cluster, keys that
    Python reserves and homes of nobody among them.
    """
    made = project("serve-l4")
    clusters = (
        "{a: {gpu: H1000:8, self: 1}, b: {gpu: L4:1, nodes: true}, c: L4:1, '': L4:1, d: {gpu:"
        " L4:1, ssh_key: ~nouser/x.pub, world: live}, e: {gpu: L4:1, network: managed, expose:"
        " public, ports: [x, 0], providers: 5, regions: [us-central1]}}"
    )
    made.file.write_text(f"config:\n  gpus:world: rehearsal\n  gpus:clusters: {clusters}\n")
    said = made.preview(fails=True)
    for path in (
        "a.gpu",
        "a.self",
        "b.nodes",
        "''",
        "d",
        "d.ssh_key",
        "e.ports[0]",
        "e.ports[1]",
        "e.providers",
    ):
        assert f"gpus:clusters.{path}: wanted" in said
    assert "KeyboardInterrupt" not in said
    assert "Ownership" not in said


def test_live_needs_credentials_before_anything_is_declared(project):
    """A managed network is Google's own resources: without credentials none of them is declared. A
    secret setting is refused as a secret cluster is.
    """
    made = project("train-h100x8x2")
    made.edit("gpus:world: rehearsal", "gpus:world: live")
    made.env |= {
        "HOME": str(made.folder),
        "CLOUDSDK_CONFIG": str(made.folder),
        "NO_GCE_CHECK": "true",
    }
    said = made.preview(fails=True)
    assert "gpus:clusters.train: gcp: wanted application default credentials" in said
    assert "gcp:compute" not in said
    made.run("config", "set", "--secret", "gcp:project", "mine", "-s", made.stack)
    assert "gcp:project: wanted plain text, found a secret" in made.preview(fails=True)


def test_a_forced_replacement_says_what_goes(project):
    """Under --replace nothing is compared, and the preview still knows the machine that goes; an
    edit that nothing can serve leaves it alone.
    """
    made = project("serve-l4")
    made.up()
    machine = made.machines()[0]["name"]
    shown = " ".join(made.preview("--replace", made.cluster()["urn"]).split())
    assert (
        "REPLACES gcp us-east4-a L4:1 on-demand ($0.7319/h): it and its disk are deleted first"
        in shown
    )
    made.edit("gpu: L4:1", "gpu: H100:8")
    said = made.up(fails=True)
    assert "serve: nothing acceptable for H100:8" in said and "stays as it is" in said
    assert [found["name"] for found in made.machines()] == [machine]
    made.edit("gpu: H100:8", "gpu: L4:1\n      ttl: 1h")
    said = " ".join(made.up().split())
    assert "gcp cannot edit ttl on a running machine" in said
    assert [found["name"] for found in made.machines()] == [machine]
    made.destroy()


def test_what_ended_costs_nothing_on_the_screen(project):
    """After the ttl: when it ended and how to get a new one; no price and no ssh line of a machine
    that is gone.
    """
    made = project()
    made.up()
    made.rehearse("advance", "21h")
    assert "change none: it ended at " in " ".join(made.preview().split())
    made.up()
    outputs = json.loads(made.run("stack", "output", "--json", "-s", made.stack))["train"]
    assert (outputs["status"], outputs["ssh"], outputs.get("price_usd_per_hour")) == (
        "ended",
        "",
        None,
    )
    assert made.cluster()["outputs"]["price_usd_per_hour"] > 0
    made.destroy()


def test_a_job_runs_once_and_a_bump_of_run_makes_another(project):
    """A job is planned with its worst case, ends, and changes nothing on the next `up`; another
    `run` starts a new one; destroy leaves nothing.
    """
    made = project("job-l4")
    shown = " ".join(made.preview().split())
    assert "at worst 3 attempts of 1h, $2.42" in shown
    made.up()
    first = made.cluster()["outputs"]
    assert ("running", "modal") == (first["status"], first["provider"]) and first["ssh"].startswith(
        "modal app logs ap-"
    )
    made.rehearse("advance", "2m")
    assert "the job is done" in made.up()
    done = made.cluster()["outputs"]
    assert ("ended", first["handles"]) == (done["status"], done["handles"])
    made.preview("--expect-no-changes")
    made.edit('run: "1"', 'run: "2"')
    assert "a new run is asked for" in " ".join(made.preview().split())
    made.up()
    assert made.cluster()["outputs"]["handles"] != first["handles"] and 1 == len(made.machines())
    made.destroy()
    assert [] == made.machines()


def test_b46_a_service_is_deployed_priced_changed_in_place_and_stopped(project):
    """Preview prices the floor and the busy hour; the URL is an output; other bounds are deployed
    in place; destroy waits for the containers.
    """
    made = project("serve-modal")
    shown = " ".join(made.preview().split())
    assert (
        "idle floor: 1 always runs, $0.8061/h 24 h a day" in shown
        and "busy hour: $0.8061/h a container, at most 3" in shown
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
    assert [] == made.machines()


def test_b46_modal_refuses_bad_gpus_of_a_job_at_preview(project):
    """An A100-70GB, which nobody knows, fails the preview's check: nothing is sent. Eight A10s,
    which Modal does not sell, are left out in a line.
    """
    made = project("job-l4")
    made.edit('fallback: ["A10:1"]', "fallback: [A100-70GB, A10:8]")
    shown = " ".join(made.preview(fails=True).split())
    assert "fallback[0]" in shown and "A100-80GB" in shown and "fallback[1]" not in shown
    made.edit("A100-70GB, ", "")
    assert (
        "left out fallback[0]: A10:8 in one machine: counts on offer: modal 1, 2, 3, 4"
        in " ".join(made.preview().split())
    )
    assert 0 == made.seen()["mutations"]


@pytest.mark.parametrize("stack", ["job-l4", "serve-modal"])
def test_an_up_killed_while_modal_queues_leaves_nothing(project, stack):
    """`up` and its plugin killed with -9 while the app waits for a container: the next `up` takes
    it over, and destroy leaves no app.
    """
    made = project(stack)
    made.rehearse("latency", "modal", "create", "4s")
    made.rehearse("latency", "modal", "job", "10m")
    made.killed_up("#1", also_plugin=True)
    made.up()
    assert "running" == made.cluster()["outputs"]["status"] and 1 == len(made.machines())
    made.destroy()
    assert [] == made.machines()


@pytest.mark.parametrize("on_loss", ["replace-all", "report"])
def test_a_machine_edited_at_its_cloud_shows_what_differs_and_is_replaced_or_reported(
    project, on_loss
):
    """Four GPUs became one: the preview names just that, and the next `up` does what the preview
    said; edited back, nothing differs.
    """
    made = project("serve-l4")
    made.edit("gpu: L4:1", f"gpu: T4:4\n      on_loss: {on_loss}\n      providers: [gcp]")
    made.edit("max_price_per_hour: 1.5", "max_price_per_hour: 9")
    made.up()
    name = made.machines()[0]["name"]
    price = made.cluster()["outputs"]["price_usd_per_hour"]
    made.rehearse("edit", name, "T4:1")
    shown = " ".join(made.preview().split())
    assert "gpu_count: 4 -> 1, changed at gcp" in shown
    if on_loss == "report":
        assert "unchanged" in shown and "`on_loss: report` leaves it so" in shown
        made.up()
        assert [machine["name"] for machine in made.machines()] == [name]
        outputs = made.cluster()["outputs"]
        assert outputs["gpu_count"] == 1 and outputs.get("price_usd_per_hour", 0) < price
        assert outputs["detail"] == "gpu_count: 4 -> 1, changed at gcp"
        made.rehearse("edit", name, "T4:4")
        made.run("refresh", "-s", made.stack, "--yes", "--skip-preview")
        assert made.cluster()["outputs"]["price_usd_per_hour"] == price
    else:
        assert "1 to replace" in shown or "+-1" in shown, shown
        assert (
            "because gpu_count: 4 -> 1, changed at gcp" in shown
            and "REPLACES gcp" in shown
            and "T4:1" in shown
        )
        said = made.up()
        assert said.index("deleted original") < said.index(": acquired")
        assert [(machine["name"] != name, machine["gpu_count"]) for machine in made.machines()] == [
            (True, 4)
        ]
        assert made.cluster()["outputs"]["price_usd_per_hour"] == price
        assert "unchanged" in made.preview("--expect-no-changes")
    made.destroy()
    assert made.machines() == []


def replaced_in_vain(made):
    """A stack whose machine is to be replaced by one that is sold out."""
    made.edit("gpu: L4:1", "gpu: L4:1\n      providers: [gcp]\n      regions: [us-central1]")
    made.up()
    made.edit("gpu: L4:1", "gpu: T4:1")
    made.rehearse("stock", "gcp", "*", "T4", "*", "0")


def test_a_replacement_that_finds_no_place_says_that_the_previous_machine_is_gone(project):
    """Error, state and preview say that nothing runs and nothing is billed; a refresh drops it, and
    the next `up` buys one.
    """
    made = project("serve-l4")
    replaced_in_vain(made)
    made.rehearse("latency", "gcp", "stockout", "0s")
    said = " ".join(made.up(fails=True).split())
    assert (
        "the previous machine (gcp us-central1-a L4:1 on-demand) is deleted; nothing runs, nothing"
        " is billed" in said
    )
    assert "wanted T4:1, none was acquired: 4 tries" in said
    assert made.machines() == []
    outputs = made.cluster()["outputs"]
    assert (
        outputs["status"],
        outputs["price_usd_per_hour"],
        outputs["handles"],
        outputs["gpu_type"],
    ) == ("gone", 0, [], "")
    assert (
        "is deleted; nothing runs, nothing is billed" in outputs["detail"]
        and len(outputs["attempts"]) == 4
    )
    shown = " ".join(made.preview().split())
    assert "nothing runs now" in shown and "REPLACES" not in shown and "+ 1 to create" in shown
    made.run("refresh", "-s", made.stack, "--yes", "--skip-preview")
    assert "gpu:index:Cluster" not in made.resources()
    made.rehearse("stock", "gcp", "*", "T4", "*", "unlimited")
    made.up()
    assert made.cluster()["outputs"]["gpu_type"] == "T4" and len(made.machines()) == 1
    made.destroy()
    assert made.machines() == []


def test_an_up_killed_between_the_deletion_and_the_purchase_has_nothing_that_runs(project):
    """The state still names the old machine; the preview knows that it is deleted, and the next
    `up` buys one.
    """
    made = project("serve-l4")
    replaced_in_vain(made)
    made.rehearse("latency", "gcp", "stockout", "5s")
    made.killed_up("#1", also_plugin=True)
    assert made.machines() == []
    made.rehearse("stock", "gcp", "*", "T4", "*", "unlimited")
    shown = " ".join(made.preview().split())
    assert "nothing runs now" in shown and "REPLACES" not in shown
    made.up()
    assert made.cluster()["outputs"]["gpu_type"] == "T4" and len(made.machines()) == 1
    made.destroy()
    assert made.machines() == []


def test_a_renamed_stack_and_project_change_nothing(project):
    """C22: after a rename of the stack and one of the project no change is proposed, a sweep knows
    its own, and destroy works.
    """
    made = project("serve-l4")
    made.up()
    (machine,) = made.machines()
    made.run("stack", "rename", "-s", "serve-l4", "renamed")
    made.stack = "renamed"
    made.preview("--expect-no-changes")
    file = made.folder / "Pulumi.yaml"
    file.write_text(file.read_text().replace("name: gpus\n", "name: gpus2\n", 1))
    made.run("stack", "rename", "-s", "organization/gpus/renamed", "organization/gpus2/again")
    made.stack = "again"
    made.preview("--expect-no-changes")
    made.up()
    assert [found["name"] for found in made.machines()] == [machine["name"]]
    swept = subprocess.run(
        [str(BIN / "gpus"), "sweep"],
        env=made.env,
        cwd=made.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert machine["name"] not in swept.stdout, swept.stdout + swept.stderr
    made.destroy()
    assert made.machines() == []


@pytest.mark.timeout(900)  # many runs, each of which waits for a cloud that refuses
def test_a_sign_in_that_ends_in_the_middle_of_a_run_loses_nothing(project):
    """C24: the machine was ordered, and its cloud refuses every further look: nothing else is
    bought, the state keeps it with its cost; after the sign-in the next `up` takes it over.
    """
    made = project("serve-l4")
    made.edit("gpu: L4:1", "gpu: L4:1\n      providers: [gcp]")
    calls = ("instances.get", "instances.list", "instances.aggregatedList", "*perations.*")
    for call in calls:
        made.rehearse("fault", "gcp", call, "unauthorized", "--times", "always")
    said = " ".join(made.up(fails=True).split())
    assert "may still cost $" in said and "nothing else is bought until that is known" in said, said
    assert len(made.machines()) == 1
    outputs = made.cluster()["outputs"]
    assert outputs["status"] == "unsettled" and outputs["price_usd_per_hour"] > 0
    again = " ".join(made.up(fails=True).split())
    assert "gone" not in again and len(made.machines()) == 1
    made.rehearse("fault", "--clear")
    made.up()
    assert made.cluster()["outputs"]["status"] == "running" and len(made.machines()) == 1
    for call in calls:
        made.rehearse("fault", "gcp", call, "unauthorized", "--times", "always")
    made.run("refresh", "-s", made.stack, "--yes", "--skip-preview")
    kept = made.cluster()["outputs"]
    assert (
        kept["status"] == "running"
        and kept["price_usd_per_hour"] == outputs["price_usd_per_hour"]
        and kept["detail"].startswith("unreachable: ")
    )
    made.rehearse("fault", "--clear")
    made.preview("--expect-no-changes")
    made.destroy()
    assert made.machines() == []


@pytest.mark.parametrize("on_loss", ["replace-all", "replace-node", "report"])
def test_a_preview_after_a_loss_says_what_the_up_does(project, on_loss):
    """One of two Spot machines is taken back: the preview's words and its change are those of the
    `up` that follows.
    """
    made = project()
    made.edit("gpu: H100:8", f"gpu: H100:8\n      nodes: 2\n      on_loss: {on_loss}")
    made.edit("providers: [gcp, aws, modal]", "providers: [gcp]")
    made.edit("max_price_per_hour: 60", "max_price_per_hour: 200")
    made.up()
    names = [machine["name"] for machine in made.machines()]
    made.rehearse("preempt", names[0])
    made.rehearse("advance", "2m")
    shown = " ".join(made.preview().split())
    made.up()
    after = [machine["name"] for machine in made.machines()]
    if on_loss == "report":
        assert (
            "is degraded, and `on_loss: report` leaves it so" in shown
            and "~ 1 to update" not in shown
        )
        assert names[1] in after and not [name for name in after if name not in names]
    elif on_loss == "replace-node":
        assert (
            "gets as many again in" in shown
            and "REPLACES" not in shown
            and "~ 1 to update" in shown
        )
        assert len(after) == 2 and names[1] in after and names[0] not in after
    else:
        assert (
            "REPLACES gcp" in shown
            and "the rest is deleted first; then $" in shown
            and "~ 1 to update" in shown
        )
        assert len(after) == 2 and not set(after) & set(names)
    made.destroy()
    assert made.machines() == []


def test_a_preview_after_a_spot_loss_says_what_the_up_does(project):
    """A Spot machine is taken back and stays stopped: the preview replaces it, and so does the
    `up`.
    """
    made = project()
    made.edit("providers: [gcp, aws, modal]", "providers: [gcp]")
    made.up()
    (machine,) = made.machines()
    made.rehearse("preempt", machine["name"])
    shown = " ".join(made.preview().split())
    assert (
        ("which was taken back" in shown)
        == ("+-1 to replace" in shown)
        != ("+ 1 to create" in shown)
    )
    assert ("nothing runs now" in shown) == ("+ 1 to create" in shown)
    made.up()
    assert [found["name"] != machine["name"] for found in made.machines()] == [True]
    made.destroy()
    assert made.machines() == []
