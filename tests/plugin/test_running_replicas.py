"""Replicas of a service on rehearsal machines that run: HAProxy on each of them, as their start-up
script installs and configures it.
"""

import json
import time
import urllib.request
from collections import Counter

import pytest

from tests.plugin.conftest import wait_until
from tests.plugin.nodes_rig import daemon, monkeypatch_module, nodes
from tests.plugin.test_running_nodes import answer

__all__ = ["daemon", "monkeypatch_module", "nodes"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

SERVER = """
import os, socket, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        known = "Bearer " + os.environ["GPUS_TOKEN"]
        allowed = self.path == "/health" or self.headers.get("Authorization") == known
        self.send_response(200 if allowed else 401)
        self.end_headers()
        if self.path == "/health":
            return
        self.wfile.write(socket.gethostname().encode() + b"\\n")
        if self.path == "/stream" and allowed:
            self.wfile.flush()
            time.sleep(2)
            self.wfile.write(b"end")

    def log_message(self, *words):
        pass

ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
"""
DECLARED = """
config:
  gpus:world: rehearsal
  gpus:clusters:
    web:
      kind: service
      gpu: 'L4:1'
      providers: [gcp]
      replicas: 2
      expose: token
      workload:
        files: {serve.py: serve.py}
        command: 'python3 serve.py # $GPUS_TOKEN'
        port: 8000
        health: /health
"""


def served_by(url, token, times=12):
    """How many of so many requests each machine answered."""
    found = [answer(url, token) for _ in range(times)]
    assert {status for status, _ in found} == {200}
    return Counter(text.strip() for _, text in found)


def outputs(made):
    """The cluster's outputs, and its token."""
    out = json.loads(made.run("stack", "output", "-s", made.stack, "--json", "--show-secrets"))
    return out["web"], out["web_token"]


def test_replicas_serve_behind_each_address_and_one_is_lost_and_added(project, nodes) -> None:
    """Requests are spread, whichever machine is asked. One that dies is left out at once, and the
    next `up` replaces it beside the one that serves, with one more that is declared meanwhile.
    """
    made = project("serve-replicas")
    (made.folder / "serve.py").write_text(SERVER)
    salt = made.file.read_text().partition("encryptionsalt:")[1:]
    made.file.write_text(DECLARED + "".join(salt))
    made.rehearse("nodes", "docker")
    made.up()
    web, token = outputs(made)
    first, second = web["endpoints"]
    assert first.startswith("http://198.") and first.endswith(":80")
    assert len(served_by(first, token)) == len(served_by(second, token)) == 2
    assert answer(first)[0] == answer(second, "another")[0] == 401
    assert streamed(f"{first}/stream", token) < 1
    before = {each["name"] for each in made.machines()}

    (name,) = [name for name in nodes.running() if address(nodes, name) in first]
    nodes.call("exec", name, "systemctl", "poweroff")
    nodes.call("wait", name)
    assert len(served_by(second, token)) == 1
    wait_until(lambda: statuses(made) == {"running", "terminated"}, 20)
    made.edit("replicas: 2", "replicas: 3")
    said = made.up()
    assert "degraded: 1 of 2 machines are left" in said
    web, token_now = outputs(made)
    assert (token_now, web["status"], len(web["endpoints"])) == (token, "running", 3)
    wait_until(lambda: all(len(served_by(url, token)) == 3 for url in web["endpoints"]), 20)
    assert len(before & {each["name"] for each in made.machines()}) == 1
    assert token not in made.gpus("logs", "web", "--lines", "0")
    made.destroy()
    assert nodes.running() == []


def statuses(made):
    """What the cloud says of its machines."""
    return {each["status"].lower() for each in made.machines()}


def address(nodes, name):
    """A container's address in the network of the machines."""
    form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    return f"//{nodes.call('inspect', '--format', form, name)}:"


def streamed(url, token):
    """Seconds until the first line of an answer that takes two is there."""
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    begun = time.monotonic()
    with urllib.request.urlopen(asked, timeout=10) as reply:
        reply.readline()
        took = time.monotonic() - begun
        assert reply.read() == b"end"
    return took
