"""What a container executes: the declared line, whatever its image starts by itself, at every
provider by that provider's own rule.
"""

import re
import shlex
from collections.abc import Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from providers.adapters.clore import MANIFEST as CLORE
from providers.adapters.clore.options import Options, read
from providers.adapters.clore.request import body as clore_body
from providers.adapters.gcp.vertex import job as vertex
from providers.errors import SpecError
from providers.model.machine import Label, Setup
from providers.model.workload import Process, Program, Task, Workload
from providers.workloads.launch.compile import program
from providers.workloads.launch.images import IMAGES, Image, known
from providers.workloads.launch.recipes import RECIPES
from providers.workloads.launch.start_script import script
from tests.present import present
from tests.unit.modal.cloud import Cloud
from tests.unit.modal.test_gpu import candidate as modal_candidate
from tests.unit.modal.test_gpu import order as modal_order
from tests.unit.vertex.rig import order as vertex_order
from tests.unit.vertex.rig import started as vertex_started

CONTAINED = [name for name, recipe in RECIPES.items() if recipe.image]
OTHERS = {
    "wrapper": Image(
        ("/opt/nvidia/nvidia_entrypoint.sh",), ("/opt/tritonserver/bin/tritonserver",)
    ),
    "program": Image(("python3", "-m", "http.server"), ("8000",)),
    "command alone": Image((), ("/start.sh",)),
    "neither": Image(()),
}
"""Images of users' own."""


def executed(
    image: Image, arguments: Sequence[str] = (), entrypoint: str | None = None
) -> tuple[str, ...]:
    """The words that a container executes, by Docker's rule.

    Arguments take the place of CMD and follow ENTRYPOINT. `--entrypoint` takes the place of
    ENTRYPOINT, and the image's CMD is dropped with it; an empty one leaves none
    (docs.docker.com/reference/cli/docker/container/run and .../builder, read 2026-11-28).
    Kubernetes' and Vertex AI's `command` is the same as `--entrypoint` followed by its further
    words.
    """
    if entrypoint is None:
        return (*image.entrypoint, *(arguments or image.cmd))
    return (*((entrypoint,) if entrypoint else ()), *arguments)


@pytest.mark.parametrize(
    ("image", "arguments", "entrypoint", "wanted"),
    [
        (Image(("vllm", "serve")), ("sh", "-c", "x"), None, ("vllm", "serve", "sh", "-c", "x")),
        (Image(("/bin/ollama",), ("serve",)), (), None, ("/bin/ollama", "serve")),
        (Image(("/bin/ollama",), ("serve",)), ("pull", "m"), None, ("/bin/ollama", "pull", "m")),
        (Image(("/bin/ollama",), ("serve",)), (), "sh", ("sh",)),
        (Image(("/bin/ollama",), ("serve",)), ("-c", "x"), "sh", ("sh", "-c", "x")),
        (Image(("/bin/ollama",), ("serve",)), ("serve",), "", ("serve",)),
        (Image((), ("/bin/bash",)), (), None, ("/bin/bash",)),
        (Image((), ("/bin/bash",)), ("sh", "-c", "x"), None, ("sh", "-c", "x")),
    ],
)
def test_what_runs_is_known_by_dockers_own_rule(image, arguments, entrypoint, wanted) -> None:
    """Arguments replace CMD and follow ENTRYPOINT; `--entrypoint` replaces ENTRYPOINT and drops
    CMD.
    """
    assert executed(image, arguments, entrypoint) == wanted


def test_every_default_image_is_known_with_its_source() -> None:
    """Another default image comes with its entry point, and where that was read."""
    for launcher in CONTAINED:
        found = known(RECIPES[launcher].image)
        assert found is not None and "Dockerfile@" in found.source and "read 20" in found.source, (
            launcher
        )
    assert set(IMAGES) == {RECIPES[launcher].image.partition(":")[0] for launcher in CONTAINED}
    assert (
        known("docker.io/vllm/vllm-openai@sha256:0")
        == known("vllm/vllm-openai:v0.11.0")
        == IMAGES["vllm/vllm-openai"]
    )
    assert known("registry:5000/vllm/vllm-openai:1") is None and known("localhost:5000/x") is None


def docker_run(made):
    """(`--entrypoint`, what follows the image) of the script's own `docker run`, which is the same
    for every process; the line itself stands as `LINE`.
    """
    text = script(made)
    (entrypoint,) = re.findall(r"^entrypoint=(.*)$", text, re.MULTILINE)
    (call,) = re.findall(r"^ *gpus_command\+=\((.* --entrypoint .*)\)$", text, re.MULTILINE)
    stands_for = {"$entrypoint": entrypoint, "$image": "IMAGE", "$2": "LINE"}
    words = [stands_for.get(word, word) for word in shlex.split(call)]
    return words[words.index("--entrypoint") + 1], tuple(words[words.index("IMAGE") + 1 :])


@pytest.mark.parametrize("launcher", CONTAINED)
def test_a_container_on_a_machine_executes_the_line(launcher) -> None:
    """C01: for every launcher with its default image; run without `--entrypoint`, those with a
    program of their own would not.
    """
    made = program(Workload((Task(launcher=launcher, model="a/b"),)), "service", "H100", 1)
    entrypoint, arguments = docker_run(made)
    image = present(known(made.image))
    assert executed(image, arguments, entrypoint) == ("sh", "-c", "LINE")
    assert executed(image, (entrypoint, *arguments)) != ("sh", "-c", "LINE")


@pytest.mark.parametrize("image", OTHERS.values(), ids=OTHERS)
def test_a_users_own_image_executes_the_line(image) -> None:
    """Each of several services too."""
    made = Program("service", (Process("a", "x"), Process("b", "y")), image="me/own:1")
    entrypoint, arguments = docker_run(made)
    assert executed(image, arguments, entrypoint) == ("sh", "-c", "LINE")


@pytest.mark.parametrize(
    ("pair", "refused"),
    [
        (("vllm", "ollama"), True),
        (("vllm", "vllm"), False),
        (("comfyui", "vllm"), False),
        (("tgi", "sglang"), True),
    ],
)
def test_services_of_different_images_need_one_that_holds_both(pair, refused) -> None:
    """All services of a cluster run in one image, and no launcher's own one holds another's
    program.
    """
    tasks = tuple(
        Task(f"s{index}", launcher, model="a/b", port=8000 + index)
        for index, launcher in enumerate(pair)
    )
    assert program(Workload(tasks, image="me/both:1"), "service", "L4", 1).image == "me/both:1"
    if refused:
        with pytest.raises(
            SpecError,
            match=r"workload\.image: wanted one image that holds the programs of all services",
        ):
            program(Workload(tasks), "service", "L4", 1)
    else:
        assert program(Workload(tasks), "service", "L4", 1).processes


def test_an_images_program_is_found_where_that_image_keeps_it() -> None:
    """llama.cpp's server is no program of its image's PATH."""
    made = program(Workload((Task(launcher="llama.cpp", model="a/b"),)), "service", "L4", 1)
    assert made.processes[0].line.startswith('PATH="$PATH:/app"; llama-server ')
    own = program(
        Workload((Task(launcher="llama.cpp", model="a/b"),), image="me/llama:1"), "service", "L4", 1
    )
    assert own.processes[0].line.startswith("llama-server ")


@pytest.mark.parametrize("setup", [[], ["true"]])
@pytest.mark.parametrize("image", [*IMAGES.values(), *OTHERS.values()])
def test_a_vertex_job_executes_the_line(image, setup) -> None:
    """`command` of a container replaces ENTRYPOINT; without `args` nothing follows it (Vertex AI,
    ContainerSpec, 2026-11).
    """
    chosen = vertex_started({"image": "a/b:1", "command": "train", "setup": setup})
    made = vertex.body(vertex_order(image="a/b:1", command=list(chosen.command)))["jobSpec"][
        "workerPoolSpecs"
    ][0]["containerSpec"]
    ran = executed(image, (*made["command"][1:], *made.get("args", ())), made["command"][0])
    assert ran == chosen.command and ran[:2] == ("bash", "-c")
    assert (ran[2] == "train") is not bool(setup)


def test_a_modal_image_keeps_no_entry_point(tmp_path) -> None:
    """Modal hands its command to the image's ENTRYPOINT: the last layer of a registry image empties
    that.
    """
    from modal_proto import api_pb2

    cloud = Cloud(tmp_path)
    try:
        wanted = modal_order(
            modal_candidate("L4", 1),
            Setup(
                ttl_s=600, options=(("add_python", "3.12"), ("image", "vllm/vllm-openai:latest"))
            ),
        )
        made = dict(cloud.adapter().submit(wanted).native)["sandbox"]
        row = cloud.server_state().sandbox(made)
        at = api_pb2.Sandbox.FromString(row.definition).image_id
        (content,) = (
            cloud.store.connection()
            .execute("SELECT content FROM modal_image WHERE id = ?", (at,))
            .fetchone()
        )
        layer = api_pb2.Image.FromString(bytes.fromhex(content))
        assert list(layer.dockerfile_commands) == ["FROM base", "ENTRYPOINT []"]
    finally:
        cloud.close()


def test_a_clore_order_has_the_markets_entry_point_in_place_of_the_images() -> None:
    """`autossh_entrypoint`: an sshd, and `command` run beside it, whatever the image starts by
    itself; Clore's own images have both already.
    """
    made = program(Workload((Task(launcher="vllm", model="a/b"),)), "service", "RTX-4090", 1)
    section = present(CLORE.programs.runs)(made, script(made, inside=True), "service", {})
    chosen = read(section)
    assert chosen.image == "vllm/vllm-openai:latest" and "gunzip" in chosen.command
    order: Any = SimpleNamespace(setup=Setup(), label=Label("o", "c", "g", "f"), joins=())
    candidate: Any = SimpleNamespace(machine_type="server-1", capacity="on-demand")
    terms: Any = SimpleNamespace(coin="USD-Blockchain")
    sent = [
        clore_body(
            order,
            candidate,
            each,
            terms,
            Decimal(1),
            "",
            str,
        )
        for each in (chosen, Options())
    ]
    assert [each["autossh_entrypoint"] for each in sent] == [True, False]
    assert sent[0]["command"] == chosen.command
