"""What a failed operation of Compute Engine means: by code, never by words. No network."""

import pytest

from providers.adapters.gcp.error_codes import CODES, STATUSES
from providers.adapters.gcp.errors import from_http, from_operation
from providers.errors import (
    BadCredentials,
    NoCapacity,
    QuotaExceeded,
    RateLimited,
    Unclassified,
    Unsupported,
)
from providers.model.place import Scope
from tests.unit.gcp.errors_rig import CREATE, READ, TOKEN, body, candidate

PLACE = Scope("gcp", "us-central1", "us-central1-a", "a3-highgpu-8g", capacity="spot")


def entry(code, message="", reason="", **metadatas):
    details = (
        [
            {
                "errorInfo": {
                    "reason": reason,
                    "domain": "compute.googleapis.com",
                    "metadatas": metadatas,
                }
            }
        ]
        if reason or metadatas
        else []
    )
    return {"code": code, "message": message, "errorDetails": details}


def quota(metric, region="", limit=0.0, name="LIMIT-per-project"):
    info = {
        "metricName": f"compute.googleapis.com/{metric}",
        "limitName": name,
        "dimensions": {"region": region} if region else {},
        "limit": limit,
    }
    return {"code": "QUOTA_EXCEEDED", "message": "any words", "errorDetails": [{"quotaInfo": info}]}


def operation(*entries):
    """Shape: documentation (Operation.error), with the codes of public reports."""
    return {
        "name": "op",
        "status": "DONE",
        "httpErrorStatusCode": 503,
        "error": {"errors": list(entries)},
    }


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_row_is_reachable_and_gives_its_class(code) -> None:
    """Each code, seen in an operation and in an HTTP refusal, gives the class that its row names,
    with where and when it was seen.
    """
    row = CODES[code]
    status = 401 if code == "required" else 400
    refused = from_http(status, body(code, status), CREATE)
    assert row.kind is type(refused)
    assert code == refused.code
    assert row.source and row.seen
    assert row.kind is type(from_operation(operation(entry(code)), READ))
    read = from_http(status, body(code, status), READ)
    assert (row.reading or row.kind) is type(read)


@pytest.mark.parametrize("status", sorted(STATUSES))
def test_every_status_row_is_reachable(status) -> None:
    """A refusal whose body names no known code is read by its status."""
    row = STATUSES[status]
    assert row.kind is type(from_http(status, "<html>no json</html>", CREATE))
    assert (row.reading or row.kind) is type(from_http(status, body("unheardOf", status), READ))


@pytest.mark.parametrize(
    "code",
    ["ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "STOCKOUT"],
)
def test_b18_every_known_stockout_code_is_a_stockout(code) -> None:
    """Each of the codes blocks the machine type and capacity kind in that zone, for a while."""
    error = from_operation(operation(entry(code)), READ)
    assert NoCapacity is type(error)
    assert error.scopes == (PLACE,)
    assert error.block_s > 0


def test_b18_an_unheard_of_code_with_the_reason_is_a_stockout() -> None:
    """The reason resource_availability decides where the code is new."""
    assert NoCapacity is type(
        from_operation(operation(entry("REGION_POOL_X", reason="resource_availability")), READ)
    )


def test_b18_an_unknown_code_without_reason_is_shown_as_is() -> None:
    """It is no stockout: its code and words reach the user, and it is settled like an unknown
    outcome.
    """
    error = from_operation(operation(entry("REGION_POOL_X", "something new")), READ)
    assert Unclassified is type(error)
    assert (error.code, error.token) == ("REGION_POOL_X", TOKEN)
    assert "REGION_POOL_X: a code that no table knows" in str(error) and "something new" in str(
        error
    )
    assert error.scopes == ()


def test_b19_a_regional_quota_skips_that_region_only() -> None:
    """It names metric, limit and the page to ask, and blocks that GPU's kind of capacity in that
    region.
    """
    error = from_operation(
        operation(
            quota("nvidia_h100_gpus", "us-central1", 0.0, "NVIDIA-H100-GPUS-per-project-region")
        ),
        READ,
    )
    assert QuotaExceeded is type(error)
    assert (error.metric, error.limit) == ("NVIDIA_H100_GPUS", "0")
    assert {
        Scope("gcp", "us-central1", gpu_type="H100", capacity=kind)
        for kind in ("spot", "flex-start")
    } == set(error.scopes)
    for part in (
        "NVIDIA_H100_GPUS",
        "is 0 in us-central1",
        "https://console.cloud.google.com/iam-admin/quotas?project=my-project",
    ):
        assert part in str(error)


def test_b19_a_quota_that_counts_no_gpus_skips_the_whole_region() -> None:
    """CPUs or disk stop everything in the region."""
    error = from_operation(operation(quota("ssd_total_gb", "us-central1", 500.0)), READ)
    assert (Scope("gcp", "us-central1"),) == error.scopes


def test_b19_the_global_quota_stops_the_provider() -> None:
    """GPUS_ALL_REGIONS counts everywhere, so nothing else of Google is tried."""
    error = from_operation(operation(quota("gpus_all_regions")), READ)
    assert (Scope("gcp"),) == error.scopes
    assert "over all regions" in str(error)


def test_b19_a_stockout_whose_text_speaks_of_quota_is_a_stockout() -> None:
    """Words decide nothing."""
    error = from_operation(
        operation(
            entry(
                "ZONE_RESOURCE_POOL_EXHAUSTED",
                "quota QUOTA_EXCEEDED GPUS_ALL_REGIONS exceeded globally",
            )
        ),
        READ,
    )
    assert NoCapacity is type(error)
    said = from_http(
        403, body("quotaExceeded", message="does not have enough resources STOCKOUT"), CREATE
    )
    assert QuotaExceeded is type(said)


def test_b21_a_type_that_the_zone_lacks_skips_that_zone_only() -> None:
    """400 and 404 on a create block the machine type in that zone, however it is bought, and
    nothing else.
    """
    for status, reason in ((400, "invalid"), (404, "notFound")):
        error = from_http(status, body(reason, status), CREATE)
        assert Unsupported is type(error)
        assert (Scope("gcp", "us-central1", "us-central1-a", "a3-highgpu-8g"),) == error.scopes


def test_b22_the_zones_that_google_names_become_hints() -> None:
    """ZonesAvailable is a hint without the zone that failed; a hinted zone of the same call is not
    blocked.
    """
    both = READ._replace(candidates=(candidate("us-central1-a"), candidate("us-central1-c")))
    error = from_operation(
        operation(
            entry(
                "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
                reason="resource_availability",
                zone="us-central1-a",
                zonesAvailable="us-central1-c, us-central1-a",
            )
        ),
        both,
    )
    assert error.hints == ("us-central1-c",)
    assert error.scopes == (PLACE,)
    assert "us-central1-c" in str(error)
    empty = from_operation(
        operation(
            entry(
                "STOCKOUT", reason="resource_availability", zone="us-central1-a", zonesAvailable=""
            )
        ),
        READ,
    )
    assert empty.hints == ()


def test_a_refusal_always_blocks_something_of_the_call() -> None:
    """Were every place of a call hinted at, all would be blocked: a walk must end."""
    error = from_operation(
        operation(
            entry(
                "STOCKOUT",
                reason="resource_availability",
                zone="us-central1-b",
                zonesAvailable="us-central1-a",
            )
        ),
        READ,
    )
    assert error.scopes == (PLACE,)


def test_an_attached_gpu_runs_out_whatever_host_it_hangs_on() -> None:
    """On N1 the scope is the GPU, not the host's machine type."""
    context = READ._replace(
        candidates=(
            candidate(machine_type="n1-standard-8", accelerator="nvidia-tesla-t4", gpu="T4"),
        )
    )
    assert (
        Scope("gcp", "us-central1", "us-central1-a", gpu_type="T4", capacity="spot"),
    ) == from_operation(operation(entry("STOCKOUT")), context).scopes


@pytest.mark.parametrize(
    ("beside", "kind", "scopes"),
    [
        (entry("STOCKOUT"), NoCapacity, (PLACE,)),
        (quota("gpus_all_regions"), QuotaExceeded, (Scope("gcp"),)),
        (entry("IAM_PERMISSION_DENIED"), BadCredentials, (Scope("gcp"),)),
        (entry("RESOURCE_OPERATION_RATE_EXCEEDED"), RateLimited, ()),
        (entry("UNHEARD_OF"), Unclassified, ()),
    ],
)
def test_a_missed_minimum_is_read_by_what_stands_beside_it(beside, kind, scopes) -> None:
    """VM_MIN_COUNT_NOT_REACHED is the wrapper; the widest of its siblings is the cause."""
    error = from_operation(operation(entry("VM_MIN_COUNT_NOT_REACHED"), beside), READ)
    assert (kind, scopes) == (type(error), error.scopes)


def test_a_missed_minimum_alone_is_a_stockout() -> None:
    """Without a sibling the places of the call are taken as sold out."""
    assert NoCapacity is type(from_operation(operation(entry("VM_MIN_COUNT_NOT_REACHED")), READ))


def test_the_widest_of_several_errors_counts() -> None:
    """A global quota beside stockouts and a regional quota stops the provider."""
    error = from_operation(
        operation(
            entry("STOCKOUT"),
            quota("nvidia_h100_gpus", "us-central1"),
            quota("gpus_all_regions"),
            entry("STOCKOUT"),
        ),
        READ,
    )
    assert (Scope("gcp"),) == error.scopes


def test_a_failed_operation_without_errors_is_not_a_success() -> None:
    """An empty error list is shown with what there is (SkyPilot read it as success)."""
    assert Unclassified is type(
        from_operation({"status": "DONE", "httpErrorStatusCode": 503, "error": {}}, READ)
    )
