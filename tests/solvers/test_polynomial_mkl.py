"""A power of a learned sum of kernels: gradients, brute force, special cases, and what a user sees of it."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from tests.contracts.cases import problem

import manykernels
from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Finite, Precomputed, Products
from manykernels.kernels import RBF, Linear, Polynomial
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.solvers import LpNorm, PolynomialMKL, SimpleMKL
from manykernels.solvers.polynomial_mkl import _Power
from manykernels.solvers.projected import onto_ball, spectral_steps

BASE = [RBF(1.5), Linear(columns=[0]), Linear(columns=[1]), Polynomial(2, columns=[2])]


def data(n=60, r=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, r))
    return X, X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.2 * rng.normal(size=n)


def grams(pb):
    """Return the scaled base kernels of a list, worked out one by one."""
    K = [pb.family.gram(pb.X, pb.X, [i], np.ones(1)) for i in pb.family.members()]
    return [k / np.average(np.diag(k), weights=pb.sample_weight) for k in K]


def objective(pb, K, theta, D, constant):
    """J(θ) of the definition, without any of the package's machines."""
    c = theta[-1] if constant else 0.0
    total = (c + sum(t * k for t, k in zip(theta, K))) ** D - c**D + 1.0
    s = pb.sample_weight
    root = np.sqrt(s)[:, None]
    H = root * total * root.T + np.eye(len(s)) / pb.C
    Y = root * pb.Y
    return float(np.vdot(Y, np.linalg.solve(H, Y))) / (2 * pb.C * len(s))


def brute(pb, D, constant, norm, radius, centre, starts=8):
    """Return the best value that SLSQP finds from many starts, in a set that is written out as constraints."""
    K = grams(pb)
    m = len(K) + constant
    if norm == 2:
        limit = {"type": "ineq", "fun": lambda t: radius**2 - np.sum((t - centre) ** 2)}
    else:  # all sign patterns of the 1-norm ball
        signs = np.array(list(itertools.product([-1, 1], repeat=m)))
        limit = {"type": "ineq", "fun": lambda t: radius - signs @ (t - centre)}
    rng = np.random.default_rng(0)
    best = np.inf
    for _ in range(starts):
        t0 = centre + radius * rng.dirichlet(np.full(m, 0.5)) * 0.9
        found = minimize(
            lambda t: objective(pb, K, np.maximum(t, 0), D, constant),
            t0,
            method="SLSQP",
            bounds=[(0, None)] * m,
            constraints=[limit],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        if limit["fun"](found.x).min() > -1e-9:
            best = min(best, found.fun)
    return best


# -- the optimum ---------------------------------------------------------------------------------------


# On the 1-norm's ball a step of 1e-9 promises 1e-18 of the objective, less than the rounding of Σθ = 1: what is left
# cannot be brought below some 3e-9.
@pytest.mark.parametrize(
    "norm, tol, peer", [(2, 1e-11, LpNorm(tol=1e-11)), (1, 1e-8, SimpleMKL(tol=1e-9))], ids=["4/3", "1"]
)
@pytest.mark.parametrize("weights", [None, "zeros"])
def test_degree_1_is_linear_mkl(norm, tol, peer, weights):
    pb = problem("squared", 2, weights=weights, C=10.0)
    found = PolynomialMKL(1, norm=norm, tol=tol).solve(pb)
    best = peer.solve(pb)
    # Both stop at their tol of the objective; it is flat near the optimum, and weights agree to the root of that.
    assert found.objective == pytest.approx(best.objective, rel=1e-8)
    assert_allclose(found.combination.weights, best.combination.weights, atol=1e-5)
    assert found.converged and found.trace.extra["slope"][0] <= tol


@pytest.mark.parametrize(
    "D, constant, norm, radius, centre",
    [
        (2, False, 2, 1.0, 0.0),
        (2, True, 2, 1.0, 0.0),
        (3, True, 2, 0.7, 0.5),
        (3, False, 1, 1.5, 0.0),
        (2, True, 1, 0.8, 0.3),
        (3, True, 1, 1.0, 0.0),
    ],
)
def test_it_finds_what_brute_force_finds(D, constant, norm, radius, centre):
    for seed in range(2):
        pb = problem("squared", n=20, C=3.0, seed=seed, weights="random", family=Finite(BASE[:3]))
        solver = PolynomialMKL(
            D, constant=constant, norm=norm, radius=radius, centre=centre, starts=6, tol=1e-8, random_state=0
        )
        found = solver.solve(pb)
        best = brute(pb, D, constant, norm, radius, centre)
        # SLSQP meets its constraints to 1e-9 and stops by 1e-14 of the value, relatively much more here.
        assert found.objective == pytest.approx(best, rel=1e-6)


def test_two_weights_on_a_fine_grid():
    pb = problem("squared", n=25, C=5.0, family=Finite(BASE[1:3]))
    angles = np.linspace(0, np.pi / 2, 1001)  # the optimum is on the boundary
    K = grams(pb)
    values = [objective(pb, K, np.array([np.cos(a), np.sin(a)]), 3, False) for a in angles]
    found = PolynomialMKL(3, constant=False, tol=1e-9, random_state=0).solve(pb)
    assert found.objective <= min(values) * (1 + 1e-9)
    assert found.objective >= min(values) * (1 - 1e-5)  # the grid's pitch, squared


def test_several_starts_find_the_better_of_two_valleys():
    # x0·x1 and x2·x3 are the same but for noise: either pair does, and both together share the 1-norm for nothing.
    rng = np.random.default_rng(3)
    X = rng.choice([-1.0, 1.0], size=(60, 4)) * rng.uniform(0.5, 1.5, size=(60, 4))
    y = X[:, 0] * X[:, 1]
    X[:, 3] = (y + 0.2 * rng.normal(size=60)) / X[:, 2]
    family = Finite([Linear(columns=[j]) for j in range(4)]).resolve(4)
    pb = Problem(X, y[:, None] - y.mean(), family, Scale.fit(family, X, "trace"), get_loss("squared"), 1.0)
    many = PolynomialMKL(2, constant=False, starts=8, norm=1, tol=1e-6, random_state=0).solve(pb)
    ends = np.array(many.trace.extra["starts"])
    assert ends.max() > 1.01 * ends.min()  # there are two, or the test would say nothing
    assert many.objective == pytest.approx(
        ends.min(), rel=1e-12
    )  # of ends that are the same to rounding, any
    assert ends.min() == pytest.approx(brute(pb, 2, False, 1, 1.0, 0.0), rel=1e-6)
    heavy = np.argsort(-many.combination.weights * many.combination.rho**2)[:2]
    assert set(heavy) == {0, 1}


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("D", [1, 2, 3, 5])
def test_gradient_is_that_of_numeric_derivatives(D, constant):
    pb = problem("squared", 2, n=20, weights="zeros", family=Finite(list(BASE)))
    task = _Power(PolynomialMKL(D, constant=constant), pb)
    theta = np.random.default_rng(0).uniform(0.1, 0.6, task.size)
    numeric = approx_fprime(theta, lambda t: task.at(t).value, 1e-6)
    slope = task.slope(task.at(theta))
    assert_allclose(
        slope, numeric, rtol=1e-4, atol=1e-5 * np.abs(numeric).max()
    )  # forward differences of 1e-6
    assert task.at(theta).value == pytest.approx(
        objective(pb, grams(pb), theta, D, task.has_constant), rel=1e-9
    )


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("radius, centre", [(1.0, 0.0), (0.5, 1.0), (2.0, 0.3)])
def test_projection_is_the_nearest_point_of_the_set(norm, radius, centre):
    rng = np.random.default_rng(0)
    for _ in range(20):
        v, c = rng.normal(scale=2, size=3), np.full(3, centre)
        found = onto_ball(v, c, radius, norm)
        assert (found >= 0).all() and np.linalg.norm(found - c, norm) <= radius * (1 + 1e-12)
        others = np.abs(c + radius * rng.uniform(-1, 1, size=(4000, 3)))
        others = others[np.linalg.norm(others - c, norm, axis=1) <= radius]
        # The variational inequality of a projection holds towards every point of the set.
        assert ((others - found) @ (v - found)).max() <= 1e-9


def test_best_weights_lie_on_the_boundary():
    pb = problem("squared", C=3.0, family=Finite(list(BASE)))
    for norm, centre in ((1, 0.0), (2, 0.0), (2, 0.4)):
        r = PolynomialMKL(2, norm=norm, centre=centre, constant=False, tol=1e-8).solve(pb)
        theta = r.combination.weights * r.combination.rho**2
        assert np.linalg.norm(theta - centre, norm) == pytest.approx(1.0, rel=1e-9)


def test_steps_go_down_in_the_end():
    task = _Power(PolynomialMKL(3), problem("squared", C=10.0, family=Finite(list(BASE))))
    values = [point.value for point, _ in itertools.islice(spectral_steps(task, np.ones(5)), 30)]
    assert values[-1] == pytest.approx(min(values), rel=1e-6) and values[-1] < values[0]


# -- the model -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", [False, True])
def test_predictions_are_those_of_kernel_ridge_on_the_power(constant):
    X, y = data()
    model = MKLRegressor(Products(degree=3), solver=PolynomialMKL(constant=constant), C=5.0).fit(X, y)
    c, w = model.combination_.constant, model.weights_
    assert len(w) == 4 and model.combination_.degree == 3 and (c > 0) == constant

    def K(A, B):
        return (c + (A * w) @ B.T) ** 3 - c**3 + 1.0

    ridge = KernelRidge(alpha=1 / 5.0, kernel="precomputed").fit(K(X, X), y - y.mean())
    new = data(seed=1)[0]
    assert_allclose(model.predict(new), ridge.predict(K(new, X)) + y.mean(), atol=1e-8)
    assert model.score(X, y) > (0.9 if constant else 0.7)  # without it there are products of three only


def test_even_weights_and_a_constant_are_the_sum_of_all_ordered_products():
    X, _ = data()
    prior = [math.comb(3, d) ** -0.5 for d in (1, 2, 3)]
    family = Products(degree=3, count="ordered", degree_prior=prior).resolve(4)
    model = MKLRegressor(Products(degree=3), solver=PolynomialMKL(starts=1, tol=10.0), C=1.0)
    model.fit(X, X[:, 0])
    even = model.combination_.constant
    assert_allclose(model.weights_ * model.rho_**2, even)
    total = family.total(family.base_scale(X, np.ones(60)))
    assert_allclose(model.combination_.gram(X), even**3 * total(X), rtol=1e-9, atol=1e-9)


def test_base_kernels_of_products_and_a_list_of_them_are_one_model():
    X, y = data()
    kernels = [RBF(1.0), Linear(columns=[0]), RBF(3.0, columns=[1, 2])]
    one = PolynomialMKL(starts=1, tol=1e-9)
    first = MKLRegressor(Products(degree=2, base=kernels), solver=one, C=2.0).fit(X, y)
    second = MKLRegressor(kernels, solver=one, C=2.0).fit(X, y)
    stack = np.stack([k.resolve(4, None)(X) for k in kernels], axis=2)
    third = MKLRegressor(Precomputed(), solver=one, C=2.0).fit(stack, y)
    assert_allclose(first.weights_, second.weights_, rtol=1e-8)
    assert_allclose(third.weights_, second.weights_, atol=1e-4)  # the root of tol: sums run in another order
    assert_allclose(third.predict(stack), second.predict(X), atol=1e-4)


@pytest.mark.parametrize(
    "kernels", [Products(degree=3), [RBF(1.0), Linear(), RBF(0.3, columns=[0])]], ids=str
)
def test_contributions_add_up_and_a_file_brings_the_model_back(kernels, tmp_path):
    X, y = data()
    Y = np.column_stack([y, X[:, 0]])
    model = MKLRegressor(kernels, solver=PolynomialMKL(random_state=0), C=2.0).fit(X, Y)
    parts = model.contributions(X)
    assert parts.shape == (60, len(model.weights_), 2)
    assert_allclose(parts.sum(axis=1) + model.intercept_, model.predict(X), atol=1e-8)
    model.save(tmp_path / "m.mk")
    again = manykernels.load(tmp_path / "m.mk")
    assert_allclose(again.predict(X), model.predict(X), rtol=1e-12)
    assert again.combination_.constant == model.combination_.constant and again.solver_.get_params()
    assert [row["kernel"] for row in again.combination_.records()] == [
        row["kernel"] for row in model.combination_.records()
    ]


def test_shares_are_of_the_norm_of_the_predictor():
    X, y = data()
    model = MKLRegressor(Products(degree=3), solver=PolynomialMKL(), C=2.0).fit(X, y)
    A, K = model.dual_coef_, model.combination_.gram(X)
    theta = model.weights_ * model.rho_**2
    u = model.combination_.norms
    used = theta > 0
    assert np.sum(u[used] ** 2 / theta[used]) == pytest.approx(float(np.vdot(A, K @ A)), rel=1e-9)


def test_it_says_that_it_is_not_convex():
    X, y = data()
    model = MKLRegressor(Products(degree=2), solver=PolynomialMKL(), C=1.0).fit(X, y)
    assert model.gap_kind_ == "none" and np.isnan(model.gap_) and "gap_kind='none'" in repr(model.result_)
    assert len(model.trace_.extra["starts"]) == 3 and "not convex" in PolynomialMKL.__doc__


def test_classes_have_probabilities_and_C_is_chosen():
    X, y = data(80)
    label = np.where(y > 0, "up", "down")
    model = MKLClassifier(Products(degree=2), solver=PolynomialMKL()).fit(X, label)
    assert model.loss_.name == "squared" and model.score(X, label) > 0.9
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    given = MKLClassifier(Products(degree=2), solver=PolynomialMKL(), C=1.0).fit(X, label)
    # Calibrated on machines that have the power for their kernel: rows left out are predicted well.
    left_out = np.where(given.result_.left_out[:, 0] > 0, "up", "down")
    assert np.mean(left_out == label) > 0.8 and given.result_.calibration is not None


def test_products_of_two_columns_are_found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    y = X[:, 3] * X[:, 7]
    model = MKLRegressor(Products(degree=2), solver=PolynomialMKL(norm=1), C=100.0).fit(X[:150], y[:150])
    heavy = np.argsort(-model.weights_ * model.rho_**2)[:2]
    assert set(heavy) == {3, 7} and model.score(X[150:], y[150:]) > 0.9


# -- the run -------------------------------------------------------------------------------------------


def test_results_repeat_and_a_start_at_the_solution_is_short():
    pb = problem("squared", C=5.0, family=Finite(list(BASE)))
    runs = [PolynomialMKL(3, constant=False, random_state=0).solve(pb) for _ in range(2)]
    assert runs[0].objective == runs[1].objective and runs[0].converged
    theta = runs[0].combination.weights * runs[0].combination.rho ** 2
    again = PolynomialMKL(3, constant=False, starts=1).solve(pb, init=theta)
    assert again.n_iter <= 2 and again.objective == pytest.approx(runs[0].objective, rel=1e-4)


def test_a_vanishing_column_has_no_weight():
    X, y = data()
    X[:, 1] = 0.0
    model = MKLRegressor(Products(degree=2), solver=PolynomialMKL(), C=1.0).fit(X, y)
    assert model.weights_[1] == 0 and np.isfinite(model.predict(X)).all()


def test_few_steps_warn_and_an_interrupt_keeps_the_best():
    pb = problem("squared", C=50.0, family=Finite(list(BASE)))
    with pytest.warns(
        ConvergenceWarning, match=r"stopped after 2 steps where the linearised .* above tol=1e-09"
    ):
        r = PolynomialMKL(3, starts=1, max_iter=2, tol=1e-9).solve(pb)
    assert not r.converged

    def interrupt(step):
        if step.iteration == 3:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="Interrupted after 3 steps"):
        r = PolynomialMKL(3, tol=1e-9).solve(pb, on_iteration=interrupt)
    assert r.objective == min(r.trace.objective)


@pytest.mark.parametrize(
    "params, kernels, message",
    [
        ({"degree": 0}, None, "degree of PolynomialMKL is 0; use a whole number"),
        ({"norm": 3}, None, "norm of PolynomialMKL is 3; use 1 or 2"),
        ({"centre": -1.0}, None, "centre of PolynomialMKL is -1.0; use a number of at least 0"),
        ({"centre": [1.0, 2.0]}, None, "centre of PolynomialMKL has 2 numbers for 4 base kernels"),
        ({"degree": 3}, Products(degree=2), "degree of PolynomialMKL is 3, and that of Products 2"),
        ({}, Products(degree=2, degree_prior=[1.0, 2.0]), "degree_prior of Products is given"),
    ],
)
def test_what_makes_no_sense_is_refused(params, kernels, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        MKLRegressor(kernels or list(BASE), solver=PolynomialMKL(**params), C=1.0).fit(X, y)


def test_other_losses_and_scales_per_product_are_refused():
    X, y = data()
    with pytest.raises(ValueError, match="PolynomialMKL takes loss squared, not 'hinge'"):
        MKLClassifier(Products(), solver=PolynomialMKL(), loss="hinge", C=1.0).fit(X, y > 0)
    with pytest.raises(ValueError, match="normalize has one number for each product"):
        MKLRegressor(Products(), solver=PolynomialMKL(), normalize=np.ones(14), C=1.0).fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "error::RuntimeWarning")
def test_an_objective_that_is_flat_in_the_weights_ends_the_steps():
    X = np.repeat([[0.0], [1.0]], 4, axis=0)
    for C in (1.0, 1e6, 5e11):
        model = MKLClassifier("gaussian", solver=PolynomialMKL(random_state=0), loss="squared", C=C)
        assert np.isfinite(model.fit(X, np.arange(8) % 4).decision_function(X)).all()
