"""`gpus ssh-config`: OpenSSH's client and rsync reach a real ssh server by a cluster's name, and the
user's own configuration keeps its other lines.
"""

import asyncio
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from providers import errors
from providers.adhoc import provision, rentals, stack_clusters
from providers.adhoc.sync import Machine, portal
from providers.cli import main
from providers.engine import operations
from providers.home import SSH_CONFIG_FILE, home
from providers.remote import ssh_config as files


def ssh(config, name, *command, **more):
    return subprocess.run(
        ["ssh", "-F", str(config), "-o", "BatchMode=yes", name, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **more,
    )


@pytest.fixture
def declared(bench, monkeypatch, tmp_path):
    """The command, once its journal and world are the bench's, and this user's home a new one."""
    monkeypatch.setattr(stack_clusters, "open_world", lambda _name: bench.world())
    monkeypatch.setattr(stack_clusters, "WORLDS", ("live",))
    monkeypatch.setattr(
        provision,
        "find",
        lambda *_, **__: [Machine(each) for each in portal().run(rentals.look(bench.world()))],
    )
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    (tmp_path / "person").mkdir()
    bench.world().journal.owned("live", "own", "gpus", "train-h100x8", new=True)
    return bench


def printed(capfd, *words):
    """(what the command prints, what it says beside that)."""
    capfd.readouterr()
    assert main.main(["ssh-config", *words]) == 0
    return capfd.readouterr()


@pytest.mark.long
def test_ssh_and_rsync_reach_a_declared_cluster_and_an_ad_hoc_one_by_name(
    declared, capfd, tmp_path
) -> None:
    """By their own keys, strictly by the host key that was pinned at readiness."""
    machine = declared.rent()
    capfd.readouterr()
    config = tmp_path / "config"
    config.write_text(printed(capfd)[0])
    assert config.read_text().count("Host ") == 1
    assert ssh(config, "bench", "echo $HOME").stdout.strip() == str(declared.host.home)
    machine.release()
    record = declared.declare()
    config.write_text(printed(capfd)[0])
    assert ssh(config, "train", "exit 7").returncode == 7
    assert ssh(config, "bench", "true").returncode == 255
    if shutil.which("rsync"):
        (tmp_path / "code").mkdir()
        (tmp_path / "code" / "a.py").write_text("a")
        subprocess.run(
            ["rsync", "-a", "-e", f"ssh -F {config}", f"{tmp_path}/code/", "train:code"],
            check=True,
            timeout=60,
        )
        assert (declared.host.home / "code" / "a.py").read_text() == "a"
    declared.server.stop()
    declared.server.start()
    refused = ssh(config, "train", "touch reached")
    assert refused.returncode == 255 and not (declared.host.home / "reached").exists()
    asyncio.run(operations.delete(declared.world(), record))


def test_every_machine_has_a_name_and_one_that_is_lost_has_none(declared, capfd, tmp_path) -> None:
    """`train` and `train-1`; of a lost one a line says so, and the others keep their entries."""
    record = declared.declare(nodes=2)
    config = tmp_path / "config"
    config.write_text(printed(capfd)[0])
    assert [ssh(config, name, "true").returncode for name in ("train", "train-1")] == [0, 0]
    declared.cloud.preempt(record.handles[1], remains=True)
    out, err = printed(capfd, "train", "-s", "train-h100x8")
    assert "Host train\n" in out and "Host train-1" not in out and "it is preempted" in err
    asyncio.run(operations.delete(declared.world(), record))


def test_a_cloud_that_does_not_tell_takes_no_entry_away(declared, capfd, monkeypatch) -> None:
    """Not known is not gone: what the journal has stays, and a line says so."""
    record = declared.declare()
    real = declared.cloud.observe

    def silent(_handles):
        raise errors.NotConfigured("no credentials", provider="alpha")

    declared.cloud.observe = silent
    out, err = printed(capfd)
    assert "Host train\n" in out and "as last seen, since its cloud does not tell" in err
    declared.cloud.observe = real
    asyncio.run(operations.delete(declared.world(), record))


def test_a_stacks_cluster_gives_way_to_an_ad_hoc_one_of_its_name(declared, capfd) -> None:
    """As in every command the plain name is the ad hoc one's, and a line says the other's."""
    machine, record = declared.rent("train"), declared.declare()
    out, err = printed(capfd)
    blocks = {block.split()[1]: block for block in out.split("\n\n")}
    assert set(blocks) == {"train", "train.train-h100x8"}
    assert "/adhoc/live/train/" in blocks["train"]
    assert "that of stack train-h100x8 is train.train-h100x8" in err
    machine.release()
    asyncio.run(operations.delete(declared.world(), record))


def test_written_entries_are_private_and_included_once_and_go_with_their_machines(
    declared, capfd, tmp_path
) -> None:
    """The second run changes nothing, and after the delete the file holds no entry."""
    record = declared.declare()
    config, file = tmp_path / "person" / ".ssh" / "config", home() / SSH_CONFIG_FILE
    said = printed(capfd, "--write")[1]
    assert f"{config} includes it now" in said and f"{file} has 1 entries" in said
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(config.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.parent.stat().st_mode) == 0o700
    before = config.read_bytes()
    assert "includes it now" not in printed(capfd, "--write")[1] and config.read_bytes() == before
    assert ssh(config, "train", "exit 3").returncode == 3
    asyncio.run(operations.delete(declared.world(), record))
    printed(capfd, "--write")
    assert "Host" not in file.read_text() and config.read_bytes() == before


def test_the_file_is_written_whole_or_not_at_all(declared, capfd) -> None:
    """A choice of machines would drop the others' entries: it is refused."""
    for words in (["train"], ["-s", "train-h100x8"], ["--world", "live"]):
        assert main.main(["ssh-config", "--write", *words]) == 2
        assert "wanted every machine's entry" in capfd.readouterr().err
    assert not (home() / SSH_CONFIG_FILE).exists()


@pytest.mark.long
def test_a_rehearsals_machine_has_no_entry_and_the_line_says_how_it_is_reached(
    capfd, tmp_path, monkeypatch
) -> None:
    """A stand-in node takes no ssh."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "gpus"))
    monkeypatch.chdir(tmp_path)
    assert main.main(["run", "L4:1", "--name", "box", "--keep"]) == 0
    out, err = printed(capfd)
    assert out == "" and "box: no entry: a stand-in node takes no ssh; `gpus ssh box`" in err
    assert main.main(["release", "box"]) == 0


@pytest.fixture
def place(tmp_path):
    (tmp_path / ".ssh").mkdir(mode=0o700)
    return tmp_path / ".ssh" / "config"


def test_the_line_goes_to_the_top_and_every_other_byte_stays(place, tmp_path) -> None:
    """Also of a file that is no text, with its own mode; the line below a block counts for that
    block alone, so another one is added.
    """
    file = tmp_path / "ssh.config"
    line = f'Include "{file}"\n'.encode()
    theirs = b"# caf\xe9\r\nHost *\n  " + line
    place.write_bytes(theirs)
    place.chmod(0o644)
    assert files.include(place, file) and place.read_bytes() == line + theirs
    assert stat.S_IMODE(place.stat().st_mode) == 0o644
    assert not files.include(place, file) and place.read_bytes() == line + theirs


def test_a_linked_configuration_stays_a_link(place, tmp_path) -> None:
    """The file that it leads to is changed, where it stands."""
    (tmp_path / "dotfiles").mkdir()
    real = tmp_path / "dotfiles" / "ssh"
    real.write_text("Host a\n")
    place.symlink_to("../dotfiles/ssh")
    assert files.include(place, tmp_path / "ssh.config")
    assert place.is_symlink() and place.readlink() == Path("../dotfiles/ssh")
    assert real.read_text().endswith('ssh.config"\nHost a\n')
    assert list(real.parent.iterdir()) == [real]


def test_a_configuration_that_cannot_be_changed_names_the_line(place, tmp_path) -> None:
    """A folder in its place, or a link into nowhere: one message, with the line to add."""
    place.symlink_to("/proc/nowhere/config")
    with pytest.raises(errors.GpusError, match=r'add it yourself: Include "'):
        files.include(place, tmp_path / "ssh.config")
    place.unlink()
    place.mkdir()
    with pytest.raises(errors.GpusError, match=r'add it yourself: Include "'):
        files.include(place, tmp_path / "ssh.config")
    with pytest.raises(errors.GpusError, match="wanted a path that OpenSSH's Include takes"):
        files.include(place, tmp_path / "a*b" / "ssh.config")


def test_openssh_reads_the_included_file(place, tmp_path) -> None:
    """OpenSSH's own reading of the two files, a folder with a blank included."""
    (tmp_path / "my state").mkdir()
    file = tmp_path / "my state" / "ssh.config"
    files.write(file, ["Host box\n  HostName 192.0.2.1\n  Port 2222"])
    place.write_text("Host *\n  Port 1\n")
    files.include(place, file)
    said = subprocess.run(
        ["ssh", "-G", "-F", str(place), "box"], capture_output=True, text=True, check=True
    ).stdout
    assert "hostname 192.0.2.1\n" in said and "port 2222\n" in said
