"""A program's flags: which ones the user gave, what they say of the workload, and ours beside them.
Pure.

Owns the rule that a flag which the user gives is neither given twice nor contradicted: ours stays
away, and the plan counts on the user's.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from providers.model.workload import Task

Value = str | int | float | bool
RUNNERS = frozenset({"torchrun", "accelerate", "deepspeed", "kohya", "lightning", "ray", "mpi"})
"""Launchers whose `command` names a program; that of all others is flags."""
_NAMES = {
    "vllm": (
        ("tensor-parallel-size", "tp"),
        ("pipeline-parallel-size", "pp"),
        ("data-parallel-size", "dp"),
        ("data-parallel-size-local", "dpl"),
        ("decode-context-parallel-size", "dcp"),
        ("enable-expert-parallel", "ep"),
        ("quantization", "q"),
        ("nnodes", "n"),
        ("node-rank", "r"),
    ),
    "sglang": (
        ("tp-size", "tp", "tensor-parallel-size"),
        ("pp-size", "pp", "pipeline-parallel-size"),
        ("dp-size", "dp", "data-parallel-size"),
        ("ep-size", "ep", "expert-parallel-size"),
        ("dist-init-addr", "nccl-init-addr"),
    ),
    "llama.cpp": (
        ("ctx-size", "c"),
        ("parallel", "np", "n-parallel"),
        ("n-gpu-layers", "gpu-layers", "ngl"),
        ("split-mode", "sm"),
        ("tensor-split", "ts"),
        ("main-gpu", "mg"),
        ("cache-type-k", "ctk"),
        ("cache-type-v", "ctv"),
        ("override-tensor", "ot"),
        ("cpu-moe", "cmoe"),
        ("n-cpu-moe", "ncmoe"),
        ("no-kv-offload", "nkvo"),
        ("device", "dev"),
        ("model-draft", "md"),
        ("hf-repo-draft", "hfd"),
        ("mmproj", "mm"),
        ("batch-size", "b"),
        ("ubatch-size", "ub"),
        ("threads", "t"),
        ("threads-batch", "tb"),
        ("predict", "n-predict", "n"),
        ("flash-attn", "fa"),
    ),
}
"""All the names of one flag, by its program. Sources: as named with its recipe, 2026-11."""
_FIRST = {
    (launcher, name): names[0]
    for launcher, flags in _NAMES.items()
    for names in flags
    for name in names
}


class Given(NamedTuple):
    """A flag of the user's: its value (`true` for a bare one), and the path of the task's field
    where it stands.
    """

    value: Value
    where: str


def given(task: Task) -> dict[str, Given]:
    """The launcher's flags that the user gave, by name in lower-case words joined by `-`: those of
    `args`, and those that begin `command`.

    To a server the whole command is flags. Elsewhere it names a program, and what follows that is
    the program's own.
    """
    said = commanded(task)
    return {
        **{
            plain(name): Given(value, f"args.{name}")
            for name, value in _left(task, said)
            if value is not False
        },
        **{name: Given(value, "command") for name, value in said.items()},
    }


def commanded(task: Task) -> dict[str, str | bool]:
    """The launcher's flags in a task's command, by name; a flag of several names is there under the
    last one that was given.
    """
    words = split(task.command)
    found: dict[str, tuple[str, str | bool]] = {}
    for name, value in spelled(
        words[: _program(words)] if task.launcher in RUNNERS else words
    ).items():
        found[one(task.launcher, name)] = (name, value)
    return dict(found.values())


def _left(task: Task, said: Collection[str]) -> list[tuple[str, Value]]:
    """The task's `args` but those that its command says again: that follows them on the line, and
    the last one counts.
    """
    again = {one(task.launcher, name) for name in said}
    return [(name, value) for name, value in task.args if one(task.launcher, name) not in again]


def one(launcher: str, name: str) -> str:
    """One name for a flag, whichever of its program's names for it was given."""
    return _FIRST.get((launcher, plain(name)), plain(name))


def plain(name: str) -> str:
    """One spelling for `--max_num_seqs`, `-np` and `max-num-seqs`."""
    return name.lstrip("-").replace("_", "-")


def split(command: str) -> list[str]:
    """The words of a command line; none where the shell could not read it either."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def spelled(words: Sequence[str]) -> dict[str, str | bool]:
    """Each flag among words with its value; a bare one is true."""
    found: dict[str, str | bool] = {}
    for word, following in zip(words, [*words[1:], "-"], strict=False):
        name, equals, value = word.partition("=")
        if _is_flag(name):
            found[plain(name)] = (
                value if equals else True if _is_flag(following) or following == "-" else following
            )
    return found


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word.lstrip("-")[:1].isalpha()


def _program(words: Sequence[str]) -> int:
    """Where in a command the program begins: at its script, at `-m`, or at the first word that is
    neither a flag nor what follows one.
    """
    for index, word in enumerate(words):
        if word.endswith(".py") or word in {"-m", "--module"}:
            return index
    return next(
        (
            i
            for i, word in enumerate(words)
            if not _is_flag(word) and (not i or not _is_flag(words[i - 1]) or "=" in words[i - 1])
        ),
        len(words),
    )


def written(task: Task, joined: str = " ") -> list[str]:
    """`--name value` for each of a task's `args` that its command does not say again, quoted, as
    its program spells it; `true` is the bare flag, `false` leaves it out.
    """
    named = [
        (_spelled(task.launcher, name), value)
        for name, value in _left(task, commanded(task))
        if value is not False
    ]
    return [
        name if value is True else f"{name}{joined}{shlex.quote(str(value))}"
        for name, value in named
    ]


_DASHED, _UNDERSCORED = frozenset({"vllm", "sglang", "tgi", "llama.cpp"}), frozenset({"deepspeed"})
"""Programs that know one of the two spellings only (SGLang, TGI, DeepSpeed), or both."""
_ABBREVIATED = {
    "vllm": r"[a-z]{1,3}",
    "llama.cpp": r"(?!rpc$|fit$)[a-z]{1,3}|cmoe|ncmoe|nkvo|ngld|ctkd|ctvd|devd",
}
"""Short names, which follow one dash: `-tp`, `-ngl`. Elsewhere only single letters do."""


def dashes(launcher: str, name: str) -> str:
    """What stands before a flag's name."""
    short = _ABBREVIATED.get(launcher)
    return "-" if len(name) == 1 or (short and re.fullmatch(short, name)) else "--"


def _spelled(launcher: str, name: str) -> str:
    name = (
        name.replace("_", "-")
        if launcher in _DASHED
        else name.replace("-", "_")
        if launcher in _UNDERSCORED
        else name
    )
    return dashes(launcher, name) + name


def merged(
    launcher: str, args: Sequence[tuple[str, Value]], changed: Sequence[tuple[str, Value]]
) -> tuple[tuple[str, Value], ...]:
    """The flags with those of a choice in their place, however either names and spells them."""
    taken = {one(launcher, name) for name, _ in changed}
    return (*((name, value) for name, value in args if one(launcher, name) not in taken), *changed)


class Ours(NamedTuple):
    """A flag that a recipe adds, with its dashes. `value` is a word of the shell; true is the bare
    flag, and nothing (`None`, false, 0, an empty text) leaves it out.

    `other` are flags that say the same, or what goes with it: with any of them given, the user has
    decided.
    """

    name: str
    value: str | int | float | bool | None = True
    other: tuple[str, ...] = ()


def ours(asked: Mapping[str, object], *wanted: Ours, joined: str = " ") -> list[str]:
    """Those that the user said nothing of."""
    kept = [
        each
        for each in wanted
        if each.value and not any(plain(name) in asked for name in (each.name, *each.other))
    ]
    return [
        each.name if each.value is True else f"{each.name}{joined}{each.value}" for each in kept
    ]
