"""The protocol of Li et al. (2017), section 6: their methods at their λ and p, learning curves, errors against rows."""

from __future__ import annotations

import math

import numpy as np
from sklearn.decomposition import PCA

from manykernels import MKLClassifier
from manykernels.kernels import RBF
from manykernels.solvers import Blockwise, LpNorm, Obscure, TriplyStochastic, Ufo
from streaming_methods import Report, Rows, measured, median_distance, warm_up

#: The paper's λ, and rows times epochs that stochastic methods may see, in no more epochs than these.
LAM, VISITS, MOST_EPOCHS = 1e-5, 6_000_000, 300
COLORS = {
    "Blockwise": "#2a6f97",
    "Blockwise, laplacian": "#c1121f",
    "triply": "#e09f3e",
    "doubly": "#6a994e",
    "Obscure": "#6d597a",
    "Ufo": "#b08ea2",
    "LpNorm": "#333333",
}


def reduced(rows: Rows, dimensions: int) -> Rows:
    """Return rows of principal components, fitted on the training part."""
    some = rows.X[np.random.default_rng(0).permutation(len(rows.X))[:50_000]]
    pca = PCA(dimensions, random_state=0).fit(some)
    return Rows(
        pca.transform(rows.X).astype(np.float32), rows.y, pca.transform(rows.Xt).astype(np.float32), rows.yt
    )


def five_kernels(X) -> dict:
    """Return an RBF kernel on all columns and one on each quarter, each as wide as the median distance."""
    quarters = np.array_split(np.arange(X.shape[1]), 4)
    out = {"all": RBF(median_distance(X))}
    for k, columns in enumerate(quarters):
        out[f"quarter {k + 1}"] = RBF(median_distance(X, columns), columns=columns)
    return out


def paper_model(name: str, X, n_classes: int, budget: int | None):
    """Return a method of the paper's section 6, at its λ and p; `budget` is epochs or sweeps."""
    kernels, C = five_kernels(X), 1 / (LAM * len(X))
    p = 2 * math.log(5) / (2 * math.log(5) - 1)
    epochs = budget or max(2, min(MOST_EPOCHS, VISITS // len(X)))
    hinge = "hinge" if n_classes == 2 else "softmax"
    if name == "triply":
        return MKLClassifier(
            kernels, solver=TriplyStochastic(p, epochs=epochs, random_state=0), loss=hinge, C=C
        )
    if name == "doubly":
        plain = TriplyStochastic(epochs=epochs, learn_weights=False, kernels_per_step="all", random_state=0)
        return MKLClassifier(kernels, solver=plain, loss=hinge, C=C)
    if name == "Blockwise":
        return MKLClassifier(kernels, solver=Blockwise(p=p, sweeps=budget or 3, random_state=0), C=C)
    if name == "Blockwise, laplacian":
        return MKLClassifier("laplacian", solver=Blockwise(sweeps=budget or 3, random_state=0), C="auto")
    batch = {
        "Obscure": Obscure(p, epochs=budget or 10, random_state=0),
        "Ufo": Ufo(epochs=budget or 10, random_state=0),
        "LpNorm": LpNorm(p, tol=1e-2, max_iter=budget or 20),
    }
    return MKLClassifier(kernels, solver=batch[name], C=C)


def fit_paper(folder, name, n, budget=None) -> dict:
    """Measure a method of the paper on the first n rows."""
    rows = Rows.load(folder, n)
    model = paper_model(name, rows.X, len(np.unique(rows.y)), budget)
    warm_up(model, rows.X, rows.y, 500)
    record = measured(model.fit, rows)
    if hasattr(model.combination_, "shares") and name not in ("Blockwise, laplacian",):
        record["shares"] = [float(s) for s in model.combination_.shares()]
    return {**record, "error": 1 - record["score"], "epochs": budget}


#: Epochs, sweeps or iterations of the learning curves.
BUDGETS = {
    "triply": (1, 3, 10, 30, 100, 300),
    "doubly": (1, 3, 10, 30, 100, 300),
    "Blockwise": (1, 2, 4),
    "Blockwise, laplacian": (1, 2, 4),
    "Obscure": (1, 3, 10),
    "Ufo": (1, 3, 10),
    "LpNorm": (2, 20),
}


def paper_part(report: Report, part: str, folder, subset: int, sizes, quick: bool) -> None:
    """Learning curves on `subset` rows (Fig. 1), then errors against the number of rows (Fig. 2)."""
    for name, budgets in BUDGETS.items():
        for budget in budgets[1:2] if quick else budgets:
            report.fit(f"{part}, curves", f"{name}, {budget}", fit_paper, folder, name, subset, budget)
    for n in sizes:
        for name in ("triply", "doubly", "Blockwise", "Blockwise, laplacian"):
            report.fit(f"{part}, rows", f"{name}, {n}", fit_paper, folder, name, n)


def confirmed(holds) -> str:
    """Return what became of an observation of the paper."""
    return "confirmed" if holds else "not confirmed"


def paper_verdicts(record: dict, part: str, paper: tuple[float, float], n: int) -> dict[str, str]:
    """Return the paper's three observations with what was measured."""
    by_rows = record.get(f"{part}, rows", {})
    curves = record.get(f"{part}, curves", {})

    def error(name, rows):
        return by_rows.get(f"{name}, {rows}", {}).get("error", math.nan)

    doubly, triply = error("doubly", n), error("triply", n)
    sizes = sorted({int(k.rsplit(", ", 1)[1]) for k in by_rows})
    last = {k: [v for c, v in curves.items() if c.rsplit(", ", 1)[0] == k and "error" in v] for k in BUDGETS}
    ends = {k: (v[-1]["error"], v[-1]["cpu_s"]) for k, v in last.items() if v}
    listed = ", ".join(f"{k} {e:.4f} in {s:.1f} CPU s" for k, (e, s) in ends.items())
    batch = [ends[k] for k in ("Obscure", "Ufo", "LpNorm") if k in ends]
    first = "not measured"
    if batch and "triply" in ends:
        lowest, quickest = min(e for e, _ in batch), min(s for _, s in batch)
        lower, faster = ends["triply"][0] <= lowest, ends["triply"][1] <= quickest
        quality, speed = "no worse" if lower else "worse", "no slower" if faster else "slower"
        first = f"triply {quality} and {speed} than the batch solvers"
    grows = [error("triply", k) for k in sizes]
    return {
        f"{part}: 1, triply against batch solvers on the same rows": f"{first}: {listed}",
        f"{part}: 2, triply better than doubly": (
            f"error {triply:.4f} against {doubly:.4f} on {n} rows (paper: {paper[1]} against {paper[0]}): "
            f"{confirmed(triply < doubly)}"
        ),
        f"{part}: 3, more rows help triply": (
            ", ".join(f"{k} rows {e:.4f}" for k, e in zip(sizes, grows, strict=True))
            + f": {confirmed(len(grows) > 1 and grows[-1] < grows[0])}"
        ),
    }


def draw_curves(ax, curves: dict, x: str) -> None:
    """Draw test errors against CPU seconds or against rows, one line per method."""
    for name in BUDGETS:
        points = [v for k, v in curves.items() if k.rsplit(", ", 1)[0] == name and "error" in v]
        if points:
            xs, ys = [v[x] for v in points], [100 * v["error"] for v in points]
            ax.plot(xs, ys, "o-", ms=4, lw=1.5, color=COLORS[name], label=name)
    ax.set_xscale("log")
    ax.set_yscale("log")
    for part in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        part(lambda value, _: f"{value:.3g}")  # 20, not 2 × 10¹
    ax.tick_params(axis="y", which="minor", labelsize=7)
    ax.xaxis.set_minor_formatter(lambda value, _: "")
    ax.spines[["top", "right"]].set_visible(False)
