"""`provision` interrupted: the machine is released, or found later."""

import _thread
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Never

import pytest

import providers as p
from providers import errors
from providers.adhoc import access, provision, sync
from providers.cli import main
from providers.rehearsal.store import open_store
from tests.adhoc.provision_rig import machines, python
from tests.present import present

pytestmark = pytest.mark.usefixtures("own_home")


def until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.05)
    return found


def test_an_interrupt_during_the_release_waits_for_its_end(capfd) -> None:
    """Ctrl-C while it is being released is answered, the release goes on to its end, and then the
    interrupt does.
    """
    open_store().set_latency("gcp", "delete", 3.0)
    with pytest.raises(KeyboardInterrupt), p.provision("L4:1", providers=["gcp"]):
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    assert machines() == []
    assert "still releasing it" in capfd.readouterr().err


def test_an_interrupt_when_it_is_launched_but_nobody_was_told_yet_releases(
    monkeypatch, capfd
) -> None:
    """Ctrl-C between the last step of the purchase and the block: the machine is released and
    confirmed, kept or not.
    """
    rent = provision.rent

    async def then_interrupted(*arguments, **more):
        machine = await rent(*arguments, **more)
        assert machines()
        _thread.interrupt_main()
        return machine

    monkeypatch.setattr(provision, "rent", then_interrupted)
    for keep in (False, True):
        with (
            pytest.raises(KeyboardInterrupt),
            p.provision("L4:1", name="box", providers=["gcp"], keep=keep),
        ):
            raise AssertionError("the block was entered")
        assert (
            machines() == [] and p.find() == () and "released, confirmed" in capfd.readouterr().err
        )


def test_lines_that_nobody_reads_stop_no_purchase_and_no_release() -> None:
    """A report that raises, as where stderr is a closed pipe, is passed over: the block runs and
    the machine is released.
    """

    def closed(severity, text) -> Never:
        raise BrokenPipeError(32, "Broken pipe")

    with p.provision("L4:1", name="box", providers=["gcp"], report=closed) as c:
        assert c.run("true") == 0 and machines()
    assert machines() == [] and p.find() == ()


def test_a_shell_pipe_that_is_closed_leaves_nothing_running() -> None:
    """`gpus run ... 2>&1 | head -1`: whatever becomes of its lines, nothing is left running or
    unsettled.
    """
    command = [
        sys.executable,
        "-c",
        "from providers.cli.main import main; raise SystemExit(main())",
        "run",
        "L4:1",
        "--name",
        "box",
        "--",
        "sleep 1",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    stdout = present(process.stdout)
    stdout.readline()
    stdout.close()
    process.wait(timeout=120)
    assert machines() == [] and p.find() == () and access.names("rehearsal") == ()


def test_what_fails_after_the_purchase_and_before_the_block_releases(monkeypatch) -> None:
    """Nobody has the machine in hand yet: it is released, and the error goes on."""
    monkeypatch.setattr(provision, "described", lambda machine: 1 / 0)
    with pytest.raises(ZeroDivisionError), p.provision("L4:1", name="box", providers=["gcp"]):
        raise AssertionError("the block was entered")
    assert machines() == [] and p.find() == ()


def test_two_interrupts_at_once_release(monkeypatch, capfd) -> None:
    """A second Ctrl-C while the first is being answered, as where a parent passes its own on: the
    purchase still ends in order.
    """
    told: list[str] = []
    say = sync.say

    def interrupted_again(text) -> None:
        say(text)
        if not told:
            told.append(text)
            raise KeyboardInterrupt

    monkeypatch.setattr(sync, "say", interrupted_again)
    open_store().set_latency("gcp", "create", 3.0)
    threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt), p.provision("L4:1", providers=["gcp"]):
        raise AssertionError("the block was entered")
    assert told and machines() == [] and p.find() == ()


def test_a_release_that_cannot_be_confirmed_raises_and_names_it(monkeypatch) -> None:
    """When the cloud refuses to delete, the block ends with what may still cost money and how to
    try again; trying again works.
    """
    with (
        pytest.raises(errors.HalfMade) as failed,
        p.provision("L4:1", name="stuck", providers=["gcp"]) as c,
    ):
        name = c.record.machines[0].name
        open_store().add_fault("gcp", "instances.delete", "unauthorized", times=None)
    text = str(failed.value)
    assert (
        name in text
        and "may still cost $" in text
        and "gpus release stuck --world rehearsal" in text
    )
    assert machines() == [name] and [machine.name for machine in p.find()] == ["stuck"]
    open_store().clear_faults()
    p.release("stuck")
    assert machines() == [] and p.find() == ()
    with pytest.raises(p.GpusError, match="none that was bought from this machine"):
        p.release("stuck")


BLOCK = """
    import providers as p
    with p.provision("L4:1", name="job") as c:
        print("inside", flush=True)
        c.run("echo running; sleep 60")
"""


def test_ctrl_c_at_a_command_releases() -> None:
    """SIGINT while a command runs: the command ends, the release is confirmed, and the process ends
    as interrupted.
    """
    process = python(BLOCK)
    assert [present(process.stdout).readline() for _ in range(2)] == ["inside\n", "running\n"]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert "KeyboardInterrupt" in err and "released, confirmed" in err and process.returncode != 0
    assert machines() == []


def test_ctrl_c_while_acquiring_releases() -> None:
    """SIGINT before the machine is ready: what was bought is released before the interrupt goes on."""
    open_store().add_fault("gcp", "node.look", "no-driver", times=None)
    process = python(BLOCK)
    until(machines)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert "interrupted; what was asked for is being released" in err and "KeyboardInterrupt" in err
    assert machines() == [] and access.names("rehearsal") == ()


@pytest.mark.parametrize("when", ["inside", "acquiring"])
def test_a_killed_process_is_found_and_released_from_another(when, capfd) -> None:
    """Kill -9, in the block or while it acquires: `gpus ps` in another process shows it as
    nobody's, and `gpus release` ends it.
    """
    if when == "acquiring":
        open_store().add_fault("gcp", "node.look", "no-driver", times=None)
    process = python(BLOCK)
    if when == "inside":
        assert present(process.stdout).readline() == "inside\n"
    until(machines)
    time.sleep(0.3)
    assert main.main(["ps", "--json"]) == 0
    [row] = json.loads(capfd.readouterr().out)
    assert (row["name"], row["process"]) == ("job", process.pid)
    process.kill()
    process.communicate()
    assert len(machines()) == 1
    assert main.main(["ps"]) == 0
    shown = capfd.readouterr().out
    assert "job" in shown and "used by nobody" in shown
    assert main.main(["release", "job"]) == 0
    assert machines() == []
    capfd.readouterr()
    assert main.main(["ps"]) == 0 and "nothing runs" in capfd.readouterr().out


def test_a_script_that_lets_an_error_fall_shows_its_own_line_and_the_whole_message(
    tmp_path,
) -> None:
    """Live without credentials: the message names every provider with what to do, and no frame of
    the engine stands between it and the script.
    """
    bare = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "GOOGLE_", "CLOUDSDK_", "MODAL_", "CLORE_"))
    }
    env = {
        **bare,
        "HOME": str(tmp_path),
        "NO_GCE_CHECK": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    code = """
        import providers as p
        with p.provision("L4:1", name="box", world="live") as c:
            pass
    """
    _, err = python(code, env=env).communicate(timeout=120)
    frames, _, message = err.partition("providers.errors.NotConfigured: ")
    assert "providers/engine" not in frames, err
    head, *lines = message.splitlines()
    assert head == "box: no allowed provider is configured in the live world"
    asked = {line.partition(":")[0] for line in lines}
    assert {
        "aws",
        "gcp",
        "modal",
    } <= asked and "clore" not in asked, "strangers' hosts are not asked for"
    assert all("found n" in line and "; " in line for line in lines)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "providers.cli",
            "run",
            "L4:1",
            "--name",
            "box",
            "--world",
            "live",
            "--",
            "true",
        ],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2 and [
        line.removeprefix("gpus: ") for line in done.stderr.splitlines()
    ] == [head, *lines]


def left_behind(c):
    """The id of a program that was left running in the background of a machine, in a session of its
    own, out of reach of the shell that began it.
    """
    c.run(
        'python3 -c \'import subprocess; print(subprocess.Popen(["sleep", "600"],'
        " start_new_session=True).pid)' >left 2>&1 & wait"
    )
    return int(c.run(["cat", "left"]) == 0 and (c.inner.line(0).folder / "left").read_text())


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("asked", ["proc", "ps"])
def test_what_a_machine_runs_in_the_background_ends_with_its_release(
    monkeypatch, tmp_path, asked
) -> None:
    """A released machine runs nothing any more: neither does its stand-in, however the program was
    left behind; others' go on.
    """
    from providers.rehearsal import node as standin

    if asked == "ps":
        monkeypatch.setattr(standin, "PROC", tmp_path / "none")
    with p.provision("L4:1", name="other", providers=["gcp"]) as other:
        with p.provision("L4:1", name="box", providers=["gcp"]) as box:
            pids = left_behind(box), left_behind(other)
            assert not any(map(gone, pids))
        until(lambda: gone(pids[0]))
        assert not gone(pids[1])
    until(lambda: gone(pids[1]))
