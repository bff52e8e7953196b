"""Document 003 (several GPUs on a marketplace): every command and table row, with its verdict."""

from providers.catalog.hardware import hardware
from providers.model.workload import Task, Workload
from providers.remote import driver
from providers.workloads.launch.compile import program
from providers.workloads.launch.recipes import RECIPES
from providers.workloads.sizing import memory, parallelism, throughput
from providers.workloads.sizing.architecture import find
from tests.unit.seeds_judge import (
    NO_FIT,
    RIGHT,
    STALE,
    WRONG,
    documented,
    fits,
    holds,
    line,
    priced,
    refused,
    serves,
    trains,
    unbound,
)

SPEEDS, LAUNCHER, SIZING, DRIVER, READ = (
    "hardware table",
    "launcher",
    "sizing",
    "driver check",
    "snippet, read as code",
)
LLAMA = find("Llama-3.1-70B")

DDP = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
"""
VISIBLE = """
os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
import torch
device = torch.device("cuda:0")
"""


def best(gpu, count):
    """The split that we would choose for a 70B model over so many."""
    return str(parallelism.layouts(LLAMA, gpu, count)[0])


def possible(gpu, count):
    """Every split of it."""
    return {str(layout) for layout in parallelism.layouts(LLAMA, gpu, count)}


def tokens(tensor, pipeline, concurrency):
    """The bound on tokens per second of a 70B model on H100s."""
    return throughput.serving_bound(
        LLAMA,
        "H100",
        dtype="bf16",
        context=2048,
        concurrency=concurrency,
        tensor=tensor,
        pipeline=pipeline,
    ).tokens_per_s


def speedup(gpu):
    """How much faster two of a card train than one."""
    return throughput.training_hours(1e18, gpu, 1) / throughput.training_hours(
        1e18, gpu, 2, fast=parallelism.fast_links(gpu)
    )


def pinned(launcher, gpus, **task):
    """The environment and the line of a service that is pinned to GPUs of a machine with two."""
    (process,) = program(
        Workload((Task(launcher=launcher, gpus=gpus, **task),)), "service", "A100-80GB", 2
    ).processes
    return dict(process.env), process.line


def pair():
    """ComfyUI on the first GPU and vLLM on the second, as the launchers start them."""
    first = Task(name="draw", launcher="comfyui", gpus=(0,))
    second = Task(
        name="chat", launcher="vllm", model="meta-llama/Llama-3.1-8B", dtype="bf16", gpus=(1,)
    )
    return [
        (dict(each.env).get("CUDA_VISIBLE_DEVICES"), each.port)
        for each in program(Workload((first, second)), "service", "A100-80GB", 2).processes
    ]


def has(launcher, *wanted, **task):
    """Whether the line of a launcher has every one of these pieces."""
    made = line(launcher, **task)
    return all(piece in made for piece in wanted)


# fmt: off
MODELS = [
    fits("003", "Up to 13B: one RTX 3090 (4 bits)", RIGHT, "13b", "q4_k_m", "RTX-3090", 1),
    holds("003", "Up to 13B: several GPUs are not needed", RIGHT, lambda: serves("13b", "q4_k_m", "RTX-3090", 1), "in 4 bits; in 16 bit 13B does not fit 24 GB", SIZING),
    fits("003", "30B: one RTX 4090 (4 bits)", RIGHT, "30b", "q4_k_m", "RTX-4090", 1),
    fits("003", "30B: two RTX 3090 (4 bits)", RIGHT, "30b", "q4_k_m", "RTX-3090", 2),
    fits("003", "30B: two RTX 3090 (16 bit)", NO_FIT, "30b", "fp16", "RTX-3090", 2),
    fits("003", "70B: one A100 of 40 GB (4 bits)", NO_FIT, "Llama-3.1-70B", "q4_k_m", "A100", 1, more="3 bits would"),
    fits("003", "70B: two RTX 4090 (4 bits)", RIGHT, "Llama-3.1-70B", "q4_k_m", "RTX-4090", 2, more="the same of two RTX 3090"),
    fits("003", "70B in FP16: two A100 of 80 GB", RIGHT, "Llama-3.1-70B", "fp16", "A100-80GB", 2),
    holds("003", "70B in FP16: no single GPU", STALE, lambda: not any(serves("Llama-3.1-70B", "fp16", card, 1) for card in ("H200", "B200", "B300")), "one B200 or B300 holds it by now", SIZING),
    fits("003", "100B and more: four A100 of 80 GB (100B, 16 bit)", RIGHT, "100b", "fp16", "A100-80GB", 4, more="140B is about the most"),
    fits("003", "100B and more: four A100 of 80 GB (180B, 16 bit)", NO_FIT, "180b", "fp16", "A100-80GB", 4),
    fits("003", "405B: eight A100 of 80 GB (16 bit)", NO_FIT, "Llama-3.1-405B", "bf16", "A100-80GB", 8),
    fits("003", "405B: eight A100 of 80 GB (fp8)", NO_FIT, "Llama-3.1-405B", "fp8", "A100-80GB", 8, more="int8 weights would fit, and vLLM can keep fp8 weights there and compute in 16 bit, which we do not plan on"),
    fits("003", "405B: eight A100 of 80 GB (4 bits)", RIGHT, "Llama-3.1-405B", "awq", "A100-80GB", 8),
]

IDEAS = [
    holds("003", "Tensor parallelism puts layers 1-20 on one GPU, 21-40 on the next", WRONG, lambda: parallelism.tensor_sizes(28, 4) != (1, 2, 4, 28), "that is pipeline parallelism. Tensor parallelism cuts every layer: 28 heads with 4 KV heads allow 1, 2, 4 and 28 slices, however many layers there are", SIZING),
    holds("003", "Tensor parallelism: low latency", RIGHT, lambda: tokens(4, 1, 1) > 2 * tokens(1, 4, 1), "one sequence is read by all GPUs at once", SIZING),
    holds("003", "Tensor parallelism needs fast links", RIGHT, lambda: best("A100-80GB", 8) == "TP8" and best("L40S", 8) == "TP2 x PP4", "over PCIe we keep it to pairs", SIZING),
    holds("003", "Pipeline parallelism gives each GPU other batches", WRONG, lambda: memory.serving(LLAMA, "bf16", context=2048, concurrency=1, pipeline=2).weights == memory.serving(LLAMA, "bf16", context=2048, concurrency=1).weights, "it gives each GPU other layers, so each holds half of the weights; other batches are data parallelism", SIZING),
    holds("003", "Pipeline parallelism: higher throughput, higher latency", RIGHT, lambda: tokens(2, 4, 1) == tokens(2, 1, 1) and tokens(2, 4, 64) > 2 * tokens(2, 1, 64), "one sequence gains nothing from stages, many do", SIZING),
    holds("003", "Data parallelism: the same model, other data", RIGHT, lambda: any(layout.replicas == 2 for layout in parallelism.layouts(find("Llama-3.1-8B"), "L40S", 2)), "copies side by side", SIZING),
    holds("003", "Data parallelism: each GPU needs the whole model", RIGHT, lambda: memory.training(LLAMA, "full", sequence=2048, batch=1, shards=1).weights == memory.weight_bytes(LLAMA, "bf16") / memory.GIB, "with plain DDP; FSDP and ZeRO split it", SIZING),
    holds("003", "Data parallelism scales linearly", NO_FIT, lambda: min(map(speedup, ("A100-80GB", "RTX-4090"))) > 1.8, lambda: f"nearly on NVLink; over PCIe two cards are taken as {speedup('RTX-4090'):.1f} times one when the gradients of a large model are exchanged", SIZING),
]

SERVERS = [
    holds("003", "vLLM: `python -m vllm.entrypoints.openai.api_server --model M --tensor-parallel-size 2 --host H`", RIGHT, lambda: has("vllm", "--tensor-parallel-size 2", "--host "), "the flags are ours; `vllm serve M` is the newer way to start it", LAUNCHER),
    fits("003", "vLLM: 70B on two A100 of 80 GB, the command as it stands (131,072 tokens of context)", NO_FIT, "Llama-3.1-70B", "bf16", "A100-80GB", 2, context=131072, more="`--max-model-len` is missing"),
    fits("003", "vLLM: 70B on four A100 of 80 GB, the command as it stands", RIGHT, "Llama-3.1-70B", "bf16", "A100-80GB", 4, context=131072),
    fits("003", "vLLM: 405B on eight A100 of 80 GB, the command as it stands", NO_FIT, "Llama-3.1-405B", "bf16", "A100-80GB", 8, context=131072),
    holds("003", "`--host 0.0.0.0` without a key", WRONG, lambda: "127.0.0.1" not in line("vllm"), "whoever reaches the port may use it; we listen at 127.0.0.1 unless the service is exposed, and ask for a key unless that is `public`", LAUNCHER),
    documented("003", "Ollama uses all GPUs by itself: `ollama run llama3.1:70b`", RIGHT, "it spreads a model over as many as it needs", "docs.ollama.com/gpu, 2026-11"),
    fits("003", "Ollama: llama3.1:70b (4 bits) on two cards of 24 GB", RIGHT, "Llama-3.1-70B", "q4_k_m", "RTX-3090", 2, context=4096),
    holds("003", "`CUDA_VISIBLE_DEVICES=0,1 ollama run MODEL` limits it to two GPUs", WRONG, lambda: "ollama run" in pinned("ollama", (0, 1), model="llama3.1:70b")[1], "`ollama run` is a client: the variable must stand with `ollama serve`, where our launcher puts it", LAUNCHER),
    holds("003", "TGI: `docker run ... text-generation-inference --model-id M --num-shard 2`", RIGHT, lambda: has("tgi", "--num-shard 2", "--model-id ") and RECIPES["tgi"].image.startswith("ghcr.io/huggingface/text-generation-inference"), "the flags are ours; docker wants `--shm-size 1g` besides, for the exchange between shards", LAUNCHER),
    holds("003", "llama.cpp: `-m F -ngl 999 --split-mode layer --tensor-split 0.5,0.5`", RIGHT, lambda: has("llama.cpp", "-m f.gguf", "-ngl 999", "--split-mode layer", "--tensor-split 1,1", model="f.gguf"), "ours says 1,1, which is the same share", LAUNCHER),
    documented("003", "ComfyUI: Load Checkpoint has a device parameter", WRONG, "not the node that ships with it; one process for each GPU: `services` with `gpus: [N]`", "docs.comfy.org, 2026-11"),
    documented("003", "ComfyUI: the VAE on another GPU than the model", WRONG, "only with nodes of third parties; ComfyUI itself draws on one GPU (`--cuda-device`)", "docs.comfy.org, 2026-11"),
    holds("003", "WebUI: `--device-id 0`", RIGHT, lambda: not refused("sd-webui", args=(("device-id", 0),)), "one GPU's number", LAUNCHER),
    holds("003", "WebUI: `--lowvram --device-id 0,1` uses two GPUs", WRONG, lambda: not refused("sd-webui", args=(("lowvram", True), ("device-id", "0,1"))), "it takes one number, and the WebUI draws on one GPU: refused", LAUNCHER),
    documented("003", "FLUX: `enable_model_cpu_offload()` spreads the pipeline over GPUs", WRONG, 'it moves parts between the CPU and one GPU; `device_map="balanced"` spreads', "huggingface.co/docs/diffusers, 2026-11"),
    documented("003", 'FLUX: `pipe.to("cuda:0")` after it', WRONG, "one or the other: moved by hand after offloading, it warns and the saving is lost", "diffusers, DiffusionPipeline.to, 2026-11"),
    holds("003", "FLUX.1-dev in bf16, moved whole to one card of 24 GB", NO_FIT, lambda: memory.usable_gib("RTX-4090") > (12e9 + 4.8e9) * 2 / memory.GIB, lambda: f"12 B parameters and 4.8 B of text encoders are {(12e9 + 4.8e9) * 2 / memory.GIB:.1f} GiB, {memory.usable_gib('RTX-4090'):.1f} are usable", SIZING),
]

TRAINING = [
    holds("003", "The DDP snippet", WRONG, lambda: not unbound(DDP), lambda: f"it reads {', '.join(sorted(unbound(DDP)))} without importing it; the rest is right", READ),
    documented("003", "`LOCAL_RANK` is set by torchrun", RIGHT, "for each process; plain `python train.py` has none", "docs.pytorch.org/docs/stable/elastic/run.html, 2026-11"),
    holds("003", "`torchrun --nproc_per_node=2 train.py`", RIGHT, lambda: has("torchrun", "--nproc-per-node=2 train.py"), "both spellings are taken; ours adds `--standalone`", LAUNCHER),
    documented("003", "The DeepSpeed snippet: `deepspeed.initialize` gives four things", RIGHT, "engine, optimizer, data loader, scheduler; the optimizer is the script's own here, the config names none", "deepspeed.ai/getting-started, 2026-11"),
    holds("003", "ZeRO stage 2 saves memory", RIGHT, lambda: memory.training(LLAMA, "full", sequence=2048, batch=1, shards=8).optimizer < memory.training(LLAMA, "full", sequence=2048, batch=1).optimizer / 7, "gradients and optimizer are split; stage 3 splits the weights too", SIZING),
    holds("003", "`deepspeed --num_gpus=2 train.py`", RIGHT, lambda: line("deepspeed") == "deepspeed --num_gpus=2 train.py", "ours to the letter", LAUNCHER),
    documented("003", "The Accelerate snippet", RIGHT, "`prepare` takes model, optimizer and loader in this order", "huggingface.co/docs/accelerate, 2026-11"),
    holds("003", "`accelerate config`, then `accelerate launch train.py`", RIGHT, lambda: has("accelerate", "--num_processes=2", "--multi_gpu", "train.py"), "interactive; ours passes the same as flags, since nobody answers at a start", LAUNCHER),
    holds("003", "Kohya: `accelerate launch --num_processes=2 train_network.py ...` trains a LoRA", WRONG, lambda: not refused("kohya", command="train_network.py --train_data_dir=images --output_dir=output"), "`--network_module=networks.lora` is missing, and the script ends at once: refused", LAUNCHER),
]

CHOICE = [
    documented("003", "`nvidia-smi`, `nvidia-smi -L`", RIGHT, "every GPU, and its name and UUID", "nvidia-smi's own help, 2026-11"),
    holds("003", "`nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv`", RIGHT, lambda: "nvidia-smi --query-gpu=name,memory.total --format=csv" in driver.QUERY, "the query that our readiness check makes, with other fields", DRIVER),
    holds("003", "`export CUDA_VISIBLE_DEVICES=0,1`", RIGHT, lambda: pinned("vllm", (0, 1), model="meta-llama/Llama-3.1-8B")[0] == {"CUDA_VISIBLE_DEVICES": "0,1"}, "what `gpus: [0, 1]` of a service sets", LAUNCHER),
    holds("003", "`export CUDA_VISIBLE_DEVICES=2`", RIGHT, lambda: pinned("vllm", (1,), model="meta-llama/Llama-3.1-8B")[0] == {"CUDA_VISIBLE_DEVICES": "1"}, "one GPU by its number, as `gpus: [N]` sets it; inside it is then number 0", LAUNCHER),
    holds("003", "The same in Python", WRONG, lambda: not unbound(VISIBLE), lambda: f"a stray line stands where {', '.join(sorted(unbound(VISIBLE)))} should be imported; and it must run before CUDA is first used", READ),
    holds("003", "NVLink has 600 GB/s", NO_FIT, lambda: all(hardware(card).interconnect_gb_s == 600 for card in ("A100", "H100", "B200")), "the A100's; H100 and H200 have 900, B200 1,800, both ways summed", SPEEDS),
    holds("003", "PCIe 4.0 has 32 GB/s", RIGHT, lambda: hardware("L4").interconnect_gb_s / 2 == 32, "one way, where the NVLink figure is both ways", SPEEDS),
    holds("003", "PCIe 5.0 has 64 GB/s", RIGHT, lambda: hardware("RTX-5090").interconnect_gb_s / 2 == 64, "one way", SPEEDS),
    holds("003", "NVLink suits tensor parallelism", RIGHT, lambda: parallelism.fast_links("A100-80GB") and best("A100-80GB", 4) == "TP4", "as wide as the machine", SIZING),
    holds("003", "PCIe 4.0 suits data parallelism, PCIe 5.0 mixed loads", NO_FIT, lambda: best("L40S", 4) == "TP1 x 4 copies", "only for a model that fits one card; a larger one is split in stages", SIZING),
    documented("003", "`nvidia-smi nvlink --status`", RIGHT, "`nvidia-smi topo -m` shows who is joined to whom", "nvidia-smi's own help, 2026-11"),
    holds("003", "2 GPUs: TP 2, PP 1", RIGHT, lambda: best("A100-80GB", 2) == best("RTX-4090", 2) == "TP2", "ours too, on either link", SIZING),
    holds("003", "4 GPUs: TP 4, PP 1, with NVLink", RIGHT, lambda: best("A100-80GB", 4) == "TP4" != best("L40S", 4), "ours too, there alone", SIZING),
    holds("003", "4 GPUs: TP 2, PP 2, over PCIe", RIGHT, lambda: best("L40S", 4) == "TP2 x PP2", "ours too", SIZING),
    holds("003", "8 GPUs: TP 8, PP 1", RIGHT, lambda: best("H100", 8) == "TP8", "on NVLink", SIZING),
    holds("003", "8 GPUs: TP 4, PP 2", RIGHT, lambda: "TP4 x PP2" in possible("L40S", 8), "possible; over PCIe we take TP2 x PP4, on NVLink TP8", SIZING),
    holds("003", "`--tensor-parallel-size 2` splits evenly", RIGHT, lambda: memory.serving(LLAMA, "bf16", context=2048, concurrency=1, tensor=2).weights * 2 == memory.serving(LLAMA, "bf16", context=2048, concurrency=1).weights, "half of every layer each", SIZING),
    holds("003", "vLLM has no uneven split, llama.cpp has: `--tensor-split 0.6,0.4`", RIGHT, lambda: "--tensor-split 0.6,0.4" in line("llama.cpp", model="f.gguf", args=(("tensor-split", "0.6,0.4"),)) and bool(refused("vllm", args=(("tensor-split", "0.6,0.4"),))), "a split of your own takes the place of ours; vLLM is refused it", LAUNCHER),
]

TROUBLE = [
    documented("003", "`NCCL_DEBUG=INFO`, `NCCL_ALGO=Ring`", RIGHT, "both are NCCL's; an algorithm is for finding a fault, not for keeping", "docs.nvidia.com/deeplearning/nccl, 2026-11"),
    holds("003", "Out of memory: `--max-batch-size 1`", WRONG, lambda: not refused("vllm", args=(("max-batch-size", 1),)), "vLLM has no such flag: `--max-num-seqs`; a shorter `--max-model-len` helps more: refused", LAUNCHER),
    holds("003", "Out of memory when training: `--gradient-checkpointing`", RIGHT, lambda: memory.training(LLAMA, "lora", sequence=4096, batch=4).activations < memory.training(LLAMA, "lora", sequence=4096, batch=4, recompute=False).activations / 3, "a fraction of the activations for a third more time; a server is refused it", SIZING),
    holds("003", "Slow: a smaller tensor-parallel size, stages instead", RIGHT, lambda: best("RTX-4090", 8).endswith("PP4"), "over PCIe; on NVLink it would be slower", SIZING),
    documented("003", "Slow: look at NVLink and at the CPU", RIGHT, "`nvidia-smi topo -m`; GPUs that wait show low use in `nvidia-smi`", "nvidia-smi's own help, 2026-11"),
    documented("003", "No GPU seen: `nvidia-smi`, then `torch.cuda.device_count()`", RIGHT, "the driver first: our readiness check asks `nvidia-smi` too before a machine counts as ready", "docs.pytorch.org, 2026-11"),
]

COSTS = [
    priced("003", "An A100 of 80 GB costs $0.25 an hour", STALE, "A100-80GB", 1, 0.25),
    priced("003", "Two RTX 4090 cost $0.20 an hour", STALE, "RTX-4090", 2, 0.20),
    fits("003", "Now and then 70B: two RTX 4090 win over one A100 of 80 GB", RIGHT, "Llama-3.1-70B", "q4_k_m", "RTX-4090", 2, more="one A100 of 80 GB has room for a long context"),
    priced("003", "An A100 of 40 GB costs $0.17 an hour", STALE, "A100", 1, 0.17),
    fits("003", "70B in production: one A100 of 40 GB (4 bits) wins over two", NO_FIT, "Llama-3.1-70B", "q4_k_m", "A100", 1, more="two hold it"),
    priced("003", "An RTX 4090 costs $0.10 an hour", STALE, "RTX-4090", 1, 0.10),
    trains("003", "Training 7B on one RTX 4090 (all weights)", NO_FIT, "7b", "full", "RTX-4090", 1),
    trains("003", "Training 7B on one RTX 4090 (LoRA)", RIGHT, "7b", "lora", "RTX-4090", 1),
    trains("003", "Training 7B on two RTX 4090 (all weights)", NO_FIT, "7b", "full", "RTX-4090", 2),
    fits("003", "70B on two RTX 3090 for $0.12 (4 bits)", RIGHT, "Llama-3.1-70B", "q4_k_m", "RTX-3090", 2),
    priced("003", "Two RTX 3090 cost $0.12 an hour", STALE, "RTX-3090", 2, 0.12),
    fits("003", "70B, fast, on two A100 of 40 GB (4 bits)", RIGHT, "Llama-3.1-70B", "awq", "A100", 2),
    priced("003", "Two A100 of 40 GB cost $0.34 an hour", STALE, "A100", 2, 0.34),
    fits("003", "70B in FP16 on two A100 of 80 GB for $0.50", RIGHT, "Llama-3.1-70B", "fp16", "A100-80GB", 2),
    priced("003", "Two A100 of 80 GB cost $0.50 an hour", STALE, "A100-80GB", 2, 0.50),
    trains("003", "Training 13B on two RTX 4090 (all weights)", NO_FIT, "13b", "full", "RTX-4090", 2),
    trains("003", "Training 13B on two RTX 4090 (LoRA)", RIGHT, "13b", "lora", "RTX-4090", 2),
]

EXAMPLES = [
    fits("003", "Chat server: 70B on two A100 of 40 GB, `--max-model-len 8192` (16 bit, as it stands)", NO_FIT, "Llama-3.1-70B", "bf16", "A100", 2, more="an AWQ build fits"),
    fits("003", "DeepSeek-V3 on eight A100 of 80 GB (fp8, as published)", NO_FIT, "deepseek-ai/DeepSeek-V3", "fp8", "A100-80GB", 8),
    fits("003", "DeepSeek-V3 on eight A100 of 80 GB (any 8 bits)", NO_FIT, "deepseek-ai/DeepSeek-V3", "int8", "A100-80GB", 8, more="eight H200 hold it in fp8"),
    documented("003", "DeepSeek-V3 needs `--trust-remote-code`", STALE, "vLLM has the architecture itself: no code of the repository need be run", "docs.vllm.ai/en/stable/models/supported_models.html, 2026-11"),
    holds("003", "ComfyUI on GPU 0, vLLM on GPU 1, each pinned by `CUDA_VISIBLE_DEVICES`", RIGHT, lambda: pair() == [("0", 8188), ("1", 8000)], "two `services` with `gpus: [0]` and `gpus: [1]` start the same", LAUNCHER),
    fits("003", "The vLLM of that pair, 8B as it stands (131,072 tokens) on a card of 24 GB", NO_FIT, "Llama-3.1-8B", "bf16", "RTX-4090", 1, context=131072, more="`--max-model-len 8192` fits"),
]
# fmt: on

ROWS = [*MODELS, *IDEAS, *SERVERS, *TRAINING, *CHOICE, *TROUBLE, *COSTS, *EXAMPLES]
