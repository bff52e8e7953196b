"""Clore behind the adapter seam: offers, orders, look-ups. Owns when which call is made;
prices are `pricing`, filters are `filters`, codes are `errors`.

An order is sent exactly once and its answer names no order. So an intent is written first, and what
became of it is read from `my_orders`: by the server, the moment, the orders there were before, and
the label. While that is not certain, nothing else is bought.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from providers.adapters.base import KeylessMarket, OffersByAsk, OwnAccount, Remarks
from providers.adapters.clore import figures, label, market, nodes, orders, progress, purchase
from providers.adapters.clore.check import CLAIM, lines
from providers.adapters.clore.memory import Intent
from providers.adapters.clore.options import IMAGE
from providers.adapters.clore.options import read as read_options
from providers.errors import (
    BadCredentials,
    CloudError,
    InsufficientFunds,
    NotConfigured,
    OutcomeUnknown,
    RateLimited,
    SpecError,
    Transient,
    Unsupported,
)
from providers.model.machine import CheckLine, Handle, Node, Order, Ticket
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.adapters.clore.client import Client
    from providers.adapters.clore.memory import Memory
    from providers.adapters.clore.options import Options
    from providers.model.ask import Ask
    from providers.model.offer import Candidate, Offer


TAKEN = "6:server-already-rented"
"""It was free just before. If the request was delivered twice, this very order may have it. So it
is looked for as after a lost answer, but counts as ours only by its label: mostly somebody else was
faster.
"""


class CloreAdapter(OffersByAsk, KeylessMarket, OwnAccount, Remarks):
    """One key in one world. `clock` is the world's; `source` is what offers name as the source of
    their prices.

    `unopened` lists the market without a call where nothing has happened to it yet, or answers
    None: see `worlds`. `sole` is True where no other machine can have ordered (a rehearsal, whose
    market is as local as the memory): what is not remembered is then not there.
    """

    name = market.PROVIDER

    def __init__(
        self,
        world: str,
        client: Client,
        memory: Memory,
        chosen: Options,
        clock: Callable[[], float],
        source: str,
        *,
        not_configured: str = "",
        jupyter_token: str = "",
        variable: Callable[[str], str] = lambda _name: "",
        unopened: Callable[[], list[object] | None] | None = None,
        sole: bool = False,
        account: Mapping[str, str] | None = None,
    ) -> None:
        self.world = world
        self._account = dict(account or {})
        self._not_configured = not_configured
        self.client = client
        self._memory = memory
        self._options = chosen
        self._clock = clock
        self._source = source
        self.jupyter_token = jupyter_token
        self._variable = variable
        self._unopened = unopened
        self._sole = sole
        self._lock = threading.Lock()
        self._listed: tuple[float, list[object]] | None = None
        self._remarks: tuple[str, ...] = ()

    @property
    def account(self) -> Mapping[str, str]:
        """Which key, by its fingerprint; empty where that is no question."""
        return self._account

    @property
    def not_configured(self) -> str:
        """Why nothing can be bought, though offers can be listed; empty when a key is there."""
        return self._not_configured

    @property
    def remarks(self) -> Sequence[str]:
        """What the last listing held that could not be read, in a line."""
        return self._remarks

    # What is for sale

    def offers(self) -> Sequence[Offer]:
        """The market now, hosts that the filters refuse too (restricted, with the reason). Calls:
        1, without a key.
        """
        return self.listing().offers

    def offers_for(self, ask: Ask) -> Sequence[Offer]:
        """The same under a declaration, only of its GPU types: its section over the settings, its
        disk, and the shortest ttl among its choices. Calls: 1, without a key.

        A section that cannot be read changes nothing. What only another choice's longer ttl refuses
        is refused at the order.
        """
        try:
            chosen = read_options(ask.options.get(self.name) or {}, self._options)
        except SpecError:
            chosen = self._options
        limits = [entry.ttl_s for entry in ask.entries]
        known = [limit for limit in limits if limit is not None]
        # One choice without a ttl takes any host.
        shortest = min(known) if known and len(known) == len(limits) else None
        return self._read(
            chosen,
            shortest,
            ask.disk_gib,
            chosen.image if chosen.image != IMAGE else ask.image,
            ask.gpu_types,
        ).offers

    def listing(self) -> market.Listing:
        """The market now, with every refused host. Calls: 1, without a key."""
        return self._read(self._options, None, None)

    def _read(
        self,
        chosen: Options,
        ttl_s: int | None,
        disk_gib: int | None,
        image: str = "",
        gpu_types: frozenset[str] = frozenset(),
    ) -> market.Listing:
        as_of = time.strftime("%Y-%m-%d", time.gmtime(self._clock()))
        found = market.read(
            self._servers(0.0),
            chosen,
            as_of,
            self._source,
            ttl_s=ttl_s,
            disk_gib=disk_gib,
            image=image,
            gpu_types=gpu_types,
        )
        self._remarks = (found.unreadable,) if found.unreadable else ()
        return found

    def _servers(self, age_s: float) -> list[object]:
        with self._lock:
            listed = self._listed
        if listed is not None and 0 <= self._clock() - listed[0] < age_s:
            return listed[1]
        servers = self._unopened() if self._unopened is not None else None
        if servers is None:
            servers = self.client.marketplace()
        with self._lock:
            self._listed = (self._clock(), servers)
        return servers

    def group(self, candidates: Sequence[Candidate]) -> int:
        """One: an order names its server."""
        del candidates
        return 1

    def check(self) -> Sequence[CheckLine]:
        """The market, the key, the wallet with the hours it lasts, the fees, and orders that
        nothing here made. Calls: 4, reads only.
        """
        return lines(
            self.client,
            self.listing,
            lambda rows: [orders.order_id(row) for row in self._unknown(rows, self._options)],
            self.not_configured,
        )

    # Buying

    def submit(self, order: Order) -> Ticket:
        """Sends one order, once. Calls: my_orders, wallets, with a bid spot_marketplace, the market
        unless just read; then create_order.

        Everything before create_order changes nothing. Raises the refusal, or OutcomeUnknown when
        the answer was lost or says too little.
        """
        if self.not_configured:
            raise NotConfigured(
                f"clore: {self.not_configured}", provider=self.name, scopes=(Scope(self.name),)
            )
        candidate = order.candidates[0]
        server = figures.ordered_server(candidate.machine_type)
        if candidate.nodes != 1 or len(order.candidates) != 1:
            raise Unsupported(
                "clore: wanted one server, found more; servers of several hosts share no network",
                provider=self.name,
                code="nodes",
            )
        chosen = self._chosen(order)
        before = self.client.my_orders()
        self._only_known([row for row in before if not orders.has_ended(row)], chosen)
        bought = purchase.prepared(
            self.client,
            self._servers,
            self.jupyter_token,
            self._variable,
            order,
            candidate,
            server,
            chosen,
        )
        intent = Intent(
            token=order.token,
            label=order.label,
            server=server,
            capacity=candidate.capacity,
            coin=bought.terms.coin,
            per_day=str(bought.per_day),
            usd_per_day=str(bought.usd_per_day),
            cap_usd_per_day=str(bought.cap_usd_per_day),
            started_at=self._clock(),
            deadline_s=chosen.start_deadline_s,
            before=tuple(orders.order_id(row) for row in before),
        )
        self._memory.intend(intent)
        try:
            self.client.create_order(
                bought.body, token=order.token, server=server, capacity=candidate.capacity
            )
        except OutcomeUnknown:
            raise
        except CloudError as error:
            if error.code == TAKEN:
                self._memory.intend(intent._replace(refused=True))
            else:
                # A refusal by its code, or nothing was sent: there is nothing to look for.
                self._memory.settle(order.token)
            if isinstance(error, InsufficientFunds):
                # The service asks for more of this coin than an hour's price: hosts that take
                # another one may still be paid.
                funds = bought.funds._replace(refused=bought.terms.coin)
                error.scopes = funds.unpayable(
                    server, candidate.capacity, self._servers(purchase.MARKET_AGE_S)
                )
            raise
        self._memory.intend(intent._replace(answered=True))
        return Ticket(
            order,
            "waiting",
            (("server", str(server)),),
            purchase.placed_at_price(candidate, intent),
            (),
            "accepted, not listed yet",
        )

    def _chosen(self, order: Order) -> Options:
        """The order's options over those of the settings."""
        try:
            return read_options(dict(order.setup.options), self._options)
        except SpecError as error:
            raise Unsupported(
                f"clore: {error}", provider=self.name, code="options", block_s=0.0
            ) from error

    def _only_known(self, rows: Sequence[Mapping[str, object]], chosen: Options) -> None:
        """Raises while an order of unknown origin runs on the key: Transient while it may still
        show a label, else NotConfigured.
        """
        unknown = self._unknown(rows, chosen)
        listed = ", ".join(str(orders.order_id(row)) for row in unknown)
        now = self._clock()
        if any(
            not orders.ports(row) and now - (orders.made(row) or 0.0) < chosen.start_deadline_s
            for row in unknown
        ):
            message = f"clore: orders {listed} are starting; whose they are shows when they are up"
            raise Transient(
                message,
                provider=self.name,
                code="unknown-order-starting",
                scopes=(Scope(self.name),),
            )
        if unknown:
            message = f"clore: wanted only known orders on the key, found {listed}; {CLAIM}"
            raise NotConfigured(
                message, provider=self.name, code="unknown-order", scopes=(Scope(self.name),)
            )

    def _unknown(
        self, rows: Sequence[Mapping[str, object]], chosen: Options
    ) -> list[Mapping[str, object]]:
        """Orders that no memory, no intent, no label and no claim accounts for: a lost purchase of
        ours may be among them.
        """
        rentals, intents = self._memory.rentals(), self._memory.intents()
        return [
            row
            for row in rows
            if (number := orders.order_id(row)) not in rentals
            and number not in chosen.claimed_orders
            and not any(orders.is_order_of(row, intent) for intent in intents)
            and not label.is_label(orders.ports(row))
        ]

    # What became of it

    def poll(self, ticket: Ticket) -> Ticket:
        """Looks the order up; done once its container runs and ssh is mapped. A bid that was beaten
        meanwhile is raised, up to the cap.

        Calls: my_orders, once more if it is not there; for a bid that waits spot_marketplace and
        set_spot_price. Raises OutcomeUnknown when an accepted order is not listed in time, HalfMade
        when it is not as ordered or not up by its deadline, OfferGone when it ended before.
        """
        return progress.poll(self.client, self._memory, self._clock, ticket)

    def resume(self, order: Order) -> Ticket | None:
        """See the protocol. None at once when no intent was written, for then nothing was sent.
        Calls: none, or my_orders once or twice.

        An unclear answer is settled after `SETTLE_S` of the order not being listed, an accepted one
        after `ACCEPTED_S`.
        """
        return progress.resume(self.client, self._memory, self._clock, order)

    # What runs

    def observe(self, handles: Sequence[Handle]) -> Sequence[Node]:
        """See the protocol. Calls: my_orders, up to twice more if one is not there,
        spot_marketplace for each bid that is not up.

        An order that is neither active nor completed is looked for among the active ones again:
        one reply that left it out does not make it gone.
        """
        numbers = [nodes.order_of(handle) for handle in handles]
        rows: dict[int, Mapping[str, object]] = {}
        for completed in (False, True, False):
            if all(number in rows for number in numbers):
                break
            rows = {
                orders.order_id(row): orders.from_completed(row) if completed else row
                for row in self.client.my_orders(completed=completed)
            } | rows
        rentals, _ = self._memory.readable()
        return [
            nodes.node_of(
                self.client, self._clock, number, rows.get(number), rentals.get(number), None
            )
            for number in numbers
        ]

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        """See the protocol. Calls: 1, and spot_marketplace for each bid found that is not up.

        An order is known by this machine's memory, by an intent it fits, or only by its label. The
        label holds no generation: such an order is listed for an owner or a cluster, not for a
        generation, so that one generation's clean-up never takes another's machine. Of any owner,
        an order that only its label tells of has an empty owner: the ports hold no more than a
        digest of it.
        """
        return nodes.find(
            self.client,
            self._memory,
            self._clock,
            self._sole,
            self.not_configured,
            owner,
            cluster,
            generation,
        )

    # Ending and editing

    def delete(self, handle: Handle) -> None:
        """Cancels an order. Refused, but no longer among the key's orders, is success. Calls: 1, or
        2.
        """
        number = nodes.order_of(handle)
        try:
            self.client.cancel_order(number)
        except (BadCredentials, RateLimited):
            raise
        except CloudError:
            # What the service says to an order that ended before is not documented: the list
            # decides.
            if any(
                orders.order_id(row) == number and not orders.has_ended(row)
                for row in self.client.my_orders()
            ):
                raise
        self._memory.cancelled(number)

    def relabel(self, handle: Handle, generation: str) -> None:
        """Writes the generation into this machine's memory: the market keeps none. No calls. Raises
        Unsupported for an order not known here.
        """
        if not self._memory.relabel(nodes.order_of(handle), generation):
            message = (
                f"clore: wanted to take over {handle.native_id}, found that this machine does not"
                " know it; `pulumi destroy` removes it, and `up` then buys again; or run `up` where"
                " it was made"
            )
            raise Unsupported(message, provider=self.name, code="not-known-here", block_s=0.0)

    def update(self, handle: Handle, change: Mapping[str, object]) -> None:
        """Labels and ttl: neither is kept by the market, so there is nothing to send. Raises
        Unsupported for anything else. No calls.
        """
        nodes.order_of(handle)
        others = sorted(set(change) - {"labels", "ttl", "ttl_s", "on_ttl"})
        if others:
            raise Unsupported(
                f"clore: {', '.join(others)} cannot be changed on a running order",
                provider=self.name,
                code="update",
                block_s=0.0,
            )
