"""Digits, raw pixels, 20 bandwidths: LpNorm(p=1.1) against a grid-searched SVC over the same bandwidths.

python benchmarks/digits_bandwidths.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

from common import Clock, finish, parser
from manykernels import MKLClassifier
from manykernels.kernels import RBF
from manykernels.solvers import LpNorm


def main():
    args = parser(__doc__).parse_args()
    X, y = load_digits(return_X_y=True)
    if args.quick:
        X, y = X[:400], y[:400]
    median = np.median(euclidean_distances(X)[np.triu_indices(len(X), 1)])
    sigmas = median * np.geomspace(1e-2, 1e2, 20)

    def ours():
        return MKLClassifier([RBF(s) for s in sigmas], solver=LpNorm(p=1.1), C=10)

    ours().fit(X[:150], y[:150])  # compiles
    rows = []
    for seed in range(3):
        A, B, ya, yb = train_test_split(X, y, test_size=0.3, random_state=seed)
        with Clock() as fit:
            model = ours().fit(A, ya)
        with Clock() as grid:
            peer = GridSearchCV(SVC(), {"gamma": 1 / sigmas**2, "C": [1, 10, 100]}, cv=5).fit(A, ya)
        rows.append(
            {
                "error": 1 - model.score(B, yb),
                "fit_s": fit.wall,
                "relative_gap": model.gap_ / model.objective_,
                "grid_svc_error": 1 - peer.score(B, yb),
                "grid_svc_s": grid.wall,
            }
        )
    finish(
        {
            "benchmark": "digits_bandwidths",
            "mean_error": np.mean([r["error"] for r in rows]),
            "mean_grid_svc_error": np.mean([r["grid_svc_error"] for r in rows]),
            "fit_over_grid": sum(r["fit_s"] for r in rows) / sum(r["grid_svc_s"] for r in rows),
            "target": "error <= 1.4 %, time <= 1/5",
            "splits": rows,
        },
        args.out,
    )


if __name__ == "__main__":
    main()
