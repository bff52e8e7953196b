"""A declared folder through the engine, on rehearsal clouds: their machines' stand-ins get it as
real ones would.
"""

from pathlib import Path

import pytest

from providers.engine.market import planning
from providers.engine.readiness import access
from providers.errors import AllFailed, GpusError
from providers.model.spec import read_cluster
from providers.model.workload import ROOT
from providers.planner import rules
from providers.rehearsal.node import StandInProbe
from providers.remote import tree
from tests.engine.test_workloads import JOB
from tests.present import present


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("print('v1')\n")
    return folder


def declared(project, **more):
    return {**JOB, "workdir": tree.field(str(project), project), **more}


def folders(lab, record):
    """Where each machine's folder lies."""
    looker = access.key_probe(lab.world, "owner1", "t", record.provider)
    assert isinstance(looker, StandInProbe)
    return [Path(present(looker.line(node)).path(f"{ROOT}/workdir")) for node in record.machines]


@pytest.mark.parametrize("nodes", [1, 2])
def test_every_machine_gets_the_folder_before_its_workload_starts(rig, project, nodes) -> None:
    """With the marker that the start-up script of the order waits for."""
    lab = rig("gcp")
    spec = declared(project, nodes=nodes, gpu="H100:8", spot="prefer")
    if nodes > 1:
        spec["workload"] = {"launcher": "torchrun", "command": "train.py"}
    record = lab.create(lab.wanted(spec))
    assert record.status == "running"
    digest = spec["workdir"]["digest"]
    order = lab.world.journal.orders("rehearsal", "owner1")[0].order
    assert f"workdir={digest}\n" in order.setup.script
    for folder in folders(lab, record):
        assert (folder / "train.py").read_text() == "print('v1')\n"
        assert folder.with_name("workdir.digest").read_text().strip() == digest
    told = "1 machine" if nodes == 1 else "2 machines"
    assert f"t: sends what differs of {project} (1 files, 12 bytes, to {told})" in lab.said


def test_an_edit_of_the_folder_is_sent_and_the_workload_started_anew(rig, project) -> None:
    """On the same machine; what the job wrote into the folder stays."""
    lab = rig("gcp")
    record = lab.create(lab.wanted(declared(project)))
    (folder,) = folders(lab, record)
    (folder / "out").write_text("3 epochs")
    (project / "train.py").write_text("print('v2')\n")
    after = lab.update(record, lab.wanted(declared(project)))
    assert after.handles == record.handles
    assert (folder / "train.py").read_text() == "print('v2')\n"
    assert (folder / "out").read_text() == "3 epochs"
    assert lab.said[-1] == "t: what runs there was restarted"
    said = len(lab.said)
    assert lab.update(after, lab.wanted(declared(project))).handles == record.handles
    assert not any("sends" in line for line in lab.said[said:])


def test_a_folder_that_has_gone_from_here_ends_the_walk_and_keeps_nothing(rig, project) -> None:
    """No other place would do: the first machine is released, and the error says what is missing."""
    lab = rig("gcp")
    wanted = lab.wanted(declared(project), spot="prefer")
    project.rename(project.with_name("moved"))
    with pytest.raises(AllFailed, match=f"no folder at {project}"):
        lab.create(wanted)
    assert [node.status for node in lab.alive() if node.status == "running"] == []
    orders = lab.world.journal.orders("rehearsal", "owner1", states=("released",))
    assert len(orders) == 1


def test_an_edit_that_cannot_be_sent_leaves_what_runs(rig, project) -> None:
    """The next update tries again."""
    lab = rig("gcp")
    record = lab.create(lab.wanted(declared(project)))
    (project / "train.py").write_text("print('v2')\n")
    wanted = lab.wanted(declared(project))
    project.rename(project.with_name("moved"))
    with pytest.raises(GpusError, match="no folder at"):
        lab.update(record, wanted)
    project.with_name("moved").rename(project)
    after = lab.update(record, wanted)
    assert after.applied != record.applied
    assert (folders(lab, after)[0] / "train.py").read_text() == "print('v2')\n"


@pytest.mark.parametrize("provider", ["modal", "vertex"])
def test_a_provider_that_takes_no_key_is_refused_in_the_plan(rig, project, provider) -> None:
    """With the reason, and before anything is bought."""
    rig("gcp")
    spec = declared(project, gpu="T4:1", providers=[provider, "gcp"])
    spec["workload"] = {"image": "some/image:1", "command": "python train.py"}
    cluster = read_cluster("t", spec)
    plan = planning.plan(cluster.ask(), setup=cluster.setup())
    assert {each.provider for each in plan.candidates} == {"gcp"}
    found = [each for each in plan.rejections if each.offer.provider == provider]
    refused = [each for each in found if each.rule == rules.NAMES[rules.REACH]]
    assert refused and f"{provider} takes no key" in refused[0].found
