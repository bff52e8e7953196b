"""When a machine ends and how it is provisioned, checked as Compute Engine checks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import machines
from providers.rehearsal.clouds.gcp.wire import Json, Refusal, invalid

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.machines import MachineType
    from providers.rehearsal.clouds.gcp.state import Rows

FLEX_RUN_S = (600, 7 * 86_400)
RUN_S = (30, 120 * 86_400)


def run_limit(rows: Rows, scheduling: Json, field: str) -> float:
    """Seconds from start until the limit that `maxRunDuration` or `terminationTime` sets; 0 for
    none. Raises 400.
    """
    limit, until = scheduling.get("maxRunDuration"), scheduling.get("terminationTime")
    if limit and until:
        raise invalid(
            f"{field}.scheduling", "maxRunDuration, terminationTime", "Only one of them may be set."
        )
    if limit:
        run_s = float(limit.get("seconds", 0)) + float(limit.get("nanos", 0)) / 1e9
        if not RUN_S[0] <= run_s <= RUN_S[1]:
            raise invalid(
                f"{field}.scheduling.maxRunDuration",
                f"{run_s:g}s",
                f"Must be between {RUN_S[0]} seconds and 120 days.",
            )
        return run_s
    if until:
        from datetime import datetime

        try:
            moment = datetime.fromisoformat(until).timestamp()
        except ValueError:
            raise invalid(
                f"{field}.scheduling.terminationTime", until, "Must be in RFC 3339 format."
            ) from None
        if moment <= rows.now:
            raise invalid(f"{field}.scheduling.terminationTime", until, "Must be in the future.")
        return float(moment - rows.now)
    return 0.0


def check_scheduling(
    machine: MachineType,
    gpus: float,
    given: Json,
    model: str,
    run_s: float,
    affinity: Json,
    spec: Json,
    field: str,
    *,
    specific: bool,
) -> None:
    """400 where provisioning model, end of the run, reservation and machine do not go together."""
    maintenance = given.get("onHostMaintenance", "MIGRATE")
    if gpus and maintenance != "TERMINATE":
        raise Refusal(
            400,
            "badRequest",
            "Instances with guest accelerators do not support live migration. Set onHostMaintenance"
            " to TERMINATE.",
        )
    if model in {"SPOT", "FLEX_START"}:
        _check_interruptible(given, model, maintenance, field, specific=specific)
    action = given.get("instanceTerminationAction")
    _check_action(action, model, run_s, field)
    if model == "FLEX_START":
        _check_flex_start(machine, run_s, affinity, field)
    if model == "RESERVATION_BOUND" and not specific:
        raise invalid(
            f"{field}.reservationAffinity", "", "RESERVATION_BOUND needs SPECIFIC_RESERVATION."
        )
    _check_sold(machine, model, specific=specific)
    ssd = machine.bundled_ssd_gib or any(
        disk.get("type") == "SCRATCH" for disk in spec.get("disks") or []
    )
    if (
        (run_s or model == "RESERVATION_BOUND")
        and action == "STOP"
        and ssd
        and not (given.get("onInstanceStopAction") or {}).get("discardLocalSsd")
    ):
        raise Refusal(
            400,
            "badRequest",
            "A machine with local SSD that is stopped at the end of its run needs"
            " onInstanceStopAction.discardLocalSsd.",
        )


def _check_interruptible(
    given: Json, model: str, maintenance: str, field: str, *, specific: bool
) -> None:
    """A machine that the cloud may take back neither restarts, nor moves, nor is reserved."""
    if given.get("automaticRestart"):
        raise invalid(
            f"{field}.scheduling.automaticRestart",
            "true",
            f"Automatic restart must be off for provisioning model {model}.",
        )
    if maintenance != "TERMINATE":
        raise invalid(
            f"{field}.scheduling.onHostMaintenance",
            maintenance,
            f"Must be TERMINATE for provisioning model {model}.",
        )
    if specific:
        raise invalid(
            f"{field}.reservationAffinity",
            "SPECIFIC_RESERVATION",
            f"Provisioning model {model} does not use reservations.",
        )


def _check_action(action: str | None, model: str, run_s: float, field: str) -> None:
    """What happens at the end of the run is said where it has one, and nowhere else."""
    if model == "RESERVATION_BOUND" and not action:
        raise invalid(
            f"{field}.scheduling.instanceTerminationAction",
            "",
            "Must be specified for provisioning model RESERVATION_BOUND.",
        )
    if action and model == "STANDARD" and not run_s:
        raise Refusal(
            400,
            "badRequest",
            "You cannot specify a termination action for a VM instance that has the standard"
            " provisioning model (default). To use instance termination action, the VM instance"
            " must use the Spot provisioning model or limit its run time.",
        )
    if run_s and not action and model != "SPOT":
        raise invalid(
            f"{field}.scheduling.instanceTerminationAction",
            "",
            "Must be specified when the run time is limited.",
        )


def _check_flex_start(machine: MachineType, run_s: float, affinity: Json, field: str) -> None:
    """A run of limited length, outside reservations, of a machine with GPUs."""
    if not FLEX_RUN_S[0] <= run_s <= FLEX_RUN_S[1]:
        raise invalid(
            f"{field}.scheduling.maxRunDuration",
            f"{run_s:g}s",
            "FLEX_START needs a run duration between 10 minutes and 7 days.",
        )
    if affinity.get("consumeReservationType") != "NO_RESERVATION":
        raise invalid(
            f"{field}.reservationAffinity.consumeReservationType",
            affinity.get("consumeReservationType"),
            "FLEX_START needs NO_RESERVATION.",
        )
    if not machine.accelerator:
        raise Refusal(
            400,
            "badRequest",
            f"[{machine.name}, FLEX_START] features are not compatible for creating instance.",
        )


def _check_sold(machine: MachineType, model: str, *, specific: bool) -> None:
    """Not every machine type is sold by every provisioning model."""
    kind = (
        "reservation"
        if specific
        else {"SPOT": "spot", "FLEX_START": "flex-start"}.get(model, "on-demand")
    )
    if kind in machines.first_of(machines.NEVER, machine.name, ()):
        raise Refusal(
            400,
            "badRequest",
            f"[{machine.name}, {model}] features are not compatible for creating instance: it is"
            f" not sold as {kind}.",
        )


def valid_for_s(params: Json, model: str, field: str) -> float | None:
    """How long a Flex-start request may wait; None where it may not. Raises 400."""
    given = params.get("requestValidForDuration")
    if given is None:
        return None
    wait_s = float(given.get("seconds", 0))
    if model != "FLEX_START":
        raise invalid(
            f"{field}.params.requestValidForDuration",
            f"{wait_s:g}s",
            "Only for provisioning model FLEX_START.",
        )
    if wait_s and not 90 <= wait_s <= 7200:
        raise invalid(
            f"{field}.params.requestValidForDuration",
            f"{wait_s:g}s",
            "Must be 0, or between 90 seconds and 2 hours.",
        )
    return wait_s or None
