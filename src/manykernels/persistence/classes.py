"""The classes that may appear in a model file: the only way from a name to a class.

A table of dotted names, so that nothing is imported before a file asks for it. To let a new class into model files,
list it here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

#: How an object is written: by parameters and attributes, as scikit-learn's objects are; by the fields of a
#: dataclass; by arrays and a combination; by name and parameters.
Kind = Literal["object", "record", "predictor", "loss"]


def _all_of(module: str, *names: str, axis: str | None = None) -> dict[str, str]:
    """Return the entries of classes that a file calls ``axis.Name``."""
    return {f"{axis or module}.{name}": f"manykernels.{module}:{name}" for name in names}


#: Where to find a class, by how it is written and the name that a file gives it.
CLASSES: dict[Kind, dict[str, str]] = {
    "object": {
        **_all_of(
            "estimators", "AlignedKernel", "MKLClassifier", "MKLOutlier", "MKLRegressor", "MKLSurvival"
        ),
        **_all_of("families", "Dirichlets", "Finite", "Gaussians", "Laplacians", "Precomputed", "Products"),
        **_all_of("families", "Union"),
        **_all_of("families.view", "View", axis="families"),
        **_all_of("solvers", "LeaveOneOut"),
        **_all_of("kernels", "Constant", "Dirichlet", "Laplacian", "Linear", "Pairwise", "Polynomial", "RBF"),
        **_all_of("families.products.product_sum", "ProductSum", axis="kernels"),
        **_all_of("solvers", "Alignment", "Blockwise", "Greedy", "GreedyAlignment", "LpNorm"),
        **_all_of("solvers", "HessianMKL", "Hierarchical"),
        **_all_of("solvers", "MirrorDescent", "Obscure", "PolynomialMKL", "SILP", "SimpleMKL", "Single"),
        **_all_of("solvers", "TriplyStochastic", "Ufo", "Uniform"),
    },
    "record": {
        "Columns": "manykernels.tables:Columns",
        "Combination": "manykernels.combination:Combination",
        "Problem": "manykernels.problem:Problem",
        "Result": "manykernels.problem:Result",
        "Scale": "manykernels.problem:Scale",
        "Stack": "manykernels.tables.stacks:Stack",
        "ViewColumns": "manykernels.tables:ViewColumns",
        "TargetCombination": "manykernels.combination:TargetCombination",
        "Trace": "manykernels.problem:Trace",
    },
    "predictor": {
        "dual": "manykernels.predictors:Dual",
        "per_target": "manykernels.predictors:PerTarget",
        "primal": "manykernels.predictors:Primal",
        "random_feature": "manykernels.predictors:RandomFeature",
    },
    "loss": {
        "cox": "manykernels.losses:Cox",
        "epsilon_insensitive": "manykernels.losses:EpsilonInsensitive",
        "hinge": "manykernels.losses:Hinge",
        "huber": "manykernels.losses:Huber",
        "logistic": "manykernels.losses:Logistic",
        "max_hinge": "manykernels.losses:MaxHinge",
        "one_class": "manykernels.losses:OneClass",
        "ordinal": "manykernels.losses:Ordinal",
        "poisson": "manykernels.losses:Poisson",
        "quantile": "manykernels.losses:Quantile",
        "softmax": "manykernels.losses:Softmax",
        "squared": "manykernels.losses:Squared",
        "squared_hinge": "manykernels.losses:SquaredHinge",
    },
}


def class_of(kind: Kind, name: str) -> Any:
    """Return the class that a file calls `name`."""
    module, attribute = CLASSES[kind][name].split(":")
    return getattr(import_module(module), attribute)


def name_of(cls: type) -> tuple[Kind, str] | None:
    """Return how an object of a class is written, and by which name; None if it is none of ours."""
    for kind, table in CLASSES.items():
        for name, place in table.items():
            if place.endswith(f":{cls.__name__}") and class_of(kind, name) is cls:
                return kind, name
    return None
