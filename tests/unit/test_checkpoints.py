"""A server loads the checkpoint that is named, in its own format or in one that it makes of it;
everything else is refused or said before it is bought.
"""

import pytest

from providers.errors import SpecError
from providers.model.workload import Override, Task, Workload
from providers.workloads.launch.compile import check, program
from providers.workloads.sizing import fit, parallelism
from providers.workloads.sizing.architecture import find

PLAIN, BLOCKS, FOUR_BITS, GROUPS = (
    "meta-llama/Llama-3.1-8B",
    "deepseek-ai/DeepSeek-R1",
    "openai/gpt-oss-120b",
    "Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4",
)


def served(launcher, model, dtype="", gpu="H100", count=8, override=None, **task):
    return fit.fit(
        Workload((Task(launcher=launcher, model=model, dtype=dtype, context=4_096, **task),)),
        override,
        gpu,
        count,
        1,
    )


@pytest.mark.parametrize(
    ("launcher", "dtype"),
    [("vllm", each) for each in ("awq", "gptq", "int8", "int4", "fp4", "mxfp4", "q8_0", "q4_k_m")]
    + [("sglang", each) for each in ("nf4", "int8", "awq", "q6_k")]
    + [("tgi", each) for each in ("awq", "gptq", "fp4", "int4")],
)
def test_a_format_that_nobody_makes_of_16_bit_weights_is_refused(launcher, dtype) -> None:
    """The line would end at its start, or load 16 bits where the plan counted four."""
    why = served(launcher, PLAIN, dtype).why
    assert why.startswith(
        f"{PLAIN} is published in bf16, not in {dtype}: name a checkpoint in {dtype} as model"
        f" ({launcher} makes fp8"
    )
    assert served(launcher, PLAIN, override=Override(dtype=dtype)).why == why


@pytest.mark.parametrize(
    ("launcher", "dtype"),
    [(name, each) for name, made in fit.MAKES.items() for each in (*made, "", "bf16", "fp16")],
)
def test_a_format_that_a_server_makes_of_them_is_on_its_line(launcher, dtype) -> None:
    """And is what fits."""
    assert served(launcher, PLAIN, dtype).why == ""
    line = (
        program(
            Workload((Task(launcher=launcher, model=PLAIN, dtype=dtype),)), "service", "H100", 8
        )
        .processes[0]
        .line
    )
    assert (" --quantiz" in line) is (dtype in fit.MAKES[launcher])


@pytest.mark.parametrize(
    ("model", "own", "dtype"),
    [
        (BLOCKS, "fp8", "awq"),
        (BLOCKS, "fp8", "fp4"),
        (BLOCKS, "fp8", "nf4"),
        (FOUR_BITS, "mxfp4", "fp8"),
        (GROUPS, "gptq", "awq"),
        (GROUPS, "gptq", "int8"),
    ],
)
def test_a_quantised_checkpoint_is_served_in_its_own_format_only(model, own, dtype) -> None:
    """673 GB of fp8 do not become awq on eight H100: vLLM ends with a mismatch, after they were
    bought.
    """
    for launcher in fit.MAKES:
        assert (
            served(launcher, model, dtype).why
            == f"{model} is published in {own}, not in {dtype}: leave dtype out, or name a"
            f" checkpoint in {dtype}"
        )
    assert (
        "is published in" not in served("vllm", model, own).why + served("vllm", model, "bf16").why
    )


@pytest.mark.parametrize("dtype", ["", "fp8", "bf16"])
@pytest.mark.parametrize("launcher", sorted(fit.MAKES))
def test_how_a_checkpoint_is_quantised_is_left_to_itself(launcher, dtype) -> None:
    """A method's flag must match the checkpoint's own word: compressed-tensors, modelopt and fbgemm
    are fp8 too.
    """
    line = (
        program(
            Workload((Task(launcher=launcher, model=BLOCKS, dtype=dtype),)), "service", "H200", 8
        )
        .processes[0]
        .line
    )
    assert "--quantiz" not in line and "fp8" not in line


@pytest.mark.parametrize("launcher", ["vllm", "sglang"])
def test_a_quantisation_that_the_user_gives_as_a_flag_is_theirs(launcher) -> None:
    """New methods appear each month."""
    assert served(launcher, PLAIN, args=(("quantization", "w8a8_int8"),)).why == ""
    assert served(launcher, PLAIN, args=(("quantization", "torchao"),)) == fit.Fit()


@pytest.mark.parametrize(
    ("launcher", "remedy"),
    [("ollama", "as in llama3.1:8b"), ("llama.cpp", "as in OWNER/NAME-GGUF")],
)
def test_a_repository_without_gguf_files_is_said(launcher, remedy) -> None:
    """Of a model that is not known nothing is said."""
    (line,) = fit.unchecked(Workload((Task(launcher=launcher, model=PLAIN),)))
    assert (
        line.startswith(f"{PLAIN} holds no GGUF file, which {launcher} loads: name one that does")
        and remedy in line
    )
    assert "GGUF file" not in str(
        fit.unchecked(Workload((Task(launcher=launcher, model="bartowski/Llama-3.1-8B-GGUF"),)))
    )


@pytest.mark.parametrize("launcher", ["vllm", "sglang", "tgi", "ollama", "llama.cpp"])
@pytest.mark.parametrize("size", ["70b", "1.5B", "350m"])
def test_a_size_is_no_model_to_serve(launcher, size) -> None:
    """`vllm serve 70b` finds no such repository; a training run is only judged by it."""
    (problem,) = check(Workload((Task(launcher=launcher, model=size),)), 1, "private")
    assert (problem.path, problem.found) == ("workload.model", repr(size))
    assert (
        check(Workload((Task(launcher="torchrun", model=size, command="train.py"),)), 1, "private")
        == []
    )


@pytest.mark.parametrize("task", [{"args": (("num_ctx", 8_192),)}, {"command": "--num-ctx 8192"}])
def test_flags_for_ollama_are_refused(task) -> None:
    """It has none, so they were dropped without a word."""
    with pytest.raises(SpecError, match=r"takes no flags.*OLLAMA_KV_CACHE_TYPE"):
        program(
            Workload((Task(launcher="ollama", model="llama3.1:8b", **task),)), "service", "L4", 1
        )


@pytest.mark.parametrize(
    ("launcher", "command"),
    [("vllm", ""), ("llama.cpp", ""), ("torchrun", "train.py"), ("comfyui", "")],
)
def test_gpus_that_a_launcher_would_not_see_are_refused(launcher, command) -> None:
    """TP2 of two GPUs, of which one is hidden, ends at its start; a command without a launcher
    counts for itself.
    """
    task = Task(
        launcher=launcher,
        command=command,
        model="someone/unknown",
        env=(("CUDA_VISIBLE_DEVICES", "0"),),
    )
    (problem,) = check(Workload((task,)), 1, "private")
    assert problem.path == "workload.env.CUDA_VISIBLE_DEVICES" and "gpus: [0]" in problem.todo
    assert check(Workload((task._replace(launcher="", command="python x.py"),)), 1, "private") == []


def test_copies_of_a_mixture_cut_its_experts_over_all_their_gpus() -> None:
    """Twelve blocks of 128: TP4 x 2 copies cuts them into eight, which fails as TP8 does; stages
    and copies of TP2 x 2 do not.
    """
    model = find("Qwen/Qwen3-235B-A22B-FP8")
    assert parallelism.sizes(model, "fp8", 8) == (1, 2, 4)
    found = parallelism.layouts(model, "H100", 8, dtype="fp8")
    assert str(found[0]) == "TP4 x PP2" and all(each.tensor * each.replicas <= 4 for each in found)
    assert served("vllm", model.name).verdict.split == "TP4 x PP2"
    dense = parallelism.layouts(find(PLAIN), "H100", 8, dtype="fp8")
    assert any(each.replicas == 8 for each in dense)
