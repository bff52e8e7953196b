"""How a lease on a machine of one's own ends, whatever hangs, fails or is killed there meanwhile."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from providers.adapters.ssh import DONE, agent
from providers.errors import NoCapacity, Transient, Unsupported
from providers.model.machine import GONE, STOPPING
from tests.unit.own_machine_rig import SMI, here, running, until

__all__ = ["here"]

IN_A_CONTAINER = "docker run image; sleep 300"


def docker(here, words: str) -> None:
    """What the machine's Docker does, whatever it is asked."""
    tool = here.folder.parent / "bin" / "docker"
    tool.with_suffix(".new").write_text(f"#!/bin/sh\n[ $1 = run ] && exit\n{words}\nexit 0\n")
    tool.with_suffix(".new").chmod(0o755)
    tool.with_suffix(".new").replace(tool)


def keepers(here, token: str) -> list[str]:
    return running(f"GPUS_KEEPER={here.folder}/leases/{token}/own")


def kill_keepers(here, token: str) -> None:
    """Also one that was only just begun; what has ended meanwhile needs no signal."""

    def none_left() -> bool:
        found = keepers(here, token)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        return not found

    until(none_left)


@pytest.mark.long
def test_a_docker_that_hangs_holds_up_nobody_else(here) -> None:
    """Neither who looks nor who takes another card; the lease itself stands until Docker answers."""
    asked = here.folder.parent / "asked"
    docker(here, f"touch {asked}; sleep 300")
    handle = here.take("token-hangs", IN_A_CONTAINER)
    until(lambda: any(file.endswith("/containers") for file in here.files()))
    here.adapter().delete(handle)
    until(asked.exists)
    began = time.monotonic()
    other = here.take("token-other")
    assert time.monotonic() - began < 60, "it waited for the Docker that hangs, for 300 s"
    assert here.status(handle) == STOPPING
    docker(here, "")
    until(lambda: here.status(handle) == GONE, 40)
    here.adapter().delete(other)


@pytest.mark.long
def test_a_lease_stands_while_docker_does_not_tell_of_its_containers(here) -> None:
    """A question that fails is no answer: they may run on. Without containers nothing is asked."""
    docker(here, "exit 1")
    handle, plain = here.take("token-fails", IN_A_CONTAINER), here.take("token-plain", "sleep 300")
    until(lambda: any(file.endswith("/containers") for file in here.files()))
    for each in (handle, plain):
        here.adapter().delete(each)
    until(lambda: here.status(plain) == GONE)
    until(lambda: not running("GPUS_LEASE=token-fails"))
    assert here.status(handle) == STOPPING
    docker(here, "")
    until(lambda: here.status(handle) == GONE)


@pytest.mark.long
def test_a_keeper_that_was_killed_is_started_anew_by_whoever_looks(here) -> None:
    """So the lease ends with its `ttl` though nobody asks any more."""
    handle = here.take("token-kept", "sleep 300", ttl_s=4)
    kill_keepers(here, "token-kept")
    here.status(handle)
    until(lambda: here.files() == ["logs/token-kept.log"])


@pytest.mark.long
def test_a_finished_job_gives_its_lease_back_though_its_keeper_was_killed(here) -> None:
    """Nobody asks meanwhile."""
    here.take("token-done", f"until [ -e $HOME/go ]; do sleep 0.1; done; {DONE}; sleep 300")
    kill_keepers(here, "token-done")
    (here.folder / "leases/token-done/own/home/go").touch()
    until(lambda: here.files() == ["logs/token-done.log"])
    until(lambda: not keepers(here, "token-done"), 5)


@pytest.mark.parametrize("query", ["compute-apps", "gpu"])
def test_a_driver_that_does_not_tell_lends_nothing(here, query) -> None:
    """Neither which cards there are nor who uses them is guessed."""
    order = here.order("token-driver")
    smi = here.folder.parent / "bin" / "nvidia-smi"
    broken = f'#!/bin/sh\ncase "$*" in *{query}=*) exit 9 ;; esac\n'
    smi.write_text(SMI.replace("#!/bin/sh\n", broken))
    assert here.adapter().offers() == []
    with pytest.raises((NoCapacity, Unsupported, Transient), match="driver that does not answer"):
        here.adapter().submit(order)
    smi.write_text(SMI)
    assert here.cards() == []


def test_a_log_that_nobody_reads_holds_up_nobody_else(here) -> None:
    """A laptop that was unplugged while it read one leaves the machine to the others."""
    handle = here.take("token-log", "sleep 300")
    log = Path(f"{here.folder}/leases/token-log/own/var/lib/gpus/work/log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("x" * (1 << 20))
    reader = subprocess.Popen(
        ["sh", "-c", agent.program("log", "token-log").text], stdout=subprocess.PIPE
    )
    try:
        time.sleep(0.5)
        began = time.monotonic()
        here.status(handle)
        assert time.monotonic() - began < 30, "it waited for the reader, up to its own 60 s"
    finally:
        reader.kill()
        reader.communicate()
