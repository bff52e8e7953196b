"""Clore.ai, a marketplace of strangers' GPU servers. Owns the manifest; imports no HTTP client:
`adapter` does, when a call is about to be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.base import Credentials, Limits, Manifest, Programs
from providers.errors import Problem
from providers.model.capability import Capabilities
from providers.model.host import Host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.adapters.base import Adapter
    from providers.model.machine import Setup
    from providers.model.placement import Placement
    from providers.model.workload import Program
    from providers.model.worlds import RehearsedCloud

NAME = "clore"

TRUST = "trust_marketplace"
CAPABILITIES = Capabilities(
    provider=NAME,
    kinds=frozenset({"machine"}),
    workload_kinds=frozenset({"job", "service"}),
    capacities=frozenset({"on-demand", "spot"}),
    # Servers of several hosts share no network: they cannot be joined.
    max_nodes=1,
    # Neither is kept by the market: labels stand only in the stack's state, and a ttl is what the
    # longest rental must cover.
    in_place=frozenset({"labels", "ttl"}),
    live_offers=True,
    marketplace=True,
    entrusted_by=TRUST,
    sold_types=frozenset({"server-"}),
    maps_ports=True,
    keyed_buckets=frozenset({"s3"}),
    ends_at_ttl=False,
)


def connect(
    world: str, config: Mapping[str, str], rehearsed: RehearsedCloud | None = None
) -> Adapter:
    """The adapter. Config keys: every option of `options.clore`, as text; the key comes from
    CLORE_API_KEY only, since settings stand in states.

    In a rehearsal `rehearsed` is its server. Live, no key is needed to list
    offers: `not_configured` of the adapter says when one is missing for buying. Raises SpecError
    for a filter that cannot be read. No calls.
    """
    from providers.adapters.clore.worlds import connect as opened

    return opened(world, config, rehearsed)


def check_options(section: Mapping[str, object]) -> Sequence[Problem]:
    """Every problem of a spec's `options.clore`, with paths relative to it. Pure."""
    from providers.adapters.clore.options import problems

    return problems(section)


def unreachable(_placed: Placement, setup: Setup) -> str:
    """An order takes one key (clore.ai, create_order, read 2026-11-27): with the user's there is no
    room for another.
    """
    return "Clore takes one key, and that is your ssh_key" if setup.ssh_public_key else ""


def runs(
    program: Program, script: str, _kind: str, section: Mapping[str, object]
) -> Mapping[str, object]:
    """The section with the program's image and its start-up script as the container's command.
    Pure.
    """
    from providers.adapters.clore.options import running

    return running(program, script, section)


def fits(kind: str, section: Mapping[str, object], setup: Setup) -> Sequence[Problem]:
    """A host has no identity to fetch a secret with: its owner would be handed the value, and may
    read the folder of `workdir`, which only the user can allow. Pure.
    """
    from providers.model.secret import providers_of

    if str(section.get(TRUST, "")).lower() == "true":
        return ()
    handed = {
        "secrets": NAME in providers_of(setup.secrets),
        "folder (workdir)": bool(setup.workdir),
    }
    return [
        Problem(
            TRUST,
            f"no {what} on a stranger's machine, unless it is trusted",
            "not trusted",
            f"true hands the {kind}'s {what} to whoever owns the host",
        )
        for what, is_declared in handed.items()
        if is_declared
    ]


def reference(text: str) -> str:
    """The variable of this machine's environment that holds the value when the order is sent; it
    stands in no state.
    """
    import re

    return (
        ""
        if re.match(r"^env:[A-Za-z_][A-Za-z0-9_]{0,127}\Z", text)
        else 'a variable of the environment that runs pulumi, as in "env:HF_TOKEN"'
    )


def host_of(_machine_type: str, section: Mapping[str, object]) -> Host:
    """Its disk is the server's own, which the market lists and its price holds. An image comes at
    the least speed that the filter asks for.
    """
    from providers.adapters.clore.options import Options, read
    from providers.errors import SpecError

    try:
        chosen = read(section)
    except SpecError:
        chosen = Options()
    return Host(
        disk="the server's own",
        write_mib_s=chosen.down_mbps * 1e6 / 8 / 2**20,
        rate_option="options.clore.down_mbps",
        container=chosen.image if "image" in section else "",
    )


SETTINGS = (
    *(
        "reliability",
        "cuda",
        "down_mbps",
        "up_mbps",
        "disk_gb",
        "ram_gb",
        "pcie_rev",
        "pcie_width",
        "rating",
        "min_hours",
        "include_servers",
    ),
    *("exclude_servers", "pay_with", "max_bid_usd_per_hour", "start_deadline", "claimed_orders"),
)
"""The options that a stack's configuration may set for all its clusters: who is good enough, and
how to pay.
"""

MANIFEST = Manifest(
    name=NAME,
    capabilities=CAPABILITIES,
    connect=connect,
    check_options=check_options,
    credentials=Credentials(environment=("CLORE_API_KEY",), settings=SETTINGS, reference=reference),
    limits=Limits(unreachable=unreachable, fits=fits, host=host_of),
    programs=Programs(
        runs=runs,
        options={"command": "command", "image": "image", "env": "env"},
        bare=frozenset({"image", "env"}),
    ),
)
