"""The Pulumi resource provider's remote calls: each is handed to the Ownership's half, to the
Cluster's or to the Volume's, and its errors become clean lines.

Owns the protocol's messages (CLI 3.276, SDK 3.272). No exception leaves as a traceback: what a user
can cause is a line; what nobody foresaw is a line, and a traceback in `plugin.log` in the state
folder. The engine, the planner and pydantic are imported by the calls that need them.
"""

from __future__ import annotations

from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any

from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from providers.errors import SpecError
from providers.model import stack
from providers.plugin import grpc_errors
from providers.plugin.properties import decode, encode
from providers.plugin.session import Session

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from providers.engine.journal.shared_lease import SharedLeases
    from providers.plugin.cluster import Clusters
    from providers.plugin.diff import Verdict
    from providers.plugin.ownership import Ownerships
    from providers.plugin.volume import Volumes

OWNERSHIP, CLUSTER, VOLUME, PLAN, CHECK = (
    "gpu:index:Ownership",
    "gpu:index:Cluster",
    "gpu:index:Volume",
    "gpu:index:plan",
    "gpu:index:check",
)
_KINDS = {
    ("add", False): provider_pb2.PropertyDiff.ADD,
    ("add", True): provider_pb2.PropertyDiff.ADD_REPLACE,
    ("delete", False): provider_pb2.PropertyDiff.DELETE,
    ("delete", True): provider_pb2.PropertyDiff.DELETE_REPLACE,
    ("update", False): provider_pb2.PropertyDiff.UPDATE,
    ("update", True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
}


def _ends_cleanly(
    call: Callable[[Servicer, Any], Awaitable[Any]],
) -> Callable[[Servicer, Any, Any], Awaitable[Any]]:
    """The remote call, which an error ends with one clean line (or the few that list attempts)."""

    @wraps(call)
    async def answered(self: Servicer, request: Any, context: Any) -> Any:
        try:
            with stack.named(_stack_of(request)):
                return await call(self, request)
        except Exception as error:
            await grpc_errors.abort(context, error)

    return answered


def _stack_of(request: Any) -> str:
    """The stack of a resource, or of what an invoke is about; empty where neither names one."""
    if (urn := getattr(request, "urn", "")) or not hasattr(request, "args"):
        return _stack_in(urn)
    arguments = decode(request.args).known()
    return str(arguments.get("stack") or "") or _stack_in(str(arguments.get("urn") or ""))


def _stack_in(urn: str) -> str:
    """`dev`, of `urn:pulumi:dev::PROJECT::TYPE::NAME`."""
    return urn.partition("::")[0].rpartition(":")[2]


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """One plugin process. `engine` is the address of the Pulumi engine, for log lines; empty for
    none. `share` finds the leases of its backend.
    """

    def __init__(
        self, engine: str = "", share: Callable[[], SharedLeases | None] = lambda: None
    ) -> None:
        self.session = Session(engine, share)

    @cached_property
    def _clusters(self) -> Clusters:
        from providers.plugin.cluster import Clusters

        return Clusters(self.session)

    @cached_property
    def _halves(self) -> Mapping[str, Clusters | Ownerships | Volumes]:
        from providers.plugin.ownership import Ownerships
        from providers.plugin.volume import Volumes

        return {
            CLUSTER: self._clusters,
            VOLUME: Volumes(self.session),
            OWNERSHIP: Ownerships(self.session),
        }

    # The protocol's own calls.

    async def Handshake(self, request: Any, _context: Any) -> Any:
        self.session.engine = self.session.engine or request.engine_address
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=True, accept_resources=False, accept_outputs=False
        )

    async def GetPluginInfo(self, _request: Any, _context: Any) -> Any:
        from providers.plugin.schema import VERSION

        return plugin_pb2.PluginInfo(version=VERSION)

    async def Attach(self, request: Any, _context: Any) -> Any:
        self.session.engine = request.address
        return empty_pb2.Empty()

    async def GetSchema(self, _request: Any, _context: Any) -> Any:
        from providers.plugin.schema import document

        return provider_pb2.GetSchemaResponse(schema=document())

    async def GetMapping(self, _request: Any, _context: Any) -> Any:
        return provider_pb2.GetMappingResponse()

    async def GetMappings(self, _request: Any, _context: Any) -> Any:
        return provider_pb2.GetMappingsResponse()

    async def CheckConfig(self, request: Any, _context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    async def DiffConfig(self, _request: Any, _context: Any) -> Any:
        # The provider has no configuration that a resource depends on: the world and the accounts
        # stand in each resource.
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    async def Configure(self, _request: Any, _context: Any) -> Any:
        from providers.plugin.warm_up import warm_up

        # Not before: where there is a state, the engine starts a second process that is only asked
        # about its configuration.
        warm_up()
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, acceptResources=False, acceptOutputs=False
        )

    async def Cancel(self, _request: Any, _context: Any) -> Any:
        self.session.stop()
        return empty_pb2.Empty()

    async def settled(self) -> None:
        """Returns once nothing is under way any more."""
        await self.session.settled()

    # Resources.

    @_ends_cleanly
    async def Check(self, request: Any) -> Any:
        news = decode(request.news)
        values, problems = self._half(request.urn).check(request.urn, news)
        return provider_pb2.CheckResponse(
            inputs=encode(values, news.secret), failures=grpc_errors.failures(problems)
        )

    @_ends_cleanly
    async def Diff(self, request: Any) -> Any:
        return _diff_response(await self._half(request.urn).diff(request))

    @_ends_cleanly
    async def Create(self, request: Any) -> Any:
        resource, struct = await self._half(request.urn).create(request)
        return provider_pb2.CreateResponse(id=resource, properties=struct)

    @_ends_cleanly
    async def Read(self, request: Any) -> Any:
        return await self._half(request.urn).read(request)

    @_ends_cleanly
    async def Update(self, request: Any) -> Any:
        struct = await self._half(request.urn).update(request)
        return provider_pb2.UpdateResponse(properties=struct)

    @_ends_cleanly
    async def Delete(self, request: Any) -> Any:
        await self._half(request.urn).delete(request)
        return empty_pb2.Empty()

    @_ends_cleanly
    async def Invoke(self, request: Any) -> Any:
        arguments = decode(request.args).known()
        if request.tok == CHECK:
            result: Any = {"problems": await self._clusters.check_all(arguments)}
        elif request.tok == PLAN:
            try:
                result = await self._clusters.plan(arguments, preview=request.preview)
            except SpecError as error:
                return provider_pb2.InvokeResponse(failures=grpc_errors.failures(error.problems))
        else:
            raise grpc_errors.UnknownToken(f"unknown function {request.tok!r}")
        response = provider_pb2.InvokeResponse()
        getattr(response, "return").CopyFrom(encode(result))
        return response

    def _half(self, urn: str) -> Clusters | Ownerships | Volumes:
        """Who serves a resource, by its own type:
        `urn:pulumi:STACK::PROJECT::PARENT$TYPE::NAME`.
        """
        parts = urn.split("::")
        kind = parts[2].rpartition("$")[2] if len(parts) > 3 else ""
        if kind not in self._halves:
            raise grpc_errors.UnknownToken(f"unknown resource type {kind!r}")
        return self._halves[kind]


def _diff_response(verdict: Verdict) -> Any:
    response = provider_pb2.DiffResponse(
        changes=(
            provider_pb2.DiffResponse.DIFF_SOME
            if verdict.changes
            else provider_pb2.DiffResponse.DIFF_NONE
        ),
        deleteBeforeReplace=verdict.replaces,
        hasDetailedDiff=True,
    )
    for change in verdict.changes:
        response.detailedDiff[change.path].CopyFrom(
            provider_pb2.PropertyDiff(
                kind=_KINDS[change.kind, change.replaces], inputDiff=change.is_input
            )
        )
        key = change.path.partition(".")[0].partition("[")[0]
        if key not in response.diffs:
            response.diffs.append(key)
        if change.replaces and key not in response.replaces:
            response.replaces.append(key)
    return response
