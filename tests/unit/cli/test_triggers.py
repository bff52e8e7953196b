"""`gpus rerun` and `gpus reclaim`: they write the stack's configuration, and Pulumi acts on it."""

import pytest

from providers.cli import main

STACK = """
config:
  gpus:world: rehearsal
  gpus:clusters:
    train: {gpu: "L4:1", triggers: {rerun: 2}}
    short: "L4:1"
"""


@pytest.fixture
def pulumi(tmp_path, monkeypatch):
    """The words of each `pulumi` that was started; its exit code is in the file `code`."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: gpus\nruntime: python\n")
    (tmp_path / "Pulumi.s.yaml").write_text(STACK)
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "pulumi"
    tool.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/words\necho "no stack named s" >&2\n'
        f"exit $(cat {tmp_path}/code 2>/dev/null || echo 0)\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    return lambda: (tmp_path / "words").read_text().splitlines()


@pytest.mark.parametrize(("command", "count"), [("rerun", 3), ("reclaim", 1)])
def test_a_command_raises_its_trigger_and_names_the_up(pulumi, capfd, command, count) -> None:
    """Nothing but the stack's configuration is touched."""
    assert main.main([command, "train", "-s", "s"]) == 0
    (words,) = pulumi()
    assert words.endswith(
        f'config set --path gpus:clusters["train"].triggers.{command} {count} -s s'
    )
    said = capfd.readouterr().out
    assert f"train.triggers.{command} is {count} now" in said and "next: pulumi up -s s" in said


def test_up_follows_where_it_is_asked_for_and_its_exit_code_is_the_commands(
    pulumi, tmp_path, capfd
) -> None:
    """`--up` runs it; it asks by itself unless `--yes`. Where the configuration could not be
    written nothing follows.
    """
    assert main.main(["rerun", "train", "-s", "s", "--up"]) == 0
    assert pulumi()[1].endswith("up -s s")
    assert main.main(["rerun", "train", "-s", "s", "--up", "--yes"]) == 0
    assert pulumi()[3].endswith("up -s s --yes")
    (tmp_path / "code").write_text("255")
    assert main.main(["rerun", "train", "-s", "s", "--up"]) == 2
    assert len(pulumi()) == 5 and "no stack named s" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("trian", "wanted a cluster of stack s, found 'trian' (near: train)"),
        ("short", "write short: {gpu: 'L4:1'}"),
    ],
)
def test_a_cluster_that_has_no_room_for_it_is_refused(pulumi, tmp_path, capfd, name, words) -> None:
    """One that is not declared, and one that is only a GPU's name."""
    assert main.main(["rerun", name, "-s", "s"]) == 2
    assert words in capfd.readouterr().err and not (tmp_path / "words").exists()
