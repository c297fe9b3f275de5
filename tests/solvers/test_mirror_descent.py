"""MirrorDescent: its theorem, its limit, its gap, and what it costs."""

import itertools
import math
import time
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from manykernels import MKLClassifier, MKLRegressor, load
from manykernels.certificates import certify
from manykernels.families import Finite, Products
from manykernels.kernels import RBF
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.solvers import LpNorm, MirrorDescent
from manykernels.solvers.log import Log
from manykernels.solvers.mirror_descent import Walk, gradient_bound

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def table(n=60, r=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, r))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.standard_normal(n)
    return X, (y - y.mean()) / y.std()


def problem(X, y, family, how="base", C=1.0, loss="squared"):
    family = family.resolve(X.shape[1])
    return Problem(X, y[:, None], family, Scale.fit(family, X, how), get_loss(loss), C)


def value_at(pb, members, theta, p=4 / 3):
    """Return J(θ) for the squared loss, from its closed form."""
    rho_sq = pb.scale.rho_sq(members, p)
    K = pb.family.gram(pb.X, pb.X, members, theta / rho_sq) + 1 + np.eye(pb.n_rows) / pb.C
    return float(pb.Y[:, 0] @ np.linalg.solve(K, pb.Y[:, 0])) / (2 * pb.C * pb.n_rows)


# -- the theorem -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def biting():
    """A problem on which the bound of Theorem 3.1 is at most half of J(0) - J*: one strong product, small C."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 1))
    X = np.column_stack([x, x])  # every product of one degree is the same kernel: the gradient is all on few
    y = x[:, 0] * np.sqrt(40) / np.linalg.norm(x)
    pb = problem(X, y, Products(degree=1), C=0.02)
    T = 400
    best = LpNorm(tol=1e-10).solve(pb).objective
    start = value_at(pb, [(0,)], np.zeros(1))
    bound = gradient_bound(pb, 4 / 3, "gradient")
    return pb, T, best, start, bound


def test_the_bound_bites(biting):
    _, T, best, start, bound = biting
    assert math.sqrt(2 * bound**2 * 0.5 / T) <= 0.5 * (start - best)


def test_theorem_3_1_holds_on_average(biting):
    pb, T, best, start, bound = biting
    excess = [averaged_excess(pb, T, best, seed) for seed in range(5)]
    assert np.mean(excess) <= math.sqrt(2 * bound**2 * 0.5 / T)
    assert np.mean(excess) < 0.5 * (start - best)  # a solver that returned its start would fail


def test_theorem_3_1_holds_with_high_probability(biting):
    pb, T, best, _, bound = biting
    epsilon = 0.05
    limit = math.sqrt(bound**2 / T) + 4 * math.sqrt(bound**2 * 0.5 * math.log(1 / epsilon) / T)
    assert max(averaged_excess(pb, T, best, seed) for seed in range(5)) <= limit


def averaged_excess(pb, T, best, seed):
    """Return J(average of θ_0..θ_{T-1}) - J*, before the scaling to the sphere that only helps."""
    walk = walk_of(MirrorDescent(max_iter=T, step="theory", tol=0), pb, seed)
    walk.steps()
    theta = np.pad(walk.sum, (0, len(walk.active) - len(walk.sum))) / T
    return value_at(pb, walk.active.members, theta) - best


def walk_of(solver, pb, seed=0):
    return Walk(solver, pb, Log(None, 0.0), np.random.default_rng(seed))


@pytest.mark.parametrize("count", ["distinct", "ordered"])
@pytest.mark.parametrize("loss", ["squared", "hinge", "logistic", "squared_hinge"])
def test_the_bound_of_the_gradient_holds_at_random_weights(count, loss):
    X, y = table()
    y = y if loss == "squared" else np.sign(y)
    pb = problem(X, y, Products(degree=2, count=count), C=0.5, loss=loss)
    limit = gradient_bound(pb, 4 / 3, "gradient")
    rng = np.random.default_rng(1)
    for _ in range(3):
        run = walk_of(MirrorDescent(), pb)
        z, q = run.draw(rng.standard_normal((60, 1)), 8, rng)
        run.active.add(
            [m for m in z if m],
            rng.uniform(0, 0.3, sum(1 for m in z if m)),
            run.active.rho_of([m for m in z if m]),
        )
        fit = run.active.solve()
        z, q = run.draw(fit.A, 200, rng)
        _, q, g, _ = run.gradients(fit.A, z, q)
        assert np.max(run.active.lam / 2 * g / q) <= limit * (1 + 1e-9)


# -- the estimate and the limit --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["base", "trace", None])
@pytest.mark.parametrize("count", ["distinct", "ordered"])
@pytest.mark.parametrize("sampling", ["gradient", "uniform"])
def test_the_gradient_estimate_is_unbiased(how, count, sampling):
    X, y = table(r=3)
    pb = problem(X, y, Products(degree=2, count=count), how)
    run = walk_of(MirrorDescent(sampling=sampling), pb)
    A = np.random.default_rng(2).standard_normal((60, 1))
    members = pb.family.members()
    g = pb.family.forms(X, A, members) / run.active.rho_of(members)
    draw = run.draw if sampling == "gradient" else run._uniform
    z, q = draw(A, 40_000, run.rng)
    kept, q, values, _ = run.gradients(A, z, q)
    estimate = dict.fromkeys(members, 0.0)
    for member, value in zip(kept, values / q / 40_000, strict=True):
        estimate[member] += value
    got = np.array([estimate[m] for m in members])
    # A coordinate's estimate is g_z/q_z times a binomial share: four standard deviations of each.
    share = np.array([q[kept.index(m)] if m in kept else 1e-4 for m in members])
    assert (np.abs(got - g) <= 4.5 * g * np.sqrt((1 - share) / (share * 40_000)) + 1e-12).all()


@pytest.mark.parametrize("count", ["distinct", "ordered"])
def test_the_objective_approaches_that_of_enumeration(count):
    X, y = table()
    family = Products(degree=2, count=count)
    best = MKLRegressor(family, solver=LpNorm(tol=1e-8), C=1.0).fit(X, y).objective_
    above = [
        np.mean(
            [
                MKLRegressor(family, solver=MirrorDescent(T, tol=0, random_state=s), C=1.0)
                .fit(X, y)
                .objective_
                for s in range(2)
            ]
        )
        - best
        for T in (50, 300, 1500)
    ]
    assert above[0] > above[1] > above[2] >= -1e-12
    assert above[2] <= 0.01 * best


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "max_hinge", "softmax", "squared"])
def test_every_loss_approaches_enumeration(loss):
    X, y = table()
    labels = np.digitize(y, [-0.5, 0.5]) if loss in ("max_hinge", "softmax") else y > 0
    best = MKLClassifier(Products(degree=2), solver=LpNorm(tol=1e-7), loss=loss, C=1.0).fit(X, labels)
    m = MKLClassifier(
        Products(degree=2), solver=MirrorDescent(400, draws=4, random_state=0), loss=loss, C=1.0
    )
    m.fit(X, labels)
    assert best.objective_ * (1 - 1e-6) <= m.objective_ <= 1.02 * best.objective_


def test_finite_families_and_other_base_kernels():
    X, y = table()
    for kernels in (
        Finite([RBF(s) for s in (0.3, 1.0, 3.0, 10.0)]),
        Products(degree=2, base=[RBF(1.0, columns=[0]), RBF(1.0, columns=[1])]),
    ):
        best = MKLRegressor(kernels, solver=LpNorm(tol=1e-7), C=1.0).fit(X, y)
        m = MKLRegressor(kernels, solver=MirrorDescent(500, random_state=0), C=1.0).fit(X, y)
        assert best.objective_ * (1 - 1e-6) <= m.objective_ <= 1.01 * best.objective_


def test_uniform_drawing_is_slower():
    X, y = table(r=8)
    after = {
        s: np.mean(
            [
                MKLRegressor(Products(degree=3), solver=MirrorDescent(200, sampling=s, random_state=i), C=1.0)
                .fit(X, y)
                .objective_
                for i in range(3)
            ]
        )
        for s in ("gradient", "uniform")
    }
    assert after["gradient"] < after["uniform"]


# -- the gap ---------------------------------------------------------------------------------------------


def test_the_exact_gap_can_be_recomputed():
    X, y = table(r=3)
    m = MKLRegressor(Products(degree=2), solver=MirrorDescent(300, draws=4, random_state=0), C=1.0).fit(X, y)
    assert m.gap_kind_ == "exact"
    # The certificate from outside knows the members met; all nine of them, after 1200 draws.
    assert len(m.combination_) == 9
    assert certify(m, X, y).gap == pytest.approx(m.gap_, abs=1e-9)


def test_the_statistical_gap_is_an_upper_limit_of_the_exact_one():
    X, y = table(r=5)
    pb = problem(X, y, Products(degree=3))
    exact, estimates = [], []
    for seed in range(20):
        walk = walk_of(MirrorDescent(30, gap_draws=200), pb, seed)
        walk.steps()
        objective = walk.result().objective
        fit = walk.active.solve()
        estimate = walk.estimated_gap(fit, objective)
        assert estimate.kind == "estimate" and estimate.error > 0
        estimates.append(estimate.value)
        exact.append(walk.exact_gap(fit, objective).value)
    covered = np.mean(np.array(estimates) >= exact)
    assert covered >= 0.8  # 95 % by design; four of twenty misses have probability 0.3 %
    assert np.mean(estimates) <= 1.3 * np.mean(exact)  # and it is not a vacuous one


def test_it_stops_when_the_gap_is_small():
    X, y = table(r=3)
    m = MKLRegressor(Products(degree=1), solver=MirrorDescent(5000, tol=0.05, random_state=0), C=0.1).fit(
        X, y
    )
    assert m.n_iter_ < 5000
    assert m.converged_
    assert m.gap_ <= 0.05 * m.objective_


def test_a_gap_above_the_tolerance_is_told():
    X, y = table()
    with pytest.warns(
        ConvergenceWarning, match=r"MirrorDescent stopped after 20 steps at a relative gap of \d"
    ):
        MKLRegressor(Products(degree=2), solver=MirrorDescent(20), C=1.0).fit(X, y)


# -- habits ----------------------------------------------------------------------------------------------


def test_runs_are_reproducible_and_the_state_is_inherited():
    X, y = table()

    def fit(**kw):
        return MKLRegressor(Products(degree=2), solver=MirrorDescent(50), **kw).fit(X, y).weights_

    np.testing.assert_array_equal(fit(random_state=3), fit(random_state=3))
    assert not np.array_equal(fit(random_state=3), fit(random_state=4))


def test_weights_lie_on_the_sphere():
    X, y = table()
    m = MKLRegressor(Products(degree=2), solver=MirrorDescent(50, random_state=0), C=1.0).fit(X, y)
    assert np.linalg.norm(m.weights_ * m.rho_**2) == pytest.approx(1)


def test_interruption_keeps_what_there_is():
    X, y = table()

    def interrupt(step):
        if step.iteration == 30:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="Interrupted after 30 steps"):
        m = MKLRegressor(Products(degree=2), solver=MirrorDescent(500), C=1.0).fit(
            X, y, on_iteration=interrupt
        )
    assert np.isfinite(m.predict(X)).all()


def test_the_last_iterate_can_be_had():
    X, y = table()
    m = MKLRegressor(Products(degree=2), solver=MirrorDescent(200, average=False, random_state=0), C=1.0).fit(
        X, y
    )
    assert m.score(X, y) > 0.5


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"max_iter": 0}, "max_iter of MirrorDescent"),
        ({"draws": 1.5}, "draws of MirrorDescent"),
        ({"gap_draws": 0}, "gap_draws of MirrorDescent"),
        ({"sampling": "best"}, "sampling of MirrorDescent is 'best'"),
        ({"step": "fast"}, "step of MirrorDescent is 'fast'"),
        ({"tol": -1}, "tol of MirrorDescent"),
    ],
)
def test_options_that_make_no_sense(options, match):
    X, y = table()
    with pytest.raises(ValueError, match=match):
        MKLRegressor(Products(degree=2), solver=MirrorDescent(**options), C=1.0).fit(X, y)


def test_the_theorem_is_silent_on_other_scales():
    X, y = table()
    with pytest.raises(ValueError, match="step='theory' of MirrorDescent needs normalize='base'"):
        MKLRegressor(Products(degree=2), solver=MirrorDescent(step="theory"), normalize="trace", C=1.0).fit(
            X, y
        )


@pytest.mark.slow  # a clock, so it wants a quiet machine
def test_sixteen_draws_cost_less_than_four_times_one():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 60))
    y = X[:, 0] * X[:, 1] + X[:, 2]

    def seconds(draws):
        start = time.process_time()
        MKLRegressor(
            Products(degree=3), solver=MirrorDescent(40, draws=draws, tol=0, random_state=0), C=1.0
        ).fit(X, y)
        return time.process_time() - start

    seconds(1)
    one, sixteen = (min(seconds(d) for _ in range(3)) for d in (1, 16))
    assert sixteen <= 4 * one


def test_no_warning_when_stopped_by_the_caller():
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MKLRegressor(Products(degree=2), solver=MirrorDescent(500), C=1.0).fit(
            X, y, on_iteration=lambda s: s.iteration >= 20
        )


def test_members_met_are_real_products():
    X, y = table()
    m = MKLRegressor(Products(degree=3), solver=MirrorDescent(100, random_state=0), C=1.0).fit(X, y)
    universe = {z for d in (1, 2, 3) for z in itertools.combinations_with_replacement(range(4), d)}
    assert set(m.combination_.members) <= universe
    assert len(set(m.combination_.members)) == len(m.combination_.members)


def test_a_constant_target_and_a_single_row_are_fitted():
    X, _ = table()
    m = MKLRegressor(Products(degree=2), solver=MirrorDescent(20), C=1.0).fit(X, np.ones(60))
    np.testing.assert_allclose(m.predict(X), 1)
    assert (
        MKLRegressor(Products(degree=2), solver=MirrorDescent(5), C=1.0).fit(X[:1], [2.0]).predict(X[:1]) == 2
    )


def test_model_files_hold_what_was_learned(tmp_path):
    X, y = table()
    m = MKLRegressor(Products(degree=2), solver=MirrorDescent(50, random_state=0), C=1.0).fit(X, y)
    m.save(tmp_path / "m.mk")
    np.testing.assert_array_equal(load(tmp_path / "m.mk").predict(X), m.predict(X))


def test_an_estimated_gap_cannot_be_recomputed():
    X, y = table(r=30)
    m = MKLRegressor(Products(degree=3), solver=MirrorDescent(20), C=1.0).fit(X, y)
    assert m.combination_.family.size() > 5000 and m.gap_kind_ == "estimate" and not m.converged_
    assert m.trace_.extra["gap_error"][0] > 0
    with pytest.raises(ValueError, match="only an exact one can be recomputed"):
        certify(m, X, y)


def test_the_exact_gap_counts_kernels_never_met():
    X, y = table(r=4)
    m = MKLRegressor(Products(degree=3), solver=MirrorDescent(8, random_state=0), C=1.0).fit(X, y)
    assert len(m.combination_) < m.combination_.family.size()
    assert certify(m, X, y).gap == pytest.approx(m.gap_, rel=1e-9)


def test_rows_of_weight_zero_may_as_well_be_removed():
    X, y = table()
    s = np.ones(60)
    s[40:] = 0
    # Row counts enter the step and the drawing only through A, so the runs draw the same kernels.
    a = MKLRegressor(Products(degree=2), solver=MirrorDescent(60, random_state=0), C=1.0).fit(X, y, s)
    b = MKLRegressor(Products(degree=2), solver=MirrorDescent(60, random_state=0), C=1.0).fit(X[:40], y[:40])
    np.testing.assert_allclose(a.predict(X), b.predict(X), atol=1e-6)


def test_weights_to_start_from_are_refused():
    X, y = table()
    with pytest.raises(ValueError, match="init is given, but MirrorDescent has no weights to start from"):
        MKLRegressor(Products(degree=2), solver=MirrorDescent(20), C=1.0).fit(X, y, init=[1.0])
