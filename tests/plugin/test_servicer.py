"""The provider's remote calls, with the engine's cluster functions replaced by small stand-ins."""

import asyncio
import threading
import time
from types import SimpleNamespace

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import provider_pb2, status_pb2

from providers.engine import operations as engine
from providers.errors import AllFailed, Busy, GpusError, HalfMade, OutcomeUnknown, Transient
from providers.model.machine import Handle
from providers.plugin import outputs, siblings, properties as wire
from providers.plugin.servicer import Servicer
from tests.plugin.test_outputs import held

URN = "urn:pulumi:s::gpus::gpu:index:Cluster::train"
OWNER_URN = "urn:pulumi:s::gpus::gpu:index:Ownership::ownership"
INPUTS = {
    "world": "rehearsal",
    "owner": "0123456789ab",
    "cluster": "train",
    "settings": {},
    "gpu": "H100:8",
    "spot": "prefer",
}
ID = "rehearsal/0123456789ab/train/ba9876543210"


class Aborted(Exception):
    def __init__(self, code, details, metadata):
        super().__init__(details)
        self.code, self.details = code, details
        self.init_failed = None
        for key, value in metadata:
            assert key == "grpc-status-details-bin"
            status = status_pb2.Status.FromString(value)
            assert (status.code, status.message) == (code.value[0], details)
            self.init_failed = provider_pb2.ErrorResourceInitFailed()
            assert status.details[0].Unpack(self.init_failed)


class Context:
    async def abort(self, code, details="", trailing_metadata=()):
        raise Aborted(code, details, trailing_metadata)


def new_servicer():
    """A plugin process, with its log lines in `lines`."""
    made = Servicer()
    made.lines = []
    made.session.log = lambda severity, urn, text: made.lines.append((severity, urn, text))
    return made


@pytest.fixture
def servicer(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    return new_servicer()


def struct(values):
    return wire.encode(values)


def call(servicer, method, **fields):
    request = {
        "urn": URN,
        "news": Struct(),
        "olds": Struct(),
        "old_inputs": Struct(),
        "properties": Struct(),
        "inputs": Struct(),
        "preview": False,
        **fields,
    }
    return asyncio.run(getattr(servicer, method)(SimpleNamespace(**request), Context()))


def stand_in(monkeypatch, name, result):
    """Replaces one function of the engine; returns the list of the arguments it was called with."""
    calls = []

    async def function(world, *arguments):
        calls.append((world.name, *arguments))
        if isinstance(result, Exception):
            raise result
        return result(*arguments) if callable(result) else result

    monkeypatch.setattr(engine, name, function)
    return calls


def test_check_names_each_problem_with_its_path(servicer):
    """Check failures travel as (property, reason), all of them."""
    response = call(servicer, "Check", news=struct({**INPUTS, "gpu": "H1000:8", "nodes": 0}))
    assert {failure.property for failure in response.failures} == {"gpu", "nodes"}
    assert all(failure.reason.startswith("wanted ") for failure in response.failures)


def test_check_gives_back_canonical_inputs(servicer):
    """Secrets stay secret, unknowns unknown, spellings are one."""
    news = wire.encode(
        {**INPUTS, "gpu": "h100:8", "ssh_key": "ssh-ed25519 AAAA", "labels": wire.UNKNOWN},
        {"ssh_key"},
    )
    response = call(servicer, "Check", news=news)
    seen = wire.decode(response.inputs)
    assert not response.failures
    assert seen.secret == {"ssh_key"}
    assert seen.unknown == {"labels"}
    assert seen.values["gpu"] == "H100:8"


def test_b44_preview_of_create_buys_nothing(servicer, monkeypatch):
    """At preview the engine is not called, and what depends on the place is unknown."""
    calls = stand_in(monkeypatch, "create", held())
    response = call(
        servicer, "Create", properties=struct({**INPUTS, "owner": wire.UNKNOWN}), preview=True
    )
    assert calls == []
    assert response.id == ""
    seen = wire.decode(response.properties)
    assert seen.unknown == set(outputs.PLACED)
    assert seen.values["world"] == "rehearsal"


def test_a_plan_that_cannot_be_shown_fails_the_preview(servicer, monkeypatch):
    """No table, no `up`: one warning beside a creation is passed over too easily."""
    monkeypatch.setattr("providers.planner.render.as_text", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(siblings, "only_previews", lambda: True)
    with pytest.raises(Aborted, match="wanted a plan to show before anything is bought"):
        call(servicer, "Check", news=struct(INPUTS))
        call(servicer, "Create", properties=struct(INPUTS), preview=True)


def test_create_gives_id_and_outputs(servicer, monkeypatch):
    """Every create mints a generation of its own; the id is logical."""
    calls = stand_in(
        monkeypatch, "create", lambda wanted, generation: held()._replace(generation=generation)
    )
    first = call(servicer, "Create", properties=struct(INPUTS))
    second = call(servicer, "Create", properties=struct(INPUTS))
    (world, wanted, generation), _ = calls
    assert (world, wanted.owner, wanted.cluster) == ("rehearsal", "0123456789ab", "train")
    assert first.id == f"rehearsal/0123456789ab/train/{generation}"
    assert first.id != second.id
    assert wire.decode(first.properties).values == outputs.write(
        held()._replace(generation=generation), wanted.setup
    )


def test_half_made_is_kept_in_state(servicer, monkeypatch):
    """Reasons become an init error with id, outputs and inputs, so that destroy deletes it and the
    next up finishes it.
    """
    record = held()._replace(status="queued", reasons=("queued: waits for capacity",))
    stand_in(monkeypatch, "create", record)
    with pytest.raises(Aborted) as caught:
        call(servicer, "Create", properties=struct(INPUTS))
    failed = caught.value.init_failed
    assert caught.value.details == "queued: waits for capacity"
    assert (failed.id, list(failed.reasons)) == (ID, ["queued: waits for capacity"])
    assert outputs.read(failed.id, wire.decode(failed.properties).values).reasons == record.reasons
    assert wire.decode(failed.inputs).values == INPUTS


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (
            AllFailed("train: none to be had\n#1 gcp: sold out"),
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "train: none to be had\n#1 gcp: sold out",
        ),
        (Busy("train: process 7 has it"), grpc.StatusCode.UNAVAILABLE, "train: process 7 has it"),
        (OutcomeUnknown("may exist", provider="gcp"), grpc.StatusCode.UNKNOWN, "may exist"),
        (GpusError("no"), grpc.StatusCode.FAILED_PRECONDITION, "no"),
        (
            RuntimeError("boom"),
            grpc.StatusCode.UNKNOWN,
            "unexpected RuntimeError: boom (details in ",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_failures_are_clean_lines(servicer, monkeypatch, tmp_path, error, code, says):
    """No failure leaves as a traceback; only what nobody foresaw leaves one, in a file."""
    stand_in(monkeypatch, "create", error)
    with pytest.raises(Aborted) as caught:
        call(servicer, "Create", properties=struct(INPUTS))
    assert caught.value.code is code
    assert caught.value.details.startswith(says)
    assert (tmp_path / "plugin.log").exists() == isinstance(error, RuntimeError)


def test_a_cancelled_create_is_settled(servicer, monkeypatch):
    """When the engine is gone the purchase is cancelled, and the process waits until it has cleaned
    up.
    """
    done, begun = [], asyncio.Event()

    async def create(world, wanted, generation):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            done.append("released")
            raise

    monkeypatch.setattr(engine, "create", create)

    async def scene():
        request = SimpleNamespace(urn=URN, properties=struct(INPUTS), preview=False)
        rpc = asyncio.ensure_future(servicer.Create(request, Context()))
        await begun.wait()
        rpc.cancel()
        with pytest.raises(asyncio.CancelledError):
            await rpc
        assert done == []
        await servicer.settled()

    asyncio.run(scene())
    assert done == ["released"]


def test_cancel_stops_what_is_under_way(servicer, monkeypatch):
    """The Cancel call sets the world's stop; at a normal end nothing is there to stop."""
    worlds, begun = [], asyncio.Event()

    async def create(world, wanted, generation):
        worlds.append(world)
        begun.set()
        while not world.stop.is_set():
            await asyncio.sleep(0.01)
        raise GpusError("stopped by the user")

    monkeypatch.setattr(engine, "create", create)

    async def scene():
        await servicer.Cancel(None, Context())
        rpc = asyncio.ensure_future(
            servicer.Create(
                SimpleNamespace(urn=URN, properties=struct(INPUTS), preview=False), Context()
            )
        )
        await begun.wait()
        await servicer.Cancel(None, Context())
        with pytest.raises(Aborted, match="stopped by the user"):
            await rpc

    asyncio.run(scene())


def state(**more):
    return struct(outputs.write(held()._replace(**more)))


def test_read_of_what_is_gone_has_no_id(servicer, monkeypatch):
    """No id tells the engine to drop it; the next up creates it."""
    stand_in(monkeypatch, "read", None)
    assert call(servicer, "Read", id=ID, properties=state(), inputs=struct(INPUTS)).id == ""


def test_read_keeps_attempts_and_address(servicer, monkeypatch):
    """A look knows neither the attempts nor, where it saw no machine, the address: what the state
    has stays.
    """
    calls = stand_in(monkeypatch, "read", lambda record, _on_loss: record)
    response = call(servicer, "Read", id=ID, properties=state(), inputs=struct(INPUTS))
    assert response.id == ID
    assert wire.decode(response.properties) == wire.decode(state())
    assert calls[0][1].handles == held().handles


def test_read_of_a_degraded_cluster_is_an_init_error(servicer, monkeypatch):
    """So that the next up calls Update even though nothing was edited."""
    stand_in(
        monkeypatch,
        "read",
        held()._replace(status="degraded", reasons=("degraded: 1 of 2 machines are left",)),
    )
    with pytest.raises(Aborted) as caught:
        call(servicer, "Read", id=ID, properties=state(), inputs=struct(INPUTS))
    assert caught.value.init_failed.id == ID


@pytest.mark.parametrize("error", [Transient("no answer", provider="gcp"), RuntimeError("boom")])
def test_read_never_fails(servicer, monkeypatch, error):
    """An error would block every command, destroy too: the state stays as it was, with a warning."""
    stand_in(monkeypatch, "read", error)
    response = call(servicer, "Read", id=ID, properties=state(), inputs=struct(INPUTS))
    assert (response.id, response.properties) == (ID, state())
    assert [line[:2] for line in servicer.lines] == [("warning", URN)]


def diffed(servicer, new, outputs_=None, old=None):
    call(servicer, "Check", news=struct(new))
    return call(
        servicer,
        "Diff",
        id=ID,
        old_inputs=struct(old or INPUTS),
        news=struct(new),
        olds=outputs_ or state(),
    )


def test_diff_of_nothing(servicer):
    """No change is said plainly, so that the engine compares nothing itself."""
    assert diffed(servicer, INPUTS).changes == provider_pb2.DiffResponse.DIFF_NONE


def test_b42_diff_replaces_delete_first(servicer):
    """What no longer satisfies is replaced, the old one first; each changed path is named."""
    response = diffed(servicer, {**INPUTS, "gpu": "H200:8"})
    assert response.changes == provider_pb2.DiffResponse.DIFF_SOME
    assert response.deleteBeforeReplace
    assert list(response.replaces) == ["gpu"]
    assert response.detailedDiff["gpu"].kind == provider_pb2.PropertyDiff.UPDATE_REPLACE


def test_diff_updates_what_is_still_satisfied(servicer):
    """A looser declaration that the running machine satisfies replaces nothing."""
    response = diffed(servicer, {**INPUTS, "gpu": "H200:8", "fallback": ["H100:8"]})
    assert response.changes == provider_pb2.DiffResponse.DIFF_SOME
    assert not response.replaces


def test_diff_replaces_what_was_preempted(servicer):
    """An observed status alone makes a replacement."""
    response = diffed(servicer, INPUTS, state(status="preempted"))
    assert list(response.replaces) == ["status"]
    assert not response.detailedDiff["status"].inputDiff


def test_b11_what_the_cloud_reports_is_no_difference(servicer, monkeypatch):
    """A read that finds more than was declared (another address, a server's own fields) makes no
    change at the next preview.
    """
    stand_in(
        monkeypatch,
        "read",
        lambda record, _on_loss: record._replace(
            machines=tuple(node._replace(external_ip="192.0.2.200") for node in held().machines)
        ),
    )
    opened = {**INPUTS, "network": "managed", "expose": "public", "ports": [80]}
    read = call(servicer, "Read", id=ID, properties=state(), inputs=struct(opened))
    (endpoint,) = wire.decode(read.properties).values["endpoints"]
    assert endpoint == "192.0.2.200:80"
    assert diffed(servicer, INPUTS, read.properties).changes == provider_pb2.DiffResponse.DIFF_NONE


def test_b44_preview_of_update_touches_nothing(servicer, monkeypatch):
    """At preview Update gives back what is held."""
    calls = stand_in(monkeypatch, "update", held())
    response = call(
        servicer,
        "Update",
        id=ID,
        olds=state(),
        old_inputs=struct(INPUTS),
        news=struct({**INPUTS, "rank": "price"}),
        preview=True,
    )
    assert (calls, response.properties) == ([], state())


def test_update_and_reclaim(servicer, monkeypatch):
    """A bump of `reclaim` calls the engine's reclaim; every other edit its update, under the same
    id.
    """
    updates, reclaims = (
        stand_in(monkeypatch, "update", held()),
        stand_in(monkeypatch, "reclaim", held()),
    )
    call(
        servicer,
        "Update",
        id=ID,
        olds=state(),
        old_inputs=struct(INPUTS),
        news=struct({**INPUTS, "rank": "price"}),
    )
    assert (len(updates), len(reclaims)) == (1, 0)
    call(
        servicer,
        "Update",
        id=ID,
        olds=state(),
        old_inputs=struct(INPUTS),
        news=struct({**INPUTS, "reclaim": "now"}),
    )
    assert (len(updates), len(reclaims)) == (1, 1)


def test_delete_goes_to_the_world_in_the_id(servicer, monkeypatch):
    """Whatever the inputs say now."""
    calls = stand_in(monkeypatch, "delete", None)
    call(
        servicer,
        "Delete",
        id=ID.replace("rehearsal", "live"),
        properties=state(world="live"),
        old_inputs=struct(INPUTS),
    )
    assert calls[0][0] == "live"
    assert calls[0][1].world == "live"


def test_delete_that_is_not_confirmed_fails(servicer, monkeypatch):
    """The engine keeps it in state; the line names what still costs money."""
    stand_in(
        monkeypatch,
        "delete",
        HalfMade("train: x still costs $10.21/h", provider="gcp", handles=(Handle("gcp", "x"),)),
    )
    with pytest.raises(Aborted, match=r"still costs \$10.21/h"):
        call(servicer, "Delete", id=ID, properties=state(), old_inputs=struct(INPUTS))


def test_ownership_lives(servicer, monkeypatch):
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


def test_ownership_read_warns_of_strays(servicer, monkeypatch):
    """What no state has named since the last look is a stray by its handle; where nobody has looked
    before, nobody can tell.
    """
    calls = stand_in(monkeypatch, "strays", held().machines)
    from providers.engine.runtime.world import open_world

    look(servicer)
    world = open_world("rehearsal")
    world.journal.launched(held())
    look(servicer)
    assert (calls, servicer.lines) == ([], [])
    # The next run: the state names the cluster, before or after the look at the ownership.
    stand_in(monkeypatch, "read", held())
    call(servicer, "Read", id=ID, properties=state(), inputs=struct(INPUTS))
    assert [claim.generation for claim in world.journal.claims("rehearsal", "0123456789ab")] == [
        held().generation
    ]
    look(servicer)
    assert calls.pop() == ("rehearsal", "0123456789ab", set(held().handles), ())
    # Another process, another run: the state is lost, so nothing names the cluster any more.
    servicer = new_servicer()
    look(servicer)
    assert calls.pop()[2] == set(held().handles)
    response = look(servicer)
    assert response.id == OWNER_ID
    assert calls == [("rehearsal", "0123456789ab", set(), ())]
    assert servicer.lines[0][0] == "warning"
    assert held().handles[0].native_id in servicer.lines[0][2]
    world.close()


def test_a_claim_that_falls_into_a_look_counts_for_the_next_one(servicer, monkeypatch):
    """The cluster and the ownership are read at once: whichever comes first, the next run, of
    another process, calls no machine of a state a stray.
    """
    from providers.engine.journal.journal import Journal
    from providers.engine.runtime.world import open_world

    stand_in(monkeypatch, "strays", ())
    stand_in(monkeypatch, "read", held())
    world = open_world("rehearsal")
    world.journal.launched(held())
    look(servicer)
    found, under_way = Journal.claims, threading.Event()

    def slow(journal, *words):
        rows = found(journal, *words)
        under_way.set()
        time.sleep(0.3)
        return rows

    monkeypatch.setattr(Journal, "claims", slow)

    async def both():
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
    assert [claim.generation for claim in world.journal.claims("rehearsal", "0123456789ab")] == [
        held().generation
    ]
    world.close()


def test_ownership_keeps_every_account_it_has_had(servicer, monkeypatch):
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


def test_a_new_ownership_warns_of_what_the_former_one_left(servicer):
    """When the state of a stack was lost, its next ownership says once what the journal knows to
    run under the earlier one.
    """
    from providers.engine.runtime.world import open_world

    inputs = struct({"world": "rehearsal"})
    former = call(servicer, "Create", urn=OWNER_URN, properties=inputs)
    world = open_world("rehearsal")
    world.journal.launched(held()._replace(owner=former.id.partition("/")[2]))
    world.close()
    call(servicer, "Create", urn=OWNER_URN.replace("::", "::other-", 1), properties=inputs)
    assert servicer.lines == []
    call(servicer, "Create", urn=OWNER_URN, properties=inputs)
    assert [line[0] for line in servicer.lines] == ["warning"] and held().handles[
        0
    ].native_id in servicer.lines[0][2]


def test_a_machine_that_a_stack_holds_is_not_imported_again(servicer, monkeypatch):
    """An import of what another resource of a state names is refused; once no state has named it
    since a look, it is free.
    """
    from providers.engine.runtime.world import open_world

    native = held().handles[0].native_id
    stand_in(
        monkeypatch, "adopt_stray", lambda provider, _id: held() if provider == "gcp" else None
    )
    world = open_world("rehearsal")
    world.journal.owned("rehearsal", held().owner, "gpus", "s", new=True)
    world.journal.launched(held())
    world.journal.claim("rehearsal", held().owner, "train", held().generation, held().handles)
    with pytest.raises(Aborted, match="no stack holds, found that it is cluster train"):
        call(servicer, "Read", id=native)
    with pytest.raises(Aborted, match="nothing is imported"):
        call(servicer, "Read", id=ID)
    world.journal.look("rehearsal", held().owner)
    assert call(servicer, "Read", id=native).id == ID
    world.close()


def plan(servicer, *, preview=True, **arguments):
    request = SimpleNamespace(
        tok="gpu:index:plan",
        args=struct({"world": "rehearsal", "cluster": "train", **arguments}),
        preview=preview,
    )
    return asyncio.run(servicer.Invoke(request, Context()))


def result(response):
    return wire.decode(getattr(response, "return")).values


def test_the_plan_is_shown_once_at_preview(servicer):
    """Under the cluster, 96 columns wide, against what runs now; in the update phase it is only
    answered.
    """
    call(servicer, "Check", news=struct(INPUTS))
    call(servicer, "Create", properties=struct(INPUTS), preview=True)
    said = result(plan(servicer, urn=URN))
    assert said["candidates"] > 10
    assert said["chosen"]["gpu_type"] == "H100"
    assert "nothing runs now" in said["change"]
    assert servicer.lines == [("info", URN, said["text"])]
    assert max(map(len, said["text"].splitlines())) <= 96
    plan(servicer, urn=URN, preview=False)
    assert len(servicer.lines) == 1


def test_the_plan_of_what_runs_says_what_changes(servicer):
    """Unchanged: nothing changes, whatever the market does. Replaced: the difference to the price
    at launch, and that it goes first.
    """
    diffed(servicer, INPUTS)
    said = result(plan(servicer, urn=URN))
    assert (
        said["change"]
        == "none: gcp us-central1-a a3-highgpu-8g H100:8 spot stays, at $10.21/h since its launch"
    )
    diffed(servicer, {**INPUTS, "gpu": "A100-80GB:8"})
    call(servicer, "Create", properties=struct(INPUTS), preview=True)
    said = result(plan(servicer, urn=URN))
    net = said["price_usd_per_hour"] - 10.210001
    assert (
        said["change"]
        == "REPLACES gcp us-central1-a a3-highgpu-8g H100:8 spot ($10.21/h): it and its disk are"
        f" deleted first, and may not come back; net {'-' if net < 0 else '+'}${abs(net):,.2f}/h"
    )
    assert "because     gpu: what runs no longer satisfies the declaration" in said["text"]


def test_a_replacement_that_nobody_compared_knows_what_it_replaces(servicer):
    """Under --replace and for what is tainted the engine asks for no difference: the journal tells
    what runs, and where it knows nothing, nothing does.
    """
    from providers.engine.runtime.world import open_world

    def change():
        call(servicer, "Check", news=struct(INPUTS))
        call(servicer, "Create", properties=struct(INPUTS), preview=True)
        return result(plan(servicer, urn=URN))["change"]

    assert "nothing runs now" in change()
    world = open_world("rehearsal")
    world.journal.launched(held())
    world.journal.look("rehearsal", held().owner)
    assert (
        "gcp us-central1-a H100:8 spot ($10.21/h) is there from an earlier run: it is taken over if"
        " it still fits" in change()
    )
    world.journal.claim("rehearsal", held().owner, "train", held().generation, held().handles)
    world.close()
    assert (
        "REPLACES gcp us-central1-a H100:8 spot ($10.21/h): it and its disk are deleted first"
        in change()
    )


def test_the_plan_of_what_ended_says_so(servicer):
    """Nothing runs and nothing stays: when it ended, how to get a new one, and what is still
    billed.
    """
    diffed(servicer, {**INPUTS, "ttl": "20h"}, state(status="ended"), {**INPUTS, "ttl": "20h"})
    said = result(plan(servicer, urn=URN))
    assert (
        said["change"]
        == "none: it ended at 2027-01-16T04:00:00Z by its ttl; change `run` to get a new one"
    )
    keeps = {**INPUTS, "ttl": "20h", "on_ttl": "keep"}
    diffed(servicer, keeps, state(status="ended"), keeps)
    assert "its disk is kept, and billed" in result(plan(servicer, urn=URN))["change"]
    diffed(servicer, {**INPUTS, "run": "2"}, state(status="ended"))
    said = result(plan(servicer, urn=URN))
    assert said["change"].startswith(
        "REPLACES gcp us-central1-a a3-highgpu-8g H100:8 spot, which ended at 2027-01-16T04:00:00Z"
        " by its ttl; +$"
    )


def test_an_edit_that_waits_is_said(servicer):
    """A ttl that the provider cannot put on a running machine replaces nothing, and the preview
    says that it waits.
    """
    response = diffed(servicer, {**INPUTS, "ttl": "30h"})
    assert response.changes == provider_pb2.DiffResponse.DIFF_SOME and not response.replaces
    said = result(plan(servicer, urn=URN))
    assert "gcp cannot edit ttl on a running machine: applied when it is next replaced" in " ".join(
        said["text"].split()
    )


def refused(servicer, values):
    """An edit that would replace what runs and is not carried out: nothing is replaced, the preview
    shows why and the update fails with it.
    """
    assert not diffed(servicer, values).replaces
    call(
        servicer,
        "Update",
        id=ID,
        olds=struct(state()),
        old_inputs=struct(INPUTS),
        news=struct(values),
        preview=True,
    )
    with pytest.raises(Aborted) as caught:
        call(
            servicer,
            "Update",
            id=ID,
            olds=struct(state()),
            old_inputs=struct(INPUTS),
            news=struct(values),
        )
    assert ("error", URN, caught.value.details) in servicer.lines
    return caught.value.details


def test_b42_nothing_is_given_up_for_a_declaration_that_nothing_can_serve(servicer):
    """An edit that would replace what runs, and for which there is no candidate, is refused before
    anything is deleted.
    """
    said = refused(servicer, {**INPUTS, "gpu": "A100-80GB:8", "max_price_per_hour": 0.5})
    assert said.startswith(
        "train: nothing acceptable for A100-80GB:8; spot, then on-demand; at most $0.5000/h (gpu:"
        " what runs no longer satisfies"
    )
    assert "gcp us-central1-a a3-highgpu-8g H100:8 spot stays as it is" in said
    assert "the cheapest is $" in said and "above the cap of $0.5000/h" in said


@pytest.mark.parametrize("zone", ["use1-atl2-az1", "apse3-az1"])
def test_a_machine_is_not_given_up_for_a_place_that_the_account_may_not_have(servicer, zone):
    """The only acceptable places are a Local Zone or a region that an account begins without: the
    edit is refused and says how to enable it; where nothing runs the same declaration is tried.
    """
    region = {"use1-atl2-az1": "us-east-1", "apse3-az1": "ap-southeast-3"}[zone]
    values = {
        **INPUTS,
        "spot": "only",
        "providers": ["aws"],
        "regions": [region],
        "max_price_per_hour": 16 if region == "us-east-1" else 80,
    }
    said = " ".join(refused(servicer, values).split())
    assert (
        "H100:8 spot stays as it is" in said
        and "an account must enable: aws " in said
        and "`gpus check aws --world rehearsal`" in said
    )
    other = {**values, "cluster": "new"}
    call(servicer, "Check", news=struct(other), urn=f"{URN}2")
    call(servicer, "Create", properties=struct(other), urn=f"{URN}2", preview=True)


def test_what_was_taken_back_may_go_without_a_candidate(servicer):
    """A refresh compares too: what the cloud itself took back is no edit, and must not fail it."""
    assert list(
        diffed(
            servicer,
            {**INPUTS, "max_price_per_hour": 0.5},
            state(status="preempted"),
            {**INPUTS, "max_price_per_hour": 0.5},
        ).replaces
    ) == ["status"]


def test_a_preview_of_nothing_acceptable_fails(servicer, monkeypatch):
    """`up` would fail, so preview does: the whole table, then a line with what would help."""
    monkeypatch.setattr(siblings, "only_previews", lambda: True)
    values = {**INPUTS, "spot": "never", "max_price_per_hour": 5}
    call(servicer, "Check", news=struct(values))
    with pytest.raises(
        Aborted,
        match=(
            r"train: nothing acceptable for H100:8; on-demand; at most \$5.00/h\nthe cheapest is \$"
        ),
    ) as caught:
        call(servicer, "Create", properties=struct(values), preview=True)
    assert "spot" in caught.value.details.splitlines()[2]
    assert [line[0] for line in servicer.lines] == ["info"] and "price-cap" in servicer.lines[0][2]


def test_live_without_credentials_says_so_first(servicer, monkeypatch, tmp_path):
    """A preview in the live world with no provider configured fails, and the credentials come
    first.
    """
    monkeypatch.setattr(siblings, "only_previews", lambda: True)
    for name in ("HOME", "CLOUDSDK_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    values = {**INPUTS, "world": "live", "providers": ["gcp"]}
    call(servicer, "Check", news=struct(values))
    with pytest.raises(Aborted) as caught:
        call(servicer, "Create", properties=struct(values), preview=True)
    assert caught.value.details.splitlines()[1].startswith("not configured: gcp: ")
    assert "gcp: gcp:" not in caught.value.details


def test_a_renamed_cluster_shows_what_still_runs(servicer):
    """What the owner runs under a name that the program does not have is shown beside the new one's
    price.
    """
    from providers.engine.runtime.world import open_world

    world = open_world("rehearsal")
    world.journal.launched(held())
    world.close()
    values = {**INPUTS, "cluster": "tune"}
    call(servicer, "Check", news=struct(values))
    call(servicer, "Create", properties=struct(values), preview=True)
    said = result(plan(servicer, urn=URN, cluster="tune"))
    assert "this stack runs train (gcp us-central1-a H100:8 spot, $10.21/h)" in " ".join(
        said["text"].split()
    )
    servicer.session.declared.add("train")
    assert "this stack runs" not in result(plan(servicer, urn=URN, cluster="tune"))["text"]


def test_all_clusters_are_checked_at_once(servicer):
    """One question for a stack: every problem of every cluster, with its path; keys that Python
    reserves are no exception.
    """
    clusters = {
        "good": {"gpu": "L4:1"},
        "": {"gpu": "L4:1"},
        "bad": {"gpu": "H1000:8", "self": 1, "nodes": 0, "providers": 5},
    }
    request = SimpleNamespace(
        tok="gpu:index:check",
        args=struct({"world": "rehearsal", "settings": {}, "clusters": clusters}),
        preview=True,
    )
    problems = result(asyncio.run(servicer.Invoke(request, Context())))["problems"]
    assert {
        name: sorted(line.partition(":")[0] for line in lines) for name, lines in problems.items()
    } == {"good": [], "": ["''"], "bad": ["bad.gpu", "bad.nodes", "bad.providers", "bad.self"]}


def test_the_plan_of_a_reclaim_tells_the_overlap(servicer):
    """While the preferred one is had first, both cost."""
    old = {**INPUTS, "fallback": ["A100-80GB:8"]}
    diffed(
        servicer,
        {**old, "reclaim": "now"},
        state(gpu_type="A100-80GB", machine_type="a2-ultragpu-8g", entry=1),
        old,
    )
    said = result(plan(servicer, urn=URN))
    assert "first; while both run $" in said["change"]


def test_b44_the_plan_of_an_unknown_gpu_says_so(servicer):
    """No crash and no price."""
    call(servicer, "Check", news=struct({**INPUTS, "gpu": wire.UNKNOWN}))
    said = result(plan(servicer, urn=URN))
    assert said["candidates"] == 0
    assert "not known yet" in said["text"]


def test_the_plan_stands_alone_too(servicer):
    """Any program may ask, without a cluster; a bad declaration is a failure with its path."""
    said = result(plan(servicer, gpu="L4:1", running_usd_per_hour=0.1))
    assert said["chosen"]["gpu_type"] == "L4"
    assert servicer.lines == []
    assert [failure.property for failure in plan(servicer, gpu="L4:x").failures] == ["gpu"]


def test_import_of_an_unmarked_machine(servicer, monkeypatch):
    """A bare native id becomes a cluster with inputs that declare exactly it."""
    stand_in(
        monkeypatch, "adopt_stray", lambda provider, native_id: held()._replace(owner="", entry=0)
    )
    response = call(servicer, "Read", id="projects/p/zones/z/instances/n", inputs=Struct())
    assert response.id == "rehearsal/stray/train/ba9876543210"
    seen = wire.decode(response.inputs).values
    assert (seen["gpu"], seen["regions"], seen["capacity"]) == ("H100:8", ["us-central1"], ["spot"])
    assert not call(servicer, "Check", news=response.inputs).failures
    declared = {**seen, "owner": "0123456789ab"}
    call(servicer, "Check", news=struct(declared))
    after = call(
        servicer,
        "Diff",
        id=response.id,
        old_inputs=response.inputs,
        news=struct(declared),
        olds=response.properties,
    )
    assert not after.replaces


def test_import_of_what_is_not_there(servicer, monkeypatch):
    """A clear line that says what an id looks like."""
    stand_in(monkeypatch, "adopt_stray", None)
    with pytest.raises(
        Aborted,
        match=(
            'wanted a machine such as "projects/P/zones/Z/instances/N", found no machine of that id'
            " in the rehearsal world"
        ),
    ):
        call(servicer, "Read", id="projects/p/zones/z/instances/n", inputs=Struct())


def test_unknown_types_and_functions_are_refused(servicer):
    """By name."""
    with pytest.raises(Aborted, match="unknown resource type 'gpu:index:Nope'"):
        call(servicer, "Check", urn="urn:pulumi:s::gpus::gpu:index:Nope::x", news=Struct())
    with pytest.raises(Aborted, match="unknown function"):
        asyncio.run(
            servicer.Invoke(
                SimpleNamespace(tok="gpu:index:nope", args=Struct(), preview=True), Context()
            )
        )


def test_lines_for_the_screen_fit_it():
    """A long line is broken at spaces and goes on indented; short ones and addresses are left as
    they are.
    """
    from providers.plugin.preview import fitted

    line = (
        "#3 gcp australia-southeast2 H100:8 spot $10.74/h: sold out"
        " (ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS) a while"
    )
    assert fitted(f"  x\n{line}").splitlines() == ["  x", line[:58], f"    {line[59:]}"]
    assert fitted("x" * 120) == "x" * 120


def test_clouds_that_hang_hold_up_a_refresh_for_one_time_limit_together(servicer, monkeypatch):
    """Two resources whose clouds never answer are read side by side; each stays as it was, with a
    warning, and none is taken for gone.
    """
    monkeypatch.setattr("providers.plugin.session.READ_LIMIT_S", 0.3)
    asked = []

    async def hangs(_world, held, *_policy):
        asked.append(held.cluster)
        await asyncio.Event().wait()

    monkeypatch.setattr(engine, "read", hangs)
    fields = {
        "news": Struct(),
        "olds": Struct(),
        "old_inputs": Struct(),
        "properties": struct(state()),
        "inputs": struct(INPUTS),
        "id": ID,
    }

    async def refresh():
        reads = [
            servicer.Read(SimpleNamespace(urn=f"{URN}{number}", preview=False, **fields), Context())
            for number in range(2)
        ]
        return await asyncio.wait_for(asyncio.gather(*reads), 30)

    assert [answer.id for answer in asyncio.run(refresh())] == [ID, ID]
    assert len(asked) == 2, "the second is asked before the first has answered"
    assert [text for _, _, text in servicer.lines] == [
        "could not be looked at and is kept as it was: no answer within 0s"
    ] * 2
