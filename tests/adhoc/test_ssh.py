"""Commands, files and ports over OpenSSH's client to a real ssh server, and what is and is not sent
there.
"""

import http.server
import stat
import threading
import urllib.error
import urllib.request

import pytest

from providers import errors
from providers.adhoc import access
from providers.adhoc.machine import AsyncMachine
from providers.adhoc.sync import portal
from providers.remote.ssh import given_key


@pytest.mark.core
def test_put_run_get(bench, tmp_path, capfd) -> None:
    """A folder goes there, a command uses it and its output and exit code come back, a result comes
    back; then nothing is left.
    """
    (tmp_path / "bench" / "deep").mkdir(parents=True)
    (tmp_path / "bench" / "run.sh").write_text(
        "cat deep/with\\ blank > ../out.json; echo done; echo oops >&2; exit 3\n"
    )
    (tmp_path / "bench" / "deep" / "with blank").write_text('{"ok": "ä"}\n')
    machine = bench.rent()
    assert machine.put("bench") == "bench"
    assert machine.run("cd bench && sh run.sh") == 3
    out, err = capfd.readouterr()
    assert (out, err) == ("done\n", "oops\n")
    assert machine.get("out.json").read_text() == '{"ok": "ä"}\n'
    machine.get("bench", tmp_path / "back")
    assert (tmp_path / "back" / "deep" / "with blank").exists()
    machine.release()
    assert bench.cloud.alive == [] and access.names("live") == ()


def test_b31_the_port_is_the_one_outside_and_an_empty_map_is_not_port_22(bench) -> None:
    """Port 22 inside is another one outside: that one is used. A map that is still empty is waited
    for, and is never taken for 22.
    """
    asked = []

    def ports():
        asked.append(1)
        return ()

    bench.ports = ports
    real_observe = bench.cloud.observe

    def observe(handles):
        nodes = real_observe(handles)
        if bench.cloud.calls["observe"] >= 4:
            return [node._replace(ports=((22, bench.host.port), (8000, 10001))) for node in nodes]
        return nodes

    bench.cloud.observe = observe
    machine = bench.rent()
    assert asked and f"-p {bench.host.port}" in machine.ssh
    assert any("its ssh port is not mapped yet" in line for line in bench.lines)
    machine.release()


def test_the_made_key_stays_here_and_is_private(bench) -> None:
    """The key is made for this cluster, in a folder for its user alone; only its public half
    leaves.
    """
    machine = bench.rent()
    place = access.folder("live", "bench")
    assert (
        stat.S_IMODE(place.stat().st_mode) == 0o700
        and stat.S_IMODE((place / "id_ed25519").stat().st_mode) == 0o600
    )
    private = (place / "id_ed25519").read_text()
    assert private.splitlines()[1] not in repr(bench.cloud.orders)
    assert machine.run("test ! -e .ssh/id_ed25519") == 0
    machine.release()
    assert not place.exists()


def test_a_given_key_is_used_and_kept(bench, tmp_path) -> None:
    """With `ssh_key` the user's own pair logs in, and is left where it is."""
    import subprocess

    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "my key")], check=True
    )
    machine = bench.rent(ssh_key=tmp_path / "my key")
    assert machine.run("true") == 0 and not (access.folder("live", "bench") / "id_ed25519").exists()
    machine.release()
    assert (tmp_path / "my key").exists()
    with pytest.raises(errors.GpusError, match="ssh_key: wanted the file of a private key"):
        given_key(tmp_path / "none")


def test_where_no_machine_takes_a_key_none_is_made(tmp_path, monkeypatch) -> None:
    """One's own machines alone: what is kept of them is read again without a key."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made = access.make("live", "bench", {}, None, keyless=True)
    assert made.key is None and access.opened("live", "bench") == made


def test_the_host_key_is_pinned_at_readiness_and_strict_after(bench, capfd) -> None:
    """Another host key behind the same address is refused, before anything is sent there."""
    machine = bench.rent()
    bench.server.stop()
    bench.server.start()
    with pytest.raises(errors.GpusError, match=r"connection to .* was lost"):
        machine.run("touch reached")
    with pytest.raises(errors.GpusError):
        machine.put(bench.host.keys)
    assert (
        not (bench.host.home / "reached").exists()
        and not (bench.host.home / "authorized_keys").exists()
    )
    machine.release()


def test_nothing_of_this_process_goes_there(bench, monkeypatch, tmp_path) -> None:
    """No environment, no agent and no ssh configuration of the user's reach the machine, whatever
    that says.
    """
    config = tmp_path / "userhome" / ".ssh"
    config.mkdir(parents=True)
    (config / "config").write_text(
        "Host *\n  ForwardAgent yes\n  SendEnv *\n  ProxyCommand false\n"
    )
    monkeypatch.setenv("HOME", str(config.parent))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent.sock"))
    machine = bench.rent()
    assert machine.run('test -z "$HF_TOKEN" && test -z "$SSH_AUTH_SOCK"') == 0
    if hasattr(bench.server, "sent"):
        assert bench.server.agents == 0 and all(sent == {} for sent in bench.server.sent)
    machine.release()


@pytest.mark.core
def test_words_arrive_as_they_are(bench, capfd) -> None:
    """A command given as a list arrives word by word, whatever the words hold; so do names of
    files.
    """
    machine = bench.rent()
    source = bench.host.home.parent / "source"
    source.write_text("x")
    words = ["a b", "$HOME", "`id`", "x; touch broken", "it's", "-n", "ä*", "new\nline"]
    assert machine.run(["printf", "%s|", *words, "end"]) == 0
    assert capfd.readouterr().out == "|".join([*words, "end|"])
    name = f"dir/{'-'.join(words)}"
    assert machine.put(source, name) == name
    assert machine.get(name, bench.host.home.parent / "back").read_text() == "x"
    assert not (bench.host.home / "broken").exists()
    machine.release()


@pytest.mark.core
def test_exit_codes_check_and_255(bench) -> None:
    """The code is the command's own, 255 too while the machine answers; `check` raises for any but
    0.
    """
    machine = bench.rent()
    assert [machine.run(f"exit {code}") for code in (0, 7, 255)] == [0, 7, 255]
    with pytest.raises(errors.GpusError, match="ended with 7"):
        machine.run("exit 7", check=True)
    machine.release()


def test_a_port_there_is_a_port_here_while_the_block_runs(bench) -> None:
    """`forward` reaches what listens on the machine's loopback, only inside the block; a local port
    in use is named.
    """
    service = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler
    )
    threading.Thread(target=service.serve_forever, daemon=True).start()
    there = service.server_address[1]
    machine = bench.rent()
    with machine.forward(there) as here:
        assert here != there  # it is taken on this machine, which is the service's too
        assert urllib.request.urlopen(f"http://127.0.0.1:{here}/").status == 200
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{here}/", timeout=5)
    with pytest.raises(errors.GpusError, match="to be free"), machine.forward(8888, local=there):
        pass
    machine.release()
    service.shutdown()


def test_missing_files_are_named(bench) -> None:
    """What is not there, here or on the machine, is one clear line."""
    machine = bench.rent()
    with pytest.raises(errors.GpusError, match="put: wanted a file or folder, found none"):
        machine.put("no-such")
    with pytest.raises(errors.GpusError, match="get no-such"):
        machine.get("no-such")
    for bad in ("", "..", "/"):
        with pytest.raises(errors.GpusError):
            machine.get(bad)
    machine.release()


def test_a_machine_taken_back_ends_the_command(bench) -> None:
    """While a command runs the cloud is asked: once it took the machine back, the wait ends and
    says so, and the release is clean.
    """
    machine = bench.rent()
    threading.Timer(
        0.5, lambda: bench.cloud.preempt(machine.record.handles[0], remains=True)
    ).start()
    with pytest.raises(errors.GpusError, match="was taken back while the command ran: sleep 60"):
        machine.run("sleep 60")
    machine.release()
    assert bench.cloud.alive == []


@pytest.mark.core
def test_b32_a_real_look_at_the_driver(bench) -> None:
    """Over ssh: a driver that is not there yet is waited for; seven of eight GPUs, and another
    card, end the rental and name what was found.
    """
    bench.host.script(
        f"n=$(cat {bench.host.home}/n 2>/dev/null || echo 0); echo $((n+1)) > {bench.host.home}/n;"
        f" [ $n -ge 2 ] || exit 9; cat {bench.host.home}/gpus"
    )
    rows = ["NVIDIA H100 80GB HBM3, 81559 MiB\n"] * 8
    (bench.host.home / "gpus").write_text("".join(rows))
    machine = bench.rent()
    assert any("no driver: nvidia-smi ended with 9" in line for line in bench.lines)
    machine.release()
    for shown, words in (
        (rows[1:], "7 of 8 GPUs answer"),
        (
            ["NVIDIA A100-SXM4-80GB, 81920 MiB\n"] * 8,
            "8 x NVIDIA A100-SXM4-80GB where H100:8 was ordered",
        ),
    ):
        (bench.host.home / "gpus").write_text("".join(shown))
        with pytest.raises(errors.AllFailed, match=words.replace(" ", r"\s+")):
            bench.rent()
        assert bench.cloud.alive == [] and access.names("live") == ()


def test_b30_a_closed_port_and_a_refused_key_are_told_apart(bench) -> None:
    """Real stages: nobody listens, then something that is not ssh, then ssh that does not take the
    key: each is named when the wait has passed.
    """
    good = bench.ports
    bench.ports = lambda: ((22, 9),)
    with pytest.raises(errors.AllFailed, match=r"port closed: 127.0.0.1:9"):
        bench.rent(wait="2m")
    bench.ports = good
    bench.takes_keys = False
    with pytest.raises(errors.AllFailed, match="login refused"):
        bench.rent(wait="2m")
    assert bench.cloud.alive == []


def test_many_lines_and_bytes_come_through(bench, capfd) -> None:
    """A megabyte of output arrives whole, and a file of every byte comes back as it went."""
    machine = bench.rent()
    assert machine.run("seq 1 150000") == 0
    assert capfd.readouterr().out.splitlines()[-1] == "150000"
    data = bench.host.home.parent / "bytes"
    data.write_bytes(bytes(range(256)) * 4_000)
    machine.put(data)
    assert machine.get("bytes", bench.host.home.parent / "again").read_bytes() == data.read_bytes()
    machine.release()


def test_another_process_finds_logs_in_and_releases(bench) -> None:
    """What `look` finds in a fresh world has the way in, and can be given back there."""
    from providers.adhoc import rentals

    machine = bench.rent()
    machine.keep()
    [other] = portal().run(rentals.look(bench.world()))
    assert isinstance(other, AsyncMachine) and (other.name, other.process) == ("bench", None)
    assert portal().run(other.run("true")) == 0
    portal().run(other.release())
    assert bench.cloud.alive == [] and portal().run(rentals.look(bench.world())) == ()
