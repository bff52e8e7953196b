"""Amazon EC2. Owns the manifest; imports no SDK: `adapter` and boto3 are imported when a call is
about to be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.aws.optin import closed
from providers.adapters.base import Credentials, Limits, Manifest, Pricing, Programs
from providers.model.capability import Capabilities
from providers.model.volume import VolumeSales

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.adapters.base import Adapter
    from providers.errors import Problem
    from providers.model.fabric import Fabric
    from providers.model.host import Host
    from providers.model.machine import Setup
    from providers.model.offer import Candidate
    from providers.model.placement import Placement
    from providers.model.worlds import RehearsedCloud

NAME = "aws"

CAPABILITIES = Capabilities(
    provider=NAME,
    buckets=frozenset({"s3"}),
    mounts=frozenset({"s3"}),
    passwords=True,
    registries=("*.dkr.ecr.*.amazonaws.com",),
    kinds=frozenset({"machine"}),
    workload_kinds=frozenset({"job", "service"}),
    capacities=frozenset({"on-demand", "spot", "reservation", "block"}),
    # EC2 user guide, "Capacity Blocks for ML", 2026: the GPU types among them.
    blocks=frozenset({"p4d.", "p4de.", "p5.", "p5e.", "p5en.", "p6-b200.", "p6-b300."}),
    # RunInstances makes MinCount = MaxCount machines or none. A hundred is far below what one call
    # takes and above any public GPU order.
    max_nodes=100,
    # No ttl and no ssh_key: both live in the user data, which the machine reads at its first boot
    # only.
    in_place=frozenset({"labels", "state"}),
    # A one-time Spot machine can only end.
    stoppable=frozenset({"on-demand", "reservation"}),
    live_offers=False,
    ends_idle=True,
    # A timer in the machine shuts it down, which terminates it: EC2 has no run limit of its own.
    ends_at_ttl=True,
    deduplicates=True,
    sold_types=frozenset(
        {
            "p3dn.",
            "p4d.",
            "p4de.",
            "p5.",
            "p5e.",
            "p5en.",
            "p6-b200.",
            "p6-b300.",
            "g4dn.",
            "g5.",
            "g5g.",
            "g6.",
            "gr6.",
            "g6e.",
            "g7.",
            "g7e.",
        }
    ),
)


def connect(
    world: str, config: Mapping[str, str], rehearsed: RehearsedCloud | None = None
) -> Adapter:
    """The adapter. Config keys: `profile` (of the AWS configuration files), `regions`
    (comma-separated; what is searched and bought in is limited to them, else every region that the
    account has enabled), `endpoint` (in a rehearsal on loopback only).

    In a rehearsal `rehearsed` is its server, and no AWS configuration of
    this machine is read. Live, credentials come from boto3's own chain (environment, files, SSO,
    one call to an instance's metadata). Raises NotConfigured when boto3 or credentials are missing.
    """
    from providers.adapters.aws.connection import connect as opened

    return opened(world, config, rehearsed)


def check_options(section: Mapping[str, object]) -> Sequence[Problem]:
    """Every problem of a spec's `options.aws`, with paths relative to it. Pure."""
    from providers.adapters.aws.options import problems

    return problems(section)


def notes_for(candidate: Candidate, setup: Setup) -> Sequence[str]:
    """What a reader of the plan should know about a candidate beyond its price. Pure."""
    from providers.adapters.aws.compile import plan_notes

    return plan_notes(candidate, setup)


def fits(kind: str, section: Mapping[str, object], setup: Setup) -> Sequence[Problem]:
    """What is more than EC2 takes; and secrets are fetched by the machine itself, as some instance
    profile. Pure.
    """
    from providers.adapters.aws.first_boot import fits as told
    from providers.adapters.sections import nameless
    from providers.model.secret import providers_of

    found = list(told(setup))
    if section.get("instance_profile"):
        return found
    needs: list[tuple[str, str]] = []
    if NAME in providers_of(setup.secrets):
        needs.append(
            (
                "fetches its secrets",
                "one that may call ssm:GetParameter or secretsmanager:GetSecretValue on them, and"
                " decrypt them",
            )
        )
    if setup.keeps.startswith("s3://"):
        needs.append(("keeps its checkpoints", f"one that may list, get and put in {setup.keeps}"))
    if setup.signs_in_to:
        needs.append(
            (
                "pulls its image",
                f"one with AmazonEC2ContainerRegistryReadOnly, for {setup.signs_in_to}",
            )
        )
    if setup.mounts:
        _, url, _ = setup.mounts[0]
        more = ", put and delete" if any(writes for _, _, writes in setup.mounts) else ""
        needs.append(("mounts its buckets", f"one that may list and get{more} in {url}"))
    return [*found, *nameless("instance_profile", f"instance profile that the {kind}", needs)]


def unreachable(placed: Placement, setup: Setup) -> str:
    """See `providers.adapters.aws.compile`."""
    from providers.adapters.aws.demands import unreachable as why

    return why(placed, setup)


def fabric(placed: Placement, setup: Setup) -> Fabric | None:
    """See `providers.adapters.aws.demands`."""
    from providers.adapters.aws.demands import fabric as between

    return between(placed, setup)


def reference(text: str) -> str:
    """See `providers.adapters.aws.secrets`."""
    from providers.adapters.aws.secrets import reference as wanted

    return wanted(text)


def shut(setup: Setup) -> str:
    """The group that is made here lets in ssh alone; a group of the user's own lets in what it
    says. Pure.
    """
    return (
        ""
        if dict(setup.options).get("security_group")
        else "options.aws.security_group, one that lets the port in"
    )


def host_of(machine_type: str, section: Mapping[str, object]) -> Host | None:
    """See `providers.adapters.aws.host`."""
    from providers.adapters.aws.host import host as known

    return known(machine_type, section)


MANIFEST = Manifest(
    name=NAME,
    capabilities=CAPABILITIES,
    connect=connect,
    check_options=check_options,
    credentials=Credentials(
        environment=(
            "AWS_PROFILE",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
        ),
        settings=("profile", "regions", "advice"),
        pulumi_keys=frozenset({"region", "zone", "profiles"}),
        reference=reference,
    ),
    pricing=Pricing(notes=notes_for),
    limits=Limits(
        fits=fits,
        unreachable=unreachable,
        fabric=fabric,
        shut=shut,
        host=host_of,
        closed=closed,
    ),
    storage=VolumeSales(types=(("gp3", 1, 65_536),)),
    programs=Programs(ends_itself="shutdown -h now"),
)
