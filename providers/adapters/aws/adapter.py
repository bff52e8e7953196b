"""EC2 behind the adapter protocol. Owns the flow of calls: submit, poll, settle, observe, find,
delete, edit.

Must not retry a creating call. boto3 comes in through `client` only.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.aws import compile as native
from providers.adapters.aws import grouping, power, region_facts, tagging
from providers.adapters.aws import nodes as read
from providers.adapters.aws.errors import (
    PROVIDER,
    Context,
    clean,
    from_exception,
    from_fleet,
    from_state,
)
from providers.adapters.aws.surroundings import LIVE_STATES, Surroundings
from providers.adapters.base import (
    ConsoleLog,
    OwnAccount,
    PlaceAccess,
    Repricing,
    given,
    rehearsal_endpoint,
)
from providers.errors import (
    CloudError,
    HalfMade,
    NoCapacity,
    NotConfigured,
    OutcomeUnknown,
    QuotaExceeded,
    Unsupported,
)
from providers.model.machine import GONE, STOPPING, Ticket
from providers.model.place import Scope
from providers.model.worlds import LIVE, REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from providers.adapters.aws.client import Client
    from providers.adapters.base import Repriced
    from providers.model.machine import CheckLine, Handle, Node, Order
    from providers.model.offer import Candidate, Offer
    from providers.model.worlds import RehearsedCloud

LOOKS_S = (0.0, 2.0, 5.0)
"""Before "nothing was made" is believed: EC2's lists lag behind its creating calls by some seconds
(eventual consistency, EC2 API reference).
"""
PREEMPTED_BLOCK_S = 180.0
REHEARSAL_LOOKS_S = (0.0, 0.05)
REGIONS_AT_ONCE = 8
PAGE = 500

OF_NO_PROFILE = frozenset({"env", "iam-role", "container-role"})
"""How botocore 1.44.8 names credentials that no profile holds: key variables, and the role of the
machine or container that this runs on.
"""


def connect(world: str, config: Mapping[str, str], rehearsed: RehearsedCloud | None = None) -> Ec2:
    """The adapter; see `providers.adapters.aws.connect`."""
    from importlib.util import find_spec

    if find_spec("boto3") is None:
        raise NotConfigured(
            "aws: wanted boto3, found none; install it: pip install 'gpus[aws]'", provider=PROVIDER
        )
    regions = tuple(
        dict.fromkeys(name.strip() for name in config.get("regions", "").split(",") if name.strip())
    )
    endpoint = config.get("endpoint") or ""
    if world == REHEARSAL:
        return _rehearsal(endpoint, regions, rehearsed)
    profile, account = config.get("profile") or "", config.get("account") or ""
    found = _live(profile, endpoint or None, regions, account)
    if wanted := config.get("account"):
        found.only(wanted)
    return found


def _rehearsal(endpoint: str, regions: tuple[str, ...], rehearsed: RehearsedCloud | None) -> Ec2:
    if endpoint:
        # What is wrong with it is told now, not at the first call.
        rehearsal_endpoint(PROVIDER, endpoint, rehearsed)
    else:
        rehearsed = given(PROVIDER, rehearsed)

    def opened() -> Client:
        from providers.adapters.aws.client import Client, sealed_session

        return Client(sealed_session(), rehearsal_endpoint(PROVIDER, endpoint, rehearsed))

    if rehearsed is None:
        return Ec2(REHEARSAL, opened, regions=regions, looks_s=REHEARSAL_LOOKS_S)
    return Ec2(
        REHEARSAL,
        opened,
        regions=regions,
        now=rehearsed.now,
        looks_s=REHEARSAL_LOOKS_S,
        untouched=rehearsed.untouched,
    )


def _live(profile: str, endpoint: str | None, regions: tuple[str, ...], account: str) -> Ec2:
    import boto3
    from botocore.exceptions import BotoCoreError, ProfileNotFound

    from providers.adapters.aws.client import Client

    todo = (
        "run `aws configure sso`, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and"
        " AWS_SECRET_ACCESS_KEY"
    )
    try:
        try:
            session = boto3.Session(profile_name=profile or None)
        except ProfileNotFound:
            if not account or not profile:
                raise
            # An account that something was bought in, by another name or other keys by now: whose
            # they are is asked before anything else.
            session = boto3.Session()
        credentials = session.get_credentials()
    except (BotoCoreError, OSError, ValueError) as error:
        raise NotConfigured(
            f"aws: wanted credentials, found {clean(str(error), 120)}; {todo}", provider=PROVIDER
        ) from None
    if credentials is None:
        raise NotConfigured(f"aws: wanted credentials, found none; {todo}", provider=PROVIDER)
    # Key variables win over AWS_PROFILE, and a machine's role is of no profile: only what a profile
    # holds is found again by its name.
    held = (
        session.profile_name in session.available_profiles
        and getattr(credentials, "method", "") not in OF_NO_PROFILE
    )
    named = str(session.profile_name) if held else ""
    return Ec2(LIVE, lambda: Client(session, endpoint), regions=regions, profile=named)


class _Ending(NamedTuple):
    """A machine whose deletion this process started: whose it was, and its Spot request if it has
    one.
    """

    owner: str
    spot_request: str


class Ec2(Repricing, PlaceAccess, ConsoleLog, OwnAccount):
    """EC2 in one world and account. Safe from several threads.

    `opened` makes the client, once, when the first call is about to be made. `regions` limits where
    is looked and bought; empty means every region that the account has enabled. `untouched` tells
    of a rehearsal cloud in which nothing was ever made: to ask each of its regions for machines
    would cost a second in every run of those who use another provider.
    """

    def __init__(
        self,
        world: str,
        opened: Callable[[], Client],
        *,
        regions: tuple[str, ...] = (),
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        looks_s: tuple[float, ...] = LOOKS_S,
        untouched: Callable[[], bool] = lambda: False,
        profile: str = "",
    ) -> None:
        self._world = world
        self._opened = opened
        self._opening = threading.Lock()
        self._open: tuple[Client, Surroundings] | None = None
        self._regions = regions
        self._sleep = sleep
        self._looks_s = looks_s
        self._now = now
        self._untouched = untouched
        self._profile = profile
        self._number = ""
        self._ending: dict[Handle, _Ending] = {}

    def _parts(self) -> tuple[Client, Surroundings]:
        with self._opening:
            if self._open is None:
                client = self._opened()
                self._open = client, Surroundings(client, self._now)
            return self._open

    @property
    def _client(self) -> Client:
        return self._parts()[0]

    @property
    def _around(self) -> Surroundings:
        return self._parts()[1]

    @property
    def name(self) -> str:
        return PROVIDER

    @property
    def world(self) -> str:
        return self._world

    @property
    def account(self) -> Mapping[str, str]:
        """Live: the account's number, and the profile that leads to it, wherever it was named.
        Calls: GetCallerIdentity, once; it needs no right.

        Neither is secret, and the number stays the same when keys are changed. AWS_DEFAULT_REGION
        is no part: every call names its region.
        """
        if self._world == REHEARSAL:
            return {}
        if not self._number:
            who = self._client.call(
                "get_caller_identity", Context("aws: whose account it is"), service="sts"
            )
            self._number = str(who.get("Account") or "")
        return {"account": self._number} | ({"profile": self._profile} if self._profile else {})

    def only(self, number: str) -> None:
        """Raises NotConfigured unless the credentials are of this account."""
        found = self.account.get("account")
        if found != number:
            by = f" (profile {self._profile})" if self._profile else ""
            text = (
                f"aws: wanted credentials of account {number}, where it was bought, found those of"
                f" {found}{by}"
            )
            raise NotConfigured(
                f"{text}; set AWS_PROFILE, or the keys, for that account",
                provider=PROVIDER,
                code="OTHER_ACCOUNT",
            )

    def offers(self) -> Sequence[Offer] | None:
        """None: the dated catalog, over which `repriced` lays today's prices."""
        return None

    def repriced(self, offers: Sequence[Offer]) -> Repriced:
        """The offers at today's prices, where the account is told them within some seconds: see
        `prices`.
        """
        from providers.adapters.aws import prices

        return prices.repriced(self._client, self._around, self._regions, offers, self._now())

    def usable(self, places: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
        return self._around.usable(places)

    def check(self) -> Sequence[CheckLine]:
        from providers.adapters.aws.check import lines

        return lines(self._client, self._world, self._regions)

    def group(self, candidates: Sequence[Candidate]) -> int:
        return grouping.group(candidates)

    # Creating

    def submit(self, order: Order) -> Ticket:
        """One CreateFleet or RunInstances, its ClientToken the order's token, so that EC2 does the
        work once.

        Before it: reads of image, network and groups (some remembered), and what must be made for
        it: the owner's security group, a placement group for several nodes, a fleet's launch
        template. The template goes right after the call, however that ends.
        """
        first = order.candidates[0]
        context = self._context(order)
        if self._regions and first.region not in self._regions:
            text = (
                f"aws {first.region}: wanted one of the configured regions"
                f" ({', '.join(self._regions)}), found {first.region}; change `regions`"
            )
            raise Unsupported(
                text,
                provider=PROVIDER,
                code="REGION_NOT_CONFIGURED",
                scopes=[Scope(PROVIDER, first.region)],
                block_s=0.0,
            )
        around = self._around.around(order, context)
        creating = context._replace(creating=True)
        try:
            call = native.creating_call(order, around)
            ids = (
                self._fleet(order, call, creating)
                if call.method == native.FLEET
                else self._run(call, creating)
            )
        except OutcomeUnknown:
            raise
        except CloudError as error:
            self._around.drop_groups(order, around.new_group)
            if isinstance(error, QuotaExceeded) and error.metric:
                error.limit = self._limit(error.metric, context)
            raise
        return Ticket(
            order,
            "waiting",
            (("region", call.region), ("instances", ",".join(ids))),
            detail="; ".join(call.notes),
        )

    def _limit(self, quota: str, context: Context) -> str:
        """The quota in that region, which EC2's refusal states in words alone; empty where it is
        not told. One call.
        """
        try:
            answer = self._client.call(
                "get_service_quota",
                context,
                service="service-quotas",
                ServiceCode="ec2",
                QuotaCode=quota,
            )
        except CloudError:
            return ""
        value = (answer.get("Quota") or {}).get("Value")
        return f"{value:g}" if isinstance(value, (int, float)) else ""

    def _fleet(self, order: Order, call: native.Call, context: Context) -> list[str]:
        self._around.template(call, context._replace(creating=False))
        try:
            answer = self._client.call("create_fleet", context, **call.body)
        finally:
            self._around.drop_template(order)
        ids = [
            str(found)
            for item in answer.get("Instances") or ()
            for found in item.get("InstanceIds") or ()
        ]
        if not ids:
            raise from_fleet(answer.get("Errors") or (), self._with_zones(context))
        return ids

    def _run(self, call: native.Call, context: Context) -> list[str]:
        answer = self._client.call("run_instances", context, **call.body)
        return [
            str(item["InstanceId"])
            for item in sorted(answer.get("Instances") or (), key=read.launch_order)
        ]

    def poll(self, ticket: Ticket) -> Ticket:
        """Looks at the machines themselves and compares them with the order; done once all of them
        run.
        """
        order, known = ticket.order, dict(ticket.native)
        context = self._context(order)
        ids = [text for text in known.get("instances", "").split(",") if text]
        made = self._made(order, context)
        found = {str(instance["InstanceId"]) for instance in made}
        if not set(ids) <= found:
            # Made a moment ago, and not in every list yet: EC2's own answer named them.
            return ticket
        return self._delivered(ticket, made, context)

    def resume(self, order: Order) -> Ticket | None:
        """Looks for machines that bear the order's token, several times, some seconds apart, since
        EC2's lists lag.

        Repeating the call with the same ClientToken would be safe too, but would buy where nothing
        had been bought.
        """
        context = self._context(order)
        wanted = len(order.node_names)
        for pause_s in self._looks_s:
            self._sleep(pause_s)
            made = self._made(order, context)
            alive = [
                instance
                for instance in made
                if read.state(instance) not in ("shutting-down", "terminated")
            ]
            if len(alive) == wanted:
                self._around.drop_template(order)
                ids = ",".join(str(instance["InstanceId"]) for instance in alive)
                return Ticket(
                    order, "waiting", (("region", order.candidates[0].region), ("instances", ids))
                )
            if alive:
                raise self._half_made(
                    "PARTLY_MADE", f"{len(alive)} of {wanted} machines exist", alive, context
                )
        self._around.drop_template(order)
        self._around.drop_groups(order)
        return None

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
        own = not region_facts.options_of(order).security_group
        what = f"aws {first.reservation or where or first.region} {kinds} {first.capacity}"
        return Context(
            what, region=first.region, token=order.token, candidates=order.candidates, own=own
        )

    def _with_zones(self, context: Context) -> Context:
        """The context with this account's zone names, for an answer that may name zones so. Best
        effort.
        """
        try:
            return context._replace(zone_ids=tuple(self._around.zone_ids(context.region).items()))
        except CloudError:
            return context

    def _made(self, order: Order, context: Context) -> list[dict[str, Any]]:
        """Every machine that the order made, ended ones too while EC2 still shows them."""
        return list(
            self._listed(context, [{"Name": f"tag:{tagging.ORDER}", "Values": [order.token]}])
        )

    def _half_made(
        self,
        code: str,
        found: str,
        instances: Iterable[Mapping[str, Any]],
        context: Context,
        scopes: Sequence[Scope] = (),
    ) -> HalfMade:
        handles = [
            read.handle(context.region, str(instance["InstanceId"])) for instance in instances
        ]
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
        order = ticket.order
        alive = [instance for instance in made if read.state(instance) != "terminated"]
        leaving = [instance for instance in made if read.state(instance) in read.LEAVING]
        ids = self._around.zone_ids(context.region) if made else {}
        if leaving or not made:
            candidate = read.placed(order, made, ids) if made else None
            tried = (candidate,) if candidate is not None else order.candidates
            reason: dict[str, Any] = next(
                (instance["StateReason"] for instance in leaving if instance.get("StateReason")), {}
            )
            why = (
                from_state(reason, context, tried)
                if made
                else NoCapacity(
                    f"{context.what}: made, and gone", provider=PROVIDER, code="GONE_AFTER_CREATE"
                )
            )
            if not alive:
                self._around.drop_groups(order)
                raise why
            raise self._half_made(
                why.code,
                f"a machine is already {read.state(leaving[0])} ({why})",
                alive,
                context,
                why.scopes,
            )
        if len(made) != len(order.node_names):
            raise self._half_made(
                "WRONG_COUNT",
                f"{len(made)} machines exist instead of {len(order.node_names)}",
                made,
                context,
            )
        placed = read.placed(order, made, ids)
        if placed is None:
            what = "; ".join(sorted({read.describe(instance, ids) for instance in made}))
            raise self._half_made("NOT_AS_ORDERED", f"EC2 made {what}", made, context)
        self._name(order, made, context)
        if {read.state(instance) for instance in made} == {"running"}:
            ordered = sorted(made, key=read.launch_order)
            handles = tuple(
                read.handle(context.region, str(instance["InstanceId"])) for instance in ordered
            )
            return ticket._replace(state="done", placed=placed, handles=handles)
        return ticket._replace(state="waiting")

    def _name(self, order: Order, made: Sequence[Mapping[str, Any]], context: Context) -> None:
        """Gives each machine a name of its own: one call made them all, so all bear the first
        one's. Best effort, and again at the next look.
        """
        free, doubled = list(order.node_names), []
        for instance in sorted(made, key=read.launch_order):
            name = read.tags(instance).get(tagging.NAME, "")
            if name in free:
                free.remove(name)
            else:
                doubled.append(str(instance["InstanceId"]))
        with suppress(CloudError):
            for instance_id, name in zip(doubled, free, strict=False):
                self._client.call(
                    "create_tags",
                    context,
                    Resources=[instance_id],
                    Tags=tagging.tag_list({tagging.NAME: name}),
                )

    # Seeing

    def observe(self, handles: Sequence[Handle]) -> Sequence[Node]:
        """One list a region, by id. A machine that EC2 lists as terminated is gone, and one that it
        says by name not to know: not to be listed is not enough.

        Where the deletion was this process's own, what the machine alone used is tidied away then,
        and nothing may be left under its Spot request.
        """
        by_region: dict[str, list[str]] = {}
        for handle in handles:
            region, instance_id = _parsed(handle)
            by_region.setdefault(region, []).append(instance_id)
        seen: dict[Handle, Node] = {}
        for region, wanted in by_region.items():
            context = Context(f"aws {region}: looking at {', '.join(wanted[:3])}", region)
            # By filter: asked by id, one that EC2 no longer knows would be an error for all.
            filters = [{"Name": "instance-id", "Values": list(dict.fromkeys(wanted))}]
            found = list(self._listed(context, filters))
            listed = {str(instance["InstanceId"]) for instance in found}
            found += [
                instance
                for each in dict.fromkeys(wanted)
                if each not in listed and (instance := self._by_id(context, each)) is not None
            ]
            ids = self._around.zone_ids(region) if found else {}
            seen.update(
                {
                    read.handle(region, str(instance["InstanceId"])): read.node(
                        region, instance, ids
                    )
                    for instance in found
                }
            )
        return [self._ended(seen.get(handle) or read.gone(handle)) for handle in handles]

    def _ended(self, node: Node) -> Node:
        ending = self._ending.get(node.handle)
        if ending is None or node.status != GONE:
            return node
        if ending.spot_request:
            left = self._under(node.region, ending.spot_request)
            if left:
                self._terminate(node.region, left)
                return node._replace(
                    status=STOPPING, detail=f"its Spot request had started {', '.join(left)}"
                )
        self._ending.pop(node.handle, None)
        if ending.owner:
            self._around.tidy(node.region, ending.owner)
        return node

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        """Every region of interest, page by page, by tags: the configured regions, else all that
        the account has enabled.

        Raises when one region can't be asked: absence would be a guess. Asked for everything of an
        owner, it tidies regions that hold none of his machines but still his security group.
        """
        if self._untouched():
            return []
        wanted = [
            (tagging.OWNER, owner),
            (tagging.CLUSTER, cluster),
            (tagging.GENERATION, generation),
        ]
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in wanted if value]
        filters += [
            {"Name": "instance-state-name", "Values": list(LIVE_STATES)},
            *([] if owner else [{"Name": "tag-key", "Values": [tagging.OWNER]}]),
        ]

        def look(region: str) -> list[Node]:
            context = Context(f"aws {region}: looking for machines", region)
            found = list(self._listed(context, filters))
            if owner and not found and not cluster and not generation:
                self._around.tidy_empty(region, owner)
            ids = self._around.zone_ids(region) if found else {}
            return [read.node(region, instance, ids) for instance in found]

        return [node for nodes in self._everywhere(look) for node in nodes]

    def _everywhere(self, look: Callable[[str], list[Node]]) -> list[list[Node]]:
        from concurrent.futures import ThreadPoolExecutor

        regions = self._regions or self._around.enabled()
        with ThreadPoolExecutor(
            min(REGIONS_AT_ONCE, max(1, len(regions))), thread_name_prefix="aws-regions"
        ) as pool:
            return list(pool.map(look, regions))

    def _listed(self, context: Context, filters: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        for page in self._client.pages(
            "describe_instances", context, Filters=filters, MaxResults=PAGE
        ):
            yield from read.machines_of(page, context)

    def _by_id(self, context: Context, instance_id: str) -> dict[str, Any] | None:
        """The machine; None where EC2 says that it does not exist. One call. Raises for an answer
        that says neither.
        """
        try:
            found = list(
                read.machines_of(
                    self._client.call("describe_instances", context, InstanceIds=[instance_id]),
                    context,
                )
            )
        except CloudError as error:
            if error.code != "InvalidInstanceID.NotFound":
                raise
            return None
        if not found:
            raise from_exception(
                ValueError("an answer without the machine, and not that it does not exist"), context
            )
        return found[0]

    def log(self, handle: Handle) -> str:
        """What the machine wrote to its console, cloud-init's output included: the last 64 KB, as
        EC2 keeps it.
        """
        region, instance_id = _parsed(handle)
        context = Context(f"aws {region}: reading the console of {instance_id}", region)
        return str(
            self._client.call(
                "get_console_output", context, InstanceId=instance_id, Latest=True
            ).get("Output")
            or ""
        )

    # Changing

    def delete(self, handle: Handle) -> None:
        """Cancels its Spot request first, if that would start another machine, then terminates it;
        its volumes go with it.

        One that has ended already still has its request looked after: a persistent one may have
        started another machine, which bears no mark.
        """
        region, instance_id = _parsed(handle)
        context = Context(f"aws {region}: deleting {instance_id}", region)
        found = list(self._listed(context, [{"Name": "instance-id", "Values": [instance_id]}]))
        if not found:
            return
        request = str(found[0].get("SpotInstanceRequestId") or "")
        ids = [] if read.state(found[0]) == "terminated" else [instance_id]
        persistent = self._cancelled(found[0], context)
        if persistent:
            ids += [other for other in self._under(region, request) if other != instance_id]
        if not ids:
            return
        mark = tagging.mark_of(read.tags(found[0]))
        self._ending[handle] = _Ending(mark.owner if mark else "", request if persistent else "")
        self._terminate(region, ids)

    def _terminate(self, region: str, ids: Sequence[str]) -> None:
        context = Context(f"aws {region}: deleting {', '.join(ids)}", region)
        try:
            self._client.call("terminate_instances", context, InstanceIds=list(ids))
        except CloudError as error:
            if error.code != "InvalidInstanceID.NotFound":
                raise

    def _cancelled(self, instance: Mapping[str, Any], context: Context) -> bool:
        """Cancels the machine's Spot request if that is a persistent one; True if it was. A stopped
        machine's is `disabled`, and starts none then.
        """
        request = power.request_of(self._client, instance, context)
        if request.get("Type") != power.PERSISTENT:
            return False
        if request.get("State") in ("open", "active", "disabled"):
            self._client.call(
                "cancel_spot_instance_requests",
                context,
                SpotInstanceRequestIds=[str(request["SpotInstanceRequestId"])],
            )
        return True

    def _under(self, region: str, request: str) -> list[str]:
        """Machines that live under a Spot request; one that it started by itself bears no mark."""
        filters: list[dict[str, Any]] = [
            {"Name": "spot-instance-request-id", "Values": [request]},
            {"Name": "instance-state-name", "Values": list(LIVE_STATES)},
        ]
        context = Context(f"aws {region}: looking under {request}", region)
        return [str(instance["InstanceId"]) for instance in self._listed(context, filters)]

    def relabel(self, handle: Handle, generation: str) -> None:
        region, instance_id = _parsed(handle)
        context = Context(f"aws {region}: labelling {instance_id}", region)
        self._client.call(
            "create_tags",
            context,
            Resources=[instance_id],
            Tags=tagging.tag_list({tagging.GENERATION: generation}),
        )

    def update(self, handle: Handle, change: Mapping[str, object]) -> None:
        """`labels`: the user's labels, replacing the earlier ones. Tags that others put there stay.

        `state`: `stopped`, which discards what is on instance store, or `running`: started again,
        in its zone and nowhere else.
        """
        if "labels" in change:
            self._edit_labels(handle, change)
        if "state" in change:
            power.switch(self._client, *_parsed(handle), str(change["state"]), self._sleep)

    def _edit_labels(self, handle: Handle, change: Mapping[str, object]) -> None:
        region, instance_id = _parsed(handle)
        context = Context(f"aws {region}: labelling {instance_id}", region)
        found = list(self._listed(context, [{"Name": "instance-id", "Values": [instance_id]}]))
        if not found:
            raise Unsupported(
                f"{context.what}: EC2 does not know it",
                provider=PROVIDER,
                code="InvalidInstanceID.NotFound",
            )
        given: Any = change["labels"]
        labels = {str(key): str(value) for key, value in dict(given).items()}
        old = read.tags(found[0]).get(tagging.LABELS, "").split()
        stale = [key for key in [*old, tagging.LABELS] if key not in tagging.label_tags(labels)]
        if labels:
            self._client.call(
                "create_tags",
                context,
                Resources=[instance_id],
                Tags=tagging.tag_list(tagging.label_tags(labels)),
            )
        if stale:
            self._client.call(
                "delete_tags",
                context,
                Resources=[instance_id],
                Tags=[{"Key": key} for key in stale],
            )


def _parsed(handle: Handle) -> tuple[str, str]:
    try:
        return read.parse(handle)
    except ValueError as error:
        raise Unsupported(
            f"aws: {error}", provider=PROVIDER, code="INVALID_HANDLE", block_s=0.0
        ) from None
