"""The start-up script of a program: one bash text that does each step once, survives reboots, and tells on the console how far it is.

Owns the text and the words that it writes. Pure. Everything of the user's goes through `shlex.quote` or base64; nothing of it is ever expanded by the
script's own shell.

The folder is `$GPUS_ROOT` (`/var/lib/gpus/work`): `status` is the last word, `log` all output, `DIGEST.done` the exit code of a program that has
ended. A second start of the same program does nothing while it runs, and nothing after it has ended well; of another program it stops the first.
"""

from __future__ import annotations

import base64
import re
import shlex
from typing import TYPE_CHECKING

from providers.model.workload import CONSOLE, ROOT
from providers.workloads.launch.images import SHELL

if TYPE_CHECKING:
    from providers.model.workload import Program

SECRETS = "/run/gpus/env"
"""Where start-up leaves the values of `secrets`, readable by root alone."""
HEALTH_EVERY_S = 5
RESTART_MOST_S = 60
"""A service that ends is started again, after 1 s, 2 s, 4 s ... at most this long."""
UNSAVED = 74
"""What a job ends with that itself ended with 0, and whose checkpoints could not be saved (EX_IOERR of sysexits.h)."""
CACHES = {
    "HF_HUB_CACHE": "huggingface",
    "HUGGINGFACE_HUB_CACHE": "huggingface",
    "OLLAMA_MODELS": "ollama",
    "LLAMA_CACHE": "llama.cpp",
    "VLLM_CACHE_ROOT": "vllm",
    "TORCH_HOME": "torch",
}
"""The variables that say where programs keep models, and a folder for each: what a container has downloaded outlives it."""
_HUB = {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}
_KEPT = re.compile(r"^kept=(.+)\nto=(.+)$", re.MULTILINE)
PEERS_WAIT_S = TOKEN_WAIT_S = 1_800
"""How long a start waits for what the engine writes into the folder by login: the addresses of the other nodes, and a service's token."""


def script(program: Program, *, release: str = "", inside: bool = False) -> str:
    """The whole text. Several nodes wait until the engine has written their addresses to `peers` in the folder; the first one leads. `release` is the
    line that ends the machine after a job with `on_done: release` (nothing: it stays). `inside`: it runs in the program's own image already.
    """
    parts = [_HEAD.format(digest=program.digest, root=ROOT, secrets=SECRETS, console=CONSOLE)]
    if program.image and not inside:
        parts.append(_DOCKER)
    if program.files or not inside:
        # Where the files lie, so that a command names them as the declaration does. An image keeps its own folder where there are none.
        parts.append('cd "$HOME" || exit 1\n')
    parts += [_file(path, content) for path, content in program.files]
    if program.rendezvous:
        parts.append(_PEERS.format(count=program.nodes, wait=PEERS_WAIT_S))
    if program.token_env:
        parts.append(_HANDED_OVER.format(name=program.token_env, wait=TOKEN_WAIT_S))
    if program.setup:
        parts.append(_SETUP.format(lines=_text("\n".join(program.setup))))
    if program.image and not inside:
        # After the setup lines, which may sign in to the image's registry.
        names = " ".join(_container(process.name) for process in program.processes)
        folders = " ".join(sorted(set(CACHES.values())))
        parts.append(_IMAGE.format(image=shlex.quote(program.image), shell=SHELL, names=names, folders=folders))
        if program.models:
            parts.append(_MODELS.format(models=" ".join(map(_there, program.models)), shell=SHELL))
    checkpoint = program.checkpoint
    if checkpoint is not None and not checkpoint.to.startswith("volume:"):
        parts.append(_CHECKPOINT.format(path=shlex.quote(checkpoint.path), to=shlex.quote(checkpoint.to), every=checkpoint.every_s))
    elif checkpoint is not None:
        parts.append(_MOUNTED.format(path=shlex.quote(checkpoint.path)))
    else:
        parts.append("has_checkpoint() { false; }\nsave() { :; }\nsave_at_last() { :; }\nkeep_saving() { :; }\n")
    parts.append("restore\n" if checkpoint is not None else "")
    parts += [_process(program, index, inside=inside) for index in range(len(program.processes))]
    ending = _JOB if program.kind == "job" else _SERVICE
    parts.append(
        ending.format(count=len(program.processes), every=HEALTH_EVERY_S, most=RESTART_MOST_S, unsaved=UNSAVED, release=_release(program, release))
    )
    return "".join(parts)


def checkpoint(text: str) -> tuple[str, str] | None:
    """(folder, bucket's URL) that a script keeps; None for one that keeps none in a bucket."""
    found = _KEPT.search(text)
    return None if found is None else (shlex.split(found[1])[0], shlex.split(found[2])[0])


def _release(program: Program, release: str) -> str:
    return f"sync; {release}" if release and program.on_done == "release" else ":"


def _text(content: str) -> str:
    """The content as a shell word that nothing expands."""
    return base64.b64encode(content.encode()).decode()


def _there(path: str) -> str:
    """A file's path on the machine, as a word of the script: a relative one lies in the home folder."""
    where = path if path.startswith(("/", "~/")) else f"~/{path}"
    return f'"$HOME"/{shlex.quote(where[2:])}' if where.startswith("~/") else shlex.quote(where)


def _file(path: str, content: str) -> str:
    quoted = _there(path)
    return f'mkdir -p "$(dirname -- {quoted})" && printf %s {shlex.quote(content)} | base64 -d | gunzip >{quoted}\n'


def _process(program: Program, index: int, *, inside: bool) -> str:
    process = program.processes[index]
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in process.env)
    line = process.line
    boxed = bool(program.image) and not inside
    if boxed:
        names = sorted({name for each in program.processes for name, _ in each.env})
        passed = " ".join(f"-e {name}" for name in names)
        mounts = "".join(f"-v {_there(path)}:{_there(path)} " for path, _ in program.files)
        if program.files:
            mounts += '-w "$HOME" '
        if program.checkpoint is not None:
            at = shlex.quote(program.checkpoint.path)
            mounts += f"-v {at}:{at} "
        if program.models:
            mounts += '"${models[@]}" '
        name = _container(process.name)
        run = f"docker run --rm --init --name {name} --gpus all --network host --ipc host "
        # The image's own ENTRYPOINT would take the line for its arguments.
        run += f'-v "$root:$root" {mounts}{passed} --env-file "$root/container.env" --entrypoint {SHELL} "$image" -c "$line"'
        exports = f"{_caches(process.env)}{exports}"
        before = f"env_file\ndocker rm -f {name} >/dev/null 2>&1"
    else:
        run, before = 'bash -c "$line"', ":"
    resume = f'has_checkpoint && line="$line "{shlex.quote(program.resume)}\n' if program.resume and index == 0 else ""
    health = f"http://127.0.0.1:{process.port}{process.health or '/'}" if process.port else ""
    return (
        f"start_{index}() {{ # its process group is that of whoever calls it\n(\ntrap - TERM INT\n{exports}"
        f"line=$(printf %s {_text(line)} | base64 -d)\n{resume}"
        f'{before}\nexec {run}\n) >>"$root/log" 2>&1 9>&-\n}}\n'
        f"health_{index}={shlex.quote(health)}\n"
    )


def _container(name: str) -> str:
    return f"gpus-{name}"


def _caches(env: tuple[tuple[str, str], ...]) -> str:
    """Where the containers' programs keep what they download, where the user's own variables do not say so."""
    own = {name for name, _ in env}
    own |= _HUB if own & _HUB else set()
    return "".join(f'export {name}="$root/cache/{folder}"\n' for name, folder in CACHES.items() if name not in own)


_HEAD = """#!/bin/bash
# Starts what this machine is for. Written by gpus; run at each boot, and again whenever that changes.
set -u
root="${{GPUS_ROOT:-{root}}}"
digest={digest}
mkdir -p "$root"
export HOME="${{HOME:-/root}}" GPUS_ROOT="$root"
say() {{
  printf '%s %s %s\\n' {console} "$digest" "$*" | tee -a "$root/log" >"$root/status.new"
  mv "$root/status.new" "$root/status"
  cat "$root/status" >>"${{GPUS_CONSOLE:-/dev/console}}" 2>/dev/null || cat "$root/status"
}}
if [ "$(cat "$root/$digest.done" 2>/dev/null)" = 0 ]; then
  say succeeded 0 earlier
  exit 0
fi
# Another program, or an earlier start of this one that hangs, gives way.
if [ -f "$root/main.pid" ] && [ "$(cat "$root/main.pid")" != "$$" ] && kill -0 "$(cat "$root/main.pid")" 2>/dev/null; then
  [ "$(cat "$root/main.digest" 2>/dev/null)" = "$digest" ] && exit 0
  kill -TERM "$(cat "$root/main.pid")" 2>/dev/null
  for _ in $(seq 60); do kill -0 "$(cat "$root/main.pid")" 2>/dev/null || break; sleep 0.5; done
fi
echo $$ >"$root/main.pid"
echo "$digest" >"$root/main.digest"
exec 9>"$root/lock"
flock 9
[ ! -r {secrets} ] || {{ set -a; . {secrets}; set +a; }}
env_file() {{
  env -0 | grep -zvE '^(PATH|HOME|PWD|SHLVL|_|USER|LOGNAME|SHELL)=' | tr '\\n\\0' ' \\n' >"$root/container.env"
  chmod 600 "$root/container.env"
}}
pids="" containers=""
stop_all() {{
  for pid in $pids; do kill -TERM -- "-$pid" 2>/dev/null; done
  for _ in $(seq 20); do
    alive=""
    for pid in $pids; do kill -0 -- "-$pid" 2>/dev/null && alive=1; done
    [ -n "$alive" ] || break
    sleep 0.5
  done
  for pid in $pids; do kill -KILL -- "-$pid" 2>/dev/null; done
  [ -z "$containers" ] || docker rm -f $containers >/dev/null 2>&1
}}
trap 'stop_all; save; exit 143' TERM INT
say starting
"""

_DOCKER = """export DEBIAN_FRONTEND=noninteractive
if ! command -v docker >/dev/null; then
  if ! { apt-get update -q && apt-get install -qy docker.io; } >>"$root/log" 2>&1 9>&-; then
    say setup-failed 1 docker could not be installed, see the log
    exit 1
  fi
fi
if ! docker info --format '{{json .Runtimes}}' 2>/dev/null | grep -q nvidia; then
  if ! command -v nvidia-ctk >/dev/null; then
    keyring=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg
    source=https://nvidia.github.io/libnvidia-container
    {
      curl -fsSL "$source/gpgkey" | gpg --dearmor --yes -o "$keyring"
      echo "deb [signed-by=$keyring] $source/stable/deb/\\$(ARCH) /" >/etc/apt/sources.list.d/nvidia-container-toolkit.list
      apt-get update -q && apt-get install -qy nvidia-container-toolkit
    } >>"$root/log" 2>&1 9>&-
  fi
  nvidia-ctk runtime configure --runtime=docker >>"$root/log" 2>&1 && systemctl restart docker
fi
for _ in $(seq 60); do nvidia-smi >/dev/null 2>&1 && break; sleep 5; done
"""

_IMAGE = """image={image}
code=125
for pause in 5 20 60 0; do # 125: the registry or Docker itself; anything else says something of the image
  docker run --rm --network none --entrypoint {shell} "$image" -c : >>"$root/log" 2>&1 9>&-
  code=$?
  [ "$code" = 125 ] || break
  sleep "$pause"
done
case "$code" in
  0) ;;
  126 | 127) say setup-wrong "$code" "the image $image has no {shell}, which runs the command line: take one with a shell"; exit 1 ;;
  *) say setup-failed "$code" "the image $image could not be pulled or started, see the log"; exit 1 ;;
esac
containers="{names}"
for cache in {folders}; do # whoever the image's user is
  mkdir -p "$root/cache/$cache" && chmod 1777 "$root/cache/$cache"
done
"""

_MODELS = """models=()
for model in {models}; do # an image may have it
  if [ -e "$model" ]; then
    models+=(--mount "type=bind,source=$model,target=$model,readonly")
  elif ! docker run --rm --network none --entrypoint {shell} "$image" -c 'test -e "$0"' "$model" >>"$root/log" 2>&1 9>&-; then
    say setup-wrong 1 "the model $model is neither on the machine nor in the image $image: fetch it in setup, or name a published one"
    exit 1
  fi
done
"""

_PEERS = """for _ in $(seq {wait}); do [ "$(grep -c . "$root/peers" 2>/dev/null || echo 0)" -ge {count} ] && break; sleep 1; done
if [ "$(grep -c . "$root/peers" 2>/dev/null || echo 0)" -lt {count} ]; then
  say setup-failed 1 the other nodes did not appear
  exit 1
fi
GPUS_LEADER=$(head -n 1 "$root/peers")
export GPUS_LEADER GPUS_NODES={count}
if [ -z "${{GPUS_NODE_RANK:-}}" ]; then
  own=" $(hostname -I 2>/dev/null) $(hostname) $(hostname -f 2>/dev/null) "
  rank=0
  while read -r peer; do
    case "$own" in *" $peer "*) GPUS_NODE_RANK=$rank ;; esac
    rank=$((rank + 1))
  done <"$root/peers"
fi
if [ -z "${{GPUS_NODE_RANK:-}}" ]; then
  say setup-failed 1 none of the peers is this machine
  exit 1
fi
GPUS_ADDRESS=$(sed -n "$((GPUS_NODE_RANK + 1))p" "$root/peers")
export GPUS_NODE_RANK GPUS_ADDRESS
"""

_HANDED_OVER = """for _ in $(seq {wait}); do [ -s "$root/token" ] && break; sleep 1; done
if [ ! -s "$root/token" ]; then
  say setup-failed 1 no token was written to $root/token
  exit 1
fi
{name}=$(cat "$root/token")
export {name}
"""

_SETUP = """if [ ! -e "$root/$digest.setup" ]; then
  printf %s {lines} | base64 -d >"$root/setup.sh"
  code=0
  bash -euo pipefail "$root/setup.sh" >>"$root/log" 2>&1 9>&- || code=$?
  if [ "$code" != 0 ]; then
    say setup-wrong "$code" the setup lines, see the log
    exit 1
  fi
  touch "$root/$digest.setup"
fi
"""

_CHECKPOINT = """kept={path}
to={to}
mkdir -p "$kept"
tool() {{
  case "$to" in
    gs://*) command -v gcloud ;;
    *) command -v aws || python3 -m pip install -q awscli || python3 -m pip install -q --break-system-packages awscli ||
      {{ apt-get update -q && apt-get install -qy awscli; }} ;;
  esac
}}
if ! tool >>"$root/log" 2>&1 9>&-; then
  say setup-failed 1 what syncs with "$to" is not there and could not be installed, see the log
  exit 1
fi
copy() {{ # from to
  case "$1$2" in
    *gs://*) gcloud -q storage rsync -r "$1" "$2" ;;
    *) aws s3 sync --only-show-errors ${{GPUS_S3_ENDPOINT:+--endpoint-url "$GPUS_S3_ENDPOINT"}} "$1" "$2" ;;
  esac
}}
nothing_yet() {{ # gcloud refuses a folder that is not there: nothing yet, where its bucket answers
  case "$to" in gs://*) ;; *) return 1 ;; esac
  bucket=${{to#gs://}}
  ! gcloud -q storage ls "$to" >/dev/null 2>&1 && gcloud -q storage ls "gs://${{bucket%%/*}}" >/dev/null
}}
tries() {{ for pause in 1 5 20 0; do "$@" >>"$root/log" 2>&1 9>&- && return; sleep "$pause"; done; return 1; }}
has_checkpoint() {{ [ -n "$(ls -A "$kept" 2>/dev/null)" ]; }}
fetched() {{ nothing_yet || copy "$to" "$kept"; }}
restore() {{ # once on a machine: what is here afterwards is newer than what is there
  [ "$(cat "$root/restored" 2>/dev/null)" != "$to" ] || return 0
  if ! tries fetched; then
    say setup-failed 1 the checkpoints at "$to" could not be read, see the log
    exit 1
  fi
  echo "$to" >"$root/restored"
}}
first_node() {{ [ "${{GPUS_NODE_RANK:-0}}" = 0 ]; }}
save() {{ ! first_node || copy "$kept" "$to" >>"$root/log" 2>&1 9>&- || echo "gpus: could not save to $to" >>"$root/log"; }}
save_at_last() {{ ! first_node || tries copy "$kept" "$to"; }}
keep_saving() {{ while sleep {every}; do save; done; }}
"""

_MOUNTED = """kept={path}
mkdir -p "$kept"
has_checkpoint() {{ [ -n "$(ls -A "$kept" 2>/dev/null)" ]; }}
restore() {{ :; }}
save() {{ :; }}
save_at_last() {{ :; }}
keep_saving() {{ :; }}
"""

_JOB = """say running
keep_saving 9>&- & saver=$!
set -m
for index in $(seq 0 $(({count} - 1))); do
  "start_$index" &
  pids="$pids $!"
done
set +m
code=0
for pid in $pids; do wait "$pid" || code=$?; done
kill "$saver" 2>/dev/null
unsaved=""
if ! save_at_last; then
  unsaved=1
  echo "gpus: it ended with $code, and its checkpoints could not be saved: its machine stays" >>"$root/log"
  [ "$code" != 0 ] || code={unsaved}
fi
echo "$code" >"$root/$digest.done"
if [ "$code" = 0 ]; then say succeeded 0; else say failed "$code"; fi
rm -f "$root/main.pid"
[ -z "$unsaved" ] || exit "$code"
{release}
exit "$code"
"""

_SERVICE = """say running
answers() {{ # url: whether it answers with 2xx or 3xx; images of servers may come without curl
  if command -v curl >/dev/null; then curl -fsS -o /dev/null --max-time 4 "$1" 2>/dev/null; return; fi
  timeout 4 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/${{1%%/*}}" && printf "GET /%s HTTP/1.0\\r\\n\\r\\n" "${{1#*/}}" >&3 &&
    read -r _ code _ <&3 && case $code in 2* | 3*) ;; *) exit 1 ;; esac' - "${{1#http://127.0.0.1:}}" 2>/dev/null
}}
restart() {{ # index: starts it again whenever it ends, later and later while it keeps ending at once
  trap - TERM INT
  set +m
  pause=1
  while :; do
    began=$SECONDS
    "start_$1"
    echo "gpus: process $1 ended with $?; started again in ${{pause}}s" >>"$root/log"
    sleep "$pause"
    if [ $((SECONDS - began)) -gt 300 ]; then pause=1; elif [ "$pause" -lt {most} ]; then pause=$((pause * 2)); fi
  done
}}
set -m
keep_saving 9>&- & pids="$!"
for index in $(seq 0 $(({count} - 1))); do
  restart "$index" 9>&- &
  pids="$pids $!"
done
set +m
ready=""
while :; do
  up=1
  for index in $(seq 0 $(({count} - 1))); do
    url="health_$index"
    [ -z "${{!url}}" ] || answers "${{!url}}" || up=""
  done
  if [ "$up" != "$ready" ]; then
    ready=$up
    if [ -n "$up" ]; then say ready; else say running; fi
  fi
  sleep {every} & wait $!
done
"""
