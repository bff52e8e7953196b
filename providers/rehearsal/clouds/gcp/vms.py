"""Virtual machines as the API shows and changes them. Owns the machine's body, single and bulk
inserts, deletion and the edits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.model import idle
from providers.rehearsal import script as played
from providers.rehearsal.clouds.gcp import machines, place, wish
from providers.rehearsal.clouds.gcp.state import GONE, HOLDING, PROVIDER, Vm, cut, vm_number
from providers.rehearsal.clouds.gcp.wire import (
    ROOT,
    Json,
    Refusal,
    exists,
    missing,
    quota_refusal,
    timestamp,
)
from providers.rehearsal.nodes import machine, mode

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.call import Call
    from providers.rehearsal.clouds.gcp.state import Rows


def body(rows: Rows, vm: Vm) -> Json:
    """A machine as the API shows it now."""
    status = vm.status(rows.now)
    out = {
        key: value
        for key, value in vm.body.items()
        if key not in {"run_s", "action", "exit_code"} and value not in ("", None)
    }
    addressed = status in HOLDING and status != "PROVISIONING"
    if not addressed:
        out["networkInterfaces"] = [
            (
                {
                    **nic,
                    "accessConfigs": [
                        {key: value for key, value in access.items() if key != "natIP"}
                        for access in nic["accessConfigs"]
                    ],
                }
                if "accessConfigs" in nic
                else nic
            )
            for nic in vm.body["networkInterfaces"]
        ]
    out |= {
        "kind": "compute#instance",
        "id": vm_number(vm.id),
        "creationTimestamp": timestamp(vm.created),
        "zone": f"{ROOT}/projects/{vm.project}/zones/{vm.zone}",
        "selfLink": vm.link(),
        "status": status,
        "cpuPlatform": "Unknown CPU Platform",
        "startRestricted": False,
        "deletionProtection": False,
        "labelFingerprint": fingerprint(vm.body["labels"]),
        "fingerprint": fingerprint(
            [vm.id, vm.body["labels"], vm.body["metadata"]["items"], vm.body["scheduling"]]
        ),
    }
    out["metadata"] = {
        "kind": "compute#metadata",
        "fingerprint": fingerprint(vm.body["metadata"]["items"]),
        **vm.body["metadata"],
    }
    out["tags"] = {"fingerprint": fingerprint(vm.body["tags"]["items"]), **vm.body["tags"]}
    for key, entered in (("lastStartTimestamp", "RUNNING"), ("lastStopTimestamp", "TERMINATED")):
        if moment := place.stamp(vm, rows.now, entered):
            out[key] = moment
    if vm.body["run_s"] and status == "RUNNING":
        began = max(at for at, entered in vm.timeline if entered == "RUNNING" and at <= rows.now)
        out["resourceStatus"] = {
            "scheduling": {"terminationTimestamp": timestamp(began + vm.body["run_s"])}
        }
    return out


def fingerprint(value: object) -> str:
    """A short hash of a value, as the API's fingerprints:
    an edit must give the one that it read.
    """
    import base64
    import hashlib
    import json

    return base64.b64encode(
        hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()[:8]
    ).decode()


def named(call: Call) -> Vm:
    """The machine that a call names. Raises 404."""
    zone = wish.zone_known(call.path["zone"])
    found = call.rows.vm(call.project, zone, call.path["instance"])
    if found is None:
        raise missing(f"projects/{call.project}/zones/{zone}/instances/{call.path['instance']}")
    return found


def insert(call: Call) -> Json:
    """One machine in one zone. The answer is an operation; a stockout comes later, inside it."""
    rows, zone, spec = call.rows, wish.zone_known(call.path["zone"]), call.body
    name = wish.name(spec.get("name"))
    machine = wish.machine_type(spec.get("machineType"), zone, "resource.machineType", bare=False)
    region = machines.region_of(zone)
    wanted = wish.read(
        rows,
        call.project,
        region,
        zone,
        machine,
        spec,
        spec.get("params") or {},
        "resource",
        bulk=False,
    )
    if rows.vm(call.project, zone, name):
        raise exists(f"projects/{call.project}/zones/{zone}/instances/{name}")
    if over := place.over_quota(rows, call.project, region, wanted, 1):
        raise quota_refusal(*over)
    target = f"{ROOT}/projects/{call.project}/zones/{zone}/instances/{name}"
    if planned := call.planned_errors():
        return call.operation(
            f"zones/{zone}",
            "insert",
            target,
            rows.now + rows.latency("stockout") + call.slower_s,
            errors=planned,
        )
    if place.free(rows, zone, wanted) < 1:
        if wanted.wait_s is None:
            done = rows.now + rows.latency("stockout") + call.slower_s
            return call.operation(
                f"zones/{zone}",
                "insert",
                target,
                done,
                errors=[place.stockout(rows, call.project, zone, wanted)],
            )
        queued = place.make(
            rows, call.project, zone, name, wanted, [(rows.now, "PENDING")]
        )._replace(wait_until=rows.now + wanted.wait_s)
        rows.write_vm(queued)
        return call.operation(
            f"zones/{zone}", "insert", target, None, target_id=vm_number(queued.id), vm=queued.id
        )
    vm = place.make(
        rows,
        call.project,
        zone,
        name,
        wanted,
        place.running(rows, rows.now, wanted.run_s, wanted.action, call.slower_s),
    )
    place.foresee_limit(rows, vm)
    return call.operation(f"zones/{zone}", "insert", target, _up(vm), target_id=vm_number(vm.id))


def _up(vm: Vm) -> float:
    return next(at for at, status in vm.timeline if status == "RUNNING")


def delete(call: Call) -> Json:
    """Ends a machine: its name and capacity are free when the operation is done."""
    rows, vm = call.rows, named(call)
    done = rows.now + rows.latency("delete") + call.slower_s
    if planned := call.planned_errors():
        return call.operation(
            f"zones/{vm.zone}",
            "delete",
            vm.link(),
            done,
            target_id=vm_number(vm.id),
            errors=planned,
        )
    if vm.wait_until is not None:
        rows.end_operation(
            vm.id,
            rows.now,
            [
                {
                    "code": "RESOURCE_NOT_FOUND",
                    "message": f"The resource '{vm.name}' was deleted while it was waited for.",
                }
            ],
        )
    if vm.status(rows.now) == "STOPPING" and vm.timeline[-1][1] == GONE:
        # It is on its way out already: asking again makes that no later.
        done = min(done, vm.timeline[-1][0])
    rows.end_creation(
        vm,
        {
            "code": "RESOURCE_NOT_FOUND",
            "message": f"The resource '{vm.name}' was deleted while it was made.",
        },
    )
    rows.drop_plans(vm.id)
    rows.write_vm(
        vm._replace(
            wait_until=None,
            timeline=cut(vm.timeline, rows.now, [(rows.now, "STOPPING"), (done, GONE)]),
        )
    )
    return call.operation(f"zones/{vm.zone}", "delete", vm.link(), done, target_id=vm_number(vm.id))


def stop(call: Call) -> Json:
    """Stops a machine. With local SSD the call must say what becomes of its data."""
    rows, vm = call.rows, named(call)
    ssd = machines.types()[vm.machine_type].bundled_ssd_gib or any(
        disk["type"] == "SCRATCH" for disk in vm.body["disks"]
    )
    if ssd and "discardLocalSsd" not in call.query:
        raise Refusal(
            400,
            "badRequest",
            "An instance with local SSD can be stopped only with discardLocalSsd set.",
        )
    done = rows.now + rows.latency("stop") + call.slower_s
    if planned := call.planned_errors():
        return call.operation(
            f"zones/{vm.zone}", "stop", vm.link(), done, target_id=vm_number(vm.id), errors=planned
        )
    if vm.status(rows.now) not in {"TERMINATED", "STOPPED"}:
        rows.drop_plans(vm.id)
        rows.write_vm(
            vm._replace(
                timeline=cut(vm.timeline, rows.now, [(rows.now, "STOPPING"), (done, "TERMINATED")])
            )
        )
    return call.operation(f"zones/{vm.zone}", "stop", vm.link(), done, target_id=vm_number(vm.id))


def start(call: Call) -> Json:
    """Starts a stopped machine again, in its zone and nowhere else: without stock the operation
    fails and the machine stays stopped.
    """
    rows, vm = call.rows, named(call)
    if vm.status(rows.now) != "TERMINATED":
        raise Refusal(
            400,
            "resourceNotReady",
            f"The resource '{vm.link().removeprefix(ROOT + '/')}' is not ready",
        )
    again = place.wish_of(vm)
    failed = call.planned_errors()
    if not failed and place.free(rows, vm.zone, again) < 1:
        failed = [place.stockout(rows, call.project, vm.zone, again)]
    if failed:
        done = rows.now + rows.latency("stockout") + call.slower_s
        return call.operation(
            f"zones/{vm.zone}", "start", vm.link(), done, target_id=vm_number(vm.id), errors=failed
        )
    begun = vm._replace(
        timeline=cut(
            vm.timeline,
            rows.now,
            place.running(rows, rows.now, again.run_s, again.action, call.slower_s),
        )
    )
    rows.write_vm(begun)
    place.foresee_limit(rows, begun)
    done = next(at for at, status in begun.timeline if status == "RUNNING" and at > rows.now)
    return call.operation(f"zones/{vm.zone}", "start", vm.link(), done, target_id=vm_number(vm.id))


def set_labels(call: Call) -> Json:
    """Replaces a machine's labels; the caller must give the fingerprint of those it read."""
    vm = named(call)
    wish.labels(call.body.get("labels"), "labels")
    _fresh(call.body.get("labelFingerprint"), fingerprint(vm.body["labels"]), "labelFingerprint")
    return _edit(call, vm, "setLabels", labels=call.body.get("labels") or {})


def serial_port(call: Call) -> Json:
    """What a machine wrote while it started."""
    vm, store = named(call), call.rows.store
    contents = (
        machine.console(store, machine.key(PROVIDER, vm.id))
        if mode.runs(store, PROVIDER)
        else _played_console(call, vm)
    )
    return {
        "kind": "compute#serialPortOutput",
        "contents": contents,
        "start": "0",
        "next": str(len(contents)),
        "selfLink": f"{vm.link()}/serialPort",
    }


def _played_console(call: Call, vm: Vm) -> str:
    """That nothing boots, with the script that it was given, and that script's course."""
    script = next(
        (
            str(item.get("value", ""))
            for item in vm.body["metadata"]["items"]
            if item.get("key") == "startup-script"
        ),
        "",
    )
    given = (
        f"its start-up script has {len(script.encode())} bytes and was not run"
        if script
        else "it was given no start-up script"
    )
    contents = f"rehearsal stand-in {vm.name}: nothing boots here; {given}\r\n"
    began = [at for at, status in vm.timeline if status == "RUNNING" and at <= call.rows.now]
    native = f"projects/{vm.project}/zones/{vm.zone}/instances/{vm.name}"
    if began:
        job_s, code = call.rows.latency("job"), int(vm.body.get("exit_code", 0))
        lines = played.told(call.rows.store, native, script, began[0], call.rows.now, job_s, code)
        contents += "".join(f"{line}\r\n" for _, line in lines)
    return contents


def set_metadata(call: Call) -> Json:
    """Replaces a machine's metadata, likewise."""
    vm = named(call)
    _fresh(call.body.get("fingerprint"), fingerprint(vm.body["metadata"]["items"]), "fingerprint")
    return _edit(call, vm, "setMetadata", metadata={"items": call.body.get("items", [])})


def _fresh(given: str | None, current: str, field: str) -> None:
    if given != current:
        if not given:
            raise Refusal(400, "required", f"Required field '{field}' not specified")
        text = (
            "Labels fingerprint either invalid or resource labels have changed"
            if field == "labelFingerprint"
            else "Supplied fingerprint does not match current metadata fingerprint."
        )
        raise Refusal(412, "conditionNotMet", text)


def _edit(call: Call, vm: Vm, kind: str, **change: object) -> Json:
    rows = call.rows
    done = rows.now + rows.latency("edit") + call.slower_s
    planned = call.planned_errors()
    if not planned:
        rows.write_vm(vm._replace(body={**vm.body, **change}))
    return call.operation(
        f"zones/{vm.zone}", kind, vm.link(), done, target_id=vm_number(vm.id), errors=planned
    )


def preempt(rows: Rows, vm: Vm) -> bool:
    """Takes a machine back as Compute Engine does with Spot: by its termination action, with a
    system operation. False unless it runs.
    """
    if vm.status(rows.now) not in {"STAGING", "RUNNING"}:
        return False
    end = place.ending(rows, rows.now, vm.body["action"], "preempt")
    rows.drop_plans(vm.id)
    rows.write_vm(vm._replace(timeline=cut(vm.timeline, rows.now, end)))
    rows.add_operation(
        vm.project,
        f"zones/{vm.zone}",
        "compute.instances.preempted",
        vm.link(),
        end[-1][0],
        target_id=vm_number(vm.id),
        user="system",
        vm=vm.id,
    )
    return True


def goes_idle(rows: Rows, vm: Vm) -> float:
    """From now on the machine's GPUs have nothing to do; when its own timer powers it off, 0 for
    never. Google then keeps it, stopped.
    """
    script = next(
        (
            str(item.get("value", ""))
            for item in vm.body["metadata"]["items"]
            if item.get("key") == "startup-script"
        ),
        "",
    )
    begin = rows.now + (limit_s := idle.limit_s(script))
    if not limit_s or vm.status(rows.now) != "RUNNING":
        return 0.0
    if not any(rows.now < moment <= begin for moment, _ in vm.timeline):
        powers_off(rows, vm, begin)
    return float(begin)


def powers_off(rows: Rows, vm: Vm, at: float) -> None:
    """The machine shuts itself down then; Google keeps it, stopped."""
    end = place.ending(rows, at, "STOP", "stop")
    rows.drop_plans(vm.id)
    rows.write_vm(vm._replace(timeline=cut(vm.timeline, rows.now, end)))
    rows.add_operation(
        *(
            vm.project,
            f"zones/{vm.zone}",
            "compute.instances.guestTerminate",
            vm.link(),
            end[-1][0],
        ),
        target_id=vm_number(vm.id),
        created=at,
        user="system",
        vm=vm.id,
    )
