"""What `state: stopped` is refused for before anything is asked of a cloud."""

import pytest

from providers.errors import SpecError
from providers.plugin import diff, preconditions
from tests.plugin.test_outputs import a_record


@pytest.mark.parametrize(
    ("provider", "capacity", "why"),
    [
        ("aws", "spot", "a spot machine of aws cannot be stopped and kept, it can only end"),
        ("clore", "spot", "clore cannot stop"),
        ("modal", "", "modal"),
    ],
)
def test_b36_what_cannot_be_stopped_is_refused_in_the_preview(provider, capacity, why) -> None:
    """EC2's one-time Spot machines, and the providers that keep no stopped machine."""
    with pytest.raises(SpecError, match=why):
        preconditions.check_stop(
            a_record().with_terms({"provider": provider, "capacity": capacity}), diff.Verdict()
        )


@pytest.mark.parametrize(
    ("provider", "capacity"),
    [("gcp", "spot"), ("gcp", "on-demand"), ("aws", "on-demand"), ("aws", "reservation")],
)
def test_what_can_be_stopped_is_not_refused(provider, capacity) -> None:
    """Google Cloud, and EC2 on demand or in a reservation."""
    preconditions.check_stop(
        a_record().with_terms({"provider": provider, "capacity": capacity}), diff.Verdict()
    )
