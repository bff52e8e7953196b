"""The CUDA that an image needs, and the driver that a host has."""

import pytest

import providers
from providers.adapters.aws.host import host as aws
from providers.adapters.clore import filters
from providers.adapters.gcp.host import host as gcp
from providers.model import images
from providers.model.spec import read_cluster
from providers.planner import render
from providers.rehearsal.clouds.clore.inventory import servers
from tests.present import present
from tests.unit.hosting_rig import planned, refused


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime", "13.0"),
        ("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", "12.8"),
        ("me/app:cu130", "13.0"),
        ("me/app:v1-cu121", "12.1"),
        ("me/app:cuda-12.4", "12.4"),
        ("me/app:cuda12", "12"),
        ("me/app:cuda12.4.1-devel@sha256:" + "a" * 64, "12.4"),
        ("nvidia/cuda:13.0.1-cudnn-devel-ubuntu24.04", "13.0"),
        ("nvcr.io/nvidia/cuda:12.6.3-base-ubuntu22.04", "12.6"),
        ("registry.example:5000/team/torch:13.0.1-cudnn-devel", "13.0"),
        ("registry.example:5000/team/torch:cu118@sha256:" + "0" * 64, "11.8"),
        ("nvcr.io/nvidia/pytorch:25.09-py3", "13.0"),
        ("nvcr.io/nvidia/pytorch:24.04-py3", "12.4"),
        ("nvcr.io/nvidia/pytorch:25.01-py3", "12.8"),
        ("nvcr.io/nvidia/tritonserver:23.10-trtllm-python-py3", "12.2"),
        ("vllm/vllm-openai@sha256:" + "b" * 64, None),
        ("vllm/vllm-openai:latest@sha256:" + "b" * 64, None),
        ("vllm/vllm-openai:v0.19.1@sha256:" + "b" * 64, "12.8"),
        ("vllm/vllm-openai:latest", "13.0"),
        ("vllm/vllm-openai", "13.0"),
        ("vllm/vllm-openai:v0.22.1", "13.0"),
        ("vllm/vllm-openai:v0.19.1", "12.8"),
        ("vllm/vllm-openai:latest-cu129", "12.9"),
        ("me/app:1.2.3", None),
        ("me/app:13.0.1", None),
        ("registry.example:5000/team/cuda", None),
        ("python:3.12", None),
        ("ubuntu:22.04", None),
        ("", None),
    ],
)
def test_an_images_cuda_is_read_from_its_name_alone(image, found) -> None:
    """vllm#18813: what the name does not say is not claimed."""
    assert (None if images.cuda(image) is None else str(images.cuda(image))) == found


@pytest.mark.parametrize(
    ("image", "version", "why"),
    [
        (
            "pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime",
            "12.8",
            "its driver runs CUDA 12.8 at most, wanted 13.0 for pytorch",
        ),
        ("me/app:cu130", "12.8", "wanted 13.0 for me/app:cu130"),
        ("nvidia/cuda:13.0.1-cudnn-devel-ubuntu24.04", "12.9", "runs CUDA 12.9 at most"),
        ("me/app:cu130", "13.0", ""),
        ("me/app:cu130", None, "states no CUDA"),
        # Within a major every driver of it will do.
        ("me/app:cuda12.8", "12.2", ""),
        ("me/app:cuda12.8", "11.8", "wanted 12.8"),
        ("me/app:cu118", "12.8", ""),
        ("me/app:1.2.3", "11.0", ""),
    ],
)
def test_an_image_newer_than_a_hosts_driver_is_refused(image, version, why) -> None:
    """C13 (vllm#18813): `cuda13.0` at a host with CUDA 12.8 was bought."""
    server = {**servers()[0], "cuda_version": version}
    assert (
        (why in filters.undriven(server, image)) if why else filters.undriven(server, image) == ""
    )


def test_the_market_is_listed_for_the_image_that_runs_there(tmp_path, monkeypatch) -> None:
    """C13, whole: no host of an older CUDA is a candidate, for the workload's image and for the
    options' own.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    job = {"kind": "job", "gpu": "RTX-4090:2", "providers": ["clore"]}
    newest = {
        **job,
        "workload": {
            "image": "pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime",
            "command": "nvidia-smi",
        },
    }
    plan = providers.plan(read_cluster("t", newest))
    assert {candidate.machine_type for candidate in plan.candidates} == {"server-71003"}
    assert any("wanted 13.0 for" in text for text in refused(plan, "driver"))
    single = providers.plan(read_cluster("t", {**newest, "gpu": "RTX-4090:1"}))
    assert single.best is None
    told = " ".join(render.as_text(single).split())
    assert (
        "refused by the rule driver: its driver runs CUDA 12.8 at most, wanted 13.0 for"
        " pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime" in told
    )
    own = {
        "gpu": "RTX-4090:2",
        "providers": ["clore"],
        "options": {"clore": {"image": "me/app:cu130"}},
    }
    assert {
        candidate.machine_type for candidate in providers.plan(read_cluster("t", own)).candidates
    } == {"server-71003"}


def test_at_google_and_ec2_the_boot_images_driver_decides(market_now) -> None:
    """C13: driver 570 does not start CUDA 13; 580 does; of an image of the user's own nothing is
    claimed.
    """
    old = {
        "gcp": {
            "image_family": "common-cu128-ubuntu-2204-nvidia-570",
            "image_project": "deeplearning-platform-release",
        }
    }
    job = {
        "kind": "job",
        "gpu": "L4:1",
        "workload": {"image": "me/app:cu130", "command": "python train.py"},
    }
    plan = planned(market_now, **{**job, "providers": ["gcp"], "options": old})
    assert plan.best is None
    assert any(
        "me/app:cu130 has CUDA 13.0, which wants driver 580 or newer; gcp common-cu128" in text
        for text in refused(plan, "driver")
    )
    assert planned(market_now, **job).best is not None
    assert (
        aws("g6.xlarge", {}).driver == 580
        and aws("g6.xlarge", {"ami": "ami-0123456789abcdef0"}).driver == 0
    )
    assert present(gcp("g2-standard-4", {"image": "projects/me/global/images/mine"})).driver == 0
