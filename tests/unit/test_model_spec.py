from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from providers.errors import SpecError
from providers.model import duration, foreign
from providers.model.ask import Capacity, gpu_text
from providers.model.money import micro_usd, per_hour, usd
from providers.model.spec import Cluster, Fallback, Gpu, asked_names, read_cluster


def problems(raw, name="train"):
    with pytest.raises(SpecError) as caught:
        read_cluster(name, raw)
    return {problem.path: problem for problem in caught.value.problems}


WHOLE = {
    "kind": "machine",
    "gpu": "H100:8",
    "fallback": ["H200:8", {"gpu": "A100-80GB:8", "spot": "only"}],
    "spot": "prefer",
    "providers": ["gcp", "aws", "modal"],
    "max_price_per_hour": 60,
    "ttl": "20h",
}


def test_the_design_example_compiles_to_three_entries_in_order() -> None:
    """A stack file's entry becomes one entry per acceptable choice, in order, each with its own
    capacity kinds.
    """
    ask = read_cluster("train", WHOLE).ask()
    assert [(e.gpu, e.gpu_count, e.path) for e in ask.entries] == [
        ("H100", 8, "gpu"),
        ("H200", 8, "fallback[0]"),
        ("A100-80GB", 8, "fallback[1]"),
    ]
    assert ask.entries[0].capacity == (Capacity("spot"), Capacity("on-demand"))
    assert ask.entries[2].capacity == (Capacity("spot"),)
    assert ask.max_price_micro_usd == 60_000_000
    assert {e.ttl_s for e in ask.entries} == {72_000}


def test_the_same_content_said_three_ways_is_the_same_ask() -> None:
    """Python, a mapping and one string say the same thing."""
    in_python = Cluster(name="ft", gpu=Gpu("H100", count=8, fallback=["A100-80GB:8"]))
    as_mapping = read_cluster(
        "ft", {"gpu": {"type": "H100", "count": 8, "fallback": ["A100-80GB:8"]}}
    )
    in_strings = read_cluster("ft", {"gpu": "H100:8", "fallback": ["A100-80GB:8"]})
    bare = [
        tuple(e._replace(path="") for e in c.ask().entries)
        for c in (in_python, as_mapping, in_strings)
    ]
    assert bare[0] == bare[1] == bare[2]
    assert read_cluster("ft", "H100:8").ask() == Cluster(name="ft", gpu=Gpu("H100:8")).ask()


def test_a_list_is_a_preference_order() -> None:
    """A list of GPUs means the first, else the second."""
    ask = read_cluster("train", {"gpu": ["H100!:8", "H200:8"]}).ask()
    assert [(e.gpu, e.exact, e.path) for e in ask.entries] == [
        ("H100", True, "gpu[0]"),
        ("H200", False, "gpu[1]"),
    ]


def test_a_gpu_can_be_asked_by_memory() -> None:
    """`Gpu(min_memory_gib=24)` names no type."""
    entry = Cluster(name="x", gpu=Gpu(min_memory_gib=24, count=2)).ask().entries[0]
    assert (entry.gpu, entry.min_memory_gib, entry.gpu_count) == ("", 24, 2)


def test_a_fallback_overrides_nodes_capacity_wait_and_ttl() -> None:
    """A fallback entry may differ in everything that the first choice fixes."""
    ask = read_cluster(
        "t",
        {
            "gpu": "H100:8",
            "nodes": 2,
            "fallback": [
                {"gpu": "A100:8", "nodes": 4, "capacity": ["flex-start"], "wait": "1h", "ttl": "2h"}
            ],
        },
    ).ask()
    first, second = ask.entries
    assert (first.nodes, first.wait_s, first.ttl_s) == (2, 900, None)
    assert (second.nodes, second.capacity, second.wait_s, second.ttl_s) == (
        4,
        (Capacity("flex-start"),),
        3600,
        7200,
    )


def test_every_problem_is_told_at_once_with_its_path() -> None:
    """Type faults, unknown keys, bad strings and rules between fields come together."""
    found = problems(
        {
            "gpu": "H100:0",
            "nodes": "two",
            "fallback": ["", {"gpu": "A100:8", "spot": "sometimes"}],
            "spto": "only",
            "ttl": "soon",
            "ports": [0],
            "labels": {"Team": "x"},
            "expose": "public",
        },
        name="Train",
    )
    assert set(found) >= {
        "gpu",
        "nodes",
        "fallback[1].spot",
        "spto",
        "ttl",
        "ports[0]",
        "labels.Team",
        "expose",
        "name",
    }
    assert "near: spot" in found["spto"].wanted
    assert "'0'" in found["gpu"].found


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({}, "gpu"),
        ({"gpu": []}, "gpu"),
        ({"gpu": ""}, "gpu"),
        ({"gpu": "H100:8", "fallback": []}, "fallback"),
        ({"gpu": "H100:8", "fallback": ["H100:8"]}, "fallback[0]"),
        ({"gpu": "H100:8", "spot": "only", "capacity": ["spot"]}, "spot"),
        ({"gpu": "H100:8", "capacity": []}, "capacity"),
        ({"gpu": "H100:8", "capacity": ["reservation"]}, "capacity[0]"),
        ({"gpu": "H100:8", "nodes": 0}, "nodes"),
        ({"gpu": "H100:8", "max_price_per_hour": float("nan")}, "max_price_per_hour"),
        ({"gpu": "H100:8", "max_price_per_hour": 0}, "max_price_per_hour"),
        ({"gpu": "H100:8", "ttl": "1m"}, "ttl"),
        ({"gpu": "H100:8", "on_ttl": "keep"}, "on_ttl"),
        ({"gpu": "H100:8", "providers": []}, "providers"),
        ({"gpu": "H100:8", "kind": "vm"}, "kind"),
        ({"gpu": "H100:8", "name": "other"}, "name"),
        ([], ""),
    ],
)
def test_bad_input_is_refused_at_its_path(raw, path) -> None:
    """Each wrong declaration names the property that is wrong."""
    assert path in problems(raw)


def test_a_private_key_is_refused_without_being_repeated() -> None:
    """Secrets never reach error text."""
    text = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----"
    problem = problems({"gpu": "H100:8", "ssh_key": text})["ssh_key"]
    assert "private key" in problem.found
    assert "c2VjcmV0" not in str(problem)


def test_the_fingerprint_leaves_out_policy() -> None:
    """Fallback, rank, caps, wait, ttl, labels, keys and reclaim do not change what a machine is;
    GPU, nodes, disk and options do.
    """
    base = read_cluster("train", {"gpu": "H100:8"})
    for policy in (
        {"fallback": ["H200:8"]},
        {"rank": "price"},
        {"max_price_per_hour": 3},
        {"wait": "1h"},
        {"ttl": "2h"},
        {"labels": {"team": "x"}},
        {"spot": "prefer"},
        {"providers": ["gcp"]},
        {"triggers": {"reclaim": 1}},
    ):
        assert (
            read_cluster("train", {"gpu": "H100:8", **policy}).fingerprint() == base.fingerprint()
        )
    for substance in (
        {"gpu": "H200:8"},
        {"gpu": "H100:4"},
        {"nodes": 2},
        {"disk_gib": 200},
        {"options": {"gcp": {"image": "x"}}},
        {"triggers": {"rerun": 2}},
    ):
        assert (
            read_cluster("train", {"gpu": "H100:8", **substance}).fingerprint()
            != base.fingerprint()
        )


@pytest.mark.parametrize(
    "where",
    [
        "wait",
        "ttl",
        "idle_after",
        "fallback[0].wait",
        "fallback[0].ttl",
        "workload.checkpoint.every",
    ],
)
@pytest.mark.parametrize("text", ["15", " 900 ", "1.5"])
def test_duration_in_text_needs_a_unit(where, text) -> None:
    """`"15"` may be meant in any unit: the message says the line to write, with each that is
    allowed there.
    """
    number, field = text.strip(), where.rpartition(".")[2]
    least = {"ttl": 600, "idle_after": 600, "every": 10}.get(field, 1)
    units = {"s": 1, "m": 60, "h": 3600}
    allowed = [f"{number}{unit}" for unit in units if float(number) * units[unit] >= least]
    listed = " or ".join(filter(None, (", ".join(allowed[:-1]), allowed[-1])))
    assert problems(at(where, text))[where].todo == f"write {field}: {listed}"


BOOLEANS = (
    *(
        "wait",
        "ttl",
        "idle_after",
        "triggers.rerun",
        "triggers.reclaim",
        "nodes",
        "disk_gib",
        "max_price_per_hour",
        "ports[0]",
    ),
    *("fallback[0].wait", "fallback[0].ttl", "fallback[0].nodes", "fallback[0].min_memory_gib"),
    *("gpu.count", "gpu.min_memory_gib", "prices.overrides[0].price_usd_per_hour"),
    *("workload.port", "workload.context", "workload.concurrency", "workload.checkpoint.every"),
    *(
        "workload.train.tokens",
        "workload.train.sequence",
        "workload.train.batch",
        "workload.train.hours.T4",
    ),
)


@pytest.mark.parametrize("where", BOOLEANS)
@pytest.mark.parametrize("value", [True, False])
def test_boolean_is_no_number(where, value) -> None:
    """Nowhere: `ttl: true` is no second, `run: yes` no 1."""
    found = problems(at(where, value))
    assert set(found) == {where} and found[where].found == str(value).lower()


def at(path, value):
    """A declaration that has a value at a path, and is right besides."""
    raw: dict[str, Any] = {"gpu": "H100:8", "kind": "job" if "workload" in path else "machine"}
    more: dict[str, Any] = (
        {"fallback": [{"gpu": "A100-80GB:8"}]}
        if "fallback" in path
        else {"prices": {"overrides": [{"provider": "gcp"}]}}
        if "prices" in path
        else {}
    )
    raw |= more
    raw |= {"gpu": {"type": "H100"}} if path.startswith("gpu.") else {}
    if "workload" in path:
        raw["workload"] = {"command": "true", "model": "7b"}
        raw["workload"] |= (
            {"checkpoint": {"path": "/c", "to": "gs://bucket/x"}}
            if "checkpoint" in path
            else {"train": {}}
            if "train" in path
            else {}
        )
    *steps, last = [
        int(part) if part.isdigit() else part
        for part in path.replace("[", ".").replace("]", "").split(".")
    ]
    here: Any = raw
    for index, step in enumerate(steps):
        if isinstance(here, dict):
            here = here.setdefault(step, [] if isinstance([*steps, last][index + 1], int) else {})
        else:
            here = here[step]
    if isinstance(here, list):
        here.append(value)
    else:
        here[last] = value
    return raw


def test_whole_floats_are_whole_numbers() -> None:
    """The engine's wire knows only floats: 8.0 nodes are 8 nodes, 1.5 nodes are refused."""
    assert read_cluster("t", {"gpu": "H100:8", "nodes": 2.0}).nodes == 2
    assert "nodes" in problems({"gpu": "H100:8", "nodes": 1.5})


def test_names_can_be_read_from_a_broken_declaration() -> None:
    """What reads as a GPU is found however broken the rest is, so that unknown names are told with
    the other problems.
    """
    raw = {"gpu": ["H100:8", 3], "fallback": [{"gpu": "A100-8:8", "spot": 7}, "L4"], "nodes": "x"}
    assert asked_names(raw) == [
        ("gpu[0]", "H100"),
        ("fallback[0]", "A100-8"),
        ("fallback[1]", "L4"),
    ]


@given(st.text(max_size=30))
def test_any_text_is_a_gpu_or_a_clean_refusal(text) -> None:
    """No string makes the reader fail in another way than SpecError."""
    try:
        read = gpu_text(text)
    except SpecError:
        return
    assert read.type
    assert read.gpu_count is None or read.gpu_count >= 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda c: st.lists(c, max_size=3) | st.dictionaries(st.text(max_size=8), c, max_size=3),
        max_leaves=8,
    )
)
def test_any_value_is_a_cluster_or_a_clean_refusal(raw) -> None:
    """No value of any shape makes the reader fail in another way than SpecError."""
    keys = ["gpu", "fallback", "spot", "nodes", "providers", "ttl", "labels", "options", "prices"]
    for candidate in (raw, *({"gpu": "H100:8", key: raw} for key in keys)):
        try:
            read_cluster("train", candidate)
        except SpecError:
            continue


@pytest.mark.parametrize(
    ("text", "total"),
    [("20h", 72_000), ("1h30m", 5_400), (90, 90), ("7d", 604_800), ("0s", 0), ("1.5h", 5_400)],
)
def test_durations(text, total) -> None:
    """People's durations are whole seconds."""
    assert duration.seconds(text) == total


@pytest.mark.parametrize(
    "text", ["", "h", "90", "1.5", "-1h", "1h-", "1x", "1 fortnight", float("nan"), -5, True]
)
def test_no_duration(text) -> None:
    """What is no duration is refused."""
    with pytest.raises(ValueError, match="is no duration"):
        duration.seconds(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_durations_survive_being_written(total) -> None:
    """Text form and seconds are inverse."""
    assert duration.seconds(duration.text(total)) == total


@given(st.integers(min_value=0, max_value=10**12))
def test_money_is_exact(micro) -> None:
    """Micro-dollars survive the way to dollars and back."""
    assert micro_usd(usd(micro)) == micro


def test_an_unknown_price_is_not_zero() -> None:
    """No price reads as no price."""
    assert per_hour(None) == "no price"
    assert per_hour(88_490_000) == "$88.49/h"


def test_frozen() -> None:
    """A declaration never changes after it was made."""
    with pytest.raises(ValidationError, match="frozen"):
        read_cluster("t", "H100:8").nodes = 3
    assert Fallback(gpu="H200:8").gpu == "H200:8"


@pytest.mark.parametrize(
    ("raw", "path", "wanted", "found"),
    [
        ({"providers": "gcp"}, "providers", "a list such as [gcp]", "'gcp'"),
        ({"regions": 5}, "regions", "a list such as [us-central1]", "5"),
        ({"nodes": "two"}, "nodes", "a whole number", "'two'"),
        ({"nodes": "2"}, "nodes", "a whole number", "'2'"),
        ({"nodes": True}, "nodes", "a whole number", "true"),
        ({"nodes": 0}, "nodes", "at least 1", "0"),
        (
            {"max_price_per_hour": "60"},
            "max_price_per_hour",
            "a number of US dollars an hour",
            "'60'",
        ),
        ({"max_price_per_hour": -1}, "max_price_per_hour", "more than 0", "-1"),
        ({"labels": {"a": 1}}, "labels.a", "a text", "1"),
        ({"labels": {f"k{n}": "v" for n in range(37)}}, "labels", "at most 36", "37"),
        ({"ttl": [1]}, "ttl", 'a duration such as "20h", "15m" or "1h30m"', "[1]"),
        ({"gpu": 5}, "gpu", 'a GPU such as "H100:8"', "5"),
        (
            {"fallback": [5]},
            "fallback[0]",
            'a GPU such as "H200:8", or a mapping such as {gpu: "H200:8", spot: only}',
            "5",
        ),
        (
            {"fallback": [{"gpu": "L4:1", "spto": "only"}]},
            "fallback[0].spto",
            "a known property (near: spot)",
            "'spto'",
        ),
        (
            {"fallback": [{"gpu": "L4:1", "max_price_per_hour": 5}]},
            "fallback[0].max_price_per_hour",
            (
                "one of gpu, min_memory_gib, nodes, spot, capacity, wait, ttl, dtype, command, args"
                " (max_price_per_hour is the cluster's)"
            ),
            "'max_price_per_hour'",
        ),
        (
            {"gpu": [{"gpu": "L4:1", "nodez": 5}]},
            "gpu[0].nodez",
            "a known property (near: nodes)",
            "'nodez'",
        ),
    ],
)
def test_what_was_wanted_is_said_in_plain_words(raw, path, wanted, found) -> None:
    """No validator's own words, and only of the field that is wrong."""
    told = problems({"gpu": "H100:8", **raw})
    assert list(told) == [path]
    assert (told[path].wanted, told[path].found) == (wanted, found)


def test_every_bad_port_is_told() -> None:
    """Each wrong element of a list is named, whatever is wrong with it."""
    assert set(problems({"gpu": "H100:8", "ports": ["x", 22, 0, 70000, True]})) == {
        "ports[0]",
        "ports[2]",
        "ports[3]",
        "ports[4]",
    }


def test_a_key_that_python_reserves_is_an_unknown_one() -> None:
    """`self` is no field, and nothing breaks."""
    for word, ours in (("accelerators", "gpu"), ("timeout", "ttl"), ("envs", "workload.env")):
        wanted = problems({"gpu": "H100:8", word: 1})[word].wanted
        assert wanted == f"a known property (here it is {ours})"
    assert problems({"gpu": "H100:8", "self": 1})["self"].wanted == "a known property"


def test_levels_beyond_any_use_are_one_clear_refusal() -> None:
    """Also in what a provider reads by itself: nothing that follows it deeper has to."""
    deep: object = "x"
    for _ in range(foreign.LEVELS_MAX):
        deep = [deep]
    told = problems({"gpu": "L4:1", "options": {"clore": {"include_servers": deep}}})
    assert told[""].wanted == "at most 50 levels of lists and mappings"
