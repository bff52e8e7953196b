"""`gpus sweep` with the real CLI, engine and states: what a lost state left is found, proved to be
ours, and deleted only when that was said.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.plugin.conftest import BIN
from tests.present import present


def sweep(made, *words, env=None, answer=None):
    """(exit code, what it said)."""
    done = subprocess.run(
        [str(BIN / "gpus"), "sweep", *words],
        check=False,
        cwd=made.folder,
        env=env or made.env,
        capture_output=True,
        text=True,
        timeout=120,
        input=answer or "",
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def verdicts(said):
    return {
        each["native_id"].rpartition("/")[2]: each["verdict"]
        for each in json.loads(next(line for line in said.splitlines() if line.startswith("{")))[
            "found"
        ]
    }


def at_a_terminal(made, typed):
    """What the command says and ends with when somebody sits at a terminal and types this."""
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(made.folder)
        os.execve(str(BIN / "gpus"), ["gpus", "sweep"], made.env)
    said = b""
    sent = False
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        said += piece
        if not sent and b"'yes' deletes" in said:
            os.write(terminal, f"{typed}\n".encode())
            sent = True
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode()


def test_b26_what_a_lost_state_left(project) -> None:
    """Claimed while the stack is there; unclaimed once its state is lost; asked about, refused
    without a terminal, deleted with --yes.
    """
    made = project("serve-l4")
    made.up()
    (machine,) = made.machines()
    code, said = sweep(made)
    assert code == 0 and "0 unclaimed; 1 claimed by stacks" in said
    made.run("stack", "rm", made.stack, "--yes", "--force", "--preserve-config")
    code, said = sweep(made)
    assert (
        code == 1
        and f"unclaimed  gcp projects/rehearsal/zones/us-central1-a/instances/{machine['name']}"
        in said
    )
    assert (
        "$0.7342/h (when it was bought)" in said
        and "old" in said
        and "--yes deletes" in said
        and "(it was gpus/serve-l4)" in said
    )
    assert len(made.machines()) == 1
    code, said = at_a_terminal(made, "no")
    assert code == 1 and len(made.machines()) == 1
    code, said = at_a_terminal(made, "yes")
    assert code == 0 and "gone, confirmed" in said, said
    assert made.machines() == []
    assert sweep(made, "--json")[0] == 0


def test_the_states_of_other_projects_and_backends_are_respected(project, tmp_path) -> None:
    """A stack of another project in the same backend claims its machines; one of another backend
    keeps them; nobody's owner is not ours.
    """
    made = project("serve-l4")
    made.run("stack", "init", "other", "--no-select")
    made.up()
    (machine,) = made.machines()
    name = machine["name"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "Pulumi.yaml").write_text("name: another\nruntime: yaml\n")
    done = subprocess.run(
        [str(BIN / "gpus"), "sweep", "--json"],
        check=False,
        cwd=elsewhere,
        env=made.env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, verdicts(done.stdout)) == (0, {name: "claimed"}), done.stderr
    second = tmp_path / "second"
    second.mkdir()
    env = {**made.env, "PULUMI_BACKEND_URL": f"file://{second}"}
    code, said = sweep(made, "--json", "--yes", env=env)
    assert (code, verdicts(said)) == (0, {name: "elsewhere"})
    assert f"{made.env['PULUMI_BACKEND_URL']}" in said
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    # With what SQLite has not moved into the file itself yet.
    for part in Path(made.env["GPUS_HOME"]).glob("rehearsal.db*"):
        shutil.copy(part, stranger)
    code, said = sweep(made, "--json", "--yes", env={**env, "GPUS_HOME": str(stranger)})
    assert (code, verdicts(said)) == (0, {name: "not ours"})
    # Each rehearsal is a file: the stranger's copy still has it, and so has ours.
    assert [each["name"] for each in made.machines()] == [name]
    made.destroy()
    assert made.machines() == []


def test_a_state_that_cannot_be_read_stops_the_sweep(project, tmp_path) -> None:
    """A broken state is named, what it may claim is not deleted even with --yes, and the exit code
    says so.
    """
    made = project("serve-l4")
    made.up()
    made.run("stack", "init", "broken", "--no-select")
    made.run("stack", "rm", made.stack, "--yes", "--force", "--preserve-config")
    (tmp_path / "state/.pulumi/stacks/gpus/broken.json").write_text("{ no json")
    code, said = sweep(made, "--yes")
    assert code == 1 and "could not be" in said, said
    assert len(made.machines()) == 1
    (tmp_path / "state/.pulumi/stacks/gpus/broken.json").unlink()
    assert sweep(made, "--yes")[0] == 0
    assert made.machines() == []


def test_a_cloud_that_cannot_be_asked_is_no_nothing(project) -> None:
    """One cloud is down: the others are swept, the line names it, and the exit code is not 0."""
    made = project("serve-l4")
    made.rehearse("fault", "gcp", "instances.aggregatedList", "unavailable", "--times", "50")
    code, said = sweep(made)
    assert code == 1 and "gcp" in said and "what is there is not known" in said, said


def test_ad_hoc_clusters(project, tmp_path) -> None:
    """An ad hoc cluster that a live process uses is not swept; one that was kept and is used by
    nobody is unclaimed, and its key goes with it.
    """
    made = project("serve-l4")
    program = (
        "import sys, providers\n"
        "with providers.provision('L4:1', name='bench', keep=True) as machine:\n"
        "    print('ready', flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [str(BIN / "python"), "-c", program],
        env=made.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as holder:
        assert present(holder.stdout).readline().strip() == "ready"
        code, said = sweep(made, "--yes")
        assert code == 0 and "in use" in said and f"process {holder.pid}" in said, said
        present(holder.stdin).write("\n")
        present(holder.stdin).flush()
        holder.wait(60)
    assert len(made.machines()) == 1
    assert (tmp_path / "home/adhoc/rehearsal/bench").is_dir()
    code, said = sweep(made, "--yes")
    assert code == 0 and "ad hoc bench, used by no process" in said, said
    assert made.machines() == []
    assert not (tmp_path / "home/adhoc/rehearsal/bench").exists()
