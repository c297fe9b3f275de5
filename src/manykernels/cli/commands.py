"""The commands: what each one does with its options, and how its errors are told."""

from __future__ import annotations

import _thread
import functools
import inspect
import os
import re
import signal
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from .. import __version__
from .._util.files import try_replacing
from . import options as options  # typer looks the annotations up in this module
from .usage import Commands

#: What the options of an argument of :data:`options.SHARED` say, by their names.
Shared = dict[str, Any]


def make_application() -> typer.Typer:
    """Return the commands as a typer application."""
    app = typer.Typer(
        name="manykernels",
        cls=Commands,
        help="Learn which kernels to combine, and the predictor on top of them, from a table.",
        epilog="Start with: manykernels demo. A command ends with 0 when all went well, with 2 and one sentence when "
        "it did not, and with 130 after Ctrl-C.",
        no_args_is_help=True,
        rich_markup_mode=None,  # rich's help takes half a second to load
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for command in (fit, predict, show, explain, compare, report, demo):
        app.command()(_as_command(command))
    return app


def _show_version(wanted: bool):
    if wanted:
        typer.echo(f"manykernels {__version__}")
        raise typer.Exit()


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version),
    ] = False,
):
    pass


def _as_command(function):
    """Return what typer takes: arguments of ``options.SHARED`` stand for their options, and errors are sentences."""
    given = inspect.signature(function, eval_str=True).parameters
    shared = {name: options.SHARED[name] for name in (*given, "manner") if name in options.SHARED}

    @functools.wraps(function)
    def run(**words):
        for name, its in shared.items():
            words[name] = {key: value for key in its if (value := words.pop(key)) is not None}
        manner = words.pop("manner")
        _in_one_sentence(function, words, **manner)

    listed: list[inspect.Parameter] = []
    for name in (*given, "manner"):
        listed += options.parameters(shared[name]) if name in shared else [given[name]]
    parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in listed]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _in_one_sentence(function, words: dict[str, Any], quiet: bool = False, debug: bool = False) -> None:
    """Run a command; an exception is one red sentence and exit code 2, unless --debug is given."""
    from .screens import complain, quietly, unread

    try:
        with quietly() if quiet else nullcontext(), unread() if words.get("output") else nullcontext():
            function(**words)
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit() from None
    except KeyboardInterrupt as interrupt:
        complain(f"Interrupted; {_what_is_left(interrupt, **words)}")
        raise typer.Exit(130) from None
    except Exception as error:
        if debug:
            raise
        text = _in_options(_said(error), words) or type(error).__name__
        if not isinstance(error, ValueError | OSError | ImportError):
            text = f"{type(error).__name__}: {text} (--debug shows where.)"
        complain(text)
        raise typer.Exit(2) from None


def _said(error: Exception) -> str:
    """Return what an error says on one line; one of the system that names no file is about the standard output."""
    if isinstance(error, OSError) and error.strerror and error.filename is None:
        return f"The standard output cannot be written ({error.strerror})."
    return " ".join(str(error).split())


def _in_options(text: str, words: dict[str, Any]) -> str:
    """Return a sentence of the library in the words of the command line: X is the table, and parameters are options."""
    text = re.sub(r"^(p|max_iter|degree) of \w+ is (.*?)( or 'auto')?\.$", r"\1 is \2.", text)
    text = re.sub(
        r"^(sep|decimal|encoding|memory|C|loss|solver|p|max_iter|degree) (is|and) ", r"--\1 \2 ", text
    )
    text = re.sub(r"^path is ", "--output is ", text)
    text = re.sub(r"^loss=(.*) is not a loss; (.*), or pass .*$", r"--loss is \1; \2.", text)
    text = text.replace(
        "allowed by memory=; use solver=Blockwise()", "allowed by --memory; use --solver blockwise"
    )
    text = text.replace("--max_iter", "--max-iter").replace(", or a solver.", ".")
    text = text.replace("name the encoding, ", "name the encoding with --encoding ")
    return re.sub(r"^X (has|cannot|holds) ", rf"{words.get('data', 'X')} \1 ", text)


def _what_is_left(interrupt: KeyboardInterrupt, checkpoint: Path | None = None, **_: Any) -> str:
    """Return what is there after Ctrl-C, as the end of a sentence; a command that knows more has said so itself."""
    if interrupt.args:
        return str(interrupt)
    if checkpoint is not None and checkpoint.exists():
        return f"what was done so far is in {checkpoint}, and the same command goes on from there."
    return "nothing was written."


def answer_interrupts() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, once all modules are there: it is up to a solver to keep what it has."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, interrupt)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; a moment later where llvmlite calls back from C, which would print and forget it."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("llvmlite."):
            threading.Timer(0.02, _thread.interrupt_main).start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


# -- commands ------------------------------------------------------------------------------------------


def fit(
    data: options.Data,
    target: options.Target,
    kernels: options.Kernels = "auto",
    degree: options.Degree = None,
    solver: options.Solver = "auto",
    p: options.Norm = None,
    max_iter: options.MaxIter = None,
    loss: options.Loss = "auto",
    C: options.Cost = "auto",
    task: options.Task = "auto",
    memory: options.Memory = None,
    standardize: options.Standardize = True,
    test_size: options.TestSize = 0.25,
    seed: options.SplitSeed = 0,
    in_order: options.InOrder = False,
    output: options.ModelOutput = Path("model.mk"),
    force: options.ModelForce = False,
    checkpoint: options.Checkpoint = None,
    as_json: options.Json = False,
    *,
    roles: Shared,
    dialect: Shared,
):
    """Fit a model to a table. Rows are held out to score it, and it is written to a file."""
    from ..persistence import save
    from .batchwise import fit_batchwise, is_streamed
    from .models import fit_at_once
    from .screens import file_size, model_json, print_model, say

    answer_interrupts()
    if os.path.realpath(output) == os.path.realpath(data):
        raise ValueError(f"{output} is the table to learn from; name another file with -o.")
    may_write(output, force)
    if checkpoint is not None:
        _check_checkpoint(checkpoint, data, output)
    described = {"kernels": kernels, "degree": degree, "solver": solver, "p": p, "max_iter": max_iter}
    described |= {"loss": loss, "C": C, "memory": memory}
    rows: dict[str, Any] = {"roles": roles, "dialect": dialect, "standardize": standardize, "seed": seed}
    rows |= {"test_size": test_size, "described": described}
    if checkpoint is not None or is_streamed(data, solver):
        if in_order:
            raise ValueError(
                f"--in-order is for a table that is read as a whole, and {data.name} is read batch by batch; leave it "
                "out."
            )
        model, metadata = fit_batchwise(data, target, task, **rows, checkpoint=checkpoint)
    else:
        model, metadata = fit_at_once(data, target, task, **rows, in_order=in_order)
    save(model, output, metadata=metadata)
    if as_json:
        print(model_json(model, metadata | {"file": str(output)}, None))
        return
    print_model(model, metadata)
    say(f"Wrote {output} ({file_size(output)}).")


def predict(
    model: options.Model,
    data: options.Data,
    output: options.TableOutput = None,
    proba: options.Proba = False,
    force: options.TableForce = False,
    *,
    dialect: Shared,
):
    """Predict the target of every row of a table."""
    from ..persistence import load, read_metadata
    from ..streaming import predict_batches, prediction_columns, refuse_input
    from .beside import units_of
    from .models import check_model
    from .screens import count, say
    from .tables import open_table_of, table_writer

    answer_interrupts()
    if output is not None:
        refuse_input(output, data)
        may_write(output, force)
    else:
        _need_stdout("name a file with -o")
    writer = table_writer(output)
    fitted, metadata = load(model), read_metadata(model)
    check_model(fitted, model, proba=proba)
    units = units_of(metadata, fitted.n_features_in_, model)
    rows = open_table_of(fitted, units, data, dialect)
    with writer:
        for answer in predict_batches(fitted, rows, method="predict_proba" if proba else "predict"):
            writer.write(prediction_columns(fitted, answer, proba))
        if writer.n_rows == 0:
            raise ValueError(f"{data} has no rows.")
    if output is not None:
        say(f"Wrote {count(writer.n_rows, 'prediction')} to {output}.")


def show(model: options.Model, top: options.Top = None, as_json: options.Json = False):
    """Show what a model file holds. These are its kernels, their weights, its score and how sure the optimum is."""
    from ..persistence import load, read_metadata
    from .screens import model_json, print_model

    answer_interrupts()
    _need_stdout("open it")
    fitted, metadata = load(model), read_metadata(model)
    if as_json:
        print(model_json(fitted, metadata, top))
    else:
        print_model(fitted, metadata, top)


def explain(
    model: options.Model,
    data: options.Data,
    by: options.By = "column",
    top: options.TopParts = None,
    output: options.PartsOutput = None,
    as_json: options.Json = False,
    force: options.TableForce = False,
    *,
    dialect: Shared,
):
    """Explain what a model has found. These are main effects, interactions and views, over a table and for each row."""
    from ..streaming import refuse_input
    from .explain import explain as run

    answer_interrupts()
    if output is not None:
        refuse_input(output, data)
        may_write(output, force)
    run(model, data, dialect, by=by, output=output, top=top, as_json=as_json)


def report(
    model: options.Model,
    data: options.Data,
    target: options.ReportTarget = None,
    output: options.ReportOutput = Path("report.html"),
    force: options.TableForce = False,
    *,
    dialect: Shared,
):
    """Write a report on a model, as one HTML file. It needs the table that the model was fitted on."""
    from .explain import report as run

    answer_interrupts()
    may_write(output, force)
    run(model, data, dialect, target, output)


def compare(
    data: options.Data,
    target: options.Target,
    methods: options.Methods = None,
    folds: options.Folds = 5,
    task: options.Task = "auto",
    seed: options.SplitSeed = 0,
    as_json: options.Json = False,
    *,
    roles: Shared,
    dialect: Shared,
):
    """Compare methods on the same folds of a table. These are the default, our solvers, and libraries installed."""
    from .compare import run

    answer_interrupts()
    run(data, target, task, methods, folds, seed, as_json, roles=roles, dialect=dialect)


def demo(output: options.DemoOutput = Path("demo-output"), seed: options.DemoSeed = 0):
    """See it work. A table of any columns, then several sources, then interactions; takes a minute."""
    from .demo import run

    answer_interrupts()
    run(output, seed)


def may_write(path: Path, force: bool) -> None:
    """Refuse a path that cannot be written to, before any long work."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; name a file.")
    real = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(real)):
        raise FileNotFoundError(f"The directory {path.parent} does not exist; create it first.")
    if os.path.islink(real):  # what is left of a chain of links without an end
        raise OSError(f"{path} is a link that leads in a circle; name another file with -o.")
    if os.path.lexists(real) and not force:
        raise FileExistsError(f"{path} exists; add --force to overwrite it, or name another with -o.")
    if os.path.lexists(real) and not os.path.isfile(real):
        raise OSError(f"{path} is a pipe or a device; name a file.")
    try:
        try_replacing(real)
    except OSError as error:
        raise OSError(f"{path} cannot be written ({error.strerror}); name another file with -o.") from None


def _check_checkpoint(path: Path, data: Path, output: Path) -> None:
    """Refuse a checkpoint in the place of another file, or where none can be written."""
    for other, what in ((data, "the table to learn from"), (output, "the model file")):
        if os.path.realpath(path) == os.path.realpath(other):
            raise ValueError(f"{path} is {what}; name another file with --checkpoint.")
    try:
        may_write(path, force=True)
    except OSError as error:
        raise OSError(f"--checkpoint: {str(error).replace('-o', '--checkpoint')}") from None


def _need_stdout(remedy: str) -> None:
    """Refuse to print to a standard output that was closed from the start."""
    if sys.__stdout__ is None:
        raise OSError(f"The standard output is closed; {remedy}.")
