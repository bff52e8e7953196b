"""`gpus sweep`: reads what the backend's stacks claim, shows what nobody does, asks, and deletes.
Owns the reading of states and the question.

States are read with `pulumi stack export`, one process for each stack, several at once; secrets in
them stay encrypted and are not looked at. The looking and deleting is `engine.sweeping`'s. Exit
codes: 0 nothing unclaimed is left; 1 something is, or something could not be asked.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from providers.cli import pulumi_program, stackfile
from providers.cli.output import wrapped
from providers.engine import volume_costs
from providers.engine.journal import backend
from providers.engine.termination import garbage, inventory, kept, verdicts
from providers.errors import GpusError
from providers.model import duration
from providers.model.machine import Handle
from providers.model.money import per_hour, usd
from providers.model.screen import told

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from providers.engine.runtime.world import World
    from providers.engine.termination.garbage import Swept
    from providers.engine.termination.inventory import Survey
    from providers.engine.termination.kept import KeptVolume
    from providers.engine.termination.verdicts import Claims, SweptMachine

OK, LEFT = 0, 1
READS_AT_ONCE = 4
_OWNERSHIP, _CLUSTER, _VOLUME = (
    "gpu:index:Ownership",
    "gpu:index:Cluster",
    "gpu:index:Volume",
)


def run(
    options: argparse.Namespace, world_name: str, settings: Mapping[str, Mapping[str, str]]
) -> int:
    """The whole command; its exit code. `options` has `json` and `yes`. Calls: one process a stack;
    every account of every cloud; deletions.
    """
    import asyncio

    from providers.engine.runtime.world import open_world

    claims = read_claims(world_name)
    world = open_world(
        world_name,
        settings,
        lambda severity, text: _aside(text) if severity in {"warning", "error"} else None,
    )
    try:
        return asyncio.run(_run(world, claims, wants_json=options.json, yes=options.yes))
    finally:
        world.close()


async def _run(world: World, claims: Claims, *, wants_json: bool, yes: bool) -> int:
    survey = await inventory.survey(world, claims, _adhoc_owner())
    volumes, unlisted = await kept.survey(world, claims)
    # What somebody deleted at its cloud costs nothing any more.
    await volume_costs.settle(world)
    now = world.clock.now()
    trouble = [
        *(f"{name}: its state could not be read" for name in claims.unread),
        *survey.trouble,
        *unlisted,
        *_blind(world, survey),
    ]
    if not wants_json:
        for line in (*_lines(world, survey, now), *_volume_lines(volumes)):
            # A pipe gets each line whole.
            print("\n".join(wrapped("", line, " " * 11)) if sys.stdout.isatty() else line)
    for line in trouble:
        _aside(line)
    unclaimed = [found for found in survey.found if found.verdict == verdicts.UNCLAIMED]
    swept: Sequence[Swept] = ()
    if unclaimed and (yes or (not wants_json and _asked(unclaimed))):
        swept = await garbage.sweep(world, unclaimed, claims)
        _forget(world, swept)
    done = {each.found.handle for each in swept if not each.why}
    left = [found for found in unclaimed if found.handle not in done]
    if wants_json:
        sys.stdout.write(
            json.dumps(_record(world, survey, volumes, swept, trouble, now), allow_nan=False) + "\n"
        )
    else:
        for each in swept:
            print(
                f"{each.found.handle.provider}: {each.found.handle.native_id}:"
                f" {each.why or 'gone, confirmed'}"
            )
    return LEFT if left or trouble else OK


def _aside(text: str) -> None:
    print(told(text, sys.stderr), file=sys.stderr)


def _asked(unclaimed: Sequence[SweptMachine]) -> bool:
    """Whether the user wants these deleted. Without a terminal to ask at, the answer is no, and how
    to say yes is told.
    """
    if not sys.stdin.isatty():
        _aside(
            f"{len(unclaimed)} unclaimed: nothing was deleted, since there is no terminal to ask"
            " at; --yes deletes without asking"
        )
        return False
    try:
        answer = input(
            f"delete {'this one' if len(unclaimed) == 1 else f'these {len(unclaimed)}'}, disks"
            " included? 'yes' deletes, anything else does not: "
        )
    except EOFError:
        return False
    return answer.strip() == "yes"


def _adhoc_owner() -> str:
    """The owner id of this user's ad hoc clusters; empty where there were none.
    Looking makes none.
    """
    from providers.adhoc import access
    from providers.home import home

    return access.owner() if (home(writable=False) / "owner").exists() else ""


def _forget(world: World, swept: Sequence[Swept]) -> None:
    """Removes the folder of each ad hoc cluster of which everything is gone."""
    from providers.adhoc import access

    owner = _adhoc_owner()
    gone = {
        each.found.label.cluster
        for each in swept
        if each.found.label.owner == owner and not each.why
    }
    left = {each.found.label.cluster for each in swept if each.why}
    for name in sorted(gone - left):
        access.forget(world.name, name)


# What is shown


def _lines(world: World, survey: Survey, now: float) -> list[str]:
    shown = [found for found in survey.found if found.verdict != verdicts.CLAIMED]
    claimed = len(survey.found) - len(shown)
    lines = []
    for found in shown:
        price = f"{per_hour(found.micro_usd)}" if found.micro_usd is not None else "price unknown"
        price += f" ({found.price_source})" if found.price_source else ""
        what = ", ".join(
            filter(None, (found.gpu, found.where, found.status, _age(found, now), price))
        )
        whose = (
            f"owner {found.label.owner or 'not told'}, cluster {found.label.cluster or 'not told'}"
        )
        lines += [
            f"{found.verdict:<10} {found.handle.provider} {found.handle.native_id}",
            f"           {what}",
            f"           {whose}: {found.why}",
        ]
    unclaimed = [found for found in shown if found.verdict == verdicts.UNCLAIMED]
    if survey.asked or survey.found:
        asked = ", ".join(survey.asked) or "no cloud"
        lines.append(
            f"{world.name}: {len(unclaimed)} unclaimed{_cost(unclaimed)}; {claimed} claimed by"
            f" stacks; asked: {asked}"
        )
    if survey.silent and survey.asked:
        lines.append(f"not configured, so not asked: {', '.join(survey.silent)}")
    return lines


def _volume_lines(volumes: Sequence[KeptVolume]) -> list[str]:
    """The volumes that no state names; those that one names are counted."""
    from providers.catalog import volumes as prices

    lines = []
    for each in volumes:
        spec = each.volume.spec
        if not each.stack:
            price = prices.words(spec)
            lines += [
                f"volume     {each.volume.handle.provider} {each.volume.handle.native_id}",
                f"           {spec.name}: {spec}, {price}",
                f"           owner {each.volume.owner or 'not told'}: {each.why}",
            ]
    claimed = sum(bool(each.stack) for each in volumes)
    if volumes:
        lines.append(f"volumes: {len(volumes) - claimed} kept, {claimed} claimed by stacks")
    return lines


def _month(found: KeptVolume) -> float | None:
    from providers.catalog import volumes as prices

    spec = found.volume.spec
    price = prices.price(spec)
    total = None if price is None else price.per_month(spec.size_gib)
    return None if total is None else usd(total)


def _blind(world: World, survey: Survey) -> list[str]:
    """Where no cloud could be asked: that nothing is known, and of each cloud why it was not asked.
    What finds nothing there says nothing.
    """
    if survey.asked:
        return []
    names = "" if world.manifests else ": no adapter is installed"
    reasons = [f"{name}: {why}" for name, why in sorted(survey.silent.items())]
    return [
        f"{world.name}: no cloud could be looked at, so what runs there is not known{names}",
        *reasons,
    ]


def _cost(unclaimed: Sequence[SweptMachine]) -> str:
    known = [found.micro_usd for found in unclaimed if found.micro_usd is not None]
    parts = [per_hour(sum(known))] if known else []
    parts += (
        [f"{len(unclaimed) - len(known)} at an unknown price"]
        if len(known) < len(unclaimed)
        else []
    )
    return f" ({', and '.join(parts)})" if parts else ""


def _age(found: SweptMachine, now: float) -> str:
    return (
        f"{duration.text(max(1, int(now - found.created_at)))} old"
        if found.created_at
        else "age unknown"
    )


def _record(
    world: World,
    survey: Survey,
    volumes: Sequence[KeptVolume],
    swept: Sequence[Swept],
    trouble: Sequence[str],
    now: float,
) -> dict[str, Any]:
    became = {each.found.handle: each.why or "gone" for each in swept}
    return {
        "world": world.name,
        "found": [
            {
                "provider": found.handle.provider,
                "native_id": found.handle.native_id,
                "verdict": found.verdict,
                "why": found.why,
                "status": found.status,
                "owner": found.label.owner or None,
                "cluster": found.label.cluster or None,
                "generation": found.label.generation or None,
                "stack": found.stack or None,
                "gpu": found.gpu or None,
                "where": found.where or None,
                "age_s": max(0, int(now - found.created_at)) if found.created_at else None,
                "price_usd_per_hour": None if found.micro_usd is None else usd(found.micro_usd),
                "price_source": found.price_source or None,
                "swept": became.get(found.handle),
            }
            for found in survey.found
        ],
        "volumes": [
            {
                "provider": each.volume.handle.provider,
                "native_id": each.volume.handle.native_id,
                "name": each.volume.spec.name,
                "size_gib": each.volume.spec.size_gib or None,
                "type": each.volume.spec.type or None,
                "place": each.volume.spec.place or None,
                "owner": each.volume.owner or None,
                "stack": each.stack or None,
                "price_usd_per_month": _month(each),
                "why": each.why,
            }
            for each in volumes
        ],
        "asked": list(survey.asked),
        "not_configured": list(survey.silent),
        "trouble": list(trouble),
    }


# What the states say


def read_claims(world_name: str) -> Claims:
    """What the stacks of the configured backend claim in a world. A state that cannot be read is
    named in `unread`; so is the backend itself.
    """
    from concurrent.futures import ThreadPoolExecutor

    place = stackfile.nearest_project() or Path.cwd()
    try:
        listed = json.loads(pulumi_program.answer(place, "stack", "ls", "--all", "--json"))
        names = [str(each["name"]) for each in listed if each.get("resourceCount") != 0]
    except (GpusError, ValueError, KeyError, TypeError, AttributeError) as error:
        _aside(f"the stacks of the backend could not be listed: {error}")
        return verdicts.Claims(backend.current(), unread=("the list of stacks",))
    with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="gpus-states") as pool:
        read = dict(zip(names, pool.map(lambda name: _state(place, name), names), strict=True))
    return claims_of(
        {name: state for name, state in read.items() if isinstance(state, dict)}, world_name
    )._replace(
        backend=backend.current(),
        unread=tuple(name for name, state in read.items() if not isinstance(state, dict)),
    )


def _state(place: Path, name: str) -> dict[str, Any] | None:
    try:
        state = json.loads(pulumi_program.answer(place, "stack", "export", "-s", name))
    except (GpusError, ValueError) as error:
        _aside(f"{name}: {error}")
        return None
    return state if isinstance(state, dict) else None


def claims_of(states: Mapping[str, Mapping[str, Any]], world_name: str) -> Claims:
    """What exported states, by stack, claim in a world. Everything that stands in one counts, what
    waits for its deletion too. Pure.
    """
    from providers.plugin import outputs

    owners: dict[str, str] = {}
    generations: dict[tuple[str, str, str], str] = {}
    handles: dict[Handle, str] = {}
    pending: dict[tuple[str, str], str] = {}
    volumes: dict[Handle, str] = {}
    settings: list[Mapping[str, Mapping[str, str]]] = []
    for name, state in states.items():
        deployment = state.get("deployment") or {}
        for resource in deployment.get("resources") or ():
            world, *rest = str(resource.get("id") or "").split("/")
            if world != world_name:
                continue
            found = resource.get("outputs") or {}
            if resource.get("type") == _OWNERSHIP and len(rest) == 1:
                owners[rest[0]] = name
                settings += [
                    each
                    for each in found.get("accounts") or ()
                    if _is_settings(each) and each not in settings
                ]
            elif resource.get("type") == _CLUSTER and len(rest) == 3:
                record = outputs.read(str(resource["id"]), found)
                owners.setdefault(record.owner, name)
                generations[record.owner, record.cluster, record.generation] = name
                handles.update(dict.fromkeys((*record.handles, *record.leftovers), name))
            elif resource.get("type") == _VOLUME and len(rest) > 1:
                volumes[Handle(rest[0], "/".join(rest[1:]))] = name
        for operation in deployment.get("pending_operations") or ():
            resource = operation.get("resource") or {}
            inputs = resource.get("inputs") or {}
            if (
                resource.get("type") == _CLUSTER
                and operation.get("type") == "creating"
                and inputs.get("world") == world_name
            ):
                pending[str(inputs.get("owner")), str(inputs.get("cluster"))] = name
    return verdicts.Claims(
        "", owners, generations, handles, pending, tuple(settings), volumes=volumes
    )


def _is_settings(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(section, dict) for section in value.values())
