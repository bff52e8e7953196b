"""What a cloud says of how likely it has room. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from providers.model.offer import Offer

UNKNOWN = 0.5
"""The chance that counts where a cloud said nothing."""

Kind = tuple[str, str, str, str, str]
"""Provider, region, machine type, GPU type and kind of capacity: what an advice is about."""


class Advice(NamedTuple):
    """`chance` is from 0 to 1, the more the better; `words` are the cloud's own figure."""

    chance: float
    words: str


Question = Callable[[], Mapping[Kind, Advice]]
"""A read that tells of some kinds; raises errors of the tree."""


def kind(offer: Offer) -> Kind:
    """What an advice on this offer is about."""
    return (
        offer.provider,
        offer.region,
        offer.machine_type,
        offer.gpu_type,
        offer.capacity,
    )


def chance(known: Mapping[Kind, Advice], offer: Offer) -> float:
    """What is known of this offer, else UNKNOWN."""
    found = known.get(kind(offer))
    return UNKNOWN if found is None else found.chance
