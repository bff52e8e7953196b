"""`gpus run`, `cp`, `ssh`, `ps` and `release` on the rehearsal cloud."""

import signal
import subprocess
import sys

import pytest

from providers.cli import main
from tests.adhoc.provision_rig import machines

pytestmark = pytest.mark.usefixtures("own_home")


def test_gpus_run_puts_runs_gets_and_releases(tmp_path, capfd) -> None:
    """`gpus run` gives the command's output and exit code, brings results back also when it failed,
    and leaves nothing.
    """
    (tmp_path / "in.txt").write_text("in")
    code = main.main(
        [
            "run",
            "L4:1",
            "--put",
            "in.txt:d/",
            "--get",
            "out.txt",
            "--ttl",
            "1h",
            "--",
            "cat d/in.txt; echo out > out.txt; exit 3",
        ]
    )
    out, err = capfd.readouterr()
    assert (code, out, (tmp_path / "out.txt").read_text()) == (3, "in", "out\n")
    assert "released, confirmed" in err and machines() == []


def test_gpus_cp_ssh_ps_release(tmp_path, capfd) -> None:
    """A kept machine is copied to and from, asked and given back by name."""
    assert main.main(["run", "L4:1", "--name", "box", "--keep"]) == 0
    (tmp_path / "a").write_text("a")
    assert main.main(["cp", "a", "box:b"]) == 0
    assert main.main(["cp", "box:b", "c"]) == 0 and (tmp_path / "c").read_text() == "a"
    capfd.readouterr()
    assert main.main(["ssh", "box", "--", "echo", "a  b"]) == 0
    assert capfd.readouterr().out == "a  b\n"
    assert main.main(["ps"]) == 0
    assert "box" in capfd.readouterr().out
    assert main.main(["release", "box"]) == 0 and machines() == []
    assert main.main(["ssh", "box", "--", "true"]) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "L4:1"],
        ["run", "L4:1", "--set", "x", "--", "true"],
        ["cp", "a", "b"],
        ["cp", "x:a", "y:b"],
        ["release", "no-such"],
        ["ssh", "../x"],
        ["run", "L4:1", "--ttl", "1s", "--", "x"],
    ],
)
def test_what_the_command_line_cannot_do_is_one_clear_line(arguments, capfd) -> None:
    """Wrong words end with code 2 and a line that says what was wanted; nothing is bought."""
    assert main.main(arguments) == 2
    err = capfd.readouterr().err
    assert "wanted" in err and "Traceback" not in err and machines() == []


def gpus_run(command, hang_up=signal.SIG_DFL):
    """`gpus run` of a command, as started by a shell, or by `nohup` where a hang-up is ignored."""
    return subprocess.Popen(
        [sys.executable, "-m", "providers.cli", "run", "L4:1", "--", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, hang_up),  # noqa: PLW1509 - it has one thread
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_gpus_run_ended_by_a_signal_releases_and_ends_with_its_code(number) -> None:
    """A signal to `gpus run` is an interrupt: it releases and says so; the exit code is 128 and the
    signal's number.
    """
    process = gpus_run("echo inside; sleep 60")
    assert process.stdout.readline() == "inside\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number and "released, confirmed" in err and machines() == []


def test_gpus_run_under_nohup_goes_on_after_a_hang_up(tmp_path) -> None:
    """Where SIGHUP is ignored at its start, the command runs to its end and its exit code is the
    answer.
    """
    process = gpus_run(
        f"echo inside; until [ -e {tmp_path}/end ]; do sleep 0.05; done; exit 3", signal.SIG_IGN
    )
    assert process.stdout.readline() == "inside\n"
    process.send_signal(signal.SIGHUP)
    (tmp_path / "end").touch()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 3 and "released, confirmed" in err and machines() == []


def test_a_command_whose_reader_went_away_releases_and_is_no_success() -> None:
    """`gpus run ... | head -1`: the machine is released, and the exit code is that of a closed
    pipe, never 0.
    """
    process = gpus_run("while :; do echo inside; sleep 0.1; done")
    assert process.stdout.readline() == "inside\n"
    process.stdout.close()
    err = process.stderr.read()
    assert (
        process.wait(timeout=120) == 141
        and "released, confirmed" in err
        and "Traceback" not in err
        and machines() == []
    )
