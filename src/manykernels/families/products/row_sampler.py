r"""Drawing products of columns from some of the rows: a draw no longer costs what the whole table does.

With a_t = φ_z(x_t) A_t, the form of a product is tr(Aᵀ K_z A) = ‖Σ_t a_t‖² = Σ_{s≠t} ⟨a_s, a_t⟩ + Σ_t ‖a_t‖². Of the
n rows m are drawn without replacement, anew for every call. Products are drawn from them by a mixture of three
distributions, each over ordered tuples, and with the probability of the mixture:

- in proportion to ‖Σ_{t ∈ S} a_t‖², S the rows drawn or the first half of them, by Algorithm 3 on these rows;
- in proportion to Σ_t ‖a_t‖², t over the rows drawn: a row, a degree, then each factor on its own, for in one row
  everything factorises;
- uniformly, with a share of ``UNIFORM_SHARE``.

The first two are mixed by their masses as estimates of the form's two sums. Alone, the first would draw a product with
next to no probability whose sum over S happens to cancel, and 1/q would have no variance; the second bounds
it. The third leaves no product out: the others never draw one that vanishes on all the rows drawn.

Two estimates of the form are without bias, given that probability: the form itself, from all rows, O(n) for each
product drawn; and, from the m rows alone, with halves S and T

    n(n - 1)/(|S| |T|) ⟨Σ_{s ∈ S} a_s, Σ_{t ∈ T} a_t⟩ + (n/m) Σ_{t ∈ S ∪ T} ‖a_t‖²

as a pair s ≠ t has the probability |S| |T|/(n(n - 1)) of lying in S × T. It can be negative. The square of one sum over
the rows, times (n/m)², would not do: on average it is larger by (n/m - 1) Σ_t ‖a_t‖², nearly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._util.arrays import row_blocks
from ..base import Scaling
from ..draws import pick
from .monomial_sampler import MonomialSampler
from .monomials import Prefix, monomials, orderings
from .sampling import uniform_probability

#: Share of the draws that are uniform over the family.
UNIFORM_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class RowDraw:
    """Products drawn from some rows.

    Attributes
    ----------
    members : list of sorted tuples
        The constant ``()`` may be among them.
    probability : array
        Of drawing each in one draw, given the rows.
    forms : array
        Estimates of tr(Aᵀ K_z A) from these rows alone, in two halves.
    """

    members: list[Prefix]
    probability: np.ndarray
    forms: np.ndarray


class RowSampler:
    """Products of columns, drawn from rows that are drawn anew for every A.

    Parameters
    ----------
    family : Products of columns, resolved
    X : (n, r)
    scale : Scaling or None
    n_rows : int
        How many rows to draw, 2 <= m <= n.
    """

    def __init__(self, family: Any, X: np.ndarray, scale: Scaling | None, n_rows: int):
        self.family, self.X, self.n_rows = family, X, n_rows
        self.n = len(X)
        base = family.base_means(scale)
        self.base = np.ones(X.shape[1]) if base is None else base
        self.prior_sq = family._prior_sq()

    def draw(self, A: np.ndarray, size: int, rng: np.random.Generator) -> tuple[list[Prefix], np.ndarray]:
        """Return `size` products and the probability of each, given the rows drawn."""
        drawn = self._draw(A, size, rng, self.n_rows)
        return drawn.members, drawn.probability

    def draw_halves(self, A: np.ndarray, size: int, rng: np.random.Generator) -> RowDraw:
        """Return `size` products, drawn from the first half of the rows, with estimates of their forms from both."""
        return self._draw(A, size, rng, self.n_rows // 2)

    def _draw(self, A, size, rng, n_first) -> RowDraw:
        mixture = RowMixture(self, *self.some_rows(A, rng), n_first, size)
        members = mixture.draw(size, rng)
        distinct = list(dict.fromkeys(members))
        place = {z: i for i, z in enumerate(distinct)}
        of = [place[z] for z in members]
        probability, forms = mixture.judge(distinct)
        return RowDraw(members, probability[of], forms[of])

    def some_rows(self, A: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return rows without replacement, in random order, and their coefficients."""
        rows = rng.choice(self.n, self.n_rows, replace=False)
        return self.X[rows], A[rows]

    def forms(self, A: np.ndarray, members: Sequence[Prefix]) -> np.ndarray:
        """Return tr(Aᵀ K_z A) from all rows, in blocks of them."""
        total = np.zeros((len(members), A.shape[1]))
        for rows in row_blocks(len(self.X), len(members) + self.X.shape[1]):
            total += monomials(self.X[rows], members).T @ A[rows]
        return np.square(total).sum(axis=1)

    def log_factor(self, members: Sequence[Prefix]) -> np.ndarray:
        """Return log of orderings/(ρ_d² Π_j base_j); -inf for products of a column that vanishes."""
        scale = self.family.factor_scale(self.base, members)
        prior = np.concatenate([[1.0], self.prior_sq])[[len(z) for z in members]]
        ways = np.array([float(orderings(z)) for z in members])
        with np.errstate(divide="ignore"):
            return np.where(scale > 0, np.log(ways) - np.log(prior) - np.log(scale), -np.inf)


class RowMixture:
    """The three distributions on rows X with coefficients A, of which the first `n_first` are S."""

    def __init__(self, of: RowSampler, X: np.ndarray, A: np.ndarray, n_first: int, size: int):
        self.of, self.X, self.A, self.n_first = of, X, A, n_first
        self.n, self.m = of.n, len(X)
        S = slice(0, n_first)
        self.sums = MonomialSampler(X[S], of.base, of.prior_sq).weigh(A[S], size)
        self.squares = RowSquares(X, np.square(A).sum(axis=1), of.base, of.prior_sq)
        self.growth = (self.n / n_first) ** 2, self.n / self.m
        log_sums = -np.inf if self.sums is None else self.sums.log_mass
        logs = np.log(self.growth) + np.array([log_sums, self.squares.log_mass])
        self.log_mass = float(np.logaddexp(*logs))
        if self.log_mass == -np.inf:  # A vanishes on these rows
            self.shares = np.array([0.0, 0.0, 1.0])
        else:
            mixed = (1 - UNIFORM_SHARE) * np.exp(logs - self.log_mass)
            self.shares = np.append(mixed, UNIFORM_SHARE)

    def draw(self, size: int, rng: np.random.Generator) -> list[Prefix]:
        """Return `size` products."""
        by_sums, by_squares, uniform = rng.multinomial(size, self.shares).tolist()
        drawn = self.sums.draw(by_sums, rng) if self.sums is not None and by_sums else ([], None)
        if drawn is None:  # the sums were nothing but rounding
            drawn, by_squares = ([], None), by_squares + by_sums
        members = [*drawn[0], *self.squares.draw(by_squares, rng)]
        return [*members, *self.of.family.draw_uniform(uniform, rng)[0]]

    def judge(self, members: list[Prefix]) -> tuple[np.ndarray, np.ndarray]:
        """Return the probability of each member in one draw, and the estimate of its form from S and the other rows."""
        phi = monomials(self.X, members)
        first, rest = (
            phi[: self.n_first].T @ self.A[: self.n_first],
            phi[self.n_first :].T @ self.A[self.n_first :],
        )
        diagonal = self.growth[1] * (np.square(phi).T @ np.square(self.A).sum(axis=1))
        family = self.of.family
        uniform = uniform_probability(family._r, family.degree, family.count, members)
        with np.errstate(divide="ignore"):
            logs = np.log(self.growth[0] * np.square(first).sum(axis=1) + diagonal) + self.of.log_factor(
                members
            )
        mixed = np.exp(logs - self.log_mass) if self.log_mass > -np.inf else np.zeros(len(members))
        probability = (1 - self.shares[2]) * mixed + self.shares[2] * uniform
        pairs = self.n * (self.n - 1) / (self.n_first * max(self.m - self.n_first, 1))
        return probability, pairs * np.sum(first * rest, axis=1) + diagonal


class RowSquares:
    """Products in proportion to Σ_t v_t φ_z(x_t)²/(ρ_d² Π_j base_j), over ordered tuples of 0 to D columns.

    A row is drawn first, then the number of factors, then each factor on its own.

    Parameters
    ----------
    X : (m, r)
    v : (m,) array
        Not negative.
    base : (r,) array
        Columns with 0 are never drawn.
    prior_sq : array

    Attributes
    ----------
    log_mass : float
        log of the sum over all tuples; -inf where there is no mass.
    """

    def __init__(self, X: np.ndarray, v: np.ndarray, base: np.ndarray, prior_sq: np.ndarray):
        with np.errstate(divide="ignore"):
            inverse = np.divide(1.0, base, out=np.zeros(len(base)), where=base > 0)
            self.X, self.root = X, np.sqrt(inverse)
            degrees, log_prior = np.arange(len(prior_sq) + 1), np.concatenate([[0.0], np.log(prior_sq)])
            log_s = np.log(np.square(X * self.root).sum(axis=1))
            powers = np.where(degrees > 0, degrees * log_s[:, None], 0.0)  # 0 · -inf is no number
            self.logs = np.log(v)[:, None] + powers - log_prior
        top = self.logs.max(initial=-np.inf)
        self.log_mass = top if top == -np.inf else float(top + np.log(np.exp(self.logs - top).sum()))

    def draw(self, size: int, rng: np.random.Generator) -> list[Prefix]:
        """Return `size` products."""
        if size == 0:
            return []
        at = pick(rng, np.exp(self.logs - self.logs.max()).ravel(), size)
        members = []
        for t, d in zip(*np.unravel_index(at, self.logs.shape), strict=True):
            factors = pick(rng, np.square(self.X[t] * self.root), int(d)) if d else ()
            members.append(tuple(sorted(int(j) for j in factors)))
        return members
