"""EC2's Spot placement scores, over boto3 against the stand-in."""

import pytest

from providers.errors import CloudError
from tests.unit.aws.test_prices import offer, rig

__all__ = ["rig"]


def told(rig, *offers, nodes=1):
    found = {}
    for question in rig.ec2.advice(offers, nodes):
        found.update(question())
    return {about[1]: each for about, each in found.items()}


def test_the_regions_of_a_machine_type_are_scored_by_one_call(rig) -> None:
    """A region without room scores lower; one outside of `aws:regions` is not asked about."""
    rig.store.set_stock("aws", "us-east-1", "p5.48xlarge", "spot", 0)
    places = [
        offer("spot", zone, region=region)
        for region, zone in (
            ("us-east-1", "use1-az1"),
            ("us-east-1", "use1-az2"),
            ("us-east-2", "use2-az1"),
            ("eu-west-1", "euw1-az1"),
        )
    ]
    found = told(rig, *places)
    assert found["us-east-1"] == (0.1, "placement score 1 of 10")
    assert found["us-east-2"] == (0.3, "placement score 3 of 10")
    assert set(found) == {"us-east-1", "us-east-2"}
    assert rig.calls("ec2.GetSpotPlacementScores") == 1


def test_only_spot_is_scored(rig) -> None:
    """EC2 scores nothing else."""
    assert told(rig, offer()) == {}


def test_a_refusal_is_an_error_of_the_tree(rig) -> None:
    """A right that is missing, or too many new questions in a day."""
    rig.store.add_fault("aws", "ec2.GetSpotPlacementScores", "forbidden")
    with pytest.raises(CloudError):
        told(rig, offer("spot"))
