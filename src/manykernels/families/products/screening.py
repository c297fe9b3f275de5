"""All products of columns compared in single precision, which is twice as quick; leaders are looked at again in full.

A screen keeps nothing but the places of the best products. What it has left behind is bounded: rounding moves a sum
over n rows by γ Σ_t |v_t φ_t| at the most, γ ≈ n/2²⁴, and with scales that are mean squares over the same rows
Σ_t |v_t φ_t| is at most √n ‖v‖ ρ_z. So it can be proved that the best product of all is among the leaders, and nearly
always is.

Where all rows are too many the screen takes those with the largest coefficients. A quarter of the rows holds 72 % of
the sum of squares of normal coefficients, and a product stands out from chance by the square root of what they hold.
Scales are then taken from pairs of factors, ρ_z² ≈ Π_{i<j} mean(x_i² x_j²), which is right for independent columns.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._util.threads import map_in_threads
from ._products import row_products, select, select_by_pairs
from .monomial_table import ProductTable, Slab

#: Half a unit in the last place of single precision.
HALF_UNIT = 2.0**-24
#: Products of more factors may leave the range of single precision, and so may sums over more rows lose their digits.
MOST_FACTORS, MOST_ROWS = 6, 8192


def rounding(n: int, degree: int) -> float:
    """Return γ, the relative error of a sum over n rows of products of `degree` factors, rounded at every step."""
    steps = (n + degree + 4) * HALF_UNIT
    return steps / (1 - steps)


class Leaders:
    """The places with the largest scores, as they come; scores up to `threshold` are of no interest any more.

    Threads share one: it only ever rises, and never beyond the score of the last leader.
    """

    def __init__(self, most: int):
        self.most, self.threshold = most, 0.0
        self.places: np.ndarray = np.empty(0, dtype=np.int64)
        self.scores: np.ndarray = np.empty(0, dtype=np.float32)

    def cut(self, places: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the best of some, and raise the threshold where these are as many as are wanted."""
        if len(scores) <= self.most:
            return places, scores
        kept = np.argpartition(-scores, self.most - 1)[: self.most]
        self.threshold = max(self.threshold, float(scores[kept].min()))
        return places[kept], scores[kept]

    def take(self, found: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Keep the best of what the threads have found, best first, ties by place."""
        places, scores = (np.concatenate(part) for part in zip(*found, strict=True))
        places, scores = self.cut(places, scores)
        order = np.lexsort((places, -scores))
        self.places, self.scores = places[order], scores[order]
        # Whatever was left behind lay below as many as are wanted, whichever thread came first.
        self.threshold = float(self.scores[-1]) if len(order) == self.most else 0.0


class Screen:
    """All products of a table in single precision.

    Parameters
    ----------
    table : ProductTable
    chunks : list of lists of Slab
        What a thread takes at once.
    Z : (r + 1, n) array of float32
        The columns; the first is the constant one.
    """

    def __init__(self, table: ProductTable, chunks: list[list[Slab]], Z: np.ndarray):
        self.table, self.chunks, self.Z = table, chunks, Z
        self.wide = max((slab.rows * (slab.end - slab.begin) for slab in table.slabs), default=0)
        self.high = max((slab.rows for slab in table.slabs), default=0)

    def leaders(
        self,
        V: np.ndarray,
        most: int,
        inverse: Callable[[int], np.ndarray] | None = None,
        pairs: np.ndarray | None = None,
    ) -> Leaders:
        """Return the places with the largest Σ_k (φ_zᵀv_k)²/ρ_z².

        Parameters
        ----------
        V : (k, n) array of float32
        most : int
        inverse : callable, optional
            From the number of a chunk to 1/ρ² of its products.
        pairs : (r + 1, r + 1) array of float32
            1/mean(x_i² x_j²), for scales from pairs of factors.
        """
        leaders = Leaders(most)

        def search(c):
            return self._chunk(self.chunks[c], V, leaders, None if inverse is None else inverse(c), pairs)

        leaders.take(map_in_threads(search, range(len(self.chunks))))
        return leaders

    def _chunk(self, chunk, V, leaders: Leaders, inverse, pairs) -> tuple[np.ndarray, np.ndarray]:
        """Return the leaders of a chunk that reach the threshold."""
        table, origin = self.table, self.table.places(chunk).start
        places = np.empty(2 * leaders.most + self.wide, dtype=np.int64)
        scores = np.empty(len(places), dtype=np.float32)
        U = np.empty((self.high, self.Z.shape[1]), dtype=np.float32)
        block, spare = (np.empty(self.wide, dtype=np.float32) for _ in range(2))
        at = 0
        for slab in chunk:
            part, first = slice(slab.first, slab.last), int(table.ends[slab.first])
            values = self._squares(slab, V, U, block, spare)
            where = (slab.begin, table.rows[part], table.start[part], table.stop[part])
            ends = (first, leaders.threshold, at, places, scores)
            if pairs is not None:
                at = select_by_pairs(values, *where, table.heads[part], table.low[part], pairs, *ends)
            else:
                at = select(values, *where, inverse[first - origin :], *ends)
            if at > 2 * leaders.most:
                best = leaders.cut(places[:at], scores[:at])
                at = len(best[0])
                places[:at], scores[:at] = best
        return places[:at].copy(), scores[:at].copy()

    def _squares(self, slab: Slab, V, U, block, spare) -> np.ndarray:
        """Return Σ_k (φ_zᵀv_k)² of the products of a slab, and of what it computes besides."""
        part, wide = slice(slab.first, slab.last), slab.end - slab.begin
        total = block[: slab.rows * wide].reshape(slab.rows, wide)
        for k, v in enumerate(V):
            rows = U[: slab.rows]
            row_products(self.Z, v, self.table.heads[part], self.table.low[part], self.table.high[part], rows)
            out = total if k == 0 else spare[: slab.rows * wide].reshape(slab.rows, wide)
            np.matmul(rows, self.Z[slab.begin : slab.end].T, out=out)
            np.square(out, out=out)
            if k:
                total += out
        return total
