"""Numbers that leave the range of floats on the way: a sentence, and what users compute themselves is their affair."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.campaigns.trials import check_sentence

from manykernels import AlignedKernel, MKLClassifier, MKLRegressor
from manykernels._util import threads
from manykernels.families import Gaussians, Laplacians, Products, Union
from manykernels.kernels import Function, Linear, Polynomial
from manykernels.solvers import Blockwise, Greedy, GreedyAlignment, LpNorm

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
y = X[:, 0] * X[:, 1]
FITS = {
    "alignment": (lambda: Union([Laplacians(), Linear()]), GreedyAlignment),
    "powers": (lambda: [Polynomial(3), Polynomial(2), Linear()], LpNorm),
    "products": (lambda: Products(4), Greedy),
    "bandwidths": (Gaussians, lambda: Greedy(max_kernels=2, random_state=0)),
    "default": (lambda: "auto", lambda: "auto"),
}


@settings(max_examples=40)
@given(
    st.sampled_from(sorted(FITS)),
    st.integers(-300, 300),
    st.integers(-300, 300),
    st.integers(-300, 300),
    st.sampled_from([None, "trace"]),
)
def test_a_fit_is_a_finite_model_or_a_sentence_at_any_scale(name, rows, targets, weights, normalize):
    kernels, solver = FITS[name]
    model = MKLRegressor(kernels(), solver=solver(), C=1.0, normalize=normalize)
    Z, s = X * 10.0 ** np.array([rows, rows / 2]), 10.0 ** (weights * np.linspace(0, 1, len(X)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", RuntimeWarning)
        try:
            model.fit(Z, y * 10.0**targets, sample_weight=s)
            F = model.predict(Z)
        except ValueError as error:
            check_sentence(str(error))
            return
    assert np.isfinite(F).all()


def overflowing():
    model = MKLRegressor(Union([Laplacians(), Linear()]), solver=GreedyAlignment(), C=1.0, normalize=None)
    return model, 1e90 * X


def test_an_overflow_in_a_fit_is_a_sentence_and_leaves_the_model_as_it_was():
    model, vast = overflowing()
    known = model.fit(X, y).predict(X)
    with pytest.raises(ValueError, match=r"too extreme to compute with .*; rescale X, y and weights"):
        model.fit(vast, y)
    np.testing.assert_array_equal(model.predict(X), known)


def test_an_overflow_in_a_prediction_is_a_sentence():
    model = MKLRegressor([Polynomial(6), Linear()], solver=LpNorm(), C=1.0).fit(X, y)
    for method in (model.predict, model.contributions):
        with pytest.raises(ValueError, match="beside those that the model has learned from"):
            method(1e80 * X)


def test_an_overflow_of_a_kernel_alone_is_a_sentence():
    kernel = AlignedKernel(Union([Laplacians(), Linear()]), solver=GreedyAlignment(), normalize=None)
    with pytest.raises(ValueError, match="too extreme"):
        kernel.fit(1e90 * X, y)


def test_threads_do_about_overflow_what_the_caller_asked_for(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        threads.map_in_threads(lambda a: np.float64(a) * 1e300, [1e300, 1e300, 1.0])


# -- what users compute --------------------------------------------------------------------------------


def half(A, B):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.nan_to_num(np.exp(-(A @ B.T) * np.inf)) * 0.0 + A @ B.T


def test_a_users_kernel_may_overflow_on_its_way():
    model = MKLRegressor([Function(half), Linear()], solver=LpNorm(), C=1.0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_a_users_callback_may_divide_by_zero():
    seen = []

    def watch(step):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen.append(np.log10(np.zeros(1)))

    MKLRegressor([Linear(), Linear([0])], solver=LpNorm(), C=1.0).fit(X, y, on_iteration=watch)
    assert seen


def test_a_users_batches_may_divide_by_zero():
    def batches():
        for _ in range(3):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield X + 0.0 * np.nan_to_num(1.0 / np.zeros(2), posinf=0.0), y > 0

    class Rows:
        def __iter__(self):
            return batches()

    solver = Blockwise(grids=8, sweeps=1, random_state=0)
    assert MKLClassifier(Laplacians(), solver=solver, C=1.0).fit(Rows()).score(X, y > 0) > 0.5
