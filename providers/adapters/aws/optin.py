"""Places that an account has to enable before it can use them: AWS's Local Zones and the regions
since 2019. Owns which, and how to; pure.

Source: AWS, "Local Zones" (zone groups and ids) and "Enable or disable AWS Regions in your
account", read 2026-11.
"""

from __future__ import annotations

OPT_IN_REGIONS = frozenset(
    {
        *(
            "af-south-1",
            "ap-east-1",
            "ap-east-2",
            "ap-south-2",
            "ap-southeast-3",
            "ap-southeast-4",
            "ap-southeast-5",
            "ap-southeast-6",
        ),
        *(
            "ap-southeast-7",
            "ca-west-1",
            "eu-central-2",
            "eu-south-1",
            "eu-south-2",
            "il-central-1",
            "me-central-1",
            "me-south-1",
        ),
        *("mx-central-1",),
    }
)


def closed(region: str, zone: str) -> str:
    """What this place is and the command that enables it, where an account begins without it; empty
    for the others.
    """
    if region in OPT_IN_REGIONS:
        return f"{region} is a region that an account must enable: {region_command(region)}"
    if group := zone_group(region, zone):
        return f"{zone} is a Local Zone that an account must enable: {zone_command(region, group)}"
    return ""


def zone_group(region: str, zone: str) -> str:
    """The group of a Local Zone by its id: `us-east-1-atl-2` of `use1-atl2-az1`. Empty for a zone
    of the region itself.
    """
    parts = zone.split("-")
    if len(parts) != 3:
        return ""
    city = parts[1].rstrip("0123456789")
    return f"{region}-{city}-{parts[1][len(city) :] or '1'}"


def region_command(region: str) -> str:
    """Enables a region; it takes some minutes, once."""
    return f"aws account enable-region --region-name {region}"


def zone_command(region: str, group: str) -> str:
    """Enables a group of Local Zones."""
    return (
        f"aws ec2 modify-availability-zone-group --region {region} --group-name {group}"
        " --opt-in-status opted-in"
    )
