"""Flags that a launcher's program does not have, or understands otherwise, and that are often
written all the same. Pure.

Owns the list. Only what is known to be wrong is refused: a flag that is not listed passes, programs
get new ones every month. Sources: each program's own documentation, as named with its recipe,
2026-11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.errors import Problem
from providers.workloads.launch.flags import RUNNERS, commanded, given, one, split
from providers.workloads.sizing import architecture

if TYPE_CHECKING:
    from providers.model.workload import Override, Task

LANGUAGE = frozenset({"vllm", "sglang", "tgi", "ollama", "llama.cpp"})
_TRAINING = "a training flag: a server keeps no activations for a backward pass"
ABSENT = {
    ("vllm", "max-batch-size"): (
        "vLLM has no such flag; max-num-seqs bounds the sequences at once, max-num-batched-tokens"
        " the tokens of a step"
    ),
    (
        "sglang",
        "max-batch-size",
    ): "SGLang has no such flag; max-running-requests bounds the requests at once",
    ("vllm", "gradient-checkpointing"): _TRAINING,
    ("sglang", "gradient-checkpointing"): _TRAINING,
    ("tgi", "gradient-checkpointing"): _TRAINING,
    ("llama.cpp", "gradient-checkpointing"): _TRAINING,
    ("vllm", "tensor-split"): "vLLM splits evenly; llama.cpp has tensor-split, for unlike GPUs",
    (
        "llama.cpp",
        "tensor-parallel-size",
    ): "llama.cpp splits by layers: split-mode and tensor-split",
    ("tgi", "tensor-parallel-size"): "TGI calls it num-shard, and has it from the placement",
}
"""(launcher, flag): why it is refused and what is meant."""
ONE_DEVICE = {("sd-webui", "device-id"), ("comfyui", "cuda-device"), ("flux", "cuda-device")}
"""Flags that take the number of one GPU: these programs draw on one each."""


_EXPOSE = "expose: private is the loopback, public or token every address"
_MADE = "expose: token makes one, and hands it over where nobody else reads it"
OWN = {
    "port": "port",
    "host": _EXPOSE,
    "hostname": _EXPOSE,
    "listen": _EXPOSE,
    "server-name": _EXPOSE,
    "api-key": _MADE,
    "model": "model",
    "model-path": "model",
    "model-id": "model",
    **dict.fromkeys(("nnodes", "node-rank", "headless", "master-addr", "dist-init-addr"), "nodes"),
}
"""A server's flag, and the field that says it: health check, firewall and connection look there, so
a second word could only contradict it.
"""


def mistakes(task: Task, at: str) -> list[Problem]:
    """What is wrong with the flags of one task; `at` is the path of the task with its dot."""
    return [
        *_flags(task, at),
        *_twice(task, at),
        *_adapters(task, at),
        *_served(task, at),
        *_hidden(task, at),
        *_unreadable(task, at),
    ]


def changed(task: Task, override: Override, at: str) -> list[Problem]:
    """What is wrong with what a choice changes of one task; `at` is the path of the choice with its
    dot.
    """
    own = task._replace(args=override.args, command=override.command)
    found = [*_flags(own, at), *_twice(own, at), *_unreadable(own, at)]
    said = {} if override.command else {one(task.launcher, name): name for name in commanded(task)}
    for name, _ in override.args:
        if other := said.get(one(task.launcher, name)):
            todo = "say it in args of the workload, or write a command here too"
            found.append(
                Problem(
                    f"{at}args.{name}",
                    "a flag that the workload's command does not say",
                    f"--{other} in it",
                    todo,
                )
            )
    return found


def _twice(task: Task, at: str) -> list[Problem]:
    """Two names of one flag."""
    first: dict[str, str] = {}
    found = []
    for name, _ in task.args:
        other = first.setdefault(one(task.launcher, name), name)
        if other != name:
            found.append(
                Problem(
                    f"{at}args.{name}",
                    f"each flag of {task.launcher} once",
                    f"{other} too, which is the same flag",
                    "leave one out",
                )
            )
    return found


def _flags(task: Task, at: str) -> list[Problem]:
    found = []
    for name, (value, where) in given(task).items():
        if why := ABSENT.get((task.launcher, name)):
            found.append(Problem(f"{at}{where}", f"flags of {task.launcher}", f"--{name}", why))
        elif task.launcher not in RUNNERS and name in OWN:
            found.append(
                Problem(
                    f"{at}{where}", "flags that no field says", f"--{name}", f"write {OWN[name]}"
                )
            )
        elif (task.launcher, name) in ONE_DEVICE and "," in str(value):
            todo = f"{task.launcher} draws on one GPU: one service for each, with gpus: [N]"
            found.append(
                Problem(f"{at}{where}", f"one GPU's number for --{name}", repr(value), todo)
            )
    return found


def _adapters(task: Task, at: str) -> list[Problem]:
    """Kohya's train_network scripts import whatever `network_module` names, and end at once where
    nothing is named.
    """
    if (
        task.launcher != "kohya"
        or "train_network" not in task.command
        or "network_module" in task.command
        or "network_module" in dict(task.args)
    ):
        return []
    return [
        Problem(
            f"{at}command",
            "--network_module for a train_network script",
            "none",
            "for LoRA: --network_module=networks.lora",
        )
    ]


def _served(task: Task, at: str) -> list[Problem]:
    """What a server of language models could not load, or would never be told."""
    found = []
    if task.launcher in LANGUAGE and architecture.count(task.model) is not None:
        todo = "as in meta-llama/Llama-3.1-8B; a size is for `gpus size`, and for training"
        found.append(
            Problem(f"{at}model", f"a model that {task.launcher} can load", repr(task.model), todo)
        )
    if task.launcher == "ollama" and (task.args or task.command):
        where, said = (
            ("args", ", ".join(name for name, _ in task.args))
            if task.args
            else ("command", task.command)
        )
        todo = "context, concurrency, or variables in env, as in OLLAMA_KV_CACHE_TYPE: q8_0"
        found.append(
            Problem(
                f"{at}{where}", "nothing for ollama, which takes no flags", repr(said)[:80], todo
            )
        )
    return found


def _hidden(task: Task, at: str) -> list[Problem]:
    """GPUs that a launcher would count on and its program not see."""
    name = "CUDA_VISIBLE_DEVICES"
    seen = dict(task.env).get(name)
    if seen is None:
        return []
    todo = "leave it out; a program on some of the GPUs is one of services, with gpus: [0]"
    return [
        Problem(
            f"{at}env.{name}",
            f"nothing for {task.launcher}, whose flags follow the GPUs of the placement",
            repr(seen)[:80],
            todo,
        )
    ]


def _unreadable(task: Task, at: str) -> list[Problem]:
    """A quote that nothing closes: the shell ends at it, and it is unknown which
    flags were meant.
    """
    if (
        not task.command.split()
        or split(task.command)
        or "#" in task.command
        or "$'" in task.command
    ):  # the shell may read those after all
        return []
    return [
        Problem(
            f"{at}command",
            "words that the shell can read",
            repr(task.command)[:80],
            "close the quote",
        )
    ]
