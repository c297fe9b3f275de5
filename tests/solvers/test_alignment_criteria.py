"""Alignment without centring, FSM and the Kullback-Leibler divergence: each against brute force."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, nnls
from tests.solvers.test_alignment import KERNELS, data, problem

from manykernels import AlignedKernel, MKLClassifier, MKLRegressor
from manykernels.families import Finite, Precomputed, Products
from manykernels.kernels import RBF, Constant, Function, Linear
from manykernels.solvers import Alignment
from manykernels.solvers.alignment.divergence import Divergence
from manykernels.solvers.alignment.fsm import least_sum_of_norms
from manykernels.solvers.projected import onto_simplex

SOLVERS = {
    "plain": Alignment(centred=False),
    "plain, own": Alignment(independent=True, centred=False),
    "plain, no own pairs": Alignment(centred=False, own_pairs=False),
    "fsm": Alignment(criterion="fsm"),
    "kl": Alignment(criterion="kl", epsilon=1e-2),
    "kl, plain": Alignment(criterion="kl", centred=False, epsilon=1e-2),
}


def classes(n=50, seed=0, k=2):
    """Rows, codes as a machine for two classes or for several has them, and the labels."""
    X, Y = data(n, seed)
    label = np.digitize(Y[:, 0], np.quantile(Y[:, 0], np.arange(1, k) / k))
    return X, (2.0 * label[:, None] - 1 if k == 2 else np.eye(k)[label]), label


def scaled(pb):
    """Return the Gram matrices at unit mean diagonal."""
    K = [pb.family.gram(pb.X, pb.X, [z], np.ones(1)) for z in pb.family.members()]
    return [k / np.average(np.diag(k), weights=pb.sample_weight) for k in K]


def theta_of(combination):
    theta = combination.weights * combination.rho**2
    return theta / theta.sum()


def repeated(pb):
    """Return scaled matrices, targets and row numbers with every row as often as its weight says."""
    rows = np.repeat(np.arange(pb.n_rows), pb.sample_weight.astype(int))
    return [k[np.ix_(rows, rows)] for k in scaled(pb)], rows


# -- without centring ----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 2, 3])
@pytest.mark.parametrize("own_pairs", [True, False])
def test_without_centring_it_is_least_squares_on_plain_matrices(k, own_pairs):
    X, Y, label = classes(k=max(k, 2))
    if k == 0:
        Y = data()[1][:50]
    s = np.random.default_rng(1).integers(0, 3, 50).astype(float)
    pb = problem(X, Y, Finite([*KERNELS[:4], Constant()]), s)
    K, rows = repeated(pb)
    if not own_pairs:
        K = [M - np.mean(np.diag(M)) * np.eye(len(M)) for M in K]
    target = Y[rows] @ Y[rows].T
    if k == 3:  # 1 for one class, -1/2 for two
        target = np.where(label[rows][:, None] == label[rows], 1.0, -0.5)
    best, _ = nnls(np.stack([M.ravel() for M in K], axis=1), target.ravel())
    found = Alignment(centred=False, own_pairs=own_pairs).learn(pb)
    assert_allclose(theta_of(found), best / best.sum(), atol=1e-7)  # both exact, times the condition of M
    assert np.count_nonzero(best) > 1


def test_two_codes_of_the_classes_give_one_kernel_without_centring():
    X, _, label = classes(k=3)
    first, second = (
        MKLClassifier(list(KERNELS), solver=Alignment(centred=False), loss=loss, C=1.0).fit(X, label).weights_
        for loss in ("squared_hinge", "softmax")  # -1/+1 and one-hot
    )
    assert_allclose(first, second, rtol=1e-8, atol=1e-12)


def test_only_without_centring_a_constant_kernel_has_an_alignment():
    X, Y = data()
    pb = problem(X, Y + 5.0, Finite([Constant(), RBF(1.0)]))
    assert theta_of(Alignment().learn(pb))[0] == 0
    assert theta_of(Alignment(centred=False).learn(pb))[0] > 0.3
    assert theta_of(Alignment(independent=True, centred=False).learn(pb))[0] > 0.3


# -- the spread of classes -----------------------------------------------------------------------------


def fsm(K, label, s):
    """The measure by its definition: rows in full, feature space by eigenvectors, one class against the rest."""
    values, vectors = np.linalg.eigh(K)
    phi = vectors * np.sqrt(np.maximum(values, 0))
    rows = np.repeat(np.arange(len(label)), s.astype(int))
    phi, label = phi[rows], label[rows]
    spread = length = 0.0
    for k in np.unique(label)[1 if len(np.unique(label)) == 2 else 0 :]:
        plus, minus = phi[label == k], phi[label != k]
        way = minus.mean(axis=0) - plus.mean(axis=0)
        both = [np.std((side - side.mean(axis=0)) @ way, ddof=1) for side in (plus, minus)]
        spread, length = spread + sum(both), length + way @ way
    return spread / length


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_fsm_is_least_among_many_weights(seed, k):
    X, Y, label = classes(seed=seed, k=k)
    s = np.random.default_rng(seed).integers(1, 4, 50).astype(float)
    pb = problem(X, Y, Finite(list(KERNELS)), s)
    K = scaled(pb)
    found = theta_of(Alignment(criterion="fsm").learn(pb))
    reached = fsm(sum(t * M for t, M in zip(found, K)), label, s)
    rng = np.random.default_rng(0)
    others = [np.eye(6)[i] for i in range(6)] + [rng.dirichlet(np.full(6, 0.4)) for _ in range(60)]
    near = [np.abs(found + 0.01 * rng.normal(size=6)) for _ in range(40)]
    assert reached <= min(fsm(sum(t * M for t, M in zip(v, K)), label, s) for v in others + near) * (1 + 1e-7)
    assert (found >= 0).all()


@pytest.mark.parametrize("singular", [False, True])
def test_sum_of_norms_is_that_of_an_interior_point_method(singular):
    rng = np.random.default_rng(0)
    for m in (3, 8):
        B = [rng.normal(size=(5 if singular else 20, m)) + 1.0 for _ in range(3)]
        if singular:
            B = [b[:, np.arange(m) % 3] for b in B]  # copies
        v, gap = least_sum_of_norms([b.T @ b for b in B])
        x = cp.Variable(m, nonneg=True)
        best = cp.Problem(cp.Minimize(sum(cp.norm(b @ x) for b in B)), [cp.sum(x) == 1]).solve(
            solver=cp.CLARABEL
        )
        assert sum(np.linalg.norm(b @ v) for b in B) == pytest.approx(best, rel=1e-6)
        assert gap <= 1e-6


def same_class(X, Z):
    return 1.0 + (np.sign(X[:, 0])[:, None] == np.sign(Z[:, 0])[None, :])


def test_a_kernel_without_any_spread_takes_all_the_weight():
    X, _, _ = classes()
    Y = np.sign(X[:, :1])
    pb = problem(X, Y, Finite([RBF(1.0), Function(same_class), Linear()]))
    assert theta_of(Alignment(criterion="fsm").learn(pb))[1] > 0.99


def test_fsm_does_not_see_constants_and_refuses_numbers():
    X, Y, _ = classes()
    few = Alignment(criterion="fsm").learn(problem(X, Y, Finite(list(KERNELS)))).weights
    more = Alignment(criterion="fsm").learn(problem(X, Y, Finite([*KERNELS, Constant()]))).weights
    assert_allclose(more[:-1], few, rtol=1e-6, atol=1e-9) and more[-1] == 0
    with pytest.raises(
        ValueError, match="criterion='fsm' of Alignment compares classes, and y holds numbers"
    ):
        MKLRegressor(list(KERNELS), solver=Alignment(criterion="fsm"), C=1.0).fit(X, X[:, 0])


# -- the divergence ------------------------------------------------------------------------------------


def divergence(K, Y, epsilon, centred):
    """The criterion by its definition, rows in full."""
    n = len(K)
    C = np.eye(n) - centred / n
    K, T = C @ K @ C, C @ Y @ Y.T @ C
    K, T = K + epsilon * np.eye(n), T * n / np.trace(T)
    return np.trace(np.linalg.solve(K, T)) + np.linalg.slogdet(K)[1]


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_divergence_is_least_on_a_grid_of_the_simplex(seed, centred):
    X, Y, _ = classes(30, seed)
    s = np.random.default_rng(seed).integers(1, 3, 30).astype(float)
    pb = problem(X, Y, Finite([RBF(0.7), RBF(3.0), Linear(), RBF(30.0)][seed:][:3]), s)
    K, rows = repeated(pb)
    found = theta_of(Alignment(criterion="kl", centred=centred, epsilon=0.05).learn(pb))

    def value(v):
        return divergence(sum(t * M for t, M in zip(v, K)), Y[rows], 0.05, centred)

    m = len(K)
    grid = [(a, b, 1 - a - b) for a in np.linspace(0, 1, 21) for b in np.linspace(0, 1 - a, 9)]
    grid = grid if m == 3 else [(a, 1 - a) for a in np.linspace(0, 1, 201)]
    assert value(found) <= min(map(value, grid)) + 1e-6
    assert (found >= 0).all()


def test_slope_of_the_divergence_is_that_of_numeric_derivatives():
    X, Y, _ = classes(20)
    s = np.random.default_rng(0).exponential(size=20)
    s[::7] = 0.0
    pb = problem(X, Y, Finite(list(KERNELS)), s)
    criterion = Divergence(pb, pb.family.members(), pb.scale.rho_sq(pb.family.members(), 1.0), 0.1, True)
    theta = np.random.default_rng(1).dirichlet(np.ones(6))
    numeric = approx_fprime(theta, lambda t: criterion.at(t).value, 1e-7)
    assert_allclose(criterion.slope(criterion.at(theta)), numeric, rtol=1e-4, atol=1e-4)  # steps of 1e-7


def test_projection_onto_the_simplex_is_the_nearest_point():
    rng = np.random.default_rng(0)
    for v in rng.normal(size=(20, 5)):
        found = onto_simplex(v)
        assert (found >= 0).all() and found.sum() == pytest.approx(1.0)
        assert ((rng.dirichlet(np.ones(5), 200) - found) @ (v - found)).max() <= 1e-12


# -- all of them ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
def test_a_weight_equals_a_repetition(name):
    X, Y, _ = classes()
    s = np.random.default_rng(1).integers(0, 4, 50)
    many = problem(np.repeat(X, s, axis=0), np.repeat(Y, s, axis=0), Finite(list(KERNELS)))
    weighted = problem(X, Y, Finite(list(KERNELS)), s.astype(float))
    # The descents on the divergence stop where 1e-7 a row is left, which is flat by the root of that.
    slack = 2e-3 if name.startswith("kl") else 1e-7
    assert_allclose(theta_of(SOLVERS[name].learn(weighted)), theta_of(SOLVERS[name].learn(many)), atol=slack)


@pytest.mark.parametrize("name", SOLVERS)
def test_singular_cases_are_handled(name):
    X, Y, _ = classes()
    for kernels in (
        [RBF(1.0)] * 4,
        [Linear(), Linear(columns=[0, 1]), Linear(columns=[2, 3])],
        [RBF(1.0), Constant(2.0), Linear()],
        [RBF(1e-3), RBF(1.0)],
        [Linear()],
    ):
        weights = SOLVERS[name].learn(problem(X, Y, Finite(kernels))).weights
        assert (weights >= 0).all() and np.isfinite(weights).all() and weights.any()
    zeros = X.copy()
    zeros[:, 3] = 0.0
    weights = (
        SOLVERS[name].learn(problem(zeros, Y, Finite([RBF(1.0), Linear(columns=[3]), Linear()]))).weights
    )
    assert weights[1] == 0 and weights.any()


@pytest.mark.parametrize("name", SOLVERS)
def test_they_work_in_the_estimators_and_in_the_transformer(name):
    X, _, label = classes(60)
    for k in (2, 3):
        y = np.digitize(X[:, 0] + X[:, 1] ** 2, [0.5] if k == 2 else [0.2, 1.2])
        for kernels in (list(KERNELS), Products(degree=2)) if k == 2 else (list(KERNELS),):
            model = MKLClassifier(kernels, solver=SOLVERS[name], C=10.0).fit(X, y)
            assert model.score(X, y) > 0.7 and model.gap_kind_ == "exact"
        assert np.isfinite(AlignedKernel(list(KERNELS), solver=SOLVERS[name]).fit(X, y).transform(X)).all()
    stack = np.stack([k.resolve(4, None)(X) for k in KERNELS], axis=2)
    rows = SOLVERS[name].learn(problem(X, 2.0 * label[:, None] - 1, Finite(list(KERNELS))))
    ready = SOLVERS[name].learn(problem(stack, 2.0 * label[:, None] - 1, Precomputed()))
    assert_allclose(theta_of(ready), theta_of(rows), atol=2e-3 if name.startswith("kl") else 1e-6)


@pytest.mark.parametrize("name", ["plain", "kl", "kl, plain"])
def test_numbers_have_a_kernel_too(name):
    X, Y = data()
    model = MKLRegressor(list(KERNELS), solver=SOLVERS[name], C=10.0).fit(X, Y[:, 0])
    assert model.score(X, Y[:, 0]) > 0.7
    assert_allclose(  # in whatever unit
        MKLRegressor(list(KERNELS), solver=SOLVERS[name], C=10.0).fit(X, 100 * Y[:, 0]).weights_,
        model.weights_,
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.parametrize(
    "params, message",
    [
        ({"criterion": "hsic"}, "criterion of Alignment is 'hsic'; use 'alignment', 'fsm' or 'kl'"),
        ({"criterion": "kl", "independent": True}, "independent of Alignment is True, which criterion='kl'"),
        ({"criterion": "fsm", "own_pairs": False}, "own_pairs of Alignment is False, which criterion='fsm'"),
        ({"criterion": "kl", "max_iter": 5}, "max_iter of Alignment is 5, which criterion='kl'"),
        ({"max_iter": 5, "own_pairs": False}, "own_pairs of Alignment is False, which max_iter"),
        ({"epsilon": 0.0}, "epsilon of Alignment is 0.0"),
    ],
)
def test_what_does_not_go_together_is_refused(params, message):
    with pytest.raises(ValueError, match=message):
        Alignment(**params).check_params()
