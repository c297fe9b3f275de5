"""A transformer: from rows to the Gram matrix of a learned kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from ._rows import all_or_nothing, as_needed
from .families.base import Enumerable, Maximisable, can
from .losses import get_loss
from .problem import Problem, Scale
from .registry import CONTINUA, is_pairwise, make_family, make_solver
from .solvers import Alignment, GreedyAlignment, Solver, TwoStageSolver
from .solvers.uniform import LISTED


class AlignedKernel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learn a combination of kernels by its centred alignment with y; transform rows to its Gram matrix.

    ``transform(X)`` holds the kernel between the rows of X and the training rows, ready for any machine that
    takes ``kernel="precomputed"``.

    Parameters
    ----------
    kernels : str, list, dict, Kernel or Family
        As in :class:`~manykernels.MKLClassifier`, but ``"gaussian"`` is the continuum
        :class:`~manykernels.families.Gaussians`.
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

    def __init__(
        self, kernels="gaussian", *, solver="auto", normalize="auto", target="auto", random_state=None
    ):
        self.kernels = kernels
        self.solver = solver
        self.normalize = normalize
        self.target = target
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
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
            self.combination_ = self.solver_.learn(problem)
            n = problem.n_rows
            self.rows_ = problem.family.support(problem.X, np.arange(n))
            self._n_features_out = n
        return self

    def transform(self, X):
        """Return the kernel between the rows of X and the training rows, (n, n_train)."""
        check_is_fitted(self, "combination_")
        family = self.combination_.family
        if not family.pairwise:
            rows = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
            return self.combination_.gram(as_needed(rows, family), self.rows_)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32], allow_nd=True)
        X = X[:, :, None] if X.ndim == 2 else X
        if X.shape[2] != family.size() or X.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has shape {X.shape}, but the kernel was learned on {family.size()} matrices of "
                f"{self._n_features_out} training rows; pass the shape (n, n_train, n_kernels)."
            )
        return self.combination_.gram(X)

    def _problem(self, X, y, sample_weight) -> Problem:
        X, y = self._validated(X, y)
        Y = self._encoded(y)
        if sample_weight is not None and not np.asarray(sample_weight).any():
            raise ValueError("sample_weight is zero for every row; give at least one row a positive weight.")
        s = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kernels = self.kernels
        if isinstance(kernels, str) and kernels in CONTINUA:
            kernels = CONTINUA[kernels]()
        family = make_family(kernels, X, s)
        family = family.resolve(
            X.shape[2] if X.ndim == 3 else X.shape[1], getattr(self, "feature_names_in_", None)
        )
        X = as_needed(X, family)
        solver = make_solver(self._wanted(family), family, self.random_state)
        if not isinstance(solver, TwoStageSolver):
            raise ValueError(
                f"solver is {type(solver).__name__}, which learns kernel and predictor together; AlignedKernel "
                "takes one that learns the kernel alone, such as Alignment, GreedyAlignment or Uniform."
            )
        loss = get_loss("squared")
        solver.check_compatible(family, loss)
        if family.pairwise:
            family.check_training(X)  # type: ignore[attr-defined]
        how = self.normalize
        if isinstance(how, str) and how == "auto":
            how = "base" if family.factorises and solver.prefers_base_scale else "trace"
        self.solver_: Any = solver
        self.normalize_ = how
        return Problem(X, Y, family, Scale.fit(family, X, how, s), loss, 1.0, s)

    def _wanted(self, family) -> str | Solver:
        if not (isinstance(self.solver, str) and self.solver.lower() == "auto"):
            return self.solver
        listed = can(family, Enumerable) and family.size() <= LISTED
        return GreedyAlignment() if not listed and can(family, Maximisable) else Alignment()

    def _validated(self, X, y):
        if y is None:
            raise ValueError(
                "This AlignedKernel estimator requires y to be passed, but the target y is None: alignment is "
                "with y."
            )
        if is_pairwise(self.kernels):
            X, y = validate_data(
                self,
                X,
                y,
                dtype=[np.float64, np.float32],
                allow_nd=True,
                ensure_all_finite=False,  # checked together with symmetry, in one pass
                multi_output=True,
            )
            return (X[:, :, None] if X.ndim == 2 else X), y
        return validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, multi_output=True)

    def _encoded(self, y) -> np.ndarray:
        """Return one-hot columns for classes, the numbers otherwise."""
        if self.target not in ("auto", "classes", "numbers"):
            raise ValueError(f"target is {self.target!r}; use 'auto', 'classes' or 'numbers'.")
        y = np.asarray(y)
        classes = self.target == "classes"
        if self.target == "auto":
            classes = type_of_target(y, input_name="y") in ("binary", "multiclass")
        if not classes:
            y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
            return y[:, None] if y.ndim == 1 else y
        labels, codes = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        if len(labels) < 2:
            raise ValueError(
                f"y holds one class only ({labels.tolist()[0]!r}); alignment needs at least two classes."
            )
        return np.eye(len(labels))[codes]

    def save(self, path) -> None:
        """Write the fitted transformer to a file that :func:`manykernels.load` opens without running code."""
        from .persistence import save

        save(self, path)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "combination_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.input_tags.sparse = not is_pairwise(self.kernels)
        tags.input_tags.pairwise = is_pairwise(self.kernels)
        tags.input_tags.three_d_array = is_pairwise(self.kernels)
        return tags
