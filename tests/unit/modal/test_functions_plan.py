"""What the plan says of jobs and services at Modal: prices, options, refusals."""

import pytest

import providers
from providers.adapters import registry
from providers.adapters.modal import MANIFEST, options
from providers.catalog.offers import load
from providers.engine.market.planning import plan
from providers.errors import SpecError
from providers.model.machine import Setup
from providers.model.spec import read_cluster
from providers.planner import check, render
from providers.plugin import inputs
from providers.plugin.properties import Properties
from tests.present import present
from tests.unit.modal.functions_rig import JOB, SERVICE, declared, function, running


def faced(spec):
    return inputs.check(
        Properties(
            {"world": "rehearsal", "owner": "o", "cluster": "x", **spec}, frozenset(), frozenset()
        )
    )


# B46


def test_b46_names_and_counts_are_refused_at_plan_time() -> None:
    """An A100-70GB and eight A10s are refused before anything is sent, as a job or a service as
    much as a machine; near names are said.
    """
    for kind in ("job", "service"):
        for gpu, words in (
            ("A100-70GB", "A100-80GB"),
            ("A10:8", "counts on offer: modal 1, 2, 3, 4"),
        ):
            spec = declared(kind, gpu=gpu)
            found = check.problems(spec.ask(), load(), registry.capabilities())
            assert [problem.path for problem in found] == ["gpu"] and words in str(found[0])


def test_b46_the_size_of_an_a100_is_explicit(cloud) -> None:
    """Bare A100 is the 40 GB card, and says so in the function that is sent."""
    running(cloud, declared("job", gpu="A100"))
    sent = function(cloud)[0].ranked_functions[0].function.resources.gpu_config
    assert (sent.gpu_type, sent.count) == ("A100-40GB", 1)


def test_b46_the_warm_floor_is_priced_24_hours_a_day() -> None:
    """`min_containers: 1` stands in the plan per hour, day and month, beside the price of a busy
    hour; the cap holds with all containers busy.
    """
    spec = declared("service", section={"min_containers": 1, "max_containers": 3})
    made = plan(spec.ask(), setup=spec.setup(), use_journal=False)
    assert present(made.best).micro_usd == 2_418_282
    text = " ".join(render.as_text(made).split())
    assert "at least 1 container at any time: $0.8061/h, $19.35 a day, $588.45 a month" in text
    assert "when busy: $0.8061/h a container, at most 3: $2.42/h" in text
    dear = declared(
        "service", section={"min_containers": 1, "max_containers": 3}, max_price_per_hour=2.4
    )
    assert plan(dear.ask(), use_journal=False).candidates == ()


def test_a_jobs_worst_case_is_said() -> None:
    """Retries multiply the time limit: the plan says what all attempts together can cost."""
    spec = declared("job", section={"retries": 2, "timeout": "2h"})
    text = " ".join(render.as_text(plan(spec.ask(), setup=spec.setup(), use_journal=False)).split())
    assert "at worst 3 attempts of 2h, $4.84" in text


def test_b17_function_rates_are_not_a_sandboxs() -> None:
    """CPU and memory of a function cost a third of a sandbox's; what is reserved is in the price,
    part by part.
    """
    spec = declared("job", section={"cpu": 8, "memory_gib": 32})
    best = present(plan(spec.ask(), use_journal=False).best)
    assert best.micro_usd == 799_200 + 8 * 47_160 + 32 * 7_992
    assert best.offer.parts == "1 x L4 0.7992 + CPU 0.3773 (8 core) + memory 0.2557 (32 GiB)"


# Bad input


def test_other_providers_are_refused_by_rule() -> None:
    """A cloud that can only be a machine is refused by the rule `kind`, and the plan says so."""
    spec = read_cluster("x", {"kind": "job", "gpu": "L4", "options": {"modal": JOB}})
    made = plan(spec.ask(), use_journal=False)
    assert {"modal"} == {
        candidate.provider for candidate in made.candidates
    } and made.rejected_by_rule["kind"] > 0


@pytest.mark.parametrize(
    ("kind", "section", "paths"),
    [
        ("service", {"retries": 1, "timeout": "5s"}, {"retries", "timeout"}),
        ("machine", {"secrets": ["a"], "timeout": "1m"}, {"secrets", "timeout"}),
        ("job", {"python": "3.13"}, {"python"}),
        ("job", {"timeout": 0}, {"timeout"}),
        ("job", {"timeout": "25h"}, {"timeout"}),
        ("job", {"retries": -1}, {"retries"}),
        ("job", {"secrets": {"HF_TOKEN": "hf_x"}}, {"secrets", "secrets.HF_TOKEN"}),
        ("job", {"volumes": {"data": "v"}}, {"volumes"}),
        ("service", {"port": 70_000}, {"port"}),
        ("service", {"scaledown_window": 1}, {"scaledown_window"}),
        ("service", {"min_containers": 3, "max_containers": 2}, {"max_containers"}),
        ("service", {"max_containers": 0}, {"max_containers"}),
        ("job", {"nonpreemptible": True}, {"nonpreemptible"}),
        ("job", {"nonpreemptible": False, "timeout": 0}, {"timeout"}),
    ],
)
def test_options_are_checked_by_kind(kind, section, paths) -> None:
    """Every field that is missing, out of range, or another kind's is told at the check, with its
    path.
    """
    found = faced(
        {
            "kind": kind,
            "gpu": "L4",
            "providers": ["modal"],
            "workload": None if kind == "machine" else JOB if kind == "job" else SERVICE,
            "options": {"modal": section},
        }
    )
    assert {f"options.modal.{path}" for path in paths} == {
        problem.path for problem in found.problems
    }


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        (
            {"kind": "service", "ttl": "2h", "ports": [80], "state": "stopped"},
            {"ttl", "ports", "state"},
        ),
        ({"kind": "job", "expose": "public"}, {"expose"}),
        ({"kind": "vm"}, {"kind"}),
    ],
)
def test_what_only_a_machine_has_is_refused(fields, paths) -> None:
    """A job and a service have no port list or stopped state; each is named at once."""
    section = JOB if fields["kind"] == "job" else SERVICE
    found = faced({"gpu": "L4", "providers": ["modal"], "workload": section, **fields})
    assert paths == {problem.path for problem in found.problems}


def test_a_plan_asks_the_same_of_options_as_a_preview() -> None:
    """`plan` of a cluster whose options are wrong, or lack what its kind needs, is refused with the
    same paths.
    """
    for section, path in (
        ({}, "workload"),
        ({"options": {"modal": {"command": "x"}}}, "options.modal.command"),
        ({"workload": JOB, "options": {"modal": {"retries": 99}}}, "options.modal.retries"),
    ):
        spec = read_cluster("x", {"kind": "job", "gpu": "L4", "providers": ["modal"], **section})
        with pytest.raises(SpecError) as caught:
            providers.plan(spec)
        assert [path] == [problem.path for problem in caught.value.problems]
    spec = read_cluster("x", {"kind": "job", "gpu": "L4", "providers": ["modal"], "workload": JOB})
    assert present(providers.plan(spec).best).provider == "modal"


def test_a_ttl_bounds_all_attempts_of_a_job() -> None:
    """With a ttl the attempts share it; a time limit that would pass it is refused."""
    assert options.timeout_s(options.read(JOB), None) == 3_600
    assert options.timeout_s(options.read({"retries": 2}), 7_200) == 2_400
    found = options.fits("job", {**JOB, "retries": 2, "timeout": "1h"}, Setup(ttl_s=7_200))
    assert [problem.path for problem in found] == ["timeout"]


def test_the_manifest_says_the_kinds() -> None:
    """Modal is a machine, a job and a service; a service is deployed anew in place."""
    assert {
        "machine",
        "job",
        "service",
    } == MANIFEST.capabilities.kinds and "service" in MANIFEST.capabilities.in_place
