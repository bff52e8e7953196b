"""The candidates of a walk as one ranked sequence with a position, and what is left out of it.

Owns that a failed candidate costs no pass over the others: the walk goes on from its position, and
whether a place is left out is looked up by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, overload

from providers.engine.launch.refusals import ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from providers.model.offer import Candidate
    from providers.model.place import Scope


class LeftOut:
    """The scopes that are left out for the rest of a run, and why. A look-up costs one step for
    each shape of scope, not for each scope.
    """

    def __init__(self) -> None:
        self._shapes: dict[tuple[int, ...], dict[tuple[str, ...], tuple[int, str]]] = {}
        """Which fields are set -> their values -> (the how many-th, why)."""
        self._count = 0

    def add(self, scope: Scope, reservation: str, why: str) -> None:
        """Leaves a scope out; of a reservation only that one, if it is named."""
        fields = (*scope, reservation)
        shape = tuple(at for at, field in enumerate(fields) if field)
        key = tuple(fields[at] for at in shape)
        self._shapes.setdefault(shape, {}).setdefault(key, (self._count, why))
        self._count += 1

    def why(self, candidate: Candidate) -> str:
        """Why a candidate is left out, by the first scope that covers it; empty where it is not."""
        place = candidate.offer
        fields = (
            *(place.provider, place.region, place.zone, place.machine_type),
            *(place.gpu_type, place.capacity, candidate.reservation),
        )
        found = [
            known[key]
            for shape, known in self._shapes.items()
            if (key := tuple(fields[at] for at in shape)) in known
        ]
        return min(found)[1] if found else ""


class Ranked(Sequence["Candidate"]):
    """What of a plan is still to be tried, in its order. Its length costs a pass over all of it;
    whether there is one more, and the next, do not.
    """

    def __init__(
        self, candidates: Sequence[Candidate], left_out: Callable[[Candidate], str]
    ) -> None:
        self._all = list(candidates)
        self._left_out = left_out
        self._at = 0
        self._taken: set[int] = set()
        """What was taken from behind the position."""
        self._in_region: dict[str, list[int]] | None = None

    def pass_over(self) -> Iterator[str]:
        """Moves on to the next that is not left out; yields why each is that it passes."""
        while self._at < len(self._all):
            if self._at in self._taken:
                self._taken.discard(self._at)
            elif why := self._left_out(self._all[self._at]):
                yield why
            else:
                return
            self._at += 1

    def take(self, candidates: Sequence[Candidate]) -> None:
        """Takes these out, which are among them in this order."""
        wanted = iter(candidates)
        candidate = next(wanted, None)
        for at in self._open():
            if candidate is None:
                return
            if self._all[at] is candidate:
                self._taken.add(at)
                candidate = next(wanted, None)

    def put_ahead(self, regions: Collection[str], zones: Collection[str]) -> None:
        """Lets these zones of the regions go first among equals: see `ahead`."""
        if not zones:
            return
        if self._in_region is None:
            self._in_region = {}
            for at, candidate in enumerate(self._all):
                self._in_region.setdefault(candidate.region, []).append(at)
        for region in regions:
            places = [
                at
                for at in self._in_region.get(region, ())
                if at >= self._at and at not in self._taken
            ]
            moved = ahead([self._all[at] for at in places], regions, zones)
            for at, candidate in zip(places, moved, strict=True):
                self._all[at] = candidate

    def _open(self) -> Iterator[int]:
        for at in range(self._at, len(self._all)):
            if at not in self._taken and not self._left_out(self._all[at]):
                yield at

    def __iter__(self) -> Iterator[Candidate]:
        return (self._all[at] for at in self._open())

    def __bool__(self) -> bool:
        return next(self._open(), None) is not None

    def __len__(self) -> int:
        return sum(1 for _ in self._open())

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> list[Candidate]: ...
    def __getitem__(self, index: int | slice) -> Candidate | list[Candidate]:
        if isinstance(index, slice):
            return list(islice(self, index.start, index.stop, index.step))
        for candidate in islice(self, index, None):
            return candidate
        raise IndexError(index)
