"""A job's and a service's life at Modal: attempts, lost answers, drift, the end. The test moves
the clock.
"""

import pytest

from providers.errors import HalfMade, NoCapacity, OutcomeUnknown, Transient, Unsupported
from providers.rehearsal.clouds.modal.deployed import Deployed
from tests.present import present
from tests.unit.modal.functions_rig import SERVICE, declared, function, order, running

# A job's life


def test_a_job_runs_ends_and_is_done(cloud) -> None:
    """Queued, running, ended with its exit code; the call's id is kept on the app; a done job stays
    done and costs no container.
    """
    adapter, _, handle = running(cloud, declared("job"))
    assert adapter.observe([handle])[0].status == "running"
    cloud.wait(30)
    node = adapter.observe([handle])[0]
    assert (
        node.status,
        node.gpu_type,
        node.kind,
    ) == ("ended", "L4", "job") and "exit code 0" in node.detail
    tags = adapter.functions.apps.tags(handle.native_id)
    assert tags["gpus-call"].startswith("fc-") and tags["gpus-call"] in node.detail
    assert tuple(adapter.functions.apps.containers(handle.native_id)) == ()
    assert [handle] == [found.handle for found in cloud.adapter().find("own")]
    cloud.wait(30 * 86_400)
    assert adapter.observe([handle])[0].status == "ended"


@pytest.mark.parametrize(
    ("section", "code", "runs_s", "over_s", "words"),
    [
        ({"retries": 2}, "3", 20, 60, "exit code 3"),
        ({"timeout": "10s"}, "0", 20, 10, "TIMEOUT"),
        ({}, "KERNEL_OOM_KILL", 20, 20, "KERNEL_OOM_KILL"),
    ],
)
def test_a_job_fails_after_its_attempts(cloud, section, code, runs_s, over_s, words) -> None:
    """A failing command, a time limit, a killed process: each attempt is made, then the job has
    failed, and the reason is told.
    """
    cloud.store.set_latency("modal", "job", runs_s)
    cloud.store.add_fault("modal", "FunctionMap", "op-error", code=code)
    adapter, _, handle = running(cloud, declared("job", section=section))
    cloud.wait(over_s - 10)
    assert adapter.observe([handle])[0].status == "running"
    cloud.wait(15)
    node = adapter.observe([handle])[0]
    assert node.status == "failed" and words in node.detail


def test_a_job_that_ends_before_the_first_look_was_had(cloud) -> None:
    """A job that is over by the first poll counts as launched, with the GPU that it ran on."""
    cloud.store.set_stock("modal", "", "", "", 0, gpu="L4")
    adapter = cloud.adapter()
    ticket = adapter.submit(order(declared("job", gpu=["L4", "A10"])))
    cloud.wait(60)
    ticket = adapter.poll(ticket)
    assert (ticket.state, ticket.placed.gpu_type) == ("done", "A10")
    assert (
        adapter.observe(ticket.handles)[0].status,
        adapter.observe(ticket.handles)[0].gpu_type,
    ) == ("ended", "A10")


def test_the_list_is_tried_in_order(cloud) -> None:
    """Where the first GPU is sold out, Modal gives the next of the list, and that is what was acquired,
    at its price.
    """
    cloud.store.set_stock("modal", "", "", "", 0, gpu="L4")
    adapter, ticket, handle = running(cloud, declared("service", gpu=["L4", "A10"]))
    assert "A10" == present(ticket.placed).gpu_type == adapter.observe([handle])[0].gpu_type


@pytest.mark.parametrize("kind", ["job", "service"])
def test_a_queue_that_never_moves_ends_and_leaves_nothing(cloud, kind) -> None:
    """No container within the wait: the app is stopped, and the refusal comes only once nothing is
    listed.
    """
    cloud.store.set_stock("modal", "", "", "", 0)
    adapter = cloud.adapter()
    ticket = adapter.submit(order(declared(kind, gpu=["L4", "A10"])))
    cloud.wait(119)
    assert adapter.poll(ticket).state == "waiting"
    cloud.wait(2)
    ticket = adapter.poll(ticket)
    with pytest.raises(NoCapacity, match="L4:1 A10:1"):
        adapter.poll(ticket)
    assert list(adapter.find("own")) == []
    assert [
        app for app in Deployed(cloud.server_state()).apps("main") if app.state == "DEPLOYED"
    ] == []


def test_a_job_taken_back_starts_anew(cloud) -> None:
    """Modal starts the same input again when it takes a container back: the job queues, then runs,
    under the same call.
    """
    from providers.rehearsal.clouds.modal import console

    adapter, _, handle = running(cloud, declared("job"))
    cloud.wait(10)
    assert console.preempt(cloud.store, "gpus-x-12345678-0") == 1
    cloud.wait(0.7)
    assert adapter.observe([handle])[0].status == "queued"
    cloud.wait(15)
    assert adapter.observe([handle])[0].status == "running"
    cloud.wait(10)
    assert adapter.observe([handle])[0].status == "ended"


# Lost answers


@pytest.mark.parametrize("fault", ["reply-lost", "error-after", "malformed"])
def test_a_lost_start_of_a_job_makes_one_call(cloud, fault) -> None:
    """Modal started the job and the answer was lost: the call is found by the function's list, and
    none is made again.
    """
    cloud.store.add_fault("modal", "FunctionMap", fault)
    adapter, wanted = cloud.adapter(), order(declared("job"))
    with pytest.raises(OutcomeUnknown):
        adapter.submit(wanted)
    ticket = cloud.adapter().resume(wanted)
    cloud.wait(5)
    assert adapter.poll(ticket).state == "done" and cloud.sent("FunctionMap") == 1


def test_a_start_that_never_arrived_is_certain_after_a_while(cloud) -> None:
    """No answer and no call: for some seconds that proves nothing, then the same order may be sent
    again and meets the same app.
    """
    cloud.store.add_fault("modal", "FunctionMap", "unavailable")
    adapter, wanted = cloud.adapter(), order(declared("job"))
    with pytest.raises(OutcomeUnknown):
        adapter.submit(wanted)
    with pytest.raises(OutcomeUnknown):
        adapter.resume(wanted)
    node = adapter.find("own")[0]
    assert node.status == "stopped" and "never started" in node.detail
    cloud.wait(6)
    assert adapter.resume(wanted) is None
    ticket = adapter.submit(wanted)
    assert node.handle.native_id == dict(ticket.native)["app"]


@pytest.mark.parametrize(
    "method", ["AppCreate", "FunctionPrecreate", "FunctionCreate", "AppPublish"]
)
@pytest.mark.parametrize("kind", ["job", "service"])
def test_a_lost_answer_within_a_deployment_makes_one_app(cloud, method, kind) -> None:
    """The real client asks again under the same key: one app, one function, live."""
    cloud.store.add_fault("modal", method, "reply-lost")
    adapter, _, handle = running(cloud, declared(kind))
    apps = Deployed(cloud.server_state()).apps("main")
    assert [handle.native_id] == [app.id for app in apps] and adapter.observe([handle])[
        0
    ].status == "running"


def test_a_deployment_without_an_answer_is_found_by_its_name(cloud) -> None:
    """A service that may be live is never deployed under another name: it is looked for by the
    order's token.
    """
    cloud.store.add_fault("modal", "AppPublish", "error-after", None)
    adapter, wanted = cloud.adapter(), order(declared("service"))
    with pytest.raises(OutcomeUnknown):
        adapter.submit(wanted)
    cloud.store.clear_faults()
    ticket = cloud.adapter().resume(wanted)
    cloud.wait(5)
    assert adapter.poll(ticket).state == "done"


def test_a_job_whose_deployment_failed_costs_nothing_and_is_tried_again(cloud) -> None:
    """Before its call a job runs nothing: a broken deployment is a passing fault."""
    cloud.store.add_fault("modal", "FunctionCreate", "unavailable", None)
    with pytest.raises(Transient):
        cloud.adapter().submit(order(declared("job")))
    assert cloud.sent("FunctionMap") == 0 and list(cloud.adapter().find("own")) == []


def test_a_refused_start_leaves_no_app(cloud) -> None:
    """When the call is refused, the app is stopped before the refusal is told; if it can't be, that
    is told instead.
    """
    cloud.store.add_fault("modal", "FunctionMap", "quota", 2)
    from providers.errors import QuotaExceeded

    with pytest.raises(QuotaExceeded):
        cloud.adapter().submit(order(declared("job")))
    assert list(cloud.adapter().find("own")) == []
    cloud.store.add_fault("modal", "AppStop", "unauthorized", 1)
    with pytest.raises(HalfMade):
        cloud.adapter().submit(order(declared("job"), "bbbbbbbb-1"))


@pytest.mark.parametrize(
    ("method", "section"),
    [("SecretGetOrCreate", {"secrets": ["hf"]}), ("VolumeGetOrCreate", {"volumes": {"/d": "v"}})],
)
def test_a_name_that_is_not_there_is_the_users_to_mend(cloud, method, section) -> None:
    """Secrets and volumes are referred to, never made: one that is missing is refused, with what to
    do.
    """
    cloud.store.add_fault("modal", method, "http", None, status="NOT_FOUND")
    with pytest.raises(Unsupported, match="must be there before"):
        cloud.adapter().submit(order(declared("job", section=section)))


# A service's life


def test_a_service_without_a_floor_is_proven_then_scales_to_zero(cloud) -> None:
    """Capacity is a container that really started: one is, then none has to run, and that is no
    drift.
    """
    adapter, _, handle = running(cloud, declared("service"))
    cloud.wait(120)
    node = adapter.observe([handle])[0]
    assert (node.status, node.detail, node.drift) == ("running", "scaled to zero", "")
    assert function(cloud)[1].settings()["min_containers"] == 0


def test_drift_is_told_and_mended_in_place(cloud) -> None:
    """What somebody changed at Modal is named; deploying anew sets it right under the same app and
    name.
    """
    adapter, ticket, handle = running(cloud, declared("service", section={"min_containers": 1}))
    adapter.functions.apps.scale("gpus-x-12345678-0", 4)
    assert adapter.observe([handle])[0].drift == "min_containers is 4 instead of 1"
    adapter.update(handle, {"service": ticket.order.setup, "fingerprint": "f1"})
    node = adapter.observe([handle])[0]
    assert node.drift == "" and ticket.order.label == node.label


def test_an_update_deploys_anew_in_place(cloud) -> None:
    """Another command and other bounds: one more publication of the same app, the same GPU list,
    the new label.
    """
    adapter, ticket, handle = running(cloud, declared("service", gpu=["L4", "A10"]))
    before = function(cloud)[1].id
    section = {**SERVICE, "command": "python other.py", "max_containers": 5, "min_containers": 1}
    setup = ticket.order.setup._replace(options=tuple(sorted(section.items())), expose="public")
    adapter.update(handle, {"service": setup, "fingerprint": "f2", "labels": {"team": "a"}})
    data, row = function(cloud)
    assert (before, 5, 2) == (row.id, row.settings()["max_containers"], len(data.ranked_functions))
    node = adapter.observe([handle])[0]
    tags = adapter.functions.apps.tags(handle.native_id)
    assert (node.label.fingerprint, node.drift, tags["team"]) == ("f2", "", "a")
    adapter.relabel(handle, "g2")
    assert adapter.observe([handle])[0].label.generation == "g2"


def test_a_failed_redeployment_leaves_the_old_one_live(cloud) -> None:
    """An update that fails half-way publishes nothing: what ran goes on."""
    adapter, ticket, handle = running(cloud, declared("service", section={"min_containers": 1}))
    cloud.store.add_fault("modal", "FunctionCreate", "http", None, status="INVALID_ARGUMENT")
    with pytest.raises(Unsupported):
        adapter.update(handle, {"service": ticket.order.setup, "fingerprint": "f2"})
    node = adapter.observe([handle])[0]
    assert (node.status, node.label.fingerprint) == ("running", "f1")


@pytest.mark.parametrize("kind", ["job", "service"])
def test_b46_gone_is_when_no_container_is_listed(cloud, kind) -> None:
    """A stop that Modal accepted is not the end: while a container is listed it is stopping, and
    found.
    """
    cloud.store.set_latency("modal", "delete", 90)
    adapter, _, handle = running(
        cloud, declared(kind, section={"min_containers": 1} if kind == "service" else None)
    )
    adapter.delete(handle)
    node = adapter.observe([handle])[0]
    assert node.status == "stopping" and "still listed" in node.detail
    cloud.wait(91)
    assert adapter.observe([handle])[0].status == "gone"
    adapter.delete(handle)
    assert (1 if kind == "job" else 0) <= cloud.sent("FunctionCallCancel")


def test_b46_a_forgotten_app_whose_container_is_listed_is_not_gone(cloud) -> None:
    """Should Modal no longer know the tags of a stopped app: what its list of containers says
    decides.
    """
    adapter, _, handle = running(cloud, declared("service", section={"min_containers": 1}))
    adapter.functions.apps.set_tags(handle.native_id, {})
    assert adapter.observe([handle])[0].status == "stopping"
    adapter.functions.apps.stop(handle.native_id)
    cloud.wait(2)
    assert adapter.observe([handle])[0].status == "gone"
