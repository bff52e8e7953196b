"""The flags of the launchers' lines: what the plan counts on is on the line, and what the user says
is said once.
"""

import shlex

import pytest

from providers.engine import validate
from providers.errors import SpecError
from providers.model.spec import read_cluster
from providers.model.workload import Override, Task, Workload
from providers.workloads.sizing import fit, memory
from providers.workloads.launch.compile import program
from providers.workloads.sizing.flag_effects import settled
from providers.workloads.launch.flags import RUNNERS, given, spelled
from providers.workloads.launch.recipes import RECIPES

LLAMA = "meta-llama/Llama-3.1-8B"
UNKNOWN = "someone/unknown"


def words(launcher, gpu="H100", count=8, nodes=1, expose="private", override=None, **task):
    """The line's own words, without variables that are set before it."""
    given_task = {"command": "train.py --epochs 3"} if launcher in RUNNERS else {"model": LLAMA}
    kind = "job" if launcher in RUNNERS else "service"
    work = Workload((Task(launcher=launcher, **{**given_task, **task}),))
    return shlex.split(
        program(work, kind, gpu, count, nodes, expose=expose, override=override).processes[0].line
    )


def said(line):
    """{flag: value} of a line, as far as its script; a flag that stands there twice is an error."""
    line = line[: line.index("train.py")] if "train.py" in line else line
    flags = [
        word.partition("=")[0]
        for word in line
        if word.startswith("-") and word.lstrip("-")[:1].isalpha()
    ]
    plain = [flag.lstrip("-").replace("_", "-") for flag in flags]
    assert len(set(plain)) == len(plain), line
    return spelled(line)


# What the plan counts on


@pytest.mark.parametrize(
    ("launcher", "task", "wanted"),
    [
        (
            "vllm",
            {"dtype": "bf16", "context": 32_768, "concurrency": 8, "port": 9_000},
            {
                "host": "127.0.0.1",
                "port": "9000",
                "tensor-parallel-size": "8",
                "dtype": "bfloat16",
                "gpu-memory-utilization": "0.9",
            }
            | {"max-model-len": "32768", "max-num-seqs": "8"},
        ),
        (
            "vllm",
            {"dtype": "fp8"},
            {
                "quantization": "fp8",
                "max-model-len": "8192",
                "gpu-memory-utilization": str(memory.USABLE),
            },
        ),
        ("vllm", {"dtype": "awq"}, {"quantization": "awq", "dtype": "auto"}),
        ("vllm", {"dtype": "nf4"}, {"quantization": "bitsandbytes"}),
        (
            "sglang",
            {"dtype": "fp16", "context": 4_096, "concurrency": 4},
            {
                "tp-size": "8",
                "dtype": "half",
                "context-length": "4096",
                "max-running-requests": "4",
                "host": "127.0.0.1",
                "port": "30000",
            },
        ),
        ("sglang", {"dtype": "gptq"}, {"quantization": "gptq", "context-length": "8192"}),
        (
            "tgi",
            {"dtype": "bf16", "context": 4_096, "concurrency": 4},
            {
                "num-shard": "8",
                "dtype": "bfloat16",
                "max-total-tokens": "4096",
                "max-concurrent-requests": "4",
                "hostname": "127.0.0.1",
                "port": "8080",
            },
        ),
        ("tgi", {"dtype": "nf4"}, {"quantize": "bitsandbytes-nf4"}),
        ("tgi", {"dtype": "int8"}, {"quantize": "eetq"}),
        (
            "llama.cpp",
            {"dtype": "q8_0", "context": 4_096, "concurrency": 4},
            {
                "hf": f"{LLAMA}:Q8_0",
                "c": "16384",
                "parallel": "4",
                "ngl": "999",
                "split-mode": "layer",
                "tensor-split": "1,1,1,1,1,1,1,1",
            }
            | {"host": "127.0.0.1", "port": "8080"},
        ),
        ("llama.cpp", {}, {"hf": LLAMA, "c": "8192"}),
        ("llama.cpp", {"dtype": "fp16"}, {"hf": f"{LLAMA}:F16"}),
        ("llama.cpp", {"dtype": "q8_0", "model": "a/b:Q8_K_XL"}, {"hf": "a/b:Q8_K_XL"}),
    ],
)
def test_what_the_plan_counts_on_is_on_the_line(launcher, task, wanted):
    """Split, number format, share of the memory, context, sequences, address: a default of the
    program's own is another one than the plan's.
    """
    found = said(words(launcher, **task))
    assert {name: found.get(name) for name in wanted} == wanted


def test_ollama_is_told_by_its_environment():
    """It has no flags for these."""
    line = words("ollama", gpu="L4", count=1, context=4_096, concurrency=4)
    assert {"context=4096", "parallel=4", "listen=127.0.0.1", "port=11434"} <= set(line)
    assert "context=" in words(
        "ollama", gpu="L4", count=1, context=4_096, env=(("OLLAMA_CONTEXT_LENGTH", "512"),)
    )
    assert "context=8192" in words("ollama", gpu="L4", count=1)


@pytest.mark.parametrize("launcher", ["vllm", "sglang", "tgi", "llama.cpp"])
def test_a_server_is_given_the_context_that_was_judged(launcher):
    """Left to itself it takes all that its model knows, and ends where the cache of that does not
    fit. Of an unknown model nobody assumed one.
    """
    flag = {
        "vllm": "max-model-len",
        "sglang": "context-length",
        "tgi": "max-total-tokens",
        "llama.cpp": "c",
    }[launcher]
    assert said(words(launcher, gpu="L4", count=1))[flag] == "8192"
    assert flag not in said(words(launcher, gpu="L4", count=1, model=UNKNOWN))


@pytest.mark.parametrize(
    ("launcher", "args", "command", "fields"),
    [
        ("vllm", {"max-model-len": 1_000_000}, "", {"context": 1_000_000}),
        (
            "vllm",
            {"max_model_len": 512, "max_num_seqs": "2"},
            "",
            {"context": 512, "concurrency": 2},
        ),
        ("vllm", {}, "--max-model-len=512 --max-num-seqs 2", {"context": 512, "concurrency": 2}),
        ("vllm", {"dtype": "half"}, "", {"dtype": "fp16"}),
        ("vllm", {"quantization": "awq_marlin"}, "", {"dtype": "awq"}),
        ("vllm", {}, "-q fp8", {"dtype": "fp8"}),
        ("vllm", {"max-model-len": "auto", "dtype": "auto"}, "", {"context": 64, "dtype": "bf16"}),
        (
            "sglang",
            {"context_length": 512},
            "--max-running-requests 3",
            {"context": 512, "concurrency": 3},
        ),
        (
            "tgi",
            {"max-total-tokens": 512, "quantize": "bitsandbytes-nf4"},
            "",
            {"context": 512, "dtype": "nf4"},
        ),
        ("llama.cpp", {"ctx-size": 4_096, "parallel": 4}, "", {"context": 1_024, "concurrency": 4}),
        ("llama.cpp", {}, "-c 4096 -np 2", {"context": 2_048, "concurrency": 2}),
        (
            "torchrun",
            {"dtype": "half"},
            "train.py --max-model-len 5",
            {"context": 64, "dtype": "bf16"},
        ),
    ],
)
def test_a_flag_of_the_users_is_what_the_plan_counts_on(launcher, args, command, fields):
    """It runs, so it is also what is judged: the field stands back."""
    found = settled(
        Task(launcher=launcher, command=command, args=tuple(args.items()), context=64, dtype="bf16")
    )
    assert {name: getattr(found, name) for name in fields} == fields


def test_a_context_that_does_not_fit_is_refused_also_as_a_flag():
    """Of the workload and of a fallback entry's own args."""
    task = Task(launcher="vllm", model=LLAMA, args=(("max-model-len", 131_072),), concurrency=64)
    assert "are usable" in fit.fit(Workload((task,)), None, "L4", 1, 1).why
    task = Task(launcher="vllm", model=LLAMA, context=4_096)
    assert fit.fit(Workload((task,)), None, "L4", 1, 1).why == ""
    assert (
        "are usable"
        in fit.fit(Workload((task,)), Override(args=(("max_model_len", 131_072),)), "L4", 1, 1).why
    )


# What the user says


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
def test_a_flag_of_the_users_stands_once_and_alone(launcher, args, command, wanted, absent):
    """In each spelling, among `args` and in the command."""
    program_too = {
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
def test_accelerate_is_spread_as_the_user_says(launcher, count, nodes, args, before):
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
def test_accelerate_left_alone_uses_every_gpu(args, multi):
    """A flag that is left out says nothing; what follows the script is the script's."""
    line = words(
        "accelerate",
        args=tuple(args.items()),
        command="train.py --config_file mine.yaml --use_deepspeed",
    )
    assert ("--multi_gpu" in line) is multi
    assert "--mixed_precision=bf16" in line and "--dynamo_backend=no" in line


@pytest.mark.parametrize("launcher", ["accelerate", "kohya"])
def test_a_configuration_file_keeps_its_number_format_and_its_compilation(launcher):
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
def test_a_servers_flag_that_a_field_says_is_refused_with_that_field(launcher, task, todo):
    """The health check, the firewall and the login look at the field: a second word could only
    contradict it.
    """
    with pytest.raises(SpecError) as caught:
        words(launcher, gpu="L4", count=1, **task)
    (problem,) = caught.value.problems
    assert todo in problem.todo
    assert "'x'" not in str(caught.value) and "secret" not in problem.found


@pytest.mark.parametrize("launcher", sorted({"torchrun", "accelerate", "deepspeed", "lightning"}))
def test_what_a_users_program_takes_is_its_own(launcher):
    """Its port, model and host are no flags of the launcher's."""
    assert "--port" in words(launcher, command="train.py --port 1 --model x --host y")
    assert set(given(Task(launcher=launcher, command="--a 1 --b=2 -m pkg.train --c 3"))) == {
        "a",
        "b",
    }
    assert set(given(Task(launcher=launcher, command="./run.sh --c 3"))) == set()


def test_every_launcher_is_a_server_or_runs_a_program():
    """Which of the two decides whose flags a command holds."""
    assert {name for name, recipe in RECIPES.items() if not recipe.port} == RUNNERS


@pytest.mark.parametrize(
    ("launcher", "args", "wanted"),
    [
        ("vllm", {"tp": 2}, "-tp 2"),
        ("vllm", {"max_num_seqs": 4}, "--max-num-seqs 4"),
        ("sglang", {"tp": 2}, "--tp 2"),
        ("sglang", {"context_length": 512}, "--context-length 512"),
        ("tgi", {"num_shard": 2}, "--num-shard 2"),
        ("llama.cpp", {"ngl": 20}, "-ngl 20"),
        ("llama.cpp", {"c": 512}, "-c 512"),
        ("llama.cpp", {"cmoe": True}, "-cmoe"),
        ("llama.cpp", {"rpc": "10.0.0.2:50052"}, "--rpc 10.0.0.2:50052"),
        ("llama.cpp", {"n_gpu_layers": 20}, "--n-gpu-layers 20"),
        ("torchrun", {"nproc_per_node": 2}, "--nproc_per_node=2"),
        ("deepspeed", {"num-gpus": 2}, "--num_gpus=2"),
    ],
)
def test_a_flag_is_spelled_as_its_program_knows_it(launcher, args, wanted):
    """`--tp` is none of vLLM's, `--ngl` none of llama.cpp's, `--context_length` none of SGLang's:
    each would end the program at its start.
    """
    assert f" {wanted}" in " ".join(words(launcher, args=tuple(args.items())))


@pytest.mark.parametrize(
    ("args", "command", "changed", "tensor", "flags"),
    [
        (
            {"tensor-parallel-size": 4},
            "",
            {"tensor_parallel_size": 2},
            2,
            ["--tensor-parallel-size 2"],
        ),
        (
            {"tensor_parallel_size": 4, "seed": 1},
            "",
            {"tensor-parallel-size": 2},
            2,
            ["--tensor-parallel-size 2", "--seed 1"],
        ),
        (
            {"tensor-parallel-size": 4},
            "--tensor-parallel-size 2",
            {},
            2,
            ["--tensor-parallel-size 2"],
        ),
        ({}, "--tensor-parallel-size 4 --tensor-parallel-size=2", {}, 2, []),
    ],
)
def test_of_two_words_for_one_flag_the_last_on_the_line_counts(
    args, command, changed, tensor, flags
):
    """A choice's own takes the place of the workload's, however it is spelled; a command follows
    `args`.
    """
    task = Task(
        launcher="vllm", model=LLAMA, args=tuple(args.items()), command=command, context=512
    )
    override = Override(args=tuple(changed.items()))
    assert fit.fit(Workload((task,)), override, "H100", 8, 1).verdict.layout.tensor == tensor
    line = program(Workload((task,)), "service", "H100", 8, override=override).processes[0].line
    assert all(flag in line for flag in flags) and ("--tensor-parallel-size 4" in line) is (
        "size 4" in command
    )


@pytest.mark.parametrize(
    ("launcher", "args", "command", "changed", "flags", "absent"),
    [
        (
            "vllm",
            {"tensor-parallel-size": 4},
            "",
            {"tp": 2},
            ["-tp 2"],
            ["--tensor-parallel-size", "-tp 4"],
        ),
        ("vllm", {"tp": 4}, "", {"tensor_parallel_size": 2}, ["--tensor-parallel-size 2"], ["-tp"]),
        ("vllm", {"tp": 4}, "--tensor-parallel-size 2", {}, ["--tensor-parallel-size 2"], ["-tp"]),
        ("vllm", {"quantization": "fp8"}, "-q awq", {}, ["-q awq"], ["--quantization"]),
        (
            "vllm",
            {"tp": 4},
            "",
            {"tensor-parallel-size": False},
            [],
            ["-tp", "--tensor-parallel-size 4"],
        ),
        (
            "sglang",
            {"tensor-parallel-size": 4},
            "",
            {"tp": 2},
            ["--tp 2"],
            ["--tensor-parallel-size"],
        ),
        ("sglang", {"tp_size": 4}, "--tp 2", {}, ["--tp 2"], ["--tp-size"]),
        ("tgi", {"num-shard": 4}, "--num-shard 2", {}, ["--num-shard 2"], ["--num-shard 4"]),
        ("llama.cpp", {"n-gpu-layers": 4}, "", {"ngl": 2}, ["-ngl 2"], ["--n-gpu-layers"]),
        ("llama.cpp", {"ctx-size": 512}, "-c 256", {}, ["-c 256"], ["--ctx-size"]),
        (
            "accelerate",
            {"num_processes": 4},
            "--num-processes=2 train.py",
            {},
            ["--num-processes=2"],
            ["--num_processes"],
        ),
    ],
)
def test_two_names_of_one_flag_reach_the_line_once(launcher, args, command, changed, flags, absent):
    """Whether `args`, the command or a choice names it: what takes the other's place stands there
    alone.
    """
    task = {"args": tuple(args.items()), **({"command": command} if command else {})}
    line = " ".join(words(launcher, override=Override(args=tuple(changed.items())), **task))
    assert all(f" {flag}" in line for flag in flags) and not any(
        f" {flag}" in line for flag in absent
    ), line


@pytest.mark.parametrize(
    ("launcher", "args"),
    [
        ("vllm", {"tp": 2, "tensor-parallel-size": 2}),
        ("sglang", {"tp": 2, "tp_size": 2}),
        ("llama.cpp", {"ngl": 1, "gpu-layers": 2}),
    ],
)
def test_two_names_of_one_flag_are_refused(launcher, args):
    """Nobody knows which was meant."""
    first, second = args
    with pytest.raises(
        SpecError,
        match=rf"workload.args.{second}: wanted each flag of {launcher} once, found {first} too",
    ):
        words(launcher, args=tuple(args.items()))


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
def test_what_is_wrong_with_the_flags_of_a_choice_is_told_there(override, path, todo):
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


@pytest.mark.parametrize(
    ("launcher", "flag"), [("accelerate", "mixed_precision"), ("kohya", "mixed-precision")]
)
def test_a_training_runs_number_format_is_that_of_its_flag(launcher, flag):
    """fp8 begins with Ada; `no` is 32 bit."""
    task = Task(launcher=launcher, command="train.py", args=((flag, "fp8"),))
    assert "no fp8" in fit.fit(Workload((task,)), None, "A100", 8, 1).why
    assert fit.fit(Workload((task,)), None, "H100", 8, 1).why == ""
    assert settled(task._replace(args=((flag, "no"),))).dtype == "fp32"
    assert settled(task._replace(args=(), command="train.py --mixed_precision fp8")).dtype == ""


@pytest.mark.parametrize("launcher", ["vllm", "tgi", "torchrun", "comfyui"])
@pytest.mark.parametrize("command", ["train.py --name 'unclosed", 'x.py --x "y', "x.py \\"])
def test_a_command_with_a_quote_that_nothing_closes_is_refused(launcher, command):
    """The shell would end at it, once the machine is bought."""
    with pytest.raises(SpecError, match="words that the shell can read"):
        words(launcher, gpu="L4", count=1, command=command)


@pytest.mark.parametrize("launcher", ["vllm", "sglang", "tgi", "llama.cpp"])
def test_a_model_in_the_home_folder_is_found_there(launcher):
    """`'~/models/x'` in quotes is a name that nobody publishes; the rest of it is a word of the
    shell all the same.
    """
    made = Workload((Task(launcher=launcher, model="~/models/it's.gguf"),))
    line = program(made, "service", "L4", 1).processes[0].line
    assert """ "$HOME"/'models/it'"'"'s.gguf' """ in line
