"""A spec's `options.aws`, typed. Owns its keys and their checks; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from providers.adapters.sections import unknown
from providers.errors import Problem

AMI_PARAMETER = (
    "/aws/service/deeplearning/ami/{architecture}"
    "/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
)
"""AWS's own public parameter of the newest Deep Learning base image with NVIDIA's open driver (AWS
DLAMI release notes, 2026-01). `{architecture}` is x86_64 or arm64.
"""

VOLUME_TYPES = ("gp3", "gp2", "io2", "io1")
NONE = "none"
MOST_GROUPS = 5
"""Security groups on one interface: EC2's default limit."""

_SUBNET = re.compile(r"^subnet-[0-9a-f]{8,17}$")
_GROUP = re.compile(r"^sg-[0-9a-f]{8,17}$")
_ZONE = re.compile(r"^[a-z]{3,5}[0-9](-[a-z]{3}[0-9])?-az[0-9]+$")
_AMI = re.compile(r"^ami-[0-9a-f]{8,17}$")
_PARAMETER = re.compile(r"^/?[A-Za-z0-9_.{}-]+(/[A-Za-z0-9_.{}-]+)*$")
_NAME = re.compile(r"^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$")
_PROFILE = re.compile(r"^(arn:aws[a-z-]*:iam::[0-9]{12}:instance-profile/)?[\w+=,.@/-]{1,200}$")


class Options(NamedTuple):
    """What a user may say about EC2 machines.

    `subnets` maps zone ids to subnets (a machine is then made only in those zones of theirs); left
    out, the default VPC's. `security_group` is one group or several; left out, one of the owner's
    own is made. `ami` wins over `ami_ssm_parameter`. `placement_group` names an existing one;
    `none` makes none for several nodes either. `efa` left out means: for several nodes, where the
    type has it. `key_name` is an existing key pair, beside the spec's ssh_key.
    """

    subnets: tuple[tuple[str, str], ...] = ()
    security_group: tuple[str, ...] = ()
    key_name: str = ""
    instance_profile: str = ""
    ami: str = ""
    ami_ssm_parameter: str = ""
    volume_type: str = "gp3"
    volume_iops: int = 0
    volume_throughput: int = 0
    placement_group: str = ""
    efa: bool | None = None

    def parameter(self, architecture: str) -> str:
        """The SSM parameter that names the image."""
        return (self.ami_ssm_parameter or AMI_PARAMETER).replace("{architecture}", architecture)

    def subnet(self, zone: str) -> str:
        """The subnet to use in a zone, or nothing."""
        return dict(self.subnets).get(zone, "")


_TEXTS: dict[str, tuple[re.Pattern[str], str]] = {
    "key_name": (_NAME, "the name of an existing EC2 key pair"),
    "instance_profile": (_PROFILE, "an instance profile's name or ARN"),
    "ami": (_AMI, 'an image such as "ami-0123456789abcdef0"'),
    "ami_ssm_parameter": (_PARAMETER, f'a parameter such as "{AMI_PARAMETER}"'),
    "placement_group": (_NAME, f'the name of an existing placement group, or "{NONE}"'),
}
_NUMBERS = {"volume_iops": (100, 256_000), "volume_throughput": (125, 2_000)}
"""EBS limits of any volume type (EBS user guide, 2026)."""


def problems(section: Mapping[str, object]) -> list[Problem]:
    """Everything that is wrong, each with its path relative to the section."""
    return _read(section)[1]


def read(section: Mapping[str, object]) -> Options:
    """The options of a section that was checked; what is wrong in it is left at its default."""
    return _read(section)[0]


def _read(section: Mapping[str, object]) -> tuple[Options, list[Problem]]:
    found: list[Problem] = []
    values: dict[str, object] = {}
    for key, value in section.items():
        wrong = _problems(key, value)
        if wrong:
            found.extend(wrong)
        else:
            values[key] = _value(key, value)
    options = Options(**values)  # type: ignore[arg-type]
    if options.ami and options.ami_ssm_parameter:
        found.append(
            Problem(
                "ami_ssm_parameter",
                "an image or a parameter",
                "both",
                "drop one: ami is exactly one, the parameter the newest of its kind",
            )
        )
    if options.volume_iops and options.volume_type == "gp2":
        found.append(
            Problem(
                "volume_iops",
                "a volume type that takes it: gp3, io1 or io2",
                "gp2",
                "drop it, or change volume_type",
            )
        )
    if options.volume_type in ("io1", "io2") and not options.volume_iops:
        found.append(
            Problem(
                "volume_iops",
                f"a number, which {options.volume_type} needs",
                "nothing",
                "set volume_iops",
            )
        )
    if options.volume_throughput and options.volume_type != "gp3":
        found.append(
            Problem(
                "volume_throughput",
                "gp3, the volume type that takes it",
                options.volume_type,
                "drop it, or change volume_type",
            )
        )
    return options, found


def _value(key: str, value: object) -> object:
    if key == "subnets" and isinstance(value, Mapping):
        return tuple(sorted((str(zone), str(subnet)) for zone, subnet in value.items()))
    if key == "security_group":
        return (value,) if isinstance(value, str) else tuple(value)  # type: ignore[arg-type]
    if isinstance(value, float):
        return int(value)
    return value


def _problems(key: str, value: object) -> list[Problem]:
    shown = repr(value)[:80]
    if key in _TEXTS:
        pattern, wanted = _TEXTS[key]
        return (
            [] if isinstance(value, str) and pattern.match(value) else [Problem(key, wanted, shown)]
        )
    if key in _NUMBERS:
        least, most = _NUMBERS[key]
        whole = (
            not isinstance(value, bool) and isinstance(value, (int, float)) and value == int(value)
        )
        return (
            []
            if whole and least <= value <= most  # type: ignore[operator]
            else [Problem(key, f"a whole number from {least} to {most}", shown)]
        )
    if key == "volume_type":
        return (
            []
            if value in VOLUME_TYPES
            else [Problem(key, "one of " + ", ".join(VOLUME_TYPES), shown)]
        )
    if key == "efa":
        return [] if isinstance(value, bool) else [Problem(key, "true or false", shown)]
    if key == "security_group":
        listed = [value] if isinstance(value, str) else value
        good = (
            isinstance(listed, (list, tuple))
            and 1 <= len(listed) <= MOST_GROUPS
            and all(isinstance(item, str) and _GROUP.match(item) for item in listed)
        )
        return (
            []
            if good
            else [
                Problem(
                    key,
                    'a security group such as "sg-0123456789abcdef0", or a list of up to'
                    f" {MOST_GROUPS}",
                    shown,
                )
            ]
        )
    if key == "subnets":
        if not isinstance(value, Mapping) or not value:
            return [
                Problem(
                    key,
                    "a mapping of zone ids to subnets, as in {use1-az1:"
                    ' "subnet-0123456789abcdef0"}',
                    shown,
                )
            ]
        wrong = [
            Problem(
                f"subnets.{zone}",
                'a zone id such as "use1-az1"',
                repr(zone),
                "zone names such as us-east-1a differ from account to account",
            )
            for zone in value
            if not _ZONE.match(str(zone))
        ]
        return wrong + [
            Problem(
                f"subnets.{zone}", 'a subnet such as "subnet-0123456789abcdef0"', repr(subnet)[:80]
            )
            for zone, subnet in value.items()
            if not (isinstance(subnet, str) and _SUBNET.match(subnet))
        ]
    return [unknown(key, Options._fields)]
