"""The shapes of Compute Engine's answers: addresses, timestamps, refusals. Owns Refusal; pure,
imports nothing of the package.

HTTP refusals are `{"error": {code, message, errors: [{message, domain, reason}]}}`; a failed
operation carries `error.errors[]` with `code`, `message` and `errorDetails`. Shapes: the discovery
document, revision 20261106, and public failure reports of 2026.
"""

from __future__ import annotations

from typing import Any

ROOT = "https://www.googleapis.com/compute/v1"
"""The root of every link in an answer: as Google writes them, so that nothing stored holds a port
of this machine.
"""

Json = dict[str, Any]


class Refusal(Exception):
    """An HTTP error answer."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        domain: str = "global",
        details: list[Json] | None = None,
    ) -> None:
        self.status = status
        self.reason = reason
        self.domain = domain
        self.details = details or []
        super().__init__(message)

    def body(self) -> Json:
        """The JSON body of the answer."""
        text = str(self)
        error: Json = {
            "code": self.status,
            "message": text,
            "errors": [{"message": text, "domain": self.domain, "reason": self.reason}],
        }
        if self.details:
            error["details"] = self.details
        return {"error": error}


def invalid(field: str, value: object, why: str) -> Refusal:
    """400: a field's value is not acceptable."""
    return Refusal(400, "invalid", f"Invalid value for field '{field}': '{value}'. {why}")


def missing(path: str) -> Refusal:
    """404: a named resource does not exist."""
    return Refusal(404, "notFound", f"The resource '{path}' was not found")


def exists(path: str) -> Refusal:
    """409: the name is taken."""
    return Refusal(409, "alreadyExists", f"The resource '{path}' already exists")


def quota_refusal(metric: str, limit: float, region: str) -> Refusal:
    """403: the account's limit, told at once."""
    where = f"in region {region}" if region else "globally"
    return Refusal(
        403,
        "quotaExceeded",
        f"Quota '{metric}' exceeded.  Limit: {limit:.1f} {where}.",
        domain="usageLimits",
    )


def quota_error(metric: str, limit: float, region: str) -> Json:
    """The account's limit, as one entry of a failed operation."""
    where = f"in region {region}" if region else "globally"
    dimensions = {"region": region} if region else {}
    limit_name = f"{metric.replace('_', '-')}-per-project" + ("-region" if region else "")
    return {
        "code": "QUOTA_EXCEEDED",
        "message": f"Quota '{metric}' exceeded.  Limit: {limit:.1f} {where}.",
        "errorDetails": [
            {
                "quotaInfo": {
                    "metricName": f"compute.googleapis.com/{metric.lower()}",
                    "limitName": limit_name,
                    "dimensions": dimensions,
                    "limit": limit,
                }
            }
        ],
    }


def stockout_error(
    project: str, zone: str, machine_type: str, attachment: str, zones_available: list[str]
) -> Json:
    """A stockout, as one entry of a failed operation. `zone` may be a region's name where no zone
    is known.
    """
    return {
        "code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
        "message": (
            f"The zone 'projects/{project}/zones/{zone}' does not have enough resources available"
            " to fulfill the request.  '(state:STOCKOUT, sub-state:STOCKOUT, resource"
            " type:compute)'."
        ),
        "errorDetails": [
            {
                "errorInfo": {
                    "reason": "resource_availability",
                    "domain": "compute.googleapis.com",
                    "metadatas": {
                        "vmType": machine_type,
                        "attachment": attachment,
                        "zone": zone,
                        "zonesAvailable": ",".join(zones_available),
                    },
                }
            }
        ],
    }


def min_count_error(count: int) -> Json:
    """A bulk insert that was rolled back, as one entry of a failed operation."""
    return {
        "code": "VM_MIN_COUNT_NOT_REACHED",
        "message": f"Requested minimum count of {count} VMs could not be created.",
    }


def timestamp(moment: float) -> str:
    """RFC 3339 with milliseconds, in UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(moment, tz=UTC).isoformat(timespec="milliseconds")


def tail(link: str) -> str:
    """The last part of a full link, a partial one, or a bare name."""
    return link.rsplit("/", 1)[-1]


def delivered(body: Json) -> list[str]:
    """The link of the reservation that a future reservation delivers."""
    return [f"{body['zone']}/reservations/{body['reservationName']}"]


def moment(text: str, field: str = "") -> float:
    """A moment of the API's as seconds since the epoch, or 400."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise invalid(field, text, "Must be in RFC 3339 format.") from None
