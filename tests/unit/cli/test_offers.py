"""`gpus offers` and `gpus hardware`: what is sold, and at which price."""

import json

from tests.unit.cli.rig import run


def test_offers_are_sorted_by_price_and_unknown_prices_come_last(capsys) -> None:
    """`gpus offers --json` lists known prices ascending, then those without one, of every provider."""
    code, out, _ = run(capsys, "offers", "H200:8", "--json")
    prices = [offer["price_usd_per_hour"] for offer in json.loads(out)]
    known = [price for price in prices if price is not None]
    assert (
        code == 0
        and known == sorted(known)
        and prices == known + [None] * (len(prices) - len(known))
    )
    assert {"gcp", "aws", "modal"} <= {offer["provider"] for offer in json.loads(out)}


def test_offers_can_be_narrowed(capsys) -> None:
    """`--spot`, `--provider` and `--region` narrow; a bare name means any count."""
    offers = json.loads(
        run(
            capsys,
            "offers",
            "H100",
            "--spot",
            "--provider",
            "gcp",
            "--region",
            "us-central1",
            "--json",
        )[1]
    )
    assert {(offer["provider"], offer["region"], offer["capacity"]) for offer in offers} == {
        ("gcp", "us-central1", "spot")
    }
    assert len({offer["gpu_count"] for offer in offers}) > 1


def test_hardware_shows_dense_peaks_with_sources(capsys) -> None:
    """`gpus hardware` has a row for each name asked, with a source for each; all that are known
    without names.
    """
    code, out, _ = run(capsys, "hardware", "H100", "MI300X", "B200", "--dtype", "bf16")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:4]] == ["H100", "MI300X", "B200"]
    assert "[1] " in out
    assert len(json.loads(run(capsys, "hardware", "--json")[1])) > 50


def test_offers_with_one_hung_provider_answer_within_its_deadline(capsys, monkeypatch) -> None:
    """A provider whose market never answers is a line after its deadline; every other one stands in
    the table, all in one.
    """
    import threading

    from providers.adapters import registry
    from providers.adapters.base import Manifest
    from providers.engine.market import collect
    from providers.model.capability import Capabilities

    released = threading.Event()

    class Hung:
        name, world = "hung", "rehearsal"

        def offers(self) -> None:
            released.wait(300)

    real = registry.manifests()

    def connect(_world, _config):
        return Hung()

    hung = Manifest(
        "hung",
        Capabilities("hung", live_offers=True),
        connect,
        lambda section: (),
    )
    monkeypatch.setattr(registry, "manifests", lambda: {**real, "hung": hung})
    monkeypatch.setattr(collect, "LOOK_LIMIT_S", 4.0)
    code, out, err = run(capsys, "offers", "H100:8", "--json")
    released.set()
    assert code == 0
    assert {offer["provider"] for offer in json.loads(out)} >= {"aws", "clore", "gcp", "modal"}
    assert "hung: could not be looked at" in err and "no answer within" in err


def test_offers_name_the_rule_of_what_is_never_bought(capsys) -> None:
    """What the cloud does not sell so, what cannot be ordered, and what has no price stand in the
    table with the rule.
    """
    out = run(capsys, "offers", "H100:8", "--all")[1]
    assert "[1] not bought, by the rule " in out
    rules = {
        line.partition("by the rule ")[2].partition(":")[0]
        for line in out.splitlines()
        if "by the rule" in line
    }
    assert {"price-known", "sold"} <= rules
