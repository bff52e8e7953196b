"""What holds for part A's own machinery: its points, and the calls that it holds."""

from tests.crash.kills import ASLEEP, BESIDES, CREATING, STEPS, TWISTS, WHO, points
from tests.crash.kills_moments import MOMENTS
from tests.crash.point import CLOUDS


def test_every_step_is_cut_at_every_cloud_in_every_way():
    """Part A has over 60 points, none twice; each cloud sees everyone die, and every moment that is described is one of some step."""
    found = points(1)
    assert len(found) == len(set(found)) > 60
    for cloud in CLOUDS:
        names = [point.name.split("/") for point in found if point.cloud == cloud]
        assert set(WHO) <= {who for _, _, who, *_ in names}
        assert {"up", "update", "replace", "refresh", "destroy", "destroy-unrecorded"} <= {step for step, *_ in names}
    asleep = {(point.cloud, point.name) for point in found if point.name.endswith(f"/{ASLEEP}")}
    assert asleep >= {(cloud, f"{step}/{moment}/{ASLEEP}") for cloud in CLOUDS for step in ("up", "replace", "replace-asked") for moment in CREATING}
    assert {moment for step in STEPS.values() for moment in step.moments} == set(MOMENTS)
    assert set(TWISTS) <= {name for *_, name in BESIDES}
