"""The command ``compare``: the default, our solvers and peers on the same folds; a table fills while it runs."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.live import Live
from rich.table import Table
from rich.text import Text
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from .. import MKLClassifier, MKLRegressor
from ..registry import solver_class
from ..report.peers import PEERS, installed, make_peer
from .models import read_rows
from .screens import count, note, plain, plain_table, say, stdout, tell

#: What is compared where nothing is named, before the peers that are installed.
OURS = ("default", "uniform")


@dataclass
class Contestant:
    """A method, and what it has done so far.

    Attributes
    ----------
    name : str
    make : callable
        Returns a new estimator.
    scores, seconds : lists of float
        Of every fold that is done: R² or accuracy, and CPU seconds of fit and prediction.
    kernels : list of int
        Kernels in use, of ours.
    fault : str
        Why it did not go on.
    """

    name: str
    make: Callable[[], Any]
    scores: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    kernels: list[int] = field(default_factory=list)
    fault: str = ""

    def try_fold(self, X, y, train: np.ndarray, test: np.ndarray, classify: bool) -> None:
        """Fit on some rows and score on others; what goes wrong is kept as a sentence."""
        started = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = self.make().fit(X[train], y[train])
                answer = np.ravel(model.predict(X[test]))
        except Exception as error:
            self.fault = " ".join(str(error).split()) or type(error).__name__
            return
        self.seconds.append(time.process_time() - started)
        self.scores.append(float((accuracy_score if classify else r2_score)(y[test], answer)))
        if hasattr(model, "weights_"):
            self.kernels.append(int(np.count_nonzero(model.weights_)))

    def in_words(self) -> str:
        """Return how it did, as a line of a log."""
        if not self.scores:
            return f"{self.name}: failed"
        score = f"{np.mean(self.scores):.4f} ± {np.std(self.scores):.4f}"
        return f"{self.name}: {score}, {np.sum(self.seconds):.1f} CPU s"

    def record(self) -> dict[str, Any]:
        """Return what is known, for JSON."""
        return {
            "method": self.name,
            "score": float(np.mean(self.scores)) if self.scores else None,
            "spread": float(np.std(self.scores)) if self.scores else None,
            "scores": self.scores,
            "cpu_seconds": self.seconds,
            "n_kernels": self.kernels or None,
            "fault": self.fault or None,
        }


def run(data, target, task, methods, folds: int, seed: int, as_json: bool, **reading) -> list[dict[str, Any]]:
    """Compare methods on folds of a table, print the table, and return the records, best first."""
    rows = read_rows(data, target, task, **reading)
    contestants = [_contestant(name, rows.classify, seed) for name in _named(methods)]
    parts = _folds(rows.y, rows.classify, folds, seed, rows.groups)
    if not as_json:
        say(rows.described)
    broken = False
    with Live(console=stdout(), transient=True, auto_refresh=False) as live:
        try:
            for each in contestants:
                for train, test in parts:
                    if not each.fault:
                        each.try_fold(rows.X, rows.y, train, test, rows.classify)
                    if live.console.is_terminal and not as_json:
                        live.update(_table(contestants, len(parts), rows.classify), refresh=True)
                if not live.console.is_terminal:
                    tell(each.in_words())
        except KeyboardInterrupt:
            broken = True
    ranked = sorted(contestants, key=lambda c: -np.mean(c.scores) if c.scores else np.inf)
    if not as_json:
        stdout().print(_table(ranked, len(parts), rows.classify))
    if broken:
        raise KeyboardInterrupt("the table has the folds that were done.")
    records = [each.record() for each in ranked]
    if as_json:
        print(json.dumps(plain({"target": target, "folds": len(parts), "methods": records}), indent=2))
    for each in ranked:
        if each.fault:
            note(f"{each.name}: {each.fault}")
    if not any(each.scores for each in ranked):
        raise ValueError("No method could be fitted.")
    return records


def _named(methods: Sequence[str] | None) -> list[str]:
    """Return what is compared: as --methods says, or the default, the plain sum, and all peers there are."""
    if not methods:
        return [*OURS, *installed()]
    names = [name.strip().lower() for text in methods for name in text.split(",") if name.strip()]
    for name in names:
        if name not in PEERS and name != "default" and solver_class(name) is None:
            raise ValueError(f"--methods has {name!r}; use default, a solver, or one of {', '.join(PEERS)}.")
    return list(dict.fromkeys(names))


def _contestant(name: str, classify: bool, seed: int) -> Contestant:
    if name in PEERS:
        make_peer(name, classify, seed)  # says at once what is not installed
        return Contestant(name, lambda: make_peer(name, classify, seed))
    kind = MKLClassifier if classify else MKLRegressor
    if name == "default":
        return Contestant("manykernels, default", lambda: kind(random_state=seed))
    return Contestant(f"manykernels, {name}", lambda: kind(solver=name, random_state=seed))


def _folds(y, classify: bool, folds: int, seed: int, groups):
    """Return the numbers of the rows to learn from and to test on; classes keep their shares, groups stay together.

    Rows to learn from are shuffled: which of them follow each other says nothing of those that are tested.
    """
    if folds > len(y):
        raise ValueError(f"--folds is {folds}, and there are {count(len(y), 'row')}; use fewer folds.")
    if groups is not None:
        if len(np.unique(groups)) < folds:
            there = count(len(np.unique(groups)), "group")
            raise ValueError(f"--folds is {folds}, and --groups holds {there}; use fewer folds.")
        return list(GroupKFold(folds).split(y, groups=groups))
    rng = np.random.default_rng(seed)
    if not classify:
        parts = KFold(folds, shuffle=True, random_state=seed).split(y)
        return [(rng.permutation(train), test) for train, test in parts]
    fewest = np.unique(y, return_counts=True)[1].min()
    if fewest < folds:
        raise ValueError(
            f"--folds is {folds}, and the rarest class has {count(int(fewest), 'row')}; use fewer folds."
        )
    parts = StratifiedKFold(folds, shuffle=True, random_state=seed).split(y, y)
    return [(rng.permutation(train), test) for train, test in parts]


def _table(contestants: Sequence[Contestant], folds: int, classify: bool) -> Table:
    table = plain_table()
    table.add_column("Method")
    table.add_column("Accuracy" if classify else "R²", justify="right", no_wrap=True)
    table.add_column("± fold", justify="right", no_wrap=True)
    table.add_column("CPU s", justify="right", no_wrap=True)
    table.add_column("Kernels", justify="right", no_wrap=True)
    best = max((float(np.mean(c.scores)) for c in contestants if len(c.scores) == folds), default=None)
    for each in contestants:
        done = len(each.scores) == folds
        style = (
            "bold"
            if done and best is not None and float(np.mean(each.scores)) == best
            else ""
            if done
            else "dim"
        )
        cells = [each.name, "", "", "", ""]
        if each.fault and not each.scores:
            cells[1] = "failed"
        elif each.scores:
            kernels = f"{np.mean(each.kernels):.0f}" if each.kernels else ""
            cells[1:] = [f"{np.mean(each.scores):.4f}", f"{np.std(each.scores):.4f}"]
            cells += [f"{np.sum(each.seconds):.1f}", kernels]
        table.add_row(*(Text(cell, style) for cell in cells))
    return table
