"""`--json`: every command that prints facts has it, and its answer alone is on stdout."""

import json
import re
from pathlib import Path

import pytest

from providers.cli import main
from tests.unit.cli.rig import run

PAGE = Path(main.__file__).parents[2] / "docs" / "reference" / "cli.md"
ASKED = {
    "offers": ("L4:1",),
    "plan": ("L4:1",),
    "plan -s": ("dev",),
    "hardware": ("L4",),
    "size": ("7b",),
    "size --models": (),
    "size --hours": ("T4=5,L4=2",),
    "check": ("aws",),
    "ps": (),
    "spend": (),
    "cost": ("-s", "dev"),
    "prices": (),
    "prices refresh": ("gcp",),
    "explain": ("gcp/us-east4-a/g2-standard-4",),
    "top": (),
    "sweep": (),
    "doctor": (),
    "rehearse": (),
}
"""A question to each command that needs no machine. `wait` and `accept` look at one."""
ELSEWHERE = {"wait NAME", "accept NAME"}


def shapes() -> dict[str, str]:
    """What the page says of each command's answer: `list` or `object`."""
    table = PAGE.read_text().partition("## JSON")[2].partition("\n## ")[0]
    found: dict[str, str] = {}
    for names, shape in re.findall(r"^\| (`gpus .+?`) \| (list|object)\b", table, re.MULTILINE):
        found |= dict.fromkeys(re.findall(r"`gpus (.+?)`", names), shape)
    return found


@pytest.mark.parametrize("command", ASKED)
def test_the_answer_alone_is_on_stdout(capsys, tmp_path, command) -> None:
    """It is one JSON value of the shape that the page names, whatever stderr says besides."""
    (tmp_path / "Pulumi.yaml").write_text("name: x\nruntime: python\n")
    clusters = "    a: {gpu: 'L4:1', ttl: 1h}\n    b: {gpu: 'T4:1', ttl: 1h}\n"
    (tmp_path / "Pulumi.dev.yaml").write_text(
        f"config:\n  gpus:world: rehearsal\n  gpus:clusters:\n{clusters}"
    )
    _, out, err = run(capsys, *command.split(), *ASKED[command], "--json")
    assert {"list": list, "object": dict}[shapes()[command]] is type(json.loads(out)), err


def test_the_page_names_the_shape_of_every_answer() -> None:
    """Every command that is asked here has a row, and no other has."""
    assert set(shapes()) == {*ASKED, *ELSEWHERE}


def test_plans_of_a_stack_are_a_list_with_the_name_of_each(capsys, tmp_path) -> None:
    """Two clusters are one JSON value too."""
    (tmp_path / "Pulumi.yaml").write_text("name: x\nruntime: python\n")
    clusters = "    a: {gpu: 'L4:1', ttl: 1h}\n    b: {gpu: 'T4:1', ttl: 1h}\n"
    (tmp_path / "Pulumi.dev.yaml").write_text(
        f"config:\n  gpus:world: rehearsal\n  gpus:clusters:\n{clusters}"
    )
    plans = json.loads(run(capsys, "plan", "-s", "dev", "--json")[1])
    assert [each["cluster"] for each in plans] == ["a", "b"]
