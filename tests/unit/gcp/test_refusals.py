"""What Compute Engine refuses becomes one clear error with the scope that it blocks."""

import pytest

from providers.adapters.gcp import MANIFEST
from providers.adapters.gcp.adapter import Gcp
from providers.adapters.gcp.client import Client
from providers.errors import (
    NoCapacity,
    NotConfigured,
    OutcomeUnknown,
    QuotaExceeded,
    SpecError,
    Unclassified,
    Unsupported,
)
from providers.model.machine import Handle
from providers.model.place import Scope
from tests.unit.gcp.rig import A, candidate, order


def test_b22_a_stockout_comes_with_the_operation_and_names_a_zone(rig) -> None:
    """The POST succeeds, the operation fails later; the refusal hints at the zone that Google
    names, and the second try succeeds there.
    """
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "on-demand", 0)
    ticket = rig.gcp.submit(order(candidate(A)))
    assert rig.gcp.poll(ticket).state == "waiting"
    rig.moment += 30
    with pytest.raises(NoCapacity) as caught:
        rig.gcp.poll(ticket)
    assert caught.value.hints and A not in caught.value.hints
    assert list(rig.gcp.find("own1")) == []
    assert caught.value.hints[0] == rig.launched(candidate(caught.value.hints[0])).placed.zone


@pytest.mark.parametrize(
    "code",
    ["ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "STOCKOUT"],
)
def test_b18_each_stockout_code_of_an_operation_is_no_capacity(rig, code) -> None:
    """Whatever the code, nothing is left and the place is refused."""
    rig.store.add_fault("gcp", "instances.bulkInsert", "op-error", code=code)
    ticket = rig.gcp.submit(order(candidate(A)))
    rig.moment += 30
    with pytest.raises(NoCapacity):
        rig.gcp.poll(ticket)


def test_an_unknown_code_is_unclassified_and_settles_to_nothing(rig) -> None:
    """It is shown as is; looked up by its token, the operation is over and nothing was made."""
    rig.store.add_fault("gcp", "instances.bulkInsert", "op-error", code="UNHEARD_OF")
    ordered = order(candidate(A))
    ticket = rig.gcp.submit(ordered)
    rig.moment += 30
    with pytest.raises(Unclassified, match="UNHEARD_OF"):
        rig.gcp.poll(ticket)
    assert rig.gcp.resume(ordered) is None


@pytest.mark.parametrize(
    "code", ["RESOURCE_OPERATION_RATE_EXCEEDED", "RESOURCE_NOT_READY", "INTERNAL_ERROR"]
)
def test_a_passing_fault_that_ended_the_operation_is_settled(rig, code) -> None:
    """The operation is over, so polling on would never end: it is looked up, and nothing was made."""
    rig.store.add_fault("gcp", "instances.bulkInsert", "op-error", code=code)
    ordered = order(candidate(A))
    ticket = rig.gcp.submit(ordered)
    rig.moment += 30
    with pytest.raises(OutcomeUnknown) as caught:
        rig.gcp.poll(ticket)
    assert code == caught.value.code
    assert rig.gcp.resume(ordered) is None


def test_b19_quota_stops_what_it_counts(rig) -> None:
    """A regional limit blocks that GPU in that region; the global one blocks Google; both name
    metric and page.
    """
    rig.store.set_quota("gcp", "us-central1", "NVIDIA_L4_GPUS", 0)
    with pytest.raises(QuotaExceeded) as caught:
        rig.launched(candidate(A, "g2-standard-4"))
    assert caught.value.metric == "NVIDIA_L4_GPUS"
    assert all(scope.region == "us-central1" for scope in caught.value.scopes)
    rig.store.set_quota("gcp", "", "GPUS_ALL_REGIONS", 0)
    with pytest.raises(QuotaExceeded) as caught:
        rig.launched(candidate("us-east1-c", "g2-standard-4"))
    assert (Scope("gcp"),) == caught.value.scopes
    assert "iam-admin/quotas?project=rehearsal" in str(caught.value)


@pytest.mark.parametrize(
    ("place", "metric", "scopes"),
    [
        ("", "GPUS_ALL_REGIONS", {Scope("gcp")}),
        (
            "us-central1",
            "NVIDIA_L4_GPUS",
            {Scope("gcp", "us-central1", gpu_type="L4", capacity="on-demand")},
        ),
    ],
)
def test_b19_a_quota_that_google_names_in_words_only_is_looked_up(
    rig, place, metric, scopes
) -> None:
    """HTTP 403 without quotaInfo: the quotas are read, so that the scope is known and no word is
    matched.
    """
    rig.store.set_quota("gcp", place, metric, 0)
    rig.store.add_fault("gcp", "instances.bulkInsert", "quota", metric="SOMETHING_ELSE")
    with pytest.raises(QuotaExceeded) as caught:
        rig.gcp.submit(order(candidate(A, "g2-standard-4")))
    assert (metric, "0", scopes) == (
        caught.value.metric,
        caught.value.limit,
        set(caught.value.scopes),
    )


def test_b21_a_zone_without_the_machine_type_is_skipped_alone(rig) -> None:
    """400 "not in this zone" is Unsupported there, after one creating call."""
    with pytest.raises(Unsupported) as caught:
        rig.gcp.submit(order(candidate("us-central1-f")))
    assert (Scope("gcp", "us-central1", "us-central1-f", "a3-highgpu-8g"),) == caught.value.scopes
    assert rig.calls("instances.bulkInsert") == 1


def test_a_missing_image_is_configuration_not_a_place(rig) -> None:
    """The machine type is there, the image is not: trying elsewhere would not help, and the message
    says what may be wrong.
    """
    with pytest.raises(
        NotConfigured,
        match=r"options.gcp.image_family: wanted image family no-such-family of project my-project",
    ) as caught:
        rig.gcp.submit(
            order(
                candidate(A),
                options=(("image_family", "no-such-family"), ("image_project", "my-project")),
            )
        )
    assert (Scope("gcp"),) == caught.value.scopes


def test_a_missing_image_is_told_for_a_region_and_for_n1_too(rig) -> None:
    """Whatever the call, a boot image that is nowhere ends Google at once, and the option that
    names it is what to fix.
    """
    for asked in (candidate("", region="us-central1"), candidate(A, machine_type="n1-standard-8")):
        with pytest.raises(
            NotConfigured, match=r"options.gcp.image: wanted image nothing-v1 of project my-project"
        ):
            rig.gcp.submit(
                order(asked, options=(("image", "nothing-v1"), ("image_project", "my-project")))
            )


def test_b26_an_operation_that_google_does_not_know_is_not_sold_out(rig) -> None:
    """Polled in another project, or long forgotten, with no machine there: what became of it is not
    known, and no place is blocked.
    """
    ticket = rig.gcp.submit(order(candidate(A)))
    other = Gcp(
        "rehearsal",
        Client("other-project", rig.gcp.client.credentials, f"{rig.server.url}/compute/v1/"),
        sleep=rig.sleep,
    )
    with pytest.raises(OutcomeUnknown, match="other-project") as caught:
        other.poll(ticket)
    assert (caught.value.code, caught.value.scopes) == ("OPERATION_UNKNOWN", ())
    assert rig.finish(ticket).state == "done"


@pytest.mark.parametrize("project", ["My Project", "x", "UPPER-case", "a/b", "ends-with-"])
def test_a_project_that_can_be_none_is_told_at_once(tmp_path, monkeypatch, project) -> None:
    """A word that is no project id is refused where it is read, before any call."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    with pytest.raises(NotConfigured, match="wanted a project id"):
        MANIFEST.connect("rehearsal", {"project": project})


def test_a_value_that_google_does_not_take_is_a_refusal(rig) -> None:
    """400 invalidParameter on a creating call made nothing, whatever it says."""
    rig.store.add_fault(
        "gcp", "instances.bulkInsert", "http", 1, status=400, reason="invalidParameter"
    )
    with pytest.raises((Unsupported, NotConfigured)):
        rig.gcp.submit(order(candidate(A)))


def test_an_id_that_is_no_machine_of_google_is_the_users(rig) -> None:
    """A handle of another form is told as wanted and found."""
    with pytest.raises(SpecError, match="wanted projects/P/zones/Z/instances/N, found 'foo/bar'"):
        rig.gcp.observe([Handle("gcp", "foo/bar")])


def test_a_missing_reservation_blocks_that_capacity_only(rig) -> None:
    """A reservation that the zone lacks leaves other ways to buy the machine open."""
    with pytest.raises((Unsupported, NoCapacity)) as caught:
        rig.launched(candidate(A, capacity="reservation", reservation="mine"))
    assert {"reservation"} == {scope.capacity for scope in caught.value.scopes}
