"""The stacks that cross markets, through the real engine: what one provider has not, the next one
has, within the same `up`.
"""

import re


def tries(said: str) -> list[str]:
    """The provider of each try that an `up` told of, repeats left out."""
    found = re.findall(r"#\d+ (gcp|aws|modal|clore)\b", said)
    return [name for index, name in enumerate(found) if index == 0 or found[index - 1] != name]


def test_b46_train_anywhere_walks_from_a_queue_that_never_moves_to_the_last_cloud(project) -> None:
    """Modal is cheapest and starts nothing, EC2 has none: after its wait the same `up` goes on, and
    ends on Google Cloud with one machine.
    """
    made = project("train-anywhere")
    shown = made.preview()
    rows = r"buys +modal any region .*\n +if sold out +aws .*\n +elsewhere +gcp "
    assert re.search(rows, shown, re.DOTALL), shown
    made.edit("wait: 10m", "wait: 3s")
    made.rehearse("stock", "modal", "*", "*", "*", "0")
    made.rehearse("stock", "aws", "*", "*", "*", "0")
    made.rehearse("latency", "aws", "stockout", "0s")
    said = made.up()
    assert tries(said)[:3] == ["modal", "aws", "gcp"], said
    out = made.cluster()["outputs"]
    assert (out["provider"], out["gpu_type"], out["gpu_count"], out["status"]) == (
        "gcp",
        "H100",
        8,
        "running",
    )
    assert [machine["provider"] for machine in made.machines()] == ["gcp"]
    made.destroy()
    assert made.machines() == []


def test_train_anywhere_takes_the_second_choice_once_the_first_is_tried_everywhere(project) -> None:
    """No H100s on any of three clouds: eight A100s, from the cheapest cloud that has them."""
    made = project("train-anywhere")
    for cloud in ("gcp", "aws", "modal"):
        made.rehearse("stock", cloud, "*", "H100", "*", "0")
        made.rehearse("latency", cloud, "stockout", "0s")
    made.edit("wait: 10m", "wait: 3s")
    said = made.up()
    assert tries(said)[:3] == ["modal", "aws", "gcp"], said
    out = made.cluster()["outputs"]
    assert (out["provider"], out["gpu_type"], out["gpu_count"], out["status"]) == (
        "modal",
        "A100-80GB",
        8,
        "running",
    )
    made.destroy()
    assert made.machines() == []


def test_rent_4090x2_on_demand_then_a_bid_then_modal(project) -> None:
    """Clore on demand; with none of those a bid under the cap; with no host at all two L4s at
    Modal. Each `up` leaves one rental.
    """
    made = project("rent-4090x2")
    made.up()
    first = made.cluster()["outputs"]
    assert (first["provider"], first["gpu_type"], first["capacity"]) == (
        "clore",
        "RTX-4090",
        "on-demand",
    )
    made.destroy()
    made.rehearse("stock", "clore", "*", "*", "on-demand", "0")
    made.up()
    second = made.cluster()["outputs"]
    assert (second["provider"], second["capacity"]) == ("clore", "spot") and second[
        "price_usd_per_hour"
    ] <= 0.6
    made.destroy()
    made.rehearse("stock", "clore", "*", "*", "*", "0")
    said = made.up()
    last = made.cluster()["outputs"]
    assert (last["provider"], last["gpu_type"], last["gpu_count"]) == ("modal", "L4", 2), said
    assert [machine["provider"] for machine in made.machines()] == ["modal"]
    made.destroy()
    assert made.machines() == []
