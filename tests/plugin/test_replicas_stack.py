"""The stack serve-replicas: its plan, and an edit of what its replicas run."""

import pytest

pytestmark = pytest.mark.long


def test_replicas_are_planned_and_edited_one_after_the_other(project) -> None:
    """The price of one and of all is in the plan, and an address for each in the outputs. Another
    workload is started on one replica after the other; one that does not answer stops that.
    """
    made = project("serve-replicas")
    said = made.preview()
    assert "L4:1; 3 replicas, on-demand" in said
    assert "3 x g2-standard-4 L4:1 on-demand" in said
    assert "$2.16/h, " in said and "each node $0.7196/h" in said
    made.up()
    machines = [each["name"] for each in made.machines()]
    assert len(machines) == 3
    made.edit("context: 8192", "context: 4096")
    made.edit("wait: 30m", "wait: 1s")
    said = made.up(fails=True)
    assert "1 of 3 replicas run the new workload, the others the previous one" in said
    made.edit("wait: 1s", "wait: 30m")
    said = made.up()
    assert "1 of 3 replicas are restarted" in said and "3 of 3 replicas" in said
    assert [each["name"] for each in made.machines()] == machines
    made.destroy()
