"""A report says what the model says, in one file that needs nothing else."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from manykernels import MKLClassifier, MKLOutlier, MKLRegressor, MKLSurvival
from manykernels.displays.components import effect_on
from manykernels.kernels import RBF, Linear
from manykernels.report import collect
from manykernels.report.contents import FOLDS
from manykernels.solvers import LpNorm

pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(60)
    path = tmp_path_factory.mktemp("report") / "r.html"
    model = MKLRegressor(C=10.0).fit(X, y)
    model.report(path, X, y, title="<Waves> & more", baselines=["linear"])
    return model, X, y, path.read_text()


class Tags(HTMLParser):
    """Collects tags, and what would be fetched."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.ids, self.targets = [], [], [], []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag not in ("meta", "input", "br", "link", "path", "use", "image", "rect"):
            self.open.append(tag)
        self.fetched += [
            v
            for k, v in given.items()
            if k in ("src", "href", "xlink:href") and not v.startswith(("#", "data:"))
        ]
        if "id" in given and tag in ("section", "table"):
            self.ids.append(given["id"])
        if tag == "a":
            self.targets.append(given["href"].lstrip("#"))

    def handle_endtag(self, tag):
        if tag in self.open:
            assert self.open.pop() == tag


def test_the_page_is_whole_and_fetches_nothing(regression):
    *_, page = regression
    tags = Tags()
    tags.feed(page)
    assert tags.open == [] and tags.fetched == []
    assert set(tags.targets) <= set(tags.ids) and len(tags.ids) == len(set(tags.ids))
    assert "&lt;Waves&gt; &amp; more" in page and "<Waves>" not in page
    assert page.count("<svg") >= 6


def test_the_score_is_that_of_rows_left_out_beside_baselines(regression):
    model, X, y, page = regression
    contents = collect(model, X, y, baselines=["linear"])
    assert contents.scores[0].value == model.loo_score_
    assert [s.method for s in contents.scores] == ["this model", "a constant", "linear"]
    assert contents.scores[1].value <= 0  # the mean of other rows
    assert "has not seen the row.</figcaption>" in page
    assert f"{model.loo_score_:.4f}" in page and "not clearly better" not in page
    # The standard error of 1 - MSE/variance, as a mean over rows.
    squares = np.square(y - model.loo_prediction_)
    assert contents.scores[0].error == pytest.approx(squares.std() / len(y) ** 0.5 / y.var())


def test_kernels_and_components_are_those_of_the_model(regression):
    model, *_, page = regression
    for record in model.combination_.records()[:3]:
        assert record["kernel"] in page
    assert ">x0<" in page and ">x1<" in page


def test_a_solver_without_rows_left_out_is_cross_validated(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = MKLClassifier(["linear", "rbf"], solver=LpNorm(), C=1.0, calibrate=False).fit(X, y)
    contents = collect(model, X, y, baselines=[])
    assert contents.scores[0].how.startswith(f"{FOLDS} folds")
    assert contents.scores[0].value > 0.9 and contents.scores[1].value == pytest.approx(1 / 3)
    model.report(tmp_path / "r.html", X, y, baselines=[])
    page = (tmp_path / "r.html").read_text()
    assert "This solver keeps no predictions of rows left out." in page
    assert re.search(r"is lower by at most \d\.\de-\d+ of it", page)
    assert effect_on(model) == "effect on the score of 0"


@pytest.mark.parametrize("given", ["stack", "kernels first", "dict"])
def test_kernel_matrices_are_cut_along_both_rows_and_columns_for_folds(given, tmp_path):
    X, y = load_iris(return_X_y=True)
    matrices = {"sepal": X[:, :2] @ X[:, :2].T, "petal": X[:, 2:] @ X[:, 2:].T}
    stack = np.stack(list(matrices.values()), axis=2)
    K = {"stack": stack, "kernels first": np.moveaxis(stack, 2, 0), "dict": matrices}[given]
    model = MKLClassifier("precomputed", solver=LpNorm(), C=1.0, calibrate=False).fit(K, y)
    model.report(tmp_path / "r.html", K, y)
    page = (tmp_path / "r.html").read_text()
    assert "150 rows, 2 kernel matrices," in page and "no functions of columns" in page
    own, constant = re.findall(r'<td class="n">(\d\.\d{4})</td><td class="n">', page)
    assert float(own) > 0.9 and constant == "0.3333"


def test_times_until_an_event_are_scored_by_their_order(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    time, seen = rng.exponential(np.exp(-2 * X[:, 0])), rng.random(60) < 0.8
    model = MKLSurvival([RBF(2.0), Linear()], C=1.0).fit(X, (seen, time))
    model.report(tmp_path / "r.html", X, (seen, time))
    page = (tmp_path / "r.html").read_text()
    assert "times until an event to predict" in page and "Concordance" in page
    folds, constant = re.findall(r'<td class="n">(\d\.\d{4})</td><td class="n">', page)[:2]
    assert float(folds) > 0.6 and constant == "0.5000"


def test_a_course_of_one_step_is_not_drawn(regression, tmp_path):
    _, X, y, page = regression
    model = MKLRegressor([Linear()], solver="uniform", C=1.0).fit(X, y)
    model.report(tmp_path / "r.html", X, y, baselines=[])
    assert "The course of the fit." in page
    assert "The course of the fit." not in (tmp_path / "r.html").read_text()


def test_noise_is_called_noise(tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, 2)), rng.standard_normal(40)
    with pytest.warns(UserWarning, match="constant"):
        model = MKLRegressor().fit(X, y)
    model.report(tmp_path / "r.html", X, y, baselines=[])
    assert "not clearly better than a constant" in (tmp_path / "r.html").read_text()


def test_probabilities_of_classes_are_judged_on_rows_left_out(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = MKLClassifier(C=1.0).fit(X[50:], y[50:])
    assert model.loo_proba_.shape == (100, 2) and np.allclose(model.loo_proba_.sum(axis=1), 1)
    model.report(tmp_path / "r.html", X[50:], y[50:], baselines=[])
    assert "came true" in (tmp_path / "r.html").read_text()


def test_long_tables_end_and_say_so(regression, tmp_path, monkeypatch):
    monkeypatch.setattr("manykernels.report.page.MOST", 2)
    _, X, y, _ = regression
    model = MKLRegressor([RBF(s) for s in (0.5, 1.0, 2.0, 4.0)], solver=LpNorm()).fit(X, y)
    found = {"kernel": list("abc"), "member": [(0,), (1,), (2,)], "frequency": [0.5, 0.1, 0.9]}
    model.report(tmp_path / "r.html", X, y, baselines=[], stability=found)
    page = (tmp_path / "r.html").read_text()
    assert "has not seen the row. Kernels and C are those of the fit to all rows." in page
    assert "2 smaller ones left out." in page and "1 less frequent one left out." in page
    table = page[page.index('id="stability-table"') :]
    assert re.findall("<td>(.)</td>", table)[:2] == ["c", "a"]


def test_figures_have_the_digits_that_mean_something(regression, tmp_path):
    _, X, y, _ = regression
    model = MKLRegressor([RBF(1.0), Linear()], solver="uniform", C=1 / 3).fit(X, y)
    model.report(tmp_path / "r.html", X, y, baselines=[])
    page = (tmp_path / "r.html").read_text()
    assert "<code>0.333333</code>" in page
    weights = re.findall(r'<td class="n">([\d.]+)</td><td class="n">[\d.]+</td></tr>', page)
    assert weights and all(len(w.replace(".", "").lstrip("0")) == 4 for w in weights)


@pytest.mark.filterwarnings("ignore:.*identifier")
def test_columns_that_were_left_out_are_told(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.standard_normal(80), "<id>": [f"row {i}" for i in range(80)]})
    y = table["a"] + 0.1 * rng.standard_normal(80)
    model = MKLRegressor(C=1.0).fit(table, y)
    model.report(tmp_path / "r.html", table, y, baselines=[])
    assert "Column &#39;&lt;id&gt;&#39; is left out" in (tmp_path / "r.html").read_text()


def test_bad_places_and_targets_are_sentences(regression, tmp_path):
    model, X, y, _ = regression
    with pytest.raises(ValueError, match=r"it must end in \.html"):
        model.report(tmp_path / "r.pdf", X, y)
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        model.report(tmp_path / "no" / "r.html", X, y)
    outliers = MKLOutlier([RBF(1.0)]).fit(X)
    with pytest.raises(ValueError, match="MKLOutlier has none; look at combination_"):
        outliers.report(tmp_path / "r.html", X, None)
    with pytest.raises(ValueError, match="a report is about one target"):
        model.report(tmp_path / "r.html", X, np.c_[y, y])
    several = MKLRegressor([RBF(1.0)], solver="uniform", C=1.0).fit(X, np.c_[y, y])
    with pytest.raises(ValueError, match="model predicts 2 targets; a report is about one"):
        several.report(tmp_path / "r.html", X, y)
    assert list(tmp_path.iterdir()) == []
