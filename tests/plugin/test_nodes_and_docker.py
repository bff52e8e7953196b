"""What becomes of rehearsal machines when Docker goes down, is shared, or is given back."""

import pytest

from providers.rehearsal.nodes import image
from tests.plugin.conftest import Project, wait_until
from tests.plugin.nodes_rig import daemon, monkeypatch_module, nodes

__all__ = ["daemon", "monkeypatch_module", "nodes"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

SMALL = """config:
  gpus:world: rehearsal
  gpus:clusters:
    box:
      kind: machine
      gpu: T4:1
      providers: [gcp]
      state: running
"""
MOUNTED = """config:
  gpus:world: rehearsal
  gpus:volumes:
    data: {{provider: {cloud}, place: {zone}, size_gib: 20, delete_data: true}}
  gpus:clusters:
    box:
      kind: job
      triggers: {{rerun: 1}}
      gpu: T4:1
      providers: [{cloud}]
      workload:
        command: cat /mnt/data/kept; echo written before >>/mnt/data/kept || echo kept as it is
        on_done: keep
        volumes: {{data: /mnt/data}}
"""


def declared(made: Project, text: str) -> Project:
    """The project, with this as its stack, in a rehearsal whose machines run."""
    salt = made.file.read_text().partition("encryptionsalt")[2]
    made.file.write_text(f"{text}encryptionsalt{salt}")
    made.rehearse("nodes", "docker")
    return made


def answers(made: Project) -> str:
    """The name of the machine by ssh, once it answers."""
    said = ""

    def asked() -> bool:
        nonlocal said
        try:
            said = made.gpus("ssh", "box", "--", "hostname")
        except AssertionError:
            return False
        return True

    wait_until(asked, 30)
    return said


def kinds(daemon, *words: str) -> list[str]:
    """What Docker has of the rehearsals: containers, networks, volumes, images."""
    label = ("--quiet", "--filter", "label=gpus.rehearsal.store", *words)
    found = [daemon.call(kind, "ls", *label) for kind in ("network", "volume")]
    found += [daemon.call("ps", "--all", *label)]
    found += [daemon.call("image", "ls", "--quiet", "--filter", "label=gpus.rehearsal.image")]
    return [each for text in found for each in text.split()]


def test_only_a_machine_that_powers_itself_off_is_stopped(project, nodes) -> None:
    """A daemon that restarts stops all containers in order, and a machine may reboot: either comes
    up again with its disk. So does one whose network was pruned meanwhile.
    """
    made = declared(project(), SMALL)
    made.up()
    (name,) = nodes.running()
    nodes.call("exec", name, "touch", "/root/kept")
    nodes.restart()
    nodes.call("network", "prune", "--force")
    assert "unchanged" in made.up()
    answers(made)
    nodes.call("exec", name, "ls", "/root/kept")
    nodes.call("exec", name, "systemctl", "reboot")
    wait_until(lambda: nodes.call("ps", "--quiet") == "")
    assert [each["status"] for each in made.machines()] == ["RUNNING"]
    answers(made)
    nodes.call("exec", name, "systemctl", "poweroff")
    wait_until(lambda: made.machines()[0]["status"] in {"STOPPING", "TERMINATED"})
    made.rehearse("reset", "--yes")
    assert kinds(nodes) == []


def test_two_rehearsals_share_a_daemon_and_each_is_reset_alone(project, nodes, tmp_path) -> None:
    """Their clouds give the same addresses. One that is reset leaves nothing, also where Docker
    could not be asked at that time; nor does one whose image could not be built.
    """
    first = project()
    first.env["DOCKER_DEFAULT_PLATFORM"] = "linux/s390x"
    assert "wanted linux/s390x" in first.gpus("rehearse", "nodes", "docker", code=2)
    assert kinds(nodes) == []
    del first.env["DOCKER_DEFAULT_PLATFORM"]
    declared(first, SMALL)
    (tmp_path / "other").mkdir()
    other = declared(Project(tmp_path / "other", first.stack), SMALL)
    first.up()
    other.up()
    assert len(nodes.running()) == 2 and answers(first) != answers(other)
    other.rehearse("reset", "--yes")
    (kept,) = nodes.running()
    answers(first)
    host, first.env["DOCKER_HOST"] = first.env["DOCKER_HOST"], "unix:///nowhere"
    assert "docker ps failed" in first.rehearse()
    assert "what Docker has of it goes with the next" in first.rehearse("reset", "--yes")
    assert "played" in first.rehearse("nodes")
    first.env["DOCKER_HOST"] = host
    assert nodes.running() == [kept]
    first.rehearse("nodes", "docker")
    assert nodes.running() == []
    first.rehearse("nodes", "played")
    assert kinds(nodes) == []


def test_a_volume_outlives_its_machine_and_goes_with_its_data(project, nodes) -> None:
    """The next machine reads what the first one wrote, and cannot write to it where it only reads;
    a volume that is deleted leaves none.
    """
    made = declared(project(), MOUNTED.format(cloud="gcp", zone="us-central1-a"))
    made.up()
    made.gpus("wait", "box")
    assert "written before" not in made.gpus("logs", "box", "--lines", "0")
    made.edit("rerun: 1", "rerun: 2")
    made.edit("{data: /mnt/data}", "{data: {path: /mnt/data, mode: ro}}")
    made.up()
    made.gpus("wait", "box")
    said = made.gpus("logs", "box", "--lines", "0")
    assert "written before" in said and "kept as it is" in said
    (name,) = nodes.running()
    folders = ("exec", name, "ls", "/var/lib/rehearsal-disks")
    assert len(nodes.call(*folders).split()) == 1
    made.destroy()
    (volume,) = nodes.call("volume", "ls", "--quiet").split()
    assert volume.endswith("-disks")
    words = ("run", "--rm", "--network", "none", "--volume", f"{volume}:/disks", image.BASE)
    assert nodes.call(*words, "ls", "/disks") == ""
    made.rehearse("reset", "--yes")
    assert kinds(nodes) == []


def test_a_volume_is_found_by_its_serial_number_at_ec2(project, nodes) -> None:
    """It is attached to a machine that runs already, whose script waits for it."""
    made = declared(project(), MOUNTED.format(cloud="aws", zone="use1-az1"))
    made.up()
    made.gpus("wait", "box")
    (name,) = nodes.running()
    data = nodes.call("exec", name, "sh", "-c", "cat /var/lib/rehearsal-disks/*/data/kept")
    assert data == "written before"
    made.rehearse("reset", "--yes")
    assert kinds(nodes) == []
