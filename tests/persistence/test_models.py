import dataclasses
import hashlib
import json
import os
import pickle
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.contracts.cases import FOR_ESTIMATORS

from manykernels import MKLClassifier, MKLRegressor, load
from manykernels.families import Finite, Precomputed, Products
from manykernels.kernels import (
    RBF,
    Constant,
    Dirichlet,
    Function,
    Laplacian,
    Linear,
    Pairwise,
    Polynomial,
)
from manykernels.losses import LOSSES
from manykernels.persistence import read_metadata, save
from manykernels.persistence.classes import CLASSES, class_of, name_of
from manykernels.persistence.tree import SKIPPED

N = 40


def rows(seed=0, width=5):
    return np.random.default_rng(seed).standard_normal((N, width))


def frame():
    return pytest.importorskip("pandas").DataFrame(rows(), columns=["age", "sex", "bmi", "bp", "s1"])


def stack():
    X = rows()
    return np.stack([X @ X.T, (1 + X @ X.T) ** 2], axis=2)


KERNELS = {
    "list": (
        [RBF(1.5), Laplacian(2), Linear([0, 1]), Polynomial(columns=slice(1, 3)), Constant(2.0)],
        rows,
    ),
    "more": ([Dirichlet(0.7, columns=[1]), Pairwise("cosine"), "chi2"], lambda: np.abs(rows())),
    "dict": ({"one": RBF(1.0, columns=slice(0, 3)), "two": Linear()}, rows),
    "frame": ([RBF(1.0, columns=["age", "bmi"]), Linear(columns="sex")], frame),
    "sparse matrix": ([RBF(2.0), Linear()], lambda: sp.csr_matrix(np.maximum(rows(), 0))),
    "sparse array": ([RBF(2.0), Linear()], lambda: sp.csr_array(np.maximum(rows(), 0))),
    "precomputed": (Precomputed(names=["lin", "poly"]), stack),
    "precomputed by name": ("precomputed", stack),
    "named list": (Finite([RBF(1.0), RBF(2.0)], names=["a", "b"]), rows),
    "monomials": (Products(degree=2), rows),
    "monomials of named columns": (Products(degree=2, degree_prior=(1.0, 2.0)), frame),
    "products": (Products(degree=2, base=[RBF(1.0), Linear([0]), Laplacian(np.float64(3))]), rows),
    "all products": (Products(degree=6), lambda: rows(width=10)),
    "all products of kernels": (
        Products(degree=8, base=[RBF(float(s)) for s in range(1, 9)], count="ordered"),
        rows,
    ),
    "gaussian": ("gaussian", rows),
    "fortran": ([RBF(1.0), Linear()], lambda: np.asfortranarray(rows())),
}

TARGETS = {
    "two strings": lambda: np.where(rows()[:, 0] > 0, "yes", "no"),
    "objects": lambda: np.array(["a", "bb", "ccc", "dddd"] * (N // 4), dtype=object),
    "bools": lambda: rows()[:, 0] > 0,
    "ints": lambda: np.arange(N) % 3,
    "one target": lambda: rows()[:, 0] + 3.0,
    "two targets": lambda: rows()[:, :2] * [1.0, 10.0] + 5.0,
}


def fitted(kernels="list", target="two strings", **options):
    spec, make = KERNELS[kernels]
    cls = MKLRegressor if "target" in target else MKLClassifier
    return cls(spec, **options).fit(make(), TARGETS[target]()), make()


def scores(model, X):
    return model.predict(X) if isinstance(model, MKLRegressor) else model.decision_function(X)


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and np.array_equal(a, b)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernels", KERNELS)
def test_a_loaded_model_is_the_model(tmp_path, kernels, target):
    model, X = fitted(kernels, target, C=2.0)
    model.save(tmp_path / "m.mk")
    again = load(tmp_path / "m.mk")
    assert type(again) is type(model)
    assert same(scores(again, X), scores(model, X))
    assert same(again.predict(X), model.predict(X))
    assert same(again.contributions(X), model.contributions(X))
    assert again.combination_.records() == model.combination_.records()
    assert repr(again) == repr(model)
    assert again.score(X, TARGETS[target]()) == model.score(X, TARGETS[target]())
    assert again.trace_ == model.trace_ and again.gap_kind_ == model.gap_kind_
    for name in ("weights_", "rho_", "dual_coef_", "intercept_", "objective_", "gap_", "n_iter_"):
        assert same(getattr(again, name), getattr(model, name)), name
    assert set(vars(again)) == set(vars(model)) - SKIPPED  # rows for importances stay in memory


@pytest.mark.parametrize("name", FOR_ESTIMATORS)
def test_every_solver_comes_back(tmp_path, name):
    kernels = "monomials" if name == "hierarchical" else "list"
    model, X = fitted(kernels, solver=FOR_ESTIMATORS[name]())
    model.save(tmp_path / "m.mk")
    again = load(tmp_path / "m.mk")
    assert repr(again.solver_) == repr(model.solver_)
    assert same(scores(again, X), scores(model, X))


@pytest.mark.parametrize("loss", ["logistic", "softmax", "max_hinge", "squared_hinge"])
def test_every_loss_comes_back(tmp_path, loss):
    model, X = fitted(target="ints", loss=loss)
    model.save(tmp_path / "m.mk")
    again = load(tmp_path / "m.mk")
    assert type(again.loss_) is type(model.loss_)
    if hasattr(model, "predict_proba"):
        assert same(again.predict_proba(X), model.predict_proba(X))


def test_a_loaded_model_clones_and_fits_again(tmp_path):
    model, X = fitted("frame", class_weight={"yes": 2.0, "no": 1.0}, normalize=np.array([1.0, 2.0]))
    model.save(tmp_path / "m.mk")
    again = load(tmp_path / "m.mk")
    assert again.get_params()["class_weight"] == {"yes": 2.0, "no": 1.0}
    refitted = clone(again).fit(X, TARGETS["two strings"]())
    assert same(scores(refitted, X), scores(model, X))


def test_saving_a_loaded_model_gives_the_same_bytes(tmp_path):
    model, _ = fitted()
    model.save(tmp_path / "a.mk")
    load(tmp_path / "a.mk").save(tmp_path / "b.mk")
    assert (tmp_path / "a.mk").read_bytes() == (tmp_path / "b.mk").read_bytes()


def test_parts_stay_shared(tmp_path):
    model, _ = fitted("precomputed")
    model.save(tmp_path / "m.mk")
    result = load(tmp_path / "m.mk").result_
    assert result.predictor.combination is result.combination


def test_columns_given_as_a_pandas_index(tmp_path):
    X = frame()
    model = MKLClassifier([RBF(1.0, columns=X.columns[:2])], C=1.0).fit(X, TARGETS["two strings"]())
    model.save(tmp_path / "m.mk")
    assert same(scores(load(tmp_path / "m.mk"), X), scores(model, X))


@pytest.mark.parametrize("state", [np.random.RandomState(0), np.random.default_rng(0)])
def test_a_generator_is_stored_as_none(tmp_path, state):
    model, _ = fitted(random_state=state)
    model.save(tmp_path / "m.mk")
    assert load(tmp_path / "m.mk").random_state is None


VALUES = [
    None, True, 3, 2**70, -1.5, float("inf"), float("-inf"), "σ·x", "\ud800", [1, [2.0, "a"]], (1, (2,)),
    {"a": 1, 2: (3,), (1, 2): None}, slice(1, None, 2), range(0, 9, 2), np.float32(1.5), np.int8(-3),
    np.bool_(True), np.str_("x"), list(range(100)), tuple(float(i) for i in range(100)),
    [2**70] * 40, [(i, i + 1) for i in range(50)], [(0.5, float("nan"))[:1]] * 40, [()] * 40,
    [True] * 40, [1, 2.0] * 20, {}, [], (),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda v: repr(v)[:30])
def test_plain_values_come_back_with_their_types(tmp_path, value):
    model, _ = fitted()
    save(model, tmp_path / "m.mk", metadata={"value": value})
    again = read_metadata(tmp_path / "m.mk")["value"]
    assert type(again) is type(value)
    assert again == value
    if isinstance(value, list | tuple) and value:
        assert type(again[0]) is type(value[0])


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.array(3.0),
        np.zeros((0, 4)),
        np.array([np.nan, np.inf]),
        np.array(["a", "ββ"]),
        np.array([True, False]),
        np.array([1, "a", None], dtype=object),
        np.array([["2020-01-01"]], dtype="datetime64[D]"),
    ],
    ids=lambda v: f"{v.dtype}{v.shape}",
)
def test_arrays_come_back(tmp_path, value):
    model, _ = fitted()
    save(model, tmp_path / "m.mk", metadata={"value": value})
    again = read_metadata(tmp_path / "m.mk")["value"]
    assert again.dtype == value.dtype and again.shape == value.shape
    assert again.flags.f_contiguous == value.flags.f_contiguous
    np.testing.assert_array_equal(again, value)


def test_nan_comes_back(tmp_path):
    model, _ = fitted()
    save(model, tmp_path / "m.mk", metadata={"value": float("nan")})
    assert np.isnan(read_metadata(tmp_path / "m.mk")["value"])


# -- what cannot be written ----------------------------------------------------------------------------


def my_kernel(X, Z):
    return X @ Z.T


@pytest.mark.parametrize(
    "kernels",
    [[my_kernel], {"mine": my_kernel}, [Function(my_kernel)], Products(degree=2, base=[my_kernel])],
    ids=["list", "dict", "Function", "base"],
)
def test_a_callable_kernel_is_refused_before_anything_is_written(tmp_path, kernels):
    model = MKLRegressor(kernels, C=1.0).fit(rows(), rows()[:, 0])
    with pytest.raises(ValueError, match=r"kernels.* is the Python function my_kernel, .*precomputed"):
        model.save(tmp_path / "m.mk")
    assert list(tmp_path.iterdir()) == []


class Mine(RBF):
    pass


def test_a_class_of_ones_own_is_refused(tmp_path):
    model = MKLRegressor([Mine(1.0)], C=1.0).fit(rows(), rows()[:, 0])
    with pytest.raises(ValueError, match=r"kernels\[0\] is Mine\(\), and a model file cannot hold a Mine"):
        model.save(tmp_path / "m.mk")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", np.longdouble(1), np.zeros(2, "i4,f8")])
def test_other_metadata_is_refused(tmp_path, value):
    model, _ = fitted()
    with pytest.raises(ValueError, match=r"metadata\['a'\] is "):
        save(model, tmp_path / "m.mk", metadata={"a": value})


def test_an_unfitted_model_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        MKLClassifier(kernels="gaussian", C=1.0).save(tmp_path / "m.mk")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_named(tmp_path):
    model, _ = fitted()
    with pytest.raises(FileNotFoundError, match=r"directory .*nowhere does not exist"):
        model.save(tmp_path / "nowhere" / "m.mk")


def test_a_directory_is_no_file(tmp_path):
    model, _ = fitted()
    with pytest.raises(IsADirectoryError):
        model.save(tmp_path)
    with pytest.raises(IsADirectoryError):
        load(tmp_path)


@pytest.mark.parametrize("failing", ["os.replace", "os.fsync", "json.dumps", "write_array"])
def test_an_error_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, failing):
    model, _ = fitted()
    path = tmp_path / "m.mk"
    model.save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("the disk is full")

    if failing == "write_array":
        monkeypatch.setattr(np.lib.format, "write_array", fail)
    else:
        module, name = failing.split(".")
        monkeypatch.setattr({"os": os, "json": json}[module], name, fail)
    with pytest.raises(OSError, match="disk is full"):
        fitted("dict")[0].save(path)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["m.mk"]
    assert path.read_bytes() == before


def test_a_new_file_has_the_usual_permissions(tmp_path):
    model, _ = fitted()
    model.save(tmp_path / "m.mk")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "m.mk").stat().st_mode == (tmp_path / "plain").stat().st_mode


# -- what cannot be opened -----------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    fitted("sparse matrix", "ints")[0].save(tmp_path / "m.mk")
    return tmp_path / "m.mk"


def rewrite(path, change, *, sign=True, compress=zipfile.ZIP_STORED, change_entry=None):
    """Write a model file again with another manifest, correctly signed."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(entries["manifest.json"])
    if change_entry:
        change_entry(entries, manifest)
    change(manifest)
    entries["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", compress) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
        if sign:
            archive.comment = hashlib.sha256(entries["manifest.json"]).hexdigest().encode()


def test_rewriting_alone_does_no_harm(file):
    rewrite(file, lambda manifest: None)
    load(file)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.mk does not exist"):
        load(tmp_path / "gone.mk")


def test_every_flipped_entry_is_refused(file):
    whole = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        entries = [(i.header_offset, i.filename, i.file_size) for i in archive.infolist()]
    for offset, name, size in entries:
        start = whole.index(name.encode(), offset) + len(name) + 20 * (name != "manifest.json")
        for position in {start, start + size // 2, start + size - 1}:
            broken = bytearray(whole)
            broken[position] ^= 1
            file.write_bytes(broken)
            with pytest.raises(ValueError, match=r"m\.mk (was altered|is truncated|is not a model)"):
                load(file)


def test_any_flipped_byte_is_refused_or_harmless(file):
    whole, model = file.read_bytes(), load(file)
    X = KERNELS["sparse matrix"][1]()
    for position in np.linspace(0, len(whole) - 1, 300).astype(int):
        broken = bytearray(whole)
        broken[position] ^= 255
        file.write_bytes(broken)
        try:
            again = load(file)
        except ValueError:
            continue
        assert same(scores(again, X), scores(model, X))  # a date in the archive's directory, say


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.1, 0.5, 0.9, 0.99, 0.9999])
def test_a_truncated_file_is_refused(file, share):
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"m\.mk (is truncated|is not a model file|was altered)"):
        load(file)


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_is_refused_and_not_run(tmp_path):
    path, witness = tmp_path / "m.pkl", tmp_path / "witness"
    path.write_bytes(pickle.dumps(Bomb(witness)))
    with pytest.raises(ValueError, match="is not a model file"):
        load(path)
    assert not witness.exists()
    pickle.loads(path.read_bytes()).close()  # it would have worked
    assert witness.exists()


def test_a_pickle_inside_an_array_is_refused_and_not_run(file, tmp_path):
    witness = tmp_path / "witness"

    def plant(entries, manifest):
        from io import BytesIO

        stream = BytesIO()
        np.lib.format.write_array(stream, np.array([Bomb(witness)], dtype=object), allow_pickle=True)
        name = next(iter(manifest["entries"]))
        entries[name] = stream.getvalue()
        manifest["entries"][name] = {
            "sha256": hashlib.sha256(entries[name]).hexdigest(),
            "bytes": len(entries[name]),
            "dtype": "|O",
            "shape": [1],
        }

    rewrite(file, lambda manifest: None, change_entry=plant)
    with pytest.raises(ValueError, match="holds the array"):
        load(file)
    assert not witness.exists()


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "kernels.Function", "sklearn.svm.SVC", "", 3])
def test_a_class_outside_the_table_is_refused(file, name):
    def change(manifest):
        manifest["model"]["class"] = name

    rewrite(file, change)
    with pytest.raises(ValueError, match="which this version does not know"):
        load(file)


def test_a_class_of_the_wrong_axis_is_no_model(file):
    rewrite(
        file,
        lambda m: m.update(model={"$": "object", "class": "kernels.Linear", "params": {}, "state": {}}),
    )
    with pytest.raises(ValueError, match="holds no model"):
        load(file)


@pytest.mark.parametrize("name", ["__class__", "predict", "_rows", "a b"])
def test_a_file_cannot_replace_methods(file, name):
    rewrite(file, lambda m: m["model"]["state"].update({name: 1}))
    with pytest.raises(ValueError, match="must not set"):
        load(file)


def test_a_newer_format_asks_for_an_upgrade(file):
    rewrite(file, lambda m: m.update(version=2, package="9.9"), sign=False)
    with pytest.raises(ValueError, match=r"format version 2.*upgrade to manykernels 9\.9"):
        load(file)


def test_an_unknown_parameter_is_named(file):
    rewrite(file, lambda m: m["model"]["params"].update(novelty=1))
    with pytest.raises(ValueError, match="'novelty', which this version does not know"):
        load(file)


def test_an_unsigned_manifest_is_refused(file):
    rewrite(file, lambda m: m["model"]["params"].update(C=7.0), sign=False)
    with pytest.raises(ValueError, match="was altered"):
        load(file)


def test_compressed_entries_are_refused(file):
    rewrite(file, lambda m: None, compress=zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="compressed"):
        load(file)


def test_an_absurd_shape_is_refused_without_the_memory(file):
    def plant(entries, manifest):
        name, declared = next(iter(manifest["entries"].items()))
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776, 1024), }"
        entries[name] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 64
        declared.update(
            sha256=hashlib.sha256(entries[name]).hexdigest(),
            bytes=len(entries[name]),
            dtype="<f8",
            shape=[1099511627776, 1024],
        )

    rewrite(file, lambda m: None, change_entry=plant)
    with pytest.raises(ValueError, match="with a wrong size"):
        load(file)


def test_sparse_rows_with_wild_indices_are_refused(file):
    def find(node):
        if isinstance(node, dict):
            if node.get("$") == "csr":
                return node
            node = list(node.values())
        if isinstance(node, list):
            return next((f for f in map(find, node) if f), None)
        return None

    def plant(entries, manifest):
        from io import BytesIO

        name = find(manifest["model"])["indices"]["entry"]
        indices = np.load(BytesIO(entries[name])) + 10**6
        stream = BytesIO()
        np.save(stream, indices)
        entries[name] = stream.getvalue()
        manifest["entries"][name]["sha256"] = hashlib.sha256(entries[name]).hexdigest()

    rewrite(file, lambda m: None, change_entry=plant)
    with pytest.raises(ValueError, match="indices holds a number above"):
        load(file)


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"$": "nothing"},
        {"$": "remember"},
        {"$": "same", "number": 99},
        {"$": "range", "items": []},
        3,
    ],
    ids=repr,
)
def test_nonsense_is_one_sentence(file, node):
    rewrite(file, lambda m: m.update(model=node))
    with pytest.raises(ValueError, match=r"m\.mk cannot be opened: "):
        load(file)


def test_deep_nesting_is_one_sentence(file):
    def change(manifest):
        node = []
        for _ in range(900):
            node = [node]
        manifest["model"]["params"]["C"] = node
        manifest["model"]["params"]["verbose"] = {"$": "tuple", "items": node}

    rewrite(file, change)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # Python's own; other tests may have raised it
    try:
        # As many calls are too deep for Python 3.11; later versions need fewer of them, and find what is wrong.
        with pytest.raises(ValueError, match=r"makes no sense\.$|C is \[+…, and no positive number\.$"):
            load(file)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("text", [b"", b"PK", b"hello, world", b"PK\x03\x04 and then nothing"])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "x").write_bytes(text)
    with pytest.raises(ValueError, match=r"x is (not a model file|truncated)"):
        load(tmp_path / "x")


def test_another_zip_is_not_a_model(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ValueError, match="is not a model file"):
        load(tmp_path / "x.zip")


def test_a_model_opens_in_another_process(tmp_path):
    model, X = fitted()
    model.save(tmp_path / "m.mk")
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys, numpy as np, manykernels\n"
        "model = manykernels.load(sys.argv[1] + '/m.mk')\n"
        "np.save(sys.argv[1] + '/F.npy', model.decision_function(np.load(sys.argv[1] + '/X.npy')))\n"
        "assert 'manykernels.cli' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
    assert same(np.load(tmp_path / "F.npy"), scores(model, X))


def test_every_public_class_can_be_written():
    from manykernels import families, kernels, solvers

    bases = {"Family", "Kernel", "Solver", "BatchSolver", "StreamingSolver", "TwoStageSolver"}
    for axis, module in (("families", families), ("kernels", kernels), ("solvers", solvers)):
        for name in module.__all__:
            if hasattr(getattr(module, name), "get_params") and name not in {"Function", *bases}:
                assert name_of(getattr(module, name)) == ("object", f"{axis}.{name}")


def test_every_entry_of_the_table_is_a_class_that_knows_its_name():
    for kind, table in CLASSES.items():
        for name in table:
            assert name_of(class_of(kind, name)) == (kind, name)
    assert set(CLASSES["loss"]) == {*LOSSES, "cox", "one_class"}


def test_a_view_of_too_many_columns_is_refused_before_they_are_named(tmp_path):
    rng = np.random.default_rng(0)
    model = MKLRegressor({"a": Linear(), "b": Linear()}, C=1.0)
    model.fit({"a": rng.normal(size=(20, 2)), "b": rng.normal(size=(20, 1))}, rng.normal(size=20))
    model.columns_ = dataclasses.replace(model.columns_, widths=(2, 2**26))
    model.save(tmp_path / "m.mk")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="the table has other columns than the model"):
            load(tmp_path / "m.mk")
        assert tracemalloc.get_traced_memory()[1] < 2**26  # their names would take gigabytes
    finally:
        tracemalloc.stop()
