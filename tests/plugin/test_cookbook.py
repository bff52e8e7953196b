"""The recipes of docs/cookbook, each through the real engine on the rehearsal clouds, as its page
has it: from `up` to an end that leaves nothing.
"""

import json

import pytest
import yaml

from tests.pictures import cookbook

STACKS = cookbook.stacks()


def test_the_cookbook_has_a_recipe_for_each_of_twelve_things() -> None:
    """No stack twice."""
    assert len(set(STACKS)) == len(STACKS) >= 12


@pytest.mark.parametrize("stack", STACKS)
def test_a_recipe_runs_as_it_is_and_leaves_nothing(project, stack) -> None:
    """All of it is acquired by one `up`; a job ends well, a service has its addresses; after
    `destroy` nothing is left.
    """
    made = project(stack)
    made.up()
    clusters = yaml.safe_load(made.file.read_text())["config"]["gpus:clusters"]
    said = json.loads(made.run("stack", "output", "-s", stack, "--json"))
    made.rehearse("advance", "1h")
    for name, declared in clusters.items():
        kind = declared.get("kind", "machine")
        assert said[name]["status"] == "running"
        assert said[name].get("endpoints") or kind != "service"
        if kind == "job":
            assert "exit code 0" in made.gpus("wait", name, "-s", stack)
    made.destroy()
    assert made.machines() == []


def test_the_nightly_job_runs_once_a_night_on_a_machine_of_its_own(project) -> None:
    """The line of the page, night after night: a new run clears the last night's machine away."""
    made = project("batch-nightly")
    for _ in range(2):
        made.gpus("rerun", "batch", "-s", made.stack, "--up", "--yes")
        (machine,) = made.machines()
        assert machine["status"] == "RUNNING"
        made.rehearse("advance", "1h")
        assert "exit code 0" in made.gpus("wait", "batch", "-s", made.stack)
    made.destroy()
