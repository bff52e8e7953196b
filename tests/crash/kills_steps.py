"""The steps of the kill experiment: what runs, on which cloud, and where it is killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.crash.kills_cli import STACK
from tests.crash.kills_moments import MOMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "train"
URN = f"urn:pulumi:{STACK}::gpus::gpu:index:Cluster::{NAME}"
EXIT_S = 60.0
"""Real seconds after the CLI's end within which every plugin process must have settled and ended.
"""
BAD = ("Traceback", "panic:", "goroutine ")
STOPPED = "stopped by the user"
LEFT_NOTHING = "nothing is left running"
WALKING = ("intent", "made", "pending", "refused", "queued")
"""Moments at which the purchase is half made: one interrupt must end it, and say so."""
RACING = ("both", "won", "beaten")
"""Moments at which two clouds are asked at once, and both have made a machine."""
SLOW_S = 30.0
"""How long the first of two clouds takes, in world seconds: the other one is asked and first."""
WHO = ("cli", "plugin", "both", "int", "int2", "term")
"""Who dies: killed with -9, or the CLI's group gets SIGINT once or twice, or the CLI SIGTERM."""
HANG_UP = "hup"
"""The terminal is closed: the CLI's group gets SIGHUP, which ends it at once."""
ORDERLY = ("int", "int2", "term")
ASLEEP = "asleep"
"""The laptop is closed: everything is stopped, the stack goes on from another home after `pulumi
cancel`, and then the laptop is opened.
"""
TAKEN_OVER = "taken over elsewhere"
CREATING = ("intent", "made")
"""Moments of a creating call at which a run falls asleep."""


class Cloud(NamedTuple):
    """What is declared at one cloud: `base` is bought, `other` replaces it, `spot` can be taken
    back.
    """

    base: Mapping[str, Any]
    other: str
    spot: Mapping[str, Any]
    settings: Mapping[str, str] = {}


def _cloud(
    name: str,
    gpu: str,
    other: str,
    spot: Mapping[str, Any],
    settings: Mapping[str, str] | None = None,
    **more: Any,
) -> Cloud:
    base = {"gpu": gpu, "providers": [name], "ttl": "20h", **more}
    return Cloud(base, other, {**base, **spot}, settings or {})


CLOUDS = {
    "gcp": _cloud("gcp", "L4:1", "L4:2", {"spot": "only"}, regions=["us-central1"]),
    "aws": _cloud("aws", "A10G:1", "A10G:4", {}, {"aws:regions": "us-east-1"}),
    "modal": _cloud("modal", "A10:1", "L4:1", {}),
    "clore": _cloud("clore", "RTX-4090:2", "RTX-4090:1", {"capacity": ["spot"]}),
}


class Step(NamedTuple):
    """`moments` are those at which it is cut short. `first` is launched before (empty: nothing), `words`
    is the command, `nodes` how many machines are declared.

    `edit` is what the declaration of the command has besides; `world` happens before it.
    `create` is the creating call where it is not the cloud's usual one. `who` dies, going round;
    everybody where it is empty. `block`: a Capacity Block is declared, whose beginning the recovery
    waits for.
    """

    moments: tuple[str, ...]
    first: bool = True
    words: tuple[str, ...] = ("up", "--yes", "--skip-preview")
    edit: Mapping[str, Any] = {}
    nodes: int = 1
    clouds: tuple[str, ...] = tuple(CLOUDS)
    world: str = ""
    create: str = ""
    who: tuple[str, ...] = ()
    block: bool = False


UP = ("up", "--yes", "--skip-preview")
REFRESH = ("refresh", "--yes", "--skip-preview")
DESTROY = ("destroy", "--yes", "--skip-preview")
OTHER = "other"
"""In an edit: the cloud's other GPU."""
NO_ROOM = "no room yet"
"""What happens before a step: a request is queued until `make_room`, after the crash at the latest.
"""
LABELS = {"labels": {"team": "vision"}, "max_price_per_hour": 500}
SERVICE = {
    "kind": "service",
    "gpu": "L4:1",
    "ttl": None,
    "workload": {"command": "python -m http.server 8000", "port": 8000},
    "options": {"modal": {"min_containers": 1, "max_containers": 1}},
}
BLOCK = {
    "gpu": "H100:8",
    "regions": ["us-east-1"],
    "capacity": ["block"],
    "block": {"lasts": "1d", "max_price": 800},
}
BLOCK_WAITS = "waits for its block until"
"""What an `up` says that ends before its block begins."""
BOUGHT, BEGUN = "block bought", "block begun"
"""What `world` says of a block."""
QUIET_S = 660.0
"""So long after a purchase may have been sent, not to be listed proves that there is none."""
DAY_S = 26 * 3_600.0
"""Any block has begun by then: the cheapest is the first that is offered, within a day."""


def _block(*moments: str, who: tuple[str, ...], world: str = "", create: str = "") -> Step:
    """A step of an `up` with a block, at EC2."""
    return Step(
        moments, False, edit=BLOCK, clouds=("aws",), world=world, create=create, who=who, block=True
    )


ACROSS: dict[str, Any] = {
    "gpu": "T4:1",
    "providers": ["gcp", "aws"],
    "rank": "preference",
    "regions": ["us-central1", "us-east-1"],
}
"""Google's places first, then EC2's."""
STEPS = {
    "up": Step(("owned", "intent", "made", "pending", "running", "reply", "saved"), first=False),
    "up-nodes": Step(
        ("made", "pending", "running"),
        first=False,
        edit={"nodes": 2},
        nodes=2,
        clouds=("gcp", "aws"),
    ),
    "up-across": Step(
        ("refused", "made", "running"),
        first=False,
        edit=ACROSS,
        clouds=("aws",),
        world="sold out at gcp",
    ),
    "up-hedged": Step(
        ("intent", "both", "won", "beaten"),
        first=False,
        edit={**ACROSS, "hedge": 2},
        clouds=("aws",),
        world="slow at gcp",
    ),
    "refresh": Step(("look",), words=REFRESH),
    "refresh-preempted": Step(("look",), words=REFRESH, clouds=("gcp",), world="preempted"),
    "up-preempted": Step(("intent", "made"), clouds=("gcp", "clore"), world="preempted"),
    "update": Step(("edit-sent", "edited"), edit=LABELS),
    "replace": Step(
        ("delete-sent", "deleted", "between", "intent", "made", "running"), edit={"gpu": OTHER}
    ),
    "replace-asked": Step(("between", "made"), words=(*UP, "--replace", URN)),
    "replace-tainted": Step(("deleting", "pending"), clouds=("gcp", "aws"), world="tainted"),
    "destroy": Step(("delete-sent", "deleted", "ownership"), words=DESTROY),
    "destroy-nodes": Step(
        ("deleted",), words=DESTROY, edit={"nodes": 2}, nodes=2, clouds=("gcp", "aws")
    ),
    "adopt": Step(
        ("edit-sent", "edited"), first=False, clouds=("gcp", "aws", "modal"), world="unrecorded"
    ),
    "up-service": Step(
        ("intent", "made"), first=False, edit=SERVICE, clouds=("modal",), create="AppPublish"
    ),
    "destroy-unrecorded": Step(
        ("delete-sent", "deleted"), first=False, words=DESTROY, world="unrecorded"
    ),
    "up-queued": Step(
        ("intent", "made", "queued", "turned"),
        first=False,
        edit={
            "capacity": ["flex-start"],
            "wait": "1h",
            # The bundled prices have none for it.
            "prices": {
                "overrides": [
                    {"provider": "gcp", "capacity": "flex-start", "price_usd_per_hour": 0.5}
                ]
            },
        },
        clouds=("gcp",),
        world=NO_ROOM,
    ),
    "up-block": _block(
        "intent",
        "paid",
        "booked",
        who=("both", "plugin", "cli"),
        create="ec2.PurchaseCapacityBlock",
    ),
    "block-waits": _block("at-work", who=("both",), world=BOUGHT),
    "block-begins": _block(
        "block-look",
        "intent",
        "made",
        "running",
        who=("both", "plugin", "cli", "both"),
        world=BEGUN,
        create="ec2.RunInstances",
    ),
}
TWISTS = {
    "edited": "the declaration is edited between the crash and the next up",
    "renamed": "the declaration has another cluster instead between the crash and the next up",
    "clone": "another clone, with a backend of its own, works in the same account meanwhile",
    "moved": (
        "the state goes on in another clone, on another machine with a backend and a journal of"
        " its own"
    ),
}
BESIDES = (
    ("gcp", "up", "made", HANG_UP),
    ("aws", "replace", "running", HANG_UP),
    ("gcp", "up", "made", "both", "edited"),
    ("aws", "up", "pending", "cli", "edited"),
    ("modal", "up", "running", "plugin", "edited"),
    ("clore", "up", "made", "both", "edited"),
    ("gcp", "replace", "deleted", "both", "edited"),
    ("modal", "update", "edited", "cli", "edited"),
    ("gcp", "up", "made", "both", "renamed"),
    ("modal", "up", "running", "both", "renamed"),
    ("gcp", "up", "made", "cli", "clone"),
    ("aws", "replace", "between", "both", "clone"),
    ("modal", "destroy", "delete-sent", "both", "clone"),
    ("clore", "up", "pending", "both", "clone"),
    ("gcp", "up", "running", "both", "moved"),
    ("aws", "up", "made", "both", "moved"),
    ("modal", "replace", "made", "both", "moved"),
    ("gcp", "up-queued", "intent", "both"),
    ("gcp", "up-queued", "made", "both"),
    ("gcp", "up-queued", "queued", "both"),
    ("gcp", "up-queued", "queued", "plugin"),
    ("gcp", "up-queued", "queued", "both", "renamed"),
    ("gcp", "up-queued", "turned", "both"),
    ("gcp", "up-queued", "turned", "both", "renamed"),
    ("aws", "up-hedged", "both", "plugin"),
    ("aws", "up-hedged", "won", "int"),
    ("aws", "up-hedged", "won", "both", "edited"),
    ("aws", "up-hedged", "beaten", "both", "moved"),
)


def is_point(name: str, cloud: str) -> bool:
    """Whether a point of that name can be run at that cloud, listed or not."""
    step, moment, who, *twist = (*name.split("/"), "", "")
    known = (
        step in STEPS and moment in MOMENTS and who in (*WHO, HANG_UP, ASLEEP) and cloud in CLOUDS
    )
    return known and set(twist) <= {*TWISTS, ""}
