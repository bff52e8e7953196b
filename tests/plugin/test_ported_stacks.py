"""The stacks that do what public task files of other tools do, each on machines that run: what was
started there, and that nothing is left.
"""

import json
import re

import pytest
import yaml

from tests.plugin.nodes_rig import daemon, monkeypatch_module, nodes
from tests.plugin.test_running_nodes import answer, gpus

__all__ = ["daemon", "monkeypatch_module", "nodes"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

JOBS = {
    "finetune-axolotl": "accelerate launch .*--num_processes=1 .*-m axolotl.cli.train qlora.yaml",
    "finetune-axolotl-h100x2": "axolotl train qlora.yaml",
    "finetune-axolotl-2x8": "accelerate launch .*--num_processes=16 .*--num_machines=2 .*axolotl",
    "nccl-tests": "torchrun --nnodes=2 .*--nproc-per-node=8 all_reduce.py",
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


def together(project, stacks, keep=()):
    """A project that declares the clusters of all these stacks, each under its stack's name. The
    machines of `keep` stay when their job is done.
    """
    made = project()
    declared = yaml.safe_load(made.file.read_text())
    clusters = declared["config"]["gpus:clusters"] = {}
    for stack in stacks:
        file = made.folder / "stacks" / f"Pulumi.{stack}.yaml"
        (clusters[stack],) = yaml.safe_load(file.read_text())["config"]["gpus:clusters"].values()
        if stack in keep:
            clusters[stack]["workload"]["on_done"] = "keep"
    made.file.write_text(yaml.safe_dump(declared))
    made.rehearse("nodes", "docker")
    return made


def started(made, stack):
    """What the stand-ins of programs say on a cluster's first machine."""
    said = gpus(made, "logs", stack, "--lines", "0")
    return [line for line in said.splitlines() if "rehearsal stand-in: " in line]


def test_each_ported_job_runs_to_its_end_and_leaves_nothing(project, nodes) -> None:
    """One `up` of five jobs, three of them on two machines; each program ends with 0. Machines of
    all but one are kept, since nobody can ask a machine that is off what it ran.
    """
    made = together(project, JOBS, keep=JOBS.keys() - {ENDS_ITSELF})
    made.up()
    for stack, asked in JOBS.items():
        assert "exit code 0" in gpus(made, "wait", stack)
        if stack != ENDS_ITSELF:
            assert [line for line in started(made, stack) if re.search(asked, line)], stack
    made.destroy()
    assert nodes.running() == []


def test_each_ported_service_answers_and_leaves_nothing(project, nodes) -> None:
    """One `up` of five services; those with a token show it nobody, and refuse who has none."""
    made = together(project, SERVICES)
    made.up()
    for stack, asked in SERVICES.items():
        assert [line for line in started(made, stack) if re.search(asked, line)], stack
    out = json.loads(made.run("stack", "output", "-s", made.stack, "--json", "--show-secrets"))
    for stack in ("serve-llama-3", "serve-gpt-oss", "serve-mistral-tgi"):
        models = f"{out[stack]['endpoints'][0]}/v1/models"
        assert answer(models)[0] == 401
        assert answer(models, out[f"{stack}_token"])[0] == 200
    made.destroy()
    assert nodes.running() == []
