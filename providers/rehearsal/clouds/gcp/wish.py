"""What an insert asks for, checked as Compute Engine checks it before it answers. Owns Wish; reads
rows, writes none.

Rules: Google's GPU machine type, provisioning model and run limit pages of 2026, the discovery
document's field texts, and public failure reports.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from providers.rehearsal.clouds.gcp import attachments, images, machines, networks, wire
from providers.rehearsal.clouds.gcp.scheduling import check_scheduling, run_limit, valid_for_s
from providers.rehearsal.clouds.gcp.wire import Json, Refusal, invalid, missing, tail

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.machines import MachineType
    from providers.rehearsal.clouds.gcp.state import Rows

NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
RESERVATION_KEY = "compute.googleapis.com/reservation-name"


class Wish(NamedTuple):
    """One kind of machine, wanted. `capacity` is on-demand, spot, flex-start or reservation;
    `run_s` 0 means no limit.

    `action` is what happens at preemption or at the limit; `wait_s` how long a Flex-start request
    may wait, None where it may not.
    """

    project: str
    machine: MachineType
    accelerator: str
    gpu: str
    gpu_count: float
    capacity: str
    reservation: str
    run_s: float
    action: str
    wait_s: float | None
    spec: Json

    @property
    def attachment(self) -> str:
        """`nvidia-tesla-t4:1`, as a stockout names it; empty where the machine type
        brings the GPU.
        """
        return (
            ""
            if self.machine.accelerator or not self.accelerator
            else f"{self.accelerator}:{int(self.gpu_count)}"
        )


def name(text: object, field: str = "resource.name") -> str:
    """A resource's name, or 400."""
    if not isinstance(text, str) or not NAME.fullmatch(text):
        raise invalid(field, text, f"Must be a match of regex '(?:{NAME.pattern})'")
    return text


def labels(given: Json | None, field: str) -> None:
    """400 for labels that Compute Engine does not take."""
    if len(given or {}) > 64:
        raise invalid(field, len(given or {}), "At most 64 labels.")
    for key, value in (given or {}).items():
        if not _LABEL_KEY.fullmatch(key):
            raise invalid(
                f"{field}.key",
                key,
                "Label keys hold only lowercase letters, digits, '_' and '-', begin with a letter,"
                " and are 63 characters at most.",
            )
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            raise invalid(
                f"{field}.value",
                value,
                "Label values hold only lowercase letters, digits, '_' and '-', and are 63"
                " characters at most.",
            )


def zone_known(zone: str) -> str:
    """The zone, or 400."""
    if zone not in machines.zones():
        raise invalid("zone", zone, "Unknown zone.")
    return zone


def machine_type(text: object, zone: str, field: str, *, bare: bool) -> MachineType:
    """The machine type that a field names: a bare name in bulk inserts, a link of the zone
    otherwise. Raises 400.
    """
    if not isinstance(text, str) or not text:
        raise Refusal(400, "required", f"Required field '{field}' not specified")
    if bare == ("/" in text):
        raise invalid(
            field,
            text,
            "Must be the name of a machine type, not a URL." if bare else "The URL is malformed.",
        )
    if not bare and not re.search(rf"(^|/)zones/{re.escape(zone)}/machineTypes/[^/]+$", text):
        raise invalid(field, text, f"The machine type must be in zone '{zone}'.")
    found = machines.types().get(tail(text))
    if found is None or (zone and zone not in found.zones):
        raise no_such_type(field, text, zone)
    return found


def no_such_type(field: str, text: str, zone: str) -> Refusal:
    """400: the place does not have this machine type."""
    where = f"zone '{zone}'" if zone else "any zone of the region"
    return invalid(field, text, f"Machine type with name '{tail(text)}' does not exist in {where}.")


def read(
    rows: Rows,
    project: str,
    region: str,
    zone: str,
    machine: MachineType,
    spec: Json,
    params: Json,
    field: str,
    *,
    bulk: bool,
) -> Wish:
    """The checked wish of an Instance (`bulk` False) or of InstanceProperties. `zone` is empty for
    a regional call. Raises 400, 403, 404.
    """
    accelerator, gpu, count = _gpus(
        machine, spec.get("guestAccelerators") or [], zone, field, bulk=bulk
    )
    labels(spec.get("labels"), f"{field}.labels")
    scheduling = spec.get("scheduling") or {}
    affinity = spec.get("reservationAffinity") or {}
    model = scheduling.get("provisioningModel") or (
        "SPOT" if scheduling.get("preemptible") else "STANDARD"
    )
    specific = affinity.get("consumeReservationType") == "SPECIFIC_RESERVATION"
    _disks(rows, project, zone, machine, spec.get("disks") or [], field, bulk=bulk)
    run_s = run_limit(rows, scheduling, field)
    check_scheduling(
        machine, count, scheduling, model, run_s, affinity, spec, field, specific=specific
    )
    wait_s = valid_for_s(params, model, field)
    networks.check_nics(
        rows,
        project,
        region,
        zone,
        machine.name,
        spec.get("networkInterfaces") or [],
        f"{field}.networkInterfaces",
    )
    reservation = ""
    if specific:
        reservation, end = _reservation(rows, project, zone, machine, affinity, model, field)
        run_s = min(run_s or end, end) if end else run_s
    capacity = (
        "reservation"
        if reservation
        else {"SPOT": "spot", "FLEX_START": "flex-start"}.get(model, "on-demand")
    )
    action = scheduling.get("instanceTerminationAction") or ("STOP" if model == "SPOT" else "")
    return Wish(
        project,
        machine,
        accelerator,
        gpu,
        count,
        capacity,
        reservation,
        run_s,
        action,
        wait_s,
        spec,
    )


def _gpus(
    machine: MachineType, given: list[Json], zone: str, field: str, *, bulk: bool
) -> tuple[str, str, float]:
    if len(given) > 1:
        raise invalid(f"{field}.guestAccelerators", len(given), "At most one accelerator type.")
    if not given:
        return machine.accelerator, machine.gpu, machine.gpu_count
    text, count = str(given[0].get("acceleratorType", "")), int(given[0].get("acceleratorCount", 0))
    if bulk == ("/" in text):
        why = (
            "Must be the name of an accelerator type, not a URL."
            if bulk
            else "The URL is malformed."
        )
        raise invalid(f"{field}.guestAccelerators[0].acceleratorType", text, why)
    kind = tail(text)
    if machine.accelerator:
        if kind != machine.accelerator or count != machine.gpu_count:
            raise Refusal(
                400,
                "badRequest",
                f"[{machine.name}, {kind}:{count}] features are not compatible for creating"
                " instance.",
            )
        return machine.accelerator, machine.gpu, machine.gpu_count
    if not machine.name.startswith("n1-") or kind not in machines.attachable():
        if kind not in machines.accelerators():
            raise missing(f"projects/-/zones/{zone}/acceleratorTypes/{kind}")
        raise Refusal(
            400,
            "badRequest",
            f"[{machine.name}, {kind}] features are not compatible for creating instance.",
        )
    gpu, where = machines.attachable()[kind]
    if zone and zone not in where:
        raise missing(f"projects/-/zones/{zone}/acceleratorTypes/{kind}")
    limits = machines.N1_LIMITS[kind].get(count)
    if limits is None:
        allowed = ", ".join(map(str, machines.N1_LIMITS[kind]))
        raise invalid(
            f"{field}.guestAccelerators[0].acceleratorCount",
            count,
            f"The number of GPUs of {kind} must be one of {allowed}.",
        )
    if machine.vcpus > limits[0] or machine.memory_mib > limits[1] * 1024:
        raise Refusal(
            400,
            "badRequest",
            f"With {count} GPUs of {kind}, at most {limits[0]} vCPUs and {limits[1]} GB;"
            f" {machine.name} has more.",
        )
    return kind, gpu, float(count)


def _disks(
    rows: Rows,
    project: str,
    zone: str,
    machine: MachineType,
    given: list[Json],
    field: str,
    *,
    bulk: bool,
) -> None:
    if not any(disk.get("boot") for disk in given):
        raise invalid(f"{field}.disks", "", "A boot disk must be specified.")
    for index, disk in enumerate(given):
        where = f"{field}.disks[{index}]"
        start = disk.get("initializeParams") or {}
        kind = str(start.get("diskType") or "pd-standard")
        if bulk and "/" in kind:
            raise invalid(
                f"{where}.initializeParams.diskType",
                kind,
                "Must be the name of a disk type, not a URL.",
            )
        if (
            not bulk
            and start.get("diskType")
            and not re.search(rf"(^|/)zones/{re.escape(zone)}/diskTypes/[^/]+$", kind)
        ):
            raise invalid(f"{where}.initializeParams.diskType", kind, "The URL is malformed.")
        kind = tail(kind)
        if disk.get("type") == "SCRATCH":
            if kind != "local-ssd":
                raise invalid(
                    f"{where}.initializeParams.diskType",
                    kind,
                    "A scratch disk must be of type local-ssd.",
                )
            continue
        if disk.get("source"):
            attachments.check(rows, project, zone, disk, where, bulk=bulk)
            continue
        if machines.disk_refusal(machine.name, kind):
            raise Refusal(
                400,
                "badRequest",
                f"[{machine.name}, {kind}] features are not compatible for creating instance.",
            )
        if disk.get("boot"):
            size = int(start.get("diskSizeGb") or disk.get("diskSizeGb") or 0)
            images.check(
                project, start.get("sourceImage"), size, where, arm=machine.name.startswith("a4x-")
            )
        labels(start.get("labels"), f"{where}.initializeParams.labels")


def _reservation(
    rows: Rows,
    project: str,
    zone: str,
    machine: MachineType,
    affinity: Json,
    model: str,
    field: str,
) -> tuple[str, float]:
    """(name, seconds until it ends and its bound machines with it; 0 for no such end)."""
    values = affinity.get("values") or []
    if affinity.get("key") != RESERVATION_KEY or len(values) != 1:
        raise invalid(
            f"{field}.reservationAffinity.key",
            affinity.get("key"),
            f"SPECIFIC_RESERVATION needs key {RESERVATION_KEY} and one value.",
        )
    named = re.search(r"(?:^|/reservations/)([^/]+)(?:/reservationBlocks/.*)?$", values[0])
    wanted = named[1] if named else tail(values[0])
    found = rows.resources(project, "reservations", f"zones/{zone}" if zone else "", wanted)
    if not found:
        raise invalid(
            f"{field}.reservationAffinity",
            values[0],
            f"Specified reservations [{values[0]}] do not exist.",
        )
    specific = found[0][3]["specificReservation"]
    if not found[0][3].get("specificReservationRequired"):
        why = (
            f"Specified reservations [{values[0]}] can not be targeted as"
            " specificReservationRequired is not set."
        )
        raise invalid(f"{field}.reservationAffinity", values[0], why)
    if specific["instanceProperties"]["machineType"] != machine.name:
        raise invalid(
            f"{field}.reservationAffinity",
            values[0],
            "The reservation's properties do not match: it is for"
            f" {specific['instanceProperties']['machineType']}.",
        )
    delivered = any(
        wanted in map(tail, wire.delivered(body))
        for _, _, _, body in rows.resources(project, "futureReservations", found[0][1])
    )
    bound = delivered and machine.name.startswith(machines.BOUND)
    if bound != (model == "RESERVATION_BOUND"):
        why = (
            "comes from a future reservation: it is used with"
            if bound
            else "comes from no future reservation: it cannot be used with"
        )
        raise Refusal(
            400,
            "badRequest",
            f"Reservation [{values[0]}] {why} provisioning model RESERVATION_BOUND.",
        )
    end = found[0][3].get("deleteAtTime", "")
    return wanted, wire.moment(end) - rows.now if bound and end else 0.0
