"""Google Cloud (Compute Engine). Owns the manifest; imports no SDK: `adapter` and Google's client
are imported when a call is about to be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.adapters.base import Console, Credentials, Limits, Manifest, Pricing, Programs
from providers.adapters.gcp.vertex import MANIFEST as VERTEX
from providers.model.capability import Capabilities
from providers.model.volume import VolumeSales
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.adapters.base import Adapter, NetworkRequest
    from providers.errors import Problem
    from providers.model.fabric import Fabric
    from providers.model.host import Host
    from providers.model.machine import Node, Setup
    from providers.model.offer import Candidate
    from providers.model.placement import Placement
    from providers.model.worlds import RehearsedCloud

NAME = "gcp"

REGISTRIES = ("*.pkg.dev", "gcr.io", "*.gcr.io")
"""Artifact Registry, under its own names and those of before (Google, "Transition from Container
Registry", 2026-11).
"""
CAPABILITIES = Capabilities(
    provider=NAME,
    kinds=frozenset({"machine"}),
    workload_kinds=frozenset({"job", "service"}),
    capacities=frozenset({"on-demand", "spot", "flex-start", "reservation"}),
    # One creating call makes the whole cluster or nothing. A thousand is the spec's own limit and
    # within what one bulkInsert takes.
    max_nodes=1000,
    # No ttl: setScheduling is for stopped machines only (discovery document v1, revision 20261106).
    in_place=frozenset({"labels", "ssh_key", "state", "script"}),
    live_offers=False,
    ends_idle=True,
    buckets=frozenset({"gs"}),
    keyed_buckets=frozenset({"s3"}),
    mounts=frozenset({"gs", "s3"}),
    passwords=True,
    registries=REGISTRIES,
    # G4 by its whole GPUs: a fraction of one is no count that can be asked for.
    deduplicates=True,
    sold_types=frozenset(
        {
            "a2-highgpu-",
            "a2-megagpu-",
            "a2-ultragpu-",
            "a3-edgegpu-",
            "a3-highgpu-",
            "a3-megagpu-",
            "a3-ultragpu-",
            "a4-highgpu-",
            "a4x-highgpu-",
        }
        | {
            "a4x-maxgpu-",
            "g2-standard-",
            "g4-standard-48",
            "g4-standard-96",
            "g4-standard-192",
            "g4-standard-384",
            "n1-",
        }
    ),
)


def connect(
    world: str, config: Mapping[str, str], rehearsed: RehearsedCloud | None = None
) -> Adapter:
    """The adapter. Config keys: `project`, `endpoint` (of the API, ending in `/compute/v1/`; in a
    rehearsal on loopback only).

    In a rehearsal `rehearsed` is its server. Live, reads Google's
    application default credentials (files, environment, or one call to a metadata server). Raises
    NotConfigured when credentials or the project are missing.
    """
    if world == REHEARSAL:
        from providers.adapters.gcp.lean import postpone

        postpone()
    from providers.adapters.gcp.adapter import connect as opened

    return opened(world, config, rehearsed)


def check_options(section: Mapping[str, object]) -> Sequence[Problem]:
    """Every problem of a spec's `options.gcp`, with paths relative to it. Pure."""
    from providers.adapters.gcp.options import problems

    return problems(section)


def notes_for(candidate: Candidate, setup: Setup) -> Sequence[str]:
    """See `providers.adapters.gcp.notes`."""
    from providers.adapters.gcp.notes import notes as told

    return told(candidate, setup)


def fabric_of(placed: Placement, setup: Setup) -> Fabric | None:
    """See `providers.adapters.gcp.between_nodes`."""
    from providers.adapters.gcp.between_nodes import between
    from providers.adapters.gcp.options import read

    return between(placed, read(dict(setup.options)))


def together(candidates: Sequence[Candidate], section: Mapping[str, object]) -> int:
    """See `providers.adapters.gcp.compile`."""
    from providers.adapters.gcp.grouping import together as alike

    return alike(candidates, section)


def fits(kind: str, section: Mapping[str, object], setup: Setup) -> Sequence[Problem]:
    """What is more than Google takes; and secrets are fetched by the machine itself, as some
    service account. Pure.
    """
    from providers.adapters.gcp.machine_metadata import fits as told
    from providers.adapters.sections import nameless
    from providers.model.secret import providers_of

    found = list(told(setup))
    # A managed network brings a service account of its own.
    if section.get("service_account") or setup.network:
        return found
    needs: list[tuple[str, str]] = []
    if NAME in providers_of(setup.secrets):
        role = "one with the role roles/secretmanager.secretAccessor on the secrets"
        needs.append(("fetches its secrets", role))
    if setup.keeps.startswith("gs://"):
        role = f"one with the role roles/storage.objectAdmin on {setup.keeps}"
        needs.append(("keeps its checkpoints", role))
    if setup.signs_in_to:
        role = f"one with the role roles/artifactregistry.reader at {setup.signs_in_to}"
        needs.append(("pulls its image", role))
    if own := [(url, writes) for _, url, writes in setup.mounts if url.startswith("gs://")]:
        right = "objectUser" if any(writes for _, writes in own) else "objectViewer"
        role = f"one with the role roles/storage.{right} on {own[0][0]}"
        needs.append(("mounts its buckets", role))
    return [*found, *nameless("service_account", f"service account that the {kind}", needs)]


def unreachable(_placed: Placement, setup: Setup) -> str:
    """Without a way in from here by what was declared: a managed network lets ssh in through
    Google's own proxy alone.
    """
    if setup.network:
        return "its managed network lets ssh in only through Google's Identity-Aware Proxy"
    if dict(setup.options).get("external_ip") is False:
        return "it has no address outside (options.gcp.external_ip)"
    return ""


def reference(text: str) -> str:
    """See `providers.adapters.gcp.secrets`."""
    from providers.adapters.gcp.secrets import reference as wanted

    return wanted(text)


def shut(setup: Setup) -> str:
    """Google's networks let nothing in that no firewall rule names, and the rule for a port is
    declared with a managed network alone. Pure.
    """
    return "" if setup.network else "network: managed, which declares the firewall"


def host_of(machine_type: str, section: Mapping[str, object]) -> Host | None:
    """See `providers.adapters.gcp.host`."""
    from providers.adapters.gcp.host import host as known

    return known(machine_type, section)


def ssh(node: Node, setup: Setup, behind: bool) -> str:
    """Google's own command, which brings a key of its own and reaches what has no address outside
    (Google, "Connect to Linux VMs", 2026-11).
    """
    if setup.ssh_public_key and not behind:
        return ""
    _, project, _, zone, _, name = node.handle.native_id.split("/")
    through = " --tunnel-through-iap" if behind else ""
    return f"gcloud compute ssh {name} --zone {zone} --project {project}{through}"


def declare_network(request: NetworkRequest) -> Mapping[str, Any]:
    """See `providers.adapters.gcp.network`."""
    from providers.adapters.gcp.network import declare

    return declare(request)


def attaches(machine_type: str, kind: str) -> str:
    """The types of disk that a machine takes instead of this one; empty where it takes it."""
    from providers.adapters.gcp.volumes import attaches as taken

    return taken(machine_type, kind)


STORAGE = VolumeSales(
    types=(
        ("pd-balanced", 10, 65_536),
        ("pd-ssd", 10, 65_536),
        ("hyperdisk-balanced", 4, 65_536),
    ),
    shared=frozenset({"pd-balanced", "pd-ssd"}),
    attaches=attaches,
)
"""Google, "About Persistent Disk" and "About Hyperdisk", 2026-11."""

MANIFEST = Manifest(
    name=NAME,
    capabilities=CAPABILITIES,
    connect=connect,
    check_options=check_options,
    credentials=Credentials(
        settings=("project", "advice"),
        from_environment=(("project", "GOOGLE_CLOUD_PROJECT"),),
        pulumi_keys=frozenset({"region", "zone"}),
        environment=("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"),
        reference=reference,
    ),
    pricing=Pricing(notes=notes_for),
    limits=Limits(
        together=together,
        fits=fits,
        unreachable=unreachable,
        fabric=fabric_of,
        shut=shut,
        host=host_of,
    ),
    console=Console(ssh=ssh),
    declare_network=declare_network,
    storage=STORAGE,
    programs=Programs(ends_itself="shutdown -h now", options={"container": "image"}),
)

ALSO = (VERTEX,)
"""The other provider of this folder: jobs on the same machines, by another API."""
