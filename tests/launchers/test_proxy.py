"""The proxy of replicas, as its part of the start-up script runs it: the real HAProxy with a
certificate, before servers of this test.
"""

import http.server
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from providers.model.workload import Process, Program
from providers.workloads.launch.start_script import script

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("haproxy") is None, reason="needs haproxy"),
    pytest.mark.skipif(os.geteuid() != 0, reason="HAProxy gives up root's rights, so needs them"),
]

SYSTEMCTL = """#!/bin/sh
case $1 in
  restart) exec haproxy -W -D -p {folder}/pid -f {folder}/haproxy.cfg ;;
  reload-or-restart) kill -USR2 "$(cat {folder}/pid)" ;;
esac
"""


class Handler(http.server.BaseHTTPRequestHandler):
    """Says which address it has; an answer at /stream takes as long as the test wants."""

    go_on = threading.Event()

    def do_GET(self) -> None:
        known = self.path == "/health" or self.headers["Authorization"] == "Bearer right"
        self.send_response(200 if known else 401)
        self.end_headers()
        if self.path == "/health" or not known:
            return
        self.wfile.write(f"{self.connection.getsockname()[0]}\n".encode())
        if self.path == "/stream":
            self.wfile.flush()
            self.go_on.wait(20)
            self.wfile.write(self.headers["X-Forwarded-Proto"].encode())

    def log_message(self, *words) -> None:
        pass


@pytest.fixture
def port():
    """A port at which a server listens on two addresses of this machine."""
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)]
    port = servers[0].server_address[1]
    servers.append(http.server.ThreadingHTTPServer(("127.0.0.2", port), Handler))
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield port
    for server in servers:
        server.shutdown()
        server.server_close()


def certified(folder):
    """A key with a certificate of localhost, as one text."""
    words = ["openssl", "req", "-x509", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    words += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    words += ["-addext", "subjectAltName=DNS:localhost", "-out", "cert.pem", "-keyout", "key.pem"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    return (folder / "cert.pem").read_text() + (folder / "key.pem").read_text()


@pytest.fixture
def proxy(tmp_path, port):
    """Where it listens, with the start-up script's part that keeps it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        outside = free.getsockname()[1]
    tmp_path.chmod(0o755)
    (tmp_path / "systemctl").write_text(SYSTEMCTL.format(folder=tmp_path))
    (tmp_path / "systemctl").chmod(0o755)
    (tmp_path / "haproxy.cfg").write_text("global\n")
    (tmp_path / "peers").write_text("127.0.0.1\n127.0.0.2\n")
    text = script(Program("service", (Process("main", "serve", (), port, "/health"),)))
    made = script(
        Program("service", (Process("main", "serve", (), port, "/health"),), proxy_port=443)
    )
    assert "haproxy" not in text
    parts = made.partition('if [ "$(cat "$root/$digest.done"')[0]
    for old, new in {
        "proxy_port=443": f"proxy_port={outside}",
        "/etc/haproxy/": f"{tmp_path}/",
        "/run/haproxy/admin.sock": f"{tmp_path}/sock",
    }.items():
        assert old in parts
        parts = parts.replace(old, new)
    end = '\nbegin_proxy\necho "left: ${GPUS_TLS_CERTIFICATE-nothing}"\nwait\n'
    env = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "GPUS_ROOT": str(tmp_path),
        "GPUS_CONSOLE": str(tmp_path / "console"),
        "GPUS_TLS_CERTIFICATE": certified(tmp_path),
    }
    words = ["bash", "-c", parts + end]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == "left: nothing\n"
        yield outside
        keeper.kill()
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)


def asked(port, folder, path="/", token="right"):
    """The reply to a request by TLS, which trusts this test's certificate alone."""
    trusted = ssl.create_default_context(cafile=folder / "cert.pem")
    request = urllib.request.Request(
        f"https://localhost:{port}{path}", headers={"Authorization": f"Bearer {token}"}
    )
    return urllib.request.urlopen(request, context=trusted, timeout=10)


def who(port, folder):
    """The addresses of the servers that answer some requests."""
    return {asked(port, folder).read().decode().strip() for _ in range(6)}


def test_a_proxy_has_tls_and_drops_no_request_where_replicas_change(tmp_path, proxy) -> None:
    """The certificate is the proxy's alone, at a file that others do not read. Requests are spread;
    what was begun before there were other replicas goes on to its end.
    """
    until = time.monotonic() + 20
    while who(proxy, tmp_path) != {"127.0.0.1", "127.0.0.2"}:
        assert time.monotonic() < until
    with pytest.raises(urllib.error.HTTPError) as refused:
        asked(proxy, tmp_path, token="wrong")
    assert refused.value.code == 401
    assert (tmp_path / "certificate.pem").stat().st_mode & 0o777 == 0o600
    streams = [asked(proxy, tmp_path, "/stream") for _ in range(4)]
    assert {stream.readline() for stream in streams} == {b"127.0.0.1\n", b"127.0.0.2\n"}
    (tmp_path / "peers").write_text("127.0.0.2\n")
    until = time.monotonic() + 20
    while who(proxy, tmp_path) != {"127.0.0.2"}:
        assert time.monotonic() < until
    Handler.go_on.set()
    assert {stream.read() for stream in streams} == {b"https"}
    assert "right" not in (tmp_path / "log").read_text()
