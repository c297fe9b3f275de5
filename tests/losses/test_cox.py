"""The partial likelihood against its definition, and its dual against Fenchel and Young."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from manykernels.losses import Cox, get_loss

RNG = np.random.default_rng(0)
TIES = ["breslow", "efron"]
every_case = pytest.mark.parametrize("ties, tied", [(ties, tied) for ties in TIES for tied in (False, True)])


def case(tied, n=25):
    time = RNG.exponential(size=n) + 0.1
    time = np.ceil(3 * time) if tied else time
    return np.where(RNG.random(n) < 0.6, time, -time)[:, None], RNG.exponential(size=n)


def by_definition(y, f, w, ties):
    total, event = 0.0, y > 0
    for t in np.unique(y[event]):
        at_risk, tied = np.abs(y) >= t, event & (y == t)
        d, m, e = w[tied].sum(), tied.sum(), w * np.exp(f)
        if ties == "breslow":
            total += d * np.log(e[at_risk].sum() / d)
        else:
            total += sum(
                d / m * np.log((e[at_risk].sum() - k / m * e[tied].sum()) / (d / m)) for k in range(m)
            )
        total -= w[tied] @ f[tied]
    return total


@every_case
def test_it_is_its_definition_with_numeric_derivatives(ties, tied):
    loss, (Y, w), f = Cox(ties), case(tied), 2 * RNG.normal(size=25)
    assert loss.total(Y, f[:, None], w) == pytest.approx(by_definition(Y[:, 0], f, w, ties))
    h, E = 1e-6, np.eye(25)
    slopes = [loss.total(Y, (f + h * e)[:, None], w) - loss.total(Y, (f - h * e)[:, None], w) for e in E]
    assert_allclose(loss.response(Y, f[:, None], w)[:, 0], -np.array(slopes) / (2 * h), atol=1e-6)
    curves = [
        loss.response(Y, (f - h * e)[:, None], w) - loss.response(Y, (f + h * e)[:, None], w) for e in E
    ]
    assert_allclose(loss.risk_sets(Y, w).curve(f)(E), np.array(curves)[:, :, 0] / (2 * h), atol=1e-6)


@every_case
def test_fenchel_and_young_meet_at_the_response(ties, tied):
    loss, (Y, w) = Cox(ties), case(tied)
    for _ in range(10):
        F, G = 3 * RNG.normal(size=(2, 25, 1))
        A, B = loss.response(Y, F, w), loss.nearest(Y, RNG.normal(size=(25, 1)), w)
        assert loss.total(Y, F, w) + loss.total_conjugate(Y, A, w) == pytest.approx(-np.vdot(A, F), abs=1e-9)
        assert loss.total(Y, F, w) + loss.total_conjugate(Y, B, w) >= -np.vdot(B, F) - 1e-9
        assert loss.total(Y, F, w) >= 0.0 and abs(A.sum()) <= 1e-12
        middle = loss.total(Y, (F + G) / 2, w)
        assert middle <= (loss.total(Y, F, w) + loss.total(Y, G, w)) / 2 + 1e-9
    assert np.isinf(loss.total_conjugate(Y, 3.0 * A, w)) and np.isinf(loss.total_conjugate(Y, A + 1.0, w))


@every_case
def test_the_supremum_of_the_conjugate_is_reached(ties, tied):
    """A feasible point that is no response of any scores, on the border of the domain, is approached by some."""
    loss, (Y, w) = Cox(ties), case(tied, n=8)
    B = loss.nearest(Y, 5 * RNG.normal(size=(8, 1)), w)
    from scipy.optimize import minimize

    found = minimize(
        lambda f: loss.total(Y, f[:, None], w) + B[:, 0] @ f,
        np.zeros(8),
        jac=lambda f: B[:, 0] - loss.response(Y, f[:, None], w)[:, 0],
        method="BFGS",
        options={"gtol": 1e-6, "maxiter": 2000},
    )
    assert loss.total_conjugate(Y, B, w) == pytest.approx(-found.fun, abs=1e-4)  # scores go to infinity


@every_case
def test_the_nearest_point_satisfies_its_variational_inequality(ties, tied):
    loss, (Y, w) = Cox(ties), case(tied)
    for _ in range(10):
        P = 2 * RNG.normal(size=(25, 1))
        B = loss.nearest(Y, P, w)
        assert np.isfinite(loss.total_conjugate(Y, B, w))
        assert_allclose(loss.nearest(Y, B, w), B, atol=1e-12)
        for _ in range(10):
            other = loss.nearest(Y, 5 * RNG.normal(size=(25, 1)), w)
            assert np.vdot(P - B, other - B) <= 1e-9


def test_a_weight_is_a_repetition_with_breslow_and_a_unit_changes_nothing():
    loss, (Y, _), F = Cox(), case(True), RNG.normal(size=(25, 1))
    s = RNG.integers(1, 4, 25)
    repeated = [np.repeat(part, s, axis=0) for part in (Y, F)]
    assert loss.total(Y, F, s * 1.0) == pytest.approx(loss.total(*repeated, np.ones(s.sum())))
    for ties in TIES:
        one, other = Cox(ties).total(Y, F, s * 1.0), Cox(ties).total(7.0 * Y, F + 3.0, 5.0 * s)
        assert other == pytest.approx(5.0 * one)


def test_extreme_scores_and_rows_without_events_stay_finite():
    Y, w = case(True)
    for ties in TIES:
        for F in (1e3 * RNG.normal(size=(25, 1)), 1e100 * np.eye(25)[:, :1]):
            loss = Cox(ties)
            assert np.isfinite(loss.total(Y, F, w)) and np.isfinite(loss.response(Y, F, w)).all()
            assert np.isfinite(loss.risk_sets(Y, w).curve(F[:, 0])(np.eye(25))).all()
        assert Cox(ties).total(-np.abs(Y), F, w) == 0.0 and not Cox(ties).response(-np.abs(Y), F, w).any()
        assert Cox(ties).total_conjugate(-np.abs(Y), np.zeros((25, 1)), w) == 0.0


def test_it_is_a_loss_like_others():
    assert get_loss(Cox("efron")) == Cox("efron") != Cox() and clone(Cox("efron")).ties == "efron"
    with pytest.raises(ValueError, match="ties of Cox is 'exact'; use 'breslow' or 'efron'"):
        get_loss(Cox("exact"))
    with pytest.raises(ValueError, match="y holds a zero"):
        Cox().check_targets(np.zeros((3, 1)))
    Y, w = case(False)
    assert (Cox().residuals(Y, w)[Y < 0] <= 0).all() and np.isfinite(Cox().residuals(Y, w)).all()


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("w", [1e-8, 1.0, 1e8])
def test_small_losses_have_all_their_digits(ties, w):
    """An order that is nearly certain: what is left are exponentials, of far apart scores beside 1."""
    Y, f = np.array([1.0, -1.0, 2.0, 2.0, 3.0, -4.0])[:, None], np.array([90.0, 2.0, 45.0, 45.0, 9.0, -30.0])
    e, last = np.exp(f - 45), np.log1p(np.exp(-39.0))
    first = np.log1p(e[1:].sum() / e[0])
    rest = e[4] + e[5]
    both = 2 * np.log1p(rest / 2) if ties == "breslow" else np.log1p(rest / 2) + np.log1p(rest) + np.log(2)
    found = Cox(ties).total(Y, (f + 1e3)[:, None], np.full(6, w))
    assert found == pytest.approx(w * (first + both + last), rel=1e-12)


@pytest.mark.parametrize("ties", TIES)
def test_the_unit_of_the_weights_costs_the_conjugate_no_digits(ties):
    Y, w = case(True)
    A = Cox(ties).response(Y, np.sin(Y), w)
    one, other = Cox(ties).total_conjugate(Y, A, w), Cox(ties).total_conjugate(Y, 1e12 * A, 1e12 * w)
    assert other == pytest.approx(1e12 * one, rel=1e-13)
    sizes = Cox(ties).conjugate_size(Y, A, w), Cox(ties).conjugate_size(Y, 1e12 * A, 1e12 * w)
    assert sizes[1] == pytest.approx(1e12 * sizes[0], rel=0.1) and sizes[0] > abs(one)
