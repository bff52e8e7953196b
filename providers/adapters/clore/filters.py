"""Why a host does not pass: the filters of the options, the ask's time and disk,
the driver. Pure.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from providers.adapters.clore.figures import disk_gb, longest_hours, section, server_id
from providers.model import foreign, images
from providers.model.duration import text as duration_text
from providers.model.offer import Unsuited

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from providers.adapters.clore.options import Options

_DRIVER = "driver"


def unfit(server: Mapping[str, object], options: Options) -> str:
    """Why a host does not pass the filters; empty when it does."""
    number_id = server_id(server)
    if number_id in options.exclude_servers:
        return "excluded by exclude_servers"
    if options.include_servers and number_id not in options.include_servers:
        return "not among include_servers"
    specs, rating = section(server, "specs"), section(server, "rating")
    net = section(specs, "net")
    figures: tuple[tuple[str, float, Callable[[], Decimal | None], str], ...] = (
        ("reliability", options.reliability, lambda: foreign.number(server.get("reliability")), ""),
        ("CUDA", options.cuda, lambda: foreign.number(server.get("cuda_version")), ""),
        ("download", options.down_mbps, lambda: foreign.number(net.get("down")), " Mbps"),
        ("upload", options.up_mbps, lambda: foreign.number(net.get("up")), " Mbps"),
        ("disk", options.disk_gb, lambda: disk_gb(specs.get("disk")), " GB"),
        ("RAM", options.ram_gb, lambda: foreign.number(specs.get("ram")), " GB"),
        ("PCIe revision", options.pcie_rev, lambda: foreign.number(specs.get("pcie_rev")), ""),
        ("PCIe width", options.pcie_width, lambda: foreign.number(specs.get("pcie_width")), ""),
        (
            "rating",
            options.rating,
            lambda: (
                foreign.number(rating.get("avg")) if foreign.number(rating.get("cnt")) else None
            ),
            "",
        ),
        ("longest rental", options.min_hours, lambda: foreign.number(server.get("mrl")), " h"),
    )
    for what, least, figure, unit in figures:
        if not least:
            continue
        found = figure()
        if found is None:
            return f"states no {what}, wanted at least {least:g}{unit}"
        if found < Decimal(str(least)):
            return f"{what} {found:f}{unit}, wanted at least {least:g}{unit}"
    return ""


def short(server: Mapping[str, object], ttl_s: int | None, disk_gib: int | None) -> str:
    """Why a host does not last as long, or hold as much, as is asked for; empty when it does."""
    hours = longest_hours(server)
    if ttl_s is not None and hours is not None and hours * 3_600 < ttl_s:
        return Unsuited(
            f"it can be rented for {hours:g} h at most, wanted {duration_text(ttl_s)}", "ttl"
        )
    disk = disk_gb(section(server, "specs").get("disk"))
    if disk_gib is not None and (
        disk is None or disk * 1_000_000_000 < disk_gib * Decimal(1 << 30)
    ):
        return Unsuited(
            f"it has {'an unknown' if disk is None else f'{disk:g} GB of'} disk, wanted"
            f" {disk_gib} GiB",
            "disk",
        )
    return ""


def undriven(server: Mapping[str, object], image: str) -> str:
    """Why a host's driver can't start a container image; empty where it can, or where the image's
    name does not say its CUDA.

    `cuda_version` is the newest CUDA that the driver runs; within a major all do
    (`images.LEAST_DRIVER`).
    """
    wanted, found = images.cuda(image), foreign.number(server.get("cuda_version"))
    if wanted is None:
        return ""
    if found is None:
        return Unsuited(f"states no CUDA, wanted {wanted} for {image}", _DRIVER)
    if found >= wanted.major:
        return ""
    why = f"its driver runs CUDA {found:f} at most, wanted {wanted} for {image}"
    return Unsuited(f"{why}; one with CUDA {int(found)} starts there", _DRIVER)
