"""A streaming solver is three methods over a dict of arrays, which is also its checkpoint."""

import io
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from manykernels import MKLClassifier, MKLRegressor
from manykernels.combination import Combination
from manykernels.families import HasFeatures, Products
from manykernels.kernels import RBF, Linear
from manykernels.predictors import Primal
from manykernels.problem import Result, Trace
from manykernels.solvers import LpNorm, StreamingSolver

from .cases import problem, rows


class StreamingRidge(StreamingSolver):
    """Ridge regression on explicit features from the sums ZᵀZ and ZᵀY."""

    requires = (HasFeatures,)
    losses = ("squared",)

    def __init__(self, batch_size=7):
        self.batch_size = batch_size

    def default_loss(self, n_classes):
        return "squared"

    def start(self, problem):
        k = int(problem.family.widths(problem.family.members()).sum()) + 1
        return {"ZZ": np.zeros((k, k)), "ZY": np.zeros((k, problem.n_outputs)), "n": np.zeros(1)}

    def update(self, state, batch):
        phi = batch.family.features(batch.X, batch.family.members())
        Z = np.column_stack([phi, np.ones(batch.n_rows)])
        weighted = Z * batch.sample_weight[:, None]
        return {
            "ZZ": state["ZZ"] + weighted.T @ Z,
            "ZY": state["ZY"] + weighted.T @ batch.Y,
            "n": state["n"] + batch.n_rows,
        }

    def finish(self, state, problem):
        W = np.linalg.solve(state["ZZ"] + np.eye(len(state["ZZ"])) / problem.C, state["ZY"])
        members = problem.family.members()
        ones = np.ones(len(members))
        combination = Combination(problem.family, members, ones, ones)
        return Result(
            predictor=Primal(combination, W[:-1], W[-1]),
            combination=combination,
            objective=np.nan,
            gap=np.nan,
            gap_kind="none",
            n_iter=1,
            converged=True,
            trace=Trace(),
            dual_coef=None,
            intercept=W[-1],
        )


X = rows(50)
Y = problem("squared", 2, X=X).Y + np.array([3.0, -1.0])
LABELS = np.array(["no", "perhaps", "yes"])[np.digitize(Y[:, 0], [2.5, 3.5])]
KERNELS = Products(degree=2)


def regressor(**options):
    return MKLRegressor(KERNELS, solver=StreamingRidge(**options), C=2.0)


def classifier():
    return MKLClassifier(KERNELS, solver=StreamingRidge(), C=2.0)


def test_fit_streams_over_all_rows():
    model = regressor().fit(X, Y)
    phi = KERNELS.resolve(4).features(X, KERNELS.resolve(4).members())
    Z = np.column_stack([phi, np.ones(50)])
    centred = Y - Y.mean(axis=0)
    W = np.linalg.solve(Z.T @ Z + np.eye(Z.shape[1]) / 2.0, Z.T @ centred)
    assert_allclose(model.predict(X), Z @ W + Y.mean(axis=0), atol=1e-8)


@pytest.mark.parametrize("size", [1, 13, 1000])
def test_batches_cover_every_row_once(size):
    assert_allclose(
        regressor(batch_size=size).fit(X, Y).predict(X), regressor().fit(X, Y).predict(X), atol=1e-8
    )


def test_partial_fit_in_one_batch_is_fit():
    assert_allclose(regressor().partial_fit(X, Y).predict(X), regressor().fit(X, Y).predict(X), atol=1e-8)


def test_partial_fit_counts_every_batch():
    model = regressor().partial_fit(X[:20], Y[:20]).partial_fit(X[20:], Y[20:])
    assert model.state_["n"] == 50


def test_sample_weights_reach_every_batch():
    s = np.random.default_rng(0).integers(0, 3, size=50).astype(float)
    weighted, repeated = regressor().partial_fit(X[:5], Y[:5]), regressor().partial_fit(X[:5], Y[:5])
    weighted.partial_fit(X, Y, sample_weight=s)
    repeated.partial_fit(np.repeat(X, s.astype(int), axis=0), np.repeat(Y, s.astype(int), axis=0))
    assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-8)


def test_a_classifier_learns_from_batches_with_announced_classes():
    model = classifier().partial_fit(X[:3], LABELS[:3], classes=["yes", "no", "perhaps"])
    assert list(model.classes_) == ["no", "perhaps", "yes"]
    for a in range(3, 50, 10):
        model.partial_fit(X[a : a + 10], LABELS[a : a + 10])
    assert_allclose(model.decision_function(X), classifier().fit(X, LABELS).decision_function(X), atol=1e-8)


def test_a_first_batch_of_one_class_is_enough_when_classes_are_announced():
    only = LABELS == "yes"
    model = classifier().partial_fit(X[only], LABELS[only], classes=["no", "perhaps", "yes"])
    assert (model.predict(X[only]) == "yes").all()


def test_a_label_that_was_not_announced_is_refused():
    model = classifier().partial_fit(X, LABELS)
    with pytest.raises(ValueError, match="'never', which is not among the classes"):
        model.partial_fit(X[:1], ["never"])


def test_fit_forgets_the_stream_before_it():
    model = classifier().partial_fit(X, LABELS, classes=["no", "perhaps", "yes"])
    model.fit(X, Y[:, 0] > 3)
    assert list(model.classes_) == [False, True]


@pytest.mark.parametrize("before", [False, True], ids=["alone", "after a stream"])
def test_partial_fit_says_that_it_replaces_what_fit_has_learned(before):
    model = regressor().partial_fit(X, Y) if before else regressor()
    model.fit(X[:20], Y[:20])
    with pytest.warns(UserWarning, match="begins anew and replaces the model that was fitted by fit"):
        model.partial_fit(X[20:40], Y[20:40])
    assert model.state_["n"] == 20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X[:10], Y[:10])  # goes on
    assert model.state_["n"] == 30


def test_partial_fit_after_fit_on_a_source_forgets_its_classes():
    labels = np.where(Y[:, 0] > 3, "a", "b")
    model = classifier().fit([(X, labels)])
    with pytest.warns(UserWarning, match="begins anew"):
        model.partial_fit(X, np.where(labels == "a", "c", "d"))
    assert list(model.classes_) == ["c", "d"]


BAD_WEIGHTS = {
    "negative": (-np.ones(50), "[Nn]egative values"),
    "missing": (np.full(50, np.nan), "sample_weight contains NaN"),
    "too few": (np.ones(5), r"sample_weight has the shape \(5,\); use one weight for each of the 50 rows"),
    "a column": (np.ones((50, 1)), r"sample_weight has the shape \(50, 1\); use one weight"),
}


@pytest.mark.parametrize("first", [True, False], ids=["first batch", "later batch"])
@pytest.mark.parametrize("bad", BAD_WEIGHTS)
def test_bad_weights_are_refused_in_every_batch(bad, first):
    model = regressor() if first else regressor().partial_fit(X, Y)
    weights, match = BAD_WEIGHTS[bad]
    with pytest.raises(ValueError, match=match):
        model.partial_fit(X, Y, sample_weight=weights)


def test_a_later_batch_may_be_without_weight():
    model = regressor().partial_fit(X, Y)
    expected = model.predict(X)
    assert_array_equal(model.partial_fit(X, Y, sample_weight=np.zeros(50)).predict(X), expected)


def test_classes_are_the_same_in_every_call():
    model = classifier().partial_fit(X, LABELS)
    model.partial_fit(X, LABELS, classes=["yes", "perhaps", "no"])
    with pytest.raises(ValueError, match=r"classes is \['no', 'yes'\], and was .* pass the same labels"):
        model.partial_fit(X, LABELS, classes=["no", "yes"])


def test_classes_of_a_call_that_failed_are_forgotten():
    model = classifier()
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full_like(X, np.nan), LABELS, classes=["no", "perhaps", "yes", "never"])
    assert list(model.partial_fit(X, LABELS).classes_) == ["no", "perhaps", "yes"]


@pytest.mark.parametrize("first", [True, False], ids=["first batch", "later batch"])
def test_a_missing_label_is_named_by_its_row(first):
    model = classifier() if first else classifier().partial_fit(X, LABELS)
    gaps = np.array([*LABELS[:3], None], dtype=object)
    with pytest.raises(ValueError, match="y has a missing value in row 3; remove that row"):
        model.partial_fit(X[:4], gaps)
    with pytest.raises(ValueError, match="classes has a missing value"):
        model.partial_fit(X, LABELS, classes=["no", None])


def test_state_survives_a_file_and_resumes_to_the_same_result():
    pb = problem("squared", 2, X=X, family=KERNELS)
    solver = StreamingRidge()
    batches = list(pb.batches(10))
    straight = solver.start(batches[0])
    for batch in batches:
        straight = solver.update(straight, batch)

    state = solver.start(batches[0])
    for batch in batches[:2]:
        state = solver.update(state, batch)
    assert all(isinstance(value, np.ndarray) for value in state.values())
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    state = dict(np.load(file))
    for batch in batches[2:]:
        state = solver.update(state, batch)

    assert_array_equal(
        solver.finish(state, pb).predictor.scores(X), solver.finish(straight, pb).predictor.scores(X)
    )


def test_finishing_does_not_end_the_stream():
    pb = problem("squared", 2, X=X, family=KERNELS)
    solver, (first, second) = StreamingRidge(), pb.batches(25)
    state = solver.update(solver.start(first), first)
    solver.finish(state, pb)
    once = solver.update(solver.update(solver.start(first), first), second)
    assert_array_equal(solver.update(state, second)["ZY"], once["ZY"])


@pytest.mark.parametrize("solver", ["auto", "lp_norm", "simple_mkl", LpNorm()])
@pytest.mark.parametrize("estimator", [MKLClassifier, MKLRegressor])
def test_other_solvers_have_no_partial_fit(estimator, solver):
    assert not hasattr(estimator(solver=solver), "partial_fit")
    with pytest.raises(
        AttributeError, match=r"solver .* takes all rows at once.*streams \(blockwise, triply"
    ):
        estimator(solver=solver).partial_fit(X, LABELS)


def test_it_says_what_it_needs():
    with pytest.raises(ValueError, match="StreamingRidge needs a family with explicit features"):
        MKLRegressor([RBF(), Linear()], solver=StreamingRidge(), C=1.0).fit(X, Y)
    with pytest.raises(ValueError, match="StreamingRidge takes loss squared, not 'hinge'"):
        MKLClassifier(KERNELS, solver=StreamingRidge(), loss="hinge", C=1.0).fit(X, LABELS)
