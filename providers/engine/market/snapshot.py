"""The market as it is known now, and the plan of an ask over it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine.market.host_fit import hosting
from providers.engine.market.mounting import parted
from providers.model.note import Stops
from providers.model.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from providers.adapters.base import Manifest
    from providers.catalog.table import OfferTable
    from providers.model.advice import Advice, Kind
    from providers.model.ask import Ask, Choice
    from providers.model.capability import Capabilities
    from providers.model.machine import Setup
    from providers.model.offer import Candidate
    from providers.model.place import Block
    from providers.planner.expected import Tried
    from providers.planner.plan import Plan
    from providers.workloads.sizing.fit import Fit


class Market(NamedTuple):
    """What is for sale as far as this moment knows. `unavailable` is provider -> why it is not
    configured.
    """

    table: OfferTable
    capabilities: Mapping[str, Capabilities]
    unavailable: Mapping[str, str]
    notes: Mapping[str, Callable[[Candidate, Setup], Sequence[str]]] = {}
    """Provider -> what its adapter has to say about a candidate."""
    manifests: Mapping[str, Manifest] = {}
    """Provider -> its manifest, which says what its machines boot from."""
    silent: Mapping[str, str] = {}
    """Provider -> why it is not known what it sells now."""
    closed: Sequence[Block] = ()
    """What the accounts cannot use until somebody changes them."""
    tried: Tried | None = None
    """What the user's own tries say of places; None where there were none."""
    advice: Mapping[Kind, Advice] = {}
    """What clouds say of how likely they have room."""

    def plan(
        self, ask: Ask, blocks: Iterable[Block] = (), now: float = 0.0, setup: Setup | None = None
    ) -> Plan:
        """The plan of an ask over this market. `setup` is what its notes depend on (none: the
        defaults). Pure.
        """
        from providers.model.machine import Setup
        from providers.planner.plan import make

        known = setup or Setup()

        fits, hosted = fitting(ask), hosting(ask, self.manifests)

        def noted(candidate: Candidate) -> Sequence[str]:
            note = self.notes.get(candidate.provider)
            lines = list(note(candidate, known)) if note is not None else []
            if fits is not None:
                found = fits(ask.entries[candidate.entry], candidate.gpu_type, candidate.gpu_count)
                lines += [found.note] if found.note else []
                if found.job_hours is not None and candidate.micro_usd is not None:
                    lines.append(
                        f"the run: about {found.job_hours:,.1f} h,"
                        f" ${found.job_hours * candidate.micro_usd / 1e6:,.2f}"
                    )
            host = hosted(ask.entries[candidate.entry], candidate.provider, candidate.machine_type)
            lines += [host.note] if host is not None and host.note else []
            lines += between(candidate, self.manifests.get(candidate.provider), known)
            able = self.capabilities.get(candidate.provider)
            if able is not None:
                lines += (
                    _workload_notes(ask, known, candidate, able) if ask.workload is not None else ()
                )
                lines += _idle_notes(candidate, able) if known.idle_s else ()
            return lines

        return make(
            ask,
            with_warnings(self, _unchecked(ask)).table,
            self.capabilities,
            unavailable=self.unavailable,
            blocks=(*self.closed, *blocks),
            now=now,
            noted=noted,
            fits=fits,
            closed=why_unreachable(ask, known),
            hosted=hosted,
            parted=parted(ask, self.manifests),
            tried=self.tried,
            advice=self.advice,
        )


def between(candidate: Candidate, manifest: Manifest | None, setup: Setup) -> Sequence[str]:
    """What carries the data between several machines of a place; nothing for one
    alone, or where each works for itself.
    """
    if candidate.nodes < 2 or setup.apart or manifest is None or manifest.limits.fabric is None:
        return ()
    from providers.model.fabric import between_nodes

    section = dict(setup.options).get(candidate.provider)
    options = tuple(sorted(section.items())) if isinstance(section, dict) else ()
    own = setup._replace(options=options)
    return (between_nodes(manifest.limits.fabric(candidate.placement, own)),)


def why_unreachable(ask: Ask, setup: Setup) -> Callable[[str, str, int], str] | None:
    """What says why machines of (provider, machine type, nodes) can't be told by login what their
    workload waits for, its folder among that, or take no proxy; None where none is needed. Pure.
    """
    from providers.adapters import registry
    from providers.engine.setup import takes_proxy

    token = setup.expose == "token" and ask.kind == "service"
    folder = bool(setup.workdir)
    told = token or folder or setup.gated
    several = ask.replicated or any(entry.nodes > 1 for entry in ask.entries)
    if ask.workload is None or not (told or several):
        return None
    manifests = registry.manifests()
    sections = dict(setup.options)

    def why(provider: str, machine_type: str, nodes: int) -> str:
        manifest = manifests.get(provider)
        if ask.replicated and manifest is not None and not takes_proxy(manifest):
            return f"{provider} takes no proxy, which replicas need"
        own = (
            manifest is not None
            and ask.kind in manifest.capabilities.kinds
            and ask.kind != "machine"
        )
        able = None if manifest is None else manifest.capabilities
        if folder and able is not None and not (able.ssh or able.owned):
            return f"{provider} takes no key of the cluster's, by which its workdir is sent"
        if (
            manifest is None
            or own
            or manifest.limits.unreachable is None
            or not (told or nodes > 1)
        ):
            return ""  # a function is told by its provider
        section = sections.get(provider)
        options = tuple(sorted(section.items())) if isinstance(section, dict) else ()
        place = Placement(provider, machine_type=machine_type, nodes=nodes)
        return manifest.limits.unreachable(place, setup._replace(options=options))

    return why


def fitting(ask: Ask) -> Callable[[Choice, str, int], Fit] | None:
    """What judges a GPU type and a count for an entry of this ask; None where nothing is declared
    to run. Pure.
    """
    workload = ask.workload
    if workload is None:
        return None
    from providers.workloads.sizing.fit import fit

    return lambda entry, gpu_type, count: fit(workload, entry.override, gpu_type, count, entry.span)


def _workload_notes(
    ask: Ask, setup: Setup, candidate: Candidate, able: Capabilities
) -> Sequence[str]:
    from providers.engine.market.notes import notes

    return notes(ask, setup, candidate, able)


def _unchecked(ask: Ask) -> tuple[str, ...]:
    """Why it can't be said whether a place holds what is to run, in lines."""
    if ask.workload is None:
        return ()
    from providers.workloads.sizing.fit import unchecked

    return unchecked(ask.workload, [entry.override for entry in ask.entries])


def _idle_notes(candidate: Candidate, able: Capabilities) -> tuple[str, ...]:
    """What of `idle_after` somebody else must do at this place, or nobody does."""
    if able.ends_idle and candidate.nodes == 1:
        return ()
    if not able.ssh:
        return (Stops("idle_after does nothing here: nobody can measure its GPUs from outside"),)
    return (Stops("idle_after needs `gpus watch` here: no timer of its own ends it"),)


def with_warnings(seen: Market, lines: Iterable[str]) -> Market:
    """The same market with more lines for the user."""
    return seen._replace(table=seen.table.noting(lines))
