"""scikit-learn's newer conventions: importances of columns, polars, callbacks, metadata routing."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from manykernels import AlignedKernel, MKLClassifier, MKLRegressor, load
from manykernels.families import Products
from manykernels.findings import shapley
from manykernels.kernels import RBF, Linear, Polynomial
from manykernels.solvers import Greedy, LeaveOneOut, LpNorm, SimpleMKL


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    return X, X[:, 0] * X[:, 1] + 2 * X[:, 2]


# -- importances ---------------------------------------------------------------------------------------


def test_importances_are_mean_absolute_shapley_values(rows):
    X, y = rows
    model = MKLRegressor([RBF(2.0), Linear()], C=10.0).fit(X, y)
    sizes = np.abs(shapley(model, X, X).values).mean(axis=0)
    np.testing.assert_allclose(model.feature_importances_, sizes / sizes.sum(), rtol=1e-9)


def test_importances_of_a_product_are_shared(rows):
    X, y = rows
    found = MKLRegressor(Products(degree=2), solver=Greedy(max_kernels=2)).fit(X, y).feature_importances_
    assert found.sum() == pytest.approx(1.0)
    assert found[0] == pytest.approx(found[1], rel=0.35) and found[3] == 0.0
    assert found[2] > found[0] > 0.1


def test_importances_of_a_category_are_those_of_its_column():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"kind": rng.choice(list("abc"), 80), "x": rng.normal(size=80), "same": 1.0})
    table.loc[::7, "x"] = np.nan
    model = MKLRegressor().fit(table, 3.0 * (table["kind"] == "a") + table["x"].fillna(0.0))
    found = model.feature_importances_
    assert found.shape == (3,) and found[2] == 0.0 and found[:2].min() > 0.2


def test_importances_of_joined_columns_are_equal(rows):
    X, y = rows
    model = MKLRegressor([Polynomial(2, columns=[0, 1]), Linear(columns=[2])], C=10.0).fit(X, y)
    found = model.feature_importances_
    assert found[0] == found[1] > 0 and found[3] == 0.0


def test_importances_of_random_features_are_estimates(rows):
    X, y = rows
    found = MKLRegressor("gaussian", solver="blockwise", random_state=0).fit(X, y).feature_importances_
    assert found.sum() == pytest.approx(1.0) and found.argmax() == 2


def test_a_constant_has_no_important_columns(rows):
    X, _ = rows
    model = MKLRegressor([Linear()], solver=LpNorm(), C=1.0).fit(X, np.ones(60))
    assert not model.feature_importances_.any()


def test_importances_survive_a_file_where_it_holds_the_rows(rows, tmp_path):
    X, y = rows
    model = MKLRegressor([RBF(2.0)], C=10.0).fit(X, y)
    model.save(tmp_path / "model.mk")
    np.testing.assert_array_equal(
        load(tmp_path / "model.mk").feature_importances_, model.feature_importances_
    )


def test_importances_say_why_there_are_none(rows, tmp_path):
    X, y = rows
    stack = MKLRegressor("precomputed", C=1.0).fit((X @ X.T)[:, :, None], y)
    assert not hasattr(stack, "feature_importances_")
    with pytest.raises(AttributeError, match="no functions of columns; fit it on rows"):
        stack.feature_importances_  # noqa: B018
    MKLRegressor(Products(degree=2), solver=Greedy(max_kernels=2)).fit(X, y).save(tmp_path / "model.mk")
    with pytest.raises(AttributeError, match=r"findings\.shapley\(model, rows, background\)"):
        load(tmp_path / "model.mk").feature_importances_  # noqa: B018


def test_another_fit_has_other_importances(rows):
    X, y = rows
    model = MKLRegressor([Linear()], C=10.0).fit(X, y)
    before = model.feature_importances_
    assert model.fit(X[:, ::-1], y).feature_importances_[1] == pytest.approx(before[2], abs=1e-6)


def test_columns_are_selected_by_importance(rows):
    X, y = rows
    chosen = SelectFromModel(MKLRegressor(Products(degree=2), solver=Greedy(max_kernels=2)), threshold=0.05)
    assert chosen.fit(X, y).get_support().tolist() == [True, True, True, False]


# -- polars --------------------------------------------------------------------------------------------


def test_polars_in_and_out():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X, y = X[::5], y[::5]
    frame = pl.DataFrame(X.to_dict("list"))
    kernel = AlignedKernel([RBF(1.0), Linear()]).set_output(transform="polars").fit(frame, y)
    out = kernel.transform(frame)
    assert isinstance(out, pl.DataFrame) and out.shape == (30, 30)
    assert list(kernel.feature_names_in_) == list(X.columns)
    plain = AlignedKernel([RBF(1.0), Linear()]).fit(X, y).transform(X)
    np.testing.assert_array_equal(out.to_numpy(), plain)
    pipe = make_pipeline(AlignedKernel([RBF(1.0)]), SVC(kernel="precomputed")).set_output(transform="polars")
    assert pipe.fit(frame, y).score(frame, y) > 0.9


def test_polars_tables_are_those_of_pandas():
    rng = np.random.default_rng(2)
    data = {"kind": rng.choice(list("ab"), 50).tolist(), "x": rng.normal(size=50).tolist()}
    y = np.array(data["x"]) + (np.array(data["kind"]) == "a")
    theirs, ours = (MKLRegressor().fit(t, y) for t in (pl.DataFrame(data), pd.DataFrame(data)))
    assert list(theirs.feature_names_in_) == ["kind", "x"]
    np.testing.assert_allclose(
        theirs.predict(pl.DataFrame(data)), ours.predict(pd.DataFrame(data)), rtol=1e-10
    )


# -- callbacks -----------------------------------------------------------------------------------------


class Recorder:
    """A callback that writes down what it is told, and stops after so many steps."""

    max_propagation_depth = None

    def __init__(self, most=10**6):
        self.events, self.most, self.steps, self.rows = [], most, 0, []

    def setup(self, estimator, context):
        self.events.append("setup")

    def on_fit_task_begin(self, estimator, context):
        if context.task_name == "fit":
            self.events.append("begin")

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        self.rows.append(len(X))
        if context.task_name == "iteration":
            self.steps += 1
            return self.steps >= self.most
        self.events.append("fitted" if fitted_estimator is not None else "not fitted")
        return False

    def teardown(self, estimator, context):
        self.events.append("teardown")


needs_callbacks = pytest.mark.skipif(
    not hasattr(MKLRegressor, "set_callbacks"),
    reason=f"scikit-learn {sklearn.__version__} has no sklearn.callback, which came with 1.9",
)


@needs_callbacks
def test_callbacks_see_every_step_and_leave_the_model_as_it_is(rows):
    X, y = rows
    seen, steps = Recorder(), []
    plain = MKLRegressor([RBF(1.0), Linear()], solver=SimpleMKL(), C=1.0)
    model = clone(plain).set_callbacks(seen).fit(X, y, on_iteration=lambda step: steps.append(step) or False)
    assert seen.events == ["setup", "begin", "fitted", "teardown"]
    assert seen.steps == len(steps) > 1 and set(seen.rows) == {60}
    np.testing.assert_array_equal(model.predict(X), plain.fit(X, y).predict(X))


@needs_callbacks
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_callback_stops_a_fit(rows):
    X, y = rows
    model = MKLRegressor([RBF(1.0), Linear()], solver=SimpleMKL(tol=1e-12), C=1.0)
    assert model.set_callbacks(Recorder(most=2)).fit(X, y).n_iter_ == 2


@needs_callbacks
def test_callbacks_are_torn_down_after_an_error_and_stay_out_of_files(rows, tmp_path):
    X, y = rows
    seen = Recorder()
    model = MKLRegressor([Linear()], C=1.0).set_callbacks(seen)
    with pytest.raises(ValueError, match="C is -1"):
        clone(model).set_params(C=-1).set_callbacks(seen).fit(X, y)
    assert seen.events == ["setup", "begin", "teardown"]
    model.fit(X, y).save(tmp_path / "model.mk")
    assert not hasattr(load(tmp_path / "model.mk"), "_skl_callbacks")


@needs_callbacks
def test_scikit_learns_own_callbacks_work(rows, capsys):
    from sklearn.callback import ProgressBar, ScoringMonitor

    X, y = rows
    monitor = ScoringMonitor(scoring="r2")
    MKLRegressor([Linear()], C=1.0).set_callbacks(ProgressBar(), monitor).fit(X, y)
    assert "MKLRegressor" in capsys.readouterr().out


# -- metadata routing ------------------------------------------------------------------------------------


def test_weights_and_groups_are_routed(rows):
    X, y = rows
    labels, groups = (y > 0).astype(int), np.arange(60) // 3
    weights = np.where(np.arange(60) < 40, 1.0, 0.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = MKLClassifier([RBF(2.0)], solver=LeaveOneOut()).set_fit_request(
            sample_weight=True, groups=True
        )
        search = GridSearchCV(model.set_score_request(sample_weight=False), {"C": [1.0, 10.0]}, cv=3)
        found = search.fit(X, labels, sample_weight=weights, groups=groups).best_estimator_
        scores = cross_validate(
            model,
            X,
            labels,
            params={"sample_weight": weights, "groups": groups},
            cv=3,
            error_score="raise",
        )
    alone = clone(found).fit(X, labels, sample_weight=weights, groups=groups)
    np.testing.assert_array_equal(found.decision_function(X), alone.decision_function(X))
    assert np.isfinite(scores["test_score"]).all()


# -- skore -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_skores_reports_show_left_out_score_certificate_and_importances(rows):
    skore = pytest.importorskip("skore", reason="skore is not installed (extra: peers)")
    X, y = rows
    report = skore.EstimatorReport(
        MKLRegressor(), X_train=X[:40], y_train=y[:40], X_test=X[40:], y_test=y[40:]
    )
    report.metrics.add(lambda model, X, y: model.loo_score_, name="left_out")
    report.metrics.add(lambda model, X, y: model.gap_, name="certificate")
    shown = report.metrics.summarize().frame()
    assert shown["left_out"] == pytest.approx(report.estimator_.loo_score_)
    assert shown["certificate"] == pytest.approx(report.estimator_.gap_, nan_ok=True)
    importances = report.inspection.impurity_decrease().frame()["importance"]
    np.testing.assert_allclose(importances, report.estimator_.feature_importances_)
    folds = skore.CrossValidationReport(MKLRegressor([Linear()], C=1.0), X, y, splitter=3)
    assert np.isfinite(folds.metrics.summarize().frame().loc["r2"]).all()
