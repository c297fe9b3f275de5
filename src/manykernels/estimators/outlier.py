"""Rows unlike the others: what is known is one class, and there are no targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import _num_samples

from ..losses import OneClass
from ..problem import Problem, Result
from ..solvers import Solver
from .base import MKL, Kernels, Normalize, OnIteration, RandomState
from .targets import NOTHING_KNOWN, Known

#: How far below the border a row is still on it, for scores up to 1: machines are solved to 1e-10.
BORDER = 1e-9


class MKLOutlier(OutlierMixin, MKL):
    """Outliers and novelties by a combination of kernels.

    minimise  ½ (Σ_i ρ_i^p ‖w_i‖^p)^(2/p) - o + (1/(ν Σs)) Σ_t s_t max(0, o - f(x_t))   over w and the offset o

    With one kernel this is :class:`~sklearn.svm.OneClassSVM`, whose scores are those here times ν n. There is no
    intercept, the offset is free, and the dual coefficients sum to 1.

    Parameters
    ----------
    kernels : str, list, dict, Kernel or Family
        Kernels that can be listed: ``"gaussian"``, thirteen bandwidths around the data's median distance;
        ``"laplacian"`` likewise; a list or dict of kernels (:mod:`manykernels.kernels`), scikit-learn kernel names or
        callables, or ``"precomputed"``: X is then a stack of shape (n, n, n_kernels).
    solver : str or Solver
        ``Uniform``, all kernels alike; or ``LpNorm``, ``SimpleMKL``, ``SILP`` or ``Single``, which learn the weights.
        There are no targets to tell good kernels from bad: what the problem prefers are kernels by which the
        rows are alike, wide ones among bandwidths.
    nu : float
        An upper bound of the share of training rows that are outliers, and a lower one of that of support vectors.
    normalize : {"auto", "trace", "base", None} or array
        How kernels are brought to one scale, see :class:`~manykernels.problem.Scale`.
    memory : int, str or None
        Bytes, or a text such as ``"4GiB"``, that a machine on all pairs of rows may take.
    random_state : int, RandomState or None
        For solvers that draw at random and have no state of their own.
    warm_start : bool
        Whether a second fit starts from the weights of the first.
    verbose : int
        Whether to report progress on the standard error stream.

    Attributes
    ----------
    offset_ : float
        o, the border: ``decision_function`` is ``score_samples - offset_``. It is lower by a billionth of the largest
        score, so that rows on the border, and there may be many, are inside whatever the rounding.
    combination_ : Combination
        The kernel; ``combination_.table()`` lists its parts, heaviest first.
    weights_, rho_ : (m,) arrays
        Weights θ_i/ρ_i² and scales ρ_i of the kernels, in the order of ``combination_.members``.
    dual_coef_ : (n, 1) array
        α. The scores are ``Σ_i weights_i K_i α``.
    objective_, gap_, gap_kind_ : float, float, str
        The objective less ½, times the mean weight of the rows, and its duality gap.
    n_iter_, converged_, trace_ : int, bool, Trace
    stop_reason_ : str
        Why the solver stopped: ``"gap"``, by choice (``"max_kernels"``, ``"criterion"``, ``"exact_fit"``,
        ``"callback"``), ``"max_iter"``, ``"max_work"`` (its machines have multiplied all that the
        rows are worth), ``"no_progress"`` or ``"interrupted"``; ``result_.ended()`` says it in words.
    solver_, loss_, normalize_ : what was used
    n_features_in_, feature_names_in_ : int, array

    References
    ----------
    Schölkopf, Platt, Shawe-Taylor, Smola and Williamson (2001), *Estimating the Support of a High-Dimensional
    Distribution*, Neural Computation 13.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLOutlier
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> MKLOutlier(nu=0.1).fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _regresses = _has_own_loss = True
    #: What the base asks for; the weight of the losses follows from nu.
    C = 1.0

    def __init__(
        self,
        kernels: Kernels = "gaussian",
        *,
        solver: str | Solver = "uniform",
        nu: float = 0.5,
        normalize: Normalize = "auto",
        memory: float | str | None = None,
        random_state: RandomState = None,
        warm_start: bool = False,
        verbose: int = 0,
    ):
        self.kernels = kernels
        self.solver = solver
        self.nu = nu
        self.normalize = normalize
        self.memory = memory
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    @property
    def loss(self) -> OneClass:  # type: ignore[override]
        """The loss, whose parameter is nu."""
        return OneClass(self.nu)

    def fit(
        self, X, y=None, sample_weight=None, *, on_iteration: OnIteration | None = None, init=None
    ) -> Self:
        """Fit the kernels' weights and the border.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or DataFrame; views; or a stack (n, n, n_kernels)
        y : ignored
        sample_weight : (n,) array, optional
        on_iteration : callable, optional
            Called with a :class:`~manykernels.solvers.Step` after every iteration; True stops.
        init : (m,) array, optional
            Weights θ to start from.

        Returns
        -------
        self
        """
        self._refuse_lazy(X)
        views = self._views(X)
        none = np.zeros(_num_samples(X if views is None else views))
        self._fit(X, none, sample_weight, on_iteration, init, None)
        return self

    def _problem(self, X, y, sample_weight, known: Known = NOTHING_KNOWN) -> Problem:
        problem = super()._problem(X, y, sample_weight, known)
        if len(self.solver_.candidates()) > 1:
            raise ValueError(
                f"solver is {self.solver_}, and nothing tells what to choose without targets; pass a number."
            )
        return replace(problem, C=1.0 / float(problem.sample_weight.sum()))

    def _store(self, result: Result, C: float | None = None, problem: Problem | None = None) -> None:
        super()._store(result, C, problem)
        assert problem is not None
        scores = self.result_.predictor.scores(problem.X)
        level = self.loss.level(scores, problem.sample_weight)[0]
        self.offset_ = float(level - BORDER * np.abs(scores).max())

    def _set_targets(self, y, classes):
        return y

    def _check_targets(self, y):
        return y

    def _score_left_out(self, Y, s):
        """No scores are left out."""

    def score_samples(self, X) -> np.ndarray:
        """Return the scores, (n,): the larger, the more a row is like the training rows."""
        return self._scores(X)[:, 0]

    def decision_function(self, X) -> np.ndarray:
        """Return the scores less ``offset_``, (n,): negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X) -> np.ndarray:
        """Return 1 for rows like the training rows, -1 for outliers."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)
