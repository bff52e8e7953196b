"""EC2 behind the adapter protocol. Owns the flow of calls: submit, poll, settle, observe, find,
delete, edit.

Must not retry a creating call. boto3 comes in through `client` only.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from providers.adapters.aws import (
    admission,
    block_orders,
    changes,
    creation,
    delivery,
    grouping,
    lookup,
    power,
    tagging,
)
from providers.adapters.aws import compile as native
from providers.adapters.aws import nodes as read
from providers.adapters.aws.block_orders import BlockOrders, for_block
from providers.adapters.aws.errors import PROVIDER, Context
from providers.adapters.aws.kept import LIVE_STATES
from providers.adapters.aws.surroundings import Surroundings
from providers.adapters.aws.volumes import Ebs
from providers.adapters.base import (
    Advises,
    BlockMarket,
    ConsoleLog,
    HasVolumes,
    LaunchHelpers,
    OwnAccount,
    PlaceAccess,
    Repricing,
)
from providers.errors import CloudError, NotConfigured, OutcomeUnknown, QuotaExceeded, Unsupported
from providers.model.machine import GONE, STOPPING, Ticket
from providers.model.place import Scope
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from providers.adapters.aws.client import Client
    from providers.adapters.base import Repriced
    from providers.model.advice import Question
    from providers.model.ask import Ask
    from providers.model.machine import CheckLine, Handle, Label, Node, Order
    from providers.model.offer import Candidate, Offer

T = TypeVar("T")
LOOKS_S = (0.0, 2.0, 5.0)
"""Before "nothing was made" is believed: EC2's lists lag behind its creating calls by some seconds
(eventual consistency, EC2 API reference).
"""
REGIONS_AT_ONCE = 8


class _Ending(NamedTuple):
    """A machine whose deletion this process started: whose it was, and its Spot request if it has
    one.
    """

    label: Label | None
    spot_request: str


class Ec2(
    Repricing,
    Advises,
    BlockMarket,
    PlaceAccess,
    ConsoleLog,
    OwnAccount,
    HasVolumes,
    LaunchHelpers,
):
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
        block_looks_s: tuple[float, ...] = block_orders.LOOKS_S,
        untouched: Callable[[], bool] = lambda: False,
        profile: str = "",
    ) -> None:
        self._world = world
        self._opened = opened
        self._opening = threading.Lock()
        self._open: tuple[Client, Surroundings] | None = None
        self._regions = regions
        self.sleep = sleep
        self._looks_s = looks_s
        self.now = now
        self._untouched = untouched
        self._profile = profile
        self._number = ""
        self._ending: dict[Handle, _Ending] = {}
        self.blocks = BlockOrders(self, block_looks_s)

    def _parts(self) -> tuple[Client, Surroundings]:
        with self._opening:
            if self._open is None:
                client = self._opened()
                self._open = client, Surroundings(client, self.now)
            return self._open

    @property
    def client(self) -> Client:
        return self._parts()[0]

    @property
    def surroundings(self) -> Surroundings:
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
            who = self.client.call(
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

    @property
    def volumes(self) -> Ebs:
        return Ebs(lambda: self.client, lambda: self.surroundings, self.everywhere, self._untouched)

    def offers(self) -> Sequence[Offer] | None:
        """None: the dated catalog, over which `repriced` lays today's prices."""
        return None

    def repriced(self, offers: Sequence[Offer]) -> Repriced:
        """The offers at today's prices, where the account is told them within some seconds: see
        `prices`.
        """
        from providers.adapters.aws import prices

        return prices.repriced(self.client, self.surroundings, self._regions, offers, self.now())

    def advice(self, offers: Sequence[Offer], nodes: int) -> Sequence[Question]:
        from providers.adapters.aws.advice import questions

        return questions(lambda: self.client, self._regions, offers, nodes)

    def block_offers(self, ask: Ask, like: Sequence[Offer]) -> Repriced:
        from providers.adapters.aws.blocks import offered

        regions = self._regions or self.surroundings.enabled()
        return offered(self.client, self.surroundings.zone_ids, regions, ask, like, self.now())

    def usable(self, places: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
        return self.surroundings.usable(places)

    def check(self) -> Sequence[CheckLine]:
        from providers.adapters.aws.check import lines

        return lines(self.client, self._world, self._regions)

    def group(self, candidates: Sequence[Candidate]) -> int:
        return grouping.group(candidates)

    # Creating

    def submit(self, order: Order) -> Ticket:
        """One CreateFleet or RunInstances, its ClientToken the order's token, so that EC2 does the
        work once.

        Before it: reads of image, network, quota and groups (most remembered), and what must be
        made for it: a fleet's launch template, kept until the launch has ended, and a placement
        group for several nodes. The security group is made once there are machines: see `poll`.
        """
        first = order.candidates[0]
        context = creation.context_of(order)
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
        if for_block(order):
            return self.blocks.submit(order)
        order = self.volumes.named(order)
        around = self.surroundings.around(order, context)
        creating = context._replace(creating=True)
        try:
            call = native.creating_call(order, around)
            ids = (
                creation.create_fleet(self.client, self.surroundings, order, call, creating)
                if call.method == native.FLEET
                else creation.run_instances(self.client, call, creating)
            )
        except OutcomeUnknown:
            raise
        except CloudError as error:
            self.surroundings.refused(order, error)
            if isinstance(error, QuotaExceeded) and error.metric:
                limit = self.surroundings.quotas.limit(call.region, error.metric)
                error.limit = "" if limit is None else f"{limit:g}"
            raise
        return Ticket(
            order,
            "waiting",
            (("region", call.region), ("instances", ",".join(ids))),
            detail="; ".join(call.notes),
        )

    def poll(self, ticket: Ticket) -> Ticket:
        """Looks at the machines themselves, puts them into the owner's security group, and compares
        them with the order; done once all of them run, with the volumes of the order attached.
        """
        if for_block(ticket.order):
            return self.blocks.poll(ticket)
        order, known = ticket.order, dict(ticket.native)
        context = creation.context_of(order)
        ids = [text for text in known.get("instances", "").split(",") if text]
        made = lookup.made_for(self.client, order, context)
        found = {str(instance["InstanceId"]) for instance in made}
        unlisted = sorted(set(ids) - found)
        if unlisted and not lookup.forgotten(self.client, order, unlisted, self.now(), context):
            # Made a moment ago, and not in every list yet: EC2's own answer named them.
            return ticket
        after = delivery.delivered(self.client, self.surroundings, ticket, made, context)
        if after.state == "done":
            self.volumes.attach(order, after.handles[0])
        return after

    def resume(self, order: Order) -> Ticket | None:
        """Looks for machines that bear the order's token, several times, some seconds apart, since
        EC2's lists lag.

        Repeating the call with the same ClientToken would be safe too, but would buy where nothing
        had been bought.
        """
        context = creation.context_of(order)
        wanted = len(order.node_names)
        block = for_block(order)
        for pause_s in (0.0,) if block else self._looks_s:
            self.sleep(pause_s)
            made = lookup.made_for(self.client, order, context)
            alive = [
                instance
                for instance in made
                if read.state(instance) not in ("shutting-down", "terminated")
            ]
            if block and len(alive) in (0, wanted):
                return self.blocks.resume(order, alive)
            if len(alive) == wanted:
                ids = ",".join(str(instance["InstanceId"]) for instance in alive)
                return Ticket(
                    order, "waiting", (("region", order.candidates[0].region), ("instances", ids))
                )
            if alive:
                raise delivery.of(alive, context).half_made(
                    "PARTLY_MADE", f"{len(alive)} of {wanted} machines exist"
                )
        self.surroundings.drop_placement_group(order)
        return None

    # Seeing

    def observe(self, handles: Sequence[Handle]) -> Sequence[Node]:
        """One list a region, by id. A machine that EC2 lists as terminated is gone, and one that it
        says by name not to know: not to be listed is not enough.

        Where the deletion was this process's own, what the machine alone used is tidied away then,
        and nothing may be left under its Spot request.
        """
        by_region: dict[str, list[str]] = {}
        for handle in handles:
            region, instance_id = lookup.region_and_id(handle)
            by_region.setdefault(region, []).append(instance_id)
        seen: dict[Handle, Node] = {}
        for region, wanted in by_region.items():
            context = Context(f"aws {region}: looking at {', '.join(wanted[:3])}", region)
            # By filter: asked by id, one that EC2 no longer knows would be an error for all.
            filters = [{"Name": "instance-id", "Values": list(dict.fromkeys(wanted))}]
            found = list(lookup.listed(self.client, context, filters))
            listed = {str(instance["InstanceId"]) for instance in found}
            found += [
                instance
                for each in dict.fromkeys(wanted)
                if each not in listed
                and (instance := lookup.by_id(self.client, context, each)) is not None
            ]
            ids = self.surroundings.zone_ids(region) if found else {}
            seen.update(
                {
                    read.handle(region, str(instance["InstanceId"])): read.node(
                        region, instance, ids, self.now()
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
            left = lookup.under_request(self.client, node.region, ending.spot_request)
            if left:
                changes.terminate(self.client, node.region, left)
                return node._replace(
                    status=STOPPING, detail=f"its Spot request had started {', '.join(left)}"
                )
        self._ending.pop(node.handle, None)
        if ending.label is not None:
            self.surroundings.kept.tidy(node.region, *ending.label[:2])
        return node

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        """Every region of interest, page by page, by tags: the configured regions, else all that
        the account has enabled.

        Raises when one region can't be asked: absence would be a guess. Asked for everything of an
        owner, it tidies regions that hold none of his machines but still helpers of them.
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
            found = list(lookup.listed(self.client, context, filters))
            if owner and not found and not cluster and not generation:
                self.surroundings.kept.tidy_empty(region, owner)
            ids = self.surroundings.zone_ids(region) if found else {}
            return [read.node(region, instance, ids, self.now()) for instance in found]

        return [node for nodes in self.everywhere(look) for node in nodes]

    def everywhere(self, look: Callable[[str], list[T]]) -> list[list[T]]:
        """What a look finds in each region of interest, side by side."""
        return self._side_by_side(look, self._regions or self.surroundings.enabled())

    def _side_by_side(
        self, look: Callable[[str], list[T]], regions: Sequence[str]
    ) -> list[list[T]]:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(
            min(REGIONS_AT_ONCE, max(1, len(regions))), thread_name_prefix="aws-regions"
        ) as pool:
            return list(pool.map(look, regions))

    def launch_ended(self, owner: str, cluster: str, regions: Collection[str]) -> None:
        """Removes the launch's templates, and, from regions without an order of the cluster, what
        an earlier run of it left and the security group, if no machine of the owner is there.
        """
        kept = self.surroundings.kept

        def leave(region: str) -> list[None]:
            kept.ended(region, owner, cluster, bare=region in regions)
            return []

        self._side_by_side(leave, sorted({*regions, *kept.places(owner, cluster)}))

    def log(self, handle: Handle) -> str:
        """What the machine wrote to its console, cloud-init's output included: the last 64 KB, as
        EC2 keeps it.
        """
        region, instance_id = lookup.region_and_id(handle)
        context = Context(f"aws {region}: reading the console of {instance_id}", region)
        return str(
            self.client.call(
                "get_console_output", context, InstanceId=instance_id, Latest=True
            ).get("Output")
            or ""
        )

    # Changing

    def delete(self, handle: Handle) -> None:
        """Cancels its Spot request first, if that would start another machine, then terminates it;
        its volumes go with it.

        One that has ended already still has its request looked after: a persistent one may have
        started another machine, which carries no label.
        """
        region, instance_id = lookup.region_and_id(handle)
        context = Context(f"aws {region}: deleting {instance_id}", region)
        found = list(
            lookup.listed(self.client, context, [{"Name": "instance-id", "Values": [instance_id]}])
        )
        if not found:
            return
        request = str(found[0].get("SpotInstanceRequestId") or "")
        ids = [] if read.state(found[0]) == "terminated" else [instance_id]
        persistent = changes.cancelled_request(self.client, found[0], context)
        if persistent:
            ids += [
                other
                for other in lookup.under_request(self.client, region, request)
                if other != instance_id
            ]
        if not ids:
            return
        label = tagging.label_of(read.tags(found[0]))
        self._ending[handle] = _Ending(label, request if persistent else "")
        changes.terminate(self.client, region, ids)

    def relabel(self, handle: Handle, generation: str) -> None:
        """Writes the generation. A machine that is taken over is put into its security group first:
        the run that made it may have been killed in between.
        """
        region, instance_id = lookup.region_and_id(handle)
        context = Context(f"aws {region}: labelling {instance_id}", region, own=True)
        instance = lookup.by_id(self.client, context, instance_id)
        if instance is not None:
            admission.admit(self.client, self.surroundings.kept, (instance,), context)
        self.client.call(
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
            changes.edit_labels(self.client, handle, change)
        if "state" in change:
            power.switch(
                self.client, *lookup.region_and_id(handle), str(change["state"]), self.sleep
            )
