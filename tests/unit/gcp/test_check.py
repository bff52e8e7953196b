"""`gpus check` at Google Cloud, and how the adapter connects, rehearsed and live."""

import json
from typing import Any

import pytest

from providers.adapters import registry
from providers.adapters.gcp import MANIFEST
from providers.engine.runtime.world import connected
from providers.errors import BadCredentials, NotConfigured, QuotaExceeded
from providers.rehearsal import start
from providers.rehearsal.store import open_store
from tests.unit.gcp.rig import answering, order, raw


def test_check_tells_what_is_there_and_how_to_get_the_rest(rig) -> None:
    """Credentials, project, API, rights and quota, a line each; what is not listed is unknown, not
    zero.
    """
    rig.store.set_quota("gcp", "", "GPUS_ALL_REGIONS", 0)
    lines = {line.topic: line for line in rig.gcp.check()}
    assert {"ok"} == {
        lines[topic].state
        for topic in ("credentials", "project", "Compute Engine API", "rights to read", "advice")
    }
    rig.store.add_fault("gcp", "advice.capacity", "http", status=403, reason="forbidden")
    advice = {line.topic: line for line in rig.gcp.check()}["advice"]  # optional: no refusal
    assert (advice.state, advice.found[:9]) == ("unknown", "optional:")
    assert "ask for roles/compute.viewer in rehearsal, or for none" in advice.todo
    assert lines["quota GPUS_ALL_REGIONS"].state == "missing"
    assert "quotas?project=rehearsal" in lines["quota GPUS_ALL_REGIONS"].todo


@pytest.mark.parametrize(
    ("regions", "state", "found"),
    [
        ({}, "unknown", "not zero"),
        ({"a": (0, 0), "b": (0, 0)}, "missing", "0 in all 2 regions"),
        (
            {"a": (8, 1), "b": (8, 0), "c": (0, 0)},
            "ok",
            "8 in each of 2 regions, 1 used; 0 in 1 regions",
        ),
        (
            {"a": (8, 1), "b": (16, 0), "c": (1, 0), "d": (2, 0)},
            "ok",
            "b 16 (0 used), a 8 (1 used), d 2 (0 used) and 1 more regions",
        ),
    ],
)
def test_quota_over_the_regions_is_one_line(regions, state, found) -> None:
    """The largest limits first; where there is none, the line says where to ask."""
    from providers.adapters.gcp import check

    line = check.quota_line("NVIDIA_L4_GPUS", regions, "my-project")
    assert (state, True) == (line.state, found in line.found)


def test_nothing_of_the_client_s_own_reaches_the_screen(rig, capfd) -> None:
    """A refusal is told once, by us: the client's log lines are not printed."""
    rig.store.add_fault("gcp", "instances.bulkInsert", "quota")
    with pytest.raises(QuotaExceeded):
        rig.gcp.submit(order())
    assert capfd.readouterr() == ("", "")


def test_b19_a_quota_that_is_not_listed_is_unknown(rig) -> None:
    """Compute Engine lists no metric for H100 on demand: unknown, so a try decides."""
    line = next(line for line in rig.gcp.check() if line.topic == "quota NVIDIA_H100_GPUS")
    assert (line.state, "not zero" in line.found) == ("unknown", True)


@pytest.mark.parametrize(
    ("status", "reason", "topic", "state"),
    [
        (401, "authError", "credentials", "refused"),
        (403, "forbidden", "credentials", "refused"),
        (403, "accessNotConfigured", "Compute Engine API", "missing"),
        (404, "notFound", "project", "missing"),
    ],
)
def test_check_names_what_is_refused(rig, status, reason, topic, state) -> None:
    """Each refusal is a line with what to do, never an exception."""
    rig.store.add_fault("gcp", "projects.get", "http", status=status, reason=reason)
    line = next(line for line in rig.gcp.check() if line.topic == topic)
    assert (state, True) == (line.state, bool(line.todo))


def test_live_without_credentials_is_not_configured(tmp_path, monkeypatch) -> None:
    """No silent rehearsal: live without keys says what to do."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NotConfigured, match="gcloud auth application-default login"):
        MANIFEST.connect("live", {})


def test_live_without_a_project_is_not_configured(tmp_path, monkeypatch) -> None:
    """Keys alone are not enough: the project is asked for, and nothing of the keys is shown."""
    key = {
        "type": "authorized_user",
        "client_id": "id-1",
        "client_secret": "s3cr3t",
        "refresh_token": "r3fr3sh",
    }
    (tmp_path / "key.json").write_text(json.dumps(key))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NotConfigured, match="wanted a project") as caught:
        MANIFEST.connect("live", {})
    assert "s3cr3t" not in str(caught.value) and "r3fr3sh" not in str(caught.value)
    assert MANIFEST.connect("live", {"project": "my-project"}).world == "live"


def live(monkeypatch, url, token="ya29.s3cr3t"):
    import google.auth
    from google.oauth2.credentials import Credentials

    monkeypatch.setattr(
        google.auth, "default", lambda scopes: (Credentials(token=token), "adc-project")
    )
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    return MANIFEST.connect("live", {"endpoint": f"{url}/compute/v1/"})


def test_live_calls_bear_the_token_and_the_project_of_the_credentials(rig, monkeypatch) -> None:
    """The credentials' own project is used where none is set, and calls reach the endpoint with
    them.
    """
    gcp = live(monkeypatch, rig.server.url)
    assert list(gcp.find("own1")) == []
    assert "adc-project" in rig.store.requests("instances.aggregatedList")[-1].path


def test_a_token_that_is_refused_is_bad_credentials_and_stays_secret(rig, monkeypatch) -> None:
    """401, and no way to renew: refused, with the way to sign in, without the token."""
    reply = raw(
        401,
        '{"error": {"code": 401, "message": "Invalid Credentials", "errors": [{"reason":'
        ' "authError"}]}}',
    )
    refused = pytest.raises(BadCredentials, match="gcloud auth application-default login")
    with answering(reply) as (url, seen), refused as caught:
        live(monkeypatch, url).submit(order())
    assert "s3cr3t" not in str(caught.value)
    assert len(seen) == 1


def test_a_rehearsal_never_reaches_a_real_endpoint() -> None:
    """A rehearsal's endpoint must be on this machine."""
    with pytest.raises(NotConfigured, match="on this machine"):
        MANIFEST.connect("rehearsal", {"endpoint": "https://compute.googleapis.com/compute/v1/"})


def test_a_rehearsal_starts_its_cloud_once(tmp_path, monkeypatch) -> None:
    """Two adapters of one store share one stand-in in this process."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    first: Any = connected(MANIFEST, "rehearsal", {})
    second: Any = connected(MANIFEST, "rehearsal", {})
    try:
        server = start.server("gcp", open_store())
        assert (first.world, first.name, first.offers()) == ("rehearsal", "gcp", None)
        assert first.client.endpoint == second.client.endpoint == f"{server.url}/compute/v1/"
    finally:
        start.stop(tmp_path / "rehearsal.db")


@pytest.mark.parametrize("provider", sorted({*start.clouds()} - {"ssh"}))
def test_a_rehearsal_without_a_server_is_told_in_one_line(tmp_path, monkeypatch, provider) -> None:
    """An adapter never starts a server by itself: what it was not given is not configured. One's
    own machines have none.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    with pytest.raises(NotConfigured, match=f"{provider}: wanted its rehearsal server"):
        registry.manifests()[provider].connect("rehearsal", {})
