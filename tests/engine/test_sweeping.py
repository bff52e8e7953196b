"""What carries the label and nobody claims: told apart by owner id, and only the unclaimed is
deleted, confirmed.
"""

import asyncio
import json

import pytest

from providers.cli import sweep as command
from providers.engine import keys, operations
from providers.engine.journal.backend import current, spelled
from providers.engine.termination import garbage, inventory
from providers.engine.termination import verdicts as verdicts_
from providers.engine.termination.verdicts import Claims
from providers.errors import BadCredentials, NotConfigured, Transient
from providers.model.machine import GONE, Label, Order
from providers.testing.fake_adapter import lost
from tests.engine.cases import run, wanted

GENERATION = "1111aaaa2222"
NO_CLAIMS = Claims()


def bought(lab, owner="own", name="train", generation=GENERATION):
    return run(operations.create(lab.world(), wanted(owner=owner, name=name), generation))


def look(lab, claims=NO_CLAIMS, adhoc="", **more):
    return run(inventory.survey(lab.world(), claims, adhoc, **more))


def verdicts(survey):
    return {found.handle: found.verdict for found in survey.found}


def swept(lab, survey, claims=NO_CLAIMS):
    return run(
        garbage.sweep(
            lab.world(),
            [found for found in survey.found if found.verdict == verdicts_.UNCLAIMED],
            claims,
        )
    )


def strangers(lab, owner="somebody", name="theirs"):
    """A machine of an owner that nothing here knows."""
    from providers.model.machine import Setup
    from providers.planner.plan import make

    plan = make(
        wanted().ask, lab.offers, {"alpha": lab.alpha.capabilities, "beta": lab.beta.capabilities}
    )
    order = Order(
        Label(owner, name, "9", "f"),
        f"token-{owner}",
        (plan.candidates[0],),
        (f"{name}-0",),
        Setup(),
        60,
    )
    lab.alpha.submit(order)
    lab.clock.advance(10)
    return lab.alpha.poll(lab.alpha.ticket_of(order)).handles[0]


def test_what_a_state_claims_is_left(lab) -> None:
    """A machine that a state names, by its id or its handles, is claimed and never deleted."""
    record = bought(lab)
    for claims in (
        Claims(owners={"own": "s"}, generations={("own", "train", GENERATION): "s"}),
        Claims(owners={"own": "s"}, handles={record.handles[0]: "s"}),
    ):
        survey = look(lab, claims)
        assert verdicts(survey) == {record.handles[0]: verdicts_.CLAIMED}
        assert swept(lab, survey, claims) == ()
    assert len(lab.alive) == 1


def test_what_nobody_claims_is_listed_with_age_and_price_and_deleted(lab) -> None:
    """A machine whose stack is gone is unclaimed, with the price it was bought at; the sweep
    confirms it gone and closes the journal's books.
    """
    record = bought(lab)
    lab.clock.advance(3_600)
    survey = look(lab)
    (found,) = survey.found
    assert (found.verdict, found.micro_usd, found.price_source) == (
        verdicts_.UNCLAIMED,
        10_000_000,
        "when it was bought",
    )
    assert 3_500 < lab.clock.now() - found.created_at < 3_700
    assert [each.why for each in swept(lab, survey)] == [""]
    assert lab.alive == []
    assert lab.world().journal.orders("rehearsal", "own") == ()
    assert look(lab).found == ()
    assert record.handles[0].provider in survey.asked


def test_an_owner_that_nothing_here_knows_is_not_ours(lab) -> None:
    """A machine with our labels and a strange owner id is listed as not ours, priced by the
    catalog, and survives a sweep.
    """
    theirs = strangers(lab)
    mine = bought(lab)
    survey = look(lab)
    assert verdicts(survey) == {theirs: verdicts_.NOT_OURS, mine.handles[0]: verdicts_.UNCLAIMED}
    found = next(found for found in survey.found if found.handle == theirs)
    assert found.micro_usd == 10_000_000 and "2026-01-01" in found.price_source
    run(garbage.sweep(lab.world(), survey.found, Claims()))
    assert [node.handle for node in lab.alive] == [theirs]


def test_a_price_that_nobody_knows_is_unknown(lab) -> None:
    """No price is no zero: a machine that no catalog lists has none, and neither has one at rest,
    whose disks alone are billed.
    """
    theirs = strangers(lab)
    lab.alpha.machines[theirs] = lab.alpha.machines[theirs]._replace(machine_type="never-listed")
    assert look(lab).found[0].micro_usd is None
    record = bought(lab)
    lab.alpha.preempt(record.handles[0], remains=True)
    found = next(found for found in look(lab).found if found.handle == record.handles[0])
    assert found.micro_usd is None and "disks" in found.price_source


def test_what_a_live_process_is_at_work_on_is_in_use(lab) -> None:
    """A lease that a live process holds, on the cluster or on its ad hoc use, keeps it from being
    swept.
    """
    bought(lab)
    for owner in ("own", "own/use"):
        world = lab.world()
        world.journal.take("rehearsal", owner, "train", "me", 0.0)
        survey = look(lab, adhoc="own")
        assert set(verdicts(survey).values()) == {verdicts_.IN_USE}
        world.journal.drop("rehearsal", owner, "train", "me")
    assert set(verdicts(look(lab, adhoc="own")).values()) == {verdicts_.UNCLAIMED}


def test_b26_what_a_cut_short_run_was_making_is_pending(lab) -> None:
    """A create that a state has as pending belongs to that stack's recovery: it is shown with the
    way out and not swept.
    """
    bought(lab)
    claims = Claims(owners={"own": "dev"}, pending={("own", "train"): "dev"})
    (found,) = look(lab, claims).found
    assert found.verdict == verdicts_.PENDING and "pulumi cancel" in found.why
    assert swept(lab, look(lab, claims), claims) == ()
    assert len(lab.alive) == 1


def test_a_state_that_cannot_be_read_makes_nothing_unclaimed(lab) -> None:
    """While some state could not be read, nothing of a stack's is unclaimed; what is ad hoc still
    is.
    """
    bought(lab)
    bought(lab, owner="me", name="bench")
    survey = look(lab, Claims(unread=("dev",)), adhoc="me")
    assert sorted(verdicts(survey).values()) == [verdicts_.UNCLAIMED, verdicts_.UNKNOWN]
    swept(lab, survey, Claims(unread=("dev",)))
    assert [node.label.owner for node in lab.alive] == ["own"]


def test_a_stack_of_another_backend_is_elsewhere(lab, monkeypatch) -> None:
    """What belongs to a stack that was last seen in another backend is not unclaimed: its state is
    there, also where a copy of it is here.
    """
    bought(lab)
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///one/")
    lab.world().journal.owned("rehearsal", "own", "gpus", "dev")
    (found,) = look(lab, Claims(backend="file:///two")).found
    assert (
        found.verdict == verdicts_.ELSEWHERE
        and "file:///one" in found.why
        and "gpus/dev" in found.why
    )
    copied = Claims(backend="file:///two", owners={"own": "gpus/copy"})
    assert verdicts_.ELSEWHERE in verdicts(look(lab, copied)).values()
    (found,) = look(lab, Claims(backend="file:///one")).found
    assert found.verdict == verdicts_.UNCLAIMED


@pytest.mark.parametrize(
    "error", [Transient("down", provider="beta"), BadCredentials("refused", provider="beta")]
)
def test_a_cloud_that_cannot_be_asked_is_a_line(lab, error) -> None:
    """A cloud that fails is trouble, never nothing there; what the others have is still shown."""
    record = bought(lab)
    lab.beta.fail("find", error, times=100)
    survey = look(lab)
    assert list(verdicts(survey)) == [record.handles[0]]
    assert (
        len(survey.trouble) == 1
        and survey.trouble[0].startswith("beta: ")
        and "not known" in survey.trouble[0]
    )
    assert survey.asked == ("alpha",)


def test_a_cloud_without_an_answer_has_a_deadline(lab) -> None:
    """One cloud that never answers does not keep the others from being shown."""
    import threading

    gate = threading.Event()
    real = lab.beta.find
    lab.beta.find = lambda *which: (gate.wait(20), real(*which))[1]
    try:
        survey = look(lab, deadline_s=0.2)
    finally:
        gate.set()
    assert survey.asked == ("alpha",) and "no answer within" in survey.trouble[0]


def test_without_credentials_is_silent_unless_something_is_known_to_be_there(lab) -> None:
    """A cloud that was never used and has no credentials is named as not asked; one where something
    was bought is trouble.
    """
    lab.beta.connect_error = NotConfigured("beta: no key", provider="beta")
    survey = look(lab)
    assert list(survey.silent) == ["beta"] and survey.trouble == ()
    lab.beta.connect_error = None
    lab.alpha.stock = {("north-a", "spot"): 0, ("north-b", "spot"): 0, ("south-a", "spot"): 0}
    record = bought(lab)
    assert record.provider == "beta"
    lab.beta.connect_error = NotConfigured("beta: no key", provider="beta")
    survey = look(lab)
    assert (
        survey.silent == {}
        and len(survey.trouble) == 1
        and record.handles[0].native_id in survey.trouble[0]
    )


def test_only_the_journal_knows_of_it(lab) -> None:
    """What a cloud without labels has is found by the journal's handles, and swept all the same."""
    lab.alpha.labelled = False
    record = bought(lab)
    survey = look(lab)
    assert verdicts(survey) == {record.handles[0]: verdicts_.UNCLAIMED}
    assert [each.why for each in swept(lab, survey)] == [""]
    assert lab.alive == []


def test_b26_an_order_whose_outcome_nobody_knows_is_listed_and_settled(lab) -> None:
    """An order that was cut short before its answer is listed as unsettled; sweeping it ends
    whatever it made.
    """
    world = lab.world()
    lab.alpha.fail("submit", lost("alpha"), after=True)
    lab.alpha.fail("resume", lost("alpha"), times=100)
    lab.alpha.fail("find", Transient("down", provider="alpha"), times=100)
    assert run(operations.create(world, wanted(), GENERATION)).reasons
    lab.alpha.heal()
    lab.alpha.labelled = False
    survey = look(lab)
    unsettled = [found for found in survey.found if found.status == "unsettled"]
    assert len(unsettled) == 1 and "not known" in unsettled[0].why
    assert all(not each.why for each in swept(lab, survey))
    assert lab.alive == []


def test_what_changed_hands_meanwhile_is_left_alone(lab) -> None:
    """Between the look and the deletion a run took the machine over: its new generation is not what
    was asked about.
    """
    record = bought(lab)
    survey = look(lab)
    lab.alpha.relabel(record.handles[0], "3333bbbb4444")
    (each,) = swept(lab, survey)
    assert "taken over" in each.why
    assert len(lab.alive) == 1


def test_the_key_of_what_was_swept_goes_with_it(lab) -> None:
    """A private key of machines that are confirmed gone opens nothing; one of what is still there
    stays.
    """
    record = bought(lab)
    place = keys.folder(lab.world().name, record.owner, record.cluster)
    place.mkdir(parents=True, exist_ok=True)
    (place / "id_ed25519").write_text("a key", encoding="utf-8")
    survey = look(lab)
    lab.alpha.fail("delete", Transient("down", provider="alpha"), times=100)
    assert all(each.why for each in swept(lab, survey)) and place.exists()
    lab.alpha.heal()
    assert not any(each.why for each in swept(lab, look(lab))) and not place.exists()


def test_what_cannot_be_deleted_says_what_still_costs_money(lab) -> None:
    """A deletion that fails names the machine and its price."""
    record = bought(lab)
    survey = look(lab)
    lab.alpha.fail("delete", Transient("down", provider="alpha"), times=100)
    (each,) = swept(lab, survey)
    assert record.handles[0].native_id in each.why and "$10.00/h" in each.why
    assert len(lab.alive) == 1


def test_an_empty_owner_is_never_everybody_in_a_clean_up(lab) -> None:
    """The engine's own clean-ups refuse an empty owner: an adapter would take it for all owners."""
    from providers.engine.termination.settle import release
    from providers.errors import GpusError

    theirs = strangers(lab)
    world = lab.world()
    assert run(release(world, lab.alpha, "", "", "")).clean
    with pytest.raises(GpusError, match="owner"):
        run(operations.settle(world, ""))
    assert [node.handle for node in lab.alive] == [theirs]
    assert lab.alpha.machines[theirs].status != GONE


STATE = {
    "deployment": {
        "resources": [
            {
                "type": "gpu:index:Ownership",
                "id": "rehearsal/own",
                "outputs": {"accounts": [{"gcp": {"project": "p"}}], "owner_id": "own"},
            },
            {
                "type": "gpu:index:Cluster",
                "id": "rehearsal/own/train/g1",
                "outputs": {
                    "provider": "gcp",
                    "handles": ["projects/p/zones/z/instances/n"],
                    "record": {"leftovers": [["aws", "us-east-1/i-1"]]},
                },
            },
            {"type": "gpu:index:Cluster", "id": "live/own2/train/g1", "outputs": {}},
            {"type": "pulumi:providers:gpu", "id": "x"},
        ],
        "pending_operations": [
            {
                "type": "creating",
                "resource": {
                    "type": "gpu:index:Cluster",
                    "inputs": {"world": "rehearsal", "owner": "own", "cluster": "more"},
                },
            }
        ],
    }
}


def test_what_a_state_says_is_read() -> None:
    """Owners, generations, handles, leftovers, pending creates and settings of one world come out
    of exported states.
    """
    claims = command.claims_of({"dev": STATE, "empty": {"deployment": None}}, "rehearsal")
    assert claims.owners == {"own": "dev"}
    assert claims.generations == {("own", "train", "g1"): "dev"}
    assert {handle.native_id for handle in claims.handles} == {
        "projects/p/zones/z/instances/n",
        "us-east-1/i-1",
    }
    assert claims.pending == {("own", "more"): "dev"}
    assert claims.settings == ({"gcp": {"project": "p"}},)
    assert set(command.claims_of({"dev": STATE}, "live").owners) == {"own2"}


def test_the_backend_is_the_one_that_pulumi_would_use(tmp_path, monkeypatch) -> None:
    """PULUMI_BACKEND_URL, then the project's own, then the log-in; one spelling, and no password in
    it.
    """
    monkeypatch.setenv("PULUMI_CREDENTIALS_PATH", str(tmp_path))
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    assert current() == ""
    (tmp_path / "credentials.json").write_text(json.dumps({"current": "https://api.pulumi.com"}))
    assert current() == "https://api.pulumi.com"
    (tmp_path / "Pulumi.yaml").write_text("name: x\nbackend: {url: 's3://bucket/'}\n")
    assert current() == "s3://bucket"
    monkeypatch.setenv("PULUMI_BACKEND_URL", "postgres://me:secret@host/db")
    assert current() == "postgres://host/db"
    assert spelled("file:///a/b/") == "file:///a/b"


def test_nothing_is_read_where_pulumi_is_missing(tmp_path, monkeypatch) -> None:
    """Without pulumi no state can be read, which is said and makes nothing unclaimed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    claims = command.read_claims("rehearsal")
    assert claims.unread == ("the list of stacks",)


def test_cancelled_looks_leave_no_task(lab) -> None:
    """A survey ends with nothing of its own still running."""

    async def go():
        await inventory.survey(lab.world(), Claims())
        return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    assert run(go()) == []
