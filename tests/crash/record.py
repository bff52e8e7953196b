"""What the real engine calls: the plugin behind a recorder, and the scenarios that are recorded.
Owns `recorded.json`.

`python -m tests.crash.record` runs each scenario with the real command line on the rehearsal's
Compute Engine and writes down every remote call, in the order in which it arrived, with its
request. As `RECORDING=FILE python -m tests.crash.record plugin ADDRESS` it is the plugin itself.
What differs from run to run (ids, tokens, times) is not kept.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.plugin.conftest import Project

FILE = Path(__file__).parent / "recorded.json"
STACK = "recorded"
SPEC = {"gpu": "L4:1", "providers": ["gcp"], "regions": ["us-central1"], "ttl": "20h"}
SKIPPED = frozenset(
    {
        "Handshake",
        "GetPluginInfo",
        "GetSchema",
        "GetMapping",
        "GetMappings",
        "Attach",
        "CheckConfig",
        "DiffConfig",
        "Configure",
        "Cancel",
    }
)
"""Calls that are about the process, not about a resource."""


def serve() -> int:
    """The plugin's process, each of whose calls is written down before it is worked on."""
    from providers.plugin.server import serve as served

    def make(engine: str) -> Any:
        from google.protobuf.json_format import MessageToDict

        from providers.plugin.servicer import Servicer

        def write(line: dict[str, Any]) -> None:
            with Path(os.environ["RECORDING"]).open("a") as file:
                file.write(json.dumps(line) + "\n")

        def recorded(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
            async def call(self: Any, request: Any, context: Any) -> Any:
                line = {
                    "call": name,
                    "request": MessageToDict(request, preserving_proto_field_name=True),
                }
                write(line)
                return await method(self, request, context)

            return call

        names = [name for name in vars(Servicer) if name[0].isupper() and name not in SKIPPED]
        return type(
            "Recorded",
            (Servicer,),
            {name: recorded(name, getattr(Servicer, name)) for name in names},
        )(engine)

    sys.argv = sys.argv[1:]
    return served(make)


def recording(folder: Path) -> Project:
    """A project of the real engine whose plugin writes down what it is called with."""
    from tests.plugin.conftest import BIN, REPOSITORY, Project

    plugin = folder / "bin" / "pulumi-resource-gpu"
    plugin.parent.mkdir()
    plugin.write_text(
        f"#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} -m tests.crash.record plugin"
        ' "$@"\n'
    )
    plugin.chmod(0o755)
    project = Project(folder, STACK)
    text = (folder / "Pulumi.yaml").read_text()
    (folder / "Pulumi.yaml").write_text(text.replace(f"path: {BIN}", f"path: {plugin.parent}"))
    project.env["RECORDING"] = str(folder / "calls")
    return project


def record() -> None:
    """Runs the scenarios and writes FILE."""
    with tempfile.TemporaryDirectory() as folder:
        project = recording(Path(folder))
        salt = next(
            (
                line
                for line in project.file.read_text().splitlines()
                if line.startswith("encryptionsalt")
            ),
            "",
        )
        found: dict[str, list[dict[str, Any]]] = {}

        def declare(**edits: Any) -> None:
            config = {"gpus:world": "rehearsal", "gpus:clusters": {"train": {**SPEC, **edits}}}
            project.file.write_text(f"{salt}\nconfig: {json.dumps(config)}\n")

        def note(name: str, run: Callable[..., str], *words: str) -> str:
            Path(project.env["RECORDING"]).write_text("")
            said = run(*words)
            found[name] = [
                shown(json.loads(line))
                for line in Path(project.env["RECORDING"]).read_text().splitlines()
            ]
            print(name, len(found[name]), "calls", file=sys.stderr)
            return said

        urn = f"urn:pulumi:{STACK}::gpus::gpu:index:Cluster::train"
        declare()
        note("up", project.up)
        note("unchanged", project.up)
        note("refresh", project.run, "refresh", "-s", STACK, "--yes", "--skip-preview")
        declare(labels={"team": "vision"}, ttl="30h")
        note("update", project.up)
        declare(gpu="L4:2")
        note("replace-edit", project.up)
        note("replace-asked", project.up, "--replace", urn)
        project.run("state", "taint", "--yes", "-s", STACK, urn)
        note("replace-taint", project.up)
        project.rehearse("advance", "31h")
        note("ended", project.up)
        declare(gpu="L4:2", triggers={"rerun": 1})
        note("run-again", project.up)
        declare(gpu="L4:2", spot="only")
        note("to-spot", project.up)
        project.rehearse("preempt", project.machines()[0]["name"])
        project.rehearse("advance", "1h")
        note("preempted", project.up)
        note("destroy", project.destroy)
        # What was bought cannot be looked at: an error that keeps the resource. Then it can be.
        declare()
        for call in (
            "instances.get",
            "instances.list",
            "instances.aggregatedList",
            "instances.delete",
        ):
            project.rehearse("fault", "gcp", call, "unavailable", "--times", "always")
        ended = threading.Event()

        def hurry() -> None:
            # The engine tries for minutes of the world's time.
            while not ended.wait(0.2):
                project.rehearse("advance", "20s")

        hurrying = threading.Thread(target=hurry)
        hurrying.start()
        note("half-made", lambda: project.up(fails=True))
        note("half-made-still", lambda: project.up(fails=True))
        ended.set()
        hurrying.join()
        project.rehearse("fault", "--clear")
        note("healed", project.up)
        project.destroy()
        _wait(project, declare, note)
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def _wait(project: Project, declare: Callable[..., None], note: Callable[..., str]) -> None:
    """Every place is sold out, and the declaration waits."""
    project.rehearse("stock", "gcp", "*", "*", "*", "0")
    declare(acquire={"within": "12h"})
    note("waits", project.up)
    note("waits-still", project.up)
    project.rehearse("stock", "gcp", "*", "*", "*", "1")
    project.rehearse("advance", "1h")
    note("acquired", project.up)
    project.destroy()


def shown(line: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a call: which, for what, whether at preview, and which properties each part
    of the request had.
    """
    request = line["request"]
    kept = {
        "call": line["call"],
        "resource": request.get("urn", request.get("tok", "")).rpartition("::")[2],
    }
    for name, value in request.items():
        if isinstance(value, dict):
            kept[name] = sorted(value)
        elif name in ("preview", "ignore_changes"):
            kept[name] = value
        elif name == "id":
            kept[name] = "set" if value else ""
    return kept


if __name__ == "__main__":
    if sys.argv[1:2] == ["plugin"]:
        sys.exit(serve())
    record()
