"""The commands ``explain`` and ``report``: what a model file says about the rows of a table."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from ..findings import components, shapley, shares
from ..persistence import load, read_metadata
from ..report import write_report
from ..streaming import Source, views_of
from .beside import target_of, units_of
from .models import check_model
from .screens import count, file_size, note, noted, plain, plain_table, say, stdout, working
from .tables import column_names, open_table_of, table_writer

#: Components that are listed, unless told.
TOP = 15
#: Shares below this are 0.0 %, and are not listed unless asked for.
LEAST = 5e-4
#: What a row may be split by.
PARTS = ("column", "kernel", "view")
#: Rows that margins are taken over: shares and curves settle long before.
MOST_ROWS = 2000


def open_rows(model_path: Path, data: Path, dialect: dict[str, str], target: str | None = None):
    """Return a model, and the rows of a table as it knows them, with the values of a column if one is named."""
    fitted, metadata = load(model_path), read_metadata(model_path)
    check_model(fitted, model_path, proba=False)
    units = units_of(metadata, fitted.n_features_in_, model_path)
    source: Source = open_table_of(fitted, units, data, dialect, target=target)
    chunks = list(source.chunks())
    if not chunks:
        raise ValueError(f"{data} has no rows.")
    (chunk,) = chunks if len(chunks) == 1 else (None,)
    if chunk is None:
        raise ValueError(f"{data} is too large to be explained as a whole; pass some of its rows.")
    X = chunk.X
    if hasattr(getattr(fitted, "columns_", None), "of_table"):
        X = views_of(fitted, source, X)
    y = chunk.y
    if (
        y is not None
        and hasattr(fitted, "classes_")
        and fitted.classes_.dtype != y.dtype
        and y.dtype.kind != "U"
    ):
        y = y.astype(fitted.classes_.dtype)
    return fitted, metadata, X, y


def explain(
    model_path: Path,
    data: Path,
    dialect: dict[str, str],
    *,
    by: str,
    output: Path | None,
    top: int | None,
    as_json: bool,
) -> None:
    """Print the components of a model over the rows of a table, and write each row's parts to a file."""
    if by not in PARTS:
        raise ValueError(f"--by is {by}; use {', '.join(PARTS[:-1])} or {PARTS[-1]}.")
    fitted, metadata, X, _ = open_rows(model_path, data, dialect)
    if by == "view" and not hasattr(fitted, "views_"):
        raise ValueError(f"--by is view, and {model_path} was fitted without views; use column or kernel.")
    some = _some(X)
    with noted(), working("Splitting the predictions ..."):
        parts = components(fitted, some)
        columns = shares(fitted, some)
        views = _views(fitted, some)
        if views:
            _add_worth(views, model_path, data, dialect, target_of(metadata))
    if as_json:
        record: dict[str, Any] = {
            "components": parts.records()[:top],
            "columns": _records(columns.table())[:top],
        }
        record |= {"views": views} if views else {}
        print(json.dumps(plain(record), indent=2, ensure_ascii=False))
    else:
        print_components(parts.records(), top)
        if views:
            _print_views(views)
    if output is not None:
        with working("Splitting every prediction ..."), table_writer(output) as writer:
            writer.write(_row_parts(fitted, X, some, by))
        say(f"Wrote the parts of {count(len(X), 'prediction')} to {output}.")


def report(model_path: Path, data: Path, dialect: dict[str, str], target: str | None, output: Path) -> None:
    """Write a report on a model and the rows that it was fitted on."""
    wanted = target or target_of(read_metadata(model_path))
    if wanted is None:
        raise ValueError(f"{model_path} does not say what its target is called; name it with --target.")
    fitted, _, X, y = open_rows(model_path, data, dialect, wanted)
    with noted(), working("Writing the report ..."):
        write_report(fitted, output, X, y, title=f"{wanted}, from {data.name}")
    say(f"Wrote {output} ({file_size(output)}); open it in a browser.")


def _records(table: Any) -> list[dict[str, Any]]:
    """Return a table of findings as records, whether there is pandas or not."""
    return table if isinstance(table, list) else table.to_dict("records")


def _some(X: Any) -> Any:
    """Return rows that margins are taken over."""
    if len(X) > MOST_ROWS:
        note(f"Shares are taken over {MOST_ROWS:,} of {len(X):,} rows.")
    return X[_some_of(len(X))]


def _some_of(n: int) -> np.ndarray:
    """Return the numbers of rows spread evenly over n, not more than are needed."""
    return np.linspace(0, n - 1, min(n, MOST_ROWS)).astype(int)


def _row_parts(model: Any, X: Any, background: Any, by: str) -> dict[str, np.ndarray]:
    """Return what each row's prediction is made of: one column per column, kernel or view."""
    if by == "column":
        found = shapley(model, X, background)
        values, names = found.values, found.names
    else:
        values = model.contributions(X, by=by)
        family = model.combination_.family
        names = model.views_ if by == "view" else [family.label(z) for z in model.combination_.members]
    if values.ndim == 3:  # a column for each class or target
        outputs = getattr(model, "classes_", np.arange(values.shape[2])).tolist()
        split = {
            f"{name} ({o})": values[:, j, k] for j, name in enumerate(names) for k, o in enumerate(outputs)
        }
    else:
        split = {name: values[:, j] for j, name in enumerate(names)}
    return {"prediction": np.asarray(model.predict(X))} | split


def _views(model: Any, rows: Any) -> list[dict[str, Any]]:
    """Return the share that each view has of the variance of all views' contributions; empty without views."""
    if not hasattr(model, "views_"):
        return []
    values = np.asarray(model.contributions(rows, by="view"))
    spread = values.reshape(*values.shape[:2], -1).var(axis=0).sum(axis=1)
    shares = spread / max(spread.sum(), np.finfo(float).tiny)
    found = [{"view": v, "share": s} for v, s in zip(model.views_, shares.tolist(), strict=True)]
    return sorted(found, key=lambda record: -record["share"])


def _add_worth(
    views: list[dict[str, Any]], model_path: Path, data: Path, dialect, target: str | None
) -> None:
    """Add what each view is worth: the score that is lost without it, where the table has the target."""
    if target is None or target not in column_names(data, dialect):
        return
    fitted, _, X, y = open_rows(model_path, data, dialect, target)
    some = _some_of(len(X))
    worth = {r["view"]: r for r in _records(fitted.view_worth(X[some], y[some]))}
    for record in views:
        if record["view"] in worth:
            record |= {
                key: worth[record["view"]][key] for key in ("rows", "score", "without", "worth", "error")
            }


def _print_views(views: list[dict[str, Any]]) -> None:
    """Print what each view adds and what it is worth, largest share first."""
    judged = any(math.isfinite(record.get("worth", math.nan)) for record in views)
    table: Table = plain_table()
    table.add_column("View", overflow="fold")
    for name in ("Share", "Worth", "±")[: 3 if judged else 1]:
        table.add_column(name, justify="right", no_wrap=True)
    for record in views:
        cells = [f"{100 * record['share']:.1f} %"]
        if judged:
            cells += [f"{value:.3f}" if math.isfinite(value) else "" for value in _worth_of(record)]
        table.add_row(Text(record["view"]), *cells)
    stdout().print(table)
    stdout().print()
    if judged:
        note(
            "Worth is the score that is lost where a view is kept from rows that have another. Of rows that the model "
            "has learned from it is too high: pass others."
        )


def _worth_of(record: dict[str, Any]) -> tuple[float, float]:
    """Return the worth of a view and its error; NaN where no row tells."""
    return record.get("worth", math.nan), record.get("error", math.nan)


def print_components(records: list[dict[str, Any]], top: int | None = None) -> None:
    """Print what the prediction is made of, largest share first; unless told how many, those that count."""
    if top is None:
        top = min(TOP, sum(r["share"] >= LEAST for r in records) or TOP)
    table: Table = plain_table()
    table.add_column("Component", overflow="fold")
    for name in ("Order", "Share", "±"):
        table.add_column(name, justify="right", no_wrap=True)
    for r in records[:top]:
        error = f"{100 * r['standard_error']:.1f}" + ("" if r["exact"] else " (estimate)")
        table.add_row(Text(r["name"]), str(r["order"]), f"{100 * r['share']:.1f} %", error)
    rest = records[top:]
    if rest:
        left = sum(r["share"] for r in rest)
        table.add_row(Text(f"{len(rest):,} more", "dim"), "", Text(f"{100 * left:.1f} %", "dim"), "")
    stdout().print()
    stdout().print(table)
    stdout().print()
