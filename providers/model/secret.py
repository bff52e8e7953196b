"""Secrets of a declaration: where one is kept, by provider, and what looks like one in a place
where none may stand. Pure.

Owns the names that a secret may have, and the known shapes of keys and tokens. A value never stands
in a declaration: it would lie in the state as plain text. Imports nothing heavy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST = 32
NAME = re.compile(r"^[A-Z][A-Z0-9_]{0,63}\Z")
"""The name of an environment variable, in capitals: what a workload reads it by."""
_TAKEN = re.compile(
    r"^(PATH|HOME|USER|LOGNAME|SHELL|IFS|ENV|PWD|PS[0-9]|BASH.*|LD_.*|DYLD_.*|PYTHON(PATH|HOME|STARTUP)|PERL5?(LIB|OPT)|NODE_OPTIONS|PROMPT_COMMAND|SHELLOPTS|GPUS_.*)\Z"
)
"""Variables that decide what is run, or that are ours."""
REGISTRY_PASSWORD = "GPUS_REGISTRY_PASSWORD"  # noqa: S105 - the name of a variable
"""The name by which the password of an image's registry is fetched: no workload finds it."""
REGISTRY_PATH = "workload.registry.password"
"""Where its references are declared."""
TLS_CERTIFICATE, TLS_PATH = "GPUS_TLS_CERTIFICATE", "tls.certificate"
"""The name by which a proxy's certificate is fetched, with its key, and where its references are
declared: no workload finds it.
"""
_PATHS = {REGISTRY_PASSWORD: REGISTRY_PATH, TLS_CERTIFICATE: TLS_PATH}
INSTEAD = (
    "keep it where the machine can fetch it, and name that place: secrets: {NAME: {gcp:"
    " projects/P/secrets/X, aws: ssm:/path, modal: SECRET}}"
)

_SHAPES = (
    ("a Hugging Face token", r"hf_[A-Za-z0-9]{16,}"),
    ("an API key", r"sk-[A-Za-z0-9_-]{16,}"),
    ("an AWS access key", r"(AKIA|ASIA)[0-9A-Z]{16}"),
    ("a GitHub token", r"(gh[opsru]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    ("a GitLab token", r"glpat-[A-Za-z0-9_-]{16,}"),
    ("a Slack token", r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("a Google API key", r"AIza[0-9A-Za-z_-]{35}"),
    ("a Google access token", r"ya29\.[0-9A-Za-z_-]{20,}"),
    ("an NVIDIA API key", r"nvapi-[A-Za-z0-9_-]{20,}"),
    ("a Modal token", r"a[ks]-[A-Za-z0-9]{20,}"),
    ("a Pulumi token", r"pul-[0-9a-f]{32,}"),
    ("a JSON web token", r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
)
"""(what it is, how it begins). From each vendor's own documentation of its tokens, or its tokens as
commonly seen, 2026-11.
"""
_SHAPE = re.compile(
    "|".join(f"(?P<s{index}>(?<![A-Za-z0-9]){shape})" for index, (_, shape) in enumerate(_SHAPES))
)
_FIELD = re.compile(
    r"(^|_)(password|passwd|passphrase|token|secret|api_?key|access_?key|secret_?key|private_?key|credentials?)\Z|^key\Z",
    re.IGNORECASE,
)
"""The names of fields under `options` whose text is taken for a secret, whatever it looks like."""


class Plain(NamedTuple):
    """A value that must not stand where it does. `value` is for taking it out of messages, never
    for showing.
    """

    path: str
    what: str
    value: str


def plain_ones(raw: Mapping[str, Any]) -> list[Plain]:
    """Every text of a raw cluster object that is, or seems to be, a secret's value: by its shape
    anywhere, by its field's name under `options`.
    """
    found = [
        plain
        for key, value in raw.items()
        if key != "secrets"
        for plain in _look(str(key), value, options=key == "options")
    ]
    own = [plain for path in _PATHS.values() for plain in _values(path, _at(raw, path), 1)]
    return [*found, *_values("secrets", raw.get("secrets"), 0), *own]


def _at(raw: Any, path: str) -> Any:
    """What stands at this path; None where nothing does."""
    for key in path.split("."):
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw


def _values(path: str, value: Any, depth: int) -> Iterator[Plain]:
    """What stands under `secrets` where a mapping of references should: the value itself, most
    likely, whatever it looks like.
    """
    from collections.abc import Mapping as AnyMapping

    if isinstance(value, AnyMapping) and depth < 2:
        for key, inner in value.items():
            yield from _values(f"{path}.{key}", inner, depth + 1)
    elif depth == 2 and isinstance(value, str):
        yield from _shaped(path, value)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield Plain(path, "a value in the place of references", str(value))


def _look(path: str, value: Any, *, options: bool) -> Iterator[Plain]:
    from collections.abc import Mapping as AnyMapping

    if isinstance(value, AnyMapping):
        for key, inner in value.items():
            # A key may be one, too: a mapping written the wrong way round.
            yield from _shaped(f"{path}", str(key))
            if (
                options
                and _FIELD.search(str(key))
                and isinstance(inner, (str, int, float))
                and not isinstance(inner, bool)
                and str(inner)
            ):
                yield Plain(f"{path}.{key}", "a value of a field that holds a secret", str(inner))
            else:
                yield from _look(f"{path}.{key}", inner, options=options)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _look(f"{path}[{index}]", inner, options=options)
    elif isinstance(value, str):
        yield from _shaped(path, value)


def _shaped(path: str, text: str) -> Iterator[Plain]:
    for match in _SHAPE.finditer(text):
        yield Plain(path, f"what looks like {_SHAPES[int(str(match.lastgroup)[1:])][0]}", match[0])
        yield Plain(path, "", text)


def problems_of(found: Sequence[Plain]) -> list[Problem]:
    """One problem for each place, without the value."""
    seen = dict.fromkeys((without(plain.path, found), plain.what) for plain in found if plain.what)
    return [
        Problem(
            path,
            "no secret's value in a declaration, which the state keeps as plain text",
            what,
            INSTEAD,
        )
        for path, what in seen
    ]


def without(text: str, found: Sequence[Plain]) -> str:
    """The text without these values, nor their quoted forms."""
    for plain in sorted(found, key=lambda each: -len(each.value)):
        for form in dict.fromkeys((plain.value, repr(plain.value)[1:-1], plain.value[:79])):
            if len(form) >= 4:
                text = text.replace(form, "(secret)")
    return text


def hidden(problem: Problem, found: Sequence[Plain]) -> Problem:
    """The problem without these values."""
    return Problem(*(without(part, found) for part in problem))


def told(problems: Sequence[Problem], found: Sequence[Plain]) -> list[Problem]:
    """The problems without these values, each once; where one of them is named as a secret, not a
    second time for being of the wrong type. Pure.
    """
    if not found:
        return list(dict.fromkeys(problems))
    named = {without(plain.path, found) for plain in found}
    clean = dict.fromkeys(hidden(problem, found) for problem in problems)
    return [
        each
        for each in clean
        if each.found.strip("'\"") != "(secret)"
        or not any(path.startswith(each.path) for path in named)
    ]


def problems(secrets: Mapping[str, Mapping[str, str]]) -> list[Problem]:
    """What is wrong with the names, and with their being references at all; what a reference looks
    like at a provider is its adapter's business.
    """
    out: list[Problem] = []
    if len(secrets) > MOST:
        out.append(Problem("secrets", f"at most {MOST}", str(len(secrets))))
    for name, references in secrets.items():
        path = f"secrets.{name}"
        if not NAME.match(name):
            out.append(
                Problem(
                    path,
                    "the name of an environment variable: capitals, digits and _, at most 64",
                    repr(name)[:80],
                )
            )
        elif _TAKEN.match(name):
            out.append(
                Problem(
                    path,
                    "a name that decides on nothing but its secret",
                    repr(name),
                    "call it something else",
                )
            )
        if not references:
            out.append(Problem(path, "a reference for at least one provider", "none", INSTEAD))
    return out


def narrowed(secrets: Sequence[tuple[str, object]], provider: str) -> tuple[tuple[str, str], ...]:
    """(name, reference) of what a provider is to fetch, of a declaration's (name, ((provider,
    reference), ...)).
    """
    pairs: Any = secrets
    return tuple(
        (name, reference)
        for name, references in pairs
        for where, reference in references
        if where == provider
    )


def referred(secrets: Sequence[tuple[str, object]]) -> tuple[tuple[str, str], ...]:
    """(name, reference) of an order, whose secrets are its provider's own."""
    return tuple((name, str(reference)) for name, reference in secrets)


def without_registry(secrets: Sequence[tuple[str, object]]) -> tuple[tuple[str, str], ...]:
    """(name, reference) of what an order's program finds: all but its registry's password."""
    return tuple(pair for pair in referred(secrets) if pair[0] != REGISTRY_PASSWORD)


def path_of(name: str) -> str:
    """Where the references of a secret are declared."""
    return _PATHS.get(name, f"secrets.{name}")


def providers_of(secrets: Sequence[tuple[str, object]]) -> frozenset[str]:
    """The providers that some secret of a declaration has a reference for."""
    pairs: Any = secrets
    return frozenset(where for _, references in pairs for where, _ in references)
