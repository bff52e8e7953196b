"""What a scenario can say: stock, latencies, faults; and the records of a store's rows. No I/O."""

from __future__ import annotations

from typing import NamedTuple

ANY = ""
"""In a scenario line: everything."""
LATENCIES_S = {
    "create": 1.0,
    "stockout": 0.4,
    "delete": 0.5,
    "stop": 0.5,
    "start": 1.0,
    "edit": 0.2,
    "preempt": 1.0,
    "job": 20.0,
}
"""How long each step of a rehearsal cloud takes unless the scenario says otherwise, in world
seconds: brisk, yet visible.
"""
DEFAULT_STOCK = (
    # The cheapest places for eight spot H100s, so that the first `up` shows what a stockout looks
    # like before it succeeds elsewhere.
    ("gcp", "europe-west2", "a3-edgegpu-8g-nolssd", ANY, "spot", 0),
    ("gcp", "europe-north1", "a3-highgpu-8g", ANY, "spot", 0),
    ("gcp", "europe-west9", "a3-highgpu-8g", ANY, "spot", 0),
)
FAULTS = {
    "reply-lost": "the work is done, then the connection closes without an answer",
    "error-after": "the work is done, then the answer is HTTP `status` (default 503)",
    "http": "HTTP `status` with `reason`, before any work",
    "unavailable": "HTTP 503 backendError, before any work",
    "rate-limit": "asked too often, as that cloud says it (Google: HTTP 403), before any work",
    "too-many": "HTTP 429 rateLimitExceeded, before any work",
    "unauthorized": "HTTP 401 authError, before any work",
    "forbidden": "HTTP 403 forbidden, before any work",
    "quota": (
        "refused for a limit of the account, as that cloud says it; `metric`: the limit's name (for"
        " AWS the error's code)"
    ),
    "html": "HTTP 502 with a web page instead of JSON, before any work",
    "malformed": "the work is done, then half of the JSON answer arrives",
    "delay": "the work is done, then the answer comes `seconds` later (of real time)",
    "overtaken": (
        "the work is done only `seconds` later (of real time), when whoever asked may have given up"
    ),
    "twice": "the request is delivered twice; you get the second answer",
    "slow": "the operation takes `seconds` longer (of world time)",
    "op-error": "the operation ends with error `code` and changes nothing",
    "port-closed": "of node.look: ssh's port on a stand-in node does not answer",
    "no-driver": "of node.look: the driver of a stand-in node does not answer",
    "job-fails": "of node.work: what a stand-in node runs ends with exit code `code` (default 1)",
    "start-up-failed": (
        "of node.look: the start-up script of a stand-in node ended with `code` (default 1)"
    ),
    "wrong-gpus": (
        "of node.look: a stand-in node shows, from then on, one GPU fewer than ordered (another"
        " card for one), or `count`, `name`, `mib`"
    ),
    "tcp-links": (
        "of node.accept: NCCL's all-reduce on a stand-in node goes, from then on, at `gb_s` GB/s"
        " (default 1.2) on the bus, as over TCP"
    ),
    "tcp-between": (
        "of node.accept: NCCL's all-reduce between stand-in nodes goes, from then on, over TCP, at"
        " `gb_s` GB/s (default 1.2) on the bus, whatever network was paid for"
    ),
    "relabelled": (
        "of node.accept: the cards of a stand-in node are, from then on, as fast as the model"
        " `name` (default T4), whatever they say they are"
    ),
}
"""The kinds of fault and what each does; the words in backquotes are its settings."""
NODE_LOOK, NODE_WORK, NODE_ACCEPT = "node.look", "node.work", "node.accept"
JOB_FAILS = "job-fails"
RELABELLED, TCP_LINKS, TCP_BETWEEN = "relabelled", "tcp-links", "tcp-between"
NODE_LOOKS = (NODE_LOOK, NODE_ACCEPT)
NODE_FAULTS = {
    **dict.fromkeys(("port-closed", "no-driver", "start-up-failed", "wrong-gpus"), NODE_LOOK),
    **dict.fromkeys((RELABELLED, TCP_LINKS, TCP_BETWEEN), NODE_ACCEPT),
}
"""What a stand-in node can be like, and the name of the look that finds it so. A cloud's own calls
are other methods.
"""


class StockLine(NamedTuple):
    """One line of the scenario: `machines` exist in each place it covers (None: no end of them),
    since the world moment `since`.

    `place` is a zone, a region or empty; `gpu` is the cloud's or the catalog's name; empty fields
    cover everything.
    """

    provider: str
    place: str
    machine_type: str
    gpu: str
    capacity: str
    machines: int | None
    since: float


class Fault(NamedTuple):
    """A planned failure: of calls whose name matches `method` (with `*`), `times` more times (None:
    always).
    """

    id: int
    provider: str
    method: str
    kind: str
    times: int | None
    place: str
    machine_type: str
    settings: dict[str, object]


class Request(NamedTuple):
    """One call that a stand-in answered. `status` 0 means that no answer was given. Bodies are
    never kept: they may hold secrets.
    """

    at: float
    provider: str
    verb: str
    method: str
    path: str
    status: int
    fault: str


class RehearsedMachine(NamedTuple):
    """A machine in a rehearsal cloud, as `gpus rehearse` shows it. `created` is a world moment."""

    provider: str
    name: str
    status: str
    zone: str
    machine_type: str
    gpu: str
    gpu_count: float
    capacity: str
    labels: dict[str, str]
    created: float
