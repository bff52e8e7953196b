"""The command line: exit codes, one clean line for what a user gets wrong, and answers that can be
read by machines.
"""

import json
import os
import subprocess
import sys

import pytest

from providers.cli import main, stackfile
from providers.catalog.table import table
from providers.adapters import registry
from providers.engine.runtime.world import open_world
from providers.errors import NotConfigured
from providers.model.machine import CheckLine


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GPUS_PROJECT", raising=False)
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments):
    code = main.main(arguments)
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def test_plan_json_is_one_object_with_candidates_and_rejections(capsys):
    """`gpus plan --json` answers candidates in order, each within the cap, and every other offer as
    a rejection.
    """
    code, out, err = run(
        capsys,
        "plan",
        "H100:8",
        "--fallback",
        "H200:8",
        "--fallback",
        "A100-80GB:8",
        "--spot",
        "prefer",
        "--max-price",
        "60",
        "--json",
    )
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert [candidate["rank"] for candidate in answer["candidates"]] == list(
        range(1, len(answer["candidates"]) + 1)
    )
    assert all(0 < candidate["price_usd_per_hour"] <= 60 for candidate in answer["candidates"])
    assert answer["rejections"]
    assert all(
        {"offer", "rule", "wanted", "found"} <= set(rejection) for rejection in answer["rejections"]
    )


def test_plan_text_and_markdown_name_the_chosen_place(capsys):
    """Text marks the chosen row and stays within 96 columns; Markdown marks it in a table."""
    code, out, _ = run(capsys, "plan", "H100:8", "--max-price", "100")
    assert code == 0
    assert sum(line.startswith(">") for line in out.splitlines()) == 1
    assert max(map(len, out.splitlines())) <= 96
    assert "**chosen**" in run(capsys, "plan", "H100:8", "--markdown")[1]


def test_offers_are_sorted_by_price_and_unknown_prices_come_last(capsys):
    """`gpus offers --json` lists known prices ascending, then those without one, of every provider."""
    code, out, _ = run(capsys, "offers", "H200:8", "--json")
    prices = [offer["price_usd_per_hour"] for offer in json.loads(out)]
    known = [price for price in prices if price is not None]
    assert (
        code == 0
        and known == sorted(known)
        and prices == known + [None] * (len(prices) - len(known))
    )
    assert {"gcp", "aws", "modal"} <= {offer["provider"] for offer in json.loads(out)}


def test_offers_can_be_narrowed(capsys):
    """`--spot`, `--provider` and `--region` narrow; a bare name means any count."""
    offers = json.loads(
        run(
            capsys,
            "offers",
            "H100",
            "--spot",
            "--provider",
            "gcp",
            "--region",
            "us-central1",
            "--json",
        )[1]
    )
    assert {(offer["provider"], offer["region"], offer["capacity"]) for offer in offers} == {
        ("gcp", "us-central1", "spot")
    }
    assert len({offer["gpu_count"] for offer in offers}) > 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("offers", "A100-8"), 'write "A100:8", or A100-80GB for that card'),
        (("offers", ""), "wanted a GPU"),
        (("plan", "H10:8"), "near: H100"),
        (("plan", "A100:3", "--provider", "gcp"), "gcp 1, 2, 4, 8, 16"),
        (("plan", "A10", "--provider", "aws"), "A10G is"),
        (("plan", "H100:8", "--provider", "gpc"), "near: gcp"),
        (("plan", "H100:8", "--region", "us-central1-a"), "its region is us-central1"),
        (("plan", "H100:0"), "whole number of GPUs"),
        (("plan", "H100:8", "--max-price", "nan"), "above 0"),
        (("plan", "H100:8", "--nodes", "0"), "from 1"),
        (("plan", "H100:8", "--capacity", "sometimes"), "reservation(NAME)"),
        (("plan", "H100:8", "--spot", "only", "--capacity", "spot"), "either spot or capacity"),
        (("plan",), "-s STACK"),
        (("plan", "-s", "nowhere"), "Pulumi.yaml"),
        (("plan", "H100:8", "--cluster", "x"), "add -s STACK"),
        (("hardware", "H10"), "near: H100"),
        (("hardware", "H100", "--dtype", "bf17"), "bf16"),
        (("check", "gpc"), "wanted one of"),
        (
            ("logs", "train", "--lines", "-5"),
            "--lines: wanted how many lines, or 0 for all, found -5",
        ),
        (("run", "L4:1", "--keep=yes"), "--keep: wanted no value, found 'yes'"),
    ],
)
def test_a_wrong_question_is_one_clean_line_and_exit_code_2(capsys, arguments, said):
    """What a user gets wrong is said on stderr: wanted, found, what to do; nothing on stdout, exit
    code 2.
    """
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert all(line.startswith("gpus: ") for line in err.splitlines())


def test_nothing_acceptable_is_exit_code_1_with_the_reasons(capsys):
    """A cap below everything is no error of the question: the plan is shown, the rules are named,
    exit code 1.
    """
    code, out, err = run(capsys, "plan", "H100:8", "--max-price", "0.01")
    assert code == 1
    assert "nothing acceptable" in out
    assert "by price-cap" in err


def test_hardware_shows_dense_peaks_with_sources(capsys):
    """`gpus hardware` has a row for each name asked, with a source for each; all that are known
    without names.
    """
    code, out, _ = run(capsys, "hardware", "H100", "MI300X", "B200", "--dtype", "bf16")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:4]] == ["H100", "MI300X", "B200"]
    assert "[1] " in out
    assert len(json.loads(run(capsys, "hardware", "--json")[1])) > 50


STACK = """
config:
  gpus:world: rehearsal
  gpus:clusters:
    train:
      gpu: H100:8
      fallback: ["H200:8"]
      spot: prefer
    other: L4
"""


def project(tmp_path, stack=STACK):
    (tmp_path / "stacks").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("name: gpus\nruntime: python\nstackConfigDir: stacks\n")
    (tmp_path / "stacks" / "Pulumi.demo.yaml").write_text(stack)


def test_a_stack_is_planned_as_its_file_declares(capsys, tmp_path, monkeypatch):
    """`-s STACK` plans each cluster of the file, from any folder below the project; `--cluster`
    picks one.
    """
    project(tmp_path)
    monkeypatch.chdir(tmp_path / "stacks")
    code, out, _ = run(capsys, "plan", "-s", "demo")
    assert (
        code == 0
        and "train: H100:8, else H200:8; spot, then on-demand" in out
        and "other: L4:1" in out
    )
    answer = json.loads(run(capsys, "plan", "-s", "demo", "--cluster", "other", "--json")[1])
    assert {candidate["gpu_type"] for candidate in answer["candidates"]} == {"L4"}


def test_a_providers_settings_are_its_own_config(tmp_path):
    """`gcp:project` of a stack's file is gcp's setting; secrets are left to Pulumi."""
    project(tmp_path, STACK + "  gcp:project: mine\n  clore:key: {secure: x}\n")
    assert stackfile.read("demo").settings == {"gcp": {"project": "mine"}}


@pytest.mark.parametrize(
    "command",
    [["plan", "-s", "demo"], ["run", "-s", "demo", "--on", "L4:1"], ["check", "-s", "demo"]],
)
def test_an_account_that_is_a_secret_is_refused_and_not_passed_over(capsys, tmp_path, command):
    """What names the account must be readable, as for an up: else the environment's own account
    would be bought in.
    """
    project(tmp_path, STACK + "  gcp:project: {secure: x}\n  aws:profile: {secure: x}\n")
    code, out, err = run(capsys, *command)
    assert (
        (code, out) == (2, "")
        and "gcp:project: wanted plain text, found a secret" in err
        and "aws:profile: wanted plain text" in err
    )


def test_a_pulumi_secret_inside_a_cluster_is_refused_as_such(capsys, tmp_path):
    """Told as a secret, with where such things belong; its encrypted form is not repeated."""
    project(tmp_path, STACK.replace("spot: prefer", "labels: {a: {secure: v1:abc}}"))
    code, out, err = run(capsys, "plan", "-s", "demo")
    assert (
        (code, out) == (2, "")
        and "train.labels.a: wanted no secret inside a cluster, found a secret" in err
        and "v1:abc" not in err
    )


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        (STACK.replace("spot: prefer", "spot: perhaps"), "train.spot"),
        (STACK.replace("H200:8", "H20:8"), "fallback[0]"),
        (STACK.replace("world: rehearsal", "world: moon"), "rehearsal or live"),
        ("config: {}", "gpus:clusters"),
        ("config: [", "wanted YAML"),
        ("[]", "wanted a mapping"),
    ],
)
def test_a_faulty_stack_file_is_said_with_its_path(capsys, tmp_path, stack, said):
    """A fault of the stack's file is a clean line that says where it stands."""
    project(tmp_path, stack)
    code, _, err = run(capsys, "plan", "-s", "demo")
    assert code == 2 and said in err


def test_a_stack_and_arguments_do_not_mix(capsys, tmp_path):
    """With `-s`, arguments that the file decides are refused, each by name; an unknown stack is
    told with those that exist.
    """
    project(tmp_path)
    code, _, err = run(capsys, "plan", "H100:8", "-s", "demo", "--max-price", "3")
    assert code == 2 and "gpu:" in err and "max_price:" in err
    assert "there are: demo" in run(capsys, "plan", "-s", "dmo")[2]
    assert "there are: train, other" in run(capsys, "plan", "-s", "demo", "--cluster", "x")[2]


class _World:
    """A world whose adapters answer what a test says."""

    manifests = registry.manifests()
    offers = table(())
    has_journal = False

    def __init__(self, answer):
        self.answer = answer

    def adapter(self, provider):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self

    def check(self):
        return self.answer

    def close(self):
        pass


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            [
                CheckLine("gcp", "credentials", "ok", "found"),
                CheckLine("gcp", "quota", "unknown", "not read"),
            ],
            0,
        ),
        (
            [
                CheckLine("gcp", "credentials", "ok", "found"),
                CheckLine("gcp", "api", "missing", "off", "turn it on"),
            ],
            1,
        ),
        (NotConfigured("no project", provider="gcp"), 1),
    ],
)
def test_check_is_exit_code_1_when_the_provider_is_not_usable(capsys, monkeypatch, answer, code):
    """Each finding is a line with what to do; missing or refused things, or none configured, give
    exit code 1.
    """
    monkeypatch.setattr(
        "providers.engine.runtime.world.open_world", lambda *_, **__: _World(answer)
    )
    done, out, _ = run(capsys, "check", "gcp", "--world", "live")
    assert done == code
    assert out.startswith("gcp ")
    assert run(capsys, "check", "gcp", "--json")[1].startswith("[{")


def test_an_interrupt_is_one_line_and_130(capsys, monkeypatch):
    """Ctrl-C ends a command with one line."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("providers.api.plan", interrupted)
    assert run(capsys, "plan", "H100:8") == (130, "", "gpus: interrupted\n")


def test_an_unreadable_file_is_a_line(capsys, monkeypatch):
    """A failure of the machine is said without a traceback."""

    def unreadable(*_, **__):
        raise PermissionError(13, "Permission denied", "catalog.csv")

    monkeypatch.setattr("providers.api.plan", unreadable)
    assert run(capsys, "plan", "H100:8") == (2, "", "gpus: Permission denied: catalog.csv\n")


def test_whoever_stops_reading_gets_no_complaint():
    """`gpus plan ... | head -1` ends quietly."""
    command = [sys.executable, "-m", "providers.cli", "plan", "T4", "--json"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
        cwd=os.path.dirname(os.path.dirname(main.__file__)),
    )
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(30) == 0


def test_offers_with_one_hung_provider_answer_within_its_deadline(capsys, monkeypatch):
    """A provider whose market never answers is a line after its deadline; every other one stands in
    the table, all in one.
    """
    import threading

    from providers.adapters.base import Manifest
    from providers.engine.market import collect
    from providers.adapters import registry
    from providers.model.capability import Capabilities

    released = threading.Event()

    class Hung:
        name, world = "hung", "rehearsal"

        def offers(self):
            released.wait(300)

    real = registry.manifests()
    hung = Manifest(
        "hung",
        Capabilities("hung", live_offers=True),
        lambda world, config: Hung(),
        lambda section: (),
    )
    monkeypatch.setattr(registry, "manifests", lambda: {**real, "hung": hung})
    monkeypatch.setattr(collect, "LOOK_LIMIT_S", 4.0)
    code, out, err = run(capsys, "offers", "H100:8", "--json")
    released.set()
    assert code == 0
    assert {offer["provider"] for offer in json.loads(out)} >= {"aws", "clore", "gcp", "modal"}
    assert "hung: could not be looked at" in err and "no answer within" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("offers", "H100:8"),
        ("offers", "L4"),
        ("hardware",),
        ("check",),
        ("check", "gcp", "--world", "live"),
    ],
)
def test_answers_fit_96_columns(capsys, monkeypatch, arguments):
    """Tables give way, notes are broken at spaces; only a word that is longer than that (an
    address) is left whole.
    """
    for name in ("HOME", "CLOUDSDK_CONFIG"):
        monkeypatch.setenv(name, os.getcwd())
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(capsys, *arguments)[1].splitlines()
    assert lines and [line for line in lines if len(line) > 96 and "://" not in line] == []
    assert not any("gcp: gcp:" in line or "aws: wanted" in line for line in lines)


def test_offers_name_the_rule_of_what_is_never_bought(capsys):
    """What the cloud does not sell so, what cannot be ordered, and what has no price stand in the
    table with the rule.
    """
    out = run(capsys, "offers", "H100:8", "--all")[1]
    assert "[1] not bought, by the rule " in out
    rules = {
        line.partition("by the rule ")[2].partition(":")[0]
        for line in out.splitlines()
        if "by the rule" in line
    }
    assert {"price-known", "sold"} <= rules


def test_a_cap_that_is_too_low_says_what_would_do(capsys):
    """The cheapest price, and whether spot would fit."""
    err = run(capsys, "plan", "H100:8", "--max-price", "12", "--provider", "gcp")[2]
    assert (
        "gpus: the cheapest is $88.49/h, above the cap of $12.00/h: gcp us-central1-a a3-highgpu-8g"
        " H100:8 on-demand" in err
    )
    assert "gpus: spot: prefer would do: from $9.71/h, gcp europe-west2-b" in err


def test_what_no_allowed_place_sells_names_who_does(capsys):
    """Refused for the providers or regions that are allowed: the cheapest elsewhere, under the same
    cap.
    """
    err = run(capsys, "plan", "B300:8", "--provider", "clore")[2]
    assert "gpus: other providers have it: from $" in err and "B300:8 on-demand" in err
    err = run(capsys, "offers", "H100:8", "--region", "mars")[2]
    assert "regions[0]: wanted a region of an allowed provider, found 'mars'; known: " in err
    assert (
        "known: aws, clore, gcp, modal" in run(capsys, "offers", "L4:1", "--provider", "nobody")[2]
    )


def test_nothing_held_and_unknown_names_say_what_to_do(capsys, monkeypatch, tmp_path):
    """An empty list, and a name that nothing bears, say how to get something."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    code, out, _ = run(capsys, "ps")
    assert code == 0 and out.startswith(
        "nothing is held ad hoc; `gpus run GPU --name NAME --keep` gets something"
    )
    for words in (("release", "x"), ("ssh", "x"), ("cp", "x:a", "b")):
        code, _, err = run(capsys, *words)
        assert code != 0 and "there are none yet: `gpus run GPU --name NAME --keep` gets one" in err


@pytest.mark.parametrize("stack", ["nobody", "organization/project/nobody"])
def test_list_of_a_stack_that_nobody_knows_fails_and_names_those_there_are(capsys, tmp_path, stack):
    """Of the project's files and of this machine's journal; one that has a file and nothing running
    is an answer.
    """
    (tmp_path / "Pulumi.yaml").write_text("name: project\nstackConfigDir: stacks\n")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text("config: {}\n")
    code, out, err = run(capsys, "ps", "-s", stack)
    assert (code, out) == (2, "") and f"found '{stack}'; there are: dev" in err
    assert run(capsys, "ps", "-s", stack, "--json")[0] == 2
    for known in ("dev", "organization/project/dev"):
        code, out, err = run(capsys, "ps", "-s", known)
        assert (code, err) == (0, "") and out.startswith(f"nothing of stack {known} runs")
    world = open_world("rehearsal")
    world.journal.owned("rehearsal", "own", "project", "gone")
    world.close()
    assert run(capsys, "ps", "-s", "gone")[0] == 0
    assert "there are: dev, gone" in run(capsys, "ps", "-s", stack)[2]


def test_list_of_an_unknown_stack_outside_a_project_fails_too(capsys):
    """Nothing is known there."""
    code, _, err = run(capsys, "ps", "-s", "dev")
    assert code == 2 and "found 'dev'; there are: none" in err


@pytest.mark.parametrize(
    "words",
    [
        ("run", "L4:1", "--set", "gcp:project=\udcff", "--", "true"),
        ("run", "\udcff", "--", "true"),
        ("run", "L4:1", "--name", "\udcff", "--", "true"),
        ("run", "L4:1", "--region", "a", "--region", "\udcff", "--", "true"),
        ("run", "-s", "\udcff", "--on", "L4:1"),
        ("ssh", "\udcff"),
        ("ssh", "box", "-L", "\udcff"),
        ("cp", "a", "box:b", "--set", "gcp:project=\udcff"),
        ("cp", "a", "box:b", "-s", "\udcff"),
        ("logs", "\udcff"),
        ("release", "a", "\udcff"),
    ],
)
def test_argument_that_is_no_text_is_refused(capsys, words):
    """Wherever it stands; only the names of files to copy, and another program's arguments, are
    what they are.
    """
    code, out, err = run(capsys, *words)
    assert (
        (code, out) == (2, "")
        and err.startswith("gpus: arguments: wanted text in UTF-8, found ")
        and "\\udcff" in err
    )


@pytest.mark.parametrize(
    "words",
    [
        ("run", "NOPE:1", "--put", "\udcff", "--", "\udcff"),
        ("cp", "\udcff", "box:\udcff"),
        ("ssh", "box", "--", "\udcff"),
    ],
)
def test_names_of_files_and_words_of_another_program_need_not_be_text(capsys, words):
    """What is wrong with these is something else."""
    code, _, err = run(capsys, *words)
    assert code != 0 and "UTF-8" not in err


def test_a_run_that_cannot_begin_buys_nothing(capsys, monkeypatch, tmp_path):
    """A file to be copied that is not there, and a cap under every price: said before anything is
    asked for, with what would do.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    code, _, err = run(capsys, "run", "L4:1", "--put", str(tmp_path / "nothing"), "--", "true")
    assert (
        code == 2
        and "--put: wanted a file or folder here, found none at" in err
        and "asking" not in err
    )
    code, _, err = run(capsys, "run", "L4:1", "--max-price", "0.01", "--", "true")
    assert (
        code == 1
        and "no place is acceptable" in err
        and "gpus: the cheapest is $" in err
        and "asking" not in err
    )
