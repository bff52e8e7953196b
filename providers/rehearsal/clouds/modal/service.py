"""Modal's gRPC service as far as the adapter uses it. Owns the answers and the planned failures;
what is kept stands in `state`.

The real client talks to it, so the wire is the client's own. An RPC that is not here is answered
UNIMPLEMENTED, and every call is logged. Shapes are taken from the client's protocol of 1.6.4; the
server's texts are our own, since the real ones were never seen.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from google.protobuf import empty_pb2
from grpclib import GRPCError, Status
from modal_proto import api_grpc
from modal_proto import api_pb2 as api

from providers.rehearsal.clouds.modal.deployed_rows import summary
from providers.rehearsal.clouds.modal.functions import (
    FunctionService,
    check_buckets,
    check_regions,
    gpu_of,
)
from providers.rehearsal.clouds.modal.gpus import ANYWHERE, PROVIDER, machine_type, text_of
from providers.rehearsal.clouds.modal.state import TERMINATED, Sandbox, State, new_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from providers.rehearsal.clouds.modal.deployed_rows import Container
    from providers.rehearsal.scenario import Fault
    from providers.rehearsal.store import Store

BUILDER_VERSION = "2025.06"
PAGE = 50
"""Sandboxes in one page of a list."""
MAX_TIMEOUT_S = 86_400
CHANGING = frozenset(
    {
        *(
            "SandboxCreate",
            "SandboxTerminate",
            "SandboxTagsSet",
            "ImageGetOrCreate",
            "MountGetOrCreate",
        ),
        *(
            "AppCreate",
            "AppPublish",
            "AppSetTags",
            "AppStop",
            "AppClientDisconnect",
            "AppHeartbeat",
            "FunctionPrecreate",
            "FunctionCreate",
        ),
        *("FunctionMap", "FunctionCallCancel", "FunctionUpdateSchedulingParams"),
        *("VolumeRename", "VolumeDelete"),
    }
)
KEYED = frozenset({"SandboxCreate", "AppCreate", "FunctionMap"})
"""Calls that make something once for one idempotency key."""
ANSWERED = 200
"""What the log notes for a good answer; a refusal is noted as the number of its gRPC status."""

BEFORE = {
    "unavailable": Status.UNAVAILABLE,
    "unauthorized": Status.UNAUTHENTICATED,
    "forbidden": Status.PERMISSION_DENIED,
    "quota": Status.RESOURCE_EXHAUSTED,
    "rate-limit": Status.RESOURCE_EXHAUSTED,
    "too-many": Status.RESOURCE_EXHAUSTED,
}
"""Planned failures before any work → the status of the answer."""


class Service:
    """The answers, one method for each RPC, named as the protocol names it."""

    def __init__(self, store: Store, router_url: str = "") -> None:
        self.store = store
        self.router_url = router_url
        self.state = State(store)
        self.functions = FunctionService(self.state)

    async def TokenInfoGet(self, _request: Any) -> Any:
        return api.TokenInfoGetResponse(workspace_id="ac-rehearsal", workspace_name="rehearsal")

    async def EnvironmentGetOrCreate(self, request: Any) -> Any:
        limit = int(self.store.quota(PROVIDER, "", "gpus") or 0)
        settings = api.EnvironmentSettings(
            image_builder_version=BUILDER_VERSION, max_concurrent_gpus=limit
        )
        name = request.deployment_name or "main"
        return api.EnvironmentGetOrCreateResponse(
            environment_id=f"en-{name}",
            metadata=api.EnvironmentMetadata(name=name, settings=settings),
        )

    async def AppGetOrCreate(self, request: Any) -> Any:
        create = request.object_creation_type == api.OBJECT_CREATION_TYPE_CREATE_IF_MISSING
        app = self.state.app(request.app_name, request.environment_name or "main", create=create)
        if not app:
            raise GRPCError(
                Status.NOT_FOUND,
                f"App {request.app_name!r} not found in environment {request.environment_name!r}",
            )
        return api.AppGetOrCreateResponse(app_id=app)

    async def MountGetOrCreate(self, request: Any) -> Any:
        return api.MountGetOrCreateResponse(mount_id=f"mo-{_digest(request.deployment_name)}")

    async def ImageGetOrCreate(self, request: Any, *, doom: str = "") -> Any:
        if doom:
            failed = api.GenericResult(
                status=api.GenericResult.GENERIC_STATUS_FAILURE, exception=doom
            )
            return api.ImageGetOrCreateResponse(image_id=new_id("im"), result=failed)
        content = request.image.SerializeToString(deterministic=True).hex()
        done = api.GenericResult(status=api.GenericResult.GENERIC_STATUS_SUCCESS)
        metadata = api.ImageMetadata(image_builder_version=request.builder_version)
        return api.ImageGetOrCreateResponse(
            image_id=self.state.image(content), result=done, metadata=metadata
        )

    async def SandboxCreate(
        self, request: Any, *, key: str = "", extra_s: float = 0.0, doom: str = ""
    ) -> Any:
        if (earlier := self.state.by_idempotency(key)) is not None:
            return _created(earlier)
        wanted = request.definition
        if not self.state.has_app(request.app_id):
            raise GRPCError(Status.NOT_FOUND, f"App {request.app_id!r} not found")
        if not self.state.has_image(wanted.image_id):
            raise GRPCError(Status.NOT_FOUND, f"Image {wanted.image_id!r} not found")
        name, exact = gpu_of(wanted.resources.gpu_config)
        check_regions(wanted.scheduler_placement.regions)
        check_buckets(wanted.cloud_bucket_mounts)
        if not 1 <= wanted.timeout_secs <= MAX_TIMEOUT_S:
            raise GRPCError(
                Status.INVALID_ARGUMENT, f"timeout must be between 1 and {MAX_TIMEOUT_S} seconds"
            )
        if wanted.name and self.state.by_name(request.app_id, wanted.name) is not None:
            raise GRPCError(
                Status.ALREADY_EXISTS, f"Sandbox with name {wanted.name!r} already exists"
            )
        now = self.store.now()
        sandbox = Sandbox(
            id=new_id("sb"),
            app=request.app_id,
            name=wanted.name,
            idempotency=key,
            region=next(iter(wanted.scheduler_placement.regions), ANYWHERE),
            gpu=name,
            exact=int(exact),
            gpu_count=wanted.resources.gpu_config.count,
            timeout_s=wanted.timeout_secs,
            created=now,
            ready=now + self.store.latency(PROVIDER, "create") + extra_s,
            doom=doom,
            task="",
            started=None,
            delivered="",
            ended=None,
            status="",
            tags=json.dumps({tag.tag_name: tag.tag_value for tag in request.tags}),
            definition=wanted.SerializeToString(),
        )
        self.state.add(sandbox)
        return _created(sandbox)

    def _sandbox(self, sandbox_id: str) -> Sandbox:
        row = self.state.sandbox(sandbox_id)
        if row is None:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox {sandbox_id!r} not found")
        return row

    async def SandboxGetTaskId(self, request: Any) -> Any:
        row = self._sandbox(request.sandbox_id)
        if row.task:
            return api.SandboxGetTaskIdResponse(task_id=row.task)
        return (
            api.SandboxGetTaskIdResponse(task_result=_result(row))
            if row.ended is not None
            else api.SandboxGetTaskIdResponse()
        )

    async def TaskGetInfo(self, request: Any) -> Any:
        row = self.state.by_task(request.task_id)
        if (
            row is None
            and (container := self.functions.deployed.container(request.task_id)) is not None
        ):
            return api.TaskGetInfoResponse(app_id=container.app, info=_container(container))
        if row is None:
            raise GRPCError(Status.NOT_FOUND, f"Task {request.task_id!r} not found")
        return api.TaskGetInfoResponse(app_id=row.app, info=_task(row))

    async def TaskGetCommandRouterAccess(self, request: Any) -> Any:
        row = self.state.by_task(request.task_id)
        if row is None or row.ended is not None:
            raise GRPCError(Status.NOT_FOUND, f"Task {request.task_id!r} not found")
        if not self.router_url:
            raise GRPCError(Status.UNIMPLEMENTED, "this rehearsal takes commands in a local shell")
        return api.TaskGetCommandRouterAccessResponse(url=self.router_url, jwt="rehearsal")

    async def TaskList(self, request: Any) -> Any:
        rows = self.state.running_tasks(request.app_id)
        tasks = [
            api.TaskStats(
                task_id=row.task,
                app_id=row.app,
                started_at=row.started or 0.0,
                enqueued_at=row.created,
            )
            for row in rows
        ]
        tasks += [
            api.TaskStats(**summary(row))
            for row in self.functions.deployed.containers(request.app_id)
        ]
        return api.TaskListResponse(tasks=tasks)

    async def SandboxWait(self, request: Any) -> Any:
        row = self._sandbox(request.sandbox_id)
        result = _result(row) if row.ended is not None else None
        return api.SandboxWaitResponse(
            result=result, metadata=api.SandboxHandleMetadata(app_id=row.app)
        )

    async def SandboxTerminate(self, request: Any) -> Any:
        row = self._sandbox(request.sandbox_id)
        self.state.end(row.id, TERMINATED)
        return api.SandboxTerminateResponse(
            existing_result=_result(row) if row.ended is not None else None
        )

    async def SandboxTagsGet(self, request: Any) -> Any:
        return api.SandboxTagsGetResponse(tags=_tags(self._sandbox(request.sandbox_id)))

    async def SandboxTagsSet(self, request: Any) -> Any:
        row = self._sandbox(request.sandbox_id)
        self.state.set_tags(row.id, {tag.tag_name: tag.tag_value for tag in request.tags})
        return empty_pb2.Empty()

    async def SandboxGetFromName(self, request: Any) -> Any:
        app = self.state.app(request.app_name, request.environment_name or "main", create=False)
        row = self.state.by_name(app, request.sandbox_name) if app else None
        if row is None:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox {request.sandbox_name!r} not found")
        return api.SandboxGetFromNameResponse(
            sandbox_id=row.id, metadata=api.SandboxHandleMetadata(app_id=row.app)
        )

    async def SandboxList(self, request: Any) -> Any:
        wanted = {tag.tag_name: tag.tag_value for tag in request.tags}
        rows = [
            row
            for row in self.state.unfinished(request.app_id)
            if wanted.items() <= row.tag_map().items()
        ]
        if request.before_timestamp:
            rows = [row for row in rows if row.created < request.before_timestamp]
        return api.SandboxListResponse(sandboxes=[_info(row) for row in rows[:PAGE]])


def handlers(store: Store, router_url: str = "") -> Any:
    """What grpclib serves: every RPC of the protocol, through the log and the planned failures.
    `router_url`: where sandboxes take commands.
    """
    service = Service(store, router_url)

    def answer(
        method: str, known: Callable[..., Awaitable[Any]] | None
    ) -> Callable[[Any, Any], Awaitable[None]]:
        async def serve(_self: Any, stream: Any) -> None:
            await serve_call(store, method, known, stream)

        return serve

    names = [name for name in vars(api_grpc.ModalClientBase) if not name.startswith("_")]
    methods = {
        name: answer(name, getattr(service, name, None) or getattr(service.functions, name, None))
        for name in names
    }
    return type("StandIn", (api_grpc.ModalClientBase,), methods)()


async def serve_call(
    store: Store, method: str, known: Callable[..., Awaitable[Any]] | None, stream: Any
) -> None:
    """Answers one call: logged, with the planned failure, or UNIMPLEMENTED."""
    import asyncio

    request = await stream.recv_message()
    changing = (
        method in CHANGING
        or known is None
        or getattr(request, "object_creation_type", 0)
        in (
            api.OBJECT_CREATION_TYPE_CREATE_IF_MISSING,
            api.OBJECT_CREATION_TYPE_CREATE_FAIL_IF_EXISTS,
        )
    )
    verb = "POST" if changing else "GET"
    if known is None:
        store.log(PROVIDER, verb, method, "", Status.UNIMPLEMENTED.value)
        raise GRPCError(Status.UNIMPLEMENTED, f"the rehearsal has no {method}")
    fault = store.take_fault(PROVIDER, method, *_about(request))
    kind = fault.kind if fault is not None else ""
    try:
        if fault is not None:
            await _refuse(fault)
        work = _worked(
            known,
            request,
            _settings(method, stream, fault),
            _seconds(fault) if fault is not None and kind == "overtaken" else 0.0,
        )
        # Work that was begun is done, whether or not somebody still waits for the answer.
        reply = await asyncio.shield(asyncio.ensure_future(work))
        if fault is not None and kind == "twice":
            reply = await known(request, **_settings(method, stream, fault))
        if fault is not None and kind == "delay":
            await asyncio.sleep(_seconds(fault))
        if fault is not None and kind == "error-after":
            raise GRPCError(_status(fault, Status.UNAVAILABLE), "the answer was lost on its way")
    except GRPCError as error:
        store.log(PROVIDER, verb, method, "", error.status.value, kind)
        raise
    if kind in {"reply-lost", "malformed"}:
        store.log(PROVIDER, verb, method, "", 0, kind)
        await stream.cancel()
        return
    store.log(PROVIDER, verb, method, "", ANSWERED, kind)
    await stream.send_message(reply)


async def _worked(
    known: Callable[..., Awaitable[Any]], request: Any, settings: dict[str, Any], late_s: float
) -> Any:
    import asyncio

    if late_s:
        await asyncio.sleep(late_s)
    return await known(request, **settings)


def _seconds(fault: Fault) -> float:
    return float(str(fault.settings.get("seconds", 1.0)))


def _about(request: Any) -> tuple[list[str], list[str]]:
    """(places, machine types) that a planned failure may be narrowed to."""
    if not isinstance(request, api.SandboxCreateRequest):
        return [], []
    count = request.definition.resources.gpu_config.count
    return list(request.definition.scheduler_placement.regions) or [ANYWHERE], [machine_type(count)]


def _settings(method: str, stream: Any, fault: Fault | None) -> dict[str, Any]:
    """What a creating call is told beside its request: its key, and how it will fail later."""
    settings: dict[str, Any] = {}
    if method in KEYED:
        settings["key"] = str((stream.metadata or {}).get("x-idempotency-key", ""))
    if method in {"SandboxCreate", "FunctionMap"} and fault is not None and fault.kind == "slow":
        settings["extra_s"] = float(str(fault.settings.get("seconds", 60)))
    if (
        method in {"SandboxCreate", "FunctionMap", "ImageGetOrCreate"}
        and fault is not None
        and fault.kind == "op-error"
    ):
        settings["doom"] = str(fault.settings.get("code", "INIT_FAILURE"))
    return settings


async def _refuse(fault: Fault) -> None:
    """Raises for a failure before any work."""
    if fault.kind in {"rate-limit", "too-many"}:
        policy = api.RPCRetryPolicy(retry_after_secs=float(str(fault.settings.get("seconds", 1.0))))
        raise GRPCError(BEFORE[fault.kind], "too many calls", [policy])
    if fault.kind in BEFORE:
        raise GRPCError(BEFORE[fault.kind], f"planned: {fault.kind}")
    if fault.kind in {"http", "html"}:
        raise GRPCError(
            _status(fault, Status.UNKNOWN), f"planned: {fault.settings.get('reason', fault.kind)}"
        )


def _status(fault: Fault, default: Status) -> Status:
    """The gRPC status that a fault's `status` names, as a name."""
    return Status.__members__.get(str(fault.settings.get("status", "")), default)


def _created(row: Sandbox) -> Any:
    return api.SandboxCreateResponse(
        sandbox_id=row.id, metadata=api.SandboxHandleMetadata(app_id=row.app)
    )


def _result(row: Sandbox) -> Any:
    value = api.GenericResult.GenericStatus.Value(f"GENERIC_STATUS_{row.status}")
    return api.GenericResult(status=value, exitcode=137 if row.status == TERMINATED else 0)


def _tags(row: Sandbox) -> list[Any]:
    return [api.SandboxTag(tag_name=key, tag_value=value) for key, value in row.tag_map().items()]


def _task(row: Sandbox) -> Any:
    text = text_of(row.delivered)
    return api.TaskInfo(
        id=row.task,
        started_at=row.started or 0.0,
        finished_at=row.ended or 0.0,
        enqueued_at=row.created,
        gpu_type=text,
        gpu_config=api.GPUConfig(gpu_type=text, count=row.gpu_count),
        sandbox_id=row.id,
    )


def _container(row: Container) -> Any:
    text = text_of(row.delivered)
    return api.TaskInfo(
        id=row.id,
        started_at=row.started or 0.0,
        finished_at=row.ended or 0.0,
        enqueued_at=row.created,
        gpu_type=text,
        gpu_config=api.GPUConfig(gpu_type=text, count=row.gpu_count),
    )


def _info(row: Sandbox) -> Any:
    return api.SandboxInfo(
        id=row.id,
        created_at=row.created,
        app_id=row.app,
        name=row.name,
        task_info=_task(row) if row.task else None,
        timeout_secs=int(row.timeout_s),
        metadata=api.SandboxHandleMetadata(app_id=row.app),
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:22]
