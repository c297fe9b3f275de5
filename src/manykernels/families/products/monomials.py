"""Products of columns: every member has rank one, with the explicit feature Π_j x_j."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from ._products import monomials_into

#: Sorted base kernels: a member, or the factors of one that are known already.
Prefix = tuple[int, ...]

_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def n_multisets(r: int, degree: int) -> int:
    """Return the number of multisets of 1 to `degree` of r things: C(r + D, D) - 1."""
    return math.comb(r + degree, degree) - 1


def n_exclusive(r: int, degree: int, groups: Sequence[int]) -> int:
    """Return the number of those that hold at most one thing of every group, once; groups are given by their sizes.

    Of q things in no group the generating function is (1 - t)^-q, of a group of L it is 1 + L t.
    """
    q = r - sum(groups)
    count = [math.comb(q + d - 1, d) if q else int(d == 0) for d in range(degree + 1)]
    for size in groups:
        count = [now + size * before for now, before in zip(count, [0, *count[:-1]], strict=True)]
    return sum(count) - 1


def multisets(r: int, degree: int) -> Iterator[tuple[int, ...]]:
    """Yield all multisets of 1 to `degree` of r things, by degree, then in dictionary order."""
    for d in range(1, degree + 1):
        yield from itertools.combinations_with_replacement(range(r), d)


@lru_cache(maxsize=2**18)
def orderings(member: tuple[int, ...]) -> int:
    """Return in how many orders a multiset can be written."""
    count = math.factorial(len(member))
    for times in Counter(member).values():
        count //= math.factorial(times)
    return count


def padded(members: Sequence[Sequence[int]], fill: int) -> np.ndarray:
    """Return the members as rows of one array, padded at the end with `fill`."""
    lengths = np.fromiter((len(z) for z in members), dtype=np.intp, count=len(members))
    width = int(lengths.max(initial=0))
    codes = np.full((len(members), width), fill, dtype=np.intp)
    flat = np.fromiter(itertools.chain.from_iterable(members), dtype=np.intp, count=int(lengths.sum()))
    codes[np.arange(width) < lengths[:, None]] = flat
    return codes


def monomials(X: np.ndarray, members: Sequence[Sequence[int]]) -> np.ndarray:
    """Return Φ, one column Π_j x_j per member, O(n m D)."""
    r = X.shape[1]
    codes = padded(members, r)
    if codes.size and not 0 <= codes.min() <= codes.max() <= r:  # the loop does not look
        raise IndexError(f"a product names column {codes.max()} of {r}")
    phi = np.empty((X.shape[0], len(members)), dtype=np.result_type(X, np.float64))
    monomials_into(phi, np.asarray(X), codes)
    return phi


def power_name(member: Sequence[int], names: Sequence[str]) -> str:
    """Return a readable product such as ``x3·x7²``; the empty product is ``1``."""
    parts = []
    for j, times in sorted(Counter(member).items()):
        parts.append(names[j] + (str(times).translate(_SUPERSCRIPT) if times > 1 else ""))
    return "·".join(parts) or "1"
