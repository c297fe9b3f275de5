"""C and p by rows left out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, MKLRegressor, load
from manykernels.certificates import certify
from manykernels.families import Products
from manykernels.kernels import RBF, Linear
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.registry import bound_family
from manykernels.solvers import Alignment, Greedy, LpNorm, SimpleMKL, TriplyStochastic, Uniform
from manykernels.solvers.choosing import FINE, SAME, Found, Trial, chosen, search_C
from manykernels.solvers.folds import folds, left_out_at, some_rows

KERNELS = [RBF(2.0), RBF(6.0), Linear()]


def scaled(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def problem(X, y, s=None, groups=None, how="trace"):
    s = np.ones(len(y)) if s is None else s
    family = bound_family(KERNELS, X, s)
    Y = (y - np.average(y, weights=s))[:, None]
    scale = Scale.fit(family, X, how, s)
    return Problem(X, Y, family, scale, get_loss("squared"), 1.0, s, choose_C=True, groups=groups)


def classes(X, codes, groups=None):
    n_classes = codes.max() + 1
    Y = np.where(codes, 1.0, -1.0)[:, None] if n_classes == 2 else 2.0 * np.eye(n_classes)[codes] - 1
    return replace(problem(X, codes, groups=groups), Y=Y, loss=get_loss("squared_hinge"))


# -- in closed form ------------------------------------------------------------------------------------


@pytest.mark.parametrize("grouped", [False, True])
def test_the_closed_form_is_what_refits_find(grouped):
    X, y = scaled(load_diabetes)
    X, y = X[:40], y[:40] / 50
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 2, 40)
    groups = rng.integers(0, 12, 40) if grouped else np.arange(40)
    pb = problem(X, y, s, groups if grouped else None)
    found = chosen(Uniform(), pb)
    K = Uniform().learn(pb).gram(X) + 1.0
    for at in (4, 20, 30):
        E = np.empty(40)
        for g in np.unique(groups):
            kept, out = groups != g, groups == g
            G = K[np.ix_(kept, kept)] + np.diag(1 / (FINE[at] * s[kept]))
            E[out] = pb.Y[out, 0] - K[np.ix_(out, kept)] @ np.linalg.solve(G, pb.Y[kept, 0])
        i = int(np.argmin(np.abs(np.log(found.tried / FINE[at]))))
        assert found.errors[i] == pytest.approx(s @ E**2 / s.sum() / 2, rel=1e-8)
    judged = s @ np.square(pb.Y - found.left_out)[:, 0] / s.sum() / 2
    assert judged == pytest.approx(found.errors[np.argmin(np.abs(found.tried - found.problem.C))])
    assert judged <= found.errors.min() * (1 + SAME)


@pytest.mark.parametrize("rho", [1e4, 1e-4])
@pytest.mark.parametrize("solver", [Uniform(), LpNorm()], ids=str)
def test_kernels_of_any_size_are_searched_where_they_are(rho, solver):
    """Kernels divided by 10⁸ want a C that is so many times larger."""
    X, y = scaled(load_diabetes)
    plain = MKLRegressor([RBF(3.0), RBF(6.0)], solver=solver, normalize=None).fit(X, y)
    other = MKLRegressor(
        [lambda A, B, k=k: k.resolve(10, None)(A, B) / rho**2 for k in (RBF(3.0), RBF(6.0))],
        solver=solver,
        normalize=None,
    ).fit(X, y)
    assert np.log10(other.C_ / plain.C_) == pytest.approx(2 * np.log10(rho), abs=0.5)  # half powers are tried


def test_a_minimum_beyond_the_end_is_followed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = MKLRegressor([Linear()], solver=Uniform()).fit(X, X[:, 0])  # no noise wants a C without end
    assert FINE.max() < model.C_


def test_the_kernel_of_two_stages_is_learned_once():
    class Counted(Alignment):
        calls = 0

        def learn(self, problem):
            Counted.calls += 1
            return super().learn(problem)

    X, y = scaled(load_iris)
    MKLClassifier(KERNELS, solver=Counted(), loss="squared_hinge").fit(X, y)
    assert Counted.calls == 1


# -- the search ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("best", [-3.2, -1.0, 0.0, 0.4, 2.6, 5.0])
def test_a_search_finds_the_valley_within_a_quarter_of_a_power(best):
    trials = list(search_C(lambda C: Trial(C, 1 + (np.log10(C) - best) ** 2, np.zeros((1, 1))), 0))
    found = min(trials, key=lambda t: t.error)
    assert abs(np.log10(found.C) - best) <= 0.25 + 1e-9
    assert len(trials) <= 6 + abs(round(best))
    assert len({t.C for t in trials}) == len(trials)


def test_a_search_does_not_climb_a_plateau():
    trials = list(search_C(lambda C: Trial(C, 1 + 1e-3 / C, np.zeros((1, 1))), 0))
    assert max(t.C for t in trials) <= 1e3


# -- folds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_folds_spread_the_classes(n_classes):
    rng = np.random.default_rng(0)
    codes = np.sort(rng.integers(0, n_classes, 50))
    parts = folds(classes(rng.normal(size=(50, 4)), codes), 5)
    assert np.array_equal(np.sort(np.concatenate([test for _, test in parts])), np.arange(50))
    for train, test in parts:
        assert not np.intersect1d(train, test).size and len(train) + len(test) == 50
        counts = np.bincount(codes[test], minlength=n_classes)
        assert np.abs(counts - np.bincount(codes) / 5).max() < 1.5


@pytest.mark.parametrize("regression", [False, True])
def test_a_group_is_never_on_both_sides(regression):
    rng = np.random.default_rng(0)
    X, groups, codes = rng.normal(size=(60, 3)), rng.integers(0, 9, 60), rng.integers(0, 2, 60)
    pb = problem(X, X[:, 0], groups=groups) if regression else classes(X, codes, groups)
    parts = folds(pb, 3)
    assert len(parts) == 3
    for train, test in parts:
        assert not set(groups[train]) & set(groups[test])


def test_equal_rows_are_never_on_both_sides_unless_a_row_has_many():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    X = np.concatenate([X, X[:10]])
    for train, test in folds(problem(X, np.arange(50.0)), 3):
        assert not {x.tobytes() for x in X[train]} & {x.tobytes() for x in X[test]}
    cells = rng.integers(0, 2, (50, 2)).astype(float)
    for train, test in folds(problem(cells, np.arange(50.0)), 3):
        assert {x.tobytes() for x in cells[test]} <= {x.tobytes() for x in cells[train]}


def test_folds_take_a_repetition_for_a_weight():
    rng = np.random.default_rng(0)
    X, codes, times = rng.normal(size=(30, 3)), rng.integers(0, 2, 30), rng.integers(1, 4, 30)
    rows = np.repeat(np.arange(30), times)
    once, often = folds(classes(X, codes), 3), folds(classes(X[rows], codes[rows]), 3)
    assert [set(test) for _, test in once] == [set(rows[test]) for _, test in often]


def test_folds_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    X, codes, order = rng.normal(size=(50, 4)), rng.integers(0, 3, 50), rng.permutation(50)
    one = folds(classes(X, codes), 3)
    other = folds(classes(X[order], codes[order]), 3)
    assert {frozenset(test) for _, test in one} == {frozenset(order[test]) for _, test in other}


def test_a_class_of_one_row_or_one_group_always_teaches():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    codes = np.arange(30) % 2
    codes[7] = 2
    for train, _ in folds(classes(X, codes), 3):
        assert 7 in train
    codes[8], groups = 2, np.arange(30) // 2
    groups[[7, 8]] = 99
    for train, _ in folds(classes(X, codes, groups), 3):
        assert {7, 8} <= set(train)


def test_rows_without_weight_are_in_no_fold():
    rng = np.random.default_rng(0)
    s = np.r_[np.zeros(5), np.ones(25)]
    parts = folds(problem(rng.normal(size=(30, 2)), np.arange(30.0), s), 3)
    assert min(min(train.min(), test.min()) for train, test in parts) == 5


def test_a_sample_has_all_classes_whole_groups_and_no_order():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(400, 2)), np.r_[np.zeros(390, int), np.ones(8, int), [2, 2]]
    some = some_rows(classes(X, codes), 50)
    assert some.n_rows == 50
    assert (some.Y > 0).any(axis=0).all()
    order = rng.permutation(400)
    again = some_rows(classes(X[order], codes[order]), 50)
    assert {x.tobytes() for x in some.X} == {x.tobytes() for x in again.X}
    groups = np.repeat(np.arange(40), 10)
    grouped = some_rows(classes(X, codes, groups), 55)
    assert np.bincount(grouped.groups)[np.unique(grouped.groups)].tolist() == [10] * 6


# -- C -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [Uniform(), Alignment(), LpNorm(), SimpleMKL()], ids=str)
def test_a_regression_is_about_as_good_as_with_the_best_C(solver):
    X, y = scaled(load_diabetes)
    found = cross_val_score(MKLRegressor(KERNELS, solver=solver, C="auto"), X, y, cv=3).mean()
    others = [
        cross_val_score(MKLRegressor(KERNELS, solver=solver, C=C), X, y, cv=3).mean() for C in (0.01, 1, 100)
    ]
    assert found > max(others) - 0.02


@pytest.mark.parametrize("load_rows", [load_iris, load_breast_cancer])
def test_classes_are_told_apart_with_the_C_that_was_chosen(load_rows):
    X, y = scaled(load_rows)
    model = MKLClassifier(KERNELS, solver=LpNorm(tol=1e-2), C="auto").fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.93
    again = certify(model, X[::2], y[::2])
    assert again.primal == pytest.approx(model.objective_, rel=1e-6)


def test_ready_made_matrices_are_cut_both_ways():
    X, y = scaled(load_iris)
    K = np.stack([k.resolve(4, None)(X) for k in KERNELS], axis=2)
    model = MKLClassifier("precomputed", solver=LpNorm(tol=1e-2), C="auto").fit(K, y)
    assert model.score(K, y) > 0.95 and np.isfinite(model.result_.left_out).all()


def test_products_are_chosen_for_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=120)
    model = MKLRegressor(Products(degree=2), solver=Greedy(max_kernels=3), C="auto").fit(X, y)
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize("solver", [LpNorm(), Uniform(), SimpleMKL()], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows_are_no_reason_to_fail(solver, n):
    X, y = scaled(load_diabetes)
    model = MKLRegressor(KERNELS, solver=solver, C="auto").fit(X[:n], y[:n])
    assert np.isfinite(model.predict(X)).all()
    if n == 1:
        assert model.C_ == 1.0 and model.predict(X[:2]) == pytest.approx(y[0])
    else:
        labels = np.arange(n) % 2
        two = MKLClassifier(KERNELS, solver=solver, C="auto").fit(X[:n], labels)
        assert np.isfinite(two.predict_proba(X)).all()


def test_constant_targets_are_no_reason_to_fail():
    X, _ = scaled(load_diabetes)
    assert MKLRegressor(KERNELS, C="auto").fit(X[:20], np.ones(20)).predict(X[:2]) == pytest.approx(1.0)


@pytest.mark.parametrize("solver", [Uniform(), LpNorm()], ids=str)
def test_many_rows_are_stood_for_by_a_sample(solver):
    X, y = scaled(load_diabetes)
    pb = problem(X, y)
    some = chosen(solver, pb, most_rows=100)
    assert some.left_out is None  # only those of all rows are kept
    assert some.problem.n_rows == len(y)
    assert abs(np.log10(some.problem.C / chosen(solver, pb).problem.C)) <= 1


def test_scores_left_out_are_in_units_of_the_targets():
    X, y = scaled(load_diabetes)
    model = MKLRegressor(KERNELS, C="auto").fit(X, y)
    residuals = y - model.result_.left_out[:, 0]
    # Left out, as over scikit-learn's own folds: .49 to .50.
    assert 1 - np.mean(residuals**2) / np.var(y) == pytest.approx(0.49, abs=0.03)


def test_rows_in_batches_choose_C_on_the_first():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=300)
    solver = TriplyStochastic(random_state=0, n_features=64, block=64, epochs=2)
    model = MKLRegressor(KERNELS[:2], solver=solver, C="auto").partial_fit(X[:150], y[:150])
    C = model.C_
    assert C > 0 and model.partial_fit(X[150:], y[150:]).C_ == C
    streamed = MKLRegressor(KERNELS[:2], solver=solver, C="auto").fit(
        [(X[:150], y[:150]), (X[150:], y[150:])]
    )
    assert streamed.C_ > 0


def test_words_for_C_that_make_no_sense_are_refused():
    X, y = scaled(load_diabetes)
    with pytest.raises(ValueError, match="C is 'large'; it must be a positive finite number, or 'auto'"):
        MKLRegressor(KERNELS, C="large").fit(X, y)


# -- p -------------------------------------------------------------------------------------------------


def test_p_is_chosen_and_kept(tmp_path):
    X, y = scaled(load_diabetes)
    model = MKLRegressor(KERNELS, solver=LpNorm(p="auto"), C="auto").fit(X[:150], y[:150])
    assert model.solver.p == "auto" and model.solver_.p in (1, 1.1, 4 / 3, 1.6, 2)
    given = clone(model).set_params(solver__p=model.solver_.p, C=model.C_).fit(X[:150], y[:150])
    assert np.array_equal(given.predict(X), model.predict(X))
    assert certify(model, X[:150], y[:150]).gap == pytest.approx(model.gap_, abs=1e-6 * model.objective_)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.solver_.p == model.solver_.p and again.solver.p == "auto"


def test_p_is_chosen_with_C_given():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 12))
    y = X[:, 0] + 0.05 * rng.normal(size=100)
    kernels = [Linear(columns=[j]) for j in range(12)]
    sparse = MKLRegressor(kernels, solver=LpNorm(p="auto"), C=1.0).fit(X, y)
    assert sparse.solver_.p <= 1.1 and sparse.C_ == 1.0  # one kernel in twelve matters
    alike = MKLRegressor(kernels, solver=LpNorm(p="auto"), C=1.0).fit(X, X.sum(axis=1))
    assert alike.solver_.p > sparse.solver_.p


def test_p_of_1_is_what_simple_mkl_finds():
    X, y = scaled(load_diabetes)
    one, other = (MKLRegressor(KERNELS, solver=s, C=1.0).fit(X, y) for s in (LpNorm(p=1), SimpleMKL()))
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-3)  # both within tol of the optimum


def test_left_out_at_is_what_refits_find():
    X, y = scaled(load_breast_cancer)
    pb = replace(classes(X[:80], y[:80]), loss=get_loss("hinge"))
    combination = Uniform().learn(pb)
    scores = left_out_at(pb, combination)
    train, test = folds(pb, 5)[2]
    part, rows = pb.apart(train, test)

    class Fixed(Uniform):
        def learn(self, problem):
            return combination

    assert scores[test] == pytest.approx(Fixed().solve(part).predictor.scores(rows), abs=1e-7)


def test_equal_rows_of_several_classes_leave_folds_without_a_class_of_two():
    # Three different rows, each with labels of its own first: nothing to spread evenly, and still folds.
    X = np.repeat([[0.0], [1.0], [2.0]], 3, axis=0)
    y = [0, 1, 2, 1, 2, 0, 2, 0, 1]
    model = MKLClassifier([RBF(1.0), Linear()], solver=LpNorm()).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


@settings(max_examples=6)
@given(st.sampled_from([LpNorm(), SimpleMKL(), Alignment()]), st.integers(-50, 50))
def test_a_factor_of_all_weights_changes_nothing_but_C(solver, power):
    rng = np.random.default_rng(3)
    X, s = rng.normal(size=(40, 2)), rng.exponential(size=40)
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=40)
    model = MKLRegressor([RBF(1.0), Linear()], solver=solver)
    plain, scaled = (clone(model).fit(X, y, sample_weight=factor * s) for factor in (1.0, 10.0**power))
    # 10^power times s is rounded, and machines are solved to 1e-10.
    np.testing.assert_allclose(scaled.predict(X), plain.predict(X), rtol=0, atol=1e-7 * np.abs(y).max())
    assert scaled.C_ * 10.0**power == pytest.approx(plain.C_, rel=1e-6)


@pytest.mark.parametrize("errors", [(-2e-17, 3e-17, -1e-17), (0.0, -3e-18, 5e-20), (-1.0, -1.0, -1.0)])
def test_errors_that_round_to_below_zero_are_errors(errors):
    """What rows left out add to a partial likelihood may be nothing, and less than that by rounding."""
    trials = list(search_C(lambda C: Trial(C, errors[round(2 * np.log10(C)) % 3], None), 0))
    at, best = Found(trials).best()
    assert at == 0 and best.error == pytest.approx(min(errors), rel=SAME)
