"""`gpus review`: what a change of the declarations costs, as Markdown for its pull request."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.cli import stackfile
from providers.cli.cost import Cost, cost_of
from providers.cli.options import add_world
from providers.cli.output import NOTHING, OK, WRONG, complain
from providers.errors import Problem, SpecError
from providers.model import duration
from providers.model.money import HOURS_PER_MONTH, dollars

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from providers.cli.stackfile import Stack
    from providers.model.worlds import WorldName
    from providers.planner.plan import Plan

MOST = 60_000
"""Characters of a report. GitHub takes 65,536 in a comment."""


class Change(NamedTuple):
    """One cluster before and after. None where it is not declared: that costs nothing. A Cost
    without a price is not known.
    """

    stack: str
    cluster: str
    before: Cost | None
    after: Cost | None
    plan: Plan | None

    @property
    def per_month(self) -> int | None:
        """Micro-dollars more a month, if it ran all of it; None where that is not known."""
        before = 0 if self.before is None else self.before.month
        after = 0 if self.after is None else self.after.month
        return None if before is None or after is None else after - before


class Review(NamedTuple):
    """What differs between two checkouts. `same` counts the clusters that are declared as before;
    `problems` are of the new declarations.
    """

    changes: tuple[Change, ...]
    same: int
    problems: tuple[str, ...]


def run_review(options: argparse.Namespace) -> int:
    """Prints the report, or has GitHub show it. WRONG where a declaration is wrong, NOTHING where
    a changed cluster has no place.
    """
    project = stackfile.project_folder()
    base = Path(options.base)
    if not base.is_dir():
        raise SpecError(
            [
                Problem(
                    "--base",
                    "the project's folder as it is on the base branch",
                    f"no folder {options.base!r}",
                    "`git worktree add FOLDER BRANCH` makes one",
                )
            ]
        )
    found = review(project, base, options.stack, options.world)
    text = as_markdown(found)
    if options.github:
        from providers.cli import github

        print(github.show(text, _name(project), keep_quiet=not found.changes + found.problems))
    else:
        print(text)
    for problem in found.problems:
        complain(problem, WRONG)
    if found.problems:
        return WRONG
    return NOTHING if any(_unserved(change) for change in found.changes) else OK


def review(
    project: Path, base: Path, only: Sequence[str] = (), world: WorldName | None = None
) -> Review:
    """Compares the stacks of two checkouts of a project, and plans every cluster that differs.
    Buys nothing. Raises SpecError for a named stack that neither has.
    """
    there = stackfile.names(base) if (base / "Pulumi.yaml").is_file() else ()
    known = sorted({*stackfile.names(project), *there})
    unknown = [name for name in only if name not in known]
    if unknown:
        raise SpecError(
            [
                Problem(
                    "--stack",
                    "a stack with a file, here or on the base branch",
                    repr(name),
                    f"there are: {', '.join(known) or 'none'}",
                )
                for name in unknown
            ]
        )
    changes: list[Change] = []
    problems: list[str] = []
    same = 0
    for name in only or known:
        try:
            after = _read(project, name)
            old, broken = _base(base, name)
            for cluster in dict.fromkeys((*_clusters(old), *_clusters(after))):
                if old and after and _declared(old, cluster) == _declared(after, cluster):
                    same += 1
                else:
                    changes.append(_change(name, cluster, old, after, world, broken=broken))
        except SpecError as error:
            problems += [f"{name}: {line}" for line in str(error).splitlines()]
    return Review(tuple(changes), same, tuple(problems))


def as_markdown(found: Review) -> str:
    """The report, of at most `MOST` characters: the plans of the last clusters give way."""
    lines = [f"### GPUs: {_total(found)}", ""]
    if found.problems:
        lines += ["The declaration is wrong:", "", *(f"- {_code(each)}" for each in found.problems)]
        lines.append("")
    if found.changes:
        lines += [
            "| stack | cluster | before | after | $/h | a run | $/month | change a month |",
            "|---|---|---|---|--:|--:|--:|--:|",
            *map(_row, found.changes),
            "",
            f"A month is {HOURS_PER_MONTH} hours, if the cluster runs all of it."
            " Nothing was bought for this report.",
        ]
    if found.same:
        clusters = "cluster is" if found.same == 1 else "clusters are"
        lines.append(f"{found.same} {clusters} declared as before.")
    text = "\n".join(lines) + "\n"
    return text + _details(found.changes, MOST - len(text))


def _details(changes: Iterable[Change], room: int) -> str:
    from providers.planner import render

    text, left_out = "", 0
    for change in changes:
        if change.plan is None:
            continue
        plan = (
            f"\n<details><summary>The plan of {_html(change.stack)} / {_html(change.cluster)}"
            f"</summary>\n\n{render.as_markdown(change.plan)}\n\n</details>\n"
        )
        if len(text) + len(plan) > room - 200:
            left_out += 1
        else:
            text += plan
    if left_out:
        text += f"\n{left_out} more plans do not fit here: `gpus plan -s STACK` shows them.\n"
    return text


def _total(found: Review) -> str:
    if found.problems:
        return "a declaration is wrong"
    if not found.changes:
        return "nothing changes"
    each = [change.per_month for change in found.changes]
    known = [micro for micro in each if micro is not None]
    if len(known) < len(each):
        return "the change a month is not known, since a cluster has no price"
    return f"{_signed(sum(known))} a month"


def _row(change: Change) -> str:
    after, micro = change.after, change.per_month
    cells = (
        _code(change.stack),
        _code(change.cluster),
        _code(change.before.choice) if change.before else "not declared",
        _code(after.choice) if after else "not declared",
        _dollars(after.micro_usd, 4) if after else "",
        _runs(change.before, after),
        _dollars(after.month) if after else "",
        "not known" if micro is None else _signed(micro),
    )
    return f"| {' | '.join(cells)} |"


def _runs(before: Cost | None, after: Cost | None) -> str:
    """What a run costs, and what it cost if that was something else."""
    texts = dict.fromkeys(text for each in (before, after) if each and (text := _run(each)))
    return ", then ".join(texts)


def _run(cost: Cost) -> str:
    if cost.run is None or cost.ttl_s is None:
        return "" if cost.ttl_s is None else "not known"
    return f"{dollars(cost.run)} in {duration.text(cost.ttl_s)}"


def _dollars(micro: int | None, places: int = 2) -> str:
    return "not known" if micro is None else f"${micro / 1e6:,.{places}f}"


def _signed(micro: int) -> str:
    sign = "+" if micro > 0 else "-" if micro < 0 else ""
    return f"{sign}{dollars(abs(micro))}"


def _code(text: str) -> str:
    """The text as code in a table's cell: nothing in it is a mention, a link or markup."""
    return f"`{text.replace('`', chr(39)).replace('|', '/')}`"


def _html(text: str) -> str:
    import html

    return html.escape(text)


def _unserved(change: Change) -> bool:
    return change.after is not None and change.after.micro_usd is None


def _name(project: Path) -> str:
    """What tells the comments of several projects in one repository apart."""
    from providers.model import yaml_file

    return re.sub(r"[^\w.-]", "", str(yaml_file.mapping(project / "Pulumi.yaml").get("name")))


def _read(project: Path, name: str) -> Stack | None:
    return stackfile.read(name, project) if name in stackfile.names(project) else None


def _base(base: Path, name: str) -> tuple[Stack | None, bool]:
    """The stack on the base branch, and whether it cannot be read there."""
    try:
        return (_read(base, name) if (base / "Pulumi.yaml").is_file() else None), False
    except SpecError:
        return None, True


def _clusters(stack: Stack | None) -> Iterable[str]:
    return stack.clusters if stack else ()


def _declared(stack: Stack, cluster: str) -> tuple[Any, ...]:
    return stack.clusters.get(cluster), stack.world, stack.settings


def _change(
    name: str,
    cluster: str,
    old: Stack | None,
    new: Stack | None,
    world: WorldName | None,
    *,
    broken: bool,
) -> Change:
    before = Cost(name, cluster, "declared wrong", None, None) if broken else None
    after = plan = None
    if old and cluster in old.clusters:
        try:
            before = _cost(old, cluster, world)[0]
        except SpecError:
            before = Cost(name, cluster, "declared wrong", None, None)
    if new and cluster in new.clusters:
        after, plan = _cost(new, cluster, world)
    return Change(name, cluster, before, after, plan)


def _cost(stack: Stack, cluster: str, world: WorldName | None) -> tuple[Cost, Plan]:
    from providers import api

    spec = stackfile.specs(stack, cluster)[cluster]
    plan = api.plan(spec, world=world or stack.world, settings=stack.settings)
    return cost_of(stack.name, cluster, spec, plan), plan


def add_review(commands: Any) -> None:
    """Adds `review` to the commands."""
    review_parser = commands.add_parser(
        "review",
        help="what a change of the declarations costs, for its pull request",
        description=(
            "Compares the stacks with those of the base branch: the change a month, and the plan"
            " of what differs, as Markdown. Buys nothing."
        ),
    )
    review_parser.add_argument(
        "--base", metavar="FOLDER", required=True, help="the project's folder on the base branch"
    )
    review_parser.add_argument(
        "-s", "--stack", action="append", default=[], help="only this one; may be repeated"
    )
    add_world(review_parser)
    review_parser.add_argument(
        "--github",
        action="store_true",
        help="in a GitHub workflow: keep one comment on the pull request up to date",
    )
    review_parser.set_defaults(run=run_review)
