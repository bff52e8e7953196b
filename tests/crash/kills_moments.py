"""The moments at which something is killed. Owns what brings each about, and how it is known to
have come.

A moment is an event: a row of the journal, of a stand-in's tables or of its log, or a call that a
stand-in holds. Never a time after the start.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.rehearsal.store import Store
from tests.crash.point import Running, lives, moment, paid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.crash.kills_cli import Clone

HELD_S = 4.0
"""How long a held call is held, in real seconds: ample to act in, and over soon where the plugin
lives on.
"""
LATE = "overtaken"
"""The fault of a call that has come and is carried out only when it has been held."""
LONG_S = 5.0
"""How long an operation at a cloud takes where the moment is while it is under way, in world
seconds.
"""
ROOM = "room"
"""What the store notes once there is room for what is queued."""

SEARCH = "instances.aggregatedList"
"""Google Cloud's, which the Ownership's delete asks whatever the stack's own cloud is."""
CREATE = {
    "gcp": "*nstances.*nsert",
    # CreateFleet or RunInstances: which one depends on what the order may choose among.
    "aws": "ec2.[CR][ru]*[cl]e*[st]",
    "modal": "SandboxCreate",
    "clore": "create_order",
}
DELETE = {
    "gcp": "instances.delete",
    "aws": "ec2.TerminateInstances",
    "modal": "SandboxTerminate",
    "clore": "cancel_order",
}
LOOK = {
    "gcp": "instances.get",
    "aws": "ec2.DescribeInstances",
    "modal": "SandboxWait",
    "clore": "my_orders",
}
EDIT = {
    "gcp": "instances.setLabels",
    "aws": "ec2.CreateTags",
    "modal": "SandboxTagsSet",
    "clore": "my_orders",
}
"""The call that edits labels. Clore keeps none: there it is the look that an update takes."""


class Watch:
    """What is seen of one command while it runs: everything is compared with how it was before the
    command.
    """

    def __init__(self, clone: Clone, cloud: str, create: str = "") -> None:
        self.clone, self.cloud, self.create = clone, cloud, create or CREATE[cloud]
        self.store = Store(clone.home / "rehearsal.db")
        self.before = {one.id for one in lives(clone.home)}
        self.orders = {token for token, *_ in self._journal("SELECT token FROM orders")}
        self.state = self.generation
        self.searches: list[tuple[str, float]] = []

    def hold(self, cloud: str, method: str, kind: str, seconds: float = HELD_S) -> None:
        """One call of this name waits: LATE before it is carried out, `delay` before it is
        answered.
        """
        self.store.add_fault(cloud, method, kind, 1, seconds=seconds)

    @property
    def held(self) -> bool:
        """The held call has come: its fault is used up."""
        return not self.store.faults()

    def machines(self) -> list[Running]:
        """Those made since the command began that exist now."""
        now = moment(self.clone.home)
        return [
            one
            for one in lives(self.clone.home)
            if one.kind == "machine" and one.id not in self.before and one.at(now)
        ]

    def blocks(self) -> int:
        """How many Capacity Blocks were bought, ever."""
        return len(paid(self.clone.home))

    def old(self) -> list[Running]:
        """Those from before that exist now."""
        now = moment(self.clone.home)
        return [
            one
            for one in lives(self.clone.home)
            if one.kind == "machine" and one.id in self.before and one.at(now)
        ]

    def written(self, state: str, ticket: bool = False) -> bool:
        """The journal has a new order in this state (with the cloud's ticket, if asked)."""
        rows = self._journal("SELECT token, ticket FROM orders WHERE state = ?", state)
        return any(token not in self.orders and (not ticket or noted) for token, noted in rows)

    def won(self) -> bool:
        """Which of two orders at once is kept is written down."""
        return bool(self._journal("SELECT race FROM races"))

    def released(self) -> bool:
        """Nothing is open in the journal."""
        return bool(self.orders) and not self._journal(
            "SELECT token FROM orders WHERE state IN ('intent', 'unsettled', 'made')"
        )

    def owned(self) -> bool:
        return bool(self._journal("SELECT owner FROM owners"))

    @property
    def generation(self) -> str:
        """What the state has of the cluster."""
        return str(self.clone.resources().get("gpu:index:Cluster", {}).get("id", ""))

    def asked(self, method: str) -> bool:
        """A call of this name has been answered by the stand-in, since the log was looked at first."""
        return any(found.provider == self.cloud for found in self.store.requests(method))

    def _journal(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        file = self.clone.home / "journal.db"
        if not file.exists():
            return []
        try:
            with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30.0)) as db:
                return db.execute(query, values).fetchall()
        except sqlite3.OperationalError:
            return []  # It is being made.


class Moment(NamedTuple):
    """`arm` prepares the world before the command starts; `came` is asked again and again until it
    is true.
    """

    text: str
    arm: Callable[[Watch], None]
    came: Callable[[Watch], bool]


def _nothing(_watch: Watch) -> None:
    """Needs no preparation."""


def _holds(calls: Mapping[str, str], kind: str) -> Callable[[Watch], None]:
    return lambda watch: watch.hold(watch.cloud, calls[watch.cloud], kind)


def _holds_create(kind: str) -> Callable[[Watch], None]:
    return lambda watch: watch.hold(watch.cloud, watch.create, kind)


def _long(step: str) -> Callable[[Watch], None]:
    return lambda watch: watch.store.set_latency(watch.cloud, step, LONG_S)


def _ownership(watch: Watch) -> bool:
    """Holds what comes before, one after the other, until the call that is held is the search of
    the Ownership's delete: the cluster's own search comes first where both ask the same cloud.
    """
    if watch.held and watch.searches:
        watch.hold("gcp", SEARCH, *watch.searches.pop(0))
        return False
    return watch.held


def _before_ownership(watch: Watch) -> None:
    watch.hold(watch.cloud, DELETE[watch.cloud], "delay", 1.5)
    watch.searches = [("delay", 1.5)] * (watch.cloud == "gcp") + [(LATE, HELD_S)]


def _waits(watch: Watch) -> bool:
    """Whether what was ordered is there, and has no machine yet."""
    made = watch.machines()
    return bool(made) and all(one.status == "PENDING" for one in made)


def _turned(watch: Watch) -> bool:
    """Makes room once the request is queued; then whether its machine runs."""
    if _waits(watch) and watch.store.value(ROOM) != "yes":
        make_room(watch.store)
    made = watch.machines()
    return bool(made) and all(_up(watch, one) for one in made)


def make_room(store: Store) -> None:
    """What is queued at Google becomes a machine."""
    store.set_value(ROOM, "yes")
    store.set_stock("gcp", "", "", "flex-start", None)


MOMENTS = {
    "owned": Moment("the stack has its owner id, nothing else", _nothing, lambda w: w.owned()),
    "intent": Moment(
        "the intent is on the disk, the creating call sent", _holds_create(LATE), lambda w: w.held
    ),
    "made": Moment(
        "the creating call is carried out and not answered",
        _holds_create("delay"),
        lambda w: bool(w.machines()),
    ),
    "paid": Moment(
        "a block is bought, and the purchase not answered",
        _holds_create("delay"),
        lambda w: w.blocks() > 0,
    ),
    "booked": Moment(
        "the block is in the journal, the state has not got it",
        _nothing,
        lambda w: w.written("intent", ticket=True),
    ),
    "at-work": Moment(
        "a plugin is at work; where a block has not begun it asks nothing of the cloud",
        _nothing,
        lambda w: bool(w.clone.plugins()),
    ),
    "block-look": Moment(
        "the block was asked for, and the answer is on its way",
        lambda w: w.hold(w.cloud, "ec2.DescribeCapacityReservations", "delay"),
        lambda w: w.held,
    ),
    "pending": Moment(
        "the creating call is answered, the operation under way",
        _long("create"),
        lambda w: w.written("intent", ticket=True),
    ),
    "queued": Moment(
        "the request waits in the cloud's queue",
        _nothing,
        lambda w: w.written("intent", ticket=True) and _waits(w),
    ),
    "turned": Moment(
        "the queued request has become a machine that runs, and the plugin may not know it",
        _nothing,
        _turned,
    ),
    "running": Moment(
        "the machine runs, and the plugin has not seen it",
        _nothing,
        lambda w: bool(w.machines()) and all(_up(w, one) for one in w.machines()),
    ),
    "reply": Moment(
        "the purchase is in the journal, the reply on its way",
        _nothing,
        lambda w: w.written("made"),
    ),
    "saved": Moment(
        "the state has it, the command has not ended",
        _nothing,
        lambda w: w.generation not in ("", w.state),
    ),
    "both": Moment(
        "two clouds are asked at once, both have made a machine, none has won",
        _nothing,
        lambda w: len(w.machines()) > 1 and not w.won(),
    ),
    "won": Moment(
        "which of two is kept is written down, the other is there", _nothing, lambda w: w.won()
    ),
    "beaten": Moment(
        "the deletion of the one that was beaten is sent, not carried out",
        lambda w: w.hold("gcp", DELETE["gcp"], LATE),
        lambda w: w.held,
    ),
    "refused": Moment(
        "one cloud has refused, the next is being asked",
        _holds_create(LATE),
        lambda w: w.written("failed") and w.held,
    ),
    "edit-sent": Moment("the edit is sent, not carried out", _holds(EDIT, LATE), lambda w: w.held),
    "edited": Moment(
        "the edit is carried out and not answered", _holds(EDIT, "delay"), lambda w: w.held
    ),
    "look": Moment("the look is sent and not answered", _holds(LOOK, "delay"), lambda w: w.held),
    "delete-sent": Moment(
        "the deletion is sent, not carried out", _holds(DELETE, LATE), lambda w: w.held
    ),
    "deleted": Moment(
        "the deletion is carried out and not answered", _holds(DELETE, "delay"), lambda w: w.held
    ),
    "deleting": Moment(
        "the deletion is answered and under way",
        _long("delete"),
        lambda w: w.asked(DELETE[w.cloud]) and bool(w.old()),
    ),
    "between": Moment(
        "the old one is gone, nothing new is asked for", _nothing, lambda w: w.released()
    ),
    "ownership": Moment(
        "the cluster is deleted, the Ownership's delete searches the clouds",
        _before_ownership,
        _ownership,
    ),
}


def _up(watch: Watch, one: Running) -> bool:
    """Whether a new machine has started, by the stand-in's own rows."""
    if one.cloud in ("gcp", "aws"):
        return one.status in ("RUNNING", "running")
    return moment(watch.clone.home) >= one.begins + watch.store.latency(one.cloud, "create")
