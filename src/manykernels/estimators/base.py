"""What the two estimators share: the path from data to a stored result."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from .._util.text import brief
from ..losses import get_loss
from ..problem import Problem, Result
from ..registry import MANY_ROWS, is_auto, make_solver
from ..solvers import Step, StreamingSolver
from ..solvers.log import heard
from .rows import KernelRows, all_or_nothing, check_weights
from .streamed import Streamed, streams


def _describe(family) -> str:
    many = "a continuum of" if np.isinf(family.size()) else f"{family.size():,}"
    return f"{many} kernels ({brief(family)})"


class MKL(Streamed, KernelRows, BaseEstimator):
    """The base of the estimators; subclasses say what their targets are."""

    loss: Any
    C: Any
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

    def _fit(self, X, y, sample_weight, on_iteration, init, checkpoint, classes=None) -> None:
        with all_or_nothing(self), heard(self.verbose):
            for name in ("state_", "_context", "_announced", "_balance"):  # of a stream before
                self.__dict__.pop(name, None)
            source = self._source_of(X, y, sample_weight, checkpoint)
            if source is not None:
                self._refuse_init(init, self.solver)
                self._fit_source(source, on_iteration, checkpoint, classes)
                return
            if classes is not None:
                raise ValueError(
                    "classes is for rows that come in batches; y holds all labels here, so leave it out."
                )
            self._fit_anew(X, y, sample_weight, on_iteration, init)

    @staticmethod
    def _refuse_init(init, solver) -> None:
        if init is not None and not getattr(solver, "accepts_init", False):
            raise ValueError(f"init is given, but {type(solver).__name__} has no weights to start from.")

    def _fit_anew(self, X, y, sample_weight, on_iteration, init) -> None:
        problem = self._problem(X, y, sample_weight)
        self._say(
            f"{len(problem.Y):,} rows, {_describe(problem.family)}, {brief(self.solver_, 200)}, "
            f"{self.loss_.name} loss"
        )
        self._refuse_init(init, self.solver_)
        resumes = self.warm_start and self.solver_.accepts_init
        if init is None and resumes and len(getattr(self, "weights_", ())) == problem.family.size():
            init = self.weights_ * self.rho_**2
        self._store(self.solver_.solve(problem, init=init, on_iteration=self._progress(on_iteration)))

    def _problem(self, X, y, sample_weight, *, names=None, mean=None, solver=None) -> Problem:
        """Validate everything, in the order in which mistakes are cheap to find.

        Of a stream, X is the first sample, without the `names` of its columns, and `mean` that of all targets.
        """
        self._check_C()
        X, y = self._training_rows(X, y, y_numeric=isinstance(self, RegressorMixin))
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        y = self._set_targets(y)
        s = self._weights(sample_weight, X, y)
        asked = self.solver if solver is None else solver
        X, family = self._family(X, s, asked)
        solver = make_solver(asked, family, self.random_state, len(y))
        loss = get_loss(solver.default_loss(self._n_classes()) if self.loss == "auto" else self.loss)
        self._check_loss(loss)
        solver.check_compatible(family, loss)
        scale = self._scale(X, family, solver, s)
        self.solver_, self.loss_ = solver, loss
        self.target_mean_ = self._centre(y, s) if mean is None else mean
        return Problem(X, self._encode(y) - self.target_mean_, family, scale, loss, float(self.C), s)

    def _check_C(self) -> None:
        if not (isinstance(self.C, int | float | np.number) and np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C is {self.C!r}; it must be a positive finite number.")

    def _row_types(self, X) -> Any:
        """Return what rows may be made of: solvers on streams compute in single precision where X is that."""
        shape: Any = getattr(X, "shape", ())
        many = is_auto(self.solver) and len(shape) == 2 and shape[0] > MANY_ROWS
        return [np.float64, np.float32] if many or streams(self) else np.float64

    def _known_types(self) -> Any:
        return [np.float64, np.float32] if isinstance(self.solver_, StreamingSolver) else np.float64

    def _weights(self, sample_weight, X, y):
        # A later batch of a stream may well be without weight.
        return check_weights(sample_weight, X, none=hasattr(self, "state_"))

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

    def _check_targets(self, y):
        raise NotImplementedError

    # -- predict ---------------------------------------------------------------------------------------

    def _rows(self, X):
        from ..streaming import is_source

        if is_source(X, None):
            raise ValueError(
                f"X is {brief(X)}, and not rows in memory; use predict_to(X, 'predictions.parquet'), or "
                "manykernels.streaming.predict_batches(model, X)."
            )
        return super()._rows(X)

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
