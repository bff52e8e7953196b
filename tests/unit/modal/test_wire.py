"""What goes over the wire for a sandbox is what the client's own `Sandbox.create` sends."""

import warnings

import pytest

from providers.adapters.modal.options import local_python
from providers.model.machine import Setup
from tests.unit.modal.cloud import Cloud
from tests.unit.modal.test_gpu import candidate, order


@pytest.fixture
def cloud(tmp_path):
    made = Cloud(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("chosen", "section"),
    [
        (candidate("A100", 1), {}),
        (candidate("H100", 8, exact=True), {"cpu": 4, "memory_gib": 32, "pip": ["numpy"]}),
        (
            candidate("L4", 2, region="us-east"),
            {
                "image": "nvidia/cuda:12.8.1-base-ubuntu24.04",
                "add_python": "3.12",
                "command": ["python", "-V"],
            },
        ),
    ],
)
def test_what_is_sent_equals_what_the_clients_own_create_sends(cloud, chosen, section) -> None:
    """The client's public way and ours make the same definition and tags, so a change in a new
    client shows here.
    """
    import modal
    from modal_proto import api_pb2

    cloud.store.set_latency("modal", "create", 0)
    adapter = cloud.adapter()
    wanted = order(chosen, Setup(ttl_s=7200, options=tuple(section.items())))
    sandbox = dict(adapter.submit(wanted).native)["sandbox"]
    ours = adapter.client.connected()
    app = modal.App.lookup("gpus", client=ours, environment_name="main")
    image = (
        modal.Image.from_registry(section["image"], add_python=section["add_python"]).entrypoint([])
        if "image" in section
        else modal.Image.debian_slim(python_version="3.12")
    )
    if "pip" in section:
        image = image.pip_install(*section["pip"])
    tags = adapter.client.tags(sandbox)
    adapter.client.terminate(sandbox)
    with warnings.catch_warnings():
        warnings.simplefilter("error", modal.exception.DeprecationError)
        theirs = modal.Sandbox.create(
            *section.get("command", ["sleep", "7200"]),
            app=app,
            name=wanted.node_names[0],
            tags=tags,
            image=image,
            timeout=7200,
            gpu={"A100": "A100-40GB:1", "H100": "H100!:8", "L4": "L4:2"}[chosen.gpu_type],
            region=chosen.region if chosen.region != "any" else None,
            cpu=(section["cpu"], section["cpu"]) if "cpu" in section else None,
            memory=(section["memory_gib"] * 1024,) * 2 if "memory_gib" in section else None,
            client=ours,
        )
    rows = [cloud.server_state().sandbox(one) for one in (sandbox, theirs.object_id)]
    first, second = (api_pb2.Sandbox.FromString(row.definition) for row in rows)
    assert str(second) == str(first)
    assert rows[0].tag_map() == rows[1].tag_map()


def test_a_private_image_is_pulled_with_a_secret_that_no_container_finds(cloud) -> None:
    """The image carries it, as the client's own `from_registry` does; the sandbox has the other
    secrets only. A job's function is the same.
    """
    import modal
    from modal_proto import api_pb2

    from tests.unit.modal import functions_rig

    cloud.store.set_latency("modal", "create", 0)
    adapter = cloud.adapter()
    secrets = (("GPUS_REGISTRY_PASSWORD", "docker"), ("TOKEN", "other"))
    setup = Setup(ttl_s=7200, options=(("image", "ghcr.io/me/i:1"),), secrets=secrets)
    sandbox = dict(adapter.submit(order(candidate("L4", 1), setup)).native)["sandbox"]
    sent = api_pb2.Sandbox.FromString(cloud.server_state().sandbox(sandbox).definition)
    ours = adapter.client.connected()
    secret = modal.Secret.from_name(
        "docker",
        required_keys=["REGISTRY_USERNAME", "REGISTRY_PASSWORD"],
        environment_name="main",
        client=ours,
    )
    image = modal.Image.from_registry("ghcr.io/me/i:1", secret=secret).entrypoint([])
    image.build(modal.App.lookup("gpus", client=ours, environment_name="main"))
    assert (sent.image_id, list(sent.secret_ids)) == (image.object_id, ["st-other"])

    section = {"image": "ghcr.io/me/i:1", "add_python": local_python()}
    spec = functions_rig.declared("job", section=section)
    job = functions_rig.order(spec, adapter=adapter)
    ticket = adapter.submit(job._replace(setup=job.setup._replace(secrets=secrets)))
    cloud.wait(5)
    assert adapter.poll(ticket).state == "done"
    data, _ = functions_rig.function(cloud)
    assert list(data.ranked_functions[0].function.secret_ids) == ["st-other"]


def test_several_threads_may_be_the_first_to_need_the_client(tmp_path) -> None:
    """Several runs in one process that connect at once, each in its thread, all get a cloud that
    answers: nobody sees the client half imported.
    """
    import os
    import subprocess
    import sys

    code = (
        "import threading\nfrom providers.engine.runtime.world import open_world\nwrong = []\n"
        "def look():\n"
        "    try:\n        assert [] == list(open_world('rehearsal').adapter('modal').find('nobody'))\n"
        "   "
        " except BaseException as error:\n        wrong.append(repr(error))\nthreads ="
        " [threading.Thread(target=look) for _ in range(8)]\n[thread.start() for thread in"
        " threads]\n[thread.join() for thread in threads]\nprint(wrong)\n"
    )
    env = {**os.environ, "GPUS_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stdout + done.stderr


def test_a_failed_heartbeat_of_the_client_prints_no_traceback() -> None:
    """The client's own loops print each failure whole; the user is told by the calls that fail, in
    one line each.
    """
    import io
    import logging

    from providers.adapters.modal.sdk import import_client

    import_client(rehearsal=True)
    logger, shown = logging.getLogger("modal-utils"), io.StringIO()
    handler = logging.StreamHandler(shown)
    logger.addHandler(handler)
    try:
        raise OSError("no way through")
    except OSError:
        logger.exception("Loop attempt failed")
    finally:
        logger.warning("a line")
        logger.removeHandler(handler)
    assert shown.getvalue() == "a line\n"
