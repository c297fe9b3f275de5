"""Bandwidths from a sample: the leave-one-out error, its gradient, and what is chosen."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from manykernels.families import Gaussians, Laplacians
from manykernels.kernels import pairwise_statistic
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.solvers.bandwidth_learning.error import leave_one_out
from manykernels.solvers.blockwise import trials as bandwidth_trials
from manykernels.solvers.blockwise.preparation import Sample, columns_of_time, prepare_one

RNG = np.random.default_rng(0)
Z = RNG.standard_normal((40, 3)).astype(np.float32)
Y = RNG.standard_normal((40, 2)) + Z[:, :1]
T = np.array([0.5, 1.0, 0.2, -1.0])


@pytest.mark.parametrize("statistic", ["l1", "sqdist"])
def test_the_error_is_that_of_leaving_every_row_out(statistic):
    scaled = Z.astype(float) * np.exp(-T[:3])
    K = np.exp(-pairwise_statistic(statistic, scaled, scaled)) + 1.0
    errors = []
    for t in range(40):
        rest = np.delete(np.arange(40), t)
        A = np.linalg.solve(K[np.ix_(rest, rest)] + np.exp(T[3]) * np.eye(39), Y[rest])
        errors.append(np.sum((Y[t] - K[t, rest] @ A) ** 2))
    assert_allclose(leave_one_out(statistic, Z, Y, T)[0], np.mean(errors), rtol=1e-5)  # distances in float32


@pytest.mark.parametrize("statistic", ["l1", "sqdist"])
def test_its_gradient_is_exact(statistic):
    gradient = leave_one_out(statistic, Z, Y, T)[1]
    # Distances in single precision leave 1e-7 of noise: steps of 1e-2 keep it below 1e-3 of the gradient.
    numeric = [
        (leave_one_out(statistic, Z, Y, T + h)[0] - leave_one_out(statistic, Z, Y, T - h)[0]) / 2e-2
        for h in 1e-2 * np.eye(4)
    ]
    assert_allclose(gradient, numeric, rtol=5e-3, atol=1e-3)


def problem_of(family, X, y, weight=1.0, **kw):
    s = np.full(len(X), weight)
    Y = y.reshape(len(X), -1)
    family = family.resolve(X.shape[1]).adapt(X, s)
    scale = Scale.fit(family, X, "trace", s)
    known = {"choose_C": True, **kw}
    return Problem(X, Y - Y.mean(axis=0), family, scale, get_loss("squared"), 1.0, s, **known)


def chosen(family, X, y, weight=1.0, choose_C=True, **kw):
    problem = problem_of(family, X, y, weight, choose_C=choose_C)
    return prepare_one(Sample(problem, seed=0, size=2**12, folds=1), **{"sweeps": 2, **kw})


@pytest.mark.parametrize("family", [Laplacians(ard=True), Gaussians(ard=True)], ids=["laplacian", "gaussian"])
def test_columns_that_do_not_matter_get_wide_bandwidths(family):
    X = RNG.standard_normal((900, 5)) * np.array([1, 100, 1, 1, 1e-3])
    y = np.sin(3 * X[:, 0]) + np.cos(X[:, 1] / 50)
    found = chosen(family, X, y, steps=15)
    relative = np.array(found.members[0]) / X.std(axis=0)
    assert found.shape == "learned" and found.error < 0.3
    assert relative[2:].min() > 2 * relative[:2].max()


def test_a_product_of_three_columns_is_found_at_second_sight():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (12_000, 24))
    y = 2 * X[:, 0] * X[:, 1] + X[:, 5] + 4 * X[:, 2] * X[:, 3] * X[:, 4] + 0.2 * rng.standard_normal(len(X))
    problem = problem_of(Laplacians(ard=True), X, y)
    shapes = Sample(problem, seed=0, size=2**12, folds=1).shapes(problem.family, 40)
    once, twice, equal = (shapes[name][0] for name in ("learned", "relearned", "equal"))
    assert (once[2:5] > equal[2:5]).all()  # or this table does not show what the test is about
    assert (twice[:6] < equal[:6] / 2).all() and (twice[6:] > equal[6:]).all()


def test_one_bandwidth_stays_one():
    X = RNG.standard_normal((800, 2))
    found = chosen(Laplacians(), X, np.sin(2 * X[:, 0]))
    assert isinstance(found.members[0], float) and found.shape == "single"


def test_c_is_tuned_in_multiples():
    X = RNG.standard_normal((800, 1))
    y = np.sin(2 * X[:, 0])
    noisy = chosen(Laplacians(ard=True), X, y + 2 * RNG.standard_normal(800))
    clean = chosen(Laplacians(ard=True), X, y)
    assert np.log2(clean.C) == round(np.log2(clean.C)) and clean.C > noisy.C
    assert chosen(Laplacians(ard=True), X, y, choose_C=False).C == 1.0


def test_more_rows_get_narrower_bandwidths():
    X = RNG.standard_normal((800, 2))
    y = np.sin(2 * X[:, 0])
    few, many = (chosen(Laplacians(bounds=(1e-3, 1e3)), X, y, n_rows=n) for n in (80_000, 64 * 80_000))
    assert_allclose(many.members[0], few.members[0] / 2)  # 64 to the power of 1/6
    assert many.C == few.C


@pytest.mark.parametrize("family", [Laplacians(ard=True), Gaussians(ard=True)], ids=["laplacian", "gaussian"])
def test_neither_offsets_nor_scales_change_what_is_chosen(family):
    X = np.random.default_rng(1).standard_normal((800, 2))
    y = np.column_stack(
        [np.sin(5 * X[:, 0]), np.cos(X[:, 1])]
    )  # so unlike that equal bandwidths are no match
    plain = chosen(family, X, y, steps=10)
    shifted = chosen(family, X + np.array([1e9, 0.0]), y, steps=10)  # as times are, in seconds
    # Grids lie elsewhere, so that multiples, and among like errors shapes, may come out otherwise.
    assert_allclose(shifted.error, plain.error, atol=0.02)
    small = chosen(family, X, y, weight=2.0**-20, steps=10)
    assert_allclose(small.members[0], plain.members[0], rtol=1e-3)
    assert small.C == 2**20 * plain.C
    unlike = chosen(family, X, y * np.array([1.0, 1e4]), steps=10)
    assert_allclose(unlike.members[0], plain.members[0], rtol=1e-3)


# -- rows in the order of time -------------------------------------------------------------------------


def days(n_days=120, each=25):
    """Rows of day after day: month, day, two columns that matter, and an effect of the day."""
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(n_days), each)
    V = rng.standard_normal((n_days * each, 2))
    X = np.column_stack([day // 30, day % 30, V])
    return X, np.sin(4 * V[:, 0]) + rng.standard_normal(n_days)[day]


def test_dates_are_a_clock_together_and_only_in_their_order():
    X, y = days()
    Y, rows = y[:, None], np.arange(len(X))
    assert columns_of_time(X, Y, rows).tolist() == [True, True, False, False]
    assert columns_of_time(X, Y, RNG.permutation(rows)) is None
    assert columns_of_time(X[:, 2:], Y, rows) is None
    assert columns_of_time(X[:, 1:], Y, rows) is None, "the day of the month alone does not tell the month"
    assert columns_of_time(X, X[:, :1], rows) is None, "rows in the order of their targets"
    assert columns_of_time(X[::7], Y[::7], rows[:428]) is None, "too few rows to tell"


def test_the_last_rows_judge_and_dates_are_ignored():
    X, y = days()
    found = chosen(Laplacians(ard=True), X, y, steps=10)
    assert found.shape.endswith("without time")
    assert np.isinf(found.members[0][:2]).all() and np.isfinite(found.members[0][2:]).all()
    shuffled = np.random.default_rng(1).permutation(len(X))
    found = chosen(Laplacians(ard=True), X[shuffled], y[shuffled], steps=10)
    assert np.isfinite(found.members[0]).all(), "among rows at random, the day helps"


# -- fine structure ------------------------------------------------------------------------------------


def timetable(n=30_000, seed=0):
    """A weak target that hangs on the exact line and hour of a row, and a column that does not matter."""
    rng = np.random.default_rng(seed)
    line, hour, day = rng.integers(0, 40, n), rng.integers(0, 24, n), rng.integers(0, 7, n)
    y = rng.standard_normal((40, 24))[line, hour] + 2 * rng.standard_normal(n)
    return np.column_stack([line, hour, day]).astype(float), y


def test_fine_structure_is_found_on_the_columns_that_have_it():
    X, y = timetable()
    found = chosen(Laplacians(ard=True), X, y, steps=5, sweeps=1)
    assert found.shape == "fine, equal"
    line, hour, day = found.members[0]
    assert line < 1.0 and hour < 1.0, "rows of other lines and hours are kept apart"
    assert np.isinf(day)
    assert found.error < 0.87  # 0.8 is noise, and the mean of the 25 rows of a cell leaves 0.03 more


def test_narrow_bandwidths_are_not_taken_where_much_is_explained():
    X, _ = timetable()
    found = chosen(Laplacians(ard=True), X, np.sin(X[:, 0] / 10), steps=5, sweeps=1)
    assert found.error < 0.8 and not found.shape.startswith("fine")


def found(errors):
    return bandwidth_trials.Found("equal", np.ones(1), 0, 0, np.asarray(errors, dtype=float))


def test_errors_are_told_apart_row_by_row():
    noise = np.random.default_rng(0).exponential(size=1000) / 1000
    assert found(noise - 1e-5).clearly_better(found(noise)), "small, and on every row"
    other = np.random.default_rng(1).permutation(noise)
    assert not found(noise - 1e-5).clearly_better(found(other)), "lost in the differences between rows"
    assert found(noise).clearly_better(found(np.full(1000, np.nan)))
    assert not found(np.full(1000, np.nan)).clearly_better(found(noise))
    assert found([np.nan, 1.0]).error == np.inf
