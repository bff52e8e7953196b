"""The start-up scripts of Google and EC2, as those clouds would get them, on machines with Debian and
Ubuntu: with Docker and without, behind a proxy, with a full disk, at a second boot.
"""

import fcntl
import tempfile
from pathlib import Path

import pytest

from providers.adapters.aws.first_boot import user_data
from providers.adapters.gcp.machine_metadata import start_up
from providers.model.machine import Setup
from providers.model.workload import ROOT, Process, Program
from providers.rehearsal.nodes import image
from providers.workloads.launch.start_script import script
from tests.launchers.roots import DEBIAN, UBUNTU, imported
from tests.launchers.systems import (
    METADATA_HOST,
    NETWORK,
    PROXY,
    ROUTE,
    SUBNET,
    Booting,
    Gateway,
    sources,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

WITHOUT_DOCKER = f"""FROM {image.TAG}
RUN apt-get purge -qy docker.io containerd runc && rm /usr/local/bin/docker \\
    && echo 'DPkg::Post-Invoke {{ "ln -sf /usr/lib/rehearsal/docker.sh /usr/local/bin/docker"; }};' \\
    >/etc/apt/apt.conf.d/99rehearsal
"""
"""Once it is installed, images are made as on the rehearsal's other machines."""
UPDATES_ITSELF = """python3 - <<'PYTHON' &
import fcntl, time
names = ("dpkg/lock-frontend", "dpkg/lock", "apt/lists/lock")
held = [open(f"/var/lib/{name}", "w") for name in names]
for each in held:
    fcntl.lockf(each, fcntl.LOCK_EX)
time.sleep(10)
PYTHON
sleep 1
"""


class System:
    """A root file system of a daemon: the images with and without Docker, and what leads out."""

    def __init__(self, daemon, suite) -> None:
        self.daemon, self.suite = daemon, suite
        self.machines: list[Booting] = []
        imported(daemon, suite, image.BASE)
        image.built()
        daemon.call("build", "--tag", "without-docker", "-", given=WITHOUT_DOCKER.encode())
        self.hosts = sources(daemon, image.TAG)
        daemon.call("network", "create", "--subnet", SUBNET, NETWORK)
        self.gateway = Gateway(self.hosts)

    def machine(self, *options, docker=True) -> Booting:
        name = image.TAG if docker else "without-docker"
        made = Booting(self.daemon, name, self.hosts, *options)
        self.machines.append(made)
        return made

    def end_machines(self) -> None:
        while self.machines:
            self.machines.pop().end()

    def close(self) -> None:
        self.gateway.close()
        self.daemon.call("network", "rm", NETWORK)
        self.daemon.call("rmi", "--force", "without-docker", image.TAG, image.BASE)


@pytest.fixture(scope="module", params=[DEBIAN, UBUNTU])
def booted(request, daemon):
    """One at a time on a host: all have one range of addresses."""
    with (
        Path(tempfile.gettempdir(), "gpus-systems-tests.lock").open("a") as lock,
        pytest.MonkeyPatch.context() as patch,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ROUTE in Path("/proc/net/route").read_text():
            pytest.fail(f"wanted {SUBNET} for the tests' machines, found a route to it")
        patch.setenv("DOCKER_HOST", daemon.host)
        made = System(daemon, request.param)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def system(booted):
    yield booted
    booted.end_machines()


def program(kind, command, **more):
    return Program(kind, (Process("main", command),), image="app:1", **more)


def told(cloud, made, secrets=()):
    """What a machine of that cloud runs at its boot."""
    setup = Setup(script=script(made), secrets=secrets)
    return start_up(setup) if cloud == "gcp" else user_data(setup)


RAN = f"echo ran >>{ROOT}/ran; echo it ran"


@pytest.mark.parametrize("cloud", ["gcp", "aws"])
def test_a_job_is_not_run_again_at_a_second_boot(system, cloud) -> None:
    machine = system.machine()
    machine.boot(told(cloud, program("job", RAN)), always=cloud == "gcp")
    assert machine.said("succeeded") == "succeeded 0"
    machine.cut()
    machine.boot()
    assert machine.said("succeeded", times=2) == "succeeded 0 earlier"
    assert machine.run(f"cat {ROOT}/ran") == "ran"


def test_docker_is_installed_whatever_comes_between(system) -> None:
    """The machine installs its own updates meanwhile, and goes down while Docker is unpacked. The
    service is up in the end, and again after a second boot.
    """
    if system.suite != UBUNTU:
        pytest.skip("takes long: once will do")
    machine = system.machine(docker=False)
    machine.boot(UPDATES_ITSELF + told("gcp", program("service", f"{RAN}; sleep 1000")))
    machine.until(lambda: "Unpacking docker.io" in machine.log)
    machine.cut()
    for boot in (1, 2):
        machine.boot()
        machine.said("ready", times=boot)
        machine.until(lambda times=boot: machine.log.count("it ran") == times)
        machine.cut()


def test_behind_a_proxy_all_goes_through_it_but_the_metadata(system) -> None:
    """Its image names it in /etc/environment, which services of systemd do not read."""
    if system.suite != DEBIAN:
        pytest.skip("takes long: once will do")
    machine = system.machine(docker=False)
    machine.put(
        "/etc/environment", f'PATH="/usr/bin:/bin"\nhttp_proxy={PROXY}\nHTTPS_PROXY="{PROXY}"'
    )
    system.gateway.proxy_only = True
    system.gateway.passed.clear()
    try:
        secrets = (("KEY", "projects/p/secrets/key/versions/1"),)
        ends = f"env >{ROOT}/env"
        machine.boot(told("gcp", program("job", f"{ends}; {RAN}"), secrets))
        assert machine.said("succeeded") == "succeeded 0"
    finally:
        system.gateway.proxy_only = False
    passed = system.gateway.passed
    assert all(each.proxy for each in passed)
    hosts = {each.host for each in passed}
    assert hosts == {*system.hosts, "secretmanager.googleapis.com:443"}
    assert METADATA_HOST in machine.run(f"grep ^no_proxy= {ROOT}/env")
    dockers = machine.run("tr '\\0' '\\n' </proc/$(pidof dockerd)/environ")
    assert f"http_proxy={PROXY}" in dockers and f"HTTPS_PROXY={PROXY}" in dockers
