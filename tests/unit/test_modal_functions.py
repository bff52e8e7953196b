"""Jobs and services at Modal: the real client deploys them to the stand-in, with a clock that the
test moves.
"""

import json
import subprocess
import sys

import pytest

import providers
from providers.adapters import registry
from providers.adapters.modal import MANIFEST, deployment, options
from providers.catalog.offers import load
from providers.engine.market.planning import plan
from providers.errors import HalfMade, NoCapacity, OutcomeUnknown, SpecError, Transient, Unsupported
from providers.model.machine import Mark, Order, Setup
from providers.model.spec import read_cluster
from providers.planner import check, render
from providers.plugin import inputs
from providers.plugin.properties import Properties
from providers.rehearsal.clouds.modal.deployed import Deployed
from tests.unit.modal_cloud import Cloud

JOB = {"command": "python train.py"}
SERVICE = {"command": "python serve.py", "port": 8000}


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    made = Cloud(tmp_path)
    yield made
    made.close()


def declared(kind, gpu="L4", section=None, **fields):
    base = JOB if kind == "job" else SERVICE
    return read_cluster(
        "x",
        {
            "kind": kind,
            "gpu": gpu,
            "providers": ["modal"],
            "options": {"modal": {**base, **(section or {})}},
            **fields,
        },
    )


def order(spec, token="12345678-0000", adapter=None, wait_s=120):
    candidates = plan(spec.ask(), setup=spec.setup(), use_journal=False).candidates
    size = deployment.group(candidates) if adapter is None else adapter.group(candidates)
    setup = spec.setup()._replace(
        options=tuple(sorted(spec.options["modal"].items())), ttl_s=spec.ask().entries[0].ttl_s
    )
    return Order(
        Mark("own", "x", "g1", "f1"), token, candidates[:size], (f"x-{token[:8]}-0",), setup, wait_s
    )


def running(cloud, spec, token="12345678-0000"):
    """(adapter, ticket, handle) of an order that was had."""
    adapter = cloud.adapter()
    ticket = adapter.submit(order(spec, token))
    cloud.wait(5)
    ticket = adapter.poll(ticket)
    assert ticket.state == "done"
    return adapter, ticket, ticket.handles[0]


def function(cloud):
    """The definition that the real client sent, and the stand-in's row of it."""
    from modal_proto import api_pb2

    deployed = Deployed(cloud.server_state())
    app = next(app for app in deployed.apps("main") if app.state == "DEPLOYED")
    row = deployed.functions(app.id)[0]
    return api_pb2.FunctionData.FromString(row.definition), row


def faced(spec):
    return inputs.check(
        Properties(
            {"world": "rehearsal", "owner": "o", "cluster": "x", **spec}, frozenset(), frozenset()
        )
    )


# What is sent


def test_a_gpu_list_becomes_one_function_in_order(cloud):
    """Fallbacks of one count go out as one function's list, each as Modal means it: A100's size is
    written out, `!` is kept.
    """
    spec = declared("job", gpu=["H100!:2", "A100:2", "A100-80GB:2"])
    _, ticket, _ = running(cloud, spec)
    data, row = function(cloud)
    sent = [
        (item.function.resources.gpu_config.gpu_type, item.function.resources.gpu_config.count)
        for item in data.ranked_functions
    ]
    assert (
        [("H100!", 2), ("A100-40GB", 2), ("A100-80GB", 2)] == sent
        and 1 == cloud.sent("FunctionCreate")
        and "run" == row.name
    )
    assert 3 == len(ticket.order.candidates)


def test_a_group_is_one_count_and_one_place(cloud):
    """What differs in its count is another function; a machine's sandbox takes exactly one GPU."""
    adapter = cloud.adapter()
    spec = declared("job", gpu=["L4:1", "A10:1", "L4:2"])
    candidates = plan(spec.ask(), use_journal=False).candidates
    assert 2 == adapter.group(candidates)
    assert 1 == adapter.group([candidate._replace(kind="machine") for candidate in candidates])
    many = [candidates[0]._replace(exact=bool(number % 2)) for number in range(40)]
    assert 1 < deployment.group(many) < 40


def test_a_job_is_deployed_as_declared(cloud):
    """Time limit per attempt, retries, named secrets and volumes, reserved CPU and memory, no
    source, one container.
    """
    section = {
        "timeout": "2h",
        "retries": 2,
        "secrets": ["hf"],
        "volumes": {"/data": "sets"},
        "cpu": 4,
        "memory_gib": 16,
        "pip": ["numpy"],
    }
    running(cloud, declared("job", section=section))
    data, _ = function(cloud)
    sent = data.ranked_functions[0].function
    assert (7200, 2, ["st-hf"]) == (
        sent.timeout_secs,
        sent.retry_policy.retries,
        list(sent.secret_ids),
    )
    assert [("/data", "vo-sets")] == [
        (mount.mount_path, mount.volume_id) for mount in sent.volume_mounts
    ]
    assert (4000, 16384) == (sent.resources.milli_cpu_max, sent.resources.memory_mb_max)
    assert (
        1 == sent.autoscaler_settings.max_containers
        and sent.definition_type == sent.DEFINITION_TYPE_SERIALIZED
    )
    assert 0 == cloud.sent("MountPutFile") and 0 == cloud.sent("MountBatchedCheckExistence")


def test_a_job_runs_where_this_package_is_not(cloud):
    """The function that is handed over needs nothing of this package: another Python runs the
    command and fails with its exit code.
    """
    running(
        cloud,
        declared(
            "job",
            section={"command": [sys.executable, "-c", "import sys; print('ran'); sys.exit(3)"]},
        ),
    )
    sent = function(cloud)[0].ranked_functions[0].function.function_serialized
    code = f"import sys, pickle; sys.modules['providers'] = None; pickle.loads({sent!r})()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "ran" in done.stdout and "RuntimeError: exit code 3" in done.stderr


@pytest.mark.parametrize(("expose", "closed"), [("private", True), ("public", False)])
def test_a_service_wants_a_token_unless_it_is_public(cloud, expose, closed):
    """A web server on the port, closed to all without a proxy token unless `expose: public`; its
    bounds are sent.
    """
    section = {
        "min_containers": 1,
        "max_containers": 3,
        "buffer_containers": 1,
        "scaledown_window": "2m",
        "max_inputs": 8,
    }
    adapter, _, handle = running(cloud, declared("service", section=section, expose=expose))
    data, row = function(cloud)
    sent = data.ranked_functions[0].function
    assert (8000, closed) == (
        sent.webhook_config.web_server_port,
        sent.webhook_config.requires_proxy_auth,
    )
    assert {
        "min_containers": 1,
        "max_containers": 3,
        "buffer_containers": 1,
        "scaledown_window": 120,
    } == json.loads(row.scale)
    assert 8 == sent.max_concurrent_inputs
    node = adapter.observe([handle])[0]
    assert "https://rehearsal--gpus-x-12345678-0-serve.modal.run" == node.url and "" == node.drift


@pytest.mark.parametrize(("kind", "gpu"), [("job", "L4"), ("service", ["L4", "A10"])])
def test_a_region_that_was_asked_for_is_sent_and_read_back(cloud, kind, gpu):
    """The function is told the region of its offers; a service that stands in another one now has
    drifted.
    """
    spec = declared(kind, gpu=gpu, regions=["eu-west"])
    adapter, ticket, handle = running(cloud, spec)
    data, row = function(cloud)
    assert ["eu-west"] == list(
        data.ranked_functions[0].function.scheduler_placement.regions
    ) and "eu-west" == row.region
    node = adapter.observe([handle])[0]
    assert ("eu-west", "") == (node.region, node.drift) and {"eu-west"} == {
        candidate.region for candidate in ticket.order.candidates
    }
    if kind == "service":
        adapter.functions.apps.deploy(deployment.compile_order(ticket.order)._replace(regions=()))
        assert "region is any instead of eu-west" == adapter.observe([handle])[0].drift


# A job's life


def test_a_job_runs_ends_and_is_done(cloud):
    """Queued, running, ended with its exit code; the call's id is kept on the app; a done job stays
    done and costs no container.
    """
    adapter, _, handle = running(cloud, declared("job"))
    assert "running" == adapter.observe([handle])[0].status
    cloud.wait(30)
    node = adapter.observe([handle])[0]
    assert ("ended", "L4", "job") == (
        node.status,
        node.gpu_type,
        node.kind,
    ) and "exit code 0" in node.detail
    tags = adapter.functions.apps.tags(handle.native_id)
    assert tags["gpus-call"].startswith("fc-") and tags["gpus-call"] in node.detail
    assert () == tuple(adapter.functions.apps.containers(handle.native_id))
    assert [handle] == [found.handle for found in cloud.adapter().find("own")]
    cloud.wait(30 * 86_400)
    assert "ended" == adapter.observe([handle])[0].status


@pytest.mark.parametrize(
    ("section", "code", "runs_s", "over_s", "words"),
    [
        ({"retries": 2}, "3", 20, 60, "exit code 3"),
        ({"timeout": "10s"}, "0", 20, 10, "TIMEOUT"),
        ({}, "KERNEL_OOM_KILL", 20, 20, "KERNEL_OOM_KILL"),
    ],
)
def test_a_job_fails_after_its_attempts(cloud, section, code, runs_s, over_s, words):
    """A failing command, a time limit, a killed process: each attempt is made, then the job has
    failed, and the reason is told.
    """
    cloud.store.set_latency("modal", "job", runs_s)
    cloud.store.add_fault("modal", "FunctionMap", "op-error", code=code)
    adapter, _, handle = running(cloud, declared("job", section=section))
    cloud.wait(over_s - 10)
    assert "running" == adapter.observe([handle])[0].status
    cloud.wait(15)
    node = adapter.observe([handle])[0]
    assert "failed" == node.status and words in node.detail


def test_a_job_that_ends_before_the_first_look_was_had(cloud):
    """A job that is over by the first poll counts as had, with the GPU that it ran on."""
    cloud.store.set_stock("modal", "", "", "", 0, gpu="L4")
    adapter = cloud.adapter()
    ticket = adapter.submit(order(declared("job", gpu=["L4", "A10"])))
    cloud.wait(60)
    ticket = adapter.poll(ticket)
    assert ("done", "A10") == (ticket.state, ticket.placed.gpu_type)
    assert ("ended", "A10") == (
        adapter.observe(ticket.handles)[0].status,
        adapter.observe(ticket.handles)[0].gpu_type,
    )


def test_the_list_is_tried_in_order(cloud):
    """Where the first GPU is sold out, Modal gives the next of the list, and that is what was had,
    at its price.
    """
    cloud.store.set_stock("modal", "", "", "", 0, gpu="L4")
    adapter, ticket, handle = running(cloud, declared("service", gpu=["L4", "A10"]))
    assert "A10" == ticket.placed.gpu_type == adapter.observe([handle])[0].gpu_type


@pytest.mark.parametrize("kind", ["job", "service"])
def test_a_queue_that_never_moves_ends_and_leaves_nothing(cloud, kind):
    """No container within the wait: the app is stopped, and the refusal comes only once nothing is
    listed.
    """
    cloud.store.set_stock("modal", "", "", "", 0)
    adapter = cloud.adapter()
    ticket = adapter.submit(order(declared(kind, gpu=["L4", "A10"])))
    cloud.wait(119)
    assert "waiting" == adapter.poll(ticket).state
    cloud.wait(2)
    ticket = adapter.poll(ticket)
    with pytest.raises(NoCapacity, match="L4:1 A10:1"):
        adapter.poll(ticket)
    assert [] == list(adapter.find("own"))
    assert [] == [
        app for app in Deployed(cloud.server_state()).apps("main") if app.state == "DEPLOYED"
    ]


def test_a_job_taken_back_starts_anew(cloud):
    """Modal starts the same input again when it takes a container back: the job queues, then runs,
    under the same call.
    """
    from providers.rehearsal.clouds.modal import console

    adapter, _, handle = running(cloud, declared("job"))
    cloud.wait(10)
    assert 1 == console.preempt(cloud.store, "gpus-x-12345678-0")
    cloud.wait(0.7)
    assert "queued" == adapter.observe([handle])[0].status
    cloud.wait(15)
    assert "running" == adapter.observe([handle])[0].status
    cloud.wait(10)
    assert "ended" == adapter.observe([handle])[0].status


# Lost answers


@pytest.mark.parametrize("fault", ["reply-lost", "error-after", "malformed"])
def test_a_lost_start_of_a_job_makes_one_call(cloud, fault):
    """Modal started the job and the answer was lost: the call is found by the function's list, and
    none is made again.
    """
    cloud.store.add_fault("modal", "FunctionMap", fault)
    adapter, wanted = cloud.adapter(), order(declared("job"))
    with pytest.raises(OutcomeUnknown):
        adapter.submit(wanted)
    ticket = cloud.adapter().resume(wanted)
    cloud.wait(5)
    assert "done" == adapter.poll(ticket).state and 1 == cloud.sent("FunctionMap")


def test_a_start_that_never_arrived_is_certain_after_a_while(cloud):
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
    assert "stopped" == node.status and "never started" in node.detail
    cloud.wait(6)
    assert adapter.resume(wanted) is None
    ticket = adapter.submit(wanted)
    assert node.handle.native_id == dict(ticket.native)["app"]


@pytest.mark.parametrize(
    "method", ["AppCreate", "FunctionPrecreate", "FunctionCreate", "AppPublish"]
)
@pytest.mark.parametrize("kind", ["job", "service"])
def test_a_lost_answer_within_a_deployment_makes_one_app(cloud, method, kind):
    """The real client asks again under the same key: one app, one function, live."""
    cloud.store.add_fault("modal", method, "reply-lost")
    adapter, _, handle = running(cloud, declared(kind))
    apps = Deployed(cloud.server_state()).apps("main")
    assert [handle.native_id] == [app.id for app in apps] and "running" == adapter.observe(
        [handle]
    )[0].status


def test_a_deployment_without_an_answer_is_found_by_its_name(cloud):
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
    assert "done" == adapter.poll(ticket).state


def test_a_job_whose_deployment_failed_costs_nothing_and_is_tried_again(cloud):
    """Before its call a job runs nothing: a broken deployment is a passing fault."""
    cloud.store.add_fault("modal", "FunctionCreate", "unavailable", None)
    with pytest.raises(Transient):
        cloud.adapter().submit(order(declared("job")))
    assert 0 == cloud.sent("FunctionMap") and [] == list(cloud.adapter().find("own"))


def test_a_refused_start_leaves_no_app(cloud):
    """When the call is refused, the app is stopped before the refusal is told; if it can't be, that
    is told instead.
    """
    cloud.store.add_fault("modal", "FunctionMap", "quota", 2)
    from providers.errors import QuotaExceeded

    with pytest.raises(QuotaExceeded):
        cloud.adapter().submit(order(declared("job")))
    assert [] == list(cloud.adapter().find("own"))
    cloud.store.add_fault("modal", "AppStop", "unauthorized", 1)
    with pytest.raises(HalfMade):
        cloud.adapter().submit(order(declared("job"), "bbbbbbbb-1"))


@pytest.mark.parametrize(
    ("method", "section"),
    [("SecretGetOrCreate", {"secrets": ["hf"]}), ("VolumeGetOrCreate", {"volumes": {"/d": "v"}})],
)
def test_a_name_that_is_not_there_is_the_users_to_mend(cloud, method, section):
    """Secrets and volumes are referred to, never made: one that is missing is refused, with what to
    do.
    """
    cloud.store.add_fault("modal", method, "http", None, status="NOT_FOUND")
    with pytest.raises(Unsupported, match="must be there before"):
        cloud.adapter().submit(order(declared("job", section=section)))


# A service's life


def test_a_service_without_a_floor_is_proven_then_scales_to_zero(cloud):
    """Capacity is a container that really started: one is, then none has to run, and that is no
    drift.
    """
    adapter, _, handle = running(cloud, declared("service"))
    cloud.wait(120)
    node = adapter.observe([handle])[0]
    assert ("running", "scaled to zero", "") == (node.status, node.detail, node.drift)
    assert 0 == function(cloud)[1].settings()["min_containers"]


def test_drift_is_told_and_mended_in_place(cloud):
    """What somebody changed at Modal is named; deploying anew sets it right under the same app and
    name.
    """
    adapter, ticket, handle = running(cloud, declared("service", section={"min_containers": 1}))
    adapter.functions.apps.scale("gpus-x-12345678-0", 4)
    assert "min_containers is 4 instead of 1" == adapter.observe([handle])[0].drift
    adapter.update(handle, {"service": ticket.order.setup, "fingerprint": "f1"})
    node = adapter.observe([handle])[0]
    assert "" == node.drift and ticket.order.mark == node.mark


def test_an_update_deploys_anew_in_place(cloud):
    """Another command and other bounds: one more publication of the same app, the same GPU list,
    the new mark.
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
    assert ("f2", "", "a") == (node.mark.fingerprint, node.drift, tags["team"])
    adapter.relabel(handle, "g2")
    assert "g2" == adapter.observe([handle])[0].mark.generation


def test_a_failed_redeployment_leaves_the_old_one_live(cloud):
    """An update that fails half-way publishes nothing: what ran goes on."""
    adapter, ticket, handle = running(cloud, declared("service", section={"min_containers": 1}))
    cloud.store.add_fault("modal", "FunctionCreate", "http", None, status="INVALID_ARGUMENT")
    with pytest.raises(Unsupported):
        adapter.update(handle, {"service": ticket.order.setup, "fingerprint": "f2"})
    node = adapter.observe([handle])[0]
    assert ("running", "f1") == (node.status, node.mark.fingerprint)


# B46


def test_b46_names_and_counts_are_refused_at_plan_time():
    """An A100-70GB and eight A10s are refused before anything is sent, as a job or a service as
    much as a machine; near names are said.
    """
    for kind in ("job", "service"):
        for gpu, words in (
            ("A100-70GB", "A100-80GB"),
            ("A10:8", "counts on offer: modal 1, 2, 3, 4"),
        ):
            spec = declared(kind, gpu=gpu)
            found = check.problems(spec.ask(), load(), registry.capabilities())
            assert ["gpu"] == [problem.path for problem in found] and words in str(found[0])


def test_b46_the_size_of_an_a100_is_explicit(cloud):
    """Bare A100 is the 40 GB card, and says so in the function that is sent."""
    running(cloud, declared("job", gpu="A100"))
    sent = function(cloud)[0].ranked_functions[0].function.resources.gpu_config
    assert ("A100-40GB", 1) == (sent.gpu_type, sent.count)


@pytest.mark.parametrize("kind", ["job", "service"])
def test_b46_gone_is_when_no_container_is_listed(cloud, kind):
    """A stop that Modal accepted is not the end: while a container is listed it is stopping, and
    found.
    """
    cloud.store.set_latency("modal", "delete", 90)
    adapter, _, handle = running(
        cloud, declared(kind, section={"min_containers": 1} if kind == "service" else None)
    )
    adapter.delete(handle)
    node = adapter.observe([handle])[0]
    assert "stopping" == node.status and "still listed" in node.detail
    cloud.wait(91)
    assert "gone" == adapter.observe([handle])[0].status
    adapter.delete(handle)
    assert (1 if kind == "job" else 0) <= cloud.sent("FunctionCallCancel")


def test_b46_the_warm_floor_is_priced_24_hours_a_day():
    """`min_containers: 1` stands in the plan per hour, day and month, beside the price of a busy
    hour; the cap holds with all containers busy.
    """
    spec = declared("service", section={"min_containers": 1, "max_containers": 3})
    made = plan(spec.ask(), setup=spec.setup(), use_journal=False)
    assert 2_418_282 == made.best.micro_usd
    text = " ".join(render.as_text(made).split())
    assert "idle floor: 1 always runs, $0.8061/h 24 h a day = $19.35 a day, $588.45 a month" in text
    assert "busy hour: $0.8061/h a container, at most 3: $2.42/h" in text
    dear = declared(
        "service", section={"min_containers": 1, "max_containers": 3}, max_price_per_hour=2.4
    )
    assert () == plan(dear.ask(), use_journal=False).candidates


def test_a_jobs_worst_case_is_said():
    """Retries multiply the time limit: the plan says what all attempts together can cost."""
    spec = declared("job", section={"retries": 2, "timeout": "2h"})
    text = " ".join(render.as_text(plan(spec.ask(), setup=spec.setup(), use_journal=False)).split())
    assert "at worst 3 attempts of 2h, $4.84" in text


def test_b17_function_rates_are_not_a_sandboxs():
    """CPU and memory of a function cost a third of a sandbox's; what is reserved is in the price,
    part by part.
    """
    spec = declared("job", section={"cpu": 8, "memory_gib": 32})
    best = plan(spec.ask(), use_journal=False).best
    assert 799_200 + 8 * 47_160 + 32 * 7_992 == best.micro_usd
    assert "1 x L4 0.7992 + CPU 0.3773 (8 core) + memory 0.2557 (32 GiB)" == best.offer.parts


# Bad input


def test_other_providers_are_refused_by_rule():
    """A cloud that can only be a machine is refused by the rule `kind`, and the plan says so."""
    spec = read_cluster("x", {"kind": "job", "gpu": "L4", "options": {"modal": JOB}})
    made = plan(spec.ask(), use_journal=False)
    assert {"modal"} == {
        candidate.provider for candidate in made.candidates
    } and 0 < made.rejected_by_rule["kind"]


@pytest.mark.parametrize(
    ("kind", "section", "paths"),
    [
        ("job", {"secrets": ["a"]}, {"command"}),
        ("service", {"command": "x"}, {"port"}),
        ("job", {**JOB, "port": 8000}, {"port"}),
        ("service", {**SERVICE, "retries": 1, "timeout": 5}, {"retries", "timeout"}),
        ("machine", {"secrets": ["a"], "timeout": 60}, {"secrets", "timeout"}),
        ("job", {**JOB, "python": "3.13"}, {"python"}),
        ("job", {**JOB, "timeout": 0}, {"timeout"}),
        ("job", {**JOB, "timeout": "25h"}, {"timeout"}),
        ("job", {**JOB, "retries": -1}, {"retries"}),
        ("job", {**JOB, "secrets": {"HF_TOKEN": "hf_x"}}, {"secrets", "secrets.HF_TOKEN"}),
        ("job", {**JOB, "volumes": {"data": "v"}}, {"volumes"}),
        ("service", {**SERVICE, "port": 70_000}, {"port"}),
        ("service", {**SERVICE, "scaledown_window": 1}, {"scaledown_window"}),
        ("service", {**SERVICE, "min_containers": 3, "max_containers": 2}, {"max_containers"}),
        ("service", {**SERVICE, "max_containers": 0}, {"max_containers"}),
        ("job", {**JOB, "nonpreemptible": True}, {"nonpreemptible"}),
        ("job", {**JOB, "nonpreemptible": False, "timeout": 0}, {"timeout"}),
    ],
)
def test_options_are_checked_by_kind(kind, section, paths):
    """Every field that is missing, out of range, or another kind's is told at the check, with its
    path.
    """
    found = faced(
        {"kind": kind, "gpu": "L4", "providers": ["modal"], "options": {"modal": section}}
    )
    assert {f"options.modal.{path}" for path in paths} == {
        problem.path for problem in found.problems
    }


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        (
            {"kind": "job", "ssh_key": "ssh-ed25519 AAAA me", "disk_gib": 50},
            {"ssh_key", "disk_gib"},
        ),
        (
            {"kind": "service", "ttl": "2h", "ports": [80], "state": "stopped"},
            {"ttl", "ports", "state"},
        ),
        ({"kind": "job", "expose": "public"}, {"expose"}),
        ({"kind": "vm"}, {"kind"}),
    ],
)
def test_what_only_a_machine_has_is_refused(fields, paths):
    """A job and a service have no disk, key, port list or stopped state; each is named at once."""
    section = JOB if fields["kind"] == "job" else SERVICE
    found = faced({"gpu": "L4", "providers": ["modal"], "options": {"modal": section}, **fields})
    assert paths == {problem.path for problem in found.problems}


def test_a_plan_asks_the_same_of_options_as_a_preview():
    """`plan` of a cluster whose options are wrong, or lack what its kind needs, is refused with the
    same paths.
    """
    for section, path in (
        ({}, "workload"),
        ({"secrets": ["a"]}, "options.modal.command"),
        ({**JOB, "retries": 99}, "options.modal.retries"),
    ):
        spec = read_cluster(
            "x", {"kind": "job", "gpu": "L4", "providers": ["modal"], "options": {"modal": section}}
        )
        with pytest.raises(SpecError) as caught:
            providers.plan(spec)
        assert [path] == [problem.path for problem in caught.value.problems]
    assert "modal" == providers.plan(declared("job")).best.provider


def test_a_ttl_bounds_all_attempts_of_a_job():
    """With a ttl the attempts share it; a time limit that would pass it is refused."""
    assert 3_600 == options.timeout_s(options.read(JOB), None)
    assert 2_400 == options.timeout_s(options.read({**JOB, "retries": 2}), 7_200)
    found = options.fits("job", {**JOB, "retries": 2, "timeout": "1h"}, Setup(ttl_s=7_200))
    assert ["timeout"] == [problem.path for problem in found]


def test_the_manifest_says_the_kinds():
    """Modal is a machine, a job and a service; a service is deployed anew in place."""
    assert {
        "machine",
        "job",
        "service",
    } == MANIFEST.capabilities.kinds and "service" in MANIFEST.capabilities.in_place


def test_the_start_of_a_job_equals_the_clients_own_spawn(tmp_path, monkeypatch):
    """What starts a job is what `Function.spawn` sends, so a change in a new client shows here."""
    import modal

    from providers.rehearsal.clouds.modal.functions import FunctionService

    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    seen, answer = [], FunctionService.FunctionMap

    async def noted(self, request, **settings):
        seen.append(request)
        return await answer(self, request, **settings)

    monkeypatch.setattr(FunctionService, "FunctionMap", noted)
    cloud = Cloud(tmp_path)
    try:
        adapter, _, _ = running(cloud, declared("job"))
        handle = modal.Function.from_name(
            "gpus-x-12345678-0", "run", environment_name="main", client=adapter.client.connected()
        )
        handle.spawn()
    finally:
        cloud.close()
    assert str(seen[0]) == str(seen[1])


def test_b46_a_forgotten_app_whose_container_is_listed_is_not_gone(cloud):
    """Should Modal no longer know the tags of a stopped app: what its list of containers says
    decides.
    """
    adapter, _, handle = running(cloud, declared("service", section={"min_containers": 1}))
    adapter.functions.apps.set_tags(handle.native_id, {})
    assert "stopping" == adapter.observe([handle])[0].status
    adapter.functions.apps.stop(handle.native_id)
    cloud.wait(2)
    assert "gone" == adapter.observe([handle])[0].status
