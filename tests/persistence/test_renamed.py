"""Parameters that had another name in earlier versions, or that are no more, are found in old model files."""

from manykernels.persistence.tree import RENAMED, Decoder, Encoder
from manykernels.solvers import Blockwise


def test_a_parameter_of_an_old_file_has_its_new_name():
    encode = Encoder()
    tree = encode(Blockwise(grids=7, validation_fraction=0.25), "solver")
    for old, new in RENAMED["solvers.Blockwise"].items():
        tree["params"][old] = True if new is None else tree["params"].pop(new)
    loaded = Decoder(encode.arrays.__getitem__)(tree)
    assert loaded.grids == 7 and loaded.validation_fraction == 0.25
    assert not hasattr(loaded, "tune_C")
