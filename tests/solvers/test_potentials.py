"""Potentials of mirror descent: their maps, and their projections against independent solutions."""

import math

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize

from manykernels.problem import nu_of
from manykernels.solvers.mirror_descent.potentials import nearest_in_ball, potential_of, power_step


def mirror(theta, nu):
    """Return ∇½‖θ‖_ν² by numeric differentiation."""

    def value(t):
        return 0.5 * np.sum(np.abs(t) ** nu) ** (2 / nu)

    step = 1e-6
    unit = np.eye(len(theta)) * step
    return np.array([(value(theta + e) - value(theta - e)) / (2 * step) for e in unit])


@pytest.mark.parametrize("p", [1.05, 1.2, 1.3])
def test_the_map_back_inverts_the_gradient_of_the_potential(p):
    nu = nu_of(p)
    theta = np.random.default_rng(0).uniform(0.1, 1, 5)
    theta /= 1.5 * np.sum(theta**nu) ** (1 / nu)  # inside the ball: nothing is projected
    dual, back = power_step(mirror(theta, nu), nu)
    np.testing.assert_allclose(back, theta, rtol=1e-6)  # central differences with steps of 1e-6
    np.testing.assert_allclose(dual, mirror(back, nu), rtol=1e-6)


@pytest.mark.parametrize("p", [1.05, 1.2, 1.3])
def test_the_bregman_projection_is_the_least_divergence(p):
    nu, rng = nu_of(p), np.random.default_rng(1)
    for size in (0.3, 3.0):  # the second is outside the ball
        dual = size * rng.normal(0.3, 0.5, 4)
        assert dual.min() < 0

        def divergence(theta, dual=dual):  # up to a constant
            return 0.5 * np.sum(np.abs(theta) ** nu) ** (2 / nu) - dual @ theta

        _, found = power_step(dual, nu)
        ball = {"type": "ineq", "fun": lambda t: 1 - np.sum(np.abs(t) ** nu)}
        starts = (rng.uniform(0, 0.5, 4) for _ in range(5))
        best = min(
            minimize(divergence, s, bounds=[(0, 1)] * 4, constraints=ball, method="SLSQP", tol=1e-12).fun
            for s in starts
        )
        assert (found >= 0).all() and np.sum(found**nu) <= 1 + 1e-12
        assert divergence(found) <= best + 1e-7  # SLSQP's own accuracy


def test_weights_that_are_zero_stay_zero():
    dual, theta = power_step(np.array([0.0, 2.0, 0.0, 1.0]), 1.4)
    np.testing.assert_array_equal(theta == 0, [True, False, True, False])
    np.testing.assert_array_equal(dual == 0, theta == 0)
    np.testing.assert_array_equal(power_step(np.zeros(3), 1.4)[1], 0)


@pytest.mark.filterwarnings("ignore:pnorm with p")  # by second-order cones, to 1e-14
@pytest.mark.parametrize("p", [1.4, 1.6, 1.9])
def test_the_euclidean_projection_agrees_with_an_interior_point_method(p):
    nu, rng = nu_of(p), np.random.default_rng(2)
    for v in (rng.normal(0.5, 1, 6), rng.uniform(0, 0.3, 6), np.array([3.0, 3.0, 0, 0, 0, -1.0])):
        theta = cp.Variable(6)
        ball = [theta >= 0, cp.pnorm(theta, nu) <= 1]
        cp.Problem(cp.Minimize(cp.sum_squares(theta - v)), ball).solve(solver="CLARABEL")
        found = nearest_in_ball(v, nu)
        assert np.sum(found**nu) <= 1 + 1e-12
        assert np.sum((found - v) ** 2) <= np.sum((theta.value - v) ** 2) + 1e-6  # the other's accuracy
        np.testing.assert_allclose(
            found, theta.value, atol=1e-3
        )  # entries at zero are known to its square root


@pytest.mark.parametrize("nu", [2.01, 5.0, 199.0])
def test_the_euclidean_projection_satisfies_its_conditions(nu):
    rng = np.random.default_rng(3)
    for m in (1, 3, 2000):
        v = rng.normal(0.5, 2, m)
        v[0] = 1.5
        theta = nearest_in_ball(v, nu)
        assert (theta >= 0).all() and (theta[v <= 0] == 0).all()
        assert np.sum(theta**nu) == pytest.approx(1, abs=1e-9)
        large = theta > 0.9 * theta.max()  # smaller entries are hardly moved: their multiplier is rounding
        multiplier = (v - theta)[large] / theta[large] ** (nu - 1)
        np.testing.assert_allclose(multiplier, multiplier.mean(), rtol=1e-5)
    np.testing.assert_array_equal(nearest_in_ball(np.array([0.2, -0.1]), nu), [0.2, 0.0])


@pytest.mark.parametrize("p", [1.0, 1.1, 4 / 3, 1.7])
def test_delta_is_the_range_of_the_potential(p):
    m, rng = 6, np.random.default_rng(4)
    shape, nu = potential_of(p, m), nu_of(p)
    points = rng.exponential(size=(4000, m)) ** rng.uniform(0, 5, (4000, 1))
    points = np.vstack([points, np.ones(m), np.eye(m)])
    points /= (points**nu).sum(axis=1, keepdims=True) ** (1 / nu)

    def psi(theta):
        if p == 1:
            return np.sum(theta * np.log(np.maximum(theta, 1e-300)))
        return 0.5 * (np.sum(theta**nu) ** (2 / nu) if p < 4 / 3 else theta @ theta)

    start = -math.log(m) if p == 1 else 0.0
    assert max(map(psi, points)) - start == pytest.approx(shape.delta, rel=1e-9)
    # Strong convexity, Ψ(b) - Ψ(a) - <∇Ψ(a), b - a> >= α/2 ‖b - a‖², between points with all entries positive.
    norm = min(nu, 2.0)
    for a, b in zip(points[:100], points[100:200], strict=True):
        slope = np.log(a) + 1 if p == 1 else (mirror(a, nu) if p < 4 / 3 else a)
        size = np.sum(np.abs(b - a) ** norm) ** (2 / norm)
        assert psi(b) - psi(a) - slope @ (b - a) >= shape.alpha / 2 * size - 1e-6
