"""The EC2 stand-in by itself: it serves only what botocore knows."""

import pytest

from providers.adapters.aws import MANIFEST
from providers.adapters.aws.client import Client
from providers.engine.runtime.world import connected
from providers.errors import QuotaExceeded
from providers.rehearsal.clouds import aws
from providers.rehearsal.clouds.aws import calls, wire
from tests.unit.aws.rig import REGION, SESSION, A, B, candidate, order


def test_unknown_calls_parameters_and_values_are_refused(rig) -> None:
    """What botocore's own description has not, and what the stand-in does not serve, is refused
    with EC2's kind of error.
    """
    import urllib.error
    import urllib.request

    def sent(
        body,
        authorization="AWS4-HMAC-SHA256 Credential=x/20270115/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=x",
    ):
        request = urllib.request.Request(
            rig.server.url, body.encode(), {"Authorization": authorization}
        )
        try:
            return urllib.request.urlopen(request).read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()

    version = "Version=2016-11-15"
    for body, code in (
        (f"Action=RunAway&{version}", "InvalidAction"),
        (f"Action=PurchaseHostReservation&{version}", "InvalidAction"),
        (f"Action=RunInstances&{version}&MinCount=1&MaxCount=1&Colour=blue", "UnknownParameter"),
        (f"Action=RunInstances&{version}&MinCount=1", "MissingParameter"),
        (f"Action=RunInstances&{version}&MinCount=one&MaxCount=1", "InvalidParameterValue"),
        (
            f"Action=DescribeInstances&{version}&Filter.1.Name=colour&Filter.1.Value.1=x",
            "InvalidParameterValue",
        ),
        (f"Action=DescribeInstances&{version}&MaxResults=2", "InvalidParameterValue"),
        ("Action=DescribeRegions&Version=2000-01-01", "InvalidParameterValue"),
    ):
        assert f"<Code>{code}</Code>" in sent(body), body
    assert "AuthFailure" in sent(f"Action=DescribeRegions&{version}", "Basic x")
    assert "us-east-1a" in sent(f"Action=DescribeAvailabilityZones&{version}")
    assert "unknown" in {request.method for request in rig.store.requests()} or rig.store.requests(
        "ec2.RunInstances"
    )


def test_every_served_call_is_one_of_botocores() -> None:
    """The stand-in serves only operations that the installed botocore describes."""
    for service, found in calls.HANDLERS.items():
        assert set(found) <= set(wire.model(service).operation_names)


def test_reads_are_no_mutations_in_the_log(rig) -> None:
    """The log tells calls that only read from those that change something, though the protocol
    posts both; bodies are not kept.
    """
    ticket = rig.launched(candidate(A), candidate(B), ssh_public_key="ssh-ed25519 AAAASECRET me")
    rig.ec2.launch_ended("own1", "train", [])
    rig.ec2.observe(ticket.handles)
    changed = {request.method for request in rig.store.mutations()}
    assert {
        "ec2.CreateFleet",
        "ec2.CreateLaunchTemplate",
        "ec2.DeleteLaunchTemplate",
    } <= changed and not any("Describe" in name or "Get" in name for name in changed)
    assert not any("SECRET" in str(request) for request in rig.store.requests())


def test_latency_and_slowness_are_the_scenarios(rig) -> None:
    """A start takes what the scenario says; a slow one is waited for, not taken for a failure."""
    rig.store.set_latency("aws", "create", 100)
    ticket = rig.ec2.submit(order())
    rig.moment += 99
    assert rig.ec2.poll(ticket).state == "waiting"
    rig.moment += 2
    assert rig.ec2.poll(ticket).state == "done"
    rig.store.add_fault("aws", "ec2.RunInstances", "slow", seconds=500)
    slow = rig.ec2.submit(order(candidate(B), generation="gen2"))
    rig.moment += 500
    assert rig.ec2.poll(slow).state == "waiting"
    rig.moment += 101
    assert rig.ec2.poll(slow).state == "done"


def test_two_servers_answer_as_one_cloud(rig) -> None:
    """Everything is in the store: another process's stand-in sees the machine and its refusals."""
    ticket = rig.launched()
    other = aws.start(rig.store)
    try:
        second = rig.adapter(client=Client(SESSION, other.url))
        assert second.observe(ticket.handles)[0].status == "running"
        second.delete(ticket.handles[0])
    finally:
        other.close()
    assert rig.ec2.observe(ticket.handles)[0].status == "stopping"


def test_gpus_rehearse_knows_the_cloud(tmp_path, monkeypatch, capsys) -> None:
    """`gpus rehearse stock aws ...`, quota, fault and preempt work as for any cloud; a wrong place
    is told.
    """
    from providers.cli.rehearse import run
    from providers.errors import SpecError

    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    run(["stock", "aws", A, "p5.48xlarge", "spot", "0"])
    run(["quota", "aws", REGION, "L-417A185B", "384"])
    run(["fault", "aws", "ec2.RunInstances", "op-error", "--set", "code=VcpuLimitExceeded"])
    said = capsys.readouterr().out
    assert "aws use1-az1 p5.48xlarge spot: sold out" in said and "L-417A185B: 384" in said
    with pytest.raises(SpecError, match="us-east-1"):
        run(["stock", "aws", "us-east-9", "H100", "spot", "0"])
    adapter = connected(MANIFEST, "rehearsal", {"regions": REGION})
    with pytest.raises(QuotaExceeded):
        adapter.submit(order())
    adapter.submit(order(candidate(B, "g6.xlarge", "spot")))
    run(["advance", "5s"])
    run(["preempt", "train-gen1-0"])
    assert "preempted: train-gen1-0" in capsys.readouterr().out
