"""What the documentation says goes together fits, and what it says does not is refused in a sentence."""

import warnings

import numpy as np
import pytest
from tests.contracts.cases import rows
from tests.contracts.compatibility import KINDS, kinds_of, losses_of, n_columns, solvers, takes

from manykernels import MKLRegressor
from manykernels.losses import LOSSES

SOLVERS = solvers()


@pytest.mark.parametrize("name", SOLVERS)
def test_kernels_and_losses_go_together_independently(name):
    """So that a table by kernels and one by loss say everything."""
    solver = SOLVERS[name]
    kinds, losses = kinds_of(solver), losses_of(solver)
    for kind in KINDS:
        for loss in LOSSES:
            assert takes(solver, kind, loss) == (kind in kinds and loss in losses), (kind, loss)


def numbers(kind):
    """Return rows for such kernels and targets."""
    X = rows(60)
    y = X[:, 0] - X[:, 1] * X[:, 2]
    if kind == "Precomputed":
        return np.stack([np.outer(x, x) for x in X.T], axis=2), y
    return X[:, : n_columns(kind)], y


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SOLVERS)
def test_what_the_table_says_is_what_a_fit_does(name, kind):
    X, y = numbers(kind)
    model = MKLRegressor(KINDS[kind](), solver=name, loss="squared", C=1.0)
    if not takes(SOLVERS[name], kind, "squared"):
        with pytest.raises(ValueError, match=r"needs|takes|kernels"):
            model.fit(X, y)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # stochastic solvers stop where they are, and say so
        assert np.isfinite(model.fit(X, y).predict(X)).all()
