"""Google's advice on Spot machines: how likely a region has room. Owns the question and its answer.

`advice.capacity` reads, and needs roles/compute.viewer. Only the beta API answers for Spot, and
none for other capacity without an invitation (Google's guide to Spot capacity advice, 2026-11-10).
Shapes: compute beta's discovery document, revision 20261106.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from providers.adapters.gcp import errors as compute
from providers.adapters.gcp.client import Api, Client
from providers.adapters.gcp.errors import PROVIDER, Context
from providers.model import foreign
from providers.model.advice import Advice, Kind, kind
from providers.model.ask import SPOT
from providers.model.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.advice import Question

BETA = Api("compute", "beta", PROVIDER, compute.from_http, compute.from_exception)


def beta(client: Client) -> Client:
    """The same project and credentials at the beta API."""
    endpoint = client.endpoint and client.endpoint.replace("/compute/v1/", "/compute/beta/")
    return Client(client.project, client.credentials, endpoint, api=BETA)


def questions(client: Client, offers: Sequence[Offer], nodes: int) -> list[Question]:
    """One question for each machine type in each region; Spot alone."""
    found: dict[Kind, list[Offer]] = {}
    for offer in offers:
        if offer.capacity == SPOT:
            found.setdefault(kind(offer), []).append(offer)
    return [partial(_asked, client, about, same, nodes) for about, same in found.items()]


def probe(client: Client) -> None:
    """Asks for advice on one machine, whatever it is. Raises CloudErrors."""
    region = "us-central1"
    some = Offer(PROVIDER, region, "", "g2-standard-4", "L4", 1, SPOT, None, "", "")
    context = Context("gcp: asking for the right to advice", client.project)
    beta(client).call(
        lambda service: service.advice().capacity(
            project=client.project, region=region, body=body([some], 1)
        ),
        context,
    )


def _asked(
    client: Client, about: Kind, offers: Sequence[Offer], nodes: int
) -> Mapping[Kind, Advice]:
    first = offers[0]
    context = Context(
        f"gcp {first.region}: asking for advice on {first.machine_type}", client.project
    )
    answer = client.call(
        lambda service: service.advice().capacity(
            project=client.project, region=first.region, body=body(offers, nodes)
        ),
        context,
    )
    told = foreign.real(_first_score(answer), foreign.Bounds(0, 1))
    return {} if told is None else {about: Advice(told, f"obtainability {told:.2g}")}


def body(offers: Sequence[Offer], nodes: int) -> dict[str, Any]:
    """The request for so many machines of one type in one of these zones. Pure."""
    first = offers[0]
    machine: dict[str, Any] = {"machineTypes": [first.machine_type]}
    if first.accelerator:
        machine["guestAccelerators"] = [
            {"acceleratorType": first.accelerator, "acceleratorCount": int(first.gpu_count)}
        ]
    zones = [{"zone": f"zones/{offer.zone}"} for offer in offers if offer.zone]
    return {
        "size": nodes,
        "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
        "instanceFlexibilityPolicy": {"instanceSelections": {"machine": machine}},
        "distributionPolicy": {"targetShape": "ANY_SINGLE_ZONE"}
        | ({"zones": zones} if zones else {}),
    }


def _first_score(answer: Mapping[str, Any]) -> object:
    """Google gives one recommendation, which weighs all of it."""
    for each in answer.get("recommendations") or ():
        return (each.get("scores") or {}).get("obtainability")
    return None
