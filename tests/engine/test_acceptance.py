"""Acceptance of a rehearsal's machines, as a command and as a step of a purchase: the real engine
over the rehearsal clouds.
"""

import asyncio
import io
import json
import sys

import pytest

from providers.engine import operations
from providers.engine.journal import orders as order_table
from providers.engine.market import planning
from providers.engine.readiness import access
from providers.errors import AllFailed, GpusError, SpecError
from providers.model.spec import read_cluster
from providers.model.workload import ROOT
from providers.rehearsal import played_answer
from providers.rehearsal.node import StandInProbe
from providers.rehearsal.script import unpacked
from tests.engine.test_what_has_ended import MACHINE, VERTEX, Rig

EFA = {"gpu": "H100:1", "nodes": 2, "providers": ["aws"], "ttl": "2h"}
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


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("words", [("accept", "t"), ("top", "t", "--once")])
def test_on_a_terminal_colours_are_drawn_and_not_shown_as_escapes(rig, monkeypatch, words) -> None:
    """The table is rich's own; what it holds went through the screen."""
    rig.create(MACHINE)
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    rig.gpus(*words)
    drawn = shown.getvalue()
    assert "\x1b[32m" in drawn and "\\x1b" not in drawn


def test_every_machine_of_a_cluster_is_measured_and_one_can_be_chosen(rig) -> None:
    rig.create({**MACHINE, "nodes": 2})
    _, out, _ = rig.gpus("accept", "t", "--json")
    assert [each["machine"] for each in json.loads(out)] == [
        "t-0",
        "t-1",
        "t, between its machines",
    ]
    _, out, _ = rig.gpus("accept", "t", "--json", "--node", "1")
    assert [each["machine"] for each in json.loads(out)] == ["t-1"]


def test_what_a_machine_is_to_be_is_said_only_of_this_one(rig) -> None:
    rig.create(MACHINE)
    code, _, err = rig.gpus("accept", "t", "--gpu", "H100:8")
    assert code == 2 and "its record says" in err
    code, _, err = rig.gpus("accept", "--gpu", "H999")
    assert code == 2 and "--gpu: wanted a GPU such as H100:8" in err


def created(rig, spec, accept="quick"):
    wanted = rig.wanted(spec)._replace(accept=accept)
    return asyncio.run(operations.create(rig.world, wanted, "g1"))


def test_a_3090_sold_as_a_4090_is_released_and_the_next_host_is_taken(rig) -> None:
    """The reason stands in the attempts, and the host is left alone for a day."""
    rig.gpus(
        *"rehearse fault clore node.accept relabelled --set name=RTX-3090".split(),
    )
    record = created(rig, CLORE)
    first, second = record.attempts
    assert (first.outcome, second.outcome) == ("NotWhatWasSold", "acquired")
    assert "TFLOP/s in bf16, where RTX-4090 reaches" in first.message
    assert record.status == "running" and len(record.machines) == 1
    (block,) = rig.world.journal.blocks("rehearsal")
    assert block.scope.machine_type == first.machine_types[0] != record.placement.machine_type
    assert block.until - rig.world.clock.now() > 86_000
    assert rig.gpus("accept", "t")[0] == 0


def test_an_all_reduce_at_tcp_speed_is_degraded_and_the_next_place_is_taken(rig) -> None:
    """The place is asked again after ten minutes: the next machine there may be a sound one."""
    rig.gpus(*"rehearse fault gcp node.accept tcp-links".split())
    record = created(rig, {**MACHINE, "spot": "prefer"})
    failed = [each for each in record.attempts if each.outcome == "Degraded"]
    assert len(failed) == 1 and "all-reduce at 1.2 GB/s on the bus" in failed[0].message
    assert record.attempts[-1].outcome == "acquired" and record.status == "running"
    blocks = [each for each in rig.world.journal.blocks("rehearsal") if "slower" in each.reason]
    assert blocks and all(each.until - rig.world.clock.now() <= 600 for each in blocks)


def test_an_all_reduce_over_tcp_where_efa_was_paid_for_ends_on_the_next_place(rig) -> None:
    """Each machine passes by itself; what is between them is not what was sold."""
    rig.gpus(*"rehearse fault aws node.accept tcp-between".split())
    record = created(rig, EFA)
    first, last = record.attempts[0], record.attempts[-1]
    assert (first.outcome, last.outcome) == ("NotWhatWasSold", "acquired")
    assert "2 machines not what was sold: the all-reduce between nodes goes over TCP" in (
        first.message
    )
    assert "where EFA 100 Gbit/s was paid for" in first.message
    assert record.placement.zone != first.zones[0] and len(record.machines) == 2
    assert any("accepted: bf16" in text and "between nodes EFA" in text for text in rig.said)
    blocks = [each for each in rig.world.journal.blocks("rehearsal") if "another" in each.reason]
    assert len(blocks) == 1 and blocks[0].until - rig.world.clock.now() <= 600


def test_what_is_between_the_machines_of_a_cluster_is_measured_by_command(rig) -> None:
    """A network that the plan did not promise is not missed."""
    rig.create({**EFA, "options": {"aws": {"efa": False}}})
    code, out, _ = rig.gpus("accept", "t")
    assert code == 0 and out.splitlines()[-1] == "t, between its machines: pass"
    rig.gpus(*"rehearse fault aws node.accept tcp-between".split())
    code, out, _ = rig.gpus("accept", "t", "--json")
    found = json.loads(out)
    assert code == 0 and found[-1]["verdict"] == "pass"
    assert found[-1]["checks"][0]["expected"] == "TCP only: options.aws.efa is false"
    assert [each["went"] for each in found[-1]["measured"]["between"]] == [["Socket"]] * 2


def test_machines_that_do_not_answer_together_keep_their_own_tables(rig, monkeypatch) -> None:
    rig.create(EFA)

    def none(*_):
        raise GpusError("wanted an all-reduce of 2 machines, found no answer within 120 s")

    monkeypatch.setattr(played_answer, "between", none)
    code, out, _ = rig.gpus("accept", "t", "--json")
    found = json.loads(out)
    assert code == 0 and [each["verdict"] for each in found] == ["pass"] * 3
    assert "found no answer within 120 s" in found[-1]["unknown"][0]


def test_two_failures_in_a_row_end_the_buying_at_a_cloud(rig) -> None:
    """Another zone would sell the same kind of machine; each try costs money."""
    rig.gpus(*"rehearse fault gcp node.accept tcp-links --times always".split())
    with pytest.raises(AllFailed) as failed:
        created(rig, {**MACHINE, "spot": "prefer"})
    assert [each.outcome for each in failed.value.attempts].count("Degraded") == 2
    assert any(
        "2 machines in a row did not pass acceptance" in text
        and "docs/how-to/accept-a-machine.md" in text
        for text in rig.said
    )


def test_without_accept_nothing_is_measured(rig) -> None:
    rig.gpus(*"rehearse fault clore node.accept relabelled".split())
    assert [each.outcome for each in created(rig, CLORE, "off").attempts] == ["acquired"]


def test_where_no_host_passes_nothing_is_left(rig) -> None:
    rig.gpus(*"rehearse fault clore node.accept relabelled --times always".split())
    with pytest.raises(AllFailed, match=r"GPU 0:\s+52\.0 TFLOP/s in"):
        created(rig, CLORE)
    assert not rig.world.journal.launches("rehearsal", "owner1", "t")


def test_a_machine_that_cannot_be_measured_is_kept_and_said(rig, monkeypatch) -> None:
    """No answer is no verdict: an image without Python must not cost a machine at every place."""

    async def none(*_):
        raise GpusError("wanted the machine's measurements, found none: no Python is there")

    monkeypatch.setattr(played_answer, "answer", none)
    assert [each.outcome for each in created(rig, CLORE).attempts] == ["acquired"]
    assert any("is kept and was not measured: wanted" in text for text in rig.said)


WORK = {"kind": "job", "accept": "quick", "workload": {"command": "python train.py"}}


def test_a_workload_starts_only_on_the_host_that_passes(rig) -> None:
    """The cards are free while they are measured: what runs waits for `go`, which a machine that is
    not what was sold is never told.
    """
    rig.gpus(*"rehearse fault clore node.accept relabelled --set name=RTX-3090".split())
    record = created(rig, {**CLORE, **WORK})
    assert [each.outcome for each in record.attempts] == ["NotWhatWasSold", "acquired"]
    orders = rig.world.journal.orders("rehearsal", "owner1", states=order_table.EVERY)
    scripts = [unpacked(str(dict(entry.order.setup.options)["command"])) for entry in orders]
    assert len(scripts) == 2 and all("wait_for_go" in text for text in scripts)
    looker = access.key_probe(rig.world, "owner1", "t", record.provider)
    assert isinstance(looker, StandInProbe)
    folder = looker.stand_in(record.machines[0]).folder
    assert [path.parent for path in folder.parent.rglob("go")] == [folder / ROOT.lstrip("/")]


def test_a_job_that_nobody_logs_in_to_starts_unmeasured_and_the_plan_says_so(rig) -> None:
    wanted = rig.wanted({**VERTEX, "accept": "quick"})
    record = created(rig, {**VERTEX, "accept": "quick"})
    assert record.attempts[-1].outcome == "acquired"
    (entry,) = rig.world.journal.orders("rehearsal", "owner1")
    assert "wait_for_go" not in str(entry.order.setup.options) and entry.order.setup.gated
    notes = (
        planning.insistent(rig.world, wanted.ask, wanted.setup)
        .plan(wanted.ask, setup=wanted.setup)
        .notes
    )
    assert "accept does nothing here: nobody logs in to a job" in notes


def test_what_nobody_logs_in_to_takes_no_accept() -> None:
    with pytest.raises(SpecError, match="measured by login"):
        read_cluster("t", {"gpu": "L4", "accept": "quick", "ready": "running"})
