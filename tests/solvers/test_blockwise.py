"""Blockwise: its optimum, its certificate, its independence of threads and files, streams, and bad input."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

import manykernels
from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Gaussians, Laplacians
from manykernels.kernels import RBF, Laplacian, Linear
from manykernels.losses import get_loss
from manykernels.persistence.checkpoint import Checkpoint
from manykernels.problem import Problem, Scale
from manykernels.registry import bound_family
from manykernels.solvers import Blockwise, LpNorm
from manykernels.solvers.blockwise import online
from manykernels.solvers.blockwise.plan import passes
from manykernels.solvers.blockwise.rows import RowStore, Sizes
from manykernels.solvers.blockwise.run import SweepRun
from manykernels.solvers.calibration import fit_calibration, probabilities
from manykernels.solvers.stream_run import run_to_end
from manykernels.streaming.stream import MemoryStream

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 4))
Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 2] ** 2])
S = RNG.random(300) + 0.1


def plain(**params):
    """A solver without a hold-out, so that the objective is about all rows."""
    return Blockwise(
        **{"validation_fraction": 0.0, "random_state": 0, "bins": 256, "grids": 8, "n_features": 64, **params}
    )


def small(**params):
    """A solver with the defaults but for its size."""
    return Blockwise(random_state=0, grids=64, n_features=512, **params)


def problem(kernels, rows=slice(None), C=2.0):
    family = bound_family(kernels, X[rows], S[rows])
    return Problem(
        X[rows], Y[rows], family, Scale.fit(family, X, "trace", S), get_loss("squared"), C, S[rows]
    )


def explicit(model, rows):
    """The features of a fitted model, scaled so that their inner products estimate the kernel."""
    maps = model.result_.predictor._maps()
    blocks = model.result_.predictor.blocks
    return [
        np.hstack([m.block(b).transform(rows) for b in range(n)]).astype(float) / np.sqrt(n)
        for m, n in zip(maps, blocks, strict=True)
    ]


# -- the optimum ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [Laplacian(4.0), RBF(2.0), Linear()], ids=["binning", "fourier", "exact"])
def test_many_sweeps_end_at_ridge_regression_on_the_features(kernel):
    C = 0.5
    solver = plain(sweeps=150, certify=True, block=16)
    model = MKLRegressor(kernels=[kernel], solver=solver, C=C, normalize=None).fit(X, Y, sample_weight=S)
    Z = np.column_stack([*explicit(model, X), np.ones(len(X))])
    centred = Y - np.average(Y, axis=0, weights=S)
    W = np.linalg.solve(Z.T @ (S[:, None] * Z) + np.eye(Z.shape[1]) / C, Z.T @ (S[:, None] * centred))
    R = centred - Z @ W
    optimum = (0.5 * float(S @ (R**2).sum(axis=1)) + 0.5 * np.sum(W**2) / C) / len(X)
    assert model.gap_kind_ == "features"
    # Residuals are in single precision: 1e-5 of the objective is what they can certify.
    assert_allclose(model.objective_, optimum, rtol=1e-5)
    assert model.gap_ <= 2e-5 * optimum and model.converged_
    assert_allclose(model.predict(X), np.average(Y, axis=0, weights=S) + Z @ W, atol=2e-3)


@pytest.mark.parametrize("p", [1.2, 4 / 3, 2.0])
def test_many_sweeps_end_where_lp_norm_does(p):
    kernels = [Linear(columns=[0, 1]), Linear(columns=[2]), Linear(columns=[3])]
    kw = {"kernels": kernels, "C": 2.0}
    ours = MKLRegressor(solver=plain(sweeps=200, p=p, certify=True), **kw).fit(X, Y, sample_weight=S)
    exact = MKLRegressor(solver=LpNorm(p=p, tol=1e-10, max_iter=2000), **kw).fit(X, Y, sample_weight=S)
    assert_allclose(ours.objective_, exact.objective_, rtol=1e-5)  # single precision
    assert_allclose(ours.weights_, exact.weights_, atol=5e-3 * exact.weights_.max())
    assert ours.gap_ <= 1e-4 * ours.objective_


def test_the_certificate_bounds_the_optimum_after_one_sweep():
    kw = {"kernels": [Laplacian(3.0)], "C": 5.0}
    early = MKLRegressor(solver=plain(sweeps=1, certify=True), **kw).fit(X, Y)
    late = MKLRegressor(solver=plain(sweeps=300, certify=True), **kw).fit(X, Y)
    assert early.objective_ > late.objective_ > early.objective_ - early.gap_
    assert late.gap_ < 0.01 * early.gap_
    assert list(late.trace_.objective) == sorted(late.trace_.objective, reverse=True)


def test_a_weight_equals_a_repetition():
    s = np.tile([1.0, 2.0, 0.0], 100)
    rows = np.repeat(np.arange(300), s.astype(int))
    kw = {"kernels": [Laplacian(3.0), RBF(2.0)], "solver": plain(sweeps=2), "normalize": None}
    weighted = MKLRegressor(C=1.0, **kw).fit(X, Y, sample_weight=s)
    repeated = MKLRegressor(C=1.0, **kw).fit(X[rows], Y[rows])
    assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-4)  # single precision


def test_the_rows_stay_as_they_are():
    rows = X.astype(
        np.float32
    )  # a linear kernel's features are the rows themselves, and held out rows weigh nothing
    MKLRegressor([Linear(), RBF(2.0)], solver=plain(validation_fraction=0.2), C=1.0).fit(
        rows, X[:, 0] * X[:, 1]
    )
    assert_array_equal(rows, X.astype(np.float32))


# -- threads, files, resuming --------------------------------------------------------------------------


KERNELS = [Laplacian(3.0), RBF(2.0), Linear()]


def coefficients(result):
    return result.predictor.W


#: Few rows of everything that is taken at once.
SMALL = Sizes(chunk=64, lane=100, tile=24)


def stream_of(kernels, share=0.0):
    return MemoryStream(problem(kernels), 70, share=share)


def swept(kernels=KERNELS, *, solver=None, share=0.0, sizes=SMALL, scratch=False, **options):
    """Fit in the loop, with sizes of its own, and rows in memory or in files."""
    run = SweepRun(solver or plain(), stream_of(kernels, share), scratch=scratch, sizes=sizes)
    return run_to_end(run, **options)


def all_states(kernels=KERNELS, **options):
    """Fit with files, and return the result and every state."""
    states = []
    return swept(kernels, scratch=True, save=lambda state: states.append(state()), **options), states


def test_files_and_memory_give_the_same_bits():
    in_memory, in_files = swept(), swept(scratch=True)
    assert_array_equal(coefficients(in_memory), coefficients(in_files))
    assert in_memory.objective == in_files.objective


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_number_of_threads_does_not_matter(threads, monkeypatch):
    reference = swept()
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    assert_array_equal(coefficients(reference), coefficients(swept()))


@pytest.mark.parametrize("room", [0, 8 * 24 * 4 * 64 + 1])
def test_features_that_are_made_again_are_those_that_were_kept(room):
    few = replace(SMALL, kept=room)  # nothing, or one tile of 64 features in each lane
    assert_array_equal(coefficients(swept()), coefficients(swept(sizes=few)))


def test_tiles_and_chunks_change_no_more_than_rounding():
    whole = coefficients(swept(KERNELS[1:], sizes=Sizes()))
    parts = coefficients(swept(KERNELS[1:], sizes=Sizes(chunk=64, tile=24)))
    # Sums in single precision over 24 rows instead of all: 1e-7 of the coefficients' size, times the condition.
    assert_allclose(parts, whole, rtol=0, atol=1e-4 * np.abs(whole).max())


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_a_resumed_fit_ends_in_the_same_bits(share):
    whole, states = all_states(share=share)
    assert len(states) > 20
    for state in (states[0], states[len(states) // 3], states[2 * len(states) // 3], states[-1]):
        assert all(isinstance(v, np.ndarray) for v in state.values())
        again = swept(share=share, scratch=True, resume=state)
        assert_array_equal(coefficients(whole), coefficients(again))
        assert whole.objective == again.objective
        assert whole.trace.objective == again.trace.objective and whole.n_iter == again.n_iter == 3


def test_few_rows_are_gone_over_twice_and_resumed_in_either_phase():
    solver = plain(validation_fraction="auto")
    whole, states = all_states(solver=solver)
    assert [state["position"][2] for state in states[1:]] == sorted(
        state["position"][2] for state in states[1:]
    )
    for state in (states[0], states[5], states[len(states) // 2], states[-1]):
        again = swept(solver=solver, scratch=True, resume=state)
        assert_array_equal(coefficients(whole), coefficients(again))
    alone = swept()
    assert_array_equal(coefficients(whole), coefficients(alone))  # all rows count in the end
    assert whole.n_iter == alone.n_iter and whole.objective == alone.objective


def test_chunks_of_different_types_come_back_from_files():
    store = RowStore([], keep_rows=True, sizes=SMALL)
    for part, dtype in ((slice(0, 64), np.float32), (slice(64, 200), np.float64)):
        store.append(X[part].astype(dtype), Y[part], S[part])
    store.close_input()
    for a, b in store.chunks:
        assert_allclose(store.rows((a, b)), X[a:b], rtol=1e-6)
    store.close()


def moons_problem(rows, labels, kernels="laplacian"):
    y, s = np.where(labels == "left", -1.0, 1.0)[:, None], np.ones(len(rows))
    family = (Laplacians(ard=True) if kernels == "laplacian" else Gaussians(ard=True)).adapt(rows, s)
    family = family.resolve(rows.shape[1])
    return Problem(rows, y, family, Scale.fit(family, rows, "trace"), get_loss("squared"), 1.0, s)


def test_bandwidths_are_saved_as_soon_as_they_are_known(moons):
    states, solver = [], small(validation_fraction=0.0)
    stream = MemoryStream(moons_problem(*moons), 1000)
    whole = solver.solve_stream(stream, save=lambda state: states.append(state()))
    assert "W" not in states[0]
    again = solver.solve_stream(stream, resume=states[0])
    assert again.trace.extra["bandwidths"][0] == "known", "they are not learned again"
    assert_array_equal(coefficients(whole), coefficients(again))


def test_targets_that_are_no_classes_have_no_probabilities():
    F = RNG.standard_normal((30, 2))
    assert fit_calibration(F, np.where(F > 0, 1.0, -1.0), np.ones(30)) is None, "two ones in a row, or none"
    assert fit_calibration(F, F, np.ones(30)) is None


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_most_probable_class_is_the_predicted_one(n_classes):
    rows, y = waves(900)
    labels = np.digitize(y, [-1.2, 0.5][2 - n_classes :])  # of unequal sizes
    model = MKLClassifier(kernels="laplacian", solver=small(), C=1.0).fit(rows, labels)
    test = waves(2000, seed=1)[0]
    assert_array_equal(model.predict(test), model.classes_[model.predict_proba(test).argmax(axis=1)])


def test_rows_residuals_and_bins_are_in_the_same_order():
    grids = Laplacian(3.0).random_features(4, 0, 0, 256).grids(0, 8)
    store = RowStore([grids], keep_rows=True, sizes=SMALL)
    for a in range(0, 300, 70):
        store.append(X[a : a + 70], Y[a : a + 70], S[a : a + 70])
    store.close_input()
    assert [b - a for a, b in store.lanes] == [100, 100, 100]
    for chunk in store.chunks:
        kept = store.rows(chunk)
        place = np.argmax((X[:, None] == kept[None, :3]).all(axis=2), axis=0)
        assert_array_equal(store.residuals(chunk)[:3], Y[place].astype(np.float32))
        assert_array_equal(store.slots[0][2, grids.bins(kept)[2]], store.bins(chunk, 2))
    store.close()


def test_bins_of_the_last_sweep_are_forgotten_without_harm():
    kept = plain(bins=2**12, certify=True).solve(problem([Laplacian(3.0)]))  # the certificate needs them
    assert_array_equal(coefficients(kept), coefficients(plain(bins=2**12).solve(problem([Laplacian(3.0)]))))


def test_a_resumed_fit_keeps_its_bandwidths():
    family, solver = Laplacians(bounds=(0.1, 10.0), ard=True), plain(random_state=None)
    whole, states = all_states(family, solver=solver)
    again = swept(family, solver=solver, scratch=True, resume=states[5])
    assert_array_equal(coefficients(whole), coefficients(again))
    assert whole.combination.members == again.combination.members and whole.C == again.C


def test_a_checkpoint_of_other_rows_is_refused():
    state = all_states()[1][5]
    state["residuals"] = state["residuals"][:-1]
    with pytest.raises(ValueError, match="residuals has 299 rows, and not 300"):
        swept(resume=state)


def test_an_interrupt_keeps_the_model_so_far():
    def stop(step):
        raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="Interrupted in sweep"):
        model = MKLRegressor(kernels=[RBF(2.0)], solver=plain(), C=5.0).fit(X, Y, on_iteration=stop)
    assert model.score(X, Y) > 0.5


def test_an_interrupt_keeps_the_checkpoint(tmp_path):
    path = tmp_path / "fit.ckpt"
    whole = MKLRegressor(kernels=KERNELS, solver=plain(), C=1.0).fit(X, Y, checkpoint=path)
    assert not path.exists() and not whole.result_.interrupted

    def stop(step):
        raise KeyboardInterrupt

    model = MKLRegressor(kernels=KERNELS, solver=plain(), C=1.0)
    with pytest.warns(ConvergenceWarning, match="Interrupted in sweep"):
        model.fit(X, Y, checkpoint=Checkpoint(path, pause=0.0, times=0.0), on_iteration=stop)
    assert path.exists() and model.result_.interrupted
    model.fit(X, Y, checkpoint=path)
    assert_array_equal(coefficients(model.result_), coefficients(whole.result_))
    assert not path.exists()


# -- bandwidths, probabilities, models -----------------------------------------------------------------


@pytest.fixture(scope="module")
def moons():
    rows, labels = make_moons(3000, noise=0.2, random_state=0)
    noise = np.random.default_rng(0).standard_normal((3000, 3))
    return np.column_stack([100 * rows, noise, np.full(3000, 7.0)]), np.array(["left", "right"])[labels]


@pytest.mark.parametrize("kernels", ["laplacian", "gaussian"])
def test_bandwidths_are_learned_and_probabilities_calibrated(kernels, moons):
    rows, labels = moons
    model = MKLClassifier(kernels=kernels, solver=small(), C=1.0).fit(rows[:1200], labels[:1200])
    assert model.score(rows[2000:], labels[2000:]) > 0.94  # 0.97 is the best there is
    P = model.predict_proba(rows[2000:])
    assert_allclose(P.sum(axis=1), 1.0)
    assert log_loss(labels[2000:], P) < 0.2
    (sigma,) = model.combination_.members
    assert np.isinf(sigma[5])  # the constant column
    assert model.trace_.extra["C"][0] == model.C_


def test_c_stays_as_given_when_it_is_not_tuned(moons):
    solver = Blockwise(random_state=0, grids=16, validation_fraction=0.0)
    model = MKLClassifier(kernels="laplacian", solver=solver, C=3.0).fit(moons[0][:500], moons[1][:500])
    assert model.C_ == 3.0


def test_a_fit_is_deterministic_and_survives_saving(tmp_path, moons):
    rows, labels = moons[0][:600].astype(np.float32), moons[1][:600]

    def fit():
        return MKLClassifier(kernels="laplacian", solver=Blockwise(grids=16), random_state=3, C="auto").fit(
            rows, labels
        )

    model = fit()
    assert_array_equal(model.decision_function(rows), fit().decision_function(rows))
    model.save(tmp_path / "model.mk")
    loaded = manykernels.load(tmp_path / "model.mk")
    assert_array_equal(loaded.decision_function(rows), model.decision_function(rows))
    assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    assert_allclose(
        model.contributions(rows)[:, 0] + model.intercept_, model.decision_function(rows), atol=1e-6
    )


def test_tables_hold_the_bins_that_rows_fall_into_alone(tmp_path):
    model = MKLRegressor(kernels=[Laplacian(4.0)], solver=plain(bins=2**14), C=1.0).fit(X, Y)
    predictor = model.result_.predictor
    assert len(predictor.W) == 8 + predictor.seen.sum() < 8 * 300
    far = model.predict(1e6 * np.ones((1, 4)) + 1e5 * np.arange(4))
    assert_allclose(far[0], model.intercept_, atol=1e-6)  # no bin of it was met
    model.save(tmp_path / "model.mk")
    loaded = manykernels.load(tmp_path / "model.mk")
    assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_stream_goes_on_from_a_file_and_meets_new_bins(tmp_path):
    def fresh():
        return MKLRegressor(kernels=[Laplacian(1.0)], solver=plain(bins=2**14), C=1.0)

    model = in_batches(fresh(), X[:150], Y[:150], 50)
    model.save(tmp_path / "model.mk")
    loaded = manykernels.load(tmp_path / "model.mk")
    assert loaded.result_.predictor.slots is not None
    assert_array_equal(loaded.predict(X), model.predict(X))
    for part in (slice(150, 225), slice(225, 300)):
        model.partial_fit(X[part] + 3, Y[part])
        loaded.partial_fit(X[part] + 3, Y[part])
    assert_array_equal(loaded.predict(X + 3), model.predict(X + 3))
    assert np.abs(model.predict(X[150:] + 3) - Y[150:]).mean() < np.abs(Y[150:] - Y.mean(axis=0)).mean()


@pytest.mark.parametrize(
    "single, n_rows, expected",
    [(True, 1000, (512, 2)), (True, 200_001, (384, 1)), (True, None, (256, 3)), (False, 1000, (256, 3))],
)
def test_grids_and_sweeps_by_themselves(single, n_rows, expected):
    family = bound_family([Laplacian(1.0)], X, S)
    problem = Problem(X, Y, family, Scale.fit(family, X, None, S), get_loss("squared"), 1.0, S)
    assert passes(Blockwise(), problem, n_rows, single) == expected
    assert passes(Blockwise(grids=7, sweeps=5), problem, n_rows, single) == (7, 5)
    many = replace(problem, Y=np.zeros((len(X), 100)))
    assert passes(Blockwise(), many, n_rows, single) == (256, 3)


def test_one_sweep_is_not_for_rows_in_the_order_of_time():
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.arange(4000) // 40, rng.normal(size=4000)]).astype(np.float32)
    s, family = np.ones(4000), Laplacians((0.1, 1.0)).resolve(2)
    problem = Problem(
        rows,
        rng.normal(size=(4000, 1)),
        family,
        Scale.fit(family, rows, None, s),
        get_loss("squared"),
        1.0,
        s,
    )
    shuffled = replace(problem, X=rows[rng.permutation(4000)])
    assert passes(Blockwise(), problem, 10**6, True) == (384, 2)
    assert passes(Blockwise(), shuffled, 10**6, True) == (384, 1)


def test_a_checkpoint_of_another_layout_is_refused():
    old = {k: v for k, v in all_states()[1][5].items() if k != "layout"}
    with pytest.raises(ValueError, match="another version of manykernels"):
        swept(resume=old)


def test_a_stream_may_begin_with_one_row():
    rows, labels = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    model = MKLClassifier("laplacian", solver=Blockwise(random_state=0), C="auto")
    model.partial_fit(rows[:1], labels[:1], classes=[0, 1]).partial_fit(rows[1:], labels[1:])
    assert np.isfinite(model.decision_function(rows)).all()


def test_the_preparation_reports_its_phases(capsys, moons):
    solver = Blockwise(random_state=0, grids=16, validation_fraction=0.0)
    model = MKLClassifier(kernels="laplacian", solver=solver, verbose=1, C=1.0).fit(
        moons[0][:500], moons[1][:500]
    )
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("[manykernels] ") for line in lines)
    assert any("columns: learned in 80 steps" in line for line in lines)  # 40, and 40 at second sight
    said = sum("of the mean's, C = " in line for line in lines)
    assert said in (4, 5, 6)  # three shapes, and those that cannot be told apart again
    model.set_params(verbose=0).fit(moons[0][:500], moons[1][:500])
    assert capsys.readouterr().err == ""


def test_probabilities_of_a_stream_are_calibrated_now_and_then(moons):
    model = MKLClassifier(kernels=[Laplacian(200.0)], solver=Blockwise(random_state=0, grids=16), C="auto")
    times = states_of(model, moons[0], moons[1], 100, "calibrated")
    assert 5 < len(times) < 20  # of 30 batches; every 20 % more rows
    assert log_loss(moons[1], model.predict_proba(moons[0])) < 0.3


def test_a_model_no_better_than_the_mean_warns():
    rng = np.random.default_rng(1)
    noise, y = rng.standard_normal((400, 3)), rng.standard_normal(400)
    said = "Blockwise has a mean loss of .* on .* rows held out, no better than the .* of the best constant"
    with pytest.warns(ConvergenceWarning, match=said):
        MKLRegressor(kernels=[Laplacian(1.0)], solver=Blockwise(random_state=0), C=1e3).fit(noise, y)


def test_class_weights_move_the_boundary(moons):
    rows, labels = moons[0][:800], moons[1][:800]
    kw = {"kernels": [Laplacian(100.0, columns=[0, 1])], "solver": plain(), "C": 0.02}
    heavy = MKLClassifier(class_weight={"left": 10.0, "right": 1.0}, **kw).fit(rows, labels)
    even = MKLClassifier(**kw).fit(rows, labels)
    assert (heavy.predict(rows) == "left").sum() > (even.predict(rows) == "left").sum()


def test_many_rows_choose_blockwise():
    rows = np.random.default_rng(0).random((20_500, 2)).astype(np.float32)
    model = MKLRegressor(kernels=[Laplacian(1.0)], C=1.0).fit(rows, np.sin(6 * rows[:, 0]))
    assert isinstance(model.solver_, Blockwise)
    assert model.score(rows, np.sin(6 * rows[:, 0])) > 0.95


# -- one pass ------------------------------------------------------------------------------------------


def in_batches(model, rows, y, size, **kw):
    for a in range(0, len(rows), size):
        model.partial_fit(rows[a : a + size], y[a : a + size], **kw)
    return model


def states_of(model, rows, y, size, *names):
    """Return the values that arrays of the state take in turn while batches come in."""
    seen = []
    for a in range(0, len(rows), size):
        model.partial_fit(rows[a : a + size], y[a : a + size])
        if all(name in model.state_ for name in names):
            seen.append(tuple(int(model.state_[name][0]) for name in names))
    return list(dict.fromkeys(seen))


def test_the_filter_is_the_definition():
    from manykernels.solvers.blockwise._grids import filter_rows

    rng = np.random.default_rng(0)
    bins, y = rng.integers(0, 5, (30, 4)).astype(np.uint16), rng.standard_normal((30, 2))
    noise = rng.random(30) + 0.1
    noise[7] = np.inf
    W, v, b = np.zeros((4, 5, 2)), np.full((4, 5), 0.25), np.array([0.0, 0.0, 1.0])
    filter_rows(bins, y, noise, W, v, b, np.empty((30, 2)))
    w, var = np.zeros((21, 2)), np.append(np.full(20, 0.25), 1.0)
    for t in range(30):
        at = np.append(5 * np.arange(4) + bins[t], 20)
        gain = 1 / (var[at].sum() + noise[t])
        w[at] += np.outer(var[at] * gain, y[t] - w[at].sum(axis=0))
        var[at] -= var[at] ** 2 * gain
    assert_allclose(np.vstack([W.reshape(20, 2), b[None, :2]]), w, atol=1e-12)
    assert_allclose(np.append(v.ravel(), b[2]), var)


@pytest.mark.parametrize("kernels", ["laplacian", "gaussian"])
def test_one_pass_learns(kernels, moons):
    solver, whole = small(), moons_problem(*moons, kernels)
    state = online.start(solver, whole.rows(slice(0, 250)))
    for a in range(0, 1500, 250):
        state = online.update(solver, state, whole.rows(slice(a, a + 250)), stages=(600, 1000))
    result, test = online.finish(solver, state, whole), whole.rows(slice(2500, None))
    F = result.predictor.scores(test.X)
    assert np.mean(np.sign(F) == test.Y) > 0.93
    assert log_loss(test.Y[:, 0], probabilities(F, result.calibration)) < 0.25
    assert len(state["rows"]) == 0  # what was gathered is gone


def waves(n, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 4))
    return rows, np.sin(2 * rows[:, 0]) + rows[:, 1] * rows[:, 2]


@pytest.mark.parametrize("kernels", ["laplacian", "gaussian"])
def test_one_pass_over_rows_sorted_by_their_targets(kernels):
    rows, y = waves(3000)
    order = np.argsort(y)
    model = in_batches(MKLRegressor(kernels=kernels, solver=small(), C=1.0), rows[order], y[order], 300)
    assert model.score(*waves(1000, seed=1)) > 0.9  # the mean alone has 0, and the last batch's rows -4


def test_one_pass_over_rows_class_by_class():
    rows, y = waves(3000)
    labels = np.digitize(y, [-0.5, 0.5])
    order = np.argsort(labels, kind="stable")
    model = MKLClassifier(kernels="laplacian", solver=small(), C=1.0)
    in_batches(model, rows[order], labels[order], 500, classes=[0, 1, 2])
    test, yt = waves(1000, seed=1)
    assert model.score(test, np.digitize(yt, [-0.5, 0.5])) > 0.85  # 0.36 are of the largest class


def test_one_pass_over_few_rows_has_learned_its_bandwidths():
    rows, y = waves(1500)
    rows = np.column_stack([rows, np.random.default_rng(2).standard_normal((1500, 4))])  # that do not matter
    model = in_batches(MKLRegressor(kernels="laplacian", solver=small(), C=1.0), rows, y, 250)
    assert np.min(model.combination_.members[0][4:]) > 2 * np.max(model.combination_.members[0][:3])


def test_rows_in_no_order_are_gone_over_as_they_double():
    rows, y = waves(900)
    model = MKLRegressor(kernels="laplacian", solver=small(), C=1.0)
    assert states_of(model, rows, y, 1, "restarted", "learned") == [(200, 200), (400, 200), (800, 200)]


def test_small_batches_do_not_solve_everything_again():
    rows, y = waves(900)
    model = in_batches(MKLRegressor(kernels=[RBF(2.0)], solver=plain(), C=1.0), rows[:600], y[:600], 600)
    times = states_of(model, rows[600:], y[600:], 2, "solved")
    assert 20 <= len(times) <= 60  # of 150 batches; a hundredth of the rows is six to nine


def test_dense_features_in_one_pass_are_ridge_regression_on_all_rows():
    model = MKLRegressor(kernels=[RBF(2.0)], solver=plain(), C=2.0)
    in_batches(model, X, Y, 60)
    (Z,) = explicit(model, X)
    Z = np.column_stack([Z, np.ones(len(X))])
    centred = Y - Y[:60].mean(axis=0)  # centred by the first batch
    W = np.linalg.solve(Z.T @ Z + np.eye(Z.shape[1]) / 2.0, Z.T @ centred)
    assert_allclose(model.predict(X), Z @ W + Y[:60].mean(axis=0), atol=1e-3)  # features in single precision


def test_the_state_is_a_checkpoint(moons):
    rows, labels = moons
    solver = Blockwise(random_state=0, grids=16)
    model = MKLClassifier(kernels=[Laplacian(200.0)], solver=solver, C=1.0)
    in_batches(model, rows[:500], labels[:500], 250)
    assert all(isinstance(v, np.ndarray) for v in model.state_.values())
    copy = {k: v.copy() for k, v in model.state_.items()}
    model.partial_fit(rows[500:750], labels[500:750])
    expected = model.decision_function(rows)
    model.state_ = copy
    model.partial_fit(rows[500:750], labels[500:750])
    assert_array_equal(model.decision_function(rows), expected)


# -- bad input -----------------------------------------------------------------------------------------


@pytest.fixture
def fitted(moons):
    model = MKLClassifier(kernels=[Laplacian(200.0)], solver=Blockwise(random_state=0, grids=16), C="auto")
    return in_batches(model, moons[0][:500], moons[1][:500], 250)


def test_a_bad_batch_is_refused_and_the_model_stays_usable(fitted, moons):
    rows, labels = moons[0][500:600].copy(), moons[1][500:600].copy()
    before = fitted.decision_function(moons[0])
    with pytest.raises(ValueError, match="label 'middle', which is not among the classes"):
        fitted.partial_fit(rows, np.where(labels == "left", "middle", labels))
    with pytest.raises(ValueError, match="features"):
        fitted.partial_fit(rows[:, :3], labels)
    with pytest.raises(ValueError, match="NaN"):
        fitted.partial_fit(np.where(np.arange(6) == 2, np.nan, rows), labels)
    assert_array_equal(fitted.decision_function(moons[0]), before)
    fitted.partial_fit(rows, labels, sample_weight=np.zeros(100))
    assert_array_equal(fitted.decision_function(moons[0]), before)  # rows without weight change nothing
    fitted.partial_fit(1e6 * rows, labels)  # far outside of what was seen before
    assert np.isfinite(fitted.decision_function(1e30 * rows)).all()


@pytest.mark.parametrize(
    "params, message",
    [
        ({"grids": 0}, "grids of Blockwise is 0; use a whole number from 1 to 65,536 or 'auto'"),
        ({"bins": 100}, "bins of Blockwise is 100; use a power of two"),
        ({"p": 0.5}, r"p of Blockwise is 0.5; use a number in \[1, 2\]"),
        (
            {"validation_fraction": 0.9},
            r"validation_fraction of Blockwise is 0.9; use a number in \[0, 0.5\] or 'auto'",
        ),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(params, message):
    with pytest.raises(ValueError, match=message):
        MKLRegressor(kernels=[Laplacian(1.0)], solver=Blockwise(**params), C="auto").fit(X, Y)


def test_kernels_without_random_features_and_other_losses_are_refused():
    with pytest.raises(ValueError, match="Blockwise needs a family with random features"):
        MKLRegressor(kernels=[lambda A, B: A @ B.T], solver=Blockwise(), C="auto").fit(X, Y)
    with pytest.raises(ValueError, match="Blockwise takes loss squared"):
        MKLClassifier(kernels=[RBF(1.0)], solver=Blockwise(), loss="hinge", C="auto").fit(X, X[:, 0] > 0)


def test_one_pass_does_not_mix_bins_and_dense_features():
    with pytest.raises(ValueError, match="Laplacian kernels, or kernels with dense features, but not both"):
        MKLRegressor(kernels=KERNELS, solver=plain(), C=1.0).partial_fit(X, Y)


def test_all_columns_constant():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MKLRegressor(kernels="laplacian", solver=Blockwise(random_state=0), C="auto").fit(
            np.ones((60, 2)), Y[:60, 0]
        )
    assert_allclose(model.predict(np.ones((3, 2))), Y[:60, 0].mean(), atol=1e-3)


@pytest.mark.slow
def test_digits():
    rows, labels = load_digits(return_X_y=True)
    model = MKLClassifier(kernels="gaussian", solver=Blockwise(random_state=0), C="auto").fit(
        rows[:1200], labels[:1200]
    )
    assert model.score(rows[1200:], labels[1200:]) > 0.94


@pytest.mark.parametrize("batches", [0, 2])
def test_kernels_that_vanish_on_the_rows_have_no_weight_and_no_warning(batches):
    X, y = np.zeros((8, 3)), np.arange(8) % 3
    model = MKLClassifier(
        [Linear(), Linear([0]), RBF(1.0)], solver=Blockwise(8, n_features=16, block=8), C=1.0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        if batches:
            for _ in range(batches):
                model.partial_fit(X, y, classes=[0, 1, 2])
        else:
            model.fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
