"""Products that enter only with their parts: against a list of all that may."""

import itertools

import numpy as np
import pytest

from manykernels import Greedy, Hierarchical, LpNorm, MKLRegressor, Products, Uniform, Union
from manykernels.families.base import Direction
from manykernels.kernels import RBF, Linear
from manykernels.problem import Scale


def data(n=200, r=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    y = X[:, 0] + X[:, 1] + 2 * X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] * X[:, 4] + 0.3 * rng.normal(size=n)
    return X[:, :r], y


def parts(z):
    return {z[:i] + z[i + 1 :] for i in range(len(z))}


def fits(z, others, heredity):
    return len(z) == 1 or (all if heredity == "strong" else any)(q in others for q in parts(z))


@pytest.mark.parametrize("heredity", ["weak", "strong"])
@pytest.mark.parametrize("base", [None, [RBF(1.0), Linear(columns=[0]), Linear(columns=[1]), RBF(3.0)]])
def test_a_search_compares_all_that_may_join(heredity, base):
    X, y = data(60, 4)
    family = Products(degree=3, heredity=heredity, base=base).resolve(4)
    scale = Scale.fit(family, X, "trace")
    known = [(0,), (1,), (0, 1), (2, 2)]
    direction = Direction.of_gradient(y[:, None])
    everything = [z for d in (1, 2, 3) for z in itertools.combinations_with_replacement(range(4), d)]
    allowed = [z for z in everything if z not in known and fits(z, known, heredity)]
    forms = np.array([np.vdot(family.gram(X, X, [z], [1.0]), direction.matrix()) for z in allowed])
    values = forms / scale.rho_sq(allowed, 1.0)
    best = family.searcher(X, scale).joining(direction, known, len(everything))
    assert set(best.members) == set(allowed)
    assert best.members[0] == allowed[int(np.argmax(values))]
    np.testing.assert_allclose(best.values, np.sort(values)[::-1], rtol=1e-9)


@pytest.mark.parametrize("heredity", ["weak", "strong"])
@pytest.mark.parametrize("solver", [Greedy(), Greedy(6), Greedy(6, corrective=False, max_iter=30)])
@pytest.mark.filterwarnings("ignore:Greedy stopped")
def test_models_keep_it(heredity, solver):
    X, y = data()
    model = MKLRegressor(Products(degree=3, heredity=heredity), solver=solver, C=100.0).fit(X, y)
    chosen = [z for z, w in zip(model.combination_.members, model.combination_.weights, strict=True) if w > 0]
    assert (0, 1) in chosen
    assert all(fits(z, chosen, heredity) for z in chosen)
    assert model.gap_kind_ == "lower_bound"


def test_without_it_a_product_needs_no_parts():
    X, y = data()
    model = MKLRegressor(Products(degree=3), C=100.0).fit(X, y)
    assert (2, 3, 4) in model.combination_.members and (2, 3) not in model.combination_.members


def test_what_has_lost_its_parts_goes_too():
    family = Products(degree=3, heredity="strong").resolve(4)
    assert family.rightful([(0,), (1,), (0, 1), (0, 1, 2), (2,)]) == [(0,), (1,), (0, 1), (2,)]
    assert family.rightful([(0, 1)]) == []
    weak = Products(degree=3, heredity="weak").resolve(4)
    assert weak.rightful([(1,), (0, 1), (0, 0, 1), (2, 3)]) == [(1,), (0, 1), (0, 0, 1)]


def test_solvers_that_cannot_refuse():
    X, y = data(40, 3)
    family = Products(degree=2, heredity="weak")
    for solver in (Uniform(), LpNorm(), Hierarchical()):
        with pytest.raises(
            ValueError, match=r"weak heredity of products, which .* cannot respect; use Greedy"
        ):
            MKLRegressor(family, solver=solver, C=1.0).fit(X, y)
    with pytest.raises(ValueError, match="heredity can be respected by Products alone"):
        MKLRegressor(Union([family, Linear()]), solver=Greedy(2), C=1.0).fit(X, y)
    with pytest.raises(ValueError, match="needs scales that can be computed"):
        MKLRegressor(family, solver=Greedy(2), C=1.0, normalize=np.ones(9)).fit(X, y)


def test_the_convex_counterpart_takes_it_strong():
    X, y = data(60, 3)
    strong = MKLRegressor(Products(degree=2, heredity="strong"), solver=Hierarchical(), C=1.0).fit(X, y)
    plain = MKLRegressor(Products(degree=2), solver=Hierarchical(), C=1.0).fit(X, y)
    np.testing.assert_array_equal(strong.predict(X), plain.predict(X))
