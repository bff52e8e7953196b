"""One Pulumi stack, through Pulumi's Automation API and the real CLI. Owns the CLI's process, and
what is read of previews, updates and the state.

The CLI runs in a session of its own, so that a Ctrl-C at the terminal reaches this process alone
and is handed on once: a second one would end the plugin in the middle of its cleaning up (tried
with CLI 3.276). Must not import a cloud's SDK or the engine's loop.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from pulumi.automation import CommandResult, LocalWorkspace, PulumiCommand
from pulumi.automation.errors import (
    CommandError,
    ConcurrentUpdateError,
    StackNotFoundError,
    create_command_error,
)
from semver import VersionInfo

from providers.engine.record import WAITING
from providers.errors import GpusError, Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pulumi.automation import Stack as PulumiStack
    from pulumi.automation.events import EngineEvent

CLUSTER, OWNERSHIP = "gpu:index:Cluster", "gpu:index:Ownership"
_MAKES = frozenset({"create", "replace", "create-replacement"})
_SILENT = frozenset({"refresh", "read", "same"})
_COLOURS = re.compile(r"<\{%[^%]*%\}>")
_SAID_MAX = 20


class Locked(GpusError):
    """Another update of the stack is under way."""


class Failed(GpusError):
    """The CLI ended with an error. `lines` are its own, the errors first."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self.lines = lines
        super().__init__(lines[0] if lines else "the Pulumi CLI failed and did not say why")


class DeployedCluster(NamedTuple):
    """A cluster as the state has it."""

    name: str
    status: str
    detail: str
    where: str
    price_usd_per_hour: float | None
    launched_at: str
    id: str
    outputs: Mapping[str, Any]
    inputs: Mapping[str, Any]
    urn: str = ""

    @property
    def next_look(self) -> float:
        """When the first place is asked again, of one that waits for capacity; 0 for any other."""
        search = (self.outputs.get("record") or {}).get("search") or {}
        return float(search.get("next_at") or 0) if self.status == WAITING else 0.0


class State(NamedTuple):
    """What the stack's state says. `world` and `owner` are empty while there is no ownership."""

    world: str
    owner: str
    settings: Mapping[str, Mapping[str, str]]
    clusters: tuple[DeployedCluster, ...]
    ownership: Mapping[str, Any]
    max_spend: float | None = None


class Run(NamedTuple):
    """What a preview or an update came to: operations on clusters by name, those of them that get
    machines for it (what is made, replaced, has something to repair, or waits for capacity), and
    the warnings and errors, one line each.
    """

    operations: Mapping[str, str]
    buys: tuple[str, ...]
    lines: tuple[str, ...]


class Stack:
    """A stack of the project in a folder. Every method runs the CLI once; raises Locked, or Failed
    with what the CLI said.
    """

    def __init__(self, project: Path, name: str) -> None:
        try:
            self._cli = _Cli(PulumiCommand(skip_version_check=True))
        except FileNotFoundError:
            raise GpusError(
                "wanted the Pulumi CLI on PATH, found none; run `make setup`, or see"
                " docs/how-to/own-project.md"
            ) from None
        self._project = project
        self.name = name
        self._stack: PulumiStack | None = None

    def stop(self) -> None:
        """Lets the command that is under way, if any, stop in order: what is half made is released.
        Returns at once; only the first call counts.
        """
        self._cli.interrupt()

    def preview(self) -> Run:
        """What an update would do, after a look at the clouds."""
        return self._ran(lambda stack, on_event: stack.preview(refresh=True, on_event=on_event))

    def up(self, without: Sequence[str] = ()) -> Run:
        """Looks at the clouds, then brings the stack to its declaration, but for what has one of
        these URNs: that stays as it is.
        """
        return self._ran(
            lambda stack, on_event: stack.up(
                refresh=True,
                on_event=on_event,
                show_secrets=False,
                message="gpus watch",
                exclude=list(without) or None,
            )
        )

    def refresh(self) -> Run:
        """Looks at the clouds and writes down what is there."""
        return self._ran(
            lambda stack, on_event: stack.refresh(
                on_event=on_event, show_secrets=False, message="gpus watch"
            )
        )

    def state(self) -> State:
        """What the state holds now. Secret values stay encrypted."""
        try:
            deployment = self._selected().export_stack().deployment or {}
        except CommandError as error:
            raise failure(error, []) from None
        return read_state(deployment)

    def updates(self, since: float) -> int:
        """How many updates since then (epoch seconds) made something, by the backend's own history;
        it knows those of every machine.
        """
        try:
            found = self._selected().history(page_size=50, page=1, show_secrets=False)
        except CommandError as error:
            raise failure(error, []) from None
        made = 0
        for summary in found:
            changes = summary.resource_changes or {}
            new = sum(
                int(count or 0)
                for operation, count in changes.items()
                if str(getattr(operation, "value", operation)) in _MAKES
            )
            made += summary.kind == "update" and new > 0 and summary.start_time.timestamp() >= since
        return made

    def _selected(self) -> PulumiStack:
        if self._stack is None:
            from pulumi.automation import Stack as Automated

            workspace = _Workspace(work_dir=str(self._project), pulumi_command=self._cli)  # type: ignore[arg-type]
            try:
                self._stack = Automated.select(self.name, workspace)
            except StackNotFoundError:
                todo = f"make it: `pulumi stack init {self.name}`, then `pulumi up` once by hand"
                raise SpecError(
                    [
                        Problem(
                            "--stack", "a stack of this project and backend", repr(self.name), todo
                        )
                    ]
                ) from None
            except CommandError as error:
                raise failure(error, []) from None
        return self._stack

    def _ran(self, run: Callable[[PulumiStack, Callable[[EngineEvent], None]], object]) -> Run:
        operations: dict[str, str] = {}
        repairs: set[str] = set()
        said: list[tuple[str, str]] = []

        def heard(event: EngineEvent) -> None:
            step = (
                event.resource_pre_event.metadata if event.resource_pre_event is not None else None
            )
            if step is not None and step.type == CLUSTER:
                operation, name = (
                    str(getattr(step.op, "value", step.op)),
                    step.urn.rpartition("::")[2],
                )
                if operation not in _SILENT and operations.get(name) not in _MAKES:
                    operations[name] = operation
                if operation == "update" and step.old is not None and _may_buy(step.old):
                    repairs.add(name)
            note = event.diagnostic_event
            if note is not None and note.severity in ("warning", "error") and not note.ephemeral:
                said.append((note.severity, _plain(note.message)))

        stack = self._selected()
        try:
            run(stack, heard)
        except ConcurrentUpdateError as error:
            raise Locked(_first(str(error))) from None
        except CommandError as error:
            raise failure(error, said) from None
        buys = tuple(
            name for name, operation in operations.items() if operation in _MAKES or name in repairs
        )
        return Run(operations, buys, _lines(said))


class _Workspace(LocalWorkspace):
    """A workspace that leaves the folder's selected stack alone: a person's next bare `pulumi
    destroy` means what it meant before.
    """

    def select_stack(self, stack_name: str) -> None:
        """Looks whether it is there; every command names its stack. Raises StackNotFoundError."""
        self.export_stack(stack_name)


class _Cli:
    """The command that the Automation API runs, each in a session of its own, one at a time."""

    def __init__(self, found: PulumiCommand) -> None:
        # A CLI that was built from its source names no version; the API then needs one from which
        # every command is known here.
        self.command, self.version = found.command, found.version or VersionInfo(3, 205, 0)
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def interrupt(self) -> None:
        process, first = self._process, not self._stopped
        self._stopped = True
        if process is not None and first:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Callable[[str], Any] | None = None,
        on_error: Callable[[str], Any] | None = None,
    ) -> CommandResult:
        """As `PulumiCommand.run` (SDK 3.272)."""
        environment = {**os.environ, **additional_env, "PULUMI_AUTOMATION_API": "true"}
        out: list[str] = []
        errors: list[str] = []
        with subprocess.Popen(
            [self.command, "--non-interactive", *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as process:
            self._process = process
            readers = [
                threading.Thread(target=_read, args=(process.stdout, on_output, out)),
                threading.Thread(target=_read, args=(process.stderr, on_error, errors)),
            ]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join()
            code = process.wait()
            self._process = None
        result = CommandResult(stderr="\n".join(errors), stdout="\n".join(out), code=code)
        if code != 0:
            raise create_command_error(result)
        return result


def _may_buy(old: Any) -> bool:
    """Whether an update gets machines for a cluster: it has something to repair, or waits."""
    return bool(old.init_errors) or (old.outputs or {}).get("status") == WAITING


def _read(stream: Any, callback: Callable[[str], Any] | None, into: list[str]) -> None:
    for line in stream:
        text = line.rstrip()
        into.append(text)
        if callback is not None:
            callback(text)


def read_state(deployment: Mapping[str, Any]) -> State:
    """The part of an exported deployment that matters here."""
    world = owner = ""
    settings: Mapping[str, Mapping[str, str]] = {}
    ownership: Mapping[str, Any] = {}
    max_spend: float | None = None
    clusters: list[DeployedCluster] = []
    for item in deployment.get("resources") or ():
        outputs, inputs = item.get("outputs") or {}, item.get("inputs") or {}
        if item.get("delete"):
            continue
        if item.get("type") == OWNERSHIP:
            world, _, owner = str(item.get("id", "")).partition("/")
            settings, ownership, max_spend = (
                inputs.get("settings") or {},
                outputs,
                inputs.get("max_spend"),
            )
        elif item.get("type") == CLUSTER:
            clusters.append(
                DeployedCluster(
                    str(item.get("urn", "")).rpartition("::")[2],
                    str(outputs.get("status", "")),
                    str(outputs.get("detail", "")),
                    " ".join(
                        filter(
                            None,
                            (
                                str(outputs.get("provider", "")),
                                str(outputs.get("zone") or outputs.get("region") or ""),
                            ),
                        )
                    ),
                    outputs.get("price_usd_per_hour"),
                    str(outputs.get("launched_at", "")),
                    str(item.get("id", "")),
                    outputs,
                    inputs,
                    str(item.get("urn", "")),
                )
            )
    return State(world, owner, settings, tuple(clusters), ownership, max_spend)


def failure(error: CommandError, said: list[tuple[str, str]]) -> GpusError:
    """The error of a run of Pulumi that failed, from its messages."""
    if isinstance(error, ConcurrentUpdateError):
        return Locked(_first(str(error)))
    lines = _lines([pair for pair in said if pair[0] == "error"] or said)
    first = _first(str(error))
    return Failed(lines or ((first,) if first else ()))


def _lines(said: list[tuple[str, str]]) -> tuple[str, ...]:
    lines = [line.strip() for _, text in said for line in text.splitlines() if line.strip()]
    return tuple(dict.fromkeys(lines))[:_SAID_MAX]


def _plain(text: str) -> str:
    return _COLOURS.sub("", text)


def _first(text: str) -> str:
    """The CLI's own error line of a failed command's text, which names exit code and streams before
    what they hold (SDK 3.272).
    """
    lines = [
        line.strip().removeprefix("stderr: ").removeprefix("stdout: ")
        for line in _plain(text).splitlines()
    ]
    said = [line for line in lines if line and not re.fullmatch(r"code: \d+|std(out|err):", line)]
    return next(
        (line.removeprefix("error: ") for line in said if line.startswith("error: ")), ""
    ) or next(iter(said), "")
