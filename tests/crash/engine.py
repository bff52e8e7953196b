"""The engine's side of the plugin: its calls in the order in which the real one makes them, over
real gRPC. Owns the state that it keeps between runs.

That the order is the real one's is held by a test, call by call, against `recorded.json`. Every
command has a plugin of its own, as every run of the command line has; between two commands only
this state and the folder of `GPUS_HOME` remain.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from providers.plugin import properties
from providers.plugin.servicer import CHECK, CLUSTER, OWNERSHIP, Servicer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.struct_pb2 import Struct

STACK, PROJECT = "crash", "gpus"
LIMIT_S = 300.0
"""Real seconds after which a call counts as hung: the world's clock jumps, so that nothing takes
long.
"""
OWNER = "ownership"


class Kept(NamedTuple):
    """A resource in the state. `reasons` are its init errors."""

    id: str
    inputs: Struct
    outputs: Struct
    reasons: tuple[str, ...] = ()


class Call(NamedTuple):
    """One call of the plugin, as the recording has it."""

    method: str
    resource: str


class Failed(Exception):
    """A command that ended with an error, as the command line would."""


class Gone(Exception):
    """The engine was killed: its calls are cancelled, and nobody waits for what they would have
    come to.
    """


class Plugin:
    """One plugin process: its servicer behind a real server, and a stub that calls it. `said` has
    the lines that the user would see.
    """

    def __init__(self) -> None:
        self.servicer = Servicer("")
        self.said: list[str] = []
        self.calls: list[Call] = []
        self.current: asyncio.Future[Any] | None = None
        self.servicer.session.log = self._log  # type: ignore[method-assign]  # kept here, not sent

    def _log(self, severity: str, urn: str, text: str) -> None:
        if severity != "progress":
            self.said.append(f"{severity}: {text}")

    async def __aenter__(self) -> Self:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(self.servicer, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        self.stub = provider_pb2_grpc.ResourceProviderStub(self._channel)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()
        await self._server.stop(None)
        # As the process does before it ends.
        await asyncio.wait_for(self.servicer.settled(), LIMIT_S)

    def kill(self) -> None:
        """The engine's end with -9, as the plugin sees it: the call under way is cancelled."""
        if self.current is not None:
            self.current.cancel()

    async def stop(self) -> None:
        """One Ctrl-C, as the plugin sees it."""
        await self.stub.Cancel(empty_pb2.Empty())

    async def call(self, method: str, resource: str, request: Any) -> Any:
        self.calls.append(Call(method, resource))
        self.current = getattr(self.stub, method)(request, timeout=LIMIT_S)
        try:
            return await self.current
        except asyncio.CancelledError:
            raise Gone(f"{method} {resource}") from None
        finally:
            self.current = None


def urn(resource: str) -> str:
    return (
        f"urn:pulumi:{STACK}::{PROJECT}::{OWNERSHIP if resource == OWNER else CLUSTER}::{resource}"
    )


def init_failed(error: grpc.RpcError) -> Any:
    """What is half-made, degraded or queued, by the protocol's way to say so; None for any other
    error.
    """
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            detail = provider_pb2.ErrorResourceInitFailed()
            for packed in status_pb2.Status.FromString(value).details:
                if packed.Unpack(detail):
                    return detail
    return None


class Engine:
    """A stack of one ownership and its clusters. `state` is what a state file would hold; `log` has
    every call of every command.
    """

    def __init__(self, settings: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self.settings = dict(settings or {})
        self.state: dict[str, Kept] = {}
        self.log: list[Call] = []
        self.said: list[str] = []
        self.plugin: Plugin | None = None

    @property
    def owner(self) -> str:
        """The owner id, once there is one."""
        return self.state[OWNER].id.partition("/")[2] if OWNER in self.state else ""

    # Commands

    async def up(self, clusters: Mapping[str, Mapping[str, Any]], *, replace: bool = False) -> None:
        """`pulumi up --yes --skip-preview`, with the refresh that the project asks for. Raises
        Failed, or Gone.
        """
        async with self._process() as plugin:
            await self._refresh(plugin)
            arguments = {
                "world": "rehearsal",
                "clusters": {name: dict(spec) for name, spec in clusters.items()},
                "settings": self.settings,
            }
            await self._sent(
                plugin,
                "Invoke",
                CHECK,
                provider_pb2.InvokeRequest(tok=CHECK, args=properties.encode(arguments)),
            )
            await self._registered(plugin, OWNER, {"world": "rehearsal", "settings": self.settings})
            failures = []
            for name, spec in clusters.items():
                try:
                    inputs = {
                        "world": "rehearsal",
                        "owner": self.owner,
                        "cluster": name,
                        "settings": self.settings,
                        **spec,
                    }
                    await self._registered(plugin, name, inputs, replace=replace)
                except Failed as error:
                    # A failing cluster does not stop its siblings.
                    failures.append(str(error))
            for name in [name for name in self.state if name not in (OWNER, *clusters)]:
                await self._deleted(plugin, name)
            if failures:
                raise Failed("; ".join(failures))

    async def refresh(self) -> None:
        """`pulumi refresh`."""
        async with self._process() as plugin:
            await self._refresh(plugin)

    async def destroy(self) -> None:
        """`pulumi destroy`: what depends on the ownership goes before it."""
        async with self._process() as plugin:
            await self._refresh(plugin)
            for name in [*(name for name in self.state if name != OWNER), OWNER]:
                if name in self.state:
                    await self._deleted(plugin, name)

    # Parts of them

    def _process(self) -> _Process:
        return _Process(self)

    async def _refresh(self, plugin: Plugin) -> None:
        before = dict(self.state)
        for name, kept in before.items():
            request = provider_pb2.ReadRequest(
                id=kept.id, urn=urn(name), properties=kept.outputs, inputs=kept.inputs
            )
            try:
                found = await self._sent(plugin, "Read", name, request)
            except _HalfMade as error:
                self.state[name] = Kept(
                    error.detail.id,
                    error.detail.inputs,
                    error.detail.properties,
                    tuple(error.detail.reasons),
                )
            else:
                if found.id:
                    self.state[name] = Kept(found.id, found.inputs, found.properties)
                else:
                    del self.state[name]
        for name, kept in before.items():
            # What the look changed is shown: the engine asks for the difference, and acts on none.
            if name in self.state:
                await self._difference(plugin, name, self.state[name], kept.inputs)

    async def _difference(self, plugin: Plugin, name: str, kept: Kept, news: Struct) -> Any:
        request = provider_pb2.DiffRequest(
            id=kept.id, urn=urn(name), olds=kept.outputs, old_inputs=kept.inputs, news=news
        )
        return await self._sent(plugin, "Diff", name, request)

    async def _checked(
        self, plugin: Plugin, name: str, inputs: Mapping[str, Any], old: Kept | None
    ) -> Struct:
        request = provider_pb2.CheckRequest(urn=urn(name), news=properties.encode(inputs))
        if old is not None:
            request.olds.CopyFrom(old.inputs)
        answer = await self._sent(plugin, "Check", name, request)
        if answer.failures:
            raise Failed(
                "; ".join(f"{failure.property}: {failure.reason}" for failure in answer.failures)
            )
        return answer.inputs

    async def _registered(
        self, plugin: Plugin, name: str, inputs: Mapping[str, Any], *, replace: bool = False
    ) -> None:
        old = self.state.get(name)
        if old is None:
            await self._created(plugin, name, await self._checked(plugin, name, inputs, None))
            return
        if replace:
            # Asked for, or tainted: the difference is not asked.
            news = await self._checked(plugin, name, inputs, None)
            await self._deleted(plugin, name)
            await self._created(plugin, name, news)
            return
        news = await self._checked(plugin, name, inputs, old)
        verdict = await self._difference(plugin, name, old, news)
        if verdict.replaces:
            news = await self._checked(plugin, name, inputs, None)
            await self._deleted(plugin, name)
            await self._created(plugin, name, news)
        elif verdict.changes == provider_pb2.DiffResponse.DIFF_SOME or old.reasons:
            await self._updated(plugin, name, old, news)

    async def _created(self, plugin: Plugin, name: str, news: Struct) -> None:
        try:
            answer = await self._sent(
                plugin, "Create", name, provider_pb2.CreateRequest(urn=urn(name), properties=news)
            )
        except _HalfMade as error:
            self.state[name] = Kept(
                error.detail.id, news, error.detail.properties, tuple(error.detail.reasons)
            )
            raise Failed(str(error)) from None
        self.state[name] = Kept(answer.id, news, answer.properties)

    async def _updated(self, plugin: Plugin, name: str, old: Kept, news: Struct) -> None:
        request = provider_pb2.UpdateRequest(
            id=old.id, urn=urn(name), olds=old.outputs, old_inputs=old.inputs, news=news
        )
        try:
            answer = await self._sent(plugin, "Update", name, request)
        except _HalfMade as error:
            self.state[name] = Kept(
                old.id, news, error.detail.properties, tuple(error.detail.reasons)
            )
            raise Failed(str(error)) from None
        self.state[name] = Kept(old.id, news, answer.properties)

    async def _deleted(self, plugin: Plugin, name: str) -> None:
        kept = self.state[name]
        request = provider_pb2.DeleteRequest(
            id=kept.id, urn=urn(name), properties=kept.outputs, old_inputs=kept.inputs
        )
        await self._sent(plugin, "Delete", name, request)
        del self.state[name]

    async def _sent(self, plugin: Plugin, method: str, resource: str, request: Any) -> Any:
        self.log.append(Call(method, resource))
        try:
            return await plugin.call(method, resource, request)
        except grpc.aio.AioRpcError as error:
            detail = init_failed(error)
            text = f"{method} {resource}: {error.code().name}: {error.details()}"
            if detail is not None:
                raise _HalfMade(text, detail) from None
            raise Failed(text) from None


class _HalfMade(Failed):
    def __init__(self, text: str, detail: Any) -> None:
        super().__init__(text)
        self.detail = detail


class _Process:
    """The plugin of one command: known to the engine while it runs, its lines kept afterwards."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._plugin = Plugin()

    async def __aenter__(self) -> Plugin:
        self._engine.plugin = await self._plugin.__aenter__()
        return self._plugin

    async def __aexit__(self, *about: object) -> None:
        try:
            await self._plugin.__aexit__(*about)
        finally:
            self._engine.said += self._plugin.said
            self._engine.plugin = None
