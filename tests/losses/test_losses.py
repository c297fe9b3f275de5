"""Every loss through the same contract."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from sklearn.base import clone

from manykernels.losses import LOSSES, EpsilonInsensitive, Hinge, Huber, Poisson, Quantile, Squared, get_loss
from manykernels.losses.base import project_coupled, project_simplex, weighted_quantile

NAMES = list(LOSSES)
SMOOTH = [name for name, loss in LOSSES.items() if loss.smooth]


def targets(loss, n, c, rng):
    if loss.multiclass:
        return np.eye(c)[rng.integers(0, c, n)]
    if loss.name == "poisson":
        return rng.poisson(1.5, size=(n, c)).astype(float)
    if loss.regression:
        return rng.normal(size=(n, c))
    return rng.choice([-1.0, 1.0], size=(n, c))


def case(name, seed=0, n=30, c=3, size=2.0):
    rng = np.random.default_rng(seed)
    loss = get_loss(name)
    return loss, targets(loss, n, c, rng), size * rng.normal(size=(n, c)), rng


scores = arrays(np.float64, (4, 3), elements=st.floats(-20, 20))
seeds = st.integers(0, 50)


@pytest.mark.parametrize("name", NAMES)
def test_gradient_is_the_numeric_derivative(name):
    loss, Y, F, _ = case(name)
    h = 1e-6
    for k in range(F.shape[1]):
        E = np.zeros_like(F)
        E[:, k] = h
        numeric = (loss.value(Y, F + E) - loss.value(Y, F - E)) / (2 * h)
        np.testing.assert_allclose(loss.gradient(Y, F)[:, k], numeric, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(F=scores, U=scores, seed=seeds)
def test_fenchel_young_inequality(name, F, U, seed):
    loss = get_loss(name)
    Y = targets(loss, *F.shape, np.random.default_rng(seed))
    U = loss.feasible(Y, U)
    total = loss.value(Y, F) + loss.conjugate(Y, U)
    assert np.all(total >= np.sum(U * F, axis=1) - 1e-9)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(F=scores, seed=seeds)
def test_fenchel_young_equality_at_the_gradient(name, F, seed):
    loss = get_loss(name)
    Y = targets(loss, *F.shape, np.random.default_rng(seed))
    U = loss.gradient(Y, F)
    total = loss.value(Y, F) + loss.conjugate(Y, U)
    np.testing.assert_allclose(total, np.sum(U * F, axis=1), atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(F=scores, G=scores, share=st.floats(0, 1), seed=seeds)
def test_value_is_convex(name, F, G, share, seed):
    loss = get_loss(name)
    Y = targets(loss, *F.shape, np.random.default_rng(seed))
    between = loss.value(Y, share * F + (1 - share) * G)
    above = share * loss.value(Y, F) + (1 - share) * loss.value(Y, G)
    assert np.all(between <= above + 1e-9 + 1e-14 * above)  # exponentials of 20 have no 1e-9 to lose


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(U=scores, seed=seeds)
def test_feasible_points_have_a_finite_conjugate_and_stay(name, U, seed):
    loss = get_loss(name)
    Y = targets(loss, *U.shape, np.random.default_rng(seed))
    P = loss.feasible(Y, U)
    assert np.all(np.isfinite(loss.conjugate(Y, P)))
    np.testing.assert_allclose(loss.feasible(Y, P), P, atol=1e-13)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "squared"])
def test_conjugate_is_infinite_outside_its_domain(name):
    loss, Y, _, _ = case(name)
    outside = Y.copy() if not loss.multiclass else np.ones_like(Y)
    if loss.regression:
        outside = np.full_like(Y, -2.0) - (Y if name == "poisson" else 0.0)
    assert np.all(np.isinf(loss.conjugate(Y, outside)))


@pytest.mark.parametrize("name", NAMES)
def test_extreme_scores_stay_finite(name):
    loss, Y, _, _ = case(name, n=4)
    for size in (1e3, 1e100, -1e100):
        F = size * np.array([[1.0, -1.0, 0.0]] * 4)
        assert np.all(np.isfinite(loss.value(Y, F)))
        assert np.all(np.isfinite(loss.gradient(Y, F)))
    assert np.all(np.isfinite(loss.value(Y, np.zeros((4, 3)))))


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_confident_rows_keep_their_tiny_loss(name):
    loss = get_loss(name)
    Y = np.array([[1.0, 0.0]]) if loss.multiclass else np.array([[1.0]])
    F = np.array([[50.0, 0.0]]) if loss.multiclass else np.array([[50.0]])
    assert loss.value(Y, F)[0] == pytest.approx(np.exp(-50.0), rel=1e-10)
    assert -loss.gradient(Y, F)[0, 0] == pytest.approx(np.exp(-50.0), rel=1e-10)


def test_softmax_is_the_logarithm_of_a_sum_at_all_scales():
    rng = np.random.default_rng(0)
    Y = np.eye(5)[rng.integers(5, size=400)]
    F = rng.standard_normal((400, 5)) * 10.0 ** rng.integers(-3, 4, size=(400, 1))
    F[:20] = F[:20, :1]  # ties
    right = np.sum(Y * F, axis=1, keepdims=True)
    # Pair by pair: SciPy's logsumexp loses the tiny ones before version 1.15.
    assert_allclose(get_loss("softmax").value(Y, F), np.logaddexp.reduce(F - right, axis=1), rtol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_losses_pickle_and_equal_their_kind(name):
    loss = get_loss(name)
    again = pickle.loads(pickle.dumps(loss))
    assert again == loss and hash(again) == hash(loss)
    assert all((loss == get_loss(other)) is (other == name) for other in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_read_only_and_memory_mapped_arrays_are_accepted(name, tmp_path):
    loss, Y, F, _ = case(name)
    expected = [loss.value(Y, F), loss.gradient(Y, F), loss.conjugate(Y, F), loss.feasible(Y, F)]
    mapped = []
    for label, array in (("Y", Y), ("F", F)):
        np.save(tmp_path / f"{label}.npy", array)
        mapped.append(np.load(tmp_path / f"{label}.npy", mmap_mode="r"))
    for method, value in zip(("value", "gradient", "conjugate", "feasible"), expected, strict=True):
        np.testing.assert_array_equal(getattr(loss, method)(*mapped), value)


@pytest.mark.parametrize("name", NAMES)
def test_flags_agree_with_behaviour(name):
    loss, Y, F, _ = case(name)
    if loss.probabilistic:
        P = loss.probabilities(F)
        assert np.all((P >= 0) & (P <= 1))
        if loss.multiclass:
            np.testing.assert_allclose(P.sum(axis=1), 1.0)
    else:
        with pytest.raises(AttributeError, match="no probabilities"):
            loss.probabilities(F)
    if not loss.multiclass:
        each = sum(loss.value(Y[:, [k]], F[:, [k]]) for k in range(3))
        np.testing.assert_allclose(loss.value(Y, F), each)


def test_codes_are_distinct():
    codes = [loss.code for loss in LOSSES.values() if loss.code >= 0]
    assert len(set(codes)) == len(codes) == 6


def test_get_loss_takes_names_and_instances():
    assert get_loss("hinge") == Hinge()
    loss = Squared()
    assert get_loss(loss) is loss


@pytest.mark.parametrize("wrong", ["hinges", 3, None])
def test_an_unknown_loss_is_named_with_the_options(wrong):
    with pytest.raises(ValueError, match=r"loss=.*is not a loss; choose one of 'squared'.*softmax"):
        get_loss(wrong)


@settings(max_examples=60, deadline=None)
@given(Q=scores, radius=st.floats(1e-3, 100))
def test_simplex_projection_satisfies_its_variational_inequality(Q, radius):
    P = project_simplex(Q, radius)
    np.testing.assert_allclose(P.sum(axis=1), radius, rtol=1e-10)
    assert np.all(P >= 0)
    best_vertex = radius * np.max(Q - P, axis=1)
    assert np.all(best_vertex <= np.sum((Q - P) * P, axis=1) + 1e-8 * (1 + radius) ** 2)


@settings(max_examples=60, deadline=None)
@given(A=scores, radius=st.floats(1e-3, 100), seed=seeds)
def test_coupled_projection_is_the_simplex_projection(A, radius, seed):
    Y = np.eye(3)[np.random.default_rng(seed).integers(0, 3, 4)]
    expected = radius * Y - project_simplex(radius * Y - A, radius)
    np.testing.assert_allclose(project_coupled(Y, A, radius), expected, atol=1e-11)


def test_coupled_projection_keeps_small_rows_against_a_huge_radius():
    Y = np.array([[1.0, 0.0, 0.0]])
    A = np.array([[3e-6, -1e-6, -2e-6]])
    np.testing.assert_allclose(project_coupled(Y, A, 1e12), A, rtol=1e-14)


# -- losses with parameters, and offsets -----------------------------------------------------------------

NUMBERS = [name for name, loss in LOSSES.items() if loss.regression]
OTHERS = [EpsilonInsensitive(0.7), Huber(0.3), Quantile(0.9), Quantile(0.05), Poisson(2.5)]


@pytest.mark.parametrize("loss", OTHERS, ids=str)
def test_other_parameters_keep_the_contract(loss):
    _, Y, F, rng = case(loss, size=1.0)
    h = 1e-6
    for k in range(3):
        E = h * np.eye(3)[[k] * len(F)]
        numeric = (loss.value(Y, F + E) - loss.value(Y, F - E)) / (2 * h)
        assert_allclose(loss.gradient(Y, F)[:, k], numeric, atol=1e-7)
    G = loss.gradient(Y, F)
    assert_allclose(loss.value(Y, F) + loss.conjugate(Y, G), np.sum(G * F, axis=1), atol=1e-9)
    U = loss.feasible(Y, 3 * rng.normal(size=Y.shape))
    assert np.isfinite(loss.conjugate(Y, U)).all()
    assert np.all(loss.value(Y, F) + loss.conjugate(Y, U) >= np.sum(U * F, axis=1) - 1e-9)


def test_losses_are_equal_with_equal_parameters():
    assert Quantile(0.9) == Quantile(0.9) != Quantile(0.8)
    assert Poisson(np.array([1.0, 2.0])) == Poisson(np.array([1.0, 2.0])) != Poisson(np.array([1.0, 3.0]))
    assert repr(Quantile(0.9)) == "Quantile(q=0.9)" and repr(Hinge()) == "Hinge()"
    assert clone(Huber(2.0)) == Huber(2.0) and Huber().set_params(delta=3.0) == Huber(3.0)


@pytest.mark.parametrize(
    "wrong, words",
    [
        (Quantile(1.0), r"q of Quantile is 1.0; use a number in \(0, 1\)"),
        (Quantile("high"), "q of Quantile is 'high'"),
        (Huber(0.0), "delta of Huber is 0.0; use a positive finite number"),
        (EpsilonInsensitive(-1.0), "epsilon of EpsilonInsensitive is -1.0"),
        (
            Poisson(0.0),
            "mean of Poisson is 0.0; use a positive finite number or one for every output or None",
        ),
    ],
    ids=str,
)
def test_a_parameter_that_makes_no_sense_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        get_loss(wrong)


@pytest.mark.parametrize("name", NUMBERS)
def test_the_offset_is_the_middle_and_a_weight_a_repetition(name):
    loss, Y, _, rng = case(name, n=31)
    s = rng.integers(0, 4, 31).astype(float)
    offset = loss.offset(Y, s)
    assert_allclose(offset, loss.offset(np.repeat(Y, s.astype(int), axis=0), np.ones(int(s.sum()))))
    if name in ("huber", "epsilon_insensitive"):  # the median, which is the best constant of neither
        return
    for move in (1e-3, -1e-3, 0.3, -0.3):
        here, there = (np.broadcast_to(b, Y.shape) for b in (offset, offset + move))
        assert s @ loss.value(Y, here) <= s @ loss.value(Y, there) + 1e-12


@pytest.mark.parametrize("name", NUMBERS)
def test_scores_about_the_offset_have_the_same_loss(name):
    loss, Y, F, _ = case(name)
    offset = np.array([0.3, -0.2, 1.0])
    inner, T = loss.about(offset, Y)
    assert_allclose(inner.value(T, F), loss.value(Y, F + offset), rtol=1e-12)
    assert_allclose(inner.output(1).value(T[:, [1]], F[:, [1]]), loss.value(Y[:, [1]], (F + offset)[:, [1]]))
    if name == "poisson":
        assert T is Y  # counts are never centred


def test_weighted_quantiles_take_the_middle_of_what_is_as_good():
    y = np.array([[4.0], [1.0], [3.0], [2.0]])
    ones = np.ones(4)
    assert weighted_quantile(y, ones, 0.5) == [2.5]
    assert weighted_quantile(y, ones, 0.6) == [3.0]
    assert weighted_quantile(y, np.array([0.0, 1.0, 1.0, 0.0]), 0.5) == [2.0]


def test_the_poisson_loss_of_vast_counts_keeps_its_digits():
    y, f = np.full((3, 1), 1e15), np.array([[0.0], [1e-4], [-1e-3]])
    loss = get_loss("poisson").about(np.array([np.log(1e15)]), y)[0]
    t = f + np.log(loss.mean / y)
    assert_allclose(
        loss.value(y, f), (1e15 * (t**2 / 2 + t**3 / 6 + t**4 / 24)).ravel(), rtol=1e-6, atol=1e-9
    )
    gap = loss.value(y, f) + loss.conjugate(y, loss.gradient(y, f)) - (loss.gradient(y, f) * f).sum(axis=1)
    assert (np.abs(gap) <= 1e-6 * loss.value(y, f) + 1e-3).all()
