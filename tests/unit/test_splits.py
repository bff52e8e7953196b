"""Which splits a quantised model allows, which cards run its format, and what mixtures of experts
really hold.
"""

import json
from pathlib import Path

import pytest

from providers.cli import main
from providers.model.spec import read_cluster
from providers.workloads.launch.compile import program
from providers.workloads.sizing import architecture, fit, memory, parallelism, quantization
from providers.workloads.sizing.architecture import find, read
from providers.workloads.sizing.gpus import FITS, NO, TIGHT, Serve, Train, judge
from tests.present import present

TABLE = json.loads((Path(architecture.__file__).parent / "data" / "models.json").read_text())
QWEN_72B = {
    "model_type": "qwen2",
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
}


def quantised(config, **how):
    return read({**config, "quantization_config": how}, "model")


def test_groups_that_do_not_divide_leave_one_gpu_or_stages() -> None:
    """C06 (vllm#21695): 29568 / 128 = 231 groups; two, four and eight GPUs were offered and fail to
    load.
    """
    model = quantised(QWEN_72B, quant_method="awq", bits=4, group_size=128)
    assert parallelism.sizes(model, "awq", 16) == (1,)
    for gpus in (2, 4, 8):
        found = judge(model, Serve("awq", 8192), "A100-80GB", gpus)
        assert found.layout is not None and found.layout.tensor == 1
        told = (
            "the intermediate size 29568 in awq is 231 groups of 128, which can't be cut into"
            f" {gpus}: valid are 1"
        )
        assert (
            told in found.reason
            and f"or TP1 x PP{gpus}" in found.reason
            and "checkpoints padded to 29696 can" in found.reason
        )
    assert judge(model, Serve("awq", 8192), "A100-80GB", 1).answer in {FITS, TIGHT}
    assert str(judge(model, Serve("awq", 8192), "L40S", 4).layout) == "TP1 x PP4"


def test_the_bundled_72b_in_awq_is_split_as_its_16_bit_form_allows_no_more() -> None:
    """C06: a checkpoint that nobody described has groups of 128; the maker's own one is padded and
    can be cut.
    """
    plain, padded = find("Qwen/Qwen2.5-72B"), find("Qwen/Qwen2.5-72B-Instruct-AWQ")
    assert parallelism.sizes(plain, "bf16", 8) == (1, 2, 4, 8)
    assert parallelism.sizes(plain, "awq", 8) == parallelism.sizes(plain, "gptq", 8) == (1,)
    assert parallelism.sizes(padded, "awq", 8) == (1, 2, 4, 8)
    assert parallelism.sizes(find("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4"), "gptq", 8) == (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("how", "dtype", "sizes"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, "awq", (1, 2)),  # 462 groups
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "gptq", (1, 2, 4)),  # 924 groups
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}, "gptq", (1,)),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "gptq", (1, 2, 4, 8)),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", (1,)),
        ({"quant_method": "fp8"}, "fp8", (1, 2, 4, 8)),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "g": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 32}}
                },
            },
            "int4",
            (1, 2, 4),
        ),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4", (1, 2, 4, 8)),
    ],
)
def test_the_size_of_a_group_or_block_decides(how, dtype, sizes) -> None:
    """The same model under other group sizes, sorted rows, whole rows and blocks."""
    model = quantised(QWEN_72B, **how)
    assert model.dtype == dtype and parallelism.sizes(model, dtype, 8) == sizes


def test_attention_is_cut_by_whole_groups_too() -> None:
    """Fourteen heads of 64 are seven groups of 128: two GPUs can't share them, whatever the
    feed-forward part allows.
    """
    small = {
        **QWEN_72B,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "num_hidden_layers": 24,
    }
    model = quantised(small, quant_method="awq", bits=4, group_size=128)
    assert parallelism.sizes(model, "bf16", 8) == (1, 2) and parallelism.sizes(model, "awq", 8) == (
        1,
    )
    assert "attention's width" in parallelism.advice(model, 2, "awq")


@pytest.mark.parametrize(
    ("name", "dtype", "sizes"),
    [
        (
            "Qwen/Qwen3-30B-A3B-FP8",
            "fp8",
            (1, 2),
        ),  # experts of 768: six blocks, and three on each of two
        ("Qwen/Qwen3-235B-A22B-FP8", "fp8", (1, 2, 4)),  # 1536: twelve blocks
        ("Qwen/Qwen3-235B-A22B", "bf16", (1, 2, 4, 8)),
        ("deepseek-ai/DeepSeek-V3", "fp8", (1, 2, 4, 8)),  # 2048: sixteen blocks
        ("openai/gpt-oss-120b", "mxfp4", (1, 2, 4, 8)),  # padded by its kernels
        (
            "Qwen/Qwen3-30B-A3B",
            "awq",
            (1, 2, 4, 8),
        ),  # the fused kernels cut groups of experts down to 32
        (
            "zai-org/GLM-4.5-Air",
            "awq",
            (1,),
        ),  # a dense layer of 10944 and shared experts of 1408: eleven groups
    ],
)
def test_experts_and_shared_parts_are_cut_by_whole_blocks(name, dtype, sizes) -> None:
    """QwenLM/Qwen3#698: fp8 blocks of 128 in experts of 1536 do not go into eight."""
    model = find(name)
    assert (
        tuple(size for size in parallelism.sizes(model, dtype, 8) if size in {1, 2, 4, 8}) == sizes
    )


def test_experts_that_can_not_be_cut_are_told_with_the_way_out() -> None:
    """The refusal names the blocks and expert parallelism."""
    told = parallelism.advice(find("Qwen/Qwen3-235B-A22B-FP8"), 8, "fp8")
    assert (
        "experts' intermediate size 1536 in fp8 is 12 blocks of 128" in told
        and "TP4 x PP2" in told
        and "expert parallelism" in told
    )


@pytest.mark.parametrize(
    ("launcher", "flag", "gpus"),
    [
        ("vllm", "--tensor-parallel-size 1", 4),
        ("sglang", "--tp-size 1", 4),
        ("tgi", "--num-shard 1", 2),
        ("vllm", "--pipeline-parallel-size", 2),
    ],
)
def test_every_launcher_starts_with_the_split_that_was_planned(launcher, flag, gpus) -> None:
    """C06: the command line has no split that the model does not allow."""
    declared = {
        "kind": "service",
        "gpu": "L40S:1",
        "workload": {
            "launcher": launcher,
            "model": "Qwen/Qwen2.5-72B",
            "dtype": "awq",
            "context": 4096,
        },
    }
    workload = present(read_cluster("t", declared).ask().workload)
    gpu = "L40S" if launcher != "tgi" else "A100-80GB"
    assert flag in program(workload, "service", gpu, gpus).processes[0].line


def test_nodes_are_joined_by_stages_and_hold_one_copy_together() -> None:
    """What one of them does not hold, two do, counted together; what one holds is no second copy
    on the other, since there is one server.
    """
    large = present(find("meta-llama/Llama-3.1-405B"))
    serving = Serve("bf16", 32_768, 8)
    assert judge(large, serving, "H100", 8).answer == NO
    together = judge(large, serving, "H100", 8, 2)
    assert (together.answer, together.split) == (FITS, "TP8 x PP2")
    small = present(find("meta-llama/Llama-3.1-8B"))
    assert judge(small, serving, "H100", 8, 2).split == "TP8 x PP2"


def test_tgi_is_judged_by_its_one_group() -> None:
    """It has no stages: a model that one GPU must hold alone is refused where it holds it not,
    however many there are.
    """
    workload = read_cluster(
        "t",
        {
            "kind": "service",
            "gpu": "L40S:1",
            "workload": {
                "launcher": "tgi",
                "model": "Qwen/Qwen2.5-72B",
                "args": {"quantize": "awq"},
            },
        },
    )
    assert (
        "which can't be cut into 4"
        in fit.fit(present(workload.ask().workload), None, "L40S", 4, 1).why
    )
    assert fit.fit(present(workload.ask().workload), None, "A100-80GB", 4, 1).why == ""


@pytest.mark.parametrize("dtype", ["fp16", "q4_k_m", ""])
def test_llama_cpp_and_ollama_have_stages_alone(dtype) -> None:
    """Whatever the format, they split by layers: heads and groups do not matter."""
    workload = {
        "launcher": "llama.cpp",
        "model": "Qwen/Qwen2-7B",
        **({"dtype": dtype} if dtype else {}),
    }
    found = fit.fit(
        present(
            read_cluster("t", {"kind": "service", "gpu": "L4:3", "workload": workload})
            .ask()
            .workload
        ),
        None,
        "L4",
        3,
        1,
    )
    assert found.why == "" and str(present(found.verdict).layout) == "TP1 x PP3"


@pytest.mark.parametrize(
    ("name", "gpu", "answers"),
    [
        ("openai/gpt-oss-120b", "H100", {TIGHT, FITS}),
        ("openai/gpt-oss-120b", "A100-80GB", {TIGHT, FITS}),
        ("openai/gpt-oss-120b", "H200", {FITS}),
        ("openai/gpt-oss-120b", "B200", {FITS}),
        ("openai/gpt-oss-120b", "T4", {NO}),
        ("openai/gpt-oss-120b", "V100", {NO}),
        ("openai/gpt-oss-20b", "L4", {TIGHT, FITS}),
        ("openai/gpt-oss-20b", "T4", {NO}),
    ],
)
def test_mxfp4_runs_from_ampere_on(name, gpu, answers) -> None:
    """C08 (vllm#33155, #22290): on one H100 by many; on an A100 the weights alone have the format,
    and that is said; not on a T4.
    """
    found = judge(find(name), Serve("mxfp4", 8192), gpu, 1)
    assert found.answer in answers
    assert ("weight-only kernels" in found.reason) == (
        found.answer != NO and gpu in {"H100", "A100-80GB", "H200", "L4"}
    )
    if found.answer == NO:
        assert "no mxfp4: kernels for 4-bit floats begin with Ampere (8.0)" in found.reason


def test_mxfp4_weights_are_as_large_as_the_published_files() -> None:
    """60.8 GiB for 120b and 12.8 GiB for 20b (OpenAI's model card, 2025-08): experts in 4.25 bits,
    the rest in 16.
    """
    assert memory.weight_bytes(find("openai/gpt-oss-120b"), "mxfp4") / memory.GIB == pytest.approx(
        60.8, rel=0.02
    )
    assert memory.weight_bytes(find("openai/gpt-oss-20b"), "mxfp4") / memory.GIB == pytest.approx(
        12.8, rel=0.02
    )
    assert judge(find("gpt-oss-120b"), Serve("mxfp4", 8192), "H100", 1).usable_gib == pytest.approx(
        71.6, abs=0.1
    )


def test_adapters_of_a_4_bit_checkpoint_are_counted_in_16_bit(tmp_path, capsys) -> None:
    """C11 (gpt-oss-recipes#23): 233 GB for LoRA, over eight GPUs; not on one H100."""
    model = find("openai/gpt-oss-120b")
    alone, eight = judge(model, Train("lora"), "H100", 1), judge(model, Train("lora"), "H100", 8)
    assert alone.answer == NO and present(alone.need).weights * memory.GIB / 1e9 == pytest.approx(
        233.7, rel=0.01
    )
    assert eight.answer != NO and eight.split == "FSDP x 8" and "unpacked to 16 bit" in eight.reason
    assert (
        present(judge(model, Train("qlora"), "H100", 1).need).weights
        < present(alone.need).weights / 3
    )
    row = next(row for row in TABLE["models"] if row["name"] == "openai/gpt-oss-120b")
    (tmp_path / "config.json").write_text(json.dumps(row["config"]))
    assert (
        main.main(["size", str(tmp_path / "config.json"), "--train", "lora", "--on", "H100:1"]) == 1
    )
    assert "217" in capsys.readouterr().out
    declared = {
        "kind": "job",
        "gpu": "H100:1",
        "workload": {
            "command": "train.py",
            "model": "openai/gpt-oss-120b",
            "train": {"method": "lora"},
        },
    }
    assert (
        "are usable"
        in fit.fit(present(read_cluster("t", declared).ask().workload), None, "H100", 1, 1).why
    )


def test_latent_attention_and_all_experts_are_counted() -> None:
    """C10: 70,272 bytes a token, 671 B; H100:8 no, H200:8 and two of H100:8 yes, A100 without fp8."""
    model = find("deepseek-ai/DeepSeek-V3")
    assert model.kv_bytes_per_token() == 70_272 and model.parameters / 1e9 == pytest.approx(
        671, rel=0.001
    )
    work = Serve("fp8", 32768, 8)
    assert judge(model, work, "H100", 8).answer == NO
    assert judge(model, work, "H200", 8).answer != NO
    assert judge(model, work, "H100", 8, 2).answer != NO
    assert "no fp8" in judge(model, work, "A100-80GB", 8).reason


MIXTURES = [row for row in TABLE["models"] if "published_active_billion" in row]


@pytest.mark.parametrize("row", MIXTURES, ids=lambda row: row["name"])
def test_active_parameters_of_a_mixture_are_those_of_its_card(row) -> None:
    """Within 5 %, with the embeddings or without: the cards count either way."""
    model = find(row["name"])
    shown = [
        model.active_parameters - part
        for part in (0, model.embedding_parameters // 2, model.embedding_parameters)
    ]
    assert min(abs(count / 1e9 / row["published_active_billion"] - 1) for count in shown) <= 0.05
    assert model.expert_parameters < model.parameters


def test_well_known_mixtures_are_bundled() -> None:
    """Mixtral, DeepSeek, Qwen, gpt-oss, Llama 4, GLM, Kimi, MiniMax: each by its name, with
    experts.
    """
    for name in (
        "Mixtral-8x7B",
        "DeepSeek-R1",
        "Qwen3-235B-A22B",
        "gpt-oss-20b",
        "Llama-4-Scout-17B-16E-Instruct",
        "GLM-4.5-Air",
        "Kimi-K2",
        "MiniMax-M2",
    ):
        assert find(name).expert_parameters > 0


@pytest.mark.parametrize(
    "found",
    [
        None,
        "x",
        5,
        {},
        {"quant_method": 3},
        {"quant_method": "fp8", "weight_block_size": []},
        {"quant_method": "compressed-tensors"},
    ],
)
def test_a_quantisation_that_cannot_be_read_is_no_error(found) -> None:
    """Foreign files hold anything; a method that is not known is none."""
    assert quantization.read(found) in {None, quantization.Quantization("fp8")}
    assert read({**QWEN_72B, "quantization_config": found}, "x").parameters > 0


def test_small_groups_cost_more_bits() -> None:
    """Groups of 32 have four times the scales of groups of 128."""
    sizes = [
        memory.weight_bytes(
            quantised(QWEN_72B, quant_method="gptq", bits=4, group_size=group), "gptq"
        )
        for group in (32, 64, 128)
    ]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[2] * 1.05


@pytest.mark.parametrize("dtype", ["", "bf16", "fp16"])
def test_a_quantised_checkpoint_stays_so_whatever_its_arithmetic_is(dtype) -> None:
    """`dtype: bf16` for gpt-oss-120b is the format of its arithmetic: one H100 holds it as before."""
    workload = {
        "launcher": "vllm",
        "model": "openai/gpt-oss-120b",
        **({"dtype": dtype} if dtype else {}),
    }
    found = fit.fit(
        present(
            read_cluster("t", {"kind": "service", "gpu": "H100:1", "workload": workload})
            .ask()
            .workload
        ),
        None,
        "H100",
        1,
        1,
    )
    assert found.why == "" and "in mxfp4" in found.note
