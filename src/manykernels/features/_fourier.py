"""Fourier features: cosines and sines of single-precision numbers, both at once.

With k the whole number nearest to 2x/π and r = x - kπ/2, |r| ≤ π/4, the cosine and the sine of x are those of r,
exchanged where k is odd and with signs that k tells. Two polynomials without branches become vector code: on AVX2 five
times as fast as NumPy's cosine and sine one after the other.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ._thin import rows_of_a_tile

_F, _I = np.float32, np.int32
_QUARTERS = _F(2 / np.pi)
#: After adding it, 1.5 · 2²³, the last bits are those of the nearest whole number.
_ROUNDER = _F(1.5 * 2**23)
#: π/2 in three parts; the first two have 8 and 11 bits, so that k times either is exact below 2¹³.
_HIGH, _MIDDLE = _F(201 / 2**7), _F(2029 / 2**22)
_LOW = _F(np.pi / 2 - 201 / 2**7 - 2029 / 2**22)
#: Beyond it k has more bits, and float64 does the work.
LARGEST_ANGLE = _F(8192.0)
_LARGEST_BITS = int(LARGEST_ANGLE.view(_I))
#: ``sin r - r = r³ (...)`` and ``cos r - 1 + r²/2 = r⁴ (...)`` in powers of r², the largest error being least.
_S1, _S2, _S3 = _F(-0.166666506214), _F(0.008331975964), _F(-0.00019495293)
_C1, _C2, _C3 = _F(0.04166664680712), _F(-0.001388736448231), _F(2.44380905943e-05)
_ABSOLUTE, _HALF = _I(2**31 - 1), _F(0.5)
#: Rows that are projected at a time, where ``_thin.py``'s would be fewer than these.
TILE, FEWEST_ROWS_TOGETHER = 1024, 32


@njit(cache=True, nogil=True, fastmath={"contract"})
def _near(x, scale, cosines, sines):
    """Write cosines and sines times `scale`; return the bits of the largest |x|, in whose order floats are."""
    s0, s1, s2, s3 = scale, scale * _S1, scale * _S2, scale * _S3
    c0, c1, c2, c3 = -scale * _HALF, scale * _C1, scale * _C2, scale * _C3
    largest = _I(0)
    for j in range(len(x)):
        v = _F(x[j])
        shifted = _F(v * _QUARTERS + _ROUNDER)
        quarter = shifted.view(_I)
        k = shifted - _ROUNDER
        r = ((v - k * _HIGH) - k * _MIDDLE) - k * _LOW
        square = r * r
        s = r * (s0 + square * (s1 + square * (s2 + square * s3)))
        c = scale + square * (c0 + square * (c1 + square * (c2 + square * c3)))
        odd = (quarter & 1) != 0
        first, second = _F(s if odd else c), _F(c if odd else s)
        cosines[j] = _I(first.view(_I) ^ _I((quarter + 1) & 2) << 30).view(_F)  # bit 31 is the sign
        sines[j] = _I(second.view(_I) ^ _I(quarter & 2) << 30).view(_F)
        largest = max(largest, _I(v.view(_I) & _ABSOLUTE))
    return largest


@njit(cache=True, nogil=True)
def _far(x, scale, cosines, sines):
    """Do the same for numbers of any size."""
    for j in range(len(x)):
        v = float(x[j])
        cosines[j] = scale * math.cos(v)
        sines[j] = scale * math.sin(v)


@njit(cache=True, nogil=True)
def _both(x, scale, cosines, sines):
    """Do the same, as fast as it can be done."""
    if _near(x, scale, cosines, sines) > _LARGEST_BITS:
        _far(x, scale, cosines, sines)


@njit(cache=True, nogil=True)
def cos_sin(P, scale, Z, first):
    """Write ``scale · [cos P, sin P]`` to the columns of Z from `first` on, 0.3 ns for a number.

    The error is at most 2⁻²³ · `scale`, for numbers of any size.

    Parameters
    ----------
    P : (n, h) array of float32, contiguous
    scale : float32
    Z : (n, width) array of float32, contiguous
        Another array than P: a loop that overwrites what it reads would not be vector code.
    first : int
    """
    n, h = P.shape
    for t in range(n):
        z = Z[t, first : first + 2 * h]
        _both(P[t], scale, z[:h], z[h:])


@njit(cache=True, nogil=True)
def project_cos_sin(X, frequencies, halves, Z, first):
    """Write ``[cos XΩ, sin XΩ] / √h`` of every block of Ω to the columns of Z from `first` on.

    One call for all: whoever makes features on a thread asks for the interpreter's lock once, and hardly ever has to
    wait for it.

    Parameters
    ----------
    X : (n, d) array of float32, contiguous
    frequencies : (d, Σ h) array of float32, contiguous
        The blocks' Ω side by side.
    halves : (B,) array of int
        How many columns each has, h.
    Z, first : as in `cos_sin`
    """
    d, total = frequencies.shape
    step = min(TILE, rows_of_a_tile(len(X), d * total))
    if step < FEWEST_ROWS_TOGETHER:
        step = TILE
    P = np.empty((min(len(X), step), total), dtype=np.float32)
    for a in range(0, len(X), step):
        b = min(a + step, len(X))
        np.dot(X[a:b], frequencies, P[: b - a])
        for t in range(b - a):
            at = 0
            for h in halves:
                p, z = P[t, at : at + h], Z[a + t, first + 2 * at : first + 2 * (at + h)]
                _both(p, np.float32(1.0 / math.sqrt(h)), z[:h], z[h:])
                at += h
