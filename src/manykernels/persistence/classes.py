"""The classes that may appear in a model file: the only way from a name to a class.

To let a new class into model files, list it in the ``__all__`` of its folder; predictors and records are
listed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True)
class Classes:
    """Classes by the name that a file gives them, sorted by how an object of theirs is written.

    Attributes
    ----------
    described : by parameters and attributes, as scikit-learn's objects are
    records : by the fields of a dataclass
    predictors : by arrays and a combination
    losses : by the name alone
    names : the names of `described` and `records`, by class
    """

    described: dict[str, Any]
    records: dict[str, Any]
    predictors: dict[str, Any]
    losses: dict[str, Any]
    names: dict[type, str]


@cache
def classes() -> Classes:
    """Return the table; it is made at first use, when the whole package has been imported."""
    import manykernels

    from .. import families, kernels, solvers
    from ..combination import Combination
    from ..families.products.product_sum import ProductSum
    from ..losses import LOSSES
    from ..predictors import Dual, Primal, RandomFeature
    from ..problem import Problem, Result, Scale, Trace

    axes = {"estimators": manykernels, "families": families, "kernels": kernels, "solvers": solvers}
    described = {
        f"{axis}.{name}": getattr(module, name)
        for axis, module in axes.items()
        for name in module.__all__
        if hasattr(getattr(module, name), "get_params")
    }
    described["kernels.ProductSum"] = ProductSum
    del described["kernels.Function"]  # a callable cannot be written
    records = {cls.__name__: cls for cls in (Combination, Problem, Result, Scale, Trace)}
    return Classes(
        described=described,
        records=records,
        predictors={cls.kind: cls for cls in (Dual, Primal, RandomFeature)},
        losses=dict(LOSSES),
        names={cls: name for name, cls in {**described, **records}.items()},
    )
