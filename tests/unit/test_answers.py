"""What a notebook and a table library make of the public answers."""

import pandas as pd
import polars as pl
import pytest

import providers as p
from providers.model.spec import read_cluster


def test_offers_are_a_table_in_dollars() -> None:
    """Both libraries have a column for each field; a count is a whole number, a price dollars."""
    offers = p.offers("H100:8", providers=["gcp", "aws"])
    assert len(offers) > 50
    frame, other = pd.DataFrame(offers), pl.DataFrame(offers)
    assert list(frame.columns) == other.columns == list(p.OfferRow._fields)
    assert frame["gpu_count"].dtype == "int64" and set(frame["gpu_count"]) == {8}
    assert (
        frame["price_usd_per_hour"].min()
        == other["price_usd_per_hour"].min()
        == pytest.approx(min(each.price_usd_per_hour for each in offers if each.price_usd_per_hour))
    )
    assert all(each.price_usd_per_hour != 0 for each in offers if each.provider != "ssh")


def test_a_price_that_is_not_known_is_none() -> None:
    """It is not zero."""
    assert None in {each.price_usd_per_hour for each in p.offers("L4:1", providers=["gcp"])}


def test_answers_are_short_and_named() -> None:
    """A plan, offers, a cluster: one line that says the most of each."""
    offers, plan = p.offers("H100:8"), p.plan("H100:8", providers=["aws"])
    cluster = p.Cluster(name="ft", gpu="H100:8", ttl="20h")
    assert repr(offers).startswith(f"<Offers: {len(offers):,}, from {offers[0].provider} ")
    assert repr(plan).startswith("<Plan: aws use1-az1 p5.48xlarge H100:8 on-demand $55.05/h, ")
    assert repr(cluster) == "Cluster(name='ft', gpu='H100:8', ttl='20h')"
    assert repr(p.plan("H100:8", max_price_per_hour=0.01)) == "<Plan: no acceptable place>"
    assert all(len(repr(each)) < 120 for each in (offers, offers[0], plan, cluster))
    assert p.__version__.count(".") == 2


def test_a_notebook_shows_tables_whose_texts_are_escaped() -> None:
    """Short ones, of the plan, the offers and the cluster."""
    cluster = read_cluster(
        "ft", {"gpu": "H100:8", "kind": "job", "workload": {"command": "a < b; echo '<b>'"}}
    )
    for answer in (p.plan("H100:8"), p.offers("H100:8"), cluster):
        shown = answer._repr_html_()
        assert shown.startswith("<table>") and shown.count("<tr>") <= 21
        assert "<b>" not in shown
    assert "&lt;b&gt;" in cluster._repr_html_()


def test_the_best_place_of_each_provider_is_its_first_of_the_walk() -> None:
    plan = p.plan("H100:8", fallback=["A100-80GB:8"])
    best = plan.best_per_provider()
    assert best[0] == plan.best and len({each.provider for each in best}) == len(best) >= 3
    assert [each.rank for each in best] == [
        min(each.rank for each in plan.candidates if each.provider == name)
        for name in (each.provider for each in best)
    ]


def test_a_model_is_sized_in_python() -> None:
    """Rows with the cheapest that fits first; the words of a training run are checked."""
    rows = p.size("7b")
    fits = [each for each in rows if each.answer == "fits"]
    assert rows[0] == fits[0]
    assert [each.price_usd_per_hour for each in fits] == sorted(
        each.price_usd_per_hour or 0 for each in fits
    )
    assert pd.DataFrame(rows)["gpu_count"].dtype == "int64"
    assert all(each.job_usd for each in p.size("7b", train="lora", tokens=1e9)[:3])
    with pytest.raises(p.SpecError, match="dtype: wanted bf16, fp16 or fp32 for training"):
        p.size("7b", train="full", dtype="int8")
    with pytest.raises(p.SpecError, match="train: wanted one of full, lora, qlora, found 'lorra'"):
        p.size("7b", train="lorra")  # type: ignore[arg-type]
