"""How every command reads its arguments, and what a wrong one reads like: one line of what was
wanted, what was found, and what to do.

Owns only that line; the commands own their arguments. Must not import anything heavy: it stands on
the way to a plan.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from providers.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

_KINDS = {int: "a whole number", float: "a number"}


class Parser(argparse.ArgumentParser):
    """As argparse's, but a wrong argument raises SpecError instead of printing the usage and
    leaving the process.

    Commands below one are read by the same class: argparse makes them of their parent's. Options
    are written in full: a short form that is clear today would be another option's tomorrow.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        """The arguments, read. Raises SpecError, also for what no argument takes."""
        words = sys.argv[1:] if args is None else list(args)
        command = self.command_of(words)
        known = command.options
        for word in words:
            name = word.partition("=")[0]
            if name.startswith("--") and name not in known and (near := _near(name, known)):
                # Before argparse tells what else is missing for want of it.
                raise SpecError(
                    [
                        Problem(
                            "",
                            f"options of `{command.prog}`",
                            repr(name),
                            f"{near}`{command.prog} --help` lists them",
                        )
                    ]
                )
        options, unread = self.parse_known_args(words, namespace)
        if unread:
            command = self if words[:1] == unread[:1] else command
            raise SpecError(
                [
                    Problem(
                        "",
                        f"arguments of `{command.prog}`",
                        " ".join(map(repr, unread)),
                        f"`{command.prog} --help` lists them",
                    )
                ]
            )
        return options

    def command_of(self, words: Sequence[str]) -> Parser:
        """The parser of the command that these words name; this one where they name none."""
        commands = self.commands
        return next((commands[word] for word in words if word in commands), self)

    @property
    def options(self) -> list[str]:
        """The options of this parser, each as it is written."""
        return list(self._option_string_actions)

    @property
    def actions(self) -> Sequence[argparse.Action]:
        """The arguments of this parser, options included."""
        return self._actions

    @property
    def commands(self) -> dict[str, Parser]:
        """The parsers of the commands below this one, by name."""
        return next((each.choices for each in self._actions if isinstance(each.choices, dict)), {})

    def error(self, message: str) -> NoReturn:
        """Raises SpecError for what argparse found wrong; its own words stand where no others are
        known.
        """
        found = sys.exc_info()[1]
        todo = f"`{self.prog} --help` says more"
        if isinstance(found, argparse.ArgumentError):
            wanted, colon, rest = found.message.partition(_FOUND)
            path = found.argument_name or ""
            if colon:
                raise SpecError([Problem(path, wanted, rest, todo)]) from None
            if found.message.startswith("expected "):
                raise SpecError(
                    [
                        Problem(
                            path,
                            found.message.removeprefix("expected ").replace("argument", "value"),
                            "none",
                            todo,
                        )
                    ]
                ) from None
            if found.message.startswith("ignored explicit argument "):
                value = found.message.removeprefix("ignored explicit argument ")
                raise SpecError([Problem(path, "no value", value, "leave it out")]) from None
            if found.message.startswith("not allowed with argument "):
                other = found.message.removeprefix("not allowed with argument ")
                raise SpecError(
                    [Problem(path, f"this or {other}", "both", "leave one out")]
                ) from None
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            raise SpecError(
                [
                    Problem(
                        missing, "a value for each" if ", " in missing else "a value", "none", todo
                    )
                ]
            ) from None
        raise SpecError(
            [Problem("", f"arguments as `{self.prog} --help` lists them", message)]
        ) from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            near = _near(str(value), map(str, action.choices)).removesuffix("; ")
            raise argparse.ArgumentError(
                action, f"{_listed(action.choices)}{_FOUND}{value!r}{f'; {near}' if near else ''}"
            )

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            kind = _KINDS.get(action.type) if isinstance(action.type, type) else None
            # A type of ours says itself what it wanted.
            said = (
                f"{kind}{_FOUND}{arg_string!r}" if kind else error.message.removeprefix("wanted ")
            )
            raise argparse.ArgumentError(action, said) from None


def as_options(error: SpecError, words: Sequence[str]) -> SpecError:
    """What is wrong with a field whose value came by an option, as the option that was written."""
    own = words[: words.index("--")] if "--" in words else words
    given = {word.partition("=")[0] for word in own if word.startswith("--")}
    return SpecError([_as_option(problem, given) for problem in error.problems])


def _as_option(problem: Problem, given: Container[str]) -> Problem:
    field = problem.path.partition("[")[0]
    name = f"--{field.replace('_', '-')}"
    option = next((each for each in (name, name.removesuffix("s")) if each in given), "")
    if not option or problem.path.partition("]")[2]:
        return problem
    _, write, line = problem.todo.rpartition("write ")
    if not write or problem.todo != f"write {line}":
        return problem._replace(path=option)
    return problem._replace(path=option, todo=f"write {option} {line.removeprefix(f'{field}: ')}")


_FOUND = ", found "


def _near(word: str, known: Iterable[str]) -> str:
    """`did you mean plan?; ` for a word that is nearly a known one; empty for any other."""
    import difflib

    # Dashes that all of them have say nothing.
    bare = {each.lstrip("-"): each for each in known}
    close = difflib.get_close_matches(word.lstrip("-"), list(bare), n=1, cutoff=0.7)
    return f"did you mean {bare[close[0]]}?; " if close else ""


def _listed(choices: Any) -> str:
    names = [str(each) for each in choices]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
