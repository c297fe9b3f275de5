"""Classification: labels to targets and back, class weights, probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from .._util.checks import FLAG, Rule, choice, is_missing, refuse_missing
from .._util.text import brief
from ..losses import Loss, get_loss
from ..registry import solver_kind
from ..solvers import Solver
from ..solvers.calibration import UNTAUGHT
from ..solvers.calibration import probabilities as calibrated
from . import targets
from .available import available_unless
from .base import MKL, Kernels, Normalize, OnIteration, RandomState, lazily, why_no_batches, within_floats

if TYPE_CHECKING:
    from ..findings import SolutionPath


def _why_no_probabilities(estimator) -> str | None:
    """Return why there is no ``predict_proba`` and what to do, None where there is one."""
    loss = getattr(estimator, "loss_", None)
    if loss is None and estimator.loss != "auto":
        loss = get_loss(estimator.loss)
    if estimator.calibrate or (loss is not None and loss.probabilistic):
        return None
    solver = getattr(estimator, "solver_", None) or solver_kind(estimator.solver)
    if getattr(solver, "calibrates", False):
        fitted = estimator.__dict__.get("result_")
        if fitted is None or fitted.calibration is not None:
            return None
    return (
        f"There are no probabilities with calibrate=False and loss={loss.name if loss else 'auto'!r}; fit with "
        "calibrate=True, or with loss='logistic', 'softmax' or 'ordinal'."
    )


def _codes(F: np.ndarray) -> np.ndarray:
    """Return the numbers of the classes that scores in scikit-learn's shape are for."""
    return (F > 0).astype(int) if F.ndim == 1 else F.argmax(axis=1)


class MKLClassifier(ClassifierMixin, MKL):
    """Classification with a learned combination of kernels.

    minimise  (1/n) Σ_t s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²],  λ = 1/(C n)

    All classes share one combination of kernels.

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
    class_weight : dict, "balanced" or None
        Weights of the classes, multiplied with the sample weights.
    calibrate : bool
        Whether probabilities are calibrated where the loss has none, on scores of rows left out: those of the folds
        that chose C, or with C given those of five more machines on the learned kernel (of one, without a fifth of the
        rows, beyond 2,000). LeaveOneOut and Blockwise calibrate on the way, whatever this says. False: no more
        machines, and no ``predict_proba``.

    Attributes
    ----------
    classes_ : array
    combination_ : Combination
        The learned kernel; ``combination_.table()`` lists its parts, heaviest first.
    weights_, rho_ : (m,) arrays
        Weights θ_i/ρ_i² and scales ρ_i of the kernels, in the order of ``combination_.members``.
    dual_coef_ : (n, c) array or None
        A. The scores are ``Σ_i weights_i K_i A + intercept_`` (PolynomialMKL has a power of the sum in its place, and
        loss ``"ordinal"`` the sum of A over its borders). None for solvers on random features (Blockwise,
        TriplyStochastic), which have coefficients of features instead.
    intercept_ : (c,) array
        With loss ``"ordinal"`` minus the thresholds.
    objective_, gap_, gap_kind_ : float, float, str
        The objective reached, and the certificate: how far below any predictor of the family could get.
    n_iter_, converged_, trace_ : int, bool, Trace
    stop_reason_ : str
        Why the solver stopped: ``"gap"``, by choice (``"max_kernels"``, ``"criterion"``, ``"exact_fit"``,
        ``"callback"``), ``"max_iter"``, ``"max_work"`` (its machines have multiplied all that the
        rows are worth), ``"no_progress"`` or ``"interrupted"``; ``result_.ended()`` says it in words.
    C_ : float
        The C of the objective: as given, or as the solver chose it (Blockwise).
    loo_score_, loo_decision_function_, loo_proba_ : float, arrays
        With LeaveOneOut: scores and probabilities of the training rows, each left out, and their accuracy, an honest
        one.
    solver_, loss_, normalize_ : what ``"auto"`` became
    feature_importances_ : (n_features,) array
        How much each column counts: its mean absolute Shapley value, in shares of their sum; computed when asked for.
    n_features_in_, feature_names_in_ : int, array

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manykernels import MKLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier().fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    classes_: np.ndarray
    _regresses = False
    rules = MKL.rules | {
        "calibrate": FLAG,
        "class_weight": choice(None, "balanced")
        | Rule("a dict from label to weight", lambda value: isinstance(value, Mapping)),
    }

    def __init__(
        self,
        kernels: Kernels = "auto",
        *,
        solver: str | Solver = "auto",
        loss: str | Loss = "auto",
        C: float | Literal["auto"] = "auto",
        normalize: Normalize = "auto",
        memory: float | str | None = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        calibrate: bool = True,
        random_state: RandomState = None,
        warm_start: bool = False,
        verbose: int = 0,
    ):
        self.kernels = kernels
        self.solver = solver
        self.loss = loss
        self.C = C
        self.normalize = normalize
        self.memory = memory
        self.class_weight = class_weight
        self.calibrate = calibrate
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
        classes=None,
        on_iteration: OnIteration | None = None,
        init=None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Fit the kernels' weights and the classifier.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or DataFrame; or a stack (n, n, n_kernels)
            With a solver that streams also a memory map, the path of a file or folder, a pyarrow Dataset, or an
            iterable of batches, see :mod:`manykernels.streaming`.
        y : (n,) labels
            Of a file or a table, the name of the column; of batches (X, y), nothing.
        sample_weight : (n,) array, optional
            Of a file or a table, the name of the column.
        groups : (n,) array, optional
            The subject, say, that every row belongs to: where rows are left out, to choose bandwidths and C and to
            calibrate probabilities, all of a group leave together.
        classes : array, optional
            All labels, of a stream; otherwise they are looked for, in a pass over the labels.
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
        self._fit(X, y, sample_weight, on_iteration, init, checkpoint, classes, groups)
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
    def partial_fit(self, X, y, classes=None, sample_weight=None) -> Self:
        """Go on with one more batch of rows.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or DataFrame
        y : (n,) labels
        classes : array, optional
            All labels, on the first call; the same ones, or nothing, on later calls.
        sample_weight : (n,) array, optional

        Returns
        -------
        self
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows at once; pass a dict of weights to partial_fit instead."
            )
        self._partial_fit(X, y, sample_weight, classes)
        return self

    def _check_order(self):
        if len(self.classes_) > 2 and self.classes_.dtype.kind not in "iufb":
            raise ValueError(
                f"y holds the labels {brief(self.classes_.tolist())}, and loss 'ordinal' takes them in order, which is "
                "not that of the alphabet; number them."
            )

    def _set_targets(self, y, classes):
        with within_floats("y"):
            check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        labels, name = (y, "y") if classes is None else (classes, "classes")
        self.classes_ = targets.distinct_classes(labels, "classification", name)
        return targets.class_codes(y, self.classes_)

    def _check_targets(self, y):
        refuse_missing(y)
        y = column_or_1d(y)
        return targets.class_codes(y, self.classes_)

    def _times_class_weight(self, s, y, balance):
        if balance is None:
            balance = self._class_weights(y, s)
        s = s * balance[y]
        if not (np.isfinite(s) & (s >= 0)).all() or not (s.any() or hasattr(self, "state_")):
            raise ValueError(
                f"class_weight is {brief(self.class_weight)}; weights must be finite and not negative, and some class "
                "must have a positive one."
            )
        return s

    def _class_weights(self, y, s) -> np.ndarray:
        """Return the weight of every class."""
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            mass = np.bincount(y, weights=s, minlength=len(self.classes_))
            return targets.balancing(mass)
        own: Any = self.class_weight
        for label, weight in own.items():
            if is_missing(weight):
                raise ValueError(f"class_weight has no weight for the label {label!r}; give it a number.")
        with within_floats("class_weight"):
            return compute_sample_weight(dict(own), self.classes_)

    @lazily
    def decision_function(self, X) -> np.ndarray:
        """Return scores: (n,) for two classes, positive for ``classes_[1]``; else (n, n_classes).

        With loss ``"ordinal"`` these are the logarithms of the probabilities.
        """
        F = self._scores(X)
        return targets.decision(F, len(self.classes_), self.loss_)

    @property
    def loo_decision_function_(self) -> np.ndarray:
        """Scores of the training rows, each by a model that has not seen it; NaN for rows without weight."""
        return targets.decision(self._left_out(), len(self.classes_), self.loss_)

    @property
    def loo_proba_(self) -> np.ndarray:
        """Probabilities of the classes for the training rows, from their scores when left out."""
        return self._probabilities(self._left_out())

    def _score_left_out(self, Y, s):
        known = np.isfinite(self._left_out()).all(axis=1) & (s > 0)
        codes = (Y > 0).sum(axis=1) if Y.shape[1] == 1 or self.loss_.shared else Y.argmax(axis=1)
        right = _codes(self.loo_decision_function_) == codes
        if known.any():
            self.loo_score_ = float(np.average(right[known], weights=s[known]))

    @lazily
    def predict(self, X) -> np.ndarray:
        """Return the predicted labels."""
        codes = _codes(self.decision_function(X))
        return self.classes_[codes]

    @available_unless(_why_no_probabilities)
    @lazily
    def predict_proba(self, X) -> np.ndarray:
        """Return class probabilities, (n, n_classes): the most probable class is the predicted one.

        With loss ``"logistic"``, ``"softmax"`` or ``"ordinal"`` they are the model's own: the sigmoid or the softmax of
        the scores, or differences of the sigmoids at two thresholds;
        one-vs-rest probabilities (logistic loss, more than two classes) are scaled to sum to one. Of other losses
        they are the sigmoid or the softmax of the scores times one factor, learned from scores of rows left out, see
        `calibrate`.
        """
        return self._probabilities(self._scores(X))

    def _probabilities(self, F: np.ndarray) -> np.ndarray:
        calibration = self.result_.calibration
        if calibration is None and self.loss_.probabilistic:
            return targets.probabilities(F, len(self.classes_), self.loss_)
        return calibrated(F, np.array([UNTAUGHT]) if calibration is None else calibration)

    @available_unless(_why_no_probabilities)
    def predict_log_proba(self, X) -> np.ndarray:
        """Return the logarithms of the class probabilities."""
        return np.log(self.predict_proba(X))

    @lazily
    def score(self, X, y, sample_weight=None) -> float:
        """Return the share of rows whose label is predicted; of dask collections, y may be the name of a column."""
        return super().score(X, y, sample_weight)
