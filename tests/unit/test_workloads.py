"""Workloads: the declaration, the launchers' lines, the fit with a placement, and the start-up
script, which is really run here.
"""

import base64
import gzip
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from providers.rehearsal import script as played
from providers.engine.readiness import handover, workload as progress
from providers.errors import SpecError
from providers.model.spec import read_cluster
from providers.model.workload import (
    Checkpoint,
    Override,
    Process,
    Program,
    Task,
    Training,
    Workload,
    with_files,
)
from providers.workloads.sizing import fit
from providers.workloads.launch import start_script as scripts
from providers.workloads.launch.compile import program
from providers.workloads.launch.recipes import RECIPES
from providers.workloads.launch.start_script import script
from tests.launchers.machines import Machine, job

VLLM = Workload(
    (
        Task(
            launcher="vllm",
            model="meta-llama/Llama-3.1-70B",
            dtype="bf16",
            context=32768,
            concurrency=8,
        ),
    )
)


def packed(text):
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def line(launcher, gpu="H100", count=8, nodes=1, expose="private", **task):
    given = (
        {"command": "train.py --epochs 3"}
        if not RECIPES[launcher].port
        else {"model": "meta-llama/Llama-3.1-8B"}
    )
    made = program(
        Workload((Task(launcher=launcher, **{**given, **task}),)),
        "service" if RECIPES[launcher].port else "job",
        gpu,
        count,
        nodes,
        expose=expose,
    )
    return made.processes[0].line


# The declaration


@pytest.mark.parametrize(
    ("workload", "kind", "path", "told"),
    [
        ({}, "job", "workload.command", "a command or a launcher"),
        ({"launcher": "vllm"}, "service", "workload.model", "the model that vllm serves"),
        ({"launcher": "vllm", "model": "x"}, "job", "workload.launcher", "one that ends"),
        ({"launcher": "torchrun"}, "job", "workload.command", "what torchrun starts"),
        ({"command": "serve"}, "service", "workload.port", "the port that the service listens at"),
        ({"launcher": "vlm", "model": "x"}, "service", "workload.launcher", "torchrun"),
        ({"command": "a\nb"}, "job", "workload.command", "one line"),
        ({"command": "a", "env": {"A B": "1"}}, "job", "workload.env", "names of letters"),
        (
            {"command": "a", "resume": "--resume"},
            "job",
            "workload.resume",
            "a checkpoint to resume from",
        ),
        (
            {"command": "a", "checkpoint": {"path": "/c", "to": "ftp://x"}},
            "job",
            "workload.checkpoint.to",
            "gs://BUCKET",
        ),
        ({"command": "a", "image": "bad image"}, "job", "workload.image", "a registry image"),
        (
            {"services": [{"name": "a", "command": "x", "gpus": [1], "port": 1}]},
            "service",
            "workload.services[0].gpus",
            "GPUs from 0 to 0",
        ),
        (
            {"services": [{"name": "a", "command": "x", "port": port} for port in (1, 2)]},
            "service",
            "workload.services",
            "each name once",
        ),
        ({"command": "a", "files": {"../x": "y"}}, "job", "workload.files", "without .."),
        ({"command": "a", "args": {"$(x)": 1}}, "job", "workload.args", "names of letters"),
    ],
)
def test_a_wrong_workload_is_told_at_its_path(workload, kind, path, told):
    """Every rule of the section names the property and what was wanted."""
    with pytest.raises(SpecError) as caught:
        read_cluster("x", {"gpu": "L4:1", "kind": kind, "workload": workload})
    found = {problem.path: problem.wanted for problem in caught.value.problems}
    assert path in found, found
    assert told in found[path]


def test_a_choice_may_change_the_workload_only_where_there_is_one():
    """dtype, command and args of a fallback entry need a workload to change."""
    with pytest.raises(SpecError, match="a workload to change"):
        read_cluster("x", {"gpu": "H100:8", "fallback": [{"gpu": "A100-80GB:8", "dtype": "bf16"}]})


def test_job_cost_ranks_only_what_says_how_much_work_it_is():
    """`rank: job_cost` without workload.train is refused."""
    with pytest.raises(SpecError, match=re.escape("workload.train")):
        read_cluster(
            "x",
            {"gpu": "H100:8", "kind": "job", "rank": "job_cost", "workload": {"command": "train"}},
        )


def test_local_files_stand_in_the_declaration_as_their_content(tmp_path):
    """A path here becomes the packed content under the path there; a missing file is told by name."""
    (tmp_path / "train.py").write_text("print(1)")
    raw = {
        "gpu": "L4",
        "kind": "job",
        "workload": {"command": "python3 ~/train.py", "files": {"train.py": "~/train.py"}},
    }
    found = with_files(raw, tmp_path)["workload"]["files"]
    assert gzip.decompress(base64.b64decode(found["~/train.py"])) == b"print(1)"
    with pytest.raises(SpecError, match="a plain file"):
        with_files({**raw, "workload": {"command": "x", "files": {"gone.py": "y"}}}, tmp_path)


def test_an_edit_of_the_workload_is_no_other_machine():
    """What runs is no part of what a machine is."""
    one = read_cluster("x", {"gpu": "L4", "kind": "job", "workload": {"command": "a"}})
    other = read_cluster("x", {"gpu": "L4", "kind": "job", "workload": {"command": "b"}})
    assert one.fingerprint() == other.fingerprint()
    assert (
        program(one.ask().workload, "job", "L4", 1).digest
        != program(other.ask().workload, "job", "L4", 1).digest
    )


# The launchers


def test_flags_follow_the_placement():
    """Eight GPUs are one group of eight, four of them one of four; what a choice changes is in the
    line.
    """
    assert "--tensor-parallel-size 4 " in program(VLLM, "service", "H100", 4).processes[0].line
    assert "--tensor-parallel-size 8 " in program(VLLM, "service", "A100-80GB", 8).processes[0].line
    assert (
        "--tensor-parallel-size 2 --pipeline-parallel-size 4"
        in program(VLLM, "service", "L40S", 8).processes[0].line
    )
    changed = program(
        VLLM, "service", "H100", 4, override=Override(dtype="fp8", args=(("max-num-seqs", 4),))
    )
    assert "--quantization fp8" in changed.processes[0].line
    assert "--max-num-seqs 4" in changed.processes[0].line


def test_training_launchers_name_processes_nodes_and_the_leader():
    """One process a GPU; over nodes the rank and the leader come from the start-up script's
    variables.
    """
    assert line("torchrun") == "torchrun --standalone --nproc-per-node=8 train.py --epochs 3"
    assert '--nnodes=2 --node-rank="$GPUS_NODE_RANK" --master-addr="$GPUS_LEADER"' in line(
        "torchrun", nodes=2
    )
    assert "--num_processes=16 --num_machines=2" in line("accelerate", nodes=2)
    assert "--multi_gpu" not in line("accelerate", count=1)
    assert "deepspeed --num_gpus=8 train.py" in line("deepspeed")
    assert "--no_ssh" in line("deepspeed", nodes=2)
    assert line("kohya").startswith("accelerate launch --num_processes=8")
    assert line("lightning") == "python3 train.py --epochs 3"
    assert {"gpus=8", "nodes=2", "work='train.py --epochs 3'"} <= set(
        line("ray", nodes=2).splitlines()
    )


def test_a_server_listens_here_unless_it_is_exposed():
    """Private is the loopback, reached by ssh; a token or public is every address."""
    for launcher in ("vllm", "sglang", "tgi", "llama.cpp"):
        assert "127.0.0.1" in line(launcher)
        assert "0.0.0.0" in line(launcher, expose="public")


def test_a_token_is_never_an_argument():
    """What checks a key gets it by the environment; what can't is refused with those that can."""
    for launcher, recipe in RECIPES.items():
        if recipe.port and recipe.token:
            assert "--api-key" not in line(launcher, expose="token")
            assert "GPUS_TOKEN" in line(launcher, expose="token")
        elif recipe.port:
            with pytest.raises(SpecError, match="which checks no token"):
                line(launcher, expose="token")


def test_one_machine_launchers_refuse_nodes():
    """vLLM over two nodes names the launchers that can."""
    with pytest.raises(SpecError, match="over several machines run torchrun"):
        program(VLLM, "service", "H100", 8, 2)


@pytest.mark.parametrize(
    ("launcher", "task", "path", "todo"),
    [
        (
            "vllm",
            {"args": (("max-batch-size", 1),)},
            "workload.args.max-batch-size",
            "max-num-seqs",
        ),
        (
            "vllm",
            {"args": (("max_batch_size", 1),)},
            "workload.args.max_batch_size",
            "max-num-seqs",
        ),
        ("vllm", {"command": "--gradient-checkpointing"}, "workload.command", "no activations"),
        (
            "vllm",
            {"args": (("tensor-split", "0.6,0.4"),)},
            "workload.args.tensor-split",
            "llama.cpp has",
        ),
        (
            "sd-webui",
            {"args": (("device-id", "0,1"),)},
            "workload.args.device-id",
            "one service for each",
        ),
        (
            "sd-webui",
            {"command": "--lowvram --device-id=0,1"},
            "workload.command",
            "one service for each",
        ),
        ("comfyui", {"command": "--cuda-device 0,1"}, "workload.command", "one service for each"),
        (
            "kohya",
            {"command": "train_network.py --output_dir=o"},
            "workload.command",
            "networks.lora",
        ),
    ],
)
def test_a_flag_that_the_program_lacks_is_refused_with_what_is_meant(launcher, task, path, todo):
    """Known mistakes are told at their path before anything is bought, in `args` and in the command
    alike.
    """
    with pytest.raises(SpecError) as caught:
        line(launcher, **task)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert todo in problem.todo


def test_flags_that_are_not_known_to_be_wrong_pass():
    """A list of mistakes is no list of flags."""
    assert "--max-num-seqs 4" in line("vllm", args=(("max-num-seqs", 4),))
    assert "--device-id 0" in line("sd-webui", args=(("device-id", 0),))
    assert "--cuda-device 1" in line("comfyui", command="--cuda-device 1 # don't")
    assert "train_network.py" in line(
        "kohya", command="train_network.py --network_module=networks.lora"
    )


def test_services_are_pinned_to_their_gpus():
    """Each of several services sees its own GPUs alone, and its split is over those."""
    both = Workload(
        (
            Task("image", command="python3 main.py", gpus=(0,), port=8188),
            Task("llm", "vllm", model="meta-llama/Llama-3.1-8B", gpus=(1,), port=8000),
        )
    )
    made = program(both, "service", "A100-80GB", 2)
    assert [dict(each.env)["CUDA_VISIBLE_DEVICES"] for each in made.processes] == ["0", "1"]
    assert "--tensor-parallel-size 1" in made.processes[1].line


@pytest.mark.parametrize("launcher", RECIPES)
def test_values_are_quoted_in_every_line(launcher):
    """A hostile model or argument reaches no shell as more than a word."""
    hostile = "x'; touch /tmp/gpus-hostile; '"
    made = line(launcher, model=hostile, args=(("name", hostile),) if launcher != "ollama" else ())
    done = subprocess.run(["bash", "-n", "-c", made], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "'; touch /tmp/gpus-hostile; '" not in made.replace("'\"'\"'", "")


# Fit


def test_b37_b39_each_choice_is_judged_for_itself():
    """B37, B39: what can't hold the model is refused with the reason, the fallback as well as the
    first choice.
    """
    assert fit.fit(VLLM, None, "A100", 2, 1).why.startswith("108.1 GiB on each GPU")
    assert fit.fit(VLLM, None, "H100", 4, 1).why == ""
    assert "no fp8" in fit.fit(VLLM, Override(dtype="fp8"), "A100-80GB", 8, 1).why


def test_what_is_not_known_is_not_refused():
    """A model that is neither bundled nor a size passes: nothing is refused on a guess."""
    unknown = Workload((Task(launcher="vllm", model="somebody/something"),))
    assert fit.fit(unknown, None, "T4", 1, 1) == fit.Fit()


@pytest.mark.parametrize(
    ("image", "gpu", "why"),
    [
        ("pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime", "H100", "11.8 or newer"),
        ("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", "H100", ""),
        ("pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime", "B200", "12.8 or newer"),
        ("nvidia/cuda:13.0.1-runtime-ubuntu24.04", "V100", "dropped V100"),
        ("nvidia/cuda:12.9.1-runtime-ubuntu24.04", "V100", ""),
        ("vllm/vllm-openai:latest", "V100", "dropped V100"),
        ("vllm/vllm-openai:latest-cu129", "V100", ""),
        ("x/y:cu130", "V100", "dropped V100"),
        ("x/y:latest", "B200", ""),
        # Of a major alone the minor is not known.
        ("x/y:cu12", "B200", ""),
        ("x/y:cuda12", "V100", ""),
        ("x/y:cu11", "B200", "has CUDA 11, B200"),
        ("x/y:cuda-13", "V100", "has CUDA 13, which dropped V100"),
        ("nvcr.io/nvidia/pytorch:25.01-py3", "B200", ""),
        ("nvcr.io/nvidia/pytorch:24.12-py3", "B200", "12.8 or newer"),
        ("rocm/pytorch:latest", "H100", "is made for AMD's ROCm, H100 is NVIDIA's"),
        ("rocm/vllm:rocm6.4.1_vllm_0.9.1", "L4", "AMD's ROCm"),
        ("vllm/vllm-openai-rocm:latest", "L4", "AMD's ROCm"),
        ("ollama/ollama:rocm", "RTX-4090", "AMD's ROCm"),
        ("ghcr.io/huggingface/text-generation-inference:3.3.5-rocm", "H200", "AMD's ROCm"),
        ("intel/vllm:xpu", "T4", "Intel's XPU"),
        ("vllm/vllm-tpu:nightly", "H100", "Google's TPU"),
        ("rocm/pytorch:latest", "MI300X", ""),
        ("me/procmon:1", "H100", ""),
    ],
)
def test_an_images_cuda_is_held_against_the_card(image, gpu, why):
    """By the tag's own words: too old for the card, or a release that dropped it; a tag that says
    nothing passes.
    """
    found = fit.cuda(image, gpu)
    assert (why in found) if why else not found


def test_measured_hours_become_a_jobs_cost():
    """Five hours on a T4 are about one on an A100, and eight of those share it."""
    run = Workload((Task(command="train"),), training=Training(hours=5, hours_on="T4"))
    one = fit.fit(run, None, "A100", 1, 1).job_hours
    assert 0.8 < one < 1.2
    assert fit.fit(run, None, "A100", 8, 1).job_hours == pytest.approx(one / 8)


# The start-up script, run for real


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    yield made
    made.end()


def test_a_job_runs_once_and_says_how_it_ended(machine):
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


def test_a_failed_job_tells_its_code_and_a_failed_set_up_its_own(machine):
    """3 is 3; a set-up line that fails ends it before the command."""
    assert machine.run(script(job("exit 3"))) == 3
    assert machine.words[-1] == "failed 3"
    assert machine.run(script(job("touch $HOME/never", setup=("false",)))) == 1
    assert machine.words[-1].startswith("setup-wrong 1 the setup lines")
    assert not (machine.folder / "never").exists()


def test_nothing_of_the_users_is_expanded_by_the_script(machine):
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


def test_a_killed_job_resumes_from_its_checkpoint(machine):
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


def test_a_service_is_ready_once_it_answers_and_is_started_again_when_it_ends(machine):
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
def test_a_service_in_an_image_without_curl_is_asked_all_the_same(path, ready, machine):
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
@pytest.mark.parametrize("where", ["machine", "setup", "image", "nowhere"])
def test_model_that_is_a_path_is_mounted_read_only(machine, where, home):
    """What is on the machine, also once the setup lines have fetched it, its container sees; a
    model that is nowhere is told before a restart.
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
    setup = (f"mkdir -p {path}",) if where == "setup" else ()
    made = program(Workload((task,), setup=setup), "service", "H100", 1)._replace(kind="job")
    assert machine.run(script(made)) == (1 if where == "nowhere" else 0), machine.log
    calls = (machine.folder / "calls").read_text()
    mount = f"--mount type=bind,source={path},target={path},readonly "
    assert (mount in calls) is (where in {"machine", "setup"})
    if where == "nowhere":
        assert machine.words[-1].startswith(
            f"setup-wrong 1 the model {path} is neither on the machine nor in the image"
            f" {made.image}: "
        )
        assert " --init " not in calls


def test_model_that_is_no_path_or_among_the_checkpoints_is_not_mounted():
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


def test_model_that_nothing_puts_on_the_machine_is_told_in_the_plan():
    """A line, no refusal: a disk image may hold it."""
    task = Task(launcher="vllm", model="/models/x", port=9)
    told, _ = fit.unchecked(Workload((task,)))
    assert told.startswith(
        "/models/x is a path on the machine, and nothing puts a model there: setup may fetch it"
    )
    for more in (
        {"setup": ("fetch",)},
        {"image": "me/own:1"},
        {"checkpoint": Checkpoint("/models", "gs://b/x")},
    ):
        assert not [
            line for line in fit.unchecked(Workload((task,), **more)) if "nothing puts" in line
        ]


def test_another_program_takes_the_place_of_the_one_that_runs(machine):
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


def test_nodes_wait_for_each_other_and_know_their_rank(machine):
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


def test_a_service_token_comes_from_its_file(machine):
    """The script waits for the token that is written there by login, and hands it on by the
    environment.
    """
    made = job('echo "$GPUS_TOKEN" >$HOME/said', token_env="GPUS_TOKEN")
    (machine.folder / "root").mkdir()
    (machine.folder / "root" / "token").write_text("secret-token")
    assert machine.run(script(made)) == 0
    assert (machine.folder / "said").read_text() == "secret-token\n"
    assert "secret-token" not in script(made)


def test_the_machine_ends_itself_only_once_the_job_is_done(machine):
    """The release line runs after the job, whatever it ended with, and only where the spec says so."""
    assert machine.run(script(job("exit 4"), release="touch $HOME/released")) == 4
    assert (machine.folder / "released").exists()
    assert "touch $HOME/released" not in script(
        job("exit 4", on_done="keep"), release="touch $HOME/released"
    )


@pytest.mark.parametrize("image", ["", "pytorch/pytorch:latest"])
@pytest.mark.parametrize("kind", ["job", "service"])
@pytest.mark.parametrize("inside", [True, False])
def test_every_form_of_the_script_is_sound_shell(kind, image, inside):
    """bash reads each of them without an error."""
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


def test_the_words_are_one_language():
    """The script, the rehearsal that plays it and the engine that reads it use the same words."""
    assert scripts.CONSOLE == played.WORD == progress.WORD
    assert scripts.ROOT == handover.ROOT
    assert scripts.ROOT in progress.STATUS
    for kind in ("job", "service"):
        made = Program(kind, (Process("a", "true"),), setup=("true",))
        text = script(made, release="shutdown -h now")
        work = played.find(text)
        assert work == played.Work(made.digest, kind == "job", setup=True, releases=kind == "job")
        last = played.words(work, 0.0, 1e6, 20.0, 0)[-1][1]
        assert progress.last(f"noise\n{last}\nnoise") == progress.WorkloadStatus(
            "succeeded" if kind == "job" else "ready", "0" if kind == "job" else "", made.digest
        )


@pytest.mark.parametrize(
    ("declared", "path"),
    [
        ({"workload": {"command": "  "}}, "workload.command"),
        ({"workload": {"command": "x\ry"}}, "workload.command"),
        ({"workload": {"command": "x", "setup": ["a\0b"]}}, "workload.setup"),
        ({"workload": {"command": "x", "args": {"a": "b\0"}}}, "workload.args.a"),
        ({"workload": {"command": "x", "args": {"a": float("nan")}}}, "workload.args.a"),
        (
            {"workload": {"command": "x", "checkpoint": {"path": "/../etc", "to": "gs://bkt/x"}}},
            "workload.checkpoint.path",
        ),
        (
            {
                "workload": {
                    "command": "x",
                    "checkpoint": {"path": "/c", "to": "gs://bkt/x"},
                    "resume": "a\nb",
                }
            },
            "workload.resume",
        ),
        ({"workload": {"command": "x"}, "nodes": 2, "ready": "running"}, "ready"),
        (
            {
                "workload": {"command": "x", "port": 80},
                "kind": "service",
                "expose": "token",
                "ready": "running",
            },
            "ready",
        ),
    ],
)
def test_what_no_start_up_script_could_do_is_refused_before_anything_is_bought(declared, path):
    """A line that holds no line, a number that is none, a path that climbs, and machines that could
    not be told what they wait for: each is named.
    """
    with pytest.raises(SpecError) as told:
        read_cluster("a", {"gpu": "L4:1", "kind": "job", **declared})
    assert path in {problem.path for problem in told.value.problems}


def test_a_gpu_is_pinned_to_one_of_several_services():
    """Two services on one GPU are refused, by the number of the GPU."""
    both = [
        {"name": name, "command": "x", "port": port, "gpus": [0]}
        for name, port in (("a", 1), ("b", 2))
    ]
    with pytest.raises(SpecError, match="each GPU for one of them"):
        read_cluster("a", {"gpu": "L4:2", "kind": "service", "workload": {"services": both}})


def test_the_line_that_tries_a_service_shows_what_its_door_asks_for():
    """Modal's URL wants a proxy token of the workspace, every other the service's own."""
    from providers.resources.exports import tried_by

    assert "Modal-Key" in tried_by("modal", ["https://x"]) and "oauth2" not in tried_by(
        "modal", ["https://x"]
    )
    assert tried_by("gcp", [], "echo") == ""


def test_the_line_that_tries_a_service_works_as_it_is_shown(tmp_path):
    """Pasted into a shell it takes the token from the output that holds it, and calls with it;
    nothing in it is to be filled in or unescaped.
    """
    from providers.resources.exports import tried_by

    line = tried_by("gcp", ["http://x:1"], "echo gpus-abc", rehearsed=True)
    assert '"' not in line and "TOKEN" not in line
    (tmp_path / "curl").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "curl").chmod(0o755)
    said = subprocess.run(
        ["bash", "-c", line],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said == "--oauth2-bearer gpus-abc http://x:1/v1/models\n"
