"""What a plan says of a fit that it cannot know, and of one that it refuses; and that one fault is
one problem.
"""

import json
from typing import Any

import pytest

from providers.cli import main
from providers.errors import SpecError
from providers.model.spec import read_cluster
from providers.planner import render
from providers.workloads.sizing import fit
from tests.present import present
from tests.unit.hosting_rig import LLAMA_70B, planned


def problems(**declared):
    with pytest.raises(SpecError) as caught:
        read_cluster("t", {"gpu": "L4:1", **declared})
    return [problem.path for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("workload", "kind", "told"),
    [
        (
            {"launcher": "vllm", "model": "foo/huge-400b"},
            "service",
            "no configuration of foo/huge-400b is known; `gpus size PATH/config.json --serve`",
        ),
        (
            {"launcher": "sglang", "model": "/models/mine"},
            "service",
            "no configuration of /models/mine is known",
        ),
        (
            {"launcher": "ollama", "model": "llama3.1:70b"},
            "service",
            "`gpus size SIZE --serve --dtype q4_k_m`, SIZE as in 8b,",
        ),
        (
            {"launcher": "llama.cpp", "model": "someone/Model-GGUF"},
            "service",
            "no configuration of someone/Model-GGUF is known; `gpus size SIZE",
        ),
        (
            {
                "launcher": "torchrun",
                "command": "t.py",
                "model": "foo/bar",
                "train": {"method": "lora", "tokens": "1B"},
            },
            "job",
            "`gpus size PATH/config.json --train lora`",
        ),
        (
            {"launcher": "torchrun", "command": "t.py", "model": "meta-llama/Llama-3.1-8B"},
            "job",
            "workload.train says how it is trained",
        ),
    ],
)
def test_a_fit_that_is_not_known_is_one_line(market_now, workload, kind, told) -> None:
    """On L4:1 a model of 400B gave a clean plan: nothing is refused on a guess, and that nothing
    was checked is said, once.
    """
    plan = planned(market_now, gpu="L4:1", kind=kind, workload=workload)
    assert plan.candidates
    (line,) = [text for text in plan.warnings if text.startswith("fit not checked: ")]
    assert told in line
    assert " ".join(render.as_text(plan).split()).count("fit not checked") == 1
    assert line in render.as_json(plan)["summary"]["warnings"] and line in render.as_markdown(plan)


@pytest.mark.parametrize(
    ("workload", "kind"),
    [
        ({"command": "python train.py"}, "job"),
        ({"launcher": "comfyui"}, "service"),
        ({"launcher": "vllm", "model": "meta-llama/Llama-3.2-1B"}, "service"),
        (
            {
                "launcher": "torchrun",
                "command": "t.py",
                "model": "foo/bar",
                "train": {"hours": {"L4": 5}},
            },
            "job",
        ),
    ],
)
def test_what_is_known_or_has_no_model_needs_no_line(market_now, workload, kind) -> None:
    """A command, a launcher without a model, a bundled model, and hours that were measured."""
    assert not [
        text
        for text in planned(market_now, gpu="L4:1", kind=kind, workload=workload).warnings
        if "fit not checked" in text
    ]


def test_each_of_several_services_is_said_for_itself() -> None:
    """Two unknown models are two lines, the same one twice is one."""
    models = [
        {"name": name, "launcher": "vllm", "model": model}
        for name, model in (("a", "foo/a"), ("b", "foo/b"), ("c", "foo/a"))
    ]
    services: list[dict[str, Any]] = [
        {**each, "port": 8000 + number, "gpus": [number]} for number, each in enumerate(models)
    ]
    ask = read_cluster(
        "t", {"kind": "service", "gpu": "L4:4", "workload": {"services": services}}
    ).ask()
    assert [text.split()[6] for text in fit.unchecked(present(ask.workload))] == ["foo/a", "foo/b"]


def test_the_command_line_and_its_json_say_it(tmp_path, monkeypatch, capsys) -> None:
    """`gpus plan -s` of a stack with an unknown model, as text and as JSON."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: x\nruntime: python\n")
    (tmp_path / "Pulumi.big.yaml").write_text(
        "config:\n  gpus:world: rehearsal\n  gpus:clusters:\n    t:\n      kind: service\n     "
        " gpu: L4:1\n      providers: [gcp]\n      workload: {launcher: vllm, model:"
        " foo/huge-400b}\n"
    )
    assert main.main(["plan", "-s", "big"]) == 0
    assert "fit not checked: no configuration of foo/huge-400b is known" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main.main(["plan", "-s", "big", "--json"]) == 0
    assert "fit not checked: no configuration of foo/huge-400b is known" in json.dumps(
        json.loads(capsys.readouterr().out)
    )


@pytest.mark.parametrize(
    ("gpus", "told"),
    [
        (["H100:1", "L4:1"], "H100:1: 134.9 GiB on each GPU (weights 131.4"),
        (["A100:2", "H100:1"], "A100:2: "),
        (["L4:8", "T4:4"], "L4:8: "),
    ],
)
def test_a_refusal_by_fit_speaks_of_the_first_choice(market_now, gpus, told) -> None:
    """With the GPU that was asked first, the figures, and what would hold it; also where another
    row comes first in the list.
    """
    plan = planned(
        market_now,
        gpu=gpus,
        workload={**LLAMA_70B, "context": 4096 if gpus[0] != "L4:8" else 100_000},
    )
    assert plan.best is None
    text = " ".join(render.as_text(plan, width=10_000).split())
    said = text.partition("refused by the rule fit: ")[2]
    assert said.startswith(told) and "are usable" in said and "would hold it" in said


def test_what_is_proposed_holds_it() -> None:
    """More of the same card, and the smallest other card, each judged as the refused one was."""
    ask = read_cluster("t", {"kind": "service", "gpu": "H100:1", "workload": LLAMA_70B}).ask()
    found = fit.fit(present(ask.workload), None, "H100", 1, 1)
    assert found.remedy == "H100:2 or B200:1 would hold it"
    for gpu, count in (("H100", 2), ("B200", 1)):
        assert fit.fit(present(ask.workload), None, gpu, count, 1).why == ""
    big = read_cluster(
        "t",
        {
            "kind": "service",
            "gpu": "L4:1",
            "workload": {"launcher": "vllm", "model": "deepseek-ai/DeepSeek-V3"},
        },
    ).ask()
    assert fit.fit(present(big.workload), None, "L4", 1, 1).remedy == "H200:8 would hold it"


@pytest.mark.parametrize(
    ("written", "tokens"),
    [
        ("32k", 32_768),
        ("32K", 32_768),
        (" 8k ", 8_192),
        ("8192", 8_192),
        (32_768.0, 32_768),
        ("1m", 1_000_000),
        ("0.5k", 512),
    ],
)
def test_a_context_is_written_as_for_gpus_size(written, tokens) -> None:
    """`context: 32k` in a stack is what `gpus size --context 32k` means; so is a training sequence."""
    declared = {
        "gpu": "L4:1",
        "kind": "service",
        "workload": {**LLAMA_70B, "context": written, "train": {"sequence": written}},
    }
    workload = present(read_cluster("t", declared).ask().workload)
    assert workload.tasks[0].context == tokens and present(workload.training).sequence == tokens


@pytest.mark.parametrize(
    "written", ["32q", "k", "", "-1k", 0, True, "1e3", "0k", [1], "9" * 400 + "k"]
)
def test_a_context_that_is_none_is_one_problem(written) -> None:
    """One fault never causes a second, false one, whatever else hangs on the workload."""
    rest = {
        "kind": "service",
        "expose": "token",
        "disk_gib": 200,
        "rank": "price",
        "fallback": [{"gpu": "A10:1", "dtype": "awq"}],
    }
    assert problems(**rest, workload={**LLAMA_70B, "context": written}) == ["workload.context"]
    assert problems(
        **rest, workload={"services": [{"name": "a", **LLAMA_70B, "context": written}]}
    ) == ["workload.services[0].context"]


@pytest.mark.parametrize(
    ("declared", "paths"),
    [
        ({"kind": "jobb", "workload": {"command": "x"}, "expose": "token"}, ["kind"]),
        ({"ttl": {"a": 1}, "on_ttl": "keep"}, ["ttl"]),
        ({"idle_after": [1], "on_ttl": "keep"}, ["idle_after"]),
        (
            {
                "kind": "job",
                "workload": {"command": 5, "train": {}},
                "rank": "price",
                "disk_gib": 100,
            },
            ["workload.command"],
        ),
        # Faults of their own are still told together.
        (
            {"kind": "service", "workload": {**LLAMA_70B, "context": "x"}, "nodes": 0},
            ["workload.context", "nodes"],
        ),
        ({"ttl": {"a": 1}, "labels": {"A": "b"}}, ["ttl", "labels.A"]),
    ],
)
def test_one_fault_never_causes_a_second(declared, paths) -> None:
    """What hangs together with a faulty field is judged as if that field were right."""
    assert sorted(problems(**declared)) == sorted(paths)
