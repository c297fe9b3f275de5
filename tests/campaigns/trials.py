"""What a fit of any problem must come to: a certified model or a sentence, in bounded time, whatever holds the rows."""

from __future__ import annotations

import re
import signal
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone

from manykernels.certificates import certify
from manykernels.families.products import MAX_ENUMERATED
from manykernels.solvers import Single

#: CPU seconds that a fit of at most MOST_ROWS rows may take, and after which it is ended.
LONGEST, ENDED, MOST_ROWS = 30.0, 60.0, 300
#: Endings of Greedy that are what was asked for: the gap stays open, without a warning.
ASKED_FOR = {"max_kernels", "criterion", "exact_fit"}
#: The gaps that are closed within this share of the objective at f = 0 are rounding.
ROUNDING = 1e-12
#: What rows lie in may change predictions by this share of the largest.
SAME = 1e-9
#: Words of libraries below us, which no refusal of ours has in it.
FOREIGN = (
    "gufunc",
    "broadcast",
    "out of bounds",
    "need at least one array",
    "must not contain infs",
    "zero-size",
    "not aligned",
    "did not converge",
    "ambiguous",
    "cross-validation",
    "n_splits",
)


# -- containers ----------------------------------------------------------------------------------------


def _frame(X):
    return pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


#: The same rows in other containers and memory orders.
CONTAINERS = {
    "array": lambda X: X,
    "fortran": np.asfortranarray,
    "frame": _frame,
    "list": lambda X: X.tolist(),
    "read-only": _read_only,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X: np.ascontiguousarray(X[::-1])[::-1],
    "object": lambda X: X.astype(object),
    "sparse": sparse.csr_array,
    "sparse columns": sparse.csc_array,
}
#: Those that hold some values only.
NARROW = {"single": np.float32, "half": np.float16, "whole": np.int64, "small": np.int8, "yes or no": bool}
#: Those that are computed with in other formulas: predictions need not agree to the last digits.
OTHER_SUMS = ("sparse", "sparse columns")


def contained(kind: str, X: np.ndarray) -> Any:
    """Return the same values in a container; as they are where it cannot hold them."""
    if kind in NARROW:
        with np.errstate(all="ignore"):
            Z = X.astype(NARROW[kind])
            return Z if np.array_equal(Z.astype(float), X) else X
    if X.ndim == 3 and kind not in ("fortran", "read-only", "list"):
        return X
    return CONTAINERS[kind](X)


# -- time ----------------------------------------------------------------------------------------------


class TooLong(BaseException):
    """A fit is ended, for it would not end by itself."""


@contextmanager
def limited(seconds: float):
    """Raise TooLong after so many seconds of CPU time, as soon as the interpreter has a say."""

    def stop(*_):
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# -- trials --------------------------------------------------------------------------------------------


@dataclass
class Trial:
    """A model, the rows it is to learn from, and what they lie in.

    Attributes
    ----------
    model : MKLClassifier or MKLRegressor, not fitted
    X : array of rows, or a stack of matrices
    y, sample_weight, groups : as for ``fit``
    kind : name of a container
    batches : number of calls of ``partial_fit``; 0 for ``fit``
    again : whether to fit the plain array, too, and compare
    words : what the problem is like, for messages
    """

    model: Any
    X: np.ndarray
    y: Any
    sample_weight: np.ndarray | None = None
    groups: Any = None
    kind: str = "array"
    batches: int = 0
    again: bool = False
    words: str = ""
    said: list[str] = field(default_factory=list)

    def __repr__(self):
        s = self.sample_weight
        weighted = "" if s is None else f", weights {s.min():.0e} to {s.max():.0e}"
        model = re.sub(r"\s+", " ", repr(self.model))
        many = f", {self.batches} batches" if self.batches else ""
        return f"{model}, {self.words} {self.kind} {self.X.shape}{weighted}{many}"

    def run(self) -> None:
        """Fit, predict, and check; a refusal must be a sentence."""
        started = time.process_time()
        try:
            with limited(ENDED):
                fitted = self._fitted(contained(self.kind, self.X))
        except TooLong as error:
            raise AssertionError(f"it had not ended after {ENDED:.0f} s") from error
        spent = time.process_time() - started
        assert spent < LONGEST, f"it took {spent:.0f} s"
        if not fitted:
            return
        F = self._scores(self.model, contained(self.kind, self.X))
        assert np.isfinite(F).all(), "scores are not finite"
        if self.kind not in OTHER_SUMS:
            assert_same(self._scores(self.model, self.X), F, "rows to predict")
        self._check_convergence()
        if self.model.gap_kind_ == "exact" and self.model.combination_.family.size() <= MAX_ENUMERATED:
            self._check_certificate()
        if self.again and self.kind not in OTHER_SUMS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they were heard the first time
                self._fit(self.X)
            assert_same(self._scores(self.model, self.X), F, "rows to learn from")

    def _fitted(self, X) -> bool:
        """Fit, and tell whether there is a model now, and not a refusal."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                self._fit(X)
            except (ValueError, TypeError) as error:
                check_sentence(str(error))
                return False
        for w in said:
            assert not issubclass(w.category, RuntimeWarning), f"{w.message} ({w.filename}:{w.lineno})"
        self.said = [str(w.message) for w in said]
        return True

    def _fit(self, X) -> None:
        self.model = clone(self.model)
        if not self.batches:
            extra = {} if self.groups is None else {"groups": self.groups}
            self.model.fit(X, self.y, sample_weight=self.sample_weight, **extra)
            return
        X = np.array(X) if isinstance(X, list) else X
        options = {"classes": np.unique(self.y)} if hasattr(self.model, "decision_function") else {}
        for part in np.array_split(np.arange(len(self.y)), min(self.batches, len(self.y))):
            rows = X.iloc[part] if isinstance(X, pd.DataFrame) else X[part]
            s = None if self.sample_weight is None else self.sample_weight[part]
            self.model.partial_fit(rows, np.asarray(self.y)[part], sample_weight=s, **options)
            options = {}

    @staticmethod
    def _scores(model, X) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # names of columns that come and go
            return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)

    # -- certificates --------------------------------------------------------------------------------------

    def _check_convergence(self) -> None:
        model = self.model
        P, gap, ending = model.objective_, model.gap_, set(model.trace_.extra.get("ending", ()))
        if model.gap_kind_ == "none":
            return
        assert np.isfinite([P, gap]).all(), f"objective_ is {P}, gap_ is {gap}"
        floor = ROUNDING * self._start_value()
        tol = tolerance(model)
        small = gap <= tol * P + floor
        if model.converged_:
            assert gap <= tol * P + 2 * floor, f"converged at a relative gap of {gap / P:.1e}"
        if isinstance(model.solver_, Single) or model.gap_kind_ != "exact":  # Single: the price of one kernel
            return
        assert model.converged_ or not small or gap > tol * P - floor, (
            f"not converged at a relative gap of {gap / P:.1e}"
        )
        if not small and not ending & ASKED_FOR:
            assert any("gap" in text for text in self.said), f"silent at a relative gap of {gap / P:.1e}"

    def _check_certificate(self) -> None:
        model, plain = self.model, contained(self.kind, self.X)
        found = certify(model, plain, self.y, self.sample_weight)
        if any("rounding" in text for text in self.said):
            return
        size = max(abs(model.objective_), abs(model.gap_), self._start_value() * ROUNDING)
        assert abs(found.primal - model.objective_) <= 1e-8 * size, (
            f"objective_ is {model.objective_:.12g}, recomputed {found.primal:.12g}"
        )
        assert abs(found.gap - model.gap_) <= 1e-8 * size, (
            f"gap_ is {model.gap_ / size:.3e} of the objective, recomputed {found.gap / size:.3e}"
        )
        assert found.gap >= -1e-8 * size, f"the gap is {found.gap / size:.1e}"

    def _start_value(self) -> float:
        """Return P at f = 0."""
        _, Y, s = self.model._training_data(contained(self.kind, self.X), self.y, self.sample_weight)
        return float(s @ self.model.loss_.value(Y, np.zeros(Y.shape))) / len(Y)


def tolerance(model) -> float:
    """Return the relative gap at which a model has converged."""
    if model.gap_kind_ == "features":  # of Blockwise, whose sweeps are early stopping
        return 1e-3
    learns_weights = getattr(model.solver_, "p", None) is not None
    return float(getattr(model.solver_, "tol", 1e-6)) if learns_weights else 1e-6


def assert_same(F, G, what: str) -> None:
    """What rows lie in changes predictions by rounding at most."""
    apart = float(np.abs(F - G).max(initial=0.0)) / max(float(np.abs(F).max(initial=0.0)), 1e-300)
    assert apart <= SAME, f"{what} in another container change predictions by {apart:.1e}"


def check_sentence(text: str) -> None:
    """A refusal ends with a full stop, and is not NumPy's."""
    assert text.rstrip().endswith("."), f"no sentence: {text}"
    for foreign in FOREIGN:
        assert foreign not in text, f"no sentence of ours: {text}"


def attempt_of(generate):
    """Return the attempt of a campaign: a trial is made from a seed and run, and a failure shows what it was."""

    def attempt(rng):
        trial = generate(rng)
        try:
            trial.run()
        except Exception as error:
            raise AssertionError(f"{trial}: {type(error).__name__}: {error}") from error

    return attempt
