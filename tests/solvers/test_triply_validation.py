"""TriplyStochastic keeps the best epoch by rows held out, and says when it is no better than a constant."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Finite
from manykernels.kernels import RBF
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.solvers import TriplyStochastic
from manykernels.solvers.verdict import compare
from manykernels.streaming.stream import MemoryStream

N = 4400
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
SIGNAL = (X[:, 0] * X[:, 1] > 0).astype(int)
NOISE = RNG.integers(3, size=N)
FAMILY = Finite([RBF(0.5), RBF(1.0)]).resolve(3)
KERNELS = [RBF(0.5), RBF(1.0)]
HELD_OUT = r"mean loss of [\d.]+ on [\d,]+ rows held out, no better than the [\d.]+ of the best constant"
NEW = r"mean loss of [\d.]+ on \d+ new rows, no better than the [\d.]+ of the best constant"


def small(**options):
    return TriplyStochastic(**{"n_features": 64, "epochs": 8, "random_state": 0} | options)


class Impatient(TriplyStochastic):
    """Two epochs without a lower loss are the last, so that few epochs show what happens then."""

    def settled(self, state):
        return bool(state["waited"][0] >= 2)


def impatient(**options):
    return Impatient(**{"n_features": 64, "epochs": 8, "random_state": 0} | options)


def problem_of(labels, rows=X, s=None):
    Y = np.eye(labels.max() + 1)[labels]
    scale = Scale.fit(FAMILY, rows, "trace", s)
    return Problem(rows, Y, FAMILY, scale, get_loss("softmax"), 10.0, s)


def quietly(solver, problem):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solver.solve(problem)


class Recorder(TriplyStochastic):
    """Keeps the sums on the rows held out, epoch by epoch."""

    def validate(self, state, held_out):
        after = super().validate(replace_best(state), held_out)
        self.seen = [*getattr(self, "seen", []), after["held"][1]]
        return super().validate(state, held_out)


def replace_best(state):
    """Return the state without a best epoch, so that the next one is it."""
    return {**state, "best": state["best"][:0]}


# -- which rows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "n, count", [(3999, 0), (4000, 256), (12_800, 256), (100_000, 2000), (10**7, 8192), (None, 0)]
)
def test_a_fiftieth_is_held_out_where_that_tells_something(n, count):
    share = TriplyStochastic().held_out_share(n)
    assert share == 0 if n is None else round(share * n) == count


def test_a_share_that_is_given_is_taken():
    solver = TriplyStochastic(validation_fraction=0.1)
    assert [solver.held_out_share(n) for n in (10, 10**6, None)] == [0.1, 0.1, 0.1]


@pytest.mark.parametrize("share", [1.0, -0.1, "some", None, True, np.nan])
def test_other_shares_are_refused(share):
    with pytest.raises(
        ValueError, match=r"validation_fraction of .* is .*; use a number in \[0, 1\) or 'auto'"
    ):
        MKLClassifier(KERNELS, solver=small(validation_fraction=share), C=1.0).fit(X, SIGNAL)


def test_rows_held_out_are_in_no_epoch():
    stream = small().memory_stream(problem_of(SIGNAL))
    held = stream.held_out.n_rows
    assert held == 256
    assert stream.n_rows == stream.first.n_rows == N - held
    for k in (0, 1):
        rows = np.vstack([stream.held_out.X, *(batch.X for batch in stream.epoch(k))])
        assert_array_equal(np.sort(rows[:, 0]), np.sort(X[:, 0]))


def test_a_stream_in_order_leaves_rows_out():
    stream = MemoryStream(problem_of(SIGNAL), 1000, share=0.1)
    out = np.isin(X[:, 0], stream.held_out.X[:, 0])
    assert out.sum() == 440
    assert_array_equal(np.vstack([batch.X for batch in stream.epoch(0)]), X[~out])


def test_no_more_than_20000_rows_are_held_out():
    rows = np.zeros((100_000, 1), np.float32)
    family = Finite([RBF(0.5)]).resolve(1)
    problem = Problem(rows, rows, family, Scale.fit(family, rows, None), get_loss("squared"))
    held = MemoryStream(problem, 1000, share=0.5).held_out.n_rows
    assert held == 20_000


def test_as_many_rows_with_weight_are_held_out_as_there_would_be_without_the_others():
    s = np.zeros(3 * N)
    s[::3] = 1.0
    problem = problem_of(np.repeat(SIGNAL, 3), np.repeat(X, 3, axis=0), s)
    held = small().memory_stream(problem).held_out
    assert 180 < np.count_nonzero(held.sample_weight) < 330


def test_the_fit_is_that_of_the_other_rows():
    """The steps, n of the objective and the objective are those of a problem without the rows held out."""
    problem, solver = problem_of(SIGNAL), small(epochs=1)
    held = solver.solve(problem)
    others = np.flatnonzero(~np.isin(X[:, 0], solver.memory_stream(problem).held_out.X[:, 0]))
    alone = small(epochs=1, validation_fraction=0).solve(problem.rows(others))
    assert_array_equal(held.predictor.scores(X), alone.predictor.scores(X))
    assert held.objective == alone.objective


# -- the best epoch ------------------------------------------------------------------------------------------


def test_the_best_epoch_is_kept_and_ten_worse_ones_are_the_last():
    problem = problem_of(NOISE)
    solver = Recorder(n_features=64, epochs=40, random_state=0)
    found = quietly(solver, problem)
    best = int(np.argmin(solver.seen)) + 1
    assert found.n_iter == len(solver.seen) == best + 10 < 20  # from there on it is half of all
    assert_array_equal(found.predictor.scores(X), quietly(small(epochs=best), problem).predictor.scores(X))
    held = solver.memory_stream(problem).held_out
    loss = problem.loss.value(held.Y, found.predictor.scores(held.X)).sum()
    assert_allclose(loss, min(solver.seen))


def test_a_fit_that_learns_goes_on():
    assert small().solve(problem_of(SIGNAL)).n_iter == 8


def test_without_rows_held_out_all_epochs_are_made():
    assert quietly(small(validation_fraction=0), problem_of(NOISE)).n_iter == 8


@pytest.mark.parametrize("stop", [0, 3, 5, -1])
def test_a_fit_that_stops_early_resumes_to_the_bit(stop):
    problem, saved = problem_of(NOISE), []
    stream = replace(impatient().memory_stream(problem), size=1024)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole = impatient().solve_stream(stream, save=lambda state: saved.append(state()))
        again = impatient().solve_stream(stream, resume=saved[stop])
    assert 2 < whole.n_iter == again.n_iter < 8
    assert_array_equal(again.predictor.scores(X), whole.predictor.scores(X))
    assert again.objective == whole.objective


def test_the_epoch_does_not_depend_on_the_number_of_threads(monkeypatch):
    found = []
    for threads in "12":
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found.append(quietly(small(), problem_of(NOISE)).predictor.scores(X))
    assert_array_equal(*found)


def test_to_the_letter_the_last_epoch_is_kept_but_a_warning_given():
    solver = small(faithful=True, epochs=4, batch_size=512)
    with pytest.warns(ConvergenceWarning, match=HELD_OUT):
        found = solver.solve(problem_of(NOISE))
    assert found.n_iter == 4
    state = solver.start(problem_of(NOISE))
    stream = solver.memory_stream(problem_of(NOISE))
    state = solver.expect(state, stream.n_rows)
    for k in range(4):
        for batch in stream.epoch(k):
            state = solver.update(state, batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        last = solver.finish(state, stream.first)
    assert_array_equal(found.predictor.scores(X), last.predictor.scores(X))


# -- the warning ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_fit_of_noise_warns_with_the_figures(seed):
    rng = np.random.default_rng(seed)
    rows, labels = rng.standard_normal((5000, 4)), rng.integers(3, size=5000)
    with pytest.warns(ConvergenceWarning, match=HELD_OUT):
        MKLClassifier(KERNELS, solver=small(random_state=seed), C=1.0).fit(rows, labels)
    with pytest.warns(ConvergenceWarning, match=HELD_OUT):
        MKLRegressor(KERNELS, solver=small(random_state=seed), C=100.0).fit(rows, rng.standard_normal(5000))


def test_columns_that_are_not_standardised_warn():
    with pytest.warns(ConvergenceWarning, match=f"{HELD_OUT}.*check bandwidths and columns"):
        MKLRegressor(KERNELS, solver=small(), C=1.0).fit(1e6 * X, X[:, 0] * X[:, 1])


def test_a_fit_that_learns_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MKLClassifier(KERNELS, solver=small(), C=1.0).fit(X, SIGNAL)
        MKLRegressor(KERNELS, solver=small(), C=1.0).fit(X, X[:, 0] * X[:, 1])
        MKLRegressor(KERNELS, solver=small(), C=1.0).fit(X, np.full(N, 3.0))


def test_a_stream_holds_out_the_share_that_is_given():
    batches = [(X[a : a + 500], NOISE[a : a + 500]) for a in range(0, N, 500)]
    model = MKLClassifier(KERNELS, solver=impatient(validation_fraction=0.1), C=1.0)
    with pytest.warns(ConvergenceWarning, match=HELD_OUT):
        model.fit(batches)
    assert model.n_iter_ < 8


def test_a_stream_with_a_checkpoint_resumes_to_the_bit(tmp_path):
    def fit(**options):
        model = MKLClassifier(KERNELS, solver=impatient(validation_fraction=0.1), C=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(X, NOISE, checkpoint=tmp_path / "fit", **options)

    def interrupt(step):
        if step.iteration == 2:
            raise KeyboardInterrupt

    whole = fit()
    assert whole.n_iter_ < 8
    assert fit(on_iteration=interrupt).n_iter_ == 2
    assert (tmp_path / "fit").exists()
    again = fit()
    assert again.n_iter_ == whole.n_iter_
    assert_array_equal(again.decision_function(X), whole.decision_function(X))


# -- batches that come once ----------------------------------------------------------------------------------


def fed(model, rows, targets, size, **options):
    """Give all rows in batches, and return the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for a in range(0, len(rows), size):
            model.partial_fit(rows[a : a + size], targets[a : a + size], **options)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize("size", [1, 100])
def test_batches_of_one_class_do_not_warn(size):
    model = MKLClassifier(KERNELS, solver=small(), C=1.0)
    assert fed(model, X[:600], np.zeros(600, int), size, classes=[0, 1]) == []


def test_batches_of_one_target_do_not_warn():
    assert fed(MKLRegressor(KERNELS, solver=small(), C=1.0), X[:1000], np.full(1000, 5.0), 100) == []


@pytest.mark.parametrize("size", [50, 128, 1000])
def test_batches_that_are_learned_from_do_not_warn(size):
    assert fed(MKLClassifier(KERNELS, solver=small(), C=1.0), X, SIGNAL, size, classes=[0, 1]) == []


@pytest.mark.parametrize("size", [50, 128, 1000])
def test_batches_of_noise_warn_by_rows_before_their_steps(size):
    said = fed(MKLClassifier(KERNELS, solver=small(), C=1.0), X, NOISE, size, classes=[0, 1, 2])
    assert said
    with pytest.warns(ConvergenceWarning, match=NEW):
        warnings.warn(said[0], ConvergenceWarning, stacklevel=1)


def test_new_rows_are_scored_by_the_model_before_them():
    problem, solver = problem_of(SIGNAL), small(batch_size=100)
    state = solver.start(problem)
    state = solver.update(state, problem.rows(slice(0, 400)))
    before = solver.finish(state, problem)
    assert_array_equal(state["fresh"], 0.0)  # the last rows of a batch, after at least 256 others
    batch = problem.rows(slice(400, 500))
    after = solver.update(state, batch)
    b = np.log(problem.Y[:400].mean(axis=0))
    found = compare(problem.loss, batch.Y, before.predictor.scores(batch.X), b, np.ones(100))
    assert_allclose(after["fresh"][1], found, rtol=1e-5)


def test_a_model_is_watched_over_the_last_rows():
    problem, solver = problem_of(SIGNAL), small()
    state = solver.start(problem)
    for k in range(20):
        state = solver.update(state, problem.rows(slice(100 * k, 100 * k + 100)))
        rows = state["fresh"][:, 0].sum()
        assert rows == 0 if k < 3 else rows <= 600 and (k < 6 or rows >= 256)


def test_one_row_at_least_takes_part():
    problem = problem_of(SIGNAL).rows(slice(0, 3))
    for seed in range(10):
        stream = MemoryStream(problem, 10, seed=seed, share=0.999)
        assert stream.n_rows == 1 and stream.held_out.n_rows == 2
