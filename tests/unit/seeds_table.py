"""Writes docs/research/seeds.md from the rows: `python -m tests.unit.seeds_table`. Owns the page's
words; the verdicts are the checks'.
"""

from collections import Counter
from pathlib import Path

from tests.unit import seeds_clore, seeds_google, seeds_modal
from tests.unit.seeds_judge import STALE_ABOVE, VERDICTS

PAGE = Path(__file__).parents[2] / "docs" / "research" / "seeds.md"
TITLES = {
    "000": "GPUs on Modal",
    "001": "Which GPU for a small model",
    "003": "Several GPUs on a marketplace",
    "004": "Training on Google Cloud",
}
ROWS = [*seeds_modal.ROWS, *seeds_clore.ROWS, *seeds_google.ROWS]
HEAD = f"""# Claims about renting GPUs, checked

This page lets you look up whether a claim about renting GPUs is right, and why.

Every command and table row of four notes that other people wrote stands here, in our words, with a
verdict and the reason. It is made by `python -m tests.unit.seeds_table` and checked by
`tests/unit/test_seeds.py`: a changed price, table or rule that turns a verdict fails the tests.

* **right**: ours says the same. A placement that is tight fits.
* **wrong**: it was never so.
* **stale**: it was so once, or has no date. A price is stale when it differs from the catalog's by
  more than a factor of {STALE_ABOVE:g}.
* **does not fit**: the model does not fit the GPUs, or the claim is true of something else.

The last column names what said so. `sizing` is what `gpus size` computes: GiB on each GPU, 8,192
tokens of context and one sequence where nothing else is named. `documentation` is a program's own,
with the date it was read or is remembered; no test of ours can run that program. Advice without a
claim, and links, have no row. A document on accelerators has [its own page](accelerators.md).
"""


def cell(text):
    """A text as it may stand in a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def page():
    """The whole page."""
    lines = [HEAD]
    found = [(row, row.check()) for row in ROWS]
    total = Counter(said.verdict for _, said in found)
    lines += [
        f"{len(found)} rows: {', '.join(f'{total[verdict]} {verdict}' for verdict in VERDICTS)}.",
        "",
    ]
    for seed, title in TITLES.items():
        lines += [f"## {seed}: {title}", "", "| row | verdict | reason | by |", "|---|---|---|---|"]
        lines += [
            f"| {cell(row.claim)} | {said.verdict} | {cell(said.reason)} | {cell(said.by)} |"
            for row, said in found
            if row.seed == seed
        ]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
