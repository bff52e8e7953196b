"""What a job or service sends to Modal when it is deployed."""

import json
import subprocess
import sys

import pytest

from providers.adapters.modal import deployment
from providers.engine.market.planning import plan
from tests.unit.modal.cloud import Cloud
from tests.unit.modal.functions_rig import declared, function, running


def test_a_gpu_list_becomes_one_function_in_order(cloud) -> None:
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
        sent == [("H100!", 2), ("A100-40GB", 2), ("A100-80GB", 2)]
        and cloud.sent("FunctionCreate") == 1
        and row.name == "run"
    )
    assert len(ticket.order.candidates) == 3


def test_a_group_is_one_count_and_one_place(cloud) -> None:
    """What differs in its count is another function; a machine's sandbox takes exactly one GPU."""
    adapter = cloud.adapter()
    spec = declared("job", gpu=["L4:1", "A10:1", "L4:2"])
    candidates = plan(spec.ask(), use_journal=False).candidates
    assert adapter.group(candidates) == 2
    assert adapter.group([candidate._replace(kind="machine") for candidate in candidates]) == 1
    many = [candidates[0]._replace(exact=bool(number % 2)) for number in range(40)]
    assert 1 < deployment.group(many) < 40


def test_a_job_is_deployed_as_declared(cloud) -> None:
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
    assert (
        sent.timeout_secs,
        sent.retry_policy.retries,
        list(sent.secret_ids),
    ) == (7200, 2, ["st-hf"])
    assert [(mount.mount_path, mount.volume_id) for mount in sent.volume_mounts] == [
        ("/data", "vo-sets")
    ]
    assert (sent.resources.milli_cpu_max, sent.resources.memory_mb_max) == (4000, 16384)
    assert (
        sent.autoscaler_settings.max_containers == 1
        and sent.definition_type == sent.DEFINITION_TYPE_SERIALIZED
    )
    assert cloud.sent("MountPutFile") == 0 and cloud.sent("MountBatchedCheckExistence") == 0


def test_a_job_runs_where_this_package_is_not(cloud) -> None:
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
def test_a_service_wants_a_token_unless_it_is_public(cloud, expose, closed) -> None:
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
    assert json.loads(row.scale) == {
        "min_containers": 1,
        "max_containers": 3,
        "buffer_containers": 1,
        "scaledown_window": 120,
    }
    assert sent.max_concurrent_inputs == 8
    node = adapter.observe([handle])[0]
    assert node.url == "https://rehearsal--gpus-x-12345678-0-serve.modal.run" and node.drift == ""


@pytest.mark.parametrize(("kind", "gpu"), [("job", "L4"), ("service", ["L4", "A10"])])
def test_a_region_that_was_asked_for_is_sent_and_read_back(cloud, kind, gpu) -> None:
    """The function is told the region of its offers; a service that stands in another one now has
    drifted.
    """
    spec = declared(kind, gpu=gpu, regions=["eu-west"])
    adapter, ticket, handle = running(cloud, spec)
    data, row = function(cloud)
    assert (
        list(data.ranked_functions[0].function.scheduler_placement.regions) == ["eu-west"]
        and row.region == "eu-west"
    )
    node = adapter.observe([handle])[0]
    assert (node.region, node.drift) == ("eu-west", "") and {"eu-west"} == {
        candidate.region for candidate in ticket.order.candidates
    }
    if kind == "service":
        adapter.functions.apps.deploy(deployment.compile_order(ticket.order)._replace(regions=()))
        assert adapter.observe([handle])[0].drift == "region is any instead of eu-west"


def test_the_start_of_a_job_equals_the_clients_own_spawn(tmp_path, monkeypatch) -> None:
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
