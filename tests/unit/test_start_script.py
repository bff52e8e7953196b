"""The start-up script, which is really run here."""

import base64
import gzip
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from providers.engine.readiness import workload as progress
from providers.model.workload import ROOT, Checkpoint, Process, Program, Task, Workload
from providers.rehearsal import script as played
from providers.workloads.launch.compile import program
from providers.workloads.launch.start_script import script
from tests.launchers.machines import job
from tests.unit.workload_rig import VLLM


def packed(text):
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def test_a_job_runs_once_and_says_how_it_ended(machine) -> None:
    """Set-up, files and command run; the exit code is told; a later boot of the same does nothing."""
    made = job(
        "python3 ~/t.py && echo ran >>$HOME/ran",
        files=(("~/t.py", packed("print('from the file')")),),
        setup=("echo set up",),
    )
    assert machine.run(script(made)) == 0
    assert machine.words == ["starting", "running", "succeeded 0"]
    assert "set up" in machine.log
    assert "from the file" in machine.log
    assert machine.run(script(made)) == 0
    assert (machine.folder / "ran").read_text() == "ran\n"


def test_a_failed_job_tells_its_code_and_a_failed_set_up_its_own(machine) -> None:
    """3 is 3; a set-up line that fails ends it before the command."""
    assert machine.run(script(job("exit 3"))) == 3
    assert machine.words[-1] == "failed 3"
    assert machine.run(script(job("touch $HOME/never", setup=("false",)))) == 1
    assert machine.words[-1].startswith("setup-wrong 1 the setup lines")
    assert not (machine.folder / "never").exists()


def test_a_command_of_several_lines_ends_at_the_first_that_fails(machine) -> None:
    """They are one program for the shell; what a checkpoint adds is added to the last line."""
    kept = Checkpoint(str(machine.folder / "kept"), "volume:kept")
    (machine.folder / "kept").mkdir()
    (machine.folder / "kept" / "step").touch()
    text = "cd /\nfor each in a b; do\n  echo $each\ndone\necho at $PWD"
    tasks = (Task(command=text),)
    made = program(Workload(tasks, checkpoint=kept, resume="--resume"), "job", "H100", 1)
    assert machine.run(script(made)) == 0
    assert "a\nb\nat / --resume\n" in machine.log
    failing = Workload((Task(command="false\ntouch $HOME/never"),))
    assert machine.run(script(program(failing, "job", "H100", 1))) == 1
    assert not (machine.folder / "never").exists()


def test_nothing_of_the_users_is_expanded_by_the_script(machine) -> None:
    """Environment, commands and files with quotes, dollars and backticks arrive as they are; only
    the command's own shell expands the command.
    """
    hostile = 'it\'s $(touch pwned) `touch pwned` "quoted" \\ $HOME'
    made = job(
        'python3 -c \'import os; open("seen", "w").write(os.environ["A"])\'', env=(("A", hostile),)
    )
    assert machine.run(f"cd {machine.folder}\n{script(made)}") == 0
    assert (machine.folder / "seen").read_text() == hostile
    assert not (machine.folder / "pwned").exists()


def test_a_killed_job_resumes_from_its_checkpoint(machine) -> None:
    """What was saved to the bucket is restored on a new machine, and the resume arguments are
    added.
    """
    bucket = machine.folder / "bucket"
    machine.bucket(bucket)
    work = machine.folder / "ckpt"
    train = (
        "import os, sys, time\n"
        f"path = {str(work / 'step')!r}\n"
        "step = int(open(path).read()) if '--resume' in sys.argv and os.path.exists(path) else 0\n"
        "print('begins at', step, flush=True)\n"
        "while step < 40:\n"
        "    step += 1\n"
        "    open(path + '.new', 'w').write(str(step)); os.replace(path + '.new', path)\n"
        "    time.sleep(0.1)\n"
    )
    made = job(
        "python3 -u ~/train.py",
        files=(("~/train.py", packed(train)),),
        checkpoint=Checkpoint(str(work), "s3://b/run", 1),
        resume="--resume",
    )
    machine.begin(script(made))
    end = time.monotonic() + 120
    while not ((bucket / "step").exists() and int((bucket / "step").read_text() or 0) >= 3):
        assert time.monotonic() < end, machine.log
        time.sleep(0.1)
    machine.power_off()
    shutil.rmtree(machine.folder / "root")
    shutil.rmtree(work)
    assert machine.run(script(made)) == 0
    begun = re.findall(r"begins at (\d+)", machine.log)
    assert int(begun[-1]) >= 3
    assert (bucket / "step").read_text() == "40"


def test_a_service_is_ready_once_it_answers_and_is_started_again_when_it_ends(machine) -> None:
    """`ready` only after its own health path answers; a program that ends comes back; TERM ends all
    of it.
    """
    port = 18_000 + os.getpid() % 1000
    made = Program(
        "service",
        (Process("main", f"exec python3 -m http.server {port} --bind 127.0.0.1", (), port, "/"),),
    )
    process = machine.begin(script(made))
    machine.until("ready")
    found = subprocess.run(
        ["pgrep", "-f", f"http.server {port}"], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(found[0]), signal.SIGKILL)
    end = time.monotonic() + 120
    while "started again" not in machine.log:
        assert time.monotonic() < end
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    process.wait(120)
    assert (
        subprocess.run(
            ["pgrep", "-f", f"http.server {port}"], capture_output=True, check=False
        ).returncode
        == 1
    )


@pytest.mark.parametrize(("path", "ready"), [("/", True), ("/there/x", True), ("/missing", False)])
def test_a_service_in_an_image_without_curl_is_asked_all_the_same(path, ready, machine) -> None:
    """Inside a provider's container there is what the image brings: bash asks by itself."""
    port = 19_000 + os.getpid() % 1000
    (machine.folder / "there").mkdir()
    (machine.folder / "there" / "x").touch()
    tools = machine.folder / "tools"
    tools.mkdir()
    for name in "bash base64 cat chmod date env flock grep mkdir mv printf python3 rm seq sleep sync tail tee timeout touch tr".split():
        (tools / name).symlink_to(shutil.which(name))
    made = Program(
        "service",
        (Process("main", f"exec python3 -m http.server {port} --bind 127.0.0.1", (), port, path),),
        image="own:1",
    )
    machine.begin(f"cd {machine.folder}\n{script(made, inside=True)}", PATH=str(tools))
    if ready:
        machine.until("ready")
    else:
        end = time.monotonic() + 120
        while "GET /missing" not in machine.log:
            assert time.monotonic() < end, machine.log
            time.sleep(0.1)
        assert machine.words[-1] == "running"


@pytest.mark.parametrize("home", [True, False], ids=["~", "/"])
@pytest.mark.parametrize("where", ["machine", "image", "nowhere"])
def test_model_that_is_a_path_is_mounted_read_only(machine, where, home) -> None:
    """What is on the machine its container sees; a model that is nowhere is told before a
    restart.
    """
    machine.tool(
        "docker",
        f'printf "%s\\n" "$*" >>{machine.folder}/calls\ncase "$*" in info*) echo'
        f' \'{{"nvidia":{{}}}}\' ;; *"test -e"*) [ {where} = image ] ;; *" --init "*) echo served'
        " ;; esac",
    )
    machine.tool("nvidia-smi", "exit 0")
    path = machine.folder / "models" / "it-7b"
    if where == "machine":
        path.mkdir(parents=True)
    task = Task(launcher="vllm", model="~/models/it-7b" if home else str(path), port=9)
    made = program(Workload((task,)), "service", "H100", 1)._replace(kind="job")
    assert machine.run(script(made)) == (1 if where == "nowhere" else 0), machine.log
    calls = (machine.folder / "calls").read_text()
    mount = f"--mount type=bind,source={path},target={path},readonly "
    assert (mount in calls) is (where == "machine")
    if where == "nowhere":
        assert machine.words[-1].startswith(
            f"setup-wrong 1 the model {path} is neither on the machine nor in the image"
            f" {made.image}: "
        )
        assert " --init " not in calls


def test_model_that_is_no_path_or_among_the_checkpoints_is_not_mounted() -> None:
    """A container sees the checkpoints' folder already, to write to; the digest of what runs
    without such a path stays.
    """
    kept = Checkpoint("/ckpt", "gs://b/x")
    served = Workload((Task(launcher="vllm", model="/ckpt/last", port=9),), checkpoint=kept)
    assert program(served, "service", "H100", 1).models == ()
    assert program(
        served._replace(checkpoint=kept._replace(path="/ck")), "service", "H100", 1
    ).models == ("/ckpt/last",)
    assert program(VLLM, "service", "H100", 8).models == ()
    assert "model_paths=()\n" in script(program(VLLM, "service", "H100", 8))
    assert Program("job", (Process("a", "true"),)).digest == "cca4e662ec06"
    assert Program("job", (Process("a", "true"),), models=("/m",)).digest != "cca4e662ec06"


def test_another_program_takes_the_place_of_the_one_that_runs(machine) -> None:
    """An edit ends what ran and starts what is wanted now; the same script again leaves a running
    one alone.
    """
    first, second = job("echo first >>$HOME/said; sleep 60"), job("echo second >>$HOME/said")
    running = machine.begin(script(first))
    machine.until("running")
    assert machine.run(script(first)) == 0
    assert machine.run(script(second)) == 0
    assert running.wait(20) != 0
    assert (machine.folder / "said").read_text() == "first\nsecond\n"


def test_nodes_wait_for_each_other_and_know_their_rank(machine) -> None:
    """The leader is the first peer; a machine finds its own rank by its name or address."""
    own = subprocess.run(["hostname"], capture_output=True, text=True, check=True).stdout.strip()
    made = job(
        'echo "$GPUS_LEADER $GPUS_NODE_RANK $GPUS_NODES $GPUS_ADDRESS" >$HOME/said',
        rendezvous=True,
        nodes=2,
    )
    (machine.folder / "root").mkdir()
    (machine.folder / "root" / "peers").write_text(f"10.0.0.1\n{own}\n")
    assert machine.run(script(made)) == 0
    assert (machine.folder / "said").read_text() == f"10.0.0.1 1 2 {own}\n"


def test_what_waits_for_acceptance_begins_nothing_before_it_is_told(machine, monkeypatch) -> None:
    """Neither files, set-up nor command; and where nobody says so, the machine says that."""
    made = job("echo ran >$HOME/ran", setup=("echo set up >$HOME/set",))
    monkeypatch.setattr("providers.workloads.launch.start_script.BY_LOGIN_WAIT_S", 1)
    assert machine.run(script(made, gated=True)) == 1
    assert machine.words[-1] == "setup-failed 1 nobody said that the machine is accepted"
    assert not (machine.folder / "set").exists() and not (machine.folder / "ran").exists()
    (machine.folder / "root" / "go").write_text("accepted\n")
    assert machine.run(script(made, gated=True)) == 0
    assert (machine.folder / "ran").exists()


def test_a_service_token_comes_from_its_file(machine) -> None:
    """The script waits for the token that is written there by login, and hands it on by the
    environment.
    """
    made = job('echo "$GPUS_TOKEN" >$HOME/said', token_env="GPUS_TOKEN")
    (machine.folder / "root").mkdir()
    (machine.folder / "root" / "token").write_text("secret-token")
    assert machine.run(script(made)) == 0
    assert (machine.folder / "said").read_text() == "secret-token\n"
    assert "secret-token" not in script(made)


def test_the_machine_ends_itself_only_once_the_job_is_done(machine) -> None:
    """The release line runs after the job, whatever it ended with, and only where the spec says so."""
    assert machine.run(script(job("exit 4"), release="touch $HOME/released")) == 4
    assert (machine.folder / "released").exists()
    assert "touch $HOME/released" not in script(
        job("exit 4", on_done="keep"), release="touch $HOME/released"
    )


def test_a_job_that_was_cut_off_before_its_release_is_released_at_the_next_boot(machine) -> None:
    """It has succeeded, so it does not run again; its machine would cost on for ever."""
    made = job("echo ran >>$HOME/ran")
    assert machine.run(script(made, release="false")) == 0
    assert machine.run(script(made, release="touch $HOME/released")) == 0
    assert machine.words[-1] == "succeeded 0 earlier"
    assert (machine.folder / "released").exists()
    assert (machine.folder / "ran").read_text() == "ran\n"


@pytest.mark.parametrize("image", ["", "pytorch/pytorch:latest"])
@pytest.mark.parametrize("kind", ["job", "service"])
@pytest.mark.parametrize("inside", [True, False])
def test_every_form_of_the_script_is_sound_shell(kind, image, inside) -> None:
    """Bash reads each of them without an error."""
    made = Program(
        kind,
        (Process("a", "true", (("A", "b"),), 80, "/"), Process("b", "true")),
        image,
        ("true",),
        (("x", packed("y")),),
        Checkpoint("/c", "gs://b/c"),
        "-r",
    )
    done = subprocess.run(
        ["bash", "-n"],
        input=script(made._replace(rendezvous=True, nodes=2, token_env="T"), inside=inside),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_words_are_one_language() -> None:
    """The script, the rehearsal that plays it and the engine that reads it use the same words."""
    assert ROOT in progress.STATUS
    for kind in ("job", "service"):
        made = Program(kind, (Process("a", "true"),), setup=("true",))
        text = script(made, release="shutdown -h now")
        work = played.find(text)
        assert work == played.Work(made.digest, kind == "job", setup=True, releases=kind == "job")
        last = played.words(work, 0.0, 1e6, 20.0, 0)[-1][1]
        assert progress.last(f"noise\n{last}\nnoise") == progress.WorkloadStatus(
            "succeeded" if kind == "job" else "ready", "0" if kind == "job" else "", made.digest
        )
