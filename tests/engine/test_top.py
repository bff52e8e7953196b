"""`gpus top` and `gpus doctor --json` of a rehearsal's machines."""

import json

import pytest

from tests.engine.test_what_has_ended import MACHINE, Rig


@pytest.fixture
def rig(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made = Rig(capsys)
    yield made
    made.world.close()


def test_every_gpu_of_every_machine_is_shown(rig) -> None:
    rig.create({**MACHINE, "nodes": 2})
    code, out, _ = rig.gpus("top")
    rows = [line.split() for line in out.splitlines() if "H100" in line]
    assert code == 0 and len(rows) == 16 and {row[0] for row in rows} == {"t", "t-1"}
    assert "97 %" in out and "0.0 of 80.0 GiB" in out
    _, out, _ = rig.gpus("top", "-s", "dev", "--json")
    found = json.loads(out)
    assert [(each["node"], len(each["gpus"]), each["xids"]) for each in found] == [
        (0, 8, None),
        (1, 8, None),
    ]


def test_what_the_scenario_lets_be_idle_is_shown_so(rig) -> None:
    rig.create(MACHINE)
    rig.gpus("rehearse", "idle", "all")
    _, out, _ = rig.gpus("top", "t")
    assert "97 %" not in out and " 0 %" in out


def test_a_machine_whose_driver_is_gone_has_a_row_with_the_reason(rig) -> None:
    record = rig.create(MACHINE)
    (smi,) = rig.store.path.parent.rglob(f"{record.machines[0].name}/bin/nvidia-smi")
    smi.write_text("#!/bin/sh\necho the driver is not loaded >&2\nexit 9\n")
    code, out, _ = rig.gpus("top", "t")
    assert code == 0 and "the driver is not loaded" in out


def test_where_nothing_runs_a_line_says_so(rig) -> None:
    code, out, err = rig.gpus("top")
    assert (code, out) == (1, "") and "nothing runs that could be looked at" in err


def test_doctor_answers_in_json(rig) -> None:
    rig.create(MACHINE)
    code, out, _ = rig.gpus("doctor", "t", "--json")
    (found,) = json.loads(out)
    assert code == 0 and (found["name"], found["state"]) == ("driver", "ok")
