"""The conjugate of the softmax at coefficients that are tiny beside C."""

import math

import numpy as np
import pytest

from manykernels.losses import Softmax


@pytest.mark.parametrize("u", [1e-3, 1e-9, 1e-14, 1e-20])
def test_a_small_coefficient_of_the_right_class_keeps_its_digits(u):
    Y, U = np.array([[1.0, 0.0, 0.0]]), np.array([[-u, 0.75 * u, 0.25 * u]])
    wrong = 0.75 * u * math.log(0.75 * u) + 0.25 * u * math.log(0.25 * u)
    right = (1.0 - u) * math.log1p(-u)
    # Of -u itself, which is a fiftieth of the sum at most, no digit may be lost.
    assert Softmax().conjugate(Y, U)[0] == pytest.approx(wrong + right, rel=1e-14, abs=0.0)
    assert Softmax().conjugate(Y, U)[0] != pytest.approx(wrong, rel=1e-3, abs=0.0)
