"""Blockwise on unions: which kernels get weight, C as given or chosen, subjects, folds, and states."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import manykernels
from manykernels import MKLRegressor
from manykernels.families import Finite, Gaussians, Laplacians, Union
from manykernels.kernels import RBF, Laplacian, Linear
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.solvers import Blockwise
from manykernels.solvers.bandwidth_learning.error import ridge_factor
from manykernels.solvers.blockwise.mixing import prepare_union
from manykernels.solvers.blockwise.plan import lay_plan
from manykernels.solvers.blockwise.preparation import Sample
from manykernels.streaming.stream import MemoryStream

RNG = np.random.default_rng(0)
X = RNG.standard_normal((500, 3))
SMOOTH = np.sin(2 * X[:, 0]) + 0.05 * RNG.standard_normal(500)
STRAIGHT = X @ np.array([1.0, -1.0, 0.5]) + 0.05 * RNG.standard_normal(500)
SMALL = {"grids": 16, "n_features": 128, "block": 64, "random_state": 0}


def three(bounds=(0.1, 20.0)):
    return Union({"smooth": Gaussians(bounds), "rough": Laplacians(bounds), "line": Linear()})


def problem_of(family, y, C=1.0, choose_C=True, **kw):
    family = family.resolve(3)
    Y, s = (y - y.mean())[:, None], np.ones(len(y))
    scale = Scale.fit(family, X, "trace", s)
    return Problem(X, Y, family, scale, get_loss("squared"), C, s, choose_C=choose_C, **kw)


def chosen(family, y, **kw):
    sample = Sample(problem_of(family, y), seed=0, size=2**10, folds=1)
    return prepare_union(sample, lambda part: 2, n_rows=None, **kw)


def test_a_line_is_explained_by_the_line():
    found = chosen(three((0.1, 1.0)), STRAIGHT)  # wide bandwidths would be as straight
    line = sum(t for (part, _), t in zip(found.members, found.theta, strict=True) if part == 2)
    assert line > 0.5 and found.error < 0.02


def test_no_kind_alone_is_better_than_what_is_chosen():
    best = chosen(three(), SMOOTH)
    assert_allclose(best.theta.sum(), 1.0)
    for k, family in enumerate([Gaussians((0.1, 20.0)), Laplacians((0.1, 20.0))]):
        alone = chosen(Union([family]), SMOOTH)
        assert best.error <= alone.error + 1e-3, f"part {k}"  # alone, features are drawn by another seed


def test_kinds_of_features_that_cannot_be_together_are_not():
    found = chosen(three(), SMOOTH + STRAIGHT, together=False)
    kinds = {part == 1 for part, _ in found.members}
    assert len(kinds) == 1


@pytest.mark.parametrize(
    "kernels", [three(), Finite([RBF(1.0), Laplacian(2.0), Linear(columns=[0])])], ids=["union", "list"]
)
def test_c_is_kept_or_chosen(kernels):
    kept = lay_plan(Blockwise(**SMALL), problem_of(kernels, SMOOTH, C=0.3, choose_C=False), 500)
    assert kept.C == 0.3
    found = Blockwise(**SMALL).solve(problem_of(kernels, SMOOTH))
    assert np.log2(found.C) == round(np.log2(found.C)) and found.C > 1, "there is hardly any noise"


@pytest.fixture(scope="module")
def known():
    """Return a problem on a union, the plan of a fit, and the fit with all of its states."""
    problem, states = problem_of(three("auto"), SMOOTH + STRAIGHT), []
    stream = Blockwise(**SMALL).memory_stream(problem)
    whole = Blockwise(**SMALL).solve_stream(stream, save=lambda state: states.append(state()))
    return problem, lay_plan(Blockwise(**SMALL), problem, 500, states[0]), stream, whole, states


def test_weights_that_were_chosen_are_kept(known):
    _, plan, _, whole, _ = known
    assert_allclose(whole.combination.weights * whole.combination.rho**2, plan.theta)
    assert whole.combination.members == plan.members


def test_a_state_knows_members_weights_and_c(known):
    problem, plan, _, whole, _ = known
    again = lay_plan(Blockwise(**SMALL), problem, 500, plan.to_arrays())
    assert again.members == plan.members and again.C == plan.C == whole.C
    assert_array_equal(again.theta, plan.theta)
    assert_array_equal(again.blocks, plan.blocks)
    bounds = [[part.bounds for part in one.family.families()[:2]] for one in (again, plan)]
    assert bounds[0] == bounds[1]


def test_a_resumed_fit_of_a_union_ends_in_the_same_bits(known):
    _, _, stream, whole, states = known
    for state in (states[0], states[len(states) // 2]):
        again = Blockwise(**SMALL).solve_stream(stream, resume=state)
        assert_array_equal(again.predictor.scores(X), whole.predictor.scores(X))


def test_a_state_of_an_earlier_version_goes_on():
    problem = problem_of(Gaussians("auto", ard=True), SMOOTH)
    bounds = np.tile([0.1, 9.0], (3, 1))
    old = {"seed": np.array([3]), "C": np.array([2.0]), "member": np.array([1.0, 2.0, 3.0]), "bounds": bounds}
    plan = lay_plan(Blockwise(**SMALL), problem, 500, old)
    assert plan.members == [(1.0, 2.0, 3.0)] and plan.C == 2.0 and plan.theta is None
    assert plan.family.bounds == [(0.1, 9.0)] * 3


def test_batches_of_a_union_are_saved_and_go_on(tmp_path):
    model = MKLRegressor(three("auto"), solver=Blockwise(**SMALL))
    model.partial_fit(X[:150], SMOOTH[:150])  # from distances, as there are few rows
    model.partial_fit(X[150:300], SMOOTH[150:300])
    manykernels.persistence.models.save(model, tmp_path / "model")
    again = manykernels.persistence.models.load(tmp_path / "model")
    for one in (model, again):
        one.partial_fit(X[300:], SMOOTH[300:])
    assert_array_equal(again.predict(X), model.predict(X))
    assert model.score(X, SMOOTH) > 0.8


# -- which rows judge ----------------------------------------------------------------------------------


def test_few_rows_judge_each_once():
    sample = Sample(problem_of(three(), SMOOTH), seed=0, size=2**10)
    assert len(sample.splits) == 5
    assert_array_equal(np.sort(np.concatenate([judged for _, judged in sample.splits])), np.arange(500))
    for train, judged in sample.splits:
        assert not set(train) & set(judged) and len(train) + len(judged) == 500


@pytest.mark.parametrize("folds", [1, 5])
def test_subjects_judge_or_are_fitted_as_a_whole(folds):
    groups = RNG.integers(0, 30, 500)
    sample = Sample(problem_of(three(), SMOOTH, groups=groups), seed=0, size=2**10, folds=folds)
    for train, judged in sample.splits:
        assert len(judged) and not set(groups[train]) & set(groups[judged])


def test_subjects_are_held_out_as_a_whole():
    groups = RNG.integers(0, 30, 500)
    stream = MemoryStream(problem_of(three(), SMOOTH, groups=groups), 100, share=0.2)
    out, kept = stream.held_out.groups, np.concatenate([batch.groups for batch in stream.epoch(0)])
    assert not set(out) & set(kept)
    assert 50 <= len(out) <= 120  # a fifth of the rows, to a subject


def test_what_a_subject_remembers_is_not_learned():
    # Every subject has a level of its own and a column that tells who it is: no use for another subject.
    who = np.repeat(np.arange(50), 10)
    Z = np.column_stack([RNG.standard_normal(50)[who], X[:, 0]])
    y = 3 * RNG.standard_normal(50)[who] + np.sin(2 * X[:, 0])
    family = Gaussians((1e-3, 1e3), ard=True).resolve(2)
    s = np.ones(500)
    scale, Y = Scale.fit(family, Z, "trace", s), (y - y.mean())[:, None]
    problem = Problem(Z, Y, family, scale, get_loss("squared"), 1.0, s)
    told, named = (
        Sample(replace(problem, groups=groups), seed=0, size=2**10, folds=1).shapes(family, 15)["learned"][0]
        for groups in (who, None)
    )
    assert told[0] / told[1] > 2 * named[0] / named[1], "the column that names the subject gets wider"


# -- matrices that are singular to rounding ------------------------------------------------------------


def test_a_singular_matrix_has_a_factor():
    H = np.ones((20, 20))
    factor = np.tril(ridge_factor(H, 0.0))
    assert_allclose(factor @ factor.T, H, atol=1e-9)
    with pytest.raises(np.linalg.LinAlgError, match="not positive"):
        ridge_factor(-np.eye(3), 0.5)


def test_rows_and_columns_that_repeat_are_learned():
    Z = np.repeat(X[:25], 20, axis=0).astype(np.float32)
    Z = np.column_stack([Z, Z + np.float32(1e-7)])
    y = np.repeat(SMOOTH[:25], 20) + 0.1 * RNG.standard_normal(500)
    model = MKLRegressor(Union([Gaussians(ard=True), Linear()]), solver=Blockwise(**SMALL)).fit(Z, y)
    assert model.score(Z, y) > 0.8
