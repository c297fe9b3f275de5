"""The dual value of any feasible A is a lower bound of the optimum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.contracts.cases import BATCH_KERNELS, OUTPUTS, from_list, problem

from manykernels.certificates import certificate, penalties
from manykernels.solvers import LpNorm, SimpleMKL

from .reference import known_optimum

N = 25
NORMS = [1.0, 1.05, 4 / 3, 1.7, 2.0]


def dual_value(pb, A, p):
    grams = np.stack([from_list(BATCH_KERNELS)(i, pb.X, pb.X) for i in range(4)])
    traces = np.einsum("mnn,n->m", grams, pb.sample_weight) / pb.sample_weight.sum()
    g = np.einsum("nc,mnk,kc->m", A, grams, A) / traces
    zero = np.zeros(A.shape[1])
    return certificate(
        pb.loss, pb.Y, np.zeros(A.shape), A, pb.C, pb.sample_weight,
        penalty=0.0, dual_penalty=penalties(np.zeros(4), g, p)[1], intercept=zero,
    ).dual  # fmt: skip


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("outputs", OUTPUTS, ids=str)
@settings(max_examples=12)
@given(data=st.data())
def test_no_feasible_dual_point_is_above_the_optimum(outputs, p, data):
    pb = problem(*outputs, weights="random")
    U = data.draw(arrays(float, (N, outputs[1]), elements=st.floats(-2, 2)))
    near = data.draw(st.sampled_from([0.0, 0.9, 1.0]))
    # Far from the solution the bound is loose and any formula would pass: stay near it, too.
    solution = -_solution(outputs, p) / (pb.C * pb.sample_weight)[:, None]
    U = pb.loss.feasible(pb.Y, near * solution + (1 - near) * U)
    A = -U * (pb.C * pb.sample_weight)[:, None]
    optimum = known_optimum(*outputs, p, "random", 1.0)
    assert dual_value(pb, A, p) <= optimum * (1 + 1e-6)  # what the interior point may miss


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("outputs", OUTPUTS, ids=str)
def test_the_bound_is_attained_at_the_solution(outputs, p):
    pb = problem(*outputs, weights="random")
    optimum = known_optimum(*outputs, p, "random", 1.0)
    assert dual_value(pb, _solution(outputs, p), p) == pytest.approx(optimum, rel=2e-6)


_known = {}


def _solution(outputs, p):
    if (outputs, p) not in _known:
        solver = SimpleMKL(tol=1e-7) if p == 1 else LpNorm(p=p, tol=1e-7, max_iter=500)
        _known[outputs, p] = solver.solve(problem(*outputs, weights="random")).dual_coef
    return _known[outputs, p]
