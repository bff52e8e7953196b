"""One call within its transaction, as its handler gets it, and the shape of its lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.rehearsal.clouds.gcp.wire import Json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from providers.rehearsal.clouds.gcp.state import Rows
    from providers.rehearsal.scenario import Fault


class Call(NamedTuple):
    """One request, checked and in its transaction. `fault` is the failure that the scenario planned
    for it.
    """

    method: str
    rows: Rows
    project: str
    path: dict[str, str]
    query: Json
    body: Json
    fault: Fault | None = None

    @property
    def slower_s(self) -> float:
        """How much longer than usual the operation takes, in world seconds."""
        return (
            float(str(self.fault.settings.get("seconds", 5)))
            if self.fault and self.fault.kind == "slow"
            else 0.0
        )

    def planned_errors(self) -> list[Json]:
        """The error that the scenario planned for this operation, or nothing."""
        if not self.fault or self.fault.kind != "op-error":
            return []
        given = self.fault.settings
        error: Json = {
            "code": str(given.get("code", "INTERNAL_ERROR")),
            "message": str(given.get("message", "planned by the scenario")),
        }
        if given.get("reason"):
            info = {
                "reason": str(given["reason"]),
                "domain": "compute.googleapis.com",
                "metadatas": given.get("metadatas") or {},
            }
            error["errorDetails"] = [{"errorInfo": info}]
        if given.get("metric"):
            region = str(given.get("region", ""))
            quota = {
                "metricName": str(given["metric"]),
                "limitName": str(given.get("limit_name", given["metric"])),
                "limit": float(str(given.get("limit", 0))),
            }
            error.setdefault("errorDetails", []).append(
                {"quotaInfo": quota | {"dimensions": {"region": region} if region else {}}}
            )
        return [error]

    def operation(
        self,
        scope: str,
        kind: str,
        target: str,
        done: float | None,
        *,
        target_id: str = "",
        errors: Iterable[Json] = (),
        vm: int = 0,
        group: str = "",
        locations: Json | None = None,
        own: bool = True,
    ) -> Json:
        """Writes an operation; `own` False for those that a bulk insert starts in its zones."""
        return self.rows.add_operation(
            self.project,
            scope,
            kind,
            target,
            done,
            target_id=target_id,
            request=str(self.query.get("requestId", "")) if own else "",
            method=self.method if own else "",
            errors=errors,
            vm=vm,
            group=group,
            locations=locations,
        )


Scoped = list[tuple[str, Json]]
"""(scope, resource): `zones/us-central1-a`, `regions/...`, `global`."""
