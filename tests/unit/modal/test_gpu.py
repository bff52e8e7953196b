"""GPU strings and options of Modal: exact, or refused before anything is sent."""

import subprocess
import sys
from typing import Any

import pytest

from providers.adapters.modal import gpu, options, request
from providers.errors import SpecError, Unsupported
from providers.model.machine import Label, Order, Setup
from providers.model.offer import Candidate, Offer
from tests.present import present


def candidate(
    gpu_type="H100",
    count=1,
    *,
    exact=False,
    nodes=1,
    region="any",
    capacity="on-demand",
    micro=3_950_000,
):
    offer = Offer(
        "modal",
        region,
        "",
        f"container-{count}",
        gpu_type,
        count,
        capacity,
        micro,
        vcpus=0.25,
        memory_gib=0.125,
    )
    return Candidate(1, 0, offer, nodes, "", micro * nodes, exact)


def order(
    chosen=None,
    setup=None,
    token="0b8f0d6e-1111-4222-8333-444455556666",
    cluster="train",
    wait_s=900,
    generation="g1",
):
    return Order(
        Label("own1", cluster, generation, "fp"),
        token,
        (chosen or candidate(),),
        (f"{cluster}-{token[:8]}-0",),
        setup or Setup(),
        wait_s,
    )


@pytest.mark.parametrize(
    ("gpu_type", "count", "exact", "text"),
    [
        ("H100", 1, False, "H100:1"),
        ("H100", 8, True, "H100!:8"),
        ("A100-80GB", 2, False, "A100-80GB:2"),
        ("A10", 4, False, "A10:4"),
        ("L4", 8, True, "L4:8"),
        ("RTX-PRO-6000", 1, False, "RTX-PRO-6000:1"),
        ("B300", 8, False, "B300:8"),
    ],
)
def test_gpu_string(gpu_type, count, exact, text) -> None:
    """A GPU compiles to the exact string that Modal documents, always with its count."""
    assert text == gpu.text(gpu_type, count, exact=exact)


def test_b03_a10g_compiles_to_the_name_that_modal_takes_today() -> None:
    """A10G is Modal's old name of A10, so it compiles to A10 and keeps A10's limit of four."""
    assert gpu.text("A10G", 2) == "A10:2"
    with pytest.raises(Unsupported):
        gpu.text("A10G", 8)


def test_b46_a_bare_a100_says_its_size() -> None:
    """Modal's bare A100 may become 80 GB, so the 40 GB card is written out."""
    assert gpu.text("A100", 1) == "A100-40GB:1"


@pytest.mark.parametrize(
    ("gpu_type", "count"),
    [
        ("A100-70GB", 1),
        ("A10", 8),
        ("", 1),
        ("H100", 0),
        ("H100", 16),
        ("H100", -1),
        ("V100", 1),
        ("any", 1),
    ],
)
def test_b46_what_modal_does_not_sell_is_never_compiled(gpu_type, count) -> None:
    """An unknown name, an empty one, and a count beyond the model's limit are refused with what is
    on offer.
    """
    with pytest.raises(Unsupported) as refused:
        gpu.text(gpu_type, count)
    assert refused.value.code in {"gpu-not-sold", "gpu-count"}
    assert (
        "8" in str(refused.value) or "A100-80GB" in str(refused.value) or "4" in str(refused.value)
    )


def test_names_come_back_as_the_catalog_writes_them() -> None:
    """What the server reports is read as the catalog's name, and an unknown name stays as it is."""
    assert gpu.read("A100-40GB:1") == ("A100", 1)
    assert gpu.read("H100!:8") == ("H100", 8)
    assert gpu.read("h200") == ("H200", 1)
    assert gpu.read("A10") == ("A10", 1)
    assert gpu.read("MI300X:2") == ("MI300X", 2)


def test_notes_name_the_upgrade_and_the_long_wait() -> None:
    """The plan's notes say that H100 may become H200 and that more than two GPUs wait longer; with
    `!` only the wait is left.
    """
    assert len(gpu.notes("H100", 8)) == 2 and "H200" in gpu.notes("H100", 8)[0]
    assert len(gpu.notes("H100", 8, exact=True)) == 1
    assert gpu.notes("H100", 1, exact=True) == ()
    assert gpu.delivered_as_ordered("H100", "H200", exact=False)
    assert not gpu.delivered_as_ordered("H100", "H200", exact=True)
    assert not gpu.delivered_as_ordered("H200", "H100", exact=False)


def test_options_report_every_problem_at_its_path() -> None:
    """Unknown keys, wrong types and contradictions are all reported, each with its path."""
    section = {
        "imagee": "x",
        "python": 3.1,
        "pip": "torch",
        "cpu": True,
        "memory_gib": -1,
        "command": [],
        "add_python": "3.12",
    }
    assert {"imagee", "python", "pip", "cpu", "memory_gib", "command", "add_python"} == {
        problem.path for problem in options.problems(section)
    }
    assert [
        problem.path for problem in options.problems({"image": "ubuntu:24.04", "python": "3.12"})
    ] == ["python"]
    assert (
        options.problems(
            {
                "image": "nvidia/cuda:12.8.1-devel-ubuntu24.04",
                "add_python": "3.12",
                "pip": ["torch==2.9.0"],
                "command": "nvidia-smi -l",
            }
        )
        == []
    )


def test_options_read_a_command_line_and_a_list() -> None:
    """A command is a list of words, or a line for the shell."""
    assert options.read({"command": "a | b"}).command == ("sh", "-c", "a | b")
    assert options.read({"command": ["python", "x.py"]}).command == ("python", "x.py")


def test_an_order_compiles_to_one_sandbox_that_carries_the_label() -> None:
    """Name, time limit, command and tags come from the order; without a ttl a sandbox gets Modal's
    longest life.
    """
    wanted = request.compile_order(order(setup=Setup(ttl_s=7200, labels=(("team", "a"),))))
    assert (
        wanted.gpu,
        wanted.timeout_s,
        wanted.command,
        wanted.regions,
    ) == ("H100:1", 7200, ("sleep", "7200"), ())
    assert {
        "team": "a",
        "gpus-owner": "own1",
        "gpus-cluster": "train",
        "gpus-generation": "g1",
    }.items() <= wanted.tags.items()
    assert Label("own1", "train", "g1", "fp") == request.label_of(wanted.tags)
    assert request.ordered_gpu(wanted.tags) == ("H100", 1, False)
    assert request.compile_order(order()).timeout_s == 86_400
    assert all(len(value) <= 63 for value in wanted.tags.values())


@pytest.mark.parametrize(
    ("chosen", "setup", "word"),
    [
        (candidate(nodes=2), Setup(), "one container"),
        (candidate(capacity="spot"), Setup(), "on-demand"),
        (candidate(), Setup(ttl_s=90_000), "at most 1d"),
        (candidate(), Setup(ttl_s=600, on_ttl="keep"), "keep"),
        (candidate(), Setup(disk_gib=100), "disk"),
        (candidate(), Setup(network=(("network", "n"),)), "network"),
    ],
)
def test_what_no_sandbox_can_be_is_refused_with_the_reason(chosen, setup, word) -> None:
    """Nodes, spot, a life over 24 hours, kept disks and managed networks end at Modal before a
    call, and only there.
    """
    with pytest.raises(Unsupported) as refused:
        request.compile_order(order(chosen, setup))
    assert word in str(refused.value)
    assert refused.value.scopes[0].provider == "modal" and refused.value.block_s == 0


def test_b17_reserved_cpu_and_memory_are_in_the_price() -> None:
    """What the options reserve beyond the least that Modal bills is added to the price that is
    recorded, with its part named.
    """
    wanted = request.compile_order(order(setup=Setup(options=(("cpu", 4), ("memory_gib", 32)))))
    assert (wanted.cpu, wanted.memory_mib) == (4.0, 32768)
    priced = request.priced(candidate().offer, {"cpu": 4, "memory_gib": 32})
    assert 3_950_000 + round(3.875 * 141_912 + 31.875 * 24_012) == priced.node_micro_usd
    assert "4 cores and 32 GiB" in priced.parts
    assert (priced.vcpus, priced.memory_gib) == (8.0, 32.0)
    assert candidate().offer == request.priced(candidate().offer, {"image": "ubuntu:24.04"})


def test_b17_reserved_cpu_and_memory_count_against_the_cap_in_the_plan() -> None:
    """The plan ranks and caps Modal's offers at what the spec's options make them cost."""
    import providers as p

    wanted: dict[str, Any] = {"name": "x", "gpu": "H100:1", "providers": ["modal"]}
    plain = present(p.plan(p.Cluster(**wanted)).best)
    dearer = p.Cluster(**wanted, options={"modal": {"cpu": 16, "memory_gib": 128}})
    large = present(p.plan(dearer).best)
    assert present(large.micro_usd) > present(plain.micro_usd) + 5_000_000
    assert large.micro_usd == large.offer.node_micro_usd
    assert (
        p.plan(
            p.Cluster(
                **wanted, options={"modal": {"cpu": 16, "memory_gib": 128}}, max_price_per_hour=5
            )
        ).best
        is None
    )


def test_a_life_over_24_hours_and_two_nodes_are_refused_by_rule_in_the_plan() -> None:
    """What no sandbox can be is refused when planning, with its own rule."""
    import providers as p

    assert (
        p.plan(
            p.Cluster(name="x", gpu="H100:8", providers=("gcp", "modal"), ttl="30h")
        ).rejected_by_rule["ttl"]
        == 1
    )
    with pytest.raises(SpecError, match="ttl: wanted a life of"):
        p.plan(p.Cluster(name="x", gpu="H100:8", providers=("modal",), ttl="30h"))
    with pytest.raises(SpecError, match="modal 1"):
        p.plan(p.Cluster(name="x", gpu="H100:8", providers=("modal",), nodes=2))
    notes = p.plan(p.Cluster(name="x", gpu="H100:8", providers=("modal",))).notes
    assert any("H200" in note for note in notes) and any("queues" in note for note in notes)
    assert not any(
        "H200" in note
        for note in p.plan(p.Cluster(name="x", gpu="H100!:8", providers=("modal",))).notes
    )


def test_the_manifest_imports_no_client() -> None:
    """Importing the folder brings in neither Modal's client nor gRPC nor asyncio."""
    code = (
        "import sys, providers.adapters.modal; print(sorted({'modal', 'grpclib', 'asyncio',"
        " 'sqlite3'} & set(sys.modules)))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )
