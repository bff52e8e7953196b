"""Document 004 (training on Google Cloud): every command and table row, with its verdict."""

import json
from functools import cache
from pathlib import Path

from providers.adapters.gcp.options import IMAGE_FAMILY
from providers.catalog import offers
from providers.catalog.hardware import hardware
from providers.model.money import usd
from providers.workloads.sizing.fit import cuda
from tests.unit.seeds_judge import (
    NO_FIT,
    RIGHT,
    STALE,
    WRONG,
    counts,
    documented,
    holds,
    line,
    machine,
    sold_as,
    words_of,
)

CATALOG, SPEEDS, SCHEMA, LAUNCHER, SHELL, IMAGE = (
    "catalog",
    "hardware table",
    "Google's API schema",
    "launcher",
    "run in a shell",
    "image rule",
)
OLD_IMAGE = "pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime"
CREATE = """gcloud ai custom-jobs create \\
  --region=us-central1 \\  # a comment
  --display-name=your-training-job \\
  --config=config.yaml"""
GCP_TABLE = "gcp"


@cache
def schema(name):
    """One schema of Vertex AI's discovery document, as it comes with googleapiclient."""
    import googleapiclient

    path = (
        Path(googleapiclient.__file__).parent
        / "discovery_cache"
        / "documents"
        / "aiplatform.v1.json"
    )
    return json.loads(path.read_text())["schemas"][f"GoogleCloudAiplatformV1{name}"]["properties"]


def google(gpu):
    """Google's offers of a model."""
    table = offers.load()
    return [o for o in map(table.offer, table.by_gpu.get(gpu, ())) if o.provider == GCP_TABLE]


def has_type(name):
    """Whether Vertex AI knows an accelerator type."""
    return name in schema("MachineSpec")["acceleratorType"]["enum"]


def faster(gpu, field):
    """Whether a card has more of something than an RTX 4090."""
    return getattr(hardware(gpu), field) > getattr(hardware("RTX-4090"), field)


def prices(gpu, count, capacity, region="us-central1"):
    """Dollars per hour for so many in one machine, by zone."""
    return sorted(
        {
            usd(o.node_micro_usd)
            for o in google(gpu)
            if o.gpu_count == count
            and o.capacity == capacity
            and o.region == region
            and o.node_micro_usd
            and not o.restriction
        }
    )


def only_spot(machine_type):
    """Why a machine type is not sold on demand; nothing where it is."""
    return next(
        (why for capacity, why in sold_as(GCP_TABLE, machine_type) if capacity == "on-demand"), ""
    )


def consumer(provider):
    """The GeForce cards that a provider lists."""
    return {
        gpu
        for gpu in offers.load().by_gpu
        if gpu.startswith(("RTX-2", "RTX-3", "RTX-4", "RTX-5", "GTX")) and counts(provider, gpu)
    }


# fmt: off
ROWS = [
    holds("004", "Google has no RTX 4090", RIGHT, lambda: not counts(GCP_TABLE, "RTX-4090"), "nor any other consumer card", CATALOG),
    holds("004", "The RTX 4090 is a consumer card, not made for data centres", RIGHT, lambda: "consumer" in hardware("RTX-4090").note, "marketplaces have it", SPEEDS),
    holds("004", "Google has A100, H100 and L4", RIGHT, lambda: all(google(gpu) for gpu in ("A100", "H100", "L4")), "in the catalog", CATALOG),
    holds("004", "A100 and H100 beat an RTX 4090 in bandwidth and tensor arithmetic", RIGHT, lambda: all(faster(gpu, field) for gpu in ("A100", "H100") for field in ("bandwidth_tb_s", "bf16_tflops")), "by the sheets", SPEEDS),
    holds("004", "An L4 does too", WRONG, lambda: faster("L4", "bandwidth_tb_s") and faster("L4", "bf16_tflops"), lambda: f"{hardware('L4').bandwidth_tb_s} TB/s against {hardware('RTX-4090').bandwidth_tb_s}, {hardware('L4').bf16_tflops:g} TFLOPS against {hardware('RTX-4090').bf16_tflops:g}", SPEEDS),
    holds("004", "H100 80 GB in 2, 4 or 8", RIGHT, lambda: counts(GCP_TABLE, "H100") >= {2, 4, 8}, "and 1", CATALOG),
    holds("004", "H100 Mega in 2, 4 or 8", WRONG, lambda: counts(GCP_TABLE, "H100-MEGA") >= {2, 4, 8}, "8 alone: a3-megagpu-8g", CATALOG),
    holds("004", "A100 of 40 GB in 2, 4, 8 or 16", RIGHT, lambda: counts(GCP_TABLE, "A100") >= {2, 4, 8, 16}, "and 1", CATALOG),
    holds("004", "A100 of 80 GB in 2, 4, 8 or 16", WRONG, lambda: 16 in counts(GCP_TABLE, "A100-80GB"), "8 at most; 16 is the a2-megagpu-16g with 40 GB", CATALOG),
    holds("004", "L4 in 2, 4 or 8", RIGHT, lambda: counts(GCP_TABLE, "L4") >= {2, 4, 8}, "and 1", CATALOG),
    holds("004", "T4 in 2, 4 or 8", WRONG, lambda: 8 in counts(GCP_TABLE, "T4"), "1, 2 or 4: eight are refused", CATALOG),
    holds("004", "V100 in 2, 4 or 8", RIGHT, lambda: counts(GCP_TABLE, "V100") >= {2, 4, 8}, "and 1", CATALOG),
    holds("004", "GB200, B200, H200, P4 and P100 complete the list", STALE, lambda: all(google(gpu) for gpu in ("P4", "P100", "GB200", "B200", "H200")) and not google("RTX-PRO-6000") and not google("GB300"), "all are sold; RTX PRO 6000 and GB300 came later", CATALOG),
    holds("004", f"`FROM {OLD_IMAGE}` on an H100", WRONG, lambda: not cuda(OLD_IMAGE, "H100"), lambda: cuda(OLD_IMAGE, "H100"), IMAGE),
    holds("004", "The same image on an L4", WRONG, lambda: not cuda(OLD_IMAGE, "L4"), lambda: cuda(OLD_IMAGE, "L4"), IMAGE),
    holds("004", "The same image on an A100", RIGHT, lambda: not cuda(OLD_IMAGE, "A100-80GB"), "CUDA 11.0 is enough for it", IMAGE),
    holds("004", '`CMD ["python", "train.py"]` trains on two GPUs', NO_FIT, lambda: line("torchrun") == "python train.py", "one process uses them only by DataParallel; with DDP: `torchrun --nproc-per-node=2 train.py`", LAUNCHER),
    documented("004", "Push the image to Container Registry (`gcr.io`)", STALE, "Container Registry ended on 2025-03-18; the name is served by Artifact Registry (`LOCATION-docker.pkg.dev`)", "cloud.google.com/container-registry/docs/deprecations, 2026-11"),
    holds("004", "`workerPoolSpecs:` holds `machineSpec:` directly", WRONG, lambda: schema("CustomJobSpec")["workerPoolSpecs"]["type"] != "array", "it is a list of pools: `- machineSpec:`", SCHEMA),
    holds("004", "`a3-highgpu-2g` has two H100", RIGHT, lambda: machine("a3-highgpu-2g") == ("H100", 2), "two of 80 GB", CATALOG),
    holds("004", "`a3-highgpu-2g` on demand, as the job asks", NO_FIT, lambda: not only_spot("a3-highgpu-2g"), lambda: only_spot("a3-highgpu-2g"), CATALOG),
    holds("004", "`a2-ultragpu-2g` has two A100", RIGHT, lambda: machine("a2-ultragpu-2g") == ("A100-80GB", 2), "two of 80 GB", CATALOG),
    holds("004", "`g2-standard-24` has two L4", RIGHT, lambda: machine("g2-standard-24") == ("L4", 2), "two", CATALOG),
    holds("004", "`acceleratorType: NVIDIA_H100_80GB`, `NVIDIA_A100_80GB`, `NVIDIA_L4`", RIGHT, lambda: all(map(has_type, ("NVIDIA_H100_80GB", "NVIDIA_A100_80GB", "NVIDIA_L4"))), "in the list; it must agree with the machine type", SCHEMA),
    holds("004", "`acceleratorCount: 2`, `replicaCount: 1`, `containerSpec.imageUri`", RIGHT, lambda: "acceleratorCount" in schema("MachineSpec") and {"replicaCount", "containerSpec"} <= set(schema("WorkerPoolSpec")) and "imageUri" in schema("ContainerSpec"), "all are fields of it", SCHEMA),
    holds("004", "`gcloud ai custom-jobs create --region ... --display-name ... --config ...`, as it stands", WRONG, lambda: any("--config=config.yaml" in call for call in words_of(CREATE, "gcloud")), "a comment after the backslash ends the command: what follows it is never passed", SHELL),
    holds("004", "The same without the comment", RIGHT, lambda: words_of(CREATE.replace("  # a comment", ""), "gcloud") == [["ai", "custom-jobs", "create", "--region=us-central1", "--display-name=your-training-job", "--config=config.yaml"]], "all six words arrive", SHELL),
    holds("004", "The SDK's `worker_pool_specs` with `machine_spec`, `replica_count`, `container_spec`", RIGHT, lambda: schema("CustomJobSpec")["workerPoolSpecs"]["type"] == "array" and {"machineSpec", "replicaCount", "containerSpec"} <= set(schema("WorkerPoolSpec")), "a list of pools, as the API has it", SCHEMA),
    documented("004", "`aiplatform.init(project, location)`, then `CustomJob(...).run()`", WRONG, 'CustomJob demands a staging bucket: `init(..., staging_bucket="gs://...")`', "google-cloud-aiplatform 2.7.0, 2026-11"),
    holds("004", "The SDK's job on `a3-highgpu-2g`, with no scheduling strategy", NO_FIT, lambda: not only_spot("a3-highgpu-2g") and "SPOT" in schema("Scheduling")["strategy"]["enum"], "the machine is not sold on demand: `scheduling_strategy` SPOT or FLEX_START", CATALOG),
    documented("004", "More worker pools for several machines, a reduction server for large ones", RIGHT, "pools 0 to 3; the reduction server is for NCCL all-reduce", "cloud.google.com/vertex-ai/docs/training/distributed-training, 2026-11"),
    holds("004", "Two H100 cost 6 to 10 dollars an hour (us-central1)", STALE, lambda: any(6 <= price <= 10 for price in prices("H100", 2, "on-demand") + prices("H100", 2, "spot")), lambda: f"no price on demand; as Spot ${prices('H100', 2, 'spot')[0]:.2f} there, as of {next(o.price_as_of for o in google('H100') if o.gpu_count == 2 and o.capacity == 'spot')}", CATALOG),
    holds("004", "Two H100 cost 6 to 10 dollars an hour (as Spot, somewhere)", RIGHT, lambda: any(6 <= usd(o.node_micro_usd) <= 10 for o in google("H100") if o.gpu_count == 2 and o.capacity == "spot" and o.node_micro_usd), "in several regions", CATALOG),
    holds("004", "DistributedDataParallel for several GPUs", RIGHT, lambda: "--nproc-per-node=2" in line("torchrun"), "one process for each, as torchrun starts them", LAUNCHER),
    holds("004", "Spot machines save money", RIGHT, lambda: all(prices(gpu, 8, "spot")[0] < prices(gpu, 8, "on-demand")[0] for gpu in ("L4", "H100")), lambda: f"eight L4 in us-central1: ${prices('L4', 8, 'spot')[0]:.2f} against ${prices('L4', 8, 'on-demand')[0]:.2f}", CATALOG),
    holds("004", "Reservations save money", WRONG, lambda: prices("L4", 8, "reservation") < prices("L4", 8, "on-demand"), "a reservation costs what its machines cost on demand, used or not; a commitment would save", CATALOG),
    holds("004", "Not every region has every GPU", RIGHT, lambda: len({frozenset(o.region for o in google(gpu)) for gpu in ("H100", "L4", "T4", "B200")}) == 4, "the four looked at differ", CATALOG),
    holds("004", "Compute Engine: A3 has H100, A2 A100, G2 L4", RIGHT, lambda: [machine(name)[0] for name in ("a3-highgpu-8g", "a2-highgpu-1g", "g2-standard-4")] == ["H100", "A100", "L4"], "by machine type", CATALOG),
    holds("004", "Compute Engine: `a3-highgpu-2g` by the console's default, on demand", NO_FIT, lambda: not only_spot("a3-highgpu-2g"), lambda: only_spot("a3-highgpu-2g"), CATALOG),
    holds("004", "Then add two accelerators to it", WRONG, lambda: all(o.accelerator for o in google("H100")), "they are part of the machine types A2, A3 and G2; only N1 takes accelerators", CATALOG),
    holds("004", "The Deep Learning VM has CUDA, TensorFlow and PyTorch", STALE, lambda: "tensorflow" in IMAGE_FAMILY, f"its TensorFlow families are deprecated; we take `{IMAGE_FAMILY}`", "Google adapter"),
    documented("004", "`gcloud compute ssh VM --zone=Z`", RIGHT, "here: `gpus ssh NAME`", "cloud.google.com/sdk/gcloud/reference/compute/ssh, 2026-11"),
    holds("004", "Then `python train.py` on several GPUs", NO_FIT, lambda: line("torchrun") == "python train.py", "one process, one GPU, unless the script starts others", LAUNCHER),
    documented("004", "`CUDA_VISIBLE_DEVICES=0,1` for two GPUs", RIGHT, "it hides the others; using both is the program's affair, as the document says", "docs.nvidia.com/cuda, 2026-11"),
    holds("004", "AWS has consumer cards in some cases", WRONG, lambda: bool(consumer("aws")), "none is listed; marketplaces have the RTX 4090", CATALOG),
    documented("004", "Colab gives 1 or 2 GPUs free of charge", WRONG, "one, when there is one", "research.google.com/colaboratory/faq.html, 2026-11"),
    documented("004", "Check quota, and ask for more, before the first machine", RIGHT, "GPU quotas begin at 0; a refusal here names the quota", "cloud.google.com/compute/resource-usage, 2026-11"),
]
# fmt: on
