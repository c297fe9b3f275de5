"""The demonstration of the command line: find the useful kernels among useless ones, twice."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

from .. import MKLClassifier, MKLRegressor
from ..families import Products
from ..families.bandwidths.grids import median_distance
from ..kernels import RBF
from ..persistence import load, save
from ..solvers import MirrorDescent, SimpleMKL, Uniform
from .beside import kept_beside
from .models import fit_visibly, held_out, moments
from .screens import describe_gap, file_size, kernel_table, plain_table, stdout
from .tables import named, table_writer

#: Groups of noise.
N_NOISE = 40
#: Columns of a group of noise: as many as in the groups of pixels.
WIDTH = 16


def views(n_noise: int = N_NOISE) -> dict[str, list[int]]:
    """Return the groups of columns: parts of an 8 × 8 image, then noise."""
    image = np.arange(64).reshape(8, 8)
    parts = {"whole image": image}
    for i in range(0, 8, 2):
        parts[f"pixel rows {i}-{i + 1}"] = image[i : i + 2]
        parts[f"pixel columns {i}-{i + 1}"] = image[:, i : i + 2]
    for v, above in enumerate(("top", "bottom")):
        for h, beside in enumerate(("left", "right")):
            parts[f"{above} {beside} quarter"] = image[4 * v : 4 * v + 4, 4 * h : 4 * h + 4]
    groups = {name: part.ravel().tolist() for name, part in parts.items()}
    for k in range(n_noise):
        groups[f"noise {k + 1}"] = list(range(64 + WIDTH * k, 64 + WIDTH * (k + 1)))
    return groups


def make_data(seed: int, n_noise: int = N_NOISE) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return scikit-learn's digits with columns of pure noise added, the labels, and the names."""
    pixels, y = load_digits(return_X_y=True)
    noise = np.random.default_rng(seed).standard_normal((len(y), WIDTH * n_noise)).round(3)
    names = [f"pixel{i}{j}" for i in range(8) for j in range(8)]
    return np.hstack([pixels, noise]), y, names + [f"noise{k}" for k in range(noise.shape[1])]


def make_kernels(X: np.ndarray, groups: dict[str, list[int]]) -> dict[str, Any]:
    """Return a Gaussian kernel for every group, its bandwidth the median distance."""
    ones = np.ones(len(X))
    return {
        name: RBF(median_distance(X[:, columns], ones, "sqdist"), columns=columns)
        for name, columns in groups.items()
    }


def compare(X, y, X_test, y_test, kernels, folds: int, costs) -> list[tuple[str, float, float]]:
    """Return name, score and seconds of the baselines, each with its best C (and bandwidth) by cross-validation."""

    def svc(n_columns):
        gammas = [g / n_columns for g in (0.03, 0.1, 0.3, 1.0, 3.0)]
        return GridSearchCV(SVC(), {"C": list(costs), "gamma": gammas}, cv=folds)

    mean = GridSearchCV(MKLClassifier(kernels, solver=Uniform()), {"C": list(costs)}, cv=folds)
    contestants = {
        "mean of all kernels, C tuned": (mean, X.shape[1]),
        "SVC on all columns, C and bandwidth tuned": (svc(X.shape[1]), X.shape[1]),
        "the same SVC, told which columns are pixels": (svc(64), 64),
    }
    rows = []
    for name, (search, width) in contestants.items():
        started = time.perf_counter()
        search.fit(X[:, :width], y)
        score = search.score(X_test[:, :width], y_test)
        rows.append((name, score, time.perf_counter() - started))
    return rows


def make_interactions(seed: int, r: int = 40, n: int = 1400, n_pairs: int = 10):
    """Return a generated table whose target is a sum of products of two columns, and which ones they are."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, r))
    truth: set[tuple[int, ...]] = set()
    while len(truth) < n_pairs:
        truth.add(tuple(sorted(rng.choice(r, 2, replace=False).tolist())))
    y = sum(X[:, list(z)].prod(axis=1) for z in truth) / n_pairs**0.5
    return X, y + 0.3 * rng.standard_normal(n), truth


def interactions(console, seed: int, max_iter: int = 100) -> float:
    """Look for the products behind a target among all of up to three columns; return the share found."""
    X, y, truth = make_interactions(seed)
    half = len(y) // 2
    solver = MirrorDescent(max_iter, draws=16)
    model = MKLRegressor(Products(degree=3), solver=solver, C=0.1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the ranking settles long before the gap closes
        started = time.perf_counter()
        with console.status("Drawing products ..."):
            model.fit(X[:half], y[:half])
        seconds = time.perf_counter() - started
    plain = MKLRegressor(Products(degree=3), solver=Uniform(), C=0.1).fit(X[:half], y[:half])
    records = model.combination_.records()[: len(truth)]
    found = sum(tuple(int(c[1:]) for c in r["columns"]) in truth for r in records)
    console.print(
        f"\nWhich columns interact? A generated table of {X.shape[1]} columns; its target is the sum of "
        f"{len(truth)} products of two columns, and noise. Mirror descent draws from all "
        f"{model.combination_.family.size():,} products of up to three columns and tried {len(model.weights_):,} "
        f"of them in {seconds:.1f} s. Of its {len(truth)} heaviest, {found} are in the target:\n",
        highlight=False,
    )
    console.print("  " + "   ".join(r["kernel"] for r in records), highlight=False)
    scores = [m.score(X[half:], y[half:]) for m in (model, plain)]
    console.print(
        f"\nR² on new rows {scores[0]:.2f}; with equal weights on all products {scores[1]:.2f}.",
        highlight=False,
    )
    return found / len(truth)


def run(
    output: Path,
    seed: int = 0,
    n_noise: int = N_NOISE,
    n_train: int = 300,
    folds: int = 3,
    costs: tuple[float, ...] = (0.1, 1.0, 10.0),
) -> dict[str, float]:
    """Fit, compare, write and read back; return the scores by name.

    Parameters
    ----------
    output : path of the folder to write to
    seed : int
        Of the split and of the noise.
    n_noise, n_train : int
        Groups of noise, and rows to learn from.
    folds : int
    costs : tuple of float
        Values of C that the baselines try, on so many folds.
    """
    console = stdout()
    output.mkdir(parents=True, exist_ok=True)
    X, y, names = make_data(seed, n_noise)
    groups = views(n_noise)
    train, test = train_test_split(np.arange(len(y)), train_size=n_train, random_state=seed, stratify=y)
    mean, scale = moments(X[train])
    Z = (X - mean) / scale
    _introduce(console, len(groups) - n_noise, n_noise, len(train), len(test))

    model = MKLClassifier(make_kernels(Z[train], groups), solver=SimpleMKL(), C=1.0)
    seconds = fit_visibly(model, named(Z[train], names), y[train])
    score = held_out(model, named(Z[test], names), y[test], y[train])
    assert score is not None
    _tell_kernels(console, model, len(groups) - n_noise, n_noise)

    with console.status("Fitting the baselines ..."):
        baselines = compare(Z[train], y[train], Z[test], y[test], model.kernels, folds, costs)
    rows = [("learned kernels (SimpleMKL), C=1, not tuned", score["value"], seconds), *baselines]
    console.print(_scores(rows))

    path, sample = output / "model.mk", output / "new-digits.csv"
    save(model, path, metadata=kept_beside("digit", names, (mean, scale), len(train), seconds, score))
    with table_writer(sample) as writer:
        writer.write({name: X[test[:100], j] for j, name in enumerate(names)})
    _check_reading_back(path, model, named(Z[test], names))
    interactions(console, seed)
    _tell_what_next(console, path, sample)
    return {name: value for name, value, _ in rows}


def _check_reading_back(path, model, X):
    if not np.array_equal(load(path).decision_function(X), model.decision_function(X)):
        raise RuntimeError(f"{path} does not predict as the model that was written to it")


def _introduce(console, n_parts, n_noise, n_train, n_test):
    console.print(
        f"Handwritten digits, 8 × 8 pixels, from scikit-learn. {n_parts} Gaussian kernels see parts of the "
        f"image. To see whether useless kernels are found out, {n_noise} more see groups of {WIDTH} columns "
        f"of pure noise, added here. {n_train} rows to learn from, {n_test:,} to test on; every method gets "
        "the same rows, standardised in the same way.\n",
        highlight=False,
    )


def _tell_kernels(console, model, n_parts, n_noise):
    records = model.combination_.records()
    console.print(kernel_table(records, top=n_parts))
    noise = sum(r["share"] for r in records if r["kernel"].startswith("noise"))
    console.print(
        f"\nThe {n_noise} groups of noise share {100 * noise:.1f} % of the weight. "
        f"Duality gap: {describe_gap(model)}.\n",
        highlight=False,
    )


def _tell_what_next(console, path, sample):
    console.print(
        f"\nWrote {path} ({file_size(path)}); read back, it predicts exactly the same.\n\nNext:\n"
        f"  manykernels show {path}\n  manykernels predict {path} {sample}\n",
        highlight=False,
        soft_wrap=True,
    )


def _scores(rows) -> Table:
    table = plain_table()
    table.add_column("Method")
    table.add_column("Test accuracy", justify="right", no_wrap=True)
    table.add_column("Seconds", justify="right", no_wrap=True)
    for i, (name, value, seconds) in enumerate(rows):
        style = "bold" if i == 0 else ""
        table.add_row(Text(name, style), Text(f"{100 * value:.1f} %", style), Text(f"{seconds:.1f}", style))
    return table
