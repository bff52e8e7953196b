"""From an order to the one creating call. Pure: no client, no clock, no network.

Owns every field of the request body. Fields and enums: Compute Engine discovery document v1,
revision 20261106.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.gcp import between_nodes, fabric, machines, volume_disks
from providers.adapters.gcp.grouping import INSERT, REGIONAL, ZONAL
from providers.adapters.gcp.host import DEFAULT_DISK_GIB
from providers.adapters.gcp.machine_metadata import metadata_of
from providers.adapters.gcp.options import Options
from providers.adapters.gcp.options import read as read_options
from providers.adapters.gcp.scheduling import (
    FLEX_START_MAX_S,
    FLEX_START_MIN_S,
    QUEUE_MAX_S,
    QUEUE_MIN_S,
    RUN_MAX_S,
    RUN_MIN_S,
    has_local_ssd,
    reservation_affinity,
    run_limit_s,
    scheduling,
)
from providers.errors import Unsupported
from providers.model.ask import CAPACITIES, FLEX_START
from providers.model.duration import text as duration_text
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.machine import Label, Order, Setup
    from providers.model.offer import Candidate
    from providers.model.placement import Placement


SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]

OWNER, CLUSTER, GENERATION, FINGERPRINT = (
    "gpus-owner",
    "gpus-cluster",
    "gpus-generation",
    "gpus-fingerprint",
)


class Call(NamedTuple):
    """One creating call. `zone` is empty for the regional one; `notes` say what a user would not
    expect.
    """

    method: str
    region: str
    zone: str
    body: dict[str, Any]
    notes: tuple[str, ...] = ()


def owner_labels(label: Label) -> dict[str, str]:
    """The labels that say whose a machine is."""
    return {
        OWNER: label.owner,
        CLUSTER: label.cluster,
        GENERATION: label.generation,
        FINGERPRINT: label.fingerprint,
    }


def creating_call(
    order: Order,
    region_zones: Sequence[str] = (),
    *,
    bound: bool = False,
    disks: Mapping[str, str] = {},
) -> Call:
    """The call that makes all of the order's nodes in one zone, or none.

    `region_zones` are all zones of the region: those that the order does not list are denied, since
    Google considers every zone that is not. `bound`: the order's reservation was delivered by a
    future reservation. `disks` are those of its volumes, by the volume's name. Raises Unsupported
    where the order cannot be said to Google (a kind of
    capacity that it does not sell of the machine, a time limit beyond its range, more local SSD
    than the machine takes).
    """
    options = read_options(dict(order.setup.options))
    first = order.candidates[0]
    types = tuple(dict.fromkeys(candidate.machine_type for candidate in order.candidates))
    for candidate in order.candidates:
        _check(order, candidate, options)
    if len(order.node_names) == 1 and (first.capacity == FLEX_START or disks):
        if not first.zone:
            raise Unsupported(
                f"gcp {first.region} {first.machine_type}: wanted a zone, since Flex-start waits in"
                " one; the catalog knows only the region",
                provider="gcp",
                scopes=[
                    Scope("gcp", first.region, machine_type=first.machine_type, capacity=FLEX_START)
                ],
            )
        return Call(
            INSERT,
            first.region,
            first.zone,
            _instance(order, first, options, disks, bound=bound),
            _notes(order, options, bound=bound),
        )
    zones = tuple(dict.fromkeys(candidate.zone for candidate in order.candidates if candidate.zone))
    properties = _properties(order, first, options, bound=bound)
    # Names where `instances.insert` takes URLs.
    properties["disks"] += volume_disks.attached(order, disks, "") if disks else []
    count = len(order.node_names)
    body: dict[str, Any] = {
        "count": str(count),
        "minCount": str(count),
        "perInstanceProperties": {name: {} for name in order.node_names},
        "instanceProperties": properties,
    }
    if len(order.candidates) == 1 and zones:
        return Call(ZONAL, first.region, zones[0], body, _notes(order, options, bound=bound))
    body["locationPolicy"] = {"targetShape": "ANY_SINGLE_ZONE"}
    if zones:
        body["locationPolicy"]["locations"] = {
            f"zones/{zone}": {"preference": "ALLOW" if zone in zones else "DENY"}
            for zone in sorted({*zones, *region_zones})
        }
    if len(types) > 1:
        del properties["machineType"]
        body["instanceFlexibilityPolicy"] = {
            "instanceSelections": {
                f"choice-{rank}": {"machineTypes": [name], "rank": str(rank)}
                for rank, name in enumerate(types, 1)
            }
        }
    return Call(REGIONAL, first.region, "", body, _notes(order, options, bound=bound))


def _check(order: Order, candidate: Candidate, options: Options) -> None:
    def refuse(wanted: str, found: str, todo: str, zone: str = "") -> Unsupported:
        text = (
            f"gcp {candidate.zone or candidate.region} {candidate.machine_type}"
            f" {candidate.capacity}: wanted {wanted}, found {found}; {todo}"
        )
        # Not remembered: another spec may well fit here.
        return Unsupported(
            text,
            provider="gcp",
            block_s=0.0,
            scopes=[
                Scope(
                    "gcp",
                    candidate.region if zone else "",
                    zone,
                    candidate.machine_type,
                    capacity=candidate.capacity,
                )
            ],
        )

    family = machines.family(candidate.machine_type)
    if candidate.capacity in family.never:
        sold = [kind for kind in CAPACITIES if kind not in family.never]
        raise refuse(
            f"capacity that Google sells of it: {' or '.join(sold)}",
            candidate.capacity,
            f"set capacity to {sold[0]}",
        )
    if (
        family.nics is not None
        and family.nics.host_type == "IDPF"
        and not fabric.chosen(options.fabric, candidate.zone, candidate.machine_type)
    ):
        # Bare metal has no gVNIC, and its interfaces are IPv6 only: nothing that an ordinary
        # network could serve.
        where = candidate.zone or candidate.region
        raise refuse(
            f"its fabric ({family.nics})",
            f"none named for {where}",
            "name it under options.gcp.fabric",
            candidate.zone,
        )
    limit_s = run_limit_s(order)
    least, most = (
        (FLEX_START_MIN_S, FLEX_START_MAX_S)
        if candidate.capacity == FLEX_START
        else (RUN_MIN_S, RUN_MAX_S)
    )
    if limit_s is not None and not least <= limit_s <= most:
        raise refuse(
            f"a ttl from {duration_text(least)} to {duration_text(most)}",
            duration_text(limit_s),
            "change ttl",
        )
    if order.setup.secrets and not (
        options.service_account or dict(order.setup.network).get("service_account")
    ):
        raise refuse(
            "a service account that may read the secrets", "none", "set options.gcp.service_account"
        )
    most_ssds = machines.most_local_ssds(candidate.machine_type)
    if not machines.bundled_ssd(candidate.machine_type) and options.local_ssd_count > most_ssds:
        raise refuse(
            f"at most {most_ssds} local SSD",
            str(options.local_ssd_count),
            "lower options.gcp.local_ssd_count",
        )


def _notes(order: Order, options: Options, *, bound: bool) -> tuple[str, ...]:
    notes: list[str] = []
    limit_s = run_limit_s(order)
    capacity = order.candidates[0].capacity
    what, does = ("stopped", "stops") if order.setup.on_ttl == "keep" else ("deleted", "deletes")
    if limit_s is not None:
        why = (
            " (Flex-start's own limit)" if capacity == FLEX_START and not order.setup.ttl_s else ""
        )
        notes.append(f"Google {does} the machine after {duration_text(limit_s)}{why}")
    if bound:
        notes.append(f"bound to its reservation: at the reservation's end the machine is {what}")
    if notes and what == "stopped" and has_local_ssd(order.candidates, options):
        notes.append("what is on its local SSD is lost then")
    if capacity == FLEX_START and len(order.node_names) == 1 and order.wait_s >= QUEUE_MIN_S:
        notes.append(f"Google keeps the request queued for up to {duration_text(QUEUE_MAX_S)}")
    if capacity == FLEX_START and len(order.node_names) > 1:
        notes.append(
            "several Flex-start nodes are launched at once or not at all: Google queues only"
            " single machines"
        )
    return tuple(notes)


def _disks(
    order: Order, candidate: Candidate, options: Options, labels: dict[str, str], prefix: str
) -> list[dict[str, Any]]:
    family = machines.family(candidate.machine_type)
    disk_type = (
        options.boot_disk_type if options.boot_disk_type in family.disks else family.disks[0]
    )
    boot = {
        "boot": True,
        "autoDelete": True,
        "type": "PERSISTENT",
        "initializeParams": {
            "diskType": f"{prefix}{disk_type}",
            "diskSizeGb": str(order.setup.disk_gib or DEFAULT_DISK_GIB),
            "sourceImage": between_nodes.source_image(_among(order, candidate), options),
            "labels": labels,
        },
    }
    count = 0 if machines.bundled_ssd(candidate.machine_type) else options.local_ssd_count
    scratch = {
        "type": "SCRATCH",
        "autoDelete": True,
        "interface": "NVME",
        "initializeParams": {"diskType": f"{prefix}local-ssd"},
    }
    return [boot, *({**scratch} for _ in range(count))]


def _among(order: Order, candidate: Candidate) -> Placement:
    """The placement of the whole cluster, with the machines that the order joins."""
    return candidate.placement._replace(nodes=len(order.node_names) + len(order.joins))


def partial(link: str) -> str:
    """A resource's partial URL: whatever host it was read from is left out."""
    return link[link.index("projects/") :] if "projects/" in link else link


def _interfaces(setup: Setup, candidate: Candidate, options: Options) -> list[dict[str, Any]]:
    """The fabric that the user named for the zone, if it is of the machine's kind; else a single
    interface.
    """
    named = fabric.chosen(options.fabric, candidate.zone, candidate.machine_type)
    return (
        fabric.interfaces(named, candidate.region, external_ip=options.external_ip)
        if named
        else [_interface(setup, candidate, options)]
    )


def _interface(setup: Setup, candidate: Candidate, options: Options) -> dict[str, Any]:
    wiring = dict(setup.network)
    network = wiring.get("network") or options.network
    subnetwork = (
        wiring.get(f"subnetwork.{candidate.region}")
        or wiring.get("subnetwork")
        or options.subnetwork
    )
    out: dict[str, Any] = {}
    if network or not subnetwork:
        out["network"] = (
            partial(network) if "/" in network else f"global/networks/{network or 'default'}"
        )
    if subnetwork:
        out["subnetwork"] = (
            partial(subnetwork)
            if "/" in subnetwork
            else f"regions/{candidate.region}/subnetworks/{subnetwork}"
        )
    if machines.family(candidate.machine_type).gvnic:
        out["nicType"] = "GVNIC"
    if options.external_ip:
        out["accessConfigs"] = [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]
    return out


def _properties(
    order: Order, candidate: Candidate, options: Options, *, bound: bool = False
) -> dict[str, Any]:
    """`instanceProperties` of a bulkInsert: names where `instances.insert` takes URLs."""
    setup = order.setup
    labels = {**dict(setup.labels), **owner_labels(order.label)}
    wiring = dict(setup.network)
    named = (tag.strip() for tag in wiring.get("tags", "").split(","))
    cluster = _among(order, candidate)
    metadata = metadata_of(
        setup, alone=cluster.nodes == 1, rdma=between_nodes.by_rdma(cluster, options)
    )
    body: dict[str, Any] = {
        "machineType": candidate.machine_type,
        "labels": labels,
        "disks": _disks(order, candidate, options, labels, ""),
        "networkInterfaces": _interfaces(setup, candidate, options),
        "scheduling": scheduling(order, options, bound=bound),
        "reservationAffinity": reservation_affinity(candidate),
        "tags": {
            "items": list(
                dict.fromkeys(
                    [
                        "gpus",
                        f"gpus-{order.label.cluster}",
                        *options.tags,
                        *(tag for tag in named if tag),
                    ]
                )
            )
        },
    }
    if candidate.offer.accelerator:
        body["guestAccelerators"] = [
            {
                "acceleratorType": candidate.offer.accelerator,
                "acceleratorCount": candidate.gpu_count,
            }
        ]
    if metadata:
        body["metadata"] = {
            "items": [{"key": key, "value": value} for key, value in metadata.items()]
        }
    account = options.service_account or wiring.get("service_account", "")
    if account:
        body["serviceAccounts"] = [{"email": account, "scopes": SCOPES}]
    return body


def _instance(
    order: Order,
    candidate: Candidate,
    options: Options,
    disks: Mapping[str, str],
    *,
    bound: bool = False,
) -> dict[str, Any]:
    """The body of `instances.insert`, the only call that can wait for capacity, and that attaches a
    disk to be written to.
    """
    zone = candidate.zone
    body = _properties(order, candidate, options, bound=bound)
    body["name"] = order.node_names[0]
    body["machineType"] = f"zones/{zone}/machineTypes/{candidate.machine_type}"
    body["disks"] = _disks(order, candidate, options, body["labels"], f"zones/{zone}/diskTypes/")
    body["disks"] += volume_disks.attached(order, disks, f"zones/{zone}/disks/") if disks else []
    for accelerator in body.get("guestAccelerators", ()):
        accelerator["acceleratorType"] = (
            f"zones/{zone}/acceleratorTypes/{accelerator['acceleratorType']}"
        )
    if candidate.capacity != FLEX_START:
        return body
    # Longer than this run waits: a later run waits on, and Google itself ends the queue.
    wait_s = 0 if order.wait_s < QUEUE_MIN_S else QUEUE_MAX_S
    body["params"] = {"requestValidForDuration": {"seconds": str(wait_s)}}
    return body
