"""Each cluster of a stack stands for itself: one without a place leaves the others alone, and the run fails at its end naming it."""

import asyncio
import os

import pytest

from providers.plugin import siblings

TWO = """
    bad:
      gpu: {gpu}
      providers: [gcp]
      max_price_per_hour: {cap}
    good:
      gpu: L4:1
      spot: only
      providers: [gcp]
"""


def declared(made, gpu, cap):
    made.file.write_text(f"{made.head}\n  gpus:clusters:{TWO.format(gpu=gpu, cap=cap)}")


@pytest.mark.core
@pytest.mark.parametrize("bad", ["new", "edited"])
def test_one_cluster_without_a_place_leaves_the_others_bought_back(project, bad):
    """Two clusters, one preempted, the other without any acceptable place: `preview` shows both and fails; `up`, its own preview included, buys the one
    back and fails naming the other; what runs of that one stays.
    """
    made = project("serve-l4")
    made.head = made.file.read_text().partition("\n  gpus:clusters:")[0]
    declared(made, "T4:1", 5)
    if bad == "new":
        made.file.write_text(f"{made.head}\n  gpus:clusters: {{good: {{gpu: L4:1, spot: only, providers: [gcp]}}}}\n")
    made.up()
    before = {machine["name"] for machine in made.machines()}
    lost = next(name for name in before if name.startswith("good-"))
    declared(made, "H100:8", 0.5)
    made.rehearse("preempt", lost)
    made.rehearse("advance", "2m")
    shown = made.preview(fails=True)
    assert shown.count("best per provider") >= 1 and "bad: nothing acceptable for H100:8" in shown and " good" in shown
    said = made.run("up", "-s", made.stack, "--yes", fails=True)
    assert "bad" in said and "good-" in said and ": acquired" in said
    names = {machine["name"] for machine in made.machines()}
    assert [name for name in names if name.startswith("good-")] and lost not in names
    assert before - {lost} <= names and len(names) == len(before)
    made.destroy()
    assert made.machines() == []


def test_failure_waits_until_every_other_cluster_is_begun(monkeypatch):
    """It is told last, whatever the order; a cluster that is never begun holds it up for a bounded time only."""
    monkeypatch.setattr(siblings, "WAIT_S", 0.5)
    told = siblings.Siblings()
    order = []

    async def main():
        told.begin("bad")

        async def fail():
            await told.others("bad", {"bad", "slow", "quick"})
            order.append("failed")

        task = asyncio.ensure_future(fail())
        for name in ("quick", "slow"):
            await asyncio.sleep(0)
            order.append(name)
            told.begin(name)
        await task
        await told.others("bad", {"bad", "dependent"})
        await told.others("read only", {"dependent"})

    asyncio.run(main())
    assert order == ["quick", "slow", "failed"]


def test_command_is_read_from_the_process_that_started_the_plugin(tmp_path):
    """Only `pulumi preview` is one; what cannot be read is none."""
    assert not siblings.only_previews(os.getpid()) and not siblings.only_previews(2**22 + 5)
