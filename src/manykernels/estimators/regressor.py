"""Regression: numbers to targets about an offset, and back."""

from __future__ import annotations

import numbers
from os import PathLike
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array

from .._util.checks import choice
from .._util.text import brief
from ..losses import Loss
from ..solvers import Solver
from .available import available_unless
from .base import (
    MKL,
    Kernels,
    Normalize,
    OnIteration,
    RandomState,
    check_weights,
    lazily,
    why_no_batches,
    why_not_left_out,
    within_floats,
)

if TYPE_CHECKING:
    from ..findings import SolutionPath


class MKLRegressor(RegressorMixin, MKL):
    """Regression with a learned combination of kernels.

    minimise  (1/n) Σ_t s_t ℓ(y_t, o + f(x_t)) + (λ/2) [(Σ_i ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²],  λ = 1/(C n)

    The offset o is the loss's own: for ``"squared"``, ½(y - f)², the mean of the targets. Several targets share one
    combination of kernels.

    Parameters
    ----------
    kernels : str, list, dict, Kernel or Family
        Which kernels: ``"auto"``, Gaussian and Laplacian kernels with a bandwidth per column and a linear one, all
        learned together, on a table of any columns: text, categories, dates, missing values, numbers in any unit;
        ``"gaussian"``, the continuum :class:`~manykernels.families.Gaussians` where the solver can search one, else
        thirteen bandwidths around the data's median distance; ``"laplacian"`` likewise; a list or dict of kernels
        (:mod:`manykernels.kernels`), scikit-learn kernel names, callables or families, a family such as
        :class:`~manykernels.families.Products`, or ``"precomputed"``: X is then a stack of shape (n, n, n_kernels).
    solver : str or Solver
        ``"auto"``, a name, or one of :mod:`manykernels.solvers`. What ``"auto"`` chose is in ``solver_``:
        LeaveOneOut for bandwidths and what has any in it, Greedy for products, LpNorm for up to 2,000 kernels that can
        be listed, and Blockwise on the same kernels for more rows than `memory` is for.
    loss : str or Loss
        ``"auto"``, a name of :mod:`manykernels.losses`, or one of these with parameters, such as
        :class:`losses.Quantile(0.9) <manykernels.losses.Quantile>`. Of ordered classes, which are numbers then,
        ``"ordinal"`` has one score, and a threshold between each class and the next.
    C : float or "auto"
        Weight of the losses against the norm, as in :class:`~sklearn.svm.SVC`. ``"auto"``: the solver's own choice
        (LeaveOneOut, Blockwise), or the one with the least error of rows left out, in closed form where the machine
        is a ridge on a learned kernel, else over folds. What was chosen is in ``C_``.
    normalize : {"auto", "trace", "base", None} or array
        How kernels are brought to one scale, see :class:`~manykernels.problem.Scale`.
    weights : {"shared", "per_target"}
        Whether all targets share one combination of kernels, or each has weights of its own; for LpNorm and its like,
        hundreds of targets, and for LeaveOneOut, thousands. ``weights_`` is then (targets, kernels), and objective and
        gap are sums over the targets.
    memory : int, str or None
        Bytes, or a text such as ``"4GiB"``, that a machine on all pairs of rows may take; with more rows than that is
        for, ``solver="auto"`` is Blockwise on the same kernels. None: 1 GiB, 6,600 rows, on any machine.
    random_state : int, RandomState or None
        For solvers that draw at random and have no state of their own.
    warm_start : bool
        Whether a second fit starts from the weights of the first, so that a fit can go on after Ctrl-C; for solvers
        that start from weights (LpNorm, SimpleMKL, SILP, HessianMKL, PolynomialMKL).
    verbose : int
        Whether to report progress on the standard error stream.

    Attributes
    ----------
    target_mean_ : (c,) array
        The offset: the weighted mean of the targets, their median (``"huber"``, ``"epsilon_insensitive"``) or quantile,
        or the logarithm of the mean count (``"poisson"``); it is part of ``intercept_``.
    combination_ : Combination
        The learned kernel; ``combination_.table()`` lists its parts, heaviest first.
    weights_, rho_ : (m,) arrays
        Weights θ_i/ρ_i² and scales ρ_i of the kernels, in the order of ``combination_.members``.
    dual_coef_ : (n, c) array or None
        A. The scores are ``Σ_i weights_i K_i A + intercept_`` (PolynomialMKL has a power of the sum in its place). None
        for solvers on random features (Blockwise, TriplyStochastic), which have coefficients of features instead.
    intercept_ : (c,) array
    objective_, gap_, gap_kind_ : float, float, str
        The objective reached, and the certificate: how far below any predictor of the family could get.
    n_iter_, converged_, trace_ : int, bool, Trace
    stop_reason_ : str
        Why the solver stopped: ``"gap"``, by choice (``"max_kernels"``, ``"criterion"``, ``"exact_fit"``,
        ``"callback"``), ``"max_iter"``, ``"max_work"`` (its machines have multiplied all that the
        rows are worth), ``"no_progress"`` or ``"interrupted"``; ``result_.ended()`` says it in words.
    C_ : float
        The C of the objective: as given, or as the solver chose it (Blockwise).
    loo_score_, loo_prediction_ : float, array
        With LeaveOneOut: predictions for the training rows, each left out, and their R², an honest one.
    solver_, loss_, normalize_ : what ``"auto"`` became
    feature_importances_ : (n_features,) array
        How much each column counts: its mean absolute Shapley value, in shares of their sum; computed when asked for.
    n_features_in_, feature_names_in_ : int, array

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from manykernels import MKLRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> MKLRegressor(C=10).fit(X, y).predict(X[:2]).shape
    (2,)
    """

    _regresses = _several_targets = True
    rules = MKL.rules | {"weights": choice("shared", "per_target")}

    def __init__(
        self,
        kernels: Kernels = "auto",
        *,
        solver: str | Solver = "auto",
        loss: str | Loss = "auto",
        C: float | Literal["auto"] = "auto",
        normalize: Normalize = "auto",
        weights: Literal["shared", "per_target"] = "shared",
        memory: float | str | None = None,
        random_state: RandomState = None,
        warm_start: bool = False,
        verbose: int = 0,
    ):
        self.kernels = kernels
        self.solver = solver
        self.loss = loss
        self.C = C
        self.normalize = normalize
        self.weights = weights
        self.memory = memory
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(
        self,
        X,
        y=None,
        sample_weight=None,
        *,
        groups=None,
        on_iteration: OnIteration | None = None,
        init=None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Fit the kernels' weights and the regressor.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or DataFrame; or a stack (n, n, n_kernels)
            With a solver that streams also a memory map, the path of a file or folder, a pyarrow Dataset, or an
            iterable of batches, see :mod:`manykernels.streaming`.
        y : (n,) or (n, c) array
            Of a file or a table, the name of the column, or of several; of batches (X, y), nothing.
        sample_weight : (n,) array, optional
            Of a file or a table, the name of the column.
        groups : (n,) array, optional
            The subject, say, that every row belongs to: where rows are left out, to choose bandwidths and C and to
            calibrate probabilities, all of a group leave together.
        on_iteration : callable, optional
            Called with a :class:`~manykernels.solvers.Step` after every iteration; True stops.
        init : (m,) array, optional
            Weights θ to start from.
        checkpoint : path, optional
            Of a solver that streams: where to keep the state of the fit. If the file exists, the fit goes on from
            there, to the same model as without the interruption; it is deleted at the end.

        Returns
        -------
        self
        """
        self._fit(X, y, sample_weight, on_iteration, init, checkpoint, groups=groups)
        return self

    def path(self, X, y=None, sample_weight=None, *, C=None, p=None, cv=5) -> SolutionPath:
        """Return the models of a grid of C and p, and how well each predicts rows that it has not seen.

        The model itself is not fitted. With the squared loss on explicit features, fewer than rows, one pass sums up
        the Gram matrix of every fold, and each model is a small problem from there on, however many rows there are; so
        it is for rows in files and on a Dask cluster, with Fourier features, too. Other kernels and losses are fitted
        fold by fold, each from the weights of the last.

        Parameters
        ----------
        X, y, sample_weight : as in ``fit``
        C : sequence of float, optional
            By default half powers of ten from 0.001 to 10,000.
        p : sequence of float, optional
            Norms over kernels, for solvers that have one; by default the solver's own, and with ``"auto"`` all that it
            chooses from.
        cv : int, splitter or iterable
            The folds; for rows in files and on clusters their number, and equal rows are in one fold.

        Returns
        -------
        SolutionPath
            ``table()`` lists errors, objectives and gaps, ``best_model`` is the one with the least error of rows left
            out, and :class:`~manykernels.displays.PathDisplay` draws it.
        """
        from .paths import solution_path  # here, since fits do without

        return solution_path(self, X, y, sample_weight, C=C, p=p, cv=cv)

    @available_unless(why_no_batches)
    def partial_fit(self, X, y, sample_weight=None) -> Self:
        """Go on with one more batch of rows.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or DataFrame
        y : (n,) or (n, c) array
        sample_weight : (n,) array, optional

        Returns
        -------
        self
        """
        self._partial_fit(X, y, sample_weight)
        return self

    def _weighs_targets(self, problem):
        if self.weights == "shared" or problem.n_outputs == 1:
            return False
        self.solver_.check_weighs_targets()
        return True

    def _set_targets(self, y, classes):
        y = self._check_targets(y)
        self._flat = y.ndim == 1
        return y

    def _check_targets(self, y):
        with within_floats("y"):
            return check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")

    @lazily
    def predict(self, X) -> np.ndarray:
        """Return the predicted targets, in the shape of y; with the Poisson loss these are expected counts."""
        scores = self._scores(X)
        predicted = self.loss_.prediction(scores)
        return predicted[:, 0] if self._flat else predicted

    @lazily
    def score(self, X, y, sample_weight=None) -> float:
        """Return R², the mean over several targets; of dask collections, y may be the name of a column."""
        return super().score(X, y, sample_weight)

    def score_by_view(self, X, y, sample_weight=None) -> np.ndarray:
        """Split R² by view: what each view's part of the prediction adds to it.

        With f = Σ_v f_v the parts of the prediction, and y, f and the f_v less the mean of y, R² is the sum over the
        views of <f_v, 2y - f>/<y, y>. A part is negative where a view does harm.

        Parameters
        ----------
        X : views
        y : (n,) or (n, c) array
        sample_weight : (n,) array, optional

        Returns
        -------
        array of shape (views,) or (c, views)
            In the order of ``views_``; the intercept's part, next to nothing, is shared equally. NaN for a target
            that is constant in `y`.
        """
        Y, F = (
            np.asarray(a, dtype=float).reshape(len(a), -1) for a in (self._check_targets(y), self.predict(X))
        )
        s = check_weights(sample_weight, Y)
        parts = np.nan_to_num(self.contributions(X, by="view"))
        parts = parts[:, :, None] if parts.ndim == 2 else parts
        mean = np.average(Y, axis=0, weights=s)
        parts = parts + (self.intercept_ - mean) / parts.shape[1]
        Y, F = Y - mean, F - mean
        split, total = (
            np.einsum("n,nvc,nc->cv", s, parts, 2 * Y - F),
            np.einsum("n,nc,nc->c", s, Y, Y)[:, None],
        )
        split = np.divide(split, total, out=np.full(split.shape, np.nan), where=total > 0)
        return split[0] if self._flat else split

    @property
    def loo_prediction_(self) -> np.ndarray:
        """Predictions for the training rows, each by a model that has not seen it; NaN for rows without weight."""
        predicted = self.loss_.prediction(self._left_out())
        return predicted[:, 0] if self._flat else predicted

    def _score_left_out(self, Y, s):
        F = self.loss_.prediction(self._left_out())
        known = np.isfinite(F).all(axis=1) & (s > 0)
        self._loo_residuals = np.column_stack([Y[known] - F[known], s[known]])
        if np.count_nonzero(known) > 1:
            self.loo_score_ = float(r2_score(Y[known], F[known], sample_weight=s[known]))

    @available_unless(why_not_left_out)
    def predict_interval(self, X, alpha: float = 0.1) -> np.ndarray:
        """Return intervals that hold the targets of new rows with a probability of about 1 - `alpha`.

        The prediction, plus and minus the quantile of the training rows' errors when each is left out, of those on
        either side alike: intervals are as wide everywhere.

        Parameters
        ----------
        X : rows
        alpha : float
            Between 0 and 1. With fewer than 1/alpha rows intervals are infinite.

        Returns
        -------
        array of shape (n, 2), or (n, c, 2) for several targets
            Lower and upper ends.
        """
        if not (isinstance(alpha, numbers.Real) and 0 < alpha < 1):
            raise ValueError(f"alpha is {brief(alpha)}; it must be a number between 0 and 1.")
        F = self.loss_.prediction(self._scores(X))
        errors, weights = np.abs(self._loo_residuals[:, :-1]), self._loo_residuals[:, -1]
        width = np.array([_quantile(column, weights, 1 - float(alpha)) for column in errors.T])
        ends = np.stack([F - width, F + width], axis=-1)
        return ends[:, 0] if self._flat else ends


def _quantile(errors: np.ndarray, weights: np.ndarray, level: float) -> float:
    """Return a quantile of weighted errors and one more, of mean weight, that may be of any size."""
    order = np.argsort(errors, kind="stable")
    reached = np.cumsum(weights[order]) / (weights.sum() + weights.mean())
    at = int(np.searchsorted(reached, level * (1 - 1e-12)))
    return float(errors[order[at]]) if at < len(order) else np.inf
