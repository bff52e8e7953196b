"""EC2's Spot placement scores: how likely a region has room. Owns the question and its answer.

GetSpotPlacementScores reads, and needs the right of its name. It gives 1 to 10, always low where
fewer than three machine types are named: only regions of one type are compared. EC2 may limit how
many new questions a day takes ("Spot placement score", its user guide, 2026-11). Shapes: botocore
1.44.8's model of `ec2`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from providers.adapters.aws.errors import Context
from providers.model.advice import Advice, Kind, kind
from providers.model.ask import SPOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.adapters.aws.client import Client
    from providers.model.advice import Question
    from providers.model.offer import Offer

REGIONS = 10
"""So many regions are named in a question, and told in an answer."""
BEST = 10


def questions(
    client: Callable[[], Client], regions: tuple[str, ...], offers: Sequence[Offer], nodes: int
) -> list[Question]:
    """One question for each machine type, for its first regions; Spot alone. `regions` limits them;
    empty means any.
    """
    found: dict[tuple[str, str], dict[str, Kind]] = {}
    for offer in offers:
        if offer.capacity == SPOT and (not regions or offer.region in regions):
            mine = found.setdefault((offer.machine_type, offer.gpu_type), {})
            if len(mine) < REGIONS:
                mine[offer.region] = kind(offer)
    return [
        partial(_asked, client, machine_type, about, nodes)
        for (machine_type, _), about in found.items()
    ]


def _asked(
    client: Callable[[], Client], machine_type: str, about: Mapping[str, Kind], nodes: int
) -> Mapping[Kind, Advice]:
    answer = client().call(
        "get_spot_placement_scores",
        Context(f"aws: asking for placement scores of {machine_type}"),
        InstanceTypes=[machine_type],
        TargetCapacity=nodes,
        SingleAvailabilityZone=False,
        RegionNames=sorted(about),
    )
    return {
        about[region]: Advice(score / BEST, f"placement score {score} of {BEST}")
        for each in answer.get("SpotPlacementScores") or ()
        if (region := str(each.get("Region"))) in about
        and isinstance(score := each.get("Score"), int)
        and 1 <= score <= BEST
    }
