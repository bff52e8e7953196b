"""What a volume costs a month, by the bundled prices. Owns the reading of `data/volumes.csv`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from providers.catalog.offers import lines
from providers.model.money import dollars

if TYPE_CHECKING:
    from providers.model.volume import VolumeSpec


class VolumePrice(NamedTuple):
    """Micro-dollars for a GiB and month beyond `free_gib`; as of which day, and by which source."""

    micro_usd_per_gib: int
    free_gib: int
    as_of: str
    source: str

    def per_month(self, size_gib: int) -> int | None:
        """Micro-dollars a month for so many GiB; None where the size is not known beforehand."""
        return max(0, size_gib - self.free_gib) * self.micro_usd_per_gib if size_gib else None


@cache
def _prices() -> dict[tuple[str, str, str], VolumePrice]:
    sources = {source: (as_of, text) for source, as_of, text in lines("sources.csv")}
    return {
        (provider, kind, region): VolumePrice(int(micro), int(free), *sources[source])
        for provider, kind, region, micro, free, source in lines("volumes.csv")
    }


def price(spec: VolumeSpec) -> VolumePrice | None:
    """The price of such a volume; None where no source has one."""
    return rate(spec.provider, spec.type, spec.region)


def rate(provider: str, kind: str, region: str) -> VolumePrice | None:
    """The price of a GiB of this kind of disk at a region; None where no source has one."""
    return _prices().get((provider, kind, region))


def row(provider: str, kind: str, region: str) -> str:
    """The bundled row of that price; empty where there is none."""
    return next(
        (
            ",".join(fields)
            for fields in lines("volumes.csv")
            if fields[:3] == [provider, kind, region]
        ),
        "",
    )


def words(spec: VolumeSpec) -> str:
    """`$50.00/month (as of 2025-03-06, ...)`; `price unknown` where no source has one."""
    found = price(spec)
    if found is None:
        return "price unknown"
    total = found.per_month(spec.size_gib)
    what = (
        f"{dollars(total)}/month"
        if total is not None
        else f"size unknown, ${found.micro_usd_per_gib / 1e6:.2f} a GiB and month of what is stored"
        + (f" beyond {found.free_gib:,} GiB" if found.free_gib else "")
    )
    return f"{what} (as of {found.as_of}, {found.source})"
