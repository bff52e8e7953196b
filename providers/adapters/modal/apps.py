"""Apps, functions and calls at Modal, through the connection of `client`. Owns the deployment with
the real client's `App.deploy`.

What is deployed is made here at run time and handed over serialized, so that nothing of this
package has to be in the image. The call that starts a job goes through the client's stub:
`Function.spawn` re-sends it by itself and takes no order token.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.modal import deployment as deployments
from providers.adapters.modal import errors, gpu
from providers.adapters.modal.client import CREATE_S
from providers.adapters.modal.gpu import PROVIDER
from providers.adapters.modal.request import ANYWHERE
from providers.errors import CloudError, OutcomeUnknown, Transient, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from providers.adapters.modal.client import Client
    from providers.adapters.modal.deployment import Deployment
    from providers.model.volume_mount import VolumeMount

DEPLOY_S = 120.0
"""Real seconds for one deployment; its image was built before."""
STOPPED_STATES = ("APP_STATE_STOPPING", "APP_STATE_STOPPED")


class App(NamedTuple):
    """An app as Modal lists it."""

    id: str
    name: str
    created_at: float


LOG_LINES, LOG_S = 1_000, 30 * 86_400.0
"""How much of a log is asked for, and how far back: what the client itself looks back at most.
Source: modal 1.6.4, `_logs.py`, 2026-11.
"""


class Apps:
    """The calls. As those of Client: errors of the tree, and NOT_FOUND reads as None or nothing."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._lock = threading.Lock()
        self._deploys: dict[str, Future[str]] = {}

    # Deploying

    def deploy(self, made: Deployment, *, warm: bool = False) -> str:
        """The app's id, once this deployment is live; the old one stays live if it fails. `warm`
        asks for at least one container.

        Raises Unsupported when a volume or a secret is not there, OutcomeUnknown when no answer
        came: then it may be live, or become so.
        """
        from concurrent.futures import Future

        future: Future[str] = Future()
        with self._lock:
            self._deploys[made.name] = future
        client = self.client.connected()

        def go() -> None:
            try:
                app = define(made, client, warm=warm)
                app.deploy(
                    name=made.name, client=client, environment_name=self.client.environment or None
                )
                future.set_result(str(app.app_id))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=go, name="gpus-modal-deploy", daemon=True).start()
        try:
            return future.result(DEPLOY_S)
        except Exception as error:
            if errors.is_missing(error):
                todo = "options.modal names secrets and volumes that must be there before"
                raise Unsupported(
                    f"Modal: {error}; {todo}", provider=PROVIDER, code="missing", block_s=0.0
                ) from error
            raise errors.classify(error, creating=True) from error

    def deploying(self, name: str) -> bool:
        """True while a deployment of this app that this process began has not ended."""
        with self._lock:
            future = self._deploys.get(name)
        return future is not None and not future.done()

    # Apps

    def by_name(self, name: str) -> str:
        """The id of the deployed app of that name; "" when there is none."""
        api = self.client.proto()
        reply = self.client.look(
            "AppGetByDeploymentName",
            api.AppGetByDeploymentNameRequest(name=name, environment_name=self.client.environment),
        )
        return "" if reply is None else str(reply.app_id)

    def list(self, prefix: str) -> Sequence[App]:
        """Every app whose name begins so that is deployed, or still has containers."""
        api = self.client.proto()
        reply = self.client.call(
            "AppList", api.AppListRequest(environment_name=self.client.environment)
        )
        # A stopped one whose containers still run costs as before.
        live = [
            item
            for item in reply.apps
            if item.state == api.APP_STATE_DEPLOYED or item.n_running_tasks > 0
        ]
        apps = [App(item.app_id, item.name or item.description, item.created_at) for item in live]
        return [app for app in apps if app.name.startswith(prefix)]

    def tags(self, app_id: str) -> dict[str, str] | None:
        """Its tags; None when there is no such app."""
        reply = self.client.look("AppGetTags", self.client.proto().AppGetTagsRequest(app_id=app_id))
        return None if reply is None else dict(reply.tags)

    def set_tags(self, app_id: str, tags: Mapping[str, str]) -> None:
        """Replaces all its tags."""
        self.client.call(
            "AppSetTags", self.client.proto().AppSetTagsRequest(app_id=app_id, tags=dict(tags))
        )

    def stopped(self, app_id: str) -> tuple[bool, float]:
        """(it is stopped or was never there, when it was made)."""
        api = self.client.proto()
        reply = self.client.look("AppGetLifecycle", api.AppGetLifecycleRequest(app_id=app_id))
        if reply is None:
            return True, 0.0
        return api.AppState.Name(reply.lifecycle.app_state) in STOPPED_STATES, float(
            reply.lifecycle.created_at
        )

    def containers(self, app_id: str) -> Sequence[Any]:
        """The containers that Modal lists for the app (TaskStats), the oldest first."""
        api = self.client.proto()
        reply = self.client.look(
            "TaskList", api.TaskListRequest(environment_name=self.client.environment, app_id=app_id)
        )
        return (
            []
            if reply is None
            else sorted(reply.tasks, key=lambda task: (task.started_at, task.task_id))
        )

    def stop(self, app_id: str) -> None:
        """Asks for the end of an app and all that runs in it. One that is gone is success."""
        api = self.client.proto()
        self.client.look(
            "AppStop", api.AppStopRequest(app_id=app_id, source=api.APP_STOP_SOURCE_PYTHON_CLIENT)
        )

    # Functions

    def function(self, name: str, function: str) -> str:
        """The id of an app's function; "" when there is none."""
        api = self.client.proto()
        request = api.FunctionGetRequest(
            app_name=name, object_tag=function, environment_name=self.client.environment
        )
        reply = self.client.look("FunctionGet", request)
        return "" if reply is None else str(reply.function_id)

    def served(self, name: str) -> tuple[str, dict[str, str]] | None:
        """(URL, facets and GPU list) of a service, as Modal has it now; None when it is gone. Two
        calls of the real client.
        """

        def read() -> tuple[str, dict[str, str]]:
            function = self._handle(name)
            info, scale = function.info(), function.autoscaler.settings()
            return str(function.get_web_url() or ""), _facets(info, scale)

        try:
            return self.client.within(read, "reading a service")  # type: ignore[no-any-return]
        except CloudError as error:
            if error.code == "NOT_FOUND":
                return None
            raise

    def scale(self, name: str, min_containers: int) -> None:
        """Sets how many containers of a service always run, until its next deployment."""
        self.client.within(
            lambda: self._handle(name).autoscaler.update(min_containers=min_containers),
            "scaling a service",
        )

    def _handle(self, name: str) -> Any:
        import modal

        environment = self.client.environment or None
        return modal.Function.from_name(
            name,
            deployments.FUNCTION[deployments.SERVICE],
            environment_name=environment,
            client=self.client.connected(),
        )

    # Calls

    def spawn(self, function_id: str, token: str) -> str:
        """The id of the new call. Sent once, never again;
        the order's token is its idempotency key.
        """
        api = self.client.proto()
        import pickle

        arguments = api.FunctionInput(
            args=pickle.dumps(((), {})), data_format=api.DATA_FORMAT_PICKLE, method_name=""
        )
        message = api.FunctionMapRequest(
            function_id=function_id,
            function_call_type=api.FUNCTION_CALL_TYPE_UNARY,
            function_call_invocation_type=api.FUNCTION_CALL_INVOCATION_TYPE_ASYNC,
            pipelined_inputs=[api.FunctionPutInputsItem(idx=0, input=arguments)],
        )
        reply = self.client.once("FunctionMap", message, CREATE_S, token)
        if not reply.pipelined_inputs:
            raise OutcomeUnknown(
                "Modal made a call but took no input for it",
                token=token,
                provider=PROVIDER,
                code="no-input",
            )
        return str(reply.function_call_id)

    def calls(self, function_id: str) -> Sequence[str]:
        """The ids of a function's calls, the oldest first."""
        reply = self.client.look(
            "FunctionCallList", self.client.proto().FunctionCallListRequest(function_id=function_id)
        )
        return (
            []
            if reply is None
            else [
                item.function_call_id
                for item in sorted(reply.function_calls, key=lambda item: item.created_at)
            ]
        )

    def result(self, call_id: str) -> Any | None:
        """The end of a call (FunctionGetOutputsItem), None while it has none. Raises Transient with
        code `expired` when Modal has forgotten it.
        """
        api = self.client.proto()
        request = api.FunctionGetOutputsRequest(
            function_call_id=call_id,
            timeout=0,
            last_entry_id="0-0",
            max_values=1,
            start_idx=0,
            end_idx=0,
        )
        reply = self.client.look("FunctionGetOutputs", request)
        if reply is None or (not reply.outputs and not reply.num_unfinished_inputs):
            raise Transient(
                f"Modal keeps no result of {call_id} any more", provider=PROVIDER, code="expired"
            )
        return reply.outputs[0] if reply.outputs else None

    def log(self, app: str, now: float, *, sandbox: str = "") -> str:
        """The last lines that an app's containers wrote, or one sandbox's; `now` in seconds since
        the epoch. Modal keeps them for 30 days at most.
        """
        api = self.client.proto()
        request = api.AppFetchLogsRequest(app_id=app, limit=LOG_LINES, sandbox_id=sandbox)
        request.since.FromNanoseconds(int((now - LOG_S) * 1e9))
        request.until.FromNanoseconds(int(now * 1e9))
        reply = self.client.look("AppFetchLogs", request)
        batches = () if reply is None else reply.batches
        return "".join(item.data for batch in batches for item in batch.items)

    def cancel(self, call_id: str) -> None:
        """Asks for the end of a call and of its containers. One that is over is success."""
        self.client.look(
            "FunctionCallCancel",
            self.client.proto().FunctionCallCancelRequest(
                function_call_id=call_id, terminate_containers=True
            ),
        )


def define(made: Deployment, client: Any, *, warm: bool = False) -> Any:
    """The app, as the real client's objects; nothing is sent. A single GPU goes as its own text: a
    list is for a choice.
    """
    import modal

    from providers.adapters.modal.client import image_of

    chosen = made.options
    app = modal.App(made.name, tags=made.tags)
    environment: dict[str, Any] = {"client": client}
    common: dict[str, Any] = {
        "name": made.function,
        "image": image_of(chosen, made.registry, environment),
        "gpu": made.gpus[0] if len(made.gpus) == 1 else list(made.gpus),
        "secrets": [
            *(modal.Secret.from_name(name, **environment) for name in chosen.secrets),
            *(
                modal.Secret.from_name(secret, required_keys=[name], **environment)
                for name, secret in made.secrets
            ),
        ],
        "volumes": {
            **{path: modal.Volume.from_name(name, **environment) for path, name in chosen.volumes},
            **{each.path: _mounted(modal, each, environment) for each in made.volumes},
            **{
                mount.path: modal.CloudBucketMount(
                    mount.bucket,
                    bucket_endpoint_url=mount.endpoint or None,
                    key_prefix=mount.prefix or None,
                    secret=modal.Secret.from_name(
                        mount.secret, required_keys=list(mount.keys), **environment
                    ),
                    read_only=mount.read_only,
                )
                for mount in made.mounts
            },
        },
        "serialized": True,
        "include_source": False,
    }
    if made.regions:
        common["region"] = list(made.regions)
    if chosen.cpu:
        common["cpu"] = (chosen.cpu, chosen.cpu)
    if chosen.memory_gib:
        common["memory"] = (round(chosen.memory_gib * 1024),) * 2
    if made.kind == deployments.JOB:
        app.function(
            **common,
            timeout=made.timeout_s,
            retries=chosen.retries,
            max_containers=1,
            scaledown_window=deployments.JOB_SCALEDOWN_S,
        )(job(chosen.command))
        return app
    function = modal.web_server(
        chosen.port,
        startup_timeout=float(chosen.startup_timeout_s),
        requires_proxy_auth=not made.public,
    )(service(chosen.command))
    if chosen.max_inputs:
        function = modal.concurrent(max_inputs=chosen.max_inputs)(function)
    app.function(
        **common,
        timeout=chosen.startup_timeout_s,
        min_containers=max(chosen.min_containers, int(warm)),
        max_containers=chosen.most_containers,
        buffer_containers=chosen.buffer_containers,
        scaledown_window=chosen.scaledown_window_s,
    )(function)
    return app


def job(command: Sequence[str]) -> Callable[[], int]:
    """The function of a job. It is read by another Python, in an image without this package:
    everything it needs stands inside.
    """
    words = list(command)

    def run() -> int:
        import subprocess

        code = subprocess.run(words, check=False).returncode
        if code:
            # An exception is what Modal counts as a failed attempt.
            raise RuntimeError(f"exit code {code}")
        return code

    return run


def service(command: Sequence[str]) -> Callable[[], None]:
    """The function of a service: starts the command and returns; Modal then waits for the port."""
    words = list(command)

    def serve() -> None:
        import subprocess

        subprocess.Popen(words)

    return serve


def _mounted(modal: Any, mount: VolumeMount, environment: dict[str, Any]) -> Any:
    volume = modal.Volume.from_name(mount.id, **environment)
    return volume if mount.writable else volume.read_only()


def _facets(info: Any, scale: Any) -> dict[str, str]:
    return {
        "gpus": deployments.listed([f"{name}:{count}" for name, count in info.gpus]),
        "region": ",".join(info.regions or ()) or ANYWHERE,
        "min": str(scale.min_containers or 0),
        "max": str(scale.max_containers or 0),
        "buffer": str(scale.buffer_containers or 0),
        "window": str(scale.scaledown_window or 0),
        "inputs": str((info.concurrency_info.max_inputs if info.concurrency_info else 0) or 0),
        "access": (
            "nothing"
            if info.web_info is None
            else "public"
            if info.web_info.unauthenticated
            else "token"
        ),
        "volumes": str(len(info.volumes or ())),
        "secrets": str(len(info.secrets or ())),
    }


def delivered(info: Any) -> str:
    """The catalog's name of the GPU that a container (TaskInfo) has;
    "" where Modal does not say.
    """
    return gpu.read(str(info.gpu_config.gpu_type or info.gpu_type))[0] if info is not None else ""
