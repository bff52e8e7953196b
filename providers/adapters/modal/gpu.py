"""GPU strings exactly as Modal means them. Owns the table of what Modal sells by which name, and
its compilation; pure, imports no client.

A name or count that is not in the table is never sent: Modal's client checks neither, and its
server refuses a bad one only after the image was built. An empty string is never sent either: the
client makes a request for one nameless GPU of it.
"""

from __future__ import annotations

from typing import NamedTuple

from providers.errors import Unsupported
from providers.model import foreign
from providers.model.place import Scope

PROVIDER = "modal"
MAX_COUNT = 8
LONG_WAIT_ABOVE = 2


class Sold(NamedTuple):
    """One GPU model at Modal. `text` is its name there; `upgrade` the model that may be delivered
    instead at the same price.
    """

    text: str
    max_count: int = MAX_COUNT
    upgrade: str = ""
    exact_text: str = ""
    note: str = ""


SOLD = {
    "T4": Sold("T4"),
    "L4": Sold("L4"),
    "A10": Sold("A10", max_count=4),
    # Older client pages say A10G; the server takes it as another name of A10.
    "A10G": Sold("A10", max_count=4),
    "L40S": Sold("L40S"),
    # A bare `A100` means 40 GB and may become 80 GB: the size is always written out.
    "A100": Sold("A100-40GB"),
    "A100-80GB": Sold("A100-80GB"),
    "RTX-PRO-6000": Sold(
        "RTX-PRO-6000",
        note="Modal's page names no largest count for RTX-PRO-6000; 8 is taken, unconfirmed",
    ),
    "H100": Sold("H100", upgrade="H200", exact_text="H100!"),
    "H200": Sold("H200"),
    "B200": Sold("B200"),
    "B300": Sold("B300", note="B300 wants an image with CUDA 13.1 or newer"),
}
"""Catalog name → Modal's. Source: modal.com/docs/guide/gpu, copy of 2026-09, and the client
reference of 1.6.4.
"""

_BY_TEXT = {sold.text: name for name, sold in SOLD.items() if name != "A10G"} | {"A100": "A100"}


def text(gpu_type: str, count: int, *, exact: bool = False) -> str:
    """The string for one sandbox: `H100:8`, `H100!:8`, `A100-40GB:1`. Raises Unsupported for what
    Modal does not sell.
    """
    sold = SOLD.get(gpu_type)
    scope = Scope(PROVIDER, gpu_type=gpu_type)
    if sold is None:
        raise Unsupported(
            f"Modal sells no {gpu_type or 'unnamed GPU'}; it sells"
            f" {', '.join(name for name in SOLD if name != 'A10G')}",
            provider=PROVIDER,
            code="gpu-not-sold",
            scopes=(scope,),
        )
    if not 1 <= count <= sold.max_count:
        raise Unsupported(
            f"Modal gives one container 1 to {sold.max_count} {sold.text}, not {count}",
            provider=PROVIDER,
            code="gpu-count",
            block_s=0.0,
        )
    return f"{sold.exact_text if exact and sold.exact_text else sold.text}:{count}"


def read(gpu_text: str) -> tuple[str, int]:
    """(catalog name, count) of a string that `text` made, or of what the server reports. An unknown
    name comes back as it is.
    """
    name, _, count = gpu_text.partition(":")
    plain = name.upper().rstrip("!+")
    return _BY_TEXT.get(plain, plain), foreign.whole(count, foreign.COUNT) or 1


def delivered_as_ordered(ordered: str, delivered: str, *, exact: bool) -> bool:
    """True when the delivered model is the one ordered, or Modal's own upgrade of it at the same
    price.
    """
    sold = SOLD.get(ordered)
    return delivered == ordered or (
        sold is not None and not exact and bool(sold.upgrade) and delivered == sold.upgrade
    )


def notes(gpu_type: str, count: int, *, exact: bool = False) -> tuple[str, ...]:
    """What a reader of the plan should know about this choice, one sentence each."""
    sold = SOLD.get(gpu_type)
    if sold is None:
        return ()
    lines = []
    if sold.upgrade and not exact:
        lines.append(
            f"Modal may give {sold.upgrade} for {gpu_type} at the same price; write"
            f" {sold.exact_text} for exactly {gpu_type}"
        )
    if count > LONG_WAIT_ABOVE:
        lines.append(
            f"Modal queues instead of refusing, longer above {LONG_WAIT_ABOVE} GPUs: it is acquired"
            " once a container has started"
        )
    if sold.note:
        lines.append(sold.note)
    return tuple(lines)
