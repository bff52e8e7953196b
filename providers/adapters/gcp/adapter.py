"""Compute Engine behind the adapter protocol. Owns the flow of calls: submit, poll, settle,
observe, find, delete, edit.

Polls operations on the configured endpoint itself (no helper of a client, which would go to
Google's own). Must not retry a creating call. Google's packages come in through `client` only.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, cast

from providers.adapters.base import ConsoleLog, OwnAccount, rehearsal_endpoint
from providers.adapters.gcp import compile as native
from providers.adapters.gcp import grouping, machine_metadata, refusals
from providers.adapters.gcp import nodes as read
from providers.adapters.gcp.client import Client, checked_project, default_credentials
from providers.adapters.gcp.errors import PROVIDER, Context, from_operation
from providers.errors import (
    CloudError,
    HalfMade,
    NoCapacity,
    NotConfigured,
    OutcomeUnknown,
    QuotaExceeded,
    RateLimited,
    Transient,
    Unsupported,
)
from providers.model import idle
from providers.model.ask import FLEX_START, RESERVATION
from providers.model.machine import ENDED, GONE, PREEMPTED, Handle, Ticket
from providers.model.place import Scope
from providers.model.worlds import LIVE, REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from providers.model.machine import CheckLine, Node, Order, Setup
    from providers.model.offer import Candidate, Offer
    from providers.model.worlds import RehearsedCloud

REHEARSAL_PROJECT = "rehearsal"
EDIT_WAIT_S = 60.0
SECOND_LOOK_S = 3.0
"""Before "nothing was made" is believed, everything is looked up twice: a request whose answer was
lost may still be on its way.
"""
PREEMPTED_BLOCK_S = 180.0
LISTED_FROM = 8
"""From so many machines in one zone on, they are listed instead of asked for one by one."""


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


class Gcp(ConsoleLog, OwnAccount):
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
        self._client = client
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
        return {"project": self._client.project}

    def offers(self) -> Sequence[Offer] | None:
        """None: Google has no price list that is open without an account; the dated catalog is the
        best there is.
        """
        return None

    def check(self) -> Sequence[CheckLine]:
        from providers.adapters.gcp.check import lines

        return lines(self._client, self._world)

    def group(self, candidates: Sequence[Candidate]) -> int:
        return grouping.group(candidates)

    # Creating

    def submit(self, order: Order) -> Ticket:
        """One POST. `requestId` is the order's token, so that Google does the work once.

        Before it, reads: of a region's zones (once), of a named reservation (each time).
        """
        asked = order
        order, bound = self._reserved(order)
        first = order.candidates[0]
        context = self._context(order)
        call = native.creating_call(order, bound=bound)
        if call.method == grouping.REGIONAL and first.zone:
            call = native.creating_call(order, self._region_zones(first.region), bound=bound)
        try:
            operation = self._client.call(
                lambda service: self._request(service, call, order.token),
                context._replace(creating=True),
            )
        except Unsupported as error:
            raise refusals.explained(self._client, error, order) from None
        except QuotaExceeded as error:
            raise refusals.named(self._client, error, order, context) from None
        place = (("operation", str(operation.get("name", ""))), ("scope", grouping.scope_of(order)))
        return Ticket(asked, "waiting", place, detail="; ".join(call.notes))

    def poll(self, ticket: Ticket) -> Ticket:
        """Asks for the operation; once it is over, looks at the machines themselves and compares
        them with the order.
        """
        order, known = ticket.order, dict(ticket.native)
        context = self._context(order)
        operation = self._operation(known.get("scope", ""), known.get("operation", ""), context)
        if operation is not None and operation.get("status") != "DONE":
            queued = order.candidates[0].capacity == FLEX_START and any(
                item.get("status") == "PENDING" for item in self._made(order, context)
            )
            return ticket._replace(state="queued" if queued else "waiting")
        if operation is not None and operation.get("error"):
            raise self._refused(operation, order, context)
        made = self._made(order, context, thorough=True)
        if operation is None and known.get("operation") and not made:
            # Forgotten, or never of this project: that nothing was made is not said by anybody.
            raise OutcomeUnknown(
                f"{context.what}: Google knows no operation {known['operation']} in project"
                f" {self._client.project}, nor a machine of it",
                provider=PROVIDER,
                code="OPERATION_UNKNOWN",
                token=order.token,
            )
        return self._delivered(ticket, made, context)

    def resume(self, order: Order) -> Ticket | None:
        """Looks for the operation by its `clientOperationId`, then for the machines by name and
        generation; twice, a moment apart.

        Repeating the POST with the same `requestId` would be safe too, but would buy where nothing
        had been bought.
        """
        try:
            return self._settled(order, self._context(order))
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

        zone, bound = look(self._client, first)
        placed = (
            first
            if first.zone or not zone
            else first._replace(offer=first.offer._replace(zone=zone))
        )
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
            operation = self._operation_of(order.token, scope, context)
            if (
                operation is not None
                and operation.get("status") == "DONE"
                and operation.get("error")
            ):
                refused = self._refused(operation, order, context)
                if isinstance(refused, HalfMade):
                    raise refused
                return None
            if operation is not None:
                return Ticket(
                    order, "waiting", (("operation", str(operation["name"])), ("scope", scope))
                )
            made = self._made(order, context, thorough=True)
            if len(made) == len(order.node_names):
                return Ticket(order, "waiting", (("operation", ""), ("scope", scope)))
            if made:
                raise self._half_made(
                    "PARTLY_MADE",
                    f"{len(made)} of {len(order.node_names)} machines exist",
                    made,
                    context,
                )
        return None

    def _request(self, service: Any, call: native.Call, token: str) -> Any:
        project = self._client.project
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
            context = Context(f"gcp {region}", self._client.project)
            found = self._client.call(
                lambda service: service.regions().get(project=self._client.project, region=region),
                context,
            )
            self._zones[region] = tuple(read.tail(zone) for zone in found.get("zones", ()))
        return self._zones[region]

    def _context(self, order: Order) -> Context:
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
            project=self._client.project,
            token=order.token,
            candidates=order.candidates,
        )

    def _operation(self, scope: str, name: str, context: Context) -> dict[str, Any] | None:
        """The operation, or None where Google no longer knows it (it forgets old ones)."""
        if not name:
            return None
        kind, _, place = scope.partition("/")
        project = self._client.project
        if kind == "zones":
            return self._client.get(
                lambda service: service.zoneOperations().get(
                    project=project, zone=place, operation=name
                ),
                context,
            )
        return self._client.get(
            lambda service: service.regionOperations().get(
                project=project, region=place, operation=name
            ),
            context,
        )

    def _operation_of(self, token: str, scope: str, context: Context) -> dict[str, Any] | None:
        kind, _, place = scope.partition("/")
        project, wanted = self._client.project, f'clientOperationId="{token}"'

        def listing(service: Any, page: str | None) -> Any:
            if kind == "zones":
                return service.zoneOperations().list(
                    project=project, zone=place, filter=wanted, pageToken=page
                )
            return service.regionOperations().list(
                project=project, region=place, filter=wanted, pageToken=page
            )

        for page in self._client.pages(listing, context):
            for operation in page.get("items", ()):
                if operation.get("clientOperationId") == token:
                    found: dict[str, Any] = operation
                    return found
        return None

    def _made(
        self, order: Order, context: Context, *, thorough: bool = False
    ) -> list[dict[str, Any]]:
        """The order's machines that exist. Names are the order's own; the generation tells them
        from others' machines.

        `thorough`: an empty list is not believed before each zone was asked for the first name too
        (a cluster is made whole or not at all).
        """
        names = set(order.node_names)
        wanted = f'labels.{native.GENERATION}="{order.mark.generation}"'
        zones = list(
            dict.fromkeys(candidate.zone for candidate in order.candidates if candidate.zone)
        )
        lists = (
            self._listed_in(zones[0], wanted, context)
            if len(zones) == 1
            else self._listed(wanted, context)
        )
        found = [instance for instance in lists if instance.get("name") in names]
        if found or not thorough:
            return found
        project, first = self._client.project, order.node_names[0]
        for zone in zones:
            instance = self._client.get(
                lambda s, z=zone: s.instances().get(project=project, zone=z, instance=first),  # type: ignore[misc]
                context,
            )
            if (
                instance is not None
                and (instance.get("labels") or {}).get(native.GENERATION) == order.mark.generation
            ):
                found.append(instance)
        return found

    def _refused(self, operation: Mapping[str, Any], order: Order, context: Context) -> CloudError:
        """What a failed operation means, after a look at whether it left anything.

        A passing fault ends the operation for good all the same: the same token would only return
        it, so it is to be settled, not asked again.
        """
        error = from_operation(operation, context)
        left = self._made(order, context)
        if not left and isinstance(error, (RateLimited, Transient)):
            return OutcomeUnknown(
                f"{error.message}; the operation is over",
                words=error.words,
                provider=PROVIDER,
                code=error.code,
                token=order.token,
            )
        if not left:
            return (
                refusals.named(self._client, error, order, context)
                if isinstance(error, QuotaExceeded)
                else error
            )
        return HalfMade(
            f"{error.message}; {len(left)} of {len(order.node_names)} machines are still there",
            words=error.words,
            handles=[read.handle(instance) for instance in left],
            provider=PROVIDER,
            code=error.code,
            scopes=error.scopes,
            hints=error.hints,
            block_s=error.block_s,
        )

    def _half_made(
        self,
        code: str,
        found: str,
        instances: Iterable[Mapping[str, Any]],
        context: Context,
        scopes: Sequence[Scope] = (),
    ) -> HalfMade:
        handles = [read.handle(instance) for instance in instances]
        text = (
            f"{context.what}: wanted what was ordered, found that {found}; they are deleted before"
            " anything else is bought"
        )
        return HalfMade(
            text,
            handles=handles,
            provider=PROVIDER,
            code=code,
            scopes=scopes,
            block_s=PREEMPTED_BLOCK_S if scopes else None,
        )

    def _delivered(self, ticket: Ticket, made: list[dict[str, Any]], context: Context) -> Ticket:
        """Compares the machines with the order; the finished ticket once all of them run."""
        order = ticket.order
        places = tuple(
            Scope(
                PROVIDER,
                candidate.region,
                candidate.zone,
                candidate.machine_type,
                capacity=candidate.capacity,
            )
            for candidate in order.candidates
        )
        if not made:
            raise NoCapacity(
                f"{context.what}: made, and gone again before it ran",
                provider=PROVIDER,
                code="GONE_AFTER_CREATE",
                scopes=places,
                block_s=PREEMPTED_BLOCK_S,
            )
        if len(made) != len(order.node_names):
            raise self._half_made(
                "WRONG_COUNT",
                f"{len(made)} machines exist instead of {len(order.node_names)}",
                made,
                context,
            )
        placed = read.placed(order, made)
        if placed is None:
            what = "; ".join(sorted({read.describe(instance) for instance in made}))
            raise self._half_made("NOT_AS_ORDERED", f"Google made {what}", made, context)
        states = {str(instance.get("status")) for instance in made}
        if states & read.LEAVING:
            raise self._half_made(
                "TAKEN_WHILE_STARTING",
                f"a machine is already {', '.join(sorted(states & read.LEAVING))}",
                made,
                context,
                places,
            )
        if states == {"RUNNING"}:
            by_name = {str(instance["name"]): read.handle(instance) for instance in made}
            return ticket._replace(
                state="done",
                placed=placed,
                handles=tuple(by_name[name] for name in order.node_names),
            )
        return ticket._replace(state="queued" if "PENDING" in states else "waiting")

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
            seen.update(self._seen(project, zone, ids))
        reasons: dict[tuple[str, str], list[dict[str, Any]]] = {}
        return [self._node(handle, seen[handle.native_id], reasons) for handle in handles]

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        """Every zone of the project, page by page, by labels (of any owner: by the label being
        there). Raises Transient when Google could not reach a zone: absence would be a guess.
        """
        parts = [(native.OWNER, owner), (native.CLUSTER, cluster), (native.GENERATION, generation)]
        tests = [f'(labels.{key}="{value}")' for key, value in parts if value] + (
            [] if owner else [f"(labels.{native.OWNER}:*)"]
        )
        wanted = " AND ".join(tests)
        context = Context("gcp: looking for machines", self._client.project)
        reasons: dict[tuple[str, str], list[dict[str, Any]]] = {}
        return [
            self._node(read.handle(instance), instance, reasons)
            for instance in self._listed(wanted, context)
        ]

    def _seen(
        self, project: str, zone: str, ids: Sequence[str]
    ) -> dict[str, dict[str, Any] | None]:
        context = Context(f"gcp {zone}: looking at a machine", self._client.project)
        out: dict[str, dict[str, Any] | None] = {}
        if len(ids) >= LISTED_FROM:
            out = {
                read.handle(instance).native_id: instance
                for instance in self._listed_in(zone, "", context, project)
            }
            out = {native_id: out[native_id] for native_id in ids if native_id in out}
        for native_id in ids:
            if native_id not in out:
                name = native_id.rsplit("/", 1)[-1]
                out[native_id] = self._client.get(
                    lambda s, n=name: s.instances().get(project=project, zone=zone, instance=n),  # type: ignore[misc]
                    context,
                )
        return out

    def _node(
        self,
        handle: Handle,
        instance: dict[str, Any] | None,
        reasons: dict[tuple[str, str], list[dict[str, Any]]],
    ) -> Node:
        if instance is not None and instance.get("status") not in read.LEAVING:
            return read.node(handle, instance)
        project, zone, name = read.parse(handle)
        if (project, zone) not in reasons:
            reasons[project, zone] = self._endings(project, zone)
        why = read.why(reasons[project, zone], name, instance)
        if instance is None:
            detail = {
                PREEMPTED: "preempted and deleted",
                ENDED: "ended by its run limit and deleted",
            }.get(why, "deleted")
            return read.gone(handle, GONE, detail, ended=why == ENDED)
        return read.node(handle, instance, why)

    def _endings(self, project: str, zone: str) -> list[dict[str, Any]]:
        """The zone's operations that end machines, newest first. Best effort: without them the
        machine's own fields must do.
        """
        wanted = " OR ".join(f'(operationType="{kind}")' for kind in read.ENDINGS)
        context = Context(f"gcp {zone}: looking at operations", project)
        found: list[dict[str, Any]] = []
        try:
            for page in self._client.pages(
                lambda s, token: s.zoneOperations().list(
                    project=project, zone=zone, filter=wanted, pageToken=token
                ),
                context,
            ):
                found.extend(page.get("items", ()))
        except CloudError:
            return []
        return sorted(
            found,
            key=lambda operation: read.moment(str(operation.get("insertTime", ""))),
            reverse=True,
        )

    def _listed_in(
        self, zone: str, wanted: str, context: Context, project: str = ""
    ) -> Iterable[dict[str, Any]]:
        def listing(service: Any, page: str | None) -> Any:
            return service.instances().list(
                project=project or self._client.project,
                zone=zone,
                filter=wanted or None,
                maxResults=500,
                pageToken=page,
            )

        for page in self._client.pages(listing, context):
            yield from page.get("items", ())

    def _listed(self, wanted: str, context: Context) -> Iterable[dict[str, Any]]:
        def listing(service: Any, page: str | None) -> Any:
            return service.instances().aggregatedList(
                project=self._client.project, filter=wanted, maxResults=500, pageToken=page
            )

        for page in self._client.pages(listing, context):
            unreached = [str(place) for place in page.get("unreachables", ())]
            for place, items in page.get("items", {}).items():
                if (items.get("warning") or {}).get("code") == "UNREACHABLE":
                    unreached.append(str(place))
                yield from items.get("instances", ())
            if unreached:
                raise Transient(
                    f"{context.what}: Google could not reach {', '.join(unreached)}; it is asked"
                    " again",
                    provider=PROVIDER,
                    code="UNREACHABLE",
                )

    def log(self, handle: Handle) -> str:
        """What the machine wrote to its first serial port, the start-up script's output included:
        the last megabyte, as Google keeps it.
        """
        project, zone, name = read.parse(handle)
        context = Context(f"gcp {zone}: reading the serial port of {name}", self._client.project)
        found = self._client.call(
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
        context = Context(f"gcp {zone}: deleting {name}", self._client.project)
        request = str(uuid.uuid4())
        self._client.get(
            lambda service: service.instances().delete(
                project=project, zone=zone, instance=name, requestId=request
            ),
            context,
        )

    def relabel(self, handle: Handle, generation: str) -> None:
        self._edit_labels(handle, lambda labels: {**labels, native.GENERATION: generation})

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
            self._edit_labels(
                handle,
                lambda old: {
                    **labels,
                    **{key: value for key, value in old.items() if key.startswith("gpus-")},
                },
            )
        if "ssh_key" in change:
            self._edit_key(
                handle, str(change.get("ssh_user") or "gpus"), str(change["ssh_key"] or "")
            )
        if "script" in change:
            self._edit_script(handle, cast("Setup", change["script"]))

        if "state" in change:
            self._set_state(handle, str(change["state"]))

    def _set_state(self, handle: Handle, state: str) -> None:
        """Stops or starts a machine and waits until it is. Raises the refusal (NoCapacity where
        there is no room); nothing has changed then.
        """
        project, zone, name = read.parse(handle)
        stops = state == "stopped"
        context = Context(
            f"gcp {zone}: {'stopping' if stops else 'starting'} {name}", self._client.project
        )
        there, under_way = (
            (("TERMINATED", "STOPPED"), ("STOPPING", "PENDING_STOP"))
            if stops
            else (("RUNNING",), ("PROVISIONING", "STAGING"))
        )

        def look() -> dict[str, Any]:
            return self._client.call(
                lambda service: service.instances().get(project=project, zone=zone, instance=name),
                context,
            )

        instance = look()
        if instance.get("status") not in (*there, *under_way):
            rest: dict[str, Any] = {
                "project": project,
                "zone": zone,
                "instance": name,
                "requestId": str(uuid.uuid4()),
            }
            if stops and read.has_local_ssd(instance):
                # Google stops no machine with local SSD unless told what becomes of it.
                rest["discardLocalSsd"] = True
            operation = self._client.call(
                lambda s: s.instances().stop(**rest) if stops else s.instances().start(**rest),
                context,
            )
            self._finish(operation, f"zones/{zone}", context)
            instance = look()
        waited = 0.0
        while instance.get("status") in under_way and waited < EDIT_WAIT_S:
            self._sleep(2.0)
            waited, instance = waited + 2.0, look()
        if instance.get("status") not in there:
            raise Transient(
                f"{context.what}: it is {instance.get('status')}; it is asked again",
                provider=PROVIDER,
                code="TIMEOUT",
            )

    def _edit_labels(
        self, handle: Handle, edit: Callable[[dict[str, str]], dict[str, str]]
    ) -> None:
        project, zone, name = read.parse(handle)
        context = Context(f"gcp {zone}: labelling {name}", self._client.project)

        def request(service: Any, instance: dict[str, Any]) -> Any:
            body = {
                "labels": edit(dict(instance.get("labels", {}))),
                "labelFingerprint": instance.get("labelFingerprint", ""),
            }
            return service.instances().setLabels(
                project=project, zone=zone, instance=name, requestId=str(uuid.uuid4()), body=body
            )

        self._edit(project, zone, name, context, request)

    def _edit_script(self, handle: Handle, setup: Setup) -> None:
        """What it runs at its next boots; its idle timer, if it has one, stays as it was ordered."""

        def edited(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
            present = next(
                (
                    str(item.get("value", ""))
                    for item in items
                    if item.get("key") == "startup-script"
                ),
                "",
            )
            script = machine_metadata.start_up(setup._replace(idle_s=idle.limit_s(present)))
            kept = [item for item in items if item.get("key") != "startup-script"]
            return [*kept, {"key": "startup-script", "value": script}] if script else kept

        self._edit_metadata(handle, "setting the start-up script of", edited)

    def _edit_key(self, handle: Handle, user: str, public_key: str) -> None:
        def edited(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
            present = next(
                (str(item.get("value", "")) for item in items if item.get("key") == "ssh-keys"), ""
            )
            kept = [item for item in items if item.get("key") != "ssh-keys"]
            # The user's key is exchanged; the one that the engine looks at the machine with stays.
            keys = machine_metadata.ssh_keys(user, public_key, *machine_metadata.own_keys(present))
            return [*kept, {"key": "ssh-keys", "value": keys}] if keys else kept

        self._edit_metadata(handle, "setting the ssh key of", edited)

    def _edit_metadata(
        self,
        handle: Handle,
        what: str,
        edited: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    ) -> None:
        project, zone, name = read.parse(handle)
        context = Context(f"gcp {zone}: {what} {name}", self._client.project)

        def request(service: Any, instance: dict[str, Any]) -> Any:
            metadata = instance.get("metadata", {})
            body = {
                "fingerprint": metadata.get("fingerprint", ""),
                "items": edited(list(metadata.get("items", ()))),
            }
            return service.instances().setMetadata(
                project=project, zone=zone, instance=name, requestId=str(uuid.uuid4()), body=body
            )

        self._edit(project, zone, name, context, request)

    def _edit(
        self,
        project: str,
        zone: str,
        name: str,
        context: Context,
        request: Callable[[Any, dict[str, Any]], Any],
    ) -> None:
        """Reads the machine, edits it under its fingerprint, and waits until the edit is done. Once
        more when somebody else was faster.
        """
        for last in (False, True):
            instance = self._client.call(
                lambda service: service.instances().get(project=project, zone=zone, instance=name),
                context,
            )
            try:
                operation = self._client.call(
                    lambda service, seen=instance: request(service, seen),  # type: ignore[misc]
                    context,
                )
            except Transient as error:
                if last or error.code != "conditionNotMet":
                    raise
            else:
                self._finish(operation, f"zones/{zone}", context)
                return

    def _finish(self, operation: Mapping[str, Any], scope: str, context: Context) -> None:
        waited, pause = 0.0, 0.1
        while operation.get("status") != "DONE":
            if waited >= EDIT_WAIT_S:
                raise Transient(
                    f"{context.what}: not done after {EDIT_WAIT_S:.0f} s; it is asked again",
                    provider=PROVIDER,
                    code="TIMEOUT",
                )
            self._sleep(pause)
            waited, pause = waited + pause, min(pause * 1.6, 2.0)
            found = self._operation(scope, str(operation.get("name", "")), context)
            if found is None:
                return
            operation = found
        if operation.get("error"):
            raise from_operation(operation, context)
