"""The ownership resource: its life, and the orphans it warns of."""

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest

from providers.plugin import properties as wire
from tests.plugin.servicer_rig import (
    ID,
    INPUTS,
    URN,
    Aborted,
    Context,
    call,
    new_servicer,
    stand_in,
    state,
    struct,
)
from tests.plugin.test_outputs import a_record
from tests.present import present

OWNER_URN = "urn:pulumi:s::gpus::gpu:index:Ownership::ownership"


def test_ownership_lives(servicer, monkeypatch) -> None:
    """Unknown at preview, random when made, kept on read, settled on delete."""
    inputs = struct({"world": "rehearsal"})
    assert not call(servicer, "Check", urn=OWNER_URN, news=inputs).failures
    assert [
        failure.property
        for failure in call(servicer, "Check", urn=OWNER_URN, news=struct({"world": "x"})).failures
    ] == ["world"]
    preview = call(servicer, "Create", urn=OWNER_URN, properties=inputs, preview=True)
    assert wire.decode(preview.properties).unknown == {"owner_id"}
    one, two = (call(servicer, "Create", urn=OWNER_URN, properties=inputs) for _ in range(2))
    owner = wire.decode(one.properties).values["owner_id"]
    assert one.id == f"rehearsal/{owner}" != two.id
    assert len(owner) == 12
    read = call(
        servicer, "Read", urn=OWNER_URN, id=one.id, properties=one.properties, inputs=inputs
    )
    assert (read.id, read.properties) == (one.id, one.properties)
    settled = stand_in(monkeypatch, "settle", ())
    call(servicer, "Delete", urn=OWNER_URN, id=one.id, properties=one.properties, old_inputs=inputs)
    assert settled == [("rehearsal", owner, ({},))]


OWNER_ID = "rehearsal/0123456789ab"


def look(servicer, **properties):
    inputs = struct({"world": "rehearsal"})
    return call(
        servicer,
        "Read",
        urn=OWNER_URN,
        id=OWNER_ID,
        properties=struct({"owner_id": "0123456789ab", **properties}),
        inputs=inputs,
    )


def test_ownership_read_warns_of_strays(servicer, monkeypatch) -> None:
    """What no state has named since the last look is an orphan by its handle; where nobody has looked
    before, nobody can tell.
    """
    calls = stand_in(monkeypatch, "orphans", a_record().machines)
    from providers.engine.runtime.world import open_world

    look(servicer)
    world = open_world("rehearsal")
    world.journal.launched(a_record())
    look(servicer)
    assert (calls, servicer.lines) == ([], [])
    # The next run: the state names the cluster, before or after the look at the ownership.
    stand_in(monkeypatch, "read", a_record())
    call(servicer, "Read", id=ID, properties=state(), inputs=struct(INPUTS))
    assert [
        claim.generation for claim in present(world.journal.claims("rehearsal", "0123456789ab"))
    ] == [a_record().generation]
    look(servicer)
    assert calls.pop() == ("rehearsal", "0123456789ab", set(a_record().handles), ())
    # Another process, another run: the state is lost, so nothing names the cluster any more.
    servicer = new_servicer()
    look(servicer)
    assert calls.pop()[2] == set(a_record().handles)
    response = look(servicer)
    assert response.id == OWNER_ID
    assert calls == [("rehearsal", "0123456789ab", set(), ())]
    assert servicer.lines[0][0] == "warning"
    assert a_record().handles[0].native_id in servicer.lines[0][2]
    world.close()


def test_a_claim_that_falls_into_a_look_counts_for_the_next_one(servicer, monkeypatch) -> None:
    """The cluster and the ownership are read at once: whichever comes first, the next run, of
    another process, calls no machine of a state an orphan.
    """
    from providers.engine.journal.journal import Journal
    from providers.engine.runtime.world import open_world

    stand_in(monkeypatch, "orphans", ())
    stand_in(monkeypatch, "read", a_record())
    world = open_world("rehearsal")
    world.journal.launched(a_record())
    look(servicer)
    found, under_way = Journal.claims, threading.Event()

    def slow(journal, *words):
        rows = found(journal, *words)
        under_way.set()
        time.sleep(0.3)
        return rows

    monkeypatch.setattr(Journal, "claims", slow)

    async def both() -> None:
        owner = SimpleNamespace(
            urn=OWNER_URN,
            id=OWNER_ID,
            properties=struct({"owner_id": "0123456789ab"}),
            inputs=struct({"world": "rehearsal"}),
        )
        reading = asyncio.create_task(servicer.Read(owner, Context()))
        assert await asyncio.to_thread(under_way.wait, 30)
        await servicer.Read(
            SimpleNamespace(urn=URN, id=ID, properties=state(), inputs=struct(INPUTS)), Context()
        )
        await reading

    asyncio.run(both())
    monkeypatch.setattr(Journal, "claims", found)
    assert [
        claim.generation for claim in present(world.journal.claims("rehearsal", "0123456789ab"))
    ] == [a_record().generation]
    world.close()


def test_ownership_keeps_every_account_it_has_had(servicer, monkeypatch) -> None:
    """Other settings are added to the outputs, after what was cut short in the old account was
    settled; a delete looks in all of them.
    """
    left, settled = stand_in(monkeypatch, "leave", None), stand_in(monkeypatch, "settle", ())
    old, new = (
        {"world": "rehearsal", "settings": {"gcp": {"project": name}}}
        for name in ("old-project", "new-project")
    )
    made = call(servicer, "Create", urn=OWNER_URN, properties=struct(old))
    after = call(
        servicer,
        "Update",
        urn=OWNER_URN,
        id=made.id,
        olds=made.properties,
        old_inputs=struct(old),
        news=struct(new),
    )
    accounts = wire.decode(after.properties).values["accounts"]
    assert accounts == [old["settings"], new["settings"]] and len(left) == 1
    call(
        servicer,
        "Delete",
        urn=OWNER_URN,
        id=made.id,
        properties=after.properties,
        old_inputs=struct(new),
    )
    assert settled[0][2] == (old["settings"], new["settings"])


def test_a_new_ownership_warns_of_what_the_former_one_left(servicer) -> None:
    """When the state of a stack was lost, its next ownership says once what the journal knows to
    run under the earlier one.
    """
    from providers.engine.runtime.world import open_world

    inputs = struct({"world": "rehearsal"})
    previous = call(servicer, "Create", urn=OWNER_URN, properties=inputs)
    world = open_world("rehearsal")
    world.journal.launched(a_record()._replace(owner=previous.id.partition("/")[2]))
    world.close()
    call(servicer, "Create", urn=OWNER_URN.replace("::", "::other-", 1), properties=inputs)
    assert servicer.lines == []
    call(servicer, "Create", urn=OWNER_URN, properties=inputs)
    assert [line[0] for line in servicer.lines] == ["warning"] and a_record().handles[
        0
    ].native_id in servicer.lines[0][2]


def test_a_machine_that_a_stack_holds_is_not_imported_again(servicer, monkeypatch) -> None:
    """An import of what another resource of a state names is refused; once no state has named it
    since a look, it is free.
    """
    from providers.engine.runtime.world import open_world

    native = a_record().handles[0].native_id
    stand_in(
        monkeypatch, "adopt_stray", lambda provider, _id: a_record() if provider == "gcp" else None
    )
    world = open_world("rehearsal")
    world.journal.owned("rehearsal", a_record().owner, "gpus", "s", new=True)
    world.journal.launched(a_record())
    world.journal.claim(
        "rehearsal", a_record().owner, "train", a_record().generation, a_record().handles
    )
    with pytest.raises(Aborted, match="no stack holds, found that it is cluster train"):
        call(servicer, "Read", id=native)
    with pytest.raises(Aborted, match="nothing is imported"):
        call(servicer, "Read", id=ID)
    world.journal.look("rehearsal", a_record().owner)
    assert call(servicer, "Read", id=native).id == ID
    world.close()
