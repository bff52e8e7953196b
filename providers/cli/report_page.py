"""A report as one HTML page: each chart with the same figures as a table beside it.

Owns the page's words and looks. It holds no script and asks for nothing from outside, so it opens
anywhere, and every name on it is escaped.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from providers.cli import report_charts
from providers.engine.messages import moment
from providers.model.money import dollars

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from providers.cli.report_charts import Chart
    from providers.cli.report_facts import Facts

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --fore: #1b1f24; --line: #d0d7de; --dim: #57606a; }
@media (prefers-color-scheme: dark) {
  :root { --back: #12161b; --fore: #e6e8eb; --line: #38414b; --dim: #9aa5b1; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: var(--back); color: var(--fore);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; }
figure { margin: 1rem 0; } svg { display: block; max-width: 100%; height: auto; }
.narrow { display: none; }
@media (max-width: 700px) { .wide { display: none; } .narrow { display: block; } }
.dim { color: var(--dim); }
.table { overflow-x: auto; max-height: 24rem; overflow-y: auto; }
table { border-collapse: collapse; font-size: .85rem; }
th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: normal; vertical-align: top; }
th { position: sticky; top: 0; background: var(--back); }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
summary { cursor: pointer; }
"""


def page(facts: Facts) -> str:
    """The whole page."""
    title = f"GPUs: {facts.stack or 'the market'}"
    played = "" if facts.world == "live" else ", a rehearsal: nothing was paid"
    made = f"Made {moment(facts.made_at)}, world {facts.world}{played}."
    parts = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="dim">{_text(made)} Prices are all-in for one machine and hour.</p>',
        *(f'<p class="dim">Warning: {_text(each)}</p>' for each in facts.warnings),
        *_market(facts),
        *_regions(facts),
        *_spending(facts),
        *_timeline(facts),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{_text(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _market(facts: Facts) -> Iterable[str]:
    yield "<h2>Price against performance</h2>"
    if not facts.kinds:
        yield "<p>No offer with a known price is for sale here.</p>"
        return
    yield (
        "<p>Each point is one kind of machine at one provider, at its cheapest place. The line is"
        " the frontier: nothing cheaper is as fast. A ring is what a cluster would take, all its"
        " machines together. TFLOPS are what all its GPUs achieve in bf16, or in what they have"
        " instead.</p>"
    )
    yield from _figure(report_charts.market(facts.kinds, facts.chosen))
    if facts.chosen:
        yield from _table(
            "What each cluster would take",
            ("cluster", "would take", "$/h", "TFLOPS"),
            [
                (each.cluster, each.what, _usd(each.micro_usd), f"{each.tflops:,.0f}")
                for each in facts.chosen
            ],
        )
    yield from _table(
        "The frontier",
        ("provider", "cheapest place", "GPU", "capacity", "places", "$/h", "TFLOPS"),
        [
            (
                *(kind.provider, kind.where, kind.gpu, kind.capacity, str(kind.places)),
                *(_usd(kind.micro_usd), f"{kind.tflops:,.0f}"),
            )
            for kind in facts.kinds
            if kind.best
        ],
    )


def _regions(facts: Facts) -> Iterable[str]:
    yield "<h2>Price by region</h2>"
    for gpu in facts.gpus:
        rows = [row for row in facts.regions if row.gpu == gpu]
        yield f"<h3>{_text(gpu)}</h3>"
        if not rows:
            yield "<p>No offer of it with a known price is for sale here.</p>"
            continue
        yield from _figure(report_charts.by_region(rows, gpu))
        yield from _table(
            "As a table",
            ("region", "provider", "capacity", "$/h for one GPU"),
            [
                (row.region, row.provider, row.capacity, f"${row.micro_usd / 1e6:,.4f}")
                for row in rows
            ],
        )


def _spending(facts: Facts) -> Iterable[str]:
    yield "<h2>Spending</h2>"
    days = [day for month in facts.months for day in month.days]
    if not days and not any(month.volumes for month in facts.months):
        yield "<p>This machine's journal knows of no spending in these months.</p>"
        return
    unknown = sorted({name for month in facts.months for name in month.unknown})
    least = "at least " if unknown else ""
    this = facts.months[-1]
    yield (
        f"<p>{_text(this.month)}: {least}{_usd(this.spent)} so far, {least}{_usd(this.forecast)} if"
        " what runs stays until its limit or the month's end. By this machine's journal: price at"
        " launch, times time; traffic is not in it.</p>"
    )
    if unknown:
        yield f"<p>What {_text(', '.join(unknown))} cost is not known.</p>"
    if days:
        yield from _figure(report_charts.spending(days))
    yield from _table(
        "By cluster",
        ("month", "stack", "cluster", "hours", "spent"),
        [
            (
                *(month.month, each.stack or "ad hoc", each.cluster, f"{each.hours:,.1f}"),
                "no price" if each.unknown and not each.spent else _usd(each.spent),
            )
            for month in facts.months
            for each in month.clusters
        ],
    )
    stored = [(month.month, each) for month in facts.months for each in month.volumes]
    if stored:
        yield from _table(
            "By volume",
            ("month", "stack", "volume", "hours", "spent"),
            [
                (
                    *(month, each.stack, each.volume, f"{each.hours:,.1f}"),
                    "not known" if each.unknown and not each.spent else _usd(each.spent),
                )
                for month, each in stored
            ],
        )
    yield from _table("By day (UTC)", ("day", "spent"), [(day, _usd(usd)) for day, usd in days])


def _timeline(facts: Facts) -> Iterable[str]:
    yield "<h2>Attempts of the last ups</h2>"
    if not facts.tried:
        yield "<p>This machine's journal knows of no attempt.</p>"
        return
    for up in dict.fromkeys(each.up for each in facts.tried):
        rows = [each for each in facts.tried if each.up == up]
        yield f"<h3>{_text(up)}</h3>"
        yield from _figure(report_charts.timeline(rows))
        yield from _table(
            "As a table",
            ("#", "asked", "for", "sent after", "took", "result", "why"),
            [
                (
                    *(str(each.number), each.where, each.what, f"{each.begin_s:,.1f} s"),
                    *(f"{each.end_s - each.begin_s:,.1f} s", each.state, each.detail),
                )
                for each in rows
            ],
        )


def _figure(chart: Chart) -> Iterable[str]:
    yield (
        f'<figure><div class="wide">{chart.wide}</div><div class="narrow">{chart.narrow}</div>'
        "</figure>"
    )


_NUMBERS = {"$/h", "TFLOPS", "places", "$/h for one GPU", "hours", "spent", "sent after", "took"}


def _table(name: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    kinds = [' class="n"' if title in _NUMBERS else "" for title in head]
    yield f'<details open><summary>{_text(name)}</summary><div class="table" tabindex="0">'
    yield "<table><thead><tr>"
    yield "".join(f"<th{kind}>{_text(title)}</th>" for kind, title in zip(kinds, head, strict=True))
    yield "</tr></thead><tbody>"
    for row in rows:
        cells = zip(kinds, row, strict=True)
        yield f"<tr>{''.join(f'<td{kind}>{_text(cell)}</td>' for kind, cell in cells)}</tr>"
    yield "</tbody></table></div></details>"


def _text(text: str) -> str:
    return html.escape(text)


def _usd(micro: int | None) -> str:
    return "no price" if micro is None else dollars(micro)
