"""Sizing: parameters and memory against published figures, splits, verdicts, times and costs."""

import json
import subprocess
import sys

import pytest

from providers.cli import main, size_report
from providers.errors import GpusError, SpecError
from providers.workloads.sizing import architecture, gpus, memory, parallelism, throughput
from providers.workloads.sizing.architecture import find
from providers.workloads.sizing.gpus import FITS, NO, TIGHT, Serve, Train, judge
from tests.present import present

TABLE = json.loads(
    (__import__("pathlib").Path(architecture.__file__).parent / "data" / "models.json").read_text()
)

PUBLISHED = [
    # (model, what, published figure, unit, source)
    (
        "meta-llama/Llama-3.1-8B",
        "fp16 weights",
        16.0,
        "GB",
        "Hugging Face blog, Llama 3.1, 2024-07",
    ),
    (
        "meta-llama/Llama-3.1-70B",
        "fp16 weights",
        140.0,
        "GB",
        "Hugging Face blog, Llama 3.1, 2024-07",
    ),
    (
        "meta-llama/Llama-3.1-405B",
        "fp16 weights",
        810.0,
        "GB",
        "Hugging Face blog, Llama 3.1, 2024-07",
    ),
    (
        "meta-llama/Llama-3.1-405B",
        "fp8 weights",
        405.0,
        "GB",
        "Hugging Face blog, Llama 3.1, 2024-07",
    ),
    (
        "meta-llama/Llama-3.1-405B",
        "cache 131072",
        123.05,
        "GiB 2 x",
        "Hugging Face blog, Llama 3.1, 2024-07 (its figures are twice what 16 bit takes)",
    ),
    (
        "mistralai/Mixtral-8x7B-v0.1",
        "fp16 weights",
        86.99,
        "GiB",
        "its safetensors files: 93,405,577,216 bytes",
    ),
    (
        "mistralai/Mixtral-8x7B-v0.1",
        "cache 4096",
        0.5,
        "GiB",
        "llama.cpp's allocation: 256 MiB for 2048 tokens",
    ),
    ("mistralai/Mixtral-8x22B-v0.1", "fp16 weights", 282.0, "GB", "canitrun.dev, 2026-11"),
    (
        "meta-llama/Meta-Llama-3-8B",
        "cache 2048",
        0.25,
        "GiB",
        "llama.cpp's allocation, dranger003/c4ai-command-r-v01-iMat.GGUF discussion 6",
    ),
    (
        "meta-llama/Meta-Llama-3-70B",
        "cache 2048",
        0.625,
        "GiB",
        "llama.cpp's allocation, same place",
    ),
    ("Qwen/Qwen2-7B", "fp16 weights", 15.2, "GB", "its safetensors files"),
    ("mistralai/Mistral-7B-v0.1", "fp16 weights", 14.5, "GB", "its safetensors files"),
    ("meta-llama/Llama-2-7b", "cache 4196", 2.05, "GiB", "jy-yuan/KIVI issue 17"),
    (
        "meta-llama/Llama-2-70b",
        "fp16 weights",
        140.0,
        "GB",
        "Hugging Face blog, optimising LLMs in production, 2023",
    ),
    ("deepseek-ai/DeepSeek-V3", "fp8 weights", 671.0, "GB", "its report, 2024-12"),
    (
        "openai-community/gpt2-xl",
        "full training state",
        24.0,
        "GB",
        "ZeRO, 2019: 1.5 B parameters, 16 bytes each",
    ),
]


@pytest.mark.parametrize("row", TABLE["models"], ids=lambda row: row["name"])
def test_counted_parameters_are_those_of_the_model_card(row) -> None:
    """From the shape alone the count comes within 1 % of what the model's card says (1.5 % where
    the card counts a vision encoder too).
    """
    within = 0.015 if row.get("vision_not_counted") else 0.01
    assert find(row["name"]).parameters / 1e9 == pytest.approx(
        row["published_parameters_billion"], rel=within
    )


@pytest.mark.parametrize(
    ("name", "what", "figure", "unit", "source"), PUBLISHED, ids=lambda value: str(value)[:40]
)
def test_memory_agrees_with_published_figures(name, what, figure, unit, source) -> None:
    """Weights, cache and training state come within 10 % of what was published for at least ten
    models.
    """
    model = find(name)
    if what.endswith("weights"):
        found = memory.weight_bytes(model, what.split()[0])
    elif what.startswith("cache"):
        found = (
            model.kv_bytes_per_token() * int(what.split()[1]) * (2 if unit.endswith("2 x") else 1)
        )
    else:
        found = model.parameters * memory.FULL_BYTES
    assert found / (1e9 if unit == "GB" else memory.GIB) == pytest.approx(figure, rel=0.10), source


def test_at_least_ten_models_are_compared_with_published_figures() -> None:
    """The comparison is worth its name."""
    assert len({row[0] for row in PUBLISHED}) >= 10


def test_b37_tensor_parallel_sizes_divide_heads_and_kv_heads() -> None:
    """B37: 28 heads with 4 KV heads go into 1, 2, 4 and 28; 7 and 14 would break the KV heads."""
    assert parallelism.tensor_sizes(28, 4) == (1, 2, 4, 28)
    assert parallelism.tensor_sizes(64, 8, 16) == (1, 2, 4, 8, 16)
    assert parallelism.tensor_sizes(52, 52, 26) == (1, 2, 4, 13, 26)
    assert not parallelism.divides(3, 64, 8)
    assert not parallelism.divides(8, 52, 52)


def test_b37_a_count_that_does_not_divide_is_told_with_the_valid_ones() -> None:
    """B37: the refusal names valid sizes and a split over stages."""
    assert (
        parallelism.advice(find("Qwen2-7B"), 8)
        == "28 heads with 4 KV heads can't be cut into 8: valid are 1, 2, 4, 28; or TP4 x PP2"
    )
    assert parallelism.advice(find("Qwen2-7B"), 4) == ""


def test_b39_70b_in_16_bit_does_not_fit_one_card_is_tight_on_two_and_fits_four() -> None:
    """B39: weights alone are 141 GB; two cards of 80 GB leave next to nothing."""
    model = find("Llama-3-70B")
    answers = {count: judge(model, Serve("bf16", 8192), "H100", count) for count in (1, 2, 4)}
    assert {count: found.answer for count, found in answers.items()} == {1: NO, 2: TIGHT, 4: FITS}
    assert "weights 131.4" in answers[1].reason
    assert "GiB to spare on each GPU" in answers[2].reason


def test_b39_the_cache_counts_grouped_heads_once() -> None:
    """B39: 327,680 bytes a token for 70B and 131,072, not 524,288, for 8B."""
    assert find("Llama-3-70B").kv_bytes_per_token() == 327_680
    assert find("Llama-3-8B").kv_bytes_per_token() == 131_072


def test_b39_overhead_is_counted_on_each_gpu() -> None:
    """B39: four GPUs have four overheads."""
    need = memory.serving(find("Llama-3-70B"), "bf16", context=8192, concurrency=1, tensor=4)
    assert need.overhead == memory.OVERHEAD_GIB


def test_kv_heads_that_run_out_are_doubled() -> None:
    """Sixteen GPUs with eight KV heads hold each head twice, so the cache per GPU stops shrinking
    at eight.
    """
    model = find("Llama-3-70B")
    assert memory.cache_bytes_per_token(model, 16) == memory.cache_bytes_per_token(model, 8)
    assert (
        memory.cache_bytes_per_token(find("deepseek-ai/DeepSeek-V3"), 8)
        == find("deepseek-ai/DeepSeek-V3").kv_bytes_per_token()
    )


def test_a_card_without_the_format_is_refused_with_the_reason() -> None:
    """fp8 on an A100 and bf16 on a T4 are told by compute capability."""
    assert (
        "no fp8"
        in judge(find("deepseek-ai/DeepSeek-V3"), Serve("fp8", 8192), "A100-80GB", 8).reason
    )
    assert "fp16 would do" in judge(find("Llama-3-8B"), Serve("bf16", 2048), "T4", 1).reason


def test_tensor_parallelism_is_wide_on_nvlink_and_narrow_over_pcie() -> None:
    """Eight GPUs on NVLink are one group; over PCIe pairs of them are stages."""
    model = find("Llama-3.1-70B")
    assert str(parallelism.layouts(model, "H100", 8)[0]) == "TP8"
    assert str(parallelism.layouts(model, "L40S", 8)[0]) == "TP2 x PP4"


def test_llama_cpp_splits_by_layers_and_sets_nothing_aside() -> None:
    """Its formats are planned in stages on 95 % of a card with small prefill steps: 70B in 4 bits
    is tight on two cards of 24 GB, and no on one of 40.
    """
    model = find("Llama-3.1-70B")
    pair = judge(model, Serve("q4_k_m", 8192), "RTX-3090", 2)
    assert (pair.answer, str(pair.layout)) == (TIGHT, "TP1 x PP2")
    assert pair.usable_gib == pytest.approx(22.8)
    assert judge(model, Serve("q4_k_m", 2048), "A100", 1).answer == NO
    assert judge(model, Serve("awq", 8192), "A100", 2).usable_gib == pytest.approx(36.0)
    assert [
        str(each)
        for each in parallelism.layouts(
            find("Llama-3.1-8B"), "RTX-3090", 2, split=parallelism.LAYERS
        )
    ] == ["TP1 x PP2"]


def test_nodes_are_joined_by_stages_never_by_tensor_parallelism() -> None:
    """405B in bf16 on two nodes of eight is TP8 inside each, PP2 across."""
    found = judge(find("Llama-3.1-405B"), Serve("bf16", 8192), "H100", 8, nodes=2)
    assert (found.answer, str(found.layout)) == (FITS, "TP8 x PP2")


def test_full_training_of_8b_needs_splitting_and_adapters_do_not() -> None:
    """16 bytes for each parameter do not fit one card of 80 GB; LoRA and QLoRA do, the latter on
    24.
    """
    model = find("Llama-3.1-8B")
    assert judge(model, Train("full"), "H100", 1).answer == NO
    split = judge(model, Train("full"), "H100", 8)
    assert (split.answer, split.reason) == (FITS, "split over 8 (FSDP, ZeRO-3)")
    assert judge(model, Train("lora"), "A100", 1).answer == FITS
    assert judge(model, Train("qlora"), "RTX-4090", 1).answer == FITS


@pytest.mark.parametrize(("recompute", "measured"), [(True, 31.9), (False, 48.4)])
def test_training_memory_is_what_an_h100_took(recompute, measured) -> None:
    """Peak GiB of PyTorch 2.11 for a Llama 3.2 1B, 4 x 2048 tokens, bf16 autocast with AdamW on an
    H100 (2026-11-28): within 10 %.
    """
    need = memory.training(
        find("meta-llama/Llama-3.2-1B"), "full", sequence=2048, batch=4, recompute=recompute
    )
    assert need.total - need.overhead == pytest.approx(measured, rel=0.10)


def test_serving_memory_is_what_an_h100_took() -> None:
    """Llama 3.1 8B in bf16 on an H100 (2026-11-28): 14.96 GiB of weights, 2.03 GiB of cache for 4 x
    4096 tokens.
    """
    need = memory.serving(find("meta-llama/Llama-3.1-8B"), "bf16", context=4096, concurrency=4)
    assert need.weights == pytest.approx(14.96, rel=0.01)
    assert need.cache == pytest.approx(2.03, rel=0.02)


def test_recomputing_saves_memory_and_costs_time() -> None:
    """Four forward passes instead of three, for a fraction of the activations."""
    model = find("Llama-3.1-8B")
    kept = memory.training(model, "lora", sequence=4096, batch=4, recompute=False)
    recomputed = memory.training(model, "lora", sequence=4096, batch=4, recompute=True)
    assert recomputed.activations < kept.activations / 3
    assert throughput.training_flops(model, 1e9, recompute=True) == pytest.approx(
        throughput.training_flops(model, 1e9, recompute=False) * 4 / 3
    )


def test_training_flops_are_six_per_parameter_and_token() -> None:
    """The rule of thumb, plus attention: within 15 % for a 7B model at 4k."""
    model = find("Llama-2-7b")
    assert throughput.training_flops(model, 1.0, recompute=False) == pytest.approx(
        6 * model.parameters, rel=0.15
    )


def test_training_time_of_llama_2_7b_is_near_the_published_one() -> None:
    """Two trillion tokens took 184,320 hours of A100 80 GB (Llama 2 report, 2023); the estimate
    comes within 25 %.
    """
    flops = throughput.training_flops(find("Llama-2-7b"), 2e12, sequence=4096, recompute=False)
    hours = present(throughput.training_hours(flops, "A100-80GB", 8))
    assert hours * 8 == pytest.approx(184_320, rel=0.25)


def test_hours_scale_between_the_ratios_of_speed_and_bandwidth() -> None:
    """From 5 h on a T4 an A100 takes about 1 h: the seed's claim of six times is within reach, ten
    is not.
    """
    least, most = present(throughput.scaled_hours(5, "T4", "A100"))
    assert 0.8 < least < most < 1.1


def test_serving_bound_falls_with_a_longer_cache_and_rises_with_bandwidth() -> None:
    """The roofline reads weights once for a step and each sequence's cache."""
    model = find("Llama-3.1-8B")
    one = present(throughput.serving_bound(model, "L4", dtype="bf16", context=2048, concurrency=1))
    assert one.limited_by == "memory bandwidth"
    assert one.tokens_per_s < 300e9 / 16e9 + 1
    assert (
        present(
            throughput.serving_bound(model, "L4", dtype="bf16", context=32768, concurrency=1)
        ).tokens_per_s
        < one.tokens_per_s
    )
    assert (
        present(
            throughput.serving_bound(model, "H100", dtype="bf16", context=2048, concurrency=1)
        ).tokens_per_s
        > 10 * one.tokens_per_s
    )


def test_one_sequence_gains_nothing_from_stages() -> None:
    """A pipeline of four is no faster than one stage for a single sequence."""
    model = find("Llama-3.1-70B")
    one = present(
        throughput.serving_bound(model, "H100", dtype="bf16", context=2048, concurrency=1, tensor=2)
    )
    four = present(
        throughput.serving_bound(
            model, "H100", dtype="bf16", context=2048, concurrency=1, tensor=2, pipeline=4
        )
    )
    assert one.tokens_per_s == four.tokens_per_s


def test_sizes_puts_what_fits_first_and_the_cheapest_of_it_first() -> None:
    """Every row that is sold gets a verdict; those that fit lead, by price."""
    found = gpus.sizes(find("Llama-3.1-8B"), Serve("bf16", 8192), gpus.sold())
    answers = [each.verdict.answer for each in found]
    assert answers == sorted(answers, key=[FITS, TIGHT, NO, gpus.UNKNOWN].index)
    prices = [present(each.sold).micro_usd for each in found if each.verdict.answer == FITS]
    assert prices == sorted(prices)
    assert prices


def test_a_config_json_is_read_and_a_broken_one_is_told_by_its_key(tmp_path) -> None:
    """A file with the keys of a language model is a model; one without is refused naming the first
    that is missing.
    """
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TABLE["models"][2]["config"]))
    assert (
        find(str(path)).parameters
        == find(str(tmp_path)).parameters
        == find("Llama-3.1-8B").parameters
    )
    for content, told in (
        ("{}", "num_hidden_layers"),
        ("[]", "a mapping"),
        ("not json", "readable config.json"),
        ('{"num_hidden_layers": -1}', "positive whole number"),
        (
            (
                '{"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 3,'
                ' "num_key_value_heads": 2, "vocab_size": 9}'
            ),
            "divide",
        ),
    ):
        path.write_text(content)
        with pytest.raises(SpecError, match=told):
            find(str(path))


@pytest.mark.parametrize("name", ["llama 70b", "", "   ", "70x", "-3b", "a/b/c", "../etc"])
def test_an_unknown_model_is_one_clear_message(name) -> None:
    """What is no model is refused with what would be one; nobody is asked."""
    with pytest.raises(SpecError, match=r"config.json"):
        find(name)


def test_a_hub_that_cannot_be_reached_says_what_to_do(monkeypatch) -> None:
    """Without the hub the way out is the file or a size."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(GpusError, match=r"path of its config.json"):
        find("somebody/something")


def test_a_size_alone_says_that_the_shape_is_a_guess() -> None:
    """`7b` has the shape of the nearest bundled model, and says so."""
    assert find("7b").estimated
    assert find("7b").parameters == 7_000_000_000


def run(capsys, *words):
    code = main.main(["size", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_answers_serving_training_and_measured_hours(capsys, monkeypatch) -> None:
    """The three forms of the question are answered, and fit a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    for words in (
        (
            "meta-llama/Llama-3.1-70B",
            "--serve",
            "--dtype",
            "bf16",
            "--context",
            "32k",
            "--concurrency",
            "16",
        ),
        ("7b", "--train", "lora", "--tokens", "1B", "--budget", "200"),
        ("7b", "--train", "full", "--tokens", "1B", "--budget", "200", "--all"),
        ("--hours", "T4=5,A10G=1.7,A100=0.8"),
        ("--models",),
    ):
        code, out, err = run(capsys, *words)
        assert (code, err) == (0, ""), words
        assert max(map(len, out.splitlines())) <= 80, words


def test_the_command_says_over_budget_and_gives_json(capsys) -> None:
    """What costs more than the budget is marked, in text and in JSON."""
    _, out, _ = run(capsys, "7b", "--train", "lora", "--tokens", "1B", "--budget", "100")
    assert "! over the budget of $100" in out
    _, out, _ = run(capsys, "7b", "--train", "lora", "--tokens", "1B", "--budget", "100", "--json")
    answer = json.loads(out)
    assert {
        row["within_budget"]
        for row in answer["candidates"]
        if row["answer"] == "fits" and row["job_usd"]
    } == {True, False}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("7b", "--dtype", "fp3"), "one of fp32"),
        (("7b", "--train", "full", "--dtype", "fp8"), "qlora"),
        (("7b", "--context", "many"), "32k"),
        (("7b", "--on", "H1000:2"), "a GPU that is known"),
        (("--hours", "T4"), "GPU=HOURS"),
        (("--hours", "T4=-1"), "GPU=HOURS"),
        (("--hours", "XX=1"), "a GPU that is known"),
        ((), "a model such as"),
        (("7b", "--provider", "nowhere"), "bundled prices"),
    ],
)
def test_a_wrong_question_is_one_clear_message(capsys, words, told) -> None:
    """Exit code 2, what was wanted on stderr, nothing on stdout."""
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert told in err


def test_nothing_that_holds_it_is_exit_code_one(capsys) -> None:
    """405B in bf16 on one T4 is answered, with 1."""
    assert run(capsys, "Llama-3.1-405B", "--on", "T4:1", "--dtype", "fp16")[0] == 1


def test_sizing_imports_nothing_heavy() -> None:
    """`gpus size` starts without pydantic, httpx or a cloud's SDK."""
    script = (
        "import sys; from providers.cli import main; main.main(['size', '7b', '--json']);"
        " sys.exit(bool({'pydantic', 'httpx', 'boto3', 'grpc'} & set(sys.modules)))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", script], stdout=subprocess.DEVNULL, check=False
        ).returncode
        == 0
    )


def test_a_measured_card_without_a_price_names_the_one_beside_it() -> None:
    """Modal has no A10G: its A10 is named, and not taken in its place."""
    offers = gpus.sold(providers=("modal",))
    text = size_report.measured_text(gpus.measured({"T4": 5.0, "A10G": 1.7}, offers), offers)
    assert "no price  A10 sold" in text and "cheapest run" not in text
