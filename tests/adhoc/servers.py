"""Real ssh servers on loopback that stand for a rented machine, and a live world whose only cloud
rents them out.

Two servers: asyncssh's, always; OpenSSH's sshd where it is installed. Each has a home folder of its
own and an `nvidia-smi` that a test can edit.
"""

import asyncio
import getpass
import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from providers.adhoc import rentals
from providers.adhoc.sync import Machine, portal
from providers.catalog.table import table
from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.runtime.world import open_world
from providers.model.spec import read_cluster
from providers.testing.fake_adapter import FakeCloud
from tests.engine.cases import offer
from tests.present import present

SSHD = shutil.which("sshd", path=f"/usr/sbin:/usr/local/sbin:/sbin:{os.environ.get('PATH', '')}")
SERVERS = [
    "asyncssh",
    pytest.param(
        "sshd", marks=pytest.mark.skipif(SSHD is None, reason="OpenSSH's server is not installed")
    ),
]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Host:
    """A machine's inside: its home, its tools, whose key it takes, and what it was sent in the
    environment.
    """

    def __init__(self, folder) -> None:
        self.home, self.tools, self.keys = (
            folder / "home",
            folder / "tools",
            folder / "authorized_keys",
        )
        self.home.mkdir()
        self.tools.mkdir()
        self.keys.write_text("")
        self.port = free_port()
        self.gpus(8)

    def gpus(self, count, name="NVIDIA H100 80GB HBM3", mib=81559) -> None:
        rows = "\n".join(f"{name}, {mib} MiB" for _ in range(count))
        self.script(f"cat <<'X'\n{rows}\nX")

    def script(self, body) -> None:
        (self.tools / "nvidia-smi").write_text(f"#!/bin/sh\n{body}\n")
        (self.tools / "nvidia-smi").chmod(0o755)

    @property
    def environment(self):
        return {
            "HOME": str(self.home),
            "PATH": f"{self.tools}:/usr/bin:/bin",
            "USER": "gpus",
            "GPUS_START_UP": str(self.home / ".start-up"),
        }


class AsyncSshServer:
    """asyncssh's server in a thread: runs commands, forwards ports, takes the keys of the host's
    file.
    """

    def __init__(self, host) -> None:
        self.host, self.user = host, "gpus"
        self.sent: list[dict[str, str]] = []
        self.agents = 0
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.start()

    def _do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def start(self) -> None:
        """Also a restart with another host key."""
        self.server = self._do(self._listen())

    async def _listen(self):
        import asyncssh

        host, outer = self.host, self

        class Server(asyncssh.SSHServer):
            def connection_made(self, connection) -> None:
                self.connection = connection

            def begin_auth(self, username) -> bool:
                return True

            def public_key_auth_supported(self) -> bool:
                return True

            def validate_public_key(self, username, key):
                line = key.export_public_key("openssh").decode().split()[:2]
                return username == outer.user and line in [
                    known.split()[:2] for known in host.keys.read_text().splitlines()
                ]

            def connection_requested(self, dest_host, dest_port, orig_host, orig_port) -> bool:
                return True

        async def handle(process) -> None:
            outer.sent.append(dict(process.env))
            outer.agents += process.channel.get_agent_path() is not None
            child = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                process.command or "cat",
                cwd=host.home,
                env=host.environment,
                stdin=-1,
                stdout=-1,
                stderr=-1,
                start_new_session=True,
            )

            stdin = present(child.stdin)

            async def into() -> None:
                # By hand: asyncssh's own redirection was seen to drop the end of a large input.
                try:
                    while data := await process.stdin.read(65_536):
                        stdin.write(data)
                        await stdin.drain()
                    stdin.close()
                except (OSError, asyncssh.Error):
                    stdin.close()

            async def out(source, target) -> None:
                while data := await source.read(65_536):
                    target.write(data)
                    await target.drain()

            feeding = asyncio.ensure_future(into())
            try:
                await asyncio.gather(
                    out(child.stdout, process.stdout), out(child.stderr, process.stderr)
                )
                process.exit(await child.wait())
            except (OSError, asyncssh.Error):
                os.killpg(child.pid, 9)
            finally:
                feeding.cancel()

        return await asyncssh.listen(
            "127.0.0.1",
            self.host.port,
            server_factory=Server,
            server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            process_factory=handle,
            encoding=None,
        )

    def stop(self) -> None:
        async def close() -> None:
            self.server.close()
            await self.server.wait_closed()

        self._do(close())


class SshdServer:
    """OpenSSH's own server, with a forced command that puts the session into the host's home."""

    def __init__(self, host) -> None:
        self.host, self.user = host, getpass.getuser()
        self.folder = host.home.parent
        self.start()

    def start(self) -> None:
        key = self.folder / "host_key"
        for old in self.folder.glob("host_key*"):
            old.unlink()
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        inside = " ".join(f"{name}={value}" for name, value in self.host.environment.items())
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port {self.host.port}\nListenAddress 127.0.0.1\nHostKey {key}\nAuthorizedKeysFile"
            f" {self.host.keys}\nStrictModes no\nPidFile none\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin"
            " prohibit-password\nAcceptEnv *\n"
            f"ForceCommand cd {self.host.home} && exec env -i {inside} sh -c"
            ' "$SSH_ORIGINAL_COMMAND"\n'
        )
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [present(SSHD), "-D", "-e", "-f", str(config)], stderr=subprocess.DEVNULL
        )
        for _ in range(1_200):
            if answers(self.host.port):
                return
            time.sleep(0.05)
        raise AssertionError("sshd did not start")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


class BriskClock:
    """Time that passes fifty times as fast."""

    def __init__(self) -> None:
        self.began = time.time()

    def now(self):
        return self.began + (time.time() - self.began) * 50

    async def sleep(self, seconds) -> None:
        await asyncio.sleep(seconds / 50)


class Bench:
    """A live world with one cloud, whose machines are the ssh server; `rent` is what `provision`
    does once its world is open.
    """

    def __init__(self, server) -> None:
        self.server, self.host = server, server.host
        self.clock = BriskClock()
        self.cloud = FakeCloud("alpha", self.clock)
        self.cloud.capabilities = self.cloud.capabilities._replace(maps_ports=True)
        self.cloud.create_s = self.cloud.delete_s = 0.0
        self.lines: list[str] = []
        self.takes_keys = True
        made_node = self.cloud.node_of
        self.cloud.node_of = lambda *order: self.made(made_node(*order), order[0])  # type: ignore[method-assign]  # this cloud's machines are the ssh server
        self.ports = lambda: ((22, self.host.port),)
        self.offers = table(
            [offer("alpha", "north", "north-a", usd=10), offer("alpha", "south", "south-a", usd=12)]
        )

    def world(self):
        return open_world(
            "live",
            {},
            lambda severity, text: self.lines.append(f"{severity}: {text}"),
            manifests={"alpha": self.cloud.manifest()},
            offers=self.offers,
            clock=self.clock,
        )

    def made(self, node, order):
        """What the cloud makes of an order: the key goes into the machine, and the port is another
        one outside.
        """
        keys = [
            key
            for key in (order.setup.ssh_public_key, order.setup.own_public_key)
            if key and self.takes_keys
        ]
        self.host.keys.write_text("".join(f"{key}\n" for key in keys))
        return node._replace(external_ip="127.0.0.1", ports=self.ports(), ssh_user=self.server.user)

    def declare(self, name="train", *, ready="checked", world=None, do=None, **fields):
        """What the plugin has the engine do for a declared cluster; what is held then."""
        spec = read_cluster(name, {"gpu": "H100:8", "spot": "only", "ttl": "1h", **fields})
        cluster_spec = ClusterSpec(
            "own", name, spec.ask(), spec.setup(), spec.fingerprint(), ready=ready
        )
        return asyncio.run(
            (do or (lambda w, want: operations.create(w, want, "g1")))(
                world or self.world(), cluster_spec
            )
        )

    def rent(self, name="bench", ssh_key=None, **fields):
        spec = read_cluster(name, {"gpu": "H100:8", "spot": "only", "ttl": "1h", **fields})
        return Machine(portal().run(rentals.rent(self.world(), spec, ssh_key)))


@pytest.fixture(params=SERVERS)
def ssh_server(request, tmp_path):
    folder = tmp_path / "host"
    folder.mkdir()
    kind = AsyncSshServer if request.param == "asyncssh" else SshdServer
    server = kind(Host(folder))
    yield server
    server.stop()


@pytest.fixture
def bench(ssh_server, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "gpus"))
    monkeypatch.chdir(tmp_path)
    return Bench(ssh_server)
