"""What names and "auto" become."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons

from manykernels import AlignedKernel, MKLClassifier, MKLRegressor
from manykernels.families import Finite, Gaussians, Products
from manykernels.kernels import RBF, Laplacian
from manykernels.registry import (
    SOLVERS,
    check_memory,
    choose_solver,
    exact_rows,
    make_solver,
    solver_class,
    solver_names,
)
from manykernels.solvers import Blockwise, Greedy, LeaveOneOut, LpNorm, MirrorDescent, Obscure, Ufo, Uniform

#: The solvers that can search a continuum, draw from it or prepare it; the others need a list.
SEARCHING = {"greedy", "greedy_alignment", "mirror_descent", "blockwise", "leave_one_out"}


@pytest.fixture(scope="module")
def moons():
    return make_moons(60, noise=0.2, random_state=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", sorted(set(SOLVERS) - {"hierarchical"}))  # which needs products
def test_gaussian_is_a_continuum_where_the_solver_can_search_one(moons, name):
    few = {"mirror_descent": MirrorDescent(5), "greedy": Greedy(max_kernels=2)}
    model = MKLClassifier(solver=few.get(name, name), kernels="gaussian", C=1.0).fit(*moons)
    family = model.combination_.family
    if name in SEARCHING:
        assert isinstance(family, Gaussians) and np.isinf(family.size())
        assert family.ard == (name in ("blockwise", "leave_one_out"))  # which learn a bandwidth per column
    else:
        assert isinstance(family, Finite) and family.size() == 13
    assert model.score(*moons) > 0.8


def test_the_rule_is_the_same_for_the_transformer(moons):
    assert isinstance(AlignedKernel().fit(*moons).combination_.family, Gaussians)
    assert AlignedKernel(solver="alignment").fit(*moons).combination_.family.size() == 13
    assert AlignedKernel(solver=Uniform()).fit(*moons).combination_.family.size() == 13


def test_auto_says_what_it_chose(moons, capsys):
    model = MKLClassifier(verbose=1, kernels="gaussian", C=1.0).fit(*moons)
    assert isinstance(model.solver_, LeaveOneOut)
    said = capsys.readouterr().err.splitlines()[0]
    assert "60 rows" in said and "Gaussian" in said and "GiB" in said and "about" in said
    assert "LeaveOneOut(" in said and "squared loss" in said
    MKLClassifier("linear", verbose=1, C=1.0).fit(*moons)
    said = capsys.readouterr().err.splitlines()[0]
    assert "linear" in said and "LpNorm(" in said


def test_the_default_is_a_good_one():
    X, y = load_iris(return_X_y=True)
    train = np.arange(150) % 2 == 0
    model = MKLClassifier().fit(X[train], y[train])
    assert model.score(X[~train], y[~train]) > 0.93
    model = MKLRegressor().fit(X[train, :3], X[train, 3])
    assert model.score(X[~train, :3], X[~train, 3]) > 0.9


@pytest.mark.parametrize("name", ["LpNorm", "lpnorm", "lp-norm", "lp_norm", "LP_NORM"])
def test_names_of_solvers_are_read_in_any_spelling(moons, name):
    assert solver_class(name) is LpNorm
    assert isinstance(MKLClassifier(solver=name, kernels="gaussian", C=1.0).fit(*moons).solver_, LpNorm)
    assert isinstance(make_solver("AUTO", Finite([RBF(1.0)]), None), LpNorm)


def test_every_solver_goes_by_the_name_of_its_class():
    for name, cls in SOLVERS.items():
        assert solver_class(cls.__name__) is cls
        assert name.replace("_", "-") in solver_names()


def test_an_unknown_name_is_answered_with_the_known_ones(moons):
    with pytest.raises(
        ValueError, match=r"solver is 'lpnormal'; use 'auto', alignment, blockwise, greedy, .*uniform"
    ):
        MKLClassifier(solver="lpnormal", kernels="gaussian", C=1.0).fit(*moons)


def test_rows_beyond_what_a_gram_matrix_can_hold_are_announced():
    assert isinstance(choose_solver(Gaussians(), 50_000), Blockwise)
    assert isinstance(choose_solver(Finite([Laplacian(1.0)]).resolve(3), 50_000), Blockwise)
    with pytest.warns(UserWarning, match="X has 50,000 rows.*18.6 GiB"):
        assert isinstance(choose_solver(Finite([lambda X, Z: X @ Z.T]).resolve(3), 50_000), LpNorm)
    assert isinstance(choose_solver(Products(degree=2).resolve(5), 1_000_000), Greedy)  # explicit features


def test_what_cannot_fit_is_refused_before_it_is_tried():
    X = np.zeros((2_000, 2))
    X[:, 0] = np.arange(len(X))
    with pytest.raises(
        ValueError, match=r"LeaveOneOut needs matrices of 0.1 GiB.*use solver=Blockwise\(\), at most"
    ):
        MKLRegressor(solver=LeaveOneOut(), memory="50MiB").fit(X, X[:, 0])
    check_memory(LpNorm(), Finite([RBF(1.0)]), 2_000, 2**27)
    for on_the_fly in (Obscure(), Ufo()):  # they compute kernels in blocks
        check_memory(on_the_fly, Finite([RBF(1.0)]), 10**7, 2**27)
    with pytest.raises(ValueError, match=r"needs matrices of .* GiB, and .* GiB are free"):
        check_memory(LpNorm(), Finite([lambda A, B: A @ B.T]), 10**7, None)


def test_memory_says_where_random_features_take_over():
    assert exact_rows(2**30) == 6_688
    assert isinstance(choose_solver(Gaussians(), 3_000, 2**27), Blockwise)
    assert isinstance(choose_solver(Gaussians(), 3_000, 2**28), LeaveOneOut)
    with pytest.raises(ValueError, match="memory is 'much'; pass a number of bytes"):
        MKLRegressor(memory="much").fit(np.eye(3), np.arange(3.0))
