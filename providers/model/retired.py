"""What earlier releases spelled in another way: refused in a declaration, with the present form
named, and read as that in a state. Pure.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from providers.errors import Problem
from providers.model.stack import argument

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMANDS = {
    "run": ("a new run", "rerun"),
    "reclaim": ("the preferred choice while a fallback runs", "reclaim"),
}
"""The fields that became commands: what each asks for, and the command."""
RANKS = {"job_cost": "performance_per_dollar"}
"""The ranks that are no more, and those that rank in the same way."""


def rank(name: object) -> str:
    """What to write for a rank that is no more; empty for others."""
    present = RANKS.get(str(name), "")
    return f"write {present}, which goes by workload.train where that is declared" * bool(present)


def field(path: str, name: str, cluster: object) -> Problem | None:
    """The refusal of a cluster's field that has become a command; None for another name."""
    if name not in COMMANDS:
        return None
    what, command = COMMANDS[name]
    return Problem(
        path,
        f"a command that asks for {what}",
        repr(name),
        f"remove it, and run: gpus {command} {cluster or 'NAME'} {argument()}",
    )


def renewed(inputs: Mapping[str, Any], ran: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """A cluster's inputs from a state, in the present spelling, so that an edit of the spelling
    alone is no edit of the cluster. `ran` are, by provider, the options that said what runs, and
    the field of a workload that each is now.
    """
    out = {key: value for key, value in inputs.items() if key not in COMMANDS}
    if out.get("rank") in RANKS:
        out["rank"] = RANKS[out["rank"]]
    return _with_workload(out, ran)


def _with_workload(inputs: dict[str, Any], ran: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The inputs of a provider's own job or service with what runs as its workload. A machine that
    ran something by its options has been started in another way: it is left as it was.
    """
    options = inputs.get("options")
    if inputs.get("kind") not in ("job", "service") or inputs.get("workload"):
        return inputs
    if not isinstance(options, dict):
        return inputs
    workload: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for provider, section in options.items():
        moved = ran.get(provider, {}) if isinstance(section, dict) else {}
        workload |= {moved[key]: section[key] for key in moved if key in section}
        left = {key: section[key] for key in section if key not in moved} if moved else section
        if left:
            rest[provider] = left
    if not workload:
        return inputs
    if isinstance(workload.get("command"), list):
        workload["command"] = shlex.join(map(str, workload["command"]))
    out = {key: value for key, value in inputs.items() if key != "options"}
    return {**out, "workload": workload, **({"options": rest} if rest else {})}
