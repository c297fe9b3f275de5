"""AlignedKernel: a learned kernel as a transformer."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator
from tests.solvers.test_alignment import alignment

from manykernels import AlignedKernel, load
from manykernels.families import Dirichlets, Gaussians, Products
from manykernels.kernels import RBF, Linear
from manykernels.solvers import Alignment, GreedyAlignment, LpNorm, Uniform

KERNELS = [RBF(0.5), RBF(2.0), Linear()]

#: What scikit-learn checks and why it cannot hold here.
COLUMNS = (
    "transform has one column per training row, so that repeated rows give more columns than weighted ones"
)
EXPECTED: dict[str, str] = {
    "check_sample_weight_equivalence_on_dense_data": COLUMNS,
    "check_sample_weight_equivalence_on_sparse_data": COLUMNS,
}


@pytest.fixture(scope="module")
def moons():
    return make_moons(120, noise=0.2, random_state=0)


@pytest.mark.parametrize("kernels", ["gaussian", KERNELS], ids=["continuum", "list"])
def test_scikit_learn_finds_nothing_to_object_to(kernels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            AlignedKernel(kernels), on_skip=None, on_fail=None, expected_failed_checks=EXPECTED
        )
    failed = [
        (r["check_name"], r["exception"])
        for r in results
        if r["status"] not in ("passed", "skipped", "xfail")
    ]
    assert not failed
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(EXPECTED)


def test_transform_is_the_kernel_with_the_training_rows(moons):
    X, y = moons
    learned = AlignedKernel().fit(X[:80], y[:80])
    K = learned.transform(X[80:])
    assert K.shape == (40, 80)
    assert_allclose(K, learned.combination_.gram(X[80:], X[:80]))
    assert_allclose(learned.transform(X[:80]), learned.fit_transform(X[:80], y[:80]))
    assert np.linalg.eigvalsh(learned.transform(X[:80]))[0] > -1e-8


def test_auto_follows_the_family(moons):
    X, y = moons
    assert isinstance(AlignedKernel().fit(X, y).solver_, GreedyAlignment)
    assert isinstance(AlignedKernel(Gaussians(ard=True)).fit(X, y).solver_, GreedyAlignment)
    assert isinstance(AlignedKernel(KERNELS).fit(X, y).solver_, Alignment)
    assert isinstance(AlignedKernel(Products(degree=2)).fit(X, y).solver_, Alignment)
    assert isinstance(AlignedKernel(KERNELS, solver="uniform").fit(X, y).solver_, Uniform)


def test_the_learned_kernel_is_better_aligned_than_any_of_a_list(moons):
    X, y = moons
    Y = np.eye(2)[y]
    K = AlignedKernel(KERNELS).fit_transform(X, y)
    assert alignment(K, Y) >= max(alignment(k(X), Y) for k in KERNELS) - 1e-12


def test_it_works_in_a_pipeline_under_cross_validation():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:200], y[:200]
    model = make_pipeline(StandardScaler(), AlignedKernel(), SVC(kernel="precomputed", C=10))
    assert cross_val_score(model, X, y, cv=3).mean() > 0.9
    search = GridSearchCV(
        make_pipeline(StandardScaler(), AlignedKernel(Gaussians()), SVC(kernel="precomputed")),
        {"svc__C": [1, 10], "alignedkernel__solver": ["auto", GreedyAlignment("euclidean")]},
        cv=2,
    )
    assert search.fit(X, y).best_score_ > 0.9


def test_numbers_and_several_targets():
    X, _ = load_iris(return_X_y=True)
    model = make_pipeline(AlignedKernel(Gaussians(ard=True)), KernelRidge(kernel="precomputed", alpha=0.1))
    assert model.fit(X[:, :3], X[:, 3] - 1).score(X[:, :3], X[:, 3] - 1) > 0.9
    assert AlignedKernel().fit(X[:, :2], X[:, 2:]).transform(X[:5, :2]).shape == (5, 150)


def test_whole_numbers_are_classes_unless_one_says_so(moons):
    X = moons[0]
    y = np.arange(120) // 30
    assert_allclose(
        AlignedKernel(KERNELS, target="numbers").fit_transform(X, y),
        AlignedKernel(KERNELS).fit_transform(X, y + 0.5),
    )
    assert_allclose(
        AlignedKernel(KERNELS).fit_transform(X, y),
        AlignedKernel(KERNELS, target="classes").fit_transform(X, np.array(["a", "b", "c", "d"])[y]),
    )


def test_a_weight_equals_a_repetition(moons):
    X, y = moons
    s = np.random.default_rng(0).integers(0, 3, 120)
    weighted = AlignedKernel(KERNELS).fit(X, y, sample_weight=s)
    repeated = AlignedKernel(KERNELS).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    assert_allclose(weighted.combination_.weights, repeated.combination_.weights, rtol=1e-6, atol=1e-10)


def test_names_of_columns_and_of_output(moons):
    X, y = moons
    frame = pd.DataFrame(X, columns=["left", "right"])
    learned = AlignedKernel({"one": RBF(1.0, columns=["left"]), "both": RBF(1.0)}).fit(frame, y)
    assert learned.feature_names_in_.tolist() == ["left", "right"]
    names = learned.get_feature_names_out()
    assert len(names) == 120 and names[0] == "alignedkernel0"
    assert {record["kernel"] for record in learned.combination_.records()} <= {"one", "both"}
    assert learned.set_output(transform="pandas").transform(frame).shape == (120, 120)


def test_ready_made_matrices(moons):
    X, y = moons
    stack = np.stack([k(X) for k in KERNELS], axis=2)
    learned = AlignedKernel("precomputed").fit(stack, y)
    assert_allclose(learned.transform(stack), AlignedKernel(KERNELS).fit_transform(X, y), atol=1e-6)
    model = make_pipeline(AlignedKernel("precomputed"), SVC(kernel="precomputed"))
    assert cross_val_score(model, stack, y, cv=3).mean() > 0.8
    with pytest.raises(ValueError, match="the model was fitted on 3 kernels of 120 rows"):
        learned.transform(stack[:, :, :2])


def test_sparse_rows_are_like_dense_ones(moons):
    X, y = moons
    for kernels in (Gaussians(), Gaussians(ard=True)):
        aligned = AlignedKernel(kernels, random_state=0)
        dense, sparse = (aligned.fit(Z, y).transform(Z[:7]) for Z in (X, csr_array(X)))
        # Distances are rounded in another way, so that the search ends a little elsewhere.
        assert_allclose(sparse, dense, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernels", [Gaussians(), Gaussians(ard=True), KERNELS, Products(degree=2)])
def test_it_goes_to_a_file_and_back(moons, tmp_path, kernels):
    X, y = moons
    learned = AlignedKernel(kernels, random_state=0).fit(X, y)
    learned.save(tmp_path / "kernel")
    again = load(tmp_path / "kernel")
    assert_array_equal(again.transform(X), learned.transform(X))
    assert again.combination_.records() == learned.combination_.records()
    assert repr(again) == repr(learned)


def test_a_failed_fit_leaves_the_last_one(moons):
    X, y = moons
    learned = AlignedKernel(KERNELS).fit(X, y)
    before = learned.transform(X)
    with pytest.raises(ValueError, match="one class only"):
        learned.fit(X, np.zeros(120, dtype=int))
    assert_array_equal(learned.transform(X), before)


@pytest.mark.parametrize(
    "parameters, y, message",
    [
        ({}, np.zeros(120, dtype=int), "y holds one class only \\(0\\); alignment needs at least two"),
        ({}, np.full(120, 0.5), "y is constant"),
        ({}, None, "requires y to be passed"),
        ({"solver": LpNorm()}, None, "requires y"),
        ({"target": "ranks"}, np.arange(120) % 2, "target is 'ranks'; use 'auto', 'classes' or 'numbers'"),
        ({"kernels": Dirichlets((0, 5))}, np.arange(120) % 2, "X has 2 columns.*one column only"),
        ({"kernels": Gaussians((3, 1))}, np.arange(120) % 2, "bounds of Gaussians is \\(3, 1\\)"),
        (
            {"kernels": KERNELS, "solver": LpNorm()},
            np.arange(120) % 2,
            "solver is LpNorm, which learns kernel and",
        ),
        (
            {"kernels": Gaussians(), "solver": Alignment()},
            np.arange(120) % 2,
            "Alignment needs a family whose kernels can be listed",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(moons, parameters, y, message):
    with pytest.raises(ValueError, match=message):
        AlignedKernel(**parameters).fit(moons[0], y)


def test_it_clones(moons):
    learned = AlignedKernel(Gaussians(ard=True), solver=GreedyAlignment(tol=0.01))
    assert repr(clone(learned)) == repr(learned)
