"""What a provider's machines bring to a declared program: the disk that is ordered for it, what
that costs, and whether its driver runs the image.

Owns the joining of `Limits.host` with what the workload needs; the planner asks it for each
place, an order for its own. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from providers.catalog import volumes
from providers.engine.record import DISK
from providers.model.duration import text as duration_text
from providers.model.money import HOURS_PER_MONTH, per_hour

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from providers.adapters.base import Manifest
    from providers.engine.record import ClusterRecord
    from providers.model.ask import Ask, Choice
    from providers.model.host import Host
    from providers.model.machine import Setup

WAIT_STEP_S = 300
WAIT_SPARE = 1.3
"""A `wait` that is proposed has so much more than the estimate, in steps of five minutes."""


class Disk(NamedTuple):
    """The disk that is ordered: of a provider's kind, with the rate in micro-dollars for a GiB and
    month that holds where the catalog has none of the region, and what it costs besides a month.
    """

    provider: str
    kind: str
    size_gib: int
    micro_usd_per_gib: int
    priced_in: str
    micro_usd_per_month: int

    def cost(self, region: str) -> tuple[int, str]:
        """Micro-dollars an hour at a region, and in words with the date of the rate."""
        return _cost(self, region)


@lru_cache(maxsize=4096)
def _cost(disk: Disk, region: str) -> tuple[int, str]:
    listed = volumes.rate(disk.provider, disk.kind, region)
    each = disk.micro_usd_per_gib if listed is None else listed.micro_usd_per_gib
    micro = round((disk.size_gib * each + disk.micro_usd_per_month) / HOURS_PER_MONTH)
    since = f"at the rate of {disk.priced_in}" if listed is None else listed.as_of
    return micro, f"{disk.size_gib:,} GiB {disk.kind} {per_hour(micro)} ({since})"


class Hosted(NamedTuple):
    """What a machine type means for a choice. `disk` and `driver` say why it will not do.

    `disk_gib` is what is ordered (None: the adapter's default), `bought` the disk that is paid for
    (None: the price of the machine holds it).
    """

    disk: str = ""
    driver: str = ""
    disk_gib: int | None = None
    bought: Disk | None = None
    note: str = ""

    def cost(self, region: str) -> tuple[int, str]:
        """What the disk of a node costs an hour at a region, and in words."""
        return (0, "") if self.bought is None else self.bought.cost(region)


def hosting(
    ask: Ask, manifests: Mapping[str, Manifest]
) -> Callable[[Choice, str, str], Hosted | None]:
    """What answers for (choice, provider, machine type); with None where the provider says nothing
    of its machines. Remembers its answers.
    """

    @lru_cache(maxsize=4096)
    def hosted(entry: Choice, provider: str, machine_type: str) -> Hosted | None:
        manifest = manifests.get(provider)
        if manifest is None or manifest.limits.host is None:
            return None
        section = ask.options.get(provider)
        known = manifest.limits.host(
            machine_type,
            section if section is not None and not manifest.check_options(section) else {},
        )
        return None if known is None else _hosted(ask, entry, known, provider)

    return hosted


def with_disk(setup: Setup, found: Hosted | None) -> Setup:
    """The setup of an order with the disk that is ordered there."""
    return setup if found is None else setup._replace(disk_gib=found.disk_gib)


def outgrown(
    ask: Ask, entry: Choice, record: ClusterRecord, manifests: Mapping[str, Manifest]
) -> str:
    """Why a running placement can't take the workload as it is declared now: its GPUs do not hold
    it, or its disk does not; nothing where it can.
    """
    if ask.workload is None:
        return ""
    from providers.workloads.sizing import disk, fit

    running = record.placement
    if why := fit.fit(
        ask.workload,
        entry.override,
        running.gpu_type,
        running.gpu_count,
        1 if entry.replicas else running.nodes,
    ).why:
        return f"{running.gpu} does not hold it: {why}"
    manifest = manifests.get(running.provider)
    known = (
        None
        if manifest is None or manifest.limits.host is None
        else manifest.limits.host(running.machine_type, ask.options.get(running.provider) or {})
    )
    if known is None:
        return ""
    bought = int(dict(record.applied).get(DISK) or known.default_gib)
    need = disk.needed(ask.workload, entry.override)
    least = need.least + known.used_gib if need.least else 0.0
    return (
        f"its disk has {bought} GiB, it takes {least:.0f} GiB ({need.parts(known.used_gib)})"
        if 0 < bought < least
        else ""
    )


def asked(ask: Ask, manifest: Manifest | None) -> Ask:
    """The ask as a market is listed for it: with the least disk that a choice needs of this
    provider's machines, and the image that runs there.
    """
    if manifest is None or manifest.limits.host is None or ask.workload is None:
        return ask
    from providers.workloads.sizing import disk

    section = ask.options.get(manifest.name)
    known = manifest.limits.host(
        "", section if section is not None and not manifest.check_options(section) else {}
    )
    if known is None:
        return ask
    sizes = [_hosted(ask, entry, known, manifest.name).disk_gib for entry in ask.entries]
    least = None if None in sizes else min(size for size in sizes if size is not None)
    return ask._replace(disk_gib=least, image=disk.image(ask.workload))


def _hosted(ask: Ask, entry: Choice, host: Host, provider: str) -> Hosted:
    declared = ask.disk_gib
    if declared is not None and declared < host.image_gib:
        why = f"disk_gib is {declared}, the boot image {host.image} takes {host.image_gib} GiB"
        return Hosted(f"{why}: set disk_gib: {host.default_gib}, or leave it out")
    if declared is not None and 0 < host.most_gib < declared:
        return Hosted(
            f"disk_gib is {declared:,}, the largest {host.disk} has {host.most_gib:,} GiB"
        )
    driver = _driver(ask, host, f"{provider} {host.image}".strip())
    if ask.workload is None:
        return _bought(declared, host, provider)._replace(driver=driver)
    from providers.workloads.sizing import disk as disks

    need = disks.needed(ask.workload, entry.override)
    sized = disks.sized(need, host) if need.known else None
    if (
        declared is not None
        and sized is not None
        and declared < (least := need.least + (host.used_gib if need.least else 0))
    ):
        why = (
            f"disk_gib is {declared}, it takes {least:.0f} GiB ({need.parts(host.used_gib)}): set"
            f" disk_gib: {sized}, or leave it out"
        )
        return Hosted(why, driver)
    size = declared if declared is not None else sized
    if host.most_gib and size is not None and size > host.most_gib:
        return Hosted(
            f"it takes a disk of {size:,} GiB ({need.parts(host.used_gib)}), the largest"
            f" {host.disk} has {host.most_gib:,} GiB",
            driver,
        )
    found = _bought(
        None if size is not None and declared is None and size == host.default_gib else size,
        host,
        provider,
    )
    note = ""
    if ask.kind == "service" and need.weights:
        spent = disks.load_s(need, size or host.default_gib, host)
        if spent > entry.wait_s:
            note = _slow(
                need.weights * disks.GB_IN_GIB,
                disks.rate_mib_s(size or host.default_gib, host),
                spent,
                entry.wait_s,
                host.rate_option,
            )
    return found._replace(driver=driver, note=note)


def _slow(weights_gb: float, rate_mib_s: float, spent_s: float, wait_s: float, option: str) -> str:
    """What there is to know of weights that take longer to load than is waited for. With an
    `option` the rate is the least that it accepts.
    """
    wait = -(-int(spent_s * WAIT_SPARE) // WAIT_STEP_S) * WAIT_STEP_S
    about, rate = (
        ("up to", f"{rate_mib_s:.0f} MiB/s or more")
        if option
        else ("about", f"about {rate_mib_s:.0f} MiB/s")
    )
    took = (
        f"loading takes {about} {duration_text(round(spent_s / 60) * 60)} ({weights_gb:.0f} GB of"
        f" weights at {rate})"
    )
    faster = f", or ask for faster hosts by {option}" if option else ""
    return f"{took}, `wait` is {duration_text(wait_s)}: set wait: {duration_text(wait)}{faster}"


def _driver(ask: Ask, host: Host, where: str) -> str:
    from providers.model import images
    from providers.workloads.sizing import disk

    image = host.container or (disk.image(ask.workload) if ask.workload is not None else "")
    return images.undriven(image, host.driver, where) if image else ""


def _bought(size: int | None, host: Host, provider: str) -> Hosted:
    """A disk of that size with its price. None: the default one."""
    each = host.micro_usd_per_gib_month
    if not host.sized or each is None:
        return Hosted(disk_gib=size if host.sized else None)
    ordered = size or host.default_gib
    more = host.micro_usd_per_month
    return Hosted(
        disk_gib=size, bought=Disk(provider, host.disk, ordered, each, host.priced_in, more)
    )
