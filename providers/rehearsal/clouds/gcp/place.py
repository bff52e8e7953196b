"""Where a machine goes, and whether it can be launched: stock, quota, Flex-start's queue. Owns
every decision that the scenario takes part in.

Decisions are made when a call arrives (or, for a queued request, at the first moment at which stock
was there) and written ahead as timelines.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from providers.rehearsal import script as played
from providers.rehearsal.clouds.gcp import machines, networks
from providers.rehearsal.clouds.gcp.state import (
    GONE,
    HOLDING,
    PROVIDER,
    Timeline,
    Vm,
    cut,
    first_with_room,
    status_at,
    vm_number,
)
from providers.rehearsal.clouds.gcp.wire import ROOT, Json, stockout_error, tail, timestamp
from providers.rehearsal.nodes.network import address

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.state import Rows
    from providers.rehearsal.clouds.gcp.wish import Wish

UNLIMITED = 10**9
DEFAULT_QUOTA = 10_000.0
QUOTA_METRICS = {
    "nvidia-tesla-k80": "NVIDIA_K80_GPUS",
    "nvidia-tesla-p100": "NVIDIA_P100_GPUS",
    "nvidia-tesla-v100": "NVIDIA_V100_GPUS",
    "nvidia-tesla-p4": "NVIDIA_P4_GPUS",
    "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
    "nvidia-tesla-a100": "NVIDIA_A100_GPUS",
    "nvidia-a100-80gb": "NVIDIA_A100_80GB_GPUS",
    "nvidia-l4": "NVIDIA_L4_GPUS",
    "nvidia-h100-80gb": "NVIDIA_H100_GPUS",
}
"""Accelerator type -> quota metric; Spot and Flex-start draw on its PREEMPTIBLE_ twin. Newer GPUs
have none (discovery, 20261106).
"""
NO_METRIC = frozenset({"NVIDIA_H100_GPUS"})
"""Metrics that exist only as their PREEMPTIBLE_ twin."""
GLOBAL_METRIC = "GPUS_ALL_REGIONS"


# Stock


def free(rows: Rows, zone: str, wish: Wish) -> int:
    """How many machines of this kind the zone can give now."""
    return _free(rows, zone, wish, rows.now)


def _free(rows: Rows, zone: str, wish: Wish, at: float) -> int:
    machine = wish.machine
    if zone not in machine.zones or (
        wish.attachment and zone not in machines.attachable()[wish.accelerator][1]
    ):
        return 0
    now = at == rows.now
    if wish.reservation:
        vms = rows.resources(wish.project, "reservations", f"zones/{zone}", wish.reservation)
        limit = int(vms[0][3]["specificReservation"]["count"]) if vms else 0
        same = rows.vms(
            "project = ? AND zone = ? AND reservation = ?",
            (wish.project, zone, wish.reservation),
            existing=now,
        )
    else:
        line = rows.store.stock(
            PROVIDER,
            machines.region_of(zone),
            zone,
            machine.name,
            (wish.accelerator, wish.gpu),
            wish.capacity,
        )
        if line.machines is None:
            return UNLIMITED
        limit = line.machines
        where = "zone = ? AND machine_type = ? AND gpu = ? AND capacity = ?"
        same = rows.vms(where, (zone, machine.name, wish.accelerator, wish.capacity), existing=now)
    return max(0, limit - sum(status_at(vm.timeline, at) in HOLDING for vm in same))


def wish_of(vm: Vm) -> Wish:
    """What a machine once asked for, to be asked again."""
    from providers.rehearsal.clouds.gcp.wish import Wish

    machine = machines.types()[vm.machine_type]
    gpu = machine.gpu or machines.attachable().get(vm.gpu, ("",))[0]
    run_s, action = float(vm.body["run_s"]), str(vm.body["action"])
    return Wish(
        vm.project,
        machine,
        vm.gpu,
        gpu,
        vm.gpu_count,
        vm.capacity,
        vm.reservation,
        run_s,
        action,
        None,
        vm.body,
    )


def zones_with_stock(rows: Rows, region: str, wish: Wish, without: str) -> list[str]:
    """The region's other zones that could give one now:
    what a stockout names as `zonesAvailable`.
    """
    return [
        zone
        for zone in machines.zones()
        if machines.region_of(zone) == region and zone != without and free(rows, zone, wish) > 0
    ]


def stockout(rows: Rows, project: str, zone: str, wish: Wish) -> Json:
    """The error of a stockout in a zone; a region's name stands for the zone where
    none is known.
    """
    region = machines.region_of(zone) if zone in machines.zones() else zone
    if wish.reservation:
        text = (
            f"Specified reservation [{wish.reservation}] does not have available resources for the"
            " request."
        )
        return {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": text}
    return stockout_error(
        project,
        zone,
        wish.machine.name,
        wish.attachment,
        zones_with_stock(rows, region, wish, zone),
    )


# Quota


def quota_limit(rows: Rows, region: str, metric: str) -> float:
    """The account's limit: what the scenario says, else one that is never reached."""
    limit = rows.store.quota(PROVIDER, region, metric)
    return DEFAULT_QUOTA if limit is None else limit


def quota_metric(accelerator: str, capacity: str) -> str:
    """The regional metric that this draws on; empty where the API has none."""
    metric = QUOTA_METRICS.get(accelerator, "")
    if metric and capacity in {"spot", "flex-start"}:
        return f"PREEMPTIBLE_{metric}"
    return "" if metric in NO_METRIC else metric


def quota_usage(rows: Rows, project: str, region: str, metric: str) -> float:
    """GPUs that count against a metric now; `region` empty means all regions."""
    return used(holding(rows, project), region, metric)


def holding(rows: Rows, project: str) -> list[Vm]:
    """The project's machines that take up capacity now."""
    return [vm for vm in rows.vms("project = ?", (project,)) if vm.status(rows.now) in HOLDING]


def used(vms: list[Vm], region: str, metric: str) -> float:
    """GPUs of these machines that count against a metric; `region` empty means all regions."""
    return sum(
        vm.gpu_count
        for vm in vms
        if region in {"", vm.region}
        and metric in {GLOBAL_METRIC, quota_metric(vm.gpu, vm.capacity)}
    )


def over_quota(
    rows: Rows, project: str, region: str, wish: Wish, count: int
) -> tuple[str, float, str] | None:
    """(metric, limit, region or empty) of the first limit that this many machines would pass, else
    None.
    """
    metric = quota_metric(wish.accelerator, wish.capacity)
    for name, where in ((metric, region), (GLOBAL_METRIC, "")):
        if name and wish.gpu_count:
            limit = quota_limit(rows, where, name)
            if quota_usage(rows, project, where, name) + count * wish.gpu_count > limit:
                return name, limit, where
    return None


# Making machines


def running(rows: Rows, begin: float, run_s: float, action: str, slower_s: float = 0.0) -> Timeline:
    """What a machine goes through from `begin`: made, running, and taken away at its limit if it
    has one.
    """
    create = rows.latency("create") + slower_s
    up = begin + create
    out = [(begin, "PROVISIONING"), (begin + create / 2, "STAGING"), (up, "RUNNING")]
    if run_s:
        out += ending(rows, up + run_s, action, "delete" if action == "DELETE" else "stop")
    return out


def ending(rows: Rows, begin: float, action: str, step: str) -> Timeline:
    """How a machine ends from `begin`: deleted or stopped, by its termination action."""
    return [
        (begin, "STOPPING"),
        (begin + rows.latency(step), GONE if action == "DELETE" else "TERMINATED"),
    ]


def foresee_limit(rows: Rows, vm: Vm) -> None:
    """Writes the system operation that will end a machine at its run limit."""
    for moment, status in vm.timeline:
        if status == "STOPPING" and moment > rows.now:
            kind = (
                "compute.instances.deferredDelete"
                if vm.timeline[-1][1] == GONE
                else "compute.instances.deferredStop"
            )
            done = vm.timeline[-1][0]
            rows.add_operation(
                vm.project,
                f"zones/{vm.zone}",
                kind,
                vm.link(),
                done,
                target_id=vm_number(vm.id),
                created=moment,
                user="system",
                vm=vm.id,
            )
            return


def make(
    rows: Rows,
    project: str,
    zone: str,
    name: str,
    wish: Wish,
    timeline: Timeline,
    hostname: str = "",
) -> Vm:
    """Writes a machine and its disks. The body holds what does not change by itself; `vms.body`
    adds the rest.
    """
    region = machines.region_of(zone)
    spec = wish.spec
    link = f"{ROOT}/projects/{project}/zones/{zone}"
    scheduling = {
        "onHostMaintenance": "MIGRATE",
        "automaticRestart": wish.capacity not in {"spot", "flex-start"},
        "provisioningModel": "STANDARD",
        "preemptible": wish.capacity == "spot",
        **(spec.get("scheduling") or {}),
    }
    if wish.capacity == "spot":
        scheduling |= {"provisioningModel": "SPOT", "instanceTerminationAction": wish.action}
    body: Json = {
        "name": name,
        "machineType": f"{link}/machineTypes/{wish.machine.name}",
        "labels": spec.get("labels") or {},
        "metadata": {"items": (spec.get("metadata") or {}).get("items", [])},
        "tags": {"items": (spec.get("tags") or {}).get("items", [])},
        "scheduling": scheduling,
        "reservationAffinity": (
            spec.get("reservationAffinity") or {"consumeReservationType": "ANY_RESERVATION"}
        ),
        "serviceAccounts": [
            {"email": account.get("email", "default"), "scopes": account.get("scopes", [])}
            for account in spec.get("serviceAccounts") or []
        ],
        "canIpForward": bool(spec.get("canIpForward")),
        "description": spec.get("description", ""),
        "guestAccelerators": (
            [
                {
                    "acceleratorType": f"{link}/acceleratorTypes/{wish.accelerator}",
                    "acceleratorCount": int(wish.gpu_count),
                }
            ]
            if wish.gpu_count >= 1
            else []
        ),
        "run_s": wish.run_s,
        "action": wish.action,
        "exit_code": rows.store.exit_code(PROVIDER, zone, wish.machine.name),
    }
    timeline = _until_done(rows, body, timeline)
    if hostname or spec.get("hostname"):
        body["hostname"] = hostname or spec["hostname"]
    if spec.get("resourcePolicies"):
        body["resourcePolicies"] = spec["resourcePolicies"]
    vm = rows.add_vm(
        Vm(
            *(
                0,
                project,
                region,
                zone,
                name,
                wish.machine.name,
                wish.accelerator,
                wish.gpu_count,
                wish.capacity,
                wish.reservation,
            ),
            *(rows.now, None, body, timeline),
        )
    )
    vm.body["networkInterfaces"] = [
        _nic(rows, vm, index, nic) for index, nic in enumerate(spec["networkInterfaces"])
    ]
    vm.body["disks"] = [
        _disk(rows, vm, index, disk, wish) for index, disk in enumerate(spec["disks"])
    ]
    rows.write_vm(vm)
    return vm


def _until_done(rows: Rows, body: Json, timeline: Timeline) -> Timeline:
    """The timeline of a machine that stops itself once its job is done, if it has one that does."""
    script = next(
        (
            str(item.get("value", ""))
            for item in body["metadata"]["items"]
            if item.get("key") == "startup-script"
        ),
        "",
    )
    up = next((at for at, status in timeline if status == "RUNNING"), None)
    end = played.over(rows.store, PROVIDER, script, up)
    if end is None or any(at <= end for at, status in timeline if status == "STOPPING"):
        return timeline
    return [entry for entry in timeline if entry[0] < end] + [
        (end, "STOPPING"),
        (end + rows.latency("stop"), "TERMINATED"),
    ]


def _nic(rows: Rows, vm: Vm, index: int, given: Json) -> Json:
    network, subnetwork, cidr = networks.resolve(
        rows, vm.project, vm.region, given, f"networkInterfaces[{index}]"
    )
    out: Json = {
        "kind": "compute#networkInterface",
        "name": f"nic{index}",
        "network": network,
        "subnetwork": subnetwork,
        "networkIP": given.get("networkIP") or networks.internal_ip(cidr, vm.id),
        "stackType": given.get("stackType", "IPV4_ONLY"),
        "fingerprint": "bmlj",
    }
    if given.get("nicType"):
        out["nicType"] = given["nicType"]
    if given.get("accessConfigs"):
        access = given["accessConfigs"][0]
        out["accessConfigs"] = [
            {
                "kind": "compute#accessConfig",
                "name": access.get("name", "External NAT"),
                "type": access.get("type", "ONE_TO_ONE_NAT"),
                "networkTier": access.get("networkTier", "PREMIUM"),
                "natIP": access.get("natIP") or address(rows.store, networks.external_ip(vm.id)),
            }
        ]
    return out


def _disk(rows: Rows, vm: Vm, index: int, given: Json, wish: Wish) -> Json:
    import json

    start = given.get("initializeParams") or {}
    scratch = given.get("type") == "SCRATCH"
    name = start.get("diskName") or (vm.name if given.get("boot") else f"{vm.name}-{index}")
    link = f"{ROOT}/projects/{vm.project}/zones/{vm.zone}"
    if given.get("source"):
        return {
            "kind": "compute#attachedDisk",
            "type": "PERSISTENT",
            "mode": given.get("mode", "READ_WRITE"),
            "boot": False,
            "autoDelete": bool(given.get("autoDelete")),
            "deviceName": given.get("deviceName", f"persistent-disk-{index}"),
            "index": index,
            "interface": given.get("interface", "SCSI"),
            "source": f"{link}/disks/{tail(given['source'])}",
        }
    size = str(start.get("diskSizeGb") or given.get("diskSizeGb") or (375 if scratch else 10))
    out: Json = {
        "kind": "compute#attachedDisk",
        "type": given.get("type", "PERSISTENT"),
        "mode": "READ_WRITE",
        "boot": bool(given.get("boot")),
        "autoDelete": bool(given.get("autoDelete")) or scratch,
        "deviceName": given.get(
            "deviceName", "local-ssd-" + str(index) if scratch else f"persistent-disk-{index}"
        ),
        "index": index,
        "interface": given.get("interface", "SCSI"),
        "diskSizeGb": size,
    }
    if scratch:
        return out
    out["source"] = f"{link}/disks/{name}"
    disk: Json = {
        "name": name,
        "sizeGb": size,
        "type": f"{link}/diskTypes/{tail(start.get('diskType') or 'pd-standard')}",
        "labels": start.get("labels") or wish.spec.get("labels") or {},
        "sourceImage": start.get("sourceImage", ""),
    }
    rows.db.execute(
        "INSERT INTO gcp_disk (project, zone, name, vm, auto_delete, created, body) VALUES"
        " (?,?,?,?,?,?,?)",
        (vm.project, vm.zone, name, vm.id, int(out["autoDelete"]), rows.now, json.dumps(disk)),
    )
    return out


# Flex-start's queue


def settle(rows: Rows) -> None:
    """Decides the queued requests whose moment has come: the machine is made at the first moment at
    which stock was there, or given up at its limit.

    What comes out depends only on the rows and on now, not on how often anybody asks.
    """
    for vm in rows.vms("wait_until IS NOT NULL", existing=False):
        until = float(vm.wait_until or 0.0)
        wish = wish_of(vm)
        line = rows.store.stock(
            PROVIDER, vm.region, vm.zone, vm.machine_type, (vm.gpu, wish.gpu), vm.capacity
        )
        start = max(vm.created, line.since)
        same = rows.vms(
            "zone = ? AND machine_type = ? AND gpu = ? AND capacity = ?",
            (vm.zone, vm.machine_type, vm.gpu, vm.capacity),
            existing=False,
        )
        begins = first_with_room(
            [other.timeline for other in same],
            HOLDING,
            start,
            min(rows.now, until),
            partial(_free, rows, vm.zone, wish),
            wanted=1,
        )
        if begins is not None:
            later = vm._replace(
                wait_until=None,
                timeline=cut(
                    vm.timeline, begins, running(rows, begins, vm.body["run_s"], vm.body["action"])
                ),
            )
            rows.write_vm(later)
            rows.end_operation(vm.id, begins + rows.latency("create"))
            foresee_limit(rows, later)
        elif rows.now >= until:
            rows.write_vm(
                vm._replace(wait_until=None, timeline=cut(vm.timeline, until, [(until, GONE)]))
            )
            rows.end_operation(
                vm.id, until, [stockout_error(vm.project, vm.zone, vm.machine_type, "", [])]
            )


def stamp(vm: Vm, now: float, status: str) -> str:
    """When the machine last entered a status, as a timestamp; empty if never."""
    moments = [at for at, entered in vm.timeline if entered == status and at <= now]
    return timestamp(moments[-1]) if moments else ""
