"""The seam between the engine and a cloud. Owns the Adapter protocol and how an adapter's folder presents itself.

A folder `providers/adapters/<name>/` (or an entry point of group `gpus.adapters`) exposes `MANIFEST`, a Manifest. Importing the folder must
not import the cloud's SDK: `connect` does, when a call is about to be made. Adapters import model, errors, this module and the rehearsal store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from re import Pattern

    from providers.errors import CloudError, Problem
    from providers.model.capability import Capabilities
    from providers.model.machine import CheckLine, Handle, Node, Order, Setup, Ticket
    from providers.model.offer import Candidate, Offer

REHEARSAL, LIVE = "rehearsal", "live"
WORLDS = (REHEARSAL, LIVE)


def home() -> Path:
    """The folder of everything kept between runs: `$GPUS_HOME`, else `${XDG_STATE_HOME:-~/.local/state}/gpus`.

    Made on first use, for its owner alone. Reads the environment and makes at most one folder. Raises OSError where that is not allowed.
    """
    import os
    from pathlib import Path

    chosen = os.environ.get("GPUS_HOME", "")
    folder = Path(chosen).expanduser() if chosen else Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "gpus"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


class Repriced(NamedTuple):
    """Offers of the catalog at today's prices where they are known, as they were where not; and what the user should know of it, in lines."""

    offers: Sequence[Offer]
    lines: Sequence[str] = ()


class Adapter(Protocol):
    """One cloud in one world. Every method is blocking and short (one call or a few); the engine waits and repeats.

    Errors are of the tree in `providers.errors`, classified by code. No method retries a creating call.

    An adapter whose market anybody may read connects without credentials, and says in an attribute `not_configured` what is missing to buy; it
    then lists offers, finds nothing and buys nothing.

    An adapter whose bundled offers can be had at today's prices, where an account is told them, has a method `repriced(offers) -> Repriced`. It is
    asked in the live world only, reads, and answers within some seconds.

    An adapter whose cloud keeps what a machine wrote while it started (a serial port, a console) has a method `log(handle) -> str`: that text, as far
    as the cloud still has it; empty while there is none. It reads.
    """

    @property
    def name(self) -> str: ...

    @property
    def world(self) -> str: ...

    def offers(self) -> Sequence[Offer] | None:
        """Live offers, or None where the bundled catalog is the best there is."""

    def check(self) -> Sequence[CheckLine]:
        """What is there and what is missing: credentials, APIs, rights, quota. Reads only."""

    def group(self, candidates: Sequence[Candidate]) -> int:
        """How many of the leading candidates (all of this provider) go into one creating call: at least 1. Pure.

        A group never changes the plan's order: only candidates that the cloud itself tries in this order, or that rank equal.
        """

    def submit(self, order: Order) -> Ticket:
        """Exactly one creating call. Raises the refusal, or OutcomeUnknown when the answer was lost."""

    def poll(self, ticket: Ticket) -> Ticket:
        """Where the call stands now; `done` once machines are made. Raises the refusal (then nothing of the order is left, or
        HalfMade names what is).
        """

    def resume(self, order: Order) -> Ticket | None:
        """Settles an unknown outcome by the order's token, without ever making a second machine: the ticket, or None when the
        cloud is certain that nothing was made. Raises OutcomeUnknown while that is not certain.
        """

    def observe(self, handles: Sequence[Handle]) -> Sequence[Node]:
        """One node per handle, in order; status `gone` only on the cloud's own word. Raises Transient and the like when unreachable."""

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        """Every existing machine that bears the owner's mark (narrowed by cluster and generation), paging through all."""

    def delete(self, handle: Handle) -> None:
        """Starts the deletion of one machine and what it alone uses. Gone already is success."""

    def relabel(self, handle: Handle, generation: str) -> None:
        """Writes a new generation on an adopted machine."""

    def update(self, handle: Handle, change: Mapping[str, object]) -> None:
        """Edits in place what `Capabilities.in_place` names."""


class Row(NamedTuple):
    """One code of an adapter's error table. `reading` is the class on a call that creates nothing, where it differs; `scope` a word of the adapter's
    own for what is blocked; `block_s` None: as the class says; `source` and `seen` where and when the code was met.
    """

    kind: type[CloudError]
    scope: str
    todo: str
    source: str
    seen: str
    reading: type[CloudError] | None = None
    block_s: float | None = None


def scrubbed(text: str, secrets: Iterable[Pattern[str]], most: int) -> str:
    """One line of at most so many characters, without what these patterns find."""
    for pattern in secrets:
        text = pattern.sub("(secret)", text)
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


class Placement(Protocol):
    """What a machine is and where: a candidate, or what is held."""

    @property
    def machine_type(self) -> str: ...

    @property
    def nodes(self) -> int: ...


class Manifest(NamedTuple):
    """What a folder presents. `connect(world, config)` makes the adapter: `config` is the provider's section of settings (project,
    endpoint...), strings only. It raises NotConfigured when live credentials are missing.

    `options` checks the provider's section of a spec: every problem, each with a path relative to the section.
    """

    name: str
    capabilities: Capabilities
    connect: Callable[[str, Mapping[str, str]], Adapter]
    options: Callable[[Mapping[str, object]], Sequence[Problem]]
    environment: tuple[str, ...] = ()
    """The environment variables that this provider's credentials come from, for messages."""
    settings: tuple[str, ...] = ()
    """The keys of the provider's settings, none of them secret: what `<provider>:<key>` in a stack's configuration may set."""
    notes: Callable[[Candidate, Setup], Sequence[str]] | None = None
    """What a reader of the plan should know about a candidate beyond its price, one sentence each. Pure and cheap. `Setup.options` holds the sections
    of all providers.
    """
    together: Callable[[Sequence[Candidate], Mapping[str, object]], int] | None = None
    """How many of the leading candidates may share one creating call under the provider's section of options: at least 1. Pure. None: any."""
    priced: Callable[[Offer, Mapping[str, object], str], Offer] | None = None
    """The offer at what the spec's section of options makes it cost, for this kind of cluster. Pure and cheap; of a section that `options` found
    nothing wrong with.
    """
    fits: Callable[[str, Mapping[str, object], Setup], Sequence[Problem]] | None = None
    """What of the section is missing or out of place for a cluster of this kind (machine, job, service). Pure; as for `priced`."""
    unreachable: Callable[[Placement, Setup], str] | None = None
    """Why no login with the cluster's own key can be had from here on a machine of this placement, by what was declared; empty where one can. It is
    then ready when its cloud says so, and a line says this. `Setup.options` holds the provider's section alone. Pure.
    """
