"""What an order finds in its region: image, subnets, reservation, placement group. Owns these
records; pure.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.aws.options import NONE
from providers.adapters.aws.options import read as read_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.adapters.aws.options import Options
    from providers.model.machine import Order


class Image(NamedTuple):
    """What the machine boots from. `device` is the root device's name, which differs between
    images; `least_gib` the snapshot's size.
    """

    id: str
    device: str = "/dev/sda1"
    least_gib: int = 1


class Reservation(NamedTuple):
    """A Capacity Reservation or Capacity Block that the user owns, as EC2 describes it."""

    id: str
    machine_type: str
    zone: str
    block: bool = False


class Around(NamedTuple):
    """What was found in the region beforehand. `zones` are the ids of those that the account has
    enabled (empty: not known), `subnets` the default ones by zone id; `zone_names` is empty where
    the client's API model takes zone ids, else this account's names by id. `groups` is empty where
    the owner's security group is not there yet. `placement_group` is that of the machines which the
    order joins. `sold_in` are the zones in which EC2 has the type of an order whose zone it may
    choose; empty for any other.
    """

    image: Image
    groups: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    subnets: tuple[tuple[str, str], ...] = ()
    zone_names: tuple[tuple[str, str], ...] = ()
    reservation: Reservation | None = None
    placement_group: str = ""
    sold_in: tuple[str, ...] = ()


def options_of(order: Order) -> Options:
    """The order's own options."""
    return read_options(dict(order.setup.options))


def template_name(order: Order, data: Mapping[str, Any]) -> str:
    """The name of a launch template: the same for the same cluster and content, so that orders of
    one launch share it, and that a repeated call says exactly the same.
    """
    text = json.dumps([*order.label[:2], data], sort_keys=True)
    return f"gpus-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def placement_group(order: Order) -> tuple[str, bool]:
    """(name, whether it is ours to make) of the placement group; ("", False) for none. Several
    nodes get one of their own unless told otherwise.
    """
    chosen = options_of(order).placement_group
    if chosen == NONE:
        return "", False
    if chosen:
        return chosen, False
    # What joins others goes into their group, which is looked up at the machines themselves.
    return (
        (f"gpus-{order.token}", True)
        if len(order.node_names) > 1 and not order.joins and not order.setup.apart
        else ("", False)
    )


def subnet_of(zone: str, options: Options, around: Around) -> str:
    """The zone's subnet: the user's, else the default one; empty without any."""
    return options.subnet(zone) or dict(around.subnets).get(zone, "")
