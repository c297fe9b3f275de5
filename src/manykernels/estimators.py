"""The public estimators: they validate, encode, dispatch to a solver, and store what it returns."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from . import targets
from ._rows import all_or_nothing, as_needed
from ._text import brief
from .losses import get_loss
from .problem import Problem, Result, Scale
from .registry import MANY_ROWS, SOLVERS, is_pairwise, learns_bandwidths, make_family, make_solver
from .solvers import Solver, Step, StreamingSolver
from .solvers.calibration import probabilities as calibrated


def _streams(estimator) -> bool:
    solver = estimator.solver
    if isinstance(solver, str):
        return issubclass(SOLVERS.get(solver.lower().replace("-", "_"), Solver), StreamingSolver)
    return isinstance(solver, StreamingSolver)


def _gives_probabilities(estimator) -> bool:
    loss = getattr(estimator, "loss_", None)
    if loss is not None:
        return (
            loss.probabilistic or getattr(estimator.__dict__.get("result_"), "calibration", None) is not None
        )
    return estimator.loss != "auto" and get_loss(estimator.loss).probabilistic


class _MKL(BaseEstimator):
    """What the two estimators share: the path from data to a stored result."""

    kernels: Any
    solver: Any
    loss: Any
    C: Any
    normalize: Any
    random_state: Any
    warm_start: bool
    verbose: Any

    # -- hooks -----------------------------------------------------------------------------------------

    def _set_targets(self, y) -> Any:
        """Check y, store what is needed to decode predictions, return it in a plain form."""
        raise NotImplementedError

    def _encode(self, y) -> np.ndarray:
        """Return Y (n, c) for targets in the plain form."""
        raise NotImplementedError

    def _n_classes(self) -> int | None:
        raise NotImplementedError

    # -- fit -------------------------------------------------------------------------------------------

    def _fit(self, X, y, sample_weight, on_iteration, init) -> None:
        with all_or_nothing(self):
            self._fit_anew(X, y, sample_weight, on_iteration, init)

    def _fit_anew(self, X, y, sample_weight, on_iteration, init) -> None:
        for name in ("state_", "_context", "_announced"):  # of a stream before
            self.__dict__.pop(name, None)
        problem = self._problem(X, y, sample_weight)
        self._say(f"{len(problem.Y)} rows, {problem.family.size():,} kernels, {brief(self.solver_, 200)}")
        if init is not None and not self.solver_.accepts_init:
            raise ValueError(
                f"init is given, but {type(self.solver_).__name__} has no weights to start from."
            )
        resumes = self.warm_start and self.solver_.accepts_init
        if init is None and resumes and len(getattr(self, "weights_", ())) == problem.family.size():
            init = self.weights_ * self.rho_**2
        self._store(self.solver_.solve(problem, init=init, on_iteration=self._progress(on_iteration)))

    def _problem(self, X, y, sample_weight) -> Problem:
        """Validate everything, in the order in which mistakes are cheap to find."""
        if not (isinstance(self.C, int | float | np.number) and np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C is {self.C!r}; it must be a positive finite number.")
        X, y = self._validate_rows(X, y)
        y = self._set_targets(y)
        s = self._weights(sample_weight, X, y)
        many = learns_bandwidths(self.solver, X.shape[0])
        family = make_family(self.kernels, X, s, continuum=many)
        family = family.resolve(self._width(X), getattr(self, "feature_names_in_", None))
        X = as_needed(X, family)
        solver = make_solver(self.solver, family, self.random_state, X.shape[0])
        loss = get_loss(solver.default_loss(self._n_classes()) if self.loss == "auto" else self.loss)
        self._check_loss(loss)
        solver.check_compatible(family, loss)
        if family.pairwise:
            family.check_training(X)  # type: ignore[attr-defined]
        how = self.normalize
        if isinstance(how, str) and how == "auto":
            how = "base" if family.factorises and solver.prefers_base_scale else "trace"
        scale = Scale.fit(family, X, how, s)
        self.solver_, self.loss_, self.normalize_ = solver, loss, how
        self.target_mean_ = self._centre(y, s)
        return Problem(X, self._encode(y) - self.target_mean_, family, scale, loss, float(self.C), s)

    def _validate_rows(self, X, y):
        if is_pairwise(self.kernels):
            X, y = validate_data(
                self,
                X,
                y,
                dtype=[np.float64, np.float32],
                allow_nd=True,
                ensure_all_finite=False,  # checked together with symmetry, in one pass
                multi_output=True,
                y_numeric=self._n_classes_needed() is None,
            )
            return (X[:, :, None] if X.ndim == 2 else X), y
        return validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=self._row_types(X),
            multi_output=True,
            y_numeric=self._n_classes_needed() is None,
        )

    def _row_types(self, X) -> Any:
        """Return what rows may be made of: solvers on streams compute in single precision where X is that."""
        shape: Any = getattr(X, "shape", ())
        many = (
            isinstance(self.solver, str)
            and self.solver == "auto"
            and len(shape) == 2
            and shape[0] > MANY_ROWS
        )
        return [np.float64, np.float32] if many or _streams(self) else np.float64

    def _n_classes_needed(self):
        return None if isinstance(self, RegressorMixin) else 2

    @staticmethod
    def _width(X) -> int:
        return X.shape[2] if X.ndim == 3 else X.shape[1]

    def _weights(self, sample_weight, X, y):
        streaming = hasattr(self, "state_")  # a batch of a stream may well be without weight
        if sample_weight is not None and not streaming and not np.asarray(sample_weight).any():
            raise ValueError("sample_weight is zero for every row; give at least one row a positive weight.")
        if streaming and sample_weight is not None:
            sample_weight = check_array(
                sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
            )
            return sample_weight
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _check_loss(self, loss):
        """Refuse a loss that does not suit the targets."""

    def _centre(self, y, s):
        return np.zeros(1)

    def _say(self, text):
        if self.verbose:
            sys.stderr.write(f"[manykernels] {text}\n")

    def _progress(self, on_iteration):
        if not self.verbose:
            return on_iteration

        def report(step: Step):
            every = 1 if self.verbose > 1 or step.iteration < 10 else 10
            if step.iteration % every == 0:
                gap = step.gap / max(abs(step.objective), 1e-300)
                known = "" if np.isnan(gap) else f"relative gap {gap:.1e}  "
                self._say(
                    f"iteration {step.iteration:4d}  objective {step.objective:.6g}  {known}"
                    f"{step.n_kernels} kernels  {step.seconds:.1f} s"
                )
            return on_iteration(step) if on_iteration else False

        return report

    def _store(self, result: Result) -> None:
        self.result_ = replace(
            result,
            predictor=result.predictor.shifted(self.target_mean_),
            intercept=result.intercept + self.target_mean_,
            C=float(self.C) if result.C is None else result.C,
        )
        self._expose()

    def _expose(self) -> None:
        """Set the public attributes from ``result_``."""
        r = self.result_
        self.combination_ = r.combination
        self.weights_ = r.combination.weights
        self.rho_ = r.combination.rho
        self.dual_coef_ = r.dual_coef
        self.intercept_ = r.intercept
        self.objective_, self.gap_, self.gap_kind_ = r.objective, r.gap, r.gap_kind
        self.n_iter_, self.converged_, self.trace_ = r.n_iter, r.converged, r.trace
        self.C_ = r.C

    # -- streams ---------------------------------------------------------------------------------------

    def _partial_fit(self, X, y, sample_weight):
        with all_or_nothing(self):
            self._take_batch(X, y, sample_weight)

    def _take_batch(self, X, y, sample_weight):
        if not hasattr(self, "state_"):
            batch = self._problem(X, y, sample_weight)
            self.state_ = self.solver_.start(batch)
            self._context = replace(batch, X=batch.X[:0], Y=batch.Y[:0], sample_weight=np.ones(0))
        else:
            rows, Y, s = self._training_data(X, y, sample_weight)
            batch = replace(self._context, X=rows, Y=Y, sample_weight=s)
        self.state_ = self.solver_.update(self.state_, batch)
        self._store(self.solver_.finish(self.state_, batch))

    def _training_data(self, X, y, sample_weight=None):
        """Return rows, encoded and centred targets and weights for a fitted model."""
        rows = self._rows(X)
        y = self._check_targets(y)
        check_consistent_length(rows, y)
        return rows, self._encode(y) - self.target_mean_, self._weights(sample_weight, rows, y)

    def _check_targets(self, y):
        raise NotImplementedError

    # -- predict ---------------------------------------------------------------------------------------

    def _rows(self, X):
        """Validate rows for prediction."""
        check_is_fitted(self, "result_")
        family = self.combination_.family
        if not family.pairwise:
            return as_needed(
                validate_data(self, X, reset=False, accept_sparse="csr", dtype=self._known_types()), family
            )
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32], allow_nd=True)
        X = X[:, :, None] if X.ndim == 2 else X
        if X.shape[2] != family.size():
            raise ValueError(
                f"X holds {X.shape[2]} kernels, but the model was fitted on {family.size()}; "
                "pass the shape (n, n_train, n_kernels)."
            )
        return X

    def _known_types(self) -> Any:
        return [np.float64, np.float32] if isinstance(self.solver_, StreamingSolver) else np.float64

    def _scores(self, X) -> np.ndarray:
        rows = self._rows(X)
        return self.result_.predictor.scores(rows)

    def contributions(self, X):
        """Split the prediction by kernel.

        Parameters
        ----------
        X : rows

        Returns
        -------
        array of shape (n, m) or (n, m, c)
            One column per member of ``combination_``. Summed over the kernels, with ``intercept_`` added,
            they give the scores.
        """
        rows = self._rows(X)
        parts = np.moveaxis(self.result_.predictor.contributions(rows), 0, 1)
        return parts[:, :, 0] if parts.shape[2] == 1 else parts

    def save(self, path) -> None:
        """Write the fitted model to a file that :func:`manykernels.load` opens without running code."""
        from .persistence import save

        save(self, path)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "result_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_pairwise(self.kernels)
        tags.input_tags.pairwise = is_pairwise(self.kernels)
        tags.input_tags.three_d_array = is_pairwise(self.kernels)
        return tags


_PARAMETERS = """kernels : str, list, dict, Kernel or Family
        Which kernels: ``"gaussian"`` or ``"laplacian"`` (bandwidths around the data's median distance),
        a list or dict of kernels (:mod:`manykernels.kernels`), scikit-learn kernel names or callables, a
        family such as :class:`~manykernels.families.Products`, or ``"precomputed"``: X is then a stack of
        shape (n, n, n_kernels).
    solver : str or Solver
        ``"auto"``, a name, or one of :mod:`manykernels.solvers`. What ``"auto"`` chose is in ``solver_``: LpNorm for
        up to 2,000 kernels that can be listed, else what suits the family.
    loss : str
        ``"auto"`` or a name of :mod:`manykernels.losses`.
    C : float
        Weight of the losses against the norm, as in :class:`~sklearn.svm.SVC`.
    normalize : {"auto", "trace", "base", None} or array
        How kernels are brought to one scale, see :class:`~manykernels.problem.Scale`.
    random_state : int, RandomState or None
        For solvers that draw at random and have no state of their own.
    warm_start : bool
        Whether a second fit starts from the weights of the first, so that a fit can go on after Ctrl-C; for solvers
        that start from weights (LpNorm, SimpleMKL, SILP).
    verbose : int
        Whether to report progress on the standard error stream."""

_ATTRIBUTES = """combination_ : Combination
        The learned kernel; ``combination_.table()`` lists its parts, heaviest first.
    weights_, rho_ : (m,) arrays
        Weights θ_i/ρ_i² and scales ρ_i of the kernels, in the order of ``combination_.members``.
    dual_coef_ : (n, c) array
        A. The scores are ``Σ_i weights_i K_i A + intercept_``.
    intercept_ : (c,) array
    objective_, gap_, gap_kind_ : float, float, str
        The objective reached, and the certificate: how far below any predictor of the family could get.
    n_iter_, converged_, trace_ : int, bool, Trace
    C_ : float
        The C of the objective: as given, or as the solver chose it (Blockwise).
    solver_, loss_, normalize_ : what ``"auto"`` became
    n_features_in_, feature_names_in_ : int, array"""


class MKLClassifier(ClassifierMixin, _MKL):
    """Classification with a learned combination of kernels.

    minimise  (1/n) Σ_t s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²],  λ = 1/(C n)

    All classes share one combination of kernels.

    Parameters
    ----------
    {parameters}
    class_weight : dict, "balanced" or None
        Weights of the classes, multiplied with the sample weights.

    Attributes
    ----------
    classes_ : array
    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manykernels import MKLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier().fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        kernels="gaussian",
        *,
        solver="auto",
        loss="auto",
        C=1.0,
        normalize="auto",
        class_weight=None,
        random_state=None,
        warm_start=False,
        verbose=0,
    ):
        self.kernels = kernels
        self.solver = solver
        self.loss = loss
        self.C = C
        self.normalize = normalize
        self.class_weight = class_weight
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None, *, on_iteration=None, init=None):
        """Fit the kernels' weights and the classifier.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or DataFrame; or a stack (n, n, n_kernels)
        y : (n,) labels
        sample_weight : (n,) array, optional
        on_iteration : callable, optional
            Called with a :class:`~manykernels.solvers.Step` after every iteration; True stops.
        init : (m,) array, optional
            Weights θ to start from.

        Returns
        -------
        self
        """
        self._fit(X, y, sample_weight, on_iteration, init)
        return self

    @available_if(_streams)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Go on with one more batch of rows; `classes` lists all labels, on the first call."""
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows at once; pass a dict of weights to partial_fit instead."
            )
        if classes is not None and not hasattr(self, "state_"):
            self._announced = np.unique(classes)
        self._partial_fit(X, y, sample_weight)
        return self

    def _set_targets(self, y):
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        classes = getattr(self, "_announced", None)
        self.classes_ = np.unique(y) if classes is None else classes
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds one class only ({self.classes_.tolist()[0]!r}); "
                "classification needs at least two classes."
            )
        return self._check_targets(y)

    def _check_targets(self, y):
        y = column_or_1d(y)
        codes = np.clip(np.searchsorted(self.classes_, y), 0, len(self.classes_) - 1)
        unseen = self.classes_[codes] != y
        if np.any(unseen):
            raise ValueError(
                f"y holds the label {np.asarray(y)[unseen].tolist()[0]!r}, which is not among the classes "
                f"{self.classes_[:8].tolist()}; announce all labels in classes=."
            )
        return codes

    def _n_classes(self):
        return len(self.classes_)

    def _weights(self, sample_weight, X, y):
        s = super()._weights(sample_weight, X, y)
        if self.class_weight is None:
            return s
        s = s * self._class_weights(y, s)
        if not (np.isfinite(s) & (s >= 0)).all() or not (s.any() or hasattr(self, "state_")):
            raise ValueError(
                f"class_weight is {brief(self.class_weight)}; weights must be finite and not negative, and some class "
                "must have a positive one."
            )
        return s

    def _class_weights(self, codes, s):
        labels = self.classes_[codes]
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            mass = np.bincount(codes, weights=s, minlength=len(self.classes_))
            return (s.sum() / (np.count_nonzero(mass) * np.where(mass > 0, mass, 1.0)))[codes]
        if not isinstance(self.class_weight, Mapping):
            raise ValueError(
                f"class_weight is {brief(self.class_weight)}; use None, 'balanced', or a dict from label to weight."
            )
        return compute_sample_weight(dict(self.class_weight), labels)

    def _encode(self, y):
        return targets.encode_classes(y, len(self.classes_), self.loss_)

    def decision_function(self, X):
        """Return scores: (n,) for two classes, positive for ``classes_[1]``; else (n, n_classes)."""
        return targets.decision(self._scores(X), len(self.classes_))

    def predict(self, X):
        """Return the predicted labels."""
        F = self.decision_function(X)
        return self.classes_[(F > 0).astype(int) if F.ndim == 1 else F.argmax(axis=1)]

    @available_if(_gives_probabilities)
    def predict_proba(self, X):
        """Return class probabilities, (n, n_classes); with loss ``"logistic"`` or ``"softmax"``, or from Blockwise.

        They are the model's own: the sigmoid or the softmax of the scores. One-vs-rest probabilities
        (logistic loss, more than two classes) are scaled to sum to one. Blockwise calibrates its scores on rows
        that it has not seen.
        """
        if self.result_.calibration is not None:
            return calibrated(self._scores(X), self.result_.calibration)
        return targets.probabilities(self._scores(X), len(self.classes_), self.loss_)

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X):
        """Return the logarithms of the class probabilities."""
        return np.log(self.predict_proba(X))


class MKLRegressor(RegressorMixin, _MKL):
    """Regression with a learned combination of kernels.

    minimise  (1/n) Σ_t s_t ½‖y_t - f(x_t)‖² + (λ/2) [(Σ_i ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²],  λ = 1/(C n)

    Targets are centred first. Several targets share one combination of kernels.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    target_mean_ : (c,) array
        The weighted mean of the targets; it is part of ``intercept_``.
    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from manykernels import MKLRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> MKLRegressor(C=10).fit(X, y).predict(X[:2]).shape
    (2,)
    """

    def __init__(
        self,
        kernels="gaussian",
        *,
        solver="auto",
        loss="auto",
        C=1.0,
        normalize="auto",
        random_state=None,
        warm_start=False,
        verbose=0,
    ):
        self.kernels = kernels
        self.solver = solver
        self.loss = loss
        self.C = C
        self.normalize = normalize
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None, *, on_iteration=None, init=None):
        """Fit the kernels' weights and the regressor.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or DataFrame; or a stack (n, n, n_kernels)
        y : (n,) or (n, c) array
        sample_weight : (n,) array, optional
        on_iteration : callable, optional
            Called with a :class:`~manykernels.solvers.Step` after every iteration; True stops.
        init : (m,) array, optional
            Weights θ to start from.

        Returns
        -------
        self
        """
        self._fit(X, y, sample_weight, on_iteration, init)
        return self

    @available_if(_streams)
    def partial_fit(self, X, y, sample_weight=None):
        """Go on with one more batch of rows."""
        self._partial_fit(X, y, sample_weight)
        return self

    def _set_targets(self, y):
        y = self._check_targets(y)
        self._flat = y.ndim == 1
        return y

    def _check_targets(self, y):
        return check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")

    def _n_classes(self):
        return None

    def _check_loss(self, loss):
        if not loss.regression:
            raise ValueError(f"loss is {loss.name!r}, which is for classes; MKLRegressor takes 'squared'.")

    def _encode(self, y):
        return y[:, None] if y.ndim == 1 else y

    def _centre(self, y, s):
        return np.average(self._encode(y), axis=0, weights=s)

    def predict(self, X):
        """Return the predicted targets, in the shape of y."""
        F = self._scores(X)
        return F[:, 0] if self._flat else F

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


for _cls in (MKLClassifier, MKLRegressor):
    _cls.__doc__ = (_cls.__doc__ or "").format(parameters=_PARAMETERS, attributes=_ATTRIBUTES)
