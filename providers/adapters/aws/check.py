"""`gpus check aws`: what is there and what is missing. Owns the probes, which only read, and how to
get each missing thing. Imports no SDK.

The right to create is asked with DryRun, which EC2 answers without making anything. Quota is in
vCPUs, for each family group and way of buying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.aws import machines, quotas
from providers.adapters.aws.errors import PROVIDER, Context, quota_page
from providers.errors import BadCredentials, CloudError, NotConfigured
from providers.model.machine import CheckLine
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adapters.aws.client import Client

OK, MISSING, REFUSED, UNKNOWN = "ok", "missing", "refused", "unknown"

RIGHTS = (
    "ec2:Describe*, CreateFleet, RunInstances, CreateLaunchTemplate, DeleteLaunchTemplate,"
    " CreateSecurityGroup, AuthorizeSecurityGroupIngress, AuthorizeSecurityGroupEgress,"
    " ModifyNetworkInterfaceAttribute, DeleteSecurityGroup, CreatePlacementGroup,"
    " DeletePlacementGroup, CreateTags, DeleteTags,"
    " CreateVolume, AttachVolume, ModifyVolume, DeleteVolume, StopInstances, StartInstances,"
    " ModifyInstanceAttribute, TerminateInstances,"
    " CancelSpotInstanceRequests, GetConsoleOutput,"
    " PurchaseCapacityBlock (for `block`); ssm:GetParameter;"
    " servicequotas:GetServiceQuota; pricing:GetProducts; iam:PassRole for an instance profile"
)
ADVICE = "ec2:GetSpotPlacementScores"
"""Optional: without it, places are ranked without EC2's advice."""
AT_ONCE = 8


def lines(client: Client, world: str, regions: tuple[str, ...] = ()) -> Sequence[CheckLine]:
    """One line a topic. Calls: GetCallerIdentity, DescribeRegions, DescribeInstances,
    ModifyNetworkInterfaceAttribute, RunInstances and GetSpotPlacementScores (DryRun),
    GetServiceQuota (4 a region).
    """
    out: list[CheckLine] = []
    try:
        who = client.call("get_caller_identity", Context("aws: who am I"), service="sts")
    except CloudError as error:
        return _refused(error)
    whose = "the rehearsal cloud needs none" if world == REHEARSAL else str(who.get("Arn", ""))
    out.append(CheckLine(PROVIDER, "credentials", OK, whose))
    out.append(CheckLine(PROVIDER, "account", OK, str(who.get("Account", ""))))
    try:
        answer = client.call("describe_regions", Context("aws: listing regions"), AllRegions=False)
    except CloudError as error:
        state = REFUSED if isinstance(error, BadCredentials) else UNKNOWN
        return [*out, CheckLine(PROVIDER, "regions", state, str(error), f"allow {RIGHTS}")]
    enabled = tuple(sorted(str(region["RegionName"]) for region in answer.get("Regions", ())))
    chosen = tuple(region for region in regions if region in enabled) if regions else enabled
    lacking = [region for region in regions if region not in enabled]
    named = f"{len(chosen)} configured" if regions else f"{len(chosen)} enabled"
    if lacking:
        out.append(
            CheckLine(
                PROVIDER,
                "regions",
                MISSING,
                f"not enabled: {', '.join(lacking)}",
                "enable them in the account, or change `regions`",
            )
        )
    else:
        out.append(CheckLine(PROVIDER, "regions", OK, named))
    if chosen:
        where = "us-east-1" if "us-east-1" in chosen else chosen[0]
        create = _admit(client, where) or _create(client, where)
        out += [_read(client, where), create, _advice(client, where)]
        out += _quotas(client, chosen)
    return out


def _refused(error: CloudError) -> list[CheckLine]:
    found = f"{error.code or type(error).__name__}: {error}"
    if isinstance(error, NotConfigured):
        return [
            CheckLine(
                PROVIDER,
                "credentials",
                MISSING,
                found,
                "aws configure sso, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            )
        ]
    if isinstance(error, BadCredentials):
        return [
            CheckLine(
                PROVIDER,
                "credentials",
                REFUSED,
                found,
                "aws sso login, or new keys; aws sts get-caller-identity tells whose they are",
            )
        ]
    return [CheckLine(PROVIDER, "credentials", UNKNOWN, found, "look at the network and try again")]


def _read(client: Client, region: str) -> CheckLine:
    try:
        client.call(
            "describe_instances", Context(f"aws {region}: listing machines", region), MaxResults=5
        )
    except CloudError as error:
        state = REFUSED if isinstance(error, BadCredentials) else UNKNOWN
        return CheckLine(PROVIDER, "rights to read", state, str(error), f"allow {RIGHTS}")
    return CheckLine(PROVIDER, "rights to read", OK, f"machines can be listed in {region}")


def _create(client: Client, region: str) -> CheckLine:
    """Asks by DryRun; the answer to what is allowed is an error too, `DryRunOperation`."""
    topic = "rights to create"
    context = Context(f"aws {region}: asking for the right to create", region)
    try:
        # DryRun checks rights before anything else: an image that does not exist does no harm.
        client.call(
            "run_instances",
            context,
            DryRun=True,
            MinCount=1,
            MaxCount=1,
            InstanceType="g4dn.xlarge",
            ImageId="ami-00000000000000000",
        )
    except CloudError as error:
        if error.code == "DryRunOperation":
            return CheckLine(PROVIDER, topic, OK, f"RunInstances is allowed in {region}")
        if isinstance(error, BadCredentials):
            return CheckLine(PROVIDER, topic, REFUSED, str(error), f"allow {RIGHTS}")
        return CheckLine(PROVIDER, topic, UNKNOWN, str(error), f"what is needed: {RIGHTS}")
    return CheckLine(
        PROVIDER,
        topic,
        UNKNOWN,
        "DryRun was answered as if it were a call",
        f"what is needed: {RIGHTS}",
    )


def _admit(client: Client, region: str) -> CheckLine | None:
    """The line that says that machines may not be put into a security group; None where nothing
    says so. Without that right each order would buy a machine, and give it up.
    """
    context = Context(f"aws {region}: asking for the right to choose security groups", region)
    try:
        client.call(
            "modify_network_interface_attribute",
            context,
            DryRun=True,
            NetworkInterfaceId="eni-00000000000000000",
            Groups=["sg-00000000000000000"],
        )
    except BadCredentials as error:
        todo = f"allow {RIGHTS}; or name options.aws.security_group"
        return CheckLine(PROVIDER, "rights to create", REFUSED, str(error), todo)
    except CloudError:
        return None
    return None


def _advice(client: Client, region: str) -> CheckLine:
    """Whether it may be asked how probably Spot has room; nothing else needs that. A DryRun counts
    for no limit of questions a day.
    """
    try:
        client.call(
            "get_spot_placement_scores",
            Context(f"aws {region}: asking for the right to placement scores", region),
            DryRun=True,
            InstanceTypes=["g4dn.xlarge"],
            TargetCapacity=1,
            RegionNames=[region],
        )
        found = "DryRun was answered as if it were a call"
    except CloudError as error:
        if error.code == "DryRunOperation":
            return CheckLine(PROVIDER, "advice", OK, "GetSpotPlacementScores is allowed")
        found = str(error)
    todo = f"allow {ADVICE}, or ask for none: `pulumi config set aws:advice no`"
    return CheckLine(PROVIDER, "advice", UNKNOWN, f"optional: {found}", todo)


def _quotas(client: Client, regions: tuple[str, ...]) -> list[CheckLine]:
    from concurrent.futures import ThreadPoolExecutor

    codes = [
        (bucket, way, code)
        for bucket in machines.BUCKETS
        for way, code in (("on-demand", bucket.on_demand), ("spot", bucket.spot))
    ]

    def ask(pair: tuple[str, str]) -> float | None:
        return quotas.read(client, *pair)

    pairs = [(region, code) for _, _, code in codes for region in regions]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="aws-quota") as pool:
        limits = dict(zip(pairs, pool.map(ask, pairs), strict=True))
    return [
        _quota(
            f"quota {bucket.name} {way}", code, {region: limits[region, code] for region in regions}
        )
        for bucket, way, code in codes
    ]


def _quota(topic: str, code: str, limits: dict[str, float | None]) -> CheckLine:
    """A region that does not tell is unknown, not zero."""
    known = {region: limit for region, limit in sorted(limits.items()) if limit is not None}
    silent = len(limits) - len(known)
    if not known:
        return CheckLine(
            PROVIDER,
            topic,
            UNKNOWN,
            f"{code} not told, which is not zero: a try will tell",
            f"see {quota_page('', code)}",
        )
    granted = {region: limit for region, limit in known.items() if limit > 0}
    more_todo = f"more: {quota_page(next(iter(known)), code)}"
    untold = f"; {silent} regions do not tell" if silent else ""
    if not granted:
        state = MISSING if not silent else UNKNOWN
        return CheckLine(
            PROVIDER, topic, state, f"0 vCPUs in {len(known)} regions ({code}){untold}", more_todo
        )
    shown = ", ".join(f"{region} {limit:g}" for region, limit in list(granted.items())[:4])
    rest = f" and {len(granted) - 4} more regions" if len(granted) > 4 else ""
    none = f"; 0 in {len(known) - len(granted)} regions" if len(known) > len(granted) else ""
    return CheckLine(
        PROVIDER,
        topic,
        OK,
        f"vCPUs ({code}): {shown}{rest}{none}{untold}",
        more_todo if none else "",
    )
