"""What a notebook shows: small tables as HTML, every text escaped. Pure."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, title: str, note: str) -> str:
    """A table with a title above and a note below; an empty note is left out."""
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    return (
        f"<table><caption>{escape(title)}</caption>"
        f"<thead><tr>{_cells('th', head)}</tr></thead>"
        f"<tbody>{body}</tbody></table>" + (f"<p>{escape(note)}</p>" if note else "")
    )


def _cells(tag: str, cells: Iterable[object]) -> str:
    return "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells)
