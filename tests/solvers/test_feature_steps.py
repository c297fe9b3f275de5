"""The compiled parts of a stochastic gradient step do what the formulas in NumPy say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from manykernels._util.arrays import product_width
from manykernels.losses import get_loss
from manykernels.solvers import TriplyStochastic
from manykernels.solvers.triply_stochastic._steps import (
    follow,
    largest,
    meet,
    move,
    norms_sq,
    relate,
    slopes,
    weigh,
)
from manykernels.solvers.triply_stochastic.state import FeatureState, Layout
from manykernels.solvers.triply_stochastic.steps import largest_eigenvalue
from manykernels.solvers.weights import closed_form

RNG = np.random.default_rng(0)


def targets(loss, n, c):
    if loss.multiclass:
        return np.eye(c)[RNG.integers(c, size=n)]
    return RNG.standard_normal((n, c)) if loss.regression else RNG.choice([-1.0, 1.0], (n, c))


def compiled(loss, Y, F, s, b):
    """Return the loss, the slopes and their sum; the last column of S is not written to."""
    n, c = Y.shape
    S, G = np.full((n, c + 1), 7.0, dtype=np.float32), np.zeros(c)
    wide = np.zeros((n, c + 1), dtype=np.float32)
    wide[:, :c] = F
    total = slopes(loss.code, wide, b, Y, s, S, G)
    assert_array_equal(S[:, c], 7.0)
    return total, S[:, :c], G


@pytest.mark.parametrize("name", TriplyStochastic.losses)
@pytest.mark.parametrize("size", [0.1, 1.0, 30.0, 1e4])
def test_losses_and_slopes_are_those_of_the_loss(name, size):
    loss, n = get_loss(name), 400
    c = 4 if loss.multiclass else 2
    Y, s, b = targets(loss, n, c), RNG.exponential(size=n), RNG.standard_normal(c)
    s[:5] = 0.0
    F = (size * RNG.standard_normal((n, c))).astype(np.float32)
    total, S, G = compiled(loss, Y, F, s, b)
    wanted = s[:, None] * loss.gradient(Y, F + b)
    assert_allclose(total, s @ loss.value(Y, F + b), rtol=1e-13)
    assert_allclose(S, wanted, rtol=1e-6, atol=1e-44)
    assert_allclose(G, wanted.sum(axis=0), rtol=1e-12, atol=1e-13 * np.abs(wanted).sum())


@pytest.mark.parametrize("name", ["logistic", "softmax"])
@pytest.mark.parametrize("margin", [-900.0, -40.0, -1.0, 0.0, 1.0, 40.0, 80.0, 700.0])
def test_tiny_and_huge_losses_keep_their_digits(name, margin):
    loss = get_loss(name)
    Y, F = (np.eye(3)[:1], [[margin, 0.0, -1.0]]) if loss.multiclass else (np.ones((1, 1)), [[margin]])
    F = np.array(F)
    total, _, _ = compiled(loss, Y, F, np.ones(1), np.zeros(Y.shape[1]))
    assert_allclose(total, loss.value(Y, F)[0], rtol=1e-14)


@pytest.mark.parametrize("name", TriplyStochastic.losses)
def test_scores_that_are_not_numbers_have_a_loss_that_is_none(name):
    loss = get_loss(name)
    for k in range(3):
        Y = np.eye(3)[:1] if loss.multiclass else np.ones((1, 3))
        F = np.zeros((1, 3))
        F[0, k] = np.nan
        assert np.isnan(compiled(loss, Y, F, np.ones(1), np.zeros(3))[0])


@pytest.mark.parametrize("p", [1.1, 4 / 3, 1.9, 2.0])
def test_weights_are_the_closed_form(p):
    squares, counts, rho_sq = RNG.exponential(size=6), np.array([1, 2, 1, 3, 1, 1]), RNG.exponential(size=6)
    squares[3] = 1e-12
    rho_sq[5] = squares[5] = 0.0  # a kernel that vanishes
    theta, cross = np.empty(6), 0.5 * squares * RNG.standard_normal(6)
    for faithful in (False, True):
        u_sq = norms_sq(squares, counts, cross, rho_sq, faithful)
        assert_allclose(u_sq, rho_sq * (squares + np.maximum(cross, 0) if faithful else counts * squares))
        weigh(u_sq, rho_sq, p, 0.05, theta)
        assert_allclose(theta, np.maximum(closed_form(np.sqrt(u_sq), p), 0.05))
        u_sq[1] = 0.0  # one that was not drawn yet
        weigh(u_sq, rho_sq, p, 0.05, theta)
        assert_array_equal(theta, 1.0)


def test_blocks_that_seem_to_oppose_one_another_count_as_orthogonal():
    u_sq = norms_sq(np.ones(3), np.full(3, 2), np.array([0.5, -1.5, 0.0]), np.array([1.0, 1.0, 2.0]), True)
    assert_allclose(u_sq, [1.5, 1.0, 2.0])


@pytest.mark.parametrize("c", [1, 3])
def test_inner_products_are_those_of_the_blocks_before(c):
    width, n = product_width(c), 30
    Z, S = RNG.standard_normal((n, 9)).astype(np.float32), np.zeros((n, width), np.float32)
    W = np.zeros((9, width), np.float32)
    W[:, :c], S[:, :c] = RNG.standard_normal((9, c)), RNG.standard_normal((n, c))
    edges, owner = np.array([0, 2, 4, 6, 9]), np.array([1, 0, 1, 1])
    draw, inner, rates = np.array([[1, 6, 9], [0, 0, 0], [-1, 0, 0]]), np.zeros(3), np.array([0.1, 0.3, 0.0])
    meet(Z, W, S, c, edges, owner, draw, inner)
    f = [Z[:, [0, 1, 4, 5]] @ W[[0, 1, 4, 5], :c], Z[:, 2:4] @ W[2:4, :c]]  # not the block that is moved
    wanted = [np.vdot(S[:, :c], f[0]), np.vdot(S[:, :c], f[1])]
    assert_allclose(inner, [*wanted, 0.0], rtol=1e-4)
    cross = np.array([1.0, 2.0])
    relate(cross, 0.5, 4.0, draw, rates, inner)
    assert_allclose(cross, [0.25 - 1.2 * wanted[1], 0.5 - 0.4 * wanted[0]], rtol=1e-4)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_largest_terms_are_summed(k):
    theta, rho_sq, values = RNG.exponential(size=(3, 5))
    rho_sq[2] = 0.0
    terms = np.array([t / r * v if r > 0 else 0.0 for t, r, v in zip(theta, rho_sq, values, strict=True)])
    assert_allclose(largest(theta, rho_sq, values, k), np.sort(terms)[-k:].sum())


@pytest.mark.parametrize("c", [1, 3, 10])
@pytest.mark.parametrize("n", [1, 4, 7, 130])
def test_some_coefficients_move_against_their_gradient(n, c):
    width = product_width(c)
    Z, S = RNG.standard_normal((n, 40)).astype(np.float32), np.zeros((n, width), np.float32)
    W = np.zeros((40, width), np.float32)
    W[:, :c] = 0.1 * RNG.standard_normal((40, c))
    V, b, s = RNG.standard_normal((40, width)), RNG.standard_normal(c), RNG.random(n)
    Y, G, before = RNG.standard_normal((n, c)), np.zeros(c), V.copy()
    draw, rates = np.array([[3, 0, 8], [1, 20, 40]]), np.array([0.3, 0.01])
    total = move(get_loss("squared").code, Z, W, b, Y, s, np.empty_like(S), S, G, draw, rates, V)
    errors = Z.astype(float) @ W[:, :c].astype(float) + b - Y
    # Scores of forty terms and sums over n rows in single precision.
    assert_allclose(total, 0.5 * s @ np.square(errors).sum(axis=1), rtol=1e-5)
    assert_allclose(G, s @ errors, rtol=1e-4, atol=1e-4)
    for (_, first, last), rate in zip(draw, rates, strict=True):
        before[first:last, :c] -= rate * (Z[:, first:last].T @ (s[:, None] * errors))
    assert_allclose(V, before, atol=1e-4)
    assert_array_equal(V[8:20], before[8:20])


def test_the_mean_follows_the_coefficients():
    V, mean = RNG.standard_normal((2, 10, 4))
    W = np.zeros((10, 4), dtype=np.float32)
    squares, before = np.ones(3), mean.copy()
    edges, owner = np.array([0, 3, 6, 8]), np.array([2, 0, 2])
    follow(V, 0.5, 0.1, mean, W, edges, owner, squares)
    x = 0.5 * V
    assert_allclose(squares, [(x[3:6] ** 2).sum(), 0.0, (x[:3] ** 2).sum() + (x[6:8] ** 2).sum()])
    assert_allclose(W[:8], x[:8], rtol=1e-6)
    assert_allclose(mean[:8], before[:8] + 0.1 * (x - before)[:8])
    for array, untouched in ((W, 0.0), (mean, before[8:])):  # what belongs to no block
        assert_array_equal(array[8:], np.broadcast_to(untouched, (2, 4)))


def test_blocks_of_a_state_stay_its_own_while_the_layout_grows():
    state = FeatureState.new(0, 3, 5, np.ones(2))
    layout, wanted = Layout(state), []
    for b in range(9):
        layout.bind(state.append(b % 2, 4), layout.append(b % 2, 4))
        wanted.append(RNG.standard_normal((4, 5)))
        state.V[b][:] = wanted[b]
        state.mean[b][:] = -wanted[b]
    state.scale = 0.25
    layout.follow(0.0)
    assert_array_equal(layout.W[: layout.width, :5], 0.25 * np.concatenate(wanted).astype(np.float32))
    assert_array_equal(layout.W[:, 5:], 0.0)
    arrays = state.to_arrays()
    assert_array_equal(arrays["V"], np.concatenate(wanted))
    assert_array_equal(arrays["mean"], -np.concatenate(wanted))
    assert_array_equal(layout.counts, [5, 4])
    assert_allclose(
        np.sqrt(layout.counts * layout.squares), state.norms(state.iterate(averaged=False)[0], faithful=False)
    )


@pytest.mark.parametrize("scale", [1e-280, 1.0, 1e280])
@pytest.mark.parametrize("spectrum", ["one", "flat", "falling"])
def test_the_largest_eigenvalue_is_met_within_15_percent(scale, spectrum):
    values = {"one": np.eye(128)[0], "flat": np.ones(128), "falling": 0.9 ** np.arange(128)}[spectrum]
    Q = np.linalg.qr(RNG.standard_normal((128, 128)))[0]
    found = largest_eigenvalue(scale * (Q * values) @ Q.T)
    assert 0.85 * scale <= found <= (1 + 1e-9) * scale
    assert largest_eigenvalue(np.zeros((3, 3))) == 0.0


def test_coefficients_survive_that_the_layout_grows():
    state = FeatureState.new(0, 3, 2, np.ones(1))
    layout = Layout(state)
    layout.bind(state.append(0, 4), layout.append(0, 4))
    state.V[0][:] = RNG.standard_normal((4, 2))
    layout.follow(0.0)
    before = layout.W[:4].copy()
    layout.append(0, 50)
    assert before.any()
    assert_array_equal(layout.W[:4], before)
