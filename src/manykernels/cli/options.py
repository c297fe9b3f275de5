"""The arguments and options of the command line, with their help; defaults are in the commands."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from .usage import number, whole

#: What --solver may be, besides auto. A copy: the registry imports the solvers, and help should not wait for them.
SOLVER_NAMES = (
    "alignment, blockwise, greedy, greedy-alignment, hessian-mkl, hierarchical, leave-one-out, lp-norm, "
    "mirror-descent, obscure, polynomial-mkl, silp, simple-mkl, single, triply-stochastic, ufo, uniform"
)
#: The largest seed that scikit-learn takes.
MOST_SEED = 2**32 - 1


def _begins(names: str) -> Callable[[str], list[str]]:
    """Return what a shell completes an option by: those of the names that begin so."""
    return lambda incomplete: [name for name in names.split(", ") if name.startswith(incomplete)]


# Of several commands.
Data = Annotated[
    Path,
    Argument(
        help="A table (CSV, TSV, Parquet, Arrow, Feather, Excel, npz, svmlight), a folder of them, or a quoted pattern "
        "such as 'rows/*.csv'.",
        metavar="DATA",
        show_default=False,
    ),
]
Model = Annotated[Path, Argument(help="A model file.", metavar="MODEL", show_default=False)]


def _separator(text: str | None) -> str | None:
    """Return what --sep says; a tab may be written as tab."""
    return "\t" if text in ("tab", "\\t") else text


Separator = Annotated[
    str | None,
    Option(
        "--sep",
        help="What stands between two values of text: comma, tab, ...; told by the text by default.",
        show_default=False,
        callback=_separator,
        metavar="SIGN",
    ),
]
Decimal = Annotated[
    str | None,
    Option(
        help="The decimal mark in text, . or , as the text tells by default.",
        show_default=False,
        metavar="SIGN",
    ),
]
Encoding = Annotated[
    str | None,
    Option(
        help="The encoding of text; UTF-8, UTF-16 and Windows' are told apart by default.",
        show_default=False,
        metavar="NAME",
    ),
]
Quiet = Annotated[
    bool | None,
    Option("--quiet", "-q", help="Print results and errors only: no plan, no progress, no notes."),
]
Debug = Annotated[bool | None, Option("--debug", help="Show the traceback of an error.")]

# Of fit.
Target = Annotated[
    str, Option("--target", "-t", help="The column to predict.", show_default=False, metavar="COLUMN")
]
Kernels = Annotated[
    str,
    Option(
        help="auto or products, for a table of any columns; gaussian, laplacian or linear, of numbers.",
        metavar="NAME",
        autocompletion=_begins("auto, gaussian, laplacian, linear, products"),
    ),
]
Degree = Annotated[
    int | None,
    Option(help="Most factors of a product (kernels: products), 2 by default.", parser=whole(), metavar="N"),
]
Solver = Annotated[
    str,
    Option(help=f"auto, {SOLVER_NAMES}.", metavar="NAME", autocompletion=_begins(f"auto, {SOLVER_NAMES}")),
]
MaxIter = Annotated[
    int | None, Option(help="Most iterations, for solvers that iterate.", parser=whole(1), metavar="N")
]
Norm = Annotated[
    float | None,
    Option(
        help="Norm over kernels, 1 <= p <= 2: the smaller, the sparser (lp-norm).",
        parser=number,
        metavar="NUMBER",
    ),
]
Loss = Annotated[str, Option(help="auto, hinge, logistic, softmax, squared, ...", metavar="NAME")]
Cost = Annotated[
    str,
    Option(
        "--C",
        "-C",
        help="Weight of the losses against the norm, as in SVC: a number, or auto.",
        metavar="NUMBER",
    ),
]
Task = Annotated[
    str,
    Option(
        help="auto, classify or regress.", metavar="NAME", autocompletion=_begins("auto, classify, regress")
    ),
]
Columns = Annotated[
    list[str] | None, Option(help="Use these columns only: a,b,c.", show_default=False, metavar="COLUMNS")
]
Drop = Annotated[
    list[str] | None,
    Option(help="Use all columns but these: id,date.", show_default=False, metavar="COLUMNS"),
]
View = Annotated[
    list[str] | None,
    Option(
        help="Columns that are a source of their own: rna=rna_*; once for each.",
        show_default=False,
        metavar="NAME=PATTERN",
    ),
]
Groups = Annotated[
    str | None,
    Option(
        help="The column with the subject, say, of every row: a subject's rows are held out together.",
        show_default=False,
        metavar="COLUMN",
    ),
]
Memory = Annotated[
    str | None,
    Option(
        help="Memory for a fit on all pairs of rows, as 4GiB; 1 GiB by default.",
        show_default=False,
        metavar="SIZE",
    ),
]
Standardize = Annotated[
    bool,
    Option(help="Bring columns to mean 0 and deviation 1; predict does the same. (auto does so by itself.)"),
]
TestSize = Annotated[
    float,
    Option(
        help="Share of the rows held out for the score; 0 fits on all rows.", parser=number, metavar="SHARE"
    ),
]
SplitSeed = Annotated[
    int,
    Option(
        help="Seed of the split into training and test rows, and of the solver.",
        parser=whole(0, MOST_SEED),
        metavar="N",
    ),
]
InOrder = Annotated[
    bool,
    Option(
        "--in-order",
        help="The rows are in the order of time: hold out the last ones, not some drawn at random, and learn from the "
        "others in their order.",
    ),
]
ModelOutput = Annotated[Path, Option("--output", "-o", help="The model file.", metavar="FILE")]
ModelForce = Annotated[bool, Option("--force", "-f", help="Overwrite the model file.")]
Checkpoint = Annotated[
    Path | None,
    Option(
        help="Where to keep the state of a long fit, to go on from after a break.",
        show_default=False,
        metavar="FILE",
    ),
]

# Of predict.
TableOutput = Annotated[
    Path | None,
    Option(
        "--output",
        "-o",
        help="CSV (.csv.gz: compressed), Parquet or Feather; CSV on the screen by default.",
        metavar="FILE",
    ),
]
TableForce = Annotated[bool, Option("--force", "-f", help="Overwrite the output file.")]
Proba = Annotated[
    bool,
    Option("--proba", help="Add class probabilities, where the model has them: --loss logistic, for one."),
]

# Of show.
Top = Annotated[
    int | None,
    Option(
        help="List this many kernels; by default those in use, 20 at most, and all with --json.",
        parser=whole(0),
        metavar="N",
    ),
]
Json = Annotated[bool, Option("--json", help="Print JSON.")]

# Of explain and report.
By = Annotated[
    str,
    Option(
        help="What to split predictions by: column, kernel or view.",
        metavar="NAME",
        autocompletion=_begins("column, kernel, view"),
    ),
]
TopParts = Annotated[
    int | None,
    Option(
        help="List this many components; by default those that are more than 0.0 %, 15 at most, and all with --json.",
        parser=whole(0),
        metavar="N",
    ),
]
PartsOutput = Annotated[
    Path | None,
    Option(
        "--output",
        "-o",
        help="Write what each prediction is made of: CSV, Parquet or Feather.",
        metavar="FILE",
    ),
]
ReportTarget = Annotated[
    str | None,
    Option(
        "--target",
        "-t",
        help="The target; by default as in the model file.",
        show_default=False,
        metavar="COLUMN",
    ),
]
ReportOutput = Annotated[Path, Option("--output", "-o", help="The HTML file.", metavar="FILE")]

# Of compare.
Methods = Annotated[
    list[str] | None,
    Option(
        help="What to compare: default, a solver, linear, svm, random-forest, hist-gradient-boosting, catboost, "
        "lightgbm, xgboost, explainable-boosting; by default the default, equal weights, and all that are installed.",
        show_default=False,
        metavar="NAMES",
    ),
]
Folds = Annotated[
    int,
    Option(help="Parts that the rows are cut into; each is tested on once.", parser=whole(2), metavar="N"),
]

# Of demo.
DemoOutput = Annotated[Path, Option("--output", "-o", help="The folder to write to.", metavar="FOLDER")]
DemoSeed = Annotated[
    int, Option(help="Seed of the split and of the noise.", parser=whole(0, MOST_SEED), metavar="N")
]


# -- what several commands share -----------------------------------------------------------------------

#: Options by the argument that stands for all of them: what is not given is not in it.
SHARED: dict[str, dict[str, Any]] = {
    "roles": {"columns": Columns, "drop": Drop, "view": View, "groups": Groups},
    "dialect": {"sep": Separator, "decimal": Decimal, "encoding": Encoding},
    "manner": {"quiet": Quiet, "debug": Debug},
}


def parameters(shared: dict[str, Any]) -> list[Parameter]:
    """Return shared options as a function would list them; without a value they are None."""
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in shared.items()
    ]
