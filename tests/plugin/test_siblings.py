"""Each cluster of a stack stands for itself: one without a place leaves the others alone, and the
run fails at its end naming it.
"""

import asyncio
import json

import pytest

from providers.engine.journal import process
from providers.plugin import siblings

TWO = """
    bad:
      gpu: {gpu}
      providers: [gcp]
      max_price_per_hour: {cap}
    good:
      gpu: L4:1
      spot: only
      providers: [gcp]
"""


def declared(made, gpu, cap) -> None:
    made.file.write_text(f"{made.head}\n  gpus:clusters:{TWO.format(gpu=gpu, cap=cap)}")


@pytest.mark.parametrize("bad", ["new", "edited"])
def test_one_cluster_without_a_place_leaves_the_others_bought_back(project, bad) -> None:
    """Two clusters, one preempted, the other without any acceptable place: `preview` shows both and
    fails; `up`, its own preview included, buys the one back and fails naming the other; what runs
    of that one stays.
    """
    made = project("serve-l4")
    made.head = made.file.read_text().partition("\n  gpus:clusters:")[0]
    declared(made, "T4:1", 5)
    if bad == "new":
        made.file.write_text(
            f"{made.head}\n  gpus:clusters: {{good: {{gpu: L4:1, spot: only, providers: [gcp]}}}}\n"
        )
    made.up()
    before = {machine["name"] for machine in made.machines()}
    lost = next(name for name in before if name.startswith("good-"))
    declared(made, "H100:8", 0.5)
    made.rehearse("preempt", lost)
    made.rehearse("advance", "2m")
    shown = made.preview(fails=True)
    assert (
        shown.count("best per provider") >= 1
        and "bad: nothing acceptable for H100:8" in shown
        and " good" in shown
    )
    said = made.run("up", "-s", made.stack, "--yes", fails=True)
    assert "bad" in said and "good-" in said and ": acquired" in said
    names = {machine["name"] for machine in made.machines()}
    assert [name for name in names if name.startswith("good-")] and lost not in names
    assert before - {lost} <= names and len(names) == len(before)
    made.destroy()
    assert made.machines() == []


def test_failure_waits_until_every_other_cluster_is_begun(monkeypatch) -> None:
    """It is told last, whatever the order; a cluster that is never begun holds it up for a bounded
    time only.
    """
    monkeypatch.setattr(siblings, "WAIT_S", 0.5)
    told = siblings.Siblings()
    order = []

    async def main() -> None:
        told.begin("bad")

        async def fail() -> None:
            await told.others("bad", {"bad", "slow", "quick"})
            order.append("failed")

        task = asyncio.ensure_future(fail())
        for name in ("quick", "slow"):
            await asyncio.sleep(0)
            order.append(name)
            told.begin(name)
        await task
        await told.others("bad", {"bad", "dependent"})
        await told.others("read only", {"dependent"})

    asyncio.run(main())
    assert order == ["quick", "slow", "failed"]


@pytest.mark.parametrize(
    ("words", "previews"),
    [
        ("pulumi preview -s up", True),
        ("pulumi --non-interactive -C preview pre", True),
        ("pulumi up -s preview --yes", False),
        ("pulumi update --stack pre -m preview", False),
        ("python -m pytest", False),
    ],
)
def test_command_is_read_from_the_process_that_started_the_plugin(
    monkeypatch, words, previews
) -> None:
    """Only `pulumi preview` is one, whatever the stack and the folder are called."""
    monkeypatch.setattr(process, "words", lambda _pid: tuple(words.split()))
    assert siblings.only_previews(1) is previews


def test_command_is_read_without_proc(monkeypatch, tmp_path) -> None:
    """Where there is no /proc, `ps` says it; an unknown process has none."""
    tool = tmp_path / "ps"
    tool.write_text('#!/bin/sh\n[ "$*" = "-ww -o args= -p 77" ] && echo "pulumi preview -s dev"\n')
    tool.chmod(0o755)
    monkeypatch.setattr(process, "PROC", tmp_path / "proc")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert process.words(77) == ("pulumi", "preview", "-s", "dev")
    assert siblings.only_previews(77) is True and process.words(78) == ()


@pytest.mark.parametrize(("locked", "previews"), [(True, False), (False, True), (None, None)])
def test_lock_of_the_backend_tells_a_preview_where_no_command_can_be_read(
    monkeypatch, tmp_path, locked, previews
) -> None:
    """An `up` locks its stack before its own preview; another backend than a folder tells nothing."""
    monkeypatch.setattr(process, "words", lambda _pid: ())
    monkeypatch.setenv(
        "PULUMI_BACKEND_URL", f"file://{tmp_path}" if locked is not None else "s3://bucket"
    )
    folder = tmp_path / ".pulumi" / "locks" / "organization" / "project" / "dev"
    folder.mkdir(parents=True)
    (tmp_path / ".pulumi" / "stacks").mkdir()
    (folder / "1.json").write_text(json.dumps({"pid": 77 if locked else 78}))
    assert siblings.only_previews(77) is previews


def test_preview_without_a_place_fails_where_no_command_can_be_read(project) -> None:
    """With neither /proc nor `ps`, `pulumi preview` still fails, and the preview of `pulumi up`
    still buys the others.
    """
    made = project("serve-l4")
    made.head = made.file.read_text().partition("\n  gpus:clusters:")[0]
    hide = made.folder / "hide"
    hide.mkdir()
    (hide / "sitecustomize.py").write_text(
        "import os, pathlib, subprocess\n"
        "real, run = pathlib.Path.read_bytes, subprocess.run\n"
        "def read_bytes(self):\n"
        "    if self.name == 'cmdline':\n"
        "        raise FileNotFoundError(self)\n"
        "    return real(self)\n"
        "def hidden(argv, *rest, **more):\n"
        "    if argv and argv[0] == 'ps':\n"
        "        raise FileNotFoundError('ps')\n"
        "    return run(argv, *rest, **more)\n"
        "pathlib.Path.read_bytes, subprocess.run = read_bytes, hidden\n"
    )
    made.env["PYTHONPATH"] = str(hide)
    declared(made, "H100:8", 0.5)
    assert "bad: nothing acceptable for H100:8" in made.preview(fails=True)
    said = made.run("up", "-s", made.stack, "--yes", fails=True)
    assert "good-" in said and ": acquired" in said
    assert [machine for machine in made.machines() if machine["name"].startswith("good-")]
    made.destroy()
