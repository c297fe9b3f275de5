"""What estimators do with the rows they are given."""

from __future__ import annotations

from contextlib import contextmanager

import scipy.sparse as sp

from .families import Family

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
