"""What a solver is given and what it returns: frozen records without behaviour of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ._util.checks import NO_NUMBERS
from ._util.shapes import WHOLE, Stored, check_arrays, demand
from ._util.text import as_share, brief
from .families.base import Family, Members

if TYPE_CHECKING:
    from .combination import Combination
    from .losses import Loss
    from .predictors import Predictor

#: What targets, C and weights may be, and the product of all three: their squares are computed with.
LARGEST, SMALLEST = 1e60, 1e-60

GapKind = Literal["exact", "estimate", "lower_bound", "features", "none"]
#: Why a solver stopped; see :class:`Result`.
StopReason = Literal[
    "gap",
    "max_kernels",
    "criterion",
    "exact_fit",
    "callback",
    "max_iter",
    "max_work",
    "no_progress",
    "interrupted",
]
#: Ends that were wanted, and leave a gap open that is no fault of the fit.
CHOSEN: dict[str, str] = {
    "max_kernels": "as many as were asked for",
    "criterion": "the data support no more",
    "exact_fit": "they reproduce the targets",
    "callback": "the callback said so",
}


def refuse_overflow(y: np.ndarray | None, C: float, s: np.ndarray, *, part: bool = False) -> None:
    """Raise ValueError for numbers y, weights and C whose squares or products leave the range of floats.

    `part` says that there are other rows, beside which these may be as small as they like; labels are None.
    """
    far = 1.0 if y is None else float(np.abs(y).max(initial=0.0))
    most = float(s.max(initial=0.0))
    if not far <= LARGEST or (0.0 < far < SMALLEST and not part):
        raise ValueError(f"y has values up to {far:.0e}, too extreme to compute with; rescale y.")
    top = C * most
    if top > LARGEST or (most and top < SMALLEST and not part) or top * far > LARGEST:
        raise ValueError(
            f"C times the largest sample weight is {top:.0e}, too extreme to compute with for values of y up to "
            f"{far:.0e}; use a C or weights nearer to 1."
        )


def nu_of(p: float) -> float:
    """Return ν = p/(2 - p), the norm of the kernel weights that belongs to p."""
    return np.inf if p == 2 else p / (2 - p)


@dataclass(frozen=True)
class Scale:
    """The scales ρ_i of the members of a family, computed when asked for.

    Attributes
    ----------
    family : Family
    how : {"trace", "base", None} or array
        ``"trace"``: ρ_i² is the mean of κ_i(x_t, x_t) over the training rows; ``"base"``: the product of
        the base kernels' means; None: 1; an array: one ρ_i per member of a finite family.
    X : rows the means are taken over
    sample_weight : array
    base : array or None
        The base kernels' means, for ``"base"``.
    """

    family: Family
    how: Any
    X: Any = field(repr=False)
    sample_weight: np.ndarray = field(repr=False)
    base: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def fit(cls, family: Family, X, how, sample_weight=None, *, prefer_base: bool = False) -> Scale:
        """Check `how` and compute what all members share.

        ``"auto"`` is ``"trace"``, or ``"base"`` for families that have it, where that is preferred.
        """
        if sample_weight is None:
            sample_weight = np.ones(X.shape[0])
        if isinstance(how, str) and how == "auto":
            how = "base" if prefer_base and family.factorises else "trace"
        if isinstance(how, str) and how not in ("trace", "base"):
            raise ValueError(
                f"normalize is {how!r}; use 'auto', 'trace', 'base', None, or one number per kernel."
            )
        if how is not None and not isinstance(how, str):
            how = _given_scales(how, family)
        base = None
        if isinstance(how, str) and how == "base":
            if not family.factorises:
                raise ValueError(
                    f"normalize='base' needs a family of products, but kernels is {brief(family)}; "
                    "use 'trace' or None."
                )
            base = family.base_scale(X, sample_weight)
        return cls(family, how, X, sample_weight, base)

    def check_stored(self) -> None:
        """Raise Damaged unless what came from a file is a scale on as many rows as it has weights for."""
        demand(isinstance(self.family, Family), "the kernels are missing")
        check_arrays(
            vars(self),
            {"sample_weight": Stored("n", least=0.0), "base": Stored("*", least=0.0, optional=True)},
            {"n": _stored_rows(self.X)},
        )
        known = isinstance(self.how, str) and self.how in ("trace", "base")
        demand(self.how is None or known or isinstance(self.how, np.ndarray), "the scale is of no known kind")
        demand((self.how == "base") is (self.base is not None) if known else True, "a scale without its base")
        if isinstance(self.how, np.ndarray):
            check_arrays(
                {"scale": self.how}, {"scale": Stored("m", least=0.0)}, {"m": int(self.family.size())}
            )

    def rho_sq(self, members: Members, p: float) -> np.ndarray:
        """Return ρ_i² of the members for the norm p; 0 marks a member that vanishes on the rows."""
        if self.how is None:
            scale = np.ones(len(members))
        elif isinstance(self.how, np.ndarray):
            family: Any = self.family
            place = {member: i for i, member in enumerate(family.members())}
            scale = self.how[[place[member] for member in members]] ** 2
        elif self.how == "base":
            assert self.base is not None
            scale = self.family.factor_scale(self.base, members)
        else:
            scale = self.family.mean_diag(self.X, members, self.sample_weight)
        rho_sq = scale * self.family.penalty(members, nu_of(p))
        self._check(members, rho_sq)
        return rho_sq

    def _check(self, members: Members, rho_sq: np.ndarray) -> None:
        """Refuse what cannot be a scale: a negative one is no kernel's, an extreme one drowns in rounding."""
        negative = np.flatnonzero(rho_sq < 0)
        if len(negative):
            raise ValueError(
                f"kernels: {self.family.label(members[negative[0]])} has a negative diagonal, so it is not "
                "positive semi-definite."
            )
        extreme = np.flatnonzero(~(rho_sq <= 1e290) | ((rho_sq < 1e-290) & (rho_sq > 0)))
        if len(extreme):
            raise ValueError(
                f"kernels: {self.family.label(members[extreme[0]])} has the scale {rho_sq[extreme[0]]:.1e} on "
                "these rows, too extreme to compute with; standardise the columns of X."
            )


def _given_scales(how, family: Family) -> np.ndarray:
    """Return ρ as the user gave it, after a check."""
    if np.isinf(family.size()):
        raise ValueError(
            f"normalize is {brief(how)}, but a continuum of kernels cannot be given one scale each; use "
            "'trace' or None."
        )
    try:
        rho = np.asarray(how, dtype=float)
    except NO_NUMBERS:
        rho = np.empty(())
    if rho.ndim != 1 or len(rho) != family.size() or not (np.isfinite(rho) & (rho > 0)).all():
        raise ValueError(f"normalize must hold one positive number for each of the {family.size()} kernels.")
    return rho


@dataclass(frozen=True)
class Problem:
    """Rows, targets and everything that defines the objective, except p, which is the solver's.

    minimise (1/n) Σ_t s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²], λ = 1/(C n).

    Attributes
    ----------
    X : rows, (n, d), or a stack (n, n, m) for precomputed kernels
    Y : (n, c) encoded targets
    family : Family, resolved
    scale : Scale
    loss : Loss
    C : float
    sample_weight : (n,)
    choose_C : bool
        Whether the solver is to choose C, and `C` means nothing.
    groups : (n,) array of int or None
        Rows of the same number are of one subject, and left out together wherever rows are left out.
    """

    X: Any
    Y: np.ndarray
    family: Family
    scale: Scale
    loss: Loss
    C: float = 1.0
    sample_weight: np.ndarray = field(default=None)  # type: ignore[arg-type]  # ones, once the rows are known
    choose_C: bool = False
    groups: np.ndarray | None = None

    def __post_init__(self):
        if self.sample_weight is None:
            object.__setattr__(self, "sample_weight", np.ones(self.n_rows))

    def check_stored(self) -> None:
        """Raise Damaged unless what came from a file is a problem on as many rows as it has targets for."""
        demand(isinstance(self.family, Family) and isinstance(self.scale, Scale), "the kernels are missing")
        declared = {
            "Y": Stored("n *"),
            "sample_weight": Stored("n", least=0.0),
            "groups": Stored("n", WHOLE, optional=True),
        }
        check_arrays(vars(self), declared, {"n": _stored_rows(self.X)})
        _demand_C(self.C)

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return self.Y.shape[0]

    @property
    def n_outputs(self) -> int:
        """Number of outputs c."""
        return self.Y.shape[1]

    def rows(self, part: slice | np.ndarray) -> Problem:
        """Return the same problem on some of the rows; the scale stays."""
        X, Y, s = (_rows(values, part) for values in (self.X, self.Y, self.sample_weight))
        groups = None if self.groups is None else _rows(self.groups, part)
        return replace(self, X=X, Y=Y, sample_weight=s, groups=groups)

    def apart(self, train: np.ndarray, test: np.ndarray) -> tuple[Problem, Any]:
        """Return the problem on some rows, with a scale of its own, and others to be predicted by what it teaches."""
        pairwise, s = self.family.pairwise, self.sample_weight[train]
        X = self.X[np.ix_(train, train)] if pairwise else self.X[train]
        scale = Scale.fit(self.family, X, self.scale.how, s)
        groups = None if self.groups is None else self.groups[train]
        part = replace(self, X=X, Y=self.Y[train], sample_weight=s, scale=scale, groups=groups)
        return part, self.X[np.ix_(test, train)] if pairwise else self.X[test]

    def batches(self, size: int) -> Iterator[Problem]:
        """Yield the problem in batches of rows, in order."""
        for first in range(0, self.n_rows, size):
            yield self.rows(slice(first, first + size))


def _rows(values, part):
    """Return some rows; for numbers of rows `take` is twice as fast as an index."""
    numbers = isinstance(part, np.ndarray) and part.dtype.kind in "iu"
    return values.take(part, axis=0) if numbers and isinstance(values, np.ndarray) else values[part]


def _stored_rows(X: Any) -> int:
    """Return the number of rows of what came from a file as such."""
    demand(hasattr(X, "shape") and len(X.shape) in (2, 3), "the rows are missing")
    values = X if isinstance(X, np.ndarray) else X.data
    check_arrays({"X": values.ravel()}, {"X": Stored("*")})
    return int(X.shape[0])


def _demand_C(C: Any) -> None:
    demand(isinstance(C, float | int) and 0 < C < np.inf, f"C is {brief(C)}, and no positive number")


@dataclass(frozen=True)
class Trace:
    """What happened, one entry per iteration.

    Attributes
    ----------
    objective, gap, seconds : tuple of float
        P at the iterate, its duality gap, and the time since the start.
    n_kernels : tuple of int
        Kernels with weight.
    extra : dict of str to tuple
        Anything else the solver reports.
    """

    objective: tuple[float, ...] = ()
    gap: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    n_kernels: tuple[int, ...] = ()
    extra: dict[str, tuple] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.objective)


@dataclass(frozen=True)
class Result:
    """What every solver returns.

    Attributes
    ----------
    predictor : Predictor
    combination : Combination
    objective : float
        P at the returned predictor.
    gap : float
        The certificate, P - D; see `gap_kind`.
    gap_kind : {"exact", "estimate", "lower_bound", "features", "none"}
    n_iter : int
    converged : bool
    trace : Trace
    dual_coef : (n, c) array or None
        A, where there is one.
    intercept : (c,) array
    C : float or None
        The weight of the losses; from a solver None means the problem's.
    calibration : array or None
        What turns scores into probabilities, for losses that do not: a factor.
    left_out : (n, c) array or None
        Scores of the training rows, each by a model that has not seen it; NaN where there is none.
    interrupted : bool
        Whether Ctrl-C ended a fit that a checkpoint can take up again.
    ending : str or None
        Why the solver stopped, where `converged` and `interrupted` do not say it; see `stop_reason`.
    """

    predictor: Predictor
    combination: Combination
    objective: float
    gap: float
    gap_kind: GapKind
    n_iter: int
    converged: bool
    trace: Trace
    dual_coef: np.ndarray | None
    intercept: np.ndarray
    C: float | None = None
    calibration: np.ndarray | None = None
    left_out: np.ndarray | None = None
    interrupted: bool = False
    ending: StopReason | None = None

    @property
    def stop_reason(self) -> StopReason:
        """Why the solver stopped.

        ``"gap"``: what it minimises is within its tolerance; ``"max_kernels"``, ``"criterion"``, ``"exact_fit"``,
        ``"callback"``: by choice, as many kernels as were asked for, as the data support, as reproduce the targets, or
        as the callback wanted; ``"max_iter"``: all its steps are taken; ``"max_work"``: its machines have multiplied
        all that the rows are worth; ``"no_progress"``: no step helps; ``"interrupted"``: Ctrl-C.
        """
        if self.ending is not None:
            return self.ending
        return "gap" if self.converged else "interrupted" if self.interrupted else "max_iter"

    def ended(self) -> str:
        """Return how the fit ended, in words, with the gap."""
        weights = np.atleast_2d(self.combination.weights)
        kernels = int(np.count_nonzero(weights.any(axis=0)))
        size = self.combination.family.size()
        gap = f"{as_share(self.gap, self.objective)} of the objective"
        known = self.gap_kind != "none" and np.isfinite(self.gap)
        match self.stop_reason:
            case "gap":
                return f"converged, with a gap of {gap}" if known else "converged"
            case "max_kernels" | "criterion" | "exact_fit" | "callback" as reason:
                every = "all others" if np.isinf(size) else f"all {size:,}"
                least = "at least " if self.gap_kind == "lower_bound" else ""
                open_to = f"; the gap to {every} is {least}{gap}" if known else ""
                plural = "kernel" if kernels == 1 else "kernels"
                return f"stopped by choice at {kernels:,} {plural} ({CHOSEN[reason]}){open_to}"
            case "max_iter":
                return "took all its steps" + (f", with a gap of {gap}" if known else "")
            case "max_work":
                return "took all the work that its rows are worth" + (
                    f", with a gap of {gap}" if known else ""
                )
            case "no_progress":
                return "ended where no step helps" + (f", with a gap of {gap}" if known else "")
            case "interrupted":
                return "interrupted" + (f", with a gap of {gap}" if known else "")

    def check_stored(self) -> None:
        """Raise Damaged unless what came from a file has an output for each of the predictor's."""
        demand(
            hasattr(self.predictor, "scores") and hasattr(self.combination, "weights"), "a part is missing"
        )
        demand(self.combination is self.predictor.combination, "there are two combinations of kernels")
        declared = {
            "intercept": Stored("c"),
            "dual_coef": Stored("* c", optional=True),
            "calibration": Stored("*", optional=True),
            "left_out": Stored("* c", finite=False, optional=True),
        }
        check_arrays(vars(self), declared, {"c": len(self.predictor.intercept)})
        for name in ("objective", "gap"):
            demand(isinstance(getattr(self, name), float), f"{name} is no number")
        demand(isinstance(self.n_iter, int) and 0 <= self.n_iter < 2**63, "n_iter is no number of iterations")
        demand(isinstance(self.converged, bool), "converged is neither true nor false")
        demand(self.gap_kind in get_args(GapKind), "the gap is of no known kind")
        known = self.ending is None or self.ending in get_args(StopReason)
        demand(known, "the fit ended for no known reason")
        demand(isinstance(self.trace, Trace), "the trace is missing")
        if self.C is not None:
            _demand_C(self.C)
