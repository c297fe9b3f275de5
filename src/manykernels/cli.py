"""The command line: fit, predict, show and demo on tables in CSV, Parquet or Arrow files."""

from __future__ import annotations

import csv
import functools
import json
import math
import os
import sys
import time
import warnings
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import numpy as np

try:
    import pyarrow as pa
    import typer
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
except ImportError:  # main() says what is missing
    typer = None  # type: ignore[assignment]

#: Whole numbers with at most this many distinct values are classes, unless --task says otherwise.
MOST_CLASSES = 20
#: Rows of a kernel table on the screen.
TOP = 20
BAR = 20


def main() -> None:
    """Run the command line."""
    if typer is None:
        sys.exit("The command line needs typer, rich and pyarrow: pip install 'manykernels[cli]'")
    for stream in (sys.stdout, sys.stderr):  # σ and · must not stop a run on an old terminal
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    application()()


def application() -> typer.Typer:
    """Return the command line as a typer application."""
    app = typer.Typer(
        name="manykernels",
        help="Learn which kernels to combine, and the predictor on top of them, from a table.",
        epilog="Start with: manykernels demo",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for command in (fit, predict, show, demo):
        app.command()(_in_one_sentence(command))
    return app


def _show_version(wanted: bool):
    if wanted:
        from . import __version__

        typer.echo(f"manykernels {__version__}")
        raise typer.Exit()


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version),
    ] = False,
):
    pass


def _in_one_sentence(command):
    """Turn an exception into one red sentence and exit code 2, unless --debug is given."""

    @functools.wraps(command)
    def run(*args, debug=False, **kwargs):
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:  # the reader, such as head, has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit() from None
        except Exception as error:
            if debug or isinstance(error, typer.Exit):
                raise
            text = " ".join(str(error).split()) or type(error).__name__
            if not isinstance(error, ValueError | OSError | ImportError):
                text = f"{type(error).__name__}: {text} (--debug shows where.)"
            _stderr().print(Text(text, style="red"), soft_wrap=True)
            raise typer.Exit(2) from None

    return run


# -- commands ------------------------------------------------------------------------------------------

_DATA = "A table: CSV, TSV, Parquet, Arrow or Feather."
_DEBUG = "Show the traceback of an error."


def fit(
    data: Annotated[Path, typer.Argument(help=_DATA, metavar="DATA", show_default=False)],
    target: Annotated[str, typer.Option("--target", "-t", help="The column to predict.", show_default=False)],
    kernels: Annotated[
        str, typer.Option(help="gaussian, laplacian, linear, or products of columns.")
    ] = "gaussian",
    degree: Annotated[
        int | None,
        typer.Option(help="Most factors of a product (kernels: products), 2 by default."),
    ] = None,
    solver: Annotated[str, typer.Option(help="auto, lp-norm, simple-mkl, silp, uniform, ...")] = "auto",
    p: Annotated[
        float | None,
        typer.Option(help="Norm over kernels, 1 < p <= 2: the smaller, the sparser (lp-norm)."),
    ] = None,
    loss: Annotated[str, typer.Option(help="auto, hinge, logistic, softmax, squared, ...")] = "auto",
    C: Annotated[
        float, typer.Option("--C", "-C", help="Weight of the losses against the norm, as in SVC.")
    ] = 1.0,
    task: Annotated[str, typer.Option(help="auto, classify or regress.")] = "auto",
    columns: Annotated[
        list[str] | None, typer.Option(help="Use these columns only: a,b,c.", show_default=False)
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Use all columns but these: id,date.", show_default=False),
    ] = None,
    standardize: Annotated[
        bool, typer.Option(help="Bring columns to mean 0 and deviation 1; predict does the same.")
    ] = True,
    test_size: Annotated[
        float, typer.Option(help="Share of the rows held out for the score; 0 fits on all rows.")
    ] = 0.25,
    seed: Annotated[int, typer.Option(help="Of the split into training and test rows.")] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file.")] = Path("model.mk"),
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite the model file.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help=_DEBUG)] = False,
):
    """Fit a model to a table, score it on held-out rows, and write it to a file."""
    from .persistence import save

    table = read_table(data)
    _may_write(output, force)
    y, classify = read_target(table, target, task)
    names = choose_columns(table, target, columns, drop)
    X = read_numbers(table, names)
    train, test = split(len(y), y if classify else None, test_size, seed)
    mean, scale = moments(X[train]) if standardize else (np.zeros(len(names)), np.ones(len(names)))
    model = make_model(classify, kernels, degree, solver, p, loss, C, seed)

    kind = f"{len(np.unique(y))} classes" if classify else "regression"
    _stdout().print(f"{data.name}: {len(y):,} rows, {len(names)} columns, target {target} ({kind})")
    started = time.perf_counter()
    fit_visibly(model, named((X[train] - mean) / scale, names), y[train])
    seconds = time.perf_counter() - started

    metadata = {
        "target": target,
        "columns": names,
        "mean": mean,
        "scale": scale,
        "n_train": len(train),
        "seconds": seconds,
        "score": held_out(model, named((X[test] - mean) / scale, names), y[test], y[train]),
    }
    save(model, output, metadata=metadata)
    print_model(model, metadata)
    _stdout().print(f"Wrote {output} ({_size(output)}).", soft_wrap=True, highlight=False)


def predict(
    model: Annotated[Path, typer.Argument(help="A model file.", metavar="MODEL", show_default=False)],
    data: Annotated[Path, typer.Argument(help=_DATA, metavar="DATA", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="CSV, Parquet or Feather; CSV on the screen by default."),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add class probabilities (logistic or softmax loss).")
    ] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite the output file.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help=_DEBUG)] = False,
):
    """Predict the target of every row of a table."""
    from .persistence import load, read_metadata

    if output is not None:
        _may_write(output, force)
        _extension(output, ("csv", "parquet", "feather", "arrow"))
    fitted, metadata = load(model), read_metadata(model)
    rows = model_rows(fitted, metadata, read_table(data), model)
    if proba and not hasattr(fitted, "predict_proba"):
        raise ValueError(
            f"{model} has no probabilities, as its loss is {fitted.loss_.name}; fit it with --loss logistic."
        )
    answer = np.asarray(fitted.predict(rows))
    columns = (
        {"prediction": answer}
        if answer.ndim == 1
        else {f"prediction_{k}": answer[:, k] for k in range(answer.shape[1])}
    )
    if proba:
        values = fitted.predict_proba(rows)
        columns |= {f"probability_{c}": values[:, k] for k, c in enumerate(fitted.classes_)}
    write_table(columns, output)
    if output is not None:
        _stdout().print(f"Wrote {len(answer):,} predictions to {output}.", soft_wrap=True, highlight=False)


def show(
    model: Annotated[Path, typer.Argument(help="A model file.", metavar="MODEL", show_default=False)],
    top: Annotated[
        int | None,
        typer.Option(help="List this many kernels: 20 by default, all with --json.", min=0),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help=_DEBUG)] = False,
):
    """Show what a model file holds: its kernels, their weights, the objective and its gap."""
    from .persistence import load, read_metadata

    fitted, metadata = load(model), read_metadata(model)
    if not as_json:
        print_model(fitted, metadata, TOP if top is None else top)
        return
    record = {
        "estimator": type(fitted).__name__,
        "solver": repr(fitted.solver_),
        "loss": fitted.loss_.name,
        "C": fitted.C,
        "objective": fitted.objective_,
        "gap": fitted.gap_,
        "gap_kind": fitted.gap_kind_,
        "n_iter": fitted.n_iter_,
        "converged": fitted.converged_,
        "classes": getattr(fitted, "classes_", None),
        "intercept": fitted.intercept_,
        "n_kernels": len(fitted.combination_),
        "kernels": fitted.combination_.table()[:top],
        "metadata": metadata,
    }
    print(json.dumps(_plain(record), indent=2, ensure_ascii=False))


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write.")] = Path("demo-output"),
    seed: Annotated[int, typer.Option(help="Of the split and of the noise.")] = 0,
    debug: Annotated[bool, typer.Option("--debug", help=_DEBUG)] = False,
):
    """See it work: handwritten digits, with useful and useless groups of columns. Takes seconds."""
    from .demo import run

    run(output, seed)


# -- tables --------------------------------------------------------------------------------------------


def read_table(path: Path) -> pa.Table:
    """Read a table by the ending of its name."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    kind = _extension(path, ("csv", "tsv", "parquet", "feather", "arrow"))
    try:
        if kind in ("csv", "tsv"):
            from pyarrow import csv as arrow_csv

            options = arrow_csv.ParseOptions(delimiter="," if kind == "csv" else "\t")
            table = arrow_csv.read_csv(path, parse_options=options)
        elif kind == "parquet":
            from pyarrow import parquet

            table = parquet.read_table(path)
        else:
            from pyarrow import feather

            table = feather.read_table(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read as {kind}: {str(error).splitlines()[0]}") from error
    twice = [name for name in table.column_names if table.column_names.count(name) > 1]
    if twice:
        raise ValueError(f"{path} has two columns called {twice[0]}; rename one.")
    if table.num_rows == 0:
        raise ValueError(f"{path} has no rows.")
    return table


def _extension(path: Path, known) -> str:
    suffixes = [s.lower().lstrip(".") for s in path.suffixes]
    kind = next((s for s in reversed(suffixes) if s not in ("gz", "bz2", "zst")), "")
    if kind not in known:
        raise ValueError(f"{path} must end in {', '.join('.' + k for k in known)}, to say what it is.")
    return kind


def _column(table, name, what) -> Any:
    if name not in table.column_names:
        near = get_close_matches(name, table.column_names, n=1)
        listed = ", ".join(table.column_names[:8]) + (" and more." if table.num_columns > 8 else ".")
        hint = f"did you mean {near[0]}?" if near else f"it has {listed}"
        raise ValueError(f"The table has no column {name} ({what}); {hint}")
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column


def choose_columns(table, target, columns, drop) -> list[str]:
    """Return the names of the features: those listed, or all but those dropped and the target."""
    if columns and drop:
        raise ValueError("--columns and --drop exclude each other; give one of them.")
    listed = []
    for text in columns or drop or []:
        listed += [text] if text in table.column_names else [s.strip() for s in text.split(",")]
    for name in listed:
        _column(table, name, "--columns" if columns else "--drop")
    if columns:
        if target in listed:
            raise ValueError(f"{target} is the target; leave it out of --columns.")
        return list(dict.fromkeys(listed))
    names = [name for name in table.column_names if name != target and name not in listed]
    if not names:
        raise ValueError("No column is left to predict from; drop fewer.")
    return names


def read_numbers(table, names) -> np.ndarray:
    """Return columns as a matrix, after checking that they hold numbers without gaps."""
    X = np.empty((table.num_rows, len(names)))
    for j, name in enumerate(names):
        column = _column(table, name, "needed by the model")
        if column.null_count:
            raise ValueError(_gaps(name, column.null_count))
        if not _is_number(column.type):
            raise ValueError(
                f"Column {name} holds {column.type}, not numbers; leave it out with --drop {name}, or "
                "encode it as numbers first."
            )
        X[:, j] = column.cast(pa.float64()).to_numpy()
        if not np.isfinite(X[:, j]).all():
            raise ValueError(_gaps(name, np.count_nonzero(~np.isfinite(X[:, j]))))
    return X


def _is_number(kind) -> bool:
    types = pa.types
    return any(is_(kind) for is_ in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _gaps(name, count) -> str:
    values = "value is" if count == 1 else "values are"
    return f"Column {name}: {count:,} {values} missing or infinite; fill them in, or remove those rows."


def read_target(table, name, task) -> tuple[np.ndarray, bool]:
    """Return the target, and whether its values are classes."""
    if task not in ("auto", "classify", "regress"):
        raise ValueError(f"--task is {task}; use auto, classify or regress.")
    column = _column(table, name, "--target")
    if column.null_count:
        raise ValueError(_gaps(name, column.null_count))
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if text or pa.types.is_boolean(column.type):
        if task == "regress":
            raise ValueError(f"Column {name} holds {column.type}, not numbers; use --task classify.")
        values = np.array(column.to_pylist())
        return values, True
    if not _is_number(column.type):
        raise ValueError(f"Column {name} holds {column.type}; the target must be numbers or text.")
    if task == "regress" or not pa.types.is_integer(column.type):
        values = read_numbers(table, [name])[:, 0]
        whole = bool(np.all(values == np.round(values)))
    else:
        values, whole = column.to_numpy(), True
    few = whole and len(np.unique(values)) <= MOST_CLASSES
    if task == "classify" and not whole:
        raise ValueError(f"Column {name} holds fractions, which are no classes; use --task regress.")
    classify = task == "classify" or (task == "auto" and few)
    return (values.astype(int) if classify else values.astype(float)), classify


def named(X, names) -> pa.Table:
    """Return a matrix as a table, so that kernels go by the names of columns."""
    return pa.table([X[:, j] for j in range(len(names))], names=list(names))


def model_rows(model, metadata, table, path):
    """Return the rows of a table as the model wants them: its columns, in its order and scale."""
    if model.combination_.family.pairwise:
        raise ValueError(f"{path} needs precomputed kernels; use it from Python.")
    names = metadata.get("columns", getattr(model, "feature_names_in_", None))
    if names is None:  # fitted in Python, on an array: the columns go by their order
        names = table.column_names
        if len(names) != model.n_features_in_:
            raise ValueError(
                f"{path} was fitted on {model.n_features_in_} columns without names, and the table has "
                f"{len(names)}; keep those columns only, in the same order."
            )
        return read_numbers(table, names)
    X = read_numbers(table, names)
    if "mean" in metadata:
        X = (X - metadata["mean"]) / metadata["scale"]
    return named(X, names)


def write_table(columns: dict[str, np.ndarray], path: Path | None) -> None:
    """Write columns by the ending of the name; CSV to the standard output when there is none."""
    kind = "csv" if path is None else _extension(path, ("csv", "parquet", "feather", "arrow"))
    if kind == "csv":
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        stream = sys.stdout if path is None else open(path, "w", newline="", encoding="utf-8")  # noqa: SIM115
        try:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)
        finally:
            stream.flush() if path is None else stream.close()
        return
    table = pa.table({name: pa.array(values.tolist()) for name, values in columns.items()})
    if kind == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, path)
    else:
        from pyarrow import feather

        feather.write_feather(table, str(path))


# -- fitting -------------------------------------------------------------------------------------------


def split(n, labels, test_size, seed) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the training and of the test rows; classes keep their proportions."""
    from sklearn.model_selection import train_test_split

    if test_size == 0:
        return np.arange(n), np.arange(0)
    if not 0 < test_size < 1:
        raise ValueError(f"--test-size is {test_size:g}; use a share between 0 and 1.")
    if labels is not None:
        values, counts = np.unique(labels, return_counts=True)
        if counts.min() < 2:
            raise ValueError(
                f"Class {values[counts.argmin()]} has a single row, so it cannot be both fitted and tested; "
                "remove it, or fit on all rows with --test-size 0."
            )
    train, test = train_test_split(np.arange(n), test_size=test_size, random_state=seed, stratify=labels)
    return np.sort(train), np.sort(test)


def moments(X) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of every column; a constant one is left at its scale."""
    deviation = X.std(axis=0)
    return X.mean(axis=0), np.where(deviation > 1e-12 * np.abs(X).max(axis=0), deviation, 1.0)


def make_model(classify, kernels, degree, solver, p, loss, C, seed):
    """Return the estimator that the options describe."""
    from . import MKLClassifier, MKLRegressor
    from .families import Products
    from .registry import SOLVERS

    known = ("gaussian", "laplacian", "linear", "products")
    if kernels not in known:
        raise ValueError(f"--kernels is {kernels}; use {', '.join(known[:-1])} or {known[-1]}.")
    if degree is not None and kernels != "products":
        raise ValueError("--degree is for --kernels products; add that, or leave --degree out.")
    family: Any = Products(degree=2 if degree is None else degree) if kernels == "products" else kernels
    if p is not None:
        cls = SOLVERS.get("lp_norm" if solver == "auto" else solver.lower().replace("-", "_"))
        if cls is not None and "p" not in cls().get_params():
            raise ValueError(f"--p is for --solver lp-norm; {solver} has no norm to choose.")
        chosen: Any = solver if cls is None else cls().set_params(p=p)
    else:
        chosen = solver
    options = {
        "solver": chosen,
        "loss": loss.lower().replace("-", "_"),
        "C": C,
        "random_state": seed,
    }
    return (MKLClassifier if classify else MKLRegressor)(family, **options)


def fit_visibly(model, X, y) -> None:
    """Fit with a line of progress on a terminal; what a solver warns of is printed as a note."""
    console = _stderr()
    with warnings.catch_warnings(record=True) as caught, console.status("Fitting ...") as status:
        warnings.simplefilter("always", UserWarning)

        def report(step):
            gap = step.gap / max(abs(step.objective), 1e-300)
            kernels = f"{step.n_kernels:,} kernel{'s' if step.n_kernels != 1 else ''}"
            status.update(f"Fitting: iteration {step.iteration}, relative gap {gap:.1e}, {kernels}")

        model.fit(X, y, on_iteration=report)
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            _note(warning.message)


def held_out(model, X, y, y_train) -> dict[str, Any] | None:
    """Return the score on the test rows, beside that of the best constant for classes."""
    if len(y) == 0:
        return None
    record = {"value": float(model.score(X, y)), "n_rows": len(y)}
    if hasattr(model, "classes_"):
        values, counts = np.unique(y_train, return_counts=True)
        return {
            "name": "accuracy",
            **record,
            "constant": float(np.mean(y == values[counts.argmax()])),
        }
    return {"name": "R²", **record}


# -- screens -------------------------------------------------------------------------------------------


def _stdout() -> Console:
    return Console()


def _stderr() -> Console:
    return Console(stderr=True)


def _note(text) -> None:
    _stderr().print(Text(f"Note: {text}", style="yellow"), soft_wrap=True)


def kernel_table(records: list[dict[str, Any]], top: int = TOP) -> Table:
    """Return the kernels, heaviest first, with the share of each as a number and as a bar."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("Kernel", overflow="fold")
    table.add_column("Weight", justify="right", no_wrap=True)
    table.add_column("Share", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=BAR)
    most = max((r["share"] for r in records), default=0.0) or 1.0
    for record in records[:top]:
        share = record["share"]
        weight = f"{record['weight']:#.4g}" if record["weight"] else "0"
        table.add_row(
            Text(record["kernel"]), weight, f"{100 * share:.1f} %", Text(_bar(share / most), "cyan")
        )
    rest = records[top:]
    if rest:
        unused = sum(r["weight"] == 0 for r in rest)
        note = f"{len(rest):,} more" + (f", {unused:,} of them unused" if 0 < unused < len(rest) else "")
        note += ", unused" if unused == len(rest) else ""
        table.add_row(Text(note, "dim"), "", Text(f"{100 * sum(r['share'] for r in rest):.1f} %", "dim"), "")
    return table


def _bar(part: float) -> str:
    eighths = round(8 * BAR * part)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def facts(pairs: dict[str, str]) -> Table:
    """Return labelled facts, one a line."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in pairs.items():
        grid.add_row(label, Text(text))
    return grid


def describe_gap(model) -> str:
    """Return the relative gap with its kind."""
    if model.gap_kind_ == "none" or not math.isfinite(model.gap_):
        return "none: this solver gives no certificate"
    relative = max(model.gap_, 0.0) / max(abs(model.objective_), 1e-300)
    kind = {"exact": "exact", "estimate": "an estimate", "lower_bound": "a lower bound"}[model.gap_kind_]
    return f"{relative:.1e} of the objective ({kind})" + ("" if model.converged_ else ", not converged")


def print_model(model, metadata, top: int = TOP) -> None:
    """Print the kernel table and what is known about the model."""
    console = _stdout()
    console.print()
    console.print(kernel_table(model.combination_.table(), top))
    console.print()
    pairs = {"Model": f"{type(model).__name__}, {model.solver_!r}, {model.loss_.name} loss, C={model.C:g}"}
    if metadata.get("target") is not None:
        pairs["Target"] = str(metadata["target"])
    if hasattr(model, "classes_"):
        listed = ", ".join(str(c) for c in model.classes_[:12])
        pairs["Classes"] = listed + (", ..." if len(model.classes_) > 12 else "")
    score = metadata.get("score")
    if score:
        pairs["Held-out score"] = f"{score['name']} {score['value']:.4f} on {score['n_rows']:,} rows"
        if "constant" in score:
            pairs["Held-out score"] += f" (the most frequent class: {score['constant']:.4f})"
    pairs["Objective"] = f"{model.objective_:.6g}"
    pairs["Gap"] = describe_gap(model)
    steps = f"{model.n_iter_} iteration{'s' if model.n_iter_ != 1 else ''}"
    if "seconds" in metadata and "n_train" in metadata:
        steps += f", {metadata['seconds']:.1f} s on {metadata['n_train']:,} rows"
    pairs["Fit"] = steps
    console.print(facts(pairs))
    console.print()
    if score and score["value"] <= score.get("constant", 0.0):
        trivial = "the most frequent class" if "constant" in score else "the mean"
        _note(f"On the held-out rows this is no better than predicting {trivial}.")


def _may_write(path: Path, force: bool) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; name a file.")
    if not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"The directory {path.parent} does not exist; create it first.")
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists; add --force to overwrite it, or name another with -o.")


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(size // 1000, 1)} kB"


def _plain(value: Any) -> Any:
    """Return what JSON can hold: arrays as lists, NaN and infinity as null."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
