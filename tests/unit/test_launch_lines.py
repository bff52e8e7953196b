"""The lines that start each launcher, and the line that tries a service."""

import re
import subprocess

import pytest

from providers.errors import SpecError
from providers.model.workload import Override, Task, Workload
from providers.workloads.launch.compile import program
from providers.workloads.launch.recipes import RECIPES
from tests.unit.workload_rig import VLLM


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


def test_flags_follow_the_placement() -> None:
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


def test_training_launchers_name_processes_nodes_and_the_leader() -> None:
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


def test_a_server_listens_here_unless_it_is_exposed() -> None:
    """Private is the loopback, reached by ssh; a token or public is every address."""
    for launcher in ("vllm", "sglang", "tgi", "llama.cpp"):
        assert "127.0.0.1" in line(launcher)
        assert "0.0.0.0" in line(launcher, expose="public")


def test_a_token_is_never_an_argument() -> None:
    """What checks a key gets it by the environment; what can't is refused with those that can."""
    for launcher, recipe in RECIPES.items():
        if recipe.port and recipe.token:
            assert "--api-key" not in line(launcher, expose="token")
            assert "GPUS_TOKEN" in line(launcher, expose="token")
        elif recipe.port:
            with pytest.raises(SpecError, match="which checks no token"):
                line(launcher, expose="token")


def test_one_machine_launchers_refuse_nodes() -> None:
    """TGI over two nodes names the launchers that can."""
    with pytest.raises(SpecError, match="over several machines run torchrun"):
        line("tgi", nodes=2)


def test_a_server_over_several_nodes_is_one_with_the_first_at_its_head() -> None:
    """All nodes run the same line; stages join them, each as wide as a node's GPUs; the user's own
    split and port stay.
    """
    served = line("vllm", nodes=2)
    assert '--nnodes 2 --node-rank "$GPUS_NODE_RANK" --master-addr "$GPUS_LEADER"' in served
    assert '$([ "$GPUS_NODE_RANK" = 0 ] || echo --headless)' in served
    assert "--pipeline-parallel-size 2" in served and "--data-parallel-size" not in served
    assert 'VLLM_HOST_IP="$GPUS_ADDRESS"' in served
    own = line("vllm", nodes=2, args=(("tp", 16), ("master-port", 1234)))
    assert "-tp 16" in own and "--master-port 1234" in own
    assert not re.search("parallel-size|29500", own)
    assert '--nnodes 2 --node-rank "$GPUS_NODE_RANK" --dist-init-addr "$GPUS_LEADER:29500"' in (
        line("sglang", nodes=2)
    )
    assert not re.search("nnodes|headless|master|HOST_IP", line("vllm") + line("sglang"))


@pytest.mark.parametrize(
    ("launcher", "flag"), [("vllm", "nnodes"), ("vllm", "headless"), ("sglang", "node-rank")]
)
def test_who_is_which_node_is_no_flag_of_the_users(launcher, flag) -> None:
    """The same line runs on all of them."""
    with pytest.raises(SpecError, match="write nodes"):
        line(launcher, nodes=2, args=((flag, 1),))


def test_mpirun_starts_a_rank_for_each_gpu_and_leaves_what_the_user_says() -> None:
    """On one machine it needs no hosts."""
    assert line("mpi") == "mpirun -np 8 train.py --epochs 3"
    several = line("mpi", nodes=2)
    assert 'mpirun -np 16 --hostfile "$GPUS_HOSTFILE" train.py --epochs 3' in several
    own = line("mpi", nodes=2, args=(("np", 2), ("bind-to", "none")))
    assert 'mpirun --hostfile "$GPUS_HOSTFILE" --np 2 --bind-to none train.py' in own


def test_programs_side_by_side_are_not_led_over_several_nodes() -> None:
    """Each would meet at the same port."""
    tasks = (Task("a", "vllm", model="x", gpus=(0,)), Task("b", "vllm", model="y", gpus=(1,)))
    with pytest.raises(SpecError, match="one program where vllm runs over several nodes"):
        program(Workload(tasks), "service", "H100", 2, 2)


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
def test_a_flag_that_the_program_lacks_is_refused_with_what_is_meant(
    launcher, task, path, todo
) -> None:
    """Known mistakes are told at their path before anything is bought, in `args` and in the command
    alike.
    """
    with pytest.raises(SpecError) as caught:
        line(launcher, **task)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert todo in problem.todo


def test_flags_that_are_not_known_to_be_wrong_pass() -> None:
    """A list of mistakes is no list of flags."""
    assert "--max-num-seqs 4" in line("vllm", args=(("max-num-seqs", 4),))
    assert "--device-id 0" in line("sd-webui", args=(("device-id", 0),))
    assert "--cuda-device 1" in line("comfyui", command="--cuda-device 1 # don't")
    assert "train_network.py" in line(
        "kohya", command="train_network.py --network_module=networks.lora"
    )


def test_services_are_pinned_to_their_gpus() -> None:
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
def test_values_are_quoted_in_every_line(launcher) -> None:
    """A hostile model or argument reaches no shell as more than a word."""
    hostile = "x'; touch /tmp/gpus-hostile; '"
    made = line(launcher, model=hostile, args=(("name", hostile),) if launcher != "ollama" else ())
    done = subprocess.run(["bash", "-n", "-c", made], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "'; touch /tmp/gpus-hostile; '" not in made.replace("'\"'\"'", "")


def test_the_line_that_tries_a_service_shows_what_its_door_asks_for() -> None:
    """Modal's URL wants a proxy token of the workspace, every other the service's own."""
    from providers.resources.exports import tried_by

    assert "Modal-Key" in tried_by("modal", ["https://x"]) and "oauth2" not in tried_by(
        "modal", ["https://x"]
    )
    assert tried_by("gcp", [], "echo") == ""


def test_the_line_that_tries_a_service_works_as_it_is_shown(tmp_path) -> None:
    """Pasted into a shell it takes the token from the output that holds it, and calls with it;
    nothing in it is to be filled in or unescaped.
    """
    from providers.resources.exports import tried_by

    line = tried_by("gcp", ["http://x:1"], "echo gpus-abc", played=True)
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
