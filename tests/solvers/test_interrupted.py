"""Ctrl-C leaves a model wherever a fit has begun, and goes through what is only tried."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import manykernels.solvers.blockwise.run as blockwise_run
from manykernels import MKLClassifier, MKLRegressor, load
from manykernels._util.interrupts import Interruptible, trials
from manykernels.families import Gaussians, Laplacians, Union
from manykernels.kernels import RBF, Laplacian, Linear
from manykernels.losses import Squared
from manykernels.problem import Problem, Scale
from manykernels.registry import bound_family
from manykernels.solvers import Blockwise, Single
from manykernels.solvers.workspace import Workspace

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
y = X[:, 0] * X[:, 1] + 3.0


class Impatient(Workspace):
    """Is interrupted in its first machine."""

    def evaluate(self, theta):
        raise KeyboardInterrupt


def stop(*args, **kwargs):
    raise KeyboardInterrupt


def test_single_keeps_the_mean_before_the_first_kernel_is_done(monkeypatch):
    monkeypatch.setattr(Workspace, "evaluate", Impatient.evaluate)
    with pytest.warns(ConvergenceWarning, match=r"Interrupted after 0 kernels; .* relative gap of 1\.0e\+00"):
        model = MKLRegressor([RBF(1.0), Linear()], solver=Single(), C=1.0).fit(X, y)
    assert_allclose(model.predict(X), y.mean())
    assert not model.converged_ and model.n_iter_ == 0


@pytest.mark.parametrize("kernels", [[RBF(1.0)], [Linear()]], ids=["dual", "explicit"])
def test_a_model_of_nothing_can_be_saved(kernels, monkeypatch, tmp_path):
    monkeypatch.setattr(Workspace, "evaluate", Impatient.evaluate)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = MKLClassifier(kernels, solver=Single(), C=1.0).fit(X, y > 3)
    monkeypatch.undo()
    model.save(tmp_path / "m.mk")
    assert_array_equal(load(tmp_path / "m.mk").predict(X), model.predict(X))


def test_nothing_is_certified_by_its_objective():
    family = bound_family([RBF(1.0), Linear()], X, np.ones(len(X)), Single(), None)
    Y = (y - y.mean())[:, None]
    problem = Problem(X, Y, family, Scale.fit(family, X, "trace"), Squared(), 1.0)
    nothing = Workspace.over_all(problem, 1.0).nothing()
    assert_allclose(nothing.objective, 0.5 * np.mean(Y**2))
    assert nothing.dual == 0


def test_trials_do_not_swallow_an_interrupt():
    with Interruptible(lambda: "") as guard:
        stop()
    assert guard.interrupted
    with pytest.raises(KeyboardInterrupt), trials(), Interruptible(lambda: ""):
        stop()


def test_an_interrupt_in_a_trial_of_C_ends_the_fit():
    calls = []

    class Counting(Single):
        def solve(self, problem, init=None, on_iteration=None):
            calls.append(problem.n_rows)
            return super().solve(problem, init, stop)

    with pytest.raises(KeyboardInterrupt):
        MKLClassifier([RBF(1.0), RBF(2.0)], solver=Counting(), C="auto").fit(X, y > 3)
    assert len(calls) == 1


@pytest.mark.parametrize(
    "kernels",
    [Laplacians(ard=True), Gaussians(), Union([Gaussians(), Laplacians()]), [RBF(1.0), Laplacian(1.0)]],
    ids=["ard", "one", "union", "list"],
)
def test_blockwise_keeps_a_quick_model_in_its_preparation(kernels, monkeypatch):
    monkeypatch.setattr(blockwise_run, "lay_plan", stop)
    solver = Blockwise(grids=32, n_features=64, block=32, random_state=0)
    with pytest.warns(
        ConvergenceWarning, match="Interrupted before the first sweep; a quick model of 300 rows"
    ):
        model = MKLRegressor(kernels, solver=solver, C=1.0).fit(X, y)
    assert model.result_.interrupted and model.score(X, y) > 0.3


def test_blockwise_keeps_the_first_of_two_phases(monkeypatch):
    read, calls = blockwise_run.SweepRun._read, []

    def once(self, stream, maps):
        calls.append(1)
        return read(self, stream, maps) if len(calls) == 1 else stop()

    monkeypatch.setattr(blockwise_run.SweepRun, "_read", once)
    solver = Blockwise(grids=32, random_state=0)
    with pytest.warns(ConvergenceWarning, match="Interrupted before all rows were read again"):
        model = MKLRegressor([Laplacian(1.0)], solver=solver, C=1.0).fit(X, y)
    assert model.score(X, y) > 0.3
