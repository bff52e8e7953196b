"""`gpus accept` of a rehearsal's machines: the real engine over the rehearsal clouds."""

import json

import pytest

from tests.engine.test_what_has_ended import MACHINE, Rig

CLORE = {"gpu": "RTX-4090:1", "providers": ["clore"], "ttl": "2h"}


@pytest.fixture
def rig(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made = Rig(capsys)
    yield made
    made.world.close()


def test_a_sound_stand_in_passes_and_says_that_nothing_was_measured(rig) -> None:
    rig.create(MACHINE)
    code, out, _ = rig.gpus("accept", "t")
    assert code == 0 and "rehearsal stand-in: nothing is measured" in out
    assert out.splitlines()[-1] == "t: pass"


def test_a_relabelled_card_fails_and_stays_what_it_is(rig) -> None:
    """Its name and memory are those of a 4090, its speed is that of a 3090; also when looked at
    again, as JSON.
    """
    rig.create(CLORE)
    code, _, err = rig.gpus(
        "rehearse", "fault", "clore", "node.accept", "relabelled", "--set", "name=RTX-3090"
    )
    assert code == 0, err
    code, out, _ = rig.gpus("accept", "t")
    assert code == 1 and "t: not what was sold: GPU 0:" in out and "TFLOP/s in bf16" in out
    code, out, _ = rig.gpus("accept", "t", "--json")
    found = json.loads(out)
    assert code == 1 and [each["verdict"] for each in found] == ["not what was sold"]
    assert found[0]["machine"] == "t" and found[0]["measured"]["gpus"][0]["name"] == "RTX-4090"


def test_every_machine_of_a_cluster_is_measured_and_one_can_be_chosen(rig) -> None:
    rig.create({**MACHINE, "nodes": 2})
    _, out, _ = rig.gpus("accept", "t", "--json")
    assert [each["machine"] for each in json.loads(out)] == ["t-0", "t-1"]
    _, out, _ = rig.gpus("accept", "t", "--json", "--node", "1")
    assert [each["machine"] for each in json.loads(out)] == ["t-1"]


def test_what_a_machine_is_to_be_is_said_only_of_this_one(rig) -> None:
    rig.create(MACHINE)
    code, _, err = rig.gpus("accept", "t", "--gpu", "H100:8")
    assert code == 2 and "its record says" in err
    code, _, err = rig.gpus("accept", "--gpu", "H999")
    assert code == 2 and "--gpu: wanted a GPU such as H100:8" in err
