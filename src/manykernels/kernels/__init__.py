"""Single kernels: a kernel is a symmetric positive semi-definite function of two rows.

A kernel is a description (a :class:`~sklearn.base.BaseEstimator`): it clones, prints, and takes part in a
grid search. Most kernels are a scalar function of one *statistic* of a pair of rows (inner product,
squared distance, ...); kernels on the same columns share it, see :mod:`manykernels.families.bank`.

``base.py`` is what every kernel answers, ``plain.py`` has those by formula, ``wrapped.py`` those of scikit-learn and
callables; ``columns.py`` turns names of columns into numbers, ``statistics.py`` computes what kernels know of pairs of
rows, with ``_distances.py``, its compiled loops.
"""

from .base import Kernel
from .plain import RBF, Constant, Dirichlet, Laplacian, Linear, Polynomial
from .statistics import pairwise_statistic
from .wrapped import Function, Pairwise, as_kernel

__all__ = [
    "Constant",
    "Dirichlet",
    "Function",
    "Kernel",
    "Laplacian",
    "Linear",
    "Pairwise",
    "Polynomial",
    "RBF",
    "as_kernel",
    "pairwise_statistic",
]


def __dir__() -> list[str]:
    return sorted(__all__)
