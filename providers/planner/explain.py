"""Says why an offer was refused: what its rule wanted and what it found, as texts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.model import duration
from providers.model.ask import RESERVATION
from providers.model.money import per_hour
from providers.model.offer import Unsuited
from providers.model.secret import path_of
from providers.planner import blocklist, rules
from providers.planner.doubt import Doubts

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.model.ask import Ask, Choice
    from providers.model.capability import Capabilities
    from providers.model.offer import Offer
    from providers.model.place import Block
    from providers.planner.rules import Hosting, Terms


def explain(terms: Terms, rule: int, entry: Choice, row: int) -> tuple[str, str]:
    """(wanted, found) of one refusal."""
    offer = terms.table.offer(row)
    wanted, found = _TEXTS[rule](_Refusal(terms, entry, row, offer))
    why = offer.restriction
    own = isinstance(why, Unsuited) and why.rule == rules.NAMES[rule]
    return wanted, why if own else found


class _Refusal(NamedTuple):
    """An offer that one entry does not accept."""

    terms: Terms
    entry: Choice
    row: int
    offer: Offer

    @property
    def ask(self) -> Ask:
        return self.terms.ask

    @property
    def provider(self) -> str:
        return self.offer.provider

    @property
    def skills(self) -> Capabilities | None:
        return self.terms.capabilities.get(self.offer.provider)

    @property
    def host(self) -> Hosting | None:
        hosted = self.terms.hosted
        return (
            None if hosted is None else hosted(self.entry, self.provider, self.offer.machine_type)
        )

    @property
    def block(self) -> Block | None:
        offer = self.offer
        return blocklist.covering(
            self.terms.blocks.get(offer.provider, ()),
            offer.region,
            offer.zone,
            offer.machine_type,
            offer.gpu_type,
            offer.capacity,
        )


def _memory(refusal: _Refusal) -> tuple[str, str]:
    offer = refusal.offer
    return (
        f"{offer.gpu_type} with at least {rules.least_memory_gib(offer.gpu_type):.1f} GiB",
        f"{offer.gpu_memory_gib:.4g} GiB reported",
    )


def _fit(refusal: _Refusal) -> tuple[str, str]:
    wanted, fits, entry = "a place that holds the workload", refusal.terms.fits, refusal.entry
    if fits is None:
        return wanted, ""
    gpu_type = refusal.offer.gpu_type
    found = fits(entry, gpu_type, entry.gpu_count)
    nodes = f" on {entry.span} nodes" if entry.span > 1 else ""
    remedy = f"; {found.remedy}" if found.remedy else ""
    return wanted, f"{gpu_type}:{entry.gpu_count}{nodes}: {found.why}{remedy}"


def _count(refusal: _Refusal) -> tuple[str, str]:
    return (
        f"{refusal.entry.gpu_count} per machine",
        f"{refusal.offer.gpu_count:g} per machine",
    )


def _capacity(refusal: _Refusal) -> tuple[str, str]:
    capacity = refusal.offer.capacity
    named = ", by its name only" if capacity == RESERVATION else ""
    return " or ".join(map(str, refusal.entry.capacity)), f"{capacity}{named}"


def _region(refusal: _Refusal) -> tuple[str, str]:
    skills = refusal.skills
    named = (
        f"; {refusal.provider} has {', '.join(sorted(skills.regions))}"
        if skills is not None and skills.regions
        else ""
    )
    return (
        " or ".join(refusal.ask.regions),
        f"{refusal.offer.region or 'no region named'}{named}",
    )


def _parted(refusal: _Refusal) -> tuple[str, str]:
    parted, offer = refusal.terms.parted, refusal.offer
    return (
        "a place where its volumes can be mounted",
        ""
        if parted is None
        else parted(offer.provider, offer.region, offer.zone, offer.machine_type),
    )


def _kind(refusal: _Refusal) -> tuple[str, str]:
    skills, ask = refusal.skills, refusal.ask
    kinds = " or ".join(sorted(skills.kinds if skills else ()))
    more = (
        " without a workload"
        if ask.workload is None and skills is not None and ask.kind in skills.workload_kinds
        else ""
    )
    return f"a {ask.kind}", f"{refusal.provider} can only be a {kinds}{more}"


def _reach(refusal: _Refusal) -> tuple[str, str]:
    ask, skills, provider, closed = (
        refusal.ask,
        refusal.skills,
        refusal.provider,
        refusal.terms.closed,
    )
    if closed is not None and (
        why := closed(provider, refusal.offer.machine_type, refusal.entry.nodes)
    ):
        return "machines that can be told by login what the workload waits for", why
    if skills is not None and not rules.joined(ask, skills, refusal.entry.nodes):
        return "machines that log into each other by ssh", f"{provider}'s do not"
    if ask.ssh and skills is not None and not skills.ssh:
        return "machines that answer ssh", f"{provider}'s do not"
    if ask.login and skills is not None and not (skills.ssh or skills.login):
        return "machines that take commands from here", f"{provider}'s do not"
    return (
        f"port {', '.join(map(str, ask.ports))} open",
        f"{provider} opens no ports of a machine",
    )


def _nodes(refusal: _Refusal) -> tuple[str, str]:
    skills = refusal.skills
    return (
        f"{refusal.entry.nodes} nodes",
        f"at most {skills.max_nodes if skills else 0} at {refusal.provider}",
    )


def _ttl(refusal: _Refusal) -> tuple[str, str]:
    longest = refusal.skills.max_ttl_s if refusal.skills else None
    return (
        f"a ttl of {duration.text(refusal.entry.ttl_s or 0)}",
        f"a machine lives at most {duration.text(longest or 0)} at {refusal.provider}",
    )


def _secret(refusal: _Refusal) -> tuple[str, str]:
    provider = refusal.provider
    missing = [name for name, able in refusal.ask.secrets if provider not in able]
    return (
        f"a reference for {', '.join(missing)} at {provider}",
        f"none under {path_of(missing[0] if missing else '')}.{provider}",
    )


def _kept(refusal: _Refusal) -> tuple[str, str]:
    skills = refusal.skills
    return (
        "a place that its checkpoints can be kept from",
        rules.why_not_kept(refusal.ask, skills) if skills is not None else "",
    )


def _mount(refusal: _Refusal) -> tuple[str, str]:
    skills = refusal.skills
    return (
        "a place that mounts its buckets",
        rules.unmounted(refusal.ask, skills) if skills is not None else "",
    )


def _registry(refusal: _Refusal) -> tuple[str, str]:
    skills = refusal.skills
    return (
        "a place that signs in to the registry of its image",
        rules.unsigned(refusal.ask, skills) if skills is not None else "",
    )


def _disk(refusal: _Refusal) -> tuple[str, str]:
    host = refusal.host
    return "a disk that holds what runs there", host.disk if host is not None else ""


def _driver(refusal: _Refusal) -> tuple[str, str]:
    host = refusal.host
    return "a driver that runs the image", host.driver if host is not None else ""


def _orderable(refusal: _Refusal) -> tuple[str, str]:
    offer, skills = refusal.offer, refusal.skills
    machine = skills is not None and not skills.orders(offer.machine_type)
    what = offer.machine_type if machine else offer.capacity
    return "what the adapter can order", f"{what} cannot be ordered yet"


def _cap(refusal: _Refusal) -> tuple[str, str]:
    offer, ask = refusal.offer, refusal.ask
    own = rules.Overrides(ask.price_overrides).price(
        offer.provider, offer.region, offer.machine_type, offer.gpu_type, offer.capacity
    )
    node = own if own is not None else rules.known(offer.node_micro_usd, refusal.skills)
    if own is None and node is not None and (host := refusal.host) is not None:
        node += host.cost(offer.region)[0]
    return (
        f"at most {per_hour(ask.max_price_micro_usd)}",
        f"{per_hour(None if node is None else node * refusal.entry.nodes)}, above the cap",
    )


def _enabled(refusal: _Refusal) -> tuple[str, str]:
    block = refusal.block
    return "a place that the account can use", block.reason if block is not None else ""


def _blocked(refusal: _Refusal) -> tuple[str, str]:
    block, now = refusal.block, refusal.terms.now
    rest = (
        f" (left alone for another {duration.text(max(block.until - now, 1))})"
        if block and block.until < float("inf")
        else ""
    )
    return "a place that was not refused lately", f"{block.reason if block else 'refused'}{rest}"


_TEXTS: dict[int, Callable[[_Refusal], tuple[str, str]]] = {
    rules.GPU: lambda r: (rules.asked(r.ask), r.offer.gpu_type),
    rules.GPU_COUNT: _count,
    rules.MEMORY: _memory,
    rules.FIT: _fit,
    rules.CAPACITY: _capacity,
    rules.SOLD: lambda r: (f"{r.offer.capacity} capacity", r.offer.restriction),
    rules.REGION: _region,
    rules.VOLUME: _parted,
    rules.PROVIDER: lambda r: (" or ".join(r.ask.providers), r.provider),
    rules.MARKETPLACE: lambda r: (
        f"{r.provider} under providers, or marketplaces: true",
        f"a stranger's host at {r.provider}",
    ),
    rules.ADAPTER: lambda r: (
        "a provider that can be ordered from",
        f"no adapter for {r.provider} yet",
    ),
    rules.KIND: _kind,
    rules.REACH: _reach,
    rules.NODES: _nodes,
    rules.TTL: _ttl,
    rules.SECRET: _secret,
    rules.CHECKPOINT: _kept,
    rules.MOUNT: _mount,
    rules.REGISTRY: _registry,
    rules.DISK: _disk,
    rules.DRIVER: _driver,
    rules.CONFIGURED: lambda r: (
        f"credentials for {r.provider}",
        r.terms.unavailable.get(r.provider, "none"),
    ),
    rules.ORDERABLE: _orderable,
    rules.PRICE_KNOWN: lambda _: ("a known price", "no price"),
    rules.PRICE_DOUBT: lambda r: (
        "a price that can be true, or accept_suspect_prices: true",
        Doubts(r.terms.table).why(r.row),
    ),
    rules.PRICE_CAP: _cap,
    rules.ENABLED: _enabled,
    rules.BLOCKED: _blocked,
}
"""Rule → its text."""
