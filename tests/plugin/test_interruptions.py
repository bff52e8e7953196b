"""An `up` that is killed, interrupted or signed out halfway, through the real engine."""

import pytest

from tests.plugin.conftest import wait_until


@pytest.mark.parametrize("also_plugin", [False, True], ids=["cli", "cli-and-plugin"])
def test_up_killed_then_destroy(project, also_plugin) -> None:
    """`up` killed with -9, then cancel and destroy: zero machines, whether or not the plugin lived
    to clean up.
    """
    made = project()
    made.edit(
        "providers: [gcp, aws, modal]", "rank: preference\n      providers: [gcp, aws, modal]"
    )
    made.rehearse("latency", "gcp", "create", "3s")
    made.killed_up("#4", also_plugin=also_plugin)
    made.destroy()
    assert made.machines() == []


@pytest.mark.core
def test_up_killed_then_up(project) -> None:
    """The next `up` adopts or clears what the killed one left: one machine, never two."""
    made = project()
    made.edit(
        "providers: [gcp, aws, modal]", "rank: preference\n      providers: [gcp, aws, modal]"
    )
    made.rehearse("latency", "gcp", "create", "2s")
    made.killed_up("#4", also_plugin=True)
    made.up()
    wait_until(lambda: len(made.machines()) == 1)
    assert made.cluster()["outputs"]["status"] == "running"
    made.destroy()
    assert made.machines() == []


@pytest.mark.parametrize("then", ["up", "destroy"])
def test_b26_up_killed_then_another_project(project, then) -> None:
    """A machine that a killed run made in one project is found and deleted though the stack names
    another project by now.
    """
    made = project()
    made.edit(
        "providers: [gcp, aws, modal]", "rank: preference\n      providers: [gcp, aws, modal]"
    )
    made.rehearse("latency", "gcp", "create", "3s")
    made.killed_up("#4", also_plugin=True)
    made.edit("gpus:world: rehearsal", "gpus:world: rehearsal\n  gcp:project: other-project")
    if then == "up":
        made.up()
        assert len(made.machines()) == 1
        assert "projects/other-project/" in made.cluster()["outputs"]["handles"][0]
    made.destroy()
    assert made.machines() == []


@pytest.mark.core
def test_ctrl_c_once(project) -> None:
    """One Ctrl-C while it buys: no further attempt, what was asked for is released, the state is
    whole; then destroy as ever.
    """
    made = project()
    made.edit(
        "providers: [gcp, aws, modal]", "rank: preference\n      providers: [gcp, aws, modal]"
    )
    made.rehearse("latency", "gcp", "create", "3s")
    said = made.interrupted_up("#4")
    assert "Traceback" not in said
    assert "stopped by the user" in said
    wait_until(lambda: made.machines() == [])
    made.destroy()
    assert made.machines() == []


@pytest.mark.parametrize("stack", ["job-l4", "serve-modal"])
def test_an_up_killed_while_modal_queues_leaves_nothing(project, stack) -> None:
    """`up` and its plugin killed with -9 while the app waits for a container: the next `up` takes
    it over, and destroy leaves no app.
    """
    made = project(stack)
    made.rehearse("latency", "modal", "create", "4s")
    made.rehearse("latency", "modal", "job", "10m")
    made.killed_up("#1", also_plugin=True)
    made.up()
    assert made.cluster()["outputs"]["status"] == "running" and len(made.machines()) == 1
    made.destroy()
    assert made.machines() == []


def test_a_sign_in_that_ends_in_the_middle_of_a_run_loses_nothing(project) -> None:
    """C24: the machine was ordered, and its cloud refuses every further look: nothing else is
    bought, the state keeps it with its cost; after the sign-in the next `up` takes it over.
    """
    made = project("serve-l4")
    made.edit("gpu: L4:1", "gpu: L4:1\n      providers: [gcp]")
    calls = ("instances.get", "instances.list", "instances.aggregatedList", "*perations.*")
    for call in calls:
        made.rehearse("fault", "gcp", call, "unauthorized", "--times", "always")
    made.hurry()
    said = " ".join(made.up(fails=True).split())
    assert "may still cost $" in said and "nothing else is bought until that is known" in said, said
    assert len(made.machines()) == 1
    outputs = made.cluster()["outputs"]
    assert outputs["status"] == "unsettled" and outputs["price_usd_per_hour"] > 0
    again = " ".join(made.up(fails=True).split())
    assert "gone" not in again and len(made.machines()) == 1
    made.rehearse("fault", "--clear")
    made.up()
    assert made.cluster()["outputs"]["status"] == "running" and len(made.machines()) == 1
    for call in calls:
        made.rehearse("fault", "gcp", call, "unauthorized", "--times", "always")
    made.run("refresh", "-s", made.stack, "--yes", "--skip-preview")
    kept = made.cluster()["outputs"]
    assert (
        kept["status"] == "running"
        and kept["price_usd_per_hour"] == outputs["price_usd_per_hour"]
        and kept["detail"].startswith("unreachable: ")
    )
    made.rehearse("fault", "--clear")
    made.preview("--expect-no-changes")
    made.destroy()
    assert made.machines() == []
