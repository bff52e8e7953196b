"""The custom job that an order at Vertex AI compiles to: pools, workload, options."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from providers.adapters.gcp.vertex import MANIFEST, job
from providers.adapters.gcp.vertex.offers import ACCELERATORS
from providers.adapters.gcp.vertex.regions import LOCATIONS
from providers.catalog.offers import load
from providers.errors import Unsupported
from providers.model.machine import Setup
from providers.rehearsal.clouds.gcp import generate
from tests.unit.vertex.rig import TOKEN, candidate, order, started

# What is asked for


def test_the_body_of_one_node() -> None:
    """Machine type, GPU and count are all stated, the ttl is the timeout, and the labels say whose
    it is and which order.
    """
    body = job.body(
        order(
            env={"A": "x$(B)"},
            service_account="me@p.iam.gserviceaccount.com",
            output="gs://bucket/out",
        )
    )
    assert body == {
        "displayName": "train-0e7d2c1a",
        "labels": {
            "team": "blue",
            "gpus_owner": "o1",
            "gpus_cluster": "train",
            "gpus_generation": "g1",
            "gpus_fingerprint": "f1",
            "gpus_order": TOKEN,
        },
        "jobSpec": {
            "workerPoolSpecs": [
                {
                    "machineSpec": {
                        "machineType": "a3-highgpu-8g",
                        "acceleratorType": "NVIDIA_H100_80GB",
                        "acceleratorCount": 8,
                    },
                    "replicaCount": "1",
                    "containerSpec": {
                        "imageUri": "a/b:1",
                        "command": ["python", "train.py"],
                        "env": [{"name": "A", "value": "x$$(B)"}],
                    },
                }
            ],
            "scheduling": {"strategy": "STANDARD", "timeout": "3600s"},
            "serviceAccount": "me@p.iam.gserviceaccount.com",
            "baseOutputDirectory": {"outputUriPrefix": "gs://bucket/out"},
        },
    }


def test_several_nodes_are_a_pool_of_one_and_one_of_the_rest() -> None:
    """The first pool has one replica, as Vertex AI wants; the second the others, of the same
    machine.
    """
    first, second = job.body(order(candidate(nodes=4)))["jobSpec"]["workerPoolSpecs"]
    assert (first["replicaCount"], second["replicaCount"]) == ("1", "3") and first[
        "machineSpec"
    ] == second["machineSpec"]


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        ("on-demand", {"strategy": "STANDARD", "timeout": "3600s"}),
        ("spot", {"strategy": "SPOT", "timeout": "3600s"}),
        ("flex-start", {"strategy": "FLEX_START", "timeout": "3600s", "maxWaitDuration": "600s"}),
    ],
)
def test_the_strategy_follows_the_capacity(capacity, expected) -> None:
    """Spot and Flex-start by the spec's capacity; a queue is waited in as long as the spec waits,
    never for ever.
    """
    assert job.body(order(candidate(capacity=capacity)))["jobSpec"]["scheduling"] == expected
    queued = job.body(order(candidate(capacity="flex-start"), wait_s=0))["jobSpec"]["scheduling"]
    assert queued["maxWaitDuration"] == "1s"


def test_n1_names_its_gpu_too() -> None:
    """An attached GPU is stated like a built-in one; a disk below Vertex AI's default is that
    default.
    """
    pool = job.body(
        order(candidate("n1-standard-8", "T4", 2), Setup(disk_gib=50, options=(("image", "a/b"),)))
    )["jobSpec"]["workerPoolSpecs"][0]
    assert pool["machineSpec"] == {
        "machineType": "n1-standard-8",
        "acceleratorType": "NVIDIA_TESLA_T4",
        "acceleratorCount": 2,
    }
    assert pool["diskSpec"] == {"bootDiskSizeGb": 100} and "command" not in pool["containerSpec"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"chosen": candidate(kind="machine")}, "found a machine"),
        ({"chosen": candidate(kind="service")}, "found a service"),
        ({"chosen": candidate("a4x-maxgpu-4g-metal", "GB300", 4)}, "no accelerator type for GB300"),
        (
            {"chosen": candidate(capacity="reservation")},
            "none of Vertex AI's scheduling strategies",
        ),
        ({"setup": Setup()}, "wanted a container image"),
        ({"setup": Setup(options=(("image", "a/b"),), secrets=(("TOK", "x"),))}, "in clear"),
        (
            {
                "chosen": candidate(capacity="flex-start"),
                "setup": Setup(ttl_s=8 * 86_400, options=(("image", "a/b"),)),
            },
            "at most 7d",
        ),
    ],
)
def test_what_a_custom_job_cannot_be_is_never_sent(change, told) -> None:
    """Each is Unsupported with its reason, remembered nowhere."""
    with pytest.raises(Unsupported, match=told) as error:
        job.body(order(**change))
    assert error.value.block_s == 0


def test_every_accelerator_type_is_one_of_the_apis() -> None:
    """The names are those of the discovery document."""
    schema = generate.installed("aiplatform.v1")["schemas"]["GoogleCloudAiplatformV1MachineSpec"]
    assert set(ACCELERATORS.values()) <= set(schema["properties"]["acceleratorType"]["enum"])


def test_the_committed_extract_is_part_of_the_installed_document() -> None:
    """The stand-in's discovery.json is what the generator makes of the installed client's document,
    and so are the regions.
    """
    installed = generate.installed("aiplatform.v1")
    committed = json.loads(generate.VERTEX.read_text())
    assert installed["revision"] != committed["revision"] or committed == generate.discovery(
        installed, generate.VERTEX_SERVED
    )
    table = load()
    regions = {
        region
        for region, provider in zip(table.column("region"), table.column("provider"), strict=True)
        if provider == "gcp"
    }
    assert {place["location"] for place in installed["endpoints"]} & regions == LOCATIONS | {
        "me-central2"
    }


# The workload


def test_a_plain_workload_is_the_containers_own_command_and_environment() -> None:
    """Image, command and env stand as themselves; what options.vertex says wins."""
    chosen = started({"image": "a/b:1", "command": "python train.py --lr 1", "env": {"X": "1"}})
    assert chosen[:3] == ("a/b:1", ("bash", "-c", "python train.py --lr 1"), (("X", "1"),))
    assert started({"image": "a/b:1", "command": "x"}, image="c/d:2").image == "c/d:2"


def test_setup_and_files_are_done_by_the_start_up_script() -> None:
    """With an image, both run inside it before the command, whose exit code is the job's."""
    chosen = started({"image": "a/b:1", "command": "exit 7", "setup": ["true"]})
    assert chosen.command[:2] == ("bash", "-c") and chosen.command[2].startswith(
        "GPUS_ROOT=/tmp/gpus\n"
    )


def test_the_start_up_script_ends_with_the_programs_exit_code(tmp_path) -> None:
    """Run for real: setup, then the command."""
    chosen = started(
        {"image": "a/b:1", "command": "test -e ready && exit 7", "setup": ["touch ready"]}
    )
    text = chosen.command[2].replace("/tmp/gpus", str(tmp_path / "root"))
    done = subprocess.run(
        ["bash", "-c", text],
        check=False,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        timeout=60,
    )
    assert done.returncode == 7


@pytest.mark.parametrize(("task", "rank"), [(("workerpool0", 0), "0"), (("workerpool1", 1), "2")])
def test_each_node_finds_rank_and_leader_in_cluster_spec(tmp_path, task, rank) -> None:
    """Run for real, with CLUSTER_SPEC as Google documents it: the first pool leads, ranks follow
    the pools.
    """
    chosen = started(
        {"image": "a/b:1", "command": 'echo "$GPUS_NODE_RANK $GPUS_LEADER" >told'}, nodes=3
    )
    text = chosen.command[2].replace("/tmp/gpus", str(tmp_path / "root"))
    cluster = {"workerpool0": ["cmle-0:2222"], "workerpool1": ["cmle-1:2222", "cmle-2:2222"]}
    spec = {"cluster": cluster, "task": {"type": task[0], "index": task[1]}}
    env = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "CLUSTER_SPEC": json.dumps(spec),
    }
    assert (
        subprocess.run(
            ["bash", "-c", text], check=False, cwd=tmp_path, env=env, timeout=60
        ).returncode
        == 0
    )
    assert f"{rank} cmle-0" == (tmp_path / "told").read_text().strip()
    del env["CLUSTER_SPEC"]
    (tmp_path / "root" / "peers").unlink()
    assert (
        subprocess.run(
            ["bash", "-c", text],
            check=False,
            cwd=tmp_path,
            env=env,
            timeout=60,
            capture_output=True,
        ).returncode
        == 1
    )


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ({"image": "no image!"}, "image"),
        ({"command": ""}, "command"),
        ({"env": {"1A": "x"}}, "env"),
        ({"env": {"A": 1}}, "env"),
        ({"network": "default"}, "network"),
        ({"output": "s3://x/y"}, "output"),
        ({"boot_disk_type": "pd-balanced"}, "boot_disk_type"),
        ({"service_account": "me"}, "service_account"),
        ({"vertex": True}, "vertex"),
    ],
)
def test_wrong_options_are_named(section, path) -> None:
    """One problem each, with its path."""
    assert [path] == [problem.path for problem in MANIFEST.check_options(section)]
