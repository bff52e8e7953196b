"""From an order to the one creating call, and which candidates may share one. Pure: no client, no
clock, no network.

Owns every field of the request body. Fields and enums: Compute Engine discovery document v1,
revision 20261106.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.base import keep_status, too_large
from providers.adapters.gcp import fabric, machines
from providers.adapters.gcp import secrets as secret
from providers.adapters.gcp.host import DEFAULT_DISK_GIB
from providers.adapters.gcp.options import Options
from providers.adapters.gcp.options import read as read_options
from providers.errors import Unsupported
from providers.model import idle, shell
from providers.model.ask import CAPACITIES, FLEX_START, RESERVATION, SPOT
from providers.model.duration import text as duration_text
from providers.model.machine import OWN_KEY
from providers.model.place import Scope
from providers.model.secret import referred

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.errors import Problem
    from providers.model.machine import Mark, Order, Setup
    from providers.model.offer import Candidate

REGIONAL, ZONAL, INSERT = "regionInstances.bulkInsert", "instances.bulkInsert", "instances.insert"

FLEX_START_MIN_S, FLEX_START_MAX_S = 600, 7 * 86_400
"""Google, "create an A3 Ultra/A4 VM", 2026-04-06: a Flex-start machine must name a run duration
from 10 minutes to 7 days.
"""
RUN_MIN_S, RUN_MAX_S = 30, 120 * 86_400
"""Google, "limit the run time of a VM": from 30 seconds to 120 days."""
QUEUE_MIN_S, QUEUE_MAX_S = 90, 7_200
"""requestValidForDuration: 0 (only if there now), or 90 seconds to 2 hours (same page)."""
RESERVATION_KEY = "compute.googleapis.com/reservation-name"
"""The key that working code uses (dstack, Google's samples); the discovery text's shorter one is
older.
"""
METADATA_MAX, METADATA_ALL_MAX = 262_144, 524_288
"""Bytes of one value, and of all keys and values (Compute Engine v1, Metadata.items, read
2026-11-28).
"""
_FINISHED = "/var/lib/gpus/finished"
"""There once the container has ended well: then no boot runs it again."""
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


def mark_labels(mark: Mark) -> dict[str, str]:
    """The labels that say whose a machine is."""
    return {
        OWNER: mark.owner,
        CLUSTER: mark.cluster,
        GENERATION: mark.generation,
        FINGERPRINT: mark.fingerprint,
    }


def group(candidates: Sequence[Candidate]) -> int:
    """How many leading candidates one regional bulkInsert may choose among without changing the
    plan's order; at least 1.

    Google tries machine types by rank and, within one, picks a zone itself; so a group is every
    zone of the first type, then every zone of the next: one region, one entry (entries may differ
    in time limits), one capacity kind, equal price within a type, and the same zones for each type,
    since Google would also try the pairs that the plan refused. One body serves all of them, so
    disks, image and interfaces must be alike. GPUs on N1 cannot vary there; Flex-start's queue and
    a named reservation are zonal.
    """
    first = candidates[0]
    if not first.zone or first.offer.accelerator or first.capacity in (FLEX_START, RESERVATION):
        return 1
    blocks: list[tuple[str, list[str]]] = []
    price: int | None = None
    best = 1
    for taken, candidate in enumerate(candidates, 1):
        alike = (
            candidate.region == first.region
            and candidate.zone
            and candidate.entry == first.entry
            and candidate.capacity == first.capacity
            and candidate.nodes == first.nodes
            and candidate.gpu_count == first.gpu_count
            and not candidate.offer.accelerator
            and _alike(first.machine_type, candidate.machine_type)
        )
        if not alike:
            break
        if blocks and blocks[-1][0] == candidate.machine_type:
            if candidate.micro_usd != price or candidate.zone in blocks[-1][1]:
                break
            blocks[-1][1].append(candidate.zone)
        elif any(machine_type == candidate.machine_type for machine_type, _ in blocks):
            break
        else:
            blocks.append((candidate.machine_type, [candidate.zone]))
            price = candidate.micro_usd
        if all(set(zones) == set(blocks[0][1]) for _, zones in blocks):
            best = taken
    return best


def _alike(one: str, other: str) -> bool:
    first, second = machines.family(one), machines.family(other)
    return first._replace(prefix="") == second._replace(prefix="") and machines.bundled_ssd(
        one
    ) == machines.bundled_ssd(other)


def together(candidates: Sequence[Candidate], section: Mapping[str, object]) -> int:
    """How many leading candidates take the same interfaces under these options, so that one call
    can hold them; at least 1.
    """
    named = read_options(section).fabric
    if not named:
        return len(candidates)
    first = fabric.chosen(named, candidates[0].zone, candidates[0].machine_type)
    for taken, candidate in enumerate(candidates):
        if fabric.chosen(named, candidate.zone, candidate.machine_type) != first:
            return taken
    return len(candidates)


def scope_of(order: Order) -> str:
    """Where the order's operation lives: `zones/Z` or `regions/R`."""
    first = order.candidates[0]
    return (
        f"zones/{first.zone}"
        if first.zone and len(order.candidates) == 1
        else f"regions/{first.region}"
    )


def creating_call(order: Order, region_zones: Sequence[str] = (), *, bound: bool = False) -> Call:
    """The call that makes all of the order's nodes in one zone, or none.

    `region_zones` are all zones of the region: those that the order does not list are denied, since
    Google considers every zone that is not. `bound`: the order's reservation was delivered by a
    future reservation. Raises Unsupported where the order cannot be said to Google (a kind of
    capacity that it does not sell of the machine, a time limit beyond its range, more local SSD
    than the machine takes).
    """
    options = read_options(dict(order.setup.options))
    first = order.candidates[0]
    types = tuple(dict.fromkeys(candidate.machine_type for candidate in order.candidates))
    for candidate in order.candidates:
        _check(order, candidate, options)
    if first.capacity == FLEX_START and len(order.node_names) == 1:
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
            _instance(order, first, options),
            _notes(order, options, bound=bound),
        )
    zones = tuple(dict.fromkeys(candidate.zone for candidate in order.candidates if candidate.zone))
    properties = _properties(order, first, options, bound=bound)
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


def run_limit_s(order: Order) -> int | None:
    """The server-side run limit, in seconds; None for none. Flex-start must have one: the ttl, else
    its 7 days.
    """
    if order.candidates[0].capacity == FLEX_START:
        return order.setup.ttl_s or FLEX_START_MAX_S
    return order.setup.ttl_s


def scheduling(order: Order, options: Options, *, bound: bool = False) -> dict[str, Any]:
    """Scheduling of a GPU machine: never live-migrated, and guarded by a run limit that Google
    itself carries out.

    Termination (preemption, the end of the run limit or of the reservation that it is bound to)
    deletes the machine, or stops it where the spec says to keep it.
    """
    capacity = order.candidates[0].capacity
    out: dict[str, Any] = {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": capacity not in (SPOT, FLEX_START),
        "provisioningModel": (
            "RESERVATION_BOUND"
            if bound
            else {SPOT: "SPOT", FLEX_START: "FLEX_START"}.get(capacity, "STANDARD")
        ),
    }
    action = "STOP" if order.setup.on_ttl == "keep" else "DELETE"
    limit_s = run_limit_s(order)
    if capacity == SPOT or bound or limit_s is not None:
        out["instanceTerminationAction"] = action
    if limit_s is not None:
        out["maxRunDuration"] = {"seconds": str(limit_s)}
    if (
        action == "STOP"
        and (bound or limit_s is not None)
        and has_local_ssd(order.candidates, options)
    ):
        # Google stops no machine with local SSD unless told what becomes of it, and keeps none at
        # the end of a run limit.
        out["onInstanceStopAction"] = {"discardLocalSsd": True}
    return out


def reservation_affinity(candidate: Candidate) -> dict[str, Any]:
    """Which reservations may be used: the named one; none for Spot and Flex-start; else any open
    one, as it is paid for already.
    """
    if candidate.capacity == RESERVATION:
        return {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": RESERVATION_KEY,
            "values": [candidate.reservation],
        }
    return {
        "consumeReservationType": (
            "NO_RESERVATION" if candidate.capacity in (SPOT, FLEX_START) else "ANY_RESERVATION"
        )
    }


def ssh_keys(user: str, *public_keys: str) -> str:
    """The value of the metadata item `ssh-keys`: a line for each key (Google, "Add SSH keys to
    VMs": one entry a line). Empty without any.
    """
    return "\n".join(f"{user}:{key.strip()}" for key in dict.fromkeys(public_keys) if key.strip())


def own_keys(value: str) -> list[str]:
    """The keys of an `ssh-keys` value that an engine made for itself."""
    keys = [line.partition(":")[2].strip() for line in value.splitlines()]
    return [key for key in keys if key.split()[-1:] and key.split()[-1].startswith(OWN_KEY)]


def start_up_script(container: str = "", secrets: Sequence[tuple[str, str]] = ()) -> str:
    """A script that fetches the secrets and runs the container with all GPUs. Google runs it at
    every boot; it is safe to run again.

    A container that ended with 0 while the machine was up is finished, and is not run again; one
    that failed, or went down with the machine, is. The Deep Learning images of 2026 come without
    docker (user reports), so docker and NVIDIA's container toolkit are installed when missing.
    """
    program = shell.program(
        __file__,
        "start_up",
        secrets=secret.wanted(secrets),
        secrets_file=secret.FILE,
        secret_names=[name for name, _ in secrets],
        image=container,
        finished=_FINISHED,
    )
    return keep_status() + program


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


def has_local_ssd(candidates: Sequence[Candidate], options: Options) -> bool:
    """True when a machine of these has local SSD, bundled or asked for."""
    return bool(options.local_ssd_count) or any(
        machines.bundled_ssd(candidate.machine_type) for candidate in candidates
    )


def _notes(order: Order, options: Options, *, bound: bool) -> tuple[str, ...]:
    notes: list[str] = []
    limit_s = run_limit_s(order)
    capacity = order.candidates[0].capacity
    what = "stopped" if order.setup.on_ttl == "keep" else "deleted"
    if limit_s is not None:
        why = (
            " (Flex-start's own limit)" if capacity == FLEX_START and not order.setup.ttl_s else ""
        )
        notes.append(
            f"Google ends the run after {duration_text(limit_s)}{why}: the machine is {what}"
        )
    if bound:
        notes.append(f"bound to its reservation: at the reservation's end the machine is {what}")
    if notes and what == "stopped" and has_local_ssd(order.candidates, options):
        notes.append("what is on its local SSD is lost then")
    if capacity == FLEX_START and len(order.node_names) == 1 and order.wait_s >= QUEUE_MIN_S:
        notes.append(f"Google keeps the request queued for up to {duration_text(QUEUE_MAX_S)}")
    if capacity == FLEX_START and len(order.node_names) > 1:
        notes.append(
            "several Flex-start nodes are had at once or not at all: Google queues only single"
            " machines"
        )
    return tuple(notes)


def _disks(
    setup: Setup, candidate: Candidate, options: Options, labels: dict[str, str], prefix: str
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
            "diskSizeGb": str(setup.disk_gib or DEFAULT_DISK_GIB),
            "sourceImage": options.source_image(arm=family.arm),
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


def _metadata(setup: Setup, options: Options, *, alone: bool = True) -> dict[str, str]:
    """What the machine is told at its start, by key. One of several (not `alone`) has no idle
    timer: it cannot see whether the others work.
    """
    found: dict[str, str] = {}
    if keys := ssh_keys(setup.ssh_user, setup.ssh_public_key, setup.own_public_key):
        found["ssh-keys"] = keys
    if script := start_up(setup if alone else setup._replace(idle_s=0), options):
        found["startup-script"] = script
    return found


def start_up(setup: Setup, options: Options | None = None) -> str:
    """All that a machine runs at each boot: one program after the other, whatever became of those
    before it. Empty for nothing.
    """
    container = (options or read_options(dict(setup.options))).container
    secrets = referred(setup.secrets)
    programs = (
        idle.script(setup.idle_s) if setup.idle_s else "",
        start_up_script(container, secrets) if container or secrets else "",
        "" if container else setup.script,
    )
    return "".join(programs)


def fits(section: Mapping[str, object], setup: Setup) -> list[Problem]:
    """What a machine is told at its start that is more than Google takes. Pure."""
    told = _metadata(setup, read_options(section))
    paths = {"startup-script": "container"}
    found = [
        too_large(
            paths.get(key, ""),
            f"metadata ({key})",
            len(value.encode()),
            METADATA_MAX,
            "fetch the rest from a bucket",
        )
        for key, value in told.items()
    ]
    total = sum(len(key.encode()) + len(value.encode()) for key, value in told.items())
    found.append(
        too_large("", "metadata in all", total, METADATA_ALL_MAX, "fetch the rest from a bucket")
    )
    return [problem for problem in found if problem is not None]


def _properties(
    order: Order, candidate: Candidate, options: Options, *, bound: bool = False
) -> dict[str, Any]:
    """`instanceProperties` of a bulkInsert: names where `instances.insert` takes URLs."""
    setup = order.setup
    labels = {**dict(setup.labels), **mark_labels(order.mark)}
    wiring = dict(setup.network)
    named = (tag.strip() for tag in wiring.get("tags", "").split(","))
    metadata = _metadata(setup, options, alone=len(order.node_names) + len(order.joins) == 1)
    body: dict[str, Any] = {
        "machineType": candidate.machine_type,
        "labels": labels,
        "disks": _disks(setup, candidate, options, labels, ""),
        "networkInterfaces": _interfaces(setup, candidate, options),
        "scheduling": scheduling(order, options, bound=bound),
        "reservationAffinity": reservation_affinity(candidate),
        "tags": {
            "items": list(
                dict.fromkeys(
                    [
                        "gpus",
                        f"gpus-{order.mark.cluster}",
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


def _instance(order: Order, candidate: Candidate, options: Options) -> dict[str, Any]:
    """The body of `instances.insert`, the only call that can wait for capacity."""
    zone = candidate.zone
    body = _properties(order, candidate, options)
    body["name"] = order.node_names[0]
    body["machineType"] = f"zones/{zone}/machineTypes/{candidate.machine_type}"
    body["disks"] = _disks(
        order.setup, candidate, options, body["labels"], f"zones/{zone}/diskTypes/"
    )
    for accelerator in body.get("guestAccelerators", ()):
        accelerator["acceleratorType"] = (
            f"zones/{zone}/acceleratorTypes/{accelerator['acceleratorType']}"
        )
    # Longer than this run waits: a later run waits on, and Google itself ends the queue.
    wait_s = 0 if order.wait_s < QUEUE_MIN_S else QUEUE_MAX_S
    body["params"] = {"requestValidForDuration": {"seconds": str(wait_s)}}
    return body
