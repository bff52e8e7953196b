"""Jobs and services as the engine sees them. Owns their life: deployed, started in time or given
up, seen, redeployed, stopped and confirmed.

A handle is the app's id. As with a sandbox, capacity is a container that really started before the
order's wait is over. A job that has ended, well or not, is done: its app stays, which costs
nothing, until it is deleted. Must not import the engine.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from providers.adapters.modal import deployment as deployments
from providers.adapters.modal import gpu, request
from providers.adapters.modal.apps import delivered
from providers.adapters.modal.deployment import CALL, JOB, KIND, SERVICE
from providers.adapters.modal.errors import JOB_RESULTS, not_started
from providers.adapters.modal.gpu import PROVIDER
from providers.errors import CloudError, HalfMade, OutcomeUnknown, Transient
from providers.model.machine import (
    ENDED,
    GONE,
    PENDING,
    QUEUED,
    RUNNING,
    STOPPED,
    STOPPING,
    Handle,
    Node,
    Setup,
    Ticket,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.adapters.modal.apps import Apps
    from providers.adapters.modal.deployment import Deployment
    from providers.adapters.modal.volumes import ModalVolumes
    from providers.model.machine import Order
    from providers.model.offer import Candidate

SETTLE_S = 5.0
"""World seconds after a lost answer during which nothing being there proves nothing."""

APP, NAME, DEADLINE, GIVING_UP = "app", "name", "deadline", "giving-up"


def is_app(handle: Handle) -> bool:
    """True for a job's or a service's handle."""
    return handle.native_id.startswith("ap-")


class Functions:
    """Jobs and services in one world. `now` is that world's clock."""

    def __init__(self, apps: Apps, now: Callable[[], float], volumes: ModalVolumes) -> None:
        self.apps = apps
        self.volumes = volumes
        self.now = now
        self._lock = threading.Lock()
        self._lost: dict[str, float] = {}

    # Ordering

    def submit(self, order: Order) -> Ticket:
        """Deploys, and starts a job's command: that, and a service's going live, are the creating
        calls.
        """
        made = deployments.compile_order(order)
        self.apps.client.image_id(made.options, made.registry)
        try:
            app = self.apps.deploy(made, warm=True)
        except OutcomeUnknown as error:
            if made.kind == JOB:
                # A deployed function runs nothing and costs nothing: the next try deploys the same
                # app again.
                raise Transient(
                    f"{error.message}; nothing runs yet",
                    words=error.words,
                    provider=PROVIDER,
                    code=error.code,
                ) from error
            self._note_lost(order)
            raise
        if made.kind == JOB:
            self._start(order, made, app)
        return self._waiting(order, made, app)

    def _start(self, order: Order, made: Deployment, app: str) -> None:
        try:
            call = self.apps.spawn(self._function(made.name, JOB), order.token)
        except OutcomeUnknown:
            self._note_lost(order)
            raise
        except CloudError as error:
            try:
                self.apps.stop(app)
            except CloudError as left:
                raise HalfMade(
                    f"{error}; its app {app} could not be stopped: {left}",
                    handles=[Handle(PROVIDER, app)],
                    provider=PROVIDER,
                ) from error
            raise
        with suppress(CloudError):
            # A call whose id could not be written is found by listing the function's calls.
            self.apps.set_tags(app, {**made.tags, CALL: call})

    def _function(self, name: str, kind: str) -> str:
        found = self.apps.function(name, deployments.FUNCTION[kind])
        if not found:
            raise Transient(
                f"Modal shows no function {deployments.FUNCTION[kind]} in {name} yet",
                provider=PROVIDER,
                code="NOT_FOUND",
            )
        return found

    def _note_lost(self, order: Order) -> None:
        with self._lock:
            self._lost[order.token] = self.now()

    def _waiting(self, order: Order, made: Deployment, app: str) -> Ticket:
        native = ((APP, app), (NAME, made.name), (DEADLINE, repr(self.now() + order.wait_s)))
        return Ticket(
            order,
            "waiting",
            native,
            detail=f"{made.name} waits for {deployments.listed(made.gpus)}",
        )

    def poll(self, ticket: Ticket) -> Ticket:
        """Done once a container has started, or a job has ended already; given up after the order's
        wait.
        """
        native, order = dict(ticket.native), ticket.order
        made = deployments.compile_order(order)
        app = native[APP]
        stopped, _ = self.apps.stopped(app)
        listed = self.apps.containers(app)
        if GIVING_UP in native or stopped:
            return self._given_up(ticket, made, listed, stopped=stopped)
        started = next((task for task in listed if task.started_at > 0), None)
        task_id = started.task_id if started is not None else ""
        if made.kind == JOB and not task_id:
            item = self._end(app, made.name, {})
            if item is not None:
                return self._done(ticket, app, str(item.task_id))
        if task_id:
            if made.kind == SERVICE and not made.options.min_containers:
                self.apps.scale(made.name, 0)
            return self._done(ticket, app, task_id)
        if self.now() >= float(native[DEADLINE]):
            self._stop(app, made.name, made.kind)
            return ticket._replace(
                native=tuple({**native, GIVING_UP: "1"}.items()),
                detail=f"{made.name} did not start in time and is being stopped",
            )
        return ticket

    def _done(self, ticket: Ticket, app: str, task_id: str) -> Ticket:
        name = delivered(self.apps.client.task(task_id)) if task_id else ""
        placed = next(
            (candidate for candidate in ticket.order.candidates if _is(candidate, name)),
            ticket.order.candidates[0],
        )
        return ticket._replace(
            state="done",
            placed=placed,
            handles=(Handle(PROVIDER, app),),
            detail=f"{task_id or app} started",
        )

    def _given_up(
        self, ticket: Ticket, made: Deployment, listed: Sequence[Any], *, stopped: bool
    ) -> Ticket:
        native = dict(ticket.native)
        if stopped and not listed:
            raise not_started(deployments.listed(made.gpus), ticket.order.wait_s)
        if self.now() < float(native[DEADLINE]) + ticket.order.wait_s + SETTLE_S:
            return ticket._replace(
                detail=f"{made.name} is stopped, yet {len(listed)} containers are still listed"
            )
        raise HalfMade(
            f"Modal stopped app {native[APP]}, yet still lists"
            f" {', '.join(task.task_id for task in listed) or 'the app'}",
            handles=(Handle(PROVIDER, native[APP]),),
            provider=PROVIDER,
            code="still-listed",
        )

    def resume(self, order: Order) -> Ticket | None:
        """By the app's name, which holds the order's token; a job counts as made once it has a
        call.
        """
        made = deployments.compile_order(order)
        app = self.apps.by_name(made.name)
        tags = (self.apps.tags(app) if app else None) or {}
        if tags.get(request.ORDER) == order.token and (
            made.kind == SERVICE or self._call(made.name, tags)
        ):
            return self._waiting(order, made, app)
        with self._lock:
            lost = self._lost.get(order.token)
        if self.apps.deploying(made.name) or (lost is not None and self.now() < lost + SETTLE_S):
            raise OutcomeUnknown(
                f"Modal knows no {made.kind} of this order yet",
                token=order.token,
                provider=PROVIDER,
                code="settling",
            )
        return None

    def _call(self, name: str, tags: Mapping[str, str]) -> str:
        """The job's call: as the app says, else the first that is listed."""
        if tags.get(CALL):
            return tags[CALL]
        function = self.apps.function(name, deployments.FUNCTION[JOB])
        return next(iter(self.apps.calls(function)), "") if function else ""

    def _end(self, app: str, name: str, tags: Mapping[str, str]) -> Any | None:
        call = self._call(name, tags or self.apps.tags(app) or {})
        return self.apps.result(call) if call else None

    # Seeing

    def find(self, wanted: Mapping[str, str]) -> Sequence[Node]:
        """Every app that is not stopped and bears these tags."""
        cluster = wanted.get(request.CLUSTER, "")
        found = []
        for app in self.apps.list(f"{deployments.APP_PREFIX}{cluster}"):
            tags = self.apps.tags(app.id)
            if (
                tags is not None
                and {KIND, request.OWNER} <= tags.keys()
                and wanted.items() <= tags.items()
            ):
                found.append(self._node(Handle(PROVIDER, app.id), tags))
        return [node for node in found if node.status != GONE]

    def observe(self, handle: Handle) -> Node:
        """One app as it is now."""
        tags = self.apps.tags(handle.native_id)
        if tags is not None and KIND in tags:
            return self._node(handle, tags)
        still = ", ".join(task.task_id for task in self.apps.containers(handle.native_id))
        detail = (
            f"Modal knows no such app of ours, yet lists {still}"
            if still
            else "Modal knows no such app of ours"
        )
        return Node(handle, handle.native_id, STOPPING if still else GONE, detail=detail)

    def _node(self, handle: Handle, tags: Mapping[str, str]) -> Node:
        app, kind, name = handle.native_id, tags[KIND], tags.get(request.NAME, handle.native_id)
        choices, count = deployments.ordered(tags)
        stopped, created = self.apps.stopped(app)
        listed = self.apps.containers(app)
        node = Node(
            handle,
            name,
            PENDING,
            request.label_of(tags),
            region=tags.get(request.PLACE, ""),
            machine_type=request.machine_type(count),
            gpu_count=count,
            capacity="on-demand",
            created_at=created,
            login=f"modal app logs {app}",
            kind=kind,
        )
        if stopped:
            still = ", ".join(task.task_id for task in listed)
            detail = f"stopped, yet still listed: {still}" if still else "stopped"
            return node._replace(status=STOPPING if still else GONE, detail=detail)
        running = next((task.task_id for task in listed if task.started_at > 0), "")
        if kind == SERVICE:
            return self._service(
                _with_gpu(node, choices, self._delivered(running)), tags, len(listed)
            )
        return self._job(node, choices, tags, running)

    def _delivered(self, task_id: str) -> str:
        return delivered(self.apps.client.task(task_id)) if task_id else ""

    def _job(
        self, node: Node, choices: Sequence[tuple[str, bool]], tags: Mapping[str, str], running: str
    ) -> Node:
        call = self._call(node.name, tags)
        if not call:
            return node._replace(
                status=STOPPED, detail="deployed, but its command was never started"
            )
        try:
            item = self.apps.result(call)
        except Transient as error:
            if error.code != "expired":
                raise
            return _with_gpu(
                node._replace(status=ENDED, detail=f"{call} has ended; {error}"), choices, ""
            )
        if item is None:
            node = node._replace(
                status=RUNNING if running else QUEUED,
                detail=call if running else f"{call} waits for a container",
            )
            return _with_gpu(node, choices, self._delivered(running))
        word = str(
            self.apps.client.proto().GenericResult.GenericStatus.Name(item.result.status)
        ).removeprefix("GENERIC_STATUS_")
        said = (
            "exit code 0"
            if word == "SUCCESS"
            else f"{word}: {item.result.exception}"
            if item.result.exception
            else word
        )
        return _with_gpu(
            node._replace(status=JOB_RESULTS[word], detail=f"{call}: {said}"),
            choices,
            self._delivered(str(item.task_id)),
        )

    def _service(self, node: Node, tags: Mapping[str, str], containers: int) -> Node:
        seen = self.apps.served(node.name)
        if seen is None:
            return node._replace(status=RUNNING, drift="its function is gone")
        url, facets = seen
        several = "" if containers == 1 else "s"
        text = f"{containers} container{several}" if containers else "scaled to zero"
        detail = f"{node.detail}; {text}" if node.detail else text
        return node._replace(
            status=RUNNING, url=url, detail=detail, drift=deployments.drifted(tags, facets)
        )

    # Changing

    def delete(self, handle: Handle) -> None:
        """Ends a job's call and stops the app. It is gone only when no container is listed: see
        `_node`.
        """
        tags = self.apps.tags(handle.native_id)
        if tags is not None and KIND in tags:
            self._stop(handle.native_id, tags.get(request.NAME, ""), tags[KIND], tags)

    def _stop(self, app: str, name: str, kind: str, tags: Mapping[str, str] | None = None) -> None:
        if kind == JOB:
            call = self._call(name, tags or self.apps.tags(app) or {})
            if call:
                self.apps.cancel(call)
        self.apps.stop(app)

    def relabel(self, handle: Handle, generation: str) -> None:
        """Writes a new generation on the app."""
        self.apps.set_tags(handle.native_id, {**self._tags(handle), request.GENERATION: generation})

    def update(self, handle: Handle, change: Mapping[str, object]) -> None:
        """Labels are written; a service is redeployed under the same name, and its containers roll
        over.
        """
        tags = self._tags(handle)
        setup = change.get("service")
        labels = change.get("labels")
        if isinstance(labels, dict):
            own = {key: value for key, value in tags.items() if key.startswith(request.OWN_PREFIX)}
            tags = {**{str(key): str(value) for key, value in labels.items()}, **own}
        if isinstance(setup, Setup):
            setup = self.volumes.named(tags.get(request.OWNER, ""), setup)
            made = deployments.compiled(
                {**tags, request.FINGERPRINT: str(change.get("fingerprint", ""))}, setup
            )
            self.apps.client.image_id(made.options, made.registry)
            self.apps.deploy(made)
        elif isinstance(labels, dict):
            self.apps.set_tags(handle.native_id, tags)

    def _tags(self, handle: Handle) -> dict[str, str]:
        tags = self.apps.tags(handle.native_id)
        if tags is None:
            raise Transient(
                f"Modal knows no app {handle.native_id}", provider=PROVIDER, code="NOT_FOUND"
            )
        return tags


def _is(candidate: Candidate, name: str) -> bool:
    return bool(name) and gpu.delivered_as_ordered(candidate.gpu_type, name, exact=candidate.exact)


def _with_gpu(node: Node, choices: Sequence[tuple[str, bool]], name: str) -> Node:
    """The node with the GPU that a container has; the first of the list while Modal names none.
    Modal's own upgrade counts as what was ordered.
    """
    first = choices[0][0] if choices else ""
    ordered = next((choice for choice, exact in choices if choice == name), "") or next(
        (
            choice
            for choice, exact in choices
            if name and gpu.delivered_as_ordered(choice, name, exact=exact)
        ),
        "",
    )
    if not name or ordered == name:
        return node._replace(gpu_type=name or first)
    if ordered:
        return node._replace(
            gpu_type=ordered,
            detail=(
                f"{f'{node.detail}; ' if node.detail else ''}upgraded to {name} at the price of"
                f" {ordered}"
            ),
        )
    return node._replace(gpu_type=name)
