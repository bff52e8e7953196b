"""What newcomers write in a stack file is told with the line to write instead."""

import typing

import pytest

from providers.adapters import registry
from providers.engine import stack_config, validate
from providers.errors import SpecError
from providers.model import duration, mistaken, yaml_file
from providers.model.workload_spec import Launcher

RUN = {"command": "python train.py"}


JOB = {"kind": "job", "gpu": "L4:1", "ttl": "6h"}


def told(raw: object) -> str:
    """Everything that is said of a cluster."""
    with pytest.raises(SpecError) as caught:
        validate.cluster("dev", raw)
    return str(caught.value)


@pytest.mark.parametrize(
    ("fields", "write"),
    [
        ({"ttl": 6}, 'or "1h30m", found 6; write ttl: 6h'),
        ({"ttl": "6 hours"}, "write ttl: 6h"),
        ({"ttl": "1 day 2 hours"}, "write ttl: 1d2h"),
        ({"ttl": "2 weeks"}, "write ttl: 14d"),
        ({"ttl": "6:30"}, "write ttl: 6h30m"),
        ({"idle_after": 30}, "write idle_after: 30m or 30h"),
        ({"wait": 6}, 'wait: wanted a duration such as "20h", "15m" or "1h30m", found 6; write wait:'),
        ({"acquire": {"within": 6}}, "write within: 6h"),
        (
            {"capacity": ["block"], "block": {"lasts": "1d", "start_within": 6, "max_price": 9}},
            "write start_within: 6s, 6m or 6h",
        ),
        (JOB | {"workload": {"command": "true", "workdir": "."}}, "write it in the cluster, as workdir: ."),
        (JOB | {"workload": {"command": "true", "ttl": "6h"}}, "write it in the cluster, as ttl: 6h"),
        (JOB | {"workload": {"command": "true", "region": "us-east-1a"}}, "regions: [us-east-1]"),
        (JOB | {"workload": {"command": "true", "secrets": {"A": {"gcp": "x"}}}}, "move it into the cluster"),
        (JOB | {"mounts": {"/data": {"source": "gs://my-bucket/a"}}}, "move it under workload"),
        ({"fallback": [{"gpu": "T4:1", "ttl": 6}]}, "write ttl: 6h"),
        ({"max_price_per_hour": "$8"}, "write max_price_per_hour: 8"),
        ({"max_price_per_hour": "$1,234.50/hour"}, "write max_price_per_hour: 1234.50"),
        ({"max_price_per_hour": "8 USD"}, "write max_price_per_hour: 8"),
        ({"disk_gib": "200GB"}, "write disk_gib: 200"),
        ({"disk_gib": "1TB"}, "write disk_gib: 1024"),
        ({"nodes": "2"}, "write nodes: 2"),
        ({"providers": "cheapest"}, "leave providers out"),
        ({"providers": "google"}, "write providers: [gcp]"),
        ({"providers": "Amazon, google"}, "write providers: [aws, gcp]"),
        ({"providers": ["amazon"]}, "providers: wanted a known provider, found 'amazon'; write aws"),
        ({"providers": {"gcp": True}}, "write providers: [gcp]"),
        ({"provider": "google"}, "write providers: [gcp]"),
        ({"region": "us-east-1a"}, "write regions: [us-east-1]"),
        ({"zone": "us-central1-a"}, "write regions: [us-central1]"),
        ({"gpu": 4090}, 'write gpu: "RTX-4090"'),
        ({"gpu": "4090:2"}, 'write "RTX-4090:2"'),
        ({"gpu": "a100-80:8"}, 'write "A100-80GB:8"'),
        ({"gpu": "a100-40"}, 'write "A100" (A100 40 GB'),
        ({"gpu": "24GB:1"}, "write {min_memory_gib: 24, count: 1}"),
        ({"kind": "service", "model": "Qwen/Qwen3-8B"}, "write workload: {model: Qwen/Qwen3-8B}"),
        ({"kind": "service", "workload": {"model": "Qwen/Qwen3-8B"}}, "write launcher: vllm"),
        ({"gpu": 8}, 'write gpu: "TYPE:8", as in gpu: "H100:8"'),
        ({"gpu": "H100", "gpus": 8}, 'write gpu: "H100:8"'),
        ({"gpu": "H100", "count": 8}, 'write gpu: "H100:8"'),
        ({"gpu": {"name": "H100", "count": 8}}, "write type: H100"),
        ({"gpu": {"min_memory_gib": "40GB"}}, "write min_memory_gib: 40"),
        ({"machine_type": "g2-standard-4"}, "leave it out: the machine follows from gpu"),
        ({"timeout": "6h"}, "write ttl: 6h"),
        ({"max_price": "$8"}, "write max_price_per_hour: 8"),
        ({"max_spend": 100}, "write gpus:max_spend beside gpus:clusters"),
        ({"spot": True}, "write spot: prefer"),
        ({"spot": False}, "write spot: never"),
        ({"ports": 8000}, "write ports: [8000]"),
        ({"ports": ["8000:8000"]}, "ports[0]: wanted a port from 1 to 65535, found '8000:8000'; write 8000"),
        ({"fallback": "A100:1"}, 'write fallback: ["A100:1"]'),
        ({"command": "python train.py"}, "write workload: {command: python train.py}"),
        ({"run": "python train.py"}, "write workload: {command: python train.py}"),
        ({"run": 2}, "gpus rerun dev"),
        ({"image": "a/b:c", "workload": RUN}, 'write it under workload, as image: "a/b:c"'),
        ({"workload": "python train.py"}, "write workload: {command: python train.py}"),
        ({"workload": {"command": ["python", "train.py"]}}, "write command: python train.py"),
        ({"workload": {"command": ["pip install x", "python y.py"]}}, 'write command: "pip install x && python y.py"'),
        ({"workload": {"script": "train.py"}}, "write command: train.py"),
        ({"workload": {**RUN, "env": {"A": 1}}}, 'write A: "1"'),
        ({"workload": {**RUN, "checkpoint": "s3://b/c"}}, 'write checkpoint: {path: /ckpt, to: "s3://b/c"}'),
        ({"workload": {**RUN, "launcher": "axolotl"}}, "write launcher: accelerate, and command: -m axolotl.cli.train"),
        ({"workload": {**RUN, "launcher": "vLLM"}}, "write launcher: vllm"),
        ({"workload": {**RUN, "launcher": "python"}}, "leave launcher out"),
        ({"kind": "training", "workload": RUN}, "write kind: job"),
        ({"kind": "service", "workload": RUN}, "as in port: 8000"),
        ("gpu:L4:1", "write a space after each colon, as in gpu: L4:1"),
        (None, 'wanted a mapping such as {gpu: "H100:8"}, found nothing'),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_newcomer_writes_is_told_with_the_line_to_write(fields, write) -> None:
    """One message for one mistake, and the line can be copied."""
    said = told({"gpu": "L4:1", **fields} if isinstance(fields, dict) else fields)
    assert write in said and "\n" not in said, said


@pytest.mark.parametrize(
    "workload",
    [
        {"command": "x", "env": ["TOKEN=opensesame"]},
        {"command": "x", "env": "TOKEN=opensesame"},
        {"command": ["sh", "-c", "TOKEN=opensesame run"], "env": {"A": ["opensesame"]}},
    ],
)
def test_what_a_variable_holds_is_in_no_corrected_line(workload) -> None:
    """What assigns may assign a secret: a sample stands for it."""
    for raw in ({"gpu": "L4:1", "workload": workload}, {"gpu": "L4:1", **workload}):
        lines = [line.rpartition("; ")[2] for line in told(raw).splitlines()]
        assert not any("opensesame" in line for line in lines), lines


def test_variables_as_a_list_are_not_repeated() -> None:
    """Neither as what was found: only the names are."""
    said = told({"gpu": "L4:1", "workload": {"command": "x", "env": ["TOKEN=opensesame", "B=c"]}})
    assert said.endswith("found a list; write env: {TOKEN: VALUE, B: VALUE}")


def test_a_corrected_duration_is_one() -> None:
    """What is proposed can be read, and nothing is proposed for what says nothing."""
    for text in (6, "6", "90 minutes", "1 hour and 30 min", "2d", "6:05", "1.5 hours", "3 weeks"):
        assert [duration.seconds(each) for each in duration.meant(text)], text
    for other in ("soon", "6x", True, None, "", "6 apples", "-3"):
        assert duration.meant(other) == ()


def test_a_cloud_and_a_launcher_are_proposed_only_where_there_is_one() -> None:
    """The tables name what exists."""
    assert {*mistaken.CLOUDS.values()} <= {*registry.manifests()}
    for advice in mistaken.LAUNCHERS.values():
        assert advice.startswith("leave ") or advice.partition(",")[0] in typing.get_args(Launcher)
    assert {*mistaken.KINDS.values()} == {"job", "service", "machine"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dev:\n  gpu: L4:1\n   ttl: 6h\n", "move the line under the field above it"),
        ("dev:\n  gpu: L4:1\n ttl: 6h\n", "begin in one column"),
        ("dev:\n\tgpu: L4:1\n", "indent with spaces"),
        ("dev:\n  gpu: 'L4:1\n", "close it"),
        ("dev:\n  gpu: L4:1\n  gpu: H100:1\n", "keep one of them"),
        ("dev:\n  gpu: L4:1\n  ttl\n", "write a space after the colon"),
        ("dev:\n  gpu: @L4\n", "put it in quotes"),
    ],
)
def test_what_yaml_refuses_is_told_in_plain_words(text, said) -> None:
    """No parser's own words: what was wanted, what was found, what to do."""
    with pytest.raises(yaml_file.YamlError) as caught:
        yaml_file.loads(text)
    wrong = caught.value
    assert said in f"{wrong.wanted}; {wrong.todo}" and wrong.todo, (wrong.wanted, wrong.found)


@pytest.mark.parametrize(
    ("file", "todo"),
    [
        ({"gpus:clusters": {"dev": {}}}, "write config: above it, and the rest indented under that"),
        ({"config": {"gpus": {"clusters": {}}}}, "write gpus:clusters as one key of config"),
        ({"config": {"clusters": {"dev": {}}}}, "write gpus:clusters in place of clusters"),
        ({"config": {"gpus:cluster": {}}}, "write gpus:clusters in place of gpus:cluster"),
        ({"config": {"gpus:clusters": None, "dev": {}}}, "begin the lines of dev two spaces further right than gpus:clusters"),
        ({"config": {"gpus:world": "live"}}, ""),
    ],
)  # fmt: skip
def test_clusters_in_another_place_of_the_file_are_told_where_they_belong(file, todo) -> None:
    """Of a file without `gpus:clusters` it is said what to move."""
    assert stack_config.misplaced(file) == todo


def test_fields_beside_a_cluster_are_told_to_be_indented() -> None:
    """Each would else be read as a cluster of its own."""
    with pytest.raises(SpecError) as caught:
        stack_config.clusters({"dev": None, "gpu": "L4:1", "ttl": "6h"})
    assert "begin the lines of gpu, ttl two spaces further right than dev" in str(caught.value)
    assert stack_config.clusters({"gpu": "L4:1"}), "a cluster may have the name of a field"
