"""A reader who follows a fit changes files seldom until the problem stands."""

import sys
from pathlib import Path

import numpy as np
import pytest

import manykernels
from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Products
from manykernels.problem import Problem
from manykernels.solvers import Greedy

PACKAGE = str(Path(manykernels.__file__).parent)
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))


class Stands(Exception):
    """Of no interest: the fit ends here."""


def changes_of_module(fit, monkeypatch) -> int:
    """Return how often a call enters another module of the package, up to the first `Problem`."""
    entered = []

    def look(frame, event, arg):
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGE) and entered[-1:] != [file]:
            entered.append(file)

    def made(*args, **kwargs):
        sys.setprofile(None)
        raise Stands

    monkeypatch.setattr(Problem, "__init__", made)
    sys.setprofile(look)
    try:
        with pytest.raises(Stands):
            fit()
    finally:
        sys.setprofile(None)
    return len(entered)


@pytest.mark.parametrize(
    "model, most",
    [(MKLRegressor(Products(degree=2), solver=Greedy()), 20), (MKLClassifier(), 28)],
    ids=["greedy", "default"],
)
def test_the_way_to_the_problem_is_short(model, most, monkeypatch):
    y = X[:, 0] * X[:, 1] > 0
    model.fit(X, y)  # what is imported and compiled once is not on the way
    assert changes_of_module(lambda: model.fit(X, y), monkeypatch) <= most
