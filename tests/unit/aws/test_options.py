"""The options of the EC2 adapter, and its table of machine types."""

from pathlib import Path

import pytest

import providers
from providers.adapters.aws import CAPABILITIES, MANIFEST, machines
from providers.adapters.aws.options import Options, problems, read
from providers.rehearsal.clouds.aws import places
from tests.unit.aws.compile_rig import A, B

# Options


@pytest.mark.parametrize(
    ("section", "paths"),
    [
        ({}, []),
        (
            {
                "subnets": {
                    A: "subnet-0123456789abcdef0",
                    "use1-atl2-az1": "subnet-0123456789abcdef1",
                },
                "security_group": "sg-0123456789abcdef0",
            },
            [],
        ),
        (
            {
                "security_group": ["sg-01234567", "sg-12345678"],
                "volume_type": "io2",
                "volume_iops": 4000,
                "efa": False,
            },
            [],
        ),
        (
            {
                "volume_iops": 4000.0,
                "volume_throughput": 500,
                "key_name": "me",
                "placement_group": "none",
            },
            [],
        ),
        (
            {
                "instance_profile": "arn:aws:iam::123456789012:instance-profile/train",
                "ami": "ami-0123456789abcdef0",
            },
            [],
        ),
        ({"subnets": {"us-east-1a": "subnet-0123456789abcdef0"}}, ["subnets.us-east-1a"]),
        ({"subnets": {A: "vpc-1"}}, [f"subnets.{A}"]),
        ({"subnets": []}, ["subnets"]),
        ({"security_group": []}, ["security_group"]),
        (
            {"ami": "ubuntu", "efa": "yes", "volume_type": "ssd", "volume_iops": True},
            ["ami", "efa", "volume_type", "volume_iops"],
        ),
        ({"ami": "ami-01234567", "ami_ssm_parameter": "/x/y"}, ["ami_ssm_parameter"]),
        ({"volume_type": "io1"}, ["volume_iops"]),
        (
            {"volume_type": "gp2", "volume_iops": 500, "volume_throughput": 200},
            ["volume_iops", "volume_throughput"],
        ),
        ({"security_groups": "sg-01234567", "key": "x"}, ["security_groups", "key"]),
    ],
)
def test_options_are_checked_whole(section, paths) -> None:
    """Every problem of options.aws comes at once, each at its path; an unknown key names near ones."""
    found = problems(section)
    assert paths == [problem.path for problem in found]
    assert all(
        problem.path != "security_groups" or "security_group" in problem.wanted for problem in found
    )
    assert list(MANIFEST.check_options(section)) == found


def test_options_are_typed() -> None:
    """What was checked is read into plain types; the image parameter follows the processor."""
    got = read(
        {
            "subnets": {B: "subnet-0123456789abcdef0"},
            "security_group": "sg-01234567",
            "volume_iops": 4000.0,
        }
    )
    assert (
        Options(
            subnets=((B, "subnet-0123456789abcdef0"),),
            security_group=("sg-01234567",),
            volume_iops=4000,
        )
        == got
    )
    assert "arm64" in got.parameter("arm64") and "x86_64" in got.parameter("x86_64")
    assert read({"ami_ssm_parameter": "/my/image"}).parameter("arm64") == "/my/image"


# The table of types


def test_the_table_of_types_is_what_the_catalog_sells() -> None:
    """Every type that the adapter orders is in its table with the catalog's GPU and count, and
    nothing else is.
    """
    import providers.catalog.offers

    offers = providers.catalog.offers.load()
    sold = {}
    for row in range(len(offers)):
        offer = offers.offer(row)
        if (
            offer.provider == "aws"
            and CAPABILITIES.orders(offer.machine_type)
            and not offer.restriction
        ):
            sold[offer.machine_type] = (
                offer.gpu_type,
                offer.gpu_count,
                offer.vcpus,
                offer.memory_gib,
            )
    assert sold == {
        name: (kind.gpu, kind.gpus, kind.vcpus, kind.memory_gib)
        for name, kind in machines.TYPES.items()
    }


def test_the_stand_ins_zones_are_what_the_committed_sources_give() -> None:
    """The committed zones.json is what its generator makes of the catalog's sources."""
    from providers.rehearsal.clouds.aws import generate

    sources = Path(providers.__file__).parent / "catalog" / "sources"
    assert generate.zones(generate.rows(sources)) == places.table()


def test_each_gpu_is_in_one_quota_bucket() -> None:
    """A quota blocks its whole bucket by GPU, so no GPU may be in two."""
    p, g = (set(machines.bucket_gpus(bucket)) for bucket in machines.BUCKETS)
    assert p.isdisjoint(g) and {"H100", "A100"} <= p and {"L4", "T4", "L40S"} <= g
