"""Rehearsal machines that run: containers that boot the start-up script which the cloud would get,
reached by real ssh, with a Docker of their own.
"""

import json
import urllib.error
import urllib.request

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
