"""The start-up script with a container image, against a real Docker daemon: whatever the image
starts by itself, it runs the declared line.
"""

import os
import signal
import socket
import time
import urllib.error
import urllib.request

import pytest

from providers.model.workload import Process, Program, Task, Workload
from providers.workloads.launch.compile import program
from providers.workloads.launch.images import known
from providers.workloads.launch.recipes import RECIPES
from providers.workloads.launch.start_script import script
from tests.launchers.docker import Host
from tests.launchers.machines import job
from tests.present import present

pytestmark = pytest.mark.long

MODEL = "someone/small"
VLLM = """#!/bin/sh
# Like vLLM's own program: what it does not know ends it at once.
usage() { echo "vllm: error: $*" >&2; exit 2; }
[ "$1" = serve ] || usage "invalid choice: $1"
case "$2" in */*) model=$2 ;; *) usage "no such model: $2" ;; esac
shift 2
while [ $# -gt 0 ]; do
  case "$1" in
    --port) port=$2 ;;
    --host | --tensor-parallel-size | --dtype | --gpu-memory-utilization | --max-model-len | --max-num-seqs) ;;
    *) usage "unrecognized arguments: $*" ;;
  esac
  shift 2
done
cache=${HF_HUB_CACHE:-$HOME/.cache/huggingface/hub}
if [ -e "$cache/$model" ]; then echo "loads $model from the cache"; else
  echo "downloads $model"
  mkdir -p "$cache/${model%/*}" && echo weights >"$cache/$model" || exit 3
fi
exec nc -ll -p "$port" -e /bin/answer
"""
ANSWER = """#!/bin/sh
read -r method path version
while read -r header; do
  header=$(printf %s "$header" | tr -d '\\r')
  [ -n "$header" ] || break
  case "$header" in "Authorization: Bearer "*) key=${header#*Bearer } ;; esac
done
code=200
[ "$path" = /health ] || [ -z "$VLLM_API_KEY" ] || [ "$key" = "$VLLM_API_KEY" ] || code=401
printf 'HTTP/1.1 %s x\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n' "$code"
"""
SERVED = {"/bin/vllm": VLLM, "/bin/answer": ANSWER}
OWN = {"/bin/own": '#!/bin/sh\necho "the image\'s own program, with $*"\nexit 64\n'}


@pytest.fixture
def host(tmp_path, daemon):
    made = Host(tmp_path / "host", daemon)
    yield made
    made.end()


def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def status(at, path, key=""):
    """The HTTP status of an answer; 0 for none."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{at}{path}", headers={"Authorization": f"Bearer {key}"} if key else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def until(holds, told, seconds=60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, told()
        time.sleep(0.1)


def service(image, at, **task):
    made = Workload((Task(launcher="vllm", model=MODEL, port=at, **task),), image=image)
    return program(made, "service", "L4", 1, expose="token")


@pytest.fixture
def served(host, daemon):
    """A service that is ready, in an image whose ENTRYPOINT is vLLM's: (its machine, its port)."""
    at = port()
    made = service(
        daemon.image("like-vllm", ["vllm", "serve"], files=SERVED),
        at,
        context=4096,
        concurrency=2,
        dtype="bf16",
    )
    host.hand("token", "secret-token")
    host.begin(script(made))
    host.until("ready", 60)
    return host, at


def test_an_image_with_an_entry_point_serves_whoever_shows_the_token(served) -> None:
    """C01: the line takes the place of the image's ENTRYPOINT; the token is in no argument."""
    host, at = served
    assert (status(at, "/health"), status(at, "/v1/models"), status(at, "/v1/models", "other")) == (
        200,
        401,
        401,
    )
    assert status(at, "/v1/models", "secret-token") == 200
    assert "secret-token" not in host.calls and "--gpus all" in host.calls
    assert "error" not in host.log


WRAPPER = '#!/bin/sh\necho "the wrapper, with $*"\nexec "$@"\n'
STUB = """#!/bin/sh
echo "ran $0 $*"
case "$0 $1" in */ollama\\ pull) exit 0 ;; esac
port=${OLLAMA_HOST##*:}
while [ $# -gt 0 ]; do [ "$1" != --port ] || port=$2; shift; done
exec nc -ll -p "$port" -e /bin/answer
"""
PROGRAMS = {
    "vllm": ("/bin/vllm", "serve a/b --host 127.0.0.1"),
    "sglang": ("/bin/python3", "-m sglang.launch_server --model-path a/b"),
    "tgi": ("/bin/text-generation-launcher", "--model-id a/b --hostname 127.0.0.1"),
    "ollama": ("/bin/ollama", "serve"),
    "llama.cpp": ("/app/llama-server", "-hf a/b --host 127.0.0.1"),
}


@pytest.mark.long
@pytest.mark.parametrize("launcher", PROGRAMS)
def test_every_launchers_default_image_runs_its_program(launcher, host, daemon) -> None:
    """Images with the real ones' names, ENTRYPOINT, CMD and place of the program; the program is a
    stand-in that answers the health check.
    """
    at, (place, said) = port(), PROGRAMS[launcher]
    name = RECIPES[launcher].image
    own = present(known(name))
    wrapper = {own.entrypoint[0]: WRAPPER} if own.entrypoint[0].endswith(".sh") else {}
    daemon.image(
        name, list(own.entrypoint), list(own.cmd), {place: STUB, "/bin/answer": ANSWER, **wrapper}
    )
    made = program(Workload((Task(launcher=launcher, model="a/b", port=at),)), "service", "L4", 1)
    host.begin(script(made))
    host.until("ready", 60)
    assert (
        f"ran {place} {said}" in host.log or f"ran {place.rpartition('/')[2]} {said}" in host.log
    ), host.log
    assert "the wrapper" not in host.log


def test_a_container_that_dies_is_started_again_and_downloads_nothing_anew(served, daemon) -> None:
    """C21: what it had downloaded lies on the machine."""
    host, at = served
    assert host.log.count(f"downloads {MODEL}") == 1
    daemon.call("kill", "gpus-main")
    until(lambda: f"loads {MODEL} from the cache" in host.log, lambda: host.log)
    until(lambda: status(at, "/v1/models", "secret-token") == 200, lambda: host.log)
    assert host.log.count(f"downloads {MODEL}") == 1


def test_a_machine_that_was_cut_off_starts_its_container_again(served, daemon) -> None:
    """A container that is left over has the name: it gives way. The caches are there after the boot
    too.
    """
    host, at = served
    host.power_off()
    until(lambda: daemon.running() == [], lambda: str(daemon.running()))
    # As after a power cut, at which the daemon ends too and removes nothing.
    daemon.call("create", "--name", "gpus-main", "like-vllm")
    (host.folder / "console").unlink()
    made = service("like-vllm", at, context=4096, concurrency=2, dtype="bf16")
    host.begin(script(made))
    host.until("ready", 60)
    until(lambda: f"loads {MODEL} from the cache" in host.log, lambda: host.log)
    assert daemon.running() == ["gpus-main"]


@pytest.mark.parametrize("code", [0, 3, 143])
def test_a_jobs_exit_code_is_that_of_its_line_in_a_users_own_image(code, host, daemon) -> None:
    """Whatever that image's ENTRYPOINT and CMD are, they do not run; variables reach the line, and
    only its own shell expands it.
    """
    image = daemon.image("own", ["/bin/own"], ["--by-itself"], OWN)
    made = job(f'echo "got $A in $(id -u)"; exit {code}', env=(("A", "it's $HOME"),), image=image)
    assert host.run(script(made)) == code
    assert host.words[-1] == (f"failed {code}" if code else "succeeded 0")
    assert "got it's $HOME in 0" in host.log
    assert "own program" not in host.log
    assert daemon.running() == []


@pytest.mark.parametrize("where", ["machine", "image", "nowhere"])
def test_model_by_its_path_is_read_in_the_container_and_not_written(where, host, daemon) -> None:
    """What is on the machine goes before what the image has; a model that neither has is told
    before anything starts.
    """
    path = host.folder / "models" / "own-7b"
    record = {f"{path}/weights": "of the image"} if where != "nowhere" else {}
    image = daemon.image(f"own-{where}", ["/bin/own"], files={**OWN, **record})
    if where == "machine":
        path.mkdir(parents=True)
        (path / "weights").write_text("of the machine")
    line = f'echo "read: $(cat {path}/weights)"; ! touch {path}/new || [ {where} = image ]'
    code = host.run(script(job(line, image=image, models=(str(path),))))
    if where == "nowhere":
        assert code == 1 and host.words[-1].startswith(
            f"setup-wrong 1 the model {path} is neither on the machine nor in the image {image}: "
        )
    else:
        assert code == 0 and f"read: of the {where}" in host.log, host.log


def test_setup_changes_the_image_once_and_each_container_comes_from_it(host, daemon) -> None:
    """Neither a second start nor another container runs the lines again; variables that they see
    stay out of the image, and so does what is not theirs.
    """
    image = daemon.image("own", ["/bin/own"], ["--by-itself"], OWN)
    lines = ('echo "set up with $SECRET and $HF_HUB_CACHE" >>/note', "false || touch /kept")
    made = job("cat /note; test -e /kept && exit 3", image=image)._replace(setup=lines)
    for _ in range(2):
        assert host.run(script(made), SECRET="s3cret") == 3, host.log
        (host.folder / "root" / f"{made.digest}.done").unlink()
    cache = host.folder / "root" / "cache" / "huggingface"
    assert host.log.count(f"set up with s3cret and {cache}\n") == 2
    assert daemon.running() == []
    config = daemon.call("image", "inspect", f"gpus-setup:{made.digest}")
    assert "SECRET" not in config and "s3cret" not in config
    other = made._replace(setup=("true",))
    assert host.run(script(other)) == 1
    assert daemon.call("images", "--format", "{{.Tag}}", "gpus-setup") == other.digest


def test_setup_lines_that_fail_in_the_image_are_told_with_their_code(host, daemon) -> None:
    """The command is not begun, and no half made image is kept."""
    image = daemon.image("own", files=OWN)
    made = job("echo never", image=image)._replace(
        setup=("echo first", "sh -c 'exit 9'", "touch /x")
    )
    assert host.run(script(made)) == 1
    assert host.words[-1] == "setup-wrong 9 the setup lines, see the log"
    assert "first" in host.log and "never" not in host.log
    assert daemon.running() == []
    assert made.digest not in daemon.call("images", "--format", "{{.Tag}}", "gpus-setup")


def test_setup_that_a_power_cut_ended_begins_anew(host, daemon) -> None:
    """The container that it left gives way."""
    image = daemon.image("own", files=OWN)
    line = f"echo begun; test -e {host.folder}/root/again || sleep 600; echo whole >/note"
    made = job("cat /note", image=image)._replace(setup=(line,))
    host.begin(script(made))
    until(lambda: "begun" in host.log, lambda: host.log)
    host.power_off()
    (host.folder / "root" / "again").touch()
    assert host.run(script(made)) == 0, host.log
    assert host.log.count("begun") == 2 and "whole" in host.log
    assert daemon.running() == []


def test_the_entry_point_of_an_image_runs_where_the_line_says_so(host, daemon) -> None:
    """Who wants it names it."""
    image = daemon.image("own", ["/bin/own"], files=OWN)
    assert host.run(script(job("/bin/own --all", image=image))) == 64
    assert "the image's own program, with --all" in host.log


def test_an_image_whose_user_is_not_root_keeps_its_caches_too(host, daemon) -> None:
    """The folders take whoever runs there, and variables that the user has set stay."""
    image = daemon.image("plain-user", files=OWN, user="1000:1000")
    line = (
        'id -u; for at in "$HF_HUB_CACHE" "$OLLAMA_MODELS" "$LLAMA_CACHE"; do echo x >"$at/kept" ||'
        " exit 1; done"
    )
    assert host.run(script(job(line, image=image))) == 0, host.log
    assert sorted(path.parent.name for path in (host.folder / "root" / "cache").glob("*/kept")) == [
        "huggingface",
        "llama.cpp",
        "ollama",
    ]
    mine = job(
        'echo "hub: ${HF_HUB_CACHE:-none}, home: $HF_HOME"',
        image=image,
        env=(("HF_HOME", "/models"),),
    )
    assert host.run(script(mine)) == 0
    assert "hub: none, home: /models" in host.log


def test_an_image_without_a_shell_is_told_at_once(host, daemon) -> None:
    """No restarts for ever: the console says what is missing."""
    image = daemon.image("no-shell", ["/bin/busybox"], applets=())
    assert host.run(script(job("true", image=image))) == 1
    assert (
        host.words[-1]
        == "setup-wrong 127 the image no-shell has no sh, which runs the command line: take one"
        " with a shell"
    )


def test_an_image_that_is_not_there_is_told_after_some_tries(host) -> None:
    """A registry may be busy for a moment."""
    host.tool("sleep", "exit 0")
    assert host.run(script(job("true", image="127.0.0.1:9/none:1"))) == 1
    told = "setup-failed 125 the image 127.0.0.1:9/none:1 could not be pulled or started: docker: "
    assert host.words[-1].startswith(told) and "connection refused" in host.words[-1]
    assert host.calls.count("run --rm --network none") == 4


def test_another_program_leaves_no_container_of_the_previous_one(host, daemon) -> None:
    """Also where that one does not heed being told to end."""
    image = daemon.image("own", ["/bin/own"], files=OWN)
    deaf = "trap '' TERM; echo deaf; while :; do sleep 1; done"
    first = Program("job", (Process("first", deaf), Process("second", deaf)), image=image)
    started = host.begin(script(first))
    until(lambda: host.log.count("deaf\n") == 2, lambda: host.log)
    assert sorted(daemon.running()) == ["gpus-first", "gpus-second"]
    second = host.begin(script(job("exit 0", image=image)))
    until(lambda: started.poll() is not None and second.poll() is not None, lambda: host.log)
    assert second.returncode == 0, host.log
    assert daemon.running() == []


def test_a_script_that_is_told_to_end_ends_its_container(served, daemon) -> None:
    """By the signal that a machine's shutdown sends."""
    host, _ = served
    os.kill(host.begun[-1].pid, signal.SIGTERM)
    host.begun[-1].wait(30)
    assert daemon.running() == []
