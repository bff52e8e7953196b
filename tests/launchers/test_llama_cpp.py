"""llama.cpp's own server, started by the compiled start-up script, with a model that the test
makes.
"""

import json
import shutil
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from providers.model.workload import Task, Workload
from providers.workloads.launch.compile import program
from providers.workloads.launch.start_script import script
from tests.launchers.gguf import write
from tests.launchers.machines import machines
from tests.present import present

pytestmark = pytest.mark.long

SERVER = shutil.which("llama-server")


def asked(port, path, body=None, key=""):
    """(status, answer)."""
    headers = {
        "Content-Type": "application/json",
        **({"Authorization": f"Bearer {key}"} if key else {}),
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        None if body is None else json.dumps(body).encode(),
        headers,
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, {}


@pytest.mark.skipif(SERVER is None, reason="needs llama-server of llama.cpp on PATH")
@pytest.mark.parametrize("gpus", [1, 2])
def test_the_server_answers_whoever_shows_the_token(gpus, tmp_path) -> None:
    """Ready once its health path answers; a completion with the token, none without; the context is
    as declared for each slot.
    """
    model = tmp_path / "tiny.gguf"
    write(model)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    task = Task(
        launcher="llama.cpp",
        model=str(model),
        port=port,
        context=256,
        concurrency=2,
        args=(("threads", 1),),
    )
    made = program(Workload((task,)), "service", "L4", gpus, expose="token")._replace(image="")
    with machines(tmp_path, ("127.0.0.1",), Path(present(SERVER)).parent) as (machine,):
        machine.hand("token", "secret-token")
        machine.begin(script(made))
        machine.until("ready", 120)
        body = {"prompt": "hello", "max_tokens": 4}
        assert asked(port, "/v1/completions", body)[0] == 401
        status, answer = asked(port, "/v1/completions", body, "secret-token")
        assert status == 200 and answer["usage"]["completion_tokens"] >= 1
        status, props = asked(port, "/props", key="secret-token")
        assert (props["default_generation_settings"]["n_ctx"], props["total_slots"]) == (256, 2)
        assert "secret-token" not in Path(f"/proc/{_pid(machine)}/cmdline").read_text()


def _pid(machine):
    """The server's process on that machine."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (
                b"llama-server" in (place / "cmdline").read_bytes().split(b"\0")[0]
                and str(machine.folder).encode() in (place / "environ").read_bytes()
            ):
                return place.name
        except OSError:
            continue
    raise AssertionError("no server runs")
