"""`gpus memory`: what is remembered against places, shown and forgotten."""

import json

import pytest

from providers.cli.main import main
from providers.engine.runtime.world import open_world
from providers.model.place import Scope


@pytest.fixture
def remembered(tmp_path, monkeypatch):
    """One place is sold out, and one closed to the account; an old refusal has expired."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    world = open_world("rehearsal")
    now = world.clock.now()
    sold, old = Scope("gcp", "us-east4", "us-east4-a", "g2-standard-4", "", "spot"), Scope("modal")
    world.journal.block(world.name, sold, 600, "sold out (ZONE_RESOURCE)", now)
    world.journal.block(world.name, old, 60, "busy", now - 3_600)
    closed = Scope("aws", "af-south-1")
    world.journal.close_to(world.name, None, closed, "opt in to it", now + 86_400)
    world.journal.note_tries(world.name, [sold, closed], "refused", 9.0, now)
    world.close()


def test_what_was_refused_is_shown_with_when_it_is_asked_again(remembered, capsys) -> None:
    """Sold out as a table, closed to the account with what to do; nothing of what has expired."""
    assert main(["memory"]) == 0
    shown = capsys.readouterr().out
    assert " ".join(shown.split()).count("gcp us-east4-a g2-standard-4 spot sold out 20") == 1
    assert "aws af-south-1: closed to the account: opt in to it" in shown and "modal" not in shown
    assert main(["memory", "gcp", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["provider"], row["zone"], row["account"]) == ("gcp", "us-east4-a", False)


def test_one_provider_or_all_is_forgotten(remembered, capsys) -> None:
    """The others stay; also what was tried there is forgotten."""
    assert main(["memory", "aws", "--forget"]) == 0
    assert "forgot 1 place" in capsys.readouterr().out
    assert main(["memory"]) == 0
    shown = capsys.readouterr().out
    assert "us-east4-a" in shown and "af-south-1" not in shown
    assert main(["memory", "--forget"]) == 0 and main(["memory"]) == 0
    assert "nothing is remembered" in capsys.readouterr().out
    world = open_world("rehearsal")
    assert world.journal.tries(world.name) == ()
    world.close()


def test_unknown_provider_is_named_with_the_known_ones(capsys) -> None:
    """And with the one that was meant."""
    assert main(["memory", "gpc"]) == 2
    assert "wanted one of aws, clore, gcp" in capsys.readouterr().err
