"""The path from data to a result, read from top to bottom: rows, targets, family, solver, scale, problem, result.

:class:`KernelEstimator` is everything with `kernels`, `solver` and `normalize`, the transformer too;
:class:`MKL` adds targets, the fit and predictions. What a classifier and a regressor do with targets is theirs to say.
"""

from __future__ import annotations

import logging
import math
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import wraps
from inspect import signature
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from .._util.allowance import limited, most_work
from .._util.arrays import row_blocks
from .._util.checks import FLAG, Rule, check_parameters, choice, number, refuse_missing, whole
from .._util.html import facts
from .._util.memory import parse_bytes
from .._util.text import as_share, brief
from ..combination import Combination, TargetCombination
from ..families import Family, Precomputed
from ..kernels import Kernel
from ..losses import LOSSES, Loss
from ..predictors import some_rows, variances
from ..problem import GapKind, Problem, Result, Scale, StopReason, Trace, refuse_overflow
from ..registry import (
    MEMORY,
    bound_family,
    check_memory,
    exact_rows,
    is_auto,
    is_automatic,
    make_solver,
    streaming_names,
    streams,
    used_views,
    view_family,
)
from ..solvers import Solver, Step, StreamingSolver
from ..solvers.choosing import chosen
from ..solvers.log import OnIteration, heard, logger
from ..solvers.verdict import warn_of_rounding
from ..tables.quantities import weight_array
from ..tables.reading import refuse_uncollected
from .callbacks import CallbackSupportMixin, FollowedFit, with_callbacks
from .targets import NOTHING_KNOWN, Known, encoded

#: What `kernels`, `normalize` and `random_state` may be.
Kernels: TypeAlias = str | Kernel | Family | Sequence[Any] | Mapping[str, Any] | Callable[..., Any]
Normalize: TypeAlias = Literal["auto", "trace", "base"] | Sequence[float] | np.ndarray | None
RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None

#: What to pass for a parameter that may also be a name.
OBJECTS = {
    "solver": "solver=LpNorm()",
    "kernels": "kernels=[RBF()]",
    "loss": "loss=losses.Quantile()",
}
#: What contributions may be split by.
BY = choice("kernel", "view")
#: What C may be.
POSITIVE = number(open="left")
#: What the largest value of a column may be: kernels square their sums.
LARGEST_X, SMALLEST_X = 1e140, 1e-140
#: Weights below this share of the largest are none: what is divided by them would leave the range of floats.
NO_WEIGHT = 1e-100
#: Sparse rows are made dense for kernels that need it, up to this many bytes.
DENSE_BYTES = 2**31


# -- rows and weights ----------------------------------------------------------------------------------


def as_needed(X, family: Family, most: int = DENSE_BYTES):
    """Return rows as a family needs them: sparse ones are made dense for some, up to `most` bytes."""
    if not sp.issparse(X) or family.accepts_sparse:
        return X
    if 8 * X.shape[0] * X.shape[1] > most:
        raise ValueError(
            f"X is sparse with shape {X.shape}, and {type(family).__name__} needs dense rows, "
            f"{8 * X.shape[0] * X.shape[1] / 2**30:.1f} GiB; select columns first, or use kernels such as "
            "Linear, RBF or Polynomial, which take sparse rows."
        )
    return X.toarray()


def check_weights(sample_weight, X, *, none: bool = False) -> np.ndarray:
    """Return the weights of the rows, ones by default, or raise; `none` says whether all may be zero."""
    if sample_weight is None:
        return np.ones(_num_samples(X))
    s = weight_array(sample_weight, _num_samples(X))
    if not s.any():  # some versions of scikit-learn refuse zeros alone
        if not none and len(s):
            raise ValueError("sample_weight is zero for every row; give at least one row a positive weight.")
        return s
    return without_traces(_check_sample_weight(s, X, dtype=np.float64, ensure_non_negative=True))


def without_traces(s: np.ndarray) -> np.ndarray:
    """Return the weights with those that vanish beside the largest set to zero."""
    traces = s < NO_WEIGHT * s.max(initial=0.0)
    return np.where(traces, 0.0, s) if s[traces].any() else s


def refuse_vast(X, *, part: bool = False) -> None:
    """Raise ValueError for columns whose squares leave the range of floats; where these are all rows, or vanish."""
    if not X.shape[0]:
        return
    high, low = (
        (X.max(axis=0).toarray(), X.min(axis=0).toarray())
        if sp.issparse(X)
        else (X.max(axis=0), X.min(axis=0))
    )
    tops = np.maximum(high.ravel(), -low.ravel()).astype(float)  # single precision does not know the limits
    wrong = np.flatnonzero((tops > LARGEST_X) | ((tops > 0.0) & (tops < SMALLEST_X) & (not part)))
    if len(wrong):
        raise ValueError(
            f"column {wrong[0]} of X has values up to {tops[wrong[0]]:.0e}, whose squares leave the range of floats; "
            "rescale it."
        )


def subjects(groups, X) -> np.ndarray | None:
    """Return the number of every row's group, or raise."""
    if groups is None:
        return None
    refuse_missing(groups, name="groups")
    labels = column_or_1d(groups)
    check_consistent_length(X, labels)
    numbers = np.unique(labels, return_inverse=True)[1].ravel()
    if not numbers.any():
        raise ValueError(
            "groups holds one group only, and no row is left when it leaves; pass at least two groups, or none."
        )
    return numbers


@contextmanager
def within_floats(what: str) -> Iterator[None]:
    """Say which argument holds a whole number that is too long for a float.

    Around scikit-learn's checks, which sum all numbers up to see whether they are finite.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except OverflowError:
        raise ValueError(f"{what} holds a number beyond the range of floats; rescale it.") from None


def with_variances(result: Result, X, sample_weight: np.ndarray) -> Result:
    """Return a result whose combination knows how much each kernel's part varies over the training rows."""
    rows, predictor = some_rows(sample_weight), result.predictor
    if not len(rows) or not len(result.combination):
        return result
    blocks = row_blocks(len(rows), math.prod(X.shape[1:]))  # a stack of kernels may be as large as memory
    parts = np.concatenate([predictor.contributions(X[rows[block]]) for block in blocks], axis=1)
    found = variances(parts, sample_weight[rows])
    own = isinstance(result.combination, TargetCombination)
    combination = replace(result.combination, variance=found.T if own else found.sum(axis=1))
    return replace(result, predictor=replace(predictor, combination=combination), combination=combination)  # type: ignore[type-var]


@contextmanager
def refused_beyond_floats(words: str) -> Iterator[None]:
    """Say in a sentence, of which `words` are the beginning, that numbers left the range of floats.

    Extremes that are known to be too much are refused by name before any work. This is for what becomes of the others
    on the way, a sum of powers of products, say: an infinity or a NaN must not be computed with in silence.
    """
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            yield
    except FloatingPointError as error:
        raise ValueError(
            f"{words} too extreme to compute with ({error}); rescale X, y and weights."
        ) from error


@contextmanager
def all_or_nothing(estimator) -> Iterator[None]:
    """Put the estimator back as it was when something is raised: never half of a new fit on an old one."""
    before = dict(estimator.__dict__)
    try:
        with refused_beyond_floats("X, y, C or sample_weight holds values"):
            yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


# -- parameters of kernels in dicts --------------------------------------------------------------------


def _params_of(path: str, kernels: Mapping) -> dict[str, Any]:
    """Return the kernels of a dict, and their parameters, by names; a view may have a dict of its own."""
    params: dict[str, Any] = {}
    for name, part in kernels.items():
        params[f"{path}__{name}"] = part
        if isinstance(part, Mapping):
            params |= _params_of(f"{path}__{name}", part)
        elif hasattr(part, "get_params") and not isinstance(part, type):
            inner = part.get_params(deep=True)
            params |= {f"{path}__{name}__{key}": value for key, value in inner.items()}
    return params


def _with_param(held: Any, key: str, rest: str, value: Any) -> Any:
    """Return a dict of kernels, or a kernel, with a parameter set in a copy; `rest` is what is left of its name."""
    if not isinstance(held, Mapping):
        if not hasattr(held, "set_params"):
            raise ValueError(
                f"{key} cannot be set, as {brief(held)} has no parameters by name; pass kernels as objects, several of "
                "them in a dict."
            )
        return clone(held).set_params(**{rest: value})
    # Names may hold underscores; the longest one counts.
    fits = [name for name in held if rest == str(name) or rest.startswith(f"{name}__")]
    if not fits:
        raise ValueError(
            f"{key} cannot be set, as kernels has no {rest.split('__')[0]!r}; it has {', '.join(map(str, held))}."
        )
    name = max(fits, key=lambda name: len(str(name)))
    left = rest[len(str(name)) + 2 :]
    return {**held, name: _with_param(held[name], key, left, value) if left else value}


# -- kernels over rows ---------------------------------------------------------------------------------


class KernelEstimator(BaseEstimator):
    """Everything with `kernels`, `solver` and `normalize`: rows in, the family and the scale over them.

    ``combination_`` is what is learned; without it the object is not fitted.
    """

    kernels: Kernels
    solver: str | Solver
    normalize: Normalize
    random_state: RandomState
    combination_: Combination
    normalize_: Any
    n_features_in_: int
    feature_names_in_: np.ndarray
    #: Whether the targets may be a matrix.
    _several_targets: ClassVar[bool] = False

    _refuse_vast = staticmethod(refuse_vast)

    @property
    def _pairwise(self) -> bool:
        """Whether X is a stack of kernel matrices."""
        if isinstance(self.kernels, str):
            return self.kernels == "precomputed"
        return bool(getattr(self.kernels, "pairwise", False))

    def _training_rows(self, X, y, **options):
        """Validate X and y for a fit; a single precomputed matrix becomes a stack."""
        for rows, name in ((X, "X"), (y, "y")):
            if not _is_plain(rows):
                refuse_uncollected(rows, name)
        if not self._pairwise:
            types = self._row_types(X)
            with within_floats("X or y"):  # in one order of memory, as searches amplify rounding
                X, y = validate_data(
                    self, X, y, accept_sparse="csr", dtype=types, order="C", multi_output=True, **options
                )
            refuse_vast(X)
            return X, y
        from ..tables.stacks import open_stack

        stack = open_stack(X)
        if stack.values.ndim == 0:
            raise ValueError(
                f"X is {brief(X)}; pass kernel matrices, as an array of shape (n, n, n_kernels)."
            )
        stack.check_square()
        self.stack_ = replace(stack, values=stack.values[:0])
        with within_floats("X or y"):
            return validate_data(
                self,
                stack.values,
                y,
                dtype=[np.float64, np.float32],
                allow_nd=True,
                ensure_all_finite=False,  # checked together with symmetry, in one pass
                multi_output=True,
                **options,
            )

    def _row_types(self, X) -> Any:
        """Return what the rows of a fit may be made of."""
        return np.float64

    def _known_types(self) -> Any:
        """Return what rows to predict may be made of."""
        return np.float64

    def _bound_family(self, X, sample_weight, solver) -> Family:
        """Return the family bound to the columns of X."""
        kernels, names = self.kernels, getattr(self, "feature_names_in_", None)
        if self._pairwise and isinstance(kernels, str):
            kernels = Precomputed(self.stack_.kernels)
        return bound_family(kernels, X, sample_weight, solver, names)

    def _family(self, X, sample_weight, solver) -> tuple[Any, Family]:
        """Return the rows as the family needs them, and the family bound to their columns."""
        family = self._bound_family(X, sample_weight, solver)
        if family.pairwise:
            family.check_training(X)  # type: ignore[attr-defined]
        return as_needed(X, family) if sp.issparse(X) else X, family

    def _rows(self, X):
        """Validate rows for a prediction or a transformation."""
        check_is_fitted(self)
        if not _is_plain(X):
            refuse_uncollected(X)
        family = self.combination_.family
        if not family.pairwise:
            with within_floats("X"):
                rows = validate_data(
                    self, X, reset=False, accept_sparse="csr", dtype=self._known_types(), order="C"
                )
            refuse_vast(rows, part=True)
            return as_needed(rows, family)
        from ..tables.stacks import open_stack

        values = open_stack(X, getattr(self, "stack_", None)).values
        several = values.ndim == 3 and family.size() > 1  # what is wrong with a single matrix is said below
        if values.ndim > 3 or (several and values.shape[1:] != (self.n_features_in_, family.size())):
            raise ValueError(
                f"X has the shape {values.shape}, and the model was fitted on {family.size()} kernels of "
                f"{self.n_features_in_:,} rows; pass the shape (n, n_train, n_kernels)."
            )
        types = [np.float64, np.float32]
        with within_floats("X"):  # in one order of memory, as large coefficients amplify that of a sum
            return validate_data(self, values, reset=False, dtype=types, order="C", allow_nd=True)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, and with `deep` those of the solver and the kernels; of a dict, by their names."""
        params = super().get_params(deep)
        if deep and isinstance(self.kernels, Mapping):
            params |= _params_of("kernels", self.kernels)
        return params

    def _set_in_dict(self, params: dict[str, Any]) -> dict[str, Any]:
        """Set what is meant for kernels in a dict, in a new dict of copies, and return what is left."""
        if "kernels" in params:
            self.kernels = params.pop("kernels")
        inner = {key: value for key, value in params.items() if key.startswith("kernels__")}
        if not inner or not isinstance(self.kernels, Mapping):
            return params
        kernels: Any = self.kernels
        for key in sorted(inner, key=lambda key: key.count("__")):  # a kernel before its parameters
            kernels = _with_param(kernels, key, key.removeprefix("kernels__"), inner[key])
        self.kernels = kernels
        return {key: value for key, value in params.items() if key not in inner}

    def set_params(self, **params) -> Self:
        """Set parameters; those of a solver or of kernels that are given by name have none to set."""
        params = self._set_in_dict(params)
        for key in params:
            name, dots, part = key.partition("__")
            held = params.get(name, getattr(self, name, None))
            if dots and name == "kernels" and not hasattr(held, "set_params") and not isinstance(held, str):
                raise ValueError(
                    f"{key} cannot be set, as kernels in a {type(held).__name__} have no names; pass a dict of them."
                )
            if dots and isinstance(held, str):
                raise ValueError(
                    f"{key} cannot be set, as {name} is {held!r}, a name without parameters; pass an object first, "
                    f"such as {OBJECTS.get(name, name)} with its {part}."
                )
        return super().set_params(**params)

    def save(self, path) -> None:
        """Write what was fitted to a file that :func:`manykernels.load` opens without running code."""
        from ..persistence import save

        save(self, path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "combination_")

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's diagram, and of a fitted model what was learned."""
        diagram = super()._repr_html_inner()  # type: ignore[misc]
        if not self.__sklearn_is_fitted__():
            return diagram
        return f"<div>{diagram}{facts(self._facts())}{self.combination_._repr_html_()}</div>"

    def _repr_mimebundle_(self, **options) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def _facts(self) -> dict[str, str]:
        """Return what is worth knowing of a fitted model at a glance, by label."""
        return {}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._pairwise
        tags.input_tags.pairwise = tags.input_tags.three_d_array = self._pairwise
        tags.target_tags.multi_output = self._several_targets
        return tags


# -- estimators ----------------------------------------------------------------------------------------


class MKL(CallbackSupportMixin, KernelEstimator):
    """The base of the estimators; subclasses say what their targets are."""

    loss: str | Loss
    C: float | Literal["auto"]
    memory: float | str | None
    warm_start: bool
    verbose: int

    result_: Result
    solver_: Any
    loss_: Loss
    C_: float
    loo_score_: float
    target_mean_: np.ndarray
    weights_: np.ndarray
    rho_: np.ndarray
    dual_coef_: np.ndarray | None
    intercept_: np.ndarray
    objective_: float
    gap_: float
    gap_kind_: GapKind
    n_iter_: int
    converged_: bool
    trace_: Trace
    #: Of ``partial_fit``: the solver's state, and the problem without its rows.
    state_: dict[str, np.ndarray]
    _context: Problem
    #: Of ``kernels="auto"``: what the columns of a table are.
    columns_: Any

    #: Whether targets are numbers.
    _regresses: ClassVar[bool]
    #: Whether the loss is the estimator's own, and no parameter.
    _has_own_loss: ClassVar[bool] = False
    #: Whether there is no other way than machines on all rows at once, within the memory given.
    _whole: ClassVar[bool] = False
    #: What parameters may be that no other room checks.
    rules: ClassVar[dict[str, Rule]] = {"warm_start": FLAG, "verbose": FLAG | whole(0)}

    # -- hooks: what a subclass says of its targets --------------------------------------------------------

    @abstractmethod
    def _set_targets(self, y, classes: np.ndarray | None) -> np.ndarray:
        """Check y, store what decodes predictions, and return y in a plain form; `classes` are announced labels."""

    @abstractmethod
    def _check_targets(self, y) -> np.ndarray:
        """Return further targets in the plain form."""

    @abstractmethod
    def _score_left_out(self, Y: np.ndarray, s: np.ndarray) -> None:
        """Keep what the scores of rows left out say, given their encoded targets and weights."""

    def _check_order(self) -> None:
        """Raise ValueError for classes that are in no order, where the loss takes them as ordered."""

    def _times_class_weight(self, s: np.ndarray, y: np.ndarray, balance: np.ndarray | None) -> np.ndarray:
        """Return weights times those of the classes; `balance` has them for a stream as a whole."""
        return s

    # -- fit -----------------------------------------------------------------------------------------------

    def _refuse_lazy(self, X) -> None:
        """Refuse rows of a cluster, for estimators that have no sums over these."""
        if not _is_plain(X):
            from .streamed import is_lazy

            if is_lazy(X):
                raise ValueError(
                    f"X is a dask collection, and {type(self).__name__} takes rows in memory; pass X.compute()."
                )

    @with_callbacks
    def _fit(self, X, y, sample_weight, on_iteration, init, checkpoint, classes=None, groups=None) -> None:
        self._check_arguments(on_iteration)
        if not (hasattr(self, "_skl_callbacks") or hasattr(self, "_parent_callback_ctx")):
            self._solve(X, y, sample_weight, on_iteration, init, checkpoint, classes, groups)
            return
        fit = FollowedFit(self, X, y, sample_weight)
        self._solve(X, y, sample_weight, fit.following(on_iteration), init, checkpoint, classes, groups)
        fit.end()

    def _solve(self, X, y, sample_weight, on_iteration, init, checkpoint, classes, groups) -> None:
        with all_or_nothing(self), heard(self.verbose) if self.verbose else nullcontext():
            for name in ("state_", "_context", "columns_"):  # of a fit before
                self.__dict__.pop(name, None)
            if checkpoint is not None or not _is_plain(X):
                from .streamed import is_lazy, source_of
                from .summed import fit_source

                if y is not None and not isinstance(y, str) and not self._pairwise and not is_lazy(X):
                    X = self._views(X) or X
                source = source_of(self, X, y, sample_weight, checkpoint)
                if source is not None:
                    self._refuse_groups(groups)
                    self._refuse_init(init, self.solver)
                    fit_source(self, source, on_iteration, checkpoint, classes)
                    return
            if classes is not None:
                raise ValueError(
                    "classes is for rows that come in batches; y holds all labels here, so leave it out."
                )
            problem = replace(self._problem(X, y, sample_weight), groups=subjects(groups, X))
            self._announce(problem, problem.n_rows)
            self._refuse_init(init, self.solver_)
            apart = self._weighs_targets(problem)
            with limited(most_work(problem.n_rows)):
                task = chosen(self.solver_, problem)
                self.solver_ = task.solver
                if apart:
                    result = self.solver_.solve_targets(task.problem, self._progress(on_iteration))
                else:
                    result = task.solve(
                        self._start(problem, init),
                        self._progress(on_iteration),
                        calibrate=getattr(self, "calibrate", False),
                    )
            warn_of_rounding(task.problem, result, self.target_mean_)
            self._store(result, task.problem.C, task.problem)
            if self.result_.left_out is not None:
                Y = encoded(self._check_targets(y), self._n_classes, self.loss_)
                self._score_left_out(Y, check_weights(sample_weight, Y))

    def _check_arguments(self, on_iteration: OnIteration | None = None) -> None:
        """Refuse switches that are none, and what cannot be called."""
        known = signature(type(self)).parameters  # what was left at its default needs no look
        given = {k: rule for k, rule in self.rules.items() if getattr(self, k) is not known[k].default}
        if given:
            check_parameters(self, given)
        if on_iteration is not None and not callable(on_iteration):
            raise ValueError(
                f"on_iteration is {brief(on_iteration)}; pass a function that takes a step, or leave it out."
            )

    def _weighs_targets(self, problem: Problem) -> bool:
        """Whether every target gets kernel weights of its own."""
        return False

    def _problem(self, X, y, sample_weight, known: Known = NOTHING_KNOWN) -> Problem:
        """Return the problem, after all checks, in the order in which mistakes are cheap to find."""
        chosen = isinstance(self.C, str) and self.C == "auto"
        if not chosen and not POSITIVE.accepts(self.C):
            raise ValueError(f"C is {brief(self.C)}; it must be {POSITIVE.words}, or 'auto'.")
        if y is not None and not _is_complete(y):
            refuse_missing(y)
        memory, automatic = self._memory, self._automatic
        views = None if _is_plain(X) else self._views(X)
        if views is not None:
            views.check_order(y)
            X = self._view_numbers(views, sample_weight)
        elif automatic:
            X = self._numbers(X, sample_weight)
        elif (
            known is NOTHING_KNOWN
            and self._multiplies
            and not sp.issparse(X)
            and not _near_unit(X, sample_weight)
        ):
            X = self._numbers(X, sample_weight, products=True)
        X, y = self._training_rows(X, y, y_numeric=self._regresses)
        if known.names is not None:
            self.feature_names_in_ = np.array(known.names, dtype=object)
        y = self._set_targets(y, known.classes)
        s, n_classes = self._weights(sample_weight, X, y, known.balance), self._n_classes
        C = 1.0 if chosen else float(self.C)
        asked = self.solver if known.solver is None else known.solver
        X, family = self._family(X, s, asked)
        rows = 0 if self._whole else len(y)
        self.solver_ = solver = make_solver(
            asked, family, self.random_state, rows, memory=memory, automatic=automatic
        )
        self.loss_ = solver.settle(family, known.loss or self.loss, n_classes)
        suits = self.loss_.regression if self._regresses else self.loss_.classifies
        if not suits or (self.loss_.joint and not self._has_own_loss):
            self._refuse_loss()
        if self.loss_.shared:
            self._check_order()
        refuse_overflow(y if self._regresses else None, C, s)
        scale = Scale.fit(family, X, self.normalize, s, prefer_base=solver.prefers_base_scale)
        self.normalize_ = scale.how
        Y = encoded(y, n_classes, self.loss_)
        self.target_mean_ = np.zeros(1) if known.mean is None else known.mean
        if known.mean is not None:
            self.loss_, Y = self.loss_.about(known.mean, Y)
        elif self._regresses:
            self.loss_, self.target_mean_, Y = self.loss_.centred(Y, s)
        problem = Problem(X, Y, family, scale, self.loss_, C, s, chosen)
        if isinstance(solver, StreamingSolver):
            solver.check_range(problem)
        if (
            known.solver is None
        ):  # else these are a few of the rows of a source, and there are no matrices of pairs
            room = None if self.memory is None and not self._whole else memory
            check_memory(solver, family, len(y), room, by_batches=not self._whole)
        return problem

    def _refuse_loss(self) -> None:
        """Say which losses are for targets like these."""
        fit = [name for name, k in LOSSES.items() if (k.regression if self._regresses else k.classifies)]
        kind = "classes" if self._regresses else "numbers"
        raise ValueError(
            f"loss is {self.loss_.name!r}, which is for {'another estimator' if self.loss_.joint else kind}; "
            f"{type(self).__name__} takes {', '.join(map(repr, fit))}."
        )

    @property
    def _memory(self) -> int:
        """Bytes that an exact machine may take."""
        return MEMORY if self.memory is None else parse_bytes(self.memory, "memory")

    @property
    def _reads_tables(self) -> bool:
        """Whether columns may be what people have: text, dates, gaps, numbers in any unit."""
        return self._automatic or self._multiplies

    @property
    def _automatic(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "auto"

    @property
    def _multiplies(self) -> bool:
        """Whether kernels are products of columns that may be centred and scaled first."""
        if isinstance(self.kernels, str):
            return self.kernels == "products"
        asked = getattr(self.kernels, "standardize", False)
        return isinstance(asked, str) and asked == "auto" and getattr(self.kernels, "base", 0) is None

    def _numbers(self, X, sample_weight, products: bool = False) -> np.ndarray:
        """Learn what a table's columns are, and return them as numbers: such as kernels take, or as `products` do."""
        from ..tables import Columns, open_table

        table = X if sp.issparse(X) else open_table(X)
        learn = Columns.for_products if products else Columns.fit
        self.columns_ = columns = learn(table, sample_weight)
        for note in columns.notes:
            self._say(note)
        if products and columns.moved:
            names, few = columns.moved, 8
            more = f" and {len(names) - few:,} more" if len(names) > few else ""
            self._say(
                f"centred and scaled before they are multiplied: {', '.join(names[:few])}{more} "
                "(standardize=False takes columns as they are)"
            )
        return columns.transform(table)

    def _views(self, X):
        """Return X as views, None if it is a single table."""
        from ..tables import as_views

        return None if self._pairwise else as_views(X)

    def _view_numbers(self, views, sample_weight) -> np.ndarray:
        """Learn what the columns of several views are, and return them as numbers, side by side."""
        from ..tables import ViewColumns

        used = used_views(self.kernels, tuple(views.keys()))
        plain = [name for name in used if not is_automatic(self.kernels, name)]
        unused = [name for name in views.parts if name not in used]
        self.columns_ = ViewColumns.fit(views, sample_weight, plain, unused)
        for note in self.columns_.notes:
            self._say(note)
        return self.columns_.transform(views, narrow=False)

    def _training_rows(self, X, y, **options):
        X, y = super()._training_rows(X, y, **options)
        if hasattr(self, "columns_"):  # the table's own columns, and not what became of them
            self.n_features_in_ = len(self.columns_.names_in)
            if self.columns_.named:
                self.feature_names_in_ = np.array(self.columns_.names_in, dtype=object)
        return X, y

    def _bound_family(self, X, sample_weight, solver) -> Family:
        if not hasattr(self, "columns_"):
            return super()._bound_family(X, sample_weight, solver)
        if hasattr(self.columns_, "learned"):
            return view_family(self.kernels, X, sample_weight, solver, self.columns_)
        names, blocks = self.columns_.names_out, self.columns_.blocks
        family = bound_family(self.kernels, X, sample_weight, solver, names, blocks)
        if self.columns_.indicators:
            family.set_params(indicators=self.columns_.indicator_blocks or None)
        return family

    @property
    def feature_importances_(self) -> np.ndarray:
        """How much each column counts: its mean absolute Shapley value, in shares of their sum, (n_features,).

        In closed form over interactions of all orders, wherever kernels are products or sums over columns; estimated
        for random features. Columns are drawn from their margins over at most 256 training rows. A category's levels
        and a gap's indicator count for their column. A kernel that joins columns otherwise, and a view, counts for each
        of its columns in equal parts. Computed when first asked for. There are none for precomputed kernels.
        """
        check_is_fitted(self)
        from .importances import column_importances  # here, since fits do without

        return column_importances(self)

    @property
    def stop_reason_(self) -> StopReason:
        """Why the solver stopped: see :attr:`manykernels.problem.Result.stop_reason`."""
        check_is_fitted(self)
        return self.result_.stop_reason

    @property
    def _n_classes(self) -> int | None:
        """Number of classes, None for numbers."""
        return None if self._regresses else len(self.classes_)  # type: ignore[attr-defined]

    def _weights(self, sample_weight, X, y, balance: np.ndarray | None = None) -> np.ndarray:
        """Return the weights of rows with targets in the plain form."""
        # A later batch of a stream may well be without weight.
        s = check_weights(sample_weight, X, none=hasattr(self, "state_"))
        return s if getattr(self, "class_weight", None) is None else self._times_class_weight(s, y, balance)

    def _encode(self, y) -> np.ndarray:
        """Return targets about the offset, (n, c), for those in the plain form."""
        Y = encoded(y, self._n_classes, self.loss_)
        self.loss_.check_targets(Y)
        return self.loss_.about(self.target_mean_, Y)[1]

    def _row_types(self, X) -> Any:
        """Return what rows may be made of: solvers on streams compute in single precision where X is that."""
        if isinstance(X, np.ndarray) and X.dtype != np.float32:
            return np.float64
        shape: Any = getattr(X, "shape", ())
        many = is_auto(self.solver) and len(shape) == 2 and shape[0] > exact_rows(self._memory)
        return [np.float64, np.float32] if many or streams(self.solver) else np.float64

    def _partial_fit(self, X, y, sample_weight, classes=None) -> None:
        from .streamed import take_batch

        self._check_arguments()
        with all_or_nothing(self), heard(self.verbose) if self.verbose else nullcontext():
            take_batch(self, X, y, sample_weight, classes)

    def _start(self, problem: Problem, init) -> np.ndarray | None:
        """Return the weights to start from: those given, or with ``warm_start`` those of the fit before."""
        self._refuse_init(init, self.solver_)
        resumes = self.warm_start and self.solver_.accepts_init
        if init is None and resumes and len(getattr(self, "weights_", ())) == problem.family.size():
            theta = self.weights_ * self.rho_**2
            return theta if theta.any() else None  # a constant has no weights to go on from
        return init

    @staticmethod
    def _refuse_init(init, solver) -> None:
        if init is not None and not getattr(solver, "accepts_init", False):
            raise ValueError(f"init is given, but {type(solver).__name__} has no weights to start from.")

    @staticmethod
    def _refuse_groups(groups) -> None:
        if groups is not None:
            raise ValueError(
                "groups is given, but rows come in batches; pass rows in memory, or leave groups out."
            )

    def _store(self, result: Result, C: float | None = None, problem: Problem | None = None) -> None:
        """Keep a result; C is the solver's, that of the problem, or the one that was given."""
        for name in ("loo_score_", "_loo_residuals", "_background", "_importances"):  # of a fit before
            self.__dict__.pop(name, None)
        if problem is not None:
            result = with_variances(result, problem.X, problem.sample_weight)
            if not problem.family.pairwise:
                self._background = problem.X[some_rows(problem.sample_weight)]
        known = result.C if result.C is not None else C
        self.result_ = replace(
            result,
            predictor=result.predictor.shifted(self.target_mean_),
            intercept=result.intercept + self.target_mean_,
            C=float(self.C) if known is None else known,
            left_out=None if result.left_out is None else result.left_out + self.target_mean_,
        )
        self._expose()
        self._say(self.result_.ended())

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
        assert r.C is not None  # `_store` has seen to it
        self.C_ = r.C

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = self._reads_tables
        return tags

    # -- words ---------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, str]:
        known = {"solver": brief(self.solver_, 80), "loss": self.loss_.name, "C": f"{self.C_:.4g}"}
        if hasattr(self, "loo_score_"):
            score = "R²" if self._regresses else "accuracy"
            known["rows left out"] = f"{score} {self.loo_score_:.4f}"
        if self.gap_kind_ != "none" and np.isfinite(self.gap_):
            gap = as_share(self.gap_, self.objective_)
            known["certificate"] = f"gap {gap} of the objective ({self.gap_kind_.replace('_', ' ')})"
        return known

    def _say(self, text: str) -> None:
        if self.verbose:
            sys.stderr.write(f"[manykernels] {text}\n")

    def _announce(self, problem: Problem, n_rows: int | None) -> None:
        """Log what is going to be done, and what it may take, if anybody listens: to tell takes some milliseconds."""
        if logger.isEnabledFor(logging.INFO):
            from .forecast import Forecast

            logger.info("%s", Forecast.of(self.solver_, problem, n_rows, getattr(self, "columns_", None)))

    def _progress(
        self, on_iteration: OnIteration | None, more: Callable[[], str] = lambda: ""
    ) -> OnIteration | None:
        """Return what is told of every step, and prints it where `verbose` asks for that, with `more` at the end."""
        if on_iteration is not None:  # an overflow there is no error of the fit
            on_iteration = np.errstate(all="warn")(on_iteration)
        if not self.verbose:
            return on_iteration

        def report(step: Step):
            every = 1 if self.verbose > 1 or step.iteration < 10 else 10
            if step.iteration % every == 0:
                gap = step.gap / max(abs(step.objective), 1e-300)
                known = "" if np.isnan(gap) else f"relative gap {gap:.1e}  "
                self._say(
                    f"iteration {step.iteration:4d}  objective {step.objective:.6g}  {known}"
                    f"{step.n_kernels} kernels  {step.seconds:.1f} s{more()}"
                )
            return on_iteration(step) if on_iteration else False

        return report

    # -- predictions ---------------------------------------------------------------------------------------

    def _left_out(self) -> np.ndarray:
        """Return the scores of the training rows, each left out, or say why there are none."""
        check_is_fitted(self)
        reason = why_not_left_out(self)
        if reason is not None:
            raise AttributeError(reason)
        assert self.result_.left_out is not None
        return self.result_.left_out

    def _known_types(self) -> Any:
        return [np.float64, np.float32] if isinstance(self.solver_, StreamingSolver) else np.float64

    def _rows(self, X):
        if not _is_plain(X):
            from ..streaming import is_source

            several = self._pairwise or hasattr(getattr(self, "columns_", None), "learned")
            if is_source(X, None) and not (several and isinstance(X, list | tuple)):
                raise ValueError(
                    f"X is {brief(X)}, and not rows in memory; use predict_to(X, 'predictions.parquet'), or "
                    "manykernels.streaming.predict_batches(model, X)."
                )
        if hasattr(self, "columns_"):
            check_is_fitted(self)
            return self.columns_.transform(X)
        return super()._rows(X)

    def _scores(self, X) -> np.ndarray:
        rows = self._rows(X)
        with refused_beyond_floats("X holds values, beside those that the model has learned from,"):
            F = self.result_.predictor.scores(rows)
            if not np.isfinite(F).all():  # compiled loops overflow in silence
                raise FloatingPointError("overflow in a sum")
            return F

    def _training_data(self, X, y, sample_weight=None) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return rows, encoded and centred targets and weights for a fitted model."""
        rows = self._rows(X)
        y = self._check_targets(y)
        check_consistent_length(rows, y)
        return rows, self._encode(y), self._weights(sample_weight, rows, y)

    def contributions(self, X, by: Literal["kernel", "view"] = "kernel") -> np.ndarray:
        """Split the prediction by kernel, or by view.

        Parameters
        ----------
        X : rows
        by : {"kernel", "view"}
            Whether there is a column per kernel, or one per view, in the order of ``views_``.

        Returns
        -------
        array of shape (n, m) or (n, m, c)
            One column per member of ``combination_``, or per view. Summed over the columns, with ``intercept_`` added,
            they give the scores. A view that a row lacks has NaN: the prediction does not rest on it.
        """
        if not BY.accepts(by):
            raise ValueError(f"by is {brief(by)}; it must be {BY.words}.")
        rows = self._rows(X)
        with refused_beyond_floats("X holds values, beside those that the model has learned from,"):
            parts = np.moveaxis(self.result_.predictor.contributions(rows), 0, 1)
        if by == "view":
            parts = self._by_view(parts, rows)
        return parts[:, :, 0] if parts.shape[2] == 1 else parts

    def _by_view(self, parts: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the contributions of all kernels of each view together."""
        names, views = (
            self.views_,
            [getattr(part, "name", "") for part in self.combination_.family.families()],
        )
        of = [names.index(views[k]) for k, _ in self.combination_.members]
        out = np.einsum("nmc,mv->nvc", parts, np.eye(len(names))[of])
        out[rows[:, -len(names) :] == 0] = np.nan
        return out

    def view_worth(self, X, y, sample_weight=None, *, cv=None) -> Any:
        """Return what each view is worth on the rows that have it: how much the score drops when it is kept from them.

        Rows are predicted with all views that they have, and once more without this one, as a row that lacks it
        would be. Rows that have no other view are left out.

        Parameters
        ----------
        X : views
        y : (n,) or (n, c) array
        sample_weight : (n,) array, optional
        cv : int, splitter or iterable, optional
            None: X are rows that the model was not fitted on. With training rows pass the folds: every row is then
            predicted by a copy of the model that has not seen it.

        Returns
        -------
        DataFrame (records without pandas)
            One row per view, the most valuable first: ``view``, ``rows`` that have it and another, ``score`` of these
            (accuracy, or R² with the variance of all targets), ``without`` the view, ``worth``, their difference, and
            its standard ``error``.
        """
        from .worth import view_worth  # here, since fits do without

        records = view_worth(self, X, y, sample_weight, cv=cv)
        records.sort(key=lambda record: -np.nan_to_num(record["worth"], nan=-np.inf))
        try:
            from pandas import DataFrame
        except ImportError:
            return records
        return DataFrame(records)

    @property
    def views_(self) -> list[str]:
        """Names of the views that the model was fitted on."""
        check_is_fitted(self)
        names = getattr(getattr(self, "columns_", None), "names", None)
        if names is None:
            raise AttributeError(
                "The model was fitted on one table, and has no views; fit it on a dict of tables."
            )
        return list(names)

    def report(self, path, X, y, **options) -> None:
        """Write what the model says, and how sure that is, as one HTML file.

        Parameters
        ----------
        path : path that ends in .html
            It appears when it is complete; it needs no network to be read.
        X, y : the rows that the model was fitted on, and their targets
        **options : see :func:`manykernels.report.write_report`
        """
        from ..report import write_report

        write_report(self, path, X, y, **options)

    def predict_to(self, source, path, *, proba: bool = False) -> int:
        """Write predictions for the rows of a source to a file, batch by batch.

        Parameters
        ----------
        source : path, pyarrow Dataset, table, array, or iterable of batches
            See :func:`manykernels.streaming.open_source`.
        path : path that ends in .parquet, .csv, .feather or .arrow
            It appears when it is complete.
        proba : bool
            Whether to add the class probabilities.

        Returns
        -------
        int
            The number of rows.
        """
        from ..streaming import predict_to

        return predict_to(self, source, path, proba=proba)


def lazily(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of rows in memory take dask collections too: lazy predictions, or the score of all partitions."""

    @wraps(method)
    def call(self, X, *args, **kwargs):
        if _is_plain(X):
            return method(self, X, *args, **kwargs)
        from ..streaming.partitions import is_lazy, predict_lazily, score_lazily

        if not is_lazy(X):
            return method(self, X, *args, **kwargs)
        check_is_fitted(self)
        if method.__name__ == "score":
            return score_lazily(self, X, *args, **kwargs)
        return predict_lazily(self, X, method.__name__)

    return call


def why_no_batches(model: MKL) -> str | None:
    """Return why there is no ``partial_fit``, None where there is one."""
    if streams(model.solver):
        return None
    return (
        f"solver {brief(model.solver)} takes all rows at once, and has no partial_fit; name a solver that streams "
        f"({streaming_names()})."
    )


def why_not_left_out(model: MKL) -> str | None:
    """Return why there are no scores of rows left out, None where there are some, or no fit yet."""
    result = model.__dict__.get("result_")
    if result is None or result.left_out is not None:
        return None
    return (
        f"{type(model.solver_).__name__} keeps no scores of rows left out; fit with the solver LeaveOneOut, which "
        "is the default for bandwidths."
    )


def _is_complete(y) -> bool:
    """Whether targets are numbers without gaps: what most are, at a glance."""
    return isinstance(y, np.ndarray) and y.dtype.kind in "iubf" and bool(np.isfinite(y).all())


def _near_unit(X, sample_weight) -> bool:
    """Whether X is an array of numbers that products take as they are; see ``Columns.for_products``."""
    if not (_is_plain(X) and X.ndim == 2 and X.dtype.kind in "fiu" and X.shape[0]):
        return False
    s = np.ones(len(X)) if np.ndim(sample_weight) == 0 else np.asarray(sample_weight)
    if s.shape != X.shape[:1] or s.dtype.kind not in "biuf" or not s.any():
        return True  # which is refused elsewhere
    with np.errstate(all="ignore"):  # sums alone, without a squared copy of X: rows may be millions
        mean = s @ X / s.sum()
        spread = np.sqrt(np.einsum("t,tj,tj->j", s, X, X, optimize=False) / s.sum() - mean**2)
        near = (np.abs(mean) <= spread / 4) & (spread >= 1 / 4) & (spread <= 4)
    constant = (X[0] == X).all(axis=0) if not near.all() else near
    return bool((near | constant).all())


def _is_plain(X) -> bool:
    """Whether X is an array in memory, and surely no source of rows."""
    return isinstance(X, np.ndarray) and not isinstance(X, np.memmap)
