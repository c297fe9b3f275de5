"""640 RBF kernels on 1,000 rows: LpNorm against a NumPy mean of the same stack, and kernels as functions.

python benchmarks/many_finite_kernels.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import euclidean_distances

from common import Clock, finish, parser, peak_mib
from manykernels import MKLClassifier
from manykernels.kernels import RBF
from manykernels.solvers import LpNorm


def problem(n, m):
    X, y = make_classification(n, n_features=20, n_informative=8, random_state=0)
    D = euclidean_distances(X, squared=True)
    return X, y, D, np.sqrt(np.median(D)) * np.geomspace(0.01, 100, m)


def fill(D, sigmas):
    K = np.empty((len(D), len(D), len(sigmas)))
    for a in range(0, len(D), 50):
        np.exp(-D[a : a + 50, :, None] / sigmas**2, out=K[a : a + 50])
    return K


def main():
    args = parser(__doc__).parse_args()
    n, m = (200, 64) if args.quick else (1000, 640)
    X, y, D, sigmas = problem(n, m)
    record = {"benchmark": "many_finite_kernels", "n_rows": n, "kernels": m}

    with Clock() as first:  # compiles, or loads what was compiled before
        MKLClassifier("precomputed", solver=LpNorm(), C=1.0).fit(fill(D[:60, :60], sigmas[:4]), y[:60])
    record["first_small_fit_s"] = first.wall

    before = peak_mib()
    with Clock() as t:
        model = MKLClassifier([RBF(s) for s in sigmas], solver=LpNorm(tol=1e-3), C=1.0).fit(X, y)
    record["functions"] = {
        "fit_s": t.wall,
        "relative_gap": model.gap_ / model.objective_,
        "evaluations": model.n_iter_,
        "memory_above_start_mib": peak_mib() - before,
        "one_gram_mib": 8 * n * n / 2**20,
    }

    K = fill(D, sigmas)
    stack_mib, before = K.nbytes / 2**20, peak_mib()
    K.mean(axis=2)
    with Clock() as mean:
        K.mean(axis=2)
    with Clock() as t:
        model = MKLClassifier("precomputed", solver=LpNorm(tol=1e-3), C=1.0).fit(K, y)
    record["stack"] = {
        "numpy_mean_s": mean.wall,
        "fit_s": t.wall,
        "fit_over_mean": t.wall / mean.wall,
        "target": "<= 15",
        "relative_gap": model.gap_ / model.objective_,
        "evaluations": model.n_iter_,
        "memory_over_stack": (stack_mib + max(peak_mib() - before, 0)) / stack_mib,
    }
    finish(record, args.out)


if __name__ == "__main__":
    main()
