"""What estimators and transformers share: the rows they are given, the family and the scale over them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..families import Family
from ..problem import Scale
from ..registry import is_pairwise, make_family
from ..solvers import Solver

#: Sparse rows are made dense for kernels that need it, up to this many bytes.
DENSE_BYTES = 2**31


@contextmanager
def all_or_nothing(estimator):
    """Put the estimator back as it was when something is raised: never half of a new fit on an old one."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def as_needed(X, family: Family):
    """Make sparse rows dense for families that need it, within reason."""
    if not sp.issparse(X) or family.accepts_sparse:
        return X
    if 8 * X.shape[0] * X.shape[1] > DENSE_BYTES:
        raise ValueError(
            f"X is sparse with shape {X.shape}, and {type(family).__name__} needs dense rows, "
            f"{8 * X.shape[0] * X.shape[1] / 2**30:.1f} GiB; select columns first, or use kernels such as "
            "Linear, RBF or Polynomial, which take sparse rows."
        )
    return X.toarray()


def check_weights(sample_weight, X, *, none: bool = False) -> np.ndarray:
    """Return the weights of the rows, ones by default, or raise; `none` says whether all may be zero."""
    if sample_weight is not None and not np.asarray(sample_weight).any():
        if not none:
            raise ValueError("sample_weight is zero for every row; give at least one row a positive weight.")
        # Some versions of scikit-learn refuse zeros alone, so the shape is checked on ones.
        ones = np.ones_like(sample_weight, dtype=np.float64)
        return 0.0 * _check_sample_weight(ones, X, dtype=np.float64)
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


class KernelRows:
    """Mixin of everything with `kernels`, `solver` and `normalize`: rows in, the family bound to them.

    ``combination_`` is what is learned; without it the object is not fitted.
    """

    kernels: Any
    solver: Any
    normalize: Any
    combination_: Any

    def _training_rows(self, X, y, **options):
        """Validate X and y for a fit; a single precomputed matrix becomes a stack."""
        if is_pairwise(self.kernels):
            X, y = validate_data(
                self,
                X,
                y,
                dtype=[np.float64, np.float32],
                allow_nd=True,
                ensure_all_finite=False,  # checked together with symmetry, in one pass
                multi_output=True,
                **options,
            )
            return (X[:, :, None] if X.ndim == 2 else X), y
        types = self._row_types(X)
        return validate_data(self, X, y, accept_sparse="csr", dtype=types, multi_output=True, **options)

    def _row_types(self, X) -> Any:
        """Return what the rows of a fit may be made of."""
        return np.float64

    def _known_types(self) -> Any:
        """Return what rows to predict may be made of."""
        return np.float64

    def _family(self, X, sample_weight, solver) -> tuple[Any, Family]:
        """Return the rows as the family needs them, and the family bound to their columns."""
        family = make_family(self.kernels, X, sample_weight, solver)
        names = getattr(self, "feature_names_in_", None)
        family = family.resolve(X.shape[2] if X.ndim == 3 else X.shape[1], names)
        return as_needed(X, family), family

    def _scale(self, X, family: Family, solver: Solver, sample_weight) -> Scale:
        """Check ready-made matrices, settle ``normalize_``, and return the scale of the kernels."""
        if family.pairwise:
            family.check_training(X)  # type: ignore[attr-defined]
        how = self.normalize
        if isinstance(how, str) and how == "auto":
            how = "base" if family.factorises and solver.prefers_base_scale else "trace"
        self.normalize_ = how
        return Scale.fit(family, X, how, sample_weight)

    def _rows(self, X):
        """Validate rows for a prediction or a transformation."""
        check_is_fitted(self)
        family = self.combination_.family
        if not family.pairwise:
            rows = validate_data(self, X, reset=False, accept_sparse="csr", dtype=self._known_types())
            return as_needed(rows, family)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32], allow_nd=True)
        X = X[:, :, None] if X.ndim == 2 else X
        if X.shape[2] != family.size():
            raise ValueError(
                f"X holds {X.shape[2]} kernels, but the model was fitted on {family.size()}; "
                "pass the shape (n, n_train, n_kernels)."
            )
        return X

    def save(self, path) -> None:
        """Write what was fitted to a file that :func:`manykernels.load` opens without running code."""
        from ..persistence import save

        save(self, path)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "combination_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = not is_pairwise(self.kernels)
        tags.input_tags.pairwise = is_pairwise(self.kernels)
        tags.input_tags.three_d_array = is_pairwise(self.kernels)
        return tags
