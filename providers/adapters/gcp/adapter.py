"""Compute Engine behind the adapter protocol. Owns the flow of calls: submit, poll, settle,
observe, find, delete, edit.

Waits for operations on the configured endpoint itself (no helper of a client, which would go to
Google's own). Must not retry a creating call. Google's packages come in through `client` only.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, cast

from providers.adapters.base import (
    Advises,
    ConsoleLog,
    HasVolumes,
    LongPoll,
    OwnAccount,
    rehearsal_endpoint,
)
from providers.adapters.gcp import compile as native
from providers.adapters.gcp import delivery, edits, grouping, lookup, refusals
from providers.adapters.gcp import nodes as read
from providers.adapters.gcp.client import Client, checked_project, default_credentials
from providers.adapters.gcp.errors import PROVIDER, Context
from providers.adapters.gcp.volumes import Disks
from providers.errors import (
    CloudError,
    HalfMade,
    NotConfigured,
    OutcomeUnknown,
    QuotaExceeded,
    RateLimited,
    Transient,
    Unsupported,
)
from providers.model.ask import FLEX_START, RESERVATION
from providers.model.machine import QUEUED, Handle, Ticket
from providers.model.worlds import LIVE, REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.model.advice import Question
    from providers.model.machine import CheckLine, Node, Order, Setup
    from providers.model.offer import Candidate, Offer
    from providers.model.worlds import RehearsedCloud

REHEARSAL_PROJECT = "rehearsal"
SECOND_LOOK_S = 3.0
"""Before "nothing was made" is believed, everything is looked up twice: a request whose answer was
lost may still be on its way.
"""


def connect(world: str, config: Mapping[str, str], rehearsed: RehearsedCloud | None = None) -> Gcp:
    """The adapter; see `providers.adapters.gcp.connect`."""
    endpoint = config.get("endpoint") or ""
    if world == REHEARSAL:
        project = checked_project(config.get("project") or REHEARSAL_PROJECT, PROVIDER)
        return _rehearsal(project, rehearsal_endpoint(PROVIDER, endpoint, rehearsed))
    return _live(config.get("project") or "", endpoint or None)


def _rehearsal(project: str, endpoint: str) -> Gcp:
    from google.auth.credentials import AnonymousCredentials

    return Gcp(REHEARSAL, Client(project, AnonymousCredentials(), endpoint), second_look_s=0.05)


def _live(project: str, endpoint: str | None) -> Gcp:
    import os

    credentials, found = default_credentials(PROVIDER)
    project = project or os.environ.get("GOOGLE_CLOUD_PROJECT") or found
    if not project:
        raise NotConfigured(
            "gcp: wanted a project, found none; set GOOGLE_CLOUD_PROJECT, or `project` in gcp's"
            " settings (`gcloud projects list` names yours)",
            provider=PROVIDER,
        )
    return Gcp(LIVE, Client(checked_project(project, PROVIDER), credentials, endpoint))


class Gcp(LongPoll, Advises, ConsoleLog, OwnAccount, HasVolumes):
    """Compute Engine in one world and project. Safe from several threads."""

    def __init__(
        self,
        world: str,
        client: Client,
        *,
        sleep: Callable[[float], None] = time.sleep,
        second_look_s: float = SECOND_LOOK_S,
    ) -> None:
        self._world = world
        self.client = client
        self._sleep = sleep
        self._second_look_s = second_look_s
        self._zones: dict[str, tuple[str, ...]] = {}

    @property
    def name(self) -> str:
        return PROVIDER

    @property
    def world(self) -> str:
        return self._world

    @property
    def account(self) -> Mapping[str, str]:
        """The project that everything here is made in and looked up in."""
        return {"project": self.client.project}

    @property
    def volumes(self) -> Disks:
        return Disks(self.client, self._sleep)

    def offers(self) -> Sequence[Offer] | None:
        """None: Google has no price list that is open without an account; the dated catalog is the
        best there is.
        """
        return None

    def advice(self, offers: Sequence[Offer], nodes: int) -> Sequence[Question]:
        from providers.adapters.gcp.advice import beta, questions

        return questions(beta(self.client), offers, nodes)

    def check(self) -> Sequence[CheckLine]:
        from providers.adapters.gcp.check import lines

        return lines(self.client, self._world)

    def group(self, candidates: Sequence[Candidate]) -> int:
        return grouping.group(candidates)

    # Creating

    def submit(self, order: Order) -> Ticket:
        """One POST. `requestId` is the order's token, so that Google does the work once.

        Before it, reads: of a region's zones (once), of a named reservation and of the volumes
        that it mounts (each time).
        """
        asked = order
        order, bound = self._reserved(order)
        first = order.candidates[0]
        context = self.context(order)
        disks = self.volumes.sources(order)
        call = native.creating_call(order, bound=bound, disks=disks)
        if call.method == grouping.REGIONAL and first.zone:
            call = native.creating_call(order, self._region_zones(first.region), bound=bound)
        try:
            operation = self.client.call(
                lambda service: self._request(service, call, order.token),
                context._replace(creating=True),
            )
        except Unsupported as error:
            raise refusals.explained(self.client, error, order) from None
        except QuotaExceeded as error:
            raise refusals.named(self.client, error, order, context) from None
        place = (("operation", str(operation.get("name", ""))), ("scope", grouping.scope_of(order)))
        return Ticket(asked, "waiting", place, detail="; ".join(call.notes))

    def poll(self, ticket: Ticket) -> Ticket:
        """Asks for the operation; once it is over, looks at the machines themselves and compares
        them with the order.
        """
        return self._stands(ticket)

    def long_poll(self, ticket: Ticket) -> Ticket:
        """As `poll`, when the operation is over: `zoneOperations.wait`. Whether a request is
        queued is told first.
        """
        queues = ticket.order.candidates[0].capacity == FLEX_START and ticket.state != QUEUED
        return self._stands(ticket, held=not queues)

    def _stands(self, ticket: Ticket, *, held: bool = False) -> Ticket:
        order, known = ticket.order, dict(ticket.native)
        context = self.context(order)
        operation = lookup.operation_named(
            self.client, known.get("scope", ""), known.get("operation", ""), context, held=held
        )
        if operation is not None and operation.get("status") != "DONE":
            queued = order.candidates[0].capacity == FLEX_START and any(
                item.get("status") == "PENDING"
                for item in lookup.made_for(self.client, order, context)
            )
            return ticket._replace(state=QUEUED if queued else "waiting")
        if operation is not None and operation.get("error"):
            raise delivery.refused(self.client, operation, order, context)
        made = lookup.made_for(self.client, order, context, thorough=True)
        if operation is None and known.get("operation") and not made:
            # Forgotten, or never of this project: that nothing was made is not said by anybody.
            raise OutcomeUnknown(
                f"{context.what}: Google knows no operation {known['operation']} in project"
                f" {self.client.project}, nor a machine of it",
                provider=PROVIDER,
                code="OPERATION_UNKNOWN",
                token=order.token,
            )
        return delivery.delivered(ticket, made, context)

    def resume(self, order: Order) -> Ticket | None:
        """Looks for the operation by its `clientOperationId`, then for the machines by name and
        generation; twice, a moment apart.

        Repeating the POST with the same `requestId` would be safe too, but would buy where nothing
        had been bought.
        """
        try:
            return self._settled(order, self.context(order))
        except (OutcomeUnknown, HalfMade, RateLimited, Transient):
            raise
        except CloudError as error:
            text = f"{error.message}; so it could not be looked up"
            raise OutcomeUnknown(
                text, words=error.words, token=order.token, provider=PROVIDER, code=error.code
            ) from None

    def _reserved(self, order: Order) -> tuple[Order, bool]:
        """The order with its reservation's zone filled in, and whether its machines are bound to
        that reservation.
        """
        first = order.candidates[0]
        if first.capacity != RESERVATION:
            return order, False
        from providers.adapters.gcp.reservations import look

        zone, bound, name = look(self.client, first)
        placed = (
            first
            if first.zone or not zone
            else first._replace(offer=first.offer._replace(zone=zone))
        )
        placed = placed._replace(reservation=name)
        return order._replace(candidates=(placed, *order.candidates[1:])), bound

    def _scope(self, order: Order) -> str:
        """Where the order's operation lives. A reservation that is gone by now leaves the region:
        its machines are found by their labels.
        """
        first = order.candidates[0]
        if first.capacity != RESERVATION or first.zone:
            return grouping.scope_of(order)
        try:
            return grouping.scope_of(self._reserved(order)[0])
        except Unsupported:
            return grouping.scope_of(order)

    def _settled(self, order: Order, context: Context) -> Ticket | None:
        scope = self._scope(order)
        for look in range(2):
            if look:
                self._sleep(self._second_look_s)
            operation = lookup.operation_of(self.client, order.token, scope, context)
            if (
                operation is not None
                and operation.get("status") == "DONE"
                and operation.get("error")
            ):
                refused = delivery.refused(self.client, operation, order, context)
                if isinstance(refused, HalfMade):
                    raise refused
                return None
            if operation is not None:
                return Ticket(
                    order, "waiting", (("operation", str(operation["name"])), ("scope", scope))
                )
            made = lookup.made_for(self.client, order, context, thorough=True)
            if len(made) == len(order.node_names):
                return Ticket(order, "waiting", (("operation", ""), ("scope", scope)))
            if made:
                raise delivery.of(made, context).half_made(
                    "PARTLY_MADE", f"{len(made)} of {len(order.node_names)} machines exist"
                )
        return None

    def _request(self, service: Any, call: native.Call, token: str) -> Any:
        project = self.client.project
        if call.method == grouping.REGIONAL:
            return service.regionInstances().bulkInsert(
                project=project, region=call.region, requestId=token, body=call.body
            )
        if call.method == grouping.ZONAL:
            return service.instances().bulkInsert(
                project=project, zone=call.zone, requestId=token, body=call.body
            )
        return service.instances().insert(
            project=project, zone=call.zone, requestId=token, body=call.body
        )

    def _region_zones(self, region: str) -> tuple[str, ...]:
        if region not in self._zones:
            context = Context(f"gcp {region}", self.client.project)
            found = self.client.call(
                lambda service: service.regions().get(project=self.client.project, region=region),
                context,
            )
            self._zones[region] = tuple(read.tail(zone) for zone in found.get("zones", ()))
        return self._zones[region]

    def context(self, order: Order) -> Context:
        first = order.candidates[0]
        zones = list(
            dict.fromkeys(candidate.zone for candidate in order.candidates if candidate.zone)
        )
        types = list(dict.fromkeys(candidate.machine_type for candidate in order.candidates))
        # Messages are cut at some length: what to do about it must not be what falls off.
        where = ",".join(zones) if len(zones) <= 2 else f"{first.region} ({len(zones)} zones)"
        kinds = (
            ",".join(types) if len(types) <= 2 else f"{types[0]} and {len(types) - 1} more types"
        )
        return Context(
            f"gcp {where or first.region} {kinds} {first.capacity}",
            project=self.client.project,
            token=order.token,
            candidates=order.candidates,
        )

    # Seeing

    def observe(self, handles: Sequence[Handle]) -> Sequence[Node]:
        """One GET a machine, or one list a zone where there are many; for a machine that is not
        running, the zone's operations say why.
        """
        seen: dict[str, dict[str, Any] | None] = {}
        by_zone: dict[tuple[str, str], list[str]] = {}
        for handle in handles:
            project, zone, _ = read.parse(handle)
            by_zone.setdefault((project, zone), []).append(handle.native_id)
        for (project, zone), ids in by_zone.items():
            seen.update(lookup.seen_in(self.client, project, zone, ids))
        reasons: dict[tuple[str, str], list[dict[str, Any]]] = {}
        return [
            lookup.node_of(self.client, handle, seen[handle.native_id], reasons)
            for handle in handles
        ]

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        """Every zone of the project, page by page, by labels (of any owner: by the label being
        there). Raises Transient when Google could not reach a zone: absence would be a guess.
        """
        parts = [(native.OWNER, owner), (native.CLUSTER, cluster), (native.GENERATION, generation)]
        tests = [f'(labels.{key}="{value}")' for key, value in parts if value] + (
            [] if owner else [f"(labels.{native.OWNER}:*)"]
        )
        wanted = " AND ".join(tests)
        context = Context("gcp: looking for machines", self.client.project)
        reasons: dict[tuple[str, str], list[dict[str, Any]]] = {}
        return [
            lookup.node_of(self.client, read.handle(instance), instance, reasons)
            for instance in lookup.listed_everywhere(self.client, wanted, context)
        ]

    def log(self, handle: Handle) -> str:
        """What the machine wrote to its first serial port, the start-up script's output included:
        the last megabyte, as Google keeps it.
        """
        project, zone, name = read.parse(handle)
        context = Context(f"gcp {zone}: reading the serial port of {name}", self.client.project)
        found = self.client.call(
            lambda service: service.instances().getSerialPortOutput(
                project=project, zone=zone, instance=name, port=1
            ),
            context,
        )
        return str(found.get("contents", ""))

    # Changing

    def delete(self, handle: Handle) -> None:
        """Starts it; the boot and scratch disks go with the machine (`autoDelete`)."""
        project, zone, name = read.parse(handle)
        context = Context(f"gcp {zone}: deleting {name}", self.client.project)
        request = str(uuid.uuid4())
        self.client.get(
            lambda service: service.instances().delete(
                project=project, zone=zone, instance=name, requestId=request
            ),
            context,
        )

    def relabel(self, handle: Handle, generation: str) -> None:
        edits.edit_labels(
            self.client,
            self._sleep,
            handle,
            lambda labels: {**labels, native.GENERATION: generation},
        )

    def update(self, handle: Handle, change: Mapping[str, object]) -> None:
        """`labels`: the user's labels, replacing the earlier ones. `ssh_key`: the one public key
        ("" for none), for `ssh_user` (default gpus). `script`: the Setup by which it starts up at
        its next boots.

        `state`: `stopped`, which discards what is on local SSD, or `running`: started again, in its
        zone and nowhere else.
        """
        if "labels" in change:
            given = change["labels"]
            labels = {str(key): str(value) for key, value in dict(given).items()}  # type: ignore[call-overload]
            edits.edit_labels(
                self.client,
                self._sleep,
                handle,
                lambda old: {
                    **labels,
                    **{key: value for key, value in old.items() if key.startswith("gpus-")},
                },
            )
        if "ssh_key" in change:
            edits.edit_key(
                self.client,
                self._sleep,
                handle,
                str(change.get("ssh_user") or "gpus"),
                str(change["ssh_key"] or ""),
            )
        if "script" in change:
            edits.edit_script(self.client, self._sleep, handle, cast("Setup", change["script"]))

        if "state" in change:
            edits.set_state(self.client, self._sleep, handle, str(change["state"]))
