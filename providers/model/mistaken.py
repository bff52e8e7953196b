"""What newcomers write in a stack file, and what to write instead: values of a field, and fields of
other tools. Owns the tables; read only where something is wrong. Pure.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

from providers.model import duration, wording
from providers.model.workload_spec import Launcher

_LINE_MAX = 80
"""Characters of a corrected value; of a longer one only a sample is shown."""

CLOUDS = {
    **dict.fromkeys(("google", "google-cloud", "googlecloud", "google cloud", "gce"), "gcp"),
    **dict.fromkeys(("amazon", "ec2", "amazon-web-services", "amazon web services"), "aws"),
    **dict.fromkeys(("vertex-ai", "vertexai", "vertex_ai", "vertex ai"), "vertex"),
    **dict.fromkeys(("clore.ai", "clore-ai", "cloreai"), "clore"),
    **dict.fromkeys(("modal.com", "modal-labs"), "modal"),
    **dict.fromkeys(("local", "localhost", "on-prem", "onprem", "own", "bare-metal"), "ssh"),
}
"""What a provider is called elsewhere -> its name here."""
_EVERY = frozenset({"cheapest", "any", "all", "auto", "*", "every", "best"})
_OWN_COMMAND = "leave launcher out: command by itself runs any program, in the image that you name"
LAUNCHERS = {
    "axolotl": "accelerate, and command: -m axolotl.cli.train CONFIG.yaml",
    **dict.fromkeys(
        ("llama-factory", "llamafactory", "llamafactory-cli"),
        "leave launcher out, and write command: llamafactory-cli train CONFIG.yaml",
    ),
    **dict.fromkeys(
        ("huggingface", "hf", "transformers", "trl", "peft", "diffusers", "unsloth"), "accelerate"
    ),
    **dict.fromkeys(("pytorch", "torch", "ddp", "fsdp", "torch.distributed"), "torchrun"),
    **dict.fromkeys(("pytorch-lightning", "lightning.ai", "pl"), "lightning"),
    **dict.fromkeys(("mpirun", "mpiexec", "openmpi", "horovod"), "mpi"),
    **dict.fromkeys(("zero", "zero3", "deepspeed-zero", "ds"), "deepspeed"),
    **dict.fromkeys(("kohya_ss", "kohya-ss", "sd-scripts"), "kohya"),
    **dict.fromkeys(("text-generation-inference", "huggingface-tgi"), "tgi"),
    **dict.fromkeys(("llamacpp", "llama-cpp", "llama_cpp", "llama-server"), "llama.cpp"),
    **dict.fromkeys(("automatic1111", "a1111", "stable-diffusion-webui", "webui"), "sd-webui"),
    "comfy": "comfyui",
}
"""A tool that newcomers name -> what to write for it."""
KINDS = {
    **dict.fromkeys(("training", "train", "batch", "task", "script", "finetune"), "job"),
    **dict.fromkeys(("serve", "serving", "server", "inference", "endpoint", "deploy"), "service"),
    **dict.fromkeys(("vm", "instance", "dev", "interactive", "notebook", "node"), "machine"),
}

_RENAMED = {
    **dict.fromkeys(("accelerators", "accelerator", "gpu_type"), "gpu"),
    **dict.fromkeys(("gpus", "count", "gpu_count", "num_gpus", "gpus_per_node"), "gpu"),
    **dict.fromkeys(("provider", "cloud", "clouds", "backends"), "providers"),
    **dict.fromkeys(("region", "zone", "zones", "location"), "regions"),
    **dict.fromkeys(("use_spot", "spot_policy", "preemptible", "interruptible"), "spot"),
    **dict.fromkeys(("timeout", "max_duration", "duration", "hours", "time_limit"), "ttl"),
    **dict.fromkeys(("autostop", "auto_stop", "idle_timeout", "idle"), "idle_after"),
    **dict.fromkeys(("any_of", "ordered", "fallbacks"), "fallback"),
    **dict.fromkeys(("max_price", "price", "max_cost", "budget"), "max_price_per_hour"),
    **dict.fromkeys(("num_nodes", "machines"), "nodes"),
    **dict.fromkeys(("disk", "disk_size", "disk_gb", "storage"), "disk_gib"),
    **dict.fromkeys(("commands", "entrypoint", "script", "run", "cmd"), "workload.command"),
    **dict.fromkeys(("envs", "environment"), "workload.env"),
    **dict.fromkeys(("docker_image", "container"), "workload.image"),
    "file_mounts": "workload.mounts",
}
"""What other tools call a field (SkyPilot's and dstack's task files, 2026-11) -> the field here."""
_RENAMED_INSIDE = {
    "Gpu": {
        **dict.fromkeys(("name", "model", "gpu", "kind", "accelerator"), "type"),
        **dict.fromkeys(("number", "quantity", "gpus", "num"), "count"),
        **dict.fromkeys(("memory", "memory_gb", "vram", "min_memory"), "min_memory_gib"),
    },
    "Workload": {
        **dict.fromkeys(("script", "run", "cmd", "commands", "entrypoint"), "command"),
        **dict.fromkeys(("docker_image", "container"), "image"),
        **dict.fromkeys(("environment", "envs", "env_vars"), "env"),
        **dict.fromkeys(("tool", "framework", "type"), "launcher"),
    },
}
"""The same, of what stands inside, by its model."""
_NEEDLESS = {
    **dict.fromkeys(
        ("instance_type", "machine_type", "instance", "machine"),
        "leave it out: the machine follows from gpu; `gpus offers` shows which there are",
    ),
    **dict.fromkeys(
        ("memory", "cpu", "cpus", "vcpus", "ram"),
        "leave it out: each machine brings its own; gpu: {min_memory_gib: 24} asks for a GPU's",
    ),
}


class Renamed(NamedTuple):
    """The field that was meant, by its path in a cluster (empty for none), and what to do."""

    here: str
    todo: str


def field(name: str, found: object, cluster: Mapping[str, Any], inside: str = "") -> Renamed | None:
    """What a field that there is not was meant as; None where nothing is known. `inside` is the
    name of the model that it stands in.
    """
    if inside:
        here = _RENAMED_INSIDE.get(inside, {}).get(name, "")
        is_shown = here != "env" and _short(found) and "=" not in str(found)
        line = value(here, found) or (f"write {here}: {_flow(found)}" if is_shown else "")
        outer = _RENAMED.get(name, "")
        if here:
            return Renamed(here, line)
        is_outer = outer and not outer.startswith("workload.")
        return Renamed(f"{outer} of the cluster", outside(outer, found)) if is_outer else None
    if name in _NEEDLESS:
        return Renamed("", _NEEDLESS[name])
    here = _RENAMED.get(name, "")
    if not here:
        return None
    if here == "gpu" and _is_whole(found):
        gpu = cluster.get("gpu")
        card = gpu.strip() if isinstance(gpu, str) and gpu.strip() and ":" not in gpu else "TYPE"
        return Renamed(here, f'write gpu: "{card}:{_whole(found)}"')
    outer, _, inner = here.rpartition(".")
    if outer:
        return Renamed(here, moved(inner, found, cluster))
    if (todo := value(here, found)) or not _short(found) or here == "spot":
        return Renamed(here, todo)
    return Renamed(here, f"write {here}: {_flow(found)}")


def moved(name: str, found: object, cluster: Mapping[str, Any]) -> str:
    """What to do with a field of the workload that stands in the cluster itself."""
    inner = value(name, found).removeprefix(f"write {name}: ")
    if name == "env" or not (inner or _short(found)) or "=" in str(found):
        # What assigns may assign a secret.
        return "move it under workload"
    line = f"{name}: {inner or _flow(found)}"
    if isinstance(cluster.get("workload"), Mapping):
        return f"write it under workload, as {line}"
    return f"write workload: {{{line}}}"


def outside(name: str, found: object) -> str:
    """What to do with a field of the cluster that stands inside one of its fields."""
    rewritten = value(name, found).removeprefix(f"write {name}: ")
    if not (rewritten or _short(found)) or "=" in str(found):
        return "move it into the cluster"
    return f"write it in the cluster, as {name}: {rewritten or _flow(found)}"


def value(path: str, found: object) -> str:
    """What to write for a value that a field does not take, as the line to copy; empty where
    nothing is known. Never repeats the value of a variable.
    """
    name, _, index = path.rpartition(".")[2].partition("[")
    holder = path.rpartition(".")[0].rpartition(".")[2]
    if holder in {"env", "labels"}:
        return _variable(name, found)
    rewrite = _REWRITES.get(name)
    if rewrite is None:
        return f"write {name}: {_whole(found)}" if name in _COUNTS and _is_whole(found) else ""
    said = rewrite(found, name)
    if not said or said.startswith(("leave ", "list ")):
        return said
    return (
        f"write {said[1:-1] if index and said.startswith('[') else said}"
        if index
        else (f"write {name}: {said}")
    )


def _variable(name: str, found: object) -> str:
    if isinstance(found, (bool, int, float)):
        return f'write {name}: "{_flow(found)}"'
    if found is None:
        return f'write {name}: "" for an empty text; what is secret belongs under secrets'
    return ""


_COUNTS = frozenset({"nodes", "replicas", "count", "concurrency"})


def _is_whole(found: object) -> bool:
    return not isinstance(found, bool) and bool(re.fullmatch(r"[1-9][0-9]{0,4}", str(found)))


def _whole(found: object) -> str:
    return str(found).strip()


def _short(found: object) -> bool:
    return isinstance(found, (str, int, float)) and len(str(found)) <= _LINE_MAX


def _flow(found: object) -> str:
    """A text, a number or a truth value as YAML has it inside braces too."""
    if not isinstance(found, str):
        return json.dumps(found)
    plain = re.fullmatch(r"[A-Za-z_/.][A-Za-z0-9_./@=+ -]*[A-Za-z0-9_/]|[A-Za-z.]", found)
    is_number = re.fullmatch(r"[0-9]+[A-Za-z]+", found)
    return found if plain or is_number else json.dumps(found, ensure_ascii=False)


def _words(found: object) -> list[str]:
    """The words of a text, of a list of them, or the keys of a mapping."""
    if isinstance(found, str):
        return [word for word in re.split(r"[,;\s]+", found) if word]
    if isinstance(found, Mapping):
        return [str(key) for key in found]
    if isinstance(found, (list, tuple)):
        return [str(word) for word in found]
    return []


def _providers(found: object, _: str) -> str:
    whole = CLOUDS.get(found.strip().casefold()) if isinstance(found, str) else None
    words = [whole] if whole else _words(found)
    if _EVERY & {word.casefold() for word in words}:
        return "leave providers out: every provider is asked then, and the cheapest comes first"
    return _listed([CLOUDS.get(word.casefold(), word.casefold()) for word in words])


def provider(word: str) -> str:
    """What to do about an unknown provider's name in a list; empty where nothing is known."""
    if word.casefold() in _EVERY:
        return _providers(word, "")
    meant = CLOUDS.get(word.strip().casefold(), "")
    return f"write {meant}" if meant else ""


def _listed(words: list[str]) -> str:
    text = f"[{', '.join(words)}]"
    return text if words and len(text) <= _LINE_MAX else ""


def _regions(found: object, _: str) -> str:
    """A zone's last letter is no part of its region."""
    return _listed([re.sub(r"(?<=\d)-?[a-z]$", "", word) for word in _words(found)])


def _plain_list(found: object, _: str) -> str:
    return _listed(_words(found)) if isinstance(found, str) else ""


def _choices(found: object, _: str) -> str:
    words = re.split(r"\s*,\s*", found.strip()) if isinstance(found, str) and found.strip() else []
    return _listed([json.dumps(word) for word in words])


def _ports(found: object, _: str) -> str:
    if isinstance(found, str):
        single = re.fullmatch(r"\s*(\d{1,5})(?::\1)?(?:/tcp)?\s*", found)
        if single is None:
            return "list each port by itself, as a number"
        found = int(single[1])
    return f"[{found}]" if _is_whole(found) and int(str(found)) <= 65_535 else ""


def _duration(found: object, _: str) -> str:
    return " or ".join(duration.meant(found, 600))


_MONEY = re.compile(
    r"(?:US|USD)?\s*\$?\s*(\d{1,3}(?:,\d{3})+|\d{1,7})(\.\d{1,6})?\s*(?:\$|USD|dollars?)?"
    r"(?:\s*(?:/|per|an?)\s*(?P<unit>h|hr|hour|mo|month))?",
    re.IGNORECASE,
)


def money(found: object, unit: str = "h") -> str:
    """`8` for `$8`, `8 USD` or `$8/h`; empty for other texts, and for money a month where it is an
    hour's (`unit`), and the other way round.
    """
    match = _MONEY.fullmatch(found.strip()) if isinstance(found, str) else None
    if match is None or (match["unit"] or unit).casefold()[0] != unit:
        return ""
    return match[1].replace(",", "") + (match[2] or "")


def _hourly(found: object, _: str) -> str:
    return money(found)


def _gib(found: object, _: str) -> str:
    match = (
        re.fullmatch(r"\s*(\d{1,6})\s*(?:([gt])(?:i?b|i)?)?\s*", found, re.IGNORECASE)
        if isinstance(found, str)
        else None
    )
    if match is None:
        return ""
    return str(int(match[1]) * (1024 if (match[2] or "g") in "tT" else 1))


def _launcher(found: object, _: str) -> str:
    word = str(found).strip().casefold()
    close = wording.close(word, get_args(Launcher))
    return LAUNCHERS.get(word, " or ".join(close) or _OWN_COMMAND)


def _kind(found: object, _: str) -> str:
    return KINDS.get(str(found).strip().casefold(), "")


def _spot(found: object, _: str) -> str:
    if found is True or str(found).casefold() in {"yes", "true", "on", "allow", "allowed"}:
        return "prefer (on-demand where there is none), or spot: only"
    return "never" if found is False or str(found).casefold() in {"no", "false", "off"} else ""


def _flag(found: object, _: str) -> str:
    return {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(
        str(found).casefold(), ""
    )


def _command(found: object, _: str) -> str:
    """A list of words is one command; one of lines, several that follow each other."""
    if not isinstance(found, (list, tuple)) or not all(isinstance(each, str) for each in found):
        return ""
    lines = any(re.search(r"\s", each) for each in found[:1])
    text = " && ".join(found) if lines else shlex.join(found)
    return _flow(text if "=" not in text and 0 < len(text) <= _LINE_MAX else "python train.py")


def _env(found: object, _: str) -> str:
    words = [word.partition("=")[0].strip() for word in _words(found)]
    names = [word for word in words if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", word)]
    text = ", ".join(f"{name}: VALUE" for name in names)
    return f"{{{text}}}" if names and len(text) <= _LINE_MAX else "{NAME: VALUE}"


def _workload(found: object, _: str) -> str:
    is_shown = isinstance(found, str) and _short(found) and "=" not in found
    return f"{{command: {_flow(found) if is_shown else 'python train.py'}}}"


def _checkpoint(found: object, _: str) -> str:
    is_bucket = isinstance(found, str) and re.fullmatch(r"(gs|s3)://[\w./-]{1,60}", found)
    return f'{{path: /ckpt, to: "{found}"}}' if is_bucket else ""


def _gpu(found: object, _: str) -> str:
    if isinstance(found, int) and not isinstance(found, bool):
        # A card is known by its number; a small number is a count.
        return f'"RTX-{found}"' if found >= 1000 else f'"TYPE:{found}", as in gpu: "H100:8"'
    return ""


_REWRITES: dict[str, Callable[[object, str], str]] = {
    "gpu": _gpu,
    "fallback": _choices,
    "providers": _providers,
    "regions": _regions,
    "capacity": _plain_list,
    "ports": _ports,
    "ttl": _duration,
    "idle_after": _duration,
    "max_price_per_hour": _hourly,
    "price_usd_per_hour": _hourly,
    "disk_gib": _gib,
    "min_memory_gib": _gib,
    "launcher": _launcher,
    "kind": _kind,
    "spot": _spot,
    "marketplaces": _flag,
    "command": _command,
    "env": _env,
    "workload": _workload,
    "checkpoint": _checkpoint,
}
"""A field -> what to write there for a wrong value."""
