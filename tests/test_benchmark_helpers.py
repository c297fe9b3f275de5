"""What the benchmarks compute beside the package: alignment, ranks, minima, and one protocol for all."""

import importlib
import pathlib

import numpy as np
import pytest
from sklearn.datasets import make_classification

from manykernels import AlignedKernel
from manykernels.families import Gaussians
from manykernels.solvers import GreedyAlignment

FOLDER = pathlib.Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def helpers(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("mkl_methods")


def test_alignment_is_the_solvers(helpers):
    X, y = make_classification(80, 5, random_state=0)
    kernel = AlignedKernel(Gaussians(), solver=GreedyAlignment()).fit(X, y)
    # Both sum the same n² products in double precision.
    assert helpers.alignment(kernel.transform(X), y * 2.0 - 1) == pytest.approx(
        kernel.solver_.alignments_[-1], rel=1e-9
    )


def test_median_rank_shares_ties_and_leaves_others_out(helpers):
    errors = {
        "a": {"t": np.array([0.1]), "u": np.array([0.2])},
        "b": {"t": np.array([0.1]), "u": np.array([0.3])},
        "c": {"t": np.array([0.0]), "u": np.array([0.0])},
    }
    assert helpers.median_ranks(errors) == {"a": 2.25, "b": 2.75, "c": 1.0}
    assert helpers.median_ranks(errors, ["a", "b"]) == {"a": 1.25, "b": 1.75}
    assert helpers.better_of(errors, "a", "b") == (1, 1, 0)


def test_splits_are_disjoint(helpers):
    X = np.arange(30.0)[:, None]
    s = helpers.split_rows(X, X[:, 0], (10, 5, 100), np.random.default_rng(0))
    rows = np.concatenate([s.X, s.Xv, s.Xt])[:, 0]
    assert sorted(rows) == list(range(30))
    assert (s.X[:, 0] == s.y).all()


@pytest.mark.parametrize("ard", [False, True])
def test_every_method_runs_under_the_protocol(helpers, ard):
    X, y = make_classification(110, 3, n_informative=2, n_redundant=0, class_sep=2.0, random_state=0)
    s = helpers.split_rows(X, y * 2.0 - 1, (40, 30, 40), np.random.default_rng(0))
    methods = helpers.continuous(ard, steps=3, shrinkage=(1e-3,))
    if not ard:
        methods += helpers.finite([0.5, 2.0, 8.0], single=True)
    for method in methods:
        found = helpers.evaluate(method, s, (1.0, 10.0), aligned=True)
        assert found["error"] < 0.35, method.name
        assert found["C"] in (1.0, 10.0)
        assert 0 < found["alignment"] < 1


def test_minima_count_ends_and_valleys(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    landscape = importlib.import_module("alignment_landscape")
    assert landscape.minima(np.array([0.0, 1.0, 0.5, 2.0, 1.0])).tolist() == [0, 2, 4]
    assert landscape.minima(np.array([1.0, 1.0, 1.0])).tolist() == []
