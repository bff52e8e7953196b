"""How each program is started on a placement: one small recipe for every launcher, its flags taken
from the program's own documentation.

Owns the command lines and their defaults; a line with steps of its own is a shell program beside
this file. A line is for `bash -c`: values of the user's are quoted, `$GPUS_*` are the start-up
script's own variables. What the documentation was, and when, stands with each recipe.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from providers.errors import Problem, SpecError
from providers.model import shell
from providers.workloads.launch.flags import Ours, given, ours, written
from providers.workloads.sizing.memory import LLAMA_CPP, USABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.model.workload import Task

RENDEZVOUS_PORT = 29_500
RAY_PORT = 6_379
LOGIN_WAIT_S = 1_800
"""How long the first node waits until the others take its login: they may set up longer than it."""
TOKEN = "GPUS_TOKEN"  # noqa: S105 - its name, not its value
"""The variable that holds a service's token."""


class Where(NamedTuple):
    """The placement that was won, as a recipe needs it. `host` is the address to listen at;
    `tensor`, `pipeline`, `replicas` split a served model.
    """

    gpu_count: int
    nodes: int = 1
    host: str = "127.0.0.1"
    tensor: int = 1
    pipeline: int = 1
    replicas: int = 1
    token: bool = False


class Recipe(NamedTuple):
    """`line` gives the command line. A server has a `port`, and a `health` path that answers 200
    once it works. `token` says that it checks a key by itself; `nodes` that it spans machines.
    `image` is what it runs in where none is named (nothing: on the machine itself).
    """

    line: Callable[[Task, Where], str]
    source: str
    port: int = 0
    health: str = ""
    token: bool = False
    nodes: bool = False
    image: str = ""


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _meeting(where: Where, rank: str, address: str, port: str) -> tuple[Ours, Ours, Ours]:
    """How the nodes of a run find each other, by the flags of one program."""
    several = where.nodes > 1
    return (
        Ours(rank, several and '"$GPUS_NODE_RANK"'),
        Ours(address, several and '"$GPUS_LEADER"'),
        Ours(port, several and RENDEZVOUS_PORT),
    )


_RENDEZVOUS = ("nnodes", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "master-addr", "master-port")


def _torchrun(task: Task, where: Where) -> str:
    added = (
        Ours("--standalone", where.nodes == 1, _RENDEZVOUS),
        Ours("--nnodes", where.nodes > 1 and where.nodes),
        *_meeting(where, "--node-rank", "--master-addr", "--master-port"),
        Ours("--nproc-per-node", where.gpu_count),
    )
    return _join(
        "torchrun", *ours(given(task), *added, joined="="), *written(task, "="), task.command
    )


_DISTRIBUTED = (
    "config-file",
    "use-deepspeed",
    "use-fsdp",
    "use-megatron-lm",
    "use-parallelism-config",
    "cpu",
    "tpu",
)
"""What says itself how accelerate spreads a run. Beside `--multi_gpu`, a configuration file's
plugin is ignored and a plugin's own flag is an error (accelerate 1.15, commands/launch.py,
_validate_launch_command).
"""


def _accelerate(task: Task, where: Where) -> str:
    asked = given(task)
    total = where.gpu_count * where.nodes
    # A configuration file's word on number formats and compilation stands, unless the workload says
    # otherwise; on how many processes there are, and where, the placement's.
    filed = not {"config-file", "deepspeed-config-file"}.isdisjoint(asked)
    default = "" if filed else "bf16"
    precision = {"fp32": "no"}.get(
        task.dtype, task.dtype if task.dtype in {"bf16", "fp16", "fp8"} else default
    )
    # DeepSpeed else starts the other machines' processes itself; here each node starts its own.
    deepspeed = where.nodes > 1 and not {"config-file", "use-deepspeed"}.isdisjoint(asked)
    added = (
        Ours("--num_processes", total),
        Ours("--num_machines", where.nodes),
        Ours("--dynamo_backend", "" if filed else "no"),
        Ours("--multi_gpu", total > 1, _DISTRIBUTED),
        *_meeting(where, "--machine_rank", "--main_process_ip", "--main_process_port"),
        Ours("--deepspeed_multinode_launcher", deepspeed and "standard"),
        Ours("--mixed_precision", precision),
        Ours("--num_cpu_threads_per_process", task.launcher == "kohya" and not filed and 1),
    )
    return _join(
        "accelerate launch", *ours(asked, *added, joined="="), *written(task, "="), task.command
    )


def _deepspeed(task: Task, where: Where) -> str:
    several = where.nodes > 1
    added = (
        Ours("--num_gpus", not several and where.gpu_count, ("include", "exclude", "hostfile")),
        Ours("--hostfile", several and '"$GPUS_ROOT/hostfile"'),
        Ours("--no_ssh", several),
        *_meeting(where, "--node_rank", "--master_addr", "--master_port"),
    )
    line = _join(
        "deepspeed", *ours(given(task), *added, joined="="), *written(task, "="), task.command
    )
    if not several:
        return line
    return (
        f'awk \'{{print $0 " slots={where.gpu_count}"}}\' "$GPUS_ROOT/peers" >"$GPUS_ROOT/hostfile"'
        f" && {line}"
    )


def _lightning(task: Task, where: Where) -> str:
    # Lightning starts one process for each GPU by running the script again, so the script must be a
    # process of its own: here it always is. Over several machines it takes rank and address from
    # torchrun.
    if where.nodes > 1:
        return _torchrun(task, where)
    return _join("python3", task.command, *written(task))


def _ray(task: Task, where: Where) -> str:
    return _last_line_open(
        shell.program(
            __file__,
            "ray",
            gpus=where.gpu_count,
            nodes=where.nodes,
            port=RAY_PORT,
            work=task.command,
        )
    )


_PROCESSES = ("n", "c", "np", "N", "npernode", "pernode", "hostfile", "machinefile", "host", "H")


def _mpi(task: Task, where: Where) -> str:
    several = where.nodes > 1
    added = (
        Ours("-np", where.gpu_count * where.nodes, _PROCESSES),
        Ours("--hostfile", several and '"$GPUS_HOSTFILE"', ("machinefile", "host", "H")),
    )
    line = _join("mpirun", *ours(given(task), *added), *written(task), task.command)
    if not several:
        return line
    program = shell.program(__file__, "mpi", nodes=where.nodes, work=line, wait_s=LOGIN_WAIT_S)
    return _last_line_open(program)


def _last_line_open(program: str) -> str:
    """Without the end of its last line, which may get further words."""
    return program.removesuffix("\n")


def _key(variable: str, where: Where) -> str:
    """The token as the program's own variable: on a command line everybody on the machine could
    read it.
    """
    return f'{variable}="${TOKEN}"' if where.token else ""


def _named(model: str) -> str:
    """A model as a word of the shell; in quotes nothing would expand a leading `~`."""
    return f'"$HOME"/{shlex.quote(model[2:])}' if model.startswith("~/") else shlex.quote(model)


def _dtype(task: Task) -> str:
    return {"fp16": "half", "bf16": "bfloat16", "fp32": "float32"}.get(task.dtype, "auto")


def _vllm(task: Task, where: Where) -> str:
    split = (
        "tensor-parallel-size",
        "tp",
        "pipeline-parallel-size",
        "pp",
        "data-parallel-size",
        "dp",
    )
    several = where.nodes > 1
    added = (
        Ours("--host", where.host),
        Ours("--port", task.port or VLLM_PORT),
        Ours("--nnodes", several and where.nodes),
        *_meeting(where, "--node-rank", "--master-addr", "--master-port"),
        Ours("--tensor-parallel-size", where.tensor, split),
        Ours("--pipeline-parallel-size", where.pipeline > 1 and where.pipeline, split),
        Ours("--data-parallel-size", where.replicas > 1 and where.replicas, split),
        Ours("--dtype", _dtype(task)),
        Ours("--quantization", _VLLM_QUANTIZATION.get(task.dtype), ("q",)),
        Ours("--gpu-memory-utilization", USABLE),
        Ours("--max-model-len", task.context),
        Ours("--max-num-seqs", task.concurrency),
    )
    return _join(
        _key("VLLM_API_KEY", where),
        'VLLM_HOST_IP="$GPUS_ADDRESS"' if several else "",
        "vllm serve",
        _named(task.model),
        *ours(given(task), *added),
        '$([ "$GPUS_NODE_RANK" = 0 ] || echo --headless)' if several else "",
        *written(task),
        task.command,
    )


_VLLM_QUANTIZATION = {"fp8": "fp8", "awq": "awq", "gptq": "gptq", "nf4": "bitsandbytes"}


def _sglang(task: Task, where: Where) -> str:
    split = (
        "tp-size",
        "tp",
        "tensor-parallel-size",
        "pp-size",
        "pp",
        "pipeline-parallel-size",
        "dp-size",
        "dp",
        "data-parallel-size",
    )
    several = where.nodes > 1
    added = (
        Ours("--model-path", _named(task.model)),
        Ours("--host", where.host),
        Ours("--port", task.port or SGLANG_PORT),
        Ours("--nnodes", several and where.nodes),
        Ours("--node-rank", several and '"$GPUS_NODE_RANK"'),
        Ours("--dist-init-addr", several and f'"$GPUS_LEADER:{RENDEZVOUS_PORT}"'),
        Ours("--tp-size", where.tensor, split),
        Ours("--pp-size", where.pipeline > 1 and where.pipeline, split),
        Ours("--dp-size", where.replicas > 1 and where.replicas, split),
        Ours("--dtype", task.dtype in {"bf16", "fp16", "fp32"} and _dtype(task)),
        Ours("--quantization", task.dtype in {"fp8", "awq", "gptq"} and task.dtype),
        Ours("--context-length", task.context),
        Ours("--max-running-requests", task.concurrency),
    )
    return _join(
        "python3 -m sglang.launch_server", *ours(given(task), *added), *written(task), task.command
    )


def _tgi(task: Task, where: Where) -> str:
    added = (
        Ours("--model-id", _named(task.model)),
        Ours("--hostname", where.host),
        Ours("--port", task.port or TGI_PORT),
        Ours("--num-shard", where.tensor, ("sharded",)),
        # A number format of the weights and one of the arithmetic exclude each other.
        Ours("--dtype", {"bf16": "bfloat16", "fp16": "float16"}.get(task.dtype), ("quantize",)),
        Ours(
            "--quantize",
            {
                "fp8": "fp8",
                "awq": "awq",
                "gptq": "gptq",
                "nf4": "bitsandbytes-nf4",
                "int8": "eetq",
            }.get(task.dtype),
        ),
        Ours("--max-total-tokens", task.context),
        Ours("--max-concurrent-requests", task.concurrency),
    )
    return _join(
        _key("API_KEY", where),
        "text-generation-launcher",
        *ours(given(task), *added),
        *written(task),
        task.command,
    )


def _ollama(task: Task, where: Where) -> str:
    own = {name for name, _ in task.env}
    program = shell.program(
        __file__,
        "ollama",
        model=task.model,
        listen=where.host,
        port=task.port or OLLAMA_PORT,
        context="" if "OLLAMA_CONTEXT_LENGTH" in own else task.context or "",
        parallel="" if "OLLAMA_NUM_PARALLEL" in own else task.concurrency or "",
    )
    return _last_line_open(program)


def _llama_cpp(task: Task, where: Where) -> str:
    local = task.model.endswith(".gguf")
    # A repository holds one file for each format; without its name llama.cpp takes Q4_K_M, or the
    # first.
    named = task.dtype in LLAMA_CPP | {"bf16", "fp16"} and not local and ":" not in task.model
    model = (
        f"{task.model}:{'F16' if task.dtype == 'fp16' else task.dtype.upper()}"
        if named
        else task.model
    )
    several = where.gpu_count > 1
    split = ("tensor-split", "ts")
    added = (
        Ours("-m", local and _named(model), ("model",)),
        Ours("-hf", not local and _named(model), ("hfr", "hf-repo", "model", "m")),
        Ours("--host", where.host),
        Ours("--port", task.port or LLAMA_CPP_PORT),
        Ours("-ngl", 999, ("gpu-layers", "n-gpu-layers")),
        Ours("--split-mode", several and "layer", ("sm", *split)),
        Ours("--tensor-split", several and ",".join(["1"] * where.gpu_count), split),
        # The context of llama.cpp's server is shared by its slots.
        Ours("-c", task.context * max(1, task.concurrency), ("ctx-size",)),
        Ours("--parallel", task.concurrency, ("np", "n-parallel")),
    )
    return _join(
        _key("LLAMA_API_KEY", where),
        "llama-server",
        *ours(given(task), *added),
        *written(task),
        task.command,
    )


def _comfyui(task: Task, where: Where) -> str:
    return _join(
        'cd "${COMFYUI_HOME:-$HOME/ComfyUI}" && exec python3 main.py',
        f"--listen {where.host}",
        f"--port {task.port or COMFYUI_PORT}",
        *written(task),
        task.command,
    )


def _flux(task: Task, where: Where) -> str:
    fetch = (
        f'hf download {_named(task.model)} --include "*.safetensors" --local-dir'
        ' "${COMFYUI_HOME:-$HOME/ComfyUI}/models/checkpoints"'
    )
    return f"{fetch} && {_comfyui(task, where)}"


def _webui(task: Task, where: Where) -> str:
    listen = "--listen" if where.host == "0.0.0.0" else ""  # noqa: S104 - compared, not bound
    return _join(
        'cd "${SD_WEBUI_HOME:-$HOME/stable-diffusion-webui}" && exec python3 launch.py --api',
        listen,
        f"--port {task.port or WEBUI_PORT}",
        *written(task),
        task.command,
    )


VLLM_PORT, SGLANG_PORT, TGI_PORT, OLLAMA_PORT, LLAMA_CPP_PORT, COMFYUI_PORT, WEBUI_PORT = (
    8000,
    30_000,
    8080,
    11_434,
    8080,
    8188,
    7860,
)

RECIPES: dict[str, Recipe] = {
    "torchrun": Recipe(
        _torchrun, "docs.pytorch.org/docs/stable/elastic/run.html, 2026-11", nodes=True
    ),
    "accelerate": Recipe(
        _accelerate, "huggingface.co/docs/accelerate/package_reference/cli, 2026-11", nodes=True
    ),
    "deepspeed": Recipe(_deepspeed, "deepspeed.ai/getting-started, 2026-11", nodes=True),
    "kohya": Recipe(_accelerate, "github.com/kohya-ss/sd-scripts, 2026-11"),
    "lightning": Recipe(
        _lightning,
        "lightning.ai/docs/pytorch/stable/clouds/cluster_intermediate_1.html, 2026-11",
        nodes=True,
    ),
    "ray": Recipe(_ray, "docs.ray.io/en/latest/cluster/cli.html, 2026-11", nodes=True),
    "mpi": Recipe(_mpi, "docs.open-mpi.org, mpirun 4.1 and 5.0, 2026-11", nodes=True),
    "vllm": Recipe(
        _vllm,
        "docs.vllm.ai/en/stable/cli/serve.html and docs/serving/parallelism_scaling.md, 2026-11",
        VLLM_PORT,
        "/health",
        token=True,
        nodes=True,
        image="vllm/vllm-openai:latest",
    ),
    "sglang": Recipe(
        _sglang,
        "docs.sglang.ai/advanced_features/server_arguments.html, 2026-11",
        SGLANG_PORT,
        "/health",
        nodes=True,
        image="lmsysorg/sglang:latest",
    ),
    "tgi": Recipe(
        _tgi,
        "huggingface.co/docs/text-generation-inference/reference/launcher, 2026-11",
        TGI_PORT,
        "/health",
        token=True,
        image="ghcr.io/huggingface/text-generation-inference:latest",
    ),
    "ollama": Recipe(
        _ollama,
        "docs.ollama.com/faq, 2026-11",
        OLLAMA_PORT,
        "/api/version",
        image="ollama/ollama:latest",
    ),
    "llama.cpp": Recipe(
        _llama_cpp,
        "github.com/ggml-org/llama.cpp, tools/server, 2026-11",
        LLAMA_CPP_PORT,
        "/health",
        token=True,
        image="ghcr.io/ggml-org/llama.cpp:server-cuda",
    ),
    "comfyui": Recipe(_comfyui, "docs.comfy.org, 2026-11", COMFYUI_PORT, "/system_stats"),
    "sd-webui": Recipe(
        _webui,
        "github.com/AUTOMATIC1111/stable-diffusion-webui/wiki/Command-Line-Arguments-and-Settings,"
        " 2026-11",
        WEBUI_PORT,
        "/sdapi/v1/options",
    ),
    "flux": Recipe(
        _flux,
        "docs.comfy.org and huggingface.co/docs/huggingface_hub/guides/cli, 2026-11",
        COMFYUI_PORT,
        "/system_stats",
    ),
}


def listens(launcher: str, port: int) -> int:
    """The port at which a program with this launcher and this declared port listens; 0 for none."""
    known = RECIPES.get(launcher)
    return port or (known.port if known is not None else 0)


def recipe(task: Task, path: str = "workload.launcher") -> Recipe | None:
    """The recipe of a task's launcher; None for a plain command. Raises SpecError for an unknown
    launcher.
    """
    if not task.launcher:
        return None
    found = RECIPES.get(task.launcher)
    if found is None:
        raise SpecError([Problem(path, f"one of {', '.join(RECIPES)}", repr(task.launcher))])
    return found
