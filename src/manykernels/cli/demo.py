"""The demonstration of the command line: a table of any columns, several sources of which most are noise, interactions.

Everything is written into a folder, with the commands that go on from there.
"""

from __future__ import annotations

import csv
import os
import shlex
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

from .. import MKLClassifier, MKLRegressor
from ..families import Products
from ..families.bandwidths.grids import median_distance
from ..findings import components
from ..kernels import RBF
from ..persistence import load, save
from ..report import write_report
from ..report.page import lacking
from ..solvers import Greedy, SimpleMKL, Uniform
from .beside import kept_beside, score_of
from .explain import print_components
from .models import fit_at_once, fit_visibly, held_out, moments, split
from .screens import describe_gap, file_size, kernel_table, note, plain_table, quietly, stdout
from .tables import named, open_table_of, table_writer

#: Groups of noise.
N_NOISE = 40
#: Columns of a group of noise: as many as in the groups of pixels.
WIDTH = 16


# -- any table -----------------------------------------------------------------------------------------


def write_houses(path: Path, seed: int, n: int) -> None:
    """Write a generated table as people have it: semicolons, comma decimals, text, dates, gaps and an identifier."""
    rng = np.random.default_rng(seed)
    area, age = rng.gamma(5.0, 22.0, n), rng.integers(0, 90, n)
    town = rng.choice(["Altdorf", "Brunnen", "Chur", "Davos"], n, p=[0.4, 0.3, 0.2, 0.1])
    sold = np.datetime64("2015-01-01") + rng.integers(0, 3650, n)
    garden = rng.random(n) < 0.4
    worth = {"Altdorf": 3.0, "Brunnen": 3.6, "Chur": 4.2, "Davos": 6.5}
    price = area * np.array([worth[t] for t in town.tolist()]) * (1 - 0.35 * np.sin(age / 90 * np.pi))
    price += (
        60 * garden + 0.02 * (sold - np.datetime64("2015-01-01")).astype(int) + 25 * rng.standard_normal(n)
    )
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, delimiter=";", lineterminator="\n")
        rows.writerow(["house", "area", "age", "town", "garden", "sold", "price"])
        for i in range(n):
            cells = [f"{area[i]:.1f}", str(age[i]), town[i], "yes" if garden[i] else "no", str(sold[i])]
            known = ["" if rng.random() < 0.05 else cell for cell in cells]
            rows.writerow([f"H{i:04d}", *(cell.replace(".", ",") for cell in (*known, f"{price[i]:.1f}"))])


def any_table(console, output: Path, seed: int, n: int) -> float:
    """Fit the default to a table of any columns, say what it found, write model and report; return R² on new rows."""
    table, path, page = output / "houses.csv", output / "houses.mk", output / "houses.html"
    write_houses(table, seed, n)
    console.print(
        f"A generated table of {n:,} houses, written as people write tables: semicolons, decimal commas, text, dates, "
        "5 % of the cells blank. Nothing is said but the name of the target:\n",
        highlight=False,
    )
    console.print(
        f"  {command()} fit {shlex.quote(str(table))} --target price\n", highlight=False, soft_wrap=True
    )
    described = dict.fromkeys(("degree", "p", "max_iter", "memory"))
    described |= {"kernels": "auto", "solver": "auto", "loss": "auto", "C": "auto"}
    options = {"standardize": True, "test_size": 0.25, "seed": seed, "roles": {}, "dialect": {}}
    model, metadata = fit_at_once(table, "price", "auto", **options, described=described)
    save(model, path, metadata=metadata)
    score = score_of(metadata)
    assert score is not None
    console.print(
        f"\nR² {score['value']:.3f} on {score['n_rows']} houses that it has not seen. What the price is made of:",
        highlight=False,
    )
    source = open_table_of(model, None, table, {}, target="price")
    rows = next(source.chunks())
    print_components(components(model, rows.X[np.arange(min(400, n))]).records(), top=5)
    if lack := lacking():
        note(lack)
    else:
        with console.status("Writing a report ..."), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            train, _ = split(
                n, None, options["test_size"], seed
            )  # scores of these, left out, are there already
            write_report(model, page, rows.X[train], rows.y[train], title="price, from houses.csv")
        console.print(f"Wrote {path} and a report, {page}.", highlight=False, soft_wrap=True)
    return float(score["value"])


# -- several sources, most of them noise ---------------------------------------------------------------


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


# -- interactions --------------------------------------------------------------------------------------


def make_interactions(seed: int, r: int = 40, n: int = 1400, n_pairs: int = 10):
    """Return a generated table whose target is a sum of products of two columns, and which ones they are."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, r))
    truth: set[tuple[int, ...]] = set()
    while len(truth) < n_pairs:
        truth.add(tuple(sorted(rng.choice(r, 2, replace=False).tolist())))
    return X, target_of_products(X, truth) + 0.3 * rng.standard_normal(n), truth


def target_of_products(X: np.ndarray, truth: set[tuple[int, ...]]) -> np.ndarray:
    """Return the sum of some products of columns, scaled to variance 1."""
    return sum(X[:, list(z)].prod(axis=1) for z in sorted(truth)) / len(truth) ** 0.5


def interactions(console, seed: int) -> float:
    """Look for the products behind a target among all of up to three columns; return the share found."""
    X, y, truth = make_interactions(seed)
    half = len(y) // 2
    model = MKLRegressor(Products(degree=3), solver=Greedy(), random_state=seed)
    with warnings.catch_warnings(), console.status("Searching products ..."):
        warnings.simplefilter("ignore", ConvergenceWarning)  # it stops by choice, long before the gap closes
        started = time.perf_counter()
        model.fit(X[:half], y[:half])
        seconds = time.perf_counter() - started
    records = [r for r in model.combination_.records() if r["weight"]]
    found = sum(tuple(int(c[1:]) for c in r["columns"]) in truth for r in records)
    console.print(
        f"Which columns interact? A generated table of {X.shape[1]} columns; its target is the sum of "
        f"{len(truth)} products of two columns, and noise. {half} rows to learn from. A greedy search compared all "
        f"{model.combination_.family.size():,} products of up to three columns and stopped by itself at "
        f"{len(records)}, in {seconds:.1f} s. Among these are {found} of the {len(truth)}:\n",
        highlight=False,
    )
    console.print(kernel_table(records))
    _tell_scores(console, model, X, y, truth, half)
    return found / len(truth)


def _tell_scores(console, model, X, y, truth, half: int) -> None:
    """Print the score on new rows beside those of other methods, and what the noise leaves to be had."""
    others = {
        "equal weights on all products": MKLRegressor(Products(degree=3), solver=Uniform(), C=0.1),
        "gradient boosting": HistGradientBoostingRegressor(random_state=0),
    }
    told = [f"{name} {m.fit(X[:half], y[:half]).score(X[half:], y[half:]):.2f}" for name, m in others.items()]
    best = r2_score(y[half:], target_of_products(X[half:], truth))
    console.print(
        f"\nR² on new rows {model.score(X[half:], y[half:]):.2f}, of {best:.2f} that the noise leaves; "
        f"{', '.join(told)}.",
        highlight=False,
    )


def digits(
    console, output: Path, seed: int, n_noise: int, n_train: int, folds: int, costs: tuple[float, ...]
) -> dict[str, float]:
    """Find the useful kernels among useless ones, and compare with baselines; return the scores by name."""
    X, y, names = make_data(seed, n_noise)
    groups = views(n_noise)
    train, test = train_test_split(np.arange(len(y)), train_size=n_train, random_state=seed, stratify=y)
    mean, scale = moments(X[train])
    Z = (X - mean) / scale
    _introduce(console, len(groups) - n_noise, n_noise, len(train), len(test))

    model = MKLClassifier(make_kernels(Z[train], groups), solver=SimpleMKL(), C=1.0)
    with quietly():
        seconds = fit_visibly(model, named(Z[train], names), y[train])
    score = held_out(model, named(Z[test], names), y[test], y[train])
    assert score is not None
    _tell_kernels(console, model, len(groups) - n_noise, n_noise)

    with console.status("Fitting the baselines ..."):
        baselines = compare(Z[train], y[train], Z[test], y[test], model.kernels, folds, costs)
    rows = [("learned kernels (SimpleMKL), C=1, not tuned", score["value"], seconds), *baselines]
    console.print(_scores(rows))

    path = output / "digits.mk"
    save(model, path, metadata=kept_beside("digit", names, (mean, scale), len(train), seconds, score))
    with table_writer(output / "new-digits.csv") as writer:
        writer.write({name: X[test[:100], j] for j, name in enumerate(names)})
    _check_reading_back(path, model, named(Z[test], names))
    console.print(
        f"\nWrote {path} ({file_size(path)}); read back, it predicts exactly the same.",
        highlight=False,
        soft_wrap=True,
    )
    return {name: value for name, value, _ in rows}


def run(
    output: Path,
    seed: int = 0,
    n_houses: int = 600,
    n_noise: int = N_NOISE,
    n_train: int = 300,
    folds: int = 3,
    costs: tuple[float, ...] = (0.1, 1.0, 10.0),
) -> dict[str, float]:
    """Show three things, and write models, tables and a report; return the scores on the digits by name.

    Parameters
    ----------
    output : path of the folder to write to
    seed : int
        Of the tables, the splits and the noise.
    n_houses : int
        Rows of the first table.
    n_noise, n_train : int
        Of the digits: groups of noise, and rows to learn from.
    folds : int
    costs : tuple of float
        Values of C that the baselines try, on so many folds.
    """
    console = stdout()
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"{output} is a file; name a directory with -o.")
    output.mkdir(parents=True, exist_ok=True)
    try:
        console.rule("1  Any table", align="left")
        any_table(console, output, seed, n_houses)
        console.print()
        console.rule("2  Several sources, most of them noise", align="left")
        scores = digits(console, output, seed, n_noise, n_train, folds, costs)
        console.print()
        console.rule("3  Interactions", align="left")
        interactions(console, seed)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"what was written so far is in {output}.") from None
    _tell_what_next(console, output)
    return scores


def command() -> str:
    """Return how this command line is called from where one stands."""
    called = Path(sys.argv[0])
    if called.name.startswith("manykernels") and called.is_file():
        found = shutil.which(called.name)
        if found and os.path.realpath(found) == os.path.realpath(called):
            return called.name
        return shlex.quote(os.path.relpath(called) if called.is_relative_to(Path.cwd()) else str(called))
    return f"{shlex.quote(sys.executable)} -m manykernels"


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


def _tell_what_next(console, output: Path) -> None:
    lines = ["show houses.mk", "explain houses.mk houses.csv", "predict digits.mk new-digits.csv"]
    lines.append("compare houses.csv --target price")
    names = {
        name: shlex.quote(str(output / name))
        for name in ("houses.mk", "houses.csv", "digits.mk", "new-digits.csv")
    }
    console.print()
    console.rule("Next", align="left")
    page = output / "houses.html"
    if page.exists():
        console.print(f"Open {page} in a browser, or try:\n", highlight=False, soft_wrap=True)
    for line in lines:
        words = " ".join(names.get(word, word) for word in line.split())
        console.print(f"  {command()} {words}", highlight=False, soft_wrap=True)
    console.print()


def _scores(rows) -> Table:
    table = plain_table()
    table.add_column("Method")
    table.add_column("Test accuracy", justify="right", no_wrap=True)
    table.add_column("Seconds", justify="right", no_wrap=True)
    for i, (name, value, seconds) in enumerate(rows):
        style = "bold" if i == 0 else ""
        table.add_row(Text(name, style), Text(f"{100 * value:.1f} %", style), Text(f"{seconds:.1f}", style))
    return table
