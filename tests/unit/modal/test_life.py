"""The life of a sandbox, with the real client against the stand-in: ordered, started in time or
given up, seen, ended and confirmed.
"""

import threading
import time

import pytest

from providers.adapters.modal import client as connection
from providers.adapters.modal import sdk, sign_in
from providers.adapters.modal.adapter import Modal
from providers.errors import (
    BadCredentials,
    HalfMade,
    NoCapacity,
    OutcomeUnknown,
    QuotaExceeded,
    RateLimited,
    Transient,
    Unsupported,
)
from providers.model.machine import Handle, Label, Setup
from providers.rehearsal.clouds import modal
from providers.rehearsal.clouds.modal import console, service
from tests.unit.modal.cloud import Cloud
from tests.unit.modal.test_gpu import candidate, order


@pytest.fixture
def cloud(tmp_path):
    made = Cloud(tmp_path)
    yield made
    made.close()


@pytest.fixture
def adapter(cloud):
    return cloud.adapter()


def token(number) -> str:
    return f"{number:08d}-1111-4222-8333-444455556666"


def started(cloud, adapter, wanted):
    ticket = adapter.submit(wanted)
    cloud.wait(2)
    return adapter.poll(ticket)


def test_ordered_started_seen_deleted(cloud, adapter) -> None:
    """A sandbox is waiting until its container has started, runs as ordered, and is gone after its
    deletion.
    """
    wanted = order(candidate("H100", 8))
    ticket = adapter.submit(wanted)
    assert ticket.state == "waiting" and ticket.handles == ()
    assert adapter.poll(ticket).state == "waiting"
    cloud.wait(2)
    done = adapter.poll(ticket)
    assert done.state == "done" and wanted.candidates[0] == done.placed
    (node,) = adapter.observe(done.handles)
    assert (
        node.status, node.gpu_type, node.gpu_count, node.machine_type, node.region, node.capacity,
    ) == ("running", "H100", 8, "container-8", "any", "on-demand")  # fmt: skip
    assert wanted.label == node.label and wanted.node_names[0] == node.name
    assert f"modal shell {node.handle.native_id}" == node.login
    assert [node] == list(adapter.find("own1"))
    adapter.delete(node.handle)
    cloud.wait(1)
    assert [seen.status for seen in adapter.observe(done.handles)] == ["gone"]
    assert list(adapter.find("own1")) == []


def test_deleting_twice_and_deleting_what_never_was_is_success(cloud, adapter) -> None:
    """A deletion of what is gone, or never was, is no error."""
    (handle,) = started(cloud, adapter, order()).handles
    adapter.delete(handle)
    adapter.delete(handle)
    adapter.delete(Handle("modal", "sb-AAAAAAAAAAAAAAAAAAAAAA"))
    assert [
        node.status for node in adapter.observe([Handle("modal", "sb-AAAAAAAAAAAAAAAAAAAAAA")])
    ] == ["gone"]


def test_b46_a_deletion_is_done_only_when_no_container_is_listed(cloud, adapter) -> None:
    """A stop that Modal accepted leaves the machine `stopping` for as long as its container is
    listed.
    """
    cloud.store.set_latency("modal", "delete", 3 * 86_400)
    done = started(cloud, adapter, order())
    adapter.delete(done.handles[0])
    cloud.wait(2 * 86_400)
    (node,) = adapter.observe(done.handles)
    assert node.status == "stopping" and "still listed" in node.detail
    cloud.wait(2 * 86_400)
    assert adapter.observe(done.handles)[0].status == "gone"


def test_b46_a_bad_gpu_string_is_refused_before_any_call(cloud, adapter) -> None:
    """A name or count that Modal does not sell ends before an image is built or a sandbox asked
    for.
    """
    for bad in (candidate("A100-70GB"), candidate("A10", 8)):
        with pytest.raises(Unsupported):
            adapter.submit(order(bad))
    assert cloud.sent("*") == 0


def test_the_server_refuses_what_the_client_would_send(cloud, adapter, monkeypatch) -> None:
    """The stand-in refuses unknown names and counts as the server does, and that is Unsupported by
    its code.
    """
    monkeypatch.setattr("providers.adapters.modal.gpu.text", lambda *_args, **_kwargs: "H1000:1")
    with pytest.raises(Unsupported) as refused:
        adapter.submit(order())
    assert refused.value.code == "INVALID_ARGUMENT"


def test_a_queue_that_never_moves_is_no_capacity_and_leaves_nothing(cloud, adapter) -> None:
    """Without a container by the end of the wait the sandbox is ended, that is confirmed, and the
    refusal is NoCapacity.
    """
    cloud.store.set_stock("modal", "", "", "", 0)
    ticket = adapter.submit(order(wait_s=900))
    cloud.wait(899)
    ticket = adapter.poll(ticket)
    assert ticket.state == "waiting"
    assert [node.status for node in adapter.find("own1")] == ["queued"]
    cloud.wait(2)
    ticket = adapter.poll(ticket)
    assert ticket.state == "waiting" and "being ended" in ticket.detail
    with pytest.raises(NoCapacity) as refused:
        adapter.poll(ticket)
    assert refused.value.code == "not-started"
    assert list(adapter.find("own1")) == []
    cloud.store.set_stock("modal", "", "", "", None)
    cloud.wait(5)
    assert cloud.adapter().find("own1") == []


def test_a_container_that_starts_before_anything_was_ended_is_capacity(cloud, adapter) -> None:
    """Giving up that did not reach Modal has changed nothing: a container that starts meanwhile is
    handed over.
    """
    cloud.store.set_stock("modal", "", "", "", 0)
    cloud.store.add_fault("modal", "SandboxTerminate", "unauthorized")
    ticket = adapter.submit(order(wait_s=10))
    cloud.wait(11)
    with pytest.raises(BadCredentials):
        adapter.poll(ticket)
    cloud.store.set_stock("modal", "", "", "", None)
    assert adapter.poll(ticket).state == "done"


def test_a_container_that_outlives_the_given_up_order_is_half_made(cloud, adapter) -> None:
    """When the container stays listed long after the end, the machine is named: nothing else may be
    bought yet.
    """
    cloud.store.set_latency("modal", "delete", 10 * 86_400)
    ticket = adapter.submit(order(wait_s=60))
    cloud.wait(2)
    adapter.client.terminate(dict(ticket.native)["sandbox"])
    assert "still listed" in adapter.poll(ticket).detail
    cloud.wait(300)
    with pytest.raises(HalfMade) as stuck:
        adapter.poll(ticket)
    assert dict(ticket.native)["sandbox"] == stuck.value.handles[0].native_id


@pytest.mark.parametrize("kind", ["reply-lost", "malformed", "error-after"])
def test_a_lost_reply_is_settled_by_the_token(cloud, adapter, kind) -> None:
    """Work done and no answer: the outcome is unknown, and the order's token finds the one sandbox,
    from any process.
    """
    cloud.store.add_fault("modal", "SandboxCreate", kind)
    wanted = order()
    with pytest.raises(OutcomeUnknown) as lost:
        adapter.submit(wanted)
    assert wanted.token == lost.value.token and cloud.sent("SandboxCreate") == 1
    other = cloud.adapter()
    ticket = other.resume(wanted)
    cloud.wait(2)
    assert other.poll(ticket).state == "done"
    assert len(other.find("own1")) == 1


def test_a_lost_call_is_certain_only_after_a_while(cloud, adapter) -> None:
    """Refused before any work, without a word: nothing is found, and that proves nothing for the
    first seconds.
    """
    cloud.store.add_fault("modal", "SandboxCreate", "unavailable")
    wanted = order()
    with pytest.raises(OutcomeUnknown):
        adapter.submit(wanted)
    with pytest.raises(OutcomeUnknown):
        adapter.resume(wanted)
    cloud.wait(6)
    assert adapter.resume(wanted) is None
    assert cloud.adapter().resume(order(token=token(7))) is None


def test_the_creating_call_is_sent_once(cloud, adapter) -> None:
    """The client's own retries are off for the creating call, whatever the failure."""
    cloud.store.add_fault("modal", "SandboxCreate", "unavailable", None)
    with pytest.raises(OutcomeUnknown):
        adapter.submit(order())
    assert cloud.sent("SandboxCreate") == 1


def test_the_same_order_again_is_the_same_sandbox(cloud, adapter) -> None:
    """The token is the idempotency key, and the name is unique in the app: a second submit of one
    order makes nothing new.
    """
    wanted = order()
    first, again = adapter.submit(wanted), adapter.submit(wanted)
    assert dict(first.native)["sandbox"] == dict(again.native)["sandbox"]
    with pytest.raises(Transient) as taken:
        adapter.submit(wanted._replace(token=token(3)))
    assert taken.value.code == "ALREADY_EXISTS" and dict(first.native)["sandbox"] in str(
        taken.value
    )
    assert len(adapter.find("own1")) == 1


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("quota", QuotaExceeded),
        ("rate-limit", RateLimited),
        ("unauthorized", BadCredentials),
        ("forbidden", BadCredentials),
    ],
)
def test_a_refusal_before_any_work(cloud, adapter, kind, error) -> None:
    """Quota, rate limit and refused credentials are their own classes, and nothing was made."""
    cloud.store.add_fault("modal", "SandboxCreate", kind)
    with pytest.raises(error):
        adapter.submit(order())
    assert list(adapter.find("own1")) == []


def test_a_sandbox_that_fails_at_its_start_is_refused(cloud, adapter) -> None:
    """A bad command or image shows when the container starts: refused with the end's own word; an
    internal failure is no capacity.
    """
    cloud.store.add_fault("modal", "SandboxCreate", "op-error", code="INIT_FAILURE")
    ticket = adapter.submit(order())
    cloud.wait(2)
    with pytest.raises(Unsupported, match="INIT_FAILURE"):
        adapter.poll(ticket)
    cloud.store.add_fault("modal", "SandboxCreate", "op-error", code="INTERNAL_FAILURE")
    ticket = adapter.submit(order(token=token(4)))
    cloud.wait(2)
    with pytest.raises(NoCapacity, match="INTERNAL_FAILURE"):
        adapter.poll(ticket)


def test_an_image_that_cannot_be_built_is_said(cloud, adapter) -> None:
    """A failed build names the options to correct, buys nothing, and is tried anew the next time."""
    cloud.store.add_fault("modal", "ImageGetOrCreate", "op-error", code="no such tag")
    wanted = order(setup=Setup(options=(("image", "nvidia/cuda:nope"),)))
    with pytest.raises(Unsupported, match=r"options.modal"):
        adapter.submit(wanted)
    assert cloud.sent("SandboxCreate") == 0
    assert adapter.submit(wanted).state == "waiting"


def test_an_image_still_being_built_is_waited_for_by_asking_again(
    cloud, adapter, monkeypatch
) -> None:
    """An order looks at a build for a bounded time; the build goes on and nothing is bought
    meanwhile.
    """
    monkeypatch.setattr(connection, "BUILD_LOOK_S", 0.05)
    cloud.store.add_fault("modal", "ImageGetOrCreate", "delay", seconds=0.6)
    with pytest.raises(Transient) as building:
        adapter.submit(order())
    assert building.value.code == "image-building" and cloud.sent("SandboxCreate") == 0
    monkeypatch.setattr(connection, "BUILD_LOOK_S", 5.0)
    assert adapter.submit(order()).state == "waiting"


def test_ended_by_its_own_limit_and_preempted(cloud, adapter) -> None:
    """A passed time limit reads ended, a container that Modal took back preempted; after a deletion
    both are gone.
    """
    first = started(cloud, adapter, order(setup=Setup(ttl_s=3600)))
    second = started(cloud, adapter, order(token=token(5)))
    assert console.preempt(cloud.store, adapter.observe(second.handles)[0].name) == 1
    cloud.wait(4000)
    handles = [*first.handles, *second.handles]
    assert [node.status for node in adapter.observe(handles)] == ["ended", "preempted"]
    for handle in handles:
        adapter.delete(handle)
    assert [node.status for node in adapter.observe(handles)] == ["gone", "gone"]


def test_an_upgrade_at_the_same_price_is_what_was_ordered_and_is_said(cloud, adapter) -> None:
    """H100 that became H200 counts as the H100 ordered and says so; with `!` it is never given."""
    cloud.store.set_stock("modal", "", "container-1", "on-demand", 0, gpu="H100")
    cloud.store.set_stock("modal", "", "container-1", "on-demand", 5, gpu="H200")
    done = started(cloud, adapter, order())
    (node,) = adapter.observe(done.handles)
    assert node.gpu_type == "H100" and "upgraded to H200" in node.detail
    assert started(cloud, adapter, order(candidate(exact=True), token=token(6))).state == "waiting"


def test_stock_is_counted_and_given_back(cloud, adapter) -> None:
    """The scenario's count is the number that runs at once; the queue moves when one ends."""
    cloud.store.set_stock("modal", "", "container-8", "on-demand", 1, gpu="H100")
    first = started(cloud, adapter, order(candidate("H100", 8)))
    second = adapter.submit(order(candidate("H100", 8), token=token(8)))
    cloud.wait(60)
    assert (first.state, adapter.poll(second).state) == ("done", "waiting")
    adapter.delete(first.handles[0])
    assert adapter.poll(second).state == "done"


def test_find_pages_and_narrows(cloud, adapter, monkeypatch) -> None:
    """Every machine of an owner is found, page by page, narrowed by cluster and generation; others'
    are not.
    """
    monkeypatch.setattr(service, "PAGE", 2)
    for number in range(5):
        adapter.submit(
            order(
                token=token(10 + number),
                cluster="train" if number < 4 else "serve",
                generation=f"g{number % 2}",
            )
        )
        cloud.wait(0.5)
    assert len(cloud.adapter().find("own1")) == 5
    assert len(adapter.find("own1", "train")) == 4 and len(adapter.find("own1", "train", "g1")) == 2
    assert list(adapter.find("somebody")) == []
    assert list(Cloud.adapter(cloud).find("own1", "train", "g9")) == []


def test_find_does_not_make_the_app(cloud, adapter) -> None:
    """Looking for machines where none were ever made changes nothing at Modal."""
    assert list(adapter.find("own1")) == []
    assert cloud.store.mutations() == ()


def test_relabel_and_labels(cloud, adapter) -> None:
    """A new generation and new labels are written in place; the label's other parts stay."""
    (handle,) = started(
        cloud, adapter, order(setup=Setup(labels=(("team", "a"), ("old", "x"))))
    ).handles
    adapter.relabel(handle, "g2")
    adapter.update(handle, {"labels": {"team": "b"}})
    tags = adapter.client.tags(handle.native_id)
    assert (tags["team"], tags["gpus-generation"]) == ("b", "g2") and "old" not in tags
    assert Label("own1", "train", "g2", "fp") == adapter.observe([handle])[0].label
    assert (
        len(adapter.find("own1", "train", "g2")) == 1
        and list(adapter.find("own1", "train", "g1")) == []
    )


def test_the_account_is_checked(cloud, adapter) -> None:
    """The check names token, workspace, environment and the GPU limit; a refused token says what to
    do.
    """
    cloud.store.set_quota("modal", "", "gpus", 10)
    assert [line.state for line in adapter.check()] == ["ok"] * 4
    assert adapter.check()[-1].found == "10 GPUs at once"
    cloud.store.add_fault("modal", "TokenInfoGet", "unauthorized")
    refused = adapter.check()[-1]
    assert refused.state == "refused" and "token new" in refused.todo


def test_an_rpc_that_the_rehearsal_lacks_is_refused_and_logged(cloud, adapter) -> None:
    """An unknown call is answered UNIMPLEMENTED and stands in the log."""
    from modal_proto import api_pb2

    with pytest.raises(Unsupported):
        adapter.client.call("SandboxSnapshot", api_pb2.SandboxSnapshotRequest())
    assert [request.status for request in cloud.store.requests("SandboxSnapshot")] == [12]


def test_two_processes_servers_are_one_cloud(cloud, adapter) -> None:
    """What is ordered through one server is found and deleted through another on the same store."""
    (handle,) = started(cloud, adapter, order()).handles
    second = modal.start(cloud.store)
    try:
        other = cloud.adapter(second)
        assert [handle] == [node.handle for node in other.find("own1")]
        other.delete(handle)
    finally:
        second.close()
    cloud.wait(1)
    assert list(adapter.find("own1")) == []


def test_a_server_that_is_away_is_said_at_once(tmp_path) -> None:
    """An unreachable server is Transient within seconds, not after the client's own minute, and
    nothing was sent.
    """
    client = connection.Client(
        sign_in.Credentials("a", "b", "test"),
        url=f"unix://{tmp_path}/none.sock",
        environment="main",
    )
    begun = time.monotonic()
    with pytest.raises(Transient) as away:
        Modal("rehearsal", client, time.time).submit(order())
    assert away.value.code == "unreachable" and time.monotonic() - begun < 30


def test_a_call_that_is_never_answered_ends(cloud, adapter, monkeypatch) -> None:
    """Every reading call has a wall clock of its own."""
    monkeypatch.setattr(connection, "CALL_S", 0.2)
    adapter.check()
    cloud.store.add_fault("modal", "SandboxWait", "delay", seconds=3)
    with pytest.raises(Transient):
        adapter.client.call(
            "SandboxWait", sdk.protocol().SandboxWaitRequest(sandbox_id="sb-x"), limit_s=0.2
        )


def test_it_runs_beside_a_grpc_aio_server_and_pulumis_messages(cloud, adapter) -> None:
    """In one process with Pulumi's protocol and a grpc.aio server in a running loop, calls from a
    thread work.
    """
    import asyncio

    import grpc
    from pulumi.runtime.proto import provider_pb2

    async def main():
        server = grpc.aio.server()
        server.add_insecure_port("127.0.0.1:0")
        await server.start()
        done = await asyncio.to_thread(started, cloud, adapter, order())
        await server.stop(None)
        # grpc's server must be collected while its loop still runs.
        del server
        return done

    assert asyncio.run(main()).state == "done"
    assert (
        provider_pb2.CreateResponse.FromString(
            provider_pb2.CreateResponse(id="x").SerializeToString()
        ).id
        == "x"
    )


def test_calls_from_many_threads_share_one_connection(cloud, adapter) -> None:
    """The adapter is safe from several threads at once."""
    (handle,) = started(cloud, adapter, order()).handles
    seen = []
    threads = [
        threading.Thread(target=lambda: seen.append(adapter.observe([handle])[0].status))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["running"] * 8
