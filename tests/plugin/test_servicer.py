"""The provider's remote calls on a cluster: check, create, update, cancel, delete and import."""

import asyncio
from types import SimpleNamespace
from typing import Never

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct

from providers.engine import operations as engine
from providers.errors import AllFailed, Busy, GpusError, HalfMade, OutcomeUnknown
from providers.model.machine import Handle
from providers.plugin import outputs, siblings
from providers.plugin import properties as wire
from providers.plugin.schema import CLUSTER_OUTPUTS
from tests.plugin.servicer_rig import (
    ID,
    INPUTS,
    URN,
    Aborted,
    Context,
    call,
    stand_in,
    state,
    struct,
)
from tests.plugin.test_outputs import a_record
from tests.present import present


def test_check_names_each_problem_with_its_path(servicer) -> None:
    """Check failures travel as (property, reason), all of them."""
    response = call(servicer, "Check", news=struct({**INPUTS, "gpu": "H1000:8", "nodes": 0}))
    assert {failure.property for failure in response.failures} == {"gpu", "nodes"}
    assert all(failure.reason.startswith("wanted ") for failure in response.failures)


def test_check_gives_back_canonical_inputs(servicer) -> None:
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


def test_b44_preview_of_create_buys_nothing(servicer, monkeypatch) -> None:
    """At preview the engine is not called, and what depends on the place is unknown."""
    calls = stand_in(monkeypatch, "create", a_record())
    response = call(
        servicer, "Create", properties=struct({**INPUTS, "owner": wire.UNKNOWN}), preview=True
    )
    assert calls == []
    assert response.id == ""
    seen = wire.decode(response.properties)
    assert seen.unknown == set(CLUSTER_OUTPUTS) - {"schema", "world", "record"}
    assert seen.values["world"] == "rehearsal"


def test_a_plan_that_cannot_be_shown_fails_the_preview(servicer, monkeypatch) -> None:
    """No table, no `up`: one warning beside a creation is passed over too easily."""
    monkeypatch.setattr("providers.planner.render.as_text", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(siblings, "only_previews", lambda: True)
    with pytest.raises(Aborted, match="wanted a plan to show before anything is bought"):
        call(servicer, "Check", news=struct(INPUTS))
        call(servicer, "Create", properties=struct(INPUTS), preview=True)


def test_create_gives_id_and_outputs(servicer, monkeypatch) -> None:
    """Every create mints a generation of its own; the id is logical."""
    calls = stand_in(
        monkeypatch, "create", lambda wanted, generation: a_record()._replace(generation=generation)
    )
    first = call(servicer, "Create", properties=struct(INPUTS))
    second = call(servicer, "Create", properties=struct(INPUTS))
    (world, wanted, generation), _ = calls
    assert (world, wanted.owner, wanted.cluster) == ("rehearsal", "0123456789ab", "train")
    assert first.id == f"rehearsal/0123456789ab/train/{generation}"
    assert first.id != second.id
    assert wire.decode(first.properties).values == outputs.write(
        a_record()._replace(generation=generation), wanted.setup
    )


def test_half_made_is_kept_in_state(servicer, monkeypatch) -> None:
    """Reasons become an init error with id, outputs and inputs, so that destroy deletes it and the
    next up finishes it.
    """
    record = a_record()._replace(status="queued", reasons=("queued: waits for capacity",))
    stand_in(monkeypatch, "create", record)
    with pytest.raises(Aborted) as caught:
        call(servicer, "Create", properties=struct(INPUTS))
    failed = present(caught.value.init_failed)
    assert caught.value.details == "queued: waits for capacity"
    assert (failed.id, list(failed.reasons)) == (ID, ["queued: waits for capacity"])
    assert outputs.read(failed.id, wire.decode(failed.properties).values).reasons == record.reasons
    assert wire.decode(failed.inputs).values == INPUTS


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (
            AllFailed("train: sold out everywhere\n#1 gcp: sold out"),
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "train: sold out everywhere\n#1 gcp: sold out",
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
def test_failures_are_clean_lines(servicer, monkeypatch, tmp_path, error, code, says) -> None:
    """No failure leaves as a traceback; only what nobody foresaw leaves one, in a file."""
    stand_in(monkeypatch, "create", error)
    with pytest.raises(Aborted) as caught:
        call(servicer, "Create", properties=struct(INPUTS))
    assert caught.value.code is code
    assert caught.value.details.startswith(says)
    assert (tmp_path / "plugin.log").exists() == isinstance(error, RuntimeError)


def test_a_cancelled_create_is_settled(servicer, monkeypatch) -> None:
    """When the engine is gone the purchase is cancelled, and the process waits until it has cleaned
    up.
    """
    done, begun = [], asyncio.Event()

    async def create(world, wanted, generation) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            done.append("released")
            raise

    monkeypatch.setattr(engine, "create", create)

    async def scene() -> None:
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


def test_cancel_stops_what_is_under_way(servicer, monkeypatch) -> None:
    """The Cancel call sets the world's stop; at a normal end nothing is there to stop."""
    worlds, begun = [], asyncio.Event()

    async def create(world, wanted, generation) -> Never:
        worlds.append(world)
        begun.set()
        while not world.stop.is_set():
            await asyncio.sleep(0.01)
        raise GpusError("stopped by the user")

    monkeypatch.setattr(engine, "create", create)

    async def scene() -> None:
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


def test_b44_preview_of_update_touches_nothing(servicer, monkeypatch) -> None:
    """At preview Update gives back what is held."""
    calls = stand_in(monkeypatch, "update", a_record())
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


def test_update_and_reclaim(servicer, monkeypatch) -> None:
    """A raised `triggers.reclaim` calls the engine's reclaim; every other edit its update, under the same
    id.
    """
    updates, reclaims = (
        stand_in(monkeypatch, "update", a_record()),
        stand_in(monkeypatch, "reclaim", a_record()),
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
        news=struct({**INPUTS, "triggers": {"reclaim": 1}}),
    )
    assert (len(updates), len(reclaims)) == (1, 1)


def test_delete_goes_to_the_world_in_the_id(servicer, monkeypatch) -> None:
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


def test_delete_that_is_not_confirmed_fails(servicer, monkeypatch) -> None:
    """The engine keeps it in state; the line names what still costs money."""
    stand_in(
        monkeypatch,
        "delete",
        HalfMade("train: x still costs $10.21/h", provider="gcp", handles=(Handle("gcp", "x"),)),
    )
    with pytest.raises(Aborted, match=r"still costs \$10.21/h"):
        call(servicer, "Delete", id=ID, properties=state(), old_inputs=struct(INPUTS))


def test_import_of_an_unlabelled_machine(servicer, monkeypatch) -> None:
    """A bare native id becomes a cluster with inputs that declare exactly it."""
    stand_in(
        monkeypatch,
        "adopt_stray",
        lambda provider, native_id: a_record()._replace(owner="", entry=0),
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


def test_import_of_what_is_not_there(servicer, monkeypatch) -> None:
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


def test_unknown_types_and_functions_are_refused(servicer) -> None:
    """By name."""
    with pytest.raises(Aborted, match="unknown resource type 'gpu:index:Nope'"):
        call(servicer, "Check", urn="urn:pulumi:s::gpus::gpu:index:Nope::x", news=Struct())
    with pytest.raises(Aborted, match="unknown function"):
        asyncio.run(
            servicer.Invoke(
                SimpleNamespace(tok="gpu:index:nope", args=Struct(), preview=True), Context()
            )
        )
