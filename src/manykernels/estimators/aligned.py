"""A transformer: from rows to the Gram matrix of a learned kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_array, column_or_1d

from ..combination import Combination
from ..losses import get_loss
from ..predictors import some_rows
from ..problem import Problem, Scale
from ..registry import choose_two_stage, is_auto, make_solver
from ..solvers import Solver, TwoStageSolver
from . import targets
from .base import (
    KernelEstimator,
    Kernels,
    Normalize,
    RandomState,
    all_or_nothing,
    check_weights,
    within_floats,
)


class AlignedKernel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """Learn a combination of kernels by its centred alignment with y; transform rows to its Gram matrix.

    ``transform(X)`` holds the kernel between the rows of X and the training rows, ready for any machine that
    takes ``kernel="precomputed"``.

    Parameters
    ----------
    kernels : str, list, dict, Kernel or Family
        As in :class:`~manykernels.MKLClassifier`.
    solver : str or TwoStageSolver
        ``"auto"``: :class:`~manykernels.solvers.Alignment` where the kernels can be listed,
        :class:`~manykernels.solvers.GreedyAlignment` otherwise.
    normalize : {"auto", "trace", "base", None} or array
        How kernels are brought to one scale, see :class:`~manykernels.problem.Scale`.
    target : {"auto", "classes", "numbers"}
        What y holds. ``"auto"`` follows scikit-learn: text, booleans and whole numbers are classes. Say
        ``"numbers"`` for regression on whole numbers.
    random_state : int, RandomState or None
        For solvers that have no state of their own.

    Attributes
    ----------
    combination_ : Combination
        The learned kernel; ``combination_.table()`` lists its parts, heaviest first.
    rows_ : array, sparse matrix or None
        The training rows; None when kernels are precomputed.
    solver_, normalize_ : what ``"auto"`` became
    n_features_in_, feature_names_in_ : int, array

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> from manykernels import AlignedKernel
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(AlignedKernel(), SVC(kernel="precomputed")).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _several_targets = True

    def __init__(
        self,
        kernels: Kernels = "gaussian",
        *,
        solver: str | Solver = "auto",
        normalize: Normalize = "auto",
        target: Literal["auto", "classes", "numbers"] = "auto",
        random_state: RandomState = None,
    ):
        self.kernels = kernels
        self.solver = solver
        self.normalize = normalize
        self.target = target
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None) -> Self:
        """Learn the kernel.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or DataFrame; or a stack (n, n, n_kernels)
        y : (n,) labels, or (n,) or (n, c) numbers
        sample_weight : (n,) array, optional
            In the centring and in the alignment; a weight equals a repetition.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            problem = self._problem(X, y, sample_weight)
            self.combination_ = with_centred_traces(self.solver_.learn(problem), problem)
            n = problem.n_rows
            self.rows_ = problem.family.support(problem.X, np.arange(n))
            self._n_features_out = n
        return self

    def transform(self, X) -> np.ndarray:
        """Return the kernel between the rows of X and the training rows, (n, n_train)."""
        rows = self._rows(X)
        return self.combination_.gram(rows, self.rows_)

    def _problem(self, X, y, sample_weight) -> Problem:
        if y is None:
            raise ValueError(
                "This AlignedKernel estimator requires y to be passed, but the target y is None: alignment is "
                "with y."
            )
        X, y = self._training_rows(X, y)
        Y = self._encoded(y)
        s = check_weights(sample_weight, X)
        X, family = self._family(X, s, "greedy_alignment" if is_auto(self.solver) else self.solver)
        solver = make_solver(self.solver, family, self.random_state, len(Y), choose=choose_two_stage)
        if not isinstance(solver, TwoStageSolver):
            raise ValueError(
                f"solver is {type(solver).__name__}, which learns kernel and predictor together; AlignedKernel "
                "takes one that learns the kernel alone, such as Alignment, GreedyAlignment or Uniform."
            )
        loss = get_loss("squared")
        solver.check_compatible(family, loss)
        self.solver_: Any = solver
        scale = Scale.fit(family, X, self.normalize, s, prefer_base=solver.prefers_base_scale)
        self.normalize_ = scale.how
        return Problem(X, Y, family, scale, loss, 1.0, s, choose_C=True)

    def _encoded(self, y) -> np.ndarray:
        """Return one-hot columns for classes, the numbers otherwise."""
        if self.target not in ("auto", "classes", "numbers"):
            raise ValueError(f"target is {self.target!r}; use 'auto', 'classes' or 'numbers'.")
        y = np.asarray(y)
        classes = self.target == "classes"
        if self.target == "auto":
            with within_floats("y"):
                classes = type_of_target(y, input_name="y") in ("binary", "multiclass")
        if not classes:
            with within_floats("y"):
                y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
            return y[:, None] if y.ndim == 1 else y
        y = column_or_1d(y, warn=True)
        labels = targets.distinct_classes(y, "alignment")
        return np.eye(len(labels))[np.searchsorted(labels, y)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def with_centred_traces(combination: Combination, problem: Problem) -> Combination:
    """Return a combination that knows how much each kernel varies over the training rows: its centred trace over n."""
    rows = some_rows(problem.sample_weight)
    s, used = problem.sample_weight[rows], np.flatnonzero(combination.weights)
    X = problem.X[np.ix_(rows, rows)] if problem.family.pairwise else problem.X[rows]
    members = [combination.members[i] for i in used.tolist()]
    w, found = (s / s.sum())[:, None], np.zeros(len(combination))
    if members:
        means = combination.family.apply(X, X, w, members)[:, :, 0] @ w[:, 0]
        traces = combination.family.mean_diag(X, members, s) - means
        found[used] = np.maximum(combination.weights[used] * traces, 0.0)
    return replace(combination, variance=found)
