"""The seam, guarded: whatever an adapter meets in a cloud's reply, what comes out is a result or an
error of the tree.

Owns the one place where an exception that no adapter foresaw (a field of another type, a missing
one, a page nested a thousand deep) becomes Unclassified: nothing is concluded from it, and a create
that ends so is looked for like any other whose outcome is not known. Imports no adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.errors import GpusError, Unclassified, printable
from providers.model.machine import Node

if TYPE_CHECKING:
    from providers.adapters.base import Adapter

UNREADABLE = "unreadable"


class _Guarded:
    """An adapter, each of whose methods raises errors of the tree alone. Everything else of it
    shows through.
    """

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._real, attribute)
        if attribute.startswith("_") or not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            try:
                return _shown(found(*arguments, **named))
            except GpusError:
                raise
            except Exception as error:
                raise unreadable(str(self._real.name), attribute, error) from error

        return call


def _shown(result: Any) -> Any:
    """The result; of machines that it lists, every word is printable: their names and details may
    be a stranger's.
    """
    if not isinstance(result, (list, tuple)) or not all(isinstance(each, Node) for each in result):
        return result
    return [
        node._replace(
            **{
                name: printable(word)
                for name, word in node._asdict().items()
                if isinstance(word, str)
            }
        )
        for node in result
    ]


def guarded(adapter: Adapter) -> Adapter:
    """The same adapter, guarded."""
    return _Guarded(adapter)


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
