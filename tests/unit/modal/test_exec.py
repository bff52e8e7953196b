"""Commands and files in a Modal sandbox: the program that carries them, with the real client
against the stand-in, and what the engine makes of it.
"""

import asyncio
import os
import pty
import selectors
import subprocess
import time

import pytest

from providers import errors
from providers.adapters import modal
from providers.adhoc.machine import free_port
from providers.model.machine import Handle, Node
from providers.model.placement import Placement
from providers.rehearsal.clouds import modal as standin
from providers.remote import files
from providers.remote.line import LocalCommand
from providers.remote.probe import NO_LOGIN
from providers.remote.provider_exec import Own
from providers.remote.run import finished, started
from providers.remote.ssh import FAILED, Key, SshProbe
from tests.present import present
from tests.unit.modal.cloud import Cloud
from tests.unit.modal.test_gpu import candidate, order


class Placed:
    provider = "modal"
    placement = Placement("modal", "any", "", "container-1", "H100", 1, 1, "on-demand")


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    made = Cloud(tmp_path)
    made.server.close()
    made.server = standin.start(made.store, tcp=True)
    for name, value in {
        "MODAL_SERVER_URL": made.server.tcp_url,
        "MODAL_TOKEN_ID": "ak-test",
        "MODAL_TOKEN_SECRET": "as-test-secret",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MODAL_CONFIG_PATH", str(tmp_path / "none.toml"))
    yield made
    made.close()


@pytest.fixture
def node(cloud):
    adapter = cloud.adapter()
    ticket = adapter.submit(order(candidate("H100", 1)))
    cloud.wait(60)
    ticket = adapter.poll(ticket)
    assert ticket.state == "done"
    return adapter.observe(ticket.handles)[0]


def probe(tmp_path):
    return SshProbe(
        Key(tmp_path / "key", "", own=True),
        tmp_path / "known_hosts",
        "gpus",
        own={"modal": (modal.MANIFEST, {})},
    )


def test_a_command_runs_in_the_sandbox(node, tmp_path) -> None:
    """Its output, errors and exit code arrive as they were; no token is among the words; files go
    there and come back byte for byte.
    """
    line = probe(tmp_path).line(node)
    launch = line.command("echo out; echo err >&2; echo $GPUS_STAND_IN; exit 7")
    assert "as-test" not in " ".join(launch.argv)
    assert (7, f"out\n{node.handle.native_id}\n", "err\n") == asyncio.run(finished(launch))
    source = tmp_path / "data.bin"
    source.write_bytes(os.urandom(700_000))
    assert asyncio.run(files.put(line, source, "there/")) == "there/data.bin"
    back = asyncio.run(files.get(line, "there/data.bin", tmp_path / "back.bin"))
    assert source.read_bytes() == back.read_bytes()


def test_readiness_is_what_its_driver_says(node, cloud, tmp_path) -> None:
    """No driver, the GPU as ordered, Modal's own upgrade of it, another GPU, and a sandbox that is
    gone are told apart.
    """
    look = probe(tmp_path)
    tools = cloud.server.path.parent / "modal-sandboxes" / node.handle.native_id / "bin"
    tools.mkdir(parents=True)
    seen = []
    for name in (
        "NVIDIA H100 80GB HBM3, 81559 MiB",
        "NVIDIA H200, 143771 MiB",
        "Tesla T4, 15360 MiB",
    ):
        (tools / "nvidia-smi").write_text(f"#!/bin/sh\necho '{name}'\n")
        (tools / "nvidia-smi").chmod(0o700)
        seen.append(asyncio.run(look(node, Placed)).stage)
    assert seen == ["", "", "wrong-gpus"]
    cloud.adapter().delete(node.handle)
    assert asyncio.run(look(node, Placed)).stage == NO_LOGIN


def test_a_port_is_carried_through_commands(node, tmp_path) -> None:
    """A connection to the port here reaches what listens there and both directions flow; nothing
    listens here once the program is ended.
    """

    async def carried():
        received = []

        async def answer(reader, writer) -> None:
            received.append(await reader.read())
            writer.write(b"you said " + received[-1][-4:])
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as there:
            here = free_port(0)
            launch = probe(tmp_path).line(node).tunnel(here, there.sockets[0].getsockname()[1])
            async with started(launch) as program:
                reader = None
                while reader is None:
                    assert program.returncode is None, await present(program.stderr).read()
                    try:
                        reader, writer = await asyncio.open_connection("127.0.0.1", here)
                    except OSError:
                        await asyncio.sleep(0.05)
                sent = os.urandom(400_000) + b"last"
                writer.write(sent)
                writer.write_eof()
                assert await asyncio.wait_for(reader.read(), 60) == b"you said last"
                writer.close()
            with pytest.raises(ConnectionError):
                await asyncio.open_connection("127.0.0.1", here)
        return received == [sent]

    assert asyncio.run(asyncio.wait_for(carried(), 90))


def test_a_shell_has_a_terminal(node, tmp_path) -> None:
    """An interactive shell of the client's own: a terminal there, its exit code here; without a
    terminal here it is refused.
    """
    launch = probe(tmp_path).line(node).login()
    done = subprocess.run(
        launch.argv,
        env=launch.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == FAILED
    assert "wanted a terminal for a shell" in done.stderr
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(launch.argv[0], launch.argv, launch.env)
    seen = b""
    readable = selectors.DefaultSelector()
    readable.register(terminal, selectors.EVENT_READ)

    def until(*words) -> None:
        nonlocal seen
        end = time.monotonic() + 60
        while not any(each in seen for each in words) and time.monotonic() < end:
            if readable.select(0.5):
                try:
                    seen += os.read(terminal, 65_536)
                except OSError:
                    return

    until(b"$ ", b"# ")
    os.write(terminal, b"echo a$((1+1))b $GPUS_STAND_IN; test -t 0 && exit 7\n")
    until(b"there is no end")
    assert os.waitpid(pid, 0)[1] >> 8 == 7, seen
    assert f"a2b {node.handle.native_id}".encode() in seen


def test_what_cannot_be_reached_ends_as_ssh_does(cloud) -> None:
    """A sandbox that Modal does not know, and a missing token, are one line on stderr and exit code
    255.
    """
    unknown = Own(
        tuple(modal.program(Node(Handle("modal", "sb-" + "a" * 22), "x", "running"), {})),
        "modal",
        "modal shell x",
    )
    code, output, text = asyncio.run(finished(unknown.command("true")))
    assert (code, output) == (FAILED, "")
    assert text.startswith("modal: ")
    assert "as-test-secret" not in text
    bare = unknown.command("true")
    without = {
        name: value
        for name, value in present(bare.env).items()
        if not name.startswith("MODAL_TOKEN")
    }
    code, _, text = asyncio.run(finished(LocalCommand(bare.argv, without)))
    assert code == FAILED
    assert "wanted a token" in text


def test_a_shell_and_ports_that_are_not_carried_are_refused_with_the_other_way() -> None:
    """Where a provider's program carries commands alone, the rest is refused, and its own command
    is named.
    """
    line = Own(("x",), "modal", "modal shell sb-1")
    for refused in (line.login, lambda: line.tunnel(1, 2)):
        with pytest.raises(errors.GpusError, match="modal shell sb-1"):
            refused()


def test_the_account_names_the_profile_and_never_the_token(tmp_path, monkeypatch) -> None:
    """What was set in the environment alone is the account's: a later run with another active
    profile still finds the first one's token.
    """
    file = tmp_path / "modal.toml"
    file.write_text("""
[one]
token_id = "ak-1"
token_secret = "as-1"
environment = "lab"
[two]
token_id = "ak-2"
token_secret = "as-2"
active = true
""")
    for name in ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET", "MODAL_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MODAL_CONFIG_PATH", str(file))
    monkeypatch.setenv("MODAL_PROFILE", "one")
    bought = modal.connect("live", {}).account
    assert bought == {"app": "gpus", "environment": "lab", "profile": "one"}
    monkeypatch.delenv("MODAL_PROFILE")
    assert modal.connect("live", {}).account == {"app": "gpus", "environment": "", "profile": "two"}
    again = modal.connect("live", bought)
    assert bought == again.account
    assert again.client.token.token_id == "ak-1"
    monkeypatch.setenv("MODAL_TOKEN_ID", "ak-3")
    monkeypatch.setenv("MODAL_TOKEN_SECRET", "as-3")
    assert modal.connect("live", bought).client.token.token_id == "ak-1"
    assert "profile" not in modal.connect("live", {}).account
    default = modal.connect("live", {"profile": "two"}).account
    monkeypatch.setenv("MODAL_ENVIRONMENT", "prod")
    assert modal.connect("live", default).client.environment == "", (
        "what is in the default environment is not looked for in another"
    )
    assert modal.connect("live", bought).client.environment == "lab"
    file.write_text("")
    with pytest.raises(errors.NotConfigured, match="profile 'one'"):
        modal.connect("live", bought)
