"""The seam between the engine and a cloud. Owns the Adapter protocol and how an adapter's folder
presents itself.

A folder `providers/adapters/<name>/` (or an entry point of group `gpus.adapters`) exposes
`MANIFEST`, a Manifest. Importing the folder must not import the cloud's SDK: `connect` does, when a
call is about to be made. Adapters import model, errors, this
module and the two beside it (`delivery`, `error_table`), never the rehearsal.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from providers.errors import Unsupported
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from providers.errors import Problem
    from providers.model.advice import Question
    from providers.model.ask import Ask
    from providers.model.capability import Capabilities
    from providers.model.fabric import Fabric
    from providers.model.host import Host
    from providers.model.machine import CheckLine, Handle, Node, Order, Setup, Ticket
    from providers.model.offer import Candidate, Offer
    from providers.model.placement import Placement
    from providers.model.volume import Volume, VolumeOrder, VolumeSales
    from providers.model.volume_mount import VolumeMount
    from providers.model.workload import Program
    from providers.model.worlds import RehearsedCloud


class Repriced(NamedTuple):
    """The catalog's offers at today's prices where those are known, and lines for the user."""

    offers: Sequence[Offer]
    lines: Sequence[str] = ()


class Adapter(Protocol):
    """One cloud in one world. Every method is blocking and short (one call or a few); the engine
    waits and repeats.

    Errors are of the tree in `providers.errors`, classified by code. No method retries a creating
    call. What only some clouds can answer is a protocol below, a base of their adapters' classes.
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
        """How many of the leading candidates (all of this provider) go into one creating call: at
        least 1. Pure.

        A group never changes the plan's order: only candidates that the cloud itself tries in this
        order, or that rank equal.
        """

    def submit(self, order: Order) -> Ticket:
        """Exactly one creating call. Raises the refusal, or OutcomeUnknown when the answer was
        lost.
        """

    def poll(self, ticket: Ticket) -> Ticket:
        """Where the call stands now; `done` once machines are made. Raises the refusal (then
        nothing of the order is left, or HalfMade names what is).
        """

    def resume(self, order: Order) -> Ticket | None:
        """Settles an unknown outcome by the order's token, without ever making a second machine:
        the ticket, or None when the cloud is certain that nothing was made. Raises OutcomeUnknown
        while that is not certain.
        """

    def observe(self, handles: Sequence[Handle]) -> Sequence[Node]:
        """One node per handle, in order; status `gone` only on the cloud's own word. Raises
        Transient and the like when unreachable.
        """

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        """Every existing machine that carries the owner's label (narrowed by cluster and
        generation), paging through all.

        An empty owner is any: everything that carries a label of this product, whoever's it is.
        Where a label shows but not whose it is, the node's `label` has an empty owner.
        """

    def delete(self, handle: Handle) -> None:
        """Starts the deletion of one machine and what it alone uses. Gone already is success."""

    def relabel(self, handle: Handle, generation: str) -> None:
        """Writes a new generation on an adopted machine."""

    def update(self, handle: Handle, change: Mapping[str, object]) -> None:
        """Edits in place what `Capabilities.in_place` names."""


@runtime_checkable
class LongPoll(Protocol):
    """A cloud that holds its answer until an order has come to something."""

    def long_poll(self, ticket: Ticket) -> Ticket:
        """As `poll`, answered when there is news: within minutes, and at times at once."""


@runtime_checkable
class OffersByAsk(Protocol):
    """A market whose live offers depend on the declaration: its options, its disk, its ttl."""

    def offers_for(self, ask: Ask) -> Sequence[Offer]:
        """As `offers`; what does not fit is restricted, with the reason. A section that cannot be
        read is left to `Manifest.check_options`.
        """


@runtime_checkable
class Repricing(Protocol):
    """A cloud that tells an account today's prices. Asked in the live world only."""

    def repriced(self, offers: Sequence[Offer]) -> Repriced:
        """The bundled offers at today's prices. Reads, and answers within some seconds."""


@runtime_checkable
class Advises(Protocol):
    """A cloud that says how likely it has room."""

    def advice(self, offers: Sequence[Offer], nodes: int) -> Sequence[Question]:
        """The reads that tell of some of these offers, not yet made; each is one call."""


@runtime_checkable
class BlockMarket(Protocol):
    """A cloud that sells windows in its calendar (`Capabilities.blocks`), paid for in full."""

    def block_offers(self, ask: Ask, like: Sequence[Offer]) -> Repriced:
        """Every window that fits the ask's terms, in the regions and of the machine types of
        `like`, which are bundled offers; one beyond the cap is restricted. Reads only.
        """


@runtime_checkable
class PlaceAccess(Protocol):
    """A cloud with places that an account must enable (`Limits.closed`)."""

    def usable(self, places: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
        """Those of these (region, zone) that this account can use now. Reads."""


@runtime_checkable
class LaunchHelpers(Protocol):
    """A cloud that makes things beside the machines of an order, and keeps them for the next order
    of the same launch.
    """

    def launch_ended(self, owner: str, cluster: str, regions: Collection[str]) -> None:
        """Removes what the cluster's launch does not need any more. `regions` are those in which an
        order of the cluster was tried and none stands. Best effort: what it cannot remove is found
        by the next one.
        """


@runtime_checkable
class ConsoleLog(Protocol):
    """A cloud that keeps what a machine wrote while it started: a serial port, a console."""

    def log(self, handle: Handle) -> str:
        """That text, as far as the cloud still has it; empty while there is none. Reads."""


@runtime_checkable
class OwnAccount(Protocol):
    """An adapter whose account is not wholly in its settings: a profile or a key from the
    environment.
    """

    @property
    def account(self) -> Mapping[str, str]:
        """Names to values, nothing secret. Stored with every order, and part of `config` when that
        account is looked for again; an adapter that cannot reach it then raises NotConfigured, and
        never looks into another.
        """


@runtime_checkable
class KeylessMarket(Protocol):
    """A market that anybody may read: it connects without credentials, and then buys nothing."""

    @property
    def not_configured(self) -> str:
        """What is missing to buy; empty when nothing is."""


@runtime_checkable
class Remarks(Protocol):
    """An adapter with something to say about the offers that it listed last."""

    @property
    def remarks(self) -> Sequence[str]:
        """One line each, for the plan."""


class VolumeStore(Protocol):
    """Storage that outlives machines. Blocking and short, with errors of the tree, as Adapter."""

    def create(self, order: VolumeOrder) -> Volume:
        """Exactly one creating call; the same token again makes no second volume. Raises the
        refusal, or OutcomeUnknown when the answer was lost.
        """

    def find(self, *, owner: str = "", stack: str = "", name: str = "") -> Sequence[Volume]:
        """Every volume that bears these labels, in every zone; without any of them all that bear
        this product's.
        """

    def look(self, handle: Handle) -> Volume | None:
        """The volume now; None only on the cloud's own word that it does not exist."""

    def grow(self, handle: Handle, size_gib: int) -> None:
        """Makes it this large, online."""

    def claim(self, handle: Handle, owner: str) -> None:
        """Writes a new owner on it."""

    def delete(self, handle: Handle) -> None:
        """Starts its deletion, with all data. Gone already is success."""


@runtime_checkable
class HasVolumes(Protocol):
    """A cloud with volumes."""

    @property
    def volumes(self) -> VolumeStore: ...


START_UP_STATUS = "/var/lib/gpus/start-up"
"""The file in which a machine's start-up script leaves its exit status; readiness reads it over
ssh. Not there while the script runs.
"""


def keep_status(file: str = START_UP_STATUS) -> str:
    """Shell (bash) that defines `keep_status`: a script that calls it leaves its exit status in
    this file.
    """
    from providers.model import shell

    return shell.program(__file__, "keep_status", gpus_status=file)


def is_loopback(endpoint: str) -> bool:
    """True for an address on this machine. Pure."""
    from urllib.parse import urlsplit

    return urlsplit(endpoint).hostname in ("127.0.0.1", "::1", "localhost")


def given(provider: str, rehearsed: RehearsedCloud | None) -> RehearsedCloud:
    """The rehearsal server that `connect` was given. Raises NotConfigured where it was not."""
    if rehearsed is None:
        from providers.errors import NotConfigured

        raise NotConfigured(
            f"{provider}: wanted its rehearsal server, found none; open the world with"
            " `open_world('rehearsal')`, which starts it",
            provider=provider,
        )
    return rehearsed


def rehearsal_endpoint(provider: str, endpoint: str, rehearsed: RehearsedCloud | None) -> str:
    """Where a rehearsal is reached: the `endpoint` of the settings, which must be on this machine,
    or the server's own. Raises NotConfigured.
    """
    if not endpoint:
        return given(provider, rehearsed).endpoint()
    if not is_loopback(endpoint):
        from providers.errors import NotConfigured

        raise NotConfigured(
            f"{provider}: wanted an endpoint on this machine for a rehearsal, found {endpoint};"
            " set world: live for it",
            provider=provider,
        )
    return endpoint


class Credentials(NamedTuple):
    """How an account is reached."""

    environment: tuple[str, ...] = ()
    """The environment variables that this provider's credentials come from, for messages."""
    settings: tuple[str, ...] = ()
    """The keys of the provider's settings, none of them secret: what `<provider>:<key>` in a
    stack's configuration may set.
    """
    from_environment: tuple[tuple[str, str], ...] = ()
    """(setting, environment variable): what an unset setting is read from in the live world."""
    pulumi_keys: frozenset[str] | None = None
    """Where Pulumi's own package of this name reads the same configuration: those of its keys that
    come near one of ours. There only what comes near a key of ours is a mistake. None: no package
    does.
    """
    reference: Callable[[str], str] | None = None
    """What a text must be to say where a secret is kept that machines here fetch by themselves;
    empty when it is that. None: they fetch none.
    """


class Pricing(NamedTuple):
    """What an offer costs and what a reader of the plan should know about it. All are pure."""

    notes: Callable[[Candidate, Setup], Sequence[str]] | None = None
    """What a reader of the plan should know about a candidate beyond its price, one sentence each.
    Cheap. `Setup.options` holds the sections of all providers.
    """
    priced: Callable[[Offer, Mapping[str, object], str], Offer] | None = None
    """The offer at what the spec's section of options makes it cost, for this kind of cluster.
    Cheap; of a section that `Manifest.check_options` found nothing wrong with.
    """
    in_regions: Callable[[Sequence[Offer], Sequence[str]], Sequence[Offer]] | None = None
    """The provider's offers in the requested regions, where it sells without one and takes one on
    request (`Capabilities.regions`).
    """
    derived: tuple[str, Callable[[Ask, Iterable[Offer]], Sequence[Offer]]] | None = None
    """(provider, what makes this one's offers for an ask from that one's bundled ones), where the
    catalog has none of its own. Of an ask that it cannot serve the offers are restricted with the
    reason.
    """


class Limits(NamedTuple):
    """What a cloud cannot do, or only in part. All are pure. `Setup.options` holds the provider's
    own section only.
    """

    together: Callable[[Sequence[Candidate], Mapping[str, object]], int] | None = None
    """How many of the leading candidates may share one creating call under the provider's section
    of options: at least 1. None: any.
    """
    fits: Callable[[str, Mapping[str, object], Setup], Sequence[Problem]] | None = None
    """What of the section is missing or out of place for a cluster of this kind (machine, job,
    service); of a section that `Manifest.check_options` found nothing wrong with.
    """
    unreachable: Callable[[Placement, Setup], str] | None = None
    """Why the cluster's own key cannot log in from here to a machine of this placement; empty where
    it can. The machine is then ready when its cloud says so, and a line says this.
    """
    fabric: Callable[[Placement, Setup], Fabric | None] | None = None
    """The network beside TCP between the nodes of this placement, `Setup.options` the provider's
    own section; None where the machine type has none. Pure.
    """
    shut: Callable[[Setup], str] | None = None
    """Why a service here is not reached from everywhere though it is declared public; empty where
    it is. `Setup.network` is not empty where the network is a managed one. None: it always is.
    """
    upgrade: Callable[[str], str] | None = None
    """The GPU that the provider may deliver in place of this one at the same price; empty where it
    delivers none.
    """
    lasts_s: Callable[[Mapping[str, object], int | None], int] | None = None
    """How long a job of the provider's own may take by its section of options and its ttl, all
    attempts together, in seconds. None: only a ttl ends it.
    """
    host: Callable[[str, Mapping[str, object]], Host | None] | None = None
    """What a machine type boots from under the provider's section of options, and what its disk can
    be. Cheap. None: unknown.
    """
    closed: Callable[[str, str], str] | None = None
    """What a (region, zone) is that an account begins without, and the command that enables it;
    empty for other places. None: there is no such place.
    """


class Console(NamedTuple):
    """How to look inside a machine. All are pure.

    `program`, `shell` and `port` are given the machine and the settings of its account, and answer
    with a program by its words, without a secret among them.
    """

    program: Callable[[Node, Mapping[str, str]], Sequence[str]] | None = None
    """Where machines take commands without ssh (`Capabilities.login`): the program on this machine
    that runs its last word, which the caller adds, in a shell on that machine. It carries stdin,
    stdout and stderr, ends with the command's exit code, and with 255 where the machine could not
    be reached.
    """
    shell: Callable[[Node, Mapping[str, str]], Sequence[str]] | None = None
    """The program that gives this terminal a shell on that machine. None: only commands are
    carried.
    """
    port: Callable[[Node, Mapping[str, str]], Sequence[str]] | None = None
    """The program that carries a port of this machine's loopback to one of that machine's until it
    is ended; the caller adds the two numbers, ours first. None: ports are not carried.
    """
    folder: str = ""
    """What precedes the absolute paths of ours there, where a machine has several clusters."""
    ssh: Callable[[Node, Setup, bool], str] | None = None
    """The cloud's own ssh command for this machine, of which the flag says whether it has no
    address that is reached from outside; empty where plain ssh gets there.
    """
    proxy: tuple[str, str] = ("", "")
    """Where the cloud's own proxy stands before a service with a token: curl's arguments that pass
    it, and what the words in them stand for. Empty: the service checks its token itself.
    """


class NetworkRequest(NamedTuple):
    """A managed network to declare, in a Pulumi program."""

    name: str
    world: str
    settings: Mapping[str, str]
    """The provider's section."""
    regions: Sequence[str]
    ports: Sequence[int]
    """Those that everybody may reach."""
    parent: Any
    """The Pulumi resource that the network's resources belong to."""
    made: dict[str, Any]
    """What this run of the program has made once for all clusters."""


class Programs(NamedTuple):
    """How what a cluster runs is started and ended."""

    runs: Callable[[Program, str, str, Mapping[str, object]], Mapping[str, object]] | None = None
    """The section of options with a program in it, where a provider starts what it runs by its
    options (an image, a command) and not by a script at boot: of the program, its start-up script,
    the kind of cluster and the section as declared. Pure.
    """
    ends_itself: str = ""
    """The shell line by which a machine ends itself for good once a job is done; empty where it
    can't.
    """
    options: Mapping[str, str] = MappingProxyType({})
    """The keys of the section that `runs` writes, and the field of a workload that each is
    declared by: the workload is the one way to say what runs.
    """
    bare: frozenset[str] = frozenset()
    """Those of them that a machine may have of its own (its image), unless its workload says
    something else.
    """


class Manifest(NamedTuple):
    """What a folder presents. `connect(world, config)` makes the adapter: `config` is the
    provider's section of settings (project, endpoint...), strings only. It raises NotConfigured
    when live credentials are missing. In a rehearsal a provider that has a server there is given it
    as a third argument, a RehearsedCloud.

    `check_options` checks the provider's section of a spec: every problem, each with a path
    relative to the section. The rest is what a provider has beyond that, grouped by question.
    """

    name: str
    capabilities: Capabilities
    connect: Callable[..., Adapter]
    check_options: Callable[[Mapping[str, object]], Sequence[Problem]]
    credentials: Credentials = Credentials()
    pricing: Pricing = Pricing()
    limits: Limits = Limits()
    console: Console = Console()
    programs: Programs = Programs()
    storage: VolumeSales | None = None
    """The volumes that it has, which the adapter's `VolumeStore` makes; None for none."""
    declare_network: Callable[[NetworkRequest], Mapping[str, Any]] | None = None
    """Declares a network of one cluster's own as Pulumi resources (`network: managed`), and answers
    with what the cluster needs of it, as `Setup.network` holds it.
    """


def not_mountable(
    provider: str, mount: VolumeMount, found: Volume | None, users: Iterable[str]
) -> Unsupported:
    """What to raise for a volume that is not there, or that another machine has: no place is
    blocked for it.
    """
    what = "none" if found is None else f"it attached to {', '.join(users)}"
    return Unsupported(
        f"{provider} {mount.place}: wanted the volume {mount.name}, found {what}"
        + ("" if found is None else "; release that machine first"),
        provider=provider,
        code="VOLUME",
        scopes=[Scope(provider)],
        block_s=0.0,
    )
