"""Do learned weights help? mfeat (six views) and leaves100 (three), with and without 12 views of noise.

One RBF kernel per view, as wide as the view's median distance; Blockwise with its default p (learned weights) against
p = 2 (equal weights), C chosen from a few on a fifth of the training rows, the same way for both. Half of the rows are
for testing, five seeds. Views of noise are 50 columns of standard normal numbers each.

python benchmarks/streaming_views.py --data DIR --out results/streaming_views.json
"""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import train_test_split

from common import Clock, judged, load_views, parser, reached
from manykernels import MKLClassifier
from manykernels.kernels import RBF
from manykernels.solvers import Blockwise
from streaming_methods import Report, median_distance

NOISE, WIDTH, P = 12, 50, 4 / 3


def views_of(folder, name):
    """Return standardised views in single precision, and the classes."""
    views, y = load_views(name, folder)
    return {view: X.astype(np.float32) for view, X in views.items()}, np.asarray(y)


def with_noise(views, count, seed):
    """Return the views and `count` more of noise."""
    rng, n = np.random.default_rng([seed, 7]), len(next(iter(views.values())))
    noise = {f"noise {k + 1}": rng.standard_normal((n, WIDTH), dtype=np.float32) for k in range(count)}
    return {**views, **noise}


def kernels_of(views):
    """Return one kernel per view, on its columns of the table."""
    out, first = {}, 0
    for name, X in views.items():
        columns = np.arange(first, first + X.shape[1])
        out[name] = RBF(median_distance(X), columns=columns)
        first += X.shape[1]
    return out


def once(views, y, seed, Cs, features):
    """Return the test accuracies with learned and with equal weights, and the learned shares."""
    X, kernels = np.hstack(list(views.values())), kernels_of(views)
    A, T, a, t = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    B, V, b, v = train_test_split(A, a, test_size=0.2, stratify=a, random_state=seed)
    out = {}
    for name, p in (("learned", P), ("equal", 2.0)):
        solver = Blockwise(p=p, n_features=features, validation_fraction=0, random_state=seed)
        found = {}
        for C in Cs:
            found[C] = MKLClassifier(kernels, solver=solver, C=C).fit(B, b).score(V, v)
        fits = {}
        for C in Cs:
            with Clock() as clock:
                model = MKLClassifier(kernels, solver=solver, C=C).fit(A, a)
            shares = dict(zip(views, map(float, model.combination_.shares()), strict=True))
            fits[C] = {"score": model.score(T, t), "C": C, "cpu_s": clock.cpu, "shares": shares}
        chosen = max(Cs, key=lambda c: (found[c], -c))
        out[name] = {**fits[chosen], "by_C": {C: f["score"] for C, f in fits.items()}}
    return out


def draw(plt, record):
    """Draw accuracies of all seeds, and where the learned norm lies."""
    parts = record["parts"]
    size = (3.1 * len(parts), 3.8)
    fig, axes = plt.subplots(1, len(parts), figsize=size, layout="constrained", squeeze=False, sharey=True)
    for ax, (name, part) in zip(axes[0], parts.items(), strict=True):
        pairs = np.array([[r["equal"]["score"], r["learned"]["score"]] for r in part["runs"]]) * 100
        ax.plot([0, 1], pairs.T, "-", color="#bbbbbb", lw=1)
        for k, color in enumerate(("#555555", "#c1121f")):
            ax.plot(np.full(len(pairs), k), pairs[:, k], "o", color=color, ms=5)
            ax.plot([k - 0.16, k + 0.16], [pairs[:, k].mean()] * 2, color=color, lw=3)
        ax.set_xticks([0, 1], ["equal", "learned"])
        ax.set_xlim(-0.5, 1.5)
        ax.set_title(f"{name}\n{part['gain']:+.2f} points", fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("test accuracy (%)")
    return fig


def main():
    """Run every data set with and without noise."""
    p = parser(__doc__.splitlines()[0])
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--features", type=int, default=8192)
    p.add_argument("--C", type=float, nargs="+", default=[1.0, 10.0, 100.0])
    args = p.parse_args()
    seeds, Cs = (2, [10.0]) if args.quick else (args.seeds, args.C)
    features = 2048 if args.quick else args.features
    report = Report(args, benchmark="streaming_views", seeds=seeds, features=features)
    verdicts = {}
    for name in ("mfeat", "leaves100"):
        views, y = views_of(args.data, name)
        for count in (0, NOISE):
            runs = [once(with_noise(views, count, s), y, s, Cs, features) for s in range(seeds)]
            scores = {k: float(np.mean([r[k]["score"] for r in runs])) for k in ("learned", "equal")}
            gain = 100 * (scores["learned"] - scores["equal"])
            part = f"{name} + {count} noise" if count else name
            by_C = {
                C: 100 * np.mean([r["learned"]["by_C"][C] - r["equal"]["by_C"][C] for r in runs]) for C in Cs
            }
            report.add("parts", part, {**scores, "gain": gain, "gain_by_C": by_C, "runs": runs})
            wanted = (0.7 if name == "mfeat" else 0.0) if count else -0.3
            verdicts[f"{part}: learned minus equal weights >= {wanted} points"] = reached(
                f"{scores['learned']:.4f} against {scores['equal']:.4f}, {gain:+.2f} "
                f"({', '.join(f'{g:+.2f} at C = {C:g}' for C, g in by_C.items())})",
                gain >= wanted,
            )
    report.finish(judged(verdicts, args.quick), draw)


if __name__ == "__main__":
    main()
