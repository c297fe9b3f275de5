"""Arguments of the wrong kind or size, one or two at a time, in every place where something can be passed.

Every parameter of the models of the zoo, those of their solvers and kernels included, every argument of ``fit`` and of
what a model can do afterwards, with values that a program or a slip of the hand may come to.
"""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import fractions
import inspect
import traceback
import warnings
from functools import cache

import numpy as np
import pandas as pd
from sklearn.base import clone

from manykernels import MKLOutlier
from manykernels.kernels import RBF, Linear
from manykernels.solvers import Greedy, LpNorm

from .test_files import use
from .trials import ENDED, TooLong, check_sentence, limited
from .zoo import MODELS, ROWS, STACK, X, rows_of, y

#: What a number, a name or an object may have become.
WILD = (
    0,
    -1,
    1,
    2,
    10**6,
    10**30,
    10**400,
    -(10**400),
    0.0,
    -0.0,
    0.5,
    1.5,
    1e-320,
    1e-200,
    1e200,
    1.7e308,
    np.inf,
    -np.inf,
    np.nan,
    True,
    None,
    "",
    "auto",
    "nonsense",
    "x" * 5000,
    b"auto",
    [],
    (),
    {},
    [[]],
    [1.0],
    [1.0, 2.0, 3.0],
    [np.nan, 1.0],
    [10**400, 1],
    ["a", 1],
    {"a": 1},
    {"b": 10**400, "a": 1, "c": 1},
    np.float32(0.5),
    np.int8(3),
    np.array(2.0),
    np.array([]),
    np.ones((3, 3)),
    np.ones(240),
    np.zeros(240, dtype=bool),
    np.full(240, 10.0**200),
    np.arange(240),
    1j,
    decimal.Decimal("1.5"),
    fractions.Fraction(1, 3),
    dt.date(2020, 1, 1),
    slice(None),
    object(),
    len,
    int,
    pd.NA,
    pd.Series([1.0, 2.0]),
    Linear(),
    RBF,
    LpNorm(),
    Greedy,
)
#: Arguments beside rows and targets.
ARGUMENTS = ("sample_weight", "on_iteration", "init", "checkpoint", "groups")
OUTLIERS = "outliers"


def wild(rng):
    return copy.deepcopy(WILD[int(rng.integers(len(WILD)))])


@cache
def made(name):
    """Return a fitted model of the zoo."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MKLOutlier("gaussian", nu=0.2).fit(X[:80]) if name == OUTLIERS else MODELS[name]()


def rows_and_targets(name, model):
    """Return what the model was taught, nearly."""
    plain = name not in ROWS
    rows, n = (X[:80], 80) if plain else (rows_of(name), 5)
    if name.startswith("precomputed"):
        rows = STACK[:n, :n]
    classes = getattr(model, "classes_", None)
    return rows, y[:n] if classes is None else classes[np.arange(n) % len(classes)]


def alter_parameters(model, rng) -> str:
    """Set one of the parameters, at any depth, to something else, and return what was set."""
    params = model.get_params(deep=True)
    name = str(rng.choice(sorted(params)))
    value = wild(rng)
    model.set_params(**{name: value})
    return f"{name}={str(value)[:60]} ({type(value).__name__})"


def later(model, name, rng, told: list[str]) -> None:
    """Call what a fitted model can do, with one argument that is wrong."""
    rows, value = rows_of(name), wild(rng)
    calls = {
        "predict": lambda: model.predict(value),
        "contributions": lambda: model.contributions(rows, by=value),
        "predict_proba": lambda: model.predict_proba(value),
        "decision_function": lambda: model.decision_function(value),
        "predict_interval": lambda: model.predict_interval(rows, alpha=value),
        "score": lambda: model.score(rows, value),
        "transform": lambda: model.transform(value),
        "save": lambda: model.save(value) if not isinstance(value, str | bytes) else None,
        "partial_fit": lambda: copy.deepcopy(model).partial_fit(rows, value),
    }
    kinds = [kind for kind in calls if hasattr(model, kind)]
    kind = kinds[int(rng.integers(len(kinds)))]
    told.append(f"{kind}({str(value)[:60]} ({type(value).__name__}))")
    calls[kind]()


def fit(model, name, fitted, rng, told: list[str]) -> None:
    """Fit with a parameter or an argument that is wrong; what it was is told."""
    rows, targets = rows_and_targets(name, fitted)
    given = {"X": rows, "y": None if name == OUTLIERS else targets}
    if rng.random() < 0.6:
        told.append(alter_parameters(model, rng))
    else:
        at, value = str(rng.choice(["X", "y", *ARGUMENTS])), wild(rng)
        told.append(f"fit({at}={str(value)[:60]} ({type(value).__name__}))")
        known = at in inspect.signature(model.fit).parameters and not (
            at == "on_iteration" and callable(value)
        )
        if not known or (
            at in ("X", "checkpoint") and isinstance(value, str | bytes)
        ):  # it may be a file's name
            return
        given[at] = value
    model.fit(**given)
    if given["X"] is rows:
        use(model, rows_of(name))


def check_refusal(error: Exception) -> None:
    """Ours are sentences; scikit-learn's words about rows and targets are what people know."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = any(
        place in frame.filename for frame in frames for place in ("sklearn/utils/", "sklearn/metrics/")
    )
    if not theirs:
        check_sentence(str(error))


def attempt(rng):
    name, told = str(rng.choice([*sorted(MODELS), OUTLIERS])), []
    fitted = made(name)
    try:
        with warnings.catch_warnings(), limited(ENDED):
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            if rng.random() < 0.25:
                later(fitted, name, rng, told)
            else:
                fit(clone(fitted), name, fitted, rng, told)
    except TooLong:
        raise AssertionError(f"{name}, {told}: it had not ended after {ENDED:.0f} s") from None
    except (ValueError, TypeError, AttributeError) as error:
        try:
            check_refusal(error)
        except AssertionError as wrong:
            raise AssertionError(f"{name}, {told}: {type(error).__name__}: {wrong}") from error
    except Exception as error:
        raise AssertionError(f"{name}, {told}: {type(error).__name__}: {error}") from error


def test_arguments_that_make_no_sense_are_refused_in_a_sentence(campaign):
    campaign.run(1000, attempt)
