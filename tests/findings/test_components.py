"""Components against the definition of the functional ANOVA, for every kind of predictor that has them exactly."""

import numpy as np
import pandas as pd
import pytest
from tests.findings import brute

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Products
from manykernels.findings import components, shapley, shares
from manykernels.kernels import RBF, Constant, Dirichlet, Laplacian, Linear, Polynomial
from manykernels.solvers import Greedy, LpNorm, PolynomialMKL, Uniform


def rows(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 2, (n, d))
    return X, X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.3 * X[:, d - 1] + 0.05 * rng.normal(size=n)


def per_column(d, *kernels):
    return [kernel(1.0 + 0.3 * j, columns=[j]) for j in range(d) for kernel in kernels]


def monomials():
    X, y = rows()
    return MKLRegressor(Products(degree=3), solver=Greedy(max_kernels=6), C=1e3).fit(X, y), X


def monomials_of_all_degrees():
    X, y = rows()
    return MKLRegressor(Products(degree=2), solver=Uniform(), C=10.0).fit(X, y), X


def greedy_products_of_kernels():
    X, y = rows()
    family = Products(degree=3, base=per_column(4, RBF))
    return MKLRegressor(family, solver=Greedy(max_kernels=8), C=1e3).fit(X, y), X


def listed_products_of_two_kernels_on_a_column():
    X, y = rows(d=3)
    return MKLRegressor(Products(degree=3, base=per_column(3, RBF, Laplacian)), solver=Uniform(), C=50.0).fit(
        X, y
    ), X


def a_sum_of_products_as_one_kernel():
    X, y = rows(d=4)
    family = Products(degree=5, base=per_column(4, RBF, Laplacian) + [RBF(0.7, columns=[j]) for j in (0, 1)])
    model = MKLRegressor(family, solver=Uniform(), C=50.0).fit(X, y)
    assert len(model.combination_) == 1  # 3,002 products, not listed
    return model, X


def a_sum_of_ordered_products_as_one_kernel():
    X, y = rows(d=4)
    family = Products(
        degree=4, base=per_column(4, RBF, Laplacian) * 2, count="ordered", degree_prior=[1, 2, 0.5, 1]
    )
    model = MKLRegressor(family, solver=Uniform(), C=50.0).fit(X, y)
    assert len(model.combination_) == 1
    return model, X


def a_power_of_a_learned_sum():
    X, y = rows()
    return MKLRegressor(per_column(4, RBF), solver=PolynomialMKL(degree=3), C=10.0).fit(X, y), X


def kernels_on_columns_and_their_sums():
    X, y = rows(d=5)
    kernels = [RBF(1.0), Laplacian(2.0, columns=[0, 3]), Linear(), Linear(columns=[1, 4]), Constant(2.0)]
    return MKLRegressor(kernels, solver=Uniform(), C=10.0).fit(X, y), X


def a_kernel_that_does_not_split():
    X, y = rows(d=4)
    kernels = [Polynomial(2, columns=[0, 1]), RBF(1.0, columns=[2]), Linear()]
    return MKLRegressor(kernels, solver=LpNorm(), C=10.0).fit(X, y), X


def lines():
    X, y = rows()
    return MKLRegressor([Linear(columns=[2, 0]), Linear()], solver=Uniform(), C=10.0).fit(X, y), X


def explicit_features():
    X, y = rows()
    kernels = [
        Dirichlet(1.3, columns=[2]),
        Linear(columns=[3, 1]),
        Constant(3.0),
        Dirichlet(0.4, columns=[0]),
    ]
    return MKLRegressor(kernels, solver=Uniform(), C=10.0).fit(X, y), X


def the_default_on_numbers():
    X, y = rows(n=80)
    return MKLRegressor().fit(X, y), X


def the_default_on_a_table():
    X, y = rows(n=90)
    table = pd.DataFrame(X, columns=list("abcd"))
    table["kind"] = np.random.default_rng(1).choice(["red", "green", "blue"], len(X))
    table["same"] = 1.0
    table.loc[::7, "b"] = np.nan
    return MKLRegressor().fit(table, y + (table["kind"] == "red")), table


def classes():
    X, y = rows()
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    return MKLClassifier([RBF(1.0), Laplacian(1.0, columns=[0])], solver=Uniform(), C=1.0).fit(X, labels), X


def targets_with_weights_of_their_own():
    X, y = rows()
    model = MKLRegressor(
        [RBF(1.0, columns=[0, 1]), Laplacian(1.0)], solver=LpNorm(), C=5.0, weights="per_target"
    )
    return model.fit(X, np.column_stack([y, np.cos(X[:, 1])])), X


def views():
    X, y = rows(d=6)
    parts = {"rna": X[:, :3], "mri": X[:, 3:5], "age": X[:, 5:]}
    return MKLRegressor(solver=LpNorm(), kernels={v: RBF(2.0) for v in parts}, C=5.0).fit(parts, y), parts


MODELS = [
    monomials,
    monomials_of_all_degrees,
    greedy_products_of_kernels,
    listed_products_of_two_kernels_on_a_column,
    a_sum_of_products_as_one_kernel,
    a_sum_of_ordered_products_as_one_kernel,
    a_power_of_a_learned_sum,
    kernels_on_columns_and_their_sums,
    a_kernel_that_does_not_split,
    lines,
    explicit_features,
    the_default_on_numbers,
    the_default_on_a_table,
    classes,
    targets_with_weights_of_their_own,
    views,
]


def few(X, q):
    """Return some rows of a table or of views."""
    if isinstance(X, dict):
        return {name: part[3 : 3 + q] for name, part in X.items()}
    return X[3 : 3 + q]


@pytest.fixture(scope="module", params=MODELS, ids=lambda make: make.__name__)
def case(request):
    model, X = request.param()
    background = few(X, 4)
    F, variables = brute.table_of_scores(model, background)
    return model, background, F, variables, brute.anova(F)


def scale(F):
    return F.std()


def test_components_are_those_of_the_definition(case):
    model, background, F, variables, truth = case
    found = components(model, background)
    values = np.asarray(found.values).reshape(len(F), len(found.components), -1)
    numbers = {v.inside: g for g, v in enumerate(variables)}
    listed = {S: k for k, S in enumerate(found._subsets)}
    # Coefficients of both signs, up to 1e3 times the scores here, cost a few digits: the sums round at 1e-12 or so.
    for S, part in truth.items():
        expected = brute.at_rows(part, F)
        got = (
            values[:, listed[S]]
            if S in listed
            else np.zeros_like(expected) + (found.constant if not S else 0.0)
        )
        assert np.abs(got - expected).max() <= 1e-9 * scale(F)
    assert len(numbers) == len(variables)


def test_shares_are_those_of_the_definition(case):
    model, background, _, _, truth = case
    found = components(model, background)
    variances = {
        S: np.square(part).mean(axis=tuple(range(part.ndim - 1))).sum() for S, part in truth.items() if S
    }
    total = sum(variances.values())
    shares_ = dict(zip(found._subsets, found.shares))
    assert found.exact.all()
    for S, variance in variances.items():
        assert shares_.get(S, 0.0) == pytest.approx(variance / total, abs=1e-10)


def test_shapley_values_share_components_equally(case):
    model, background, F, variables, truth = case
    found = shapley(model, background, background)
    places = [found.columns.index(v.inside) for v in variables]
    values = np.asarray(found).reshape(len(F), len(found.names), -1)
    for g, place in enumerate(places):
        expected = sum(brute.at_rows(part, F) / len(S) for S, part in truth.items() if g in S)
        assert np.abs(values[:, place] - expected).max() <= 1e-9 * scale(F)
    scores = model.result_.predictor.scores(np.asarray(model._rows(background), dtype=float))
    assert np.abs(values.sum(axis=1) + found.constant - scores).max() <= 1e-9 * scale(F)


def test_sobol_shares_add_up_components(case):
    model, background, _, variables, truth = case
    variances = {
        S: np.square(part).mean(axis=tuple(range(part.ndim - 1))).sum() for S, part in truth.items() if S
    }
    total, found = sum(variances.values()), shares(model, background)
    for g, variable in enumerate(variables):
        k = found.columns.index(variable.inside)
        assert found.first[k] == pytest.approx(variances[(g,)] / total, abs=1e-10)
        assert found.total[k] == pytest.approx(
            sum(v for S, v in variances.items() if g in S) / total, abs=1e-10
        )


@pytest.mark.parametrize(
    "kernels", ["auto", {"one": RBF(1.0), "two": RBF(1.0)}], ids=["learned", "as they are"]
)
def test_a_view_of_one_column_has_a_curve(kernels):
    rng = np.random.default_rng(0)
    X = {"one": rng.normal(5, 3, (50, 1)), "two": rng.normal(size=(50, 2))}
    y = np.sin(X["one"][:, 0]) + X["two"][:, 0]
    model = MKLRegressor(kernels, C=100.0).fit(X, y)
    parts = components(model, X)
    effect = parts.effect("one")
    values = np.interp(X["one"][:, 0], effect.grid[0], effect.values)
    inside = np.abs(X["one"][:, 0] - 5) < 5
    # The curve at the rows is the component there, up to 101 points joined by lines.
    assert np.corrcoef(values[inside], parts.values[inside, parts.names.index("one")])[0, 1] > 0.999
