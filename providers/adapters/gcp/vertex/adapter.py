"""Vertex AI's custom jobs behind the adapter protocol: submitted once, watched, found again by
their labels, cancelled and confirmed.

A create has no request id, so one POST is one job: a lost answer is looked up by the order's label,
and a job that a request delivered twice made besides is cancelled before the order counts as done.
Google's packages come in through `client` only. Must not import the engine.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from providers.adapters.base import OwnAccount, rehearsal_endpoint
from providers.adapters.gcp.client import (
    Api,
    Client,
    checked_project,
    default_credentials,
)
from providers.adapters.gcp.errors import Context
from providers.adapters.gcp.vertex import job as native
from providers.adapters.gcp.vertex.errors import PROVIDER, from_exception, from_http, never_ran
from providers.adapters.gcp.vertex.memory import Memory
from providers.adapters.gcp.vertex.regions import LOCATIONS
from providers.errors import (
    CloudError,
    NoCapacity,
    NotConfigured,
    OutcomeUnknown,
    RateLimited,
    Transient,
    Unsupported,
)
from providers.home import REHEARSAL_FILE, home
from providers.model.ask import FLEX_START
from providers.model.machine import GONE, CheckLine, Node, Ticket
from providers.model.place import Scope
from providers.model.worlds import LIVE, REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from providers.model.machine import Handle, Order
    from providers.model.offer import Candidate, Offer
    from providers.model.worlds import RehearsedCloud

REHEARSAL_PROJECT = "rehearsal"
PROJECT_VARIABLE = "GPUS_VERTEX_PROJECT"
MEMORY_FILE = "vertex.db"
SECOND_LOOK_S = 3.0
"""Before "nothing was made" is believed, it is looked up twice: a request whose answer was lost may
still be on its way.
"""
CHECK_REGION = "us-central1"
AT_ONCE = 8
"""How many regions are listed at once: the API has no list over all of them."""
PAGE = 100

JOB = "job"


def endpoint_of(uri: str) -> str:
    """The address of a request at its region's own endpoint: Vertex AI serves a region's jobs only
    there. Pure.
    """
    _, found, rest = uri.partition("/locations/")
    region = rest.partition("/")[0] if found else ""
    return (
        uri.replace(
            "https://aiplatform.googleapis.com/", f"https://{region}-aiplatform.googleapis.com/", 1
        )
        if region
        else uri
    )


API = Api("aiplatform", "v1", PROVIDER, from_http, from_exception, endpoint_of)


def connect(
    world: str, config: Mapping[str, str], rehearsed: RehearsedCloud | None = None
) -> Vertex:
    """The adapter; see `providers.adapters.gcp.vertex.connect`."""
    endpoint = config.get("endpoint") or ""
    return (
        _rehearsal(config.get("project") or REHEARSAL_PROJECT, endpoint, rehearsed)
        if world == REHEARSAL
        else _live(config.get("project") or "", endpoint or None)
    )


def _rehearsal(project: str, endpoint: str, rehearsed: RehearsedCloud | None) -> Vertex:
    from google.auth.credentials import AnonymousCredentials

    url = rehearsal_endpoint(PROVIDER, endpoint, rehearsed)
    client = Client(checked_project(project, PROVIDER), AnonymousCredentials(), url, api=API)
    return Vertex(
        REHEARSAL,
        client,
        Memory(home() / REHEARSAL_FILE),
        second_look_s=0.05,
        untouched=rehearsed.untouched if rehearsed is not None else lambda: False,
    )


def _live(project: str, endpoint: str | None) -> Vertex:
    import os

    from providers.home import home

    # Never by the default project: who uses Compute Engine alone is not to be asked for rights at
    # Vertex AI, by a plan or by a destroy.
    project = project or os.environ.get(PROJECT_VARIABLE, "")
    if not project:
        text = (
            "vertex: wanted the project whose jobs these are, found none; set `vertex:project`, or"
            f" {PROJECT_VARIABLE}"
        )
        raise NotConfigured(text, provider=PROVIDER, code="NO_PROJECT")
    credentials, _ = default_credentials(PROVIDER)
    return Vertex(
        LIVE,
        Client(checked_project(project, PROVIDER), credentials, endpoint, api=API),
        Memory(home(writable=False) / MEMORY_FILE),
    )


class Vertex(OwnAccount):
    """Custom jobs in one world and project. Safe from several threads.

    `untouched` tells of a rehearsal in which nothing was ever ordered: nothing has to be looked for
    there.
    """

    def __init__(
        self,
        world: str,
        client: Client,
        memory: Memory,
        *,
        sleep: Callable[[float], None] = time.sleep,
        second_look_s: float = SECOND_LOOK_S,
        untouched: Callable[[], bool] = lambda: False,
    ) -> None:
        self.world = world
        self.client = client
        self._memory = memory
        self._sleep = sleep
        self._second_look_s = second_look_s
        self._untouched = untouched
        self._ending = threading.Lock()

    @property
    def name(self) -> str:
        return PROVIDER

    @property
    def account(self) -> Mapping[str, str]:
        """The project that everything here is made in and looked up in."""
        return {"project": self.client.project}

    def offers(self) -> Sequence[Offer] | None:
        """None: what is sold, and at which estimate, follows from the bundled offers of Compute
        Engine; see `offers`.
        """
        return None

    def group(self, candidates: Sequence[Candidate]) -> int:
        """One: a job names one machine type in one region."""
        del candidates
        return 1

    def check(self) -> Sequence[CheckLine]:
        """One list of one entry, in one region."""
        project = self.client.project
        where = (
            "the rehearsal cloud needs none"
            if self.world == REHEARSAL
            else "application default credentials"
        )
        context = Context(f"vertex {project}: listing jobs", project)
        try:
            self.client.call(
                lambda s: _jobs(s).list(parent=self._parent(CHECK_REGION), pageSize=1), context
            )
        except CloudError as error:
            todo = (
                f"ask for roles/aiplatform.user in {project}; gcloud services enable"
                f" aiplatform.googleapis.com --project={project}"
            )
            state = (
                "refused"
                if type(error).__name__ == "BadCredentials"
                else "missing"
                if isinstance(error, NotConfigured)
                else "unknown"
            )
            return [CheckLine(PROVIDER, "Vertex AI API", state, str(error), todo)]
        quota = f"https://console.cloud.google.com/iam-admin/quotas?project={project}&service=aiplatform.googleapis.com"
        return [
            CheckLine(PROVIDER, "credentials", "ok", where),
            CheckLine(PROVIDER, "project", "ok", project),
            CheckLine(PROVIDER, "Vertex AI API", "ok", f"answers in {CHECK_REGION}"),
            CheckLine(
                PROVIDER,
                "quota custom_model_training_*",
                "unknown",
                "not told by this API, which is not zero: a try will tell",
                f"see {quota}",
            ),
        ]

    # Ordering

    def submit(self, order: Order) -> Ticket:
        """One POST; the answer is the job. Nothing is sent for what Vertex AI could not do."""
        body = native.body(order)
        first, context = order.candidates[0], self._context(order)
        made = self.client.call(
            lambda s: _jobs(s).create(parent=self._parent(first.region), body=body),
            context._replace(creating=True),
        )
        name = str(made.get("name") or "")
        if not name:
            raise OutcomeUnknown(
                f"{context.what}: the answer names no job",
                token=order.token,
                provider=PROVIDER,
                code="NO_NAME",
            )
        return Ticket(order, "waiting", ((JOB, name),), detail=f"job {name.rsplit('/', 1)[-1]}")

    def poll(self, ticket: Ticket) -> Ticket:
        """Done once all of its machines are there, or it has ended after that; what a request
        delivered twice made besides is cancelled first.
        """
        order, name = ticket.order, dict(ticket.native)[JOB]
        context = self._context(order)
        job = self._get(name, context)
        if job is None or native.state(job) == native.CANCELLED:
            text = (
                f"{context.what}: the job was {'deleted' if job is None else 'cancelled'} before"
                " it ran"
            )
            raise NoCapacity(text, provider=PROVIDER, code="GONE", scopes=[self._place(order)])
        if native.ran(job):
            if self._twins(order, name, context):
                return ticket._replace(
                    detail="the request arrived twice; the second job is being cancelled"
                )
            handles = native.handles(name, order.candidates[0].nodes)
            return ticket._replace(
                state="done", placed=order.candidates[0], handles=handles, detail=native.state(job)
            )
        if native.state(job) in native.FINAL:
            raise never_ran(job, context)
        waits = order.candidates[0].capacity == FLEX_START and native.state(job) in native.WAITS
        return ticket._replace(state="queued" if waits else "waiting")

    def resume(self, order: Order) -> Ticket | None:
        """Looks for the order's job by its label, twice, shortly after each other."""
        context = self._context(order)
        try:
            for look in range(2):
                if look:
                    self._sleep(self._second_look_s)
                if found := self._of_order(order, context):
                    # Of two, the one that is not over; else the first.
                    best = min(
                        found,
                        key=lambda job: (
                            native.state(job) in native.FINAL,
                            str(job.get("createTime", "")),
                            str(job["name"]),
                        ),
                    )
                    return Ticket(order, "waiting", ((JOB, str(best["name"])),))
        except (OutcomeUnknown, RateLimited, Transient):
            raise
        except CloudError as error:
            text = f"{error.message}; so it could not be looked up"
            raise OutcomeUnknown(
                text, words=error.words, token=order.token, provider=PROVIDER, code=error.code
            ) from None
        return None

    def _of_order(self, order: Order, context: Context) -> list[dict[str, Any]]:
        return list(
            self._listed(
                order.candidates[0].region, f'labels.{native.ORDER}="{order.token}"', context
            )
        )

    def _twins(self, order: Order, name: str, context: Context) -> bool:
        """True while another job of the same order is not over. Cancels it."""
        others = [
            job
            for job in self._of_order(order, context)
            if job["name"] != name and native.state(job) not in native.FINAL
        ]
        for job in others:
            if native.state(job) != native.CANCELLING:
                self._cancel(str(job["name"]), context)
        return bool(others)

    # Seeing

    def observe(self, handles: Sequence[Handle]) -> Sequence[Node]:
        """One GET for each job."""
        seen: dict[str, dict[str, Any] | None] = {}
        for handle in handles:
            name, region, _ = native.parse(handle)
            if name not in seen:
                seen[name] = self._get(
                    name, Context(f"vertex {region}: looking at a job", self.client.project)
                )
        return [self._node(handle, seen[native.parse(handle)[0]]) for handle in handles]

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        """Every region, page by page, by labels. A job that was cancelled is over and serves
        nobody: it is not found.
        """
        if self._untouched():
            return []
        parts = ((native.OWNER, owner), (native.CLUSTER, cluster))
        tests = [f'labels.{key}="{value}"' for key, value in parts if value] + (
            [] if owner else [f"labels.{native.OWNER}:*"]
        )
        wanted = " AND ".join(tests)
        context = Context("vertex: looking for jobs", self.client.project)
        found: list[Node] = []
        for job in self._everywhere(wanted, context):
            if native.state(job) == native.CANCELLED or native.label(job) is None:
                continue
            nodes = [
                self._node(handle, job)
                for handle in native.handles(str(job["name"]), native.nodes_of(job))
            ]
            found.extend(
                node
                for node in nodes
                if not generation
                or (node.label is not None and node.label.generation == generation)
            )
        return found

    def _everywhere(self, wanted: str, context: Context) -> Iterable[dict[str, Any]]:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="vertex-regions") as pool:
            for jobs in pool.map(
                lambda region: list(self._listed(region, wanted, context)), sorted(LOCATIONS)
            ):
                yield from jobs

    def _listed(self, region: str, wanted: str, context: Context) -> Iterable[dict[str, Any]]:
        parent = self._parent(region)
        for page in self.client.pages(
            lambda s, token: _jobs(s).list(
                parent=parent, filter=wanted, pageSize=PAGE, pageToken=token
            ),
            context,
        ):
            yield from page.get("customJobs", ())

    def _node(self, handle: Handle, job: Mapping[str, Any] | None) -> Node:
        name, region, _ = native.parse(handle)
        if job is None:
            return Node(
                handle, name.rsplit("/", 1)[-1], GONE, region=region, detail="deleted", kind="job"
            )
        node = native.node(handle, job)
        if native.state(job) == native.CANCELLED and self._memory.released(name):
            # Its record stays, which runs and costs nothing.
            return node._replace(status=GONE, detail="cancelled")
        return node

    # Changing

    def delete(self, handle: Handle) -> None:
        """Cancels a job that is not over; of one that is, deletes the record, which is all that is
        left of it. One at a time: several machines are one job, which is cancelled once.
        """
        name, region, _ = native.parse(handle)
        context = Context(
            f"vertex {region}: releasing job {name.rsplit('/', 1)[-1]}", self.client.project
        )
        with self._ending:
            job = self._get(name, context)
            if job is None or native.state(job) == native.CANCELLING:
                return
            if native.state(job) not in native.FINAL:
                self._cancel(name, context)
            elif native.state(job) != native.CANCELLED or not self._memory.released(name):
                self.client.get(lambda s: _jobs(s).delete(name=name), context)

    def _cancel(self, name: str, context: Context) -> None:
        self._memory.release(name)
        try:
            self.client.get(lambda s: _jobs(s).cancel(name=name, body={}), context)
        except Unsupported:
            # It has ended meanwhile: its record can be deleted then.
            job = self._get(name, context)
            if job is not None and native.state(job) not in native.FINAL:
                raise

    def relabel(self, handle: Handle, generation: str) -> None:
        """Raises Unsupported: a custom job takes no edits."""
        raise Unsupported(
            f"vertex: {handle.native_id} keeps the generation that it was made with; wanted"
            f" {generation}: a custom job takes no edits",
            provider=PROVIDER,
        )

    def update(self, handle: Handle, change: Mapping[str, object]) -> None:
        """Raises Unsupported for anything: a custom job takes no edits."""
        if change:
            text = (
                f"vertex: wanted {', '.join(sorted(change))} of {handle.native_id} changed, but a"
                " custom job takes no edits; `gpus rerun` starts a new one"
            )
            raise Unsupported(text, provider=PROVIDER, code="update", block_s=0.0)

    # What the calls need

    def _get(self, name: str, context: Context) -> dict[str, Any] | None:
        return self.client.get(lambda s: _jobs(s).get(name=name), context)

    def _parent(self, region: str) -> str:
        return f"projects/{self.client.project}/locations/{region}"

    def _place(self, order: Order) -> Scope:
        first = order.candidates[0]
        return Scope(PROVIDER, first.region, "", first.machine_type, first.gpu_type, first.capacity)

    def _context(self, order: Order) -> Context:
        first = order.candidates[0]
        what = (
            f"vertex {first.region} {first.machine_type} {first.gpu_type}:{first.gpu_count}"
            f" {first.capacity}"
        )
        return Context(what, self.client.project, token=order.token, candidates=order.candidates)


def _jobs(service: Any) -> Any:
    return service.projects().locations().customJobs()
