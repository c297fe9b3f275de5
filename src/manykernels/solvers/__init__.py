"""Solvers: one room or file per method, one shape of result.

Methods do not know of each other. What several of them share lies beside them: ``base`` (the contracts), ``loop`` and
``log`` (the loop over iterates, Ctrl-C, the trace), ``stream_run`` (the same over a stream, with states to save),
``workspace`` and ``active`` (from kernel weights to a certified predictor, over a list and over kernels met so far),
``weights`` (descents on kernel weights), ``projected`` (projected gradients on any smooth criterion of them),
``centring`` and ``aligning`` (centred alignment), ``verdict`` and ``calibration`` (rows held out), ``folds`` and
``choosing`` (C by rows left out), ``bandwidth_learning``.
"""

from .alignment import Alignment
from .base import BatchSolver, Solver, StreamingSolver, TwoStageSolver
from .blockwise import Blockwise
from .greedy import Greedy
from .greedy_alignment import GreedyAlignment
from .hessian import HessianMKL
from .hierarchical import Hierarchical
from .leave_one_out import LeaveOneOut
from .log import Step
from .lp_norm import LpNorm
from .mirror_descent import MirrorDescent
from .obscure import Obscure, Ufo
from .polynomial_mkl import PolynomialMKL
from .silp import SILP
from .simple_mkl import SimpleMKL
from .triply_stochastic import TriplyStochastic
from .uniform import Single, Uniform

__all__ = [
    "SILP",
    "Alignment",
    "BatchSolver",
    "Blockwise",
    "Greedy",
    "GreedyAlignment",
    "HessianMKL",
    "Hierarchical",
    "LeaveOneOut",
    "LpNorm",
    "MirrorDescent",
    "Obscure",
    "PolynomialMKL",
    "SimpleMKL",
    "Single",
    "Solver",
    "Step",
    "StreamingSolver",
    "TriplyStochastic",
    "TwoStageSolver",
    "Ufo",
    "Uniform",
]


def __dir__() -> list[str]:
    return sorted(__all__)
