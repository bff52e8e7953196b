"""`Ownership`, the one of a stack, before any cluster or volume of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pulumi

from providers.model.worlds import REHEARSAL
from providers.resources.config import max_spend_of
from providers.resources.program import end_quietly, end_with, made_once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.resources.network import ManagedNetwork


class Ownership(pulumi.CustomResource):
    """The stack's own label on everything it makes. `owner_id` is random, made once; deleting it
    settles and removes all that bears it.

    `max_spend` is the most that its clusters and volumes together may spend in a calendar month
    (UTC), US dollars: it counts what they do.
    """

    owner_id: pulumi.Output[str]
    world: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        world: str = REHEARSAL,
        settings: Mapping[str, Mapping[str, str]] | None = None,
        max_spend: float | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        self.limit_usd = (
            max_spend  # under a name of its own: what is named as an input becomes an Output
        )
        props = {
            "world": world,
            "settings": dict(settings or {}),
            "max_spend": max_spend,
            "owner_id": None,
        }
        super().__init__("gpu:index:Ownership", name, props, delete_first(opts))


def delete_first(opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions:
    """The options, with delete before replace: Diff's own flag is not asked under `--replace` and
    taint, and an adopted machine would then be deleted after the new one was made of it.
    """
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(delete_before_replace=True))


def one_ownership(
    world: str, settings: Mapping[str, Mapping[str, str]], networks: Sequence[ManagedNetwork] = ()
) -> Ownership:
    """The stack's Ownership, made on first use. Ends the program for a second world."""
    made = made_once()
    if "ownership" not in made:
        end_quietly()
        # Made after the networks, so that it goes before them: what it finds and deletes may still
        # use one.
        opts = pulumi.ResourceOptions(depends_on=list(networks))
        made["world"], made["ownership"] = (
            world,
            Ownership(
                "ownership", world=world, settings=settings, max_spend=max_spend_of(), opts=opts
            ),
        )
    if made["world"] != world:
        end_with(
            f"world: wanted one world for all clusters of a stack, found {made['world']} and"
            f" {world}; make a stack for each"
        )
    return cast("Ownership", made["ownership"])
