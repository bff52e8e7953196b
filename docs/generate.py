"""Writes what the pages have from the code: `python -m docs.generate`. Owns the form of these
parts; their words are those of the code.

A page names a part between `<!-- generated: NAME -->` and `<!-- end -->`. Whatever stands between
is replaced.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import providers
from providers.adapters import registry
from providers.cli.main import every
from providers.engine.reconcile import steps
from providers.model import spec_fields, workload_spec
from providers.model.spec import Cluster
from providers.plugin.schema import CLUSTER_OUTPUTS, VOLUME_OUTPUTS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pydantic import BaseModel

    from providers.cli.arguments import Parser
    from providers.errors import CloudError

DOCS = Path(__file__).parent
PART = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def current(page: str) -> str:
    """The page's text with every generated part as the code has it now."""
    return PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n\n{found[3]}", page)


def pages() -> list[Path]:
    """The pages that have a generated part."""
    return [page for page in sorted(DOCS.rglob("*.md")) if PART.search(page.read_text("utf-8"))]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown. Cells are Markdown themselves. Pure."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(
        f"| {' | '.join(cells)} |" if cells is not lines[1] else f"|{'|'.join(cells)}|"
        for cells in lines
    )


def plain(text: str) -> str:
    """A text of the code as it may stand in a cell: on one line, with nothing in it that Markdown
    takes for its own but code. Pure.
    """
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(
        part.replace("|", "\\|")
        if part.startswith("`")
        else re.sub(r"([*|\[])", r"\\\1", part).replace("<", "&lt;")
        for part in parts
    )


def code(text: str) -> str:
    """A text as code in a cell. Pure."""
    return f"`{text}`".replace("|", "\\|")


# ---- the command line


def commands() -> str:
    """Every command with what it takes, in the order of the alphabet."""
    parts = [_command(name, parser) for name, parser in sorted(_parsers(every()))]
    return "\n\n".join(parts)


def _parsers(parser: Parser, prefix: str = "gpus") -> Iterator[tuple[str, Parser]]:
    for name, each in parser.commands.items():
        yield f"{prefix} {name}", each
        yield from _parsers(each, f"{prefix} {name}")


def _command(name: str, parser: Parser) -> str:
    said = plain(parser.description or "")
    parts = [f"### `{name}`", "\n".join(textwrap.wrap(f"{said[:1].upper()}{said[1:]}", 100))]
    if parser.usage:
        parts.append(f"```\n{parser.usage.replace(' | ', chr(10))}\n```")
    taken = [
        each
        for each in parser.actions
        if each.dest != "help" and not isinstance(each.choices, dict)
    ]
    if taken:
        rows = ((_names(each), _meaning(each)) for each in taken)
        parts.append(table(("argument", "meaning"), rows))
    if parser.epilog:
        wrapped = (
            textwrap.fill(line, 99, subsequent_indent=" " * 18)
            for line in parser.epilog.splitlines()
        )
        parts.append("```\n" + "\n".join(wrapped) + "\n```")
    return "\n\n".join(parts)


def _names(action: argparse.Action) -> str:
    value = action.metavar or ("" if action.choices else action.dest.upper())
    if not action.option_strings:
        return code(str(action.metavar or action.dest))
    shown = f" {value}" if value and action.nargs != 0 else ""
    return ", ".join(code(f"{option}{shown}") for option in action.option_strings)


def _meaning(action: argparse.Action) -> str:
    said = plain((action.help or "") % {**vars(action), "prog": "gpus"})
    choices = ", ".join(map(code, action.choices or ()))
    return f"{choices}: {said}" if choices else said


# ---- the spec


SEE = {
    "kind": "See [Kinds](#kinds).",
    "nodes": "See [several nodes](../how-to/several-nodes.md).",
    "replicas": "See [replicas](../how-to/replicas.md).",
    "tls": (
        "As in `{domain: api.example.com, certificate: {gcp: projects/P/secrets/X}}`: see"
        " [TLS](../how-to/replicas.md#tls)."
    ),
    "providers": "Clore is a marketplace.",
    "fallback": "See [Fields of a fallback](#fields-of-a-fallback).",
    "accept_suspect_prices": "See [Prices](#prices).",
    "prices": "See [Negotiated rates](#negotiated-rates).",
    "network": "They are resources of `pulumi_gcp`.",
    "wait": "See [Waiting](#waiting).",
    "hedge": "See [two providers at once](../how-to/wait-for-capacity.md#two-providers-at-once).",
    "acquire": "See [wait for capacity](../how-to/wait-for-capacity.md#in-a-stack).",
    "block": "See [a block](../how-to/wait-for-capacity.md#a-block-of-ec2s-calendar).",
    "idle_after": "See [budgets](../how-to/budgets.md#idle-machines).",
    "on_loss": "See [Losses](#losses).",
    "state": "See [Stopping](#stopping).",
    "accept": "See [accept a machine](../how-to/accept-a-machine.md#as-a-step-of-up).",
    "ready": "See [readiness](../how-to/reach-a-machine.md#readiness).",
    "disk_gib": "See [disk and driver](../how-to/workloads.md#disk-and-driver).",
    "secrets": "See [secrets](../how-to/secrets.md).",
    "options": "See [the provider's page](../README.md#providers).",
    "triggers": "See [Rerun and reclaim](#rerun-and-reclaim).",
    "workload": "See [Fields of a workload](#fields-of-a-workload).",
    "workdir": "See [bring your code](../how-to/workdir.md).",
    "registry": "See [private images](../how-to/data.md#private-images).",
    "setup": "See [set-up lines](../how-to/workloads.md#set-up-lines).",
    "env": "For secrets see [secrets](../how-to/secrets.md).",
    "checkpoint": (
        "In `gs://`, `s3://` or a Modal `volume:NAME`: see [checkpoints](../how-to/checkpoints.md)."
    ),
    "mounts": "See [data](../how-to/data.md).",
    "volumes": "See [volumes](../how-to/volumes.md).",
    "on_done": "See [when a job ends](../how-to/workloads.md#when-a-job-ends).",
    "services": "See [Of services](#of-services).",
}
"""What the page adds to a field: examples that name a cloud, and where more is said."""


def fields(model: type[BaseModel], *, see: bool = True, own: bool = False) -> str:
    """The fields of a part of the spec that have words: what each takes, and what it says; with
    `own`, without those of the class that it is made of.
    """
    rows = [
        (
            code(name),
            _kind(each, needed=model.model_fields[name].is_required()),
            " ".join(filter(None, (plain(each["description"]), SEE.get(name, "") if see else ""))),
        )
        for name, each in model.model_json_schema()["properties"].items()
        if "description" in each and not (own and name not in inspect.get_annotations(model))
    ]
    return table(("field", "value", "meaning"), rows)


def parts() -> str:
    """The parts of a workload, each with its fields."""
    found = []
    for title, model in (
        ("services", workload_spec.Task),
        ("registry", workload_spec.Registry),
        ("checkpoint", workload_spec.Checkpoint),
        ("mounts", workload_spec.Mount),
        ("volumes", workload_spec.VolumeUse),
        ("train", workload_spec.Train),
    ):
        found += [f"### Of `{title}`", fields(model, see=False, own=True)]
    return "\n\n".join(found)


def _kind(schema: Mapping[str, Any], *, needed: bool) -> str:
    """What a field takes, and what it is without one."""
    said, default = _values(schema), schema.get("default")
    if needed:
        return f"{said}; needed"
    shown = isinstance(default, (str, int)) and default
    return f"{said}; {code(str(default))} if left out" if shown else said


def _values(schema: Mapping[str, Any]) -> str:
    choices = schema.get("enum") or []
    if choices:
        return ", ".join(map(code, choices))
    either = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if either:
        kinds = {each.get("type", "") for each in either}
        if "string" in kinds and kinds & {"integer", "number"} and schema.get("default") != 0:
            return "duration"
        return " or ".join(dict.fromkeys(map(_values, either)))
    if schema.get("$ref", "").endswith("/Workdir"):
        return "path, or mapping"
    return "mapping" if "$ref" in schema else _plain_kind(schema)


def _plain_kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "")
    if kind == "array":
        kinds = _values(schema["items"])
        return "list of " + re.sub(r"\b(text|mapping|number)\b", r"\1s", kinds)
    if kind == "object":
        return "mapping"
    if kind not in ("integer", "number"):
        return {"string": "text", "boolean": "`true` or `false`"}.get(kind, "any")
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    name = "whole number" if kind == "integer" else "number"
    if high is None:
        return name
    above = "above " if "exclusiveMinimum" in schema else ""
    return f"{name}, {above}{int(low or 0):,} to {int(high):,}"


# ---- outputs, conditions, error codes


def outputs(listed: Mapping[str, Any]) -> str:
    """Outputs of a resource with what each says."""
    return table(
        ("output", "meaning"),
        ((code(name), plain(each["description"])) for name, each in listed.items()),
    )


def error_codes() -> str:
    """Every code of every provider, with its class and what to do."""
    head = ("code", "class", "meaning, or what to do")
    parts = []
    for name, manifest in sorted(registry.manifests().items()):
        rows = _error_rows(importlib.import_module(f"{manifest.connect.__module__}.errors"))
        lines = ((code(text), _classes(row), plain(_todo(row))) for text, row in rows.items())
        parts += [f"## {name}", table(head, lines)]
    return "\n\n".join(parts)


def _error_rows(module: Any) -> dict[str, Any]:
    """The rows of the tables of an adapter's `errors`, by their codes; of client exceptions too."""
    found: dict[str, Any] = {}
    for value in vars(module).values():
        rows: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            rows = value.items()
        elif isinstance(value, tuple) and not hasattr(value, "_fields"):
            rows = [(getattr(row, "code", ""), row) for row in value]
        found |= {str(each): row for each, row in rows if type(row).__name__ == "Row"}
    return found


def _classes(row: Any) -> str:
    """The class on a call that creates, and that on another one where it differs."""
    creating: type[CloudError] = getattr(row, "creating", None) or row.kind
    reading: type[CloudError] | None = row.reading
    if reading is None or reading is creating:
        return code(creating.__name__)
    return f"{code(creating.__name__)}; of a call that creates nothing {code(reading.__name__)}"


def _todo(row: Any) -> str:
    return "; ".join(filter(None, (getattr(row, "meaning", ""), row.todo)))


# ---- the Python API


def api() -> str:
    """Every public name with its signature and its docstring, in the order of the alphabet."""
    return "\n\n".join(map(_public, sorted(providers.__all__, key=str.lower)))


def _public(name: str) -> str:
    found = getattr(providers, name)
    parts = [f"### `p.{name}`", *_signature(name, found), _words(found)]
    rows = list(_members(found)) if isinstance(found, type) else []
    if rows:
        parts.append(table(("member", "what it is"), rows))
    return "\n\n".join(parts)


def _words(found: Any) -> str:
    """The docstring, as Markdown."""
    paragraphs = inspect.cleandoc(found.__doc__ or "").split("\n\n")
    return "\n\n".join("\n".join(textwrap.wrap(plain(each), 100)) for each in paragraphs)


def _signature(name: str, found: Any) -> Iterator[str]:
    if isinstance(found, type):
        return
    sign = inspect.signature(found)
    lines, starred = [], False
    for each in sign.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            lines.append("*")
        starred |= each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(each.kind.name, "")
        default = "" if each.default is each.empty else f" = {each.default!r}"
        lines.append(f"{star}{each.name}: {each.annotation}{default}")
    taken = "".join(f"    {line},\n" for line in lines)
    yield f"```python\n{name}(\n{taken}) -> {sign.return_annotation}\n```"


def _members(found: type) -> Iterator[tuple[str, str]]:
    """Public fields, properties and methods that the class itself has."""
    for name, kind in inspect.get_annotations(found).items():
        if not name.startswith("_") and not hasattr(found, "model_fields"):
            yield code(name), code(str(getattr(kind, "__forward_arg__", kind)))
    for name, member in vars(found).items():
        if name.startswith("_") or not getattr(member, "__doc__", None):
            continue
        first = plain(str(member.__doc__).split("\n\n")[0])
        if isinstance(member, property):
            yield code(name), first
        elif inspect.isfunction(member):
            yield code(f"{name}()"), first


PARTS: dict[str, Callable[[], str]] = {
    "cluster": lambda: fields(Cluster),
    "fallback": lambda: fields(spec_fields.Fallback, see=False),
    "override": lambda: fields(spec_fields.Override, see=False),
    "workload": lambda: fields(workload_spec.Workload),
    "workload-parts": parts,
    "commands": commands,
    "conditions": steps.as_markdown,
    "outputs": lambda: outputs(CLUSTER_OUTPUTS),
    "volume-outputs": lambda: outputs(VOLUME_OUTPUTS),
    "error-codes": error_codes,
    "api": api,
}
"""What each part is made of."""


def main() -> None:
    """Writes the pages whose generated parts have changed, and names them."""
    for page in pages():
        before = page.read_text("utf-8")
        after = current(before)
        if after != before:
            page.write_text(after, "utf-8")
            print(page.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
