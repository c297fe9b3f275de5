"""Files whose arrays were exchanged, cut or altered, with digests that are right: refused in a sentence."""

import io
import json
import os
import time
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.campaigns.mutations import signed

from manykernels import MKLClassifier, MKLRegressor, load
from manykernels._util.shapes import Damaged, Stored, check_arrays, check_like
from manykernels.families import Laplacians
from manykernels.kernels import RBF, Laplacian, Linear
from manykernels.persistence.archive import reading
from manykernels.persistence.checkpoint import Checkpoint
from manykernels.persistence.tree import Decoder
from manykernels.solvers import Blockwise, LpNorm, TriplyStochastic

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3))
y = X[:, 0] * X[:, 1]


# -- what is declared ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (None, "W is missing"),
        ([1.0], "W is no array"),
        (np.ones(3), "W has 1 axes, and not 2"),
        (np.ones((3, 3)), "W has 3 columns, and not 2"),
        (np.ones((3, 2), dtype=int), "W does not hold real numbers"),
        (np.array([[1.0, np.nan]]), "W holds a number that is not finite"),
        (np.array([[1.0, -1.0]]), "W holds a number below 0"),
        (np.array([[1.0, 9.0]]), "W holds a number above 5"),
    ],
)
def test_what_is_wrong_with_an_array_is_said(array, sentence):
    with pytest.raises(Damaged, match=sentence):
        check_arrays({"W": array}, {"W": Stored("n c", least=0.0, most=5.0)}, {"c": 2})


def test_the_first_array_tells_a_size():
    arrays = {"A": np.ones((4, 2)), "b": np.ones(2)}
    assert check_arrays(arrays, {"A": Stored("n c"), "b": Stored("c")}) == {"n": 4, "c": 2}
    with pytest.raises(Damaged, match="b has 3 rows, and not 2"):
        check_arrays(arrays | {"b": np.ones(3)}, {"A": Stored("n c"), "b": Stored("c")})


def test_numbers_whose_sums_overflow_are_refused():
    check_arrays({"W": np.array([1e300, -1e300, 0.0])}, {"W": Stored("n")})
    check_arrays({"W": np.full(4, 3e38, np.float32)}, {"W": Stored("n")})
    for wild in (1e301, -1e301):
        with pytest.raises(Damaged, match=r"W holds a number beyond 1e\+300, too extreme to compute with"):
            check_arrays({"W": np.array([0.0, wild])}, {"W": Stored("n")})


@given(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.sampled_from(["f4", "f8", "i8", "u2"]))
@settings(max_examples=50, deadline=None)
def test_only_arrays_of_the_same_type_and_shape_are_alike(shape, dtype):
    pattern = np.zeros(shape, dtype)
    check_like({"W": pattern + pattern.dtype.type(1)}, {"W": pattern})
    for other in (
        np.zeros([*shape, 1], dtype),
        np.zeros([shape[0] + 1, *shape[1:]], dtype),
        pattern.astype("f2"),
    ):
        with pytest.raises(Damaged, match=r"^W "):
            check_like({"W": other}, {"W": pattern})


# -- models --------------------------------------------------------------------------------------------


def altered(path, change):
    """Write an archive again after `change(arrays)`, which are by the names that the model gives them."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(entries.pop("manifest.json"))
    arrays = {name: np.load(io.BytesIO(value)) for name, value in entries.items()}
    change(manifest, arrays)
    path.write_bytes(signed(manifest, arrays))


def predictor_arrays(node):
    """Return the entries of a predictor's arrays, by name."""
    if isinstance(node, dict) and node.get("$") == "predictor":
        return {name: value["entry"] for name, value in node["arrays"].items()}
    parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return next((found for found in map(predictor_arrays, parts) if found), None)


@pytest.fixture(scope="module")
def grids(tmp_path_factory):
    path = tmp_path_factory.mktemp("grids") / "m.mk"
    solver = Blockwise(grids=8, bins=64, sweeps=1, random_state=0)
    MKLRegressor([Laplacian(1.0)], solver=solver, C=1.0).fit(X, y).save(path)
    return path.read_bytes()


CHANGES = {
    "W": [lambda a: a[:1], lambda a: a * np.nan, lambda a: a[:, :0], lambda a: a.astype(int)],
    "slots": [lambda a: a + 1000, lambda a: a[:1], lambda a: a[:, :5], lambda a: a.astype(float)],
    "seen": [lambda a: a * 0, lambda a: a + 10**6, lambda a: -a - 1, lambda a: a[:-1]],
    "size": [lambda a: a * 2**20, lambda a: a * 0, lambda a: -a, lambda a: a // 2],
    "blocks": [lambda a: a * 2**40, lambda a: a - 1, lambda a: -a, lambda a: np.append(a, 1)],
    "n_features": [lambda a: a + 1, lambda a: a * 2**50, lambda a: a - 1, lambda a: -a],
    "seed": [lambda a: -a - 1, lambda a: a.astype(float)],
    "intercept": [lambda a: np.append(a, 1.0), lambda a: a * np.inf],
}


@pytest.mark.parametrize(
    ("name", "which"), [(name, i) for name in CHANGES for i in range(len(CHANGES[name]))]
)
def test_tables_of_bins_that_were_altered_are_refused(grids, tmp_path, name, which):
    path = tmp_path / "m.mk"
    path.write_bytes(grids)

    def change(manifest, arrays):
        entry = predictor_arrays(manifest["model"])[name]
        arrays[entry] = CHANGES[name][which](arrays[entry])

    altered(path, change)
    with pytest.raises(ValueError, match=r"m\.mk is truncated or damaged: .*\.$"):
        load(path)


def test_a_row_too_narrow_for_the_loops_is_refused():
    solver = Blockwise(grids=8, bins=64, sweeps=1, random_state=0)
    predictor = MKLRegressor([Laplacian(1.0)], solver=solver, C=1.0).fit(X, y).result_.predictor
    with pytest.raises(ValueError, match="X has 2 columns, and the model 3"):
        predictor.scores(X[:, :2])


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (("n_features_in_",), 10**17, "the number of columns makes no sense"),
        (("n_features_in_",), 4, "columns"),
        (("result_", "fields", "C"), 0, "C is 0, and no positive number"),
        (("result_", "fields", "gap_kind"), "sure", "the gap is of no known kind"),
    ],
)
def test_numbers_that_were_altered_are_refused(tmp_path, place, value, sentence):
    path = tmp_path / "m.mk"
    MKLRegressor([RBF(1.0), Linear()], solver=LpNorm(), C=1.0).fit(X, y).save(path)

    def change(manifest, arrays):
        node = manifest["model"]["state"]
        for name in place[:-1]:
            node = node[name]
        node[place[-1]] = value

    altered(path, change)
    with pytest.raises(ValueError, match=f"is truncated or damaged: .*{sentence}"):
        load(path)


def test_a_parameter_is_held_to_the_rules_of_new_ones(tmp_path):
    path = tmp_path / "m.mk"
    MKLRegressor([RBF(1.0)], solver=LpNorm(p=1.5), C=1.0).fit(X, y).save(path)
    altered(path, lambda manifest, arrays: manifest["model"]["params"]["solver"]["params"].update(p=7.0))
    with pytest.raises(ValueError, match=r"is truncated or damaged: p of LpNorm is 7\.0; use"):
        load(path)


def test_a_parameter_of_a_model_is_held_to_its_rules(tmp_path):
    path = tmp_path / "m.mk"
    MKLClassifier([RBF(1.0)], solver=LpNorm(), C=1.0).fit(X, y > 0).save(path)
    altered(path, lambda manifest, arrays: manifest["model"]["params"].update(class_weight=1))
    with pytest.raises(ValueError, match="is truncated or damaged: class_weight of MKLClassifier is 1; use"):
        load(path)


def test_scores_beyond_the_range_of_floats_are_a_sentence(tmp_path):
    path = tmp_path / "m.mk"
    MKLRegressor([Linear()], solver=LpNorm(), C=1.0).fit(X, y).save(path)

    def change(manifest, arrays):
        arrays[predictor_arrays(manifest["model"])["W"]][:] = 1e295

    altered(path, change)
    with pytest.raises(ValueError, match=r"too extreme to compute with \(overflow"):
        load(path).predict(1e20 * np.abs(X))


def test_a_stream_that_was_altered_does_not_go_on(tmp_path):
    path = tmp_path / "m.mk"
    solver = Blockwise(grids=4, bins=16, random_state=0)
    MKLRegressor([Laplacian(1.0)], solver=solver, C=1.0).partial_fit(X, y).save(path)

    def change(manifest, arrays):
        pairs = dict(map(tuple, [(k, v["entry"]) for k, v in manifest["model"]["state"]["state_"]["items"]]))
        arrays[pairs["variance"]] = arrays[pairs["variance"]][:1]

    altered(path, change)
    with pytest.raises(ValueError, match="is truncated or damaged: variance has 1 rows, and not 4"):
        load(path)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_sparse_matrix_whose_indices_lead_astray_is_refused(data):
    rng = np.random.default_rng(0)
    rows = sp.csr_array(rng.random((6, 4)) * (rng.random((6, 4)) < 0.5))
    name = data.draw(st.sampled_from(["indptr", "indices"]))
    parts = {k: getattr(rows, k).copy() for k in ("data", "indices", "indptr")}
    place = data.draw(st.integers(0, len(parts[name]) - 1))
    parts[name][place] = data.draw(
        st.one_of(st.integers(-2, 9), st.integers(-(2**31), 2**31 - 1), st.just(0))
    )
    node = {"$": "csr", "matrix": False, "shape": [6, 4], **{k: {"$": "array", "entry": k} for k in parts}}
    ends = parts["indptr"]
    sound = ends[0] == 0 and ends[-1] == len(parts["data"]) and (np.diff(ends) >= 0).all()
    sound = sound and ((parts["indices"] >= 0) & (parts["indices"] < 4)).all()
    if sound:
        assert Decoder(parts.__getitem__)(node).shape == (6, 4)
    else:
        with pytest.raises(Damaged):
            Decoder(parts.__getitem__)(node)


def test_rows_without_values_that_overlap_are_refused():
    # The last entry says that there are none, and SciPy looks no further; a product then reads beyond the arrays.
    parts = {
        "data": np.ones(3),
        "indices": np.zeros(3, np.int32),
        "indptr": np.array([0, 10**6, 0], np.int32),
    }
    node = {"$": "csr", "matrix": False, "shape": [2, 4], **{k: {"$": "array", "entry": k} for k in parts}}
    with pytest.raises(Damaged, match="the rows of a sparse matrix overlap"):
        Decoder(parts.__getitem__)(node)


def test_a_solver_that_is_none_is_refused(tmp_path):
    path = tmp_path / "m.mk"
    MKLRegressor([RBF(1.0)], solver=LpNorm(), C=1.0).fit(X, y).save(path)
    kernel = {"$": "object", "class": "kernels.Linear", "params": {"columns": None}, "state": {}}
    altered(path, lambda manifest, arrays: manifest["model"]["params"].update(solver=kernel))
    with pytest.raises(ValueError, match=r"m\.mk is truncated or damaged: Linear\(\) is no solver"):
        load(path)


def test_rows_whose_products_overflow_are_refused(tmp_path):
    path = tmp_path / "m.mk"
    MKLRegressor([RBF(1.0)], solver=LpNorm(), C=1.0).fit(X, y).save(path)

    def change(manifest, arrays):
        arrays[predictor_arrays(manifest["model"])["rows"]][-1] = 1e308

    altered(path, change)
    with pytest.raises(ValueError, match="rows holds a number beyond"):
        load(path)


# -- archives and other things -------------------------------------------------------------------------


def test_every_flipped_byte_of_the_directory_is_refused_or_harmless(grids, tmp_path):
    path, said = tmp_path / "m.mk", set()
    for place in range(len(grids) - 700, len(grids), 3):
        broken = bytearray(grids)
        broken[place] ^= 255
        path.write_bytes(broken)
        try:
            with reading(path) as (manifest, decode):
                decode(manifest["model"])
        except ValueError as error:
            said.add(str(error))
    assert said and all(one.startswith(f"{path} ") for one in said)


def test_an_entry_that_claims_more_than_the_file_has_is_not_read(grids, tmp_path):
    path = tmp_path / "m.mk"
    first = grids.rindex(b"PK\x01\x02")
    broken = bytearray(grids)
    broken[first + 20 : first + 28] = b"\xf0\xff\xff\x7f" * 2  # both of its sizes
    path.write_bytes(broken)
    with pytest.raises(ValueError, match="is truncated or damaged"):
        load(path)


def test_what_is_no_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    started = time.monotonic()
    with pytest.raises(ValueError, match="pipe is a pipe or a device, not a model file"):
        load(tmp_path / "pipe")
    with pytest.raises(ValueError, match="loop cannot be opened: "):
        load(tmp_path / "loop")
    with pytest.raises(ValueError, match="/dev/null is a pipe or a device"):
        load("/dev/null")
    with pytest.raises(ValueError, match=r"checkpoint: .*pipe is a pipe or a device"):
        Checkpoint(tmp_path / "pipe")
    assert time.monotonic() - started < 5


# -- checkpoints ---------------------------------------------------------------------------------------


class Enough(Exception):
    pass


class Stopping(Checkpoint):
    """Writes states, and ends the fit after two of them."""

    left = 2

    def __init__(self, path):
        super().__init__(path, pause=0.0, times=0.0)

    def write(self, state):
        super().write(state)
        self.left -= 1
        if not self.left:
            raise Enough


def sweeping():
    solver = Blockwise(grids=4, bins=16, sweeps=2, validation_fraction=0.0, random_state=0)
    return MKLRegressor(Laplacians(), solver=solver, C=1.0)


def stepping():
    solver = TriplyStochastic(n_features=8, block=4, epochs=2, batch_size=8, random_state=0)
    return MKLRegressor([RBF(1.0), Linear()], solver=solver, C=1.0)


@pytest.mark.parametrize(
    ("make", "name", "value", "sentence"),
    [
        (sweeping, "W", np.zeros((1, 1), np.float32), "W has 1 rows, and not "),
        (sweeping, "C", np.zeros(1), "C holds a number below"),
        (sweeping, "pending", np.array([10**6]), "pending is no block"),
        (sweeping, "position", np.array([0, 10**6, 0]), "position is beyond the end"),
        (sweeping, "residuals", np.zeros((3, 1), np.float32), "residuals has 3 rows, and not 120"),
        (sweeping, "values", np.array([[-1.0, np.nan, np.nan]]), "values holds what is no bandwidth"),
        (sweeping, "values", np.array([[1e-175, np.nan, np.nan]]), "values holds what is no bandwidth"),
        (
            sweeping,
            "layout",
            np.array([99]),
            "it is of another version of manykernels, whose arrays have another layout",
        ),
        (
            stepping,
            "n_columns",
            np.array([10**17]),
            "the state is about 100,000,000,000,000,000 columns, and not 3",
        ),
        (stepping, "owner", np.array([10**6]), "owner has 1 rows|owner holds the kernel"),
        (stepping, "V", np.zeros((1, 1)), "mean has 11 rows, and not 1"),
        (stepping, "scale", np.zeros(1), "scale holds a number below"),
        (stepping, "stream_position", np.array([-1, 0]), "stream_position holds a number below 0"),
    ],
)
def test_a_state_that_was_altered_is_refused(tmp_path, make, name, value, sentence):
    path = tmp_path / "fit.ckpt"
    with pytest.raises(Enough):
        make().fit(X, y, checkpoint=Stopping(path))

    def change(manifest, arrays):
        pairs = {key: node["entry"] for key, node in manifest["state"]["items"]}
        assert name in pairs
        arrays[pairs[name]] = value

    altered(path, change)
    pattern = rf"checkpoint: .*fit\.ckpt is truncated or damaged: ({sentence}).*; delete it to start anew"
    with pytest.raises(ValueError, match=pattern):
        make().fit(X, y, checkpoint=path)


def test_a_matrix_that_no_rows_can_give_is_the_files_fault(tmp_path):
    path = tmp_path / "fit.ckpt"
    solver = Blockwise(n_features=8, block=4, sweeps=3, validation_fraction=0.0, random_state=0)
    model, stopping = MKLRegressor([RBF(1.0)], solver=solver, C=1.0), Stopping(path)
    stopping.left = 4
    with pytest.raises(Enough):
        model.fit(X, y, checkpoint=stopping)

    def change(manifest, arrays):
        pairs = {key: node["entry"] for key, node in manifest["state"]["items"]}
        arrays[pairs["curvature"]] *= -1e6

    altered(path, change)
    with pytest.raises(
        ValueError, match=r"checkpoint: .*fit\.ckpt is truncated or damaged: it holds a matrix"
    ):
        model.fit(X, y, checkpoint=path)


def test_a_full_disk_does_not_end_a_fit(tmp_path):
    class Full(Checkpoint):
        tries = 0

        def write(self, state):
            self.tries += 1
            raise OSError(28, "No space left on device")

    full = Full(tmp_path / "fit.ckpt", pause=0.0, times=0.0)
    with pytest.warns(
        UserWarning, match=r"fit\.ckpt cannot be written \(No space left on device\); the fit goes"
    ) as said:
        model = stepping().fit(X, y, checkpoint=full)
    assert full.tries > 1 and sum("cannot be written" in str(w.message) for w in said) == 1
    np.testing.assert_array_equal(
        model.predict(X), stepping().fit(X, y, checkpoint=tmp_path / "x").predict(X)
    )


def test_classes_and_outputs_go_together(tmp_path):
    path = tmp_path / "m.mk"
    MKLClassifier([RBF(1.0)], solver=LpNorm(), C=1.0).fit(X, np.digitize(y, [-0.3, 0.3])).save(path)

    def change(manifest, arrays):
        entry = manifest["model"]["state"]["classes_"]["entry"]
        arrays[entry] = arrays[entry][:2]

    altered(path, change)
    with pytest.raises(ValueError, match="there are 3 outputs, and 2 classes"):
        load(path)
