"""Which places of AWS an account begins without, and the commands that enable them."""

import pytest

from providers.adapters.aws import MANIFEST
from providers.errors import QuotaExceeded
from tests.present import present
from tests.unit.aws.rig import candidate, order


@pytest.mark.parametrize(
    ("region", "zone", "command"),
    [
        (
            "us-east-1",
            "use1-atl2-az1",
            "--region us-east-1 --group-name us-east-1-atl-2 --opt-in-status opted-in",
        ),
        (
            "us-west-2",
            "usw2-lax1-az2",
            "--region us-west-2 --group-name us-west-2-lax-1 --opt-in-status opted-in",
        ),
        ("ap-southeast-3", "apse3-az1", "aws account enable-region --region-name ap-southeast-3"),
        ("us-east-1", "use1-az1", ""),
        ("eu-north-1", "eun1-az1", ""),
    ],
)
def test_place_that_an_account_begins_without_names_its_command(region, zone, command) -> None:
    """Local Zones by their id, regions since 2019 by name; ordinary zones need nothing."""
    found = present(MANIFEST.limits.closed)(region, zone)
    assert command in found and bool(found) is bool(command)


@pytest.mark.parametrize(("limit", "closed"), [(0, True), (8, False)])
def test_refusal_for_quota_is_told_with_the_limit_and_closes_the_place_only_at_zero(
    rig, limit, closed
) -> None:
    """EC2's refusal states the limit in words alone: Service Quotas is asked, once; zero is an
    account that may not, not one that is busy.
    """
    rig.store.set_quota("aws", "us-east-1", "L-417A185B", limit)
    with pytest.raises(QuotaExceeded) as caught:
        rig.ec2.submit(order(candidate()))
    assert (caught.value.limit, caught.value.closed) == (str(limit), closed)
    assert rig.count("service-quotas.GetServiceQuota") <= 1
