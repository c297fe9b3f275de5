"""The notebook of the quick start runs from top to bottom."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "quickstart.ipynb"


@pytest.mark.slow
def test_the_notebook_runs_and_becomes_a_page():
    pytest.importorskip("ipykernel", reason="ipykernel is not installed (extra: notebook)")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (extra: notebook)")
    nbconvert = pytest.importorskip("nbconvert", reason="nbconvert is not installed (extra: notebook)")
    from nbconvert.preprocessors import ExecutePreprocessor

    book = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(book)
    assert not any(cell.get("outputs") for cell in book.cells), "outputs are left out of the repository"
    ExecutePreprocessor(timeout=600).preprocess(book)
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    page, _ = nbconvert.HTMLExporter().from_notebook_node(book)
    assert "rows left out" in page
