"""Stochastic steps on the alignment over products: unbiased, descending, and at the enumerated optimum in the end."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.solvers.test_alignment import alignment, data, problem

import manykernels
from manykernels import AlignedKernel, MKLClassifier, MKLRegressor
from manykernels.families import Finite, Products
from manykernels.kernels import RBF, Linear
from manykernels.solvers import Alignment
from manykernels.solvers.alignment.stochastic import StochasticSteps

FAMILIES = {
    "monomials": Products(degree=3),
    "kernels": Products(degree=2, base=[RBF(1.0), RBF(3.0, columns=[0, 1]), Linear(columns=[2])]),
}


def steps(family="monomials", how="base", draws=16, seed=0, n=40, centred=True, taken=3):
    X, Y = data(n)
    s = np.random.default_rng(2).exponential(size=n)
    run = StochasticSteps(
        problem(X, Y, FAMILIES[family], s, how=how), draws, centred, np.random.default_rng(seed)
    )
    run.run(taken)
    return run


def enumerated(run):
    """Return the gradient <K̃_z, K̃ - K̃*>/ρ_z² of all members, from their matrices."""
    pb = run.problem
    members = pb.family.members()
    R = run.K - run.Y @ run.Y.T
    grams = [run.centring.matrix(pb.family.gram(pb.X, pb.X, [z], np.ones(1))) for z in members]
    return members, np.array([np.vdot(K, R) for K in grams]) / pb.scale.rho_sq(members, 1.0)


def estimates(run, many):
    """Return estimates of the gradient, one per row, at the place where the steps have come to."""
    members, g = enumerated(run)
    place = {z: i for i, z in enumerate(members)}
    out, N = np.zeros((many, len(members))), run.gradient()
    for row in out:
        drawn, guess, exact, _ = run.estimate(run.sampler.draw(N, run.draws, run.rng))
        row[[place[z] for z in drawn]] = guess
        assert_allclose(exact, g[[place[z] for z in drawn]], rtol=1e-6, atol=1e-9 * np.abs(g).max())
    return g, out


@pytest.mark.parametrize(
    "family, how, centred",
    [("monomials", "base", True), ("monomials", "trace", False), ("kernels", "trace", True)],
)
def test_estimate_of_the_gradient_is_unbiased(family, how, centred):
    run = steps(family, how, centred=centred, n=25)
    g, found = estimates(run, 150)
    assert (g < 0).any() and (g > 0).any()  # signed, or there would be nothing to it
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    seen = error > 0
    z = (found.mean(axis=0) - g)[seen] / error[seen]
    # Of independent normals beyond 4.5 there are 7 in a million.
    assert np.abs(z).max() < 4.5 and np.mean(np.abs(z) > 2) < 0.25
    assert np.abs(g[~seen]).max(initial=0.0) < 1e-2 * np.abs(g).max()  # what was never drawn hardly counts


@pytest.mark.parametrize("taken", [0, 10])
def test_variance_is_within_its_bound_and_at_first_far_below_that_of_uniform_draws(taken):
    run = steps(draws=1, n=40, taken=taken)
    g, found = estimates(run, 400)
    # |g_z|/q_z <= mass/(c_z ρ_z²), and with the scale of the draws c_z ρ_z² is the number of orderings.
    values, V = np.linalg.eigh(run.gradient())
    mass = float(np.abs(values) @ np.einsum("tk,tk->k", V, run.sampler.total @ V))
    assert np.abs(found).max() <= mass * (1 + 1e-9)
    uniform = len(g) * float(g @ g) - float(g @ g)  # E‖e_z g_z/q_z‖² - ‖g‖² with q_z = 1/m
    if not taken:  # later positive and negative parts cancel in g, but not in the bound
        assert float(found.var(axis=0).sum()) < uniform / 4


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("centred", [True, False])
def test_steps_descend_to_the_enumerated_optimum(family, centred):
    X, Y = data(40)
    s = np.random.default_rng(0).integers(1, 4, 40).astype(float)
    pb = problem(X, Y, FAMILIES[family], s)
    best = Alignment(centred=centred).learn(pb)
    bare = Alignment(max_iter=100, draws=16, centred=centred, corrective=False, random_state=0)
    full = Alignment(max_iter=60, draws=48, centred=centred, random_state=0)
    reached = bare.learn(pb)
    assert (np.diff(bare.alignments_) >= -1e-12).all()
    K, target = best.gram(X), reached.gram(X)
    # Linear descent at the pace of the condition of the kernels' inner products, and drawn coordinates only.
    assert_allclose(target, K, atol=2e-2 * np.abs(K).max())
    assert_allclose(full.learn(pb).gram(X), K, atol=1e-6 * np.abs(K).max())
    if centred:
        assert bare.alignments_[-1] == pytest.approx(alignment(K, Y, s), rel=1e-4)


def test_true_products_are_found_among_many():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 60))
    y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3]
    solver = Alignment(max_iter=25, random_state=0)
    model = MKLRegressor(Products(degree=2), solver=solver, C=10.0, normalize="base").fit(X, y)
    heavy = [row["kernel"] for row in model.combination_.records()[:2]]
    assert model.combination_.family.size() == 1890 and set(heavy) == {"x0·x1", "x2·x3"}


@pytest.mark.slow
def test_a_million_products_take_seconds_a_step():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 180))
    y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] * X[:, 4] + X[:, 5]
    solver = Alignment(max_iter=40, random_state=0)
    model = MKLRegressor(Products(degree=3), solver=solver, C=10.0, normalize="base").fit(X, y)
    assert model.combination_.family.size() > 1e6 and model.solver_.alignments_[-1] > 0.3


def test_it_works_in_the_estimators_and_repeats(tmp_path):
    X, Y = data(60)
    label = np.digitize(Y[:, 0], [0.2, 1.2])
    solver = Alignment(max_iter=20, draws=8)
    first, second = (
        MKLClassifier(Products(degree=2), solver=solver, random_state=0, C=10.0).fit(X, label)
        for _ in range(2)
    )
    assert_allclose(first.weights_, second.weights_, rtol=0)
    assert first.score(X, label) > 0.7 and first.gap_kind_ == "exact"
    first.save(tmp_path / "m.mk")
    assert_allclose(manykernels.load(tmp_path / "m.mk").decision_function(X), first.decision_function(X))
    assert np.isfinite(AlignedKernel(Products(degree=2), solver=solver).fit(X, label).transform(X)).all()


def test_an_interrupt_keeps_the_steps_taken(monkeypatch):
    X, Y = data(40)
    taken = StochasticSteps.step

    def interrupted(self):
        if len(self.alignments) == 4:
            raise KeyboardInterrupt
        return taken(self)

    monkeypatch.setattr(StochasticSteps, "step", interrupted)
    solver = Alignment(max_iter=20, random_state=0)
    with pytest.warns(UserWarning, match="Interrupted after 4 steps, with an alignment of"):
        combination = solver.learn(problem(X, Y, Products(degree=2)))
    assert len(combination) > 0


def test_lists_are_refused_and_too_many_products_are_told_of_it():
    X, Y = data()
    with pytest.raises(
        ValueError, match="max_iter of Alignment is 5, for stochastic steps over Products, and"
    ):
        MKLRegressor(Finite([RBF(1.0)]), solver=Alignment(max_iter=5), C=1.0).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match=r"limit 10,000\); pass .* or max_iter=100"):
        MKLRegressor(Products(degree=9), solver=Alignment(), C=1.0).fit(np.tile(X, 3), Y[:, 0])
