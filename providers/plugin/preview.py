"""The plan invoke: the table that a preview shows, against what runs now.

Owns what this process remembers of each cluster (its checked ask, what it runs, what the preview
does to it), since the invoke comes after the cluster's own check and diff in the same process; and
the words for what changes. Buys nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.model.machine import ENDED, FAILED, PREEMPTED, STOPPED
from providers.model.money import per_hour, usd

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from providers.engine.record import ClusterRecord
    from providers.errors import GpusError
    from providers.model.ask import Ask
    from providers.model.machine import Setup
    from providers.planner.plan import Plan
    from providers.planner.summary import CurrentCost
    from providers.plugin.running import Running

WIDTH = 96
"""What the engine's display leaves free of 100 columns (tried with CLI 3.276)."""
CREATE, ADOPT, KEEP, UPDATE, REPLACE, RECLAIM = (
    "create",
    "adopt",
    "keep",
    "update",
    "replace",
    "reclaim",
)


class PreviewContext(NamedTuple):
    """What is known of one cluster, by URN. `ask` is None while the GPU is not known. `reason` says
    why it is replaced, `later` what of an edit waits. `plan` is the plan, once it was made; `limit`
    what it comes to under the stack's `max_spend`.
    """

    ask: Ask | None = None
    held: ClusterRecord | None = None
    action: str = CREATE
    reason: str = ""
    setup: Setup | None = None
    later: str = ""
    owner: str = ""
    plan: Plan | None = None
    limit: str = ""
    inputs: Mapping[str, Any] = {}
    refused: GpusError | None = None
    """Why an edit is not carried out that would replace what runs: nothing can serve it."""


def answer(
    arguments: Mapping[str, Any], seen: PreviewContext | None, declared: Collection[str] = ()
) -> dict[str, Any]:
    """The invoke's result: `text` and the figures. Reads the catalog, the journal and live
    listings; raises SpecError for a bad declaration.

    `declared` are the names of the program's clusters, as far as they are known.
    """
    from providers.planner import render
    from providers.planner.describe import change_line
    from providers.planner.summary import CurrentCost
    from providers.plugin import inputs

    world = str(arguments.get("world", ""))
    name = str(arguments.get("cluster") or "cluster")
    settings = inputs.settings_of(arguments)
    ask, setup = (seen.ask, seen.setup) if seen is not None else (None, None)
    if ask is None:
        fields = {
            key: value
            for key, value in arguments.items()
            if key not in ("urn", "running_usd_per_hour")
        }
        spec = inputs.spec_of({"cluster": name, **fields})
        ask, setup = spec.ask(), spec.setup()
    from providers.engine.market import planning

    known = seen.plan if seen is not None else None
    plan = (
        known
        if known is not None
        else planning.walked(ask, setup=setup, world=world, settings=settings)
    )
    if seen is None:
        running = CurrentCost(_given(arguments), "")
    else:
        also = (
            "" if seen.held is not None else others(world, settings, seen.owner, {name, *declared})
        )
        running = change(plan, seen, also)
    best = plan.best
    out: dict[str, Any] = {
        "text": render.as_text(plan, WIDTH, title=name, current=running),
        "candidates": len(plan.candidates),
        "change": (
            running.change
            or change_line(
                running.micro_usd, None if best is None else best.micro_usd, running.what
            )
        ),
        "warnings": list(plan.warnings),
    }
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


def fitted(text: str) -> str:
    """The text with its long lines broken at spaces, so that the engine's display shows each whole."""
    if all(len(line) <= WIDTH for line in text.splitlines()):
        return text
    import textwrap

    def broken(line: str) -> list[str]:
        indent = line[: len(line) - len(line.lstrip())]
        return textwrap.wrap(
            line,
            WIDTH,
            subsequent_indent=f"{indent}    ",
            break_on_hyphens=False,
            break_long_words=False,
        ) or [line]

    return "\n".join(part for line in text.splitlines() for part in broken(line))


def refusal(name: str, plan: Plan, seen: PreviewContext) -> str:
    """Why a preview fails where no place is acceptable: what is not configured first, then what
    would help, in a few lines.
    """
    from providers.planner import describe, suggest

    stays = (
        f"; {what(seen.held)} stays as it is"
        if seen.held is not None and seen.held.provider
        else ""
    )
    because = f" ({seen.reason})" if seen.reason else ""
    refused = ", ".join(f"{count:,} by {rule}" for rule, count in plan.rejected_by_rule.items())
    lines = [
        f"{name}: nothing acceptable for {describe.ask_text(plan.ask)}{because}{stays}",
        *suggest.hints(plan),
    ]
    return "\n".join([*lines, f"refused: {refused}"] if refused else lines)


def change(plan: Plan, seen: PreviewContext, also: str) -> CurrentCost:
    """What an `up` changes against what runs, in words."""
    from providers.planner.summary import CurrentCost

    held, facts = seen.held, []
    if held is None or not held.provider:
        found = (("max_spend", seen.limit), ("also", also))
        return CurrentCost(0, "", facts=tuple(fact for fact in found if fact[1]))
    if seen.action == REPLACE:
        text = replace_line(plan, held)
        facts.append(("because", seen.reason))
    elif seen.action == ADOPT:
        text = (
            f"{what(held)} ({per_hour(held.micro_usd)}) is there from an earlier run: it is taken"
            " over if it still fits, else deleted first"
        )
    elif seen.action == RECLAIM and held.status not in (ENDED, STOPPED):
        text = reclaim_line(plan, held)
    elif held.status == "degraded" and held.reasons:
        text = loss_line(plan, held, seen.setup)
    elif held.kind == "service" and (text := _served_line(plan, held)):
        pass
    else:
        text = kept_line(held, seen.setup)
    if seen.action != REPLACE and (switched := switch_line(seen)):
        facts.append(("state", switched))
    if seen.limit:
        facts.append(("max_spend", seen.limit))
    if seen.later:
        facts.append(("later", seen.later))
    if strange := _strange(plan, held):
        facts.append(("warning", strange))
    return CurrentCost(held.micro_usd, what(held), text, tuple(facts))


def _strange(plan: Plan, held: ClusterRecord) -> str:
    """What to say of a stranger's host that runs though the declaration no longer allows one: it is
    not given up for that.
    """
    able = plan.terms.capabilities.get(held.provider)
    if able is None or plan.ask.allows(held.provider, marketplace=able.marketplace):
        return ""
    if not able.marketplace or plan.ask.providers:
        return ""  # another provider is another declaration: that replaces it
    return (
        f"{what(held)} is a stranger's host, which this declaration would not buy; it stays until"
        f" it is replaced: add {held.provider} to providers, or set marketplaces: true, to have one"
        " again"
    )


def what(held: ClusterRecord) -> str:
    """`gcp us-central1-a a3-highgpu-8g H100:8 spot`."""
    machine = f"{held.nodes} x {held.machine_type}" if held.nodes > 1 else held.machine_type
    return " ".join(
        part
        for part in (
            held.provider,
            held.zone or held.region,
            machine,
            f"{held.gpu_type}:{held.gpu_count}",
            held.capacity,
        )
        if part
    )


def _served_line(plan: Plan, held: ClusterRecord) -> str:
    """What a service costs otherwise than so far, where it is deployed anew: how many containers it
    may have is declared. Else nothing.
    """
    from providers.planner.describe import change_line

    own = (
        candidate
        for candidate in plan.candidates
        if (candidate.provider, candidate.gpu_type) == (held.provider, held.gpu_type)
    )
    new = next((candidate.micro_usd for candidate in own), None)
    if new is None or held.micro_usd is None or new == held.micro_usd:
        return ""
    return f"{change_line(held.micro_usd, new, what(held))}; it is deployed anew in place"


def kept_line(held: ClusterRecord, setup: Setup | None) -> str:
    """What stays, and what that costs."""
    if held.kind == "job" and held.status in (ENDED, FAILED):
        return (
            f"none: the job {'has succeeded' if held.status == ENDED else 'has failed'}, nothing"
            " runs; change `run` for another one"
        )
    if held.status == ENDED:
        disk = (
            "; its disk is kept, and billed, until then or destroy"
            if setup is not None and setup.on_ttl == "keep"
            else ""
        )
        return f"none: it ended{_at(held)} by its ttl; change `run` to get a new one{disk}"
    if held.status == STOPPED:
        return f"none: {what(held)} is stopped, only its disks are billed"
    if held.reasons:
        return f"none: {what(held)} is {held.status}: {held.reasons[0]}"
    if held.bought:
        from providers.engine.reconcile import drift

        return f"none: {what(held)} stays, at {per_hour(held.micro_usd)} now: {drift.text(held)}"
    if held.status == "degraded":
        return f"none: {what(held)} is degraded, and `on_loss: report` leaves it so"
    return f"none: {what(held)} stays, at {per_hour(held.micro_usd)} since its launch"


def loss_line(plan: Plan, held: ClusterRecord, setup: Setup | None) -> str:
    """What is done about machines that are lost, under the same id: by `on_loss`, and what that
    comes to.
    """
    if setup is not None and setup.on_loss == "replace-node":
        return (
            f"{held.detail}: gets as many again in {held.zone or held.region}, beside the rest;"
            f" {per_hour(held.micro_usd)} for all of it"
        )
    new = None if plan.best is None else plan.best.micro_usd
    return (
        f"REPLACES {what(held)} ({per_hour(held.micro_usd)}), of which {held.detail}: the rest is"
        f" deleted first; then {per_hour(new)}"
    )


def replace_line(plan: Plan, held: ClusterRecord) -> str:
    """What a replacement takes away, and what it changes per hour."""
    best = plan.best
    new = None if best is None else best.micro_usd
    if held.kind == "job" and held.status in (ENDED, FAILED):
        return f"another job after {what(held)}, which is done; +{per_hour(new)} while it runs"
    if held.kind != "machine" and held.status != PREEMPTED:
        return (
            f"REPLACES the {held.kind} {what(held)} ({per_hour(held.micro_usd)}): it is stopped"
            f" first; then {per_hour(new)}"
        )
    if held.status == ENDED:
        return f"REPLACES {what(held)}, which ended{_at(held)} by its ttl; +{per_hour(new)}"
    if held.status == PREEMPTED:
        return (
            f"REPLACES {what(held)}, which was taken back: what is left of it is deleted first;"
            f" then {per_hour(new)} (was {per_hour(held.micro_usd)})"
        )
    if held.micro_usd is None or new is None:
        net = f"then {per_hour(new)}"
    else:
        step = new - held.micro_usd
        net = (
            f"net {'-' if step < 0 else '+'}{per_hour(abs(step))}" if step else "at the same price"
        )
    return (
        f"REPLACES {what(held)} ({per_hour(held.micro_usd)}): it and its disk are deleted first,"
        f" and may not come back; {net}"
    )


def reclaim_line(plan: Plan, held: ClusterRecord) -> str:
    """What a reclaim comes to: the preferred place first, and what both cost together meanwhile."""
    from providers.planner.rank import prefers

    best = next(
        (
            candidate
            for candidate in plan.candidates
            if prefers(plan.ask, held, candidate, plan.terms.fits)
        ),
        None,
    )
    if best is None:
        return f"none: nothing preferred to {what(held)} is on offer"
    place = (
        f"{best.provider} {best.zone or best.region} {best.gpu_type}:{best.gpu_count}"
        f" {best.capacity}"
    )
    if best.micro_usd is None or held.micro_usd is None:
        return f"{place} first, then {what(held)} goes; what both cost together is not known"
    both, after = per_hour(best.micro_usd + held.micro_usd), per_hour(best.micro_usd)
    return f"{place} first; while both run {both}, then {after} (now {per_hour(held.micro_usd)})"


def switch_line(seen: PreviewContext) -> str:
    """What stopping, staying stopped or starting again comes to; nothing for machines that run and
    stay so.
    """
    if seen.held is None or seen.setup is None or not seen.held.provider:
        return ""
    if seen.setup.state == STOPPED:
        does = "stays stopped" if seen.held.status == STOPPED else "is stopped and kept"
        cost = "only its disks are billed, what is on local SSD is discarded"
        return (
            f"{what(seen.held)} {does}: {cost}, and when it is started again its place may be taken"
        )
    if seen.held.status == STOPPED:
        return (
            f"{what(seen.held)} is started again where it is, if there is room; if there is none it"
            " stays stopped, and nothing is bought elsewhere"
        )
    return ""


def others(
    world: str, settings: Mapping[str, Mapping[str, str]], owner: str, declared: Collection[str]
) -> str:
    """What else runs of the same owner, under names that are not declared (a renamed cluster):
    `train (gcp us-central1-a H100:8 spot, $10.21/h)`.
    """
    texts = [
        f"{run.cluster} ({run.provider} {run.where} {run.gpu} {run.capacity},"
        f" {per_hour(run.micro_usd)})"
        for run, _ in _running(world, settings, owner)
        if run.cluster not in declared
    ]
    return (
        f"this stack runs {'; '.join(texts)}: what the program no longer names goes only once the"
        " new one is there"
        if texts
        else ""
    )


def deleted(world: str, settings: Mapping[str, Mapping[str, str]], held: ClusterRecord) -> bool:
    """True where this machine's journal knows that all of a placement was deleted, whatever its
    state says; where it does not know it, False.
    """
    from providers.engine.runtime.world import open_world
    from providers.errors import GpusError

    opened = open_world(world, settings)
    try:
        known = [
            launch
            for launch in opened.journal.launches(world, held.owner, held.cluster)
            if launch.generation == held.generation
        ]
        open_orders = opened.journal.orders(world, held.owner, held.cluster, held.generation)
        return (
            bool(known) and not open_orders and all(launch.ended_at is not None for launch in known)
        )
    except GpusError:
        return False
    finally:
        opened.close()


def standing(
    world: str, settings: Mapping[str, Mapping[str, str]], owner: str, name: str
) -> tuple[ClusterRecord, str] | None:
    """What the owner's cluster of that name runs by this machine's journal, and what a creation
    then is: REPLACE if a state claims it (the engine replaces without asking what differs under
    --replace, and what is tainted), else ADOPT. None where nothing runs.
    """
    from providers.engine.record import ClusterRecord

    for run, claimed in reversed(_running(world, settings, owner)):
        if run.cluster == name:
            gpu, _, count = run.gpu.partition(":")
            held = ClusterRecord(
                *(world, owner, name, run.generation, "", "running", run.provider),
                zone=run.where,
                gpu_type=gpu,
                gpu_count=int(count or 0),
                nodes=run.nodes,
                capacity=run.capacity,
                micro_usd=run.micro_usd,
            )
            return held, REPLACE if claimed else ADOPT
    return None


def _running(
    world: str, settings: Mapping[str, Mapping[str, str]], owner: str
) -> list[tuple[Running, bool]]:
    """The owner's open placements, and whether a state claims each; none where the journal cannot
    be read, which the engine says when it matters.
    """
    from providers.engine.runtime.world import open_world
    from providers.errors import GpusError
    from providers.plugin.running import running_of

    if not owner:
        return []
    opened = open_world(world, settings)
    try:
        found = running_of(opened, owner)
        claims = opened.journal.claims(world, owner) if found else None
        named = None if claims is None else {claim.generation for claim in claims}
        return [(run, named is None or run.generation in named) for run in found]
    except GpusError:
        return []
    finally:
        opened.close()


def _at(held: ClusterRecord) -> str:
    from providers.plugin.outputs import moment

    return f" at {moment(held.ends_at)}" if held.ends_at else ""


def _given(arguments: Mapping[str, Any]) -> int:
    return round(float(arguments.get("running_usd_per_hour") or 0.0) * 1_000_000)
