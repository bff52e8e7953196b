"""A declaration with `replicas`: what it compiles to, what is refused, and the proxy's settings as
HAProxy itself reads them.
"""

import shutil
import subprocess

import pytest

from providers.adapters import registry
from providers.engine import validate
from providers.errors import SpecError
from providers.model.spec import read_cluster
from providers.model.workload import Process, Program
from providers.plugin.inputs import served
from providers.workloads.launch.compile import program
from providers.workloads.launch.start_script import script

SERVED = {
    "kind": "service",
    "gpu": "L4:1",
    "replicas": 3,
    "workload": {"launcher": "vllm", "model": "meta-llama/Llama-3.1-8B", "dtype": "fp8"},
}


TLS = {"domain": "api.example.com", "certificate": {"gcp": "projects/p/secrets/x"}}


def refused(**changes):
    """What is wrong with the declaration so changed: (path, text) of each."""
    raw = {key: value for key, value in {**SERVED, **changes}.items() if value is not None}
    try:
        found = validate.problems(read_cluster("web", raw), registry.manifests())
    except SpecError as error:
        found = list(error.problems)
    return [(problem.path, str(problem)) for problem in found]


def test_each_replica_is_a_machine_that_runs_the_whole_service() -> None:
    """Machines are bought as for so many nodes; what runs is as for one, and listens to the others'
    proxies, at its own port.
    """
    spec = read_cluster("web", SERVED)
    (entry,) = spec.ask().entries
    assert (entry.nodes, entry.span, spec.nodes) == (3, 1, 1)
    work = spec.ask().workload
    assert work is not None
    made = program(work, "service", "L4", 1, entry.span, proxy_port=80)
    assert "--host 0.0.0.0 --port 8000" in made.processes[0].line
    assert (made.nodes, made.rendezvous, made.port) == (1, False, 80)
    alone = program(work, "service", "L4", 1)
    assert "--host 127.0.0.1 --port 8000" in alone.processes[0].line
    assert alone.port == 8000 and alone.digest != made.digest


def test_how_many_replicas_there_are_is_no_part_of_what_a_machine_is() -> None:
    one, many = (read_cluster("web", {**SERVED, "replicas": number}) for number in (1, 5))
    assert one.fingerprint() == many.fingerprint()


def test_a_lost_replica_is_replaced_alone_unless_it_is_only_reported() -> None:
    assert read_cluster("web", SERVED).setup().on_loss == "replace-node"
    assert read_cluster("web", {**SERVED, "on_loss": "report"}).setup().on_loss == "report"
    alone = read_cluster("web", {**SERVED, "replicas": None})
    assert (alone.setup().on_loss, alone.setup().apart) == ("replace-all", False)


@pytest.mark.parametrize(
    ("changes", "path", "said"),
    [
        ({"kind": "machine", "workload": None}, "replicas", "found kind: machine"),
        ({"nodes": 2}, "nodes", "1 with replicas: a replica is one machine"),
        ({"fallback": [{"gpu": "L40S:1", "nodes": 2}]}, "fallback[0].nodes", "found 2"),
        ({"providers": ["modal"]}, "replicas", "adds containers by itself: options.modal"),
        ({"providers": ["clore"]}, "replicas", "whose machines take a proxy: aws, gcp"),
        ({"providers": ["ssh"]}, "replicas", "whose machines take a proxy: aws, gcp"),
        (
            {"workload": {"command": "serve", "port": 80}},
            "workload.port",
            "another port than 80",
        ),
        ({"replicas": None, "tls": TLS}, "tls", "replicas: 1 is enough"),
        ({"tls": {**TLS, "domain": "10.0.0.1"}}, "tls.domain", "api.example.com"),
        ({"tls": {**TLS, "certificate": {}}}, "tls.certificate", "at least one provider"),
        (
            {"tls": {**TLS, "certificate": {"gcp": "no reference"}}},
            "tls.certificate.gcp",
            "something else, of 12 characters",
        ),
        (
            {
                "workload": {
                    "services": [
                        {"name": "a", "command": "a", "port": 8000},
                        {"name": "b", "command": "b", "port": 8001},
                    ]
                }
            },
            "replicas",
            "found 8000, 8001",
        ),
    ],
    ids=(
        "machine nodes fallback modal clore own port-80 no-replicas domain no-reference reference"
        " two-ports"
    ).split(),
)
def test_what_no_proxy_can_stand_before_is_refused(changes, path, said) -> None:
    found = refused(**changes)
    assert [path] == [each for each, _ in found] and said in found[0][1]


def test_a_certificate_is_fetched_by_the_machines_and_changes_the_port() -> None:
    spec = read_cluster("web", {**SERVED, "tls": TLS})
    assert spec.setup().domain == "api.example.com"
    assert dict(spec.setup().secrets) == {
        "GPUS_TLS_CERTIFICATE": (("gcp", "projects/p/secrets/x"),)
    }
    assert served(spec) == (443,) and spec.ask().tls


def test_a_place_that_takes_no_proxy_is_refused_in_the_plan() -> None:
    """Where other providers remain, the plan says why one is left out."""
    from providers.engine.market.snapshot import why_unreachable

    spec = read_cluster("web", SERVED)
    why = why_unreachable(spec.ask(), spec.setup())
    assert why is not None
    assert why("modal", "H100", 3) == "modal takes no proxy, which replicas need"
    assert (why("gcp", "g2-standard-4", 3), why("aws", "g6.xlarge", 3)) == ("", "")


def test_machines_that_work_apart_get_a_public_address_at_ec2() -> None:
    """Several nodes of a type with many network cards would get EFA, and no public address."""
    from providers.adapters.aws.demands import unreachable
    from providers.model.machine import Setup
    from providers.model.placement import Placement

    place = Placement("aws", machine_type="p5.48xlarge", nodes=3)
    assert unreachable(place, Setup()) != ""
    assert unreachable(place, Setup(apart=True)) == ""


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="needs haproxy: apt-get install it")
@pytest.mark.parametrize("peers", [(), ("10.0.0.1", "10.0.0.2", "10.0.0.3")])
def test_haproxy_takes_the_settings(tmp_path, peers) -> None:
    """Before the engine has told of others, a proxy passes requests to its own machine alone."""
    process = Process("main", "serve", (), 8000, "/health")
    text = script(Program("service", (process,), proxy_port=18_080))
    # Everything up to where the script itself begins.
    parts = text.partition('if [ "$(cat "$root/$digest.done"')[0].replace("mkdir -p", ": ")
    (tmp_path / "peers").write_text("".join(f"{peer}\n" for peer in peers))
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"export GPUS_ROOT={tmp_path}\n{parts}\nproxy_address='bind :80'; proxy_settings",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    file = tmp_path / "haproxy.cfg"
    file.write_text(done.stdout.replace("/run/haproxy/admin.sock", f"{tmp_path}/sock"))
    checked = subprocess.run(
        ["haproxy", "-c", "-f", str(file)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    servers = [
        line.split()[-1] for line in done.stdout.splitlines() if line.startswith("  server ")
    ]
    assert servers == [f"{peer}:8000" for peer in peers or ("127.0.0.1",)]
    assert "option httpchk GET /health" in done.stdout
