"""`gpus run -s STACK --on GPU`: a declared workload on other GPUs, in a rehearsal from the command
line, and for real over ssh on loopback.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
import yaml

from providers.adhoc import access, rentals, trial_run
from providers.adhoc import trial as overlay
from providers.adhoc.sync import Machine, portal
from providers.cli import main
from providers.cli.rehearse_state import state
from providers.errors import SpecError
from providers.model.workload import packed
from providers.rehearsal.store import open_store
from tests.adhoc.servers import free_port
from tests.present import present

JOB: dict[str, Any] = {
    "kind": "job",
    "gpu": "H100:8",
    "nodes": 2,
    "max_price_per_hour": 200,
    "workload": {"launcher": "torchrun", "command": "train.py --epochs 3"},
}
SERVICE: dict[str, Any] = {
    "kind": "service",
    "gpu": "H100:8",
    "expose": "token",
    "workload": {"launcher": "vllm", "model": "meta-llama/Llama-3.2-1B", "dtype": "bf16"},
}


@pytest.fixture
def stack(tmp_path, monkeypatch):
    """A project with one stack `s`, whose clusters a test names; the rehearsal cloud answers at
    once.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "gpus"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("providers.adhoc.machine.WATCH_S", 1.0)
    (tmp_path / "Pulumi.yaml").write_text("name: x\nruntime: python\n")
    store = open_store()
    for provider in ("gcp", "aws", "clore", "modal"):
        for step in ("create", "delete", "stockout", "job"):
            store.set_latency(provider, step, 0.05)

    def declare(**clusters) -> None:
        (tmp_path / "Pulumi.s.yaml").write_text(
            yaml.safe_dump(
                sort_keys=False,
                data={"config": {"gpus:world": "rehearsal", "gpus:clusters": clusters}},
            )
        )

    return declare


def machines():
    return [machine["name"] for machine in state(open_store())["machines"]]


def test_a_declared_job_is_tried_on_one_cheap_gpu_and_given_back(stack, capfd) -> None:
    """Flags follow the GPU that was won, the price stands before the purchase, the course and the
    code come out, and nothing is left.
    """
    stack(train=JOB)
    code = main.main(["run", "-s", "s", "--on", "L4:1"])
    out, err = capfd.readouterr()
    assert (code, [line.split()[2] for line in out.splitlines()]) == (
        0,
        [*["starting", "running", "succeeded"][-len(out.splitlines()) :]],
    )
    assert (
        "torchrun --standalone --nproc-per-node=1 train.py --epochs 3" in err
        and "L4:1 on-demand $" in err
    )
    assert (
        "on one machine; train declares 2" in err
        and "released, confirmed" in err
        and machines() == []
    )


def test_trials_of_two_stacks_have_names_of_their_own() -> None:
    """One stack's trial is not taken for another's, whatever the stack is called; the name is one
    that a cluster may have.
    """
    called = [
        overlay.trial_name(stack, "train")
        for stack in ("dev", "prod", "org/project/prod", "7B_Big.stack")
    ]
    assert called == [
        "dev-train-debug",
        "prod-train-debug",
        "prod-train-debug",
        "b-big-stack-train-debug",
    ]
    assert len(overlay.trial_name("s" * 60, "train")) == 40


@pytest.mark.parametrize("provider", ["gcp", "aws", "modal"])
def test_the_code_of_a_failed_job_is_the_commands_own(stack, capfd, provider) -> None:
    """A job that ends with 7 ends the command with 7, on each cloud that has the GPU; its machine
    is given back all the same.
    """
    stack(train=JOB)
    open_store().add_fault(provider, "node.work", "job-fails", None, code=7)
    assert main.main(["run", "-s", "s", "train", "--on", "L4:1", "--provider", provider]) == 7
    assert "released, confirmed" in capfd.readouterr().err and machines() == []


def test_a_service_runs_a_command_beside_it_once_it_works(stack, capfd) -> None:
    """With a command, a service is kept until that has ended; the code is the command's."""
    stack(llama=SERVICE, other=JOB)
    assert main.main(["run", "-s", "s", "llama", "--on", "L4:1", "--", "echo hello; exit 5"]) == 5
    out, err = capfd.readouterr()
    assert (
        out.splitlines()[-2:] == [out.splitlines()[-2], "hello"] and "ready" in out.splitlines()[-2]
    )
    assert "it works" in err and "--host 127.0.0.1" in err and machines() == []
    assert (
        "it ended with 5; in a rehearsal nothing listens: what connects to the service works only"
        " live" in err
    )


def test_a_service_runs_until_it_is_interrupted(stack, tmp_path) -> None:
    """Without a command it says that it works, stays, and is given back at an interrupt."""
    stack(llama=SERVICE)
    process = subprocess.Popen(
        [sys.executable, "-m", "providers.cli", "run", "-s", "s", "--on", "L4:1"],
        stderr=subprocess.PIPE,
        text=True,
    )
    said = ""
    while "it works" not in said:
        said += present(process.stderr).readline()
        assert process.poll() is None
    assert len(machines()) == 1
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "released, confirmed" in err and machines() == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--on", "L4:1"],
            "CLUSTER: wanted a cluster of s, found none of 3; there are: train, llama, box",
        ),
        (["nope", "--on", "L4:1"], "CLUSTER: wanted a cluster of s, found 'nope'"),
        (["box", "--on", "L4:1"], "box.workload: wanted a workload to run, found none"),
        (
            ["train"],
            (
                "--on: wanted GPUs to try it on, as in --on L4:1, found none; the declared GPUs are"
                " launched by: pulumi up -s s"
            ),
        ),
        (["train", "--on", "L5:1"], "--on: wanted a known GPU, found 'L5'"),
        (["train", "--on", "L4:0"], "--on: wanted a whole number of GPUs from 1"),
        (["train", "--on", "L4:3", "--provider", "gcp"], "--on: wanted"),
        (["train", "--on", "L4:1", "--nodes", "2"], "--nodes: wanted 1"),
        (
            ["train", "--on", "L4:1", "--fallback", "T4:1"],
            "--fallback: wanted further choices as --on",
        ),
        (["train", "--on", "L4:1", "--on", "L4:1"], "--on: wanted a choice that is not listed yet"),
        (["train", "--on", "L4:1", "--", "python"], "--: wanted nothing: train is a job"),
    ],
)
def test_what_cannot_be_tried_is_one_clear_line(stack, capfd, arguments, words) -> None:
    """Wrong words end with code 2 before anything is bought, and say what was wanted."""
    stack(train=JOB, llama=SERVICE, box={"gpu": "H100:8"})
    assert main.main(["run", "-s", "s", *arguments]) == 2
    err = capfd.readouterr().err
    assert words in err and "Traceback" not in err and machines() == []


def test_on_needs_a_stack_and_a_gpu_needs_no_on(stack, capfd) -> None:
    """`--on` without a stack, and neither GPU nor stack, say what is missing."""
    assert (
        main.main(["run", "L4:1", "--on", "T4:1", "--", "x"]) == 2
        and "-s STACK" in capfd.readouterr().err
    )
    assert main.main(["run", "--", "x"]) == 2 and "a GPU such as" in capfd.readouterr().err


def test_what_does_not_fit_the_cheap_gpu_is_refused_with_the_arithmetic(stack, capfd) -> None:
    """A model that one L4 cannot hold is refused by the rule `fit`; nothing is bought."""
    stack(
        llama={**SERVICE, "workload": {**SERVICE["workload"], "model": "meta-llama/Llama-3.1-70B"}}
    )
    assert main.main(["run", "-s", "s", "--on", "L4:1"]) == 1
    err = capfd.readouterr().err
    assert "fit" in err and "GiB" in err and machines() == []


def test_a_secret_without_a_reference_is_refused_there(stack, capfd) -> None:
    """A workload's secrets come along: a provider that has no reference is refused by the rule
    `secret`.
    """
    stack(train={**JOB, "secrets": {"HF_TOKEN": {"modal": "huggingface"}}, "providers": ["gcp"]})
    assert main.main(["run", "-s", "s", "--on", "L4:1"]) in (1, 2)
    assert "HF_TOKEN" in capfd.readouterr().err and machines() == []


def arguments(**given):
    left = dict.fromkeys(
        ("spot", "capacity", "rank", "max_price", "wait", "disk_gib", "ttl", "name")
    )
    return argparse.Namespace(
        stack="s",
        **{
            **left,
            "on": ["H100:8"],
            "provider": [],
            "region": [],
            "marketplaces": False,
            "accept_suspect_prices": False,
            **given,
        },
    )


def made(declared, **given):
    from providers.model.spec import read_cluster

    return overlay.overlaid(read_cluster("train", declared), arguments(**given), "live", {})


def test_a_try_mounts_no_volume() -> None:
    """The declared run's data is neither read nor written: its path is a plain folder."""
    use = {"path": "/data", "provider": "gcp", "place": "us-central1-a", "type": "pd-balanced"}
    found = made({**JOB, "nodes": 1, "workload": {**JOB["workload"], "volumes": {"data": use}}})
    assert found.spec.workload.volumes == {}
    assert any("/data is a plain folder: a try does not mount" in line for line in found.lines)


def test_checkpoints_of_a_try_have_a_place_of_their_own() -> None:
    """What the declared run has saved is neither read nor written; a whole bucket has nothing
    beside it and is refused.
    """
    kept = {**JOB["workload"], "checkpoint": {"path": "/c", "to": "gs://bkt/run/"}}
    found = made({**JOB, "workload": kept})
    assert found.spec.workload.checkpoint.to == "gs://bkt/run-debug" and any(
        "gs://bkt/run-debug" in line for line in found.lines
    )
    found = made(
        {
            **JOB,
            "workload": {
                **kept,
                "resume": "--resume",
                "checkpoint": {"path": "/c", "to": "volume:v"},
            },
        }
    )
    assert (found.spec.workload.checkpoint, found.spec.workload.resume) == (None, "") and any(
        "kept nowhere" in line for line in found.lines
    )
    with pytest.raises(SpecError, match="a folder of the bucket"):
        made({**JOB, "workload": {**kept, "checkpoint": {"path": "/c", "to": "s3://bkt"}}})


def test_what_is_of_the_declared_machines_stays_there() -> None:
    """Workload, cap, providers and labels come along; nodes, doors, keys, choices and policies of
    the declared machines do not.
    """
    declared = {
        **JOB,
        "providers": ["modal", "gcp"],
        "labels": {"team": "x"},
        "fallback": [{"gpu": "H200:8", "command": "other.py"}],
        "spot": "only",
        "ttl": "20h",
        "triggers": {"rerun": 3},
        "options": {"modal": {"retries": 2, "cpu": 2}},
    }
    spec = made(declared, on=["L4:1", "T4:1"]).spec
    assert (spec.kind, spec.nodes, spec.gpu, spec.fallback, spec.spot, spec.ttl) == (
        "machine",
        1,
        ("L4:1", "T4:1"),
        (),
        None,
        "4h",
    )
    assert (spec.providers, dict(spec.labels), spec.max_price_per_hour) == (
        ("modal", "gcp"),
        {"team": "x"},
        200,
    )
    assert spec.options == {"modal": {"cpu": 2}}


def test_where_a_machine_is_a_container_it_is_the_workloads() -> None:
    """At Modal and Clore the machine's image is that of the workload, unless the options name one."""
    spec = made(
        {
            **JOB,
            "workload": {
                **JOB["workload"],
                "image": "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime",
            },
        }
    ).spec
    assert {name: section["image"] for name, section in spec.options.items()} == dict.fromkeys(
        ("clore", "modal"), spec.workload.image
    )


# For real, over ssh


@pytest.fixture
def there(bench, tmp_path, monkeypatch):
    """A machine on which start-up scripts run for real, and what tries a workload on it."""
    plain = type(bench.host).environment
    monkeypatch.setattr(
        type(bench.host),
        "environment",
        property(lambda host: {**plain.fget(host), "GPUS_ROOT": str(tmp_path / "root")}),
    )
    monkeypatch.setattr(trial_run, "BOOT_SCRIPT", str(tmp_path / "boot" / "start.sh"))
    monkeypatch.setattr(trial_run, "as_root", lambda text: text)
    monkeypatch.setattr("providers.engine.readiness.handover.as_root", lambda text: text)
    if hasattr(bench.server, "process"):
        bench.server.stop()
        bench.server.start()
    got = []

    def trial(declared, command=()):
        found = made(declared, spot="only")
        machine = Machine(portal().run(rentals.rent(bench.world(), found.spec, by_login=True)))
        got.append(machine)
        # The machine itself starts nothing: what runs is begun by login, once.
        assert [
            entry.order.setup.script
            for entry in machine.inner.opened.journal.orders("live", access.owner())
        ] == [""]
        return trial_run.work(machine, found, command)

    yield trial
    for machine in got:
        machine.release()
    if (
        pid := tmp_path / "root" / "main.pid"
    ).exists():  # what runs on there: nobody ended the machine itself
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGTERM)


def test_a_job_runs_for_real_and_its_output_and_code_come_out(there, capfd) -> None:
    """The compiled start-up script is run on the machine: set-up, files, environment, output as it
    comes, and the command's own exit code.
    """
    script = (
        "import os, sys; print('rank', os.environ['WHO'],"
        " open(os.path.expanduser('~/made')).read()); sys.exit(9)"
    )
    work = {
        "command": "python3 -u ~/train.py",
        "setup": ["echo once > ~/made"],
        "files": {"~/train.py": packed(script.encode())},
        "env": {"WHO": "me"},
    }
    assert there({"kind": "job", "gpu": "H100:8", "workload": work}) == 9
    out = capfd.readouterr().out
    assert "rank me once" in out and out.index("starting") < out.index("rank me once") < out.index(
        "failed 9"
    )


def test_a_set_up_that_fails_ends_it_with_its_code(there, capfd) -> None:
    """The set-up's exit code comes out, with what it wrote."""
    assert (
        there(
            {
                "kind": "job",
                "gpu": "H100:8",
                "workload": {"command": "true", "setup": ["echo oh no", "exit 4"]},
            }
        )
        == 4
    )
    assert "oh no" in capfd.readouterr().out


def test_a_service_is_reached_from_here_once_it_works(there, tmp_path, capfd) -> None:
    """Once its health path answers, a command beside it runs and its code comes out."""
    port = free_port()
    work = {
        "command": f"python3 -m http.server {port} --bind 127.0.0.1",
        "port": port,
        "health": "/",
    }
    code = there(
        {"kind": "service", "gpu": "H100:8", "workload": work},
        [f"curl -fsS http://127.0.0.1:{port}/ >/dev/null && exit 6"],
    )
    out, err = capfd.readouterr()
    assert code == 6 and "ready" in out and "it works" in err


def test_a_login_has_the_secrets_of_its_container(tmp_path) -> None:
    """What a container was given in its environment a login finds there; what it has itself stays."""
    (tmp_path / "environ").write_bytes(b"A=1\0HF_TOKEN=it's $(x) `y`\0B=2\0")
    text = (
        trial_run.inherited(["HF_TOKEN", "B", "NONE"], str(tmp_path / "environ"))
        + 'printf "%s|%s|%s" "$HF_TOKEN" "$B" "$NONE"'
    )
    done = subprocess.run(
        ["bash", "-c", text],
        check=False,
        env={"PATH": "/usr/bin:/bin", "B": "mine"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "it's $(x) `y`|mine|"


def test_following_ends_where_nothing_ever_began(tmp_path, monkeypatch) -> None:
    """A machine on which the script never writes a word ends with a line that says so, not never."""
    monkeypatch.setattr(trial_run, "BEGIN_S", 1)
    monkeypatch.setattr(trial_run, "as_root", lambda text: text)
    done = subprocess.run(
        ["sh", "-c", trial_run.following("abc", ("succeeded",))],
        check=False,
        env={"GPUS_ROOT": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "has written nothing" in done.stderr
