"""Algorithms 1 and 2 of OBSCURE and UFO-MKL's step, written from the formulas, with every w spelled out.

Plain and slow: all kernels as explicit features, all iterates kept in the paper's own variables θ and w.
"""

import numpy as np
from tests.solvers.reference import factor


def features(K):
    """Return one feature matrix per kernel of a stack, scaled to a mean squared norm of 1."""
    out = []
    for i in range(K.shape[2]):
        phi = factor(K[:, :, i].astype(float))
        out.append(phi / np.sqrt(np.square(phi).sum(axis=1).mean()))
    return out


class Groups:
    """A predictor as a list of one weight matrix per kernel, and the intercept."""

    def __init__(self, phi, c):
        self.parts = [np.zeros((P.shape[1], c)) for P in phi]
        self.b = np.zeros(c)

    def norms(self):
        return np.array([np.linalg.norm(w) for w in self.parts])

    def dual_norm(self, q):
        """Return the norm (2, q) over kernels, with the intercept as a group of its own."""
        return np.hypot(np.linalg.norm(self.norms(), q), np.linalg.norm(self.b))

    def scaled(self, a):
        out = Groups([], 0)
        out.parts, out.b = [a * w for w in self.parts], a * self.b
        return out

    def __sub__(self, other):
        out = Groups([], 0)
        out.parts = [a - b for a, b in zip(self.parts, other.parts)]
        out.b = self.b - other.b
        return out


def linked(theta, q):
    """Return w = ∇h*(θ): Alg. 1, line 7."""
    norms = theta.norms()
    total = np.linalg.norm(norms, q)
    out = Groups([], 0)
    ratio = norms / total if total > 0 else norms
    out.parts = [r ** (q - 2) * w / q if r > 0 else 0 * w for r, w in zip(ratio, theta.parts)]
    out.b = theta.b / q
    return out


def subgradient(w, phi, t, y, loss, s):
    f = sum(P[t] @ part for P, part in zip(phi, w.parts)) + w.b
    slope = s * loss.gradient(y[None], f[None])[0]
    z = Groups([], 0)
    z.parts, z.b = [np.outer(P[t], slope) for P in phi], slope
    return z, slope.any()


def online(phi, Y, s, loss, order, q, eta):
    """Algorithm 1: θ, w and the number of updates."""
    theta, updates = Groups(phi, Y.shape[1]), 0
    for t in order:
        z, active = subgradient(linked(theta, q), phi, t, Y[t], loss, s[t])
        updates += active
        theta = theta - z.scaled(eta)
    return theta, linked(theta, q), updates


def batch(phi, Y, s, loss, order, q, lam, radius, theta):
    """Algorithm 2 from θ: all w, one per step."""
    total, out = 0.0, []
    for k, t in enumerate(order, start=1):
        z, _ = subgradient(linked(theta, q), phi, t, Y[t], loss, s[t])
        d = lam * k + total
        push = (lam / q * theta.dual_norm(q) + z.dual_norm(q)) / radius
        total += 0.5 * (np.sqrt(d**2 + q * push**2) - d)
        eta = q / (lam * k + total)
        theta = theta.scaled(1 - lam * eta / q) - z.scaled(eta)
        size = theta.dual_norm(q)
        theta = theta.scaled(min(1.0, q * radius / size)) if size > 0 else theta
        out.append(linked(theta, q))
    return out


def ufo(phi, Y, s, loss, order, q, lam, alpha):
    """UFO-MKL: w after all steps."""
    theta, w = Groups(phi, Y.shape[1]), Groups(phi, Y.shape[1])
    for k, t in enumerate(order, start=1):
        z, _ = subgradient(w, phi, t, Y[t], loss, s[t])
        theta = theta - z
        norms = theta.norms()
        v = np.maximum(norms - alpha * k, 0.0)
        size = np.linalg.norm(v, q)
        w = Groups([], 0)
        w.parts = [
            (a / r) * (a / size) ** (q - 2) * part / (lam * k) if a > 0 else 0 * part
            for a, r, part in zip(v, norms, theta.parts)
        ]
        w.b = theta.b / (lam * k)
    return w


def scores(w, phi):
    return sum(P @ part for P, part in zip(phi, w.parts)) + w.b


def objective(w, phi, Y, s, loss, p, lam, alpha=0.0):
    norms = w.norms()
    penalty = np.linalg.norm(norms, p) ** 2 + w.b @ w.b
    return s @ loss.value(Y, scores(w, phi)) / len(Y) + lam / 2 * penalty + alpha * norms.sum()
