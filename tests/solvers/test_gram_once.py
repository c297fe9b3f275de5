"""One Gram matrix stands for all rows: the same weights, objective and certificate, for any C and p."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from manykernels import MKLClassifier, MKLRegressor, load, registry
from manykernels.families import Products
from manykernels.kernels import RBF, Linear, Polynomial
from manykernels.solvers import Alignment, Greedy, LpNorm, MirrorDescent, Uniform
from manykernels.solvers.gram_once.features import fold_of
from manykernels.solvers.gram_once.moments import Moments, few_rows
from manykernels.streaming.cluster import Block

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 5))
Y = np.column_stack([X[:, 0] + X[:, 1] * X[:, 2], X[:, 3] - 0.5 * X[:, 0] ** 2]) + 0.3 * rng.normal(
    size=(600, 2)
)
S = rng.uniform(0.0, 2.0, 600)
KERNELS = [
    Linear(columns=[0, 1]),
    Linear(columns=[2]),
    Polynomial(2, columns=[0, 1, 2]),
    Linear(columns=[3, 4]),
]


def batches(X, Y, s):
    return [(X[a : a + 170], Y[a : a + 170], s[a : a + 170]) for a in range(0, len(X), 170)]


def test_few_rows_have_the_sums_of_all():
    phi = np.column_stack([X + 1e4, X[:, 0] + X[:, 1]])  # singular, and far from zero
    shift = np.r_[np.full(5, 1e4), 0.0]
    sums = Moments.zeros(7, 2, 1, 1)
    sums.add(0, np.column_stack([np.ones(600), phi - shift]), Y, S)
    sums = sums.fold(0)
    few, targets, s = few_rows(sums, shift)
    Z = np.column_stack([np.ones(len(s)), few - shift])
    assert len(Z) <= 8
    for found, wanted in ((Z.T @ (s[:, None] * Z), sums.G), (Z.T @ (s[:, None] * targets), sums.B)):
        assert np.allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(sums.G).max())
    assert np.allclose(s @ np.square(targets), sums.q, rtol=1e-12)


@pytest.mark.parametrize(
    "solver", [Uniform(), LpNorm(p=1), LpNorm(p=4 / 3, tol=1e-8), LpNorm(p=2), Alignment()], ids=repr
)
@pytest.mark.parametrize("kernels", [KERNELS, Products(degree=2)], ids=["list", "products"])
def test_the_model_is_that_of_rows_in_memory(solver, kernels):
    there = MKLRegressor(kernels, solver=solver, C=0.1).fit(batches(X, Y, S))
    here = MKLRegressor(kernels, solver=solver, C=0.1, loss="squared").fit(X, Y, S)
    # Both are within their gap of the optimum, and not nearer to each other than that; closed forms agree to rounding.
    tol = 1e-8 if isinstance(solver, Uniform) or getattr(solver, "tol", 1) < 1e-6 else 2e-3
    assert np.isclose(there.objective_, here.objective_, rtol=tol)
    assert there.gap_kind_ == "exact" and there.gap_ <= max(1.1 * here.gap_, 1e-3 * there.objective_)
    scale = np.abs(here.predict(X)).max()
    assert np.allclose(there.predict(X), here.predict(X), atol=10 * np.sqrt(tol) * scale)
    if tol == 1e-8:
        assert np.allclose(there.weights_, here.weights_, rtol=1e-4, atol=1e-6 * here.weights_.max())


def test_C_and_p_are_chosen_by_folds_of_all_rows():
    model = MKLRegressor(KERNELS, solver=LpNorm(p="auto")).fit(batches(X, Y, S))
    assert model.C_ > 0 and 1 <= model.solver_.p <= 2
    fixed = [MKLRegressor(KERNELS, solver=LpNorm(), C=C).fit(batches(X, Y, S)) for C in (1e-4, 1e4)]
    new = rng.normal(size=(2000, 5))
    truth = np.column_stack([new[:, 0] + new[:, 1] * new[:, 2], new[:, 3] - 0.5 * new[:, 0] ** 2])
    assert model.score(new, truth) >= max(m.score(new, truth) for m in fixed) - 0.01


@pytest.mark.parametrize("C", [1e-6, 1e-2, 1e3, 1e8])
def test_no_C_fails(C):
    collinear = np.column_stack([X, X[:, 0] + 1e-9 * X[:, 1]])
    kernels = [Linear(columns=[0, 5]), Linear(columns=[1, 2]), Linear(columns=[3, 4])]
    model = MKLRegressor(kernels, solver=LpNorm(), C=C).fit(batches(collinear, Y, S))
    assert np.isfinite(model.predict(collinear)).all() and np.isfinite(model.gap_)


def test_labels_are_targets_of_the_squared_loss():
    y = np.digitize(Y[:, 0], [-0.5, 0.5])
    there = MKLClassifier(KERNELS, solver=LpNorm(), C=1.0).fit(batches(X, y, S))
    here = MKLClassifier(KERNELS, solver=LpNorm(), loss="squared", C=1.0).fit(X, y, S)
    assert np.isclose(there.objective_, here.objective_, rtol=2e-3)
    assert there.predict_proba(X).shape == (600, 3)


def test_random_features_are_certified_as_such():
    kernels = [RBF(0.5), RBF(2.0), Linear()]
    model = MKLRegressor(kernels, solver=LpNorm(), C=10.0).fit(batches(X, Y, S))
    here = MKLRegressor(kernels, solver=LpNorm(), C=10.0).fit(X, Y, S)
    assert model.gap_kind_ == "features" and model.gap_ <= 1e-3 * model.objective_
    # 1,024 random features of a kernel err by about 1/√1024 of it.
    assert np.abs(model.predict(X) - here.predict(X)).mean() < 0.1 * np.abs(here.predict(X)).mean()
    assert np.argmax(model.weights_) == np.argmax(here.weights_)


def test_every_target_has_the_weights_of_a_fit_by_itself():
    solver = LpNorm(tol=1e-8)
    there = MKLRegressor(KERNELS, solver=solver, C=0.1, weights="per_target").fit(batches(X, Y, S))
    here = MKLRegressor(KERNELS, solver=solver, C=0.1, weights="per_target").fit(X, Y, S)
    assert there.gap_kind_ == "exact" and there.weights_.shape == (2, 4)
    assert np.allclose(there.weights_, here.weights_, rtol=1e-6, atol=1e-8)
    assert np.allclose(there.predict(X), here.predict(X), atol=1e-8)
    assert np.allclose(there.contributions(X), here.contributions(X), atol=1e-8)
    assert np.isclose(there.objective_, here.objective_, rtol=1e-10)


def test_hundreds_of_targets_find_their_bands_and_one_C(tmp_path):
    rng = np.random.default_rng(1)
    bands, many = np.arange(40) % 2, np.empty((600, 40))
    for k in range(40):
        many[:, k] = X[:, [0, 1] if bands[k] == 0 else [3, 4]] @ rng.normal(size=2) + rng.normal(size=600)
    kernels = [Linear(columns=[0, 1]), Linear(columns=[3, 4])]
    model = MKLRegressor(kernels, solver=LpNorm(p=1.1), weights="per_target").fit(batches(X, many, S))
    shares = model.combination_.shares()
    assert (shares.argmax(axis=1) == bands).all() and shares.max(axis=1).min() > 0.7
    model.save(tmp_path / "model.mk")
    assert np.array_equal(load(tmp_path / "model.mk").predict(X), model.predict(X))


def test_folds_do_not_depend_on_where_rows_lie():
    cuts = [batches(X, Y, S), [(X, Y, S)], [(X[t : t + 1], Y[t : t + 1], S[t : t + 1]) for t in range(600)]]
    models = [MKLRegressor(KERNELS, solver=LpNorm(tol=1e-8)).fit(cut) for cut in cuts]
    assert len({model.C_ for model in models}) == 1
    assert np.allclose(models[0].weights_, models[2].weights_, rtol=1e-6)


def test_equal_rows_are_in_one_fold_unless_there_are_cells():
    twice = Block(np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0), np.ones(1200))
    fold = fold_of(twice, 3, cells=False).reshape(600, 2)
    assert (fold[:, 0] == fold[:, 1]).all()
    assert np.bincount(fold[:, 0], minlength=3).min() > 150
    cells = Block(np.zeros((600, 2)), Y, np.ones(600))
    assert np.bincount(fold_of(cells, 3, cells=True), minlength=3).min() > 150


def test_equal_rows_alone_are_no_folds():
    model = MKLRegressor([Linear()], solver=LpNorm()).fit([(X[[0, 0]], Y[:2])])
    assert model.C_ == 1.0 and np.isfinite(model.predict(X)).all()


def test_a_view_has_the_scale_of_the_rows_that_have_it():
    gaps = X.copy()
    gaps[:200, 3:] = np.nan
    views = {"a": gaps[:, :3], "b": gaps[:, 3:]}
    known = {"solver": LpNorm(tol=1e-8), "C": 0.1}
    there = MKLRegressor({"a": Polynomial(2), "b": Linear()}, **known)
    there.fit([({k: v[a : a + 200] for k, v in views.items()}, Y[a : a + 200]) for a in (0, 200, 400)])
    here = MKLRegressor({"a": Polynomial(2), "b": Linear()}, **known).fit(views, Y)
    assert np.allclose(there.rho_, here.rho_, rtol=1e-10)
    assert np.allclose(there.weights_, here.weights_, rtol=1e-6)


def test_columns_far_from_zero_lose_no_digits():
    far = X + 1e5
    there = MKLRegressor(KERNELS[:2], solver=Uniform(), C=0.1, normalize=None).fit(batches(far, Y, S))
    here = MKLRegressor(KERNELS[:2], solver=Uniform(), C=0.1, normalize=None).fit(far, Y, S)
    assert np.allclose(there.predict(far), here.predict(far), atol=1e-8)


def test_what_has_no_gram_matrix_is_said():
    with pytest.raises(ValueError, match="criterion of Alignment is 'fsm', which needs rows in memory"):
        MKLClassifier(KERNELS, solver=Alignment(criterion="fsm"), C=1.0).fit(batches(X, Y[:, 0] > 0, S))
    with pytest.raises(ValueError, match=r"weights='per_target' needs a solver .*Uniform is none"):
        MKLRegressor(KERNELS, solver=Uniform(), weights="per_target").fit(batches(X, Y, S))
    with pytest.raises(ValueError, match=r"target by target, such as LpNorm .* and Greedy is none"):
        MKLRegressor(Products(2), solver=Greedy(), weights="per_target").fit(batches(X, Y, S))
    with pytest.raises(ValueError, match=r"whose Gram matrices of 3 folds take .* and memory= allows"):
        MKLRegressor([RBF(1.0)], solver=LpNorm(), memory="50MiB").fit(batches(X, Y, S))
    with pytest.raises(ValueError, match="explicit or Fourier features"):
        MKLRegressor(["laplacian"], solver=LpNorm(), C=1.0).fit(batches(X, Y, S))
    with pytest.raises(ValueError, match="loss='squared'"):
        MKLClassifier(KERNELS, solver=LpNorm(), loss="hinge", C=1.0).fit(batches(X, Y[:, 0] > 0, S))


def test_a_sample_too_large_for_matrices_of_pairs_is_no_obstacle(monkeypatch):
    monkeypatch.setattr(registry, "free_bytes", lambda: 2**20)
    model = MKLRegressor([RBF(1.0)], solver=LpNorm(), C=1.0).fit(batches(X, Y, S))
    assert model.gap_kind_ == "features"
    with pytest.raises(ValueError, match="X has 600 rows, for which LpNorm needs matrices"):
        MKLRegressor([RBF(1.0)], solver=LpNorm(), C=1.0).fit(X, Y, S)


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver",
    [
        LpNorm(),
        Uniform(),
        Alignment(),
        Greedy(max_kernels=2, random_state=0),
        MirrorDescent(rows=1000, max_iter=20, random_state=0),
    ],
)
def test_files_are_fitted_in_bounded_memory(solver, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for part in range(10):
        values = np.random.default_rng(part).normal(size=(60_000, 12))
        table = pa.table({"y": values[:, 0] * values[:, 1], **{f"x{j}": values[:, j] for j in range(12)}})
        parquet.write_table(table, tmp_path / f"{part}.parquet")
    code = f"""
        import sys
        import numpy as np
        from manykernels import MKLRegressor
        from manykernels.families import Products
        from manykernels.solvers import Alignment, Greedy, LpNorm, MirrorDescent, Uniform

        def kilobytes(name):
            return int(dict(line.split(":", 1) for line in open("/proc/self/status"))[name].split()[0])

        model = MKLRegressor(Products(2), solver={solver!r}, C=1.0, memory="16MiB")
        rows = np.random.default_rng(0).normal(size=(60, 12))
        model.fit([(rows, rows[:, 0])])
        before = kilobytes("VmRSS")
        model.fit(sys.argv[1], "y")
        print(kilobytes("VmHWM") - before, model.weights_.max() > 0)
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    # The rows take 62 MB and their 90 features 432 MB. Three files are read at a time, each with copies of its 6 MB,
    # and a first sample of 50,000 rows has 5 MB, and its features 36 MB.
    assert int(out[0]) < 2**10 * (16 + 160) and out[1] == "True"
