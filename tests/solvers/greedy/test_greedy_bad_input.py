"""What searches must survive or refuse, through the estimators, with one stage and with two."""

from contextlib import nullcontext

import numpy as np
import pytest

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Dirichlets, Finite, Gaussians, Products
from manykernels.kernels import RBF, Linear
from manykernels.solvers import Greedy, GreedyAlignment

SOLVERS = {"greedy": lambda: Greedy(4), "auto": Greedy, "alignment": GreedyAlignment}
FAMILIES = {
    "gaussians": Gaussians,
    "ard": lambda: Gaussians(ard=True),
    "products": lambda: Products(degree=2),
    "list": lambda: Finite([RBF(0.5), RBF(2.0), Linear()]),
}

pytestmark = pytest.mark.parametrize("solver", SOLVERS)


def rows(n=40, d=3, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, X[:, 0] - X[:, 1] ** 2


@pytest.mark.parametrize("estimator", [MKLRegressor, MKLClassifier])
@pytest.mark.parametrize(
    "kernels, d",
    [
        (Gaussians((2.0, 1.0)), 3),
        (Gaussians((0.0, 1.0)), 3),
        (Gaussians([(1.0, 2.0), (1.0, 2.0), (3.0, 2.0)], ard=True), 3),
        (Dirichlets((5.0, 1.0)), 1),
        (Dirichlets((-1.0, 1.0)), 1),
    ],
    ids=repr,
)
def test_bounds_reversed_or_not_positive_are_refused(solver, kernels, d, estimator):
    X, y = rows(d=max(d, 2))
    with pytest.raises(ValueError, match=r"bounds of \w+ is .* pass \(low, high\)"):
        estimator(kernels, solver=SOLVERS[solver]()).fit(X[:, :d], y > 0)


@pytest.mark.parametrize("estimator", [MKLRegressor, MKLClassifier])
def test_dirichlets_on_two_columns_are_refused(solver, estimator):
    X, y = rows()
    with pytest.raises(ValueError, match=r"Dirichlets and X has 3 columns, but .* select one"):
        estimator(Dirichlets((0, 5)), solver=SOLVERS[solver]()).fit(X, y > 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_class_is_refused(solver, family):
    X, _ = rows()
    with pytest.raises(ValueError, match="class"):
        MKLClassifier(FAMILIES[family](), solver=SOLVERS[solver](), C=1.0).fit(X, np.ones(len(X)))


@pytest.mark.parametrize("family", FAMILIES)
def test_constant_columns_and_duplicated_rows_do_no_harm(solver, family):
    X, y = rows()
    X[:, 2] = 3.0
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    model = MKLRegressor(FAMILIES[family](), solver=SOLVERS[solver](), C=10.0, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all() and model.score(X, y) > 0.3


@pytest.mark.parametrize("family", FAMILIES)
def test_targets_without_direction_stop_at_once(solver, family):
    X, _ = rows()
    model = MKLRegressor(FAMILIES[family](), solver=SOLVERS[solver](), random_state=0, C=1.0)
    said = "y is constant, so that no kernel can be aligned"
    with pytest.warns(UserWarning, match=said) if solver == "alignment" else nullcontext():
        model.fit(X, np.full(40, 2.0))
    np.testing.assert_allclose(model.predict(X), 2.0)
    assert model.n_iter_ == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_that_are_all_alike_give_the_mean(solver, family):
    X, y = np.ones((20, 3)), np.arange(20.0)
    model = MKLRegressor(FAMILIES[family](), solver=SOLVERS[solver](), random_state=0, C=1.0)
    said = "every kernel found is constant on the training rows"
    with pytest.warns(UserWarning, match=said) if solver == "alignment" else nullcontext():
        model.fit(X, y)
    np.testing.assert_allclose(model.predict(X), y.mean(), atol=1e-6)


def test_more_kernels_than_exist_may_be_asked_for(solver):
    X, y = rows()
    made = SOLVERS[solver]().set_params(max_kernels=1000)
    model = MKLRegressor(FAMILIES["list"](), solver=made, C=10.0).fit(X, y)
    assert np.count_nonzero(model.weights_) <= 3
