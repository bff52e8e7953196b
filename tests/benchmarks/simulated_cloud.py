"""EC2 and Compute Engine on the simulated market, behind the adapter protocol.

Which candidates one call may choose among, and what a refusal means, is the real adapters' own
code. What their calls are, and in which order, is theirs too, counted here by hand: see `_around`,
`_admitted` and `launch_ended`; `tests/unit/aws/test_model_of_calls.py` holds that against EC2's own
adapter. Time is the world's clock, which each call moves by what it takes.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from providers.adapters.aws import MANIFEST as AWS_MANIFEST
from providers.adapters.aws import creation, optin
from providers.adapters.aws import errors as aws_errors
from providers.adapters.aws import grouping as aws_grouping
from providers.adapters.gcp import MANIFEST as GCP_MANIFEST
from providers.adapters.gcp import errors as gcp_errors
from providers.adapters.gcp import grouping as gcp_grouping
from providers.catalog.offers import load
from providers.errors import NoCapacity, QuotaExceeded
from providers.model.ask import ON_DEMAND
from providers.model.machine import (
    GONE,
    PENDING,
    PREEMPTED,
    RUNNING,
    STARTING,
    Handle,
    Node,
    Ticket,
)
from tests.benchmarks.market import GCP, Market, Pool

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from providers.adapters.base import Manifest
    from providers.errors import CloudError
    from providers.model.machine import CheckLine, Label, Order
    from providers.model.offer import Candidate, Offer
    from tests.virtual_time import VirtualClock

AWS = "aws"
START = 1_800_000_000.0
"""The clock's time at which the market begins."""
REGIONS_AT_ONCE = 8
"""As EC2's adapter has it."""
_NO_QUOTA = {"spot": "MaxSpotInstanceCountExceeded", "on-demand": "VcpuLimitExceeded"}
_MANIFESTS = {AWS: AWS_MANIFEST, GCP: GCP_MANIFEST}


class SimulatedCloud:
    """One cloud of one market. `bare`: without the calls around a creating call, to see what they
    cost.
    """

    def __init__(self, name: str, market: Market, clock: VirtualClock, *, bare: bool) -> None:
        self.name, self.world = name, "rehearsal"
        self._market, self._clock, self._bare = market, clock, bare
        self._labels: dict[str, tuple[Label, str]] = {}
        self._pending: dict[str, tuple[float, str, CloudError | None]] = {}
        """Token -> when the answer is there, the machine or nothing, and why nothing."""
        self._set_aside: dict[str, tuple[float, float]] = {}
        """Machine -> when it is this order's for certain, and when it runs."""
        self._looked: set[str] = set()
        self._groups: set[str] = set()
        self._templates: set[str] = set()
        self._inside: set[str] = set()
        """Machines that are in their group."""

    def manifest(self) -> Manifest:
        """The real one, with this in place of its connection."""

        def connect(_world: str, _config: Mapping[str, str], *_rehearsed: object) -> SimulatedCloud:
            return self

        return _MANIFESTS[self.name]._replace(connect=connect)

    @property
    def now(self) -> float:
        """The market's time."""
        return self._clock.now() - START

    def offers(self) -> Sequence[Offer] | None:
        return None

    def check(self) -> Sequence[CheckLine]:
        return ()

    def group(self, candidates: Sequence[Candidate]) -> int:
        group = gcp_grouping.group if self.name == GCP else aws_grouping.group
        return group(candidates)

    # Creating

    def submit(self, order: Order) -> Ticket:
        pools = [_pool(candidate) for candidate in order.candidates]
        if self.name == GCP or not self._bare:
            self._around(order, pools)
        self._changes(1, creates=True)
        pool = next((each for each in pools if self._market.obtainable(each, self.now)), None)
        error = None if pool is not None else self._refusal(order, pools)
        made = "" if pool is None else self._make(order, pool)
        took = (
            self._market.refusal(pools)
            if pool is None
            else self._market.seconds("grant_s", pool.region)
        )
        if self.name == AWS:
            self._clock.advance(took)
            if error is not None:
                raise error
            took = 0.0
        boot = self._market.seconds("boot_s", pool.region) if pool is not None else 0.0
        at = self.now + took
        self._set_aside[made] = (at, at + boot)
        self._pending[order.token] = (at + boot, made, error)
        return Ticket(order, "waiting", (("token", order.token),))

    def poll(self, ticket: Ticket) -> Ticket:
        self._call()
        at, made, error = self._pending[ticket.order.token]
        self._admitted(made)
        if made and self._market.machines[made].ended <= self.now:
            raise NoCapacity("made, and gone", provider=self.name, code="GONE_AFTER_CREATE")
        if self.now < at:
            return ticket
        if error is not None:
            raise error
        pool = self._market.machines[made].pool
        placed = next(each for each in ticket.order.candidates if _pool(each) == pool)
        return ticket._replace(state="done", placed=placed, handles=(Handle(self.name, made),))

    def resume(self, order: Order) -> Ticket | None:
        self._call()
        at, _, error = self._pending.get(order.token, (0.0, "", None))
        if order.token not in self._pending or (error is not None and self.now >= at):
            return None
        return Ticket(order, "waiting", (("token", order.token),))

    def launch_ended(self, owner: str, cluster: str, regions: Collection[str]) -> None:
        """EC2's templates go, and its groups where no machine stands (`kept.ended`): in several
        regions at once, one call after another in each.
        """
        bare = self._groups.intersection(regions)
        places = self._templates.union(regions)
        if self.name == AWS and not self._bare and places:
            self._market.mutations += len(self._templates) + len(bare)
            most = max(
                (place in self._templates) + 2 * (place in regions) + 2 * (place in bare)
                for place in places
            )
            self._call(most * math.ceil(len(places) / REGIONS_AT_ONCE))
            self._templates.clear()
            self._groups -= bare

    def _around(self, order: Order, pools: Sequence[Pool]) -> None:
        """What precedes the creating call.

        EC2 is asked which regions are enabled (once); for zones, network and group, quota and
        image, side by side (once a region). Where the order needs a fleet, its template is made once
        a launch and region (`surroundings.around`, `kept`). Google is asked for the region's zones,
        once.
        """
        region = pools[0].region
        if region not in self._looked:
            first = not self._looked
            self._looked.add(region)
            self._call(1 if self.name == GCP else 1 + first)
        if self.name == GCP:
            return
        if not any(self._market.has_quota(pool) for pool in pools):
            raise aws_errors.beyond_quota(0.0, creation.context_of(order))
        zones = sold_in(region, pools[0].machine_type)
        spreads = aws_grouping.spreads(order) and aws_grouping.covers(order.candidates, zones)
        if len(pools) > 1 and not spreads and region not in self._templates:
            self._templates.add(region)
            self._changes(1)

    def _admitted(self, machine: str) -> None:
        """The owner's group is looked up again, made and given its rules, and EC2's machine put
        into it (`admission`).
        """
        if self.name != AWS or self._bare or not machine or machine in self._inside:
            return
        self._inside.add(machine)
        region = self._market.machines[machine].pool.region
        if region not in self._groups:
            self._groups.add(region)
            self._call()
            self._changes(2)
        self._changes(1)

    def _make(self, order: Order, pool: Pool) -> str:
        machine = self._market.claim(pool, self.now)
        assert machine is not None
        self._labels[machine.id] = (order.label, order.node_names[0])
        return machine.id

    def _refusal(self, order: Order, pools: list[Pool]) -> CloudError:
        first = pools[0]
        quota = any(self._market.has_quota(pool) for pool in pools)
        if self.name == GCP:
            context = gcp_errors.Context(
                f"gcp {first.region}", "simulated", candidates=order.candidates
            )
            if not quota:
                return gcp_errors.quota_exceeded(
                    "quotaExceeded", "GPUS", 0.0, first.region, context
                )
            code = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "none there"}
            return gcp_errors.from_operation({"error": {"errors": [code]}}, context)
        code_name = "InsufficientInstanceCapacity" if quota else _NO_QUOTA[first.capacity]
        error = aws_errors.from_fleet(
            [
                {
                    "ErrorCode": code_name,
                    "ErrorMessage": "none there",
                    "LaunchTemplateAndOverrides": {
                        "Overrides": {
                            "InstanceType": pool.machine_type,
                            "AvailabilityZone": pool.zone,
                        }
                    },
                }
                for pool in pools
            ],
            creation.context_of(order)._replace(
                zone_ids=tuple((pool.zone, pool.zone) for pool in pools)
            ),
        )
        if isinstance(error, QuotaExceeded):
            self._call()  # how much it is
            error.limit = "0"
        return error

    # What exists

    def observe(self, handles: Sequence[Handle]) -> Sequence[Node]:
        self._call()
        return [self._node(handle.native_id) for handle in handles]

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        self._call()
        wanted = (owner, cluster, generation)
        return [
            self._node(machine.id)
            for machine in self._market.alive(self.now)
            if machine.id in self._labels
            and all(
                want in ("", has)
                for want, has in zip(wanted, self._labels[machine.id][0], strict=False)
            )
        ]

    def delete(self, handle: Handle) -> None:
        self._changes(1)
        self._market.release(handle.native_id, self.now)

    def relabel(self, handle: Handle, generation: str) -> None:
        self._changes(1)
        label, name = self._labels[handle.native_id]
        self._labels[handle.native_id] = (label._replace(generation=generation), name)

    def update(self, handle: Handle, change: Mapping[str, object]) -> None:
        self._changes(1)

    def _node(self, machine: str) -> Node:
        found = self._market.machines[machine]
        label, name = self._labels[machine]
        pool = found.pool
        aside, up = self._set_aside[machine]
        status = PENDING if self.now < aside else STARTING if self.now < up else RUNNING
        if found.ended <= self.now:
            status = GONE
        if status == RUNNING and self._market.preempted(machine, self.now):
            status = PREEMPTED
        return Node(
            Handle(self.name, machine),
            name,
            status,
            label,
            pool.region,
            pool.zone,
            pool.machine_type,
            capacity=pool.capacity,
        )

    # Time and counting

    def _call(self, calls: int = 1) -> None:
        self._clock.advance(calls * self._market.by.call_s)

    def _changes(self, calls: int, *, creates: bool = False) -> None:
        self._market.mutations += calls
        if creates:
            self._market.creates += calls
        else:
            self._call(calls)


@cache
def sold_in(region: str, machine_type: str) -> tuple[str, ...]:
    """The zones of the region in which EC2 has the type, by the bundled catalog; no Local Zones,
    which an account has to enable.
    """
    offers = load()
    return tuple(
        offer.zone
        for offer in map(offers.offer, range(len(offers)))
        if (offer.provider, offer.region, offer.machine_type, offer.capacity)
        == (AWS, region, machine_type, ON_DEMAND)
        and not optin.zone_group(region, offer.zone)
    )


def _pool(candidate: Candidate) -> Pool:
    return Pool(
        candidate.provider,
        candidate.region,
        candidate.zone,
        candidate.machine_type,
        candidate.capacity,
    )
