"""Which machine has a disk attached, and whether another one may."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp.wire import ROOT, Json, Refusal, invalid, missing, tail

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.state import Rows

KIND = "disks"


def check(rows: Rows, project: str, zone: str, given: Json, field: str, *, bulk: bool) -> None:
    """Checks what a machine says of a disk that is there. Raises 400 or 404."""
    source = str(given["source"])
    if bulk == ("/" in source):
        raise invalid(f"{field}.source", source, "The URL is malformed.")
    if not bulk and f"zones/{zone}/disks/" not in source:
        raise invalid(f"{field}.source", source, f"The disk must be in zone '{zone}'.")
    found = rows.resources(project, KIND, f"zones/{zone}", tail(source))
    if not found:
        raise missing(f"projects/{project}/zones/{zone}/disks/{tail(source)}")
    writes = given.get("mode", "READ_WRITE") == "READ_WRITE"
    for user, mode in users(rows, found[0][3]):
        if writes or mode == "READ_WRITE":
            own = found[0][3]["selfLink"].removeprefix(f"{ROOT}/")
            text = (
                f"The disk resource '{own}' is already being used by"
                f" '{user.removeprefix(f'{ROOT}/')}'"
            )
            raise Refusal(400, "resourceInUseByAnotherResource", text)


def disks(rows: Rows) -> list[Json]:
    """The disks of all projects that exist now."""
    query = (
        "SELECT body FROM gcp_resource WHERE kind = ? AND created <= ? AND (gone IS NULL OR gone >"
        " ?)"
    )
    return [json.loads(body) for (body,) in rows.db.execute(query, (KIND, rows.now, rows.now))]


def users(rows: Rows, body: Json) -> list[tuple[str, str]]:
    """(link, mode) of each machine that a disk is attached to."""
    return [
        (vm.link(), disk["mode"])
        for vm in rows.vms()
        for disk in vm.body["disks"]
        if disk.get("source") == body["selfLink"]
    ]
