"""The documentation as a site: what is built, and what fails the build."""

import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests import chromium

ROOT = Path(__file__).parents[2]
COPIED = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "mkdocs.yml")


def built(project, site):
    """The site of the project, built as `make docs` builds it."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(site)],
        cwd=project,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path):
    """The pages in a folder of their own, to be broken."""
    shutil.copytree(ROOT / "docs", tmp_path / "copy" / "docs")
    for name in COPIED:
        shutil.copy(ROOT / name, tmp_path / "copy" / name)
    return tmp_path / "copy"


@pytest.mark.long
@pytest.mark.parametrize(
    "link", ["secrets.md#nowhere", "nowhere.md", "../../stacks/nowhere.yaml", "../../nowhere.md"]
)
def test_a_link_that_leads_nowhere_fails_the_build(copy, tmp_path, link) -> None:
    """To a heading, to a page, and to a file of the repository; the page is named."""
    page = copy / "docs" / "how-to" / "workdir.md"
    page.write_text(f"{page.read_text()}\n[there]({link})\n")
    done = built(copy, tmp_path / "site")
    assert done.returncode == 1
    assert "how-to/workdir.md" in done.stderr and link.removeprefix("../../") in done.stderr


@pytest.mark.long
def test_a_page_may_link_to_a_file_of_the_repository(copy, tmp_path) -> None:
    """The file is copied into the site, and the link leads there."""
    (copy / "stacks").mkdir()
    (copy / "stacks" / "mine.yaml").write_text("a: 1\n")
    page = copy / "docs" / "how-to" / "workdir.md"
    page.write_text(f"{page.read_text()}\n[there](../../stacks/mine.yaml)\n")
    done = built(copy, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "repository" / "stacks" / "mine.yaml").read_text() == "a: 1\n"
    text = (tmp_path / "site" / "how-to" / "workdir.html").read_text()
    assert 'href="../repository/stacks/mine.yaml"' in text


SAMPLE = (
    *("index", "how-to/first-stack", "how-to/notebook", "reference/cli", "reference/error-codes"),
    *("reference/python", "research/accelerators", "repository/CHANGELOG"),
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def site(tmp_path):
    """The address of the site, built and served."""
    assert built(ROOT, tmp_path / "site").returncode == 0
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "site")
    ) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.long
@chromium.needed
def test_a_browser_shows_a_page_at_any_width(site, tmp_path) -> None:
    """In light and dark no page is wider than its window, the console complains about nothing, and
    nothing is asked of another host.
    """
    asked = "performance.getEntriesByType('resource').map(each => each.name)"
    colour = "getComputedStyle(document.body).backgroundColor"
    with chromium.page(tmp_path / "profile") as shown:
        for name in SAMPLE:
            colours = set()
            for width, dark in ((400, False), (1280, True)):
                shown.open(f"{site}{name}.html", width, dark=dark)
                wide = shown.value("document.documentElement.scrollWidth")
                assert wide <= width, (name, wide)
                assert [url for url in shown.value(asked) if not url.startswith(site)] == []
                colours.add(shown.value(colour))
            assert len(colours) == 2, (name, colours)
    assert shown.errors == []
