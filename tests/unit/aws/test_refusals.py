"""What EC2 refuses becomes one clear error with the scope that it blocks."""

import pytest

from providers.errors import (
    BadCredentials,
    NoCapacity,
    OutcomeUnknown,
    PriceRose,
    QuotaExceeded,
    RateLimited,
    Transient,
    Unclassified,
    Unsupported,
)
from providers.model.place import Scope
from providers.rehearsal.clouds.aws import places, wire
from tests.unit.aws.rig import REGION, A, B, candidate, order


def test_b21_calls_and_scopes_of_a_mixed_region(rig) -> None:
    """No capacity in one zone and a type that another never had: one call, and each zone is blocked
    for its own reason.
    """
    rig.store.set_stock("aws", A, "p5.48xlarge", "on-demand", 0)
    with pytest.raises(Unsupported) as caught:
        rig.ec2.submit(
            order(
                candidate(A),
                (
                    candidate("use1-az3", "p5.48xlarge")
                    if not places.has("use1-az3", "p5.48xlarge")
                    else candidate("use1-az3", "p5e.48xlarge")
                ),
            )
        )
    assert rig.count("CreateFleet") == 1
    assert Scope("aws", REGION, A, "p5.48xlarge", capacity="on-demand") in caught.value.scopes
    assert any(scope.zone == "use1-az3" and not scope.capacity for scope in caught.value.scopes)


def test_b21_a_vcpu_limit_is_one_call_for_the_region(rig) -> None:
    """The limit counts vCPUs of running machines; reached, it blocks the family group in the
    region, Spot stays open.
    """
    rig.store.set_quota("aws", REGION, "L-417A185B", 192)
    rig.launched()
    with pytest.raises(QuotaExceeded, match="VcpuLimitExceeded") as caught:
        rig.ec2.submit(order(candidate(A), candidate(B), generation="gen2"))
    assert caught.value.metric == "L-417A185B" and rig.count("CreateFleet") == 1
    assert caught.value.limit == "192"
    assert any(scope.covers(candidate(B, "p4d.24xlarge")) for scope in caught.value.scopes)
    assert not any(scope.covers(candidate(A, capacity="spot")) for scope in caught.value.scopes)
    assert rig.launched(candidate(capacity="spot"), generation="gen3")


EVIL = "no \x1b[31mroom\x00\x08 \ufffe\udcff <&>"


def test_text_that_xml_cannot_hold_is_replaced_in_an_answer(rig) -> None:
    """ESC, NUL and the like have no form in XML: EC2's own client could not read the answer. What
    it can hold arrives as it is.
    """
    rig.store.add_fault(
        "aws",
        "ec2.RunInstances",
        "http",
        times=1,
        status=400,
        reason="InsufficientInstanceCapacity",
        message=EVIL,
    )
    with pytest.raises(NoCapacity) as caught:
        rig.ec2.submit(order(candidate()))
    assert "InsufficientInstanceCapacity" in str(
        caught.value
    ) and "no \ufffd[31mroom\ufffd\ufffd \ufffd\ufffd <&>" in str(caught.value)
    answer = wire.refused("sts", wire.Refusal(400, "A\x1bB", EVIL))[0].decode()
    assert "<Code>A\ufffdB</Code>" in answer and "&lt;&amp;&gt;" in answer


@pytest.mark.parametrize("creating", [True, False])
def test_answer_that_is_no_xml_is_one_clear_message(rig, monkeypatch, creating) -> None:
    """Should EC2 itself, or a proxy, send such a text: one line says so, without the answer's own
    text, and nothing is sent twice.
    """
    monkeypatch.setattr(wire, "printable", lambda text: text)
    method = "RunInstances" if creating else "DescribeInstances"
    rig.store.add_fault(
        "aws",
        f"ec2.{method}",
        "http",
        times=1,
        status=400,
        reason="InsufficientInstanceCapacity",
        message="no \x1b[31mroom",
    )
    with pytest.raises(OutcomeUnknown if creating else Transient) as caught:
        rig.ec2.submit(order(candidate())) if creating else rig.ec2.find("own1")
    told = str(caught.value)
    assert (
        "the answer could not be read" in told
        and "not well-formed" in told
        and "room" not in told
        and "\n" not in told
    )
    assert rig.count(method) >= 1 and told.isprintable()


@pytest.mark.parametrize(
    ("kind", "settings", "error"),
    [
        ("rate-limit", {}, RateLimited),
        ("too-many", {}, RateLimited),
        ("unauthorized", {}, BadCredentials),
        ("forbidden", {}, BadCredentials),
        ("quota", {}, QuotaExceeded),
        ("unavailable", {}, OutcomeUnknown),
        ("html", {}, OutcomeUnknown),
        ("malformed", {}, OutcomeUnknown),
        ("reply-lost", {}, OutcomeUnknown),
        ("error-after", {}, OutcomeUnknown),
        ("http", {"status": 400, "reason": "SpotMaxPriceTooLow"}, PriceRose),
        ("http", {"status": 400, "reason": "BrandNew"}, Unclassified),
        ("op-error", {"code": "InsufficientInstanceCapacity"}, NoCapacity),
        ("op-error", {"code": "VcpuLimitExceeded"}, QuotaExceeded),
    ],
)
@pytest.mark.parametrize("zones", [(A,), (A, B)])
def test_each_fault_of_the_creating_call_is_one_call(rig, kind, settings, error, zones) -> None:
    """A fleet's and a plain run's failures are classified, and never sent twice by the client."""
    for method in ("ec2.CreateFleet", "ec2.RunInstances"):
        rig.store.add_fault("aws", method, kind, times=None, **settings)
    with pytest.raises(error) as caught:
        rig.ec2.submit(order(*map(candidate, zones)))
    assert type(caught.value) is error
    assert rig.count("CreateFleet") + rig.count("RunInstances") == 1
    assert "hushhush" not in str(caught.value)


def test_faults_before_the_creating_call_made_nothing(rig) -> None:
    """A failing read, or a helper that could not be made, is passing: no creating call was sent."""
    for method, kind in (
        ("ssm.GetParameter", "unavailable"),
        ("ec2.DescribeVpcs", "reply-lost"),
        ("ec2.CreateLaunchTemplate", "unavailable"),
    ):
        rig.store.add_fault("aws", method, kind)
        with pytest.raises(Transient):
            rig.adapter().submit(order(candidate(A), candidate(B)))
    assert rig.count("CreateFleet") == 0
    assert rig.launched(candidate(A), candidate(B))


def test_a_quota_that_is_too_small_is_not_tried(rig) -> None:
    """Zero closes the family group in the region, a smaller one than the machine needs that type
    alone; nothing is made and nothing asked for. One that is not told stops nothing.
    """
    rig.store.set_quota("aws", REGION, "L-417A185B", 0)
    with pytest.raises(QuotaExceeded, match="the quota is 0: VcpuLimitExceeded") as caught:
        rig.ec2.submit(order(candidate(A), candidate(B, "p4d.24xlarge")))
    small = candidate(B, "p5.4xlarge")
    assert caught.value.closed and any(scope.covers(small) for scope in caught.value.scopes)
    rig.store.set_quota("aws", REGION, "L-417A185B", 100)
    rig.moment += 601
    with pytest.raises(QuotaExceeded) as caught:
        rig.ec2.submit(order(candidate(A), candidate(B)))
    assert caught.value.limit == "100" and not caught.value.closed
    assert caught.value.scopes == (
        Scope("aws", REGION, machine_type="p5.48xlarge", capacity="on-demand"),
    )
    assert not rig.store.mutations() and rig.launched(candidate(A, "p4d.24xlarge"))
    rig.store.add_fault("aws", "service-quotas.GetServiceQuota", "forbidden", times=None)
    assert rig.launched(candidate(A, "g6.xlarge"))


def test_a_zone_or_region_that_the_account_has_not_is_refused_without_a_call(rig) -> None:
    """A Local Zone that was not opted into, an unknown region, a region that is not configured:
    refused there, with what to do.
    """
    for wanted, scope in (
        (candidate("use1-atl2-az1"), Scope("aws", REGION, "use1-atl2-az1")),
        (candidate("x", region="xx-north-1"), Scope("aws", "xx-north-1")),
        (candidate("usw2-az1"), Scope("aws", "us-west-2")),
    ):
        adapter = rig.adapter(regions=()) if wanted.region == "xx-north-1" else rig.ec2
        with pytest.raises(Unsupported) as caught:
            adapter.submit(order(wanted))
        assert (scope,) == caught.value.scopes
    assert rig.count("CreateFleet") + rig.count("RunInstances") == 0


def test_an_image_of_another_region_is_refused_there(rig) -> None:
    """Images are regional: an id that the region has not blocks the region for this run only."""
    with pytest.raises(Unsupported, match="ami-0123456789abcdef0") as caught:
        rig.ec2.submit(order(options=(("ami", "ami-0123456789abcdef0"),)))
    assert ((Scope("aws", REGION),), 0.0) == (caught.value.scopes, caught.value.block_s)
    with pytest.raises(Unsupported, match="ParameterNotFound"):
        rig.ec2.submit(order(options=(("ami_ssm_parameter", "/no/such"),)))
