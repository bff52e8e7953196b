"""Vertex AI: custom jobs, a provider of its own beside Compute Engine in Google's folder. Owns the
manifest; imports no SDK.

A provider and no option of Compute Engine's: it can be jobs alone, on other terms (no ssh, no
edits, no request id), at another price, and a plan can then hold both, the one as the other's
fallback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.base import Credentials, Limits, Manifest, Pricing, Programs
from providers.adapters.gcp.vertex.regions import LOCATIONS
from providers.model.capability import Capabilities
from providers.model.fabric import Fabric
from providers.model.note import Costs
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from providers.adapters.base import Adapter
    from providers.errors import Problem
    from providers.model.ask import Ask
    from providers.model.host import Host
    from providers.model.machine import Setup
    from providers.model.offer import Candidate, Offer
    from providers.model.placement import Placement
    from providers.model.workload import Program
    from providers.model.worlds import RehearsedCloud

NAME = "vertex"

CAPABILITIES = Capabilities(
    provider=NAME,
    # As the service account of the job, or as Vertex AI's own agent (Google, "Vertex AI Custom Code
    # Service Agent", 2026-11).
    buckets=frozenset({"gs"}),
    # Cloud Storage FUSE under /gcs, which writes as far as that account may (Google, "Use Cloud
    # Storage as a mounted file system", 2026-11).
    mounts=frozenset({"gs"}),
    mounts_read_only=False,
    registries=("*.pkg.dev", "gcr.io", "*.gcr.io"),
    kinds=frozenset({"job"}),
    capacities=frozenset({"on-demand", "spot", "flex-start"}),
    # The spec's own limit: no source names one of a worker pool's.
    max_nodes=1000,
    regions=LOCATIONS,
    ssh=False,
    opens_ports=False,
    # A custom job has no call that edits it.
    relabels=False,
)


def connect(
    world: str, config: Mapping[str, str], rehearsed: RehearsedCloud | None = None
) -> Adapter:
    """The adapter. Config keys: `project`, `endpoint` (of the API, ending in `/`; in a rehearsal on
    loopback only).

    In a rehearsal `rehearsed` is its server. Live, the project must be
    named here or in `GPUS_VERTEX_PROJECT`, and Google's application default credentials are read.
    Raises NotConfigured when either is missing.
    """
    if world == REHEARSAL:
        from providers.adapters.gcp.lean import postpone

        postpone()
    from providers.adapters.gcp.vertex.adapter import connect as opened

    return opened(world, config, rehearsed)


def check_options(section: Mapping[str, object]) -> Sequence[Problem]:
    """Every problem of a spec's `options.vertex`, with paths relative to it. Pure."""
    from providers.adapters.gcp.vertex.options import problems

    return problems(section)


def fits(kind: str, section: Mapping[str, object], setup: Setup) -> Sequence[Problem]:
    """See `providers.adapters.gcp.vertex.options`."""
    from providers.adapters.gcp.vertex.options import fits as told

    del kind, setup
    return told(section)


def runs(
    program: Program, script: str, kind: str, section: Mapping[str, object]
) -> Mapping[str, object]:
    """The section with the program's image, command and environment. Pure."""
    from providers.adapters.gcp.vertex.options import running

    del kind
    return running(program, script, section)


def notes_for(candidate: Candidate, setup: Setup) -> Sequence[str]:
    """What the price is, and that nobody logs into a job. Pure."""
    del setup
    lines = (
        [Costs("its price is an estimate: Compute Engine's rate + 15%")]
        if candidate.price.source.startswith("estimate")
        else []
    )
    return (
        *lines,
        "a custom job: no ssh; Vertex AI chooses the zone, and its log is in Cloud Logging",
    )


def derived(ask: Ask, offers: Iterable[Offer]) -> Sequence[Offer]:
    """See `providers.adapters.gcp.vertex.offers`."""
    from providers.adapters.gcp.vertex.offers import sold

    return sold(ask, offers)


def host_of(_machine_type: str, section: Mapping[str, object]) -> Host:
    """See `providers.adapters.gcp.vertex.options`."""
    from providers.adapters.gcp.vertex.options import host as known

    return known(section)


def fabric_of(_placed: Placement, _setup: Setup) -> Fabric:
    """What is between the machines of a job: Google does not say, and nobody can measure it."""
    return Fabric(missing="Vertex AI does not say, and nobody can log in there")


MANIFEST = Manifest(
    name=NAME,
    capabilities=CAPABILITIES,
    connect=connect,
    check_options=check_options,
    credentials=Credentials(
        environment=("GPUS_VERTEX_PROJECT", "GOOGLE_APPLICATION_CREDENTIALS"), settings=("project",)
    ),
    pricing=Pricing(notes=notes_for, derived=("gcp", derived)),
    limits=Limits(fits=fits, host=host_of, fabric=fabric_of),
    programs=Programs(runs=runs, options={"image": "image", "command": "command", "env": "env"}),
)
