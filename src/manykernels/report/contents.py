"""What a report says, before it is a page: scores, kernels, components, the certificate, settings."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_outlier_detector
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import get_tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from .._util.text import brief
from ..tables import as_views
from ..tables.stacks import open_stack
from .peers import make_peer

#: What a model is measured against, by the names of ``peers.py``, and on how many folds.
BASELINES, FOLDS = ("linear", "hist-gradient-boosting"), 5
#: Packages whose versions make a difference.
PACKAGES = ("manykernels", "numpy", "scipy", "scikit-learn", "numba", "narwhals")


@dataclass(frozen=True)
class Score:
    """How good a method is on rows it has not seen.

    Attributes
    ----------
    method : str
    value, error : float
        The score, and its standard error over rows or folds.
    how : str
        How rows were kept from it.
    """

    method: str
    value: float
    error: float
    how: str


@dataclass(frozen=True, eq=False)
class Contents:
    """What a report says; see :func:`collect`.

    Attributes
    ----------
    title : str
    model : fitted estimator
    X, y : the rows and targets
    n_rows, n_columns : int
        Of kernel matrices as many columns as there are matrices.
    measure : {"R²", "accuracy", "concordance"}
    scores : list of Score
        The model first, then baselines.
    left_out : array or None
        Predictions, or probabilities, for the rows, each left out.
    components : Components or None
    why_no_components : str
    stability : what ``findings.stability`` returned, or None
    settings : dict of str to str
    versions : dict of str to str
    """

    title: str
    model: Any
    X: Any
    y: np.ndarray
    n_rows: int
    n_columns: int
    measure: str
    scores: Sequence[Score]
    left_out: np.ndarray | None
    components: Any
    why_no_components: str
    stability: Any
    settings: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def classifies(self) -> bool:
        """Whether targets are classes."""
        return self.measure == "accuracy"

    @property
    def column(self) -> str:
        """What `n_columns` counts."""
        return "kernel matrix" if is_pairwise(self.model) else "column"


def collect(
    model: Any,
    X: Any,
    y: Any,
    *,
    title: str | None = None,
    baselines: Sequence[str] = BASELINES,
    stability: Any = None,
    seed: int = 0,
) -> Contents:
    """Return what there is to say of a fitted model.

    Parameters
    ----------
    model : fitted MKLClassifier, MKLRegressor or MKLSurvival
    X, y : the rows it was fitted on, and their targets
        Of a MKLSurvival a structured array, the event and the time.
    title : str, optional
    baselines : sequence of str
        Methods of ``report.peers.PEERS`` to cross-validate beside it; a constant is always there.
    stability : what :func:`~manykernels.findings.stability` returned, optional
    seed : int
        Of the folds.

    Returns
    -------
    Contents
    """
    check_is_fitted(model)
    if is_outlier_detector(model):
        raise ValueError(
            f"A report says how well a target is predicted, and {type(model).__name__} has none; look at "
            "combination_.table() and at findings.components(model, X)."
        )
    views = None if is_pairwise(model) else as_views(X)
    rows = open_stack(X).values if is_pairwise(model) else X if views is None else views
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(
            f"y has the shape {y.shape}; a report is about one target, so fit a model to one column, and pass that."
        )
    if not is_classifier(model) and np.size(model.intercept_) > 1:
        raise ValueError(
            f"model predicts {np.size(model.intercept_)} targets; a report is about one, so fit a model to it alone."
        )
    check_consistent_length(rows, y)
    classify = is_classifier(model)
    left_out = _left_out(model, classify, len(y))
    scores = [
        _own_score(model, left_out, rows, y, classify, seed),
        *_baselines(rows, y, classify, baselines, views, seed),
    ]
    parts, why = _components(model, rows)
    return Contents(
        title=title or f"{type(model).__name__}: {len(y):,} rows",
        model=model,
        X=rows,
        y=y,
        n_rows=len(y),
        n_columns=rows.shape[-1] if is_pairwise(model) else int(model.n_features_in_),
        measure="accuracy" if classify else "concordance" if _are_times(y) else "R²",
        scores=scores,
        left_out=left_out,
        components=parts,
        why_no_components=why,
        stability=stability,
        settings=_settings(model),
        versions=_versions(),
    )


def _are_times(y: np.ndarray) -> bool:
    """Whether targets are times until an event, each with whether it was seen."""
    return y.dtype.names is not None


def _own_score(
    model: Any, left_out: np.ndarray | None, X: Any, y: np.ndarray, classify: bool, seed: int
) -> Score:
    """Return the score of rows left out where the model has it for these rows, else by cross-validation."""
    name = "this model"
    # Other solvers keep scores of rows left out, too, to calibrate by; their kernels have learned from all rows.
    if left_out is not None and model.solver_.honest_left_out:
        return Score(name, model.loo_score_, _row_error(model, left_out, y, classify), "each row left out")
    found = _fold_scores(lambda: clone(model), X, y, classify, seed)
    return Score(name, *_mean(found), f"{FOLDS} folds, fitted anew on each")


def _row_error(model: Any, left_out: np.ndarray, y: np.ndarray, classify: bool) -> float:
    """Return the standard error of a left-out score over the rows."""
    if classify:
        return float(np.sqrt(model.loo_score_ * (1 - model.loo_score_) / len(y)))
    squares, spread = np.square(y - left_out), np.square(y - y.mean())
    squares = squares[np.isfinite(squares)]
    return float(squares.std() / np.sqrt(len(squares)) / (spread.mean() or 1.0))


def _baselines(
    X: Any, y: np.ndarray, classify: bool, names: Sequence[str], views: Any, seed: int
) -> list[Score]:
    """Return the scores of a constant and of other methods, on the same folds; they take one table only."""
    if _are_times(y):
        return [Score("a constant", 0.5, 0.0, "any rows")]
    constant = DummyClassifier(strategy="most_frequent") if classify else DummyRegressor()
    blank = np.zeros((len(y), 1))
    scores = [
        Score(
            "a constant", *_mean(_fold_scores(lambda: constant, blank, y, classify, seed)), f"{FOLDS} folds"
        )
    ]
    for name in names if views is None and getattr(X, "ndim", 2) == 2 else ():
        found = _fold_scores(lambda n=name: make_peer(n, classify, seed), X, y, classify, seed)
        scores.append(Score(name.replace("-", " "), *_mean(found), f"{FOLDS} folds"))
    return scores


def _fold_scores(make: Any, X: Any, y: np.ndarray, classify: bool, seed: int) -> list[float]:
    """Return the scores of a method on each fold; none where classes are too rare for folds."""
    kind = StratifiedKFold if classify else KFold
    if len(y) < 2 * FOLDS or (classify and np.unique(y, return_counts=True)[1].min() < FOLDS):
        return []
    out = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rng = np.random.default_rng(seed)
        for part, test in kind(FOLDS, shuffle=True, random_state=seed).split(np.zeros(len(y)), y):
            # Solvers of many rows judge by rows that follow each other; those tested here are drawn.
            train, method = rng.permutation(part), make()
            fitted = method.fit(_take(method, X, train, train), y[train])
            out.append(float(fitted.score(_take(method, X, test, train), y[test])))
    return out


def is_pairwise(method: Any) -> bool:
    """Whether a method is given kernel matrices in place of rows."""
    return bool(get_tags(method).input_tags.pairwise)


def _take(method: Any, X: Any, rows: np.ndarray, train: np.ndarray) -> Any:
    """Return some rows; of kernel matrices their values with those that are learned from."""
    if is_pairwise(method):
        return X[np.ix_(rows, train)]
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _mean(scores: Sequence[float]) -> tuple[float, float]:
    if not scores:
        return float("nan"), float("nan")
    return float(np.mean(scores)), float(np.std(scores, ddof=1) / np.sqrt(len(scores)))


def _left_out(model: Any, classify: bool, n_rows: int) -> np.ndarray | None:
    """Return predictions, or probabilities, of rows left out; None where there are none, or for other rows."""
    try:
        found = model.loo_proba_ if classify else np.ravel(model.loo_prediction_)
    except AttributeError:
        return None
    return found if len(found) == n_rows else None


def _components(model: Any, X: Any) -> tuple[Any, str]:
    """Return the components of a model, or why there are none."""
    from ..findings import components

    try:
        return components(model, X), ""
    except (ValueError, TypeError, NotImplementedError) as error:
        return None, str(error)


def _settings(model: Any) -> dict[str, str]:
    """Return the parameters that were given, and what became of those left open."""
    given = {name: brief(value, 200) for name, value in model.get_params(deep=False).items()}
    became = {f"{name}_": _said(getattr(model, f"{name}_")) for name in ("solver", "loss", "C", "normalize")}
    return given | became


def _said(value: Any) -> str:
    """Return what became of a parameter; a number that was searched for has few digits that mean something."""
    return f"{value:.6g}" if isinstance(value, float) else brief(value, 200)


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from its source
            continue
    return found
