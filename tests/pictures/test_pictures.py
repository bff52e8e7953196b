"""What `make pictures` makes: pictures that stand by themselves and are said in words too, and
figures that are still true.
"""

import re
import xml.etree.ElementTree as ET

import pytest

from tests.pictures import cookbook
from tests.pictures.__main__ import PICTURES
from tests.pictures.scenes import STACK, drawn
from tests.plugin.conftest import Project

README = PICTURES.parents[1] / "README.md"
DRAWN = ["fallback.svg", "preview.svg"]


def words(name):
    """What can be read in a picture."""
    text = "".join(ET.fromstring((PICTURES / name).read_text()).itertext())
    return text.replace("\N{NO-BREAK SPACE}", " ")


def said():
    """The README's pictures: the text for whoever cannot see one, by its file."""
    found = re.findall(r"!\[([^\]]*)\]\(docs/pictures/([^)]+)\)", README.read_text())
    return {name: " ".join(text.split()) for text, name in found}


def test_a_picture_fetches_nothing() -> None:
    """No font, style sheet or image of another host: a page that shows it tells nobody."""
    assert sorted(path.name for path in PICTURES.iterdir()) == DRAWN
    for name in DRAWN:
        text = (PICTURES / name).read_text()
        assert re.findall(r"@import|@font-face|href=|src=|url\((?!#)", text) == []


def test_the_readme_says_in_words_what_its_pictures_show() -> None:
    """Each is there with a text of its own, whose figures and providers are those of the picture."""
    assert sorted(said()) == DRAWN
    for name, text in said().items():
        figures = re.findall(r"\d+\.\d\d", text)
        assert len(text) > 80 and figures
        assert [figure for figure in figures if f"${figure}" not in words(name)] == []


@pytest.mark.long
def test_the_pictures_are_what_the_commands_show_today(tmp_path) -> None:
    """`make pictures` would change nothing, neither pictures nor the prices of the cookbook."""
    project, page = Project(tmp_path, STACK), cookbook.PAGE.read_text()
    assert cookbook.priced(page, project.plan) == page, "run `make pictures`"
    for name, text in drawn(project).items():
        assert (PICTURES / name).read_text() == text, "run `make pictures`"
