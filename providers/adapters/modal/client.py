"""The connection to Modal: the real `modal` client, credentials, time limits. Owns every import of
the client; made on the first call.

The sandbox calls go through the client's own gRPC stub, not through `Sandbox.create`: that one
keeps the sandbox's id to itself until a container was scheduled, for up to 21 minutes, re-sends the
creating call by itself, and takes no order token. `tests/unit/test_modal_wire.py` holds that what
is sent equals what `Sandbox.create` sends for the same machine. Apps and images are made by the
client's public objects.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.modal import errors
from providers.adapters.modal.gpu import PROVIDER
from providers.errors import NotConfigured, Transient, Unsupported
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from providers.adapters.modal.options import Options
    from providers.adapters.modal.request import Request

CALL_S = 30.0
"""Real seconds for one reading call with the client's own retries, all in all."""
CREATE_S = 60.0
"""Real seconds for the one creating call."""
BUILD_LOOK_S = 60.0
"""Real seconds that one order waits for an image that is being built; the build goes on at Modal.
"""
REACH_S = 5.0
"""Real seconds for the look whether the server can be reached at all: the client itself tries for a
minute.
"""

TOKEN_ID, TOKEN_SECRET = "MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"


class Credentials(NamedTuple):
    """A token, and where it was found."""

    token_id: str
    token_secret: str
    source: str
    environment: str = ""
    profile: str = ""
    """The profile of `~/.modal.toml` that it is of; empty for a token of the environment."""


def credentials(profile: str = "") -> Credentials:
    """The user's token: that of `profile` in `~/.modal.toml`; without one the environment's, else
    that of the profile that is active.

    Reads one file at most. Raises NotConfigured.
    """
    import os
    from pathlib import Path

    environment = os.environ.get("MODAL_ENVIRONMENT", "")
    token_id, secret = os.environ.get(TOKEN_ID, ""), os.environ.get(TOKEN_SECRET, "")
    if token_id and secret and not profile:
        return Credentials(token_id, secret, f"{TOKEN_ID} and {TOKEN_SECRET}", environment)
    path = Path(os.environ.get("MODAL_CONFIG_PATH") or "~/.modal.toml").expanduser()
    todo = f"set {TOKEN_ID} and {TOKEN_SECRET}, or run `modal token new`"
    if profile:
        todo = f"run `modal token new --profile {profile}`"
    if not path.is_file():
        raise NotConfigured(
            f"Modal: wanted a token, found neither {TOKEN_ID} nor {path}; {todo}", provider=PROVIDER
        )
    import tomllib

    try:
        profiles = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise NotConfigured(
            f"Modal: wanted a token in {path}, found that it can't be read ({error}); {todo}",
            provider=PROVIDER,
        ) from None
    sections = {name: section for name, section in profiles.items() if isinstance(section, dict)}
    wanted = profile or os.environ.get("MODAL_PROFILE", "")
    active = [name for name, section in sections.items() if section.get("active")]
    name = wanted or (active[0] if active else next(iter(sections)) if len(sections) == 1 else "")
    section = sections.get(name, {})
    if not section.get("token_id") or not section.get("token_secret"):
        found = f"no token in profile {name!r}" if name else "no active profile"
        raise NotConfigured(
            f"Modal: wanted a token in {path}, found {found}; {todo}", provider=PROVIDER
        )
    where = environment or str(section.get("environment", ""))
    return Credentials(
        str(section["token_id"]),
        str(section["token_secret"]),
        f"profile {name} of {path}",
        where,
        name,
    )


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
        self._client: Any = None
        self._images: dict[Options, Future[str]] = {}

    # Connecting

    def _connected(self) -> Any:
        """The client, opened. Checks first that the server can be reached, unless that was seen
        before.
        """
        with self._lock:
            if self._client is None:
                api = import_client(rehearsal=bool(self._url))
                _modal()
                from modal.config import config

                url = self._url() if callable(self._url) else self._url or str(config["server_url"])
                _reach(url)
                client = _modal().Client(
                    url, api.CLIENT_TYPE_CLIENT, (self.token.token_id, self.token.token_secret)
                )
                try:
                    _within(lambda: client.__enter__(), CALL_S, "connecting")
                except Exception as error:
                    raise _reading(error) from error
                self._client = client
            return self._client

    def _call(self, method: str, request: Any, *, limit_s: float = CALL_S) -> Any:
        """The reply of a call that may be repeated, with the client's own retries."""
        try:
            return _run(self._connected(), method, request, limit_s, None)
        except Exception as error:
            raise _reading(error) from error

    def _look(self, method: str, request: Any) -> Any | None:
        """As `_call`; None on Modal's own word that it does not exist."""
        try:
            return _run(self._connected(), method, request, CALL_S, None)
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
        return _proto()

    def call(self, method: str, request: Any) -> Any:
        """The reply of a call that may be repeated."""
        return self._call(method, request)

    def look(self, method: str, request: Any) -> Any | None:
        """As `call`; None on Modal's own word that it does not exist."""
        return self._look(method, request)

    def once(self, method: str, request: Any, limit_s: float, token: str) -> Any:
        """The reply of a creating call: sent once, never again, with the order's token as its
        idempotency key.
        """
        client = self._connected()
        try:
            return _run(client, method, request, limit_s, token)
        except Exception as error:
            raise errors.classify(error, creating=True, token=token) from error

    def within(self, function: Any, what: str) -> Any:
        """The result of a blocking call of the real client's objects that may be repeated, within
        `CALL_S`.
        """
        self._connected()
        try:
            return _within(function, CALL_S, what)
        except Exception as error:
            raise _reading(error) from error

    # Account, app and image

    def workspace(self) -> str:
        """The workspace of the token."""
        return str(self._call("TokenInfoGet", _proto().TokenInfoGetRequest()).workspace_name)

    def gpu_limit(self) -> int:
        """How many GPUs may run at once in this environment; 0 where Modal states none."""
        reply = self._call(
            "EnvironmentGetOrCreate",
            _proto().EnvironmentGetOrCreateRequest(deployment_name=self.environment),
        )
        return int(reply.metadata.settings.max_concurrent_gpus)

    def app_id(self, *, create: bool = False) -> str:
        """The id of the app that all our sandboxes are in; "" when there is none. `create` makes
        it: it costs nothing.
        """
        api = _proto()
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

    def image_id(self, options: Options) -> str:
        """The image, built. Waits `BUILD_LOOK_S` at most, then raises Transient: the build goes on
        and a later call finds it.
        """
        from concurrent.futures import Future

        client = self._connected()
        options = options.image_part
        with self._lock:
            future = self._images.get(options)
            if future is None or (future.done() and future.exception() is not None):
                future = self._images[options] = Future()
                threading.Thread(
                    target=self._build,
                    args=(client, options, future),
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
        """The next look builds every image anew."""
        with self._lock:
            self._images.clear()

    def _build(self, client: Any, options: Options, future: Future[str]) -> None:
        try:
            modal = _modal()
            app = modal.App.lookup(
                self.app_name,
                client=client,
                environment_name=self.environment or None,
                create_if_missing=True,
            )
            image = image_of(options)
            image.build(app)
            future.set_result(str(image.object_id))
        except BaseException as error:
            future.set_exception(error)

    # Sandboxes

    def secret_ids(self, secrets: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """The ids of the Modal secrets that hold these (variable, secret). Raises Unsupported when
        one is not there, or lacks the variable.
        """
        api = _proto()
        found = []
        for name, secret in secrets:
            asked = api.SecretGetOrCreateRequest(
                deployment_name=secret, environment_name=self.environment, required_keys=[name]
            )
            reply = self._look("SecretGetOrCreate", asked)
            if reply is None:
                text = (
                    f"Modal: wanted a secret {secret} that holds {name}, found none; make it: modal"
                    f" secret create {secret} {name}=..."
                )
                raise Unsupported(text, provider=PROVIDER, code="missing", block_s=0.0)
            found.append(str(reply.secret_id))
        return tuple(dict.fromkeys(found))

    def create(
        self,
        app_id: str,
        image_id: str,
        request: Request,
        token: str,
        secret_ids: Sequence[str] = (),
    ) -> str:
        """The new sandbox's id, queued for a container. Sent once, never again; the order's token
        is its idempotency key.
        """
        api = _proto()
        message = api.SandboxCreateRequest(
            app_id=app_id,
            definition=definition(image_id, request, secret_ids),
            tags=[
                api.SandboxTag(tag_name=key, tag_value=value) for key, value in request.tags.items()
            ],
        )
        return str(self.once("SandboxCreate", message, CREATE_S, token).sandbox_id)

    def by_name(self, name: str) -> str:
        """The id of the running or queued sandbox of that name in our app; "" when there is none."""
        api = _proto()
        reply = self._look(
            "SandboxGetFromName",
            api.SandboxGetFromNameRequest(
                sandbox_name=name, app_name=self.app_name, environment_name=self.environment
            ),
        )
        return "" if reply is None else str(reply.sandbox_id)

    def tags(self, sandbox_id: str) -> dict[str, str] | None:
        """Its tags; None when there is no such sandbox."""
        reply = self._look("SandboxTagsGet", _proto().SandboxTagsGetRequest(sandbox_id=sandbox_id))
        return None if reply is None else {tag.tag_name: tag.tag_value for tag in reply.tags}

    def set_tags(self, sandbox_id: str, tags: Mapping[str, str]) -> None:
        """Replaces all its tags."""
        api = _proto()
        listed = [api.SandboxTag(tag_name=key, tag_value=value) for key, value in tags.items()]
        self._call(
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
            "SandboxWait", _proto().SandboxWaitRequest(sandbox_id=sandbox_id, timeout=0)
        )

    def task_id(self, sandbox_id: str) -> str:
        """The container that the sandbox was given; "" while it queues, and for one that never had
        any.
        """
        reply = self._look(
            "SandboxGetTaskId", _proto().SandboxGetTaskIdRequest(sandbox_id=sandbox_id, timeout=0.5)
        )
        return "" if reply is None else str(reply.task_id)

    def task(self, task_id: str) -> Any | None:
        """What Modal says of a container (TaskInfo): when it started, its GPUs. None when there is
        none.
        """
        reply = self._look("TaskGetInfo", _proto().TaskGetInfoRequest(task_id=task_id))
        return None if reply is None else reply.info

    def running_tasks(self, app_id: str) -> frozenset[str]:
        """The ids of the containers that Modal lists for our app."""
        reply = self._look(
            "TaskList", _proto().TaskListRequest(environment_name=self.environment, app_id=app_id)
        )
        return (
            frozenset() if reply is None else frozenset(str(task.task_id) for task in reply.tasks)
        )

    def list(self, app_id: str, tags: Mapping[str, str]) -> list[Any]:
        """Every unfinished sandbox of the app that bears these tags (SandboxInfo), page by page."""
        api = _proto()
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
                item
                for item in self._call("SandboxList", request).sandboxes
                if item.id not in found
            ]
            if not page:
                return list(found.values())
            found.update((item.id, item) for item in page)
            before = page[-1].created_at

    def terminate(self, sandbox_id: str) -> None:
        """Asks for the end of a sandbox. One that is gone is success."""
        self._look("SandboxTerminate", _proto().SandboxTerminateRequest(sandbox_id=sandbox_id))


def image_of(options: Options) -> Any:
    """The image, as the real client's object; nothing is sent."""
    modal = _modal()
    if options.image:
        # Modal hands its own command to an image's ENTRYPOINT, which most do not execute
        # (modal.com/docs/guide/existing-images, read 2026-11-28).
        image = modal.Image.from_registry(
            options.image, add_python=options.add_python or None
        ).entrypoint([])
    else:
        image = modal.Image.debian_slim(python_version=options.python)
    return image.pip_install(*options.pip) if options.pip else image


def definition(image_id: str, request: Request, secret_ids: Sequence[str] = ()) -> Any:
    """The request as Modal's message. Fields that `Sandbox.create` sets to their defaults stand
    here as well.
    """
    api = _proto()
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
    )
    if request.regions:
        message.scheduler_placement.CopyFrom(api.SchedulerPlacement(regions=request.regions))
    return message


def _reading(error: BaseException) -> Exception:
    return errors.classify(error)


_importing = threading.RLock()
"""One thread at a time imports the client: its modules import each other in circles, and a second
thread would see them half made.
"""


def _modal() -> Any:
    with _importing:
        import modal

        _quieten()
        return modal


def _quieten() -> None:
    """Keeps tracebacks of the client's own loops off the user's screen: while an app is deployed it
    sends heartbeats, and each that fails during an outage is printed whole (modal 1.6.4,
    `_utils/async_utils.py`). What the outage means is told by the calls that fail.
    """
    import logging

    logger = logging.getLogger("modal-utils")
    if _untold not in logger.filters:
        logger.addFilter(_untold)


def _untold(record: Any) -> bool:
    return not record.exc_info


def _proto() -> Any:
    with _importing:
        from modal_proto import api_pb2

        return api_pb2


def import_client(*, rehearsal: bool) -> Any:
    """Imports the client. In a rehearsal the user's own `~/.modal.toml`, which is read at import,
    stays out of it.
    """
    import os
    import sys

    from providers.home import home

    with _importing:
        if not rehearsal or "modal" in sys.modules:
            return _proto()
        old = os.environ.get("MODAL_CONFIG_PATH")
        os.environ["MODAL_CONFIG_PATH"] = str(home() / "no-modal.toml")
        try:
            _modal()
            return _proto()
        finally:
            if old is None:
                del os.environ["MODAL_CONFIG_PATH"]
            else:
                os.environ["MODAL_CONFIG_PATH"] = old


def _reach(url: str) -> None:
    """Opens and closes a socket to the first server of `url`, or to the proxy before it. Raises
    Transient: nothing was sent.
    """
    import os
    import socket
    from urllib.parse import urlsplit
    from urllib.request import proxy_bypass

    first = urlsplit(url.split(",")[0].strip())
    proxy = next(
        (
            value
            for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
            if (value := os.environ.get(name))
        ),
        "",
    )
    behind = bool(proxy and first.hostname and not proxy_bypass(first.hostname))
    if behind:
        first = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    try:
        if first.scheme == "unix":
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(REACH_S)
                probe.connect(first.path)
        elif first.hostname or behind:
            port = first.port or (80 if first.scheme == "http" else 443)
            socket.create_connection((first.hostname, port), REACH_S).close()
    except (OSError, ValueError) as error:
        where = (
            f"through the proxy {first.hostname or 'of HTTPS_PROXY'}"
            if behind
            else f"at {first.hostname or first.path}"
        )
        raise Transient(
            f"Modal can't be reached {where}: {error}", provider=PROVIDER, code="unreachable"
        ) from error


def _within(function: Any, limit_s: float, what: str) -> Any:
    """The result of a blocking call of the client, or TimeoutError after `limit_s` real seconds; it
    is then left to end by itself.
    """
    from concurrent.futures import Future

    future: Future[Any] = Future()

    def go() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=go, name=f"gpus-modal-{what}", daemon=True).start()
    return future.result(limit_s)


_runner: Any = None


def _run(client: Any, method: str, request: Any, limit_s: float, token: str | None) -> Any:
    """Sends one call on the client's own loop. With a token it is sent once, with the token as
    idempotency key.
    """
    global _runner  # noqa: PLW0603 (made once: it needs the client's import)
    if _runner is None:
        _runner = _make_runner()
    return _runner(_stub(client), method, request, limit_s, token)


def _stub(client: Any) -> Any:
    import warnings

    with warnings.catch_warnings():
        # The client warns that its stub is no stable interface; the version is pinned and a test
        # compares what is sent.
        warnings.simplefilter("ignore")
        return client.stub


def _make_runner() -> Any:
    import asyncio

    from modal._utils.async_utils import synchronizer

    async def call(stub: Any, method: str, request: Any, limit_s: float, token: str | None) -> Any:
        function = getattr(stub, method)
        if token is None:
            return await asyncio.wait_for(function(request), limit_s)
        metadata = [("x-idempotency-key", token)]
        return await asyncio.wait_for(
            function(request, retry=None, timeout=limit_s, metadata=metadata), limit_s + 1.0
        )

    return synchronizer.create_blocking(call, "modal_call", __name__)
