"""`gpus prices`: which prices plans use, and newer ones from the providers' own lists."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from providers.cli.output import NOTHING, OK, complain, print_json, table, wrapped
from providers.errors import Problem, SpecError
from providers.model.money import usd

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from providers.catalog.refresh import Found, Moved

_SHOWN = 20
"""How many moved prices are shown of each source."""


def run_prices(options: argparse.Namespace) -> int:
    """Shows the prices in use, or refreshes them. NOTHING where a source was not taken."""
    if options.action is None:
        return _show(options)
    from providers.catalog import refreshed
    from providers.catalog.offers import load
    from providers.catalog.price_sources import ADDRESSES, BY_REGION, WHY_NOT

    wanted = options.provider or list(ADDRESSES)
    known = (*ADDRESSES, *WHY_NOT)
    problems = [
        Problem("provider", f"one of {', '.join(known)}", repr(name))
        for name in wanted
        if name not in known
    ]
    if options.region:
        asked = [name for name in wanted if name in BY_REGION]
        there = {offer.region for name in asked for offer in refreshed.on_demand(load(), name)}
        problems += [
            Problem("--region", f"one of {', '.join(sorted(there))}", repr(name))
            for name in options.region
            if asked and name not in there
        ]
        if not asked:
            has = f"a provider with a list for each: {', '.join(BY_REGION)}"
            problems.append(Problem("--region", has, ", ".join(wanted)))
    if options.source and len(options.provider) != 1:
        problems.append(Problem("--source", "the one provider whose it is", "none or several"))
    if problems:
        raise SpecError(problems)
    answers: list[dict[str, Any]] = []
    worst = max(_refresh(name, options, answers) for name in wanted)
    if not options.provider and not options.json:
        for name, why in WHY_NOT.items():
            print(f"{name}: not refreshed: {why}")
    if options.json:
        print_json(answers)
    return worst


def _refresh(name: str, options: argparse.Namespace, answers: list[dict[str, Any]]) -> int:
    """Refreshes one provider, region by region where its source is by region."""
    from datetime import UTC, datetime

    from providers.catalog import refresh
    from providers.catalog.offers import load
    from providers.catalog.price_sources import BY_REGION, WHY_NOT, SourceError

    why_not = (
        WHY_NOT.get(name) or _no_key(name) or (BY_REGION.get(name) if not options.region else None)
    )
    if why_not:
        answers.append({"provider": name, "region": None, "problem": why_not})
        return complain(f"{name}: not refreshed: {why_not}", NOTHING if options.provider else OK)
    worst = OK
    today = datetime.now(tz=UTC).date().isoformat()
    for region in options.region if name in BY_REGION else [""]:
        what = f"{name} {region}".rstrip()
        try:
            found = refresh.refresh(
                load(), name, region, today, address=options.source or "", accept=options.accept
            )
        except SourceError as error:
            answers.append({"provider": name, "region": region or None, "problem": str(error)})
            worst = complain(f"{what}: {error}; the prices stay as they were", NOTHING)
            continue
        answers.append(_record(found))
        if not options.json:
            print("\n".join(_lines(what, found)))
        if not found.kept:
            worst = complain(
                f"{what}: not kept, since a price moved by more than {refresh.FAR:.0%}: see that it"
                " is right, then add --accept",
                NOTHING,
            )
    return worst


def _no_key(name: str) -> str:
    """What to do for a source that is read with a key, where none is set; empty for others."""
    from providers.catalog.google_prices import KEY
    from providers.catalog.price_sources import NEEDS_KEY

    if name not in NEEDS_KEY or os.environ.get(KEY, "").strip():
        return ""
    return NEEDS_KEY[name].format(key=KEY)


def _lines(what: str, found: Found) -> Iterable[str]:
    same = found.prices - len(found.moved)
    yield f"{what}: {found.prices} prices, {same} as before, {len(found.moved)} changed"
    moved = sorted(found.moved, key=lambda each: -abs(each.part or 0))
    rows = [("  machine", "region", "was $/h", "is $/h", "change"), *map(_row, moved[:_SHOWN])]
    yield from table(rows, right={2, 3, 4}) if moved else ()
    if len(moved) > _SHOWN:
        yield f"  and {len(moved) - _SHOWN} smaller ones"
    if found.missing:
        yield f"  {found.missing} are no longer in the source, and stay as they were"
    if found.unknown:
        yield f"  GPU machines that the catalog does not know: {', '.join(found.unknown)}"


def _row(moved: Moved) -> Sequence[str]:
    key, part = moved.key, moved.part
    return (
        f"  {key.machine_type} {key.gpu_type}:{key.gpu_count:g}",
        key.region,
        "-" if moved.old is None else f"{moved.old / 1e6:,.4f}",
        f"{moved.new / 1e6:,.4f}",
        "new" if part is None else f"{part:+.1%}{' !' if moved.far else ''}",
    )


def _record(found: Found) -> dict[str, Any]:
    return {
        "provider": found.provider,
        "region": found.region or None,
        "kept": found.kept,
        "prices": found.prices,
        "missing": found.missing,
        "unknown": list(found.unknown),
        "moved": [
            {
                "machine_type": each.key.machine_type,
                "gpu_type": each.key.gpu_type,
                "gpu_count": each.key.gpu_count,
                "region": each.key.region,
                "was_usd_per_hour": None if each.old is None else usd(each.old),
                "price_usd_per_hour": usd(each.new),
            }
            for each in found.moved
        ],
    }


def _show(options: argparse.Namespace) -> int:
    """Which prices each provider's plans use."""
    from providers.catalog import refreshed
    from providers.catalog.offers import as_of, load
    from providers.model.offer import dated

    offers = load()
    for warning in offers.warnings:
        print(f"gpus: warning: {warning}", file=sys.stderr)
    answers: list[dict[str, Any]] = []
    for provider, (oldest, newest) in as_of().items():
        found = refreshed.newest(provider)
        path = str(refreshed.path_of(provider)) if found else None
        count = sum(1 for _ in refreshed.on_demand(offers, provider))
        answers.append(
            {
                "provider": provider,
                "offers": count,
                "oldest": oldest,
                "newest": newest,
                "refreshed": found or None,
                "file": path,
            }
        )
    if options.json:
        print_json(answers)
        return OK
    rows: list[Sequence[str]] = [("provider", "on demand", "prices as of", "refreshed", "file")]
    for each in answers:
        span = " to ".join(dict.fromkeys(map(dated, (each["oldest"], each["newest"]))))
        row = (each["provider"], f"{each['offers']:,}", span, each["refreshed"] or "no: bundled")
        rows.append((*map(str, row), str(each["file"] or "")))
    print("\n".join(table(rows, right={1}, gives=(4,))))
    foot = (
        "`gpus prices refresh` gets newer ones. Without its file a provider has the bundled ones;"
        " marketplaces and machines of your own list their offers live."
    )
    print("\n".join(wrapped("", foot)))
    return OK


def add_prices(commands: Any) -> None:
    """Adds `prices` to the commands."""
    prices = commands.add_parser(
        "prices",
        help="which prices plans use; `prices refresh` gets newer ones",
        description=(
            "Shows how old the prices of plans are. `gpus prices refresh` reads the lists that"
            " providers publish, shows what changed, and keeps it for the plans of this machine."
        ),
    )
    prices.add_argument("action", nargs="?", choices=("refresh",), help="get newer prices")
    prices.add_argument("provider", nargs="*", help="only this one; may be repeated")
    prices.add_argument(
        "--region",
        action="append",
        default=[],
        metavar="R",
        help="of this region, where lists are by region; may be repeated",
    )
    prices.add_argument(
        "--accept", action="store_true", help="keep even prices that moved by more than half"
    )
    prices.add_argument(
        "--source", metavar="URL", help="where to read this provider's list, as from a mirror"
    )
    prices.add_argument("--json", action="store_true", help="a JSON list instead of tables")
    prices.set_defaults(run=run_prices)
