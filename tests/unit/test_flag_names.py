"""The names of a flag: its program's spelling, and two names of one flag."""

import pytest

from providers.errors import SpecError
from providers.model.workload import Override, Task, Workload
from providers.model.workload_spec import SERVERS
from providers.workloads.launch.compile import program
from providers.workloads.launch.flags import RUNNERS
from providers.workloads.launch.recipes import RECIPES
from providers.workloads.sizing import fit
from tests.present import present
from tests.unit.flags_rig import LLAMA, words


def test_every_launcher_is_a_server_or_runs_a_program() -> None:
    """Which of the two decides whose flags a command holds."""
    assert {name for name, recipe in RECIPES.items() if not recipe.port} == RUNNERS
    assert {name for name, recipe in RECIPES.items() if recipe.port} == SERVERS


@pytest.mark.parametrize(
    ("launcher", "args", "wanted"),
    [
        ("vllm", {"tp": 2}, "-tp 2"),
        ("vllm", {"max_num_seqs": 4}, "--max-num-seqs 4"),
        ("sglang", {"tp": 2}, "--tp 2"),
        ("sglang", {"context_length": 512}, "--context-length 512"),
        ("tgi", {"num_shard": 2}, "--num-shard 2"),
        ("llama.cpp", {"ngl": 20}, "-ngl 20"),
        ("llama.cpp", {"c": 512}, "-c 512"),
        ("llama.cpp", {"cmoe": True}, "-cmoe"),
        ("llama.cpp", {"rpc": "10.0.0.2:50052"}, "--rpc 10.0.0.2:50052"),
        ("llama.cpp", {"n_gpu_layers": 20}, "--n-gpu-layers 20"),
        ("torchrun", {"nproc_per_node": 2}, "--nproc_per_node=2"),
        ("deepspeed", {"num-gpus": 2}, "--num_gpus=2"),
    ],
)
def test_a_flag_is_spelled_as_its_program_knows_it(launcher, args, wanted) -> None:
    """`--tp` is none of vLLM's, `--ngl` none of llama.cpp's, `--context_length` none of SGLang's:
    each would end the program at its start.
    """
    assert f" {wanted}" in " ".join(words(launcher, args=tuple(args.items())))


@pytest.mark.parametrize(
    ("args", "command", "changed", "tensor", "flags"),
    [
        (
            {"tensor-parallel-size": 4},
            "",
            {"tensor_parallel_size": 2},
            2,
            ["--tensor-parallel-size 2"],
        ),
        (
            {"tensor_parallel_size": 4, "seed": 1},
            "",
            {"tensor-parallel-size": 2},
            2,
            ["--tensor-parallel-size 2", "--seed 1"],
        ),
        (
            {"tensor-parallel-size": 4},
            "--tensor-parallel-size 2",
            {},
            2,
            ["--tensor-parallel-size 2"],
        ),
        ({}, "--tensor-parallel-size 4 --tensor-parallel-size=2", {}, 2, []),
    ],
)
def test_of_two_words_for_one_flag_the_last_on_the_line_counts(
    args, command, changed, tensor, flags
) -> None:
    """A choice's own takes the place of the workload's, however it is spelled; a command follows
    `args`.
    """
    task = Task(
        launcher="vllm", model=LLAMA, args=tuple(args.items()), command=command, context=512
    )
    override = Override(args=tuple(changed.items()))
    assert (
        present(present(fit.fit(Workload((task,)), override, "H100", 8, 1).verdict).layout).tensor
        == tensor
    )
    line = program(Workload((task,)), "service", "H100", 8, override=override).processes[0].line
    assert all(flag in line for flag in flags) and ("--tensor-parallel-size 4" in line) is (
        "size 4" in command
    )


@pytest.mark.parametrize(
    ("launcher", "args", "command", "changed", "flags", "absent"),
    [
        (
            "vllm",
            {"tensor-parallel-size": 4},
            "",
            {"tp": 2},
            ["-tp 2"],
            ["--tensor-parallel-size", "-tp 4"],
        ),
        ("vllm", {"tp": 4}, "", {"tensor_parallel_size": 2}, ["--tensor-parallel-size 2"], ["-tp"]),
        ("vllm", {"tp": 4}, "--tensor-parallel-size 2", {}, ["--tensor-parallel-size 2"], ["-tp"]),
        ("vllm", {"quantization": "fp8"}, "-q awq", {}, ["-q awq"], ["--quantization"]),
        (
            "vllm",
            {"tp": 4},
            "",
            {"tensor-parallel-size": False},
            [],
            ["-tp", "--tensor-parallel-size 4"],
        ),
        (
            "sglang",
            {"tensor-parallel-size": 4},
            "",
            {"tp": 2},
            ["--tp 2"],
            ["--tensor-parallel-size"],
        ),
        ("sglang", {"tp_size": 4}, "--tp 2", {}, ["--tp 2"], ["--tp-size"]),
        ("tgi", {"num-shard": 4}, "--num-shard 2", {}, ["--num-shard 2"], ["--num-shard 4"]),
        ("llama.cpp", {"n-gpu-layers": 4}, "", {"ngl": 2}, ["-ngl 2"], ["--n-gpu-layers"]),
        ("llama.cpp", {"ctx-size": 512}, "-c 256", {}, ["-c 256"], ["--ctx-size"]),
        (
            "accelerate",
            {"num_processes": 4},
            "--num-processes=2 train.py",
            {},
            ["--num-processes=2"],
            ["--num_processes"],
        ),
    ],
)
def test_two_names_of_one_flag_reach_the_line_once(
    launcher, args, command, changed, flags, absent
) -> None:
    """Whether `args`, the command or a choice names it: what takes the other's place stands there
    alone.
    """
    task = {"args": tuple(args.items()), **({"command": command} if command else {})}
    line = " ".join(words(launcher, override=Override(args=tuple(changed.items())), **task))
    assert all(f" {flag}" in line for flag in flags) and not any(
        f" {flag}" in line for flag in absent
    ), line


@pytest.mark.parametrize(
    ("launcher", "args"),
    [
        ("vllm", {"tp": 2, "tensor-parallel-size": 2}),
        ("sglang", {"tp": 2, "tp_size": 2}),
        ("llama.cpp", {"ngl": 1, "gpu-layers": 2}),
    ],
)
def test_two_names_of_one_flag_are_refused(launcher, args) -> None:
    """Nobody knows which was meant."""
    first, second = args
    with pytest.raises(
        SpecError,
        match=rf"workload.args.{second}: wanted each flag of {launcher} once, found {first} too",
    ):
        words(launcher, args=tuple(args.items()))
