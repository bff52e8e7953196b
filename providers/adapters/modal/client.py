"""The connection to Modal, made on the first call, and the calls that the adapter makes. Owns their
time limits.

The sandbox calls go through the client's own gRPC stub, not through `Sandbox.create`: that one
keeps the sandbox's id to itself until a container was scheduled, for up to 21 minutes, re-sends the
creating call by itself, and takes no order token. `tests/unit/modal/test_wire.py` holds that what
is sent equals what `Sandbox.create` sends for the same machine. Apps and images are made by the
client's public objects.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from providers.adapters.modal import errors
from providers.adapters.modal.gpu import PROVIDER
from providers.adapters.modal.sdk import (
    import_client,
    modal_package,
    protocol,
    reach,
    send,
    within_limit,
)
from providers.errors import Transient, Unsupported
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from providers.adapters.modal.buckets import BucketMount
    from providers.adapters.modal.options import Options
    from providers.adapters.modal.request import Request
    from providers.adapters.modal.sign_in import Credentials

CALL_S = 30.0
"""Real seconds for one reading call with the client's own retries, all in all."""
CREATE_S = 60.0
"""Real seconds for the one creating call."""
REGISTRY_KEYS = ["REGISTRY_USERNAME", "REGISTRY_PASSWORD"]
"""What a secret holds with which Modal pulls an image (the page on private registries, 2026-11)."""
BUILD_LOOK_S = 60.0
"""Real seconds that one order waits for an image that is being built; the build goes on at Modal.
"""


class Client:
    """One connection. `url` is the stand-in's, or what answers it (asked for by the first call), or
    empty for Modal's own. `environment` None: the token's own; empty is the workspace's default.
    Safe from several threads.

    Every method makes the calls that its name says and raises errors of the tree, but NOT_FOUND,
    which reads as None.
    """

    def __init__(
        self,
        token: Credentials,
        *,
        url: str | Callable[[], str] = "",
        environment: str | None = None,
        app: str = "gpus",
    ) -> None:
        self.token = token
        self.environment = token.environment if environment is None else environment
        self.app_name = app
        self._url = url
        self._lock = threading.Lock()
        self.sdk_client: Any = None
        self._images: dict[tuple[Options, str], Future[str]] = {}

    # Connecting

    def _connected(self) -> Any:
        """The client, opened. Checks first that the server can be reached, unless that was seen
        before.
        """
        with self._lock:
            if self.sdk_client is None:
                api = import_client(rehearsal=bool(self._url))
                modal_package()
                from modal.config import config

                url = self._url() if callable(self._url) else self._url or str(config["server_url"])
                reach(url)
                client = modal_package().Client(
                    url, api.CLIENT_TYPE_CLIENT, (self.token.token_id, self.token.token_secret)
                )
                try:
                    within_limit(lambda: client.__enter__(), CALL_S, "connecting")
                except Exception as error:
                    raise _reading(error) from error
                self.sdk_client = client
            return self.sdk_client

    def call(self, method: str, request: Any, *, limit_s: float = CALL_S) -> Any:
        """The reply of a call that may be repeated, with the client's own retries."""
        try:
            return send(self._connected(), method, request, limit_s, None)
        except Exception as error:
            raise _reading(error) from error

    def _look(self, method: str, request: Any) -> Any | None:
        """As `call`; None on Modal's own word that it does not exist."""
        try:
            return send(self._connected(), method, request, CALL_S, None)
        except Exception as error:
            if errors.is_missing(error):
                return None
            raise _reading(error) from error

    # What others on this connection use

    def connected(self) -> Any:
        """The real client, opened."""
        return self._connected()

    def proto(self) -> Any:
        """The messages of Modal's protocol."""
        return protocol()

    def look(self, method: str, request: Any) -> Any | None:
        """As `call`; None on Modal's own word that it does not exist."""
        return self._look(method, request)

    def once(self, method: str, request: Any, limit_s: float, token: str) -> Any:
        """The reply of a creating call: sent once, never again, with the order's token as its
        idempotency key.
        """
        client = self._connected()
        try:
            return send(client, method, request, limit_s, token)
        except Exception as error:
            raise errors.classify(error, creating=True, token=token) from error

    def within(self, function: Any, what: str) -> Any:
        """The result of a blocking call of the real client's objects that may be repeated, within
        `CALL_S`.
        """
        self._connected()
        try:
            return within_limit(function, CALL_S, what)
        except Exception as error:
            raise _reading(error) from error

    # Account, app and image

    def workspace(self) -> str:
        """The workspace of the token."""
        return str(self.call("TokenInfoGet", protocol().TokenInfoGetRequest()).workspace_name)

    def gpu_limit(self) -> int:
        """How many GPUs may run at once in this environment; 0 where Modal states none."""
        reply = self.call(
            "EnvironmentGetOrCreate",
            protocol().EnvironmentGetOrCreateRequest(deployment_name=self.environment),
        )
        return int(reply.metadata.settings.max_concurrent_gpus)

    def app_id(self, *, create: bool = False) -> str:
        """The id of the app that all our sandboxes are in; "" when there is none. `create` makes
        it: it costs nothing.
        """
        api = protocol()
        kind = (
            api.OBJECT_CREATION_TYPE_CREATE_IF_MISSING
            if create
            else api.OBJECT_CREATION_TYPE_UNSPECIFIED
        )
        reply = self._look(
            "AppGetOrCreate",
            api.AppGetOrCreateRequest(
                app_name=self.app_name, environment_name=self.environment, object_creation_type=kind
            ),
        )
        return "" if reply is None else str(reply.app_id)

    def image_id(self, options: Options, registry: str = "") -> str:
        """The image, built; `registry` is the Modal secret with which it is pulled. Waits
        `BUILD_LOOK_S` at most, then raises Transient: the build goes on and a later call finds it.
        """
        from concurrent.futures import Future

        client = self._connected()
        key = (options.image_part, registry)
        with self._lock:
            future = self._images.get(key)
            if future is None or (future.done() and future.exception() is not None):
                future = self._images[key] = Future()
                threading.Thread(
                    target=self._build,
                    args=(client, *key, future),
                    name="gpus-modal-image",
                    daemon=True,
                ).start()
        try:
            return future.result(BUILD_LOOK_S)
        except TimeoutError as error:
            if future.done():
                raise _reading(error) from error
            raise Transient(
                "Modal is still building the image; nothing was bought",
                provider=PROVIDER,
                code="image-building",
            ) from None
        except Exception as error:
            if type(error).__name__ in {"ImageBuildError", "RemoteError"}:
                raise Unsupported(
                    f"Modal could not build the image of options.modal: {error}; correct image,"
                    " add_python or pip",
                    provider=PROVIDER,
                    code="image-build",
                    scopes=(Scope(PROVIDER),),
                    block_s=0.0,
                ) from error
            raise _reading(error) from error

    def forget_images(self) -> None:
        """The next look builds every image again."""
        with self._lock:
            self._images.clear()

    def _build(self, client: Any, options: Options, registry: str, future: Future[str]) -> None:
        try:
            modal = modal_package()
            app = modal.App.lookup(
                self.app_name,
                client=client,
                environment_name=self.environment or None,
                create_if_missing=True,
            )
            image = image_of(
                options, registry, {"environment_name": self.environment or None, "client": client}
            )
            image.build(app)
            future.set_result(str(image.object_id))
        except BaseException as error:
            future.set_exception(error)

    # Sandboxes

    def secret_ids(self, secrets: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """The ids of the Modal secrets that hold these (variable, secret). Raises Unsupported when
        one is not there, or lacks the variable.
        """
        return tuple(dict.fromkeys(self._secret_id(secret, [name]) for name, secret in secrets))

    def _secret_id(self, secret: str, names: Sequence[str]) -> str:
        asked = protocol().SecretGetOrCreateRequest(
            deployment_name=secret, environment_name=self.environment, required_keys=names
        )
        reply = self._look("SecretGetOrCreate", asked)
        if reply is None:
            values = " ".join(f"{name}=..." for name in names)
            raise Unsupported(
                f"Modal: wanted a secret {secret} that holds {' and '.join(names)}, found none;"
                f" make it: modal secret create {secret} {values}",
                provider=PROVIDER,
                code="missing",
                block_s=0.0,
            )
        return str(reply.secret_id)

    def bucket_mounts(self, mounts: Sequence[BucketMount]) -> list[Any]:
        """The mounts as Modal's messages. Raises Unsupported when a secret is not there."""
        api = protocol()
        kinds = api.CloudBucketMount.BucketType
        return [
            api.CloudBucketMount(
                bucket_name=mount.bucket,
                bucket_endpoint_url=mount.endpoint or None,
                mount_path=mount.path,
                credentials_secret_id=self._secret_id(mount.secret, mount.keys),
                read_only=mount.read_only,
                bucket_type=kinds.GCP if mount.endpoint else kinds.S3,
                key_prefix=mount.prefix or None,
            )
            for mount in mounts
        ]

    def create(
        self,
        app_id: str,
        image_id: str,
        request: Request,
        token: str,
        secret_ids: Sequence[str] = (),
        mounts: Sequence[Any] = (),
        volumes: Sequence[Any] = (),
    ) -> str:
        """The new sandbox's id, queued for a container. Sent once, never again; the order's token
        is its idempotency key.
        """
        api = protocol()
        message = api.SandboxCreateRequest(
            app_id=app_id,
            definition=definition(image_id, request, secret_ids, mounts, volumes),
            tags=[
                api.SandboxTag(tag_name=key, tag_value=value) for key, value in request.tags.items()
            ],
        )
        return str(self.once("SandboxCreate", message, CREATE_S, token).sandbox_id)

    def by_name(self, name: str) -> str:
        """The id of the running or queued sandbox of that name in our app;
        "" when there is none.
        """
        api = protocol()
        reply = self._look(
            "SandboxGetFromName",
            api.SandboxGetFromNameRequest(
                sandbox_name=name, app_name=self.app_name, environment_name=self.environment
            ),
        )
        return "" if reply is None else str(reply.sandbox_id)

    def tags(self, sandbox_id: str) -> dict[str, str] | None:
        """Its tags; None when there is no such sandbox."""
        reply = self._look(
            "SandboxTagsGet", protocol().SandboxTagsGetRequest(sandbox_id=sandbox_id)
        )
        return None if reply is None else {tag.tag_name: tag.tag_value for tag in reply.tags}

    def set_tags(self, sandbox_id: str, tags: Mapping[str, str]) -> None:
        """Replaces all its tags."""
        api = protocol()
        listed = [api.SandboxTag(tag_name=key, tag_value=value) for key, value in tags.items()]
        self.call(
            "SandboxTagsSet",
            api.SandboxTagsSetRequest(
                environment_name=self.environment, sandbox_id=sandbox_id, tags=listed
            ),
        )

    def result(self, sandbox_id: str) -> Any | None:
        """The reply of a wait that does not wait: `result.status` is 0 while it is not finished.
        None when there is no such sandbox.
        """
        return self._look(
            "SandboxWait", protocol().SandboxWaitRequest(sandbox_id=sandbox_id, timeout=0)
        )

    def task_id(self, sandbox_id: str) -> str:
        """The container that the sandbox was given; "" while it queues, and for one that never had
        any.
        """
        reply = self._look(
            "SandboxGetTaskId",
            protocol().SandboxGetTaskIdRequest(sandbox_id=sandbox_id, timeout=0.5),
        )
        return "" if reply is None else str(reply.task_id)

    def task(self, task_id: str) -> Any | None:
        """What Modal says of a container (TaskInfo): when it started, its GPUs. None when there is
        none.
        """
        reply = self._look("TaskGetInfo", protocol().TaskGetInfoRequest(task_id=task_id))
        return None if reply is None else reply.info

    def running_tasks(self, app_id: str) -> frozenset[str]:
        """The ids of the containers that Modal lists for our app."""
        reply = self._look(
            "TaskList", protocol().TaskListRequest(environment_name=self.environment, app_id=app_id)
        )
        return (
            frozenset() if reply is None else frozenset(str(task.task_id) for task in reply.tasks)
        )

    def list(self, app_id: str, tags: Mapping[str, str]) -> list[Any]:
        """Every unfinished sandbox of the app that bears these tags (SandboxInfo), page by page."""
        api = protocol()
        found: dict[str, Any] = {}
        before: float | None = None
        while True:
            request = api.SandboxListRequest(
                app_id=app_id, environment_name=self.environment, include_finished=False
            )
            request.tags.extend(
                api.SandboxTag(tag_name=key, tag_value=value) for key, value in tags.items()
            )
            if before is not None:
                request.before_timestamp = before
            page = [
                item for item in self.call("SandboxList", request).sandboxes if item.id not in found
            ]
            if not page:
                return list(found.values())
            found.update((item.id, item) for item in page)
            before = page[-1].created_at

    def terminate(self, sandbox_id: str) -> None:
        """Asks for the end of a sandbox. One that is gone is success."""
        self._look("SandboxTerminate", protocol().SandboxTerminateRequest(sandbox_id=sandbox_id))


def image_of(options: Options, registry: str, environment: Mapping[str, Any]) -> Any:
    """The image, as the real client's object; nothing is sent. `environment` is where the secret
    `registry`, with which it is pulled, is looked for.
    """
    modal = modal_package()
    if options.image:
        # Modal hands its own command to an image's ENTRYPOINT, which most do not execute
        # (modal.com/docs/guide/existing-images, read 2026-11-28).
        image = modal.Image.from_registry(
            options.image,
            secret=(
                modal.Secret.from_name(registry, required_keys=REGISTRY_KEYS, **environment)
                if registry
                else None
            ),
            add_python=options.add_python or None,
        ).entrypoint([])
    else:
        image = modal.Image.debian_slim(python_version=options.python)
    return image.pip_install(*options.pip) if options.pip else image


def definition(
    image_id: str,
    request: Request,
    secret_ids: Sequence[str] = (),
    mounts: Sequence[Any] = (),
    volumes: Sequence[Any] = (),
) -> Any:
    """The request as Modal's message. Fields that `Sandbox.create` sets to their defaults stand
    here as well.
    """
    api = protocol()
    name, _, count = request.gpu.partition(":")
    resources = api.Resources(gpu_config=api.GPUConfig(gpu_type=name, count=int(count)))
    if request.cpu:
        resources.milli_cpu = resources.milli_cpu_max = round(request.cpu * 1000)
    if request.memory_mib:
        resources.memory_mb = resources.memory_mb_max = request.memory_mib
    message = api.Sandbox(
        entrypoint_args=request.command,
        image_id=image_id,
        resources=resources,
        timeout_secs=request.timeout_s,
        open_ports=api.PortSpecs(),
        network_access=api.NetworkAccess(
            network_access_type=api.NetworkAccess.NetworkAccessType.OPEN
        ),
        name=request.name,
        secret_ids=secret_ids,
        cloud_bucket_mounts=mounts,
        volume_mounts=volumes,
    )
    if request.regions:
        message.scheduler_placement.CopyFrom(api.SchedulerPlacement(regions=request.regions))
    return message


def _reading(error: BaseException) -> Exception:
    return errors.classify(error)
