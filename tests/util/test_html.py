"""What notebooks show: tables and curves that are well-formed and say what they should."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import load_iris

from manykernels import MKLClassifier, MKLRegressor
from manykernels._util.html import bar_table, curve, escaped
from manykernels.families import Products
from manykernels.findings import components, stability
from manykernels.solvers import Greedy, LpNorm


def texts(page):
    """Return the texts of a piece of HTML, which must be well-formed."""
    return [text for text in ET.fromstring(f"<div>{page}</div>").itertext() if text.strip()]


def test_text_cannot_become_markup():
    records = [{"kernel": "<script>x & y", "share": 0.75}, {"kernel": "b", "share": 0.25}]
    page = bar_table(records, {"kernel": "Kernel", "share": "Share"}, "share")
    assert "<script>" not in page
    assert texts(page) == ["Kernel", "Share", "<script>x & y", " 75.0 %", "b", " 25.0 %"]
    assert escaped(1 / 3) == "0.3333"


def test_what_is_not_shown_is_counted():
    records = [{"kernel": f"k{i}", "share": 0.1} for i in range(10)]
    assert (
        texts(bar_table(records, {"kernel": "Kernel", "share": "Share"}, "share", top=7))[-1]
        == "3 more, 30.0 %"
    )


def test_a_curve_stays_within_its_picture():
    page = curve([0, 1, 2], [5.0, 5.0, 7.0], "a & b", width=100, height=50)
    svg = next(iter(ET.fromstring(page)))
    points = np.array([p.split(",") for p in svg[0].get("points").split()], dtype=float)
    assert points.min() >= 0 and points[:, 0].max() <= 100 and points[:, 1].max() <= 50
    assert "5 … 7" in page and "a &amp; b" in page
    assert "nan" not in curve([1, 1], [2, 2], "flat")


@pytest.fixture(scope="module")
def model():
    X, y = load_iris(return_X_y=True)
    return MKLClassifier(["linear", "rbf"], solver=LpNorm(), C=1.0).fit(X, y)


def test_a_fitted_model_shows_its_kernels_below_the_diagram(model):
    page = model._repr_mimebundle_()["text/html"]
    for word in ("LpNorm", "certificate", "gap ", "linear", "rbf"):
        assert word in page and word in model._repr_html_()
    assert "certificate" not in MKLClassifier()._repr_html_()
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_a_combination_shows_the_kernels_with_weight(model):
    assert texts(model.combination_._repr_html_())[:3] == ["Kernel", "Weight", "Share"]


def test_components_show_shares_and_curves():
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    page = components(MKLRegressor(C=1.0).fit(X, X[:, 0] ** 2 + X[:, 1]), X)._repr_html_()
    assert "x0" in texts(page) and page.count("<svg") == 2
    errors = [
        row[-1]
        for row in re.findall(r"<tr>(.*?)</tr>", page)[1:]
        for row in [re.findall(">([^<>]*)</td>", row)]
    ]
    assert errors and all(re.fullmatch(r"\d+\.\d %", error) for error in errors)  # as their shares are


def test_a_selection_shows_the_most_frequent_kernels_and_how_many_more():
    X = np.random.default_rng(0).uniform(-1, 1, (60, 6))
    model = MKLRegressor(Products(degree=2), solver=Greedy(max_kernels=8, tol=1e-9), C=10.0)
    found = stability(model, X, 3 * X[:, 0] * X[:, 1] + np.sin(9 * X[:, 2]), n_pairs=4, random_state=0)
    page = found._repr_html_()
    assert f"4 pairs of halves; selected at {found.threshold:g} or more" in page
    assert "x0·x1" in texts(page) and "100.0 %" in page and page.count("<tr>") == 14
    assert re.search(r">\d+ more<", page) and "<th></th>" not in page


def test_long_names_break_and_figures_do_not():
    text = bar_table(
        [{"name": "x" * 200, "weight": 0.5, "share": 1.0}],
        {"name": "Kernel", "weight": "W", "share": "S"},
        "share",
    )
    cells = re.findall(r"<td style='([^']*)'>", text)
    assert "overflow-wrap:anywhere" in cells[0] and all("nowrap" in style for style in cells[1:])
