"""Secrets by reference: what a declaration may say, what reaches a machine, and that plain ones are
refused without being shown.
"""

import subprocess
import sys
from typing import Any

import pytest

from providers.adapters import registry
from providers.adapters.aws import compile as ec2
from providers.adapters.aws import first_boot, region_facts
from providers.adapters.gcp import compile as gce
from providers.errors import NotConfigured, Unsupported
from providers.model import secret
from providers.model.machine import Label, Order
from providers.plugin import inputs
from providers.plugin.properties import Properties
from providers.rehearsal.script import unpacked

GCP = "projects/my-project/secrets/hf-token"
AWS = "ssm:/ml/hf-token"
CANARY = "hf_canaryCANARYcanary0123456789"
ALL = {"HF_TOKEN": {"gcp": GCP, "aws": AWS, "modal": "hf"}}
ACCOUNTS = {
    "gcp": {"service_account": "me@p.iam.gserviceaccount.com"},
    "aws": {"instance_profile": "gpu"},
}


def check(secret=(), **more):
    values = {
        "world": "rehearsal",
        "owner": "0123456789ab",
        "cluster": "train",
        "settings": {},
        "gpu": "L4:1",
        **more,
    }
    return inputs.check(Properties(values, frozenset(secret)))


def paths(checked):
    return [problem.path for problem in checked.problems]


def order(spec, provider):
    from providers.catalog.offers import load
    from providers.planner.plan import make

    plan = make(spec.ask(), load(), registry.capabilities())
    first = next(candidate for candidate in plan.candidates if candidate.provider == provider)
    setup = spec.setup()
    setup = setup._replace(
        options=tuple(dict(setup.options).get(provider, {}).items()),
        secrets=secret.narrowed(setup.secrets, provider),
    )
    return Order(Label("own", "train", "gen", "f"), "token", (first,), ("train-0",), setup, 900)


def test_a_reference_for_each_provider_is_accepted() -> None:
    """References pass, are part of the canonical form, and leave the fingerprint as it is."""
    checked = check(secrets=ALL, options=ACCOUNTS)
    assert checked.problems == ()
    assert checked.values["secrets"] == ALL
    assert checked.spec.fingerprint() == check(options=ACCOUNTS).spec.fingerprint()


@pytest.mark.parametrize(
    ("secrets", "path"),
    [
        ({"hf-token": {"gcp": GCP}}, "secrets.hf-token"),
        ({"LD_PRELOAD": {"gcp": GCP}}, "secrets.LD_PRELOAD"),
        ({"PATH": {"gcp": GCP}}, "secrets.PATH"),
        ({"HF_TOKEN\n": {"gcp": GCP}}, "secrets.HF_TOKEN\n"),
        ({"HF_TOKEN": {}}, "secrets.HF_TOKEN"),
        ({"HF_TOKEN": {"gcp": CANARY}}, "secrets.HF_TOKEN.gcp"),
        ({"HF_TOKEN": {"gcp": f"{GCP}; touch x"}}, "secrets.HF_TOKEN.gcp"),
        ({"HF_TOKEN": {"gcp": f"{GCP}\n"}}, "secrets.HF_TOKEN.gcp"),
        ({"HF_TOKEN": {"aws": "ssm:/x$(touch y)"}}, "secrets.HF_TOKEN.aws"),
        ({"HF_TOKEN": {"aws": "arn:aws:s3:::bucket"}}, "secrets.HF_TOKEN.aws"),
        ({"HF_TOKEN": {"modal": "a b"}}, "secrets.HF_TOKEN.modal"),
        ({"HF_TOKEN": {"vast": "x"}}, "secrets.HF_TOKEN.vast"),
        ({"HF_TOKEN": CANARY}, "secrets.HF_TOKEN"),
    ],
)
def test_what_is_no_reference_is_refused_and_not_shown(secrets, path) -> None:
    """A name that decides on more than a secret, a malformed reference, or the value itself is a
    problem at its path; a value is never repeated.
    """
    checked = check(secrets=secrets, options=ACCOUNTS)
    assert path in paths(checked)
    assert CANARY not in str(checked.problems) or secrets == {"HF_TOKEN": CANARY}


def test_the_value_in_place_of_a_reference_is_not_shown() -> None:
    """Whoever writes the value itself under secrets is told so without it."""
    checked = check(secrets={"HF_TOKEN": CANARY})
    assert checked.problems and CANARY not in " ".join(map(str, checked.problems))


def test_a_provider_without_a_reference_is_rejected_in_the_plan() -> None:
    """A candidate at a provider that no reference is for is refused by the rule `secret`, with what
    is missing.
    """
    from providers.catalog.offers import load
    from providers.planner.plan import make

    spec = check(secrets={"HF_TOKEN": {"gcp": GCP}}, options=ACCOUNTS).spec
    plan = make(spec.ask(), load(), registry.capabilities())
    assert {candidate.provider for candidate in plan.candidates} == {"gcp"}
    refused = [rejection for rejection in plan.rejections if rejection.rule == "secret"]
    assert {rejection.offer.provider for rejection in refused} >= {"aws", "modal"}
    assert "HF_TOKEN" in refused[0].wanted and "secrets.HF_TOKEN" in refused[0].found


def test_a_machine_needs_an_identity_to_fetch_with() -> None:
    """At Google a service account, at AWS an instance profile; without one the check and the
    compiler refuse.
    """
    assert {"options.gcp.service_account", "options.aws.instance_profile"} <= set(
        paths(check(secrets=ALL))
    )
    spec = check(secrets=ALL, options=ACCOUNTS).spec
    for provider, compiled in (
        ("gcp", gce.creating_call),
        (
            "aws",
            lambda made: ec2.creating_call(
                made, region_facts.Around(region_facts.Image("ami-1"), ("sg-1",))
            ),
        ),
    ):
        made = order(spec, provider)
        with pytest.raises(Unsupported, match="secrets"):
            compiled(made._replace(setup=made.setup._replace(options=())))


def test_a_marketplace_gets_none_unless_it_is_trusted(monkeypatch) -> None:
    """Clore's hosts are strangers': refused unless trusted in so many words, then read from the
    environment when the order is sent, and only then.
    """
    market = {"HF_TOKEN": {"clore": "env:MY_HF"}}
    assert "options.clore.trust_marketplace" in paths(
        check(gpu="RTX-4090:1", providers=["clore"], secrets=market)
    )
    checked = check(
        gpu="RTX-4090:1",
        providers=["clore"],
        secrets=market,
        options={"clore": {"trust_marketplace": True}},
    )
    assert checked.problems == ()
    from providers.adapters.clore import request
    from providers.adapters.clore.options import Options

    values = {"MY_HF": CANARY}

    def read(chosen):
        return request.secrets(made, chosen, lambda name: values.get(name, ""))

    setup = checked.spec.setup()._replace(
        secrets=secret.narrowed(checked.spec.setup().secrets, "clore")
    )
    made = Order(Label("own", "train", "gen", "f"), "token", (), ("train-0",), setup, 900)
    assert read(Options(trust_marketplace=True)) == {"HF_TOKEN": CANARY}
    with pytest.raises(Unsupported):
        read(Options())
    values.clear()
    with pytest.raises(NotConfigured, match="MY_HF"):
        read(Options(trust_marketplace=True))


class Place:
    """A machine's tools, as far as the scripts use them: a metadata server, Secret Manager, aws,
    docker; what each was called with is written down.
    """

    def __init__(self, folder) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "run").mkdir()
        self.log = folder / "argv.log"

    def tool(self, name, body) -> None:
        file = self.folder / "bin" / name
        file.write_text(f'#!/bin/bash\nprintf "%s\\n" "{name} $*" >> {self.log}\n{body}\n')
        file.chmod(0o755)

    def run(self, script):
        script = script.replace("/run/gpus", f"{self.folder}/run/gpus").replace(
            "/usr/local/lib/gpus", f"{self.folder}/lib"
        )
        script = script.replace("/etc/systemd/system", str(self.folder)).replace(
            "/var/lib/gpus", f"{self.folder}/var"
        )
        return subprocess.run(
            ["bash", "-c", script],
            check=False,
            env={"PATH": f"{self.folder}/bin:/usr/bin:/bin", "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=60,
        )

    @property
    def env(self):
        return self.folder / "run/gpus/env"


VALUE = 'it\'s $(touch pwned) `x` "q" \\ and a\nnewline'


def sourced(place):
    done = subprocess.run(
        ["bash", "-c", f'set -a; . "{place.env}"; printf %s "$HF_TOKEN"'],
        check=False,
        capture_output=True,
        text=True,
        cwd=place.folder,
    )
    assert not (place.folder / "pwned").exists()
    return done.stdout


def test_a_google_machine_fetches_its_own(tmp_path) -> None:
    """The start-up script asks Secret Manager as the machine, writes a file that root alone reads,
    and puts no value on a command line.
    """
    place = Place(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(
        "import io, json, base64, urllib.request\ndef urlopen(request, timeout=None):\n    url,"
        " headers = request.full_url, dict(request.header_items())\n    if"
        " url.startswith('http://metadata.google.internal/'):\n        assert"
        " headers['Metadata-flavor'] == 'Google'\n        return"
        " io.BytesIO(json.dumps({'access_token': 'tok'}).encode())\n    assert url =="
        f" 'https://secretmanager.googleapis.com/v1/{GCP}/versions/latest:access', url\n    assert"
        " headers['Authorization'] == 'Bearer tok'\n    data ="
        f" base64.b64encode({VALUE!r}.encode()).decode()\n    return"
        " io.BytesIO(json.dumps({'payload': {'data': data}}).encode())\nurllib.request.urlopen"
        " = urlopen\n"
    )
    place.tool("python3", f'exec {sys.executable} "$@"')
    spec = check(secrets=ALL, options=ACCOUNTS).spec
    body = gce.creating_call(order(spec, "gcp")).body
    items = {item["key"]: item["value"] for item in body["instanceProperties"]["metadata"]["items"]}
    script = items["startup-script"]
    assert (
        GCP in script
        and body["instanceProperties"]["serviceAccounts"][0]["email"]
        == "me@p.iam.gserviceaccount.com"
    )
    for _ in range(2):
        done = place.run(script)
        assert done.returncode == 0, done.stderr
    assert sourced(place) == VALUE
    assert (
        place.env.stat().st_mode & 0o777 == 0o600
        and place.env.parent.stat().st_mode & 0o777 == 0o700
    )
    log = place.log.read_text()
    assert "newline" not in log and "tok" not in log.replace("HF_TOKEN", "")
    assert "newline" not in done.stdout + done.stderr


def test_an_ec2_machine_fetches_its_own(tmp_path) -> None:
    """The user data installs a script for every boot that asks SSM or Secrets Manager as the
    machine; it holds references alone.
    """
    arn = "arn:aws:secretsmanager:us-west-2:123456789012:secret:wandb-AbCdEf"
    secrets = {"HF_TOKEN": {"aws": AWS}, "WANDB_API_KEY": {"aws": arn}}
    spec = check(
        gpu="A10G:1", secrets=secrets, options=ACCOUNTS, providers=["aws"], regions=["us-east-1"]
    ).spec
    made = order(spec, "aws")
    script = first_boot.first_boot(made.setup, made.candidates[0].region)
    place = Place(tmp_path)
    (tmp_path / "value").write_text(f"{VALUE}\n")
    place.tool("aws", f"if [[ $* == *ssm* ]]; then cat {tmp_path}/value; else echo wandb-value; fi")
    place.tool("systemctl", f"[[ $* == *enable* ]] && exec {tmp_path}/lib/secrets || exit 0")
    done = place.run(script)
    assert done.returncode == 0, done.stderr
    assert sourced(place) == VALUE
    assert place.env.stat().st_mode & 0o777 == 0o600
    log = place.log.read_text()
    assert (
        "ssm get-parameter --region us-east-1 --with-decryption" in log
        and f"--region us-west-2 --query SecretString --output text --secret-id {arn}" in log
    )
    assert "newline" not in log
    assert "WantedBy=multi-user.target" in (tmp_path / "gpus-secrets.service").read_text()
    call = ec2.creating_call(made, region_facts.Around(region_facts.Image("ami-1"), ("sg-1",)))
    data = call.body
    assert data["IamInstanceProfile"] == {"Name": "gpu"}
    assert unpacked(data["UserData"]) == script and AWS in script
    place.tool("aws", "exit 255")
    place.env.unlink()
    assert place.run(script).returncode != 0 and not place.env.exists()


@pytest.mark.parametrize(
    "where",
    [
        "options.clore.env.HF_TOKEN",
        "options.gcp.password",
        "labels.token",
        "options.modal.command",
        "regions",
        "gpu",
        "regions[0]",
    ],
)
def test_a_value_that_looks_like_a_secret_is_refused_and_not_shown(where) -> None:
    """A token's shape anywhere, or any value of a field that is called a secret under options:
    refused with the place for it, never repeated.
    """
    specs: dict[str, dict[str, Any]] = {
        "options.clore.env.HF_TOKEN": {
            "options": {"clore": {"env": {"HF_TOKEN": "plain-words"}, "trust_marketplace": True}}
        },
        "options.gcp.password": {"options": {"gcp": {"password": "plain-words"}}},
        "labels.token": {"labels": {"token": CANARY}},
        "options.modal.command": {
            "options": {"modal": {"command": f"HF_TOKEN={CANARY} python train.py"}}
        },
        "regions": {"regions": CANARY},
        "gpu": {"gpu": CANARY},
        "regions[0]": {"regions": [CANARY]},
    }
    checked = check(**specs[where])
    assert where in paths(checked), paths(checked)
    said = " ".join(map(str, checked.problems))
    assert CANARY not in said and "plain-words" not in said and "secrets: {NAME" in said


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn",
        "task-runner-of-the-night-shift",
        "key_name",
        "AKIA",
        "a100-80gb",
        "mask-0123456789abcdefghij",
    ],
)
def test_ordinary_words_are_no_secrets(text) -> None:
    """Words that merely resemble a token's beginning pass."""
    assert (
        secret.plain_ones(
            {
                "labels": {"a": text},
                "options": {"aws": {"key_name": text}, "modal": {"secrets": [text]}},
            }
        )
        == []
    )


def test_a_pulumi_secret_inside_a_cluster_is_refused() -> None:
    """What Pulumi keeps secret would stand in orders and scripts as plain text: refused with the
    place for it.
    """
    checked = check(secret={"options"}, options={"clore": {"image": "x"}})
    assert [problem.path for problem in checked.problems if problem.found == "a secret value"] == [
        "options"
    ]
    assert "secrets: {NAME" in str(checked.problems[0])
