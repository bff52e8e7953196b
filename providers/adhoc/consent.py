"""Whether a purchase in the live world is wanted: asked on a terminal, with the most it can cost.
Owns the question; buys nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from providers.errors import GpusError
from providers.model import duration
from providers.model.money import per_hour
from providers.model.worlds import LIVE
from providers.planner import hedge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.model.spec import Cluster
    from providers.planner.plan import Plan


def given(
    spec: Cluster,
    world: str,
    settings: Mapping[str, Mapping[str, str]] | None,
    *,
    yes: bool,
    later: bool = False,
) -> bool:
    """Whether it may be bought. True in a rehearsal, with `yes`, and where there is no place to buy
    at, which the purchase itself explains. `later`: it may be bought when there is one, up to its
    price cap.

    Raises GpusError where there is no terminal to ask at. Makes the plan, so it looks at the
    providers' live offers.
    """
    if world != LIVE or yes:
        return True
    from providers.engine.market import planning

    plan = planning.walked(spec.ask(), world=world, settings=settings, setup=spec.setup())
    if not plan.candidates and not later:
        return True
    text = capped(spec) if later else most(plan, spec.setup().ttl_s)
    if spec.hedge > 1:
        text = f"{text}; hedge: {hedge.line(plan)}"
    what = f"{spec.name}: buys in the live world: {text}"
    if not sys.stdin.isatty():
        raise GpusError(
            f"{what}; nothing was bought, since there is no terminal to ask at: --yes buys without"
            " asking"
        )
    from providers.model.screen import told

    print(told(what, sys.stderr), file=sys.stderr)
    try:
        agreed = input("buy it? 'yes' buys, anything else does not: ").strip() == "yes"
    except EOFError:
        agreed = False
    if not agreed:
        print("gpus: nothing was bought", file=sys.stderr)
    return agreed


def capped(spec: Cluster) -> str:
    """The most that a purchase by its price cap can cost, whenever it is made."""
    cap, ttl_s = spec.max_price_per_hour, spec.setup().ttl_s
    if spec.block is not None:
        block = f"a block of up to ${spec.block.max_price:,.2f}, all of it paid at once"
        return block if cap is None else f"{block}, or what costs up to ${cap:,.2f}/h"
    if cap is None or ttl_s is None:
        return "as soon as there is room, with no limit"
    return (
        f"as soon as there is room, at up to ${cap:,.2f}/h; at most ${cap * ttl_s / 3_600:,.2f} in"
        f" its ttl of {duration.text(ttl_s)}, where the provider keeps it"
    )


def most(plan: Plan, ttl_s: float | None) -> str:
    """The first place with its price, and the most that any accepted place can cost until the limit
    ends it.
    """
    best, worst = plan.best, plan.worst_micro_usd
    assert best is not None
    first = (
        f"{best.provider} {best.placement.where} {best.placement.gpu} {best.capacity}"
        f" at {per_hour(best.micro_usd)} first"
    )
    limits = [ttl_s if entry.ttl_s is None else entry.ttl_s for entry in plan.ask.entries]
    endless = sorted(
        {
            each.provider
            for each in plan.candidates
            if not plan.terms.capabilities[each.provider].ends_at_ttl
        }
    )
    if worst is None:
        return f"{first}; what it can cost is not known"
    if endless or not all(limits):
        why = f" ({', '.join(endless)} ends nothing by itself)" if endless else ""
        return f"{first}; no limit: up to {per_hour(worst)} until it is released{why}"
    longest = max(limit for limit in limits if limit)
    return (
        f"{first}; at most ${worst * longest / 3_600 / 1e6:,.2f}, {duration.text(longest)} at"
        f" {per_hour(worst)}"
    )
