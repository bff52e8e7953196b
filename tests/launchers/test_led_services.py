"""Servers over two nodes: each machine a folder and an address of its own on loopback, where real
logins lead from one to the other. The programs are stand-ins that meet like the real ones.
"""

import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from providers.model.workload import Task, Workload
from providers.workloads.launch.compile import program
from providers.workloads.launch.start_script import between, script
from tests.launchers.machines import machines

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(SSHD is None, reason="needs OpenSSH's server: openssh-server"),
]

LEADER, OTHER = (f"127.0.{os.getpid() % 200 + 20}.{number}" for number in (2, 3))
"""Of this process: the ports at which nodes meet are fixed."""
SERVER = """
import http.server, os, re, socket, sys, threading, time
line = " ".join(sys.argv)
print("started:", line, flush=True)
def of(name): return re.search(rf"--{name} (\\S+)", line)[1]
rank = int(of("node-rank"))
at, port = of("dist-init-addr").split(":") if "dist-init" in line else (of("master-addr"), of("master-port"))
if rank == 0:
    time.sleep(1)
    with socket.create_server((at, int(port))) as listening:
        met = listening.accept()[0]
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers()
        def log_message(self, *_): pass
    server = http.server.HTTPServer((at, int(of("port"))), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    met.recv(1)
    time.sleep(600)  # as a server whose workers are gone hangs
else:
    for _ in range(300):
        try: met = socket.create_connection((at, int(port))); break
        except OSError: time.sleep(0.1)
    print("joined", flush=True)
    met.recv(1)
"""


@pytest.fixture
def pair(tmp_path):
    """Two machines that the same key opens for each other, as the engine leaves them."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", key], check=True)
    with machines(tmp_path, (LEADER, OTHER)) as made:
        for each in made:
            served = each.folder / "server.py"
            served.write_text(SERVER)
            for tool in ("vllm", "python3"):
                each.tool(tool, f'exec {sys.executable} {served} "$@"')
            each.hand("between.sh", between(key.read_text()))
            each.hand("peers", f"{LEADER}\n{OTHER}\n")
        made[0].hand("token", "the-token")
        yield made


def served(launcher, port, **more):
    """What runs there, with the health check asked at the leader's own address."""
    task = Task(launcher=launcher, model="meta-llama/Llama-3.1-405B", port=port)
    made = program(Workload((task,)), "service", "H100", 8, 2, **more)
    return (
        script(made._replace(image=""))
        .replace("http://127.0.0.1", f"http://{LEADER}")
        .replace("health_every=5", "health_every=1")
    )


def free_port():
    return 18_000 + os.getpid() % 1000


@pytest.mark.parametrize("launcher", ["vllm", "sglang"])
def test_the_first_nodes_health_is_the_services(pair, launcher) -> None:
    """It answers once the others have joined; they have no port to answer at, and no token."""
    leader, worker = pair
    more = {"expose": "token"} if launcher == "vllm" else {}
    text = served(launcher, free_port(), **more)
    leader.begin(text)
    leader.until("running")
    time.sleep(2)
    assert "ready" not in leader.words
    worker.begin(text)
    for each in pair:
        each.until("ready", 20)
    assert "joined" in worker.log
    assert "--node-rank 0 " in leader.log and "--node-rank 1 " in worker.log
    assert ("--headless" in worker.log) == (launcher == "vllm")
    assert "--headless" not in leader.log


def test_a_worker_that_ends_is_told_of_and_all_of_it_is_started_again(pair) -> None:
    """A leader that has lost a worker may hang for ever: it is started anew too."""
    leader, worker = pair
    text = served("sglang", free_port())
    for each in pair:
        each.begin(text)
    for each in pair:
        each.until("ready", 20)
    found = subprocess.run(
        ["pgrep", "-f", f"{worker.folder}/server.py"], capture_output=True, text=True, check=True
    )
    for pid in found.stdout.split():
        os.kill(int(pid), 9)
    worker.until("running process 0 of node-1 ended with 137", 20)
    leader.until("running process 0 of node-1 ended with 137", 20)
    end = time.monotonic() + 20
    while not (
        leader.log.count("started:") == 2 and worker.words[-1] == leader.words[-1] == "ready"
    ):
        assert time.monotonic() < end, f"{leader.words} {worker.words}\n{leader.log}\n{worker.log}"
        time.sleep(0.1)
    assert len(re.findall("joined", worker.log)) == 2
