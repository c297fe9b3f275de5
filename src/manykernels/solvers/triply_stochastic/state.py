"""The state of :class:`TriplyStochastic`: coefficients of blocks of random features, and what steps need to know."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..._util.arrays import product_width
from ..._util.shapes import WHOLE, Stored, check_arrays, demand
from ..verdict import ENOUGH
from ._steps import NUMBERS, follow, lam_of, norms_sq

#: Fields that are lists of blocks.
LISTS = ("owner", "V", "mean", "best")
_COUNT, _SUM, _OUTPUTS = Stored("1", WHOLE, 0), Stored("1"), Stored("c")
_KERNELS, _FEATURES = Stored("m", least=0.0), Stored("k c")
#: What the arrays of a state are: of c outputs, m kernels, B blocks with k features.
ARRAYS = {
    "seed": _COUNT,
    "n_columns": _COUNT,
    "rho_sq": _KERNELS,
    "intercept": _OUTPUTS,
    "mean_intercept": _OUTPUTS,
    "targets": _OUTPUTS,
    "top": _KERNELS,
    "trace": _KERNELS,
    "cross": Stored("m", optional=True),  # states of older files have none
    "held": Stored("4"),
    "best_intercept": _OUTPUTS,
    "fresh": Stored("2 4"),
    **dict.fromkeys(("step", "rows", "epoch_rows", "n_rows", "waited"), _COUNT),
    "weight": Stored("1", least=0.0),
    **dict.fromkeys(("batch_loss", "zero_loss"), _SUM),
    "epoch_loss": Stored("1", finite=False),
    "damping": Stored("1", least=1e-300, most=1.0),
    "scale": Stored("1", least=1e-300),
    "widths": Stored("B", WHOLE, 1, 2**32),
    "owner": Stored("B", WHOLE, 0),
    "V": _FEATURES,
    "mean": _FEATURES,
    "best": Stored("* c"),
}


@dataclass
class FeatureState:
    """Coefficients and counts; as a dict of arrays it is also the checkpoint.

    Attributes
    ----------
    seed : int
        Of all draws: features, and kernels by the number of the step.
    n_columns : int
    rho_sq : (m,) array
    intercept, mean_intercept, targets : (c,) arrays
        b, its average, and the sum of s_t y_t over all rows.
    top, trace : (m,) arrays
        The largest eigenvalue of K_i/n and the mean diagonal, averaged over the batches.
    cross : (m,) array
        Sum of the inner products of a kernel's blocks with one another, as estimated to the letter of Alg. 3.
    step, rows, epoch_rows, n_rows : int
        Steps taken; rows seen in all, in this epoch, and in a whole one (0: not known).
    weight : float
        Sum of s_t over all rows.
    batch_loss, epoch_loss : float
        Sum over this epoch of the loss of each batch before its step; mean of the same over the last epoch.
    zero_loss : float
        Sum over all rows of the loss of f = 0.
    damping : float
        What the step is multiplied with after explosions.
    scale : float
        The coefficients of block b are ``scale · V[b]``: shrinking all of them is one product.
    held : (4,) array
        What `compare` found on the rows held out, for the model that is kept; zeros: nothing yet.
    best_intercept : (c,) array
    waited : int
        Epochs since the best one.
    fresh : (2, 4) array
        What `compare` found on new rows before their steps: on at least ENOUGH of them, and on later ones.
    owner : list of int
        The kernel of every block, in the order of drawing.
    V, mean, best : lists of (width, c) arrays
        Coefficients before `scale`, the average of the coefficients, and the latter after the best epoch, block by
        block; no `best` while none is known.
    """

    seed: int
    n_columns: int
    rho_sq: np.ndarray
    intercept: np.ndarray
    mean_intercept: np.ndarray
    targets: np.ndarray
    top: np.ndarray
    trace: np.ndarray
    cross: np.ndarray
    held: np.ndarray
    best_intercept: np.ndarray
    fresh: np.ndarray
    step: int = 0
    rows: int = 0
    epoch_rows: int = 0
    n_rows: int = 0
    weight: float = 0.0
    batch_loss: float = 0.0
    epoch_loss: float = np.nan
    zero_loss: float = 0.0
    damping: float = 1.0
    scale: float = 1.0
    waited: int = 0
    owner: list[int] = field(default_factory=list)
    V: list[np.ndarray] = field(default_factory=list)
    mean: list[np.ndarray] = field(default_factory=list)
    best: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def new(cls, seed: int, n_columns: int, n_outputs: int, rho_sq: np.ndarray) -> FeatureState:
        """Return the state before any row."""
        b, mean, targets, best = np.zeros((4, n_outputs))
        top, trace, cross = np.zeros((3, len(rho_sq)))
        held, fresh = np.zeros(4), np.zeros((2, 4))
        return cls(seed, n_columns, rho_sq, b, mean, targets, top, trace, cross, held, best, fresh)

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> FeatureState:
        """Return a copy that can be changed without changing `arrays`."""
        edges = np.cumsum(arrays["widths"])[:-1]
        cross = arrays.get("cross", np.zeros(len(arrays["rho_sq"])))
        values: dict[str, Any] = {"owner": arrays["owner"].tolist(), "cross": cross.copy()}
        for name in ("V", "mean", "best"):
            values[name] = [v.copy() for v in np.split(arrays[name], edges)] if len(arrays[name]) else []
        for f in fields(cls):
            if f.name not in values:
                value = arrays[f.name]
                values[f.name] = value.copy() if f.type == "np.ndarray" else value[0].item()
        return cls(**values)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the checkpoint."""
        arrays = {f.name: np.atleast_1d(getattr(self, f.name)) for f in fields(self) if f.name not in LISTS}
        empty = np.zeros((0, len(self.intercept)))
        return {
            **arrays,
            "owner": np.array(self.owner, dtype=np.int64),
            "widths": np.array([len(v) for v in self.V], dtype=np.int64),
            "V": np.concatenate([empty, *self.V]),
            "mean": np.concatenate([empty, *self.mean]),
            "best": np.concatenate([empty, *self.best]),
        }

    @property
    def alive(self) -> np.ndarray:
        """The kernels that do not vanish on the training rows."""
        return np.flatnonzero(self.rho_sq > 0)

    def blocks_of(self, kernel: int) -> list[int]:
        """Return the blocks of a kernel, in the order of drawing."""
        return [b for b, i in enumerate(self.owner) if i == kernel]

    def append(self, kernel: int, width: int) -> int:
        """Add a block without coefficients yet, and return its number."""
        self.owner.append(kernel)
        for blocks in (self.V, self.mean, self.best) if self.best else (self.V, self.mean):
            blocks.append(np.zeros((width, len(self.intercept))))
        return len(self.owner) - 1

    def numbers(self) -> np.ndarray:
        """Return the numbers that steps change."""
        return np.array([getattr(self, name) for name in NUMBERS], dtype=float)

    def take_over(self, now: np.ndarray) -> None:
        """Set them."""
        for name, value in zip(NUMBERS, now.tolist(), strict=True):
            setattr(self, name, type(getattr(self, name))(value))

    def lam(self, C: float) -> float:
        """Return λ of the objective, as steps have it."""
        return lam_of(float(C), int(self.n_rows), float(self.rows))

    def iterate(self, *, averaged: bool) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the coefficients now, or their average, block by block, and the intercept."""
        if averaged:
            return self.mean, self.mean_intercept
        return [self.scale * v for v in self.V], self.intercept

    def kept(self, *, averaged: bool) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the same of the best epoch, where that is known."""
        return (self.best, self.best_intercept) if self.best else self.iterate(averaged=averaged)

    def keep_best(self, found: np.ndarray) -> None:
        """Keep the average if its loss on the rows held out, as `compare` has it, is the lowest so far."""
        if self.best and not found[1] < self.held[1]:
            self.waited += 1
            return
        self.held, self.waited = found, 0
        self.best, self.best_intercept = [v.copy() for v in self.mean], self.mean_intercept.copy()

    def watch(self, found: np.ndarray) -> None:
        """Take notice of what `compare` found on new rows; when there are enough others, the oldest are forgotten."""
        if self.fresh[1, 0] >= ENOUGH:
            self.fresh = np.stack([self.fresh[1], np.zeros(4)])
        self.fresh[1] += found

    def norms(self, blocks: list[np.ndarray], *, faithful: bool) -> np.ndarray:
        """Return u_i = ρ_i‖w_i‖; see `norms_sq`."""
        squares, counts = np.zeros((2, len(self.rho_sq)))
        for i, v in zip(self.owner, blocks, strict=True):
            squares[i] += np.vdot(v, v)
            counts[i] += 1
        return np.sqrt(norms_sq(squares, counts, self.cross, self.rho_sq, faithful))

    def coefficients(self, blocks: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return how many blocks each kernel has, and their coefficients, kernel by kernel."""
        order = [b for i in range(len(self.rho_sq)) for b in self.blocks_of(i)]
        W = np.concatenate([np.zeros((0, len(self.intercept))), *(blocks[b] for b in order)])
        return np.bincount(self.owner, minlength=len(self.rho_sq)), W


def check_state(arrays: dict[str, np.ndarray], n_kernels: int, n_columns: int, n_outputs: int) -> None:
    """Raise Damaged unless arrays that came from a file are a state of so many kernels, columns and outputs."""
    sizes = check_arrays(arrays, ARRAYS, {"m": n_kernels, "c": n_outputs})
    found = int(arrays["n_columns"][0])
    demand(found == n_columns, f"the state is about {found:,} columns, and not {n_columns:,}")
    demand((arrays["rho_sq"] > 0).any(), "every kernel vanishes")
    counts = np.append(arrays["held"][0], arrays["fresh"][:, 0])
    demand((counts >= 0).all(), "held or fresh is about fewer rows than none")
    total = sum(arrays["widths"].tolist())
    demand(total == sizes["k"], f"V has {sizes['k']:,} rows, and its blocks {total:,}")
    demand(len(arrays["best"]) in (0, total), f"best has {len(arrays['best']):,} rows, and not {total:,}")
    most = max(arrays["owner"].tolist(), default=0)
    demand(most < n_kernels, f"owner holds the kernel {most:,}, and there are {n_kernels:,}")


def check_blocks(arrays: dict[str, np.ndarray], widths: list[int], most: list[int | None]) -> None:
    """Raise Damaged unless every block is as wide as its kernel's features, and no kernel has more than there are."""
    owner = arrays["owner"]
    demand(
        np.array_equal(arrays["widths"], np.array(widths)[owner]),
        "a block has another width than its kernel's",
    )
    for count, end in zip(np.bincount(owner, minlength=len(most)).tolist(), most, strict=True):
        demand(end is None or count <= end, "a kernel has more blocks than features")


class Layout:
    """All coefficients of a state below each other, as the features they belong to lie side by side.

    Meanwhile the state's own blocks are views of these arrays, so that one compiled call moves all of them. Rows have
    zeros up to `product_width`. Blocks to come can have their place already, with coefficients 0.

    Attributes
    ----------
    V, mean : (≥ width, ≥ c) arrays
    W : array of the same shape, float32
        The coefficients, ``scale · V``.
    edges, owner : (B + 1,) and (B,) arrays
        Where blocks begin and end, and their kernels.
    counts : (m,) array
        How many blocks a kernel has.
    squares : (m,) array
        Sums of squares of the kernels' coefficients.
    """

    def __init__(self, state: FeatureState):
        self.state = state
        self.places: list[slice] = []
        self.edges, self.owner = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.counts, self.squares = np.zeros(len(state.rho_sq), dtype=np.int64), np.zeros(len(state.rho_sq))
        self.W = np.zeros((0, product_width(len(state.intercept))), dtype=np.float32)
        self._allocate(0)

    @property
    def width(self) -> int:
        """Features in all."""
        return int(self.edges[-1])

    def append(self, kernel: int, width: int) -> slice:
        """Give a block a place, and return which rows these are."""
        place = slice(self.width, self.width + width)
        self.edges, self.owner = np.append(self.edges, place.stop), np.append(self.owner, kernel)
        if place.stop > len(self.V):
            self._allocate(2 * place.stop)
        return place

    def bind(self, block: int, place: slice) -> None:
        """Let the next block of the state be a view of its place."""
        assert block == len(self.places)
        self.places.append(place)
        self.counts[self.state.owner[block]] += 1
        self._move(block)

    def follow(self, share: float) -> None:
        """Move the mean by a share towards the coefficients, and make the latter ready for the next step."""
        follow(self.V, self.state.scale, share, self.mean, self.W, self.edges, self.owner, self.squares)

    def _allocate(self, width: int) -> None:
        c = product_width(len(self.state.intercept))
        old = self.W
        self.V, self.mean = np.zeros((width, c)), np.zeros((width, c))
        self.W = np.zeros((width, c), dtype=np.float32)
        self.W[: len(old)] = old  # scores are made of it before the next `follow`
        for block in range(len(self.places)):
            self._move(block)

    def _move(self, block: int) -> None:
        """Copy the coefficients of a block to its place."""
        for array, blocks in ((self.V, self.state.V), (self.mean, self.state.mean)):
            part = array[self.places[block], : len(self.state.intercept)]
            part[:] = blocks[block]
            blocks[block] = part
