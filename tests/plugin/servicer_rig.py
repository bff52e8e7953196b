"""A servicer to call without a gRPC server, and stand-ins for the engine's cluster functions."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Never

import pytest
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import provider_pb2, status_pb2

from providers.engine import operations as engine
from providers.engine.record import ClusterRecord
from providers.engine.runtime.world import World
from providers.plugin import outputs
from providers.plugin import properties as wire
from providers.plugin.servicer import Servicer
from tests.plugin.test_outputs import a_record

URN = "urn:pulumi:s::gpus::gpu:index:Cluster::train"
INPUTS = {
    "world": "rehearsal",
    "owner": "0123456789ab",
    "cluster": "train",
    "settings": {},
    "gpu": "H100:8",
    "spot": "prefer",
}
ID = "rehearsal/0123456789ab/train/ba9876543210"


class Aborted(Exception):
    def __init__(self, code: Any, details: str, metadata: Iterable[tuple[str, bytes]]) -> None:
        super().__init__(details)
        self.code, self.details = code, details
        self.init_failed = None
        for key, value in metadata:
            assert key == "grpc-status-details-bin"
            status = status_pb2.Status.FromString(value)
            assert (status.code, status.message) == (code.value[0], details)
            self.init_failed = provider_pb2.ErrorResourceInitFailed()
            assert status.details[0].Unpack(self.init_failed)


class Context:
    async def abort(
        self, code: Any, details: str = "", trailing_metadata: Iterable[tuple[str, bytes]] = ()
    ) -> Never:
        raise Aborted(code, details, trailing_metadata)


class KeptServicer(Servicer):
    """A plugin process, with its log lines in `lines`."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str, str]] = []
        self.session.log = self._keep  # type: ignore[method-assign]  # there is no engine to tell

    def _keep(self, severity: str, urn: str, text: str) -> None:
        self.lines.append((severity, urn, text))


def new_servicer() -> KeptServicer:
    """A plugin process, with its log lines in `lines`."""
    return KeptServicer()


@pytest.fixture
def servicer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptServicer:
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    return new_servicer()


def struct(values: Mapping[str, Any]) -> Struct:
    return wire.encode(values)


def call(servicer: Servicer, method: str, **fields: Any) -> Any:
    request = {
        "urn": URN,
        "news": Struct(),
        "olds": Struct(),
        "old_inputs": Struct(),
        "properties": Struct(),
        "inputs": Struct(),
        "preview": False,
        **fields,
    }
    return asyncio.run(getattr(servicer, method)(SimpleNamespace(**request), Context()))


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, result: Any) -> list[tuple[Any, ...]]:
    """Replaces one function of the engine; returns the list of the arguments it was called with."""
    calls = []

    async def function(world: World, *arguments: Any) -> Any:
        calls.append((world.name, *arguments))
        if isinstance(result, Exception):
            raise result
        return result(*arguments) if callable(result) else result

    monkeypatch.setattr(engine, name, function)
    return calls


def state(**more: Any) -> Struct:
    own = {name: more[name] for name in more if name in ClusterRecord._fields}
    return struct(outputs.write(a_record().with_terms(more)._replace(**own)))


def diffed(
    servicer: Servicer,
    new: Mapping[str, Any],
    outputs_: Struct | None = None,
    old: Mapping[str, Any] | None = None,
) -> Any:
    call(servicer, "Check", news=struct(new))
    return call(
        servicer,
        "Diff",
        id=ID,
        old_inputs=struct(old or INPUTS),
        news=struct(new),
        olds=outputs_ or state(),
    )
