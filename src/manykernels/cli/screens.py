"""What the command line prints: tables of kernels, facts about a model, notes, JSON."""

from __future__ import annotations

import json
import math
import sys
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .._util.text import as_share
from .beside import fit_of, score_of, target_of

if TYPE_CHECKING:
    from ..problem import GapKind

#: Most rows of a kernel table, unless told.
TOP = 20
#: The kinds of columns, one and several.
KINDS = {"number": "numbers", "category": "categories", "flag": "flags", "date": "dates"}
#: What JSON says of a fit, by the names of attributes.
FACTS = ("C", "objective", "gap", "gap_kind", "n_iter", "converged", "stop_reason", "classes", "intercept")
#: Most columns that are named.
LISTED = 8
#: Width of the longest bar.
BAR = 20
#: Width of the numbers between a name and its bar, with what stands between them.
NUMBERS = 22


class Screen(Console):
    """A console that leaves it to the command what follows when its reader has gone; rich would end the process."""

    def on_broken_pipe(self) -> None:
        """Raise what was raised."""
        raise BrokenPipeError

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; in files and pipes no line ends with the blanks that fill up a table."""
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as lines:
            super().print(*objects, **options)
        self.file.write("".join(line.rstrip() + "\n" for line in lines.get().splitlines()))
        self.file.flush()


def stdout() -> Console:
    """Return a console on what is the standard output now."""
    return Screen()


def stderr() -> Console:
    """Return a console on what is the error stream now."""
    return Screen(stderr=True)


class _Unread:
    """A stream that drops what it cannot write."""

    def __init__(self, stream):
        self._stream = stream

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text) -> int:
        with suppress(OSError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


@contextmanager
def unread() -> Iterator[None]:
    """Go on when nobody reads what is printed, for a command whose result is a file."""
    with redirect_stdout(_Unread(sys.stdout)), redirect_stderr(_Unread(sys.stderr)):  # type: ignore[type-var]
        yield


#: Whether --quiet was given.
_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quietly() -> Iterator[None]:
    """Say nothing but results and errors."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


def is_quiet() -> bool:
    """Whether only results and errors are to be printed."""
    return _QUIET.get()


def say(text: str) -> None:
    """Print one line as it is: brackets in a name are no markup, and a path is not broken."""
    if not is_quiet():
        _print_line(stdout(), text)


def tell(text: str) -> None:
    """Print a line on the error stream, for who waits."""
    if not is_quiet():
        _print_line(stderr(), text)


def note(text) -> None:
    """Print a note on the error stream."""
    if is_quiet():
        return
    _print_line(stderr(), f"Note: {text}", "yellow")


def complain(text: str) -> None:
    """Print an error on the error stream, if anybody reads it."""
    with unread():
        _print_line(stderr(), text, "red")


def _print_line(console: Console, text: str, style: str = "") -> None:
    """Print a sentence: broken between words on a terminal, never within a path; in a log it is one line."""
    if console.is_terminal:
        text = textwrap.fill(text, console.width, break_long_words=False, break_on_hyphens=False)
    console.print(Text(text, style), soft_wrap=True)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Tell on a terminal what is being waited for, until it is there."""
    if is_quiet():
        yield
        return
    with stderr().status(text):
        yield


@contextmanager
def noted() -> Iterator[None]:
    """Print what is warned of as notes, in the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            note(warning.message)


def count(n: int, what: str, several: str = "") -> str:
    """Return a number of things in words."""
    return f"{n:,} {what if n == 1 else several or what + 's'}"


def file_size(path: Path) -> str:
    """Return the size of a file in words."""
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(size // 1000, 1)} kB"


# -- tables --------------------------------------------------------------------------------------------


def plain_table() -> Table:
    """Return an empty table without lines."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")


def kernel_table(records: list[dict[str, Any]], top: int = TOP) -> Table:
    """Return the kernels, heaviest first, with the share of each as a number and as a bar."""
    table = plain_table()
    table.add_column("Kernel", overflow="fold")
    table.add_column("Weight", justify="right", no_wrap=True)
    table.add_column("Share", justify="right", no_wrap=True)
    # Names are whole where bars can be shorter.
    longest = max((len(r["kernel"]) for r in records[:top]), default=0)
    bar = min(max(stdout().width - longest - NUMBERS, BAR // 3), BAR)
    table.add_column("", no_wrap=True, min_width=bar)
    most = max((r["share"] for r in records), default=0.0) or 1.0
    for record in records[:top]:
        share = record["share"]
        weight = f"{record['weight']:#.4g}" if record["weight"] else "0"
        table.add_row(
            Text(record["kernel"]), weight, f"{100 * share:.1f} %", Text(_bar(share / most, bar), "cyan")
        )
    rest = records[top:]
    if rest:
        share = sum(r["share"] for r in rest)
        table.add_row(Text(_count_rest(rest), "dim"), "", Text(f"{100 * share:.1f} %", "dim"), "")
    return table


def _count_rest(rest) -> str:
    unused = sum(r["weight"] == 0 for r in rest)
    if unused == len(rest):
        return f"{len(rest):,} more, unused"
    return f"{len(rest):,} more" + (f", {unused:,} of them unused" if unused else "")


def _bar(part: float, width: int) -> str:
    eighths = round(8 * width * part)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def facts_table(facts: dict[str, str]) -> Table:
    """Return labelled facts, one a line."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in facts.items():
        grid.add_row(label, Text(text))
    return grid


# -- a model -------------------------------------------------------------------------------------------


def print_model(model, metadata, top: int | None = None) -> None:
    """Print the kernel table, by default the kernels in use, and what is known about the model."""
    console = stdout()
    records = model.combination_.records()
    if top is None:
        top = min(TOP, sum(r["weight"] > 0 for r in records) or TOP)
    console.print()
    console.print(kernel_table(records, top))
    console.print()
    console.print(facts_table(model_facts(model, metadata)))
    console.print()
    score = score_of(metadata)
    if score and score["value"] <= score.get("constant", 0.0):
        trivial = "the most frequent class" if "constant" in score else "the mean"
        note(f"On the held-out rows this is no better than predicting {trivial}.")


def model_facts(model, metadata) -> dict[str, str]:
    """Return what is known about a model, by label."""
    facts = {"Model": f"{type(model).__name__}, {model.solver_!r}"}
    fitted, target, score = hasattr(model, "result_"), target_of(metadata), score_of(metadata)
    if fitted:
        facts["Model"] += f", {model.loss_.name.replace('_', ' ')} loss, C={model.C_:g}"
    if target is not None:
        facts["Target"] = target
    if hasattr(model, "columns_"):
        facts["Columns"] = describe_columns(model.columns_)
    if hasattr(model, "classes_"):
        listed = ", ".join(str(c) for c in model.classes_[:12])
        facts["Classes"] = listed + (", ..." if len(model.classes_) > 12 else "")
    if score:
        facts["Held-out score"] = f"{score['name']} {score['value']:z.4f} on {count(score['n_rows'], 'row')}"
        if "constant" in score:
            facts["Held-out score"] += f" (the most frequent class: {score['constant']:.4f})"
    return facts | (_fit_facts(model, metadata) if fitted else {})


def _fit_facts(model, metadata) -> dict[str, str]:
    facts = {"Objective": f"{model.objective_:.6g}", "Gap": describe_gap(model)}
    end = model.result_.ended()
    facts["End"] = end[0].upper() + end[1:]
    facts["Fit"] = count(model.n_iter_, "iteration")
    known = fit_of(metadata)
    if known is not None:
        facts["Fit"] += f", {known[0]:.1f} s on {count(known[1], 'row')}"
    return facts


def describe_columns(columns) -> str:
    """Return how many columns are of which kind, and the names of those that are left out."""
    parts = [
        count(columns.kinds.count(kind), kind, several)
        for kind, several in KINDS.items()
        if kind in columns.kinds
    ]
    gaps = sum(name.endswith(": missing") for name in columns.names_out)
    text = ", ".join(parts) + (f"; {gaps:,} with gaps" if gaps else "")
    out = [name for name, kind in zip(columns.names_in, columns.kinds, strict=True) if kind == "dropped"]
    return text + (f"; left out: {_listed(out)}" if out else "")


def list_columns(columns) -> dict[str, str]:
    """Return what becomes of the columns of a table: their names by kind; of several views, how wide each is."""
    if hasattr(columns, "learned"):
        views = zip(columns.names, columns.widths, strict=True)
        return {"Views": _listed([f"{name} ({count(width, 'column')})" for name, width in views])}
    facts = {}
    for kind, several in (KINDS | {"dropped": "left out"}).items():
        own = [j for j, k in enumerate(columns.kinds) if k == kind]
        if own:
            facts[several.capitalize()] = _listed([_column(columns, j) for j in own])
    return facts


def _column(columns, j: int) -> str:
    """Return the name of a column, with what it has of levels and gaps."""
    known = []
    if columns.kinds[j] == "category":
        known.append(count(len(columns.levels[j]) + len(columns.rare[j]), "level"))
    if f"{columns.names_in[j]}: missing" in columns.names_out:
        known.append("gaps")
    return columns.names_in[j] + (f" ({', '.join(known)})" if known else "")


def _listed(names: list[str]) -> str:
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more:,} more" if more > 0 else "")


def describe_gap(model) -> str:
    """Return the relative gap with its kind."""
    if model.gap_kind_ == "none" or not math.isfinite(model.gap_):
        return "none: this solver gives no certificate"
    return f"{as_share(model.gap_, model.objective_)} of the objective ({_describe_kind(model.gap_kind_)})"


def _describe_kind(kind: GapKind) -> str:
    match kind:
        case "exact":
            return "exact"
        case "estimate":
            return "an estimate"
        case "lower_bound":
            return "a lower bound"
        case "features":
            return "exact, for the random features"
        case "none":
            return "none"
        case _:
            assert_never(kind)


def model_json(model, metadata, top: int | None) -> str:
    """Return what is known about a model as JSON, with the `top` kernels, or all when it is None."""
    loss = getattr(model, "loss_", None)  # what only aligns has none, and no more than a kernel
    record = {
        "estimator": type(model).__name__,
        "solver": repr(model.solver_),
        "loss": None if loss is None else loss.name,
        **{name: getattr(model, f"{name}_", None) for name in FACTS},
        "columns": _kinds(model),
        "n_kernels": len(model.combination_),
        "kernels": model.combination_.records()[:top],
        "metadata": metadata,
    }
    return json.dumps(plain(record), indent=2, ensure_ascii=False)


def _kinds(model) -> dict[str, str] | None:
    """Return what the columns of the table are, None where all are numbers."""
    columns = getattr(model, "columns_", None)
    return None if columns is None else dict(zip(columns.names_in, columns.kinds, strict=True))


def plain(value: Any) -> Any:
    """Return what JSON can hold: arrays as lists, NaN and infinity as null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
