"""Workloads: the declaration, and the fit with a placement."""

import base64
import gzip

import pytest

from providers.errors import SpecError
from providers.model.spec import read_cluster
from providers.model.workload import Checkpoint, Override, Task, Training, Workload, with_files
from providers.workloads.launch.compile import program
from providers.workloads.sizing import fit
from tests.present import present
from tests.unit.workload_rig import VLLM


@pytest.mark.parametrize(
    ("workload", "kind", "path", "told"),
    [
        ({}, "job", "workload.command", "a command or a launcher"),
        ({"launcher": "vllm"}, "service", "workload.model", "the model that vllm serves"),
        ({"launcher": "vllm", "model": "x"}, "job", "workload.launcher", "one that ends"),
        ({"launcher": "torchrun"}, "job", "workload.command", "what torchrun starts"),
        ({"command": "serve"}, "service", "workload.port", "the port that the service listens at"),
        ({"launcher": "vlm", "model": "x"}, "service", "workload.launcher", "torchrun"),
        ({"launcher": "torchrun", "command": "a\nb"}, "job", "workload.command", "one line"),
        ({"command": "a", "env": {"A B": "1"}}, "job", "workload.env", "names of letters"),
        (
            {"command": "a", "resume": "--resume"},
            "job",
            "workload.resume",
            "a checkpoint to resume from",
        ),
        (
            {"command": "a", "checkpoint": {"path": "/c", "to": "ftp://x"}},
            "job",
            "workload.checkpoint.to",
            "gs://BUCKET",
        ),
        ({"command": "a", "image": "bad image"}, "job", "workload.image", "a registry image"),
        (
            {"services": [{"name": "a", "command": "x", "gpus": [1], "port": 1}]},
            "service",
            "workload.services[0].gpus",
            "GPUs from 0 to 0",
        ),
        (
            {"services": [{"name": "a", "command": "x", "port": port} for port in (1, 2)]},
            "service",
            "workload.services",
            "each name once",
        ),
        ({"command": "a", "files": {"../x": "y"}}, "job", "workload.files", "without .."),
        ({"command": "a", "args": {"$(x)": 1}}, "job", "workload.args", "names of letters"),
    ],
)
def test_a_wrong_workload_is_told_at_its_path(workload, kind, path, told) -> None:
    """Every rule of the section names the property and what was wanted."""
    with pytest.raises(SpecError) as caught:
        read_cluster("x", {"gpu": "L4:1", "kind": kind, "workload": workload})
    found = {problem.path: problem.wanted for problem in caught.value.problems}
    assert path in found, found
    assert told in found[path]


def test_a_choice_may_change_the_workload_only_where_there_is_one() -> None:
    """dtype, command and args of a fallback entry need a workload to change."""
    with pytest.raises(SpecError, match="a workload to change"):
        read_cluster("x", {"gpu": "H100:8", "fallback": [{"gpu": "A100-80GB:8", "dtype": "bf16"}]})


def test_local_files_stand_in_the_declaration_as_their_content(tmp_path) -> None:
    """A path here becomes the packed content under the path there; a missing file is told by name."""
    (tmp_path / "train.py").write_text("print(1)")
    raw = {
        "gpu": "L4",
        "kind": "job",
        "workload": {"command": "python3 ~/train.py", "files": {"train.py": "~/train.py"}},
    }
    found = with_files(raw, tmp_path)["workload"]["files"]
    assert gzip.decompress(base64.b64decode(found["~/train.py"])) == b"print(1)"
    with pytest.raises(SpecError, match="a plain file"):
        with_files({**raw, "workload": {"command": "x", "files": {"gone.py": "y"}}}, tmp_path)


def test_an_edit_of_the_workload_is_no_other_machine() -> None:
    """What runs is no part of what a machine is."""
    one = read_cluster("x", {"gpu": "L4", "kind": "job", "workload": {"command": "a"}})
    other = read_cluster("x", {"gpu": "L4", "kind": "job", "workload": {"command": "b"}})
    assert one.fingerprint() == other.fingerprint()
    assert (
        program(present(one.ask().workload), "job", "L4", 1).digest
        != program(present(other.ask().workload), "job", "L4", 1).digest
    )


def test_b37_b39_each_choice_is_judged_for_itself() -> None:
    """B37, B39: what can't hold the model is refused with the reason, the fallback as well as the
    first choice.
    """
    assert fit.fit(VLLM, None, "A100", 2, 1).why.startswith("108.1 GiB on each GPU")
    assert fit.fit(VLLM, None, "H100", 4, 1).why == ""
    assert "no fp8" in fit.fit(VLLM, Override(dtype="fp8"), "A100-80GB", 8, 1).why


def test_what_is_not_known_is_not_refused() -> None:
    """A model that is neither bundled nor a size passes: nothing is refused on a guess."""
    unknown = Workload((Task(launcher="vllm", model="somebody/something"),))
    assert fit.fit(unknown, None, "T4", 1, 1) == fit.Fit()


@pytest.mark.parametrize(
    ("image", "gpu", "why"),
    [
        ("pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime", "H100", "11.8 or newer"),
        ("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", "H100", ""),
        ("pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime", "B200", "12.8 or newer"),
        ("nvidia/cuda:13.0.1-runtime-ubuntu24.04", "V100", "dropped V100"),
        ("nvidia/cuda:12.9.1-runtime-ubuntu24.04", "V100", ""),
        ("vllm/vllm-openai:latest", "V100", "dropped V100"),
        ("vllm/vllm-openai:latest-cu129", "V100", ""),
        ("x/y:cu130", "V100", "dropped V100"),
        ("x/y:latest", "B200", ""),
        # Of a major alone the minor is not known.
        ("x/y:cu12", "B200", ""),
        ("x/y:cuda12", "V100", ""),
        ("x/y:cu11", "B200", "has CUDA 11, B200"),
        ("x/y:cuda-13", "V100", "has CUDA 13, which dropped V100"),
        ("nvcr.io/nvidia/pytorch:25.01-py3", "B200", ""),
        ("nvcr.io/nvidia/pytorch:24.12-py3", "B200", "12.8 or newer"),
        ("rocm/pytorch:latest", "H100", "is made for AMD's ROCm, H100 is NVIDIA's"),
        ("rocm/vllm:rocm6.4.1_vllm_0.9.1", "L4", "AMD's ROCm"),
        ("vllm/vllm-openai-rocm:latest", "L4", "AMD's ROCm"),
        ("ollama/ollama:rocm", "RTX-4090", "AMD's ROCm"),
        ("ghcr.io/huggingface/text-generation-inference:3.3.5-rocm", "H200", "AMD's ROCm"),
        ("intel/vllm:xpu", "T4", "Intel's XPU"),
        ("vllm/vllm-tpu:nightly", "H100", "Google's TPU"),
        ("rocm/pytorch:latest", "MI300X", ""),
        ("me/procmon:1", "H100", ""),
    ],
)
def test_an_images_cuda_is_held_against_the_card(image, gpu, why) -> None:
    """By the tag's own words: too old for the card, or a release that dropped it; a tag that says
    nothing passes.
    """
    found = fit.cuda(image, gpu)
    assert (why in found) if why else not found


def test_measured_hours_become_a_jobs_cost() -> None:
    """Five hours on a T4 are about one on an A100, and eight of those share it."""
    run = Workload((Task(command="train"),), training=Training(hours=5, hours_on="T4"))
    one = present(fit.fit(run, None, "A100", 1, 1).job_hours)
    assert 0.8 < one < 1.2
    assert fit.fit(run, None, "A100", 8, 1).job_hours == pytest.approx(one / 8)


def test_model_that_nothing_puts_on_the_machine_is_told_in_the_plan() -> None:
    """A line, no refusal: a disk image may hold it."""
    task = Task(launcher="vllm", model="/models/x", port=9)
    told, _ = fit.unchecked(Workload((task,)))
    assert told.startswith(
        "/models/x is a path on the machine, and nothing puts a model there: setup may fetch it"
    )
    for more in (
        {"setup": ("fetch",)},
        {"image": "me/own:1"},
        {"checkpoint": Checkpoint("/models", "gs://b/x")},
    ):
        assert not [
            line for line in fit.unchecked(Workload((task,), **more)) if "nothing puts" in line
        ]


@pytest.mark.parametrize(
    ("declared", "path"),
    [
        ({"workload": {"command": "  "}}, "workload.command"),
        ({"workload": {"command": "x\ry"}}, "workload.command"),
        ({"workload": {"command": "x", "setup": ["a\0b"]}}, "workload.setup"),
        ({"workload": {"command": "x", "args": {"a": "b\0"}}}, "workload.args.a"),
        ({"workload": {"command": "x", "args": {"a": float("nan")}}}, "workload.args.a"),
        (
            {"workload": {"command": "x", "checkpoint": {"path": "/../etc", "to": "gs://bkt/x"}}},
            "workload.checkpoint.path",
        ),
        (
            {
                "workload": {
                    "command": "x",
                    "checkpoint": {"path": "/c", "to": "gs://bkt/x"},
                    "resume": "a\nb",
                }
            },
            "workload.resume",
        ),
        ({"workload": {"command": "x"}, "nodes": 2, "ready": "running"}, "ready"),
        ({"workload": {"command": "x"}, "nodes": 2, "on_loss": "replace-node"}, "on_loss"),
        (
            {
                "workload": {"command": "x", "port": 80},
                "kind": "service",
                "expose": "token",
                "ready": "running",
            },
            "ready",
        ),
    ],
)
def test_what_no_start_up_script_could_do_is_refused_before_anything_is_bought(
    declared, path
) -> None:
    """A line that holds no line, a number that is none, a path that climbs, and machines that could
    not be told what they wait for: each is named.
    """
    with pytest.raises(SpecError) as told:
        read_cluster("a", {"gpu": "L4:1", "kind": "job", **declared})
    assert path in {problem.path for problem in told.value.problems}


def test_a_gpu_is_pinned_to_one_of_several_services() -> None:
    """Two services on one GPU are refused, by the number of the GPU."""
    both = [
        {"name": name, "command": "x", "port": port, "gpus": [0]}
        for name, port in (("a", 1), ("b", 2))
    ]
    with pytest.raises(SpecError, match="each GPU for one of them"):
        read_cluster("a", {"gpu": "L4:2", "kind": "service", "workload": {"services": both}})
