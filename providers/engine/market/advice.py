"""Asks clouds how likely they have room, where places are equal but for that. Owns when they are
asked, for how long, and how long an answer is believed.

Advice is a help and never needed: what does not come in time, or is refused, is a line once, and
the order stays.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from providers.errors import GpusError
from providers.model.advice import Advice, kind
from providers.model.ask import SPOT
from providers.model.worlds import LIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from providers.engine.market.snapshot import Market
    from providers.engine.runtime.world import World
    from providers.model.advice import Kind, Question
    from providers.model.ask import Ask
    from providers.model.offer import Candidate, Offer

LIMIT_S = 2.0
"""Real seconds for all questions, side by side."""
FRESH_S = 300.0
"""So long what was told, or was not, is not asked again by this process."""
LOOKED = 60
"""So many of the first places are looked at: a walk seldom comes further."""
QUESTIONS = 12
"""So many questions are asked of one cloud at a time."""
SETTING = "advice"
_WANTED = {"yes": True, "true": True, "no": False, "false": False}

_Key = tuple[str, tuple[tuple[str, str], ...], int, tuple[str, ...]]
_told: dict[_Key, tuple[float, Advice | None]] = {}


class _Told(NamedTuple):
    name: str
    answers: dict[Kind, Advice]
    troubles: list[Exception]


def advised(world: World, seen: Market, ask: Ask | None, lines: list[str]) -> Market:
    """The market with the advice on those of its places that tie for this ask. Adds a line for each
    cloud that was asked in vain. Blocking: at most a little over `LIMIT_S`.
    """
    if ask is None:
        return seen
    out = {*seen.unavailable, *seen.silent}
    names = [name for name in seen.manifests if name not in out and _is_wanted(world, name, lines)]
    if not names:
        return seen
    known: dict[Kind, Advice] = {}
    begun: list[tuple[_Told, list[threading.Thread]]] = []
    places = seen.plan(ask).candidates[:LOOKED]
    nodes = max((each.nodes for each in places), default=1)
    deadline = time.monotonic() + LIMIT_S
    for name, offers in tied(places, names).items():
        if asked := _unknown(world, name, offers, nodes, known):
            told = _Told(name, {}, [])
            begun.append((told, _begun(_questions(world, asked, nodes, told), told)))
            _keep(world, name, nodes, asked, {})
    for told, threads in begun:
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        late = any(thread.is_alive() for thread in threads)
        answers = dict(told.answers)
        known |= answers
        _keep(world, told.name, nodes, (), answers)
        if trouble := _trouble(told, late=late):
            lines.append(trouble)
    return seen._replace(advice=known) if known else seen


def tied(places: Sequence[Candidate], names: Iterable[str]) -> dict[str, list[Offer]]:
    """Of these providers the Spot offers of places that differ only in where they are. Pure."""
    groups: dict[tuple[int, int | None], list[Candidate]] = {}
    for each in places:
        if each.capacity == SPOT:
            groups.setdefault((each.entry, each.micro_usd), []).append(each)
    out: dict[str, list[Offer]] = {}
    for group in groups.values():
        if len({(each.provider, each.region) for each in group}) > 1:
            for each in group:
                if each.provider in names:
                    out.setdefault(each.provider, []).append(each.offer)
    return out


def _is_wanted(world: World, name: str, lines: list[str]) -> bool:
    """Live unless it is switched off; in a rehearsal where it is switched on."""
    manifest = world.manifests[name]
    if SETTING not in manifest.credentials.settings:
        return False
    text = world.settings.get(name, {}).get(SETTING, "").lower()
    if text and text not in _WANTED:
        lines.append(f"{name}:{SETTING}: wanted yes or no, found {text!r}; nothing is asked")
        return False
    return _WANTED[text] if text else world.name == LIVE


def _unknown(
    world: World, name: str, offers: Sequence[Offer], nodes: int, known: dict[Kind, Advice]
) -> list[Offer]:
    """The offers on which nothing was asked lately; puts what was told of the others in `known`."""
    out, now = [], time.monotonic()
    for offer in offers:
        about = kind(offer)
        asked_at, advice = _told.get(_key(world, name, nodes, about), (-FRESH_S, None))
        if now - asked_at >= FRESH_S:
            out.append(offer)
        elif advice is not None:
            known[about] = advice
    return out


def _keep(
    world: World, name: str, nodes: int, asked: Iterable[Offer], answers: dict[Kind, Advice]
) -> None:
    now = time.monotonic()
    for about in {kind(offer) for offer in asked}:
        _told[_key(world, name, nodes, about)] = now, None
    for about, advice in answers.items():
        _told[_key(world, name, nodes, about)] = now, advice


def _key(world: World, name: str, nodes: int, about: Kind) -> _Key:
    return world.name, tuple(sorted(world.settings.get(name, {}).items())), nodes, about


def _questions(world: World, asked: Sequence[Offer], nodes: int, told: _Told) -> Sequence[Question]:
    try:
        return world.adapter(told.name).advice(asked, nodes)[:QUESTIONS]
    except GpusError as error:
        told.troubles.append(error)
        return ()


def _begun(questions: Iterable[Question], told: _Told) -> list[threading.Thread]:
    def ask(question: Question) -> None:
        try:
            told.answers.update(question())
        except Exception as error:
            told.troubles.append(error)

    threads = [
        threading.Thread(target=ask, args=(each,), name=f"gpus-advice-{told.name}", daemon=True)
        for each in questions
    ]
    for thread in threads:
        thread.start()
    return threads


def _trouble(told: _Told, *, late: bool) -> str:
    from providers.engine.messages import bare

    why = [bare(told.name, error) for error in told.troubles[:1]]
    why += [f"no answer within {LIMIT_S:g}s"] if late and not why else []
    return (
        f"{told.name}: how likely it has room could not be read: {why[0]}; equal places keep their"
        f" order ({told.name}:{SETTING}: no asks no more)"
        if why
        else ""
    )
