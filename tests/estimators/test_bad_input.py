"""Bad input gets one clear sentence that names the argument and the remedy, before any long work."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from manykernels import MKLClassifier, MKLRegressor
from manykernels.estimators.base import as_needed
from manykernels.families import Finite, Precomputed, Products
from manykernels.kernels import RBF, Dirichlet, Laplacian, Linear, Polynomial
from manykernels.losses import Quantile
from manykernels.solvers import (
    Alignment,
    Blockwise,
    Greedy,
    GreedyAlignment,
    LpNorm,
    Obscure,
    SimpleMKL,
    Solver,
)

rng = np.random.default_rng(0)
X = rng.standard_normal((30, 4))
y = np.where(X[:, 0] > 0, 1, -1)


def says(match, call):
    with pytest.raises(ValueError, match=match) as info:
        call()
    text = str(info.value)
    assert "\n" not in text.strip(), "one sentence, please"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_and_infinite_values_are_refused(bad):
    Z = X.copy()
    Z[3, 1] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        MKLClassifier(kernels="gaussian", C=1.0).fit(Z, y)
    m = MKLClassifier(kernels="gaussian", C=1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        m.predict(Z)


def test_targets_must_match_rows():
    says("inconsistent numbers of samples", lambda: MKLClassifier(kernels="gaussian", C=1.0).fit(X, y[:-1]))


GAPS = {"blank": "", "spaces": "  ", "none": None, "nan": np.nan}


@pytest.mark.parametrize("gap", GAPS.values(), ids=GAPS)
@pytest.mark.parametrize("kind", [list, lambda v: np.array(v, dtype=object)], ids=["list", "array"])
def test_labels_with_gaps_are_refused(gap, kind):
    labels = ["a", "b"] * 15
    labels[7] = gap
    labels = kind(labels)
    sentence = "y has a missing value in row 7; remove that row, or fill it in"
    says(sentence, lambda: MKLClassifier([RBF(1.0)], C=1.0).fit(X, labels))
    says(sentence, lambda: MKLClassifier([RBF(1.0)], solver=Blockwise(), C=1.0).fit([(X, labels)]))
    says(sentence, lambda: MKLClassifier([RBF(1.0)], solver=Blockwise(), C=1.0).partial_fit(X, labels))
    says(
        "groups has a missing value in row 7",
        lambda: MKLClassifier([RBF(1.0)], C=1.0).fit(X, y, groups=labels),
    )


@pytest.mark.parametrize("dtype", ["string", "category", "Int64", "boolean", "datetime64[ns]"])
def test_columns_of_labels_with_gaps_are_refused(dtype):
    pd = pytest.importorskip("pandas")
    days = pd.to_datetime(["2026-01-01", "2026-01-02"])
    pair = {"Int64": [0, 1], "boolean": [False, True], "datetime64[ns]": list(days)}.get(dtype, ["a", "b"])
    labels = pd.Series([*pair, None, *pair * 13, *pair[:1]], dtype=dtype)
    says("y has a missing value in row 2", lambda: MKLClassifier([RBF(1.0)], C=1.0).fit(X, labels))


def test_numbers_with_gaps_are_refused():
    numbers = [1.0, None, *[2.0] * 28]
    says("y has a missing value in row 1", lambda: MKLRegressor([RBF(1.0)], C=1.0).fit(X, numbers))


@pytest.mark.parametrize("weight", [None, np.nan])
def test_class_weights_with_gaps_are_refused(weight):
    model = MKLClassifier([RBF(1.0)], C=1.0, class_weight={-1: weight, 1: 2.0})
    says("class_weight has no weight for the label -1; give it a number", lambda: model.fit(X, y))


def test_one_class_is_refused():
    says("y holds one class only", lambda: MKLClassifier(kernels="gaussian", C=1.0).fit(X, np.ones(30)))


def test_another_number_of_columns_is_refused():
    m = MKLClassifier(kernels="gaussian", C=1.0).fit(X, y)
    says("X has 3 features", lambda: m.predict(X[:, :3]))


@pytest.mark.parametrize("C", [0, -1, np.nan, np.inf, "1", None])
def test_C_must_be_positive(C):
    says("C is .*positive", lambda: MKLClassifier(C=C, kernels="gaussian").fit(X, y))


def test_sample_weights_must_not_be_negative_or_all_zero():
    says(
        "[Nn]egative", lambda: MKLClassifier(kernels="gaussian", C=1.0).fit(X, y, sample_weight=-np.ones(30))
    )
    says(
        "sample_weight is zero for every row",
        lambda: MKLClassifier(kernels="gaussian", C=1.0).fit(X, y, sample_weight=np.zeros(30)),
    )
    says(
        "sample_weight", lambda: MKLClassifier(kernels="gaussian", C=1.0).fit(X, y, sample_weight=np.ones(29))
    )


@pytest.mark.parametrize(
    ("kernels", "match"),
    [
        ([], "kernels is empty"),
        ({}, "kernels is empty"),
        ("gausian", "kernels is 'gausian'; use one of"),
        (["rbff"], "kernel 'rbff' is unknown; use one of"),
        ([3.0], "kernels holds 3.0, which is no kernel"),
        (7, "kernels is 7; pass a list or dict"),
        (np.zeros((30, 30, 2)), "kernels='precomputed'"),
        ([RBF(0.0)], "sigma of RBF.*positive"),
        ([RBF(-1)], "sigma of RBF.*positive"),
        ([RBF("auto")], "sigma of RBF.*positive"),
        ([Polynomial(degree=0)], "degree of Polynomial"),
        ([Polynomial(coef0=-1)], "coef0 of Polynomial"),
        ([Dirichlet(1.0)], "one column only; pass columns"),
        ([Dirichlet(-1.0, columns=[0])], "sigma of Dirichlet"),
        ([Linear(columns=[9])], "columns of Linear.*X has 4 columns"),
        ([Linear(columns=["age"])], "X has no column names"),
        ([Linear(columns=[True, False])], "mask of length 2"),
        ([Linear(columns=[])], "selects no column"),
        (Finite([RBF(1.0)], names=["a", "b"]), "names has 2 entries for 1 kernels"),
        (Products(degree=0), "degree of Products"),
        (Products(degree=1.5), "degree of Products"),
        (Products(count="all"), "count of Products"),
        (Products(base=[]), "base of Products is empty"),
        (Products(degree=2, degree_prior=[1.0]), "degree_prior of Products"),
    ],
    ids=str,
)
def test_kernels_that_make_no_sense(kernels, match):
    says(match, lambda: MKLClassifier(kernels, C=1.0).fit(X, y))


def test_a_missing_column_name_is_named():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    says(
        "names 'age', which X does not have; X has a, b, c, d",
        lambda: MKLClassifier([Linear(["age"])], C=1.0).fit(frame, y),
    )


@pytest.mark.parametrize(
    ("solver", "match"),
    [
        ("newton", "solver is 'newton'; use 'auto'"),
        (LpNorm, "pass 'auto', a name, or a solver such as"),
        (LpNorm(p=0.9), r"p of LpNorm is 0.9; use a number in \[1, 2\] or 'auto'"),
        (LpNorm(p=3), "p of LpNorm is 3"),
        (LpNorm(p="2"), "p of LpNorm"),
        (LpNorm(max_iter=0), "max_iter of LpNorm"),
        (SimpleMKL(tol=-1), "tol of SimpleMKL"),
    ],
    ids=str,
)
def test_solvers_that_make_no_sense(solver, match):
    says(match, lambda: MKLClassifier(solver=solver, kernels="gaussian", C=1.0).fit(X, y))


def test_unknown_losses_and_losses_for_the_wrong_task():
    says("loss", lambda: MKLClassifier(loss="hing", kernels="gaussian", C=1.0).fit(X, y))
    says(
        "loss is 'hinge', which is for classes; MKLRegressor takes 'squared', 'epsilon_insensitive', 'huber'",
        lambda: MKLRegressor(loss="hinge", kernels="gaussian", C=1.0).fit(X, y),
    )
    says(
        "loss is 'huber', which is for numbers; MKLClassifier takes 'squared', 'hinge'",
        lambda: MKLClassifier(loss="huber", kernels="gaussian", C=1.0).fit(X, y),
    )
    says(
        "Blockwise takes loss squared, not 'quantile'",
        lambda: MKLRegressor(loss="quantile", kernels="gaussian", solver="blockwise", C=1.0).fit(X, y),
    )


def test_losses_with_parameters_that_make_no_sense_and_targets_that_are_no_counts():
    says("q of Quantile is 2", lambda: MKLRegressor("gaussian", loss=Quantile(2), C=1.0).fit(X, y))
    says(
        "loss__q cannot be set, as loss is 'quantile', a name without parameters; pass an object first, such as "
        r"loss=losses.Quantile\(\) with its q",
        lambda: MKLRegressor(loss="quantile").set_params(loss__q=0.9),
    )
    counts = MKLRegressor("gaussian", loss="poisson", C=1.0)
    says(
        "y holds -1, and loss 'poisson' is for counts", lambda: counts.fit(X, np.where(y == y[0], -1.0, 2.0))
    )
    says("y holds nothing but zeros", lambda: counts.fit(X, np.zeros(len(X))))


@pytest.mark.parametrize(
    ("normalize", "match"),
    [
        ("max", "normalize is 'max'"),
        ("base", "normalize='base' needs a family of products"),
        ([1.0], "a continuum of kernels cannot be given one scale each"),
    ],
)
def test_scales_that_make_no_sense(normalize, match):
    says(match, lambda: MKLClassifier(normalize=normalize, kernels="gaussian", C=1.0).fit(X, y))


@pytest.mark.parametrize("normalize", [[1.0], [1.0] * 12 + [0.0], "ab"], ids=str)
def test_scales_of_a_list_are_one_positive_number_each(normalize):
    match = "normalize" if isinstance(normalize, str) else "one positive number for each of the 13 kernels"
    says(
        match,
        lambda: MKLClassifier(solver="lp_norm", normalize=normalize, kernels="gaussian", C=1.0).fit(X, y),
    )


def test_a_family_that_cannot_do_what_the_solver_needs_is_named():
    class Searches(Solver):
        from manykernels.families import HasRandomFeatures

        requires = (HasRandomFeatures,)

    says(
        "Searches needs a family with random features, and Precomputed is not",
        lambda: MKLClassifier("precomputed", solver=Searches(), C=1.0).fit(K, y),
    )


@pytest.mark.parametrize(
    ("kernels", "match"),
    [
        (["linear", RBF(1.0)], r"kernel 'linear' has none \(use Linear\(\) instead\)"),
        ([RBF(1.0), "cosine"], "kernel 'cosine' has none; pass"),
        ({"wide": RBF(9.0), "mine": lambda A, B: A @ B.T}, "kernel 'mine' has none; pass"),
    ],
    ids=["by name", "of scikit-learn", "a function"],
)
def test_the_kernel_without_random_features_is_named(kernels, match):
    says(
        f"Blockwise needs a family with random features, and {match}",
        lambda: MKLClassifier(kernels, solver="blockwise", C="auto").fit(X, y),
    )


P = [np.int64(2), np.float32(1.5)]


@pytest.mark.parametrize(
    "solver", [*(LpNorm(p) for p in P), *(Greedy(p=p) for p in P), Obscure(p=P[1])], ids=str
)
def test_p_may_be_a_number_of_numpy(solver):
    solver.check_params()


@pytest.mark.parametrize(
    "rows",
    ["rows.parquet", Path("rows.parquet"), [(X, y)], iter([X])],
    ids=["text", "path", "list", "iterator"],
)
def test_rows_to_predict_are_in_memory(rows):
    model = MKLClassifier([Laplacian(1.0)], solver=Blockwise(grids=4), C="auto").partial_fit(X, y)
    for predict in (model.predict, model.decision_function, model.contributions):
        says("X is .*not rows in memory; use predict_to", lambda predict=predict: predict(rows))
    says("partial_fit takes a batch of rows in memory; pass it to fit", lambda: model.partial_fit(rows, None))


def test_more_products_than_can_be_listed_are_refused_at_once():
    Z = rng.standard_normal((30, 300))
    says(
        "4,590,550 members, too many to list",
        lambda: MKLRegressor(Products(degree=3), solver=LpNorm(), C=1.0).fit(Z, y),
    )


# -- precomputed ---------------------------------------------------------------------------------------

K = np.stack([RBF(1.0)(X), RBF(3.0)(X)], axis=2)


def altered(s, t, i, value):
    bad = K.copy()
    bad[s, t, i] = value
    return bad


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_asymmetric_matrices_are_named(dtype):
    bad = altered(2, 5, 1, 0.1).astype(dtype)
    says(
        "kernel K1 is not symmetric at rows 2 and 5",
        lambda: MKLClassifier("precomputed", C=1.0).fit(bad, y),
    )


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_matrices_that_are_not_finite_are_named(value):
    says(
        "kernel dti is not finite at rows 3",
        lambda: MKLClassifier(Precomputed(["mri", "dti"]), C=1.0).fit(altered(3, 3, 1, value), y),
    )


def test_indefinite_matrices_are_named():
    bad = K.copy()
    bad[:, :, 1] -= 3 * np.eye(30)
    says("kernel K1 is not positive semi-definite", lambda: MKLClassifier("precomputed", C=1.0).fit(bad, y))


def test_wrong_shapes_of_stacks():
    says("square matrices", lambda: MKLClassifier("precomputed", C=1.0).fit(K[:, :20], y))
    m = MKLClassifier("precomputed", C=1.0).fit(K, y)
    says("the model was fitted on 2 kernels of 30 rows", lambda: m.predict(K[:, :, :1]))
    says("the model was fitted on 2 kernels of 30 rows", lambda: m.predict(K[:, :20]))
    says("names has 1 entries for 2 kernels", lambda: MKLClassifier(Precomputed(["mri"]), C=1.0).fit(K, y))


# -- strange but legal ---------------------------------------------------------------------------------


def test_constant_and_duplicated_columns_do_no_harm():
    Z = np.column_stack([X, np.full(30, 3.0), np.zeros(30), X[:, 0]])
    for kernels in ("gaussian", Products(degree=2)):
        m = MKLClassifier(kernels, solver=LpNorm(), C=1.0).fit(Z, y)
        assert m.converged_
        assert m.score(Z, y) > 0.9


def test_a_kernel_that_vanishes_is_dropped():
    Z = np.column_stack([X, np.zeros(30)])
    m = MKLClassifier([Linear(columns=[4]), Linear(columns=[0])], C=1.0).fit(Z, y)
    assert m.rho_[0] == 0
    assert m.weights_[0] == 0


def test_all_kernels_vanishing_is_refused():
    says("every kernel vanishes", lambda: MKLClassifier([Linear()], C=1.0).fit(np.zeros((30, 2)), y))


def test_rows_that_are_all_alike_still_give_a_model():
    with pytest.warns(UserWarning, match="no kernel can be aligned with y.*predictions will be constant"):
        m = MKLRegressor("gaussian", solver=GreedyAlignment(), C=1.0).fit(np.ones((10, 2)), np.arange(10.0))
    assert np.allclose(m.predict(np.ones((1, 2))), 4.5)


def test_a_callable_with_a_wrong_shape_is_named():
    def broken(A, B):
        return np.ones(3)

    says(r"kernel broken returned shape \(3,\)", lambda: MKLClassifier([broken], C=1.0).fit(X, y))


def test_sparse_rows_too_large_to_be_made_dense_are_refused():
    family = Products().resolve(X.shape[1])
    says("X is sparse with shape .*needs dense rows", lambda: as_needed(sp.csr_matrix(X), family, most=100))


def test_a_failed_fit_leaves_no_half_fitted_model():
    m = MKLClassifier([RBF(-1.0)], C=1.0)
    with pytest.raises(ValueError, match="sigma"):
        m.fit(X, y)
    assert not hasattr(m, "result_")
    with pytest.raises(Exception, match="not fitted"):
        m.predict(X)


def test_a_wrong_init_is_refused():
    says(
        "init must hold 2 non-negative",
        lambda: MKLClassifier([RBF(1.0), Linear()], C=1.0).fit(X, y, init=[1.0]),
    )


@pytest.mark.parametrize(
    "weights", [{-1: -1.0, 1: 1.0}, {-1: np.nan, 1: 1.0}, {-1: np.inf, 1: 1.0}, {-1: 0.0, 1: 0.0}, "foo", 3]
)
def test_class_weights_that_make_no_sense(weights):
    says(
        "class_weight (of MKLClassifier is|is|has no weight)",
        lambda: MKLClassifier(class_weight=weights, kernels="gaussian", C=1.0).fit(X, y),
    )


def test_classes_in_place_of_kernels_are_named():
    says(r"holds the class RBF; pass an instance", lambda: MKLClassifier([RBF], C=1.0).fit(X, y))


def test_slices_of_names_are_refused():
    says(
        "a slice needs whole numbers",
        lambda: MKLClassifier([Linear(columns=slice("a", "c"))], C=1.0).fit(X, y),
    )


def test_values_that_overflow_are_told():
    says(
        "too large to add up|too extreme to compute with",
        lambda: MKLRegressor(Products(degree=400), solver="uniform", C=1.0).fit(X, y),
    )


# -- numbers of any size ---------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [10**30, np.float32(2.0), 3])
def test_C_may_be_any_real_number(C):
    X = np.random.default_rng(0).normal(size=(20, 2))
    assert float(C) == MKLRegressor("linear", C=C).fit(X, X[:, 0]).C_


@pytest.mark.parametrize("C", [10**400, 1e300, 1e-300, True, "large", None, 0, -1.0, np.nan, np.inf])
def test_C_out_of_range_is_named(C):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=r"^C (is|times) .*\.?$"):
        MKLRegressor("linear", C=C).fit(X, X[:, 0])


@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_whole_numbers_beyond_floats_are_refused_in_a_sentence(name):
    given = {"X": [[1, 2], [3, 4]] * 5, "y": [1, 2] * 5, "sample_weight": [1] * 10}
    given[name][0] = [10**400, 1] if name == "X" else 10**400
    with pytest.raises(ValueError, match=f"{name}.* holds a number beyond the range of floats"):
        MKLRegressor("linear", C=1.0).fit(**given)


@pytest.mark.parametrize("solver", ["auto", "lp_norm", "alignment", "blockwise"])
@pytest.mark.parametrize("end", [1.7e308, -1.7e308])
def test_targets_whose_sum_leaves_the_floats_are_refused(solver, end):
    y = np.where(X[:, 0] > 0, 1.7e308, end)
    for kernels in ("linear", "gaussian"):
        says(r"y has values up to 2e\+308", lambda k=kernels: MKLRegressor(k, solver=solver, C=1.0).fit(X, y))
    if solver == "blockwise":
        model = MKLRegressor("linear", solver=solver, C=1.0)
        says("y has values up to", lambda: model.fit([(X, y)]))
        model.partial_fit(X, X[:, 0])
        says("y has values up to", lambda: model.partial_fit(X, y))


@pytest.mark.parametrize("scale", [1e200, 1e-200])
@pytest.mark.parametrize("solver", ["auto", "lp_norm", "greedy", "alignment", "blockwise"])
def test_rows_whose_squares_leave_the_floats_are_refused(solver, scale):
    for kernels in ("gaussian", [Linear(), Polynomial(2)]):
        model = MKLRegressor(kernels, solver=solver, C=1.0)
        says("column 0 of X has values up to .* rescale it", lambda m=model: m.fit(scale * X, X[:, 0]))
    model = MKLRegressor([Linear(), Polynomial(2)], solver=solver, C=1.0).fit(X, X[:, 0])
    assert np.isfinite(model.predict(1e-200 * X)).all()
    says("column 0 of X has values up to", lambda: model.predict(1e200 * X))
    wide = X * np.array([1.0, 1.0, 1e-200, 1.0])
    says("column 2 of X has values up to .* rescale it", lambda: model.fit(wide, X[:, 0]))


@pytest.mark.parametrize("solver", ["blockwise", "triply_stochastic"])
def test_what_single_precision_cannot_hold_is_refused(solver):
    model = MKLRegressor([RBF(1.0), Polynomial(2)], solver=solver, C=1.0)
    wide = X * np.array([1.0, 1e-40, 1.0, 1.0])
    for held in (wide, sp.csr_array(wide)):
        says(
            "column 1 of X has values up to .*single precision; rescale", lambda h=held: model.fit(h, X[:, 0])
        )
    says("y has values up to .*single precision; rescale", lambda: model.fit(X, 1e20 * X[:, 0]))
    says("poly.* has values of .*single precision", lambda: model.fit(1e10 * X, X[:, 0]))
    model.partial_fit(X, X[:, 0])
    says("column 0 of X has values up to", lambda: model.partial_fit(1e40 * X, X[:, 0]))
    says("y has values up to", lambda: model.partial_fit(X, 1e20 * X[:, 0]))
    assert np.isfinite(model.partial_fit(1e-40 * X, 1e-40 * X[:, 0]).predict(X)).all()


def test_weights_that_vanish_beside_the_largest_are_none():
    s = np.where(np.arange(30) % 3 == 0, 5e-324, 1.0)
    for C in (1e-8, 1e8):
        tiny = MKLClassifier([RBF(1.0), Linear()], solver=LpNorm(), C=C).fit(X, y, sample_weight=s)
        none = MKLClassifier([RBF(1.0), Linear()], solver=LpNorm(), C=C).fit(
            X, y, sample_weight=1.0 * (s == 1)
        )
        np.testing.assert_array_equal(tiny.decision_function(X), none.decision_function(X))


@pytest.mark.parametrize("solver", [Alignment(), Alignment(independent=True)])
def test_kernels_too_extreme_to_align_are_named(solver):
    for scale in (1e60, 1e-60):
        model = MKLRegressor(Products(2, standardize=False), solver=solver, C=1.0)
        says("kernels: .* standardise the columns of X", lambda m=model, c=scale: m.fit(c * X, X[:, 0]))


@pytest.mark.parametrize("scale", [1e200, 1e-200])
@pytest.mark.parametrize("solver", ["lp_norm", "greedy", "simple_mkl", "alignment", "blockwise"])
def test_targets_whose_squares_leave_the_floats_are_refused(solver, scale):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"y has values up to .* rescale y\."):
        MKLRegressor("gaussian", solver=solver, C=1.0).fit(
            rng.normal(size=(20, 2)), scale * rng.normal(size=20)
        )


@pytest.mark.parametrize(
    "classes, match", [([], "is empty"), ([0], "one class only"), ([0, "a"], "text and numbers")]
)
def test_classes_that_cannot_be_are_named(classes, match):
    X = np.random.default_rng(0).normal(size=(20, 2))
    for given in (classes, np.array(classes, dtype=object)):
        with pytest.raises(ValueError, match=f"^classes .*{match}"):
            MKLClassifier("laplacian", solver="blockwise", C=1.0).partial_fit(X, [0, 1] * 10, classes=given)


def test_a_name_of_scikit_learn_is_a_kernel_alone_as_in_a_list():
    X = np.random.default_rng(0).normal(size=(20, 2))
    alone, listed = (MKLRegressor(k, C=1.0).fit(X, X[:, 0]).predict(X) for k in ("rbf", ["rbf"]))
    np.testing.assert_array_equal(alone, listed)


@pytest.mark.parametrize("kernel, relation", [(RBF, "1/sigma²"), (Laplacian, "1/sigma")])
def test_gamma_is_told_its_name_here(kernel, relation):
    with pytest.raises(
        TypeError, match=f"{kernel.__name__} has no gamma; pass sigma, with gamma = {relation}."
    ):
        kernel(gamma=1)


def test_a_parameter_of_a_name_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="solver__p cannot be set, as solver is 'auto'"):
        MKLRegressor().set_params(solver__p=1.2)
    assert MKLRegressor(solver=LpNorm()).set_params(solver__p=1.2).solver.p == 1.2


@pytest.mark.parametrize(
    "make",
    [
        lambda: MKLRegressor(solver=GreedyAlignment(epsilon=1e308)),
        lambda: MKLRegressor(solver=GreedyAlignment(epsilon=1e-320)),
        lambda: MKLRegressor("laplacian", solver=Blockwise(grids=10**30)),
        lambda: MKLRegressor(RBF(10**400)),
        lambda: MKLRegressor("linear", solver=LpNorm(tol=10**400)),
    ],
)
def test_parameters_out_of_range_are_named_with_their_owner(make):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=r"^\w+ of \w+ is .*; use .*\.$"):
        make().fit(X, X[:, 0])


@pytest.mark.parametrize("kernels", ["auto", "linear"])
def test_weights_that_are_no_numbers_are_refused(kernels):
    pd = pytest.importorskip("pandas")
    for bad in (1j * np.ones(30), 1j, pd.NA, [pd.NA] * 30, "x", ["x"] * 30):
        says(
            "sample_weight is .*; use one weight for each of the 30 rows",
            lambda bad=bad: MKLClassifier(kernels).fit(X, y, sample_weight=bad),
        )
