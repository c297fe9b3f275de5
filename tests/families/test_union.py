"""Families and kernels together."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from manykernels import MKLRegressor, load
from manykernels.families import Enumerable, Gaussians, Laplacians, Maximisable, Precomputed, Products, Union
from manykernels.families.base import Direction, can
from manykernels.kernels import RBF, Linear
from manykernels.problem import Scale
from manykernels.solvers import Greedy, GreedyAlignment, LpNorm, MirrorDescent

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=60)


def test_it_can_do_what_all_of_its_parts_can():
    continua, lists = Union([Gaussians(), Linear()]), Union([RBF(1.0), Products(degree=2)])
    assert can(continua, Maximisable) and not can(continua, Enumerable)
    assert can(lists, Enumerable) and lists.resolve(4).size() == 15
    assert np.isinf(continua.size())


def test_the_best_member_is_the_best_of_all_parts():
    A = RNG.normal(size=(60, 1))
    family = Union([Gaussians(), Laplacians(), Linear()]).resolve(4).adapt(X, np.ones(60))
    scale = Scale.fit(family, X, "trace")
    found = family.best(X, Direction.of_gradient(A), scale, size=3)
    each = [
        part.best(X, Direction.of_gradient(A), Scale.fit(part, X, "trace")).values[0]
        for part in family.families()
    ]
    assert found.values[0] == pytest.approx(max(each))
    again = family.best(X, Direction.of_gradient(A), scale, exclude=found.members[:1])
    assert again.members[0] != found.members[0]


@pytest.mark.parametrize("solver", [Greedy(max_kernels=3), GreedyAlignment()], ids=str)
def test_solvers_that_search_take_it(solver):
    model = MKLRegressor(
        {"smooth": Gaussians(), "rough": Laplacians(), "line": Linear()}, solver=solver, C=10
    )
    model.fit(X, y)
    assert model.score(X, y) > 0.5
    assert {r["part"] for r in model.combination_.records()} <= {"smooth", "rough", "line"}


def test_as_a_list_it_is_the_list():
    kernels = [RBF(1.0), RBF(3.0), Linear()]
    union = MKLRegressor(Union(kernels), solver=LpNorm(tol=1e-8)).fit(X, y)
    plain = MKLRegressor(kernels, solver=LpNorm(tol=1e-8)).fit(X, y)
    assert_allclose(union.weights_, plain.weights_, rtol=1e-5)
    assert_allclose(union.predict(X), plain.predict(X), rtol=1e-6)


def test_a_list_or_dict_with_a_family_in_it_is_a_union(tmp_path):
    model = MKLRegressor([Gaussians(), Linear()]).fit(X, y)
    assert isinstance(model.combination_.family, Union)
    model.save(tmp_path / "m.mk")
    assert (load(tmp_path / "m.mk").predict(X) == model.predict(X)).all()


def test_names_lead_the_names_of_kernels():
    union = Union({"rna": Gaussians(), "age": Linear()})
    assert union.label((0, 1.5)) == "rna: rbf(σ=1.5)" and union.label((1, 0)) == "age"
    assert Union([Gaussians()]).label((0, 1.5)) == "rbf(σ=1.5)"


def test_nested_parameters_can_be_set():
    model = MKLRegressor(Union([Gaussians(), Linear()]))
    assert model.set_params(kernels__parts=[Linear()]).kernels.size() == 1


def test_what_it_cannot_be_is_refused():
    for parts, words in (
        ([], "parts of Union is empty"),
        ("gaussian", "parts of Union is 'gaussian'; pass a list"),
        ([Precomputed()], "takes families and kernels on rows"),
        ([Union([Linear()])], "no other unions"),
    ):
        with pytest.raises(ValueError, match=words):
            Union(parts).resolve(4)
    with pytest.raises(ValueError, match="MirrorDescent needs a family that can draw"):
        MKLRegressor([Gaussians(), Linear()], solver=MirrorDescent(5)).fit(X, y)
