"""Figures hold what the model says, and draw it in the axes they are given."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_iris

from manykernels import MKLClassifier, MKLRegressor
from manykernels.displays import (
    BandwidthsDisplay,
    CalibrationDisplay,
    ComponentsDisplay,
    ConvergenceDisplay,
    InteractionsDisplay,
    PathDisplay,
    WeightsDisplay,
)
from manykernels.displays.calibration import wilson
from manykernels.displays.look import diverging, sequential, shortened, svg, told_apart
from manykernels.families import Products
from manykernels.findings import components
from manykernels.findings.anova import Effect
from manykernels.kernels import Linear
from manykernels.solvers import Greedy, LpNorm, SimpleMKL


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def waves():
    """Return rows of which the first column tells most and the last three nothing."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    return X, np.sin(3 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.standard_normal(300)


@pytest.fixture(scope="module")
def default():
    X, y = waves()
    return MKLRegressor(C=1.0).fit(X[:120], y[:120])


@pytest.fixture(scope="module")
def listed():
    X, y = load_iris(return_X_y=True)
    return MKLClassifier("gaussian", solver=LpNorm(p=1.2), C=1.0).fit(X, y)


@pytest.fixture(scope="module")
def sources():
    X, y = load_iris(return_X_y=True)
    return MKLClassifier(C=1.0).fit({"sepal": X[:, :2], "petal": X[:, 2:]}, y)


# -- weights -------------------------------------------------------------------------------------------


def test_bars_are_the_shares_of_the_table(listed):
    display = WeightsDisplay.from_estimator(listed).plot(top=3)
    shares = listed.combination_.table()["share"].to_numpy()
    bars = [bar.get_width() for bar in display.ax_.patches]
    assert np.allclose(bars[:3], shares[:3])
    assert np.isclose(sum(bars), 1.0)  # the last is what is left over
    texts = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert texts[-1] == f"{np.count_nonzero(shares) - 3} more"


def test_views_add_up_the_shares_of_their_kernels(sources):
    display = WeightsDisplay.from_estimator(sources, by="view")
    table = sources.combination_.table().groupby("view")["share"].sum()
    assert dict(zip(display.labels, display.shares, strict=True)) == pytest.approx(table.to_dict())
    assert display.plot().ax_.get_legend() is None  # the names say it


def test_kernels_of_views_have_the_colour_of_their_view(sources):
    display = WeightsDisplay.from_estimator(sources).plot()
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    colours = {}
    for name, bar in zip(names, display.ax_.patches, strict=True):
        if "[" in name:
            colours.setdefault(name[name.index("[") :], set()).add(bar.get_facecolor())
    assert len(colours) == 2 and all(len(c) == 1 for c in colours.values())
    assert colours["[sepal]"] != colours["[petal]"]


def test_targets_with_own_weights_are_averaged():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    model = MKLRegressor(["linear", "rbf"], solver=LpNorm(), C=1.0, weights="per_target").fit(
        X, np.c_[X[:, 0], np.sin(3 * X[:, 1])]
    )
    display = WeightsDisplay.from_estimator(model)
    assert np.isclose(display.shares.sum(), 1.0) and len(display.labels) == 2


def test_views_are_refused_where_there_are_none(listed):
    with pytest.raises(
        ValueError, match=r"by is 'view', but the model was fitted on one table; use by='kernel'\."
    ):
        WeightsDisplay.from_estimator(listed, by="view")
    with pytest.raises(ValueError, match=r"by is 'column'; it must be 'kernel' or 'view'\."):
        WeightsDisplay.from_estimator(listed, by="column")


# -- bandwidths ----------------------------------------------------------------------------------------


def test_bandwidths_are_those_of_the_heaviest_kernel_of_each_kind(default):
    display = BandwidthsDisplay.from_estimator(default)
    for kind, sigma in display.sigma.items():
        heaviest = next(
            r
            for r in default.combination_.records()
            if r["kernel"].startswith(kind) and len(set(r["sigma"])) > 1
        )
        assert np.array_equal(sigma, heaviest["sigma"])
    order = [int(t.get_text()[1:]) for t in display.plot(top=4).ax_.get_yticklabels()]
    least = np.min(list(display.sigma.values()), axis=0)
    assert order == np.argsort(least)[:4].tolist()


def test_a_category_is_one_column():
    rng = np.random.default_rng(1)
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"x": rng.standard_normal(80), "colour": rng.choice(["red", "green", "blue"], 80)})
    y = table["x"] * (table["colour"] == "red") + 0.1 * rng.standard_normal(80)
    display = BandwidthsDisplay.from_estimator(MKLRegressor(C=1.0).fit(table, y))
    assert set(display.columns) <= {"x", "colour"}


def test_no_bandwidth_per_column_is_said(listed):
    with pytest.raises(ValueError, match="no kernel with a bandwidth per column"):
        BandwidthsDisplay.from_estimator(listed)


# -- convergence ---------------------------------------------------------------------------------------


def test_gap_is_drawn_relative_to_the_objective(listed):
    display = ConvergenceDisplay.from_estimator(listed)
    assert display.what == "gap"
    assert np.allclose(display.values, np.array(listed.trace_.gap) / np.abs(listed.trace_.objective))
    assert display.tol == listed.solver_.tol
    line = display.plot(over="seconds").ax_.lines[0]
    assert np.array_equal(line.get_xdata(), listed.trace_.seconds)


def test_the_default_went_down_on_rows_left_out(default):
    display = ConvergenceDisplay.from_estimator(default)
    assert display.what == "left_out" and len(display.values) > 1
    with pytest.raises(ValueError, match=r"over is 'seconds'; it must be 'iterations'"):
        display.plot(over="seconds")


def test_a_curve_that_was_not_recorded_is_said(listed):
    with pytest.raises(ValueError, match=r"what is 'left_out', which this fit did not record; use 'gap' or"):
        ConvergenceDisplay.from_estimator(listed, what="left_out")


def test_one_iteration_is_no_fraction_of_one():
    display = ConvergenceDisplay(np.array([3.0]), "objective").plot()
    assert all(float(tick).is_integer() for tick in display.ax_.get_xticks())


# -- calibration ---------------------------------------------------------------------------------------


def test_shares_of_two_classes_are_those_of_scikit_learn():
    rng = np.random.default_rng(2)
    p = rng.random(500)
    y = rng.random(500) < p
    display = CalibrationDisplay.from_predictions(y, p, n_bins=5)
    true, said = calibration_curve(y, p, n_bins=5, strategy="quantile")
    assert np.allclose(display.said, said) and np.allclose(display.true, true)
    assert display.counts.sum() == 500


def test_of_many_classes_the_likeliest_is_judged():
    P = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.2, 0.2, 0.6]])
    display = CalibrationDisplay.from_predictions(["a", "b", "a", "c"], P, n_bins=2)
    assert np.allclose(display.said, [0.5, 0.75]) and np.allclose(display.true, [0.5, 1.0])


def test_intervals_of_a_regressor_are_tried_on_new_rows(default):
    X, y = (part[120:] for part in waves())
    display = CalibrationDisplay.from_estimator(default, X, y).plot()
    ends = default.predict_interval(X, alpha=0.5)
    inside = np.mean((y >= ends[:, 0]) & (y <= ends[:, 1]))
    assert display.true[display.said == 0.5] == pytest.approx(inside)
    assert np.all(np.diff(display.true) >= 0)


def test_wilson_holds_the_true_share_as_often_as_it_says():
    rng = np.random.default_rng(3)
    counts = np.full(4000, 30)
    low, high = wilson(rng.binomial(30, 0.1, 4000) / 30, counts)
    # The exact coverage at (30, 0.1) is .974; 4,000 tries have a standard error of .003.
    assert abs(np.mean((low <= 0.1) & (high >= 0.1)) - 0.974) < 0.012


# -- the look ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [WeightsDisplay, ConvergenceDisplay])
def test_a_display_draws_in_the_axes_it_is_given(kind, listed):
    figure, ax = plt.subplots()
    display = kind.from_estimator(listed).plot(ax)
    assert display.ax_ is ax and display.figure_ is figure


@pytest.mark.parametrize("kind", [WeightsDisplay, BandwidthsDisplay, ConvergenceDisplay])
def test_a_model_that_is_not_fitted_is_refused(kind):
    with pytest.raises(ValueError, match="not fitted"):
        kind.from_estimator(MKLClassifier(solver=SimpleMKL()))


def test_svg_takes_the_colour_of_the_page_and_is_the_same_each_time(listed):
    text = svg(ConvergenceDisplay.from_estimator(listed).plot().figure_)
    assert text.startswith("<svg") and "currentColor" in text and ": #000000" not in text
    assert text == svg(ConvergenceDisplay.from_estimator(listed).plot().figure_)


def test_long_labels_lose_their_middle():
    assert shortened("abc") == "abc"
    assert shortened("a" * 50 + "z", 11) == "aaaaa…aaaaz"


def test_long_labels_of_one_kind_still_differ():
    names = [f"concentration of substance {k:03d} in blood plasma" for k in (0, 17, 170)]
    short = told_apart([*names, "age"], 18)
    assert len(set(short)) == 4 and max(map(len, short)) <= 18 and short[-1] == "age"
    assert all(s.startswith("c") and d in s for s, d in zip(short, ("000", "017", "170"), strict=False))
    assert told_apart(["a" * 30] * 2, 11) == ["aaaaa…aaaaa"] * 2


@pytest.mark.parametrize("kind", ["matrix", "network"])
def test_figures_are_legible_in_a_dark_style(kind):
    display = InteractionsDisplay(["a", "b"], np.array([0.7, 0.01]), np.array([[0, 0.02], [0.02, 0]]))
    with plt.style.context("dark_background"):
        display.plot(kind=kind).figure_.canvas.draw()
        assert {t.get_color() for t in display.ax_.texts} <= {"white"}
        lines = ConvergenceDisplay(np.array([1.0, 0.1]), "gap", tol=0.01).plot().ax_.lines
    assert lines[-1].get_color() == "white"


def test_nothing_has_the_colour_of_the_page():
    for colours, nothing in ((diverging(), 0.5), (sequential(), 0.0)):
        assert colours(nothing)[3] < 0.06 and colours(1.0)[3] == 1.0


def test_letters_that_the_font_lacks_are_left_to_the_browser():
    def drawn(name):
        return svg(WeightsDisplay([name, "b"], np.array([0.6, 0.4])).plot().figure_)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "<text" in drawn("温度") and "温度" in drawn("温度") and "<text" in drawn("العمر")
    assert "<text" not in drawn("возраст σ")


def test_panels_that_would_say_nothing_are_left_out(default):
    parts = components(default, waves()[0][:120])
    assert 0 < parts.shares.min() < 5e-4  # there would be more
    shares = ComponentsDisplay.from_components(parts, top=50).shares
    assert len(shares) == np.count_nonzero(parts.shares > 5e-4)


# -- components and interactions -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed():
    """A table with a category, and a model whose columns work together."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"dose": rng.uniform(0, 4, 70), "arm": rng.choice(["a", "b", "c"], 70)})
    y = np.sin(table["dose"]) * (table["arm"] == "a") + 0.05 * rng.standard_normal(70)
    return MKLRegressor(C=10.0).fit(table, y), table


def test_panels_are_the_largest_components_in_the_columns_units(mixed):
    model, table = mixed
    parts = components(model, table)
    display = ComponentsDisplay.from_components(parts, top=3).plot()
    assert display.shares == sorted(display.shares, reverse=True)
    by_name = {e.name: (e, axis) for e, axis in zip(display.effects, display.axes_, strict=True)}
    effect, axis = by_name["dose"]
    line = axis.lines[-1]
    assert np.array_equal(line.get_xdata(), effect.grid[0]) and effect.grid[0].max() <= table["dose"].max()
    assert np.array_equal(line.get_ydata(), parts.effect("dose").values)
    levels = [t.get_text() for t in by_name["arm"][1].get_xticklabels()]
    assert levels == ["a", "b", "c"]


def test_an_axis_of_dates_has_a_few_labels():
    rng = np.random.default_rng(0)
    days = np.sort(rng.choice(2000, 40, replace=False)) + np.datetime64("2018-01-01")
    dose = np.linspace(0, 1, 5)
    grids = {("day",): (days.astype("datetime64[s]"),), ("day", "dose"): (days.astype("datetime64[s]"), dose)}
    effects = []
    for columns, grid in grids.items():
        values = rng.random(tuple(map(len, grid)))
        effects.append(Effect((0,), " × ".join(columns), columns, grid, values, 0 * values))
    display = ComponentsDisplay(effects, [0.7, 0.3]).plot()
    display.figure_.canvas.draw()
    for axis in display.axes_:
        labels = [t.get_text() for t in axis.get_xticklabels()]
        assert 2 <= len(labels) <= 7 and all(label in map(str, range(2014, 2027)) for label in labels)


def test_two_values_are_levels_and_no_line():
    yes = Effect(("a",), "a", ("member",), (np.array([0.0, 1.0]),), np.array([-1.0, 1.0]), np.zeros(2))
    age = Effect(("b",), "b", ("age",), (np.linspace(20, 60, 5),), np.zeros(5), np.zeros(5))
    both = Effect(
        ("a", "b"), "a × b", ("member", "age"), (*yes.grid, *age.grid), np.ones((2, 5)), np.zeros((2, 5))
    )
    display = ComponentsDisplay([yes, both, age], [0.5, 0.3, 0.2]).plot()
    for ax in display.axes_[:2]:
        assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "1"]
    assert [len(line.get_xdata()) for line in display.axes_[2].lines][-1] == 5


def test_names_beside_a_matrix_are_whole():
    names = ["rna", "clinical data, as taken at the first visit", "noise"]
    display = InteractionsDisplay(names, np.full(3, 0.2), np.full((3, 3), 0.01)).plot()
    display.figure_.canvas.draw()
    assert min(text.get_window_extent().x0 for text in display.ax_.get_yticklabels()) > 0


def test_components_need_as_many_axes_as_panels(mixed):
    model, table = mixed
    display = ComponentsDisplay.from_estimator(model, table, top=2)
    with pytest.raises(ValueError, match="ax holds 3 axes, and there are 2 components"):
        display.plot(plt.subplots(1, 3)[1])
    assert len(display.plot(plt.subplots(1, 2)[1]).axes_) == 2


def test_pairs_add_up_the_interactions_of_both_columns(mixed):
    model, table = mixed
    parts = components(model, table)
    display = InteractionsDisplay.from_components(parts)
    share = dict(zip(parts.components, parts.shares, strict=True))
    assert list(display.columns) == ["dose", "arm"]
    assert display.main == pytest.approx([share[(0,)], share[(1,)]])
    assert display.pairs[0, 1] == display.pairs[1, 0] == pytest.approx(share[(0, 1)])


def test_an_interaction_of_three_columns_is_spread_over_its_pairs():
    X = np.random.default_rng(6).standard_normal((80, 3))
    model = MKLRegressor(Products(degree=3), solver=Greedy(max_kernels=1), C=1e4).fit(X, X.prod(axis=1))
    display = InteractionsDisplay.from_estimator(model, X)
    upper = display.pairs[np.triu_indices(3, 1)]
    share = dict(zip((p := components(model, X)).components, p.shares, strict=True))
    pairs = [share.get(S, 0) + share[(0, 1, 2)] / 3 for S in ((0, 1), (0, 2), (1, 2))]
    assert upper == pytest.approx(pairs)


@pytest.mark.parametrize("kind", ["matrix", "network"])
def test_frequencies_of_selection_are_those_of_the_pairs(kind, mixed):
    model, table = mixed
    found = {"member": [(0, 1), (0,), (0, 0, 1)], "frequency": [0.4, 1.0, 0.7]}
    display = InteractionsDisplay.from_estimator(model, table, stability=found)
    assert display.frequency[0, 1] == 0.7 and np.isnan(display.frequency[0, 0])
    assert display.plot(kind=kind).ax_ is not None
    with pytest.raises(ValueError, match="kind is 'tree'; it must be 'matrix' or 'network'"):
        display.plot(kind="tree")


# -- paths ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def path():
    X, y = waves()
    model = MKLRegressor([Linear(columns=[j]) for j in range(5)], solver=LpNorm())
    return model.path(X, y, C=[0.01, 0.1, 1, 10], p=[1, 4 / 3])


def test_curves_are_means_of_the_folds(path):
    display = PathDisplay.from_path(path).plot()
    first, second = display.ax_.get_lines()
    assert np.allclose(first.get_ydata(), path.score[0].mean(axis=1))
    assert second.get_label() == "p = 1.33" and display.ax_.get_xscale() == "log"
    i, j = path.best
    (marked,) = display.ax_.collections[-1].get_offsets()
    assert np.allclose(marked, [path.C[j], path.score[i, j].mean()])
    assert PathDisplay.from_path(path).plot(what="error").ax_.get_ylabel() == "mean loss of rows left out"


def test_the_best_is_named_within_the_axes():
    falling = np.array([[[0.9, 0.8], [0.4, 0.5], [0.1, 0.1]]])
    display = PathDisplay(np.array([0.1, 1.0, 10.0]), np.array([2.0]), falling, best=(0, 2)).plot()
    display.figure_.canvas.draw()
    (word,) = display.ax_.texts
    assert word.get_window_extent().y0 > display.ax_.get_window_extent().y0


def test_shares_are_those_of_the_models(path):
    _, ax = plt.subplots()
    display = PathDisplay.from_path(path).plot(ax, what="shares", p=1)
    assert display.ax_ is ax and len(ax.get_legend().get_texts()) == int(path.shares()[0].any(axis=0).sum())
    heaviest = path.shares()[0].max(axis=0).argmax()
    assert np.allclose(ax.get_lines()[0].get_ydata(), path.shares()[0][:, heaviest])
    with pytest.raises(ValueError, match=r"p is 1.7; the path has 1, 1.33333"):
        display.plot(what="shares", p=1.7)
    with pytest.raises(
        ValueError, match=r"what is 'gap'; it must be 'auto' or one of 'score', 'error', 'shares'"
    ):
        display.plot(what="gap")


def test_a_column_without_a_main_effect_has_its_name():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.normal(size=(80, 2)), columns=["age", "dose"])
    model = MKLRegressor(Products(degree=2), solver=Greedy(max_kernels=1), C=10.0)
    model.fit(table, table["age"] * table["dose"])
    assert InteractionsDisplay.from_estimator(model, table).columns == ["age", "dose"]
