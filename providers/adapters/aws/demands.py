"""What an order demands of EC2 beyond a machine, such as EFA or an idle timer, and whether EC2 has
a way to do it. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.aws import machines, optin
from providers.adapters.aws.options import read as read_options
from providers.adapters.aws.region_facts import Around, options_of, subnet_of
from providers.errors import NotEnabled, Unsupported
from providers.model.ask import SPOT
from providers.model.fabric import Fabric
from providers.model.place import Scope

if TYPE_CHECKING:
    from providers.adapters.aws.options import Options
    from providers.model.machine import Order, Setup
    from providers.model.offer import Candidate
    from providers.model.placement import Placement


def timed_idle(order: Order) -> bool:
    """Whether the machine ends itself when it is idle. One of several does not: it cannot see
    whether the others work.
    """
    return bool(order.setup.idle_s) and not several(order)


def unreachable(placed: Placement, setup: Setup) -> str:
    """Why nothing here can log in, by what was declared; empty where one can. Pure."""
    options = read_options(dict(setup.options))
    many = len(machines.efa_cards(placed.machine_type)) > 1
    efa = placed.nodes > 1 and not setup.apart if options.efa is None else options.efa
    return (
        "EC2 gives no public address to a machine with several network cards"
        if many and efa and placed.nodes > 1
        else ""
    )


def fabric(placed: Placement, setup: Setup) -> Fabric | None:
    """EFA between the nodes of a placement; None where the type has none. Pure.

    The default image brings the driver, libfabric and NCCL's plugin (AWS DLAMI release notes, base
    image for Ubuntu 22.04, 2026-07-27: `efa_version`, `ofi_nccl_version`).
    """
    if placed.nodes < 2 or not machines.efa_cards(placed.machine_type):
        return None
    options = read_options(dict(setup.options))
    return Fabric(
        "EFA",
        machines.EFA_GBIT_S.get(placed.machine_type, 0),
        "options.aws.efa is false" if options.efa is False else "",
        "EFA's driver and aws-ofi-nccl" if options.ami or options.ami_ssm_parameter else "",
    )


def wants_efa(order: Order, candidate: Candidate, options: Options) -> bool:
    """Whether the machines get EFA: as told, else where there are several nodes and the type takes
    it.
    """
    if options.efa is not None:
        return options.efa
    linked = several(order) and not order.setup.apart
    return linked and bool(machines.efa_cards(candidate.machine_type))


def several(order: Order) -> bool:
    """Whether what is ordered is one of several machines of a cluster."""
    return len(order.node_names) + len(order.joins) > 1


def needs_subnet(order: Order) -> bool:
    """Whether the call must name a subnet: one that spells out its network interfaces must."""
    options = options_of(order)
    return any(wants_efa(order, candidate, options) for candidate in order.candidates)


def check_demands(order: Order, candidate: Candidate, options: Options, around: Around) -> None:
    """Raises Unsupported or NotEnabled where EC2 has no way to make what is ordered."""

    def refuse(wanted: str, found: str, todo: str, scope: Scope) -> Unsupported:
        text = (
            f"aws {candidate.zone or candidate.region} {candidate.machine_type}"
            f" {candidate.capacity}: wanted {wanted}, found {found}; {todo}"
        )
        # Not remembered: another spec may well fit here.
        return Unsupported(text, provider="aws", block_s=0.0, scopes=[scope])

    kind = Scope("aws", machine_type=candidate.machine_type)
    here = Scope("aws", candidate.region, candidate.zone)
    if (
        candidate.capacity == SPOT
        and (order.setup.ttl_s or order.setup.idle_s)
        and order.setup.on_ttl == "keep"
    ):
        # A one-time Spot request can't be stopped; a persistent one would start a new, unlabelled
        # machine by itself.
        raise refuse(
            "on_ttl: release, since a one-time Spot machine can only end",
            "on_ttl: keep",
            "change on_ttl",
            Scope("aws", capacity=SPOT),
        )
    if order.setup.secrets and not options.instance_profile:
        raise refuse(
            "an instance profile that may read the secrets",
            "none",
            "set options.aws.instance_profile",
            Scope("aws"),
        )
    if machines.family(candidate.machine_type) in machines.PROPRIETARY_DRIVER and not (
        options.ami or options.ami_ssm_parameter
    ):
        raise refuse(
            "an image with NVIDIA's proprietary driver",
            "the default one, with the open driver",
            "set options.aws.ami",
            kind,
        )
    if wants_efa(order, candidate, options) and not machines.efa_cards(candidate.machine_type):
        raise refuse("a type with EFA", candidate.machine_type, "drop options.aws.efa", kind)
    if around.zones and candidate.zone and candidate.zone not in around.zones:
        text = (
            f"aws {candidate.zone} {candidate.machine_type} {candidate.capacity}: wanted a zone"
            " that the account has, found it is not enabled"
        )
        todo = (
            optin.closed(candidate.region, candidate.zone)
            or "it can't be enabled: it is not among this account's zones"
        )
        raise NotEnabled(f"{text}; {todo}", provider="aws", code="ZONE_NOT_ENABLED", scopes=[here])
    if options.subnets and candidate.zone and not options.subnet(candidate.zone):
        raise refuse(
            "a subnet in this zone",
            "none in options.aws.subnets",
            "add one, or leave the zone out",
            here,
        )
    if wants_efa(order, candidate, options) and not subnet_of(candidate.zone, options, around):
        raise refuse("a default subnet in this zone", "none", "set options.aws.subnets", here)
