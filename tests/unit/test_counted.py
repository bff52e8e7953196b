"""Flags of the user's that change what the GPUs hold or how the model is split: the plan counts
what the line says, or says that it does not.
"""

import pytest

from providers.model.workload import Override, Task, Workload
from providers.workloads.sizing import fit
from providers.workloads.sizing.flag_effects import counted, settled

LLAMA, QWEN3, LLAMA_70B = (
    "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen3-235B-A22B-FP8",
    "meta-llama/Llama-3.1-70B",
)


def judged(launcher, gpu, count, nodes=1, args=(), override=None, **task):
    given = Task(
        launcher=launcher,
        args=tuple(dict(args).items()),
        **{"model": LLAMA, "context": 4_096, **task},
    )
    return fit.fit(Workload((given,)), override, gpu, count, nodes)


def lines(launcher, args=(), override=None, **task):
    given = Task(launcher=launcher, args=tuple(dict(args).items()), **{"model": LLAMA, **task})
    return tuple(
        line
        for line in fit.unchecked(Workload((given,)), (override,))
        if "holds no GGUF" not in line
    )


@pytest.mark.parametrize(
    ("launcher", "args", "command", "split"),
    [
        ("vllm", {"tensor-parallel-size": 2}, "", "TP2"),
        ("vllm", {"tensor_parallel_size": "4", "pipeline-parallel-size": 2}, "", "TP4 x PP2"),
        ("vllm", {}, "-tp 2 -dp 4", "TP2 x 4 copies"),
        ("sglang", {"tp": 4}, "", "TP4"),
        ("sglang", {}, "--tp-size=2 --pp-size 4", "TP2 x PP4"),
        ("tgi", {"num_shard": 2}, "", "TP2"),
        ("tgi", {"sharded": "false"}, "", "TP1"),
        ("llama.cpp", {"split-mode": "none"}, "", "TP1"),
    ],
)
def test_a_split_of_the_users_is_the_one_that_is_judged(launcher, args, command, split) -> None:
    """What it leaves out is one, as the program has it; GPUs that stay idle are said."""
    found = judged(launcher, "H100", 8, args=args, command=command)
    assert (found.why, found.verdict.split) == ("", split)
    assert ("of 8 GPUs are used" in found.note) is (found.verdict.layout.gpus < 8)


@pytest.mark.parametrize(
    ("args", "count", "why"),
    [
        ({"tensor-parallel-size": 8}, 4, "TP8 takes 8 GPUs, here are 4"),
        ({"tp": 4, "pp": 2}, 4, "TP4 x PP2 takes 8 GPUs, here are 4"),
        (
            {"tp": 3},
            4,
            (
                "32 heads with 8 KV heads can't be cut into 3: valid are 1, 2, 4, 8, 16, 32; or TP1"
                " x PP3"
            ),
        ),
        ({"pp": 40}, 64, "TP1 x PP40 has more stages than meta-llama/Llama-3.1-8B has layers (32)"),
    ],
)
def test_a_split_that_can_not_be_is_refused(args, count, why) -> None:
    """It would end the program at its start."""
    assert judged("vllm", "H100", count, args=args).why == why


def test_a_split_over_fewer_gpus_than_the_model_needs_is_refused() -> None:
    """70B in 16 bit on TP1 of eight GPUs: each copy stands on one."""
    assert judged("vllm", "H100", 8, model=LLAMA_70B).why == ""
    assert "are usable" in judged("vllm", "H100", 8, args={"dp": 8}, model=LLAMA_70B).why
    assert (
        "are usable"
        in judged("vllm", "H100", 8, override=Override(args=(("tp", 1),)), model=LLAMA_70B).why
    )


@pytest.mark.parametrize(
    ("launcher", "flag", "little", "enough"),
    [
        ("vllm", "gpu-memory-utilization", 0.5, 0.9),
        ("sglang", "mem-fraction-static", "0.4", 0.85),
        ("tgi", "cuda_memory_fraction", 0.5, 1),
    ],
)
def test_the_share_of_the_memory_is_the_one_on_the_line(launcher, flag, little, enough) -> None:
    """15 GiB of weights on an L4 of 22.5."""
    task = {"gpu": "L4", "count": 1, "dtype": "bf16"}
    assert "are usable" in judged(launcher, args={flag: little}, **task).why
    assert judged(launcher, args={flag: enough}, **task).why == ""


def test_sglangs_share_is_for_weights_and_cache_alone() -> None:
    """What a step works with is beside it: half of the card more than holds 15 GiB of weights,
    where vLLM's half does not.
    """
    assert judged("sglang", "A10G", 1, args={"mem-fraction-static": 0.75}).why == ""
    assert "are usable" in judged("vllm", "A10G", 1, args={"gpu-memory-utilization": 0.75}).why


@pytest.mark.parametrize(
    ("launcher", "args", "env"),
    [
        ("vllm", {"kv-cache-dtype": "fp8_e5m2"}, ()),
        ("sglang", {"kv_cache_dtype": "fp8_e4m3"}, ()),
        ("tgi", {"kv-cache-dtype": "fp8_e4m3fn"}, ()),
        ("llama.cpp", {"ctk": "q8_0", "cache-type-v": "q8_0"}, ()),
        ("ollama", {}, (("OLLAMA_KV_CACHE_TYPE", "q8_0"),)),
    ],
)
def test_the_caches_number_format_is_the_one_on_the_line(launcher, args, env) -> None:
    """Half the bytes for each token of the cache."""
    task = {"context": 65_536, "concurrency": 8}
    plain, small = (
        judged(launcher, "H100", 2, **task).verdict,
        judged(launcher, "H100", 2, args=args, env=env, **task).verdict,
    )
    assert small.need.cache == pytest.approx(
        plain.need.cache * (0.5 if launcher not in {"llama.cpp", "ollama"} else 8.5 / 16)
    )


def test_layers_that_llama_cpp_leaves_to_the_machine_take_no_gpu() -> None:
    """70B in 8 bit does not go onto an L4; twenty of its eighty layers do, which is said."""
    task = {"model": LLAMA_70B, "dtype": "q8_0"}
    assert "are usable" in judged("llama.cpp", "L4", 1, **task).why
    for flag in ("n-gpu-layers", "ngl", "gpu_layers"):
        found = judged("llama.cpp", "L4", 1, args={flag: 20}, **task)
        assert (
            found.why == ""
            and "20 of 80 layers on the GPUs, the rest in the machine's own memory" in found.note
        )
    for all_of_them in (81, 999, "all"):
        assert "are usable" in judged("llama.cpp", "L4", 1, args={"ngl": all_of_them}, **task).why


def test_experts_that_stay_whole_are_not_cut() -> None:
    """Twelve blocks of 128 are the experts' width: TP8 of the attention goes with expert
    parallelism only.
    """
    assert counted(Task(launcher="sglang", args=(("ep-size", 8),))).whole_experts
    assert not counted(Task(launcher="sglang", args=(("ep-size", 1),))).whole_experts
    assert "expert parallelism" in judged("vllm", "H100", 8, args={"tp": 8}, model=QWEN3).why
    for spelled in ("--enable-expert-parallel", "-ep"):
        assert judged("vllm", "H100", 8, args={"tp": 8}, command=spelled, model=QWEN3).why == ""


@pytest.mark.parametrize(
    ("launcher", "task", "wanted"),
    [
        ("vllm", {"args": (("max-model-len", "32k"),)}, (32_000, 64)),
        ("vllm", {"args": (("max-model-len", "32K"), ("max-num-seqs", "1k"))}, (32_768, 1_000)),
        ("vllm", {"command": "--max-model-len=25.6k"}, (25_600, 64)),
        (
            "ollama",
            {"env": (("OLLAMA_CONTEXT_LENGTH", "512"), ("OLLAMA_NUM_PARALLEL", "3"))},
            (512, 3),
        ),
        ("ollama", {"args": (("max-model-len", 5),)}, (64, 64)),
    ],
)
def test_numbers_are_read_as_the_program_reads_them(launcher, task, wanted) -> None:
    """VLLM knows k and K; Ollama is told by its environment."""
    found = settled(Task(launcher=launcher, context=64, concurrency=64, **task))
    assert (found.context, found.concurrency) == wanted


@pytest.mark.parametrize(
    ("launcher", "word", "dtype"),
    [("vllm", "bitsandbytes", "nf4"), ("tgi", "bitsandbytes", "int8"), ("vllm", "ptpc_fp8", "fp8")],
)
def test_quantisations_by_the_programs_own_names(launcher, word, dtype) -> None:
    """One word means four bits to vLLM and eight to TGI."""
    flag = "quantize" if launcher == "tgi" else "quantization"
    assert settled(Task(launcher=launcher, args=((flag, word),), dtype="bf16")).dtype == dtype


@pytest.mark.parametrize(
    ("launcher", "args", "told"),
    [
        (
            "vllm",
            {"cpu-offload-gb": 40},
            "--cpu-offload-gb changes what the GPUs hold, which is not counted",
        ),
        (
            "vllm",
            {"config": "serve.yaml"},
            "--config changes what the GPUs hold, which is not counted",
        ),
        ("vllm", {"max-model-len": "lots"}, "--max-model-len lots is not counted"),
        ("vllm", {"gpu-memory-utilization": 90}, "--gpu-memory-utilization 90 is not counted"),
        ("vllm", {"quantization": "new-kind"}, "--quantization new-kind is not counted"),
        ("vllm", {"kv-cache-dtype": "turbo3"}, "--kv-cache-dtype turbo3 is not counted"),
        (
            "sglang",
            {"enable-dp-attention": True},
            "--enable-dp-attention changes what the GPUs hold, which is not counted",
        ),
        ("llama.cpp", {"c": 0}, "-c 0 is not counted"),
        ("llama.cpp", {"tensor-split": "3,1"}, "--tensor-split 3,1 is not counted"),
        ("llama.cpp", {"n-gpu-layers": "auto"}, "--n-gpu-layers auto is not counted"),
        (
            "llama.cpp",
            {"n-cpu-moe": 30},
            "--n-cpu-moe changes what the GPUs hold, which is not counted",
        ),
        ("llama.cpp", {"ctk": "q8_0"}, "-ctk q8_0 is not counted"),
    ],
)
def test_a_flag_that_is_not_counted_is_one_line_and_no_refusal(launcher, args, told) -> None:
    """70B on one L4 would be refused; with these nobody here knows."""
    assert lines(launcher, args) == (f"fit not checked: {told}",)
    assert judged(launcher, "L4", 1, args=args, model=LLAMA_70B) == fit.Fit()
    assert lines(launcher, override=Override(args=tuple(args.items()))) == (
        f"fit not checked: {told}",
    )


@pytest.mark.parametrize(
    ("launcher", "args", "told"),
    [
        (
            "vllm",
            {"speculative-config": "{}"},
            ("fit checked without what --speculative-config adds",),
        ),
        ("llama.cpp", {"md": "draft.gguf"}, ("fit checked without what -md adds",)),
        (
            "vllm",
            {
                "max-model-len": "auto",
                "quantization": "compressed-tensors",
                "kv-cache-dtype": "auto",
            },
            (),
        ),
        ("vllm", {"enable-prefix-caching": True}, ()),
        ("llama.cpp", {"ts": "1,1", "ngl": 999}, ()),
        ("torchrun", {"config": "x"}, ()),
    ],
)
def test_what_is_beside_the_judgement_is_said_and_the_rest_is_not(launcher, args, told) -> None:
    """A draft model's weights are left out, and said so."""
    assert lines(launcher, args, model="" if launcher == "torchrun" else LLAMA) == told
