"""Machines of one's own behind the adapter seam. Owns which machine is asked what, and when several
are one order; what one of them does is agent.sh's.

Nothing is bought. A lease is known by its order's token on the machine itself, so the same order
sent again is the same lease, and a lost answer is settled by asking for the token. A machine that
does not answer is unknown: neither free nor gone.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from providers.adapters.base import ConsoleLog, KeylessMarket, OffersByAsk, Remarks
from providers.adapters.ssh import agent, offers, reading, transport
from providers.adapters.ssh.errors import PROVIDER, error
from providers.adapters.ssh.nodes import gone, handle_of, seen
from providers.adapters.ssh.taking import Choice, all_or_none, at_once, secrets
from providers.errors import (
    BadCredentials,
    CloudError,
    HalfMade,
    NoCapacity,
    NotConfigured,
    OutcomeUnknown,
    RateLimited,
    Transient,
    Unsupported,
)
from providers.model.machine import (
    GONE,
    STARTING,
    CheckLine,
    Handle,
    Node,
    Ticket,
)
from providers.model.worlds import LIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.adapters.ssh.agent import Facts, Program
    from providers.adapters.ssh.inventory import Inventory, Machine
    from providers.model.ask import Ask
    from providers.model.machine import Order
    from providers.model.offer import Candidate, Offer

MISSING = (
    "wanted an inventory of your machines, found none; write one and set ssh:inventory to its path"
    " (docs/providers/ssh.md)"
)
LATELY_S = 30.0
"""How long what a machine told of its cards serves an order."""


class Ssh(OffersByAsk, KeylessMarket, ConsoleLog, Remarks):
    """The machines of one inventory, which is read anew for each call. `inventory` None: there is
    none. `untouched` is True in a rehearsal where nothing was ever taken.
    """

    name = PROVIDER

    def __init__(
        self,
        world: str,
        inventory: Callable[[], Inventory] | None,
        now: Callable[[], float],
        untouched: Callable[[], bool] = lambda: False,
    ) -> None:
        self.world = world
        self._inventory = inventory
        self._now = now
        self._untouched = untouched
        self._remarks: tuple[str, ...] = ()
        self._facts: dict[Machine, tuple[float, offers.Look]] = {}
        self._told = reading.Told()
        self._over: dict[Handle, Node] = {}
        """Leases that their machines call over: they are never begun again."""
        self._last: dict[Machine, str] = {}
        """The token of the last lease at each machine that somebody wanted to know of."""

    @property
    def not_configured(self) -> str:
        """Empty where there is an inventory."""
        return "" if self._inventory is not None else MISSING

    @property
    def remarks(self) -> Sequence[str]:
        """The machines that did not answer when offers were listed last, a line each."""
        return self._remarks

    def _read(self) -> Inventory:
        if self._inventory is None:
            raise NotConfigured(f"ssh: {MISSING}", provider=PROVIDER, code="no-inventory")
        return self._inventory()

    def _ask(self, machine: Machine, program: Program, *, token: str = "") -> Facts:
        """What a call on one machine answers; with a token it is one that takes cards."""
        known, reads = self._read(), program.verb in agent.READS
        began = self._told.began(machine, writes=not reads)

        def call() -> Facts:
            found = transport.call(known, machine, program, creating=bool(token), token=token)
            return agent.read(found)

        if reads:
            facts = reading.shared(machine, program.text, call)
        else:
            try:
                facts = call()
            finally:
                reading.written(machine)
        # A stand-in's time is played, and goes on between two calls; what is dropped tells nothing.
        if self.world == LIVE and program.verb != "drop":
            self._told.ended(machine, began, facts)
        return facts

    def _leases(self, machine: Machine, token: str = "") -> Facts:
        """What a machine tells of its leases, and of the last one if that is over; it is not asked
        again where it has told just now. `token`: for whom, where it is for one lease.
        """
        last = self._last.get(machine, "")
        return self._told.now(machine, token) or self._ask(machine, agent.program("look", last))

    def _looks(
        self, machines: Sequence[Machine], program: Program
    ) -> list[offers.Look | CloudError]:
        """What each machine tells, all asked at once; its error where it tells nothing."""

        def look(machine: Machine) -> offers.Look | CloudError:
            try:
                told = offers.Look(machine, self._ask(machine, program))
            except CloudError as failed:
                return failed
            if program.verb == "facts":
                self._facts[machine] = (time.monotonic(), told)
            return told

        return at_once(look, machines)

    def _lately(self, machines: Sequence[Machine]) -> list[offers.Look | CloudError]:
        """What each machine told of its cards lately; asked anew where that was not just now. What
        somebody else took since refuses itself.
        """
        since = time.monotonic() - LATELY_S
        known = [self._facts.get(each) for each in machines]
        if all(each is not None and each[0] > since for each in known):
            return [each[1] for each in known if each is not None]
        return self._looks(machines, agent.program("facts"))

    def _machines(self, section: Mapping[str, object] | None = None) -> list[Machine]:
        return [
            each
            for each in self._read().machines
            if not each.retired and offers.fits(each, section or {})
        ]

    # What there is

    def offers(self) -> Sequence[Offer]:
        """Every machine's cards, for usual counts. One call a machine, all at once."""
        return self._listed({}, (), (), (), alone=True, together=False)

    def offers_for(self, ask: Ask) -> Sequence[Offer]:
        """The same for the counts that are asked for; for several nodes, all machines together."""
        counts = {entry.gpu_count for entry in ask.entries}
        nodes = {entry.nodes for entry in ask.entries} or {1}  # all that is for sale is asked
        section = ask.options.get(PROVIDER) or {}
        together = max(nodes) > 1
        needs, folders = offers.needs(ask), offers.folders(ask)
        return self._listed(section, counts, needs, folders, alone=1 in nodes, together=together)

    def _listed(
        self,
        section: Mapping[str, object],
        counts: Sequence[int] | set[int],
        needed: Sequence[str],
        folders: Sequence[str],
        **how: bool,
    ) -> Sequence[Offer]:
        if self._inventory is None:
            return ()
        asked = agent.program("facts", folders="\n".join(folders))
        found = self._looks(self._machines(section), asked)
        said = (
            str(each)
            if isinstance(each, CloudError)
            else offers.lacking(each.machine, each.facts or agent.Facts())
            for each in found
        )
        self._remarks = tuple(filter(None, said))
        day = time.strftime("%Y-%m-%d", time.gmtime(self._now()))
        looks = [each for each in found if isinstance(each, offers.Look)]
        return offers.listed(looks, day, counts, needed, **how)

    def check(self) -> Sequence[CheckLine]:
        """One line a machine: its cards, or what is in the way. Reads."""
        if self._inventory is None:
            return [CheckLine(PROVIDER, "inventory", "missing", "none", MISSING)]
        lines = []
        machines = self._machines()
        found = self._looks(machines, agent.program("facts"))
        for machine, each in zip(machines, found, strict=True):
            if isinstance(each, CloudError):
                refused = isinstance(each, BadCredentials)
                state = "refused" if refused else "unknown"
                lines.append(CheckLine(PROVIDER, machine.name, state, str(each)))
                continue
            facts = each.facts or agent.Facts()
            shown = ", ".join(
                f"{card.number} {card.model or card.product}"
                + (" (in use)" if card.uuid in facts.lent | facts.used else "")
                for card in offers.usable(machine, facts)
            )
            price = (
                "" if machine.micro_usd is not None else "say usd_per_gpu_hour: without, not used"
            )
            price = offers.lacking(machine, facts) or price
            absent = [tool for tool in offers.TOOLS if tool not in facts.tools]
            shown = shown or "no cards"
            shown += f"; {facts.user} is without {', '.join(absent)}" if absent else ""
            lines.append(CheckLine(PROVIDER, machine.name, "ok", shown, price))
        return lines

    def group(self, candidates: Sequence[Candidate]) -> int:
        """One: an order names its machine, or all of them."""
        del candidates
        return 1

    # Taking

    def submit(self, order: Order) -> Ticket:
        """Takes the cards: on one machine, or on as many as there are nodes, all or none.

        Raises the refusal; HalfMade with what was taken where it could not be given back at once.
        """
        placed = order.candidates[0]
        refusals: list[CloudError] = []
        # Made-up machines run nothing, and are told nothing.
        values = secrets(order, os.environ) if self.world == LIVE else {}
        choices = self._choices(order, refusals)
        told: dict[Handle, Facts] = {}

        def take(rank: int, choice: Choice) -> Handle | CloudError:
            handle = handle_of(choice.machine, order.token)
            self._last[choice.machine] = order.token
            try:
                program = agent.take(order, placed, rank, choice.cards, values)
                told[handle] = self._ask(choice.machine, program, token=order.token)
            except CloudError as failed:
                return failed
            return handle

        def drop(handle: Handle) -> None:
            self._ask(self._of(handle)[0], agent.program("drop", order.token))

        taken = all_or_none(take, drop, choices, placed.nodes, refusals)
        if len(taken) == placed.nodes:
            ticket = Ticket(order, "waiting", (), placed, tuple(taken))
            try:
                return self._polled(ticket, told)
            except (Transient, RateLimited):
                return ticket
        if refusals:
            raise refusals[0]
        raise NoCapacity(
            f"ssh: wanted {placed.nodes} machines with {placed.gpu_count} free"
            f" {placed.gpu_type}, found {len(choices)}",
            provider=PROVIDER,
            code="taken",
            block_s=60.0,
        )

    def _choices(self, order: Order, refusals: list[CloudError]) -> list[Choice]:
        """The machines to ask, in the inventory's order, each with the cards that it may lend."""
        placed = order.candidates[0]
        section = dict(order.setup.options)
        named = placed.machine_type != offers.TOGETHER
        if named and placed.nodes > 1:
            raise Unsupported(
                "ssh: wanted several nodes on one machine; leave them to several machines",
                provider=PROVIDER,
                code="nodes",
                block_s=0.0,
            )
        machines = [
            each for each in self._machines(section) if not named or each.name == placed.zone
        ]
        found: list[Choice] = []
        each_most = None if placed.micro_usd is None else placed.micro_usd / placed.nodes
        for look in self._lately(machines):
            if isinstance(look, CloudError):
                refusals.append(_before(look))
                continue
            facts = look.facts or agent.Facts()
            price = look.machine.micro_usd
            if price is None or (each_most is not None and price * placed.gpu_count > each_most):
                refusals.append(error("changed", look.machine.name, creating=True))
                continue
            cards = [
                card.uuid
                for card in offers.usable(look.machine, facts)
                if card.model == placed.gpu_type
            ]
            left = len(offers.free(look.machine, facts, placed.gpu_type))
            found.append(Choice(look.machine, cards, left >= placed.gpu_count))
        return found

    def poll(self, ticket: Ticket) -> Ticket:
        """Done once every lease runs; begins them once all are held. Raises
        OfferGone, or HalfMade with the rest, where somebody has released one meanwhile.
        """
        return self._polled(ticket, {})

    def _polled(self, ticket: Ticket, told: Mapping[Handle, Facts]) -> Ticket:
        """The same, by what machines have `told` just now."""
        ttl_s = ticket.order.setup.ttl_s or 0
        nodes = at_once(lambda handle: self._begun(ttl_s, handle, told.get(handle)), ticket.handles)
        if over := [node for node in nodes if node.status == GONE and not node.ended]:
            refusal = error("over", over[0].zone, creating=True)
            if len(over) == len(nodes):
                raise refusal
            rest = tuple(node.handle for node in nodes if node.status != GONE)
            raise HalfMade(
                refusal.message, handles=rest, provider=PROVIDER, code="over"
            ) from refusal
        if any(node.status == STARTING for node in nodes):
            return ticket._replace(detail="what runs there is being started")
        return ticket._replace(state="done")

    def resume(self, order: Order) -> Ticket | None:
        """Asks every machine that the order may have reached for its token. Raises OutcomeUnknown
        while one of them does not answer, HalfMade where a part was taken.
        """
        placed = order.candidates[0]
        machines = [
            each
            for each in self._machines()
            if placed.machine_type == offers.TOGETHER or each.name == placed.zone
        ]
        handles: dict[float, Handle] = {}
        for look in self._looks(machines, agent.program("look", order.token)):
            if isinstance(look, CloudError):
                raise OutcomeUnknown(
                    f"ssh: {look.message}", provider=PROVIDER, code=look.code, token=order.token
                ) from look
            lease = look.facts.lease(order.token) if look.facts is not None else None
            if lease is not None:
                handles[lease.number("rank")] = handle_of(look.machine, order.token)
        if not handles:
            return None
        made = tuple(handle for _, handle in sorted(handles.items()))
        if len(made) != placed.nodes:
            raise HalfMade(
                f"ssh: {len(made)} of {placed.nodes} machines were taken",
                handles=made,
                provider=PROVIDER,
                code="taken",
            )
        return Ticket(order, "waiting", (), placed, made)

    # Seeing

    def observe(self, handles: Sequence[Handle]) -> Sequence[Node]:
        """What each lease's machine says of it. One call a lease, all at once."""
        return at_once(self._node, handles)

    def _node(self, handle: Handle) -> Node:
        machine, token = self._of(handle)
        if machine.retired:
            return Node(handle, token, GONE, detail=f"{machine.name} is retired")
        if (over := self._over.get(handle)) is not None:
            return over
        # As `find` asks it, and other clusters do; of another lease that is over it tells nothing.
        self._last[machine] = token
        facts = self._leases(machine, token)
        if facts.lease(token) is None and facts.over[0] != token:
            facts = self._ask(machine, agent.program("look", token))
        return self._said(handle, facts)

    def _begun(self, ttl_s: int, handle: Handle, facts: Facts | None) -> Node:
        """A lease's node, begun where it is only held; asked where it has not told just now."""
        machine, token = self._of(handle)
        if machine.retired:
            return self._node(handle)
        facts = facts or self._ask(machine, agent.program("look", token))
        lease = facts.lease(token)
        if lease is not None and lease.state == "held":
            facts = self._ask(machine, agent.program("start", token, ttl=ttl_s))
        return self._said(handle, facts)

    def _said(self, handle: Handle, facts: Facts) -> Node:
        machine, token = self._of(handle)
        lease = facts.lease(token)
        if lease is not None:
            return seen(machine, lease)
        why = facts.over[1] if facts.over[0] == token else ""
        node = gone(machine, token, why)
        if why:
            self._over[handle] = node
        return node

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        """Every lease with that label. Raises Transient while a machine does not answer."""
        if self._inventory is None or self._untouched():
            return []
        wanted = {"owner": owner, "cluster": cluster, "generation": generation}
        found, machines = [], self._machines()
        for machine, facts in zip(machines, at_once(self._leases, machines), strict=True):
            found += [
                seen(machine, lease)
                for lease in facts.leases
                if all(not word or lease.fields.get(key) == word for key, word in wanted.items())
            ]
        return found

    def log(self, handle: Handle) -> str:
        """The end of what runs there wrote, also after the lease."""
        machine, token = self._of(handle)
        lines = transport.call(self._read(), machine, agent.program("log", token))
        return "\n".join(lines[lines.index("log") + 1 :]) if "log" in lines else ""

    # Changing

    def delete(self, handle: Handle) -> None:
        machine, token = self._of(handle)
        if not machine.retired:
            self._ask(machine, agent.program("release", token))

    def relabel(self, handle: Handle, generation: str) -> None:
        machine, token = self._of(handle)
        self._ask(machine, agent.edited(token, generation=generation))

    def update(self, handle: Handle, change: Mapping[str, object]) -> None:
        machine, token = self._of(handle)
        fields: dict[str, str] = {}
        labels, ttl = change.get("labels"), change.get("ttl")
        if isinstance(labels, dict):
            fields["labels"] = agent.labels(labels)
        if "ttl" in change:
            lease = self._ask(machine, agent.program("look", token)).lease(token)
            began = 0 if lease is None else int(lease.number("created"))
            fields["end"] = str(began + ttl) if isinstance(ttl, int) else "0"
        if fields:
            self._ask(machine, agent.edited(token, **fields))

    def _of(self, handle: Handle) -> tuple[Machine, str]:
        name, _, token = handle.native_id.partition("/")
        machine = self._read().named(name)
        if machine is None:
            raise NotConfigured(
                f"ssh: wanted the machine {name}, found it no longer in the inventory; put it back,"
                " with `retired: true` if it is no more",
                provider=PROVIDER,
                code="no-machine",
            )
        return machine, token


def _before(failed: CloudError) -> CloudError:
    """What an error of the look before an order means for the order: nothing was sent."""
    if isinstance(failed, RateLimited | Transient) and failed.scopes:
        return error(failed.code, failed.scopes[0].zone, creating=True, words=failed.words)
    return failed
