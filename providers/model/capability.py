"""What an adapter says it can do. Undeclared is refused when planning. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Capabilities(NamedTuple):
    """`in_place` names the edits that change a running machine without replacing it: of `ttl`,
    `labels`, `ssh_key`, `state` (stop and start), `script` (what it runs at boot); `service` means
    that whatever a service is declared with is redeployed in place.
    """

    provider: str
    kinds: frozenset[str] = frozenset({"machine"})
    capacities: frozenset[str] = frozenset({"on-demand"})
    max_nodes: int = 1
    in_place: frozenset[str] = frozenset()
    live_offers: bool = False
    marketplace: bool = False
    """Its machines are strangers' hosts: bought only where a declaration names this provider, or
    says `marketplaces: true`.
    """
    entrusted_by: str = ""
    """The option that must be true before strangers' hosts get a folder or secrets."""
    sold_types: frozenset[str] = frozenset()
    """Machine type prefixes that the adapter can order; empty means all."""
    blocks: frozenset[str] = frozenset()
    """Machine type prefixes that are sold as a window in the calendar too (capacity `block`)."""
    max_ttl_s: int | None = None
    """The longest life that the cloud gives a machine; None where there is no limit."""
    ssh: bool = True
    """Machines take a public key at their making, and answer ssh."""
    login: bool = False
    """Machines take commands and files from here without ssh, in their provider's own way."""
    maps_ports: bool = False
    """A port inside is another one outside; until a machine shows its map, it has no ports."""
    ends_at_ttl: bool = True
    """A machine ends when its ttl has passed, whatever became of who asked for it: by its cloud, or
    by a timer of its own.
    """
    ends_idle: bool = False
    """A single machine whose GPUs are idle for long ends by a timer of its own; elsewhere a watch
    must look, and can where it answers ssh.
    """
    stoppable: frozenset[str] = frozenset()
    """With `state` in `in_place`: the kinds of capacity whose machines can be stopped and kept;
    empty means all.
    """
    opens_ports: bool = True
    """A machine's ports other than ssh can be reached: from its network, or from everywhere."""

    regions: frozenset[str] = frozenset()
    """Regions that can be asked for besides those that the catalog lists."""
    deduplicates: bool = False
    """The same order sent again makes no second machine: the cloud does one token's work once
    (Compute Engine's `requestId`, EC2's `ClientToken`).

    After a lost answer the same order is then sent once more, and a first request that was only
    late is no second purchase.
    """
    relabels: bool = True
    """A new generation can be written on what runs; else a label tells the first one for ever, and
    only this machine's journal who took it over.
    """
    workload_kinds: frozenset[str] = frozenset()
    """What it can be besides `kinds` where a workload is declared: its machines run that at each
    boot.
    """

    buckets: frozenset[str] = frozenset()
    """Schemes of the stores (`gs`, `s3`) that its machines reach as themselves, where the options
    give them an identity.
    """
    keyed_buckets: frozenset[str] = frozenset()
    """Schemes of the stores that its machines reach with keys among the secrets alone."""
    owned: bool = False
    """Its machines are the user's own: a price of 0 is one that they said, not an unknown one."""
    mounts: frozenset[str] = frozenset()
    """Schemes of the stores whose buckets can be folders of its machines: as themselves where
    `buckets` has the scheme, else with keys among the secrets.
    """
    mounts_read_only: bool = True
    """A bucket can be mounted so that nothing writes to it."""
    passwords: bool = False
    """Its machines sign in to the registry of an image with a password among their secrets."""
    registries: tuple[str, ...] = ()
    """The registries that they sign in to as themselves, as patterns of host names."""
    reserves: tuple[str, ...] = ()
    """The options that reserve CPU and memory, where a price holds only the least that is billed
    without them.
    """
    volumes: bool = False
    """Its jobs and services have volumes of its own: folders that outlive them."""

    def can_be(self, kind: str, *, workload: bool) -> bool:
        """True for a kind of cluster that this provider can be, with a workload declared or
        without.
        """
        return kind in self.kinds or (workload and kind in self.workload_kinds)

    def orders(self, machine_type: str) -> bool:
        """True when the adapter knows how to order this machine type."""
        return not self.sold_types or any(
            machine_type.startswith(prefix) for prefix in self.sold_types
        )
