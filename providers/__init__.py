"""Declare the GPUs you want, not where. The public names, and nothing else; each is imported when
first used.

import providers as p
print(p.plan(p.Cluster(name="ft", gpu=p.Gpu("H100", count=8, fallback=["A100-80GB:8"]))))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from providers.adhoc.machine import AsyncMachine
    from providers.adhoc.provision import aprovision, find, provision, release
    from providers.adhoc.sync import Machine
    from providers.api import hardware, offers, plan, size
    from providers.catalog.hardware import Hardware
    from providers.errors import (
        AllFailed,
        Busy,
        CloudError,
        GpusError,
        NotConfigured,
        Problem,
        SpecError,
    )
    from providers.model.listed import OfferRow, Offers
    from providers.model.offer import Candidate, Offer, Rejection
    from providers.model.spec import Cluster, Fallback, Gpu
    from providers.planner.plan import Plan
    from providers.resources import GpuCluster

HOMES = {
    "providers.adhoc.provision": ("aprovision", "find", "provision", "release"),
    "providers.adhoc.machine": ("AsyncMachine",),
    "providers.adhoc.sync": ("Machine",),
    "providers.api": ("hardware", "offers", "plan", "size"),
    "providers.catalog.hardware": ("Hardware",),
    "providers.errors": (
        "AllFailed",
        "Busy",
        "CloudError",
        "GpusError",
        "NotConfigured",
        "Problem",
        "SpecError",
    ),
    "providers.model.listed": ("OfferRow", "Offers"),
    "providers.model.offer": ("Candidate", "Offer", "Rejection"),
    "providers.model.spec": ("Cluster", "Fallback", "Gpu"),
    "providers.planner.plan": ("Plan",),
    "providers.resources": ("GpuCluster",),
}
"""Where each public name lives."""

__all__ = [
    "AllFailed",
    "AsyncMachine",
    "Busy",
    "Candidate",
    "CloudError",
    "Cluster",
    "Fallback",
    "Gpu",
    "GpuCluster",
    "GpusError",
    "Hardware",
    "Machine",
    "NotConfigured",
    "Offer",
    "OfferRow",
    "Offers",
    "Plan",
    "Problem",
    "Rejection",
    "SpecError",
    "aprovision",
    "find",
    "hardware",
    "offers",
    "plan",
    "provision",
    "release",
    "size",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        from importlib.metadata import version

        return version("gpus")
    for home, names in HOMES.items():
        if name in names:
            found: object = getattr(import_module(home), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
