"""Every solver through the same contract; a new one is added to SOLVERS in cases.py."""

import functools
import warnings
from typing import get_args

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from manykernels import MKLClassifier, MKLRegressor
from manykernels.certificates import certify
from manykernels.combination import Combination
from manykernels.families import Finite, HasFeatures, Products
from manykernels.kernels import RBF, Linear
from manykernels.losses import get_loss
from manykernels.problem import GapKind, Result, Trace, nu_of
from manykernels.solvers import BatchSolver, LpNorm, SimpleMKL, Solver, Step

from .cases import BATCH_KERNELS, CODED, ITERATIVE, OUTPUTS, SETTLING, SOLVERS, problem

LOSSES = [("squared", 2), ("hinge", 1), ("logistic", 3), ("max_hinge", 3)]


def pytest_generate_tests(metafunc):
    if "solved" in metafunc.fixturenames:
        metafunc.parametrize("solved", [(s, o) for s in SOLVERS for o in LOSSES], indirect=True, ids=str)
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", SOLVERS)
    if "iterative" in metafunc.fixturenames:
        metafunc.parametrize("iterative", ITERATIVE)


@functools.cache
def _solved(name, outputs):
    solver, pb = SOLVERS[name](), problem(*outputs, weights="zeros")
    return solver, pb, solver.solve(pb)


@pytest.fixture
def solved(request):
    """A solver, a problem and its result."""
    return _solved(*request.param)


def member_grams(X):
    return np.stack([k.resolve(X.shape[1], None)(X) for k in BATCH_KERNELS])


# -- the result ----------------------------------------------------------------------------------------


def test_result_has_fields_of_the_right_type_and_shape(solved):
    _, pb, r = solved
    n, c = pb.Y.shape
    assert isinstance(r, Result) and isinstance(r.combination, Combination) and isinstance(r.trace, Trace)
    assert type(r.objective) is float and type(r.gap) is float and isinstance(r.n_iter, int)
    assert isinstance(r.converged, bool | np.bool_) and r.gap_kind in get_args(GapKind)
    assert r.dual_coef.shape == (n, c) and r.intercept.shape == (c,)
    assert r.combination.weights.shape == r.combination.rho.shape == (len(r.combination),)
    assert r.predictor.scores(pb.X[:3]).shape == (3, c)


def test_trace_has_one_entry_per_iteration(solved):
    _, _, r = solved
    assert len(r.trace) == r.n_iter >= 1
    assert len(r.trace.gap) == len(r.trace.seconds) == len(r.trace.n_kernels) == r.n_iter
    assert all(a <= b for a, b in zip(r.trace.seconds, r.trace.seconds[1:]))


def test_gap_is_never_negative(solved):
    _, _, r = solved
    assert min([r.gap, *r.trace.gap]) >= -1e-9 * r.objective  # machines are solved to 1e-10


def test_converged_means_the_relative_gap_is_within_tol(solved):
    solver, _, r = solved
    assert r.gap_kind == "exact"
    tol = getattr(solver, "tol", 1e-8)  # without tol: one machine, solved to 1e-10
    closed = r.gap <= tol * r.objective
    assert r.converged == closed


def test_all_but_the_single_kernel_and_stochastic_steps_converge(solved):
    solver, _, r = solved
    assert r.converged or type(solver).__name__ in ("Single", *SETTLING)


def test_returned_objective_is_the_best_of_the_trace(solved):
    solver, _, r = solved
    tol = getattr(solver, "tol", 1e-8)
    assert r.objective <= min(r.trace.objective) * (1 + tol)


def test_theta_lies_on_the_unit_sphere(solved):
    solver, _, r = solved
    theta = r.combination.weights * r.combination.rho**2
    assert (theta >= 0).all()
    nu = nu_of(solver.p)
    size = theta.max() if np.isinf(nu) else np.sum(theta**nu) ** (1 / nu)
    assert size == pytest.approx(1.0, rel=1e-12)


def test_scores_are_the_kernel_times_the_dual_coefficients(solved):
    _, pb, r = solved
    K = np.tensordot(r.combination.weights, member_grams(pb.X), 1)
    expected = K @ r.dual_coef + r.intercept
    assert_allclose(r.predictor.scores(pb.X), expected, rtol=1e-6, atol=1e-7)  # machines go to 1e-10


def test_objective_follows_from_the_scores_and_norms(solved):
    solver, pb, r = solved
    A, w = r.dual_coef, r.combination.weights
    norms = w * np.sqrt(np.einsum("nc,mnk,kc->m", A, member_grams(pb.X), A))
    group = np.sum((r.combination.rho * norms) ** solver.p) ** (2 / solver.p)
    risk = pb.sample_weight @ pb.loss.value(pb.Y, r.predictor.scores(pb.X)) / pb.n_rows
    expected = risk + (group + r.intercept @ r.intercept) / (2 * pb.C * pb.n_rows)
    assert r.objective == pytest.approx(expected, rel=1e-7)


def test_norms_in_the_table_are_those_of_the_predictor(solved):
    _, pb, r = solved
    A, w = r.dual_coef, r.combination.weights
    norms = w * np.sqrt(np.einsum("nc,mnk,kc->m", A, member_grams(pb.X), A))
    assert_allclose(r.combination.norms, r.combination.rho * norms, rtol=1e-6, atol=1e-8)


def test_rows_without_weight_have_no_dual_coefficient(solved):
    _, pb, r = solved
    assert not r.dual_coef[pb.sample_weight == 0].any()


@pytest.mark.parametrize("outputs", OUTPUTS, ids=str)
def test_certificate_can_be_recomputed_from_outside(name, outputs):
    pb = problem(*outputs, weights="random")
    estimator = MKLRegressor if pb.loss.regression else MKLClassifier
    y = pb.Y if pb.loss.regression else (pb.Y.argmax(axis=1) if outputs[1] > 1 else pb.Y[:, 0])
    model = estimator(list(BATCH_KERNELS), solver=SOLVERS[name](), loss=outputs[0])
    if outputs not in CODED and model.solver.losses is not None:
        with pytest.raises(ValueError, match=f"takes loss .*, not '{outputs[0]}'"):
            model.fit(pb.X, y)
        return
    model.fit(pb.X, y, sample_weight=pb.sample_weight)
    again = certify(model, pb.X, y, pb.sample_weight)
    assert again.primal == pytest.approx(model.objective_, rel=1e-7)
    assert again.gap == pytest.approx(model.gap_, abs=1e-7 * model.objective_)


# -- the run -------------------------------------------------------------------------------------------


def test_two_runs_are_identical(name):
    runs = [SOLVERS[name]().solve(problem("hinge")) for _ in range(2)]
    assert runs[0].objective == runs[1].objective
    assert_array_equal(runs[0].combination.weights, runs[1].combination.weights)
    assert_array_equal(runs[0].dual_coef, runs[1].dual_coef)


def test_problem_is_left_as_it_was(name):
    pb = problem("hinge", weights="random")
    before = pb.X.copy(), pb.Y.copy(), pb.sample_weight.copy()
    for array in (pb.X, pb.Y, pb.sample_weight):
        array.setflags(write=False)
    SOLVERS[name]().solve(pb)
    for a, b in zip((pb.X, pb.Y, pb.sample_weight), before):
        assert_array_equal(a, b)


def test_solver_keeps_no_state(name):
    solver = SOLVERS[name]()
    before = dict(vars(solver))
    solver.solve(problem("hinge"))
    assert vars(solver) == before
    assert repr(clone(solver)) == repr(solver)


def test_callback_sees_every_iteration(name):
    steps = []
    r = SOLVERS[name]().solve(problem("squared"), on_iteration=steps.append)
    assert all(isinstance(step, Step) for step in steps)
    assert [step.iteration for step in steps] == list(range(1, r.n_iter + 1))
    assert tuple(step.objective for step in steps) == r.trace.objective
    assert tuple(step.n_kernels for step in steps) == r.trace.n_kernels


@pytest.mark.filterwarnings("error")
def test_callback_can_stop_without_a_warning(iterative):
    r = SOLVERS[iterative]().solve(problem("squared"), on_iteration=lambda step: step.iteration >= 2)
    assert r.n_iter == 2 and not r.converged


def test_interrupting_single_keeps_the_best_kernel_so_far():
    def interrupt(step):
        if step.iteration == 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match=r"Interrupted after 2 kernels.* gap of \d\.\de[-+]\d\d"):
        r = SOLVERS["single"]().solve(problem("squared"), on_iteration=interrupt)
    assert r.n_iter == 2 and r.objective == min(r.trace.objective)
    assert np.count_nonzero(r.combination.weights) == 1


def test_single_can_be_stopped_too():
    r = SOLVERS["single"]().solve(problem("squared"), on_iteration=lambda step: True)
    assert r.n_iter == 1


def test_interrupt_keeps_the_best_iterate_with_a_warning(iterative):
    def interrupt(step):
        if step.iteration == 3:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match=r"Interrupted after 3 iterations.* gap of \d\.\de[-+]\d\d"):
        r = SOLVERS[iterative]().solve(problem("squared"), on_iteration=interrupt)
    assert r.n_iter == 3 and not r.converged
    assert r.objective == min(r.trace.objective)


def test_interrupt_before_any_iterate_goes_through(iterative, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("manykernels.solvers.workspace.Workspace.evaluate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        SOLVERS[iterative]().solve(problem("squared"))


def test_interrupt_leaves_the_estimator_fitted(iterative):
    def interrupt(step):
        if step.iteration == 2:
            raise KeyboardInterrupt

    pb = problem("squared")
    model = MKLRegressor(list(BATCH_KERNELS), solver=SOLVERS[iterative](), C=1.0)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model.fit(pb.X, pb.Y[:, 0], on_iteration=interrupt)
    assert np.isfinite(model.predict(pb.X)).all() and not model.converged_


class Wandering(BatchSolver):
    """Visits every single kernel in turn, better or worse."""

    p = 1.0

    def __init__(self, tol=0.0, max_iter=4):
        self.tol = tol
        self.max_iter = max_iter

    def iterates(self, work, init):
        for theta in np.eye(work.n_members):
            yield work.evaluate(theta)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_best_iterate_is_kept_not_the_last():
    r = Wandering().solve(problem("squared"))
    assert r.trace.objective[-1] > min(r.trace.objective)  # or the test would say nothing
    assert r.objective == min(r.trace.objective)


def test_a_solver_that_gives_up_says_so():
    with pytest.warns(ConvergenceWarning, match="Wandering stopped after 4 iterations at a relative gap"):
        r = Wandering(max_iter=100).solve(problem("squared"))
    assert r.n_iter == 4 and not r.converged


def test_too_few_iterations_warn_with_the_gap_reached(iterative):
    with pytest.warns(ConvergenceWarning) as caught:
        r = SOLVERS[iterative]().set_params(max_iter=1).solve(problem("squared"))
    assert r.n_iter == 1 and not r.converged
    assert f"relative gap of {r.gap / r.objective:.1e}" in str(caught[0].message)


def test_start_at_the_solution_takes_fewer_iterations(iterative):
    first = SOLVERS[iterative]().solve(problem("squared"))
    theta = first.combination.weights * first.combination.rho**2
    second = SOLVERS[iterative]().solve(problem("squared"), init=theta)
    assert second.n_iter < first.n_iter
    tol = SOLVERS[iterative]().tol
    assert second.objective == pytest.approx(first.objective, rel=2 * tol)


def test_start_does_not_change_the_optimum(iterative):
    first = SOLVERS[iterative]().solve(problem("hinge"))
    second = SOLVERS[iterative]().solve(problem("hinge"), init=[0.0, 0.0, 5.0, 0.0])
    assert second.objective == pytest.approx(first.objective, rel=2 * SOLVERS[iterative]().tol)


@pytest.mark.parametrize(
    "init",
    [[1.0, 1.0], [1.0, 1.0, 1.0, -1.0], [1.0, 1.0, 1.0, np.nan], np.zeros(4), np.ones((4, 1))],
    ids=str,
)
def test_wrong_start_is_refused(iterative, init):
    with pytest.raises(ValueError, match="init must"):
        SOLVERS[iterative]().solve(problem("squared"), init=init)


def test_start_on_a_vanishing_kernel_is_refused(iterative):
    pb = problem("squared", family=Finite([Linear(columns=[0]), Linear(columns=[1])]), X=_zero_column())
    with pytest.raises(ValueError, match="init must"):
        SOLVERS[iterative]().solve(pb, init=[1.0, 0.0])


def _zero_column():
    X = np.random.default_rng(0).normal(size=(20, 4))
    X[:, 0] = 0.0
    return X


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 1.5, "many"])
def test_max_iter_must_be_a_whole_number(iterative, value):
    with pytest.raises(ValueError, match=r"max_iter of .* whole number"):
        SOLVERS[iterative]().set_params(max_iter=value).solve(problem("squared"))


@pytest.mark.parametrize("value", [-1e-3, np.nan, "small"])
def test_tol_must_not_be_negative(iterative, value):
    with pytest.raises(ValueError, match=r"tol of .* at least 0"):
        SOLVERS[iterative]().set_params(tol=value).solve(problem("squared"))


@pytest.mark.parametrize("p", [0.5, 2.1, np.nan, "two"])
def test_lp_norm_refuses_other_norms(p):
    with pytest.raises(ValueError, match=r"p of LpNorm is .* use a number in \[1, 2\] or 'auto'"):
        LpNorm(p=p).solve(problem("squared"))


class NeedsFeatures(Solver):
    """A solver that needs explicit features and one loss."""

    requires = (HasFeatures,)
    losses = ("squared",)


@pytest.mark.parametrize(
    "family, blame",
    [(Finite([Linear(), RBF()]), "kernel 'rbf.*' has none"), (Products(base=[RBF()]), "Products is not")],
    ids=["list", "products"],
)
def test_a_family_that_lacks_something_is_refused_in_one_sentence(family, blame):
    message = f"NeedsFeatures needs a family with explicit features, and {blame}; pass another"
    with pytest.raises(ValueError, match=message):
        NeedsFeatures().check_compatible(family.resolve(3), get_loss("squared"))


@pytest.mark.parametrize("family", [Finite([Linear()]), Products()], ids=["list", "products"])
def test_a_family_that_has_everything_is_accepted(family):
    NeedsFeatures().check_compatible(family.resolve(3), get_loss("squared"))


def test_a_loss_the_solver_does_not_take_is_refused():
    with pytest.raises(ValueError, match="NeedsFeatures takes loss squared, not 'hinge'"):
        NeedsFeatures().check_compatible(Finite([Linear()]).resolve(3), get_loss("hinge"))


def test_estimator_checks_the_solver_before_the_work():
    X = np.eye(4)
    with pytest.raises(ValueError, match="tol of SimpleMKL"):
        MKLRegressor([RBF()], solver=SimpleMKL(tol=-1), C=1.0).fit(X, X[:, 0])


def test_a_good_fit_does_not_warn(iterative):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SOLVERS[iterative]().solve(problem("squared"))
