"""What is asked of a machine, and what it answers: agent.sh with its variables, and its lines read.
Owns the words of both. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.ssh import names
from providers.model import shell
from providers.model.machine import Label
from providers.model.workload import BOOT_SCRIPT, ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.machine import Order
    from providers.model.offer import Candidate

LOG_BYTES = 1 << 20
HELD_S = 600
"""How long cards are held at most while the other nodes' are taken."""
GRACE_S = 30
"""How long what runs has to end by itself before it is made to."""


READS = ("facts", "look")
"""The verbs that change nothing there but what is over anyway."""


class Program(NamedTuple):
    """What is sent: the text of agent.sh, and the verb that it does."""

    verb: str
    text: str


class Card(NamedTuple):
    """One card as the driver names it. `model` is empty for one that the catalog does not know."""

    number: int
    uuid: str
    mib: float
    driver: str
    product: str

    @property
    def model(self) -> str:
        return names.model(self.product, self.mib)


class Lease(NamedTuple):
    """Cards that are lent. `state`: held (nothing is begun yet), starting, running, stopping, or
    lost (the machine was restarted since).
    """

    token: str
    state: str
    fields: Mapping[str, str]

    @property
    def label(self) -> Label:
        return Label(*(self.fields.get(name, "") for name in Label._fields))

    @property
    def cards(self) -> tuple[str, ...]:
        return tuple(self.fields.get("cards", "").split())

    def number(self, name: str) -> float:
        """A field as a number; 0 for what is none."""
        text = self.fields.get(name, "")
        return float(text) if text.isdigit() else 0.0


class Facts(NamedTuple):
    """What a machine told. `used` are the cards on which something runs without a lease; `over` is
    (token, why) of a lease that is no more. `tools` is what its `user` may use there beside the
    cards.
    """

    cards: tuple[Card, ...] = ()
    used: frozenset[str] = frozenset()
    leases: tuple[Lease, ...] = ()
    over: tuple[str, str] = ("", "")
    user: str = ""
    tools: frozenset[str] = frozenset()
    unfit: tuple[tuple[str, str], ...] = ()
    """Of the folders that were asked about, those where its user can't mount anything, and why."""

    def lease(self, token: str) -> Lease | None:
        """The lease of this token."""
        return next((each for each in self.leases if each.token == token), None)

    @property
    def lent(self) -> frozenset[str]:
        """Cards of leases that stand."""
        return frozenset(
            card for each in self.leases if each.state != "lost" for card in each.cards
        )


def program(verb: str, token: str = "", **variables: str | int) -> Program:
    """What is sent for a verb."""
    given: dict[str, str | int] = {
        "lease": "",
        "count": 0,
        "cards": "",
        "ttl": 0,
        "script": "",
        "held": "",
        "held_s": HELD_S,
        "secrets": "",
        "changes": "",
        "work": ROOT,
        "boot_script": BOOT_SCRIPT,
        "log_bytes": LOG_BYTES,
        "grace": GRACE_S,
        "folders": "",
    }
    text = shell.program(__file__, "agent", verb=verb, token=token, **{**given, **variables})
    return Program(verb, text)


def take(
    order: Order, placed: Candidate, rank: int, cards: Sequence[str], secrets: Mapping[str, str]
) -> Program:
    """What takes cards: the first free ones of these. Of several nodes each is only held, until
    `start` begins it. The secrets' values go to a file that ends with the lease.
    """
    fields = {
        "name": order.node_names[rank],
        **order.label._asdict(),
        "zone": placed.zone,
        "region": placed.region,
        "type": placed.machine_type,
        "gpu": placed.gpu_type,
        "count": str(placed.gpu_count),
        "capacity": placed.capacity,
        "kind": placed.kind,
        "rank": str(rank),
        "labels": labels(dict(order.setup.labels)),
    }
    return program(
        "take",
        order.token,
        lease="\n".join(f"{name}={_line(value)}" for name, value in fields.items()),
        count=placed.gpu_count,
        cards=" ".join(cards),
        ttl=order.setup.ttl_s or 0,
        held="yes" if placed.nodes > 1 else "",
        script=order.setup.script,
        secrets=shell.assignments(**secrets),
    )


def edited(token: str, **fields: str) -> Program:
    """What writes these fields of a lease again."""
    changes = "\n".join(f"{name}={_line(value)}" for name, value in fields.items())
    return program("edit", token, changes=changes)


def labels(given: Mapping[str, object]) -> str:
    """Labels as one line."""
    import json

    return json.dumps({str(name): str(value) for name, value in given.items()}, sort_keys=True)


def read(lines: Sequence[str]) -> Facts:
    """What the lines of an answer say."""
    cards: list[Card] = []
    used: set[str] = set()
    tools: set[str] = set()
    unfit: list[tuple[str, str]] = []
    user = ""
    leases: list[Lease] = []
    over = ("", "")
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "" and leases:
            name, _, value = rest.partition("=")
            leases[-1] = leases[-1]._replace(fields={**leases[-1].fields, name: value})
        elif word == "card":
            card = _card(rest)
            cards += [card] if card is not None else []
        elif word == "used":
            used.add(rest.strip())
        elif word == "tool":
            tools.add(rest)
        elif word == "unfit":
            folder, _, why = rest.partition(" ")
            unfit.append((folder, why))
        elif word == "user":
            user = rest
        elif word == "lease":
            token, _, state = rest.partition(" ")
            leases.append(Lease(token, state, {}))
        elif word == "over":
            token, _, why = rest.partition(" ")
            over = (token, why)
    return Facts(
        *(tuple(cards), frozenset(used), tuple(leases), over, user, frozenset(tools)), tuple(unfit)
    )


def _card(text: str) -> Card | None:
    parts = [part.strip() for part in text.split(",", 4)]
    if len(parts) != 5 or not parts[0].isdigit() or not parts[2].isdigit():
        return None
    return Card(int(parts[0]), parts[1], float(parts[2]), parts[3], parts[4])


def _line(value: str) -> str:
    return " ".join(value.split())
