"""The example notebook of the docs, executed."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs" / "how-to" / "notebook.ipynb"


def test_the_notebook_is_kept_without_its_outputs() -> None:
    """They would be stale with the next prices."""
    cells = nbformat.read(NOTEBOOK, 4).cells
    assert all(not cell.outputs for cell in cells if cell.cell_type == "code")


@pytest.mark.long
def test_every_cell_of_the_notebook_runs_and_shows_tables(tmp_path, monkeypatch) -> None:
    """In a home of its own: offers, a plan and a machine show themselves as HTML, and the machine
    is released.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, 4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [
        output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})
    ]
    assert sum(each.startswith("<table>") for each in shown) == 3
    said = "".join(output.text for output in outputs if output.output_type == "stream")
    assert "acquired" in said and "released, confirmed" in said
