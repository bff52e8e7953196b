"""Machines of a root file system as clouds have it: a container with systemd that boots a start-up
script. Its only way out is the test's own gateway, which knows what went through.
"""

import io
import re
import subprocess
import tarfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

from providers.model.workload import CONSOLE, ROOT
from providers.rehearsal.nodes import machine
from providers.rehearsal.nodes.machine import Booted

NETWORK, SUBNET = "gpus-systems", "198.51.100.0/28"
GATEWAY, ADDRESS = "198.51.100.1", "198.51.100.10"
ROUTE = "\t006433C6\t"
"""One machine at a time, in a range for documentation (RFC 5737); and as the kernel lists it."""
PROXY = f"http://{GATEWAY}:3128"
METADATA_HOST = "metadata.google.internal"
_ACCOUNT = "/computeMetadata/v1/instance/service-accounts/default/token"


class Passed(NamedTuple):
    """A request that reached the gateway: by the proxy, or straight to its host."""

    proxy: bool
    host: str


class Gateway:
    """What leads out of a machine: a proxy, and a forwarder for what is asked without one, unless
    there is the `proxy_only`. It leads to the servers of packages, and nowhere else.
    """

    def __init__(self, hosts) -> None:
        self.hosts, self.proxy_only = frozenset(hosts), False
        self.passed: set[Passed] = set()
        self._servers = [
            _Server((GATEWAY, port), self, proxy=proxy)
            for port, proxy in ((urlsplit(PROXY).port, True), (80, False))
        ]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address, gateway, *, proxy) -> None:
        self.gateway, self.proxy = gateway, proxy
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        gateway, proxy = self.server.gateway, self.server.proxy
        asked = urlsplit(self.path)
        host = asked.netloc if proxy else self.headers.get("Host", "")
        gateway.passed.add(Passed(proxy, host))
        if host not in gateway.hosts or (gateway.proxy_only and not proxy):
            self.send_error(403, "not through this gateway")
            return
        try:
            with urllib.request.urlopen(f"http://{host}{asked.path}", timeout=60) as reply:
                content = reply.read()
        except urllib.error.HTTPError as error:
            self.send_error(error.code)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_CONNECT(self) -> None:
        self.server.gateway.passed.add(Passed(True, self.path))
        self.send_error(403, "not through this gateway")

    def log_message(self, *words) -> None:
        pass


def sources(daemon, image):
    """The hosts of packages that an image asks."""
    words = ("run", "--rm", "--network", "none", "--entrypoint", "cat", image)
    text = daemon.call(*words, "/etc/apt/sources.list")
    return {urlsplit(url).netloc for url in re.findall(r"http://\S+", text)}


class Booting:
    """A machine of such an image; `options` are Docker's."""

    def __init__(self, daemon, image, hosts, *options) -> None:
        self.daemon, self.name = daemon, "gpus-system"
        known = [f"{host}:{GATEWAY}" for host in hosts] + [f"{METADATA_HOST}:169.254.169.254"]
        daemon.call(
            *("create", "--pull", "never", "--tty", "--name", self.name, "--hostname", "machine"),
            *("--network", NETWORK, "--ip", ADDRESS, *machine.RIGHTS, *options),
            *(word for each in known for word in ("--add-host", each)),
            image,
        )

    def put(self, path, text, mode=0o644) -> None:
        """Writes a file onto it."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(text.encode()), mode
            tar.addfile(entry, io.BytesIO(text.encode()))
        self.daemon.call("cp", "-", f"{self.name}:/", given=packed.getvalue())

    def boot(self, start_up="", *, always=True) -> None:
        """Boots it, with what its cloud tells it; without that, as it was told before."""
        if start_up:
            metadata = ((_ACCOUNT, '{"access_token": "of-the-machine"}'),)
            told = Booted("", "machine", ADDRESS, "", "T4", 1, 0.0, (), start_up, always, metadata)
            for path, text in told.files().items():
                self.put(f"{machine.FOLDER}/{path}", text, 0o755)
        self.daemon.call("start", self.name)

    def cut(self) -> None:
        """Takes its power away."""
        self.daemon.call("kill", self.name)

    def run(self, line):
        return self.daemon.call("exec", self.name, "bash", "-c", line)

    @property
    def words(self):
        """What the start-up script said on the console."""
        console = self.daemon.call("logs", self.name)
        found = re.findall(rf"^{CONSOLE} \w+ (.*?)\r?$", console, re.MULTILINE)
        return [word.strip() for word in found]

    @property
    def log(self):
        words = ["docker", "-H", self.daemon.host, "exec", self.name, "cat", f"{ROOT}/log"]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout

    def until(self, true, seconds=120):
        """Waits for that."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f"{self.words}\n{self.log}"
            time.sleep(0.2)

    def said(self, word, times=1, seconds=120):
        """Waits until its start-up script said that so often; the last of those."""
        self.until(lambda: len(self._words(word)) >= times, seconds)
        return self._words(word)[-1]

    def _words(self, word):
        return [each for each in self.words if each.startswith(word)]

    def end(self) -> None:
        self.daemon.call("rm", "--force", "--volumes", self.name)
