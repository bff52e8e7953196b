"""What a test needs to be there. Owns `present`."""

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """The value itself; None fails the test."""
    assert value is not None
    return value
