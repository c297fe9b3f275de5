"""E|F_t(x) - F*(x)|² against the number of steps (Li et al. 2017, Theorem 5.1).

Triply and doubly stochastic gradients. 300 rows in two dimensions, three RBF kernels, logistic loss, batches of 32 rows
drawn independently; F* comes from the batch solvers, to a relative gap of 1e-8. The error is averaged over 200 fresh
points and over seeds.

- Alg. 3 to the letter (``faithful=True``), 32 new features a step. It moves one of m kernels but shrinks all, so that
  F* is LpNorm's at C/m, not at C: the error against both is shown.
- Alg. 1–2, doubly stochastic on the sum of the kernels: F* is Uniform's.
- TriplyStochastic as it is by default, on 128 features of each kernel: F* is LpNorm's on the same features. Its steps
  fall like 1/i only after 1.5/(λγ₀) of them.

Theorem 5.1 claims a slope of -1. Slopes are fitted to the last third of the (logarithmic) axis.

python benchmarks/triply_stochastic_rate.py --out results/triply_stochastic_rate.json
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from common import Clock, finish, judged, parser
from manykernels.families import Finite
from manykernels.kernels import RBF, Linear
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.solvers import LpNorm, TriplyStochastic, Uniform

N, BATCH, LAM = 300, 32, 0.03
KERNELS = [RBF(0.5), RBF(1.5), RBF(5.0)]
COLORS = {
    "Alg. 3, against C/m": "#2a6f97",
    "Alg. 3, against C": "#7db8d6",
    "Alg. 1-2": "#6a994e",
    "default": "#c1121f",
}


def make_problem():
    """Return the problem and fresh points."""
    rng = np.random.default_rng(0)
    X, fresh = rng.standard_normal((N, 2)), rng.standard_normal((200, 2))
    signal = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    Y = np.where(signal + 0.3 * rng.standard_normal(N) > 0, 1.0, -1.0)[:, None]
    family = Finite(KERNELS).resolve(2)
    return Problem(X, Y, family, Scale.fit(family, X, "trace"), get_loss("logistic"), 1 / (LAM * N)), fresh


def feature_optimum(problem, predictor, fresh):
    """Return the scores of LpNorm on the random features of a predictor, as linear kernels on their columns."""
    maps = problem.family.random_features([0, 1, 2], 2, int(predictor.seed[0]), int(predictor.size[0]))
    blocks = [[m.block(b) for b in range(k)] for m, k in zip(maps, predictor.blocks, strict=True)]

    def columns(X):
        return np.hstack([b.transform(X) / np.sqrt(len(of)) for of in blocks for b in of]).astype(float)

    edges = np.cumsum([0, *(sum(b.width for b in of) for of in blocks)])
    family = Finite([Linear(columns=slice(a, b)) for a, b in pairwise(edges)])
    Z = columns(problem.X)
    family = family.resolve(Z.shape[1])
    scale = Scale.fit(family, Z, predictor.combination.rho)
    best = LpNorm(tol=1e-8).solve(replace(problem, X=Z, family=family, scale=scale))
    return best.predictor.scores(columns(fresh))


def curve(problem, fresh, solver, at, seed, target):
    """Return the mean squared error after each of the numbers of steps `at`; `target` may depend on the predictor."""
    rng = np.random.default_rng(1000 + seed)
    state = solver.set_params(random_state=seed).start(problem)
    state, scores, before = solver.expect(state, N), [], 0
    for t in at:
        state = solver.update(state, problem.rows(rng.integers(N, size=(t - before) * BATCH)))
        before = t
        predictor = solver.finish(state, problem).predictor
        scores.append(predictor.scores(fresh))
    goals = [t(predictor) if callable(t) else t for t in target]
    return [[float(np.mean((F - goal) ** 2)) for F in scores] for goal in goals]


def slope(at, errors):
    """Return the slope over the last third of the logarithmic axis."""
    late = np.log(at) >= np.log(at[0]) + 2 / 3 * np.log(at[-1] / at[0])
    return float(np.polyfit(np.log(np.asarray(at)[late]), np.log(np.asarray(errors)[late]), 1)[0])


def draw(plt, record):
    """Draw the errors against the steps, with a line of slope -1."""
    fig, ax = plt.subplots(figsize=(6.4, 4.4))
    for name, c in record["curves"].items():
        ax.loglog(
            c["steps"], c["error"], "o-", ms=3.5, color=COLORS[name], label=f"{name}: slope {c['slope']:.2f}"
        )
    c = record["curves"]["Alg. 1-2"]
    t = np.array(c["steps"], dtype=float)
    ax.loglog(t, c["error"][-1] * t[-1] / t, "--", color="#888888", lw=1, label="1/t")
    ax.set_xlabel("steps t")
    ax.set_ylabel("mean |F_t(x) - F*(x)|²")
    ax.legend(fontsize=8)
    fig.tight_layout()
    return fig


def main():
    """Run all methods over seeds."""
    args = parser(__doc__.splitlines()[0]).parse_args()
    problem, fresh = make_problem()
    seeds, last = (3, 64) if args.quick else (8, 256)
    letter = {"faithful": True, "block": 32, "n_features": 32, "batch_size": BATCH}
    tight, m = LpNorm(tol=1e-8), len(KERNELS)

    def scores(solver, C):
        return solver.solve(replace(problem, C=C)).predictor.scores(fresh)

    def own(predictor):
        return feature_optimum(problem, predictor, fresh)

    runs = [
        (
            ("Alg. 3, against C/m", "Alg. 3, against C"),
            TriplyStochastic(**letter),
            [scores(tight, problem.C / m), scores(tight, problem.C)],
            last,
        ),
        (
            ("Alg. 1-2",),
            TriplyStochastic(**letter, learn_weights=False, kernels_per_step="all"),
            [scores(Uniform(), problem.C)],
            last // 2,
        ),
        (("default",), TriplyStochastic(n_features=128, block=64, batch_size=BATCH), [own], 8 * last),
    ]
    record = {"rows": N, "lambda": LAM, "batch": BATCH, "seeds": seeds, "curves": {}}
    with Clock() as clock:
        for names, solver, target, t in runs:
            at = [2**k for k in range(2, int(np.log2(t)) + 1)]
            errors = np.mean([curve(problem, fresh, solver, at, s, target) for s in range(seeds)], axis=0)
            for name, error in zip(names, errors, strict=True):
                record["curves"][name] = {"steps": at, "error": error.tolist(), "slope": slope(at, error)}
    record["cpu_seconds"] = clock.cpu
    slopes = ", ".join(f"{name} {c['slope']:.2f}" for name, c in record["curves"].items())
    record["verdict"] = judged(f"Theorem 5.1 claims -1; slopes: {slopes}", args.quick)
    finish(record, args.out, figure=lambda plt: draw(plt, record))


if __name__ == "__main__":
    main()
