"""A cloud's error table: what its codes mean and how they are read. Owns a row's form; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.errors import OutcomeUnknown, Transient, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from re import Pattern

    from providers.errors import CloudError


class Row(NamedTuple):
    """One code of an adapter's error table. `reading` is the class on a call that creates nothing,
    where it differs; `scope` a word of the adapter's own for what is blocked; `block_s` None: as
    the class says; `source` and `seen` where and when the code was met.
    """

    kind: type[CloudError]
    scope: str
    todo: str
    source: str
    seen: str
    reading: type[CloudError] | None = None
    block_s: float | None = None

    def means(self, *, creating: bool) -> type[CloudError]:
        """The class of the error on a call that may create something, or on another."""
        return self.kind if creating else self.reading or self.kind


def unanswered(row: Callable[..., Row], scope: str, cloud: str, then: str) -> tuple[Row, Row, Row]:
    """The rows of a request that was not sent, of an answer that was lost, and of one that cannot
    be read. `scope` blocks nothing; `then`: what is done before anything else is bought.
    """
    lost = row(OutcomeUnknown, scope, f"the answer was lost; {then}", reading=Transient)
    return (
        row(Transient, scope, f"look at the network: {cloud} cannot be reached from here"),
        lost,
        lost._replace(todo=f"the answer could not be read; {then}"),
    )


def exception_row(error: BaseException, rows: Mapping[str, Row]) -> Row | None:
    """The row of the exception's class, or of its nearest base in the table."""
    names = (f"{base.__module__}.{base.__qualname__}" for base in type(error).__mro__)
    return next((rows[name] for name in names if name in rows), None)


def scrubbed(text: str, secrets: Iterable[Pattern[str]], most: int) -> str:
    """One line of at most so many characters, without what these patterns find."""
    for pattern in secrets:
        text = pattern.sub("(secret)", text)
    return shortened(" ".join(text.split()), most)
