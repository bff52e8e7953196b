"""What is refused of a declaration before anything is planned: by `gpus plan -s` as by a preview,
at the same paths.
"""

from typing import Any

import pytest
import yaml

from providers.adapters import registry
from providers.cli import main
from providers.engine import stack_config, validate
from providers.errors import SpecError
from providers.model.spec import read_cluster
from providers.plugin import inputs
from tests.present import present

TOKEN = "hf_" + "a1B2" * 8
JOB = {"kind": "job", "gpu": "L4:1"}
SERVICE = {"kind": "service", "gpu": "L4:1"}
RUN = {"command": "python3 t.py"}
VLLM = {"launcher": "vllm", "model": "meta-llama/Llama-3.2-1B", "dtype": "bf16"}

BAD: dict[str, Any] = {
    "a-token-in-env": (
        {**JOB, "workload": {**RUN, "env": {"HF_TOKEN": TOKEN}}},
        ["workload.env.HF_TOKEN"],
    ),
    "a-token-in-a-command": (
        {**JOB, "workload": {"command": f"x --token {TOKEN}"}},
        ["workload.command"],
    ),
    "a-secrets-value": (
        {**JOB, "workload": RUN, "secrets": {"HF_TOKEN": TOKEN}},
        ["secrets.HF_TOKEN"],
    ),
    "a-secrets-value-of-no-shape": (
        {**JOB, "workload": RUN, "secrets": {"PASSWORD": "correct horse"}},
        ["secrets.PASSWORD"],
    ),
    "one-machine-launchers": (
        {**SERVICE, "nodes": 2, "workload": {"launcher": "ollama", "model": "llama3"}},
        ["nodes"],
    ),
    "two-nodes-of-kohya": (
        {**JOB, "nodes": 2, "workload": {"launcher": "kohya", "command": "train.py"}},
        ["nodes"],
    ),
    "a-container-and-a-workload": (
        {**JOB, "providers": ["gcp"], "workload": RUN, "options": {"gcp": {"container": "nginx"}}},
        ["options.gcp.container"],
    ),
    "a-port-and-an-image-at-modal": (
        {
            **JOB,
            "providers": ["modal"],
            "workload": RUN,
            "options": {"modal": {"image": "a/b:1", "port": 80}},
        },
        ["options.modal.port", "options.modal.image"],
    ),
    "only-a-command-at-modal": (
        {**JOB, "providers": ["modal"], "options": {"modal": {"command": "x", "retries": 99}}},
        ["options.modal.command", "options.modal.retries"],
    ),
    "an-environment-at-clore": (
        {
            **JOB,
            "gpu": "RTX-4090:1",
            "providers": ["clore"],
            "workload": RUN,
            "options": {"clore": {"env": {"A": "b"}}},
        },
        ["options.clore.env"],
    ),
    "an-image-at-vertex": (
        {
            **JOB,
            "providers": ["vertex"],
            "workload": {**RUN, "image": "a/b:1"},
            "options": {"vertex": {"image": "a/b:1"}},
        },
        ["options.vertex.image"],
    ),
    "a-container-at-google-of-a-machine": (
        {"gpu": "L4:1", "providers": ["gcp"], "options": {"gcp": {"container": "a/b:1"}}},
        ["options.gcp.container"],
    ),
    "two-commands-at-modal": (
        {**JOB, "providers": ["modal"], "workload": RUN, "options": {"modal": {"command": "x"}}},
        ["options.modal.command"],
    ),
    "two-commands-at-clore": (
        {
            **JOB,
            "gpu": "RTX-4090:1",
            "providers": ["clore"],
            "workload": RUN,
            "options": {"clore": {"command": "x"}},
        },
        ["options.clore.command"],
    ),
    "the-port-of-ssh": ({**SERVICE, "workload": {**RUN, "port": 22}}, ["workload.port"]),
    "the-port-of-ssh-of-one-of-several": (
        {
            **SERVICE,
            "workload": {
                "services": [
                    {"name": "a", "command": "x", "port": 22},
                    {"name": "b", "command": "x", "port": 80},
                ]
            },
        },
        ["workload.services[0].port"],
    ),
    **{
        f"env-{name}": ({**JOB, "workload": {**RUN, "env": {name: "/x"}}}, [f"workload.env.{name}"])
        for name in ("PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "GPUS_TOKEN", "GPUS_ROOT")
    },
    "hours-on-an-unknown-gpu": (
        {**JOB, "workload": {**RUN, "train": {"hours": {"T5": 5}}}},
        ["workload.train.hours.T5"],
    ),
    "tokens-of-no-model": (
        {**JOB, "workload": {**RUN, "train": {"tokens": "1B"}}},
        ["workload.train.tokens"],
    ),
    "public-at-google": (
        {**SERVICE, "providers": ["gcp"], "expose": "public", "workload": VLLM},
        ["expose"],
    ),
    "public-at-ec2": (
        {**SERVICE, "providers": ["aws"], "expose": "public", "workload": VLLM},
        ["expose"],
    ),
    "a-token-that-nothing-checks": (
        {**SERVICE, "providers": ["gcp"], "expose": "token", "workload": {**RUN, "port": 80}},
        ["expose"],
    ),
    "a-list-for-a-flag": (
        {**SERVICE, "workload": {**VLLM, "args": {"max-num-seqs": [1]}}},
        ["workload.args.max-num-seqs"],
    ),
    "ports-of-a-service": ({**SERVICE, "ports": [80], "workload": VLLM}, ["ports"]),
    "an-unknown-gpu": ({"gpu": "H1000:8"}, ["gpu"]),
    "a-count-that-nobody-sells": ({"gpu": "L4:3", "providers": ["gcp"]}, ["gpu"]),
    "an-unknown-region": (
        {"gpu": "L4:1", "providers": ["gcp"], "regions": ["mars"]},
        ["regions"],
    ),
    "an-unknown-option": (
        {"gpu": "L4:1", "options": {"gcp": {"contaner": "x"}}},
        ["options.gcp.contaner"],
    ),
    "a-reserved-field": ({"gpu": "L4:1", "owner": "me"}, ["owner"]),
    "an-argument-of-a-class": ({"gpu": "L4:1", "self": 1}, ["self"]),
    "checkpoints-without-an-identity": (
        {
            **JOB,
            "providers": ["gcp"],
            "workload": {**RUN, "checkpoint": {"path": "/c", "to": "gs://b-b/x"}},
        },
        ["options.gcp.service_account"],
    ),
}


@pytest.fixture
def planned(tmp_path, monkeypatch, capfd):
    """`gpus plan -s` of these clusters and this configuration: (exit code, what it said)."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "gpus"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: x\nruntime: python\n")

    def plan(clusters, **config):
        content = {
            "gpus:world": "rehearsal",
            **{f"gpus:{key}": value for key, value in config.items()},
            "gpus:clusters": clusters,
        }
        (tmp_path / "Pulumi.s.yaml").write_text(yaml.safe_dump({"config": content}))
        code = main.main(["plan", "-s", "s"])
        return code, capfd.readouterr().err

    return plan


@pytest.mark.parametrize("name", BAD)
def test_a_plan_refuses_what_a_preview_refuses(planned, name) -> None:
    """The same declaration is refused by both, at the same path, and no secret's value is repeated."""
    raw, paths = BAD[name]
    code, said = planned({"c": raw})
    lines = [line.removeprefix("gpus: ") for line in said.splitlines()]
    assert code == 2 and all(
        any(path in line.partition(": wanted")[0] for line in lines) for path in paths
    ), said
    fields = {key: value for key, value in raw.items() if key not in inputs.OWN}
    theirs = inputs.check_all({"world": "rehearsal", "clusters": {"c": fields}})["c"]
    if (
        fields == raw
    ):  # what a cluster may not say of itself is refused by the program, before its plugin is asked
        assert all(
            any(line.startswith(f"c.{path}: wanted") for line in theirs) for path in paths
        ), theirs
    assert TOKEN not in said and TOKEN not in "".join(theirs) and "horse" not in said


@pytest.mark.parametrize("name", [each for each in BAD if each.startswith("a-secrets-value")])
def test_a_secrets_value_is_refused_once(planned, name) -> None:
    """It is named for what it is, and not a second time for being no mapping."""
    raw, (path,) = BAD[name]
    assert (
        len(
            [
                line
                for line in planned({"c": raw})[1].splitlines()
                if f"{path}: wanted" in line or "(secret)" in line
            ]
        )
        == 1
    )
    theirs = inputs.check_all({"world": "rehearsal", "clusters": {"c": raw}})["c"]
    assert len(theirs) == 1 and "no secret's value in a declaration" in theirs[0]


@pytest.mark.parametrize("value", [0, -5, "lots", True, [1], "inf"])
def test_a_budget_that_is_none_is_refused(planned, value) -> None:
    """`gpus:max_spend` is dollars above nothing, for a plan as for a preview."""
    code, said = planned({"c": "L4:1"}, max_spend=value)
    assert code == 2 and "gpus:max_spend: wanted US dollars a calendar month" in said


def test_a_key_of_the_stack_that_nobody_reads_is_refused(planned) -> None:
    """A word that is written wrong would otherwise do nothing, silently."""
    code, said = planned({"c": "L4:1"}, max_spent=5)
    assert code == 2 and "gpus:max_spent" in said and "near: gpus:max_spend" in said


def test_good_declarations_pass_both(planned, tmp_path) -> None:
    """What a preview accepts, a plan does: the files of keys and workloads included."""
    (tmp_path / "id.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHh1 me\n")
    (tmp_path / "t.py").write_text("print(1)")
    clusters = {
        "a": {"gpu": "L4:1", "ssh_key": "id.pub"},
        "b": {
            **JOB,
            "workload": {
                **RUN,
                "files": {"t.py": "~/t.py"},
                "env": {"PYTHONPATH": "/x", "HF_HOME": "/x"},
            },
        },
        "c": {**SERVICE, "providers": ["modal"], "expose": "public", "workload": VLLM},
        "d": {
            **SERVICE,
            "providers": ["gcp"],
            "expose": "public",
            "network": "managed",
            "regions": ["us-central1"],
            "workload": VLLM,
        },
        "e": {
            **SERVICE,
            "providers": ["aws"],
            "expose": "public",
            "options": {"aws": {"security_group": "sg-0123456789abcdef0"}},
            "workload": VLLM,
        },
        "f": {
            **SERVICE,
            "providers": ["gcp"],
            "expose": "token",
            "workload": {"command": "serve --key $GPUS_TOKEN", "port": 80},
        },
        "g": {
            **SERVICE,
            "providers": ["modal"],
            "expose": "token",
            "workload": {**RUN, "port": 80},
        },
        "h": {
            **JOB,
            "workload": {
                "launcher": "torchrun",
                "command": "t.py",
                "model": "7b",
                "train": {"tokens": "1B"},
            },
        },
        "i": {**JOB, "workload": {**RUN, "train": {"hours": {"t4": 5}}}},
    }
    code, said = planned(clusters, max_spend=500)
    assert code in (0, 1) and "wanted" not in said, said
    manifests = registry.manifests()
    for name, raw in clusters.items():
        assert (
            validate.problems(validate.cluster(name, stack_config.entry(raw, tmp_path)), manifests)
            == []
        )


def test_hours_measured_on_a_card_count_however_it_is_written(tmp_path) -> None:
    """`t4` is the T4: the hours of the run are known."""
    from providers.workloads.sizing import fit

    made = read_cluster("t", {**JOB, "workload": {**RUN, "train": {"hours": {"t4": 5}}}}).ask()
    known = read_cluster("t", {**JOB, "workload": {**RUN, "train": {"hours": {"T4": 5}}}}).ask()
    hours = [fit.hours(present(each.workload), None, "A100", 1, 1) for each in (made, known)]
    assert hours[0] is not None and hours[0] == hours[1]


def test_the_words_about_ports_are_those_of_a_workload() -> None:
    """A service with a workload has its port there, not in a provider's options."""
    with pytest.raises(SpecError, match=r"ports: .*stands in workload\.port"):
        read_cluster("t", {**SERVICE, "ports": [80], "workload": VLLM})


ALIKE = [
    "L4:1",
    "8xH100",
    "L4:0.5",
    {"gpu": {"H100": 8}},
    {"gpu": {"H100:8": None}},
    {"gpu": ["H100:1", "H200:1"], "providers": ["aws"]},
    {"gpu": ["H100:5", "H200:1"], "providers": ["aws"]},
    {"gpu": "MI300X:8"},
    {"gpu": ["H100:8", "h100-80gb:8"]},
    {"gpu": ["H100:8", {"gpu": "H100 80GB HBM3:8", "spot": "only"}]},
    {"gpu": {"min_memory_gib": 5000}},
    {"gpu": "H100:8:2"},
    {"gpu": "RTX-4090:1"},
    {"gpu": "RTX-4090:1", "marketplaces": True},
    {"gpu": "L4:1", "ports": ["8000-8010", 65536]},
    {"gpu": "L4:1", "ports": 8000},
    {"gpu": "L4:1", "regions": ["us-central1-a"]},
    {"gpu": "L4:1", "regions": ["us-east-1a"]},
    {"gpu": "L4:1", "providers": ["GCP"]},
    {"gpu": "L4:1", "marketplaces": "yes"},
    {"gpu": "L4:1", "marketplace": True},
    {"gpu": "L4:1", "network": "managed"},
    {"gpu": "L4:1", "network": "managed", "regions": ["us-centrl1"]},
    {"gpu": "L4:1", "network": "managed", "regions": ["us-central1"], "providers": ["aws"]},
    {"gpu": "L4:1", "network": "managed", "regions": ["us-central1"], "providers": ["gcp"]},
    {**JOB},
    {**JOB, "providers": ["gcp"]},
    {**JOB, "providers": ["vertex"]},
    {**JOB, "providers": ["modal"], "options": {"modal": {"command": "x"}}},
    {**JOB, "providers": ["vertex"], "options": {"vertex": {"image": "x"}}},
    {**SERVICE},
    {**JOB, "workload": {**RUN, "checkpoint": {"to": "gs://b/train"}}},
    {**JOB, "workload": {**RUN, "checkpoint": "gs://b/train"}},
    {**JOB, "workload": {**RUN, "checkpoint": {"path": "/c", "to": "gs://b/train"}}},
    {**JOB, "workload": {**RUN, "checkpoint": {"path": "/c", "to": "gs:/bucket/train"}}},
    {"gpu": "L4:1", "rank": "cheapest"},
    {"gpu": "L4:1", "rank": "price_by_choice"},
    {"gpu": "L4:1", "ttl": "20:00"},
    {"gpu": "L4:1", "labels": {"v": 12}},
    {"gpu": "H100:8", "max_price_per_hour": "60"},
    {"gpu": "L4:1", "providers": ["clore"], "nodes": 2},
    {"gpu": "A100-80GB:8", "capacity": ["flex-start"], "providers": ["aws"]},
    {"gpu": "L4:3", "fallback": ["T4:3"], "providers": ["gcp"]},
]


def both(raw):
    """What the command line's plan and the plugin's check find wrong with an entry, as lines."""
    try:
        validate.cluster("c", raw)
    except SpecError as error:
        planned = [str(problem) for problem in error.problems]
    else:
        planned = []
    checked = inputs.check_all(
        {"world": "rehearsal", "clusters": {"c": {"gpu": raw} if isinstance(raw, str) else raw}}
    )["c"]
    return planned, [line.removeprefix("c.").removeprefix("c: ") for line in checked]


@pytest.mark.parametrize("raw", ALIKE, ids=str)
def test_a_plan_and_a_preview_say_the_same(raw) -> None:
    """Whatever is declared, `gpus plan -s` and the plugin's own check find the same faults and no
    others, and each fault once (C29).
    """
    planned, checked = both(raw)
    assert planned == checked and len(planned) == len(set(planned))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (
            JOB,
            (
                "workload: wanted what the job runs, found nothing; declare it, as in workload:"
                " {command: python train.py}"
            ),
        ),
        ({**JOB, "providers": ["vertex"]}, "workload: wanted what the job runs"),
        ({**SERVICE, "providers": ["aws"]}, "workload: wanted what the service runs"),
        (
            {**JOB, "workload": {**RUN, "checkpoint": {"path": "/c", "to": "gs://b/train"}}},
            "a bucket's name of 3 to 63",
        ),
        (
            {**JOB, "workload": {**RUN, "checkpoint": {"path": "/c", "to": "s3://my-bucket/a b"}}},
            "wanted a path in s3://my-bucket of letters",
        ),
        (
            {**JOB, "workload": {**RUN, "checkpoint": "gs://b/train"}},
            "wanted a mapping such as {path: /ckpt, to: gs://BUCKET/PATH}",
        ),
        (
            {"gpu": "L4:1", "network": "managed", "regions": ["us-central1"], "providers": ["aws"]},
            "network: wanted gcp among the providers",
        ),
        (
            {"gpu": "L4:1", "network": "managed"},
            "regions: wanted the regions that network: managed makes subnets in",
        ),
        (
            {"gpu": {"H100": 8}},
            'gpu: wanted a GPU such as "H100:8", found {\'H100\': 8}; write "H100:8"',
        ),
        (
            {"gpu": ["T4:1", {"L4": 2}]},
            'the second choice of gpu: wanted a GPU such as "H100:8", found {\'L4\': 2}; write "L4:2"',
        ),
        ({"gpu": "T4:1", "fallback": [{"L4:2": None}]}, 'write "L4:2"'),
        (
            {"gpu": "L4:1", "ports": ["8000-8010"]},
            "ports[0]: wanted a port from 1 to 65535, found '8000-8010'; list each port by itself",
        ),
        ({"gpu": "L4:1", "regions": ["us-east-1a"]}, "that is a zone; its region is us-east-1"),
        (
            {"gpu": "L4:1", "regions": ["us-central1-a"]},
            "that is a zone; its region is us-central1",
        ),
        ({"gpu": "L4:1", "providers": ["GCP"]}, "near: gcp"),
        ({"gpu": "L4:1", "providers": "gcp"}, "write providers: [gcp]"),
    ],
    ids=str,
)
def test_one_fault_is_told_once_with_what_to_write(raw, said) -> None:
    """The real reason, with path and remedy, and no second message that follows from it."""
    planned, checked = both(raw)
    assert planned == checked and len(planned) == 1 and said in planned[0]


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("clore:reliabilty", "clore:reliability"),
        ("gcp:proj", "gcp:project"),
        ("gcp:projekt", "gcp:project"),
        ("aws:region", ""),
        ("gcp:region", ""),
        ("gcp:credentials", ""),
        ("aws:profil", "aws:profile"),
        ("gpus:max_spnd", "gpus:max_spend"),
        ("modal:enviroment", "modal:environment"),
        ("vertex:proj", "vertex:project"),
        ("clore:what", "remove it"),
        ("mine:what", ""),
    ],
)
def test_a_key_that_nobody_reads_is_refused_with_the_near_one(key, near) -> None:
    """A setting that is misspelled would be passed over, and the default bought; what Pulumi's own
    packages read is none of ours.
    """
    found = stack_config.unknown_keys([key, "gpus:world", "clore:cuda"])
    assert not [
        each for each in stack_config.unknown_keys([key], {key}) if not key.startswith("gpus:")
    ], "a secret is a program's own"
    assert [key] * bool(near) == [problem.path for problem in found] and all(
        near in problem.todo for problem in found
    )


def test_a_plan_refuses_the_keys_that_a_preview_refuses(planned) -> None:
    """Both read the same rule: the stack's file is refused before anything is planned."""
    code, said = planned({"c": "L4:1"}, max_spnd=5)
    assert code == 2 and "gpus:max_spnd" in said and "near: gpus:max_spend" in said
