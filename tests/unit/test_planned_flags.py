"""What the plan counts on is on the launcher's line, and the user's flags are counted."""

import pytest

from providers.model.workload import Override, Task, Workload
from providers.workloads.sizing import fit, memory
from providers.workloads.sizing.flag_effects import settled
from tests.unit.flags_rig import LLAMA, said, words

UNKNOWN = "someone/unknown"


@pytest.mark.parametrize(
    ("launcher", "task", "wanted"),
    [
        (
            "vllm",
            {"dtype": "bf16", "context": 32_768, "concurrency": 8, "port": 9_000},
            {
                "host": "127.0.0.1",
                "port": "9000",
                "tensor-parallel-size": "8",
                "dtype": "bfloat16",
                "gpu-memory-utilization": "0.9",
            }
            | {"max-model-len": "32768", "max-num-seqs": "8"},
        ),
        (
            "vllm",
            {"dtype": "fp8"},
            {
                "quantization": "fp8",
                "max-model-len": "8192",
                "gpu-memory-utilization": str(memory.USABLE),
            },
        ),
        ("vllm", {"dtype": "awq"}, {"quantization": "awq", "dtype": "auto"}),
        ("vllm", {"dtype": "nf4"}, {"quantization": "bitsandbytes"}),
        (
            "sglang",
            {"dtype": "fp16", "context": 4_096, "concurrency": 4},
            {
                "tp-size": "8",
                "dtype": "half",
                "context-length": "4096",
                "max-running-requests": "4",
                "host": "127.0.0.1",
                "port": "30000",
            },
        ),
        ("sglang", {"dtype": "gptq"}, {"quantization": "gptq", "context-length": "8192"}),
        (
            "tgi",
            {"dtype": "bf16", "context": 4_096, "concurrency": 4},
            {
                "num-shard": "8",
                "dtype": "bfloat16",
                "max-total-tokens": "4096",
                "max-concurrent-requests": "4",
                "hostname": "127.0.0.1",
                "port": "8080",
            },
        ),
        ("tgi", {"dtype": "nf4"}, {"quantize": "bitsandbytes-nf4"}),
        ("tgi", {"dtype": "int8"}, {"quantize": "eetq"}),
        (
            "llama.cpp",
            {"dtype": "q8_0", "context": 4_096, "concurrency": 4},
            {
                "hf": f"{LLAMA}:Q8_0",
                "c": "16384",
                "parallel": "4",
                "ngl": "999",
                "split-mode": "layer",
                "tensor-split": "1,1,1,1,1,1,1,1",
            }
            | {"host": "127.0.0.1", "port": "8080"},
        ),
        ("llama.cpp", {}, {"hf": LLAMA, "c": "8192"}),
        ("llama.cpp", {"dtype": "fp16"}, {"hf": f"{LLAMA}:F16"}),
        ("llama.cpp", {"dtype": "q8_0", "model": "a/b:Q8_K_XL"}, {"hf": "a/b:Q8_K_XL"}),
    ],
)
def test_what_the_plan_counts_on_is_on_the_line(launcher, task, wanted) -> None:
    """Split, number format, share of the memory, context, sequences, address: a default of the
    program's own is another one than the plan's.
    """
    found = said(words(launcher, **task))
    assert {name: found.get(name) for name in wanted} == wanted


def test_ollama_is_told_by_its_environment() -> None:
    """It has no flags for these."""
    line = words("ollama", gpu="L4", count=1, context=4_096, concurrency=4)
    assert {"context=4096", "parallel=4", "listen=127.0.0.1", "port=11434"} <= set(line)
    assert "context=" in words(
        "ollama", gpu="L4", count=1, context=4_096, env=(("OLLAMA_CONTEXT_LENGTH", "512"),)
    )
    assert "context=8192" in words("ollama", gpu="L4", count=1)


@pytest.mark.parametrize("launcher", ["vllm", "sglang", "tgi", "llama.cpp"])
def test_a_server_is_given_the_context_that_was_judged(launcher) -> None:
    """Left to itself it takes all that its model knows, and ends where the cache of that does not
    fit. Of an unknown model nobody assumed one.
    """
    flag = {
        "vllm": "max-model-len",
        "sglang": "context-length",
        "tgi": "max-total-tokens",
        "llama.cpp": "c",
    }[launcher]
    assert said(words(launcher, gpu="L4", count=1))[flag] == "8192"
    assert flag not in said(words(launcher, gpu="L4", count=1, model=UNKNOWN))


@pytest.mark.parametrize(
    ("launcher", "args", "command", "fields"),
    [
        ("vllm", {"max-model-len": 1_000_000}, "", {"context": 1_000_000}),
        (
            "vllm",
            {"max_model_len": 512, "max_num_seqs": "2"},
            "",
            {"context": 512, "concurrency": 2},
        ),
        ("vllm", {}, "--max-model-len=512 --max-num-seqs 2", {"context": 512, "concurrency": 2}),
        ("vllm", {"dtype": "half"}, "", {"dtype": "fp16"}),
        ("vllm", {"quantization": "awq_marlin"}, "", {"dtype": "awq"}),
        ("vllm", {}, "-q fp8", {"dtype": "fp8"}),
        ("vllm", {"max-model-len": "auto", "dtype": "auto"}, "", {"context": 64, "dtype": "bf16"}),
        (
            "sglang",
            {"context_length": 512},
            "--max-running-requests 3",
            {"context": 512, "concurrency": 3},
        ),
        (
            "tgi",
            {"max-total-tokens": 512, "quantize": "bitsandbytes-nf4"},
            "",
            {"context": 512, "dtype": "nf4"},
        ),
        ("llama.cpp", {"ctx-size": 4_096, "parallel": 4}, "", {"context": 1_024, "concurrency": 4}),
        ("llama.cpp", {}, "-c 4096 -np 2", {"context": 2_048, "concurrency": 2}),
        (
            "torchrun",
            {"dtype": "half"},
            "train.py --max-model-len 5",
            {"context": 64, "dtype": "bf16"},
        ),
    ],
)
def test_a_flag_of_the_users_is_what_the_plan_counts_on(launcher, args, command, fields) -> None:
    """It runs, so it is also what is judged: the field stands back."""
    found = settled(
        Task(launcher=launcher, command=command, args=tuple(args.items()), context=64, dtype="bf16")
    )
    assert {name: getattr(found, name) for name in fields} == fields


def test_a_context_that_does_not_fit_is_refused_also_as_a_flag() -> None:
    """Of the workload and of a fallback entry's own args."""
    task = Task(launcher="vllm", model=LLAMA, args=(("max-model-len", 131_072),), concurrency=64)
    assert "are usable" in fit.fit(Workload((task,)), None, "L4", 1, 1).why
    task = Task(launcher="vllm", model=LLAMA, context=4_096)
    assert fit.fit(Workload((task,)), None, "L4", 1, 1).why == ""
    assert (
        "are usable"
        in fit.fit(Workload((task,)), Override(args=(("max_model_len", 131_072),)), "L4", 1, 1).why
    )


@pytest.mark.parametrize(
    ("launcher", "flag"), [("accelerate", "mixed_precision"), ("kohya", "mixed-precision")]
)
def test_a_training_runs_number_format_is_that_of_its_flag(launcher, flag) -> None:
    """fp8 begins with Ada; `no` is 32 bit."""
    task = Task(launcher=launcher, command="train.py", args=((flag, "fp8"),))
    assert "no fp8" in fit.fit(Workload((task,)), None, "A100", 8, 1).why
    assert fit.fit(Workload((task,)), None, "H100", 8, 1).why == ""
    assert settled(task._replace(args=((flag, "no"),))).dtype == "fp32"
    assert settled(task._replace(args=(), command="train.py --mixed_precision fp8")).dtype == ""
