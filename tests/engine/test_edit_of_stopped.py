"""Another workload is declared for a machine that is stopped, or was made without one: what is
noted as applied really runs there.
"""

import asyncio
from pathlib import Path

import pytest

from providers import errors
from providers.engine import operations
from providers.engine.readiness import access, handover
from providers.engine.reconcile.condition import Classified, condition_of
from providers.engine.reconcile.observe import Observation
from providers.engine.reconcile.on_preview import PreviewCase
from providers.engine.reconcile.on_update import UpdateCase
from providers.engine.reconcile.on_workload import WorkloadCase, WorkloadEdit
from providers.engine.reconcile.steps import STEPS, another_workload
from providers.engine.runtime.tasks import StopSignal
from providers.model.workload import BOOT_SCRIPT
from providers.plugin.preview import switch_line
from providers.rehearsal.node import StandInProbe
from providers.remote.probe import CLOSED, ProbeResult
from tests.present import present

BARE = {"kind": "machine"}
FIRST = {**BARE, "workload": {"command": "python3 first.py"}}
OTHER = {**BARE, "workload": {"command": "python3 other.py"}}
STOPPED = {"state": "stopped"}


def work(record):
    return dict(record.applied).get("work")


def booted(lab, record):
    """What was written by login onto the machine to be started there, also at its next boot."""
    looker = access.key_probe(lab.world, "owner1", "t", record.provider)
    assert isinstance(looker, StandInProbe)
    path = Path(present(looker.line(record.machines[0])).path(BOOT_SCRIPT))
    return path.read_text() if path.exists() else ""


def stopped(lab):
    record = lab.create(lab.wanted(FIRST))
    record = lab.update(record, lab.wanted({**FIRST, **STOPPED}))
    assert record.status == "stopped"
    return record


@pytest.mark.parametrize("provider", ["gcp", "aws"])
def test_a_workload_edited_while_stopped_is_started_with_the_machine(provider, rig) -> None:
    """It waits, said and not noted; the start carries it out. Nothing is bought."""
    lab = rig(provider)
    before = stopped(lab)
    waits = lab.update(before, lab.wanted({**OTHER, **STOPPED}))
    assert (waits.status, work(waits), booted(lab, waits)) == ("stopped", work(before), "")
    assert any("started once `state: running`" in text for text in lab.said)
    runs = lab.update(waits, lab.wanted(OTHER))
    assert (runs.status, runs.handles, runs.reasons) == ("running", before.handles, ())
    assert work(runs) not in (None, work(before)) and f"digest={work(runs)}" in booted(lab, runs)
    said = len(lab.said)
    assert work(lab.update(runs, lab.wanted(OTHER))) == work(runs) and len(lab.said) == said


def test_a_start_whose_workload_cannot_be_written_is_half_made(rig, monkeypatch) -> None:
    """The machine runs, and is noted so; the next `up` starts the workload alone, after a refresh
    too.
    """
    lab = rig("gcp")
    before = stopped(lab)
    real = handover.written

    async def full(_line, _files):
        return 1, "no space left"

    monkeypatch.setattr(handover, "written", full)
    half = lab.update(before, lab.wanted(OTHER))
    assert (half.status, work(half)) == ("running", work(before))
    assert "half-made" in half.reasons[0] and "no space left" in half.reasons[0]
    seen = lab.read(half)
    assert (seen.reasons, dict(seen.applied).get("untold")) == ((), "yes")
    monkeypatch.setattr(handover, "written", real)
    done = lab.update(seen, lab.wanted(OTHER))
    assert done.reasons == () and "untold" not in dict(done.applied)
    assert f"digest={work(done)}" in booted(lab, done)


def test_a_started_machine_gets_another_workload_once_it_takes_a_login(rig, monkeypatch) -> None:
    """What its cloud calls running may not answer yet."""
    lab = rig("gcp")
    before = stopped(lab)
    real, looks = StandInProbe.__call__, []

    async def closed_at_first(self, node, placed):
        looks.append(booted(lab, before))
        return ProbeResult(CLOSED) if len(looks) < 3 else await real(self, node, placed)

    monkeypatch.setattr(StandInProbe, "__call__", closed_at_first)
    runs = lab.update(before, lab.wanted(OTHER))
    assert looks == ["", "", ""] and f"digest={work(runs)}" in booted(lab, runs)


@pytest.mark.parametrize(
    ("status", "made_with"), [("stopped", FIRST), ("stopping", None), ("failed", BARE)]
)
def test_a_machine_that_somebody_stopped_is_replaced_by_an_edit_and_the_preview_says_so(
    status, made_with, rig
) -> None:
    """Whatever it was made with, and imported (None): what comes has the workload; no message says
    that it goes on, or is started again.
    """
    lab = rig("gcp")
    made = lab.create(lab.wanted(made_with or FIRST))
    seen = made._replace(status=status, applied=made.applied if made_with else ())
    step, edited = STEPS[condition_of(seen)], PreviewCase(seen, edited=True)
    assert step.preview(edited).startswith("REPLACES")
    assert not step.preview(edited._replace(edited=False)).startswith("REPLACES")
    assert another_workload(WorkloadCase(seen, wanted=True, stops=False)) == WorkloadEdit()
    assert switch_line(seen, lab.wanted(OTHER).setup) == ""
    new = updated(lab, seen, OTHER)
    assert (new.status, new.reasons) == ("running", ()) and new.handles != seen.handles
    assert [node.handle for node in lab.alive()] == list(new.handles) and work(new)


def test_one_that_somebody_stopped_stays_where_that_is_declared(rig) -> None:
    """Nothing is deleted for it, and the preview says so; one that failed is not bought again to be
    stopped.
    """
    lab = rig("gcp")
    seen = lab.create(lab.wanted(FIRST))._replace(status="stopped")
    step, case = STEPS[condition_of(seen)], PreviewCase(seen, edited=True, stops=True)
    assert "REPLACES" not in step.preview(case)
    assert another_workload(WorkloadCase(seen, wanted=True, stops=True)).later
    kept = updated(lab, seen, {**OTHER, **STOPPED})
    assert kept.handles == seen.handles and work(kept) == work(seen)
    with pytest.raises(errors.GpusError, match=r"wanted it stopped, found it failed; set state"):
        updated(lab, seen._replace(status="failed"), {**OTHER, **STOPPED})


def updated(lab, seen, spec):
    """What an `up` of this declaration makes of a record as it was observed."""

    async def follow(case):
        return case.after

    async def work():
        classified = Classified(condition_of(seen), seen)
        case = UpdateCase(
            *(lab.world, seen, Observation(), classified, lab.wanted(spec), StopSignal(lab.world)),
            *(follow, another_workload),
        )
        return await STEPS[classified.condition].update(case)

    return asyncio.run(work())


def test_without_the_key_a_start_with_another_workload_changes_nothing(rig, monkeypatch) -> None:
    lab = rig("gcp")
    before = stopped(lab)
    from providers.engine.reconcile import edit

    monkeypatch.setattr(edit, "key_probe", lambda *_args, **_more: None)
    with pytest.raises(errors.GpusError, match=r"found no key of this cluster.*gpus rerun t"):
        lab.update(before, lab.wanted(OTHER))
    assert [node.status for node in lab.alive()] == ["stopped"]


@pytest.mark.parametrize("provider", ["gcp", "aws", "clore", "modal"])
def test_a_workload_for_a_machine_made_without_one_is_refused(provider, rig) -> None:
    """A diff replaces it; an update that comes all the same notes nothing."""
    lab = rig(provider)
    bare = lab.create(lab.wanted(BARE))
    with pytest.raises(errors.GpusError, match=r"made without one.*gpus rerun t"):
        lab.update(bare, lab.wanted(FIRST))
    assert another_workload(WorkloadCase(bare, wanted=True, stops=False)).replaces


def test_a_workload_that_is_removed_runs_on_and_stays_noted(rig) -> None:
    """Declared again it is no edit; another one is started in its place."""
    lab = rig("gcp")
    before = lab.create(lab.wanted(FIRST))
    without = lab.update(before, lab.wanted({**BARE, "labels": {"team": "x"}}))
    assert work(without) == work(before)
    other = lab.update(without, lab.wanted(OTHER))
    assert f"digest={work(other)}" in booted(lab, other) and work(other) != work(before)


def test_a_machine_that_a_killed_run_made_without_a_workload_is_not_adopted_for_one(rig) -> None:
    """It could not start it: it goes, and one that does is bought."""
    lab = rig("gcp")
    bare = lab.create(lab.wanted(BARE))
    working = asyncio.run(operations.create(lab.world, lab.wanted(FIRST), "g2"))
    assert working.handles != bare.handles and work(working)
    assert [node.handle for node in lab.alive()] == list(working.handles)
    again = asyncio.run(operations.create(lab.world, lab.wanted(FIRST), "g3"))
    assert again.handles == working.handles and not any("restarted" in text for text in lab.said)


def test_a_workload_for_an_imported_machine_is_said_not_to_run(rig) -> None:
    """Nobody knows what it runs: that goes on, and nothing else is noted."""
    lab = rig("gcp")
    imported = lab.create(lab.wanted(FIRST))._replace(applied=())
    after = lab.update(imported, lab.wanted(OTHER))
    assert not work(after) and booted(lab, after) == ""
    assert any("what the imported machine runs goes on; `gpus rerun t" in text for text in lab.said)
