"""`gpus check gcp`: what is there and what is missing. Owns the probes, which only read, and how to
get each missing thing. Imports no SDK.

Rights are told by what a read answers; Compute Engine has no call that tests a project's
permissions without acting (discovery v1, 20261106), so the rights to create are named, not claimed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.adapters.gcp.errors import PROVIDER, Context, quota_page
from providers.errors import BadCredentials, CloudError, NotConfigured
from providers.model import foreign
from providers.model.machine import CheckLine
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adapters.gcp.client import Client

OK, MISSING, REFUSED, UNKNOWN = "ok", "missing", "refused", "unknown"

GPUS = ("A100", "A100_80GB", "H100", "L4", "T4", "P4", "P100", "V100")
"""GPU names in quota metrics of what the adapter sells: `NVIDIA_<name>_GPUS`, and `PREEMPTIBLE_`
before it for Spot and Flex-start.
"""
ROLE = "roles/compute.instanceAdmin.v1"
VIEWER = "roles/compute.viewer"
"""Optional: with it, Google's advice on Spot may be asked for."""


def lines(client: Client, world: str) -> Sequence[CheckLine]:
    """One line a topic. Calls: projects.get, instances.aggregatedList (one entry), advice.capacity,
    regions.list.
    """
    project = client.project
    where = (
        "the rehearsal cloud needs none"
        if world == REHEARSAL
        else "application default credentials"
    )
    out: list[CheckLine] = []
    try:
        found = client.call(
            lambda service: service.projects().get(project=project),
            Context(f"gcp {project}", project),
        )
    except CloudError as error:
        return [*out, *_refused(error, project)]
    out.append(CheckLine(PROVIDER, "credentials", OK, where))
    out.append(CheckLine(PROVIDER, "project", OK, str(found.get("name") or project)))
    out.append(CheckLine(PROVIDER, "Compute Engine API", OK, "answers"))
    out.append(_read(client, project))
    grant = f"gcloud projects add-iam-policy-binding {project} --member=user:YOU --role={ROLE}"
    if world == REHEARSAL:
        out.append(
            CheckLine(PROVIDER, "rights to create", OK, "everything is allowed in a rehearsal")
        )
    else:
        out.append(
            CheckLine(
                PROVIDER,
                "rights to create",
                UNKNOWN,
                "only a create shows it",
                f"they come with {ROLE}: {grant}",
            )
        )
    out.append(_advice(client, project))
    out.append(_everywhere(found.get("quotas", ()), project))
    out.extend(_regions(client, project))
    return out


def _refused(error: CloudError, project: str) -> list[CheckLine]:
    found = f"{error.code or type(error).__name__}: {error}"
    if error.code == "PROXY":
        return [CheckLine(PROVIDER, "network", MISSING, str(error))]
    if isinstance(error, NotConfigured):
        api = CheckLine(
            PROVIDER,
            "Compute Engine API",
            MISSING,
            found,
            f"gcloud services enable compute.googleapis.com --project={project}",
        )
        return [CheckLine(PROVIDER, "credentials", OK, "accepted"), api]
    if isinstance(error, BadCredentials):
        todo = (
            f"gcloud auth application-default login; then ask for {ROLE} in {project} (gcloud"
            " projects list names the projects you may use)"
        )
        return [CheckLine(PROVIDER, "credentials", REFUSED, found, todo)]
    if error.code == "notFound":
        return [
            CheckLine(
                PROVIDER,
                "project",
                MISSING,
                found,
                "gcloud projects list names the projects you may use",
            )
        ]
    return [CheckLine(PROVIDER, "credentials", UNKNOWN, found, "look at the network and try again")]


def _read(client: Client, project: str) -> CheckLine:
    context = Context(f"gcp {project}: listing machines", project)
    try:
        client.call(
            lambda service: service.instances().aggregatedList(project=project, maxResults=1),
            context,
        )
    except CloudError as error:
        state = REFUSED if isinstance(error, BadCredentials) else UNKNOWN
        return CheckLine(
            PROVIDER, "rights to read", state, str(error), f"ask for {ROLE} in {project}"
        )
    return CheckLine(PROVIDER, "rights to read", OK, "machines can be listed")


def _advice(client: Client, project: str) -> CheckLine:
    """Whether it may be asked how probably Spot has room; nothing else needs that."""
    from providers.adapters.gcp import advice

    try:
        advice.probe(client)
    except CloudError as error:
        todo = f"ask for {VIEWER} in {project}, or for none: `pulumi config set gcp:advice no`"
        return CheckLine(PROVIDER, "advice", UNKNOWN, f"optional: {error}", todo)
    return CheckLine(PROVIDER, "advice", OK, "advice.capacity is allowed")


def _everywhere(quotas: Sequence[dict[str, Any]], project: str) -> CheckLine:
    row = next((item for item in quotas if item.get("metric") == "GPUS_ALL_REGIONS"), None)
    topic = "quota GPUS_ALL_REGIONS"
    if row is None:
        return CheckLine(
            PROVIDER, topic, UNKNOWN, "not listed, which is not zero", f"see {quota_page(project)}"
        )
    limit, usage = foreign.real(row.get("limit", 0)), foreign.real(row.get("usage", 0)) or 0.0
    if limit is None:
        return CheckLine(
            PROVIDER,
            topic,
            UNKNOWN,
            "a limit that cannot be read, which is not zero",
            f"see {quota_page(project)}",
        )
    if limit <= 0:
        return CheckLine(
            PROVIDER,
            topic,
            MISSING,
            "0: no GPU machine can be made in any region",
            f"ask for more at {quota_page(project)}",
        )
    return CheckLine(PROVIDER, topic, OK, f"{usage:g} of {limit:g} used, over all regions")


def _regions(client: Client, project: str) -> list[CheckLine]:
    context = Context(f"gcp {project}: reading quota", project)
    limits: dict[str, dict[str, tuple[float, float]]] = {}
    try:
        for page in client.pages(
            lambda service, token: service.regions().list(project=project, pageToken=token), context
        ):
            for region in page.get("items", ()):
                for row in region.get("quotas", ()):
                    metric = str(row.get("metric", ""))
                    if (limit := foreign.real(row.get("limit", 0))) is not None:
                        limits.setdefault(metric, {})[str(region.get("name"))] = (
                            limit,
                            foreign.real(row.get("usage", 0)) or 0.0,
                        )
    except CloudError as error:
        return [
            CheckLine(
                PROVIDER, "quota by region", UNKNOWN, str(error), f"see {quota_page(project)}"
            )
        ]
    metrics = [f"{prefix}NVIDIA_{gpu}_GPUS" for gpu in GPUS for prefix in ("", "PREEMPTIBLE_")]
    return [quota_line(metric, limits.get(metric), project) for metric in metrics]


def quota_line(
    metric: str, regions: dict[str, tuple[float, float]] | None, project: str
) -> CheckLine:
    """Absence of a metric is unknown, not zero: Compute Engine lists none for H100 on demand; that
    limit lives in Cloud Quotas only.
    """
    topic = f"quota {metric}"
    if not regions:
        return CheckLine(
            PROVIDER,
            topic,
            UNKNOWN,
            "not listed here, which is not zero: a try will tell",
            f"see {quota_page(project)}",
        )
    granted = {region: pair for region, pair in sorted(regions.items()) if pair[0] > 0}
    if not granted:
        return CheckLine(
            PROVIDER,
            topic,
            MISSING,
            f"0 in all {len(regions)} regions",
            f"ask for more at {quota_page(project)}",
        )
    limits = {limit for limit, _ in granted.values()}
    if len(limits) == 1 and len(granted) > 1:
        used = sum(usage for _, usage in granted.values())
        shown = f"{limits.pop():g} in each of {len(granted)} regions, {used:g} used"
    else:
        most = sorted(granted.items(), key=lambda item: (-item[1][0], item[0]))
        shown = ", ".join(
            f"{region} {limit:g} ({usage:g} used)" for region, (limit, usage) in most[:3]
        )
        shown += f" and {len(granted) - 3} more regions" if len(granted) > 3 else ""
    lacking = len(regions) - len(granted)
    rest = f"; 0 in {lacking} regions" if lacking else ""
    return CheckLine(
        PROVIDER, topic, OK, shown + rest, f"more: {quota_page(project)}" if lacking else ""
    )
