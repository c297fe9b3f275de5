"""Thousands of targets over three bands of features, each with weights of its own: beside himalaya's banded ridge.

The sizes are those of himalaya's own examples: 2,000 rows, three bands, 5,000 targets, of which every one depends on
the bands to different degrees. himalaya (>= 0.4, ``pip install himalaya``) searches at random over band weights with
five folds (``GroupRidgeCV``), with the 100 iterations and the batches of 1,000 targets of its example, and a decade
between one ridge and the next, as there, over the seven decades that the targets here can want.

python benchmarks/encoding_targets.py --out results/encoding_targets.json
"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import r2_score

from common import Clock, finish, parser, reached, say
from manykernels import MKLRegressor
from manykernels.kernels import Linear
from manykernels.solvers import LeaveOneOut

BANDS, WIDTH = 3, 100


def table(n: int, targets: int, rng) -> tuple[dict, np.ndarray]:
    """Return bands of features, and targets that depend on them with weights drawn from a simplex, half noise."""
    X = {f"band{k}": rng.standard_normal((n, WIDTH)) for k in range(BANDS)}
    share = rng.dirichlet(np.full(BANDS, 0.5), targets)
    Y = np.zeros((n, targets))
    for k, band in enumerate(X.values()):
        W = rng.standard_normal((WIDTH, targets)) * np.sqrt(share[:, k] / WIDTH)
        Y += band @ W
    return X, Y + rng.standard_normal(Y.shape)


def ours(X, Y, new):
    """Return predictions, and the time of the fit."""
    kernels = {name: Linear() for name in X}
    model = MKLRegressor(kernels, solver=LeaveOneOut(random_state=0), weights="per_target")
    with Clock() as clock:
        model.fit(X, Y)
    say(f"manykernels: {clock.cpu:.1f} CPU s")
    return model.predict(new), clock


def theirs(X, Y, new, iterations: int):
    """Return the predictions of himalaya's banded ridge, and the time of its fit."""
    from himalaya.ridge import GroupRidgeCV

    groups = np.repeat(np.arange(BANDS), WIDTH)
    params = {"n_iter": iterations, "alphas": np.logspace(0, 6, 7), "n_targets_batch": 1000}
    params |= {"progress_bar": False}
    model = GroupRidgeCV(groups=groups, cv=5, random_state=0, solver_params=params)
    with Clock() as clock:
        model.fit(np.hstack(list(X.values())), Y)
    return model.predict(np.hstack(list(new.values()))), clock


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--iterations", type=int, default=100, help="of himalaya's random search")
    p.add_argument("--targets", type=int, default=5_000)
    args = p.parse_args()
    n, targets = (300, 200) if args.quick else (2_000, args.targets)
    rng = np.random.default_rng(0)
    X, Y = table(2 * n, targets, rng)
    train, test = slice(0, n), slice(n, 2 * n)
    record = {"n_rows": n, "bands": BANDS, "width": WIDTH, "targets": targets}
    known = {k: v[train] for k, v in X.items()}
    new = {k: v[test] for k, v in X.items()}
    runs = {"manykernels": ours(known, Y[train], new)}
    try:
        runs["himalaya"] = theirs(known, Y[train], new, 10 if args.quick else args.iterations)
    except ImportError:
        record["himalaya"] = "not installed"
    for name, (F, clock) in runs.items():
        record[name] = {"R2": r2_score(Y[test], F), "cpu": clock.cpu, "wall": clock.wall}
    if "himalaya" in runs:
        mine, peer = record["manykernels"], record["himalaya"]
        record["verdicts"] = [
            reached(f"R² {mine['R2']:.4f} beside {peer['R2']:.4f}", mine["R2"] >= peer["R2"] - 0.001),
            reached(f"{mine['cpu'] / peer['cpu']:.2f} of its CPU time", mine["cpu"] <= 0.5 * peer["cpu"]),
        ]
    finish(record, args.out)


if __name__ == "__main__":
    main()
