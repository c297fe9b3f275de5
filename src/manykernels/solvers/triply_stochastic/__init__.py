"""Triply stochastic gradients: random rows, random kernels, random features.

:class:`TriplyStochastic` says what is minimised, how, and where it departs from the paper. ``steps.py`` takes the steps
of one batch, on the state that ``state.py`` describes and with features that ``ahead.py`` makes ahead of them; the
compiled loops of a step are ``_steps.py``.

A step of Algorithm 3 (Li et al. 2017): rows (line 2), kernels (line 3) and features for them (line 4) are drawn, the
rows are scored (line 5, Algorithm 4), ψ (line 6), the steps γ and η (lines 7 and 8) follow, the drawn kernels'
coefficients move against the gradient (line 9), and all shrink (line 10).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..._util.checks import AUTO, FLAG, Rule, choice, number, whole
from ..._util.shapes import demand
from ..._util.text import brief
from ..._util.threads import one_blas_thread
from ...certificates import norm
from ...combination import Combination
from ...families.base import Enumerable, HasRandomFeatures
from ...kernels.statistics import dense
from ...predictors import RandomFeature
from ...problem import Problem, Result, Trace
from ...streaming.stream import MemoryStream
from ..base import StreamingSolver, generator
from ..log import Progress
from ..verdict import ENOUGH, NO_LOSS, Verdict, best_constant, compare
from ..weights import closed_form
from .state import FeatureState, check_blocks, check_state
from .steps import Steps

#: Rows handed to `update` at once when they are in memory: features are regenerated once for all of them.
UPDATE_ROWS = 16384
#: Rows of a step by default, and the fewest; where there are few rows, so that an epoch has so many steps.
STEP_ROWS, FEWEST_STEP_ROWS, FEWEST_STEPS = 128, 8, 16
#: Most rows on which the objective is computed.
OBJECTIVE_ROWS = 8192
#: Most features of all kernels in a state from a file.
MOST_FEATURES = 2**28
#: Rows below which none are held out by default; of more, this share, though ENOUGH, and at most MOST of them.
FEW, SHARE, MOST = 4000, 0.02, 8192
#: Epochs without a lower loss on the rows held out after which none follow: these, and half of all there were. Steps
#: converge slowly, and a few hundred rows waver: with five, and a third, fits of 300 epochs ended too early.
PATIENCE, PATIENT_SHARE = 10, 1 / 2


class TriplyStochastic(StreamingSolver):
    """Stochastic gradient steps on random rows, random kernels and random features, 1 < p < 2.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²], λ = 1/(C n),

    over random features of the kernels: `n_features` of each, in blocks that are regenerated and never stored.

    A step takes `batch_size` rows, draws `kernels_per_step` kernels, shrinks all coefficients by 1 - γλ and moves the
    drawn kernels' against their gradient by γ/(ψ_i ρ_i²), where 1/ψ_i = θ_i = u_i^(2-p) / (Σ_j u_j^p)^((2-p)/p) is the
    closed form of the kernel's weight for the norms u_i = ρ_i‖w_i‖ reached so far. Scores need the features of all
    kernels, the gradient those of the drawn ones only: O(rows · d · m · n_features) an epoch. Features are made on all
    cores, ahead of the steps that need them; memory does not depend on the number of rows.

    Parameters
    ----------
    p : float
        Norm over kernels, 1 < p < 2.
    n_features : int
        Most features of a kernel, at least 2; features that are exact, as a linear kernel's, are taken as they are.
    block : int
        Features drawn at once, an even number; `n_features` if those are fewer.
    batch_size : "auto" or int
        Rows of a step. ``"auto"``: 128, and below 2048 rows a sixteenth of them, but at least 8; with `faithful` 128.
        Larger batches that arrive by ``partial_fit`` are split, smaller ones make smaller steps.
    epochs : int
        Passes of ``fit`` over the rows.
    kernels_per_step : int or "all"
        Kernels drawn in a step.
    learn_weights : bool
        False keeps ψ = 1: the plain sum of kernels, p = 2. With ``kernels_per_step="all"`` that is the doubly
        stochastic method, Alg. 1–2.
    faithful : bool
        Whether to follow Alg. 3 to the letter, see the notes.
    step : float
        The step size γ: a multiple of the largest one that is safe, in (0, 2). With `faithful`, γ_i = step/(λ i), and
        Theorem 5.1 wants `step` in (1, 2) or a positive integer.
    validation_fraction : float in [0, 1) or "auto"
        Share of the rows that ``fit`` holds out: they take part in no step and not in the objective. The epoch with
        the lowest loss on them is kept, none follow when ten, and half of all, have not lowered it, and a result
        that is no better there than the best constant brings a warning. 0 holds none out, and the warning is about
        training rows; "auto" does so below 4000 rows, and else takes 2 % of them, at least 256 and at most 8192.
        A hash of their place and the seed tells which, and they are at most 20,000. With ``partial_fit`` the rows of a
        batch count before their own steps, and none are held out.
    random_state : int, RandomState, Generator or None

    Notes
    -----
    Takes families that can be listed and have random features; losses logistic (the default for two classes), softmax
    (for more), hinge, squared hinge, max-hinge and squared. There is no certificate: ``gap_kind_`` is ``"none"``. While
    the number of rows is not known, in ``partial_fit`` and in the first epoch of a stream without a length, n is the
    number of rows seen so far. ``objective_`` is P at the result, with the mean loss over at most 8192 of the rows that
    take part; the trace has the mean loss of every batch before its own step instead, once per epoch. The order of the
    rows is part of the random numbers: rows in another order give another draw, not another distribution.

    Where it departs from the paper:

    - ψ_i is at most 20 (the constant of assumption A4), and 1 until every kernel has been drawn: a kernel of norm 0 has
      ψ = ∞ and would never start. A kernel with an optimal θ_i below 1/20 is therefore shrunk less than it should be.
    - it does not say how ‖f_i‖ is measured. Where a kernel's features all move, ‖f_i‖² is their number times the sum of
      squares of their coefficients. With `faithful` each block moves once, on rows of its own, and that would count the
      noise of mini-batches and of early steps as signal (a weight of .42 where .20 is optimal): ‖f_i‖² is then the sum
      of the blocks' squares and, by the reproducing property, of the inner products Σ_t <ℓ'_t, f_i(x_t)> of each step
      with those before. This has no bias as long as slopes do not depend on the features drawn, and one that falls
      like 1/i elsewhere; below zero it counts as zero.
    - the intercept is a constant kernel of weight 1, drawn in every step.

    - Theorem 5.1 allows every `step` in (1, 2) or whole, but its constant Q₁ exists for 2ν'θ > 1 only, for p = 4/3 a
      `step` above 2.

    and unless `faithful`, which wants losses with a bounded slope (A2: not the squared ones), a C that is not large
    and, as every step adds features that all later ones need, few steps with large batches:

    - η is multiplied by m/kernels_per_step. Alg. 3 moves one kernel but shrinks all, so that its fixed point has the
      regularisation mλ: the objective at C/m.
    - kernels are drawn in random order, not independently: each once in m/kernels_per_step steps.
    - a step moves all features drawn so far, not the new ones alone, which has the same mean and less variance; when a
      kernel has `n_features` no new ones are drawn. The coefficients then converge to the optimum over these features.
    - γ starts at what is stable for the loss and the kernels' largest eigenvalues on the rows and falls to 1.5/(λ i) in
      the end, where θ/i starts at θ = 1/λ, 10⁶ or more on large data. It is halved when the loss explodes.
    - the result is an average of the iterates, weighted towards the last, after the best epoch if rows are held out.

    References
    ----------
    Li, Gu, Ao, Wang, Ling (2017), *Triply Stochastic Gradients on Multiple Kernel Learning*, Alg. 1–4, Theorem 5.1.
    Li and Póczos (2016), *Utilize Old Coordinates: Faster Doubly Stochastic Gradients for Kernel Methods*.
    """

    requires = (Enumerable, HasRandomFeatures)
    rules: ClassVar = {
        "p": Rule("a number in (1, 2), or learn_weights=False for p = 2", number(1, 2, open="both").accepts),
        "n_features": whole(2, 2**30),  # a cosine and a sine
        "block": Rule(
            "an even number of at least 2", lambda value: whole(2, 2**30).accepts(value) and value % 2 == 0
        ),
        "batch_size": whole(1, 2**30) | AUTO,
        "epochs": whole(1),
        "kernels_per_step": whole(1) | choice("all"),
        "learn_weights": FLAG,
        "faithful": FLAG,
        "step": number(0, open="left"),
        "validation_fraction": number(0, 1, open="right") | AUTO,
    }
    losses = ("logistic", "softmax", "hinge", "squared_hinge", "max_hinge", "squared")

    def __init__(
        self,
        p=4 / 3,
        n_features=1024,
        block=512,
        batch_size="auto",
        epochs=10,
        kernels_per_step=1,
        learn_weights=True,
        faithful=False,
        step=1.0,
        validation_fraction="auto",
        random_state=None,
    ):
        self.p = p
        self.n_features = n_features
        self.block = block
        self.batch_size = batch_size
        self.epochs = epochs
        self.kernels_per_step = kernels_per_step
        self.learn_weights = learn_weights
        self.faithful = faithful
        self.step = step
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def default_loss(self, n_classes):
        """Return squared, logistic or softmax."""
        if n_classes is None:
            return "squared"
        return "logistic" if n_classes <= 2 else "softmax"

    def check_params(self):
        """Check all parameters; the step by what `faithful` demands."""
        super().check_params()
        step = self.step
        if self.faithful and not (1 < step < 2 or (step >= 1 and step == math.floor(step))):
            raise ValueError(
                f"step of TriplyStochastic is {brief(step)}; with faithful=True use a number in (1, 2) or a positive "
                "whole number, as Theorem 5.1 demands."
            )
        if not self.faithful and not step < 2:
            raise ValueError(
                f"step of TriplyStochastic is {brief(step)}; use a number in (0, 2): larger steps diverge."
            )

    @property
    def width(self) -> int:
        """Features of a block."""
        return int(min(self.block, self.n_features - self.n_features % 2))

    # -- the stream ----------------------------------------------------------------------------------------

    def memory_stream(self, problem):
        """Return the rows in another random order in every epoch; a share of those with weight is held out."""
        share = self.held_out_share(int(np.count_nonzero(problem.sample_weight)))
        size, seed = self.rows_at_once, seed_of(self.random_state)
        return MemoryStream(problem, size, seed, shuffle=True, share=share, first_rows=OBJECTIVE_ROWS)

    @property
    def rows_at_once(self) -> int:
        """Rows handed to `update` together: whole steps."""
        size = self.rows_of_step(0)
        return max(1, UPDATE_ROWS // size) * size

    def rows_of_step(self, n_rows: int) -> int:
        """Return how many rows a step takes of so many in all; 0: nobody knows."""
        if not isinstance(self.batch_size, str):
            return int(self.batch_size)
        if self.faithful or not n_rows:
            return STEP_ROWS
        return min(STEP_ROWS, max(FEWEST_STEP_ROWS, n_rows // FEWEST_STEPS))

    def held_out_share(self, n_rows: int | None) -> float:
        """Return the share of so many rows to hold out; None: nobody knows how many."""
        if self.validation_fraction != "auto":
            return float(self.validation_fraction)
        if n_rows is None or n_rows < FEW:
            return 0.0
        return max(ENOUGH, min(SHARE * n_rows, MOST)) / n_rows

    def start(self, problem):
        """Return the state before any row."""
        self.check_params()
        family: Any = problem.family
        members = family.members()
        rho_sq = problem.scale.rho_sq(members, self.p if self.learn_weights else 2.0)
        maps = family.random_features(members, problem.X.shape[1], 0, self.width)
        for member, feature_map in zip(members, maps, strict=True):
            if feature_map.sparse:
                raise ValueError(
                    f"kernels: {family.label(member)} has sparse random features, which TriplyStochastic does not "
                    "take; use Blockwise, or kernels with dense ones such as RBF."
                )
        if not (rho_sq > 0).any():
            raise ValueError(
                "kernels: every kernel vanishes on the training rows; check that X is not all zeros."
            )
        state = FeatureState.new(seed_of(self.random_state), problem.X.shape[1], problem.n_outputs, rho_sq)
        return state.to_arrays()

    def check_state(self, state, problem):
        """Raise Damaged where blocks and coefficients are not those of the kernels' features."""
        members = problem.family.members()
        check_state(state, len(members), problem.X.shape[1], problem.n_outputs)
        demand(self.n_features * len(members) <= MOST_FEATURES, "there are too many features")
        maps = problem.family.random_features(members, problem.X.shape[1], int(state["seed"][0]), self.width)
        check_blocks(state, [feature_map.width for feature_map in maps], [m.n_blocks for m in maps])

    def expect(self, state, n_rows):
        """Fix n of the objective."""
        return {**state, "n_rows": np.array([n_rows])}

    def end_epoch(self, state):
        """Keep the mean loss of the epoch's batches for the trace; n is known from now on."""
        after = FeatureState.from_arrays(state)
        after.epoch_loss = after.batch_loss / max(1, after.epoch_rows)
        after.n_rows = after.n_rows or after.epoch_rows
        after.batch_loss, after.epoch_rows = 0.0, 0
        return after.to_arrays()

    def validate(self, state, held_out):
        """Keep the model if it is the best so far on the rows held out; to the letter, the last one is kept."""
        if not np.any(held_out.sample_weight):
            return state
        after = FeatureState.from_arrays(state)
        predictor = self._predictor(after, *after.iterate(averaged=not self.faithful), held_out)
        found = self._compare(after, predictor, held_out)
        if self.faithful:
            after.held = found
        else:
            after.keep_best(found)
        return after.to_arrays()

    def settled(self, state):
        """Whether the last epochs have not lowered the loss on the rows held out."""
        epochs = state["rows"][0] / max(1, state["n_rows"][0])
        return bool(state["waited"][0] >= max(PATIENCE, PATIENT_SHARE * epochs))

    def update(self, state, batch):
        """Take the steps of a batch, one for every `rows_of_step` rows."""
        after = FeatureState.from_arrays(state)
        _check_rows(batch.X, after.n_columns)
        with one_blas_thread():
            Steps(self, after, batch).run()
        return after.to_arrays()

    def progress(self, state, problem):
        """Return the mean loss of the last epoch's batches, each before its step, plus the penalty now."""
        now = FeatureState.from_arrays(state)
        blocks, b = now.iterate(averaged=not self.faithful)
        objective = now.epoch_loss + self._penalty(now, blocks, b, problem)
        return Progress(objective, math.nan, int(np.count_nonzero(now.norms(blocks, faithful=self.faithful))))

    def finish(self, state, problem):
        """Turn the averaged coefficients into a predictor, and compare it with the best constant."""
        now = FeatureState.from_arrays(state)
        blocks, intercept = now.kept(averaged=not self.faithful)
        predictor = self._predictor(now, blocks, intercept, problem)
        objective = self._judge(now, predictor, problem) + self._penalty(now, blocks, intercept, problem)
        norms = predictor.combination.norms
        n_kernels = 0 if norms is None else int(np.count_nonzero(norms))
        return Result(
            predictor=predictor,
            combination=predictor.combination,
            objective=objective,
            gap=math.nan,
            gap_kind="none",
            n_iter=now.step,
            converged=False,
            trace=Trace((objective,), (math.nan,), (math.nan,), (n_kernels,)),
            dual_coef=None,
            intercept=intercept,
        )

    def _predictor(self, state: FeatureState, blocks, intercept, problem: Problem) -> RandomFeature:
        """Return the predictor with some coefficients, block by block."""
        u = state.norms(blocks, faithful=self.faithful)
        weights = np.divide(self._theta(state, u), state.rho_sq, out=np.zeros(len(u)), where=state.rho_sq > 0)
        family: Any = problem.family
        combination = Combination(family, family.members(), weights, np.sqrt(state.rho_sq), norms=u)
        n_columns, seed, size = (np.array([v]) for v in (state.n_columns, state.seed, self.width))
        return RandomFeature(combination, n_columns, seed, size, *state.coefficients(blocks), intercept)

    def _theta(self, state: FeatureState, u: np.ndarray) -> np.ndarray:
        alive = (state.rho_sq > 0).astype(float)
        if not self.learn_weights:
            return alive
        return closed_form(u if u.any() else alive, self.p)

    def _penalty(self, state: FeatureState, blocks, b: np.ndarray, problem: Problem) -> float:
        """Return (λ/2) (‖u‖_p² + ‖b‖²)."""
        total = norm(state.norms(blocks, faithful=self.faithful), self.p if self.learn_weights else 2.0)
        return state.lam(problem.C) / 2 * (total**2 + float(b @ b))

    # -- the verdict ---------------------------------------------------------------------------------------

    def _compare(self, state: FeatureState, predictor: RandomFeature, problem: Problem) -> np.ndarray:
        """Compare a predictor with the best constant over all rows seen, on some rows."""
        b = best_constant(problem.loss, state.targets / max(state.weight, 1e-300))
        with one_blas_thread():  # what is kept must not depend on the threads
            F = predictor.scores(dense(problem.X))
            return compare(problem.loss, problem.Y, F, b, problem.sample_weight)

    def _judge(self, state: FeatureState, predictor: RandomFeature, problem: Problem) -> float:
        """Return the mean loss on at most OBJECTIVE_ROWS rows; warn if the best constant is as good on rows that tell.

        Those are the rows held out, else new ones before their steps where rows come once, else training rows.
        """
        some = problem.rows(np.unique(np.linspace(0, problem.n_rows - 1, OBJECTIVE_ROWS).astype(int)))
        trained, fresh = self._compare(state, predictor, some), state.fresh.sum(axis=0)
        name, least = type(self).__name__, NO_LOSS * state.zero_loss / max(state.rows, 1)
        if state.held[0]:
            verdict = Verdict.of(state.held)
            # The best of several epochs may be better by chance; two standard errors are seldom chance.
            remedy, slack = "check bandwidths and columns, or lower C or step", 2 * verdict.error
            verdict.warn(name, "rows held out", remedy, least=least, slack=slack)
        elif fresh[0] >= ENOUGH and state.rows <= (state.n_rows or state.rows):
            remedy = "go on with more of them, or check bandwidths and columns"
            Verdict.of(fresh).warn(name, "new rows", remedy, least=least)
        elif state.n_rows and trained[0] and some.n_rows >= min(ENOUGH, state.rows):
            remedy = "raise epochs, or lower step or C"
            Verdict.of(trained).warn(name, "training rows", remedy, least=least)
        return float(trained[1] / some.n_rows)


def _check_rows(X, n_columns: int) -> None:
    """Refuse rows that would spoil the state."""
    if X.shape[1] != n_columns:
        raise ValueError(f"X has {X.shape[1]} columns, but the first batch had {n_columns}.")
    values = X.data if sp.issparse(X) else X
    if not np.isfinite(values).all():
        raise ValueError("X holds NaN or infinity; fill in or drop these rows.")


def seed_of(random_state) -> int:
    """Return a seed for counter-based generators; the same for the same whole number."""
    return int(generator(random_state).integers(2**62))
