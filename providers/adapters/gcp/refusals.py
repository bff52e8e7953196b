"""What a refusal really means, where Google's code leaves it open: asked of Google itself. Owns
these look-ups; reads only.

What is the same everywhere (project, image) is told apart from what a place lacks, so that no other
place is tried in vain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.gcp import between_nodes
from providers.adapters.gcp.errors import PROVIDER, Context, quota_exceeded
from providers.adapters.gcp.options import read as read_options
from providers.errors import CloudError, NotConfigured, QuotaExceeded, Unsupported
from providers.model import foreign
from providers.model.ask import FLEX_START, RESERVATION, SPOT
from providers.model.place import Scope

if TYPE_CHECKING:
    from providers.adapters.gcp.client import Client
    from providers.model.machine import Order


def explained(client: Client, error: Unsupported, order: Order) -> CloudError:
    """A 400 or 404 on a creating call: the zone lacks the machine type, or something else that the
    request names is missing everywhere.
    """
    first = order.candidates[0]
    if (missing := _missing(client, order)) is not None:
        return NotConfigured(
            f"gcp: {missing}", provider=PROVIDER, code=error.code, scopes=[Scope(PROVIDER)]
        )
    if first.capacity == RESERVATION:
        scopes = [scope._replace(capacity=RESERVATION) for scope in error.scopes]
        text = f"{error.message}; is the reservation for that machine type and its local SSD?"
        return Unsupported(
            text, words=error.words, provider=PROVIDER, code=error.code, scopes=scopes
        )
    if first.offer.accelerator or not first.zone:
        return error
    context = Context(f"gcp {first.region}", client.project)
    project = client.project
    try:
        for candidate in order.candidates:
            zone, machine_type = candidate.zone, candidate.machine_type
            if (
                client.get(
                    lambda s, z=zone, t=machine_type: s.machineTypes().get(  # type: ignore[misc]
                        project=project, zone=z, machineType=t
                    ),
                    context,
                )
                is None
            ):
                return error
    except CloudError:
        return error
    text = (
        f"{error.message}; the machine type is there, so something else that the request names is"
        " missing or wrong: image, network, disk, service account"
    )
    return NotConfigured(
        text, words=error.words, provider=PROVIDER, code=error.code, scopes=[Scope(PROVIDER)]
    )


def _missing(client: Client, order: Order) -> str | None:
    """What the order names that is the same everywhere and that Google does not have: the project,
    or the image. None when both are there.
    """
    project, options = client.project, read_options(dict(order.setup.options))
    first, nodes = order.candidates[0].placement, len(order.node_names) + len(order.joins)
    named = between_nodes.source_image(first._replace(nodes=nodes), options)
    owner, image = named.removeprefix("projects/").split("/global/images/")
    family = image.removeprefix("family/")
    context = Context(f"gcp {project}: looking for what the order names", project)
    try:
        if client.get(lambda service: service.projects().get(project=project), context) is None:
            return (
                f"wanted project {project}, and Google knows none of that name; set `gcp:project`"
                " (`gcloud projects list` names yours)"
            )
        if family != image:
            found = client.get(
                lambda service: service.images().getFromFamily(project=owner, family=family),
                context,
            )
            option, todo = (
                "image_family",
                (
                    f"`gcloud compute images list --project={owner} --no-standard-images` names"
                    " those that are there"
                ),
            )
            option = (
                option
                if options.image_family
                else "image"
                if options.image
                else f"{option} (its default)"
            )
        else:
            found = client.get(
                lambda service: service.images().get(project=owner, image=image), context
            )
            option, todo = (
                "image",
                (
                    f"`gcloud compute images list --project={owner} --no-standard-images` names"
                    " those that are there"
                ),
            )
    except CloudError:
        return None
    kind = "image family" if family != image else "image"
    return (
        None
        if found is not None
        else (
            f"options.gcp.{option}: wanted {kind} {family} of project {owner}, and there is none of"
            f" that name; {todo}"
        )
    )


def named(client: Client, error: QuotaExceeded, order: Order, context: Context) -> CloudError:
    """A refusal for quota that does not say which limit, by reading the quotas: the one over all
    regions, then the region's own for this GPU.
    """
    if error.metric:
        return error
    first, project = order.candidates[0], client.project
    wanted = first.gpu_count * len(order.node_names)
    preemptible = "PREEMPTIBLE_" if first.capacity in (SPOT, FLEX_START) else ""
    regional = f"{preemptible}NVIDIA_{first.gpu_type.replace('-', '_')}_GPUS"
    try:
        everywhere = client.call(lambda service: service.projects().get(project=project), context)
        there = client.call(
            lambda service: service.regions().get(project=project, region=first.region), context
        )
    except CloudError:
        return error
    for metric, region, holder in (
        ("GPUS_ALL_REGIONS", "", everywhere),
        (regional, first.region, there),
    ):
        for row in holder.get("quotas", ()):
            limit, usage = (
                foreign.real(row.get("limit", 0)),
                foreign.real(row.get("usage", 0)) or 0.0,
            )
            if row.get("metric") == metric and limit is not None and usage + wanted > limit:
                return quota_exceeded(error.code, metric, limit, region, context)
    return error
