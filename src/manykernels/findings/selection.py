"""How often fits on half of the rows select each kernel, column and view: stability selection.

``halves`` makes the fits, ``bounds`` says what to expect of members that are selected rarely; here they are counted,
near-duplicates together.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._util.checks import Rule, number, whole
from .._util.html import bar_table
from .._util.interrupts import trials
from .._util.text import brief, warn
from ..families.base import HasFeatures, can
from ..persistence.checkpoint import Checkpoint
from .anova import as_table
from .bounds import Assumption, selection_bound
from .halves import Halves, Selected, fitted, inner_rows, last_step, seed_of, selected

#: Kernels are compared on at most so many rows: with columns of their own, and by their matrices.
COLUMN_ROWS, MATRIX_ROWS = 2000, 300
#: The most frequent kernels are compared with one another, so many of them.
COMPARED = 500
#: What the arguments may be.
RULES: dict[str, Rule] = {
    "n_pairs": whole(1),
    "bound": number(open="left"),
    "min_share": number(0, 1, open="right"),
    "near": number(0, 1, open="left"),
}


def stability(
    estimator: Any,
    X: Any,
    y: Any,
    n_pairs: int = 50,
    *,
    bound: float = 1.0,
    threshold: float | None = None,
    assumption: Assumption = "unimodal",
    min_share: float = 0.0,
    near: float = 0.98,
    sample_weight: Any = None,
    groups: Any = None,
    n_jobs: int | None = None,
    checkpoint: Any = None,
    random_state: Any = None,
    verbose: int = 0,
) -> Stability:
    """Count how often fits on half of the rows select each kernel, product, column and view.

    The rows are cut into two halves at random, `n_pairs` times, and the estimator is fitted to each half. A member's
    frequency is the share of the fits that give it weight. Those as frequent as `threshold` are selected; it is the
    lowest above 1/2 at which no more than `bound` members *of low selection probability* are expected among them.

    Parameters
    ----------
    estimator : estimator
        An `MKLClassifier` or `MKLRegressor`, or a pipeline or search that ends in one. It should select: `Greedy`
        does, a p-norm with p > 1 gives weight to every kernel (see `min_share`).
    X, y : rows and targets
        Whatever the estimator takes: an array, a table, views.
    n_pairs : int
        Pairs of halves, B. Fifty are usual; frequencies come in steps of 1/(2B).
    bound : float
        How many members of low selection probability may be expected among the selected.
    threshold : float, optional
        The least frequency of selected members, in (1/2, 1]; chosen for `bound` by default.
    assumption : {"unimodal", "r-concave", "none"}
        What the bound takes for granted, see :func:`selection_bound`.
    min_share : float
        A kernel counts as selected by a fit if it carries more than this share of the fitted variance. With 0 any
        weight counts.
    near : float
        Members whose features correlate by at least this much (for other kernels, the root of the alignment of their
        centred matrices) are one group: a fit that selects either selects the group.
    sample_weight : array, optional
    groups : array, optional
        Rows of the same subject, which are in the same half.
    n_jobs : int, optional
        Processes that fit pairs; -1 for as many as there are cores. Results do not depend on it.
    checkpoint : path, optional
        A file to keep finished pairs in. A run that was killed goes on from there with the same call, to the same
        bits; it is removed at the end.
    random_state : int, Generator, RandomState or None
        For the halves, and for estimators whose own is None.
    verbose : int
        Whether to say how far it is.

    Returns
    -------
    Stability
        Its columns are those of a table: ``found["kernel"]``, ``found["frequency"]``.

    Notes
    -----
    **What the bound says.** It is on the expected number of selected members whose probability of being selected by a
    fit on n/2 rows is at most q/m, q the mean number that a fit selects and m the size of the family. These are the
    *false* members only if false members are exchangeable and the method is no worse than guessing. A false product
    that shares factors with a true one, or whose columns correlate with the true ones, is more likely to be selected
    than others, and nothing here bounds how many of those there are. q is estimated by its mean over the fits. For
    groups the same is true of a group; that groups are found in the same rows is not accounted for.

    **What it does not say.** A fit on half of the rows has half of the evidence: a weak effect that a fit on all rows
    would find is not found by halves. Absence is not evidence of absence; ``all_rows`` says what the fit on all rows
    selects.

    Kernels of a continuum have parameters that no two fits share. They are counted by the part of the union that they
    are of, and by their columns and views, without a bound on members.

    Ctrl-C keeps the pairs that are there, with a warning.

    References
    ----------
    Shah, Samworth (2013), *Variable selection with error control: another look at stability selection*. Meinshausen,
    Bühlmann (2010), *Stability selection*.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.families import Products
    >>> from manykernels.findings import stability
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 5))
    >>> y = X[:, 0] * X[:, 1] + 0.1 * X[:, 2]
    >>> found = stability(MKLRegressor(Products(2), C=10.0), X, y, n_pairs=5, random_state=0)
    >>> found.selected
    [(0, 1), (2,)]
    """
    given = {"n_pairs": n_pairs, "bound": bound, "min_share": min_share, "near": near}
    _check(given, threshold)
    selection_bound(1, 2, 1, n_pairs, assumption)  # says what is wrong with it
    file = None if checkpoint is None else Checkpoint(checkpoint)
    known = None if file is None or random_state is not None else file.seed
    seed = seed_of(random_state) if known is None else known
    halves = Halves(estimator, X, y, sample_weight, groups, float(min_share), seed)
    if file is not None:
        state = file.resume({**halves.identity(), "seed": seed}, seed)
        if state is not None:
            with file.blamed():
                halves.restore(state)
    with trials():  # Ctrl-C here leaves nothing worth keeping
        model = fitted(estimator, halves.X, y, sample_weight, seed=[seed])
    halves.run(n_pairs, n_jobs, file, verbose)
    pairs = halves.pairs[:n_pairs]
    rule = Cutoff(float(bound), threshold, assumption, len(pairs), n_pairs)
    fits = [half for pair in pairs for half in pair]
    counts = Counts.of(fits, model, halves.X, float(near))
    return _counted(fits, selected(model, halves.min_share), counts, rule, model)


def _check(given: dict[str, Any], threshold: float | None) -> None:
    """Raise ValueError for the first argument that makes no sense."""
    for name, value in given.items():
        if not RULES[name].accepts(value):
            raise ValueError(f"{name} is {brief(value)}; use {RULES[name].words}.")
    if threshold is not None and not number(0.5, 1, open="left").accepts(threshold):
        raise ValueError(f"threshold is {brief(threshold)}; use a number in (0.5, 1], or None.")


@dataclass(frozen=True)
class Cutoff:
    """Which frequencies are selected, by so many pairs of those asked for."""

    wanted: float
    threshold: float | None
    assumption: Assumption
    n_pairs: int
    asked: int

    def bound(self, frequency: float, q: float, m: float) -> float:
        """Return how many of low selection probability are expected at a frequency; NaN in a continuum."""
        if not math.isfinite(m):
            return math.nan
        return selection_bound(q, m, frequency, self.n_pairs, self.assumption)

    def settled(self, q: float, m: float) -> float:
        """Return the threshold: as given, or the lowest above 1/2 within the bound; infinite if there is none."""
        if self.threshold is not None or not math.isfinite(m):
            return self.threshold if self.threshold is not None else math.nan
        B = self.n_pairs
        grid = (k / (2 * B) for k in range(B + 1, 2 * B + 1))
        return next((tau for tau in grid if self.bound(tau, q, m) <= self.wanted), math.inf)


@dataclass(frozen=True, eq=False)
class Stability:
    """How often fits on half of the rows select what.

    ``found["kernel"]``, ``found["member"]``, ``found["frequency"]`` and so on are the columns of :meth:`table`.

    Attributes
    ----------
    records : tuple of dict
        One per member that any fit selected, the most frequent first: ``kernel`` (its name), ``member``, ``frequency``,
        ``group`` (the name of the most frequent near-duplicate), ``group_frequency`` (of fits that select any of the
        group), ``bound`` (members of low selection probability expected at ``group_frequency`` or above), ``selected``
        (the most frequent of a group that reaches the threshold), and ``all_rows`` (whether the fit on all rows selects
        it).
    columns, views : tuple of dict
        The same per column and per view, without groups and selection.
    threshold : float
        The least frequency of what is selected: infinite if none is within the wanted bound, NaN in a continuum.
    bound : float
        What is expected at that threshold: members of low selection probability among the selected.
    assumption : str
        What the bound takes for granted.
    n_pairs : int
        Pairs of fits.
    n_selected : float
        Members that a fit selects, on average: q.
    n_kernels : float
        Members of the family: m.
    interrupted : bool
        Whether Ctrl-C came before all pairs were there.
    model : estimator
        The fit on all rows.
    """

    records: tuple[dict[str, Any], ...] = field(repr=False)
    columns: tuple[dict[str, Any], ...] = field(repr=False)
    views: tuple[dict[str, Any], ...] = field(repr=False)
    threshold: float
    bound: float
    assumption: Assumption
    n_pairs: int
    n_selected: float
    n_kernels: float
    interrupted: bool
    model: Any = field(repr=False)

    @property
    def selected(self) -> list[Any]:
        """The selected members, the most frequent first."""
        return [r["member"] for r in self.records if r["selected"]]

    def table(self) -> Any:
        """Return the members as a DataFrame, the most frequent first; without pandas, as ``records``."""
        return as_table(self.records, MEMBER_FIELDS)

    def by_column(self) -> Any:
        """Return the columns as a DataFrame, the most frequent first; without pandas, as ``columns``."""
        return as_table(self.columns, ("column", *PLACE_FIELDS))

    def by_view(self) -> Any:
        """Return the views as a DataFrame, the most frequent first; without pandas, as ``views``."""
        return as_table(self.views, ("view", *PLACE_FIELDS))

    def __getitem__(self, name: str) -> Any:
        """Return a column of the table."""
        if name not in MEMBER_FIELDS:
            raise KeyError(f"{brief(name)} is no column; there are {', '.join(MEMBER_FIELDS)}.")
        table = self.table()
        return table[name] if not isinstance(table, list) else [r[name] for r in table]

    def __len__(self) -> int:
        return len(self.records)

    def _repr_html_(self) -> str:
        """Return what is selected most often as a table with bars, for notebooks."""
        columns = {
            "kernel": "Kernel",
            "frequency": "Selected",
            "group_frequency": "With near-duplicates",
            "selected": "Above the threshold",
            "all_rows": "By all rows",
        }
        said = ("selected", "all_rows")
        shown = [r | {key: "yes" if r[key] else "no" for key in said} for r in self.records]
        table = bar_table(shown, columns, "frequency", percentages=("group_frequency",), parts=False)
        known = "no threshold"
        if math.isfinite(self.threshold):
            known = f"selected at {self.threshold:.3g} or more, {self.bound:.2g} expected by chance"
        done = f"{self.n_pairs:,} pairs of halves" + (", interrupted" if self.interrupted else "")
        return f"<p>{done}; {known}</p>{table}"


#: The columns of the tables.
MEMBER_FIELDS = (
    "kernel",
    "member",
    "frequency",
    "group",
    "group_frequency",
    "bound",
    "selected",
    "all_rows",
)
PLACE_FIELDS = ("frequency", "bound", "all_rows")


# -- counting ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Counts:
    """Members over all fits.

    Attributes
    ----------
    names : dict
        Of the members.
    frequency : dict
        Shares of the fits that select a member, the most frequent first.
    leader : dict
        The most frequent near-duplicate of a member, often itself.
    grouped : dict
        Shares of the fits that select any of a leader's group.
    n_selected : float
        Groups that a fit selects, on average.
    """

    names: dict[Any, str]
    frequency: dict[Any, float]
    leader: dict[Any, Any]
    grouped: dict[Any, float]
    n_selected: float

    @classmethod
    def of(cls, halves: Sequence[Sequence[Selected]], model: Any, X: Any, near: float) -> Counts:
        """Count members, near-duplicates together."""
        chosen = [{s.member for s in half} for half in halves]
        found = _frequencies(chosen)
        frequency = {z: found[z] for z in sorted(found, key=lambda z: (-found[z], str(z)))}
        leader = _leaders(model, X, list(frequency), near)
        groups = [{leader[z] for z in half} for half in chosen]
        names = {s.member: s.kernel for half in halves for s in half}
        return cls(names, frequency, leader, _frequencies(groups), float(np.mean([len(g) for g in groups])))

    def records(self, rule: Cutoff, tau: float, m: float, here: set[Any]) -> tuple[dict[str, Any], ...]:
        """Return one record per member, see :class:`Stability`; `here` are those of the fit on all rows."""
        rows = [
            {
                "kernel": self.names[z],
                "member": z,
                "frequency": frequency,
                "group": self.names[self.leader[z]],
                "group_frequency": self.grouped[self.leader[z]],
                "bound": rule.bound(self.grouped[self.leader[z]], self.n_selected, m),
                "selected": self.leader[z] == z and self.grouped[z] >= tau - 1e-12,
                "all_rows": z in here,
            }
            for z, frequency in self.frequency.items()
        ]
        rows.sort(key=lambda r: (-r["group_frequency"], r["group"], -r["frequency"], str(r["member"])))
        return tuple(rows)


def _counted(
    halves: Sequence[Sequence[Selected]], now: Sequence[Selected], counts: Counts, rule: Cutoff, model: Any
) -> Stability:
    """Return how often members, columns and views are met, and what is selected."""
    q, m = counts.n_selected, float(last_step(model).combination_.family.size())
    tau = rule.settled(q, m)
    if math.isinf(tau):
        warn(
            f"No threshold keeps the bound within {rule.wanted:g}: fits on halves select {q:.1f} of {m:.0f} kernels; "
            "use a solver that selects fewer, or allow a larger bound."
        )
    fits = [*halves, now]
    return Stability(
        records=counts.records(rule, tau, m, {s.member for s in now}),
        columns=_places("column", [[s.columns for s in fit] for fit in fits], rule, _width(model)),
        views=_places("view", [[(s.view,) for s in fit if s.view is not None] for fit in fits], rule),
        threshold=tau,
        bound=rule.bound(tau, q, m) if math.isfinite(tau) else math.nan,
        assumption=rule.assumption,
        n_pairs=rule.n_pairs,
        n_selected=q,
        n_kernels=m,
        interrupted=rule.n_pairs < rule.asked,
        model=model,
    )


def _frequencies(halves: Sequence[Iterable[Hashable]]) -> dict[Any, float]:
    """Return the share of the fits that selected each thing."""
    counts: dict[Any, int] = {}
    for half in halves:
        for z in half:
            counts[z] = counts.get(z, 0) + 1
    return {z: count / len(halves) for z, count in counts.items()}


def _places(
    name: str, fits: Sequence[Sequence[tuple]], rule: Cutoff, size: float = math.nan
) -> tuple[dict, ...]:
    """Return how often columns or views are met; the last fit is that on all rows."""
    met = [{place for places in fit for place in places} for fit in fits]
    frequency = _frequencies(met[:-1])
    q = float(np.mean([len(some) for some in met[:-1]]))
    size = len(frequency) if math.isnan(size) else size
    rows = [
        {name: c, "frequency": f, "bound": rule.bound(f, q, size), "all_rows": c in met[-1]}
        for c, f in frequency.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row["frequency"], str(row[name]))))


def _width(model: Any) -> float:
    """Return the number of columns, as the estimator was given them."""
    return float(getattr(last_step(model), "n_features_in_", math.nan))


# -- near-duplicates -----------------------------------------------------------------------------------


def _leaders(model: Any, X: Any, members: list[Any], near: float) -> dict[Any, Any]:
    """Return for every member the most frequent one that is nearly the same, often itself.

    Members come the most frequent first; each joins the first leader that it is near to, or leads.
    """
    some = members[:COMPARED]
    leader = {z: z for z in members}
    likeness = _likeness(model, X, some)
    if likeness is None:
        return leader
    leads: list[int] = []
    for i, z in enumerate(some):
        first = next((j for j in leads if likeness[i, j] >= near), None)
        if first is None:
            leads.append(i)
        else:
            leader[z] = some[first]
    return leader


def _likeness(model: Any, X: Any, members: list[Any]) -> np.ndarray | None:
    """Return how much members are alike: |correlation| of features, or the root of centred alignment; None: unknown."""
    family = last_step(model).combination_.family
    if not math.isfinite(family.size()) or family.pairwise or len(members) < 2:
        return None
    rows = inner_rows(model, X)
    every = np.arange(rows.shape[0])
    if can(family, HasFeatures) and family.rank_one:
        phi = family.features(rows[_spread(every, COLUMN_ROWS)], members)
        return np.abs(_correlations(phi))
    part = rows[_spread(every, MATRIX_ROWS)]
    flat = np.empty((len(part) ** 2, len(members)), dtype=np.float32)
    for i, z in enumerate(members):
        K = family.gram(part, part, [z], np.ones(1))
        K = K - K.mean(axis=0)
        flat[:, i] = (K - K.mean(axis=1)[:, None]).ravel()
    return np.sqrt(np.maximum(_cosines(flat), 0.0))


def _spread(rows: np.ndarray, most: int) -> np.ndarray:
    """Return at most so many rows, drawn with a fixed seed: neighbours in a table may be alike."""
    return rows if len(rows) <= most else np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def _correlations(phi: np.ndarray) -> np.ndarray:
    return _cosines(phi - phi.mean(axis=0))


def _cosines(columns: np.ndarray) -> np.ndarray:
    """Return cosines between columns; 0 for one that vanishes."""
    size = np.sqrt(np.einsum("ij,ij->j", columns, columns))
    scaled = columns / np.where(size > 0, size, 1)
    return scaled.T @ scaled
