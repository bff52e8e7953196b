"""What `pulumi_gcp` resources talk to in a rehearsal: networks, subnetworks and firewalls, made in
the rehearsal's Compute Engine.

Owns the translation of Google's Pulumi resources (SDK 10.2) to the Compute Engine API, for the few
types that a managed network has; every other type is refused by name. Uses Google's real client.
Every edit replaces, delete first: names are fixed. Must not import the engine.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from providers.errors import GpusError
from providers.plugin import properties as wire

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = "999.0.0"
"""As in Pulumi.yaml and `resources`. Newer than any of Google's, which the SDK asks for: of an
older one Pulumi warns at a destroy (CLI 3.276).
"""
_POLL_S = 0.1
_OPERATION_LIMIT_S = 60.0


class Kind(NamedTuple):
    """A type: its collection in the API, whether it is regional, and the properties it takes (API
    name by Pulumi name).
    """

    collection: str
    regional: bool
    properties: Mapping[str, str]


KINDS = {
    "gcp:compute/network:Network": Kind(
        "networks",
        regional=False,
        properties={
            "name": "name",
            "description": "description",
            "autoCreateSubnetworks": "autoCreateSubnetworks",
            "mtu": "mtu",
        },
    ),
    "gcp:compute/subnetwork:Subnetwork": Kind(
        "subnetworks",
        regional=True,
        properties={
            "name": "name",
            "description": "description",
            "network": "network",
            "ipCidrRange": "ipCidrRange",
            "region": "region",
            "privateIpGoogleAccess": "privateIpGoogleAccess",
        },
    ),
    "gcp:compute/firewall:Firewall": Kind(
        "firewalls",
        regional=False,
        properties={
            "name": "name",
            "description": "description",
            "network": "network",
            "direction": "direction",
            "sourceRanges": "sourceRanges",
            "targetTags": "targetTags",
            "allows": "allowed",
            "priority": "priority",
        },
    ),
}


class StandIn(provider_pb2_grpc.ResourceProviderServicer):
    """One plugin process; the Compute Engine stand-in is started in it when the
    first call is made.
    """

    def __init__(self) -> None:
        self.project = "rehearsal"
        self._under_way: set[asyncio.Task[Any]] = set()
        self._local = threading.local()

    async def settled(self) -> None:
        """Returns once no call is under way any more."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    def compute(self) -> Any:
        """This thread's own client of Google's, pointed at the stand-in: its connection is not safe
        for several threads.
        """
        from google.auth.credentials import AnonymousCredentials
        from googleapiclient.discovery import build

        if not hasattr(self._local, "client"):
            self._local.client = build(
                "compute",
                "v1",
                static_discovery=True,
                cache_discovery=False,
                credentials=AnonymousCredentials(),
                client_options={"api_endpoint": f"{self._url}/compute/v1/"},
            )
        return self._local.client

    @property
    def _url(self) -> str:
        """Where the Compute Engine stand-in listens; it is started in this process on first use."""
        from providers.rehearsal import start
        from providers.rehearsal.store import open_store

        return start.server("gcp", open_store()).url

    async def Handshake(self, _request: Any, _context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse()

    async def GetPluginInfo(self, _request: Any, _context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    async def CheckConfig(self, request: Any, _context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    async def DiffConfig(self, _request: Any, _context: Any) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    async def Configure(self, request: Any, _context: Any) -> Any:
        self.project = str(wire.decode(request.args).values.get("project", self.project))
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    async def Cancel(self, _request: Any, _context: Any) -> Any:
        return empty_pb2.Empty()

    async def Check(self, request: Any, context: Any) -> Any:
        kind = await _kind(request.urn, context)
        news = wire.decode(request.news)
        known = {*kind.properties, "project"}
        failures = [
            provider_pb2.CheckFailure(
                property=name,
                reason=f"the rehearsal's stand-in knows {', '.join(sorted(known))}; found {name}",
            )
            for name in news.values
            if name not in known and not name.startswith("__")
        ]
        values = dict(news.values)
        if "name" not in values:
            # As Google's own plugin does: a name that no other stack has, kept once it is in the
            # state.
            kept = wire.decode(request.olds).values.get("name")
            values["name"] = (
                kept or f"{request.urn.rpartition('::')[2].lower()}-{request.randomSeed.hex()[:7]}"
            )
        return provider_pb2.CheckResponse(inputs=wire.encode(values), failures=failures)

    async def Diff(self, request: Any, _context: Any) -> Any:
        old, new = wire.decode(request.old_inputs).values, wire.decode(request.news).values
        changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        changes = (
            provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        )
        return provider_pb2.DiffResponse(
            changes=changes, replaces=changed, diffs=changed, deleteBeforeReplace=bool(changed)
        )

    async def Create(self, request: Any, context: Any) -> Any:
        kind = await _kind(request.urn, context)
        values = wire.decode(request.properties).values
        if request.preview:
            return provider_pb2.CreateResponse(
                properties=wire.encode(
                    {**values, "selfLink": wire.UNKNOWN, "project": self.project}
                )
            )
        body = {
            kind.properties[name]: _sent(value)
            for name, value in values.items()
            if name in kind.properties
        }
        where = self._where(kind, values)
        found = await self._call(context, lambda api: _insert(api, kind, where, body))
        return provider_pb2.CreateResponse(
            id=_id(kind, where, str(body["name"])),
            properties=wire.encode({**values, **_outputs(found, where)}),
        )

    async def Read(self, request: Any, context: Any) -> Any:
        kind = await _kind(request.urn, context)
        values = wire.decode(request.properties).values
        where, name = self._where(kind, values), request.id.rpartition("/")[2]
        found = await self._call(context, lambda api: _get(api, kind, where, name))
        if found is None:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(
            id=request.id,
            properties=wire.encode({**values, **_outputs(found, where)}),
            inputs=request.inputs,
        )

    async def Delete(self, request: Any, context: Any) -> Any:
        kind = await _kind(request.urn, context)
        where, name = (
            self._where(kind, wire.decode(request.properties).values),
            request.id.rpartition("/")[2],
        )
        await self._call(context, lambda api: _delete(api, kind, where, name))
        return empty_pb2.Empty()

    def _where(self, kind: Kind, values: Mapping[str, Any]) -> dict[str, str]:
        where = {"project": str(values.get("project") or self.project)}
        if kind.regional:
            where["region"] = str(values["region"])
        return where

    async def _call(self, context: Any, work: Any) -> Any:
        """The result of blocking calls, in a thread and to their end even if the
        engine goes away.
        """

        def whole() -> Any:
            return work(self.compute())

        task = asyncio.get_running_loop().create_task(asyncio.to_thread(whole))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await asyncio.shield(task)
        except Exception as error:
            # Google's HttpError has the cloud's own words in `reason`; its text is a paragraph.
            await _refuse(context, str(getattr(error, "reason", "") or error))


async def _kind(urn: str, context: Any) -> Kind:
    name = urn.split("::")[2].rpartition("$")[2]
    if name not in KINDS:
        await _refuse(
            context,
            f"the rehearsal's stand-in for Google Cloud has {', '.join(KINDS)}; found {name}",
        )
    return KINDS[name]


async def _refuse(context: Any, text: str) -> NoReturn:
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
    raise AssertionError


def _insert(api: Any, kind: Kind, where: dict[str, str], body: dict[str, Any]) -> Any:
    collection = getattr(api, kind.collection)()
    _done(api, where, collection.insert(**where, body=body).execute())
    return _get(api, kind, where, body["name"])


def _get(api: Any, kind: Kind, where: dict[str, str], name: str) -> Any:
    """The API's answer, or None when it says that there is none of that name."""
    from googleapiclient.errors import HttpError

    singular = kind.collection.removesuffix("s")
    try:
        return getattr(api, kind.collection)().get(**where, **{singular: name}).execute()
    except HttpError as error:
        if error.resp.status == 404:
            return None
        raise


def _delete(api: Any, kind: Kind, where: dict[str, str], name: str) -> None:
    """Deletes and waits; gone already is success."""
    from googleapiclient.errors import HttpError

    singular = kind.collection.removesuffix("s")
    try:
        _done(
            api,
            where,
            getattr(api, kind.collection)().delete(**where, **{singular: name}).execute(),
        )
    except HttpError as error:
        if error.resp.status != 404:
            raise


def _done(api: Any, where: dict[str, str], operation: dict[str, Any]) -> None:
    """Waits for an operation. Raises GpusError with the cloud's own code when it failed."""
    import time

    until = time.monotonic() + _OPERATION_LIMIT_S
    operations = api.regionOperations() if "region" in where else api.globalOperations()
    while operation.get("status") != "DONE":
        if time.monotonic() > until:
            raise GpusError(
                f"operation {operation['name']}: not done within {_OPERATION_LIMIT_S:.0f}s"
            )
        time.sleep(_POLL_S)
        operation = operations.get(**where, operation=operation["name"]).execute()
    for error in (operation.get("error") or {}).get("errors", ()):
        raise GpusError(f"{error.get('code')}: {error.get('message')}")


def _id(kind: Kind, where: Mapping[str, str], name: str) -> str:
    scope = f"regions/{where['region']}" if kind.regional else "global"
    return f"projects/{where['project']}/{scope}/{kind.collection}/{name}"


def _outputs(found: Mapping[str, Any], where: Mapping[str, str]) -> dict[str, Any]:
    return {
        "selfLink": found.get("selfLink", ""),
        "creationTimestamp": found.get("creationTimestamp", ""),
        "project": where["project"],
    }


def _sent(value: Any) -> Any:
    """Values as the API takes them: an allowed protocol is called `IPProtocol` there."""
    if isinstance(value, list):
        return [_sent(item) for item in value]
    if isinstance(value, dict):
        return {
            ("IPProtocol" if key == "protocol" else key): _sent(item) for key, item in value.items()
        }
    return value
