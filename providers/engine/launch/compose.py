"""The next order of a walk: which of the leading candidates one call can ask for, and what is
started on them. Calls no cloud.
"""

from __future__ import annotations

import uuid
from itertools import islice
from typing import TYPE_CHECKING

from providers.engine.market.host_fit import hosting, with_disk
from providers.engine.setup import start, started
from providers.model.machine import Order
from providers.model.secret import narrowed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adapters.base import Manifest
    from providers.adapters.guard import Cloud
    from providers.engine.desired import ClusterSpec
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle, Label, Setup
    from providers.model.offer import Candidate

AT_ONCE = 100
"""No creating call chooses among more candidates (EC2's fleets among 50, see `aws.grouping`)."""


def compose(
    world: World,
    spec: ClusterSpec,
    label: Label,
    adapter: Cloud,
    pending: Sequence[Candidate],
    joins: tuple[Handle, ...],
) -> Order:
    """An order of as many of the leading candidates as the cloud can choose among by itself, all of
    one provider and one set of terms.
    """
    head = pending[0]
    section = _options(spec, head.provider)
    manifest = world.manifests.get(head.provider)
    group = _same_terms(spec, pending)
    if spec.setup.volumes:
        # A disk is attached by a call for one machine type in its zone.
        group = group[:1]
    elif manifest is not None and manifest.limits.together is not None:
        group = group[: max(1, manifest.limits.together(tuple(group), section))]
    size = min(max(1, adapter.group(tuple(group))), len(group))
    token = str(uuid.uuid4())
    entry = spec.ask.entries[head.entry]
    return Order(
        label,
        token,
        tuple(group[:size]),
        tuple(f"{spec.cluster}-{token[:8]}-{index}" for index in range(head.nodes)),
        _setup(world, spec, head, manifest, section),
        entry.wait_s,
        spec.ask.max_price_micro_usd,
        joins,
        world.clock.now(),
    )


def _same_terms(spec: ClusterSpec, pending: Sequence[Candidate]) -> list[Candidate]:
    """The leading candidates of one provider that differ in place only."""

    def terms(candidate: Candidate) -> tuple[object, ...]:
        entry = spec.ask.entries[candidate.entry]
        return (
            candidate.provider,
            entry.wait_s,
            entry.ttl_s,
            entry.override,
            candidate.nodes,
            candidate.gpu_count,
        )

    head = terms(pending[0])
    group: list[Candidate] = []
    for candidate in islice(pending, AT_ONCE):
        if terms(candidate) != head:
            break
        group.append(candidate)
    return group


def _options(spec: ClusterSpec, provider: str) -> dict[str, object]:
    """A spec has a section of options for each provider; an order has only its own provider's."""
    found = dict(spec.setup.options).get(provider)
    return found if isinstance(found, dict) else {}


def _setup(
    world: World,
    spec: ClusterSpec,
    head: Candidate,
    manifest: Manifest | None,
    section: dict[str, object],
) -> Setup:
    ask, entry = spec.ask, spec.ask.entries[head.entry]
    setup = spec.setup if entry.ttl_s is None else spec.setup._replace(ttl_s=entry.ttl_s)
    host = hosting(ask, world.manifests)(entry, head.provider, head.machine_type)
    setup = with_disk(setup, host)
    plan = start(
        ask,
        entry,
        head.gpu_type,
        head.gpu_count,
        setup.expose,
        manifest,
        section,
        gated=setup.gated,
    )
    setup = setup._replace(
        options=tuple(sorted(section.items())),
        secrets=narrowed(setup.secrets, head.provider),
    )
    return started(setup, plan)
