"""What mkdocs is told besides `mkdocs.yml`. Owns the way from a file of the repository to its page:
a page of `docs/` keeps its path, a notebook becomes a page, and any other file that a page links to
is copied to `repository/`. A link to a file that is not there stays as it is, and fails the build.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(\]\()([^()\s#]+)((?:#[^()\s]*)?\))")


def on_config(config: MkDocsConfig) -> None:
    """Names the page of a notebook where the nav names the notebook."""
    config.nav = _replaced(config.nav)


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the pages of the notebooks, and the files outside `docs/` that a page links to."""
    sources = {f"docs/{file.src_uri}" for file in files if file.is_documentation_page()}
    notebooks = [file for file in files if file.src_uri.endswith(".ipynb")]
    for file in notebooks:
        page = notebook(file.content_string, Path(file.src_uri).name)
        files.append(File.generated(config, _page(file.src_uri), content=page))
    todo = sorted(sources)
    while todo:
        source = todo.pop()
        for target in linked((ROOT / source).read_text(encoding="utf-8"), source):
            if target.startswith("docs/") or target in sources or not (ROOT / target).is_file():
                continue
            sources.add(target)
            content = (ROOT / target).read_bytes()
            if target.endswith(".md"):
                todo.append(target)
            files.append(File.generated(config, site_path(target), content=content))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turns a link to a file of the repository into one to its page."""
    here = page.file.src_uri
    source = here.removeprefix("repository/") if _is_copy(here) else f"docs/{here}"

    def turned(link: str) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        if site_path(target) == here or not (ROOT / target).is_file():
            return link
        return posixpath.relpath(site_path(target), posixpath.dirname(here) or ".")

    return "\n".join(map(_cells, _lines(markdown, turned)))


def site_path(path: str) -> str:
    """Where a file of the repository stands in the site. Pure."""
    if path.startswith("docs/"):
        return _page(path.removeprefix("docs/"))
    return f"repository/{path}"


def linked(markdown: str, source: str) -> list[str]:
    """The files of the repository that a page links to, as paths from its root. Pure."""
    found: list[str] = []

    def noted(link: str) -> str:
        found.append(posixpath.normpath(posixpath.join(posixpath.dirname(source), link)))
        return link

    list(_lines(markdown, noted))
    return found


def notebook(text: str, name: str) -> str:
    """A notebook as a page: its words, its code, and a link to itself. Pure."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join([*parts, f"[The notebook itself]({name})"])


def _page(path: str) -> str:
    return re.sub(r"\.ipynb$", ".md", path)


def _is_copy(path: str) -> bool:
    return path.startswith("repository/")


def _cells(line: str) -> str:
    """The line of a table as mkdocs reads it: a bar inside code has a backslash only at GitHub."""
    bare = line.startswith("|")
    return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), line) if bare else line


def _replaced(nav: Any) -> Any:
    if isinstance(nav, str):
        return _page(nav)
    if isinstance(nav, list):
        return [_replaced(each) for each in nav]
    return {title: _replaced(each) for title, each in nav.items()} if nav else nav


def _lines(markdown: str, turned: Callable[[str], str]) -> Iterator[str]:
    """The lines, with each relative link outside code blocks turned."""

    def link(found: re.Match[str]) -> str:
        target = found[2] if re.match(r"[a-z]+:", found[2]) else turned(found[2])
        return f"{found[1]}{target}{found[3]}"

    fenced = False
    for line in markdown.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        yield line if fenced else LINK.sub(link, line)
