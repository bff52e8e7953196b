"""An adapter as the engine calls it: every answer is a result or an error of the tree.

Owns two things. An exception that no adapter foresaw (a field of another type, a missing one, a
page nested a thousand deep) becomes Unclassified: nothing is concluded from it, and a create that
ends so is looked for like any other whose outcome is unknown. And the one place that asks whether
an adapter has what only some have (the protocols of `base`). Imports no adapter.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from providers.adapters import base
from providers.errors import GpusError, Unclassified, Unsupported, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from providers.model.advice import Question
    from providers.model.ask import Ask
    from providers.model.machine import CheckLine, Handle, Node, Order, Ticket
    from providers.model.offer import Candidate, Offer
    from providers.model.volume import Volume, VolumeOrder

UNREADABLE = "unreadable"


class Cloud:
    """A connected adapter, each of whose methods raises errors of the tree only.

    Beyond the calls that every adapter has it answers those that only some have, with what is said
    here for the others.
    """

    def __init__(self, real: base.Adapter) -> None:
        self.real = real
        """The adapter itself."""

    @property
    def name(self) -> str:
        return self.real.name

    @property
    def world(self) -> str:
        return self.real.world

    def offers(self) -> Sequence[Offer] | None:
        with self._readable("offers"):
            return self.real.offers()

    def check(self) -> Sequence[CheckLine]:
        with self._readable("check"):
            return self.real.check()

    def group(self, candidates: Sequence[Candidate]) -> int:
        with self._readable("group"):
            return self.real.group(candidates)

    def submit(self, order: Order) -> Ticket:
        with self._readable("submit"):
            return self.real.submit(order)

    def poll(self, ticket: Ticket) -> Ticket:
        with self._readable("poll"):
            return self.real.poll(ticket)

    def resume(self, order: Order) -> Ticket | None:
        with self._readable("resume"):
            return self.real.resume(order)

    def observe(self, handles: Sequence[Handle]) -> Sequence[Node]:
        with self._readable("observe"):
            return _printable(self.real.observe(handles))

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        with self._readable("find"):
            return _printable(self.real.find(owner, cluster, generation))

    def delete(self, handle: Handle) -> None:
        with self._readable("delete"):
            self.real.delete(handle)

    def relabel(self, handle: Handle, generation: str) -> None:
        with self._readable("relabel"):
            self.real.relabel(handle, generation)

    def update(self, handle: Handle, change: Mapping[str, object]) -> None:
        with self._readable("update"):
            self.real.update(handle, change)

    # What only some adapters have

    @property
    def long_polls(self) -> bool:
        """Whether it can hold its answer until there is news."""
        return isinstance(self.real, base.LongPoll)

    def long_poll(self, ticket: Ticket) -> Ticket:
        """See `base.LongPoll`; else as `poll`."""
        with self._readable("long_poll"):
            held = isinstance(self.real, base.LongPoll)
            return self.real.long_poll(ticket) if held else self.real.poll(ticket)  # type: ignore[attr-defined]

    def offers_for(self, ask: Ask) -> Sequence[Offer] | None:
        """See `base.OffersByAsk`; else the same offers for every declaration."""
        with self._readable("offers_for"):
            if isinstance(self.real, base.OffersByAsk):
                return self.real.offers_for(ask)
            return self.real.offers()

    @property
    def reprices(self) -> bool:
        """Whether it tells today's prices."""
        return isinstance(self.real, base.Repricing)

    def repriced(self, offers: Sequence[Offer]) -> base.Repriced:
        """See `base.Repricing`; else the offers as they are."""
        with self._readable("repriced"):
            if isinstance(self.real, base.Repricing):
                return self.real.repriced(offers)
            return base.Repriced(offers)

    def block_offers(self, ask: Ask, like: Sequence[Offer]) -> base.Repriced:
        """See `base.BlockMarket`; else none."""
        with self._readable("block_offers"):
            if isinstance(self.real, base.BlockMarket):
                return self.real.block_offers(ask, like)
            return base.Repriced(())

    def usable(self, places: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
        """See `base.PlaceAccess`; else none."""
        with self._readable("usable"):
            return self.real.usable(places) if isinstance(self.real, base.PlaceAccess) else ()

    @property
    def keeps_helpers(self) -> bool:
        """Whether it keeps things beside machines for the orders of one launch."""
        return isinstance(self.real, base.LaunchHelpers)

    def launch_ended(self, owner: str, cluster: str, regions: Collection[str]) -> None:
        """See `base.LaunchHelpers`; else nothing."""
        with self._readable("launch_ended"):
            if isinstance(self.real, base.LaunchHelpers):
                self.real.launch_ended(owner, cluster, regions)

    @property
    def advises(self) -> bool:
        """Whether it says how likely it has room."""
        return isinstance(self.real, base.Advises)

    def advice(self, offers: Sequence[Offer], nodes: int) -> Sequence[Question]:
        """See `base.Advises`; else no question."""
        with self._readable("advice"):
            return self.real.advice(offers, nodes) if isinstance(self.real, base.Advises) else ()

    @property
    def logs(self) -> bool:
        """Whether it keeps what a machine wrote."""
        return isinstance(self.real, base.ConsoleLog)

    def log(self, handle: Handle) -> str:
        """See `base.ConsoleLog`; else nothing."""
        with self._readable("log"):
            return str(self.real.log(handle)) if isinstance(self.real, base.ConsoleLog) else ""

    @property
    def account(self) -> Mapping[str, str]:
        """See `base.OwnAccount`; else nothing beyond the settings."""
        with self._readable("account"):
            return self.real.account if isinstance(self.real, base.OwnAccount) else {}

    @property
    def not_configured(self) -> str:
        """See `base.KeylessMarket`; else empty."""
        return self.real.not_configured if isinstance(self.real, base.KeylessMarket) else ""

    @property
    def volumes(self) -> Volumes:
        """See `base.HasVolumes`. Raises Unsupported where it has none."""
        with self._readable("volumes"):
            if not isinstance(self.real, base.HasVolumes):
                raise Unsupported(f"{self.name} has no volumes", provider=self.name)
            return Volumes(self.real.volumes, self._readable)

    @property
    def remarks(self) -> Sequence[str]:
        """See `base.Remarks`; else none."""
        return self.real.remarks if isinstance(self.real, base.Remarks) else ()

    @contextmanager
    def _readable(self, method: str) -> Iterator[None]:
        try:
            yield
        except GpusError:
            raise
        except Exception as error:
            raise unreadable(str(self.real.name), method, error) from error


class Volumes:
    """The volumes of a connected adapter; each method raises errors of the tree only."""

    def __init__(
        self, real: base.VolumeStore, readable: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        self._real = real
        self._readable = readable

    def create(self, order: VolumeOrder) -> Volume:
        with self._readable("create a volume"):
            return self._real.create(order)

    def find(self, *, owner: str = "", stack: str = "", name: str = "") -> Sequence[Volume]:
        with self._readable("find volumes"):
            return self._real.find(owner=owner, stack=stack, name=name)

    def look(self, handle: Handle) -> Volume | None:
        with self._readable("look at a volume"):
            return self._real.look(handle)

    def grow(self, handle: Handle, size_gib: int) -> None:
        with self._readable("grow a volume"):
            self._real.grow(handle, size_gib)

    def claim(self, handle: Handle, owner: str) -> None:
        with self._readable("label a volume"):
            self._real.claim(handle, owner)

    def delete(self, handle: Handle) -> None:
        with self._readable("delete a volume"):
            self._real.delete(handle)


def _printable(nodes: Sequence[Node]) -> Sequence[Node]:
    """The same machines, every word printable: their names and details may be a stranger's."""
    out = []
    for node in nodes:
        words: dict[str, Any] = {
            name: printable(word) for name, word in node._asdict().items() if isinstance(word, str)
        }
        out.append(node._replace(**words))
    return out


def unreadable(provider: str, method: str, error: Exception) -> Unclassified:
    """What an unforeseen exception means. Its own text may repeat the reply, secrets included: only
    its kind and its place are told.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = (
        f" at {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        if trace is not None
        else ""
    )
    text = f"{provider}: {method}: an answer that cannot be read ({type(error).__name__}{where})"
    return Unclassified(text, provider=provider, code=UNREADABLE)
