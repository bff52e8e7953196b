"""Private images: what is declared, where it is possible, who signs in and how often. With a real
registry: tests/launchers/test_registries.py.
"""

import pytest

from providers.adapters import registry as adapters
from providers.engine import validate
from providers.engine.market.planning import plan
from providers.errors import SpecError
from providers.model.spec import read_cluster
from providers.model.workload import Process, Program, Registry, registry_host
from providers.workloads.launch.start_script import script
from tests.launchers.machines import job

REFERENCES = {"gcp": "projects/p/secrets/pull", "aws": "ssm:/pull", "modal": "docker"}
NAMED = {"username": "me", "password": REFERENCES}
ITSELF = {"identity": True}
GOOGLE, AMAZON = "europe-docker.pkg.dev/p/r/i:1", "1.dkr.ecr.eu-west-1.amazonaws.com/i:1"


def declared(registry, image="ghcr.io/me/i:1", **more):
    workload = {"command": "true", "image": image, "registry": registry}
    return read_cluster("a", {"gpu": "L4:1", "kind": "job", "workload": workload, **more})


@pytest.mark.parametrize(
    ("image", "host"),
    [
        ("python", "docker.io"),
        ("me/private:1", "docker.io"),
        ("ghcr.io/me/private:1", "ghcr.io"),
        ("localhost/i", "localhost"),
        ("box:5000/i@sha256:0", "box:5000"),
        (GOOGLE, "europe-docker.pkg.dev"),
    ],
)
def test_the_registry_is_the_one_that_the_image_names(image, host) -> None:
    """By Docker's own rule; a name without a host is Docker Hub's."""
    assert registry_host(image) == host


def test_without_a_registry_a_program_is_the_one_it_was_before_there_were_any() -> None:
    """Its digest is known from before the field, so that an upgrade starts nothing anew."""
    plain = Program("job", (Process("a", "true"),))
    assert plain.digest == "cca4e662ec06"
    assert plain._replace(registry=Registry("docker.io", "me")).digest != plain.digest


@pytest.mark.parametrize(
    ("registry", "image", "path", "told"),
    [
        (NAMED, "", "image", "the image that the machine signs in for"),
        ({**NAMED, **ITSELF}, "i", "registry", "leave one out"),
        ({}, "i", "registry.username", "or identity: true"),
        ({"username": "a b", "password": REFERENCES}, "i", "registry.username", "without spaces"),
        ({"username": "me"}, "i", "registry.password", "refer to a secret"),
        ({"identity": "yes"}, "i", "registry.identity", "true or false"),
        ({"identity": 1}, "i", "registry.identity", "true or false"),
    ],
)
def test_a_wrong_registry_is_told_at_its_path(registry, image, path, told) -> None:
    """Before anything is bought, with what was wanted."""
    with pytest.raises(SpecError) as caught:
        declared(registry, image)
    assert f"workload.{path}" in {problem.path for problem in caught.value.problems}
    assert told in str(caught.value)


@pytest.mark.parametrize("password", ["hunter2-hunter2", {"gcp": "hunter2-hunter2"}])
def test_a_password_in_the_place_of_its_reference_is_not_repeated(password) -> None:
    """Whoever writes it into the stack is told so, without the value."""
    workload = {
        "command": "true",
        "image": "i",
        "registry": {"username": "m", "password": password},
    }
    with pytest.raises(SpecError) as caught:
        validate.cluster("a", {"gpu": "L4:1", "kind": "job", "workload": workload})
    assert "workload.registry.password" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "registry", "image", "why"),
    [
        ("gcp", NAMED, "i", ""),
        ("gcp", ITSELF, GOOGLE, ""),
        ("gcp", ITSELF, "eu.gcr.io/p/i", ""),
        ("gcp", ITSELF, AMAZON, "gcp's machines have no identity at 1.dkr.ecr"),
        ("aws", ITSELF, AMAZON, ""),
        ("aws", ITSELF, GOOGLE, "at: *.dkr.ecr.*.amazonaws.com; declare username and password"),
        ("vertex", ITSELF, GOOGLE, ""),
        ("vertex", NAMED, "i", "vertex pulls no image with a password"),
        ("modal", NAMED, "i", ""),
        ("modal", ITSELF, GOOGLE, "modal's machines have no identity at"),
        ("clore", NAMED, "i", "clore pulls no image with a password"),
        ("clore", ITSELF, GOOGLE, "clore's machines have no identity at"),
    ],
)
def test_a_place_that_cannot_sign_in_is_refused_by_the_rule_registry(
    provider, registry, image, why
) -> None:
    """With the reason, before anything is bought."""
    spec = declared(registry, image, gpu=["L4:1", "RTX-4090:1"], providers=[provider])
    made = plan(spec.ask(), setup=spec.setup(), use_journal=False)
    refused = {each.found for each in made.rejections if each.rule == "registry"}
    assert (why == "") == (not refused), refused
    assert all(why in each for each in refused)


def test_a_place_without_a_reference_of_the_password_is_refused() -> None:
    """By the rule of all secrets, at the path where the reference would stand."""
    spec = declared({"username": "me", "password": {"gcp": REFERENCES["gcp"]}}, providers=["aws"])
    made = plan(spec.ask(), setup=spec.setup(), use_journal=False)
    found = {each.found for each in made.rejections if each.rule == "secret"}
    assert found == {"none under workload.registry.password.aws"}


@pytest.mark.parametrize(
    ("provider", "image", "path", "told"),
    [
        ("gcp", GOOGLE, "service_account", "roles/artifactregistry.reader at europe-docker"),
        ("aws", AMAZON, "instance_profile", "AmazonEC2ContainerRegistryReadOnly, for 1.dkr.ecr"),
    ],
)
def test_a_machine_needs_an_identity_to_pull_as_itself(provider, image, path, told) -> None:
    """The check names the option and the right that it needs."""
    spec = declared(ITSELF, image, providers=[provider])
    (found,) = validate.problems(spec, adapters.manifests())
    assert (found.path, told in found.todo) == (f"options.{provider}.{path}", True)


@pytest.fixture
def docker(machine):
    """The machine with a played Docker, which writes down what it is told and given."""
    machine.tool("nvidia-smi", "")
    machine.tool("sleep", "")
    machine.tool(
        "docker",
        'echo "$*" >>"$HOME/calls"\ncase "$1" in info) echo nvidia ;; image) exit 1 ;;\n'
        'login) cat >"$HOME/given"; [ ! -e "$HOME/down" ] || { echo "no route to host"; exit 1; } ;;'
        "\nesac",
    )
    return machine


def test_a_machine_of_amazons_signs_in_with_ecrs_own_token(docker) -> None:
    """It is asked for in the registry's region, by the machine's command, as the user AWS."""
    docker.tool("aws", 'echo "aws $*" >>"$HOME/calls"; echo token-of-ecr')
    host = AMAZON.partition("/")[0]
    assert docker.run(script(job("true", image=AMAZON, registry=Registry(host)))) == 0
    calls = (docker.folder / "calls").read_text()
    assert "aws ecr get-login-password --region eu-west-1\n" in calls
    assert f"login --username AWS --password-stdin {host}\n" in calls
    assert (docker.folder / "given").read_text() == "token-of-ecr"
    assert "token-of-ecr" not in calls + docker.log


@pytest.mark.parametrize("lost", ["registry", "password"])
def test_a_registry_that_does_not_answer_may_be_the_machines_fault(docker, lost) -> None:
    """It is tried again, and then told as such: another place may do. So is a password that the
    machine has not got.
    """
    (docker.folder / "down").touch()
    given = {} if lost == "password" else {"GPUS_REGISTRY_PASSWORD": "x-y-z"}
    made = job("touch $HOME/never", image="ghcr.io/me/i", registry=Registry("ghcr.io", "me"))
    assert docker.run(script(made), **given) == 1
    assert docker.words[-1].startswith("setup-failed 1 this machine could not sign in to ghcr.io")
    tried = (docker.folder / "calls").read_text().count("login")
    assert tried == (0 if lost == "password" else 4)
    assert not (docker.folder / "never").exists()
