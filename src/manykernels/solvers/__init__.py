"""Solvers: one file per method, one shape of result."""

from .base import BatchSolver, Solver, Step, StreamingSolver, TwoStageSolver
from .lp_norm import LpNorm
from .mirror_descent import MirrorDescent
from .silp import SILP
from .simple_mkl import SimpleMKL
from .uniform import Single, Uniform

__all__ = [
    "SILP",
    "BatchSolver",
    "LpNorm",
    "MirrorDescent",
    "SimpleMKL",
    "Single",
    "Solver",
    "Step",
    "StreamingSolver",
    "TwoStageSolver",
    "Uniform",
]
