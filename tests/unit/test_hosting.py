"""What a declared program needs of a machine's disk and load time, in plans and in orders."""

from pathlib import Path

import pytest

import providers
from providers.adapters import registry
from providers.adapters.clore import market
from providers.adapters.clore.options import Options
from providers.catalog import volumes
from providers.cli.stackfile import read as read_stack
from providers.engine.market import host_fit
from providers.engine.record import ClusterRecord
from providers.model.machine import Setup
from providers.model.placement import Placement
from providers.model.spec import read_cluster
from providers.model.workload import Override
from providers.planner import render
from providers.rehearsal.clouds.clore.inventory import servers
from providers.workloads.sizing import disk
from tests.present import present
from tests.unit.hosting_rig import LLAMA_70B, planned, refused

DEEPSEEK = {"launcher": "vllm", "model": "deepseek-ai/DeepSeek-V3", "dtype": "fp8"}
STACKS = sorted((Path(providers.__file__).parent.parent / "stacks").glob("Pulumi.*.yaml"))


def hosted(provider, machine_type, **declared):
    ask = read_cluster("t", {"kind": "service", "gpu": "H200:8", **declared}).ask()
    return host_fit.hosting(ask, registry.manifests())(ask.entries[0], provider, machine_type)


@pytest.mark.parametrize(
    ("workload", "provider", "machine_type", "size"),
    [
        # (system + image 30 + weights) + 10 % + 10, in steps of 10
        (LLAMA_70B, "gcp", "a2-ultragpu-4g", 230),
        (LLAMA_70B, "aws", "p4de.24xlarge", 240),
        (DEEPSEEK, "gcp", "a3-ultragpu-8g", 770),
        (DEEPSEEK, "aws", "p5en.48xlarge", 790),
        ({**LLAMA_70B, "model": "meta-llama/Llama-3.1-8B"}, "gcp", "g2-standard-8", 100),
        # Served in 8 bit, downloaded in 16; a 4-bit checkpoint is 4 bits on the disk too.
        ({**LLAMA_70B, "dtype": "fp8"}, "gcp", "a2-ultragpu-4g", 230),
        ({**LLAMA_70B, "dtype": "awq"}, "gcp", "a2-ultragpu-4g", 120),
        ({**LLAMA_70B, "model": "meta-llama/Llama-3.1-405B"}, "aws", "p5en.48xlarge", 930),
    ],
)
def test_an_undeclared_disk_is_sized_to_system_image_weights_and_room(
    workload, provider, machine_type, size
) -> None:
    """C04 (llm-d#857): 141 GB of weights do not land on a disk of 100 GB, nor 672 GB of
    DeepSeek-V3.
    """
    found = hosted(provider, machine_type, workload=workload)
    assert (found.disk_gib or 100) == size and found.disk == ""
    assert host_fit.with_disk(Setup(), found).disk_gib == found.disk_gib


def test_the_price_holds_the_disk_that_is_ordered(market_now) -> None:
    """The default one, one that is sized to the workload and a declared one: with size, kind and
    the date of its rate in words, and no longer among what is left out.
    """
    sized = planned(market_now, gpu="A100-80GB:4", providers=["gcp"], workload=LLAMA_70B)
    plain = planned(market_now, gpu="A100-80GB:4", providers=["gcp"], kind="machine")
    first, same = present(sized.best), present(plain.best)
    more = round(230 * 100_000 / 730) - round(100 * 100_000 / 730)
    assert present(first.micro_usd) - present(same.micro_usd) == more
    assert "+ 230 GiB pd-balanced $0.0315/h (2025-03-06)" in first.offer.parts
    assert "+ 100 GiB pd-balanced $0.0137/h (2025-03-06)" in same.offer.parts
    assert "boot disk" not in first.offer.left_out + same.offer.left_out
    declared = planned(market_now, gpu="L4:1", providers=["aws"], kind="machine", disk_gib=500)
    offer = present(declared.best).offer
    assert "+ 500 GiB gp3 $0.0548/h (2026-11)" in offer.parts and "EBS" not in offer.left_out


def test_a_disk_costs_what_its_region_asks_and_an_assumed_rate_is_told() -> None:
    """Zurich's disks are dearer than Iowa's; where no source has a rate, the first region's is
    taken and said.
    """
    found = present(hosted("gcp", "g2-standard-4"))
    assert found.cost("us-central1") == (13_699, "100 GiB pd-balanced $0.0137/h (2025-03-06)")
    assert found.cost("europe-west6")[0] == round(100 * 130_000 / 730)
    assumed = "100 GiB gp3 $0.0110/h (at the rate of us-east-1)"
    assert present(hosted("aws", "g6.xlarge")).cost("eu-central-1") == (10_959, assumed)
    assert present(hosted("modal", "container-1")).cost("any") == (0, "")


@pytest.mark.parametrize("provider", ["gcp", "aws"])
def test_the_rate_that_is_assumed_is_the_catalogs_of_its_region(provider) -> None:
    """One price of one disk: the adapter's own figure is for regions that no source has."""
    machine = {"gcp": "a3-highgpu-8g", "aws": "p5.48xlarge"}[provider]
    for kind in ("pd-balanced", "pd-ssd", "hyperdisk-balanced", "gp3"):
        option = {"gcp": "boot_disk_type", "aws": "volume_type"}[provider]
        host = present(registry.manifests()[provider].limits.host)(machine, {option: kind})
        listed = volumes.rate(provider, present(host).disk, present(host).priced_in)
        assert present(listed).micro_usd_per_gib == present(host).micro_usd_per_gib_month


def test_places_are_ranked_by_their_price_with_the_disk(market_now) -> None:
    """A large disk makes a place with cheap disks the cheaper one."""

    def order(size):
        plan = planned(market_now, gpu="L4:1", kind="machine", rank="price", disk_gib=size)
        assert [each.micro_usd for each in plan.candidates] == sorted(
            present(each.micro_usd) for each in plan.candidates
        )
        return [each.offer.id for each in plan.candidates]

    assert order(100) != order(20_000)


def test_the_price_cap_holds_with_the_disk(market_now) -> None:
    """A place that costs exactly the cap without its disk is above it with it; the refusal names
    the whole.
    """
    plain = planned(market_now, gpu="A100-80GB:4", providers=["gcp"], kind="machine")
    bare = present(present(plain.best).price_usd_per_hour)
    plan = planned(
        market_now,
        gpu="A100-80GB:4",
        providers=["gcp"],
        workload=LLAMA_70B,
        max_price_per_hour=bare,
    )
    whole = bare + 0.0315 - 0.0137
    assert plan.best is None and any(
        f"${whole:,.2f}/h, above the cap" in text for text in refused(plan, "price-cap")
    )


@pytest.mark.parametrize(
    ("workload", "gpu", "disk_gib", "told"),
    [
        (
            LLAMA_70B,
            "A100-80GB:4",
            100,
            (
                "disk_gib is 100, it takes 191 GiB (weights 131.4, container image 30, system 30):"
                " set disk_gib: 230"
            ),
        ),
        (
            DEEPSEEK,
            "H200:8",
            600,
            (
                "disk_gib is 600, it takes 702 GiB (weights 626.7, container image 30, system 45):"
                " set disk_gib: 790"
            ),
        ),
    ],
)
def test_a_declared_disk_that_is_too_small_is_refused_with_the_figures(
    market_now, workload, gpu, disk_gib, told
) -> None:
    """C04: `disk_gib: 100` under 141 GB of weights; the hint of the plan says it too."""
    plan = planned(market_now, gpu=gpu, disk_gib=disk_gib, workload=workload)
    assert plan.best is None
    assert any(told in text for text in refused(plan, "disk"))
    assert "refused by the rule disk: disk_gib is" in " ".join(render.as_text(plan).split())
    enough = planned(market_now, gpu=gpu, disk_gib=900, workload=workload)
    assert not refused(enough, "disk")


def test_an_image_of_unknown_size_refuses_no_declared_disk() -> None:
    """What is assumed sizes a disk; it refuses none."""
    small = {"launcher": "vllm", "model": "meta-llama/Llama-3.2-1B", "image": "me/server:1"}
    assert hosted("gcp", "g2-standard-4", workload=small, disk_gib=60).disk == ""
    assert (
        "container image 30"
        in hosted(
            "gcp",
            "g2-standard-4",
            workload={**small, "image": "vllm/vllm-openai:v0.19.1"},
            disk_gib=60,
        ).disk
    )


@pytest.mark.parametrize(("provider", "disk_gib", "least"), [("gcp", 40, 50), ("aws", 60, 75)])
def test_a_disk_below_the_boot_image_is_refused_in_the_plan(
    market_now, provider, disk_gib, least
) -> None:
    """Not at the cloud, and not by trying another place; an image of the user's own has no known
    size.
    """
    plan = planned(market_now, gpu="L4:1", kind="machine", providers=[provider], disk_gib=disk_gib)
    assert plan.best is None
    assert any(
        f"disk_gib is {disk_gib}, the boot image" in text and f"takes {least} GiB" in text
        for text in refused(plan, "disk")
    )
    own = (
        {"gcp": {"image": "projects/me/global/images/small"}}
        if provider == "gcp"
        else {"aws": {"ami": "ami-0123456789abcdef0"}}
    )
    assert (
        planned(
            market_now,
            gpu="L4:1",
            kind="machine",
            providers=[provider],
            disk_gib=disk_gib,
            options=own,
        ).best
        is not None
    )


def test_a_disk_beyond_the_largest_is_refused(market_now) -> None:
    """gp2 ends at 16 TiB, Modal's containers at 512 GiB."""
    plan = planned(
        market_now,
        gpu="L4:1",
        kind="machine",
        providers=["aws"],
        disk_gib=20_000,
        options={"aws": {"volume_type": "gp2"}},
    )
    assert plan.best is None and any(
        "the largest gp2 has 16,384 GiB" in text for text in refused(plan, "disk")
    )
    assert "626.7" in hosted("modal", "container-8", workload=DEEPSEEK).disk
    assert hosted("modal", "container-4", workload=LLAMA_70B).disk == ""


def test_a_fallback_is_sized_in_its_own_format() -> None:
    """A choice that changes the format of the checkpoint changes the download."""
    task = (
        read_cluster("t", {"kind": "service", "gpu": "H200:8", "workload": LLAMA_70B})
        .ask()
        .workload
    )
    assert disk.needed(task, Override(dtype="awq")).weights < disk.needed(task, None).weights / 3


def test_training_has_room_for_its_checkpoints() -> None:
    """Two checkpoints: of everything when all is trained, of the adapters with LoRA."""
    base = {
        "launcher": "torchrun",
        "command": "train.py",
        "model": "meta-llama/Llama-3.1-8B",
        "image": "me/train:1",
    }

    def size(method):
        return hosted(
            "gcp",
            "a3-highgpu-8g",
            kind="job",
            workload={**base, "train": {"method": method, "tokens": "1B"}},
        ).disk_gib

    assert size("full") == 330  # 15 GiB of weights, twice 104.7 of checkpoints
    assert size("lora") is None  # the default of 100 will do


def test_local_ssd_of_the_machine_does_not_count() -> None:
    """The start-up script puts nothing there, so 6 TB of it make no disk smaller."""
    assert (
        hosted("gcp", "a3-highgpu-8g", workload=DEEPSEEK).disk_gib
        == hosted("gcp", "a2-highgpu-8g", workload=DEEPSEEK).disk_gib
    )


def test_clores_hosts_are_held_against_what_the_program_needs() -> None:
    """C04: a host with 200 GB is refused for 141 GB of weights with their image, whatever `disk_gb`
    (default 40) says.
    """
    ask = read_cluster(
        "t",
        {
            "kind": "service",
            "gpu": "RTX-4090:8",
            "providers": ["clore"],
            "workload": {**LLAMA_70B, "dtype": "bf16"},
        },
    ).ask()
    asked = host_fit.asked(ask, registry.manifests()["clore"])
    assert asked.disk_gib == 190
    small = [
        {**server, "specs": {**server["specs"], "disk": "NVMe 200.0GB"}}
        for server in servers()
        if isinstance(server.get("specs"), dict)
    ]
    listed = market.read(small, Options(), "2026-11-28", "test", disk_gib=asked.disk_gib).offers
    assert listed and all(offered.restriction for offered in listed)
    assert any(
        "it has 200.0 GB of disk, wanted 190 GiB" in offered.restriction for offered in listed
    )


def runs(provider="gcp", machine_type="a3-highgpu-8g", disk=()):
    where = Placement(provider, machine_type=machine_type, gpu_type="H100", gpu_count=8, nodes=1)
    return ClusterRecord("live", "o", "c", "g", "f", "running", where, applied=disk)


@pytest.mark.parametrize(
    ("model", "record", "why"),
    [
        ("meta-llama/Llama-3.1-8B", runs(), ""),
        (
            "meta-llama/Llama-3.1-70B",
            runs(),
            "its disk has 100 GiB, it takes 191 GiB (weights 131.4",
        ),
        ("meta-llama/Llama-3.1-70B", runs(disk=(("disk_gib", "230"),)), ""),
        (
            "meta-llama/Llama-3.1-405B",
            runs(disk=(("disk_gib", "2000"),)),
            "H100:8 does not hold it: ",
        ),
        ("foo/unknown", runs(), ""),
        ("meta-llama/Llama-3.1-70B", runs(provider="modal", machine_type="container-8"), ""),
    ],
)
def test_a_running_machine_that_another_model_outgrows_is_told(model, record, why) -> None:
    """An edit of the workload is run on the held machine, where its GPUs and its disk hold it."""
    ask = read_cluster(
        "t", {"kind": "service", "gpu": "H100:8", "workload": {**LLAMA_70B, "model": model}}
    ).ask()
    found = host_fit.outgrown(ask, ask.entries[0], record, registry.manifests())
    assert found.startswith(why) if why else found == ""


def test_the_format_of_the_flags_decides_over_the_download() -> None:
    """`args: {quantization: awq}` means a 4-bit checkpoint as `dtype: awq` does."""
    flagged = {
        "launcher": "vllm",
        "model": "meta-llama/Llama-3.1-70B",
        "args": {"quantization": "awq"},
    }
    assert hosted("gcp", "a2-ultragpu-4g", workload=flagged).disk_gib == 120


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem.partition(".")[2])
def test_the_workload_of_each_shipped_stack_fits_its_disk(market_now, path) -> None:
    """No candidate of a shipped stack has less disk than its workload takes, and none is refused
    for its disk.
    """
    for name, raw in read_stack(path.stem.partition(".")[2]).clusters.items():
        ask = read_cluster(name, raw).ask()
        plan = market_now.plan(ask)
        answers = host_fit.hosting(ask, registry.manifests())
        for candidate in plan.candidates:
            entry, found = (
                ask.entries[candidate.entry],
                answers(ask.entries[candidate.entry], candidate.provider, candidate.machine_type),
            )
            if ask.workload is None or found is None or candidate.provider in {"modal", "clore"}:
                continue
            need = disk.needed(ask.workload, entry.override)
            assert (found.disk_gib or 100) >= need.least
        assert "disk" not in plan.rejected_by_rule


def test_a_wait_shorter_than_the_load_is_said_with_one_that_would_do(market_now) -> None:
    """C21: 672 GB of weights do not answer within 15 minutes; a wait that is long enough, and a
    small model, need no line.
    """

    def told(**declared):
        return [
            text
            for text in planned(market_now, **declared).notes
            if text.startswith("loading takes")
        ]

    (line,) = told(gpu="H200:8", providers=["aws"], workload=DEEPSEEK)
    assert "672 GB of weights" in line or "673 GB of weights" in line
    assert "`wait` is 15m: set wait: " in line
    assert not told(gpu="H200:8", providers=["aws"], workload=DEEPSEEK, wait="3h")
    assert not told(gpu="L4:1", workload={**LLAMA_70B, "model": "meta-llama/Llama-3.2-1B"})
    faster = told(
        gpu="H200:8",
        providers=["aws"],
        workload=DEEPSEEK,
        options={"aws": {"volume_throughput": 1000}},
    )
    assert faster != [line]


def test_at_the_market_the_load_takes_at_most_what_the_filter_lets_through(market_now) -> None:
    """A host may be faster than the least that is asked for: the line says so, and which option
    asks for more.
    """
    small = {**LLAMA_70B, "model": "meta-llama/Llama-3.1-8B"}

    def told(**options):
        found = planned(
            market_now,
            gpu="A100-80GB:1",
            providers=["clore"],
            workload=small,
            options={"clore": options},
        )
        return [text for text in found.notes if text.startswith("loading takes")]

    (line,) = told()
    assert line.startswith(
        "loading takes up to 1h8m (16 GB of weights at 12 MiB/s or more), `wait` is 15m: set wait:"
        " 1h30m, or ask for faster hosts by "
    )
    assert line.endswith("options.clore.down_mbps")
    assert not told(down_mbps=1_000)
