"""What is said where a package is missing that only some uses need."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from manykernels._util.text import not_installed
from manykernels.displays.look import axes_of
from manykernels.report.page import write_report
from manykernels.streaming.files import arrow

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "manykernels"
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def text_of(node):
    """Return a string of the source; what it is filled with is an ellipsis."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    return ast.literal_eval(node)


def messages():
    """Yield what needs which packages, and the extra that is named for them, wherever this is said."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "not_installed":
                yield pytest.param(*map(text_of, node.args), id=str(path.relative_to(SOURCE)))


@pytest.mark.parametrize("need, extra", list(messages()))
def test_the_extra_that_is_named_brings_what_is_missing(need, extra):
    packages = re.split(r", | and ", need.split(" needs ")[1])
    assert extra in EXTRAS
    assert set(packages) <= {re.match(r"[\w-]+", line)[0] for line in EXTRAS[extra]}


def test_there_is_one_wording():
    said = [p for p in SOURCE.rglob("*.py") if re.search(r"manykernels\[", p.read_text(encoding="utf-8"))]
    assert said == [SOURCE / "_util" / "text.py"]
    assert not_installed("Rows need dask", "dask") == 'Rows need dask: pip install "manykernels[dask]"'


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_a_report_asks_for_its_packages_before_anything_is_collected(package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r'^A report needs .*: pip install "manykernels\[report\]"$'):
        write_report(None, tmp_path / "r.html", None, None)


def test_a_figure_and_a_file_ask_for_their_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(ImportError, match=r'^Figure needs matplotlib: pip install "manykernels\[plot\]"$'):
        axes_of(None, "Figure")
    with pytest.raises(ImportError, match=r'needs pyarrow: pip install "manykernels\[io\]"$'):
        arrow()
