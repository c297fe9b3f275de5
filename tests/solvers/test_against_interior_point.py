"""Every solver reaches the optimum that an independent convex solver finds for the same objective."""

import itertools

import pytest
from tests.contracts.cases import OUTPUTS, covering, problem

from manykernels.losses import LOSSES
from manykernels.solvers import SILP, HessianMKL, LpNorm, SimpleMKL, Uniform

from .reference import known_optimum

SOLVERS = {
    "lp-1.05": lambda: LpNorm(p=1.05, tol=1e-7),
    "lp-4/3": lambda: LpNorm(p=4 / 3, tol=1e-7),
    "lp-1.7": lambda: LpNorm(p=1.7, tol=1e-7),
    "lp-2": lambda: LpNorm(p=2.0, tol=1e-7),
    "uniform": Uniform,
    # where most coefficients are at their bounds J is nearly linear in θ, and steps on it are short
    "simple-mkl": lambda: SimpleMKL(tol=1e-7, max_iter=4000),
    "hessian": lambda: HessianMKL(tol=1e-7),
    "silp": lambda: SILP(tol=5e-6),  # the linear program is solved to single digits of 1e-6
}
AXES = (list(SOLVERS), OUTPUTS, [None, "random", "zeros"], [0.1, 1.0, 30.0])
QUICK = covering(*AXES)


def check(solver, outputs, weights, C):
    solver = SOLVERS[solver]()
    result = solver.solve(problem(*outputs, weights=weights, C=C))
    expected = known_optimum(*outputs, solver.p, weights, C)
    assert result.converged
    # Ours is certified to 5e-6 relative or better, the interior point stops at 1e-8 on its own scale.
    assert result.objective == pytest.approx(expected, rel=1e-5)


def test_all_losses_are_covered():
    # Outputs that share one score are held against it in tests/machines, and by their gap.
    assert {loss for loss, _ in OUTPUTS} == {name for name, loss in LOSSES.items() if not loss.shared}


@pytest.mark.parametrize("solver, outputs, weights, C", QUICK)
def test_objective_is_the_interior_points(solver, outputs, weights, C):
    check(solver, outputs, weights, C)


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver, outputs, weights, C", [combo for combo in itertools.product(*AXES) if combo not in QUICK]
)
def test_objective_is_the_interior_points_in_every_combination(solver, outputs, weights, C):
    check(solver, outputs, weights, C)
