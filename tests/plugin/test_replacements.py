"""Edits, losses and replacements through the real engine: the preview says what `up` does."""

import pytest


def test_b42_edits(project) -> None:
    """An edit that is still satisfied touches no machine; one that is not replaces it, the old one
    first.
    """
    made = project("serve-l4")
    made.up()
    name = made.machines()[0]["name"]
    before = made.seen()["mutations"]
    made.edit("max_price_per_hour: 1.5", "max_price_per_hour: 1.4")
    made.edit("gpu: L4:1", "gpu: [T4:1, L4:1]")
    assert "update" in made.preview()
    made.up()
    assert [machine["name"] for machine in made.machines()] == [name]
    assert made.seen()["mutations"] == before
    made.edit("gpu: [T4:1, L4:1]", "gpu: T4:1")
    shown = " ".join(made.preview().split())
    assert (
        "replace" in shown and "it and its disk are deleted first, and may not come back" in shown
    )
    assert "gpu: what runs no longer satisfies the declaration" in shown
    said = made.up()
    assert said.index("deleted original") < said.index(": acquired")
    assert [machine["name"] for machine in made.machines()] != [name]
    assert made.cluster()["outputs"]["gpu_type"] == "T4"
    made.edit("gpu: T4:1", "gpu: T4:1\n      triggers: {rerun: 1}")
    made.up("--replace", made.cluster()["urn"])
    assert len(made.machines()) == 1
    made.destroy()
    assert made.machines() == []


def test_a_forced_replacement_says_what_goes(project) -> None:
    """Under --replace nothing is compared, and the preview still knows the machine that goes; an
    edit that nothing can serve leaves it alone.
    """
    made = project("serve-l4")
    made.up()
    machine = made.machines()[0]["name"]
    shown = " ".join(made.preview("--replace", made.cluster()["urn"]).split())
    assert (
        "REPLACES gcp us-central1-a L4:1 on-demand ($0.7342/h): it and its disk are deleted first"
        in shown
    )
    made.edit("gpu: L4:1", "gpu: H100:8")
    said = made.up(fails=True)
    assert "serve: nothing acceptable for H100:8" in said and "stays as it is" in said
    assert [found["name"] for found in made.machines()] == [machine]
    made.edit("gpu: H100:8", "gpu: L4:1\n      ttl: 1h")
    said = " ".join(made.up().split())
    assert "gcp cannot edit ttl on a running machine" in said
    assert [found["name"] for found in made.machines()] == [machine]
    made.destroy()


@pytest.mark.parametrize("on_loss", ["replace-all", "report"])
def test_a_machine_edited_at_its_cloud_shows_what_differs_and_is_replaced_or_reported(
    project, on_loss
) -> None:
    """Four GPUs became one: the preview names just that, and the next `up` does what the preview
    said; edited back, nothing differs.
    """
    made = project("serve-l4")
    made.edit("gpu: L4:1", f"gpu: T4:4\n      on_loss: {on_loss}\n      providers: [gcp]")
    made.edit("max_price_per_hour: 1.5", "max_price_per_hour: 9")
    made.up()
    name = made.machines()[0]["name"]
    price = made.cluster()["outputs"]["price_usd_per_hour"]
    made.rehearse("edit", name, "T4:1")
    shown = " ".join(made.preview().split())
    assert "gpu_count: 4 -> 1, changed at gcp" in shown
    if on_loss == "report":
        assert "unchanged" in shown and "`on_loss: report` leaves it so" in shown
        made.up()
        assert [machine["name"] for machine in made.machines()] == [name]
        outputs = made.cluster()["outputs"]
        assert outputs["gpu_count"] == 1 and outputs.get("price_usd_per_hour", 0) < price
        assert outputs["detail"] == "gpu_count: 4 -> 1, changed at gcp"
        made.rehearse("edit", name, "T4:4")
        made.run("refresh", "-s", made.stack, "--yes", "--skip-preview")
        assert made.cluster()["outputs"]["price_usd_per_hour"] == price
    else:
        assert "1 to replace" in shown or "+-1" in shown, shown
        assert (
            "because gpu_count: 4 -> 1, changed at gcp" in shown
            and "REPLACES gcp" in shown
            and "T4:1" in shown
        )
        said = made.up()
        assert said.index("deleted original") < said.index(": acquired")
        assert [(machine["name"] != name, machine["gpu_count"]) for machine in made.machines()] == [
            (True, 4)
        ]
        assert made.cluster()["outputs"]["price_usd_per_hour"] == price
        assert "unchanged" in made.preview("--expect-no-changes")
    made.destroy()
    assert made.machines() == []


def replaced_in_vain(made) -> None:
    """A stack whose machine is to be replaced by one that is sold out."""
    made.edit("gpu: L4:1", "gpu: L4:1\n      providers: [gcp]\n      regions: [us-central1]")
    made.up()
    made.edit("gpu: L4:1", "gpu: T4:1")
    made.rehearse("stock", "gcp", "*", "T4", "*", "0")


def test_a_replacement_that_finds_no_place_says_that_the_previous_machine_is_gone(project) -> None:
    """Error, state and preview say that nothing runs and nothing is billed; a refresh drops it, and
    the next `up` buys one.
    """
    made = project("serve-l4")
    replaced_in_vain(made)
    made.rehearse("latency", "gcp", "stockout", "0s")
    said = " ".join(made.up(fails=True).split())
    assert (
        "the previous machine (gcp us-central1-a L4:1 on-demand) is deleted; nothing runs, nothing"
        " is billed" in said
    )
    assert "wanted T4:1, none was acquired: 4 tries" in said
    assert made.machines() == []
    outputs = made.cluster()["outputs"]
    assert (
        outputs["status"],
        outputs["price_usd_per_hour"],
        outputs["handles"],
        outputs["gpu_type"],
    ) == ("gone", 0, [], "")
    assert (
        "is deleted; nothing runs, nothing is billed" in outputs["detail"]
        and len(outputs["attempts"]) == 4
    )
    shown = " ".join(made.preview().split())
    assert "nothing runs now" in shown and "REPLACES" not in shown and "+ 1 to create" in shown
    made.run("refresh", "-s", made.stack, "--yes", "--skip-preview")
    assert "gpu:index:Cluster" not in made.resources()
    made.rehearse("stock", "gcp", "*", "T4", "*", "unlimited")
    made.up()
    assert made.cluster()["outputs"]["gpu_type"] == "T4" and len(made.machines()) == 1
    made.destroy()
    assert made.machines() == []


def test_an_up_killed_between_the_deletion_and_the_purchase_has_nothing_that_runs(project) -> None:
    """The state still names the old machine; the preview knows that it is deleted, and the next
    `up` buys one.
    """
    made = project("serve-l4")
    replaced_in_vain(made)
    made.rehearse("latency", "gcp", "stockout", "5s")
    made.killed_up("#1", also_plugin=True)
    assert made.machines() == []
    made.rehearse("stock", "gcp", "*", "T4", "*", "unlimited")
    shown = " ".join(made.preview().split())
    assert "nothing runs now" in shown and "REPLACES" not in shown
    made.up()
    assert made.cluster()["outputs"]["gpu_type"] == "T4" and len(made.machines()) == 1
    made.destroy()
    assert made.machines() == []


def test_a_renamed_stack_and_project_change_nothing(project) -> None:
    """C22: after a rename of the stack and one of the project no change is proposed, a sweep knows
    its own, and destroy works.
    """
    made = project("serve-l4")
    made.up()
    (machine,) = made.machines()
    made.run("stack", "rename", "-s", "serve-l4", "renamed")
    made.stack = "renamed"
    made.preview("--expect-no-changes")
    file = made.folder / "Pulumi.yaml"
    file.write_text(file.read_text().replace("name: gpus\n", "name: gpus2\n", 1))
    made.run("stack", "rename", "-s", "organization/gpus/renamed", "organization/gpus2/again")
    made.stack = "again"
    made.preview("--expect-no-changes")
    made.up()
    assert [found["name"] for found in made.machines()] == [machine["name"]]
    assert machine["name"] not in made.gpus("sweep")
    made.destroy()
    assert made.machines() == []


@pytest.mark.parametrize("on_loss", ["replace-all", "replace-node", "report"])
def test_a_preview_after_a_loss_says_what_the_up_does(project, on_loss) -> None:
    """One of two Spot machines is taken back: the preview's words and its change are those of the
    `up` that follows.
    """
    made = project()
    made.edit("gpu: H100:8", f"gpu: H100:8\n      nodes: 2\n      on_loss: {on_loss}")
    made.edit("providers: [gcp, aws, modal]", "providers: [gcp]")
    made.edit("max_price_per_hour: 60", "max_price_per_hour: 200")
    made.up()
    names = [machine["name"] for machine in made.machines()]
    made.rehearse("preempt", names[0])
    made.rehearse("advance", "2m")
    shown = " ".join(made.preview().split())
    made.up()
    after = [machine["name"] for machine in made.machines()]
    if on_loss == "report":
        assert (
            "is degraded, and `on_loss: report` leaves it so" in shown
            and "~ 1 to update" not in shown
        )
        assert names[1] in after and not [name for name in after if name not in names]
    elif on_loss == "replace-node":
        assert (
            "gets as many again in" in shown
            and "REPLACES" not in shown
            and "~ 1 to update" in shown
        )
        assert len(after) == 2 and names[1] in after and names[0] not in after
    else:
        assert (
            "REPLACES gcp" in shown
            and "the rest is deleted first; then $" in shown
            and "~ 1 to update" in shown
        )
        assert len(after) == 2 and not set(after) & set(names)
    made.destroy()
    assert made.machines() == []


def test_a_preview_after_a_spot_loss_says_what_the_up_does(project) -> None:
    """A Spot machine is taken back and stays stopped: the preview replaces it, and so does the
    `up`.
    """
    made = project()
    made.edit("providers: [gcp, aws, modal]", "providers: [gcp]")
    made.up()
    (machine,) = made.machines()
    made.rehearse("preempt", machine["name"])
    shown = " ".join(made.preview().split())
    assert (
        ("which was taken back" in shown)
        == ("+-1 to replace" in shown)
        != ("+ 1 to create" in shown)
    )
    assert ("nothing runs now" in shown) == ("+ 1 to create" in shown)
    made.up()
    assert [found["name"] != machine["name"] for found in made.machines()] == [True]
    made.destroy()
    assert made.machines() == []
