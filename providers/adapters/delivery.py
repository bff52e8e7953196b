"""What a cloud made for an order, compared with it. Owns the words and codes of a delivery that is
not what was ordered; pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.errors import HalfMade

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from providers.model.machine import Handle, Order
    from providers.model.offer import Candidate
    from providers.model.place import Scope

PREEMPTED_BLOCK_S = 180.0
"""How long a place is left alone where a machine was taken back while it started."""


class Delivery(NamedTuple):
    """Machines that exist for an order. `what` begins each message: the order, and where."""

    provider: str
    what: str
    handles: tuple[Handle, ...]

    def half_made(self, code: str, found: str, scopes: Sequence[Scope] = ()) -> HalfMade:
        """The error for machines that are not what was ordered."""
        text = (
            f"{self.what}: wanted what was ordered, found that {found}; they are deleted before"
            " anything else is bought"
        )
        return HalfMade(
            text,
            handles=self.handles,
            provider=self.provider,
            code=code,
            scopes=scopes,
            block_s=PREEMPTED_BLOCK_S if scopes else None,
        )

    def as_ordered(
        self, order: Order, placed: Candidate | None, maker: str, made: Iterable[str]
    ) -> Candidate:
        """Which candidate was delivered. Raises HalfMade where the machines are not as many as
        ordered, or not all of one candidate; `made` says what each is.
        """
        wanted = len(order.node_names)
        if len(self.handles) != wanted:
            raise self.half_made(
                "WRONG_COUNT", f"{len(self.handles)} machines exist instead of {wanted}"
            )
        if placed is None:
            raise self.half_made("NOT_AS_ORDERED", f"{maker} made {'; '.join(sorted(set(made)))}")
        return placed
