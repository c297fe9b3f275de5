r"""Potentials of mirror descent: a step along an estimate of the gradient, and back into the set of weights.

A step is θ' = ∇Ψ*(∇Ψ(θ) - ηĝ), followed by the Bregman projection of Ψ on Δ_ν = {θ >= 0, ‖θ‖_ν <= 1} (Algorithm 1,
lines 4-6). With ĝ non-zero at the kernels drawn, and Ψ one of

=================  ==========  =========================  =========  ===================================================
p                  ν           Ψ(θ)                       α          projection
=================  ==========  =========================  =========  ===================================================
4/3                2           ½‖θ‖₂²                     1          zero for what is negative, then scaling
(1, 4/3)           (1, 2)      ½‖θ‖_ν²                    ν - 1      the same, on ∇Ψ(θ)
(4/3, 2)           (2, ∞)      ½‖θ‖₂²                     1          :func:`nearest_in_ball`
1                  1           Σ θ_i log θ_i, on Σθ = 1   1          scaling
=================  ==========  =========================  =========  ===================================================

α is the strong convexity with respect to the norm in which ĝ is bounded: ‖·‖_ν for ν <= 2, else ‖·‖₂. Its dual norm is
1 for a unit vector in all four, so that one bound of the largest entry of the estimate serves them all.
δ = max Ψ - Ψ(θ⁽⁰⁾) is ½ for ν <= 2 whatever the number m of kernels, ½ m^(1 - 2/ν) for ν > 2, and log m for the
entropy. The first two touch only kernels that were drawn: as ∇Ψ(θ)_i = sign(θ_i)|θ_i|^(ν-1) ‖θ‖_ν^(2-ν), a kernel
without weight has none in ∇Ψ(θ) either. The entropy needs a weight for every kernel.

References
----------
Afkanpour, György, Szepesvári, Bowling (2013), Algorithms 1-2, Theorem 3.1. The potential ½‖θ‖_ν² and its strong
convexity: Shalev-Shwartz (2007), *Online Learning: Theory, Algorithms, and Applications*.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ...certificates import conjugate_exponent, norm
from ...problem import nu_of
from ..active import Active

#: How near p must be to 4/3 for the Euclidean ball.
NEAR = 1e-12
#: Newton steps for one entry of a projection, at most; they converge from one side and quadratically.
MOST_NEWTON = 60


class Potential(ABC):
    """A step and a projection, for weights in the unit ball of ‖·‖_ν.

    Attributes
    ----------
    nu : float
    alpha, delta : float
        α and δ of Theorem 3.1.
    """

    def __init__(self, nu: float, alpha: float, delta: float):
        self.nu, self.alpha, self.delta = nu, alpha, delta

    @property
    def reach(self) -> float:
        """Return √(2αδ): the theorem's step is this over √(BT)."""
        return math.sqrt(2 * self.alpha * self.delta)

    def start(self, active: Active) -> None:
        """Set θ⁽⁰⁾, the least point of Ψ: no weights."""
        active.reweigh(np.zeros(len(active)))

    @abstractmethod
    def move(
        self, active: Active, members: Sequence[Any], increments: np.ndarray, rho_sq: np.ndarray
    ) -> None:
        """Add -ηĝ to ∇Ψ(θ), at members that may be repeated, and project."""

    def size(self, theta: np.ndarray) -> float:
        """Return ‖θ‖_ν."""
        return norm(theta, self.nu)


class Euclidean(Potential):
    """½‖θ‖₂² on the unit ball of ‖·‖₂: p = 4/3."""

    def __init__(self) -> None:
        super().__init__(2.0, 1.0, 0.5)

    def move(self, active, members, increments, rho_sq):
        """Add, leave out what is negative, and scale."""
        active.add(members, increments, rho_sq)
        if active.theta.min(initial=0.0) < 0:
            active.reweigh(np.maximum(active.theta, 0.0))
        length = float(np.linalg.norm(active.theta))
        if length > 1:
            active.scale(1 / length)

    def size(self, theta):
        """Return ‖θ‖₂."""
        return float(np.linalg.norm(theta))


class Power(Potential):
    """½‖θ‖_ν² on the unit ball of ‖·‖_ν, 1 < ν < 2: p in (1, 4/3).

    ∇Ψ(θ) is what is kept: entries of θ may underflow. The projection leaves out what is negative in it and scales it,
    as Ψ(θ') - ⟨∇Ψ(θ), θ'⟩ grows with every entry of θ' where ∇Ψ(θ) is negative, and Ψ depends on the length only.
    """

    def __init__(self, nu: float):
        super().__init__(nu, nu - 1, 0.5)
        self.dual = np.zeros(0)

    def move(self, active, members, increments, rho_sq):
        """Add to ∇Ψ(θ), project there, and map back."""
        places = active.include(members, rho_sq)
        self.dual = np.pad(self.dual, (0, len(active) - len(self.dual)))
        np.add.at(self.dual, places, increments)
        self.dual, theta = power_step(self.dual, self.nu)
        active.reweigh(theta)


def power_step(dual: np.ndarray, nu: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the projection for Ψ = ½‖θ‖_ν² on Δ_ν of the point with ∇Ψ(θ) = `dual`: its ∇Ψ, and itself."""
    conjugate = conjugate_exponent(nu)
    dual = np.maximum(dual, 0.0)
    length = norm(dual, conjugate)
    if length == 0:
        return dual, np.zeros_like(dual)
    unit = dual / length  # ∇Ψ*(dual)_i = length · unit_i^(ν* - 1)
    length = min(length, 1.0)
    return length * unit, length * unit ** (conjugate - 1)


class EuclideanList(Potential):
    """½‖θ‖₂² on the unit ball of ‖·‖_ν, ν > 2: p in (4/3, 2), for lists."""

    def __init__(self, nu: float, n_members: int):
        super().__init__(nu, 1.0, 0.5 * n_members ** (1 - 2 / nu))

    def move(self, active, members, increments, rho_sq):
        """Add, and go to the nearest point of the ball."""
        places = active.include(members, rho_sq)
        theta = active.theta.copy()
        np.add.at(theta, places, increments)
        active.reweigh(nearest_in_ball(theta, self.nu))


def nearest_in_ball(v: np.ndarray, nu: float) -> np.ndarray:
    """Return the point of {θ >= 0, ‖θ‖_ν <= 1}, ν > 2, that is nearest to v in the Euclidean norm.

    Outside the ball θ_i + c θ_i^(ν-1) = v_i for some c > 0. The largest entry t of θ, that of the largest of v,
    lies in [m^(-1/ν), 1] and determines c; ‖θ‖_ν grows with it.
    """
    v = np.maximum(v, 0.0)
    if norm(v, nu) <= 1:
        return v
    top = float(v.max())

    def at(t: float) -> np.ndarray:
        return _entries(v, (top - t) / t ** (nu - 1), t, nu)

    low, high = len(v) ** (-1 / nu), min(1.0, top)
    t = high if low >= high else brentq(lambda t: np.sum(at(t) ** nu) - 1, low, high, xtol=1e-15, rtol=1e-14)
    theta = at(t)
    return theta / max(norm(theta, nu), 1.0)


def _entries(v, c, t, nu):
    """Return θ with θ + c θ^(ν-1) = v, all entries at most t: Newton's method from the right, where it is monotone."""
    theta = np.minimum(v, t)
    for _ in range(MOST_NEWTON):
        power = theta ** (nu - 2)
        excess = theta + c * power * theta - v
        step = np.maximum(excess, 0.0) / (1 + c * (nu - 1) * power)
        theta = theta - step
        if (step <= 1e-16 * theta).all():
            break
    return theta


class Entropy(Potential):
    """Σ θ_i log θ_i on the simplex: p = 1, for lists. The step multiplies: θ_i ∝ θ_i exp(-ηĝ_i)."""

    def __init__(self, n_members: int):
        super().__init__(1.0, 1.0, math.log(n_members))
        self.logs = np.zeros(0)

    def start(self, active):
        """Give equal weights to all kernels that do not vanish."""
        members = active.family.members()
        rho_sq = active.rho_of(members)
        alive = np.flatnonzero(rho_sq > 0).tolist()
        active.include([members[i] for i in alive], rho_sq[alive])
        self.logs = np.zeros(len(active))
        active.reweigh(np.full(len(active), 1 / max(len(active), 1)))

    def move(self, active, members, increments, rho_sq):
        """Add to log θ, and scale."""
        np.add.at(self.logs, active.include(members, rho_sq), increments)
        theta = np.exp(self.logs - self.logs.max())
        active.reweigh(theta / theta.sum())


def potential_of(p: float, n_members: float) -> Potential:
    """Return the potential for a norm over so many kernels."""
    if abs(p - 4 / 3) <= NEAR:
        return Euclidean()
    if p == 1:
        return Entropy(int(n_members))
    return Power(nu_of(p)) if p < 4 / 3 else EuclideanList(nu_of(p), int(n_members))
