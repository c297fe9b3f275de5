"""The code on the pages runs, prints what they show, and their links lead somewhere."""

import ast
import html
import itertools
import os
import re

import numpy as np
import pandas as pd
import pytest
from tests.docs.pages import DOCS, differences, pages, run, written

#: What a page shows was printed by other versions of NumPy and BLAS; a figure that means something is not further away.
REL, SLACK = 0.05, 0.02


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", pages(), ids=lambda path: path.stem)
def test_the_code_on_a_page_runs_and_prints_what_the_page_shows(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for block, printed in run(path):
        if block.output is not None:
            assert not differences(block.output, printed, REL, SLACK), f"{path.name}, line {block.line}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    """In one namespace, with rows, columns and files as its blocks name them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((60, 91)), columns=[*map(str, range(90)), "age"])
    y = X["age"] + X["0"] > 0
    os.mkdir("folder-of-parquet")
    X.assign(label=y).to_parquet("folder-of-parquet/rows.parquet")
    X.to_parquet("new-rows.parquet")
    table = X[["0", "age"]].assign(text=np.where(y, "yes", "no"))
    blocks = list(run(DOCS.parent / "README.md", {"table": table, "X": X, "y": y}))
    assert len(blocks) >= 4 and "kernel" in blocks[0][1]
    assert {"model.mk", "predictions.parquet"} <= set(os.listdir())


def test_an_output_that_differs_is_told():
    assert differences("score 0.91\n", "score 0.71\n", REL, SLACK)
    assert differences("score 0.91\n", "error 0.91\n", REL, SLACK)
    assert not differences("score 0.91\n", "score  0.912\n", REL, SLACK)


def test_the_flowchart_leads_to_pages_that_exist():
    page = (DOCS / "which_solver.md").read_text()
    targets = [html.unescape(t) for t in re.findall(r'href="([^"#]+)\.html', page)]
    assert len(targets) > 10
    assert [t for t in targets if not os.path.exists(DOCS / f"{t}.md")] == []
    # The same places in words, below the picture.
    words = page.partition("### The same in words")[2]
    assert [
        t for t in targets if f"({t}.md" not in words and f"({t.removeprefix('./')}.md" not in words
    ] == []


def _headings(text):
    """The levels of the headings of a page, in order; lines of code that begin with # are none."""
    prose = re.sub(r"^(```+|:::+).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return [len(marks) for marks in re.findall(r"^(#+) ", prose, re.MULTILINE)]


@pytest.mark.parametrize("path", written(), ids=lambda path: path.stem)
def test_headings_leave_out_no_level(path):
    """Sphinx warns of it, and warnings are errors in `make docs`, which takes minutes."""
    levels = _headings(path.read_text(encoding="utf-8"))
    assert levels[0] == 1
    assert [(a, b) for a, b in itertools.pairwise(levels) if b > a + 1] == []


def _taken_for_links(docstring):
    """Names that end in an underscore, outside literals and before no type: reStructuredText takes them for links."""
    text = re.sub(r"(`+)[^`]+\1", "", docstring)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith((">>>", "..."))]
    prose = "\n".join(line.split(" : ", 1)[-1] if re.match(r"[\w, ]+ : ", line) else line for line in lines)
    return re.findall(r"(?<![\w*.])[A-Za-z]\w*_(?=[,.;)\s]|$)", prose)


def test_no_docstring_holds_a_link_that_leads_nowhere():
    found = {}
    for path in (DOCS.parent / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                names = _taken_for_links(ast.get_docstring(node) or "")
                found |= {f"{path.name}, {node.name}": names} if names else {}
    assert found == {}
    assert _taken_for_links("Of ``a_`` and b_, all.") == ["b_"]
