"""The flags that the user says: each stands on the line once, or is refused."""

from typing import Any

import pytest

from providers.engine import validate
from providers.errors import SpecError
from providers.model.spec import read_cluster
from providers.model.workload import Task, Workload
from providers.workloads.launch.compile import program
from providers.workloads.launch.flags import RUNNERS, given
from tests.unit.flags_rig import LLAMA, said, words


@pytest.mark.parametrize(
    ("launcher", "args", "command", "wanted", "absent"),
    [
        ("vllm", {"max_num_seqs": 4}, "", {"max-num-seqs": "4"}, ()),
        ("vllm", {"gpu_memory_utilization": 0.8}, "", {"gpu-memory-utilization": "0.8"}, ()),
        (
            "vllm",
            {"tensor-parallel-size": 2, "data-parallel-size": 4},
            "",
            {"tensor-parallel-size": "2", "data-parallel-size": "4"},
            (),
        ),
        (
            "vllm",
            {},
            "-tp 4 -pp 2",
            {"tp": "4", "pp": "2"},
            ("tensor-parallel-size", "pipeline-parallel-size"),
        ),
        (
            "vllm",
            {},
            "--quantization fp8 --dtype half",
            {"quantization": "fp8", "dtype": "half"},
            (),
        ),
        ("sglang", {"tp": 4}, "", {"tp": "4"}, ("tp-size",)),
        ("sglang", {"context_length": 512}, "", {"context-length": "512"}, ()),
        ("tgi", {"num_shard": 2}, "", {"num-shard": "2"}, ()),
        ("tgi", {"quantize": "eetq"}, "", {"quantize": "eetq"}, ("dtype",)),
        ("tgi", {"sharded": "false"}, "", {"sharded": "false"}, ("num-shard",)),
        ("llama.cpp", {"tensor-split": "3,1"}, "", {"tensor-split": "3,1"}, ("split-mode",)),
        ("llama.cpp", {}, "-ngl 20 -c 512", {"ngl": "20", "c": "512"}, ()),
        ("llama.cpp", {"n-gpu-layers": 20}, "", {"n-gpu-layers": "20"}, ("ngl",)),
        ("torchrun", {"nproc_per_node": 4}, "", {"nproc-per-node": "4"}, ()),
        (
            "torchrun",
            {"rdzv-backend": "c10d", "rdzv-endpoint": "h:1"},
            "",
            {"rdzv-backend": "c10d"},
            ("standalone",),
        ),
        ("torchrun", {}, "--nproc_per_node=4 train.py --nproc-per-node 3", None, ()),
        ("accelerate", {"num_processes": 4}, "", {"num-processes": "4"}, ()),
        ("accelerate", {"mixed-precision": "no"}, "", {"mixed-precision": "no"}, ()),
        ("accelerate", {"multi_gpu": True}, "", {"multi-gpu": True}, ()),
        ("kohya", {"num_cpu_threads_per_process": 2}, "", {"num-cpu-threads-per-process": "2"}, ()),
        ("deepspeed", {"num_gpus": 4}, "", {"num-gpus": "4"}, ()),
        (
            "deepspeed",
            {"include": "localhost:0,1"},
            "",
            {"include": "localhost:0,1"},
            ("num-gpus",),
        ),
    ],
)
def test_a_flag_of_the_users_stands_once_and_alone(launcher, args, command, wanted, absent) -> None:
    """In each spelling, among `args` and in the command."""
    program_too: dict[str, Any] = {
        "command": (
            f"{command} train.py".strip()
            if launcher in RUNNERS and "train.py" not in command
            else command
        )
    }
    line = words(
        launcher, args=tuple(args.items()), dtype="bf16" if launcher == "tgi" else "", **program_too
    )
    if wanted is None:
        assert line.count("--nproc_per_node=4") == 1 and "--nproc-per-node=8" not in line
        return
    found = said(line)
    assert {name: found.get(name) for name in wanted} == wanted
    assert not set(absent) & set(found)


DISTRIBUTED = [
    ({"config_file": "fsdp.yaml"}, ""),
    ({"config-file": "fsdp.yaml"}, ""),
    ({"use_fsdp": True}, ""),
    ({"use-fsdp": True}, ""),
    ({"use_deepspeed": True}, ""),
    ({"use_deepspeed": True, "deepspeed_config_file": "ds.json"}, ""),
    ({"use_megatron_lm": True}, ""),
    ({"cpu": True}, ""),
    ({}, "--config_file fsdp.yaml "),
    ({}, "--use_fsdp --fsdp_version=2 "),
    ({}, "--use-deepspeed --zero_stage 3 "),
]


@pytest.mark.parametrize(
    ("launcher", "count", "nodes"),
    [("accelerate", 8, 1), ("accelerate", 1, 1), ("accelerate", 8, 2), ("kohya", 8, 1)],
)
@pytest.mark.parametrize(("args", "before"), DISTRIBUTED)
def test_accelerate_is_spread_as_the_user_says(launcher, count, nodes, args, before) -> None:
    """C03: with a configuration file or a plugin's flag there is no `--multi_gpu`; how many
    processes there are is the placement's.
    """
    line = words(
        launcher,
        count=count,
        nodes=nodes,
        args=tuple(args.items()),
        command=f"{before}train.py --use_fsdp false",
    )
    own = line[: line.index("train.py")]
    assert "--multi_gpu" not in own
    assert f"--num_processes={count * nodes}" in own and f"--num_machines={nodes}" in own
    assert ("--machine_rank=$GPUS_NODE_RANK" in own) is (nodes > 1)
    spread = "deepspeed" in str(args) + before or "config" in str(args) + before
    assert ("--deepspeed_multinode_launcher=standard" in own) is (nodes > 1 and spread)


@pytest.mark.parametrize(
    ("args", "multi"), [({}, True), ({"use_fsdp": False}, True), ({"fsdp_version": 2}, True)]
)
def test_accelerate_left_alone_uses_every_gpu(args, multi) -> None:
    """A flag that is left out says nothing; what follows the script is the script's."""
    line = words(
        "accelerate",
        args=tuple(args.items()),
        command="train.py --config_file mine.yaml --use_deepspeed",
    )
    assert ("--multi_gpu" in line) is multi
    assert "--mixed_precision=bf16" in line and "--dynamo_backend=no" in line


@pytest.mark.parametrize("launcher", ["accelerate", "kohya"])
def test_a_configuration_file_keeps_its_number_format_and_its_compilation(launcher) -> None:
    """Each such flag would win over the file (accelerate 1.15, commands/launch.py); a `dtype` of
    the workload is meant to.
    """
    line = words(launcher, args=(("config_file", "c.yaml"),))
    assert not [
        word
        for word in line
        if word.startswith(("--mixed_precision", "--dynamo_backend", "--num_cpu_threads"))
    ]
    assert "--mixed_precision=fp16" in words(
        launcher, args=(("config_file", "c.yaml"),), dtype="fp16"
    )
    by_deepspeed = words(
        launcher, args=(("use_deepspeed", True), ("deepspeed_config_file", "ds.json"))
    )
    assert not [word for word in by_deepspeed if word.startswith("--mixed_precision")]


@pytest.mark.parametrize(
    ("launcher", "task", "todo"),
    [
        ("vllm", {"args": (("port", 9_000),)}, "write port"),
        ("vllm", {"command": "--port 9000"}, "write port"),
        ("sglang", {"args": (("host", "0.0.0.0"),)}, "write expose"),
        ("tgi", {"command": "--hostname=::"}, "write expose"),
        ("llama.cpp", {"args": (("api-key", "x"),)}, "expose: token"),
        ("vllm", {"args": (("api_key", "x"),)}, "expose: token"),
        ("sglang", {"command": "--model-path other/model"}, "write model"),
        ("comfyui", {"command": "--listen"}, "write expose"),
    ],
)
def test_a_servers_flag_that_a_field_says_is_refused_with_that_field(launcher, task, todo) -> None:
    """The health check, the firewall and the login look at the field: a second word could only
    contradict it.
    """
    with pytest.raises(SpecError) as caught:
        words(launcher, gpu="L4", count=1, **task)
    (problem,) = caught.value.problems
    assert todo in problem.todo
    assert "'x'" not in str(caught.value) and "secret" not in problem.found


@pytest.mark.parametrize("launcher", sorted({"torchrun", "accelerate", "deepspeed", "lightning"}))
def test_what_a_users_program_takes_is_its_own(launcher) -> None:
    """Its port, model and host are no flags of the launcher's."""
    assert "--port" in words(launcher, command="train.py --port 1 --model x --host y")
    assert set(given(Task(launcher=launcher, command="--a 1 --b=2 -m pkg.train --c 3"))) == {
        "a",
        "b",
    }
    assert set(given(Task(launcher=launcher, command="./run.sh --c 3"))) == set()


@pytest.mark.parametrize(
    ("override", "path", "todo"),
    [
        ({"args": {"tp": 2}}, "fallback[0].args.tp", "write a command here too"),
        (
            {"args": {"tp": 2, "tensor-parallel-size": 2}, "command": "--seed 1"},
            "fallback[0].args.tensor-parallel-size",
            "leave one out",
        ),
        ({"args": {"port": 9}}, "fallback[0].args.port", "write port"),
        ({"args": {"max-batch-size": 9}}, "fallback[0].args.max-batch-size", "max-num-seqs"),
        ({"command": "--seed '1"}, "fallback[0].command", "close the quote"),
    ],
)
def test_what_is_wrong_with_the_flags_of_a_choice_is_told_there(override, path, todo) -> None:
    """A fallback's flags are read as those of the workload are."""
    serves = {"launcher": "vllm", "model": LLAMA, "command": "--tensor-parallel-size 4"}
    raw = {
        "kind": "service",
        "gpu": "H100:8",
        "fallback": [{"gpu": "A100-80GB:8", **override}],
        "workload": serves,
    }
    problems = validate.refused(read_cluster("serve", raw))
    assert [problem.path for problem in problems] == [path] and todo in problems[0].todo


@pytest.mark.parametrize("launcher", ["vllm", "tgi", "torchrun", "comfyui"])
@pytest.mark.parametrize("command", ["train.py --name 'unclosed", 'x.py --x "y', "x.py \\"])
def test_a_command_with_a_quote_that_nothing_closes_is_refused(launcher, command) -> None:
    """The shell would end at it, once the machine is bought."""
    with pytest.raises(SpecError, match="words that the shell can read"):
        words(launcher, gpu="L4", count=1, command=command)


@pytest.mark.parametrize("launcher", ["vllm", "sglang", "tgi", "llama.cpp"])
def test_a_model_in_the_home_folder_is_found_there(launcher) -> None:
    """`'~/models/x'` in quotes is a name that nobody publishes; the rest of it is a word of the
    shell all the same.
    """
    made = Workload((Task(launcher=launcher, model="~/models/it's.gguf"),))
    line = program(made, "service", "L4", 1).processes[0].line
    assert """ "$HOME"/'models/it'"'"'s.gguf' """ in line
