"""The plan invoke: the table that a preview shows, against what runs now.

Owns what this process remembers of each cluster (its checked ask, what it runs, what the preview
does to it), since the invoke comes after the cluster's own check and diff in the same process; and
the words for what is asked for. What an `up` does by itself (a spot loss, drift) is in words at the
condition's row, `engine.reconcile.steps`. Buys nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.model import duration
from providers.model.machine import STOPPED
from providers.model.money import per_hour, usd
from providers.model.screen import log_width

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from providers.engine.record import ClusterRecord
    from providers.errors import GpusError
    from providers.model.ask import Ask
    from providers.model.machine import Setup
    from providers.planner.plan import Plan
    from providers.planner.summary import CurrentCost
    from providers.plugin.running import Running

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
    what it comes to under the stack's `max_spend`, `hedge` who is asked at once.
    """

    ask: Ask | None = None
    record: ClusterRecord | None = None
    action: str = CREATE
    reason: str = ""
    setup: Setup | None = None
    later: str = ""
    owner: str = ""
    plan: Plan | None = None
    limit: str = ""
    hedge: str = ""
    inputs: Mapping[str, Any] = {}
    edited: bool = False
    """Whether its declaration differs from the one before."""
    refused: GpusError | None = None
    """Why an edit is not carried out that would replace what runs: nothing can serve it."""


def answer(
    arguments: Mapping[str, Any], seen: PreviewContext | None, declared: Collection[str] = ()
) -> dict[str, Any]:
    """The invoke's result: `text` and the figures. Reads the catalog, the journal and live
    listings; raises SpecError for a bad declaration.

    `declared` are the names of the program's clusters, as far as they are known.
    """
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
            if key not in ("urn", "running_usd_per_hour", "detail")
        }
        spec = inputs.spec_of({"cluster": name, **fields})
        ask, setup = spec.ask(), spec.setup()
    from providers.engine.market import planning

    plan = seen.plan if seen is not None else None
    if plan is None:
        owner = "" if seen is None else seen.owner
        ask = planning.with_paid(ask, owner, name, world=world, settings=settings)
        plan = planning.walked(ask, setup=setup, world=world, settings=settings)
    if seen is None:
        running = CurrentCost(_given(arguments), "")
    else:
        also = (
            ""
            if seen.record is not None
            else others(world, settings, seen.owner, {name, *declared})
        )
        running = change(plan, seen, also)
    best = plan.best
    out: dict[str, Any] = {
        "text": _text(plan, name, running, seen, full=arguments.get("detail") == "full"),
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


def _text(
    plan: Plan,
    name: str,
    running: CurrentCost,
    seen: PreviewContext | None,
    *,
    full: bool,
) -> str:
    """What the preview shows of a cluster: one line where nothing changes, and the choice in a few
    lines otherwise.
    """
    from providers.model.stack import argument
    from providers.planner import brief, render

    if full:
        return render.as_text(plan, log_width(), title=name, current=running)
    if seen is not None and seen.action == KEEP and running.kept and not running.facts:
        return fitted(f"{name}: {running.change}")
    return brief.as_text(
        plan,
        log_width(),
        title=name,
        current=running,
        details=f"gpus plan {argument()} --cluster {name} --explain, or gpus:detail: full",
    )


def fitted(text: str) -> str:
    """The text with its long lines broken at spaces, so that the engine's display
    shows each whole.
    """
    most = log_width()
    if all(len(line) <= most for line in text.splitlines()):
        return text
    import textwrap

    def broken(line: str) -> list[str]:
        indent = line[: len(line) - len(line.lstrip())]
        return textwrap.wrap(
            line,
            most,
            subsequent_indent=f"{indent}    ",
            break_on_hyphens=False,
            break_long_words=False,
        ) or [line]

    return "\n".join(part for line in text.splitlines() for part in broken(line))


def refusal(name: str, plan: Plan, seen: PreviewContext) -> str:
    """Why a preview fails where no place is acceptable: what is not configured first, then what
    would help, in a few lines.
    """
    from providers.engine.reconcile.on_preview import what
    from providers.planner import describe, refusals, suggest

    stays = (
        f"; {what(seen.record)} stays as it is"
        if seen.record is not None and seen.record.provider
        else ""
    )
    because = f" ({seen.reason})" if seen.reason else ""
    refused = refusals.in_words(plan)
    lines = [
        f"{name}: nothing acceptable for {describe.ask_text(plan.ask)}{because}{stays}",
        *suggest.hints(plan),
    ]
    return "\n".join([*lines, f"refused: {refused}"] if refused else lines)


def change(plan: Plan, seen: PreviewContext, also: str) -> CurrentCost:
    """What an `up` changes against what runs, in words."""
    from providers.engine.reconcile.condition import (
        AT_REST,
        NOTHING_YET,
        Condition,
        condition_of,
    )
    from providers.engine.reconcile.on_preview import kept, what
    from providers.planner.summary import CurrentCost

    record = seen.record
    if record is not None and condition_of(record) in NOTHING_YET:
        return _search(record, seen)
    if record is None or not record.provider:
        found = (
            ("max_spend", seen.limit),
            ("also", also),
            ("acquire", _waits(seen)),
            ("hedge", seen.hedge),
        )
        return CurrentCost(0, "", facts=tuple(fact for fact in found if fact[1]))
    facts = (
        ("because", seen.reason if seen.action == REPLACE else ""),
        ("state", "" if seen.action == REPLACE else switch_line(record, seen.setup)),
        ("max_spend", seen.limit),
        ("later", seen.later),
        ("warning", _strange(plan, record)),
    )
    text = _change_text(plan, record, seen)
    over = condition_of(record) in {*AT_REST, Condition.FAILED}
    stays = kept(text)
    return CurrentCost(
        record.price.micro_usd,
        what(record),
        text,
        tuple(fact for fact in facts if fact[1]),
        ("no change" if over else "keeps", stays) if stays else None,
        "if rerun" if over else "if lost",
    )


def _search(record: ClusterRecord, seen: PreviewContext) -> CurrentCost:
    """What an `up` does about a cluster that waits for capacity, or has given up."""
    from providers.engine.reconcile.condition import Condition, condition_of
    from providers.engine.reconcile.on_preview import NOTHING, PreviewCase
    from providers.engine.reconcile.steps import STEPS
    from providers.planner.summary import CurrentCost

    condition, case = condition_of(record), PreviewCase(record)
    facts = (("max_spend", seen.limit),) if seen.limit else ()
    if seen.edited or seen.action == REPLACE:
        return CurrentCost(0, "", STEPS[condition].replaced(case), facts)
    text = STEPS[condition].preview(case)
    name, bought_if = (
        ("waits", "if room") if condition is Condition.WAITING else ("no change", "if rerun")
    )
    kept = (name, text.removeprefix(f"{NOTHING}: "))
    return CurrentCost(0, "", text, facts, kept, bought_if)


def _waits(seen: PreviewContext) -> str:
    """What happens where every place is sold out; nothing where the declaration does not wait."""
    asked = seen.inputs.get("acquire")
    if not isinstance(asked, dict):
        return ""
    within = asked.get("within")
    long = duration.text(duration.seconds(within)) if isinstance(within, (str, float)) else within
    return f"sold out everywhere: waits, and `gpus watch` goes on looking for {long}"


def _change_text(plan: Plan, record: ClusterRecord, seen: PreviewContext) -> str:
    """The line `change`: of the action where one is asked for, else of the record's condition."""
    from providers.engine.reconcile.condition import AT_REST, Condition, condition_of
    from providers.engine.reconcile.on_preview import PreviewCase, what
    from providers.engine.reconcile.status import REPLACE_ALL
    from providers.engine.reconcile.steps import STEPS

    case = PreviewCase(
        record,
        None if plan.best is None else plan.best.micro_usd,
        REPLACE_ALL if seen.setup is None else seen.setup.on_loss,
        "" if seen.setup is None else seen.setup.on_ttl,
        plan.ask.entries[0].nodes if plan.ask.replicated else 0,
        edited=seen.edited,
        stops=seen.setup is not None and seen.setup.state == STOPPED,
    )
    condition = condition_of(record)
    step = STEPS[condition]
    if seen.action == REPLACE:
        return step.replaced(case)
    if seen.action == ADOPT:
        return (
            f"{what(record)} ({per_hour(record.price.micro_usd)}) is there from an earlier run: it"
            " is taken over if it still fits, else deleted first"
        )
    if seen.action == RECLAIM and condition not in AT_REST:
        return reclaim_line(plan, record)
    redeployed = (
        record.kind == "service" and condition is not Condition.DEGRADED and not plan.ask.replicated
    )
    return (redeployed and _served_line(plan, record)) or step.preview(case)


def _strange(plan: Plan, record: ClusterRecord) -> str:
    """What to say of a stranger's host that runs though the declaration no longer allows one: it is
    not given up for that.
    """
    from providers.engine.reconcile.on_preview import what

    able = plan.terms.capabilities.get(record.provider)
    if able is None or plan.ask.allows(record.provider, marketplace=able.marketplace):
        return ""
    if not able.marketplace or plan.ask.providers:
        return ""  # another provider is another declaration: that replaces it
    return (
        f"{what(record)} is a stranger's host, which this declaration would not buy; it stays until"
        f" it is replaced: add {record.provider} to providers, or set marketplaces: true,"
        " to have one"
        " again"
    )


def _served_line(plan: Plan, record: ClusterRecord) -> str:
    """What a service costs otherwise than so far, where it is deployed anew: how many containers it
    may have is declared. Else nothing.
    """
    from providers.engine.reconcile.on_preview import what
    from providers.planner.describe import change_line

    own = (
        candidate
        for candidate in plan.candidates
        if (candidate.provider, candidate.gpu_type) == (record.provider, record.placement.gpu_type)
    )
    new = next((candidate.micro_usd for candidate in own), None)
    now = record.price.micro_usd
    if new is None or now is None or new == now:
        return ""
    return f"{change_line(now, new, what(record))}; it is redeployed in place"


def reclaim_line(plan: Plan, record: ClusterRecord) -> str:
    """What a reclaim comes to: the preferred place first, and what both cost together meanwhile."""
    from providers.engine.reconcile.on_preview import NOTHING, what
    from providers.planner.rank import prefers

    best = next(
        (
            candidate
            for candidate in plan.candidates
            if prefers(plan.ask, record, candidate, plan.terms.fits)
        ),
        None,
    )
    if best is None:
        return f"{NOTHING}: nothing preferred to {what(record)} is on offer"
    place = f"{best.provider} {best.placement.where} {best.placement.gpu} {best.capacity}"
    now = record.price.micro_usd
    if best.micro_usd is None or now is None:
        return f"{place} first, then {what(record)} goes; what both cost together is not known"
    both, after = per_hour(best.micro_usd + now), per_hour(best.micro_usd)
    return f"{place} first; while both run {both}, then {after} (now {per_hour(now)})"


def switch_line(record: ClusterRecord, setup: Setup | None) -> str:
    """What stopping, staying stopped or starting again comes to; nothing for machines that run and
    stay so.
    """
    from providers.engine.reconcile.on_preview import what
    from providers.engine.record import kept_stopped

    if setup is None:
        return ""
    if setup.state == STOPPED:
        does = "stays stopped" if record.status == STOPPED else "is stopped and kept"
        cost = "only its disks are billed, what is on local SSD is discarded"
        return f"{what(record)} {does}: {cost}, and when it is started again its place may be taken"
    if record.status == STOPPED and kept_stopped(record):
        return (
            f"{what(record)} is started again where it is, if there is room; if there is none it"
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


def deleted(world: str, settings: Mapping[str, Mapping[str, str]], record: ClusterRecord) -> bool:
    """True where this machine's journal knows that all of a placement was deleted, whatever its
    state says; where it does not know it, False.
    """
    from providers.engine.runtime.world import open_world
    from providers.errors import GpusError

    opened = open_world(world, settings)
    try:
        known = [
            launch
            for launch in opened.journal.launches(world, record.owner, record.cluster)
            if launch.generation == record.generation
        ]
        open_orders = opened.journal.orders(world, record.owner, record.cluster, record.generation)
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
    from providers.model.placement import Placement, Price

    for run, claimed in reversed(_running(world, settings, owner)):
        if run.cluster == name:
            gpu, _, count = run.gpu.partition(":")
            where = Placement(
                run.provider,
                zone=run.where,
                gpu_type=gpu,
                gpu_count=int(count or 0),
                nodes=run.nodes,
                capacity=run.capacity,
            )
            record = ClusterRecord(
                *(world, owner, name, run.generation, "", "running", where, Price(run.micro_usd))
            )
            return record, REPLACE if claimed else ADOPT
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


def _given(arguments: Mapping[str, Any]) -> int:
    return round(float(arguments.get("running_usd_per_hour") or 0.0) * 1_000_000)
