"""Bad days, over the four rehearsal clouds and their real clients: whatever is down, expired or in
between, one clear line each, and the next place.
"""

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest

from providers import errors
from providers.cli.rehearse_state import state
from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.runtime.world import open_world
from providers.model.machine import Setup
from providers.model.spec import read_cluster
from providers.rehearsal.store import open_store
from providers.testing.harness import StoreClock
from tests.present import present

BUYS = {
    "gcp": "*nstances.*nsert",
    "aws": "ec2.CreateFleet",
    "clore": "create_order",
    "modal": "SandboxCreate",
}
ASKS = {"gcp": "L4:1", "aws": "L4:1", "clore": "RTX-4090:2", "modal": "L4:1"}
EXPIRED = {
    "gcp": ("http", {"status": 401, "reason": "ACCESS_TOKEN_EXPIRED"}, "sign in again"),
    "aws": ("http", {"status": 400, "reason": "ExpiredToken"}, "sign in again"),
    "clore": ("unauthorized", {}, "CLORE_API_KEY"),
    "modal": ("unauthorized", {}, ""),
}


@pytest.fixture
def days(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made = Days()
    yield made
    made.world.close()


class Days:
    def __init__(self) -> None:
        self.store = open_store()
        self.lines: list[tuple[str, str]] = []
        settings = {"aws": {"regions": "us-east-1"}}
        self.world = open_world(
            "rehearsal",
            settings,
            lambda severity, text: self.lines.append((severity, text)),
            clock=StoreClock(self.store),
        )

    def fault(self, provider, method, kind, **settings) -> None:
        self.store.add_fault(provider, method, kind, None, **settings)

    def create(self, *providers):
        gpus = list(dict.fromkeys(ASKS[name] for name in providers))
        # One region each: a cloud that is down is asked region by region.
        regions = {"gcp": "us-central1", "aws": "us-east-1", "modal": "any"}
        within = {} if "clore" in providers else {"regions": [regions[name] for name in providers]}
        fields = (
            {"gpu": gpus[0], "providers": list(providers), "rank": "preference", "wait": "2m"}
            | within
            | ({"fallback": gpus[1:]} if gpus[1:] else {})
        )
        spec = read_cluster("train", fields)
        cluster_spec = ClusterSpec(
            "own1",
            "train",
            spec.ask(),
            Setup(ssh_public_key="ssh-ed25519 AAAA me"),
            spec.fingerprint(),
        )
        return asyncio.run(operations.create(self.world, cluster_spec, "gen1"))


def machines():
    return state(open_store())["machines"]


def is_a_line(text):
    """Something to read: one line, no page, no stack."""
    return text and "\n" not in text and "<html" not in text.lower() and "Traceback" not in text


@pytest.mark.parametrize("provider", sorted(EXPIRED))
def test_an_expired_token_is_told_and_the_next_provider_serves(days, provider) -> None:
    """Keys that a cloud refuses end its part of the walk at once, say what to do, and another cloud
    serves in the same run.
    """
    kind, settings, todo = EXPIRED[provider]
    days.fault(provider, BUYS[provider], kind, **settings)
    other = "aws" if provider == "gcp" else "gcp"
    record = days.create(provider, other)
    first, *_, last = record.attempts
    assert (first.outcome, last.outcome) == ("BadCredentials", "acquired")
    assert (other, 1) == (record.provider, len(machines()))
    assert is_a_line(first.message) and todo in first.message
    assert sum(attempt.provider == provider for attempt in record.attempts) == 1


@pytest.mark.parametrize(
    ("code", "hint"), [("RequestExpired", "clock"), ("SignatureDoesNotMatch", "clock")]
)
def test_a_clock_that_is_wrong_is_named(days, code, hint) -> None:
    """AWS refuses what a wrong clock signed: the line says to look at the clock."""
    days.fault("aws", BUYS["aws"], "http", status=403, reason=code)
    record = days.create("aws", "gcp")
    assert record.provider == "gcp" and hint in record.attempts[0].message


def test_a_google_token_that_a_wrong_clock_signed_names_the_clock() -> None:
    """Google says `invalid_grant` for it, as for a sign-in that has ended: the line names both."""
    from google.auth.exceptions import RefreshError

    from providers.adapters.gcp.errors import Context, from_exception

    told = (
        "invalid_grant: Invalid JWT: Token must be a short-lived token (60 minutes) and in a"
        " reasonable timeframe."
    )
    found = from_exception(RefreshError(told), Context("gcp"))
    assert (
        errors.BadCredentials is type(found)
        and "sign in again" in str(found)
        and "clock" in str(found)
    )


LOOKS: dict[str, tuple[str, list[tuple[str, dict[str, Any]]]]] = {
    "aws": (
        "ec2.DescribeInstances",
        [
            ("http", {"status": 400, "reason": "ExpiredToken"}),
            ("http", {"status": 403, "reason": "RequestExpired"}),
        ],
    ),
    "clore": ("my_orders", [("unauthorized", {}), ("forbidden", {})]),
}


@pytest.mark.parametrize(
    ("provider", "which"), [(name, which) for name in LOOKS for which in range(4)]
)
def test_b29_a_look_that_fails_is_never_gone(days, provider, which) -> None:
    """Expired or refused keys, a wrong clock, a web page, a service that is down: what is held
    stays as it was told, and a line says why.
    """
    record = days.create(provider)
    method, kinds = LOOKS[provider]
    kind, settings = [*kinds, ("html", {}), ("unavailable", {})][which]
    days.fault(provider, method, kind, **settings)
    seen = asyncio.run(operations.read(days.world, record))
    assert seen is not None and (seen.handles, seen.status) == (record.handles, "running")
    said = [text for severity, text in days.lines if severity == "warning"]
    assert said and all(is_a_line(text) for text in said) and len(machines()) == 1


@pytest.mark.parametrize("kind", ["unavailable", "html"])
@pytest.mark.parametrize("provider", sorted(BUYS))
def test_one_provider_down_is_a_line_and_the_next_one_serves(days, provider, kind) -> None:
    """A cloud that answers every buying call with an error or a web page is given up after its
    tries, settled, and the next one serves.
    """
    days.fault(provider, BUYS[provider], kind)
    other = "aws" if provider == "gcp" else "gcp"
    record = days.create(provider, other)
    assert (other, "running", 1, ()) == (
        record.provider,
        record.status,
        len(machines()),
        record.reasons,
    )
    assert all(
        is_a_line(attempt.message) for attempt in record.attempts if attempt.outcome != "acquired"
    )


def test_all_providers_down_is_one_line_each(days) -> None:
    """When no cloud answers, the end names each of them and its code; nothing is left and nothing
    is a page or a stack.
    """
    for provider, method in BUYS.items():
        days.fault(provider, method, "unavailable")
    with pytest.raises(errors.AllFailed) as caught:
        days.create("gcp", "aws", "modal")
    text = str(caught.value)
    for provider in ("gcp", "aws", "modal"):
        assert any(f" {provider} " in line for line in text.splitlines()), text
    assert "Traceback" not in text and machines() == []


@pytest.mark.parametrize("kind", ["html", "unavailable", "malformed", "rate-limit"])
def test_a_market_that_cannot_be_read_is_a_line_in_the_plan(days, kind) -> None:
    """Clore's listing failed: the plan of the others stands, with one line that says so."""
    from providers.engine.market.collect import market

    days.store.set_stock(
        "clore", "", "", "", None
    )  # touched, so that the stand-in is asked for its listing
    days.fault("clore", "marketplace", kind)
    ask = read_cluster("train", {"gpu": "L4:1", "providers": ["clore", "gcp"]}).ask()
    plan = market(days.world, ask).plan(ask)
    (line,) = [warning for warning in plan.warnings if "clore" in warning]
    assert (
        present(plan.best).provider == "gcp"
        and is_a_line(line)
        and "could not be looked at" in line
    )


PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


def gpus(*words, home, **more):
    env = (
        {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        | {"GPUS_HOME": str(home)}
        | more
    )
    return subprocess.run(
        [sys.executable, "-m", "providers.cli", *words],
        check=False,
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "nonsense://:::"])
def test_proxy_variables_do_not_disturb_a_rehearsal(tmp_path, proxy) -> None:
    """With proxies that are dead or rubbish every rehearsal cloud answers as ever: its server is in
    this process.
    """
    done = gpus("check", home=tmp_path, **dict.fromkeys(PROXIES, proxy))
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert {"aws", "clore", "gcp", "modal", "vertex"} == {
        line.split()[0] for line in done.stdout.splitlines() if line.split()[1:2] == ["ok"]
    }


def live_keys(folder):
    """Credentials of every provider's shape that open nothing."""
    import json

    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    pem = (
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    key = rsa.generate_private_key(65537, 2048).private_bytes(*pem).decode()
    account = {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "x",
        "private_key": key,
        "client_email": "a@p.iam.gserviceaccount.com",
    }
    (folder / "key.json").write_text(
        json.dumps(
            {**account, "client_id": "1", "token_uri": "https://oauth2.googleapis.com/token"}
        )
    )
    return {
        "HOME": str(folder),
        "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "key.json"),
        "AWS_ACCESS_KEY_ID": "AKIAABCDEFGHIJKLMNOP",
        "AWS_SECRET_ACCESS_KEY": "not-a-secret-that-opens",
        "AWS_EC2_METADATA_DISABLED": "true",
        "CLORE_API_KEY": "clore-key-that-opens-nothing",
        "MODAL_TOKEN_ID": "ak-nothing",
        "MODAL_TOKEN_SECRET": "as-nothing",
        "GPUS_VERTEX_PROJECT": "p-nobody",
    }


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "nonsense://:::"])
def test_a_live_check_behind_a_proxy_that_cannot_be_used_is_a_line_for_each_provider(
    tmp_path, proxy
) -> None:
    """No provider can be reached, so none is usable; each says so in a line, soon, and no key is
    shown.
    """
    keys = live_keys(tmp_path)
    done = gpus("check", "--world", "live", home=tmp_path, **keys, **dict.fromkeys(PROXIES, proxy))
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "Traceback" not in said
    told = {
        line.split()[0]
        for line in done.stdout.splitlines()
        if line.split()[1:2] and line.split()[1] in {"unknown", "missing"}
    }
    assert {"aws", "clore", "gcp", "modal", "ssh", "vertex"} == told
    assert not [
        secret
        for name, secret in keys.items()
        if name not in {"HOME", "GOOGLE_APPLICATION_CREDENTIALS"}
        and len(secret) > 9
        and secret in said
    ]


def test_a_dead_proxy_is_named_and_its_password_is_not(monkeypatch, tmp_path) -> None:
    """EC2 and Clore, live: one line that names the variable, and never what stands in it; nothing
    was sent, so nothing need be looked for.
    """
    import boto3

    from providers.adapters.aws.client import Client
    from providers.adapters.aws.errors import Context
    from providers.adapters.clore import client as clore
    from providers.adapters.clore.gate import LIVE_PACE, Gate

    for name in PROXIES:
        monkeypatch.setenv(name, "http://me:hidden-word@127.0.0.1:9")
    session = boto3.Session(
        aws_access_key_id="x", aws_secret_access_key="y", region_name="us-east-1"
    )
    market = clore.Client(
        "k",
        Gate(tmp_path / "pace", LIVE_PACE, lambda: 0.0, lambda _seconds: None),
        lambda: clore.BASE_URL,
    )
    calls = [
        lambda: Client(session).call(
            "create_fleet", Context("aws", "us-east-1", creating=True), **FLEET
        ),
        lambda: market.create_order({}, token="t", server=1, capacity="spot"),
    ]
    for call in calls:
        with pytest.raises(errors.Transient) as caught:
            call()
        assert (
            is_a_line(str(caught.value))
            and "HTTPS_PROXY" in str(caught.value)
            and "hidden-word" not in str(caught.value)
        )
    market.close()


FLEET: dict[str, Any] = {
    "LaunchTemplateConfigs": [
        {"LaunchTemplateSpecification": {"LaunchTemplateName": "abc", "Version": "1"}}
    ],
    "TargetCapacitySpecification": {"TotalTargetCapacity": 1},
}


def test_a_proxy_that_googles_client_would_pass_over_is_told(monkeypatch) -> None:
    """Without PySocks Google's client goes past the proxy in silence: that is said instead, before
    anything is sent.
    """
    import httplib2

    from providers.adapters.gcp import client

    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setattr(httplib2, "socks", None)
    with pytest.raises(errors.NotConfigured, match="pip install PySocks"):
        client.check_proxy()
    monkeypatch.setenv("no_proxy", ".googleapis.com")
    client.check_proxy()
    monkeypatch.setenv("https_proxy", "nonsense://:::")
    with pytest.raises(errors.NotConfigured, match="cannot be read"):
        client.check_proxy()
