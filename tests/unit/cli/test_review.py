"""`gpus review` compares declarations with the base branch's; `--github` keeps one comment."""

import json

import pytest

from providers import api
from providers.cli.cost import Cost
from providers.cli.review import Change, Review, as_markdown
from tests.unit.cli.github_rig import TOKEN, GitHub, serving
from tests.unit.cli.rig import run

L4 = "a: {gpu: 'L4:1', spot: never}"


def declare(folder, **stacks: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "Pulumi.yaml").write_text("name: shop\nruntime: python\n")
    for name, clusters in stacks.items():
        (folder / f"Pulumi.{name}.yaml").write_text(
            f"config:\n  gpus:world: rehearsal\n  gpus:clusters:\n    {clusters}\n"
        )


@pytest.fixture
def github(tmp_path, monkeypatch):
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))
    with serving(GitHub()) as served:
        for name, value in {
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_API_URL": served.url,
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        }.items():
            monkeypatch.setenv(name, value)
        yield served


def test_the_change_a_month_is_what_is_new_less_what_goes(capsys, tmp_path) -> None:
    """Only what differs is planned; what is declared as before is counted."""
    declare(tmp_path / "base", kept=L4, gone=L4, twice=L4)
    declare(tmp_path, kept=L4, twice=L4, new="b: {gpu: 'L4:1', spot: never, ttl: 2h}")
    code, out, err = run(capsys, "review", "--base", "base")
    (cost,) = json.loads(run(capsys, "cost", "-s", "kept", "--json")[1])
    month = f"${cost['price_usd_per_month']:,.2f}"
    assert (code, err) == (0, "")
    assert out.startswith("### GPUs: $0.00 a month") and "2 clusters are declared as before" in out
    new, gone = (
        next(row for row in out.splitlines() if f"| `{name}` " in row) for name in ("new", "gone")
    )
    assert f" {month} | +{month} |" in new and " in 2h |" in new and gone.endswith(f"| -{month} |")
    assert out.count("<summary>The plan of ") == 1 and "The plan of new / b" in out
    assert run(capsys, "review", "--base", "base", "-s", "new")[1].startswith(f"### GPUs: +{month}")


def test_what_is_not_known_is_no_change_of_zero(capsys, tmp_path) -> None:
    """No place for it now, or a base declaration that cannot be read."""
    declare(tmp_path / "base", a=L4, b="a: {gpu: X1}")
    declare(tmp_path, a="a: {gpu: 'L4:1', max_price_per_hour: 0.001}")
    code, out, _ = run(capsys, "review", "--base", "base")
    assert code == 1 and "the change a month is not known" in out and "no place" in out
    declare(tmp_path, b=L4)
    out = run(capsys, "review", "--base", "base", "-s", "b")[1]
    assert "the change a month is not known" in out and "declared wrong" in out


def test_a_wrong_declaration_is_told_in_the_report(capsys, tmp_path) -> None:
    declare(tmp_path / "base", a=L4)
    declare(tmp_path, a="a: {gpu: 'L4:1', spott: never}")
    code, out, err = run(capsys, "review", "--base", "base")
    assert code == 2 and "### GPUs: a declaration is wrong" in out
    assert "spott" in out and "spott" in err
    code, out, err = run(capsys, "review", "--base", "nowhere")
    assert (code, out) == (2, "") and "--base: wanted the project's folder" in err


def test_a_second_run_updates_the_comment_of_the_first(capsys, tmp_path, github) -> None:
    """Among more than a page of others, one of which pretends to be ours; the token is nowhere."""
    github.add("<!-- gpus review: shop -->\nplanted")
    for _ in range(100):
        github.add("talk")
    declare(tmp_path / "base", a=L4)
    declare(tmp_path, a="a: {gpu: 'L4:2', spot: never}")
    code, out, err = run(capsys, "review", "--base", "base", "--github")
    assert (code, err) == (0, "") and out.startswith("comment made: https://github.example/")
    ours = github.comments[-1]
    assert len(github.comments) == 102 and "### GPUs: +$" in ours["body"]
    declare(tmp_path, a=L4)
    more = run(capsys, "review", "--base", "base", "--github")
    assert more[1].startswith("comment updated: ") and len(github.comments) == 102
    assert "nothing changes" in ours["body"] and "planted" in github.comments[0]["body"]
    assert TOKEN not in out + err + "".join(more[1:]) + str(github.comments)
    assert not (tmp_path / "summary.md").exists()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("fork", "403 (Resource not accessible by integration); the job needs `permissions"),
        ("moved", "GitHub answered 301"),
        ("silent", "GitHub gave no answer"),
        ("no token", "there is no token"),
        ("push", "this workflow runs for no pull request"),
    ],
)
def test_where_no_comment_is_allowed_the_report_is_in_the_summary(
    capsys, tmp_path, monkeypatch, github, fault, said
) -> None:
    """The job does not fail for it, and the token goes to no other address."""
    with serving(GitHub()) as elsewhere:
        github.read_only = fault == "fork"
        github.moved_to = elsewhere.url if fault == "moved" else ""
        if fault == "silent":
            monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:1")
        if fault == "no token":
            monkeypatch.delenv("GITHUB_TOKEN")
        if fault == "push":
            (tmp_path / "event.json").write_text("{}")
        declare(tmp_path / "base")
        declare(tmp_path, a=L4)
        code, out, err = run(capsys, "review", "--base", "base", "--github")
        assert code == 0 and said in out and github.comments == elsewhere.calls == []
        assert TOKEN not in out + err
        assert "### GPUs: +$" in (tmp_path / "summary.md").read_text()


def test_a_request_that_changes_no_gpus_gets_no_comment(capsys, tmp_path, github) -> None:
    declare(tmp_path / "base", a=L4)
    declare(tmp_path, a=L4)
    assert run(capsys, "review", "--base", "base", "--github")[0] == 0
    assert github.comments == []


def test_a_report_fits_into_a_comment() -> None:
    """Names are no markup, and plans that do not fit are counted."""
    plan = api.plan("L4:1", spot="prefer")
    cost = Cost("@all|<b>", "a", "gcp", 1_000_000, None)
    change = Change("@all|<b>", "a", None, cost, plan)
    text = as_markdown(Review((change,) * 30, 0, ()))
    assert 30_000 < len(text) < 65_536 and "more plans do not fit here" in text
    assert "| `@all/<b>` |" in text and "The plan of @all|&lt;b&gt; / a" in text
