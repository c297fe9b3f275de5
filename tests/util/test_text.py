"""A warning points at the user's call, however deep in the package its reason lies."""

import warnings

import numpy as np
import pytest

from manykernels import MKLRegressor
from manykernels._util.text import figure
from manykernels.kernels import RBF
from manykernels.solvers import LpNorm, TriplyStochastic

X, Y = np.random.default_rng(0).standard_normal((2, 60, 3))


def stop_short(model):
    model.set_params(solver=LpNorm(max_iter=1, tol=1e-12)).fit(X, Y[:, 0])


def break_off(model):
    def interrupt(step):
        raise KeyboardInterrupt

    model.set_params(solver=TriplyStochastic()).fit(X, Y[:, 0], on_iteration=interrupt)


def begin_anew(model):
    model.set_params(solver=TriplyStochastic()).fit(X, Y[:, 0]).partial_fit(X, Y[:, 0])


@pytest.mark.parametrize("call", [stop_short, break_off, begin_anew], ids=lambda call: call.__name__)
def test_a_warning_points_at_the_users_call(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(MKLRegressor([RBF(0.3), RBF(1.0), RBF(3.0)], C=1.0))
    assert caught
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (4840.3, "4840"),
        (-53210.0, "-53200"),
        (937.0, "937"),
        (0.12345, "0.123"),
        (1e-5, "1e-05"),
        (1e6, "1e+06"),
    ],
)
def test_a_figure_has_all_digits_before_the_point_up_to_a_million(value, told):
    assert figure(value) == told
