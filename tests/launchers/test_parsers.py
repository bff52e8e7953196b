"""The lines of the recipes before the programs' own argument parsers: nothing that we write is a
flag which the program does not know.

Each needs the program; where it is not installed its flags stand as its documentation has them, and
the test says so by being skipped.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from providers.model.workload import Task, Workload
from providers.workloads.launch.compile import program

MODEL = "meta-llama/Llama-3.1-8B"
VLLM = """
import vllm.platforms as platforms
from vllm.platforms.cpu import CpuPlatform
platforms.current_platform = CpuPlatform()  # a parser has defaults for a device; here is no GPU to find
from vllm.entrypoints.common.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
def read(words):
    assert words[0] == "serve", words
    return parser.parse_args(words[1:])
"""
SGLANG = """
import argparse
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
def read(words):
    assert words[:2] == ["-m", "sglang.launch_server"], words
    return parser.parse_args(words[2:])
"""
TORCHRUN = """
from torch.distributed.run import get_args_parser
read = get_args_parser().parse_args
"""
ACCELERATE = """
from accelerate.commands.launch import launch_command_parser
parser = launch_command_parser()
def read(words):
    assert words[0] == "launch", words
    return parser.parse_args(words[1:])
"""
DEEPSPEED = """
from deepspeed.launcher.runner import parse_args
read = parse_args
"""
ASKED = (
    "import json, sys\nfor line in sys.stdin:\n    print('GPUS',"
    " json.dumps(vars(read(json.loads(line))), default=str))\n"
)


def parsed(folder, called, reader, lines):
    """What the program's own parser makes of each line, as `bash -c` hands it over; skipped where
    the program is not there.
    """
    found = shutil.which(called)
    if found is None:
        pytest.skip(f"needs {called}, which is not installed")
    here = folder / "bin"
    here.mkdir(exist_ok=True)
    keep = (
        'import json, os, sys; open(os.environ["SEEN"], "a").write(json.dumps(sys.argv[1:]) +'
        ' "\\n")'
    )
    for name in {
        line.partition(" ")[0]
        for line in ("vllm x", "python3 x", "torchrun x", "accelerate x", "deepspeed x")
    }:
        path = here / name
        path.write_text(f"#!/bin/bash\nexec {sys.executable} -c '{keep}' \"$@\"\n")
        path.chmod(0o755)
    (folder / "peers").write_text("10.0.0.1\n10.0.0.2\n")
    environment = {
        **os.environ,
        "PATH": f"{here}:{os.environ['PATH']}",
        "SEEN": str(folder / "seen"),
        "GPUS_ROOT": str(folder),
        "GPUS_LEADER": "10.0.0.1",
        "GPUS_NODE_RANK": "1",
        "GPUS_TOKEN": "secret-token",
    }
    for line in lines:
        subprocess.run(["bash", "-c", line], env=environment, check=True)
    seen = (folder / "seen").read_text()
    assert "secret-token" not in seen
    done = subprocess.run(
        [str(Path(found).parent / "python3"), "-c", reader + ASKED],
        input=seen,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    told = [
        json.loads(text.removeprefix("GPUS "))
        for text in done.stdout.splitlines()
        if text.startswith("GPUS ")
    ]
    assert len(told) == len(lines), done.stderr[-2_000:]
    return told


def line(launcher, gpu="H100", count=8, nodes=1, expose="private", **task):
    kind = "service" if launcher in {"vllm", "sglang"} else "job"
    given = {"model": MODEL} if kind == "service" else {"command": "train.py --epochs 3"}
    return (
        program(
            Workload((Task(launcher=launcher, **{**given, **task}),)),
            kind,
            gpu,
            count,
            nodes,
            expose=expose,
        )
        .processes[0]
        .line
    )


SERVED = [
    {"dtype": dtype, "context": 32_768, "concurrency": 16}
    for dtype in ("", "bf16", "fp16", "fp32", "fp8", "awq", "gptq")
]


def test_vllm_knows_every_flag(tmp_path) -> None:
    """In every dtype, split over GPUs in three ways and over nodes, with a token and with the user's own
    arguments.
    """
    lines = [line("vllm", **each) for each in SERVED]
    lines += [
        line("vllm", count=8, expose="token"),
        line("vllm", model="someone/unknown", count=4, args=(("enable-prefix-caching", True),)),
    ]
    lines += [
        line(
            "vllm",
            count=4,
            model="meta-llama/Llama-3.1-70B",
            dtype="bf16",
            args=(("gpu-memory-utilization", 0.8),),
        )
    ]
    large = {"model": "meta-llama/Llama-3.1-405B", "nodes": 2}
    *found, second = parsed(tmp_path, "vllm", VLLM, [*lines, line("vllm", **large)])
    assert (second["nnodes"], second["node_rank"], second["headless"]) == (2, 1, True)
    assert (second["master_addr"], second["pipeline_parallel_size"]) == ("10.0.0.1", 2)
    assert {each["max_model_len"] for each in found[: len(SERVED)]} == {32_768}
    assert [each["quantization"] for each in found[4:7]] == ["fp8", "awq", "gptq"]
    assert [each["dtype"] for each in found[1:4]] == ["bfloat16", "half", "float32"]
    assert (
        found[-1]["tensor_parallel_size"]
        * found[-1]["pipeline_parallel_size"]
        * found[-1]["data_parallel_size"]
        == 4
    )
    assert found[-2]["enable_prefix_caching"] is True
    assert {each["host"] for each in found} == {"127.0.0.1", "0.0.0.0"}


def test_sglang_knows_every_flag(tmp_path) -> None:
    """In every dtype, split over GPUs, and over nodes."""
    lines = [line("sglang", **each) for each in SERVED]
    lines += [
        line(
            "sglang",
            model="meta-llama/Llama-3.1-70B",
            dtype="bf16",
            args=(("mem-fraction-static", 0.8),),
        )
    ]
    large = {"model": "meta-llama/Llama-3.1-405B", "nodes": 2}
    *found, second = parsed(tmp_path, "sglang", SGLANG, [*lines, line("sglang", **large)])
    assert (second["nnodes"], second["node_rank"], second["pp_size"]) == (2, 1, 2)
    assert second["dist_init_addr"] == "10.0.0.1:29500"
    assert {each["context_length"] for each in found[: len(SERVED)]} == {32_768}
    assert found[-1]["tp_size"] * found[-1]["pp_size"] * found[-1]["dp_size"] == 8
    assert found[-1]["mem_fraction_static"] == 0.8


def test_torchrun_knows_every_flag(tmp_path) -> None:
    """On one machine, over two, for Lightning, and with the user's own arguments; the script's
    arguments stay the script's.
    """
    lines = [
        line("torchrun"),
        line("torchrun", nodes=2, args=(("max-restarts", 2),)),
        line("lightning", nodes=2),
    ]
    one, two, lightning = parsed(tmp_path, "torchrun", TORCHRUN, lines)
    assert (one["standalone"], one["nproc_per_node"]) == (True, "8")
    assert (two["nnodes"], two["node_rank"], two["master_addr"], two["max_restarts"]) == (
        "2",
        1,
        "10.0.0.1",
        2,
    )
    assert {each["training_script"] for each in (one, two, lightning)} == {"train.py"}
    assert two["training_script_args"] == ["--epochs", "3"]


def test_accelerate_knows_every_flag(tmp_path) -> None:
    """On one machine and over two, in each precision, and as Kohya's scripts are started."""
    lines = [
        line("accelerate"),
        line("accelerate", nodes=2, dtype="fp16"),
        line("accelerate", count=1, dtype="fp32"),
        line("kohya"),
    ]
    one, two, single, kohya = parsed(tmp_path, "accelerate", ACCELERATE, lines)
    assert (one["num_processes"], one["multi_gpu"], one["mixed_precision"]) == (8, True, "bf16")
    assert (
        two["num_processes"],
        two["num_machines"],
        two["machine_rank"],
        two["main_process_ip"],
    ) == (16, 2, 1, "10.0.0.1")
    assert (single["multi_gpu"], single["mixed_precision"]) == (False, "no")
    assert kohya["num_cpu_threads_per_process"] == 1


def test_deepspeed_knows_every_flag(tmp_path) -> None:
    """On one machine, and over two with the hosts that the engine told it of."""
    one, two = parsed(
        tmp_path, "deepspeed", DEEPSPEED, [line("deepspeed"), line("deepspeed", nodes=2)]
    )
    assert (one["num_gpus"], one["user_script"]) == (8, "train.py")
    assert (two["node_rank"], two["master_addr"], two["no_ssh"]) == (1, "10.0.0.1", True)
    assert (tmp_path / "hostfile").read_text() == "10.0.0.1 slots=8\n10.0.0.2 slots=8\n"
