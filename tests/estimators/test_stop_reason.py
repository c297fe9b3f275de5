"""Why a fit stopped is said by every estimator, in one vocabulary and in words."""

from typing import get_args

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import manykernels
from manykernels import (
    Greedy,
    LpNorm,
    MirrorDescent,
    MKLRegressor,
    Obscure,
    Products,
    SimpleMKL,
    Single,
    Uniform,
)
from manykernels._util.text import as_share
from manykernels.kernels import RBF, Linear
from manykernels.problem import StopReason


def data(n=120, r=8, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, r))
    return X, X[:, 0] * X[:, 1] + X[:, 2] + noise * rng.normal(size=n)


def test_a_greedy_fit_ends_by_choice_and_says_so(capsys, recwarn):
    X, y = data()
    model = MKLRegressor(Products(degree=3), solver=Greedy(), C=10.0, verbose=1).fit(X, y)
    assert model.stop_reason_ == "criterion" and not model.converged_
    said = model.result_.ended()
    assert said.startswith(
        "stopped by choice at 2 kernels (the data support no more); the gap to all 164 is "
    )
    assert said in capsys.readouterr().err
    assert not [w for w in recwarn if issubclass(w.category, ConvergenceWarning)]


def test_the_end_by_number_and_by_the_gap():
    X, y = data()
    three = MKLRegressor(Products(degree=2), solver=Greedy(3), C=10.0).fit(X, y)
    assert three.stop_reason_ == "max_kernels"
    assert "stopped by choice at 3 kernels (as many as were asked for)" in three.result_.ended()
    closed = MKLRegressor(Products(degree=2), solver=Greedy(100, tol=1e-2), C=0.01).fit(X, y)
    assert closed.converged_ and closed.stop_reason_ == "gap"
    assert closed.result_.ended().startswith("converged, with a gap of")


@pytest.mark.filterwarnings("ignore:MirrorDescent stopped")
@pytest.mark.parametrize(
    "solver", [Uniform(), LpNorm(), SimpleMKL(), MirrorDescent(max_iter=5, random_state=0)]
)
def test_every_solver_has_a_reason(solver, tmp_path):
    X, y = data(60)
    model = MKLRegressor([RBF(2.0), Linear()], solver=solver, C=1.0).fit(X, y)
    assert model.stop_reason_ in get_args(StopReason)
    assert (model.stop_reason_ == "gap") == model.converged_
    model.save(tmp_path / "m.mk")
    assert manykernels.load(tmp_path / "m.mk").stop_reason_ == model.stop_reason_


def test_max_iter_and_a_callback():
    X, y = data(60)
    kernels = [RBF(0.5), RBF(2.0), Linear()]
    with pytest.warns(ConvergenceWarning):
        early = MKLRegressor(kernels, solver=SimpleMKL(max_iter=1, tol=1e-12), C=10.0).fit(X, y)
    assert early.stop_reason_ == "max_iter"
    stopped = MKLRegressor(kernels, solver=SimpleMKL(tol=1e-12), C=10.0)
    stopped.fit(X, y, on_iteration=lambda step: True)
    assert stopped.stop_reason_ == "callback"
    assert "the callback said so" in stopped.result_.ended()


def test_families_and_solvers_are_first_class_names():
    from manykernels import families, solvers

    protocols = {"Enumerable", "Family", "HasFeatures", "HasRandomFeatures", "Maximisable", "Samplable"}
    contracts = {"BatchSolver", "Solver", "Step", "StreamingSolver", "TwoStageSolver"}
    for room, inner in ((families, protocols), (solvers, contracts)):
        for name in set(room.__all__) - inner:
            assert getattr(manykernels, name) is getattr(room, name)
            assert name in manykernels.__all__


def test_a_gap_that_rounding_leaves_nothing_of_is_said_in_words():
    assert as_share(0.0, 2.0) == as_share(-1e-18, 2.0) == "less than 1e-15"
    assert as_share(2e-4, 2.0) == "1.0e-04"


@pytest.mark.parametrize(
    "solver",
    [Single(), Obscure(1.5, random_state=0), Obscure(1.5, stage="online", random_state=0), MirrorDescent()],
    ids=str,
)
def test_a_callback_ends_every_other_solver_too_and_is_named(solver):
    X, y = data(60)
    steps = []
    model = MKLRegressor([RBF(0.5), RBF(2.0), Linear()], solver=solver, C=10.0)
    model.fit(X, y, on_iteration=lambda step: (steps.append(step), len(steps) == 2)[1])
    assert len(steps) == 2 and not model.converged_
    assert model.stop_reason_ == "callback"


def test_an_online_stage_at_its_end_makes_no_progress():
    X, y = data(60)
    solver = Obscure(1.5, stage="online", random_state=0)
    model = MKLRegressor([RBF(0.5), RBF(2.0), Linear()], solver=solver, C=10.0).fit(X, y)
    assert model.trace_.extra["ending"] == ("online",)
    assert model.stop_reason_ == "no_progress"
