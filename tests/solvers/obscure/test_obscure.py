"""Obscure and Ufo: the iterates of a plain reference, the theorems, the optimum, and kernels that do not fit."""

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.contracts.cases import CODED, problem, targets
from tests.solvers.obscure import reference as plain
from tests.solvers.reference import known_optimum

from manykernels import MKLClassifier, MKLRegressor, load
from manykernels._util.memory import parse_bytes
from manykernels.certificates import certify
from manykernels.families import Finite, Precomputed, Products
from manykernels.kernels import RBF, Laplacian, Linear, Polynomial
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale, nu_of
from manykernels.solvers import LpNorm, Obscure, Ufo
from manykernels.solvers.obscure.sequential import Passes, StepRule

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

HINGES = [("hinge", 1), ("hinge", 3), ("max_hinge", 3)]
SMOOTH = [("logistic", 1), ("logistic", 3), ("softmax", 3)]


def gaussians(X, sigmas):
    D = euclidean_distances(X, squared=True)
    return np.stack([np.exp(-D / s**2) for s in sigmas], axis=2)


def stacked(loss="hinge", c=1, n=40, C=1.0, weights=None, sigmas=(0.5, 1.0, 3.0), dtype=float):
    """Return a problem on a stack of Gaussian kernels."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 4))
    s = np.ones(n) if weights is None else rng.exponential(size=n) + 0.1
    K = gaussians(X, sigmas).astype(dtype)
    family = Precomputed().resolve(len(sigmas))
    return Problem(K, targets(loss, c, X), family, Scale.fit(family, K, "trace", s), get_loss(loss), C, s)


def sweeps(pb, p, memory=2**30, average=False):
    return Passes(pb, p, memory, average, Obscure(p).penalties)


def separable(n=120, seed=0, views=1):
    """Return rows of two well separated classes, seen by several views."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return [y[:, None] * np.array([2.0, 0.0]) + 0.6 * rng.normal(size=(n, 2)) for _ in range(views)], y


# -- the iterates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", HINGES + SMOOTH, ids=str)
@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
def test_online_stage_is_algorithm_1(outputs, p):
    pb = stacked(*outputs, weights="random")
    run, q, eta = sweeps(pb, p), p / (p - 1), 0.3
    order = np.random.default_rng(1).integers(40, size=100)  # with repetitions
    updates = run.run(order, StepRule(batch=False, eta=eta))
    iterate = run.evaluate(StepRule(batch=False))
    phi = _features(pb)
    _, w, expected = plain.online(phi, pb.Y, pb.sample_weight, pb.loss, order, q, eta)
    assert updates == expected
    _same(run, iterate, w, phi, pb, p)


@pytest.mark.parametrize("outputs", HINGES + SMOOTH, ids=str)
@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
def test_second_stage_is_algorithm_2(outputs, p):
    pb = stacked(*outputs, weights="random", C=3.0)
    run, q = sweeps(pb, p), p / (p - 1)
    rng = np.random.default_rng(1)
    first, order = rng.permutation(40), rng.integers(40, size=100)
    run.run(first, StepRule(batch=False, eta=0.2))
    radius = 1.5 * np.sqrt(
        run.evaluate(StepRule(batch=False)).u @ np.ones(3)
    )  # small, so that projections happen
    rule = StepRule(batch=True, radius=radius)
    for part in (order[:60], order[60:]):  # the state is handed on
        run.run(part, rule)
    phi = _features(pb)
    theta, _, _ = plain.online(phi, pb.Y, pb.sample_weight, pb.loss, first, q, 0.2)
    w = plain.batch(phi, pb.Y, pb.sample_weight, pb.loss, order, q, run.lam, radius, theta)[-1]
    _same(run, run.evaluate(rule), w, phi, pb, p)


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 1e-2])
@pytest.mark.parametrize("outputs", HINGES, ids=str)
def test_ufo_takes_its_own_step(outputs, alpha):
    pb, p = stacked(*outputs, weights="random", C=2.0), 1.4
    solver = Ufo(alpha, p=p)
    run = Passes(pb, p, 2**30, False, solver.penalties)
    rule = StepRule(batch=True, threshold=alpha / run.lam)
    order = np.random.default_rng(1).integers(40, size=150)
    run.run(order, rule)
    phi = _features(pb)
    w = plain.ufo(phi, pb.Y, pb.sample_weight, pb.loss, order, p / (p - 1), run.lam, alpha)
    _same(run, run.evaluate(rule), w, phi, pb, p, alpha)


def _features(pb):
    """Return features over the problem's scale, which weighs the rows."""
    s = pb.sample_weight
    phi = plain.features(pb.X)
    return [P / np.sqrt(np.average(np.square(P).sum(axis=1), weights=s)) for P in phi]


def _same(run, iterate, w, phi, pb, p, alpha=0.0):
    # Sums run in another order, and a hundred steps carry the rounding on.
    assert_allclose(iterate.u, w.norms(), rtol=1e-8, atol=1e-10)
    assert_allclose(iterate.intercept, w.b, rtol=1e-8, atol=1e-10)
    F = run.predictor(iterate).scores(pb.X)
    assert_allclose(F, plain.scores(w, phi), rtol=1e-7, atol=1e-9)
    expected = plain.objective(w, phi, pb.Y, pb.sample_weight, pb.loss, p, run.lam, alpha)
    assert iterate.objective == pytest.approx(expected, rel=1e-9)


def test_average_is_that_of_the_coefficients_after_every_step():
    pb, rule = stacked("max_hinge", 3), StepRule(batch=True, radius=5.0)
    order = np.random.default_rng(0).permutation(40)
    averaged, single = sweeps(pb, 1.3, average=True), sweeps(pb, 1.3)
    averaged.run(order, rule)
    each = []
    for t in order:
        single.run(np.array([t]), rule)
        each.append(single.evaluate(rule).A)
    iterate = averaged.evaluate(rule)
    assert_allclose(iterate.A, np.mean(each, axis=0), rtol=1e-10, atol=1e-14)
    # Its scores, from the lagging tables, are those of the coefficients.
    again = averaged.predictor(iterate).scores(pb.X)
    assert iterate.objective == pytest.approx(_objective(pb, iterate, again, 1.3), rel=1e-10)


def _objective(pb, iterate, F, p):
    group = np.sum(iterate.u**p) ** (2 / p) + iterate.intercept @ iterate.intercept
    return pb.sample_weight @ pb.loss.value(pb.Y, F) / pb.n_rows + group / (2 * pb.C * pb.n_rows)


def test_ufo_without_threshold_is_pegasos():
    pb = stacked("max_hinge", 3)
    args = {"epochs": 5, "random_state": 0}
    a = Ufo(p=1.3, **args).solve(pb)
    b = Obscure(1.3, stage="batch", radius=np.inf, **args).solve(pb)
    assert_array_equal(a.dual_coef, b.dual_coef)
    assert a.trace.objective == b.trace.objective


# -- the theorems --------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
def test_theorem_3_bounds_the_random_iterate(p):
    # A short memory and strong regularisation, so that the bound is a small part of what there is to gain.
    pb = stacked("hinge", n=30, C=0.2)
    q, lam = p / (p - 1), 1 / (0.2 * 30)
    best = LpNorm(p, tol=1e-8).solve(pb)
    slope = np.sqrt(sweeps(pb, p).push_sq().max())
    radius = np.sqrt(2 / lam)  # from f = 0
    steps = 60_000
    c = lam * radius + slope
    log = 1 + np.log(steps)
    bound = c * np.sqrt(q * log) * min(c * np.sqrt(q * log) / (lam * steps), 4 * radius / np.sqrt(steps))
    assert bound <= 0.5 * (1.0 - best.objective)  # f = 0 would fail
    excess = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        run, rule = sweeps(pb, p), StepRule(batch=True, radius=radius)
        stops = np.sort(rng.integers(1, steps + 1, size=60))
        for part in np.diff(stops, prepend=0):
            run.run(rng.integers(30, size=part), rule)
            excess.append(run.evaluate(rule).objective - best.objective)
    assert 0 <= np.mean(excess) <= bound


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
@pytest.mark.parametrize("eta", [0.1, 1.0])
def test_theorem_4_bounds_the_updates_on_separable_rows(p, eta):
    (X,), y = separable(n=300)
    K = gaussians(X, [2.0, 4.0, 8.0])
    family = Precomputed().resolve(3)
    pb = Problem(K, y[:, None], family, Scale.fit(family, K, "trace"), get_loss("hinge"), 1e3)
    run, q = sweeps(pb, p), p / (p - 1)
    rng = np.random.default_rng(0)
    passes = []
    while not passes or passes[-1]:
        passes.append(run.run(rng.permutation(300), StepRule(batch=False, eta=eta)))
    best = LpNorm(p, tol=1e-4).solve(pb)
    margin = np.min(y[:, None] * best.predictor.scores(K))
    norm_sq = 2 * best.objective / (1 / (1e3 * 300)) / margin**2  # of a predictor with all margins at least 1
    bound = q * (2 / eta + run.push_sq().max()) * norm_sq
    assert sum(passes) <= bound
    assert bound < 300 * len(passes)  # one that never learns would update at every visit
    # The norm of what it ends with, which is R here: there is no loss left.
    iterate = run.evaluate(StepRule(batch=False))
    size = np.sqrt(np.linalg.norm(iterate.u, p) ** 2 + iterate.intercept @ iterate.intercept)
    assert size <= (2 + eta * run.push_sq().max()) * np.sqrt(norm_sq)


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
@pytest.mark.parametrize("loss, c", [("hinge", 1), ("max_hinge", 3)])
def test_theorem_4_bounds_the_updates_where_nothing_separates_the_rows(loss, c, p):
    pb = replace(contradicting(loss, c), C=0.01)
    q, n, epochs = p / (p - 1), pb.n_rows, 60
    # Any predictor bounds them; this one has a small norm, and few losses all the same.
    best = LpNorm(p, tol=1e-3).solve(pb)
    losses = pb.loss.value(pb.Y, best.predictor.scores(pb.X))
    norm_sq = 2 * pb.C * n * (best.objective - losses.mean())
    for eta in (0.5, 2.0):
        run, rng = sweeps(pb, p), np.random.default_rng(0)
        total = sum(run.run(rng.permutation(n), StepRule(batch=False, eta=eta)) for _ in range(epochs))
        # Every update adds η/q to the coefficient of the right output: so often each row was updated.
        often = np.abs(np.sum(run.coef, axis=1, where=(pb.Y > 0) | (c == 1))) * q / eta
        assert often.sum() == pytest.approx(total)
        slope_sq = (2 if c > 1 else 1) * run.push_sq().max()
        size, lost = q * (2 / eta + slope_sq) * norm_sq, often @ losses
        bound = size + lost + np.sqrt(size * lost)
        assert total <= bound
        assert bound < 1.25 * total  # a quarter more updates would break it
        assert (
            size < 0.05 * total and total > 0.19 * epochs * n
        )  # there is no end to them, as rows contradict


def contradicting(loss, c, n=200):
    """Return a problem with rows in two copies, one in ten of them with another class: no predictor is right on all."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n // 2, 2)) * 0.5
    y = rng.integers(max(c, 2), size=n // 2)
    angle = 2 * np.pi * y / max(c, 2)
    X += 1.5 * np.column_stack([np.cos(angle), np.sin(angle)])
    other = np.where(rng.random(n // 2) < 0.2, (y + 1) % max(c, 2), y)
    X, y = np.vstack([X, X]), np.concatenate([y, other])
    Y = np.where(y == 0, 1.0, -1.0)[:, None] if c == 1 else np.eye(c)[y]
    K, family = gaussians(X, [1.0, 2.0, 4.0]), Precomputed().resolve(3)
    return Problem(K, Y, family, Scale.fit(family, K, "trace"), get_loss(loss), 1.0)


def test_more_informative_kernels_mean_fewer_updates():
    views, y = separable(n=400, views=16, seed=3)
    views = [V * [0.35, 1.0] for V in views]  # each view alone overlaps
    totals = []
    for m in (1, 4, 16):
        K = np.stack([V @ V.T for V in views[:m]], axis=2)
        model = MKLClassifier("precomputed", solver=Obscure(1.1, stage="online", random_state=0), C=1.0).fit(
            K, y
        )
        totals.append(sum(model.trace_.extra["updates"]))
    assert totals[0] > 1.5 * totals[1] > 1.5 * totals[2]


# -- the optimum ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.1, 4 / 3, 2.0])
def test_objective_is_within_a_percent_of_lp_norm(p):
    pb = stacked("hinge", n=150, C=1.0, sigmas=(0.5, 1.0, 2.0, 4.0))
    best = LpNorm(p, tol=1e-6).solve(pb)
    r = Obscure(p, epochs=600, tol=0.0, random_state=0).solve(pb)
    assert best.objective - best.gap <= r.objective <= 1.01 * best.objective
    assert r.objective - r.gap <= best.objective


def test_ufo_meets_lp_norm():
    pb = stacked("hinge", n=150, sigmas=(0.5, 1.0, 2.0, 4.0))
    solver = Ufo(epochs=600, tol=0.0, random_state=0)
    p = 2 * np.log(4) / (2 * np.log(4) - 1)
    assert solver.norm(4) == pytest.approx(p)
    best = LpNorm(p, tol=1e-6).solve(pb)
    assert solver.solve(pb).objective <= 1.01 * best.objective


@pytest.mark.parametrize("m, p", [(1, 2.0), (2, 2.0), (3, 2 * np.log(3) / (2 * np.log(3) - 1))])
def test_norm_of_ufo_stays_at_most_2(m, p):
    assert Ufo().norm(m) == pytest.approx(p) and Ufo(p=1.2).norm(m) == 1.2


def test_ufo_drops_kernels_and_certifies_its_own_objective():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    y = X[:, 0] + 0.3 * rng.normal(size=150) > 0
    kernels = [Linear(columns=[j]) for j in range(6)]
    model = MKLClassifier(kernels, solver=Ufo(0.01, random_state=0, tol=1e-6), C=1.0).fit(X, y)
    assert model.weights_[0] > 0 and np.count_nonzero(model.weights_) < 6
    again = certify(model, X, y)
    assert again.primal == pytest.approx(model.objective_, rel=1e-7)
    assert again.gap == pytest.approx(model.gap_, rel=1e-5)
    assert 0 <= model.gap_ <= 0.02 * model.objective_


@pytest.mark.parametrize("outputs", CODED, ids=str)
@pytest.mark.parametrize(
    "solver", [Obscure(4 / 3, random_state=0), Ufo(p=4 / 3, random_state=0)], ids=["obscure", "ufo"]
)
def test_every_loss_it_takes_comes_near_the_optimum(outputs, solver):
    pb = problem(*outputs, weights="random")
    r = solver.solve(pb)
    best = known_optimum(*outputs, 4 / 3, "random", 1.0)
    assert best * (1 - 1e-6) <= r.objective <= 1.05 * best  # interior point: 1e-8, stochastic: per cent
    assert r.objective - r.gap <= best * (1 + 1e-6)


def test_nearly_sparse_norm_works():
    pb = stacked("max_hinge", 3, n=80, sigmas=(0.3, 1.0, 3.0, 10.0))
    r = Obscure(1.0001, random_state=0).solve(pb)  # q = 10001
    assert np.isfinite(r.objective) and r.objective < 1.0 and r.gap >= 0
    theta = r.combination.weights * r.combination.rho**2
    nu = nu_of(1.0001)
    assert np.sum(theta**nu) ** (1 / nu) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("C", [1e-6, 1e-3])
def test_strong_regularisation_forgets_the_online_stage(C):
    pb = stacked("hinge", n=100, C=C)
    best = LpNorm(1.3, tol=1e-8).solve(pb).objective
    r = Obscure(1.3, random_state=0).solve(pb)
    assert r.trace.objective[9] > 1.0 > r.objective  # 1 is f = 0
    assert r.objective - best <= 0.02 * (1.0 - best)


def test_the_better_stage_is_returned():
    pb = stacked("max_hinge", 3, n=100, C=100.0)
    r = Obscure(1.2, online_epochs=5, epochs=2, random_state=0).solve(pb)
    online = [v for v, stage in zip(r.trace.objective, r.trace.extra["stage"]) if stage == "online"]
    assert min(r.trace.objective[len(online) :]) > min(online)  # or the test would say nothing
    assert r.objective == min(online)


@pytest.mark.parametrize(
    "solver", [Obscure(1.3), Ufo(p=1.3), Obscure(1.3, stage="online"), Obscure(1.3, average=False)]
)
@pytest.mark.parametrize("C", [1.0, 0.01])  # in bounds, and far outside them
def test_certificate_can_be_recomputed(solver, C):
    pb = stacked("max_hinge", 3, weights="random", C=C)
    y = pb.Y.argmax(axis=1)
    model = MKLClassifier("precomputed", solver=clone(solver), random_state=0, C=C)
    model.fit(pb.X, y, sample_weight=pb.sample_weight)
    again = certify(model, pb.X, y, pb.sample_weight)
    assert again.primal == pytest.approx(model.objective_, rel=1e-8)
    assert again.gap == pytest.approx(model.gap_, abs=1e-8 * model.objective_)
    assert model.gap_kind_ == "exact" and all(gap >= 0 for gap in model.trace_.gap)


def test_nearest_feasible_point_tightens_the_bound():
    pb = stacked("max_hinge", 3, n=100, C=0.01)
    best = LpNorm(1.3, tol=1e-8).solve(pb).objective
    r = Obscure(1.3, random_state=0).solve(pb)
    assert r.objective - r.gap <= best <= r.objective
    assert r.gap < 0.5 * r.trace.gap[int(np.argmin(r.trace.objective))]


# -- when to stop --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("tol", [0.0, 1e-3])
def test_an_online_stage_ends_without_a_word_when_r_no_longer_falls(tol):
    r = Obscure(1.3, stage="online", tol=tol, random_state=0).solve(contradicting("hinge", 1))
    values = r.trace.objective
    assert r.trace.extra["ending"] == ("online",) and r.trace.extra["updates"][-1] > 0
    assert not r.converged and r.objective == min(values)
    fell = [
        min(values[: i - 10]) - min(values[i - 10 : i]) > 10 * max(tol, 1e-5) * min(values[: i - 10])
        for i in range(11, len(values) + 1)
    ]
    assert all(fell[:-1]) and not fell[-1]


@pytest.mark.filterwarnings("error")
def test_an_online_stage_on_separable_rows_ends_with_a_pass_without_mistakes():
    (X,), y = separable(n=200)
    K = gaussians(X, [2.0, 4.0])
    model = MKLClassifier("precomputed", solver=Obscure(1.05, stage="online", random_state=0), C=100.0)
    updates = model.fit(K, y).trace_.extra["updates"]
    assert updates[-1] == 0 and 0 not in updates[:-1] and len(updates) > 10
    assert not model.loss_.value(y[:, None], model.decision_function(K)[:, None]).any()


def test_epochs_of_the_online_stage_that_run_out_are_told():
    with pytest.warns(ConvergenceWarning, match="R is still falling: raise online_epochs"):
        r = Obscure(1.05, stage="online", online_epochs=3, random_state=0).solve(stacked("hinge"))
    assert r.n_iter == 3 and r.trace.extra["ending"] == ("online_epochs",)


def test_small_p_takes_more_online_epochs_and_a_much_lower_r():
    # Ten epochs leave the online stage at p = 1.01 far from what it can reach, and R with it.
    pb = stacked("max_hinge", 3, n=150, C=100.0, sigmas=(0.5, 1.0, 2.0, 4.0))
    fits = {
        (p, most): Obscure(p, stage="online", online_epochs=most, random_state=0).solve(pb)
        for p in (1.01, 1.5)
        for most in (10, "auto")
    }
    assert fits[1.01, "auto"].n_iter > 5 * fits[1.5, "auto"].n_iter
    assert fits[1.01, "auto"].objective < 0.1 * fits[1.01, 10].objective
    best = LpNorm(1.01, tol=1e-3).solve(pb).objective
    assert fits[1.01, "auto"].objective < 2 * best  # R is then at most 1.4 times what it could be


def test_it_stops_when_the_objective_has_settled_and_says_so():
    with pytest.warns(
        ConvergenceWarning, match=r"relative gap of .*, above tol=0.001; the objective hardly falls"
    ):
        r = Obscure(1.3, tol=1e-3, random_state=0).solve(stacked("hinge", n=100))
    assert not r.converged and r.n_iter < 210 and r.trace.extra["ending"] == ("settled",)
    late = r.trace.objective[-20:]
    assert abs(np.mean(late[:10]) - np.mean(late[10:])) <= 0.02 * np.mean(late)


@pytest.mark.filterwarnings("error")
def test_a_gap_within_tol_is_convergence_without_a_word():
    r = Obscure(1.3, tol=0.2, random_state=0).solve(stacked("hinge", n=100))
    assert r.converged and r.gap <= 0.2 * r.objective and r.trace.extra["ending"] == ("gap",)


@pytest.mark.parametrize("solver", [Obscure(2.0, random_state=0), Ufo(random_state=0)])
def test_no_fit_is_worse_than_f_0_nor_called_converged_at_a_large_gap(solver):
    # Weights over twelve orders of magnitude with a large C: single rows push the steps far beyond the optimum.
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, s = rng.normal(size=(60, 3)), 10 ** rng.uniform(-6, 6, size=60)
        y = np.where(X[:, 0] + rng.normal(size=60) > 0, 1, 0)
        model = MKLClassifier("gaussian", solver=solver, loss="squared", C=5e3)
        with pytest.warns(ConvergenceWarning, match="relative gap of"):
            model.fit(X, y, sample_weight=s)
        assert not model.converged_ and model.gap_ > solver.tol * model.objective_
        assert model.objective_ <= 0.5 * s.mean() * (1 + 1e-12)  # the squared loss of f = 0


def test_epochs_that_run_out_warn_with_the_gap():
    with pytest.warns(ConvergenceWarning, match="relative gap of") as caught:
        r = Obscure(1.3, epochs=3, random_state=0).solve(stacked("hinge", C=100.0))
    assert not r.converged and f"{r.gap / r.objective:.1e}" in str(caught[0].message)


def test_interrupt_keeps_the_best_so_far():
    def interrupt(step):
        if step.iteration == 4:
            raise KeyboardInterrupt

    pb = stacked("hinge", n=80)
    model = MKLClassifier("precomputed", solver=Obscure(1.3, random_state=0), C=1.0)
    with pytest.warns(ConvergenceWarning, match=r"Interrupted after 4 epochs.* gap of"):
        model.fit(pb.X, pb.Y[:, 0], on_iteration=interrupt)
    assert model.n_iter_ == 4 and not model.converged_
    assert model.objective_ == min(model.trace_.objective) and np.isfinite(model.predict(pb.X)).all()


def test_interrupt_before_the_first_epoch_goes_through(monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Passes, "evaluate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Obscure().solve(stacked())


@pytest.mark.filterwarnings("error")
def test_callback_sees_every_epoch_and_can_stop():
    steps = []
    pb = stacked("max_hinge", 3)

    def look(step):
        steps.append(step)
        return step.iteration == 12

    r = Obscure(1.3, online_epochs=4, random_state=0).solve(pb, on_iteration=look)
    assert [s.iteration for s in steps] == list(range(1, 13)) and r.n_iter == 12
    assert r.trace.extra["stage"] == ("online",) * 4 + ("batch",) * 8
    risk = pb.loss.value(pb.Y, steps[-1].predictor().scores(pb.X)).mean()
    assert risk < steps[-1].objective


def test_two_fits_are_identical():
    pb = stacked("max_hinge", 3)
    a, b = (Obscure(1.3, epochs=10, random_state=3).solve(pb) for _ in range(2))
    assert_array_equal(a.dual_coef, b.dual_coef)
    assert a.trace.objective == b.trace.objective


# -- kernels that do not fit ---------------------------------------------------------------------------

MIXED = [
    Linear(columns=[0, 1]),
    Polynomial(3, gamma=0.3, columns=[0, 1]),
    RBF(2.0, columns=[0, 1]),
    RBF(1.5),
    Laplacian(2.0, columns=[2, 3]),
    lambda X, Z: np.cos(X[:, :1] - Z[:, 0]),
]


def rows(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, np.digitize(X[:, 0] * X[:, 1] + X[:, 2], [-0.5, 0.5])


@pytest.mark.parametrize("average", [True, False])
def test_kernels_on_the_fly_give_the_stored_result(average):
    X, y = rows(150)
    fits = [
        MKLClassifier(
            list(MIXED), solver=Obscure(1.3, epochs=6, average=average, memory=memory, random_state=0), C=5.0
        ).fit(X, y)
        for memory in ("1GiB", 40_000)  # everything, or blocks of 28 rows
    ]
    # Single precision on the fly: 1e-7 a value, carried through 16 epochs.
    assert_allclose(fits[1].trace_.objective, fits[0].trace_.objective, rtol=1e-4)
    assert fits[1].trace_.extra["updates"] == fits[0].trace_.extra["updates"]
    assert_allclose(fits[1].weights_, fits[0].weights_, rtol=1e-4)
    assert_allclose(fits[1].decision_function(X), fits[0].decision_function(X), rtol=1e-3, atol=1e-3)
    assert certify(fits[1], X, y).primal == pytest.approx(fits[1].objective_, rel=1e-5)


def test_rows_that_come_twice_in_a_block_are_one_row():
    X, y = rows(60)
    family = Finite([RBF(1.0), Linear()]).resolve(4)
    pb = Problem(X, np.eye(3)[y], family, Scale.fit(family, X, "trace"), get_loss("max_hinge"), 1.0)
    order = np.random.default_rng(0).integers(60, size=200)
    rule = StepRule(batch=True, radius=5.0)
    results = []
    for memory in (2**30, 16 * 50**2):
        run = sweeps(pb, 1.5, memory)
        run.run(order, rule)
        results.append(run.evaluate(rule).A)
    assert_allclose(results[1], results[0], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("kernel", [RBF(1e-3), Polynomial(30, gamma=5.0), Linear()], ids=str)
def test_single_precision_is_left_where_it_does_not_do(kernel):
    X, _ = rows(50)
    X = X + 1e3  # far from the origin
    family = Finite([kernel]).resolve(4)
    picked = np.arange(20)
    values = family.values(X, [0]).open(picked, slice(None))(0)
    assert_allclose(values, family.gram(X[:20], X, [0], [1.0]), rtol=1e-4, atol=1e-6)


def test_peak_memory_is_bounded():
    n = 3000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    y = X[:, 0] * X[:, 1] > 0
    solver = Obscure(1.3, online_epochs=1, epochs=1, memory="8MiB", random_state=0)
    model = MKLClassifier([RBF(s) for s in (1.0, 2.0, 4.0, 8.0)], solver=solver, C=1.0)
    model.fit(X[:200], y[:200])  # compiles
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    stack = 4 * n * n * 4
    assert peak < 48 * 2**20 < stack / 2  # blocks, tables, and a few tiles per thread


@pytest.mark.slow
def test_an_epoch_costs_in_proportion_to_the_rows_at_fixed_supports():
    import time

    seconds = []
    for n in (4000, 16000):
        X = np.random.default_rng(0).normal(size=(n, 4))
        s = np.zeros(n)
        s[:200] = 1.0  # the only rows that can be updated
        y = np.where(X[:, 0] * X[:, 1] > 0, 1, 0)
        family = Finite([RBF(1.0), RBF(3.0)]).resolve(4)
        pb = Problem(X, 2.0 * y[:, None] - 1, family, Scale.fit(family, X, None), get_loss("hinge"), 1.0, s)
        run = sweeps(pb, 1.5, 2**22)
        best = np.inf
        for seed in range(4):
            started = time.process_time()
            run.run(np.random.default_rng(seed).permutation(n), StepRule(batch=False, eta=0.5))
            best = min(best, time.process_time() - started)
        seconds.append(best)
    assert seconds[1] <= 8 * seconds[0]  # four times the rows; sixteen times would be quadratic


# -- as a user would -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["obscure", "ufo"])
def test_names_lists_dicts_and_pipelines(name):
    X, y = rows(90)
    for kernels in ([RBF(1.0), Linear()], {"a": RBF(1.0), "b": Linear()}, "gaussian", Products(degree=2)):
        model = make_pipeline(StandardScaler(), MKLClassifier(kernels, solver=name, random_state=0, C=1.0))
        assert model.fit(X, y).score(X, y) > 0.6
        assert model[-1].loss_.name == "max_hinge"


def test_default_losses():
    X, y = rows(60)
    assert MKLClassifier([RBF()], solver="obscure", C=1.0).fit(X, y > 1).loss_.name == "hinge"
    model = MKLRegressor([RBF(), Linear()], solver="obscure", C=10.0, random_state=0).fit(X, X[:, 0])
    assert model.loss_.name == "squared" and model.score(X, X[:, 0]) > 0.9


def test_precomputed_is_sliced_by_cross_validation():
    X, y = rows(120)
    K = gaussians(X, [1.0, 3.0])
    assert (
        cross_val_score(
            MKLClassifier("precomputed", solver=Obscure(random_state=0), C=1.0), K, y, cv=3
        ).mean()
        > 0.5
    )


def test_single_precision_stacks_are_read_in_place():
    pb, low = stacked("max_hinge", 3), stacked("max_hinge", 3, dtype=np.float32)
    assert sweeps(low, 1.5).K is low.X
    a, b = (Obscure(1.5, epochs=5, random_state=0).solve(x) for x in (pb, low))
    assert b.objective == pytest.approx(a.objective, rel=1e-4)


def test_rows_without_weight_do_not_matter():
    pb = problem("max_hinge", 3, weights="zeros")
    r = Obscure(1.3, random_state=0).solve(pb)
    assert not r.dual_coef[pb.sample_weight == 0].any()


def test_saved_models_come_back(tmp_path):
    X, y = rows(60)
    for solver in (Obscure(1.2, epochs=5), Ufo(1e-3, epochs=5)):
        model = MKLClassifier([RBF(), Linear()], solver=solver, random_state=0, C=1.0).fit(X, y)
        model.save(tmp_path / "m.mk")
        again = load(tmp_path / "m.mk")
        assert again.trace_ == model.trace_
        assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_a_kernel_that_vanishes_gets_no_weight():
    X, y = rows(60)
    X[:, 3] = 0.0
    model = MKLClassifier([RBF(), Linear(columns=[3])], solver=Obscure(random_state=0), C=1.0).fit(X, y)
    assert model.weights_[1] == 0 and np.isfinite(model.objective_)


def test_targets_without_signal_give_nothing():
    X, _ = rows(30)
    model = MKLRegressor([RBF()], solver=Obscure(random_state=0), C=1.0).fit(X, np.full(30, 3.0))
    assert_allclose(model.predict(X), 3.0)
    assert model.objective_ == 0 and model.converged_


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.0, 0.5, 2.1, np.nan, "two", None, True])
def test_other_norms_are_refused(p):
    X, y = rows(20)
    for solver in (Obscure(p), Ufo(p=p)):
        with pytest.raises(ValueError, match=r"p of \w+ is .* \(1, 2\]"):
            MKLClassifier([RBF()], solver=solver, C=1.0).fit(X, y)


@pytest.mark.parametrize(
    "name, value",
    [
        ("stage", "first"),
        ("eta", 0.0),
        ("eta", np.inf),
        ("eta", "large"),
        ("online_epochs", 0),
        ("epochs", 1.5),
        ("tol", -1.0),
        ("tol", "small"),
        ("radius", 0.0),
        ("radius", np.nan),
        ("memory", 0),
        ("memory", "much"),
        ("memory", None),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name, value):
    X, y = rows(20)
    with pytest.raises(ValueError, match=f"{name} of Obscure"):
        MKLClassifier([RBF()], solver=Obscure(**{name: value}), C=1.0).fit(X, y)


@pytest.mark.parametrize("alpha", [-1.0, np.inf, "some"])
def test_alpha_must_not_be_negative(alpha):
    X, y = rows(20)
    with pytest.raises(ValueError, match="alpha of Ufo"):
        MKLClassifier([RBF()], solver=Ufo(alpha), C=1.0).fit(X, y)


def test_one_class_and_broken_stacks_are_refused():
    X, y = rows(20)
    K = gaussians(X, [1.0, 2.0])
    model = MKLClassifier("precomputed", solver=Obscure(), C=1.0)
    with pytest.raises(ValueError, match="one class"):
        model.fit(K, np.zeros(20))
    for bad in (np.nan, 5.0):
        broken = K.copy()
        broken[3, 4, 1] = bad
        with pytest.raises(ValueError, match=r"not finite|not symmetric"):
            model.fit(broken, y)
    with pytest.raises(ValueError, match="every kernel vanishes"):
        model.fit(np.zeros((20, 20, 2)), y)


@pytest.mark.parametrize(
    "text, number", [("1GiB", 2**30), ("512 MiB", 2**29), ("2e3", None), ("1.5kB", 1500), (7, 7)]
)
def test_amounts_of_memory(text, number):
    if number is None:
        with pytest.raises(ValueError, match="number of bytes"):
            parse_bytes(text, "memory")
    else:
        assert parse_bytes(text, "memory") == number


def test_no_warning_from_arithmetic():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for p in (1.0001, 2.0):
            Obscure(p, epochs=3, random_state=0).solve(stacked("max_hinge", 3))


@pytest.mark.parametrize(("p", "most"), [(2.0, 60), (1.5, 90)])
def test_an_online_stage_before_another_is_bounded_in_proportion_to_q(p, most):
    pb = contradicting("hinge", 1)
    r = Obscure(p, epochs=1, tol=0.0, eta=1e-4, random_state=0).solve(pb)  # short steps, and R falls on
    stages = r.trace.extra["stage"]
    assert stages.count("online") == most and stages.count("batch") == 1


@pytest.mark.parametrize("tol", [0.0, 1e-12])
def test_an_online_stage_of_steps_that_get_nowhere_ends_whatever_tol_is(tol):
    r = Obscure(1.01, epochs=1, tol=tol, eta=1e-9, random_state=0).solve(contradicting("hinge", 1))
    assert r.trace.extra["stage"].count("online") == 11


@pytest.mark.slow
def test_an_online_stage_over_very_many_kernels_is_bounded_by_its_updates_and_says_so():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(100, 16))
    model = MKLRegressor(Products(3), solver=Obscure(1.01, stage="online", tol=0.0, random_state=0), C=100.0)
    with pytest.warns(ConvergenceWarning, match="R is still falling: raise online_epochs"):
        model.fit(X, X[:, 0] + rng.normal(size=100))
    updates, row = np.array(model.trace_.extra["updates"]), 100 * len(model.combination_)
    assert updates.sum() * row > 1e10 >= updates[:-1].sum() * row
