"""Solvers: one file per method, one shape of result."""

from .alignment import Alignment
from .base import BatchSolver, Solver, Step, StreamingSolver, TwoStageSolver
from .blockwise import Blockwise
from .greedy import Greedy
from .greedy_alignment import GreedyAlignment
from .lp_norm import LpNorm
from .mirror_descent import MirrorDescent
from .obscure import Obscure, Ufo
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
    "LpNorm",
    "MirrorDescent",
    "Obscure",
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
