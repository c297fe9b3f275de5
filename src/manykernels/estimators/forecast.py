"""What a fit is going to do and what it may take, told before it starts: the one estimate of time and memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._util.memory import gibibytes
from .._util.pace import duration, seconds_for
from .._util.text import brief
from ..families.base import Family
from ..families.view import View
from ..problem import Problem
from ..registry import exact_bytes
from ..solvers.base import Solver

#: Bytes that the interpreter and the libraries take by themselves.
LIBRARIES = 350 * 2**20
#: Copies of the rows that a fit has at a time.
COPIES = 3


@dataclass(frozen=True)
class Forecast:
    """What is known of a fit before its solver starts, as it is logged at level INFO.

    Attributes
    ----------
    n_rows : int or None
        None where nobody has counted them.
    columns : Columns, ViewColumns or None
        What the columns of a table become, None where they are taken as they are.
    n_features : int
        Columns of the matrix that kernels are of.
    kernels : str
        In words.
    solver : Solver
    loss : str
    n_bytes : int
        About the memory that the process is going to take.
    seconds : float
        About how long it takes on this machine, NaN where the method's time is not known beforehand.
    """

    n_rows: int | None
    columns: Any
    n_features: int
    kernels: str
    solver: Solver
    loss: str
    n_bytes: int
    seconds: float

    @classmethod
    def of(cls, solver: Solver, problem: Problem, n_rows: int | None, columns: Any = None) -> Forecast:
        """Return what to expect of a solver on a problem; of rows in batches, `problem` has the first ones."""
        n, d = problem.n_rows if n_rows is None else n_rows, problem.X.shape[-1]
        need = exact_bytes(solver, problem.family, n) + solver.footprint(problem, n)
        rows = 8 * COPIES * problem.n_rows * d
        work = solver.work(problem, n) if n_rows is not None else {}
        seconds = seconds_for(sum(work.values()), solver.cores) if work else math.nan
        words, loss = in_words(problem.family), problem.loss.name
        return cls(n_rows, columns, d, words, solver, loss, LIBRARIES + rows + need, seconds)

    @property
    def memory(self) -> str:
        """The memory in words."""
        return f"about {gibibytes(self.n_bytes)}"

    @property
    def time(self) -> str:
        """The time in words, empty where it is not known."""
        return "" if math.isnan(self.seconds) else f"about {duration(self.seconds)}"

    def __str__(self) -> str:
        rows = "rows of unknown number" if self.n_rows is None else f"{self.n_rows:,} rows"
        parts = [rows, self.kernels, brief(self.solver, 200), f"{self.loss} loss", self.time, self.memory]
        return ", ".join(part for part in parts if part)


def in_words(family: Family) -> str:
    """Return the kernels of a family in words."""
    parts, of_views = _parts(family)
    named = [name for name in (_part(part) for part in parts) if name]
    if len(named) == len(parts) and named:
        per_column = " with a bandwidth per column" if any(getattr(p, "ard", False) for p in parts) else ""
        listed = ", ".join(dict.fromkeys(named))
        return " and ".join(listed.rsplit(", ", 1)) + per_column + (", in every view" if of_views else "")
    size = family.size()
    many = "a continuum of" if np.isinf(size) else f"{size:,}"
    return f"{many} kernels ({brief(family)})"


def _parts(family: Family) -> tuple[list[Any], bool]:
    """Return what a union is made of, those of views by what is on their columns, and whether there are any."""
    parts: list[Any] = []
    of_views = False
    for part in family.families():
        if isinstance(part, View):
            of_views = True
            parts += part.family.families()
        else:
            parts.append(part)
    return parts, of_views


def _part(part: Any) -> str:
    """Return the name of a continuum of bandwidths, or of a list of one kind; empty where there is none."""
    if hasattr(part, "statistic"):
        return "Laplacian" if part.statistic == "l1" else "Gaussian"
    kinds = {type(kernel).__name__ for kernel in getattr(part, "kernels", None) or ()}
    return "linear" if kinds == {"Linear"} else ""
