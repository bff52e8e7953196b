"""What is ordered, made, observed and tried: the records that the engine and the adapters exchange.
Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.model import foreign
from providers.model.placement import Placement

if TYPE_CHECKING:
    from providers.model.offer import Candidate
    from providers.model.volume_mount import VolumeMount

PENDING, QUEUED, STARTING, RUNNING = "pending", "queued", "starting", "running"
STOPPING, STOPPED, PREEMPTED, ENDED, FAILED, GONE = (
    "stopping",
    "stopped",
    "preempted",
    "ended",
    "failed",
    "gone",
)
DRIFTED = "drifted"
STATUSES = (
    PENDING,
    QUEUED,
    STARTING,
    RUNNING,
    STOPPING,
    STOPPED,
    PREEMPTED,
    ENDED,
    FAILED,
    GONE,
    DRIFTED,
)
"""preempted: the cloud took it back. ended: its own run limit passed. stopped: somebody stopped it.
gone: the cloud says it does not exist. drifted: it runs and is another machine than the rest of its
cluster; no adapter reports that, a comparison with what was bought finds it.
"""

NO_GPU = "none"
"""The GPU type of a machine that has none, on its cloud's word. Empty: the cloud does not report
it.
"""


OWN_KEY = "gpus-own-"
"""How the comment of an own public key begins, so that an edit of the user's key knows it and
leaves it alone.
"""


CANCELLED = "cancelled"
"""The end of an attempt at one of two providers that were asked at once: the other had room before.
"""

BLOCK_NAME, BEGINS_AT, UPFRONT, PAID_AT, BLOCK_ENDS_AT = (
    "block",
    "begins_at",
    "upfront_micro_usd",
    "paid_at",
    "block_ends_at",
)
"""In `Ticket.native`, of an order that bought a window in full: when that begins (seconds since the
epoch); what it cost, when it was paid and when it ends, where this order is the one that paid.
"""


class Handle(NamedTuple):
    """One machine, as its cloud names it. `native_id` is enough to find it again:
    `projects/P/zones/Z/instances/N`.
    """

    provider: str
    native_id: str


class Label(NamedTuple):
    """Whose a machine is: written on it as labels, and in the journal. `owner` is the stack's
    random id.
    """

    owner: str
    cluster: str
    generation: str
    fingerprint: str


def is_foreign(label: Label | None, generation: str) -> bool:
    """Whether a machine carries another generation. A label without one is no other one's: somebody
    took the label off, or it did not arrive.
    """
    return label is not None and label.generation not in ("", generation)


class Node(NamedTuple):
    """One machine as observed. Addresses are empty until known; `created_at` in seconds since the
    epoch.

    `ports` maps ports inside to ports outside where the two differ (marketplaces); `ssh_user` is
    set where the cloud decides on it.
    """

    handle: Handle
    name: str
    status: str
    label: Label | None = None
    region: str = ""
    zone: str = ""
    machine_type: str = ""
    gpu_type: str = ""
    gpu_count: int = 0
    capacity: str = ""
    internal_ip: str = ""
    external_ip: str = ""
    created_at: float = 0.0
    detail: str = ""
    ports: tuple[tuple[int, int], ...] = ()
    ssh_user: str = ""
    login: str = ""
    """The command that logs you in, where it is another than ssh to the address."""
    url: str = ""
    """Where a service answers, as its cloud says it."""
    contradiction: str = ""
    """What its cloud reports of it that cannot all be true: it is not what was sold."""
    drift: str = ""
    """What of a service is not as it was deployed; the next update deploys it anew."""
    kind: str = "machine"
    """What it is: machine, job or service."""
    ended: bool = False
    """Gone, and by its own limit, timer or shutdown, on the cloud's word: nobody took it back."""
    closed: str = ""
    """Why nobody can log in to it yet: a run was cut short. To label it ends that."""

    def is_labelled(self, generation: str) -> bool:
        """Whether no update has to label it: it carries no other generation, and is not closed."""
        return not is_foreign(self.label, generation) and not self.closed

    @property
    def placement(self) -> Placement:
        """Where this one machine is, and what it is."""
        return Placement(
            self.handle.provider,
            *(self.region, self.zone, self.machine_type, self.gpu_type, self.gpu_count),
            nodes=1,
            capacity=self.capacity,
        )


MANAGED = (("managed", "true"),)
"""The network of a `Setup` that is a managed one, as long as its wiring is not known."""


class Setup(NamedTuple):
    """Everything about the machines that is not a choice of place: from the spec, for the adapter.

    `options` are the sections by provider, already checked by the adapters; in an Order they are
    the provider's own section alone. `network` is empty for the default one, else the wiring of
    a managed network as the program resolved it (keys named by the adapter), or `MANAGED`.
    """

    disk_gib: int | None = None
    ttl_s: int | None = None
    on_ttl: str = "release"
    ssh_public_key: str = ""
    ssh_user: str = "gpus"
    own_public_key: str = ""
    """The public half of a key pair that the engine made for this cluster alone, to look at its
    machines with: beside the user's key.
    """
    labels: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, object], ...] = ()
    network: tuple[tuple[str, str], ...] = ()
    ports: tuple[int, ...] = ()
    state: str = "running"
    """`running`, or `stopped`: a machine that is there is stopped and kept. None is ever bought to
    be stopped.
    """
    expose: str = "private"
    """`private`, `token` or `public`: who can reach what listens."""
    script: str = ""
    """What a machine runs at each boot, whole; nothing where nothing is declared to run there, or
    where a provider starts it in a way of its own.
    """
    script_digest: str = ""
    """Changes with what is to run; nothing where a provider starts it in a way of its own."""
    on_done: str = ""
    """`release` or `keep`: what becomes of a machine whose job is done; nothing where none is
    declared.
    """
    secrets: tuple[tuple[str, object], ...] = ()
    """What workloads are to find in their environment: (name, ((provider, reference), ...)); in an
    Order (name, the provider's own reference). Never a value.
    """
    idle_s: int | None = None
    """How long all its GPUs may have nothing to do before it is ended as at its ttl; None for ever.
    """
    on_loss: str = "replace-all"
    """What becomes of several machines when some are lost: `replace-all`, `replace-node`, or
    `report`.
    """
    keeps: str = ""
    """Where the workload's checkpoints are kept, for a check of what a machine needs for that;
    nothing in an Order, whose script says it.
    """
    mounts: tuple[tuple[str, str, bool], ...] = ()
    """The buckets that the workload finds as folders: (path, URL, whether it writes there), as
    `providers.model.workload.Mount`.
    """
    volumes: tuple[VolumeMount, ...] = ()
    """The volumes that the workload finds as folders."""
    signs_in_to: str = ""
    """The registry that its machines sign in to as themselves; empty for none."""
    apart: bool = False
    """Several machines work each for itself, and need no fast links among them."""
    domain: str = ""
    """The name by which callers know a service, whose certificate its machines have."""
    workdir: str = ""
    """The digest of the folder that its machines are sent; nothing where none is declared."""
    gated: bool = False
    """What is declared to run waits until its machines are accepted: they are measured first."""


class Order(NamedTuple):
    """One native creating call: consecutive candidates that the cloud may choose among, and what to
    make there.

    `token` (a UUID) is fresh for each order and written to the journal before the call.
    `node_names` has one name per node. `max_micro_usd` is the cap on all nodes per hour, for clouds
    where the buyer names the price (None: what the candidate says). `joins` are machines that run
    and that the new ones are to stand beside, as near as if one call had made all of them: what was
    lost of a cluster is made good. `intended_at` is when it was composed, right before its call: a
    later process knows by it how long a lost purchase may still come to light.
    """

    label: Label
    token: str
    candidates: tuple[Candidate, ...]
    node_names: tuple[str, ...]
    setup: Setup
    wait_s: int
    max_micro_usd: int | None = None
    joins: tuple[Handle, ...] = ()
    intended_at: float = 0.0


class Ticket(NamedTuple):
    """A creating call under way or done. `state`: waiting | queued | done. `native` is what the
    adapter needs to poll it again, from any process (a flat map of strings). When done, `placed` is
    the candidate that was acquired and `handles` are its machines.
    """

    order: Order
    state: str
    native: tuple[tuple[str, str], ...] = ()
    placed: Candidate | None = None
    handles: tuple[Handle, ...] = ()
    detail: str = ""

    @property
    def begins_at(self) -> float:
        """When what is queued for begins, in seconds since the epoch, where it is paid for already
        and nothing can take it back; 0 for a queue that can be left.
        """
        return float(dict(self.native).get(BEGINS_AT, 0)) if self.state == QUEUED else 0.0

    @property
    def upfront_micro_usd(self) -> int | None:
        """What was paid in full for its block, by this order or an earlier one; 0 for capacity by
        the hour, and where the payment failed. None: it is not known.
        """
        return foreign.whole(dict(self.native).get(UPFRONT, 0), foreign.MICRO_USD)


class Attempt(NamedTuple):
    """One creating call and how it ended. `outcome` is `acquired`, `cancelled` (another order had
    machines before) or the error class; `code` the cloud's own.
    """

    number: int
    provider: str
    region: str
    zones: tuple[str, ...]
    machine_types: tuple[str, ...]
    gpu: str
    capacity: str
    micro_usd: int | None
    outcome: str
    code: str = ""
    message: str = ""
    started_at: float = 0.0
    seconds: float = 0.0

    def __str__(self) -> str:
        placed = Placement(machine_type="".join(self.machine_types[:1]), region=self.region)
        where = ",".join(self.zones) if self.zones else placed.where
        why = f" {self.code}" if self.code and self.outcome != "acquired" else ""
        machine = f" {placed.machine}" if len(self.machine_types) == 1 else ""
        return (
            f"#{self.number} {self.provider} {where}{machine} {self.gpu} {self.capacity}:"
            f" {self.outcome}{why}"
        )


class CheckLine(NamedTuple):
    """One line of `gpus check`: `state` is ok | missing | refused | unknown; `todo` says how to get
    what is missing.
    """

    provider: str
    topic: str
    state: str
    found: str
    todo: str = ""
