"""Documents 000 (GPUs on Modal) and 001 (which of them for a small model): every command and table
row, with its verdict.
"""

from providers.adapters.modal import CAPABILITIES, gpu
from providers.adapters.modal.gpu import LONG_WAIT_ABOVE, SOLD
from providers.catalog.hardware import achieved_tflops, hardware
from providers.workloads.sizing import gpus, memory, throughput
from providers.workloads.sizing.architecture import find
from providers.workloads.sizing.gpus import Serve
from tests.unit.seeds_judge import (
    NO_FIT,
    RIGHT,
    STALE,
    WRONG,
    counts,
    documented,
    fits,
    holds,
    line,
    modal_runs,
    priced,
    ratio,
)

MODAL, CATALOG, SPEEDS, LAUNCHER, SIZING = (
    "Modal adapter",
    "catalog",
    "hardware table",
    "launcher",
    "sizing",
)
EIGHT = ("B200", "H200", "H100", "A100", "A100-80GB", "L4", "T4", "L40S")
PAGE = "modal.com/docs/guide, 2026-09"
TABLE_HOURS = {"T4": 5.0, "A10": 1.7, "A100": 0.8}
"""The second document's hours for 100 epochs. Its A10G is Modal's old name of the A10."""


def read(text):
    """(card, count) that a GPU string of Modal means here."""
    return gpu.read(text)


def hourly(name):
    """Modal's dollars per hour of one card."""
    return (
        next(
            each.micro_usd
            for each in gpus.sold(providers=("modal",))
            if each.gpu_type == name and each.gpu_count == 1
        )
        / 1e6
    )


def per_million(name, concurrency=1):
    """The least dollars for a million tokens of an 8B model on one card of Modal's."""
    found = gpus.sizes(
        find("Llama-3.1-8B"), Serve("bf16", 4096, concurrency), gpus.sold(providers=("modal",))
    )
    return (
        next(
            each.per_million_micro_usd
            for each in found
            if each.verdict.gpu_type == name and each.verdict.gpu_count == 1
        )
        / 1e6
    )


def own_table(gpu_type, claimed):
    """The claimed multiple of a T4 against the sheets: (holds, reason). It holds between the ratios
    of fp16 and bandwidth, or a quarter beyond.
    """
    ratios = sorted((ratio(gpu_type, "fp16_tflops"), ratio(gpu_type, "bandwidth_tb_s")))
    return (
        0.75 * ratios[0] <= claimed <= 1.25 * ratios[1],
        f"by the sheets {ratios[0]:.1f} to {ratios[1]:.1f} times a T4 (fp16, bandwidth)",
    )


def hours_hold(gpu_type, claimed):
    """Whether hours follow from 5 h on a T4 by the sheets, a quarter either way; and the hours that
    do.
    """
    least, most = throughput.scaled_hours(5, "T4", gpu_type, "fp16")
    return (
        0.75 * least <= claimed <= 1.25 * most,
        f"5 h on a T4 are {least:.1f} to {most:.1f} h on it by the sheets",
    )


NAMES = [
    holds(
        "000",
        f"`{text}` is a GPU that Modal sells",
        RIGHT,
        lambda text=text: read(text)[0] in SOLD,
        f"known; sent as `{sent}`",
        MODAL,
    )
    for text, sent in [
        ("T4", "T4:1"),
        ("L4", "L4:1"),
        ("A10", "A10:1"),
        ("A100", "A100-40GB:1"),
        ("A100-40GB", "A100-40GB:1"),
        ("A100-80GB", "A100-80GB:1"),
        ("L40S", "L40S:1"),
        ("H100", "H100:1"),
        ("H100!", "H100!:1"),
        ("H200", "H200:1"),
        ("B200", "B200:1"),
    ]
]

# fmt: off
FIRST = [
    holds("000", 'A function with `gpu="A100"` runs on an A100', RIGHT, lambda: read("A100") == ("A100", 1) and gpu.text("A100", 1) == "A100-40GB:1", "yes; a bare A100 may come with 80 GB, so we write the size out", MODAL),
    *NAMES,
    holds("000", "This list of Modal's GPUs is whole", STALE, lambda: not {"B300", "RTX-PRO-6000"} & set(SOLD), "B300 and RTX PRO 6000 came later", MODAL),
    holds("000", "T4 is the entry level", RIGHT, lambda: hourly("T4") == min(hourly(name) for name in SOLD if name != "A10G"), "the cheapest hour at Modal", CATALOG),
    holds("000", "L4 balances speed and cost", WRONG, lambda: per_million("L4") <= per_million("A10"), lambda: f"a million tokens of an 8B model cost at least ${per_million('L4'):.2f} on it, ${per_million('A10'):.2f} on an A10: 0.3 TB/s is less than a T4 has", SIZING),
    holds("000", "A10 comes in up to 4, 96 GB in all", RIGHT, lambda: counts("modal", "A10") == {1, 2, 3, 4} and 4 * hardware("A10").memory_gib == 96, "1 to 4 of 24 GB", CATALOG),
    holds("000", "B200, H200, H100, A100, L4, T4 and L40S come in up to 8", RIGHT, lambda: all(max(counts("modal", name)) == 8 for name in EIGHT), "each is listed in 1 to 8", CATALOG),
    holds("000", "Eight of the largest have 1,536 GB", NO_FIT, lambda: 8 * hardware("B200").memory_gib == 1536, "192 GB is on the B200's chip, 180 can be used: 1,440", SPEEDS),
    holds("000", "A100 has 40 or 80 GB", RIGHT, lambda: [hardware(name).memory_gib for name in ("A100", "A100-80GB")] == [40, 80], "two cards", SPEEDS),
    holds("000", "L40S has 48 GB", RIGHT, lambda: hardware("L40S").memory_gib == 48, "48", SPEEDS),
    holds("000", "H100 is the top of Hopper", STALE, lambda: hardware("H100").memory_gib >= hardware("H200").memory_gib, "the H200 is Hopper too, with more and faster memory", SPEEDS),
    holds("000", "H200 is a better Hopper with more memory", RIGHT, lambda: hardware("H200").architecture == hardware("H100").architecture == "Hopper" and hardware("H200").memory_gib > 80, "141 GB against 80, the same arithmetic", SPEEDS),
    holds("000", "B200 is the latest Blackwell", STALE, lambda: "B300" not in SOLD, "B300 is sold since", MODAL),
    holds("000", '`gpu="H100:8"` gives eight', RIGHT, lambda: read("H100:8") == ("H100", 8) and gpu.text("H100", 8) == "H100:8", "sent as it stands", MODAL),
    fits("000", "Eight H100 run Llama 405B, as its name says (16 bit)", NO_FIT, "Llama-3.1-405B", "bf16", "H100", 8),
    fits("000", "Eight H100 run Llama 405B in fp8", RIGHT, "Llama-3.1-405B", "fp8", "H100", 8),
    holds("000", "More than 2 GPUs may wait longer", RIGHT, lambda: LONG_WAIT_ABOVE == 2 and any("longer above 2 GPUs" in note for note in gpu.notes("A100-80GB", 4)), "the plan says so from 3 on", MODAL),
    holds("000", "For inference start with an L40S: best cost for its speed", WRONG, lambda: per_million("L40S") <= min(map(per_million, ("A100", "H100", "B200"))), lambda: f"a million tokens of an 8B model cost at least ${per_million('L40S'):.2f} on it, ${per_million('H100'):.2f} on an H100, ${per_million('B200'):.2f} on a B200: generation is bound by bandwidth", SIZING),
    fits("000", "An L40S suits a LLaMA model (8B, 16 bit)", RIGHT, "Llama-3.1-8B", "bf16", "L40S", 1),
    fits("000", "An L40S suits a LLaMA model (70B, 16 bit)", NO_FIT, "Llama-3.1-70B", "bf16", "L40S", 1),
    holds("000", "For training take an H100: high arithmetic", RIGHT, lambda: achieved_tflops("H100") > 2 * achieved_tflops("L40S"), lambda: f"{achieved_tflops('H100'):.0f} TFLOPS achievable in bf16, {achieved_tflops('L40S'):.0f} on an L40S", SPEEDS),
    holds("000", "For training take an A100: high arithmetic", STALE, lambda: achieved_tflops("A100") > achieved_tflops("L40S"), lambda: f"{achieved_tflops('A100'):.0f} TFLOPS achievable in bf16, {achieved_tflops('L40S'):.0f} on an L40S; its memory is faster", SPEEDS),
    holds("000", "For work short of memory take an H200 or an A100 of 80 GB", RIGHT, lambda: hardware("H200").memory_gib > hardware("A100-80GB").memory_gib > hardware("L40S").memory_gib, "141 and 80 GB; B200 and B300 have more still", SPEEDS),
    fits("000", "Eight B200 run DeepSeek", RIGHT, "deepseek-ai/DeepSeek-V3", "fp8", "B200", 8),
    holds("000", '`gpu="B200:8"` is the strongest there is', STALE, lambda: "B300" not in SOLD, "B300 is sold since", MODAL),
    holds("000", "Modal may raise an H100 to an H200 at no charge", RIGHT, lambda: SOLD["H100"].upgrade == "H200" and gpu.delivered_as_ordered("H100", "H200", exact=False), "an H200 counts as delivered as ordered", MODAL),
    holds("000", "H200: 141 GB and 4.8 TB/s against 80 GB and 3.35 TB/s", RIGHT, lambda: [(hardware(name).memory_gib, hardware(name).bandwidth_tb_s) for name in ("H200", "H100")] == [(141, 4.8), (80, 3.35)], "as on the sheets", SPEEDS),
    holds("000", "`H100!` keeps the H100", RIGHT, lambda: gpu.text("H100", 1, exact=True) == "H100!:1" and not gpu.delivered_as_ordered("H100", "H200", exact=True), "our spelling is the same", MODAL),
    fits("000", "One A100 (40 GB) runs Qwen 7B", RIGHT, "Qwen2-7B", "bf16", "A100", 1),
    fits("000", "One A100-80GB runs Llama 70B, as its name says (16 bit)", NO_FIT, "Llama-3.1-70B", "bf16", "A100-80GB", 1),
    fits("000", "One A100-80GB runs Llama 70B in 4 bits", RIGHT, "Llama-3.1-70B", "awq", "A100-80GB", 1),
    holds("000", '`gpu=["H100", "A100-40GB:2"]` is a fallback in this order', RIGHT, lambda: [read(text) for text in ("H100", "A100-40GB:2")] == [("H100", 1), ("A100", 2)], "here: `gpu: H100` with `fallback: [{gpu: A100:2}]`", MODAL),
    holds("000", "Two A100 of 40 GB stand in for one of 80 GB", NO_FIT, lambda: memory.serving(find("Llama-3.1-8B"), "bf16", context=8192, concurrency=1, tensor=2).total * 2 <= memory.serving(find("Llama-3.1-8B"), "bf16", context=8192, concurrency=1).total, "only a model that is split over both; overhead counts twice, so two halves hold less than one whole", SIZING),
    holds("000", "Several GPUs of one machine are supported; several machines are a closed beta", STALE, lambda: CAPABILITIES.max_nodes != 1, f"`modal.clustered` is public in client 1.6.4 ({PAGE}); we buy one container at a time there", MODAL),
    holds("000", "A framework that runs the script again is started as a process of its own", RIGHT, lambda: line("lightning", count=2).startswith("python3 train.py"), "our launcher always does", LAUNCHER),
    documented("000", "Inside a Modal function Lightning's strategy is `ddp_spawn` or `ddp_notebook`", RIGHT, "plain `ddp` runs the entry script again, which in a function is Modal's; with the `lightning` launcher the script is a process and plain `ddp` works", "lightning.ai/docs and modal.com/docs/guide/gpu, 2026-09"),
    holds("000", "Small batches are bound by memory", RIGHT, lambda: all(throughput.serving_bound(find("Llama-3.1-8B"), name, dtype="fp16", context=2048, concurrency=1).limited_by == "memory bandwidth" for name in EIGHT), "the roofline of one sequence, on every card", SIZING),
    holds("000", "Newer GPUs gain more arithmetic than bandwidth", RIGHT, lambda: ratio("H100", "fp16_tflops", "A100") > ratio("H100", "bandwidth_tb_s", "A100"), lambda: f"H100 over A100: {ratio('H100', 'fp16_tflops', 'A100'):.1f} against {ratio('H100', 'bandwidth_tb_s', 'A100'):.1f}", SPEEDS),
    holds("000", "So for memory-bound work a newer card may not be worth its price", NO_FIT, lambda: per_million("A100") < per_million("B200"), lambda: f"not at these prices: one sequence of an 8B model costs at least ${per_million('A100'):.2f} per million tokens on an A100, ${per_million('B200'):.2f} on a B200, if kept busy", SIZING),
    holds("000", "Batch wherever possible", RIGHT, lambda: per_million("A100", 16) < per_million("A100") / 8, lambda: f"16 sequences at once: ${per_million('A100', 16):.2f} per million tokens against ${per_million('A100'):.2f}", SIZING),
    holds("000", "Consider an L40S before an H100 or a B200", NO_FIT, lambda: per_million("L40S") < per_million("H100"), "the cheaper hour, the dearer token; it pays only where the card would idle", SIZING),
]


# fmt: on
def table_row(name, sold, gib, times, dollars, speed_verdict, price_verdict):
    """The three figures of one row of the second document's table."""
    return [
        holds(
            "001",
            f"{name} has {gib} GB",
            RIGHT,
            lambda: hardware(sold).memory_gib == gib,
            f"{gib} GB",
            SPEEDS,
        ),
        holds(
            "001",
            f"{name} is {times} times a T4",
            speed_verdict,
            lambda: own_table(sold, times)[0],
            lambda: own_table(sold, times)[1],
            SPEEDS,
        ),
        priced(
            "001",
            f"{name} costs about ${dollars:.2f} an hour",
            price_verdict,
            sold,
            1,
            dollars,
            providers=("modal",),
        ),
    ]


# fmt: off
SECOND = [
    *table_row("T4", "T4", 16, 1, 0.60, RIGHT, RIGHT),
    *table_row("A10G", "A10", 24, 3, 1.20, NO_FIT, RIGHT),
    *table_row("A100-40GB", "A100", 40, 6, 4.00, RIGHT, STALE),
    *table_row("A100-80GB", "A100-80GB", 80, 6, 5.00, RIGHT, STALE),
    *table_row("H100", "H100", 80, 10, 8.00, RIGHT, STALE),
    holds("001", "A10G is what Modal calls it", STALE, lambda: gpu.text("A10G", 1) == "A10G:1", "an old name; we send `A10:1`, which is another card than AWS's A10G", MODAL),
    holds("001", "On AWS's A10G, 3 times a T4", NO_FIT, lambda: own_table("A10G", 3)[0], lambda: own_table("A10G", 3)[1], SPEEDS),
    holds("001", "H100 is the latest and strongest", STALE, lambda: hardware("H100").bf16_tflops >= hardware("B200").bf16_tflops, "B200 and B300 came since", SPEEDS),
    holds("001", "11.5 M parameters take about 2 GB", WRONG, lambda: 1.0 <= 11.5e6 * memory.FULL_BYTES / memory.GIB <= 3.0, lambda: f"{11.5e6 * memory.FULL_BYTES / memory.GIB:.2f} GiB at 16 bytes each, optimizer and gradients included; the rest of what is seen is CUDA's own", SIZING),
    holds("001", "About 6 GB in all needs a card of 16 GB or more", WRONG, lambda: all(size_gib < 6 for size_gib in map(memory.usable_gib, ("P4",))), lambda: f"8 GB would do ({memory.usable_gib('P4'):.1f} GiB usable); Modal sells none below 16", SIZING),
    holds("001", "T4: 3 minutes an epoch are 5 hours for 100", RIGHT, lambda: 100 * 3 / 60 == 5, "arithmetic; the base of the other rows", SIZING),
    holds("001", "A10G: 1 minute an epoch, 1.7 hours for 100", NO_FIT, lambda: hours_hold("A10", 1.7)[0], lambda: hours_hold("A10", 1.7)[1], SIZING),
    holds("001", "A100: 30 seconds an epoch, 0.8 hours for 100", RIGHT, lambda: hours_hold("A100", 0.8)[0], lambda: hours_hold("A100", 0.8)[1], SIZING),
    priced("001", "100 epochs on a T4 cost $3.00", RIGHT, "T4", 1, 3.00, hours=5, providers=("modal",)),
    priced("001", "100 epochs on an A10G cost about $2.00", RIGHT, "A10", 1, 2.00, hours=1.7, providers=("modal",)),
    priced("001", "100 epochs on an A100 cost $3.20", STALE, "A100", 1, 3.20, hours=0.8, providers=("modal",)),
    holds("001", "The A10G is the best value", STALE, lambda: modal_runs(TABLE_HOURS)[0] == "A10", lambda: f"by its own hours at today's prices the cheapest run is the {modal_runs(TABLE_HOURS)[0]}'s: `gpus size --hours`", CATALOG),
    holds("001", "24 GB are enough for this model, and for batches of 64", RIGHT, lambda: memory.usable_gib("A10") > 2 + 2 * 4, lambda: f"by its own figures 2 + 8 GB of {memory.usable_gib('A10'):.1f} GiB", SIZING),
    holds("001", "A T4's 16 GB are barely enough", WRONG, lambda: memory.usable_gib("T4") < 6 * 1.25, lambda: f"6 of {memory.usable_gib('T4'):.1f} GiB by its own figures", SIZING),
    holds("001", "A T4 needs batches of 32 or less", WRONG, lambda: memory.usable_gib("T4") < 2 + 2 * 4, lambda: f"64 take 2 + 8 GB by its own figures, {memory.usable_gib('T4'):.1f} GiB are usable", SIZING),
    holds("001", "A T4 is the lowest cost", NO_FIT, lambda: modal_runs(TABLE_HOURS)[0] == "T4", "the cheapest hour, the dearest run of the three", CATALOG),
    holds("001", "An A100 is the fastest", WRONG, lambda: hardware("A100").fp16_tflops >= hardware("H100").fp16_tflops, "its own table says that the H100 is faster", SPEEDS),
    holds("001", "An A100 is dear for this project", STALE, lambda: modal_runs(TABLE_HOURS)[-1] == "A100", "the cheapest run of the three by now", CATALOG),
    holds("001", "Quick test: T4, 10 epochs in a time limit of 30 minutes", NO_FIT, lambda: 10 * 3 * 60 * 1.1 <= 1800, "10 x 3 minutes are 30: nothing is left for the start", SIZING),
    holds("001", "Full training: A10G, 100 epochs in 4 hours", RIGHT, lambda: 1.1 * throughput.scaled_hours(5, "T4", "A10", "fp16")[1] <= 4, lambda: f"{throughput.scaled_hours(5, 'T4', 'A10', 'fp16')[1]:.1f} h by the sheets", SIZING),
    holds("001", "Large experiment: A100, 200 epochs in 2 hours", RIGHT, lambda: 1.1 * 200 * 30 <= 7200, lambda: f"100 minutes by its own figure; {2 * throughput.scaled_hours(5, 'T4', 'A100', 'fp16')[1]:.1f} h by the sheets, so leave more", SIZING),
    holds("001", "Very large models: A100-80GB or H100, 8 hours", RIGHT, lambda: {"A100-80GB", "H100"} <= set(SOLD) and CAPABILITIES.max_ttl_s >= 8 * 3600, "both are sold, and a function may run 24 h", MODAL),
    holds("001", '`gpu="A10G"`, `timeout=3600 * 4`', STALE, lambda: gpu.text("A10G", 1) == "A10G:1", "taken, as another name of A10; the limit is within 24 h", MODAL),
    holds("001", '`gpu="T4"`, `timeout=3600 * 6`', RIGHT, lambda: read("T4") == ("T4", 1) and 5 * 1.1 <= 6, "5 h and a tenth more", MODAL),
    holds("001", '`gpu="A100"` with 40 GB, `timeout=3600 * 2`', RIGHT, lambda: read("A100") == ("A100", 1) and 1.1 * throughput.scaled_hours(5, "T4", "A100", "fp16")[1] <= 2, "about 1 h by the sheets", MODAL),
    documented("001", "`modal run FILE --epochs N`", RIGHT, "parameters of the local entry point become flags; here: `gpus run --on T4:1 -- COMMAND`", "modal.com/docs/reference/cli/run, 2026-09"),
    documented("001", "Three `modal run ... &` train three configurations at once", RIGHT, "three apps, each billed for itself; each ends with its client, unless it was started with `--detach`", "modal.com/docs/guide/apps, 2026-09"),
    holds("001", "Debug on a T4, then train on the larger card", RIGHT, lambda: hourly("T4") < hourly("A10") < hourly("A100"), "the cheapest hour for what does not need speed", CATALOG),
    priced("001", "Development on a T4: 5 h x $0.60 = $3.00", RIGHT, "T4", 1, 3.00, hours=5, providers=("modal",)),
    priced("001", "Development on an A10G: 2 h x $1.20 = $2.40", RIGHT, "A10", 1, 2.40, hours=2, providers=("modal",)),
    priced("001", "Production on a T4: 5 h x $0.60 = $3.00", RIGHT, "T4", 1, 3.00, hours=5, providers=("modal",)),
    priced("001", "Production on an A10G: 1.7 h x $1.20 = $2.04", RIGHT, "A10", 1, 2.04, hours=1.7, providers=("modal",)),
    priced("001", "Production on an A100: 0.8 h x $4.00 = $3.20", STALE, "A100", 1, 3.20, hours=0.8, providers=("modal",)),
    priced("001", "Five runs on a T4: 25 h, $15.00", RIGHT, "T4", 1, 15.00, hours=25, providers=("modal",)),
    priced("001", "Five runs on an A10G: 8.5 h, $10.20", RIGHT, "A10", 1, 10.20, hours=8.5, providers=("modal",)),
    priced("001", "Five runs on an A100: 4 h, $16.00", STALE, "A100", 1, 16.00, hours=4, providers=("modal",)),
    holds("001", "Over several runs the A10G is the cheapest", STALE, lambda: modal_runs({gpu_type: 5 * hours for gpu_type, hours in TABLE_HOURS.items()})[0] == "A10", "the A100 is, at today's prices", CATALOG),
    holds("001", "Switch by editing `gpu=` to T4, A10G or A100", RIGHT, lambda: all(read(text)[0] in {*SOLD, "A10G"} for text in ("T4", "A10G", "A100")), "here: `gpu:` of the stack, or `fallback:`", MODAL),
]

# fmt: on
ROWS = [*FIRST, *SECOND]
