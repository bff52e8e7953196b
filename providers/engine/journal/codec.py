"""Orders, tickets and accounts as plain JSON types for the journal, without loss. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from providers.model.machine import Handle, Label, Order, Setup, Ticket
from providers.model.offer import Candidate, Offer, Term
from providers.model.volume_mount import VolumeMount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LABEL = "mark"
"""The stored name of an order's label, which earlier versions wrote and read too."""


def order_out(order: Order) -> dict[str, Any]:
    """An order as plain JSON types: what `Adapter.resume` needs, from any later process."""
    return {
        _LABEL: list(order.label),
        "token": order.token,
        "candidates": [_candidate_out(candidate) for candidate in order.candidates],
        "node_names": list(order.node_names),
        "setup": order.setup._asdict(),
        "wait_s": order.wait_s,
        "max_micro_usd": order.max_micro_usd,
        "joins": [list(handle) for handle in order.joins],
        "intended_at": order.intended_at,
    }


def order_in(raw: Mapping[str, Any]) -> Order:
    """Reads `order_out`'s form. Lists become tuples: an order is a frozen record through and
    through.
    """
    setup = {name: _tuples(value) for name, value in raw["setup"].items() if name in Setup._fields}
    setup["volumes"] = tuple(VolumeMount(*each) for each in setup.get("volumes") or ())
    return Order(
        Label(*raw[_LABEL]),
        raw["token"],
        tuple(_candidate_in(item) for item in raw["candidates"]),
        tuple(raw["node_names"]),
        Setup(**setup),
        int(raw["wait_s"]),
        raw.get("max_micro_usd"),
        tuple(Handle(*pair) for pair in raw.get("joins") or ()),
        float(raw.get("intended_at") or 0.0),
    )


def ticket_out(ticket: Ticket) -> dict[str, Any]:
    """A ticket without its order, which stands beside it in the journal."""
    return {
        "state": ticket.state,
        "native": [list(pair) for pair in ticket.native],
        "placed": None if ticket.placed is None else _candidate_out(ticket.placed),
        "handles": [list(handle) for handle in ticket.handles],
        "detail": ticket.detail,
    }


def ticket_in(raw: Mapping[str, Any], order: Order) -> Ticket:
    """Reads `ticket_out`'s form."""
    return Ticket(
        order,
        raw["state"],
        tuple((str(key), str(value)) for key, value in raw["native"]),
        None if raw["placed"] is None else _candidate_in(raw["placed"]),
        tuple(Handle(*pair) for pair in raw["handles"]),
        raw["detail"],
    )


def _candidate_out(candidate: Candidate) -> dict[str, Any]:
    return {**candidate._asdict(), "offer": list(candidate.offer)}


def _candidate_in(raw: Mapping[str, Any]) -> Candidate:
    offer = Offer(*raw["offer"])
    term = None if offer.term is None else Term(*offer.term)
    return Candidate(**{**raw, "offer": offer._replace(term=term)})


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value


def handles_out(handles: Iterable[Handle]) -> str:
    """Machines as the journal's text."""
    return json.dumps([list(handle) for handle in handles])


def handles_in(text: str) -> tuple[Handle, ...]:
    """The reverse of `handles_out`."""
    return tuple(Handle(*pair) for pair in json.loads(text))
