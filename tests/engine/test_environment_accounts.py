"""An account that only the environment names (AWS_PROFILE, CLORE_API_KEY): it stands with the
order, so that another environment finds it, or is refused.
"""

from typing import Any

import pytest

from providers.adapters.aws import MANIFEST as AWS
from providers.adapters.aws import client
from providers.adapters.aws.errors import from_response
from providers.adapters.clore import MANIFEST as CLORE
from providers.adapters.clore.client import Client
from providers.adapters.clore.memory import Memory
from providers.engine import operations
from providers.engine.runtime.accounts import said
from providers.engine.runtime.world import open_world
from providers.errors import GpusError, NotConfigured
from providers.model.machine import Label
from tests.engine.cases import run
from tests.unit.aws.test_power import Clock, wanted

NUMBERS = {"work": "111111111111", "home": "222222222222", "": "333333333333"}


@pytest.fixture
def profiles(tmp_path, monkeypatch, aws_rig):
    """Three sets of credentials, each of its own account, on one stand-in."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    lines = []
    for name in ("work", "home"):
        lines += [
            f"[{name}]",
            f"aws_access_key_id = AK{name}",
            "aws_secret_access_key = hidden-value",
            "",
        ]
    (tmp_path / "credentials").write_text("\n".join(lines))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    class Client(client.Client):
        def call(self, operation, context, *, service="ec2", **parameters):
            if service == "sts":
                if self.session.get_credentials().access_key == "AKexpired":
                    raise from_response(
                        {
                            "Error": {
                                "Code": "ExpiredToken",
                                "Message": "The security token included in the request is expired",
                            }
                        },
                        context,
                    )
                return {
                    "Account": NUMBERS.get(
                        self.session.get_credentials().access_key.removeprefix("AK"), NUMBERS[""]
                    )
                }
            return super().call(operation, context, service=service, **parameters)

    monkeypatch.setattr("providers.adapters.aws.client.Client", Client)
    return aws_rig


@pytest.fixture
def opened(profiles):
    made = []

    def world():
        settings = {"aws": {"regions": "us-east-1", "endpoint": profiles.server.url}}
        made.append(open_world("live", settings, manifests={"aws": AWS}, clock=Clock(profiles)))
        return made[-1]

    yield world
    for each in made:
        each.close()


def test_what_a_profile_of_the_environment_bought_is_found_under_another(
    opened, monkeypatch, profiles
) -> None:
    """Bought with AWS_PROFILE=work; a run with AWS_PROFILE=home still reads and deletes it in
    work's account. Nothing secret stands in the record.
    """
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "mars-north-1")
    record = run(operations.create(opened(), wanted(), "g1"))
    assert {"account": NUMBERS["work"], "profile": "work", "regions": "us-east-1"} == dict(
        record.account
    )
    assert "hidden-value" not in repr(record.to_dict())
    monkeypatch.setenv("AWS_PROFILE", "home")
    world = opened()
    assert NUMBERS["home"] == world.adapter("aws").account["account"]
    assert run(operations.read(world, record)).status == "running"
    assert NUMBERS["work"] == world.adapter("aws", record.account).account["account"]
    run(operations.delete(world, record))
    profiles.moment += 60
    assert profiles.left()[0] == []


def test_keys_win_over_a_profile_and_name_none(opened, monkeypatch) -> None:
    """With both in the environment the keys are used, so the profile would lead elsewhere: it is
    not kept, and the same run finds it again.
    """
    monkeypatch.setenv("AWS_PROFILE", "home")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKwork")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-value")
    record = run(operations.create(opened(), wanted(), "g1"))
    assert {"account": NUMBERS["work"], "regions": "us-east-1"} == dict(record.account)
    assert run(operations.read(opened(), record)).status == "running"


def test_keys_of_another_account_touch_nothing(opened, monkeypatch, profiles) -> None:
    """Bought with keys of the environment: other keys are refused by the account's number, and
    delete nothing; new keys of the account will do.
    """
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKwork")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-value")
    record = run(operations.create(opened(), wanted(), "g1"))
    assert {"account": NUMBERS["work"], "regions": "us-east-1"} == dict(record.account)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKother")
    before = profiles.count("TerminateInstances")
    with pytest.raises(
        NotConfigured,
        match=(
            "wanted credentials of account 111111111111, where it was bought, found those of"
            " 333333333333"
        ),
    ):
        opened().adapter("aws", record.account)
    with pytest.raises(Exception, match="111111111111"):
        run(operations.delete(opened(), record))
    assert before == profiles.count("TerminateInstances")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKwork")
    gone = record._replace(
        account=tuple(sorted({**dict(record.account), "profile": "renamed"}.items()))
    )
    assert run(operations.read(opened(), gone)).status == "running", (
        "a profile that is no more, and keys of the same account"
    )
    assert "account 111111111111" in said("aws", record.account)


def test_keys_that_have_expired_are_a_line_and_buy_nothing(opened, monkeypatch, profiles) -> None:
    """Whose account it is cannot be asked with them: the way out is named, and no creating call is
    made.
    """
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKexpired")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-value")
    with pytest.raises(GpusError, match=r"ExpiredToken.*sign in again") as caught:
        run(operations.create(opened(), wanted(), "g1"))
    assert "hidden-value" not in str(caught.value)
    assert profiles.count("CreateFleet") + profiles.count("RunInstances") == 0


def test_b29_keys_that_expired_later_are_no_word_that_it_is_gone(opened, monkeypatch) -> None:
    """Whose account it is cannot be asked any more: what is held stays as it was told, with a
    warning.
    """
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKwork")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-value")
    record = run(operations.create(opened(), wanted(), "g1"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKexpired")
    lines = []
    world = opened()
    world.report = lambda severity, text: lines.append((severity, text))
    seen = run(operations.read(world, record))
    assert (seen.status, seen.handles) == ("running", record.handles)
    assert any(severity == "warning" and "ExpiredToken" in text for severity, text in lines)


def test_a_clore_key_is_told_by_its_fingerprint(tmp_path, monkeypatch) -> None:
    """The account is a fingerprint; another key is refused, no key is missing, and a changed key of
    the same account is known by an order it sees.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    monkeypatch.setenv("CLORE_API_KEY", "first-secret-key")
    mine: Any = CLORE.connect("live", {})
    account = mine.account
    assert list(account) == ["key"] and "first" not in str(account) and len(account["key"]) == 12
    monkeypatch.delenv("CLORE_API_KEY")
    with pytest.raises(NotConfigured, match=account["key"]):
        CLORE.connect("live", account)
    nobody: Any = CLORE.connect("live", {})
    assert nobody.account == {}
    monkeypatch.setenv("CLORE_API_KEY", "second-secret-key")
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(Client, "my_orders", lambda _self, **_rest: seen)
    with pytest.raises(NotConfigured, match="found one of another") as caught:
        CLORE.connect("live", account)
    assert "secret-key" not in str(caught.value)
    memory = Memory(tmp_path / "clore.db")
    memory.keep(4711, Label("own", "c", "g", "f"), "token")
    seen.append({"id": 4712})
    with pytest.raises(NotConfigured):
        CLORE.connect("live", account)
    seen.append({"id": 4711})
    again: Any = CLORE.connect("live", account)
    assert account == again.account
