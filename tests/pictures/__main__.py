"""`python -m tests.pictures`: makes docs/pictures anew; a run without changes makes no difference."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.pictures.scenes import drawn

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in drawn(Path(folder)).items():
            (PICTURES / name).write_text(text)
            print(f"docs/pictures/{name}")


if __name__ == "__main__":
    main()
