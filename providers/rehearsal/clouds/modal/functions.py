"""The stand-in's answers on deployed apps, functions and calls: what `App.deploy` of the real
client needs, and what is asked afterwards.

Owns these answers; what is kept stands in `deployed`. Not here, and so answered UNIMPLEMENTED:
source mounts, blobs, streams, the input plane.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from google.protobuf import empty_pb2
from grpclib import GRPCError, Status
from modal_proto import api_pb2 as api

from providers.rehearsal import script
from providers.rehearsal.clouds.modal.deployed import Deployed
from providers.rehearsal.clouds.modal.deployed_rows import DEPLOYED, App, Call, Function
from providers.rehearsal.clouds.modal.gpus import (
    ANYWHERE,
    BY_TEXT,
    GPUS,
    PROVIDER,
    REGIONS,
    machine_type,
)
from providers.rehearsal.clouds.modal.state import new_id
from providers.rehearsal.clouds.modal.volumes import Volumes

if TYPE_CHECKING:
    from providers.rehearsal.clouds.modal.state import State

MAX_TIMEOUT_S = 86_400
SCALES = ("min_containers", "max_containers", "buffer_containers", "scaledown_window")
DEFAULT_SCALEDOWN_S = 60
FORGOTTEN_S = 7 * 86_400.0
"""World seconds that a call's result is kept. Source: modal.com/docs/guide/job-queue, copy of
2026-09.
"""


class FunctionService:
    """The answers, one method for each RPC, named as the protocol names it."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.deployed = Deployed(state)
        self.volumes = Volumes(state.store)

    # Apps

    async def AppGetByDeploymentName(self, request: Any) -> Any:
        row = self.deployed.live(request.name, request.environment_name or "main")
        return api.AppGetByDeploymentNameResponse(app_id=row.id if row else "")

    async def AppCreate(self, request: Any, *, key: str = "") -> Any:
        app = self.deployed.create(
            request.description, request.environment_name or "main", request.tags, key
        )
        return api.AppCreateResponse(
            app_id=app, app_page_url=f"https://modal.com/apps/rehearsal/{app}"
        )

    async def AppHeartbeat(self, _request: Any) -> Any:
        return empty_pb2.Empty()

    async def AppClientDisconnect(self, request: Any) -> Any:
        row = self.deployed.app(request.app_id)
        if row is not None and row.published is None:
            self.deployed.stop(row.id)
        return empty_pb2.Empty()

    async def AppGetLayout(self, request: Any) -> Any:
        functions = self.deployed.functions(self._app(request.app_id).id)
        objects = [
            api.Object(object_id=row.id, function_handle_metadata=_metadata(row))
            for row in functions
        ]
        return api.AppGetLayoutResponse(
            app_layout=api.AppLayout(
                objects=objects, function_ids={row.name: row.id for row in functions}
            )
        )

    async def AppPublish(self, request: Any) -> Any:
        row = self._app(request.app_id)
        for function in request.function_ids.values():
            self._function(function)
        at = self.deployed.publish(row.id, frozenset(request.function_ids.values()), request.tags)
        return api.AppPublishResponse(
            url=f"https://modal.com/apps/rehearsal/{row.id}", deployed_at=at
        )

    async def AppList(self, request: Any) -> Any:
        rows = self.deployed.apps(request.environment_name or "main")
        items = [
            api.AppListResponse.AppListItem(
                app_id=row.id,
                description=row.name,
                name=row.name,
                state=_state(row),
                created_at=row.created,
                stopped_at=row.stopped or 0.0,
                n_running_tasks=len(self.deployed.containers(row.id)),
            )
            for row in rows
        ]
        return api.AppListResponse(apps=items)

    async def AppGetTags(self, request: Any) -> Any:
        return api.AppGetTagsResponse(tags=json.loads(self._app(request.app_id).tags))

    async def AppSetTags(self, request: Any) -> Any:
        self.deployed.set_tags(self._app(request.app_id).id, request.tags)
        return empty_pb2.Empty()

    async def AppGetLifecycle(self, request: Any) -> Any:
        row = self._app(request.app_id)
        lifecycle = api.AppLifecycle(
            app_state=_state(row),
            created_at=row.created,
            deployed_at=row.published or 0.0,
            stopped_at=row.stopped or 0.0,
        )
        return api.AppGetLifecycleResponse(lifecycle=lifecycle)

    async def AppFetchLogs(self, request: Any) -> Any:
        """What a container would have written of itself: nothing runs in it here. Of a sandbox, the
        course of the script that it was given.
        """
        lines: list[tuple[float, str, str]] = []
        if request.sandbox_id:
            lines += self._played(request.sandbox_id)
        else:
            for row in self.deployed.history(self._app(request.app_id).id):
                lines.append(
                    (
                        row.started or 0.0,
                        row.id,
                        f"rehearsal stand-in: {row.id} started, nothing runs in it\n",
                    )
                )
                if row.ended is not None:
                    lines.append((row.ended, row.id, f"rehearsal stand-in: {row.id} ended\n"))
        since, until = request.since.ToNanoseconds() / 1e9, request.until.ToNanoseconds() / 1e9
        there = sorted(line for line in lines if since <= line[0] <= until)[-request.limit :]
        batches = [
            api.TaskLogsBatch(task_id=task, items=[api.TaskLogs(data=text, timestamp=at)])
            for at, task, text in there
        ]
        return api.AppFetchLogsResponse(batches=batches)

    def _played(self, sandbox: str) -> list[tuple[float, str, str]]:
        row, store = self.state.sandbox(sandbox), self.state.store
        if row is None or row.started is None:
            return []
        given = " ".join(api.Sandbox.FromString(row.definition).entrypoint_args)
        until = store.now() if row.ended is None else row.ended
        code, job_s = (
            store.exit_code(PROVIDER, row.region, machine_type(row.gpu_count)),
            store.latency(PROVIDER, "job"),
        )
        return [
            (at, row.task, f"{text}\n")
            for at, text in script.told(store, sandbox, given, row.started, until, job_s, code)
        ]

    async def AppStop(self, request: Any) -> Any:
        self.deployed.stop(self._app(request.app_id).id)
        return empty_pb2.Empty()

    def _app(self, app: str) -> App:
        row = self.deployed.app(app)
        if row is None:
            raise GRPCError(Status.NOT_FOUND, f"App {app!r} not found")
        return row

    # What functions refer to

    async def SecretGetOrCreate(self, request: Any) -> Any:
        if request.env_dict:
            raise GRPCError(
                Status.INVALID_ARGUMENT, "secrets are only referred to here, never handed over"
            )
        return api.SecretGetOrCreateResponse(
            secret_id=f"st-{request.deployment_name}",
            # It holds what is asked of it: the client tells a registry's kind by the names.
            metadata=api.SecretMetadata(
                name=request.deployment_name, keys=list(request.required_keys)
            ),
        )

    async def VolumeGetOrCreate(self, request: Any) -> Any:
        """One that was made here; else any name that a function mounts is there, as its secrets
        are.
        """
        name = request.deployment_name
        found = self.volumes.named(name, request.environment_name)
        if request.object_creation_type == api.OBJECT_CREATION_TYPE_CREATE_FAIL_IF_EXISTS:
            if found:
                raise GRPCError(Status.ALREADY_EXISTS, f"Volume {name!r} already exists")
            found = self.volumes.add(name, request.environment_name)
        metadata = api.VolumeMetadata(name=name)
        return api.VolumeGetOrCreateResponse(volume_id=found or f"vo-{name}", metadata=metadata)

    async def VolumeGetById(self, request: Any) -> Any:
        metadata = api.VolumeMetadata(name=self._volume(request.volume_id))
        return api.VolumeGetByIdResponse(volume_id=request.volume_id, metadata=metadata)

    async def VolumeList(self, request: Any) -> Any:
        return api.VolumeListResponse(
            items=[
                api.VolumeListItem(label=name, volume_id=volume, created_at=created)
                for volume, name, created in self.volumes.listed(request.environment_name)
            ]
        )

    async def VolumeRename(self, request: Any) -> Any:
        self._volume(request.volume_id)
        self.volumes.rename(request.volume_id, request.name)
        return empty_pb2.Empty()

    async def VolumeDelete(self, request: Any) -> Any:
        self._volume(request.volume_id)
        self.volumes.delete(request.volume_id)
        return empty_pb2.Empty()

    def _volume(self, volume: str) -> str:
        name = self.volumes.name(volume)
        if not name:
            raise GRPCError(Status.NOT_FOUND, f"Volume {volume!r} not found")
        return name

    # Functions

    async def FunctionPrecreate(self, request: Any) -> Any:
        app = self._app(request.app_id)
        function = self.deployed.reserve(app.id, request.function_name)
        web = request.webhook_config.type != api.WEBHOOK_TYPE_UNSPECIFIED
        url = _url(app.name, request.function_name) if web else ""
        metadata = api.FunctionHandleMetadata(
            function_name=request.function_name, function_type=request.function_type, web_url=url
        )
        return api.FunctionPrecreateResponse(function_id=function, handle_metadata=metadata)

    async def FunctionCreate(self, request: Any) -> Any:
        app = self._app(request.app_id)
        data = _ranked(request)
        first = data.ranked_functions[0].function
        choices = []
        for item in data.ranked_functions:
            config = item.function.resources.gpu_config
            name, exact = gpu_of(config)
            choices.append([name, exact, config.count])
        if not 1 <= first.timeout_secs <= MAX_TIMEOUT_S:
            raise GRPCError(
                Status.INVALID_ARGUMENT, f"timeout must be between 1 and {MAX_TIMEOUT_S} seconds"
            )
        if not self.state.has_image(first.image_id):
            raise GRPCError(Status.NOT_FOUND, f"Image {first.image_id!r} not found")
        check_regions(first.scheduler_placement.regions)
        check_buckets(first.cloud_bucket_mounts)
        web = first.webhook_config.type != api.WEBHOOK_TYPE_UNSPECIFIED
        given = first.autoscaler_settings
        scale = {
            "scaledown_window": DEFAULT_SCALEDOWN_S,
            **{name: getattr(given, name) for name in SCALES if given.HasField(name)},
        }
        name = first.function_name or data.function_name
        row = Function(
            id=request.existing_function_id or self.deployed.reserve(app.id, name),
            app=app.id,
            name=name,
            live=0,
            choices=json.dumps(choices),
            region=next(iter(first.scheduler_placement.regions), ANYWHERE),
            timeout_s=float(first.timeout_secs),
            retries=first.retry_policy.retries,
            scale=json.dumps(scale),
            override="{}",
            web=int(web),
            url=_url(app.name, name) if web else "",
            definition=data.SerializeToString(),
        )
        self.deployed.define(row)
        return api.FunctionCreateResponse(
            function_id=row.id, function=first, function_data=data, handle_metadata=_metadata(row)
        )

    async def FunctionGet(self, request: Any) -> Any:
        app = self.deployed.live(request.app_name, request.environment_name or "main")
        found = (
            [row for row in self.deployed.functions(app.id) if row.name == request.object_tag]
            if app
            else []
        )
        if not found:
            raise GRPCError(
                Status.NOT_FOUND,
                f"Function {request.object_tag!r} not found in app {request.app_name!r}",
            )
        data = api.FunctionData.FromString(found[0].definition)
        return api.FunctionGetResponse(
            function_id=found[0].id, handle_metadata=_metadata(found[0]), function=data
        )

    async def FunctionGetSchedulingParams(self, request: Any) -> Any:
        row = self._function(request.function_id)
        settings = api.AutoscalerSettings(**row.settings())
        return api.FunctionGetSchedulingParamsResponse(
            autoscaler_configuration=api.AutoscalerConfiguration(settings=settings)
        )

    async def FunctionUpdateSchedulingParams(self, request: Any) -> Any:
        row = self._function(request.function_id)
        given = request.settings
        self.deployed.override(
            row.id, {name: getattr(given, name) for name in SCALES if given.HasField(name)}
        )
        settings = api.AutoscalerSettings(**self._function(row.id).settings())
        return api.FunctionUpdateSchedulingParamsResponse(current_settings=settings)

    def _function(self, function: str) -> Function:
        row = self.deployed.function(function)
        if row is None:
            raise GRPCError(Status.NOT_FOUND, f"Function {function!r} not found")
        return row

    # Calls

    async def FunctionMap(
        self, request: Any, *, key: str = "", extra_s: float = 0.0, doom: str = ""
    ) -> Any:
        row = self._function(request.function_id)
        if self._app(row.app).state != DEPLOYED or not row.live:
            raise GRPCError(Status.NOT_FOUND, f"Function {row.name!r} is not deployed")
        call = self.deployed.spawn(row, key, doom, extra_s)
        inputs = [
            api.FunctionPutInputsResponseItem(idx=item.idx, input_id=new_id("in"))
            for item in request.pipelined_inputs
        ]
        policy = api.FunctionRetryPolicy(retries=row.retries)
        return api.FunctionMapResponse(
            function_call_id=call, pipelined_inputs=inputs, retry_policy=policy
        )

    async def FunctionCallList(self, request: Any) -> Any:
        rows = self.deployed.calls(self._function(request.function_id).id)
        calls = [
            api.FunctionCallInfo(function_call_id=row.id, created_at=row.created, total_inputs=1)
            for row in rows
        ]
        return api.FunctionCallListResponse(function_calls=calls)

    async def FunctionGetOutputs(self, request: Any) -> Any:
        row = self._call(request.function_call_id)
        if row.ended is None:
            return api.FunctionGetOutputsResponse(num_unfinished_inputs=1)
        if self.state.store.now() > row.ended + FORGOTTEN_S:
            return api.FunctionGetOutputsResponse()
        status = api.GenericResult.GenericStatus.Value(f"GENERIC_STATUS_{row.status}")
        item = api.FunctionGetOutputsItem(
            result=api.GenericResult(status=status, exception=row.exception),
            idx=0,
            task_id=row.task,
            output_created_at=row.ended,
            retry_count=max(0, row.attempts - 1),
        )
        return api.FunctionGetOutputsResponse(outputs=[item], idxs=[0], last_entry_id="1-0")

    async def FunctionCallCancel(self, request: Any) -> Any:
        self.deployed.cancel(self._call(request.function_call_id).id)
        return empty_pb2.Empty()

    def _call(self, call: str) -> Call:
        row = self.deployed.call(call)
        if row is None:
            raise GRPCError(Status.NOT_FOUND, f"Function call {call!r} not found")
        return row


def _state(row: App) -> Any:
    return api.AppState.Value(f"APP_STATE_{row.state}")


def _url(app: str, function: str) -> str:
    return f"https://rehearsal--{app}-{function}.modal.run"


def _metadata(row: Function) -> Any:
    return api.FunctionHandleMetadata(
        function_name=row.name,
        function_type=api.Function.FUNCTION_TYPE_FUNCTION,
        web_url=row.url,
        app_id=row.app,
    )


def _ranked(request: Any) -> Any:
    """The definition as the server keeps it: a GPU list arrives ranked, a single GPU as a plain
    function.
    """
    if request.HasField("function_data") and request.function_data.ranked_functions:
        data = api.FunctionData()
        data.CopyFrom(request.function_data)
        for item in data.ranked_functions:
            function = item.function
            function.timeout_secs = function.timeout_secs or data.timeout_secs
            function.function_name = function.function_name or data.function_name
            if data.HasField("webhook_config") and not function.HasField("webhook_config"):
                function.webhook_config.CopyFrom(data.webhook_config)
            if data.HasField("autoscaler_settings") and not function.HasField(
                "autoscaler_settings"
            ):
                function.autoscaler_settings.CopyFrom(data.autoscaler_settings)
        return data
    return api.FunctionData(
        function_name=request.function.function_name,
        timeout_secs=request.function.timeout_secs,
        webhook_config=(
            request.function.webhook_config if request.function.HasField("webhook_config") else None
        ),
        ranked_functions=[api.FunctionData.RankedFunction(rank=0, function=request.function)],
    )


def check_regions(names: Any) -> None:
    """Raises GRPCError for a region that Modal's page does not have."""
    if unknown := [name for name in names if name not in REGIONS]:
        raise GRPCError(Status.INVALID_ARGUMENT, f"Unknown region {unknown[0]!r}")


def check_buckets(mounts: Any) -> None:
    """Raises GRPCError for a bucket that could not be mounted as asked (modal.com,
    "modal.CloudBucketMount", 2026-11).
    """
    for mount in mounts:
        if not mount.bucket_name or not mount.mount_path.startswith("/"):
            raise GRPCError(Status.INVALID_ARGUMENT, "a bucket mount needs a bucket and a path")
        if mount.key_prefix and not mount.key_prefix.endswith("/"):
            raise GRPCError(Status.INVALID_ARGUMENT, "key_prefix must end in a '/'")
        if mount.requester_pays and not mount.credentials_secret_id:
            raise GRPCError(Status.INVALID_ARGUMENT, "Requester Pays needs credentials")


def gpu_of(config: Any) -> tuple[str, bool]:
    """(catalog name, exact). The server is the one that refuses names and counts: the client checks
    neither.
    """
    text = config.gpu_type
    if not text and not config.count:
        return "", False
    name = BY_TEXT.get(text, "")
    if not name:
        raise GRPCError(Status.INVALID_ARGUMENT, f"Unknown GPU type {text!r}")
    sold = GPUS[name]
    if not 1 <= config.count <= sold.max_count:
        raise GRPCError(
            Status.INVALID_ARGUMENT,
            f"At most {sold.max_count} {name} GPUs per container, got {config.count}",
        )
    return name, text == sold.exact_text
