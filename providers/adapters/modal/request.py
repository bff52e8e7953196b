"""What is asked of Modal for an order: one sandbox, as plain values. Owns the compilation and the
labels; pure, imports no client.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.modal import gpu
from providers.adapters.modal.buckets import BucketMount, bucket_mounts
from providers.adapters.modal.gpu import PROVIDER
from providers.adapters.modal.options import MAX_TTL_S, Options, problems, read
from providers.adapters.modal.regions import REGIONS
from providers.errors import Unsupported
from providers.model import duration, foreign
from providers.model.machine import Label
from providers.model.money import usd
from providers.model.place import Scope
from providers.model.secret import REGISTRY_PASSWORD, referred, without_registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.model.machine import Order, Setup
    from providers.model.offer import Candidate, Offer

OWNER, CLUSTER, GENERATION, FINGERPRINT = (
    "gpus-owner",
    "gpus-cluster",
    "gpus-generation",
    "gpus-fingerprint",
)
ORDER, NAME, PLACE, GPU, EXACT = "gpus-order", "gpus-name", "gpus-region", "gpus-gpu", "gpus-exact"
OWN_PREFIX = "gpus-"

ANYWHERE = "any"
"""The catalog's region for a container that Modal may place where it likes."""

CPU_MICRO_USD, MEMORY_MICRO_USD = 141_912, 24_012
"""Sandbox rates per hour, of a physical core ($.00003942/s) and of a GiB ($.00000667/s). Source:
modal.com/pricing, seen 2026-09-01.
"""

_TAG = re.compile(r"^[A-Za-z0-9._-]{0,63}$")


class Request(NamedTuple):
    """One sandbox. `cpu` (cores) and `memory_mib` are request and limit at once; 0 leaves them to
    Modal. `timeout_s` is its whole life.
    """

    name: str
    gpu: str
    timeout_s: int
    command: tuple[str, ...]
    options: Options
    tags: dict[str, str]
    regions: tuple[str, ...] = ()
    cpu: float = 0.0
    memory_mib: int = 0
    secrets: tuple[tuple[str, str], ...] = ()
    """(variable, the Modal secret that holds it)."""
    mounts: tuple[BucketMount, ...] = ()
    registry: str = ""
    """The Modal secret with which the image is pulled; empty for none."""


def compile_order(order: Order) -> Request:
    """The request for an order's only candidate. Raises Unsupported, naming what a sandbox can't
    be; nothing is sent.
    """
    candidate, setup = order.candidates[0], order.setup
    text = gpu.text(candidate.gpu_type, candidate.gpu_count, exact=candidate.exact)
    _refuse_what_no_sandbox_has(candidate, setup)
    section = dict(setup.options)
    if found := problems(section):
        raise Unsupported(
            f"options.modal.{found[0]}", provider=PROVIDER, code="options", block_s=0.0
        )
    chosen = read(section)
    timeout_s = setup.ttl_s or MAX_TTL_S
    region = candidate.region
    return Request(
        name=order.node_names[0],
        gpu=text,
        timeout_s=timeout_s,
        command=chosen.command or ("sleep", str(timeout_s)),
        options=chosen,
        tags={
            **dict(setup.labels),
            OWNER: order.label.owner,
            CLUSTER: order.label.cluster,
            GENERATION: order.label.generation,
            FINGERPRINT: order.label.fingerprint,
            ORDER: order.token,
            NAME: order.node_names[0],
            PLACE: region or ANYWHERE,
            GPU: f"{candidate.gpu_type}.{candidate.gpu_count}",
            **({EXACT: "1"} if candidate.exact else {}),
        },
        regions=asked(region),
        cpu=chosen.cpu,
        memory_mib=round(chosen.memory_gib * 1024),
        secrets=without_registry(setup.secrets),
        registry=dict(referred(setup.secrets)).get(REGISTRY_PASSWORD, ""),
        mounts=bucket_mounts(setup),
    )


def asked(region: str) -> tuple[str, ...]:
    """The regions to ask of Modal for a candidate's: none for anywhere. Raises Unsupported for a
    name that Modal's page does not have.
    """
    if region in {"", ANYWHERE}:
        return ()
    if region not in REGIONS:
        raise Unsupported(
            f"Modal has no region {region}; it has {', '.join(REGIONS)}",
            provider=PROVIDER,
            code="region",
            scopes=(Scope(PROVIDER, region=region),),
            block_s=0.0,
        )
    return (region,)


def _refuse_what_no_sandbox_has(candidate: Candidate, setup: Setup) -> None:
    reasons = []
    if candidate.nodes > 1:
        reasons.append(
            f"a sandbox is one container; {candidate.nodes} nodes need Modal's clustered functions,"
            " which are no machines to log into"
        )
    if candidate.capacity != "on-demand":
        reasons.append(f"Modal sells on-demand containers only, not {candidate.capacity}")
    if setup.ttl_s and setup.ttl_s > MAX_TTL_S:
        reasons.append(
            f"a sandbox lives at most {duration.text(MAX_TTL_S)}, the ttl is"
            f" {duration.text(setup.ttl_s)}"
        )
    if setup.on_ttl == "keep":
        reasons.append("a sandbox is gone once its time is over, so on_ttl: keep can't be kept")
    if setup.disk_gib:
        reasons.append("a sandbox takes no disk size; leave disk_gib out")
    if setup.network:
        reasons.append("a sandbox joins no managed network")
    if bad := [f"{key}={value}" for key, value in setup.labels if not _TAG.match(value) or not key]:
        reasons.append(f"a tag is letters, digits and -._, at most 63: {', '.join(bad)}")
    if reasons:
        raise Unsupported(
            f"Modal: {'; '.join(reasons)}",
            provider=PROVIDER,
            code="sandbox",
            scopes=(Scope(PROVIDER),),
            block_s=0.0,
        )


def priced(offer: Offer, section: Mapping[str, object]) -> Offer:
    """The offer at what these options reserve: as listed it holds only the least CPU and memory
    that Modal bills.
    """
    chosen = read(section)
    cores = max(0.0, chosen.cpu - offer.vcpus / 2)
    memory_gib = max(0.0, chosen.memory_gib - offer.memory_gib)
    more = round(cores * CPU_MICRO_USD + memory_gib * MEMORY_MICRO_USD)
    if not more or offer.node_micro_usd is None:
        return offer
    parts = (
        f"{offer.parts} + {usd(more):.4f} for {chosen.cpu:g} cores and {chosen.memory_gib:g} GiB"
        " reserved on top"
    )
    return offer._replace(
        node_micro_usd=offer.node_micro_usd + more,
        parts=parts,
        vcpus=offer.vcpus + cores * 2,
        memory_gib=offer.memory_gib + memory_gib,
    )


def label_of(tags: Mapping[str, str]) -> Label | None:
    """Whose a sandbox is, by its tags; None when it is not ours."""
    if OWNER not in tags:
        return None
    return Label(
        tags[OWNER], tags.get(CLUSTER, ""), tags.get(GENERATION, ""), tags.get(FINGERPRINT, "")
    )


def machine_type(count: int) -> str:
    """The catalog's machine type of a container with so many GPUs."""
    return f"container-{count}"


def ordered_gpu(tags: Mapping[str, str]) -> tuple[str, int, bool]:
    """(GPU type, count, exact) that a sandbox was ordered with."""
    name, _, count = tags.get(GPU, "").rpartition(".")
    return name, foreign.whole(count, foreign.COUNT) or 0, tags.get(EXACT) == "1"
