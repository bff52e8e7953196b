"""What a plan refused, in few words: one example of each rule, and what would open closed places.

Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.model.placement import Placement
from providers.planner import rules

if TYPE_CHECKING:
    from providers.model.offer import Offer
    from providers.planner.plan import Plan


WORDS = {
    "gpu": "of another GPU",
    "gpu-count": "with another number of GPUs",
    "gpu-memory": "with less GPU memory than this model has",
    "fit": "too small for what runs there",
    "capacity": "sold in another way",
    "sold": "not for sale now",
    "region": "in other regions",
    "volume": "away from its volumes",
    "provider": "at other providers",
    "marketplace": "at strangers' hosts",
    "adapter": "that cannot be ordered here",
    "kind": "where it cannot be this kind",
    "reach": "that cannot be reached as asked",
    "nodes": "with too few nodes",
    "ttl": "with too short a life",
    "registry": "that cannot sign in to the image's registry",
    "secret": "without a reference for a secret",
    "checkpoint": "that cannot keep its checkpoints",
    "mount": "that cannot mount its buckets",
    "disk": "with too small a disk",
    "driver": "with too old a driver for the image",
    "configured": "without credentials",
    "orderable": "that cannot be ordered yet",
    "price-known": "without a known price",
    "price-doubt": "at a suspect price",
    "price-cap": "above the price cap",
    "enabled": "closed to the account",
    "blocked": "refused recently",
}
"""What the offers are that a rule refused, by its name."""


def in_words(plan: Plan, entry: int | None = None) -> str:
    """`12 above the price cap, 3 not for sale now`: the refusals that could have mattered, of one
    choice if given; empty for nothing.
    """
    counts = plan.counted(entry)
    return ", ".join(f"{count:,} {WORDS[rule]}" for rule, count in counts.items())


class Example(NamedTuple):
    """How many offers a rule refused, and one of them in words."""

    rule: str
    offers: int
    wanted: str
    found: str
    offer: Offer

    @property
    def text(self) -> str:
        """`L4: gcp us-central1-a g2-standard-4 L4:1 spot`; what was wanted stands at the head of
        the plan.
        """
        offer = self.offer
        placed = Placement(*offer[:4])
        return (
            f"{self.found}: {offer.provider} {placed.where} {placed.machine}"
            f" {offer.gpu_type}:{offer.gpu_count:g} {offer.capacity}"
        )


def examples(plan: Plan) -> list[Example]:
    """One for each rule that refused something, in the rules' order: of the first choice that it
    refused, and of the GPU that was named.
    """
    gpus = plan.offers.column("gpu_type")
    places = [
        {gpu: place for place, gpu in enumerate(rules.types(entry))} for entry in plan.ask.entries
    ]
    best: dict[int, tuple[int, int, int]] = {}
    for row, (rule, entry) in plan.refused.items():
        key = (entry, places[entry].get(str(gpus[row]), 0), row)
        if rule not in best or key < best[rule]:
            best[rule] = key
    first = {rule: (entry, row) for rule, (entry, _, row) in best.items()}
    out = []
    for name, count in plan.rejected_by_rule.items():
        rule = rules.NAMES.index(name)
        out.append(
            Example(
                name, count, *plan.explain(rule, *first[rule]), plan.offers.offer(first[rule][1])
            )
        )
    return out


CLOSED_SHOWN = 3


def closed_places(plan: Plan) -> list[str]:
    """What the account can't use and how to change that, the places with the cheapest offers first;
    a command is never cut.
    """
    found: dict[str, float] = {}
    for row, (rule, entry) in plan.refused.items():
        if rule == rules.ENABLED:
            price = plan.offers.offer(row).node_micro_usd or float("inf")
            text = plan.explain(rule, entry, row)[1]
            found[text] = min(price, found.get(text, price))
    texts = sorted(found, key=lambda text: (found[text], text))
    return [
        *texts[:CLOSED_SHOWN],
        *([f"and {len(texts) - CLOSED_SHOWN} more places"] if len(texts) > CLOSED_SHOWN else []),
    ]
