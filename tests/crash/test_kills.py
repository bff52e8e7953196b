"""What holds for part A's own machinery: its points, and the calls that it holds; and a few of its
points for every run of the tests.
"""

from pathlib import Path

import pytest

from tests.crash.kills import points, run
from tests.crash.kills_moments import MOMENTS
from tests.crash.kills_steps import ASLEEP, BESIDES, CREATING, STEPS, TWISTS, WHO
from tests.crash.point import CLOUDS, Point


def test_every_step_is_cut_at_every_cloud_in_every_way() -> None:
    """Part A has over 60 points, none twice; each cloud sees everyone die, and every moment that is
    described is one of some step.
    """
    found = points(1)
    assert len(found) == len(set(found)) > 60
    for cloud in CLOUDS:
        names = [point.name.split("/") for point in found if point.cloud == cloud]
        assert set(WHO) <= {who for _, _, who, *_ in names}
        assert {"up", "update", "replace", "refresh", "destroy", "destroy-unrecorded"} <= {
            step for step, *_ in names
        }
    asleep = {(point.cloud, point.name) for point in found if point.name.endswith(f"/{ASLEEP}")}
    assert asleep >= {
        (cloud, f"{step}/{moment}/{ASLEEP}")
        for cloud in CLOUDS
        for step in ("up", "replace", "replace-asked")
        for moment in CREATING
    }
    assert {moment for step in STEPS.values() for moment in step.moments} == set(MOMENTS)
    assert set(TWISTS) <= {name for *_, name in BESIDES}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "cloud",
    ["gcp", *(pytest.param(cloud, marks=pytest.mark.long) for cloud in ("aws", "clore", "modal"))],
)
def test_a_run_that_slept_while_its_stack_went_on_elsewhere_leaves_one_machine(
    cloud: str, tmp_path: Path
) -> None:
    """The real CLI and its plugin are suspended with the creating call on its way, and wake after
    `pulumi cancel` and `pulumi up` from another home.
    """
    found = run(Point("a", f"up/intent/{ASLEEP}", cloud, 1), tmp_path / "point")
    assert found.good, found.detail


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("moment", ["queued", "turned"])
def test_a_request_in_google_s_queue_outlives_the_run_that_made_it(
    moment: str, tmp_path: Path
) -> None:
    """Killed while it waits, or when it has become a machine: the next `up` has that one."""
    found = run(Point("a", f"up-queued/{moment}/both", "gcp", 1), tmp_path / "point")
    assert found.good, found.detail


@pytest.mark.timeout(600)
def test_what_a_killed_run_left_of_a_cluster_that_is_declared_no_more_is_released(
    tmp_path: Path,
) -> None:
    """The next `up` finds it by its labels; nothing of it is in any state."""
    found = run(Point("a", "up/made/both/renamed", "gcp", 1), tmp_path / "point")
    assert found.good, found.detail
