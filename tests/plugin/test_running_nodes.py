"""Rehearsal machines that run: containers that boot the start-up script which the cloud would get,
reached by real ssh, with a Docker of their own.
"""

import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.plugin.conftest import wait_until
from tests.plugin.nodes_rig import daemon, monkeypatch_module, nodes

__all__ = ["daemon", "monkeypatch_module", "nodes"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def answer(url, token=""):
    """A service's status and what it says."""
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(asked, timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_model_is_served_to_who_has_the_token(project, nodes) -> None:
    """The stack as it is shipped, at clouds whose machines run: its start-up script starts a
    container whose image has vLLM's entry point, and that answers the declared health check.
    """
    made = project("serve-llama-70b")
    made.edit("rank: price", "providers: [aws, gcp] #")
    made.rehearse("nodes", "docker")
    said = made.up()
    assert "acquired" in said
    out = json.loads(made.run("stack", "output", "-s", made.stack, "--json", "--show-secrets"))
    models = f"{out['llama']['endpoints'][0]}/v1/models"
    assert answer(models)[0] == 401
    assert answer(models, "another")[0] == 401
    status, text = answer(models, out["llama_token"])
    assert (status, json.loads(text)["data"][0]["id"]) == (200, "meta-llama/Llama-3.1-70B")
    assert "rehearsal stand-in: vllm serve meta-llama/Llama-3.1-70B" in made.gpus("logs", "llama")
    assert out["llama_token"] not in made.gpus("logs", "llama", "--lines", "0")
    assert "3 unchanged" in made.up()
    (name,) = nodes.running()
    nodes.call("restart", name)  # Behind everybody's back: its work begins again by itself.
    wait_until(lambda: _answers(models, out["llama_token"]))
    made.destroy()
    assert nodes.running() == []


def _answers(url, token):
    try:
        return answer(url, token)[0] == 200
    except OSError:
        return False


@pytest.mark.parametrize("cloud", ["gcp", "aws"])
def test_a_machine_at_each_cloud_takes_commands_and_ends(project, nodes, cloud) -> None:
    """With the key and the user that the cloud puts there; its GPUs are those that were ordered;
    a machine that powers itself off is no longer running.
    """
    made = project()
    made.rehearse("nodes", "docker")
    made.hurry()
    said = made.gpus(
        "run", "A100-80GB:8", "--provider", cloud, "--", "nvidia-smi -L; exit 3", code=3
    )
    assert "it stands for 8 x A100-80GB" in said
    assert "released, confirmed" in said and nodes.running() == []
    made.gpus("run", "T4:1", "--provider", cloud, "--name", "box", "--keep", "--", "hostname")
    (name,) = nodes.running()
    nodes.call("exec", name, "systemctl", "poweroff")
    wait_until(lambda: made.machines()[0]["status"].lower() not in {"running"})
    made.gpus("release", "box")
    assert nodes.running() == []
    assert "docker" in made.rehearse("nodes")
    assert "played" in made.rehearse("nodes", "played")


def test_ranks_run_in_the_containers_of_both_nodes(project, nodes) -> None:
    """The leader's container reaches the other one's by ssh and Docker; how it ends is how both do,
    and the key between them is in no state.
    """
    made = project("nccl-tests")
    made.edit("launcher: mpi", "on_done: keep\n        launcher: mpi")
    made.rehearse("nodes", "docker")
    made.up()
    assert "exit code 0" in made.gpus("wait", "nccl")
    said = made.gpus("logs", "nccl", "--lines", "0")
    ranks = re.findall(r"all_reduce_perf -b 8 -e 8G -f 2 -g 1, rank (\d+)", said)
    assert sorted(map(int, ranks)) == list(range(16))
    keys = [nodes.call("exec", name, "cat", KEY) for name in nodes.running()]
    assert len(keys) == 2 and len(set(keys)) == 1
    secret = keys[0].splitlines()[2]
    assert secret not in made.run("stack", "export", "-s", made.stack, "--show-secrets")
    assert not [
        path
        for path in Path(made.env["GPUS_HOME"]).rglob("*")
        if path.is_file() and secret.encode() in path.read_bytes()
    ]
    made.destroy()
    assert nodes.running() == []


def test_one_server_over_two_nodes_is_asked_at_the_first(project, nodes) -> None:
    """It answers once both have met; a part of it that ends is told of, and it comes back."""
    made = project("serve-llama-405b")
    made.edit("rank: price", "expose: token")
    made.rehearse("nodes", "docker")
    made.up()
    out = json.loads(made.run("stack", "output", "-s", made.stack, "--json", "--show-secrets"))
    (url,) = out["llama"]["endpoints"]
    models, token = f"{url}/v1/models", out["llama_token"]
    assert answer(models)[0] == 401
    assert answer(models, token)[0] == 200
    first, other = nodes.running()
    if address_of(nodes, first) not in url:
        first, other = other, first
    assert token not in nodes.call("exec", other, "sh", "-c", "grep -rs . /var/lib/gpus/work")
    said = made.gpus("logs", "llama", "--lines", "0")
    assert "--tensor-parallel-size 8 --pipeline-parallel-size 2" in said
    assert "rehearsal stand-in: all 2 nodes are there" in said
    nodes.call("exec", other, "docker", "kill", "gpus-main")
    why = "running process 0 of node-1 ended with 137"
    wait_until(lambda: why in made.gpus("logs", "llama", "--lines", "0"))
    wait_until(lambda: _answers(models, token))
    made.destroy()
    assert nodes.running() == []


KEY = "/var/lib/gpus/work/between/key"


def address_of(nodes, name):
    """Where a machine answers."""
    shown = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    return nodes.call("inspect", "--format", shown, name)


SMALL = """config:
  gpus:world: rehearsal
  gpus:clusters:
    box:
      kind: machine
      gpu: T4:1
      providers: [{cloud}]
      state: running
"""


@pytest.mark.parametrize("cloud", ["gcp", "aws"])
def test_a_stopped_machine_keeps_its_disk_and_one_whose_host_failed_comes_up_again(
    project, nodes, cloud
) -> None:
    """A container that somebody removes is another machine's worth of disk, and is made again."""
    made = project()
    salt = made.file.read_text().partition("encryptionsalt")[2]
    made.file.write_text(f"{SMALL.format(cloud=cloud)}encryptionsalt{salt}")
    made.rehearse("nodes", "docker")
    made.hurry()
    made.up()
    (name,) = nodes.running()
    nodes.call("exec", name, "touch", "/root/kept")
    made.edit("state: running", "state: stopped")
    made.up()
    assert nodes.running() == [name]
    assert nodes.call("ps", "--format", "{{.Names}}") == ""
    made.edit("state: stopped", "state: running")
    made.up()
    nodes.call("exec", name, "ls", "/root/kept")
    nodes.call("kill", name)
    assert "unchanged" in made.up()
    nodes.call("exec", name, "ls", "/root/kept")
    nodes.call("rm", "--force", "--volumes", name)
    assert "unchanged" in made.up()
    assert nodes.running() == [name]
    made.destroy()
    assert nodes.running() == []
