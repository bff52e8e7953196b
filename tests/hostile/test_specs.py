"""Generated declarations: a clean refusal with paths, or a valid plan whose requests are clean;
never another exception.
"""

import base64
import json
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from providers.adapters import registry
from providers.adapters.aws import compile as ec2
from providers.adapters.aws import first_boot, region_facts
from providers.adapters.gcp import compile as gce
from providers.adapters.modal import deployment
from providers.adapters.modal import request as sandbox
from providers.catalog.offers import load
from providers.engine.journal.codec import order_in, order_out
from providers.errors import CloudError, Problem, SpecError
from providers.model.machine import Label, Order
from providers.model.spec import Cluster
from providers.planner import render
from providers.plugin import inputs
from providers.plugin.properties import Properties, decode, encode
from tests.hostile.conftest import many
from tests.hostile.specs import ENTRY, NAME
from tests.hostile.words import JUNK, TEXTS
from tests.present import present

SEEN: Counter[str] = Counter()


def clean(problems: Iterable[Problem]) -> None:
    """Each problem is one readable line with a path, and holds nothing that a terminal would obey."""
    for problem in problems:
        said = str(problem)
        assert problem.wanted and problem.found, problem
        assert said.isprintable() or all(each.isprintable() or each == " " for each in said), repr(
            said
        )
        assert len(said) < 2_000, len(said)


def compiled(spec: Cluster, name: str) -> None:
    """What would be sent for the first candidate of each provider; and that the journal's form of
    the order is lossless.
    """
    capabilities = registry.capabilities()
    from providers.planner.plan import make

    plan = make(spec.ask(), load(), capabilities)
    SEEN["plans"] += 1
    render.as_text(plan)
    render.as_markdown(plan)
    json.dumps(render.as_json(plan), allow_nan=False)
    for provider in ("gcp", "aws", "modal"):
        first = next(
            (candidate for candidate in plan.candidates if candidate.provider == provider), None
        )
        if first is None:
            continue
        options: dict[str, Any] = dict(spec.setup().options)
        setup = spec.setup()._replace(options=tuple(options.get(provider, {}).items()))
        names = tuple(f"{name}-0123abcd-{index}" for index in range(first.nodes))
        order = Order(
            Label("0123456789ab", name, "aaaabbbbcccc", spec.fingerprint()),
            "token",
            (first,),
            names,
            setup,
            900,
        )
        assert order_in(json.loads(json.dumps(order_out(order), default=str))).label == order.label
        try:
            if provider == "gcp":
                call = gce.creating_call(order)
                metadata = (
                    call.body.get("instanceProperties", call.body)
                    .get("metadata", {})
                    .get("items", ())
                )
                scripts = [item["value"] for item in metadata if item["key"] == "startup-script"]
            elif provider == "aws":
                ec2.creating_call(
                    order,
                    region_facts.Around(
                        region_facts.Image("ami-1"), ("sg-1",), subnets=((first.zone, "subnet-1"),)
                    ),
                )
                scripts = [
                    script
                    for script in [first_boot.first_boot(order.setup, order.candidates[0].region)]
                    if script
                ]
                assert all(len(base64.b64encode(script.encode())) for script in scripts)
            else:
                scripts = []
                (
                    sandbox.compile_order(order)
                    if first.kind == "machine"
                    else deployment.compile_order(order)
                )
        except CloudError:
            SEEN["refused by the compiler"] += 1
            continue
        SEEN[f"compiled for {provider}"] += 1
        for script in scripts:
            harmless(script)


def harmless(script: str) -> None:
    """Bash reads the script without running it, and none of its words is a command that came from
    the declaration.
    """
    SEEN["scripts"] += 1
    done = subprocess.run(["bash", "-n"], check=False, input=script, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stderr}\n{script}"
    if "CANARY" in script:
        executed(script)


def executed(script: str) -> None:
    """Really runs the script, every tool of it a stub on an empty PATH, in an empty folder: no
    canary may appear.
    """
    SEEN["scripts run"] += 1
    with tempfile.TemporaryDirectory() as folder:
        tools = Path(folder) / "bin"
        tools.mkdir()
        stub = tools / "stub"
        stub.write_text("#!/bin/sh\nexit 0\n")
        stub.chmod(0o755)
        for tool in (
            "docker",
            "nvidia-ctk",
            "nvidia-smi",
            "systemctl",
            "systemd-run",
            "apt-get",
            "curl",
            "gpg",
            "useradd",
            "id",
            "getent",
            "cut",
        ):
            (tools / tool).symlink_to(stub)
        for tool in (
            "install",
            "chown",
            "chmod",
            "printf",
            "date",
            "seq",
            "sleep",
            "mkdir",
            "rm",
            "grep",
            "sh",
            "bash",
            "gcloud",
            "aws",
        ):
            (tools / tool).symlink_to(stub)
        # The one command that an injection uses is the real one.
        (tools / "touch").symlink_to(present(shutil.which("touch")))
        work = Path(folder) / "work"
        work.mkdir()
        inner = (
            script.replace("/etc/", f"{work}/etc/")
            .replace("/var/", f"{work}/var/")
            .replace("/run/", f"{work}/run/")
        )
        bash = present(shutil.which("bash"))
        subprocess.run(
            [bash, "-c", inner],
            check=False,
            cwd=work,
            env={"PATH": str(tools)},
            capture_output=True,
            timeout=20,
        )
        assert not list(Path(folder).rglob("*CANARY*")), script


@many(10_000, 400)
@given(name=NAME, entry=ENTRY)
def test_a_declaration_is_refused_cleanly_or_planned(name: Any, entry: Any) -> None:
    """Whatever stands in a stack file or comes over the engine's wire: problems with paths, or a
    plan; never another exception.
    """
    SEEN["declarations"] += 1
    raw = {"gpu": entry} if isinstance(entry, str) else entry
    if not isinstance(raw, dict):
        raw = {"gpu": raw}
    raw = {str(key): value for key, value in raw.items()}
    checked = inputs.check(
        Properties(
            {**raw, "world": "rehearsal", "owner": "0123456789ab", "cluster": name, "settings": {}}
        )
    )
    clean(checked.problems)
    if checked.problems:
        SEEN["refused"] += 1
        assert checked.spec is None
        return
    SEEN["accepted"] += 1
    again = inputs.check(Properties(checked.values))
    assert not again.problems, "the canonical form is itself a declaration"
    assert again.values == checked.values
    compiled(present(checked.spec), name)


@many(1_000, 100)
@given(entry=JUNK, settings=JUNK, world=st.one_of(st.just("rehearsal"), TEXTS))
def test_everything_around_a_declaration_may_be_junk(entry: Any, settings: Any, world: Any) -> None:
    """World, settings and the whole map of clusters are checked before anything else reads them."""
    checked = inputs.check(
        Properties(
            {
                "gpu": entry,
                "settings": settings,
                "world": world,
                "owner": entry,
                "cluster": settings,
            }
        )
    )
    clean(checked.problems)
    if isinstance(settings, dict):
        found = inputs.check_all(
            {
                "world": "rehearsal",
                "settings": {},
                "clusters": {
                    str(key): value for key, value in settings.items() if isinstance(value, dict)
                },
            }
        )
        for lines in found.values():
            assert all(line.isprintable() for line in lines)


@many(1_000, 100)
@given(values=st.dictionaries(TEXTS, JUNK, max_size=4))
def test_the_wire_carries_anything(values: Any) -> None:
    """What the engine sends is decoded without an exception, and what is sent back is what it was."""
    try:
        struct = encode(values)
    except (ValueError, TypeError, UnicodeEncodeError):
        return
    decode(struct)


@many(500, 60)
@given(text=TEXTS)
def test_a_gpu_on_the_command_line(text: str) -> None:
    """The public functions answer any text with a plan or a SpecError."""
    from providers import api

    try:
        api.plan(text)
    except SpecError as error:
        clean(error.problems)


def test_the_sample_was_worth_it() -> None:
    """The generator reaches both sides: many are refused, many are accepted, planned and compiled.
    Runs last in this file.
    """
    if SEEN["declarations"] < 100:
        return  # another process had the sample
    print(dict(SEEN))
    assert SEEN["refused"] > SEEN["declarations"] * 0.2
    assert SEEN["accepted"] > SEEN["declarations"] * 0.02, SEEN
