"""`gpus:max_spend` with the real engine: refused at preview and at `up` with the arithmetic,
counted in the state, so that other machines count too.
"""

import json
import re

from tests.plugin.conftest import Project
from tests.present import present


def limited(project, usd, stack="train-a100-spot"):
    made = project(stack)
    made.edit("gpus:world: rehearsal", f"gpus:world: rehearsal\n  gpus:max_spend: {usd}")
    return made


def elsewhere(made):
    """The same stack and backend from another machine: another home, so another journal; the
    rehearsed clouds are the same.
    """
    import shutil

    other = object.__new__(Project)
    other.__dict__.update(made.__dict__)
    home = made.folder / f"home-{len(list(made.folder.glob('home-*')))}"
    home.mkdir()
    shutil.copy(made.folder / "home" / "rehearsal.db", home)
    for more in (made.folder / "home").glob("rehearsal.db-*"):
        shutil.copy(more, home)
    other.env = {**made.env, "GPUS_HOME": str(home)}
    return other


def flat(text):
    return " ".join(text.split())


def test_b34_a_purchase_that_does_not_fit_is_refused_at_preview_and_at_up(project) -> None:
    """12 hours at the offered price do not fit into $20: both say so with every summand, and
    nothing is bought. $500 fit; then the rest is told.
    """
    made = limited(project, 20)
    for said in (made.preview(fails=True), made.up(fails=True)):
        found = flat(said)
        assert (
            "train: nothing is bought: max_spend $20.00 in 20" in found
            and "$0.00 spent, $0.00 to come of what else runs" in found
        )
        assert re.search(
            r"\(12h to its limit at \$[\d.]+/h\) = \$[\d.]+, \$[\d.]+ too much", found
        ), found
    assert made.machines() == []
    made.edit("gpus:max_spend: 20", "gpus:max_spend: 5000")
    assert "max_spend" in made.preview() and "too much" not in made.preview()
    made.up()
    assert len(made.machines()) == 1
    shown = flat(made.preview("--expect-no-changes"))
    assert re.search(
        r"max_spend \$5,000.00 in \d{4}-\d\d: \$[\d.]+ spent, \$[\d.]+ to come of what runs,"
        r" \$[\d,.]+ left",
        shown,
    ), shown
    ownership = made.resources()["gpu:index:Ownership"]
    assert len(json.dumps(ownership["outputs"])) < 2048
    made.edit("gpus:max_spend: 5000", "gpus:max_spend: 1")
    shown = flat(made.preview())
    assert "~ 1 to update 2 unchanged" in shown, shown
    made.up()
    assert (
        made.resources()["gpu:index:Cluster"]["inputs"]["max_spend"] == 1
        and len(made.machines()) == 1
    )
    made.rehearse("preempt", "all")
    made.rehearse("advance", "2m")
    assert "nothing is bought: max_spend $1.00" in flat(made.up(fails=True))
    assert made.machines() == []
    made.destroy()


def test_b34_what_other_machines_bought_counts(project) -> None:
    """A colleague's and a pipeline's machine, each with an empty journal, count what was bought
    elsewhere, what was taken back there, and the rest.
    """
    made = limited(project, 5000)
    made.up()
    price = made.cluster()["outputs"]["price_usd_per_hour"]
    made.rehearse("advance", "5h")
    other = elsewhere(made)
    shown = flat(other.preview())
    spent = float(present(re.search(r"\$([\d.]+) spent", shown))[1])
    assert 5 * price <= spent < 5.2 * price, (price, shown)
    other.rehearse("preempt", "all")
    other.rehearse("advance", "2m")
    other.up()
    third = elsewhere(other)
    third.rehearse("advance", "1h")
    shown = flat(third.preview())
    again = float(present(re.search(r"\$([\d.]+) spent", shown))[1])
    assert spent < again < spent + 2.5 * price + 30, shown
    runs = third.resources()["gpu:index:Ownership"]["outputs"]["spending"]["runs"]
    assert any(ended for _, _, ended, _ in runs.values())


def test_a_limit_is_money(project) -> None:
    """What is no amount is told before anything is declared."""
    made = limited(project, "lots")
    assert (
        "gpus:max_spend: wanted US dollars a calendar month, more than 0, found 'lots'"
        in made.preview(fails=True)
    )
    made.edit("gpus:max_spend: lots", "gpus:max_spend: -5")
    assert "gpus:max_spend: wanted US dollars a calendar month" in made.preview(fails=True)


def test_a_targeted_update_is_limited_too(project) -> None:
    """`up --target` of a cluster alone is held to the limit like any other."""
    made = limited(project, 5000)
    made.up()
    made.edit("gpus:max_spend: 5000", "gpus:max_spend: 1")
    urn = made.cluster()["urn"]
    made.rehearse("preempt", "all")
    made.rehearse("advance", "2m")
    assert "nothing is bought: max_spend $1.00" in flat(made.up("--target", urn, fails=True))
    assert made.machines() == []
    made.destroy()
