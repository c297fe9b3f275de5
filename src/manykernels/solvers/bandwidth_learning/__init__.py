"""Bandwidths per column, learned among neighbours by leaving one row out.

``error.py`` is the leave-one-out error of kernel ridge regression and its gradient; ``steps.py`` takes steps on it, in
small groups of rows that are as dense as all rows are. ``left_out.py`` is that error for any loss, rows that are merged
or leave together, and its gradient in the kernel matrix; ``candidates.py`` learns bandwidths and weights of several
kernels on it.
"""

from .error import leave_one_out
from .steps import learn_bandwidths

__all__ = ["learn_bandwidths", "leave_one_out"]
