"""Frames of polars that are but a plan: refused in one sentence, whichever way they come in."""

import narwhals as nw
import pytest

pl = pytest.importorskip("polars")

from manykernels import AlignedKernel, MKLRegressor  # noqa: E402
from manykernels.kernels import Linear  # noqa: E402
from manykernels.streaming import predict_batches  # noqa: E402

FRAME = pl.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 0.0], "y": [1.0, 2.0, 3.0, 5.0]})
PLAN = FRAME.lazy()
X, y = PLAN.select("a", "b"), FRAME["y"].to_numpy()
KERNELS = [Linear(), Linear([0])]


def given():
    return MKLRegressor(KERNELS, C=1.0)


def fitted():
    return given().fit(FRAME.select("a", "b"), y)


WAYS = {
    "targets": lambda: given().fit(X, y),
    "table": lambda: MKLRegressor(C=1.0).fit(X, y),
    "name": lambda: given().fit(PLAN, "y"),
    "narwhals": lambda: given().fit(nw.from_native(PLAN), "y"),
    "batches": lambda: given().fit([PLAN, PLAN], "y"),
    "view": lambda: MKLRegressor(C=1.0).fit({"u": X, "v": FRAME.select("b")}, y),
    "first batch": lambda: MKLRegressor(solver="blockwise", C=1.0).partial_fit(X, y),
    "alignment": lambda: AlignedKernel(KERNELS).fit(X, y),
    "prediction": lambda: fitted().predict(X),
    "predictions": lambda: list(predict_batches(fitted(), PLAN)),
}


@pytest.mark.filterwarnings("error")  # polars warns where somebody asks a plan for its columns
@pytest.mark.parametrize("way", WAYS)
def test_a_plan_is_refused_with_the_remedy(way):
    with pytest.raises(
        ValueError, match=r"X is a LazyFrame, whose rows are not in memory; pass X.collect\(\)"
    ):
        WAYS[way]()


@pytest.mark.parametrize("kernels", ["auto", KERNELS])
def test_targets_that_are_a_plan_are_refused_with_the_remedy(kernels):
    with pytest.raises(ValueError, match=r"y is a LazyFrame, .*; pass y.collect\(\)"):
        MKLRegressor(kernels, C=1.0).fit(FRAME.select("a", "b"), PLAN.select("y"))
