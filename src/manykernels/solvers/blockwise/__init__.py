"""Block coordinate descent on random features: the solver for many rows."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from ..._util.text import brief
from ...certificates import norm
from ...families.base import Enumerable, HasRandomFeatures
from ...problem import Problem, Result
from ..aligning import weigh
from ..base import StreamingSolver, generator
from . import online as online
from .fit import Fit, InMemory, Plan
from .preparation import Prepared, columns_of_time, prepare

NUMBER = int | float | np.number
#: Above this many rows a single kernel has fewer grids, which are gone over once.
MANY_ROWS = 200_000
#: Grids of a single kernel, and of many rows: 128 more gain 0.5 points of R² on 10,000 rows, and nothing on 400,000 but
#: 0.06 points of accuracy, for a quarter of the time.
SINGLE_GRIDS, MANY_ROWS_GRIDS = 512, 384
#: So many grids are for coefficients that take no more than this.
MOST_BYTES = 2**30


class Blockwise(StreamingSolver):
    r"""Exact block coordinate descent on random features, for thousands to many millions of rows.

    minimise  (1/n) Σ_t s_t ½‖y_t - f(x_t)‖² + (λ/2) [(Σ_i ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²],  λ = 1/(C n),

    f(x) = Σ_i <w_i, z_i(x)> + b, with the random features z_i in place of the kernels' own: binning features for
    Laplacian kernels, Fourier features for Gaussian ones, exact ones for linear, polynomial and Dirichlet kernels.
    Classes are targets of -1 and 1.

    A block of features is minimised over exactly, the others fixed; for binning features that is a division by the
    weight in each bin, 10 ns per row and grid. Between sweeps the kernels' weights follow from the norms in closed
    form. A few sweeps are early stopping, not convergence, and better for it: `certify` tells how far the optimum is.

    Parameters
    ----------
    grids : "auto" or int
        Grids of binning features, shared by the kernels that have them; at least 16 each. ``"auto"``: 512 for a single
        kernel and few outputs, 384 above 200,000 rows; else 256, as ``partial_fit`` and streams of unknown length have.
    n_features : int
        Fourier features, shared by the kernels that have them; at least one block each.
    sweeps : "auto" or int
        Passes over all blocks. ``"auto"``: 3; for a single kernel 2, and 1 above 200,000 rows in no order of time.
        More grids and fewer passes over them predict better for the same time.
    p : float
        Norm over the kernels, from 1 (sparse) to 2 (all equal); for a single kernel it means nothing.
    tune_C : bool
        For families of bandwidths (``"laplacian"``, ``"gaussian"``, :class:`~manykernels.families.Laplacians`,
        :class:`~manykernels.families.Gaussians`): whether C becomes a multiple of the estimator's, 2^k for whole k from
        -10 to 12, chosen together with the bandwidths. What is used is in ``C_``, and ``objective_`` is about it. Lists
        of kernels keep the C that is given.
    block : int
        Fourier features of a block; its Gram matrix is factored.
    bins : int
        Table of a grid, a power of two.
    certify : bool
        Whether to compute the duality gap of the feature problem at the end, for the time of another sweep. It is of
        kind ``"features"``: the optimum over these random features, not over the kernels themselves.
    holdout : "auto" or float
        Share of the rows that only judge: they calibrate ``predict_proba`` and tell whether the model is better than
        the mean, with a warning if it is not. ``"auto"``: 2 % and at most 10,000 rows; below 20,000 rows a fifth, and
        the model is fitted again on all rows afterwards. 0: no probabilities, no warning. Rows held out count as rows
        without weight in ``objective_``.
    sample : int
        Rows that bandwidths are learned on.
    random_state : int, Generator or None

    Notes
    -----
    *Bandwidths* of a continuum are learned from a sample first: see :mod:`manykernels.solvers.blockwise.preparation`.
    ``kernels="laplacian"`` learns one bandwidth per column. Rows in the order of time, of which columns such as a date
    tell, are judged by the last of them, and the date may come to be ignored (a bandwidth of infinity); shuffle rows
    that are to be predicted among their neighbours.

    *Probabilities* are the softmax (the sigmoid for two classes) of the scores times one factor, which is fitted by
    maximum likelihood on scores of rows that the model has not seen.

    *Streams*: ``partial_fit`` is one pass of a diagonal Kalman filter over binning features: no step size, sequential
    over rows. Dense features accumulate their Gram matrix once, O(D²) memory. Bandwidths are learned from the first 200
    rows, and again from 1,000, 5,000 and 50,000, which are gathered until then, so that their order does not matter;
    rows to come after them should be in no order of their targets.

    Results do not depend on the number of threads, nor on whether rows lie in memory or in scratch files.

    References
    ----------
    Rahimi and Recht (2007), *Random Features for Large-Scale Kernel Machines*.
    """

    requires = (HasRandomFeatures,)
    learns_bandwidths = True
    losses = ("squared",)
    calibrates = True

    def __init__(
        self,
        grids="auto",
        *,
        n_features=8192,
        sweeps="auto",
        p=4 / 3,
        tune_C=True,
        block=512,
        bins=2**15,
        certify=False,
        holdout="auto",
        sample=100_000,
        random_state=None,
    ):
        self.grids = grids
        self.n_features = n_features
        self.sweeps = sweeps
        self.p = p
        self.tune_C = tune_C
        self.block = block
        self.bins = bins
        self.certify = certify
        self.holdout = holdout
        self.sample = sample
        self.random_state = random_state

    def check_params(self):
        """Check numbers and switches."""
        for name, least in (
            ("grids", 1),
            ("n_features", 2),
            ("sweeps", 1),
            ("block", 2),
            ("bins", 2),
            ("sample", 10),
        ):
            value = getattr(self, name)
            if name in ("grids", "sweeps") and isinstance(value, str) and value == "auto":
                continue
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} of {brief(self)} must be a whole number of at least {least}.")
        if self.bins & (self.bins - 1) or self.bins > 2**24:
            raise ValueError(f"bins of {brief(self)} must be a power of two, at most 2**24.")
        if not (isinstance(self.p, NUMBER) and 1 <= self.p <= 2):
            raise ValueError(f"p of {brief(self)} must be a number from 1 to 2.")
        share = self.holdout
        if not (share == "auto" or (isinstance(share, NUMBER) and 0 <= share <= 0.5)):
            raise ValueError(f"holdout of {brief(self)} must be 'auto' or a share from 0 to 0.5.")

    def default_loss(self, n_classes):
        """Return the squared loss."""
        return "squared"

    # -- plans -----------------------------------------------------------------------------------------

    def _plan(self, first: Problem, n_rows: int | None, known: dict[str, np.ndarray] | None = None) -> Plan:
        """Learn bandwidths, or take those of a state, and lay out the features."""
        family: Any = first.family
        seed = int(generator(self.random_state).integers(2**62)) if known is None else int(known["seed"][0])
        prepared = None
        grids, sweeps = self._passes(first, n_rows)
        if np.isinf(family.size()):
            if known is not None and "bounds" in known:
                family = _within(family, known["bounds"])
            else:
                family = family.adapt(first.X, first.sample_weight)
            if known is not None:
                prepared = Prepared(
                    _as_member(known["member"], family), float(known["C"][0]), math.nan, "known"
                )
            else:
                prepared = prepare(
                    first,
                    tune_C=self.tune_C,
                    seed=seed % 2**32,
                    size=self.bins,
                    sweeps=sweeps,
                    n_rows=n_rows,
                )
            members = [prepared.member]
        else:
            members = list(family.members())
        rho_sq = first.scale.rho_sq(members, self.p)
        C = first.C if prepared is None else prepared.C
        sizes, blocks = self._sizes(family, members, first.X.shape[1], seed, n_rows, grids)
        return Plan(family, members, rho_sq, C, seed, first.X.shape[1], sizes, blocks, sweeps, prepared)

    def _passes(self, first: Problem, n_rows: int | None) -> tuple[int, int]:
        """Return the numbers of grids and of sweeps; weights of several kernels are learned between sweeps."""
        family: Any = first.family
        if np.isinf(family.size()):
            single = family.statistic == "l1"
        else:
            members = list(family.members())
            single = len(members) == 1 and family.random_features(members, first.X.shape[1], 0, 2)[0].sparse
        grids, sweeps = 256, 3
        if single and n_rows and 4 * SINGLE_GRIDS * self.bins * first.n_outputs <= MOST_BYTES:
            many = n_rows > MANY_ROWS
            grids = MANY_ROWS_GRIDS if many else SINGLE_GRIDS
            # In the order of time what one sweep leaves over is what lasts.
            once = many and self.sweeps == "auto" and not _in_order_of_time(first)
            sweeps = 1 if once else 2
        return (
            grids if self.grids == "auto" else self.grids,
            sweeps if self.sweeps == "auto" else self.sweeps,
        )

    def _sizes(self, family, members, n_features, seed, n_rows, grids):
        """Return the size and the number of blocks of every member."""
        maps = family.random_features(members, n_features, seed, 2)
        sparse = np.array([m.sparse for m in maps])
        dense = np.array([not m.sparse and m.n_blocks is None for m in maps])
        few = (
            2 * n_rows if n_rows else self.n_features
        )  # more features than that are no better than the kernel
        block = min(self.block - self.block % 2, max(2, 2 * few))
        each = max(1, round(min(self.n_features, max(few, block)) / max(1, dense.sum()) / block))
        # With fewer rows than bins a smaller table does: a bin meets another one with a chance of at most a quarter.
        table = self.bins if n_rows is None else min(self.bins, 1 << max(6, (4 * n_rows - 1).bit_length()))
        sizes = np.where(sparse, table, np.where(dense, block, 1))
        per = max(min(16, grids), grids // max(1, int(sparse.sum())))
        return sizes, np.where(sparse, per, np.where(dense, each, 1))

    def _first_theta(self, plan: Plan, first: Problem, nu: float) -> np.ndarray:
        """Return weights to start from: alignment with the targets on some rows, with a floor."""
        alive = (plan.rho_sq > 0).astype(float)
        m = int(alive.sum())
        if m > 1 and self.p < 2 and isinstance(plan.family, Enumerable) and m <= 100:
            theta = _aligned(first, plan.members, plan.rho_sq)
            alive *= np.maximum(theta, 0.05 * theta.max(initial=0.0)) if theta.any() else 1.0
        return alive / norm(alive, nu) if m else alive

    # -- fits ------------------------------------------------------------------------------------------

    def solve(self, problem, init=None, on_iteration=None):
        """Sweep over the blocks, rows in memory."""
        self.check_params()
        seed = int(generator(self.random_state).integers(2**31)) if self.random_state is not None else 0
        return Fit(self, InMemory(problem, self.sample, seed), scratch=False).run(None, None, on_iteration)

    def solve_stream(self, stream, *, resume=None, save=None, on_iteration=None) -> Result:
        """Sweep over the blocks of rows that are read once and kept in scratch files.

        Parameters
        ----------
        stream : object
            With ``first``, a problem on a first sample of the rows; ``n_rows``, a number or None; and an iterator over
            problems that hold the batches.
        resume : dict of arrays, optional
            A state that `save` was given; the fit ends in the same bits as if it had not been interrupted.
        save : callable, optional
            Called with the state, every few seconds.
        on_iteration : callable, optional
            Called with a :class:`Step` after every sweep; True stops.
        """
        self.check_params()
        return Fit(self, stream, scratch=True).run(resume, save, on_iteration)

    # -- one pass --------------------------------------------------------------------------------------

    def start(self, problem):
        """Return the state before any row."""
        self.check_params()
        return online.start(self, problem)

    def update(self, state, batch):
        """Take a batch, in one pass; the coefficients of the old state become those of the new one."""
        return online.update(self, state, batch)

    def finish(self, state, problem):
        """Return the model so far; ``objective`` is the mean loss of every row before it was seen."""
        return online.finish(self, state, problem)


def _as_member(values: np.ndarray, family) -> Any:
    """Return bandwidths of a state as a member."""
    return tuple(values.tolist()) if family.ard else float(values[0])


def _in_order_of_time(first: Problem) -> bool:
    """Whether the rows of a sample are in the order of time."""
    return columns_of_time(first.X, first.Y, np.flatnonzero(first.sample_weight)) is not None


def _within(family, bounds: np.ndarray) -> Any:
    """Return a family with the automatic bounds that a state knows: finding them takes longer than a batch."""
    if not isinstance(family.bounds, str):
        return family
    pairs = [tuple(pair) for pair in bounds.tolist()]
    return type(family)(pairs if family.ard else pairs[0], family.ard)._named(
        getattr(family, "_column_names", None)
    )


def _aligned(first: Problem, members, rho_sq) -> np.ndarray:
    """Return the best aligned weights on at most 500 of the rows, zeros where there are none."""
    rows = np.linspace(0, first.n_rows - 1, min(500, first.n_rows)).astype(int)
    try:
        return weigh(first.rows(rows), members, rho_sq)[0]
    except ValueError:  # the targets of these rows are constant
        return np.zeros(len(members))
