"""The stacks that do what public task files of other tools do, each on machines that run: what was
started there, and that nothing is left.
"""

import json
import re

import pytest
import yaml

from tests.plugin.nodes_rig import daemon, monkeypatch_module, nodes
from tests.plugin.test_running_nodes import answer

__all__ = ["daemon", "monkeypatch_module", "nodes"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

JOBS = {
    "finetune-axolotl": "accelerate launch .*--num_processes=1 .*-m axolotl.cli.train qlora.yaml",
    "finetune-axolotl-h100x2": "axolotl train qlora.yaml",
    "finetune-axolotl-2x8": "accelerate launch .*--num_processes=16 .*--num_machines=2 .*axolotl",
    "nccl-tests": "mpirun -np 16 --hostfile .* /opt/nccl-tests/build/all_reduce_perf -b 8 -e 8G",
    "train-ddp-l4x2": "torchrun --nnodes=2 .*--nproc-per-node=1 train.py",
}
"""The stack -> what its (first) machine was asked to run."""
ENDS_ITSELF = "finetune-axolotl-h100x2"
SERVICES = {
    "serve-llama-3": "vllm serve meta-llama/Meta-Llama-3-70B-Instruct .*--tensor-parallel-size",
    "serve-gpt-oss": "vllm serve openai/gpt-oss-120b .*--tensor-parallel-size 1 ",
    "serve-deepseek-r1": "sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 .*--tp-size 8",
    "serve-mistral-tgi": "text-generation-launcher --model-id mistralai/Mistral-7B.*--num-shard 1",
    "serve-mixtral-ollama": "ollama pull mixtral",
}
"""The same. A service's `up` ends only once its health check answers."""


CHECKS_TOKENS = {"serve-llama-3", "serve-gpt-oss", "serve-mistral-tgi"}


def running(project, stack, **workload):
    """The project with that stack, on machines that run; more of its workload."""
    made = project(stack)
    declared = yaml.safe_load(made.file.read_text())
    (cluster,) = declared["config"]["gpus:clusters"].values()
    cluster["workload"].update(workload)
    made.file.write_text(yaml.safe_dump(declared))
    made.rehearse("nodes", "docker")
    return made


def name_of(made):
    """The name of its one cluster."""
    (name,) = yaml.safe_load(made.file.read_text())["config"]["gpus:clusters"]
    return name


def started(made):
    """What the stand-ins of programs say on its first machine."""
    said = made.gpus("logs", name_of(made), "--lines", "0")
    return [line for line in said.splitlines() if "rehearsal stand-in: " in line]


@pytest.mark.parametrize("stack", JOBS)
def test_a_ported_job_runs_to_its_end_and_leaves_nothing(project, nodes, stack) -> None:
    """Its program ends with 0. The machines of all but one are kept, since nobody can ask a machine
    that is off what it ran.
    """
    made = running(project, stack, **({} if stack == ENDS_ITSELF else {"on_done": "keep"}))
    made.up()
    assert "exit code 0" in made.gpus("wait", name_of(made))
    if stack != ENDS_ITSELF:
        assert [line for line in started(made) if re.search(JOBS[stack], line)]
    made.destroy()
    assert nodes.running() == []


@pytest.mark.parametrize("stack", SERVICES)
def test_a_ported_service_answers_and_leaves_nothing(project, nodes, stack) -> None:
    """It is what its stack says; one with a token refuses who has none."""
    made = running(project, stack)
    made.up()
    assert [line for line in started(made) if re.search(SERVICES[stack], line)]
    out = json.loads(made.run("stack", "output", "-s", stack, "--json", "--show-secrets"))
    name = name_of(made)
    if stack in CHECKS_TOKENS:
        models = f"{out[name]['endpoints'][0]}/v1/models"
        assert answer(models)[0] == 401
        assert answer(models, out[f"{name}_token"])[0] == 200
    made.destroy()
    assert nodes.running() == []
