"""A two-stage solver is one method, ``learn``; the rest comes with the base class."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_ridge import KernelRidge

from manykernels import MKLClassifier, MKLRegressor
from manykernels.certificates import certify
from manykernels.combination import Combination
from manykernels.families import Products
from manykernels.losses import get_loss
from manykernels.solvers import Alignment, TwoStageSolver

from .cases import BATCH_KERNELS, OUTPUTS, problem


class Decreasing(TwoStageSolver):
    """Weights 1, 1/2, 1/3, ..., whatever the targets."""

    def learn(self, problem):
        members = problem.family.members()
        rho_sq = problem.scale.rho_sq(members, 1.0)
        theta = 1.0 / np.arange(1, len(members) + 1)
        return Combination(problem.family, members, theta / rho_sq, np.sqrt(rho_sq))


def labels(outputs, Y):
    if get_loss(outputs[0]).regression:
        return Y
    return Y.argmax(axis=1) if outputs[1] > 1 else Y[:, 0]


@pytest.mark.parametrize("outputs", OUTPUTS, ids=str)
def test_machine_on_the_learned_kernel_is_certified(outputs):
    r = Decreasing().solve(problem(*outputs, weights="random"))
    assert r.converged and r.n_iter == 1 and r.gap_kind == "exact"
    assert abs(r.gap) <= 1e-8 * r.objective  # one machine, solved to 1e-10


def test_weights_are_those_that_were_learned():
    pb = problem("squared")
    assert_allclose(Decreasing().solve(pb).combination.weights, Decreasing().learn(pb).weights, rtol=1e-12)


@pytest.mark.parametrize("outputs", OUTPUTS, ids=str)
def test_it_works_in_the_estimators(outputs):
    pb = problem(*outputs)
    y = labels(outputs, pb.Y)
    estimator = MKLRegressor if pb.loss.regression else MKLClassifier
    model = estimator(list(BATCH_KERNELS), solver=Decreasing(), loss=outputs[0], C=10.0).fit(pb.X, y)
    assert model.predict(pb.X).shape == y.shape
    again = certify(model, pb.X, y)
    assert again.primal == pytest.approx(model.objective_, rel=1e-7)
    assert again.gap == pytest.approx(0.0, abs=1e-7 * model.objective_)


def test_with_the_squared_loss_it_is_kernel_ridge_regression():
    pb = problem("squared", C=5.0)
    model = MKLRegressor(list(BATCH_KERNELS), solver=Decreasing(), C=5.0).fit(pb.X, pb.Y)
    K = model.combination_.gram(pb.X) + 1.0
    ridge = KernelRidge(alpha=1 / 5.0, kernel="precomputed").fit(K, pb.Y - pb.Y.mean(axis=0))
    assert_allclose(model.predict(pb.X), ridge.predict(K) + pb.Y.mean(axis=0), atol=1e-8)


def test_callback_is_called_once():
    steps = []
    Decreasing().solve(problem("squared"), on_iteration=steps.append)
    assert len(steps) == 1


#: Criteria of Alignment besides the first, with a family and the losses they take.
CRITERIA = {
    "plain": (Alignment(centred=False), None, OUTPUTS[::3]),
    "fsm": (Alignment(criterion="fsm"), None, [("hinge", 1), ("softmax", 3)]),
    "kl": (Alignment(criterion="kl", epsilon=0.1), None, OUTPUTS[::3]),
    "stochastic": (Alignment(max_iter=5, draws=4, random_state=0), Products(degree=2), OUTPUTS[::3]),
}


@pytest.mark.parametrize("name, outputs", [(n, o) for n, (_, _, some) in CRITERIA.items() for o in some])
def test_every_criterion_gives_weights_and_a_certified_machine(name, outputs):
    solver, family, _ = CRITERIA[name]
    pb = problem(*outputs, weights="zeros", family=family)
    r = solver.solve(pb)
    assert r.converged and r.gap_kind == "exact" and abs(r.gap) <= 1e-8 * r.objective
    assert (r.combination.weights >= 0).all() and r.combination.weights.any()
    assert repr(solver) == repr(CRITERIA[name][0]) and not r.dual_coef[pb.sample_weight == 0].any()
