"""What else one might fit to a table: scikit-learn's methods, and boosting libraries where they are installed.

All are given the same matrix: ``tables.Columns`` makes it from the training rows of each fold, one column per category,
medians and an indicator for what is missing. Settings are those a careful user starts with.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR

from ..tables import Columns, open_table

#: What the parameters of a support vector machine are chosen from, by three folds; gamma is in units of 1/columns.
COSTS, GAMMAS, FOLDS = (1.0, 10.0, 100.0), (0.1, 0.3, 1.0), 3


class Numbers(TransformerMixin, BaseEstimator):
    """A table as a matrix of numbers."""

    def fit(self, X, y=None):
        """Learn what the columns are."""
        self.columns_ = Columns.fit(open_table(X))
        return self

    def transform(self, X) -> np.ndarray:
        """Return the matrix."""
        return self.columns_.transform(X)


def linear(classify: bool, seed: int) -> Any:
    """Return a linear model with its penalty chosen by cross-validation."""
    if classify:
        return LogisticRegressionCV(Cs=np.logspace(-3, 3, 7), cv=FOLDS, max_iter=1000)
    return RidgeCV(alphas=np.logspace(-3, 5, 17))


def svm(classify: bool, seed: int) -> Any:
    """Return a support vector machine with C and bandwidth chosen by cross-validation."""
    return _ScaledGrid(SVC() if classify else SVR())


def forest(classify: bool, seed: int) -> Any:
    """Return a random forest."""
    return (RandomForestClassifier if classify else RandomForestRegressor)(random_state=seed)


def boosting(classify: bool, seed: int) -> Any:
    """Return scikit-learn's boosted trees."""
    kind = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
    return kind(random_state=seed)


def catboost(classify: bool, seed: int) -> Any:
    """Return CatBoost."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostClassifier if classify else CatBoostRegressor
    return kind(random_seed=seed, verbose=False, allow_writing_files=False)


def lightgbm(classify: bool, seed: int) -> Any:
    """Return LightGBM."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    return (LGBMClassifier if classify else LGBMRegressor)(random_state=seed, verbose=-1)


def xgboost(classify: bool, seed: int) -> Any:
    """Return XGBoost."""
    from xgboost import XGBClassifier, XGBRegressor

    return (XGBClassifier if classify else XGBRegressor)(random_state=seed)


def ebm(classify: bool, seed: int) -> Any:
    """Return an explainable boosting machine."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    return (ExplainableBoostingClassifier if classify else ExplainableBoostingRegressor)(random_state=seed)


#: By name: what makes the peer, and the package it needs.
PEERS: dict[str, tuple[Callable[[bool, int], Any], str]] = {
    "linear": (linear, "sklearn"),
    "svm": (svm, "sklearn"),
    "random-forest": (forest, "sklearn"),
    "hist-gradient-boosting": (boosting, "sklearn"),
    "catboost": (catboost, "catboost"),
    "lightgbm": (lightgbm, "lightgbm"),
    "xgboost": (xgboost, "xgboost"),
    "explainable-boosting": (ebm, "interpret"),
}


def installed() -> list[str]:
    """Return the names of the peers that can be had."""
    return [name for name, (_, package) in PEERS.items() if find_spec(package) is not None]


def make_peer(name: str, classify: bool, seed: int) -> Any:
    """Return a peer on tables, or say what to install."""
    make, package = PEERS[name]
    if find_spec(package) is None:
        raise ImportError(f"{name} is not installed; install {package}, or leave it out of --methods.")
    return make_pipeline(Numbers(), make(classify, seed))


class _ScaledGrid(BaseEstimator):
    """A support vector machine whose bandwidths are tried in units of the number of columns."""

    def __init__(self, machine: Any):
        self.machine = machine

    def fit(self, X, y):
        """Search C and gamma."""
        grid = {"C": COSTS, "gamma": [g / X.shape[1] for g in GAMMAS]}
        scale = (y.mean(), y.std() or 1.0) if isinstance(self.machine, SVR) else None
        self.scale_ = scale
        self.search_ = GridSearchCV(self.machine, grid, cv=FOLDS)
        self.search_.fit(X, y if scale is None else (y - scale[0]) / scale[1])
        return self

    def predict(self, X):
        """Predict with the best."""
        found = self.search_.predict(X)
        return found if self.scale_ is None else self.scale_[0] + self.scale_[1] * found
