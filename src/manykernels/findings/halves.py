"""Fits on complementary halves of the rows: what each selects, in parallel, resumable, kept at Ctrl-C."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib import hash as joblib_hash
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.metaestimators import _safe_split

from .._util.interrupts import Interruptible, trials
from .._util.shapes import demand
from .._util.text import brief, warn
from ..persistence.checkpoint import Checkpoint, digest
from ..tables import as_views


@dataclass(frozen=True)
class Selected:
    """A kernel that a fit selected: its member, name, columns and view.

    Attributes
    ----------
    member : hashable
        As the family writes it; of a continuum, in which no kernel is met twice, the number of the part it is of.
    kernel : str
    columns : tuple
        Names (or numbers) of the columns that it looks at; empty where it looks at all.
    view : str or None
    """

    member: Any
    kernel: str
    columns: tuple[Any, ...]
    view: str | None = None


#: What the fits on two complementary halves selected.
Pair = tuple[list[Selected], list[Selected]]


@dataclass
class Halves:
    """Pairs of fits on complementary halves; pair b depends on the seed and b alone.

    Parameters
    ----------
    estimator : estimator with ``combination_`` once fitted
    X, y : rows and targets
    sample_weight : array or None
    groups : array or None
        Rows of a group are in the same half.
    min_share : float
        A kernel is selected if its share of the fitted variance is larger.
    seed : int
    """

    estimator: Any
    X: Any
    y: Any
    sample_weight: Any
    groups: Any
    min_share: float
    seed: int
    interrupted: bool = field(default=False, init=False)
    pairs: list[Pair] = field(default_factory=list, init=False)
    _warned: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.views = as_views(self.X)
        if self.views is not None:
            self.X = self.views

    # -- one pair --------------------------------------------------------------------------------------

    def split(self, b: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the two halves of a pair; classes are spread evenly, groups are whole."""
        rng = np.random.default_rng([self.seed, b])
        n = len(self.y)
        unit = np.arange(n) if self.groups is None else np.unique(self.groups, return_inverse=True)[1].ravel()
        order = rng.permutation(unit.max(initial=-1) + 1)
        if is_classifier(self.estimator) and self.groups is None:
            labels = np.unique(self.y, return_inverse=True)[1].ravel()
            order = order[np.argsort(labels[order], kind="stable")]
            first = np.isin(unit, order[::2])
        else:
            first = np.isin(unit, order[: (len(order) + 1) // 2])
        return np.flatnonzero(first), np.flatnonzero(~first)

    def fit(self, b: int) -> tuple[Pair, list[str]]:
        """Fit both halves of a pair; return what they select, and what they warned of."""
        found = []
        with warnings.catch_warnings(record=True) as caught, trials():
            warnings.simplefilter("always")
            for side, rows in enumerate(self.split(b)):
                model = fitted(self.estimator, *self._part(rows), seed=[self.seed, b, side])
                found.append(selected(model, self.min_share))
        return (found[0], found[1]), [str(w.message) for w in caught]

    def _part(self, rows: np.ndarray) -> tuple[Any, Any, Any]:
        s = None if self.sample_weight is None else np.asarray(self.sample_weight)[rows]
        if self.views is not None:
            return self.views[rows], _safe_indexing(self.y, rows), s
        X, y = _safe_split(self.estimator, self.X, self.y, rows)
        return X, y, s

    # -- all pairs -------------------------------------------------------------------------------------

    def run(self, n_pairs: int, n_jobs: int | None, checkpoint: Checkpoint | None, verbose: int) -> None:
        """Fit all pairs that are missing; Ctrl-C keeps those that are there."""
        started, done = time.perf_counter(), len(self.pairs)
        with Interruptible(lambda: self._kept(n_pairs)) as guard:
            for pair, words in self._results(range(done, n_pairs), n_jobs):
                self.pairs.append(pair)
                self._warned += words
                if verbose:
                    spent = time.perf_counter() - started
                    left = spent / (len(self.pairs) - done) * (n_pairs - len(self.pairs))
                    sys.stderr.write(
                        f"[manykernels] pair {len(self.pairs)} of {n_pairs}, {spent:.0f} s, {left:.0f} s to go\n"
                    )
                if checkpoint is not None:
                    checkpoint.save(self.state)
        self.interrupted = guard.interrupted
        if checkpoint is not None:
            checkpoint.write(self.state()) if self.interrupted else checkpoint.remove()
        self._tell()

    def _results(self, missing: range, n_jobs: int | None) -> Iterator[tuple[Pair, list[str]]]:
        if n_jobs in (None, 1):
            return map(self.fit, missing)
        # Processes, not threads: a fit sets limits on threads for the whole process.
        return Parallel(n_jobs=n_jobs, return_as="generator", backend="loky")(
            delayed(self.fit)(b) for b in missing
        )

    def _kept(self, n_pairs: int) -> str | None:
        return f"after {len(self.pairs)} of {n_pairs} pairs, which are kept." if self.pairs else None

    def _tell(self) -> None:
        if self._warned:
            warn(f"Fits on halves warned {len(self._warned)} times, first: {brief(self._warned[0], 300)}")

    # -- files -----------------------------------------------------------------------------------------

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for pairs in a file to be these pairs."""
        rows = _plain(self.X) if self.views is None else joblib_hash(self.views)
        return {
            "finding": "stability",
            "estimator": _described(self.estimator),
            "rows": digest([rows, *map(_plain, (self.y, self.sample_weight, self.groups))]),
            "min_share": self.min_share,
        }

    def state(self) -> Mapping[str, np.ndarray]:
        """Return the pairs as an array, for a file."""
        halves = [
            [[s.member, s.kernel, s.columns, s.view] for s in half] for pair in self.pairs for half in pair
        ]
        text = json.dumps(halves, default=lambda v: v.item())  # NumPy's numbers
        return {"pairs": np.frombuffer(text.encode(), dtype=np.uint8)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take pairs from a file."""
        try:
            halves = json.loads(state["pairs"].tobytes())
            found = [
                [
                    Selected(_tuples(z), str(kernel), _tuples(columns), view)
                    for z, kernel, columns, view in half
                ]
                for half in halves
            ]
            whole = len(found) % 2 == 0
        except (KeyError, ValueError, TypeError):
            whole = False
        demand(whole, "its pairs cannot be read")
        self.pairs = list(zip(found[::2], found[1::2], strict=True))


def fitted(estimator: Any, X: Any, y: Any, sample_weight: Any, seed: list[int]) -> Any:
    """Return a fit; seeds that were left open, in the steps of a pipeline too, are drawn from `seed`."""
    model = clone(estimator)
    rng = np.random.default_rng(seed)
    for name, value in sorted(model.get_params(deep=True).items()):
        # A solver without a seed takes its estimator's.
        if name.split("__")[-1] == "random_state" and "solver" not in name.split("__") and value is None:
            model.set_params(**{name: int(rng.integers(2**31))})
    return model.fit(X, y) if sample_weight is None else model.fit(X, y, sample_weight=sample_weight)


def last_step(model: Any) -> Any:
    """Return the estimator that holds the kernels: the last of a pipeline, the best of a search."""
    while not hasattr(model, "combination_"):
        inner = getattr(model, "best_estimator_", None)
        steps: Any = getattr(model, "steps", None)
        if inner is None and steps is None:
            raise ValueError(
                f"estimator is {brief(model)}, which has no kernels to select; pass an MKLClassifier, an "
                "MKLRegressor, or a pipeline that ends in one."
            )
        model = inner if inner is not None else steps[-1][1]
    return model


def inner_rows(model: Any, X: Any) -> Any:
    """Return rows as the kernels see them: through the steps of a pipeline, and as numbers."""
    while not hasattr(model, "combination_"):
        inner = getattr(model, "best_estimator_", None)
        if inner is None:
            X, inner = model[:-1].transform(X), model[-1]
        model = inner
    return model._rows(X)


def selected(model: Any, min_share: float) -> list[Selected]:
    """Return what a fit selected."""
    last = last_step(model)
    combination, names = last.combination_, getattr(last, "feature_names_in_", None)
    weights, shares = np.atleast_2d(combination.weights), np.atleast_2d(combination.shares())
    chosen = np.flatnonzero(((weights > 0) & ((shares > min_share) | (min_share == 0))).any(axis=0))
    family, members = combination.family, combination.members
    return list(dict.fromkeys(describe(family, members[i], names) for i in chosen.tolist()))


def describe(family: Any, member: Any, names: Any = None) -> Selected:
    """Return a member with its name, columns and view; `names` are those of the columns, where they have any."""
    parameters = family.parameters(member)
    columns = list(parameters.get("columns", ()))
    if "factors" in parameters:  # base kernels, which know their columns by number
        columns = [f"x{j}" if names is None else str(names[j]) for j in _factor_columns(family, member)]
    sigma = parameters.get("sigma")
    if isinstance(sigma, list) and len(sigma) == len(columns):  # an infinite bandwidth ignores its column
        columns = [c for c, width in zip(columns, sigma, strict=True) if np.isfinite(width)]
    view = parameters.get("view")
    columns = [c if view is None else f"{view}: {c}" for c in dict.fromkeys(columns)]
    if not np.isfinite(family.size()):
        parts = family.families()
        k = member[0] if len(parts) > 1 else 0
        inner = getattr(parts[k], "family", parts[k])
        if not np.isfinite(inner.size()):
            name = type(inner).__name__.lower() + ("" if view is None else f"[{view}]")
            return Selected(k, name, tuple(columns), view)
    return Selected(member, family.label(member), tuple(columns), view)


def _factor_columns(family: Any, member: Any) -> list[int]:
    """Return the columns of the base kernels of a product."""
    parts = family.families()
    part, own = (parts[member[0]], member[1]) if len(parts) > 1 else (parts[0], member)
    inner = getattr(part, "family", part)
    columns = (inner.base[j].columns for j in own)
    return [int(c) + getattr(part, "first", 0) for some in columns if some is not None for c in some]


def _tuples(value: Any) -> Any:
    """Return JSON's lists as tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _described(estimator: Any) -> str:
    """Return a digest of an estimator's parameters, and those of its parts."""
    params = estimator.get_params(deep=True)
    plain = {
        name: type(value).__name__ if hasattr(value, "get_params") else value
        for name, value in sorted(params.items())
        if name.split("__")[-1] not in ("steps", "transformers")  # whose parts are parameters themselves
    }
    return digest([type(estimator).__name__, plain])


def _plain(value: Any) -> Any:
    """Return a table by its columns, so that a digest sees every value."""
    if hasattr(value, "columns") and hasattr(value, "__getitem__"):
        return [[str(name), np.asarray(value[name])] for name in value.columns]
    return value


def seed_of(random_state: Any) -> int:
    """Return the seed that a random state stands for."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(check_random_state(random_state).randint(2**31 - 1))
