"""The plan invoke: the table that a preview shows, against what runs now.

Owns what this process remembers of each cluster (its checked ask, what it runs, what the preview does to it), since the invoke comes after the
cluster's own check and diff in the same process. Buys nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.model.money import per_hour, usd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.engine.records import Held
    from providers.model.ask import Ask
    from providers.model.machine import Setup
    from providers.planner.plan import Plan

WIDTH = 96
"""What the engine's display leaves free of 100 columns (tried with CLI 3.276)."""
CREATE, KEEP, UPDATE, REPLACE, RECLAIM = "create", "keep", "update", "replace", "reclaim"


class Seen(NamedTuple):
    """What is known of one cluster, by URN. `ask` is None while the GPU is not known. `reason` says why it is replaced."""

    ask: Ask | None = None
    held: Held | None = None
    action: str = CREATE
    reason: str = ""
    setup: Setup | None = None


def answer(arguments: Mapping[str, Any], seen: Seen | None) -> dict[str, Any]:
    """The invoke's result: `text` and the figures. Reads the catalog, the journal and live listings; raises SpecError for a bad declaration."""
    from providers.engine import planning
    from providers.planner.render import Running, change_line
    from providers.plugin import inputs

    world = str(arguments.get("world", ""))
    name = str(arguments.get("cluster") or "cluster")
    ask, setup = (seen.ask, seen.setup) if seen is not None else (None, None)
    if ask is None:
        fields = {key: value for key, value in arguments.items() if key not in ("urn", "running_usd_per_hour")}
        spec = inputs.spec_of({"cluster": name, **fields})
        ask, setup = spec.ask(), spec.setup()
    plan = planning.plan(ask, world=world, settings=inputs.settings_of(arguments), setup=setup)
    seen = seen if seen is not None else _standalone(arguments)
    held = seen.held
    running = Running(held.micro_usd, what(held)) if held is not None and held.provider else Running(_given(arguments), "")
    best = plan.best
    if seen.action in (KEEP, UPDATE, RECLAIM) and held is not None and held.provider:
        text = plan.as_text(WIDTH, title=name)
        change = _stays(plan, held, seen.action, running.what)
        text += f"\n{_fact('change', change)}"
    else:
        text = plan.as_text(WIDTH, title=name, running=running)
        change = change_line(running.micro_usd, None if best is None else best.micro_usd, running.what)
    if (switched := switch_line(seen)) and seen.action != REPLACE:
        text += f"\n{_fact('state', switched)}"
    if seen.action == REPLACE:
        text += f"\n{_fact('replaced', f'{seen.reason}; the old one goes first, and its capacity may not come back')}"
    out: dict[str, Any] = {"text": text, "candidates": len(plan.candidates), "change": change, "warnings": list(plan.warnings)}
    if best is not None:
        out["chosen"] = {
            "provider": best.provider,
            "region": best.region,
            "zone": best.zone,
            "machine_type": best.machine_type,
            "gpu_type": best.gpu_type,
            "gpu_count": best.gpu_count,
            "nodes": best.nodes,
            "capacity": best.capacity,
        }
        if best.price_usd_per_hour is not None:
            out["price_usd_per_hour"] = best.price_usd_per_hour
    if plan.worst_micro_usd is not None:
        out["worst_usd_per_hour"] = usd(plan.worst_micro_usd)
    return out


def what(held: Held) -> str:
    """`gcp us-central1-a a3-highgpu-8g H100:8 spot`."""
    machine = f"{held.nodes} x {held.machine_type}" if held.nodes > 1 else held.machine_type
    return " ".join(part for part in (held.provider, held.zone or held.region, machine, f"{held.gpu_type}:{held.gpu_count}", held.capacity) if part)


def _stays(plan: Plan, held: Held, action: str, runs: str) -> str:
    """The change where what runs stays. Only a service may cost something else afterwards: how many containers it may have is declared anew."""
    if action == RECLAIM:
        return reclaim_line(plan, held)
    own = (candidate for candidate in plan.candidates if (candidate.provider, candidate.gpu_type) == (held.provider, held.gpu_type))
    new = next((candidate.micro_usd for candidate in own), None)
    if held.kind == "service" and new is not None and held.micro_usd is not None and new != held.micro_usd:
        from providers.planner.render import change_line

        return f"{change_line(held.micro_usd, new, runs)}; it is deployed anew in place"
    return f"none: {runs} stays, at {per_hour(held.micro_usd)} since its launch"


def reclaim_line(plan: Plan, held: Held) -> str:
    """What a reclaim comes to: the preferred choice first, and what both cost together meanwhile."""
    best = plan.best
    if best is None or best.entry >= held.entry:
        return f"none: nothing preferred to {what(held)} is on offer"
    place = f"{best.provider} {best.zone or best.region} {best.gpu_type}:{best.gpu_count} {best.capacity}"
    if best.micro_usd is None or held.micro_usd is None:
        return f"{place} first, then {what(held)} goes; what both cost together is not known"
    both, after = per_hour(best.micro_usd + held.micro_usd), per_hour(best.micro_usd)
    return f"{place} first; while both run {both}, then {after} (now {per_hour(held.micro_usd)})"


def switch_line(seen: Seen) -> str:
    """What stopping, staying stopped or starting again comes to; nothing for machines that run and stay so."""
    if seen.held is None or seen.setup is None or not seen.held.provider:
        return ""
    if seen.setup.state == "stopped":
        does = "stays stopped" if seen.held.status == "stopped" else "is stopped and kept"
        cost = "only its disks are billed, what is on local SSD is discarded"
        return f"{what(seen.held)} {does}: {cost}, and when it is started again its place may be taken"
    if seen.held.status == "stopped":
        return f"{what(seen.held)} is started again where it is, if there is room; if there is none it stays stopped, and nothing is bought elsewhere"
    return ""


def _standalone(arguments: Mapping[str, Any]) -> Seen:
    return Seen(action=CREATE if not arguments.get("running_usd_per_hour") else UPDATE)


def _given(arguments: Mapping[str, Any]) -> int:
    return round(float(arguments.get("running_usd_per_hour") or 0.0) * 1_000_000)


def _fact(name: str, text: str) -> str:
    import textwrap

    return textwrap.fill(text, WIDTH, initial_indent=f"{name:<11} ", subsequent_indent=" " * 12, break_on_hyphens=False)
