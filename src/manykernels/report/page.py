"""The page of a report: figures, tables and words, in one file that needs no network."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .._util.files import replacing
from .._util.text import as_share, not_installed
from ..displays import (
    BandwidthsDisplay,
    CalibrationDisplay,
    ComponentsDisplay,
    ConvergenceDisplay,
    InteractionsDisplay,
    WeightsDisplay,
)
from ..displays.components import effect_on
from ..displays.look import COLOURS, axes_of, ink, svg, tidy
from .contents import Contents, collect

TEMPLATE = Path(__file__).with_name("page.html.j2")
#: Rows of a table.
MOST = 100
#: Least share of a component in the table, where it is rounded to a hundredth of a per cent.
LEAST = 5e-5


def write_report(model: Any, path: Any, X: Any, y: Any, **options) -> None:
    """Write a report on a fitted model as one HTML file.

    Parameters
    ----------
    model : fitted MKLClassifier, MKLRegressor or MKLSurvival
    path : path that ends in .html
        The file appears when it is complete.
    X, y : the rows the model was fitted on, and their targets
    **options : title, baselines, stability, seed
        See :func:`~manykernels.report.collect`.
    """
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path is {os.fspath(path)!r}; it must end in .html.")
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise FileNotFoundError(f"The directory of {os.fspath(path)} does not exist; create it first.")
    if lack := lacking():
        raise ImportError(lack)
    text = render(collect(model, X, y, **options)).encode("utf-8")
    with replacing(os.path.realpath(path)) as stream:
        stream.write(text)


def lacking() -> str:
    """Return what to install before a report can be written, nothing where it is there."""
    if all(map(find_spec, ("jinja2", "matplotlib"))):
        return ""
    return not_installed("A report needs jinja2 and matplotlib", "report")


def render(contents: Contents) -> str:
    """Return the page."""
    from jinja2 import Environment, StrictUndefined

    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return page.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        c=contents,
        model=contents.model,
        kernels=[record for record in contents.model.combination_.records() if record["weight"]],
        most=MOST,
        notes=getattr(getattr(contents.model, "columns_", None), "notes", ()),
        parts=_parts(contents),
        n_parts=0 if contents.components is None else len(contents.components.components),
        frequencies=_frequencies(contents.stability),
        gap=_gap(contents.model),
        figures=figures(contents),
        today=date.today().isoformat(),
    )


def _parts(contents: Contents) -> list[dict[str, Any]]:
    """Return the components whose share is more than nothing when it is rounded, the largest."""
    if contents.components is None:
        return []
    return [record for record in contents.components.records()[:MOST] if record["share"] >= LEAST]


def figures(contents: Contents) -> dict[str, str]:
    """Return the figures that can be drawn, as SVG, by name."""
    import matplotlib.pyplot as plt

    model, parts = contents.model, contents.components
    drawn: dict[str, Callable[[], Any]] = {
        "kernels": lambda: WeightsDisplay.from_estimator(model).plot().figure_,
        "views": lambda: WeightsDisplay.from_estimator(model, by="view").plot().figure_,
        "bandwidths": lambda: BandwidthsDisplay.from_estimator(model).plot().figure_,
        "convergence": lambda: _course(model),
    }
    if parts is not None:
        drawn["effects"] = lambda: (
            ComponentsDisplay.from_components(parts, name=effect_on(model)).plot().figure_
        )
        drawn["interactions"] = lambda: _interactions(contents)
    if contents.left_out is not None:
        name, draw = ("calibration", _calibration) if contents.classifies else ("residuals", _residuals)
        drawn[name] = lambda: draw(contents)
    out = {}
    for name, make in drawn.items():
        with plt.style.context("default"):  # the page's look, whatever style is in use
            try:
                figure = make()
            except ValueError:  # there is nothing of the kind: one table, no bandwidths per column
                continue
            out[name] = svg(figure)
            plt.close(figure)
    return out


def _interactions(contents: Contents) -> Any:
    """Return which columns work together, of several."""
    display = InteractionsDisplay.from_components(contents.components, stability=contents.stability)
    if len(display.columns) < 2:
        raise ValueError("One column works alone.")
    return display.plot().figure_


def _calibration(contents: Contents) -> Any:
    """Return how probabilities keep their word on rows left out."""
    assert contents.left_out is not None
    known = np.isfinite(contents.left_out).all(axis=1)
    y, said = contents.y[known], contents.left_out[known]
    return CalibrationDisplay.from_predictions(y, said, contents.model.classes_).plot().figure_


def _course(model: Any) -> Any:
    """Return the course of a fit of several steps."""
    display = ConvergenceDisplay.from_estimator(model)
    if np.count_nonzero(np.isfinite(display.values)) < 2:
        raise ValueError("One step is no course.")
    return display.plot().figure_


def _residuals(contents: Contents) -> Any:
    """Return targets over predictions, each by a model that has not seen it."""
    assert contents.left_out is not None
    figure, ax = axes_of(None, "A report", (4.4, 4.0))
    both = np.concatenate([contents.y, contents.left_out])
    ends = [float(np.nanmin(both)), float(np.nanmax(both))]
    light = min(1.0, 12 / np.sqrt(contents.n_rows))
    ax.plot(ends, ends, color=ink(), linestyle=":", linewidth=1)
    ax.scatter(contents.left_out, contents.y, s=10, alpha=light, color=COLOURS[0], rasterized=True)
    ax.set_xlabel("predicted, row left out")
    ax.set_ylabel("target")
    tidy(ax)
    return figure


def _gap(model: Any) -> dict[str, Any]:
    """Return the certificate in figures."""
    relative = max(model.gap_, 0.0) / max(abs(model.objective_), 1e-300)
    said = as_share(model.gap_, model.objective_)
    return {
        "relative": relative,
        "said": said,
        "kind": model.gap_kind_,
        "known": bool(np.isfinite(model.gap_)),
    }


def _frequencies(stability: Any) -> list[dict[str, Any]]:
    """Return how often kernels were selected over half samples, most often first."""
    if stability is None:
        return []
    columns = zip(stability["kernel"], stability["frequency"], strict=True)
    return sorted(
        ({"kernel": str(k), "frequency": float(f)} for k, f in columns), key=lambda r: -r["frequency"]
    )
