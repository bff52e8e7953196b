"""How each program is started on a placement: one small recipe for every launcher, its flags taken from the program's own documentation.

Owns the command lines and their defaults. Pure. A line is for `bash -c`: values of the user's are quoted, `$GPUS_*` are the start-up script's own
variables. What the documentation was, and when, stands with each recipe.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from providers.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from providers.model.workload import Task

RENDEZVOUS_PORT = 29_500
RAY_PORT = 6_379
TOKEN = "GPUS_TOKEN"  # noqa: S105 - its name, not its value
"""The variable that holds a service's token."""


class Where(NamedTuple):
    """The placement that was won, as a recipe needs it. `host` is the address to listen at; `tensor`, `pipeline`, `replicas` split a served model."""

    gpu_count: int
    nodes: int = 1
    host: str = "127.0.0.1"
    tensor: int = 1
    pipeline: int = 1
    replicas: int = 1
    token: bool = False


class Recipe(NamedTuple):
    """`line` gives the command line. A server has a `port`, and a `health` path that answers 200 once it works. `token` says that it checks a key
    by itself; `nodes` that it spans machines. `image` is what it runs in where none is named (nothing: on the machine itself).
    """

    line: Callable[[Task, Where], str]
    source: str
    port: int = 0
    health: str = ""
    token: bool = False
    nodes: bool = False
    image: str = ""


def flags(args: Iterable[tuple[str, str | int | float | bool]], joined: str = " ") -> list[str]:
    """`--name value` for each; `true` is the bare flag, `false` leaves it out."""
    found: list[str] = []
    for name, value in args:
        if value is True:
            found.append(f"--{name}")
        elif value is not False:
            found.append(f"--{name}{joined}{shlex.quote(str(value))}")
    return found


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _torchrun(task: Task, where: Where) -> str:
    if where.nodes == 1:
        spread = "--standalone"
    else:
        spread = f'--nnodes={where.nodes} --node-rank="$GPUS_NODE_RANK" --master-addr="$GPUS_LEADER" --master-port={RENDEZVOUS_PORT}'
    return _join("torchrun", spread, f"--nproc-per-node={where.gpu_count}", *flags(task.args, "="), task.command)


def _accelerate(task: Task, where: Where) -> str:
    total = where.gpu_count * where.nodes
    parts = [f"--num_processes={total}", f"--num_machines={where.nodes}", "--dynamo_backend=no"]
    if total > 1:
        parts.append("--multi_gpu")
    if where.nodes > 1:
        parts.append(f'--machine_rank="$GPUS_NODE_RANK" --main_process_ip="$GPUS_LEADER" --main_process_port={RENDEZVOUS_PORT}')
    if "mixed_precision" not in dict(task.args):
        parts.append(f"--mixed_precision={task.dtype if task.dtype in {'bf16', 'fp16', 'fp8'} else 'no' if task.dtype == 'fp32' else 'bf16'}")
    return _join("accelerate launch", *parts, *flags(task.args, "="), task.command)


def _kohya(task: Task, where: Where) -> str:
    return _accelerate(task._replace(args=(("num_cpu_threads_per_process", 1), *task.args)), where)


def _deepspeed(task: Task, where: Where) -> str:
    if where.nodes == 1:
        return _join("deepspeed", f"--num_gpus={where.gpu_count}", *flags(task.args, "="), task.command)
    hosts = f'awk \'{{print $0 " slots={where.gpu_count}"}}\' "$GPUS_ROOT/peers" >"$GPUS_ROOT/hostfile"'
    spread = f'--hostfile="$GPUS_ROOT/hostfile" --no_ssh --node_rank="$GPUS_NODE_RANK" --master_addr="$GPUS_LEADER" --master_port={RENDEZVOUS_PORT}'
    return _join(hosts, "&&", "deepspeed", spread, *flags(task.args, "="), task.command)


def _lightning(task: Task, where: Where) -> str:
    # Lightning starts one process for each GPU by running the script again, so the script must be a process of its own: here it always is. Over
    # several machines it takes rank and address from torchrun.
    if where.nodes > 1:
        return _torchrun(task, where)
    return _join("python3", task.command, *flags(task.args))


def _ray(task: Task, where: Where) -> str:
    gpus = f"--num-gpus={where.gpu_count}"
    several = where.nodes > 1
    # Of several addresses that a machine has, the one by which the others know it; Ray itself takes the one that leads to the internet.
    leader, own = ("$GPUS_LEADER", ' --node-ip-address="$GPUS_ADDRESS"') if several else ("127.0.0.1", "")
    # Its daemons leave the process group, so they are ended by name when the program is to give way.
    stop = "ray stop >/dev/null 2>&1"
    ends = f"trap '{stop}; exit 143' TERM INT; "
    head = f"ray start --head --port={RAY_PORT}{own} {gpus} --dashboard-host=127.0.0.1 --disable-usage-stats"
    work = f'export RAY_ADDRESS="{leader}:{RAY_PORT}"; {_wait_for_nodes(where.nodes)}{task.command}'
    run = f"{head} && {{ {work}; }}; code=$?; {stop}; exit $code"
    if not several:
        return f"{ends}{run}"
    # A worker ends when its head does; that is no failure of its own.
    worker = (
        f'for _ in $(seq 120); do ray start --address="{leader}:{RAY_PORT}"{own} {gpus} --disable-usage-stats && break; sleep 5; done; '
        f'while ray health-check --address "{leader}:{RAY_PORT}" >/dev/null 2>&1; do sleep 5; done; {stop}; exit 0'
    )
    return f'{ends}if [ "$GPUS_NODE_RANK" = 0 ]; then {run}; else {worker}; fi'


def _wait_for_nodes(nodes: int) -> str:
    if nodes == 1:
        return ""
    count = "import ray; ray.init(logging_level='error'); print(sum(node['Alive'] for node in ray.nodes()))"
    return f'for _ in $(seq 120); do [ "$(python3 -c {shlex.quote(count)} 2>/dev/null | tail -n 1)" -ge {nodes} ] && break; sleep 5; done; '


def _key(variable: str, where: Where) -> str:
    """The token as the program's own variable: on a command line everybody on the machine could read it."""
    return f'{variable}="${TOKEN}"' if where.token else ""


def _dtype(task: Task) -> str:
    return {"fp16": "half", "bf16": "bfloat16", "fp32": "float32"}.get(task.dtype, "auto")


def _vllm(task: Task, where: Where) -> str:
    given = dict(task.args)
    parts = [f"--host {where.host}", f"--port {task.port or VLLM_PORT}", f"--tensor-parallel-size {where.tensor}"]
    if where.pipeline > 1:
        parts.append(f"--pipeline-parallel-size {where.pipeline}")
    if where.replicas > 1:
        parts.append(f"--data-parallel-size {where.replicas}")
    if "dtype" not in given:
        parts.append(f"--dtype {_dtype(task)}")
    if task.dtype in {"fp8", "awq", "gptq"} and "quantization" not in given:
        parts.append(f"--quantization {task.dtype}")
    if task.context and "max-model-len" not in given:
        parts.append(f"--max-model-len {task.context}")
    if task.concurrency and "max-num-seqs" not in given:
        parts.append(f"--max-num-seqs {task.concurrency}")
    return _join(_key("VLLM_API_KEY", where), "vllm serve", shlex.quote(task.model), *parts, *flags(task.args), task.command)


def _sglang(task: Task, where: Where) -> str:
    parts = [f"--model-path {shlex.quote(task.model)}", f"--host {where.host}", f"--port {task.port or SGLANG_PORT}", f"--tp-size {where.tensor}"]
    if where.pipeline > 1:
        parts.append(f"--pp-size {where.pipeline}")
    if where.replicas > 1:
        parts.append(f"--dp-size {where.replicas}")
    if task.dtype in {"bf16", "fp16", "fp32"}:
        parts.append(f"--dtype {_dtype(task)}")
    if task.dtype in {"fp8", "awq", "gptq"}:
        parts.append(f"--quantization {task.dtype}")
    if task.context:
        parts.append(f"--context-length {task.context}")
    if task.concurrency:
        parts.append(f"--max-running-requests {task.concurrency}")
    return _join("python3 -m sglang.launch_server", *parts, *flags(task.args), task.command)


def _tgi(task: Task, where: Where) -> str:
    parts = [f"--model-id {shlex.quote(task.model)}", f"--hostname {where.host}", f"--port {task.port or TGI_PORT}", f"--num-shard {where.tensor}"]
    if task.dtype in {"bf16", "fp16"}:
        parts.append(f"--dtype {'bfloat16' if task.dtype == 'bf16' else 'float16'}")
    if task.dtype in {"fp8", "awq", "gptq"}:
        parts.append(f"--quantize {task.dtype}")
    if task.dtype == "nf4":
        parts.append("--quantize bitsandbytes-nf4")
    if task.context:
        parts.append(f"--max-total-tokens {task.context}")
    if task.concurrency:
        parts.append(f"--max-concurrent-requests {task.concurrency}")
    return _join(_key("API_KEY", where), "text-generation-launcher", *parts, *flags(task.args), task.command)


def _ollama(task: Task, where: Where) -> str:
    at = f"{where.host}:{task.port or OLLAMA_PORT}"
    own = f"127.0.0.1:{task.port or OLLAMA_PORT}"
    fetch = f"for _ in $(seq 60); do OLLAMA_HOST={own} ollama pull {shlex.quote(task.model)} && break; sleep 5; done"
    wanted = f"OLLAMA_CONTEXT_LENGTH={task.context} " if task.context else ""
    many = f"OLLAMA_NUM_PARALLEL={task.concurrency} " if task.concurrency else ""
    return f"({fetch}) & {wanted}{many}OLLAMA_HOST={at} exec ollama serve"


def _llama_cpp(task: Task, where: Where) -> str:
    source = "-m" if task.model.endswith(".gguf") else "-hf"
    parts = [f"{source} {shlex.quote(task.model)}", f"--host {where.host}", f"--port {task.port or LLAMA_CPP_PORT}", "-ngl 999"]
    if where.gpu_count > 1 and "tensor-split" not in dict(task.args):
        parts.append(f"--split-mode layer --tensor-split {','.join(['1'] * where.gpu_count)}")
    if task.context:
        # The context of llama.cpp's server is shared by its slots.
        parts.append(f"-c {task.context * max(1, task.concurrency)}")
    if task.concurrency:
        parts.append(f"--parallel {task.concurrency}")
    return _join(_key("LLAMA_API_KEY", where), "llama-server", *parts, *flags(task.args), task.command)


def _comfyui(task: Task, where: Where) -> str:
    return _join(
        'cd "${COMFYUI_HOME:-$HOME/ComfyUI}" && exec python3 main.py',
        f"--listen {where.host}",
        f"--port {task.port or COMFYUI_PORT}",
        *flags(task.args),
        task.command,
    )


def _flux(task: Task, where: Where) -> str:
    fetch = f'hf download {shlex.quote(task.model)} --include "*.safetensors" --local-dir "${{COMFYUI_HOME:-$HOME/ComfyUI}}/models/checkpoints"'
    return f"{fetch} && {_comfyui(task, where)}"


def _webui(task: Task, where: Where) -> str:
    listen = "--listen" if where.host == "0.0.0.0" else ""  # noqa: S104 - compared, not bound
    return _join(
        'cd "${SD_WEBUI_HOME:-$HOME/stable-diffusion-webui}" && exec python3 launch.py --api',
        listen,
        f"--port {task.port or WEBUI_PORT}",
        *flags(task.args),
        task.command,
    )


VLLM_PORT, SGLANG_PORT, TGI_PORT, OLLAMA_PORT, LLAMA_CPP_PORT, COMFYUI_PORT, WEBUI_PORT = 8000, 30_000, 8080, 11_434, 8080, 8188, 7860

RECIPES: dict[str, Recipe] = {
    "torchrun": Recipe(_torchrun, "docs.pytorch.org/docs/stable/elastic/run.html, 2026-11", nodes=True),
    "accelerate": Recipe(_accelerate, "huggingface.co/docs/accelerate/package_reference/cli, 2026-11", nodes=True),
    "deepspeed": Recipe(_deepspeed, "deepspeed.ai/getting-started, 2026-11", nodes=True),
    "kohya": Recipe(_kohya, "github.com/kohya-ss/sd-scripts, 2026-11"),
    "lightning": Recipe(_lightning, "lightning.ai/docs/pytorch/stable/clouds/cluster_intermediate_1.html, 2026-11", nodes=True),
    "ray": Recipe(_ray, "docs.ray.io/en/latest/cluster/cli.html, 2026-11", nodes=True),
    "vllm": Recipe(_vllm, "docs.vllm.ai/en/stable/cli/serve.html, 2026-11", VLLM_PORT, "/health", token=True, image="vllm/vllm-openai:latest"),
    "sglang": Recipe(
        _sglang, "docs.sglang.ai/advanced_features/server_arguments.html, 2026-11", SGLANG_PORT, "/health", image="lmsysorg/sglang:latest"
    ),
    "tgi": Recipe(
        _tgi,
        "huggingface.co/docs/text-generation-inference/reference/launcher, 2026-11",
        TGI_PORT,
        "/health",
        token=True,
        image="ghcr.io/huggingface/text-generation-inference:latest",
    ),
    "ollama": Recipe(_ollama, "docs.ollama.com/faq, 2026-11", OLLAMA_PORT, "/api/version", image="ollama/ollama:latest"),
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
        _webui, "github.com/AUTOMATIC1111/stable-diffusion-webui/wiki/Command-Line-Arguments-and-Settings, 2026-11", WEBUI_PORT, "/sdapi/v1/options"
    ),
    "flux": Recipe(_flux, "docs.comfy.org and huggingface.co/docs/huggingface_hub/guides/cli, 2026-11", COMFYUI_PORT, "/system_stats"),
}


def listens(launcher: str, port: int) -> int:
    """The port at which a program with this launcher and this declared port listens; 0 for none."""
    known = RECIPES.get(launcher)
    return port or (known.port if known is not None else 0)


def recipe(task: Task, path: str = "workload.launcher") -> Recipe | None:
    """The recipe of a task's launcher; None for a plain command. Raises SpecError for an unknown launcher."""
    if not task.launcher:
        return None
    found = RECIPES.get(task.launcher)
    if found is None:
        raise SpecError([Problem(path, f"one of {', '.join(RECIPES)}", repr(task.launcher))])
    return found
