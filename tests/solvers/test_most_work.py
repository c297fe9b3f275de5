"""Machines that have worked enough end a fit with a model, a warning with the figure, and the reason."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from manykernels import MKLClassifier
from manykernels._util.allowance import limited
from manykernels.certificates import certify
from manykernels.families import Products
from manykernels.kernels import RBF
from manykernels.solvers import (
    SILP,
    Greedy,
    HessianMKL,
    Hierarchical,
    LpNorm,
    MirrorDescent,
    PolynomialMKL,
    SimpleMKL,
    Single,
)

LIST = [RBF(0.5), RBF(1.0), RBF(2.0), RBF(4.0)]
PRODUCTS = Products(degree=2)
CASES = [
    (LIST, LpNorm()),
    (LIST, SimpleMKL()),
    (LIST, SILP()),
    (LIST, HessianMKL()),
    (LIST, Single()),
    (LIST, MirrorDescent(random_state=0)),
    (PRODUCTS, Greedy(max_kernels=8)),
    (PRODUCTS, Greedy(max_kernels=8, corrective=False)),
    (PRODUCTS, Hierarchical()),
    (PRODUCTS, PolynomialMKL()),
]


def rows(n=40, c=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, np.argmax(X[:, :c] * X[:, 1 : c + 1] + 0.1 * rng.normal(size=(n, c)), axis=1)


@pytest.mark.parametrize("family, solver", CASES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("most", [0.0, 1e6])
def test_a_fit_ends_with_a_model_and_says_why(family, solver, most):
    X, y = rows()
    loss = "softmax" if solver.losses is None or "softmax" in solver.losses else "squared"
    model = MKLClassifier(family, solver=solver.set_params(tol=1e-9), loss=loss, C=100.0)
    with limited(most), pytest.warns(ConvergenceWarning, match=r"multiplications that 40 rows are worth"):
        model.fit(X, y)
    assert not model.converged_ and model.stop_reason_ == "max_work"
    assert "work" in model.result_.ended()
    assert np.isfinite(model.decision_function(X)).all()
    if model.gap_kind_ == "exact":
        again = certify(model, X, y)
        assert again.primal == pytest.approx(model.objective_, rel=1e-8)
        assert again.gap == pytest.approx(model.gap_, rel=1e-8)


def test_the_search_for_C_ends_with_what_it_has_tried():
    X, y = rows()
    models = []
    for _ in range(2):
        with limited(1e8), pytest.warns(ConvergenceWarning, match="C='auto' was chosen after trials of"):
            models.append(MKLClassifier(LIST, solver=LpNorm(), loss="softmax", C="auto").fit(X, y))
    assert models[0].C_ == models[1].C_ and models[0].objective_ == models[1].objective_


def test_held_out_pursuits_that_end_early_are_told():
    X, y = rows()
    with limited(3e8), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        MKLClassifier(PRODUCTS, solver=Greedy(), loss="softmax", C=1e3, random_state=0).fit(X, y)
    assert any("max_kernels='auto' after" in str(w.message) for w in told)
