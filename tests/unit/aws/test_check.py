"""`gpus check` at EC2, and how the adapter connects."""

import subprocess
import sys
from typing import Any

import pytest

from providers.adapters.aws import MANIFEST
from providers.adapters.aws.adapter import Ec2
from providers.adapters.aws.client import Client
from providers.engine.runtime.world import connected
from providers.errors import NotConfigured
from providers.rehearsal.store import open_store
from tests.unit.aws.rig import SESSION, candidate, order

# gpus check


def test_check_tells_what_is_there(rig) -> None:
    """Credentials, account, regions, rights by DryRun and the four vCPU quotas; 0 is missing, not
    told is unknown.
    """
    rig.store.set_quota("aws", "", "L-417A185B", 0)
    rig.store.set_quota("aws", "us-east-2", "L-7212CCBC", 0)
    rig.store.add_fault(
        "aws", "service-quotas.GetServiceQuota", "forbidden", times=None, place="us-east-2"
    )
    found = {line.topic: line for line in rig.ec2.check()}
    assert {"ok"} == {
        found[topic].state
        for topic in (
            "credentials",
            "account",
            "regions",
            "rights to read",
            "rights to create",
            "advice",
            "quota P spot",
        )
    }
    assert (
        found["quota P on-demand"].state == "unknown"
        and "do not tell" in found["quota P on-demand"].found
    )
    rig.store.clear_faults()
    found = {line.topic: line for line in rig.ec2.check()}
    assert (
        found["quota P on-demand"].state == "missing"
        and "L-417A185B" in found["quota P on-demand"].todo
    )
    assert (
        found["quota P spot"].state,
        "0 in 1 regions" in found["quota P spot"].found,
    ) == ("ok", True)
    assert rig.left()[0] == [], "DryRun makes nothing"


def test_check_tells_what_is_refused(rig) -> None:
    """Refused keys end the check with one line; a refused right names what to allow; an unreachable
    cloud is unknown.
    """
    rig.store.add_fault("aws", "sts.GetCallerIdentity", "unauthorized")
    (line,) = rig.ec2.check()
    assert (line.topic, line.state) == ("credentials", "refused")
    rig.store.add_fault("aws", "ec2.RunInstances", "forbidden")
    found = {line.topic: line for line in rig.ec2.check()}
    assert found["rights to create"].state == "refused" and "ec2:" in found["rights to create"].todo
    rig.store.add_fault("aws", "ec2.ModifyNetworkInterfaceAttribute", "forbidden")
    found = {line.topic: line for line in rig.ec2.check()}
    assert found["rights to create"].state == "refused"
    assert "options.aws.security_group" in found["rights to create"].todo
    rig.store.add_fault("aws", "ec2.GetSpotPlacementScores", "forbidden")
    advice = {line.topic: line for line in rig.ec2.check()}["advice"]  # optional: no refusal
    assert (advice.state, advice.found[:9]) == ("unknown", "optional:")
    assert "allow ec2:GetSpotPlacementScores, or ask for none" in advice.todo
    dead = Ec2("live", lambda: Client(SESSION, "http://127.0.0.1:9"))
    assert [line.state for line in dead.check()] == ["unknown"]


# Connecting


def test_a_rehearsal_needs_no_account_and_reads_none(tmp_path, monkeypatch) -> None:
    """Whatever AWS settings this machine has, a rehearsal reaches its own stand-in and no proxy;
    nothing is imported before the first call.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    adapter: Any = connected(MANIFEST, "rehearsal", {"regions": "us-east-1, us-east-2"})
    assert (adapter.name, adapter.world, adapter.offers()) == ("aws", "rehearsal", None)
    assert adapter.find("own1") == []
    assert open_store().requests() == (), "an untouched cloud is not asked"
    assert adapter.submit(order(candidate(machine_type="g6.xlarge")))
    assert len(connected(MANIFEST, "rehearsal", {}).find("own1")) == 1


def test_live_without_credentials_is_not_configured(tmp_path, monkeypatch) -> None:
    """No keys, or a profile that is not there: NotConfigured with how to get them; never a
    rehearsal.
    """
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(NotConfigured, match="aws configure sso"):
        MANIFEST.connect("live", {})
    with pytest.raises(NotConfigured, match="no-such"):
        MANIFEST.connect("live", {"profile": "no-such"})
    with pytest.raises(NotConfigured, match="on this machine"):
        MANIFEST.connect("rehearsal", {"endpoint": "https://ec2.us-east-1.amazonaws.com"})


def test_without_boto3_it_is_one_clear_line(monkeypatch) -> None:
    """boto3 is an optional dependency: its absence says how to install it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NotConfigured, match=r"gpus\[aws\]"):
        MANIFEST.connect("live", {})


def test_boto3_lives_beside_the_plugins_protocol() -> None:
    """boto3 and pulumi's protocol buffers import together in one process, in either order, and the
    manifest imports neither.
    """
    for first, second in (("boto3", "pulumi.runtime.proto"), ("pulumi.runtime.proto", "boto3")):
        code = (
            "import sys, providers.adapters.aws as aws; assert not {'boto3', 'botocore',"
            f" 'sqlite3'}} & set(sys.modules)\nimport {first}, {second}\nfrom pulumi.runtime.proto"
            " import provider_pb2\nboto3.client('ec2', region_name='us-east-1',"
            " aws_access_key_id='x', aws_secret_access_key='x')\nassert"
            " provider_pb2.CreateRequest(urn='x').urn == 'x'"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
