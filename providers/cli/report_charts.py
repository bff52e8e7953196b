"""The charts of a report, as Vega-Lite specifications that vl-convert draws: plain SVG, which needs
no script and no network.

Each chart comes in two widths, since a drawing does not reflow. Text and lines take the page's own
colour, so that one drawing serves light and dark.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
import zlib
from datetime import date, timedelta
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.errors import Problem, SpecError
from providers.model.money import dollars

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from providers.cli.report_facts import Chosen, Kind, RegionPrice, Tried

WIDE, NARROW = 900, 330
"""Pixels."""
_COLOURS = ("#3b82c4", "#e07b00", "#2f9e62", "#c2509a", "#8a6fd1", "#c0504d", "#7a8a99")
"""Seen on white and on near black."""
_CAPACITY = {
    "field": "capacity",
    "scale": {
        "domain": ["on-demand", "spot", "flex-start"],
        "range": ["circle", "triangle", "square"],
    },
    "legend": {"title": None, "symbolFillColor": "currentColor"},
}
_STATES = {"launched": "#2f9e62", "failed": "#c0504d", "unsettled": "#e07b00"}
_DOLLARS = "$,.2~f"
_SVG = "http://www.w3.org/2000/svg"


class Chart(NamedTuple):
    """One chart in both widths, each an `<svg>`."""

    wide: str
    narrow: str


def need_library() -> None:
    """Raises SpecError where what draws the charts is not installed."""
    from importlib.util import find_spec

    if find_spec("vl_convert") is None:
        wanted = "vl-convert, which draws the charts"
        raise SpecError([Problem("report", wanted, "none", "pip install 'gpus[report]'")])


def market(kinds: Sequence[Kind], chosen: Sequence[Chosen]) -> Chart:
    """Price against performance, with the frontier and what each cluster would take."""
    points = [
        {
            "provider": kind.provider,
            "capacity": kind.capacity,
            "usd": kind.micro_usd / 1e6,
            "tflops": kind.tflops,
            "best": kind.best,
            "said": f"{kind.provider} {kind.where} {kind.gpu} {kind.capacity},"
            f" ${kind.micro_usd / 1e6:,.2f}/h, {kind.tflops:,.0f} TFLOPS",
        }
        for kind in kinds
        if kind.tflops
    ]
    picked = [
        {
            "cluster": each.cluster,
            "usd": each.micro_usd / 1e6,
            "tflops": each.tflops,
            "said": f"{each.cluster}: {each.what}, ${each.micro_usd / 1e6:,.2f}/h",
        }
        for each in chosen
        if each.micro_usd and each.tflops
    ]
    place = {
        "x": {
            "field": "usd",
            "type": "quantitative",
            "scale": {"type": "log"},
            "axis": {"title": "$/h of a machine", "format": _DOLLARS, "tickCount": 5},
        },
        "y": {
            "field": "tflops",
            "type": "quantitative",
            "scale": {"type": "log"},
            "axis": {"title": "TFLOPS", "format": "~s", "tickCount": 5},
        },
        "description": {"field": "said"},
    }
    best = [{**point, "said": "the frontier"} for point in points if point["best"]]
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": best},
            "mark": {"type": "line", "interpolate": "step-after", "stroke": "currentColor"},
            "encoding": place,
        },
        {
            "data": {"values": points},
            "mark": {"type": "point", "filled": True, "size": 40, "opacity": 0.75},
            "encoding": {
                **place,
                "color": _provider(kind.provider for kind in kinds),
                "shape": _CAPACITY,
            },
        },
    ]
    if picked:
        named = {**place, "text": {"field": "cluster"}}
        ring = {"type": "point", "size": 260, "stroke": "currentColor", "strokeWidth": 2.5}
        text = {"type": "text", "dy": -18, "fontWeight": "bold", "color": "currentColor"}
        layers += [
            {"data": {"values": picked}, "mark": ring, "encoding": place},
            {"data": {"values": picked}, "mark": text, "encoding": named},
        ]
    return _both({"layer": layers, "height": 380})


def by_region(rows: Sequence[RegionPrice], gpu: str) -> Chart:
    """What one GPU of a model costs, by region."""
    values = [
        {
            "region": row.region,
            "provider": row.provider,
            "capacity": row.capacity,
            "usd": row.micro_usd / 1e6,
            "said": f"{row.provider} {row.region} {row.capacity}, ${row.micro_usd / 1e6:,.4f}/h",
        }
        for row in rows
        if row.gpu == gpu
    ]
    order = list(dict.fromkeys(value["region"] for value in values))
    return _both(
        {
            "data": {"values": values},
            "height": {"step": 18},
            "mark": {"type": "point", "filled": True, "size": 60},
            "encoding": {
                "y": {"field": "region", "type": "nominal", "sort": order, "title": None},
                "x": {
                    "field": "usd",
                    "type": "quantitative",
                    "title": f"$/h of one {gpu}",
                    "axis": {"format": _DOLLARS, "tickCount": 5},
                },
                "color": _provider(row.provider for row in rows),
                "shape": _CAPACITY,
                "description": {"field": "said"},
            },
        }
    )


def spending(days: Sequence[tuple[str, int]]) -> Chart:
    """What was spent on each day (`2026-11-03`), those between without spending too."""
    spent = dict(days)
    first, last = (date.fromisoformat(days[at][0]) for at in (0, -1))
    every = [str(first + timedelta(number)) for number in range((last - first).days + 1)]
    values = [
        {"day": day, "usd": spent.get(day, 0) / 1e6, "said": f"{day}: {dollars(spent.get(day, 0))}"}
        for day in every
    ]
    dates = {"labelExpr": "slice(datum.value, 5)", "labelAngle": 0, "labelOverlap": True}
    return _both(
        {
            "data": {"values": values},
            "height": 240,
            "mark": {"type": "bar", "color": _COLOURS[0]},
            "encoding": {
                "x": {"field": "day", "type": "ordinal", "title": None, "axis": dates},
                "y": {
                    "field": "usd",
                    "type": "quantitative",
                    "title": "$ a day",
                    "axis": {"format": _DOLLARS, "tickCount": 5},
                },
                "description": {"field": "said"},
            },
        }
    )


def timeline(tried: Sequence[Tried]) -> Chart:
    """The attempts of one up, from when each was sent until it was settled."""
    values = [
        {
            "attempt": f"{each.number}. {each.where}",
            "begin": each.begin_s,
            "end": each.end_s,
            "state": each.state,
            "said": f"{each.number}. {each.where}, {each.what}: {each.state} after"
            f" {each.end_s - each.begin_s:.1f} s",
        }
        for each in tried
    ]
    order = [value["attempt"] for value in values]
    states = [state for state in _STATES if any(each.state == state for each in tried)]
    across: dict[str, Any] = {
        "y": {
            "field": "attempt",
            "type": "nominal",
            "sort": order,
            "title": None,
            "axis": {"labelLimit": 220},
        },
        "color": {
            "field": "state",
            "scale": {"domain": states, "range": [_STATES[state] for state in states]},
            "legend": {"title": None},
        },
        "description": {"field": "said"},
    }
    begin = {"field": "begin", "type": "quantitative", "title": "seconds since the first"}
    end = {**begin, "field": "end"}
    return _both(
        {
            "data": {"values": values},
            "height": {"step": 20},
            "layer": [
                {
                    "mark": {"type": "bar", "height": 8},
                    "encoding": {**across, "x": begin, "x2": {"field": "end"}},
                },
                {
                    # A call that took no time is still seen.
                    "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                    "encoding": {**across, "x": end},
                },
            ],
        }
    )


def _provider(names: Iterable[str]) -> dict[str, Any]:
    """Each provider has one colour in all charts."""
    from providers.adapters import registry

    colours = dict(zip(sorted(registry.manifests()), cycle(_COLOURS), strict=False))
    there = sorted(set(names))
    scale = {"domain": there, "range": [colours.get(name, _COLOURS[-1]) for name in there]}
    return {"field": "provider", "scale": scale, "legend": {"title": None}}


def _both(spec: dict[str, Any]) -> Chart:
    return Chart(_drawn(spec, WIDE, "right"), _drawn(spec, NARROW, "bottom"))


def _drawn(spec: dict[str, Any], width: int, legend: str) -> str:
    import vl_convert

    text = {"labelColor": "currentColor", "titleColor": "currentColor"}
    line = {"gridColor": "currentColor", "gridOpacity": 0.15, "domainColor": "currentColor"}
    whole = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": width,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "background": None,
        **spec,
        "config": {
            "font": "sans-serif",
            "view": {"stroke": None},
            "axis": {
                **text,
                **line,
                "tickColor": "currentColor",
                "titleFontWeight": "normal",
                "labelFontSize": 12,
                "titleFontSize": 12,
            },
            "legend": {
                **text,
                "orient": legend,
                "columns": 3 if legend == "bottom" else 1,
                "labelFontSize": 12,
                "layout": {"bottom": {"direction": "vertical", "anchor": "start"}},
            },
        },
    }
    return _titled(vl_convert.vegalite_to_svg(whole, show_warnings=False))


def _titled(svg: str) -> str:
    """The drawing with names of its own, and what each mark means shown under the mouse."""
    ET.register_namespace("", _SVG)
    root = ET.fromstring(svg)  # noqa: S314 - it was made here
    for mark in root.iter():
        said = mark.get("aria-label")
        if said and mark.get("role") == "graphics-symbol":
            ET.SubElement(mark, f"{{{_SVG}}}title").text = said
    root.set("aria-hidden", "true")  # the table beside it says the same
    text = ET.tostring(root, encoding="unicode")
    prefix = f"c{zlib.crc32(text.encode())}-"
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    return text.replace("url(#", f"url(#{prefix}")
