"""Block coordinate descent on random features: the solver for many rows.

:class:`Blockwise` says what is minimised and how. A fit is ``run.py``: it lays a plan (``plan.py``; the bandwidths of
a continuum and C are chosen by ``preparation.py``, which learns candidates, and ``trials.py``, which compares them in
small fits of ``pieces.py``; kernels of a union and their weights by ``mixing.py``), reads the rows once into what
``rows.py`` keeps in memory or in scratch files, and sweeps over the blocks (``sweeps.py``, with ``dense_visits.py`` for
blocks that are no grids). ``online.py`` is ``partial_fit``; ``rounds.py`` fits over the rows of a cluster, many blocks
at a time. The compiled loops over grids, and the threads that go on them together, are ``_grids.py``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..._util.checks import AUTO, FLAG, Rule, number, whole
from ...families.base import HasRandomFeatures
from ...streaming.stream import MemoryStream
from ..base import StreamingSolver, generator
from . import online
from .plan import expected
from .run import SweepRun

#: Rows of a batch in memory.
BATCH_ROWS = 65_536
#: Rows to look at where there are no bandwidths to learn.
LOOK_ROWS = 20_000
#: Below this many rows a fifth is held out first, and the model is fitted again on all rows; else a share, and at most
#: so many.
TWICE_ROWS, SHARE, MOST_HELD_OUT = 20_000, 0.02, 10_000


def _is_table_size(value: Any) -> bool:
    return whole(2, 2**24).accepts(value) and int(value) & (int(value) - 1) == 0


class Blockwise(StreamingSolver):
    r"""Exact block coordinate descent on random features, for thousands to many millions of rows.

    minimise  (1/n) Σ_t s_t ½‖y_t - f(x_t)‖² + (λ/2) [(Σ_i ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²],  λ = 1/(C n),

    f(x) = Σ_i <w_i, z_i(x)> + b, with the random features z_i in place of the kernels' own: binning features for
    Laplacian kernels, Fourier features for Gaussian ones, exact ones for linear, polynomial and Dirichlet kernels.
    Classes are targets of -1 and 1.

    A block of features is minimised over exactly, the others fixed; for binning features that is a division by the
    weight in each bin, 10 ns per row and grid, and with more than 64 visits to grids a step takes a part of it, so that
    they share out what there is to explain. Between sweeps the kernels' weights follow from the norms in closed
    form. A few sweeps are early stopping, not convergence, and better for it: `certify` tells how far the optimum is.

    Parameters
    ----------
    grids : "auto" or int
        Grids of binning features, shared by the kernels that have them; at least 16 each. ``"auto"``: 512 for a single
        kernel and few outputs, 384 above 200,000 rows; up to 2,048 for a union on up to 25,000 rows; else 256, as
        ``partial_fit`` and streams of unknown length have.
    n_features : "auto" or int
        Fourier features, shared by the kernels that have them; at least one block each. ``"auto"``: 8,192, and 16,384
        for a union on up to 25,000 rows.
    sweeps : "auto" or int
        Passes over all blocks. ``"auto"``: 3, and 6 for a union on up to 25,000 rows; for a single kernel 2, and 1
        above 200,000 rows in no order of time (with fewer than 384 grids as many as visit 384, up to 6).
        More grids and fewer passes over them predict better for the same time.
    p : float
        Norm over the kernels, from 1 (sparse) to 2 (all equal); for a single kernel it means nothing.
    block : int
        Fourier features of a block; its Gram matrix is factored.
    bins : int
        Table of a grid, a power of two.
    certify : bool
        Whether to compute the duality gap of the feature problem at the end, for the time of another sweep. It is of
        kind ``"features"``: the optimum over these random features, not over the kernels themselves.
    validation_fraction : "auto" or float
        Share of the rows that only judge: they calibrate ``predict_proba`` and tell whether the model is better than
        the mean, with a warning if it is not. ``"auto"``: 2 % and at most 10,000 rows; below 20,000 rows a fifth, and
        the model is fitted again on all rows afterwards. 0: no probabilities, no warning. Rows held out are no part of
        ``objective_``; a hash of their place and the seed tells which, and they are at most 20,000.
    sample : int
        Rows that bandwidths are learned on.
    random_state : int, Generator or None

    Notes
    -----
    *Bandwidths* of a continuum are learned from a sample first: see :mod:`manykernels.solvers.blockwise.preparation`;
    of a union, which kernels to take and their weights, too: :mod:`manykernels.solvers.blockwise.mixing`. With
    ``C="auto"`` C is a power of two, chosen along with these, and for a list of kernels by small fits; else it is kept.
    ``kernels="laplacian"`` learns one bandwidth per column. Rows in the order of time, of which columns such as a date
    tell, are judged by the last of them, and the date may come to be ignored (a bandwidth of infinity); shuffle rows
    that are to be predicted among their neighbours.

    *Probabilities* are the softmax (the sigmoid for two classes) of the scores times one factor, which is fitted by
    maximum likelihood on scores of rows that the model has not seen.

    *Streams*: ``partial_fit`` is one pass of a diagonal Kalman filter over binning features: no step size, sequential
    over rows. Dense features accumulate their Gram matrix once, O(D²) memory. Bandwidths are learned from the first 200
    rows, and again from 1,000, 5,000 and 50,000, which are gathered until then, so that their order does not matter;
    rows to come after them should be in no order of their targets.

    Results do not depend on the number of threads, nor on whether rows lie in memory or in scratch files. The order of
    the rows is part of the random numbers: rows in another order give another draw, not another distribution.

    References
    ----------
    Rahimi and Recht (2007), *Random Features for Large-Scale Kernel Machines*.
    """

    requires = (HasRandomFeatures,)
    rules: ClassVar = {
        "grids": whole(1, 2**16) | AUTO,
        "n_features": whole(2, 2**30) | AUTO,
        "sweeps": whole(1, 10**5) | AUTO,
        "p": number(1, 2),
        "block": whole(2, 2**30),
        "bins": Rule("a power of two from 2 to 2**24", _is_table_size),
        "certify": FLAG,
        "validation_fraction": number(0, 0.5) | AUTO,
        "sample": whole(10),
    }
    learns_bandwidths = sums_rows = True
    cores = 1  # two end it 1.2 times as soon
    losses = ("squared",)
    calibrates = chooses_C = True

    def __init__(
        self,
        grids="auto",
        *,
        n_features="auto",
        sweeps="auto",
        p=4 / 3,
        block=512,
        bins=2**15,
        certify=False,
        validation_fraction="auto",
        sample=100_000,
        random_state=None,
    ):
        self.grids = grids
        self.n_features = n_features
        self.sweeps = sweeps
        self.p = p
        self.block = block
        self.bins = bins
        self.certify = certify
        self.validation_fraction = validation_fraction
        self.sample = sample
        self.random_state = random_state

    def default_loss(self, n_classes):
        """Return the squared loss."""
        return "squared"

    def held_out_share(self, n_rows):
        """Return the share of so many rows (None: nobody knows) that is in no pass."""
        if self.validation_fraction != "auto":
            return float(self.validation_fraction)
        if n_rows is None:
            return SHARE
        return 0.0 if n_rows < TWICE_ROWS else min(SHARE, MOST_HELD_OUT / n_rows)

    def memory_stream(self, problem):
        """Return the rows in their order, with a random sample of them."""
        seed = int(generator(self.random_state).integers(2**31)) if self.random_state is not None else 0
        first = self.sample if np.isinf(problem.family.size()) else min(self.sample, LOOK_ROWS)
        share = self.held_out_share(problem.n_rows)
        return MemoryStream(problem, BATCH_ROWS, seed, share=share, first_rows=first, draw_first=True)

    def work(self, problem, n_rows):
        """Return what there is to do; fitted to times of ``"auto"`` at 7,400 to 75,000 rows, and of one Laplacian."""
        return expected(problem, n_rows)

    def footprint(self, problem, n_rows):
        """Return what coefficients take, and the bins that rows fall into."""
        return int(6e8 * min(1.0, n_rows / 20_000)) + 768 * n_rows

    def run_over(self, stream):
        """Return the fit over a stream: its rows are read once, and swept over as often as it takes."""
        return SweepRun(self, stream)

    def solve_rows(self, rows, first, held_out=None, on_iteration=None):
        """Fit over rows that lie elsewhere, in few rounds: a round goes over many blocks."""
        from .rounds import solve_in_rounds

        self.check_params()
        return solve_in_rounds(self, rows, first, held_out, on_iteration)

    # -- one pass --------------------------------------------------------------------------------------

    def start(self, problem):
        """Return the state before any row."""
        self.check_params()
        return online.start(self, problem)

    def check_state(self, state, problem):
        """Raise Damaged where coefficients and sums are not those of the kernels' features."""
        online.check_state(self, state, problem)

    def update(self, state, batch):
        """Take a batch, in one pass; the coefficients of the old state become those of the new one."""
        return online.update(self, state, batch)

    def finish(self, state, problem):
        """Return the model so far; ``objective`` is the mean loss of every row before it was seen."""
        return online.finish(self, state, problem)
