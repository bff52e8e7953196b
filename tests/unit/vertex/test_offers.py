"""What Vertex AI sells where, for how much, and what the plan refuses."""

import pytest

from providers.adapters import registry
from providers.adapters.gcp.vertex.offers import sold
from providers.catalog.offers import load
from providers.engine import validate
from providers.engine.market import planning
from providers.model.spec import read_cluster
from tests.present import present


def plan(**fields):
    spec = read_cluster(
        "t",
        {
            "kind": "job",
            "gpu": "H100:8",
            "providers": ["vertex"],
            "workload": {"image": "a/b", "command": "x"},
            **fields,
        },
    )
    return planning.plan(spec.ask(), setup=spec.setup(), use_journal=False), validate.problems(
        spec, registry.manifests()
    )


def test_prices_are_estimates_on_demand_and_unknown_otherwise() -> None:
    """Compute Engine's rate + 15%, told as an estimate with both sources; Spot has no price, and is
    bought at the user's own alone.
    """
    made, _ = plan()
    best = made.best
    table = load()
    listed = [table.offer(row) for row in table.by_gpu["H100"]]
    machine = next(
        o
        for o in listed
        if (o.region, o.machine_type, o.capacity) == (best.region, "a3-highgpu-8g", "on-demand")
    )
    disk = round(100 * 195_500 / 730)
    assert "+ 100 GiB pd-ssd $0.0268/h (at the rate of us-central1)" in best.offer.parts
    assert (
        round(present(machine.node_micro_usd) * 1.15) + disk == best.micro_usd
        and machine.price_as_of == best.price.as_of
    )
    assert (
        best.price.source.startswith("estimate: ")
        and "2026-10-07" in best.price.source
        and best.zone == ""
    )
    spot, _ = plan(capacity=["spot"])
    assert spot.candidates == () and spot.rejected_by_rule["price-known"]
    own = {"overrides": [{"provider": "vertex", "price_usd_per_hour": 55, "capacity": "spot"}]}
    assert plan(capacity=["spot"], prices=own)[0].best.micro_usd == 55_000_000


def test_each_place_is_offered_once_and_what_google_does_not_sell_is_not() -> None:
    """Zones are left out; a kind of capacity that Compute Engine refuses of a machine is refused
    here; T4 and V100 are never queued for.
    """
    table = load()
    spec = read_cluster(
        "t", {"kind": "job", "gpu": "T4", "workload": {"image": "a/b", "command": "x"}}
    )
    offers = [
        table.offer(row)
        for gpu in ("T4", "H100", "GB300")
        for row in table.by_gpu[gpu]
        if table.column("provider")[row] == "gcp"
    ]
    found = sold(spec.ask(), offers)
    assert (
        len({offer.id for offer in found}) == len(found)
        and {""} == {offer.zone for offer in found}
        and {"vertex"} == {o.provider for o in found}
    )
    assert not [offer for offer in found if offer.gpu_type == "GB300" and not offer.restriction]
    assert all(
        offer.restriction
        for offer in found
        if offer.capacity == "flex-start" and offer.gpu_type == "T4"
    )
    assert all(
        offer.restriction
        for offer in found
        if offer.machine_type == "a3-highgpu-1g" and offer.capacity == "on-demand"
    )


@pytest.mark.parametrize(
    ("kind", "workload"),
    [("machine", None), ("service", {"image": "a/b", "command": "x", "port": 80})],
)
def test_other_kinds_are_refused_in_the_plan(kind, workload) -> None:
    """A machine or a service at Vertex AI has no candidate, by the rule for kinds."""
    made, _ = plan(kind=kind, workload=workload)
    assert made.candidates == () and made.rejected_by_rule["kind"]


def test_a_job_without_an_image_is_refused() -> None:
    """Where Vertex AI is named it is a mistake with its path; where it is one of any, it is passed
    over with the reason.
    """
    bare = {"command": "python train.py", "setup": ["pip install x"]}
    _, problems = plan(workload=bare)
    assert [problem.path for problem in problems] == [
        "options.vertex.image"
    ] and "setup and files" in problems[0].wanted
    made, problems = plan(workload=bare, providers=None, gpu="L4:1")
    assert (
        problems == []
        and {"gcp", "aws"} <= {found.provider for found in made.candidates}
        and "vertex" not in {c.provider for c in made.candidates}
    )
    assert any(
        "container image" in rejection.found
        for rejection in made.rejections
        if rejection.offer.provider == "vertex"
    )


def test_a_secret_by_reference_is_refused() -> None:
    """A variable of a custom job stands in it in clear: no reference is taken for it, and no place
    there serves a declaration with secrets.
    """
    made, problems = plan(secrets={"TOK": {"vertex": "projects/p/secrets/x"}})
    assert [problem.path for problem in problems] == ["secrets.TOK.vertex"]
    made, problems = plan(secrets={"TOK": {"gcp": "projects/p/secrets/x"}})
    assert problems == [] and made.candidates == () and made.rejected_by_rule["secret"]
