"""The start-up script of a program: start.sh, which does each step once, survives reboots, and says
on the console how far it is.

Owns what its variables are set to, and which of its parts it needs, since a command has little
room. Everything of the user's is quoted; nothing of it is ever expanded by the script's own shell.

The folder is `$GPUS_ROOT` (`/var/lib/gpus/work`): `status` is the last word, `log` all output,
`DIGEST.done` the exit code of a program that has ended. A second start of the same program does
nothing while it runs, and nothing after it has ended well; of another program it stops the first.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from providers.model import shell
from providers.model.volume import VOLUME_IDS
from providers.model.workload import CONSOLE, RELEASE, ROOT
from providers.workloads.launch.images import SHELL
from providers.workloads.launch.proxy import HTTPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.model.workload import Process, Program

SECRETS = "/run/gpus/env"
"""Where start-up leaves the values of `secrets`, readable only by root."""
HEALTH_EVERY_S = 5
RESTART_MOST_S = 60
"""A service that ends is started again, after 1 s, 2 s, 4 s ... at most this long."""
UNSAVED = 74
"""What a job ends with that itself ended with 0, and whose checkpoints could not be saved (EX_IOERR
of sysexits.h).
"""
CACHES = {
    "HF_HUB_CACHE": "huggingface",
    "HUGGINGFACE_HUB_CACHE": "huggingface",
    "OLLAMA_MODELS": "ollama",
    "LLAMA_CACHE": "llama.cpp",
    "VLLM_CACHE_ROOT": "vllm",
    "TORCH_HOME": "torch",
}
"""The variables that say where programs keep models, and a folder for each: what a container has
downloaded outlives it.
"""
_HUB = {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}
_LEADERS_TOKEN = "leader_waits_for_token"  # noqa: S105 - a function's name
_KEPT = re.compile(r"^kept=(.*)\nto=(.*)$", re.MULTILINE)
BY_LOGIN_WAIT_S = 1_800
"""How long a start waits for what the engine writes into the folder by login: the addresses of the
other nodes, and a service's token.
"""


_STEPS = {
    "trouble": "check_room",
    "proxies": "use_proxies",
    "gate": "wait_for_go",
    "rsync": "install_rsync",
    "container": "prepare_docker",
    "proxy": "begin_proxy",
    "join": "join_fabric",
    "peers": "wait_for_peers",
    "token": "wait_for_token",
    "mounts": "mount_buckets",
    "volumes": "mount_volumes",
    "workdir": "wait_for_workdir",
}
"""By part of the script, in order: what it installs, and what its command waits for."""
PORT_BETWEEN = 10_022
"""Where nodes take each other's logins."""
VOLUME_WAIT_S = 600
"""How long a volume may take to be attached."""
WORKDIR_WAIT_S = 6 * 3_600
"""How long it waits for a folder, which may come over a slow line."""


def script(
    program: Program,
    *,
    release: str = "",
    inside: bool = False,
    lent: bool = False,
    gated: bool = False,
) -> str:
    """The whole text. Several nodes wait until the engine has written their addresses to `peers` in
    the folder; the first one leads. `release` is the line that ends the machine after a job with
    `on_done: release` (nothing: it stays). `inside`: it runs in the program's own image already,
    where the provider itself has mounted its buckets and volumes. `lent`: in a lease on a machine
    of the user's own. `gated`: nothing of it begins before the engine has written `go` there.
    """
    kept, job = program.checkpoint, program.kind == "job"
    to = "" if kept is None or kept.to.startswith("volume:") else kept.to
    image, mounts = ("", ()) if inside else (program.image, program.mounts)
    volumes = () if inside else program.volumes
    nodes = program.nodes if program.rendezvous else ""
    env = [
        f"{index} {name}={value}"
        for index, process in enumerate(program.processes)
        for name, value in process.env
    ]
    # What is read back from a script stands first: of several such lines the first one counts, and
    # the user's words come later.
    given: dict[str, str | int | Sequence[str]] = {
        "digest": program.digest,
        "kind": program.kind,
        "release": release if program.on_done == RELEASE else "",
        "steps": [],
        "kept": "" if kept is None else kept.path,
        "to": to,
        "resume": program.resume,
        "console": CONSOLE,
        "folder": ROOT,
        "secrets": SECRETS,
        "inside": "yes" if inside else "",
        "image": image,
        "setup": "\n".join(program.setup),
        "file_paths": [_below_home(path) for path, _ in program.files],
        "file_contents": [content for _, content in program.files],
        "process_lines": [process.line for process in program.processes],
        "process_env": env,
    }
    parts = ["job" if job else "service", *(["proxy"] if program.proxy_port else [])]
    given |= _proxy(program) if program.proxy_port else {}
    if gated:
        parts.append("gate")
        given |= {"wait_s": BY_LOGIN_WAIT_S}
    if job:
        given |= {"unsaved": UNSAVED}
    else:
        given |= {
            "health_every": HEALTH_EVERY_S,
            "restart_most": RESTART_MOST_S,
            "process_urls": list(map(_url, program.processes)),
        }
    if image:
        parts += ["container", *(["image_setup"] if program.setup else [])]
        caches = [
            f"{index} {pair}"
            for index, process in enumerate(program.processes)
            for pair in _caches(process.env)
        ]
        given |= {
            "entrypoint": SHELL,
            "model_paths": list(map(_below_home, program.models)),
            "process_names": [process.name for process in program.processes],
            "process_caches": caches,
            "cache_folders": sorted(set(CACHES.values())),
            "mount_paths": [],
            "mount_modes": [],
        }
        registry = program.registry
        given |= {"registry": registry.host if registry is not None else ""}
        if registry is not None:
            parts.append("registry")
            given |= {"registry_user": registry.username}
    if not inside or program.proxy_port:
        parts += ["unmount", "proxies", "packages", "trouble"]
    if mounts:
        parts.append("mounts")
        given |= {
            "mount_paths": [mount.path.rstrip("/") for mount in mounts],
            "mount_sources": [mount.source for mount in mounts],
            "mount_modes": ["rw" if mount.writable else "ro" for mount in mounts],
        }
    if volumes:
        parts.append("volumes")
        given |= {
            "volume_ids": VOLUME_IDS,
            "volume_wait": VOLUME_WAIT_S,
            "volume_names": [volume.name for volume in volumes],
            "volume_paths": [volume.path.rstrip("/") for volume in volumes],
            "volume_modes": ["rw" if volume.writable else "ro" for volume in volumes],
        }
    if nodes:
        parts += ["peers"] if inside else ["peers", "fabric", "join"]
        given |= {"nodes": nodes, "wait_s": BY_LOGIN_WAIT_S}
    if program.token_env:
        parts.append("token")
        given |= {"token_name": program.token_env, "wait_s": BY_LOGIN_WAIT_S}
    if program.workdir:
        # Inside a container nothing else is installed meanwhile: whoever sends it does that. On a
        # machine of the user's own nothing is.
        parts += ["workdir"] if inside or lent else ["workdir", "rsync"]
        given |= {"workdir": program.workdir, "workdir_wait": WORKDIR_WAIT_S}
    if to and kept is not None:
        parts.append("checkpoint")
        given |= {"save_every": kept.every_s}
    if lent:
        parts.append("lease")
    steps = {part: name for part, name in _STEPS.items() if part in parts}
    if program.led:
        parts.append("led")
        given |= {"process_urls": list(map(_url, program.processes))}
        steps |= {"token": _LEADERS_TOKEN} if "token" in steps else {}
    given |= {"steps": list(steps.values())}
    return shell.program(__file__, "start", *parts, **given)


def between(key: str) -> str:
    """What a script reads once it has its peers, by which the holders of this key log into each
    other.
    """
    return shell.program(__file__, "between", key=key, port=PORT_BETWEEN)


def leader_has_token(text: str) -> bool:
    """Whether of several nodes the first one alone waits for a token in this script."""
    found = re.search(r"^steps=\((.*)\)$", text, re.MULTILINE)
    return found is not None and _LEADERS_TOKEN in found[1].split()


def checkpoint(text: str) -> tuple[str, str] | None:
    """(folder, bucket's URL) that a script keeps; None for one that keeps none in a bucket."""
    found = _KEPT.search(text)
    return (
        (shlex.split(found[1])[0], shlex.split(found[2])[0])
        if found is not None and found[2]
        else None
    )


def _below_home(path: str) -> str:
    """A path as the script takes it: a relative one lies in the home folder."""
    return path.removeprefix("~/")


def _proxy(program: Program) -> dict[str, str | int | Sequence[str]]:
    """What the proxy passes requests to, and how it sees that this works."""
    served = next(each for each in program.processes if each.port)
    return {
        "proxy_port": program.proxy_port,
        "tls": "yes" if program.proxy_port == HTTPS else "",
        "service_port": served.port,
        "service_health": served.health or "/",
    }


def _url(process: Process) -> str:
    """What answers once the process works; nothing where it listens at no port."""
    return f"http://127.0.0.1:{process.port}{process.health or '/'}" if process.port else ""


def _caches(env: tuple[tuple[str, str], ...]) -> list[str]:
    """NAME=FOLDER of where a container's programs keep what they download, where the user's own
    variables do not say so.
    """
    own = {name for name, _ in env}
    own |= _HUB if own & _HUB else set()
    return [f"{name}={folder}" for name, folder in CACHES.items() if name not in own]
