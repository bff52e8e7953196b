"""The tags of what this engine makes: whose it is, which order made it, the user's labels. Owns
their keys; pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.model.machine import Label, Order
OWNER, CLUSTER, GENERATION, FINGERPRINT = (
    "gpus-owner",
    "gpus-cluster",
    "gpus-generation",
    "gpus-fingerprint",
)
ORDER, LABELS, NAME = "gpus-order", "gpus-labels", "Name"
"""`gpus-order` is the token of the order that made a machine: a fleet's machines do not bear the
fleet's client token. `gpus-labels` names the user's own tags, so that an edit takes away what it no
longer lists and leaves alone what others put there.
"""
BLOCK, BLOCK_ENDS, BLOCK_FEE = "gpus-block", "gpus-block-ends", "gpus-block-micro-usd"
"""Of a machine in a Capacity Block that this product bought: which, and when EC2 ends the machine
(seconds since the epoch). Of the block: what was paid for it.
"""
GROUP = "gpus-group"
"""Of a machine that was ordered before its security group was there: the name of that group."""
_TAG_MAX = 256


def whose(label: Label) -> dict[str, str]:
    """The tags that say whose something is."""
    return {
        OWNER: label.owner,
        CLUSTER: label.cluster,
        GENERATION: label.generation,
        FINGERPRINT: label.fingerprint,
    }


def group_name(owner: str) -> str:
    """The name of an owner's security group: one in each VPC."""
    return f"gpus-{owner}"


def owner_tags(order: Order) -> dict[str, str]:
    """The tags that say whose something is, and which order made it."""
    return {**whose(order.label), ORDER: order.token}


def label_of(tags: Mapping[str, str]) -> Label | None:
    """Whose it is; None for what bears no owner."""
    from providers.model.machine import Label

    if not tags.get(OWNER):
        return None
    return Label(*(tags.get(key, "") for key in (OWNER, CLUSTER, GENERATION, FINGERPRINT)))


def label_tags(labels: Mapping[str, str]) -> dict[str, str]:
    """The user's labels as tags, with the list of their names as far as it fits into one."""
    out = dict(labels)
    listed = ""
    for key in labels:
        longer = f"{listed} {key}".strip()
        if len(longer) > _TAG_MAX:
            break
        listed = longer
    return {**out, LABELS: listed} if labels else out


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as the API takes them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]
