"""Survival: equal to scikit-survival, certified, and whatever form the times have."""

import pickle
import warnings

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import MKLOutlier, MKLRegressor, MKLSurvival, Views, load
from manykernels.certificates import certify
from manykernels.estimators.survival import concordance
from manykernels.families import Gaussians
from manykernels.kernels import RBF, Laplacian, Linear
from manykernels.losses import Cox
from manykernels.solvers import SILP, Greedy, LeaveOneOut, LpNorm, SimpleMKL, Single, Uniform

# Sines, so that the figures below hold whatever the generator of random numbers.
I = np.arange(80)
X = np.column_stack([np.sin(3.0 * I + k**2) * (1 + k / 2) for k in range(3)])
TIME = np.ceil(8.0 * np.exp(-0.8 * X[:, 0] + 0.5 * np.sin(3 * X[:, 1]) + np.cos(1.7 * I)))
EVENT = np.sin(5.0 * I) < 0.4
Y = np.array(list(zip(EVENT, TIME)), dtype=[("event", "?"), ("time", float)])
KERNELS = [RBF(1.0), RBF(3.0), Linear()]
#: CoxPHSurvivalAnalysis(alpha=0.5, ties=..., tol=1e-14) of scikit-survival 0.28: coefficients, and the cumulative
#: hazards of the first row at the times 5 and 10.
THEIRS = {
    "breslow": (
        [0.812773385254205, -0.08800346575966546, -0.16708302395522934],
        [0.2161291379558647, 0.6783921570297183],
    ),
    "efron": (
        [0.8266797079917774, -0.08965841701170679, -0.1697628063182512],
        [0.21543016641625462, 0.6773655318444628],
    ),
}


class Times(MKLSurvival):
    """Takes numbers as times without censoring, in their order, as scikit-learn's checks have nothing else."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, self._pairs(y), sample_weight)

    def score(self, X, y):
        return super().score(X, self._pairs(y))

    @staticmethod
    def _pairs(y):
        from sklearn.utils.validation import column_or_1d

        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        y = column_or_1d(y, warn=True)
        if not np.isfinite(np.asarray(y, dtype=float)).all():
            raise ValueError("Input y contains NaN or infinity")
        return np.ones(len(y), dtype=bool), np.unique(y, return_inverse=True)[1].astype(float)


@parametrize_with_checks([Times([RBF(2.0)], C=1.0)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


# -- equal to others -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", THEIRS)
def test_one_linear_kernel_is_cox_regression(ties):
    coefficients, hazards = THEIRS[ties]
    model = MKLSurvival([Linear()], C=2.0, ties=ties, normalize=None, solver=Uniform()).fit(X, Y)
    assert_allclose(model.predict(X), X @ coefficients, atol=1e-7)  # theirs stops on the loss
    assert_allclose(model.predict_cumulative_hazard_function(X[:1], [5, 10])[0], hazards, atol=1e-7)
    assert_allclose(model.predict_survival_function(X[:1], [5, 10])[0], np.exp(-np.array(hazards)), atol=1e-7)
    assert model.score(X, Y) == pytest.approx(0.670196671709531, abs=1e-12)
    assert model.intercept_ == pytest.approx(0.0, abs=1e-12)


def test_the_concordance_is_that_of_scikit_survival():
    ones = np.ones(80)
    assert concordance(EVENT, TIME, X[:, 1], ones) == pytest.approx(0.6530509329299042, abs=1e-15)
    tied = concordance(EVENT, TIME, np.round(X[:, 0], 1), ones)
    assert tied == pytest.approx(0.6611195158850227, abs=1e-15)
    s = I % 3
    repeated = [np.repeat(part, s) for part in (EVENT, TIME, X[:, 1])]
    assert concordance(EVENT, TIME, X[:, 1], s * 1.0) == pytest.approx(
        concordance(*repeated, np.ones(s.sum()))
    )


@pytest.mark.slow
@pytest.mark.parametrize("ties", THEIRS)
def test_it_is_scikit_survival_on_its_own_data(ties):
    sksurv = pytest.importorskip("sksurv", reason="scikit-survival is not installed: pip install .[peers]")
    from sksurv.column import encode_categorical
    from sksurv.datasets import load_gbsg2, load_veterans_lung_cancer, load_whas500
    from sksurv.linear_model import CoxPHSurvivalAnalysis
    from sksurv.metrics import concordance_index_censored

    assert sksurv.__version__
    for loader in (load_whas500, load_veterans_lung_cancer, load_gbsg2):
        table, y = loader()
        rows = StandardScaler().fit_transform(encode_categorical(table).to_numpy(float))
        theirs = CoxPHSurvivalAnalysis(alpha=0.5, ties=ties, tol=1e-14, n_iter=500).fit(rows, y)
        ours = MKLSurvival([Linear()], C=2.0, ties=ties, normalize=None, solver=Uniform()).fit(rows, y)
        assert_allclose(ours.predict(rows), theirs.predict(rows), atol=1e-6)
        event, time = y.dtype.names
        expected = concordance_index_censored(y[event], y[time], ours.predict(rows))[0]
        assert ours.score(rows, y) == pytest.approx(expected, abs=1e-14)
        curves = theirs.predict_survival_function(rows[:3], return_array=True)
        assert_allclose(ours.predict_survival_function(rows[:3], theirs.unique_times_), curves, atol=1e-7)


@pytest.mark.parametrize("solver", [LpNorm(1.5, tol=1e-7), SimpleMKL(tol=1e-7)], ids=repr)
def test_the_optimum_is_that_of_a_conic_solver(solver):
    rows, time, event, n = X[:40], TIME[:40], EVENT[:40], 40
    model = MKLSurvival(KERNELS[:2], solver=solver, C=0.7).fit(rows, (event, time))
    grams = [kernel.resolve(3, None)(rows) for kernel in KERNELS[:2]]
    W = [cp.Variable(n) for _ in grams]
    f = sum(np.linalg.cholesky(K + 1e-12 * np.eye(n)) @ w for K, w in zip(grams, W, strict=True))
    loss = 0
    for t in np.unique(time[event]):
        tied, d = np.flatnonzero(event & (time == t)), float((event & (time == t)).sum())
        loss += d * (cp.log_sum_exp(f[np.flatnonzero(time >= t)]) - np.log(d)) - cp.sum(f[tied])
    norms = cp.hstack([cp.norm(w) for w in W])  # these kernels have the scale 1
    best = cp.Problem(cp.Minimize(cp.square(cp.pnorm(norms, solver.p)) / (2 * 0.7) + loss)).solve(
        solver="CLARABEL"
    )
    assert model.objective_ * n == pytest.approx(best, rel=2e-6)


# -- certificates and weights ----------------------------------------------------------------------------


@pytest.mark.parametrize("ties", THEIRS)
@pytest.mark.parametrize("kernels", [KERNELS, [Linear([0]), Linear([1, 2])]], ids=["matrices", "features"])
def test_fits_are_certified_from_outside(ties, kernels):
    s = 0.5 + np.cos(I) ** 2
    s[7] = 0.0
    for solver in (LpNorm(tol=1e-6), SILP(tol=1e-4), Single(), LeaveOneOut()):
        model = MKLSurvival(kernels, solver=solver, ties=ties, C=1.0).fit(X, Y, sample_weight=s)
        again = certify(model, X, Y, s)
        assert again.primal == pytest.approx(model.objective_, rel=1e-9)
        assert again.gap == pytest.approx(model.gap_, abs=1e-9 * model.objective_)
        assert model.converged_ or isinstance(solver, Single)


def test_a_weight_is_a_repetition():
    s = I % 3
    one = MKLSurvival([RBF(2.0)], C=1.0).fit(X, Y, sample_weight=s)
    other = MKLSurvival([RBF(2.0)], C=1.0).fit(np.repeat(X, s, axis=0), np.repeat(Y, s))
    assert_allclose(one.predict(X), other.predict(X), atol=1e-8)
    assert_allclose(one.cum_baseline_hazard_, other.cum_baseline_hazard_, rtol=1e-8)
    assert one.objective_ * 80 == pytest.approx(other.objective_ * s.sum())


def test_the_unit_of_time_changes_nothing():
    one = MKLSurvival(KERNELS, C=1.0).fit(X, Y)
    other = MKLSurvival(KERNELS, C=1.0).fit(X, (EVENT, 1e30 * TIME))
    assert_array_equal(one.predict(X), other.predict(X))
    assert_allclose(other.event_times_, 1e30 * one.event_times_)


# -- predictions -----------------------------------------------------------------------------------------


def test_survival_curves_fall_from_one_and_follow_the_risk():
    model = MKLSurvival(KERNELS, C=1.0).fit(X, Y)
    curves = model.predict_survival_function(X)
    assert curves.shape == (80, len(model.event_times_)) == (80, len(np.unique(TIME[EVENT])))
    assert (np.diff(curves, axis=1) <= 0).all() and ((curves > 0) & (curves < 1)).all()
    order = np.argsort(model.predict(X))
    assert (np.diff(curves[order], axis=0) <= 1e-15).all()
    ends = model.predict_survival_function(X, [0.0, 1e9])
    assert_array_equal(ends[:, 0], 1.0)
    assert_array_equal(ends[:, 1], curves[:, -1])
    # The events that are expected over the times lived through are as many as there were.
    lived = model.predict_cumulative_hazard_function(X, TIME)[I, I]
    assert lived.sum() == pytest.approx(EVENT.sum())


def test_C_has_the_largest_partial_likelihood_of_rows_left_out():
    model = MKLSurvival(KERNELS, solver=Uniform()).fit(X, Y)
    fixed = {C: MKLSurvival(KERNELS, solver=Uniform(), C=C) for C in (model.C_, 1e-3, 1e3)}
    scores = {
        C: cross_val_score(one, X, Y, cv=KFold(5, shuffle=True, random_state=1)) for C, one in fixed.items()
    }
    assert scores[model.C_].mean() >= max(part.mean() for part in scores.values()) - 0.02
    assert 1e-3 < model.C_ < 1e3


def test_the_default_learns_what_a_line_cannot():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(220, 3))
    time = rng.exponential(np.exp(-2.0 * np.sin(2.0 * rows[:, 0])))
    event, train = rng.random(220) < 0.7, np.arange(220) < 150
    model = MKLSurvival().fit(rows[train], (event[train], time[train]))
    line = MKLSurvival([Linear()]).fit(rows[train], (event[train], time[train]))
    test = rows[~train], (event[~train], time[~train])
    assert isinstance(model.solver_, LeaveOneOut)
    assert model.score(*test) > line.score(*test) + 0.05 and model.score(*test) > 0.75


def test_tables_views_stacks_and_pipelines_are_taken(tmp_path):
    table = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "up", "down")})
    table.loc[3, "a"] = np.nan
    models = {
        "table": (MKLSurvival(C=1.0), table),
        "views": (MKLSurvival(RBF(2.0), C=1.0), Views({"a": X[:, :2], "b": X[:, 2:]})),
        "stack": (MKLSurvival("precomputed", C=1.0), np.stack([X @ X.T, (1 + X @ X.T) ** 2], axis=2)),
        "continuum": (MKLSurvival(Gaussians(), C=1.0, ties="efron"), X),
    }
    for name, (model, rows) in models.items():
        risks = model.fit(rows, Y).predict(rows)
        assert risks.shape == (80,) and np.isfinite(risks).all()
        model.save(tmp_path / f"{name}.mk")
        for again in (load(tmp_path / f"{name}.mk"), pickle.loads(pickle.dumps(model))):
            assert_array_equal(again.predict(rows), risks)
            assert_array_equal(again.predict_survival_function(rows), model.predict_survival_function(rows))
            assert again.loss_ == model.loss_ and clone(again).get_params()["ties"] == model.ties
    piped = make_pipeline(StandardScaler(), MKLSurvival([RBF(2.0)], C=1.0)).fit(X, Y)
    assert piped.score(X, Y) > 0.65


def test_parameters_are_searched_over():
    search = GridSearchCV(MKLSurvival([RBF(2.0)]), {"C": [1e-4, 1.0], "ties": ["breslow", "efron"]}, cv=3)
    assert search.fit(X, Y).best_params_["C"] == 1.0 and search.best_score_ > 0.55


@pytest.mark.parametrize(
    "y",
    [
        (EVENT, TIME),
        (EVENT.astype(int), TIME.astype(int)),
        np.column_stack([EVENT, TIME]),
        pd.DataFrame({"months": TIME, "died": EVENT}),
        Y.tolist(),
        Y[["time", "event"]],
    ],
    ids=["tuple", "whole numbers", "array", "table", "list", "other order"],
)
def test_times_are_taken_in_any_form(y):
    model = MKLSurvival([RBF(2.0)], C=1.0)
    assert_allclose(model.fit(X, y).predict(X), model.fit(X, Y).predict(X))
    assert model.score(X, y) == model.score(X, Y)


# -- bad input -------------------------------------------------------------------------------------------


def changed(column, row, value):
    y = np.column_stack([EVENT, TIME]).astype(object)
    y[row, column] = value
    return y[:, 0].tolist(), np.array(y[:, 1].tolist())


@pytest.mark.parametrize(
    "y, words",
    [
        (changed(0, 3, 2.0), "y has 2.0 for an event; pass booleans, True where the event was seen"),
        ((np.array(["yes"] * 80), TIME), "y has 'yes' for an event"),
        (changed(1, 5, -1.0), "y has the time -1 in row 5; times are finite and not negative"),
        (changed(1, 5, np.nan), "y has the time nan in row 5"),
        ((EVENT, TIME.astype(str)), "y has times of type .*; pass numbers"),
        ((~EVENT & EVENT, TIME), "y has no event, only censored times"),
        (
            Y.astype([("event", float), ("time", float)]),
            "y has the columns 'event' of type float64, 'time' of .*bool",
        ),
        (pd.DataFrame({"a": EVENT, "b": EVENT}), "pass one of type bool, the event, and one of times"),
        (TIME, r"y has the shape \(80,\); pass a structured array of \(event: bool, time: float\)"),
        ((EVENT, TIME[:70]), "inconsistent numbers of samples"),
        (Y[:70], "inconsistent numbers of samples"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "y",
)
def test_times_that_make_no_sense_are_refused(y, words):
    with pytest.raises(ValueError, match=words):
        MKLSurvival([RBF(2.0)], C=1.0).fit(X, y)


@pytest.mark.parametrize(
    "model, options, words",
    [
        (MKLSurvival(KERNELS, ties="exact"), {}, "ties of Cox is 'exact'; use 'breslow' or 'efron'"),
        (
            MKLSurvival(KERNELS, solver=Greedy()),
            {},
            "Greedy .*'cox', which is that of all rows together; pass .*LeaveOneOut",
        ),
        (
            MKLSurvival("gaussian", memory="100kB"),
            {},
            "80 rows, for which LeaveOneOut needs .* use at most 64 rows",
        ),
        (MKLSurvival(KERNELS), {"sample_weight": 1.0 * ~EVENT}, "sample_weight is zero for every event"),
        (MKLSurvival(KERNELS, C=-1), {}, "C is -1; it must be"),
    ],
    ids=["ties", "solver", "memory", "weights", "C"],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing_behind(model, options, words):
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y, **options)
    assert not hasattr(model, "result_") and not hasattr(model, "_known_times")


def test_further_mistakes_have_a_sentence_each():
    model = MKLSurvival([RBF(2.0)], C=1.0).fit(X, Y)
    with pytest.raises(ValueError, match=r"times is .*; pass a list of times that are not negative"):
        model.predict_survival_function(X, [-1.0])
    with pytest.raises(ValueError, match="no two rows of which it is known whose event came first"):
        model.score(X[:1], Y[:1])
    with pytest.raises(ValueError, match="LeaveOneOut learns kernels from targets"):
        MKLOutlier(KERNELS, solver=LeaveOneOut()).fit(X)
    with pytest.raises(
        ValueError, match="'cox', which is for another estimator; MKLRegressor takes 'squared'"
    ):
        MKLRegressor(KERNELS, loss=Cox()).fit(X, TIME)


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_times_that_are_all_the_same_teach_nothing_and_end_soon(ties):
    X, time = np.random.default_rng(0).normal(size=(90, 4)) * 1e4, np.full(90, 2.0)
    model = MKLSurvival([RBF(1.0), Linear(), Linear([0])], ties=ties).fit(X, (np.ones(90, bool), time))
    assert model.converged_ and np.abs(model.predict(X)).max() < 1e-6


@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize(("C", "heaviest"), [(1.0, 1e9), (1e9, 1.0), (1e5, 1e5), (500.0, 6e10)])
def test_a_gap_that_is_only_rounding_is_said_to_be(ties, C, heaviest):
    for n in (2, 3, 10):
        rng = np.random.default_rng(n)
        X, s = rng.normal(size=(n, 2)), np.append(np.ones(n - 1), heaviest)
        y = np.arange(n) % 3 != 1, 1.0 + rng.integers(n, size=n)
        model = MKLSurvival("linear", solver=LpNorm(), ties=ties, C=C)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model.fit(X, y, sample_weight=s)
        if not any("rounding limits objective_ and gap_" in str(w.message) for w in said):
            assert model.gap_ >= -1e-8 * model.objective_
            assert model.gap_ <= model.solver_.tol * model.objective_ or said


@pytest.mark.parametrize("weight", [1e-8, 1.0, 1e8])
def test_the_certificate_of_an_order_that_is_nearly_certain_is_found_again(weight):
    """Losses are small beside their scores there, and their digits are all the objective has."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 3))
    y, s = (rng.random(120) < 0.5, np.ceil(np.exp(X[:, 0]))), np.full(120, weight)
    model = MKLSurvival([RBF(0.2), Laplacian(0.1)], solver=LpNorm(p=1.3), C=1e8 / weight).fit(X, y, s)
    found = certify(model, X, y, s)
    assert found.primal == pytest.approx(model.objective_, rel=1e-8)
    assert found.gap == pytest.approx(model.gap_, abs=1e-8 * model.objective_)
