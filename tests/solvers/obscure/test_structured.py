"""Obscure on outputs that span several rows: plain steps over all outputs, the optimum, and the max-hinge as a case."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.solvers.obscure import reference as plain

from manykernels.families import Finite, Precomputed
from manykernels.kernels import RBF, Linear
from manykernels.losses import Chain, MaxHinge, Structured
from manykernels.problem import Problem, Scale
from manykernels.solvers import Obscure, Ufo
from manykernels.solvers.obscure.examples import ExamplePasses
from manykernels.solvers.obscure.sequential import StepRule

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def sequences(n=12, T=4, c=2, seed=0):
    """Return rows of sequences whose labels like to stay, their labels and their groups, mixed up."""
    rng = np.random.default_rng(seed)
    labels = np.empty((n, T), int)
    labels[:, 0] = rng.integers(c, size=n)
    for t in range(1, T):
        stay = rng.random(n) < 0.8
        labels[:, t] = np.where(stay, labels[:, t - 1], rng.integers(c, size=n))
    X = rng.normal(size=(n * T, 3))
    X[:, 0] += 1.5 * labels.ravel()
    turn = np.argsort(rng.permutation(n * T) // 7, kind="stable")  # rows of sequences stand between others'
    return X[turn], labels.ravel()[turn], np.repeat(np.arange(n), T)[turn]


def chain_problem(C=1.0, c=2, weights=False, transitions=True, **options):
    X, labels, groups = sequences(c=c, **options)
    family = Finite([RBF(1.0), RBF(3.0), Linear()]).resolve(3)
    loss = Chain(c, transitions=transitions)
    s = np.random.default_rng(5).exponential(size=groups.max() + 1)[groups] if weights else np.ones(len(X))
    scale = Scale.fit(family, X, "trace", s)
    return Problem(X, loss.encode(labels, groups), family, scale, loss, C, s, groups=groups)


class Multiclass(Structured):
    """The max-hinge as a user would write it."""

    def worst(self, y, F):
        k = int(np.argmax(F + 1.0 - y))
        return np.eye(F.shape[1])[[k]], float(y[0, k] < 0.5)

    def best(self, F):
        return np.eye(F.shape[1])[F.argmax(axis=1)]


@pytest.mark.parametrize("loss", [Multiclass(), Chain(3, transitions=False)], ids=["own", "chain"])
@pytest.mark.parametrize(
    "solver",
    [
        Obscure(1.3, epochs=8, random_state=0),
        Obscure(1.3, epochs=8, average=False, random_state=0),
        Obscure(1.3, epochs=8, memory=20_000, random_state=0),  # blocks of 29 rows
        Obscure(1.3, stage="batch", radius=np.inf, epochs=8, random_state=0),
        Ufo(1e-3, p=1.3, epochs=8, random_state=0),
    ],
    ids=["both", "last", "blocks", "pegasos", "ufo"],
)
def test_max_hinge_by_its_worst_output_is_the_built_in_one(loss, solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = np.eye(3)[np.digitize(X[:, 0] * X[:, 1] + X[:, 2], [-0.5, 0.5])]
    family = Finite([RBF(1.0), RBF(3.0), Linear()]).resolve(4)
    scale, s = Scale.fit(family, X, "trace"), rng.exponential(size=60)
    a, b = (solver.solve(Problem(X, Y, family, scale, kind, 5.0, s)) for kind in (MaxHinge(), loss))
    assert_allclose(b.dual_coef, a.dual_coef, rtol=1e-10, atol=1e-12)
    assert b.trace.extra == a.trace.extra
    # On the fly values are in single precision, and the tables sum them in another order.
    tolerance = 1e-5 if solver.memory == 20_000 else 1e-10
    assert_allclose(b.trace.objective, a.trace.objective, rtol=tolerance)
    assert_allclose(b.trace.gap, a.trace.gap, rtol=tolerance, atol=tolerance)
    assert b.gap == pytest.approx(a.gap, rel=0.3)  # the feasible point next to it is another one


# -- steps, from the formulas ----------------------------------------------------------------------------


def every_output(loss, c, T):
    return [loss.encode(np.array(o), np.zeros(T, int)) for o in itertools.product(range(c), repeat=T)]


def subgradient(w, phi, at, y, outputs, scored, s):
    """Return the joint features of the worst output less those of the right one, found among all outputs."""
    F = np.zeros(y.shape)
    F[:, :scored] = sum(P[at] @ part for P, part in zip(phi, w.parts))
    F += w.b
    cost = [np.sum(o[:, :scored] != y[:, :scored]) / 2 for o in outputs]
    values = [d + np.sum((o - y) * F) for d, o in zip(cost, outputs)]
    worst = outputs[int(np.argmax(values))] - y
    z = plain.Groups([], 0)
    slope = s * worst if max(values) > 0 else np.zeros(y.shape)
    z.parts, z.b = [P[at].T @ slope[:, :scored] for P in phi], slope.sum(axis=0)
    return z, max(0.0, max(values))


@pytest.mark.parametrize("memory", [2**30, 6_000])  # everything, or blocks of two or three sequences
def test_steps_are_those_of_both_algorithms_over_all_outputs(memory):
    p, q, eta, C = 1.4, 1.4 / 0.4, 0.1, 2.0
    pb = chain_problem(C=C, weights=True)
    loss, T = pb.loss, 4
    run = ExamplePasses(pb, p, memory, False, Obscure(p).penalties)
    rng = np.random.default_rng(1)
    first, order, radius = rng.integers(12, size=30), rng.integers(12, size=60), 1.5
    run.run(first, StepRule(batch=False, eta=eta))
    rule = StepRule(batch=True, radius=radius)
    run.run(order, rule)

    members = pb.family.members()
    grams = [pb.family.gram(pb.X, pb.X, [i], [1.0]) for i in members]
    phi = [plain.factor(K) / r for K, r in zip(grams, np.sqrt(pb.scale.rho_sq(members, p)))]
    outputs, lam, total = every_output(loss, 2, T), 1 / (C * 12), 0.0
    theta = plain.Groups(phi, 2)
    theta.b = np.zeros(6)

    def gradient(e):
        at = np.flatnonzero(pb.groups == e)
        w = plain.linked(theta, q)
        return subgradient(w, phi, at, pb.Y[at], outputs, 2, pb.sample_weight[at[0]])[0]

    for e in first:
        theta = theta - gradient(e).scaled(eta)
    for k, e in enumerate(order, start=1):
        z = gradient(e)
        d = lam * k + total
        total += 0.5 * (
            np.sqrt(d**2 + q * ((lam / q * theta.dual_norm(q) + z.dual_norm(q)) / radius) ** 2) - d
        )
        step = q / (lam * k + total)
        theta = theta.scaled(1 - lam * step / q) - z.scaled(step)
        theta = theta.scaled(min(1.0, q * radius / theta.dual_norm(q)))
    w, iterate = plain.linked(theta, q), run.evaluate(rule)
    tolerance = (
        {"rtol": 1e-8, "atol": 1e-10} if memory > 1e6 else {"rtol": 1e-3, "atol": 1e-4}
    )  # single precision
    assert_allclose(iterate.u, w.norms(), **tolerance)
    assert_allclose(iterate.intercept, w.b, **tolerance)
    losses = [
        subgradient(w, phi, at, pb.Y[at], outputs, 2, 1.0)[1] * pb.sample_weight[at[0]]
        for at in (np.flatnonzero(pb.groups == e) for e in range(12))
    ]
    expected = np.mean(losses) + lam / 2 * (np.linalg.norm(w.norms(), p) ** 2 + w.b @ w.b)
    assert iterate.objective == pytest.approx(expected, rel=1e-8 if memory > 1e6 else 1e-3)


# -- the optimum -------------------------------------------------------------------------------------------


def optimum(pb, p, T):
    """Return the least objective, every output of every example written as a constraint, by an interior point."""
    loss, n = pb.loss, pb.groups.max() + 1
    members = pb.family.members()
    scored = pb.n_outputs - loss.constants
    rho = np.sqrt(pb.scale.rho_sq(members, p))
    phi = [plain.factor(pb.family.gram(pb.X, pb.X, [i], [1.0])) / r for i, r in zip(members, rho)]
    W = [cp.Variable((P.shape[1], scored)) for P in phi]
    b, xi = cp.Variable(pb.n_outputs), cp.Variable(n)
    outputs, constraints, s = every_output(loss, scored, T), [xi >= 0], np.empty(n)
    for e in range(n):
        at = np.flatnonzero(pb.groups == e)
        s[e] = pb.sample_weight[at[0]]
        for o in outputs:
            D = o - pb.Y[at]
            inner = sum(cp.sum(cp.multiply(P[at].T @ D[:, :scored], w)) for P, w in zip(phi, W))
            cost = np.sum(D[:, :scored] > 0.5)
            constraints.append(xi[e] >= cost + inner + b @ D.sum(axis=0))
    group = cp.norm(cp.hstack([cp.norm(w, "fro") for w in W]), p)
    lam = 1 / (pb.C * n)
    value = s @ xi / n + lam / 2 * (cp.square(group) + cp.sum_squares(b))
    return cp.Problem(cp.Minimize(value), constraints).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("transitions", [True, False])
@pytest.mark.parametrize("C", [0.03, 1.0])  # many coefficients at their bounds, and few
def test_bounds_hold_the_optimum_over_all_outputs(C, transitions):
    pb = chain_problem(C=C, weights=True, transitions=transitions, T=3)
    best = optimum(pb, 1.5, 3)
    r = Obscure(1.5, epochs=150, tol=0.0, random_state=0).solve(pb)
    assert r.gap_kind == "exact"
    assert r.objective - r.gap <= best * (1 + 1e-6)
    # Stochastic steps end per cents above the optimum; the bounds must be of use all the same.
    assert best * (1 - 1e-6) <= r.objective <= 1.05 * best
    assert r.gap <= 0.4 * r.objective
    assert all(gap >= 0 for gap in r.trace.gap)
    batch = [v for v, stage in zip(r.trace.objective, r.trace.extra["stage"]) if stage == "batch"]
    assert np.mean(batch[-10:]) < np.mean(batch[:10])


def test_cutting_each_example_as_far_as_it_must_tightens_the_bound():
    pb = chain_problem(C=0.03)
    r = Obscure(1.5, random_state=0).solve(pb)
    assert r.gap < 0.9 * r.trace.gap[int(np.argmin(r.trace.objective))]


def test_sequences_are_learned_with_their_transitions():
    X, labels, groups = sequences(n=40, T=8, c=3, seed=1)
    Z, truth, there = sequences(n=100, T=8, c=3, seed=2)
    family = Finite([RBF(2.0, columns=[0]), RBF(2.0, columns=[1, 2])]).resolve(3)
    errors = {}
    for transitions in (True, False):
        loss = Chain(3, transitions=transitions)
        pb = Problem(
            X, loss.encode(labels, groups), family, Scale.fit(family, X, "trace"), loss, 0.1, groups=groups
        )
        r = Obscure(1.1, epochs=20, random_state=0).solve(pb)
        errors[transitions] = np.mean(loss.decode(r.predictor.scores(Z), there) != truth)
        assert r.combination.weights[0] > 3 * r.combination.weights[1]  # the others are noise
        # What is returned is what was measured.
        F = r.predictor.scores(X)
        risk = np.mean([loss.violation(pb.Y[groups == e], F[groups == e])[0] for e in range(40)])
        assert 0 < r.objective - risk < r.objective
    assert errors[True] < 0.9 * errors[False]


def test_ready_made_stacks_and_two_fits_alike():
    pb = chain_problem()
    K = np.stack([pb.family.gram(pb.X, pb.X, [i], [1.0]) for i in pb.family.members()], axis=2)
    family = Precomputed().resolve(3)
    scale = Scale.fit(family, K, "trace")
    stacked = Problem(K, pb.Y, family, scale, pb.loss, 1.0, groups=pb.groups)
    a, b, c = (Obscure(1.5, epochs=5, random_state=3).solve(x) for x in (pb, stacked, stacked))
    assert_allclose(b.dual_coef, a.dual_coef, rtol=1e-6, atol=1e-9)
    assert_array_equal(b.dual_coef, c.dual_coef)


def test_rows_without_weight_do_not_matter():
    pb = chain_problem()
    s = np.where(pb.groups == 3, 0.0, 1.0)
    pb = Problem(pb.X, pb.Y, pb.family, pb.scale, pb.loss, 1.0, s, groups=pb.groups)
    assert not Obscure(1.5, epochs=5, random_state=0).solve(pb).dual_coef[pb.groups == 3].any()


def test_what_does_not_fit_is_refused():
    pb = chain_problem()
    uneven = np.linspace(1, 2, pb.n_rows)
    with pytest.raises(ValueError, match="sample_weight differs within an example"):
        Obscure().solve(Problem(pb.X, pb.Y, pb.family, pb.scale, pb.loss, 1.0, uneven, groups=pb.groups))
    with pytest.raises(ValueError, match="groups has the shape"):
        Obscure().solve(Problem(pb.X, pb.Y, pb.family, pb.scale, pb.loss, groups=pb.groups[:5]))
    with pytest.raises(ValueError, match=r"Y has 2 columns.*encode"):
        Obscure().solve(Problem(pb.X, pb.Y[:, :2], pb.family, pb.scale, pb.loss, groups=pb.groups))
