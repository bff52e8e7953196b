"""`python -m tests.pictures`: makes docs/pictures anew, and the prices of the cookbook; a run without
changes makes no difference.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.pictures import cookbook
from tests.pictures.scenes import STACK, drawn
from tests.plugin.conftest import Project

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder), STACK)
        page = cookbook.priced(cookbook.PAGE.read_text(), project.plan)
        cookbook.PAGE.write_text(page)
        for name, text in drawn(project).items():
            (PICTURES / name).write_text(text)


if __name__ == "__main__":
    main()
