"""What rounding may do: a certificate that is recomputed, bounded work, and nothing that threads or memory change."""

import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from tests.contracts.cases import problem

from manykernels import MKLClassifier, MKLRegressor
from manykernels.certificates import certify
from manykernels.families import Finite, Gaussians, Laplacians, Products
from manykernels.kernels import RBF, Linear, Polynomial
from manykernels.solvers import (
    SILP,
    Alignment,
    Blockwise,
    Greedy,
    GreedyAlignment,
    LpNorm,
    MirrorDescent,
    Uniform,
)
from manykernels.solvers.weights import solved
from manykernels.solvers.workspace import Workspace

# -- the certificate -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernels", ["linear", "gaussian", Products(2)])
@pytest.mark.parametrize("seed", range(3))
def test_a_certificate_is_recomputed_or_said_to_be_rounding(kernels, seed):
    rng = np.random.default_rng(seed)
    X, s = rng.normal(size=(80, 4)), 10 ** rng.uniform(-6, 6, size=80)
    y = X[:, 0] + 0.3 * rng.normal(size=80)
    model = MKLRegressor(kernels, solver=LpNorm(), C=5e6)
    assert_recomputed_or_said(model, X, y, s)


def test_coefficients_that_cancel_are_said_to_be_rounding():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(30, 3)), 2, axis=0)
    y = np.tile([0, 1], 30)  # equal rows of both classes: coefficients of ±C each
    with pytest.warns(UserWarning, match="rounding limits objective_ and gap_ to about"):
        MKLClassifier([RBF(1.0), RBF(3.0)], solver=LpNorm(), C=7e8).fit(X, y)


def test_matrices_of_few_rows_are_said_to_be_rounding_where_features_predict():
    """More columns than rows: g is of matrices, and the predictor, of one kernel, has features all the same."""
    X = np.column_stack([np.ones(4), [1.127, -0.858, -0.972, -0.171]])
    kernels = [Linear(columns=[0]), Linear(), Linear(columns=[0, -1])]
    model = MKLClassifier(kernels, solver=Greedy(p=4 / 3), loss="squared", C=1e9, calibrate=False)
    with pytest.warns(ConvergenceWarning, match="rounding limits objective_ and gap_"):
        model.fit(X, np.arange(4))


def test_a_fixed_kernel_is_certified_on_explicit_features_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=60)
    model = MKLRegressor([Linear(columns=[0]), Linear(columns=[1, 2])], solver=Alignment(), C=3.0).fit(X, y)
    found = certify(model, X, y)
    assert found.primal == pytest.approx(model.objective_, rel=1e-10)
    assert abs(found.gap) <= 1e-8 * model.objective_


@pytest.mark.parametrize("kernels", [[Linear(), RBF(3.0)], [Linear(), Linear(columns=[0])]])
@pytest.mark.parametrize("loss", ["squared", "hinge", "max_hinge", "squared_hinge"])
def test_small_losses_beside_large_scores_are_recomputed_or_said_to_be_rounding(kernels, loss):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, s = 10 ** rng.uniform(4, 9) * rng.normal(size=(12, 2)), 10 ** rng.uniform(-6, 6, size=12)
        C, y = 10 ** rng.uniform(0, 12), rng.integers(3, size=12)
        model = MKLClassifier(kernels, solver=LpNorm(), loss=loss, C=C, normalize=None)
        assert_recomputed_or_said(model, X, y, s)


@pytest.mark.parametrize(
    "solver", [MirrorDescent(max_iter=20, random_state=0), Greedy(10), Greedy(10, p=4 / 3)], ids=repr
)
def test_explicit_features_have_the_certificate_of_what_they_predict(solver):
    for seed in range(
        4
    ):  # more features than rows would take, or nearly: the machine runs on the Gram matrix
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(5, 3))
        model = MKLClassifier(Products(1), solver=solver, loss="hinge", C=1e11)
        assert_recomputed_or_said(model, X, [0, 1, 1, 2, 3], np.ones(5))
        assert model.gap_ >= -1e-8 * model.objective_


@pytest.mark.parametrize("offset", [1e3, 1e9, 1e15, 1e40])
def test_the_mean_of_the_targets_is_no_loss_or_said_to_be_one(offset):
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(30, 2)), rng.exponential(size=30)
    assert_recomputed_or_said(MKLRegressor("gaussian", solver=LpNorm(), C=1.0), X, offset + X[:, 0], s)
    constant = MKLRegressor("gaussian", solver=LpNorm(), C=1.0).fit(X, np.full(30, offset), s)
    assert constant.objective_ == constant.gap_ == 0 and (constant.predict(X) == offset).all()


def assert_recomputed_or_said(model, X, y, s):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y, sample_weight=s)
    if not any("rounding" in str(w.message) for w in said):
        found = certify(model, X, y, s)
        size = max(model.objective_, model.gap_)
        assert abs(found.primal - model.objective_) <= 1e-8 * size
        assert abs(found.gap - model.gap_) <= 1e-8 * size


# -- bounded work ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_machine_that_rounding_keeps_from_its_end_is_left():
    # Kernels of 1e70 beside the constant of the intercept: no machine can be solved, and none should try for long.
    rng = np.random.default_rng(0)
    X = 1e17 * rng.normal(size=(25, 3))
    y = rng.integers(2, size=25)
    kernels = [RBF(1.0), Linear(), Polynomial(2)]
    model = MKLClassifier(kernels, solver=LpNorm(), loss="hinge", C=3e3, normalize=None)
    started = time.process_time()
    model.fit(X, y)
    assert time.process_time() - started < 10
    assert np.isfinite(model.decision_function(X)).all() and not model.converged_


def test_cuts_that_bring_nothing_end_with_a_word():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    with pytest.warns(UserWarning, match="no progress"):
        model = MKLRegressor("linear", solver=SILP(), C=1e30).fit(X, X[:, 0] + 0.1 * rng.normal(size=40))
    assert model.n_iter_ < 200


def test_cuts_on_one_kernel_end_at_once():
    work = Workspace.over_all(problem("softmax", 3, family=Finite([RBF(1.0)])), 1.0)
    assert len(list(SILP().iterates(work, None))) == 1  # whatever its gap: another would be the same


def test_thousands_of_kernels_on_few_rows_are_aligned_in_seconds():
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0, size=(6, 22))
    model = MKLRegressor(Products(3, standardize=False), solver=Alignment(), C=1.0)  # 2,299 kernels
    started = time.process_time()
    model.fit(X, X[:, 0] - X[:, 1])
    assert time.process_time() - started < 10
    assert model.converged_


# -- threads, memory order, containers -------------------------------------------------------------------

SEARCHES = {
    "greedy": lambda: MKLRegressor(Gaussians(ard=True), solver=Greedy(2), C=1.0, random_state=0),
    "alignment": lambda: MKLRegressor(Gaussians(ard=True), solver=GreedyAlignment(), C=1.0, random_state=0),
    "laplacians": lambda: MKLRegressor(Laplacians(ard=True), solver=GreedyAlignment(), C=1.0, random_state=0),
}


def table():
    X, y = make_friedman1(120, 5, noise=1.0, random_state=0)
    return X.astype(np.float32).astype(float), y


@pytest.mark.parametrize("name", SEARCHES)
def test_memory_order_and_container_change_no_bit(name):
    X, y = table()
    expected = SEARCHES[name]().fit(X, y).predict(X)
    others = np.asfortranarray(X), pd.DataFrame(X), np.repeat(X, 2, axis=1)[:, ::2], X.astype(np.float32)
    for other in others:
        np.testing.assert_array_equal(SEARCHES[name]().fit(other, y).predict(other), expected)


@pytest.mark.parametrize("kernels", ["auto", "laplacian", "gaussian"])
def test_single_precision_of_the_same_numbers_is_the_same_model(kernels):
    X, y = table()
    solver = Blockwise(32, n_features=128, block=32, random_state=0)
    expected = MKLRegressor(kernels, solver=solver, C=1.0).fit(X, y).predict(X)
    for other in (X.astype(np.float32), pd.DataFrame(X.astype(np.float32)), X.tolist()):
        found = MKLRegressor(kernels, solver=solver, C=1.0).fit(other, y).predict(other)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


SCRIPT = """
import sys
import numpy as np
from tests.solvers.test_rounding import SEARCHES, table
from manykernels import MKLRegressor
from manykernels.kernels import RBF, Linear
from manykernels.solvers import *
X, y = table()
models = [make() for make in SEARCHES.values()] + [MKLRegressor(random_state=0), MKLRegressor("laplacian")]
found = [model.fit(X, y).predict(X) for model in models]
rng = np.random.default_rng(0)
X = rng.normal(size=(1500, 6))
y = np.sin(X[:, 0]) * X[:, 1] + X[:, 2]
solvers = [Blockwise(n_features=256), TriplyStochastic(), Uniform(), LpNorm(), Greedy(max_kernels=6)]
solvers += [Obscure(), Ufo(), MirrorDescent(max_iter=30), SimpleMKL(max_iter=20)]
for solver in solvers:
    kernels = "gaussian" if isinstance(solver, Blockwise | TriplyStochastic) else [RBF(1.0), RBF(3.0), Linear()]
    model = MKLRegressor(kernels, solver=solver, C=1e3, random_state=0).fit(X[:500], y[:500])
    found.append(np.resize(model.predict(X), len(found[0])))
np.save(sys.argv[1], found)
"""


@pytest.mark.slow
def test_threads_change_no_prediction(tmp_path):
    found = []
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
        path = tmp_path / f"{threads}.npy"
        environment = os.environ | dict.fromkeys(names, threads) | {"PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT, path], env=environment, check=True)
        found.append(np.load(path))
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(two, one, rtol=0, atol=1e-9 * np.abs(one).max())


# -- nothing to learn ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernels", ["precomputed", [RBF(1.0), RBF(2.0)], Products(2, base=[RBF(1.0), Linear()])]
)
def test_a_model_without_kernels_predicts_its_constant(kernels):
    Z = np.random.default_rng(0).normal(size=(5, 3))
    X = np.stack([Z @ Z.T, np.eye(5)], axis=2) if kernels == "precomputed" else Z
    model = MKLRegressor(kernels, solver=Greedy(p=4 / 3), C=1.0).fit(X, np.full(5, 2.0))
    np.testing.assert_allclose(model.predict(X), 2.0)
    assert not model.contributions(X).any()


def test_members_too_large_to_compare_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * np.array([1e-14, 1e85, 1e84])
    with pytest.raises(ValueError, match="leaves the range of floats on these rows; standardise"):
        MKLRegressor(Products(2, standardize=False), solver=Greedy(5), C=1.0, normalize=None).fit(
            X, rng.normal(size=60)
        )


@pytest.mark.parametrize("loss", ["squared", "hinge", "squared_hinge", "softmax"])
@pytest.mark.parametrize("degree", [2, 3])
def test_kernels_too_large_to_add_up_are_refused(loss, degree):
    rng = np.random.default_rng(0)
    for X in (
        1e110 * rng.normal(size=(60, 2)),
        1e110 * rng.normal(size=(4, 3)),
    ):  # explicit features, matrices
        model = MKLClassifier(
            Products(degree, standardize=False), solver=SILP(), loss=loss, C=1.0, normalize=None
        )
        with (
            np.errstate(over="ignore", invalid="ignore"),
            pytest.raises(ValueError, match=r"too large to add up|too extreme to compute with"),
        ):
            model.fit(X, np.arange(len(X)) % 2)


def test_a_singular_curvature_has_a_least_step():
    B = np.array([[1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(solved(B, np.array([[2.0], [2.0]])), [[1.0], [1.0]])
    np.testing.assert_allclose(solved(B + np.eye(2), np.array([3.0, 3.0])), [1.0, 1.0])


def test_the_order_of_a_stack_changes_no_bit_of_a_prediction():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 5))
    stack = np.stack([np.exp(-0.5 * k * ((Z[:, None] - Z) ** 2).sum(2)) for k in (1, 2, 3)], axis=2)
    model = MKLClassifier("precomputed", loss="softmax", solver=Uniform(), C=1e8).fit(
        stack, np.arange(60) % 3
    )
    expected = model.decision_function(stack)
    for other in (
        np.asfortranarray(stack),
        np.ascontiguousarray(stack.transpose(2, 0, 1)).transpose(1, 2, 0),
    ):
        np.testing.assert_array_equal(model.decision_function(other), expected)
