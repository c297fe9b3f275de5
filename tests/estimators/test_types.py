"""What a type checker and an editor know of the public surface."""

import inspect
import re

import pytest

import manykernels
from manykernels import AlignedKernel, MKLClassifier, MKLOutlier, MKLRegressor, MKLSurvival

GOOD = """
import numpy as np
from manykernels import AlignedKernel, MKLClassifier, MKLRegressor, load
from manykernels.combination import Combination
from manykernels.families import Products
from manykernels.kernels import RBF
from manykernels.solvers import LpNorm

X, y = np.zeros((4, 2)), np.arange(4) % 2
fitted: MKLClassifier = MKLClassifier([RBF(1.0)], solver=LpNorm(p=1.2), C=10).fit(X, y)
more: MKLRegressor = MKLRegressor(Products(degree=2), solver="greedy", normalize=None).partial_fit(X, y)
labels: np.ndarray = fitted.predict(X)
shares: np.ndarray = fitted.predict_proba(X)
kernel: Combination = fitted.combination_
gap: float = fitted.gap_
opened: MKLClassifier | MKLRegressor | AlignedKernel = load("model.mk")
"""
BAD = {
    "MKLClassifier(solver=3)": '"solver"',
    'MKLClassifier(C="x")': '"C"',
    'MKLRegressor(normalize="traces")': '"normalize"',
    "MKLRegressor(class_weight=None)": '"class_weight"',
    "AlignedKernel(target=1)": '"target"',
    "MKLClassifier().fit(X, y, chekpoint=None)": '"chekpoint"',
    "MKLClassifier().partial_fit(X, z=y)": '"z"',
    "MKLClassifier().fit(X, y).combination_.tabel()": '"tabel"',
    "load(3)": '"load"',
}


@pytest.mark.timeout(300)  # the first run of mypy on a machine reads all stubs
def test_a_type_checker_accepts_what_is_right_and_rejects_what_is_wrong(tmp_path):
    api = pytest.importorskip("mypy.api")
    wrong = "\n".join(BAD)
    (tmp_path / "use.py").write_text(f"{GOOD}\n{wrong}\n")
    options = ["--ignore-missing-imports", "--no-error-summary", "--cache-dir", str(tmp_path / "cache")]
    said, _, _ = api.run([*options, str(tmp_path / "use.py")])
    first = GOOD.count("\n") + 2
    errors = {int(line.split(":")[1]): line for line in said.splitlines() if ": error:" in line}
    assert sorted(errors) == list(range(first, first + len(BAD))), said
    for number, named in enumerate(BAD.values(), first):
        assert named in errors[number]


def described(thing):
    """Return the parameters of a numpydoc docstring, by name, with what it says of each."""
    text = inspect.getdoc(thing)
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+$|\Z)", text, flags=re.S | re.M)[1]
    entries = re.findall(r"^(\w[\w, ]*) : ([^\n]*\n(?:(?: [^\n]*)?\n)*)", section.rstrip() + "\n", flags=re.M)
    return {name: said for names, said in entries for name in names.split(", ")}


@pytest.mark.parametrize("estimator", [MKLClassifier, MKLRegressor, MKLSurvival, MKLOutlier, AlignedKernel])
def test_docstrings_name_the_parameters_there_are(estimator):
    assert set(described(estimator)) == set(inspect.signature(estimator).parameters)
    for name in ("fit", "partial_fit"):
        method = getattr(estimator, name, None)
        if method is not None:
            assert list(described(method)) == list(inspect.signature(method).parameters)[1:]


def test_parameters_that_estimators_share_are_described_alike():
    for thing in (lambda c: c, lambda c: c.fit, lambda c: c.partial_fit):
        one, other = described(thing(MKLClassifier)), described(thing(MKLRegressor))
        for name in (set(one) & set(other)) - {"y"}:
            assert one[name] == other[name]


def test_a_tab_shows_the_public_names_of_the_package():
    assert dir(manykernels) == sorted([*manykernels.__all__, *manykernels._ROOMS])
    for name in dir(manykernels):
        getattr(manykernels, name)
