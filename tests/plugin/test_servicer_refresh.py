"""Read and Diff: what a refresh keeps, and what makes an update or a replacement."""

import asyncio
from types import SimpleNamespace

import pytest
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import provider_pb2

from providers.engine import operations as engine
from providers.errors import Transient
from providers.plugin import properties as wire
from tests.plugin.servicer_rig import (
    ID,
    INPUTS,
    URN,
    Aborted,
    Context,
    call,
    diffed,
    stand_in,
    state,
    struct,
)
from tests.plugin.test_outputs import a_record
from tests.present import present


def test_read_of_what_is_gone_has_no_id(servicer, monkeypatch) -> None:
    """No id tells the engine to drop it; the next up creates it."""
    stand_in(monkeypatch, "read", None)
    assert call(servicer, "Read", id=ID, properties=state(), inputs=struct(INPUTS)).id == ""


def test_read_keeps_attempts_and_address(servicer, monkeypatch) -> None:
    """A look knows neither the attempts nor, where it saw no machine, the address: what the state
    has stays.
    """
    calls = stand_in(monkeypatch, "read", lambda record, _on_loss: record)
    response = call(servicer, "Read", id=ID, properties=state(), inputs=struct(INPUTS))
    assert response.id == ID
    assert wire.decode(response.properties) == wire.decode(state())
    assert calls[0][1].handles == a_record().handles


def test_read_of_a_degraded_cluster_is_an_init_error(servicer, monkeypatch) -> None:
    """So that the next up calls Update even though nothing was edited."""
    stand_in(
        monkeypatch,
        "read",
        a_record()._replace(status="degraded", reasons=("degraded: 1 of 2 machines are left",)),
    )
    with pytest.raises(Aborted) as caught:
        call(servicer, "Read", id=ID, properties=state(), inputs=struct(INPUTS))
    assert present(caught.value.init_failed).id == ID


@pytest.mark.parametrize("error", [Transient("no answer", provider="gcp"), RuntimeError("boom")])
def test_read_never_fails(servicer, monkeypatch, error) -> None:
    """An error would block every command, destroy too: the state stays as it was, with a warning."""
    stand_in(monkeypatch, "read", error)
    response = call(servicer, "Read", id=ID, properties=state(), inputs=struct(INPUTS))
    assert (response.id, response.properties) == (ID, state())
    assert [line[:2] for line in servicer.lines] == [("warning", URN)]


def test_diff_of_nothing(servicer) -> None:
    """No change is said plainly, so that the engine compares nothing itself."""
    assert diffed(servicer, INPUTS).changes == provider_pb2.DiffResponse.DIFF_NONE


def test_b42_diff_replaces_delete_first(servicer) -> None:
    """What no longer satisfies is replaced, the old one first; each changed path is named."""
    response = diffed(servicer, {**INPUTS, "gpu": "H200:8"})
    assert response.changes == provider_pb2.DiffResponse.DIFF_SOME
    assert response.deleteBeforeReplace
    assert list(response.replaces) == ["gpu"]
    assert response.detailedDiff["gpu"].kind == provider_pb2.PropertyDiff.UPDATE_REPLACE


def test_diff_updates_what_is_still_satisfied(servicer) -> None:
    """A looser declaration that the running machine satisfies replaces nothing."""
    response = diffed(servicer, {**INPUTS, "gpu": "H200:8", "fallback": ["H100:8"]})
    assert response.changes == provider_pb2.DiffResponse.DIFF_SOME
    assert not response.replaces


def test_diff_replaces_what_was_preempted(servicer) -> None:
    """An observed status alone makes a replacement."""
    response = diffed(servicer, INPUTS, state(status="preempted"))
    assert list(response.replaces) == ["status"]
    assert not response.detailedDiff["status"].inputDiff


def test_b11_what_the_cloud_reports_is_no_difference(servicer, monkeypatch) -> None:
    """A read that finds more than was declared (another address, a server's own fields) makes no
    change at the next preview.
    """
    stand_in(
        monkeypatch,
        "read",
        lambda record, _on_loss: record._replace(
            machines=tuple(node._replace(external_ip="192.0.2.200") for node in a_record().machines)
        ),
    )
    opened = {**INPUTS, "network": "managed", "expose": "public", "ports": [80]}
    read = call(servicer, "Read", id=ID, properties=state(), inputs=struct(opened))
    (endpoint,) = wire.decode(read.properties).values["endpoints"]
    assert endpoint == "192.0.2.200:80"
    assert diffed(servicer, INPUTS, read.properties).changes == provider_pb2.DiffResponse.DIFF_NONE


def test_clouds_that_hang_hold_up_a_refresh_for_one_time_limit_together(
    servicer, monkeypatch
) -> None:
    """Two resources whose clouds never answer are read side by side; each stays as it was, with a
    warning, and none is taken for gone.
    """
    monkeypatch.setattr("providers.plugin.session.READ_LIMIT_S", 0.3)
    asked = []

    async def hangs(_world, record, *_policy) -> None:
        asked.append(record.cluster)
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
    assert [" ".join(text.split()) for _, _, text in servicer.lines] == [
        "could not be looked at and is kept as it was: no answer within 1s; run it again: `gpus"
        " check -s s` says which provider does not answer"
    ] * 2
