"""Ray itself, started by the start-up scripts of a cluster of two: each machine a folder and an
address of its own on loopback.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from providers.model.workload import Task, Workload, packed
from providers.workloads.launch.compile import program
from providers.workloads.launch.start_script import script
from tests.launchers.machines import machines
from tests.present import present

RAY = shutil.which("ray")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(RAY is None, reason="needs ray: pip install ray"),
]

WORK = """
import os, time
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init(logging_level="error")


@ray.remote(num_gpus=1, num_cpus=0)
def where():
    return ray.util.get_node_ip_address(), os.environ["CUDA_VISIBLE_DEVICES"]


alive = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
asked = [where.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote() for node in alive for _ in "ab"]
for address, gpus in sorted(ray.get(asked)):
    print("ran at", address, "on", len(gpus.split(",")), "GPU", flush=True)
print("GPUs in all", int(ray.cluster_resources()["GPU"]), flush=True)
raise SystemExit(int(os.environ.get("ENDS_WITH", "0")))
"""
SHOWN = Path(__file__).parents[2] / "stacks" / "ray_gpus.py"
LEADER, OTHER = "127.0.0.2", "127.0.0.3"
MARK = "TESTED_RAY_OF"


def begun_on(folder):
    """The ids of what `ray start` began on that machine, and all that came of it."""
    mark, found = f"{MARK}={folder}".encode(), []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (
                mark in (place / "environ").read_bytes().split(b"\0")
                and int(place.name) != os.getpid()
            ):
                found.append(int(place.name))
        except OSError:
            continue
    return found


def stop(folder) -> None:
    """`ray stop` of one machine of several on this one: Ray's own ends every Ray there is."""
    for which in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + 10
        while (left := begun_on(folder)) and time.monotonic() < end:
            for process in left:
                try:
                    os.kill(process, which)
                except ProcessLookupError:
                    continue
            time.sleep(0.2)


def with_ray(machine) -> None:
    """Puts a `ray` first on its PATH that marks what it starts there, and stops that alone."""
    stops = (
        f'PYTHONPATH="{Path(__file__).parents[2]}" exec "{sys.executable}" -m'
        f' tests.launchers.test_ray "{machine.folder}"'
    )
    machine.tool(
        "ray",
        f'case "$1" in start) export {MARK}="{machine.folder}";; stop) {stops};; esac\nexec "{RAY}"'
        ' "$@"',
    )


@pytest.fixture
def another_ray(tmp_path):
    """A process that `ray stop` takes for one of Ray's: it goes by the name."""
    path = tmp_path / "raylet"
    shutil.copy(present(shutil.which("sleep")), path)
    with subprocess.Popen([path, "600"]) as process:
        yield process
        process.kill()


def test_two_machines_become_one_cluster_and_both_end_with_the_job(tmp_path, another_ray) -> None:
    """The leader's script runs the program over the GPUs of both; its exit code is the job's; the
    worker ends by itself, and well. Another Ray of this machine is left alone.
    """
    made = program(
        Workload(
            (
                Task(
                    launcher="ray",
                    command="python3 ~/ray_gpus.py && python3 ~/work.py",
                    env=(("ENDS_WITH", "3"),),
                ),
            ),
            files=(
                ("~/work.py", packed(WORK.encode())),
                ("~/ray_gpus.py", packed(SHOWN.read_bytes())),
            ),
        ),
        "job",
        "H100",
        2,
        2,
    )
    # A path of Ray's sockets may not be long.
    short = Path(tempfile.mkdtemp(prefix="gpus-ray-", dir="/tmp"))
    with machines(tmp_path, (LEADER, OTHER), Path(present(RAY)).parent) as (leader, worker):
        for each in (leader, worker):
            with_ray(each)
            each.tool("nvidia-smi", "echo a card")
            each.hand("peers", f"{LEADER}\n{OTHER}\n")
        try:
            started = [each.begin(script(made), RAY_TMPDIR=str(short)) for each in (worker, leader)]
            codes = [process.wait(240) for process in started]
        finally:
            for each in (leader, worker):
                stop(each.folder)
            shutil.rmtree(short, ignore_errors=True)
        assert codes == [0, 3], f"{leader.log}\n{worker.log}"
        assert leader.words[-1] == "failed 3"
        assert worker.words[-1] == "succeeded 0"
        assert re.findall(r"ran at (\S+) on (\d) GPU", leader.log) == [
            (LEADER, "1"),
            (LEADER, "1"),
            (OTHER, "1"),
            (OTHER, "1"),
        ]
        assert "GPUs in all 4" in leader.log
        assert "2 nodes, 4 GPUs" in leader.log, "what stacks/ray_gpus.py says"
        assert len(re.findall(r"GPU \d: a card$", leader.log, re.MULTILINE)) == 4
        assert another_ray.poll() is None


if __name__ == "__main__":
    stop(sys.argv[1])
