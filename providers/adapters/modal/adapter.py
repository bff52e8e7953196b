"""Modal as the engine sees it. Owns the life of a sandbox: ordered, queued, started in time or
given up, seen, ended and confirmed. Jobs and services, which are functions there, live in
`functions`.

Modal queues instead of refusing. Capacity is a container that really started before the order's
wait is over; otherwise the sandbox is ended, that is confirmed, and the refusal is NoCapacity. Must
not import the engine; the client is reached through `client` alone.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from providers.adapters.base import ConsoleLog, HasVolumes, OwnAccount
from providers.adapters.modal import deployment, gpu, request
from providers.adapters.modal.apps import Apps
from providers.adapters.modal.errors import RESULTS, not_started
from providers.adapters.modal.functions import Functions, is_app
from providers.adapters.modal.gpu import PROVIDER
from providers.adapters.modal.volumes import ModalVolumes
from providers.errors import (
    CloudError,
    HalfMade,
    NoCapacity,
    OutcomeUnknown,
    Transient,
    Unsupported,
)
from providers.model.machine import (
    ENDED,
    FAILED,
    GONE,
    PENDING,
    QUEUED,
    RUNNING,
    STOPPING,
    CheckLine,
    Handle,
    Node,
    Ticket,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.adapters.modal.client import Client
    from providers.model.machine import Order
    from providers.model.offer import Candidate, Offer

SETTLE_S = 5.0
"""World seconds after a lost answer during which the absence of a sandbox proves nothing: the
server may still be at it.
"""

SANDBOX, APP, DEADLINE, GIVING_UP = "sandbox", "app", "deadline", "giving-up"


class Modal(ConsoleLog, OwnAccount, HasVolumes):
    """The adapter, in one world. `now` is that world's clock.

    `untouched` tells of a rehearsal in which nothing was ever ordered: to look for machines there
    would import the client for nothing.
    """

    def __init__(
        self,
        world: str,
        client: Client,
        now: Callable[[], float],
        untouched: Callable[[], bool] = lambda: False,
    ) -> None:
        self.world = world
        self.client = client
        self.now = now
        self._untouched = untouched
        self.functions = Functions(Apps(client), now, self.volumes)
        self._lock = threading.Lock()
        self._lost: dict[str, float] = {}
        self._made: dict[str, dict[str, str]] = {}
        """Tags of the sandboxes that this process ordered. Whether Modal's list holds what still
        queues was never seen at the real server.
        """
        self._ended: set[str] = set()
        """Sandboxes that this process was told to delete: a finished one of these is gone, not
        ended by itself.
        """

    @property
    def name(self) -> str:
        return PROVIDER

    @property
    def account(self) -> Mapping[str, str]:
        """Where everything here is made and looked up, wherever it was set: the app, the
        environment, and the profile of the token if it has one.

        An empty environment is the workspace's default one: it stands there too, or a later
        variable would name another.
        """
        profile = {"profile": self.client.token.profile} if self.client.token.profile else {}
        return {"app": self.client.app_name, "environment": self.client.environment, **profile}

    @property
    def volumes(self) -> ModalVolumes:
        return ModalVolumes(self.client, self._untouched)

    def offers(self) -> Sequence[Offer] | None:
        # Modal publishes one price list for everybody; the bundled catalog holds it with its date.
        return None

    def check(self) -> Sequence[CheckLine]:
        lines = [CheckLine(PROVIDER, "token", "ok", self.client.token.source)]
        try:
            lines.append(
                CheckLine(PROVIDER, "workspace", "ok", self.client.workspace() or "unnamed")
            )
            limit = self.client.gpu_limit()
        except CloudError as error:
            refused = type(error).__name__ == "BadCredentials"
            todo = (
                "run `modal token new`"
                if refused
                else "see status.modal.com, and whether this machine reaches the server"
            )
            state = "refused" if refused else "unknown"
            return [
                CheckLine(PROVIDER, "token", state, self.client.token.source),
                CheckLine(PROVIDER, "workspace", state, str(error), todo),
            ]
        found = f"{limit} GPUs at once" if limit else "no limit stated"
        return [
            *lines,
            CheckLine(PROVIDER, "environment", "ok", self.client.environment or "default"),
            CheckLine(PROVIDER, "quota", "ok", found),
        ]

    def group(self, candidates: Sequence[Candidate]) -> int:
        # Modal's ordered GPU list is for functions; a sandbox takes exactly one (the client refuses
        # a list: sandbox/_common.py of 1.6.4).
        return 1 if candidates[0].kind == "machine" else deployment.group(candidates)

    # Ordering

    def submit(self, order: Order) -> Ticket:
        order = self.volumes.ordered(order)
        if order.candidates[0].kind != "machine":
            return self.functions.submit(order)
        wanted = request.compile_order(order)
        image = self.client.image_id(wanted.options, wanted.registry)
        app = self.client.app_id(create=True)
        secrets = self.client.secret_ids(wanted.secrets)
        mounts = self.client.bucket_mounts(wanted.mounts)
        volumes = self.volumes.mounts(order.setup.volumes)
        try:
            sandbox = self.client.create(app, image, wanted, order.token, secrets, mounts, volumes)
        except OutcomeUnknown:
            with self._lock:
                self._lost[order.token] = self.now()
            raise
        except Transient as error:
            if error.code == "NOT_FOUND":
                # The image was removed at Modal: the next try builds it again.
                self.client.forget_images()
            if error.code != "ALREADY_EXISTS":
                raise
            return self._bearing_our_name(order, wanted, app, error)
        return self._queued(order, wanted, sandbox, app)

    def _bearing_our_name(
        self, order: Order, wanted: request.Request, app: str, error: Transient
    ) -> Ticket:
        """A name is unique among an app's running sandboxes: either this very order was carried out
        before, or somebody else has it.
        """
        sandbox = self.client.by_name(wanted.name)
        tags = (self.client.tags(sandbox) if sandbox else None) or {}
        if tags.get(request.ORDER) == order.token:
            return self._queued(order, wanted, sandbox, app)
        raise Transient(
            f"Modal: wanted a new sandbox {wanted.name}, found {sandbox or 'one'} of that name in"
            f" app {self.client.app_name}; end it first",
            provider=PROVIDER,
            code="ALREADY_EXISTS",
        ) from error

    def _queued(self, order: Order, wanted: request.Request, sandbox: str, app: str) -> Ticket:
        with self._lock:
            self._made[sandbox] = wanted.tags
        native = ((SANDBOX, sandbox), (APP, app), (DEADLINE, repr(self.now() + order.wait_s)))
        return Ticket(order, "waiting", native, detail=f"{sandbox} queues for {wanted.gpu}")

    def poll(self, ticket: Ticket) -> Ticket:
        if ticket.order.candidates[0].kind != "machine":
            return self.functions.poll(ticket)
        native = dict(ticket.native)
        sandbox, order = native[SANDBOX], ticket.order
        wanted = request.compile_order(order)
        seen = self.client.result(sandbox)
        if seen is None or seen.result.status:
            return self._finished_early(ticket, wanted, seen)
        task = self.client.task_id(sandbox)
        info = self.client.task(task) if task else None
        if info is not None and info.started_at > 0 and GIVING_UP not in native:
            return ticket._replace(
                state="done",
                placed=order.candidates[0],
                handles=(Handle(PROVIDER, sandbox),),
                detail=f"{task} started",
            )
        if GIVING_UP in native or self.now() >= float(native[DEADLINE]):
            self.client.terminate(sandbox)
            return ticket._replace(
                native=tuple({**native, GIVING_UP: "1"}.items()),
                detail=f"{sandbox} did not start in time and is being ended",
            )
        return ticket

    def _finished_early(self, ticket: Ticket, wanted: request.Request, seen: Any) -> Ticket:
        """A sandbox that ended before it was handed over: by us after the wait, or by itself.
        Nothing is left once no container is listed.
        """
        native = dict(ticket.native)
        sandbox = native[SANDBOX]
        task = self.client.task_id(sandbox) if seen is not None else ""
        if task and task in self.client.running_tasks(native[APP]):
            if self.now() < float(native[DEADLINE]) + ticket.order.wait_s + SETTLE_S:
                return ticket._replace(
                    detail=f"{sandbox} has ended, yet its container {task} is still listed"
                )
            raise HalfMade(
                f"Modal ended sandbox {sandbox}, yet still lists its container {task}",
                handles=(Handle(PROVIDER, sandbox),),
                provider=PROVIDER,
                code="still-listed",
            )
        if GIVING_UP in native or seen is None:
            raise not_started(wanted.gpu, ticket.order.wait_s)
        word = _word(seen.result.status)
        message = f"Modal: sandbox {sandbox} ended as {word} before it was ready"
        said = f"{message}: {seen.result.exception}" if seen.result.exception else message
        if RESULTS[word] in {"preempted", GONE}:
            raise NoCapacity(said, provider=PROVIDER, code=word)
        raise Unsupported(
            f"{said}; look at options.modal.image and command",
            provider=PROVIDER,
            code=word,
            block_s=0.0,
        )

    def resume(self, order: Order) -> Ticket | None:
        if order.candidates[0].kind != "machine":
            return self.functions.resume(order)
        wanted = request.compile_order(order)
        app = self.client.app_id()
        sandbox = self._of_token(app, wanted, order.token) if app else ""
        if sandbox:
            return self._queued(order, wanted, sandbox, app)
        with self._lock:
            lost = self._lost.get(order.token)
        if lost is not None and self.now() < lost + SETTLE_S:
            raise OutcomeUnknown(
                "Modal knows no sandbox of this order yet",
                token=order.token,
                provider=PROVIDER,
                code="settling",
            )
        return None

    def _of_token(self, app: str, wanted: request.Request, token: str) -> str:
        for found in self.client.list(app, {request.ORDER: token}):
            return str(found.id)
        # Should the list leave out what still queues: a name is taken from the start.
        named = self.client.by_name(wanted.name)
        if named and (self.client.tags(named) or {}).get(request.ORDER) == token:
            return named
        return ""

    # Seeing

    def observe(self, handles: Sequence[Handle]) -> Sequence[Node]:
        return [
            self.functions.observe(handle) if is_app(handle) else self._node(handle)
            for handle in handles
        ]

    def log(self, handle: Handle) -> str:
        """The last thousand lines that its containers wrote, as Modal keeps them."""
        app = handle.native_id if is_app(handle) else self.client.app_id()
        return (
            self.functions.apps.log(
                app, self.now(), sandbox="" if is_app(handle) else handle.native_id
            )
            if app
            else ""
        )

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        if self._untouched():
            return []
        wanted = {request.OWNER: owner} if owner else {}
        if cluster:
            wanted[request.CLUSTER] = cluster
        if generation:
            wanted[request.GENERATION] = generation
        return [*self._sandboxes(wanted), *self.functions.find(wanted)]

    def _sandboxes(self, wanted: Mapping[str, str]) -> Sequence[Node]:
        app = self.client.app_id()
        if not app:
            return []
        listed = {str(item.id): item for item in self.client.list(app, wanted)}
        with self._lock:
            own = [
                sandbox
                for sandbox, tags in self._made.items()
                if wanted.items() <= tags.items() and sandbox not in listed
            ]
        nodes = [
            self._node(Handle(PROVIDER, sandbox), listed.get(sandbox))
            for sandbox in [*listed, *own]
        ]
        # Of any owner: the app is ours, but others may have put a sandbox of their own into it.
        return [
            node
            for node in nodes
            if node.status not in {GONE, ENDED, FAILED} and node.label is not None
        ]

    def _node(self, handle: Handle, listed: Any = None) -> Node:
        """One sandbox as it is now: up to five calls."""
        sandbox = handle.native_id
        seen = self.client.result(sandbox)
        tags = self.client.tags(sandbox) if seen is not None else None
        if seen is None or tags is None:
            return Node(handle, sandbox, GONE, detail="Modal knows no such sandbox")
        ordered, count, exact = request.ordered_gpu(tags)
        node = Node(
            handle,
            tags.get(request.NAME, sandbox),
            QUEUED,
            request.label_of(tags),
            region=tags.get(request.PLACE, ""),
            machine_type=request.machine_type(count) if ordered else "",
            gpu_type=ordered,
            gpu_count=count,
            capacity="on-demand",
            login=f"modal shell {sandbox}",
        )
        task = self.client.task_id(sandbox)
        info = self.client.task(task) if task else None
        if listed is not None:
            node = node._replace(created_at=float(listed.created_at))
        elif info is not None:
            node = node._replace(created_at=float(info.enqueued_at or info.started_at))
        if seen.result.status:
            return self._finished(node, seen, task)
        if info is None or not info.started_at:
            return node._replace(
                status=QUEUED if info is None else PENDING, detail="no container yet"
            )
        return _delivered(node._replace(status=RUNNING), info, exact=exact)

    def _finished(self, node: Node, seen: Any, task: str) -> Node:
        """A finished sandbox is over only once its container is listed no more: containers were
        seen to outlive their end by days.
        """
        word = _word(seen.result.status)
        app = str(seen.metadata.app_id) or self.client.app_id()
        if task and task in self.client.running_tasks(app):
            return node._replace(
                status=STOPPING, detail=f"ended ({word}), yet its container {task} is still listed"
            )
        with self._lock:
            deleted = node.handle.native_id in self._ended
            self._made.pop(node.handle.native_id, None)
        state = GONE if deleted else RESULTS.get(word, FAILED)
        return node._replace(
            status=state,
            detail=f"{word}: {seen.result.exception}" if seen.result.exception else word,
        )

    # Changing

    def delete(self, handle: Handle) -> None:
        if is_app(handle):
            self.functions.delete(handle)
            return
        self.client.terminate(handle.native_id)
        with self._lock:
            self._ended.add(handle.native_id)

    def relabel(self, handle: Handle, generation: str) -> None:
        if is_app(handle):
            self.functions.relabel(handle, generation)
            return
        tags = self._tags(handle)
        self.client.set_tags(handle.native_id, {**tags, request.GENERATION: generation})
        with self._lock:
            self._made.pop(handle.native_id, None)

    def update(self, handle: Handle, change: Mapping[str, object]) -> None:
        if is_app(handle):
            self.functions.update(handle, change)
            return
        labels = change.get("labels")
        if isinstance(labels, dict):
            own = {
                key: value
                for key, value in self._tags(handle).items()
                if key.startswith(request.OWN_PREFIX)
            }
            self.client.set_tags(
                handle.native_id, {**{str(key): str(value) for key, value in labels.items()}, **own}
            )

    def _tags(self, handle: Handle) -> dict[str, str]:
        tags = self.client.tags(handle.native_id)
        if tags is None:
            raise Transient(
                f"Modal knows no sandbox {handle.native_id}", provider=PROVIDER, code="NOT_FOUND"
            )
        return tags


def _delivered(node: Node, info: Any, *, exact: bool) -> Node:
    """The node with the GPUs that Modal says it has. Its own upgrade at the same price counts as
    what was ordered, and is said.
    """
    name, _ = gpu.read(str(info.gpu_config.gpu_type or info.gpu_type))
    count = int(info.gpu_config.count)
    if not name:
        return node
    if name != node.gpu_type and gpu.delivered_as_ordered(node.gpu_type, name, exact=exact):
        return node._replace(
            gpu_count=count or node.gpu_count,
            detail=f"upgraded to {name} at the price of {node.gpu_type}",
        )
    return node._replace(gpu_type=name, gpu_count=count or node.gpu_count)


def _word(value: int) -> str:
    from modal_proto import api_pb2

    return str(api_pb2.GenericResult.GenericStatus.Name(value)).removeprefix("GENERIC_STATUS_")
