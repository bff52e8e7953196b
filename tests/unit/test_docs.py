"""The pages: how long they may be, that their links lead somewhere, and that the reference lists
what there is.
"""

import contextlib
import re
from pathlib import Path

import pytest
import yaml

import providers
from docs import generate
from providers.adapters.aws.check import RIGHTS
from providers.cli.main import main
from providers.engine.stack_config import entry
from providers.model.spec import read_cluster
from providers.plugin.schema import SPEC_INPUTS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "providers").rglob("*.md")]
)
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")

every = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def parts(page):
    """The page's lines outside code blocks, as (number, line), and those inside them."""
    prose: list[tuple[int, str]] = []
    code: list[tuple[int, str]] = []
    inside = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        else:
            (code if inside else prose).append((number, line))
    return prose, code


def anchors(page):
    """What a link may name on the page, as GitHub makes it of the headings."""
    headings = [line.lstrip("#").strip() for _, line in parts(page)[0] if re.match(r"#+ ", line)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page):
    """Relative links of the page, as (number, path, anchor)."""
    for number, line in parts(page)[0]:
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if not re.match(r"[a-z]+:", target):
                path, _, anchor = target.partition("#")
                yield number, path, anchor


def test_the_readme_is_no_manual() -> None:
    """At most 150 lines of at most 100 columns: tables and code too."""
    lines = README.read_text().splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 100] == []


@every
def test_a_page_has_at_most_100_columns(page) -> None:
    """Tables may be longer, and so may a line of one or two words: a link cannot be wrapped."""
    prose, code = parts(page)
    long = [
        number
        for number, line in prose
        if len(line) > 100 and not line.startswith("|") and len(line.split()) > 2
    ]
    assert long + [number for number, line in code if len(line) > 100] == []


@every
def test_every_relative_link_leads_somewhere(page) -> None:
    """To a file that exists, and to a heading of it where the link names one."""
    broken = []
    for number, path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append((number, f"{path}#{anchor}" if anchor else path))
    assert broken == []


@every
def test_every_path_named_exists(page) -> None:
    """A file or folder of this repository that a page names as code, from its root on; `mine` and
    `mycloud` are the reader's.
    """
    named = set(re.findall(r"`((?:providers|tests|stacks|docs|\.ci)/[\w./-]+)`", page.read_text()))
    assert (
        sorted(
            path
            for path in named
            if not (ROOT / path).exists() and not re.search("mine|mycloud", path)
        )
        == []
    )


def test_every_page_is_reached_from_the_readme() -> None:
    """No page is left that nobody finds."""
    reached, todo = set(), [README]
    while todo:
        page = todo.pop()
        if page not in reached:
            reached.add(page)
            targets = ((page.parent / path).resolve() for _, path, _ in links(page) if path)
            todo += [target for target in targets if target.suffix == ".md"]
    assert {page for page in PAGES if page.relative_to(ROOT).parts[0] != "providers"} <= reached


def test_every_page_is_in_the_nav_of_the_site() -> None:
    """What `mkdocs.yml` leaves out fails here, before `make docs` does."""
    nav = str(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    docs = ROOT / "docs"
    pages = [*docs.rglob("*.md"), *docs.rglob("*.ipynb")]
    names = [str(page.relative_to(docs)) for page in pages]
    assert [name for name in names if f"'{name}'" not in nav] == []


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.relative_to(ROOT).parts[0] == "docs"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_says_first_what_it_is_for(page) -> None:
    """Below its title a page says what it lets you do. A decision says what was decided."""
    title, blank, first = page.read_text().splitlines()[:3]
    assert title.startswith("# ") and blank == ""
    assert first.startswith("**Decision.**" if re.match(r"\d{4}-", page.name) else "This page ")


def declarations():
    """Every cluster that a page declares in YAML, as (page, name, what it declares)."""
    for page in PAGES:
        for block in re.findall(
            r"^```yaml\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL
        ):
            found = yaml.safe_load(block)
            found = found.get("config", {}).get("gpus:clusters", found)
            yield from (
                (page, name, raw)
                for name, raw in found.items()
                if isinstance(raw, dict) and "gpu" in raw
            )


def test_every_declaration_shown_is_accepted(tmp_path, monkeypatch) -> None:
    """A cluster that a page shows can be copied as it is."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    shown = list(declarations())
    assert len(shown) >= 4
    for page, name, raw in shown:
        assert read_cluster(name, entry(raw, ROOT)).ask(), page


OPTION = re.compile(r"(?<=\s)(--?[a-zA-Z][\w-]*)")


def shown_options():
    """Every command of `gpus` in a code block, as its words up to an option, and its options."""
    for page in PAGES:
        for line in "\n".join(line for _, line in parts(page)[1]).replace("\\\n", " ").splitlines():
            if line.startswith("gpus "):
                command = re.split(r"\s#\s|\s--\s|&&|\s\[--", line)[0]
                words = command.split()[1:]
                yield (
                    tuple(words[: 2 if words[:1] == ["rehearse"] and len(words) > 1 else 1]),
                    frozenset(OPTION.findall(command)),
                )


def test_every_option_shown_exists(capsys) -> None:
    """What a page tells you to type is what the command's help lists."""
    wanted: dict[str, set[str]] = {}
    for words, options in shown_options():
        wanted.setdefault(words, set()).update(options)
    assert len(wanted) > 15
    for words, options in wanted.items():
        with contextlib.suppress(SystemExit):
            main([*words, "--help"])
        listed = set(OPTION.findall(capsys.readouterr().out))
        assert set() == options - listed, words


def test_the_readme_shows_a_stack_file_that_exists() -> None:
    """It declares what the file does, word for word but for comments."""
    block = re.findall(r"```yaml\n(.*?)```", README.read_text(), flags=re.DOTALL)[0]
    assert yaml.safe_load(
        (ROOT / "stacks" / "Pulumi.train-h100x8.yaml").read_text()
    ) == yaml.safe_load(block)


def test_the_tutorial_names_every_stack() -> None:
    """Each declared stack is introduced."""
    named = (ROOT / "docs" / "tutorial.md").read_text()
    stacks = [
        path.name.removeprefix("Pulumi.").removesuffix(".yaml")
        for path in (ROOT / "stacks").glob("Pulumi.*.yaml")
    ]
    assert [stack for stack in stacks if f"`{stack}`" not in named] == []


def commands(capsys, *words):
    """The commands that `gpus WORDS --help` shows."""
    with contextlib.suppress(SystemExit):
        main([*words, "--help"])
    listed = capsys.readouterr().out
    return [
        " ".join(("gpus", *words, name))
        for name in re.findall(r"^ {2,4}([a-z][a-z-]+)(?: |$)", listed, flags=re.MULTILINE)
    ]


def test_the_command_reference_lists_every_command(capsys) -> None:
    """Each command that `gpus --help` shows is in a table of the page."""
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    found = [*commands(capsys), *commands(capsys, "rehearse")]
    assert {"gpus plan", "gpus ssh-config", "gpus rehearse stock"} <= set(found)
    assert [name for name in found if f"| `{name}" not in text] == []


def named_in_rows(page):
    """What stands as code in the first column of the page's tables."""
    return {
        name
        for _, line in parts(page)[0]
        if line.startswith("|")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }


# The Python API has a Pulumi resource, and importing Pulumi takes longer than a second.
MADE = [
    pytest.param(page, id=page.name, marks=[pytest.mark.long] * (page.name == "python.md"))
    for page in generate.pages()
]


@pytest.mark.parametrize("page", MADE)
def test_the_reference_says_what_the_code_says(page) -> None:
    """Else `python -m docs.generate` was not run after a change of what the code says of itself."""
    text = page.read_text("utf-8")
    assert generate.current(text).splitlines() == text.splitlines()


def test_a_text_of_the_code_is_no_markdown_in_a_cell() -> None:
    """Bars, stars, brackets and tags are shown as they are; code stays code."""
    assert generate.plain("a | b, '*' or `x|y`\nin <here> [z](y)") == (
        "a \\| b, '\\*' or `x\\|y` in &lt;here> \\[z](y)"
    )


def test_the_spec_reference_lists_every_field() -> None:
    """Each input of a cluster has a row."""
    assert set() == set(SPEC_INPUTS) - named_in_rows(ROOT / "docs" / "reference" / "spec.md")


def test_the_python_reference_lists_every_public_name() -> None:
    """Each has a row, and nothing else has."""
    text = (ROOT / "docs" / "reference" / "python.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `p.")]
    assert {name for row in rows for name in re.findall(r"`p\.(\w+)`", row)} == set(
        providers.__all__
    )


def test_the_page_on_aws_names_every_right() -> None:
    """What a refusal sends you to the page for stands there."""
    text = (ROOT / "docs" / "providers" / "aws.md").read_text()
    rights = re.findall(r"\w+:\w+\*?|[A-Z]\w+", RIGHTS.replace(" for an instance profile", ""))
    assert len(rights) > 20
    assert [right for right in rights if right not in text] == []
