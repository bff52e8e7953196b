"""Clore behind the adapter seam: offers, orders, look-ups. Owns when which call is made; money and
filters are `market`, codes are `errors`.

An order is sent exactly once and its answer names no order. So an intent is written first, and what
became of it is read from `my_orders`: by the server, the moment, the orders there were before, and
the mark. While that is not certain, nothing else is bought.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.base import KeylessMarket, OffersByAsk, OwnAccount, Remarks
from providers.adapters.clore import bids, figures, filters, mark, market, orders, pricing, request
from providers.adapters.clore import errors as codes
from providers.adapters.clore.check import CLAIM, lines
from providers.adapters.clore.check import balances as wallet
from providers.adapters.clore.memory import Intent, unusable
from providers.adapters.clore.options import IMAGE
from providers.adapters.clore.options import read as read_options
from providers.adapters.clore.paying import Funds
from providers.adapters.clore.refusals import Refuse
from providers.errors import (
    BadCredentials,
    CloudError,
    HalfMade,
    InsufficientFunds,
    NotConfigured,
    OutcomeUnknown,
    RateLimited,
    SpecError,
    Transient,
    Unsupported,
)
from providers.model import foreign
from providers.model.ask import SPOT
from providers.model.duration import text as duration_text
from providers.model.machine import (
    ENDED,
    GONE,
    PREEMPTED,
    RUNNING,
    STARTING,
    STOPPING,
    CheckLine,
    Handle,
    Mark,
    Node,
    Order,
    Ticket,
)
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.adapters.clore.client import Client
    from providers.adapters.clore.memory import Memory, Rental
    from providers.adapters.clore.options import Options
    from providers.model.ask import Ask
    from providers.model.offer import Candidate, Offer

SETTLE_S = 60.0
"""An order whose answer was lost is listed within 2 to 50 s if it was made (recorded by public
clients, read 2026-11-27).
"""

ACCEPTED_S = 600.0
"""An order that the service accepted and never listed. No source says how long that can take; after
this long it runs nowhere and costs nothing.
"""

TAKEN = "6:server-already-rented"
"""A moment ago it was free. Where something on the way delivered the one request twice, it is this
very order that has it: so it is looked for as if the answer was lost, yet taken for ours by its
mark alone, for most times somebody else was faster.
"""

HEARD_S = 5.0
"""A server that is taken counts as a stranger's once nothing on the key has it after this long. An
order that is listed later still (see `SETTLE_S`) is found by its mark.
"""
DOUBT_S = 3_600.0
"""A container is up within this long, and its order shows the mark then."""

MARKET_AGE_S = 30.0
"""A listing read this long ago still serves the next attempt."""

ROSE = Decimal("1.01")
"""Coins move against the dollar within a run; more than this is another price."""


class Purchase(NamedTuple):
    """One order made ready: the body to send, and what was reckoned with."""

    body: dict[str, object]
    terms: pricing.Terms
    per_day: Decimal
    usd_per_day: Decimal
    cap_usd_per_day: Decimal
    funds: Funds


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
        self._client = client
        self._memory = memory
        self._options = chosen
        self._clock = clock
        self._source = source
        self._jupyter_token = jupyter_token
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
        """The same under a declaration: its section over the settings, its disk, and the shortest
        ttl among its choices. Calls: 1, without a key.

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
            chosen, shortest, ask.disk_gib, chosen.image if chosen.image != IMAGE else ask.image
        ).offers

    def listing(self) -> market.Listing:
        """The market now, with every refused host. Calls: 1, without a key."""
        return self._read(self._options, None, None)

    def _read(
        self, chosen: Options, ttl_s: int | None, disk_gib: int | None, image: str = ""
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
            servers = self._client.marketplace()
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
            self._client,
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
        before = self._client.my_orders()
        self._only_known([row for row in before if not orders.has_ended(row)], chosen)
        bought = self._purchase(order, candidate, server, chosen)
        intent = Intent(
            token=order.token,
            mark=order.mark,
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
            self._client.create_order(
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
                    server, candidate.capacity, self._servers(MARKET_AGE_S)
                )
            raise
        self._memory.intend(intent._replace(answered=True))
        return Ticket(
            order,
            "waiting",
            (("server", str(server)),),
            self._placed(candidate, intent),
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
        show a mark, else NotConfigured.
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
        """Orders that no memory, no intent, no mark and no claim accounts for: a lost purchase of
        ours may be among them.
        """
        rentals, intents = self._memory.rentals(), self._memory.intents()
        return [
            row
            for row in rows
            if (number := orders.order_id(row)) not in rentals
            and number not in chosen.claimed_orders
            and not any(orders.is_order_of(row, intent) for intent in intents)
            and not mark.is_mark(orders.ports(row))
        ]

    def _purchase(
        self, order: Order, candidate: Candidate, server: int, chosen: Options
    ) -> Purchase:
        """What to send for a server as it is listed now. Raises when it is gone, unfit, dearer than
        planned, or cannot be paid.
        """
        listed = next(
            (row for row in self._servers(MARKET_AGE_S) if figures.server_id(row) == server), None
        )
        gone = Refuse(self.name, server)
        if not isinstance(listed, dict) or listed.get("rented") is not False:
            raise gone.offer("no longer listed as free", "not-listed")
        held = figures.gpus(listed)
        if (
            isinstance(held, str)
            or held.model.name != candidate.gpu_type
            or held.gpu_count != candidate.gpu_count
        ):
            raise gone.offer(
                f"wanted {candidate.gpu_type}:{candidate.gpu_count}, found"
                f" {held if isinstance(held, str) else held.model.name}",
                "changed",
            )
        self._fits(order, listed, chosen, gone)
        view: Mapping[str, object] = (
            self._client.spot_market(server) if candidate.capacity == SPOT else {}
        )
        funds = Funds(wallet(self._client), chosen.pay_with)
        terms = pricing.terms(
            listed,
            candidate.capacity,
            funds.coins(listed, candidate.capacity) or chosen.pay_with,
            bids.rates(view),
        )
        if isinstance(terms, str) or terms.usd_per_day is None:
            raise gone.offer(
                terms if isinstance(terms, str) else f"no dollar price in {terms.coin}", "no-price"
            )
        limits = [
            limit
            for limit in (order.max_micro_usd, int(chosen.max_bid_usd_per_hour * 1_000_000) or None)
            if limit is not None
        ]
        planned = candidate.micro_usd
        if candidate.capacity == SPOT:
            rate = terms.usd_per_day / terms.per_day
            per_day = bids.needed(view, terms.coin, terms.per_day, rate)
            cap = pricing.daily_usd(min(limits) if limits else planned or 0, SPOT)
            usd_per_day = min(per_day * rate, Decimal(foreign.MONEY.most))
        else:
            per_day, usd_per_day = terms.per_day, terms.usd_per_day
            caps = [
                limit
                for limit in (order.max_micro_usd, None if planned is None else int(planned * ROSE))
                if limit is not None
            ]
            cap = pricing.daily_usd(min(caps) if caps else 0, candidate.capacity)
        # Whole micro-dollars on both sides: a cap of exactly the price is kept.
        if pricing.hourly_micro_usd(usd_per_day, candidate.capacity) > pricing.hourly_micro_usd(
            cap, candidate.capacity
        ):
            raise gone.price(candidate.capacity, usd_per_day, cap)
        if not funds.last(terms.coin, per_day):
            raise funds.short(
                listed, candidate.capacity, per_day, terms.coin, self._servers(MARKET_AGE_S)
            )
        body = request.body(
            order, candidate, chosen, terms, per_day, self._jupyter_token, self._variable
        )
        return Purchase(body, terms, per_day, usd_per_day, cap, funds)

    def _fits(
        self, order: Order, listed: Mapping[str, object], chosen: Options, gone: Refuse
    ) -> None:
        """The filters of this order, and what it needs of the host."""
        why = (
            filters.unfit(listed, chosen)
            or filters.short(listed, order.setup.ttl_s, order.setup.disk_gib)
            or filters.undriven(listed, chosen.image)
        )
        if why:
            raise gone.unfit(why)

    def _placed(self, candidate: Candidate, intent: Intent) -> Candidate:
        """The candidate at what is really paid: a bid may lie over the floor that the plan showed."""
        return candidate._replace(
            micro_usd=pricing.hourly_micro_usd(Decimal(intent.usd_per_day), intent.capacity)
        )

    # What became of it

    def poll(self, ticket: Ticket) -> Ticket:
        """Looks the order up; done once its container runs and ssh is mapped. A bid that was beaten
        meanwhile is raised, up to the cap.

        Calls: my_orders, once more if it is not there; for a bid that waits spot_marketplace and
        set_spot_price. Raises OutcomeUnknown when an accepted order is not listed in time, HalfMade
        when it is not as ordered or not up by its deadline, OfferGone when it ended before.
        """
        order, token = ticket.order, ticket.order.token
        intent = self._memory.intent(token)
        row = self._locate(token, intent)
        if intent is None or row is None:
            if intent is not None and self._clock() - intent.started_at < ACCEPTED_S:
                return ticket
            if intent is None and row is not None and not orders.has_ended(row):
                return ticket._replace(
                    state="done", handles=(handle_of(orders.order_id(row)),), detail=""
                )
            raise OutcomeUnknown(
                f"clore: order {token} was accepted and is not listed",
                provider=self.name,
                token=token,
                code="not-listed",
            )
        number = orders.order_id(row)
        handles = (handle_of(number),)
        if orders.has_ended(row):
            self._memory.settle(token)
            raise Refuse(self.name, intent.server).offer(
                "the order ended before it was up", "ended"
            )
        if orders.capacity(row) not in {"", intent.capacity}:
            raise HalfMade(
                f"clore: wanted {intent.capacity}, found {orders.capacity(row)}",
                provider=self.name,
                code="capacity",
                handles=handles,
            )
        if orders.is_up(row):
            self._memory.settle(token)
            placed = self._placed(order.candidates[0], intent)
            return ticket._replace(state="done", placed=placed, handles=handles, detail="")
        if self._clock() - intent.started_at >= intent.deadline_s:
            stage = (
                "no address"
                if not orders.host(row)
                else "no ssh port"
                if orders.SSH_PORT not in orders.ports(row)
                else "no container"
            )
            limit = duration_text(intent.deadline_s)
            raise HalfMade(
                f"clore: not up within {limit}: {stage}",
                provider=self.name,
                code="not-up",
                handles=handles,
                block_s=3_600.0,
            )
        if intent.capacity == SPOT:
            intent = self._keep_up(number, intent, handles)
        return ticket._replace(
            placed=self._placed(order.candidates[0], intent), handles=handles, detail="starting"
        )

    def _keep_up(self, number: int, intent: Intent, handles: tuple[Handle, ...]) -> Intent:
        """Raises our bid when another took the server before it was up; beyond the cap that is the
        end of it.
        """
        view = self._client.spot_market(intent.server)
        if not bids.outbid(view):
            return intent
        old, usd = Decimal(intent.per_day), Decimal(intent.usd_per_day)
        per_day = bids.needed(view, intent.coin, old, usd / old)
        usd_per_day = per_day * usd / old
        if usd_per_day > Decimal(intent.cap_usd_per_day):
            cap = Decimal(intent.cap_usd_per_day)
            message = (
                f"clore: outbid at ${usd_per_day / 24:.4f}/h, over the cap of ${cap / 24:.4f}/h"
            )
            raise HalfMade(
                message, provider=self.name, code="outbid", handles=handles, block_s=600.0
            )
        if per_day > old:
            self._client.set_spot_price(number, float(per_day))
            intent = intent._replace(per_day=str(per_day), usd_per_day=str(usd_per_day))
            self._memory.intend(intent)
        return intent

    def resume(self, order: Order) -> Ticket | None:
        """See the protocol. None at once when no intent was written, for then nothing was sent.
        Calls: none, or my_orders once or twice.

        An unclear answer is settled after `SETTLE_S` of the order not being listed, an accepted one
        after `ACCEPTED_S`.
        """
        intent = self._memory.intent(order.token)
        if intent is None and self._rental(order.token) is None:
            return None
        row = self._locate(order.token, intent)
        if row is not None:
            if orders.has_ended(row):
                self._memory.settle(order.token)
                return None
            placed = (
                order.candidates[0] if intent is None else self._placed(order.candidates[0], intent)
            )
            return Ticket(
                order,
                "waiting",
                (("server", str(orders.whole(row, "si"))),),
                placed,
                (handle_of(orders.order_id(row)),),
                "found",
            )
        if intent is None:
            return None
        if intent.refused:
            self._strangers(order, intent)
            return None
        window = ACCEPTED_S if intent.answered else SETTLE_S
        left = window - (self._clock() - intent.started_at)
        if left > 0:
            message = (
                f"clore: order {order.token} for server-{intent.server} is not listed yet; certain"
                f" in {duration_text(left + 1)}"
            )
            raise OutcomeUnknown(message, provider=self.name, token=order.token, code="not-listed")
        self._memory.settle(order.token)
        return None

    def _strangers(self, order: Order, intent: Intent) -> None:
        """Returns once no order of the key on that server, made since, could be this one. Raises
        OutcomeUnknown until then. Calls: my_orders.

        The intent stays for `DOUBT_S`: should such an order bear our mark once it is up, `find`
        knows it.
        """
        age, known = self._clock() - intent.started_at, self._memory.rentals()
        sent = intent._replace(refused=False)
        here = [
            row
            for row in self._client.my_orders()
            if orders.order_id(row) not in known and orders.is_order_of(row, sent)
        ]
        if age < (SETTLE_S if here else HEARD_S):
            message = (
                f"clore: order {order.token}: server-{intent.server} is taken, by whom shows in"
                f" {duration_text(SETTLE_S - age + 1)} at most"
            )
            raise OutcomeUnknown(message, provider=self.name, token=order.token, code="taken")

    def _rental(self, token: str) -> Rental | None:
        return next(
            (
                rental
                for rental in self._memory.rentals().values()
                if token and rental.token == token
            ),
            None,
        )

    def _locate(self, token: str, intent: Intent | None) -> Mapping[str, object] | None:
        """The row of an order, active or ended, kept as ours once seen."""
        rental, known = self._rental(token), self._memory.rentals()
        for completed in (False, True):
            rows = self._client.my_orders(completed=completed)
            if rental is not None:
                found = [row for row in rows if orders.order_id(row) == rental.order_id]
            else:
                found = [
                    row
                    for row in rows
                    if intent is not None
                    and orders.order_id(row) not in known
                    and orders.is_order_of(row, intent)
                ]
            if found:
                newest = max(found, key=lambda row: orders.made(row) or 0.0)
                newest = orders.from_completed(newest) if completed else newest
                if rental is None and intent is not None:
                    self._memory.keep(orders.order_id(newest), intent.mark, token)
                return newest
        return None

    # What runs

    def observe(self, handles: Sequence[Handle]) -> Sequence[Node]:
        """See the protocol. Calls: my_orders, once more if one is not there, spot_marketplace for
        each bid that is not up.
        """
        numbers = [order_of(handle) for handle in handles]
        rows = {orders.order_id(row): row for row in self._client.my_orders()}
        if any(number not in rows for number in numbers):
            rows = {
                orders.order_id(row): orders.from_completed(row)
                for row in self._client.my_orders(completed=True)
            } | rows
        rentals, _ = self._memory.readable()
        return [
            self._node(number, rows.get(number), rentals.get(number), None) for number in numbers
        ]

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        """See the protocol. Calls: 1, and spot_marketplace for each bid found that is not up.

        An order is known by this machine's memory, by an intent it fits, or by its mark alone. The
        mark holds no generation: such an order is listed for an owner or a cluster, not for a
        generation, so that one generation's clean-up never takes another's machine. Of any owner,
        an order that only its mark tells of has an empty owner: the ports hold no more than a
        digest of it.
        """
        rentals, intents = self._memory.readable()
        for intent in intents:
            if intent.refused and self._clock() - intent.started_at > DOUBT_S:
                with suppress(*unusable()):
                    self._memory.settle(intent.token)

        def meant(whose: Mark) -> bool:
            return bool(whose.owner) and owner in {"", whose.owner}

        if (
            self._sole
            and not intents
            and all(rental.cancelled or not meant(rental.mark) for rental in rentals.values())
        ):
            return ()
        if self.not_configured:
            held = [
                rental for rental in rentals.values() if meant(rental.mark) and not rental.cancelled
            ]
            if held or any(meant(intent.mark) for intent in intents):
                raise NotConfigured(
                    f"clore: {self.not_configured}; {len(held)} orders of this owner may run",
                    provider=self.name,
                )
            return ()
        nodes: list[Node] = []
        for row in self._client.my_orders():
            number = orders.order_id(row)
            if orders.has_ended(row):
                continue
            rental = rentals.get(number)
            whose = rental.mark if rental is not None and rental.mark.owner else None
            if whose is None:
                sent = next((intent for intent in intents if orders.is_order_of(row, intent)), None)
                if sent is not None:
                    # The run that ordered it was cut short before it saw the order: whoever finds
                    # it can take it over.
                    whose = sent.mark
                    with suppress(*unusable()):
                        self._memory.keep(number, whose, sent.token)
            if whose is None and not owner and mark.is_mark(orders.ports(row)):
                whose = Mark("", "", "", "")
            elif whose is None and owner and mark.belongs(orders.ports(row), owner, cluster):
                whose = Mark(owner, cluster, "", "")
                if cluster:
                    with suppress(*unusable()):
                        self._memory.keep(number, whose, "")
            if whose is None or any(
                asked and asked != found
                for asked, found in zip((owner, cluster, generation), whose, strict=False)
            ):
                continue
            nodes.append(self._node(number, row, rental, whose))
        return nodes

    def _node(
        self,
        number: int,
        row: Mapping[str, object] | None,
        rental: Rental | None,
        whose: Mark | None,
    ) -> Node:
        handle, name = handle_of(number), f"order-{number}"
        cancelled = rental is not None and rental.cancelled
        if rental is not None and rental.mark.owner and whose is None:
            whose = rental.mark
        if row is None:
            return Node(
                handle, name, GONE, whose, detail="" if cancelled else "not among the key's orders"
            )
        held = figures.gpus(row)
        status, detail = self._status(row, cancelled=cancelled)
        server = orders.whole(row, "si")
        mapped = orders.ports(row)
        return Node(
            handle=handle,
            name=name,
            status=status,
            mark=whose,
            region="" if (place := figures.region(row)) == "XX" else place,
            machine_type=figures.machine_type(server) if server else "",
            gpu_type="" if isinstance(held, str) else held.model.name,
            gpu_count=0 if isinstance(held, str) else held.gpu_count,
            contradiction=held if isinstance(held, figures.Contradiction) else "",
            capacity=orders.capacity(row),
            external_ip=orders.host(row),
            created_at=orders.made(row) or 0.0,
            detail=detail,
            ports=tuple(sorted(mapped.items())),
            ssh_user="root",
        )

    def _status(self, row: Mapping[str, object], *, cancelled: bool) -> tuple[str, str]:
        """A status and why. No state stands in a row: it is read from what is there and what is
        not.
        """
        spot = orders.capacity(row) == SPOT
        if orders.has_ended(row):
            made_at, hours = orders.made(row), figures.longest_hours(row)
            if cancelled:
                return GONE, ""
            if spot:
                return PREEMPTED, "outbid, or ended by the host"
            if (
                made_at is not None
                and hours is not None
                and made_at + hours * 3_600 <= self._clock()
            ):
                return ENDED, f"the longest rental of {hours:g} h is over"
            return GONE, "ended by the host or by hand"
        if cancelled:
            return STOPPING, ""
        if orders.is_up(row):
            return RUNNING, (
                "the host is offline" if row.get("online") is False else orders.web_address(row)
            )
        if spot and bids.outbid(self._client.spot_market(orders.whole(row, "si"))):
            return PREEMPTED, "outbid"
        return STARTING, "the host is offline" if row.get("online") is False else ""

    # Ending and editing

    def delete(self, handle: Handle) -> None:
        """Cancels an order. Refused, but no longer among the key's orders, is success. Calls: 1, or
        2.
        """
        number = order_of(handle)
        try:
            self._client.cancel_order(number)
        except (BadCredentials, RateLimited):
            raise
        except CloudError:
            # What the service says to an order that ended before is not documented: the list
            # decides.
            if any(
                orders.order_id(row) == number and not orders.has_ended(row)
                for row in self._client.my_orders()
            ):
                raise
        self._memory.cancelled(number)

    def relabel(self, handle: Handle, generation: str) -> None:
        """Writes the generation into this machine's memory: the market keeps none. No calls. Raises
        Unsupported for an order not known here.
        """
        if not self._memory.relabel(order_of(handle), generation):
            message = (
                f"clore: wanted to take over {handle.native_id}, found that this machine does not"
                " know it; `pulumi destroy` removes it, and `up` then buys anew; or run `up` where"
                " it was made"
            )
            raise Unsupported(message, provider=self.name, code="not-known-here", block_s=0.0)

    def update(self, handle: Handle, change: Mapping[str, object]) -> None:
        """Labels and ttl: neither is kept by the market, so there is nothing to send. Raises
        Unsupported for anything else. No calls.
        """
        order_of(handle)
        others = sorted(set(change) - {"labels", "ttl", "ttl_s", "on_ttl"})
        if others:
            raise Unsupported(
                f"clore: {', '.join(others)} cannot be changed on a running order",
                provider=self.name,
                code="update",
                block_s=0.0,
            )


def handle_of(number: int) -> Handle:
    """The handle of an order."""
    return Handle(market.PROVIDER, f"orders/{number}")


def order_of(handle: Handle) -> int:
    """The order's id. Raises Unsupported for what is no order of Clore."""
    word = handle.native_id.removeprefix("orders/")
    if not (word.isascii() and word.isdigit()):
        message = f'clore: wanted an order such as "orders/12345", found {handle.native_id!r}'
        raise Unsupported(message, provider=codes.PROVIDER, code="native-id", block_s=0.0)
    return int(word)
