"""Jobs and services of a workload through the engine, on the four rehearsal clouds, with a clock
that does not wait.
"""

import asyncio
from typing import Any

import pytest

from providers.engine import keys, operations
from providers.engine.desired import ClusterSpec
from providers.engine.journal.orders import EVERY
from providers.engine.market import planning
from providers.engine.readiness import workload
from providers.engine.record import ClusterRecord
from providers.engine.runtime.world import open_world
from providers.errors import AllFailed
from providers.model.spec import read_cluster
from providers.rehearsal.store import open_store
from providers.testing.harness import StoreClock
from tests.present import present

CLOUDS = {"gcp": "L4:1", "aws": "L4:1", "clore": "RTX-4090:1", "modal": "L4:1"}
MACHINES = [name for name in CLOUDS if name != "modal"]
JOB: dict[str, Any] = {"kind": "job", "workload": {"command": "python3 train.py"}}
SERVICE: dict[str, Any] = {
    "kind": "service",
    "workload": {
        "launcher": "vllm",
        "model": "meta-llama/Llama-3.2-1B",
        "dtype": "bf16",
        "image": "vllm/vllm-openai:v0.19.1",
    },
}


class Rig:
    def __init__(self, provider) -> None:
        self.provider = provider
        self.store = open_store()
        self.said: list[str] = []
        self.world = open_world(
            "rehearsal",
            {},
            lambda _severity, text: self.said.append(text),
            clock=StoreClock(self.store),
        )

    def wanted(self, spec, **fields):
        made = read_cluster(
            "t", {"gpu": CLOUDS[self.provider], "providers": [self.provider], **spec, **fields}
        )
        return ClusterSpec(
            "owner1", "t", made.ask(), made.setup(), made.fingerprint(), ready="checked"
        )

    def create(self, wanted):
        return asyncio.run(operations.create(self.world, wanted, "g1"))

    def read(self, record, on_loss="replace-all"):
        kept = ClusterRecord.from_dict(record.to_dict())
        return asyncio.run(operations.read(self.world, kept, on_loss))

    def update(self, record, wanted):
        return asyncio.run(operations.update(self.world, record, wanted))

    def alive(self):
        adapter = self.world.adapter(self.provider)
        return [node for node in adapter.find("owner1") if node.status not in ("gone",)]


@pytest.fixture
def rig(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made = []

    def begin(provider):
        made.append(Rig(provider))
        return made[-1]

    yield begin
    for each in made:
        each.world.close()


@pytest.mark.parametrize("provider", CLOUDS)
def test_a_job_runs_to_its_end_and_is_never_bought_again(provider, rig) -> None:
    """Running, then ended with its exit code; the next update buys nothing and leaves nothing that
    costs money.
    """
    lab = rig(provider)
    wanted = lab.wanted(JOB)
    record = lab.create(wanted)
    assert (record.status, record.kind) == ("running", "job")
    lab.store.advance(60)
    record = lab.read(record)
    assert (record.status, record.machines[0].detail[-11:]) == ("ended", "exit code 0")
    orders = len(lab.world.journal.orders("rehearsal", "owner1"))
    record = lab.update(record, wanted)
    assert (record.status, record.reasons) == ("ended", ())
    assert len(lab.world.journal.orders("rehearsal", "owner1")) <= orders
    if provider != "modal":
        assert [node.status for node in lab.alive() if node.status in ("running", "stopped")] == []


@pytest.mark.parametrize("provider", MACHINES)
def test_a_failed_job_is_failed_with_its_code(provider, rig) -> None:
    """The exit code of what ran is the detail; it is done, and not tried again."""
    lab = rig(provider)
    lab.store.add_fault(provider, "node.work", "job-fails", None, code=7)
    record = lab.create(lab.wanted(JOB))
    lab.store.advance(60)
    record = lab.read(record)
    assert (record.status, record.machines[0].detail) == ("failed", "exit code 7")
    assert lab.update(record, lab.wanted(JOB)).status == "failed"


@pytest.mark.parametrize("provider", MACHINES)
def test_a_finished_job_keeps_its_machine_where_that_is_said(provider, rig) -> None:
    """`on_done: keep` leaves the machine, and asks for nothing."""
    lab = rig(provider)
    wanted = lab.wanted({**JOB, "workload": {**JOB["workload"], "on_done": "keep"}})
    record = lab.create(wanted)
    lab.store.advance(60)
    record = lab.read(record)
    assert (record.status, record.reasons) == ("ended", ())
    assert lab.update(record, wanted).machines


@pytest.mark.parametrize("provider", CLOUDS)
def test_a_service_is_had_once_it_answers(provider, rig) -> None:
    """The purchase ends with the first answer of the workload's own health path, not with the
    machine.
    """
    lab = rig(provider)
    record = lab.create(lab.wanted(SERVICE))
    assert (record.status, record.reasons) == ("running", ())
    if provider != "modal":
        order = lab.world.journal.orders("rehearsal", "owner1")[0].order
        said = asyncio.run(
            workload.word(lab.world, lab.world.adapter(provider), record.machines[0], order)
        )
        assert said.state == "ready"


@pytest.mark.parametrize("provider", MACHINES)
def test_slow_service_ends_the_walk_after_one_purchase_and_blocks_no_place(
    provider, rig, monkeypatch
) -> None:
    """Started, and no answer within the wait: the machine goes, no other is bought, and the message
    says which field to set.
    """
    lab = rig(provider)
    monkeypatch.setattr(
        workload, "last", lambda _text: workload.WorkloadStatus("running", "", "other")
    )
    with pytest.raises(AllFailed) as caught:
        lab.create(
            lab.wanted(
                SERVICE,
                wait="1m",
                max_price_per_hour=1,
                **({"regions": ["us-central1"]} if provider == "gcp" else {}),
            )
        )
    said = str(caught.value)
    assert said.startswith(
        "t: wanted the service to answer within 1m, found it started, not ready: "
    )
    assert "set a longer `wait` than 1m" in said and "sold out" not in said
    assert [attempt.outcome for attempt in caught.value.attempts] == ["NotReady"]
    assert lab.world.journal.blocks("rehearsal") == ()
    assert [node.status for node in lab.alive() if node.status == "running"] == []


def set_up_ends(monkeypatch, lab, word) -> None:
    """Each service's script ends so, in its order's own name."""

    async def told(_world, _adapter, _node, order):
        return word._replace(digest=order.setup.script_digest)

    monkeypatch.setattr(workload, "word", told)


@pytest.mark.parametrize("provider", MACHINES)
@pytest.mark.parametrize(
    "detail", ["127 the image foo/bar has no sh", "1 the setup lines, see the log"]
)
def test_setup_of_the_declaration_that_fails_ends_the_walk_after_one_purchase(
    provider, detail, rig, monkeypatch
) -> None:
    """The same lines and image would end alike at every place: one machine is paid for, none of the
    places is blocked, and the fields are named.
    """
    lab = rig(provider)
    set_up_ends(monkeypatch, lab, workload.WorkloadStatus("setup-wrong", detail))
    with pytest.raises(AllFailed) as caught:
        lab.create(lab.wanted(SERVICE, max_price_per_hour=2))
    said = str(caught.value)
    assert said.startswith(f"t: wanted the service to answer, found its set-up ended with {detail}")
    assert (
        "correct `workload.setup` or `workload.image`" in said and "no other place is tried" in said
    )
    assert (
        len(caught.value.attempts)
        == len(
            [
                order
                for order in lab.world.journal.orders("rehearsal", "owner1", states=EVERY)
                if order.handles
            ]
        )
        == 1
    )
    assert lab.world.journal.blocks("rehearsal") == ()
    assert [node.status for node in lab.alive() if node.status == "running"] == []


@pytest.mark.parametrize("provider", MACHINES)
def test_setup_that_the_machine_fails_goes_on_to_the_next_place(provider, rig, monkeypatch) -> None:
    """Docker that cannot be installed is one machine's fault: the next place is tried; a cloud of
    which two in a row fail so is left alone, where its machines share a network.
    """
    lab = rig(provider)
    set_up_ends(
        monkeypatch,
        lab,
        workload.WorkloadStatus("setup-failed", "1 docker could not be installed, see the log"),
    )
    with pytest.raises(AllFailed) as caught:
        lab.create(lab.wanted(SERVICE, max_price_per_hour=2))
    made = [attempt for attempt in caught.value.attempts if attempt.code == "set-up"]
    said = " ".join(str(caught.value).split())
    assert len(made) >= 2 and "docker could not be installed" in said
    if provider != "clore":
        assert len(made) == 2 and any(
            "2 machines in a row could not be set up" in text for text in lab.said
        )
    assert [node.status for node in lab.alive() if node.status == "running"] == []


@pytest.mark.parametrize("provider", MACHINES)
def test_an_edit_of_the_workload_runs_it_anew_on_the_held_machine(provider, rig) -> None:
    """Another command: no purchase, the same machine, and its end is that of the new one."""
    lab = rig(provider)
    record = lab.create(lab.wanted(JOB))
    edited = lab.wanted({**JOB, "workload": {"command": "python3 other.py"}})
    after = lab.update(record, edited)
    assert after.handles == record.handles
    assert dict(after.applied)["work"] != dict(record.applied)["work"]
    assert any("restarted" in text for text in lab.said)
    assert lab.read(after).status == "running"
    lab.store.advance(60)
    assert lab.read(after).status == "ended"


def test_a_kind_that_needs_a_workload_says_so_in_the_plan(rig) -> None:
    """A job on a cloud of machines without a workload is refused by the rule `kind`, with what
    would do.
    """
    rig("gcp")
    made = read_cluster(
        "t",
        {"gpu": "L4", "kind": "job", "providers": ["gcp"], "options": {"modal": {"command": "x"}}},
    )
    plan = planning.plan(made.ask())
    assert not plan.candidates
    assert any(
        found.rule == "kind" and "without a workload" in found.found for found in plan.rejections
    )


def test_b39_what_cannot_hold_the_model_is_refused_by_the_rule_fit(rig) -> None:
    """B39: for the first choice and for each fallback, with the arithmetic."""
    rig("gcp")
    spec = {
        "gpu": "H100:1",
        "fallback": ["A100:2", "H100:4"],
        "kind": "service",
        "workload": {**SERVICE["workload"], "model": "meta-llama/Llama-3.1-70B"},
    }
    plan = planning.plan(read_cluster("t", spec).ask())
    assert {(candidate.gpu_type, candidate.gpu_count) for candidate in plan.candidates} <= {
        ("H100", 4),
        ("H100-PCIe", 4),
    }
    why = {found.offer.gpu_type: found.found for found in plan.rejections if found.rule == "fit"}
    assert "are usable" in why["H100"]
    assert "36.0 are usable" in why["A100"]


def test_work_per_dollar_is_the_cheapest_run_where_the_workload_says_how_long_it_is(rig) -> None:
    """Five hours on a T4: an A100 costs more an hour and less for the run."""
    rig("gcp")
    spec = {
        "gpu": ["T4:1", "A100:1"],
        "kind": "job",
        "providers": ["gcp"],
        "workload": {"command": "train", "train": {"hours": {"T4": 5}}},
    }
    by_price = planning.plan(read_cluster("t", {**spec, "rank": "price"}).ask())
    by_job = planning.plan(read_cluster("t", {**spec, "rank": "performance_per_dollar"}).ask())
    assert present(by_price.best).gpu_type == "T4"

    def cost(candidate):
        return (
            candidate.micro_usd
            * present(by_job.terms.fits)(
                by_job.ask.entries[candidate.entry], candidate.gpu_type, 1
            ).job_hours
        )

    costs = [cost(candidate) for candidate in by_job.candidates]
    assert costs == sorted(costs)
    assert any("the run: about" in note for note in by_job.notes)


def test_a_token_is_made_once_and_kept_for_its_owner_alone(rig) -> None:
    """The same token for the same cluster, in a file that only this user reads."""
    rig("gcp")
    first = keys.token("rehearsal", "owner1", "t")
    assert keys.token("rehearsal", "owner1", "t") == first
    path = keys.folder("rehearsal", "owner1", "t") / keys.TOKEN_FILE
    assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_a_failing_job_can_be_rehearsed_from_the_command_line(rig, capsys) -> None:
    """`gpus rehearse fault gcp node.work job-fails --set code=3` is what the next job there ends
    with.
    """
    from providers.cli import rehearse

    lab = rig("gcp")
    assert rehearse.run(["fault", "gcp", "node.work", "job-fails", "--set", "code=3"]) == 0
    record = lab.create(lab.wanted(JOB))
    lab.store.advance(60)
    assert lab.read(record).machines[0].detail == "exit code 3"
