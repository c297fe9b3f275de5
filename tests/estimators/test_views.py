"""Views in the estimators: kernels and weights per view, rows that lack one, and the same model from every form."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from manykernels import MKLClassifier, MKLRegressor, Views, load
from manykernels.families import Gaussians, Laplacians
from manykernels.kernels import RBF, Linear
from manykernels.solvers import Alignment, Greedy, LeaveOneOut, LpNorm, Uniform

SOLVERS = [LpNorm(), Uniform(), Alignment()]


def sources(n=90, seed=0):
    """Return two views that matter and one of noise, and numbers that the first two make."""
    rng = np.random.default_rng(seed)
    views = {"p": rng.normal(size=(n, 3)), "q": rng.normal(size=(n, 2)), "noise": rng.normal(size=(n, 4))}
    return views, np.sin(2 * views["p"][:, 0]) + views["q"][:, 1] + 0.1 * rng.normal(size=n)


def with_holes(views, seed=1):
    """Return the views, each missing from a quarter of the rows, and no row without any."""
    rng = np.random.default_rng(seed)
    holes = {name: X.copy() for name, X in views.items()}
    n = len(views["p"])
    for name in ("p", "q"):
        holes[name][rng.random(n) < 0.25] = np.nan
    return holes


def taken(views, rows):
    return {name: X[rows] for name, X in views.items()}


@pytest.fixture(scope="module")
def fitted():
    views, y = sources()
    return MKLRegressor().fit(views, y), views, y


def test_the_default_finds_the_views_that_matter(fitted):
    model, _, _ = fitted
    share = model.combination_.table().groupby("view")["share"].sum()
    assert share["p"] > 0.2 and share["q"] > 0.2
    assert share.get("noise", 0.0) < 0.05
    assert model.loo_score_ > 0.6


def test_every_form_of_views_gives_the_same_model(fitted):
    model, views, y = fitted
    frame = pd.concat({name: pd.DataFrame(X) for name, X in views.items()}, axis=1)
    for X in (Views(views), frame, {name: pd.DataFrame(X) for name, X in views.items()}):
        assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(views))
    listed = clone(model).fit(list(views.values()), y)
    assert_array_equal(listed.predict(list(views.values())), model.predict(views))


def test_a_model_of_views_comes_back_from_a_file(fitted, tmp_path):
    model, views, _ = fitted
    model.save(tmp_path / "model.mk")
    again = load(tmp_path / "model.mk")
    assert_array_equal(again.predict(views), model.predict(views))
    assert_array_equal(again.predict({"q": views["q"]}), model.predict({"q": views["q"]}))


def test_predictions_work_for_any_view_and_contributions_add_up(fitted):
    model, views, _ = fitted
    for some in (["p"], ["q", "noise"], ["noise"], ["p", "q"]):
        assert np.isfinite(model.predict({name: views[name] for name in some})).all()
    parts = model.contributions(views).sum(axis=1) + model.intercept_
    assert_allclose(parts, model.predict(views), rtol=1e-9, atol=1e-9)  # sums in another order


def test_contributions_of_views_tell_what_a_prediction_rests_on(fitted):
    model, views, _ = fitted
    assert model.views_ == ["p", "q", "noise"]
    parts = model.contributions(views, by="view")
    assert parts.shape == (90, 3)
    assert_allclose(parts.sum(axis=1) + model.intercept_, model.predict(views), rtol=1e-9, atol=1e-9)
    some = model.contributions({"q": views["q"]}, by="view")
    assert_array_equal(np.isfinite(some).all(axis=0), [False, True, False])
    with pytest.raises(AttributeError, match="has no views"):
        getattr(MKLRegressor([Linear()], C=1.0).fit(views["p"], views["q"][:, 0]), "views_")  # noqa: B009


def test_rows_that_lack_views_teach_and_are_predicted():
    views, y = sources(160)
    holes = with_holes(views)
    train, test = np.arange(110), np.arange(110, 160)
    model = MKLRegressor().fit(taken(holes, train), y[train])
    whole = MKLRegressor().fit(taken(views, train), y[train])
    r2 = model.score(taken(holes, test), y[test])
    assert 0.25 < r2 < whole.score(taken(views, test), y[test])
    lacks = ~np.isfinite(holes["p"][test]).all(axis=1)
    assert_allclose(
        model.predict(taken(holes, test))[lacks],
        model.predict({k: v[test][lacks] for k, v in holes.items() if k != "p"}),
        rtol=1e-9,
    )


def copies(n=80, seed=0):
    """Return three views that tell the same, with noise of their own, and numbers that it makes."""
    rng = np.random.default_rng(seed)
    told = rng.normal(size=(n, 2))
    views = {name: told + 0.5 * rng.normal(size=(n, 2)) for name in ("p", "q", "r")}
    return views, told.sum(axis=1)


def summands(n=80, seed=0):
    """Return three views whose effects add up, and their sum."""
    rng = np.random.default_rng(seed)
    views = {name: rng.normal(size=(n, 2)) for name in ("p", "q", "r")}
    return views, sum(X[:, 0] for X in views.values())


@pytest.mark.parametrize("solver", [LeaveOneOut(), *SOLVERS], ids=str)
def test_rows_left_out_tell_whether_sources_stand_for_each_other(solver):
    for make, balances in ((copies, True), (summands, False)):
        views, y = make(160)
        model = MKLRegressor(dict.fromkeys(views, RBF(2.0)), solver=clone(solver), C=10.0)
        family = model.fit(with_holes(views), y).combination_.family
        assert (family.balance is not None) == balances


@pytest.mark.parametrize("solver", ["auto", *SOLVERS], ids=str)
def test_the_kernel_of_rows_that_lack_views_is_balanced_by_definition(solver):
    """κ(x, z) = Σ_v θ_v κ_v(x, z) p_v(x) p_v(z) / √(q(x) q(z)), q the share of the weights that a row has."""
    views, y = copies()
    kernels = "auto" if solver == "auto" else dict.fromkeys(views, RBF(2.0))
    model = MKLRegressor(kernels, solver=solver).fit(with_holes(views), y)
    X = model.columns_.transform(with_holes(views))
    c = model.combination_
    theta = c.weights * c.rho**2
    K, q = 0.0, 0.0
    for (k, own), w, t in zip(c.members, c.weights, theta, strict=True):
        view = c.family.families()[k]
        p = X[:, view.presence]
        inner = view.family.gram(
            X[:, view.first : view.last], X[:, view.first : view.last], [own], np.ones(1)
        )
        K = K + w * inner * np.outer(p, p)
        q = q + t * p / theta.sum()
    assert_allclose(c.gram(X), K / np.sqrt(np.outer(q, q)), rtol=1e-10, atol=1e-12)
    F = c.gram(X) @ model.dual_coef_ + model.intercept_
    assert_allclose(F[:, 0], model.predict(with_holes(views)), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_lists_of_kernels_on_views_are_those_on_columns(solver):
    views, y = sources(60)
    flat = np.hstack([views["p"], views["q"]])
    kernels = {"p": RBF(2.0), "q": Linear()}
    on_views = MKLRegressor(kernels, solver=solver, C=2.0).fit({k: views[k] for k in "pq"}, y)
    on_columns = MKLRegressor(
        [RBF(2.0, columns=[0, 1, 2]), Linear(columns=[3, 4])], solver=clone(solver), C=2.0
    ).fit(flat, y)
    assert_allclose(on_views.weights_, on_columns.weights_, rtol=1e-6)
    assert_allclose(on_views.predict({k: views[k] for k in "pq"}), on_columns.predict(flat), rtol=1e-6)


def test_a_search_goes_over_the_kernels_of_all_views():
    views, y = sources(60)
    model = MKLRegressor({"p": Gaussians(), "q": Gaussians()}, solver=Greedy(max_kernels=4), C=5.0)
    model.fit(views, y)
    assert set(model.combination_.table()["view"]) == {"p", "q"}


def test_views_without_kernels_are_left_out_and_columns_have_names():
    views, y = sources(60)
    frames = {
        name: pd.DataFrame(X, columns=[f"{name}{j}" for j in range(X.shape[1])]) for name, X in views.items()
    }
    kernels = {"p": RBF(2.0, columns=["p0"]), "noise": None}
    model = MKLRegressor(kernels, solver=LpNorm(), C=1.0).fit(frames, y)
    assert model.combination_.table()["kernel"].tolist() == ["rbf(σ=2)[p0][p]"]
    assert_array_equal(model.predict(frames), model.predict({"p": frames["p"]}))


def test_bandwidths_of_a_view_are_its_own():
    views, y = sources()
    model = MKLRegressor({"p": Laplacians(ard=True), "q": "auto"}).fit(views, y)
    table = model.combination_.table()
    widths = [len(sigma) for sigma in table["sigma"][table["view"] == "p"] if isinstance(sigma, list)]
    assert set(widths) <= {3}
    assert set(table["view"]) <= {"p", "q"}


def test_cross_validation_and_grid_search_split_views():
    views, y = sources(60)
    model = MKLRegressor({"p": RBF(1.0), "q": RBF(1.0)}, solver=LpNorm(), C=5.0)
    assert len(cross_val_score(model, Views(views), y, cv=3)) == 3
    search = GridSearchCV(model, {"kernels__p__sigma": [0.5, 3.0], "kernels__q": [Linear(), RBF(2.0)]}, cv=2)
    search.fit(Views(views), y)
    assert set(search.best_params_) == {"kernels__p__sigma", "kernels__q"}
    assert model.kernels["p"].sigma == 1.0  # the user's own object is as it was


def test_kernels_of_a_view_may_have_names_of_their_own():
    views, y = sources(30)
    model = MKLRegressor({"p": {"narrow": RBF(1.0), "wide": RBF(4.0)}, "q": Linear()}, solver=LpNorm(), C=1.0)
    other = clone(model).set_params(kernels__p__narrow__sigma=0.5, kernels__q=RBF(2.0), kernels__q__sigma=3.0)
    assert other.get_params()["kernels__p__narrow__sigma"] == 0.5 and other.kernels["q"].sigma == 3.0
    assert model.kernels["p"]["narrow"].sigma == 1.0
    assert set(model.fit(views, y).combination_.table()["kernel"]) == {"narrow[p]", "wide[p]", "linear[q]"}
    assert (
        MKLRegressor({"p": RBF(), "p__q": RBF()}).set_params(kernels__p__q__sigma=7.0).kernels["p__q"].sigma
        == 7
    )
    with pytest.raises(ValueError, match=r"kernels__p__0__sigma cannot be set, .* several of them in a dict"):
        MKLRegressor({"p": [RBF(1.0), RBF(4.0)]}).set_params(kernels__p__0__sigma=2.0)
    with pytest.raises(ValueError, match="kernels in a list have no names; pass a dict"):
        MKLRegressor([RBF(1.0)]).set_params(kernels__0__sigma=2.0)


def test_a_list_of_frames_is_views_at_prediction_too():
    views, y = sources(30)
    model = MKLRegressor({"view0": Linear(), "view1": Linear()}, solver=LpNorm(), C=1.0)
    frames, arrays = [pd.DataFrame(views["p"]), pd.DataFrame(views["q"])], [views["p"], views["q"]]
    assert_array_equal(model.fit(frames, y).predict(frames), clone(model).fit(arrays, y).predict(arrays))


def test_many_views_that_tell_the_same_all_stay():
    rng = np.random.default_rng(0)
    told = rng.integers(2, size=80)
    views = {f"v{k}": told[:, None] + 1.5 * rng.normal(size=(80, 2)) for k in range(24)}
    model = MKLClassifier(dict.fromkeys(views, Linear()), solver=LeaveOneOut()).fit(views, told)
    shares = model.combination_.table().groupby("view")["share"].sum()
    assert len(shares) >= 16 and shares.max() < 0.2  # some are no better than chance


@pytest.mark.parametrize(
    "kernels, said",
    [
        (
            {"p": RBF(1.0), "r": RBF(1.0)},
            "kernels names the view 'r', which X does not have; it has 'p', 'q', 'noise'",
        ),
        ({"p": None}, "kernels names no view"),
    ],
)
def test_kernels_for_views_that_are_not_there_are_refused(kernels, said):
    views, y = sources(30)
    with pytest.raises(ValueError, match=said):
        MKLRegressor(kernels, C=1.0).fit(views, y)


def test_classes_of_views():
    views, y = sources(100)
    labels = np.where(y > 0, "high", "low")
    model = MKLClassifier().fit(views, labels)
    assert model.score(views, labels) > 0.8
    assert_allclose(model.predict_proba(views).sum(axis=1), 1.0)


def test_a_view_is_worth_what_rows_lose_without_it(fitted):
    model, _, _ = fitted
    new, y = sources(300, seed=5)
    new["q"][:100] = np.nan
    worth = model.view_worth(new, y).set_index("view")
    assert list(worth.index[:2]) in (["p", "q"], ["q", "p"])
    assert worth.loc["q", "rows"] == 200
    rows = np.arange(100, 300)
    with_it, without = (
        1 - np.mean((F - y[rows]) ** 2) / np.var(y)
        for F in (
            model.predict(taken(new, rows)),
            model.predict({name: X[rows] for name, X in new.items() if name != "q"}),
        )
    )
    assert_allclose(
        worth.loc["q", ["score", "without", "worth"]].tolist(), [with_it, without, with_it - without]
    )
    assert abs(worth.loc["noise", "worth"]) <= 0.02 < worth.loc["q", "error"] * 10
    assert worth.loc["q", "worth"] > 4 * worth.loc["q", "error"]


def test_worth_on_training_rows_is_of_models_that_have_not_seen_them():
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(60, 2)), "b": rng.normal(size=(60, 30))}
    y = np.where(views["a"][:, 0] + 0.3 * rng.normal(size=60) > 0, "yes", "no")
    model = MKLClassifier({"a": Linear(), "b": RBF(3.0)}, solver=Uniform(), C=100.0).fit(views, y)
    seen, fair = (model.view_worth(views, y, cv=cv).set_index("view")["worth"] for cv in (None, 5))
    assert fair["a"] > 0.1
    assert seen["b"] > fair["b"]  # the noise was learned by heart


@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        (np.zeros((4, 9)), np.zeros(4), "X is a ndarray; pass the views, such as a dict with 'p'"),
        (sources(5)[0], np.zeros(4), "X has 5 rows, y 4 and sample_weight 5; they must agree"),
    ],
)
def test_worth_of_what_is_no_views_is_refused(fitted, X, y, said):
    with pytest.raises(ValueError, match=said):
        fitted[0].view_worth(X, y)


def test_sample_weights_are_routed_through_a_pipeline():
    from sklearn import config_context
    from sklearn.metrics import get_scorer
    from sklearn.model_selection import cross_validate
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    views, y = sources(60)
    s = np.where(np.arange(60) < 30, 1.0, 0.0)
    with config_context(enable_metadata_routing=True):
        model = MKLRegressor({"p": RBF(2.0)}, solver=LpNorm(), C=1.0)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        chain = Pipeline([("same", FunctionTransformer()), ("mkl", model)])
        chain.fit(Views(views), y, sample_weight=s)
        alone = clone(model).fit(views, y, sample_weight=s)
        assert_array_equal(chain.predict(Views(views)), alone.predict(views))
        weights = {"sample_weight": np.ones(60)}
        scorer = get_scorer("r2").set_score_request(
            sample_weight=True
        )  # 1.6.0 passes none to a pipeline's own
        scores = cross_validate(chain, Views(views), y, cv=3, scoring=scorer, params=weights)
        assert np.isfinite(scores["test_score"]).all()


def test_targets_that_name_the_rows_in_another_order_are_refused():
    views, y = sources(40)
    del views["noise"]
    frames = {"p": pd.DataFrame(views["p"]), "q": pd.DataFrame(views["q"]).iloc[::-1]}
    model = MKLRegressor({"p": RBF(2.0), "q": Linear()}, solver=LpNorm(), C=1.0)
    expected = model.fit(views, y).predict(views)
    turned = pd.Series(y).iloc[::-1]
    with pytest.raises(ValueError, match=r"y has the names of the rows of X in another order.*y\.loc"):
        model.fit(frames, turned)
    assert_allclose(model.fit(frames, turned.loc[Views(frames).index]).predict(views), expected)


@pytest.mark.parametrize("solver", ["leave_one_out", "uniform"])
def test_views_that_only_rows_to_come_lack_are_stood_for_where_sources_tell_the_same(solver, monkeypatch):
    for make, balances in ((copies, True), (summands, False)):
        views, y = make(240)
        train, test = taken(views, slice(0, 120)), taken(views, slice(120, None))
        model = MKLRegressor(dict.fromkeys(views, Linear()), solver=solver).fit(train, y[:120])
        assert (model.combination_.family.balance is not None) == balances
        with monkeypatch.context() as patch:
            for module in ("leave_one_out", "balancing"):
                patch.setattr(f"manykernels.solvers.{module}.balance_will_pay", lambda *_: False)
            plain = clone(model).fit(train, y[:120])
        assert_array_equal(model.predict(test), plain.predict(test))  # rows that have all views
        del test["p"]
        error, its = (np.square(m.predict(test) - y[120:]).mean() for m in (model, plain))
        assert error < 0.9 * its if balances else error == its
