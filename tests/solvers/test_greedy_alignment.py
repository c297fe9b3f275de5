"""GreedyAlignment: one kernel at a time, over continua and lists."""

from contextlib import suppress

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning

from manykernels import AlignedKernel, MKLClassifier, MKLRegressor
from manykernels.families import Dirichlets, Finite, Gaussians, Products
from manykernels.kernels import RBF, Laplacian, Linear
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.solvers import Alignment, GreedyAlignment
from manykernels.solvers.greedy_alignment import _Products, alignment_at, best_step

from .test_alignment import alignment

OBJECTIVES = ["alignment", "euclidean"]


def wave(n=200, seed=0):
    x = np.random.default_rng(seed).uniform(-5, 5, n)
    return x[:, None], np.sign(np.sin(2 * x) + np.sin(5.5 * x))[:, None]


def moons(n=150, seed=0):
    X, y = make_moons(n, noise=0.2, random_state=seed)
    return X, 2.0 * y[:, None] - 1


def problem(X, Y, family, s=None):
    s = np.ones(len(Y)) if s is None else s
    family = family.adapt(X, s).resolve(X.shape[1])
    return Problem(X, Y, family, Scale.fit(family, X, "trace", s), get_loss("squared"), 1.0, s)


CASES = {
    "gaussians": lambda: problem(*moons(), Gaussians()),
    "columns": lambda: problem(*moons(), Gaussians(ard=True)),
    "frequencies": lambda: problem(*wave(), Dirichlets((0, 10))),
    "list": lambda: problem(*moons(), Finite([RBF(0.3), RBF(1.0), RBF(3.0), Linear(), Laplacian(1.0)])),
    "monomials": lambda: problem(*moons(), Products(degree=3)),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]()


# -- steps ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("corrective", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_alignment_never_decreases_and_is_what_it_says(case, objective, corrective):
    solver = GreedyAlignment(objective, tol=1e-5, max_kernels=20, corrective=corrective, random_state=0)
    combination = solver.learn(case)
    steps = solver.alignments_
    assert len(steps) >= 2 and (np.diff(steps) >= 0).all()
    assert alignment(combination.gram(case.X), case.Y) == pytest.approx(steps[-1], rel=1e-6)
    assert (combination.weights > 0).all()
    K = combination.gram(case.X, case.X)
    assert np.mean(np.diag(K)) - np.mean(K) == pytest.approx(1.0)


def test_the_step_is_the_best_on_its_interval():
    rng = np.random.default_rng(0)
    for _ in range(50):
        K, new, target = rng.normal(size=(3, 8))
        q = _Products(K @ target, new @ target, K @ K, K @ new, new @ new)
        for top in (0.1, 1.0, 10.0):
            eta = best_step(q, top)
            grid = [alignment_at(q, e) for e in np.linspace(0, top, 400)]
            assert 0 <= eta <= top and alignment_at(q, eta) >= max(grid) - 1e-12


def test_steps_are_no_longer_than_eta_max():
    pb = CASES["gaussians"]()
    weights = GreedyAlignment(eta_max=0.25, corrective=False, tol=1e-4).learn(pb).weights
    assert len(weights) > 3 and weights[1:].max() == pytest.approx(0.25 * weights[0])


def test_epsilon_hardly_matters():
    pb = CASES["gaussians"]()
    reached = []
    for epsilon in (1e-9, 1e-6, 1e-3):
        solver = GreedyAlignment(epsilon=epsilon)
        solver.learn(pb)
        reached.append(solver.alignments_[-1])
    assert_allclose(reached, reached[0], rtol=1e-3)


def test_the_number_of_kernels_is_bounded():
    assert len(GreedyAlignment(max_kernels=2, tol=0.0).learn(CASES["frequencies"]())) <= 2


def test_the_last_kernel_brings_more_than_tol():
    for tol in (1e-1, 1e-2, 1e-3):
        solver = GreedyAlignment(tol=tol, corrective=False)
        solver.learn(CASES["frequencies"]())
        assert (np.diff(solver.alignments_) > tol).all()


def test_refitting_helps():
    reached = []
    for corrective in (False, True):
        solver = GreedyAlignment(corrective=corrective)
        solver.learn(CASES["gaussians"]())
        reached.append(solver.alignments_[-1])
    assert reached[1] > reached[0]


# -- the optimum ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "family", [Gaussians((0.05, 20.0)), Finite([RBF(s) for s in np.geomspace(0.05, 20, 40)])]
)
def test_both_objectives_end_at_the_best_alignment_of_a_fine_grid(family):
    X, Y = moons()
    grid = Finite([RBF(s) for s in np.geomspace(0.05, 20, 200)])
    best = alignment(Alignment().learn(problem(X, Y, grid)).gram(X), Y)
    grams = []
    for objective in OBJECTIVES:
        solver = GreedyAlignment(objective, tol=0.0, max_kernels=60)
        grams.append(solver.learn(problem(X, Y, family)).gram(X))
        assert solver.alignments_[-1] == pytest.approx(best, abs=2e-3)
    # Section 2.2.2: the two have one direction at the optimum.
    C = np.eye(len(X)) - 1 / len(X)
    first, second = (C @ K @ C for K in grams)
    assert np.vdot(first, second) / np.linalg.norm(first) / np.linalg.norm(second) > 0.998


def test_on_a_list_it_finds_what_alignment_finds():
    pb = CASES["list"]()
    best = Alignment().learn(pb)
    for objective in OBJECTIVES:
        found = GreedyAlignment(objective, tol=0.0, max_kernels=100).learn(pb)
        assert alignment(found.gram(pb.X), pb.Y) == pytest.approx(alignment(best.gram(pb.X), pb.Y), rel=1e-4)


def test_true_frequencies_are_found():
    x = np.random.default_rng(0).uniform(-10, 10, 300)[:, None]
    y = np.sin(2 * x) + np.sin(5.5 * x)
    combination = GreedyAlignment(tol=1e-2).learn(problem(x, y, Dirichlets((0, 10))))
    found = np.array([record["sigma"] for record in combination.records()])
    for truth in (2.0, 5.5):
        assert np.abs(found - truth).min() < 0.05
    assert len(found) <= 4


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_without_own_pairs_both_objectives_end_at_the_best_of_a_fine_grid(objective):
    X, Y = moons()
    grid = Finite([RBF(s) for s in np.geomspace(0.05, 20, 200)])
    best = Alignment(own_pairs=False).learn(problem(X, Y, grid)).gram(X)
    solver = GreedyAlignment(objective, own_pairs=False, tol=0.0, max_kernels=60)
    found = solver.learn(problem(X, Y, Gaussians((0.05, 20.0)))).gram(X)
    reached = [alignment(K - np.mean(np.diag(K)) * np.eye(len(K)), Y) for K in (found, best)]
    assert (np.diff(solver.alignments_) >= 0).all()
    assert solver.alignments_[-1] == pytest.approx(reached[0], rel=1e-6)
    # Sixty steps of a first order method, then a refit; the grid is the optimum to its pitch of 3 %.
    assert reached[0] == pytest.approx(reached[1], abs=2e-3)


def test_without_own_pairs_kernels_are_narrower():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 20))
    Y = np.sign(X[:, :1] + 0.5 * rng.normal(size=(150, 1)))
    wide, narrow = (GreedyAlignment(own_pairs=own).learn(problem(X, Y, Gaussians())) for own in (True, False))
    assert np.average(narrow.members, weights=narrow.weights) < 0.7 * np.average(
        wide.members, weights=wide.weights
    )


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("own_pairs", [False, True])
def test_noise_still_gets_a_kernel(own_pairs, objective):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        combination = GreedyAlignment(objective, own_pairs=own_pairs).learn(
            problem(rng.normal(size=(20, 10)), rng.normal(size=(20, 1)), Gaussians())
        )
        assert len(combination) >= 1


def test_bandwidths_per_column_align_better_where_columns_are_useless():
    X, Y = moons()
    X = np.column_stack([X, np.random.default_rng(0).normal(size=(150, 8))])
    reached = []
    for ard in (False, True):
        solver = GreedyAlignment(random_state=0)
        solver.learn(problem(X, Y, Gaussians(ard=ard)))
        reached.append(solver.alignments_[-1])
    assert reached[1] > 1.5 * reached[0]


def test_shrinkage_pulls_bandwidths_together():
    X, Y = moons()
    spread = []
    for shrinkage in (0.0, 1e3):
        combination = GreedyAlignment(shrinkage=shrinkage).learn(problem(X, Y, Gaussians(ard=True)))
        spread.append(max(np.ptp(np.log(z)) for z in combination.members))
    assert spread[1] < 0.05 < spread[0]


@pytest.mark.parametrize("own_pairs", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("family", [Gaussians(), Gaussians((0.1, 5.0), ard=True), Dirichlets((0, 3))])
def test_a_weight_equals_a_repetition(objective, family, own_pairs):
    X, Y = moons(60)
    X = X[:, :1] if isinstance(family, Dirichlets) else X
    s = np.random.default_rng(1).integers(0, 4, 60)
    solver = GreedyAlignment(objective, max_kernels=3, tol=1e-4, own_pairs=own_pairs)
    weighted = solver.learn(problem(X, Y, family, s.astype(float)))
    repeated = solver.learn(problem(np.repeat(X, s, axis=0), np.repeat(Y, s, axis=0), family))
    # The search ends within its tolerance of the same place.
    assert_allclose(weighted.gram(X), repeated.gram(X), atol=2e-3)


# -- in the estimators ---------------------------------------------------------------------------------


def test_a_machine_is_trained_on_the_kernel():
    X, y = make_moons(100, noise=0.2, random_state=0)
    model = MKLClassifier(Gaussians(), solver=GreedyAlignment(), C=10.0).fit(X, y)
    assert model.score(X, y) > 0.9 and model.gap_kind_ == "exact" and model.converged_


def test_regression_binary_and_multiclass_targets():
    X, y = load_iris(return_X_y=True)
    assert MKLClassifier(Gaussians(), solver="greedy-alignment", C=10.0).fit(X, y).score(X, y) > 0.9
    assert MKLClassifier(Gaussians(), solver="greedy-alignment", C=10.0).fit(X, y == 1).score(X, y == 1) > 0.9
    numbers = MKLRegressor(Gaussians(ard=True), solver=GreedyAlignment(random_state=0), C=100.0)
    assert numbers.fit(X[:, :3], X[:, 3]).score(X[:, :3], X[:, 3]) > 0.9
    two = MKLRegressor(Gaussians(), C=100.0).fit(X[:, :2], X[:, 2:])
    assert two.predict(X[:, :2]).shape == (150, 2)


def test_fits_are_repeatable():
    X, y = make_moons(80, noise=0.2, random_state=0)
    first, second = (MKLClassifier(Gaussians(ard=True), random_state=5, C=1.0).fit(X, y) for _ in range(2))
    assert first.combination_.members == second.combination_.members


def test_a_model_goes_to_a_file_and_back(tmp_path):
    from manykernels import load

    X, y = make_moons(80, noise=0.2, random_state=0)
    for family in (Gaussians(), Gaussians(ard=True)):
        model = MKLClassifier(family, C=1.0).fit(X, y)
        model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert np.array_equal(again.decision_function(X), model.decision_function(X))
        assert again.combination_.records() == model.combination_.records()


class Impatient(Gaussians):
    """Bandwidths whose third search is interrupted."""

    def searcher(self, X, scale):
        search = super().searcher(X, scale)
        best, left = search.best, iter([True, True, False])

        def interrupted(*args, **options):
            if not next(left):
                raise KeyboardInterrupt
            return best(*args, **options)

        search.best = interrupted
        return search


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_interrupt_keeps_the_kernels_found(objective):
    solver = GreedyAlignment(objective, tol=0.0, corrective=False)
    with pytest.warns(ConvergenceWarning, match=r"Interrupted after 2 kernels.* an alignment of 0\.\d"):
        combination = solver.learn(problem(*moons(), Impatient()))
    assert len(solver.alignments_) == 2
    whole = GreedyAlignment(objective, tol=0.0, corrective=False, max_kernels=2).learn(CASES["gaussians"]())
    assert_allclose(combination.weights, whole.weights)


# -- bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"objective": "cosine"}, "objective of GreedyAlignment is 'cosine'; use"),
        ({"epsilon": 0.0}, "epsilon of GreedyAlignment is 0.0; use a number in"),
        ({"max_kernels": 0}, "max_kernels of GreedyAlignment is 0; use a whole number of at least 1"),
        ({"tol": -1.0}, "tol of GreedyAlignment is -1.0; use a finite number of at least 0"),
        ({"eta_max": np.inf}, "eta_max of GreedyAlignment is inf"),
        ({"own_pairs": None}, "own_pairs of GreedyAlignment is None; use True or False"),
        ({"shrinkage": "much"}, "shrinkage of GreedyAlignment is 'much'"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    X, Y = moons(30)
    with pytest.raises(ValueError, match=message):
        MKLRegressor(Gaussians(), solver=GreedyAlignment(**parameters), C=1.0).fit(X, Y)


def test_shrinkage_without_bandwidths_is_refused():
    x, Y = wave(50)
    with pytest.raises(
        ValueError, match=r"shrinkage of GreedyAlignment is 0.5, which is for bandwidths per column"
    ):
        MKLRegressor(Dirichlets((0, 5)), solver=GreedyAlignment(shrinkage=0.5), C=1.0).fit(x, Y)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("family", [Gaussians(), Gaussians(ard=True), Dirichlets((0, 5))])
def test_constant_rows_cannot_be_aligned_but_give_a_model(objective, family):
    X, y = np.ones((20, 1)), np.arange(20.0)
    with pytest.raises(ValueError, match="kernels: no kernel can be aligned with y"):
        AlignedKernel(family, solver=GreedyAlignment(objective), target="numbers").fit(X, y)
    with pytest.warns(UserWarning, match="no kernel can be aligned with y.*predictions will be constant"):
        model = MKLRegressor(family, solver=GreedyAlignment(objective), C=1.0).fit(X, y)
    assert_allclose(model.predict(X), 9.5)


@pytest.mark.parametrize("family", [Gaussians(), Gaussians(ard=True), Products(degree=2)])
def test_constant_targets_are_predicted(family):
    X, _ = moons(30)
    with pytest.warns(UserWarning, match="y is constant"):
        model = MKLRegressor(family, solver=GreedyAlignment(), C=1.0).fit(X, np.full(30, 0.1))
    assert_allclose(model.predict(X + 1), 0.1)


@pytest.mark.parametrize("ard", [False, True])
def test_duplicated_rows_and_constant_columns_do_no_harm(ard):
    X, Y = moons(40)
    X = np.column_stack([np.repeat(X, 2, axis=0), np.full(80, 3.0)])
    model = MKLClassifier(Gaussians(ard=ard), C=10.0).fit(X, np.repeat(Y[:, 0], 2))
    assert model.score(X, np.repeat(Y[:, 0], 2)) > 0.8


def test_a_target_that_one_kernel_fits_ends_the_search():
    x = np.linspace(0, 2 * np.pi, 41)[:-1, None]
    Y = np.column_stack([np.cos(3 * x[:, 0]), np.sin(3 * x[:, 0])])  # YYᵀ is a Dirichlet kernel
    for objective in OBJECTIVES:
        solver = GreedyAlignment(objective)
        combination = solver.learn(problem(x, Y, Dirichlets((1, 6))))
        assert solver.alignments_[-1] == pytest.approx(1.0, abs=1e-3) and len(combination) <= 2


def test_a_ridge_and_weights_whose_product_vanishes_are_no_division_by_zero():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    solver = GreedyAlignment(epsilon=1e-100, max_kernels=2, random_state=0)
    kernel = AlignedKernel([RBF(1.0), Linear()], solver=solver)
    with suppress(ValueError):  # a sentence would do
        kernel.fit(X, X[:, 0], sample_weight=np.full(60, 1e-200))
