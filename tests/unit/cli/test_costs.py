"""`gpus cost` compares stacks, `gpus explain` shows how a price is made."""

import json

import pytest

from tests.unit.cli.rig import run


@pytest.fixture
def stacks(tmp_path):
    (tmp_path / "Pulumi.yaml").write_text("name: x\nruntime: python\n")
    for name, clusters in {
        "small": "a: {gpu: 'L4:1', ttl: 2h, spot: never}",
        "large": "a: {gpu: 'L4:1', ttl: 2h, spot: never}\n    b: {gpu: 'T4:1'}",
        "none": "a: {gpu: 'L4:1', max_price_per_hour: 0.001}",
    }.items():
        (tmp_path / f"Pulumi.{name}.yaml").write_text(
            f"config:\n  gpus:world: rehearsal\n  gpus:clusters:\n    {clusters}\n"
        )


@pytest.mark.usefixtures("stacks")
def test_stacks_are_compared_by_the_hour(capsys) -> None:
    """Each cluster with its choice, its run and its month; the sums, and the difference."""
    code, out, _ = run(capsys, "cost", "-s", "small", "-s", "large", "--json")
    small, large, other = json.loads(out)
    assert code == 0 and small["run_s"] == 7200 and other["run_usd"] is None
    assert small["run_usd"] == pytest.approx(2 * small["price_usd_per_hour"], abs=1e-5)
    assert {**large, "stack": "small"} == small
    more = other["price_usd_per_hour"]
    out = run(capsys, "cost", "-s", "small", "-s", "large")[1]
    assert f"large costs ${more:.4f}/h more than small" in out and "no limit" in out
    out = run(capsys, "cost", "-s", "large", "-s", "small")[1]
    assert f"small costs ${more:.4f}/h less than large" in out


@pytest.mark.usefixtures("stacks")
def test_a_stack_without_a_place_has_no_cost_and_is_exit_code_1(capsys) -> None:
    """What is not known is not compared."""
    code, out, _ = run(capsys, "cost", "-s", "small", "-s", "none")
    assert code == 1 and "no place" in out and "none against small: not known" in out


def test_a_plan_and_a_cost_say_what_a_volume_costs_used_or_not(tmp_path, capsys) -> None:
    """A disk by its size; of Modal's only the rate is known."""
    (tmp_path / "Pulumi.yaml").write_text("name: x\nruntime: python\n")
    (tmp_path / "Pulumi.kept.yaml").write_text(
        "config:\n  gpus:world: rehearsal\n  gpus:clusters: {a: {gpu: 'L4:1', ttl: 2h}}\n"
        "  gpus:volumes:\n    disk: {provider: gcp, place: us-central1-a, size_gib: 200}\n"
        "    cache: {provider: modal}\n"
    )
    for command, before in (("plan", ""), ("cost", "kept: ")):
        out = " ".join(run(capsys, command, "-s", "kept")[1].split())
        assert f" {before}volume disk: 200 GiB pd-balanced at gcp us-central1-a, $20.00/" in out
        assert (
            f" {before}volume cache: at modal, size unknown, $0.09 a GiB and month of what is stored"
            in out
        )


def test_a_price_is_explained_by_its_parts_and_rows(capsys) -> None:
    """The sum by GPU and month, the source with its date, and the rows of the data files."""
    name = "gcp/us-east4-a/g2-standard-4/L4:1/spot"
    code, out, err = run(capsys, "explain", name)
    assert (code, err) == (0, "")
    (offer,) = json.loads(run(capsys, "explain", name, "--json")[1])
    assert f"${730 * offer['price_usd_per_hour']:,.2f} a month" in out
    assert offer["price_source"] in out.replace("\n", "") and offer["price_as_of"] in out
    files = {row["file"]: row["line"] for row in offer["rows"]}
    assert set(files) == {"machines.csv", "gcp.csv", "sources.csv", "volumes.csv"}
    disk = round(100 * int(files["volumes.csv"].split(",")[3]) / 730)
    bare = round(offer["price_usd_per_hour"] * 1e6) - disk
    assert disk > 0 and str(bare) in files["gcp.csv"].split(",")
    assert "100 GiB pd-balanced" in out and "boot disk" not in offer["left_out"]
    assert offer["price_source"] in files["sources.csv"]


def test_every_kind_of_capacity_is_explained_where_none_is_named(capsys) -> None:
    """What has no price says so, and names no source."""
    found = json.loads(run(capsys, "explain", "gcp/us-east4-a/g2-standard-4", "--json")[1])
    by = {each["id"].rpartition("/")[2]: each for each in found}
    assert set(by) == {"on-demand", "spot", "flex-start", "reservation"}
    assert by["flex-start"]["price_usd_per_hour"] is None
    assert {row["file"] for row in by["flex-start"]["rows"]} == {"machines.csv", "gcp.csv"}
    out = run(capsys, "explain", "gcp/us-east4-a/g2-standard-4/L4:1/flex-start")[1]
    assert "no source has one" in out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("L4", "wanted PROVIDER/PLACE/MACHINE"),
        ("gpc/us-east4-a/g2-standard-4", "(near: gcp"),
        ("gcp/us-east4-a/g2-standard-5", "(near: gcp/us-east4-a/g2-standard-"),
    ],
)
def test_an_offer_that_is_not_there_names_near_ones(capsys, name, said) -> None:
    code, out, err = run(capsys, "explain", name)
    assert (code, out) == (2, "") and said in err


def test_what_was_spent_is_told_and_ps_has_age_and_cost(capsys) -> None:
    """Two hours of a machine: in the month, and beside what runs."""
    assert run(capsys, "spend")[1].startswith("nothing was spent in ")
    assert run(capsys, "run", "L4:1", "--provider", "gcp", "--name", "b", "--keep")[0] == 0
    run(capsys, "rehearse", "advance", "2h")
    head, row = run(capsys, "ps")[1].splitlines()[:2]
    assert row[head.index("age") :].split()[:2] == ["2h", "$1.44"]
    out = run(capsys, "spend")[1]
    assert "rehearsal: nothing was paid" in out and "ad hoc  b" in out and "forecast for " in out
    assert run(capsys, "release", "b")[0] == 0
    assert "$1.44" not in run(capsys, "ps")[1]
    head, row = run(capsys, "ps", "--all")[1].splitlines()[:2]
    assert row.startswith("b    ad hoc released") and "ended before 20" in row
    assert row[head.index("age") :].split()[:2] == ["2h", "$1.44"]
    # The clock is set back: what has ended is not to come.
    run(capsys, "rehearse", "reset")
    worlds = json.loads(run(capsys, "spend", "--json")[1])
    assert all(each["to_come_usd"] == 0 for world in worlds for each in world["clusters"])


@pytest.mark.parametrize("month", ["2026-13", "november", "2026-1"])
def test_a_month_that_is_none_is_refused(capsys, month) -> None:
    code, out, err = run(capsys, "spend", "--month", month)
    assert (code, out) == (2, "") and "--month: wanted a month such as 2026-11" in err
