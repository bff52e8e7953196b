"""`gpus plan`: its answers, and the stack files it reads."""

import json
import re

import pytest

from providers.adhoc import stack_clusters
from providers.cli import stackfile
from providers.engine.record import ClusterRecord
from providers.model.placement import Placement, Price
from tests.unit.cli.rig import run


def test_plan_json_is_one_object_with_candidates_and_rejections(capsys) -> None:
    """`gpus plan --json` answers candidates in order, each within the cap, and every other offer of
    the GPUs asked for as a rejection; those of other GPUs are counted.
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
    assert all(rejection["rule"] != "gpu" for rejection in answer["rejections"])
    assert answer["summary"]["other_gpus"] > 1_000


def test_plan_text_and_markdown_name_the_chosen_place(capsys) -> None:
    """The short text begins with it, the whole one marks its row, both within 96 columns; Markdown
    marks it in a table.
    """
    code, out, _ = run(capsys, "plan", "H100:8", "--max-price", "100")
    assert code == 0 and "\nwould buy " in out and "best per provider" not in out
    code, out, _ = run(capsys, "plan", "H100:8", "--max-price", "100", "--explain")
    assert code == 0
    assert sum(line.startswith(">") for line in out.splitlines()) == 1
    assert max(map(len, out.splitlines())) <= 96
    assert "**chosen**" in run(capsys, "plan", "H100:8", "--markdown")[1]


def test_nothing_acceptable_is_exit_code_1_with_the_reasons(capsys) -> None:
    """A cap below everything is no error of the question: the plan is shown, the rules are named,
    exit code 1.
    """
    code, out, err = run(capsys, "plan", "H100:8", "--max-price", "0.01")
    assert code == 1
    assert "nothing acceptable" in out
    assert "above the price cap" in err


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


def project(tmp_path, stack=STACK) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("name: gpus\nruntime: python\nstackConfigDir: stacks\n")
    (tmp_path / "stacks" / "Pulumi.demo.yaml").write_text(stack)


def test_a_stack_is_planned_as_its_file_declares(capsys, tmp_path, monkeypatch) -> None:
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


def test_what_runs_of_a_stack_by_the_journal_is_told_first(capsys, tmp_path, monkeypatch) -> None:
    """Of this project only; what an `up` makes of it the preview says."""
    project(tmp_path)
    monkeypatch.chdir(tmp_path)
    where = Placement("aws", zone="use2-az1", gpu_type="H100", gpu_count=8, capacity="spot")
    record = ClusterRecord(
        *("rehearsal", "own", "train", "g", "", "running", where, Price(11_270_000))
    )
    for owner, told in (("gpus", True), ("another", False)):
        found = stack_clusters.Declared(owner, "demo", record)
        monkeypatch.setattr(stack_clusters, "known", lambda *_, found=found: (found,))
        for more in ((), ("--explain",), ("--markdown",)):
            out = run(capsys, "plan", "-s", "demo", "--cluster", "train", *more)[1]
            text = " ".join(out.split())
            assert ("aws use2-az1 H100:8 spot, $11.27/h: `pulumi preview -s demo`" in text) is told
            assert "buys" not in text


def test_what_has_ended_of_a_stack_by_the_journal_is_told_first(
    capsys, tmp_path, monkeypatch
) -> None:
    """It may be that an `up` buys nothing, so no limit refuses it."""
    project(tmp_path, STACK.replace("  gpus:clusters", "  gpus:max_spend: 15\n  gpus:clusters"))
    monkeypatch.chdir(tmp_path)
    record = ClusterRecord(
        *("rehearsal", "own", "train", "g", "", "ended", Placement("aws"), Price(0)), kind="job"
    )
    ended = stack_clusters.Declared("gpus", "demo", record, ("ended", "exit code 0"))
    past = stack_clusters.Declared("gpus", "demo", record._replace(ends_at=60.0), now=3600.0)
    for each, told in (
        (ended, "its job is over (exit code 0)"),
        (past, "it ended at 1970-01-01 00:01 UTC by its ttl"),
    ):
        monkeypatch.setattr(stack_clusters, "journaled", lambda *_, each=each: (each,))
        code, out, err = run(capsys, "plan", "-s", "demo", "--cluster", "train")
        row = f"ended {told}: `pulumi preview -s demo` says what an `up` changes"
        assert (code, err) == (0, "") and row in " ".join(out.split())


def test_a_stacks_plan_is_held_to_what_it_may_spend(capsys, tmp_path, monkeypatch) -> None:
    """As the preview: refused with the arithmetic and exit code 1; else only what fits, in turn."""
    project(tmp_path, STACK.replace("  gpus:clusters", "  gpus:max_spend: 15\n  gpus:clusters"))
    monkeypatch.chdir(tmp_path)
    for more in ((), ("--json",)):
        code, out, err = run(capsys, "plan", "-s", "demo", "--cluster", "train", *more)
        assert code == 1 and "would buy" not in out
        assert "gpus: train: nothing is bought: max_spend $15.00 in " in err and "too much" in err
    assert json.loads(out)["candidates"] == []
    declared = tmp_path / "stacks" / "Pulumi.demo.yaml"
    text = declared.read_text().replace("L4", "{gpu: L4, ttl: 2h}")
    declared.write_text(text.replace("      spot: prefer", "      spot: prefer\n      ttl: 1h"))
    code, out, err = run(capsys, "plan", "-s", "demo")
    shown = " ".join(out.split())
    assert (code, err) == (0, "")
    assert "max_spend $15.00 in " in shown and "places fit" in shown
    spent = [float(each) for each in re.findall(r"\$([\d.]+) to come of what else runs", shown)]
    assert spent[0] == 0 and spent[1] > 5


def test_a_block_is_planned_with_the_terms_that_get_takes(capsys) -> None:
    """Its price is for all of it; without terms none is asked for."""
    words = ("plan", "H100:8", "--capacity", "block", "--provider", "aws")
    code, out, _ = run(capsys, *words, "--block-lasts", "1d", "--block-max-price", "9000")
    assert code == 0 and " for the block" in out and "would buy   aws " in out
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "") and "--block-max-price: wanted a block's length and a cap" in err


def test_a_run_is_priced_by_its_ttl(capsys) -> None:
    """As `gpus run` takes it, with the disk; a wrong one is told with what it may be."""
    code, out, _ = run(capsys, "plan", "L4:1", "--provider", "gcp", "--ttl", "20h")
    assert code == 0 and "if it runs 20h (ttl)" in out
    code, _, err = run(capsys, "plan", "L4:1", "--ttl", "20", "--disk-gib", "5")
    assert code == 2 and "--ttl: wanted" in err and "found '20'; write --ttl 20m or 20h" in err
    assert "--disk-gib: wanted a whole number from 10 to 65,536, found 5" in err


def test_a_command_in_a_message_names_the_stack(capsys, tmp_path, monkeypatch) -> None:
    """Where it is known: it can be copied."""
    project(tmp_path, f"{STACK}      run: 2\n".replace("other: L4", "other:\n      gpu: L4"))
    monkeypatch.chdir(tmp_path)
    assert "gpus rerun other -s demo" in run(capsys, "plan", "-s", "demo")[2]


def test_a_providers_settings_are_its_own_config(tmp_path) -> None:
    """`gcp:project` of a stack's file is gcp's setting; secrets are left to Pulumi."""
    project(tmp_path, STACK + "  gcp:project: mine\n  clore:key: {secure: x}\n")
    assert stackfile.read("demo").settings == {"gcp": {"project": "mine"}}


@pytest.mark.parametrize(
    "command",
    [["plan", "-s", "demo"], ["run", "-s", "demo", "--on", "L4:1"], ["check", "-s", "demo"]],
)
def test_an_account_that_is_a_secret_is_refused_and_not_passed_over(
    capsys, tmp_path, command
) -> None:
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


def test_a_pulumi_secret_inside_a_cluster_is_refused_as_such(capsys, tmp_path) -> None:
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
        (STACK.replace("H200:8", "H20:8"), "train: the first fallback: wanted"),
        (STACK.replace("world: rehearsal", "world: moon"), "rehearsal or live"),
        ("config: {}", "gpus:clusters"),
        ("config: [", "wanted YAML"),
        ("[]", "wanted a mapping"),
    ],
)
def test_a_faulty_stack_file_is_said_with_its_path(capsys, tmp_path, stack, said) -> None:
    """A fault of the stack's file is a clean line that says where it stands."""
    project(tmp_path, stack)
    code, _, err = run(capsys, "plan", "-s", "demo")
    assert code == 2 and said in err


def test_a_stack_and_arguments_do_not_mix(capsys, tmp_path) -> None:
    """With `-s`, arguments that the file decides are refused, each by name; an unknown stack is
    told with those that exist.
    """
    project(tmp_path)
    code, _, err = run(capsys, "plan", "H100:8", "-s", "demo", "--max-price", "3")
    assert code == 2 and "gpu:" in err and "--max-price:" in err
    assert "there are: demo" in run(capsys, "plan", "-s", "dmo")[2]
    assert "there are: train, other" in run(capsys, "plan", "-s", "demo", "--cluster", "x")[2]


def test_a_cap_that_is_too_low_says_what_would_do(capsys) -> None:
    """The cheapest price, and whether spot would fit."""
    err = run(capsys, "plan", "H100:8", "--max-price", "12", "--provider", "gcp")[2]
    assert (
        "gpus: the cheapest is $88.50/h, above the cap of $12.00/h: gcp us-central1-a a3-highgpu-8g"
        " H100:8 on-demand" in err
    )
    assert "gpus: spot: prefer would do: from $9.72/h, gcp europe-west2-b" in err


def test_what_no_allowed_place_sells_names_who_does(capsys) -> None:
    """Refused for the providers or regions that are allowed: the cheapest elsewhere, under the same
    cap.
    """
    err = run(capsys, "plan", "B300:8", "--provider", "clore")[2]
    assert "gpus: other providers have it: from $" in err and "B300:8 on-demand" in err
    err = run(capsys, "offers", "H100:8", "--region", "mars")[2]
    assert "--region: wanted a region of an allowed provider, found 'mars'; known: " in err
    assert (
        "known: aws, clore, gcp, modal" in run(capsys, "offers", "L4:1", "--provider", "nobody")[2]
    )
