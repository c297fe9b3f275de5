"""Times until an event, some of them censored: risks, and survival curves."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_consistent_length

from .._util.arrays import row_blocks
from .._util.shapes import Stored, check_arrays, demand
from .._util.text import brief
from ..losses import Cox
from ..problem import Problem, Result
from ..solvers import Solver
from .base import MKL, Kernels, Normalize, OnIteration, RandomState, all_or_nothing, check_weights
from .targets import NOTHING_KNOWN, Known

#: Risks that differ by less are tied, as in scikit-survival.
TIED = 1e-8
#: What y may be, for messages.
FORMS = (
    "a structured array of (event: bool, time: float), a table of two such columns, or a tuple (event, time)"
)


class MKLSurvival(MKL):
    """Survival analysis with a learned combination of kernels, for right-censored times.

    minimise  (1/n) L(f(x_1), ..., f(x_n)) + (λ/2) (Σ_i ρ_i^p ‖w_i‖^p)^(2/p),   λ = 1/(C n)

    L is minus the logarithm of Cox's partial likelihood (:class:`~manykernels.losses.Cox`), under which the hazard of a
    row at time t is h₀(t) exp(f(x)). f is known up to a constant; there is no intercept. With one linear kernel,
    C = 1/α and ``normalize=None`` it is scikit-survival's ``CoxPHSurvivalAnalysis(alpha=α)``.

    Parameters
    ----------
    kernels : str, list, dict, Kernel or Family
        Which kernels: ``"auto"``, Gaussian and Laplacian kernels with a bandwidth per column and a linear one, all
        learned together, on a table of any columns: text, categories, dates, missing values, numbers in any unit;
        ``"gaussian"``, ``"laplacian"``; a list or dict of kernels (:mod:`manykernels.kernels`), scikit-learn kernel
        names or callables, or ``"precomputed"``: X is then a stack of shape (n, n, n_kernels).
    solver : str or Solver
        ``"auto"``: LeaveOneOut for bandwidths and what has any in it, LpNorm for kernels that can be listed. Others are
        Uniform, Single, SimpleMKL and SILP. LeaveOneOut learns the kernel by a ridge machine for the deviance
        residuals of a model without columns; then the machine of the partial likelihood is trained on it.
    ties : {"breslow", "efron"}
        What to do with events at the same time. With ``"breslow"`` a weight equals a repetition.
    C : float or "auto"
        Weight of the losses against the norm. ``"auto"``: the one with the largest partial likelihood of rows left out,
        over three folds. What was chosen is in ``C_``.
    normalize : {"auto", "trace", "base", None} or array
        How kernels are brought to one scale, see :class:`~manykernels.problem.Scale`.
    memory : int, str or None
        Bytes, or a text such as ``"4GiB"``, that a machine on all pairs of rows may take. None: 1 GiB, 6,600 rows.
    random_state : int, RandomState or None
        For solvers that draw at random and have no state of their own.
    warm_start : bool
        Whether a second fit starts from the weights of the first; for LpNorm, SimpleMKL and SILP.
    verbose : int
        Whether to report progress on the standard error stream.

    Attributes
    ----------
    event_times_ : (k,) array
        The times at which there were events.
    cum_baseline_hazard_ : (k,) array
        The cumulative hazard of f = 0 at these times (Breslow's estimate).
    combination_ : Combination
        The learned kernel; ``combination_.table()`` lists its parts, heaviest first.
    weights_, rho_ : (m,) arrays
        Weights θ_i/ρ_i² and scales ρ_i of the kernels, in the order of ``combination_.members``.
    dual_coef_ : (n, 1) array
        A. The risks are ``Σ_i weights_i K_i A``; it sums to zero.
    objective_, gap_, gap_kind_ : float, float, str
        The objective reached, and the certificate: how far below any predictor of the family could get.
    n_iter_, converged_, trace_ : int, bool, Trace
    C_ : float
    solver_, loss_, normalize_ : what ``"auto"`` became
    n_features_in_, feature_names_in_ : int, array

    References
    ----------
    Cox (1972), *Regression Models and Life-Tables*, JRSS B 34; Breslow (1974), *Covariance Analysis of Censored
    Survival Data*, Biometrics 30.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> time, seen = rng.exponential(np.exp(-X[:, 0])), rng.random(100) < 0.7
    >>> model = MKLSurvival(C=1.0).fit(X, (seen, time))
    >>> bool(model.score(X, (seen, time)) > 0.65)
    True
    """

    _regresses = _whole = _has_own_loss = True
    event_times_: np.ndarray
    cum_baseline_hazard_: np.ndarray

    def __init__(
        self,
        kernels: Kernels = "auto",
        *,
        solver: str | Solver = "auto",
        ties: Literal["breslow", "efron"] = "breslow",
        C: float | Literal["auto"] = "auto",
        normalize: Normalize = "auto",
        memory: float | str | None = None,
        random_state: RandomState = None,
        warm_start: bool = False,
        verbose: int = 0,
    ):
        self.kernels = kernels
        self.solver = solver
        self.ties = ties
        self.C = C
        self.normalize = normalize
        self.memory = memory
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    @property
    def loss(self) -> Cox:  # type: ignore[override]
        """The loss, whose parameter is `ties`."""
        return Cox(self.ties)

    def fit(
        self, X, y, sample_weight=None, *, groups=None, on_iteration: OnIteration | None = None, init=None
    ) -> Self:
        """Fit the kernels' weights and the risk.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or DataFrame; views; or a stack (n, n, n_kernels)
        y : structured array, DataFrame, (n, 2) array or tuple (event, time)
            Whether the event was seen, and the time until it, or until the row was lost from sight. Of a structured
            array or a table the boolean column is the event; of other arrays it is the first.
        sample_weight : (n,) array, optional
        groups : (n,) array, optional
            The subject, say, that every row belongs to: where rows are left out, all of a group leave together.
        on_iteration : callable, optional
            Called with a :class:`~manykernels.solvers.Step` after every iteration; True stops.
        init : (m,) array, optional
            Weights θ to start from.

        Returns
        -------
        self
        """
        self._refuse_lazy(X)
        with all_or_nothing(self):
            event, time = survival_times(y)
            if not event.any():
                raise ValueError(
                    "y has no event, only censored times, of which no risk can be learned; pass rows with events."
                )
            self._known_times = np.unique(time)
            self._fit(X, ranked(event, time), sample_weight, on_iteration, init, None, groups=groups)
            del self._known_times
        return self

    def _problem(self, X, y, sample_weight, known: Known = NOTHING_KNOWN) -> Problem:
        problem = super()._problem(X, y, sample_weight, known)
        if not (problem.sample_weight @ (problem.Y > 0)).any():
            raise ValueError("sample_weight is zero for every event; give a positive weight to one at least.")
        return problem

    def _store(self, result: Result, C: float | None = None, problem: Problem | None = None) -> None:
        super()._store(result, C, problem)
        assert problem is not None
        used = problem.sample_weight > 0
        Y, s = problem.Y[used], problem.sample_weight[used]
        risks = self.result_.predictor.scores(problem.X[used])[:, 0]
        self.event_times_ = self._known_times[np.unique(Y[Y > 0]).astype(int) - 1]
        self.cum_baseline_hazard_ = np.cumsum(Cox().risk_sets(Y, s).hazard(risks))

    def check_stored(self) -> None:
        """Raise Damaged unless what came from a file is a baseline."""
        sizes = {"event_times_": Stored("k", least=0.0), "cum_baseline_hazard_": Stored("k", least=0.0)}
        check_arrays(vars(self), sizes)
        for name in sizes:
            demand(bool((np.diff(getattr(self, name)) >= 0).all()), f"{name} falls")

    def _set_targets(self, y, classes):
        return self._check_targets(y)

    def _check_targets(self, y):
        plain = isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind == "f"
        return y if plain else ranked(*survival_times(y))

    def _score_left_out(self, Y, s):
        """Risks of different folds are known up to a constant each, and have no common score."""

    def predict(self, X) -> np.ndarray:
        """Return the risks f(x), (n,): the logarithm of the hazard against that of f = 0; higher is worse."""
        return self._scores(X)[:, 0]

    def predict_cumulative_hazard_function(self, X, times=None) -> np.ndarray:
        """Return the cumulative hazard of rows at some times.

        Parameters
        ----------
        X : rows
        times : (k,) array, optional
            By default ``event_times_``. It is zero before the first of these and stays what it is after the last.

        Returns
        -------
        (n, k) array
        """
        risks = self.predict(X)
        baseline = np.concatenate([[0.0], self.cum_baseline_hazard_])
        at = np.arange(1, len(baseline))
        if times is not None:
            at = np.searchsorted(self.event_times_, _times(times), side="right")
        return np.exp(risks)[:, None] * baseline[at]

    def predict_survival_function(self, X, times=None) -> np.ndarray:
        """Return the probability of rows to live beyond some times, ``exp(-H(t))``.

        Parameters
        ----------
        X : rows
        times : (k,) array, optional
            By default ``event_times_``. It is 1 before the first of these and stays what it is after the last.

        Returns
        -------
        (n, k) array
        """
        return np.exp(-self.predict_cumulative_hazard_function(X, times))

    def score(self, X, y, sample_weight=None) -> float:
        """Return Harrell's concordance: how often the row with the higher risk has the event first.

        Parameters
        ----------
        X : rows
        y : as in `fit`
        sample_weight : (n,) array, optional
            A pair of rows counts by the product of their weights.

        Returns
        -------
        float
            That of scikit-survival's ``concordance_index_censored``: over pairs in which the row with the shorter time
            had the event, or both times are equal and one of them had it; half for risks that are equal.
        """
        event, time = survival_times(y)
        risks = self.predict(X)
        check_consistent_length(risks, time)
        return concordance(event, time, risks, check_weights(sample_weight, risks[:, None]))

    def report(self, path, X, y, **options) -> None:
        """Write what the model says, and how sure that is, as one HTML file.

        Parameters
        ----------
        path : path that ends in .html
            It appears when it is complete; it needs no network to be read.
        X, y : the rows that the model was fitted on, and their targets
            In any form that ``fit`` takes.
        **options : see :func:`manykernels.report.write_report`
        """
        event, time = survival_times(y)
        both = np.empty(len(time), dtype=[("event", bool), ("time", float)])
        both["event"], both["time"] = event, time
        super().report(path, X, both, **options)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cum_baseline_hazard_")


# -- times ---------------------------------------------------------------------------------------------


def survival_times(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows had the event, and the times, of y as people have it, or raise."""
    event, time = _columns(y)
    check_consistent_length(event, time)
    if event.ndim != 1 or time.ndim != 1:
        raise ValueError(f"y has parts of shape {event.shape} and {time.shape}; pass {FORMS}.")
    if time.dtype.kind not in "iuf":
        raise ValueError(f"y has times of type {time.dtype}; pass numbers.")
    time = time.astype(float)
    wrong = np.flatnonzero(~(np.isfinite(time) & (time >= 0)))
    if len(wrong):
        raise ValueError(
            f"y has the time {time[wrong[0]]:g} in row {wrong[0]:,}; times are finite and not negative: remove that "
            "row, or mend it."
        )
    return _booleans(event), time


def _booleans(event: np.ndarray) -> np.ndarray:
    if event.dtype.kind == "b":
        return event
    known = (
        np.isin(event, (0, 1)) if event.dtype.kind in "iuf" else np.array([type(v) is bool for v in event])
    )
    if not known.all():
        raise ValueError(
            f"y has {brief(event[~known].tolist()[0])} for an event; pass booleans, True where the event was seen "
            "and False where the time is censored."
        )
    return event.astype(bool)


def _columns(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the column of events and that of times."""
    if isinstance(y, tuple) and len(y) == 2:
        return np.asarray(y[0]), np.asarray(y[1])
    names = getattr(y, "columns", None)
    if names is None:
        y = np.asarray(y)
        names = y.dtype.names
    if names is None:
        if y.ndim != 2 or y.shape[1] != 2:
            raise ValueError(f"y has the shape {y.shape}; pass {FORMS}.")
        return y[:, 0], y[:, 1]
    columns = {str(name): np.asarray(y[name]) for name in names}
    flags = [name for name, values in columns.items() if values.dtype.kind == "b"]
    if len(columns) != 2 or len(flags) != 1:
        found = ", ".join(f"{name!r} of type {values.dtype}" for name, values in columns.items())
        raise ValueError(f"y has the columns {found}; pass one of type bool, the event, and one of times.")
    event = columns.pop(flags[0])
    return event, next(iter(columns.values()))


def _times(times: Any) -> np.ndarray:
    times = np.asarray(times, dtype=float)
    if times.ndim != 1 or not (times >= 0).all():
        raise ValueError(f"times is {brief(times)}; pass a list of times that are not negative.")
    return times


def ranked(event: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Return targets of the loss: the number of every time among all, from 1, negative where it is censored."""
    rank = 1.0 + np.unique(time, return_inverse=True)[1].ravel()
    return np.where(event, rank, -rank)


def concordance(event: np.ndarray, time: np.ndarray, risk: np.ndarray, s: np.ndarray) -> float:
    """Return Harrell's concordance for weights s, in blocks of rows, O(n²)."""
    right = pairs = 0.0
    rows = np.flatnonzero(event & (s > 0))
    for part in row_blocks(len(rows), len(time)):
        i = rows[part, None]
        later = (time > time[i]) | ((time == time[i]) & ~event)
        weight = s[i] * s * later
        tied = np.abs(risk - risk[i]) <= TIED
        right += float(weight[(risk < risk[i]) & ~tied].sum() + 0.5 * weight[tied].sum())
        pairs += float(weight.sum())
    if not pairs:
        raise ValueError("y has no two rows of which it is known whose event came first; pass more rows.")
    return right / pairs
